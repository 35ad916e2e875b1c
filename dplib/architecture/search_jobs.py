"""One training of one candidate of an architecture search: plain values in, plain values out, for :mod:`dplib.study`.

Other than :func:`dplib.trainings.train` it keeps two seeds apart. All candidates of a search share the split of the
records, so that the winner's test records chose nothing; each draws its own batches, noise, weights and dropout, as
the composition theorems behind a search's budget require.
"""

import math
from dataclasses import replace

import numpy as np

from dplib import checks, dpsgd, trainings
from dplib.data import Dataset

PARTS = ("report", "tune")


def records(dataset: str, features: str, split_seed: int, part: str = "report") -> Dataset:
    """The records of a search: training, validation and test parts.

    Args:
        dataset, features: of :func:`dplib.trainings.task`, whose validation and test parts are halves of the published
            test part.
        split_seed: draws the halves.
        part: "report"; or "tune", whose validation part is a twelfth of the training records, not trained on, and
            which has no test part: learning rates are chosen without any record of a report's validation or test part.
    """
    checks.one_of(*PARTS).check("part", part)
    found = trainings.task(dataset, features, None, split_seed)
    if part == "report":
        return found
    order = np.random.default_rng([split_seed, 2]).permutation(len(found.y_train))
    held, kept = np.sort(order[: len(order) // 12]), np.sort(order[len(order) // 12 :])
    x, y = found.x_train, found.y_train
    return replace(
        found, x_train=x[kept], y_train=y[kept], x_valid=x[held], y_valid=y[held], x_test=x[held], y_test=y[held]
    )


def train(
    *,
    dataset: str,
    features: str,
    model: trainings.Model,
    learning_rate: float,
    split_seed: int,
    seed: int,
    batch: int,
    steps: int,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    delta: float = 1e-5,
    max_grad_norm: float | None = 1.0,
    momentum: float = 0.0,
    activation: str | list[str] = "relu",
    dropout: float = 0.0,
    frozen: list[int] | None = None,
    part: str = "report",
) -> dict:
    """Train and evaluate the last iterate.

    Args:
        dataset, features, split_seed, part: of :func:`records`.
        model, activation, dropout, frozen: of :func:`dplib.trainings.train`.
        seed: initial weights, batches, noise, dropout.
        epsilon: budget at ``delta`` of this training alone, neighbours add or remove a training record; or
            ``noise_multiplier``, from which the caller computes a budget; neither: no noise.

    Returns:
        "validation" and "test" accuracies (None after divergence; no "test" for the part "tune"),
        "noise_multiplier", "sample_rate", "parameters", "trained".

    Raises:
        ParameterError, DataError: for what is not allowed or not there.
    """
    found = records(dataset, features, split_seed, part)
    weights, draws = np.random.SeedSequence([split_seed, seed, 7]).spawn(2)
    n, shape = len(found.y_train), found.x_train.shape[1:]
    net = trainings.network(model, shape, len(found.classes), activation, dropout, int(weights.generate_state(1)[0]))
    if frozen:
        trainings.freeze(net, frozen)
    sample_rate = min(1.0, batch / n)
    noise = float(noise_multiplier or 0.0)
    if epsilon is not None:
        noise = float(trainings.noise_for(epsilon, sample_rate, steps, delta))
    settings = dpsgd.DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=learning_rate,
        noise_multiplier=noise,
        max_grad_norm=max_grad_norm,
        momentum=momentum,
    )
    parts = dpsgd.Data((found.x_train, found.y_train), (found.x_valid, found.y_valid), (found.x_test, found.y_test))
    run = dpsgd.train(net, parts, settings, np.random.default_rng(draws), progress=False)

    def accuracy(name: str) -> float | None:
        value = run.final[name]["metric"]
        return value if math.isfinite(value) and not run.diverged else None

    result = {"validation": accuracy("validation")}
    if part == "report":
        result["test"] = accuracy("test")
    return result | {
        "noise_multiplier": noise,
        "sample_rate": run.sample_rate,
        "parameters": run.parameters,
        "trained": run.trained_parameters,
    }
