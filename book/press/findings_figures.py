"""The figures of the page of findings: verdicts at a glance, and a figure of what was found of each paper."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import seaborn as sns
from scipy.stats import norm

from book.evidence import plans, plotting
from book.evidence.claims import PAPERS, VERDICTS
from book.press import dials_data, ledger
from book.press.ledger import Row
from papers.architecture import crossover_rows
from papers.larger_models import gmm_table_rows

# The verdicts' colours on the pages (book/_static/book.css), light theme.
COLOURS = dict(
    zip(VERDICTS, ("#00694b", "#0a5a8f", "#a63a00", "#8a3b74", "#5b5b00", "#9aa1ab", "#c9ced4"), strict=True)
)
COLOURS[ledger.OPEN] = "#e8eaed"  # by a first rule that cannot be evaluated
PALE = (VERDICTS[-1], ledger.OPEN)


# One small figure each, so that a phone shows letters as large as those of its text.
SIZE = (3.8, 3.2)


def draw(rows: list[Row], folder: Path) -> None:
    """Draw that page's figures into a folder: the verdicts of each paper, and one finding of each paper."""
    plotting.theme()
    by_id = {row.claim.id: row for row in rows}
    figure, axes = plt.subplots(figsize=SIZE)
    _verdicts(axes, rows)
    _save(figure, folder / "finding_verdicts.png")
    panels = {"A": _dimension, "B": _workflows, "C": _stages, "D": _screening}
    for paper, panel in panels.items():
        figure, axes = plt.subplots(figsize=SIZE)
        panel(axes, by_id)
        _save(figure, folder / f"finding_{paper}.png")


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=160)
    plt.close(figure)


def _legend_below(axes: plt.Axes, gap: float = 0.23, columns: int = 2) -> None:
    """No wider than the axes and their labels: a phone has no room beside them."""
    axes.legend(
        ncols=columns, loc="upper center", bbox_to_anchor=(0.45, -gap), frameon=False, fontsize="small",
        columnspacing=0.8, handlelength=1.5,
    )  # fmt: skip


def _verdicts(axes: plt.Axes, rows: list[Row]) -> None:
    """Stacked bars: the share of each verdict among a paper's claims, with counts; below, by their first rules."""
    known = [row for row in rows if row.claim.sort == "claim"]
    present = Counter((row.claim.paper, row.verdict) for row in known)
    first = Counter((row.claim.paper, ledger.first(row)) for row in known)
    for place, paper in enumerate(PAPERS):
        _bar(axes, place - 0.12, 0.5, {verdict: present[paper, verdict] for verdict in VERDICTS}, named=place == 0)
        _bar(axes, place + 0.29, 0.26, {verdict: first[paper, verdict] for verdict in COLOURS}, named=False)
    axes.set(yticks=range(len(PAPERS)), yticklabels=[f"paper {paper}" for paper in PAPERS], xticks=[], xlim=(0, 1))
    axes.invert_yaxis()
    axes.grid(visible=False)
    sns.despine(ax=axes, left=True, bottom=True)
    _legend_below(axes, 0.0)


def _bar(axes: plt.Axes, place: float, height: float, counts: Mapping[str, int], *, named: bool) -> None:
    """One bar of shares that add up to 1, with counts where there is room."""
    total, left = sum(counts.values()), 0.0
    for verdict, count in counts.items():
        share = count / total
        label = verdict if named else None
        axes.barh(place, share, height, left=left, color=COLOURS[verdict], label=label)
        if share > 0.05:
            ink = "black" if verdict in PALE else "white"
            text = {"ha": "center", "va": "center_baseline", "color": ink, "fontsize": "x-small"}
            axes.text(left + share / 2, place, count, **text)
        left += share


def _dimension(axes: plt.Axes, _: dict[str, Row]) -> None:
    """Chapter 1 in one panel: does a larger model lose under privacy? It depends on the norm behind the noise."""
    curves = plans.load("01").read("curves")
    names = {
        "none": "no privacy",
        "unit": "noise of fixed size",
        "L2": "by ℓ₂ norm: what privacy needs",
        "L1": "by ℓ₁ norm: as printed",
    }
    for (noise, label), colour in zip(names.items(), sns.color_palette("colorblind", 4), strict=True):
        table = gmm_table_rows.separation(curves["dense", noise], "dense")
        axes.plot(table["p"], table["mean"], "o-", ms=4, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="number of features p", ylabel="Ψ: separation of the classes")
    for error in (1e-3, 0.4, 0.49):
        axes.axhline(-norm.ppf(error), color="grey", lw=0.7, ls=":")
        axes.text(
            table["p"].iloc[-1], -norm.ppf(error), f"error {error:g}", ha="right", va="bottom", fontsize="x-small"
        )
    _legend_below(axes, columns=1)


def _workflows(axes: plt.Axes, _: dict[str, Row]) -> None:
    """Chapter 4 in one panel: two printed networks against epsilon, and where the larger one takes over."""
    curves = crossover_rows.pairs(plans.load("04"))["mnist"].curves.values()
    names = ("small network (privacy-aware)", "large network (standard)")
    for curve, label, colour in zip(curves, names, sns.color_palette("colorblind", 2), strict=True):
        axes.plot(curve["epsilon"], curve["mean"], "o-", ms=4, color=colour, label=label)
        plotting.band(axes, curve["epsilon"], curve["low"], curve["high"])
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="test accuracy (%)")
    axes.legend(fontsize="small", loc="lower right")


def _stages(axes: plt.Axes, by_id: dict[str, Row]) -> None:
    """Chapter 9 in one panel: label-private training in one stage and in two, measured and printed."""
    names = {"1st": "one stage", "2st": "two stages"}
    for (method, label), colour in zip(names.items(), sns.color_palette("colorblind", 2), strict=True):
        row = by_id[f"C.table4.fashion-mnist-lp-{method}"]
        budgets = [k for k in (1, 2, 3, 4) if isinstance(row.values.get(f"eps{k}"), dict)]
        measured = [row.values[f"eps{k}"] for k in budgets]
        axes.plot(budgets, [m["value"] for m in measured], "o-", ms=4, color=colour, label=f"{label}, here")
        plotting.band(axes, budgets, [m["low"] for m in measured], [m["high"] for m in measured])
        printed = [row.claim.published[f"eps{k}"] for k in (1, 2, 3, 4)]
        axes.plot((1, 2, 3, 4), printed, "o--", ms=4, color=colour, label=f"{label}, printed", mfc="white")
    axes.set(xlabel="privacy budget ε of a label", ylabel="test accuracy (%)", xticks=(1, 2, 3, 4))
    _legend_below(axes)


def _screening(axes: plt.Axes, by_id: dict[str, Row]) -> None:
    """Chapter 12 in one panel: what one accepted update costs when rejections before it are not counted."""
    spent, _, claimed = dials_data.smallest_example()
    colours = sns.color_palette("colorblind", 2)
    axes.plot(dials_data.LIMITS, spent, "o-", ms=4, color=colours[0], label="exact")
    axes.axhline(claimed, ls="--", color=colours[1], label="claimed, by the paper's formula")
    axes.set(xlabel="rejections allowed before one update", ylabel="ε of one accepted update", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize="small", loc="lower right")
