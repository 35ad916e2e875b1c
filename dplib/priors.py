"""Priors from clusters (Ghazi and others 2021, Appendix B, Algorithm 4): noisy label counts of similar inputs.

Inputs are public, so features and groups cost nothing; labels are private, and neighbours differ in the *label of one
record*. The steps, with the paper's numbers: group the records by k-means on features that saw no label (3); count each
group's labels (4a); add discrete Laplace noise of parameter epsilon_p / 2 (4b); cut what is negative to zero and
normalise (4c). Then ask each label once by RRWithPrior with epsilon - epsilon_p.

**Privacy.** One changed label moves one group's histogram by -1 in one class and +1 in another. With P(z) proportional
to a^|z|, a = e^(-epsilon_p / 2), each of the two counts changes in probability by a factor of at most 1 / a, and both
by e^epsilon_p. The rest sees the noisy counts alone, but for the record's own label, which costs epsilon - epsilon_p.
So all noisy counts and all answers together are epsilon-DP, with delta = 0; :func:`joint_table` enumerates that.

A group whose noisy counts are all at most zero gets the uniform prior: that reads the noisy counts alone.
"""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dplib import privacy, randomised_response
from dplib.checks import (
    ParameterError,
    array,
    bounded,
    described,
    indices,
    integer,
    number,
    numbers,
    reals,
    shaped,
    single,
)

_BITS = 128
_LEAST = 1e-4  # parameter of the noise: a draw takes about 1 / parameter coins


@bounded(seed=integer(0, 2**32 - 1))
def groups(features: ArrayLike, count: int, seed: int) -> np.ndarray:
    """Step 3: the group of each record, shape (n,), whole numbers from 0; by k-means in mini-batches.

    Args:
        features: of inputs alone, shape (n, d); the rows of a test part may be among them.
        count: C, how many groups, from 1 to n.
        seed: of the clustering, below 2^32.

    Raises:
        ParameterError: for a value outside its range.
    """
    features = array("features", features)  # in its own precision, in which clusters are sought
    if not np.isfinite(reals("features", features, 2)).all():
        raise ParameterError("features holds values that are not finite: every value must be.")
    integer(1).check("columns of features", features.shape[1])
    integer(1, len(features)).check("count", count)
    from sklearn.cluster import MiniBatchKMeans  # of the extra packages: only clusters need it

    clustering = MiniBatchKMeans(count, batch_size=4096, n_init=1, max_iter=30, random_state=seed, reassignment_ratio=0)
    return clustering.fit_predict(features).astype(np.int64)


@bounded(count=integer(1, 10**7), classes=integer(1, 10**6))
def histograms(labels: ArrayLike, group: ArrayLike, count: int, classes: int) -> np.ndarray:
    """Step 4a: how many records of each group have each label, shape (count, classes), int64. Not private.

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        group: of each record, shape (n,), whole numbers from 0.
        count: number of groups, whole, in [1, 1e7].
        classes: K, whole, in [1, 1e6].

    Raises:
        ParameterError: for labels or groups out of range, or of different numbers.
    """
    labels, group = indices("labels", labels, classes), indices("group", group, count)
    if labels.shape != group.shape:
        raise ParameterError(f"{len(labels)} labels and {len(group)} groups: each record needs one of both.")
    return np.bincount(group * classes + labels, minlength=count * classes).reshape(count, classes)


@bounded(epsilon=single(numbers(2 * _LEAST, 160, infinite=True)))
def noisy_histograms(counts: ArrayLike, epsilon: float, rng: np.random.Generator | None) -> np.ndarray:
    """Step 4b: counts plus discrete Laplace noise of parameter epsilon / 2; epsilon-DP when one label is replaced.

    Args:
        counts: shape (groups, K), whole numbers from 0 to 2^53.
        epsilon: in [0.0002, 160]; inf adds nothing.
        rng: None for the operating system's cryptographic source, or a generator, for experiments.

    Raises:
        ParameterError: for a value outside its range, or counts that are no such numbers.
    """
    counts = array("counts", counts)
    if counts.dtype.kind not in "iu" or counts.ndim != 2 or ((counts < 0) | (counts > 2**53)).any():
        raise ParameterError(
            f"counts = {described(counts)} is not allowed: they must be whole numbers from 0 to 2^53, shape (groups, "
            "K)."
        )
    counts = counts.astype(np.int64)
    if np.isinf(epsilon):
        return counts
    return counts + discrete_laplace(counts.size, epsilon / 2, rng).reshape(counts.shape)


def normalised(noisy: ArrayLike, smoothing: float = 0.0) -> np.ndarray:
    """Step 4c: negative counts to zero, then each group's shares; uniform where nothing is left.

    Args:
        noisy: counts with noise, shape (groups, K).
        smoothing: added to each count that was cut at zero, >= 0; 0 in the paper. With 0 a class that the noise wiped
            out has prior zero, and its records can never get their own label back.

    Raises:
        ParameterError: for a value outside its range.
    """
    number(0, 1e100).check("smoothing", smoothing)
    kept = np.maximum(shaped("noisy", noisy, "(n, K)"), 0) + smoothing
    total = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1), 1 / kept.shape[1])


@bounded(
    count=integer(1, 10**7),
    classes=integer(1, 10**6),
    epsilon=single(numbers(0, 1e6, infinite=True)),
    epsilon_p=single(numbers(2 * _LEAST, 160, infinite=True, zero=True)),
)
def respond(
    labels: ArrayLike,
    group: ArrayLike,
    count: int,
    classes: int,
    epsilon: float,
    epsilon_p: float,
    rng: np.random.Generator | None,
    smoothing: float = 0.0,
) -> tuple[randomised_response.Response, np.ndarray]:
    """Step 4, then RRWithPrior: the answers, and each record's prior (n, K).

    Together epsilon-DP. At epsilon_p = 0 the labels are not looked at, and every prior is uniform.

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        group: of each record, shape (n,), whole numbers from 0.
        count: number of groups, whole, in [1, 1e7].
        classes: K, whole, in [1, 1e6].
        epsilon: the whole budget, in [0, 1e6] or inf.
        epsilon_p: the histograms' part of it, from 0 to epsilon; 0, inf, or in [0.0002, 160].
        rng: None for the operating system's cryptographic source, or a generator, for experiments.
        smoothing: added to each count that was cut at zero, >= 0; 0 in the paper. With 0 a class that the noise wiped
            out has prior zero, and its records can never get their own label back.

    Raises:
        ParameterError: for a value outside its range.
    """
    if not 0 <= epsilon_p <= epsilon:
        raise ParameterError(f"epsilon_p = {epsilon_p:g} is not allowed: it must be from 0 to epsilon = {epsilon:g}.")
    counts = histograms(labels, group, count, classes)
    noisy = np.zeros_like(counts) if epsilon_p == 0 else noisy_histograms(counts, epsilon_p, rng)
    priors = normalised(noisy, smoothing)[indices("group", group, count)]
    left = epsilon if np.isinf(epsilon) else epsilon - epsilon_p
    return randomised_response.rr_with_prior(labels, priors, left, rng), priors


def vote(noisy: ArrayLike) -> np.ndarray:
    """The class with the largest noisy count of each group, shape (groups,): the classifier of Figure 2.

    Among equal ones the lower index wins.

    Args:
        noisy: counts with noise, shape (groups, K).

    Raises:
        ParameterError: for another shape, or what is no number.
    """
    return shaped("noisy", noisy, "(n, K)").argmax(axis=1)


@bounded(n=integer(0, 10**9))
def discrete_laplace(n: int, parameter: float, rng: np.random.Generator | None) -> np.ndarray:
    """n independent whole numbers z with P(z) proportional to e^(-parameter |z|), int64: scipy.stats.dlaplace.

    SciPy computes geometric variables from the logarithm of a number of 53 bits: large values are rounded, so single
    outputs may tell more than they should (Mironov 2012). Here they count coins of 128 random bits. Probabilities have
    *exactly* the ratio s = :func:`stay` / 2^128 from one value to the next, for every z; as s is rounded up, a shift by
    one changes any of them by a factor of at most e^parameter, with delta = 0, if the bits are uniform. Not covered:
    bits that can be predicted, and run times.

    Args:
        n: how many, in [0, 1e9].
        parameter: in [1e-4, 80].
        rng: None for the operating system's cryptographic source, or a generator, for experiments.

    Raises:
        ParameterError: for a value outside its range.
    """
    number(_LEAST, 80).check("parameter", parameter)
    high, low = divmod(stay(parameter), 2**64)
    up_and_down = _geometric(2 * n, np.uint64(high), np.uint64(low), rng)
    return up_and_down[:n] - up_and_down[n:]


@bounded(parameter=number(_LEAST, 80))
def stay(parameter: float) -> int:
    """2^128 e^-parameter, rounded up to a whole number: how many of 2^128 coin results let a draw go on.

    Args:
        parameter: of the noise: P(z) is proportional to e^(-parameter |z|), in [1e-4, 80].

    Raises:
        ParameterError: for a value outside its range.
    """
    with localcontext() as context:
        context.prec = 60
        return int((-Decimal(float(parameter))).exp() * 2**_BITS) + 1


def _geometric(n: int, high, low, rng) -> np.ndarray:
    """For each of n variables the number of coins that fall on "go on" before the first that does not."""
    counts, alive = np.zeros(n, dtype=np.int64), np.arange(n)
    while alive.size:
        first, second = randomised_response.uniform_words(2, alive.size, rng)
        alive = alive[(first < high) | ((first == high) & (second < low))]
        counts[alive] += 1
    return counts


@bounded(
    n=integer(1, 6),
    classes=integer(1, 6),
    epsilon=number(0, 700),
    epsilon_p=number(0, 160),
    parameter=number(_LEAST, 80),
)
def joint_table(
    n: int, classes: int, epsilon: float, epsilon_p: float, parameter: float | None = None
) -> tuple[np.ndarray, list[list[int]]]:
    """All that an attacker sees of one group, the noisy counts cut at zero and all answers, by enumeration.

    Counts go on for ever, but at and above the largest true count, n, the probabilities under any two data sets keep
    one ratio. So counts from 0 to n + 1 show every ratio there is; what lies beyond is one more output.

    Args:
        n: records, from 1 to 6.
        classes: K, from 1 to 6.
        epsilon: the whole budget, in [0, 700].
        epsilon_p: the histogram's part of it, in [0, 160].
        parameter: of the noise; epsilon_p / 2 in the paper, which None stands for.

    Returns:
        Probabilities (K^n data sets, outputs), and the pairs of data sets that differ in one label.

    Raises:
        ParameterError: for a value outside its range.
    """
    parameter = epsilon_p / 2 if parameter is None else parameter
    labels, apart = privacy.data_sets(n, classes)
    outputs = np.array(list(product(range(n + 2), repeat=classes)))
    counts = np.stack([(labels == k).sum(axis=1) for k in range(classes)], axis=1)
    every = np.exp(log_cut(counts[:, None, :], outputs[None], parameter).sum(axis=2))[:, :, None]
    members = randomised_response.kept(normalised(outputs), epsilon - epsilon_p)
    answers = np.exp(randomised_response.log_table(members, epsilon - epsilon_p))  # (outputs, true label, answer)
    for record in range(n):
        answer = answers[:, labels[:, record], :].transpose(1, 0, 2)  # (K^n, outputs, answer)
        every = (every[:, :, :, None] * answer[:, :, None, :]).reshape(len(labels), len(outputs), -1)
    table = every.reshape(len(labels), -1)
    return np.column_stack([table, np.maximum(1 - table.sum(axis=1), 0)]), np.argwhere(apart == 1).tolist()


@bounded(
    counts=numbers(-(2**53), 2**53, whole=True), outputs=numbers(0, 2**53, whole=True), parameter=number(_LEAST, 80)
)
def log_cut(counts: ArrayLike, outputs: ArrayLike, parameter: float) -> np.ndarray:
    """ln P(max(0, count + noise) = output); arguments broadcast.

    Args:
        counts: whole numbers.
        outputs: whole numbers, >= 0.
        parameter: of the noise: P(z) is proportional to e^(-parameter |z|), in [1e-4, 80].

    Raises:
        ParameterError: for a value outside its range.
    """
    counts, outputs = array("counts", counts), array("outputs", outputs)
    below, at = stats.dlaplace.logcdf(-counts, parameter), stats.dlaplace.logpmf(outputs - counts, parameter)
    return np.where(outputs == 0, below, at)
