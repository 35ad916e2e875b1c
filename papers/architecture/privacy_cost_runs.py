"""The runs behind chapter 3 (paper B, Sections III and VI-A, VI-B): experiments, and the parts of its plans.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/03.yml``). Learning rates are chosen on seeds from 1000 on; equal seeds pair the reported runs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from book.evidence import plans, runs
from book.evidence.plans import Get, by_seed
from dplib import accounting, rdp
from papers.architecture import sum_task
from papers.architecture.printed_budgets import TOOL_ORDERS
from papers.architecture.sample_size_runs import steps_to_target
from papers.common.network_runs import measured

CURVES = ("accuracies", "distances", "same_epoch", "predictive")
CLIPPING = {"epsilon": None, "max_grad_norm": 1.0}
CLIPPED = "clipping alone"
NO_LIMIT = 1e4  # a budget so large that it means nothing
DELTA = 1e-5
SETTING = {"n": 20_000, "batch": 1000, "epochs": 50}  # of the engineered task: ours, but for the epochs


@runs.experiment(
    "split_features",
    version=1,
    probe={"size": 50, "seed": 3, "epsilon": 0.5, "n": 2000, "batch": 200, "epochs": 4, "sgd_learning_rate": 5.0},
)
def split_features(
    *,
    size: int,
    seed: int,
    epsilon: float,
    sgd_learning_rate: float,
    learning_rate: float = 0.1,
    n: int = SETTING["n"],
    batch: int = SETTING["batch"],
    epochs: int = SETTING["epochs"],
    delta: float = DELTA,
    accountant: str = "paper",
    split: str = "equal",
    scale: str = "as printed",
    init: str = "glorot",
) -> runs.Result:
    """One repeat of the engineered task at a budget, by :func:`papers.architecture.sum_task.repeat`.

    ``epsilon`` is that at ``delta`` of all ``epochs`` (add or remove one record, Poisson batches), by the
    ``accountant``: "paper" (Rényi DP on the orders of tensorflow-privacy, improved conversion) or "pld".
    """
    setting = epsilon, batch / n, epochs * max(1, round(n / batch)), delta
    if accountant == "paper":
        noise = float(rdp.noise_multiplier(*setting, "improved", TOOL_ORDERS))
    else:
        noise = float(accounting.noise_multiplier(*setting, accountant))
    curves = sum_task.repeat(
        size=size,
        seed=seed,
        n=n,
        batch=batch,
        epochs=epochs,
        noise_multiplier=noise,
        learning_rate=learning_rate,
        sgd_learning_rate=sgd_learning_rate,
        split=split,
        scale=scale,
        init=init,
    )
    short = {key: [round(value, 5) for value in curves[key]] for key in CURVES}
    return curves | short | {"noise_multiplier": noise}


@runs.experiment(
    "split_features_many",
    version=1,
    probe={"size": 50, "seed": 3, "repeats": 2, "epsilon": 0.5, "sgd_learning_rate": 5.0},
)
def many_split_features(
    *, size: int, seed: int, repeats: int, epsilon: float, sgd_learning_rate: float, learning_rate: float = 0.1
) -> runs.Result:
    """Accuracies alone of many repeats of :func:`split_features`, of the seeds seed * repeats, seed * repeats + 1, ...

    Returns "accuracies" and "sgd_accuracies", (repeats,), 0 to 1.
    """
    job = {"size": size, "epsilon": epsilon, "sgd_learning_rate": sgd_learning_rate, "learning_rate": learning_rate}
    results = [split_features(**job, seed=seed * repeats + i) for i in range(repeats)]
    return {
        name: [result[name.removesuffix("ies") + "y"] for result in results]
        for name in ("accuracies", "sgd_accuracies")
    }


def many(
    get: Get,
    *,
    size: int,
    epsilon: float,
    seeds: int,
    first: int,
    repeats: int,
    sgd_rates: Sequence[float],
    tuning_seeds: int = 3,
) -> dict[str, np.ndarray]:
    """One row of :func:`rows` by many repeats, tuned as there: {"accuracies", "sgd_accuracies": (seeds * repeats,)}."""
    rate = _sgd_rates(get, [size], epsilon, sgd_rates, tuning_seeds)[size]
    job = {"size": size, "epsilon": epsilon, "repeats": repeats, "sgd_learning_rate": rate}
    results = by_seed(get, many_split_features, {0: job}, seeds, first)[0]
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


def _sgd_rates(get: Get, sizes: Sequence[int], epsilon: float, rates: Sequence[float], seeds: int) -> dict[int, float]:
    tuned = plans.tune(
        get,
        split_features,
        {m: {"size": m, "epsilon": epsilon} for m in sizes},
        rates,
        seeds=seeds,
        name="sgd_learning_rate",
        score="sgd_validation",
    )
    return {m: rate.value for m, rate in tuned.items()}


def rows(
    get: Get,
    *,
    sizes: Sequence[int],
    epsilon: float,
    seeds: int,
    sgd_rates: Sequence[float],
    rates: Sequence[float] = (),
    tuning_seeds: int = 3,
    tuned_at: float | None = None,
    **settings: Any,
) -> dict[int, list[runs.Result]]:
    """Rows of Table III: {input size: results by seed}. SGD's rate is tuned for each size, at the printed task.

    Args:
        tuned_at: budget of the jobs that tune SGD's rate, which does not depend on it; ``epsilon`` by default.
        rates: tried for DP-SGD at each size; none: one rate for all, 0.1. settings: of :func:`split_features`.
    """
    sgd = _sgd_rates(get, sizes, tuned_at or epsilon, sgd_rates, tuning_seeds)
    cells = {m: {"size": m, "epsilon": epsilon, **settings, "sgd_learning_rate": sgd[m]} for m in sizes}
    if rates:
        chosen = plans.tune(get, split_features, cells, rates, seeds=tuning_seeds)
        cells = {m: {**cell, "learning_rate": chosen[m].value} for m, cell in cells.items()}
    return by_seed(get, split_features, cells, seeds)


def family(
    get: Get,
    *,
    dataset: str,
    widths: Sequence[int],
    budgets: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[tuple[int, Any], Sequence[runs.Result]]:
    """Networks of one hidden layer, each cell with a rate of its own: {(width, kind): results by seed}.

    Kinds: "SGD", the budgets, :data:`NO_LIMIT` and :data:`CLIPPED`.
    """
    kinds: dict[Any, dict[str, Any]] = {"SGD": {"epsilon": None, "max_grad_norm": None}}
    kinds |= {budget: {"epsilon": budget} for budget in (*budgets, NO_LIMIT)} | {CLIPPED: CLIPPING}
    common = {"dataset": dataset, **settings}
    cells = {(w, kind): {**common, "model": [w], **what} for w in widths for kind, what in kinds.items()}
    grids = {"sgd": rates, "dp": rates}
    outcomes = measured(get, cells, grids, seeds=seeds, tuning_seeds=tuning_seeds)
    return {key: outcome.runs for key, outcome in outcomes.items()}


def stopping(
    get: Get,
    *,
    dataset: str,
    hidden: Sequence[int],
    sizes: Sequence[int],
    tune_size: int,
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[int, list[runs.Result]]:
    """Figure 6 for one network: {training size: results by seed}, at the rate that is best at ``tune_size``."""
    common = {"dataset": dataset, "hidden": list(hidden), **settings}
    only = {tune_size: {**common, "n": tune_size, "part": "tune"}}
    tuned = plans.tune(get, steps_to_target, only, rates, seeds=tuning_seeds, score="score")[tune_size]
    cells = {n: {**common, "n": n, "learning_rate": tuned.value} for n in sizes}
    return by_seed(get, steps_to_target, cells, seeds)
