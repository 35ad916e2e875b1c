"""The runs behind the chapter on architecture search: learning rates, trainers, and the searches over several seeds."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dplib import study
from dplib.architecture import search_jobs
from dplib.architecture.search import Found, Network, multi_generation, paas, randomised
from dplib.architecture.space import Space, job, key, rate_cell

Result = dict[str, Any]


@dataclass(frozen=True)
class Lab:
    """What all trainings of a chapter share.

    Attributes:
        common: arguments of :func:`dplib.architecture.search_jobs.train` of every training: data set, features, batch,
            dropout.
        inputs, workers: of :func:`dplib.study.run`.
        spent: CPU seconds of each training behind the page, by its job, whenever it was made.
    """

    common: Mapping[str, Any]
    inputs: Mapping[str, str]
    workers: int = 1
    spent: dict[str, float] = field(default_factory=dict)

    def run(self, jobs: Sequence[Mapping[str, Any]], what: str = "trainings") -> list[Result]:
        """The results of jobs, each with what :attr:`common` has and it has not."""
        jobs = [{**self.common, **one} for one in jobs]
        results = study.run(search_jobs.train, jobs, workers=self.workers, inputs=self.inputs, what=what)
        self.spent.update({repr(sorted(one.items())): r["cpu_seconds"] for one, r in zip(jobs, results, strict=True)})
        return results

    @property
    def cpu_seconds(self) -> float:
        return sum(self.spent.values())


@dataclass(frozen=True)
class Trainer:
    """Trains candidates with one optimiser, on one split: what a search calls (:mod:`dplib.architecture.search`).

    Attributes:
        how: arguments of the optimiser: steps, epsilon or noise_multiplier, max_grad_norm, momentum.
        rates: kind of network (:func:`dplib.architecture.space.rate_cell`) to learning rate.
        split_seed: of the records; equal ones share the trainings of equal networks.
    """

    lab: Lab
    how: Mapping[str, Any]
    rates: Mapping[str, float]
    split_seed: int

    def __call__(self, asked: Sequence[tuple[Network, int]]) -> list[Result]:
        """Results of (network, repeat): repeat 0, 1, ... are independent trainings of the same network."""
        return self.lab.run(
            [
                job(network, self.rates, **self.how, split_seed=self.split_seed, seed=training_seed(network, repeat))
                for network, repeat in asked
            ]
        )

    def fresh(self, network: Network, count: int) -> list[Result]:
        """Trainings of one network that no search has seen."""
        return self([(network, FRESH + repeat) for repeat in range(count)])


TUNING_SPLIT = 1000
FRESH = 1000  # repeats from here on are for reports


def training_seed(network: Network, repeat: int) -> int:
    """The seed of a training: other networks and other repeats have other ones."""
    return int.from_bytes(hashlib.sha256(f"{key(network)}/{repeat}".encode()).digest()[:4], "big")


# --- learning rates --------------------------------------------------------------------------------------------------


def representatives(units: Sequence[int], depth: int) -> dict[str, Network]:
    """One network for each kind that shares a learning rate: its first layers are sigmoids, the others ReLU.

    Args:
        units: of the hidden layers of the deepest. depth: the most hidden layers.
    """
    found = {}
    for layers in range(1, depth + 1):
        for sigmoids in range(layers + 1):
            network = {
                "model": list(units[:layers]),
                "activation": ["sigmoid"] * sigmoids + ["relu"] * (layers - sigmoids),
            }
            found[rate_cell(network)] = network
    return found


def tune(
    lab: Lab, how: Mapping[str, Any], units: Sequence[int], rates: Sequence[float], seeds: int, extensions: int = 2
) -> dict[str, study.Tuned]:
    """The best learning rate of every kind of perceptron for one optimiser, on records that no report uses."""
    kinds = representatives(units, len(units))
    cells = [{**lab.common, **how, **network, "part": "tune", "split_seed": TUNING_SPLIT} for network in kinds.values()]
    tuned = study.tune(
        search_jobs.train,
        cells,
        rates,
        seeds=range(1000, 1000 + seeds),
        extensions=extensions,
        workers=lab.workers,
        inputs=lab.inputs,
    )
    return dict(zip(kinds, tuned, strict=True))


def with_frozen(rates: Mapping[str, float], depth: int) -> dict[str, float]:
    """Rates for networks with frozen layers: those of the network that has none frozen."""
    frozen = {f"{cell}, {n} frozen": rate for cell, rate in rates.items() for n in range(1, depth + 1)}
    return {**rates, **frozen}


# --- the searches ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """How large the three searches are; ``noise_scale`` is that of PAAS's Laplace noise."""

    generations: int
    population: int
    k: int
    mgrs: Sequence[int]
    p_mutate: float
    noise_scale: float


def searches(space: Space, trainer: Trainer, sizes: Sizes, seed: int) -> dict[str, Found]:
    """PAAS, RS and MGRS on one split. Equal seeds begin with equal draws, and equal networks share their training."""
    return {
        "paas": search_paas(space, trainer, sizes, seed),
        "rs": randomised(space, trainer, k=sizes.k, rng=search_rng(trainer, seed)),
        "mgrs": multi_generation(
            space, trainer, sizes=sizes.mgrs, p_mutate=sizes.p_mutate, rng=search_rng(trainer, seed)
        ),
    }


def search_paas(space: Space, trainer: Trainer, sizes: Sizes, seed: int) -> Found:
    """PAAS as :func:`searches` runs it."""
    return paas(
        space,
        trainer,
        generations=sizes.generations,
        population=sizes.population,
        noise_scale=sizes.noise_scale,
        rng=search_rng(trainer, seed),
    )


def search_rng(trainer: Trainer, seed: int) -> np.random.Generator:
    """The generator of a search: decided by its split and by the chapter's seed."""
    return np.random.default_rng([trainer.split_seed, seed])


def scores(results: Sequence[Mapping[str, Any]], what: str = "test") -> np.ndarray:
    """Accuracies (n,) in per cent; a training that diverged counts as 0."""
    return 100 * np.array([r[what] if r[what] is not None else 0.0 for r in results])


def outcome(found: Found, report: Trainer, count: int) -> Result:
    """What a search is worth: its winner's own training, and fresh trainings of the winning network.

    Args:
        report: trains the winner for the report. count: of such trainings.

    Returns:
        Accuracies in per cent: "chosen" (validation accuracy of the winner's training), "score" (the same with the
        search's noise: by which it won), "own" (its test accuracy), "fresh" and "fresh_validation" (means of the fresh
        trainings), "clean_pick" (:func:`clean_pick`); "network", "parameters", "trainings" and "cpu_seconds".
    """
    winner = found.winner
    fresh = report.fresh(winner.network, count)
    return {
        "network": key(winner.network),
        "chosen": 100 * winner.validation,
        "score": 100 * winner.fitness,
        "own": float(scores([winner.result])[0]),
        "fresh": float(scores(fresh).mean()),
        "fresh_validation": float(scores(fresh, "validation").mean()),
        "clean_pick": clean_pick(found),
        "parameters": fresh[0]["parameters"],
        "trained": fresh[0]["trained"],
        "trainings": found.trainings,
        "cpu_seconds": found.trace[-1].cpu_seconds,
    }


def clean_pick(found: Found) -> float:
    """Test accuracy in per cent of the network with the best noiseless score among all that a search trained."""
    best = max(found.trace, key=lambda candidate: candidate.validation)
    return float(scores([best.result])[0])


def averaged(rows: Sequence[Result]) -> Result:
    """Outcomes of several searches on one split as one: means of accuracies and costs, the first one's network."""
    kept = ("network", "parameters", "trained")
    return {name: value if name in kept else float(np.mean([r[name] for r in rows])) for name, value in rows[0].items()}


def trace_rows(found: Found) -> list[list[Any]]:
    """A trace as plain rows: generation, network, fitness %, validation %, trained anew, trainings, CPU seconds."""
    return [
        [c.generation, key(c.network), 100 * c.fitness, 100 * c.validation, c.new, c.trainings, c.cpu_seconds]
        for c in found.trace
    ]
