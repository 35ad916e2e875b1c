"""The figures of chapter 1: whether more features help, under which noise, and what Theorem 6 says of it."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from scipy.stats import norm

from book.evidence import plotting
from dplib import stats
from papers.larger_models import gmm_rows, gmm_runs
from papers.larger_models import gmm_table_rows as tables
from papers.larger_models.gmm_rows import Curves, Results

SMALL = (4.7, 3.9)  # inches: with labels beside the lines legible on a phone, too
TALL = (4.7, 6.6)  # two panels above each other
SHORT = {"none": "no noise", "unit": "fixed size", "L2": "ℓ₂ norm", "L1": "ℓ₁ norm"}


def features(curves: Curves, p: int) -> None:
    """Mean error over the number of features, in the four cases that chapter 1 is about, and the reader's ``p``."""
    cases = {
        "noise as\nprinted": ("sparse", "L1"),
        "fixed noise,\n20 matter": ("sparse", "unit"),
        "no noise,\n20 matter": ("sparse", "none"),
        "fixed noise,\nall matter": ("dense", "unit"),
    }
    _, axes = plt.subplots(figsize=SMALL)
    shown = {name: tables.errors(curves[case]) for name, case in cases.items() if case in curves}
    plotting.curves(axes, shown, "p")
    plotting.mark_yours(axes, p, "your p", height=0.75, left=p > 60)  # there is room
    axes.text(22, 0.515, "coin toss", fontsize=11, style="italic", va="bottom")
    axes.axhline(0.5, color="black", lw=1, ls=":")
    axes.set(xscale="log", xlabel="number of features", ylabel="error of the classifier", ylim=(-0.02, 0.56))
    plotting.name_lines(axes, gap=32)


def separation(curves: Curves) -> None:
    """Ψ over the number of features: dots measured, lines the formula of Theorem 6, a panel for each signal."""
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharex=True, sharey=True)
    for axes, signal in zip(panels, gmm_runs.SIGNALS, strict=True):
        for (noise, name), colour in zip(SHORT.items(), sns.color_palette("colorblind"), strict=False):
            table = tables.separation(curves[signal, noise], signal)
            axes.plot(table["p"], table["formula"], color=colour, lw=1.5, label=name)
            axes.plot(table["p"], table["mean"], "o", ms=6, color=colour)
            axes.vlines(table["p"], table["low"].clip(1e-13), table["high"], color=colour)
        axes.set(xscale="log", yscale="log", ylabel="Ψ, separation of the classes", title=f"{signal} signal")
        axes.grid(visible=False)
        plotting.name_lines(axes, gap=17)
    panels[-1].set_xlabel("number of features")
    figure.tight_layout()


def theorem6(main: Results, grown: Mapping[tuple, Results]) -> None:
    """Errors of single training sets beside Theorem 6's bound; and the distance of Ψ from the theorem's over n."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.9, 7.0))
    edges = np.linspace(0, 1, gmm_runs.BINS + 1)
    for kind, label in {"one": "class 1", "average": "average\nof both"}.items():
        counts = np.sum([run["histogram"][kind] for run in main], axis=0)
        above.stairs(100 * counts / counts.sum(), edges, fill=True, alpha=0.5, label=label)
    above.axvline(main[0]["bound"], color="black", ls="--", lw=1.2, label="Theorem 6")
    above.set(xlabel="exact error of a training set", ylabel="training sets, %", xlim=(0.1, 0.45))
    above.legend(fontsize=11)
    cases = {
        "Definition 3,\naverage": (gmm_runs.DEFINITION3, "average"),
        "$p = n^3$, class 1": (3.0, "one"),
        "$p = n^3$, average": (3.0, "average"),
    }
    for name, (power, kind) in cases.items():
        table = tables.distances(grown, power, kind)
        if len(table):  # a quick plan leaves some out
            below.plot(table["n"], table["mean"], "o-", ms=4, label=name)
    below.axhline(1, color="grey", lw=1)
    below.set(xscale="log", yscale="log", xlabel="training points n", ylabel="distance of Ψ from\nTheorem 6's")
    below.set_xticks([20, 50, 100, 200, 400], ["20", "50", "100", "200", "400"])
    below.set_xticks([], minor=True)
    figure.tight_layout()
    plotting.name_lines(below, gap=17)


def weak(by_signal: Mapping[tuple, Results]) -> None:
    """Error over the number of features for noise of a fixed size, a line for each ε, a panel for each signal."""
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharex=True, sharey=True)
    titles = {"sparse": "10 features matter, a little", "dense": "all features matter"}
    for axes, (signal, title) in zip(panels, titles.items(), strict=True):
        for epsilon in dict.fromkeys(epsilon for _, epsilon in by_signal):
            table = tables.errors(by_signal[signal, epsilon])
            name = "no noise" if epsilon is None else f"ε = {epsilon:g}"
            axes.plot(table["p"], table["mean"], "o-", ms=4, label=name)
            plotting.band(axes, table["p"], table["low"], table["high"])
        axes.axhline(gmm_rows.LEVEL, color="black", ls=":", lw=1)
        axes.set(xscale="log", ylabel="mean error", title=title)
        if signal == "sparse":
            plotting.name_lines(axes, gap=16)
        else:
            axes.text(300, 0.03, "all four fall to 0", fontsize=12)
    panels[-1].set_xlabel("number of features")
    figure.tight_layout()


def example1(noises: Mapping[str, float]) -> None:
    """Figure 2: densities of both classes, a row for each noise (its standard deviation), a column for each feature."""
    figure, panels = plt.subplots(len(noises), 2, figsize=(5.4, 2.1 * len(noises)), squeeze=False)
    for row, (title, noise) in zip(panels, noises.items(), strict=True):
        for axes, feature, gap, variance in zip(row, (1, 2), (5, 10), (1, 10), strict=True):
            spread = np.sqrt(variance + noise**2)
            x = np.linspace(-3.2 * spread, gap + 3.2 * spread, 400)
            for mean in (0, gap):
                axes.fill_between(x, norm.pdf(x, mean, spread), alpha=0.5)
            height = np.exp(-(gap**2) / (8 * spread**2))
            axes.set(yticks=[], title=f"feature {feature}: {height:.2f}")
        row[0].set_ylabel(title)
    figure.tight_layout()


def images(pictures: Results, noises: Mapping[str, str]) -> None:
    """Error over the number of pixels of images, of images with shuffled pixels, and by the formula."""
    figure, panels = plt.subplots(len(noises), 1, figsize=TALL, sharex=True, sharey=True)
    worlds = {"shuffled": "pixels shuffled", "images": "images"}
    for axes, (noise, title) in zip(panels, noises.items(), strict=True):
        drawn = {label: tables.of_images(pictures, world, noise) for world, label in worlds.items()}
        plotting.curves(axes, drawn, "pixels")
        table = tables.of_images(pictures, "formula", noise)
        axes.plot(table["pixels"], table["mean"], "k--", lw=1.3, label="formula")
        axes.set(xscale="log", title=title, ylabel="error")
        plotting.name_lines(axes, gap=17)
    panels[-1].set_xlabel("number of pixels")
    figure.tight_layout()


def networks(trained: Mapping[tuple[str, float | None], Results]) -> pd.DataFrame:
    """Test accuracy in percent, a row for each network, a column for each budget."""
    table: dict[str, dict[str, object]] = {}
    for (network, budget), runs in trained.items():
        accuracy = stats.mean_interval([100 * run["test"] for run in runs])
        table.setdefault("SGD" if budget is None else f"DP-SGD, ε = {budget:g}", {})[network] = accuracy
    return pd.DataFrame(table)
