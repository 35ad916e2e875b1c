"""Gaussian calibration: closed forms, multi-precision arithmetic, integration, and dp_accounting."""

import warnings

import mpmath
import numpy as np
import pytest
import torch
from dp_accounting import gaussian_mechanism
from scipy import integrate, stats

from dplib import mechanisms
from dplib.checks import ParameterError


def test_paper_sigma_is_linear_in_sensitivity_and_inverse_in_epsilon():
    assert mechanisms.paper_sigma(3, 1e-4) == pytest.approx(np.log(1e4) / 3)
    assert mechanisms.paper_sigma(1.5, 1e-4, 7) == pytest.approx(14 * mechanisms.paper_sigma(3, 1e-4))
    assert mechanisms.paper_sigma([1, 2], 1e-4).shape == (2,)
    assert mechanisms.paper_sigma(1, 1e-4, 0) == 0


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 10, 100, 1000])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.5])
def test_analytic_sigma_is_the_least_private_noise(epsilon, delta):
    sigma = mechanisms.analytic_sigma(epsilon, delta, 3)
    assert mechanisms.gaussian_delta(1.0001 * sigma, 3, epsilon) < delta
    assert mechanisms.gaussian_delta(0.9999 * sigma, 3, epsilon) > delta


# The extremes: far tails, no noise to speak of, and near-cancellation where epsilon is small and sigma large.
POINTS = [(1, 1), (0.05, 1000), (0.01, 500), (5, 0.01), (1e4, 1e-5), (3, 10), (0.3, 1e-3), (100, 1), (0.5, 2), (50, 0)]


@pytest.mark.parametrize(("sigma", "epsilon"), POINTS)
def test_gaussian_log_delta_against_sixty_digits(sigma, epsilon):
    with mpmath.workdps(60):
        s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
        exact = float(mpmath.log(exact))
    assert mechanisms.gaussian_log_delta(sigma, 1, epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert mechanisms.gaussian_log_delta(7 * sigma, 7, epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.99e5, 1e5, 1e8, 1e12, 1433699918667449.2, 1e100])
def test_log_delta_of_large_noise_against_hundreds_of_digits(sigma):
    """Both terms of the formula are one number there: delta was too small, or 0."""
    for level in (0, 1e-9, 0.1, 1, 5, 20.375, 38, 99, 101, 300):
        epsilon = level / sigma
        with mpmath.workdps(300):
            s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
            above = [mpmath.erfc((e * s + sign / (2 * s)) / mpmath.sqrt(2)) / 2 for sign in (-1, 1)]
            exact = float(mpmath.log(above[0] - mpmath.exp(e) * above[1]))
        assert mechanisms.gaussian_log_delta(sigma, 1, epsilon) == pytest.approx(exact, rel=1e-11, abs=1e-8)


def test_epsilon_of_large_noise_spends_its_delta():
    for sigma, delta in [(1e6, 1e-7), (1e8, 1e-300), (1e12, 1e-13), (1e15, 1e-17)]:
        e = mechanisms.gaussian_epsilon(sigma, 1.0, delta)
        with mpmath.workdps(300):
            s, e = mpmath.mpf(sigma), mpmath.mpf(e)
            exact = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
        assert float(exact) == pytest.approx(delta, rel=1e-9, abs=0)


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.7, 0.5), (1, 1), (2, 0), (4, 0.2)])
def test_gaussian_delta_against_integration_of_its_definition(sigma, epsilon):
    assert mechanisms.gaussian_delta(sigma, 1, epsilon) == pytest.approx(hockey_stick(1, sigma, sigma, epsilon))


def test_gaussian_epsilon_inverts_delta_and_agrees_with_dp_accounting():
    epsilon, delta = np.meshgrid(np.logspace(-2, 3, 12), np.logspace(-10, np.log10(0.5), 9), indexing="ij")
    sigma = mechanisms.paper_sigma(epsilon, delta)
    spent = mechanisms.gaussian_epsilon(sigma, 1, delta)
    reference = [gaussian_mechanism.get_epsilon_gaussian(s, d) for s, d in zip(sigma.flat, delta.flat, strict=True)]
    assert spent.ravel() == pytest.approx(reference, rel=1e-6, abs=1e-8)
    positive = spent > 0
    assert positive.any()
    assert mechanisms.gaussian_delta(sigma, 1, spent)[positive] == pytest.approx(delta[positive], rel=1e-9)


def test_gaussian_edge_cases():
    assert mechanisms.gaussian_delta(0, 1, 1) == 1
    assert mechanisms.gaussian_delta(0, 0, 1) == 0
    assert mechanisms.gaussian_delta(np.inf, 1, 0) == 0
    assert mechanisms.gaussian_delta(1, 1, np.inf) == 0
    assert mechanisms.gaussian_delta(1, 1, 0) == pytest.approx(2 * stats.norm.cdf(0.5) - 1)
    assert mechanisms.gaussian_epsilon(0, 1, 0.9) == np.inf
    assert mechanisms.gaussian_epsilon([np.inf, 1, 100], [1, 0, 1], [1e-9, 1e-9, 0.5]).tolist() == [0, 0, 0]


def test_two_gaussians_delta_against_integration_in_one_dimension():
    for distance, x, y, epsilon in [(1, 1, 2, 0.5), (1, 2, 1, 0.5), (3, 1, 1.5, 0.1), (0, 1, 2, 0), (1, 1.2, 1, 3)]:
        expected = hockey_stick(distance, x, y, epsilon)
        assert mechanisms.two_gaussians_delta(distance, x, y, 1, epsilon) == pytest.approx(expected, abs=1e-8)
    assert mechanisms.two_gaussians_delta(2, 3, 3, 5, 1) == mechanisms.gaussian_delta(3, 2, 1)
    assert mechanisms.two_gaussians_delta(0.5, 1, 1.2, 1, 2) == 0


def test_two_gaussians_delta_in_many_dimensions():
    """Monte Carlo of E_x[(1 - exp(epsilon - loss))+] within four standard errors (error rate 6e-5, seed fixed)."""
    rng, dimension, distance, x, y, epsilon = np.random.default_rng(1), 200, 2.0, 1.1, 1.0, 1.0
    draws = x * rng.standard_normal((20_000, dimension))
    other = draws - distance / np.sqrt(dimension)
    loss = (other**2).sum(1) / (2 * y**2) - (draws**2).sum(1) / (2 * x**2) + dimension * np.log(y / x)
    gain = np.maximum(0, -np.expm1(epsilon - loss))
    exact = mechanisms.two_gaussians_delta(distance, x, y, dimension, epsilon)
    assert abs(gain.mean() - exact) < 4 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize("calibrate", [mechanisms.paper_sigma, mechanisms.analytic_sigma])
def test_calibration_refuses_what_is_no_budget(calibrate):
    for epsilon, delta, sensitivity in [
        (0, 1e-5, 1),
        (-1, 1e-5, 1),
        ([0.5, -2], 1e-5, 1),
        (np.nan, 1e-5, 1),
        (0.5, 0, 1),
        (0.5, 1, 1),
        (0.5, 1e-5, -1),
    ]:
        with pytest.raises(ParameterError):
            calibrate(epsilon, delta, sensitivity)


def test_refusals_name_the_value():
    with pytest.raises(ParameterError, match=r"delta = 1\.5"):
        mechanisms.gaussian_epsilon(1, 1, 1.5)
    with pytest.raises(ParameterError, match="sigma = -1"):
        mechanisms.gaussian_delta(-1, 1, 1)


def hockey_stick(distance, sigma_x, sigma_y, epsilon):
    """max over S of P(S) - e^epsilon Q(S) for N(0, sigma_x^2) and N(distance, sigma_y^2), by quadrature."""

    def excess(value):
        return max(0, stats.norm.pdf(value, 0, sigma_x) - np.exp(epsilon) * stats.norm.pdf(value, distance, sigma_y))

    return sum(integrate.quad(excess, k, k + 1, epsabs=1e-12)[0] for k in range(-30, 30))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("value", [0, 1e-300, 1e-40, 1e-16, 1.0, 1e19, 3e38, 1e160, np.finfo(float).max])
@pytest.mark.parametrize("bound", [1e-50, 1.0, 1e6, 1e50])
def test_rows_of_any_length_keep_within_the_bound_and_no_input_is_changed(kind, value, bound):
    if value > np.finfo(kind).max:
        pytest.skip("no number of this kind")
    x = np.full((2, 4), value, dtype=kind)
    clipped = mechanisms.clip_rows(x, bound)
    assert (x == kind(value)).all()
    assert clipped.dtype == kind
    expected = min(bound / 2, float(x[0, 0]))  # of four equal numbers each is half of the norm
    np.testing.assert_allclose(clipped.astype(float), expected, rtol=1e-5, atol=1e-44)


def test_clip_rows_shortens_long_rows_and_no_others():
    x = np.array([[3.0, 4], [0.3, 0.4], [0, 0]], np.float32)
    clipped = mechanisms.clip_rows(x, 1)
    assert np.allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0, 0]])
    assert clipped.dtype == np.float32
    assert np.allclose(np.linalg.norm(mechanisms.clip_rows(x, 2.5)[0]), 2.5)
    big = mechanisms.clip_rows(np.random.default_rng(0).normal(size=(2000, 108)), 1)
    assert np.linalg.norm(big, axis=1).max() <= 1 + 1e-12
    with pytest.raises(ParameterError, match="max_norm = 0"):
        mechanisms.clip_rows(x, 0)


def test_half_precision_is_clipped_as_its_numbers_are():
    """The squares of 1.7e-4 vanish in half precision: 768 of them have a norm of 4.7e-3."""
    x = np.full((1, 769), 1.7e-4, np.float16)
    x[0, 0] = 1e-3
    clipped = mechanisms.clip_rows(x, 1e-3)
    assert clipped.dtype == np.float64
    assert np.linalg.norm(clipped) == pytest.approx(1e-3, rel=1e-12)


def test_deviations_that_differ_in_the_last_digits_only_are_refused():
    assert mechanisms.two_gaussians_delta(1.0, 1.0, 1 + 1e-5, 1, 0.5) == pytest.approx(0.2384, abs=2e-4)
    assert mechanisms.two_gaussians_delta(0.0, 1.0, 1 + 1e-9, 1, 0.0) == pytest.approx(0.0, abs=1e-8)
    with pytest.raises(ParameterError, match=r"equal deviations \(gaussian_delta\)"):
        mechanisms.two_gaussians_delta(1.0, 1.0, 1 + 1e-6, 1, 0.5)


@pytest.mark.parametrize("row", [[1e160] * 3, [1e308, -1e308, 0], [1e200, 3e-5, 1e199]])
@pytest.mark.parametrize("bound", [1e-50, 1.0, 1e50])
def test_a_row_whose_norm_no_float_holds_keeps_its_direction(row, bound):
    """They became zeros, as only rows that are not finite may."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped = mechanisms.clip_rows(np.array([row, [1.0, 2, 2]]), bound)
    norms = np.linalg.norm(clipped, axis=1) if bound > 1e-50 else np.linalg.norm(clipped * 1e50, axis=1) * 1e-50
    assert norms == pytest.approx([bound, min(3, bound)], rel=1e-12)
    direction = np.array(row) / np.abs(row).max()
    np.testing.assert_allclose(clipped[0] / np.abs(clipped[0]).max(), direction, rtol=1e-12)


def test_hidden_values_are_in_no_row_and_a_tensor_loses_its_graph():
    with pytest.raises(ParameterError, match="masked"):
        mechanisms.clip_rows(np.ma.masked_array([[3.0, 4]], [[True, False]]))
    np.testing.assert_allclose(mechanisms.clip_rows(torch.tensor([[3.0, 4]], requires_grad=True)), [[0.6, 0.8]], 1e-6)
