"""The figures and tables of chapter 6: how many features are best, where few and all cross, and what searches gain."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from book.evidence import claims, plotting
from dplib import stats
from dplib.stats import Measured
from papers.architecture import feature_rows as rows
from papers.architecture.feature_runs import Curves

SMALL = (4.7, 3.9)  # inches: with labels beside the lines legible on a phone, too
TALL = (4.7, 6.6)  # two panels above each other
NO_PRIVACY = 1e6  # budgets from here on hide nothing
TICKS = (1, 2, 5, 10, 20, 43, 108)
METHODS = {
    "random": "random subset", "one random": "one random column", "cfs columns": "CFS, entropies, columns",
    "cfs attributes": "CFS, entropies, attributes", "tables attributes": "CFS, tables, attributes",
    "label tables": "one attribute, tables", "pafs": "PAFS, composed", "search": "random search",
    "cfs columns, unpaid": "CFS, columns (unpaid)",
}  # fmt: skip
Totals = Mapping[tuple[str, float], np.ndarray]  # method and total ε to accuracies by split


def by_size(curves: Curves, epsilons: Sequence[float]) -> None:
    """Accuracy over the number of features at some budgets and without privacy, with a star at the best size."""
    _, axes = plt.subplots(figsize=SMALL)
    shown = [e for e in curves.epsilons if e in epsilons or e >= NO_PRIVACY]
    for e in shown:
        name, colour = ("no privacy", "black") if e >= NO_PRIVACY else (f"ε = {e:g}", None)
        _line(axes, name, plotting.bands("size", curves.sizes, plotting.means(curves.of(e))), colour)
        means = curves.of(e).mean(axis=1)
        at, top = curves.sizes[means.argmax()], means.max()
        axes.plot(at, top, "*", color=axes.lines[-1].get_color(), ms=13, mec="black", zorder=3)
    level = curves.constant.mean()
    axes.axhline(level, color="black", ls="--", lw=1)
    if min(curves.of(e).mean(axis=1)[0] for e in shown) > level - 0.1:  # there is room below it
        axes.text(curves.sizes[0], level - 0.4, "always the\nfrequent class", fontsize=11, va="top")
    ticks = [k for k in TICKS if k <= curves.sizes[-1]]
    axes.set(xscale="log", xlabel="number of features", ylabel="test accuracy, %")
    axes.set_xticks(ticks, ticks)
    axes.minorticks_off()
    plotting.name_lines(axes, gap=16)


def best_sizes(curves: Mapping[str, Curves]) -> Styler:
    """The best number of features at each budget, and its leads in points."""
    lines = []
    for name, table in curves.items():
        for e in table.epsilons:
            budget = "none" if e >= NO_PRIVACY else f"{e:g}"
            leads = rows.gain(table, e, 1), rows.gain(table, e, table.sizes[-1])
            constant = rows.largest(table.of(e) - table.constant)
            lines.append([name, budget, f"{rows.best_size(table, e):.0f}", *map(_ends, (*leads, constant))])
    columns = ["data", "ε", "best size", "less one feature", "less all", "less a constant"]
    return pd.DataFrame(lines, columns=columns).style.hide(axis="index")


def _ends(lead: Measured) -> str:
    """With both ends of its interval, which holds for all sizes at once, so that its two arms differ."""
    return f"{lead.value:z.1f} [{lead.low:z.1f}, {lead.high:z.1f}]"


def regularised(tuned: Mapping[str, tuple[Curves, Curves, np.ndarray]]) -> Styler:
    """The best size's lead over all features with C = 1 and with a C of their own; 1/C of all features."""
    lines = []
    for name, (plain, tuned_table, chosen) in tuned.items():
        for j, e in enumerate(tuned_table.epsilons):
            leads = [_ends(rows.gain(table, e, table.sizes[-1])) for table in (plain, tuned_table)]
            lines.append([name, f"{e:g}", *leads, f"{chosen[-1, j]:g}"])
    columns = ["data", "ε", "lead, C = 1", "lead, own C", "1/C of all features"]
    return pd.DataFrame(lines, columns=columns).style.hide(axis="index")


def crossings(chosen: Mapping[str, tuple[Curves, Curves]], printed: Sequence[tuple], epsilon: float) -> None:
    """Few features and all over ε, a panel for each data set; hatched: the printed range of the crossover."""
    figure, panels = plt.subplots(2, 1, figsize=TALL)
    for axes, (name, (few, every)), ends in zip(panels, chosen.items(), printed, strict=True):
        for label, table in {f"{few.sizes[0]} of them": few, "all features": every}.items():
            _line(axes, label, plotting.bands("ε", table.epsilons, plotting.means(table.values[:, 0].T)))
        axes.axvline(rows.crossover_of((few, every)).value, color="black", lw=1.5)
        axes.axvspan(*ends, fc="none", ec="C3", hatch="///", lw=0)
        axes.axhline(few.constant.mean(), color="black", ls=":", lw=1)
        plotting.mark_yours(axes, epsilon)
        axes.set(xscale="log", title=name, ylabel="test accuracy, %")
    panels[1].set_xlabel("privacy budget ε")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def dpsgd(trained: Mapping[str, Any]) -> None:
    """Tables II and XVIII: accuracy of DP-SGD over the number of features; crosses: printed."""
    titles = {"table2": "Table II: Breast Cancer", "table18": "Table XVIII: Adult"}
    figure, panels = plt.subplots(2, 1, figsize=TALL)
    for axes, (name, accuracy) in zip(panels, trained.items(), strict=True):
        printed = pd.DataFrame(claims.printed_rows(f"B.{name}").values())
        printed = printed.replace({"n_features": {"all": accuracy.sizes[-1]}})
        for e, colour in zip(accuracy.noise, ("C0", "C1", "grey"), strict=True):
            means = plotting.means(accuracy.values[k, e] for k in accuracy.sizes)
            table = plotting.bands("features", accuracy.sizes, means)
            _line(axes, f"ε = {e:g}" if e else "SGD", table, colour)
            cells = printed[printed["epsilon"] == e] if e else printed
            axes.plot(cells["n_features"], cells["acc_dpsgd" if e else "acc_sgd"], "x", color=colour, mew=2)
        axes.axhline(accuracy.constant.mean(), color="black", ls="--", lw=1)
        axes.set(title=titles[name], ylabel="test accuracy, %")
    panels[1].set_xlabel("number of features")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def searches(tables: Mapping[str, Mapping[str, Any]], epsilon: float) -> None:
    """Table X: accuracy over ε of four ways to choose features, a panel for each variant; rings: printed."""
    colours = {"All": "C0", "PAFS (test)": "C1", "PAFS (validation)": "C2", "CFS-Greedy": "C3"}
    short = {"All": "all features", "PAFS (test)": "PAFS, test", "PAFS (validation)": "PAFS, honest"}
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharex=True)
    for axes, (title, intervals) in zip(panels, tables.items(), strict=True):
        for name in [name for name in colours if name in intervals["percent"]]:
            table = plotting.bands("ε", intervals["epsilons"], plotting.means(intervals["percent"][name].T))
            axes.plot(table["ε"], table["mean"], color=colours[name], label=short.get(name, name))
            if name in ("All", "CFS-Greedy"):
                plotting.band(axes, table["ε"], table["low"], table["high"])
        axes.axhline(intervals["constant"].mean(), color="black", ls=":", lw=1.2)
        plotting.mark_yours(axes, epsilon)
        axes.set(xscale="log", title=title, ylabel="test accuracy, %")
    library = next(iter(tables.values()))
    cells = _printed_10(library)
    for key, name in (("all", "All"), ("pafs", "PAFS (test)")):
        panels[0].plot(list(cells), [cell[key] for cell in cells.values()], "o", mfc="none", mec=colours[name])
    panels[1].set_xlabel("ε of the final model")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def table_10(library: Mapping[str, Any]) -> pd.DataFrame:
    """Table X: our means beside print."""
    cells = _printed_10(library)
    lines = {}
    for j, e in enumerate(library["epsilons"]):
        means = {name: library["percent"][name][:, j].mean() for name in rows.COLUMNS.values()}
        lines[f"{e:g}"] = [f"{means[name]:.1f} ({cells[e][key]:g})" for key, name in rows.COLUMNS.items()]
    return pd.DataFrame(lines, index=list(rows.COLUMNS.values())).T.rename_axis("ε")


def one_total(budget: Totals, constant: np.ndarray) -> None:
    """Points above all features when everything is paid for, means over the totals; dashed: a constant."""
    totals = sorted({e for _, e in budget})

    def above_all(accuracies: Mapping[float, np.ndarray]) -> np.ndarray:
        return np.mean([accuracies[e] - budget["all", e] for e in totals], axis=0)

    means = {m: stats.mean_interval(above_all({e: budget[m, e] for e in totals})) for m in METHODS}
    _, axes = _dots(means)
    axes.axvline(above_all(dict.fromkeys(totals, constant)).mean(), color="black", ls="--", lw=1)
    axes.set(xlabel="points above all features")


def best_paid(totals: Mapping[str, tuple[Totals, np.ndarray]]) -> Styler:
    """The best paid method at each total, and its leads over all features and over a constant."""
    lines = []
    for name, (budget, constant) in totals.items():
        for total in sorted({e for _, e in budget}):
            paid = {m: values for (m, e), values in budget.items() if e == total and "unpaid" not in m}
            first = max(paid, key=lambda m, paid=paid: paid[m].mean())
            rest = [values for m, values in paid.items() if m != "all"]
            leads = [
                f"{rows.largest(np.array(rest) - paid['all']):.1f}",
                f"{rows.largest(np.array(list(paid.values())) - constant):.1f}",
            ]
            lines.append([name, f"{total:g}", METHODS.get(first, "all features"), *leads])
    columns = ["data", "total ε", "best paid method", "less all", "less a constant"]
    return pd.DataFrame(lines, columns=columns).style.hide(axis="index")


def paid(values: Mapping[str, Measured]) -> None:
    """What the best selection that is paid for leads by, over each rival that looks at nothing, on both tables; of
    :func:`papers.architecture.feature_cost_rows.same_guarantee`.
    """
    rivals = {"all": "all features", "random": "random subset", "one_random": "one random\ncolumn",
              "constant": "a constant", "one_named": "one named\nbeforehand"}  # fmt: skip
    tables = {"bc": "Breast Cancer", "adult": "Adult"}
    found = {
        label: {title: values[f"best_paid_less_{rival}_{name}"] for name, title in tables.items()}
        for rival, label in rivals.items()
    }
    _, axes = plt.subplots(figsize=SMALL)
    plotting.dots(axes, found, {}, series=list(tables.values()))
    axes.axvline(0, color="black", lw=1)
    axes.set(xlabel="points that the best paid selection leads by")
    axes.legend(loc="lower right")


def leads(intervals: Mapping[str, Measured], title: str) -> None:
    """Points above always naming the frequent class, a row for each method."""
    _, axes = _dots(intervals)
    axes.set(title=title, xlabel="points above a constant")


def _dots(intervals: Mapping[str, Measured]) -> tuple[plt.Figure, plt.Axes]:
    """A dot with its interval for each method; a line at 0."""
    figure, axes = plt.subplots(figsize=(4.2, 0.42 * len(intervals) + 0.9))
    names = {"all": "all features", **METHODS}
    plotting.dots(axes, {names[m]: {"": value} for m, value in intervals.items()}, {})
    axes.axvline(0, color="black", lw=1)
    return figure, axes


def _printed_10(library: Mapping[str, Any]) -> dict[float, Mapping[str, Any]]:
    return {float(row.removeprefix("B.table10.eps")): claims.get(row).published for row in rows.printed_table(library)}


def _line(axes: plt.Axes, label: str, table: pd.DataFrame, colour: str | None = None) -> None:
    """A line of means with its band; the first column is x."""
    x = table[table.columns[0]]
    axes.plot(x, table["mean"], label=label, color=colour)
    plotting.band(axes, x, table["low"], table["high"])
