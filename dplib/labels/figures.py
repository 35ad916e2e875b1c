"""Figures of chapter 9: label-private training over budgets, stages and epochs."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from dplib import plotting, stats

MARKERS = "osD^vPX*"


def method(stages: int) -> str:
    """The paper's name of LP-MST with so many stages."""
    return f"LP-{stages}ST"


def budgets(frame: pd.DataFrame, references: Mapping[str, Sequence[tuple[float, float]]], axes: plt.Axes) -> None:
    """Accuracy over the budget for each number of stages, with 95% intervals over seeds.

    Args:
        frame: columns "epsilon", "stages", "seed", "accuracy" (percent); epsilon inf is drawn as a line across.
        references: name to pairs (epsilon, accuracy) of methods with another guarantee, drawn open.
    """
    palette = sns.color_palette("colorblind")
    finite = frame[np.isfinite(frame["epsilon"])]
    for i, (stages, rows) in enumerate(finite.groupby("stages")):
        cells = [(e, stats.mean_interval(r["accuracy"].to_numpy())) for e, r in rows.groupby("epsilon")]
        x, found = [e for e, _ in cells], [m for _, m in cells]
        axes.plot(x, [m.value for m in found], color=palette[i], marker=MARKERS[i], label=f"{method(stages)} (labels)")
        plotting.band(axes, x, [m.low for m in found], [m.high for m in found])
    without = frame[np.isinf(frame["epsilon"])]["accuracy"]
    if len(without):
        axes.axhline(without.mean(), color="black", ls=":", lw=1.5, label="true labels (ε = ∞)")
    for i, (name, points) in enumerate(references.items()):
        x, y = zip(*points, strict=True)
        axes.plot(
            x,
            y,
            color=palette[7 - i % 4],
            marker=MARKERS[3 + i % 5],
            mfc="white",
            ls="--" if len(x) > 1 else "",
            label=name,
        )
    axes.set(xlabel="ε (of different guarantees: see the text)", ylabel="test accuracy, %")


def stage_counts(frame: pd.DataFrame, axes: plt.Axes) -> None:
    """Accuracy over the number of stages, one line for each budget, with 95% intervals over seeds.

    Args:
        frame: columns "stages", "epsilon", "seed", "accuracy" (percent).
    """
    palette = sns.color_palette("colorblind")
    for i, (epsilon, rows) in enumerate(frame[np.isfinite(frame["epsilon"])].groupby("epsilon")):
        cells = [(t, stats.mean_interval(r["accuracy"].to_numpy())) for t, r in rows.groupby("stages")]
        x, found = [t for t, _ in cells], [m for _, m in cells]
        axes.plot(x, [m.value for m in found], color=palette[i], marker=MARKERS[i % 8], label=f"ε = {epsilon:g}")
        plotting.band(axes, x, [m.low for m in found], [m.high for m in found])
    axes.set(xlabel="stages", ylabel="test accuracy, %", xticks=sorted(frame["stages"].unique()))


def dynamics(one: Sequence, two: Sequence, first_share: float, axes: plt.Axes) -> None:
    """Learning curves as in Figure 3: LP-1ST, and the two stages of LP-2ST with the top-2 accuracy of the first.

    Args:
        one: for each seed, the curve of LP-1ST: rows of top-1, 2, 3 accuracies after each epoch.
        two: for each seed, the two curves of LP-2ST. first_share: of the data, for the legend.
    """
    palette = sns.color_palette("colorblind")
    single = 100 * np.array(one)
    first, second = (100 * np.array([run[t] for run in two]) for t in (0, 1))
    epochs = np.arange(1, single.shape[1] + 1)
    lines = [
        (epochs, single[:, :, 0], palette[0], "-", "LP-1ST"),
        (epochs, first[:, :, 0], palette[1], "-", f"LP-2ST, stage 1 ({first_share:.0%} of the data)"),
        (epochs, first[:, :, 1], palette[1], ":", "the same, top 2"),
        (epochs[-1] + np.arange(1, second.shape[1] + 1), second[:, :, 0], palette[2], "-", "LP-2ST, stage 2"),
    ]
    for x, values, colour, style, label in lines:
        axes.plot(x, values.mean(0), color=colour, ls=style, label=label)
        if len(values) > 1:
            plotting.band(axes, x, values.min(0), values.max(0), color=colour)
    axes.set(xlabel="epoch", ylabel="test accuracy, %")


def stage_gain(frame: pd.DataFrame, more: int, fewer: int) -> pd.DataFrame:
    """Paired differences of accuracy between two numbers of stages, one row for each data set and budget.

    Args:
        frame: columns "dataset", "epsilon", "stages", "seed", "accuracy".

    Returns:
        Columns "dataset", "epsilon", "gain" (a :class:`dplib.stats.Comparison`).
    """
    rows = []
    for (dataset, epsilon), cell in frame.groupby(["dataset", "epsilon"], sort=False):
        by = {t: r.sort_values("seed")["accuracy"].to_numpy() for t, r in cell.groupby("stages")}
        if math.isfinite(epsilon) and more in by and fewer in by:
            rows.append({"dataset": dataset, "epsilon": epsilon, "gain": stats.paired(by[more], by[fewer])})
    return pd.DataFrame(rows, columns=["dataset", "epsilon", "gain"])
