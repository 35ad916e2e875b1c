"""Random features trained by private gradient descent on all records at once: the model of Bombari and Mondelli (2025).

f(x) = theta' phi(x) with phi(x) = sqrt(2/p) relu(V x), V fixed and Gaussian, squared loss on one-hot labels. A record's
gradient is phi(x) times its residual. With |x| = 1 the features have norm about 1 whatever p is, so the noise that a
step adds to theta moves a prediction by N(0, sd^2 |phi(x)|^2), whatever p is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from book.evidence import runs
from dplib import checks, mechanisms
from papers.sizes import public_part

CLIP = 1.0
BLOCK = 1000  # records whose features are made at once where they are not kept


def unit_rows(dataset: str) -> dict[str, public_part.Part]:
    """Pixels, centred by the public part's mean, each record of norm 1; and labels."""
    loaded = public_part.parts(dataset, None)
    middle = loaded["public"][0].mean(axis=0)
    rows = {name: x - middle for name, (x, _) in loaded.items()}
    return {name: (x / np.linalg.norm(x, axis=1, keepdims=True), loaded[name][1]) for name, x in rows.items()}


def phi(x: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Features (rows, p) of rows (rows, d) for directions (d, p)."""
    out = x @ directions
    np.maximum(out, 0, out=out)
    out *= np.sqrt(2 / directions.shape[1], dtype=np.float32)
    return out


@runs.experiment(
    "random_features",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "n": 400, "p": 300, "settings": [[2.0, 1.0], [None, 2.0]], "seed": 3, "steps": 20},
)
def features(
    *,
    dataset: str,
    n: int,
    p: int,
    settings: list[list[float | None]],
    seed: int,
    steps: int = 50,
    delta: float = 1e-5,
    records: int = 2000,
) -> runs.Result:
    """Train on n random records of the pool, for several budgets and rates at once, from the same features.

    Args:
        settings: pairs of a budget at ``delta`` (None: neither clipping nor noise) and a learning rate. All records are
            in every step, their gradients clipped to norm 1; neighbours: one record added or removed, n public.
        records: of the public and of the test part, that many at random, on which the last iterate is evaluated.

    Returns for each pair "validation" (public part) and "test" accuracy; and "clipped", the share of gradients cut.
    """
    checks.integer(1).check("p", p)
    loaded = unit_rows(dataset)
    drawn, directed, noisy = map(np.random.default_rng, np.random.SeedSequence([seed, 15]).spawn(3))
    checks.integer(1, len(loaded["pool"][1])).check("n", n)
    counts = {"pool": n, "public": records, "test": records}
    rows = {name: drawn.permutation(len(loaded[name][1]))[:count] for name, count in counts.items()}
    parts = {name: (loaded[name][0][at], loaded[name][1][at]) for name, at in rows.items()}
    x, y = parts["pool"]
    directions = directed.standard_normal((x.shape[1], p), dtype=np.float32)
    theta, clipped = descend(phi(x, directions), y, int(loaded["pool"][1].max()) + 1, settings, steps, delta, noisy)
    reached = {name: _accuracies(theta, directions, *parts[name], len(settings)) for name in ("public", "test")}
    return {"validation": reached["public"], "test": reached["test"], "clipped": clipped}


def descend(
    features: np.ndarray,
    y: np.ndarray,
    classes: int,
    settings: Sequence[Sequence[float | None]],
    steps: int,
    delta: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """Weights (p, settings, classes) from features (n, p) and labels (n,), and the share of gradients that were cut."""
    (n, p), k = features.shape, len(settings)
    target = np.eye(classes, dtype=np.float32)[y][:, None]
    lengths = np.linalg.norm(features, axis=1)[:, None]
    most = np.array([[np.inf if epsilon is None else CLIP for epsilon, _ in settings]])
    deviations = [
        0.0 if epsilon is None else mechanisms.analytic_sigma(epsilon, delta, CLIP) for epsilon, _ in settings
    ]
    noise = np.array(deviations, np.float32)[:, None] * np.float32(steps**0.5)
    rates = np.array([rate for _, rate in settings], np.float32)[:, None] / n
    theta, cut = np.zeros((p, k, classes), np.float32), np.zeros(k)
    for _ in range(steps):
        residual = (features @ theta.reshape(p, -1)).reshape(n, k, classes) - target
        norms = np.linalg.norm(residual, axis=2) * lengths  # of each record's gradient
        cut += (norms > most).mean(axis=0) / steps
        residual *= np.minimum(1, most / np.maximum(norms, 1e-12))[:, :, None].astype(np.float32)
        total = (features.T @ residual.reshape(n, -1)).reshape(theta.shape)
        theta -= rates * (total + noise * rng.standard_normal(theta.shape, dtype=np.float32))
    return theta, cut.tolist()


def _accuracies(theta: np.ndarray, directions: np.ndarray, x: np.ndarray, y: np.ndarray, count: int) -> list[Any]:
    right = np.zeros(count)
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        scores = phi(x[block], directions) @ theta.reshape(len(theta), -1)
        right += (scores.reshape(len(scores), count, -1).argmax(axis=2) == y[block, None]).sum(axis=0)
    return (right / len(y)).tolist()
