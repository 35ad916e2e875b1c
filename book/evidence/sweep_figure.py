"""The figure over a grid: what each number that its runs found does along one parameter, coloured by a second one."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from dplib import stats

PANELS = 9
COLOURS = 8
_PARTS = (".low", ".high", ".n")


def directions(table: pd.DataFrame, varied: Sequence[str]) -> tuple[str | None, str | None]:
    """The parameter along which to draw, the longest axis of numbers if there is one, and the one to tell by colour.

    Seeds are neither: runs that differ in them alone are repetitions.
    """
    names = [f"parameter.{name}" if f"parameter.{name}" in table else name for name in varied]
    names = [name for name in names if not name.lower().startswith("seed")]
    numeric = [name for name in names if pd.api.types.is_numeric_dtype(table[name])]
    along = max(numeric or names, key=lambda name: table[name].nunique(), default=None)
    colour = next((name for name in names if name != along and table[name].nunique() <= COLOURS), None)
    return along, colour


def answer_columns(table: pd.DataFrame) -> list[str]:
    """The columns of a sweep's table with what its runs found, without those of intervals."""
    return [name for name in table if "." in name and not name.startswith("parameter.") and not name.endswith(_PARTS)]


def draw(table: pd.DataFrame, varied: Sequence[str]) -> plt.Figure:
    """A panel for each number that differs between the runs, PANELS at most: mean and 95% interval over the runs of a
    setting.

    Args:
        table: the table of a sweep; only runs that are done count.
        varied: the parameters that vary.
    """
    plotting.theme()
    done = table[table["status"] == "done"]
    along, colour = directions(done, varied)
    answers = answer_columns(done)
    names = [name for name in answers if pd.api.types.is_numeric_dtype(done[name]) and done[name].nunique() > 1][
        :PANELS
    ]
    if not names:
        figure, panel = plt.subplots()
        panel.set_axis_off()
        said = "no number differs between the runs" if answers else "the notebook records no answer"
        panel.text(0.5, 0.5, said, ha="center", va="center")
        return figure
    if along is None:
        along, done = "all runs", done.assign(**{"all runs": ""})
    numbers = pd.api.types.is_numeric_dtype(done[along])
    ids = [name for name in (along, colour) if name]
    long = done.sort_values(ids).melt(ids, names, "found").astype({"value": float, along: float if numbers else str})
    for name in ids[numbers:]:
        long[name] = long[name].map(_label)
    drawn = sns.relplot(
        long, x=along, y="value", hue=colour, col="found", col_wrap=min(3, len(names)), kind="line", marker="o",
        errorbar=_interval, err_style="bars", palette="colorblind" if colour else None, height=3.4, aspect=1.3,
        facet_kws={"sharey": False},
    )  # fmt: skip
    drawn.set_titles("{col_name}", size="small").set_ylabels("")
    if numbers and long[along].min() > 0 and long[along].max() / long[along].min() > 20:
        drawn.set(xscale="log")
    return drawn.figure


def _interval(values: pd.Series) -> tuple[float, float]:
    if len(values) < 2:
        return math.nan, math.nan
    mean = stats.mean_interval(values.to_numpy())
    return mean.low, mean.high


def _label(value: object) -> str:
    """A value as a label: short, on one line, and never taken for a formula."""
    text = "".join(letter for letter in " ".join(str(value).split()) if letter.isprintable())
    return (text if len(text) <= 30 else text[:27] + "...").replace("$", r"\$")
