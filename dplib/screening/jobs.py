"""One training of the chapter on annealed DP-SGD: plain values in, plain values out, for :mod:`dplib.runs`."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dplib import checks, data, models, trainings
from dplib.checks import ParameterError
from dplib.data import Dataset
from dplib.dpsgd import DPSGD
from dplib.examples import Pair
from dplib.models import ACTIVATIONS
from dplib.screening import annealing
from dplib.screening.annealing import Annealing, Run, Witness
from dplib.sgd import seeded

SCHEMES = ("dpsgd-relu", "dpsgd-tanh", "auto-s", "annealed", "non-private")
ENERGIES = ("test", "held", "train", "batch", "public")
# Table 2 of the paper, with the momentum of the work it takes its hyper-parameters from (Tramer and Boneh 2020), which
# Table 2 does not print. "digits" is ours: MNIST's, for a training part a third as large.
TABLE_2 = {
    "mnist": {"learning_rate": 0.5, "batch": 512, "noise_multiplier": 1.23, "rejection_limit": 10},
    "fashion-mnist": {"learning_rate": 4.0, "batch": 2048, "noise_multiplier": 2.15, "rejection_limit": 5},
    "cifar10": {"learning_rate": 1.0, "batch": 1024, "noise_multiplier": 1.54, "rejection_limit": 10},
    "digits": {"learning_rate": 0.5, "batch": 256, "noise_multiplier": 1.23, "rejection_limit": 10},
}
TABLE_2["cifar10-jpeg"] = TABLE_2["cifar10"]
MAX_GRAD_NORM, MOMENTUM = 0.1, 0.9
WITNESSES = 5000
PHYSICAL_BATCH = 640  # nearly every Poisson batch of expected size 512 goes through in one piece
CIFAR_MEAN, CIFAR_SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # public constants, as in the earlier work


@functools.lru_cache(maxsize=2)
def _loaded(dataset: str) -> Dataset:
    checks.one_of(*TABLE_2).check("dataset", dataset)
    found = data.load(dataset)
    if dataset == "digits":
        return trainings.shifted(found, 20_000, np.random.default_rng(0))
    if found.x_train.shape[1] == 3:
        mean, sd = (np.array(c, np.float32).reshape(3, 1, 1) for c in (CIFAR_MEAN, CIFAR_SD))
        return replace(found, x_train=(found.x_train - mean) / sd, x_test=(found.x_test - mean) / sd)
    return found


def records(dataset: str, held: int, seed: int) -> dict[str, Pair]:
    """{"train", "test"}, and "held": so many random training records set aside. The test part is as published.

    Raises:
        ParameterError: for a data set that has no settings here, or too many records to set aside.
    """
    found = _loaded(dataset)
    n = len(found.y_train)
    checks.integer(0, n - 1).check("held", held)
    parts = {"train": (found.x_train, found.y_train), "test": (found.x_test, found.y_test)}
    if held:  # no copy of all images otherwise
        parts["held"], parts["train"] = _drawn(parts["train"], held, np.random.default_rng([seed, 11]))
    return parts


def _drawn(pair: Pair, count: int, rng: np.random.Generator) -> tuple[Pair, Pair]:
    """So many random examples, at most all, and the others."""
    x, y = pair
    order = rng.permutation(len(y))
    some, others = np.sort(order[:count]), np.sort(order[count:])
    return (x[some], y[some]), (x[others], y[others])


def public_digits() -> Pair:
    """scikit-learn's 8x8 digits at the scale of MNIST, 20x20 pixels within 28x28: public examples of the same task."""
    found = data.load("digits")
    x = torch.from_numpy(np.concatenate([found.x_train, found.x_test]))
    large = F.interpolate(x, size=(20, 20), mode="bilinear", align_corners=False)
    return F.pad(large, (4, 4, 4, 4)).numpy(), np.concatenate([found.y_train, found.y_test])


def network(shape: tuple[int, ...], activation: str, seed: int) -> nn.Sequential:
    """Paper D's network for images of this shape, and a small one for 8x8 digits."""
    makers = {(1, 8, 8): _digits_cnn, (1, 28, 28): quick_cnn4, (3, 32, 32): models.cnn9}
    if shape not in makers:
        raise ParameterError(f"images of shape {shape} have no network here: 8x8, 28x28 grey or 32x32 colour only.")
    return seeded(lambda: makers[shape](ACTIVATIONS[activation]), seed)


def quick_cnn4(activation: Callable[[], nn.Module]) -> nn.Sequential:
    """``models.cnn4``, the same function of the same weights, a tenth faster in training and more so without.

    Increasing activations may come after a maximum, of fewer numbers then; and the last row and column of the first
    pooled images, which the second convolution's stride leaves out, are not computed.
    """
    return nn.Sequential(
        nn.ZeroPad2d((3, 1, 3, 1)), nn.Conv2d(1, 16, 8, stride=2), nn.MaxPool2d(2, stride=1), activation(),
        nn.Conv2d(16, 32, 4, stride=2), nn.MaxPool2d(2, stride=1), activation(),
        nn.Flatten(), nn.Linear(512, 32), activation(), nn.Linear(32, 10),
    )  # fmt: skip


def _digits_cnn(activation: Callable[[], nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.MaxPool2d(2, stride=1), activation(), nn.Conv2d(8, 16, 3, stride=2), activation(),
        nn.Flatten(), nn.Linear(64, 16), activation(), nn.Linear(16, 10),
    )  # fmt: skip


def train(
    *,
    dataset: str,
    scheme: str,
    seed: int,
    accepted: int | None = None,
    queries: int | None = None,
    learning_rate: float | None = None,
    batch: int | None = None,
    noise_multiplier: float | None = None,
    rejection_limit: int | str | None = "table-2",
    max_grad_norm: float = MAX_GRAD_NORM,
    momentum: float = MOMENTUM,
    initial_temperature: float = 10.0,
    exceeds: bool = False,
    starts_at_zero: bool = False,
    keeps_velocity: bool = False,
    energy: str | None = None,
    energy_size: int = 1000,
    held: int = 0,
    report: str = "test",
    at_accepted: list[int] | None = None,
    at_queries: list[int] | None = None,
    witness_every: int | None = None,
    trace: bool = False,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train, and evaluate on the way and at the end.

    Args:
        scheme: one of :data:`SCHEMES`; all but "dpsgd-relu" have tanh, all but "annealed" keep every step. An
            ``energy`` of those is recorded and decides nothing. "non-private" is SGD: no clipping, no noise.
        accepted, queries: the stop: after so many accepted updates, or noisy gradients; whichever comes first.
        at_accepted, at_queries: counts at which to evaluate, besides the end.
        others: as in :func:`dplib.screening.annealed.train`.

    Returns:
        "accuracy" and "loss" at the end (None after divergence) and "curve", columns with a number for each
        evaluation: queries, accepted, energy, accuracy, loss, and, with an energy on test records, seen and unseen:
        accuracy on those records and on the others. Counts: "queries", "accepted", "rejected", and what was accepted
        for a "lower" energy, "by_chance", or "forced" by the limit. "n", "sample_rate", the settings used, "diverged",
        "training_seconds". With ``trace``: "outcomes", a string of digits (as in
        :mod:`dplib.screening.annealing`), and "changes". With a witness: its columns.
    """
    checks.one_of(*SCHEMES).check("scheme", scheme)
    checks.one_of("test", "validation").check("report", report)
    own = {"learning_rate": learning_rate, "batch": batch, "noise_multiplier": noise_multiplier}
    table = TABLE_2.get(dataset, {})
    used = {name: table.get(name) if value is None else value for name, value in own.items()}
    limit = table.get("rejection_limit") if rejection_limit == "table-2" else rejection_limit
    how = Annealing(initial_temperature, limit, exceeds, starts_at_zero, keeps_velocity)
    annealed, private = scheme == "annealed", scheme != "non-private"
    choice, weights, draws = np.random.SeedSequence([seed, 12]).spawn(3)
    parts = records(dataset, held, seed)
    judges, judged = _sets(dataset, parts, energy, energy_size, report, np.random.default_rng(choice))
    settings = DPSGD(
        steps=_most(how if annealed else None, accepted, queries),
        sample_rate=min(1.0, used["batch"] / len(parts["train"][1])),
        learning_rate=used["learning_rate"],
        noise_multiplier=used["noise_multiplier"] if private else 0.0,
        max_grad_norm=max_grad_norm if private else None,
        clipping="auto-s" if scheme == "auto-s" else "flat",
        momentum=momentum,
        sampling="poisson" if private else "shuffled",
        physical_batch=PHYSICAL_BATCH,
    )
    net = network(
        parts["train"][0].shape[1:], "relu" if scheme == "dpsgd-relu" else "tanh", int(weights.generate_state(1)[0])
    )
    witness = None
    if witness_every:
        witness = Witness(_drawn(parts["train"], WITNESSES, np.random.default_rng([seed, 13]))[0], witness_every)
    run = annealing.train(
        net,
        parts["train"],
        settings,
        np.random.default_rng(draws),
        annealing=how if annealed else None,
        energy=judges,
        accepted=accepted,
        evaluate=judged,
        at_accepted=at_accepted or (),
        at_queries=at_queries or (),
        witness=witness,
        device=device,
    )
    result = {**used, "rejection_limit": limit, **_result(run, {name: len(y) for name, (_, y) in judged.items()})}
    if trace:
        result["outcomes"] = "".join(map(str, run.outcomes))
        result["changes"] = [float(f"{change:.4g}") for change in run.changes]
    if witness:
        result["witness"] = {name: [row[name] for row in witness.rows] for name in witness.rows[0]}
    return result


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
        judges, others = _drawn(public_digits(), size, rng)
    elif energy in parts:
        judges, others = _drawn(parts[energy], size, rng)
    if report == "validation":
        return judges, {"validation": others if energy == "held" else parts["held"]}
    if energy == "test" and len(others[1]):
        return judges, {"seen": judges, "unseen": others}
    return judges, {"test": parts["test"]}


def _most(annealing: Annealing | None, accepted: int | None, queries: int | None) -> int:
    """T: the queries asked for, or as many as the accepted updates can need."""
    if queries is not None:
        return queries
    if accepted is None:
        raise ParameterError("accepted and queries are both None: a training needs an end.")
    most = accepted if annealing is None else annealing.most_queries(accepted)
    if most is None:
        raise ParameterError("queries = None is not allowed without a rejection limit: training might not end.")
    return most


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
    counts = {name: run.outcomes.count(i) for i, name in enumerate(("rejected", "lower", "by_chance", "forced"))}
    return counts | {
        "accuracy": None if run.diverged else curve["accuracy"][-1],
        "loss": None if run.diverged else curve["loss"][-1],
        "curve": curve,
        "n": run.records,
        "sample_rate": run.settings.sample_rate,
        "queries": run.queries,
        "accepted": run.accepted,
        "diverged": run.diverged,
        "training_seconds": run.seconds,
    }
