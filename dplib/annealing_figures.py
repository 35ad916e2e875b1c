"""The figures of chapter 11."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.patches import FancyBboxPatch

from dplib import plotting
from dplib.annealing_tables import DATA, PRIVATE, TITLES
from dplib.stats import Measured

LOOKS = ((0, ":"), (1, "--"), (2, "-."), (3, "-"), (4, "-"), (7, ":"))
STYLES = dict(zip((*PRIVATE, "ours_held", "non_dp"), LOOKS, strict=True))
COUNT_LABELS = {
    "accepted": "ε, accepted updates (as printed)",
    "queries": "ε, all noisy gradients (the same formula)",
    "pld": "ε, all noisy gradients (PLD)",
}


def _style(name: str) -> dict:
    place, line = STYLES[name]
    return {"color": sns.color_palette("colorblind")[place], "ls": line, "label": TITLES[name]}


def work_flow():
    """Figure 2 as a drawing: Algorithm 2 with its two counters."""
    figure, axes = plt.subplots(figsize=(9.5, 3.9))
    boxes = {
        "start": (0.00, 0.62, 0.17, 0.30, "start\n$t = \\tau = \\mu = 0$\n$Q = Q_0$, random $w_0$"),
        "step": (0.22, 0.62, 0.20, 0.30, "DP-SGD step (lines 3-9)\nbatch, clip, noise:\ncandidate $w_{new}$"),
        "energy": (0.47, 0.62, 0.20, 0.30, "energy (10-12)\n$\\Delta E = J(w_{new}) - J(w_t)$\n$P = e^{-Q \\Delta E}$"),
        "test": (0.72, 0.62, 0.26, 0.30, "test (13)\n$u \\leq P$  or  $\\mu \\geq \\mu_0$ ?"),
        "yes": (0.78, 0.08, 0.20, 0.30, "accept (14-16)\n$w_{t+1} = w_{new}$\n$\\tau + 1$,  $\\mu = 0$"),
        "no": (0.50, 0.08, 0.20, 0.30, "reject (18-19)\n$w_{t+1} = w_t$\n$\\mu + 1$"),
        "heat": (0.22, 0.08, 0.20, 0.30, "$t + 1$,  $Q = Q_0 \\tau$\nuntil $t = T$ (21-23)"),
        "end": (0.00, 0.08, 0.17, 0.30, "output\n$w$, and ε by τ"),
    }
    fills = sns.color_palette("pastel")
    for name, (x, y, width, height, text) in boxes.items():
        colour = fills[2] if name == "yes" else fills[3] if name == "no" else fills[7]
        axes.add_patch(
            FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.005", facecolor=colour, edgecolor="0.3")
        )
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)
    arrows = [
        ((0.175, 0.77), (0.215, 0.77), ""), ((0.425, 0.77), (0.465, 0.77), ""), ((0.675, 0.77), (0.715, 0.77), ""),
        ((0.88, 0.61), (0.88, 0.39), "yes"), ((0.78, 0.61), (0.66, 0.39), "  no"), ((0.495, 0.23), (0.425, 0.23), ""),
        ((0.32, 0.39), (0.32, 0.61), "t < T"), ((0.215, 0.23), (0.175, 0.23), ""),
    ]  # fmt: skip
    for start, end, text in arrows:
        axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "color": "0.2"})
        axes.text((start[0] + end[0]) / 2 + 0.01, (start[1] + end[1]) / 2, text, fontsize=8, color="0.2")
    axes.annotate(
        "", xy=(0.42, 0.12), xytext=(0.78, 0.12),
        arrowprops={"arrowstyle": "->", "color": "0.2", "connectionstyle": "arc3,rad=-0.25"},
    )  # fmt: skip
    axes.set(xlim=(-0.02, 1.0), ylim=(-0.06, 0.98))
    axes.axis("off")
    return figure


def paths(example: Mapping[str, Mapping[str, list]], optimum: Sequence[float], curves: pd.DataFrame):
    """Figure 1: one pair of paths, and the distance to the optimum over accepted updates and over gradients.

    Args:
        example: {"plain", "annealed"}: of :func:`dplib.annealing_linear.path`. optimum: (slope, intercept).
        curves: columns method, count ("accepted" or "queries"), steps, mean, low, high.
    """
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4))
    names = {"plain": ("DP-SGD", 0), "annealed": ("annealed", 3)}
    colours = sns.color_palette("colorblind")
    for key, (name, place) in names.items():
        path = example[key]
        left.plot(path["slope"], path["intercept"], "-", lw=0.9, marker="o", ms=2, color=colours[place], label=name)
    left.plot(*optimum, "k*", ms=13, label="least squares")
    left.set(xlabel="slope", ylabel="intercept", title="one seed, kept weights, near the optimum")
    left.set(xlim=(optimum[0] - 0.4, optimum[0] + 0.25), ylim=(optimum[1] - 0.3, optimum[1] + 0.35))
    for axes, count, label in ((middle, "accepted", "accepted updates"), (right, "queries", "noisy gradients")):
        for key, (name, place) in names.items():
            rows = curves[(curves["method"] == key) & (curves["count"] == count)]
            axes.semilogy(rows["steps"], rows["mean"], color=colours[place], label=name)
            plotting.band(axes, rows["steps"], rows["low"], rows["high"])
        axes.set(xlabel=label, ylabel="distance to the optimum")
    for axes in (left, middle):
        axes.legend(fontsize="small")
    figure.tight_layout()
    return figure


def tenths(tables: Mapping[str, Mapping[str, pd.DataFrame]]):
    """Shares by tenth of the run, one panel for each share.

    Args:
        tables: {title of the panel: {name of the line: columns part, mean, low, high in percent}}.
    """
    figure, panels = plt.subplots(1, len(tables), figsize=(5 * len(tables) + 1, 4), squeeze=False, sharex=True)
    for axes, (title, lines) in zip(panels[0], tables.items(), strict=True):
        for name, table in lines.items():
            axes.plot(table["part"], table["mean"], "o-", ms=4, label=name)
            plotting.band(axes, table["part"], table["low"], table["high"])
        axes.set(xlabel="tenth of the noisy gradients", ylabel="share, %", title=title, ylim=(0, 101))
        axes.legend(fontsize="small")
    figure.tight_layout()
    return figure


def against_epsilon(rows: Mapping[str, Mapping[str, Mapping[str, pd.DataFrame]]], column: str):
    """Figure 3: a column of the runs against the budget, a row of panels for each data set, a panel for each count.

    Args:
        rows: {data set: {count: {arm: epsilon, mean, low, high}}}; accuracies as fractions. column: "accuracy" or
            "loss".
    """
    counts = list(next(iter(rows.values())))
    figure, panels = plt.subplots(
        len(rows), len(counts), figsize=(5.2 * len(counts), 3.9 * len(rows)), squeeze=False, sharey="row"
    )
    scale = 100 if column == "accuracy" else 1
    for line, (dataset, by_count) in zip(panels, rows.items(), strict=True):
        for axes, (count, arms) in zip(line, by_count.items(), strict=True):
            for name, table in arms.items():
                axes.plot(table["epsilon"], scale * table["mean"], **_style(name))
                plotting.band(axes, table["epsilon"], scale * table["low"], scale * table["high"])
            axes.set(xlabel=COUNT_LABELS[count], title=DATA[dataset])
            if column == "accuracy":  # the last part of a training is what the claim is about
                best = scale * max(table["mean"].max() for table in arms.values())
                axes.set_ylim(max(0, best - 20), best + 1)
        line[0].set_ylabel("test accuracy, %" if column == "accuracy" else "mean test loss (nats)")
    panels[0][0].legend(fontsize="small", loc="lower right" if column == "accuracy" else "upper right")
    figure.tight_layout()
    return figure


def parameter_study(panels: Mapping[str, Sequence[tuple[float, Measured]]], base: Measured | None = None):
    """Figure 4: accuracy over one parameter at a time.

    Args:
        panels: {label of the axis: (value, accuracy in percent)}. base: at the printed values, drawn across.
    """
    figure, every = plt.subplots(1, len(panels), figsize=(3.4 * len(panels) + 0.6, 3.6), squeeze=False, sharey=True)
    for axes, (label, cells) in zip(every[0], panels.items(), strict=True):
        values, found = zip(*cells, strict=True)
        places = np.arange(len(values))
        axes.plot(places, [m.value for m in found], "o-")
        if all(m.low is not None for m in found):
            plotting.band(axes, places, [m.low for m in found], [m.high for m in found])
        if base is not None:
            axes.axhline(base.value, color="black", ls=":", lw=1.2, label="printed values")
        axes.set(xticks=places, xticklabels=[f"{v:g}" for v in values], xlabel=label)
    every[0][0].set_ylabel("test accuracy, %")
    if base is not None:
        every[0][0].legend(fontsize="small")
    figure.tight_layout()
    return figure


def worth(drifts: Sequence[float], reliabilities: Sequence[float], progress):
    """The one-step model: the fall of the loss for each noisy gradient, screened less plain, over the drift.

    Args:
        progress: (drift, reliability) to :func:`dplib.annealing_theory.progress`.
    """
    figure, axes = plt.subplots(figsize=plotting.SIZE)
    for reliability in reliabilities:
        gain = [(p := progress(m, reliability))["per_query"] - p["plain"] for m in drifts]
        axes.plot(drifts, gain, label=f"reliability {reliability:g}")
    axes.axhline(0, color="black", lw=1)
    axes.set(
        xlabel="mean fall of the loss by a candidate (standard deviations of the measured change)",
        ylabel="extra fall for each noisy gradient",
    )
    axes.legend(fontsize="small")
    figure.tight_layout()
    return figure
