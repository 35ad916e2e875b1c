"""Lemma 1 and Corollary 1 of paper B: hand-computed cases, exact arithmetic, and a simulation that knows no algebra."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from papers.architecture import privacy_cost_theory as theory


def test_expected_errors_by_hand():
    # c = 3 - (1*1 + 2*(-1)) = 4, u = -2; |x|^2 = 2, |x'|^2 = 1.
    with_m, without = theory.expected_errors([1.0, 2.0], [1.0, -1.0], 3.0, 0.5, 0.25)
    assert with_m == 16 + 0.25 * 2
    assert without == (4 - 2) ** 2 + 0.0625 * 1


def test_the_conditions_are_the_comparison_of_the_errors():
    rng = np.random.default_rng(1)
    for _ in range(300):
        theta, x, y = rng.normal(size=3), rng.normal(size=3), rng.normal()
        sigma, small = rng.random(2)
        big_error, small_error = theory.expected_errors(theta, x, y, sigma, small)
        c, u = y - theta @ x, theta[-1] * x[-1]
        d = sigma**2 * x @ x - small**2 * x[:-1] @ x[:-1]
        assert theory.smaller_is_as_good(u, c, d) == (small_error <= big_error)
        low, high = theory.exact_interval(c, d)
        assert theory.smaller_is_as_good(u, c, d) == bool(low <= u <= high)
        if c**2 + d >= 0:
            as_printed = abs(theta[-1]) <= (np.sqrt(c**2 + d) - abs(c)) / abs(x[-1])
            assert theory.printed_condition(u, c, d) == as_printed


def test_the_counterexample_in_fractions():
    u, c, d = Fraction(-2), Fraction(1), Fraction(3)
    assert theory.smaller_is_as_good(u, c, d)
    assert not theory.printed_condition(u, c, d)


def test_count_agreement_small_case_by_brute_force():
    counts = theory.count_agreement(2)
    seen = dict.fromkeys(("neither", "only exact", "only printed", "both"), 0)
    for u, c, d in itertools.product(range(-2, 3), range(-2, 3), range(-12, 13)):
        exact = (c + u) ** 2 - c**2 <= d
        printed = c**2 + d >= 0 and Fraction(abs(u) + abs(c)) ** 2 <= c**2 + d
        seen[list(seen)[exact + 2 * printed]] += 1
    assert {name: counts[name] for name in seen} == seen
    assert counts["only printed"] == 0
    assert counts["only exact, c = 0"] == 0
    assert counts["off interval"] == 0
    assert counts["only exact"] > 0


def test_gain_of_dropping_against_a_refitted_regression():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    moments, theta, sigma = root @ root.T + np.eye(3), np.array([0.5, -1.0, 2.0]), 0.3
    zeroed, refitted = theory.gain_of_dropping(theta, moments, sigma)
    j, rest = 1, [0, 2]
    noise_with, noise_without = sigma**2 * np.trace(moments), sigma**2 * (moments[0, 0] + moments[2, 2])
    cut = theta.copy()
    cut[j] = 0
    assert zeroed[j] == pytest.approx(noise_with - noise_without - (theta - cut) @ moments @ (theta - cut))
    again = np.linalg.solve(moments[np.ix_(rest, rest)], moments[rest] @ theta)
    full = np.array([again[0], 0, again[1]])
    assert refitted[j] == pytest.approx(noise_with - noise_without - (theta - full) @ moments @ (theta - full))
    assert (refitted >= zeroed - 1e-12).all()  # fitting again never hurts


def test_simulation_agrees_with_the_closed_form():
    # z tests at 1e-4 each, two sides, fixed seed.
    rng = np.random.default_rng(0)
    theta, x = rng.normal(size=4), rng.normal(size=4)
    expected = theory.expected_errors(theta, x, 0.7, 0.8, 0.5)
    for value, draws in zip(expected, theory.simulate_errors(theta, x, 0.7, 0.8, 0.5, 200_000, rng), strict=True):
        z = (draws.mean() - value) / (draws.std() / np.sqrt(len(draws)))
        assert abs(z) < stats.norm.isf(5e-5)
