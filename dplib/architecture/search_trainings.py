"""Trainings of candidates as kept runs: the trainer that a search calls, learning rates, and what a winner is worth.

Works on ``get`` of a part of a plan (:func:`dplib.runs.read`, or what makes the runs), so that each generation of a
search is a wave of runs.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import tuning
from dplib.architecture.search import Found, Network
from dplib.architecture.space import job, key, rate_cell
from dplib.trainings import train
from dplib.tuning import Get

Result = dict[str, Any]
FRESH = 1000  # repeats from here on are for reports


@dataclass(frozen=True)
class Trainer:
    """Trains candidates with one optimiser, on one split: what a search calls (:mod:`dplib.architecture.search`).

    Attributes:
        get: of a part of a plan. common: arguments of :func:`dplib.trainings.train` of every training.
        how: arguments of the optimiser: steps, epsilon or noise_multiplier, max_grad_norm, momentum.
        rates: kind of network (:func:`dplib.architecture.space.rate_cell`) to learning rate.
        split_seed: of the records; equal ones share the trainings of equal networks.
    """

    get: Get
    common: Mapping[str, Any]
    how: Mapping[str, Any]
    rates: Mapping[str, float]
    split_seed: int

    def __call__(self, asked: Sequence[tuple[Network, int]]) -> list[Result]:
        """Results of (network, repeat): repeat 0, 1, ... are independent trainings of the same network."""
        how = {**self.common, **self.how, "split_seed": self.split_seed}
        return self.get(
            train, [job(network, self.rates, **how, seed=training_seed(network, repeat)) for network, repeat in asked]
        )

    def fresh(self, network: Network, count: int) -> list[Result]:
        """Trainings of one network that no search has seen."""
        return self([(network, FRESH + repeat) for repeat in range(count)])


def training_seed(network: Network, repeat: int) -> int:
    """The seed of a training: other networks and other repeats have other ones."""
    return int.from_bytes(hashlib.sha256(f"{key(network)}/{repeat}".encode()).digest()[:4], "big")


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
    get: Get,
    common: Mapping[str, Any],
    how: Mapping[str, Any],
    units: Sequence[int],
    rates: Sequence[float],
    seeds: int,
    extensions: int = 2,
) -> dict[str, float]:
    """The best learning rate of every kind of perceptron for one optimiser, on records that no report uses."""
    kinds = representatives(units, len(units))
    cells = {kind: {**common, **how, **network, "part": "tune"} for kind, network in kinds.items()}
    tuned = tuning.tune(get, train, cells, rates, seeds=seeds, extensions=extensions)
    return {kind: one.value for kind, one in tuned.items()}


def learning_rates(
    get: Get,
    *,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    units: Sequence[int],
    tuning_seeds: int,
) -> dict[str, dict[str, float]]:
    """The best learning rate by optimiser and kind of network."""
    return {name: tune(get, common, how, units, rates[name], tuning_seeds) for name, how in optimisers.items()}


def trainers(
    get: Get,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    tuned: Mapping[str, Mapping[str, float]],
    splits: int,
) -> dict[str, list[Trainer]]:
    """A trainer for every optimiser and split."""
    return {
        name: [Trainer(get, common, how, tuned[name], split) for split in range(splits)]
        for name, how in optimisers.items()
    }


# --- what a search is worth ------------------------------------------------------------------------------------------


def search_rng(trainer: Trainer, seed: int) -> np.random.Generator:
    """The generator of a search: decided by its split and by the chapter's seed."""
    return np.random.default_rng([trainer.split_seed, seed])


def scores(results: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Test accuracies (n,) in per cent; a training that diverged counts as 0."""
    return 100 * np.array([r["test"] if r["test"] is not None else 0.0 for r in results])


def outcome(found: Found, report: Trainer, count: int) -> Result:
    """What a search is worth: its winner's own training, and fresh trainings of the winning network.

    Args:
        report: trains the winner for the report. count: of such trainings.

    Returns:
        "own" and "fresh", test accuracies in per cent of the training that won and of the fresh ones (mean); "network"
        and its "parameters"; "trainings", and of how many different "networks" they were.
    """
    network = found.winner.network
    fresh = report.fresh(network, count)
    return {
        "network": key(network),
        "own": float(scores([found.winner.result])[0]),
        "fresh": float(scores(fresh).mean()),
        "parameters": fresh[0]["parameters"],
        "trainings": found.trainings,
        "networks": len({key(candidate.network) for candidate in found.trace}),
    }


def averaged(rows: Sequence[Result]) -> Result:
    """Outcomes of several searches on one split as one: means of accuracies and costs, the first one's network."""
    kept = ("network", "parameters")
    return {name: value if name in kept else float(np.mean([r[name] for r in rows])) for name, value in rows[0].items()}
