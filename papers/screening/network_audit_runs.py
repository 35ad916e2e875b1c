"""One-run audits of annealed DP-SGD on a real network.

A canary is a training record with a wrong label, there or not by the flip of a coin; one training has many of them. An
absent one stays as a record whose loss is 0, so that the number of records, by which the sum is divided, is public:
neighbours differ by adding or removing one record.

The bound is that of Steinke, Nasr and Jagielski (2023, Theorem 5.2). Trainings on canaries of their own are together
one mechanism, in which a record is in one training only, so that their canaries are audited together (parallel
composition). A bound above the claim refutes it; one below may be the attack's fault, or the audit's
(:func:`dplib.audit.one_run_limit` says what such an audit can show).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from book.evidence import runs
from dplib import annealing, audit, checks
from dplib.annealing import Annealing
from dplib.checks import ParameterError
from dplib.devices import find_device
from dplib.examples import Pair
from papers.screening import accounts, annealed_settings
from papers.screening.attacks import GradientAttack, RuleAttack

Result = Mapping[str, Any]
SHARES = (0.2, 0.5)  # of the canaries that are guessed; fixed in advance, they share the error rate


def lower_bound(results: Sequence[Result], delta: float) -> audit.LowerBound:
    """The lower bound (95%) of trainings of one kind, each with its own canaries; scores in units of their run."""
    scores_of = (np.asarray(result["scores"], float) for result in results)
    scores = np.concatenate([(part - part.mean()) / max(float(part.std()), 1e-12) for part in scores_of])
    included = np.concatenate([np.asarray(result["included"], bool) for result in results])
    guesses = sorted({max(2, 2 * int(share * len(scores) / 2)) for share in SHARES})
    return audit.audit_guesses(scores, included, guesses, delta)


def claimed(results: Sequence[Result], delta: float) -> float:
    """The paper's count of the accepted updates of the longest of these trainings."""
    updates = max(result["accepted"] for result in results)
    return float(accounts.paper_epsilon(results[0]["noise_multiplier"], results[0]["sample_rate"], updates, delta))


JUDGED = ("test", "training", "held-out")
ABSENT = -100  # the label of a canary that is not there


def present_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Losses (b,) of scores (b, k) and labels (b,), 0 where the record is absent."""
    return F.cross_entropy(outputs, y, reduction="none", ignore_index=ABSENT)


@runs.experiment(
    "screening_canaries",
    version=1,
    data=("dataset",),
    # Judged by "test": the other attack's scores are differences of losses, which rounding changes.
    probe={"dataset": "digits", "seed": 3, "judged": "test", "canaries": 20, "energy_size": 20, "accepted": 5,
           "block": 4, "batch": 16, "momentum": 0.0, "initial_temperature": 100.0},
)  # fmt: skip
def audited_training(
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
    momentum: float = annealed_settings.MOMENTUM,
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
    used, limit = annealed_settings.settings(
        dataset, rejection_limit, learning_rate=learning_rate, batch=batch, noise_multiplier=noise_multiplier
    )
    how = Annealing(initial_temperature if screened else 0.0, limit)
    most = queries or how.most_queries(accepted)
    if most is None:
        raise ParameterError("queries = None is not allowed without a rejection limit: training might not end.")
    choice, coins, weights, draws = np.random.SeedSequence([seed, 14]).spawn(4)
    included = np.random.default_rng(coins).random(canaries) < 0.5
    parts = _parts(annealed_settings.records(dataset, 0, seed), judged, included, energy_size, reference, choice)
    n = len(parts["train"][1])
    place = find_device(device)
    sample_rate = min(1.0, used["batch"] / n)
    settings = annealed_settings.dpsgd(used, most, sample_rate, momentum, place)
    net = annealed_settings.network(parts["train"][0].shape[1:], "tanh", int(weights.generate_state(1)[0]))
    net.to(place)  # the attacks look at it from the start
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
        device=place.type,
    )
    counts = {name: run.outcomes.count(i) for i, name in enumerate(("rejected", "lower", "by_chance", "forced"))}
    return counts | {
        **used,
        "scores": [runs.to_figures(score, 6) for score in attack.scores()],
        "included": included.astype(int).tolist(),
        "accepted": run.accepted,
        "queries": run.queries,
        "accuracy": None if run.diverged else run.final["test"]["metric"],
        "n": n,
        "sample_rate": sample_rate,
        "rejection_limit": limit,
    }


def _parts(
    parts: dict[str, Pair], judged: str, included: np.ndarray, size: int, reference: int, seed: np.random.SeedSequence
) -> dict[str, Pair]:
    """Examples by use: "canaries" are all of them, with their wrong labels; "judges" are those of J."""
    rng = np.random.default_rng(seed)
    x, y = parts["train"]
    m = len(included)
    checks.integer(1, len(y) - m - size).check("reference", reference)
    order = rng.permutation(len(y))
    chosen_rows, others = order[:m], order[m:]
    wrong = (y[chosen_rows] + rng.integers(1, 10, m)) % 10
    present = np.where(included, wrong, ABSENT)
    trained_on = judged != "held-out"
    rest = np.sort(others if trained_on else others[size - m :])  # held-out records are not trained on
    train = (x[rest], y[rest])
    if trained_on:
        train = (np.concatenate([train[0], x[chosen_rows]]), np.concatenate([train[1], present]))
    more = others[: 0 if judged == "test" else size - m]
    if judged == "test":
        chosen = np.sort(rng.permutation(len(parts["test"][1]))[:size])
        judges = tuple(part[chosen] for part in parts["test"])
    else:
        judges = (np.concatenate([x[chosen_rows], x[more]]), np.concatenate([present, y[more]]))
    known = others[-reference:]
    return {
        "train": train,
        "judges": judges,
        "canaries": (x[chosen_rows], wrong),
        "other judges": (x[more], y[more]),
        "reference": (x[known], y[known]),
        "test": parts["test"],
    }
