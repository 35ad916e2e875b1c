"""What runs of DP-SGD and SGD say about paper B's Tables II and XVIII: the rules of the verdicts, row by row."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy import stats as scipy_stats

from dplib import claims, stats
from dplib.architecture import cost_tables, printed_budgets
from dplib.architecture.feature_size_verdicts import elsewhere, joined
from dplib.architecture.feature_tables import Trained
from dplib.architecture.printed_budgets import Setting
from dplib.stats import Comparison, Measured, holm

TABLES = {"table2": "breast-cancer", "table18": "adult"}  # the data sets whose numbers they are, not their captions
COLUMNS = {"acc_sgd": "SGD", "acc_dpsgd": "DP-SGD"}


def table_rows(table: str) -> dict[str, dict]:
    """Printed rows of Table II or XVIII: row id to {"epsilon", "n_features", "acc_sgd", "acc_dpsgd"}."""
    prefix = f"B.{table}."
    return {i.removeprefix(prefix): dict(one.published) for i, one in claims.load("B").items() if i.startswith(prefix)}


def all_row(rows: Mapping[str, Mapping], epsilon: float) -> Mapping:
    """The printed row of all features at a budget."""
    return next(r for r in rows.values() if r["n_features"] == "all" and r["epsilon"] == epsilon)


def printed_sizes(rows: Mapping[str, Mapping], trained: Trained) -> list[int]:
    """Sizes below all that a table prints and that were run; runs have others too, those of the other table."""
    sizes = {row["n_features"] for row in rows.values()}
    return [k for k in trained.sizes[:-1] if k in sizes]


def row_size(row: Mapping, trained: Trained) -> int:
    """The number of features of a printed row."""
    return trained.sizes[-1] if row["n_features"] == "all" else int(row["n_features"])


def subset_gain(trained: Trained, size: int, epsilon: float | None) -> Comparison:
    """A subset minus all features, paired by split."""
    return stats.paired(trained.values[size, epsilon], trained.values[trained.sizes[-1], epsilon])


def best_subset_gain(trained: Trained, sizes: Sequence[int], epsilon: float | None) -> Comparison:
    """The best subset of some sizes (:func:`elsewhere`) minus all features, paired by split."""
    subsets = [trained.values[k, epsilon] for k in sizes]
    return stats.paired(elsewhere(subsets), trained.values[trained.sizes[-1], epsilon])


def corrected(comparisons: Sequence[Comparison]) -> list[int]:
    """1 or -1 where a difference is beyond chance after Holm's correction over all of them, else 0."""
    clear = holm(np.array([one.p_value for one in comparisons])) < 0.05
    return [int(np.sign(one.difference.value)) if c else 0 for one, c in zip(comparisons, clear, strict=True)]


def all_best_with_sgd(tables: Mapping[str, tuple[Trained, Sequence[int]]]) -> tuple[dict[str, str], str]:
    """Of the claim that with SGD all features always give more: by data set, and the verdict over both.

    Args:
        tables: name of a data set to its runs and to the sizes below all. The numbers under the caption and the data
            that it names are not the same, so that both are tried.

    Returns:
        Verdicts by data set (of the signs after Holm's correction over all comparisons). It holds where it does on all
        of them, and with change where it does, in part at least, on one of them.
    """
    pairs = [(name, subset_gain(one, k, None)) for name, (one, sizes) in tables.items() for k in sizes]
    signs = corrected([one for _, one in pairs])
    each = {
        name: cost_tables.signs_verdict([-s for s, (n, _) in zip(signs, pairs, strict=True) if n == name])
        for name in tables
    }
    return each, joined(list(each.values()))


def row_verdict(row: Mapping, printed_all: Mapping, trained: Trained) -> tuple[dict, str, str]:
    """Values, verdict and reason for one printed row.

    Three parts: the two cells (:func:`cell_verdict`) and what the subset gains over all features under DP-SGD
    (:func:`gain_verdict`). The verdict is that of the DP-SGD cell where it does not hold, else of all three
    (:func:`dplib.architecture.feature_size_verdicts.joined`). A change is always named.
    """
    size, epsilon, whole = row_size(row, trained), row["epsilon"], trained.sizes[-1]
    budgets, cells, changes = {"acc_sgd": None, "acc_dpsgd": epsilon}, {}, []
    for column, e in budgets.items():
        values, order = trained.values[size, e], "undecided"
        if size != whole:
            order = cost_tables.order_verdict([subset_gain(trained, size, e)], _expected(row, printed_all, column))
        rate = one_rate(trained, size, e, row[column])
        cells[column] = cell_verdict(values, row[column], order, rate is not None)
        if cells[column] == "holds with change":
            accuracy = f"{COLUMNS[column]} has {values.mean():.2f}% where {row[column]:g}% is printed"
            by = "its order against all features is as printed" if order == "holds" else rate
            changes.append(f"{accuracy}; {by}")
    parts, gain = [cells["acc_sgd"], cells["acc_dpsgd"]], "this is the row of all features"
    values = {c: stats.mean_interval(trained.values[size, e]) for c, e in budgets.items()}
    if size != whole:
        one, theirs = subset_gain(trained, size, epsilon), row["acc_dpsgd"] - printed_all["acc_dpsgd"]
        parts.append(gain_verdict(trained, size, epsilon, theirs))
        gain = f"this subset minus all features under DP-SGD {one}, printed {theirs:+.2f}: {parts[-1]}"
        values["gain over all, DP-SGD"] = one.difference
        if parts[-1] not in ("holds", "undecided"):
            ours = f"{one.difference} points and not {theirs:+.2f}"
            changes.append(f"with a learning rate of its own for every size, the gain over all features is {ours}")
    verdict = parts[1] if parts[1] != "holds" else joined(parts)
    open_gain = parts[-1] == "undecided" and parts[1] == "holds" and size != whole
    constant = float(trained.constant.mean())
    values |= {
        "epsilon": epsilon,
        "n_features": row["n_features"],
        "constant": constant,
        "sd_dpsgd": trained.spread[size, epsilon],
    }
    because = (
        f"Noise for the printed ε, learning rate from validation. SGD: {parts[0]}; DP-SGD: {parts[1]}; {gain}. "
        + (f"Changed: {'; '.join(changes)}. " if verdict == "holds with change" else "")
        + ("The printed gain is further off than one more split would be, and ours has no clear sign. " * open_gain)
        + f"On one more split DP-SGD would be within {new_split(trained.values[size, epsilon]):.1f} points of ours, 95 "
        f"times in 100. DP-SGD minus a constant prediction ({constant:.1f}%): "
        f"{stats.paired(trained.values[size, epsilon], trained.constant)}."
    )
    return values, verdict, because


def _expected(row: Mapping, printed_all: Mapping, column: str) -> int:
    return 1 if row[column] >= printed_all[column] else -1


def new_split(values: np.ndarray) -> float:
    """Half the 95% prediction interval for the value on one more split, from those of n splits, (n,)."""
    n = len(values)
    return float(scipy_stats.t.ppf(0.975, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n))


def cell_verdict(values: np.ndarray, published: float, order: str, another_rate: bool = False) -> str:
    """Of a printed accuracy on one split, from ours on n splits.

    It holds within the prediction interval for one more split, or within 2 points. Beyond that the table's message
    decides (``order``, of :func:`dplib.architecture.cost_tables.order_verdict`); where that is open and ours is higher,
    the verdict is "holds with change" if another learning rate of the grid gives the printed value (``another_rate``;
    none is printed), else "not reproducible as stated"; where ours is lower, "undecided".
    """
    gap = float(values.mean() - published)
    if abs(gap) <= max(cost_tables.TOLERANCE, new_split(values)):
        return "holds"
    if order == "undecided":
        if gap < 0:
            return "undecided"
        return "holds with change" if another_rate else "not reproducible as stated"
    return "holds with change" if order == "holds" else order


def gain_verdict(trained: Trained, size: int, epsilon: float, published: float) -> str:
    """Of a printed gain of a subset over all features, on one split.

    It holds within the prediction interval of the paired gain on one more split, or within 2 points; beyond that, with
    change where ours has the printed sign beyond chance, and it fails where ours has the other one.
    """
    gains = trained.values[size, epsilon] - trained.values[trained.sizes[-1], epsilon]
    if abs(gains.mean() - published) <= max(cost_tables.TOLERANCE, new_split(gains)):
        return "holds"
    order = cost_tables.order_verdict([subset_gain(trained, size, epsilon)], 1 if published >= 0 else -1)
    return "holds with change" if order == "holds" else order


def one_rate(trained: Trained, size: int, epsilon: float | None, published: float) -> str | None:
    """The learning rate of the grid with which validation records come nearest to a printed accuracy, in words; None
    where none comes within 2 points."""
    scores = trained.validation[size, epsilon].mean(axis=1)
    near = int(np.abs(scores - published).argmin())
    if abs(scores[near] - published) > cost_tables.TOLERANCE:
        return None
    return (
        f"on validation records a learning rate of {trained.tried[near]:g} has {scores[near]:.1f}%, the chosen one is "
        f"{trained.rates[size, epsilon]:g}"
    )


def same_rate(trained: Trained, rows: Mapping[str, Mapping], epsilon: float) -> dict:
    """Gains over all features with one learning rate for all sizes, on validation records.

    Of all rates the one whose gains are nearest to the printed ones, by root mean square; so it is a hint of what may
    have been done, and no test.

    Returns:
        "rate"; "distance" in points; "gains": size to (ours, printed).
    """
    whole, best = trained.sizes[-1], None
    printed_all = all_row(rows, epsilon)["acc_dpsgd"]
    printed = {r["n_features"]: r["acc_dpsgd"] - printed_all for r in rows.values() if r["epsilon"] == epsilon}
    sizes = [k for k in trained.sizes[:-1] if k in printed]
    for i, rate in enumerate(trained.tried):
        scores = trained.validation
        ours = [_mean(scores[k, epsilon][i] - scores[whole, epsilon][i]) for k in sizes]
        distance = float(np.sqrt(np.mean([(g.value - printed[k]) ** 2 for g, k in zip(ours, sizes, strict=True)])))
        if best is None or distance < best["distance"]:
            gains = {k: (g, printed[k]) for g, k in zip(ours, sizes, strict=True)}
            best = {"rate": rate, "distance": distance, "gains": gains}
    return best


def _mean(values: np.ndarray) -> Measured:
    """With its interval, where there is more than one value."""
    return stats.mean_interval(values) if len(values) > 1 else Measured(float(values[0]))


def subset_counts(trained: Trained, sizes: Sequence[int], epsilons: Iterable[float]) -> dict[str, int]:
    """Over sizes and budgets: subsets beyond chance better or worse than all features, or than a constant."""
    counts = {"cells": 0, "better": 0, "worse": 0, "above constant": 0, "below constant": 0}
    for e in epsilons:
        for k in sizes:
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
