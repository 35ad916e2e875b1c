"""Label-private SGD: the gradients by enumeration, the span, projections, and the algorithms against plain SGD."""

import numpy as np
import pytest
from scipy import optimize

from dplib import mechanisms
from dplib.checks import ParameterError
from dplib.labels import debiased, sgd
from dplib.labels import randomised_response as response


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_the_debiased_gradient_is_unbiased(classes, epsilon):
    rng = np.random.default_rng(classes)
    gradients = rng.standard_normal((5, classes, 4))
    table = np.exp(response.log_table(np.ones(classes, dtype=bool), epsilon))
    for label in range(classes):
        answers = [sgd.debiased_gradient(gradients, np.full(5, o), epsilon) for o in range(classes)]
        mean = np.tensordot(table[label], answers, axes=1)
        np.testing.assert_allclose(mean, gradients[:, label], atol=1e-9 * classes / min(epsilon, 1))
    with pytest.raises(ParameterError, match="epsilon"):
        sgd.debiased_gradient(gradients, np.zeros(5, dtype=int), 0.0)


@pytest.mark.parametrize("loss", [sgd.softmax_loss(4), sgd.logistic_loss()])
def test_gradients_are_derivatives_and_lipschitz(loss):
    rng = np.random.default_rng(1)
    scores = 2 * rng.standard_normal((50, loss.outputs))
    gradients = loss.gradients(scores)
    for b in range(loss.outputs):
        shift = 1e-6 * np.eye(loss.outputs)[b]
        slope = (loss.values(scores + shift) - loss.values(scores - shift)) / 2e-6
        np.testing.assert_allclose(gradients[..., b], slope, atol=1e-8)
    far = loss.gradients(100 * rng.standard_normal((500, loss.outputs)))
    assert np.sqrt((far**2).sum(axis=-1)).max() <= loss.lipschitz + 1e-12


def test_the_span_has_the_rank_of_the_gradients_and_keeps_them():
    rng = np.random.default_rng(2)
    softmax = sgd.softmax_loss(5).gradients(rng.standard_normal((6, 5)))
    projector, rank = sgd.span_projector(softmax)
    assert (rank == 4).all()  # the gradients of softmax sum to a multiple of no direction along (1, ..., 1)
    np.testing.assert_allclose(np.einsum("rij,rkj->rki", projector, softmax), softmax, atol=1e-12)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    assert sgd.span_projector(np.zeros((1, 3, 2)))[1] == 0


def small_data(n=40, d=3):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, d))
    return x / np.sqrt((x**2).sum(axis=1, keepdims=True)), rng.integers(2, size=n)


def plain_sgd(x, y, rate, radius):
    w = np.zeros(x.shape[1])
    for t, (row, label) in enumerate(zip(x, 2 * y - 1, strict=True), 1):
        w = w + rate / np.sqrt(t) * label * row / (1 + np.exp(label * row @ w))
        w = w * min(1, radius / np.linalg.norm(w))
    return w


@pytest.mark.parametrize("rate", [0.1, 3.0])
def test_without_noise_all_passes_are_plain_sgd(rate):
    x, y = small_data()
    loss, rng = sgd.logistic_loss(), np.random.default_rng(6)
    common = {"rates": [rate, 2.0], "radius": 1.2, "rng": rng}
    expected = plain_sgd(x, y, rate, 1.2)
    for weights in (
        sgd.lp_rr_sgd(loss, x, y, epsilon=np.inf, **common),
        sgd.lp_normal_sgd(loss, x, y, sigma=0.0, **common),
        sgd.noisy_sgd(loss, x, y, sigma=0.0, **common),
    ):
        assert weights.shape == (2, 1, 3)
        np.testing.assert_allclose(weights[0, 0], expected, atol=1e-12)


def test_normal_noise_stays_within_the_span():
    x = np.eye(6)[:4]  # the weights may move along the first four axes only
    weights = sgd.lp_normal_sgd(
        sgd.softmax_loss(3), x, np.array([0, 1, 2, 0]), sigma=5.0, rates=np.ones(8), radius=100.0,
        rng=np.random.default_rng(7),
    )  # fmt: skip
    assert abs(weights[:, :, :4]).min() > 0
    assert (weights[:, :, 4:] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-12)  # nor along (1, 1, 1) of the scores


def test_full_batches_without_noise_are_gradient_descent():
    x, y = small_data()
    w = np.zeros(3)
    signs = 2 * y - 1
    for _ in range(7):
        w = w + 0.8 * (x * (signs / (1 + np.exp(signs * (x @ w))))[:, None]).mean(axis=0)
    common = {"steps": 7, "rates": [0.8, 1.0], "radius": 50.0, "rng": np.random.default_rng(8)}
    for method, own in ((sgd.noisy_gd, {"sigma": 0.0}), (sgd.lp_rr_gd, {"epsilon": np.inf})):
        weights = method(sgd.logistic_loss(), x, y, **own, **common)
        np.testing.assert_allclose(weights[0, 0], w, atol=1e-12)


def test_many_passes_over_answers_minimise_the_debiased_loss():
    x, y = small_data(400)
    loss, epsilon = sgd.logistic_loss(), 1.0
    found = sgd.lp_rr_gd(
        loss, x, y, epsilon=epsilon, steps=300, rates=[5.0, 8.0], radius=50.0, rng=np.random.default_rng(10)
    )  # fmt: skip
    noisy = response.rr(y, 2, epsilon, np.random.default_rng(10)).labels

    def risk(w):
        return debiased.debiased_loss(loss.values(x @ w[:, None]), epsilon)[np.arange(len(y)), noisy].mean()

    best = optimize.minimize(risk, np.zeros(3), method="BFGS").x
    np.testing.assert_allclose(found[:, 0], [best, best], atol=2e-3)


def test_poisson_batches_are_unbiased():
    x, y = small_data()
    common = {"steps": 1, "rates": np.ones(1), "radius": 1e9, "sigma": 0.0}
    rng, loss = np.random.default_rng(12), sgd.logistic_loss()
    some = np.array([sgd.noisy_gd(loss, x, y, rng=rng, sample_rate=0.3, **common) for _ in range(4000)])
    full = sgd.noisy_gd(loss, x, y, rng=rng, **common)
    assert (abs(some.mean(axis=0) - full) < 5 * some.std(axis=0) / np.sqrt(4000)).all()


def test_noise_of_gradient_descent_has_the_stated_size():
    x, y = small_data()
    sigma = mechanisms.analytic_sigma(1.0, 1e-3, 2.0)
    common = {"steps": 1, "rates": np.ones(4000), "radius": 1e9}
    noisy = sgd.noisy_gd(sgd.logistic_loss(), x, y, sigma=sigma, rng=np.random.default_rng(9), **common)
    clean = sgd.noisy_gd(sgd.logistic_loss(), x, y, sigma=0.0, rng=np.random.default_rng(9), **common)
    measured = (noisy - clean).std() * len(y)
    assert abs(measured / sigma - 1) < 0.03  # 12,000 normals: a standard error of 0.65%
