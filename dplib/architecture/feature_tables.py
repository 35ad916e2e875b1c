"""Paper B's Tables II and XVIII from runs: DP-SGD on subsets of the features, each at its own tuned learning rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import plotting, stats, study
from dplib.architecture import feature_data, feature_sgd
from dplib.architecture.feature_figures import HELD_OUT, TUNING
from dplib.architecture.feature_order import merit_orders

NAMES = {"table2": "Table II", "table18": "Table XVIII"}


@dataclass(frozen=True, eq=False)
class Trained:
    """DP-SGD and SGD on subsets.

    Attributes:
        dataset, sizes: as asked for, sizes without those that exceed the number of features.
        values: (size, epsilon) to test accuracies in percent, shape (splits,), means over the draws of the noise;
            epsilon None is plain SGD.
        spread: (size, epsilon) to the standard deviation over all draws and splits.
        rates: (size, epsilon) to the learning rate that validation chose. edges: cells where it lies at an end.
        tried: all rates. validation: (size, epsilon) to the accuracies on validation records by which it was chosen,
            shape (rates, tuning splits).
        noise: epsilon to noise multiplier. constant: shape (splits,). cpu_seconds: of all runs.
    """

    dataset: str
    sizes: list[int]
    values: dict[tuple[int, float | None], np.ndarray]
    spread: dict[tuple[int, float | None], float]
    rates: dict[tuple[int, float | None], float]
    edges: list[tuple[int, float | None]]
    tried: list[float]
    validation: dict[tuple[int, float | None], np.ndarray]
    noise: dict[float | None, float]
    constant: np.ndarray
    cpu_seconds: float


def trained(
    dataset: str,
    sizes: Sequence[int],
    epsilons: Sequence[float],
    rates: Sequence[float],
    *,
    splits: int,
    tuning: int,
    draws: int,
    batch: int,
    epochs: int,
    delta: float,
    workers: int = 1,
) -> Trained:
    """Choose each cell's learning rate on validation records of ``tuning`` splits, then train on ``splits`` others.

    The columns are the first ones of CFS-Greedy on each split's own training part. The splits draw from the same
    records, so that a validation record of one is a test record of another: one number for each cell is chosen so.
    """
    d = feature_data.load(dataset).d
    sizes = [k for k in sorted(set(sizes)) if k <= d]
    budgets = [*epsilons, None]
    shared = {"dataset": dataset, "draws": draws, "batch": batch, "epochs": epochs, "delta": delta}
    held_out = round(HELD_OUT * len(feature_data.load(dataset).y_train))
    inputs = feature_data.checksums(dataset)

    def runs(seeds, models_of, validation):
        orders = merit_orders(dataset, seeds)
        jobs = [
            {**shared, "seed": seed, "columns": order[:k], "models": models_of(k), "validation": validation}
            for k in sizes
            for seed, order in zip(seeds, orders, strict=True)
        ]
        found = study.run(feature_sgd.train, jobs, workers=workers, inputs=inputs, what="DP-SGD runs")
        return [found[i * len(seeds) : (i + 1) * len(seeds)] for i in range(len(sizes))], found

    every = [[e, float(rate)] for e in budgets for rate in rates]
    by_size, first = runs(range(TUNING, TUNING + tuning), lambda k: every, held_out)
    chosen, edges, scores = {}, [], {}
    for k, some in zip(sizes, by_size, strict=True):
        found = 100 * np.array([[np.mean(a) for a in one["accuracy"]] for one in some])
        for e, score in zip(budgets, found.reshape(tuning, len(budgets), -1).transpose(1, 2, 0), strict=True):
            top = int(score.mean(axis=1).argmax())
            chosen[k, e], scores[k, e] = float(rates[top]), score.round(6)
            edges += [(k, e)] if top in (0, len(rates) - 1) else []
    by_size, second = runs(range(splits), lambda k: [[e, chosen[k, e]] for e in budgets], 0)
    values, spread = {}, {}
    for k, some in zip(sizes, by_size, strict=True):
        for i, e in enumerate(budgets):
            accuracy = 100 * np.array([one["accuracy"][i] for one in some])
            values[k, e], spread[k, e] = accuracy.mean(axis=1).round(6), float(accuracy.std(ddof=1))
    return Trained(
        dataset,
        sizes,
        values,
        spread,
        chosen,
        edges,
        [float(rate) for rate in rates],
        scores,
        dict(zip(budgets, second[0]["noise"], strict=True)),
        (100 * np.array([one["constant"] for one in by_size[0]])).round(6),
        sum(one["cpu_seconds"] for one in [*first, *second]),
    )


def figure(tables: Mapping[str, Trained], printed: Mapping[str, Mapping], ylabel: str) -> None:
    """Accuracy by DP-SGD against the number of features, one panel for each table.

    Args:
        tables: name of a table to the runs. printed: the same to its rows, as
            :func:`dplib.architecture.feature_table_verdicts.table_rows` gives them.
    """
    _, axes = plt.subplots(1, len(tables), figsize=(5.2 * len(tables), 4.4), squeeze=False)
    for ax, (name, one) in zip(axes[0], tables.items(), strict=True):
        rows = list(printed[name].values())
        budgets = list(dict.fromkeys(row["epsilon"] for row in rows))
        for e, colour in zip([*budgets, None], [*sns.color_palette("colorblind", len(budgets)), "grey"], strict=True):
            some = [stats.mean_interval(one.values[k, e]) for k in one.sizes]
            ax.plot(one.sizes, [m.value for m in some], "o-", ms=4, color=colour, label=f"ε = {e:g}" if e else "SGD")
            plotting.band(ax, one.sizes, [m.low for m in some], [m.high for m in some])
            column = "acc_dpsgd" if e else "acc_sgd"
            theirs = [row for row in rows if e in (row["epsilon"], None)]
            at = [one.sizes[-1] if row["n_features"] == "all" else row["n_features"] for row in theirs]
            ax.plot(at, [row[column] for row in theirs], "x", color=colour, mew=2)
        ax.axhline(one.constant.mean(), color="black", lw=1, ls="--")
        ax.set(xlabel="features, in the order of CFS-Greedy", title=f"{NAMES[name]}: {one.dataset}")
        ax.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(budgets) + 1)
    axes[0, 0].set_ylabel(ylabel)
    plt.tight_layout()
    plt.show()
