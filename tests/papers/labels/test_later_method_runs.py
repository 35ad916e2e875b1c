"""Label privacy of later years: exact losses, projections, and the fit to a noisy sum; and what audits certify."""

from itertools import product

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy import optimize
from sklearn.linear_model import LogisticRegression

from dplib import audit, mechanisms, randomised_response, releases
from papers.labels import later_method_runs, prior_rows


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.1), (3, 1.0), (6, 4.0)])
def test_a_binary_vector_loses_epsilon_and_its_likelihood_is_that_of_the_bits(classes, epsilon):
    bits = np.array(list(product([False, True], repeat=classes)))  # every vector
    flip = 1 / (1 + np.exp(epsilon / 2))
    agrees = bits[None] == np.eye(classes, dtype=bool)[:, None]
    log = np.where(agrees, np.log1p(-flip), np.log(flip)).sum(axis=2).T  # (vectors, labels)
    assert np.exp(log).sum(axis=0) == pytest.approx(1)
    assert np.ptp(log, axis=1).max() == pytest.approx(epsilon)
    ours = releases.subset_likelihood(bits, epsilon).values
    np.testing.assert_allclose(ours - ours[:, :1], log - log[:, :1], atol=1e-6)


def test_rows_are_no_longer_than_one(rng):
    parts = later_method_runs.scaled(*(5 * rng.standard_normal((3, 40, 3))))
    assert max(np.linalg.norm(x, axis=1).max() for x in parts) <= 1 + 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_many_noisy_gradients_spend_what_one_sum_does(epsilon):
    sigma, steps = float(mechanisms.analytic_sigma(epsilon, 1e-5)), 50
    assert mechanisms.gaussian_epsilon(sigma, 1.0, 1e-5) == pytest.approx(epsilon, rel=1e-3)
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event.GaussianDpEvent(sigma * np.sqrt(steps)), steps)
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=0.02)


def test_the_simplex_projection_is_the_nearest_point(rng):
    values = rng.standard_normal(6).astype(np.float32)
    points = later_method_runs.on_simplex(values)
    assert points.sum() == pytest.approx(1, abs=1e-5)
    assert points.min() >= 0
    best = optimize.minimize(
        lambda a: ((a - values) ** 2).sum(), np.full(6, 1 / 6), bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
    )  # fmt: skip
    np.testing.assert_allclose(points, best.x, atol=1e-3)


def test_a_gradient_of_the_hull_stays_and_noise_comes_nearer(rng):
    x = rng.standard_normal((30, 5)).astype(np.float32)
    chances = rng.dirichlet(np.ones(3), 30).astype(np.float32)
    inside = x.T @ (chances - np.eye(3)[rng.integers(3, size=30)]) / 30
    projection = later_method_runs.projected(inside, x, chances, smoothing=1.0, rounds=2000)
    np.testing.assert_allclose(projection, inside, atol=1e-2)
    noisy = inside + rng.standard_normal(inside.shape)
    near = later_method_runs.projected(noisy, x, chances, smoothing=1.0, rounds=200)
    assert np.linalg.norm(near - inside) < np.linalg.norm(noisy - inside)


def test_without_noise_the_sum_fits_what_the_labels_do(rng):
    x = rng.standard_normal((400, 4))
    y = (x @ rng.standard_normal((4, 3)) + rng.gumbel(size=(400, 3))).argmax(axis=1)
    ours = later_method_runs.fit_sum(x.astype(np.float32), x.T @ np.eye(3)[y], 0.01)
    theirs = LogisticRegression(C=1 / (0.01 * len(x)), fit_intercept=False, tol=1e-8).fit(x, y).coef_.T
    np.testing.assert_allclose(ours - ours.mean(axis=1, keepdims=True), theirs, atol=1e-2)


def test_an_audit_of_answers_certifies_what_a_simulated_one_does(rng):
    labels = rng.integers(2, size=2000)  # the first two of ten labels are a canary's own
    values = []
    for _ in range(25):
        answers = randomised_response.rr(labels, 10, 1.0, rng).labels
        guessed = answers < 2
        values.append(audit.one_run_epsilon(2000, int(guessed.sum()), int((answers == labels).sum()), 0.0))
    assert np.median(values) == pytest.approx(prior_rows.audit_of_answers(1.0, 2000, 10), abs=0.05)
    assert prior_rows.audit_of_answers(1.0, 100_000, 2) == pytest.approx(1.0, abs=0.02)
    table = prior_rows.audits((1.0,))
    assert table.loc[("one noisy sum", 1000), "ε = 1"] < table.loc[("answers, 10 labels", 1000), "ε = 1"] < 1
