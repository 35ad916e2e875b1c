"""Training in stages as kept runs: the learner's memory, the split of a run, unmixing, estimates, networks."""

import numpy as np
import pytest
import torch

from book.evidence import runs
from dplib import randomised_response
from dplib.checks import ParameterError
from papers.labels import stage_training_runs

JOB = {"dataset": "digits", "network": "mlp-16", "epsilon": 4.0, "epochs": 2, "batch": 100, "learning_rate": 0.2}
TWO = {**JOB, "shares": [0.6, 0.4], "n_train": 2000, "seed": 1}


def result(**job):
    return runs.made(stage_training_runs.staged_training, job)["result"]


def test_a_run_is_the_same_whether_its_first_stage_is_remembered_or_not():
    stage_training_runs._TRAINED.clear()
    fresh = result(**TWO)
    assert stage_training_runs._TRAINED
    assert result(**TWO) == fresh
    other = result(**TWO, temperature=float("inf"))
    assert other["stages"][0] == fresh["stages"][0]
    assert other["stages"][1]["mean_k"] == 10
    stage_training_runs._TRAINED.clear()
    assert result(**TWO, temperature=float("inf")) == other


def test_labels_matter_and_true_labels_are_best():
    free, noisy = (result(**{**JOB, "epsilon": e, "epochs": 6}, seed=0)["accuracy"] for e in (None, 0.05))
    assert free > 0.85
    assert noisy < 0.5


def test_validation_examples_are_kept_out_and_estimated_from_answers():
    result_ = result(**JOB, seed=3, validation=1500)
    assert result_["stages"][0]["asked"] == stage_training_runs.DIGITS - 1500
    assert abs(result_["randomised"] - result_["accuracy"]) < 0.1


def test_the_estimate_from_randomised_labels_is_unbiased():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 200)
    guesses = np.where(rng.random(200) < 0.7, labels, (labels + 1) % 10)
    each = [
        stage_training_runs.estimated_accuracy(guesses, labels, 10, 1.0, np.random.default_rng(i)) for i in range(2000)
    ]
    truth = (guesses == labels).mean()
    assert abs(np.mean(each) - truth) < 4 * np.std(each) / np.sqrt(len(each))
    assert stage_training_runs.estimated_accuracy(guesses, labels, 10, None, rng) == truth


def test_unmixing_inverts_randomised_response():
    p = np.array([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    table = np.exp(randomised_response.log_table(np.ones((1, 3), bool), 1.0))[0]
    assert np.allclose(stage_training_runs.unmixed(p @ table, 1.0), p)


def test_networks_by_name():
    assert sum(p.numel() for p in stage_training_runs.small_cnn().parameters()) == 30_442
    assert sum(p.numel() for p in stage_training_runs.larger_cnn().parameters()) == 113_898
    for name, shape in (("linear", (5,)), ("mlp-7", (1, 8, 8)), ("small-cnn", (1, 8, 8)), ("resnet18", (3, 8, 8))):
        assert stage_training_runs.built(name, shape, 4)(torch.zeros(2, *shape)).shape == (2, 4)
    with pytest.raises(ParameterError, match="network = 'vgg'"):
        stage_training_runs.built("vgg", (1, 8, 8), 4)
