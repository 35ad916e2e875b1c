"""The figures and tables of chapter 9, from values by budget to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from book.evidence import plotting
from dplib.stats import Measured
from papers.labels import stage_rows as rows

if TYPE_CHECKING:
    from papers.common.network_runs import Outcome

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
NAMED = 4.0  # of panels whose lines have their names beside them
Tuned = Mapping[str, Mapping[float, "Outcome"]]  # {data set: {epsilon: DP-SGD tuned there}}
Table4 = Mapping[tuple[str, int], Mapping[str, Any]]  # {(data set, stages): {"eps1": accuracy in percent}}


def line(axes: plt.Axes, by_epsilon: Mapping[float, Measured], label: str, **look: Any) -> None:
    """Means with their band against epsilon."""
    plotting.line(axes, list(by_epsilon), list(by_epsilon.values()), "", label=label, ms=6, **look)


def named(figure: plt.Figure, panels: np.ndarray) -> None:
    """Lay the figure out, and write labels at the lines' ends."""
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes)
    plt.show()


def two_guarantees(measured: Table4, by_sgd: Tuned) -> None:
    """LP-2ST at ε beside DP-SGD at ε and at half of it, which hides labels as well; a panel for each data set."""
    figure, panels = plotting.column(len(by_sgd), NAMED, 2.5, sharex=True)
    for axes, (name, outcomes) in zip(panels, by_sgd.items(), strict=True):
        line(axes, {e: measured[name, 2][f"eps{e}"] for e in rows.EPSILONS}, "two stages", marker="s")
        for share, label in ((1.0, "DP-SGD, ε"), (0.5, "DP-SGD, ε/2")):
            means = {e: outcomes[e * share].mean for e in rows.EPSILONS if e * share in outcomes}
            line(axes, means, label, marker="D", ls="--" if share == 1 else "-")
        axes.set(title=rows.TITLES[name], ylabel="accuracy, %", xticks=rows.EPSILONS)
    panels[-1].set_xlabel("ε for a changed label")
    named(figure, panels)


def table_4(measured: Table4, printed: Table4) -> None:
    """One stage and two, as measured and as printed (dotted); a panel for each data set."""
    figure, panels = plotting.column(len(rows.TITLES), NAMED, 2.7, sharex=True)
    for axes, (name, title) in zip(panels, rows.TITLES.items(), strict=True):
        for t, word, colour in ((1, "one stage", "grey"), (2, "two stages", "C0")):
            line(axes, {e: measured[name, t][f"eps{e}"] for e in rows.EPSILONS}, word, marker="o", color=colour)
            theirs = [printed[name, t][f"eps{e}"] for e in rows.EPSILONS]
            axes.plot(
                rows.EPSILONS,
                theirs,
                ":",
                marker="o",
                mfc="none",
                color=colour,
                label=f"{word.partition(' ')[0]}, printed",
            )
        axes.set(title=title, ylabel="accuracy, %", xticks=rows.EPSILONS)
    panels[-1].set_xlabel("ε")
    named(figure, panels)


def controls(cells: Mapping[str, rows.Cells]) -> None:
    """Points by which LP-2ST leads one stage and its two controls; a panel for each data set."""
    figure, panels = plotting.column(len(cells), WIDTH, 2.5, sharex=True)
    for axes, name in zip(panels, cells, strict=True):
        others = ((1, "one stage", "C0"), ("no prior", "no prior", "C2"), ("pseudo-labels", "pseudo-labels", "C4"))
        for shift, (other, label, colour) in enumerate(others):
            lead = rows.gains(cells[name], 2, other)
            ends = [interval.value - interval.low for interval in lead.values()]
            style = {"fmt": "o-", "lw": 1, "label": label, "color": colour}
            axes.errorbar(
                [e + 0.09 * (shift - 1) for e in lead], [interval.value for interval in lead.values()], ends, **style
            )
        axes.axhline(0, color="black", lw=0.8)
        axes.set(title=rows.TITLES[name], ylabel="lead, points", xticks=rows.EPSILONS)
    panels[-1].set_xlabel("ε")
    panels[0].legend(title="two stages less …")
    figure.tight_layout()
    plt.show()


def more_stages(means: Mapping[int, Measured]) -> None:
    """Accuracy against the number of stages."""
    _, axes = plt.subplots(figsize=(WIDTH, 3.2))
    line(axes, means, "_", marker="o")
    axes.set(xlabel="stages", ylabel="test accuracy, %", xticks=list(means), title="Fashion-MNIST, ε = 1")
    plt.show()


# --- tables -----------------------------------------------------------------------------------------------------------


def one_or_two(cells: Mapping[str, rows.Cells], measured: Table4) -> pd.DataFrame:
    """Table 4 as measured: a row for each data set and budget."""
    rows_ = []
    for name, title in rows.TITLES.items():
        for e, gain in rows.gains(cells[name], 2, 1).items():
            accuracies = [f"{measured[name, t][f'eps{e:g}']:.2f}" for t in (1, 2)]
            rows_.append([title, f"{e:g}", *accuracies, f"{gain:.2f}"])
    return pd.DataFrame(rows_, columns=["data", "ε", "one stage, %", "two stages, %", "gain, points"])


def by_size(printed: Table4, more: Mapping[int, Mapping[str, Any]]) -> pd.DataFrame:
    """Fashion-MNIST by a network of four times the size, beside ours on its seeds and print; more: by stages."""
    rows_ = []
    for t, levels in more.items():
        for at, budget in {"eps1": "1", "eps3": "3", "eps_inf": "∞"}.items():
            if (level := levels.get(f"larger_network_{at}")) is not None:
                lead, theirs = levels[f"larger_less_smaller_{at}"], printed["fashion-mnist", t][at]
                cells = [f"{level.value - lead.value:.2f}", f"{level:.2f}", _points(lead), f"{theirs:.2f}"]
                rows_.append([f"{t} stage{'s' if t > 1 else ''}", budget, *cells])
    return pd.DataFrame(rows_, columns=["trained in", "ε", "30,442 weights", "113,898", "gain, points", "printed"])


def less_sgd(cells: Mapping[str, rows.Cells], measured: Table4, by_sgd: Tuned) -> pd.DataFrame:
    """LP-2ST less DP-SGD at the same ε and at half of it, a row for each data set and budget of a label."""
    rows_ = []
    for name, outcomes in by_sgd.items():
        same, half = (rows.less_records(cells[name], outcomes, share) for share in (1.0, 0.5))
        for e in sorted({*same, *half}):
            leads = [_points(lead[e]) if e in lead else "–" for lead in (same, half)]
            rows_.append([rows.TITLES[name], f"{e:g}", f"{measured[name, 2][f'eps{e:g}']:.1f}", *leads])
    return pd.DataFrame(rows_, columns=["data", "ε", "two stages, %", "lead over DP-SGD at ε", "over DP-SGD at ε/2"])


def _points(difference: Measured) -> str:
    return f"{difference:.2f}".replace("-", "−")
