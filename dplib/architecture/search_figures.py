"""Figures of the chapter on architecture search."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import plotting, stats
from dplib.architecture.search import Found

NAMES = {"paas": "PAAS", "rs": "RS", "mgrs": "MGRS"}
COLOURS = dict(zip(NAMES, sns.color_palette("colorblind", 3), strict=True))


def trace(found: Found, axes: plt.Axes) -> None:
    """Fitness and accuracy of every candidate of one search, generation by generation."""
    generation = np.array([c.generation for c in found.trace])
    place = np.arange(1, len(generation) + 1)
    validation = np.array([100 * c.validation for c in found.trace])
    fitness = np.array([100 * c.fitness for c in found.trace])
    new = np.array([c.new for c in found.trace])
    blue, orange = sns.color_palette("colorblind", 2)
    axes.vlines(place, validation, fitness, color="grey", lw=0.8)
    axes.plot(place, fitness, "_", color="black", ms=7, label="with noise: what the search saw")
    axes.plot(place[new], validation[new], "o", color=blue, ms=5, label="validation, trained anew")
    axes.plot(place[~new], validation[~new], "o", mfc="white", color=orange, ms=5, label="validation, remembered")
    for first in np.flatnonzero(np.diff(generation)) + 1.5:
        axes.axvline(first, color="grey", lw=0.6, ls=":")
    axes.set(xlabel="candidate, generation after generation", ylabel="accuracy, %")
    low = min(np.quantile(validation, 0.15), np.median(validation) - 5)
    axes.set_ylim(low, max(validation.max(), fitness.max()) + 0.5)
    axes.legend(fontsize="small", loc="lower right")


def best_of(ks: Sequence[int], curves: Mapping[str, np.ndarray], points: Sequence[tuple], axes: plt.Axes) -> None:
    """Accuracy of the best of k draws against k.

    Args:
        curves: label to values (splits, len(ks)).
        points: (label, colour, x values, y values) of searches, one per split.
    """
    for label, values in curves.items():
        mean = [stats.mean_interval(column) for column in values.T]
        axes.plot(ks, [m.value for m in mean], label=label)
        plotting.band(axes, ks, [m.low for m in mean], [m.high for m in mean])
    for label, colour, x, y in points:
        interval = stats.mean_interval(y)
        axes.errorbar(
            np.mean(x),
            interval.value,
            [[interval.value - interval.low], [interval.high - interval.value]],
            fmt="D",
            color=colour,
            label=label,
        )
    axes.set(xscale="log", xlabel="candidates drawn, k (diamonds: trainings)", ylabel="accuracy, %")
    axes.legend(fontsize="small")


def pareto(rows: Mapping[str, tuple[float, stats.Measured, float]], axes: plt.Axes) -> None:
    """Accuracy against trainings, and epsilon beside each point.

    Args:
        rows: search to (mean trainings, accuracy in per cent, epsilon of the whole search).
    """
    for name, (trainings, accuracy, epsilon) in rows.items():
        colour = COLOURS.get(name, "black")
        axes.errorbar(
            trainings,
            accuracy.value,
            [[accuracy.value - accuracy.low], [accuracy.high - accuracy.value]],
            fmt="o",
            color=colour,
            label=f"{NAMES.get(name, name)}: ε = {epsilon:.3g}",
        )
    axes.set(xscale="log", xlabel="trainings of one search", ylabel="test accuracy of the network found, %")
    places = [trainings for trainings, *_ in rows.values()]
    axes.set_xticks(places, [f"{place:.0f}" for place in places])
    axes.minorticks_off()
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def released(accuracies: Mapping[str, np.ndarray], axes: plt.Axes) -> None:
    """Accuracy of released models at one total budget: an interval and every split's dot for each arm."""
    for place, (_name, values) in enumerate(accuracies.items()):
        m = stats.mean_interval(values)
        axes.plot(values, np.full(len(values), place), "o", color="grey", ms=4, alpha=0.6)
        axes.errorbar(m.value, place, xerr=[[m.value - m.low], [m.high - m.value]], fmt="D", capsize=3)
    axes.set(yticks=range(len(accuracies)), yticklabels=list(accuracies), xlabel="test accuracy, %")
    axes.set_ylim(len(accuracies) - 0.5, -0.5)  # the first on top, also where panels share the axis
