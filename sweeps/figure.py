"""The figure over a grid: what each recorded number does along one parameter, in the colour of a second one."""

import math
import textwrap
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from dplib import plotting, stats

PANELS = 9
COLOURS = 8
_PARTS = (".low", ".high", ".n", ".verdict")


def directions(table: pd.DataFrame, axes: Sequence[str]) -> tuple[str | None, str | None]:
    """The parameter along which to draw, and the one to tell by colour.

    Seeds are neither: runs that differ in them alone are repetitions. The longest axis of numbers goes along.
    """
    shown = [f"parameter.{name}" if f"parameter.{name}" in table else name for name in axes]
    shown = [name for name in shown if not name.lower().startswith("seed")]
    numeric = [name for name in shown if pd.api.types.is_numeric_dtype(table[name])]
    along = max(numeric or shown, key=lambda name: table[name].nunique(), default=None)
    colour = next((name for name in shown if name != along and table[name].nunique() <= COLOURS), None)
    return along, colour


def telling(table: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Columns of recorded numbers that differ between runs, by the share of their variance that lies between settings:
    first those which the parameters move most beside the seeds.
    """
    recorded = [name for name in table if "." in name and not name.endswith(_PARTS)]
    numbers = [name for name in recorded if pd.api.types.is_numeric_dtype(table[name]) and table[name].nunique() > 1]
    names = [name for name in numbers if not name.startswith("parameter.")]
    settings = [name for name in directions(table, axes) if name]
    if not settings:
        return names
    between = {name: table.groupby(settings)[name].transform("mean").var() / table[name].var() for name in names}
    return sorted(names, key=lambda name: -np.nan_to_num(round(between[name], 6)))


def draw(table: pd.DataFrame, axes: Sequence[str]) -> plt.Figure:
    """One panel a recorded number, PANELS at most: mean over the runs of a setting with its 95% interval.

    Args:
        table: the table of a sweep; only runs that are done count.
        axes: the parameters that vary.
    """
    done = table[table["status"] == "done"]
    along, colour = directions(done, axes)
    if along is None:
        along, done = "all runs", done.assign(**{"all runs": ""})
    names = telling(done, axes)[:PANELS]
    plotting.theme()
    wide = min(3, max(1, len(names)))
    tall = math.ceil(max(1, len(names)) / wide)
    figure, panels = plt.subplots(tall, wide, figsize=(4.4 * wide, 3.4 * tall), squeeze=False)
    for panel in panels.flat[len(names) :]:
        panel.set_axis_off()
    for panel, name in zip(panels.flat, names, strict=False):
        _panel(panel, done, name, along, colour)
    if not names:
        panels[0, 0].text(0.5, 0.5, "no recorded number differs between the runs", ha="center", va="center")
    figure.tight_layout()
    return figure


def _panel(panel: plt.Axes, done: pd.DataFrame, name: str, along: str, colour: str | None) -> None:
    numbers = pd.api.types.is_numeric_dtype(done[along])
    values = sorted(done[along].dropna().unique())
    groups = [("", done)] if colour is None else list(done.groupby(colour, sort=True))
    for shade, (value, part) in zip(sns.color_palette("colorblind", len(groups)), groups, strict=True):
        settings = [part.loc[part[along] == one, name].dropna().to_numpy(float) for one in values]
        places = values if numbers else range(len(values))
        label = f"{colour} = {_label(value)}" if colour else None
        means = [some.mean() if len(some) else math.nan for some in settings]
        panel.plot(places, means, "o-", color=shade, markersize=4, label=label)
        for place, some in zip(places, settings, strict=True):
            if len(some) >= 2:
                interval = stats.mean_interval(some)
                panel.vlines(place, interval.low, interval.high, color=shade, alpha=0.6)
    if numbers and min(values) > 0 and max(values) / min(values) > 20:
        panel.set_xscale("log")
    if not numbers:
        panel.set_xticks(range(len(values)), [_label(one) for one in values], rotation=30, ha="right")
    panel.set_title("\n".join(textwrap.wrap(name, 40)), fontsize="small")
    panel.set_xlabel(along)
    if colour:
        panel.legend(fontsize="x-small")


def _label(value: object) -> str:
    """A value as a label: short, on one line, and never taken for a formula."""
    text = " ".join(str(value).split())
    text = "".join(letter for letter in text if letter.isprintable())
    return (text if len(text) <= 30 else text[:27] + "...").replace("$", r"\$")
