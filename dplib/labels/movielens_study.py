"""The runs behind Table 3 of paper C: what is tuned on validation ratings, and what is reported on test ratings.

The choice looks at true validation ratings, as the paper's did: no epsilon of the table covers it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplib import study
from dplib.labels import maps, movielens_jobs

PENALTIES = (1.0, 2.0, 3.0, 4.0, 6.0, 10.0)  # tried for the bias model without noise


def tune(
    common: Mapping[str, Any],
    training: Mapping[str, Any],
    epsilons: Sequence[float | None],
    shares: Sequence[float],
    epochs: Sequence[int],
    temperatures: Sequence[float],
    *,
    seeds: Sequence[int],
    validation: int,
    workers: int,
    inputs: Mapping[str, str],
) -> pd.DataFrame:
    """The best number of epochs, and for two stages the best temperature, for each budget and number of stages.

    Args:
        common: arguments of :func:`dplib.labels.movielens_jobs.network` that all runs share. training: its settings but
            the epochs. seeds: other ones than those of the reported runs.
        validation: ratings held out of the training part, on which the choice is made.

    Returns:
        Columns "epsilon" (inf without privacy), "stages", "epochs", "temperature" and "rmse", the mean on validation
        ratings; one row for one stage, and one for two stages except without privacy, where one stage is all.
    """
    jobs = [
        {
            **common,
            "epsilon": epsilon,
            "shares": list(parts),
            "settings": {**training, "epochs": count},
            "seed": seed,
            "validation": validation,
            "variants": [{"temperature": t} for t in (temperatures if len(parts) > 1 else [1.0])],
        }
        for epsilon in epsilons
        for parts in ([1.0], shares)[: 1 if epsilon is None else 2]
        for count in epochs
        for seed in seeds
    ]
    results = study.run(movielens_jobs.network, jobs, workers=workers, inputs=inputs, what="tuning runs")
    table = maps.frame(jobs, results)
    per_job = [len(job["variants"]) for job in jobs]
    table["epochs"] = np.repeat([job["settings"]["epochs"] for job in jobs], per_job)
    means = table.groupby(["epsilon", "stages", "epochs", "temperature"], as_index=False)["rmse"].mean()
    return means.loc[means.groupby(["epsilon", "stages"])["rmse"].idxmin()].reset_index(drop=True)


def tune_penalty(common: Mapping[str, Any], *, seeds: Sequence[int], validation: int, workers: int, inputs) -> float:
    """The bias model's penalty without noise, best on validation ratings."""
    jobs = [
        {**common, "epsilon": None, "penalty": penalty, "seed": seed, "validation": validation}
        for penalty in PENALTIES
        for seed in seeds
    ]
    results = study.run(movielens_jobs.simple, jobs, workers=workers, inputs=inputs, what="bias models")
    errors = np.array([result["biases"] for result in results]).reshape(len(PENALTIES), -1)
    return PENALTIES[int(errors.mean(axis=1).argmin())]


def report(
    common: Mapping[str, Any],
    training: Mapping[str, Any],
    tuned: pd.DataFrame,
    shares: Sequence[float],
    penalty: float,
    *,
    seeds: Sequence[int],
    workers: int,
    inputs: Mapping[str, str],
) -> pd.DataFrame:
    """RMSE on test ratings, one row for each budget, method and seed.

    Columns "epsilon", "method", "seed" and "rmse". Methods: "LP-1ST", "LP-2ST"; "LP-1ST, likeliest" predicts the
    likeliest rating; "LP-1ST, unmixed" takes back the pull of RR; "LP-2ST, unmixed prior" has a prior of labels
    instead of answers; "biases" and "constant" need no network and see the answers of LP-1ST. LP-2ST's rows have its
    "mean_k", "right" and "covered", too. Equal seeds mean equal splits.
    """
    jobs = []
    for row in tuned.itertuples():
        variants = [{}] if row.stages == 1 else [{"temperature": row.temperature}, {"unmix": True}]
        epsilon = None if np.isinf(row.epsilon) else row.epsilon
        settings = {**training, "epochs": int(row.epochs)}
        parts = list(shares) if row.stages > 1 else [1.0]
        job = {**common, "epsilon": epsilon, "shares": parts, "settings": settings, "variants": variants}
        jobs += [{**job, "seed": seed} for seed in seeds]
    results = study.run(movielens_jobs.network, jobs, workers=workers, inputs=inputs, what="networks")
    table = maps.frame(jobs, results)
    names = {(1, 0): "LP-1ST", (2, 0): "LP-2ST", (2, 1): "LP-2ST, unmixed prior"}
    table["method"] = [names[pair] for pair in zip(table["stages"], table["variant"], strict=True)]
    one = table[table["method"] == "LP-1ST"]
    shown = [table, one.assign(method="LP-1ST, likeliest", rmse=one["likeliest"])]
    back = one[np.isfinite(one["epsilon"])]
    shown.append(back.assign(method="LP-1ST, unmixed", rmse=back["unmixed"]))
    budgets = list(dict.fromkeys(tuned["epsilon"]))
    simple = [
        {**common, "epsilon": None if np.isinf(e) else e, "penalty": penalty, "seed": seed}
        for e in budgets
        for seed in seeds
    ]
    found = study.run(movielens_jobs.simple, simple, workers=workers, inputs=inputs, what="bias models")
    for method in ("biases", "constant"):
        rows = [
            {"epsilon": np.inf if job["epsilon"] is None else job["epsilon"], "seed": job["seed"], "rmse": one[method]}
            for job, one in zip(simple, found, strict=True)
        ]
        shown.append(pd.DataFrame(rows).assign(method=method))
    columns = ["epsilon", "method", "seed", "rmse", "mean_k", "right", "covered"]
    return pd.concat(shown, ignore_index=True)[columns]


def compare(table: pd.DataFrame, a: str, b: str) -> pd.Series:
    """RMSE of method ``a`` minus that of method ``b``, paired by seed, for each budget that both have."""
    both = [set(table.loc[table["method"] == name, "epsilon"]) for name in (a, b)]
    budgets = sorted(both[0] & both[1])
    rows = {e: [{"epsilon": e, "method": name} for name in (a, b)] for e in budgets}
    return pd.Series({e: maps.paired(table, "rmse", *pair) for e, pair in rows.items()}, name=f"{a} − {b}")
