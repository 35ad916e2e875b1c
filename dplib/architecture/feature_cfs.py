"""CFS on the chapter's tables: records as codes, by columns or by attributes, and selections with and without privacy.

Hall's CFS scores attributes; paper B encodes first, and scores columns of 0 and 1. Both are here.
"""

import functools
import time

import numpy as np

from dplib.architecture import feature_data, feature_scores, feature_search
from dplib.architecture.feature_jobs import packed
from dplib.checks import one_of

UNITS = ("columns", "attributes")
BINS = 10  # equal bins of [0, 1] for a number: edges that no record decides


def coded(table: feature_data.Features, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """The training records and their label as codes (n, v) with levels (v,): see :mod:`architecture.feature_scores`.

    Args:
        unit: "columns", every column a variable of two levels (a number: :data:`BINS` levels); or "attributes", every
            categorical attribute a variable with its published levels.
    """
    one_of(*UNITS).check("unit", unit)
    x, owner = table.x_train, table.attribute_of
    alone = np.bincount(owner)[owner] == 1  # a number has one column
    columns, levels = [], []
    groups = [[j] for j in range(table.d)] if unit == "columns" else [owner == a for a in range(len(table.attributes))]
    for group in groups:
        part = x[:, group]
        if part.shape[1] > 1:
            columns.append(part.argmax(axis=1))
            levels.append(part.shape[1])
        elif alone[group].all():
            columns.append(np.minimum(part[:, 0] * BINS, BINS - 1).astype(int))
            levels.append(BINS)
        else:
            columns.append(part[:, 0].astype(int))
            levels.append(2)
    return np.column_stack([*columns, table.y_train.astype(int)]), np.array([*levels, 2])


@functools.lru_cache(maxsize=8)
def counted(table: feature_data.Features, unit: str) -> feature_scores.Counts:
    """The exact tables of pairs of the training part; kept, as many noisy copies are made of them."""
    return feature_scores.count(*coded(table, unit))


def as_columns(table: feature_data.Features, unit: str, chosen) -> np.ndarray:
    """A choice of variables, as positions, as a mask of columns (d,): all columns of a chosen attribute."""
    if unit == "columns":
        return feature_search.subset(chosen, table.d)
    return np.isin(table.attribute_of, np.asarray(chosen, dtype=int))


def cfs(
    dataset: str, split: int, unit: str, population: int, generations: int, parents: float, seed: int
) -> dict[str, object]:
    """CFS-Greedy and CFS-GA on the training part of a split, a run for :mod:`dplib.study`; not private.

    Returns:
        ga: what Algorithm 4 chose, as columns (packed); ga_ever: the best subset that it evaluated.
        order: every variable in the order of Algorithm 3; stop: after how many the merit no longer rises.
        merit_ga, merit_ever, merit_greedy: merits of the choice, of the best seen, of Algorithm 3 at the GA's size.
        distinct, evaluations: of the GA. seconds_greedy (for the GA's size), seconds_ga: processor seconds, scores
        included.
    """
    table = feature_data.load(dataset, split)
    codes, levels = coded(table, unit)
    start = time.process_time()
    relevance, redundancy = feature_scores.relevance_and_redundancy(feature_scores.count(codes, levels))
    scored = time.process_time() - start
    settings = feature_search.Genetic(population, generations, parents)
    found = feature_search.cfs_ga(relevance, redundancy, settings, np.random.default_rng([seed, split, 4]))
    ended = time.process_time() - start
    size = int(found.best.sum())
    again = time.process_time()
    at_size = feature_search.cfs_greedy(relevance, redundancy, size)
    greedy_seconds = scored + time.process_time() - again
    m = len(relevance)
    greedy = feature_search.subset(at_size, m)
    return {
        "ga": packed(as_columns(table, unit, np.flatnonzero(found.best))),
        "ga_ever": packed(as_columns(table, unit, np.flatnonzero(found.best_ever))),
        "order": feature_search.cfs_greedy(relevance, redundancy, m),
        "stop": len(feature_search.cfs_greedy(relevance, redundancy)),
        "merit_ga": found.fitness,
        "merit_ever": float(found.scores.max()),
        "merit_greedy": float(feature_scores.merit(greedy, relevance, redundancy)[0]),
        "distinct": len(found.scores),
        "evaluations": found.evaluations,
        "seconds_greedy": greedy_seconds,
        "seconds_ga": ended,
    }


def private_choice(table, unit: str, how: str, epsilon: float, rng) -> np.ndarray:
    """CFS-Greedy on private entropies, until no feature raises the merit: a mask of columns (d,), epsilon-DP.

    Neighbours replace one training record. The choice is post-processing of the noisy entropies.

    Args:
        how: "entropies", noise on each entropy, or "tables", noise on the tables of pairs that they come from.
        epsilon: of the selection; inf for CFS-Greedy itself.
    """
    scores = feature_scores.uncertainty(_release(how)(counted(table, unit), epsilon, rng))
    return as_columns(table, unit, feature_search.cfs_greedy(*feature_scores.split_label(scores)))


def _release(how: str):
    one_of("entropies", "tables").check("how", how)
    return feature_scores.private_entropies if how == "entropies" else feature_scores.private_tables


def agreement(dataset: str, split: int, unit: str, how: str, epsilon: float, repeats: int, seed: int) -> dict:
    """How a private selection compares with CFS-Greedy without noise, a run for :mod:`dplib.study`.

    Returns:
        first: share of the draws whose first feature is the true first. jaccard: mean overlap of the chosen columns.
        merit: mean of the true merit of the choice over that of CFS-Greedy's. error: mean absolute error of the
        uncertainty with the label.
    """
    table = feature_data.load(dataset, split)
    counts = counted(table, unit)
    relevance, redundancy = feature_scores.relevance_and_redundancy(counts)
    m = len(relevance)
    true = feature_search.cfs_greedy(relevance, redundancy)
    best = float(feature_scores.merit(feature_search.subset(true, m), relevance, redundancy)[0])
    rng = np.random.default_rng([seed, split, 5])
    rows = []
    for _ in range(repeats):
        noisy = feature_scores.split_label(feature_scores.uncertainty(_release(how)(counts, epsilon, rng)))
        chosen = feature_search.cfs_greedy(*noisy)
        both = len(set(chosen) & set(true)) / len(set(chosen) | set(true))
        worth = feature_scores.merit(feature_search.subset(chosen, m), relevance, redundancy)[0] / best
        rows.append([chosen[0] == true[0], both, worth, np.abs(noisy[0] - relevance).mean(), len(chosen)])
    names = ("first", "jaccard", "merit", "error", "size")
    return dict(zip(names, np.mean(np.array(rows, dtype=float), axis=0).tolist(), strict=True))
