"""Composition of pure mechanisms: enumeration, multi-precision sums, dp_accounting's privacy loss distributions."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import stats

from dplib import exact_loss
from dplib.architecture.search_budgets import composed_epsilon

SETTINGS = [(0.5, 7, 1e-3), (0.1, 40, 1e-5), (2.0, 5, 0.1), (1.0, 20, 1e-2)]


def response(epsilon, count):
    """Randomised response on two neighbouring inputs, ``count`` times: rows of probabilities of the false answers."""
    true = 1 / (1 + math.exp(-epsilon))
    false_answers = np.arange(count + 1)
    return np.stack([stats.binom.pmf(false_answers, count, 1 - true), stats.binom.pmf(false_answers, count, true)])


@pytest.mark.parametrize(("epsilon", "count", "delta"), SETTINGS)
def test_optimal_composition_is_that_of_randomised_response(epsilon, count, delta):
    exact = exact_loss.discrete_epsilon(response(epsilon, count), delta)
    assert composed_epsilon(epsilon, count, delta) == pytest.approx(exact, rel=1e-10)


def test_all_outputs_one_by_one():
    """Five answers, 32 outputs, not lumped together."""
    true = 1 / (1 + math.exp(-0.7))
    one = np.array([[true, 1 - true], [1 - true, true]])
    rows = one
    for _ in range(4):
        rows = np.einsum("ij,ik->ijk", rows, one).reshape(2, -1)
    assert rows.shape == (2, 32)
    assert composed_epsilon(0.7, 5, 0.02) == pytest.approx(exact_loss.discrete_epsilon(rows, 0.02), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "count", "i"), [(0.1, 60, 20), (0.1, 6000, 2900), (0.01, 10_000, 4900), (3.0, 9, 2)]
)
def test_closed_form_of_kairouz_oh_and_viswanath(epsilon, count, i):
    """Theorem 3.3 at epsilon_i = (count - 2 i) epsilon, in 60 digits."""
    with mpmath.workdps(60):
        e = mpmath.exp(mpmath.mpf(epsilon))
        terms = (
            mpmath.binomial(count, k) * (e ** (count - k) - e ** (count - 2 * i + k)) / (1 + e) ** count
            for k in range(i)
        )
        delta = float(mpmath.fsum(terms))
    assert composed_epsilon(epsilon, count, delta) == pytest.approx((count - 2 * i) * epsilon, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.1, 2300, 1e-6), (0.1, 6000, 1e-5), (2.11, 12, 1e-5)])
def test_two_computations_agree(epsilon, count, delta):
    """dp_accounting's privacy loss distribution of randomised response, on a grid that has both losses as points."""
    noise = 2 / (1 + math.exp(epsilon))  # probability of a random answer
    interval = math.log(1 - noise / 2) - math.log(noise / 2)  # epsilon, as rounded as theirs
    one = privacy_loss_distribution.from_randomized_response(noise, 2, value_discretization_interval=interval)
    found = one.self_compose(count).get_epsilon_for_delta(delta)
    assert composed_epsilon(epsilon, count, delta) == pytest.approx(found, rel=1e-8)


def test_every_valid_rule_is_above_the_optimum():
    rng = np.random.default_rng(0)
    epsilon, count = np.exp(rng.uniform(-5, 1, 60)), np.ceil(np.exp(rng.uniform(0, 8, 60)))
    delta = 10 ** rng.uniform(-9, -1, 60)
    best = composed_epsilon(epsilon, count, delta)
    for rule in ("basic", "corrected"):
        assert (composed_epsilon(epsilon, count, delta, rule) >= best * (1 - 1e-12)).all(), rule


def test_equation_8_by_hand():
    """c = 4, epsilon = 1, delta = e^-2: the root is of 16, and the second term 4 (e - 1)."""
    assert composed_epsilon(1.0, 4, math.exp(-2), "corrected") == pytest.approx(4 + 4 * (math.e - 1))
    assert composed_epsilon(1.0, 4, math.exp(-2), "printed") == pytest.approx(math.sqrt(16 + 4 * (math.e - 1)))


def test_the_printed_equation_is_no_bound():
    """At the epsilon that it gives, randomised response has more than ten times the delta that was promised."""
    for epsilon, count, broken in ((0.1, 10, False), (0.5, 10, False), (0.1, 6000, True), (0.5, 50, True)):
        printed = composed_epsilon(epsilon, count, 1e-5, "printed")
        assert (printed < composed_epsilon(epsilon, count, 1e-5)) == broken
    assert composed_epsilon(0.5, 50, 1e-5, "printed") == pytest.approx(17.084, abs=1e-3)
    assert exact_loss.discrete_delta(response(0.5, 50), 17.084) > 10 * 1e-5


def test_extremes_neither_overflow_nor_leave_the_range():
    assert composed_epsilon(800.0, 3, 1e-5) == pytest.approx(2400)
    assert composed_epsilon(1e-6, 1, 0.5) == 0.0
    assert composed_epsilon(0.01, 10_000, 1e-300) <= 100
