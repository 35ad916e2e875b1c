"""The figures of chapter 3: input size, Lemma 1, the cost of networks, and steps to a target accuracy."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from book.evidence import claims, plotting
from dplib import stats
from papers.architecture import privacy_cost_rows as rows
from papers.architecture import privacy_cost_theory as theory

SMALL = (4.7, 3.9)  # inches: with labels beside the lines legible on a phone, too
TALL = (4.7, 6.4)  # two panels above each other
SIZES = (10, 50, 100, 500, 1000)  # inputs of Table III


def inputs(table: Mapping[int, Sequence], kept: Mapping[int, Sequence]) -> None:
    """Table III: accuracy over the number of inputs with equal pieces, and with records that keep their length."""
    long = {10: table[10], **kept}
    printed = {m: claims.get(f"B.table3.input-{m}").published["acc_dpsgd"] for m in SIZES}
    _, axes = plt.subplots(figsize=SMALL)
    kept_, shorter = (plotting.means(map(rows.percent, runs.values())) for runs in (long, table))
    plotting.line(axes, list(long), kept_, label="records keep\ntheir length", color="C2")
    plotting.line(axes, list(table), shorter, label="records\nget shorter", color="C0")
    sgd = plotting.means(rows.percent(r, "sgd_accuracy") for r in table.values())
    plotting.line(axes, list(table), sgd, ":", label="no privacy", color="grey")
    axes.plot(list(printed), list(printed.values()), "kx", ms=8)
    axes.set(xscale="log", xlabel="number of inputs", ylabel="test accuracy, %", ylim=(50, 101))
    axes.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
    axes.set_xticks([], minor=True)
    plotting.name_lines(axes, gap=32)


def lemma() -> None:
    """All u for which dropping a feature helps, and those that Lemma 1 admits, for d > 0."""
    c = np.linspace(-3, 3, 301)
    inner = np.sqrt(c**2 + 1) - np.abs(c)
    _, axes = plt.subplots(figsize=(5.2, 3.9))
    axes.fill_between(c, *theory.exact_interval(c, 1.0), color="C0", alpha=0.25)
    axes.fill_between(c, -inner, inner, color="C1", alpha=0.7)
    axes.text(-2.75, 1.2, "dropping it helps", color="C0", fontsize=12)
    axes.annotate("what Lemma 1 admits", (0.9, 0.2), (0.2, 3.4), color="C1", fontsize=12,
                  arrowprops={"arrowstyle": "-", "color": "C1"})  # fmt: skip
    axes.set(xlabel="signed error without noise, in √d", ylabel="the feature's share, in √d", xlim=(-3, 3))


def distances(table: Mapping[int, Sequence], sizes: Sequence[int] = (10, 100, 500, 1000)) -> None:
    """Figure 5: cosine distance to SGD over epochs, of all parameters and of the part that acts on the data."""
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharex=True)
    titles = {"distances": "all parameters (Figure 5)", "predictive": "the part that acts on the data"}
    shown = [m for m in table if m in sizes]
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for m, colour in zip(shown, sns.color_palette("viridis_r", len(shown)), strict=True):
            curve = plotting.means(np.array([result[key] for result in table[m]]).T)
            plotting.line(axes, np.arange(1, len(curve) + 1), curve, "-", label=f"{m:,} inputs", color=colour)
        axes.set(ylabel="distance to SGD", ylim=(0, 1.05), title=title)
        plotting.name_lines(axes, gap=16)
    panels[1].set_xlabel("epoch")
    figure.tight_layout()


def family(results: Mapping[tuple[int, object], Sequence]) -> None:
    """Test error and cost of networks over their parameters, a line for each kind of training."""
    widths = sorted({width for width, _ in results})
    parameters = [results[width, "SGD"][0]["parameters"] for width in widths]
    figure, panels = plt.subplots(2, 1, figsize=TALL, sharex=True)
    clipped = next(kind for _, kind in results if isinstance(kind, str) and kind != "SGD")
    shown = (rows.errors(results), ("SGD", 1.0, 0.3, 0.1)), (rows.costs(results), (clipped, 1.0, 0.3, 0.1))
    for axes, (values, kinds) in zip(panels, shown, strict=True):
        for kind in kinds:
            if (widths[0], kind) in values:
                label = kind if isinstance(kind, str) else f"ε = {kind:g}"
                colour = "grey" if isinstance(kind, str) else {1.0: "C0", 0.3: "C2", 0.1: "C1"}[kind]
                means = plotting.means(values[width, kind] for width in widths)
                plotting.line(axes, parameters, means, label=label, color=colour)
    panels[0].set(xscale="log", ylabel="test error, %")
    panels[1].set(xlabel="parameters", ylabel="cost of privacy, points")
    panels[1].set_xticks(parameters, [f"{p / 1000:.0f}k" for p in parameters])
    panels[1].set_xticks([], minor=True)
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def to_target(stops: Mapping[str, Mapping[int, Sequence]]) -> None:
    """Figure 6: steps to 85% over the number of records, and what they spend by the paper's and a tight accountant.

    ``stops``: "simple" and "complex" to {records: steps by seed}.
    """
    figure, panels = plt.subplots(3, 1, figsize=(4.7, 8.6), sharex=True)
    names = {"simple": "small network", "complex": "large network"}
    for (name, steps), colour in zip(stops.items(), ("C0", "C1"), strict=True):
        spent = (rows.spent(steps, accountant) for accountant in ("paper", "pld"))
        for axes, values in zip(panels, (steps, *spent), strict=True):
            plotting.line(axes, list(steps), plotting.means(values.values()), label=names[name], color=colour)
    fitted = claims.get("B.eps-fit").published
    n = np.geomspace(min(steps), max(steps), 100)
    panels[1].plot(n, np.log(fitted["alpha"] + fitted["beta"] / n), "k--", lw=1.2)
    panels[1].plot([13_574, 19_145], [1, 1], "kx", ms=8)
    panels[0].set(xscale="log", ylabel="steps to 85%", ylim=(0, None))
    for axes, title in zip(panels[1:], ("by the paper's accountant", "by a tight one"), strict=True):
        axes.set(yscale="log", ylabel="ε spent", title=title, ylim=(1e-3, 2))
    panels[2].set_xlabel("training records")
    figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=16)


def at_your_epsilon(series: Mapping[str, Mapping[int, Sequence]], sizes: Sequence[int], epsilon: float) -> None:
    """Accuracy at the reader's ε, a row for each number of inputs; ``series``: name to {inputs: results}."""
    _, axes = plt.subplots(figsize=(5.0, 3))
    dots = {
        f"{m} inputs": {
            name: stats.mean_interval(rows.percent(by_inputs[m]))
            for name, by_inputs in series.items()
            if m in by_inputs
        }
        for m in sizes
    }
    plotting.dots(axes, dots, {})
    axes.set(xlabel="test accuracy, %", title=f"ε = {epsilon:g}")
    axes.legend(fontsize=11, loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2)
