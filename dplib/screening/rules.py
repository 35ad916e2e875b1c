"""When annealed DP-SGD accepts a candidate: equation (3) of paper D along one direction.

An acceptance is a function of the step u, in standard deviations of the noise, from the old iterate. Logarithms are
piecewise linear, so that the distribution of an accepted update has a closed form (:mod:`dplib.screening.one_update`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dplib.checks import ParameterError

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Acceptance:
    """Probability of accepting a step u: exp(offset + slope u) between neighbouring breaks.

    Attributes:
        breaks: rising, shape (k - 1,). slopes, offsets: shape (k,); an offset of -inf means never.
    """

    breaks: tuple[float, ...]
    slopes: tuple[float, ...]
    offsets: tuple[float, ...]

    def __post_init__(self):
        if not len(self.slopes) == len(self.offsets) == len(self.breaks) + 1:
            raise ParameterError("an acceptance needs one slope and one offset for each piece, one break fewer.")
        if any(a >= b for a, b in zip(self.breaks[:-1], self.breaks[1:], strict=True)):
            raise ParameterError(f"breaks = {self.breaks} is not allowed: they must rise.")
        ends = np.concatenate([[-np.inf], self.breaks, [np.inf]])
        for low, high, slope, offset in zip(ends[:-1], ends[1:], self.slopes, self.offsets, strict=True):
            top = max(offset + slope * end if slope else offset for end in (low, high))
            if offset > -np.inf and top > _ROUNDING:
                raise ParameterError("an acceptance probability exceeds 1.")

    def __call__(self, u):
        """Probability at u, of the shape of u."""
        piece = np.searchsorted(self.breaks, u, side="right")
        slopes, offsets = np.array(self.slopes), np.array(self.offsets)
        return np.exp(offsets[piece] + slopes[piece] * u)


def always() -> Acceptance:
    """Every candidate is accepted: plain DP-SGD."""
    return Acceptance((), (0.0,), (0.0,))


def threshold(least: float) -> Acceptance:
    """A step is accepted if u >= least: a linear energy with a very large temperature factor."""
    return Acceptance((least,), (0.0, 0.0), (-np.inf, 0.0))


def wells(left: float, right: float, between: float = 0.0) -> Acceptance:
    """Accepted outside (left, right), and with probability ``between`` inside: two valleys of the energy."""
    with np.errstate(divide="ignore"):
        return Acceptance((left, right), (0.0, 0.0, 0.0), (0.0, float(np.log(between)), 0.0))


def annealed(steps: Sequence[float], energies: Sequence[float], temperature: float) -> Acceptance:
    """Equation (3), min(1, exp(-(J(u) - J(0)) Q)), for a piecewise linear energy J.

    Args:
        steps: rising, shape (k,), k >= 2; the outer pieces go on beyond the first and the last one.
        energies: J at the steps. temperature: Q, >= 0.
    """
    steps, energies = np.asarray(steps, dtype=float), np.asarray(energies, dtype=float)
    if steps.ndim != 1 or len(steps) < 2 or steps.shape != energies.shape or not (np.diff(steps) > 0).all():
        raise ParameterError("an energy needs two or more rising steps, and its value at each.")
    if not temperature >= 0:
        raise ParameterError(f"temperature = {temperature:g} is not allowed: it must be at least 0.")
    slopes = np.diff(energies) / np.diff(steps)
    ends = np.concatenate([[-np.inf], steps[1:-1], [np.inf]])
    here = int(np.searchsorted(steps[1:-1], 0.0, side="right"))
    start = energies[here] - slopes[here] * steps[here]  # J(0)
    breaks, log_slopes, offsets = [], [], []
    for k, slope in enumerate(slopes):
        level = energies[k] - slope * steps[k] - start  # J(u) - J(0) = level + slope u on this piece
        crossing = -level / slope if slope else np.inf
        inner = [crossing] if ends[k] < crossing < ends[k + 1] else []
        for low, high in zip([ends[k], *inner], [*inner, ends[k + 1]], strict=True):
            rises = level + slope * inside(low, high) > 0
            breaks.append(high)
            log_slopes.append(-temperature * slope if rises else 0.0)
            offsets.append(-temperature * level if rises else 0.0)
    return Acceptance(tuple(map(float, breaks[:-1])), tuple(map(float, log_slopes)), tuple(map(float, offsets)))


def inside(low: float, high: float) -> float:
    """A point between two ends, either of which may be infinite."""
    if np.isinf(low) and np.isinf(high):
        return 0.0
    if np.isinf(low):
        return high - 1.0
    return low + 1.0 if np.isinf(high) else (low + high) / 2
