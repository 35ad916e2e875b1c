"""Searches at one total budget: the noise of every training is such that the search and its released model cost it all.

Neighbouring data sets differ in one record, of the training or of the validation part, which are disjoint. A training
record is paid for by the noise of all trainings together, a validation record by the Laplace noise of all scores
together; each within the whole budget (:mod:`dplib.architecture.search_budgets`). What is released is the winner's own
model: unlike the paper's searches, which return an architecture, none needs another training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import trainings
from dplib.architecture import search_budgets
from dplib.architecture.search import multi_generation, paas, randomised
from dplib.architecture.search_budgets import Search
from dplib.architecture.search_replays import best_of_k
from dplib.architecture.search_trainings import Get, Trainer, learning_rates, scores, search_rng
from dplib.architecture.space import FCN

FIXED = {"model": [128], "activation": ["relu"]}  # the network of the arm without a search


@dataclass(frozen=True)
class Plan:
    """How one arm spends the total.

    Attributes:
        search: what it composes, for training and for validation records alike.
        noise_multiplier: of each training.
        noise_scale: of the Laplace noise on a validation accuracy; 0 where none is used.
    """

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


def plans(total: float, delta: float, sample_rate: float, steps: int, validation: int, sizes: Sizes) -> dict[str, Plan]:
    """The noise of every arm at a total budget of (``total``, ``delta``).

    MGRS is composed training by training with a cap: for few candidates that is cheaper than a selection in each of
    its generations. "rs_fixed" makes as many trainings as compose to the total at the noise of "rs", so that the two
    share their trainings. The scores are composed as pure mechanisms, of epsilon ``total`` in all.
    """
    kinds = {
        "fixed": Search(1),
        "random": Search(1),
        "rs": Search(selections=((sizes.rs_mean, 1),)),
        "rs_fixed": None,
        "mgrs": Search(sum(sizes.mgrs)),
        "paas": Search(sizes.generations * sizes.population),
    }
    found = {}
    for arm, search in kinds.items():
        if arm == "rs_fixed":
            noise = found["rs"].noise_multiplier
            search = Search(affordable(noise, sizes.rs_drawn, total, delta, sample_rate, steps))
        else:
            # Rounded up, lest a solver's last digit make other jobs of these.
            noise = math.ceil(1e4 * search_budgets.noise_for(search, total, delta, sample_rate, steps)) / 1e4
        scored = arm not in ("fixed", "random")
        scale = search_budgets.score_scale(validation, search_budgets.epsilon_for(search, total)) if scored else 0.0
        found[arm] = Plan(search, noise, scale)
    return found


def affordable(noise_multiplier, most: int, total: float, delta, sample_rate, steps) -> int:
    """So many trainings with this noise compose to at most the total budget, up to ``most``; 0: not even one."""

    def cost(count):
        return search_budgets.dpsgd_epsilon(Search(count), noise_multiplier, sample_rate, steps, delta)

    return max((count for count in range(1, most + 1) if cost(count) <= total), default=0)


def nearest_rates(tuned: Mapping[float, Mapping[str, float]], noise_multiplier: float) -> Mapping[str, float]:
    """Learning rates tuned at the noise multiplier that is nearest by ratio."""
    return tuned[min(tuned, key=lambda noise: abs(np.log(noise / noise_multiplier)))]


def released(trainer: Trainer, arm: str, plan: Plan, sizes: Sizes, seed: int) -> float:
    """Expected test accuracy in per cent of the model that an arm releases, on one split.

    Args:
        trainer: with the plan's noise. seed: of draws, mutations and scores.
    """
    rng = search_rng(trainer, seed)
    if arm == "fixed":
        return float(scores(trainer.fresh(FIXED, 3)).mean())
    if arm == "paas":
        found = paas(
            FCN,
            trainer,
            generations=sizes.generations,
            population=sizes.population,
            noise_scale=plan.noise_scale,
            rng=rng,
        )
        return float(scores([found.winner.result])[0])
    if arm == "mgrs":
        found = multi_generation(
            FCN, trainer, sizes=sizes.mgrs, p_mutate=sizes.p_mutate, rng=rng, noise_scale=plan.noise_scale
        )
        return float(scores([found.winner.result])[0])
    found = randomised(FCN, trainer, k=sizes.rs_drawn, rng=rng, memoise=False)
    test = scores([c.result for c in found.trace])
    if arm == "random":
        return float(test.mean())
    noisy = np.array([c.validation for c in found.trace]) + rng.laplace(0, plan.noise_scale, len(test))
    if arm == "rs_fixed":
        return float(best_of_k(noisy, test, [plan.search.trainings])[0])
    return expected_release(noisy, test, plan.search)


def expected_release(noisy: np.ndarray, test: np.ndarray, search: Search) -> float:
    """Mean test value of the candidate with the best score among a random number of candidates.

    Args:
        noisy: (n,) scores. test: (n,). search: with one selection, whose distribution the number has; a number above n
            counts as n.
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
    rates: Mapping[str, Sequence[float]],
    units: Sequence[int],
    tuning_seeds: int,
    splits: int,
    totals: Sequence[float],
    steps: int,
    records: Mapping[str, int],
    seed: int = 7,
    **sizes: Any,
) -> dict[float, dict[str, np.ndarray]]:
    """Expected test accuracies in per cent (splits,) of what each arm releases, by total budget and arm.

    Args:
        optimisers: at whose budgets learning rates are tuned; an arm has those of the nearest noise.
        totals: budgets, each of a whole search. steps: of every training. records: how many there are for "train" and
            "validation". sizes: of :class:`Sizes`. The others are as in :mod:`dplib.architecture.search_study`.
    """
    tuned = learning_rates(
        get, common=common, optimisers=optimisers, rates=rates, units=units, tuning_seeds=tuning_seeds
    )
    sample_rate, delta, size = common["batch"] / records["train"], common["delta"], Sizes(**sizes)
    by_noise = {
        trainings.noise_for(how["epsilon"], sample_rate, how["steps"], delta): tuned[name]
        for name, how in optimisers.items()
    }
    found = {}
    for total in totals:
        arms = plans(total, delta, sample_rate, steps, records["validation"], size)
        found[total] = {}
        for arm, plan in arms.items():
            how = {"epsilon": None, "noise_multiplier": plan.noise_multiplier, "steps": steps}
            rates_of_arm = nearest_rates(by_noise, plan.noise_multiplier)
            own = [Trainer(get, common, how, rates_of_arm, split) for split in range(splits)]
            found[total][arm] = np.array([released(trainer, arm, plan, size, seed) for trainer in own])
    return found
