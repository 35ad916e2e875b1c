"""Comparisons by split, for feature selection: accuracies are in percent and one a split, differences paired by split.

Where the best of several candidates is compared, each split takes the one that is best on the *other* splits, so that
the choice does not flatter it.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy import stats as scipy_stats

from dplib import stats
from dplib.architecture.feature_study import Curves
from dplib.stats import Measured, mean_interval

MATTERS = 0.5  # points: a smaller lead matters to nobody


def gap(a, b) -> Measured:
    """a - b by split, with its interval."""
    return stats.paired(np.asarray(a), np.asarray(b)).difference


def elsewhere(values) -> np.ndarray:
    """Of candidates (k, splits): on each split the one that is best on average over the other splits, (splits,).

    (Random splits share records, hence not quite: a test record of one is a training record of others.)
    """
    values = np.asarray(values, dtype=float)
    at = (values.sum(axis=1, keepdims=True) - values).argmax(axis=0)
    return values[at, np.arange(values.shape[1])]


def one_split(values) -> Measured:
    """The mean over n splits with the 95% prediction interval for one more split: what a printed value can be."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    half = float(scipy_stats.t.ppf(0.975, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n))
    return Measured(float(values.mean()), float(values.mean() - half), float(values.mean() + half), n)


def tally(gains: Sequence) -> dict[str, int]:
    """Of differences (splits,), how many are ahead beyond chance (Holm), and how many are no lead that matters."""
    found = [stats.paired(one, np.zeros_like(one)) for one in gains]
    clear = stats.holm(np.array([one.p_value for one in found])) < 0.05
    ahead = [bool(c and one.difference.value > 0) for c, one in zip(clear, found, strict=True)]
    none = [one.difference.high < MATTERS and not a for a, one in zip(ahead, found, strict=True)]
    return {"ahead": sum(ahead), "not_ahead": sum(none), "of": len(found)}


def best_size(curves: Curves, epsilon: float, resamples: int = 1000) -> Measured:
    """The size of the best mean accuracy, with its bootstrap interval over splits."""
    values = curves.of(epsilon).T
    rng = np.random.default_rng(6)
    drawn = [values[rng.integers(len(values), size=len(values))].mean(axis=0).argmax() for _ in range(resamples)]
    low, high = np.quantile(np.array(curves.sizes)[drawn], [0.025, 0.975], method="inverted_cdf")
    return Measured(float(curves.sizes[int(values.mean(axis=0).argmax())]), float(low), float(high), len(values))


def gain(curves: Curves, epsilon: float, size: int, sizes: Sequence[int] | None = None) -> Measured:
    """The best of some sizes (of all, if none are given) less one size."""
    return gap(elsewhere([curves.at(k, epsilon) for k in sizes or curves.sizes]), curves.at(size, epsilon))


def slope(curves: Curves, epsilon: float) -> Measured:
    """Change of accuracy for each further feature: the least-squares line over all sizes, by split."""
    x, values = np.array(curves.sizes, dtype=float), curves.of(epsilon).T
    return mean_interval((values - values.mean(axis=1, keepdims=True)) @ (x - x.mean()) / np.sum((x - x.mean()) ** 2))


def multiples(values, n_test: int = 95) -> int:
    """How many printed percentages are k / n_test for a whole k."""
    return sum(abs(100 * round(value / 100 * n_test) / n_test - value) <= 0.005 + 1e-9 for value in values)


def epsilon_at(curves: Curves, size: int, accuracy: float) -> float:
    """The budget at which a mean curve, made non-decreasing, reaches an accuracy, by lines in log epsilon.

    The first budget where the curve is there from the start, so that the answer is an upper bound; the last one where
    it does not get there, a lower bound.
    """
    mean = np.maximum.accumulate(curves.values[:, curves.sizes.index(size)].mean(axis=0))
    return float(np.exp(np.interp(accuracy, mean, np.log(curves.epsilons))))


def approximate_of_pure(epsilon: float, delta: float) -> float:
    """The least epsilon' such that every epsilon-DP mechanism is (epsilon', delta)-DP.

    Tight for randomised response, which has the largest delta of all epsilon-DP mechanisms at every epsilon':
    (e^epsilon - e^epsilon') / (1 + e^epsilon).
    """
    inside = -delta * (1 + np.exp(-epsilon))
    return float(max(0.0, epsilon + np.log1p(inside))) if inside > -1 else 0.0


def sets_of(m: int) -> list[tuple[int, ...]]:
    """All non-empty subsets of m features."""
    return [one for k in range(1, m + 1) for one in combinations(range(m), k)]
