"""Bounds of label-private optimisation against brute force, random search and exact privacy losses."""

import itertools

import numpy as np
import pytest

from dplib import exact_loss, mechanisms
from dplib.checks import ParameterError
from dplib.labels import bounds


@pytest.mark.parametrize("classes", [2, 3, 4, 9])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.5])
def test_no_gradients_exceed_the_worst_second_moment_and_some_reach_it(classes, epsilon):
    rng = np.random.default_rng(classes)
    worst = bounds.rr_worst_second_moment(classes, epsilon)
    some = rng.standard_normal((2000, classes, 3))
    some /= np.linalg.norm(some, axis=-1, keepdims=True)
    assert bounds.rr_second_moment(some, 0, epsilon).max() <= worst * (1 + 1e-12)
    # The others lean against the true one, so that their sum has length min(e^eps, K - 1).
    lean = min(np.exp(epsilon), classes - 1) / (classes - 1)
    angles = np.arange(classes - 1) * 2 * np.pi / max(classes - 1, 2)
    across = np.sqrt(1 - lean**2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    extreme = np.concatenate([[[1.0, 0, 0]], np.column_stack([np.full(classes - 1, -lean), across])])
    if classes > 2:
        assert bounds.rr_second_moment(extreme, 0, epsilon) == pytest.approx(worst, rel=1e-9)
    else:
        assert bounds.rr_second_moment(np.array([[1.0], [-1.0]]), 0, epsilon) == pytest.approx(worst)


def test_the_printed_second_moment_is_generous_by_a_factor_of_thirty():
    epsilons, classes = np.linspace(1e-3, 1, 200), np.arange(2, 300)[:, None]
    ratio = bounds.rr_worst_second_moment(classes, epsilons) / bounds.printed_second_moment(classes, epsilons)
    assert ratio.max() == pytest.approx(1 / np.tanh(0.5) ** 2 / 4 / 36, rel=1e-9)  # at K = 2, eps = 1


def test_the_largest_norm_is_reached():
    gradients = np.array([[1.0], [-1.0], [-1.0]])
    e = np.exp(0.7)
    norm = abs((e + 2) / (e - 1) * (1.0 - gradients.sum() / (e + 2)))
    assert norm == pytest.approx(bounds.rr_largest_norm(3, 0.7))


def test_the_constant_of_the_gaussian_agrees_with_the_analytic_mechanism():
    for epsilon, delta in [(0.1, 1e-6), (1.0, 0.3), (5.0, 1e-3), (0.5, 0.9)]:
        ours = bounds.gaussian_constant(epsilon, delta)
        theirs = mechanisms.analytic_sigma(epsilon, delta, 2.0) * epsilon / np.sqrt(np.log(1 / delta))
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_two_root_two_is_enough_up_to_two_ln_two_and_nothing_is_enough_beyond_bounds():
    most, *_ = bounds.most_needed_constant(2 * np.log(2), 0.5, points=25)
    assert 2.7 < most <= bounds.GAUSSIAN_CONSTANT
    assert bounds.gaussian_constant(1.0, 1 - 1e-9) > 100  # no constant for delta near 1
    assert bounds.gaussian_constant(1e4, 0.5) > 100  # nor for large epsilon


def test_the_last_iterate_bound_contains_theorem_9():
    assert bounds.theorem9_bound(3, 0.5, 100) == pytest.approx(12 * 3 * (2 + np.log(100)) / (0.5 * 10))
    assert bounds.corollary10_bound(3, 0.5, 0.25, 100) == pytest.approx(bounds.theorem9_bound(3, 0.5, 100) + 0.5)


def test_normal_noise_wins_from_the_stated_number_of_labels():
    k = bounds.labels_from_which_normal_wins(1.0, 1e-5)
    variance = mechanisms.analytic_sigma(1.0, 1e-5, 2.0) ** 2
    below, above = np.floor(k) - 1, np.ceil(k) + 1
    assert bounds.rr_worst_second_moment(below, 1.0) < 1 + below * variance
    assert bounds.rr_worst_second_moment(above, 1.0) > 1 + above * variance
    assert bounds.labels_from_which_normal_wins(0.01, 0.4) == 2.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_signs_from_rr_reach_the_sharp_bound_by_enumeration(epsilon):
    n, keep = 4, 1 / (1 + np.exp(-epsilon))
    signs = np.array(list(itertools.product([-1, 1], repeat=n)))
    risks = []
    for answers in signs:  # truth: all +1; by symmetry every truth has the same risk
        chance = np.prod(np.where(answers == 1, keep, 1 - keep))
        risk = bounds.empirical_risk(answers / np.sqrt(n), np.ones(n)) - (-1 / np.sqrt(n))
        risks.append(chance * risk / 2)  # D = 2
    assert np.sum(risks) == pytest.approx(bounds.risk_of_rr_signs(n, epsilon))
    assert np.sum(risks) == pytest.approx(bounds.sharp_bound(n, epsilon))
    assert bounds.proposition13_bound(n, epsilon) < bounds.sharp_bound(n, epsilon)


def test_lp_rr_sgd_on_the_construction_by_simulation():
    n, epsilon, rate = 30, 1.0, 0.4
    rng = np.random.default_rng(0)
    right = np.where(rng.random((20000, n)) < 1 / (1 + np.exp(-epsilon)), 1.0, -1.0)  # all true labels +1
    w = np.zeros((20000, n))
    for t in range(n):
        w[:, t] += rate / np.sqrt(t + 1) * right[:, t] / np.tanh(epsilon / 2)
        w /= np.maximum(1, np.linalg.norm(w, axis=1, keepdims=True))
    risks = (bounds.empirical_risk(w, np.ones(n)) + 1 / np.sqrt(n)) / 2
    exact = bounds.risk_of_lp_rr_sgd(n, epsilon, rate)
    assert abs(risks.mean() - exact) < 5 * risks.std() / np.sqrt(len(risks))
    assert exact >= bounds.sharp_bound(n, epsilon)


def test_group_privacy_of_a_mechanism_with_delta():
    # With probability delta the label is shown, else RR: (eps, delta)-DP exactly.
    epsilon, delta, k = 0.4, 0.02, 3
    keep = 1 / (1 + np.exp(-epsilon))
    one = np.array(
        [
            [(1 - delta) * keep, (1 - delta) * (1 - keep), delta, 0],
            [(1 - delta) * (1 - keep), (1 - delta) * keep, 0, delta],
        ]
    )
    assert exact_loss.discrete_delta(one, epsilon) == pytest.approx(delta)
    together = np.stack([one[0], one[1]])
    for _ in range(k - 1):
        together = np.stack([np.kron(together[0], one[0]), np.kron(together[1], one[1])])
    assert exact_loss.discrete_delta(together, k * epsilon) <= bounds.group_delta(epsilon, delta, k)
    assert bounds.group_delta(epsilon, delta, 1) == pytest.approx(delta)


@pytest.mark.parametrize("copies", [1, 2, 5, 8])
def test_the_careful_counter_is_private_and_right_for_equal_copies(copies):
    epsilon = 0.3
    chance = bounds.most_careful_counter(copies, epsilon)
    table = np.stack([chance, 1 - chance], axis=1)
    assert exact_loss.discrete_epsilon(table, neighbours=itertools.pairwise(range(copies + 1))) <= epsilon + 1e-12
    assert chance[-1] == pytest.approx(1 - np.exp(-epsilon * copies / 2) / 2)
    assert chance[0] == pytest.approx(1 - chance[-1])


def test_lemma_15_scales_with_the_root_of_epsilon():
    n = 10**6
    small, smaller = (bounds.lemma15_bound(n, e, sharp=True) for e in (0.04, 0.01))
    assert smaller / small == pytest.approx(2.0, rel=0.02)
    assert bounds.lemma15_bound(n, 0.01) < bounds.lemma15_bound(n, 0.01, sharp=True)


def test_sums_of_answers_are_above_the_bound():
    risks = bounds.risks_of_rr_sums(900, 0.2, 9, 2000, np.random.default_rng(1))
    assert risks.mean() > bounds.lemma15_bound(900, 0.2, sharp=True)
    one = bounds.risks_of_rr_sums(400, 1.0, 1, 4000, np.random.default_rng(2))
    assert abs(one.mean() - bounds.risk_of_rr_signs(400, 1.0)) < 5 * one.std() / np.sqrt(len(one))


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(100, 1.0, 1e-3), (5, 0.3, 0.4), (10**6, 1.0, 1e-8)])
def test_the_parameters_of_lemma_16_are_enough(n, epsilon, delta):
    assert bounds.lemma16_slack(n, epsilon, delta) <= delta


def test_the_reduction_of_lemma_16_by_enumeration():
    n, epsilon, delta = 3, 1.0, 0.2
    inner, _ = bounds.lemma16_budget(epsilon, delta)
    table = bounds.resampled_rr(n, inner)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    neighbours = [(i, i ^ (1 << b)) for i in range(2**n) for b in range(n)]
    assert exact_loss.discrete_delta(table, epsilon, neighbours) <= delta
    with pytest.raises(ParameterError, match="n = 9"):
        bounds.resampled_rr(9, 1.0)
