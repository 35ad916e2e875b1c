"""Feature selection with DP-SGD (paper B, Tables II and XVIII): one layer of two neurons with softmax.

Two neurons with softmax and cross-entropy are binary logistic regression with twice the weights, and
:mod:`dplib.logistic_grid` trains many of them at once: all learning rates and budgets of a subset on one split.
Privacy: records added or removed, Poisson samples, or full batches where the batch size is not below the number of
records (a batch of 250 from 191 records is no batch). The noise is calibrated by privacy loss distributions, exactly
for full batches; the choice of the columns and of the learning rate is not covered.
"""

import numpy as np

from dplib import accounting, logistic_grid
from dplib.architecture import feature_data
from dplib.engine import DPSGD
from dplib.examples import Data

CLIP = 1.0  # max_grad_norm; the paper gives none. Where noise rules, only its product with the learning rate matters


def schedule(n: int, batch: int, epochs: int) -> tuple[float, int]:
    """Sample rate and steps of ``epochs`` passes over n records; full batches where n <= batch."""
    rate = min(1.0, batch / n)
    return rate, max(1, round(epochs / rate))


def noise_for(epsilon: float, n: int, batch: int, epochs: int, delta: float) -> float:
    """The least noise multiplier that keeps a budget, for records added or removed."""
    rate, steps = schedule(n, batch, epochs)
    return float(accounting.noise_multiplier(epsilon, rate, steps, delta, "prv" if rate == 1 else "pld"))


def train(
    *,
    dataset: str,
    seed: int,
    columns: list[int],
    models: list[list[float | None]],
    draws: int = 1,
    batch: int = 250,
    epochs: int = 40,
    delta: float = 1e-5,
    validation: int = 0,
) -> dict:
    """Train one subset on one split, for several budgets and learning rates.

    Args:
        dataset, seed: of :func:`dplib.architecture.feature_data.load`; the seed draws batches and noise too. Models of
            one call share their batches.
        columns: of the subset.
        models: for each an epsilon (None: plain SGD, without clipping) and a learning rate.
        draws: of the noise for each model with an epsilon.
        batch, epochs: of :func:`schedule`. delta: of each training.
        validation: so many training records are held out and accuracy is measured on them, at the same sample rate,
            steps and noise; 0: on the test part.

    Returns:
        "accuracy": a list for each model, over its draws; "noise": noise multipliers; "constant": test accuracy of the
        more frequent class.
    """
    table = feature_data.load(dataset, seed, validation)
    n = len(table.y_train) + len(table.y_valid)
    rate, steps = schedule(n, batch, epochs)
    noises = {e: 0.0 if e is None else noise_for(e, n, batch, epochs, delta) for e, _ in models}
    counts = [1 if e is None else draws for e, _ in models]
    settings = [
        DPSGD(steps, rate, learning_rate, noises[e], None if e is None else CLIP)
        for (e, learning_rate), count in zip(models, counts, strict=True)
        for _ in range(count)
    ]
    x, y = (table.x_valid, table.y_valid) if validation else (table.x_test, table.y_test)
    parts = Data((_rows(table.x_train, columns), table.y_train.astype(int)), test=(_rows(x, columns), y.astype(int)))
    rng = np.random.default_rng([seed, 29, len(columns)])
    _, run = logistic_grid.train_grid(parts, settings, rng, classes=2, device="cpu", progress=False)
    accuracy = np.split(run.results["test"]["metric"], np.cumsum(counts)[:-1])
    return {
        "accuracy": [[round(float(a), 8) for a in some] for some in accuracy],
        "noise": [noises[e] for e, _ in models],
        "constant": table.constant(),
    }


def _rows(x: np.ndarray, columns: list[int]) -> np.ndarray:
    return np.ascontiguousarray(x[:, columns], dtype=np.float32)
