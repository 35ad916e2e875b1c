"""The rules of the verdicts on curves and tables: closed forms, brute force and made-up curves."""

import numpy as np
import pytest

from dplib.architecture import feature_size_verdicts as judge
from dplib.architecture.crossover import Crossover
from dplib.architecture.feature_figures import PLAIN, Curves
from dplib.stats import Comparison, Measured

rng = np.random.default_rng(0)


def curves(means, epsilons=(1.0,), sizes=(1, 2, 5, 10), noise=0.1, splits=12):
    """Made-up curves: means of shape (sizes, epsilons), normal noise."""
    means = np.asarray(means, dtype=float).reshape(len(sizes), len(epsilons))
    values = means + noise * rng.standard_normal((splits, *means.shape))
    return Curves("made up", list(sizes), list(epsilons), values, np.full(splits, 70.0), (1, 1), 1.0, 0.0)


def test_best_size_and_its_gains():
    found = judge.best(curves([60, 80, 75, 70]), 1.0, rng)
    assert (found.size.value, found.size.low, found.size.high) == (2, 2, 2)
    assert found.over_one.difference.value == pytest.approx(20, abs=0.2)
    assert found.over_all.difference.value == pytest.approx(10, abs=0.2)


def test_a_gain_is_not_flattered_by_the_choice():
    """Equal sizes: the best of twenty looks better, but not when it is chosen on other splits."""
    gains = []
    for _ in range(200):
        flat = curves(np.full(20, 70.0), sizes=range(1, 21), noise=1.0, splits=6)
        gains.append(judge.gain_over(flat, 1.0, 20).difference.value)
    assert abs(np.mean(gains)) < 4 * np.std(gains) / np.sqrt(200)


def test_elsewhere_by_hand():
    values = [[1.0, 5.0, 3.0], [2.0, 2.0, 2.0]]  # on the second split the others say 4 and 4: the first of them counts
    assert judge.elsewhere(values).tolist() == [1.0, 5.0, 3.0]
    assert judge.elsewhere([[9.0, 0.0, 0.0], [1.0, 1.0, 1.0]]).tolist() == [1.0, 0.0, 0.0]


def test_slope_is_least_squares():
    one = curves([1.0, 2.0, 5.0, 10.0], noise=0.0)
    assert judge.slope(one, 1.0).value == pytest.approx(1)
    two = curves(rng.random(4), noise=0.5)
    fitted = np.mean([np.polyfit(two.sizes, row, 1)[0] for row in two.of(1.0)])
    assert judge.slope(two, 1.0).value == pytest.approx(fitted)


def test_best_size_verdict():
    one = curves(np.column_stack([[60, 80, 75, 70], [60, 70, 75, 80]]), epsilons=(1.0, PLAIN))
    assert judge.best_size_verdict([one], [(1.0, 2), (PLAIN, 10)]) == "holds"
    assert judge.best_size_verdict([one], [(1.0, 5), (PLAIN, 10)]) == "holds with change"
    assert judge.best_size_verdict([one], [(1.0, 5), (PLAIN, 5)]) == "fails"
    other = curves([60, 70, 80, 75])
    assert judge.best_size_verdict([one, other], [(1.0, 5), (PLAIN, 5)]) == "holds with change"
    assert judge.best_size_verdict([one, other], [(1.0, 10)]) == "fails"


def test_falling():
    assert judge.falling(curves([80, 79, 76, 70]), [1.0]) == "holds"
    # The line falls, but the curve rises first.
    assert judge.falling(curves([77, 80, 76, 70]), [1.0]) == "holds with change"
    assert judge.falling(curves([70, 71, 75, 80]), [1.0]) == "fails"
    assert judge.falling(curves([70, 70, 70, 70], noise=0.0), [1.0]) == "undecided"


@pytest.mark.parametrize(
    ("means", "d", "verdict"),
    [
        ([60, 80, 75, 70], 10, "holds"),
        ([60, 80, 75, 70], 108, "holds with change"),  # 2 of 108 are few, not the middle
        ([80, 75, 70, 60], 10, "fails"),
        ([60, 70, 75, 80], 10, "fails"),
    ],
)
def test_middle(means, d, verdict):
    assert judge.middle(judge.best(curves(means), 1.0, rng), d) == verdict


def gap(value, low, high):
    return Comparison(Measured(value, low, high, 9), 0.5)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([gap(0, 0, 0), gap(0.1, -0.2, 0.4)], "holds"),
        ([gap(0, 0, 0), gap(0.14, -0.5, 0.8)], "holds with change"),  # not beaten, but not clearly the best
        ([gap(1, 0.5, 1.5), gap(2, 1, 3)], "fails"),
        ([gap(0.5, -1, 2), gap(1, 0.5, 1.5)], "undecided"),
    ],
)
def test_one_feature_is_the_best_within_a_margin(gains, verdict):
    assert judge.single(gains) == verdict


def crossing(low, high):
    return Crossover((low + high) / 2, low, high, 0.95, 5, 0.5, 100, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("gain", "crossings", "verdict"),
    [
        (gap(4, 2, 6), [crossing(55, 70)], "holds"),
        (gap(4, 2, 6), [crossing(17, 48), crossing(55, 70)], "holds with change"),
        (gap(0.5, -1, 2), [crossing(55, 70)], "undecided"),
        (gap(-2, -3, -1), [crossing(55, 70)], "fails"),
    ],
)
def test_beyond_a_crossover(gain, crossings, verdict):
    assert judge.beyond_crossover(gain, crossings, 50) == verdict


def test_beside_a_constant_and_the_last_size():
    one = curves([60, 80, 75, 70])
    assert judge.over_constant(one, 1.0).difference.value == pytest.approx(10, abs=0.2)
    assert judge.gain_of(one, [1, 5, 10], 1.0).difference.value == pytest.approx(5, abs=0.2)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "fails"], "holds with change"),
        (["holds", "undecided"], "undecided"),
        (["fails", "not reproducible as stated"], "fails"),
        (["fails", "undecided"], "fails"),
        (["undecided", "not reproducible as stated"], "undecided"),
    ],
)
def test_joined(parts, whole):
    assert judge.joined(parts) == whole


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (12, 9, 30, "holds"),
        (8, 5, 9, "fails"),
        (8, 5, 11, "undecided"),
        (np.inf, 40, np.inf, "fails"),
        (0, 0, 12, "undecided"),
    ],
)
def test_range_verdict(value, low, high, verdict):
    assert judge.range_verdict(10, 20, Crossover(value, low, high, 0.95, 5, 0.5, 100, 0, 0, 0, 1)) == verdict


def test_epsilon_at_an_accuracy():
    one = curves([[60.0, 70.0, 69.0, 80.0]], epsilons=(0.1, 1.0, 2.0, 10.0), sizes=(3,), noise=0.0)
    assert judge.epsilon_at(one, 3, 65.0) == pytest.approx(np.sqrt(0.1))
    assert judge.epsilon_at(one, 3, 75.0) == pytest.approx(np.sqrt(20))
    assert judge.epsilon_at(one, 3, 50.0) == 0.1
    assert judge.epsilon_at(one, 3, 81.0) == np.inf


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_pure_privacy_as_approximate_against_randomised_response(epsilon, delta):
    reached = judge.approximate_of_pure(epsilon, delta)
    truth = np.array([np.exp(epsilon), 1]) / (1 + np.exp(epsilon))
    spent = np.maximum(truth - np.exp(reached) * truth[::-1], 0).sum()
    assert spent == pytest.approx(delta) if reached > 0 else spent <= delta
    assert 0 <= reached < epsilon
