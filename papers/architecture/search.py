"""Paper B's search spaces (Tables XI, XII) and searches (Section VIII-A): PAAS, Evolve, randomised search, and MGRS.

A genome has a value for every entry of its space, also for those that do not show: the third layer's units of a network
with one layer. Equal networks may have different genomes; a search trains a network once (:func:`network_of`).
A search sees networks only through its *trainer*: a function from (network, how often it was trained before) to results
with a "validation" accuracy. With SGD inside, and DP-SGD for the winner, a search is the standard workflow (STW); with
DP-SGD inside it is the privacy-aware one (PAW). What it costs: :mod:`dplib.search_budgets`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

Genome = dict[str, Any]

_LAYERS = (1, 2, 3)
_ACTIVATIONS = ("relu", "sigmoid", "tanh")


@dataclass(frozen=True)
class Space:
    """A search space H: each entry with the values it may take (paper B, Section VIII-A)."""

    entries: Mapping[str, tuple[Any, ...]]

    def draw(self, rng: np.random.Generator) -> Genome:
        """A uniformly random genome: every entry uniform, independent of the others.

        So each number of layers has the same probability, although there are far more networks with three layers.
        """
        return {name: _pick(values, rng) for name, values in self.entries.items()}

    def crossover(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """Every entry from one of two parents, each with probability one half."""
        return {name: (first, second)[rng.integers(2)][name] for name in self.entries}

    def mutate(self, genome: Genome, rng: np.random.Generator) -> Genome:
        """A copy in which one random entry has another value, where it has more than one."""
        name = _pick([n for n, values in self.entries.items() if len(values) > 1], rng)
        others = [value for value in self.entries[name] if value != genome[name]]
        return {**genome, name: _pick(others, rng)}

    def genomes(self) -> list[Genome]:
        """All of them."""
        return [dict(zip(self.entries, values, strict=True)) for values in product(*self.entries.values())]

    def networks(self) -> list[dict[str, Any]]:
        """All different networks, as :func:`network_of` gives them."""
        distinct = {key(network): network for network in map(network_of, self.genomes())}
        return list(distinct.values())


FCN = Space(
    {
        "layers": _LAYERS,
        "units1": (64, 128, 512, 1024, 2048),
        "units2": (64, 128, 256),
        "units3": (10, 16, 32, 64),
        **{f"activation{i}": _ACTIVATIONS for i in _LAYERS},
    }
)  # paper B, Table XI: 1,770 networks

CNN = Space({"blocks": (2, 3), "filters": (16, 32, 48), "units": (32, 64, 128, 512)})  # Table XII: 24 networks


def with_freezing(space: Space) -> Space:
    """The space with an entry for every hidden layer: whether it is trained (paper B, Section IX-A, for RS).

    The paper says "every layer"; here the output layer is always trained.
    """
    return Space({**space.entries, **{f"trained{i}": (True, False) for i in space.entries["layers"]}})


def network_of(genome: Genome) -> dict[str, Any]:
    """The network of a genome: arguments "model", "activation" and "frozen" of
    :func:`papers.common.network_runs.network_training`.
    """
    if "blocks" in genome:
        return {
            "model": {"filters": [genome["filters"] * 2**i for i in range(genome["blocks"])], "units": genome["units"]}
        }
    hidden = range(1, genome["layers"] + 1)
    network = {"model": [genome[f"units{i}"] for i in hidden], "activation": [genome[f"activation{i}"] for i in hidden]}
    frozen = [i - 1 for i in hidden if not genome.get(f"trained{i}", True)]
    return {**network, "frozen": frozen} if frozen else network


def key(network: Mapping[str, Any]) -> str:
    """A text that equal networks share."""
    model = network["model"]
    if isinstance(model, dict):
        return "conv " + "-".join(map(str, model["filters"])) + f" dense {model['units']}"
    layers = [f"{units} {name}" for units, name in zip(model, network["activation"], strict=True)]
    for position in network.get("frozen", ()):
        layers[position] += " frozen"
    return ", ".join(layers)


def rate_cell(network: Mapping[str, Any]) -> str:
    """The kind of network that shares a learning rate: depth, and how many of its layers are sigmoids, frozen or not.

    A sigmoid passes on at most a quarter of a gradient: with one rate for all networks, a search would only learn to
    avoid sigmoids.
    """
    if isinstance(network["model"], dict):
        return f"conv {len(network['model']['filters'])}"
    return f"{len(network['model'])} layers, {network['activation'].count('sigmoid')} sigmoid"


def job(network: Mapping[str, Any], rates: Mapping[str, float], **settings: Any) -> dict[str, Any]:
    """A job of :func:`papers.common.network_runs.network_training`: the network, the learning rate of its kind, and the
    settings.
    """
    return {**network, "learning_rate": rates[rate_cell(network)], **settings}


def _pick(values, rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]


Network = dict[str, Any]
Decoder = Callable[[Genome], Network]
Trainer = Callable[[Sequence[tuple[Network, int]]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Candidate:
    """One row of a search's trace, of a generation from 1: ``validation`` accuracy (0 where a training diverged),
    ``fitness``, the same with the noise of the search, and ``result``, all that the trainer said.
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

    def ended(self, winner: Candidate) -> Found:
        return Found(winner, tuple(self.trace), self.times.total())


@dataclass(frozen=True)
class Evolution:
    """The proportions of Algorithm 2, whose values the paper does not give: these are ours.

    ``alpha``: share of the population kept as parents for its rank; ``beta``: by chance; ``mutation``: probability that
    a child is mutated; ``distinct``: a child that is there already is drawn again, up to 100 times on average.
    """

    alpha: float = 0.4
    beta: float = 0.1
    mutation: float = 0.2
    distinct: bool = False


def evolve(space: Space, ranked: Sequence[Genome], how: Evolution, rng: np.random.Generator) -> list[Genome]:
    """Algorithm 2: the next population, of the same size, from one that is ranked by fitness, best first.

    Line 2 prints a set N_t that is nowhere defined: N_alpha is meant. Lines 4 to 8 build a *set*, into which a child
    that is there already cannot be added; read so the loop need not end (parents that agree have one child), and we
    read a list, or, with ``how.distinct``, a set as long as new children turn up. At least two are parents.
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

    The first members are drawn independently of each other: two may be equal.

    Args:
        space: H. generations: l. population: k. decode: a member of the space to its network.
        noise_scale: of the Laplace noise on validation accuracies, Delta / epsilon'; 0: none.
        rng: decides draws and noise, by two streams: searches that differ in the noise's scale alone begin alike.
    """
    draws, noise = rng.spawn(2)
    fitness = _Fitness(trainer, noise_scale, noise, decode=decode)
    members = [space.draw(draws) for _ in range(population)]  # line 1
    for generation in range(1, generations + 1):  # line 2
        ranked = fitness.rank(generation, members)  # lines 3 and 4
        if generation < generations:  # line 5
            members = evolve(space, [genome for genome, _ in ranked], evolution or Evolution(), draws)  # line 6
    return fitness.ended(ranked[0][1])  # lines 9 and 10


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
    """MGRS: randomised search in each of several generations, of k_1, ..., k_l members; returns the best of the last.

    The paper says that "the architecture" is mutated, and not which one. We read: that which won the generation, since
    mutants of a random member would not depend on any training, and the search would be one randomised search.

    Args:
        p_mutate: p, probability that a member is a mutant and not a fresh draw. noise_scale, rng: as in :func:`paas`.
        memoise: a network that was trained is not trained again.
    """
    draws, noise = rng.spawn(2)
    fitness = _Fitness(trainer, noise_scale, noise, memoise)
    members = [space.draw(draws) for _ in range(sizes[0])]
    for generation, after in enumerate([*sizes[1:], 0], 1):
        ranked = fitness.rank(generation, members)
        members = next_members(space, ranked[0][0], after, p_mutate, draws)
    return fitness.ended(ranked[0][1])


def next_members(space: Space, winner: Genome, count: int, p_mutate: float, rng: np.random.Generator) -> list[Genome]:
    """The next population of MGRS: each member is a mutant of the winner with probability ``p_mutate``, or new."""
    return [space.mutate(winner, rng) if rng.random() < p_mutate else space.draw(rng) for _ in range(count)]
