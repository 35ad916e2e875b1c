"""Paper A, Table 1: features of a narrow and of a wide network, selected, released with noise, and learnt from.

A run trains both networks without privacy, takes the outputs of their last but one layer, keeps all of them or, of the
wide network, as many as the narrow one has, adds the noise of Algorithm 1, trains a perceptron on the noisy features
by SGD without noise, and measures it on the test set. Its seed decides everything: networks, noise, perceptron. The
rows of the table share networks and random streams within a seed, so they pair.

Nothing here is private as a whole: the networks, the selection and the largest norm are computed on the private data
without noise (chapter 02). Neighbouring data sets differ in the features of one record.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import torch
from torch import nn
from tqdm.auto import tqdm

from dplib import checks, models, sgd, stats
from dplib.data import fetch
from dplib.larger_models import selection
from dplib.larger_models.perceptron import Perceptron, draw_seed, nonzero, perceptron_labels

ROWS = ("narrow", "wide", "wide + t-statistic", "wide + distance")


@dataclass(frozen=True)
class Images:
    """Images (n, channels, height, width) of any real type and their labels 0 to k - 1 (n,), for training and test."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    def __post_init__(self):
        for name in ("train", "test"):
            x, y = getattr(self, name), getattr(self, f"{name}_labels")
            _require(
                x.ndim == 4 and len(x) > 1 and x.shape[1:] == self.train.shape[1:] and np.isfinite(x).all(),
                f"{name} of shape {x.shape} must be two or more finite images (n, channels, height, width), all alike.",
            )
            _require(
                y.shape == (len(x),) and np.issubdtype(y.dtype, np.integer),
                f"{name}_labels of shape {y.shape} and type {y.dtype} must be a whole number for each of {name}.",
            )
        classes = np.unique(self.train_labels)
        _require(
            len(classes) > 1 and classes[0] == 0 and classes[-1] == len(classes) - 1,
            f"train_labels has the classes {classes}: they must be all of 0 to k - 1, k at least 2.",
        )
        _require(np.isin(self.test_labels, classes).all(), "test_labels has a class that train_labels has not.")


@dataclass(frozen=True)
class Network:
    """A network of ``dplib.models`` (``width`` as there) and its training."""

    architecture: str = "small_cnn"
    width: int = 64
    training: sgd.Sgd = field(default_factory=sgd.Sgd)

    def __post_init__(self):
        checks.one_of("small_cnn", "resnet18", "resnet50").check("architecture", self.architecture)
        checks.integer(1).check("width", self.width)

    def build(self, num_classes: int, in_channels: int) -> nn.Sequential:
        return getattr(models, self.architecture)(num_classes, in_channels, self.width)

    @property
    def n_features(self) -> int:
        with torch.device("meta"):  # no memory, no random numbers
            return self.build(2, 1)[-1].in_features


@dataclass(frozen=True)
class Noise:
    """How features are selected and released.

    Args:
        epsilon, delta: the budget that Algorithm 1 names (the paper has delta 0.0001, and no epsilon at Table 1).
        sd: (largest L1 norm, epsilon, delta) to the noise's standard deviation: ``selection.definition_sd`` or
            ``selection.literal_sd``, the two readings of step 7.
        select_first: select on clean features, then scale the noise to those selected (Algorithm 1); or else add noise
            to all features and select on the noisy ones (Definition 7, Example 1).
        noisy_test: the test features get the same noise; in Definition 5 they do not.
    """

    epsilon: float
    delta: float = 1e-4
    sd: Callable[[float, float, float], float] = selection.definition_sd
    select_first: bool = True
    noisy_test: bool = False

    def __post_init__(self):
        checks.positive().check("epsilon", self.epsilon)
        checks.fraction().check("delta", self.delta)
        checks.boolean().check("select_first", self.select_first)
        checks.boolean().check("noisy_test", self.noisy_test)


@dataclass(frozen=True)
class Features:
    """Features (n, p) in float32 with their labels (n,), and the accuracy of their own network on the test set."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    network_accuracy: float = float("nan")


def table1(
    images: Images,
    narrow: Network,
    wide: Network,
    noise: Noise,
    seeds: Sequence[int],
    *,
    perceptron: Perceptron = Perceptron(),
    keep: int | None = None,
    rows: Sequence[str] = ROWS,
    cache_dir: str | Path | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """The rows of Table 1 for every seed, one independent run each.

    Args:
        narrow, wide: the networks: ResNet-18 and ResNet-50 in the paper.
        keep: how many of the wide network's features to select; by default as many as the narrow one has.
        rows: some of ``ROWS``.
        cache_dir: see :func:`network_features`.
        device: "auto" (a GPU where there is one), "cpu" or "cuda".

    Returns:
        One line for each seed and row: seed, row, and what :func:`noisy_accuracy` returns.

    Raises:
        ParameterError: for an unknown row, seeds that repeat, more features to keep than there are, no such device.
    """
    rows, seeds = list(rows), list(seeds)
    checks.list_of(checks.one_of(*ROWS)).check("rows", rows)
    checks.list_of(checks.integer(0)).check("seeds", seeds)
    _require(len(set(seeds)) == len(seeds), f"seeds = {seeds} is not allowed: a seed must not repeat.")
    keep = narrow.n_features if keep is None else keep
    checks.integer(1, wide.n_features).check("keep", keep)
    lines = []
    for seed in tqdm(seeds, desc="seeds", leave=False, delay=2):
        clean = {}
        for row in rows:
            name, _, criterion = row.partition(" + ")
            if name not in clean:
                network = {"narrow": narrow, "wide": wide}[name]
                clean[name] = network_features(images, network, seed, cache_dir=cache_dir, device=device)
            result = noisy_accuracy(clean[name], noise, seed, criterion or "all", keep, perceptron, device)
            lines.append({"seed": seed, "row": row, **result})
    return pd.DataFrame(lines)


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """For each row of :func:`table1`, in per cent: min, max and median as the paper prints them, then the mean over the
    n seeds with its 95% interval (low, high). At least 2 seeds."""
    lines = {}
    for row, accuracy in runs.groupby("row", sort=False)["accuracy"]:
        percent = 100 * accuracy.to_numpy()
        mean = stats.mean_interval(percent)
        spread = {"min": percent.min(), "max": percent.max(), "median": np.median(percent)}
        lines[row] = {**spread, "mean": mean.value, "low": mean.low, "high": mean.high, "n": mean.n}
    return pd.DataFrame.from_dict(lines, orient="index")


def network_features(
    images: Images, network: Network, seed: int, *, cache_dir: str | Path | None = None, device: str = "auto"
) -> Features:
    """Train a network and return the outputs of its last but one layer, at the last iterate.

    They are kept on disk under all that decides them: images, labels, settings, seed, kind of device, version of
    PyTorch, and the source of the modules at work. So a killed run goes on where it was, and other noise needs no new
    training. An entry appears whole or not at all; 60,000 images with 2048 features take 490 MB.

    Args:
        cache_dir: by default ``features`` in :func:`dplib.data.fetch.cache_folder`.

    Raises:
        ParameterError: for a training that diverges, or a device that is not there.
    """
    folder = fetch.cache_folder() / "features" if cache_dir is None else Path(cache_dir)
    source = b"".join(Path(module).read_bytes() for module in (__file__, models.__file__, sgd.__file__))
    version = (torch.__version__, hashlib.sha256(source).hexdigest())
    cached = joblib.Memory(folder, verbose=0).cache(_trained_features)
    train, test, accuracy = cached(images, network, seed, sgd.find_device(device).type, version)
    return Features(train, images.train_labels, test, images.test_labels, accuracy)


def noisy_accuracy(
    features: Features,
    noise: Noise,
    seed: int,
    criterion: str = "all",
    keep: int | None = None,
    perceptron: Perceptron = Perceptron(),
    device: str = "auto",
) -> dict[str, float]:
    """One run of one row of Table 1, from features on.

    Args:
        criterion: "t-statistic" or "distance" to select ``keep`` features, "all" for all of them.

    Returns:
        accuracy: share of the test set that the perceptron gets right at its last iterate. network_accuracy: the same
        of the network that made the features. n_features: those kept. noise_sd: standard deviation of the noise.
        signal: the largest distance between two class means, over noise_sd, averaged over the features kept (from
        clean features, to explain the accuracy; no learner sees it). learning_rate: the chosen one.
    """
    noise_rng, perceptron_rng = (np.random.default_rng([seed, stage]) for stage in (1, 2))
    release, test = noisy_features(features, noise, noise_rng, criterion, keep)
    predicted, learning_rate = perceptron_labels(
        release.values, release.labels, test, perceptron, perceptron_rng, device
    )
    distances = selection.distance(features.train[:, release.features], features.train_labels)
    return {
        "accuracy": float((predicted == features.test_labels).mean()),
        "network_accuracy": features.network_accuracy,
        "n_features": len(release.features),
        "noise_sd": release.noise_sd,
        "signal": float(distances.mean() / release.noise_sd),
        "learning_rate": learning_rate,
    }


def noisy_features(
    features: Features, noise: Noise, rng: np.random.Generator, criterion: str = "all", keep: int | None = None
) -> tuple[selection.Release, np.ndarray]:
    """Algorithm 1 for k classes (appendix), or its variant with ``noise.select_first`` off.

    Returns:
        The release of m training features, and the test features (n', m).
    """
    checks.one_of("all", "t-statistic", "distance").check("criterion", criterion)
    score = selection.t_statistic if criterion == "t-statistic" else selection.distance
    x, y, p = features.train, features.train_labels, features.train.shape[1]
    m = p if criterion == "all" else keep
    checks.integer(1, p).check("keep", m)
    sd = partial(noise.sd, epsilon=noise.epsilon, delta=noise.delta)
    release = selection.dfs(x, y, m if noise.select_first else p, sd, rng, scores=score(x, y))
    test = features.test[:, release.features]
    if noise.noisy_test:
        test = test + release.noise_sd * rng.standard_normal(test.shape)
    if not noise.select_first:
        kept = selection.top(score(release.values, y), m)
        release = replace(release, features=release.features[kept], values=release.values[:, kept])
        test = test[:, kept]
    return release, test


def _trained_features(images: Images, network: Network, seed: int, device: str, version) -> tuple:
    """The cached part of :func:`network_features`; ``version`` only tells entries apart."""
    device, rng = torch.device(device), np.random.default_rng([seed, 0])
    mean, scale = images.train.mean((0, 2, 3), keepdims=True), images.train.std((0, 2, 3), keepdims=True)
    train, test = (((x - mean) / nonzero(scale)).astype(np.float32) for x in (images.train, images.test))
    num_classes = int(images.train_labels.max()) + 1
    net = sgd.seeded(lambda: network.build(num_classes, train.shape[1]), draw_seed(rng))
    sgd.train(net, train, images.train_labels, network.training, draw_seed(rng), device)
    accuracy = float((sgd.outputs(net, test, device).argmax(1) == images.test_labels).mean())
    features = [sgd.outputs(net[:-1], x, device) for x in (train, test)]
    _require(
        all(np.isfinite(values).all() for values in features),
        f"learning_rate = {network.training.learning_rate} is not allowed: {network.architecture} diverges with it.",
    )
    return *features, accuracy


def _require(accepted: bool, otherwise: str) -> None:
    if not accepted:
        raise checks.ParameterError(otherwise)
