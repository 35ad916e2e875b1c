"""What the best of a random, secret number of private runs spends, by privacy profiles (after Koskela et al. 2024).

One run gives an output with a score; the number K of runs is truncated negative binomial (Papernot and Steinke 2022),
with generating function f. If F and F' are the distribution functions of the score on two neighbours, the best output
has density p f'(F), against p' f'(F'). So with c the largest ln of f'(F)/f'(F'), and since f' is at most the mean,
delta(epsilon) of the best is at most mean times one run's delta(epsilon - c). How far F can be from F' is one run's
trade-off. The other way round, the answer is exact for a score that knows the run's own privacy loss: the worst that we
found ranks larger losses higher, and the very smallest, which only the neighbour is likely to have, first of all.
"""

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import optimize

from dplib import search_budgets
from dplib.accounting import Bounds
from dplib.checks import ParameterError, Rule, bounded, integer, number

_SHAPE = Rule(
    "0, or a number in [-0.99, 1000] at least 1e-6 from it",
    lambda v: number(-0.99, 1e3).accepts(v) and not 0 < abs(v) < 1e-6,
)
_SHARES = (0, *np.geomspace(1e-5, 0.5, 15))  # of the neighbour's runs that rank first


@bounded(
    noise_multiplier=number(0.3, 1e3),
    sample_rate=number(1e-6, 1),
    steps=integer(1, 10**6),
    mean_runs=number(1, 1e6),
    shape=_SHAPE,
    delta=number(1e-20, 0.999),
)
def of_trainings(
    noise_multiplier: float, sample_rate: float, steps: int, mean_runs: float, shape: float, delta: float
) -> Bounds:
    """:func:`epsilon` of the best of a random number of trainings by DP-SGD.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.3, 1e3].
        sample_rate: in [1e-6, 1].
        steps: of each training, whole, in [1, 1e6].
        mean_runs: expected number of trainings, in [1, 1e6].
        shape: of the law of the number of runs, > -1 and at most 1000: 1 is geometric, 0 logarithmic.
        delta: in [1e-20, 1).

    Raises:
        ParameterError: for a value outside its range, or an epsilon above 100.
    """
    pairs = training(noise_multiplier, sample_rate, steps)
    return epsilon(pairs, search_budgets.stopping(mean_runs, shape), shape, delta)


@bounded(
    noise_multiplier=number(0.3, 1e3), sample_rate=number(1e-6, 1), steps=integer(1, 10**6), interval=number(1e-6, 1)
)
def training(noise_multiplier: float, sample_rate: float, steps: int, interval: float = 2e-4) -> list[np.ndarray]:
    """Losses (k,) and their probabilities (k,) with a record and without, of removing and adding it: [(3, k), (3, k)].

    DP-SGD by Poisson batches; add or remove one record. From above (dp_accounting's connected dots), so that the last
    loss may be infinite.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.3, 1e3].
        sample_rate: in [1e-6, 1].
        steps: whole, in [1, 1e6].
        interval: between the losses of the grid, in [1e-6, 1].

    Raises:
        ParameterError: for a value outside its range.
    """
    step = pld.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sample_rate, value_discretization_interval=interval, use_connect_dots=True
    )
    both = step.self_compose(steps)
    return [_pair(direction.to_dense_pmf(), interval) for direction in (both._pmf_remove, both._pmf_add)]


@bounded(gamma=number(1e-9, 1), shape=_SHAPE, delta=number(1e-20, 0.999))
def epsilon(pairs: list[np.ndarray], gamma: float, shape: float, delta: float) -> Bounds:
    """Epsilon at ``delta`` of publishing only the best run: what is spent with the worst of some scores that know the
    loss, and a bound for every score.

    ``pairs`` are one run, as from :func:`training`; ``gamma`` in (0, 1] and ``shape`` > -1 of the law of K. Where their
    losses are rounded up, as there, the first is a little too large as well: by 0.003 of 4.38 for the best of 400
    trainings of 48,000 steps (noise 2, rate 1/240, geometric, delta 1e-5).

    Args:
        pairs: one run, as from :func:`training`.
        gamma: the parameter of the law of the number of runs, in (0, 1], as from :func:`dplib.search_budgets.stopping`.
        shape: of the law of the number of runs, > -1 and at most 1000: 1 is geometric, 0 logarithmic.
        delta: in [1e-20, 1).

    Raises:
        ParameterError: for a value outside its range, or an epsilon above 100.
    """
    if gamma == 1:  # one run, always
        spent = max(_epsilon_of(*pair[1:], delta) for pair in pairs)
        return Bounds(spent, spent)
    mean = _slope(1.0, gamma, shape)
    low = max(_exact(pair, share, gamma, shape, delta) for pair in pairs for share in _SHARES)
    high = max(_largest_ratio(pair, gamma, shape) + _epsilon_of(*pair[1:], delta / mean) for pair in pairs)
    return Bounds(low, float(high))


def _pair(pmf, interval):
    losses = interval * (pmf._lower_loss + np.arange(pmf.size))
    mass = np.append(np.clip(pmf._probs, 0, None), pmf._infinity_mass)
    other = np.append(mass[:-1] * np.exp(-losses), 0)
    return np.array([np.append(losses, np.inf), mass / mass.sum(), other / other.sum()])


def _generating(z, gamma, shape):
    """E z^K of the truncated negative binomial."""
    base = 1 - (1 - gamma) * z
    if shape == 0:
        return np.log(base) / np.log(gamma)
    return (base**-shape - 1) / (gamma**-shape - 1)


def _slope(z, gamma, shape):
    """The derivative of E z^K; at 1 the mean of K."""
    first = -np.log(gamma) if shape == 0 else (gamma**-shape - 1) / shape
    return (1 - gamma) / first * (1 - (1 - gamma) * z) ** (-shape - 1)


def _largest_ratio(pair, gamma, shape):
    """ln of the largest slope at F over that at F': F is largest, at any F', on the outputs of largest loss.

    Between two points of the grid F is taken from the upper one and F' from the lower one.
    """
    mine, others = np.clip(np.cumsum(pair[1:, ::-1], axis=1), 0, 1)
    return np.log(_slope(mine, gamma, shape) / _slope(np.append(0, others[:-1]), gamma, shape)).max()


def _exact(pair, share, gamma, shape, delta):
    """Epsilon of the best if a larger loss ranks higher, but for a share of the least losses, which rank first."""
    first = np.searchsorted(np.cumsum(pair[2]), share)
    ends = np.clip(np.cumsum(np.roll(pair[1:], -first, axis=1), axis=1), 0, 1)
    best = np.diff(_generating(ends, gamma, shape), prepend=0)
    return _epsilon_of(*best, delta)


def _epsilon_of(mass, other, delta):
    """The epsilon at which mass is delta above e^epsilon times the other's."""
    if np.clip(mass - other, 0, None).sum() <= delta:
        return 0.0
    excess = lambda e: np.clip(mass - np.exp(e) * other, 0, None).sum() - delta  # noqa: E731
    if excess(100) > 0:
        raise ParameterError("what is spent at this delta is above epsilon = 100, which is no promise: add noise.")
    return float(optimize.brentq(excess, 0, 100, xtol=1e-6))
