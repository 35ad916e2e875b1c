"""DP-SGD on subsets of the features: schedule, budget, and that it learns."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dplib import accounting, mechanisms
from dplib.architecture import feature_data, feature_sgd

NAME = "synthetic-recurrence"


@pytest.mark.parametrize(
    ("n", "batch", "epochs", "rate", "steps"),
    [(191, 250, 40, 1.0, 40), (22_750, 250, 40, 250 / 22_750, 3640), (4000, 250, 5, 1 / 16, 80), (250, 250, 3, 1.0, 3)],
)
def test_schedule(n, batch, epochs, rate, steps):
    assert feature_sgd.schedule(n, batch, epochs) == (pytest.approx(rate), steps)


def test_noise_keeps_the_budget():
    full = feature_sgd.noise_for(0.236, 191, 250, 40, 1e-5)
    assert mechanisms.gaussian_epsilon(full, np.sqrt(40), 1e-5) == pytest.approx(0.236, rel=1e-3)
    sampled = feature_sgd.noise_for(0.5, 2000, 250, 2, 1e-5)
    assert 0.49 < accounting.epsilon(sampled, 1 / 8, 16, 1e-5, "rdp") < 0.75  # Rényi DP is looser


def test_plain_sgd_converges_and_noise_hurts():
    table = feature_data.load(NAME, 0)
    columns = [table.feature_names.index(name) for name in ("deg-malig=3", "inv-nodes=0-2", "node-caps=yes")]
    found = feature_sgd.train(
        dataset=NAME, seed=0, columns=columns, models=[[None, 2.0], [1e5, 2.0], [0.01, 2.0]], draws=30, epochs=600
    )
    plain, hardly, buried = (np.array(a) for a in found["accuracy"])
    optimum = LogisticRegression(C=1e6).fit(table.x_train[:, columns], table.y_train)
    assert (len(plain), len(hardly), len(buried)) == (1, 30, 30)
    assert plain[0] == pytest.approx(optimum.score(table.x_test[:, columns], table.y_test))
    assert abs(hardly.mean() - plain[0]) < 0.03
    assert buried.mean() < 0.65
    assert found["noise"][0] == 0
    assert found["noise"][2] > found["noise"][1] > 0
    assert found["constant"] == table.constant()


def test_the_same_seed_gives_the_same_numbers():
    job = {"dataset": NAME, "seed": 3, "columns": [1, 2], "models": [[1.0, 0.5]], "draws": 3}
    assert feature_sgd.train(**job) == feature_sgd.train(**job)


def test_validation_runs_have_the_noise_of_the_report():
    job = {"dataset": NAME, "seed": 3, "columns": [1, 2], "models": [[1.0, 0.5]]}
    report, tuning = feature_sgd.train(**job), feature_sgd.train(**job, validation=38)
    assert report["noise"] == tuning["noise"]
    assert tuning["accuracy"][0][0] * 38 == pytest.approx(round(tuning["accuracy"][0][0] * 38), abs=1e-5)
