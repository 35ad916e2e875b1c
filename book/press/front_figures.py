"""The pictures of the cards on the front page, one for each paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns

from book.evidence import plans, plotting
from book.press.ledger import Row
from papers.larger_models import gmm_table_rows

CARD = (4.2, 3.0)  # inches, of a card's picture
TEXT = 13  # points: a card is about as wide on a screen as its picture


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Draw the cards' pictures into a folder."""
    plotting.theme()
    by_id = {row.claim.id: row for row in rows}
    panels = {"A": _dimension, "B": _budgets, "C": _labels, "D": _screening}
    for paper, panel in panels.items():
        figure, axes = plt.subplots(figsize=CARD)
        panel(axes, by_id)
        sns.despine(ax=axes)
        axes.grid(visible=False)
        axes.tick_params(labelsize=TEXT)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_size(TEXT)
        figure.subplots_adjust(left=0.2, right=0.97 if paper == "D" else 0.68, bottom=0.22, top=0.96)
        figure.savefig(folder / f"front_{paper}.png", dpi=150, bbox_inches=figure.bbox_inches)
        plt.close(figure)


def _dimension(axes: plt.Axes, _: Mapping[str, Row]) -> None:
    """Does a larger model lose? It depends on what scales the noise."""
    curves = plans.load("01").read("curves")
    names = {"unit": "noise of\nfixed size", "L2": "by ℓ₂ norm", "L1": "by ℓ₁ norm,\nas printed"}
    for (noise, label), colour in zip(names.items(), sns.color_palette("colorblind", 3), strict=True):
        table = gmm_table_rows.separation(curves["dense", noise], "dense")
        axes.plot(table["p"], table["mean"], "o-", ms=4, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="features", ylabel="separation of the classes")
    plotting.name_lines(axes, size=TEXT, gap=34)


def _budgets(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """A linear model and a CNN at three budgets of paper B."""
    values = by_id["B.fig8"].values
    budgets = {"0_1": 0.1, "1_09": 1.09, "2_11": 2.11}
    for (name, label), colour in zip(
        {"cnn": "convolutional\nnetwork", "logistic": "linear model"}.items(),
        sns.color_palette("colorblind", 2),
        strict=True,
    ):
        _line(axes, {at: values.get(f"{name}_at_{key}") for key, at in budgets.items()}, color=colour, label=label)
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="MNIST accuracy, %")
    axes.set_xticks((0.1, 0.3, 1), ("0.1", "0.3", "1"))
    axes.minorticks_off()
    plotting.name_lines(axes, size=TEXT, gap=34)


def _labels(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """Labels alone, in one stage and two, beside whole records."""
    whole = by_id["C.s-shrinks-the-gap"].values
    first, second, third = sns.color_palette("colorblind", 3)
    _line(axes, {at: whole.get(f"fashion_mnist_eps{at:g}_dp_sgd") for at in (0.5, 1, 1.5)}, color=first)
    _line(axes, _table_4(by_id, "2st"), color=second, label="labels,\ntwo stages")
    _line(axes, _table_4(by_id, "1st"), color=third, label="labels,\none stage")
    axes.text(0.03, 0.97, "whole records,\nDP-SGD", transform=axes.transAxes, va="top", color=first, fontsize=TEXT)
    axes.set(xlabel="privacy budget ε", ylabel="Fashion-MNIST accuracy, %", xticks=(0.5, 1, 2))
    plotting.name_lines(axes, size=TEXT, gap=34)


def _table_4(by_id: Mapping[str, Row], stages: str) -> dict[float, Any]:
    values = by_id[f"C.table4.fashion-mnist-lp-{stages}"].values
    return {budget: values.get(f"eps{budget}") for budget in (1, 2)}


def _line(axes: plt.Axes, points: Mapping[float, Any], **style: Any) -> None:
    """A line through measured values, with bars for their intervals."""
    measured = {at: value for at, value in points.items() if isinstance(value, Mapping)}
    means = [value["value"] for value in measured.values()]
    ends = [[v["value"] - v["low"] for v in measured.values()], [v["high"] - v["value"] for v in measured.values()]]
    axes.errorbar(list(measured), means, yerr=ends, fmt="none", capsize=3, ecolor=style["color"])
    axes.plot(list(measured), means, "o-", ms=4, **style)


def _screening(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """What is claimed beside what a worst case spends, for the settings of three data sets."""
    values = by_id["D.thm1"].values
    names = {"mnist": "MNIST", "fashion_mnist": "Fashion-\nMNIST", "cifar10": "CIFAR-10"}
    claimed, spent = ([values[f"{kind}_epsilon_{name}"] for name in names] for kind in ("claimed", "exact"))
    colours = sns.color_palette("colorblind", 2)
    for shift, numbers, label, colour in (
        (-0.2, claimed, "claimed", colours[0]),
        (0.2, spent, "worst case", colours[1]),
    ):
        places = [place + shift for place in range(len(names))]
        axes.bar(places, numbers, 0.38, color=colour, label=label)
        for place, number in zip(places, numbers, strict=True):
            axes.text(place, number + 0.1, f"{number:.1f}", ha="center", fontsize=TEXT)
    axes.set(ylabel="privacy spent, ε", xticks=range(len(names)), xticklabels=names.values(), ylim=(0, 9))
    axes.legend(frameon=False, fontsize=TEXT, ncols=2, loc="upper center")
