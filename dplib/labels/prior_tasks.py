"""The tasks of chapter 10: public features of images, private labels, and a validation part drawn by the seed.

Two sets of features of the same images. "learned": principal components of :mod:`dplib.labels.patch_features` with a
dictionary from the training images, for label privacy, where inputs are public. "fixed": such features from synthetic
pictures, each record's scaled to length 10, for DP-SGD: a record's features depend on that record alone. For the
digits, which need no file, both are pixels.
"""

import functools
from dataclasses import dataclass

import numpy as np

from dplib import checks, data
from dplib.data import tasks
from dplib.labels import patch_features

KINDS = ("learned", "fixed")
VALIDATION = 5000  # training records held out; of the digits, half of the test part
LENGTH = 10.0  # of a record's fixed features


@dataclass(frozen=True, eq=False)
class Task:
    """Features (n, d) float32 and labels (n,) of three parts, and the number of classes."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_valid: np.ndarray
    y_valid: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: int

    def for_groups(self, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
        """What k-means sees of training and test inputs: leading columns, each over the root of its deviation.

        Half-way between principal components as they are, where few of them decide, and components of equal variance.
        """
        scale = np.sqrt(np.maximum(self.x_train[:, :dimensions].std(axis=0), 1e-3))
        return self.x_train[:, :dimensions] / scale, self.x_test[:, :dimensions] / scale


def task(dataset: str, kind: str, maps: int, dimensions: int, seed: int) -> Task:
    """A task; ParameterError or DataError as :func:`dplib.labels.patch_features.features`.

    Args:
        dataset: "digits" (pixels, whatever ``maps`` and ``dimensions`` are), or a set of images of ``data.names()``.
        kind: "learned" or "fixed". maps: of the patch features. dimensions: principal components of learned ones.
        seed: draws the validation part.
    """
    checks.one_of(*KINDS).check("kind", kind)
    if dataset == "digits":
        found = tasks.task("digits", "flat", split_seed=seed)
        parts = [found.x_train, found.x_valid, found.x_test]
        labels = [found.y_train, found.y_valid, found.y_test]
        parts = [3 * (x.astype(np.float32) - np.float32(0.3)) for x in parts]  # roughly centred and of variance 1
        parts = [_fixed_length(x) for x in parts] if kind == "fixed" else parts
        return Task(*(one for pair in zip(parts, labels, strict=True) for one in pair), classes=len(found.classes))
    loaded, (train, test) = data.load(dataset), _features(dataset, kind, maps, dimensions)
    order = np.random.default_rng([10, seed]).permutation(len(train))
    held, rest = np.sort(order[:VALIDATION]), np.sort(order[VALIDATION:])
    labels = loaded.y_train
    return Task(
        train[rest], labels[rest], train[held], labels[held], test, loaded.y_test, classes=len(loaded.classes)
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def _features(dataset: str, kind: str, maps: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of training and test images; kept, since many runs in a row want the same."""
    if kind == "learned":
        return patch_features.components(dataset, dimensions, maps)
    train, test = (_fixed_length(x) for x in patch_features.features(dataset, maps, dictionary="synthetic"))
    return train, test


def _fixed_length(x: np.ndarray) -> np.ndarray:
    """Each row scaled to length :data:`LENGTH`: a bound that no other record moves."""
    return x * (np.float32(LENGTH) / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6))
