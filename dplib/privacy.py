"""The exact loss of LP-MST on tiny data sets, by enumerating all labels and all randomised answers (Observation 4).

Neighbours differ in the label of one example. What is released is every randomised answer; models are functions of
them, so they add nothing (post-processing), and a training algorithm's own coins, drawn without the labels, can be
fixed one by one.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from dplib.checks import ParameterError, array, bounded, indices, integer, number, shaped, shown
from dplib.randomised_response import kept, log_table

Prior = Callable[[int, np.ndarray], np.ndarray]


@bounded(n=integer(1, 12), classes=integer(1, 12))
def data_sets(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """All label vectors, (K^n, n), and the number of labels in which two of them differ, (K^n, K^n).

    Args:
        n: examples, from 1 to 12.
        classes: K, from 1 to 12; K^n at most 4096.

    Raises:
        ParameterError: for a value outside its range.
    """
    if classes**n > 4096:
        raise ParameterError(f"n = {n} is not allowed with {classes} classes: {classes**n} data sets are too many.")
    sets = np.array(list(product(range(classes), repeat=n)))
    return sets, (sets[:, None] != sets[None]).sum(axis=2)


@bounded(n=integer(1, 12), classes=integer(1, 12), epsilon=number(0, 700))
def joint(n: int, classes: int, parts: Sequence[Sequence[int]], prior: Prior, epsilon: float) -> np.ndarray:
    """Log probability of all answers of all stages, for every assignment of labels: (K^n data sets, K^q answers).

    Args:
        n: examples, from 1 to 12.
        classes: K, from 1 to 12.
        parts: the examples that each stage asks. They may overlap, which breaks the guarantee, so that the breach can
            be measured.
        prior: from the stage and all answers so far to the priors (m, K) of this stage's examples.
        epsilon: of each answer, in [0, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    sets, _ = data_sets(n, classes)
    parts = _parts(parts, n)
    questions = sum(len(part) for part in parts)
    columns = []
    for answers in np.array(list(product(range(classes), repeat=questions))):
        total, done = np.zeros(len(sets)), 0
        for stage, part in enumerate(parts):
            given = shaped("prior", prior(stage, answers[:done]), "(n, K)", 0, 1 + 1e-6, sizes=(len(part), classes))
            tables = log_table(kept(given, epsilon), epsilon)  # (m, K true, K answers)
            for table, example in zip(tables, part, strict=True):
                total = total + table[sets[:, example], answers[done]]
                done += 1
        columns.append(total)
    return np.stack(columns, axis=1)


@bounded(n=integer(1, 12), classes=integer(1, 12), differ=integer(1, 12))
def loss(log_joint: np.ndarray, n: int, classes: int, differ: int = 1) -> float:
    """The largest log-ratio between data sets that differ in so many labels: the exact epsilon for these.

    An answer that only one of two data sets can give makes it inf.

    Args:
        log_joint: as :func:`joint` returns it.
        n: examples, from 1 to 12.
        classes: K, from 1 to 12.
        differ: number of labels, from 1 to n.

    Raises:
        ParameterError: for a value outside its range.
    """
    shaped("log_joint", log_joint, "(data sets, answers)", -np.inf)
    if differ > n:
        raise ParameterError(f"differ = {differ} is not allowed: of {n} labels at most {n} differ.")
    return float(losses(log_joint, data_sets(n, classes)[1] == differ).max())


def _parts(parts, n) -> list[list[int]]:
    try:
        return [indices("parts", part, n).tolist() for part in parts]
    except TypeError:
        raise ParameterError(
            f"parts = {shown(parts)} is not allowed: it must be lists of examples below {n}."
        ) from None


def losses(log_joint: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The largest log-ratio, in either direction, of each pair of data sets.

    Args:
        log_joint: as :func:`joint` returns it.
        pairs: which data sets to compare, bool, shape (data sets, data sets).

    Raises:
        ParameterError: for shapes that do not fit, or a logarithm that is none.
    """
    log_joint, pairs = shaped("log_joint", log_joint, "(data sets, answers)", -np.inf), array("pairs", pairs)
    if pairs.dtype != bool or pairs.shape != (len(log_joint),) * 2:
        raise ParameterError(
            f"pairs of {pairs.dtype}, shape {pairs.shape}, is not allowed: it must be bool, one row and one column for "
            f"each of {len(log_joint)} data sets."
        )
    i, j = np.nonzero(np.triu(pairs))
    with np.errstate(invalid="ignore"):
        ratio = np.abs(log_joint[i] - log_joint[j])
    return np.where(np.isnan(ratio), 0.0, ratio).max(axis=1)  # nan: impossible under both


@bounded(classes=integer(1, 12), weight=number(1e-9, 1e9))
def counting_prior(features: Sequence[int], parts: Sequence[Sequence[int]], classes: int, weight: float = 1.0) -> Prior:
    """A small model: how often each label was answered so far for examples of the same public feature.

    Args:
        features: one whole number for each example.
        parts: as in :func:`joint`.
        classes: K, from 1 to 12.
        weight: what each class's count starts with, in [1e-9, 1e9].

    Raises:
        ParameterError: for a value outside its range.
    """
    features = indices("features", features)
    parts = _parts(parts, len(features))
    asked = [example for part in parts for example in part]

    def prior(stage: int, answers: np.ndarray) -> np.ndarray:
        counts = np.full((len(parts[stage]), classes), float(weight))
        for row, example in enumerate(parts[stage]):
            for other, answer in zip(asked, answers, strict=False):
                counts[row, answer] += features[other] == features[example]
        return counts / counts.sum(axis=1, keepdims=True)

    return prior
