"""One run of the MovieLens experiment, on synthetic ratings."""

import numpy as np
import pytest
import torch
from torch import nn

from dplib.labels import movielens, movielens_jobs, stages, training
from dplib.labels.movielens_jobs import RatingLearner

SETTINGS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.2}
STARS = np.arange(1.0, 6.0)


class Told(nn.Module):
    """Scores are the inputs themselves."""

    def __init__(self):
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.anchor


def test_errors_of_a_model_are_those_of_its_softmax():
    p = np.random.default_rng(0).dirichlet(np.ones(5), 30)
    truth = np.random.default_rng(1).integers(5, size=30)
    scores = torch.from_numpy(np.log(p).astype(np.float32))
    learner = RatingLearner(Told, scores, scores, truth, {}, seed=0, stars=STARS, epsilon=2.0)
    found = learner.evaluate(Told())
    mean = p @ STARS
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((mean - STARS[truth]) ** 2)), rel=1e-5)
    assert found["likeliest"] == pytest.approx(np.sqrt(np.mean((1 + p.argmax(1) - STARS[truth]) ** 2)))
    a = (np.exp(2) - 1) / (np.exp(2) + 4)
    back = np.clip((mean - (1 - a) * 3) / a, 1, 5)
    assert found["unmixed"] == pytest.approx(np.sqrt(np.mean((back - STARS[truth]) ** 2)), rel=1e-5)


def test_one_stage_is_randomised_response_and_training():
    found = movielens.load("synthetic-ratings", 2)
    run = movielens_jobs.network(
        dataset="synthetic-ratings", epsilon=2.0, shares=[1.0], settings=SETTINGS, seed=2, variants=[{}]
    )
    (stage,) = run["variants"][0]
    assert stage["mean_k"] == 5
    assert stage["asked"] == len(found.y_train) == run["sizes"]["train"]
    assert stage["right"] == pytest.approx(np.exp(2) / (np.exp(2) + 4), abs=0.03)
    assert stage["evaluation"]["rmse"] < 1.4


def test_the_bias_model_sees_the_answers_of_lp_1st(monkeypatch):
    """The same label of each rating: asked in the order of the only part, with the same words."""
    seen = {}

    def remember(net, inputs, targets, **_):
        seen["network"] = dict(zip(map(tuple, inputs.tolist()), np.asarray(targets).tolist(), strict=True))
        net.eval()

    monkeypatch.setattr(training, "fit", remember)
    fit = movielens.fit_biases

    def biases(pairs, ratings, *more):
        seen["biases"] = dict(zip(map(tuple, pairs.tolist()), ratings.tolist(), strict=True))
        return fit(pairs, ratings, *more)

    monkeypatch.setattr(movielens, "fit_biases", biases)
    movielens_jobs.network(dataset="synthetic-ratings", epsilon=1.0, shares=[1.0], settings=SETTINGS, seed=7)
    movielens_jobs.simple(dataset="synthetic-ratings", epsilon=1.0, penalty=3.0, seed=7)
    stars = movielens.unmixed(STARS, 1.0, STARS)
    assert {pair: stars[c] for pair, c in seen["network"].items()} == pytest.approx(seen["biases"])


def test_predictors_without_a_network_with_and_without_noise():
    exact = movielens_jobs.simple(dataset="synthetic-ratings", epsilon=None, penalty=3.0, seed=1)
    noisy = movielens_jobs.simple(dataset="synthetic-ratings", epsilon=2.0, penalty=3.0, seed=1)
    useless = movielens_jobs.simple(dataset="synthetic-ratings", epsilon=0.01, penalty=3.0, seed=1)
    assert exact["biases"] < noisy["biases"] < exact["constant"]
    # With almost no information the penalty keeps the biases near 0: what is left is a constant, a noisy one.
    assert useless["biases"] < 2.5


def test_two_stages_ask_fewer_classes_and_runs_repeat():
    job = {"dataset": "synthetic-ratings", "epsilon": 2.0, "shares": [0.6, 0.4], "settings": SETTINGS, "seed": 5}
    run = movielens_jobs.network(**job, variants=[{}, {"temperature": 0.5}])
    assert run["variants"][0][1]["mean_k"] < 5
    assert run["variants"][1][1]["mean_k"] < run["variants"][0][1]["mean_k"]
    assert movielens_jobs.network(**job) == run | {"variants": run["variants"][:1]}
    parts = stages.split(3200, [0.6, 0.4], np.random.default_rng([5, 1]))
    assert [stage["asked"] for stage in run["variants"][0]] == [len(p) for p in parts]
