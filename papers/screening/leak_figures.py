"""The figures of chapter 12, from exact losses to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from book.evidence import plotting
from papers.screening import accounts, instances, one_update

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
NAMED = 4.0  # of panels whose lines have their names beside them


def one_accepted_update(delta: float = 1e-5, most: int = 20) -> None:
    """Exact ε of one accepted update against the number of rejections allowed, at noise multiplier 1."""
    limits = range(most + 1)
    exact = [one_update.epsilon(*one_update.pair(1.0, instances.UP, k), delta) for k in limits]
    claimed = accounts.epsilon(1, 1.0, 1.0)[0]
    _, axes = plt.subplots(figsize=(WIDTH, 3.5))
    axes.plot(limits, exact, "o-", color="#d55e00", ms=4)
    axes.annotate("what it spends", (10, exact[10]), (-8, 4), textcoords="offset points", color="#d55e00", ha="right")
    axes.axhline(claimed, color="black", ls=":", lw=2)
    axes.annotate("claimed", (most, claimed), (0, 4), textcoords="offset points", ha="right")
    first = next((k for k in limits[1:] if exact[k] < exact[k - 1]), None)  # where the leak is rarer than δ
    if first is not None:
        axes.axvspan(first - 0.5, most + 0.9, color="0.93", zorder=0)
        axes.text(first - 0.35, 0.4, "the leak is\nrarer than δ", fontsize=10.5, va="bottom", color="0.25")
        axes.set_xlim(-1, most + 0.9)
    axes.set(xlabel="rejections allowed", ylabel="ε of one accepted update", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    plt.show()


def densities(with_record: one_update.Density, without: one_update.Density) -> None:
    """Densities of one accepted update, in standard deviations of the noise, on a logarithmic axis."""
    u = np.linspace(-4, 5, 1801)
    _, axes = plt.subplots(figsize=(WIDTH, 3.4))
    places = {"with the record": (2.1, 0.35), "without it": (-4.2, 1e-3)}
    for density, (label, place) in zip((with_record, without), places.items(), strict=True):
        axes.semilogy(u, np.exp(density.log_density(u)), lw=2)
        axes.text(*place, label, color=axes.lines[-1].get_color(), fontsize=12)
    axes.set(xlabel="accepted update u", ylabel="density", ylim=(1e-9, 2))
    plt.show()


def trainings(tables: Mapping[str, pd.DataFrame]) -> None:
    """ε at the end of a training against the share of candidates accepted, a panel for each of the paper's settings."""
    figure, panels = plt.subplots(len(tables), 1, figsize=(NAMED, 2.6 * len(tables)), sharex=True, squeeze=False)
    for axes, (name, table) in zip(panels[:, 0], tables.items(), strict=True):
        table = table.sort_values("rate")
        axes.plot(table["rate"], table["all"], "--", color="grey", lw=2, label="all queries")
        axes.plot(table["rate"], table["exact"], "o-", color="#d55e00", ms=4, label="Algorithm 2")
        axes.axhline(table["claimed"].iloc[0], color="black", ls=":", lw=2, label="claimed")
        kept = table.sort_values("passing")
        axes.plot(kept["passing"], kept["kept"], "s-", color="#0173b2", ms=4, label="no limit")
        axes.set(title=name, ylabel="ε", xlim=(0, 1.02), ylim=(0, None))
    panels[-1, 0].set_xlabel("accepted / drawn")
    figure.tight_layout()
    for axes in panels[:, 0]:
        plotting.name_lines(axes)
    plt.show()


def of_records(records: Mapping[str, Mapping[str, Any]], worst: Mapping[str, float]) -> None:
    """The share of watched records that spend at most each ε, a panel for each data set.

    Args:
        records: of :func:`papers.screening.leak_rows.of_records`, by the names of Table 2.
        worst: ε of the bad case, by the same names.
    """
    figure, panels = plt.subplots(len(records), 1, figsize=(WIDTH, 2.9 * len(records)), sharex=True, squeeze=False)
    for axes, (name, told) in zip(panels[:, 0], records.items(), strict=True):
        # each label on the side of its line that has room
        for kind, label, colour, at, side in (
            ("ordinary", "own label", "#0173b2", 0.5, "left"), ("wrong", "wrong label", "#d55e00", 0.2, "right"),
        ):  # fmt: skip
            share = np.arange(len(told[kind]) + 1) / len(told[kind])
            axes.step(np.r_[0, told[kind]], share, where="post", color=colour, lw=2)
            place, offset = (np.quantile(told[kind], at), at), (8 if side == "left" else -8, -4)
            axes.annotate(label, place, offset, textcoords="offset points", color=colour, ha=side)
        for at, label in ((told["claimed"], "claimed"), (worst[name], "bad case")):
            axes.axvline(at, color="black", ls=":", lw=2)
            axes.annotate(label, (at, 0.06), (4, 0), textcoords="offset points")
        axes.set(title=name, ylabel="share of records", ylim=(0, 1.02), xlim=(0, 1.25 * max(worst[n] for n in records)))
    panels[-1, 0].set_xlabel("ε of a record")
    figure.tight_layout()
    plt.show()
