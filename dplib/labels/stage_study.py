"""The parts of paper C's studies of training in stages (chapters 9 and 9b): which runs, and how they are grouped.

A part is a function of ``get`` (:func:`dplib.runs.read`, or what makes the runs) and of what a plan says; pages, ledger
and plans call the same ones. Settings are chosen with seeds from 1000 on, on held-out training examples.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dplib import checks, plans, runs
from dplib.labels.movielens import rating_biases, rating_network
from dplib.labels.staged import train

Get = Callable[[Callable[..., runs.Result], Sequence[runs.Job]], list[runs.Result]]
CONTROLS = {"no prior": math.inf, "pseudo-labels": 0.0}  # temperatures at the two ends
RECIPES: dict[str, dict[str, Any]] = {  # each changes one thing of Appendix B's recipe
    "as in the paper": {},
    "stage 2 starts afresh": {"warm_start": False},
    "stage-1 labels not reused": {"reuse": False},
    "stage-1 labels not filtered": {"filtered": False},
    "no prior": {"temperature": math.inf},
    "prior of labels, not answers": {"unmix": True, "temperature": 1.0},
}


def shares(stages: int, first: float) -> list[float]:
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
    first: float = 0.6,
    score: str = "randomised",
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[float, dict[str, Any]]:
    """Learning rate, then mixup, by LP-1ST; then mixup and temperature together by LP-2ST: {epsilon: choice}.

    The two are chosen together since each wants another value of the other. Records should be nearly as many as in the
    final runs: what was best for half of Fashion-MNIST at epsilon 1 was behind one stage on all of it.

    Args:
        score: "randomised": by held-out labels that were randomised; "accuracy": by true ones, as the paper did.

    Returns:
        For each budget "learning_rate", "mixup", "two stages" (mixup, temperature), and "tried": for each of them
        {value: {score}}.
    """
    common = {"dataset": dataset, "validation": validation, **settings}
    found: dict[float, dict[str, Any]] = {e: {"tried": {}} for e in epsilons}

    def choose(name: str, values: Sequence[Any], jobs: Mapping[tuple[float, Any], Mapping[str, Any]]) -> None:
        seeds = range(plans.FIRST, plans.FIRST + tuning_seeds)
        results = iter(get(train, [{**job, "seed": s} for job in jobs.values() for s in seeds]))
        for (e, value), _ in jobs.items():
            own = [next(results) for _ in seeds]
            means = {key: 100 * float(np.mean([one[key] for one in own])) for key in ("randomised", "accuracy")}
            found[e]["tried"].setdefault(name, {})[value] = means
        for e in epsilons:
            tried = found[e]["tried"][name]
            found[e][name] = max(values, key=lambda value, tried=tried: tried[value][score])

    def job(e: float, stages: int = 1, **more: Any) -> dict[str, Any]:
        return {**common, "epsilon": e, "shares": shares(stages, first), **more}

    choose("learning_rate", rates, {(e, r): job(e, learning_rate=r) for e in epsilons for r in rates})
    best = {e: {"learning_rate": found[e]["learning_rate"]} for e in epsilons}
    choose("mixup", mixups, {(e, m): job(e, mixup=[m], **best[e]) for e in epsilons for m in mixups})
    pairs = list(itertools.product(mixups, temperatures))
    choose("two stages", pairs, {(e, (m, t)): job(e, 2, mixup=[m], temperature=t, **best[e])
                                 for e in epsilons for m, t in pairs})  # fmt: skip
    return found


def chosen(choices: Mapping[float, Mapping[str, Any]], epsilon: float | None, count: int) -> dict[str, Any]:
    """Settings for so many stages of the nearest tuned budget (None: of the largest; of two as near, the smaller)."""
    nearest = max(choices) if epsilon is None else min(sorted(choices), key=lambda one: abs(one - epsilon))
    one = choices[nearest]
    rate = {"learning_rate": one["learning_rate"]}
    if count == 1:
        return rate | {"mixup": [one["mixup"]]}
    mixup, temperature = one["two stages"]
    return rate | {"mixup": [mixup], "temperature": temperature}


def compared(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    stages: Sequence[int],
    seeds: int,
    tuning: Mapping[str, Any],
    first: float = 0.6,
    controls: Sequence[float] = (),
    more_stages: Sequence[int] = (),
    more_epsilon: float = 1.0,
    curve_at: float | None = None,
    free: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """LP-MST over budgets and numbers of stages: Tables 1 and 4, Figures 1(a) and 3.

    Args:
        tuning: arguments of :func:`tuned`. controls: budgets at which LP-2ST is also run at :data:`CONTROLS`.
        more_stages: further numbers of stages at ``more_epsilon``. curve_at: the budget with learning curves.
        free: whether one stage on true labels is trained, too.

    Returns:
        "choices" of :func:`tuned`; "cells": {(epsilon, stages or the name of a control): results by seed}, with
        epsilon inf for true labels.
    """
    tuned_settings = {key: value for key, value in settings.items() if key != "curve"}
    choices = tuned(get, dataset=dataset, first=first, **{**tuned_settings, **tuning})
    jobs: dict[tuple[float, Any, int], dict[str, Any]] = {}
    for e in epsilons:
        counts = [*stages, *(more_stages if e == more_epsilon else [])]
        for seed in range(seeds):
            for count in counts:
                more = {"curve": True} if e == curve_at and count <= 2 else {}
                jobs[e, count, seed] = {
                    "epsilon": e,
                    "shares": shares(count, first),
                    **chosen(choices, e, count),
                    **more,
                }
            for name in CONTROLS if e in controls else ():
                end = {"temperature": CONTROLS[name]} | ({"curve": True} if e == curve_at else {})
                jobs[e, name, seed] = {"epsilon": e, "shares": shares(2, first), **chosen(choices, e, 2), **end}
    for seed in range(seeds if free else 0):
        jobs[math.inf, 1, seed] = {"epsilon": None, "shares": [1.0], **chosen(choices, None, 1)}
    every = [{"dataset": dataset, **settings, **job, "seed": at[2]} for at, job in jobs.items()]
    cells: dict[tuple[float, Any], list[runs.Result]] = {}
    for (e, kind, _), result in zip(jobs, get(train, every), strict=True):
        cells.setdefault((e, kind), []).append(result)
    return {"choices": choices, "cells": cells}


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
    first: float = 0.6,
    **settings: Any,
) -> dict[str, Any]:
    """LP-2ST at one budget with one thing changed at a time: Figures 4(a), 4(b), 5 and Appendix B.

    Returns:
        "chosen" settings; "recipes": {name of :data:`RECIPES`: results by seed}; "shares": {(share, temperature):
        results}; "mixups": {(of stage 1, of stage 2): results}.
    """
    choice = chosen(tuned(get, dataset=dataset, first=first, **{**settings, **tuning}), epsilon, 2)
    base = {"dataset": dataset, "epsilon": epsilon, "shares": shares(2, first), **settings, **choice}
    groups: dict[str, dict[Any, dict[str, Any]]] = {
        "recipes": {name: {**base, **change} for name, change in RECIPES.items()},
        "shares": {(s, t): {**base, "shares": shares(2, s), "temperature": t}
                   for s in first_shares for t in temperatures},
        "mixups": {(a, b): {**base, "mixup": [a, b]} for a in mixups for b in mixups},
    }  # fmt: skip
    jobs = {
        (group, cell, seed): {**job, "seed": seed}
        for seed in range(seeds)
        for group, cells in groups.items()
        for cell, job in cells.items()
    }
    found: dict[str, Any] = {"chosen": choice, **{group: {} for group in groups}}
    for (group, cell, _), result in zip(jobs, get(train, list(jobs.values())), strict=True):
        found[group].setdefault(cell, []).append(result)
    return found


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
    first: float = 0.6,
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[str, Any]:
    """Table 3: epochs and temperature chosen by true validation ratings, as the paper's were, then test errors.

    Returns:
        "choices": {(epsilon, stages): {"epochs", "temperature"}}; "penalty"; "cells": {(epsilon, method): results by
        seed} for the methods 1 and 2 (stages), "unmixed prior", and "biases", of :func:`rating_biases`.
    """
    own = range(plans.FIRST, plans.FIRST + tuning_seeds)
    budgets = [*epsilons, None]
    common = {"dataset": dataset, **settings}

    def means(function, cells, score):
        results = iter(
            get(function, [{**cell, "validation": validation, "seed": s} for cell in cells.values() for s in own])
        )
        return {at: float(np.mean([score(next(results)) for _ in own])) for at in cells}

    tried = means(
        rating_network,
        {
            (e, count, n, t): {**common, "epsilon": e, "shares": shares(count, first), "epochs": n, "temperature": t}
            for e in budgets for count in ((1, 2) if e is not None else (1,))
            for n in epochs for t in (temperatures if count > 1 else [1.0])
        },
        lambda result: result["rmse"],
    )  # fmt: skip
    best = {
        cell: min((at for at in tried if at[:2] == cell), key=tried.__getitem__) for cell in {at[:2] for at in tried}
    }
    choices = {cell: {"epochs": at[2], "temperature": at[3]} for cell, at in best.items()}
    errors = means(
        rating_biases,
        {p: {"dataset": dataset, "epsilon": None, "penalty": p} for p in penalties},
        lambda result: result["biases"],
    )
    penalty = min(penalties, key=errors.__getitem__)
    cells: dict[tuple[float, Any], list[runs.Result]] = {}
    for e, count in sorted(choices, key=lambda cell: (math.inf if cell[0] is None else cell[0], cell[1])):
        job = {**common, "epsilon": e, "shares": shares(count, first), **choices[e, count]}
        kinds = {count: job} | ({"unmixed prior": {**job, "unmix": True, "temperature": 1.0}} if count == 2 else {})
        for kind, one in kinds.items():
            cells[_budget(e), kind] = get(rating_network, [{**one, "seed": s} for s in range(seeds)])
    for e in budgets:
        jobs = [{"dataset": dataset, "epsilon": e, "penalty": penalty, "seed": s} for s in range(seeds)]
        cells[_budget(e), "biases"] = get(rating_biases, jobs)
    return {"choices": choices, "penalty": penalty, "cells": cells}


def _budget(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


# For a reader's own budget: a network and a rate that take seconds.
YOURS = {"digits": {"network": "mlp-64", "batch": 300, "learning_rate": 0.4}, "mnist": {}, "fashion-mnist": {}}


def yours(get: Get, *, dataset: str, epsilon: float, seeds: int) -> dict[Any, list[runs.Result]]:
    """The chapter's question at a reader's own budget: {1, 2, "no prior", "pseudo-labels", "half": results by seed}.

    "half": LP-2ST at half of the budget, what DP-SGD at the whole of it stands beside where a *change* of a record
    is to be hidden.
    """
    checks.one_of(*YOURS).check("dataset", dataset)
    arms: dict[Any, dict[str, Any]] = {
        1: {},
        2: {"shares": shares(2, 0.6)},
        **{name: {"shares": shares(2, 0.6), "temperature": end} for name, end in CONTROLS.items()},
        "half": {"shares": shares(2, 0.6), "epsilon": epsilon / 2},
    }
    base = {"dataset": dataset, "epsilon": epsilon, "learning_rate": 0.2, **YOURS[dataset]}
    found = get(train, [{**base, **arm, "seed": s} for s in range(seeds) for arm in arms.values()])
    return {arm: found[i :: len(arms)] for i, arm in enumerate(arms)}


def records(
    get: Get,
    *,
    datasets: Sequence[str],
    epsilons: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 3,
    model: str = "cnn4-mnist",
    **settings: Any,
) -> dict[tuple[str, float], list[runs.Result]]:
    """DP-SGD, which hides whole records, beside LP-MST: a CNN with tanh, tuned at every budget.

    Returns:
        {(data set, epsilon): results by seed}. The rate is chosen on validation records, by their true labels.
    """
    from dplib import trainings  # imports DP-SGD, which only this part waits for

    common = {"model": model, **settings}
    cells = {(name, e): {"dataset": name, "epsilon": e, **common} for name in datasets for e in epsilons}
    best = plans.tune(get, trainings.train, {at: {**job, "part": "tune"} for at, job in cells.items()}, rates,
                       seeds=tuning_seeds)  # fmt: skip
    jobs = [{**job, "learning_rate": best[at].value, "seed": s} for at, job in cells.items() for s in range(seeds)]
    found = get(trainings.train, jobs)
    return {at: found[i * seeds : (i + 1) * seeds] for i, at in enumerate(cells)}
