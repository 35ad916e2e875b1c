"""The searches of paper B (Section VIII-A): PAAS (Algorithm 1), Evolve (Algorithm 2), randomised search, and MGRS.

A search sees networks only through its *trainer*: a function from (network, how often it was trained before) to results
with a "validation" accuracy. With SGD inside, and DP-SGD for the winner, a search is the standard workflow (STW); with
DP-SGD inside it is the privacy-aware one (PAW). Nothing here says what a search costs in privacy: that is
:mod:`dplib.architecture.search_budgets`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dplib import checks
from dplib.architecture.space import Genome, Space, key, network_of

Network = dict[str, Any]
Decoder = Callable[[Genome], Network]
Trainer = Callable[[Sequence[tuple[Network, int]]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Candidate:
    """One row of a search's trace.

    Attributes:
        generation: from 1. network: as :func:`dplib.architecture.space.network_of`.
        fitness: validation accuracy with the search's noise: what the search saw.
        validation: the same without noise; a training that diverged counts as 0.
        result: all that the trainer said of it.
    """

    generation: int
    network: Network
    fitness: float
    validation: float
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """What a search returns, its trace in the order of the candidates, and what a budget has to pay for."""

    winner: Candidate
    trace: tuple[Candidate, ...]
    trainings: int


@dataclass
class _Fitness:
    """Trains what was not trained before, and adds Laplace noise once to every validation accuracy.

    Noise that stays with a training makes the number of noisy releases that of the trainings, not that of the rankings.
    """

    trainer: Trainer
    noise_scale: float
    rng: np.random.Generator
    memoise: bool = True
    decode: Decoder = network_of
    known: dict[str, tuple[float, float, Mapping[str, Any]]] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    trace: list[Candidate] = field(default_factory=list)

    def rank(self, generation: int, members: Sequence[Genome]) -> list[tuple[Genome, Candidate]]:
        """The members with their rows of the trace, the highest fitness first; of equal ones the first drawn."""
        networks, asked = [self.decode(genome) for genome in members], {}
        for place, network in enumerate(networks):
            if not self.memoise or key(network) not in self.times:
                asked[place] = network, self.times[key(network)]
                self.times[key(network)] += 1
        results = dict(zip(asked, self.trainer(list(asked.values())), strict=True)) if asked else {}
        rows = []
        for place, network in enumerate(networks):
            if place in results:
                validation = results[place]["validation"] or 0.0
                noise = self.rng.laplace(0, self.noise_scale) if self.noise_scale else 0.0
                self.known[key(network)] = validation + noise, validation, results[place]
            rows.append(Candidate(generation, network, *self.known[key(network)]))
        self.trace += rows
        return sorted(zip(members, rows, strict=True), key=lambda pair: -pair[1].fitness)

    def found(self, winner: Candidate) -> Found:
        return Found(winner, tuple(self.trace), self.times.total())


@dataclass(frozen=True)
class Evolution:
    """The proportions of Algorithm 2, whose values the paper does not give.

    The defaults are ours: the paper names a program as its model (footnote 8), but no version of it.

    Attributes:
        alpha: share of the population kept as parents for its rank.
        beta: share of the population kept as parents by chance.
        mutation: probability that a child is mutated.
        distinct: a child that is there already is drawn again, up to 100 times on average: see :func:`evolve`.
    """

    alpha: float = 0.4
    beta: float = 0.1
    mutation: float = 0.2
    distinct: bool = False

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "mutation"):
            checks.number(0, 1).check(name, getattr(self, name))


def evolve(space: Space, ranked: Sequence[Genome], how: Evolution, rng: np.random.Generator) -> list[Genome]:
    """Algorithm 2: the next population, of the same size, from one that is ranked by fitness, best first.

    Line 2 prints a set N_t that is nowhere defined: N_alpha is meant. Lines 4 to 8 build a *set*, into which a child
    that is there already cannot be added; read so the loop need not end (parents that agree have one child), and we
    read a list, or, with ``how.distinct``, a set as long as new children turn up. Two parents are kept at least, or
    all where there are fewer.
    """
    n = len(ranked)
    top = min(n, max(2, round(how.alpha * n)))
    rest = list(ranked[top:])  # N without N_alpha
    lucky = rng.permutation(len(rest))[: min(len(rest), round(how.beta * n))]
    parents = [*ranked[:top], *(rest[i] for i in lucky)]  # line 3
    children: list[Genome] = []  # line 4
    repeats = 100 * n if how.distinct else 0
    while len(children) < n:  # line 5
        first, second = (parents[rng.integers(len(parents))] for _ in range(2))  # line 6
        child = space.crossover(first, second, rng)  # line 7
        if repeats and child in children:
            repeats -= 1
            continue
        children.append(child)  # line 8
    return [space.mutate(a, rng) if rng.random() < how.mutation else a for a in children]  # lines 10 and 11


def paas(
    space: Space,
    trainer: Trainer,
    *,
    generations: int,
    population: int,
    noise_scale: float,
    rng: np.random.Generator,
    evolution: Evolution | None = None,
    decode: Decoder = network_of,
) -> Found:
    """Algorithm 1, genetic architecture search; a network that was trained is not trained again.

    Args:
        space: H. generations: l. population: k.
        noise_scale: of the Laplace noise on validation accuracies, Delta / epsilon'; 0: none.
        rng: decides draws and noise, by two streams: searches that differ in the noise's scale alone begin alike.
        decode: a member of the space to its network.

    Raises:
        ParameterError: for a number that is not allowed.
    """
    checks.integer(1).check("generations", generations)
    checks.integer(1).check("population", population)
    checks.number(0, 1e9).check("noise_scale", noise_scale)
    draws, noise = rng.spawn(2)
    fitness = _Fitness(trainer, noise_scale, noise, decode=decode)
    members = [space.draw(draws) for _ in range(population)]  # line 1
    for generation in range(1, generations + 1):  # line 2
        ranked = fitness.rank(generation, members)  # lines 3 and 4
        if generation < generations:  # line 5
            members = evolve(space, [genome for genome, _ in ranked], evolution or Evolution(), draws)  # line 6
    return fitness.found(ranked[0][1])  # lines 9 and 10


def randomised(space: Space, trainer: Trainer, *, k: int, rng: np.random.Generator, memoise: bool = True) -> Found:
    """RS: k independent draws, the best of which is kept. Equal generators draw what PAAS and MGRS draw first."""
    return multi_generation(space, trainer, sizes=[k], p_mutate=0.0, rng=rng, memoise=memoise)


def multi_generation(
    space: Space,
    trainer: Trainer,
    *,
    sizes: Sequence[int],
    p_mutate: float,
    rng: np.random.Generator,
    noise_scale: float = 0.0,
    memoise: bool = True,
) -> Found:
    """MGRS: randomised search in each of several generations; the best of the last is returned.

    The paper says that "the architecture" is mutated, and not which one. We read: that which won the generation, since
    mutants of a random member would not depend on any training, and the search would be one randomised search.

    Args:
        sizes: k_1, ..., k_l. p_mutate: p, probability that a member is a mutant and not a fresh draw.
        noise_scale, rng: as in :func:`paas`. memoise: a network that was trained is not trained again.

    Raises:
        ParameterError: for a number that is not allowed.
    """
    checks.number(0, 1e9).check("noise_scale", noise_scale)
    checks.list_of(checks.integer(1)).check("sizes", list(sizes))
    checks.number(0, 1).check("p_mutate", p_mutate)
    draws, noise = rng.spawn(2)
    fitness = _Fitness(trainer, noise_scale, noise, memoise)
    members = [space.draw(draws) for _ in range(sizes[0])]
    for generation, after in enumerate([*sizes[1:], 0], 1):
        ranked = fitness.rank(generation, members)
        members = next_members(space, ranked[0][0], after, p_mutate, draws)
    return fitness.found(ranked[0][1])


def next_members(space: Space, winner: Genome, count: int, p_mutate: float, rng: np.random.Generator) -> list[Genome]:
    """The next population of MGRS: each member is a mutant of the winner with probability ``p_mutate``, or new."""
    return [space.mutate(winner, rng) if rng.random() < p_mutate else space.draw(rng) for _ in range(count)]
