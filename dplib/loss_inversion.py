"""Epsilon of DP-SGD by inverting the transform of its privacy loss: milliseconds, and no grid of losses.

A third computation beside the two tight ones of ``dplib.accounting``: it shares no code with them, and composes by
raising a number to a power. Neighbouring data sets differ by adding or removing one example; batches are Poisson
samples. It returns a value with a checked rounding error, not a proven upper bound: publish ``pld`` or ``prv``.
"""

import numpy as np
from scipy import optimize

from dplib import rdp
from dplib.checks import ParameterError

_REACH = 12.0  # of the outputs, in standard deviations
_SPACING = 0.03  # of the outputs, in standard deviations, or in sigma where that is smaller
_DROP = 35.0  # the integrand is followed until it has fallen by e to this


def epsilon(noise_multiplier, sample_rate, steps, delta):
    """Epsilon at ``delta`` after ``steps`` steps, the larger of adding and removing an example; scalars.

    With L the privacy loss of one step and M(s) = E[e^(s L)], delta is the integral of
    M(s)^steps e^(-epsilon s) / (s (s + 1)) over a line of constant positive real part, divided by 2 pi i. The line
    goes near the saddle point, where the integrand hardly oscillates (Alghamdi et al. 2023); Rényi accounting's best
    order is close to it.

    Raises:
        ParameterError: for a value outside its range, or a setting whose integral is not precise (very little noise).
    """
    sigma, q, steps = (float(value) for value in rdp.check_settings(noise_multiplier, sample_rate, steps))
    if not (sigma > 0 and q < 1 and steps >= 1 and 0 < delta < 1):
        raise ParameterError(f"noise {sigma:g}, rate {q:g}, {steps:g} steps, delta {delta:g}: no subsampled Gaussian.")
    spent = rdp.rdp(sigma, q, steps)
    order = rdp.ORDERS[np.argmin(rdp.to_epsilon(spent, rdp.ORDERS, delta))]
    return max(_one_direction(sigma, q, steps, delta, max(order, 1.1) - 1, removed) for removed in (True, False))


def _one_direction(sigma, q, steps, delta, c, removed):
    width = 1 / np.sqrt(steps * _curvature(c, sigma, q, removed) + 1 / c**2)
    reach, points = 9 * width, 257
    for _ in range(5):
        t = np.linspace(0, reach, points)
        s = c + 1j * t
        log_power = steps * _log_moment(s, sigma, q, removed) - np.log(s) - np.log1p(s)
        if log_power[0].real - log_power[-1].real > _DROP:
            break
        reach, points = 2 * reach, 2 * points - 1

    def log_delta(epsilon, every=1):
        exponent = log_power[::every] - epsilon * s[::every]
        values = np.exp(exponent - exponent[0].real).real
        total = (values.sum() - values[0] / 2) * t[every] / np.pi
        return exponent[0].real + np.log(max(total, 1e-300))

    high = 1.0
    while log_delta(high) > np.log(delta):
        high *= 2
    if log_delta(0.0) <= np.log(delta):
        return 0.0
    root = optimize.brentq(lambda e: log_delta(e) - np.log(delta), 0.0, high, xtol=1e-13, rtol=1e-12)
    if not abs(log_delta(root, every=2) - np.log(delta)) < 1e-6:
        raise ParameterError(f"noise {sigma:g}, rate {q:g}, {steps:g} steps: the integral is not precise.")
    return root


def _curvature(c, sigma, q, removed):
    """Second derivative of log M at c: the variance of the tilted loss of one step."""
    step = 0.05 * c
    below, at, above = _log_moment(np.array([c - step, c, c + step], dtype=complex), sigma, q, removed).real
    return (below - 2 * at + above) / step**2


def _log_moment(s, sigma, q, removed):
    """log M(s), shape of s, by the trapezoidal rule over the outputs u of the Gaussian without the example.

    Removing: the loss is log r with r = 1 - q + q e^(u/sigma - 1/(2 sigma^2)), drawn with the example, so that
    M(s) = E[r^(s + 1)] without it. Adding: the loss is -log r, drawn without it, M(s) = E[r^-s].
    """
    power = s + 1 if removed else -s
    top = max(power[0].real, 0) / sigma + _REACH
    u = np.arange(-_REACH, top, _SPACING * min(1.0, sigma))
    weight = np.exp(-(u**2) / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)
    log_ratio = np.log1p(q * np.expm1(u / sigma - 1 / (2 * sigma**2)))
    return np.array([np.log1p(weight @ np.expm1(p * log_ratio)) for p in power])
