"""The figures of chapter 14: the map, accuracy against width, accuracy against the number of random features."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import plotting, stats
from dplib.sizes.map_rows import Cell, Compared
from dplib.stats import Measured

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
    shown = [n for n in wanted if any(at[0] == n for at in cells)]
    _, panels = plt.subplots(1, len(shown), figsize=plotting.WIDE, sharey=True, squeeze=False)
    epsilons = list(dict.fromkeys(e for _, e in cells))
    for n, axes in zip(shown, panels[0], strict=True):
        for epsilon, colour in zip(epsilons, sns.color_palette("viridis_r", len(epsilons)), strict=True):
            if (n, epsilon) not in cells:
                continue
            means = cells[n, epsilon].means
            hidden = {w: m for w, m in means.items() if w}
            axes.plot(list(hidden), [m.value for m in hidden.values()], "o-", ms=4, color=colour, label=budget(epsilon))
            plotting.band(axes, list(hidden), [m.low for m in hidden.values()], [m.high for m in hidden.values()])
            if 0 in means:
                axes.axhline(means[0].value, color=colour, ls=":", lw=1.5)
        axes.set(xscale="log", xlabel="hidden units", title=f"n = {n:,}")
    panels[0][0].set_ylabel("test accuracy, %")
    panels[0][-1].legend(title="ε", loc="center left", bbox_to_anchor=(1.01, 0.5))


def by_features(features: Mapping[str, Mapping[tuple[int, float | None], Mapping[str, Any]]]) -> None:
    """Accuracy against the number of random features, a panel for each data set, a colour for each budget."""
    _, panels = plt.subplots(1, len(features), figsize=plotting.WIDE, sharey=True, squeeze=False)
    for (name, found), axes in zip(features.items(), panels[0], strict=True):
        epsilons = list(dict.fromkeys(e for _, e in found))
        for epsilon, colour in zip(epsilons, sns.color_palette("viridis_r", len(epsilons)), strict=True):
            means = {p: stats.mean_interval(one["test"]) for (p, e), one in found.items() if e == epsilon}
            axes.plot(list(means), [m.value for m in means.values()], "o-", ms=4, color=colour, label=budget(epsilon))
            plotting.band(axes, list(means), [m.low for m in means.values()], [m.high for m in means.values()])
        axes.set(xscale="log", xlabel="random features p", title=name)
    panels[0][0].set_ylabel("test accuracy, %")
    panels[0][-1].legend(title="ε", loc="center left", bbox_to_anchor=(1.01, 0.5))
