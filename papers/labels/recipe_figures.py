"""The figures of chapter 9b, from values to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from papers.labels import law_rows, recipe_rows

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read


def stages(measured: Mapping[str, Mapping[str, Any]]) -> None:
    """What a second stage gains at each epsilon, beside its rivals: points on CIFAR-10 features, stars on ratings."""
    features, ratings = measured["C.table1.lp-2st"], measured["C.s-movielens-improves"]
    above = {
        "one\nstage": _by_epsilon(features, "less_one_stage_eps"),
        "two stages,\nno prior": _by_epsilon(features, "less_no_prior_eps"),
    }
    below = {
        "one\nstage": _by_epsilon(ratings, "LP-2ST_minus_LP-1ST_eps_", times=-1),
        "no\nnetwork": _by_epsilon(ratings, "LP-2ST_minus_biases_eps_", times=-1),
    }
    figure, panels = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
    words = ("CIFAR-10, points of accuracy", "ratings, error saved (stars)")
    for axes, rivals, unit in zip(panels, (above, below), words, strict=True):
        axes.axhline(0, color="black", lw=1)
        for label, gains in rivals.items():
            axes.plot(gains["ε"], gains["mean"], marker="o", label=label)
            plotting.band(axes, gains["ε"], gains["low"], gains["high"])
        axes.set(xlabel="ε", ylabel=unit)
        axes.set_xlim(right=1.03 * axes.dataLim.x1)  # names stand outside
    panels[0].set_title("What two stages gain over …")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=36, size=12)
    plt.show()


def _by_epsilon(values: Mapping[str, Any], prefix: str, times: int = 1) -> pd.DataFrame:
    """Means and intervals of the values whose name is the prefix and an epsilon, in its order; ``times`` -1 turns
    a loss into a gain.
    """
    by_epsilon = {float(name.removeprefix(prefix)): value for name, value in values.items() if name.startswith(prefix)}
    rows = [(e, times * v.value, *sorted((times * v.low, times * v.high))) for e, v in sorted(by_epsilon.items())]
    return pd.DataFrame(rows, columns=["ε", "mean", "low", "high"])


def law(heads: law_rows.Points, networks: law_rows.Points, a: float, b: float, least_gap: float = 1.0) -> None:
    """The share of the gap that a second stage closes against the log-loss of its prior, and the line a - b H.

    A dot is a cell, of means over its seeds; cells with a gap below ``least_gap`` points are left out: their share is
    noise.
    """
    grey, orange = "0.55", sns.color_palette("colorblind")[1]
    _, axes = plt.subplots(figsize=(WIDTH, 4.2))
    axes.axhline(0, color="black", lw=1)
    ends = []
    for of, colour, marker in ((heads.mean(), grey, "o"), (networks.mean(), orange, "s")):
        shown = of.gap[:, 0] >= least_gap
        axes.plot(of.loss[shown, 0], 100 * (of.gain / of.gap)[shown, 0], marker, color=colour, ms=7)
        ends += [of.loss[shown].min(), of.loss[shown].max()]
    line = np.array([min(ends), max(ends)])
    axes.plot(line, 100 * (a - b * line), color="0.25", lw=2)
    axes.text(0.03, 0.2, "heads", color="0.4", size=12, transform=axes.transAxes)
    axes.text(0.03, 0.12, "networks", color=orange, size=12, transform=axes.transAxes)
    axes.text(0.03, 0.04, "line: the law, fitted on heads", color="0.25", size=12, transform=axes.transAxes)
    axes.set(xlabel="log-loss of the first stage's prior, nats", ylabel="share of the gap closed, %")
    plt.show()


def parts(measured: Mapping[str, Mapping[str, Any]]) -> None:
    """What each part of the recipe gains, with its interval; orange: a loss beyond chance."""
    wanted = {
        "labels of stage 1\nused again": ("stage1-reuse-and-filter", "both_minus_stage_2_only"),
        "…, and filtered": ("stage1-reuse-and-filter", "both_filtered_minus_both"),
        "warm start": ("stage2-warm-start", "warm_minus_fresh"),
        "more in stage 1": ("split-above-half", "50_to_70_minus_up_to_40"),
        "temperature below 1": ("prior-temperature", "chosen_minus_1"),
        "temperature above 1": ("prior-temperature", "above_1_minus_1"),
        "strong mixup": ("mixup", "mixup_4_to_8_minus_none"),
    }
    gains = {name: measured[f"C.s-{row}"].get(value) for name, (row, value) in wanted.items()}
    known = {name: value for name, value in gains.items() if value is not None}
    blue, orange, *_ = sns.color_palette("colorblind")
    _, axes = plt.subplots(figsize=(WIDTH, 4.4))
    axes.axvline(0, color="black", lw=1)
    for place, value in enumerate(known.values()):
        ends = [[value.value - value.low], [value.high - value.value]]
        axes.errorbar(value.value, place, xerr=ends, fmt="o", capsize=3, color=orange if value.high < 0 else blue)
    axes.set(yticks=range(len(known)), yticklabels=known, ylim=(len(known) - 0.5, -0.5), xlabel="points gained")
    axes.grid(axis="y", visible=False)
    plt.show()


def curves(curves_: Mapping[str, Sequence[float]]) -> None:
    """Accuracy while training: one stage beside both stages of LP-2ST, the first with its top-2 accuracy."""
    _, axes = plt.subplots(figsize=(WIDTH, 3.6))
    begin = {"LP-1ST": 0, "stage 1": 0, "stage 2": 1}
    for colour, (name, start) in zip(sns.color_palette("colorblind", 3), begin.items(), strict=True):
        for value, style in (("top_1", "-"), ("top_2", ":")) if name == "stage 1" else (("top_1", "-"),):
            points = curves_[f"{name}, {value}"]
            epochs = start * len(points) + np.arange(1, len(points) + 1)
            axes.plot(epochs, points, style, color=colour, label=name if value == "top_1" else f"{name}, top-2")
    axes.set(xlabel="epoch (stage 2 after stage 1)", ylabel="test accuracy, %", title="ε = 2")
    axes.legend()
    plt.show()


def grids(changed: Mapping[str, Any]) -> None:
    """Accuracy of LP-2ST by share and temperature, above, and by the mixups of both stages, below."""
    shares, mixups = recipe_rows.grid(changed["shares"]).T, recipe_rows.grid(changed["mixups"])
    by_share = shares.rename("{:g}".format, axis=0).rename(lambda share: f"{100 * share:.0f}", axis=1)
    by_mixup = mixups.rename("{:g}".format, axis=0).rename("{:g}".format, axis=1)
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
    style = {"annot": True, "fmt": ".1f", "cmap": "viridis", "lw": 0.5, "cbar": False, "annot_kws": {"size": 11}}
    sns.heatmap(by_share, ax=above, **style)
    above.set(xlabel="share of stage 1, %", ylabel="temperature", title="4a: accuracy of two stages, %")
    sns.heatmap(by_mixup, ax=below, **style)
    below.set(xlabel="mixup of stage 2", ylabel="mixup of stage 1", title="4b: accuracy of two stages, %")
    figure.tight_layout()
    plt.show()


def top_k(shares: Mapping[Any, Any]) -> None:
    """Final accuracy of LP-2ST against the top-k accuracy of its first stage, a dot a run."""
    top, final, _ = recipe_rows.dots(shares).T
    _, axes = plt.subplots(figsize=(WIDTH, 3.6))
    axes.scatter(top, final, s=14, alpha=0.6)
    for edge in (80, 84, 88, 90, 92, 94, 96):
        axes.axvline(edge, color="grey", lw=0.5)
    axes.set(xlabel="top-k accuracy of stage 1, %", ylabel="final accuracy, %")
    plt.show()
