"""One training of one network on one data set at one budget: the run that paper B's chapters repeat many times over.

Everything a training depends on is a plain value, so that :mod:`dplib.study` can repeat, share and resume it.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from dplib import accounting, checks, data, dpsgd, printed
from dplib.architectures import block_cnn
from dplib.checks import ParameterError
from dplib.data import Dataset, preprocess
from dplib.models import ACTIVATIONS, mlp
from dplib.sgd import seeded

PRV_LIMIT = 100.0  # above this epsilon Opacus's PRV accountant gives no number, and RDP takes its place


def task(dataset: str, features: str = "image", n_train: int | None = None, split_seed: int = 0) -> Dataset:
    """A data set as a network takes it, with training, validation and test parts (paper B, Section IV-A).

    Args:
        dataset: a name of ``data.names()``, of images; "digits" is enlarged to 20,000 training records by small shifts
            (so that there is something to learn under privacy without any file: its budget protects nobody).
        features: "image"; "flat", rows of pixels; "pca-K", K principal components of the training part. None of them
            is accounted for: principal components are computed from the training records without noise.
        n_train: so many random training records, all by default.
        split_seed: draws the validation part from the published test part, as the paper does, and the subsample.

    Raises:
        ParameterError, DataError: for what cannot be had.
    """
    split, thin = np.random.SeedSequence(split_seed).spawn(2)
    if n_train is None or n_train >= len(_whole(dataset, "image").y_train):
        found = _whole(dataset, features)
    else:
        found = _with_features(
            preprocess.subsample(_whole(dataset, "image"), n_train, np.random.default_rng(thin)), features
        )
    return _split(found, np.random.default_rng(split))


@functools.lru_cache(maxsize=4)
def _whole(dataset: str, features: str) -> Dataset:
    """All training records with their features; kept, since many runs in a row want the same."""
    if features != "image":
        return _with_features(_whole(dataset, "image"), features)
    loaded = data.load(dataset)
    return shifted(loaded, 20_000, np.random.default_rng(0)) if dataset == "digits" else loaded


def _with_features(dataset: Dataset, features: str) -> Dataset:
    if features == "image":
        return dataset
    if features == "flat":
        return preprocess.flatten(dataset)
    kind, _, count = features.partition("-")
    if kind != "pca" or not count.isdigit():
        raise ParameterError(f"features = {features!r} is not allowed: it must be image, flat or pca-K.")
    return preprocess.pca(dataset, int(count))


def shifted(dataset: Dataset, n_train: int, rng: np.random.Generator) -> Dataset:
    """Images enlarged to ``n_train`` training records: random ones, moved by up to a pixel, with a little noise."""
    rows = rng.integers(len(dataset.y_train), size=n_train)
    images = dataset.x_train[rows].copy()
    moves = rng.integers(-1, 2, size=(n_train, 2))
    for move in np.unique(moves, axis=0):
        at = (moves == move).all(1)
        images[at] = np.roll(images[at], tuple(move), axis=(2, 3))
    images += rng.normal(0, 0.1, images.shape).astype(np.float32)
    note = f"training part enlarged to {n_train} records by shifts and noise"
    return replace(dataset, x_train=images.clip(0, 1), y_train=dataset.y_train[rows], notes=(*dataset.notes, note))


def _split(dataset: Dataset, rng: np.random.Generator) -> Dataset:
    """Half of the test part becomes the validation part (paper B has 5,000 and 5,000 of MNIST's 10,000)."""
    order = rng.permutation(len(dataset.y_test))
    valid, test = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    return replace(
        dataset,
        x_valid=dataset.x_test[valid],
        y_valid=dataset.y_test[valid],
        x_test=dataset.x_test[test],
        y_test=dataset.y_test[test],
        notes=(*dataset.notes, "half of the test part held out for validation"),
    )


Model = str | list[int] | dict[str, Any]


def network(
    model: Model,
    inputs: tuple[int, ...],
    classes: int,
    activation: str | list[str],
    dropout: float,
    seed: int,
) -> nn.Sequential:
    """A network for examples of shape ``inputs``.

    ``model`` is a name of ``printed.ARCHITECTURES``; the units of each hidden layer of a perceptron ([]: none); or
    {"filters": [first block, ...], "units": dense layer}, a convolutional network by paper B's rule
    (:func:`dplib.architectures.block_cnn`).
    """
    if isinstance(model, str):
        checks.one_of(*printed.ARCHITECTURES).check("model", model)
        return seeded(printed.ARCHITECTURES[model].make, seed)
    if isinstance(model, dict):
        checks.check_names(model, ("filters", "units"))
        return seeded(lambda: block_cnn(inputs[0], inputs[1], model["filters"], model["units"], dropout, classes), seed)
    names = [activation] * len(model) if isinstance(activation, str) else list(activation)
    for name in names:
        checks.one_of(*ACTIVATIONS).check("activation", name)
    sizes = [math.prod(inputs), *model, classes]
    return seeded(lambda: mlp(sizes, [ACTIVATIONS[name] for name in names], dropout), seed)


def freeze(net: nn.Sequential, positions: Sequence[int]) -> None:
    """These layers with weights, counted from 0 at the input, keep their initial weights; one at least must not."""
    layers = _with_weights(net)
    checks.list_of(checks.integer(0, len(layers) - 1)).check("frozen", list(positions))
    if len(set(positions)) == len(layers):
        raise ParameterError(f"frozen = {list(positions)} is not allowed: one of {len(layers)} layers must be trained.")
    for position in positions:
        layers[position].requires_grad_(False)


def freeze_all_but(net: nn.Sequential, last: int) -> None:
    """Random-weights training (paper B, Section VII-C): only the last so many layers with weights are trained."""
    layers = _with_weights(net)
    checks.integer(1, len(layers)).check("train_last", last)
    for layer in layers[: len(layers) - last]:
        layer.requires_grad_(False)


def _with_weights(net: nn.Sequential) -> list[nn.Module]:
    return [module for module in net if any(True for _ in module.parameters())]


@functools.lru_cache(maxsize=512)
def noise_for(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """The noise multiplier of a budget, by PRV, or by RDP above :data:`PRV_LIMIT`."""
    return accounting.noise_multiplier(epsilon, sample_rate, steps, delta, "prv" if epsilon <= PRV_LIMIT else "rdp")


def train(
    *,
    dataset: str,
    model: Model,
    epsilon: float | None,
    learning_rate: float,
    seed: int,
    features: str = "image",
    n_train: int | None = None,
    batch: int = 1024,
    steps: int = 500,
    delta: float = 1e-5,
    max_grad_norm: float | None = 1.0,
    momentum: float = 0.0,
    activation: str | list[str] = "relu",
    dropout: float = 0.0,
    frozen: list[int] | None = None,
    evaluate_every: int | None = None,
) -> dict:
    """Train and evaluate the last iterate.

    Args:
        dataset, features, n_train: of :func:`task`; the seed draws the split.
        model, activation, dropout: of :func:`network`. ``activation``, one or one for each hidden layer, is for
            perceptrons; ``dropout`` for all but the printed networks.
        epsilon: budget at ``delta`` of this training alone, for neighbours that add or remove a record; None: no
            noise (then ``max_grad_norm`` None is plain SGD, and a number is clipping alone).
        learning_rate, momentum: of SGD.
        seed: decides split, initial weights, batches, noise and dropout. Equal seeds give equal splits and, at equal
            batch and steps, equal batches, so that comparisons of models may be paired by seed.
        batch: expected batch size. steps: number of steps.
        frozen: layers that keep their random weights, as :func:`freeze`; None: all are trained.
        evaluate_every: steps between evaluations of the "curve"; None: only the end.

    Returns:
        "validation" and "test" accuracies (None after divergence), "validation_loss", "test_loss", "train_loss",
        "noise_multiplier", "sample_rate", "steps", "n", "parameters", "trained", and "curve" where asked for:
        rows of step, validation, test.

    Raises:
        ParameterError, DataError: for what is not allowed or not there.
    """
    found = task(dataset, features, n_train, seed)
    # The split's seed is the job's; the draws below must not repeat it.
    weights, draws = np.random.SeedSequence([seed, 1]).spawn(2)
    n, classes = len(found.y_train), len(found.classes)
    net = network(model, found.x_train.shape[1:], classes, activation, dropout, int(weights.generate_state(1)[0]))
    if frozen:
        freeze(net, frozen)
    sample_rate = min(1.0, batch / n)
    noise = 0.0 if epsilon is None else noise_for(epsilon, sample_rate, steps, delta)
    settings = dpsgd.DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=learning_rate,
        noise_multiplier=noise,
        max_grad_norm=max_grad_norm,
        momentum=momentum,
    )
    parts = dpsgd.Data((found.x_train, found.y_train), (found.x_valid, found.y_valid), (found.x_test, found.y_test))
    run = dpsgd.train(net, parts, settings, np.random.default_rng(draws), evaluate_every=evaluate_every, progress=False)
    return _result(run, noise, n, evaluate_every)


def _result(run: dpsgd.Run, noise: float, n: int, evaluate_every: int | None) -> dict:
    final = run.final

    def kept(part: str, what: str, row: dict = final) -> float | None:
        value = row[part][what]
        return value if math.isfinite(value) and not run.diverged else None

    result = {
        "validation": kept("validation", "metric"),
        "test": kept("test", "metric"),
        "validation_loss": kept("validation", "loss"),
        "test_loss": kept("test", "loss"),
        "train_loss": final["train_loss"] if not run.diverged else None,
        "noise_multiplier": noise,
        "sample_rate": run.sample_rate,
        "steps": run.steps,
        "n": n,
        "parameters": run.parameters,
        "trained": run.trained_parameters,
    }
    if evaluate_every:
        result["curve"] = [
            {"step": row["step"], "validation": kept("validation", "metric", row), "test": kept("test", "metric", row)}
            for row in run.evaluations
        ]
    return result
