"""Audits: how much privacy a mechanism provably loses, measured by attacking it.

An audit's figure is a lower bound on epsilon: with the stated confidence the mechanism is not (epsilon', delta)-DP for
any epsilon' below it. Above the accountant's figure it proves a mistake; far below it proves nothing, since the attack
may be weak. Two kinds, both for data sets that differ by adding or removing one example (a canary):

- by repetition (:func:`audit_by_repetition`): the mechanism runs many times with and without one canary;
- in one run (:func:`audit_guesses`; Steinke, Nasr and Jagielski 2023): many canaries, each included by a coin flip.

The mechanism comes as a function that returns scores, larger where the canary looks present. With DP-SGD the
strongest score is white-box: the product of each noisy sum with the canary's clipped gradient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from dplib.checks import (
    ParameterError,
    Rule,
    array,
    bounded,
    fraction,
    generator,
    integer,
    number,
    numbers,
    reals,
    single,
)

_DELTA = Rule("a number in [0, 1)", lambda v: number(0, 1).accepts(v) and v < 1)
_COUNT, COUNTS = single(numbers(0, 1e9, whole=True)), numbers(0, 1e15, whole=True)


@dataclass(frozen=True)
class LowerBound:
    """What an audit found.

    Args:
        epsilon: the lower bound, >= 0, at ``delta``.
        delta: in [0, 1).
        confidence: chance with which the bound holds, in (0, 1).
        correct: guesses that were right.
        guesses: guesses that were made.
        threshold: the score from which a canary was called present; nan where guesses were by rank.
    """

    epsilon: float
    delta: float
    confidence: float
    correct: int
    guesses: int
    threshold: float = float("nan")


@bounded(
    true_positives=COUNTS,
    positives=COUNTS,
    false_positives=COUNTS,
    negatives=COUNTS,
    delta=_DELTA,
    confidence=fraction(),
)
def epsilon_lower_bound(
    true_positives: ArrayLike,
    positives: ArrayLike,
    false_positives: ArrayLike,
    negatives: ArrayLike,
    delta: float,
    confidence: float = 0.95,
) -> float | np.ndarray:
    """Lower bound on epsilon, at least 0, from an attack's hits and false alarms on independent runs. Counts broadcast.

    With exact (Clopper-Pearson) one-sided limits TPR >= t and FPR <= f, each at (1 - confidence)/2, (epsilon, delta)-DP
    asks for t <= e^epsilon f + delta and 1 - f <= e^epsilon (1 - t) + delta. Both hold at once: no further correction.

    Args:
        true_positives: runs with the canary that were called so.
        positives: runs with the canary, at least 1.
        false_positives: runs without it that were called with.
        negatives: runs without it, at least 1.
        delta: at which epsilon is bounded, in [0, 1).
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, or counts that are no shares.
    """
    counts = np.broadcast_arrays(true_positives, positives, false_positives, negatives)
    hits, runs, alarms, others = (np.asarray(count, dtype=float) for count in counts)
    if not ((hits >= 0) & (hits <= runs) & (alarms >= 0) & (alarms <= others) & (runs >= 1) & (others >= 1)).all():
        raise ParameterError("counts are no shares: 0 <= true_positives <= positives, and so for the negatives.")
    return _refuted(*_limits(hits, runs, alarms, others, confidence), delta)


@bounded(delta=_DELTA, confidence=fraction())
def choose_threshold(
    scores_with: ArrayLike, scores_without: ArrayLike, delta: float, confidence: float = 0.95
) -> float:
    """The score that separates best on these runs; the bound must come from others.

    Args:
        scores_with: of runs with the canary, shape (n,).
        scores_without: of runs without it, shape (k,).
        delta: at which epsilon is bounded, in [0, 1).
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, or scores that cannot be used.
    """
    sides = [reals("scores_with", scores_with, 1), reals("scores_without", scores_without, 1)]
    for name, side in zip(("scores_with", "scores_without"), sides, strict=True):
        if not len(side) or np.isnan(side).any():
            raise ParameterError(f"{name} of shape {side.shape} cannot be used: one or more numbers, none of them nan.")
    scores_with, scores_without = _without_infinities(*map(np.sort, sides))
    candidates = np.unique(np.quantile(np.concatenate([scores_with, scores_without]), np.linspace(0, 1, 401)))
    hits = len(scores_with) - np.searchsorted(scores_with, candidates)
    alarms = len(scores_without) - np.searchsorted(scores_without, candidates)
    limits = _limits(hits, len(scores_with), alarms, len(scores_without), confidence)
    return float(candidates[np.argmax(_refuted(*limits, delta))])


def _without_infinities(*sides: np.ndarray) -> list[np.ndarray]:
    """Scores in the same order, none infinite: between two of them there is no middle."""
    finite = np.concatenate([scores[np.isfinite(scores)] for scores in sides])
    low, high = (finite.min() - 1, finite.max() + 1) if finite.size else (-1.0, 1.0)
    return [np.clip(scores, low, high) for scores in sides]


@bounded(delta=_DELTA, rng=generator(), confidence=fraction())
def audit_scores(
    scores_with: ArrayLike, scores_without: ArrayLike, delta: float, rng: np.random.Generator, confidence: float = 0.95
) -> LowerBound:
    """Lower bound from scores of independent runs with and without the canary.

    A random half of the runs chooses the threshold, the others alone give the bound: choosing on the same runs would
    make it too large.

    Args:
        scores_with: of runs with the canary, shape (n,), at least 4, no nan; larger where it looks present.
        scores_without: of runs without it, shape (k,), at least 4, no nan.
        delta: at which epsilon is bounded, in [0, 1).
        rng: draws the halves.
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, or scores that cannot be used.
    """
    scores_with, scores_without = (_scores(scores) for scores in (scores_with, scores_without))
    halves = []
    for scores in (scores_with, scores_without):
        shuffled, cut = rng.permutation(scores), round(len(scores) / 2)
        halves.append((shuffled[:cut], shuffled[cut:]))
    (choose_with, test_with), (choose_without, test_without) = halves
    threshold = choose_threshold(choose_with, choose_without, delta, confidence)
    hits, alarms = int((test_with >= threshold).sum()), int((test_without >= threshold).sum())
    runs, others = len(test_with), len(test_without)
    epsilon = float(epsilon_lower_bound(hits, runs, alarms, others, delta, confidence))
    return LowerBound(epsilon, delta, confidence, hits + others - alarms, runs + others, threshold)


@bounded(runs=integer(4, 10**9), delta=_DELTA, rng=generator(), confidence=fraction())
def audit_by_repetition(
    scores: Callable[[bool, int, np.random.Generator], np.ndarray],
    runs: int,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> LowerBound:
    """Audit a mechanism by running it many times with the canary and as often without.

    Args:
        scores: called as ``scores(present, runs, rng)``; the scores of that many independent runs, shape (runs,).
        runs: of each kind, in [4, 1e9].
        delta: at which epsilon is bounded, in [0, 1).
        rng: draws the runs and then the halves.
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, or scores that cannot be used: others than one of each run.
    """
    sides = [_scores(scores(present, runs, rng)) for present in (True, False)]
    if {len(side) for side in sides} != {runs}:
        raise ParameterError(
            f"scores gives {len(sides[0])} and {len(sides[1])} of runs = {runs}: one of each is needed."
        )
    return audit_scores(*sides, delta, rng, confidence)


@bounded(canaries=_COUNT, guesses=_COUNT, correct=_COUNT, epsilon=number(0, 1e6), delta=_DELTA)
def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound on the chance of so many correct guesses under (epsilon, delta)-DP (Steinke et al. 2023, Theorem 5.2).

    Each canary is included by a fair coin. Under epsilon-DP the correct guesses are dominated by W, binomial with
    ``guesses`` trials and success e^epsilon/(1 + e^epsilon). Delta adds 2 canaries delta max_i P(v - i <= W < v)/i,
    with v the correct ones: it buys an expected number of further correct guesses, spent where i more make the most
    difference.

    Args:
        canaries: canaries of the run, each included by a fair coin; at least 1.
        guesses: those that were made, at most as many.
        correct: guesses that were right.
        epsilon: that is tested, in [0, 1e6].
        delta: at which epsilon is bounded, in [0, 1).

    Raises:
        ParameterError: for a value outside its range, or counts of which one exceeds what it is a part of.
    """
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise ParameterError(
            f"correct = {correct}, guesses = {guesses}, canaries = {canaries} is not allowed: "
            "0 <= correct <= guesses <= canaries."
        )
    success = 1 / (1 + np.exp(-epsilon))
    p_value = _at_least(correct, guesses, success)
    if delta > 0 and correct > 0:
        p_value += 2 * canaries * delta * _densest_below(correct, guesses, success)
    return float(min(1.0, p_value))


def _at_least(count: int, trials: int, success: float) -> float:
    """P(W >= count) of a binomial W, through the incomplete beta function."""
    return float(special.betainc(count, trials - count + 1, success)) if count > 0 else 1.0


def _densest_below(count: int, trials: int, success: float) -> float:
    """The largest P(count - i <= W < count)/i over i from 1 to count, of a binomial W.

    It is the mean of the i chances below ``count``. Downwards these first rise, up to the mode, and then fall, so that
    their mean rises at least to the mode, and falls from where the next one is below it: found by bisection.
    """
    above = _at_least(count, trials, success)

    def mean(i: int) -> float:
        return (_at_least(count - i, trials, success) - above) / i

    mode = min(int((trials + 1) * success), trials)
    low, high = max(1, count - mode), count
    while low < high:
        middle = (low + high) // 2
        if mean(middle + 1) > mean(middle):
            low = middle + 1
        else:
            high = middle
    return mean(low)


@bounded(canaries=_COUNT, guesses=_COUNT, correct=_COUNT, delta=_DELTA, confidence=fraction())
def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that so many correct guesses refute (p-value below 1 - confidence), or 0.

    Args:
        canaries: canaries of the run, each included by a fair coin; at least 1.
        guesses: those that were made, at most as many.
        correct: guesses that were right.
        delta: at which epsilon is bounded, in [0, 1).
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: as :func:`one_run_p_value`.
    """

    def excess(epsilon):
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    top = 1.0
    while excess(top) < 0:
        top *= 2
    return max(0.0, optimize.brentq(excess, 0.0, top, xtol=1e-9) - 1e-9)


@bounded(shift=number(0, 30), delta=_DELTA, canaries=single(numbers(1, 1e9, infinite=True)), confidence=fraction())
def one_run_limit(shift: float, delta: float, canaries: float = np.inf, confidence: float = 0.95) -> float:
    """What an audit in one run can be expected to show of Gaussian noise, each canary in a coordinate of its own.

    The score of a canary is N(shift, 1) if it is included, else N(0, 1); the attack guesses a share of the most extreme
    scores, the share that shows most (it may be fixed in advance). With many canaries the chance of an error of the
    test, 2 delta / (its surplus of correct guesses a canary), decides alone; some hundred thousand show a little more.

    Args:
        shift: mean of an included canary's score, in standard deviations of the noise, in [0, 30].
        delta: at which epsilon is bounded, in [0, 1).
        canaries: how many, in [1, 1e9]; inf for the limit of very many.
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    epsilons = [0.0]
    for share in np.geomspace(1e-3, 1, 60):
        right = _share_right(shift, share)
        if np.isinf(canaries):
            surplus = right - 2 * delta / ((1 - confidence) * share)
            epsilons.append(float(special.logit(surplus)) if surplus > 0.5 else 0.0)
        elif round(share * canaries) >= 2:
            guesses = round(share * canaries)
            epsilons.append(one_run_epsilon(canaries, guesses, round(right * guesses), delta, confidence))
    return max(epsilons)


def _share_right(shift, share):
    """Of the most extreme scores, half above and half below, the expected share that is guessed right."""

    def excess(score):
        return (special.ndtr(-score) + special.ndtr(shift - score)) / 2 - share / 2

    threshold = optimize.brentq(excess, -1, shift + 40)
    return special.ndtr(shift - threshold) / share


@bounded(delta=_DELTA, confidence=fraction())
def audit_guesses(
    scores: ArrayLike, included: ArrayLike, guesses: int | Sequence[int], delta: float, confidence: float = 0.95
) -> LowerBound:
    """Lower bound from the scores of one run with many canaries.

    The canaries of largest scores are called included, as many of smallest scores left out; the others are abstained
    from. Of equal scores at the border those are guessed that come out wrong: there are no more right guesses than in
    any order that knows no coin, so that the bound holds in whatever order the canaries stand. Scores that take few
    values may show nothing.

    Args:
        scores: shape (m,), m >= 4, no nan; larger where a canary looks included.
        included: the coin flips, bool, shape (m,).
        guesses: how many to make, even, at most m. Several numbers, fixed in advance, share the error rate among them
            (Bonferroni), and the largest bound is returned.
        delta: at which epsilon is bounded, in [0, 1).
        confidence: chance with which the bound holds, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, shapes that differ, nan among the scores, or a number of guesses
            that cannot be made.
    """
    scores, included = _scores(scores), array("included", included)
    if included.dtype != bool:
        raise ParameterError(f"included of {included.dtype} is not allowed: it must be bool, a coin flip a canary.")
    if scores.shape != included.shape:
        raise ParameterError(f"scores and included differ in shape: {scores.shape} and {included.shape}.")
    tried = [guesses] if np.ndim(guesses) == 0 else list(guesses)
    if not tried:
        raise ParameterError("guesses = [] is not allowed: it must be one number, or several.")
    for count in tried:
        integer(2, len(scores)).check("guesses", count)
        if count % 2:
            raise ParameterError(f"guesses = {count} is not allowed: it must be even, half for each side.")
    level = 1 - (1 - confidence) / len(tried)
    ranked = included[np.lexsort((~included, scores))]  # among equal scores the wrong guesses are at both ends
    bounds = []
    for count in tried:
        correct = int(ranked[-(count // 2) :].sum() + (~ranked[: count // 2]).sum())
        epsilon = one_run_epsilon(len(scores), count, correct, delta, level)
        bounds.append(LowerBound(epsilon, delta, confidence, correct, count))
    return max(bounds, key=lambda bound: bound.epsilon)


def _limits(hits, runs, alarms, others, confidence):
    """Clopper-Pearson: a lower limit of the true positive rate, an upper one of the false positive rate."""
    risk = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        rate = np.where(hits > 0, stats.beta.ppf(risk, hits, runs - hits + 1), 0.0)
        alarm = np.where(alarms < others, stats.beta.isf(risk, alarms + 1, others - alarms), 1.0)
    return rate, alarm


def _refuted(rate, alarm, delta):
    """The epsilon below which (epsilon, delta)-DP contradicts the two limits."""
    with np.errstate(divide="ignore"):
        with_canary = np.log(np.maximum(rate - delta, 0)) - np.log(alarm)
        without = np.log(np.maximum(1 - alarm - delta, 0)) - np.log1p(-rate)
    return np.maximum(0.0, np.maximum(with_canary, without))[()]


def _scores(scores):
    scores = reals("scores", scores)
    if scores.ndim != 1 or len(scores) < 4 or np.isnan(scores).any():
        raise ParameterError(f"scores of shape {scores.shape} cannot be used: four or more numbers, none of them nan.")
    return scores
