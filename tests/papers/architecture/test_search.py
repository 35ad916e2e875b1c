"""Search spaces, searches, and tables of trainings: their steps, noise and memory, and what they find if known."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from papers.architecture.search import (
    CNN,
    FCN,
    Evolution,
    Space,
    evolve,
    job,
    key,
    multi_generation,
    network_of,
    paas,
    randomised,
    with_freezing,
)
from papers.architecture.search_replay_runs import Known, Table, best_of_k, complete, replay, small

TARGET = {"model": [512, 128], "activation": ["relu", "tanh"]}
SMALL = small(FCN)
PAAS = {"generations": 6, "population": 10, "noise_scale": 0.0}


class Counting(Known):
    """A trainer that remembers what it was asked for."""

    def __init__(self):
        super().__init__(TARGET)
        self.asked = []

    def __call__(self, asked):
        self.asked += [(key(network), repeat) for network, repeat in asked]
        return super().__call__(asked)


def rng(seed=0):
    return np.random.default_rng(seed)


def ranked(n, seed=0):
    generator = rng(seed)
    return [FCN.draw(generator) for _ in range(n)]


# --- Algorithm 2 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "n"), [(Evolution(), 1), (Evolution(0, 0, 1), 3), (Evolution(0.5, 1, 0.5), 10)])
def test_the_population_keeps_its_size_and_stays_inside(how, n):
    children = evolve(FCN, ranked(n), how, rng())
    assert len(children) == n
    for child in children:
        assert all(child[name] in values for name, values in FCN.entries.items())


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
        values_ = {c["layers"] for c in evolve(space, members, Evolution(0.4, 0.1, 0), rng(seed))}
        assert len(values_ - {1, 2, 3, 4}) <= 1  # beta = 0.1 of ten: one
        seen.update(values_ - {1, 2, 3, 4})
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
    counts = Counter(c["layers"] for c in evolve(space, parents, how, rng()))
    assert set(counts) == {1, 2}  # two children are all that these parents have, and six are wanted
    assert sum(counts.values()) == 6


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


def test_a_search_has_its_generations_and_returns_the_best_of_the_last():
    for search, settings, sizes in (
        (paas, PAAS, [10] * 6),
        (multi_generation, {"sizes": [40, 20, 10], "p_mutate": 0.7}, [40, 20, 10]),
        (randomised, {"k": 40}, [40]),
    ):
        search_ = search(FCN, Known(TARGET), **settings, rng=rng(2))
        generations = [c.generation for c in search_.trace]
        assert generations == [g for g, size in enumerate(sizes, 1) for _ in range(size)]
        assert search_.winner.fitness == max(c.fitness for c in search_.trace if c.generation == len(sizes))


def test_searches_that_differ_in_the_noise_alone_or_in_their_kind_begin_alike():
    plain, noisy = (paas(FCN, Known(TARGET), **{**PAAS, "noise_scale": s}, rng=rng()).trace for s in (0.0, 0.5))
    drawn = randomised(FCN, Known(TARGET), k=10, rng=rng()).trace
    begin = [[c.network for c in one[:10]] for one in (plain, noisy, drawn)]
    assert begin[0] == begin[1] == begin[2]


def test_no_network_is_trained_twice():
    trainer = Counting()
    search_ = paas(SMALL, trainer, **PAAS, rng=rng(1))
    names = [key(c.network) for c in search_.trace]
    assert search_.trainings == len(trainer.asked) == len(set(names)) < 60


def test_without_memory_every_candidate_is_an_independent_training():
    trainer = Counting()
    answers_ = randomised(SMALL, trainer, k=200, rng=rng(), memoise=False)
    assert answers_.trainings == len(trainer.asked) == len(set(trainer.asked)) == 200
    assert max(repeat for _, repeat in trainer.asked) > 0


def test_noise_has_the_laplace_scale_and_stays_with_the_training():
    search_ = paas(FCN, Known(TARGET), generations=2, population=3000, noise_scale=0.3, rng=rng())
    noise = {key(c.network): c.fitness - c.validation for c in search_.trace}
    for c in search_.trace:
        assert c.fitness - c.validation == pytest.approx(noise[key(c.network)])
    drawn = np.array(list(noise.values()))
    assert np.abs(drawn).mean() == pytest.approx(0.3, abs=5 * 0.3 / len(drawn) ** 0.5)


def test_a_diverged_training_is_the_worst():
    def trainer(asked):
        return [{"validation": None if n["model"][0] == 64 else 0.5} for n, _ in asked]

    answers_ = randomised(FCN, trainer, k=50, rng=rng())
    assert answers_.winner.validation == 0.5
    assert {c.validation for c in answers_.trace} == {0.0, 0.5}


# --- spaces ---


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
    assert len(genomes) == 3 * 5 * 3 * 4 * 27
    assert len({key(network_of(genome)) for genome in genomes}) == len(FCN.networks())
    by_depth = Counter(len(network["model"]) for network in FCN.networks())
    assert by_depth == {1: 5 * 3, 2: 5 * 3 * 9, 3: 5 * 3 * 4 * 27}
    assert len(CNN.networks()) == 24
    hidden = {**genomes[0], "layers": 1}
    assert key(network_of(hidden)) == key(network_of({**hidden, "units3": 64, "activation2": "tanh"}))


def test_freezing_names_the_frozen_layers_and_never_the_last():
    space = with_freezing(FCN)
    genome = {**{name: values[0] for name, values in space.entries.items()}, "layers": 2, "trained1": False}
    network = network_of({**genome, "trained3": False})
    assert network["frozen"] == [0]
    rate = {"2 layers, 0 sigmoid": 8.0}  # of the network without frozen layers
    assert job(network, rate, steps=3) == {**network, "learning_rate": 8.0, "steps": 3}
    assert "frozen" in key(network)
    assert "frozen" not in key(network_of(genome | {"trained1": True}))
    assert network_of(genome | {"trained1": True}).keys() == {"model", "activation"}
    most = max(len(n.get("frozen", ())) for n in space.networks())
    assert most == 3  # of 4 layers with weights


# --- tables of trainings ---

SCORES = np.array([0.3, 0.9, 0.1, 0.7, 0.5, 0.8])
VALUES = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])


def best(rows):
    rows = list(rows)
    return VALUES[rows[int(SCORES[rows].argmax())]]


def test_best_of_k_is_the_mean_over_all_choices():
    for k in range(1, 7):
        expected = np.mean([best(rows) for rows in combinations(range(6), k)])
        assert best_of_k(SCORES, VALUES, [k])[0] == pytest.approx(expected, rel=1e-12)


def test_a_search_on_the_table_is_the_search():
    space, known = small(FCN), Known({"model": [128], "activation": ["tanh"]})
    table = complete(space, known)
    assert len(table.results) == 150
    how = {"generations": 4, "population": 6, "noise_scale": 0.05}
    values = [paas(space, trainer, **how, rng=np.random.default_rng(3)) for trainer in (known, table)]
    traces = [[(key(c.network), c.fitness) for c in value.trace] for value in values]
    assert traces[0] == traces[1]


def test_a_table_may_report_on_other_trainings_than_those_that_choose():
    def trainer(asked):
        return [{"validation": repeat, "test": 0.5 + repeat} for _, repeat in asked]

    space = small(FCN, 1)
    assert {(r["validation"], r["test"]) for r in complete(space, trainer).results.values()} == {(0, 0.5)}
    assert {(r["validation"], r["test"]) for r in complete(space, trainer, 7).results.values()} == {(0, 7.5)}


def test_noise_costs_accuracy_where_the_table_has_one_best():
    table = complete(SMALL, Known(TARGET))
    table = Table({name: {**r, "test": r["validation"]} for name, r in table.results.items()})
    how = {"generations": 8, "population": 10, "noise_scale": 5.0, "seeds": range(15)}
    replayed = replay(SMALL, table, **how)
    assert replayed["plain"].mean() > replayed["noise"].mean() + 0.1
    assert np.all(replayed["clean_pick"] >= replayed["noise"])  # on this table validation and test agree
    distinct = replay(SMALL, table, **how, evolution=Evolution(distinct=True))
    assert distinct["trainings"].mean() > replayed["trainings"].mean() + 1
