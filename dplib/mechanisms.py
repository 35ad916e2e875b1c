"""Mechanisms: how much noise a privacy budget asks for, and what a given noise costs.

The Gaussian mechanism releases f(x) + N(0, sigma^2 I). What counts is the L2 sensitivity
``max ||f(x) - f(y)||_2`` over neighbouring x and y, whatever the neighbouring relation is; an L1 sensitivity is
never smaller, so noise calibrated on it is safe but may be larger than needed by up to sqrt(p) in p dimensions.
Functions take arrays and broadcast, except where a docstring says scalars.
"""

import functools

import numpy as np
from dp_accounting import gaussian_mechanism
from numpy.typing import ArrayLike
from scipy import special, stats
from scipy.optimize import elementwise

from dplib import rdp
from dplib.checks import HUGE, ParameterError, array, bounded, number, positive

_SQRT2 = np.sqrt(2.0)
_FARTHEST = 1e5  # centre of a noncentral chi-square, in standard deviations: beyond, its tails have no digits
_LARGE = 1e5  # noise over sensitivity, from which the two terms of delta agree in too many digits
_LEAST = 1e-6  # noise over sensitivity, where epsilon is 5e11: below, it is no number any more


def paper_sigma(epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0) -> float | np.ndarray:
    """Noise of paper A, Definition 2, in the unit of the sensitivity: sensitivity * ln(1/delta) / epsilon.

    It is not (epsilon, delta)-DP everywhere: for large epsilon, and for large delta, it is too small
    (:func:`analytic_sigma` is the least that is enough). The paper takes the L1 sensitivity; L2 is enough.

    Args:
        epsilon: the budget, in [1e-9, 1e6].
        delta: the budget, in [1e-300, 1).
        sensitivity: L1 or L2, in [0, 1e100]; the noise comes in its unit.

    Returns:
        The standard deviation of the noise, of the shape of the arguments together; a float for scalars.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    epsilon, delta, sensitivity = _budget(epsilon, delta, sensitivity)
    return (sensitivity * -np.log(delta) / epsilon)[()]


def analytic_sigma(epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0) -> float | np.ndarray:
    """The least noise that is (epsilon, delta)-DP for an L2 sensitivity (Balle and Wang 2018, Algorithm 1).

    It is the nearest number, not one rounded up: for epsilon in [0.1, 1000] its delta may exceed the one asked for by
    1e-8 of it, or its epsilon by as much. Where the two hardly depend on each other it is more: at epsilon = 1e-9 half
    a percent of epsilon for delta = 0.999, and 9% of delta = 1e-300.

    Args:
        epsilon: the budget, in [1e-9, 1e6].
        delta: the budget, in [1e-300, 1).
        sensitivity: L2, in [0, 1e100]: the largest distance of the values for two neighbouring data sets.

    Returns:
        The standard deviation of the noise in each coordinate, in the unit of the sensitivity, of the shape of the
        arguments together; a float for scalars.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    epsilon, delta, sensitivity = _budget(epsilon, delta, sensitivity)
    unit = np.vectorize(_unit_sigma, otypes=[float])(epsilon, delta)
    return (sensitivity * unit)[()]


_unit_sigma = functools.lru_cache(maxsize=4096)(gaussian_mechanism.get_sigma_gaussian)


def gaussian_delta(sigma: ArrayLike, sensitivity: ArrayLike, epsilon: ArrayLike) -> float | np.ndarray:
    """The exact delta of the Gaussian mechanism (Balle and Wang 2018, Theorem 8). See :func:`gaussian_log_delta` where
    it underflows.

    Args:
        sigma: standard deviation of the noise in each coordinate, >= 0; without noise delta is 1.
        sensitivity: L2, in [0, 1e100], in the unit of ``sigma``.
        epsilon: the budget, >= 0, may be inf.

    Returns:
        Of the shape of the arguments together; a float for scalars.

    Raises:
        ParameterError: as :func:`gaussian_log_delta`.
    """
    return np.exp(gaussian_log_delta(sigma, sensitivity, epsilon))


def gaussian_log_delta(sigma: ArrayLike, sensitivity: ArrayLike, epsilon: ArrayLike) -> float | np.ndarray:
    """Natural logarithm of :func:`gaussian_delta`, -inf where delta is 0.

    With s = sigma / sensitivity, a = epsilon s - 1/(2s) and b = epsilon s + 1/(2s), Theorem 8 reads delta = Phi(-a) -
    e^epsilon Phi(-b). Since b^2 - a^2 = 2 epsilon, the second term is exp(-a^2/2) erfcx(b/sqrt 2)/2: nothing overflows,
    and e^epsilon never multiplies a rounding error. For large s the two terms are nearly one number: there delta comes
    from the slope of erfcx at epsilon s.

    Args:
        sigma: standard deviation of the noise in each coordinate, >= 0; without noise delta is 1.
        sensitivity: L2, in [0, 1e100], in the unit of ``sigma``.
        epsilon: the budget, >= 0, may be inf.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    sigma, sensitivity, epsilon = rdp.arrays(sigma=sigma, sensitivity=sensitivity, epsilon=epsilon)
    _require("sigma", sigma, sigma >= 0, "at least 0")
    _require("sensitivity", sensitivity, (sensitivity >= 0) & (sensitivity <= HUGE), f"in [0, {HUGE:g}]")
    _require("epsilon", epsilon, epsilon >= 0, "at least 0")
    with np.errstate(all="ignore"):  # the edge cases are overwritten below
        s = sigma / sensitivity
        a, b = epsilon * s - 0.5 / s, epsilon * s + 0.5 / s
        tail = special.erfcx(b / _SQRT2) / 2
        far = -(a**2) / 2 + np.log(special.erfcx(a / _SQRT2) / 2 - tail)
        near = np.log(special.ndtr(-a) - np.exp(-(a**2) / 2) * tail)
        log_delta = np.where(a > 0, far, near)
        level = -(a**2) / 2 + _log_slope(epsilon * s) - np.log(s)
        log_delta = np.where(s >= _LARGE, level, log_delta)
        # At epsilon = 0 the two terms of the formula cancel: the total variation distance is an erf.
        log_delta = np.where(epsilon == 0, np.log(special.erf(0.5 / s / _SQRT2)), log_delta)
        log_delta = np.where(sigma == 0, 0.0, log_delta)
        log_delta = np.where((sensitivity == 0) | np.isinf(sigma) | np.isinf(epsilon), -np.inf, log_delta)
    # nan remains only where the exponent or the difference underflows: beyond anything a float can hold.
    return np.where(np.isnan(log_delta), -np.inf, log_delta)[()]


def _log_slope(x):
    """ln of minus the derivative of erfcx(x / sqrt 2) / 2, which is 1/sqrt(2 pi) - x erfcx(x / sqrt 2) / 2, x >= 0."""
    near = 1 / np.sqrt(2 * np.pi) - x * special.erfcx(x / _SQRT2) / 2
    far = (1 - 3 / x**2 + 15 / x**4) / np.sqrt(2 * np.pi) / x / x  # beyond, the terms cancel; the next one is 105/x^6
    return np.log(np.where(x > 100, far, near))


def gaussian_epsilon(sigma: ArrayLike, sensitivity: ArrayLike, delta: ArrayLike) -> float | np.ndarray:
    """The exact epsilon >= 0 that the Gaussian mechanism spends at delta: the root of :func:`gaussian_log_delta`.

    Args:
        sigma: standard deviation of the noise in each coordinate; 0, or at least 1e-6 times the sensitivity.
        sensitivity: L2, in the unit of ``sigma``; 0, or in [1e-100, 1e100].
        delta: in (0, 1).

    Returns:
        Of the shape of the arguments together; a float for scalars; inf where there is no noise.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    sigma, sensitivity, delta = rdp.arrays(sigma=sigma, sensitivity=sensitivity, delta=delta)
    _require("delta", delta, (delta > 0) & (delta < 1), "in (0, 1)")
    _require("sensitivity", sensitivity, (sensitivity >= 0) & (sensitivity <= HUGE), f"in [0, {HUGE:g}]")
    usual = (sensitivity == 0) | (sensitivity >= 1 / HUGE)
    _require("sensitivity", sensitivity, usual, f"0, or in [{1 / HUGE:g}, {HUGE:g}]")
    usable = (sigma == 0) | (sensitivity == 0) | (sigma >= _LEAST * sensitivity)
    _require("sigma", sigma, usable & (sigma >= 0), f"0, or at least {_LEAST:g} times the sensitivity")
    log_delta = np.log(delta)
    at_zero = gaussian_log_delta(sigma, sensitivity, 0.0) <= log_delta
    unbounded = (sigma == 0) & (sensitivity > 0)
    s = np.where(at_zero | unbounded, 1.0, sigma / np.where(sensitivity == 0, 1.0, sensitivity))
    # From above: delta <= P(privacy loss > epsilon) = Phi(-a) <= exp(-a^2/2); take a = sqrt(2 ln(1/delta)).
    above = (np.sqrt(-2 * log_delta) + 0.5 / s) / s
    solved = elementwise.find_root(
        lambda epsilon, s, log_delta: gaussian_log_delta(s, 1.0, epsilon) - log_delta,
        (np.zeros_like(above), above),
        args=(s, np.where(at_zero, np.log(0.1), log_delta)),
        tolerances={"xrtol": 1e-14},
    )
    return np.where(at_zero, 0.0, np.where(unbounded, np.inf, solved.x))[()]


@bounded(
    distance=number(0, 1e9),
    sigma_x=number(1e-9, 1e9),
    sigma_y=number(1e-9, 1e9),
    dimension=number(1, 1e15),
    epsilon=number(0, 700),
)
def two_gaussians_delta(distance: float, sigma_x: float, sigma_y: float, dimension: int, epsilon: float) -> float:
    """Exact hockey-stick divergence from N(m, sigma_x^2 I) to N(m', sigma_y^2 I): releases whose noise differs.

    This is what a noise scale that depends on the data costs: the scale itself tells the data sets apart. All scalars.

    Args:
        distance: ||m - m'||_2, in [0, 1e9].
        sigma_x: standard deviation of the noise on the one data set, in [1e-9, 1e9]. Where the two differ by less than
            some millionths and the distance is not 0, no formula of noncentral chi-squares has digits left.
        sigma_y: of the noise on its neighbour, in [1e-9, 1e9].
        dimension: number of coordinates of the release, in [1, 1e15].
        epsilon: in [0, 700].

    Raises:
        ParameterError: for a value outside its range, or deviations that are too near to each other.
    """
    if sigma_x == sigma_y:
        return float(gaussian_delta(sigma_x, distance, epsilon))
    # log P_x/P_y = curvature |y - centre|^2 + constant, so both masses are noncentral chi-squares.
    curvature = (1 / sigma_y**2 - 1 / sigma_x**2) / 2
    centre_from_x = distance * sigma_x**2 / (sigma_x**2 - sigma_y**2)
    centre_from_y = distance * sigma_y**2 / (sigma_x**2 - sigma_y**2)
    if max(abs(centre_from_x) / sigma_x, abs(centre_from_y) / sigma_y) > _FARTHEST:
        raise ParameterError(
            f"sigma_x = {sigma_x!r} is not allowed beside sigma_y = {sigma_y!r} and distance = {distance:g}: give "
            "equal deviations (gaussian_delta), or such as differ by more."
        )
    constant = dimension * np.log(sigma_y / sigma_x) + distance**2 / (2 * (sigma_y**2 - sigma_x**2))
    radius2 = (epsilon - constant) / curvature
    if radius2 <= 0:
        return 0.0
    mass = stats.ncx2.sf if curvature > 0 else stats.ncx2.cdf
    mass_x = mass(radius2 / sigma_x**2, dimension, (centre_from_x / sigma_x) ** 2)
    mass_y = mass(radius2 / sigma_y**2, dimension, (centre_from_y / sigma_y) ** 2)
    return float(max(0.0, mass_x - np.exp(epsilon) * mass_y))


def _budget(epsilon, delta, sensitivity):
    epsilon, delta, sensitivity = rdp.arrays(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    _require("epsilon", epsilon, (epsilon >= 1e-9) & (epsilon <= 1e6), "in [1e-9, 1e6]")
    _require("delta", delta, (delta >= 1e-300) & (delta < 1), "in [1e-300, 1)")
    _require("sensitivity", sensitivity, (sensitivity >= 0) & (sensitivity <= HUGE), f"in [0, {HUGE:g}]")
    return epsilon, delta, sensitivity


def _require(name, values, accepted, allowed):
    accepted = np.asarray(accepted)
    if not accepted.all():
        wrong = np.asarray(values)[~accepted].flat[0]
        raise ParameterError(f"{name} = {wrong:g} is not allowed: it must be {allowed}.")


def clip_rows(x: np.ndarray, max_norm: float = 1.0) -> np.ndarray:
    """Rows scaled down to a norm of at most ``max_norm``, each by itself, which bounds what one record adds to a sum.

    Args:
        x: records, shape (n, features).
        max_norm: bound on their L2 norms, in [1e-50, 1e50].

    Returns:
        Shape and type of ``x``; whole numbers and half precision become float64. A row of which something is not
        finite becomes zeros; one whose norm no float holds is scaled down as others are.

    Raises:
        ParameterError: for a bound outside [1e-50, 1e50], or an array that is none of numbers, (n, features).
    """
    positive(1e-50, 1e50).check("max_norm", max_norm)
    x = array("x", x)
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise ParameterError(f"x of {x.dtype}, shape {x.shape}, is not allowed: it must be numbers, (n, features).")
    if x.dtype.kind != "f" or x.dtype.itemsize < 4:  # squares of half precision vanish long before its numbers do
        x = x.astype(float)
    x = np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        clipped = (x * np.minimum(1, max_norm / np.maximum(norms, np.finfo(x.dtype).tiny))).astype(x.dtype)
    lost = ~((norms > 1e-15) & np.isfinite(norms))[:, 0]  # their squares vanish, or overflow
    clipped[lost] = _clip_scaled(x[lost].astype(float), max_norm)
    return clipped


def _clip_scaled(rows: np.ndarray, max_norm: float) -> np.ndarray:
    """Rows of finite float64 of any length, clipped by way of their directions, whose squares are no problem."""
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0, keepdims=True), np.finfo(float).tiny)
    directions = rows / largest
    lengths = np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1)  # below only where a row is 0, or nearly
    return np.where(largest > max_norm / lengths, directions * (max_norm / lengths), rows)
