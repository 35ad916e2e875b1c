"""The exact privacy loss of mechanisms small enough to enumerate, or with one real output.

A mechanism is (epsilon, delta)-DP when for every pair of neighbouring inputs with output distributions P and Q the
hockey-stick divergence, the largest P(S) - e^epsilon Q(S) over sets S, is at most delta, in both directions. Which
inputs are neighbours is the caller's to say: pairs of rows for a matrix, the two densities otherwise.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, optimize
from scipy.stats import binom

from dplib import checks, mechanisms
from dplib.checks import ParameterError

_ROUNDING = 1e-9  # how far a row may be from summing to 1
_HUGE = 700.0  # e to this is the largest that a float holds


_DELTA = checks.Rule("a number in [0, 1)", lambda v: checks.number(0, 1).accepts(v) and v < 1)


@checks.bounded(epsilon=checks.numbers(0, 1e6, infinite=True))
def discrete_delta(
    outputs: ArrayLike, epsilon: ArrayLike, neighbours: Iterable[tuple[int, int]] | None = None
) -> float | np.ndarray:
    """The smallest delta of a mechanism with finitely many outputs: max over pairs of sum_o max(0, P(o) - e^epsilon
    Q(o)).

    Args:
        outputs: shape (inputs, outputs): row i holds the probabilities of each output on input i.
        epsilon: in [0, 1e6] or inf, any shape, which the result has.
        neighbours: pairs of inputs that are neighbours, each taken in both directions; by default all pairs, as for
            local DP or for a table of two neighbouring data sets.

    Raises:
        ParameterError: for a negative or nan epsilon, rows that are no probabilities, or pairs that name no rows.
    """
    outputs, pairs = _mechanism(outputs, neighbours)
    epsilon = np.asarray(epsilon, dtype=float)
    factor = np.exp(np.minimum(epsilon, _HUGE))[..., None]
    deltas = [np.maximum(0.0, outputs[i] - factor * outputs[j]).sum(axis=-1) for i, j in pairs]
    return np.max(deltas, axis=0)[()]


@checks.bounded(delta=_DELTA)
def discrete_epsilon(
    outputs: ArrayLike, delta: float = 0.0, neighbours: Iterable[tuple[int, int]] | None = None
) -> float:
    """The smallest epsilon of a mechanism with finitely many outputs, exactly, at delta in [0, 1); inf where there is
    none.

    The worst sets are those of the k outputs with the largest ratios P/Q, so that epsilon is the largest log((P_k -
    delta) / Q_k). At delta = 0 it is the largest log ratio of any output. Where P_k exceeds delta by no more than the
    rounding of its sum, it counts as delta.

    Args:
        outputs: shape (inputs, outputs): row i holds the probabilities of each output on input i; at least two rows.
        delta: in [0, 1).
        neighbours: pairs of inputs that are neighbours, each taken in both directions; by default all pairs.

    Raises:
        ParameterError: for a delta outside its range, rows that are no probabilities, or pairs that name no rows.
    """
    outputs, pairs = _mechanism(outputs, neighbours)
    return max(_worst_set(outputs[i], outputs[j], delta) for i, j in pairs)


@checks.bounded(epsilon=checks.number(0, 700))
def density_delta(
    log_p: Callable, log_q: Callable, epsilon: float, limits: tuple[float, float], kinks: Sequence[float] = ()
) -> tuple[float, float]:
    """(delta, error) of a mechanism with one real output, by adaptive quadrature: the larger of the two directions.

    The exact value is within ``error``: quadrature's own estimate plus the mass that is missing between the limits.

    Args:
        log_p: natural logarithm of the one density; takes and returns an array of shape (n,).
        log_q: of the other, in the same way.
        epsilon: in [0, 700].
        limits: the two ends of the interval that is integrated, finite, the lower one first.
        kinks: where a density has a corner or a jump, such as the centres of Laplace densities; those outside of the
            limits do not matter.

    Raises:
        ParameterError: for a bad epsilon or limits, or densities whose mass between the limits exceeds 1.
    """
    grid = _grid(limits, kinks)
    forward, other = (_one_direction(p, q, epsilon, grid, kinks) for p, q in ((log_p, log_q), (log_q, log_p)))
    return max(forward[0], other[0]), max(forward[1], other[1])


@checks.bounded(delta=checks.fraction())
def density_epsilon(
    log_p: Callable, log_q: Callable, delta: float, limits: tuple[float, float], kinks: Sequence[float] = ()
) -> tuple[float, float]:
    """(low, high) around the smallest epsilon of a mechanism with one real output, as far as quadrature's estimate
    goes.

    Args:
        log_p: natural logarithm of the one density; takes and returns an array of shape (n,).
        log_q: of the other, in the same way.
        delta: in (0, 1); high is inf where the error of :func:`density_delta` at no epsilon comes below it.
        limits: the two ends of the interval that is integrated, finite, the lower one first.
        kinks: where a density has a corner or a jump, such as the centres of Laplace densities; those outside of the
            limits do not matter.

    Raises:
        ParameterError: for a delta outside its range, or as :func:`density_delta`.
    """
    largest = density_max_log_ratio(log_p, log_q, limits, kinks)

    def solve(sign):
        def excess(epsilon):
            value, error = density_delta(log_p, log_q, epsilon, limits, kinks)
            return value + sign * error - delta

        if excess(0.0) <= 0:
            return 0.0
        top = min(largest + 1e-6, _HUGE)
        return np.inf if excess(top) > 0 else float(optimize.brentq(excess, 0.0, top, xtol=1e-10))

    return max(0.0, solve(-1) - 1e-10), solve(+1) + 1e-10


def density_max_log_ratio(
    log_p: Callable, log_q: Callable, limits: tuple[float, float], kinks: Sequence[float] = ()
) -> float:
    """The largest |log p - log q| between the limits, a lower bound on the epsilon of pure DP: on a grid, refined
    around its maximum; a peak narrower than a two-thousandth of the interval is missed.

    Args:
        log_p: natural logarithm of the one density; takes and returns an array of shape (n,).
        log_q: of the other, in the same way.
        limits: the two ends of the interval that is searched, finite, the lower one first.
        kinks: points that are tried beside the grid, such as corners of a density.

    Raises:
        ParameterError: for limits that are no interval.
    """
    grid = _grid(limits, kinks)

    def loss(x):
        x = np.atleast_1d(np.asarray(x, dtype=float))
        with np.errstate(invalid="ignore"):
            ratio = np.abs(np.asarray(log_p(x)) - np.asarray(log_q(x)))
        return np.where(np.isnan(ratio), 0.0, ratio)  # neither density reaches there

    values = loss(grid)
    best = int(values.argmax())
    if np.isinf(values[best]):
        return np.inf
    around = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    refined = optimize.minimize_scalar(lambda x: -loss(x)[0], bounds=around, method="bounded", options={"xatol": 1e-12})
    return float(max(values[best], -refined.fun))


def _mechanism(outputs, neighbours):
    outputs = checks.reals("outputs", outputs)
    if outputs.ndim != 2 or len(outputs) < 2:
        raise ParameterError(f"outputs of shape {outputs.shape} is no table: it needs two rows (inputs) or more.")
    if not ((outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1, rtol=0, atol=_ROUNDING)):
        raise ParameterError("outputs has a row that is no probability distribution: entries >= 0 that sum to 1.")
    if neighbours is None:
        neighbours = [(i, j) for i in range(len(outputs)) for j in range(i)]
    return outputs, _both_ways(neighbours, len(outputs))


def _both_ways(neighbours, rows):
    """Each pair of rows in both directions."""
    row = checks.integer(0, rows - 1)
    pairs = [tuple(pair) if np.iterable(pair) else () for pair in (neighbours if np.iterable(neighbours) else ())]
    if not pairs or not all(len(pair) == 2 and all(map(row.accepts, pair)) for pair in pairs):
        raise ParameterError(f"neighbours must be pairs of rows from 0 to {rows - 1}, such as [(0, 1)].")
    return [pair for i, j in pairs for pair in ((i, j), (j, i))]


def _worst_set(p, q, delta):
    used = p > 0
    p, q = p[used], q[used]
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
        above = np.cumsum(p[order]) - delta
        above[np.abs(above) <= len(p) * np.finfo(float).eps * delta] = 0.0  # 0.1 + 0.2 is no more than 0.3
        log_ratio = np.log(np.maximum(above, 0)) - np.log(np.cumsum(q[order]))
    return float(max(0.0, np.where(above > 0, log_ratio, 0.0).max()))


def _grid(limits, kinks):
    low, high = (float(limit) for limit in limits)
    if not (np.isfinite([low, high]).all() and low < high):
        raise ParameterError(f"limits = {limits} is not allowed: two finite numbers, the lower one first.")
    inner = [kink for kink in kinks if low < kink < high]
    return np.unique(np.concatenate([np.linspace(low, high, 2001), inner]))


def _one_direction(log_p, log_q, epsilon, grid, kinks):
    """(value, error) of the integral of max(0, p - e^epsilon q), split where its sign changes."""

    def sign(x):
        x = np.atleast_1d(np.asarray(x, dtype=float))
        with np.errstate(invalid="ignore"):
            loss = np.asarray(log_p(x)) - np.asarray(log_q(x)) - epsilon
        return np.clip(np.where(np.isnan(loss), -1.0, loss), -1, 1)

    def p(x):
        return np.exp(np.asarray(log_p(x.ravel())).reshape(x.shape))

    def excess(x):
        scaled = np.exp(np.minimum(epsilon + np.asarray(log_q(x.ravel())).reshape(x.shape), _HUGE))
        return np.maximum(0.0, p(x) - scaled)

    signs = sign(grid) > 0
    changes = np.flatnonzero(signs[1:] != signs[:-1])
    roots = [_crossing(lambda x: sign(x)[0], grid[k], grid[k + 1]) for k in changes]
    # Pieces of a fortieth of the interval: an integrand with a narrow bump is not stepped over.
    cuts = np.unique(np.concatenate([grid[::50], grid[-1:], roots, [k for k in kinks if grid[0] < k < grid[-1]]]))
    above, mass = (integrate.tanhsinh(f, cuts[:-1], cuts[1:], atol=1e-16, rtol=1e-11) for f in (excess, p))
    total = mass.integral.sum()
    error = (above.error + mass.error).sum()
    if not np.isfinite(error) or total > 1 + 1e-6 + error:
        raise ParameterError(f"a density has mass {total:g} between the limits: it must be finite and at most 1.")
    return float(above.integral.sum()), float(error + max(0.0, 1 - total))


def _crossing(function, a, b):
    """Where the sign changes; a jump counts as its place."""
    return optimize.brentq(function, a, b, xtol=1e-14) if function(a) * function(b) < 0 else b


# From the size of the batch and the number of records to what divides; a constant factor changes nothing.
DIVISORS = {"constant": lambda b, n: 1.0, "records": lambda b, n: float(n), "batch": lambda b, n: np.maximum(b, 1.0)}
_POINTS = 40_001
_UNLIKELY = 1e-30  # a batch that is left out
_TOGETHER = 16  # sizes of batches: all of them at once are gigabytes


def _batches(n, sample_rate):
    """How many of the n - 1 others are in the batch, (k, 1), and the chances of it, (k,)."""
    b = np.arange(n)
    chances = binom.pmf(b, n - 1, sample_rate)
    likely = chances > _UNLIKELY
    return b[likely, None], chances[likely]


def _quotient_density(z, n, sample_rate, noise_multiplier, divisor, present):
    """Density at z (k,) of the noisy quotient along the one direction, in units of C, with her or without."""
    values = 0.0
    b, chances = _batches(n, sample_rate)
    for hers, chance in ((0, 1 - sample_rate), (1, sample_rate)) if present else ((0, 1.0),):
        m = DIVISORS[divisor](b + hers, n - 1 + present) * np.ones(b.shape)
        heights = chance * chances * m[:, 0] / (noise_multiplier * np.sqrt(2 * np.pi))
        for start in range(0, len(b), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            distances = (z - (b[part] - hers) / m[part]) * (m[part] / noise_multiplier)
            values = values + heights[part] @ np.exp(-(distances**2) / 2)
    return values


@checks.bounded(
    n=checks.integer(2, 10**5),
    sample_rate=checks.number(1e-9, 1),
    noise_multiplier=checks.number(1e-3, 1e6),
    delta=checks.fraction(),
)
def quotient_epsilon(n: int, sample_rate: float, noise_multiplier: float, delta: float, divisor: str) -> float:
    """Epsilon at ``delta`` of one step on this pair of data sets, the larger of adding and removing her record.

    A lower bound on what the step spends on its worst pair, to about three digits (the trapezoid rule); for the
    constant and full batches it is the worst pair.

    Args:
        n: records with hers, whole, in [2, 1e5].
        sample_rate: in [1e-9, 1].
        noise_multiplier: standard deviation of the noise over the clipping norm, in [1e-3, 1e6].
        delta: in (0, 1).
        divisor: a key of :data:`DIVISORS`: "constant"; "records", as q n is; "batch", its realised size, at least 1.

    Raises:
        ParameterError: for a value outside its range.
    """
    checks.one_of(*DIVISORS).check("divisor", divisor)
    b = _batches(n, sample_rate)[0]
    m = DIVISORS[divisor](b, n - 1) * np.ones(b.shape)  # the smaller of the two: its noise is the wider one
    z = np.linspace(((b - 1 - 12 * noise_multiplier) / m).min(), ((b + 12 * noise_multiplier) / m).max(), _POINTS)
    pair = [_quotient_density(z, n, sample_rate, noise_multiplier, divisor, present) for present in (True, False)]

    def excess(e):
        return max(np.trapezoid(np.maximum(0, p - np.exp(e) * q), z) for p, q in (pair, pair[::-1])) - delta

    return _root(excess)


def _root(excess: Callable[[float], float]) -> float:
    """Where delta is no longer exceeded: an epsilon from 0 to 600."""
    if excess(600) > 0:
        raise ParameterError("what is spent is above epsilon = 600, which is no promise: give more noise.")
    return float(optimize.brentq(excess, 0, 600)) if excess(0) > 0 else 0.0


@checks.bounded(n=checks.number(2, 1e12), coordinates=checks.number(1, 1e15), delta=checks.fraction())
def count_epsilon(n: int, coordinates: int, delta: float) -> float:
    """Epsilon at ``delta`` of the noise alone where n divides: so many coordinates tell n records from n - 1.

    Noise of standard deviation proportional to 1/n has that size in every weight of every step (``coordinates``:
    weights times steps). Exact, by :func:`dplib.mechanisms.two_gaussians_delta`, the larger of adding and removing.

    Args:
        n: records, in [2, 1e12].
        coordinates: numbers with noise that are seen, in [1, 1e15].
        delta: in (0, 1).

    Raises:
        ParameterError: for a value outside its range.
    """

    def excess(e):
        widths = n / (n - 1), 1.0
        return max(mechanisms.two_gaussians_delta(0.0, *w, coordinates, e) for w in (widths, widths[::-1])) - delta

    return _root(excess)
