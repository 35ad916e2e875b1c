"""CFS on the chapter's tables: records as codes, by columns or by attributes, and selections with and without privacy.

Hall's CFS scores attributes; paper B encodes first, and scores columns of 0 and 1. Both are here.
"""

import functools

import numpy as np

from dplib import runs
from dplib.architecture import feature_data, feature_scores, feature_search
from dplib.checks import one_of

UNITS = ("columns", "attributes")
BINS = 10  # equal bins of [0, 1] for a number: edges that no record decides
FINE = 100  # the same where nothing is made private


def coded(table: feature_data.Features, unit: str, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """The training records and their label as codes (n, v) with levels (v,): see :mod:`architecture.feature_scores`.

    Args:
        unit: "columns", every column a variable of two levels (a number: ``bins`` levels); or "attributes", every
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
            columns.append(np.minimum(part[:, 0] * bins, bins - 1).astype(int))
            levels.append(bins)
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


def order(table: feature_data.Features, k: int) -> list[int]:
    """The first k columns in the order of CFS-Greedy (Algorithm 3) on the training part; not private.

    Numbers fall into :data:`FINE` equal parts of [0, 1]: a year of age, 1,000 dollars of gain.
    """
    found = feature_scores.relevance_and_redundancy(feature_scores.count(*coded(table, "columns", FINE)))
    return feature_search.cfs_greedy(*found, k)


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


@runs.experiment(
    "feature_private_cfs", version=1, data=("dataset",),
    probe={"dataset": "synthetic-recurrence", "seed": 0, "unit": "attributes", "how": "tables", "epsilon": 10.0},
)  # fmt: skip
def agreement(*, dataset: str, seed: int, unit: str, how: str, epsilon: float, repeats: int = 10) -> runs.Result:
    """How a private selection compares with CFS-Greedy without noise, on the split of the seed.

    Returns:
        first: share of the draws whose first feature is the true first. jaccard: mean overlap of the chosen columns.
        merit: mean of the true merit of the choice over that of CFS-Greedy's. error: mean absolute error of the
        uncertainty with the label.
    """
    table = feature_data.load(dataset, seed)
    counts = counted(table, unit)
    relevance, redundancy = feature_scores.relevance_and_redundancy(counts)
    m = len(relevance)
    true = feature_search.cfs_greedy(relevance, redundancy)
    best = float(feature_scores.merit(feature_search.subset(true, m), relevance, redundancy)[0])
    rng = np.random.default_rng([0, seed, 5])
    rows = []
    for _ in range(repeats):
        noisy = feature_scores.split_label(feature_scores.uncertainty(_release(how)(counts, epsilon, rng)))
        chosen = feature_search.cfs_greedy(*noisy)
        both = len(set(chosen) & set(true)) / len(set(chosen) | set(true))
        worth = feature_scores.merit(feature_search.subset(chosen, m), relevance, redundancy)[0] / best
        rows.append([chosen[0] == true[0], both, worth, np.abs(noisy[0] - relevance).mean(), len(chosen)])
    names = ("first", "jaccard", "merit", "error", "size")
    means = np.mean(np.array(rows, dtype=float), axis=0)
    return {name: float(f"{mean:.10g}") for name, mean in zip(names, means, strict=True)}
