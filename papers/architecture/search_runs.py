"""The runs behind the chapter on architecture search: trainings of candidates, the searches, and one budget for all.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/07.yml``). A search asks ``get`` for its next candidates, so that each generation is a wave of runs.
``trained`` of several parts has the arguments of :func:`trainers`; ``fresh`` is the number of further trainings of
every winner.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from book.evidence import plans
from book.evidence.plans import Get
from dplib import search_budgets
from dplib.search_budgets import Search
from papers.architecture.search import (
    FCN,
    Found,
    Network,
    job,
    key,
    multi_generation,
    paas,
    randomised,
    rate_cell,
    with_freezing,
)
from papers.architecture.search_replay_runs import FRESH, best_of_k, known_fitness, replayed, training_seed
from papers.common import network_runs
from papers.common.diverged import accuracies
from papers.common.network_runs import network_training

Result = dict[str, Any]
FIXED = {"model": [128], "activation": ["relu"]}  # the network of the arm without a search
PRINTED = {
    "eps2.11-stw": {"model": [2048, 256, 64], "activation": ["relu"] * 3, "frozen": [2]},
    "eps2.11-paw": {"model": [128], "activation": ["relu"]},
    "eps0.34-stw": {"model": [2048, 256, 64], "activation": ["relu"] * 3, "frozen": [2]},
    "eps0.34-paw": {"model": [1024], "activation": ["relu"], "frozen": [0]},
}  # Table IX, whose activations are not printed


# --- trainings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trainer:
    """Trains candidates with one optimiser, on one split: what a search calls (:mod:`papers.architecture.search`).

    ``common`` and ``how`` (of the optimiser) are arguments of every
    :func:`papers.common.network_runs.network_training`; ``rates``: kind of network
    (:func:`papers.architecture.search.rate_cell`) to learning rate.
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
            network_training,
            [job(network, self.rates, **how, seed=training_seed(network, repeat)) for network, repeat in asked],
        )

    def fresh(self, network: Network, count: int) -> list[Result]:
        """Trainings of one network that no search has seen."""
        return self([(network, FRESH + repeat) for repeat in range(count)])


def learning_rates(
    get: Get,
    *,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    units: Sequence[int],
    tuning_seeds: int,
) -> dict[str, dict[str, float]]:
    """The best learning rate by optimiser and kind of network, on records that no report uses.

    ``common``: arguments of every :func:`papers.common.network_runs.network_training`. ``optimisers``: name to those of
    an optimiser. ``rates``: grid by name of the optimiser. ``units``: of the hidden layers of the deepest perceptron.
    """
    kinds = {}
    for layers in range(1, len(units) + 1):
        for sigmoids in range(layers + 1):  # the first layers of a representative are sigmoids, the others ReLU
            activation = ["sigmoid"] * sigmoids + ["relu"] * (layers - sigmoids)
            network = {"model": list(units[:layers]), "activation": activation}
            kinds[rate_cell(network)] = network
    best = {}
    for name, how in optimisers.items():
        cells = {kind: {**common, **how, **network, "part": "tune"} for kind, network in kinds.items()}
        tuned = plans.tune(get, network_training, cells, rates[name], seeds=tuning_seeds)
        best[name] = {kind: rate.value for kind, rate in tuned.items()}
    return best


def trainers(get: Get, *, common, optimisers, splits: int, first: int = 0, **others: Any) -> dict[str, list[Trainer]]:
    """For every optimiser a trainer on each split, ``first``, first + 1, ...; the other arguments are those of
    :func:`learning_rates`.
    """
    tuned = learning_rates(get, common=common, optimisers=optimisers, **others)
    return {
        name: [Trainer(get, common, how, tuned[name], split) for split in range(first, first + splits)]
        for name, how in optimisers.items()
    }


def search_rng(trainer: Trainer, seed: int) -> np.random.Generator:
    """The generator of a search: decided by its split and by the chapter's seed."""
    return np.random.default_rng([trainer.split_seed, seed])


def outcome(search: Found, report: Trainer, count: int) -> Result:
    """What a search is worth: its winner's own training, and ``count`` fresh trainings of the winning network.

    "own" and "fresh" are test accuracies in per cent, of the training that won and of the fresh ones (mean);
    "trainings" of how many different "networks"; the winning "network" and its "parameters".
    """
    network = search.winner.network
    fresh = report.fresh(network, count)
    return {
        "network": key(network),
        "own": float(accuracies([search.winner.result], "test")[0]),
        "fresh": float(accuracies(fresh, "test").mean()),
        "parameters": fresh[0]["parameters"],
        "trainings": search.trainings,
        "networks": len({key(candidate.network) for candidate in search.trace}),
    }


# --- the searches -----------------------------------------------------------------------------------------------------


def known(get: Get, *, sizes: Mapping[str, Mapping[str, Any]], searches: int, seed: int) -> dict[str, Result]:
    """:func:`known_fitness` by name of the size, each with its "generations", "population" and "distinct"."""
    jobs = [{"distinct": False, **size, "searches": searches, "seed": seed} for size in sizes.values()]
    return dict(zip(sizes, get(known_fitness, jobs), strict=True))


def replays(
    get: Get, *, common, how: Mapping[str, Any], splits: int, rates, units, tuning_seeds, first: int = 0, **sizes: Any
):
    """:func:`papers.architecture.search_replay_runs.replayed` on each split; ``sizes`` are its further arguments."""
    tuned = learning_rates(
        get, common=common, optimisers={"dp": how}, rates={"dp": rates}, units=units, tuning_seeds=tuning_seeds
    )
    shared = {**common, **how, **sizes, "rates": tuned["dp"]}
    return get(replayed, [{**shared, "split_seed": split} for split in range(first, first + splits)])


NOISY = 200  # draws of the noise on the scores of random networks


def table_8(
    get: Get,
    *,
    trained: Mapping[str, Any],
    fresh: int,
    k: int,
    mgrs: Sequence[int],
    p_mutate: float,
    paas_searches: int = 1,
    seed: int = 7,
    **genetic: Any,
) -> dict[str, list[Result]]:
    """Table VIII: {"paas", "rs", "mgrs"}: :func:`outcome` on each split. Equal networks share a training.

    Args:
        trained: the optimiser is "dp". k: candidates of RS. mgrs: of the generations of MGRS.
        paas_searches: by PAAS on each split, which are averaged. genetic: sizes and noise of PAAS.

    Returns:
        "rs" has also "by_draws" (k,): test accuracy in per cent of the best of 1, ..., k draws; "paas" also "random":
        of the best of as many draws as it made trainings, and "noisy_random": with as much noise on their scores.
    """
    rows = {"paas": [], "rs": [], "mgrs": []}
    for trainer in trainers(get, **trained)["dp"]:
        drawn = randomised(FCN, trainer, k=k, rng=search_rng(trainer, seed))
        refined = multi_generation(FCN, trainer, sizes=mgrs, p_mutate=p_mutate, rng=search_rng(trainer, seed))
        validation = np.array([c.validation for c in drawn.trace])
        tested = accuracies([c.result for c in drawn.trace], "test")
        by_draws = best_of_k(validation, tested, range(1, k + 1))
        noise = np.random.default_rng(seed).laplace(0, genetic["noise_scale"], (NOISY, k))
        rows["rs"].append(outcome(drawn, trainer, fresh) | {"by_draws": by_draws})
        rows["mgrs"].append(outcome(refined, trainer, fresh))
        searches = [paas(FCN, trainer, rng=search_rng(trainer, seed + i), **genetic) for i in range(paas_searches)]
        outcomes = [outcome(search, trainer, fresh) for search in searches]
        for result in outcomes:
            noisy = [best_of_k(validation + extra, tested, [result["trainings"]])[0] for extra in noise]
            result |= {"random": by_draws[result["trainings"] - 1], "noisy_random": float(np.mean(noisy))}
        means = {
            name: float(np.mean([result[name] for result in outcomes])) for name in outcomes[0] if name != "network"
        }
        rows["paas"].append(outcomes[0] | means)
    return rows


def workflows(
    get: Get, *, trained: Mapping[str, Any], fresh: int, seed: int = 7, **genetic: Any
) -> dict[str, dict[str, list[Result]]]:
    """PAAS with SGD ("sgd", standard) and DP-SGD ("dp", privacy-aware) inside: {inside: {trained with: outcomes}}."""
    by = trainers(get, **trained)
    rows: dict[str, dict[str, list[Result]]] = {}
    for inside, inner in by.items():
        searches = [paas(FCN, trainer, rng=search_rng(trainer, seed), **genetic) for trainer in inner]
        rows[inside] = {
            name: [outcome(search, trainer, fresh) for search, trainer in zip(searches, others, strict=True)]
            for name, others in by.items()
        }
    return rows


def table_9(get: Get, *, trained: Mapping[str, Any], draws: int, seed: int = 7) -> dict[str, Any]:
    """Table IX: the printed networks, and RS over networks whose layers may be frozen, on each split.

    The optimisers of ``trained`` are "dp" (the larger budget), "small" and "sgd"; ``draws``: of RS, at "small".

    Returns:
        "printed": {row: {"dpsgd", "sgd": results}}; "one_frozen": {activation: {"small", "sgd": results}}, of the
        network of the row "eps0.34-paw"; "drawn": for each split test accuracies of the best draw by validation, of
        those "with" and "without" frozen layers, and the "network" that RS returns.
    """
    by, last = trainers(get, **trained), PRINTED["eps0.34-paw"]
    return {
        "printed": _printed_networks(by),
        "one_frozen": {
            activation: {name: _fresh(by[name], {**last, "activation": [activation]}) for name in ("small", "sgd")}
            for activation in FCN.entries["activation1"]
        },
        "drawn": [_with_and_without(trainer, draws, seed) for trainer in by["small"]],
    }


def printed_networks(
    get: Get, *, trained: Mapping[str, Any], rows: Sequence[str]
) -> dict[str, dict[str, list[Result]]]:
    """Of :func:`table_9` some printed networks alone: {row: {"dpsgd", "sgd": results}}."""
    return _printed_networks(trainers(get, **trained), rows)


def printed_length(
    get: Get,
    *,
    row: str,
    common,
    how: Mapping[str, Any],
    rates: Sequence[float],
    tuning_seeds: int,
    splits: int,
    first: int,
) -> dict[str, list[Result]]:
    """A printed network of Table IX with one optimiser, ``how``, for as long as the paper trained it: {row: results by
    split}. Its rate is chosen on records that no report uses.
    """
    cell = {**common, **how, **PRINTED[row]}
    tuned = plans.tune(get, network_training, {row: {**cell, "part": "tune"}}, rates, seeds=tuning_seeds)
    seed = training_seed(PRINTED[row], FRESH)
    jobs = [
        {**cell, "learning_rate": tuned[row].value, "split_seed": split, "seed": seed}
        for split in range(first, first + splits)
    ]
    return {row: get(network_training, jobs)}


def _printed_networks(
    by: Mapping[str, Sequence[Trainer]], rows: Sequence[str] = tuple(PRINTED)
) -> dict[str, dict[str, list[Result]]]:
    return {
        row: {"dpsgd": _fresh(by["dp" if "2.11" in row else "small"], network), "sgd": _fresh(by["sgd"], network)}
        for row, network in ((row, PRINTED[row]) for row in rows)
    }


def _fresh(by_split: Sequence[Trainer], network: Network) -> list[Result]:
    return [trainer.fresh(network, 1)[0] for trainer in by_split]


def _with_and_without(trainer: Trainer, draws: int, seed: int) -> Result:
    search = randomised(with_freezing(FCN), trainer, k=draws, rng=search_rng(trainer, seed))
    best = {}
    for name, frozen in (("with", True), ("without", False)):
        candidates = [c for c in search.trace if ("frozen" in c.network) is frozen]
        best[name] = float(accuracies([max(candidates, key=lambda c: c.validation).result], "test")[0])
    return {**best, "network": key(search.winner.network)}


# --- one budget for everything ----------------------------------------------------------------------------------------

# The noise of every training is such that the search and its released model cost the total: a training record is paid
# for by the noise of all trainings together, a validation record by the Laplace noise of all scores together, each
# within the whole budget (dplib.search_budgets). What is released is the winner's own model: unlike the
# paper's searches, which return an architecture, none needs another training.


@dataclass(frozen=True)
class Arm:
    """How one arm spends the total: what it composes, for training and for validation records alike; the noise
    multiplier of each training; the scale of the Laplace noise on a validation accuracy, 0 where none is used."""

    search: Search
    noise_multiplier: float
    noise_scale: float


@dataclass(frozen=True)
class Sizes:
    """RS: mean of the geometric number of candidates, and how many are trained here; MGRS and PAAS as in the paper.

    ``drawn`` trainings stand for a number that is random: the value of the best of k is averaged over all choices of
    k of them, and over the distribution of k. What lies beyond ``drawn`` counts as ``drawn``.
    """

    rs_mean: float
    rs_drawn: int
    mgrs: Sequence[int]
    p_mutate: float
    generations: int
    population: int


@functools.cache
def _noise(search: Search, total: float, delta: float, sample_rate: float, steps: int) -> float:
    # Rounded up, lest a solver's last digit make other jobs of these.
    return math.ceil(1e4 * search_budgets.noise_for(search, total, delta, sample_rate, steps)) / 1e4


def arms(total: float, delta: float, sample_rate: float, steps: int, validation: int, sizes: Sizes) -> dict[str, Arm]:
    """The noise of every arm at a total budget of (``total``, ``delta``).

    MGRS is composed training by training with a cap: for few candidates that is cheaper than a selection in each of
    its generations. "rs_fixed" makes as many trainings as compose to the total at the noise of "rs", so that the two
    share their trainings. The scores are composed as pure mechanisms, of epsilon ``total`` in all.
    """
    searches = {
        "fixed": Search(1),
        "random": Search(1),
        "rs": Search(selections=((sizes.rs_mean, 1),)),
        "mgrs": Search(sum(sizes.mgrs)),
        "paas": Search(sizes.generations * sizes.population),
    }
    noises = {arm: _noise(search, total, delta, sample_rate, steps) for arm, search in searches.items()}
    noises["rs_fixed"] = noises["rs"]
    searches["rs_fixed"] = Search(affordable(noises["rs"], sizes.rs_drawn, total, delta, sample_rate, steps))

    def scale(search: Search) -> float:  # one accuracy moves by 1 / validation; all scores together cost the total
        return search_budgets.pure_epsilon(search, 1.0) / (validation * total)

    return {
        arm: Arm(search, noises[arm], 0.0 if arm in ("fixed", "random") else scale(search))
        for arm, search in searches.items()
    }


def affordable(noise_multiplier, most: int, total: float, delta, sample_rate, steps) -> int:
    """So many trainings with this noise compose to at most the total budget, up to ``most``; 0: not even one."""

    def cost(count):
        return search_budgets.dpsgd_epsilon(Search(count), noise_multiplier, sample_rate, steps, delta)

    return max((count for count in range(1, most + 1) if cost(count) <= total), default=0)


def released(trainer: Trainer, name: str, arm: Arm, sizes: Sizes, seed: int) -> float:
    """Expected test accuracy in per cent of the model that an arm releases, on one split."""
    rng = search_rng(trainer, seed)
    if name == "fixed":
        return float(accuracies(trainer.fresh(FIXED, 3), "test").mean())
    if name in ("paas", "mgrs"):
        shared = {"noise_scale": arm.noise_scale, "rng": rng}
        if name == "paas":
            search = paas(FCN, trainer, generations=sizes.generations, population=sizes.population, **shared)
        else:
            search = multi_generation(FCN, trainer, sizes=sizes.mgrs, p_mutate=sizes.p_mutate, **shared)
        return float(accuracies([search.winner.result], "test")[0])
    search = randomised(FCN, trainer, k=sizes.rs_drawn, rng=rng, memoise=False)
    test = accuracies([c.result for c in search.trace], "test")
    if name == "random":
        return float(test.mean())
    noisy = np.array([c.validation for c in search.trace]) + rng.laplace(0, arm.noise_scale, len(test))
    if name == "rs_fixed":
        return float(best_of_k(noisy, test, [arm.search.trainings])[0])
    return expected_release(noisy, test, arm.search)


def expected_release(noisy: np.ndarray, test: np.ndarray, search: Search) -> float:
    """Mean ``test`` value (n,) of the candidate with the best score (n,) among a random number of candidates, which has
    the law of the one selection of ``search``; a number above n counts as n.
    """
    ((mean_runs, shape),) = search.selections
    p = search_budgets.run_probabilities(mean_runs, shape, len(test))
    p[-1] += 1 - p.sum()
    return float(p[1:] @ best_of_k(noisy, test, range(1, len(test) + 1)))


def one_budget(
    get: Get,
    *,
    common: Mapping[str, Any],
    optimisers: Mapping[str, Mapping[str, Any]],
    splits: int,
    totals: Sequence[float],
    steps: int,
    records: Mapping[str, int],
    tuned: Mapping[str, Any],
    seed: int = 7,
    first: int = 0,
    **sizes: Any,
) -> dict[float, dict[str, np.ndarray]]:
    """Expected test accuracies in per cent (splits,) of what each arm releases, by total budget and arm.

    Args:
        optimisers: at whose budgets learning rates are tuned (``tuned``: the further arguments of
            :func:`learning_rates`); an arm has those of the nearest noise, by ratio.
        totals: budgets, each of a whole search. records: how many there are for "train" and "validation".
        steps: of every training. first: of the splits. sizes: of :class:`Sizes`.
    """
    sample_rate, delta, size = common["batch"] / records["train"], common["delta"], Sizes(**sizes)
    by_noise = {
        network_runs.noise_for(optimisers[name]["epsilon"], sample_rate, optimisers[name]["steps"], delta): rates
        for name, rates in learning_rates(get, common=common, optimisers=optimisers, **tuned).items()
    }
    by_budget = {}
    for total in totals:
        by_budget[total] = {}
        for name, arm in arms(total, delta, sample_rate, steps, records["validation"], size).items():
            how = {"epsilon": None, "noise_multiplier": arm.noise_multiplier, "steps": steps}
            rates = by_noise[
                min(
                    by_noise,
                    key=lambda noise, noise_multiplier=arm.noise_multiplier: abs(np.log(noise / noise_multiplier)),
                )
            ]
            trainers = [Trainer(get, common, how, rates, split) for split in range(first, first + splits)]
            by_budget[total][name] = np.array([released(trainer, name, arm, size, seed) for trainer in trainers])
    return by_budget
