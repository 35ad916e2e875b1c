"""The parts of paper D's study, in the order of the chapter: which runs, and how they are grouped.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/11.yml``); pages, ledger and plans call the same ones.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import FIRST, Get, by_seed
from dplib import checks
from papers.screening.annealed_training_runs import annealed_training, line

# Arms of Table 1 by the ledger's column names; "ours_held" computes J on held-out training records.
ARMS: dict[str, dict[str, Any]] = {
    "dpsgd": {"scheme": "dpsgd-relu"},
    "dpsgd_tanh": {"scheme": "dpsgd-tanh"},
    "dpsgd_auto_s": {"scheme": "auto-s"},
    "ours": {"scheme": "annealed", "energy": "test"},
    "ours_held": {"scheme": "annealed", "energy": "held", "held": 1000, "spends": "queries"},
    "non_dp": {"scheme": "non-private", "batch": 512},
}


def table_1(
    get: Get,
    *,
    datasets: Sequence[str],
    arms: Sequence[str],
    seeds: int,
    traced: int = 1,
    watched: int = 5,
    **settings: Any,
) -> dict[str, dict[str, list[runs.Result]]]:
    """Table 1's private schemes at the settings of Table 2: {data set: {arm: results by seed}}.

    DP-SGD with tanh also records what each update does to J on training records, in its first ``watched`` seeds.

    Args:
        arms: of :data:`ARMS`. seeds: seeds 0, 1, ...; traced: as many of them keep every query of "ours".
        settings: other arguments of every job, such as ``epsilon``.
    """
    jobs = {}
    for name, seed, arm in product(datasets, range(seeds), arms):
        watch = {"energy": "train"} if arm == "dpsgd_tanh" and seed < watched else {}
        keep = {"trace": True} if arm == "ours" and seed < traced else {}
        jobs[name, arm, seed] = {"dataset": name, **ARMS[arm], **watch, **keep, **settings, "seed": seed}
    by_job = dict(zip(jobs, get(annealed_training, list(jobs.values())), strict=True))
    return {name: {arm: [by_job[name, arm, seed] for seed in range(seeds)] for arm in arms} for name in datasets}


def non_private(
    get: Get,
    *,
    datasets: Sequence[str],
    seeds: int,
    rates: Sequence[float],
    tuning_seeds: int,
    epochs: int,
    held: int,
    first: int = 0,
) -> dict[str, dict[str, Any]]:
    """SGD with the rate that is best on ``held`` validation records: {data set: {"rate", "tried", "results"}}.

    Results are by seed, from ``first`` on.
    """
    fixed = {**ARMS["non_dp"], "epsilon": None, "epochs": epochs}
    tuning = {"held": held, "report": "validation"}
    cells = {(name, rate): {"dataset": name, **fixed, "learning_rate": rate} for name in datasets for rate in rates}
    tried = _means(get, {cell: {**job, **tuning} for cell, job in cells.items()}, tuning_seeds)
    best = {name: max(rates, key=lambda rate, name=name: tried[name, rate]) for name in datasets}
    results = by_seed(get, annealed_training, {name: cells[name, best[name]] for name in datasets}, seeds, first)
    return {
        name: {"rate": best[name], "tried": {r: tried[name, r] for r in rates}, "results": arms_}
        for name, arms_ in results.items()
    }


def variants(
    get: Get,
    *,
    cells: Mapping[str, Mapping[str, Any]],
    seeds: int,
    first: int = 0,
    dataset: str = "mnist",
    arm: str = "ours",
    **settings: Any,
) -> dict[str, list[runs.Result]]:
    """{name: results by seed}: an arm with changes to its arguments, such as another reading of Algorithm 2."""
    jobs = {
        name: {"dataset": dataset, **ARMS[{**settings, **job}.get("arm", arm)], **settings,
               **{k: v for k, v in job.items() if k != "arm"}}
        for name, job in cells.items()
    }  # fmt: skip
    return by_seed(get, annealed_training, jobs, seeds, first)


def tuned(
    get: Get,
    *,
    candidates: Mapping[str, Sequence[Mapping[str, Any]]],
    arms: Sequence[str],
    seeds: int,
    tuning_seeds: int,
    held: int,
) -> dict[str, dict[str, dict[str, Any]]]:
    """All schemes choose among the same settings by validation records.

    Returns {data set: {arm: {"chosen": settings, "tried": their scores, "results": by seed, on the test part}}}.

    While they choose, J is computed on held-out records: those that accuracy is reported on have no place in tuning.
    """
    aside = {"held": held, "report": "validation"}
    cells = {}
    for name, settings in candidates.items():
        for arm, (i, setting) in product(arms, enumerate(settings)):
            judged = {"energy": "held"} if ARMS[arm].get("energy") else {}
            cells[name, arm, i] = {"dataset": name, **ARMS[arm], **aside, **judged, **setting}
    tried, by_data = _means(get, cells, tuning_seeds), {}
    for name, settings in candidates.items():
        scores = {arm: [tried[name, arm, i] for i in range(len(settings))] for arm in arms}
        chosen = {arm: dict(settings[int(np.argmax(scores[arm]))]) for arm in arms}
        # Where Table 2's settings are chosen these are the runs of Table 1.
        results = {
            arm: table_1(get, datasets=[name], arms=[arm], seeds=seeds, **chosen[arm])[name][arm] for arm in arms
        }
        by_data[name] = {a: {"chosen": chosen[a], "tried": scores[a], "results": results[a]} for a in arms}
    return by_data


def _means(get: Get, cells: Mapping[Any, runs.Job], seeds: int) -> dict[Any, float]:
    """Mean accuracy of each cell over the tuning seeds; a run that diverged counts as -1."""
    by_cell = by_seed(get, annealed_training, cells, seeds, FIRST)
    return {
        cell: float(np.mean([-1.0 if result["accuracy"] is None else result["accuracy"] for result in results]))
        for cell, results in by_cell.items()
    }


def lines(get: Get, *, seeds: int, queries: int) -> dict[str, list[runs.Result]]:
    """Figure 1: {"plain", "annealed"}: paths by seed, paired."""
    kinds = {"plain": False, "annealed": True}
    return by_seed(get, line, {name: {"annealed": kind, "queries": queries} for name, kind in kinds.items()}, seeds)


# For a reader's own budget: updates that take minutes at most, and the learning rate that goes with them.
YOURS = {
    "digits": {"updates": 300, "learning_rate": 1.0, "held": 0, "energy_size": 225},
    "mnist": {"updates": 1000},
    "fashion-mnist": {"updates": 300},
}


def yours(get: Get, *, dataset: str, epsilon: float, seeds: int, delta: float = 1e-5) -> dict[str, list[runs.Result]]:
    """The chapter's question at a reader's own budget: {"ours", "dpsgd_tanh"}: results by seed, few updates each."""
    checks.one_of(*YOURS).check("dataset", dataset)
    settings = {**YOURS[dataset], "epsilon": epsilon, "delta": delta}
    return table_1(get, datasets=[dataset], arms=["ours", "dpsgd_tanh"], seeds=seeds, traced=0, watched=0, **settings)[
        dataset
    ]
