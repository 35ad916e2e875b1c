"""What follows from a table of trainings: exact averages against enumeration, and replays against the real thing."""

from itertools import combinations

import numpy as np
import pytest

from dplib.architecture.search import FCN, Evolution, key, paas
from dplib.architecture.search_replays import (
    Known,
    Table,
    best_of_k,
    complete,
    replay,
    small,
)

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
    found = [paas(space, trainer, **how, rng=np.random.default_rng(3)) for trainer in (known, table)]
    traces = [[(key(c.network), c.fitness) for c in one.trace] for one in found]
    assert traces[0] == traces[1]


def test_a_table_may_report_on_other_trainings_than_those_that_choose():
    def trainer(asked):
        return [{"validation": repeat, "test": 0.5 + repeat} for _, repeat in asked]

    space = small(FCN, 1)
    assert {(r["validation"], r["test"]) for r in complete(space, trainer).results.values()} == {(0, 0.5)}
    assert {(r["validation"], r["test"]) for r in complete(space, trainer, 7).results.values()} == {(0, 7.5)}


def test_the_known_fitness_has_one_optimum():
    target = {"model": [512, 128], "activation": ["relu", "tanh"]}
    known = Known(target)
    values = {key(network): known.fitness(network) for network in FCN.networks()}
    assert [name for name, value in values.items() if value == 1] == [key(target)]
    assert min(values.values()) >= 0


def test_replays_are_reproducible_and_noise_costs_accuracy_where_the_table_has_one_best():
    space = small(FCN)
    table = complete(space, Known({"model": [512, 128], "activation": ["relu", "tanh"]}))
    table = Table({name: {**r, "test": r["validation"]} for name, r in table.results.items()})
    how = {"generations": 8, "population": 10, "noise_scale": 5.0, "seeds": range(15)}
    found, again = (replay(space, table, **how) for _ in range(2))
    assert all(np.array_equal(found[name], again[name]) for name in found)
    assert found["plain"].mean() > found["noise"].mean() + 0.1
    assert np.all(found["clean_pick"] >= found["noise"])  # on this table validation and test agree
    assert found["plain"].mean() > found["random"].mean()
    assert np.all(found["trainings"] <= 80)
    distinct = replay(space, table, **how, evolution=Evolution(distinct=True))
    assert distinct["trainings"].mean() > found["trainings"].mean() + 1
