"""Paper B, Section VI-B: how many DP-SGD steps a network needs to reach a set validation accuracy.

The training set is drawn with replacement from the published one, as the paper does, so that n may exceed it. The run
yields a number of steps and nothing about privacy: at a fixed noise multiplier and batch size, epsilon follows from
(batch / n, steps) afterwards, under any accountant (:mod:`dplib.architecture.sample_size_fit`).
"""

import numpy as np
import torch

from dplib import checks, dpsgd, examples, runs, sampling, trainings
from dplib.dpsgd import Engine
from dplib.examples import Examples
from dplib.sgd import find_device

EVERY = 5  # steps between looks at the accuracy


@runs.experiment(
    "steps_to_target",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "hidden": [16], "n": 5000, "learning_rate": 1.0, "seed": 3, "target": 0.5,
           "most_steps": 60},
)  # fmt: skip
def steps_to_target(
    *,
    dataset: str,
    hidden: list[int],
    n: int,
    learning_rate: float,
    seed: int,
    part: str = "report",
    features: str = "flat",
    batch: int = 250,
    noise_multiplier: float = 2.0,
    target: float = 0.85,
    most_steps: int = 1000,
    device: str = "cpu",
) -> runs.Result:
    """Train by DP-SGD until the validation accuracy first reaches ``target``.

    Args:
        dataset, features, part: of :func:`dplib.data.tasks.task`; its validation part decides when to stop.
        hidden: units of each hidden layer.
        n: training records, drawn with replacement.
        learning_rate: of plain SGD on the noisy gradients.
        seed: decides split, draw, initial weights, batches and noise. Equal seeds draw equal records at equal n.
        batch: expected batch size, at most n. noise_multiplier: of DP-SGD with clipping norm 1.
        target: accuracy in (0, 1). most_steps: give up after so many.

    Returns:
        "steps" at the first look that reached the target, None where none did; "validation" and "test" accuracies at
        the end; "distinct", how many different records were drawn; "parameters"; "score" for tuning: minus the steps,
        or, without success, minus ``most_steps`` less what was missing.

    Raises:
        ParameterError, DataError: for what is not allowed or not there.
    """
    checks.fraction().check("target", target)
    checks.integer(1, n).check("batch", batch)
    found = trainings.task(dataset, features, None, seed, part)
    weights, draws, batches, noise = np.random.SeedSequence([seed, 2]).spawn(4)
    net = trainings.network(
        hidden, found.x_train.shape[1:], len(found.classes), "relu", 0.0, int(weights.generate_state(1)[0])
    )
    place = find_device(device)
    parts = {
        name: Examples((getattr(found, f"x_{name}"), getattr(found, f"y_{name}")), name, place, torch.float32)
        for name in ("train", "valid", "test")
    }
    base = parts["train"].n
    drawn = torch.from_numpy(np.random.default_rng(draws).integers(base, size=n))
    settings = dpsgd.DPSGD(
        steps=most_steps,
        sample_rate=batch / base,  # the engine divides by sample_rate * base, which is the batch size wanted
        learning_rate=learning_rate,
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
    )
    generator = torch.Generator(place).manual_seed(int(noise.generate_state(1)[0]))
    rng = np.random.default_rng(batches)
    engine = Engine(net.to(place).train(), settings, parts["train"], examples.cross_entropy, generator)
    reached, accuracy = None, 0.0
    for step in range(1, most_steps + 1):
        engine.step(drawn[torch.from_numpy(sampling.poisson(n, batch / n, rng))].to(place))
        if step % EVERY == 0:
            accuracy = _accuracy(net, parts["valid"])
            if accuracy >= target:
                reached = step
                break
    engine.close()
    return {
        "steps": reached,
        "validation": accuracy,
        "test": _accuracy(net, parts["test"]),
        "distinct": len(drawn.unique()),
        "parameters": sum(p.numel() for p in net.parameters()),
        "score": -float(reached) if reached else -most_steps * (2 - accuracy),
    }


def _accuracy(net: torch.nn.Module, part: Examples) -> float:
    return examples.evaluate(net, part, examples.cross_entropy, examples.correct)["metric"]
