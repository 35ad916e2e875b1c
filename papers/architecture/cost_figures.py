"""The figures of chapter 5, and its tables of printed beside measured."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from book.evidence import claims, plotting
from papers.architecture.cost_network_rows import Found, Rows, budget_of, gains, ladder
from papers.architecture.cost_rows import COLUMNS, Encoded, constant
from papers.architecture.cost_runs import SGD
from papers.common import tables

TALL = (4.7, 6.6)  # inches: two panels above each other, legible on a phone with labels beside the lines
CHOICES = {
    "effect_of_learning_rate": "the best learning rate",
    "more_under_privacy_no one-hot codes": "no one-hot codes",
    "more_under_privacy_a simple LSTM": "a simple LSTM",
    "more_under_privacy_frozen layers": "frozen layers",
    "more_under_privacy_a narrow layer": "a narrow layer",
    "more_under_privacy_PCA": "principal components",
    "more_under_privacy_few layers": "few layers",
}


def choices(values: Mapping[str, Any]) -> None:
    """What each simpler choice is worth in points under privacy; values of the row ``B.not-only-hyperparameters``."""
    _, axes = plt.subplots(figsize=(4.6, 3.9))
    known = {label: values[name] for name, label in CHOICES.items() if name in values}
    for height, gain in enumerate(known.values()):
        ends = [[gain.value - gain.low], [gain.high - gain.value]]
        axes.errorbar(gain.value, height, xerr=ends, fmt="o", ms=7, capsize=3, color="C1" if height else "C3")
        x, side = (gain.high + 1.5, "left") if gain.value > 0 else (gain.low - 1.5, "right")
        axes.text(x, height, f"{gain.value:+.1f}".replace("-", "−"), ha=side, va="center", fontsize=12)
    axes.axvline(0, color="black", lw=1)
    axes.set_yticks(range(len(known)), list(known), fontsize=12)
    axes.set(xlabel="points of accuracy", ylim=(len(known) - 0.5, -0.5), xlim=(-19, 46))
    axes.grid(axis="y", visible=False)


def encodings(encoded: Encoded, as_printed: bool = True) -> None:
    """Table XVI: mean accuracy of both encodings, band of single releases, printed values, the constant."""
    _, axes = plt.subplots(figsize=(4.7, 3.9))
    epsilons = sorted({e for _, e in encoded if e is not None})
    labels = {"without": "without\ncodes", "one-hot": "one-hot\ncodes"}
    for colour, (encoding, column) in zip(("C0", "C1"), COLUMNS.items(), strict=True):
        accuracies = {e: 100 * np.concatenate([run["accuracies"] for run in encoded[encoding, e]]) for e in epsilons}
        means = [accuracies[e].mean() for e in epsilons]
        axes.plot(epsilons, means, "o-", ms=4, color=colour, label=labels[encoding])
        plotting.band(axes, epsilons, *np.array([np.quantile(accuracies[e], [0.05, 0.95]) for e in epsilons]).T)
        if as_printed:
            rows = claims.printed_rows("B.table16")
            at = [float(claim_id.partition(".eps")[2]) for claim_id in rows]
            axes.plot(at, [row[column] for row in rows.values()], "x", color=colour, mew=2)
    axes.axhline(constant(encoded).value, color="black", lw=1, ls="--")
    axes.text(epsilons[0], constant(encoded).value + 1, "a constant", fontsize=12)
    axes.set(xscale="log", xlabel="ε (pure DP)", ylabel="test accuracy, %")
    plotting.name_lines(axes, gap=32)


def ladders(outcomes: Found) -> None:
    """Figure 12: accuracy against the parameters of one hidden layer, and against the number of hidden layers."""
    e = budget_of(outcomes)
    figure, panels = plt.subplots(2, 1, figsize=TALL)
    for axes, kind in zip(panels, ("width", "depth"), strict=True):
        steps = ladder(outcomes, kind)
        x = [by_budget[e].parameters for by_budget in steps.values()] if kind == "width" else list(steps)
        for budget, label in ((SGD, "SGD"), (e, f"DP-SGD,\nε = {e:g}")):
            plotting.line(axes, x, [by_budget[budget].mean for by_budget in steps.values()], label=label)
        axes.set(ylabel="test accuracy, %")
    panels[0].set(xscale="log", xlabel="parameters, one hidden layer")
    units = next(iter(ladder(outcomes, "depth").values()))[e].job["model"][0]
    panels[1].set(xlabel=f"hidden layers of {units} units")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=26)


def frozen_layers(**networks: Found) -> None:
    """Figure 10 on MNIST: full training and the last two layers against ε; crosses are Table VI's values."""
    figure, panels = plt.subplots(2, 1, figsize=TALL)
    titles, lowest = {"fcn": "perceptron", "cnn": "CNN"}, {"fcn": 0, "cnn": 85}
    methods = {"all": ("normal", "all layers"), "last two": ("rwt", "last two")}
    for axes, (kind, outcomes) in zip(panels, networks.items(), strict=True):
        for colour, (name, (row, label)) in zip(("C0", "C1"), methods.items(), strict=True):
            epsilons = list(gains(outcomes))
            means = [outcomes["complex", name, e].mean for e in epsilons]
            plotting.line(axes, epsilons, means, color=colour, label=label)
            cells = [claims.get(f"B.table6.{kind}-{size}-{row}").published for size in ("small", "large")]
            axes.plot([c["epsilon"] for c in cells], [c["acc"] for c in cells], "x", color=colour, mew=2)
        axes.set(xscale="log", xlabel="ε", ylabel="test accuracy, %", title=titles[kind], ylim=(lowest[kind], 101))
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons], rotation=30)
        axes.minorticks_off()
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def regression(outcomes: Found) -> None:
    """Tables XIV and XV: error against units for each depth, SGD above, DP-SGD below; printed values as crosses."""
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharey=True)
    e = budget_of(outcomes)
    depths, units = (sorted({key[i] for key in outcomes}) for i in (0, 1))
    for axes, number, budget in zip(panels, (15, 14), (SGD, e), strict=True):
        for depth, colour in zip(depths, ("C0", "C1", "C2"), strict=False):
            means = [outcomes[depth, w, budget].mean for w in units]
            plotting.line(axes, units, means, color=colour, label=f"{depth} layers")
            printed = claims.get(f"B.table{number}.layers-{depth}").published
            axes.plot(units, [printed[f"mae_{w}"] for w in units], "x--", color=colour, lw=0.8)
        guess = np.mean([run["constant"] for run in outcomes[depths[0], units[0], e].runs])
        axes.axhline(guess, color="black", lw=1, ls="--")
        title = "SGD" if budget == SGD else f"DP-SGD, ε = {e:g}"
        axes.set(xscale="log", yscale="log", xlabel="units of each layer", ylabel="mean absolute error", title=title)
        axes.set_xticks(units, [str(w) for w in units])
        axes.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
        axes.minorticks_off()
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def table_16(rows: Rows) -> Styler:
    """Table XVI in percent, printed beside measured."""
    lines = {row.partition(".eps")[2]: (claims.get(row).published, values) for row, values in rows.items()}
    return tables.beside(lines, {"acc_without": "without codes", "acc_with": "one-hot"}, index="ε", digits=1)


def table_regression(rows: Rows) -> Styler:
    """Tables XIV and XV: a row for each depth, a column for each width, "measured (printed)"."""
    lines = {}
    for number, training in ((15, "SGD"), (14, "DP-SGD")):
        for depth in (2, 6, 12):
            row = f"B.table{number}.layers-{depth}"
            printed, ours = claims.get(row).published, rows[row]
            lines[f"{training}, {depth} layers"] = {
                f"{name[4:]} units": f"{ours[name].value:.3f} ({value:.3f})" for name, value in printed.items()
            }
    return pd.DataFrame.from_dict(lines, orient="index").style
