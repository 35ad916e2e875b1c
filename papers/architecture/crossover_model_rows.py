"""From chapter 4's runs of several models to values: three kinds of model, CNNs, sizes, and shared learning rates."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pandas.io.formats.style import Styler

from book.evidence import claims, margins, plotting
from book.evidence.plans import Plan
from book.evidence.runs import Result
from dplib import stats
from dplib.data import registry
from dplib.models import parameter_count
from dplib.stats import Measured
from papers.architecture import crossover, crossover_rows
from papers.architecture.crossover_rows import AGREES, Curves, TwoNetworks, Values, at, cells
from papers.architecture.crossover_runs import COMPLEX, SIMPLE, Swept
from papers.common import printed, tables
from papers.common.diverged import accuracies

SERVES = margins.get("accuracy_points", "mnist").value  # that a network surely loses less at a rate not its own


def every(study: Plan, pairs: Mapping[str, TwoNetworks]) -> Values:
    """The values of the chapter's rows that rest on runs, but for those that trainings at the paper's batch decide
    (:mod:`length_rows`); ``found`` of :func:`crossover_rows.pairs`.
    """
    return {
        **data_sets(),
        **crossover_rows.of_pairs(pairs),
        **crossover_rows.of_seeds(pairs),
        **crossover_rows.table_1(study, pairs),
        **of_three(*three(study)),
        **rates(study)[1],
        **table_4(study),
        "B.fig1": best_size(study),
    }


THREE = ("logistic regression", "PAW FCN", "PAW CNN")
BUDGETS = (4.39, 2.98, 1.09, 1.05)  # of Table IV
OF_CNNS = ("cnns", "cnns_half", "cnns_batch")  # parts that train all three; plan "paper" has one for each length
CNNS = {"stw": "STW CNN", "paw": "PAW CNN", "lenet": "LeNet-5"}


def three(study: Plan) -> tuple[Curves, dict[tuple[str, str], tuple[tuple[float, float, float], str]]]:
    """Figure 8: each model's accuracy in percent over the budget; and each pair's crossing, as numbers and in words."""
    two = [(THREE[0], THREE[1]), (THREE[0], THREE[2]), (THREE[1], THREE[2])]
    by_model = study.read("three")
    at = sorted(by_model[THREE[0]])
    test = {name: np.stack([accuracies(by_model[name][e], "test") for e in at], axis=1) for name in THREE}
    crossings = {}
    for simple, other in two:
        crossing = crossover.estimate(at, test[simple], test[other], rng=np.random.default_rng(0))
        crossings[simple, other] = (crossing.value, crossing.low, crossing.high), str(crossing)
    return {name: plotting.bands("epsilon", at, plotting.means(values.T)) for name, values in test.items()}, crossings


def of_three(curves: Curves, crossings: Mapping[tuple[str, str], tuple[tuple[float, float, float], str]]) -> Values:
    """The rows on Figure 8; arguments of :func:`three`."""
    levels = {
        f"{short}_at_{str(e).replace('.', '_')}": at(curves, name, e)
        for short, name in zip(("logistic", "fcn", "cnn"), THREE, strict=True)
        for e in (0.1, 1.09, 2.11)
    }
    (value, low, high), _ = crossings[THREE[:2]]
    ends = {"lowest_epsilon": 0.1, "inner_epsilon": 1.09, "highest_epsilon": 2.11}
    return {
        "B.fig8": ends | {name: level for name, level in levels.items() if "fcn" not in name},
        "B.crossover-three-models": {
            "crossover_logistic_fcn": Measured(value, low, high, 5),
            "crossover_logistic_cnn": crossings[THREE[0], THREE[2]][1],
            "crossover_fcn_cnn": crossings[THREE[1:]][1],
            **{name: level for name, level in levels.items() if "2_11" not in name},
        },
    }


def sizes(study: Plan) -> dict[str, dict[int, Measured]]:
    """Figure 1: test accuracy in percent, {"SGD" or "DP-SGD": {parameters: mean}}, of the seeds that decide its row."""
    by_size = study.read("sizes_more" if "sizes_more" in study.parts else "sizes").values()
    return {
        kind: {
            by_budget[e][0]["parameters"]: stats.mean_interval(accuracies(by_budget[e], "test"))
            for by_budget in by_size
        }
        for kind, e in (("SGD", math.inf), ("DP-SGD", 2.11))
    }


def best_size(study: Plan) -> Values:
    """The row of Figure 1, by the seeds of part "sizes_more" alone, which were added after a look at those of "sizes".

    The best smaller network is that with the best mean, DP-SGD, on validation data among all but the largest.
    """
    if "sizes_more" not in study.parts:
        missing = Measured(math.nan, n=1)
        return {
            "sgd_largest_less_smallest": missing,
            "best_smaller_less_largest": missing,
            "rank_of_the_best_smaller": missing,
        }
    by_size = list(study.read("sizes_more").values())
    sgd, dp = (np.stack([accuracies(by_budget[e], "test") for by_budget in by_size]) for e in (math.inf, 2.11))
    best = int(np.mean([accuracies(by_budget[2.11], "validation") for by_budget in by_size[:-1]], axis=1).argmax())
    return {
        "parameters_of_the_best_smaller": by_size[best][2.11][0]["parameters"],
        "rank_of_the_best_smaller": 1 + best,
        "sgd_largest_less_smallest": stats.mean_interval(sgd[-1] - sgd[0]),
        "best_smaller_less_largest": stats.mean_interval(dp[best] - dp[-1]),
    }


def rates(study: Plan) -> tuple[dict[str, Measured], Values]:
    """Figure 9: simple less complex, in points, by shared rate and at "own rates"; and its rows."""
    gaps, losses, at_shared, served, tallies = _rates(study.read("rates"), study.read("mnist"))
    values = {f"gap_at_{name.replace(' ', '_')}": gap for name, gap in gaps.items()}
    return gaps, {
        "B.learning-rate": {
            **values,
            "rates_that_serve_both": len(served),
            "they_are": ", ".join(served) or "none",
            **{f"loss_at_sgd_rate_{name}": loss for name, loss in losses.items()},
            **at_shared,
        },
        "B.fig9": {
            **values,
            **dict(
                zip(
                    ("losses_at_shared_rates", "gains_at_shared_rates", "pairs_of_network_and_rate"),
                    tallies,
                    strict=True,
                )
            ),
        },
    }


_SHORT = {"simple": SIMPLE, "complex": COMPLEX}


def _rates(shared: Mapping[str, Mapping[float, Sequence[Result]]], tuned: Swept):
    """Gaps by rate; losses at SGD's rate, and at shared ones; which rates serve both; signs of losses at rates not a
    network's own."""
    tuned_accuracy = {name: accuracies(tuned[name][2.11], "test") for name in (SIMPLE, COMPLEX)}
    at_rate = {
        name: {rate: accuracies(results, "test") for rate, results in shared[name].items()} for name in tuned_accuracy
    }
    loss = {
        name: {rate: tuned_accuracy[name] - accuracy for rate, accuracy in at_rate[name].items()}
        for name in tuned_accuracy
    }
    gaps = {
        f"{rate:g}": stats.mean_interval(at_rate[SIMPLE][rate] - at_rate[COMPLEX][rate]) for rate in at_rate[SIMPLE]
    }
    gaps["own rates"] = stats.mean_interval(tuned_accuracy[SIMPLE] - tuned_accuracy[COMPLEX])
    at_sgd = {
        short: stats.mean_interval(loss[name][tuned[name][math.inf][0]["learning_rate"]])
        for short, name in _SHORT.items()
    }
    at_shared = {
        f"loss_at_{r:g}_{short}": stats.mean_interval(values)
        for short, name in _SHORT.items()
        for r, values in loss[name].items()
    }
    serves = [
        f"{r:g}" for r in shared[SIMPLE] if all(stats.mean_interval(loss[n][r]).high < SERVES for n in tuned_accuracy)
    ]
    other = [(n, r) for n in tuned_accuracy for r in shared[n] if r != tuned[n][2.11][0]["learning_rate"]]
    signs = crossover.significant_signs(np.stack([loss[n][r] for n, r in other], axis=1), np.zeros((5, len(other))))
    return gaps, at_sgd, at_shared, serves, (int((signs > 0).sum()), int((signs < 0).sum()), len(other))


def table_4(study: Plan) -> Values:
    """Cells of Table IV, and the rows on LeNet-5, the CNNs and the small FCN, as far as the plan has their runs."""
    read = {part: study.read(part) for part in (*OF_CNNS, "stw", "tiny") if part in study.parts}
    level = {
        (name, e): accuracies(results, "test")
        for by_network in read.values()
        for name, by in by_network.items()
        for e, results in by.items()
    }
    paw, lenet, stw, fcn = "PAW CNN", "LeNet-5", "STW CNN", "PAW FCN"
    rows: Values = {}
    for part, e, (short, name) in itertools.product(OF_CNNS, BUDGETS, CNNS.items()):
        if e in read.get(part, {}).get(name, {}):
            printed = {
                "acc_dpsgd": stats.mean_interval(level[name, e]),
                "acc_sgd": stats.mean_interval(accuracies(read[part][name][math.inf], "test")),
            }
            for row in [f"B.table4.eps{e}-{short}"] + [f"B.table1.cnn-mnist-{short}"] * (e == 4.39 and name != lenet):
                rows[row] = printed | cells(
                    row, printed, settled=_as_printed(study.parts[part].inputs, f"B.table4.eps{e}-{short}")
                )
    if {(paw, 1.09), (lenet, 1.09), (paw, math.inf), (lenet, math.inf)} <= set(level):
        rows["B.intro-lenet"] = {
            f"{short}_{kind}": stats.mean_interval(level[CNNS[short], e])
            for short in ("paw", "lenet")
            for kind, e in (("sgd", math.inf), ("dpsgd", 1.09))
        }
        least = claims.get("B.intro-lenet").published["paw_dpsgd"] - AGREES
        rows["B.intro-lenet"]["paw_dpsgd_above_print_less_a_point"] = stats.mean_interval(level[paw, 1.09] - least)
    if {(fcn, 2.11), (stw, 2.11)} <= set(level):
        rows["B.fcn-beats-cnn"] = {
            "acc_fcn": stats.mean_interval(level[fcn, 2.11]),
            "acc_cnn": stats.mean_interval(level[stw, 2.11]),
        }
    if {f"B.table4.eps{e}-{short}" for e in BUDGETS for short in CNNS} <= set(rows):
        rows["B.lenet"] = _lenet(level, rows)
    return rows


def _as_printed(inputs: Mapping[str, Any], row: str) -> bool:
    """Whether a part of a plan trains for as many epochs of MNIST as a row of Table IV prints."""
    return inputs["steps"] * inputs["batch"] >= 60_000 * claims.get(row).published["epochs"]


def _lenet(level: Mapping[tuple[str, float], np.ndarray], rows: Values) -> dict[str, Any]:
    """The PAW CNN against the two others at all budgets; a lead counts where no training is surely below print."""
    trained = {}
    for e, (short, name) in itertools.product(BUDGETS, CNNS.items()):
        row = f"B.table4.eps{e}-{short}"
        trained[name, e] = rows[row]["acc_dpsgd"].high >= claims.get(row).published["acc_dpsgd"] - AGREES
    gaps = {
        (e, other): stats.mean_interval(level["PAW CNN", e] - level[other, e])
        for e, other in itertools.product(BUDGETS, ("LeNet-5", "STW CNN"))
    }
    fair = {key: gap for key, gap in gaps.items() if trained["PAW CNN", key[0]] and trained[key[1], key[0]]}
    return {
        "parameter_difference": _count("lenet5-mnist") - _count("cnn-mnist-paw"),
        "lenet_less_stw_sgd": stats.mean_interval(level["LeNet-5", math.inf] - level["STW CNN", math.inf]),
        "paw_ahead": sum(gap.low > 0 for gap in fair.values()),
        "paw_behind": sum(gap.high < 0 for gap in fair.values()),
        "paw_less_lenet_at_1_09": gaps[1.09, "LeNet-5"],
        "paw_less_stw_at_1_09": gaps[1.09, "STW CNN"],
    }


def _count(name: str) -> int:
    return parameter_count(printed.ARCHITECTURES[name].make())


def data_sets() -> Values:
    """Sizes of MNIST and Fashion-MNIST, from the lengths of their published files; half of the test part validates."""
    rows: Values = {}
    for name in ("mnist", "fashion-mnist"):
        files = registry.entry(name).files
        train, test = ((file.content_bytes - 16) // 28**2 for file in files if "images" in file.name)  # 16: the header
        rows[f"B.data-{name}"] = {"n": train + test, "n_train": train, "n_val": test // 2, "n_test": test - test // 2}
    parts = claims.get("B.data-purchase100").published
    rows["B.data-purchase100"] = {"sum_of_parts": parts["n_train"] + parts["n_val"] + parts["n_test"]}
    return rows


def table(rows: Mapping[str, Mapping[str, Any]]) -> Styler:
    """A table of accuracies in percent beside print, "95.1 ± 0.4", from rows of the ledger with their values."""
    lines = {claims.get(row).where.partition(": ")[2]: (claims.get(row).published, rows[row]) for row in rows}
    return tables.beside(lines, {"acc_dpsgd": "DP-SGD", "acc_sgd": "SGD"})
