"""Epsilon of many accepted updates: exact one-step distributions, composed in two independent ways.

A step is a pair of distributions on cells (:class:`papers.screening.one_update.Cells`). Telling only the cell of each
update is post-processing, so what is computed for the cells never exceeds what the updates themselves leak; with cells
of 0.02 standard deviations the difference is far below a thousandth. The steps must be independent of each other given
their index, as they are for a linear energy: the accepted step does not depend on where the iterate stands.
"""

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from dplib import accounting
from dplib.checks import ParameterError, fraction
from papers.screening.one_update import Cells

_ROUNDING = 1e-15  # of a Fourier transform of masses that add up to 1, with room to spare
RELIABLE = 18.0  # :func:`final_epsilon` from here on is too small: the rounding hides rarer sums


def epsilon(steps: Sequence[tuple[Cells, int]], delta: float) -> float:
    """Epsilon at ``delta`` of independent steps, the larger of adding and removing the example.

    By inversion of the transform of the privacy loss (:func:`dplib.accounting.inverted`).

    Args:
        steps: pairs of distributions, each with how often it is used. delta: in (0, 1).

    Raises ParameterError for a bad delta, a loss that is infinite somewhere, or an integral that is not precise.
    """
    return max(directions(steps, delta))


def directions(steps, delta):
    """:func:`epsilon` of removing the example (p from q) and of adding it (q from p)."""
    fraction().check("delta", delta)
    swapped = [(pair.swapped(), count) for pair, count in steps]
    return tuple(_one_direction([(_losses(pair), count) for pair, count in side], delta) for side in (steps, swapped))


def by_pld(steps, delta, interval=1e-4) -> tuple[float, float]:
    """Lower and upper bound of the same epsilon from privacy loss distributions, by dp_accounting.

    Losses are rounded down and up to multiples of ``interval``, so that the bounds are about steps * interval apart.
    """
    from dp_accounting.pld import privacy_loss_distribution

    epsilons = []
    for pessimistic in (False, True):
        total = None
        for pair, count in steps:
            used = (pair.p > 0) & (pair.q > 0)
            masses = [dict(enumerate(np.log(mass[used]))) for mass in (pair.p, pair.q)]
            step = privacy_loss_distribution.from_two_probability_mass_functions(
                *masses, pessimistic_estimate=pessimistic, value_discretization_interval=interval, symmetric=False
            ).self_compose(count)
            total = step if total is None else total.compose(step)
        epsilons.append(float(total.get_epsilon_for_delta(delta)))
    return epsilons[0], epsilons[1]


def least_epsilon(steps: Sequence[tuple[Cells, int]], delta: float) -> float:
    """:func:`epsilon`; where a few steps make its integral imprecise, the lower bound of :func:`by_pld`."""
    try:
        return epsilon(steps, delta)
    except ParameterError:
        return by_pld(steps, delta)[0]


def final_epsilon(pair: Cells, steps: int, delta: float, width: float = 0.02) -> float:
    """Epsilon of the *sum* of equal updates alone, the larger of the two directions.

    That is what the final weights tell of one parameter (w_0 plus the sum, without momentum) to somebody who does not
    see the weights in between: at most :func:`epsilon`. The masses of the cells are put on a grid of ``width``, means
    of midpoints kept, and convolved by Fourier transform; that adds at most width^2 / 4 to the variance of an update.
    Sums that either law gives a mass below the transform's rounding are left out, which makes an epsilon of about
    :data:`RELIABLE` and more too small.
    """
    middle = (pair.edges[1:-2] + pair.edges[2:-1]) / 2
    at = np.concatenate([pair.edges[1:2], middle, pair.edges[-2:-1]]) / width
    spread = max(float(np.sqrt(side @ (at - side @ at) ** 2)) for side in (pair.p, pair.q))
    size = 2 ** int(np.ceil(np.log2(max(np.ptp(at) + 2, 30 * spread * np.sqrt(steps)))))
    low = np.floor(at).astype(int)
    sums = []
    for side in (pair.p, pair.q):
        grid = np.zeros(size)
        np.add.at(grid, low % size, side * (low + 1 - at))
        np.add.at(grid, (low + 1) % size, side * (at - low))
        sums.append(np.fft.irfft(np.fft.rfft(grid) ** steps, size))  # on a circle: wrapping could only lower epsilon
    p, q = sums
    known = (p > _ROUNDING) & (q > _ROUNDING)

    def excess(epsilon, p, q):
        return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum()) - delta

    ends = [
        0.0 if excess(0.0, *both) <= 0 else optimize.brentq(excess, 0.0, 40.0, args=both)
        for both in ((p[known], q[known]), (q[known], p[known]))
    ]
    return max(ends)


def _losses(pair):
    """Masses and losses of the cells that both distributions reach."""
    used = pair.p > 0
    p, q = pair.p[used], pair.q[used]
    if not (q > 0).all():
        raise ParameterError("a privacy loss is infinite: one data set alone can give this update.")
    return p / p.sum(), np.log(p) - np.log(q)


def _one_direction(steps, delta):
    return accounting.inverted(lambda s: _log_moment(steps, s), 1, delta, _saddle(steps, delta), 0.02)


def _saddle(steps, delta):
    """A real part near the saddle point at the answer: the order that bounds epsilon best."""

    def bound(log_c):
        c = np.exp(log_c)
        return (_log_moment(steps, np.array([c]))[0].real - np.log(delta) - np.log(c * (1 + c))) / c

    grid = np.linspace(np.log(0.02), np.log(2000.0), 60)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.array([bound(x) for x in grid])
    best = int(np.nanargmin(np.where(np.isfinite(values), values, np.nan)))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(np.exp(optimize.minimize_scalar(bound, bounds=around, method="bounded").x))


def _log_moment(steps, s):
    """sum of count log M(s), shape of s; M - 1 is summed, so that tiny losses keep their digits."""
    total = np.zeros(s.shape, dtype=complex)
    with np.errstate(over="ignore", invalid="ignore"):  # where it overflows it is not finite, which its users ask
        for (p, loss), count in steps:
            total += count * accounting.log_mean(p, loss, s.astype(complex))
    return total
