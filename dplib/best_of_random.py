"""What the best of a random, secret number of private runs spends, by privacy profiles (after Koskela et al. 2024).

One run gives an output with a score; the number K of runs is truncated negative binomial (Papernot and Steinke 2022),
with generating function f. If F and F' are the distribution functions of the score on two neighbours, the best output
has density p f'(F), against p' f'(F'). So with c the largest ln of f'(F)/f'(F'), and since f' is at most the mean,
delta(epsilon) of the best is at most mean times one run's delta(epsilon - c). How far F can be from F' is one run's
trade-off. The other way round, the answer is exact for a score that knows the run's own privacy loss: the worst that we
found ranks larger losses higher, and the very smallest, which only the neighbour is likely to have, first of all.
"""

import numpy as np
from dp_accounting.pld import pld_pmf
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
_MOST = 100  # epsilon: beyond, it is no promise
_ROUNDING = 1e-6  # how far from 1 probabilities may sum
_PLACES = 1e8  # of losses on a grid: more take gigabytes


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

    DP-SGD by Poisson batches; add or remove one record. From above (dp_accounting's connected dots), so that the first
    and the last loss are infinite. The latter has 2^-54 a step for what the convolution may lose by rounding: against
    longer numbers it lost less, in tails below 1e-10, in all of 17 settings.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.3, 1e3].
        sample_rate: in [1e-6, 1].
        steps: whole, in [1, 1e6].
        interval: between the losses of the grid, in [1e-6, 1].

    Raises:
        ParameterError: for a value outside its range, losses on more than 1e8 places of the grid, or rounding errors
            that leave no probabilities.
    """
    both = pld.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sample_rate, value_discretization_interval=interval, use_connect_dots=True
    )
    step = _pair(both._pmf_remove.to_dense_pmf(), both._pmf_add.to_dense_pmf(), interval)
    _check_size(step, steps, interval)
    pair = _pair(*(_composed(one, steps, interval) for one in (step, _mirrored(step))), interval)
    if not (_are_probabilities(step) and _are_probabilities(pair)):
        raise ParameterError(
            f"interval = {interval:g} is not allowed with noise_multiplier = {noise_multiplier:g}, sample_rate = "
            f"{sample_rate:g} and steps = {steps}: rounding errors leave no probabilities."
        )
    return [_from_above(one, steps) for one in (pair, _mirrored(pair))]


@bounded(gamma=number(1e-9, 1), shape=_SHAPE, delta=number(1e-20, 0.999))
def epsilon(pairs: list[np.ndarray], gamma: float, shape: float, delta: float) -> Bounds:
    """Epsilon at ``delta`` of publishing only the best run: what is spent with the worst of some scores that know the
    loss, and a bound for every score.

    ``pairs`` are one run, as from :func:`training`; ``gamma`` in (0, 1] and ``shape`` > -1 of the law of K. Where their
    losses are rounded up, as there, the first is a little too large as well: by 0.003 of 4.38 for the best of 400
    trainings of 48,000 steps (noise 2, rate 1/240, geometric, delta 1e-5).

    Args:
        pairs: one run, as from :func:`training`; larger losses stand behind smaller ones.
        gamma: the parameter of the law of the number of runs, in (0, 1], as from :func:`dplib.search_budgets.stopping`.
        shape: of the law of the number of runs, > -1 and at most 1000: 1 is geometric, 0 logarithmic.
        delta: in [1e-20, 1).

    Raises:
        ParameterError: for a value outside its range, what are no probabilities, or an epsilon above 100.
    """
    pairs = [np.asarray(pair, dtype=float) for pair in pairs]
    if not all(map(_are_probabilities, pairs)):
        raise ParameterError(
            "pairs is not allowed: each must be losses in ascending order, and the probabilities of each loss with a "
            f"record and without, which sum to 1 to within {_ROUNDING:g}: shape (3, k)."
        )
    mean = _mean(gamma, shape)
    high = max(float(_largest_ratio(pair, gamma, shape)) + _epsilon_of(*pair[1:], delta / mean) for pair in pairs)
    if high > _MOST:
        raise ParameterError(
            f"what is spent at delta = {delta:g} is above epsilon = {_MOST}, which is no promise, or below what can be "
            "computed: add noise, or allow for a larger delta."
        )
    if gamma == 1:  # one run, always
        return Bounds(high, high)
    low = max(_exact(pair, share, gamma, shape, delta) for pair in pairs for share in _SHARES)
    return Bounds(min(low, high), high)  # each is found to within 1e-6


def _pair(remove, add, interval):
    """Losses (k,), and their probabilities with a record and without: of losses of at least 0 from ``remove``, and of
    negative ones from ``add``, where they are the gains. So neither is a rounding error times the exponential of a
    loss. Both connect the same dots, so that they are the two halves of one pair.
    """
    above, mass = _largest(remove, 0, interval)
    below, other = _largest(add, 1, interval)
    losses = np.append(-below[::-1], above)
    mass, other = np.append((other * np.exp(-below))[::-1], mass), np.append(other[::-1], mass * np.exp(-above))
    return np.array([losses, mass, other])


def _largest(pmf, least, interval):
    """Losses of at least ``least`` intervals, the infinite one last, and their probabilities."""
    places = pmf._lower_loss + np.arange(pmf.size)
    mass = np.clip(pmf._probs, 0, None)
    return (
        np.append(interval * places[places >= least], np.inf),
        np.append(mass[places >= least], pmf._infinity_mass),
    )


def _mirrored(pair):
    """The other direction: the record and its absence change places."""
    return np.array([-pair[0], pair[2], pair[1]])[:, ::-1]


def _check_size(step, steps, interval):
    """Ten standard deviations to either side are about what is kept of the losses of all steps."""
    losses, mass = step[0, 1:-1], step[1, 1:-1]
    deviation = np.sqrt(mass @ losses**2 - (mass @ losses) ** 2)
    if (places := 20 * deviation * np.sqrt(steps) / interval) > _PLACES:
        raise ParameterError(
            f"steps = {steps} is not allowed with interval = {interval:g}: the grid would have {places:.0e} places, "
            f"and may have {_PLACES:.0e}."
        )


def _composed(pair, steps, interval):
    """The losses with a record, of ``steps`` independent steps; the first one of ``pair`` is minus infinity."""
    losses, mass = pair[0], pair[1] / pair[1].sum()
    one = pld_pmf.DensePLDPmf(interval, round(losses[1] / interval), mass[1:-1], mass[-1], True)
    return one.self_compose(steps)


def _from_above(pair, steps):
    """With what rounding may have lost as an infinite loss; what the neighbour lacks has a loss of minus infinity."""
    losses, mass, other = pair
    mass = mass / min(1, mass.sum())
    mass[-1] += steps * 2.0**-54
    return np.array([losses, mass, other / max(1, other.sum())])


def _are_probabilities(pair):
    if pair.ndim != 2 or len(pair) != 3 or not (np.diff(pair[0]) > 0).all() or not (pair[1:] >= 0).all():
        return False
    return bool((np.abs(pair[1:].sum(axis=1) - 1) <= _ROUNDING).all())


def _mean(gamma, shape):
    """Of the truncated negative binomial."""
    if gamma == 1:
        return 1.0
    return (1 - gamma) / gamma * (1 / -np.log(gamma) if shape == 0 else shape / -np.expm1(shape * np.log(gamma)))


def _best(mass, gamma, shape):
    """The probabilities (k,) that the best run is each of the outcomes, which stand from the worst to the best.

    With f(z) = E z^K and u the mass of better ones, f(1 - u) - f(1 - u - mass): each by itself, as differences of sums
    near 1 would lose the outcomes that have less than a rounding error.
    """
    better = np.append(np.cumsum(mass[:0:-1])[::-1], 0)
    base = gamma + (1 - gamma) * better
    rise = np.log1p((1 - gamma) * mass / base)
    if shape == 0:
        return rise / -np.log(gamma)
    return (base / gamma) ** -shape * np.expm1(-shape * rise) / np.expm1(shape * np.log(gamma))


def _largest_ratio(pair, gamma, shape):
    """ln of the largest slope of f at F over that at F': F is largest, at any F', on the outputs of largest loss.

    The slope at 1 - u is as (gamma + (1 - gamma) u)^(-shape - 1). Between two points of the grid F is taken from the
    upper one and F' from the lower one. Each u is summed from both ends, and the less favourable one is taken.
    """
    _, mass, other = pair
    mine = np.minimum(1 - _sums(mass[::-1])[1:], _sums(mass)[-2::-1])
    others = np.maximum(1 - _sums(other[::-1])[:-1], _sums(other)[:0:-1])
    low, high = gamma + (1 - gamma) * np.clip([mine, others], 0, 1)
    return (1 + shape) * np.log(high / low).max()


def _sums(mass):
    """Of the first 0, 1, ... k."""
    return np.append(0, np.cumsum(mass))


def _exact(pair, share, gamma, shape, delta):
    """Epsilon of the best if a larger loss ranks higher, but for a share of the least losses, which rank first."""
    first = np.searchsorted(np.cumsum(pair[2]), share)
    best, others = (_best(mass, gamma, shape) for mass in np.roll(pair[1:], -first, axis=1))
    return _epsilon_of(best, others, delta)


def _epsilon_of(mass, other, delta):
    """The epsilon at which mass is delta above e^epsilon times the other's; inf where that is more than 100."""
    excess = lambda e: np.clip(mass - np.exp(e) * other, 0, None).sum() - delta  # noqa: E731
    if excess(0) <= 0:
        return 0.0
    if excess(_MOST) > 0:
        return np.inf
    root = optimize.brentq(excess, 0, _MOST, xtol=1e-6)
    while excess(root) > 0:
        root += 1e-6
    return float(root)
