"""The figures of chapter 14: the map, accuracy against width, accuracy against the number of random features."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from book.evidence import plotting
from dplib import stats
from dplib.stats import Measured
from papers.sizes.map_rows import Cell, Compared

LINEAR = "linear"


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


def draw(cells: Mapping[Cell, Compared], crossovers: Mapping[int, Measured | None], your: tuple[int, float]) -> None:
    """The map: for each cell its best width by colour, the widths that are not worse in words, and the best's accuracy.

    Args:
        crossovers: for each n the budget from which a network is ahead of the linear model; drawn as a line.
        your: n and epsilon of the reader, a grey cross.
    """
    rows = sorted({n for n, _ in cells})
    budgets = sorted({e for _, e in cells if e is not None})
    columns = [*budgets, None] if any(e is None for _, e in cells) else budgets
    known = tuple(sorted({w for cell in cells.values() for w in cell.means}))
    colours = dict(zip(known, sns.color_palette("YlGnBu", len(known)), strict=True))
    _, axes = plt.subplots(figsize=(8.8, 4.9))
    for (n, epsilon), cell in cells.items():
        x, y = columns.index(epsilon), rows.index(n)
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, color=colours[cell.best], lw=0))
        ink = "white" if known.index(cell.best) > len(known) / 2 else "black"
        text = f"{sizes(cell.good, known)}\n{cell.means[cell.best].value:.1f}%"
        axes.text(x, y + 0.1, text, ha="center", va="bottom", fontsize=8, color=ink, linespacing=1.1)
    crossed = {n: m for n, m in crossovers.items() if m is not None}
    if crossed:
        at = [[_place(getattr(m, end), budgets) for end in ("low", "value", "high")] for m in crossed.values()]
        low, middle, high = np.transpose(at)
        y = [rows.index(n) for n in crossed]
        axes.plot(middle, y, color="#d55e00", lw=2, marker="o", ms=5, zorder=3)
        axes.fill_betweenx(y, low, high, color="#d55e00", alpha=0.35, lw=0, zorder=2)
    axes.plot(_place(your[1], budgets), np.interp(np.log(your[0]), np.log(rows), range(len(rows))), "x", color="grey")
    axes.set(
        xticks=range(len(columns)),
        xticklabels=["no privacy" if e is None else f"{e:g}" for e in columns],
        yticks=range(len(rows)),
        yticklabels=[f"{n:,}" for n in rows],
        xlim=(-0.5, len(columns) - 0.5),
        ylim=(-0.5, len(rows) - 0.5),
        xlabel="ε",
        ylabel="training records n",
    )
    axes.grid(visible=False)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colours[w]) for w in known]
    axes.legend(handles, map(size, known), title="best", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _place(epsilon: float, budgets: list[float]) -> float:
    return float(np.interp(np.log(epsilon), np.log(budgets), range(len(budgets))))


def by_width(cells: Mapping[Cell, Compared], wanted: tuple[int, ...]) -> None:
    """Accuracy against width, a panel for each wanted n, a colour for each budget; dotted: the linear model."""
    panels: dict[str, dict[float | None, Mapping[int, Measured]]] = {}
    for n in wanted:
        if own := {e: cell.means for (size, e), cell in cells.items() if size == n}:
            panels[f"n = {n:,}"] = own
    _curves(panels, "hidden units", list(dict.fromkeys(e for _, e in cells)))


def by_features(features: Mapping[str, Mapping[tuple[int, float | None], Mapping[str, Any]]]) -> None:
    """Accuracy against the number of random features, a panel for each data set, a colour for each budget."""
    panels: dict[str, dict[float | None, Mapping[int, Measured]]] = {}
    for name, found in features.items():
        for (p, epsilon), one in found.items():
            own = panels.setdefault(name, {}).setdefault(epsilon, {})
            own[p] = stats.mean_interval(one["test"])
    _curves(panels, "random features p", [])


def _curves(panels: Mapping[str, Mapping], label: str, epsilons: list[float | None]) -> None:
    """Means and bands by title and budget; a mean at 0 is a dotted line."""
    _, found = plt.subplots(1, len(panels), figsize=plotting.WIDE, sharey=True, squeeze=False)
    for (title, by_budget), axes in zip(panels.items(), found[0], strict=True):
        budgets = epsilons or list(by_budget)
        for epsilon, colour in zip(budgets, sns.color_palette("viridis_r", len(budgets)), strict=True):
            means = dict(by_budget.get(epsilon, {}))
            if 0 in means:
                axes.axhline(means.pop(0).value, color=colour, ls=":", lw=1.5)
            if means:
                x, values = list(means), means.values()
                axes.plot(x, [m.value for m in values], "o-", ms=4, color=colour, label=budget(epsilon))
                plotting.band(axes, x, [m.low for m in values], [m.high for m in values])
        axes.set(xscale="log", xlabel=label, title=title)
    found[0][0].set_ylabel("test accuracy, %")
    found[0][-1].legend(title="ε", loc="center left", bbox_to_anchor=(1.01, 0.5))
