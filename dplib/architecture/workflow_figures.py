"""Figures of the workflows: two accuracy curves with their crossing, and who leads where, from plain lists of numbers.

The lists are what a ledger record keeps, so that the same functions draw the run at hand and the frozen one.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.patches import Patch

from dplib import plotting, stats
from dplib.architecture import crossover
from dplib.architecture.crossover import Crossover
from dplib.architecture.workflows import COMPLEX, SIMPLE, Sweep

PALETTE = sns.color_palette("colorblind")
COLOURS = {SIMPLE: PALETTE[0], COMPLEX: PALETTE[1]}
_INFINITE = 1e300  # JSON has no infinity


def curve(sweep: Sweep, model: str, level: float = 0.95) -> dict[str, list[float]]:
    """Mean test accuracy in percent against epsilon, with its interval."""
    epsilons, accuracies = sweep.accuracies(model)
    means = [stats.mean_interval(100 * column, level) for column in accuracies.T]
    return {
        "epsilon": epsilons.tolist(),
        "mean": [m.value for m in means],
        "low": [m.low for m in means],
        "high": [m.high for m in means],
    }


def pair_data(sweep: Sweep, crossing: Crossover, level: float = 0.95) -> dict[str, list[float]]:
    """Both curves of a pair, who leads significantly at each budget, the crossing, and plain SGD where it was run."""
    found: dict[str, list[float]] = {}
    for model, short in ((SIMPLE, "simple"), (COMPLEX, "complex")):
        own = curve(sweep, model, level)
        found["epsilon"] = own.pop("epsilon")
        found |= {f"{short} {name}": values for name, values in own.items()}
        if np.isinf(sweep.runs.epsilon).any():
            found[f"{short} sgd"] = [100 * float(sweep.at(model, None).mean())]
    signs = crossover.significant_signs(sweep.accuracies(SIMPLE)[1], sweep.accuracies(COMPLEX)[1])
    found["leads"] = [int(s) for s in signs]
    found["crossing"] = [min(v, _INFINITE) for v in (crossing.value, crossing.low, crossing.high)]
    return found


def gathered(pairs: Mapping[str, Mapping[str, list]]) -> dict[str, list]:
    """Data of several data sets in one flat mapping, as a ledger record takes it."""
    return {f"{name}: {key}": values for name, one in pairs.items() for key, values in one.items()}


def scattered(data: Mapping[str, list]) -> dict[str, dict[str, list]]:
    """The inverse of :func:`gathered`; the longest curves first."""
    pairs: dict[str, dict[str, list]] = {}
    for key, values in data.items():
        name, _, what = key.partition(": ")
        pairs.setdefault(name, {})[what] = values
    return dict(sorted(pairs.items(), key=lambda item: -len(item[1]["epsilon"])))


def answer(pairs: Mapping[str, Mapping[str, list]], reader: float | None = None) -> plt.Figure:
    """Curves of every data set above, and below one bar each: which model leads at which budget.

    Args:
        pairs: data-set name to :func:`pair_data`.
        reader: the reader's budget, marked in all panels; None: none.
    """
    n = len(pairs)
    columns = min(n, 3)
    lines = -(-n // columns)
    figure = plt.figure(figsize=(max(7.0, 4.0 * columns), 3.6 * lines + 1.0 + 0.42 * n))
    heights = [3.2] * lines + [0.5 + 0.42 * n]
    grid = figure.add_gridspec(lines + 1, columns, height_ratios=heights, hspace=0.5, wspace=0.25)
    for i, (name, one) in enumerate(pairs.items()):
        axes = figure.add_subplot(grid[i // columns, i % columns])
        curves(axes, one, reader)
        axes.set(title=name, ylabel="test accuracy (%)" if i % columns == 0 else "")
        if i == 0:
            axes.legend(fontsize="small", loc="lower right")
    bars(figure.add_subplot(grid[-1, :]), pairs, reader)
    return figure


def curves(axes: plt.Axes, one: Mapping[str, list], reader: float | None = None) -> None:
    """Both models' accuracy against epsilon; short lines at the right edge: plain SGD."""
    at = np.array(one["epsilon"])
    for short, label in (("simple", SIMPLE), ("complex", COMPLEX)):
        axes.plot(at, one[f"{short} mean"], "o-", ms=4, color=COLOURS[label], label=label)
        plotting.band(axes, at, one[f"{short} low"], one[f"{short} high"])
        if f"{short} sgd" in one:
            right = at[-1] * (at[-1] / at[0]) ** 0.08
            axes.plot([right], one[f"{short} sgd"], "_", ms=14, mew=2, color=COLOURS[label])
    value, low, high = one["crossing"]
    if 0 < value < _INFINITE:
        axes.axvspan(max(low, at[0]), min(high, at[-1]), color="grey", alpha=0.15, lw=0)
        axes.axvline(value, color="black", lw=1, ls="--")
    if reader:
        axes.axvline(reader, color="black", lw=1, ls=":")
    axes.set(xscale="log", xlabel="ε")
    _decades(axes, at)


def bars(axes: plt.Axes, pairs: Mapping[str, Mapping[str, list]], reader: float | None = None) -> None:
    """One bar a data set, coloured by the model that leads beyond chance; diamond and line: crossing and interval."""
    everything = np.concatenate([one["epsilon"] for one in pairs.values()])
    first, last = everything.min(), everything.max()
    for row, one in enumerate(pairs.values()):
        at = np.log10(one["epsilon"])
        ends = 10 ** np.concatenate([[at[0] - 0.15], (at[1:] + at[:-1]) / 2, [at[-1] + 0.15]])
        for sign, left, right in zip(one["leads"], ends[:-1], ends[1:], strict=True):
            colour = {1: COLOURS[SIMPLE], -1: COLOURS[COMPLEX], 0: "lightgrey"}[int(sign)]
            axes.barh(row, right - left, left=left, height=0.6, color=colour, edgecolor="white")
        value, low, high = one["crossing"]
        span = np.clip([low, high], ends[0], ends[-1])
        axes.plot(span, [row, row], color="black", lw=1.5)
        if 0 < value < _INFINITE:
            axes.plot(value, row, "D", color="black", ms=6)
        else:
            axes.plot(ends[-1] if value else ends[0], row, ">" if value else "<", color="black", ms=8)
    if reader:
        axes.axvline(reader, color="black", lw=1, ls=":")
    axes.set_yticks(range(len(pairs)), list(pairs))
    axes.set(xscale="log", xlabel="privacy budget ε", ylim=(len(pairs) - 0.4, -0.6))
    axes.grid(False)
    axes.set_xlim(first / 10**0.3, last * 10**0.3)
    _decades(axes, np.array([first, last]))
    marks = [
        Patch(color=COLOURS[SIMPLE], label="use the simple model"),
        Patch(color=COLOURS[COMPLEX], label="use the complex model"),
        Patch(color="lightgrey", label="no difference beyond chance"),
    ]
    axes.legend(
        handles=marks, fontsize="small", ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.55 / len(pairs) - 0.3)
    )


def several(axes: plt.Axes, curves_: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Accuracy of several models against epsilon: model name to :func:`curve`."""
    for i, (name, one) in enumerate(curves_.items()):
        axes.plot(one["epsilon"], one["mean"], "o-", ms=4, color=PALETTE[[2, 0, 4, 3][i % 4]], label=name)
        plotting.band(axes, one["epsilon"], one["low"], one["high"])
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="test accuracy (%)")
    ticks = next(iter(curves_.values()))["epsilon"]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks], fontsize="small", rotation=45)
    axes.set_xticks([], minor=True)
    axes.legend(fontsize="small")


def rates(axes: plt.Axes, points: Mapping[str, Mapping[float, stats.Measured]], own: Mapping[str, float]) -> None:
    """Accuracy in percent against learning rate for each network; stars: the rate ``own`` that validation chose."""
    for model, means in points.items():
        at = sorted(means)
        axes.plot(at, [means[r].value for r in at], "o-", color=COLOURS[model], label=model)
        plotting.band(axes, at, [means[r].low for r in at], [means[r].high for r in at])
        axes.plot(own[model], means[own[model]].value, "*", ms=16, color=COLOURS[model], mec="black")
    ticks = sorted({rate for means in points.values() for rate in means})
    axes.set(xscale="log", xlabel="learning rate", ylabel="test accuracy (%)")
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_xticks([], minor=True)
    axes.legend()


def by_size(axes: plt.Axes, parameters: Sequence[int], lines: Mapping[str, Sequence[stats.Measured]]) -> None:
    """Accuracy in percent against the number of parameters, one line for each way of training."""
    for label, means in lines.items():
        axes.plot(parameters, [m.value for m in means], "o-", label=label)
        plotting.band(axes, parameters, [m.low for m in means], [m.high for m in means])
    axes.set(xscale="log", xlabel="trainable parameters", ylabel="test accuracy (%)")
    axes.legend()


def _decades(axes: plt.Axes, at: np.ndarray) -> None:
    low, high = int(np.floor(np.log10(at.min()))), int(np.ceil(np.log10(at.max())))
    step = 1 if high - low <= 4 else 2
    powers = range(low, high + 1, step)
    axes.set_xticks([10.0**p for p in powers], [f"$10^{{{p}}}$" if abs(p) > 2 else f"{10.0**p:g}" for p in powers])
    axes.set_xticks([], minor=True)
