"""Figures and tables of the second half of chapter 10."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from dplib import plotting, stats
from dplib.labels.beyond import posterior, released
from dplib.labels.beyond_jobs import METHODS
from dplib.labels.beyond_study import Compared, Votes

RELEASES = {
    "rr": "randomised response",
    "prior": "RRWithPrior",
    "laplace": "Laplace noise",
    "subset": "subset selection",
}


def curve(axes: plt.Axes, x: Sequence[float], runs: np.ndarray, label: str, **style) -> None:
    """Mean over runs (runs, len(x)) of percentages, with a band: its 95% interval, cut at 0 and 100."""
    axes.plot(x, runs.mean(axis=0), label=label, **({"marker": "o", "markersize": 4} | style))
    band = [stats.mean_interval(column) for column in runs.T]
    low, high = (np.clip([getattr(one, end) for one in band], 0, 100) for end in ("low", "high"))
    plotting.band(axes, x, low, high)


def vote_curves(axes: plt.Axes, votes: Votes, title: str) -> None:
    """Figure 2: accuracy of the vote over the budget of the histogram, a line for each number of clusters."""
    colours = sns.color_palette("viridis", len(votes.counts))
    for i, count in enumerate(votes.counts):
        curve(axes, votes.epsilons, votes.accuracy[i], f"{count}", color=colours[i])
    axes.set(xlabel="$\\varepsilon_p$ of the histograms", title=title)
    budget_axis(axes, votes.epsilons)
    axes.legend(title="clusters", fontsize="small")


def share_curves(axes: plt.Axes, votes: Votes, count: int) -> None:
    """How often an answer is right, over the histogram's share of each whole budget; dashed: without a prior."""
    at = votes.counts.index(count)
    for j, total in enumerate(votes.totals):
        inside = [k for k, epsilon in enumerate(votes.epsilons) if epsilon <= total]
        curve(axes, np.array(votes.epsilons)[inside], votes.right[at, :, j, inside].T, f"{total:g}")
        axes.axhline(votes.plain[j], color=axes.lines[-1].get_color(), linestyle="--", linewidth=1)
    axes.set(xlabel="$\\varepsilon_p$ of the histograms", ylabel="right answers, %")
    budget_axis(axes, votes.epsilons)
    axes.legend(title="whole ε", fontsize="small")


def method_curves(axes: plt.Axes, compared: Compared, methods: Sequence[str], title: str) -> None:
    """Test accuracy over the budget, a line for each method."""
    for method in methods:
        curve(axes, compared.epsilons, compared.test[method], METHODS[method])
    axes.set(xlabel="ε", title=title)
    budget_axis(axes, compared.epsilons)


def gains(sets: Mapping[str, Compared], method: str, over: str, epsilons: Sequence[float]) -> pd.DataFrame:
    """Paired gains in points, with intervals: a row for each data set, a column for each budget."""
    rows = {
        name: {f"ε = {epsilon:g}": str(compared.gain(method, over, epsilon).difference) for epsilon in epsilons}
        for name, compared in sets.items()
    }
    return pd.DataFrame(rows).T


def information_curves(axes: plt.Axes, prior: np.ndarray, epsilons: Sequence[float], draws: int, rng, title: str):
    """Mutual information of label and release, in bits, for each release; returns means, (releases, budgets).

    A mean over random labels and releases of the divergence of posterior from prior; where that is the same for all
    releases, as for answers and sets about equally likely labels, it is exact.
    """
    means = np.empty((len(RELEASES), len(epsilons)))
    for i, (release, label) in enumerate(RELEASES.items()):
        seen = np.array([_told(release, prior, epsilon, draws, rng) for epsilon in epsilons])
        means[i] = seen.mean(axis=1)
        error = 1.96 * seen.std(axis=1) / np.sqrt(draws)
        shown = means[i] > 1e-9
        x = np.array(epsilons)[shown]
        axes.plot(x, means[i][shown], marker="o", markersize=4, label=label)
        plotting.band(axes, x, (means[i] - error)[shown], (means[i] + error)[shown])
    axes.set(xlabel="ε", ylabel="bits told of the label", title=title, yscale="log")
    budget_axis(axes, epsilons)
    return means


def _told(release: str, prior: np.ndarray, epsilon: float, draws: int, rng) -> np.ndarray:
    """Divergence of posterior from prior in bits, (draws,)."""
    labels = rng.choice(len(prior), draws, p=prior)
    evidence = released(release, labels, np.broadcast_to(prior, (draws, len(prior))), epsilon, rng)
    after = posterior(prior, evidence)
    return (after * np.log2(after / prior)).sum(axis=1)


def budget_axis(axes: plt.Axes, epsilons: Sequence[float]) -> None:
    """A logarithmic axis of budgets with readable ticks."""
    ticks = [t for t in (0.01, 0.03, 0.1, 0.3, 1, 3, 8) if 0.9 * min(epsilons) <= t <= 1.1 * max(epsilons)]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_xticks([], minor=True)


def table(compared: Compared, methods: Sequence[str], epsilons: Sequence[float]):
    """Test accuracies with intervals; in each column the best private method in bold, and all within its interval."""
    private = [m for m in methods if m != "clean"]
    cells, best = {}, {}
    for epsilon in epsilons:
        means = {m: compared.mean(m, epsilon) for m in methods}
        top = max(private, key=lambda m: means[m].value)
        close = {
            m for m in private if m == top or (compared.gain(top, m, epsilon).difference.low or 0) <= 0
        }  # not significantly worse, paired
        name = f"ε = {epsilon:g}"
        cells[name] = {METHODS[m]: str(means[m]) for m in methods}
        best[name] = {METHODS[m]: "font-weight: bold" if m in close else "" for m in methods}
    styles = pd.DataFrame(best)
    return pd.DataFrame(cells).style.apply(lambda _: styles, axis=None)


def summary(axes: plt.Axes, compared: Compared, sgd: Compared, title: str) -> None:
    """The paper's last figure: label privacy and record privacy over one axis of two meanings."""
    shown = ("rr", "stages", "clusters", "clusters-soft", "stages-subset")
    method_curves(axes, compared, [m for m in shown if m in compared.test], title)
    curve(axes, sgd.epsilons, sgd.test["dp-sgd"], "DP-SGD (records, δ > 0)", color="black", marker="s")
    axes.axhline(compared.test["clean"].mean(), color="grey", linestyle=":", label="no privacy")
