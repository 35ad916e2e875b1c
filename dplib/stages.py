"""LP-MST (Ghazi and others 2021, Algorithm 3): label-private training in stages, each of which gives the next a prior.

Pure epsilon-label-DP: neighbours differ in the *label of one example*; inputs and their split into parts are public. It
holds with all models and all answers released (Observation 4): each label is asked once, by RRWithPrior with a prior
that depends on *other* labels' answers only, and :class:`Labels` refuses a second question. Not covered: settings that
were chosen by looking at true labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dplib import checks
from dplib.checks import ParameterError, boolean, bounded, integer, numbers, single
from dplib.randomised_response import Response, kept, rr_with_prior

_EPSILON = single(numbers(0, infinite=True))
_TEMPERATURE = single(numbers(1e-100, infinite=True, zero=True))


class Learner(Protocol):
    """What LP-MST needs of a model: the training algorithm A of step 3(c), and its predictions."""

    def train(self, rows: np.ndarray, labels: np.ndarray, stage: int, start: Any | None) -> Any:
        """A model trained on randomised labels.

        Args:
            rows: numbers of training examples, shape (m,).
            labels: their randomised labels, shape (m,).
            stage: its number, from 1.
            start: the model to begin with, or None.
        """

    def logits(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """Scores (m, K) for training examples.

        Args:
            model: as :meth:`train` returned it.
            rows: numbers of training examples, shape (m,).
        """

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Plain values to be kept for a stage: accuracies on test data, curves.

        Args:
            model: as :meth:`train` returned it.
        """


class Labels:
    """Private labels that answer one question each.

    Args:
        labels: shape (n,), whole numbers from 0 to classes - 1.
        classes: K, whole, in [1, 1e6].
        epsilon: of each answer, in [0, 1e100] or inf; None releases the true labels.
        rng: as for :func:`dplib.randomised_response.rr`.

    Raises:
        ParameterError: for a value outside its range.
    """

    def __init__(self, labels: ArrayLike, classes: int, epsilon: float | None, rng: np.random.Generator | None):
        integer(1, 10**6).check("classes", classes)
        if epsilon is not None:
            _EPSILON.check("epsilon", epsilon)
        if rng is not None:
            checks.generator().check("rng", rng)
        self._labels = checks.indices("labels", labels, classes)
        self._unasked = np.ones(len(self._labels), dtype=bool)
        self._epsilon = np.inf if epsilon is None else epsilon
        self._classes = classes
        self._rng = rng

    def __len__(self) -> int:
        return len(self._labels)

    def ask(self, rows: np.ndarray, prior: np.ndarray) -> Response:
        """RRWithPrior's answers.

        Args:
            rows: numbers of examples, shape (m,).
            prior: probabilities of their labels, shape (m, K) or (K,); it must not depend on these labels.

        Raises:
            ParameterError: for a label that is asked twice, or rows that are no places from 0 to n - 1.
        """
        rows = checks.indices("rows", rows, len(self), said=checks.shown)
        if not self._unasked[rows].all() or len(np.unique(rows)) != len(rows):
            raise ParameterError("a label may be asked once only: parts must not overlap.")
        prior = np.asarray(prior)
        if prior.shape not in ((self._classes,), (len(rows), self._classes)):
            raise ParameterError(f"prior of shape {prior.shape} is not allowed: ({len(rows)}, {self._classes}) is.")
        prior = np.broadcast_to(prior, (len(rows), self._classes))
        answers = rr_with_prior(self._labels[rows], prior, self._epsilon, self._rng)
        self._unasked[rows] = False  # once there are answers: a prior that is refused has asked nothing
        return answers


@dataclass(frozen=True)
class Staged:
    """What LP-MST did.

    Shares of right and wrong answers look at the true labels: for the experimenter, not for release.

    Args:
        stages: of each stage "asked", its questions, their "mean_k" (k*) and "constant", the share with k* = 1;
            "right", "covered", shares of answers that are the true label, and of true labels in Y_k*; "reused", answers
            of earlier stages, "kept", those that passed the filter, whose k is "filter_k"; "wrong_before",
            "wrong_after" and "wrong", shares of wrong ones among the reused before and after the filter, and among all
            that it was trained on; and what the learner's ``evaluate`` returned.
        model: the last one.
        released: all randomised labels, shape (n,), -1 where an example is in no part.
    """

    stages: list[dict[str, Any]]
    model: Any
    released: np.ndarray


@bounded(n=integer(1, 10**12), rng=checks.generator())
def split(n: int, shares: Sequence[float], rng: np.random.Generator) -> list[np.ndarray]:
    """Random parts of the examples; no label is looked at (step 1).

    Args:
        n: examples, whole, in [1, 1e12].
        shares: proportions of the parts, each > 0; only their ratios count.
        rng: draws the parts.

    Raises:
        ParameterError: for a value outside its range.
    """
    shares = checks.array("shares", shares)
    checks.list_of(checks.positive()).check("shares", shares.tolist())
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int)
    return np.split(rng.permutation(n), ends[:-1])


@bounded(temperature=_TEMPERATURE)
def tempered(scores: np.ndarray, temperature: float) -> np.ndarray:
    """The prior p_k ~ exp(f_k / t) of Appendix E, shape (n, K).

    Args:
        scores: f, shape (n, K).
        temperature: t >= 0; at 0 the largest scores share it all, at inf it is uniform.

    Raises:
        ParameterError: for a value outside its range.
    """
    below = checks.shaped("scores", scores, "(n, K)")
    below = below - below.max(axis=1, keepdims=True)
    weights = (below == 0).astype(float) if temperature == 0 else np.exp(below / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


@bounded(classes=integer(1, 10**6), temperature=_TEMPERATURE, warm_start=boolean(), reuse=boolean(), filtered=boolean())
def run(
    labels: ArrayLike,
    parts: Sequence[np.ndarray],
    learner: Learner,
    epsilon: float | None,
    *,
    classes: int,
    temperature: float = 1.0,
    warm_start: bool = True,
    reuse: bool = True,
    filtered: bool = True,
    rng: np.random.Generator | None,
) -> Staged:
    """Algorithm 3, with the enhancements of Appendix B; one part is LP-1ST, plain randomised response.

    Args:
        labels: the private ones, shape (n,).
        parts: T arrays of example numbers that do not overlap (step 1) and do not depend on the labels.
        learner: trains and scores.
        epsilon: the budget of the whole, in [0, 1e100] or inf; None trains on the true labels.
        classes: K, whole, in [1, 1e6].
        temperature: of the priors of stages 2 to T, >= 0.
        warm_start: stage t starts from the model of stage t - 1.
        reuse: it trains on the answers of all stages so far (step 3(b)iii).
        filtered: an earlier answer is left out unless it is among the k likeliest labels of the model of stage t - 1,
            with k the rounded mean k* of stage t.
        rng: for the answers; None for the operating system's cryptographic source.

    Raises:
        ParameterError: before any label is asked, for parts that overlap or are empty, labels out of range, or a
            value outside its range.
    """
    private = Labels(labels, classes, epsilon, rng)
    parts = _parts(parts, len(private))
    truth = np.asarray(labels)  # only for the shares of wrong labels
    released = np.full(len(private), -1)
    model = None  # step 2: every class equally likely
    stages = []
    for t, part in enumerate(parts):  # step 3
        if model is None:
            prior = np.full((len(part), classes), 1 / classes)
        else:
            prior = tempered(learner.logits(model, part), temperature)  # (b)i
        answers = private.ask(part, prior)  # (b)ii
        released[part] = answers.labels  # (b)iii
        stage = {
            "asked": len(part),
            "mean_k": float(answers.k.mean()),
            "constant": float((answers.k == 1).mean()),
            "right": float((answers.labels == truth[part]).mean()),
            "covered": float(covered(prior, truth[part], epsilon).mean()),
            "reused": 0,
            "kept": 0,
            "filter_k": None,
            "wrong_before": None,
            "wrong_after": None,
        }
        rows = part
        if reuse and t:
            earlier = np.concatenate(parts[:t])
            k = min(classes, max(1, int(np.rint(answers.k.mean()))))
            passed = likely(learner.logits(model, earlier), released[earlier], k) if filtered else slice(None)
            rows = np.concatenate([part, earlier[passed]])
            stage |= {
                "reused": len(earlier),
                "kept": len(earlier[passed]),
                "filter_k": k if filtered else None,
                "wrong_before": _wrong(released, truth, earlier),
                "wrong_after": _wrong(released, truth, earlier[passed]),
            }
        model = learner.train(rows, released[rows], t + 1, model if warm_start else None)  # (c)
        stages.append(stage | {"wrong": _wrong(released, truth, rows)} | learner.evaluate(model))
    return Staged(stages, model, released)  # step 4


def _parts(parts: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
    """Numbers of n examples; or ParameterError: a part that is refused later would take the earlier ones with it."""
    parts = [checks.indices(f"part {t}", part, n, said=checks.shown) for t, part in enumerate(parts, 1)]
    for t, part in enumerate(parts, 1):
        if not len(part):
            raise ParameterError(f"part {t} is empty: each needs an example at least.")
    if sum(map(len, parts)) > len(set().union(*map(np.ndarray.tolist, parts))):
        raise ParameterError("a label may be asked once only: parts must not overlap.")
    return parts


@bounded(k=integer(1, 10**6))
def likely(scores: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """The filter of Appendix B: which labels are among the k largest of their scores; bool (m,).

    Args:
        scores: of each label, shape (m, K), larger where it is likelier.
        labels: shape (m,), whole numbers from 0 to K - 1.
        k: how many, whole, in [1, 1e6].

    Raises:
        ParameterError: for a value outside its range.
    """
    return places(scores, labels) < k


def places(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many labels come before each example's own, lower index first among equal scores; shape (m,).

    Args:
        scores: of each label, shape (m, K), larger where it is likelier.
        labels: shape (m,), whole numbers from 0 to K - 1.

    Raises:
        ParameterError: for a label that is none, or shapes that do not fit.
    """
    scores = checks.shaped("scores", scores, "(n, K)", -np.inf, np.inf)
    labels = checks.indices("labels", labels, scores.shape[1])[:, None]
    if len(labels) != len(scores):
        raise ParameterError(f"scores of {len(scores)} examples do not fit {len(labels)} labels.")
    of_label = np.take_along_axis(scores, labels, axis=1)
    return ((scores > of_label) | ((scores == of_label) & (np.arange(scores.shape[1]) < labels))).sum(axis=1)


@bounded(epsilon=_EPSILON)
def covered(prior: np.ndarray, labels: np.ndarray, epsilon: float | None) -> np.ndarray:
    """Which labels RRWithPrior could return for their prior: those in Y_k*; bool (m,).

    Args:
        prior: probabilities of the labels, shape (m, K).
        labels: shape (m,), whole numbers from 0 to K - 1.
        epsilon: of each answer, in [0, 1e100] or inf; None counts as inf.

    Raises:
        ParameterError: for a value outside its range.
    """
    members = kept(checks.shaped("prior", prior, "(n, K)"), np.inf if epsilon is None else epsilon)
    labels = checks.indices("labels", labels, members.shape[1])
    if len(labels) != len(members):
        raise ParameterError(f"prior of {len(members)} examples does not fit {len(labels)} labels.")
    return members[np.arange(len(labels)), labels]


def _wrong(released: np.ndarray, truth: np.ndarray, rows: np.ndarray) -> float | None:
    return float((released[rows] != truth[rows]).mean()) if len(rows) else None
