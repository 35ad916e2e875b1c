"""Bounds of label-private optimisation against brute force, random search and exact privacy losses."""

import itertools

import numpy as np
import pytest

from dplib import exact_loss, mechanisms
from papers.labels import bounds


def second_moment(gradients, epsilon):
    """E |g|^2 of the debiased gradient (7) where label 0 is true, summed over the K answers; shape (..., K, B)."""
    classes, e = gradients.shape[-2], np.exp(epsilon)
    chances = np.append(e, np.ones(classes - 1)) / (e + classes - 1)
    mean = gradients.sum(axis=-2, keepdims=True) / (e + classes - 1)
    debiased = (e + classes - 1) / (e - 1) * (gradients - mean)
    return ((debiased**2).sum(axis=-1) * chances).sum(axis=-1)


@pytest.mark.parametrize("classes", [2, 3, 4, 9])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.5])
def test_no_gradients_exceed_the_worst_second_moment_and_some_reach_it(classes, epsilon):
    rng = np.random.default_rng(classes)
    worst = bounds.rr_worst_second_moment(classes, epsilon)
    some = rng.standard_normal((2000, classes, 3))
    some /= np.linalg.norm(some, axis=-1, keepdims=True)
    assert second_moment(some, epsilon).max() <= worst * (1 + 1e-12)
    # The others lean against the true one, so that their sum has length min(e^eps, K - 1).
    lean = min(np.exp(epsilon), classes - 1) / (classes - 1)
    angles = np.arange(classes - 1) * 2 * np.pi / max(classes - 1, 2)
    across = np.sqrt(1 - lean**2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    extreme = np.concatenate([[[1.0, 0, 0]], np.column_stack([np.full(classes - 1, -lean), across])])
    if classes > 2:
        assert second_moment(extreme, epsilon) == pytest.approx(worst, rel=1e-9)
    else:
        assert second_moment(np.array([[1.0], [-1.0]]), epsilon) == pytest.approx(worst)


def test_the_constant_of_the_gaussian_agrees_with_the_analytic_mechanism():
    for epsilon, delta in [(0.1, 1e-6), (1.0, 0.3), (5.0, 1e-3), (0.5, 0.9)]:
        ours = bounds.gaussian_constant(epsilon, delta)
        theirs = mechanisms.analytic_sigma(epsilon, delta, 2.0) * epsilon / np.sqrt(np.log(1 / delta))
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_two_root_two_is_enough_up_to_two_ln_two_and_nothing_is_enough_beyond_bounds():
    most = bounds.most_needed_constant(2 * np.log(2), 0.5, points=25)
    assert 2.7 < most <= 2 * np.sqrt(2)
    assert bounds.gaussian_constant(1.0, 1 - 1e-9) > 100  # no constant for delta near 1
    assert bounds.gaussian_constant(1e4, 0.5) > 100  # nor for large epsilon


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


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.001), (1.0, 0.1), (1.0, 0.6), (3.0, 0.01)])
def test_signs_that_leak_reach_the_bound_for_every_delta(epsilon, delta):
    """A wrong constant is caught from either side: the risk is at least the bound, and comes within a hundredth."""
    risk = [
        bounds.risk_of_leaking_signs(n, epsilon, delta) / bounds.sharp_bound(n, epsilon, delta) for n in (4, 40_000)
    ]
    assert risk[0] > 1
    assert 1 <= risk[1] < 1.01
    assert bounds.proposition13_bound(40, epsilon, delta) <= bounds.sharp_bound(40, epsilon, delta)
    assert bounds.sharp_bound(40, epsilon, 1e-12) == pytest.approx(bounds.sharp_bound(40, epsilon))


def test_signs_that_leak_are_as_private_as_said_and_their_risk_is_exact():
    n, epsilon, delta = 3, 1.0, 0.3
    keep, t = 1 / (1 + np.exp(-epsilon)), np.tanh(epsilon / 2)
    answers = {1.0: delta, -1.0: 0.0, t: (1 - delta) * keep, -t: (1 - delta) * (1 - keep)}  # the truth is +1
    other = {mean: answers[-mean] for mean in answers}
    assert sum(max(answers[m] - np.exp(epsilon) * other[m], 0) for m in answers) <= delta + 1e-12
    found = 0.0
    for means in itertools.product(answers, repeat=n):
        weights = np.array(means) / np.linalg.norm(means)  # D = 2
        chance = np.prod([answers[mean] for mean in means])
        found += chance * (bounds.empirical_risk(weights, np.ones(n)) + 1 / np.sqrt(n)) / 2
    assert found == pytest.approx(bounds.risk_of_leaking_signs(n, epsilon, delta))


@pytest.mark.parametrize("epsilon", [0.003, 0.07, 0.4, 1.0])
def test_the_constant_of_lemma_15_is_below_its_bound_at_every_size(epsilon):
    for n in (int(np.ceil(1 / epsilon)), 1000, 10**6):
        copies = int(1 / epsilon)
        vectors = n // copies
        left = (
            vectors
            * copies
            / n
            * bounds.sharp_bound(vectors, copies * epsilon, bounds.group_delta(epsilon, 0.1 * epsilon, copies))
        )
        assert bounds.lemma15_constant(0.1) / np.sqrt(epsilon * n) <= left


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


@pytest.mark.parametrize("copies", [1, 2, 5, 8])
def test_the_careful_counter_is_private_and_right_for_equal_copies(copies):
    epsilon = 0.3
    chance = bounds.most_careful_counter(copies, epsilon)
    table = np.stack([chance, 1 - chance], axis=1)
    assert exact_loss.discrete_epsilon(table, neighbours=itertools.pairwise(range(copies + 1))) <= epsilon + 1e-12
    assert chance[-1] == pytest.approx(1 - np.exp(-epsilon * copies / 2) / 2)
    assert chance[0] == pytest.approx(1 - chance[-1])


def test_sums_of_single_answers_are_signs():
    risks = bounds.risks_of_rr_sums(400, 1.0, 1, 4000, np.random.default_rng(2))
    assert abs(risks.mean() - bounds.risk_of_rr_signs(400, 1.0)) < 5 * risks.std() / np.sqrt(len(risks))


def test_the_reduction_of_lemma_16_by_enumeration():
    n, epsilon, delta = 3, 1.0, 0.2
    inner, _ = bounds.lemma16_budget(epsilon, delta)
    table = bounds.resampled_rr(n, inner)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    neighbours = [(i, i ^ (1 << b)) for i in range(2**n) for b in range(n)]
    assert exact_loss.discrete_delta(table, epsilon, neighbours) <= delta
