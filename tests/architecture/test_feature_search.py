"""Algorithms 3 and 4: every step, the reference by exhaustive search, and what a search remembers."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dplib.architecture import feature_search as se
from dplib.architecture.feature_scores import merit
from dplib.checks import ParameterError


def problem(m, seed):
    """Relevance and redundancy as correlations of random variables could be."""
    rng = np.random.default_rng(seed)
    loads = rng.uniform(0, 1, (m, 3)) / 2
    redundancy = loads @ loads.T
    np.fill_diagonal(redundancy, 1.0)
    return rng.uniform(0, 0.5, m), redundancy


@pytest.mark.parametrize("seed", range(3))
def test_greedy_adds_the_best_feature_at_every_step(seed):
    relevance, redundancy = problem(9, seed)
    order = se.cfs_greedy(relevance, redundancy, 9)
    assert sorted(order) == list(range(9))
    for step in range(9):
        values = {
            s: merit([se.subset([*order[:step], s], 9)], relevance, redundancy)[0]
            for s in range(9)
            if s not in order[:step]
        }
        assert values[order[step]] == pytest.approx(max(values.values()), abs=1e-10)
        assert se.cfs_greedy(relevance, redundancy, step + 1) == order[: step + 1]


def test_greedy_stops_where_no_feature_raises_the_merit():
    relevance, redundancy = problem(9, 4)
    stopped = se.cfs_greedy(relevance, redundancy)
    reached = merit([se.subset(stopped, 9)], relevance, redundancy)[0]
    assert 1 < len(stopped) < 9
    assert all(
        merit([se.subset([*stopped, s], 9)], relevance, redundancy)[0] <= reached + 1e-10
        for s in set(range(9)) - set(stopped)
    )


def test_exhaustive_search_is_the_best_of_all():
    relevance, redundancy = problem(6, 1)
    best, value = se.exhaustive(relevance, redundancy)
    every = [np.array(S, dtype=bool) for S in itertools.product([0, 1], repeat=6) if any(S)]
    assert len(every) == 63
    values = merit(every, relevance, redundancy)
    assert value == values.max()
    np.testing.assert_array_equal(best, every[int(values.argmax())])


def test_cfs_ga_finds_the_optimum_of_a_small_problem_and_never_beats_it():
    relevance, redundancy = problem(10, 2)
    _, optimum = se.exhaustive(relevance, redundancy)
    settings = se.Genetic(200, 10, elitism=True)
    found = se.cfs_ga(relevance, redundancy, settings, np.random.default_rng(0))
    assert found.fitness == pytest.approx(optimum, abs=1e-10)
    assert found.scores.max() <= optimum + 1e-10


def test_population_sizes_moves_and_memory():
    asked = []

    def fitness(subsets):
        asked.extend(S.tobytes() for S in subsets)
        return subsets.sum(axis=1)

    settings = se.Genetic(60, 5, crossover=0.6, mutation=0.3)
    found = se.genetic(fitness, 12, settings, np.random.default_rng(1))
    assert len(asked) == len(set(asked)) == len(found.scores)  # nothing is evaluated twice
    assert found.evaluations == 60 * 6  # k (l + 1): the last population is evaluated too
    assert found.subsets.any(axis=1).all()
    moves = np.array([found.moves[name] for name in ("crossover", "mutation", "copy")])
    assert moves.sum() >= 300
    assert stats.chisquare(moves, moves.sum() * np.array([0.6, 0.3, 0.1])).pvalue > 1e-3
    assert found.generation.min() == 0
    assert found.generation.max() <= 5
    assert (np.diff(found.generation) >= 0).all()


def test_without_elitism_the_best_can_be_lost():
    """Fitness is 1 for one subset of the first population only: nothing brings it back but a copy."""
    lost = kept = 0
    for seed in range(20):
        first = {}

        def fitness(subsets, first=first):
            scores = np.zeros(len(subsets))
            if not first:
                first["best"] = subsets[0].tobytes()
                scores[0] = 1.0
            return scores

        for elitism in (False, True):
            first.clear()
            settings = se.Genetic(20, 4, crossover=0.5, mutation=0.5, elitism=elitism)
            found = se.genetic(fitness, 20, settings, np.random.default_rng(seed))
            assert found.scores.max() == 1.0
            if elitism:
                kept += found.fitness == 1.0
            else:
                lost += found.fitness < 1.0
    assert kept == 20
    assert lost >= 10


def test_same_seed_same_search():
    relevance, redundancy = problem(15, 3)
    a, b = (se.cfs_ga(relevance, redundancy, se.Genetic(30, 3), np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(a.subsets, b.subsets)
    np.testing.assert_array_equal(a.best, b.best)


def test_random_subsets_are_uniform():
    rng = np.random.default_rng(2)
    codes = np.array([se.random_subset(3, rng) @ [1, 2, 4] for _ in range(4000)])
    assert stats.chisquare(np.bincount(codes, minlength=8)[1:]).pvalue > 1e-3
    assert se.random_subset(9, rng, 4).sum() == 4


def test_crossover_takes_a_stretch_and_mutation_flips_its_share():
    rng = np.random.default_rng(3)
    zeros, ones = np.zeros(30, dtype=bool), np.ones(30, dtype=bool)
    for _ in range(50):
        Q = se.crossover(zeros, ones, rng)
        edges = np.diff(np.concatenate([[0], Q.astype(int), [0]]))
        assert np.abs(edges).sum() == 2  # one stretch
    assert not zeros.any()
    flips = sum(se.mutate(zeros, 0.1, rng).sum() for _ in range(1000))
    assert stats.binomtest(int(flips), 30_000, 0.1).pvalue > 1e-3


def test_settings_are_checked():
    with pytest.raises(ParameterError, match="mutation"):
        se.Genetic(10, 2, crossover=0.7, mutation=0.4)
    with pytest.raises(ParameterError, match="population"):
        se.Genetic(1, 2)
    with pytest.raises(ParameterError, match="k = 4"):
        se.cfs_greedy(np.ones(3), np.eye(3), 4)
