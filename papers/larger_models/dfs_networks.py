"""Paper A, Table 1: features of a narrow and of a wide network, selected, released with noise, and learnt from.

Both networks are trained without privacy; the outputs of their last but one layer get the noise of Algorithm 1, and a
perceptron learns from them by SGD without noise. Nothing here is private as a whole: networks, selection and largest
norm come from the private data without noise (chapter 02). Neighbours differ in the features of one record.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from dplib import checks, devices, models, selection, sgd

ROWS = ("narrow", "wide", "wide + t-statistic", "wide + distance")
NOISES = {"variance": selection.literal_sd, "sd": selection.definition_sd}  # two readings of step 7 of Algorithm 1
PERCEPTRON = sgd.Sgd(epochs=15, batch_size=128, weight_decay=1e-3)
LEARNING_RATES = (0.01, 0.1)
HIDDEN, HELD_OUT = 64, 0.1  # of the perceptron: units, and the share of records that choose its learning rate


@dataclass(frozen=True)
class Features:
    """Features (n, p) in float32 with their labels (n,), and the accuracy of their own network on the test set."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    network_accuracy: float = float("nan")


def build(architecture: str, width: int, classes: int, channels: int) -> nn.Sequential:
    """A network of ``dplib.models``; its last layer maps the features to the classes.

    Raises ParameterError for an unknown architecture or a width below 1.
    """
    checks.one_of("small_cnn", "resnet18", "resnet50").check("architecture", architecture)
    checks.integer(1).check("width", width)
    return getattr(models, architecture)(classes, channels, width)


def n_features(architecture: str, width: int) -> int:
    """How many outputs the last but one layer has."""
    with torch.device("meta"):  # no memory, no random numbers
        return build(architecture, width, 2, 1)[-1].in_features


def last_layer(dataset, architecture: str, width: int, training: sgd.Sgd, seed: int, device: str) -> Features:
    """Train a network on a data set of images (n, channels, height, width); the outputs of its last but one layer.

    Raises ParameterError for a training that diverges, or a device that is not there.
    """
    place, rng = devices.find_device(device), np.random.default_rng([seed, 0])
    x = dataset.x_train
    mean, scale = x.mean((0, 2, 3), keepdims=True), _nonzero(x.std((0, 2, 3), keepdims=True))
    train, test = (((part - mean) / scale).astype(np.float32) for part in (x, dataset.x_test))
    classes = int(dataset.y_train.max()) + 1
    net = sgd.seeded(lambda: build(architecture, width, classes, train.shape[1]), _draw_seed(rng))
    sgd.train(net, train, dataset.y_train, training, _draw_seed(rng), place)
    accuracy = float((sgd.outputs(net, test, place).argmax(1) == dataset.y_test).mean())
    layers = [sgd.outputs(net[:-1], part, place) for part in (train, test)]
    if not all(np.isfinite(part).all() for part in layers):
        raise checks.ParameterError(
            f"learning_rate = {training.learning_rate} is not allowed: {architecture} diverges with it."
        )
    return Features(layers[0], dataset.y_train, layers[1], dataset.y_test, accuracy)


def noisy_accuracy(
    features: Features, criterion: str, keep: int, noise: str, epsilon: float, delta: float, seed: int, device: str
) -> dict[str, float]:
    """One run of one row of Table 1, from features on: "accuracy" of the perceptron on the test set, and "signal".

    The signal, the largest distance between two class means over the noise's standard deviation, a mean over the
    features kept, is to explain the accuracy; no learner sees it. Test features carry no noise: Section 4.3 does not
    say whether they do.

    Args:
        criterion: "t-statistic" or "distance" to select ``keep`` features, "all" for all of them.
        noise: of NOISES. epsilon, delta: what Algorithm 1 claims.
    """
    noise_rng, perceptron_rng = (np.random.default_rng([seed, stage]) for stage in (1, 2))
    release = noisy_features(features, criterion, keep, noise, epsilon, delta, noise_rng)
    test = features.test[:, release.features]
    predicted = perceptron_labels(release.values, release.labels, test, perceptron_rng, device)
    distances = selection.distance(features.train[:, release.features], features.train_labels)
    return {
        "accuracy": float((predicted == features.test_labels).mean()),
        "signal": float(distances.mean() / release.noise_sd),
    }


def noisy_features(
    features: Features,
    criterion: str,
    keep: int,
    noise: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> selection.Release:
    """Algorithm 1 for k classes (appendix) on the training features; arguments as for :func:`noisy_accuracy`."""
    checks.one_of("all", "t-statistic", "distance").check("criterion", criterion)
    x, y, p = features.train, features.train_labels, features.train.shape[1]
    checks.integer(1, p).check("keep", keep)
    score = selection.t_statistic if criterion == "t-statistic" else selection.distance
    return selection.dfs(
        x, y, p if criterion == "all" else keep, lambda norm: NOISES[noise](norm, epsilon, delta), rng,
        scores=score(x, y),
    )  # fmt: skip


def perceptron_labels(
    x: np.ndarray, y: np.ndarray, test: np.ndarray, rng: np.random.Generator, device: str = "cpu"
) -> np.ndarray:
    """Train a perceptron on x (n, m) and y (n,), then label ``test`` (n', m).

    Features are centred and scaled by those it learns from. Each learning rate starts from the same weights and sees
    the same batches; the best on the held-out records wins, the first of equals.
    """
    place = devices.find_device(device)
    held_out, fit = np.split(rng.permutation(len(x)), [max(1, round(HELD_OUT * len(x)))])
    mean, scale = x[fit].mean(0), _nonzero(x[fit].std(0))
    x, test = (((values - mean) / scale).astype(np.float32) for values in (x, test))
    into, out, seed = x.shape[1], int(y.max()) + 1, _draw_seed(rng)
    best: tuple[float, nn.Module | None] = (-1.0, None)
    for learning_rate in LEARNING_RATES:
        net = sgd.seeded(lambda: nn.Sequential(nn.Linear(into, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out)), seed)
        sgd.train(net, x[fit], y[fit], replace(PERCEPTRON, learning_rate=learning_rate), seed, place)
        accuracy = (sgd.outputs(net, x[held_out], place).argmax(1) == y[held_out]).mean()
        if accuracy > best[0]:
            best = (accuracy, net)
    return sgd.outputs(best[1], test, place).argmax(1)


def _nonzero(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0, scale, 1)  # of a feature that does not vary


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63))
