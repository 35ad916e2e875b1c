"""The runs behind the chapter on architecture search: a known fitness, learning rates, and the searches on splits.

A part is a function of ``get`` (:func:`dplib.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/07.yml``). A search asks ``get`` for its next candidates, so that each generation is a wave of runs.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import runs, tuning
from dplib.architecture import search_replays
from dplib.architecture.search import Evolution, Found, Network, multi_generation, paas, randomised
from dplib.architecture.space import FCN, Space, job, key, rate_cell
from dplib.trainings import train

Result = dict[str, Any]
Get = Callable[[Callable[..., runs.Result], Sequence[runs.Job]], list[runs.Result]]
TARGET = {"model": [512, 128], "activation": ["relu", "tanh"]}  # best of the known fitness


@runs.experiment(
    "search_known", version=1, probe={"generations": 3, "population": 4, "searches": 3, "distinct": False, "seed": 3}
)
def known_fitness(*, generations: int, population: int, searches: int, distinct: bool, seed: int) -> runs.Result:
    """PAAS without noise, and as many random draws, on a fitness with one known best among 150 networks.

    Args:
        generations, population: of PAAS. searches: how many. distinct: of :class:`dplib.architecture.search.Evolution`.

    Returns:
        "paas", "random": how many searches find the best; "mean_paas", "mean_random": mean fitness of what they find;
        "mean_trainings", "most_trainings": different networks that a search tries.
    """
    space = search_replays.shallow(FCN)
    table = search_replays.complete(space, search_replays.Known(TARGET))
    table = search_replays.Table({name: {**r, "test": r["validation"]} for name, r in table.results.items()})
    found = search_replays.replay(
        space,
        table,
        generations=generations,
        population=population,
        noise_scale=0.0,
        seeds=[[seed, i] for i in range(searches)],
        evolution=Evolution(distinct=distinct),
    )
    return {
        "paas": int((found["plain"] == 1).sum()),
        "random": int((found["random"] == 1).sum()),
        "mean_paas": float(found["plain"].mean()),
        "mean_random": float(found["random"].mean()),
        "mean_trainings": float(found["trainings"].mean()),
        "most_trainings": int(found["trainings"].max()),
    }


def known(get: Get, *, sizes: Mapping[str, Mapping[str, Any]], searches: int, seed: int) -> dict[str, Result]:
    """:func:`known_fitness` by name of the size, each with its "generations", "population" and "distinct"."""
    jobs = [{"distinct": False, **one, "searches": searches, "seed": seed} for one in sizes.values()]
    return dict(zip(sizes, get(known_fitness, jobs), strict=True))


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
        trainings), "clean_pick" (:func:`clean_pick`); "network", "parameters", "trainings".
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
    }


def clean_pick(found: Found) -> float:
    """Test accuracy in per cent of the network with the best noiseless score among all that a search trained."""
    best = max(found.trace, key=lambda candidate: candidate.validation)
    return float(scores([best.result])[0])


def averaged(rows: Sequence[Result]) -> Result:
    """Outcomes of several searches on one split as one: means of accuracies and costs, the first one's network."""
    kept = ("network", "parameters", "trained")
    return {name: value if name in kept else float(np.mean([r[name] for r in rows])) for name, value in rows[0].items()}


def table_8(
    get: Get,
    *,
    common: Mapping[str, Any],
    how: Mapping[str, Any],
    rates: Sequence[float],
    units: Sequence[int],
    tuning_seeds: int,
    splits: int,
    fresh: int,
    paas_searches: int = 1,
    seed: int = 7,
    **sizes: Any,
) -> dict[str, list[Result]]:
    """Table VIII: {"paas", "rs", "mgrs"}: what each search is worth (:func:`outcome`) on each split.

    Args:
        common: arguments of every training: data set, features, batch, dropout, delta. how: the optimiser's: epsilon,
            steps. rates, units, tuning_seeds: of :func:`tune`. fresh: further trainings of every winner.
        paas_searches: by PAAS on each split, which are averaged. sizes: of :class:`Sizes`.
    """
    tuned = tune(get, common, how, units, rates, tuning_seeds)
    trainers = [Trainer(get, common, how, tuned, split) for split in range(splits)]
    size = Sizes(**sizes)
    found = [searches(FCN, trainer, size, seed) for trainer in trainers]
    rows = {
        name: [outcome(one[name], trainer, fresh) for one, trainer in zip(found, trainers, strict=True)]
        for name in ("paas", "rs", "mgrs")
    }
    for at, trainer in enumerate(trainers):
        more = [outcome(search_paas(FCN, trainer, size, seed + i), trainer, fresh) for i in range(1, paas_searches)]
        rows["paas"][at] = averaged([rows["paas"][at], *more])
    return rows


def workflows(
    get: Get,
    *,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    units: Sequence[int],
    tuning_seeds: int,
    splits: int,
    fresh: int,
    seed: int = 7,
    **sizes: Any,
) -> dict[str, dict[str, list[Result]]]:
    """PAAS with SGD ("sgd", standard) and DP-SGD ("dp", privacy-aware) inside: {inside: {trained with: outcomes}}."""
    tuned = {name: tune(get, common, how, units, rates[name], tuning_seeds) for name, how in optimisers.items()}
    trainers = {
        name: [Trainer(get, common, how, tuned[name], split) for split in range(splits)]
        for name, how in optimisers.items()
    }
    rows: dict[str, dict[str, list[Result]]] = {}
    for inside in optimisers:
        found = [search_paas(FCN, trainer, Sizes(**sizes), seed) for trainer in trainers[inside]]
        rows[inside] = {
            name: [outcome(one, trainer, fresh) for one, trainer in zip(found, trainers[name], strict=True)]
            for name in optimisers
        }
    return rows
