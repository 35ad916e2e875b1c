"""What an architecture may be: the search spaces of paper B (Tables XI and XII), and how a member is drawn or changed.

A genome has a value for every entry of its space, also for those that do not show: the third layer's units of a network
with one layer. Equal networks may have different genomes; a search trains a network once (:func:`network_of`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dplib import checks
from dplib.checks import ParameterError

Genome = dict[str, Any]

_LAYERS = (1, 2, 3)
_ACTIVATIONS = ("relu", "sigmoid", "tanh")


@dataclass(frozen=True)
class Space:
    """A search space H: each entry with the values it may take (paper B, Section VIII-A).

    Raises:
        ParameterError: for an entry without values or with one value twice.
    """

    entries: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        for name, values in self.entries.items():
            if not values or len(set(values)) < len(values):
                raise ParameterError(f"{name} = {values!r} is not allowed: an entry needs values, each once.")

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
        found = {key(network): network for network in map(network_of, self.genomes())}
        return list(found.values())


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
    """The space with an entry for every hidden layer that says whether it is trained (paper B, Section IX-A, for RS).

    The output layer is always trained: a network none of whose layers is has nothing to learn.
    """
    return Space({**space.entries, **{f"trained{i}": (True, False) for i in space.entries["layers"]}})


def network_of(genome: Genome) -> dict[str, Any]:
    """The network of a genome: arguments "model", "activation" and "frozen" of :func:`dplib.trainings.train`.

    Raises:
        ParameterError: for a genome that is of neither kind of space.
    """
    if "blocks" in genome:
        return {
            "model": {"filters": [genome["filters"] * 2**i for i in range(genome["blocks"])], "units": genome["units"]}
        }
    if "layers" not in genome:
        raise ParameterError(f"genome = {genome} is not allowed: it must have layers (perceptrons) or blocks.")
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
    """The kind of network that shares a learning rate: depth, and how many of its layers are sigmoids.

    A sigmoid passes on at most a quarter of a gradient: with one rate for all networks, a search would only learn to
    avoid sigmoids. A network with frozen layers has the rate of the one that has none.
    """
    if isinstance(network["model"], dict):
        return f"conv {len(network['model']['filters'])}"
    return f"{len(network['model'])} layers, {network['activation'].count('sigmoid')} sigmoid"


def job(network: Mapping[str, Any], rates: Mapping[str, float], **settings: Any) -> dict[str, Any]:
    """A job of :func:`dplib.trainings.train`: the network, the learning rate of its kind, and the settings.

    Raises:
        ParameterError: for a network of a kind without a rate.
    """
    cell = rate_cell(network)
    checks.one_of(*rates).check("kind of network", cell)
    return {**network, "learning_rate": rates[cell], **settings}


def _pick(values, rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]
