"""Divisors that depend on the data: exact losses against closed forms, quadrature, and the accountant."""

import numpy as np
import pytest
from scipy import optimize

from dplib import accounting, exact_loss, mechanisms
from dplib.checks import ParameterError


@pytest.mark.parametrize("n", [2, 5, 40])
def test_full_batches_have_closed_forms(n):
    """Constant: one Gaussian. Divided by n: Gaussians of two widths, two clipping norms over n apart."""
    sigma, delta = 2.5, 1e-3
    assert exact_loss.quotient_epsilon(n, 1.0, sigma, delta, "constant") == pytest.approx(
        mechanisms.gaussian_epsilon(sigma, 1.0, delta), rel=3e-4
    )
    widths = sigma / n, sigma / (n - 1)
    due = max(
        optimize.brentq(lambda e, x=x, y=y: mechanisms.two_gaussians_delta(2 / n, x, y, 1, e) - delta, 0, 100)
        for x, y in (widths, widths[::-1])
    )
    found = {name: exact_loss.quotient_epsilon(n, 1.0, sigma, delta, name) for name in ("records", "batch")}
    assert found == pytest.approx({"records": due, "batch": due}, rel=3e-4)
    assert due > mechanisms.gaussian_epsilon(sigma / 2, 1.0, delta) * 0.999  # more than half the noise


def test_a_random_batch_against_adaptive_quadrature():
    def log(present):
        return lambda z: np.log(exact_loss._quotient_density(z, 4, 0.3, 1.2, "batch", present))

    low, high = exact_loss.density_epsilon(log(True), log(False), 1e-2, (-14, 14))
    assert exact_loss.quotient_epsilon(4, 0.3, 1.2, 1e-2, "batch") == pytest.approx((low + high) / 2, rel=1e-3)


def test_a_constant_never_exceeds_the_accountant_and_the_others_do():
    spent = accounting.epsilon(1.7, 0.5, 1, 1e-3, "pld")
    found = {d: [exact_loss.quotient_epsilon(n, 0.5, 1.7, 1e-3, d) for n in (3, 10, 40)] for d in exact_loss.DIVISORS}
    assert max(found["constant"]) <= spent
    assert max(found["records"]) > spent
    assert max(found["batch"]) > spent


def test_noise_counts_records():
    n, coordinates = 60_000, 2e7
    distance = (2 * coordinates) ** 0.5 / n  # two scales, as one Gaussian in the limit of many coordinates
    near = mechanisms.gaussian_epsilon(1.0, distance, 1e-5)
    assert exact_loss.count_epsilon(n, coordinates, 1e-5) == pytest.approx(near, rel=5e-3)
    assert exact_loss.count_epsilon(n, 1, 1e-5) == 0.0


def test_nonsense_is_refused():
    with pytest.raises(ParameterError, match="divisor = 'n'"):
        exact_loss.quotient_epsilon(3, 0.5, 1.0, 1e-5, "n")
    with pytest.raises(ParameterError, match="n = 1"):
        exact_loss.quotient_epsilon(1, 0.5, 1.0, 1e-5, "batch")
