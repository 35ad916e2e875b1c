"""The networks of a run of :mod:`papers.common.network_runs`, and what is looked at when one is trained."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from dplib import checks, dpsgd, models
from dplib.checks import ParameterError
from dplib.data import Dataset
from dplib.devices import whole_float32
from dplib.models import ACTIVATIONS, block_cnn, mlp
from dplib.sgd import seeded
from papers.common import printed
from papers.common.network_runs import Model

RESNETS = ("resnet18", "resnet50")
INITS = ("torch", "keras", "he")


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


@whole_float32()
def frozen_once(net: nn.Sequential, x: dict[str, Any], place: torch.device) -> tuple[nn.Sequential, dict[str, Any]]:
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


def result_of(run: dpsgd.Run, evaluate_every: int | None) -> dict[str, Any]:
    """What an experiment keeps of a training, as plain values.

    Args:
        run: of a training.
        evaluate_every: steps between the evaluations that are kept as a curve; None for none.
    """
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
def by_class(net: nn.Module, x: np.ndarray, data: Dataset) -> dict[str, float]:
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
