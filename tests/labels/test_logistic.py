"""The logistic problem: data as described, exact risk, and methods that reach it."""

import numpy as np
import pytest
from scipy import optimize

from dplib.labels import logistic


def test_inputs_have_norm_one_and_labels_their_share():
    x, y = logistic.draw(20_000, 7, 0.5, 0.8, np.random.default_rng(0))
    np.testing.assert_allclose((x.astype(float) ** 2).sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(abs(x[:, 0]), 0.5, atol=1e-6)
    assert abs(((x[:, 0] > 0) == y).mean() - 0.8) < 0.015


@pytest.mark.parametrize("p", [2, 3, 9])
def test_the_risk_by_simulation(p):
    rng = np.random.default_rng(p)
    x, y = logistic.draw(200_000, p, 0.5, 0.8, rng)
    w = rng.standard_normal((1, p))
    values = np.logaddexp(0, -(2 * y - 1) * (x @ w[0]))
    best = np.log(4.0)
    floor = 0.8 * np.logaddexp(0, -best) + 0.2 * np.logaddexp(0, best)
    exact = logistic.excess_risk(w, 0.5, 0.8, 10.0)[0] + floor
    assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("radius", [1.0, 5.0])
def test_the_optimum_lies_on_the_first_axis_for_every_dimension(radius):
    for p in (2, 5, 500):

        def risk(first, p=p):
            return logistic.excess_risk(np.eye(1, p) * first, 0.5, 0.8, radius)[0]

        best = optimize.minimize_scalar(risk, bounds=(0, radius), method="bounded", options={"xatol": 1e-10})
        assert abs(best.fun) < 1e-7


@pytest.mark.parametrize("method", logistic.METHODS)
def test_every_method_learns_with_little_noise(method):
    out = logistic.run(
        method=method, n=3000, p=5, alpha=0.5, kappa=0.9, radius=4.0, epsilon=8.0, sigma=0.01,
        rates=[4.0] if method.endswith("-gd") else [1.0], seed=1, steps=40,
    )["excess"]  # fmt: skip
    assert len(out) == 1
    assert 0 <= out[0] < 0.05
