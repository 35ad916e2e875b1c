"""One total budget: what each method spends on trainings and on scores, and what it releases."""

import numpy as np
import pytest
from scipy import stats

from papers.architecture import feature_budget_runs as fb
from papers.architecture import feature_data, feature_scores, feature_training_runs
from papers.architecture.feature_search import Genetic

NAME, HELD, TOTAL = "synthetic-recurrence", 60, 6.0
JOB = {"dataset": NAME, "seed": 0, "epsilon": TOTAL}


@pytest.fixture
def spent(monkeypatch):
    """Every training: (epsilon, models, training records)."""
    log = []

    def logged(table, masks, epsilon, variant, rng):
        assert variant == "sound"
        log.append((epsilon, len(masks), len(table.y_train)))
        return feature_training_runs.fitted(table, masks, epsilon, variant, rng)

    monkeypatch.setattr(fb, "fitted", logged)
    return log


class Recorder(np.random.Generator):
    """A generator that remembers the scales of its Laplace noise."""

    def __init__(self, rng):
        super().__init__(rng.bit_generator)
        self.scales = []

    def laplace(self, loc, scale, size):
        self.scales.append((scale, size))
        return super().laplace(loc, scale, size)


def test_one_training_methods_spend_the_total(spent):
    for method, left in {"all": 6.0, "one random": 6.0, "cfs columns": 4.5, "tables attributes": 4.5}.items():
        fb.released(**JOB, method=method, repeats=3, share=0.25)
        assert spent.pop() == (left, 3, 191)


def test_selection_gets_its_share(monkeypatch):
    given = []
    choice = fb.feature_search.private_choice
    monkeypatch.setattr(
        fb.feature_search, "private_choice", lambda t, u, h, e, r: given.append((u, h, e)) or choice(t, u, h, e, r)
    )
    fb.released(**JOB, method="tables attributes", repeats=2, share=0.25)
    fb.released(**JOB, method="cfs columns, unpaid", repeats=2)
    assert given == [("attributes", "tables", 1.5)] * 2 + [("columns", "entropies", np.inf)]


def test_label_tables_add_noise_for_every_attribute_and_find_the_best_one_without():
    table = feature_data.load(NAME, 0)
    rng = Recorder(np.random.default_rng(0))
    mask = fb._label_tables(table, 3.0, rng)
    assert [scale for scale, _ in rng.scales] == [2 * 9 / 3.0] * 9
    assert len(set(table.attribute_of[mask])) == 1
    relevance, _ = feature_scores.relevance_and_redundancy(fb.feature_search.counted(table, "attributes"))
    exact = fb._label_tables(table, 1e9, np.random.default_rng(0))
    assert table.attribute_of[exact][0] == relevance.argmax()


def test_pafs_spends_at_most_the_total_on_either_side(spent):
    table = feature_data.load(NAME, 0, HELD)
    rng = Recorder(np.random.default_rng(0))
    *_, trained = fb._pafs(table, TOTAL, Genetic(5, 3), rng)
    c = 5 * 4
    assert all(epsilon == TOTAL / c and n == 131 for epsilon, _, n in spent)
    assert sum(models for _, models, _ in spent) == trained <= c
    noisy = sum(count for _, count in rng.scales)
    assert noisy == trained
    assert all(scale == pytest.approx(1 / (HELD * TOTAL / c)) for scale, _ in rng.scales)


def test_random_search_spends_a_third_on_each_candidate_and_publishes_the_winner(spent, monkeypatch):
    table = feature_data.load(NAME, 0, HELD)
    rng = Recorder(np.random.default_rng(0))
    rows = fb._search(table, TOTAL, 4.0, 300, rng)
    counts = np.array([count for *_, count in rows])
    assert spent == [(TOTAL / 3, counts.sum(), 131)]
    assert rng.scales == [(pytest.approx(3 / (HELD * TOTAL)), counts.sum())]
    observed = np.bincount(np.minimum(counts, 10), minlength=11)[1:]
    expected = 0.25 * 0.75 ** np.arange(10)
    expected[-1] = 0.75**9
    assert stats.chisquare(observed, 300 * expected).pvalue > 1e-3


def test_sizes_are_log_uniform():
    rng = np.random.default_rng(1)
    sizes = np.array([fb.sized_subset(43, rng).sum() for _ in range(3000)])
    assert sizes.min() == 1
    assert sizes.max() == 43
    assert stats.binomtest(int((sizes <= 6).sum()), 3000, np.log(7) / np.log(44)).pvalue > 1e-3


def test_what_was_named_beforehand_looks_at_no_record(spent):
    fb.released(**JOB, method="one named", repeats=2)
    assert spent.pop() == (6.0, 2, 191)
    table = feature_data.load(NAME, 0)
    assert table.attributes[fb._named(table)] == "deg-malig"
    constant = fb.released(**JOB, method="constant", repeats=2)
    assert constant == {"percent": pytest.approx(100 * table.constant()), "size": 0.0, "trained": 0.0}
    assert not spent


def test_new_methods_leave_the_random_numbers_of_others_as_they_were():
    assert fb.EVERY[: len(fb.METHODS + fb.UNPAID)] == fb.METHODS + fb.UNPAID
