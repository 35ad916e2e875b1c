"""Randomised response with a prior (Ghazi and others 2021): RR, RRTop-k, RRWithPrior, and their exact tables.

A label of K classes is replaced by a random one. Neighbours differ in the *label of one record*; everything else,
features and prior included, is public. The guarantee is pure and local: each mechanism is epsilon-DP for **every**
prior that was fixed without looking at the label. A prior that saw the labels must pay for it elsewhere.

Y_k are the k labels of largest prior, P_k is their total, p_(k) the k-th largest prior, and
w_k = e^epsilon / (e^epsilon + k - 1) P_k, k* = argmax w_k. w_(k+1) >= w_k exactly when (e^epsilon - 1) p_(k+1) >= D_k,
with D_k = P_k - k p_(k+1) >= 0. The left side falls with k and D_k rises, so w_k rises up to k* and falls after it. Of
several maximisers we take the largest: then Y_k* never splits labels of equal prior. Only RRTop-k with a given k may
have a tie to break: the label with the lower index comes first, whatever the true label is.

Everything works with e^-epsilon: epsilon may be 0, and anything up to inf (which releases the label).
"""

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dplib import checks
from dplib.checks import ParameterError, bounded, integer, numbers

_CELLS = 2**17  # priors handled at a time: they stay in the processor's cache
_SUM = 1e-5  # how far a prior may be from summing to 1: the rounding of a softmax in single precision
_WORD = 64  # bits


@dataclass(frozen=True)
class Response:
    """What randomised response gives away, and the size of the sets that it drew from.

    Args:
        labels: the randomised labels, shape (n,), whole numbers from 0.
        k: the number of labels that each was drawn from, shape (n,).
    """

    labels: np.ndarray
    k: np.ndarray


def rr(labels: ArrayLike, classes: int, epsilon: ArrayLike, rng: np.random.Generator | None) -> Response:
    """Plain randomised response over all classes, eq. (1).

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        classes: K, whole, in [1, 1e6].
        epsilon: what each record spends: at least 0, a number or shape (n,); inf releases the label.
        rng: None for the operating system's cryptographic source; or a generator, for experiments: who knows its seed
            can undo the noise.

    Raises:
        ParameterError: for a label or epsilon that is not allowed.
    """
    checks.integer(1, 10**6).check("classes", classes)
    labels = checks.indices("labels", labels, classes)
    return _respond(labels, np.ones((len(labels), classes), dtype=bool), epsilon, rng)


def rr_top_k(
    labels: ArrayLike, prior: ArrayLike, k: ArrayLike, epsilon: ArrayLike, rng: np.random.Generator | None
) -> Response:
    """RRTop-k, Algorithm 1.

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        prior: shape (n, K), or (K,) for all: entries >= 0 that sum to 1. Record i's row must not depend on its label.
        k: size of the set, from 1 to K, a number or shape (n,); it must not depend on the label.
        epsilon: what each record spends: at least 0, a number or shape (n,); inf releases the label.
        rng: None for the operating system's cryptographic source; or a generator, for experiments: who knows its seed
            can undo the noise.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    prior = _per_label(prior, labels)
    _each("k", _numbers("k", k), len(prior))
    return _respond(labels, top(prior, k), epsilon, rng)


def rr_with_prior(labels: ArrayLike, prior: ArrayLike, epsilon: ArrayLike, rng: np.random.Generator | None) -> Response:
    """RRWithPrior, Algorithm 2, for a whole data set: each label is randomised once.

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        prior: shape (n, K), or (K,) for all: rows >= 0 that sum to 1. Record i's row must not depend on its label, or
            on any label that is not paid for.
        epsilon: what each record spends: at least 0, a number or shape (n,); inf releases the label.
        rng: None for the operating system's cryptographic source; or a generator, for experiments: who knows its seed
            can undo the noise.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    prior = _per_label(prior, labels)
    return _respond(labels, kept(prior, _each("epsilon", _epsilon(epsilon), len(prior))), epsilon, rng)


def success(prior: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """w_1 to w_K of Algorithm 2, step 1(a): how often RRTop-k returns a label drawn from the prior, shape (..., K).

    Args:
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.
        epsilon: in [0, 1e100] or inf, a number or shape (...).

    Raises:
        ParameterError: for a prior that is none, or an epsilon outside its range.
    """
    prior, epsilon = _checked(prior, epsilon)
    largest_first = np.sort(prior, axis=-1)[..., ::-1]
    others = np.arange(prior.shape[-1])  # k - 1
    return np.cumsum(largest_first, axis=-1) / (1 + others * np.exp(-epsilon)[..., None])


def best_k(prior: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """k* of Algorithm 2, step 2, shape (...): the largest k of maximal w_k.

    Args:
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.
        epsilon: in [0, 1e100] or inf, a number or shape (...).

    Raises:
        ParameterError: for a prior that is none, or an epsilon outside its range.
    """
    return np.count_nonzero(kept(prior, epsilon), axis=-1)


def kept(prior: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """Y_k* of Algorithm 2 as a mask of the prior's shape: True where RRWithPrior may return the label.

    Args:
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.
        epsilon: in [0, 1e100] or inf, a number or shape (...).

    Raises:
        ParameterError: for a prior that is none, or an epsilon outside its range.
    """
    prior = _prior(prior)
    epsilon = _epsilon(epsilon, prior.shape[:-1])
    leading = np.broadcast_shapes(prior.shape[:-1], epsilon.shape)
    rows = np.broadcast_to(prior, (*leading, prior.shape[-1])).reshape(-1, prior.shape[-1])
    each = np.broadcast_to(epsilon, leading).reshape(-1)
    members = np.empty(rows.shape, dtype=bool)
    step = max(1, _CELLS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        members[part] = _kept(*_checked(rows[part], each[part]))
    return members.reshape(*leading, prior.shape[-1])


def top(prior: ArrayLike, k: ArrayLike) -> np.ndarray:
    """Y_k of Algorithm 1 as a mask, for a given k; among labels of equal prior the lower index comes first.

    Args:
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.
        k: size of the set, from 1 to K, a number or shape (...).

    Raises:
        ParameterError: for a prior that is none, or a k outside its range.
    """
    prior, _ = _checked(prior, 0.0)
    k = _numbers("k", k)
    _fit("k", k, prior.shape[:-1])
    if not ((k >= 1) & (k <= prior.shape[-1]) & (k == np.floor(k))).all():
        raise ParameterError(f"k = {k} is not allowed: whole numbers from 1 to {prior.shape[-1]}.")
    place = np.argsort(np.argsort(-prior, axis=-1, kind="stable"), axis=-1)
    return place < k[..., None]


def switch_points(prior: ArrayLike) -> np.ndarray:
    """The budgets at which k* grows, shape (..., K - 1), rising: from entry k - 1 on k* > k; inf where it never is.

    From w_(k+1) >= w_k: epsilon_k = ln(1 + D_k / p_(k+1)). The first is ln(p_(1) / p_(2)): below it the output is a
    constant.

    Args:
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.

    Raises:
        ParameterError: for a prior that is none.
    """
    prior, _ = _checked(prior, 0.0)
    largest_first = np.sort(prior, axis=-1)[..., ::-1]
    gaps = np.cumsum(np.arange(1, prior.shape[-1]) * -np.diff(largest_first), axis=-1)  # D_k, without cancellation
    with np.errstate(divide="ignore"):
        return np.log1p(gaps / largest_first[..., 1:])


def log_table(members: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """RRTop-k as a table: natural logarithms of q(output | true label).

    Args:
        members: bool, shape (..., K): the set Y_k, as from :func:`top` or :func:`kept`; all True for plain RR.
        epsilon: in [0, 1e100] or inf, a number or shape (...).

    Returns:
        Shape (..., K, K): rows are true labels, columns outputs; -inf where an output is impossible.

    Raises:
        ParameterError: for an empty set, or an epsilon outside its range.
    """
    members = checks.sets("members", members)
    epsilon = _epsilon(epsilon, members.shape[:-1])[..., None, None]
    k = members.sum(axis=-1)[..., None, None]
    same = -np.log1p((k - 1) * np.exp(-epsilon))  # the true label: e^epsilon / (e^epsilon + k - 1)
    rows, columns = members[..., :, None], members[..., None, :]
    entry = np.where(rows, np.where(np.eye(members.shape[-1], dtype=bool), same, same - epsilon), -np.log(k))
    return np.where(columns, entry, -np.inf)


def objective(table: ArrayLike, prior: ArrayLike) -> np.ndarray:
    """Obj_p of Section 3.2: the probability that the output is the true label, drawn from the prior.

    Args:
        table: natural logarithms of q(output | true label), shape (..., K, K), as from :func:`log_table`.
        prior: probabilities of the true labels, shape (..., K): entries >= 0 that sum to 1.

    Raises:
        ParameterError: for a table that is none, or a prior that is none or does not fit it.
    """
    table, (prior, _) = _log_table(table), _checked(prior, 0.0)
    if prior.shape[-1] != table.shape[-1]:
        raise ParameterError(f"prior of shape {prior.shape} does not fit a table of {table.shape[-1]} labels.")
    _fit("prior", prior, table.shape[:-1])
    return (np.exp(np.diagonal(table, axis1=-2, axis2=-1)) * prior).sum(axis=-1)


def _log_table(table) -> np.ndarray:
    """Logarithms of probabilities, square in the last two sizes."""
    table = checks.shaped("table", table, "(..., K, K)", -np.inf, 1e-6)
    if table.shape[-1] != table.shape[-2]:
        raise ParameterError(f"table of shape {table.shape} is not allowed: it must be of shape (..., K, K).")
    return table


def max_log_ratio(table: ArrayLike) -> np.ndarray:
    """The exact epsilon of a table, shape (...): the largest ln q(o | i) / q(o | j) over labels i, j and outputs o.

    Single outputs are enough: a ratio of sums is at most the largest ratio of terms. inf where an output is possible
    under one label and not under another.

    Args:
        table: natural logarithms of q(output | true label), shape (..., K, outputs), as from :func:`log_table`.

    Raises:
        ParameterError: for a table that is none.
    """
    table = checks.shaped("table", table, "(..., K, outputs)", -np.inf, 1e-6)
    most, least = table.max(axis=-2), table.min(axis=-2)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isneginf(most), 0.0, most - least)
    return ratio.max(axis=-1)


def information(members: ArrayLike, epsilon: ArrayLike, prior: ArrayLike) -> np.ndarray:
    """Mutual information of true label and answer of RRTop-k, in bits, where labels follow the prior: shape (...).

    Args:
        members: bool, shape (..., K): the set Y_k, as from :func:`top` or :func:`kept`; all True for plain RR.
        epsilon: in [0, 1e100] or inf, a number or shape (...).
        prior: probabilities of the labels, shape (..., K): entries >= 0 that sum to 1.

    Raises:
        ParameterError: for a prior that is none, or an epsilon outside its range.
    """
    prior, epsilon = _checked(prior, epsilon)
    members = checks.sets("members", members, prior.shape[-1:])
    _fit("members", members, prior.shape)
    _fit("epsilon", epsilon, members.shape[:-1])
    less, k = np.exp(-epsilon), np.count_nonzero(members, axis=-1)
    keep = 1 / (1 + (k - 1) * less)
    inside = (prior * members).sum(axis=-1)  # P_k where the set is Y_k
    answer = keep[..., None] * (prior + (inside[..., None] - prior) * less[..., None])
    answer = np.where(members, answer + ((1 - inside) / k)[..., None], 0.0)
    given = inside * (special.entr(keep) + (k - 1) * special.entr(keep * less)) + (1 - inside) * np.log(k)
    return (special.entr(answer).sum(axis=-1) - given) / np.log(2)


@bounded(k=numbers(1, 10**6, whole=True))
def leave_words(k: ArrayLike, epsilon: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The probability of leaving a true label in Y_k, (k - 1) / (e^epsilon + k - 1), in units of 2^-128, rounded up.

    A uniform number of 53 bits would round it: at epsilon = 40 ten labels would get no noise at all. With uniform
    words, the label that is released from a set of k is (epsilon + (k + 2) 2^-51)-DP, with delta = 0, for every finite
    epsilon: all roundings together move the logarithms of two probabilities apart by no more. (Those of 1 + odds weigh
    k-fold at epsilon = 0; those of :func:`_below` are k 2^-64 each.) Not covered: words that can be predicted, and run
    times.

    Args:
        k: size of the set, whole, in [1, 1e6], any shape.
        epsilon: in [0, 1e100] or inf, of a shape that fits.

    Returns:
        (high, low), uint64, of the broadcast shape: the probability is (high 2^64 + low) / 2^128.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    k = _numbers("k", k)
    epsilon = _epsilon(epsilon, k.shape)
    less = np.exp(-np.where(np.isinf(epsilon), epsilon, np.minimum(epsilon, 700)))  # 0 only where no noise is asked for
    odds = (k - 1) * less
    scaled = np.ldexp(odds / (1 + odds), _WORD)
    high = np.floor(scaled)
    return high.astype(np.uint64), np.ceil(np.ldexp(scaled - high, _WORD)).astype(np.uint64)


def _respond(labels, members, epsilon, rng) -> Response:
    """One draw from row ``label`` of the table of each record's set; members of shape (n, K)."""
    n, classes = members.shape
    labels, epsilon = checks.indices("labels", labels, classes), _each("epsilon", _epsilon(epsilon), n)
    k = np.count_nonzero(members, axis=1)
    inside = members[np.arange(n), labels]
    first, second, third = uniform_words(3, n, rng)
    high, low = leave_words(k, epsilon)
    leaves = (first < high) | ((first == high) & (second < low))
    rows = np.flatnonzero(leaves | ~inside)
    # Uniform over the others of the set: draw among all members but the last; who draws himself gets the last.
    drawn = _below(third[rows], (k - inside)[rows])
    places, end = np.flatnonzero(members), np.cumsum(k)
    new = places[(end - k)[rows] + drawn] % classes
    last = places[end[rows] - 1] % classes
    released = labels.copy()
    released[rows] = np.where(inside[rows] & (new == labels[rows]), last, new)
    return Response(released, k)


def _kept(prior, epsilon) -> np.ndarray:
    """Steps 1 and 2 of Algorithm 2 for a block of records, shape (m, K): k by k, all records at a time."""
    ascending = np.sort(prior, axis=1)
    less, keep = np.exp(-epsilon), -np.expm1(-epsilon)
    level, gap = ascending[:, -1].copy(), np.zeros(len(prior))  # p_(k*) so far, and D_k
    for k in range(1, prior.shape[1]):
        next_prior = ascending[:, -k - 1]  # p_(k+1)
        gap += k * (ascending[:, -k] - next_prior)  # a sum without cancellation: equal priors add exactly 0
        grows = next_prior * keep >= gap * less  # w_(k+1) >= w_k, times e^-epsilon so that nothing overflows
        if not grows.any():
            break
        np.copyto(level, next_prior, where=grows)
    return prior >= level[:, None]


@bounded(times=integer(1, 64), n=integer(0, 10**9), rng=checks.generator())
def uniform_words(times: int, n: int, rng: np.random.Generator | None) -> np.ndarray:
    """Uniform words of 64 bits, uint64 of shape (times, n).

    Args:
        times: words for each record, in [1, 64].
        n: records, in [0, 1e9].
        rng: None for the operating system's cryptographic source; or a generator, for experiments: who knows its seed
            can undo the noise.

    Raises:
        ParameterError: for a value outside its range, or what is no generator.
    """
    if rng is None:
        return np.frombuffer(secrets.token_bytes(8 * times * n), dtype=np.uint64).reshape(times, n)
    return rng.integers(0, 2**_WORD - 1, size=(times, n), dtype=np.uint64, endpoint=True)


def _below(words, most) -> np.ndarray:
    """floor(word * most / 2^64): uniform on 0 to most - 1, each with a relative error of at most most / 2^64."""
    half, most = np.uint64(32), most.astype(np.uint64)
    low = (words & np.uint64(2**32 - 1)) * most
    return (((words >> half) * most + (low >> half)) >> half).astype(np.int64)


def _per_label(prior, labels) -> np.ndarray:
    """The prior as (n, K)."""
    prior, n = _prior(prior), len(checks.indices("labels", labels))
    if prior.ndim == 1:
        prior = np.broadcast_to(prior, (n, len(prior)))
    if prior.ndim != 2 or len(prior) != n:
        raise ParameterError(f"prior of shape {prior.shape} does not fit {n} labels: (n, K) or (K,).")
    return prior


def _each(name: str, values: np.ndarray, n: int) -> np.ndarray:
    """What each of n records has of something, such as a budget."""
    if values.shape not in ((), (n,)):
        raise ParameterError(f"{name} of shape {values.shape} does not fit {n} labels: a number, or (n,).")
    return np.broadcast_to(values, n)


def _epsilon(epsilon, shape: tuple[int, ...] = ()) -> np.ndarray:
    """The budget as floats, which fits a shape."""
    epsilon = _numbers("epsilon", epsilon).astype(float)
    inside = (epsilon >= 0) & ((epsilon <= checks.HUGE) | np.isinf(epsilon))
    if not inside.all():
        wrong = epsilon[~inside].flat[0]
        raise ParameterError(f"epsilon = {wrong:g} is not allowed: it must be in [0, {checks.HUGE:g}], or inf.")
    _fit("epsilon", epsilon, shape)
    return epsilon


def _checked(prior, epsilon) -> tuple[np.ndarray, np.ndarray]:
    """The prior as floats, shape (..., K), and epsilon."""
    prior = _prior(prior).astype(float)
    total = prior.sum(axis=-1)
    if not ((np.abs(total - 1) <= _SUM).all() and (prior.size == 0 or prior.min() >= 0)):
        raise ParameterError("prior has a row that is no probability distribution: entries >= 0 that sum to 1.")
    return prior, _epsilon(epsilon, prior.shape[:-1])


def _prior(prior) -> np.ndarray:
    prior = np.atleast_1d(_numbers("prior", prior))
    if not prior.shape[-1]:
        raise ParameterError(f"prior of shape {prior.shape} is not allowed: it must have K >= 1 labels.")
    return prior


def _numbers(name: str, value) -> np.ndarray:
    given = checks.array(name, value)
    if given.dtype.kind not in "iuf":
        raise ParameterError(f"{name} = {checks.shown(value)} is not allowed: it must be numbers.")
    return given


def _fit(name: str, value: np.ndarray, shape: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(value.shape, shape)
    except ValueError:
        raise ParameterError(f"{name} of shape {value.shape} does not fit {shape}.") from None
