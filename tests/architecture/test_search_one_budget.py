"""Searches at one total budget: what they spend, and what they release."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from dplib import rdp
from dplib.architecture import search_one_budget
from dplib.architecture.search_budgets import Search
from dplib.architecture.search_one_budget import Sizes, expected_release, nearest_rates, plans
from dplib.architecture.space import key

SIZES = Sizes(rs_mean=4.0, rs_drawn=8, mgrs=[3, 2], p_mutate=0.7, generations=2, population=3)
DELTA, RATE, STEPS = 1e-5, 0.01, 100
SCORES = np.array([0.3, 0.9, 0.1, 0.7, 0.5, 0.8])
VALUES = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])


@dataclass(frozen=True)
class Fake:
    """A trainer whose accuracies are those of its seeds, and that notes what it was asked for."""

    split_seed: int = 0
    asked: list = field(default_factory=list)

    def __call__(self, asked):
        self.asked.extend((key(network), repeat) for network, repeat in asked)
        drawn = [np.random.default_rng([len(key(n)), n["model"][0], repeat]).random() for n, repeat in asked]
        return [{"validation": v, "test": v / 2} for v in drawn]

    def fresh(self, network, count):
        return self([(network, 1000 + i) for i in range(count)])


@pytest.fixture(scope="module")
def found():
    return plans(2.0, DELTA, RATE, STEPS, 5000, SIZES)


def budget(noise, composed=None, mean_runs=None):
    """By dp_accounting's own events."""
    step = dp_event.PoissonSampledDpEvent(RATE, dp_event.GaussianDpEvent(noise))
    training = dp_event.SelfComposedDpEvent(step, STEPS)
    accountant = RdpAccountant(rdp.ORDERS)
    several = dp_event.RepeatAndSelectDpEvent(training, mean_runs, 1) if mean_runs else None
    accountant.compose(several or dp_event.SelfComposedDpEvent(training, composed))
    return accountant.get_epsilon(DELTA)


def test_every_arm_spends_the_total_and_no_more_by_another_accountant(found):
    trained = {"fixed": 1, "random": 1, "mgrs": 5, "paas": 6}
    for arm, count in trained.items():
        assert budget(found[arm].noise_multiplier, count) == pytest.approx(2.0, rel=1e-3)
    assert budget(found["rs"].noise_multiplier, mean_runs=4.0) == pytest.approx(2.0, rel=1e-3)
    noise, count = found["rs_fixed"].noise_multiplier, found["rs_fixed"].search.trainings
    assert noise == found["rs"].noise_multiplier
    assert budget(noise, count) <= 2.0 * (1 + 1e-3)
    assert budget(noise, count + 1) > 2.0
    assert search_one_budget.affordable(noise, 2, 2.0, DELTA, RATE, STEPS) == 2
    assert search_one_budget.affordable(found["fixed"].noise_multiplier / 2, 8, 2.0, DELTA, RATE, STEPS) == 0


def test_a_search_needs_more_noise_than_none(found):
    alone = found["fixed"].noise_multiplier
    assert found["random"].noise_multiplier == alone
    assert all(found[arm].noise_multiplier > alone for arm in ("rs", "mgrs", "paas"))
    assert found["paas"].noise_multiplier > found["mgrs"].noise_multiplier  # 6 trainings against 5


def test_scores_are_paid_for_within_the_total(found):
    for arm, count in [("mgrs", 5), ("paas", 6), ("rs", 3)]:  # a geometric selection costs three scores
        assert found[arm].noise_scale == pytest.approx(1 / (5000 * 2.0 / count), rel=1e-6)
    assert found["fixed"].noise_scale == found["random"].noise_scale == 0


@pytest.mark.parametrize(
    ("arm", "least", "most"),
    [("fixed", 3, 3), ("random", 8, 8), ("rs", 8, 8), ("rs_fixed", 8, 8), ("mgrs", 1, 5), ("paas", 1, 6)],
)
def test_arms_train_with_their_noise_and_within_their_cap(found, arm, least, most):
    trainer = Fake()
    value = search_one_budget.released(trainer, arm, found[arm], SIZES, 1)
    assert 0 <= value <= 50
    assert least <= len(trainer.asked) <= most
    assert len(set(trainer.asked)) == len(trainer.asked)


def test_release_of_a_random_number_of_candidates_by_simulation():
    search, rng = Search(selections=((2.0, 1),)), np.random.default_rng(4)
    runs = np.minimum(rng.geometric(0.5, 40_000), 6)
    orders = [rng.permutation(6)[:k] for k in runs]
    simulated = [VALUES[rows[SCORES[rows].argmax()]] for rows in orders]
    expected = expected_release(SCORES, VALUES, search)
    assert expected == pytest.approx(np.mean(simulated), abs=5 * np.std(simulated) / 200)


def test_a_search_of_one_candidate_releases_the_mean():
    assert expected_release(SCORES, VALUES, Search(selections=((1.0, 1),))) == pytest.approx(VALUES.mean())


def test_rates_come_from_the_nearest_noise():
    tuned = {0.5: {"a": 1.0}, 2.0: {"a": 2.0}}
    assert nearest_rates(tuned, 0.9)["a"] == 1.0
    assert nearest_rates(tuned, 1.1)["a"] == 2.0


def test_a_fixed_number_of_candidates_releases_the_best_of_so_many(found):
    plan = replace(found["rs_fixed"], search=Search(8), noise_scale=0.0)
    trainer = Fake()
    value = search_one_budget.released(trainer, "rs_fixed", plan, SIZES, 1)
    again = search_one_budget.released(Fake(), "random", plan, SIZES, 1)
    # The fake's test accuracy is half its validation accuracy, so that the best of all eight is the highest.
    assert value > again
    assert len(trainer.asked) == 8
