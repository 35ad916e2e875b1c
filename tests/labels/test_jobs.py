import json

import numpy as np
import pytest

from dplib.checks import ParameterError
from dplib.labels import jobs

SMALL = {
    "dataset": "digits",
    "network": "small-mlp",
    "training": {"epochs": 4, "batch_size": 128, "learning_rate": 0.3},
    "seed": 3,
    "n_train": 2000,
}


def train(**changes):
    return jobs.train(**({**SMALL, "epsilon": 2.0} | changes))


def test_a_run_repeats_itself_and_is_plain():
    one = train(shares=[0.6, 0.4], curve=True)
    assert one == json.loads(json.dumps(train(shares=[0.6, 0.4], curve=True)))
    assert one != train(shares=[0.6, 0.4], curve=True, seed=4)
    assert [len(stage["evaluation"]["curve"]) for stage in one["stages"]] == [4, 4]
    assert one["accuracy"] == one["stages"][1]["evaluation"]["curve"][-1][0]
    assert [stage["asked"] for stage in one["stages"]] == [1200, 800]
    first, second = one["stages"]
    assert first["mean_k"] == 10
    assert 1 <= second["mean_k"] < 10
    assert second["reused"] == 1200 >= second["kept"]


def test_labels_matter_and_budgets_help():
    longer = SMALL["training"] | {"epochs": 15}
    free, tight = (train(epsilon=e, training=longer)["accuracy"] for e in (None, 0.5))
    assert free > 0.9
    assert free > tight + 0.1
    assert train(epsilon=0.0)["accuracy"] < 0.4


def test_validation_examples_are_kept_out_of_training():
    result = train(validation=500, epsilon=None)
    assert result["stages"][0]["asked"] == 1500
    assert result["randomised"] == result["accuracy"]


def test_the_estimate_from_randomised_labels_is_unbiased():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 200)
    guesses = np.where(rng.random(200) < 0.7, labels, (labels + 1) % 10)
    estimates = [jobs.estimated_accuracy(guesses, labels, 10, 1.0, np.random.default_rng(i)) for i in range(2000)]
    truth = (guesses == labels).mean()
    assert abs(np.mean(estimates) - truth) < 4 * np.std(estimates) / np.sqrt(2000)
    assert jobs.estimated_accuracy(guesses, labels, 10, None, rng) == truth


def test_networks_fit_their_images():
    import torch

    for network, shape in [("small-cnn", (1, 28, 28)), ("small-mlp", (1, 8, 8)), ("small-cnn", (3, 32, 32))]:
        net = jobs.build(network, shape, 7)
        assert net(torch.zeros(2, *shape)).shape == (2, 7)
    assert sum(p.numel() for p in jobs.small_cnn().parameters()) == 30_442
    with pytest.raises(ParameterError, match="network"):
        jobs.build("lenet", (1, 28, 28), 10)


def test_mixup_must_fit_the_stages():
    with pytest.raises(ParameterError, match="mixup"):
        train(shares=[0.6, 0.4], mixup=[1.0, 2.0, 3.0])


def test_images_are_centred_and_scaled_by_the_training_part():
    found = jobs.prepared("digits")
    assert len(found.y_train) == jobs.DIGITS
    assert abs(found.x_train.mean()) < 1e-3
    assert found.x_train.std() == pytest.approx(1, abs=1e-3)
