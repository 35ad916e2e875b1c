"""The figures of chapter 13: what tables kept, and what was promised to each of them by the others."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from papers.architecture import advice_rows
from papers.architecture.advice_rows import Advice

SMALL = (5.6, 4.2)  # inches: legible on a phone


def kept(advice: Advice, method: str) -> None:
    """Share of logistic regression's gain against strength, a dot for each table and budget, and the promise."""
    points = advice.lines[method]
    table = pd.DataFrame(
        {"strength": [one.strength for one in points], "share": [100 * one.share.value for one in points],
         "ε": [f"{one.epsilon:g}" for one in points]}
    )  # fmt: skip
    _, axes = plt.subplots(figsize=SMALL)
    sns.scatterplot(table, x="strength", y="share", hue="ε", ax=axes, s=36, palette="viridis_r")
    at = np.geomspace(table["strength"].min(), table["strength"].max(), 200)
    promised = [advice.promise(method, one).share for one in at]
    axes.plot(at, [np.nan if one is None else 100 * one for one in promised], color="black", lw=2)
    stands = np.flatnonzero([one is not None for one in promised])
    if len(stands):
        end = stands[-1]
        axes.annotate(
            "promised", (at[end], 100 * promised[end]), (-70, -34), textcoords="offset points", fontsize=12,
            arrowprops={"arrowstyle": "-"},
        )  # fmt: skip
    axes.set(
        xscale="log", ylim=(-15, 150), xlabel="rows for the noise: n / (classes · σ · √columns)",
        ylabel="kept, % of the gain",
    )  # fmt: skip


def promised(advice: Advice, method: str) -> None:
    """What the others promise a table, against what it kept, a dot for each table and budget with a promise."""
    pairs = [(made.share, one.share.value) for one, made in advice_rows.left_out(advice, method) if made.share]
    made, kept = 100 * np.array(pairs).T
    _, axes = plt.subplots(figsize=SMALL)
    axes.fill_between([0, 105], 0, [0, 105], color="0.92")
    axes.scatter(made, kept, s=30)
    axes.text(97, 40, "promise broken", ha="right", fontsize=12, style="italic")
    axes.set(xlim=(0, 105), ylim=(0, 150), xlabel="promised, % of the gain", ylabel="kept, %")
