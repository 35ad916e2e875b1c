"""Many searches for the price of one: on a table of every network of a small space, or on draws that can be reordered.

The draws of a randomised search are exchangeable, so that k of its 400 draws are a randomised search of k; and where
every network of a small space has been trained, thousands of searches can be replayed on that table. The fitness of a
table may also be a known one, for which nothing is trained.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from book.evidence import runs
from papers.architecture.search import FCN, Evolution, Network, Space, job, key, network_of, paas
from papers.common.network_runs import network_training

FRESH = 1000  # repeats from here on are for reports
TARGET = {"model": [512, 128], "activation": ["relu", "tanh"]}  # best of the known fitness


def best_of_k(scores: np.ndarray, values: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Expected value of the draw with the best score among k random draws of those given, exactly, for all ks.

    The draw of rank r (from 0) is the best of k without replacement with probability C(n - 1 - r, k - 1) / C(n, k); of
    equal ``scores`` (n,) the first counts. ``values`` (n,): what is wanted of the best.
    """
    scores, values = np.asarray(scores, dtype=float), np.asarray(values, dtype=float)
    n = len(scores)
    ordered = values[np.argsort(-scores, kind="stable")]
    below = n - 1 - np.arange(n)

    def log_choose(a, b):
        a = np.asarray(a, dtype=float)
        return special.gammaln(a + 1) - special.gammaln(b + 1) - special.gammaln(np.maximum(a - b, 0) + 1)

    expected = []
    for k in ks:
        weights = np.where(below >= k - 1, np.exp(log_choose(below, k - 1) - log_choose(n, k)), 0.0)
        expected.append(weights @ ordered)
    return np.array(expected)


def training_seed(network: Network, repeat: int) -> int:
    """The seed of a training: other networks and other repeats have other ones."""
    return int.from_bytes(hashlib.sha256(f"{key(network)}/{repeat}".encode()).digest()[:4], "big")


class Table:
    """A trainer that only looks up: key of a network (:func:`papers.architecture.search.key`) to its result."""

    def __init__(self, results: Mapping[str, Mapping[str, Any]]):
        self.results = results

    def __call__(self, asked: Sequence[tuple[Network, int]]) -> list[Mapping[str, Any]]:
        return [self.results[key(network)] for network, _ in asked]


def complete(space: Space, trainer, report: int = 0) -> Table:
    """Every network of a small space, trained; a test accuracy of a training that diverged counts as 0.

    ``report``: repeat whose training gives the test accuracy. With another than 0 a search on the table chooses by one
    training and is judged by a second one: it returns a network, and no luck of its training.
    """
    networks = space.networks()
    chosen = trainer([(network, 0) for network in networks])
    tested = trainer([(network, report) for network in networks]) if report else chosen
    return Table(
        {key(n): {**a, "test": b.get("test") or 0.0} for n, a, b in zip(networks, chosen, tested, strict=True)}
    )


def small(space: Space, layers: int = 2, widest: float = np.inf) -> Space:
    """The networks of a space with at most so many hidden layers, of at most so many units."""
    kept = {name: values for name, values in space.entries.items() if not name[-1].isdigit() or int(name[-1]) <= layers}
    kept |= {name: tuple(v for v in kept[name] if v <= widest) for name in kept if name.startswith("units")}
    return Space({**kept, "layers": tuple(n for n in space.entries["layers"] if n <= layers)})


def replay(
    space: Space,
    table: Table,
    *,
    seeds: Sequence,
    noise_scale: float,
    generations: int,
    population: int,
    evolution: Evolution | None = None,
) -> dict[str, np.ndarray]:
    """Many searches on a complete table: PAAS with noise and without, and random draws with as many trainings.

    Equal ``seeds`` begin with the same draws; the other arguments are those of :func:`papers.architecture.search.paas`.

    Returns:
        Test values (seeds,) of the winners: "noise", "plain", "random" (the best of as many different networks as
        "plain" trained, without noise), "clean_pick" (the best noiseless score of all that "noise" trained); and
        "trainings" of "plain".
    """
    rows = []
    how = {"generations": generations, "population": population, "evolution": evolution}
    for seed in seeds:
        noise, plain = (
            paas(space, table, **how, noise_scale=scale, rng=np.random.default_rng(seed)) for scale in (noise_scale, 0)
        )
        best = max(noise.trace, key=lambda c: c.validation).result["test"]
        random = _random(space, table, plain.trainings, np.random.default_rng(seed).spawn(1)[0])
        rows.append([noise.winner.result["test"], plain.winner.result["test"], random, best, plain.trainings])
    names = ("noise", "plain", "random", "clean_pick", "trainings")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def _random(space: Space, table: Table, trainings: int, rng: np.random.Generator) -> float:
    seen: dict[str, Mapping[str, Any]] = {}
    while len(seen) < trainings:
        network = network_of(space.draw(rng))
        seen[key(network)] = table.results[key(network)]
    return max(seen.values(), key=lambda r: r["validation"] or 0.0)["test"]


class Known:
    """A fitness with a known optimum: the share of hidden units and activations that a target network agrees in.

    It stands in for trainings where a search itself is to be tested: the optimum, fitness 1, is the target alone.
    """

    def __init__(self, target: Network):
        self.target = target

    def __call__(self, asked: Sequence[tuple[Network, int]]) -> list[dict[str, float]]:
        return [{"validation": self.fitness(network)} for network, _ in asked]

    def fitness(self, network: Network) -> float:
        """From 0 to 1: agreements of the layers that both have, over all layers of the deeper one."""
        pairs = [
            (network[what][i], self.target[what][i])
            for what in ("model", "activation")
            for i in range(min(len(network[what]), len(self.target[what])))
        ]
        return sum(a == b for a, b in pairs) / (2 * max(len(network["model"]), len(self.target["model"])))


# --- as kept runs ----------------------------------------------------------------------------------------------------


@runs.experiment(
    "search_known", version=1, probe={"generations": 3, "population": 4, "searches": 3, "distinct": False, "seed": 3}
)
def known_fitness(*, generations: int, population: int, searches: int, distinct: bool, seed: int) -> runs.Result:
    """PAAS without noise, and as many random draws, on a fitness with one known best among 150 networks.

    Returns:
        "paas", "random": how many searches find the best; "mean_paas", "mean_random": mean fitness of what they find;
        "mean_trainings", "most_trainings": different networks that a search tries.
    """
    space = small(FCN)
    table = complete(space, Known(TARGET))
    table = Table({name: {**r, "test": r["validation"]} for name, r in table.results.items()})
    replayed_ = replay(
        space,
        table,
        generations=generations,
        population=population,
        noise_scale=0.0,
        seeds=[[seed, i] for i in range(searches)],
        evolution=Evolution(distinct=distinct),
    )
    return {
        "paas": int((replayed_["plain"] == 1).sum()),
        "random": int((replayed_["random"] == 1).sum()),
        "mean_paas": float(replayed_["plain"].mean()),
        "mean_random": float(replayed_["random"].mean()),
        "mean_trainings": float(replayed_["trainings"].mean()),
        "most_trainings": int(replayed_["trainings"].max()),
    }


@runs.experiment(
    "search_replayed",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "features": "flat", "batch": 100, "steps": 8, "epsilon": 2.0, "split_seed": 3,
           "rates": {"1 layers, 0 sigmoid": 2.0, "1 layers, 1 sigmoid": 4.0}, "layers": 1, "widest": 128,
           "generations": 2, "population": 3, "noise_scale": 0.01, "searches": 5},
)  # fmt: skip
def replayed(
    *,
    dataset: str,
    features: str,
    batch: int,
    steps: int,
    epsilon: float,
    rates: dict[str, float],
    split_seed: int,
    layers: int,
    widest: int,
    generations: int,
    population: int,
    noise_scale: float,
    searches: int,
    delta: float = 1e-5,
    dropout: float = 0.0,
    seed: int = 7,
    device: str = "cpu",
) -> runs.Result:
    """Every network of a small space, trained twice on one split; and PAAS and random draws replayed on the two tables.

    A search chooses by the first training and is judged by the second one, of which it has seen nothing.

    Args:
        rates: kind of network to learning rate. layers, widest: at most so many hidden layers, of so many units.
        generations, population, noise_scale, searches: of the searches. Others: of
            :func:`papers.common.network_runs.network_training`.

    Returns:
        Test accuracies, from 0 to 1: "mean" and "sd" over the searches, by kind of search as in :func:`replay`; "best",
        of the network with the best validation accuracy of all. "networks", and "trainings", the mean without noise.
    """
    space = small(FCN, layers, widest)
    how = {"dataset": dataset, "features": features, "batch": batch, "steps": steps, "epsilon": epsilon}
    how |= {"delta": delta, "dropout": dropout, "split_seed": split_seed}

    def trainer(asked: Sequence[tuple[Network, int]]) -> list[runs.Result]:
        jobs = [job(network, rates, **how, seed=training_seed(network, repeat)) for network, repeat in asked]
        return [network_training(**job, device=device) for job in jobs]

    table = complete(space, trainer, FRESH)
    replayed_ = replay(
        space,
        table,
        generations=generations,
        population=population,
        noise_scale=noise_scale,
        seeds=[[seed, split_seed, i] for i in range(searches)],
    )
    trainings = float(replayed_.pop("trainings").mean())
    return {
        "mean": {name: float(values.mean()) for name, values in replayed_.items()},
        "sd": {name: float(values.std(ddof=1)) for name, values in replayed_.items()},
        "best": float(max(table.results.values(), key=lambda r: r["validation"] or 0.0)["test"]),
        "networks": len(table.results),
        "trainings": trainings,
    }
