"""One look for every figure: seaborn's colour-blind palette, readable sizes, bands that say what they are."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from scipy import optimize

from dplib import stats

SIZE = (7.0, 4.2)  # inches, for one panel


def theme() -> None:
    """Set the book's theme; once, in a chapter's first code cell after the checks."""
    sns.set_theme(context="notebook", style="whitegrid", palette="colorblind", font_scale=0.95)
    # White behind the axes: the figures stay legible on the dark pages of the site.
    plt.rcParams.update(
        {"figure.figsize": SIZE, "figure.facecolor": "white", "figure.dpi": 110, "savefig.bbox": "tight"}
    )


def band(axes: plt.Axes, x, low, high, **style) -> None:
    """A shaded interval around a curve, in the colour of the line drawn last."""
    style = {"color": axes.lines[-1].get_color(), "alpha": 0.2, "linewidth": 0} | style
    axes.fill_between(x, low, high, **style)


def means(values: Iterable[Any]) -> list[stats.Measured]:
    """The mean over runs with its 95% interval of each row of values, (x, runs)."""
    return [stats.mean_interval(value) for value in values]


def line(
    axes: plt.Axes,
    x: Sequence[Any],
    measured: Sequence[stats.Measured],
    style: str = "o-",
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
    **look: Any,
) -> None:
    """A line through measured values, with the band of their intervals.

    Args:
        axes: where it is drawn.
        x: (points,).
        measured: a value for each x, as of :func:`means`.
        style: its format, as matplotlib's ``plot`` takes it; "" leaves it to ``look``.
        within: what intervals are cut to.
        look: further settings of ``plot``.
    """
    axes.plot(x, [mean.value for mean in measured], *([style] if style else []), **({"ms": 4} | look))
    ends = np.array([[mean.low, mean.high] for mean in measured], dtype=float).reshape(-1, 2)
    band(axes, x, *ends.clip(*within).T)


def bands(name: str, x: Iterable[Any], measured: Iterable[stats.Measured]) -> pd.DataFrame:
    """A table for :func:`curves`, a row for each x and its measured value: columns ``name``, mean, low, high."""
    rows = [(at, m.value, m.low, m.high) for at, m in zip(x, measured, strict=True)]
    return pd.DataFrame(rows, columns=[name, "mean", "low", "high"]).astype(
        dict.fromkeys(("mean", "low", "high"), float)
    )


def column(panels: int, width: float, height: float, **shared: Any) -> tuple[plt.Figure, np.ndarray]:
    """A figure of panels one below the other; returns it with its axes, (panels,).

    Args:
        panels: how many.
        width: of the figure, in inches.
        height: of a panel, in inches.
        shared: of ``plt.subplots``, such as ``sharex``.
    """
    figure, axes = plt.subplots(panels, 1, figsize=(width, height * panels), squeeze=False, **shared)
    return figure, axes[:, 0]


def curves(axes: plt.Axes, tables: Mapping[str, pd.DataFrame], x: str, **styles: Mapping[str, Any]) -> None:
    """Lines with bands of columns ``x``, mean, low and high; ``styles``: label ("_" for what is no letter) to
    a style.
    """
    for label, table in tables.items():
        style = styles.get(re.sub(r"\W", "_", label), {})
        axes.plot(table[x], table["mean"], label=label, **style)
        band(axes, table[x], table["low"], table["high"])


def dots(
    axes: plt.Axes, rows: Mapping[str, Mapping[str, Any]], printed: Mapping[str, float], series: Sequence[str] = ()
) -> None:
    """Measured values with their intervals, a row each, and what is printed as a ring beside them.

    ``rows``: name to {series: :class:`dplib.stats.Measured`}, one colour a series; ``series``: the order of the
    colours.
    """
    names = list(dict.fromkeys([*printed, *rows]))
    series = list(series or dict.fromkeys(s for row in rows.values() for s in row))
    colours = sns.color_palette("colorblind", len(series))
    for place, name in enumerate(names):
        for shift, (entry, colour) in enumerate(zip(series, colours, strict=True)):
            if (value := rows.get(name, {}).get(entry)) is not None:
                y = place + 0.16 * (shift - (len(series) - 1) / 2)
                ends = [[value.value - value.low], [value.high - value.value]] if value.low is not None else None
                axes.errorbar(value.value, y, xerr=ends, fmt="o", ms=5, color=colour, capsize=3)
    for entry, colour in zip(series, colours, strict=True):
        axes.errorbar([], [], xerr=[], fmt="o", ms=5, color=colour, capsize=3, label=entry)
    rings = [(printed[name], place) for place, name in enumerate(names) if name in printed]
    if rings:
        axes.plot(*zip(*rings, strict=True), "o", ms=9, mfc="none", mec="black", label="printed")
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    axes.grid(axis="y", visible=False)


def mark_yours(axes: plt.Axes, value: float, name: str = "your ε", *, height: float = 0.03, left: bool = False) -> None:
    """The reader's own value on the x axis: a dashed line, as no line of the grid is, with its name beside it.

    Where nothing is drawn at the value there is no line: it would make the axis longer, or leave its name outside.

    Args:
        height: of the name, as a share of the axes.
        left: the name stands left of the line.
    """
    first, last = axes.dataLim.intervalx
    if not 0.99 * first <= value <= 1.01 * last:  # a training that spends 3 ends at 2.9998
        return
    axes.axvline(value, color="0.2", lw=1.4, ls=(0, (4, 2)), zorder=1.5, label="_")
    place = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "va": "bottom"}
    shift, side = ((-4, 0), "right") if left else ((4, 0), "left")
    axes.annotate(name, (value, height), shift, ha=side, color="0.2", fontsize=11, **place)


def name_lines(axes: plt.Axes, *, at: str = "right", gap: float = 15, size: float = 12) -> None:
    """Write each labelled line's label at its end, in its colour; call it last, since it measures the axes.

    Labels that would lie on each other are pushed apart, but not below the axes; one at the frame stands outside of it.

    Args:
        at: "right" or "left", the end of the lines.
        gap: least distance of two labels, in points.
        size: of the text, in points.
    """
    axes.figure.canvas.draw()  # the limits are final
    end = -1 if at == "right" else 0
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    points = 72 / axes.figure.dpi
    ends = [(np.asarray(line.get_xdata())[end], np.asarray(line.get_ydata())[end]) for line in lines]
    places = np.array([axes.transData.transform(place) * points for place in ends])
    box = axes.get_window_extent()
    shifts = _apart(places[:, 1], gap, least=box.y0 * points + 0.45 * gap) - places[:, 1]
    edge = (box.x1 if at == "right" else box.x0) * points
    beside = np.abs(edge - places[:, 0])  # from a line's end to the frame
    for line, place, shift, away in zip(lines, ends, shifts, np.where(beside < 25, beside + 5, 7), strict=True):
        offset = (away if at == "right" else -away, shift)
        style = {"ha": "left" if at == "right" else "right", "va": "center", "fontsize": size, "annotation_clip": False}
        label = line.get_label()
        axes.annotate(label, place, offset, textcoords="offset points", color=line.get_color(), **style)


def _apart(heights: np.ndarray, gap: float, least: float = -np.inf) -> np.ndarray:
    """Heights (n,) moved as little as neighbours allow, so that no two are nearer than ``gap``; their order stays.

    None is below ``least``.
    """
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(heights))
    apart = np.empty(len(heights))
    apart[order] = np.maximum(optimize.isotonic_regression(heights[order] - steps).x, least) + steps
    return apart
