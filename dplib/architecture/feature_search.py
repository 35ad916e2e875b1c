"""Searches over sets of features: CFS-Greedy, CFS-GA and PAFS of paper B (Algorithms 3 and 4), and random search.

A set S of m features is a row of bool. The functions follow the steps of the paper's pseudocode; comments give its line
numbers. Where the pseudocode is silent, the choice is an argument. Nothing here adds noise: what a search costs is
decided by the fitness that it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dplib import checks
from dplib.architecture.feature_scores import merit

DIGITS = 10  # to which merits are compared: ties are common (two levels of one attribute), and rounding is no reason
Fitness = Callable[[np.ndarray], np.ndarray]  # subsets (s, m), all different and not seen before, to fitness (s,)


def cfs_greedy(relevance, redundancy, k: int | None = None) -> list[int]:
    """Algorithm 3, CFS-Greedy: the features in the order in which they are added.

    Args:
        relevance: shape (m,). redundancy: shape (m, m), symmetric: see :func:`dplib.architecture.feature_scores.merit`.
        k: how many; None to stop as soon as no feature raises the merit (the alternative that the text names).

    Of equal merits the first feature counts.
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
    """Settings of Algorithm 4, C and the fitness apart. Of those, paper B prints k and l only.

    Args:
        population: k. generations: l.
        parents: alpha, the share of the population that has children; at least two subsets.
        crossover: p_co. mutation: p_mu; the rest, 1 - p_co - p_mu, are copies of the first parent. The defaults 0.5 and
            0.2 are those of the package that the paper names as its model (FeatureSelectionGA), as is the flip rate.
        flip: share of the features that a mutation flips, each by itself.
        elitism: carry the best subset seen so far into each new population; not in the paper.
    """

    population: int
    generations: int
    parents: float = 0.3
    crossover: float = 0.5
    mutation: float = 0.2
    flip: float = 0.1
    elitism: bool = False

    def __post_init__(self):
        checks.integer(2).check("population", self.population)
        checks.integer(0).check("generations", self.generations)
        checks.fraction().check("parents", self.parents)
        checks.number(0, 1).check("crossover", self.crossover)
        checks.number(0, 1 - self.crossover).check("mutation", self.mutation)
        checks.fraction().check("flip", self.flip)
        checks.boolean().check("elitism", self.elitism)


@dataclass(frozen=True)
class Found:
    """What a search did.

    Attributes:
        best: bool (m,), what Algorithm 4 returns: the best subset of the last population.
        fitness: its fitness, by the one evaluation that it had.
        subsets: bool (c', m), every distinct subset evaluated, in order. scores: (c',) their fitness.
        generation: (c',) the population in which each first occurred, 0 for the random ones.
        evaluations: fitness values asked for, k (l + 1), memory or not.
        moves: how often each of "crossover", "mutation" and "copy" was drawn.
    """

    best: np.ndarray
    fitness: float
    subsets: np.ndarray
    scores: np.ndarray
    generation: np.ndarray
    evaluations: int
    moves: dict[str, int]


def genetic(fitness: Fitness, m: int, settings: Genetic, rng: np.random.Generator, draw=None) -> Found:
    """Algorithm 4: a genetic search over the subsets of m features; with the merit as fitness it is CFS-GA.

    Args:
        fitness: is asked once for each distinct subset, for all new ones of a population together (memoisation).
        rng: decides all choices of the search.
        draw: called without arguments for a random subset of line 1; by default :func:`random_subset`.
    """
    memory, moves = Memory(fitness), dict.fromkeys(("crossover", "mutation", "copy"), 0)
    draw = draw or (lambda: random_subset(m, rng))
    P = [draw() for _ in range(settings.population)]  # line 1
    n_parents = max(2, round(settings.parents * settings.population))
    for _ in range(settings.generations):  # line 2
        scores = memory(P)
        ranked = np.argsort(-scores, kind="stable")  # line 3
        parents = [P[i] for i in ranked[:n_parents]]  # line 4
        P = [memory.best()] if settings.elitism else []  # line 5
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
    scores = memory(P)
    best = int(np.argmax(scores))  # line 14
    return Found(P[best], float(scores[best]), *memory.seen(), memory.asked, moves)  # line 15


def cfs_ga(relevance, redundancy, settings: Genetic, rng) -> Found:
    """Algorithm 4 with the merit as fitness."""

    def fitness(subsets):
        return np.round(merit(subsets, relevance, redundancy), DIGITS)

    return genetic(fitness, len(relevance), settings, rng)


def pafs(accuracy: Fitness, m: int, settings: Genetic, rng) -> Found:
    """PAFS: Algorithm 4 with the accuracy of privately trained models as fitness.

    Args:
        accuracy: trains with differential privacy on each of the new subsets and measures. On which records it
            measures decides whether the search is honest: test records (as the paper says) or validation records.
    """
    return genetic(accuracy, m, settings, rng)


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
    """The best of all 2^m - 1 subsets by merit, and that merit; m at most 20."""
    m = len(relevance)
    checks.integer(1, 20).check("m", m)
    all_subsets = (np.arange(1, 2**m)[:, None] >> np.arange(m)) & 1 > 0
    merits = merit(all_subsets, relevance, redundancy)
    best = int(np.argmax(merits))
    return all_subsets[best], float(merits[best])


def subset(features, m: int) -> np.ndarray:
    """The row of bool of the given features."""
    S = np.zeros(m, dtype=bool)
    S[np.asarray(features, dtype=int)] = True
    return S


@dataclass
class Memory:
    """Each distinct subset is evaluated once, all new ones of a population in one call."""

    fitness: Fitness
    known: dict[bytes, float] = field(default_factory=dict)
    order: list[tuple[np.ndarray, int]] = field(default_factory=list)
    asked: int = 0
    rounds: int = 0

    def __call__(self, population: list[np.ndarray]) -> np.ndarray:
        new = {S.tobytes(): S for S in population if S.tobytes() not in self.known}
        if new:
            scores = np.asarray(self.fitness(np.array(list(new.values()))), dtype=float)
            self.known |= dict(zip(new, scores.tolist(), strict=True))
            self.order += [(S, self.rounds) for S in new.values()]
        self.asked += len(population)
        self.rounds += 1
        return np.array([self.known[S.tobytes()] for S in population])

    def best(self) -> np.ndarray:
        return self.order[int(np.argmax(list(self.known.values())))][0]

    def seen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        subsets, rounds = zip(*self.order, strict=True)
        return np.array(subsets), np.array(list(self.known.values())), np.array(rounds)
