"""Grids of trainings for the chapter on what drives the cost, each cell with its own learning rate, and their results.

A cell is a job of :func:`dplib.architecture.cost_jobs.train` without seed and rate. The rate of each cell is chosen on
validation data with seeds that no reported run uses; that choice is not in any epsilon.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import stats, study
from dplib.architecture import cost_jobs, cost_tasks
from dplib.checks import ParameterError

TUNING_SEED = 1000
SGD, CLIPPED = "SGD", "clipped SGD"
Budget = float | str
Key = Hashable


def cell(dataset: str, model: cost_jobs.Model, budget: Budget, **settings: Any) -> dict[str, Any]:
    """A cell: a budget is an epsilon, SGD (neither clipping nor noise), or CLIPPED (clipping to norm 1, no noise)."""
    job = {"dataset": dataset, "model": model, "epsilon": None, **settings}
    if budget == SGD:
        return {**job, "max_grad_norm": None}
    return job if budget == CLIPPED else {**job, "epsilon": budget}


@dataclass(frozen=True)
class Outcome:
    """The reported runs of a cell, one for each seed.

    Attributes:
        job: the cell. rate: its learning rate. tried: rate to mean score on validation data. at_edge: a better rate
            may lie beyond those tried.
        runs: what :func:`dplib.architecture.cost_jobs.train` returned, in the order of the seeds.
        cpu_seconds: of these and the tuning runs.
    """

    job: dict[str, Any]
    rate: float
    tried: dict[float, float]
    at_edge: bool
    runs: list[dict[str, Any]]
    cpu_seconds: float

    def values(self, what: str = "test") -> np.ndarray:
        """One number for each seed, (seeds,): accuracies in percent, errors as they are.

        Where a training diverged its "test" is that of a constant prediction: what its owner would release instead.
        """
        scale = 1.0 if self.job["dataset"] in cost_tasks.PATIENTS else 100.0
        return scale * np.array([run[what] if run[what] is not None else run["constant"] for run in self.runs])

    @property
    def diverged(self) -> int:
        return sum(run["test"] is None for run in self.runs)

    @property
    def mean(self) -> stats.Measured:
        return stats.mean_interval(self.values())

    @property
    def constant(self) -> float:
        """What predicting the most frequent class, or the mean target, gives on the same test part."""
        return float(self.values("constant")[0])

    @property
    def parameters(self) -> int:
        return self.runs[0]["parameters"]

    @property
    def trained(self) -> int:
        return self.runs[0]["trained"]


def measure(
    cells: Mapping[Key, dict[str, Any]],
    rates: Mapping[str, Sequence[float]],
    *,
    seeds: int,
    tuning_seeds: int = 1,
    extensions: int = 2,
    workers: int = 1,
) -> dict[Key, Outcome]:
    """Tune every cell by itself, then train each with seeds 0, 1, ...; equal seeds may be paired.

    Args:
        rates: increasing learning rates to begin with, for "sgd" (no clipping) and "dp" (with clipping).
    """
    inputs = cost_tasks.checksums(*(job["dataset"] for job in cells.values()))
    shared = {"workers": workers, "inputs": inputs}
    chosen = {}
    for kind in ("sgd", "dp"):
        keys = [key for key, job in cells.items() if (job.get("max_grad_norm", 1.0) is None) == (kind == "sgd")]
        found = study.tune(
            cost_jobs.train,
            [{**cells[key], "part": "tuning"} for key in keys],
            rates[kind],
            seeds=[TUNING_SEED + i for i in range(tuning_seeds)],
            score="score",
            extensions=extensions,
            **shared,
        )
        chosen |= dict(zip(keys, found, strict=True))
    # Seeds in the outer loop: runs with the same frozen layers follow each other.
    jobs = {
        (key, seed): {**job, "learning_rate": chosen[key].rate, "seed": seed}
        for seed in range(seeds)
        for key, job in cells.items()
    }
    done = dict(zip(jobs, study.run(cost_jobs.train, list(jobs.values()), **shared), strict=True))
    outcomes = {}
    for key, job in cells.items():
        one, runs = chosen[key], [done[key, seed] for seed in range(seeds)]
        spent = _tuning_seconds(one, tuning_seeds, shared) + sum(run["cpu_seconds"] for run in runs)
        outcomes[key] = Outcome(dict(job), one.rate, one.tried, one.at_edge, runs, spent)
    return outcomes


def fixed(cells: Mapping[Key, dict[str, Any]], *, seeds: int, workers: int = 1) -> dict[Key, Outcome]:
    """Cells that have a ``learning_rate`` already, without tuning."""
    inputs = cost_tasks.checksums(*(job["dataset"] for job in cells.values()))
    jobs = [{**job, "seed": seed} for job in cells.values() for seed in range(seeds)]
    done = iter(study.run(cost_jobs.train, jobs, workers=workers, inputs=inputs))
    outcomes = {}
    for key, job in cells.items():
        runs = [next(done) for _ in range(seeds)]
        seconds = sum(run["cpu_seconds"] for run in runs)
        outcomes[key] = Outcome(dict(job), job["learning_rate"], {}, False, runs, seconds)
    return outcomes


def _tuning_seconds(one: study.Tuned, tuning_seeds: int, shared: Mapping[str, Any]) -> float:
    jobs = [
        {**one.cell, "learning_rate": rate, "seed": TUNING_SEED + i} for rate in one.tried for i in range(tuning_seeds)
    ]
    return sum(run["cpu_seconds"] for run in study.run(cost_jobs.train, jobs, **shared))


def perceptron_parameters(inputs: int, hidden: Sequence[int], outputs: int) -> int:
    """Weights and biases of a fully connected network."""
    sizes = [inputs, *hidden, outputs]
    return sum((a + 1) * b for a, b in itertools.pairwise(sizes))


def partner_width(inputs: int, hidden: Sequence[int], outputs: int) -> int:
    """Width of the single hidden layer that has as nearly as possible the parameters of the given network."""
    return max(1, round((perceptron_parameters(inputs, hidden, outputs) - outputs) / (inputs + outputs + 1)))


def ladder(
    inputs: int, outputs: int, widths: Sequence[int], depths: Sequence[int], units: int, pairs: Sequence[int]
) -> dict[tuple[str, int], list[int]]:
    """Networks of Figure 12: {("width", w): [w], ("depth", l): [units] * l}, and for each of the ``pairs``, which must
    be among the depths, ("width", w) with the same number of parameters.

    One hidden layer of ``units`` stands under ("depth", 1) and, where asked for, under its width: one network.
    """
    if not set(pairs) <= set(depths):
        raise ParameterError(
            f"pair_depths = {list(pairs)} is not allowed: each must be among the depths {list(depths)}."
        )
    wide = [partner_width(inputs, [units] * depth, outputs) for depth in pairs]
    found = {("width", w): [w] for w in sorted({*widths, *wide})}
    return found | {("depth", depth): [units] * depth for depth in depths}


def one_hot(
    dataset: str,
    epsilons: Sequence[float | None],
    *,
    splits: int,
    draws: int,
    variant: str = "sound",
    scaling: str = "public",
    workers: int = 1,
) -> tuple[dict[tuple[str, float | None], np.ndarray], dict[str, Any]]:
    """Accuracies in percent of both encodings of a census, (splits, draws) for each (encoding, epsilon).

    Both encodings have the same splits, so they may be paired by split. Also what all runs share: "constant",
    "cpu_seconds", "spent", the most that a release costs over the epsilon asked for (None: infinitely much).
    """
    keys = [(encoding, epsilon) for encoding in cost_tasks.ENCODINGS for epsilon in epsilons]
    jobs = [
        {"dataset": dataset, "encoding": encoding, "epsilon": epsilon, "draws": draws, "seed": seed, "variant": variant,
         "scaling": scaling}
        for seed in range(splits)
        for encoding, epsilon in keys
    ]  # fmt: skip
    inputs = cost_tasks.checksums(dataset)
    done = iter(study.run(cost_jobs.one_hot, jobs, workers=workers, inputs=inputs, what="one-hot runs"))
    found: dict[tuple[str, float | None], list] = {key: [] for key in keys}
    shared = {"cpu_seconds": 0.0, "constant": [], "features": {}, "converged": 1.0, "spent": 0.0}
    for _ in range(splits):
        for key in keys:
            run = next(done)
            found[key].append(run["accuracies"])
            shared["cpu_seconds"] += run["cpu_seconds"]
            shared["constant"].append(100 * run["constant"])
            shared["features"][key[0]] = run["features"]
            shared["converged"] = min(shared["converged"], run["converged"])
            if key[1] is not None and shared["spent"] is not None:
                shared["spent"] = None if run["spent"] is None else max(shared["spent"], run["spent"] / key[1])
    shared["constant"] = float(np.mean(shared["constant"]))
    return {key: 100 * np.array(rows) for key, rows in found.items()}, shared
