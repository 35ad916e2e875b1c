"""LP-MST (paper C, Algorithm 3) on images or on features of images: a kept experiment, its networks and its learner.

Neighbours differ in the label of one example. Inputs are public, those of the test part and of other sets too: their
mean and spread, and features that no label has touched, cost nothing.
"""

import copy
import functools
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from book.evidence import runs
from book.evidence.places import ROOT
from dplib import checks, data, examples, stages
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, training_work
from dplib.files import locked
from dplib.models import mlp, preact_resnet18, small_inception
from dplib.randomised_response import rr
from dplib.sgd import seeded
from papers.labels import patch_features, soft_labels

PRETRAINED = ROOT / "_build" / "pretrained"
DIGITS = 6_000  # training records that "digits" is enlarged to: its budget protects nobody
TOP = 10  # top-k accuracies that are kept, k = 1, 2, ...
LEAST = 1e-9  # of an unmixed probability, so that its logarithm is finite and the order of classes stays
TEMPERATURES = (0.125, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # at which a prior's log-loss is reported
NETWORKS = ("small-cnn", "larger-cnn", "inception", "resnet18", "linear", "mlp-WIDTH")


def _work(job: runs.Job) -> Work:
    """How much a job of :func:`staged_training` is."""
    x, y, _, _ = inputs(job["dataset"], job["form"])
    net = built(job["network"], tuple(x.shape[1:]), int(y.max()) + 1)
    batch = min(job["batch"], n := (job["n_train"] or len(y)) - job["validation"])
    return training_work(net, x, batch, job["epochs"] * n // batch)


@runs.experiment(
    "label_stages",
    version=1,
    work=_work,
    probe={"dataset": "digits", "network": "mlp-16", "epsilon": 2.0, "shares": [0.6, 0.4], "mixup": [1.0, 0.0],
           "epochs": 2, "batch": 100, "learning_rate": 0.2, "shift": 1, "validation": 500, "seed": 3},
    data=("dataset", "start"),
)  # fmt: skip
def staged_training(
    *,
    dataset: str,
    seed: int,
    epsilon: float | None,
    learning_rate: float,
    shares: Sequence[float] = (1.0,),
    temperature: float = 0.5,
    mixup: Sequence[float] = (0.0,),
    epochs: int = 6,
    batch: int = 256,
    network: str = "small-cnn",
    form: str = "image",
    n_train: int | None = None,
    validation: int = 0,
    warm_start: bool = True,
    reuse: bool = True,
    filtered: bool = True,
    unmix: bool = False,
    drops: Sequence[float] = (),
    shift: int = 0,
    flip: bool = False,
    cutout: int = 0,
    precision: str = "float32",
    start: str | None = None,
    curve: bool = False,
    losses: bool = False,
    device: str = "cpu",
) -> runs.Result:
    """Train by LP-MST once and report each stage; ParameterError for settings that are not allowed.

    Args:
        form: "image", or "patches-D", D principal components of unsupervised features. network: one of NETWORKS.
        seed: of split, answers, weights and order, in streams of their own: runs of one seed share their first stage.
        epsilon: of the whole, each label's; None for the true labels. shares: of the parts, one for each stage.
        temperature, warm_start, reuse, filtered: of :func:`dplib.stages.run`. unmix: :func:`unmixed` priors.
        mixup: one coefficient, or one for each stage. epochs to precision: of :func:`papers.labels.soft_labels.fit`.
        n_train: so many random training examples. validation: so many of them are kept out, and evaluated on instead of
            the test part. start: a public set, on whose true labels a ResNet is trained first, with the same settings.
        losses: how well each later stage's prior knew the labels that it was asked for; no result of a stage moves.

    Returns:
        "stages": those of :class:`dplib.stages.Staged` with "top", the top-1 to top-10 accuracies, and,
            where asked for, their "curve" over epochs; "losses": for each stage from the second on the log-loss of its
            prior on the true labels asked, in nats, one for each of :data:`TEMPERATURES`; "accuracy": the last top-1;
            with validation "randomised", its estimate from answers.
    """
    x, y, x_test, y_test = inputs(dataset, form)
    split, answers, checking = (np.random.default_rng([seed, stream]) for stream in range(3))
    order = split.permutation(len(y))[:n_train]
    held, rows = order[:validation], order[validation:]
    if validation:
        x_test, y_test = x[torch.as_tensor(held)], y[held]
    coefficients = _of_stages(mixup, len(shares))
    settings = {
        "epochs": epochs, "batch_size": batch, "learning_rate": learning_rate, "drops": list(drops), "shift": shift,
        "flip": flip, "cutout": cutout, "precision": precision,
    }  # fmt: skip
    place, classes = find_device(device), int(y.max()) + 1
    build = functools.partial(built, network, tuple(x.shape[1:]), classes)
    if start is not None:
        build = functools.partial(continued, start, network, classes, seed, settings, place)
    learner = Learner(
        build,
        x.to(place),
        x_test.to(place),
        y_test,
        [{**settings, "mixup": coefficient} for coefficient in coefficients],
        seed=seed,
        curve=curve,
        unmix=epsilon if unmix else None,
        keep_priors=losses,
        named=f"{dataset} {form} {network} {start} {n_train} {validation} {device}",
    )
    outcome = stages.run(
        y,
        [rows[part] for part in stages.split(len(rows), shares, split)],
        learner,
        epsilon,
        classes=classes,
        temperature=temperature,
        warm_start=warm_start,
        reuse=reuse,
        filtered=filtered,
        rng=answers,
    )
    by_stage = [reported(stage) for stage in outcome.stages]
    result = {"stages": by_stage, "accuracy": by_stage[-1]["top"][0]}
    if losses:
        result["losses"] = [log_losses(scores, y[asked]) for asked, scores in learner.priors]
    if validation:
        guessed = soft_labels.logits(outcome.model, learner.test_inputs).argmax(1)
        result["randomised"] = estimated_accuracy(guessed, y_test, classes, epsilon, checking)
    return result


def _of_stages(mixup: Sequence[float], count: int) -> list[float]:
    """The coefficient of each stage, from one for all or one for each; ParameterError for another number of them."""
    if len(mixup) not in (1, count):
        raise ParameterError(f"mixup = {mixup} is not allowed: one number, or one for each of {count} stages.")
    return list(mixup) if len(mixup) > 1 else list(mixup) * count


def reported(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage with numbers of six digits."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in stage.items()}


class Learner:
    """A network as :func:`dplib.stages.run` wants it: settings for each stage, and curves on test data.

    A stage that was just trained with equal arguments is not trained again: protocols of one seed share their first
    stage.

    Args:
        build: makes a network with fresh weights from PyTorch's CPU generator. inputs: of all training examples (n,
            ...).
        settings: arguments of :func:`papers.labels.soft_labels.fit` but the seed, one mapping for each stage.
        unmix: epsilon of the answers that priors of labels are wanted from. keep_priors: rows and scores of each prior
            stay in "priors". named: what inputs and network are, for the memory of trained stages; "" keeps none.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        inputs: Tensor,
        test_inputs: Tensor,
        test_labels: np.ndarray,
        settings: Sequence[Mapping[str, Any]],
        *,
        seed: int,
        curve: bool = False,
        unmix: float | None = None,
        keep_priors: bool = False,
        named: str = "",
    ):
        self.build, self.inputs, self.settings, self.seed = build, inputs, settings, seed
        self.test_inputs, self.test_labels = test_inputs, np.asarray(test_labels)
        self.curve, self.unmix, self.named = curve, unmix, named
        self.keep_priors, self.priors = keep_priors, list[tuple[np.ndarray, np.ndarray]]()
        self._points: list[Any] = []
        self._model: nn.Module | None = None  # the last whose scores made a prior

    def train(self, rows: np.ndarray, labels: np.ndarray, stage: int, start: nn.Module | None) -> nn.Module:
        """A network trained on examples ``rows`` with ``labels``, from a copy of ``start`` or from fresh weights."""
        settings = self.settings[stage - 1]
        key = (self.named, self.seed, stage, self.curve, repr(sorted(settings.items())), _digest(rows), _digest(labels))
        if self.named and start is None and key in _TRAINED:
            _TRAINED.move_to_end(key)
            net, self._points = _TRAINED[key]
            return net
        seed = int(np.random.SeedSequence([self.seed, stage]).generate_state(1)[0])
        net = seeded(self.build, seed) if start is None else copy.deepcopy(start)
        kept, points, where = examples.layout_of(net, self.inputs), [], torch.as_tensor(rows)
        soft_labels.fit(
            net.to(self.inputs.device, memory_format=kept),
            examples.follow(self.inputs[where], kept),
            labels,
            seed=seed,
            on_epoch=(lambda _: points.append(self.judge(net))) if self.curve else None,
            **settings,
        )
        self._points = points
        if self.named and start is None:
            _TRAINED[key] = net, points
            while len(_TRAINED) > 4:
                _TRAINED.popitem(last=False)
        return net

    def logits(self, model: nn.Module, rows: np.ndarray) -> np.ndarray:
        """Scores (m, K) of the training examples ``rows``; logarithms of unmixed probabilities where asked for."""
        scores = soft_labels.logits(model, self.inputs[torch.as_tensor(rows)])
        if self.unmix is not None:
            scores = np.log(unmixed(stages.tempered(scores, 1.0), self.unmix))
        if self.keep_priors and model is not self._model:  # the filter asks for the same model's scores afterwards
            self.priors.append((rows, scores))
            self._model = model
        return scores

    def evaluate(self, model: nn.Module) -> dict[str, Any]:
        """Top-k accuracies on the test data, k = 1, 2, ...; and after each epoch of the last training, if asked."""
        result = {"top": self.judge(model)}
        return result | {"curve": [point[:3] for point in self._points]} if self.curve else result

    def judge(self, model: nn.Module) -> list[float]:
        """Top-1 to top-10 accuracies on the test data."""
        scores = soft_labels.logits(model, self.test_inputs)
        places = stages.places(scores, self.test_labels)
        return [round(float((places < k).mean()), 6) for k in range(1, min(TOP, scores.shape[1]) + 1)]


_TRAINED: "OrderedDict[tuple, tuple[nn.Module, list[Any]]]" = OrderedDict()


def _digest(values: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()


def unmixed(answers: np.ndarray, epsilon: float) -> np.ndarray:
    """Probabilities of labels from those of their answers under RR, both (n, K).

    Answers have q = a p + (1 - a) / K with a = (e^eps - 1) / (e^eps + K - 1). Solved for p; negative ones become almost
    0, without a change in the order of the classes.
    """
    checks.positive().check("epsilon", epsilon)
    classes = answers.shape[1]
    a = -np.expm1(-epsilon) / (1 + (classes - 1) * np.exp(-epsilon))
    labels = np.maximum((answers - (1 - a) / classes) / a, LEAST * answers)
    return labels / labels.sum(axis=1, keepdims=True)


def log_losses(scores: np.ndarray, labels: np.ndarray) -> list[float]:
    """Mean of -ln p(label) in nats for priors p ~ exp(score / t), one for each t of :data:`TEMPERATURES`.

    Args:
        scores: (n, K). labels: (n,), whole numbers from 0 to K - 1.
    """
    of_label = np.take_along_axis(scores, np.asarray(labels)[:, None], axis=1)[:, 0]
    below = (scores - of_label[:, None]).astype(float)
    return [round(float(logsumexp(below / t, axis=1).mean()), 6) for t in TEMPERATURES]


def estimated_accuracy(guessed, labels, classes: int, epsilon: float | None, rng) -> float:
    """Accuracy of guesses (n,) estimated without bias from labels (n,) that are randomised here by plain RR.

    (share that agrees - q) / (p - q), where right guesses agree with probability p, others with q; it may leave [0, 1].
    """
    if epsilon is None:
        return float((guessed == labels).mean())
    agree = (guessed == rr(labels, classes, epsilon, rng).labels).mean()
    right, wrong = np.array([np.exp(epsilon), 1]) / (np.exp(epsilon) + classes - 1)
    return float((agree - wrong) / (right - wrong))


@functools.lru_cache(maxsize=2)
def inputs(dataset: str, form: str) -> tuple[Tensor, np.ndarray, Tensor, np.ndarray]:
    """Training inputs (n, ...) float32 and labels (n,), and those of the test part, scaled by the training *inputs*.

    ``form``: "image" has each channel at mean 0 and variance 1, "digits" enlarged to DIGITS records; or "patches-D".
    """
    loaded = data.load(dataset)
    kind, _, count = form.partition("-")
    if kind == "patches" and count.isdigit():
        both = patch_features.components(dataset, int(count))
    elif form == "image":
        if dataset == "digits":
            from papers.common.network_runs import shifted  # imports DP-SGD, which only this set waits for

            loaded = shifted(loaded, DIGITS, np.random.default_rng(0))
        mean, spread = (
            f(loaded.x_train, axis=(0, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)
            for f in (np.mean, np.std)
        )
        both = ((x - mean) / spread for x in (loaded.x_train, loaded.x_test))
    else:
        raise ParameterError(f"form = {form!r} is not allowed: it must be image or patches-D.")
    x, x_test = (torch.from_numpy(np.ascontiguousarray(images)) for images in both)
    return x, loaded.y_train, x_test, loaded.y_test


def built(network: str, shape: Sequence[int], classes: int) -> nn.Sequential:
    """A network by name for inputs of ``shape``, (channels, height, width) or (features,); else ParameterError."""
    kind, _, width = network.partition("-")
    if network == "linear" or (kind == "mlp" and width.isdigit()):
        return nn.Sequential(nn.Flatten(), *mlp([math.prod(shape), *([int(width)] if width else []), classes]))
    if len(shape) != 3 or network not in NETWORKS[:4]:
        raise ParameterError(f"network = {network!r} is not allowed: it must be one of {', '.join(NETWORKS)}.")
    if network == "inception":
        return small_inception(classes, shape[0])
    if network == "larger-cnn":
        return larger_cnn(shape[0], shape[1], classes)
    return preact_resnet18(classes, shape[0]) if network == "resnet18" else small_cnn(shape[0], shape[1], classes)


def small_cnn(channels: int = 1, side: int = 28, classes: int = 10, first: int = 7, stride: int = 4) -> nn.Sequential:
    """Two convolutions with batch normalisation, ReLU and a linear head: 30,442 parameters on 28x28 grey images.

    Large strides make it fast: most of the time of a small network goes into the first layer's outputs.
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


def larger_cnn(channels: int = 1, side: int = 28, classes: int = 10) -> nn.Sequential:
    """Three convolutions of stride 2, otherwise as :func:`small_cnn`: 113,898 parameters on 28x28 grey images."""
    checks.integer(5).check("side", side)
    layers, before = [], channels
    for width, kernel in ((32, 5), (64, 3), (128, 3)):
        convolution = nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2, bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
        before, side = width, math.ceil(side / 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side**2, classes))


def continued(
    public: str, network: str, classes: int, seed: int, settings: Mapping[str, Any], device: torch.device
) -> nn.Sequential:
    """A network whose weights below the classifier come from all of a public set; none of them is frozen."""
    net = built(network, tuple(inputs(public, "image")[0].shape[1:]), classes)
    net[:-1].load_state_dict(_pretrained(public, network, seed, settings, device))
    return net


def _pretrained(
    public: str, network: str, seed: int, settings: Mapping[str, Any], device: torch.device
) -> Mapping[str, Tensor]:
    """Weights below the classifier; a file has them for the runs that share them, which other processes may make."""
    x, y, _, _ = inputs(public, "image")
    decides = network, seed, sorted(settings.items()), device.type, staged_training.experiment.version, x.shape
    key = hashlib.sha256(repr(decides).encode() + _digest(x.numpy()) + _digest(y)).hexdigest()[:32]
    PRETRAINED.mkdir(parents=True, exist_ok=True)
    path, part = PRETRAINED / f"{key}.pt", PRETRAINED / f"{key}.part"
    with locked(PRETRAINED / f"{key}.lock", blocking=True):
        if path.exists():
            return torch.load(path, weights_only=True)
        net = seeded(lambda: built(network, tuple(x.shape[1:]), int(y.max()) + 1), seed)
        net.to(device, memory_format=examples.layout_of(net, x))
        soft_labels.fit(net, x.to(device), y, seed=seed, **settings)
        weights = net.cpu()[:-1].state_dict()
        torch.save(weights, part)
        part.replace(path)  # whole or not at all
    return weights
