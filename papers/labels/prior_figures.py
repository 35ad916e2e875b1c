"""The figures of chapter 10, from compared methods to axes; a phone shows a panel as wide as its page."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt

from book.evidence import plotting
from papers.labels import prior_rows as rows
from papers.labels.prior_runs import Compared, Votes

WIDTH = 5.0  # inches: on a phone the text of a figure so wide can still be read
TITLES = {"cifar10-jpeg": "CIFAR-10 (JPEG copies)", "fashion-mnist": "Fashion-MNIST", "digits": "digits"}


def which(compared: Mapping[str, Compared], your: float) -> None:
    """Accuracy against ε of randomised response, cluster priors and random subsets."""
    names = {"rr": "randomised\nresponse", "clusters": "cluster\npriors", "subset": "random\nsubsets"}
    words = {rows.SHORT[method]: name for method, name in names.items()}
    _, panels = plt.subplots(len(compared), 1, figsize=(WIDTH, 4.0 * len(compared)), squeeze=False)
    for axes, (name, methods) in zip(panels[:, 0], compared.items(), strict=True):
        rows.curves(axes, methods, tuple(names))
        for line in axes.get_lines():
            line.set_label(words.get(line.get_label(), "_"))
        plotting.mark_yours(axes, your)
        axes.set_title(TITLES[name])
        axes.set(xlim=(None, max(methods.epsilons)), ylim=(0, 78))
        plotting.name_lines(axes, gap=32)
    plt.show()


def frontier(compared: Compared) -> None:
    """Accuracy against ε of one task with one account: the best three methods for labels, and DP-SGD at ε/2."""
    names = {"clusters-soft": "clusters,\nsoft", "subset": "random\nsubsets", "sums": "one noisy\nsum"}
    _, axes = plt.subplots(figsize=(WIDTH, 4.4))
    for method, name in names.items():
        colour = rows.COLOURS.get(method, "#56b4e9")
        rows.curve(axes, compared.epsilons, compared.test[method], name, color=colour)
    sgd = {"color": "black", "marker": "s"}
    rows.curve(axes, compared.epsilons, compared.test["dp-sgd"], "DP-SGD\nat ε/2", **sgd)
    rows.budget_axis(axes, compared.epsilons)
    axes.set(ylabel="test accuracy, %", xlim=(None, max(compared.epsilons)), ylim=(68, 91))
    plotting.name_lines(axes, gap=34)
    plt.show()


def clusters(compared: Mapping[str, Compared]) -> None:
    """Accuracy against ε of randomised response and of three ways to use cluster priors."""
    figure, panels = plt.subplots(
        len(compared), 1, figsize=(WIDTH, 3.2 * len(compared) + 1), squeeze=False, layout="constrained"
    )
    for axes, (name, methods) in zip(panels[:, 0], compared.items(), strict=True):
        rows.curves(axes, methods, ("rr", "clusters", "clusters-smoothed", "clusters-soft"))
        axes.set_title(TITLES[name])
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=11, ncols=2, loc="outside lower center")
    plt.show()


def votes(votes_: Votes) -> None:
    """Figure 2: accuracy of the vote against the histograms' budget, a line for each number of clusters."""
    _, axes = plt.subplots(figsize=(WIDTH, 3.6))
    rows.vote_curves(axes, votes_)
    plt.show()


def beside_records(compared: Mapping[str, Compared], sgd: Mapping[str, Compared]) -> None:
    """Label privacy by three methods beside DP-SGD for whole records, in black; a panel for each data set."""
    figure, panels = plt.subplots(len(sgd), 1, figsize=(WIDTH, 4.4 * len(sgd)), squeeze=False)
    for axes, name in zip(panels[:, 0], sgd, strict=True):
        rows.curves(axes, compared[name], ("stages", "clusters", "subset"), sgd[name])
        axes.set_title(TITLES[name])
    panels[-1, 0].legend(fontsize=11, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    figure.tight_layout()
    plt.show()


def named(accuracies: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracies by method under the names of an answer."""
    return {f"accuracy_{name}".replace("-", "_"): value for name, value in accuracies.items()}
