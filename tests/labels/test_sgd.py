"""Label-private SGD: the gradients by enumeration, the span, projections, and the algorithms against plain SGD."""

import numpy as np
import pytest

from dplib.checks import ParameterError
from dplib.labels import randomised_response as response
from dplib.labels import sgd


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
