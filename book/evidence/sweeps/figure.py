"""The figure over a grid: what each recorded number does along one parameter, in the colour of a second one."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from dplib import stats

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
    plotting.theme()
    done = table[table["status"] == "done"]
    along, colour = directions(done, axes)
    names = telling(done, axes)[:PANELS]
    if not names:
        figure, panel = plt.subplots()
        panel.set_axis_off()
        panel.text(0.5, 0.5, "no recorded number differs between the runs", ha="center", va="center")
        return figure
    if along is None:
        along, done = "all runs", done.assign(**{"all runs": ""})
    numbers = pd.api.types.is_numeric_dtype(done[along])
    ids = [name for name in (along, colour) if name]
    long = done.sort_values(ids).melt(ids, names, "recorded")
    long = long.assign(value=long["value"].astype(float), **{along: long[along].astype(float if numbers else str)})
    for name in ids[numbers:]:
        long[name] = long[name].map(_label)
    drawn = sns.relplot(
        long, x=along, y="value", hue=colour, col="recorded", col_wrap=min(3, len(names)), kind="line", marker="o",
        errorbar=_interval, err_style="bars", palette="colorblind" if colour else None, height=3.4, aspect=1.3,
        facet_kws={"sharey": False},
    )  # fmt: skip
    drawn.set_titles("{col_name}", size="small")
    drawn.set_ylabels("")
    if numbers and long[along].min() > 0 and long[along].max() / long[along].min() > 20:
        drawn.set(xscale="log")
    return drawn.figure


def _interval(values: pd.Series) -> tuple[float, float]:
    if len(values) < 2:
        return math.nan, math.nan
    found = stats.mean_interval(values.to_numpy())
    return found.low, found.high


def _label(value: object) -> str:
    """A value as a label: short, on one line, and never taken for a formula."""
    text = " ".join(str(value).split())
    text = "".join(letter for letter in text if letter.isprintable())
    return (text if len(text) <= 30 else text[:27] + "...").replace("$", r"\$")
