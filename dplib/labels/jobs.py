"""One run of LP-MST on images with plain values, for :mod:`dplib.study`: label-private training of chapters 9 and 10.

All inputs are public under label privacy, so their mean and spread may be taken without noise. A run with validation
examples keeps them out of training; their labels are answered by plain randomised response, each once.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from dplib import checks, data
from dplib.architectures import small_inception
from dplib.checks import ParameterError
from dplib.labels import stages as label_stages
from dplib.labels import training as label_training
from dplib.labels.learner import NetworkLearner
from dplib.labels.randomised_response import rr
from dplib.models import mlp, preact_resnet18

NETWORKS = ("small-cnn", "small-mlp", "inception", "resnet18")
DIGITS = 6_000  # training records that "digits" is enlarged to: its budget protects nobody


def train(
    *,
    dataset: str,
    network: str = "small-cnn",
    epsilon: float | None,
    shares: Sequence[float] = (1.0,),
    temperature: float | Sequence[float] = 1.0,
    mixup: float | Sequence[float] = 0.0,
    training: Mapping[str, Any],
    seed: int,
    n_train: int | None = None,
    validation: int = 0,
    warm_start: bool = True,
    reuse: bool = True,
    filtered: bool = True,
    curve: bool = False,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train by LP-MST and report each stage.

    Args:
        dataset: of ``data.names()``, images. network: of NETWORKS.
        epsilon: of the whole, each label's; None for the true labels.
        shares: of the parts, as many as stages.
        temperature, warm_start, reuse, filtered: as :func:`dplib.labels.stages.run`.
        mixup: one coefficient, or one for each stage.
        training: further arguments of :func:`dplib.labels.training.fit` for every stage.
        seed: of split, answers, weights and order of the examples, in streams of their own.
        n_train: so many random training examples, all by default.
        validation: 0: evaluate on the test part. Else so many training examples are kept out, and evaluated on.

    Returns:
        "stages": the fields of :class:`dplib.labels.stages.Stage`, "evaluation" with "top" (top-1 to top-5 accuracies)
        and, where asked, "curve" (the same after each epoch); "accuracy": the last top-1; with validation examples also
        "randomised", its estimate from their randomised labels.

    Raises:
        ParameterError: for settings that are not allowed.
    """
    images = prepared(dataset)
    split, answers, checking = (np.random.default_rng([seed, stream]) for stream in range(3))
    order = split.permutation(len(images.y_train))[: n_train or None]
    held, rows = order[:validation], order[validation:]
    x = torch.as_tensor(images.x_train).to(device)
    test = (x[torch.as_tensor(held)], images.y_train[held]) if validation else (images.x_test, images.y_test)
    classes = int(images.y_train.max()) + 1
    mixups = [mixup] * len(shares) if np.ndim(mixup) == 0 else list(mixup)
    if len(mixups) != len(shares):
        raise ParameterError(f"mixup = {mixup} is not allowed: one number, or one for each of {len(shares)} stages.")
    learner = NetworkLearner(
        lambda: build(network, x.shape[1:], classes),
        x,
        torch.as_tensor(test[0]).to(device),
        test[1],
        [{**training, "mixup": coefficient} for coefficient in mixups],
        seed=seed,
        top=5,
        curve=curve,
    )
    outcome = label_stages.run(
        images.y_train,
        [rows[part] for part in label_stages.split(len(rows), shares, split)],
        learner,
        epsilon,
        classes=classes,
        temperature=temperature,
        warm_start=warm_start,
        reuse=reuse,
        filtered=filtered,
        rng=answers,
    )
    stages = [asdict(stage) for stage in outcome.stages]
    result = {"stages": stages, "accuracy": stages[-1]["evaluation"]["top"][0]}
    if validation:
        guessed = label_training.logits(outcome.model, learner.test_inputs).argmax(1)
        result["randomised"] = estimated_accuracy(guessed, test[1], classes, epsilon, checking)
    return result


def estimated_accuracy(guessed, labels, classes: int, epsilon: float | None, rng) -> float:
    """Accuracy of guesses (n,) estimated without bias from labels (n,) that are randomised here by plain RR.

    A guess that is right agrees with the answer with probability p = e^epsilon / (e^epsilon + K - 1), another one with
    probability q = 1 / (e^epsilon + K - 1). So (share that agrees - q) / (p - q) is unbiased; it may leave [0, 1].
    """
    if epsilon is None:
        return float((guessed == labels).mean())
    agree = (guessed == rr(labels, classes, epsilon, rng).labels).mean()
    right, wrong = np.array([np.exp(epsilon), 1]) / (np.exp(epsilon) + classes - 1)
    return float((agree - wrong) / (right - wrong))


def build(network: str, shape: Sequence[int], classes: int) -> nn.Sequential:
    """A network by name for images of ``shape`` (channels, height, width).

    Raises:
        ParameterError: for an unknown name.
    """
    checks.one_of(*NETWORKS).check("network", network)
    channels, height, width = shape
    if network == "small-mlp":
        return nn.Sequential(nn.Flatten(), *mlp([channels * height * width, 64, classes]))
    if network == "inception":
        return small_inception(classes, channels)
    if network == "resnet18":
        return preact_resnet18(classes, channels)
    return small_cnn(channels, height, classes)


def small_cnn(channels: int = 1, side: int = 28, classes: int = 10, first: int = 7, stride: int = 4) -> nn.Sequential:
    """Two convolutions: 32 of 7x7 with stride 4, 64 of 3x3 with stride 2; batch normalisation, ReLU, a linear head.

    For square images of ``side`` pixels; 30,442 parameters on 28x28 grey ones. Large strides make it fast: most of the
    time of a small network goes into the first layer's outputs.
    """
    checks.integer(first).check("side", side)
    end = math.ceil(math.ceil(side / stride) / 2)
    return nn.Sequential(
        nn.Conv2d(channels, 32, first, stride=stride, padding=first // 2, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * end**2, classes),
    )


@functools.lru_cache(maxsize=2)
def prepared(dataset: str) -> data.Dataset:
    """A set of images with mean 0 and spread 1 over all training pixels; "digits" enlarged to DIGITS records."""
    found = data.load(dataset)
    if dataset == "digits":
        from dplib.trainings import shifted  # imports DP-SGD, which only this set waits for

        found = shifted(found, DIGITS, np.random.default_rng(0))
    mean, spread = found.x_train.mean(), found.x_train.std()
    return replace(found, x_train=(found.x_train - mean) / spread, x_test=(found.x_test - mean) / spread)
