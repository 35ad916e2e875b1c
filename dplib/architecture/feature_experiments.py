"""The experiments around Table X: how much a search's settings matter, what its fitness promises, one total budget.

They only choose runs and arrange results; the runs are those of :mod:`dplib.architecture.feature_pafs`,
:mod:`dplib.architecture.feature_budgets` and :mod:`dplib.architecture.feature_cfs`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from dplib import objpert, study
from dplib.architecture import feature_budgets, feature_cfs, feature_data, feature_pafs, feature_search
from dplib.architecture.feature_jobs import unpacked
from dplib.architecture.feature_pafs import Plan
from dplib.architecture.feature_search import Genetic

# Each changes one thing: settings of the genetic search, or trainings behind a fitness value ("repeats").
VARIATIONS: dict[str, dict] = {
    "as chosen": {},
    "few parents": {"parents": 0.1},
    "many parents": {"parents": 0.5},
    "mostly crossover": {"crossover": 0.8, "mutation": 0.1},
    "mostly mutation": {"crossover": 0.2, "mutation": 0.6},
    "flips one feature in 43": {"flip": 1 / 43},
    "elitism": {"elitism": True},
    "5 trainings a fitness": {"repeats": 5},
    "100 trainings a fitness": {"repeats": 100},
}


def sensitivity(
    plan: Plan, epsilon: float, splits: int, variations: Mapping[str, dict], part: str = "validation"
) -> pd.DataFrame:
    """PAFS under other settings at one budget.

    Returns:
        One line for each variation and split: fitness (what the search claims), fresh (the same subset and part with
        new noise), accuracy (on the test part, trained on all training records), size, distinct.
    """
    lines = []
    for name, change in variations.items():
        change = dict(change)
        repeats = change.pop("repeats", None)
        settings = replace(plan.search, **change)
        for split in range(splits):
            found = feature_pafs.pafs(plan, split, epsilon, part, settings=settings, repeats=repeats, kind="variations")
            fresh, tested = winner(plan, split, epsilon, part, found.best)
            lines.append(
                {
                    "variation": name,
                    "split": split,
                    "fitness": found.fitness,
                    "fresh": fresh,
                    "accuracy": tested,
                    "size": int(found.best.sum()),
                    "distinct": len(found.scores),
                }
            )
    return pd.DataFrame(lines)


def winner(plan: Plan, split: int, epsilon: float, part: str, S) -> tuple[float, float]:
    """Accuracy of a subset with fresh noise: as the search measured it, and on the test part after full training."""
    held = plan.held if part == "validation" else 0
    seed = plan.seed + 2
    fresh = feature_pafs.accuracies(plan, split, epsilon, [S], part=part, held=held, seed=seed, kind="variations")
    tested = feature_pafs.accuracies(plan, split, epsilon, [S], seed=seed, kind="variations")
    return float(fresh[0]), float(tested[0])


def promises(plan: Plan, runs: pd.DataFrame) -> pd.DataFrame:
    """For each search of :func:`dplib.architecture.feature_pafs.table`: fitness, and the accuracy with fresh noise.

    Returns:
        Columns split, epsilon, part, fitness, fresh (same records, new noise), test.
    """
    lines = []
    for row in runs[runs["method"].str.startswith("PAFS")].itertuples():
        part = row.method.removeprefix("PAFS (").removesuffix(")")
        S = unpacked(row.subset, feature_data.load(plan.dataset, row.split).d)
        fresh, tested = winner(plan, row.split, row.epsilon, part, S)
        lines.append([row.split, row.epsilon, part, row.fitness, fresh, tested])
    return pd.DataFrame(lines, columns=["split", "epsilon", "part", "fitness", "fresh", "test"])


def one_budget(
    dataset: str,
    totals: Sequence[float],
    splits: int,
    held: int,
    repeats: int,
    *,
    methods=(*feature_budgets.METHODS, *feature_budgets.UNPAID),
    candidates: float = 10.0,
    population: int = 4,
    generations: int = 2,
    seed: int = 0,
    workers: int = 1,
) -> tuple[pd.DataFrame, float]:
    """Every method of :mod:`dplib.architecture.feature_budgets` at every total, paired by split.

    Returns:
        Lines with epsilon, method, split, accuracy, size, trained; and the processor seconds.
    """
    common = {"dataset": dataset, "held": held, "repeats": repeats, "seed": seed, "candidates": candidates}
    common |= {"population": population, "generations": generations}
    jobs = [{**common, "epsilon": e, "method": m, "split": s} for e, m, s in product(totals, methods, range(splits))]
    inputs = feature_data.checksums(dataset)
    results = study.run(feature_budgets.released, jobs, workers=workers, inputs=inputs, what="budgets")
    keys = ("epsilon", "method", "split")
    rows = [{**{k: job[k] for k in keys}, **result} for job, result in zip(jobs, results, strict=True)]
    return pd.DataFrame(rows), sum(r["cpu_seconds"] for r in results)


def usable(
    dataset: str, epsilons: Sequence[float], splits: int, repeats: int, seed: int = 0, workers: int = 1
) -> tuple[pd.DataFrame, float]:
    """How near private CFS comes to CFS (:func:`feature_cfs.agreement`), for both units and kinds of noise."""
    jobs = [
        {"dataset": dataset, "split": s, "unit": u, "how": h, "epsilon": e, "repeats": repeats, "seed": seed}
        for u, h, e, s in product(feature_cfs.UNITS, ("entropies", "tables"), epsilons, range(splits))
    ]
    inputs = feature_data.checksums(dataset)
    results = study.run(feature_cfs.agreement, jobs, workers=workers, inputs=inputs, what="private CFS")
    rows = [{**job, **result} for job, result in zip(jobs, results, strict=True)]
    return pd.DataFrame(rows), sum(r["cpu_seconds"] for r in results)


def redundancy(plan: Plan, chosen: Sequence[dict], subsets: int = 200) -> pd.DataFrame:
    """Mean redundancy and relevance (symmetrical uncertainty) of CFS subsets and of random ones of equal size.

    Returns:
        One line a split: redundancy and relevance of "CFS-Greedy", "CFS-GA" and "Random" (mean over ``subsets``).
    """
    lines = []
    for split, result in enumerate(chosen):
        table = feature_data.load(plan.dataset, split)
        relevance, among = feature_cfs.feature_scores.relevance_and_redundancy(feature_cfs.counted(table, "columns"))
        among = np.where(np.eye(table.d, dtype=bool), 0.0, among)
        ga = unpacked(result["ga"], table.d)
        size = int(ga.sum())
        rng = np.random.default_rng([plan.seed, split, 8])
        groups = {
            "CFS-Greedy": [feature_search.subset(result["order"][:size], table.d)],
            "CFS-GA": [ga],
            "Random": [feature_search.random_subset(table.d, rng, size) for _ in range(subsets)],
        }
        for name, masks in groups.items():
            S = np.array(masks, dtype=float)
            pairs = max(size * (size - 1), 1)
            lines.append([split, name, ((S @ among) * S).sum(axis=1).mean() / pairs, (S @ relevance).mean() / size])
    return pd.DataFrame(lines, columns=["split", "method", "redundancy", "relevance"])


def readings(
    dataset: str,
    epsilons: Sequence[float],
    subsets: Mapping[str, Sequence[np.ndarray]],
    pairs: Mapping[str, tuple[float | None, float]],
    draws: int,
    seed: int,
) -> dict[tuple[str, str], list[float]]:
    """Mean test accuracy (%) as diffprivlib runs it, for other norm bounds and regularisations.

    Args:
        subsets: name to one mask (d,) for each split.
        pairs: name to (norm bound, None for that of the columns in use; regularisation 1/C).

    Returns:
        (pair's name, subset's name) to a value for each epsilon.
    """
    found = {}
    for (name, (norm, regularisation)), (kind, masks) in product(pairs.items(), subsets.items()):
        rng = np.random.default_rng([seed, 7])
        shares = np.zeros((len(masks), len(epsilons)))
        for split, S in enumerate(masks):
            table = feature_data.load(dataset, split)
            models = objpert.fit(
                table.x_train,
                table.y_train,
                epsilon=np.repeat(epsilons, draws),
                regularisation=regularisation,
                norm_bound=float(table.norm_bound(S)) if norm is None else norm,
                rng=rng,
                masks=S,
                variant="diffprivlib",
                device="cpu",
            )
            shares[split] = models.accuracy(table.x_test, table.y_test).reshape(len(epsilons), draws).mean(axis=1)
        found[name, kind] = (100 * shares.mean(axis=0)).tolist()
    return found


def norm_or_columns(
    dataset: str, subsets: Sequence[np.ndarray], epsilons: Sequence[float], draws: int, seed: int
) -> pd.DataFrame:
    """Is it the fewer columns or the shorter records? Sound variant; subset s belongs to split s.

    Returns:
        One line for each split and epsilon with test accuracies (%): all (all columns), long (the subset, with the norm
        bound of all columns), own (the subset, with its own norm bound).
    """
    lines = []
    for split, S in enumerate(subsets):
        table, rng = feature_data.load(dataset, split), np.random.default_rng([seed, split, 9])
        every = np.ones(table.d, dtype=bool)
        for epsilon in epsilons:
            line = {"split": split, "epsilon": epsilon}
            for name, mask, norm in (("all", every, every), ("long", S, every), ("own", S, S)):
                models = objpert.fit(
                    table.x_train,
                    table.y_train,
                    epsilon=epsilon,
                    norm_bound=float(table.norm_bound(norm)),
                    rng=rng,
                    masks=mask,
                    problems=draws,
                    device="cpu",
                )
                line[name] = 100 * models.accuracy(table.x_test, table.y_test).mean()
            lines.append(line)
    return pd.DataFrame(lines)


def full_size(plan: Plan, population: int, generations: int, repeats: int) -> Plan:
    """The same plan with a search of the paper's size."""
    search = Genetic(population, generations, plan.search.parents, plan.search.crossover, plan.search.mutation)
    return replace(plan, search=search, fitness_repeats=repeats, spent={})
