"""From chapter 4's runs to values for its tables, figures and rows of the ledger."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from book.evidence import claims, plotting
from book.evidence.plans import Plan
from book.evidence.runs import Result
from dplib import stats
from dplib.checks import ParameterError
from dplib.models import parameter_count
from dplib.stats import Measured
from papers.architecture import crossover
from papers.architecture.crossover_runs import COMPLEX, SIMPLE, Swept
from papers.common import printed
from papers.common.diverged import accuracies

Curves = dict[str, pd.DataFrame]  # label to columns epsilon, mean, low, high
Values = dict[str, dict[str, Any]]
# Pairs of networks by the part of the plan, with the epsilon of Table I.
PRINTED = {"mnist": 2.11, "longer": 2.11, "fashion": 2.11, "jpeg": 2.34, "location": 1.54}
# The data sets of the paper that we have, MNIST in its longest training; location is a set of ours.
PAPERS = {"mnist": "longer", "fashion_mnist": "fashion", "cifar10_jpeg": "jpeg"}
# The pairs of Table I, and the part of a plan that trains each as long as printed.
AS_PRINTED = {
    "fcn-mnist": "printed_mnist",
    "fcn-fashion-mnist": "printed_fashion",
    "fcn-cifar10": "fcn_cifar10",
    "fcn-svhn": "fcn_svhn",
    "fcn-purchase100": "fcn_purchase",
    "cnn-cifar10": "cnn_cifar10",
    "cnn-svhn": "cnn_svhn",
}
AGREES = 1.0  # points around a printed accuracy in which our interval agrees: batch and epochs are not the paper's


@dataclass(frozen=True)
class TwoNetworks:
    """Two networks on one data set, trained alike at all budgets.

    Attributes:
        curves: test accuracy in percent over the budget, by network.
        sgd: accuracies without privacy, simple and complex. dp: those at the printed budget.
        dp_gap, sgd_gap: simple less complex in points, at the printed budget and without privacy, paired by seed.
        cost_gap: what privacy costs the complex network more than the simple one there, paired by seed.
        crossing: value, low and high; 0 and inf where it leaves the budgets that were run. shown: the same in words.
        leads: at each budget 1 where the simple network leads beyond chance, -1 where the complex one does.
        later_larger: the simple one's relative lead is beyond chance larger at a budget below the crossing than at the
            smallest; first_largest: it is smaller beyond chance at all of them.
        runs: accuracies (seeds, budgets) on test and validation data, by network.
    """

    curves: Curves
    sgd: tuple[Measured, Measured]
    dp: tuple[Measured, Measured]
    dp_gap: Measured
    sgd_gap: Measured
    cost_gap: Measured
    crossing: tuple[float, float, float]
    shown: str
    leads: tuple[int, ...]
    later_larger: bool
    first_largest: bool
    runs: "Runs"

    @property
    def epsilons(self) -> list[float]:
        return self.curves[SIMPLE]["epsilon"].tolist()

    @property
    def order(self) -> int:
        """1: the simple network leads up to some budget and the complex one beyond; -1: the contrary; 0: neither.

        Contrary is a lead of the complex network below one of the simple one, or at the left end of Figure 7, 0.1; or
        one of the simple network at its right end, 10^7.
        """
        known = [sign for sign in self.leads if sign]
        ends = dict(zip(self.epsilons, self.leads, strict=True))
        if known != sorted(known, reverse=True) or ends.get(0.1, 0) < 0 or ends.get(1e7, 0) > 0:
            return -1
        return int(set(known) == {1, -1})


@dataclass(frozen=True)
class Runs:
    """Accuracies in percent by seed, simple and complex: on test and validation data (seeds, budgets), and with SGD."""

    test: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    sgd: tuple[np.ndarray, np.ndarray]


def pairs(study: Plan) -> dict[str, TwoNetworks]:
    """Every pair of networks by its part of the plan."""
    return {part: of_runs(study.read(part), printed) for part, printed in PRINTED.items()}


def of_runs(swept: Swept, printed: float) -> TwoNetworks:
    """A pair from its runs, :func:`crossover_study.pair`; ``printed``: the budget of Table I."""
    at = sorted(e for e in swept[SIMPLE] if math.isfinite(e))

    def matrix(score: str) -> tuple[np.ndarray, np.ndarray]:
        return tuple(np.stack([accuracies(swept[n][e], score) for e in at], axis=1) for n in (SIMPLE, COMPLEX))

    test = matrix("test")
    crossing = crossover.estimate(at, *test, rng=np.random.default_rng(0))
    later = _later_gaps(100 * (test[0] - test[1]) / test[1], np.array(at) <= crossing.value)
    return TwoNetworks(
        curves={
            name: plotting.bands("epsilon", at, plotting.means(accuracies_.T))
            for name, accuracies_ in zip((SIMPLE, COMPLEX), test, strict=True)
        },
        **at_print(swept, printed),
        crossing=(crossing.value, crossing.low, crossing.high),
        shown=str(crossing),
        leads=tuple(crossover.significant_signs(*test).tolist()),
        later_larger=1 in later,
        first_largest=bool(later) and set(later) == {-1},
        runs=Runs(test, matrix("validation"), tuple(accuracies(swept[n][math.inf], "test") for n in (SIMPLE, COMPLEX))),
    )


def at_print(swept: Swept, printed: float) -> dict[str, Any]:
    """Accuracies with SGD and at the printed budget, and what :class:`TwoNetworks` says of their differences."""
    sgd, dp = ([accuracies(swept[name][e], "test") for name in (SIMPLE, COMPLEX)] for e in (math.inf, printed))
    return {
        "sgd": tuple(map(stats.mean_interval, sgd)),
        "dp": tuple(map(stats.mean_interval, dp)),
        "dp_gap": stats.mean_interval(dp[0] - dp[1]),
        "sgd_gap": stats.mean_interval(sgd[0] - sgd[1]),
        "cost_gap": stats.mean_interval((dp[0] - dp[1]) - (sgd[0] - sgd[1])),
    }


def _later_gaps(relative: np.ndarray, below: np.ndarray) -> list[int]:
    """Signs of the relative lead at each later budget below the crossing, less that at the smallest, by Holm."""
    if not below[0] or below.sum() < 2:
        return []
    first, *later = relative[:, below].T
    comparisons = [stats.paired(gap, first) for gap in later]
    clear = stats.holm(np.array([comparison.p_value for comparison in comparisons])) < 0.05
    return [int(yes * np.sign(comparison.difference.value)) for comparison, yes in zip(comparisons, clear, strict=True)]


def at(curves: Curves, name: str, epsilon: float) -> Measured:
    """A curve's mean and 95% interval at one of its budgets, five seeds."""
    row = curves[name].set_index("epsilon").loc[epsilon]
    return Measured(float(row["mean"]), float(row["low"]), float(row["high"]), n=5)


# --- rows on pairs ----------------------------------------------------------------------------------------------------


def of_pairs(pairs: Mapping[str, TwoNetworks]) -> Values:
    """The rows on pairs of networks; ``found`` of :func:`pairs`."""
    sets = {name: pairs[part] for name, part in PAPERS.items()}
    every, papers = list(pairs.values()), [pairs[part] for part in pairs if part != "location"]
    ratio = {name: _ratio(name) for name in ("mnist", "fashion-mnist", "cifar10", "purchase100")}
    ordered = {"small_then_large": sum(p.order > 0 for p in sets.values())}
    ordered["contrary"] = sum(p.order < 0 for p in sets.values())
    shown = {f"crossover_{name}": p.shown for name, p in sets.items()}
    where = [_around(p.crossing) for p in sets.values()]
    jpeg, changes = pairs["jpeg"], [crossover.sign_changes(p.leads) for p in every]
    # What these shorter trainings, in larger batches, say of the two networks; the text of the figure cites it.
    gaps = {
        **{f"gap_{name}": p.dp_gap for name, p in sets.items()},
        "gap_mnist_400_steps": pairs["mnist"].dp_gap,
        **{
            f"gap_mnist_at_{e:g}": stats.mean_interval(np.subtract(*sets["mnist"].runs.test)[:, i])
            for i, e in enumerate(sets["mnist"].epsilons)
            if e <= 10
        },
        "gap_location": pairs["location"].dp_gap,
        **{f"sgd_gap_{name}": p.sgd_gap for name, p in sets.items()},
        **{f"cost_{name}": p.cost_gap for name, p in sets.items()},
    }
    return {
        "B.intro-cifar-fcn": {
            "parameter_ratio": ratio["cifar10"],
            "dp_gain_points": jpeg.dp_gap,
            "sgd_loss_points": _negative(jpeg.sgd_gap),
        },
        "B.largest-gap": {"largest_parameter_ratio": max(ratio.values())},
        "B.fig7": {**ordered, **shown, "crossover_mnist_400_steps": pairs["mnist"].shown, **gaps},
        "B.crossover-1e4": {"around_1e4": where.count(1), "elsewhere": where.count(-1), **ordered, **shown},
        "B.fig2": {
            "small_then_large": sum(p.order > 0 for p in papers),
            "contrary": sum(p.order < 0 for p in papers),
            "trainings": len(papers),
        },
        "B.single-crossing": {
            "crossing_once": sum(n == 1 for n in changes),
            "crossing_several_times": sum(n > 1 for n in changes),
            "trainings": len(every),
        },
        "B.gap-not-monotone": {
            "later_larger": sum(p.later_larger for p in every),
            "first_largest": sum(p.first_largest for p in every),
            "trainings": len(every),
        },
        "B.ratio-not-predictive": predicted(),
    }


def _ratio(name: str) -> float:
    """Parameters of the STW network over those of the PAW one, counted in the built networks."""
    stw, paw = (parameter_count(printed.ARCHITECTURES[f"fcn-{name}-{kind}"].make()) for kind in ("stw", "paw"))
    return stw / paw


def _negative(interval: Measured) -> Measured:
    return Measured(-interval.value, -interval.high, -interval.low, interval.n)


def _around(crossing: tuple[float, float, float], centre: float = 1e4, factor: float = 10) -> int:
    """1 where the whole interval is within a factor of the centre, -1 where none of it is, else 0."""
    _, low, high = crossing
    if low >= centre / factor and high <= centre * factor:
        return 1
    return -1 if low > centre * factor or high < centre / factor else 0


def of_seeds(pairs: Mapping[str, TwoNetworks]) -> Values:
    """The rows that need single runs."""
    runs_by_part = {part: pair.runs for part, pair in pairs.items()}
    cheaper, gains = [], {"simple": [], "complex": []}
    for part, runs_ in runs_by_part.items():
        (simple, complex_), (sgd, sgd_complex) = runs_.test, (accuracy[:, None] for accuracy in runs_.sgd)
        cheaper.append((sgd - simple < sgd_complex - complex_) & (simple <= complex_))
        for name, always in zip(gains, runs_.test, strict=True):
            gains[name].append(_rule(pairs[part].epsilons, runs_) - always)
    return {
        "B.eq4": {
            "comparisons": sum(wins.size for wins in cheaper),
            "cheaper_but_not_better": int(sum(wins.sum() for wins in cheaper)),
        },
        "B.crossover-rule": {
            **{
                f"rule_less_always_{name}": stats.mean_interval(np.concatenate(by_part, axis=1).mean(axis=1))
                for name, by_part in gains.items()
            },
            "small_then_large": sum(pairs[part].order > 0 for part in runs_by_part),
            "contrary": sum(pairs[part].order < 0 for part in runs_by_part),
            "trainings": len(runs_by_part),
        },
        "B.protocol-architecture": {
            f"best_of_three_less_mean_{part}": _optimism(runs_) for part, runs_ in runs_by_part.items()
        },
    }


def _optimism(runs_: Runs) -> float:
    """What the best of three test accuracies adds to their mean, in points, averaged over networks and budgets."""
    cells = np.concatenate([*runs_.test, *(accuracy[:, None] for accuracy in runs_.sgd)], axis=1)
    return float(np.mean([best_of(column) - column.mean() for column in cells.T]))


def _rule(epsilons: Sequence[float], runs_: Runs) -> np.ndarray:
    """Test accuracies (seeds, budgets) of "simple up to the crossing", the crossing estimated on validation data."""
    crossing = crossover.estimate(epsilons, *runs_.validation, rng=np.random.default_rng(0), resamples=100).value
    return np.where(np.asarray(epsilons) <= crossing, *runs_.test)


def predicted() -> dict[str, Any]:
    """Whether the ratio of parameters predicts the gap of a printed pair of Table I that is left out, in points."""
    printed_ones = claims.printed_rows("B.table1")
    rows = [row for row in printed_ones.values() if "gap_dpsgd" in row]
    other = [row["parameters"] for name, row in printed_ones.items() if name.endswith("-stw")]
    ratio = np.log([stw / row["parameters"] for stw, row in zip(other, rows, strict=True)])
    gap = np.array([row["gap_dpsgd"] for row in rows])
    by_ratio, by_mean = [], []
    for k in range(len(gap)):
        rest = np.arange(len(gap)) != k
        line = np.polyfit(ratio[rest], gap[rest], 1)
        by_ratio.append(abs(np.polyval(line, ratio[k]) - gap[k]))
        by_mean.append(abs(gap[rest].mean() - gap[k]))
    return {
        "error_by_ratio_less_error_by_mean": stats.paired(np.array(by_ratio), np.array(by_mean)).difference,
        "error_by_ratio": float(np.mean(by_ratio)),
        "error_by_mean": float(np.mean(by_mean)),
        "rank_correlation": float(spearmanr(ratio, gap).statistic),
    }


def table_1(study: Plan, pairs: Mapping[str, TwoNetworks]) -> Values:
    """Cells of Table I: accuracies, gaps beside the simple network, and how many of the two accuracies agree.

    In the paper's own training where the study has it, as plan "paper" does for all eight pairs, else in ours.
    """
    rows: Values = {}
    ours = {"fcn-mnist": "longer", "fcn-fashion-mnist": "fashion", "fcn-cifar10": "jpeg"}
    for name, part in AS_PRINTED.items():
        settled = part in study.parts
        if settled:
            measured = at_print(study.read(part), claims.get(f"B.table1.{name}-paw").published["epsilon"])
        elif name in ours:
            measured = vars(pairs[ours[name]])
        else:
            continue
        for k, kind in enumerate(("paw", "stw")):
            row = f"B.table1.{name}-{kind}"
            levels = {"acc_dpsgd": measured["dp"][k], "acc_sgd": measured["sgd"][k]}
            gaps = {"gap_dpsgd": measured["dp_gap"], "gap_sgd": measured["sgd_gap"]} if kind == "paw" else {}
            same_data = settled or name != "fcn-cifar10"  # ours are JPEG copies
            rows[row] = levels | gaps | cells(row, levels, agree=same_data, settled=settled)
    return rows


def cells(row: str, measured: Mapping[str, Measured], *, agree: bool = True, settled: bool = False) -> dict[str, int]:
    """How many accuracies agree with print, and how many differ; the others are open.

    One agrees where its whole interval is within :data:`AGREES` of the printed value, on the same data (``agree``); it
    differs where the interval is outside, in the paper's own training (``settled``): another length may explain it.
    """
    near = [_place(interval, claims.get(row).published[name]) for name, interval in measured.items()]
    return {"cells_that_agree": near.count(1) * agree, "cells_that_differ": near.count(-1) * settled}


def _place(measured: Measured, published: float) -> int:
    least, most = published - AGREES, published + AGREES
    if least <= measured.low and measured.high <= most:
        return 1
    return -1 if measured.low > most or measured.high < least else 0


def definition(crossover: float, epsilons: Sequence[float], simple: np.ndarray, complex_: np.ndarray) -> float:
    """The largest loss, in points, of "simple up to the crossover" where accuracies (k,) are known exactly."""
    chosen = np.where(np.asarray(epsilons) <= crossover, simple, complex_)
    return float(100 * (np.maximum(simple, complex_) - chosen).max())


def yours(results: Mapping[str, Sequence[Result]]) -> dict[str, Measured | str]:
    """What a reader's own runs say: both accuracies and a constant's, the gap in points, and which network to use."""
    simple, two = (accuracies(results[name], "test") for name in (SIMPLE, COMPLEX))
    gap = stats.paired(simple, two).difference
    means = {
        "accuracy_simple": stats.mean_interval(simple).within(0, 100),
        "accuracy_complex": stats.mean_interval(two).within(0, 100),
    }
    constant = 100 * results[SIMPLE][0]["constant"]
    if max(mean.low for mean in means.values()) <= constant:
        use = "neither: no network is surely above a constant prediction"
    elif gap.low is None or gap.low <= 0 <= gap.high:
        use = "the simple one: no difference beyond chance, and it costs less"
    else:
        use = "the simple one" if gap.low > 0 else "the complex one"
    return {**means, "constant_prediction": constant, "simple_less_complex": gap.within(-100, 100), "use": use}


def best_of(values: np.ndarray, k: int = 3) -> float:
    """Expected maximum of ``k`` runs drawn without replacement from ``values`` (n,): what best-of-k reports.

    Raises ParameterError for fewer than k values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if len(ordered) < k:
        raise ParameterError(f"{len(ordered)} runs are too few for the best of {k}.")
    # The i-th smallest (from 0) is the maximum of the k drawn with probability C(i, k-1) / C(n, k).
    weights = np.array([math.comb(i, k - 1) for i in range(len(ordered))]) / math.comb(len(ordered), k)
    return float(weights @ ordered)
