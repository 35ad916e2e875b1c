"""The gradients of label-private optimisation (Ghazi and others 2021, Appendix F): debiased (7), and noise in a span.

Neighbours differ in the *label of one example*; inputs x are public. LP-RR-SGD steps along :func:`debiased_gradient` of
an answered label, LP-Normal-SGD along the true gradient with normal noise on the span of :func:`span_projector`. Losses
are l(W x, y); the gradient for label k is c_k x^T with a short vector c_k of shape (B,), and what is done to gradients
is done to these.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dplib.checks import ParameterError


@dataclass(frozen=True)
class Loss:
    """A convex loss l(W x, y) over K labels: K, the length B of W x, gradients by the scores for every label,
    (..., B) to (..., K, B), losses of every label, (..., B) to (..., K), and L, the largest gradient norm for |x| <= 1.
    """

    classes: int
    outputs: int
    gradients: Callable[[np.ndarray], np.ndarray]
    values: Callable[[np.ndarray], np.ndarray]
    lipschitz: float


def softmax_loss(classes: int) -> Loss:
    """Cross-entropy of K labels with B = K scores: L = sqrt(2)."""

    def probabilities(scores):
        shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return shifted / shifted.sum(axis=-1, keepdims=True)

    def gradients(scores):
        return probabilities(scores)[..., None, :] - np.eye(classes)

    def values(scores):
        return -np.log(probabilities(scores))

    return Loss(classes, classes, gradients, values, np.sqrt(2.0))


def logistic_loss() -> Loss:
    """ln(1 + exp(-s x.w)) for the two labels s = -1 (index 0) and s = +1 (index 1): L = 1."""
    signs = np.array([-1.0, 1.0])

    def gradients(scores):
        return (-signs / (1 + np.exp(np.clip(signs * scores, -500, 500))))[..., None]

    def values(scores):
        return np.logaddexp(0.0, -signs * scores)

    return Loss(2, 1, gradients, values, 1.0)


def debiased_gradient(gradients, noisy_label, epsilon):
    """Eq. (7): the gradient at a label drawn by RR, corrected so that its mean is that at the true label: (..., B).

    (e^eps + K - 1)/(e^eps - 1) * (g_noisy - sum_k g_k / (e^eps + K - 1)), multiplied out so that large eps is no harm.
    gradients: (..., K, B), of every label. noisy_label: integers (...), from RR over these K labels. epsilon: > 0.
    """
    if not epsilon > 0:
        raise ParameterError(f"epsilon = {epsilon} is not allowed: it must be above 0, where answers say something.")
    gradients = np.asarray(gradients, dtype=float)
    classes, less = gradients.shape[-2], np.exp(-epsilon)
    own = np.take_along_axis(gradients, np.asarray(noisy_label)[..., None, None], axis=-2)[..., 0, :]
    return ((1 + (classes - 1) * less) * own - less * gradients.sum(axis=-2)) / (-np.expm1(-epsilon))


def span_projector(gradients, tolerance: float = 1e-9):
    """The orthogonal projector on the span of the K gradients (..., K, B), and its rank: (..., B, B) and (...)."""
    _, values, rows = np.linalg.svd(np.asarray(gradients, dtype=float), full_matrices=False)
    kept = values > tolerance * np.maximum(values[..., :1], np.finfo(float).tiny)
    rows = rows * kept[..., None]
    return np.swapaxes(rows, -1, -2) @ rows, kept.sum(axis=-1)


def project(weights, radius):
    """Projection of each run's weights, shape (R, B, d), on the ball of this radius: diameter D = 2 radius."""
    norms = np.sqrt((weights**2).sum(axis=(-2, -1), keepdims=True))
    return weights * np.minimum(1.0, radius / np.maximum(norms, np.finfo(float).tiny))
