"""What curves over the number of features, and Tables II and XVIII, say about paper B's statements; verdict rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as scipy_stats

from dplib import claims, cost_tables, printed_budgets, stats
from dplib.crossover import Crossover
from dplib.feature_figures import Curves
from dplib.feature_tables import Trained
from dplib.printed_budgets import Setting
from dplib.stats import Comparison, Measured

TABLES = {"table2": "breast-cancer", "table18": "adult"}  # the data sets whose numbers they are, not their captions


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


def elsewhere(values) -> np.ndarray:
    """Of candidates (k, splits): on each split the one that is best on average over the *other* splits, (splits,).

    So the choice does not flatter the value. (Random splits share records, hence not quite: a test record of one is a
    training record of others.)
    """
    values = np.asarray(values, dtype=float)
    others = values.sum(axis=1, keepdims=True) - values
    return values[others.argmax(axis=0), np.arange(values.shape[1])]


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


def falling(curves: Curves, epsilons: Iterable[float]) -> str:
    """Of a claim that accuracy falls with the number of features: by the sign of :func:`slope` at each budget."""
    slopes = [slope(curves, e) for e in epsilons]
    if all(s.high < 0 for s in slopes):
        return "holds"
    return "fails" if any(s.low > 0 for s in slopes) else "undecided"


def middle(found: Best, d: int) -> str:
    """Of a claim that a strict subset of more than one feature is best: it beats both ends beyond chance."""
    if all(cost_tables.sign(gain) > 0 for gain in (found.over_one, found.over_all)):
        return "holds"
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


def table_rows(table: str) -> dict[str, dict]:
    """Printed rows of Table II or XVIII: row id to {"epsilon", "n_features", "acc_sgd", "acc_dpsgd"}."""
    prefix = f"B.{table}."
    return {i.removeprefix(prefix): dict(one.published) for i, one in claims.load("B").items() if i.startswith(prefix)}


def row_size(row: Mapping, trained: Trained) -> int:
    """The number of features of a printed row."""
    return trained.sizes[-1] if row["n_features"] == "all" else int(row["n_features"])


def subset_gain(trained: Trained, size: int, epsilon: float | None) -> Comparison:
    """A subset minus all features, paired by split."""
    return stats.paired(trained.values[size, epsilon], trained.values[trained.sizes[-1], epsilon])


def best_subset_gain(trained: Trained, epsilon: float | None) -> Comparison:
    """The best subset (:func:`elsewhere`) minus all features, paired by split."""
    subsets = [trained.values[k, epsilon] for k in trained.sizes[:-1]]
    return stats.paired(elsewhere(subsets), trained.values[trained.sizes[-1], epsilon])


def row_verdict(row: Mapping, printed_all: float, trained: Trained) -> tuple[dict, str, str]:
    """Values, verdict and reason for one printed row, cell by cell (:func:`cell_verdict`)."""
    size, epsilon = row_size(row, trained), row["epsilon"]
    accuracies = {"acc_sgd": trained.values[size, None], "acc_dpsgd": trained.values[size, epsilon]}
    constant = float(trained.constant.mean())
    over_constant = stats.paired(accuracies["acc_dpsgd"], trained.constant)
    if size == trained.sizes[-1]:
        order, gain = "undecided", "this is the row of all features"
    else:
        one = subset_gain(trained, size, epsilon)
        order = cost_tables.order_verdict([one], 1 if row["acc_dpsgd"] >= printed_all else -1)
        gain = f"this subset minus all features under DP-SGD {one}, printed {row['acc_dpsgd'] - printed_all:+.2f}"
    cells = [cell_verdict(values, row[c], order) for c, values in accuracies.items()]
    values = {
        **{c: stats.mean_interval(one) for c, one in accuracies.items()},
        "epsilon": epsilon,
        "n_features": row["n_features"],
        "constant": constant,
        "sd_dpsgd": trained.spread[size, epsilon],
    }
    because = (
        f"Noise for the printed ε, learning rate from validation. SGD: {cells[0]}; DP-SGD: {cells[1]}; {gain}. On one "
        f"more split DP-SGD would be within {new_split(accuracies['acc_dpsgd']):.1f} points of ours, 95 times in 100. "
        f"DP-SGD minus a constant prediction ({constant:.1f}%): {over_constant}."
    )
    return values, joined(cells), because


def new_split(values: np.ndarray) -> float:
    """Half the 95% prediction interval for the accuracy on one more split, from those of n splits, (n,)."""
    n = len(values)
    return float(scipy_stats.t.ppf(0.975, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n))


def cell_verdict(values: np.ndarray, published: float, order: str) -> str:
    """Of a printed accuracy on one split, from ours on n splits.

    It holds within the prediction interval for one more split, or within 2 points. Beyond that the table's message
    decides (``order``, of :func:`dplib.cost_tables.order_verdict`); where that is open, the printed value is "not
    reproducible as stated" if ours is higher, and the verdict "undecided" if ours is lower.
    """
    gap = float(values.mean() - published)
    if abs(gap) <= max(cost_tables.TOLERANCE, new_split(values)):
        return "holds"
    if order == "undecided":
        return "not reproducible as stated" if gap > 0 else "undecided"
    return "holds with change" if order == "holds" else order


def subset_counts(trained: Trained, epsilons: Iterable[float]) -> dict[str, int]:
    """Over sizes below all and budgets: subsets beyond chance better or worse than all features, or than a constant."""
    counts = {"cells": 0, "better": 0, "worse": 0, "above constant": 0, "below constant": 0}
    for e in epsilons:
        for k in trained.sizes[:-1]:
            against = cost_tables.sign(subset_gain(trained, k, e))
            constant = cost_tables.sign(stats.paired(trained.values[k, e], trained.constant))
            counts["cells"] += 1
            counts["better"] += against > 0
            counts["worse"] += against < 0
            counts["above constant"] += constant > 0
            counts["below constant"] += constant < 0
    return counts


def printed_settings(epsilon: str, n: int, batch: int = 250, epochs: int = 40, delta: float = 1e-5) -> dict:
    """What the paper's tool needs for a printed budget; batches of more than n records become full batches.

    Returns:
        "noise": of the noise multipliers that a person may type in, the one whose budget comes nearest; "epsilon": what
        the tool prints for it; "exact": whether that rounds to the printed one; "floor": the least that it can print.
    """
    noises = printed_budgets.WIDE_NOISES
    found = [printed_budgets.tool_epsilon(Setting(n, min(batch, n), epochs, float(s), delta)) for s in noises]
    nearest = int(np.abs(np.log(np.maximum(found, 1e-12) / float(epsilon))).argmin())
    return {
        "noise": float(noises[nearest]),
        "epsilon": float(found[nearest]),
        "exact": printed_budgets.rounds_to(float(found[nearest]), epsilon),
        "floor": printed_budgets.tool_floor(delta),
    }


def multiples(values: Iterable[float], n_test: int = 95) -> dict[float, int | None]:
    """Printed percentages to the k for which k / n_test rounds to them, None where there is none."""
    nearest = {value: round(value / 100 * n_test) for value in values}
    return {value: k if abs(100 * k / n_test - value) <= 0.005 + 1e-9 else None for value, k in nearest.items()}


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
