"""The figures of chapters 4 and 4b: who leads at which budget, what moves that lead, and printed budgets."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from book.evidence import claims, margins, plotting
from book.evidence.plans import Plan
from dplib.stats import Measured
from papers.architecture import length_rows
from papers.architecture import printed_budgets as budgets
from papers.architecture.crossover_rows import Curves, TwoNetworks

SMALL = (4.7, 3.9)  # inches: with labels beside the lines legible on a phone, too
NETWORKS = ("small", "large")
PRINTED_CROSSING = 1e4


def leads(pairs: Mapping[str, TwoNetworks], names: Mapping[str, str]) -> None:
    """The small network's lead in points over ε, a line for each training.

    Args:
        pairs: of :func:`crossover_rows.pairs`.
        names: part of the plan to what the line is called.
    """
    _, axes = plt.subplots(figsize=SMALL)
    tables = {}
    for part, name in names.items():
        small, large = pairs[part].runs.test
        tables[name] = plotting.bands("epsilon", pairs[part].epsilons, plotting.means((small - large).T))
    plotting.curves(axes, tables, "epsilon")
    axes.axhline(0, color="black", lw=1)
    axes.axvline(PRINTED_CROSSING, color="black", lw=1, ls=":")
    axes.text(PRINTED_CROSSING * 1.3, 1.45, "printed\ncrossover", fontsize=11, va="top")
    axes.text(7, 1.05, "small network\nwins ↑", fontsize=11, style="italic")
    axes.text(0.06, -0.42, "large network wins ↓", fontsize=11, style="italic")
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="lead of the small network, points", ylim=(-0.5, None))
    plotting.name_lines(axes, gap=34)


def by_length(study: Plan) -> None:
    """The small network's lead in points after 1 to 200 epochs at the paper's batch, a line for each data set.

    Solid with DP-SGD at the printed ε, dashed with SGD; rings are the printed leads.
    """
    leads = length_rows.table(study)
    _, axes = plt.subplots(figsize=SMALL)
    for place, (data, name) in enumerate({"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}.items()):
        margin = margins.get("accuracy_points", data).value
        axes.axhspan(-margin, margin, color="0.5", alpha=0.15, lw=0)
        axes.text(1, (0.8, -1.08)[place], name, color=f"C{place}", fontsize=12)
        printed = claims.get(f"B.table1.fcn-{data}-paw").published
        for training, line, gap in (("DP-SGD", "o-", "gap_dpsgd"), ("SGD", "o--", "gap_sgd")):
            rows = leads[(leads["pair"] == f"fcn-{data}") & (leads["training"] == training)]
            ends = [rows["lead"] - rows["low"], rows["high"] - rows["lead"]]  # no line leads over a length not run
            beside = (1, 1.12)[place]  # so that no interval hides another
            style = {"color": f"C{place}", "mfc": "white" if training == "SGD" else None}
            axes.errorbar(rows["epochs"] * beside, rows["lead"], ends, fmt=line, capsize=3, **style)
            axes.plot(length_rows.PRINTED_EPOCHS * beside, printed[gap], "o", mfc="none", ms=10, color=f"C{place}")
    for height, words in ((1.79, "printed, DP-SGD"), (-1.56, "printed, SGD")):
        axes.text(length_rows.PRINTED_EPOCHS / 1.3, height, words, ha="right", va="center", fontsize=11)
    axes.set(xscale="log", xlabel="epochs", ylabel="lead of the small network, points")
    axes.set_xticks(length_rows.EPOCHS, map(str, length_rows.EPOCHS))
    axes.set_xticks([], minor=True)


def curves(pairs: Mapping[str, TwoNetworks], titles: Mapping[str, str], printed: Mapping[str, str]) -> None:
    """Figure 7: both networks' accuracies over ε, a panel for each training.

    Args:
        titles: part of the plan to the panel's title.
        printed: part to the data set whose printed accuracies are drawn as rings.
    """
    figure, panels = plt.subplots(len(titles), 1, figsize=(4.4, 2.9 * len(titles)), sharex=True)
    for axes, (part, title) in zip(panels, titles.items(), strict=True):
        tables = dict(zip(NETWORKS, pairs[part].curves.values(), strict=True))
        plotting.curves(axes, tables, "epsilon")
        for colour, kind in (("C0", "paw"), ("C1", "stw")):
            cells = claims.get(f"B.table1.fcn-{printed[part]}-{kind}").published
            axes.plot(cells["epsilon"], cells["acc_dpsgd"], "o", mfc="none", ms=10, color=colour)
        axes.axvline(PRINTED_CROSSING, color="black", lw=1, ls=":")
        axes.set(xscale="log", title=title, ylabel="test accuracy, %")
        plotting.name_lines(axes)
    panels[-1].set_xlabel("privacy budget ε")
    figure.tight_layout()


def kinds(tables: Curves) -> None:
    """Figure 8: the accuracy of three kinds of model over ε; ``tables`` of :func:`crossover_model_rows.three`."""
    _, axes = plt.subplots(figsize=SMALL)
    names = {"logistic regression": "logistic\nregression", "PAW FCN": "small FCN", "PAW CNN": "CNN"}
    plotting.curves(axes, {names.get(name, name): table for name, table in tables.items()}, "epsilon")
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="test accuracy, %")
    axes.set_xticks([0.1, 0.25, 0.5, 1, 2], ["0.1", "0.25", "0.5", "1", "2"])
    axes.set_xticks([], minor=True)
    for edge in (0.25, 0.5):
        axes.axvline(edge, color="black", lw=1, ls=":")
    plotting.name_lines(axes, gap=28)


def by_rate(gaps: Mapping[str, Measured]) -> None:
    """Figure 9: the small network's lead in points at a rate that both share; dashed: each at its own.

    ``gaps`` of :func:`crossover_model_rows.rates`.
    """
    shared = {float(rate): gap for rate, gap in gaps.items() if rate != "own rates"}
    _, axes = plt.subplots(figsize=SMALL)
    heights = np.array([gap.value for gap in shared.values()])
    ends = np.abs([[getattr(gap, end) for gap in shared.values()] - heights for end in ("low", "high")])
    axes.errorbar(list(shared), heights, ends, fmt="o-", capsize=3)
    own_gap = gaps["own rates"].value
    axes.axhline(own_gap, color="C1", ls="--")
    axes.text(min(shared), own_gap + 0.1, "each at its own rate", color="C1", fontsize=12, va="bottom")
    axes.axhline(0, color="black", lw=1)
    axes.set(xscale="log", xlabel="learning rate that both share", ylabel="lead of the small network, points")
    axes.set_xticks(list(shared), [f"{rate:g}" for rate in shared])
    axes.set_xticks([], minor=True)


def by_size(kinds: Mapping[str, Mapping[int, Measured]]) -> None:
    """Figure 1: accuracy over the number of parameters; ``kinds`` of :func:`crossover_model_rows.sizes`."""
    _, axes = plt.subplots(figsize=SMALL)
    columns = ["n", "mean", "low", "high"]
    tables = {
        kind: pd.DataFrame([(n, m.value, m.low, m.high) for n, m in means.items()], columns=columns)
        for kind, means in kinds.items()
    }
    plotting.curves(axes, tables, "n")
    axes.set(xscale="log", xlabel="trainable parameters", ylabel="test accuracy, %")
    plotting.name_lines(axes)


def printed_budgets(rows: Sequence[budgets.Printed]) -> None:
    """Appendix 4b: the tool's ε of each settled training as a cross, and the range proven for shuffled batches."""
    settled = {row.fit for row in rows if row.fit and row.fit.noise_multiplier > 0.1}
    settings = sorted(settled, key=budgets.tool_epsilon)
    _, axes = plt.subplots(figsize=(4.6, 0.42 * len(settings) + 0.9))
    for height, setting in enumerate(settings):
        proven = budgets.shuffled_lower_bound(setting), budgets.shuffled_epsilon(setting)
        axes.plot(proven, [height] * 2, color="0.75", lw=7, solid_capstyle="butt")
        axes.plot(budgets.tool_epsilon(setting), height, "kx", ms=8, mew=2)
    top = len(settings) - 1
    for at, words, side in ((budgets.tool_epsilon(settings[top]), "printed", "right"), (proven[1], "proven", "left")):
        shift = {"right": -4, "left": 2}[side]
        axes.annotate(words, (at, top), (shift, 8), textcoords="offset points", ha=side, va="bottom", fontsize=11)
    axes.set_ylim(-0.7, top + 1.2)
    axes.set_yticks(range(len(settings)), [setting.short for setting in settings], fontsize=11)
    axes.set(xscale="log", xlabel="ε at the paper's δ", ylabel="noise / batch / epochs")
    axes.grid(axis="y", visible=False)
