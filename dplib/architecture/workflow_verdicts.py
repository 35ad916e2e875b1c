"""From measured workflows to verdicts: rules that a chapter applies to many rows of the ledger, and their numbers."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as sps

from dplib import claims, printed, stats
from dplib.architecture.workflows import COMPLEX, PAIRS, SIMPLE, Sweep
from dplib.checks import ParameterError
from dplib.stats import Comparison, Measured

MARGIN = 1.0  # points around a printed accuracy in which our interval agrees: batch and epochs are not the paper's

# The pairs of Table I.
PAIR_ROWS = (
    "cnn-cifar10", "cnn-mnist", "cnn-svhn", "fcn-cifar10", "fcn-mnist", "fcn-svhn", "fcn-fashion-mnist",
    "fcn-purchase100",
)  # fmt: skip


def percent(accuracies: np.ndarray) -> Measured:
    """Mean and 95% interval of accuracies (seeds,), in percent."""
    return stats.mean_interval(100 * np.asarray(accuracies))


def printed_pair(dataset: str) -> dict[str, dict]:
    """What Table I prints for a data set's two networks, by network; empty where it prints nothing."""
    row = PAIRS[dataset].row
    if row is None:
        return {}
    return {m: dict(claims.get(f"B.table1.{row}-{w}").published) for m, w in ((SIMPLE, "paw"), (COMPLEX, "stw"))}


def agreement(measured: Measured, published: float) -> str:
    """How a measured accuracy stands to a printed one: "agrees", "higher", "lower" or "unclear".

    It agrees where the whole interval lies within the margin of the printed value, and is higher or lower where all of
    it lies outside. Else the runs are too few to say: noise is no agreement.
    """
    if published - MARGIN <= measured.low and measured.high <= published + MARGIN:
        return "agrees"
    if measured.low > published + MARGIN:
        return "higher"
    return "lower" if measured.high < published - MARGIN else "unclear"


def backed(comparison: Comparison, published: float) -> int:
    """1 where the measured gap has the printed sign beyond chance, -1 where it has the other one, 0 otherwise."""
    sign = 1 if comparison.difference.low > 0 else -1 if comparison.difference.high < 0 else 0
    return sign if published > 0 else -sign


def cells_verdict(
    says: Sequence[str], gaps: Sequence[int] = (), stand_in: bool = False, *, settled: bool = True
) -> str:
    """Verdict of a table's row from :func:`agreement` of its accuracies and :func:`backed` of its gaps.

    Measured *higher* in the paper's own setting (``settled``) says that the printed value is not what the network can
    do there; with another batch and length it says nothing. *Lower* may be our short training. On a stand-in only the
    signs of gaps compare.
    """
    if stand_in:
        return "holds with change" if gaps and all(g == 1 for g in gaps) else "undecided"
    if -1 in gaps:
        return "fails"
    if "higher" in says and settled:
        return "not reproducible as stated"
    return "holds" if set(says) == {"agrees"} and all(g == 1 for g in gaps) else "undecided"


def ratios() -> list[float]:
    """Parameters of the complex over those of the simple network for each of :data:`PAIR_ROWS`, from their layers."""
    known = printed.ARCHITECTURES
    return [known[f"{row}-stw"].parameters / known[f"{row}-paw"].parameters for row in PAIR_ROWS]


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Spearman's correlation and its exact two-sided p-value over all pairings (at most 9 pairs, no ties)."""
    x, y = (sps.rankdata(v) - (len(v) + 1) / 2 for v in (a, b))
    orders = np.array(list(itertools.permutations(range(len(x)))))
    every = x[orders] @ y / (x @ x)
    found = float(x @ y / (x @ x))
    return found, float(np.mean(np.abs(every) >= abs(found) - 1e-12))


def decomposition(sweep: Sweep) -> dict[str, int]:
    """Equation (4) over all budgets and seeds of a sweep, by counting.

    Returns:
        "comparisons"; "identity_broken": the two sides of the equivalence disagree; "necessary_broken": the simple
        network has the handicap, wins, and does not pay less; "cheaper_but_not_better": it pays less, but is not
        better.
    """
    counts = dict.fromkeys(("comparisons", "identity_broken", "necessary_broken", "cheaper_but_not_better"), 0)
    free1, free2 = (np.round(1 - sweep.at(m, None), 9) for m in (SIMPLE, COMPLEX))
    for e in sweep.epsilons:
        private1, private2 = (np.round(1 - sweep.at(m, e), 9) for m in (SIMPLE, COMPLEX))
        cost1, cost2 = np.round(private1 - free1, 9), np.round(private2 - free2, 9)
        wins, says = private1 < private2, cost1 < np.round(cost2 - (free1 - free2), 9)
        handicap, cheaper = free2 <= free1, cost1 < cost2
        counts["comparisons"] += len(wins)
        counts["identity_broken"] += int((wins != says).sum())
        counts["necessary_broken"] += int((handicap & wins & ~cheaper).sum())
        counts["cheaper_but_not_better"] += int((handicap & cheaper & ~wins).sum())
    return counts


@dataclass(frozen=True)
class Choice:
    """Which of several models to use, from paired runs at one budget.

    Attributes:
        best, second: the models with the highest mean *validation* accuracies.
        lead: of the best over the second on *test* data, which had no say in the order, in points.
        use: the best where it leads beyond chance, and else the smaller of the two.
    """

    best: str
    second: str
    lead: stats.Comparison
    use: str

    @property
    def clear(self) -> bool:
        """The 95% interval of the lead is above 0."""
        return self.lead.difference.low > 0


def choose(
    validation: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray], parameters: Mapping[str, int]
) -> Choice:
    """The model to use, from accuracies (seeds,) of each model with the same seeds, and their sizes.

    Raises:
        ParameterError: for fewer than two models.
    """
    if len(validation) < 2:
        raise ParameterError(f"{len(validation)} model(s) leave no choice: two or more are needed.")
    best, second = sorted(validation, key=lambda name: -float(np.mean(validation[name])))[:2]
    lead = stats.paired(100 * np.asarray(test[best]), 100 * np.asarray(test[second]))
    smaller = min((best, second), key=lambda name: parameters[name])
    return Choice(best, second, lead, best if lead.difference.low > 0 else smaller)


def best_of(values: np.ndarray, k: int = 3) -> float:
    """Expected maximum of ``k`` runs drawn without replacement from ``values`` (n,): what best-of-k reports.

    Raises:
        ParameterError: for fewer than k values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if len(ordered) < k:
        raise ParameterError(f"{len(ordered)} runs are too few for the best of {k}.")
    # The i-th smallest (from 0) is the maximum of the k drawn with probability C(i, k-1) / C(n, k).
    weights = np.array([math.comb(i, k - 1) for i in range(len(ordered))]) / math.comb(len(ordered), k)
    return float(weights @ ordered)


def names(some: Iterable[str]) -> str:
    """Names in a row, or "none"."""
    return ", ".join(some) or "none"
