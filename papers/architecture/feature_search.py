"""Searches over sets of features: CFS-Greedy, CFS-GA and PAFS of paper B (Algorithms 3 and 4), and random search.

A set S of m features is a row of bool. Comments give the line numbers of the paper's pseudocode. Nothing here adds
noise but :func:`private_choice`: what a search costs is decided by the fitness that it is given.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dplib import checks
from papers.architecture import feature_data, feature_scores
from papers.architecture.feature_scores import merit

DIGITS = 10  # to which merits are compared: ties are common (two levels of one attribute), and rounding is no reason
Fitness = Callable[[np.ndarray], np.ndarray]  # subsets (s, m), all different and not seen before, to fitness (s,)


def cfs_greedy(relevance, redundancy, k: int | None = None) -> list[int]:
    """Algorithm 3, CFS-Greedy: the features in the order in which they are added; of equal merits the first.

    ``k``: how many; None to stop as soon as no feature raises the merit (the alternative that the text names).
    """
    m = len(relevance)
    checks.integer(1, m).check("k", m if k is None else k)
    S: list[int] = []  # line 1
    reached = 0.0
    while len(S) < (m if k is None else k):  # line 2
        rest = [s for s in range(m) if s not in S]
        merits = np.round(merit([subset([*S, s], m) for s in rest], relevance, redundancy), DIGITS)
        best = int(np.argmax(merits))  # line 3
        if k is None and S and merits[best] <= reached:
            break
        S, reached = [*S, rest[best]], merits[best]  # line 4
    return S  # line 6


@dataclass(frozen=True)
class Genetic:
    """Settings of Algorithm 4: k, l, and alpha, the share of the population that has children (two subsets at least).

    p_co, p_mu, and the share of the features that a mutation flips are those of the package that the paper names as its
    model (FeatureSelectionGA); the rest, 1 - p_co - p_mu, are copies of the first parent.
    """

    population: int
    generations: int
    parents: float = 0.3
    crossover: float = 0.5
    mutation: float = 0.2
    flip: float = 0.1


@dataclass(frozen=True)
class Found:
    """What a search did: the ``best`` subset (m,) of the last population and its ``fitness``; the ``scores`` of all
    subsets in the order of their evaluation; how often each of the ``moves`` was drawn.
    """

    best: np.ndarray
    fitness: float
    scores: np.ndarray
    moves: dict[str, int]


def genetic(fitness: Fitness, m: int, settings: Genetic, rng: np.random.Generator, draw=None) -> Found:
    """Algorithm 4: a genetic search over the subsets of m features; with the merit as fitness it is CFS-GA.

    Lines 5 and 11 print a set, to which the copies of line 10 add nothing; we read a list, the "collection" of line 1.
    The "distinct" parents of line 7 are two members of it, which may be equal. ``fitness`` is asked once for each
    distinct subset, for all new ones of a population together (memoisation). ``draw`` gives a random subset of line 1;
    by default :func:`random_subset`.
    """
    known: dict[bytes, float] = {}
    moves = dict.fromkeys(("crossover", "mutation", "copy"), 0)

    def remembered(population: list[np.ndarray]) -> np.ndarray:
        new = {S.tobytes(): S for S in population if S.tobytes() not in known}
        if new:
            scores = np.asarray(fitness(np.array(list(new.values()))), dtype=float)
            known.update(zip(new, scores.tolist(), strict=True))
        return np.array([known[S.tobytes()] for S in population])

    draw = draw or (lambda: random_subset(m, rng))
    P = [draw() for _ in range(settings.population)]  # line 1
    n_parents = max(2, round(settings.parents * settings.population))
    for _ in range(settings.generations):  # line 2
        ranked = np.argsort(-remembered(P), kind="stable")  # line 3
        parents = [P[i] for i in ranked[:n_parents]]  # line 4
        P = []  # line 5
        while len(P) < settings.population:  # line 6
            first, second = rng.choice(len(parents), 2, replace=False)  # line 7
            S1, S2 = parents[first], parents[second]
            u = rng.random()
            if u < settings.crossover:  # line 8
                move, Q = "crossover", crossover(S1, S2, rng)
            elif u < settings.crossover + settings.mutation:  # line 9
                move, Q = "mutation", mutate(S1, settings.flip, rng)
            else:  # line 10
                move, Q = "copy", S1
            moves[move] += 1
            if Q.any():  # the empty set is not a model of features
                P.append(Q)  # line 11
    scores = remembered(P)
    best = int(np.argmax(scores))  # line 14
    return Found(P[best], float(scores[best]), np.array(list(known.values())), moves)  # line 15


def cfs_ga(relevance, redundancy, settings: Genetic, rng) -> Found:
    """Algorithm 4 with the merit as fitness."""

    def fitness(subsets):
        return np.round(merit(subsets, relevance, redundancy), DIGITS)

    return genetic(fitness, len(relevance), settings, rng)


def random_subset(m: int, rng: np.random.Generator, k: int | None = None) -> np.ndarray:
    """A non-empty subset, uniformly at random: of all 2^m - 1, or of those of k features."""
    if k is not None:
        return subset(rng.choice(m, k, replace=False), m)
    while True:
        S = rng.random(m) < 0.5
        if S.any():
            return S


def crossover(S1: np.ndarray, S2: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two-point crossover: S1, but with S2's choice between two random points."""
    low, high = np.sort(rng.choice(len(S1) + 1, 2, replace=False))
    Q = S1.copy()
    Q[low:high] = S2[low:high]
    return Q


def mutate(S1: np.ndarray, flip: float, rng: np.random.Generator) -> np.ndarray:
    """S1 with each feature's membership flipped with probability ``flip``."""
    return S1 ^ (rng.random(len(S1)) < flip)


def exhaustive(relevance, redundancy) -> tuple[np.ndarray, float]:
    """The best of all 2^m - 1 subsets by merit, and that merit."""
    m = len(relevance)
    all_subsets = (np.arange(1, 2**m)[:, None] >> np.arange(m)) & 1 > 0
    merits = merit(all_subsets, relevance, redundancy)
    best = int(np.argmax(merits))
    return all_subsets[best], float(merits[best])


def subset(features, m: int) -> np.ndarray:
    """The row of bool of the given features."""
    S = np.zeros(m, dtype=bool)
    S[np.asarray(features, dtype=int)] = True
    return S


# --- CFS on the tables of the chapter: Hall scores attributes, paper B encodes first and scores columns ---------------

BINS = 10  # equal bins of [0, 1] for a number: edges that no record decides
FINE = 100  # the same where nothing is made private


def coded(table: feature_data.Features, unit: str, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """The training records and their label as codes (n, v) with levels (v,): see
    :mod:`papers.architecture.feature_scores`.

    ``unit``: "columns", every column a variable of two levels (a number: ``bins`` levels); or "attributes", every
    categorical attribute a variable with its published levels.
    """
    owner = table.attribute_of
    numeric = np.bincount(owner)[owner] == 1  # a number has one column
    columns, levels = [], []
    for group in range(table.d) if unit == "columns" else range(len(table.attributes)):
        members = [group] if unit == "columns" else np.flatnonzero(owner == group)
        part = table.x_train[:, members]
        if len(members) > 1:
            column, size = part.argmax(axis=1), len(members)
        elif numeric[members[0]]:
            column, size = np.minimum(part[:, 0] * bins, bins - 1), bins
        else:
            column, size = part[:, 0], 2
        columns.append(column.astype(int))
        levels.append(size)
    return np.column_stack([*columns, table.y_train.astype(int)]), np.array([*levels, 2])


@functools.lru_cache(maxsize=8)
def counted(table: feature_data.Features, unit: str) -> feature_scores.Counts:
    """The exact tables of pairs of the training part; kept, as many noisy copies are made of them."""
    return feature_scores.count(*coded(table, unit))


def as_columns(table: feature_data.Features, unit: str, chosen) -> np.ndarray:
    """A choice of variables, as positions, as a mask of columns (d,): all columns of a chosen attribute."""
    if unit == "columns":
        return subset(chosen, table.d)
    return np.isin(table.attribute_of, np.asarray(chosen, dtype=int))


def order(table: feature_data.Features, k: int) -> list[int]:
    """The first k columns in the order of CFS-Greedy (Algorithm 3) on the training part; not private.

    Numbers fall into :data:`FINE` equal parts of [0, 1]: a year of age, 1,000 dollars of gain.
    """
    scores = feature_scores.relevance_and_redundancy(feature_scores.count(*coded(table, "columns", FINE)))
    return cfs_greedy(*scores, k)


def private_choice(table, unit: str, how: str, epsilon: float, rng) -> np.ndarray:
    """CFS-Greedy on private entropies, until no feature raises the merit: a mask of columns (d,), epsilon-DP.

    Neighbours replace one training record; the choice is post-processing of noise on "entropies" or on "tables" of
    pairs (``how``). ``epsilon``: inf for CFS-Greedy itself.
    """
    scores = feature_scores.uncertainty(release(how)(counted(table, unit), epsilon, rng))
    return as_columns(table, unit, cfs_greedy(*feature_scores.split_label(scores)))


def release(how: str) -> Callable:
    """What makes counts private: by noise on \"entropies\", or on \"tables\" of pairs."""
    return {"entropies": feature_scores.private_entropies, "tables": feature_scores.private_tables}[how]
