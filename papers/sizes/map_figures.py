"""The figures of chapter 14: the map, accuracy against width, accuracy against the number of random features."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from dplib import gmm, stats
from dplib.stats import Measured
from papers.sizes import map_rows
from papers.sizes.map_rows import Cell, Compared

LINEAR = "linear"
WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
NAMED = 4.0  # of panels whose lines have their names beside them
SMALLEST_FIRST = ("#fff3b8", "#cdebc0", "#93c9ee")  # of the sizes that are best somewhere, as the live map has them
BORDER = "#de8f05"  # colour of the line between linear models and networks
BELOW = 0.34  # of a row: the line has its marks below the words of a cell


def size(width: int) -> str:
    """A width as people say it; 0 is the linear model."""
    return f"{width:,}" if width else LINEAR


def budget(epsilon: float | None) -> str:
    """A budget as people say it; None is training without privacy."""
    return "none" if epsilon is None else f"{epsilon:g}"


def gain(by_steps: Mapping[int, float]) -> float:
    """What the most steps gain over the fewest, in points."""
    return by_steps[max(by_steps)] - by_steps[min(by_steps)]


def sizes(good: tuple[int, ...], known: tuple[int, ...]) -> str:
    """A set of widths in short: "linear", "64–1,024", or with a gap "linear, 64–1,024"."""
    places = [known.index(width) for width in good]
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1 and known[runs[-1][-1]]:
            runs[-1].append(place)
        else:
            runs.append([place])
    ends = [dict.fromkeys((known[run[0]], known[run[-1]])) for run in runs]
    return ", ".join("–".join(map(size, pair)) for pair in ends)


def named(cell: Compared) -> str:
    """The widths of a cell that are not worse, a line each: "linear", "64+" for all from 64 to the largest tried."""
    known, good = sorted(cell.means), [width for width in cell.good if width]
    lines = [LINEAR] if 0 in cell.good else []
    if len(good) > 1 and good == known[known.index(good[0]) :]:
        lines.append(f"{good[0]:,}+")
    else:
        lines += map(size, good)
    return "\n".join(lines)


def draw(
    cells: Mapping[Cell, Compared], crossovers: Mapping[int, Measured | None], width: int, your: tuple[int, float]
) -> None:
    """The map: for each cell its best width by colour, the widths that are not worse in words, and the best's accuracy.

    Args:
        crossovers: for each n the budget from which a network is ahead of the linear model; drawn as a line.
        width: of that network.
        your: n and epsilon of the reader, marks on the axes; an n outside of the map has none.
    """
    rows = sorted({n for n, _ in cells})
    budgets = sorted({e for _, e in cells if e is not None})
    columns = [*budgets, None] if any(e is None for _, e in cells) else budgets
    best = sorted({cell.best for cell in cells.values()})
    colours = dict(zip(best, sns.blend_palette(SMALLEST_FIRST, len(best)), strict=True))
    _, axes = plt.subplots(figsize=(WIDTH, 0.8 * len(rows) + 0.7))
    for (n, epsilon), cell in cells.items():
        x, y = columns.index(epsilon), rows.index(n)
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours[cell.best], edgecolor="white", lw=1))
        ground = {"facecolor": colours[cell.best], "edgecolor": "none", "pad": 0.8}  # the line passes below the words
        style = {"ha": "center", "va": "top", "fontsize": 11.5, "linespacing": 1.0, "zorder": 4, "bbox": ground}
        axes.text(x, y + 0.44, f"{named(cell)}\n{cell.means[cell.best].value:.1f}%", color="black", **style)
    crossed = {n: m for n, m in crossovers.items() if m is not None}
    if crossed:
        at = [[place(getattr(m, end), budgets) for end in ("low", "value", "high")] for m in crossed.values()]
        low, middle, high = np.transpose(at)
        y = np.array([rows.index(n) for n in crossed]) - BELOW
        axes.plot(middle, y, color=BORDER, lw=2, marker="o", ms=6, mec="white", zorder=3)
        axes.hlines(y, low, high, color=BORDER, lw=5, alpha=0.45, zorder=2)
    mine = {"color": "black", "ms": 10, "marker": "^", "clip_on": False, "zorder": 5, "ls": "none"}
    axes.plot(place(your[1], budgets), -0.5, **mine)
    if rows[0] <= your[0] <= rows[-1]:
        axes.plot(-0.5, np.interp(np.log(your[0]), np.log(rows), range(len(rows))), **(mine | {"marker": ">"}))
    axes.set(
        xticks=range(len(columns)),
        xticklabels=["none" if e is None else f"{e:g}" for e in columns],
        yticks=range(len(rows)),
        yticklabels=[f"{n:,}" for n in rows],
        xlim=(-0.5, len(columns) - 0.5),
        ylim=(-0.5, len(rows) - 0.5),
        xlabel="privacy budget ε",
        ylabel="training records n",
    )
    axes.grid(visible=False)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colours[w]) for w in best]
    names = [f"{size(w)} units best" if w else "linear model best" for w in best]
    handles.append(plt.Line2D([], [], color=BORDER, lw=2, marker="o", ms=6))
    handles.append(plt.Line2D([], [], **mine))
    names += [f"right of it {size(width)} units win", "your n, your ε"]
    axes.legend(handles, names, ncols=2, loc="lower center", bbox_to_anchor=(0.45, 1.0), frameon=False, columnspacing=1)


def place(epsilon: float, budgets: list[float]) -> float:
    """Where an epsilon lies among the columns, the first being 0; at an end beyond them."""
    return float(np.interp(np.log(max(epsilon, budgets[0])), np.log(budgets), range(len(budgets))))


def by_width(cells: Mapping[Cell, Compared], wanted: tuple[int, ...], budgets: tuple[float | None, ...]) -> None:
    """Accuracy against width, a panel for each wanted n, a colour for each budget; dotted: the linear model."""
    panels: dict[str, dict[float | None, Mapping[int, Measured]]] = {}
    for n in wanted:
        if by_budget := {e: cell.means for (size, e), cell in cells.items() if size == n and e in budgets}:
            shared = set.intersection(*map(set, by_budget.values()))  # the largest was tried here and there
            panels[f"{n:,} records"] = {
                e: {width: means[width] for width in means if width in shared} for e, means in by_budget.items()
            }
    _curves(panels, "hidden units")


def by_features(features: Mapping[str, Mapping[tuple[int, float | None], Mapping[str, Any]]]) -> None:
    """Accuracy against the number of random features, a panel for each data set, a colour for each budget."""
    titles = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
    panels: dict[str, dict[float | None, Mapping[int, Measured]]] = {}
    for name, by_cell in features.items():
        for (p, epsilon), cell in by_cell.items():
            by_features_ = panels.setdefault(titles.get(name, name), {}).setdefault(epsilon, {})
            by_features_[p] = stats.mean_interval(cell["test"])
    _curves(panels, "random features p")


def _curves(panels: Mapping[str, Mapping], label: str) -> None:
    """Means and bands by title and budget, panels one below the other; a mean at 0 is a dotted line."""
    figure, rows = plt.subplots(len(panels), 1, figsize=(NAMED, 2.5 * len(panels)), sharex=True, squeeze=False)
    for (title, by_budget), axes in zip(panels.items(), rows[:, 0], strict=True):
        for (epsilon, widths), colour in zip(by_budget.items(), sns.color_palette("colorblind"), strict=False):
            means = dict(widths)
            linear = means.pop(0, None)
            if means:
                x, values = list(means), means.values()
                name = "no privacy" if epsilon is None else f"ε = {epsilon:g}"
                plotting.line(axes, x, values, color=colour, label=name)
            if linear is not None:
                axes.axhline(linear.value, color=colour, ls=":", lw=1.5)
        axes.set(xscale="log", title=title, ylabel="accuracy, %")
        axes.set_xlim(right=axes.get_lines()[0].get_xdata()[-1])  # the names stand outside
    rows[-1, 0].set_xlabel(label)
    figure.tight_layout()
    for axes in rows[:, 0]:
        plotting.name_lines(axes)


def best_numbers(records: tuple[int, ...] = (500, 5000, 50_000), delta: float = 1e-5) -> None:
    """The best number of features by the formula of Theorem 6, for a signal of 4/j, against epsilon."""
    p = np.arange(1, 100_001)
    budgets = np.geomspace(0.1, 10, 41)
    noise = (np.log(1 / delta) / budgets) ** 2  # variance for one feature

    def best(variance: float | np.ndarray, n: int) -> int:
        gamma = np.cumsum(4 / p) / (1 + variance)
        return int(gmm.theorem6_psi(gamma, p, n).argmax()) + 1

    _, axes = plt.subplots(figsize=(NAMED, 3.2))
    for n in records:
        axes.plot(budgets, [best(v, n) for v in noise], label=f"n = {n:,}")
    norm = [best(v * p, max(records)) for v in noise]  # a norm grows like √p
    axes.plot(budgets, norm, "--", color="grey", label="by a norm")
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="best number of features", xlim=(0.1, 10))
    axes.set_xticks((0.1, 1, 10), ("0.1", "1", "10"))
    plotting.name_lines(axes)


def steps_gained(
    results: Mapping[tuple[int, float | None, int], Mapping[str, Any]],
    records: tuple[int, ...],
    widths: tuple[int, ...],
) -> pd.DataFrame:
    """What the most steps gain over the fewest, in points: a row for n and ε, a column for each width; nan: not run."""
    rows = {}
    for n, epsilon, width in results:
        if n in records and width in widths:
            row = rows.setdefault(f"{n:,} records, ε = {budget(epsilon)}", dict.fromkeys(map(size, widths), np.nan))
            row[size(width)] = gain(results[n, epsilon, width]["by_steps"])
    return pd.DataFrame.from_dict(rows, orient="index")


def worth_of_laws(judged: Mapping[str, Any], later: Mapping[str, Any]) -> pd.DataFrame:
    """What the laws and some fixed rules are worth: a row each, with errors and losses in points.

    Args:
        judged, later: of :func:`papers.sizes.map_rows.judged`, on cells held out and on those that were run later.
    """
    fixed = [choice for choice in judged["regret"] if isinstance(choice, int)]
    rules = {width: f"always {size(width)}" for width in fixed}
    rules["border"] = f"linear below nε = {map_rows.BORDER:,}, else {size(max(fixed))}"
    columns = {
        "error of the accuracy": pd.Series(judged["error"]),
        "lost by its choice": pd.Series(judged["regret"]).rename(rules),
        "error at n = 1,600": pd.Series(later["error"]),
        "lost at n = 1,600": pd.Series(later["regret"]).rename(rules),
    }
    return pd.DataFrame(columns).loc[[*judged["error"], *rules.values()]]


def said(
    law: map_rows.Law, cells: Mapping[Cell, Compared], near: Cell, n: int, epsilon: float, width: int
) -> dict[str, Any]:
    """What a law, and the nearest measured cell, say at the reader's n, epsilon and width."""
    known = (0, 4, 16, 64, 256, 1024, 4096)
    return {
        "best_size_by_the_law": size(law.best((n, epsilon), [0, 16, 64, 256, 1024])),
        "accuracy_of_the_linear_model_by_the_law": float(law.accuracy(n, epsilon, 0)),
        "accuracy_of_your_width_by_the_law": float(law.accuracy(n, epsilon, width)),
        "nearest_cell": f"n = {near[0]}, ε = {near[1]:g}",
        "not_worse_there": sizes(cells[near].good, known),
        "accuracy_there": cells[near].means[cells[near].best],
    }
