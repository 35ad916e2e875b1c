"""Label privacy beyond the paper: other ways to release a label, and other ways to learn from what was released.

Neighbours differ in the label of one record; every release here is epsilon-DP for that, with delta = 0. Beside
randomised response: :func:`laplace` ("ALIBI", Malek and others 2021), :func:`subset` (Ye and Barg 2018) and
:func:`vector` (Erlingsson and others 2014, Zhao and others 2025).

All that a release says of the label y is its likelihood q(release | y). So a learner takes :class:`Evidence`, and there
are three ways to use it for a model with probabilities p(y | x):

- *plain*: take the answer for the label (cross entropy);
- *debiased* (backward correction, Natarajan and others 2013; eq. (17) of the paper): put weights on the labels, some
  negative, whose mean over the answers is the one-hot true label: the loss is unbiased;
- *likelihood* (forward correction, Patrini and others 2017): maximise ln sum_y p(y | x) q(release | y), whose gradient
  with respect to the logits is p - r with Bayes' posterior r(y) ~ p(y | x) q(release | y).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dplib.checks import ParameterError, bounded, described, generator, indices, integer, number, sets, shaped, truths

KINDS = ("target", "likelihood")

_MOST = float(np.finfo(np.float32).max)
_BUDGET = number(1e-9, 700)
_COINS = number(0, 30)  # uniform numbers of 53 bits know no rarer event than 2^-53, which is e^-36


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a learner is told of n labels.

    Args:
        kind: "target": ``values`` are weights on the labels, of sum 1 (or 0 for a record that is left out), and the
            loss is -sum_y values_y ln p(y | x). "likelihood": they are ln q(release | y), up to a number for each
            record, and the loss is -ln sum_y p(y | x) q(release | y). All zero says nothing.
        values: shape (n, K), kept as float32: numbers in [-3.4e38, 3.4e38], or -inf where a release is impossible.

    Raises:
        ParameterError: for another kind, or values that are no such table.
    """

    kind: str
    values: np.ndarray

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ParameterError(f"kind = {self.kind!r} is not allowed: it must be one of {', '.join(KINDS)}.")
        values = shaped("values", self.values, "(n, K)", -np.inf if self.kind == "likelihood" else -_MOST, _MOST)
        with np.errstate(over="ignore"):  # a likelihood of e^-1e39 is none
            object.__setattr__(self, "values", values.astype(np.float32))


@bounded(classes=integer(1, 10**6))
def plain(labels: ArrayLike, classes: int) -> Evidence:
    """The labels as if they were true.

    Args:
        labels: shape (n,), whole numbers from 0 to K - 1.
        classes: K, whole, in [1, 1e6].

    Raises:
        ParameterError: for a value outside its range, or a label that is none of the classes (which tells of a record).
    """
    return Evidence("target", _one_hot(indices("labels", labels, classes), classes, np.float32))


def _one_hot(labels, classes, kind) -> np.ndarray:
    """Shape (n, K), and no table of K^2 on the way."""
    rows = np.zeros((len(labels), classes), dtype=kind)
    rows[np.arange(len(labels)), labels] = 1
    return rows


def _members(members, answers) -> tuple[np.ndarray, np.ndarray]:
    """The sets of n records, bool (n, K), and their answers, (n,)."""
    members = sets("members", members)
    answers = indices("answers", answers, members.shape[-1])
    n, classes = len(answers), members.shape[-1]
    if members.shape not in ((classes,), (n, classes)):
        raise ParameterError(f"members of shape {members.shape} are not allowed: ({n}, {classes}) or ({classes},) is.")
    members = np.broadcast_to(members, (n, classes))
    if not members[np.arange(n), answers].all():
        raise ParameterError(f"answers = {described(answers)} is not allowed: each must be in its own set of members.")
    return members, answers


@bounded(epsilon=_BUDGET)
def debiased(answers: ArrayLike, members: ArrayLike, epsilon: float) -> Evidence:
    """Weights whose mean over RRTop-k's answers is the one-hot true label, where that is in Y_k (eq. (17), Lemma 18).

    With q = 1 / (e^epsilon + k - 1): (one-hot of the answer - q on Y_k) / (1 - k q), where 1 - k q = (e^epsilon - 1) q.

    Args:
        answers: of RRTop-k, shape (n,), whole numbers from 0, each in its set.
        members: bool, (n, K) or (K,): the sets Y_k; all True for plain RR.
        epsilon: budget of each label, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range, or an answer that is not in its set.
    """
    members, answers = _members(members, answers)
    k = members.sum(axis=1, keepdims=True)
    q = 1 / (np.exp(epsilon) + k - 1)
    values = (_one_hot(answers, members.shape[1], float) - q * members) / (np.expm1(epsilon) * q)
    return Evidence("target", np.where(k == 1, members, values).astype(np.float32))


@bounded(epsilon=number(0, 700))
def answer_likelihood(answers: ArrayLike, members: ArrayLike, epsilon: float) -> Evidence:
    """ln q(answer | y) of RRTop-k for every label y: its exact table, read at the answer.

    Args:
        answers: of RRTop-k, shape (n,), whole numbers from 0, each in its set.
        members: bool, (n, K) or (K,): the sets Y_k; all True for plain RR.
        epsilon: budget of each label, in [0, 700].

    Raises:
        ParameterError: for a value outside its range, or an answer that is not in its set.
    """
    members, answers = _members(members, answers)
    k = members.sum(axis=1, keepdims=True)
    stays = -np.log1p((k - 1) * np.exp(-epsilon))
    inside = np.where(np.arange(members.shape[1]) == answers[:, None], stays, stays - epsilon)
    return Evidence("likelihood", np.where(members, inside, -np.log(k)).astype(np.float32))


@bounded(classes=integer(1, 10**6), epsilon=_BUDGET, rng=generator())
def laplace(labels: ArrayLike, classes: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """One-hot labels plus Laplace noise of scale 2 / epsilon: shape (n, classes). epsilon-DP, and no less.

    The loss of a release o between labels y and y' is (t(o_y) - t(o_y')) epsilon / 2 with t as in
    :func:`laplace_likelihood`: it reaches epsilon where o_y >= 1 and o_y' <= 0. In floating point the noise has holes
    (Mironov 2012): an experiment, no release.

    Args:
        labels: the true ones, shape (n,), whole numbers from 0 to K - 1.
        classes: K, whole, in [1, 1e6].
        epsilon: budget of each label, in [1e-9, 700].
        rng: a generator: these are experiments.

    Raises:
        ParameterError: for a value outside its range, or a label that is none of the classes (which tells of a record).
    """
    labels = indices("labels", labels, classes)
    return _one_hot(labels, classes, float) + rng.laplace(0, 2 / epsilon, (len(labels), classes))


@bounded(epsilon=_BUDGET)
def laplace_likelihood(released: ArrayLike, epsilon: float) -> Evidence:
    """ln q(o | y) of :func:`laplace`, up to a number for each record: t(o_y) epsilon / 2, t = |o_y| - |o_y - 1|.

    t lies in [-1, 1]: what an entry says beyond 0 and 1 is the same as at 0 and 1.

    Args:
        released: as from :func:`laplace`, shape (n, K).
        epsilon: budget of each label, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    return Evidence(
        "likelihood", (np.clip(2 * shaped("released", released, "(n, K)") - 1, -1, 1) * epsilon / 2).astype(np.float32)
    )


@bounded(classes=integer(2, 10**6), epsilon=_COINS)
def subset_size(classes: int, epsilon: float) -> int:
    """Ye and Barg's size of the set: the whole number at K / (e^epsilon + 1), and at least 1.

    Args:
        classes: K, whole, in [2, 1e6].
        epsilon: budget of each label, in [0, 30].

    Raises:
        ParameterError: for a value outside its range.
    """
    return max(1, round(classes / (np.exp(epsilon) + 1)))


@bounded(classes=integer(2, 10**6), epsilon=_COINS, rng=generator())
def subset(labels: ArrayLike, classes: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """A random set of d labels for each label, bool (n, classes); sets with the true label are e^epsilon likelier.

    With d = 1 it is randomised response. Each set has one of two probabilities, a factor e^epsilon apart, so it is
    epsilon-DP; among all epsilon-DP releases of a uniform label it tells (almost) the most.

    Args:
        labels: the true ones, shape (n,), whole numbers from 0 to K - 1.
        classes: K, whole, in [2, 1e6].
        epsilon: budget of each label, in [0, 30].
        rng: a generator: these are experiments.

    Raises:
        ParameterError: for a value outside its range, or a label that is none of the classes (which tells of a record).
    """
    labels = indices("labels", labels, classes)
    size = subset_size(classes, epsilon)
    holds = rng.random(len(labels)) < size / (size + (classes - size) * np.exp(-epsilon))
    order = rng.random((len(labels), classes))
    order[np.arange(len(labels)), labels] = np.where(holds, -1.0, 2.0)  # first, or last
    return order.argsort(axis=1).argsort(axis=1) < size


@bounded(epsilon=number(0, 700))
def subset_likelihood(members: ArrayLike, epsilon: float) -> Evidence:
    """ln q(set | y), up to a number for each record: 0 for labels in the set, -epsilon for others.

    Args:
        members: the sets, bool (n, K), as from :func:`subset` or :func:`vector`.
        epsilon: budget of each label, in [0, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    members = truths("members", members, "(n, K)")
    return Evidence("likelihood", np.where(members, 0.0, -epsilon).astype(np.float32))


@bounded(classes=integer(1, 10**6), epsilon=_COINS, rng=generator())
def vector(labels: ArrayLike, classes: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """One-hot labels, each bit flipped with probability 1 / (1 + e^(epsilon/2)): bool (n, classes). epsilon-DP.

    Replacing a label moves two bits, each by a factor of e^(epsilon/2) at most, and both by as much at once where the
    released bits are those of one of the two: the loss is epsilon. The likelihood is that of :func:`subset_likelihood`.

    Args:
        labels: the true ones, shape (n,), whole numbers from 0 to K - 1.
        classes: K, whole, in [1, 1e6].
        epsilon: budget of each label, in [0, 30].
        rng: a generator: these are experiments.

    Raises:
        ParameterError: for a value outside its range, or a label that is none of the classes (which tells of a record).
    """
    labels = indices("labels", labels, classes)
    truth = _one_hot(labels, classes, bool)
    return truth ^ (rng.random(truth.shape) < 1 / (1 + np.exp(epsilon / 2)))


def posterior(prior: ArrayLike, evidence: Evidence) -> np.ndarray:
    """Bayes' posterior r(y) ~ prior(y) q(release | y), shape (n, K).

    Args:
        prior: probabilities of the labels, shape (n, K) or (K,).
        evidence: a likelihood.

    Raises:
        ParameterError: for evidence that is a target, a prior that is none or does not fit it, or a release that is
            impossible for every label of a prior above 0.
    """
    if evidence.kind != "likelihood":
        raise ParameterError("evidence is a target: only a likelihood has a posterior.")
    n, classes = evidence.values.shape
    prior = shaped("prior", prior, "(..., K)", 0, 1 + 1e-6, sizes=(classes,))
    if prior.shape[:-1] not in ((), (n,)) or not (np.abs(prior.sum(axis=-1) - 1) < 1e-6).all():
        raise ParameterError(
            f"prior of shape {prior.shape} is not allowed: it must be ({n}, {classes}) or ({classes},), and each "
            "row must sum to 1."
        )
    with np.errstate(divide="ignore"):
        log = np.log(prior) + evidence.values
    likeliest = log.max(axis=1, keepdims=True)
    if np.isneginf(likeliest).any():
        raise ParameterError("evidence holds a release that is impossible under its prior: there is no posterior.")
    log -= likeliest
    return np.exp(log) / np.exp(log).sum(axis=1, keepdims=True)
