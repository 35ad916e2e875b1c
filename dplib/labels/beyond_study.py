"""The comparisons of chapter 10: settings tuned on validation data, then runs over seeds, all kept on disk.

Every method gets the same effort: the same learning rates are tried at every budget, on seeds of their own, and the
best on validation labels is used. Those labels are true ones; no epsilon here covers that choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import data, study
from dplib.labels import beyond_jobs, beyond_records, prior_jobs
from dplib.stats import Comparison, Measured, mean_interval, paired

TUNING_SEED = 1000  # of the first tuning run


@dataclass(frozen=True, eq=False)
class Compared:
    """Runs of all methods on one data set.

    Attributes:
        epsilons: budgets. test: method to accuracies in per cent, shape (seeds, budgets).
        rates: the chosen learning rates, method to one for each budget. facts: name to shape (seeds, budgets), shares.
        core_seconds: of all runs, tuning included.
    """

    epsilons: tuple[float, ...]
    test: dict[str, np.ndarray]
    rates: dict[str, list[float]]
    facts: dict[str, np.ndarray]
    core_seconds: float

    def mean(self, method: str, epsilon: float) -> Measured:
        """Test accuracy with its 95% interval over the seeds."""
        return mean_interval(self.test[method][:, self.epsilons.index(epsilon)])

    def gain(self, method: str, over: str, epsilon: float) -> Comparison:
        """Paired difference of test accuracies, in points."""
        i = self.epsilons.index(epsilon)
        return paired(self.test[method][:, i], self.test[over][:, i])

    def fact(self, name: str, epsilon: float) -> float:
        """Mean share over the seeds."""
        return float(self.facts[name][:, self.epsilons.index(epsilon)].mean())


def inputs(dataset: str) -> dict[str, str]:
    """What :func:`dplib.study.run` keys a data set's runs by, besides the job and the source."""
    return {dataset: data.load(dataset).checksum}


def compared(
    settings: Mapping[str, Any],
    epsilons: Sequence[float],
    methods: Sequence[str],
    rates: Sequence[float],
    seeds: Sequence[int],
    tuning_seeds: int,
) -> Compared:
    """Tune each method's learning rate at each budget, then run all seeds.

    Args:
        settings: the other arguments of :func:`dplib.labels.beyond_jobs.compare`.
        rates: to try. tuning_seeds: how many, other than ``seeds``.
    """
    fixed = dict(settings) | {"epsilons": list(epsilons), "methods": list(methods)}
    keyed = inputs(settings["dataset"])
    trials = [fixed | {"rates": float(rate), "seed": TUNING_SEED + s} for rate in rates for s in range(tuning_seeds)]
    trials = trials if len(rates) > 1 else []
    tried = study.run(beyond_jobs.compare, trials, inputs=keyed, what="tuning runs")
    chosen = {method: [float(rates[0])] * len(epsilons) for method in methods}
    for method in methods if tried else ():
        scores = np.array([one["validation"][method] for one in tried]).reshape(len(rates), tuning_seeds, -1)
        chosen[method] = [float(rates[i]) for i in scores.mean(axis=1).argmax(axis=0)]
    jobs = [fixed | {"rates": chosen, "seed": seed} for seed in seeds]
    runs = study.run(beyond_jobs.compare, jobs, inputs=keyed)
    return Compared(
        tuple(epsilons),
        {method: 100 * np.array([run["test"][method] for run in runs]) for method in methods},
        chosen,
        {name: np.array([run["facts"][name] for run in runs], dtype=float) for name in runs[0]["facts"]},
        sum(one["cpu_seconds"] for one in [*tried, *runs]),
    )


def private_sgd(
    settings: Mapping[str, Any], epsilons: Sequence[float], rates: Sequence[float], seeds: Sequence[int]
) -> Compared:
    """DP-SGD: the learning rate of each budget tuned on one seed, then run on all seeds.

    Args:
        settings: the other arguments of :func:`dplib.labels.beyond_records.private_sgd`. rates: to try.
    """
    keyed = inputs(settings["dataset"])
    pairs = [[epsilon, rate] for epsilon in epsilons for rate in rates]
    (tried,) = study.run(
        beyond_records.private_sgd, [dict(settings) | {"pairs": pairs, "seed": TUNING_SEED}], inputs=keyed
    )
    best = np.array(tried["validation"]).reshape(len(epsilons), -1).argmax(axis=1)
    chosen = [[epsilon, rates[i]] for epsilon, i in zip(epsilons, best, strict=True)]
    jobs = [dict(settings) | {"pairs": chosen, "seed": seed} for seed in seeds]
    runs = study.run(beyond_records.private_sgd, jobs, inputs=keyed)
    return Compared(
        tuple(epsilons),
        {"dp-sgd": 100 * np.array([run["test"] for run in runs])},
        {"dp-sgd": [rate for _, rate in chosen]},
        {},
        sum(one["cpu_seconds"] for one in [tried, *runs]),
    )


@dataclass(frozen=True, eq=False)
class Votes:
    """Figure 2 on one data set.

    Attributes:
        counts: numbers of clusters. epsilons: budgets of the histograms.
        totals: whole budgets, of which the histograms get a share.
        accuracy: per cent, shape (counts, seeds, budgets). exact: without noise, shape (counts, seeds).
        right: per cent of answers that are true labels, shape (counts, seeds, totals, budgets); nan where the share
            exceeds the whole. plain: the same of randomised response, shape (totals,).
    """

    counts: tuple[int, ...]
    epsilons: tuple[float, ...]
    totals: tuple[float, ...]
    accuracy: np.ndarray
    exact: np.ndarray
    right: np.ndarray
    plain: np.ndarray
    core_seconds: float

    def best(self, epsilon: float) -> int:
        """The number of clusters with the highest mean accuracy at this budget."""
        return self.counts[int(self.accuracy[:, :, self.epsilons.index(epsilon)].mean(axis=1).argmax())]


def votes(
    settings: Mapping[str, Any],
    counts: Sequence[int],
    epsilons: Sequence[float],
    totals: Sequence[float],
    seeds: Sequence[int],
) -> Votes:
    """The vote's accuracy over budgets and numbers of clusters.

    Args:
        settings: the other arguments of :func:`dplib.labels.prior_jobs.votes`.
    """
    jobs = [
        dict(settings) | {"group_count": count, "epsilons": list(epsilons), "totals": list(totals), "seed": seed}
        for count in counts
        for seed in seeds
    ]
    runs = study.run(prior_jobs.votes, jobs, inputs=inputs(settings["dataset"]), what="clusterings")
    shape = (len(counts), len(seeds))
    return Votes(
        tuple(counts),
        tuple(epsilons),
        tuple(totals),
        100 * np.array([run["accuracy"] for run in runs]).reshape(*shape, -1),
        100 * np.array([run["exact"] for run in runs]).reshape(shape),
        100 * np.array([run["right"] for run in runs], dtype=float).reshape(*shape, len(totals), -1),
        100 * np.array(runs[0]["plain"]),
        sum(run["cpu_seconds"] for run in runs),
    )


def attacks(settings: Mapping[str, Any], seeds: Sequence[int]) -> tuple[dict[str, np.ndarray], float]:
    """The membership attack over seeds: name to shape (seeds, budgets) or (seeds,), and the seconds of all runs."""
    jobs = [dict(settings) | {"seed": seed} for seed in seeds]
    runs = study.run(beyond_records.membership, jobs, inputs=inputs(settings["dataset"]), what="attacks")
    took = sum(run["cpu_seconds"] for run in runs)
    names = ("label", "record", "test", "memory", "clean", "stored")
    return {name: np.array([run[name] for run in runs]) for name in names}, took
