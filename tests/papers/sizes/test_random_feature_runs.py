"""Private gradient descent on random features: the steps, the noise, and why p does not matter to it."""

import numpy as np
import pytest

from dplib import mechanisms
from papers.sizes import random_feature_runs, width_runs
from tests.toys import Asked

RNG = np.random.default_rng


def data(n=60, d=20, p=300, seed=0):
    rng = RNG(seed)
    x = rng.standard_normal((n, d)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return random_feature_runs.phi(x, rng.standard_normal((d, p), dtype=np.float32)), rng.integers(3, size=n)


def test_without_privacy_it_is_gradient_descent():
    features, y = data()
    theta, cut = random_feature_runs.descend(features, y, 3, [[None, 0.5]], 7, 1e-5, RNG(0))
    expected, target = np.zeros((300, 3)), np.eye(3)[y]
    for _ in range(7):
        expected -= 0.5 / 60 * features.T @ (features @ expected - target)
    np.testing.assert_allclose(theta[:, 0], expected, atol=1e-5)
    assert cut == [0.0]


def test_a_record_moves_the_first_step_by_at_most_the_clipping_norm():
    features, y = data()
    features[0] *= 50
    moved = [
        random_feature_runs.descend(some, labels, 3, [[1e6, 60.0]], 1, 1e-5, RNG(0))[0][:, 0] for some, labels in
        ((features, y), (np.delete(features, 0, 0), np.delete(y, 0)))
    ]  # fmt: skip
    by_removal = np.linalg.norm(moved[0] - moved[1] * 59 / 60)  # the same divisor for both
    assert by_removal == pytest.approx(random_feature_runs.CLIP, rel=1e-3)


def test_the_noise_is_that_of_one_gaussian_for_all_steps():
    nothing = np.zeros((50, 4000), np.float32)
    theta, _ = random_feature_runs.descend(nothing, np.zeros(50, int), 2, [[1.0, 0.3]], 9, 1e-5, RNG(1))
    # Each of nine steps has noise sigma * 3: together sigma * 9 * rate / n in every weight.
    assert theta.std() == pytest.approx(0.3 / 50 * 9 * mechanisms.analytic_sigma(1.0, 1e-5), rel=0.03)


def test_noise_moves_a_prediction_alike_whatever_p_is():
    moved = []
    for p in (200, 5000):
        features, y = data(n=400, p=p)
        with_noise, _ = random_feature_runs.descend(features * 0, y, 3, [[1.0, 1.0]], 4, 1e-5, RNG(2))
        moved.append((features @ with_noise[:, 0]).std())
    assert moved[0] == pytest.approx(moved[1], rel=0.15)


def test_the_rate_is_chosen_by_other_seeds_for_each_budget():
    def result(job):
        given = job["settings"]
        return {"validation": [rate if e else -rate for e, rate in given], "test": [0.5] * len(given)}

    get = Asked(result)
    by_cell = width_runs.random_features(
        get, dataset="digits", n=100, counts=[10, 20], epsilons=[1.0, None], rates=[0.5, 1.0, 2.0], seeds=3
    )
    assert [by_cell[10, e]["rate"] for e in (1.0, None)] == [2.0, 0.5]
    assert by_cell[20, 1.0]["at_edge"]
    assert by_cell[20, None]["test"].tolist() == [50.0] * 3
    assert [job["seed"] for job in get.jobs] == [1000, 1001] * 2 + [0, 1, 2] * 2
    assert get.jobs[-1]["settings"] == [[1.0, 2.0], [None, 0.5]]
