"""The trainings of paper D as kept runs, and the paths of its Figure 1."""

import copy
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import nn

from book.evidence import runs
from dplib import annealing, checks, many_annealing
from dplib.annealing import BY_CHANCE, FORCED, REJECTED, Annealing, Run, Screen, Witness, acceptance_probability
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, training_work
from dplib.dpsgd import DPSGD
from dplib.examples import Pair, squared_error
from dplib.sgd import seeded
from papers.screening import accounts, annealed_settings

if TYPE_CHECKING:  # what lists runs loads this module, and pandas is large
    import pandas as pd

SCHEMES = ("dpsgd-relu", "dpsgd-tanh", "auto-s", "annealed", "non-private")
ENERGIES = ("test", "held", "train", "batch", "public")
WITNESSES = 5000
TENTHS = 10
OUTCOMES = ("rejected", "lower", "by_chance", "forced")
RULE = ("initial_temperature", "exceeds", "starts_at_zero", "keeps_velocity")  # of a job, beside the limit


def _work(job: runs.Job) -> Work:
    """How much a job of :func:`annealed_training` is, without J and without what is rejected."""
    x = annealed_settings.records(job["dataset"], 0, 0)["train"][0]
    names = "learning_rate", "batch", "noise_multiplier"
    used, _ = annealed_settings.settings(job["dataset"], job["rejection_limit"], **{name: job[name] for name in names})
    batch = min(used["batch"], len(x))
    if job["epochs"]:
        steps = job["epochs"] * len(x) // batch
    else:
        setting = used["noise_multiplier"], batch / len(x)
        allowed = job["updates"] or accounts.steps_allowed(job["epsilon"], *setting, job["delta"])
        steps = job["queries"] or allowed
    return training_work(annealed_settings.network(x.shape[1:], "tanh", 0), x, batch, steps)


@runs.experiment(
    "annealed",
    version=1,
    work=_work,
    together=runs.Together(lambda job: _alike(job), lambda jobs, device: _together(jobs, device)),
    data=("dataset",),
    # Large steps, so that all four outcomes of a query are among 200.
    probe={"dataset": "digits", "scheme": "annealed", "energy": "held", "held": 225, "epsilon": 2.0, "queries": 200,
           "batch": 64, "learning_rate": 4.0, "initial_temperature": 3.0, "seed": 3, "points": 4},
)  # fmt: skip
def annealed_training(
    *,
    dataset: str,
    scheme: str,
    seed: int,
    epsilon: float | None = 3.0,
    delta: float = 1e-5,
    spends: str = "accepted",
    updates: int | None = None,
    queries: int | None = None,
    epochs: int | None = None,
    points: int = 30,
    learning_rate: float | None = None,
    batch: int | None = None,
    noise_multiplier: float | None = None,
    rejection_limit: int | str | None = "table-2",
    max_grad_norm: float = annealed_settings.MAX_GRAD_NORM,
    momentum: float = annealed_settings.MOMENTUM,
    initial_temperature: float = 10.0,
    exceeds: bool = False,
    starts_at_zero: bool = False,
    keeps_velocity: bool = False,
    energy: str | None = None,
    energy_size: int = 500,
    held: int = 0,
    report: str = "test",
    witness_every: int | None = None,
    trace: bool = False,
    device: str = "cpu",
) -> runs.Result:
    """Train until the budget is spent, and evaluate on the way and at the end.

    Args:
        dataset: a key of :data:`papers.screening.annealed_settings.TABLE_2`. scheme: of :data:`SCHEMES`; all but
            "dpsgd-relu" have
            tanh, all but "annealed" keep every step: an ``energy`` of those is recorded and decides nothing.
        seed: decides held-out records, initial weights, batches, noise and acceptance. Equal seeds, training records
            and batch sizes give equal weights, batches and noise: schemes may be paired by seed.
        epsilon, delta: the budget by the paper's formula (Lemma 2), which says how many updates there are.
        spends: what it pays for: "accepted" updates, as the paper counts, or all "queries" (noisy gradients).
        updates: spend the budget on so many updates, with the noise that this takes by the same formula.
        queries: a cap on the noisy gradients. epochs: of "non-private", SGD without clipping or noise.
        points: evaluations on the way, evenly spaced in epsilon, by accepted updates and by queries.
        learning_rate, batch, noise_multiplier, rejection_limit: by default those of Table 2; a limit of None is none.
        max_grad_norm to keeps_velocity: of :class:`dplib.dpsgd.DPSGD` and :class:`Annealing`.
        energy: where J is computed: "test", on test records, as the paper prints it; "held", on held-out records;
            "train", on fixed training records; "batch", on those of each step; "public", on public digits (MNIST).
        energy_size: on so many records, drawn by the seed; on all where there are not so many.
        held: training records set aside. Those that J is not computed on are for validation.
        report: "test", accuracy on test records; "validation", on held-out ones.
        witness_every: every so many queries, compare what it did to the loss on 5,000 other training records.
        trace: keep "outcomes" (digits, as in :mod:`dplib.annealing`) and "changes" of every query.

    Returns:
        "accuracy" (0 to 1) and "loss" at the end, None after divergence; "curve", columns with a number for each
        evaluation: queries, accepted, energy, accuracy, loss, and, with an energy on test records, accuracy on those
        "seen" and the others; counts; settings; "tenths" (:func:`by_tenth`) with an energy, "chance"
        (:func:`by_chance`) of annealed runs, "witness" (:func:`witnessed`).
    """
    training = _prepared(dict(locals()), device)
    witness = None
    if witness_every:
        examples_, _ = annealed_settings.drawn(training.train, WITNESSES, np.random.default_rng([seed, 13]))
        witness = Witness(examples_, witness_every)
    run = annealing.train(
        training.net, training.train, training.settings, training.rng, annealing=training.annealing,
        energy=training.energy, accepted=training.accepted, evaluate=training.judged, at_accepted=training.counts,
        at_queries=training.counts, witness=witness, device=device,
    )  # fmt: skip
    result = training.result(run)
    return result | {"witness": witnessed(witness.rows)} if witness else result


@dataclass(frozen=True)
class _Training:
    """What a job of :func:`annealed_training` asks for: a network, its records, and how it is trained and judged.

    ``counts`` are the numbers of updates and of queries at which it is evaluated; ``used`` what its result says of it.
    """

    net: nn.Module
    train: Pair
    settings: DPSGD
    rng: np.random.Generator
    annealing: Annealing | None
    energy: Pair | str | None
    accepted: int | None
    judged: dict[str, Pair]
    counts: list[int]
    used: dict[str, Any]
    trace: bool

    def result(self, run: Run) -> runs.Result:
        """What :func:`annealed_training` returns of a run, but for its witness."""
        result = {**self.used, **_result(run, {name: len(y) for name, (_, y) in self.judged.items()})}
        traced = {
            "outcomes": "".join(map(str, run.outcomes)),
            "changes": [runs.to_figures(change, 4) for change in run.changes],
        }
        if self.energy is not None:
            result["tenths"] = by_tenth(traced)
        if self.annealing:
            result["chance"] = by_chance(traced, self.annealing)
        return result | traced if self.trace else result


def _prepared(job: runs.Job, device: str, plain: bool = False) -> _Training:
    """What a job asks for; ``plain``: of the network that many at once can have, the same function of its weights."""
    checks.one_of(*SCHEMES).check("scheme", scheme := job["scheme"])
    checks.one_of("accepted", "queries").check("spends", job["spends"])
    checks.one_of("test", "validation").check("report", job["report"])
    annealed, private, seed = scheme == "annealed", scheme != "non-private", job["seed"]
    choice, weights, draws = np.random.SeedSequence([seed, 12]).spawn(3)
    parts = annealed_settings.records(job["dataset"], job["held"], seed)
    given = {name: job[name] for name in ("learning_rate", "batch", "noise_multiplier")}
    used, limit = annealed_settings.settings(job["dataset"], job["rejection_limit"], **given)
    rule = Annealing(rejection_limit=limit, **{name: job[name] for name in RULE})
    sample_rate = min(1.0, used["batch"] / len(parts["train"][1]))
    if private and job["updates"]:
        used["noise_multiplier"] = noise_for(sample_rate, job["epsilon"], job["delta"], job["updates"])
    counts, accepted, queries = _lengths(job, rule, used, sample_rate, len(parts["train"][1]))
    pairs = job["dataset"], parts, job["energy"], job["energy_size"], job["report"]
    energy, judged = _sets(*pairs, np.random.default_rng(choice))
    settings = DPSGD(
        steps=queries,
        sample_rate=sample_rate,
        learning_rate=used["learning_rate"],
        noise_multiplier=used["noise_multiplier"] if private else 0.0,
        max_grad_norm=job["max_grad_norm"] if private else None,
        clipping="auto-s" if scheme == "auto-s" else "flat",
        momentum=job["momentum"],
        sampling="poisson" if private else "shuffled",
        physical_batch=annealed_settings.PHYSICAL_BATCH.on(find_device(device)),
    )
    activation = "relu" if scheme == "dpsgd-relu" else "tanh"
    shape, weights_seed = parts["train"][0].shape[1:], int(weights.generate_state(1)[0])
    net = annealed_settings.network(shape, activation, weights_seed, plain)
    used = {**used, "rejection_limit": limit}
    rng = np.random.default_rng(draws)
    return _Training(
        net, parts["train"], settings, rng, rule if annealed else None, energy, accepted, judged, counts, used,
        job["trace"],
    )  # fmt: skip


def _lengths(
    job: runs.Job, rule: Annealing, used: Mapping[str, Any], sample_rate: float, n: int
) -> tuple[list[int], int | None, int]:
    """Counts at which a training is evaluated, accepted updates after which it ends, and queries, at most."""
    if job["scheme"] == "non-private":
        return [], None, max(1, n // used["batch"]) * job["epochs"]
    counts = budget(used["noise_multiplier"], sample_rate, job["epsilon"], job["delta"], job["points"])
    if job["scheme"] != "annealed" or job["spends"] != "accepted":
        return counts, None, job["queries"] or counts[-1]
    queries = job["queries"] or rule.most_queries(counts[-1])
    if queries is None:
        raise ParameterError("queries = None is not allowed without a rejection limit: training might not end.")
    return counts, counts[-1], queries


def _together(jobs: Sequence[runs.Job], device: str) -> list[runs.Result]:
    """Results of jobs that :func:`_alike` calls alike, trained side by side."""
    trainings = [_prepared(job, device, plain=True) for job in jobs]
    # A limit on rejections also limits the queries: a cap that is too high is never reached.
    steps = max(training.settings.steps for training in trainings)
    first = trainings[0]
    done = many_annealing.train(
        [training.net for training in trainings],
        [training.train for training in trainings],
        [replace(training.settings, steps=steps) for training in trainings],
        [training.rng for training in trainings],
        annealing=[training.annealing or Annealing(initial_temperature=0.0) for training in trainings],
        energy=[training.energy for training in trainings],
        accepted=[training.accepted for training in trainings],
        evaluate=[training.judged for training in trainings],
        at_accepted=first.counts,
        at_queries=first.counts,
        device=device,
    )
    return [
        training.result(replace(run, settings=training.settings)) for training, run in zip(trainings, done, strict=True)
    ]


def _alike(job: runs.Job) -> str | None:
    """What is equal of jobs that can be trained side by side: all but what each model may have of its own."""
    apart = {"seed", "learning_rate", "momentum", "max_grad_norm", "rejection_limit", "trace", *RULE}
    if (
        job["scheme"] == "non-private"
        or job["witness_every"]
        or (job["rejection_limit"] is None and not job["queries"])
    ):
        return None
    return json.dumps({name: value for name, value in job.items() if name not in apart}, sort_keys=True)


def _sets(
    dataset: str, parts: dict[str, Pair], energy: str | None, size: int, report: str, rng: np.random.Generator
) -> tuple[Pair | str | None, dict[str, Pair]]:
    """Where J is computed, and the examples by name on which accuracy is."""
    if energy is not None:
        checks.one_of(*ENERGIES).check("energy", energy)
    checks.integer(1).check("energy_size", size)
    if "held" not in parts and (energy == "held" or report == "validation"):
        raise ParameterError("held = 0 is not allowed here: records have to be set aside for that.")
    if energy == "public" and dataset != "mnist":
        raise ParameterError(f"energy = 'public' is for mnist: no public examples of {dataset} are at hand.")
    judges: Pair | str | None = energy
    others = None
    if energy == "public":
        judges, others = annealed_settings.drawn(annealed_settings.public_digits(), size, rng)
    elif energy in parts:
        judges, others = annealed_settings.drawn(parts[energy], size, rng)
    if report == "validation":
        return judges, {"validation": others if energy == "held" else parts["held"]}
    if energy == "test" and len(others[1]):
        return judges, {"seen": judges, "unseen": others}
    return judges, {"test": parts["test"]}


def _result(run: Run, sizes: dict[str, int]) -> dict[str, Any]:
    total = sum(sizes.values())

    def mean(row: dict[str, Any], what: str) -> float | None:
        value = sum(row[name][what] * size for name, size in sizes.items()) / total
        return value if math.isfinite(value) else None

    rows = run.evaluations
    curve = {name: [row[name] for row in rows] for name in ("queries", "accepted", "energy")}
    curve |= {"accuracy": [mean(row, "metric") for row in rows], "loss": [mean(row, "loss") for row in rows]}
    if "seen" in sizes:
        curve |= {name: [row[name]["metric"] for row in rows] for name in sizes}
    return {name: run.outcomes.count(i) for i, name in enumerate(OUTCOMES)} | {
        "accuracy": None if run.diverged else curve["accuracy"][-1],
        "loss": None if run.diverged else _short(curve["loss"][-1]),
        "curve": {name: [_short(value) for value in column] for name, column in curve.items()},
        "n": run.records,
        "sample_rate": run.settings.sample_rate,
        "queries": run.queries,
        "accepted": run.accepted,
        "diverged": run.diverged,
    }


def budget(noise_multiplier: float, sample_rate: float, epsilon: float, delta: float, points: int) -> list[int]:
    """Numbers of updates at ``points`` budgets up to ``epsilon``, evenly spaced; the last one is all that it allows."""
    setting = noise_multiplier, sample_rate
    steps = accounts.steps_allowed(epsilon, *setting, delta)
    if steps < 1:
        raise ParameterError(f"epsilon = {epsilon:g} is not allowed: it does not pay for one update.")
    low = accounts.paper_epsilon(*setting, max(1, steps // 100), delta)
    spread = np.linspace(low, epsilon, points)[:-1]
    return sorted({*(accounts.steps_allowed(float(e), *setting, delta) for e in spread), steps} - {0})


def noise_for(sample_rate: float, epsilon: float, delta: float, updates: int) -> float:
    """The noise multiplier with which so many updates spend the budget by the paper's formula, to four digits, upwards.

    ParameterError where no noise up to 1,000 is enough.
    """
    checks.integer(1).check("updates", updates)

    def over(noise: float) -> float:
        return float(accounts.paper_epsilon(noise, sample_rate, updates, delta)) - epsilon

    if over(1000.0) > 0:
        least = float(np.log(1 / delta) / (accounts.ORDERS[-1] - 1))
        raise ParameterError(
            f"epsilon = {epsilon:g} is not allowed: it must be above {least:.3f}, what the paper's formula costs alone."
        )
    return float(np.ceil(brentq(over, 0.2, 1000.0) * 1e4) / 1e4)


def by_tenth(traced: Mapping[str, Any]) -> dict[str, list[int]]:
    """Counts by tenth of a traced run's queries: "queries", "rises" of J, "kept_rises", and what became of which."""
    import pandas as pd

    frame = pd.DataFrame({"rises": np.array(traced["changes"]) > 0, "queries": 1})
    outcomes = np.array([int(c) for c in traced["outcomes"]])
    for kind, name in enumerate(OUTCOMES):
        frame[name] = outcomes == kind
    frame["kept_rises"] = frame["rises"] & ~frame["rejected"]
    rows = [frame.iloc[part].sum() for part in np.array_split(np.arange(len(frame)), TENTHS)]
    return {name: [int(row[name]) for row in rows] for name in ("queries", "rises", "kept_rises", *OUTCOMES)}


def by_chance(traced: Mapping[str, Any], rule: Annealing) -> dict[str, Any]:
    """A traced run replayed by Algorithm 2.

    Returns:
        "contradictions": queries that its steps do not allow. "longest": the longest run of rejections. Of the rises of
        J that chance decides: "expected" and "variance" of how many pass, by equation (3); "passed", how many did;
        "median", their median size; and of those from half to twice that size, by tenth of the run, "near" how many
        there were and "near_passed" how many passed.
    """
    rises, contradictions = replayed(traced, rule)
    p = rises["probability"].to_numpy(float)
    median = float(rises["change"].median()) if len(rises) else None
    near = rises[rises["change"].between(median / 2, 2 * median)] if len(rises) else rises
    tenth = (near["query"] * TENTHS // len(traced["outcomes"])).to_numpy(int)
    return {
        "contradictions": contradictions,
        "longest": max((len(run) for run in re.findall("0+", traced["outcomes"])), default=0),
        "expected": _short(float(p.sum())),
        "variance": _short(float((p * (1 - p)).sum())),
        "passed": int(rises["passed"].sum()),
        "median": _short(median),
        "near": np.bincount(tenth, minlength=TENTHS).tolist(),
        "near_passed": np.bincount(tenth[near["passed"].to_numpy(bool)], minlength=TENTHS).tolist(),
    }


def replayed(traced: Mapping[str, Any], rule: Annealing) -> "tuple[pd.DataFrame, int]":
    """The queries of a trace that chance decides (J rises, below the limit on rejections), and contradictions.

    Returns:
        Columns query (from 0), change of J, probability (e^(-Q change), by the replayed temperature) and passed; and
        how many queries Algorithm 2 does not allow. Uniform draws are not in a trace: where chance decides, both are.
    """
    import pandas as pd

    screen, rows, wrong = Screen(rule), [], 0
    for query, (outcome, change) in enumerate(zip(map(int, traced["outcomes"]), traced["changes"], strict=True)):
        wrong += outcome not in {copy.copy(screen).decide(change, u) for u in (0.0, 1 - 1e-12)}
        if change > 0 and copy.copy(screen).decide(math.inf, 0.5) != FORCED:
            rows.append((query, change, acceptance_probability(change, screen.temperature), outcome == BY_CHANCE))
        screen.queries += 1
        screen.accepted += outcome != REJECTED
        screen.rejections = screen.rejections + 1 if outcome == REJECTED else 0
        screen.temperature = rule.initial_temperature * screen.accepted
    return pd.DataFrame(rows, columns=["query", "change", "probability", "passed"]), wrong


def witnessed(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """What the queries that a witness heard did to its loss: counts by outcome, those that lower it, those that lower J
    and of these the ones that raise its loss, those in which it and J "agree", and the "correlation" of both.
    """
    outcome, witness, change = (np.array([row[name] for row in rows]) for name in ("outcome", "witness", "change"))
    kept, lower = outcome != REJECTED, witness < 0
    return {
        "accepted": int(kept.sum()),
        "accepted_lower": int((kept & lower).sum()),
        "rejected": int((~kept).sum()),
        "rejected_lower": int((~kept & lower).sum()),
        "lower_j": int((change < 0).sum()),
        "lower_j_alone": int(((change < 0) & (witness > 0)).sum()),
        "agree": int(((change < 0) == lower).sum()),
        "correlation": _short(float(np.corrcoef(change, witness)[0, 1])),
    }


def _short(value: float | None) -> float | None:
    """Six figures, which is more than a second machine would give."""
    return value if value is None or isinstance(value, int) else runs.to_figures(value, 6)


def same_as_plain() -> float:
    """With Q0 = 0 every candidate is kept: the largest difference of the loss to plain DP-SGD's, over 20 updates."""
    shared = {"dataset": "digits", "seed": 0, "queries": 20}
    plain = annealed_training(**shared, scheme="dpsgd-tanh")
    kept = annealed_training(**shared, scheme="annealed", energy="test", initial_temperature=0.0)
    return float(np.abs(np.subtract(plain["curve"]["loss"], kept["curve"]["loss"])).max())


def refuses_batch_norm() -> bool:
    """Whether annealed DP-SGD refuses a network whose records influence each other's gradients."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3))
    x, y = np.zeros((8, 4), np.float32), np.zeros(8, np.int64)
    try:
        annealing.train(net, (x, y), DPSGD(1, 0.5, 0.1, 1.0, 1.0), np.random.default_rng(0), energy=(x, y))
    except ParameterError:
        return True
    return False


# ---- Figure 1: a linear regression ----

START = (-1.0, -1.5)  # slope and intercept


@runs.experiment("annealed_line", version=1, probe={"annealed": True, "seed": 1, "queries": 60})
def line(*, annealed: bool, seed: int, queries: int = 300) -> runs.Result:
    """One :func:`path` as plain values; "accepted" is a text, 1 for each query that was kept and 0 for the others."""
    walk = path(annealed=annealed, seed=seed, queries=queries)
    return {
        "distance": [runs.to_figures(d, 4) for d in walk["distance"]],
        "accepted": "".join(map(str, walk["accepted"])),
    }


def path(*, annealed: bool, seed: int, queries: int, initial_temperature: float = 10.0) -> dict[str, list]:
    """One training of y = 2 x + 1 + N(0, 1/4) from :data:`START`, J on all 500 records; equal seeds pair the methods.

    Returns:
        "distance" to the least-squares solution before the first query and after each, (queries + 1,); "accepted", 0 or
        1 for each query.
    """
    rng = np.random.default_rng([seed, 1])
    x = rng.standard_normal((500, 1))
    y = 2.0 * x + 1.0 + 0.5 * rng.standard_normal((500, 1))
    optimum = np.linalg.lstsq(np.hstack([x, np.ones_like(x)]), y, rcond=None)[0][:, 0]
    net = seeded(lambda: nn.Linear(1, 1), 0).double()
    with torch.no_grad():
        net.weight.fill_(START[0])
        net.bias.fill_(START[1])
    seen = [np.array(START)]
    run = annealing.train(
        net,
        (x, y),
        DPSGD(queries, sample_rate=0.1, learning_rate=0.4, noise_multiplier=5.0, max_grad_norm=1.0),
        np.random.default_rng([seed, 2]),
        annealing=Annealing(initial_temperature) if annealed else None,
        energy=(x, y),
        follow=lambda weights: seen.append(weights.numpy().copy()),
        loss=squared_error,
        metric=squared_error,
    )
    return {
        "distance": np.linalg.norm(np.array(seen) - optimum, axis=1).tolist(),
        "accepted": [int(outcome != REJECTED) for outcome in run.outcomes],
    }
