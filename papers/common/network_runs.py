"""One training of one network on one data set at one budget: the run that many chapters repeat many times over."""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from book.evidence import plans, runs
from dplib import accounting, checks, dpsgd, models, stats
from dplib.checks import ParameterError
from dplib.data import Dataset
from dplib.data.tasks import PATIENTS, shifted, task
from dplib.devices import Work, find_device, training_work, whole_float32
from dplib.models import ACTIVATIONS, block_cnn, mlp
from dplib.sgd import seeded
from papers.common import printed

__all__ = ["Model", "Outcome", "freeze", "measured", "network", "network_training", "noise_for", "shifted", "task"]

PRV_LIMIT = 100.0  # above this epsilon Opacus's PRV accountant gives no number, and RDP takes its place
RESNETS = ("resnet18", "resnet50")
INITS = ("torch", "keras", "he")
Model = str | list[int] | dict[str, Any]


def network(
    model: Model,
    inputs: tuple[int, ...],
    outputs: int,
    activation: str | list[str],
    dropout: float,
    seed: int,
    init: str = "torch",
) -> nn.Sequential:
    """A network for examples of shape ``inputs``, with seeded weights.

    Args:
        model: a name of ``printed.ARCHITECTURES``; the units of each hidden layer of a perceptron ([]: none);
            {"filters": [first block, ...], "units": dense layer}, by paper B's rule
            (:func:`dplib.models.block_cnn`); "lstm-U-D", an LSTM of U units and a dense layer of D, on word
            numbers below 1,000; "cnn", paper B's of Table XXX on 28x28 images and a smaller one on 8x8; "resnet18"
            and "resnet50", with group normalisation.
        activation: of perceptrons, one or one for each hidden layer. dropout: of all but the printed networks.
        init: "torch" (PyTorch's own), "keras" (Glorot, no bias) or "he" (variance 2/inputs, no bias).
    """
    checks.one_of(*INITS).check("init", init)
    net = seeded(functools.partial(_layers, model, inputs, outputs, activation, dropout), seed)
    generator = torch.Generator().manual_seed(seed)
    if init == "keras":
        models.keras_weights_(net, generator)
    elif init == "he":
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
                nn.init.zeros_(module.bias)
    return net


def _layers(
    model: Model, inputs: tuple[int, ...], outputs: int, activation: str | list[str], dropout: float
) -> nn.Sequential:
    if isinstance(model, dict):
        checks.check_names(model, ("filters", "units"))
        return block_cnn(inputs[0], inputs[1], model["filters"], model["units"], dropout, outputs)
    if isinstance(model, str):
        if model.startswith("lstm-"):
            units, dense = map(int, model.split("-")[1:])
            return models.spam_lstm(units, dense, dropout=dropout)
        if model == "cnn":
            return _rwt_cnn(inputs, outputs)
        if model in RESNETS:
            return getattr(models, model)(outputs, inputs[0], norm=models.group_norm)
        checks.one_of(*printed.ARCHITECTURES, "cnn", "lstm-U-D", *RESNETS).check("model", model)
        return printed.ARCHITECTURES[model].make()
    names = [activation] * len(model) if isinstance(activation, str) else list(activation)
    for name in names:
        checks.one_of(*ACTIVATIONS).check("activation", name)
    return mlp([math.prod(inputs), *model, outputs], [ACTIVATIONS[name] for name in names], dropout)


def _rwt_cnn(inputs: tuple[int, ...], outputs: int) -> nn.Sequential:
    if inputs == (1, 28, 28):
        return models.rwt_cnn()
    if inputs != (1, 8, 8):
        raise ParameterError(f"model = 'cnn' is for grey images of 28x28 or 8x8, not {inputs}.")
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, outputs),
    )  # fmt: skip


def freeze(net: nn.Sequential, positions: Sequence[int]) -> None:
    """These layers with weights, counted from 0 at the input, keep their initial weights; one at least must not."""
    layers = [module for module in net if any(True for _ in module.parameters())]
    checks.list_of(checks.integer(0, len(layers) - 1)).check("frozen", list(positions))
    if len(set(positions)) == len(layers):
        raise ParameterError(f"frozen = {list(positions)} is not allowed: one of {len(layers)} layers must be trained.")
    for position in positions:
        layers[position].requires_grad_(False)


@functools.lru_cache(maxsize=512)
def noise_for(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """The noise multiplier of a budget, by PRV, or by RDP above :data:`PRV_LIMIT`."""
    return accounting.noise_multiplier(epsilon, sample_rate, steps, delta, "prv" if epsilon <= PRV_LIMIT else "rdp")


def _work(job: runs.Job) -> Work:
    """How much a job of :func:`network_training` is."""
    data = task(job["dataset"], job["features"], None, 0, "report", job["length"])
    outputs = 1 if job["dataset"] in PATIENTS else len(data.classes)
    net = network(job["model"], data.x_train.shape[1:], outputs, job["activation"], 0.0, 0)
    batch = min(job["batch"], job["n_train"] or len(data.y_train))
    return training_work(net, data.x_train, batch, job["steps"])


@runs.experiment(
    "network",
    version=1,
    data=("dataset",),
    work=_work,
    probe={"dataset": "digits", "features": "flat", "model": [16], "epsilon": 2.0, "learning_rate": 1.0, "seed": 3,
           "batch": 250, "steps": 60, "momentum": 0.5, "dropout": 0.1},
)  # fmt: skip
def network_training(
    *,
    dataset: str,
    model: Model,
    epsilon: float | None,
    learning_rate: float,
    seed: int,
    split_seed: int | None = None,
    part: str = "report",
    features: str = "image",
    n_train: int | None = None,
    length: int = 40,
    batch: int = 1024,
    steps: int = 500,
    delta: float = 1e-5,
    noise_multiplier: float | None = None,
    max_grad_norm: float | None = 1.0,
    momentum: float = 0.0,
    activation: str | list[str] = "relu",
    init: str = "torch",
    dropout: float = 0.0,
    frozen: list[int] | None = None,
    evaluate_every: int | None = None,
    device: str = "cpu",
) -> runs.Result:
    """Train and evaluate the last iterate.

    Args:
        dataset, features, n_train, part, length: of :func:`dplib.data.tasks.task`. A run of the part "tune" has the
            sampling rate, steps and noise of the report's.
        split_seed: draws the split, by default ``seed``. Candidates of one search share it, so that the winner's test
            records chose nothing, and differ in ``seed``.
        epsilon: budget at ``delta`` of this training alone, for neighbours that add or remove a record. None:
            ``noise_multiplier``, or no noise (then ``max_grad_norm`` None is plain SGD, and a number clipping alone).
        seed: decides split, initial weights, batches, noise and dropout. Equal seeds give equal splits and, at equal
            batch and steps, equal batches, so that comparisons of models may be paired by seed.
        batch: expected batch size.
        frozen: layers that keep their random weights, as :func:`freeze`. Of first layers that are frozen the outputs
            are computed once, which changes nothing but the time.
        evaluate_every: steps between evaluations of the "curve"; None: only the end.

    Returns:
        "validation" and "test": accuracies, or mean absolute errors of a regression (None after divergence, without
        such a part, and "test" of the part "tune"); their losses and "train_loss"; "constant", the "test" of a constant
        prediction that knows the training part; "balanced", mean recall on the test part, and "majority", the share of
        it predicted to be of the most frequent class (not of a regression); "noise_multiplier", "sample_rate", "steps",
        "n", "parameters", "trained"; and "curve" where asked for: rows of step, validation, test.
    """
    split = seed if split_seed is None else split_seed
    data = task(dataset, features, n_train, split, part, length)
    n = len(task(dataset, features, n_train, split, "report", length).y_train)
    # The split's seed is the job's; the draws below must not repeat it.
    entropy = [seed, 1] if split_seed is None else [split_seed, seed, 1]
    weights, draws = np.random.SeedSequence(entropy).spawn(2)
    regression = dataset in PATIENTS
    outputs, shape = 1 if regression else len(data.classes), data.x_train.shape[1:]
    weights_seed = int(weights.generate_state(1)[0])
    net = network(model, shape, outputs, activation, dropout, weights_seed, init)
    parameters = sum(p.numel() for p in net.parameters())
    x = {name: getattr(data, f"x_{name}") for name in ("train", "valid", "test")}
    if frozen:
        freeze(net, frozen)
        net, x = _frozen_once(net, x, find_device(device))
    sample_rate = min(1.0, batch / n)
    noise = float(noise_multiplier or 0.0)
    if epsilon is not None:
        noise = float(noise_for(epsilon, sample_rate, steps, delta))
    settings = dpsgd.DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=learning_rate,
        noise_multiplier=noise,
        max_grad_norm=max_grad_norm,
        momentum=momentum,
    )
    valid = None if x["valid"] is None else (x["valid"], data.y_valid)
    parts = dpsgd.Data((x["train"], data.y_train), valid, (x["test"], data.y_test))
    loss = dpsgd.squared_error if regression else dpsgd.cross_entropy
    run = dpsgd.train(
        net,
        parts,
        settings,
        np.random.default_rng(draws),
        loss=loss,
        evaluate_every=evaluate_every,
        device=device,
        progress=False,
    )
    result = _result(run, evaluate_every) | {"n": n, "parameters": parameters, "noise_multiplier": noise}
    if regression:
        result["constant"] = float(np.abs(data.y_test - data.y_train.mean()).mean())
    else:
        result |= _by_class(net, x["test"], data)
    if part == "tune":  # its test part is the validation part
        result = {k: v for k, v in result.items() if k not in ("test", "test_loss", "balanced", "majority")}
    return result


@whole_float32()
def _frozen_once(net: nn.Sequential, x: dict[str, Any], place: torch.device) -> tuple[nn.Sequential, dict[str, Any]]:
    """The network from its first trained layer or dropout on, and what the layers before make of every part."""
    at = next(
        i
        for i, module in enumerate(net)
        if any(p.requires_grad for p in module.parameters()) or isinstance(module, nn.Dropout)
    )
    body = net[:at].eval().to(place)
    with torch.no_grad():
        ahead = {
            name: None
            if part is None
            else torch.cat([body(piece.to(place)).cpu() for piece in torch.as_tensor(part).split(1024)]).numpy()
            for name, part in x.items()
        }
    return net[at:].train(), ahead


def _result(run: dpsgd.Run, evaluate_every: int | None) -> dict[str, Any]:
    final = run.final

    def kept(part: str, what: str, row: dict = final) -> float | None:
        value = row[part][what] if part in row else math.nan
        return value if math.isfinite(value) and not run.diverged else None

    result = {
        "validation": kept("validation", "metric"),
        "test": kept("test", "metric"),
        "validation_loss": kept("validation", "loss"),
        "test_loss": kept("test", "loss"),
        "train_loss": final["train_loss"] if not run.diverged else None,
        "sample_rate": run.sample_rate,
        "steps": run.steps,
        "trained": run.trained_parameters,
    }
    if evaluate_every:
        result["curve"] = [
            {"step": row["step"], "validation": kept("validation", "metric", row), "test": kept("test", "metric", row)}
            for row in run.evaluations
        ]
    return result


@whole_float32()
@torch.no_grad()
def _by_class(net: nn.Module, x: np.ndarray, data: Dataset) -> dict[str, float]:
    """Mean recall, the share predicted to be of the majority class, and that class's own share of the test part."""
    tensor, device = torch.as_tensor(x), next(net.parameters()).device
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    predicted = torch.cat([net(piece.to(device)).argmax(1).cpu() for piece in tensor.split(2048)]).numpy()
    most = np.bincount(data.y_train).argmax()
    recalls = [float((predicted[data.y_test == k] == k).mean()) for k in np.unique(data.y_test)]
    return {
        "balanced": float(np.mean(recalls)),
        "majority": float((predicted == most).mean()),
        "constant": float((data.y_test == most).mean()),
    }


@dataclass(frozen=True)
class Outcome:
    """A cell with its tuned rate, and its reported runs by seed.

    Attributes:
        job: the cell. tuned: what :func:`book.evidence.plans.tune` found, None where the cell had a rate of its own.
        runs: what :func:`network_training` returned, in the order of the seeds.
    """

    job: Mapping[str, Any]
    rate: float
    tuned: plans.Tuned | None
    runs: Sequence[runs.Result]

    def values(self, what: str = "test") -> np.ndarray:
        """One number for each seed, (seeds,): accuracies in percent, errors as they are.

        Where a training diverged its "test" is that of a constant prediction: what its owner would release instead.
        """
        scale = 1.0 if self.job["dataset"] in PATIENTS else 100.0
        return scale * np.array([run["constant"] if run[what] is None else run[what] for run in self.runs])

    @property
    def mean(self) -> stats.Measured:
        return stats.mean_interval(self.values())

    @property
    def parameters(self) -> int:
        return self.runs[0]["parameters"]


def measured(
    get: plans.Get,
    cells: Mapping[Hashable, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    *,
    seeds: int,
    first: int = 0,
    tuning_seeds: int = 3,
    extensions: int = 2,
) -> dict[Hashable, Outcome]:
    """Tune every cell by itself, then train each with seeds ``first``, first + 1, ...; equal seeds may be paired.

    Args:
        cells: those with a ``learning_rate`` are not tuned.
        rates: of the grids to begin with, for "sgd" (no clipping) and "dp" (with clipping).
    """
    chosen: dict[Hashable, plans.Tuned] = {}
    for kind in ("sgd", "dp"):
        untuned = {
            key: {**job, "part": "tune"}
            for key, job in cells.items()
            if "learning_rate" not in job and (job.get("max_grad_norm", 1.0) is None) == (kind == "sgd")
        }
        smaller = any(job["dataset"] in PATIENTS for job in untuned.values())
        if untuned:
            chosen |= plans.tune(
                get, network_training, untuned, rates[kind], smaller=smaller, seeds=tuning_seeds, extensions=extensions
            )
    rate = {key: chosen[key].value if key in chosen else job["learning_rate"] for key, job in cells.items()}
    reported = {key: {**job, "learning_rate": rate[key]} for key, job in cells.items()}
    by_key = plans.by_seed(get, network_training, reported, seeds, first)
    return {key: Outcome(job, rate[key], chosen.get(key), by_key[key]) for key, job in cells.items()}
