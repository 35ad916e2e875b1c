"""From kept runs of annealed DP-SGD to rows of paper D: Tables 1 and 3, and what the text says of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from book.evidence import claims
from book.evidence.runs import Result
from dplib import annealing, models, stats
from dplib.stats import Measured
from papers.common.diverged import accuracies
from papers.screening import account_rows
from papers.screening import annealed_settings as setup
from papers.screening.annealed_value_rows import DELTA, Trained, epsilon, gain, mean, nearest, share, spent, steps_to

OTHERS = ("dpsgd", "dpsgd_tanh", "dpsgd_auto_s")
# Table 3 prints the smallest epsilon for each of these accuracies, in percent.
TARGETS = {"mnist": (94, 96, 98), "fashion-mnist": (82, 84, 86)}
ROWS = [
    f"{name}-{target / 100:.2f}"
    for name, targets in [*TARGETS.items(), ("cifar10", (52, 55, 58))]
    for target in targets
]


def every(trained: Trained, free: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Values by claim.

    Args:
        trained, free: the parts "table_1" and "non_private" of :mod:`papers.screening.annealed_runs`.
    """
    ours = {_key(name): arms["ours"] for name, arms in trained.items()}
    lowering = {f"accepted_that_lower_j_percent_{key}": share(map(_lowering, runs)) for key, runs in ours.items()}
    rows = {
        f"D.table1.{name}": {
            arm: mean(accuracies(runs)) for arm, runs in {**arms, "non_dp": free[name]["results"]}.items()
        }
        for name, arms in trained.items()
    }
    costs = gaps(trained, free)
    for name, targets in TARGETS.items():
        rows |= {f"D.table3.{name}-{target / 100:.2f}": budgets(trained[name], target) for target in targets}
    return rows | {
        "D.s-baselines": baselines(trained),
        "D.s-gap-to-nonprivate": costs,
        "D.s-utility-loss": {
            name: gap for name, gap in costs.items() if name.startswith("gap_") and "_ours_" not in name
        },
        "D.s-lower-cost-always": cheaper(trained),
        "D.s-gap-grows-with-cost": growth(trained),
        "D.s-always-accept-better": {
            "queries_against_the_rule": sum(r["chance"]["contradictions"] for runs in ours.values() for r in runs),
            **lowering,
        },
        "D.s-right-direction": lowering,
    }


def readings(by_reading: Mapping[str, Sequence[Result]], epsilon: float) -> dict[str, dict[str, Any]]:
    """Values of the claims on two parts of Algorithm 2, from runs "as printed", with "no limit" and "greedy" (no rise
    passes by chance) at ``epsilon``, paired by seed; a run that its cap on queries ended has stopped.
    """
    printed, endless = by_reading["as printed"], by_reading["no limit"]
    due = max(result["accepted"] for result in printed)
    return {
        "D.s-rejection-limit": {
            "queries_against_the_rule": sum(result["chance"]["contradictions"] for result in printed),
            "stopped_without_limit": sum(result["accepted"] < due for result in endless),
            "runs": len(endless),
            "most_queries_without_limit": max(result["queries"] for result in endless),
            "accepted": due,
            "epsilon": epsilon,
            "limit_less_no_limit": less(printed, endless),
        },
        "D.s-chance-acceptance": {"printed_less_greedy": less(printed, by_reading["greedy"]), "epsilon": epsilon},
    }


def less(results: Sequence[Result], others: Sequence[Result]) -> Measured:
    """Accuracy of some runs less that of others, in points, paired over the seeds that both have."""
    return mean(a - b for a, b in zip(accuracies(results), accuracies(others), strict=False))


def _key(name: str) -> str:
    return name.replace("-", "_")


def _lowering(run: Result) -> float:
    """Of a run's accepted updates, those that do not raise J, in percent; every refused one raises it."""
    count = {name: sum(tenths) for name, tenths in run["tenths"].items()}
    return 100 * (count["queries"] - count["rises"]) / (count["queries"] - count["rejected"])


def baselines(trained: Trained) -> dict[str, Measured]:
    """AUTO-S less the two other plain schemes, in points, paired by seed."""
    return {
        f"auto_s_less_{other}_{_key(name)}": gain(arms["dpsgd_auto_s"], arms[other])
        for name, arms in trained.items()
        for other in ("dpsgd", "dpsgd_tanh")
    }


def gaps(trained: Trained, free: Mapping[str, Mapping[str, Any]]) -> dict[str, Measured]:
    """Accuracy without privacy less that of each scheme, and by how much the method narrows the smallest other gap."""
    gaps_ = {}
    for name, arms in trained.items():
        for arm, runs in arms.items():
            gaps_[f"gap_{arm}_{_key(name)}"] = less(free[name]["results"], runs)
        lead = nearest({name: arms})
        gaps_[f"narrower_{_key(name)}"] = lead[f"gain_{_key(name)}"]
        gaps_[f"narrower_equal_queries_{_key(name)}"] = lead[f"gain_equal_queries_{_key(name)}"]
    return gaps_


def reached(run: Result, target: float, count: str = "accepted") -> float:
    """The epsilon at which a run's accuracy first reaches ``target`` percent, by the paper's formula; nan: never."""
    steps = steps_to(run, target, count)
    return math.nan if math.isinf(steps) else epsilon(run, round(steps))


def budgets(arms: Mapping[str, Sequence[Result]], target: float) -> dict[str, Measured | int]:
    """A row of Table 3: mean epsilon of each scheme at which its runs reach ``target`` percent.

    A scheme of which a run does not reach it has no number, but how many of its runs do.
    """
    epsilons: dict[str, Measured | int] = {}
    for arm, runs in arms.items():
        at = np.array([reached(run, target) for run in runs])
        epsilons[f"eps_{arm}"] = mean([] if np.isnan(at).any() else at)
        epsilons[f"reached_{arm}"] = int((~np.isnan(at)).sum())
    return epsilons


def savings(arms: Mapping[str, Sequence[Result]], other: str, target: float, count: str = "accepted") -> np.ndarray:
    """Epsilon of another scheme less that of the annealed one at a target, by seed, (seeds,).

    A run of the other scheme that falls short counts as reaching the target at its end: the saving is at least this.
    Seeds in which the annealed run falls short are nan. Seeds are those that both schemes have.
    """
    seeds = min(len(arms[other]), len(arms["ours"]))
    end = [epsilon(run, run["queries"]) for run in arms[other][:seeds]]
    theirs = np.array([reached(run, target) for run in arms[other][:seeds]])
    ours = np.array([reached(run, target, count) for run in arms["ours"][:seeds]])
    return np.where(np.isnan(theirs), end, theirs) - ours


def cheaper(trained: Trained) -> dict[str, Measured | int]:
    """The smallest mean saving over targets and schemes, its interval by Bonferroni over all of them.

    By the paper's count, and with every noisy gradient charged ("least_saving_queries"); "compared": pairs of a target
    and a scheme in which every annealed run reaches the target by the paper's count.
    """
    rates: dict[str, Measured | int] = {}
    for count, name in (("queries", "least_saving_queries"), ("accepted", "least_saving")):
        every = [
            savings(arms, other, target, count)
            for data, arms in trained.items()
            for target in TARGETS.get(data, ())
            for other in OTHERS
        ]
        whole = [budgets_ for budgets_ in every if not np.isnan(budgets_).any()]
        rates[name] = stats.mean_interval(min(whole, key=np.mean), level=1 - 0.05 / len(whole))
    return {**rates, "compared": len(whole)}


def growth(trained: Trained) -> dict[str, Measured]:
    """Saving over AUTO-S at the highest target that all annealed runs reach, less that at the lowest; paired."""
    growths = {}
    for data, arms in trained.items():
        at = {target: savings(arms, "dpsgd_auto_s", target) for target in TARGETS.get(data, ())}
        whole = [budgets_ for budgets_ in at.values() if not np.isnan(budgets_).any()]
        growths[f"growth_{_key(data)}"] = stats.mean_interval(whole[-1] - whole[0])
    return growths


def printed_rises(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Table 3 as printed: by data set the least change of the saving over AUTO-S from one target to the next.

    Args:
        rows: published values by the end of the row's id, such as "mnist-0.94".
    """
    rises: dict[str, list[float]] = {}
    for row, row_ in rows.items():
        rises.setdefault(_key(row.rpartition("-")[0]), []).append(row_["eps_dpsgd_auto_s"] - row_["eps_ours"])
    return {
        f"printed_least_rise_{name}": round(float(np.diff(differences).min()), 2) for name, differences in rises.items()
    }


def printed_targets() -> dict[str, Mapping[str, Any]]:
    """Table 3 as printed: the epsilons of each target, by the end of the row's id, such as "mnist-0.94"."""
    return {row: claims.get(f"D.table3.{row}").published for row in ROWS}


def table_3(trained: Trained, printed: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> pd.DataFrame:
    """Table 3: for each target and scheme the measured epsilon and, in brackets, the printed one.

    Args:
        printed: of :func:`printed_targets`. names: of the schemes, by arm.
    """
    lines = []
    for data, arms in trained.items():
        for target in TARGETS.get(data, ()):
            measured, paper = budgets(arms, target), printed[f"{data}-{target / 100:.2f}"]
            cells = {
                name: f"{measured[f'eps_{arm}']:.2f}"
                if measured[f"reached_{arm}"] == len(arms[arm])
                else f"{measured[f'reached_{arm}']} of {len(arms[arm])} runs"
                for arm, name in names.items()
            }
            cells = {name: f"{cells[name]} ({paper.get(f'eps_{arm}', '–')})" for arm, name in names.items()}
            lines.append({"accuracy": f"{data}, {target}%", **cells})
    return pd.DataFrame(lines)


def settings_and_work(trained: Trained, run: Result) -> dict[str, dict[str, Any]]:
    """Values by claim of the settings of Figure 4, of the work of a kept step, and of what J tells of its own records.

    Args:
        run: an annealed run on MNIST.
    """
    ours = {_key(name): arms["ours"] for name, arms in trained.items()}

    def optimism(runs: Sequence[Result]) -> Measured:
        """Accuracy on the test records that J saw less that on the others, in points."""
        return mean(100 * (r["curve"]["seen"][-1] - r["curve"]["unseen"][-1]) for r in runs)

    return {
        "D.s-setup-figure4": {
            "learning_rate": run["learning_rate"],
            "batch_size": run["batch"],
            "q0": 10.0,
            "mu0": run["rejection_limit"],
            "sigma": run["noise_multiplier"],
            "epsilon": account_rows.EPSILON,
            "delta": DELTA,
        },
        "D.s-time-consuming": {
            f"queries_an_update_{key}": spent(runs)["queries_an_update"] for key, runs in ours.items()
        },
        "D.s-loss-on-which-data": {f"seen_less_unseen_{key}": optimism(runs) for key, runs in ours.items()},
    }


def table_2() -> dict[str, dict[str, float | str]]:
    """Table 2 as our runs have it: {end of the row's id: {data set: value}}."""
    sets = {"mnist": "mnist", "fashion_mnist": "fashion-mnist", "cifar10": "cifar10"}
    names = {
        "learning-rate": "learning_rate",
        "batch-size": "batch",
        "noise-scale": "noise_multiplier",
        "rejection-threshold": "rejection_limit",
    }
    common = {"clipping-norm": setup.MAX_GRAD_NORM, "initial-temperature": 10.0, "privacy-budget": "(3, 1e-5)"}
    chosen = {row: {key: setup.TABLE_2[name][of] for key, name in sets.items()} for row, of in names.items()}
    return chosen | {row: dict.fromkeys(sets, value) for row, value in common.items()}


def network_sizes() -> dict[str, int]:
    """Layers with weights, and parameters, of the networks of MNIST and of CIFAR-10."""
    shapes = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
    nets = {name: setup.network(shape, "tanh", 0) for name, shape in shapes.items()}
    layers = {
        f"layers_{name}": sum(bool(list(part.parameters(recurse=False))) for part in net.modules())
        for name, net in nets.items()
    }
    return layers | {f"parameters_{name}": models.parameter_count(net) for name, net in nets.items()}


def leaves_a_valley(start: float, seeds: int = 40) -> np.ndarray:
    """In which of some walks, (seeds,), Algorithm 1, from a poor minimum at 0, ends in the best one, -1, at 20.

    Args:
        start: the temperature at the start, above 0.
    """

    def height(place: int) -> float:
        return min(abs(place) * 0.2, abs(place - 20) * 0.2 - 1.0)

    def step(place: int, rng: np.random.Generator) -> int:
        return place + int(rng.choice([-1, 1]))

    cooling = {"temperature": start, "cooling": 0.998, "rounds": 3000}
    ends = [
        annealing.simulated_annealing(height, 0, step, np.random.default_rng(seed), **cooling)[-1]
        for seed in range(seeds)
    ]
    return np.array(ends) == 20
