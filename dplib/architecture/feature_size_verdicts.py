"""What curves over the number of features say about paper B's statements: the rules of the verdicts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dplib import stats
from dplib.architecture import cost_tables
from dplib.architecture.crossover import Crossover
from dplib.architecture.feature_figures import Curves
from dplib.stats import Comparison, Measured


@dataclass(frozen=True)
class Best:
    """The best size at one budget.

    Attributes:
        size: with the best mean accuracy, and its 95% bootstrap interval over the splits.
        accuracy: its mean, which is a little too good, as it is the largest of many.
        over_one, over_all: what the best size gains over one feature and over all, by :func:`gain_over`.
    """

    size: Measured
    accuracy: Measured
    over_one: Comparison
    over_all: Comparison


def best(curves: Curves, epsilon: float, rng: np.random.Generator) -> Best:
    """:class:`Best` of a curve at one budget; the curve has the sizes 1 and "all" among others."""
    size = cost_tables.bootstrap_best(curves.sizes, curves.of(epsilon), rng)
    accuracy = stats.mean_interval(curves.at(int(size.value), epsilon))
    return Best(size, accuracy, *(gain_over(curves, epsilon, k) for k in (curves.sizes[0], curves.sizes[-1])))


def gain_over(curves: Curves, epsilon: float, size: int) -> Comparison:
    """Best size minus ``size``, in points, paired by split.

    On each split the size that is best on the *other* splits is taken, so the gain is not flattered by the choice.
    """
    return stats.paired(elsewhere(curves.of(epsilon).T), curves.at(size, epsilon))


def gain_of(curves: Curves, sizes: Sequence[int], epsilon: float) -> Comparison:
    """The best of some sizes (:func:`elsewhere`) minus the last of them, paired by split."""
    return stats.paired(elsewhere([curves.at(k, epsilon) for k in sizes]), curves.at(sizes[-1], epsilon))


def over_constant(curves: Curves, epsilon: float) -> Comparison:
    """Best size (:func:`elsewhere`) minus always predicting the more frequent class, paired by split."""
    return stats.paired(elsewhere(curves.of(epsilon).T), curves.constant)


def elsewhere(values) -> np.ndarray:
    """Of candidates (k, splits): on each split the one that is best on average over the *other* splits, (splits,).

    So the choice does not flatter the value. (Random splits share records, hence not quite: a test record of one is a
    training record of others.)
    """
    values = np.asarray(values, dtype=float)
    return values[elsewhere_index(values), np.arange(values.shape[1])]


def elsewhere_index(values: np.ndarray) -> np.ndarray:
    """Of candidates (k, splits): on each split the number of the one that :func:`elsewhere` takes, (splits,)."""
    return (values.sum(axis=1, keepdims=True) - values).argmax(axis=0)


def slope(curves: Curves, epsilon: float) -> Measured:
    """Change of accuracy for each further feature, in points: the least-squares line over all sizes, by split."""
    x = np.array(curves.sizes, dtype=float)
    values = curves.of(epsilon)
    found = (values - values.mean(axis=1, keepdims=True)) @ (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    return stats.mean_interval(found)


def best_size_verdict(readings: Sequence[Curves], claimed: Iterable[tuple[float, int]]) -> str:
    """Of a claim that at each budget a size is the best: it holds where no claimed size is worse than the best
    one beyond chance, and with change where that is so for some of them.

    Args:
        readings: curves by different readings of the claim; a size is worse where it is so in all that have its budget.
    """
    worse = [all(cost_tables.sign(gain_over(c, e, k)) > 0 for c in readings if e in c.epsilons) for e, k in claimed]
    return "fails" if all(worse) else "holds with change" if any(worse) else "holds"


def rising_first(curves: Curves, epsilon: float) -> Comparison:
    """Best size (chosen on the other splits) minus one feature: by how much a curve rises before it falls."""
    return gain_over(curves, epsilon, curves.sizes[0])


def falling(curves: Curves, epsilons: Sequence[float]) -> str:
    """Of a claim that accuracy falls with the number of features: by the sign of :func:`slope` at each budget.

    With change where the line falls, but the curve rises first beyond chance (:func:`rising_first`) at some budget.
    """
    slopes = [slope(curves, e) for e in epsilons]
    if all(s.high < 0 for s in slopes):
        rises = any(cost_tables.sign(rising_first(curves, e)) > 0 for e in epsilons)
        return "holds with change" if rises else "holds"
    return "fails" if any(s.low > 0 for s in slopes) else "undecided"


def single(gains: Iterable[Comparison], margin: float = 0.5) -> str:
    """Of a claim that one feature is best at some budgets, from what the best size gains over it at each of them.

    It holds where the gain is not above ``margin`` points, within its interval, at any; it fails where it is above 0
    beyond chance at all. Between, it holds with change where it does at some budget, else it is undecided.
    """
    gains = [one.difference for one in gains]
    near = [one.high <= margin for one in gains]
    if all(near):
        return "holds"
    if all(one.low > 0 for one in gains):
        return "fails"
    return "holds with change" if any(near) else "undecided"


def beyond_crossover(gain: Comparison, crossings: Iterable[Crossover], epsilon: float) -> str:
    """Of a claim that at a budget a subset beats all features, so that the crossover is beyond it.

    The first part decides as signs do. Where it holds, the claim does so if all crossovers are beyond the budget, each
    with its interval; else with change, as the subset of the first part is then another one than that of the crossover.
    """
    if cost_tables.sign(gain) <= 0:
        return "fails" if gain.difference.high <= 0 else "undecided"
    return "holds" if all(one.low > epsilon for one in crossings) else "holds with change"


def middle(found: Best, d: int, share: float = 0.1) -> str:
    """Of a claim that a strict subset of middling size is best: it beats one feature and all of them beyond chance.

    With change where its size may be as small as ``share`` of all: that is few features, not the middle.
    """
    if all(cost_tables.sign(gain) > 0 for gain in (found.over_one, found.over_all)):
        return "holds" if found.size.low > share * d else "holds with change"
    return "fails" if found.size.high <= 1 or found.size.low >= d else "undecided"


def joined(verdicts: Sequence[str]) -> str:
    """One verdict for parts that a claim joins by "and".

    Theirs where they agree. Where a part holds: "undecided" if another one is, else "holds with change". Where none
    holds: "fails" if a part does, whatever the open ones would say, else "undecided".
    """
    if len(set(verdicts)) == 1:
        return verdicts[0]
    if any(v.startswith("holds") for v in verdicts):
        return "undecided" if "undecided" in verdicts else "holds with change"
    return "fails" if "fails" in verdicts else "undecided"


def range_verdict(low: float, high: float, crossing: Crossover) -> str:
    """Of a printed range for a crossover: it holds where our estimate lies inside, fails where our bootstrap interval
    lies outside altogether, and is else undecided."""
    if low <= crossing.value <= high:
        return "holds"
    return "fails" if crossing.high < low or crossing.low > high else "undecided"


def epsilon_at(curve: Curves, size: int, accuracy: float) -> float:
    """The budget at which a mean curve, made non-decreasing, reaches an accuracy, by lines in log epsilon.

    The first budget where the curve is there from the start, so that the answer is an upper bound; inf where it does
    not get there.
    """
    mean = np.maximum.accumulate(curve.values[:, curve.sizes.index(size)].mean(axis=0))
    if accuracy <= mean[0]:
        return float(curve.epsilons[0])
    if accuracy > mean[-1]:
        return float("inf")
    i = int(np.argmax(mean >= accuracy))
    share = (accuracy - mean[i - 1]) / (mean[i] - mean[i - 1])
    return float(np.exp((1 - share) * np.log(curve.epsilons[i - 1]) + share * np.log(curve.epsilons[i])))


def approximate_of_pure(epsilon: float, delta: float) -> float:
    """The least epsilon' such that every epsilon-DP mechanism is (epsilon', delta)-DP.

    Tight for randomised response, which has the largest delta of all epsilon-DP mechanisms at every epsilon':
    (e^epsilon - e^epsilon') / (1 + e^epsilon).
    """
    inside = -delta * (1 + np.exp(-epsilon))
    return float(max(0.0, epsilon + np.log1p(inside))) if inside > -1 else 0.0
