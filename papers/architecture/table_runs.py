"""Chapter 13's own runs: logistic regression by DP-SGD on tables, as the chapter prints it for a reader to run.

Nothing looks at a record outside epsilon but the choice of the learning rate: numbers are scaled by ranges known
without the records, categories are one-hot, each row is scaled to length 1 by itself. All records are one batch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.evidence import plans, runs
from book.evidence.plans import Get, by_seed
from dplib import data, dpsgd
from dplib.models import mlp
from dplib.sgd import seeded
from papers.architecture import feature_data
from papers.common.network_runs import noise_for

VALIDATION = 0.2  # share of the training part that "tune" holds out


def rows(dataset: str, n: int | None, seed: int, part: str) -> tuple[dpsgd.Data, int]:
    """Rows of length 1 with their labels, split by the seed, and the number of classes.

    ``n``: so many random training records; None: all. ``part``: "report", or "tune", whose test part is held out of
    the training records.
    """
    loaded = data.load(dataset, split_seed=seed) if dataset == "location" else feature_data.load(dataset, seed)
    train, test = (unit_rows(x) for x in (loaded.x_train, loaded.x_test))
    y, y_test = (np.asarray(labels).astype(np.int64) for labels in (loaded.y_train, loaded.y_test))
    order = np.random.default_rng([seed, 13]).permutation(len(train))
    if part == "tune":
        held, order = np.split(order, [round(VALIDATION * len(order))])
        test, y_test = train[held], y[held]
    kept = order[:n]
    return dpsgd.Data((train[kept], y[kept]), None, (test, y_test)), int(max(y.max(), y_test.max())) + 1


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Each row (of (n, d)) over its length, float32: what one record gives depends on that record alone."""
    x = np.asarray(x, dtype=np.float32)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.float32(1e-6))


@runs.experiment(
    "table_logistic",
    version=1,
    data=("dataset",),
    probe={"dataset": "synthetic-census", "n": 600, "epsilon": 1.0, "learning_rate": 4.0, "seed": 3},
)
def logistic_training(
    *,
    dataset: str,
    n: int | None,
    epsilon: float | None,
    learning_rate: float,
    seed: int,
    part: str = "report",
    steps: int = 50,
    delta: float = 1e-5,
    max_grad_norm: float = 1.0,
    device: str = "cpu",
) -> runs.Result:
    """Logistic regression on full batches, by DP-SGD at this budget; None: as clipped, without noise.

    (epsilon, delta)-DP for adding or removing a record, by the PRV accountant; the choice of the rate is not accounted.

    Args:
        dataset, n, part: of :func:`rows`. seed: of split, records, initial weights and noise.

    Returns:
        "test" and "constant", accuracies of the last iterate and of the most frequent class; "n", "features",
        "classes", "noise_multiplier".
    """
    sets, classes = rows(dataset, n, seed, part)
    x, y = sets.train
    weights, draws = np.random.SeedSequence([seed, 1]).spawn(2)
    net = seeded(lambda: mlp([x.shape[1], classes]), int(weights.generate_state(1)[0]))
    noise = 0.0 if epsilon is None else float(noise_for(epsilon, 1.0, steps, delta))
    settings = dpsgd.DPSGD(steps, 1.0, learning_rate, noise, max_grad_norm)
    run = dpsgd.train(net, sets, settings, np.random.default_rng(draws), device=device, progress=False)
    test = run.final["test"]["metric"]
    return {
        "test": None if run.diverged else test,
        "constant": float((sets.test[1] == np.bincount(y).argmax()).mean()),
        "n": len(y),
        "features": x.shape[1],
        "classes": classes,
        "noise_multiplier": noise,
    }


def tables(
    get: Get,
    *,
    records: Mapping[str, Sequence[int | None]],
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    seeds: int = 5,
    tuning_seeds: int = 3,
    **settings: Any,
) -> dict[tuple[str, int | None], dict[float, list[runs.Result]]]:
    """Every number of records of every data set at every budget (None: no noise), each at its own learning rate.

    Returns {(data set, records): {epsilon, inf for no noise: results by seed, with "learning_rate"}}.
    """
    cells = {(name, n, e): {"dataset": name, "n": n, "epsilon": e, **settings}
             for name, sizes in records.items() for n in sizes for e in epsilons}  # fmt: skip
    best = plans.tune(
        get,
        logistic_training,
        {at: {**job, "part": "tune"} for at, job in cells.items()},
        rates,
        seeds=tuning_seeds,
        score="test",
    )
    rates = {at: {"learning_rate": rate.value} for at, rate in best.items()}
    results = by_seed(get, logistic_training, {at: job | rates[at] for at, job in cells.items()}, seeds)
    by_network: dict[tuple[str, int | None], dict[float, list[runs.Result]]] = {}
    for (name, n, e), runs_ in results.items():
        results_ = [run | rates[name, n, e] for run in runs_]
        by_network.setdefault((name, n), {})[math.inf if e is None else e] = results_
    return by_network
