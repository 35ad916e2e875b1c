"""Audits: how much privacy a mechanism provably loses, measured by attacking it.

An audit's figure is a lower bound on epsilon: with the stated confidence the mechanism is not (epsilon', delta)-DP for
any epsilon' below it. Above the accountant's figure it proves a mistake; far below it proves nothing, since the attack
may be weak. Two kinds, both for data sets that differ by adding or removing one example (a canary):

- by repetition (:func:`audit_by_repetition`): the mechanism runs many times with and without one canary;
- in one run (:func:`audit_in_one_run`; Steinke, Nasr and Jagielski 2023): many canaries, each included by a coin flip.

The mechanism comes as a function that returns scores, larger where the canary looks present. With DP-SGD the
strongest score is white-box: the product of each noisy sum with the canary's clipped gradient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from dplib import mechanisms
from dplib.checks import ParameterError, fraction, integer, one_of

METHODS = ("clopper-pearson", "gdp")


@dataclass(frozen=True)
class LowerBound:
    """What an audit found.

    Attributes:
        epsilon: the lower bound, at least 0. delta: what it is for. confidence: with which it holds.
        correct, guesses: true positives plus true negatives, out of all guesses made.
        threshold: the score from which a canary was called present; nan where guesses were by rank.
    """

    epsilon: float
    delta: float
    confidence: float
    correct: int
    guesses: int
    threshold: float = float("nan")


def epsilon_lower_bound(
    true_positives, positives, false_positives, negatives, delta, confidence=0.95, method="clopper-pearson"
):
    """Lower bound on epsilon from an attack's hits and false alarms on independent runs.

    With exact (Clopper-Pearson) one-sided limits TPR >= t and FPR <= f, each at (1 - confidence)/2, (epsilon, delta)-DP
    asks for t <= e^epsilon f + delta and 1 - f <= e^epsilon (1 - t) + delta. Both hold at once: no further correction.

    Args:
        true_positives: runs with the canary that were called so, of ``positives`` runs.
        false_positives: runs without it that were called with, of ``negatives`` runs. Arrays broadcast.
        delta: in [0, 1). confidence: in (0, 1).
        method: "clopper-pearson" holds for every mechanism. "gdp" converts mu = Phi^-1(t) - Phi^-1(f) by the exact
            curve of the Gaussian mechanism: far stronger, and valid only for a mechanism that is known to lose
            privacy as a Gaussian does (noise of unknown size on a full batch, say), not for subsampling.

    Returns:
        An array of the broadcast shape, a float for scalars; at least 0.

    Raises:
        ParameterError: for counts that are no shares, or a value outside its range.
    """
    _check(delta, confidence)
    one_of(*METHODS).check("method", method)
    counts = np.broadcast_arrays(true_positives, positives, false_positives, negatives)
    hits, runs, alarms, others = (np.asarray(count, dtype=float) for count in counts)
    if not ((hits >= 0) & (hits <= runs) & (alarms >= 0) & (alarms <= others) & (runs >= 1) & (others >= 1)).all():
        raise ParameterError("counts are no shares: 0 <= true_positives <= positives, and so for the negatives.")
    rate, alarm = _limits(hits, runs, alarms, others, confidence)
    if method == "gdp":
        return mechanisms.gaussian_epsilon(1.0, _separation(rate, alarm), max(delta, 1e-300))
    return _refuted(rate, alarm, delta)


def choose_threshold(scores_with, scores_without, delta, confidence=0.95, method="clopper-pearson"):
    """The score that separates best on these runs; the bound must then come from other runs.

    Args:
        scores_with, scores_without: shape (n,) and (k,), one score a run.
    """
    scores_with, scores_without = np.sort(scores_with), np.sort(scores_without)
    candidates = np.unique(np.quantile(np.concatenate([scores_with, scores_without]), np.linspace(0, 1, 401)))
    hits = len(scores_with) - np.searchsorted(scores_with, candidates)
    alarms = len(scores_without) - np.searchsorted(scores_without, candidates)
    limits = _limits(hits, len(scores_with), alarms, len(scores_without), confidence)
    evidence = _separation(*limits) if method == "gdp" else _refuted(*limits, delta)
    return float(candidates[np.argmax(evidence)])


def audit_scores(
    scores_with, scores_without, delta, rng: np.random.Generator, confidence=0.95, method="clopper-pearson", share=0.5
) -> LowerBound:
    """Lower bound from scores of independent runs with and without the canary.

    A random ``share`` of the runs chooses the threshold, the others alone give the bound: choosing on the same runs
    would make it too large.

    Args:
        scores_with, scores_without: shape (n,) and (k,), at least 4 runs each, no nan.
        delta, confidence, method: as in :func:`epsilon_lower_bound`. share: in (0, 1).
    """
    fraction().check("share", share)
    scores_with, scores_without = (_scores(scores) for scores in (scores_with, scores_without))
    halves = []
    for scores in (scores_with, scores_without):
        shuffled, cut = rng.permutation(scores), int(np.clip(round(share * len(scores)), 1, len(scores) - 1))
        halves.append((shuffled[:cut], shuffled[cut:]))
    (choose_with, test_with), (choose_without, test_without) = halves
    threshold = choose_threshold(choose_with, choose_without, delta, confidence, method)
    hits, alarms = int((test_with >= threshold).sum()), int((test_without >= threshold).sum())
    runs, others = len(test_with), len(test_without)
    epsilon = float(epsilon_lower_bound(hits, runs, alarms, others, delta, confidence, method))
    return LowerBound(epsilon, delta, confidence, hits + others - alarms, runs + others, threshold)


def audit_by_repetition(
    scores: Callable[[bool, int, np.random.Generator], np.ndarray],
    runs: int,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    method: str = "clopper-pearson",
) -> LowerBound:
    """Audit a mechanism by running it ``runs`` times with the canary and as often without.

    Args:
        scores: ``scores(present, runs, rng)`` gives the scores of that many independent runs, shape (runs,).
        runs: at least 4. delta, confidence, method: as in :func:`epsilon_lower_bound`.
    """
    integer(4).check("runs", runs)
    return audit_scores(scores(True, runs, rng), scores(False, runs, rng), delta, rng, confidence, method)


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound on the chance of so many correct guesses under (epsilon, delta)-DP (Steinke et al. 2023, Theorem 5.2).

    Each canary is included by a fair coin. Under epsilon-DP the correct guesses are dominated by W, binomial with
    ``guesses`` trials and success e^epsilon/(1 + e^epsilon). Delta adds 2 canaries delta max_i P(v - i <= W < v)/i: it
    buys an expected number of further correct guesses, spent where i more of them make the most difference.

    Args:
        canaries: how many there are. guesses: how many were guessed, the others abstained from.
        correct: v, the guesses that were right. epsilon: >= 0. delta: in [0, 1).
    """
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise ParameterError(
            f"correct = {correct}, guesses = {guesses}, canaries = {canaries} is not allowed: "
            "0 <= correct <= guesses <= canaries."
        )
    if not epsilon >= 0:
        raise ParameterError(f"epsilon = {epsilon:g} is not allowed: it must be at least 0.")
    success = 1 / (1 + np.exp(-epsilon))
    p_value = stats.binom.sf(correct - 1, guesses, success)
    if delta > 0 and correct > 0:
        fewer = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, success))
        p_value += 2 * canaries * delta * (fewer / np.arange(1, correct + 1)).max()
    return float(min(1.0, p_value))


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that so many correct guesses refute: its p-value is below 1 - confidence.

    Args as in :func:`one_run_p_value`; 0 where nothing is refuted.
    """
    _check(delta, confidence)

    def excess(epsilon):
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    top = 1.0
    while excess(top) < 0:
        top *= 2
    return max(0.0, optimize.brentq(excess, 0.0, top, xtol=1e-9) - 1e-9)


def audit_guesses(scores, included, guesses: int | Sequence[int], delta: float, confidence: float = 0.95) -> LowerBound:
    """Lower bound from the scores of one run with many canaries.

    The canaries of largest scores are called included, as many of smallest scores left out; the others are abstained
    from.

    Args:
        scores: shape (m,), larger where the canary looks included. included: shape (m,), the coin flips.
        guesses: how many to make, even, at most m. Several numbers, fixed in advance, share the error rate among them
            (Bonferroni), and the largest bound is returned.
        delta: in [0, 1). confidence: in (0, 1).

    Raises:
        ParameterError: for shapes that differ, nan among the scores, or a number of guesses that cannot be made.
    """
    scores, included = _scores(scores), np.asarray(included, dtype=bool)
    if scores.shape != included.shape:
        raise ParameterError(f"scores and included differ in shape: {scores.shape} and {included.shape}.")
    tried = [guesses] if np.ndim(guesses) == 0 else list(guesses)
    for number in tried:
        integer(2, len(scores)).check("guesses", number)
        if number % 2:
            raise ParameterError(f"guesses = {number} is not allowed: it must be even, half for each side.")
    level = 1 - (1 - confidence) / len(tried)
    ranked = included[np.argsort(scores, kind="stable")]
    found = []
    for number in tried:
        correct = int(ranked[-(number // 2) :].sum() + (~ranked[: number // 2]).sum())
        epsilon = one_run_epsilon(len(scores), number, correct, delta, level)
        found.append(LowerBound(epsilon, delta, confidence, correct, number))
    return max(found, key=lambda bound: bound.epsilon)


def audit_in_one_run(
    train: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    canaries: int,
    guesses: int | Sequence[int],
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> LowerBound:
    """Audit a training in one run: flip a coin for each canary, train once, guess (Steinke et al. 2023, Algorithm 1).

    Args:
        train: ``train(included, rng)`` trains with the canaries for which the boolean array ``included``, shape (m,),
            is true (and with whatever other data) and gives a score for every canary, shape (m,).
        canaries: m. guesses, delta, confidence: as in :func:`audit_guesses`.
    """
    integer(2).check("canaries", canaries)
    included = rng.random(canaries) < 0.5
    return audit_guesses(train(included, rng), included, guesses, delta, confidence)


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


def _separation(rate, alarm):
    """The mu of Gaussian DP that the two limits prove, at least 0."""
    return np.maximum(0.0, np.nan_to_num(stats.norm.ppf(rate) - stats.norm.ppf(alarm)))


def _scores(scores):
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or len(scores) < 4 or np.isnan(scores).any():
        raise ParameterError(f"scores of shape {scores.shape} cannot be used: four or more numbers, none of them nan.")
    return scores


def _check(delta, confidence):
    if not 0 <= delta < 1:
        raise ParameterError(f"delta = {delta:g} is not allowed: it must be in [0, 1).")
    fraction().check("confidence", confidence)
