"""The figures of chapter 2: what a release leaves of a classifier, Theorem 8, and Figures 3 and 4."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from book.evidence import plotting
from book.evidence.runs import Result
from papers.larger_models import dfs_errors as tools
from papers.larger_models import dfs_rows as rows
from papers.larger_models import dfs_runs as study

Results = Sequence[Result]
SHOWN = {
    "rows, private DFS": "rows, 20\nprivately\nchosen pixels",
    "rows, public selection": "rows, 20\npublicly\nchosen pixels",
    "means, all features": "means of\nall pixels",
}
COLOURS = dict(zip(tools.CRITERIA, sns.color_palette("colorblind", 5), strict=True))


def releases(released: Results, epsilon: float) -> None:
    """Test error over ε of classifiers learnt from three kinds of release, and the reader's ε, if it is in range."""
    _, axes = plt.subplots(figsize=(4.5, 3.9))
    for arm, label in SHOWN.items():
        cells = [rows.error(released, arm, budget) for budget in study.BUDGETS]
        plotting.line(axes, study.BUDGETS, cells, label=label)
    best = rows.error(released, "no privacy", 5.0).value
    axes.axhline(best, color="grey", ls="--")
    axes.text(1, best - 0.015, "no privacy", color="0.35", fontsize=12, va="top")
    plotting.mark_yours(axes, epsilon, height=0.9)
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="test error", ylim=(0, 0.56))
    axes.set_xticks(study.BUDGETS, [f"{budget:g}" for budget in study.BUDGETS])
    axes.minorticks_off()
    plotting.name_lines(axes, gap=46)


def separation() -> None:
    """Theorem 8: the exact probability of perfect separation over the number of records."""
    n = 10.0 ** np.arange(1, 25)
    _, axes = plt.subplots(figsize=(5.2, 3.9))
    for (gamma, c), style in {(0.25, 4.0): "-", (0.25, 2.0): "-", (0.25, 1.0): "-", (0.4, 2.0): "--"}.items():
        curve = np.array([rows.separation(records, gamma, c) for records in n])
        axes.plot(n, curve, style, label=f"c = {c:g}" + (", γ = 0.4" if gamma == 0.4 else ""))
    axes.set(xscale="log", xlabel="records of both classes", ylabel="probability of perfect separation")
    axes.legend(fontsize=12, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)


def figure_3(fresh: Mapping[tuple[float, float], Results], readings: Mapping[str, tuple]) -> None:
    """Error over the number of features kept, with and without selection; ``readings``: title to design and reading."""
    figure, panels = plt.subplots(2, 1, figsize=(4.7, 6.4), sharex=True, sharey=True)
    names = {"DFS": "DFS", "no selection": "no selection"}
    for axes, (title, (design, reading)) in zip(panels, readings.items(), strict=True):
        for epsilon, style in ((10.0, "--"), (5.0, "-")):
            for criterion, name in names.items():
                errors = rows.curves(fresh[design], reading.at(epsilon), criterion)
                label = f"{name}, ε = {epsilon:g}"
                _curve(axes, study.SIZES, errors, criterion, style, label)
        axes.plot(20, 0, "o", ms=10, mfc="none", mec="black")
        axes.set(xscale="log", ylabel="exact test error", title=title, ylim=(-0.03, 0.6))
    panels[1].legend(fontsize=11, loc="upper right")
    panels[1].set_xlabel("features kept")
    figure.tight_layout()


def figure_4(fresh: Mapping[tuple[float, float], Results], reading: tools.Reading) -> None:
    """Error over the features kept at two sizes of variances, and over ε with 20 features."""
    figure, panels = plt.subplots(3, 1, figsize=(4.7, 9.0))
    small = [size for size in study.SIZES if size <= 100]
    for axes, variance in zip(panels, (0.1, 10.0), strict=False):
        for criterion in tools.CRITERIA[:4]:
            errors = rows.curves(fresh[variance, 0.88], reading.at(5.0), criterion)[:, : len(small)]
            style = "--" if criterion == "noise-aware t" else "-"
            _curve(axes, small[: errors.shape[1]], errors, criterion, style, criterion)
        title = f"variances of mean {variance:g}, ε = 5"
        axes.set(xscale="log", xlabel="features kept", ylabel="exact test error", title=title)
    for criterion in ("DFS", *tools.RIVALS):
        errors = [run["sweep"][str(reading)][criterion] for run in fresh[0.1, 0.88]]
        _curve(panels[2], study.BUDGETS, errors, criterion, "-", criterion)
    panels[2].set(xscale="log", xlabel="ε", ylabel="exact test error", title="20 features, variances of mean 0.1")
    figure.tight_layout()
    for axes in panels:
        axes.legend(fontsize=11, loc="upper right")


def images(real: Mapping[str, Results], reading: tools.Reading) -> None:
    """Error over pixels kept and over ε, two panels for each data set, a line for each criterion."""
    names = {"mnist": "MNIST", "cifar10-jpeg": "CIFAR-10 (JPEG copies)", "digits": "digits"}
    figure, panels = plt.subplots(2 * len(real), 1, figsize=(4.7, 5.4 * len(real)), squeeze=False)
    for (above, below), (name, results) in zip(panels.reshape(-1, 2), real.items(), strict=True):
        for criterion in ("DFS", *tools.RIVALS):
            errors = rows.curves(results, reading.at(5.0), criterion)
            _curve(above, results[0]["sizes"], errors, criterion, "-", criterion)
            errors = [run["sweep"][str(reading)][criterion] for run in results]
            _curve(below, study.BUDGETS, errors, criterion, "-", criterion)
        above.set(
            xscale="log", xlabel="pixels kept", ylabel="test error", title=f"{names[name]}, ε = 5", ylim=(0, 0.55)
        )
        below.set(xscale="log", xlabel="ε", ylabel="test error", title=f"{names[name]}, 20 pixels", ylim=(0, 0.55))
    panels[0, 0].legend(fontsize=11)
    figure.tight_layout()


def readings(counted: pd.DataFrame) -> None:
    """In how many designs each reading shows each sentence; ``counted`` of :func:`dfs_readings.by_reading`."""
    _, axes = plt.subplots(figsize=(4.6, 6.0))  # narrow, so that the labels beside it can be read on a phone
    sns.heatmap(counted.T, annot=True, cbar=False, cmap="Blues", linewidths=1, ax=axes, annot_kws={"fontsize": 12})
    axes.set_xlabel("noise; what the selection sees; test points")


def _curve(axes: plt.Axes, x: Sequence[float], errors: object, criterion: str, style: str, label: str) -> None:
    """Mean and 95% band over seeds of errors (seeds, points)."""
    plotting.line(axes, x, plotting.means(np.asarray(errors).T), style, color=COLOURS[criterion], label=label)
