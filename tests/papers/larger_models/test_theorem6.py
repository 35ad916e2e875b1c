"""The theorem of chapter 1 that Theorem 6 becomes with its missing condition: against records drawn one by one.

Nothing here uses :mod:`dplib.gmm`: the classifier is written again from the definitions of the paper, so that a wrong
constant there, or on the page, shows.
"""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm


def psi_of_both(n: int, p: int, gamma: float, rng: np.random.Generator, scale: float = 2.0) -> tuple[float, float]:
    """Psi of class 1 and class 2 of one Fisher classifier (eqs. 5 to 8), trained on n records with noise."""
    released = 1 + scale**2  # variance of a feature with noise of a fixed size
    alpha = np.full(p, np.sqrt(gamma * released / p))
    one, two = (mean + np.sqrt(released) * rng.standard_normal((n // 2, p)) for mean in (alpha / 2, -alpha / 2))
    variance = (one.var(axis=0, ddof=1) + two.var(axis=0, ddof=1)) / 2
    weights = (one.mean(axis=0) - two.mean(axis=0)) / variance
    middle = (one.mean(axis=0) + two.mean(axis=0)) / 2
    spread = np.sqrt(released * weights @ weights)
    return (alpha / 2 - middle) @ weights / spread, (alpha / 2 + middle) @ weights / spread


@cache
def drawn(n: int, p: int, gamma: float, draws: int) -> np.ndarray:
    """Psi of the average of both classes' errors and of class 1, of so many training sets: shape (2, draws)."""
    rng = np.random.default_rng(6)
    found = np.array([psi_of_both(n, p, gamma, rng) for _ in range(draws)])
    return np.stack([-norm.ppf(norm.cdf(-found).mean(axis=1)), found[:, 0]])


def ratios(n: int, p: int, gamma: float, mean_errors: float = 4.0, draws: int = 20) -> np.ndarray:
    """Psi over that of the theorem, of the average of both classes and of class 1: shape (2, draws)."""
    return drawn(n, p, gamma, draws) / (gamma / (2 * np.sqrt(mean_errors * p / n + gamma)))


def away(found: np.ndarray) -> float:
    """Root mean square of what is left between a ratio and 1."""
    return float(np.sqrt(np.mean((found - 1) ** 2)))


def test_the_average_of_both_classes_comes_near_where_n_gamma_grows():
    small, large = ratios(100, 400, 4.0)[0], ratios(1600, 2000, 4.0)[0]
    assert away(large) < 0.03 < away(small)


@pytest.mark.parametrize("mean_errors", [2.0, 3.0, 5.0, 8.0])
def test_another_constant_than_four_is_seen(mean_errors):
    """With four the ratio is 1 within three hundredths; with its neighbours it is not."""
    assert abs(ratios(1600, 2000, 4.0, mean_errors)[0].mean() - 1) > 0.03


def test_without_the_condition_the_formula_is_no_limit():
    """n gamma is a half and stays there, while n and p grow: nothing comes near."""
    for n, p in ((100, 400), (400, 1600)):
        assert away(ratios(n, p, 0.5 / n)[0]) > 1


def test_one_class_needs_more():
    """n gamma grows and n gamma over the root of p does not: the average comes near, and class 1 does not."""
    average, one = ratios(200, 40_000, 1.0, draws=8)
    assert away(average) < 0.3
    assert away(one) > 0.5


@pytest.mark.parametrize("h", [0.001, 0.05, 0.3, 0.5, 1.0, 2.5])
def test_the_average_of_two_errors_lies_where_the_proof_says(h):
    """Between 1 - Phi((1 + h) psi), for h of at most a half, and 1 - Phi((1 - max(h, h squared)) psi)."""
    psi = np.geomspace(1e-6, 6, 4000)
    average = (norm.cdf(-psi - h) + norm.cdf(-psi + h)) / 2
    assert np.all(average <= norm.cdf(-(1 - max(h, h**2)) * psi) * (1 + 1e-12))
    assert h > 0.5 or np.all(average >= norm.cdf(-(1 + h) * psi) * (1 - 1e-12))


def test_less_than_the_proof_gives_away_would_not_do():
    """A bound without the square of h, as for one class, is crossed where psi is small."""
    assert (norm.cdf(-0.01 - 2.5) + norm.cdf(-0.01 + 2.5)) / 2 > norm.cdf(-0.01)
