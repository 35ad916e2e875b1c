"""The crossover epsilon of two models (paper B, Section III-C), estimated from repeated runs, with its interval.

Definition 2 of the paper: of a simple model h1 and a complex one h2 the crossover epsilon is the largest budget at
which the simple one has the lower private error, max S with S = {e : err_e(h1) < err_e(h2)}. Here it is sup S (a
strict inequality between continuous curves leaves S without a maximum), 0 where S is empty (the simple model never
wins; the paper says infinity, and its own rule "use h1 up to the crossover" would then choose h1 always), and infinity
where S is unbounded.

From runs at finitely many budgets: mean curves, made monotone by isotonic regression (more budget cannot hurt a
model that is tuned), straight lines between them in log epsilon, the last change of sign from "simple is better" to
"complex is better". Beyond the budgets that were run nothing is known, and the answer then says so.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from dplib.checks import ParameterError
from dplib.stats import holm

LEVEL = 0.95  # of the intervals


@dataclass(frozen=True)
class Crossover:
    """An estimated crossover epsilon with its 95% bootstrap interval over ``n`` seeds, among budgets that were run.

    0: the simple model wins nowhere from ``lowest`` to ``highest``; inf: it still wins at the largest budget.
    """

    value: float
    low: float
    high: float
    n: int
    lowest: float
    highest: float

    def __str__(self) -> str:
        if self.value == 0:
            head = f"none: the simple model leads nowhere from {self.lowest:g} to {self.highest:g}"
        elif self.value == np.inf:
            head = f"above {self.highest:g}, if there is one"
        else:
            head = f"{self.value:.3g}"
        return f"{head} [{self._end(self.low)}, {self._end(self.high)}]"

    def _end(self, value: float) -> str:
        if value == 0:
            return f"below {self.lowest:g}"
        return f"above {self.highest:g}" if value == np.inf else f"{value:.3g}"


def estimate(
    epsilons: Sequence[float],
    simple: np.ndarray,
    complex: np.ndarray,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    smooth: bool = True,
) -> Crossover:
    """The crossover epsilon of two models, from paired runs.

    The bootstrap draws seeds, whole curves of both models at once: runs of one seed share data split and batches.
    Few seeds make a plain bootstrap interval too narrow; deviations of the resampled curves are therefore stretched by
    t / z * sqrt(n / (n - 1)), the factor that gives Student's interval for a mean (Hesterberg 2015).

    Args:
        epsilons: budgets, increasing, (k,), k >= 2.
        simple, complex: accuracies (seeds, k), row i of both with the same seed; two rows or more.
        resamples: bootstrap samples. smooth: make the mean curves monotone.
    """
    at, simple, complex = _checked(epsilons, simple, complex)
    n = len(simple)
    stretch = stats.t.ppf((1 + LEVEL) / 2, n - 1) / stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(n / (n - 1))
    means = np.stack([simple.mean(axis=0), complex.mean(axis=0)])
    crossings = []
    for rows in rng.integers(n, size=(resamples, n)):
        drawn = np.stack([simple[rows].mean(axis=0), complex[rows].mean(axis=0)])
        crossings.append(_last(at, *(means + stretch * (drawn - means)), smooth))
    # Without interpolation between order statistics: some are infinite.
    low, high = np.quantile(crossings, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    ends = float(np.exp(at[0])), float(np.exp(at[-1]))
    return Crossover(_last(at, *means, smooth), float(low), float(high), n, *ends)


def monotone(mean: np.ndarray) -> np.ndarray:
    """A mean accuracy curve (k,) at increasing budgets made non-decreasing, by isotonic least squares."""
    return optimize.isotonic_regression(mean).x


def significant_signs(simple: np.ndarray, complex: np.ndarray) -> np.ndarray:
    """Who leads at each budget beyond chance: 1 the simple model, -1 the complex one, 0 undecided, (k,).

    Paired t-tests over the seeds, accuracies (seeds, k), with Holm's correction for the k budgets: one wrong sign
    anywhere has probability 5% at most, for differences that are normal.
    """
    gap = simple - complex
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num(gap.mean(axis=0) / (gap.std(axis=0, ddof=1) / np.sqrt(len(gap))), nan=0.0)
    significant = holm(2 * stats.t.sf(np.abs(t), len(gap) - 1)) <= 0.05
    return np.where(significant, np.sign(t), 0).astype(int)


def sign_changes(signs: Sequence[int]) -> int:
    """Changes of sign along a sequence; zeros are skipped."""
    known = [s for s in signs if s]
    return sum(a != b for a, b in itertools.pairwise(known))


def literal(epsilons: Sequence[float], simple: np.ndarray, complex: np.ndarray) -> float:
    """Definition 2 as printed, on the budgets that were run: max S of the raw mean curves, inf where S is empty."""
    at, simple, complex = _checked(epsilons, simple, complex)
    wins = np.flatnonzero(simple.mean(axis=0) > complex.mean(axis=0))
    return float(np.exp(at[wins[-1]])) if len(wins) else np.inf


def _last(at: np.ndarray, simple: np.ndarray, complex: np.ndarray, smooth: bool) -> float:
    """The end of S, by straight lines between the points of two mean curves."""
    gap = monotone(simple) - monotone(complex) if smooth else simple - complex
    if not (gap > 0).any():
        return 0.0
    last = int(np.flatnonzero(gap > 0)[-1])
    if last == len(gap) - 1:
        return np.inf
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(at[last] + share * (at[last + 1] - at[last])))


def _checked(epsilons, simple, complex) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log epsilon (k,) and both accuracies as arrays."""
    epsilons, simple, complex = (np.asarray(a, dtype=float) for a in (epsilons, simple, complex))
    if not (epsilons[0] > 0 and (np.diff(epsilons) > 0).all() and np.isfinite(epsilons).all()):
        raise ParameterError(f"epsilons = {epsilons} is not allowed: finite numbers above 0 that increase.")
    if simple.shape != complex.shape or len(simple) < 2 or simple.shape[1:] != epsilons.shape:
        raise ParameterError(
            f"Accuracies of shape {simple.shape} and {complex.shape} are not {len(epsilons)} by pairs."
        )
    if not np.isfinite([simple, complex]).all():
        raise ParameterError("All accuracies must be finite.")
    return np.log(epsilons), simple, complex
