"""ResNet18 V2 for CIFAR, its pre-training, features and their scaling; one run of each kind on few examples."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dplib import data, models
from dplib.checks import ParameterError
from dplib.labels import cifar, cifar_jobs, patch_features

SHORT = {"epochs": 1, "batch_size": 20, "learning_rate": 0.05}


@pytest.fixture
def photographs(monkeypatch):
    """40 + 20 random colour images of 32 x 32, under every name; "cifar100" has 100 classes."""
    rng = np.random.default_rng(0)
    digits = data.load("digits")

    def load(name, **_):
        classes = 100 if name == "cifar100" else 10
        return replace(
            digits,
            name=name,
            x_train=rng.random((40, 3, 32, 32), dtype=np.float32),
            y_train=rng.integers(classes, size=40),
            x_test=rng.random((20, 3, 32, 32), dtype=np.float32),
            y_test=rng.integers(classes, size=20),
            classes=tuple(map(str, range(classes))),
        )

    monkeypatch.setattr(data, "load", load)
    cifar.load.cache_clear()
    cifar._pretrained.cache_clear()
    yield
    cifar.load.cache_clear()
    cifar._pretrained.cache_clear()


def test_the_resnet_is_the_paper_s():
    """C.s-resnet-cifar: 18 layers with weights on the longest path, 3x3 stem of stride 1, no max-pooling."""
    net = cifar.resnet(10)()
    assert models.parameter_count(net) == 11_172_170
    assert models.parameter_count(cifar.resnet(100)()) == 11_172_170 + 90 * 513
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert len([c for c in convolutions if c.kernel_size == (3, 3)]) + 1 == 18  # and the classifier
    assert (convolutions[0].kernel_size, convolutions[0].stride) == ((3, 3), (1, 1))
    assert not any(isinstance(m, nn.MaxPool2d) for m in net.modules())
    assert net[-1].in_features == 512
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_pretrained_weights_come_along_without_the_classifier_and_stay_trainable():
    start = cifar.resnet(100, width=2)()
    net = cifar.resnet(10, width=2, start=start)()
    for (name, ours), theirs in zip(net[:-1].state_dict().items(), start[:-1].state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=name)
    assert net[-1].out_features == 10
    assert all(p.requires_grad for p in net.parameters())
    next(net.parameters()).data += 1  # a copy: the public network stays as it was
    assert not torch.equal(next(net.parameters()), next(start.parameters()))


def test_a_resnet_runs_two_stages_with_augmentation_and_pretraining(photographs):
    settings = {**cifar.CIFAR, **SHORT, "mixup": 4.0}
    job = {"dataset": "cifar10", "representation": "image", "model": "resnet18", "width": 2, "epsilon": 2.0}
    job |= {"shares": [0.6, 0.4], "settings": settings, "seed": 0, "curve": True}
    fresh = cifar_jobs.train(**job)
    start = {"dataset": "cifar100", "seed": 9, "settings": cifar.CIFAR100 | SHORT}
    begun = cifar_jobs.train(**job, pretraining=start)
    for run in (fresh, begun):
        (stages,) = run["variants"]
        assert [stage["asked"] for stage in stages] == [24, 16]
        assert all(len(stage["evaluation"]["curve"]) == 1 for stage in stages)
    assert fresh != begun
    assert fresh == cifar_jobs.train(**job)


def test_a_head_on_pixels_learns_from_answers():
    job = {"dataset": "digits", "representation": "pixels", "model": [], "shares": [1.0], "seed": 1}
    job["settings"] = {"epochs": 15, "batch_size": 64, "learning_rate": 0.1}
    exact, noisy = (cifar_jobs.train(**job, epsilon=e)["variants"][0][0] for e in (None, 2.0))
    assert exact["right"] == 1
    assert exact["evaluation"]["top"][0] > 0.93
    assert noisy["right"] == pytest.approx(np.exp(2) / (np.exp(2) + 9), abs=0.04)
    assert 0.5 < noisy["evaluation"]["top"][0] < exact["evaluation"]["top"][0]


def test_a_subset_and_a_validation_part_leave_the_test_part_alone():
    test = cifar.load("digits", "pixels")
    judged = cifar.load("digits", "pixels", 300)
    assert len(judged.y_test) == 300
    assert len(judged.y_train) == len(test.y_train) - 300
    both = torch.cat([judged.x_train, judged.x_test])
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, test.x_train.tolist()))
    job = {"dataset": "digits", "representation": "pixels", "model": [], "epsilon": 2.0, "shares": [0.5, 0.5]}
    run = cifar_jobs.train(**job, settings=SHORT, seed=0, validation=300, n_train=100)
    assert run["n"] == 100
    assert [stage["asked"] for stage in run["variants"][0]] == [50, 50]


def test_images_are_scaled_by_what_the_training_part_shows(photographs):
    found = cifar.load("cifar10", "image")
    assert found.x_train.shape == (40, 3, 32, 32)
    assert found.x_train.dtype == torch.float32
    torch.testing.assert_close(found.x_train.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.x_train.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)


def test_features_keep_their_scale_or_become_white(monkeypatch):
    rng = np.random.default_rng(4)
    train = (rng.normal(size=(1347, 3)) * [3.0, 2.0, 1.0] + 1).astype(np.float32)
    asked = []

    def components(dataset, count):
        asked.append((dataset, count))
        return train, train[:450]

    monkeypatch.setattr(patch_features, "components", components)
    np.testing.assert_array_equal(cifar.load("digits", "patches-3").x_train, train)
    white = cifar.load("digits", "white-3")
    torch.testing.assert_close(white.x_train.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(white.x_train.std(0, correction=0), torch.ones(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(white.x_test, white.x_train[:450])
    assert asked == [("digits", 3), ("digits", 3)]
    cifar.load.cache_clear()


@pytest.mark.parametrize("name", ["patch", "patches-", "pca-10"])
def test_unknown_representations_are_refused(name):
    with pytest.raises(ParameterError, match="representation"):
        cifar.load("digits", name)
