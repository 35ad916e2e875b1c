"""The runs of the chapter on what drives the cost: exactness of the shortcut, data, and what a result holds."""

import numpy as np
import pytest
import torch

from dplib import dpsgd, trainings
from dplib.architecture import cost_jobs, cost_tasks
from dplib.checks import ParameterError
from dplib.engine import DPSGD

SMALL = {"dataset": "digits", "epsilon": None, "learning_rate": 0.5, "seed": 3, "batch": 256, "steps": 10}


@pytest.mark.parametrize("model", [[32, 16, 12], "cnn"])
def test_frozen_layers_computed_once_change_nothing(model):
    features = "image" if model == "cnn" else "flat"
    short = cost_jobs.train(**{**SMALL, "epsilon": 2.0}, model=model, features=features, train_last=2)

    found = cost_tasks.task("digits", features)
    weights, draws = np.random.SeedSequence([3, 7]).spawn(2)
    net = cost_jobs.network(model, found.x_train.shape[1:], 10, "keras", int(weights.generate_state(1)[0]))
    trainings.freeze_all_but(net, 2)
    n = len(found.y_train)
    settings = DPSGD(
        steps=10,
        sample_rate=256 / n,
        learning_rate=0.5,
        noise_multiplier=trainings.noise_for(2.0, 256 / n, 10, 1e-5),
        max_grad_norm=1.0,
    )
    parts = dpsgd.Data((found.x_train, found.y_train), (found.x_valid, found.y_valid), (found.x_test, found.y_test))
    run = dpsgd.train(net, parts, settings, np.random.default_rng(draws), progress=False)
    assert short["test"] == pytest.approx(run.final["test"]["metric"], abs=1 / len(found.y_test))
    assert short["score"] == pytest.approx(run.final["validation"]["metric"], abs=1 / len(found.y_valid))
    assert short["trained"] == run.trained_parameters < short["parameters"] == run.parameters


@pytest.mark.parametrize(("init", "factor"), [("keras", 1 / 2), ("torch", 1 / 6), ("he", 1.0)])
def test_initial_weights_shrink_the_signal_as_the_exercise_says(init, factor):
    """Mean square after a relu layer over that before, 400 units, mean of 20 layers: standard error below 2%."""
    net = cost_jobs.network([400] * 21, (400,), 10, init, 0)
    x = torch.randn(200, 400, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for module in net:
            if isinstance(module, torch.nn.Linear):
                module.bias.zero_()
        before = net[:2](x)
        after = net[:4](x)
    ratio = float(after.square().mean() / before.square().mean())
    assert ratio == pytest.approx(factor, rel=0.15)


def test_seeds_decide_everything_and_splits_do_not():
    first, again, other = (cost_jobs.train(**{**SMALL, "seed": seed}, model=[16]) for seed in (0, 0, 1))
    assert first == again
    assert first["test"] != other["test"] or first["score"] != other["score"]
    assert first["constant"] == other["constant"]  # the same test part


def test_divergence_gives_no_score_and_a_constant():
    run = cost_jobs.train(
        dataset="synthetic-patients", model=[30] * 3, epsilon=None, max_grad_norm=None, learning_rate=1e4, seed=0,
        batch=250, steps=30, part="tuning",
    )  # fmt: skip
    assert run["score"] is None
    assert run["test"] is None
    assert 0 < run["constant"] < 1


def test_tuning_part_never_sees_the_test_part_and_reports_have_no_validation():
    for name in ("synthetic-messages", "synthetic-patients"):
        report, tuning = (cost_tasks.task(name, "flat", None, part, 12) for part in ("report", "tuning"))
        assert report.x_valid is None
        assert np.array_equal(np.argsort(report.y_test, kind="stable"), np.argsort(tuning.y_test, kind="stable"))
        assert len(tuning.y_train) + len(tuning.y_valid) == len(report.y_train)


def test_balanced_accuracy_of_a_constant_is_one_half():
    run = cost_jobs.train(
        dataset="synthetic-messages", model="lstm-4-4", epsilon=None, learning_rate=1e-6, seed=0, batch=50, steps=1,
        length=12,
    )  # fmt: skip
    if run["majority"] in (0.0, 1.0):
        assert run["balanced"] == 0.5
    assert run["parameters"] == 50_000 + 4 * 4 * (4 + 50 + 1) + 4 * 4 + 4 + 2 * 4 + 2


@pytest.mark.parametrize("encoding", ["without", "one-hot"])
def test_public_scaling_keeps_every_row_within_its_bound(encoding):
    found = cost_tasks.census("synthetic-census", encoding, 0)
    train, test, bound = cost_tasks.scaled(found, "public")
    assert bound == pytest.approx(np.sqrt(7 if encoding == "without" else 14))
    assert max(np.linalg.norm(x, axis=1).max() for x in (train, test)) <= bound
    assert train.shape[1] == (7 if encoding == "without" else 108)
    # It looks at no record: any one of them alone gives the same row.
    one = cost_tasks.scaled(type(found)(**{**vars(found), "x_train": found.x_train[:1]}), "public")[0]
    assert np.array_equal(one[0], train[0])


def test_one_hot_runs_spend_no_more_than_asked_and_noise_makes_them_differ():
    run = cost_jobs.one_hot(dataset="synthetic-census", encoding="without", epsilon=0.1, draws=5, seed=0)
    assert run["spent"] <= 0.1 * (1 + 1e-9)
    assert len(set(run["accuracies"])) > 1
    free = cost_jobs.one_hot(dataset="synthetic-census", encoding="without", epsilon=None, draws=5, seed=0)
    assert len(free["accuracies"]) == 1
    assert free["accuracies"][0] > free["constant"]


def test_signal_is_at_most_the_clipping_norm():
    run = cost_jobs.signal(dataset="digits", model=[16, 16], train_last=2, seed=0, steps=2, learning_rate=0.1)
    assert 0 < run["norm"] <= 1 + 1e-6
    assert run["trained"] == 16 * 16 + 16 + 16 * 10 + 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost_jobs.train(**SMALL, model="resnet"), "must be units, lstm-U-D or cnn"),
        (lambda: cost_jobs.train(**SMALL, model=[8], init="zero"), "init = 'zero'"),
        (lambda: cost_jobs.train(**SMALL, model=[8], train_last=5), "train_last = 5"),
        (lambda: cost_tasks.census("adult2", "without", 0), "adult2"),
        (lambda: cost_tasks.scaled(cost_tasks.census("synthetic-census", "without", 0), "max"), "scaling = 'max'"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
