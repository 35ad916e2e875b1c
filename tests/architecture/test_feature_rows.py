"""From runs to values: closed forms, brute force and made-up curves."""

import numpy as np
import pytest

from dplib.architecture import feature_rows as rows
from dplib.architecture.feature_study import Curves

rng = np.random.default_rng(0)


def curves(means, epsilons=(1.0,), sizes=(1, 2, 5, 10), noise=0.1, splits=12):
    """Made-up curves: means of shape (sizes, epsilons), normal noise."""
    means = np.asarray(means, dtype=float).reshape(len(sizes), len(epsilons))
    values = means + noise * rng.standard_normal((splits, *means.shape))
    return Curves(list(sizes), list(epsilons), values, np.full(splits, 70.0))


def test_best_size_and_its_gains():
    one = curves([60, 80, 75, 70])
    size = rows.best_size(one, 1.0)
    assert (size.value, size.low, size.high) == (2, 2, 2)
    assert rows.gain(one, 1.0, 1).value == pytest.approx(20, abs=0.2)
    assert rows.gain(one, 1.0, 10, [1, 5, 10]).value == pytest.approx(5, abs=0.2)


def test_a_gain_is_not_flattered_by_the_choice():
    """Equal sizes: the best of twenty looks better, but not when it is chosen on other splits."""
    gains = []
    for _ in range(200):
        flat = curves(np.full(20, 70.0), sizes=range(1, 21), noise=1.0, splits=6)
        gains.append(rows.gain(flat, 1.0, 20).value)
    assert abs(np.mean(gains)) < 4 * np.std(gains) / np.sqrt(200)


def test_elsewhere_by_hand():
    values = [[1.0, 5.0, 3.0], [2.0, 2.0, 2.0]]  # on the second split the others say 4 and 4: the first of them counts
    assert rows.elsewhere(values).tolist() == [1.0, 5.0, 3.0]
    assert rows.elsewhere([[9.0, 0.0, 0.0], [1.0, 1.0, 1.0]]).tolist() == [1.0, 0.0, 0.0]


def test_slope_is_least_squares():
    assert rows.slope(curves([1.0, 2.0, 5.0, 10.0], noise=0.0), 1.0).value == pytest.approx(1)
    two = curves(rng.random(4), noise=0.5)
    fitted = np.mean([np.polyfit(two.sizes, row, 1)[0] for row in two.of(1.0).T])
    assert rows.slope(two, 1.0).value == pytest.approx(fitted)


def test_one_more_split_falls_into_its_interval():
    inside = 0
    for _ in range(2000):
        *known, new = rng.standard_normal(7)
        found = rows.one_split(known)
        inside += found.low <= new <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_a_tally_counts_leads_and_what_is_none():
    clear, none, open_ = 5 + 0.1 * rng.standard_normal(8), 0.01 * rng.standard_normal(8), 4 * rng.standard_normal(8)
    assert rows.tally([clear, none]) == {"ahead": 1, "not_ahead": 1, "of": 2}
    assert rows.tally([open_ - open_.mean()]) == {"ahead": 0, "not_ahead": 0, "of": 1}


def test_epsilon_at_an_accuracy():
    one = curves([[60.0, 70.0, 69.0, 80.0]], epsilons=(0.1, 1.0, 2.0, 10.0), sizes=(3,), noise=0.0)
    assert rows.epsilon_at(one, 3, 65.0) == pytest.approx(np.sqrt(0.1))
    assert rows.epsilon_at(one, 3, 75.0) == pytest.approx(np.sqrt(20))
    assert rows.epsilon_at(one, 3, 50.0) == pytest.approx(0.1)
    assert rows.epsilon_at(one, 3, 81.0) == pytest.approx(10)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_pure_privacy_as_approximate_against_randomised_response(epsilon, delta):
    reached = rows.approximate_of_pure(epsilon, delta)
    truth = np.array([np.exp(epsilon), 1]) / (1 + np.exp(epsilon))
    spent = np.maximum(truth - np.exp(reached) * truth[::-1], 0).sum()
    assert spent == pytest.approx(delta) if reached > 0 else spent <= delta
    assert 0 <= reached < epsilon


def test_cells_of_table_2_come_from_95_test_records():
    printed = rows.table_rows("table2").values()
    assert rows.multiples({row["acc_sgd"] for row in printed}) == len({row["acc_sgd"] for row in printed}) == 5
    assert rows.multiples([50.0, 66.3158]) == 1
