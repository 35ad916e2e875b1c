"""The parts of paper C's studies of training in stages (chapters 9 and 9b): which runs, and how they are grouped.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says.
Settings are chosen with seeds from 1000 on, on held-out training examples.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import FIRST, Get, by_seed
from dplib import checks
from papers.labels.rating_runs import rating_biases, rating_network
from papers.labels.stage_training_runs import staged_training

if TYPE_CHECKING:
    from papers.common.network_runs import Outcome

CONTROLS = {"no prior": math.inf, "pseudo-labels": 0.0}  # temperatures at the two ends
RECIPES: dict[str, dict[str, Any]] = {  # each changes one thing of Appendix B's recipe
    "as in the paper": {},
    "stage 2 starts afresh": {"warm_start": False},
    "stage-1 labels not reused": {"reuse": False},
    "stage-1 labels not filtered": {"filtered": False},
}


def shares(stages: int, first: float = 0.6) -> list[float]:
    """Shares of the data: ``first`` for stage 1, the rest equally for the others."""
    return [1.0] if stages == 1 else [first, *[round((1 - first) / (stages - 1), 6)] * (stages - 1)]


def tuned(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    rates: Sequence[float],
    mixups: Sequence[float],
    temperatures: Sequence[float],
    validation: int,
    score: str = "randomised",
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[float, dict[str, Any]]:
    """Learning rate, then mixup, by LP-1ST; then mixup and temperature together by LP-2ST: {epsilon: choice}.

    Records should be nearly as many as in the final runs: what was best for half of Fashion-MNIST at epsilon 1 was
    behind one stage on all of it. ``score``: "randomised", by held-out labels that were randomised, or "accuracy", by
    true ones, as the paper did. A choice has "learning_rate", "mixup", "two stages" (mixup, temperature), and "tried":
    for each of them {value: {score}}.
    """
    common = {"dataset": dataset, "validation": validation, **settings}
    by_epsilon: dict[float, dict[str, Any]] = {e: {"tried": {}} for e in epsilons}

    def choose(name: str, values: Sequence[Any], jobs: Mapping[tuple[float, Any], Mapping[str, Any]]) -> None:
        for (e, value), results in by_seed(get, staged_training, jobs, tuning_seeds, FIRST).items():
            means = {
                key: 100 * float(np.mean([result[key] for result in results])) for key in ("randomised", "accuracy")
            }
            by_epsilon[e]["tried"].setdefault(name, {})[value] = means
        for of_budget in by_epsilon.values():
            of_budget[name] = max(values, key=lambda value, tried=of_budget["tried"][name]: tried[value][score])

    def job(e: float, stages: int = 1, **more: Any) -> dict[str, Any]:
        return {**common, "epsilon": e, "shares": shares(stages), **more}

    choose("learning_rate", rates, {(e, r): job(e, learning_rate=r) for e in epsilons for r in rates})
    best = {e: {"learning_rate": by_epsilon[e]["learning_rate"]} for e in epsilons}
    choose("mixup", mixups, {(e, m): job(e, mixup=[m], **best[e]) for e in epsilons for m in mixups})
    pairs = list(itertools.product(mixups, temperatures))
    choose("two stages", pairs, {(e, (m, t)): job(e, 2, mixup=[m], temperature=t, **best[e])
                                 for e in epsilons for m, t in pairs})  # fmt: skip
    return by_epsilon


def chosen(choices: Mapping[float, Mapping[str, Any]], epsilon: float | None, count: int) -> dict[str, Any]:
    """Settings for so many stages of the nearest tuned budget (None: of the largest; of two as near, the smaller)."""
    nearest = max(choices) if epsilon is None else min(sorted(choices), key=lambda budget: abs(budget - epsilon))
    choice = choices[nearest]
    rate = {"learning_rate": choice["learning_rate"]}
    if count == 1:
        return rate | {"mixup": [choice["mixup"]]}
    mixup, temperature = choice["two stages"]
    return rate | {"mixup": [mixup], "temperature": temperature}


def compared(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    stages: Sequence[int],
    seeds: int,
    tuning: Mapping[str, Any],
    controls: Sequence[float] = (),
    more_stages: Sequence[int] = (),
    more_epsilon: float = 1.0,
    curve_at: float | None = None,
    free: bool = True,
    first: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """LP-MST over budgets and numbers of stages: Tables 1 and 4, Figures 1(a) and 3.

    LP-2ST also runs at :data:`CONTROLS` at the budgets ``controls``, ``more_stages`` at ``more_epsilon``, with learning
    curves at ``curve_at``, and one stage on true labels if ``free``; with the seeds ``first``, ... Returns "choices" of
    :func:`tuned`, and "cells": {(epsilon, stages or the name of a control): results by seed}, epsilon inf for true
    labels.
    """
    tuned_settings = {key: value for key, value in settings.items() if key not in ("curve", "losses")}
    choices = tuned(get, dataset=dataset, **{**tuned_settings, **tuning})
    cells: dict[tuple[float, Any], dict[str, Any]] = {}
    for e in epsilons:
        curve = {"curve": True} if e == curve_at else {}
        for count in [*stages, *(more_stages if e == more_epsilon else [])]:
            cells[e, count] = {"epsilon": e, "shares": shares(count), **chosen(choices, e, count)}
            cells[e, count] |= curve if count <= 2 else {}
        for name in CONTROLS if e in controls else ():
            end = {"temperature": CONTROLS[name]} | curve
            cells[e, name] = {"epsilon": e, "shares": shares(2), **chosen(choices, e, 2), **end}
    if free:
        cells[math.inf, 1] = {"epsilon": None, "shares": [1.0], **chosen(choices, None, 1)}
    every = {at: {"dataset": dataset, **settings, **job} for at, job in cells.items()}
    return {"choices": choices, "cells": by_seed(get, staged_training, every, seeds, first)}


def law(
    get: Get,
    *,
    tasks: Mapping[str, Mapping[str, Any]],
    epsilons: Sequence[float],
    mixups: Sequence[float],
    seeds: int,
    first: int,
    **settings: Any,
) -> dict[tuple[str, float, float], dict[str, list[runs.Result]]]:
    """What a second stage gains, and what the first one's prior knew: settings are fixed, nothing is tuned.

    tasks: a name to arguments of :func:`staged_training`. Returns {(task, mixup, epsilon): {"one", "two", "no prior",
    "true labels": results by seed}}.
    """
    arms: dict[str, dict[str, Any]] = {
        "two": {"shares": shares(2), "losses": True},
        "no prior": {"shares": shares(2), "temperature": CONTROLS["no prior"]},
        "one": {},
        "true labels": {"epsilon": None},
    }
    cells = {
        (name, mixup, e, arm): {**settings, **task, "mixup": [mixup], "epsilon": e, **arms[arm]}
        for name, task in tasks.items()
        for mixup in mixups
        for e in epsilons
        for arm in arms
    }
    by_cell: dict[tuple[str, float, float], dict[str, list[runs.Result]]] = {}
    for (*cell, arm), results in by_seed(get, staged_training, cells, seeds, first).items():
        by_cell.setdefault((cell[0], cell[1], cell[2]), {})[arm] = results
    return by_cell


def recipes(
    get: Get,
    *,
    dataset: str,
    epsilon: float,
    seeds: int,
    tuning: Mapping[str, Any],
    first_shares: Sequence[float],
    temperatures: Sequence[float],
    mixups: Sequence[float],
    **settings: Any,
) -> dict[str, Any]:
    """LP-2ST at one budget with one thing changed at a time: Figures 4(a), 4(b), 5 and Appendix B.

    Returns "chosen" settings, and results by seed: "recipes" by name of :data:`RECIPES`, "shares" by (share,
    temperature), "mixups" by (of stage 1, of stage 2).
    """
    choice = chosen(tuned(get, dataset=dataset, **{**settings, **tuning}), epsilon, 2)
    base = {"dataset": dataset, "epsilon": epsilon, "shares": shares(2), **settings, **choice}
    cells = {("recipes", name): {**base, **change} for name, change in RECIPES.items()}
    cells |= {
        ("shares", (s, t)): {**base, "shares": shares(2, s), "temperature": t}
        for s in first_shares
        for t in temperatures
    }
    cells |= {("mixups", (a, b)): {**base, "mixup": [a, b]} for a in mixups for b in mixups}
    by_group: dict[str, Any] = {"chosen": choice, "recipes": {}, "shares": {}, "mixups": {}}
    for (group, cell), results in by_seed(get, staged_training, cells, seeds).items():
        by_group[group][cell] = results
    return by_group


def ratings(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    seeds: int,
    validation: int,
    epochs: Sequence[int],
    temperatures: Sequence[float],
    penalties: Sequence[float],
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[str, Any]:
    """Table 3: epochs and temperature chosen by true validation ratings, as the paper's were, then test errors.

    Returns "choices" {(epsilon, stages): settings}, "penalty", and "cells": {(epsilon, method): results by seed} for
    the methods 1 and 2 (stages), and "biases" (:func:`rating_biases`).
    """
    budgets = [*epsilons, None]
    common = {"dataset": dataset, **settings}

    def means(function, cells, score):
        aside = {at: {**cell, "validation": validation} for at, cell in cells.items()}
        tried = by_seed(get, function, aside, tuning_seeds, FIRST)
        return {at: float(np.mean([result[score] for result in results])) for at, results in tried.items()}

    tried = means(
        rating_network,
        {
            (e, count, n, t): {**common, "epsilon": e, "shares": shares(count), "epochs": n, "temperature": t}
            for e in budgets for count in ((1, 2) if e is not None else (1,))
            for n in epochs for t in (temperatures if count > 1 else [1.0])
        },
        "rmse",
    )  # fmt: skip
    best = {at[:2]: at for at in sorted(tried, key=tried.__getitem__)[::-1]}  # the last is the best
    choices = {cell: {"epochs": at[2], "temperature": at[3]} for cell, at in best.items()}
    linear = {p: {"dataset": dataset, "epsilon": None, "penalty": p} for p in penalties}
    errors = means(rating_biases, linear, "biases")
    penalty = min(penalties, key=errors.__getitem__)
    jobs: dict[tuple[float, Any], dict[str, Any]] = {
        (_budget(e), count): {**common, "epsilon": e, "shares": shares(count), **choice}
        for (e, count), choice in choices.items()
    }
    simple = {(_budget(e), "biases"): {"dataset": dataset, "epsilon": e, "penalty": penalty} for e in budgets}
    cells = by_seed(get, rating_network, jobs, seeds) | by_seed(get, rating_biases, simple, seeds)
    return {"choices": choices, "penalty": penalty, "cells": cells}


def _budget(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


# For a reader's own budget: a network and a rate that take seconds.
YOURS = {"digits": {"network": "mlp-64", "batch": 300, "learning_rate": 0.4}, "mnist": {}, "fashion-mnist": {}}


def yours(get: Get, *, dataset: str, epsilon: float, seeds: int) -> dict[Any, list[runs.Result]]:
    """The chapter's question at a reader's own budget: {1, 2, "no prior", "pseudo-labels", "half": results by seed}.

    "half" is LP-2ST at half of the budget, what DP-SGD stands beside where a *change* of a record is to be hidden.
    """
    checks.one_of(*YOURS).check("dataset", dataset)
    arms: dict[Any, dict[str, Any]] = {
        1: {},
        2: {"shares": shares(2)},
        **{name: {"shares": shares(2), "temperature": end} for name, end in CONTROLS.items()},
        "half": {"shares": shares(2), "epsilon": epsilon / 2},
    }
    base = {"dataset": dataset, "epsilon": epsilon, "learning_rate": 0.2, **YOURS[dataset]}
    return by_seed(get, staged_training, {name: {**base, **arm} for name, arm in arms.items()}, seeds)


def records(
    get: Get,
    *,
    datasets: Sequence[str],
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 3,
    model: str = "cnn4-mnist",
    **settings: Any,
) -> dict[tuple[str, float | None], "Outcome"]:
    """DP-SGD, which hides whole records, beside LP-MST: {(data set, epsilon): its tuned training}, a CNN with tanh.

    The rate is chosen at every budget on validation records, by their true labels. An epsilon of None: no noise, but
    clipped all the same.
    """
    from papers.common.network_runs import measured  # imports DP-SGD, which only this part waits for

    common = {"model": model, **settings}
    cells = {(name, e): {"dataset": name, "epsilon": e, **common} for name in datasets for e in epsilons}
    return measured(get, cells, {"dp": rates}, seeds=seeds, tuning_seeds=tuning_seeds)
