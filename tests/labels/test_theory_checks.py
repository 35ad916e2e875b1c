"""The exact checks hold where the theory says so, and fail where it is bent."""

import numpy as np
import pytest

from dplib import mechanisms
from dplib.labels import debiased
from dplib.labels import theory_checks as checks


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.1), (5, 1.0)])
def test_debiasing(classes, epsilon):
    bias, ratio = checks.bias_of_debiasing(classes, epsilon, 50, rng())
    assert bias < 1e-12
    assert 0 < ratio < 1


def test_the_loss_of_a_pass_is_epsilon():
    found = checks.one_pass(0.7, rng())
    assert found["pass_epsilon"] == pytest.approx(0.7)
    assert found["pass_delta"] < 1e-12 < found["pass_delta_at_99"]


def test_the_loss_of_a_normal_step():
    found = checks.loss_of_a_normal_step(1.0, 1e-3, 40, rng(1))
    assert found["step_delta"] == pytest.approx(1e-3, rel=1e-6)
    assert found["step_quadrature"] == pytest.approx(found["step_delta"], rel=1e-5)
    assert found["off_span"] < 1e-12
    assert abs(found["step_noise"] - 1) < 0.1


def test_noise_grows_with_labels_in_the_span_and_with_dimension_outside():
    few, many = (np.mean(checks.noise_norms("span", k, 60, 1.0, 4000, rng(2)) ** 2) for k in (3, 12))
    assert few == pytest.approx(3, rel=0.1)
    assert many == pytest.approx(12, rel=0.1)
    assert np.mean(checks.noise_norms("all", 3, 60, 1.0, 4000, rng(3)) ** 2) == pytest.approx(60, rel=0.05)


def test_moving_labels():
    nine, ten = checks.moving_labels(30, rng(4))
    assert 0 < ten <= nine <= 1
    assert checks.moving_labels_at_worst(0.2) == pytest.approx(0.4, rel=1e-5)


def test_lemma_20_is_an_inequality_that_can_be_reached():
    assert 0.5 < checks.lemma_20(400, rng(5)) <= 1 + 1e-12


def test_generalisation_runs_and_its_mean():
    line = debiased.Line(4, 2, 0.7)
    found = checks.generalisation(line, 400, 0.8, 200, rng(6))
    assert all(v.shape == (200,) for v in found.values())
    single, members = found["single"], line.members
    inside = np.take_along_axis(line.chances, members, axis=1)
    of_members = line.loss[0][members]
    answered = (inside * of_members).sum(axis=1) + (1 - inside.sum(axis=1)) * of_members.mean(axis=1)
    moved = answered.mean() - line.population_risk(1.0)  # labels outside Y_k are answered at random from it
    assert 0 < abs(moved) <= line.miss
    assert abs(single.mean() - moved) < 5 * single.std() / np.sqrt(200)
    assert (found["deviation"] >= abs(found["regret"]) / 2 - 1e-12).all()


def test_a_larger_sensitivity_would_break_the_budget():
    sigma = mechanisms.analytic_sigma(1.0, 1e-3, 2.0)
    assert mechanisms.gaussian_delta(sigma, 2.0, 1.0) == pytest.approx(1e-3, rel=1e-6)
    assert mechanisms.gaussian_delta(sigma, 2.1, 1.0) > 1e-3
