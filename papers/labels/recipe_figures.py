"""The figures of chapter 9b, from values to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from book.evidence import plotting
from papers.labels import recipe_rows
from papers.labels.stage_rows import accuracies

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read


def stages(measured: Mapping[str, Mapping[str, Any]], heads: Mapping[str, Any]) -> None:
    """One stage and two against epsilon: accuracy on CIFAR-10 features above, error of ratings below."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 6.0))
    for axes, table in ((above, "table1"), (below, "table3")):
        for count, label in ((1, "one stage"), (2, "two stages")):
            ours = measured[f"C.{table}.lp-{count}st"]
            at = {float(key[3:]): v for key, v in ours.items() if key.startswith("eps") and key != "eps_inf"}
            axes.plot(list(at), [v.value for v in at.values()], marker="o", label=label)
            plotting.band(axes, list(at), [v.low for v in at.values()], [v.high for v in at.values()])
    control = {e: accuracies(runs) for (e, kind), runs in heads["cells"].items() if kind == "no prior"}
    plotting.curves(above, {"two, no prior": plotting.bands("ε", control, control.values())}, "ε")
    above.set(title="Features of CIFAR-10", ylabel="accuracy, %")
    below.set(title="MovieLens latest-small", xlabel="ε", ylabel="RMSE, stars")
    for axes in (above, below):
        axes.legend()
    figure.tight_layout()
    plt.show()


def curves(found: Mapping[str, Sequence[float]]) -> None:
    """Accuracy while training: one stage beside both stages of LP-2ST, the first with its top-2 accuracy."""
    _, axes = plt.subplots(figsize=(WIDTH, 3.6))
    begin = {"LP-1ST": 0, "stage 1": 0, "stage 2": 1}
    for colour, (name, start) in zip(sns.color_palette("colorblind", 3), begin.items(), strict=True):
        for value, style in (("top_1", "-"), ("top_2", ":")) if name == "stage 1" else (("top_1", "-"),):
            points = found[f"{name}, {value}"]
            epochs = start * len(points) + np.arange(1, len(points) + 1)
            axes.plot(epochs, points, style, color=colour, label=name if value == "top_1" else f"{name}, top-2")
    axes.set(xlabel="epoch (stage 2 after stage 1)", ylabel="test accuracy, %", title="ε = 2")
    axes.legend()
    plt.show()


def grids(changed: Mapping[str, Any]) -> None:
    """Accuracy of LP-2ST by share and temperature, above, and by the mixups of both stages, below."""
    shares, mixups = recipe_rows.grid(changed["shares"]).T, recipe_rows.grid(changed["mixups"])
    by_share = shares.rename("{:g}".format, axis=0).rename(lambda share: 100 * share, axis=1)
    by_mixup = mixups.rename("{:g}".format, axis=0).rename("{:g}".format, axis=1)
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
    style = {"annot": True, "fmt": ".1f", "cmap": "viridis", "lw": 0.5, "cbar": False, "annot_kws": {"size": 11}}
    sns.heatmap(by_share, ax=above, **style)
    above.set(xlabel="share of stage 1, %", ylabel="temperature", title="4a: accuracy of two stages, %")
    sns.heatmap(by_mixup, ax=below, **style)
    below.set(xlabel="mixup of stage 2", ylabel="mixup of stage 1", title="4b: the same, %; 0: none")
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
