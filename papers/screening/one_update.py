"""The exact distribution of one update that was chosen among noisy candidates, in one dimension.

Annealed DP-SGD draws a noisy update, accepts it with a probability that depends on where it leads, and otherwise draws
again (Algorithm 2 of paper D). Only the accepted update is seen. Its density is in closed form for candidates from a
mixture of unit Gaussians and acceptance probabilities whose logarithm is piecewise linear: every mass is a sum of
differences of normal distribution functions. Units: the noise has standard deviation 1, u is the step in the direction
that lowers a linear energy; with the example the sum of clipped gradients moves by ``shift`` = 1 / noise_multiplier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from dplib import exact_loss
from dplib.checks import ParameterError

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Acceptance:
    """Probability of accepting a step u: exp(offset + slope u) between neighbouring breaks.

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

    steps: rising, shape (k,), k >= 2; the outer pieces go on beyond them. energies: J at the steps. temperature: Q, >=
    0.
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


WIDTH = 0.01  # of the cells, in standard deviations of the noise
REACH = 14.0  # standard deviations up to which cells are narrow; the two outermost cells are infinite


class Trial(NamedTuple):
    """One candidate, before it is accepted or not: N(centres[k], 1) with probability weights[k], both (k,)."""

    weights: np.ndarray
    centres: np.ndarray
    acceptance: Acceptance


def trial(shift: float, acceptance: Acceptance, sample_rate: float = 1.0, present: bool = True, others=None) -> Trial:
    """The candidate with or without one example whose clipped gradient is ``shift`` standard deviations long.

    sample_rate: probability q with which the example is in a batch, in (0, 1]. present: whether the data set has it.
    others: None, or (weights, centres) of what the other examples' gradients sum to, each of shape (k,).
    """
    if not (0 < sample_rate <= 1 and np.isfinite(shift)):
        raise ParameterError(f"shift = {shift:g}, sample_rate = {sample_rate:g}: a finite number, and one in (0, 1].")
    weights, centres = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (others or ([1.0], [0.0])))
    rate = sample_rate if present else 0.0
    parts = [(1 - rate, centres), (rate, centres + shift)]
    weights = np.concatenate([share * weights for share, _ in parts if share > 0])
    centres = np.concatenate([centre for share, centre in parts if share > 0])
    return Trial(weights, centres, acceptance)


@dataclass(frozen=True)
class Density:
    """phi(u) sum_j exp(offsets[i, j] + slopes[i, j] u) on piece i, with phi the standard normal density.

    ends: shape (pieces + 1,), from -inf to inf. slopes, offsets: shape (pieces, terms).
    """

    ends: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray

    def log_density(self, u):
        """Natural logarithm of the density at u, of the shape of u."""
        u = np.asarray(u)
        piece = np.searchsorted(self.ends[1:-1], u, side="right")
        log_ratio = special.logsumexp(self.offsets[piece] + self.slopes[piece] * u[..., None], axis=-1)
        return log_ratio - u**2 / 2 - np.log(2 * np.pi) / 2

    def masses(self, edges):
        """Probability of each cell between neighbouring edges, shape (len(edges) - 1,); no end lies inside a cell."""
        piece = np.searchsorted(self.ends[1:-1], edges[:-1], side="right")
        return _mass(edges[:-1, None], edges[1:, None], self.slopes[piece], self.offsets[piece]).sum(axis=1)

    def outermost_peak(self):
        """The largest |u| at which a term is largest on its piece."""
        return float(np.abs(np.clip(self.slopes, self.ends[:-1, None], self.ends[1:, None])).max())

    def split(self, ends):
        """The same density on finer pieces."""
        piece = np.searchsorted(self.ends[1:-1], ends[:-1], side="right")
        return Density(ends, self.slopes[piece], self.offsets[piece])


def acceptance_rate(candidate: Trial) -> float:
    """Z: the probability that one candidate is accepted."""
    return 1 - _rejection_rate(candidate)


def released(candidate: Trial, limit: int | None = None) -> Density:
    """The accepted update: candidates are drawn afresh until one is accepted (Algorithm 2, lines 3 to 20).

    With f the density of a candidate, a its acceptance probability and Z = E[a], it is f a / Z without a limit (None).
    After ``limit`` rejections in a row (mu_0) the next candidate is taken unseen: f a (1 - (1 - Z)^limit) / Z + f (1 -
    Z)^limit. ParameterError if no candidate is ever accepted and there is no limit.
    """
    rejected = _rejection_rate(candidate)
    if limit is None:
        if not rejected < 1:
            raise ParameterError("no candidate is ever accepted, and there is no limit.")
        tries, forced = 1 / (1 - rejected), 0.0
    else:
        # The rejection rates that matter lie far from 1; at 1 the sum has limit equal terms.
        tries = (1 - rejected**limit) / (1 - rejected) if rejected < 1 else float(limit)
        forced = rejected**limit
    pieces, plain, kept = _terms(candidate)
    with np.errstate(divide="ignore"):
        offsets = np.concatenate([kept[1] + np.log(tries), plain[1] + np.log(forced)], axis=1)
    return Density(pieces, np.concatenate([kept[0], plain[0]], axis=1), offsets)


def pair(shift: float, acceptance: Acceptance, limit: int | None, sample_rate=1.0, others=None) -> list[Density]:
    """The accepted update with the example and without it; arguments as of :func:`trial` and :func:`released`."""
    return [released(trial(shift, acceptance, sample_rate, present, others), limit) for present in (True, False)]


def mixture(weights: Sequence[float], parts: Sequence[Density]) -> Density:
    """One of the densities, drawn with these probabilities: a batch that is drawn once, its noise again and again."""
    ends = np.unique(np.concatenate([part.ends for part in parts]))
    parts = [part.split(ends) for part in parts]
    slopes = np.concatenate([part.slopes for part in parts], axis=1)
    offsets = np.concatenate([part.offsets + np.log(w) for w, part in zip(weights, parts, strict=True)], axis=1)
    return Density(ends, slopes, offsets)


class Cells(NamedTuple):
    """Two distributions on common cells: edges (cells + 1,), masses p and q (cells,)."""

    edges: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def swapped(self):
        """The other direction."""
        return Cells(self.edges, self.q, self.p)


def cells(p: Density, q: Density, width: float = WIDTH) -> Cells:
    """Masses of both densities on cells of at most ``width``; the two outermost ones are infinite."""
    inner = np.unique(np.concatenate([p.ends[1:-1], q.ends[1:-1]]))
    far = REACH + max(part.outermost_peak() for part in (p, q))
    grid = np.linspace(-far, far, int(np.ceil(2 * far / width)) + 1)
    edges = np.concatenate([[-np.inf], np.unique(np.concatenate([grid, inner])), [np.inf]])
    masses = [part.masses(edges) for part in (p, q)]
    # Where nearly nothing is accepted, 1 - r has few digits; they cancel here.
    return Cells(edges, *(mass / mass.sum() for mass in masses))


def epsilon(p: Density, q: Density, delta: float) -> float:
    """Epsilon of one update at ``delta``, the larger of the two directions, inf where there is none.

    Telling only the cell of the update is post-processing: this is below the epsilon of the update itself, by less than
    a thousandth. :func:`dplib.exact_loss.density_epsilon` finds it by quadrature.
    """
    return exact_loss.discrete_epsilon(cells(p, q)[1:], delta)


def renyi(pair: Cells, order: float) -> float:
    """The Rényi divergence of this order between the cells, the larger of the two directions; from below."""
    used = (pair.p > 0) & (pair.q > 0)
    p, q = np.log(pair.p[used]), np.log(pair.q[used])
    return max(float(special.logsumexp(order * a + (1 - order) * b)) for a, b in ((p, q), (q, p))) / (order - 1)


def _rejection_rate(candidate):
    """1 - Z, summed over pieces so that pieces where all is accepted add exactly nothing."""
    ends, plain, kept = _terms(candidate)
    masses = [_mass(ends[:-1, None], ends[1:, None], slopes, offsets) for slopes, offsets in (plain, kept)]
    return float(np.clip((masses[0] - masses[1]).sum(), 0.0, 1.0))


def _terms(candidate):
    """(ends, plain, kept): slopes and offsets of f / phi and of f a / phi on pieces, shape (pieces, batches)."""
    weights, centres, acceptance = candidate
    ends = np.concatenate([[-np.inf], acceptance.breaks, [np.inf]])
    shape = len(ends) - 1, len(weights)
    with np.errstate(divide="ignore"):
        offsets = np.broadcast_to(np.log(weights) - centres**2 / 2, shape)
    slopes = np.broadcast_to(centres, shape)
    more, less = np.array(acceptance.slopes)[:, None], np.array(acceptance.offsets)[:, None]
    return ends, (slopes, offsets), (slopes + more, offsets + less)


def _mass(low, high, slope, offset):
    """Integral of phi(u) exp(offset + slope u) over (low, high), from the nearer tail: steep slopes do not overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        below, above = (_tail(end, slope, offset) for end in (low, high))
        whole = np.exp(offset + slope**2 / 2)
    inside = np.where(high <= slope, above - below, np.where(low >= slope, below - above, whole - below - above))
    return np.where(np.isneginf(offset), 0.0, inside)


def _tail(end, slope, offset):
    """Integral of phi(u) exp(offset + slope u) from the end outwards, away from the peak at ``slope``."""
    height = np.where(np.isinf(end), -np.inf, offset + slope * np.where(np.isinf(end), 0.0, end) - end**2 / 2)
    return np.exp(height) * special.erfcx(np.abs(end - slope) / np.sqrt(2)) / 2
