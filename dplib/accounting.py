"""What a DP-SGD training spends, and the noise that a budget asks for.

Every figure here is for data sets that differ by adding or removing one example, for batches drawn by Poisson sampling
(each example independently with probability ``sample_rate`` at each step) and for the sum of the clipped gradients
plus Gaussian noise. It covers the noisy gradients of one training, all of them published, and nothing else: not the
choice of hyper-parameters (:func:`selection_epsilon`), statistics of the data used in preprocessing, or early
stopping on private data. Other batches (shuffled, of a fixed size, or divided by their own size) are other mechanisms.
A sum that is divided by sample_rate * n keeps these figures only where the number of examples n is public (an absent
example then counts as one with gradient zero). Else the quotient moves by up to twice as much, and the size of its
noise tells n, the more so the more numbers are noisy: divide by a constant (``dpsgd.DPSGD``, ``divisor``).

Accountants, all upper bounds:

- ``pld``, the default: privacy loss distributions (Doroshenko et al. 2022) by dp_accounting, both directions; an upper
  bound whatever the grid, refined until the grid adds less than a thousandth or so (at most 1 in 300).
- ``prv``: numerical composition (Gopi, Lee and Wutschitz 2021) by Opacus, whose import takes seconds; proven error, a
  hundredth of epsilon or so. It composes the loss of removing an example only: of Rényi divergences that is proven the
  larger one. Its error is at least 0.001, so that small budgets cost much noise: for epsilon 0.001 at rate 0.1, 10
  steps and delta 1e-5 it asks for 4,674, "pld" for 546. Kept runs that rest on it name it.

  Where the grids of these two would have millions of points they are coarser, and the bound is looser, but no looser
  than that of "rdp", which stands in for "pld" beyond 10^8 steps, beyond 200 phases, and for losses above 700. It
  stands in for both where delta is below 1e-9 or 3.6e-15 times the number of steps: both compose by Fourier transforms
  in float64, whose rounding is no longer small beside it ("pld" was up to 3% too low at 1e-14). Where the rounding is
  between a five-thousandth and a half of delta they take it off delta first. And it stands in for "prv" where the mean
  of the composed loss is not that of its steps: Opacus's quadrature may miss a loss that is nearly always 0, and at
  rates of 1e-5 and 10^7 steps or more epsilon came out as 0.
- ``rdp``: Rényi DP (Mironov, Talwar and Zhang 2019) with the improved conversion, :mod:`dplib.rdp`. Vectorised, often
  5 to 15% above the others, and more where delta is large or few steps are taken.
"""

import functools
import importlib.metadata
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from dplib import cache, mechanisms, rdp
from dplib.checks import ParameterError, bounded, fraction, number, numbers, one_of

ACCOUNTANTS = ("pld", "prv", "rdp")
_REFINEMENTS = 7  # of the PLD grid, by 4 each
# What a second or two can do: points of a PRV grid; of a PLD grid those of one step and of all, steps, phases.
_POINTS, _LOSSES, _SUMS, _STEPS, _PHASES = 1_500_000, 60_000, 1_000_000, 10**8, 200
_EVALUATIONS = 12  # of a calibration; four or five are usual
# Of a calibration by "pld", in points of composed grids, a million a second or so; one of a step takes as long as 8.
_WORK, _ONE_STEP = 3_000_000, 8
_LEAST_DELTA = 1e-9  # of "pld" and "prv"
_STEP_ROUNDING, _NEGLIGIBLE = 16 * 2.0**-53, 1 / 5000  # of a step; of delta, see _rounding
_OFF, _LOST = 0.1, 1e-4  # of the error of "prv", how far the mean may be off unaccounted for; of mass, see _shift
_NEAR = 0.01  # of the noise, where a calibration that has worked so much may end


@dataclass(frozen=True)
class Bounds:
    """Epsilon between two bounds.

    Args:
        low: a lower bound, >= 0: proven for "prv" and full batches, estimated for "pld", 0 for "rdp".
        high: an upper bound, which is what a training may be said to spend; inf without noise.
    """

    low: float
    high: float


def epsilon(
    noise_multiplier: ArrayLike, sample_rate: ArrayLike, steps: ArrayLike, delta: ArrayLike, accountant: str = "pld"
) -> float | np.ndarray:
    """Epsilon at ``delta`` of ``steps`` steps of DP-SGD, an upper bound; see the module for the neighbouring relation.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, >= 0; 0 spends inf.
        sample_rate: chance of each example to be in a step's batch, in (0, 1]; the one that was sampled with.
        steps: how many steps were taken, or set; whole, >= 0.
        delta: in (0, 1).
        accountant: one of :data:`ACCOUNTANTS`. With sample_rate 1 the first two give the exact value of the Gaussian
            mechanism, :func:`dplib.mechanisms.gaussian_epsilon`.

    Returns:
        Of the shape of the arguments together; a float for scalars.

    Raises:
        ParameterError: for a value outside its range, or one that the accountant cannot compute.
    """
    one_of(*ACCOUNTANTS).check("accountant", accountant)
    if accountant == "rdp":
        return rdp.epsilon(noise_multiplier, sample_rate, steps, delta)
    settings = rdp.check_settings(noise_multiplier, sample_rate, steps)

    def of_setting(sigma, q, count, delta):
        return bounds([(sigma, q, count)], delta, accountant).high

    return np.vectorize(of_setting, otypes=[float])(*rdp.together(*settings, rdp.numbers("delta", delta)))[()]


def bounds(phases: Sequence[tuple[float, float, int]], delta: float, accountant: str = "pld") -> Bounds:
    """Epsilon at ``delta`` of phases with different settings from below and above, the accountant's error included.

    Args:
        phases: a list of (noise_multiplier, sample_rate, steps) as in :func:`epsilon`, one after the other, fixed in
            advance: settings chosen by looking at the private results of earlier phases need a privacy filter or
            odometer instead.
        delta: in (0, 1).
        accountant: one of :data:`ACCOUNTANTS`.

    Returns:
        "pld": the pessimistic value, and that (of removing an example) less a third of what the last refinement of the
        grid (by 4) took off: an estimate on the safe side, since the error falls with the square of the interval once
        it is small, or 0 where the grid could not be refined so far or the estimate is above a bound; of over 200
        phases, those of "rdp".
        "prv": the proven bounds, about 1% of epsilon on both sides, at least 0.001, more after very many steps.
        "rdp": 0 and the bound, which also stand in for the others as the module says. Full batches alone: the exact
        value, twice.

    Raises:
        ParameterError: as :func:`epsilon`.
    """
    one_of(*ACCOUNTANTS).check("accountant", accountant)
    fraction().check("delta", delta)
    return _bounds(phases, delta, accountant)[0]


def _bounds(phases, delta, accountant):
    """What :func:`bounds` returns, and the work of it; without "pld", 0."""
    phases, delta = _merged(phases), float(delta)
    if not phases or phases[0][0] == 0:
        spent = np.inf if phases else 0.0
        return Bounds(spent, spent), 0
    rdp_epsilon = _rdp_epsilon(phases, delta)
    if accountant == "rdp" or rdp_epsilon <= 0:
        return Bounds(0.0, rdp_epsilon), 0
    if all(q == 1 for _, q, _ in phases):
        exact = float(mechanisms.gaussian_epsilon(phases[0][0], 1.0, delta))
        return Bounds(exact, exact), 0
    if delta < _LEAST_DELTA or _rounding(phases, delta) > delta / 2:
        return Bounds(0.0, rdp_epsilon), 0
    compute, package = {"prv": (_prv, "opacus"), "pld": (_pld, "dp-accounting")}[accountant]
    low, high, *work = _cached(compute)(phases, delta, rdp_epsilon, importlib.metadata.version(package))
    return Bounds(low, high), sum(work)


def noise_multiplier(
    target_epsilon: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike,
    accountant: str = "pld",
    rtol: float = 1e-4,
) -> float | np.ndarray:
    """The least noise multiplier for which :func:`epsilon` is at most the target. Arrays broadcast; a float for
    scalars.

    Args:
        target_epsilon: the budget, in [1e-9, 2e11].
        sample_rate: chance of each example to be in a step's batch, in (0, 1]; the one that was sampled with.
        steps: how many steps will be taken; whole, >= 1.
        delta: in (0, 1).
        accountant: one of :data:`ACCOUNTANTS`.
        rtol: the result is at most this much above the least, relatively, and never below it, in [1e-12, 1]. By "prv"
            and "pld" it is found in twelve evaluations; where these are not enough it is the least of those tried. By
            "pld", where they take seconds, it is at most 0.01 above instead.

    Raises:
        ParameterError: for a value outside its range, or a target out of reach.
    """
    one_of(*ACCOUNTANTS).check("accountant", accountant)
    if accountant == "rdp":
        return rdp.noise_multiplier(target_epsilon, sample_rate, steps, delta, rtol=rtol)
    number(1e-12, 1).check("rtol", rtol)
    vectorised = np.vectorize(_noise_multiplier, otypes=[float], excluded={4, 5})
    settings = rdp.arrays(target_epsilon=target_epsilon, sample_rate=sample_rate, steps=steps, delta=delta)
    return vectorised(*settings, accountant, rtol)[()]


@bounded(delta=fraction(), mean_runs=number(1, 1e9), shape=numbers(0, 1e6, infinite=True))
def selection_epsilon(
    phases: Sequence[tuple[float, float, int]], delta: float, mean_runs: float, shape: float = np.inf
) -> float:
    """Epsilon of training a random number of times and publishing only the best run (Papernot and Steinke 2022).

    An upper bound by Rényi DP (add or remove one example), by dp_accounting. The number of runs is drawn from a
    distribution fixed in advance and is not published, each run draws its own candidate at random, and the score is
    computed from that run's private output alone: scores on held-out data leave that data's own privacy out.

    Args:
        phases: what one run does, a list of (noise_multiplier, sample_rate, steps) as in :func:`epsilon`.
        delta: in (0, 1).
        mean_runs: expected number of runs, in [1, 1e9].
        shape: inf for a Poisson number of runs (Theorem 6; none at all with probability exp(-mean_runs)), else the
            shape of a truncated negative binomial, in [0, 1e6] (Theorem 2): 1 is geometric, 0 logarithmic.

    Raises:
        ParameterError: for a value outside its range, or phases that are none.
    """
    phases = _merged(phases)
    if not phases:
        return 0.0
    version = importlib.metadata.version("dp-accounting")
    return _cached(_selection)(phases, float(delta), float(mean_runs), float(shape), version)


def _merged(phases):
    """Phases checked, those without steps dropped, equal ones joined, full batches as one Gaussian; noise 0 first."""
    if not isinstance(phases, list | tuple) or any(not isinstance(p, list | tuple) or len(p) != 3 for p in phases):
        raise ParameterError("phases must be a list of (noise_multiplier, sample_rate, steps).")
    steps, precision = {}, 0.0
    for phase in phases:
        sigma, q, count = (float(value) for value in rdp.check_settings(*phase))
        sigma *= sigma > rdp.NO_NOISE
        if q == 1 and sigma > 0:
            precision += count / sigma**2  # squared distances of Gaussians of equal noise add up
        elif count > 0:
            steps[sigma, q] = steps.get((sigma, q), 0) + int(count)
    if precision > 0:
        steps[precision**-0.5, 1.0] = 1
    return tuple((sigma, q, count) for (sigma, q), count in sorted(steps.items()))


def _rdp_epsilon(phases, delta):
    spent = rdp.rdp(*(np.array(column) for column in zip(*phases, strict=True))).sum(axis=0)
    return float(rdp.to_epsilon(spent, rdp.ORDERS, delta).min())


def _rounding(phases, delta):
    """How much the delta of a composed distribution may be off by the rounding of Fourier transforms; 0 where it is
    negligible, so that what few steps spend is the value at delta itself.

    A transform's values, at most 1, are off by some 2^-53, their n-th powers by n times that, and so are sums of the
    masses, whatever delta is. Against transforms in extended precision, delta was off by at most 5.5 n 2^-53 in 700
    compositions, of 1 to 10^8 steps and of up to 11 phases, of both accountants; by 1.5 n 2^-53 in most of them.
    """
    rounding = _STEP_ROUNDING * sum(count for *_, count in phases)
    return rounding if rounding > _NEGLIGIBLE * delta else 0.0


def _prv(phases, delta, rdp_epsilon, version):
    """Opacus's bounds, with an error of 1% of epsilon: less where that would take millions of grid points."""
    from opacus.accountants import PRVAccountant

    accountant, rounding = PRVAccountant(), _rounding(phases, delta)
    accountant.history = list(phases)

    def compute(error):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # The public get_epsilon keeps the upper end only.
            distribution = accountant._get_dprv(eps_error=error, delta_error=delta / 1000)
            low, middle, _ = distribution.compute_epsilon(delta + rounding, delta / 1000, error)
            high = distribution.compute_epsilon(delta - rounding, delta / 1000, error)[2]
            shift = _shift(distribution, phases) if np.isfinite(high) else 0.0
            shift *= shift > _OFF * error
            return (low - shift, middle, high + shift) if shift <= error else None

    least = _affordable_error(phases, delta)
    if least >= 1:  # which Opacus's grid is not made for
        return 0.0, rdp_epsilon
    first, reason = max(_error(rdp_epsilon), least), "the result is not a number"
    try:
        low, middle, high = found = compute(first) or (0.0, rdp_epsilon, rdp_epsilon)
        second = max(_error(max(middle, 0.0)), least)
        if middle < 0.5 * rdp_epsilon and second < first:
            low, _, high = compute(second) or found
    except (RuntimeError, ValueError, MemoryError, OverflowError) as problem:
        high, reason = np.nan, str(problem)
    if not np.isfinite(high):
        raise ParameterError(f"accountant = 'prv' cannot compute {phases} at delta = {delta:g} ({reason}): use 'pld'.")
    if low > rdp_epsilon:  # the rounding of floating-point numbers, where delta is tiny
        low = 0.0
    return max(0.0, float(low)), max(0.0, min(float(high), rdp_epsilon))


def _shift(distribution, phases):
    """How far the mean of the composed loss is from that of its steps together; inf where it has lost mass.

    Opacus centres the loss of a step on a mean from quadratures of absolute error 1e-8, which may miss a narrow peak:
    after n steps epsilon is off by n times as much, towards either side (by 6e-4 after 300 steps of noise 0.7 and rate
    0.0085). Up to a tenth of the error, the error covers it: but for this shift and for rounding, epsilon was off by at
    most a fiftieth of it, against inversion. Mass is lost in gaps between the grid's points.
    """
    if not abs(distribution.pmf.sum() - 1) <= _LOST:
        return np.inf
    mean = sum(count * _mean_loss(sigma, q) for sigma, q, count in phases)
    return abs(float(distribution.pmf @ distribution.domain.ts) - mean)


def _mean_loss(sigma, q):
    """E[L] of a step, removing an example: the slope of log E[e^(itL)] / i at 0."""
    t = 1e-5
    return float(_log_moment(np.array([1j * t]), sigma, q, True)[0].imag / t)


def _error(epsilon):
    return float(np.clip(0.01 * epsilon, 1e-3, max(0.01, 1e-3 * epsilon)))


def _affordable_error(phases, delta):
    """The error from which on Opacus's grid has at most _POINTS points, about: its width over its mesh."""
    width = 2 * (_rdp_epsilon(phases, delta / 4000) + 3)
    mesh = 1 / np.sqrt(sum(count for *_, count in phases) * np.log(12_000 / delta) / 2)
    return float(width / mesh / _POINTS)


def _pld(phases, delta, rdp_epsilon, version):
    """Refine the grid by 4 until the last refinement took off less than 1%; see :func:`bounds` for the error. The third
    number returned is the work of it, as :data:`_WORK` counts.
    """
    if sum(count for *_, count in phases) > _STEPS or len(phases) > _PHASES:
        return 0.0, rdp_epsilon, 0
    finest = sum(_widest_loss(sigma, q) for sigma, q, _ in phases) / _LOSSES
    interval = max(max(rdp_epsilon, 1e-3) / 500, finest)
    best, last, low, work, rounding = rdp_epsilon, np.inf, 0.0, 0, _rounding(phases, delta)
    for _ in range(_REFINEMENTS + 1):
        try:
            distribution = _loss_distribution(phases, interval)
            remove, add = distribution._pmf_remove, distribution._pmf_add
            removed, added = (_composed_epsilon(part, delta - rounding) for part in (remove, add))
            lower = _composed_epsilon(remove, delta + rounding) if rounding else removed
        except OverflowError:  # losses beyond 700
            break
        work += remove.size + add.size + round(_ONE_STEP * _LOSSES * finest / interval)
        high = max(removed, added)
        best, change, last = min(best, high), abs(last - high), high
        if change <= 0.01 * high + 1e-5:
            # Not of adding, which spends less: fine grids make too much of it, as they set masses rounded below 0 to 0.
            low = lower - change / 3
            low *= low <= best  # an estimate above a bound is none
            break
        interval /= 4
        if interval < finest or 4 * max(remove.size, add.size) > _SUMS:
            break
    if not np.isfinite(best):
        raise ParameterError(f"accountant = 'pld' cannot compute {phases} at delta = {delta:g}: use 'rdp'.")
    return max(0.0, low), best, work


def _composed_epsilon(masses, delta):
    with np.errstate(over="ignore"):  # a quotient of masses that is infinite
        return float(masses.get_epsilon_for_delta(delta))


def _widest_loss(sigma, q):
    """How far the privacy loss of a step reaches on the grid."""
    from dp_accounting.pld import privacy_loss_mechanism

    ends = privacy_loss_mechanism.GaussianPrivacyLoss(sigma, sampling_prob=q).connect_dots_bounds()
    return ends.epsilon_upper - ends.epsilon_lower


def _loss_distribution(phases, interval):
    parts = [_one_step(sigma, q, interval).self_compose(count) for sigma, q, count in phases]
    return functools.reduce(lambda a, b: a.compose(b), parts)


def _one_step(sigma, q, interval):
    from dp_accounting.pld import privacy_loss_distribution as pld

    distribution = pld.from_gaussian_mechanism(sigma, sampling_prob=q, value_discretization_interval=interval)
    # Dense: of a sparse one, self_compose raises its size to the power of the steps, a number of a million digits.
    remove, add = distribution._pmf_remove.to_dense_pmf(), distribution._pmf_add.to_dense_pmf()
    return pld.PrivacyLossDistribution(remove, None if q == 1 else add)


def _selection(phases, delta, mean_runs, shape, version):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    one_run = [
        dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma)), count)
        for sigma, q, count in phases
    ]
    accountant = RdpAccountant(rdp.ORDERS)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.ComposedDpEvent(one_run), mean_runs, shape))
    return float(accountant.get_epsilon(delta))


def _noise_multiplier(target, q, steps, delta, accountant, rtol):
    number(1e-9, 2e11).check("target_epsilon", float(target))
    _, q, steps = (float(value) for value in rdp.check_settings(1.0, q, steps))
    fraction().check("delta", float(delta))
    if steps < 1:
        raise ParameterError(f"steps = {steps:g} is not allowed: it must be at least 1 to need any noise.")
    if q < 1 and -np.expm1(steps * np.log1p(-q)) <= delta:
        raise ParameterError(f"delta = {delta:g} exceeds the chance that an example is ever used: no noise is needed.")

    def excess(log_sigma):
        spent, work = _bounds([(float(np.exp(log_sigma)), q, steps)], float(delta), accountant)
        with np.errstate(divide="ignore"):
            return np.log(spent.high / target), work

    try:
        x = float(np.log(rdp.noise_multiplier(target, q, steps, delta)))  # a little more noise than is needed
    except ParameterError:
        x = float(np.log(max(0.5, q * np.sqrt(-2 * steps * np.log(delta)) / target)))
    low, high, last, slope = -np.inf, np.inf, (np.nan, np.nan), -1.0  # log epsilon is almost linear in log noise
    worked = 0
    for _ in range(_EVALUATIONS):
        y, work = excess(x)
        worked += work
        low, high = (low, min(high, x)) if y <= 0 else (max(low, x), high)
        if high - low <= max(_NEAR * (worked > _WORK), rtol / 2):
            break
        if np.isfinite(y) and (y - last[1]) * (x - last[0]) < 0:
            slope = (y - last[1]) / (x - last[0])
        last = x, y
        # Beyond the root as it seems to be, so that the next evaluation bounds it from the other side.
        x = np.clip(x - y / slope + np.copysign(rtol / 5, y), x - 3, x + 3)
        if not low < x < high:
            x = (low + high) / 2 if np.isfinite(low + high) else high - 0.3 if np.isfinite(high) else low + 0.3
    if not np.isfinite(high):
        raise ParameterError(f"target_epsilon = {target:g} is below what accountant = {accountant!r} can certify.")
    return float(np.exp(high))


def _cached(function):
    """The function with its results kept on disk, under its source, arguments and the library's version."""
    return cache.memory("accounting").cache(function)


_REACH = 12.0  # of the outputs, in standard deviations
_SPACING = 0.03  # of the outputs, in standard deviations, or in sigma where that is smaller
_DROP = 35.0  # the integrand is followed until it has fallen by e to this


@bounded(noise_multiplier=number(0.2, 1e4), sample_rate=number(1e-9, 1), steps=number(1, 1e7), delta=number(1e-30, 0.5))
def inverted_epsilon(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Epsilon at ``delta`` after ``steps`` steps, the larger of adding and removing an example; scalars.

    With L the privacy loss of one step and M(s) = E[e^(s L)], delta is the integral of M(s)^steps e^(-epsilon s) / (s
    (s + 1)) over a line of constant positive real part, divided by 2 pi i. The line goes near the saddle point, where
    the integrand hardly oscillates (Alghamdi et al. 2023); Rényi accounting's best order is close to it.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.2, 1e4].
        sample_rate: in [1e-9, 1); full batches have a closed form.
        steps: in [1, 1e7].
        delta: in [1e-30, 0.5].

    Raises:
        ParameterError: for a value outside its range, or a setting whose integral is not precise (very little noise).
    """
    sigma, q, steps = (float(value) for value in rdp.check_settings(noise_multiplier, sample_rate, steps))
    if not (sigma > 0 and q < 1 and steps >= 1 and 0 < delta < 1):
        raise ParameterError(f"noise {sigma:g}, rate {q:g}, {steps:g} steps, delta {delta:g}: no subsampled Gaussian.")
    spent = steps * rdp.of_one_step(sigma, q)
    order = rdp.ORDERS[np.argmin(rdp.to_epsilon(spent, rdp.ORDERS, delta))]
    c = max(order, 1.1) - 1

    def one_direction(removed):
        return inverted(lambda s: _log_moment(s, sigma, q, removed), steps, delta, c, 0.05)

    return max(map(one_direction, (True, False)))


@bounded(steps=number(1, 1e9), delta=fraction(), c=number(1e-6, 1e6), gap=number(1e-6, 0.9))
def inverted(log_moment: Callable[[np.ndarray], np.ndarray], steps: int, delta: float, c: float, gap: float) -> float:
    """Epsilon at ``delta`` after ``steps`` independent losses L, in one direction, as :func:`inverted_epsilon` says.

    Args:
        log_moment: s, complex of shape (n,), to log E[e^(s L)] of one step, (n,).
        steps: number of losses that add up, in [1, 1e9].
        delta: in (0, 1).
        c: real part of the line that is integrated along, in [1e-6, 1e6].
        gap: of the second difference at c, which tells the width of the integrand, in units of c, in [1e-6, 0.9].

    Raises:
        ParameterError: for a value outside its range, or an integral that is not precise.
    """
    below, at, above = log_moment(np.array([c - gap * c, c, c + gap * c], dtype=complex)).real
    curvature = (below - 2 * at + above) / (gap * c) ** 2  # the variance of the tilted loss of one step
    width = 1 / np.sqrt(max(steps * curvature, 0.0) + 1 / c**2)
    reach, points = 9 * width, 257
    for _ in range(5):
        t = np.linspace(0, reach, points)
        s = c + 1j * t
        log_power = steps * log_moment(s) - np.log(s) - np.log1p(s)
        if log_power[0].real - log_power[-1].real > _DROP:
            break
        reach, points = 2 * reach, 2 * points - 1

    def log_delta(epsilon, every=1):
        exponent = log_power[::every] - epsilon * s[::every]
        values = np.exp(exponent - exponent[0].real).real
        total = (values.sum() - values[0] / 2) * t[every] / np.pi
        return exponent[0].real + np.log(max(total, 1e-300))

    imprecise = "the integral over the losses is not precise enough: too few steps, or losses too large."
    # Markov's inequality at c bounds it. Far below the terms cancel to below their rounding: it is not sought there.
    high, gap = (steps * at - np.log(delta)) / c, 1 / c
    if not (np.isfinite(high) and np.isfinite(log_power).all()):
        raise ParameterError(imprecise)
    while log_delta(max(high - gap, 0.0)) <= np.log(delta):
        if gap >= high:
            return 0.0
        gap *= 2
    low = max(high - gap, 0.0)
    root = optimize.brentq(lambda e: log_delta(e) - np.log(delta), low, high, xtol=1e-13, rtol=1e-12)
    if not abs(log_delta(root, every=2) - np.log(delta)) < 1e-6:
        raise ParameterError(imprecise)
    return root


def _log_moment(s, sigma, q, removed):
    """log M(s), shape of s, by the trapezoidal rule over the outputs u of the Gaussian without the example.

    Removing: the loss is log r with r = 1 - q + q e^(u/sigma - 1/(2 sigma^2)), drawn with the example, so that
    M(s) = E[r^(s + 1)] without it. Adding: the loss is -log r, drawn without it, M(s) = E[r^-s].
    """
    power = s + 1 if removed else -s
    top = max(power[0].real, 0) / sigma + _REACH
    # In u the factor e^(itL) turns by up to |t| / sigma, and the Gaussian holds no more than about _REACH.
    spacing = 2 * np.pi / (np.abs(s.imag).max() / sigma + 3 * _REACH / min(1.0, sigma))
    u = np.arange(-_REACH, top, max(spacing, _SPACING * min(1.0, sigma)))
    weight = np.exp(-(u**2) / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)
    return log_mean(weight, np.log1p(q * np.expm1(u / sigma - 1 / (2 * sigma**2))), power)


def log_mean(weights: np.ndarray, losses: np.ndarray, s: np.ndarray) -> np.ndarray:
    """log of the mean of e^(s L), shape of s, of which few real parts differ. The mean less 1 is summed, so that tiny
    losses keep their digits: for s = c + it it is sum w (e^(c L) - 1) + sum w e^(c L) (e^(itL) - 1). It is quick where
    the points of one real part have equal distances, beginning at t = 0.

    Args:
        weights: of the losses, shape (k,), with the sum 1.
        losses: L, shape (k,).
        s: complex, shape (n,).
    """
    means = np.full(s.shape, complex(np.nan))  # where s is none
    for c in np.unique(s.real[~np.isnan(s.real)]):
        line = s.real == c
        means[line] = weights @ np.expm1(c * losses)
        means[line] += _turned(weights * np.exp(c * losses), losses, s[line].imag)
    return np.log1p(means)


def _turned(weights, losses, t):
    """sum w (e^(itL) - 1) for each t. Where t are a + b for few a and b, that of n values takes about 2 sqrt(n)
    exponentials a loss: e^(i(a + b)L) - 1 = A B + A + B with A = e^(iaL) - 1 and B = e^(ibL) - 1.
    """
    row = math.isqrt(len(t) - 1) + 1
    if not (np.abs((t[::row, None] + t[:row]).ravel()[: len(t)] - t) <= 1e-14 * np.abs(t)).all():
        row = 1
    a, b = (_turn(part, losses) for part in (t[::row], t[:row] if row > 1 else np.zeros(1)))
    a_weighted = a * weights
    sums = a_weighted @ b.T + a_weighted.sum(axis=1)[:, None] + b @ weights
    return sums.ravel()[: len(t)]


def _turn(t, losses):
    """e^(itL) - 1 = -2h (h - ik) with the sine h and the cosine k of t L / 2, shape (n, k): small ones keep digits."""
    half = t[:, None] / 2 * losses
    h, k = np.sin(half), np.cos(half)
    return -2 * h * h + 2j * (h * k)
