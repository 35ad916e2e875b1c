"""From kept runs of the chapter on what drives the cost to the values of its rows, its tables and its figures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from typing_extensions import TypedDict

from book.evidence import claims, plotting
from book.evidence.runs import Result
from dplib import files, stats
from dplib.stats import Measured
from papers.architecture import crossover, feature_data, printed_layers
from papers.architecture.cost_network_rows import Found, budget_of, gains, ladder
from papers.architecture.cost_runs import SGD
from papers.common import printed
from papers.common.network_runs import Outcome

COLUMNS = {"without": "acc_without", "one-hot": "acc_with"}  # of Table XVI
Encoded = Mapping[tuple[str, float | None], Sequence[Result]]


def by_split(found: Encoded) -> dict[tuple[str, float | None], np.ndarray]:
    """Mean accuracy in percent over the releases on each split, (splits,): draws on one split share it."""
    return {key: 100 * np.array([np.mean(run["accuracies"]) for run in results]) for key, results in found.items()}


def constant(found: Encoded) -> Measured:
    """What calling every income low would have, in percent, over the splits."""
    return stats.mean_interval(_constants(found))


def table_16(found: Encoded) -> dict[str, dict[str, Any]]:
    """Row to its accuracies in percent, and the spread over single releases, for every ε that is printed."""
    means, rows = by_split(found), {}
    for claim_id in claims.printed_rows("B.table16"):
        epsilon, row = float(claim_id.partition(".eps")[2]), {}
        for encoding, column in COLUMNS.items():
            if (encoding, epsilon) in found:
                row[column] = stats.mean_interval(means[encoding, epsilon])
                every = np.concatenate([run["accuracies"] for run in found[encoding, epsilon]])
                row[f"{column}_sd"] = float(100 * every.std(ddof=1))
        if row:
            rows[claim_id] = row
    return rows


def one_hot(found: Encoded) -> dict[str, Any]:
    """Who is ahead at which ε, where the two encodings cross, and what a constant prediction has."""
    means = by_split(found)
    epsilons = sorted({e for _, e in found if e is not None})
    lead = {e: stats.paired(a, b).difference for e, a, b in leads(found)}
    columns = [np.stack([means[one, e] for e in epsilons], axis=1) for one in feature_data.ENCODINGS]
    cross = crossover.estimate(epsilons, *columns, rng=np.random.default_rng(5), resamples=500)
    frequent = constant(found)
    above = [e for e in epsilons if stats.paired(means["without", e], _constants(found)).difference.low > 0]
    return {
        "crossover": Measured(cross.value, cross.low, cross.high, len(columns[0])),
        "features_one_hot": found["one-hot", epsilons[0]][0]["features"],
        "features_without": found["without", epsilons[0]][0]["features"],
        "constant_prediction": frequent,
        "smallest_epsilon_without_codes_above_constant": min(above, default=None),
        **{f"without_minus_one_hot_at_{e:g}": one for e, one in lead.items()},
    }


def leads(found: Encoded) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Each ε with the accuracies without and with codes, in percent, (splits,) each."""
    means = by_split(found)
    for epsilon in sorted({e for _, e in found if e is not None}):
        yield epsilon, means["without", epsilon], means["one-hot", epsilon]


def _constants(found: Encoded) -> np.ndarray:
    return 100 * np.array([run["constant"] for run in next(iter(found.values()))])


def without_noise(found: Encoded) -> dict[str, Measured]:
    """Accuracies of both encodings without noise, in percent, and what the codes add."""
    means = by_split(found)
    plain = {column: stats.mean_interval(means[encoding, None]) for encoding, column in COLUMNS.items()}
    return plain | {"with_minus_without": stats.paired(means["one-hot", None], means["without", None]).difference}


class _Slowdown(TypedDict):
    ratios: dict[str, dict[str, float]]


def slowdown(path: Path = claims.RESULTS / "bench_slowdown.json") -> dict[str, dict[str, Any]]:
    """The rows of Table XVII, and of what is said of it, from the benchmark: ratios of a step's time to SGD's."""
    measured = files.checked(path, _Slowdown)["ratios"]
    rows = {}
    for name, ratio in measured.items():
        seconds = claims.get(row := f"B.table17.{name}").published
        ours = {f"ratio_{side}": one for side, one in ratio.items()}
        rows[row] = {"printed_ratio": seconds["seconds_dpsgd"] / seconds["seconds_sgd"], **ours}
    of = {side: [one[side] for one in measured.values()] for side in ("opacus", "dplib")}
    rows["B.slowdown"] = {
        "dplib_most": max(of["dplib"]),
        "opacus_least": min(of["opacus"]),
        "opacus_most": max(of["opacus"]),
    }
    return rows


def layers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of Tables XXVII to XXXI, counted in the built networks, and what random-weights training trains of them."""
    for number in range(27, 32):
        yield from printed_layers.rows(f"B.table{number}").items()
    names = ("rwt-fcn-mnist", "rwt-cnn-mnist", "rwt-rnn-sms")
    nets = {name: printed.ARCHITECTURES[name].make() for name in names}
    yield "B.rwt", {name: printed.trained_count(net, printed.last_layers(net)) for name, net in nets.items()}
    yield "B.depth-example", printed_layers.depths()


def table(rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A table for a page: each value with an interval beside the printed one, of rows of the ledger."""
    lines = []
    for claim_id, ours in rows.items():
        one = claims.get(claim_id)
        line: dict[str, Any] = {"": one.where.partition(": ")[2]}
        for name in (n for n in one.published if isinstance(ours.get(n), Measured)):
            label = re.sub(r"test accuracy", "accuracy", one.labels.get(name, name))
            line |= {f"{label}, printed": f"{one.published[name]:g}", f"{label}, measured": str(ours[name])}
        lines.append(line)
    return pd.DataFrame(lines).fillna("")


def draw_encodings(axes: plt.Axes, found: Encoded, as_printed: bool = True) -> None:
    """Table XVI: mean accuracy of both encodings, band of single releases, printed values, the constant."""
    colours = sns.color_palette("colorblind", 2)
    epsilons = sorted({e for _, e in found if e is not None})
    for (encoding, column), colour in zip(COLUMNS.items(), colours, strict=True):
        every = {e: 100 * np.concatenate([r["accuracies"] for r in found[encoding, e]]) for e in epsilons}
        axes.plot(epsilons, [every[e].mean() for e in epsilons], "o-", color=colour, label=f"{encoding} codes")
        plotting.band(axes, epsilons, *np.array([np.quantile(every[e], [0.05, 0.95]) for e in epsilons]).T)
        if as_printed:
            rows = claims.printed_rows("B.table16")
            at = [float(claim_id.partition(".eps")[2]) for claim_id in rows]
            axes.plot(at, [one[column] for one in rows.values()], "x", color=colour, mew=2)
    axes.axhline(constant(found).value, color="black", lw=1, ls="--", label="a constant prediction")
    axes.plot([], [], "kx", label="printed")
    axes.set(xscale="log", xlabel="ε (pure DP)", ylabel="test accuracy, %")
    axes.legend(fontsize="small")


def _curve(axes: plt.Axes, x: Sequence[float], outcomes: Sequence[Outcome], style: str = "o-", **more: Any) -> None:
    """Means with bands of outcomes against x."""
    means = [one.mean for one in outcomes]
    axes.plot(x, [m.value for m in means], style, **more)
    plotting.band(axes, x, [m.low for m in means], [m.high for m in means])


def draw_regression(panels: Sequence[plt.Axes], found: Found) -> None:
    """Tables XIV and XV: error against units for each depth, SGD above, DP-SGD below; printed values as crosses."""
    e = budget_of(found)
    depths, units = (sorted({key[i] for key in found}) for i in (0, 1))
    for axes, number, budget in zip(panels, (15, 14), (SGD, e), strict=True):
        for depth, colour in zip(depths, sns.color_palette("colorblind", len(depths)), strict=True):
            _curve(axes, units, [found[depth, w, budget] for w in units], color=colour, label=f"{depth} layers")
            theirs = claims.get(f"B.table{number}.layers-{depth}").published
            axes.plot(units, [theirs[f"mae_{w}"] for w in units], "x--", color=colour, lw=0.8)
        axes.axhline(
            np.mean([run["constant"] for run in found[depths[0], units[0], e].runs]), color="black", lw=1, ls="--"
        )
        title = "SGD" if budget == SGD else f"DP-SGD, ε = {e:g}"
        axes.set(xscale="log", yscale="log", xlabel="units of each layer", ylabel="mean absolute error", title=title)
        axes.set_xticks(units, [str(w) for w in units])
        axes.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
        axes.minorticks_off()


def draw_frozen_layers(panels: Sequence[plt.Axes], **networks: Found) -> None:
    """Figure 10 on MNIST: full training and the last two layers against ε; crosses are Table VI's values."""
    titles, colours = {"fcn": "perceptron", "cnn": "CNN"}, sns.color_palette("colorblind", 2)
    methods = {"all": ("normal", "all layers"), "last two": ("rwt", "last two layers")}
    for axes, (kind, found) in zip(panels, networks.items(), strict=True):
        for (name, (row, label)), colour in zip(methods.items(), colours, strict=True):
            epsilons = list(gains(found))
            _curve(axes, epsilons, [found["complex", name, e] for e in epsilons], color=colour, label=label)
            printed_ones = [claims.get(f"B.table6.{kind}-{size}-{row}").published for size in ("small", "large")]
            at, accuracy = ([one[key] for one in printed_ones] for key in ("epsilon", "acc"))
            axes.plot(at, accuracy, "x", color=colour, mew=2)
        axes.set(xscale="log", xlabel="ε", ylabel="test accuracy, %", title=titles[kind], ylim=(0, 100))
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()


def draw_ladders(panels: Sequence[plt.Axes], found: Found) -> None:
    """Figure 12: accuracy against the parameters of one hidden layer, and against the number of hidden layers."""
    e = budget_of(found)
    for axes, kind in zip(panels, ("width", "depth"), strict=True):
        steps = ladder(found, kind)
        x = [one[e].parameters for one in steps.values()] if kind == "width" else list(steps)
        for budget, label, style in ((SGD, "SGD", "o-"), (e, f"DP-SGD, ε = {e:g}", "s-")):
            _curve(axes, x, [one[budget] for one in steps.values()], style, label=label)
        axes.set(ylabel="test accuracy, %")
    panels[0].set(xscale="log", xlabel="parameters, one hidden layer")
    units = next(iter(ladder(found, "depth").values()))[e].job["model"][0]
    panels[1].set(xlabel=f"hidden layers of {units} units")
