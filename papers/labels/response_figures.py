"""The figures of chapter 8, from exact tables and random priors to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from dplib import randomised_response as response
from dplib import stats

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
KINDS = {"0.1": "peaked", "1": "uneven", "10": "nearly flat"}  # by concentration of the Dirichlet distribution


def by_kind(checked: Sequence[Mapping[str, Any]], most: float = 6.0) -> pd.DataFrame:
    """What RRWithPrior does on random priors, a line a budget, seed and kind of prior, up to a budget."""
    lines = [
        {"epsilon": run["epsilon"], "seed": run["seed"], "prior": KINDS[kind], **means}
        for run in checked
        for kind, means in run["kinds"].items()
        if kind in KINDS and run["epsilon"] <= most
    ]
    table = pd.DataFrame(lines)
    return table.assign(percent=100 * table["constant"])


def interval(values: pd.Series) -> tuple[float, float]:
    """The 95% interval of a mean over seeds, for seaborn."""
    mean = stats.mean_interval(np.asarray(values))
    return mean.low, mean.high


def right_and_constant(table: pd.DataFrame, your: float) -> None:
    """How often the answer is true, above, and how often it is a constant, below."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 6.4), sharex=True)
    colours = dict(zip(KINDS.values(), sns.color_palette("colorblind", len(KINDS)), strict=True))
    style = {"x": "epsilon", "hue": "prior", "palette": colours, "errorbar": interval, "lw": 2, "legend": False}
    for axes, y, places in (
        (above, "ours", ((0.0, 0.87), (0.0, 0.59), (2.3, 0.56))),
        (below, "percent", ((2.1, 62), (1.7, 18), (0.9, -10))),
    ):
        sns.lineplot(table, y=y, ax=axes, **style)
        plotting.mark_yours(axes, your, "your ε" if axes is above else "")
        for (kind, colour), place in zip(colours.items(), places, strict=True):
            axes.text(*place, kind, color=colour, fontsize=12)
    best = table.groupby(["prior", "epsilon"])["best"].mean().reset_index()
    above.plot(best["epsilon"], best["best"], "o", mfc="none", color="black", ms=5)
    plain = table.groupby("epsilon")["plain"].mean()
    above.plot(plain.index, plain, color="black", ls=":", lw=2)
    above.text(1.1, 0.25, "without a prior", fontsize=12)
    above.set(ylabel="true answers", ylim=(0, 1.04))
    below.set(xlabel="ε", ylabel="constant answers, %", ylim=(-14, 104))
    figure.tight_layout()
    plt.show()


def wrong_prior(truth: np.ndarray, budgets: Sequence[float] = (1.0, 2.0, 4.0)) -> None:
    """How often the answer is true if the prior is too sure (left of 1) or not sure enough; dotted: plain RR."""
    heat = np.logspace(-1, 1, 201)
    wrong = truth ** (1 / heat[:, None]) / (truth ** (1 / heat[:, None])).sum(axis=1, keepdims=True)
    _, axes = plt.subplots(figsize=(4.6, 3.2))
    for budget in budgets:
        tables = response.log_table(response.kept(wrong, budget), budget)
        axes.plot(heat, response.objective(tables, truth), lw=2, label=f"ε = {budget:g}")
        plain = 1 / (1 + (len(truth) - 1) * np.exp(-budget))
        axes.axhline(plain, color=axes.lines[-1].get_color(), ls=":", lw=1.5)
    axes.set(
        xscale="log",
        xlabel="temperature of the prior (1: the truth)",
        ylabel="true answers",
        ylim=(0, 1),
        xlim=(0.1, 10),
    )
    axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    plotting.name_lines(axes)
    plt.show()


def information(table: pd.DataFrame) -> None:
    """What an answer tells of the label, beside plain RR: the ratio of mean mutual information, by kind of prior."""
    told = table[table["epsilon"] > 0].groupby(["prior", "epsilon"], sort=False)[["bits", "plain_bits"]].mean()
    ratio = (told["bits"] / told["plain_bits"]).rename("ratio").reset_index()
    _, axes = plt.subplots(figsize=(WIDTH, 3.2))
    sns.lineplot(
        ratio, x="epsilon", y="ratio", hue="prior", hue_order=list(KINDS.values()), ax=axes, palette="colorblind", lw=2
    )
    axes.axhline(1, color="black", ls=":")
    axes.set(xlabel="ε", ylabel="information, of plain RR's", ylim=(0, 1.1))
    axes.legend(title="prior", loc="lower right")
    plt.show()


def answer_tables(sets: Mapping[str, np.ndarray], names: Sequence[str], prior: np.ndarray, epsilon: float) -> None:
    """Probabilities of each answer to each true label, a panel for each of some mechanisms."""
    k = len(prior)
    figure, panels = plt.subplots(len(names), 1, figsize=(WIDTH, (1.0 + 0.36 * k) * len(names)), squeeze=False)
    for axes, name in zip(panels[:, 0], names, strict=True):
        table = np.exp(response.log_table(sets[name], epsilon))
        style = {"annot": k <= 8, "fmt": ".2f", "cmap": "Blues", "cbar": False, "lw": 0.5, "annot_kws": {"size": 11}}
        sns.heatmap(table, ax=axes, vmin=0, vmax=1, **style)
        axes.set(title=name, xlabel="answer", ylabel="true label", xticklabels=range(1, k + 1))
        axes.set_yticklabels([f"{i}: {share:.3g}" for i, share in enumerate(prior, 1)], rotation=0)
    figure.tight_layout()
    plt.show()
