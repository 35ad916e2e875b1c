"""One training of paper B: what its job decides, and what it refuses."""

import numpy as np
import pytest
import torch

from dplib import accounting
from dplib.checks import ParameterError
from papers.common import network_runs, networks

pytestmark = pytest.mark.usefixtures("tried_once")
JOB = {"dataset": "digits", "features": "flat", "model": [16], "epsilon": 2.0, "learning_rate": 1.0, "seed": 3}
SMALL = {**JOB, "n_train": 600, "batch": 100, "steps": 30}


def test_the_task_has_three_disjoint_parts_and_the_seed_draws_them():
    one, other = network_runs.task("digits", "flat", None, 0), network_runs.task("digits", "flat", None, 1)
    assert one.x_train.shape == (20_000, 64)
    assert one.x_train is other.x_train
    assert len(one.y_valid) + len(one.y_test) == len(other.y_valid) + len(other.y_test)
    assert not {row.tobytes() for row in one.x_valid} & {row.tobytes() for row in one.x_test}
    assert not np.array_equal(one.x_test, other.x_test)


def test_no_shifted_copy_of_a_test_image_is_trained_on():
    """Copies are made of training images only: undoing every shift of a test image finds no twin among them."""
    from dplib import data

    loaded = data.load("digits")
    grown = network_runs.shifted(loaded, 500, np.random.default_rng(0))
    train = {row.tobytes() for row in loaded.x_train}
    assert not train & {row.tobytes() for row in grown.x_test}
    assert np.array_equal(grown.x_test, loaded.x_test)
    assert grown.x_train.min() >= 0
    assert grown.x_train.max() <= 1


def test_components_of_a_subsample_are_computed_from_it_alone():
    few = network_runs.task("digits", "pca-5", 300, 0)
    all_ = network_runs.task("digits", "pca-5", None, 0)
    assert few.x_train.shape == (300, 5)
    assert all_.x_train.shape == (20_000, 5)
    assert not np.allclose(np.abs(few.x_test), np.abs(all_.x_test))


def test_a_run_is_repeated_by_its_job_and_changed_by_its_seed():
    first, again = network_runs.network_training(**SMALL), network_runs.network_training(**SMALL)
    other = network_runs.network_training(**{**SMALL, "seed": 4})
    assert first == again
    assert first["train_loss"] != other["train_loss"]


@pytest.mark.parametrize(("epsilon", "accountant"), [(2.0, "prv"), (1e4, "rdp")])
def test_the_noise_is_that_of_the_budget(epsilon, accountant):
    run = network_runs.network_training(**{**SMALL, "epsilon": epsilon})
    assert run["n"] == 600
    spent = accounting.epsilon(run["noise_multiplier"], run["sample_rate"], 30, 1e-5, accountant)
    assert (run["sample_rate"], spent) == (pytest.approx(100 / 600), pytest.approx(epsilon, rel=1e-3))


@pytest.mark.parametrize(("frozen", "trained"), [([0], 17 * 8 + 9 * 10), ([1], 65 * 16 + 9 * 10), ([0, 1], 9 * 10)])
def test_frozen_layers_are_not_trained(frozen, trained):
    run = network_runs.network_training(**{**SMALL, "model": [16, 8], "frozen": frozen})
    assert run["parameters"] == 65 * 16 + 17 * 8 + 9 * 10
    assert run["trained"] == trained


def test_a_layer_in_the_middle_keeps_its_weights_and_passes_gradients_on():
    net = networks.network([16, 8], (64,), 10, ["tanh", "sigmoid"], 0.0, seed=0)
    assert [type(layer).__name__ for layer in net] == ["Linear", "Tanh", "Linear", "Sigmoid", "Linear"]
    networks.freeze(net, [1])
    net(torch.ones(1, 64)).sum().backward()
    assert net[2].weight.grad is None
    assert net[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"features": "pca-x"}, "features = 'pca-x'"),
        ({"model": "nosuch"}, "model"),
        ({"model": {"filter": [4], "units": 8}}, "filter"),
        ({"model": [16], "frozen": [0, 1]}, "one of 2 layers must be trained"),
        ({"activation": "softmax"}, "activation"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"part": "tuning"}, "part"),
    ],
)
def test_what_is_not_allowed_is_named(change, named):
    with pytest.raises(ParameterError, match=named):
        network_runs.network_training(**{**SMALL, **change})


def test_a_tuning_run_sees_no_record_of_a_report_beyond_its_training_part():
    report, tune = network_runs.task("digits", "flat", None, 3), network_runs.task("digits", "flat", None, 3, "tune")
    held_out = {row.tobytes() for row in np.concatenate([report.x_valid, report.x_test])}
    seen = {row.tobytes() for row in np.concatenate([tune.x_train, tune.x_valid])}
    assert len(tune.y_train) + len(tune.y_valid) == len(report.y_train)
    assert len(tune.y_valid) == round(len(report.y_train) / 12)
    assert not held_out & seen
    report, tune = network_runs.network_training(**SMALL), network_runs.network_training(**SMALL, part="tune")
    for name in ("noise_multiplier", "sample_rate"):
        assert tune[name] == report[name]
    assert "test" not in tune
    assert tune["validation"] is not None


def test_candidates_of_one_search_share_their_split():
    one, other = (network_runs.network_training(**{**SMALL, "split_seed": 5, "seed": s}) for s in (0, 1))
    assert one["constant"] == other["constant"]
    assert one["train_loss"] != other["train_loss"]


def test_frozen_first_layers_computed_once_change_nothing(monkeypatch):
    job = {**SMALL, "model": [16, 12], "frozen": [0, 1], "init": "keras"}
    once = network_runs.network_training(**job)
    monkeypatch.setattr(networks, "frozen_once", lambda net, x, _: (net, x))
    assert network_runs.network_training(**job) == {
        k: pytest.approx(v, rel=1e-4) if isinstance(v, float) else v for k, v in once.items()
    }


def test_messages_and_patients_have_splits_of_their_own():
    spam = network_runs.network_training(
        dataset="synthetic-messages", model="lstm-4-4", epsilon=2.0, learning_rate=0.5, seed=1, batch=200, steps=4
    )
    costs = network_runs.network_training(
        dataset="synthetic-patients", model=[4], epsilon=2.0, learning_rate=0.1, seed=1, batch=200, steps=4, part="tune"
    )
    assert 0 <= spam["test"] <= 1
    assert spam["validation"] is None
    assert costs["validation"] >= 0
    assert "test" not in costs
