"""The searches: their steps, their noise, their memory, and what they find where the best is known."""

from collections import Counter

import numpy as np
import pytest

from dplib.architecture.search import (
    FCN,
    Evolution,
    Space,
    evolve,
    key,
    multi_generation,
    next_members,
    paas,
    randomised,
)
from dplib.architecture.search_replays import Known, small
from dplib.checks import ParameterError

TARGET = {"model": [512, 128], "activation": ["relu", "tanh"]}
SMALL = small(FCN)
PAAS = {"generations": 6, "population": 10, "noise_scale": 0.0}


class Counting:
    """A trainer that remembers what it was asked for."""

    def __init__(self, trainer=None):
        self.trainer, self.asked = trainer or Known(TARGET), []

    def __call__(self, asked):
        self.asked += [(key(network), repeat) for network, repeat in asked]
        return self.trainer(asked)


def rng(seed=0):
    return np.random.default_rng(seed)


def ranked(n, seed=0):
    generator = rng(seed)
    return [FCN.draw(generator) for _ in range(n)]


# --- Algorithm 2 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [Evolution(), Evolution(1, 0, 0), Evolution(0, 0, 1), Evolution(0.5, 1, 0.5)])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_the_population_keeps_its_size_and_stays_inside(how, n):
    children = evolve(FCN, ranked(n), how, rng())
    assert len(children) == n
    for child in children:
        assert all(child[name] in values for name, values in FCN.entries.items())


def test_without_mutation_and_with_all_as_parents_there_are_recombinations_only():
    parents = ranked(4)
    for child in evolve(FCN, parents * 5, Evolution(alpha=1, beta=0, mutation=0), rng()):
        assert all(any(child[name] == p[name] for p in parents) for name in FCN.entries)
        pairs = [(a, b) for a in parents for b in parents]
        assert any(all(child[name] in (a[name], b[name]) for name in FCN.entries) for a, b in pairs)


def test_parents_are_the_top_share_and_no_other():
    members = [{**g, "units1": 64 if i < 4 else 128} for i, g in enumerate(ranked(10))]
    for seed in range(30):
        children = evolve(FCN, members, Evolution(alpha=0.4, beta=0, mutation=0), rng(seed))
        assert all(child["units1"] == 64 for child in children)


def test_some_of_the_rest_become_parents_at_random():
    space = Space({"layers": tuple(range(1, 11))})
    members = [{"layers": i} for i in range(1, 11)]
    seen = Counter()
    for seed in range(600):
        found = {c["layers"] for c in evolve(space, members, Evolution(0.4, 0.1, 0), rng(seed))}
        assert len(found - {1, 2, 3, 4}) <= 1  # beta = 0.1 of ten: one
        seen.update(found - {1, 2, 3, 4})
    # Each of the six is the lucky one in 100 of 600 populations, and has a child in 1 - 0.8^10 = 89% of them.
    assert set(seen) == set(range(5, 11))
    assert all(60 < count < 120 for count in seen.values())


def test_children_that_are_all_different_while_there_are_some():
    how = Evolution(alpha=1, beta=0, mutation=0, distinct=True)
    for seed in range(20):
        children = [str(c) for c in evolve(FCN, ranked(4, seed), how, rng(seed))]
        assert len(set(children)) == 4
    space = Space({"layers": (1, 2), "units1": (64, 128)})
    parents = [{"layers": 1, "units1": 64}, {"layers": 2, "units1": 64}] * 3
    found = Counter(c["layers"] for c in evolve(space, parents, how, rng()))
    assert set(found) == {1, 2}  # two children are all that these parents have, and six are wanted
    assert sum(found.values()) == 6


def test_share_of_mutants():
    parents = [ranked(1)[0]] * 10
    children = [c for seed in range(300) for c in evolve(FCN, parents, Evolution(1, 0, 0.2), rng(seed))]
    assert np.mean([c != parents[0] for c in children]) == pytest.approx(0.2, abs=5 * (0.16 / 3000) ** 0.5)


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


def test_paas_runs_every_generation_and_returns_the_best_of_the_last():
    found = paas(FCN, Counting(), **PAAS, rng=rng())
    assert [c.generation for c in found.trace] == [g for g in range(1, 7) for _ in range(10)]
    assert found.winner.fitness == max(c.fitness for c in found.trace if c.generation == 6)


def test_no_network_is_trained_twice():
    trainer = Counting()
    found = paas(SMALL, trainer, **PAAS, rng=rng(1))
    names = [key(c.network) for c in found.trace]
    assert found.trainings == len(trainer.asked) == len(set(names)) < 60


def test_without_memory_every_candidate_is_an_independent_training():
    trainer = Counting()
    found = randomised(SMALL, trainer, k=200, rng=rng(), memoise=False)
    assert found.trainings == len(trainer.asked) == len(set(trainer.asked)) == 200
    assert max(repeat for _, repeat in trainer.asked) > 0


def test_noise_has_the_laplace_scale_and_stays_with_the_training():
    found = paas(FCN, Known(TARGET), generations=2, population=3000, noise_scale=0.3, rng=rng())
    noise = {key(c.network): c.fitness - c.validation for c in found.trace}
    for c in found.trace:
        assert c.fitness - c.validation == pytest.approx(noise[key(c.network)])
    drawn = np.array(list(noise.values()))
    assert np.abs(drawn).mean() == pytest.approx(0.3, abs=5 * 0.3 / len(drawn) ** 0.5)


def test_searches_that_differ_in_the_noise_alone_begin_alike():
    first = [
        [key(c.network) for c in paas(FCN, Known(TARGET), **{**PAAS, "noise_scale": s}, rng=rng()).trace]
        for s in (0.0, 0.5)
    ]
    assert first[0][:10] == first[1][:10]
    assert first[0] != first[1]


def test_a_diverged_training_is_the_worst():
    def trainer(asked):
        return [{"validation": None if n["model"][0] == 64 else 0.5} for n, _ in asked]

    found = randomised(FCN, trainer, k=50, rng=rng())
    assert found.winner.validation == 0.5
    assert {c.validation for c in found.trace} == {0.0, 0.5}


# --- RS and MGRS -----------------------------------------------------------------------------------------------------


def test_rs_returns_the_best_of_independent_draws_and_begins_as_paas_does():
    found = randomised(FCN, Counting(), k=40, rng=rng(2))
    assert len(found.trace) == 40
    assert found.winner.fitness == max(c.fitness for c in found.trace)
    other = paas(FCN, Counting(), **PAAS, rng=rng(2))
    assert [c.network for c in found.trace[:10]] == [c.network for c in other.trace[:10]]


def test_mgrs_has_the_sizes_of_its_generations_and_returns_the_best_of_the_last():
    found = multi_generation(FCN, Counting(), sizes=[40, 20, 10], p_mutate=0.7, rng=rng())
    assert Counter(c.generation for c in found.trace) == {1: 40, 2: 20, 3: 10}
    assert found.winner.fitness == max(c.fitness for c in found.trace if c.generation == 3)


def test_members_of_mgrs_are_mutants_of_the_winner_or_uniform():
    winner = ranked(1)[0]
    members = next_members(FCN, winner, 4000, 0.7, rng())
    mutants = sum(sum(m[name] != winner[name] for name in FCN.entries) == 1 for m in members)
    # A fresh draw differs in one entry by chance as well, seldom.
    p = {name: 1 / len(values) for name, values in FCN.entries.items()}
    chance = np.prod(list(p.values())) * sum(1 / q - 1 for q in p.values())
    assert mutants / 4000 == pytest.approx(0.7 + 0.3 * chance, abs=5 * (0.21 / 4000) ** 0.5)


@pytest.mark.parametrize(
    "values",
    [{"generations": 0}, {"population": 0}, {"noise_scale": -1}, {"generations": 2.5}],
)
def test_sizes_are_checked(values):
    with pytest.raises(ParameterError, match=next(iter(values))):
        paas(FCN, Known(TARGET), **{**PAAS, **values}, rng=rng())
