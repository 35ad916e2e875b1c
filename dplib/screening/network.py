"""One-run audits of annealed DP-SGD on a real network, and how much such an audit could find at all.

The bound is that of Steinke, Nasr and Jagielski (2023, Theorem 5.2). Trainings on canaries of their own are together
one mechanism, in which a record is in one training only, so that their canaries are audited together (parallel
composition). A bound above the claim refutes it; one below may be the attack's fault, or the audit's: :func:`ideal` is
what the same canaries show where nothing but the noise hides them, and :func:`most` what any canaries can show.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib import accounting, audit, stats
from dplib.checks import ParameterError
from dplib.screening import accounts, one_update, rules

Result = Mapping[str, Any]
SHARES = (0.2, 0.5)  # of the canaries that are guessed; fixed in advance, they share the error rate


def guesses(canaries: int, shares: Sequence[float] = SHARES) -> list[int]:
    """Even numbers of guesses, these shares of the canaries, 2 at least."""
    return sorted({max(2, 2 * int(share * canaries / 2)) for share in shares})


def found(results: Sequence[Result], delta: float, confidence: float = 0.95) -> audit.LowerBound:
    """The lower bound of trainings of one kind, each with canaries of its own; scores count in units of their run.

    Raises:
        ParameterError: without any training.
    """
    if not results:
        raise ParameterError("results = [] is not allowed: an audit needs a training.")
    scores = np.concatenate([_standard(result["scores"]) for result in results])
    included = np.concatenate([np.asarray(result["included"], bool) for result in results])
    return audit.audit_guesses(scores, included, guesses(len(scores)), delta, confidence)


def most(canaries: int, delta: float, confidence: float = 0.95) -> float:
    """The bound if every guess were right: no attack finds more with so many canaries."""
    level = 1 - (1 - confidence) / len(SHARES)
    return max(audit.one_run_epsilon(canaries, n, n, delta, level) for n in guesses(canaries))


def ideal(pair: one_update.Cells, updates: int, canaries: int, delta: float, rng: np.random.Generator) -> float:
    """The bound of an audit in which every canary has a coordinate to itself, and the score is its exact privacy loss.

    Args:
        pair: one released update with and without the record; ``updates`` of them are independent.
    """
    with np.errstate(divide="ignore"):
        loss = np.clip(np.log(pair.p) - np.log(pair.q), -40, 40)
    loss[(pair.p == 0) & (pair.q == 0)] = 0.0
    tables = [np.cumsum(mass) / mass.sum() for mass in (pair.q, pair.p)]
    included = rng.random(canaries) < 0.5
    scores = np.empty(canaries)
    for present in (0, 1):
        rows = np.flatnonzero(included == present)
        drawn = np.searchsorted(tables[present], rng.random((len(rows), updates)))
        scores[rows] = loss[np.minimum(drawn, len(loss) - 1)].sum(axis=1)
    return audit.audit_guesses(scores, included, guesses(canaries), delta).epsilon


def plain_update(noise_multiplier: float, sample_rate: float, width: float = 0.05) -> one_update.Cells:
    """One update of plain DP-SGD with and without a record."""
    trials = [one_update.trial(1 / noise_multiplier, rules.always(), sample_rate, present) for present in (True, False)]
    return one_update.cells(*(one_update.released(trial, 0) for trial in trials), width, enclose=False)


def row(results: Sequence[Result], delta: float, trained: bool = True) -> dict[str, Any]:
    """A row of the chapter's table for trainings of one kind, as many updates each.

    "claimed" is the paper's count of the accepted updates (nan unless ``trained``: of other records it says nothing),
    "by PLD" the same number of plain updates by a tight account, and "all queries" that of all noisy gradients of the
    longest training.
    """
    lower = found(results, delta)
    one = results[0]
    setting = one["noise_multiplier"], one["sample_rate"]
    accepted, queries = (max(result[name] for result in results) for name in ("accepted", "queries"))
    canaries = len(one["scores"]) * len(results)
    return {
        "trainings": len(results),
        "canaries": canaries,
        "accepted": accepted,
        "queries": queries,
        "claimed": float(accounts.paper_epsilon(*setting, accepted, delta)) if trained else float("nan"),
        "by PLD": float(accounting.epsilon(*setting, accepted, delta, "pld")),
        "all queries": float(accounting.epsilon(*setting, queries, delta, "pld")),
        "right": stats.proportion_interval(lower.correct, lower.guesses),
        "found, at least": lower.epsilon,
        "all guesses right": most(canaries, delta),
    }


def _standard(scores: Sequence[float]) -> np.ndarray:
    scores = np.asarray(scores, float)
    return (scores - scores.mean()) / max(float(scores.std()), 1e-12)
