"""The runs behind the chapter on what drives the cost: plain values in, plain values out, for :mod:`dplib.study`.

``train`` is one training of one network. It goes beyond :func:`dplib.trainings.train` in three things: initial weights
by Keras's rules, with which paper B began; layers that are frozen are computed once and not at every step, which
changes nothing but the time; and balanced accuracy, for data of which one class is rare.
"""

import functools
import math

import numpy as np
import torch
from torch import nn

from dplib import architectures, dpsgd, objpert, trainings
from dplib.architecture import cost_tasks
from dplib.checks import ParameterError, one_of
from dplib.engine import DPSGD, Engine
from dplib.examples import Examples
from dplib.models import mlp, parameter_count
from dplib.sgd import seeded

INITS = ("keras", "torch", "he")
Model = str | list[int]


def network(model: Model, shape: tuple[int, ...], outputs: int, init: str, seed: int) -> nn.Sequential:
    """A network with seeded weights, without dropout.

    Args:
        model: units of the hidden layers of a perceptron; "lstm-U-D", an LSTM of U units and a dense layer of D, on
            word numbers below 1,000; "cnn", paper B's of Table XXX on 28x28 images and a smaller one on 8x8.
        init: "keras" (Glorot, no bias), "torch" (PyTorch's own) or "he" (variance 2/inputs, no bias).
    """
    one_of(*INITS).check("init", init)
    net = seeded(functools.partial(_layers, model, shape, outputs), seed)
    if init == "keras":
        architectures.keras_weights_(net, torch.Generator().manual_seed(seed))
    elif init == "he":
        generator = torch.Generator().manual_seed(seed)
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
                nn.init.zeros_(module.bias)
    return net


def _layers(model: Model, shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    if not isinstance(model, str):
        return mlp([math.prod(shape), *model, outputs])
    kind, *sizes = model.split("-")
    if kind == "lstm":
        return architectures.spam_lstm(int(sizes[0]), int(sizes[1]), dropout=0.0)
    if kind != "cnn":
        raise ParameterError(f"model = {model!r} is not allowed: it must be units, lstm-U-D or cnn.")
    if shape == (1, 28, 28):
        return architectures.rwt_cnn()
    if shape != (1, 8, 8):
        raise ParameterError(f"model = 'cnn' is for grey images of 28x28 or 8x8, not {shape}.")
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, outputs),
    )  # fmt: skip


def train(
    *,
    dataset: str,
    model: Model,
    epsilon: float | None,
    learning_rate: float,
    seed: int,
    features: str = "flat",
    n_train: int | None = None,
    part: str = "report",
    length: int = 40,
    init: str = "keras",
    batch: int = 512,
    steps: int = 200,
    delta: float = 1e-5,
    noise_multiplier: float | None = None,
    max_grad_norm: float | None = 1.0,
    momentum: float = 0.0,
    train_last: int | None = None,
    physical_batch: int | None = None,
) -> dict:
    """Train a network and evaluate its last iterate.

    Args:
        dataset, features, n_train, part, length: of :func:`dplib.architecture.cost_tasks.task`.
        model, init: of :func:`network`.
        epsilon: budget at ``delta`` of this training alone, for neighbours that add or remove a record, by
            :func:`dplib.trainings.noise_for`; None: ``noise_multiplier``, or no noise.
        max_grad_norm: clipping norm; None, without noise, for plain SGD.
        batch: expected batch size of the report; tuning runs have the same sampling rate.
        train_last: train only so many of the last layers with weights (paper B, Section VII-C); None: all.

    Returns:
        "score": on validation data (None where there are none, or after divergence), larger is better; "test":
        accuracy, or mean absolute error of a regression (None after divergence); "constant": the same of a constant
        prediction; "balanced", mean recall, and "majority", share of test records predicted to be of the most frequent
        class (classification only); "noise_multiplier", "parameters", "trained".
    """
    found = cost_tasks.task(dataset, features, n_train, part, length)
    regression = dataset in cost_tasks.PATIENTS
    weights, draws = np.random.SeedSequence([seed, 7]).spawn(2)
    weights_seed = int(weights.generate_state(1)[0])
    net = network(model, found.x_train.shape[1:], 1 if regression else len(found.classes), init, weights_seed)
    parameters = parameter_count(net)
    parts = {"train": found.x_train, "valid": found.x_valid, "test": found.x_test}
    if train_last is not None:
        at = _first_trained(net, train_last)
        parts = _frozen(dataset, features, n_train, part, length, model, init, weights_seed, at)
        net = net[at:]
    n = cost_tasks.task(dataset, features, n_train, "report", length).x_train.shape[0]
    sample_rate = min(1.0, batch / n)
    noise = float(noise_multiplier or 0.0)
    if epsilon is not None:
        noise = float(trainings.noise_for(epsilon, sample_rate, steps, delta))
    settings = DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=learning_rate,
        noise_multiplier=noise,
        max_grad_norm=max_grad_norm,
        momentum=momentum,
        physical_batch=physical_batch,
    )
    valid = None if parts["valid"] is None else (parts["valid"], found.y_valid)
    examples = dpsgd.Data((parts["train"], found.y_train), valid, (parts["test"], found.y_test))
    loss = dpsgd.squared_error if regression else dpsgd.cross_entropy
    run = dpsgd.train(net, examples, settings, np.random.default_rng(draws), loss=loss, progress=False)
    score = _kept(run, "validation") if valid else None
    result = {
        "score": -score if regression and score is not None else score,
        "test": _kept(run, "test"),
        "noise_multiplier": noise,
        "sample_rate": sample_rate,
        "parameters": parameters,
        "trained": run.trained_parameters,
    }
    if regression:
        return result | {"constant": float(np.abs(found.y_test - found.y_train.mean()).mean())}
    return result | _by_class(net, parts["test"], found)


def _kept(run: dpsgd.Run, part: str) -> float | None:
    value = run.final[part]["metric"]
    return value if math.isfinite(value) and not run.diverged else None


@torch.no_grad()
def _by_class(net: nn.Module, x: np.ndarray, found) -> dict[str, float]:
    """Mean recall, the share predicted to be of the majority class, and that class's own share of the test part."""
    tensor = torch.as_tensor(x)
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    device = next(net.parameters()).device
    predicted = torch.cat([net(some.to(device)).argmax(1).cpu() for some in tensor.split(2048)]).numpy()
    most = np.bincount(found.y_train).argmax()
    recalls = [float((predicted[found.y_test == k] == k).mean()) for k in np.unique(found.y_test)]
    return {
        "balanced": float(np.mean(recalls)),
        "majority": float((predicted == most).mean()),
        "constant": float((found.y_test == most).mean()),
    }


def _first_trained(net: nn.Sequential, last: int) -> int:
    """Index of the first of the last so many layers with weights."""
    with_weights = [i for i, module in enumerate(net) if any(True for _ in module.parameters())]
    if not 1 <= last <= len(with_weights):
        raise ParameterError(f"train_last = {last} is not allowed: the network has {len(with_weights)} layers.")
    return with_weights[-last]


@functools.lru_cache(maxsize=1)
@torch.no_grad()
def _frozen_arrays(dataset, features, n_train, part, length, model, init, weights_seed, at) -> dict:
    found = cost_tasks.task(dataset, features, n_train, part, length)
    outputs = len(found.classes) or 1
    layers = list(model) if isinstance(model, tuple) else model
    body = network(layers, found.x_train.shape[1:], outputs, init, weights_seed)[:at].eval()

    def through(x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else torch.cat([body(some) for some in torch.as_tensor(x).split(1024)]).numpy()

    return {"train": through(found.x_train), "valid": through(found.x_valid), "test": through(found.x_test)}


def _frozen(dataset, features, n_train, part, length, model, init, weights_seed, at) -> dict:
    """What the frozen layers make of every part; kept for the next run with the same weights."""
    key = model if isinstance(model, str) else tuple(model)
    return _frozen_arrays(dataset, features, n_train, part, length, key, init, weights_seed, at)


def signal(
    *,
    dataset: str,
    model: Model,
    train_last: int | None,
    seed: int,
    steps: int,
    learning_rate: float,
    records: int = 2000,
    max_grad_norm: float = 1.0,
) -> dict:
    """Norm of the mean clipped gradient over the trained weights, after so many clipped steps without noise.

    Noise of multiplier s on a batch of B has norm s C sqrt(d) / B over d weights. So the signal-to-noise ratio of a
    step is norm B / (s C sqrt(d)), and of one weight on average the same.

    Returns:
        "norm" and "trained" (d).
    """
    found = cost_tasks.task(dataset)
    weights, draws = np.random.SeedSequence([seed, 7]).spawn(2)
    shape = found.x_train.shape[1:]
    net = network(model, shape, len(found.classes), "keras", int(weights.generate_state(1)[0]))
    if train_last is not None:
        trainings.freeze_all_but(net, train_last)
    settings = DPSGD(
        steps=max(steps, 1),
        sample_rate=min(1.0, 512 / len(found.y_train)),
        learning_rate=learning_rate,
        max_grad_norm=max_grad_norm,
    )
    pair = (found.x_train, found.y_train)
    if steps:
        dpsgd.train(net, dpsgd.Data(pair, test=pair), settings, np.random.default_rng(draws), progress=False)
    rows = np.random.default_rng(draws).permutation(len(found.y_train))[:records]
    whole = DPSGD(steps=1, sample_rate=1.0, learning_rate=1.0, max_grad_norm=max_grad_norm)
    net = net.cpu()
    some = Examples((found.x_train[rows], found.y_train[rows]), "train", torch.device("cpu"), torch.float32)
    engine = Engine(net, whole, some)
    norm = float(engine.gradient(torch.arange(len(rows))).norm())
    engine.close()
    return {"norm": norm, "trained": sum(p.numel() for p in net.parameters() if p.requires_grad)}


def one_hot(
    *,
    dataset: str,
    encoding: str,
    epsilon: float | None,
    draws: int,
    seed: int,
    variant: str = "sound",
    scaling: str = "public",
    regularisation: float = 1.0,
) -> dict:
    """Logistic regressions by objective perturbation on one random split of a census: ``draws`` of the noise.

    Args:
        dataset, encoding: of :func:`dplib.architecture.cost_tasks.census`. scaling: of
            :func:`dplib.architecture.cost_tasks.scaled`.
        epsilon: of each release, pure DP, one record replaced; None: no noise, and hardly any regularisation.
        seed: draws the split and the noise.
        variant, regularisation: of :func:`dplib.objpert.fit`.

    Returns:
        "accuracies" on the test part; "constant": that of the most frequent class; "spent": what a release really
        costs (inf is given as None); "bound": on the norm of a row.
    """
    found = cost_tasks.census(dataset, encoding, seed)
    train, test, bound = cost_tasks.scaled(found, scaling)
    fit = objpert.fit(
        train / bound,
        found.y_train,
        epsilon=math.inf if epsilon is None else epsilon,
        regularisation=1e-4 if epsilon is None else regularisation,
        rng=np.random.default_rng([seed, 11]),
        problems=1 if epsilon is None else draws,
        variant="sound" if epsilon is None else variant,
        device="cpu",
    )
    spent = float(np.max(fit.epsilon))
    most = np.bincount(found.y_train).argmax()
    return {
        "accuracies": [float(a) for a in fit.accuracy(test / bound, found.y_test)],
        "constant": float((found.y_test == most).mean()),
        "spent": spent if math.isfinite(spent) else None,
        "converged": float(fit.converged.mean()),
        "bound": bound,
        "features": train.shape[1],
    }
