"""The figures and tables of chapter 11, from runs and values to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from book.evidence import plotting
from book.evidence.runs import Result
from dplib.stats import Measured
from papers.common.diverged import accuracies
from papers.screening import account_rows, annealed_rows, theory
from papers.screening import annealed_value_rows as values

DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "digits": "digits"}
SCHEMES = {"dpsgd": "DPSGD", "dpsgd_tanh": "DPSGD (tanh)", "dpsgd_auto_s": "DPSGD (AUTO-S)", "ours": "annealed"}
CHARGED = {
    "kept": "kept steps",
    "lemma2": "every gradient",
    "pld": "every gradient, by PLD",
}
HOW = {"momentum": "Momentum 0.9", "still": "No momentum"}
AXES = {"rates": "learning rate", "batches": "batch size"}
WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
Printed = Mapping[str, Mapping[str, float]]  # {data set: {scheme: printed accuracy in percent}}


def leads(trained: values.Trained, printed: Printed, accounts: Sequence[str]) -> None:
    """Lead over DPSGD (tanh) against ε, a panel for each data set and a line for each account, with its band; dashed on
    the test records that J did not see; a ring as printed.

    Args:
        accounts: of :data:`CHARGED`.
    """
    table = account_rows.leads(trained, "tanh")
    figure, panels = plotting.column(len(trained), WIDTH, 2.3)
    for axes, name in zip(panels, trained, strict=True):
        axes.axhline(0, color="black", lw=0.8)
        for account in accounts:
            lines = table[(table["dataset"] == name) & (table["account"] == account)]
            every, unseen = (lines[lines["records"] == records] for records in account_rows.RECORDS)
            (drawn,) = axes.plot(every["epsilon"], every["lead"], "o-", ms=3, label=CHARGED[account])
            plotting.band(axes, every["epsilon"], every["low"], every["high"])
            axes.plot(unseen["epsilon"], unseen["lead"], "--", lw=1.2, color=drawn.get_color())
        if name in printed:
            lead = printed[name]["ours"] - printed[name]["dpsgd_tanh"]
            axes.plot(account_rows.EPSILON, lead, "o", mfc="none", ms=9, color="black", label="printed")
        axes.set(title=DATA[name], ylabel="lead, points")
    axes.plot([], [], "--", lw=1.2, color="black", label="unseen records")
    panels[-1].set_xlabel("ε")
    figure.tight_layout()
    panels[-1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.32), frameon=False)
    plt.show()


def worth(reliabilities: Sequence[float] = (0.25, 0.5, 0.9, 1.0)) -> None:
    """What screening adds to a noisy gradient in the model of one step, a line for each reliability of J."""
    drifts = np.linspace(-1, 3, 81)
    _, axes = plt.subplots(figsize=(WIDTH, 3.4))
    for reliability in reliabilities:
        by_drift = [theory.progress(m, reliability) for m in drifts]
        axes.plot(drifts, [gains["per_query"] - gains["plain"] for gains in by_drift], label=f"{reliability:g}")
    axes.axhline(0, color="black", lw=1)
    axes.set(xlabel="mean fall of the loss by a candidate", ylabel="extra fall a gradient", xlim=(-1, 3.0))
    axes.legend(title="reliability of J")
    plt.show()


def line_paths(paths: Mapping[str, Sequence[Result]]) -> None:
    """Distance to the optimum of a linear regression, by accepted updates above and by noisy gradients below."""
    figure, panels = plotting.column(2, WIDTH, 2.7)
    for axes, count, label in zip(
        panels, ("accepted", "queries"), ("accepted updates", "noisy gradients"), strict=True
    ):
        distances = values.line_distances(paths, count)
        plotting.curves(axes, {f"{name} DP-SGD": values.bands(d) for name, d in distances.items()}, "step")
        axes.set(xlabel=label, ylabel="distance", yscale="log")
    panels[0].legend()
    figure.tight_layout()
    plt.show()


def rises(plain: Sequence[Result], ours: Sequence[Result]) -> None:
    """Share of queries that raise J along a run, above; share of queries that the annealed method keeps, below."""
    figure, (above, below) = plotting.column(2, WIDTH, 2.7)
    raised = {"plain DPSGD (tanh)": plain, "annealed": ours}
    plotting.curves(above, {name: values.tenths(r, "rises") for name, r in raised.items()}, "tenth")
    kept = {"of all": ("accepted", "queries"), "of those that raise J": ("kept_rises", "rises")}
    plotting.curves(below, {name: values.tenths(ours, *pair) for name, pair in kept.items()}, "tenth")
    above.set(ylabel="queries, %", title="Noisy steps that raise J", ylim=(0, 101))
    below.set(ylabel="kept, %", title="Kept by the annealed method", ylim=(0, 101), xlabel="tenth of the run")
    for axes in (above, below):
        axes.legend()
    figure.tight_layout()
    plt.show()


def table_1(trained: values.Trained, printed: Printed) -> None:
    """Table 1, a panel for each data set: printed values as rings, ours as dots with their intervals."""
    figure, panels = plotting.column(len(trained), WIDTH, 2.6)
    for axes, (name, arms) in zip(panels, trained.items(), strict=True):
        rows = {SCHEMES[arm]: row for arm, row in values.table_1(arms).items()}
        rings = {SCHEMES[arm]: value for arm, value in printed.get(name, {}).items() if arm in SCHEMES}
        plotting.dots(axes, rows, rings, values.CHARGED)
        axes.set(xlabel="test accuracy, %", title=DATA[name])
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.28), frameon=False)
    figure.tight_layout()
    plt.show()


def figure_3(trained: values.Trained, count: str, label: str, your: float) -> None:
    """Test accuracy against ε, a panel for each data set and a line for each scheme.

    Args:
        count: what of the annealed method is charged, "accepted" or "queries".
        label: the same in words.
    """
    figure, panels = plotting.column(len(trained), WIDTH, 3.0)
    for axes, (name, arms) in zip(panels, trained.items(), strict=True):
        tables = {SCHEMES[a]: values.curve(arms[a], count) for a in SCHEMES if a in arms}
        plotting.curves(axes, tables, "epsilon")
        top = max(table["mean"].max() for table in tables.values())
        axes.set(title=DATA[name], ylabel="accuracy, %", ylim=(top - 15, top + 1))
        plotting.mark_yours(axes, your, "your ε" if axes is panels[-1] else "", left=True)
    panels[0].legend(loc="lower right")
    panels[-1].set_xlabel(f"ε (paper's formula), {label} charged")
    figure.tight_layout()
    plt.show()


def figure_4(levels: pd.DataFrame, part: str, best: tuple[float, float], floor: float | None = None) -> None:
    """Test accuracy against the rate or the batch, with momentum above and without it below; a line for each account.

    Args:
        levels: of :func:`account_rows.figure_4`.
        part: "rates" or "batches".
        best: the printed value that does best and its accuracy, in percent; a ring.
        floor: accuracy that is printed as passed everywhere, in percent; None for none.
    """
    levels = levels[levels["part"] == part]
    if levels.empty:
        return  # not in the plan
    figure, panels = plotting.column(2, WIDTH, 2.5)
    for axes, how in zip(panels, HOW, strict=True):
        here = levels[levels["momentum"] == how]
        for account, lines in here.groupby("account", sort=False):
            axes.plot(lines["given"], lines["accuracy"], "o-", ms=3, label=CHARGED[account])
            plotting.band(axes, lines["given"], lines["low"], lines["high"])
        axes.plot(*best, "o", mfc="none", ms=9, color="black", label="printed as the best")
        if floor is not None:
            axes.axhline(floor, color="black", lw=0.8, ls="--", label="printed as passed everywhere")
        axes.set_xscale("log")
        axes.set_xticks(here["given"].unique(), [f"{given:g}" for given in here["given"].unique()])
        axes.minorticks_off()
        axes.set(title=HOW[how], ylabel="accuracy, %")
    panels[-1].set_xlabel(AXES[part])
    figure.tight_layout()
    panels[-1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
    plt.show()


def yours(mine: Mapping[str, Sequence[Result]], dataset: str, epsilon: float) -> None:
    """Test accuracy along a training at the reader's ε, by noisy gradients."""
    _, axes = plt.subplots(figsize=(WIDTH, 3.2))
    names = {"dpsgd_tanh": "DPSGD (tanh)", "ours": "annealed"}
    plotting.curves(axes, {name: values.by_steps(mine[arm], "queries") for arm, name in names.items()}, "steps")
    axes.set(xlabel="noisy gradients", ylabel="test accuracy, %", title=f"{dataset}, ε = {epsilon:g} for kept steps")
    axes.legend()
    plt.show()


# --- tables -----------------------------------------------------------------------------------------------------------


def accuracy_and_cost(trained: values.Trained) -> pd.DataFrame:
    """A row for each data set and scheme: accuracy, kept steps, noisy gradients, and ε of either by Lemma 2."""
    rows = []
    for name, arms in trained.items():
        for arm in (a for a in SCHEMES if a in arms):
            cost = values.spent(arms[arm])
            counts = [f"{cost[k].value:,.0f}" for k in ("accepted", "queries")]
            budgets = " / ".join(f"{cost[f'epsilon_{k}'].value:.2f}" for k in ("paper", "paper_queries", "pld_queries"))
            accuracy = f"{values.mean(accuracies(arms[arm])):.2f}"
            rows.append([DATA[name], SCHEMES[arm], accuracy, *counts, budgets])
    return pd.DataFrame(rows, columns=["data", "scheme", "test accuracy, %", "kept", "gradients", "ε"])


def three_leads(trained: values.Trained) -> pd.DataFrame:
    """The annealed method less each plain scheme, in points, at three ways to compare the same runs."""
    questions: dict[str, dict[str, Any]] = {
        "equal kept steps": {},
        "the same, unseen records": {"ours_column": "unseen"},
        "equal noisy gradients": {"count": "queries"},
    }
    rows = [
        [
            DATA[name],
            SCHEMES[other],
            *(_points(values.gain(arms["ours"], arms[other], **q)) for q in questions.values()),
        ]
        for name, arms in trained.items()
        for other in SCHEMES
        if other in arms and other != "ours"
    ]
    return pd.DataFrame(rows, columns=["data", "annealed less …", *questions])


def ahead(trained: values.Trained) -> pd.DataFrame:
    """At how many budgets along the way the annealed method is ahead of DPSGD (tanh), or behind, beyond chance."""
    rows = []
    for name, arms in trained.items():
        for count, label in (("accepted", "kept steps"), ("queries", "every gradient")):
            counts = values.leads(arms["ours"], arms["dpsgd_tanh"], count, "accuracy")
            rows.append([DATA[name], label, *counts.values()])
    return pd.DataFrame(rows, columns=["data", "charged", "ahead", "behind", "budgets looked at"])


def beside(printed: Sequence[Result], changed: Mapping[str, Sequence[Result]]) -> pd.DataFrame:
    """Runs as printed, and with one thing changed: accuracy, the difference paired by seed, and the work."""
    rows = []
    for name, runs in {"as printed": printed, **changed}.items():
        less = "–" if runs is printed else _points(annealed_rows.less(runs, printed))
        work = values.spent(runs)["queries_an_update"]
        rows.append([name, f"{values.mean(accuracies(runs)):.2f}", less, f"{work:.2f}"])
    return pd.DataFrame(rows, columns=["reading", "test accuracy, %", "less as printed", "gradients a kept step"])


def _points(difference: Measured) -> str:
    return f"{difference:.2f}".replace("-", "−")
