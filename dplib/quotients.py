"""What a step of DP-SGD spends whose noisy sum is divided by a number that depends on the data: exact, for few records.

Neighbours add or remove one record. All n - 1 others have clipped gradients +C and hers is -C, along one direction; a
batch has each record by itself with probability q. The release along that direction is a finite mixture of Gaussians.
"""

import numpy as np
from scipy import optimize
from scipy.stats import binom, norm

from dplib import checks, mechanisms

# From the size of the batch and the number of records to what divides; a constant factor changes nothing.
DIVISORS = {"constant": lambda b, n: 1.0, "records": lambda b, n: float(n), "batch": lambda b, n: np.maximum(b, 1.0)}
_POINTS = 40_001


def density(z, n, sample_rate, noise_multiplier, divisor, present):
    """Density at z (k,) of the noisy quotient along the one direction, in units of C, with her or without."""
    values = 0.0
    for hers, chance in ((0, 1 - sample_rate), (1, sample_rate)) if present else ((0, 1.0),):
        b = np.arange(n)[:, None]  # of the n - 1 others
        m = DIVISORS[divisor](b + hers, n - 1 + present)
        quotients = norm.pdf(z, (b - hers) / m, noise_multiplier / m)
        values = values + chance * (binom.pmf(b, n - 1, sample_rate) * quotients).sum(axis=0)
    return values


def epsilon(n, sample_rate, noise_multiplier, delta, divisor):
    """Epsilon at ``delta`` of one step on this pair of data sets, the larger of adding and removing her record.

    A lower bound on what the step spends on its worst pair, to about three digits (the trapezoid rule); for the
    constant and full batches it is the worst pair.

    Args:
        n: records with her, >= 2. sample_rate: in (0, 1]. noise_multiplier: > 0. delta: in (0, 1).
        divisor: a key of :data:`DIVISORS`: "constant"; "records", as q n is; "batch", its realised size, at least 1.
    """
    checks.integer(2).check("n", n)
    checks.number(0, 1).check("sample_rate", sample_rate)
    checks.positive().check("noise_multiplier", noise_multiplier)
    checks.fraction().check("delta", delta)
    checks.one_of(*DIVISORS).check("divisor", divisor)
    ends = {"constant": n, "records": 1, "batch": 1}[divisor] + 12 * noise_multiplier
    z = np.linspace(-ends, ends, _POINTS)
    pair = [density(z, n, sample_rate, noise_multiplier, divisor, present) for present in (True, False)]

    def excess(e):
        return max(np.trapezoid(np.maximum(0, p - np.exp(e) * q), z) for p, q in (pair, pair[::-1])) - delta

    return float(optimize.brentq(excess, 0, 600)) if excess(0) > 0 else 0.0


def count_epsilon(n, coordinates, delta):
    """Epsilon at ``delta`` of the noise alone where n divides: so many coordinates tell n records from n - 1.

    Noise of standard deviation proportional to 1/n has that size in every weight of every step (``coordinates``:
    weights times steps). Exact, by :func:`dplib.mechanisms.two_gaussians_delta`.
    """

    def excess(e):
        return mechanisms.two_gaussians_delta(0.0, n / (n - 1), 1.0, coordinates, e) - delta

    return float(optimize.brentq(excess, 0, 600)) if excess(0) > 0 else 0.0
