"""From kept runs of the chapter on what drives the cost to the values of its rows; a function for each claim group.

Rows whose single runs are still to be made (the plan ``wanted``) keep the values of an earlier, frozen run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from scipy import stats as distributions

from dplib import claims, plotting, printed, stats
from dplib.architecture import cost_tasks, crossover, printed_layers
from dplib.runs import Result
from dplib.stats import Measured

EQUAL = 1.0  # points of accuracy: a smaller difference of costs matters to nobody
CHAPTER = "05_what_drives_the_cost"
COLUMNS = {"without": "acc_without", "one-hot": "acc_with"}  # of Table XVI
Encoded = Mapping[tuple[str, float | None], Sequence[Result]]


def earlier(claim_id: str) -> dict[str, Any]:
    """The values of a row in its frozen run: Measured where they have an interval, numbers and texts otherwise."""
    row = claims.frozen(claim_id) or {"values": {}}
    return {n: Measured(**v) if isinstance(v, dict) and "n" in v else v for n, v in row["values"].items()}


def waiting() -> dict[str, dict[str, Any]]:
    """Row to frozen values, of all rows of this chapter that have a rule and no kept runs yet."""
    from_runs = ("B.table16.", "B.one-hot", "B.rwt", "B.depth-example", *(f"B.table{n}." for n in range(27, 32)))
    ids = [one.id for one in claims.load("B").values() if one.chapter == CHAPTER and one.rule]
    kept = [i for i in ids if not i.startswith(from_runs) or i.startswith("B.rwt-")]
    found = {claim_id: values for claim_id in kept if (values := earlier(claim_id))}
    found["B.complexity-measure"] = equal_sizes(found["B.complexity-measure"])
    rates = found["B.large-rates-clipping"]
    rates["clipped_rate_over_private"] = rates["best_rate_clipped_sgd"] / rates["best_rate_dpsgd"]
    return found


def equal_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of pairs with equal numbers of parameters whose SGD is trained: how many have unequal costs, and equal ones.

    Unequal: beyond chance, by Holm's method over these pairs. Equal: the 90% interval within :data:`EQUAL`.
    """
    pairs = {n: v for n, v in values.items() if isinstance(v, Measured) and ", 4 layers" in n}
    scale = {n: (v.high - v.low) / 2 / distributions.t.ppf(0.975, v.n - 1) for n, v in pairs.items()}
    p = [2 * distributions.t.sf(abs(v.value) / scale[n], v.n - 1) for n, v in pairs.items()]
    unequal = dict(zip(pairs, stats.holm(np.array(p)) < 0.05, strict=True))
    equal = {n: abs(v.value) + scale[n] * distributions.t.ppf(0.95, v.n - 1) < EQUAL for n, v in pairs.items()}
    trained = {"pairs_where_sgd_is_trained": len(pairs), "unequal_cost": int(sum(unequal.values()))}
    return {**pairs, **trained, "equal_cost": sum(equal[n] and not unequal[n] for n in pairs)}


def by_split(found: Encoded) -> dict[tuple[str, float | None], np.ndarray]:
    """Mean accuracy in percent over the releases on each split, (splits,): draws on one split share it."""
    return {key: 100 * np.array([np.mean(run["accuracies"]) for run in results]) for key, results in found.items()}


def constant(found: Encoded) -> Measured:
    """What calling every income low would have, in percent, over the splits."""
    return stats.mean_interval(100 * np.array([run["constant"] for run in next(iter(found.values()))]))


def table_16(found: Encoded) -> dict[str, dict[str, Any]]:
    """Row to its accuracies in percent, and the spread over single releases, for every ε that is printed."""
    means, rows = by_split(found), {}
    for claim_id in claims.load("B"):
        if not claim_id.startswith("B.table16."):
            continue
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
    columns = [np.stack([means[one, e] for e in epsilons], axis=1) for one in cost_tasks.ENCODINGS]
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


def layers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of Tables XXVII to XXXI, counted in the built networks, and what random-weights training trains of them."""
    for number in range(27, 32):
        for row in printed_layers.rows(f"B.table{number}"):
            yield row.claim, row.ours
    names = ("rwt-fcn-mnist", "rwt-cnn-mnist", "rwt-rnn-sms")
    nets = {name: printed.ARCHITECTURES[name].make() for name in names}
    yield "B.rwt", {name: printed.trained_count(net, printed.last_layers(net)) for name, net in nets.items()}
    said = next(one for one in printed_layers.disagreements() if one.claim == "B.depth-example")
    yield "B.depth-example", {"networks_disagreeing": said.ours}


def table(*row_ids: str) -> list[dict[str, Any]]:
    """Rows of a table, printed beside measured, for a page: each measured value that is printed too."""
    rows = []
    for claim_id in row_ids:
        one, ours = claims.get(claim_id), earlier(claim_id)
        row: dict[str, Any] = {"": one.where.partition(": ")[2]}
        for name in (n for n in one.published if isinstance(ours.get(n), Measured)):
            label = re.sub(r"test accuracy", "accuracy", one.labels.get(name, name))
            row |= {f"{label}, printed": f"{one.published[name]:g}", f"{label}, measured": str(ours[name])}
        rows.append(row)
    return rows


def draw_encodings(axes: plt.Axes, found: Encoded, as_printed: bool = True) -> None:
    """Table XVI: mean accuracy of both encodings, band of single releases, printed values, the constant."""
    colours = sns.color_palette("colorblind", 2)
    epsilons = sorted({e for _, e in found if e is not None})
    for (encoding, column), colour in zip(COLUMNS.items(), colours, strict=True):
        every = {e: 100 * np.concatenate([r["accuracies"] for r in found[encoding, e]]) for e in epsilons}
        axes.plot(epsilons, [every[e].mean() for e in epsilons], "o-", color=colour, label=f"{encoding} codes")
        plotting.band(axes, epsilons, *np.array([np.quantile(every[e], [0.05, 0.95]) for e in epsilons]).T)
        if as_printed:
            rows = {i: one for i, one in claims.load("B").items() if i.startswith("B.table16.")}
            at = [float(claim_id.partition(".eps")[2]) for claim_id in rows]
            axes.plot(at, [one.published[column] for one in rows.values()], "x", color=colour, mew=2)
    axes.axhline(constant(found).value, color="black", lw=1, ls="--", label="a constant prediction")
    axes.plot([], [], "kx", label="printed")
    axes.set(xscale="log", xlabel="ε (pure DP)", ylabel="test accuracy, %")
    axes.legend(fontsize="small")


def draw_regression(panels: Sequence[plt.Axes]) -> None:
    """Tables XIV and XV: error against units for each depth, SGD above, DP-SGD below; printed values as crosses."""
    units = (10, 30, 60, 120)
    for axes, number, title in zip(panels, (15, 14), ("SGD", "DP-SGD, ε = 0.95"), strict=True):
        for depth, colour in zip((2, 6, 12), sns.color_palette("colorblind", 3), strict=True):
            row = f"B.table{number}.layers-{depth}"
            ours, theirs = earlier(row), claims.get(row).published
            means = [ours[f"mae_{w}"] for w in units]
            axes.plot(units, [m.value for m in means], "o-", color=colour, label=f"{depth} layers")
            plotting.band(axes, units, [m.low for m in means], [m.high for m in means])
            axes.plot(units, [theirs[f"mae_{w}"] for w in units], "x--", color=colour, lw=0.8)
        axes.axhline(earlier("B.regression")["constant_prediction"], color="black", lw=1, ls="--")
        axes.set(xscale="log", yscale="log", xlabel="units of each layer", ylabel="mean absolute error", title=title)
        axes.set_xticks(units, [str(w) for w in units])
        axes.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
        axes.minorticks_off()


def draw_frozen_layers(panels: Sequence[plt.Axes]) -> None:
    """Figure 10 on MNIST: full training and the last two layers against ε; crosses are Table VI's values."""
    data = claims.frozen("B.fig10")["data"]
    for axes, kind, end, title in zip(panels, ("fcn", "cnn"), ("", "_cnn"), ("perceptron", "CNN"), strict=True):
        for method, key, colour in zip(
            ("normal", "rwt"), ("full", "rwt"), sns.color_palette("colorblind"), strict=False
        ):
            label = "all layers" if method == "normal" else "last two layers"
            axes.plot(data[f"epsilons{end}"], data[f"{key}{end}"], "o-", color=colour, label=label)
            rows = [claims.get(f"B.table6.{kind}-{size}-{method}").published for size in ("small", "large")]
            axes.plot([r["epsilon"] for r in rows], [r["acc"] for r in rows], "x", color=colour, mew=2)
        axes.set(xscale="log", xlabel="ε", ylabel="test accuracy, %", title=title, ylim=(0, 100))


def draw_ladders(panels: Sequence[plt.Axes]) -> None:
    """Figure 12 on Fashion-MNIST: accuracy against parameters of one hidden layer, and against hidden layers."""
    width, depth = (claims.frozen(i)["data"] for i in ("B.width", "B.depth"))
    for axes, x, some in ((panels[0], width["parameters"], width), (panels[1], depth["depths"], depth)):
        axes.plot(x, some["sgd"], "o-", label="SGD")
        axes.plot(x, some["private"], "s-", label="DP-SGD, ε = 2.58")
        axes.set(ylabel="test accuracy, %")
    panels[0].set(xscale="log", xlabel="parameters, one hidden layer")
    panels[1].set(xlabel="hidden layers of 128 units")
