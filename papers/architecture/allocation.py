"""What DP-SGD spends when each record goes, in every epoch, into one of its batches by lot.

This is random allocation (Feldman and Shenfeld 2025) or balls and bins (Chua et al. 2025): a record picks one of the
steps of an epoch, all alike, by itself. Neighbours differ in whether one record's gradients are set to zero (n public),
or in its being added or removed where sums are divided by a constant.

An epoch is as private as telling P, the mean of N(e_i, sigma^2 I) over its steps i, from Q = N(0, sigma^2 I). The
density ratio is r = S/steps, with S under Q a sum of independent lognormal numbers of mean 1. Its law is computed on a
grid by Fourier transform, and composed over epochs by dp_accounting. Divergences are means under Q of functions of the
product of all r that are convex in each term, and that of removing, (product - e^epsilon)+, increases too. So terms
rounded down give a lower bound, and terms spread to their neighbours on the grid with the same mean an upper one, both
up to the rounding of the transforms and to cut tails: below 1e-9 in delta.
"""

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from dplib.accounting import Bounds
from dplib.checks import ParameterError

_POINTS = 2**21  # of the grid of S
_LOSS = 2e-5  # step of the grid of ln r, for the lower bound
_SMALLEST = 1e-16  # probability of a point below which it is rounding


def bounds(noise_multiplier: float, steps: int, epochs: int, delta: float) -> Bounds:
    """Epsilon at ``delta`` in [1e-7, 1) of some epochs of ``steps`` steps each, from below and above."""
    if not 1e-7 <= delta < 1:
        raise ParameterError(f"delta = {delta:g} is not allowed: it must be in [1e-7, 1).")
    low = pld.PrivacyLossDistribution(_floored(*_ratios(_down, noise_multiplier, steps)))
    high = pld.PrivacyLossDistribution(*_connected(*_ratios(_spread, noise_multiplier, steps)))
    return Bounds(*(float(loss.self_compose(epochs).get_epsilon_for_delta(delta)) for loss in (low, high)))


def _ratios(rounded, sigma, steps):
    """Probabilities under Q of the density ratio r, and its values in increasing order: (k,) each."""
    deviation = np.sqrt(steps * np.expm1(sigma**-2))
    largest = np.exp(7 / sigma + 0.5 / sigma**2)  # one term is larger with probability 1e-12, under P
    grid = np.linspace(0, steps + 9 * deviation + largest, _POINTS)
    mass = np.fft.irfft(np.fft.rfft(rounded(grid, sigma)) ** steps, _POINTS)
    kept = np.flatnonzero(mass > _SMALLEST)
    kept = kept[kept > 0]
    return mass[kept], grid[kept] / steps


def _cells(grid, sigma):
    """Probability of each cell between points, and the mean of a term on it: (2, k)."""
    with np.errstate(divide="ignore"):
        at = sigma * np.log(grid) + 0.5 / sigma
    return np.diff(stats.norm.cdf([at, at - 1 / sigma]))


def _down(grid, sigma):
    """(k,) probabilities of a term that is rounded down to the grid."""
    return np.append(_cells(grid, sigma)[0], 0)


def _spread(grid, sigma):
    """(k,) probabilities of a term that goes to either end of its cell, with the cell's mean."""
    mass, mean = _cells(grid, sigma)
    up = np.clip((mean - mass * grid[:-1]) / grid[1], 0, mass)
    return np.append(mass - up, 0) + np.append(0, up)


def _floored(mass, ratio):
    """Losses of removing, rounded down; their probabilities under P add up to less than 1."""
    losses = np.floor(np.log(ratio) / _LOSS).astype(int)
    return pld_pmf.DensePLDPmf(_LOSS, losses[0], np.bincount(losses - losses[0], mass * ratio), 0.0, False)


def _connected(mass, ratio):
    """Losses of removing and of adding that connect the dots of the exact divergences (Doroshenko et al. 2022)."""
    span = np.log(ratio[[0, -1]])
    step = min(1e-3, (span[1] - span[0]) / 2000)
    grid = np.arange(np.floor(span[0] / step), np.ceil(span[1] / step) + 1).astype(int)
    e, place = np.exp(step * grid), np.searchsorted(ratio, np.exp(step * grid))
    both = np.array([mass, mass * ratio])
    below, above = (np.pad(np.cumsum(masses, axis=1), ((0, 0), (1, 0))) for masses in (both, both[:, ::-1]))
    remove = above[1, -1 - place] - e * above[0, -1 - place]
    add = (below[0, place] - below[1, place] / e)[::-1]  # at -epsilon
    return tuple(_dots(step, *side) for side in ((grid, remove), (-grid[::-1], add)))


def _dots(step, at, divergences):
    falling = np.maximum.accumulate(divergences[::-1])[::-1]  # they fall, but for rounding
    return pld_pmf.create_pmf_pessimistic_connect_dots(step, at, np.clip(falling, 0, 1))
