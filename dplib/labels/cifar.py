"""What paper C trains on CIFAR-10: ResNet18, with or without weights from CIFAR-100; or a small head on features.

In label DP images are public, those of the test part and of other sets, too. So features that no label has touched cost
nothing, and neither does any scaling of them. Two cores cannot train a ResNet often enough to compare mechanisms; a
perceptron on unsupervised features they can. It is another network: its accuracies do not stand for the paper's.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks, data, layout
from dplib.labels import patch_features, training
from dplib.models import mlp, preact_resnet18
from dplib.sgd import seeded

CIFAR = {  # of dplib.labels.training.fit: paper C, Appendix B, for CIFAR-10; the cutout's size is DeVries and Taylor's
    "epochs": 200,
    "batch_size": 512,
    "learning_rate": 0.4,
    "drops": [0.3, 0.6, 0.9],
    "shift": 4,
    "flip": True,
    "cutout": 16,
}
CIFAR100 = CIFAR | {"batch_size": 256, "learning_rate": 0.2, "cutout": 8}


@dataclass(frozen=True, eq=False)
class Problem:
    """Public inputs and private labels.

    Attributes:
        x_train, x_test: (n, ...) float32. y_train, y_test: (n,) int64.
        classes: how many. stand_in_for: as in :class:`dplib.data.Dataset`. checksum: of the content read.
    """

    x_train: Tensor
    y_train: np.ndarray
    x_test: Tensor
    y_test: np.ndarray
    classes: int
    stand_in_for: str | None
    checksum: str


@functools.lru_cache(maxsize=2)
def load(dataset: str, representation: str, validation: int = 0) -> Problem:
    """A data set in one of these forms, each scaled by what the training *inputs* show.

    Args:
        dataset: of :func:`dplib.data.load`, with images.
        representation: "image": each channel to mean 0 and variance 1. "pixels": flat, each column so. "patches-D": D
            principal components of the features of :func:`dplib.labels.patch_features.features`; "white-D": each of
            them to variance 1.
        validation: so many training examples, always the same, take the place of the test part.

    Raises:
        ParameterError, DataError: for a form or set that is not there.
    """
    found = data.load(dataset)
    if representation == "image":
        x_train, x_test = _scaled(found.x_train, found.x_test, (0, 2, 3))
    elif representation == "pixels":
        x_train, x_test = _scaled(*(x.reshape(len(x), -1) for x in (found.x_train, found.x_test)), (0,))
    else:
        kind, _, count = representation.partition("-")
        if kind not in ("patches", "white") or not count.isdigit():
            raise checks.ParameterError(
                f"representation = {representation!r} is not allowed: it must be image, pixels, patches-D or white-D."
            )
        x_train, x_test = patch_features.components(dataset, int(count))
        if kind == "white":
            x_train, x_test = _scaled(x_train, x_test, (0,))
    y_train, y_test = found.y_train, found.y_test
    if validation:
        checks.integer(1, len(y_train) - 1).check("validation", validation)
        held, rest = np.split(np.random.default_rng(9).permutation(len(y_train)), [validation])
        x_test, y_test, x_train, y_train = x_train[held], y_train[held], x_train[rest], y_train[rest]
    x_train, x_test = (torch.from_numpy(np.ascontiguousarray(x)) for x in (x_train, x_test))
    return Problem(x_train, y_train, x_test, y_test, len(found.classes), found.stand_in_for, found.checksum)


def head(inputs: int, hidden: list[int], classes: int) -> Callable[[], nn.Module]:
    """Makes a perceptron on features; [] is multinomial logistic regression."""
    return functools.partial(mlp, [inputs, *hidden, classes])


def resnet(classes: int, width: int = 64, start: nn.Sequential | None = None) -> Callable[[], nn.Module]:
    """Makes ResNet18 V2 with a 3x3 stem of stride 1 (Appendix B), and a fresh classifier.

    Args:
        width: channels of its first blocks; the paper's is 64.
        start: another such network, whose weights below the classifier it gets; none of them is frozen.
    """

    def build() -> nn.Sequential:
        net = preact_resnet18(classes, width=width)
        if start is not None:
            net[:-1].load_state_dict(start[:-1].state_dict())
        return net

    return build


def pretrained(dataset: str, settings: Mapping[str, Any], seed: int, width: int, device: torch.device) -> nn.Sequential:
    """A ResNet18 trained without privacy on all of a public set (CIFAR-100 in the paper), on the CPU afterwards."""
    key = tuple(sorted((name, tuple(v) if isinstance(v, list) else v) for name, v in settings.items()))
    return _pretrained(dataset, key, seed, width, device)


@functools.lru_cache(maxsize=1)
def _pretrained(dataset: str, settings: tuple, seed: int, width: int, device: torch.device) -> nn.Sequential:
    public = load(dataset, "image")
    net = seeded(resnet(public.classes, width), seed)
    net.to(device, memory_format=layout.of(net, public.x_train))
    training.fit(net, public.x_train.to(device), public.y_train, seed=seed, **dict(settings))
    return net.cpu()


def _scaled(train: np.ndarray, test: np.ndarray, axis: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Both, shifted and scaled so that ``train`` has mean 0 and variance 1; what does not vary becomes 0."""
    mean, spread = (f(train, axis=axis, keepdims=True, dtype=np.float64) for f in (np.mean, np.std))
    scale = 1 / np.where(spread > 1e-8, spread, np.inf)
    return tuple(((x - mean) * scale).astype(np.float32) for x in (train, test))
