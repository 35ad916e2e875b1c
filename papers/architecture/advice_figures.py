"""The figures of chapter 13: what tables kept, and what was promised to each of them by the others."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from papers.architecture import advice_tables
from papers.architecture.advice_rows import Advice, Point, Promise

FLOOR = -12.0  # percent: what is lower stands there, with its number
SMALL = (5.6, 4.2)  # inches: legible on a phone


def by_budget(advice: Advice, method: str) -> None:
    """Share of ordinary training's gain at each budget: a dot for each table, dark for real rows and pale for drawn,
    and a bar and its number for the mean of all.
    """
    means = {budget: mean for budget, mean in advice.compared()[method].items() if budget is not None}
    _, axes = plt.subplots(figsize=(5.0, 3.9))
    jitter = np.random.default_rng(0)  # so that dots do not hide one another
    for place, (budget, mean) in enumerate(means.items()):
        here = [point for point in advice.points[method] if point.epsilon == budget]
        shares = np.clip([100 * point.share.value for point in here], FLOOR, 150)
        across = place + jitter.uniform(-0.16, 0.16, len(shares))
        drawn = np.array([point.table in advice_tables.DRAWN for point in here])
        for chosen, strength in ((drawn, 0.3), (~drawn, 0.95)):
            axes.plot(across[chosen], shares[chosen], "o", ms=5, alpha=strength, color="C0", mew=0)
        axes.hlines(100 * mean.value, place - 0.27, place + 0.27, color="black", lw=3)
        axes.annotate(
            f"{100 * mean.value:.0f}%", (place + 0.27, 100 * mean.value), (4, 0), textcoords="offset points",
            fontsize=12, va="center",
        )  # fmt: skip
    axes.axhline(100, color="0.35", lw=1.2, ls="--")
    axes.text(-0.4, 102, "as good as without privacy", fontsize=11, color="0.25", va="bottom")
    axes.set(xlim=(-0.45, len(means) - 0.35), xlabel="privacy budget ε", ylabel="kept, % of the gain")
    axes.set_xticks(range(len(means)), [f"{budget:g}" for budget in means])
    axes.grid(axis="x", visible=False)


def kept(advice: Advice, method: str) -> None:
    """Share of logistic regression's gain against strength, a dot for each table and budget, and the promise."""
    points = advice.lines[method]
    table = pd.DataFrame(
        {"strength": [point.strength for point in points], "share": [100 * point.share.value for point in points],
         "ε": [f"{point.epsilon:g}" for point in points]}
    )  # fmt: skip
    _, axes = plt.subplots(figsize=SMALL)
    sns.scatterplot(table, x="strength", y="share", hue="ε", ax=axes, s=36, palette="viridis_r")
    at = np.geomspace(table["strength"].min(), table["strength"].max(), 200)
    promised = [advice.promise(method, strength).share for strength in at]
    axes.plot(at, [np.nan if share is None else 100 * share for share in promised], color="black", lw=2)
    stands = np.flatnonzero([share is not None for share in promised])
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
    axes.xaxis.set_major_formatter("{x:g}")


def promised(pairs: Sequence[tuple[Point, Promise]]) -> None:
    """What was promised to a table, against what it kept, a dot for each table and budget with a promise."""
    made, kept = 100 * np.array([(made.share, point.share.value) for point, made in pairs if made.share]).T
    _, axes = plt.subplots(figsize=SMALL)
    axes.fill_between([0, 105], 0, [0, 105], color="0.92")
    below = kept < FLOOR
    axes.scatter(made[~below], kept[~below], s=30)
    axes.scatter(made[below], np.full(below.sum(), FLOOR), s=30, marker="v")
    for x, y in zip(made[below], kept[below], strict=True):
        axes.annotate(f"{y:.0f}", (x, FLOOR), (7, -2), textcoords="offset points", fontsize=11)
    axes.text(97, 12, "promise broken", ha="right", fontsize=12, style="italic")
    axes.set(xlim=(0, 105), ylim=(FLOOR - 8, 150), xlabel="promised, % of the gain", ylabel="kept, %")


# What the lines on images are called, by method and by data set.
METHODS = {
    "features": "features",
    "cnn": "network",
    "clusters-soft": "counts of groups",
    "subset": "random subsets",
    "sums": "one noisy sum",
    "unprojected": "noisy gradients",
    "rr": "randomised labels",
    "stages": "two stages",
}
IMAGES = {"mnist": "MNIST", "cifar10-jpeg": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}


def images(points: pd.DataFrame) -> None:
    """Share of ordinary training's gain on images against the budget, a panel for each question.

    Args:
        points: of :func:`book.press.choice_evidence.points`.
    """
    groups = points.groupby("panel", sort=False)
    figure, panels = plt.subplots(len(groups), 1, figsize=(5.0, 3.6 * len(groups)))
    for axes, (panel, lines) in zip(panels, groups, strict=True):
        labels_of = panel.partition(" of ")[2].partition(",")[0]  # nothing where whole images are private
        for name, line in lines.groupby("line", sort=False):
            method, _, dataset = name.partition(": ")
            label = ", ".join(filter(None, (METHODS.get(method, method), IMAGES.get(dataset, dataset))))
            colour = f"C{list(METHODS).index(method)}" if labels_of else None  # one a method in all panels of labels
            axes.plot(line["budget"], line["share"], marker="o", label=label, color=colour)
        axes.set(xscale="log", xlabel="ε" if labels_of else "n·ε", ylabel="kept, % of the gain", ylim=(0, 104))
        axes.set_title(f"private labels of {IMAGES.get(labels_of, labels_of)}" if labels_of else "whole images")
        if not labels_of:
            axes.axvline(60_000, color="grey", lw=1, ls="--")
            axes.text(54_000, 50, "ε = 1 for\n60,000 images", fontsize=11, color="grey", ha="right")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.legend(loc="lower right", fontsize=11)
    figure.tight_layout()
    plt.show()


def batches(rates: np.ndarray, noises: Mapping[float, np.ndarray]) -> None:
    """Noise of a step's mean gradient against the sample rate, relative to a batch of all records; dashed: 1.1.

    Args:
        rates: sample rates from 1 down.
        noises: the least noise multipliers at these rates, by epsilon.
    """
    _, axes = plt.subplots(figsize=(5.0, 3.8))
    for place, (epsilon, sigma) in enumerate(noises.items()):
        relative = sigma / rates / sigma[0]
        axes.loglog(rates, relative, "o-", ms=4)
        height, shift, side = (12, (8, 0), "left") if place else (2, (-8, 0), "right")  # where there is room
        at = int(np.argmin(abs(np.log(relative / height))))
        style = {"textcoords": "offset points", "color": axes.lines[-1].get_color(), "ha": side, "fontsize": 11}
        axes.annotate(f"ε = {epsilon:g}", (rates[at], relative[at]), shift, **style)
    axes.axhline(1.1, ls="--", color="black", lw=1)
    axes.set(xlabel="sample rate q", ylabel="noise, relative to q = 1", ylim=(0.9, 30))
    axes.set_xticks((0.001, 0.01, 0.1, 1), ("0.001", "0.01", "0.1", "1"))
    axes.set_yticks((1, 3, 10, 30), ("1", "3", "10", "30"))
    axes.minorticks_off()
    plt.show()
