"""The search spaces: the printed lists, uniform draws, and changes that stay inside."""

from collections import Counter

import numpy as np
import pytest

from dplib.architecture.search import CNN, FCN, Space, job, key, network_of, rate_cell, with_freezing
from dplib.checks import ParameterError


def test_numbers_of_networks():
    by_depth = Counter(len(network["model"]) for network in FCN.networks())
    assert by_depth == {1: 5 * 3, 2: 5 * 3 * 9, 3: 5 * 3 * 4 * 27}
    assert sum(by_depth.values()) == 1770
    assert len(CNN.networks()) == 24


def test_draws_are_uniform_in_every_entry():
    rng = np.random.default_rng(0)
    draws = [FCN.draw(rng) for _ in range(6000)]
    for name, values in FCN.entries.items():
        counts = np.array([sum(d[name] == v for d in draws) for v in values])
        chi2 = ((counts - 6000 / len(values)) ** 2 / (6000 / len(values))).sum()
        assert chi2 < 30  # at most 4 degrees of freedom: p below 1e-5


def test_a_mutant_differs_in_exactly_one_entry_and_stays_inside():
    rng = np.random.default_rng(1)
    changed = Counter()
    for _ in range(700):
        genome = FCN.draw(rng)
        mutant = FCN.mutate(genome, rng)
        names = [name for name in FCN.entries if mutant[name] != genome[name]]
        assert len(names) == 1
        assert mutant[names[0]] in FCN.entries[names[0]]
        changed[names[0]] += 1
    assert set(changed) == set(FCN.entries)


def test_a_crossover_takes_every_entry_from_a_parent_with_equal_chances():
    rng = np.random.default_rng(3)
    first = {name: values[0] for name, values in FCN.entries.items()}
    second = {name: values[1] for name, values in FCN.entries.items()}
    children = [FCN.crossover(first, second, rng) for _ in range(2000)]
    for name in FCN.entries:
        share = np.mean([child[name] == first[name] for child in children])
        assert all(child[name] in (first[name], second[name]) for child in children)
        assert abs(share - 0.5) < 5 * 0.5 / 2000**0.5


def test_equal_networks_have_one_key_and_different_ones_two():
    genomes = FCN.genomes()
    names = {key(network_of(genome)) for genome in genomes}
    assert len(genomes) == 3 * 5 * 3 * 4 * 27
    assert len(names) == 1770
    hidden = {**genomes[0], "layers": 1}
    assert key(network_of(hidden)) == key(network_of({**hidden, "units3": 64, "activation2": "tanh"}))


def test_freezing_names_the_frozen_layers_and_never_the_last():
    space = with_freezing(FCN)
    genome = {**{name: values[0] for name, values in space.entries.items()}, "layers": 2, "trained1": False}
    network = network_of({**genome, "trained3": False})
    assert network["frozen"] == [0]
    assert "frozen" in key(network)
    assert "frozen" not in key(network_of(genome | {"trained1": True}))
    assert network_of(genome | {"trained1": True}).keys() == {"model", "activation"}
    most = max(len(n.get("frozen", ())) for n in space.networks())
    assert most == 3  # of 4 layers with weights


def test_cells_and_jobs():
    network = {"model": [64, 128], "activation": ["sigmoid", "relu"]}
    assert rate_cell(network) == "2 layers, 1 sigmoid"
    assert rate_cell({**network, "frozen": [1]}) == "2 layers, 1 sigmoid"
    assert rate_cell(network_of(CNN.draw(np.random.default_rng(0)))).startswith("conv")
    made = job(network, {"2 layers, 1 sigmoid": 8.0}, steps=3)
    assert made == {**network, "learning_rate": 8.0, "steps": 3}
    with pytest.raises(ParameterError, match="kind of network"):
        job(network, {"1 layers, 0 sigmoid": 8.0})


@pytest.mark.parametrize("values", [(), (1, 1)])
def test_an_entry_needs_values_each_once(values):
    with pytest.raises(ParameterError, match="units1"):
        Space({"units1": values})
