"""Accuracy against the number of features (paper B, Figures 3 and 4): the orders, the curves, and what they say.

A *curve* is a set of accuracies over sizes and budgets, one for each random split of the records; draws of the noise on
one split are averaged first, since they share the split. Intervals and tests are over splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import plotting, stats, study
from dplib.architecture import feature_data, feature_sweeps
from dplib.architecture.crossover import Crossover
from dplib.architecture.feature_order import merit_orders
from dplib.checks import ParameterError

BLOCK = 12  # sizes that one job takes
PLAIN = feature_sweeps.PLAIN
TUNING = 1000  # the first seed of the splits on which a setting is chosen
HELD_OUT = 0.2  # share of their training part on which it is chosen


@dataclass(frozen=True, eq=False)
class Curves:
    """Test accuracies in percent.

    Attributes:
        dataset: of :func:`dplib.architecture.feature_data.load`.
        sizes: numbers of features, rising. epsilons: budgets, rising; the last may be PLAIN, "without privacy".
        values: shape (splits, sizes, epsilons), means over the draws of each split.
        constant: shape (splits,), accuracy of predicting the more frequent class.
        draws: of the noise on each split, for small and for large subsets. spent: the largest true epsilon over the one
            asked for, inf where it is unbounded. cpu_seconds: of all runs.
    """

    dataset: str
    sizes: list[int]
    epsilons: list[float]
    values: np.ndarray
    constant: np.ndarray
    draws: tuple[int, int]
    spent: float
    cpu_seconds: float

    def at(self, size: int, epsilon: float) -> np.ndarray:
        """Accuracies (splits,) of one cell."""
        return self.values[:, self.sizes.index(size), self.epsilons.index(epsilon)]

    def of(self, epsilon: float) -> np.ndarray:
        """Accuracies (splits, sizes) at one budget."""
        return self.values[:, :, self.epsilons.index(epsilon)]


def forward_orders(
    dataset: str, splits: int, epsilon: float | None, largest: int, draws: int, hold_outs: int, workers: int = 1
) -> tuple[list[list[int]], float]:
    """:func:`dplib.architecture.feature_sweeps.forward_order` on each split, and the processor seconds."""
    shared = {"dataset": dataset, "epsilon": epsilon, "largest": largest, "draws": draws, "hold_outs": hold_outs}
    jobs = [{**shared, "seed": seed} for seed in range(splits)]
    inputs = feature_data.checksums(dataset)
    found = study.run(feature_sweeps.forward_order, jobs, workers=workers, inputs=inputs, what="searches")
    return [one["order"] for one in found], sum(one["cpu_seconds"] for one in found)


def curves(
    dataset: str,
    orders: Sequence[Sequence[int]],
    sizes: Sequence[int],
    epsilons: Sequence[float],
    draws: tuple[int, int],
    workers: int = 1,
    first_seed: int = 0,
    **settings,
) -> Curves:
    """Accuracies of the first features of each split's order.

    Args:
        orders: one for each split; the seeds of the splits count up from ``first_seed``.
        sizes: rising. epsilons: rising.
        draws: of the noise on each split, for subsets of up to BLOCK features and for larger ones.
        settings: others of :func:`dplib.architecture.feature_sweeps.accuracies`.
    """
    sizes, epsilons = [int(k) for k in sizes], [float(e) for e in epsilons]
    if sizes != sorted(set(sizes)) or epsilons != sorted(set(epsilons)):
        raise ParameterError(f"sizes = {sizes} and epsilons = {epsilons} must rise.")
    small, large = [k for k in sizes if k <= BLOCK], [k for k in sizes if k > BLOCK]
    blocks = [(small, draws[0])] if small else []
    blocks += [(large[i : i + BLOCK], draws[1]) for i in range(0, len(large), BLOCK)]
    jobs = [
        {"dataset": dataset, "seed": seed, "subsets": [list(order[:k]) for k in block], "epsilons": epsilons,
         "draws": count, **settings}
        for seed, order in enumerate(orders, first_seed)
        for block, count in blocks
    ]  # fmt: skip
    inputs = feature_data.checksums(dataset)
    found = study.run(feature_sweeps.accuracies, jobs, workers=workers, inputs=inputs, what="curves")
    by_split = [found[i : i + len(blocks)] for i in range(0, len(found), len(blocks))]
    return Curves(
        dataset,
        sizes,
        epsilons,
        (100 * np.array([np.concatenate([one["mean"] for one in split]) for split in by_split])).round(6),
        (100 * np.array([split[0]["constant"] for split in by_split])).round(6),
        draws,
        max(np.inf if one["spent"] is None else one["spent"] for one in found),
        sum(one["cpu_seconds"] for one in found),
    )


def tuned(
    dataset: str,
    sizes: Sequence[int],
    epsilons: Sequence[float],
    regularisations: Sequence[float],
    draws: tuple[int, int],
    *,
    splits: int,
    tuning: int,
    workers: int = 1,
    **settings,
) -> tuple[Curves, np.ndarray]:
    """Curves of CFS-Greedy's subsets where each cell has the regularisation that validation chose for it.

    Chosen on validation records of ``tuning`` splits other than the ``splits`` of the report (they draw from the same
    records). Also returns what was chosen, (sizes, epsilons).
    """
    held_out = round(HELD_OUT * len(feature_data.load(dataset).y_train))

    def each(seeds, validation):
        orders = merit_orders(dataset, seeds)
        some = {"first_seed": seeds[0], "validation": validation, **settings}
        return [
            curves(dataset, orders, sizes, epsilons, draws, workers, regularisation=float(one), **some)
            for one in regularisations
        ]

    scored, reported = each(range(TUNING, TUNING + tuning), held_out), each(range(splits), 0)
    best = np.argmax([one.values.mean(axis=0) for one in scored], axis=0)
    values = np.take_along_axis(np.stack([one.values for one in reported]), best[None, None], axis=0)[0]
    seconds = sum(one.cpu_seconds for one in [*scored, *reported])
    return replace(reported[0], values=values, cpu_seconds=seconds), np.asarray(regularisations, dtype=float)[best]


def by_size(panels: Mapping[str, Curves], claimed: Mapping[str, tuple[float, int]], ylabel: str) -> None:
    """Figures 3 and 4: accuracy against the number of features, one panel for each set, one line for each budget.

    Args:
        panels: title to curves. claimed: title to the budget and size that the paper names as its best.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.6), squeeze=False)
    for ax, (title, one) in zip(axes[0], panels.items(), strict=True):
        colours = [*sns.color_palette("viridis", len(one.epsilons) - 1), "black"]
        for epsilon, colour in zip(one.epsilons, colours, strict=True):
            low, mean, high = _band(one.of(epsilon))
            label = "no noise" if epsilon >= 1e6 else f"ε = {epsilon:g}"
            ax.plot(one.sizes, mean, color=colour, lw=1.4, label=label)
            plotting.band(ax, one.sizes, low, high)
            ax.plot(one.sizes[int(mean.argmax())], mean.max(), "*", color=colour, ms=11, mec="black", mew=0.6)
        ax.axhline(one.constant.mean(), color="black", lw=1, ls="--")
        if title in claimed:
            epsilon, size = claimed[title]
            ax.axvline(size, color="grey", lw=1, ls=":")
            label = f" printed best at ε = {epsilon:g}"
            ax.text(size, 1, label, fontsize="x-small", va="bottom", ha="center", transform=ax.get_xaxis_transform())
        ax.set(xscale="log", xlabel="features, in the order of CFS-Greedy", title=f"{title}\n")
        ticks = [k for k in (1, 2, 5, 10, 20, 43, 108) if k <= one.sizes[-1]]
        ax.set_xticks(ticks, [str(k) for k in ticks])
        ax.set_xticks([], minor=True)
        ax.legend(fontsize="x-small", loc="lower left", ncols=2)
    axes[0, 0].set_ylabel(ylabel)
    figure.tight_layout()
    plt.show()


def crossings(
    panels: Mapping[str, tuple[Curves, Crossover]], printed: Mapping[str, tuple[float, float]], ylabel: str
) -> None:
    """A small subset against all features over ε, with the estimated crossover and the printed range.

    Args:
        panels: title to curves of two sizes and their crossover. printed: title to the range that the paper gives.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.2), squeeze=False)
    for ax, (title, (one, found)) in zip(axes[0], panels.items(), strict=True):
        for size, colour, marker in zip(one.sizes, sns.color_palette("colorblind", 2), "os", strict=True):
            low, mean, high = _band(one.values[:, one.sizes.index(size)])
            ax.plot(one.epsilons, mean, marker=marker, ms=4, color=colour, label=_features(size, one.sizes[-1]))
            plotting.band(ax, one.epsilons, low, high)
        if found.in_range:
            ax.axvline(found.value, color="black", lw=1, ls="--", label="crossover, 95% interval grey")
            ax.axvspan(
                max(found.low, one.epsilons[0]), min(found.high, one.epsilons[-1]), color="grey", alpha=0.25, lw=0
            )
        if title in printed:
            ax.axvspan(*printed[title], facecolor="none", edgecolor="C3", hatch="///", lw=0, label="printed range")
        ax.axhline(one.constant.mean(), color="black", lw=1, ls=":", label="always the frequent class")
        ax.set(xscale="log", xlabel="ε (pure, one record replaced)", title=title)
        ax.legend(fontsize="x-small", loc="lower right")
    axes[0, 0].set_ylabel(ylabel)
    figure.tight_layout()
    plt.show()


def _band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low end, mean and high end of the 95% interval over the first axis."""
    some = [stats.mean_interval(column) for column in values.T]
    return tuple(np.array([getattr(one, end) for one in some]) for end in ("low", "value", "high"))


def _features(size: int, d: int) -> str:
    return f"all {size} features" if size == d and size > 12 else "one feature" if size == 1 else f"{size} features"
