"""The two-number simulation against explicit vectors of R^p, and its moments in closed form."""

import numpy as np
import pytest
from scipy import stats

from dplib import debiased, mechanisms
from papers.labels import simplex

COMMON = {"epsilon": 1.0, "delta": 1e-3, "predictability": [0.6], "replicates": 400, "runs": 1}


def frame(classes, dimension, rng):
    """Corners of a simplex with <v_0, e_1> = alpha, turned at random around e_1; shape (K, p)."""
    corners = np.eye(classes) - 1 / classes
    corners = np.linalg.svd(corners)[0][:, : classes - 1] * np.sqrt(classes / (classes - 1))
    first = corners[0]
    beside = np.linalg.svd(first[None])[2][1:]  # completes v_0 to a basis of the simplex's space
    q, r = np.linalg.qr(rng.standard_normal((dimension - 1, dimension - 1)))
    turned = (q * np.sign(np.diag(r)))[:, : classes - 1].T  # uniform among rotations
    images = np.zeros((classes - 1, dimension))
    images[0, 0], images[0, 1:] = simplex.ALPHA, np.sqrt(1 - simplex.ALPHA**2) * turned[0]
    images[1:, 1:] = turned[1:]
    basis = np.concatenate([first[None], beside]).T @ images
    return corners @ basis


def explicit(method, classes, dimension, n, rate, runs, rng, keep=None, rho=0.6, epsilon=1.0, sigma=0.0):
    """<w, e_1> of the last iterate with vectors of length p, step by step as the algorithms say."""
    keep, last = keep or classes, []
    for _ in range(runs):
        w = np.zeros(dimension)
        for t in range(1, n + 1):
            v = frame(classes, dimension, rng)
            label = 0 if rng.random() < rho else rng.integers(classes)
            if method == "rr":
                members = np.concatenate([[0], 1 + rng.permutation(classes - 1)[: keep - 1]])
                moved = label if label in members else rng.choice(members)
                place = int(np.flatnonzero(members == moved)[0])
                stays = rng.random() < np.exp(epsilon) / (np.exp(epsilon) + keep - 1)
                answer = place if stays else (place + rng.integers(1, keep)) % keep
                g = debiased.debiased_gradient(-v[members][None], np.array([answer]), epsilon)[0]
            elif method == "normal":
                projector, _ = debiased.span_projector(-v[None])
                g = -v[label] + projector[0] @ rng.normal(0, sigma, dimension)
            else:
                g = -v[label] + rng.normal(0, sigma, dimension)
            w = w - rate / np.sqrt(t) * g
            w = w / max(1, np.linalg.norm(w))
        last.append(w[0])
    return np.array(last)


@pytest.mark.parametrize(
    ("method", "classes", "dimension", "keep"),
    [("rr", 2, 2, None), ("rr", 3, 5, None), ("rr", 5, 8, 3), ("normal", 2, 3, None), ("normal", 4, 6, None),
     ("dp-sgd", 3, 4, None)],
)  # fmt: skip
def test_the_simulation_has_the_law_of_the_algorithm(method, classes, dimension, keep):
    rng = np.random.default_rng(classes * dimension)
    sigma = mechanisms.analytic_sigma(1.0, 1e-3, 2.0)
    direct = explicit(method, classes, dimension, 12, 0.2, 400, rng, keep, sigma=sigma)
    quick = simplex.excess(
        method=method, classes=classes, dimension=dimension, rates=[0.2], snapshots=[5, 12], seed=1, keep=keep, **COMMON
    )["excess"]
    along = 1 - 2 * np.array(quick)[1, 0, 0] / (simplex.ALPHA * 0.6)
    assert stats.ks_2samp(direct, along).pvalue > 1e-3


@pytest.mark.parametrize(("method", "noise"), [("mean", "sgd"), ("rr-mean", "rr")])
def test_a_mean_is_a_mean(method, noise):
    # One example: the mean is its gradient, and so is the first step of the pass.
    settings = {"classes": 3, "dimension": 4, "rates": [0.3], "snapshots": [1], "seed": 5, **COMMON}
    mean, step = (simplex.excess(method=m, **settings)["excess"] for m in (method, noise))
    np.testing.assert_allclose(np.sort(np.ravel(mean)), np.sort(np.ravel(step)), atol=1e-12)


def test_the_noisy_mean_has_the_law_of_its_description():
    rng, sigma = np.random.default_rng(3), mechanisms.analytic_sigma(1.0, 1e-3, 2.0)
    direct = []
    for _ in range(400):
        labels = np.where(rng.random(15) < 0.6, 0, rng.integers(3, size=15))
        total = sum(frame(3, 4, rng)[y] for y in labels) + rng.normal(0, sigma, 4)
        w = 0.7 * total / 15
        direct.append(w[0] / max(1, np.linalg.norm(w)))
    quick = simplex.excess(
        method="dp-mean", classes=3, dimension=4, rates=[0.7], snapshots=[6, 15], seed=2, **COMMON
    )["excess"]  # fmt: skip
    along = 1 - 2 * np.array(quick)[1, 0, 0] / (simplex.ALPHA * 0.6)
    assert stats.ks_2samp(direct, along).pvalue > 1e-3


@pytest.mark.parametrize("method", ["sgd", "rr", "normal", "dp-sgd"])
def test_gradients_have_the_stated_moments(method):
    rng, rho = np.random.default_rng(4), np.array([[[0.5]]])
    step = simplex._steps(method, 4, 1.0, 1e-3, 6, rho, 4, 1.0, (1, 1, 200), rng)
    along, beside = step(500)
    assert abs(along.mean() + simplex.ALPHA * 0.5) < 5 * along.std() / np.sqrt(along.size)
    squared = along**2 + np.broadcast_to(beside, along.shape) ** 2
    exact = simplex.second_moment(method, 4, 1.0, 1e-3, 6)
    assert abs(squared.mean() - exact) <= 5 * squared.std() / np.sqrt(squared.size) + 1e-9


def test_the_cases_of_a_public_set_have_its_miss_rate_and_mean():
    # With everything kept nothing is missed, and the mean of the three cases is the clean mean.
    assert simplex.miss_rate(6, 6, 0.3, 1.0) == 0
    cases, _ = simplex._rr_moments(6, 0.7, 6)
    first, second = simplex._rr_cases(6, 0.7, 6, 0.3, 1.0)
    assert first * cases[0] + second * cases[1] == pytest.approx(0.3)
    assert simplex.miss_rate(10, 1, 0.0, 0.5) == pytest.approx(0.9)
    assert simplex.miss_rate(10, 4, 1.0, 0.75) == pytest.approx(0.25)
