"""Debiased gradients and losses by enumeration, the span, exact Rademacher complexities, the bound of Theorem 17."""

import numpy as np
import pytest

from dplib import debiased
from dplib import randomised_response as response
from dplib.checks import ParameterError


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_the_debiased_gradient_is_unbiased(classes, epsilon):
    rng = np.random.default_rng(classes)
    gradients = rng.standard_normal((5, classes, 4))
    table = np.exp(response.log_table(np.ones(classes, dtype=bool), epsilon))
    for label in range(classes):
        answers = [debiased.debiased_gradient(gradients, np.full(5, o), epsilon) for o in range(classes)]
        mean = np.tensordot(table[label], answers, axes=1)
        np.testing.assert_allclose(mean, gradients[:, label], atol=1e-9 * classes / min(epsilon, 1))
    with pytest.raises(ParameterError, match="epsilon"):
        debiased.debiased_gradient(gradients, np.zeros(5, dtype=int), 0.0)


@pytest.mark.parametrize("loss", [debiased.softmax_loss(4), debiased.logistic_loss()])
def test_gradients_are_derivatives_and_lipschitz(loss):
    rng = np.random.default_rng(1)
    scores = 2 * rng.standard_normal((50, loss.outputs))
    gradients = loss.gradients(scores)
    for b in range(loss.outputs):
        shift = 1e-6 * np.eye(loss.outputs)[b]
        slope = (loss.values(scores + shift) - loss.values(scores - shift)) / 2e-6
        np.testing.assert_allclose(gradients[..., b], slope, atol=1e-8)
    far = loss.gradients(100 * rng.standard_normal((500, loss.outputs)))
    assert np.sqrt((far**2).sum(axis=-1)).max() <= loss.lipschitz + 1e-12


def test_the_span_has_the_rank_of_the_gradients_and_keeps_them():
    rng = np.random.default_rng(2)
    softmax = debiased.softmax_loss(5).gradients(rng.standard_normal((6, 5)))
    projector, rank = debiased.span_projector(softmax)
    assert (rank == 4).all()  # the gradients of softmax sum to a multiple of no direction along (1, ..., 1)
    np.testing.assert_allclose(np.einsum("rij,rkj->rki", projector, softmax), softmax, atol=1e-12)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    assert debiased.span_projector(np.zeros((1, 3, 2)))[1] == 0


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_lemma_18_and_the_mean_outside_the_set(k, epsilon):
    losses = np.random.default_rng(k).random((7, k))
    table = np.exp(response.log_table(np.ones(k, dtype=bool), epsilon))
    every = debiased.debiased_loss(losses, epsilon)
    np.testing.assert_allclose(every @ table.T, losses, atol=1e-11)
    np.testing.assert_allclose(every.mean(axis=1), losses.mean(axis=1), atol=1e-11)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_lemma_19_least_constant_is_reached_and_never_exceeded(k):
    epsilon, rng = 0.8, np.random.default_rng(k)
    slopes = rng.uniform(-1, 1, (20000, k))  # derivatives of L-Lipschitz losses, L = 1
    least = debiased.lipschitz_least(k, epsilon)
    assert abs(debiased.debiased_loss(slopes, epsilon)).max() <= least
    worst = np.where(np.arange(k) == 0, 1.0, -1.0)
    assert debiased.debiased_loss(worst, epsilon)[0] == pytest.approx(least)
    zero_one = debiased.debiased_loss(np.stack([(1 - worst) / 2, (1 + worst) / 2]), epsilon)[:, 0]
    assert np.ptp(zero_one) == pytest.approx(least)  # and so is the width
    assert least < debiased.lipschitz_printed(k, epsilon)


def test_rademacher_complexity_of_thresholds_by_enumeration():
    for n in (1, 2, 5, 9):
        thresholds = np.array([[x >= t for x in range(n)] for t in range(n + 1)], dtype=float)
        assert debiased.thresholds_rademacher(n) == pytest.approx(debiased.empirical_rademacher(thresholds))
    assert debiased.thresholds_rademacher(10_000) == pytest.approx(np.sqrt(2 / np.pi / 10_000), rel=0.01)


def test_population_risk_of_the_line():
    line = debiased.LabelsOnLine(4, 2, 0.5)
    rng = np.random.default_rng(1)
    x, labels, _ = line.draw(400_000, 1.0, rng)
    for theta in (0.0, 0.3, 0.5, 1.0):
        risk = abs((x >= theta) - labels / 3)
        assert abs(risk.mean() - line.population_risk(theta)) < 5 * risk.std() / np.sqrt(len(risk))


def test_draws_follow_rr_top_k():
    line, epsilon = debiased.LabelsOnLine(5, 3, 0.7), 0.9
    x, labels, answer = line.draw(200_000, epsilon, np.random.default_rng(2))
    own = (x * 5).astype(int)
    inside = (line.members[own] == labels[:, None]).any(axis=1)
    assert abs((~inside).mean() - line.miss) < 5e-3
    kept = line.members[own][np.arange(len(x)), answer] == labels
    assert abs(kept[inside].mean() - np.exp(epsilon) / (np.exp(epsilon) + 2)) < 5e-3
    assert abs(np.bincount(answer[~inside]) / (~inside).sum() - 1 / 3).max() < 0.01


def test_a_set_of_one_label_has_one_answer():
    line = debiased.LabelsOnLine(3, 1, 0.5)
    x, _, answer = line.draw(50, 1.0, np.random.default_rng(0))
    assert not answer.any()
    assert line.answered_losses(x, answer, 1.0).shape == (2, 50)


def test_the_largest_deviation_is_that_of_a_fine_grid():
    line = debiased.LabelsOnLine(3, 2, 0.6)
    rng = np.random.default_rng(3)
    x, _, answer = line.draw(30, 1.0, rng)
    values = line.answered_losses(x, answer, 1.0)
    grid = np.sort(np.concatenate([np.linspace(0, 1, 20_001), x, x + 1e-12]))
    empirical = [(np.where(x >= t, values[1], values[0])).mean() for t in grid]
    brute = abs(np.array(empirical) - line.population_risk(grid)).max()
    off, regret = line.largest_deviation(x, values)
    assert off == pytest.approx(brute, abs=1e-9)
    assert -1e-12 <= regret <= 2 * off + 1e-12


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_label_of_no_probability_has_a_finite_loss():
    values = debiased.softmax_loss(2).values(np.array([[0.0, 1000.0], [1e6, 0.0], [0.0, 0.0]]))
    np.testing.assert_allclose(values, [[1000, 0], [0, 1e6], [np.log(2), np.log(2)]], rtol=1e-12)
