"""Networks of Table 1 of paper A: the last layer, Algorithm 1 on it, the perceptron; and SGD without privacy.

Statistical tests have fixed seeds; each states how often it would fail by chance with another seed.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dplib import models, selection, sgd
from dplib.checks import ParameterError
from dplib.data import Dataset
from dplib.sgd import Sgd
from papers.larger_models import dfs_networks
from papers.larger_models.dfs_networks import Features

CPU = torch.device("cpu")
TINY = Sgd(epochs=1, batch_size=32)


def blobs(n, p, rng, gap=4.0):
    """Three classes, apart in the first three features only: features (n, p) and labels (n,)."""
    y = np.arange(n) % 3
    x = rng.standard_normal((n, p)).astype(np.float32)
    x[np.arange(n), y] += gap
    return x, y


def blob_features(seed=0, n=300, p=12):
    rng = np.random.default_rng(seed)
    return Features(*blobs(n, p, rng), *blobs(n, p, rng))


def colour_images(seed=0, n=48, size=8):
    """Three classes of colour images: each is brighter in one channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.standard_normal((n, 3, size, size)).astype(np.float32)
    x[np.arange(n), y] += 1.0
    half = n // 2
    return Dataset("toy", x[:half], y[:half], x[half:], y[half:], classes=("a", "b", "c"))


pytestmark = pytest.mark.usefixtures("one_thread")


# --- networks --------------------------------------------------------------------------------------------------------


def test_a_diverging_training_is_an_error():
    wild = replace(TINY, learning_rate=1e30, epochs=3)
    with pytest.raises(ParameterError, match=r"learning_rate = 1e\+30 is not allowed"):
        dfs_networks.last_layer(colour_images(), "small_cnn", 4, wild, 0, "cpu")


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["distance", "t-statistic"])
def test_the_features_that_differ_between_classes_are_kept(criterion):
    release = dfs_networks.noisy_features(blob_features(), criterion, 3, "sd", 1e6, 1e-4, np.random.default_rng(0))
    assert sorted(release.features) == [0, 1, 2]
    np.testing.assert_allclose(release.values, blob_features().train[:, release.features], atol=1e-3)


# --- the perceptron --------------------------------------------------------------------------------------------------


def accuracy(features, epsilon, seed=0):
    return dfs_networks.noisy_accuracy(features, "all", 1, "sd", epsilon, 1e-4, seed, "cpu")["accuracy"]


def test_the_choice_never_sees_the_test_set():
    """With other test labels the same predictions are made, so that all of them are wrong."""
    clean = blob_features()
    assert accuracy(clean, 100.0) > 0.9
    assert accuracy(replace(clean, test_labels=(clean.test_labels + 1) % 3), 100.0) < 0.1


def test_signal_is_the_distance_of_the_kept_features_over_the_noise():
    clean = blob_features()
    result = dfs_networks.noisy_accuracy(clean, "distance", 3, "sd", 5.0, 1e-4, 0, "cpu")
    distances = selection.distance(clean.train, clean.train_labels)
    kept = selection.top(distances, 3)
    sd = selection.definition_sd(np.abs(clean.train[:, kept]).sum(1).max(), 5.0, 1e-4)
    assert result["signal"] == pytest.approx(distances[kept].mean() / sd)


# --- SGD -------------------------------------------------------------------------------------------------------------


def test_augmented_images_are_crops_of_the_padded_image_or_their_mirror():
    x = torch.arange(2.0 * 1 * 6 * 7).reshape(2, 1, 6, 7)
    padded = nn.functional.pad(x, (sgd.PADDING,) * 4, mode="reflect")
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(50):
        for i, image in enumerate(sgd._augmented(x, generator)):
            places = [
                (top, left, mirrored)
                for top in range(9)
                for left in range(9)
                for mirrored in (False, True)
                if torch.equal(image.flip(2) if mirrored else image, padded[i, :, top : top + 6, left : left + 7])
            ]
            assert places
            seen.update(places)
    assert {mirrored for _, _, mirrored in seen} == {False, True}
    assert {top for top, _, _ in seen} == {left for _, left, _ in seen} == set(range(9))


def test_training_follows_plain_nesterov_sgd_with_onecycle():
    """Against the update rule written out, on a linear model with one batch an epoch."""
    x, y = blobs(30, 4, np.random.default_rng(0))
    settings = Sgd(epochs=6, batch_size=30, learning_rate=0.05, weight_decay=0.01)
    net = sgd.seeded(lambda: nn.Linear(4, 3, bias=False), 0).double()
    w, velocity = net.weight.detach().numpy().copy(), 0.0
    reference = torch.optim.lr_scheduler.OneCycleLR(
        torch.optim.SGD([torch.zeros(1)], 0.05), 0.05, total_steps=6, cycle_momentum=False
    )
    for _ in range(6):
        rate = reference.get_last_lr()[0]
        scores = x.astype(float) @ w.T
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gradient = (p - np.eye(3)[y]).T @ x / len(x) + 0.01 * w
        velocity = 0.9 * velocity + gradient
        w = w - rate * (gradient + 0.9 * velocity)
        reference.optimizer.step()
        reference.step()
    sgd.train(net, x.astype(float), y, settings, 0, CPU)
    np.testing.assert_allclose(net.weight.detach().numpy(), w, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 5, 64, 65])
def test_any_number_of_examples_can_be_learnt_from(n):
    net = models.small_cnn(2, 1, 4)
    sgd.train(net, np.zeros((n, 1, 8, 8), np.float32), np.arange(n) % 2, Sgd(epochs=1), 0, CPU)
