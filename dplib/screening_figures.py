"""The figures of chapter 12."""

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib import ticker

from dplib import plotting, screening

_LINES = {"claimed": ":", "all queries": "--", "plain": "-."}


def densities(with_it: screening.Density, without: screening.Density, spent: dict[int, float], claimed: float):
    """Left: an accepted update with and without the example. Right: exact epsilon over the limit on rejections.

    Args:
        spent: limit to exact epsilon. claimed: epsilon of one Gaussian release.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=plotting.WIDE)
    u = np.linspace(-4, 5, 1801)
    for density, label in ((with_it, "with the example"), (without, "without it")):
        left.semilogy(u, np.exp(density.log_density(u)), lw=2, label=label)
    left.set(xlabel="accepted update u (standard deviations of the noise)", ylabel="density", ylim=(1e-9, 2))
    left.legend(fontsize="small")
    limits = list(spent)
    right.plot(limits, [spent[k] for k in limits], "o-", label="exact")
    right.axhline(claimed, color="black", ls=_LINES["claimed"], lw=2, label="one Gaussian release")
    right.set(xlabel="rejections allowed, $\\mu_0$", ylabel="ε of one accepted update", ylim=(0, None))
    right.legend(fontsize="small")
    figure.tight_layout()
    return figure


def selection(rates, wells, bound, everything, claimed):
    """Epsilon of one update chosen by a public test, over the share of candidates that it accepts.

    Args:
        rates, wells, bound, everything: shape (k,); wells: exact, two valleys; bound: of any public test; everything:
            all candidates released. claimed: of one Gaussian release.
    """
    figure, axes = plt.subplots(figsize=plotting.SIZE)
    axes.semilogx(rates, everything, ls=_LINES["all queries"], lw=2, label="all candidates counted (on average)")
    axes.semilogx(rates, bound, lw=2, label="no public test costs more")
    axes.semilogx(rates, wells, lw=2, marker="o", ms=4, label="two valleys, exact")
    axes.axhline(claimed, color="black", ls=_LINES["claimed"], lw=2, label="one Gaussian release")
    axes.set(xlabel="share of candidates accepted", ylabel="ε of one accepted update", ylim=(0, None))
    axes.set_ylim(0, 3 * max(bound))
    axes.invert_xaxis()
    axes.legend(fontsize="small")
    figure.tight_layout()
    return figure


def settings(panels):
    """Epsilon of a whole training over its acceptance rate, one panel for each setting of the paper.

    Args:
        panels: list of (title, table): table has columns push, rate, redrawn, unlimited, kept, all, and claimed, plain.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(11.5, 4.6), sharey=True)
    colours = sns.color_palette("colorblind")
    for panel, (title, table) in zip(np.atleast_1d(axes), panels, strict=True):
        panel.plot(table["rate"], table["all"], ls=_LINES["all queries"], color=colours[7], lw=2, label="all queries")
        panel.plot(table["rate"], table["redrawn"], "o-", color=colours[3], ms=4, label="exact, as printed")
        panel.plot(table["rate"], table["kept"], "s-", color=colours[0], ms=4, label="exact, batch kept")
        panel.axhline(table["claimed"].iloc[0], color="black", ls=_LINES["claimed"], lw=2, label="claimed (Lemma 2)")
        panel.axhline(
            table["plain"].iloc[0], color=colours[2], ls=_LINES["plain"], lw=2, label="same number, plain, tight"
        )
        panel.set(title=title, xlabel="accepted / drawn", xlim=(0, 1.02), ylim=(0, None))
    np.atleast_1d(axes)[0].set_ylabel("ε at the end of the training")
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=5, frameon=False, fontsize="small")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def noisy_test(table, target):
    """DPSUR's claimed epsilon and the exact one of the accepted updates, over where the threshold lies.

    Args:
        table: columns push and one for each setting.
    """
    figure, axes = plt.subplots(figsize=plotting.SIZE)
    for name in table.columns[1:]:
        axes.plot(table["push"], table[name], "o-", ms=4, label=name)
    axes.axhline(target, color="black", ls=_LINES["claimed"], lw=2, label="claimed, with the test included")
    axes.set(
        xlabel="least u that lowers the energy (standard deviations of the noise)", ylabel="exact ε", ylim=(0, None)
    )
    axes.legend(fontsize="small")
    figure.tight_layout()
    return figure


def worth(panels):
    """Above: epsilon over the error, claimed and true. Below: what screening adds at equal true epsilon.

    Args:
        panels: list of (title, lines, differences): lines is {label: (accuracy, epsilon, style)} of means over
            seeds, differences {label: (epsilon, mean, low, high)}, all arrays (k,); style is "claimed", "true",
            "lower", "plain" or "plain claimed".
    """
    figure, axes = plt.subplots(2, len(panels), figsize=(5.6 * len(panels), 8.2), squeeze=False)
    colours = sns.color_palette("colorblind")
    styles = {
        "plain": {"color": colours[0], "lw": 2},
        "plain claimed": {"color": colours[0], "lw": 2, "ls": _LINES["claimed"]},
        "claimed": {"color": colours[3], "lw": 2, "ls": _LINES["claimed"]},
        "true": {"color": colours[3], "lw": 2},
        "lower": {"color": colours[1], "lw": 1, "ls": "none", "marker": "^", "ms": 7},
    }
    for (title, lines, differences), above, below in zip(panels, *axes, strict=True):
        for label, (accuracy, epsilon, style) in lines.items():
            above.plot(100 * (1 - np.asarray(accuracy)), epsilon, label=label, **styles[style])
        above.set(title=title, xlabel="error on test records (%)", ylabel="ε", ylim=(0, None), xscale="log")
        above.invert_xaxis()
        above.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        above.xaxis.set_minor_formatter(ticker.NullFormatter())
        above.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        above.legend(fontsize="small")
        for k, (label, (epsilon, mean, low, high)) in enumerate(differences.items()):
            below.plot(epsilon, 100 * np.asarray(mean), "o-", ms=3, color=colours[3 - k], label=label)
            below.fill_between(epsilon, 100 * np.asarray(low), 100 * np.asarray(high), color=colours[3 - k], alpha=0.2)
        below.axhline(0, color="black", lw=1)
        below.set(xlabel="true ε, all queries, tight account", ylabel="screened less plain (percentage points)")
        if differences:
            below.legend(fontsize="small")
        else:
            below.set_visible(False)
    figure.tight_layout()
    return figure
