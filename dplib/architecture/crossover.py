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

from dplib import checks
from dplib.checks import ParameterError


@dataclass(frozen=True)
class Crossover:
    """An estimated crossover epsilon.

    Attributes:
        value: the estimate; 0: the simple model wins nowhere in the range; inf: it still wins at the largest budget.
        low, high: percentile bootstrap interval over seeds, with 0 and inf where it leaves the range.
        level: of the interval. n: number of seeds. lowest, highest: the budgets that were run.
        below, above: shares of bootstrap samples without a crossing, because the simple model wins nowhere (below)
            or still wins at the largest budget (above).
        several: share of bootstrap samples in which the smoothed curves cross more than once.
        crossings: sign changes of the estimate itself.
    """

    value: float
    low: float
    high: float
    level: float
    n: int
    lowest: float
    highest: float
    below: float
    above: float
    several: float
    crossings: int

    @property
    def in_range(self) -> bool:
        return 0 < self.value < np.inf

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
    level: float = 0.95,
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
        rng: of the bootstrap. level: of the interval, in (0, 1). resamples: bootstrap samples.
        smooth: make the mean curves monotone.

    Raises:
        ParameterError: for arrays that do not fit, or values that are not finite.
    """
    at, simple, complex = _checked(epsilons, simple, complex)
    checks.fraction().check("level", level)
    checks.integer(100).check("resamples", resamples)
    n = len(simple)
    stretch = stats.t.ppf((1 + level) / 2, n - 1) / stats.norm.ppf((1 + level) / 2) * np.sqrt(n / (n - 1))
    means = np.stack([simple.mean(axis=0), complex.mean(axis=0)])
    value, crossings = _last(at, _gap(*means, smooth))
    found = []
    for rows in rng.integers(n, size=(resamples, n)):
        drawn = np.stack([simple[rows].mean(axis=0), complex[rows].mean(axis=0)])
        found.append(_last(at, _gap(*(means + stretch * (drawn - means)), smooth)))
    values, counts = np.array(found).T
    # Without interpolation between order statistics: some are infinite.
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Crossover(
        value=value,
        low=float(low),
        high=float(high),
        level=level,
        n=n,
        lowest=float(np.exp(at[0])),
        highest=float(np.exp(at[-1])),
        below=float(np.mean(values == 0)),
        above=float(np.mean(values == np.inf)),
        several=float(np.mean(counts > 1)),
        crossings=crossings,
    )


def monotone(mean: np.ndarray) -> np.ndarray:
    """A mean accuracy curve (k,) at increasing budgets made non-decreasing, by isotonic least squares."""
    return optimize.isotonic_regression(mean).x


def significant_signs(simple: np.ndarray, complex: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Who leads at each budget beyond chance: 1 the simple model, -1 the complex one, 0 undecided, (k,).

    Paired t-tests over the seeds with Holm's correction for the k budgets, so that one wrong sign anywhere has
    probability 1 - ``level`` at most, for differences that are normal.

    Args:
        simple, complex: accuracies (seeds, k), paired by row.
    """
    _, simple, complex = _checked(np.arange(1, np.shape(simple)[-1] + 1), simple, complex)
    gap = simple - complex
    spread = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(np.nan_to_num(gap.mean(axis=0) / spread, nan=0.0)), len(gap) - 1)
    order = np.argsort(p)
    passed = p[order] <= (1 - level) / np.arange(len(p), 0, -1)
    significant = np.zeros(len(p), dtype=bool)
    significant[order[: np.argmin(passed) if not passed.all() else len(p)]] = True
    return np.where(significant, np.sign(gap.mean(axis=0)), 0).astype(int)


def sign_changes(signs: Sequence[int]) -> int:
    """Changes of sign along a sequence; zeros are skipped."""
    known = [s for s in signs if s]
    return sum(a != b for a, b in itertools.pairwise(known))


def regret(crossover: float, epsilons: Sequence[float], simple: np.ndarray, complex: np.ndarray) -> np.ndarray:
    """What the rule "simple up to the crossover, complex beyond" loses at each budget to the better mean, (k,) >= 0."""
    at, simple, complex = _checked(epsilons, simple, complex)
    one, two = simple.mean(axis=0), complex.mean(axis=0)
    return np.maximum(one, two) - np.where(np.exp(at) <= crossover, one, two)


def literal(epsilons: Sequence[float], simple: np.ndarray, complex: np.ndarray) -> float:
    """Definition 2 as printed, on the budgets that were run: max S of the raw mean curves, inf where S is empty."""
    at, simple, complex = _checked(epsilons, simple, complex)
    wins = np.flatnonzero(simple.mean(axis=0) > complex.mean(axis=0))
    return float(np.exp(at[wins[-1]])) if len(wins) else np.inf


def _gap(simple: np.ndarray, complex: np.ndarray, smooth: bool) -> np.ndarray:
    if smooth:
        simple, complex = monotone(simple), monotone(complex)
    return simple - complex


def _last(at: np.ndarray, gap: np.ndarray) -> tuple[float, int]:
    """The end of S, by straight lines between the points; and how often the sign changes, zeros skipped."""
    changes = sign_changes(np.sign(gap).astype(int).tolist())
    if not (gap > 0).any():
        return 0.0, changes
    last = int(np.flatnonzero(gap > 0)[-1])
    if last == len(gap) - 1:
        return np.inf, changes
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(at[last] + share * (at[last + 1] - at[last]))), changes


def _checked(epsilons, simple, complex) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log epsilon (k,) and both accuracies as arrays."""
    epsilons, simple, complex = (np.asarray(a, dtype=float) for a in (epsilons, simple, complex))
    if epsilons.ndim != 1 or len(epsilons) < 2 or not (epsilons > 0).all() or not np.isfinite(epsilons).all():
        raise ParameterError(f"epsilons = {epsilons} is not allowed: it must be two or more finite numbers above 0.")
    if (np.diff(epsilons) <= 0).any():
        raise ParameterError(f"epsilons = {epsilons} is not allowed: it must increase.")
    for name, array in (("simple", simple), ("complex", complex)):
        if array.ndim != 2 or array.shape[1] != len(epsilons) or len(array) < 2:
            raise ParameterError(
                f"{name}: shape {array.shape} is not allowed: it must be (seeds, {len(epsilons)}), two seeds or more."
            )
        if not np.isfinite(array).all():
            raise ParameterError(f"{name} is not allowed: all accuracies must be finite.")
    if simple.shape != complex.shape:
        raise ParameterError(f"{len(simple)} and {len(complex)} seeds are not allowed: runs must be paired.")
    return np.log(epsilons), simple, complex
