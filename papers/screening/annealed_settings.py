"""The data, networks and settings of paper D's trainings."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dplib import checks, data, models
from dplib.checks import ParameterError
from dplib.data import Dataset, preprocess
from dplib.devices import Size
from dplib.dpsgd import DPSGD
from dplib.examples import Pair
from dplib.models import ACTIVATIONS
from dplib.sgd import seeded
from papers.common import network_runs

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
PHYSICAL_BATCH = Size(640, 4096)  # nearly every Poisson batch of expected size 512 goes through in one piece
CIFAR_MEAN, CIFAR_SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # public constants, as in the earlier work


@functools.lru_cache(maxsize=2)
def _loaded(dataset: str) -> Dataset:
    checks.one_of(*TABLE_2).check("dataset", dataset)
    dataset_ = data.load(dataset)
    if dataset == "digits":
        return network_runs.shifted(dataset_, 20_000, np.random.default_rng(0))
    if dataset_.x_train.shape[1] == 3:
        mean, sd = (np.array(c, np.float32).reshape(3, 1, 1) for c in (CIFAR_MEAN, CIFAR_SD))
        return replace(dataset_, x_train=(dataset_.x_train - mean) / sd, x_test=(dataset_.x_test - mean) / sd)
    return dataset_


def records(dataset: str, held: int, seed: int) -> dict[str, Pair]:
    """{"train", "test"}, and "held": so many random training records set aside. The test part is as published.

    Raises ParameterError for a data set that has no settings here, or too many records to set aside.
    """
    dataset_ = _loaded(dataset)
    n = len(dataset_.y_train)
    checks.integer(0, n - 1).check("held", held)
    parts = {"train": (dataset_.x_train, dataset_.y_train), "test": (dataset_.x_test, dataset_.y_test)}
    if held:  # no copy of all images otherwise
        parts["held"], parts["train"] = drawn(parts["train"], held, np.random.default_rng([seed, 11]))
    return parts


def drawn(pair: Pair, count: int, rng: np.random.Generator) -> tuple[Pair, Pair]:
    """So many random examples, at most all, and the others."""
    x, y = pair
    count = min(count, len(y))
    chosen, others = preprocess.disjoint(len(y), (count, len(y) - count), rng)
    return (x[chosen], y[chosen]), (x[others], y[others])


def public_digits() -> Pair:
    """scikit-learn's 8x8 digits at the scale of MNIST, 20x20 pixels within 28x28: public examples of the same task."""
    dataset_ = data.load("digits")
    x = torch.from_numpy(np.concatenate([dataset_.x_train, dataset_.x_test]))
    large = F.interpolate(x, size=(20, 20), mode="bilinear", align_corners=False)
    return F.pad(large, (4, 4, 4, 4)).numpy(), np.concatenate([dataset_.y_train, dataset_.y_test])


def network(shape: tuple[int, ...], activation: str, seed: int, plain: bool = False) -> nn.Sequential:
    """Paper D's network for images of this shape, and a small one for 8x8 digits; ``plain``: of layers that many models
    at once can have, the same function of the same weights.
    """
    makers = {(1, 8, 8): _digits_cnn, (1, 28, 28): models.cnn4 if plain else quick_cnn4, (3, 32, 32): models.cnn9}
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


def settings(dataset: str, rejection_limit: int | str | None, **given: float | None) -> tuple[dict, int | None]:
    """Learning rate, batch and noise multiplier, by default those of Table 2, and the limit on rejections."""
    checks.one_of(*TABLE_2).check("dataset", dataset)
    table = TABLE_2[dataset]
    limit = table["rejection_limit"] if rejection_limit == "table-2" else rejection_limit
    return {name: table[name] if value is None else value for name, value in given.items()}, limit


def dpsgd(used: Mapping[str, float], steps: int, sample_rate: float, momentum: float, place: torch.device) -> DPSGD:
    """The training of paper D with learning rate and noise multiplier of :func:`settings`, on a device."""
    return DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=used["learning_rate"],
        noise_multiplier=used["noise_multiplier"],
        max_grad_norm=MAX_GRAD_NORM,
        momentum=momentum,
        physical_batch=PHYSICAL_BATCH.on(place),
    )
