"""Rényi DP of the Poisson-subsampled Gaussian mechanism, for whole grids of settings at once.

Neighbouring data sets differ by adding or removing one example. Each step includes every example with probability
``sample_rate``, independently of all others, and releases the sum of the included vectors, each of norm at most C,
plus Gaussian noise of standard deviation ``noise_multiplier`` C in each coordinate. Batches of a fixed size, shuffled
passes over the data and sums divided by the realised batch size are other mechanisms: these figures do not hold for
them. Functions broadcast their arguments; orders stand on a last axis of their own.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import elementwise

from dplib.checks import ParameterError, array, number, shown

OPACUS_ORDERS = np.array([1 + k / 10 for k in range(1, 100)] + [*range(12, 64)])
# Opacus's, and beyond its ends: orders near 1 for large budgets, large ones for small budgets.
ORDERS = np.unique(
    np.concatenate([OPACUS_ORDERS, [1.01, 1.02, 1.03, 1.05, 11, 72, 80, 96, 128, 192, 256, 384, 512, 768, 1024]])
)
_BLOCK = 1 << 13  # numbers worked on at once: all temporaries stay in the processor's cache
_WINDOW = 9.0  # standard deviations integrated beyond the outermost bumps: the rest is below 1e-17
_TINY_NOISE = 0.05
_CURVE = 1000  # numbers of steps of one setting for which all orders are computed at once
MOST_ORDER = 10_000  # sums have as many terms
NO_NOISE = 1e-100  # up to here noise counts as none: its square has no inverse in floating point


def rdp(
    noise_multiplier: ArrayLike, sample_rate: ArrayLike, steps: ArrayLike, orders: ArrayLike = ORDERS
) -> np.ndarray:
    """Rényi divergence of each order after ``steps`` steps: steps * log(A) / (order - 1), eq. (4) of Mironov, Talwar
    and Zhang (2019), where A = E[(density ratio)^order] under the Gaussian without the example.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0, 1e100]; 0 spends inf.
        sample_rate: chance of each example to be in a batch, in [1e-100, 1].
        steps: whole, in [0, 2^53]. The three have a shape S together.
        orders: shape (k,), > 1 and at most 10,000, whole or fractional.

    Returns:
        Shape S + (k,), natural logarithms. Relative error below 1e-9, also where the divergence is tiny.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    noise_multiplier, sample_rate, steps = check_settings(noise_multiplier, sample_rate, steps)
    orders = _check_orders(orders)
    grid = np.broadcast_arrays(noise_multiplier[..., None], sample_rate[..., None], steps[..., None], orders)
    sigma, q, count, alpha = (part.ravel() for part in grid)
    one_step = np.where(count == 0, 0.0, log_moment(sigma, q, alpha) / (alpha - 1))
    return (one_step * np.maximum(count, 1)).reshape(grid[0].shape)


def to_epsilon(rdp: ArrayLike, orders: ArrayLike, delta: ArrayLike, conversion: str = "improved") -> np.ndarray:
    """Epsilon at ``delta`` for each order; the best order gives the bound.

    Args:
        rdp: Rényi divergences, natural logarithms, shape (..., k), >= 0.
        orders: of which order each is, shape (k,), > 1.
        delta: in [1e-300, 1); broadcasts with the leading axes of ``rdp``.
        conversion: "classical" is rdp + log(1/delta)/(order - 1) (Mironov 2017, Proposition 3); "improved" is rdp +
            log(1 - 1/order) - (log delta + log order)/(order - 1) (Balle et al. 2020, Theorem 21; Canonne, Kamath and
            Steinke 2020, Proposition 12), never larger.

    Returns:
        Shape (..., k), at least 0.

    Raises:
        ParameterError: for a value outside its range, another conversion, or divergences that are not one an order.
    """
    delta, rdp, orders = _check_delta(delta), numbers("rdp", rdp), check_each_order("rdp", rdp, orders)
    if not (rdp >= 0).all():
        raise ParameterError("rdp holds what is no divergence: each must be a number of at least 0, or inf.")
    return np.maximum(0.0, rdp + _price(orders, delta[..., None], conversion))


def check_each_order(name: str, divergences: ArrayLike, orders: ArrayLike) -> np.ndarray:
    """Orders as floats, shape (k,), where there is a divergence of each: one counted for two spends too little.

    Args:
        name: what the message calls the divergences.
        divergences: shape (..., k).
        orders: shape (k,), > 1.

    Raises:
        ParameterError: for an order outside its range, or another number of divergences.
    """
    orders, shape = numbers("orders", orders), np.shape(divergences)
    require("orders", orders, orders > 1, "greater than 1")
    if orders.ndim != 1 or shape[-1:] != orders.shape:
        raise ParameterError(f"{name} of shape {shape} with orders of shape {orders.shape}: it must be one an order.")
    return orders


def epsilon(
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike,
    conversion: str = "improved",
    orders: ArrayLike = ORDERS,
) -> float | np.ndarray:
    """Epsilon that RDP accounting bounds for each setting, the best over ``orders``: valid whatever the orders.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0, 1e100]; 0 spends inf.
        sample_rate: chance of each example to be in a batch, in [1e-100, 1].
        steps: whole, in [0, 2^53].
        delta: in [1e-300, 1).
        conversion: "improved" or "classical", see :func:`to_epsilon`.
        orders: orders of the divergence, shape (k,), > 1 and at most 10,000, whole or fractional; any choice gives a
            bound.

    Returns:
        Of the shape of the settings together; a float for scalars.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    sigma, q, count, delta = _flat(*check_settings(noise_multiplier, sample_rate, steps), _check_delta(delta))
    orders, setting = _check_orders(orders), (sigma[0], q[0], count[0], delta[0], conversion)
    if len(sigma[0]) < _CURVE and len({*zip(sigma[0], q[0], strict=True)}) == 1:
        taken = np.where(count[0] == 0, 1, count[0])  # no step of no noise is no number
        spent = np.multiply.outer(taken, of_one_step(sigma[0][0], q[0][0], tuple(orders)))
        bound = to_epsilon(spent, orders, delta[0], conversion).min(axis=1)
    else:
        bound = np.maximum(0.0, _bound(*setting, orders[_best_order(*setting, orders)]))
    return np.where(count[0] == 0, 0.0, bound).reshape(sigma[1])[()]


def noise_multiplier(
    target_epsilon: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike,
    conversion: str = "improved",
    orders: ArrayLike = ORDERS,
    rtol: float = 1e-6,
) -> float | np.ndarray:
    """The least noise multiplier whose :func:`epsilon` is at most the target, for every setting at once. Arrays
    broadcast; a float for scalars.

    Args:
        target_epsilon: the budget, in [1e-9, 2e11].
        sample_rate: chance of each example to be in a batch, in [1e-100, 1].
        steps: whole, in [1, 2^53].
        delta: in [1e-300, 1).
        conversion: "improved" or "classical", see :func:`to_epsilon`.
        orders: orders of the divergence, shape (k,), > 1 and at most 10,000, whole or fractional; any choice gives a
            bound.
        rtol: relative width to which the noise multiplier is bracketed, in [1e-12, 1]; the upper end is returned.

    Raises:
        ParameterError: for a value outside its range, or a target that no noise reaches with these orders.
    """
    target_epsilon = numbers("target_epsilon", target_epsilon)
    right = (target_epsilon >= 1e-9) & (target_epsilon <= 2e11)
    require("target_epsilon", target_epsilon, right, "a number in [1e-9, 2e11]")
    number(1e-12, 1).check("rtol", rtol)
    _, sample_rate, steps = check_settings(1.0, sample_rate, steps)
    require("steps", steps, steps >= 1, "at least 1 to need any noise")
    (target, shape), (q, _), (count, _), (delta, _) = _flat(target_epsilon, sample_rate, steps, _check_delta(delta))
    orders = _check_orders(orders)
    floor = np.maximum(0.0, _price(orders, delta[:, None], conversion)).min(axis=1)
    allowed = f"above {floor.max():.4g}, the least that orders up to {orders[-1]:g} can certify at this delta"
    require("target_epsilon", target, target > floor, allowed)

    # Epsilon is the least over orders, so the answer is the least noise that any order asks for; as a function of the
    # order that noise has one valley too, because the orders that do at a given noise are neighbours.
    low = (_price(orders, delta[:, None], conversion) < target[:, None]).argmax(axis=1)
    high = np.full(len(target), len(orders) - 1)
    sigma = np.maximum(0.5, q * np.sqrt(-2 * count * np.log(delta)) / target)
    while (low < high).any():
        middle = (low + high) // 2
        after = np.minimum(middle + 1, high)
        sigma = _least_noise(target, q, count, delta, conversion, orders[middle], sigma, rtol)
        falling = _bound(sigma, q, count, delta, conversion, orders[after]) < target
        low, high = np.where(falling, after, low), np.where(falling, high, middle)
    return _least_noise(target, q, count, delta, conversion, orders[low], sigma, rtol).reshape(shape)[()]


@functools.lru_cache(maxsize=1024)
def of_one_step(sigma: float, q: float, orders: tuple[float, ...] = tuple(ORDERS)) -> np.ndarray:
    """Rényi divergences of one step, shape (k,): those of n steps are n times as large. They are kept, as curves and
    searches ask for one setting again and again.

    Args:
        sigma: noise multiplier, >= 0.
        q: sample rate, in (0, 1].
        orders: k of them, > 1.
    """
    alpha = np.array(orders, dtype=float)
    divergences = log_moment(np.full(len(alpha), sigma), np.full(len(alpha), q), alpha) / (alpha - 1)
    divergences.setflags(write=False)
    return divergences


def log_moment(sigma: np.ndarray, q: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """log A of one step, element by element: A = E[(1 - q + q r(z))^alpha] for z drawn without the example, r the ratio
    of the two Gaussian densities at z (Mironov, Talwar and Zhang 2019, Definition 4 and Section 3.3).

    A - 1 is summed, not A: that keeps the digits of a tiny divergence, which are lost in a logarithm of nearly 1.

    Args:
        sigma: noise multipliers, shape (n,), >= 0.
        q: sample rates, shape (n,), in (0, 1].
        alpha: orders, shape (n,), > 1.
    """
    result = np.full(len(sigma), np.inf)
    full = (q == 1) & (sigma > NO_NOISE)
    result[full] = alpha[full] * (alpha[full] - 1) / (2 * sigma[full] ** 2)
    sampled = (q < 1) & (sigma > NO_NOISE)
    whole = alpha == np.floor(alpha)
    tiny = sampled & ~whole & (sigma < _TINY_NOISE)
    # With so little noise the integral is two bumps that do not touch: without the example, and with it alone.
    apart = alpha[tiny] * np.log(q[tiny]) + alpha[tiny] * (alpha[tiny] - 1) / (2 * sigma[tiny] ** 2)
    result[tiny] = np.maximum(0.0, np.logaddexp(alpha[tiny] * np.log1p(-q[tiny]), apart))
    for chosen, excess, numbers in (
        (sampled & whole, _log_excess_whole, alpha),
        (sampled & ~whole & ~tiny, _log_excess_fractional, _nodes(sigma, alpha)),
    ):
        where = np.flatnonzero(chosen)
        for block in _blocks(where, numbers[where]):
            result[block] = np.logaddexp(0.0, excess(sigma[block], q[block], alpha[block]))
    return result


def _log_excess_whole(sigma, q, alpha):
    """log(A - 1) = log sum_k C(alpha, k) q^k (1-q)^(alpha-k) (e^((k^2-k)/2 sigma^2) - 1); k = 0 and 1 add nothing."""
    alpha = alpha.astype(int)[:, None]
    k = np.arange(2, alpha.max() + 1)
    log_factorial = special.gammaln(np.arange(alpha.max() + 1) + 1.0)
    log_binomial = log_factorial[alpha] - log_factorial[k] - log_factorial[np.maximum(alpha - k, 0)]
    growth = (k * k - k) / (2 * sigma[:, None] ** 2)
    terms = log_binomial + k * np.log(q)[:, None] + (alpha - k) * np.log1p(-q)[:, None]
    terms = np.where(k <= alpha, terms + growth + np.log(-np.expm1(-growth)), -np.inf)
    largest = terms.max(axis=1)
    return largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))


def _log_excess_fractional(sigma, q, alpha):
    """log(A - 1) by the trapezoidal rule, which converges exponentially for an analytic integrand.

    With u = z / sigma, x = q (r - 1) and E[x] = 0, A - 1 = E[(1 + x)^alpha - 1 - alpha x], never negative. Where x is
    small the bracket is summed as a binomial series, since its first two terms would cancel.
    """
    step = _step(sigma)[:, None]
    u = -_WINDOW + step * np.arange(_nodes(sigma, alpha).max())
    sigma, q, alpha = sigma[:, None], q[:, None], alpha[:, None]
    log_ratio = u / sigma - 1 / (2 * sigma**2)
    x = q * np.expm1(np.minimum(log_ratio, 600))  # beyond, the term in x has no mass, and power adds what was cut
    power = alpha * (np.log1p(x) + np.maximum(log_ratio - 600, 0))
    u *= -u / 2
    scale = np.maximum(0, (power + u).max(axis=1, keepdims=True))
    weight = np.exp(u - scale)
    bracket = np.exp(power + u - scale) - (1 + alpha * x) * weight
    limit = 0.03 / (10 + alpha)
    near, series = np.minimum(x, limit), 1.0
    for k in (6, 5, 4, 3):
        series = 1 + (alpha - k + 1) / k * near * series
    series *= alpha * (alpha - 1) / 2 * near * near * weight
    total = np.where(np.abs(x) < limit, series, bracket).sum(axis=1)
    return scale[:, 0] + np.log(total * step[:, 0] / np.sqrt(2 * np.pi))


def _step(sigma):
    """Spacing of the nodes: (1 + x)^alpha has its singularities pi sigma off the real line."""
    return np.minimum(0.6, 0.45 * sigma)


def _nodes(sigma, alpha):
    with np.errstate(divide="ignore"):
        reach = np.maximum(alpha, 2) / np.maximum(sigma, _TINY_NOISE) + 2 * _WINDOW
    return np.ceil(reach / _step(np.maximum(sigma, _TINY_NOISE))).astype(int) + 1


def _blocks(where, numbers):
    """Split elements into blocks of alike sizes, so that padding each block to its largest costs little."""
    order = np.argsort(numbers, kind="stable")
    where, numbers = where[order], numbers[order]
    start = 0
    while start < len(where):
        end = start + max(1, int(_BLOCK // numbers[start]))
        while end - start > 1 and (min(end, len(where)) - start) * numbers[min(end, len(where)) - 1] > 2 * _BLOCK:
            end = start + (end - start) // 2
        yield where[start:end]
        start = end


def _bound(sigma, q, count, delta, conversion, alpha):
    """Epsilon that one order (one an element) certifies; below 0 it certifies 0."""
    spent = log_moment(sigma, q, alpha) / (alpha - 1) * np.maximum(count, 1)
    return np.where(count == 0, 0.0, spent) + _price(alpha, delta, conversion)


def _best_order(sigma, q, count, delta, conversion, orders):
    """Index of the best order, by bisection: epsilon has one valley, as (order - 1) epsilon is convex in the order (a
    cumulant generating function plus a convex price), and a convex function over a linear one falls, then rises.
    """
    low, high = np.zeros(len(sigma), int), np.full(len(sigma), len(orders) - 1)
    setting = (sigma, q, count, delta, conversion)
    while (low < high).any():
        middle = (low + high) // 2
        after = np.minimum(middle + 1, high)
        rising = _bound(*setting, orders[middle]) <= _bound(*setting, orders[after])
        low, high = np.where(rising, low, after), np.where(rising, middle, high)
    return low


def _least_noise(target, q, count, delta, conversion, alpha, start, rtol):
    """The least noise multiplier, rounded up, for which one order certifies the target; all of shape (n,)."""

    def excess(log_sigma, log_budget, q, alpha):
        with np.errstate(divide="ignore"):
            return np.log(log_moment(np.exp(log_sigma), q, alpha)) - log_budget

    log_budget = np.log((target - _price(alpha, delta, conversion)) * (alpha - 1) / count)
    start = np.log(start)
    around = elementwise.bracket_root(excess, start - 0.1, start + 0.1, args=(log_budget, q, alpha)).bracket
    root = elementwise.find_root(excess, around, args=(log_budget, q, alpha), tolerances={"xatol": rtol, "xrtol": 0.0})
    # A root hit exactly leaves its bracket wide.
    return np.exp(np.where(root.f_x <= 0, root.x, np.maximum(*root.bracket)))


def _price(alpha, delta, conversion):
    """What turning RDP of order alpha into (epsilon, delta)-DP adds to epsilon."""
    if conversion == "classical":
        return -np.log(delta) / (alpha - 1)
    if conversion == "improved":
        return np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1)
    raise ParameterError(f"conversion = {conversion!r} is not allowed: it must be one of improved, classical.")


def check_settings(noise_multiplier: ArrayLike, sample_rate: ArrayLike, steps: ArrayLike) -> list[np.ndarray]:
    """The three settings of a subsampled Gaussian as float arrays of one shape.

    Args:
        noise_multiplier: in [0, 1e100].
        sample_rate: in [1e-100, 1].
        steps: whole, in [0, 2^53].

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    noise_multiplier, sample_rate, steps = arrays(
        noise_multiplier=noise_multiplier, sample_rate=sample_rate, steps=steps
    )
    largest = (noise_multiplier >= 0) & (noise_multiplier <= 1e100)  # beyond, squares leave floating point
    require("noise_multiplier", noise_multiplier, largest, "a finite number of at least 0 and at most 1e100")
    require("sample_rate", sample_rate, (sample_rate >= 1e-100) & (sample_rate <= 1), "in [1e-100, 1]")
    whole = (steps >= 0) & (steps == np.floor(steps)) & (steps <= 2**53)
    require("steps", steps, whole, "a whole number of at least 0 and at most 2^53")
    return noise_multiplier, sample_rate, steps


def arrays(**values: ArrayLike) -> list[np.ndarray]:
    """Values as float arrays of one shape.

    Args:
        values: by name, numbers or arrays of them, whose shapes broadcast.

    Raises:
        ParameterError: for what is no number, and for shapes that differ.
    """
    return together(*(numbers(name, value) for name, value in values.items()))


def together(*values: np.ndarray) -> list[np.ndarray]:
    """Arrays of one shape.

    Args:
        values: arrays whose shapes broadcast.

    Raises:
        ParameterError: where their shapes do not fit.
    """
    try:
        return np.broadcast_arrays(*values)
    except ValueError:
        shapes = ", ".join(str(value.shape) for value in values)
        raise ParameterError(f"arrays of the shapes {shapes} do not fit together.") from None


def require(name: str, values: np.ndarray, accepted: np.ndarray, allowed: str) -> None:
    """Refuse values unless all are accepted.

    Args:
        name: what the message calls the values.
        values: shape S; one that is not finite is not accepted.
        accepted: bool, shape S.
        allowed: how the message goes on after "it must be".

    Raises:
        ParameterError: with the first value that is not accepted, and what is allowed.
    """
    wrong = values[~(accepted & np.isfinite(values))]
    if wrong.size:
        raise ParameterError(f"{name} = {wrong.flat[0]:g} is not allowed: it must be {allowed}.")


def _check_delta(delta):
    delta = numbers("delta", delta)
    require("delta", delta, (delta >= 1e-300) & (delta < 1), "in [1e-300, 1)")
    return delta


def _check_orders(orders):
    orders = np.unique(numbers("orders", orders))
    require("orders", orders, (orders > 1) & (orders <= MOST_ORDER), f"greater than 1 and at most {MOST_ORDER}")
    if not orders.size:
        raise ParameterError("orders is empty: at least one order greater than 1 is needed.")
    return orders


def numbers(name: str, value: ArrayLike) -> np.ndarray:
    """A number or an array of them as floats.

    Args:
        name: what the message calls it.
        value: of any shape.

    Raises:
        ParameterError: for what is no number: a text that holds one, true and false, whole ones beyond floats.
    """
    try:
        given = array(name, value)
        if given.dtype.kind in "iuf" or (given.dtype.kind == "O" and all(v is not None for v in given.flat)):
            return given.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ParameterError(f"{name} = {shown(value)} is not allowed: it must be a number or an array of them.")


def _flat(*values):
    """Each array broadcast and flattened, with the broadcast shape."""
    return [(part.ravel(), part.shape) for part in together(*values)]
