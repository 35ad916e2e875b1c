"""The figures of chapter 0: accuracy over ε, clipping, and what an attacker sees with and without a record."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from book.evidence import plotting
from dplib import stats

SMALL = (4.7, 3.9)  # inches: with labels beside the lines legible on a phone, too


def accuracy(by_network: Mapping[str, Mapping[float, np.ndarray]], epsilon: float) -> None:
    """Accuracy in percent over ε, a line for each training set; dotted: without privacy.

    ``found``: name to budget (inf: no privacy) to accuracies by seed.
    """
    _, axes = plt.subplots(figsize=SMALL)
    for colour, (name, by_budget) in zip(("C0", "C1"), by_network.items(), strict=False):
        at = {budget: stats.mean_interval(values) for budget, values in by_budget.items()}
        axes.axhline(at.pop(np.inf).value, color=colour, ls=":", lw=1.5)
        plotting.line(axes, list(at), list(at.values()), ms=6, color=colour, label=name)
    plotting.mark_yours(axes, epsilon)
    axes.set(xscale="log", xlabel="privacy budget ε (small: private)", ylabel="test accuracy, %")
    plotting.name_lines(axes, gap=34)


def cloud(seed: int = 0) -> np.ndarray:
    """Made-up gradients of 24 records in two dimensions, (24, 2); the first would own their sum."""
    gradients = np.random.default_rng(seed).normal((0.5, 0.3), 0.55, (24, 2))
    gradients[0] = (2.1, 1.5)
    return gradients


def clipping(seed: int = 0) -> None:
    """A cloud of gradients, before and after clipping to norm 1."""
    gradients = cloud(seed)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients / np.maximum(lengths, 1)
    _, axes = plt.subplots(figsize=(4.6, 3.9))
    for vectors, colours in ((gradients, ("0.75", "#f0c27b")), (clipped, ("C0", "C1"))):
        for k, (x, y) in reversed(list(enumerate(vectors))):  # the longest last, on top
            style = {"arrowstyle": "-|>", "lw": 1.3 if k else 2.2, "color": colours[k == 0]}
            axes.annotate("", (x, y), (0, 0), arrowprops=style)
    axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.3", lw=1.5, ls="--"))
    axes.text(-0.75, -1.12, "norm C", color="0.3", fontsize=12, ha="center")
    axes.text(2.0, 0.72, "one record,\nuncut", color="#a86400", fontsize=12, ha="center", va="top")
    axes.text(1.06, -0.2, "cut to C", color="C0", fontsize=12, va="top")
    axes.set(xlim=(-1.3, 2.5), ylim=(-1.3, 1.8), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)


def two_bells(noises: tuple[float, float] = (0.5, 2.0), threshold: float = 1.2) -> None:
    """What is released with and without a record, a panel for each noise; shaded: where an attacker says "in"."""
    figure, panels = plt.subplots(2, 1, figsize=(4.9, 4.6), sharex=True)
    x = np.linspace(-4, 5, 500)
    for axes, noise in zip(panels, noises, strict=True):
        right = x >= threshold
        tails = []
        for mean, colour, name in ((0, "C0", "without her"), (1, "C1", "with her")):
            density = norm.pdf(x, mean, noise)
            axes.plot(x, density, color=colour, lw=2, label=name)
            axes.fill_between(x[right], density[right], color=colour, alpha=0.35, lw=0)
            tails.append(norm.sf(threshold, mean, noise))
        axes.axvline(threshold, color="black", lw=1, ls=":")
        axes.set(yticks=[], title=f"σ = {noise:g}: the shaded areas differ by the factor {tails[1] / tails[0]:.1f}")
        axes.title.set_fontsize(12)
        axes.grid(visible=False)
    panels[0].legend(fontsize=11, loc="upper left")
    panels[-1].set_xlabel("released sum, in units of C")
    figure.tight_layout()


def spent(faults: Mapping[str, float], claimed: float) -> None:
    """Bars: the ε that each program spends at least, beside what it claims."""
    finite = {name: value for name, value in faults.items() if np.isfinite(value)}
    most = 2 * max(finite.values())
    # Each bar begins in the axes, and so does its number: there are claims of 20 and bars of 0.4.
    left = min([0.3 * claimed, *(0.85 * value for value in finite.values() if value > 0)])
    _, axes = plt.subplots(figsize=(3.6, 0.5 * len(faults) + 1))
    for height, value in enumerate(faults.values()):
        axes.barh(height, min(value, most), left=0, color="C3" if value == np.inf else "C1", height=0.62)
        label = "no bound" if value == np.inf else f"{value:.1f}"
        axes.text(max(min(value, most), left) * 1.08, height, label, va="center", fontsize=12)
    axes.axvline(claimed, color="black", lw=1.5)
    axes.text(claimed, -0.75, f"claimed: {claimed:g}", ha="center", va="bottom", fontsize=12)
    axes.set_yticks(range(len(faults)), list(faults), fontsize=12)
    axes.set(xscale="log", xlim=(left, 9 * most), ylim=(len(faults) - 0.5, -0.5), xlabel="ε spent at least")
    axes.grid(axis="y", visible=False)
