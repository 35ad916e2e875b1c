"""Figures of the chapter on what drives the cost: each takes outcomes and draws, nothing else."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import claims, plotting
from dplib.architecture import cost_tables
from dplib.architecture.cost_drivers import CLIPPED, SGD, Outcome
from dplib.stats import Comparison

BLUE, ORANGE, GREEN, RED = sns.color_palette("colorblind", 4)


def curve(axes: plt.Axes, x: Sequence[float], outcomes: Sequence[Outcome], **style) -> None:
    """Mean of each outcome with its 95% band."""
    means = [one.mean for one in outcomes]
    axes.plot(x, [m.value for m in means], **style)
    plotting.band(axes, x, [m.low for m in means], [m.high for m in means])


def ladders(
    outcomes: Mapping, wide: Sequence[int], depths: Sequence[int], pairs: Sequence[int], epsilon: float, label: str
) -> None:
    """Figure 12: accuracy along both ladders; stars for He's initial weights, triangles for clipping alone."""
    figure, panels = plt.subplots(1, 2, figsize=plotting.WIDE, sharey=True)
    for axes, kind, sizes in zip(panels, ("width", "depth"), (wide, depths), strict=True):
        for budget, colour, marker, name in (
            (SGD, BLUE, "o", "SGD"),
            (epsilon, ORANGE, "s", f"DP-SGD, ε = {epsilon:g}"),
        ):
            some = [outcomes[kind, size, "keras", budget] for size in sizes]
            at = [one.parameters for one in some] if kind == "width" else sizes
            curve(axes, at, some, marker=marker, color=colour, label=name)
    for depth in pairs:
        for budget, colour in ((SGD, BLUE), (CLIPPED, GREEN), (epsilon, ORANGE)):
            mean = outcomes["depth", depth, "he", budget].mean.value
            panels[1].plot(depth + 0.25, mean, "*", ms=11, color=colour, mec="black", mew=0.5)
        name = "clipped SGD" if depth == pairs[0] else None
        panels[1].plot(depth, outcomes["depth", depth, "keras", CLIPPED].mean.value, "v", color=GREEN, label=name)
    panels[1].plot([], [], "*", ms=11, color="white", mec="black", label="same, He's initial weights")
    panels[0].set(xscale="log", xlabel="parameters, one hidden layer", ylabel=f"test accuracy on {label} (%)")
    panels[1].set(xlabel="hidden layers")
    panels[1].legend(fontsize="small", loc="best")
    figure.tight_layout()
    plt.show()


def frozen_layers(
    perceptron: Mapping,
    epsilons: Sequence[float],
    cnn: Mapping,
    cnn_epsilons: Sequence[float],
    small: float,
    label: str,
) -> None:
    """Figure 10: RWT against full training; crosses for Table VI, marks for smaller networks at the small budget."""
    figure, panels = plt.subplots(1, 2, figsize=plotting.WIDE, sharey=True)
    for axes, outcomes, budgets, name, kind in (
        (panels[0], perceptron, epsilons, ("complex",), "fcn"),
        (panels[1], cnn, cnn_epsilons, (), "cnn"),
    ):
        for last, method, colour in ((None, "normal", ORANGE), (2, "rwt", BLUE)):
            words = "last two trained (RWT)" if last else "all layers trained"
            curve(axes, budgets, [outcomes[(*name, last, b)] for b in budgets], marker="o", color=colour, label=words)
            rows = [claims.get(f"B.table6.{kind}-{size}-{method}").published for size in ("small", "large")]
            axes.plot(
                [r["epsilon"] for r in rows], [r["acc"] for r in rows], "x", color=colour, label="printed (MNIST)"
            )
        axes.set(xscale="log", xlabel="ε")
        axes.set_xticks(budgets, [f"{b:g}" for b in budgets])
        axes.set_xticks([], minor=True)
    panels[0].set(title="perceptron", ylabel=f"test accuracy on {label} (%)")
    panels[1].set(title="convolutional network")
    for (name, _, budget), one in perceptron.items():
        if name != "complex" and budget == small:
            panels[0].plot(budget, one.mean.value, "k_", ms=10)
    panels[0].legend(fontsize="x-small", loc="lower right")
    figure.tight_layout()
    plt.show()


def encodings(
    accuracy: Mapping,
    epsilons: Sequence[float],
    printed: Sequence[float],
    features: Mapping,
    constant: float,
    label: str,
) -> None:
    """Table XVI: mean accuracy of both encodings, band of single releases, printed values, the constant prediction."""
    _, axes = plt.subplots(figsize=plotting.SIZE)
    for encoding, column, colour in (("without", "acc_without", ORANGE), ("one-hot", "acc_with", BLUE)):
        means = [accuracy[encoding, e].mean() for e in epsilons]
        axes.plot(epsilons, means, "o-", color=colour, label=f"{encoding} ({features[encoding]} features)")
        ends = np.array([np.quantile(accuracy[encoding, e], [0.05, 0.95]) for e in epsilons])
        plotting.band(axes, epsilons, *ends.T)
        theirs = [claims.get(f"B.table16.eps{e:g}").published[column] for e in printed]
        axes.plot(printed, theirs, "x", color=colour, mew=2, label=f"{encoding}, printed")
        axes.axhline(accuracy[encoding, None].mean(), color=colour, lw=0.8, ls=":")
    axes.axhline(constant, color="black", lw=1, ls="--")
    axes.text(min(epsilons), constant + 0.8, "always the frequent class", fontsize="small")
    axes.set(xscale="log", xlabel="ε (pure DP)", ylabel=f"test accuracy on {label} (%)")
    axes.legend(fontsize="small", loc="lower right")
    plt.show()


def regression(
    outcomes: Mapping, layers: Sequence[int], units: Sequence[int], epsilon: float, printed: Mapping, constant: float
) -> None:
    """Tables XIV and XV: error against units for each depth, printed values beside it."""
    figure, panels = plt.subplots(1, 2, figsize=plotting.WIDE, sharey=True)
    for axes, budget, title in zip(panels, (SGD, epsilon), ("SGD", f"DP-SGD, ε = {epsilon:g}"), strict=True):
        for depth, colour in zip(layers, sns.color_palette("colorblind", len(layers)), strict=True):
            some = [outcomes[depth, width, "keras", budget] for width in units]
            curve(axes, units, some, marker="o", color=colour, label=f"{depth} layers")
            theirs = [width for width in units if (depth, width) in printed[budget]]
            axes.plot(theirs, [printed[budget][depth, w] for w in theirs], "x--", color=colour, lw=0.8)
        axes.axhline(constant, color="black", lw=1, ls="--")
        axes.set(xscale="log", yscale="log", xlabel="units of each layer", title=title)
        axes.set_xticks(units, [str(w) for w in units])
        axes.set_xticks([], minor=True)
    ticks = [0.05, 0.1, 0.2, 0.5]
    panels[0].set_yticks(ticks, [f"{t:g}" for t in ticks])
    panels[0].set_yticks([], minor=True)
    panels[0].set_ylabel("mean absolute error, rescaled cost")
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    plt.show()


def side_by_side(effects: Mapping[str, Comparison]) -> None:
    """Differences with their intervals; blue and red beyond chance."""
    _, axes = plt.subplots(figsize=(8.5, 0.45 * len(effects) + 1))
    for i, one in enumerate(effects.values()):
        colour = {1: BLUE, -1: RED, 0: "grey"}[cost_tables.sign(one)]
        axes.plot([one.difference.low, one.difference.high], [i, i], color=colour, lw=2)
        axes.plot(one.difference.value, i, "o", color=colour)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(effects)), list(effects))
    axes.invert_yaxis()
    axes.set_xlabel("difference in test accuracy (percentage points)")
    axes.set_xscale("symlog", linthresh=5)
    ticks = [-50, -20, -5, -2, 0, 2, 5, 20, 50]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    plt.show()


def frozen_ladders(width: Mapping, depth: Mapping, profile: str) -> None:
    """Both ladders of a frozen run."""
    figure, panels = plt.subplots(1, 2, figsize=plotting.WIDE, sharey=True)
    for axes, at, some in ((panels[0], width["parameters"], width), (panels[1], depth["depths"], depth)):
        axes.plot(at, some["sgd"], "o-", color=BLUE, label="SGD")
        axes.plot(at, some["private"], "s-", color=ORANGE, label="DP-SGD")
    panels[0].set(xscale="log", xlabel="parameters, one hidden layer", ylabel="test accuracy (%)")
    panels[0].set_title(f"frozen run, {profile} profile")
    panels[1].set(xlabel="hidden layers")
    panels[1].legend()
    figure.tight_layout()
    plt.show()
