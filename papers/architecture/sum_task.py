"""Paper B's engineered task (Section VI-A): one learning problem whose input can be made as wide as one likes.

Ten features, uniform on [0, 1]; the class says whether their sum exceeds its median. To widen the input every feature
is split into pieces that add up to it. The learner is one sigmoid unit with the logistic loss, by SGD and by DP-SGD.

With equal pieces a wide input is the narrow one in other coordinates: k pieces x/k of a feature x are a vector of
length x/sqrt(k) in one fixed direction. That is why equal pieces need no wide matrix here (``copies``), and why a
model of m inputs predicts like one of ten inputs scaled by 1/sqrt(k) (:func:`repeat` with ``scale``).
"""

import numpy as np

from dplib import examples

BASE = 10  # features before splitting: the smallest input size of Table III
_HELD_OUT = 5000  # test records of a repeat


def draw(n: int, size: int, split: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """n records of the task at one input size, a multiple of :data:`BASE`; each feature becomes k = size / BASE pieces.

    ``split``: "equal": k pieces x/k. "random": x times a uniform point of the simplex, drawn for each record. Returns
    x (n, BASE) with k copies of every column meant, or (n, size) with one; y (n,) of 0 and 1; the number of copies.
    """
    features, k = rng.random((n, BASE)), size // BASE
    y = (features.sum(1) > BASE / 2).astype(np.float32)
    if split == "equal" or k == 1:
        return (features / k).astype(np.float32), y, k
    shares = rng.standard_exponential((n, BASE, k), dtype=np.float32)
    shares *= (features / shares.sum(2))[:, :, None].astype(np.float32)
    return shares.reshape(n, size), y, 1


def repeat(
    *,
    size: int,
    seed: int,
    n: int,
    batch: int,
    epochs: int,
    noise_multiplier: float,
    learning_rate: float,
    sgd_learning_rate: float,
    split: str = "equal",
    scale: str = "as printed",
    max_grad_norm: float = 1.0,
    init: str = "glorot",
) -> dict:
    """Train by SGD and by DP-SGD from the same weights on the same batches, and compare the two after every epoch.

    Args:
        size, split: of :func:`draw`. n: training records. batch: expected batch size. epochs: passes over the data.
        noise_multiplier: on the sum of gradients clipped to ``max_grad_norm``; SGD neither clips nor adds noise.
        scale: "as printed"; "rows kept": pieces times sqrt(k), so that a record has the length it had before the
            split; "narrow, shrunk": the ten features themselves over sqrt(k), the model that has no wide input at all.
        init: "glorot": uniform on +-sqrt(6 / (m + 1)), the default of Keras; "zero".

    Returns:
        "accuracy" and "sgd_accuracy" at the end, "validation" and "sgd_validation" on other records; by epoch
        "accuracies", "distances" (cosine distance of all parameters to those where SGD ends), "same_epoch" (to SGD
        after the same epoch) and "predictive" (to SGD's end, of the part of the parameters that acts on the data:
        pieces of a feature averaged). "norm" is the mean length of a record.
    """
    data, weights, batches, noise = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4))
    k = size // BASE
    factor = np.sqrt(k) if scale == "rows kept" else 1.0
    if scale == "narrow, shrunk":
        factor, size = 1 / np.sqrt(k), BASE
    parts = [draw(count, size, split, data) for count in (n, _HELD_OUT, _HELD_OUT)]
    copies = parts[0][2]
    train, valid, test = ((np.float32(factor) * x, y) for x, y, _ in parts)
    limit = np.sqrt(6 / (size + 1)) if init == "glorot" else 0.0
    start = weights.uniform(-limit, limit, (train[0].shape[1], copies))
    steps = max(1, round(n / batch))  # of an epoch

    norms = np.sqrt(copies * np.square(train[0]).sum(1) + 1)  # of the input with the constant that the bias multiplies
    dp, sgd = [_Unit(start.copy(), 0.0), _Unit(start.copy(), 0.0)]
    history = []
    for _ in range(epochs):
        for _ in range(steps):
            rows = examples.poisson(n, batch / n, batches)
            x, y, length = train[0][rows], train[1][rows], norms[rows]
            dp.step(x, y, length, learning_rate / batch, max_grad_norm, noise_multiplier * max_grad_norm, noise)
            sgd.step(x, y, length, sgd_learning_rate / batch, np.inf, 0.0, noise)
        history.append((dp.parameters(), sgd.parameters(), dp.predictive(), dp.accuracy(*test)))
    end, end_predictive = sgd.parameters(), sgd.predictive()
    return {
        "accuracy": history[-1][3],
        "sgd_accuracy": sgd.accuracy(*test),
        "validation": dp.accuracy(*valid),
        "sgd_validation": sgd.accuracy(*valid),
        "accuracies": [row[3] for row in history],
        "distances": [cosine_distance(row[0], end) for row in history],
        "same_epoch": [cosine_distance(row[0], row[1]) for row in history],
        "predictive": [cosine_distance(row[2], end_predictive) for row in history],
        "norm": float(np.sqrt(norms**2 - 1).mean()),
        "sgd_length": float(np.linalg.norm(end)),
    }


class _Unit:
    """One sigmoid unit: weights (columns, copies) and a bias."""

    def __init__(self, weights: np.ndarray, bias: float):
        self.weights, self.bias = weights, bias

    def step(self, x, y, norms, rate, clip, noise_sd, rng) -> None:
        """Move by ``rate`` against the sum of the clipped gradients (error times input) and the noise."""
        with np.errstate(over="ignore"):
            error = 1 / (1 + np.exp(-self.logits(x))) - y
        if np.isfinite(clip):
            error *= np.minimum(1, clip / np.maximum(np.abs(error) * norms, 1e-12))
        self.weights -= rate * (error @ x)[:, None]  # every copy of a feature has the same gradient ...
        self.bias -= rate * error.sum()
        if noise_sd:  # ... and noise of its own
            self.weights -= rate * noise_sd * rng.standard_normal(self.weights.shape)
            self.bias -= rate * noise_sd * rng.standard_normal()

    def logits(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weights.sum(1).astype(np.float32) + np.float32(self.bias)

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(((self.logits(x) > 0) == (y > 0.5)).mean())

    def parameters(self) -> np.ndarray:
        """All of them, (m + 1,)."""
        return np.append(self.weights.ravel(), self.bias)

    def predictive(self) -> np.ndarray:
        """The part that acts on equal pieces, in an orthonormal basis, (BASE + 1,): the rest never meets a record."""
        pieces = self.weights.reshape(BASE, -1)
        return np.append(pieces.sum(1) / np.sqrt(pieces.shape[1]), self.bias)


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    """1 - a'b / (|a| |b|), in [0, 2]."""
    return float(1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
