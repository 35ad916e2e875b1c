"""Stochastic gradient descent that protects the labels (Ghazi and others 2021, Appendix F): LP-RR-SGD, LP-Normal-SGD.

Neighbours differ in the *label of one example*; all inputs x are public. Both algorithms look at each label once, in
one pass, so the guarantee of a step is that of the whole training, and of all its iterates; proofs in chapter 10b.
:func:`lp_rr_gd` goes over the same answers many times, at no further cost. :func:`noisy_sgd` and :func:`noisy_gd` are
what they are compared with: they protect whole examples, x included, and need noise in every coordinate.

Losses are l(W x, y) with weights W of shape (B, d), p = B d: logistic (B = 1) or softmax (B = K). The gradient for
label k is c_k x^T with a short vector c_k of shape (B,), and everything that the algorithms do to gradients they do to
those vectors. Many runs go side by side: a leading axis R on the weights.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dplib.checks import ParameterError
from dplib.labels import randomised_response


@dataclass(frozen=True)
class Loss:
    """A convex loss l(W x, y) over K labels.

    Attributes:
        classes: K. outputs: B, the length of W x.
        gradients: scores of shape (..., B) to the gradients by the scores for every label, shape (..., K, B).
        values: scores of shape (..., B) to the losses of every label, shape (..., K).
        lipschitz: L, the Euclidean norm of the gradient by W over all |x| <= 1 at most.
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
    """Eq. (7): the gradient at a label drawn by RR, corrected so that its mean is the gradient at the true label.

    (e^eps + K - 1)/(e^eps - 1) * (g_noisy - sum_k g_k / (e^eps + K - 1)), multiplied out so that large eps is no harm.

    Args:
        gradients: shape (..., K, B), the gradients of every label. noisy_label: integers, shape (...), from RR over
            these K labels. epsilon: > 0.

    Returns:
        Shape (..., B).
    """
    if not epsilon > 0:
        raise ParameterError(f"epsilon = {epsilon} is not allowed: it must be above 0, where answers say something.")
    gradients = np.asarray(gradients, dtype=float)
    classes, less = gradients.shape[-2], np.exp(-epsilon)
    own = np.take_along_axis(gradients, np.asarray(noisy_label)[..., None, None], axis=-2)[..., 0, :]
    return ((1 + (classes - 1) * less) * own - less * gradients.sum(axis=-2)) / (-np.expm1(-epsilon))


def span_projector(gradients, tolerance: float = 1e-9):
    """The orthogonal projector on the span of the K gradients, and its rank: it sees all labels alike.

    Args:
        gradients: shape (..., K, B).

    Returns:
        (projector, rank) of shapes (..., B, B) and (...).
    """
    _, values, rows = np.linalg.svd(np.asarray(gradients, dtype=float), full_matrices=False)
    kept = values > tolerance * np.maximum(values[..., :1], np.finfo(float).tiny)
    rows = rows * kept[..., None]
    return np.swapaxes(rows, -1, -2) @ rows, kept.sum(axis=-1)


def project(weights, radius):
    """Projection of each run's weights, shape (R, B, d), on the ball of this radius: diameter D = 2 radius."""
    norms = np.sqrt((weights**2).sum(axis=(-2, -1), keepdims=True))
    return weights * np.minimum(1.0, radius / np.maximum(norms, np.finfo(float).tiny))


def lp_rr_sgd(loss: Loss, inputs, labels, *, epsilon, rates, radius, rng):
    """Algorithm 5, the last iterate of many runs; each run draws its own randomised labels, once.

    Args:
        inputs: shape (n, d), rows of norm at most 1, in the order of the pass. labels: shape (n,).
        epsilon: of the guarantee; inf for plain SGD. rates: shape (R,): the c of the step size c / sqrt(t).
        radius: of the ball of weights, around 0, where the pass starts. rng: a NumPy generator.

    Returns:
        Weights after the last step, shape (R, B, d).
    """
    rates, n = np.asarray(rates, dtype=float), len(labels)
    noisy = np.array([randomised_response.rr(labels, loss.classes, epsilon, rng).labels for _ in rates])

    def gradient(t, scores):
        return debiased_gradient(loss.gradients(scores), noisy[:, t], epsilon)

    return _one_pass(loss, inputs, gradient, None, rates, radius, n)


def lp_normal_sgd(loss: Loss, inputs, labels, *, sigma, rates, radius, rng):
    """Algorithm 6, the last iterate of many runs, with noise of standard deviation sigma within the span.

    Args:
        sigma: for (epsilon, delta)-label-DP, ``mechanisms.analytic_sigma(epsilon, delta, 2 * loss.lipschitz)``: inputs
            have norm at most 1. The others as in :func:`lp_rr_sgd`.
    """
    rates, n = np.asarray(rates, dtype=float), len(labels)
    lengths = np.sqrt((np.asarray(inputs) ** 2).sum(axis=1))

    def gradient(t, scores):
        every = loss.gradients(scores)
        projector, _ = span_projector(every)
        noise = np.einsum("rij,rj->ri", projector, rng.standard_normal((len(rates), loss.outputs)))
        # A unit vector of the span is (unit vector of the c_k) (x / |x|)^T.
        return every[:, labels[t]] + sigma * noise / max(lengths[t], np.finfo(float).tiny)

    return _one_pass(loss, inputs, gradient, None, rates, radius, n)


def noisy_sgd(loss: Loss, inputs, labels, *, sigma, rates, radius, rng):
    """One pass with noise N(0, sigma^2) on every coordinate: whole examples are protected, x included.

    Args:
        sigma: for (epsilon, delta)-DP under substitution of one example, ``mechanisms.analytic_sigma(epsilon, delta,
            2 * loss.lipschitz)``: each example is used in one step. The others as in :func:`lp_rr_sgd`.
    """
    rates = np.asarray(rates, dtype=float)

    def gradient(t, scores):
        return loss.gradients(scores)[:, labels[t]]

    def noise(shape):
        return sigma * rng.standard_normal(shape)

    return _one_pass(loss, inputs, gradient, noise, rates, radius, len(labels))


def lp_rr_gd(loss: Loss, inputs, labels, *, epsilon, steps, rates, radius, rng):
    """Gradient descent on the debiased loss of labels that RR answered once: any number of steps costs no more.

    Each step's gradient is the mean of (7) over all examples. All runs share one draw of the answers.

    Args:
        steps: number of full-batch steps. rates: shape (R,), constant step sizes. The others as in :func:`lp_rr_sgd`.
    """
    noisy = randomised_response.rr(labels, loss.classes, epsilon, rng).labels

    def coefficients(scores, chosen):
        answers = np.broadcast_to(noisy[chosen][:, None], scores.shape[:2])
        return debiased_gradient(loss.gradients(scores), answers, epsilon)

    return _many_steps(loss, inputs, coefficients, steps, rates, radius)


def noisy_gd(loss: Loss, inputs, labels, *, steps, sigma, rates, radius, rng, sample_rate=1.0):
    """DP-SGD without clipping, which gradients of norm at most L do not need: the last iterate of many runs.

    Args:
        steps: number of steps, at a constant step size. rates: shape (R,), step sizes per unit of mean gradient.
        sigma: noise on the *sum* of the gradients of a batch, per coordinate. For substitution and full batches:
            ``mechanisms.analytic_sigma(epsilon, delta, 2 * loss.lipschitz * sqrt(steps))``, exactly. For Poisson
            batches and adding or removing an example: lipschitz * ``accounting.noise_multiplier(...)``; the number n
            that sums are divided by is then public.
        sample_rate: 1 for full batches. The others as in :func:`lp_rr_sgd`.
    """

    def coefficients(scores, chosen):
        of_labels = np.asarray(labels)[chosen][:, None, None, None]
        return np.take_along_axis(loss.gradients(scores), of_labels, axis=2)[:, :, 0]

    def noise(shape):
        return sigma * rng.standard_normal(shape)

    def batch():
        return slice(None) if sample_rate == 1 else np.flatnonzero(rng.random(len(labels)) < sample_rate)

    return _many_steps(loss, inputs, coefficients, steps, rates, radius, noise, batch, sample_rate)


def _many_steps(loss, inputs, coefficients, steps, rates, radius, noise=None, batch=None, sample_rate=1.0):
    """Projected steps of constant size along (noisy sum of gradients) / (sample_rate n); all rates side by side."""
    inputs, rates = np.asarray(inputs), np.asarray(rates, dtype=float)
    weights = np.zeros((len(rates), loss.outputs, inputs.shape[1]), dtype=inputs.dtype)
    sizes = (rates / (sample_rate * len(inputs)))[:, None, None].astype(inputs.dtype)
    for _ in range(steps):
        chosen = batch() if batch else slice(None)
        x = inputs[chosen]
        scores = (x @ weights.reshape(-1, inputs.shape[1]).T).reshape(len(x), len(rates), loss.outputs)
        parts = coefficients(scores, chosen).reshape(len(x), -1).astype(inputs.dtype)
        total = (parts.T @ x).reshape(weights.shape)
        if noise is not None:
            total += noise(weights.shape).astype(inputs.dtype)
        weights = project(weights - sizes * total, radius)
    return weights


def _one_pass(loss, inputs, gradient, noise, rates, radius, n):
    """Projected SGD: w <- P(w - c / sqrt(t) g_t) for t = 1 to n, from 0."""
    inputs = np.asarray(inputs, dtype=float)
    weights = np.zeros((len(rates), loss.outputs, inputs.shape[1]))
    for t, x in enumerate(inputs[:n]):
        step = gradient(t, weights @ x)[..., None] * x
        if noise is not None:
            step += noise(step.shape)
        weights = project(weights - (rates / np.sqrt(t + 1))[:, None, None] * step, radius)
    return weights
