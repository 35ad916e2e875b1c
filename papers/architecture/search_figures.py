"""The figures and tables of chapter 7: what searches cost, what they find, and what is left once they are paid for."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from pandas.io.formats.style import Styler

from book.evidence import claims, plotting
from dplib.stats import Measured
from papers.common import tables

NAMES = {"paas": "PAAS", "rs": "RS", "mgrs": "MGRS"}
LONG = {"paas": "genetic\n(PAAS)", "rs": "random\n(RS)", "mgrs": "mixed\n(MGRS)"}
# How the number of candidates is drawn.
KINDS = ("fixed number", "geometric (η = 1)", "logarithmic (η = 0)", "η = −0.5", "η = −0.9")
NINE = {
    "eps2.11-stw": "STW, ε = 2.11", "eps2.11-paw": "PAW, ε = 2.11",
    "eps0.34-stw": "STW, ε = 0.34", "eps0.34-paw": "PAW, ε = 0.34",
}  # fmt: skip
ARMS = {"rs": "RS, random number", "rs_fixed": "RS, fixed number", "mgrs": "MGRS", "paas": "PAAS"}
RIVALS = {"fixed": "right", "random": "left"}  # a network chosen without a look, and the side on which its name stands
Proven = Mapping[str, Mapping[str, float]]  # search to how its number of candidates is drawn to ε
Rows = Mapping[str, Mapping[str, Any]]


def costs(proven: Proven) -> None:
    """ε of each whole search: printed, proven as described, and with a random, secret number of candidates."""
    table = _by_kind(proven)
    dots: dict[str, dict[str, Measured]] = {}
    for name, label in LONG.items():
        known = {"as described": table.loc[KINDS[0], name], "secret number": table.loc[KINDS[1], name]}
        dots[label] = {kind: Measured(float(value)) for kind, value in known.items() if value == value}
    _, axes = plt.subplots(figsize=(4.6, 3.6))
    printed = {label: _printed(name) for name, label in LONG.items()}
    plotting.dots(axes, dots, printed, series=("as described", "secret number"))
    for place, (label, kinds) in enumerate(dots.items()):
        texts = [(printed[label], 0.2, "right", "top", f"{printed[label]:g}")]
        for kind, shift, side, rise in (
            ("as described", -0.2, "center", "bottom"),
            ("secret number", 0.2, "left", "top"),
        ):
            if kind in kinds:
                texts.append((kinds[kind].value, shift, side, rise, f"{kinds[kind].value:.1f}"))
        for x, shift, side, rise, text in texts:
            axes.text(x, place + shift, text, ha=side, va=rise, fontsize=12)
    axes.set(xscale="log", xlabel="ε of the whole search", xlim=(2, 200))
    axes.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.legend(fontsize=11, loc="upper center", bbox_to_anchor=(0.42, -0.2), ncols=3, columnspacing=0.8)


def table_of_costs(proven: Proven) -> Styler:
    """The same with every law of the number of candidates."""
    printed = pd.DataFrame({"printed": {name: _printed(name) for name in NAMES}}).T
    table = pd.concat([printed, _by_kind(proven)]).rename(columns=NAMES)
    return table.style.format("{:.2f}", na_rep="–")


def accuracies(rows: Rows) -> None:
    """Table VIII: accuracy of the winner's own training and of fresh ones, a row for each search; rings: printed."""
    series = {"acc": "the training that won", "acc_of_fresh_trainings": "fresh trainings"}
    dots = {
        name: {label: rows[f"B.table8.{key}"][value] for value, label in series.items()} for key, name in NAMES.items()
    }
    _, axes = plt.subplots(figsize=(4.8, 3.0))
    printed = {name: claims.get(f"B.table8.{key}").published["acc"] for key, name in NAMES.items()}
    plotting.dots(axes, dots, printed)
    axes.set(xlabel="test accuracy on MNIST, %")
    axes.legend(fontsize=11, loc="upper center", bbox_to_anchor=(0.45, -0.25), ncols=2)


def table_9(rows: Rows) -> Styler:
    """Table IX in percent, printed beside measured."""
    ids = {name: f"B.table9.{row}" for row, name in NINE.items()}
    lines = {name: (claims.get(row).published, rows[row]) for name, row in ids.items()}
    return tables.beside(lines, {"acc_dpsgd": "DP-SGD", "acc_sgd": "SGD"})


def one_total(row: Mapping[str, Measured]) -> None:
    """Points by which each search is ahead of a fixed network and of a random one, at one total ε; values of the row
    ``B.search-same-guarantee``, or of another with those against the fixed network.
    """
    _, panels = plotting.column(2, 4.8, 2.9, sharex=True)
    for axes, total in zip(panels, ("0.5", "2.11"), strict=True):
        dots = {
            label: {rival: row[name] for rival in RIVALS if (name := f"total_{total}_{arm}_minus_{rival}") in row}
            for arm, label in ARMS.items()
        }
        plotting.dots(axes, dots, {}, series=tuple(RIVALS))
        axes.axvline(0, color="black", lw=1)
        axes.set(title=f"total ε = {total}", ylim=(len(ARMS) - 0.5, -1.45))
        for (rival, side), colour in zip(RIVALS.items(), sns.color_palette("colorblind", len(RIVALS)), strict=True):
            if any(rival in found for found in dots.values()):
                place = {"xytext": (-5 if side == "right" else 5, 0), "textcoords": "offset points", "ha": side}
                look = {"color": colour, "fontsize": 12, "bbox": {"color": "white", "pad": 1}}  # no grid behind letters
                axes.annotate(f"over the\n{rival} one", (0, -0.85), va="center", **place, **look)
    panels[0].tick_params(labelbottom=True)
    panels[1].set_xlabel("points by which a search leads")
    panels[0].figure.tight_layout()


def _by_kind(proven: Proven) -> pd.DataFrame:
    """ε by how the number of candidates is drawn (rows) and search (columns)."""
    table = pd.DataFrame(proven)
    return table.set_axis(KINDS, axis="index")


def _printed(name: str) -> float:
    return claims.get(f"B.{name}-budget").published["epsilon"]
