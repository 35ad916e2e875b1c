"""Algorithms 3 and 4: every step, the reference by exhaustive search, and what a search remembers."""

import itertools

import numpy as np
import pytest
from scipy import stats

from papers.architecture import feature_search as se
from papers.architecture.feature_scores import merit


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
    stopped = se.cfs_greedy(relevance, redundancy)  # where no feature raises the merit
    reached = [merit([se.subset(order[:k], 9)], relevance, redundancy)[0] for k in range(1, 10)]
    assert stopped == order[: 1 + next((k for k in range(8) if reached[k + 1] <= reached[k] + 1e-10), 8)]


def test_exhaustive_search_is_the_best_of_all():
    relevance, redundancy = problem(6, 1)
    best, value = se.exhaustive(relevance, redundancy)
    every = [np.array(S, dtype=bool) for S in itertools.product([0, 1], repeat=6) if any(S)]
    assert len(every) == 63
    values = merit(every, relevance, redundancy)
    assert value == values.max()
    np.testing.assert_array_equal(best, every[int(values.argmax())])


def test_population_sizes_moves_and_memory():
    asked = []

    def fitness(subsets):
        asked.extend(S.tobytes() for S in subsets)
        return subsets.sum(axis=1)

    settings = se.Genetic(60, 5, crossover=0.6, mutation=0.3)
    search_ = se.genetic(fitness, 12, settings, np.random.default_rng(1))
    assert len(asked) == len(set(asked)) == len(search_.scores)  # nothing is evaluated twice
    assert all(np.frombuffer(S, bool).any() for S in asked)
    moves = np.array([search_.moves[name] for name in ("crossover", "mutation", "copy")])
    assert moves.sum() >= 300
    assert stats.chisquare(moves, moves.sum() * np.array([0.6, 0.3, 0.1])).pvalue > 1e-3


def test_random_subsets_are_uniform():
    rng = np.random.default_rng(2)
    codes = np.array([se.random_subset(3, rng) @ [1, 2, 4] for _ in range(4000)])
    assert stats.chisquare(np.bincount(codes, minlength=8)[1:]).pvalue > 1e-3
    assert se.random_subset(9, rng, 4).sum() == 4
