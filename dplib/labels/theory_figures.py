"""Figures of label-private optimisation. Bands and bars are 95% intervals of means over replicates."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from dplib import plotting, stats
from dplib.labels import bounds as label_bounds
from dplib.labels.theory_runs import Worst

PALETTE = sns.color_palette("colorblind")
RISK = "excess risk, in units of D L"
# Methods keep their colour and marker in every figure: blue protects labels, orange and brown whole examples.
LOOKS = {
    "SGD, no privacy": ("black", "s", ":"),
    "mean, no privacy": ("grey", "s", ":"),
    "LP-RR-SGD": (PALETTE[0], "o", "-"),
    "RR, many passes": (PALETTE[9], "o", "--"),
    "LP-Normal-SGD": (PALETTE[2], "^", "-"),
    "DP-SGD, one pass": (PALETTE[1], "v", "-"),
    "DP, best of many": (PALETTE[3], "D", "--"),
}


def line(axes: plt.Axes, x: Sequence[float], values, label: str, colour, marker: str, style: str) -> None:
    """A mean curve with its band; values of shape (len(x), replicates)."""
    means = [stats.mean_interval(v) for v in np.asarray(values)]
    axes.plot(x, [m.value for m in means], color=colour, marker=marker, ls=style, label=label, ms=5)
    plotting.band(axes, x, [max(m.low, 1e-9) for m in means], [m.high for m in means])


def over_dimension(axes: plt.Axes, dimensions: Sequence[int], curves: Mapping[str, np.ndarray], title: str) -> None:
    """Excess risk against p; curves by the names of :data:`LOOKS`, values of shape (dimensions, replicates)."""
    for name, values in curves.items():
        line(axes, dimensions, values, name, *LOOKS[name])
    least = min(np.mean(v) for values in curves.values() for v in values)
    axes.set(xscale="log", yscale="log", xlabel="dimension p", title=title)
    axes.set_ylim(bottom=least / 3)  # on a logarithmic axis a band that reaches 0 has no end


def rates(panels: Sequence[plt.Axes], found: Mapping[tuple, tuple[Worst, Worst]], labels, epsilons, fixed) -> None:
    """Worst excess risk against n, K and 1/epsilon: crosses with the printed step size, dots with that of D / G.

    Args:
        panels: three axes. found: of ``rate_study``. labels, epsilons: of the sweeps. fixed: (K, epsilon) that stay.
    """
    by_n, by_labels, by_epsilon = panels
    k0, e0 = fixed
    for method, name in (("rr", "LP-RR-SGD"), ("normal", "LP-Normal-SGD")):
        colour, marker, style = LOOKS[name]
        for which, (mark, dash) in enumerate([("x", ":"), (marker, style)]):
            note = f"{name}, {'printed step' if which == 0 else 'step D/G'}"
            one = found[method, k0, e0][which]
            line(by_n, one.n, one.values, note, colour, mark, dash)
            sweeps = ((by_labels, labels, [(k, e0) for k in labels]), (by_epsilon, 1 / np.array(epsilons), None))
            for axes, x, keys in sweeps:
                keys = keys or [(k0, e) for e in epsilons]
                line(axes, x, [found[(method, *key)][which].values[-1] for key in keys], note, colour, mark, dash)
    n = found["rr", k0, e0][0].n
    by_n.plot(n, label_bounds.last_iterate_bound(label_bounds.rr_worst_second_moment(k0, e0), n), color="grey",
              ls="-.", label="bound, exact G")  # fmt: skip
    by_n.plot(n, label_bounds.theorem9_bound(k0, e0, n), color="black", lw=1, label="bound, printed G")
    by_n.set(xlabel="number of examples n", ylabel=f"worst {RISK}", title=f"K = {k0}, ε = {e0:g}")
    by_labels.set(xlabel="number of labels K", title=f"n = {n[-1]:,}, ε = {e0:g}")
    by_epsilon.set(xlabel="1/ε", title=f"n = {n[-1]:,}, K = {k0}")
    for axes in panels:
        axes.set(xscale="log", yscale="log")
    for axes, ticks in ((by_labels, labels), (by_epsilon, 1 / np.array(epsilons))):
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.set_xticks([], minor=True)


def second_moments(axes: plt.Axes, epsilon: float, delta: float, most: int = 1000) -> None:
    """What the step size must allow for: E|g|^2 against K, worst case, for both algorithms."""
    k = np.unique(np.geomspace(2, most, 80).astype(int))
    sigma2 = (label_bounds.gaussian_constant(epsilon, delta) ** 2) * np.log(1 / delta) / epsilon**2
    axes.plot(k, label_bounds.printed_second_moment(k, epsilon), color="black", lw=1, label="36 K²/ε², printed")
    axes.plot(k, label_bounds.rr_worst_second_moment(k, epsilon), color=LOOKS["LP-RR-SGD"][0], label="LP-RR-SGD, exact")
    axes.plot(k, 1 + k * sigma2, color=LOOKS["LP-Normal-SGD"][0], ls="--", label="LP-Normal-SGD, rank K")
    cross = label_bounds.labels_from_which_normal_wins(epsilon, delta)
    if cross < most:
        axes.axvline(cross, color="grey", ls=":", lw=1)
        axes.annotate(
            f"K ≈ {cross:.0f}", (cross, 0.03), xycoords=("data", "axes fraction"), ha="right", color="dimgrey"
        )
    axes.set(xscale="log", yscale="log", xlabel="number of labels K", ylabel="largest E|g|²/L²",
             title=f"ε = {epsilon:g}, δ = {delta:g}")  # fmt: skip
    axes.legend(fontsize="small")


def constants(axes: plt.Axes, epsilons=(0.1, 0.5, 1.0, 2.0, 5.0)) -> None:
    """The C that Proposition 11's noise needs, against delta."""
    deltas = np.concatenate([np.geomspace(1e-12, 0.1, 60), np.linspace(0.11, 0.99, 40)])
    for epsilon, colour in zip(epsilons, sns.color_palette("viridis", len(epsilons)), strict=True):
        axes.plot(deltas, label_bounds.gaussian_constant(epsilon, deltas), color=colour, label=f"ε = {epsilon:g}")
    axes.axhline(label_bounds.GAUSSIAN_CONSTANT, color="black", ls="--", lw=1)
    axes.text(2e-12, label_bounds.GAUSSIAN_CONSTANT + 0.08, "2√2: enough for ε ≤ 2 ln 2, δ ≤ 1/2", fontsize="small")
    axes.set(xscale="log", xlabel="δ", ylabel="C needed in σ = C L √ln(1/δ) / ε", ylim=(0, 6))
    axes.legend(fontsize="small", ncols=2)


def sets(axes: plt.Axes, risks, misses, without) -> None:
    """Corollary 10: excess risk against k, with the miss rate of each k on top; ``without``: risks of k = K."""
    k = np.arange(1, len(risks) + 1)
    line(axes, k, risks, "LP-RR-SGD on Y_k", *LOOKS["LP-RR-SGD"])
    axes.axhline(np.mean(without), color="grey", ls=":", label="all K labels")
    axes.set(xlabel="k, the number of labels kept", ylabel=RISK, xticks=k)
    top = axes.secondary_xaxis("top")
    top.set_xticks(k, [f"{m:.0%}" for m in misses], fontsize="small")
    top.set_xlabel("Pr[y not in Y_k]", fontsize="small")
    axes.legend(fontsize="small")


def lower_bounds(axes: plt.Axes, epsilons, curves: Mapping[str, Sequence[float]], n: int) -> None:
    """Excess empirical risk on the construction against epsilon: algorithms with dots, bounds as plain lines."""
    colours = sns.color_palette("colorblind", len(curves))
    for (name, values), colour in zip(curves.items(), colours, strict=True):
        bound = name.startswith("bound")
        axes.plot(epsilons, values, color="black" if bound else colour, marker=None if bound else "o", ms=4,
                  ls={"bound: paper": ":", "bound: sharp": "--"}.get(name, "-"), label=name)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel=RISK, title=f"n = {n:,}")
    axes.legend(fontsize="small")


def generalisation(
    axes: plt.Axes, ns: Sequence[int], found: Mapping[float, Sequence], bounds: Mapping[float, Sequence]
):
    """Theorem 17: largest deviations of every data set as dots, the bound as a line, for each epsilon (the keys)."""
    for i, epsilon in enumerate(found):
        colour = PALETTE[i]
        for n, values in zip(ns, found[epsilon], strict=True):
            spread = n * np.exp(np.random.default_rng(i).uniform(-0.08, 0.08, len(values)))
            axes.plot(spread, values, ".", color=colour, ms=3, alpha=0.4)
        axes.plot(ns, bounds[epsilon], color=colour, label=f"bound, ε = {epsilon:g}")
    axes.set(xscale="log", yscale="log", xlabel="number of examples n", ylabel="largest deviation of the risk")
    axes.set_xticks(ns, [f"{n:,}" for n in ns])
    axes.set_xticks([], minor=True)
    axes.legend(fontsize="small")
