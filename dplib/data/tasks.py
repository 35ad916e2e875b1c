"""Data sets as a network takes them, with training, validation and test parts (paper B, Section IV-A).

Splits are drawn by a seed. No part of a report decides a learning rate: for tuning, the validation part comes out of
the training part.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from dplib import checks, data
from dplib.checks import ParameterError
from dplib.data import Dataset, preprocess

TEXTS = ("synthetic-messages", "sms-spam")
PATIENTS = ("synthetic-patients", "medical-cost")
SYNTHETIC = (TEXTS[0], PATIENTS[0])
PARTS = ("report", "tune", "fit")
HELD = {"images": 1 / 12, "tables": 0.2}  # share of the training part on which learning rates are chosen


@functools.lru_cache(maxsize=2)
def task(
    dataset: str,
    features: str = "image",
    n_train: int | None = None,
    split_seed: int = 0,
    part: str = "report",
    length: int = 40,
) -> Dataset:
    """A data set as a network takes it.

    Args:
        dataset: a name of ``data.names()``, of images, or one of :data:`TEXTS` (messages as word numbers) and
            :data:`PATIENTS` (a regression, features and target in [0, 1]). "digits" is enlarged to 20,000 training
            records by small shifts (something to learn under privacy without any file: its budget protects nobody).
        features: of images: "image"; "flat", rows of pixels; "pca-K", K principal components, computed from the
            training records without noise, which no budget accounts for.
        n_train: so many random training images, all by default.
        split_seed: draws the validation part from the published test part, as the paper does, and the subsample; of
            messages and patients all parts.
        part: "report"; or "tune": the validation part is a share of the training part (:data:`HELD`), which is not
            trained on, and the test part is the same; or "fit", of images: the validation part is the published test
            part, and the test part the training part.
        length: words kept of a message.

    Raises:
        ParameterError: for a value outside its range.
    """
    checks.one_of(*PARTS).check("part", part)
    if dataset in TEXTS + PATIENTS:
        return _table(dataset, split_seed, part, length)
    split, thin = np.random.SeedSequence(split_seed).spawn(2)
    if n_train is None or n_train >= len(_whole(dataset, "image").y_train):
        dataset_ = _whole(dataset, features)
    else:
        dataset_ = _with_features(
            preprocess.subsample(_whole(dataset, "image"), n_train, np.random.default_rng(thin)), features
        )
    if part == "fit":
        swapped = {
            "x_valid": dataset_.x_test,
            "y_valid": dataset_.y_test,
            "x_test": dataset_.x_train,
            "y_test": dataset_.y_train,
        }
        return replace(dataset_, **swapped)
    dataset_ = _halved(dataset_, np.random.default_rng(split))
    return (
        dataset_ if part == "report" else _for_tuning(dataset_, HELD["images"], np.random.default_rng([split_seed, 2]))
    )


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
    """Images enlarged to more training records: random ones, moved by up to a pixel, with a little noise.

    Args:
        dataset: of images.
        n_train: training records that there shall be.
        rng: draws them.
    """
    rows = rng.integers(len(dataset.y_train), size=n_train)
    images = dataset.x_train[rows].copy()
    moves = rng.integers(-1, 2, size=(n_train, 2))
    for move in np.unique(moves, axis=0):
        at = (moves == move).all(1)
        images[at] = np.roll(images[at], tuple(move), axis=(2, 3))
    images += rng.normal(0, 0.1, images.shape).astype(np.float32)
    note = f"training part enlarged to {n_train} records by shifts and noise"
    return replace(dataset, x_train=images.clip(0, 1), y_train=dataset.y_train[rows], notes=(*dataset.notes, note))


def _halved(dataset: Dataset, rng: np.random.Generator) -> Dataset:
    """Half of the test part becomes the validation part (paper B has 5,000 and 5,000 of MNIST's 10,000)."""
    n = len(dataset.y_test)
    valid, test = preprocess.disjoint(n, (n // 2, n - n // 2), rng, "test")
    return replace(
        dataset,
        x_valid=dataset.x_test[valid],
        y_valid=dataset.y_test[valid],
        x_test=dataset.x_test[test],
        y_test=dataset.y_test[test],
        notes=(*dataset.notes, "half of the test part held out for validation"),
    )


def _for_tuning(dataset: Dataset, share: float, rng: np.random.Generator) -> Dataset:
    x, y = dataset.x_train, dataset.y_train
    count = round(share * len(y))
    held, kept = preprocess.disjoint(len(y), (count, len(y) - count), rng)
    return replace(
        dataset, x_train=x[kept], y_train=y[kept], x_valid=x[held], y_valid=y[held], x_test=x[held], y_test=y[held]
    )


def _table(dataset: str, split_seed: int, part: str, length: int) -> Dataset:
    loaded = synthetic(dataset) if dataset in SYNTHETIC else preprocess.paper_b_split(data.load(dataset), split_seed)
    if part == "tune":
        loaded = _for_tuning(loaded, HELD["tables"], np.random.default_rng([split_seed, 2]))
    if dataset in TEXTS:
        return preprocess.tokens(loaded, 1000 if dataset == "sms-spam" else 100, length)
    return preprocess.min_max_target(preprocess.min_max(preprocess.medical_cost_numeric(loaded)))


def synthetic(dataset: str) -> Dataset:
    """A stand-in with the columns and about the imbalance of the real set: it shows how the code works, no more.

    Args:
        dataset: one of :data:`SYNTHETIC`.
    """
    rng = np.random.default_rng([0, 5])
    return {TEXTS[0]: _messages, PATIENTS[0]: _patients}[dataset](rng)


def drawn(name: str, x: np.ndarray, y: np.ndarray, n_test: int, **fields: Any) -> Dataset:
    """A data set of records drawn at random, of which the first are the test part.

    Args:
        name: of the data set.
        x: features, shape (n, ...).
        y: labels, shape (n,).
        n_test: records of the test part.
        fields: other fields of :class:`dplib.data.Dataset`, by name.
    """
    return Dataset(name, x[n_test:], y[n_test:], x[:n_test], y[:n_test], notes=("drawn at random",), **fields)


def _messages(rng: np.random.Generator) -> Dataset:
    """13.4% spam, which says one to three of ten words that others say seldom."""
    n = 1500
    spam = rng.random(n) < 0.134
    words = [f"w{i}" for i in range(90)]
    telling = [f"win{i}" for i in range(10)]
    rows = []
    for is_spam in spam:
        chosen = list(rng.choice(words, rng.integers(4, 12)))
        chosen += list(rng.choice(telling, rng.integers(1, 4))) if is_spam or rng.random() < 0.03 else []
        rows.append(" ".join(rng.permutation(chosen)))
    return drawn(TEXTS[0], np.array(rows, dtype=object), spam.astype(np.int64), 400, classes=("ham", "spam"))


def _patients(rng: np.random.Generator) -> Dataset:
    """Costs that rise with age, and for smokers with the body mass index too."""
    n = 1300
    age, bmi, children = rng.integers(18, 65, n), rng.normal(30.7, 6.1, n).clip(16, 53), rng.poisson(1.1, n).clip(0, 5)
    male, smokes = rng.random(n) < 0.5, rng.random(n) < 0.2
    region = rng.choice(["northeast", "northwest", "southeast", "southwest"], n)
    cost = 3.3 * age**2 + 500 * children + smokes * (14_000 + 15_000 * (bmi > 30)) + rng.gamma(1.0, 2500, n)
    columns = [age, np.where(male, "male", "female"), bmi.round(2), children, np.where(smokes, "yes", "no"), region]
    names = ("age", "sex", "bmi", "children", "smoker", "region")
    x = np.column_stack([np.asarray(c).astype(str) for c in columns])
    return drawn(PATIENTS[0], x, cost.astype(np.float32), 300, feature_names=names)
