"""The runs behind the chapter on architecture search: a known fitness, learning rates, and the searches on splits.

A part is a function of ``get`` (:func:`dplib.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/07.yml``). A search asks ``get`` for its next candidates, so that each generation is a wave of runs.

What parts share: ``common`` has the arguments of every :func:`dplib.trainings.train` (data set, features, batch,
dropout, delta), ``how`` those of an optimiser (epsilon, steps), or ``optimisers`` those of several by name; ``rates``,
``units`` and ``tuning_seeds`` are of :func:`dplib.architecture.search_trainings.tune`; ``splits`` is the number of
splits; ``fresh``, of further trainings of every winner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib.architecture.search import Found, Network, multi_generation, paas, randomised
from dplib.architecture.search_one_budget import one_budget as one_budget
from dplib.architecture.search_replays import best_of_k, known_fitness, replayed
from dplib.architecture.search_trainings import (
    Get,
    Result,
    Trainer,
    averaged,
    outcome,
    scores,
    search_rng,
    trainers,
    tune,
)
from dplib.architecture.search_trainings import learning_rates as learning_rates
from dplib.architecture.space import FCN, key, with_freezing

PRINTED = {
    "eps2.11-stw": {"model": [2048, 256, 64], "activation": ["relu"] * 3, "frozen": [2]},
    "eps2.11-paw": {"model": [128], "activation": ["relu"]},
    "eps0.34-stw": {"model": [2048, 256, 64], "activation": ["relu"] * 3, "frozen": [2]},
    "eps0.34-paw": {"model": [1024], "activation": ["relu"], "frozen": [0]},
}  # Table IX, whose activations are not printed


def known(get: Get, *, sizes: Mapping[str, Mapping[str, Any]], searches: int, seed: int) -> dict[str, Result]:
    """:func:`known_fitness` by name of the size, each with its "generations", "population" and "distinct"."""
    jobs = [{"distinct": False, **one, "searches": searches, "seed": seed} for one in sizes.values()]
    return dict(zip(sizes, get(known_fitness, jobs), strict=True))


# --- the three searches ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """How large the searches are; ``noise_scale`` is that of PAAS's Laplace noise."""

    generations: int
    population: int
    k: int
    mgrs: Sequence[int]
    p_mutate: float
    noise_scale: float


def search_paas(trainer: Trainer, sizes: Sizes, seed: int) -> Found:
    """PAAS on one split. Searches of equal seeds begin with equal draws, and equal networks share their training."""
    return paas(
        FCN,
        trainer,
        generations=sizes.generations,
        population=sizes.population,
        noise_scale=sizes.noise_scale,
        rng=search_rng(trainer, seed),
    )


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
    """Table VIII: {"paas", "rs", "mgrs"}: what each search is worth on each split.

    Args:
        paas_searches: by PAAS on each split, which are averaged. sizes: of :class:`Sizes`.

    Returns:
        Lists over splits of :func:`dplib.architecture.search_trainings.outcome`. "rs" has also "by_draws" (k,): test
        accuracy in per cent of the best of 1, ..., k draws; "paas" also "random": of the best of as many draws as it
        made trainings.
    """
    tuned = {"dp": tune(get, common, how, units, rates, tuning_seeds)}
    own, size = trainers(get, common, {"dp": how}, tuned, splits)["dp"], Sizes(**sizes)
    drawn = [randomised(FCN, trainer, k=size.k, rng=search_rng(trainer, seed)) for trainer in own]
    refined = [
        multi_generation(FCN, trainer, sizes=size.mgrs, p_mutate=size.p_mutate, rng=search_rng(trainer, seed))
        for trainer in own
    ]
    rows = {"paas": [], "rs": [], "mgrs": []}
    for trainer, by_rs, by_mgrs in zip(own, drawn, refined, strict=True):
        validation = np.array([c.validation for c in by_rs.trace])
        by_draws = best_of_k(validation, scores([c.result for c in by_rs.trace]), range(1, size.k + 1))
        rows["rs"].append(outcome(by_rs, trainer, fresh) | {"by_draws": by_draws})
        rows["mgrs"].append(outcome(by_mgrs, trainer, fresh))
        genetic = [outcome(search_paas(trainer, size, seed + i), trainer, fresh) for i in range(paas_searches)]
        rows["paas"].append(averaged([one | {"random": by_draws[one["trainings"] - 1]} for one in genetic]))
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
    tuned = learning_rates(
        get, common=common, optimisers=optimisers, rates=rates, units=units, tuning_seeds=tuning_seeds
    )
    by = trainers(get, common, optimisers, tuned, splits)
    rows: dict[str, dict[str, list[Result]]] = {}
    for inside in optimisers:
        found = [search_paas(trainer, Sizes(**sizes), seed) for trainer in by[inside]]
        rows[inside] = {
            name: [outcome(one, trainer, fresh) for one, trainer in zip(found, by[name], strict=True)]
            for name in optimisers
        }
    return rows


def replays(
    get: Get,
    *,
    common: Mapping[str, Any],
    how: Mapping[str, Any],
    rates: Sequence[float],
    units: Sequence[int],
    tuning_seeds: int,
    splits: int,
    **sizes: Any,
) -> list[Result]:
    """:func:`dplib.architecture.search_replays.replayed` on each split; ``sizes`` are its further arguments."""
    tuned = tune(get, common, how, units, rates, tuning_seeds)
    jobs = [{**common, **how, **sizes, "rates": tuned, "split_seed": split} for split in range(splits)]
    return get(replayed, jobs)


# --- Table IX --------------------------------------------------------------------------------------------------------


def table_9(
    get: Get,
    *,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    units: Sequence[int],
    tuning_seeds: int,
    splits: int,
    draws: int,
    seed: int = 7,
) -> dict[str, Any]:
    """Table IX: the printed networks, and RS over networks whose layers may be frozen, on each split.

    Args:
        optimisers: "dp" (the larger budget), "small" and "sgd". draws: of RS, at the smaller budget.

    Returns:
        "printed": {row: {"dpsgd", "sgd": results}}; "one_frozen": {activation: {"small", "sgd": results}}, of the
        network of the row "eps0.34-paw"; "drawn": for each split test accuracies of the best draw by validation, of
        those "with" and "without" frozen layers, and the "network" that RS returns.
    """
    tuned = learning_rates(
        get, common=common, optimisers=optimisers, rates=rates, units=units, tuning_seeds=tuning_seeds
    )
    by = trainers(get, common, optimisers, tuned, splits)

    def fresh(name: str, network: Network) -> list[Result]:
        return [trainer.fresh(network, 1)[0] for trainer in by[name]]

    last = PRINTED["eps0.34-paw"]
    return {
        "printed": {
            row: {"dpsgd": fresh("dp" if "2.11" in row else "small", network), "sgd": fresh("sgd", network)}
            for row, network in PRINTED.items()
        },
        "one_frozen": {
            activation: {name: fresh(name, {**last, "activation": [activation]}) for name in ("small", "sgd")}
            for activation in FCN.entries["activation1"]
        },
        "drawn": [_with_and_without(trainer, draws, seed) for trainer in by["small"]],
    }


def _with_and_without(trainer: Trainer, draws: int, seed: int) -> Result:
    found = randomised(with_freezing(FCN), trainer, k=draws, rng=search_rng(trainer, seed))
    best = {}
    for name, frozen in (("with", True), ("without", False)):
        some = [c for c in found.trace if ("frozen" in c.network) is frozen]
        best[name] = float(scores([max(some, key=lambda c: c.validation).result])[0])
    return {**best, "network": key(found.winner.network)}
