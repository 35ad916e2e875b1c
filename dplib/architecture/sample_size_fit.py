"""Budgets from numbers of steps, and the curve epsilon = ln(alpha + beta / n) through them (paper B, Section VI-B)."""

import math

import numpy as np
from scipy import optimize

from dplib import accounting, rdp
from dplib.architecture.printed_budgets import TOOL_ORDERS
from dplib.checks import ParameterError

ACCOUNTANTS = ("paper", "paper, old conversion", "rdp", "pld")


def epsilon(noise_multiplier, sample_rate, steps, delta, accountant="paper"):
    """Epsilon under one of :data:`ACCOUNTANTS`; add or remove one record, Poisson batches. Arrays broadcast.

    "paper": Rényi DP on the orders of tensorflow-privacy, with the improved conversion, which is what reproduces the
    paper's printed budgets; "paper, old conversion": the same orders, Mironov's conversion; "rdp" and "pld": of
    :mod:`dplib.accounting`, with more orders and without any.

    Raises:
        ParameterError: for another accountant, or a setting outside its range.
    """
    if accountant not in ACCOUNTANTS:
        raise ParameterError(f"accountant = {accountant!r} is not allowed: one of {', '.join(ACCOUNTANTS)}.")
    if accountant in ("rdp", "pld"):
        return accounting.epsilon(noise_multiplier, sample_rate, steps, delta, accountant)
    conversion = "improved" if accountant == "paper" else "classical"
    return rdp.epsilon(noise_multiplier, sample_rate, steps, delta, conversion, TOOL_ORDERS)


def epsilon_of_steps(noise_multiplier, sample_rate, steps, delta, accountant="paper", points: int = 3) -> np.ndarray:
    """:func:`epsilon` for many numbers of steps (k,) at one setting.

    "pld" is slow, so it is computed at ``points`` numbers of steps between the least and the most and interpolated in
    logarithms in between, along which epsilon is nearly straight (within 0.5%, as the tests check).
    """
    steps = np.asarray(steps, dtype=float)
    if accountant != "pld":
        return np.asarray(epsilon(noise_multiplier, sample_rate, steps, delta, accountant))
    knots = np.unique(np.geomspace(steps.min(), steps.max(), points).round())
    values = [epsilon(noise_multiplier, sample_rate, knot, delta, "pld") for knot in knots]
    return np.exp(np.interp(np.log(steps), np.log(knots), np.log(np.maximum(values, 1e-300))))


def fit(n, values, least_alpha: float = 0.0) -> tuple[float, float]:
    """alpha and beta of epsilon = ln(alpha + beta / n), by least squares on epsilon.

    Args:
        n: (k,) sizes, k >= 3. values: (k,) budgets, finite.
        least_alpha: alpha is at least this; the paper has 1, below which the curve is negative for large n.

    Raises:
        ParameterError: for fewer points, or values that are not finite.
    """
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    if n.ndim != 1 or n.shape != values.shape or len(n) < 3 or not np.isfinite(values).all():
        raise ParameterError("n and values are not allowed: k >= 3 sizes, and as many finite budgets.")
    slope, intercept = np.polyfit(1 / n, np.exp(values), 1)
    # Logarithms keep the argument positive, and bring 1/n and 1 to one scale.
    start = np.log([max(intercept - least_alpha, 1e-3), max(slope, 1e-3)])

    def residuals(logs):
        return np.log(least_alpha + np.exp(logs[0]) + np.exp(logs[1]) / n) - values

    found = np.exp(optimize.least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14).x)
    return least_alpha + float(found[0]), float(found[1])


def bootstrap_fit(n, values, draws: int, rng: np.random.Generator, least_alpha: float = 0.0) -> np.ndarray:
    """(draws, 2) of alpha and beta from means over runs that are drawn again, with replacement, at each size.

    Args:
        n: (k,). values: (k, r), the budget of each of r runs. least_alpha: of :func:`fit`.
    """
    values = np.asarray(values, dtype=float)
    k, runs = values.shape
    picks = rng.integers(runs, size=(draws, k, runs))
    return np.array([fit(n, np.take_along_axis(values, pick, 1).mean(1), least_alpha) for pick in picks])


def least_relative_error(n, values, least_alpha: float = 0.0) -> float:
    """The largest relative error of that alpha and beta for which it is least: no curve of the form comes nearer.

    Args: as :func:`fit`.
    """
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    alpha, beta = fit(n, values, least_alpha)

    def worst(logs):
        return np.abs(np.log(least_alpha + np.exp(logs[0]) + np.exp(logs[1]) / n) / values - 1).max()

    start = np.log([max(alpha - least_alpha, 1e-6), beta])
    tight = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    for _ in range(3):  # the simplex starts anew where it got stuck on a kink
        start = optimize.minimize(worst, start, method="Nelder-Mead", options=tight).x
    return float(worst(start))


def size_for(level, noise_multiplier, batch, steps, delta, accountant="paper", between=None) -> float:
    """The number of records at which a training spends ``level``, by the accountant itself: no curve is interpolated.

    Args:
        level: the budget. noise_multiplier, batch: of the training.
        steps: function of n that gives its number of steps.
        accountant: of :func:`epsilon`. between: numbers of records to look between, ``batch`` and 1e9 by default.

    Returns:
        nan where no n between them spends so much, or so little.
    """

    def excess(log_n):
        n = math.exp(log_n)
        return float(epsilon(noise_multiplier, min(1.0, batch / n), round(steps(n)), delta, accountant)) - level

    ends = [math.log(n) for n in between or (batch, 1e9)]
    if excess(ends[0]) < 0 or excess(ends[1]) > 0:
        return math.nan
    return math.exp(optimize.brentq(excess, *ends, xtol=1e-6))
