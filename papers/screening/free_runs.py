"""Screening where chapter 12 proves it free: logistic regression whose private updates a public loss may refuse.

The theorem's conditions, one by one: J is the mean cross entropy of *public* records, convex in the weights; a
candidate is accepted with probability exp(-Q (J(candidate) - J(weights))) if that is below 1, with one Q throughout,
and drawn again without limit; the batch of an update is drawn once, its noise for each candidate; the number of
updates is fixed, and only they are released, not how many candidates there were. So they spend what as many steps of
DP-SGD do (add or remove one record, Poisson batches), and DP-SGD on the same batches is what stands beside them.

Whoever has public records could use them otherwise. So a third arm takes, at each update, a gradient step on J.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from book.evidence import runs
from dplib import accounting, checks, data, examples

ARMS = ("plain", "screened", "public")
MOST = 20  # candidates for an update, on average: a training that needs more is given up


@dataclass(frozen=True, eq=False)
class Records:
    """Private, public, validation and test records: rows of length 1 (n, d), labels (n,), and the number of classes."""

    private: tuple[np.ndarray, np.ndarray]
    public: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    classes: int


def records(dataset: str, private: int, public: int, seed: int) -> Records:
    """Parts of a set of images, drawn by the seed: pixels less the public records' mean, each scaled by itself."""
    loaded = data.load(dataset)
    x, y = loaded.x_train.reshape(len(loaded.y_train), -1), loaded.y_train
    order = np.random.default_rng([12, 7, seed]).permutation(len(y))
    ends = np.cumsum([private, public, min(5000, len(y) - private - public)])
    if ends[-2] >= len(y):
        raise checks.ParameterError(f"private + public = {ends[1]} is not allowed: {dataset} has {len(y)} records.")
    rows = np.split(order[: ends[-1]], ends[:-1])
    centre = x[rows[1]].mean(axis=0)

    def scaled(images: np.ndarray) -> np.ndarray:
        moved = images - centre
        return moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6)

    test = scaled(loaded.x_test.reshape(len(loaded.y_test), -1)), loaded.y_test
    return Records(*((scaled(x[part]), y[part]) for part in rows), test, len(loaded.classes))


def screened_training(
    parts: Records,
    arm: str,
    *,
    updates: int,
    sample_rate: float,
    noise_multiplier: float,
    learning_rate: float,
    strength: float,
    seed: int,
    max_grad_norm: float = 1.0,
) -> tuple[np.ndarray | None, int]:
    """Weights (d, K) after so many updates from zero, None where it was given up, and how many candidates were drawn.

    strength: "screened": Q. "public": the step on J, beside each update. learning_rate: with 0 no private record is
    used. seed: arms of one seed have the same batches.
    """
    (x, y), (x_public, y_public) = parts.private, parts.public
    streams = np.random.SeedSequence([12, 8, seed]).spawn(3)
    batches, noise, coins = (np.random.default_rng(stream) for stream in streams)
    expected = sample_rate * len(y)
    weights = np.zeros((x.shape[1], parts.classes), dtype=np.float32)
    spread = np.float32(learning_rate * noise_multiplier * max_grad_norm / expected)
    candidates = 0
    now = energy(weights, x_public, y_public)
    for _ in range(updates):
        rows = examples.poisson(len(y), sample_rate, batches)
        errors = _errors(weights, x[rows], y[rows])
        norms = np.linalg.norm(errors, axis=1) * np.linalg.norm(x[rows], axis=1)
        errors *= np.minimum(1, max_grad_norm / np.maximum(norms, 1e-12))[:, None]
        mean = weights - np.float32(learning_rate / expected) * (x[rows].T @ errors)
        if arm == "public":
            mean -= np.float32(strength / len(y_public)) * (x_public.T @ _errors(weights, x_public, y_public))
        while True:
            candidates += 1
            new = mean + spread * noise.standard_normal(mean.shape, dtype=np.float32)
            if arm != "screened":
                break
            then = energy(new, x_public, y_public)
            if coins.random() <= np.exp(-strength * max(0.0, then - now)):
                now = then
                break
            if candidates >= MOST * updates:
                return None, candidates
        weights = new
    return weights, candidates


def energy(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """J: mean cross entropy of records x (m, d), y (m,)."""
    logits = x @ weights
    top = logits.max(axis=1)
    true_logit = logits[np.arange(len(y)), y]
    return float((np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - true_logit).mean())


def _errors(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Softmax less one-hot, (m, K)."""
    logits = x @ weights
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(y)), y] -= 1
    return chances


@runs.experiment(
    "screening_free",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "epsilon": 1.0, "arm": "screened", "pairs": [[4.0, 100.0]], "seed": 3,
           "private": 600, "public": 200, "updates": 40, "sample_rate": 0.2},
)  # fmt: skip
def compare(
    *,
    dataset: str,
    epsilon: float,
    arm: str,
    pairs: Sequence[Sequence[float]],
    seed: int,
    private: int = 10_000,
    public: int = 500,
    updates: int = 200,
    sample_rate: float = 0.05,
    delta: float = 1e-5,
) -> runs.Result:
    """Trainings of one arm, one for each pair of learning rate and strength, at one budget.

    (epsilon, delta)-DP of the private records by PLD: ``updates`` steps of the sampled Gaussian mechanism, which
    for "screened" is chapter 12's theorem. The choice of a pair on validation records is not accounted.

    Returns:
        "validation" and "test": accuracy for each pair, None where the training was given up; "candidates" for each;
        "noise_multiplier", and "epsilon_prv", what it spends by a second accountant.
    """
    checks.one_of(*ARMS).check("arm", arm)
    parts = records(dataset, private, public, seed)
    sigma = float(accounting.noise_multiplier(epsilon, sample_rate, updates, delta, "pld"))
    counts: dict[str, list] = {"validation": [], "test": [], "candidates": []}
    for rate, strength in pairs:
        weights, candidates = screened_training(
            parts, arm, updates=updates, sample_rate=sample_rate, noise_multiplier=sigma, learning_rate=rate,
            strength=strength, seed=seed,
        )  # fmt: skip
        for name, (x, y) in (("validation", parts.validation), ("test", parts.test)):
            right = None if weights is None else round(float(((x @ weights).argmax(axis=1) == y).mean()), 6)
            counts[name].append(right)
        counts["candidates"].append(candidates)
    spent = runs.to_figures(accounting.epsilon(sigma, sample_rate, updates, delta, "prv"), 6)
    return {**counts, "noise_multiplier": sigma, "epsilon_prv": spent}
