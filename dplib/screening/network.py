"""One-run audits of annealed DP-SGD on a real network, and how much such an audit could find at all.

A canary is a training record with a wrong label, there or not by the flip of a coin; one training has many of them. An
absent one stays as a record whose loss is 0, so that the number of records, by which the sum is divided, is public:
neighbours differ by adding or removing one record.

The bound is that of Steinke, Nasr and Jagielski (2023, Theorem 5.2). Trainings on canaries of their own are together
one mechanism, in which a record is in one training only, so that their canaries are audited together (parallel
composition). A bound above the claim refutes it; one below may be the attack's fault, or the audit's: :func:`ideal` is
what the same canaries show where nothing but the noise hides them, and :func:`most` what any canaries can show.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from dplib import accounting, audit, checks, runs, stats
from dplib.checks import ParameterError
from dplib.dpsgd import DPSGD
from dplib.examples import Pair
from dplib.screening import accounts, annealing, jobs, one_update
from dplib.screening.annealing import Annealing
from dplib.screening.attacks import GradientAttack, RuleAttack
from dplib.sgd import find_device

Result = Mapping[str, Any]
SHARES = (0.2, 0.5)  # of the canaries that are guessed; fixed in advance, they share the error rate


def guesses(canaries: int, shares: Sequence[float] = SHARES) -> list[int]:
    """Even numbers of guesses, these shares of the canaries, 2 at least."""
    return sorted({max(2, 2 * int(share * canaries / 2)) for share in shares})


def found(results: Sequence[Result], delta: float, confidence: float = 0.95) -> audit.LowerBound:
    """The lower bound of trainings of one kind, each with canaries of its own; scores count in units of their run."""
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
    trials = [
        one_update.trial(1 / noise_multiplier, one_update.always(), sample_rate, present) for present in (True, False)
    ]
    return one_update.cells(*(one_update.released(trial, 0) for trial in trials), width, enclose=False)


def row(results: Sequence[Result], delta: float, trained: bool = True) -> dict[str, Any]:
    """A row of the chapter's table for trainings of one kind, as many updates each.

    "claimed" is the paper's count of the accepted updates (nan unless ``trained``), "by PLD" the same number of plain
    updates by a tight account, and "all queries" that of all noisy gradients of the longest training.
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


JUDGED = ("test", "training", "held-out")
ABSENT = -100  # the label of a canary that is not there


def present_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Losses (b,) of scores (b, k) and labels (b,), 0 where the record is absent."""
    return F.cross_entropy(outputs, y, reduction="none", ignore_index=ABSENT)


@runs.experiment(
    "screening_canaries",
    version=1,
    data=("dataset",),
    probe={
        "dataset": "digits",
        "seed": 3,
        "judged": "training",
        "canaries": 20,
        "energy_size": 20,
        "accepted": 30,
        "batch": 16,
        "momentum": 0.0,
        "initial_temperature": 100.0,
    },
)
def train(
    *,
    dataset: str,
    seed: int,
    judged: str,
    canaries: int,
    accepted: int,
    screened: bool = True,
    queries: int | None = None,
    energy_size: int = 500,
    block: int = 10,
    reference: int = 256,
    learning_rate: float | None = None,
    batch: int | None = None,
    noise_multiplier: float | None = None,
    rejection_limit: int | str | None = "table-2",
    initial_temperature: float = 10.0,
    momentum: float = jobs.MOMENTUM,
    device: str = "cpu",
) -> runs.Result:
    """Train with canaries that coins put in, and score every canary; a larger score says that it was there.

    Args:
        dataset: of ``jobs.TABLE_2``, from which settings of None are taken. seed: decides canaries, coins, weights and
            run.
        judged: where J is computed: "test", on test records, as printed, the canaries among the training records
            (attacked by their gradients); "training", on fixed training records, the canaries among them; "held-out",
            on fixed records that are not trained on, the canaries among *them* (both attacked by the rule of
            acceptance).
        canaries: so many records. accepted, queries: the stop. screened: False is plain DP-SGD.
        energy_size: records of J, the canaries included where they are among them. block: of the attack on the
            gradients. reference: training records that it estimates batches from.

    Returns:
        "scores" and "included", lists (m,); counts; "accuracy" on test records; "n", "sample_rate", and the settings
            used.
    """
    checks.one_of(*JUDGED).check("judged", judged)
    checks.integer(2).check("canaries", canaries)
    checks.boolean().check("screened", screened)
    if judged != "test":
        checks.integer(canaries).check("energy_size", energy_size)
    used, limit = jobs.settings(
        dataset, rejection_limit, learning_rate=learning_rate, batch=batch, noise_multiplier=noise_multiplier
    )
    how = Annealing(initial_temperature if screened else 0.0, limit)
    most = queries or how.most_queries(accepted)
    if most is None:
        raise ParameterError("queries = None is not allowed without a rejection limit: training might not end.")
    choice, coins, weights, draws = np.random.SeedSequence([seed, 14]).spawn(4)
    included = np.random.default_rng(coins).random(canaries) < 0.5
    parts = _parts(jobs.records(dataset, 0, seed), judged, included, energy_size, reference, choice)
    n = len(parts["train"][1])
    settings = DPSGD(
        steps=most,
        sample_rate=min(1.0, used["batch"] / n),
        learning_rate=used["learning_rate"],
        noise_multiplier=used["noise_multiplier"],
        max_grad_norm=jobs.MAX_GRAD_NORM,
        momentum=momentum,
        physical_batch=jobs.PHYSICAL_BATCH,
    )
    net = jobs.network(parts["train"][0].shape[1:], "tanh", int(weights.generate_state(1)[0]))
    net.to(find_device(device))  # the attacks look at it from the start
    if judged == "test":
        attack = GradientAttack(net, settings, n, parts["canaries"], parts["reference"], block)
    else:
        attack = RuleAttack(net, parts["canaries"], parts["other judges"], initial_temperature)
    run = annealing.train(
        net,
        parts["train"],
        settings,
        np.random.default_rng(draws),
        annealing=how if screened else None,
        energy=parts["judges"],
        accepted=accepted,
        evaluate={"test": parts["test"]},
        follow=attack,
        loss=present_cross_entropy,
        device=device,
    )
    counts = {name: run.outcomes.count(i) for i, name in enumerate(("rejected", "lower", "by_chance", "forced"))}
    return counts | {
        **used,
        "scores": [float(f"{score:.6g}") for score in attack.scores()],
        "included": included.astype(int).tolist(),
        "accepted": run.accepted,
        "queries": run.queries,
        "accuracy": None if run.diverged else run.final["test"]["metric"],
        "n": n,
        "sample_rate": settings.sample_rate,
        "rejection_limit": limit,
    }


def _parts(
    found: dict[str, Pair], judged: str, included: np.ndarray, size: int, reference: int, seed: np.random.SeedSequence
) -> dict[str, Pair]:
    """Examples by use: "canaries" are all of them, with their wrong labels; "judges" are those of J."""
    rng = np.random.default_rng(seed)
    x, y = found["train"]
    m = len(included)
    checks.integer(1, len(y) - m - size).check("reference", reference)
    order = rng.permutation(len(y))
    own, others = order[:m], order[m:]
    wrong = (y[own] + rng.integers(1, 10, m)) % 10
    present = np.where(included, wrong, ABSENT)
    trained_on = judged != "held-out"
    rest = np.sort(others if trained_on else others[size - m :])  # held-out records are not trained on
    train = (x[rest], y[rest])
    if trained_on:
        train = (np.concatenate([train[0], x[own]]), np.concatenate([train[1], present]))
    more = others[: 0 if judged == "test" else size - m]
    if judged == "test":
        chosen = np.sort(rng.permutation(len(found["test"][1]))[:size])
        judges = tuple(part[chosen] for part in found["test"])
    else:
        judges = (np.concatenate([x[own], x[more]]), np.concatenate([present, y[more]]))
    known = others[-reference:]
    return {
        "train": train,
        "judges": judges,
        "canaries": (x[own], wrong),
        "other judges": (x[more], y[more]),
        "reference": (x[known], y[known]),
        "test": found["test"],
    }
