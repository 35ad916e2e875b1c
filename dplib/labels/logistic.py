"""Label-private logistic regression in any dimension, on a problem whose difficulty does not change with it.

The input is x = (s alpha, sqrt(1 - alpha^2) u) with a hidden sign s of probability 1/2 each and u uniform on the sphere
of R^(p-1): |x| = 1, so that the logistic loss is 1-Lipschitz. The label is s with probability kappa. Over the ball
|w| <= D/2 the best weights are a multiple of the first axis, the same for every p. For weights (w_1, rest) of length r

    risk = kappa E ln(1 + exp(-z)) + (1 - kappa) E ln(1 + exp(z)),   z = alpha w_1 + sqrt(1 - alpha^2) r U,

with one coordinate U of a uniform point of that sphere: computed by quadrature, not on a sample.
"""

import numpy as np
from scipy import stats

from dplib import checks
from dplib.labels import sgd

_POINTS = 2000  # quantiles of U
METHODS = ("sgd", "rr", "rr-gd", "normal", "dp-sgd", "dp-gd")


def draw(n: int, p: int, alpha: float, kappa: float, rng):
    """n inputs of shape (n, p), single precision, and labels 0 or 1 (for s = -1 and 1), shape (n,)."""
    sign = rng.choice([-1.0, 1.0], n)
    around = rng.standard_normal((n, p - 1), dtype=np.float32)
    around *= (np.sqrt(1 - alpha**2) / np.sqrt((around**2).sum(axis=1)))[:, None]
    labels = np.where(rng.random(n) < kappa, sign, -sign)
    return np.concatenate([(sign * alpha)[:, None].astype(np.float32), around], axis=1), (labels > 0).astype(int)


def excess_risk(weights, alpha: float, kappa: float, radius: float):
    """Population risk above the best one in the ball, shape (R,), for weights of shape (R, p)."""
    p, first = weights.shape[1], weights[:, :1].astype(float)
    rest = np.sqrt((weights[:, 1:].astype(float) ** 2).sum(axis=1))[:, None]
    z = alpha * first + np.sqrt(1 - alpha**2) * rest * _quantiles(p - 1)[None]
    risk = kappa * np.logaddexp(0, -z) + (1 - kappa) * np.logaddexp(0, z)
    best = min(np.log(kappa / (1 - kappa)), alpha * radius)
    return risk.mean(axis=1) - (kappa * np.logaddexp(0, -best) + (1 - kappa) * np.logaddexp(0, best))


def run(
    *, method, n, p, alpha, kappa, radius, epsilon, sigma, rates, seed, steps=1, sample_rate=1.0
):  # fmt: skip
    """Excess risk of one training for each rate, on data drawn anew: {"excess": list over the rates}.

    Args:
        method: one of :data:`METHODS`, see :mod:`dplib.labels.sgd` for sigma; "rr-gd" is lp_rr_gd, "dp-gd" is noisy_gd.
        n, p, alpha, kappa, radius: of the problem. epsilon: of "rr", "rr-gd". steps: of "rr-gd", "dp-gd".
        sample_rate: of "dp-gd". rates: c of the step size c / sqrt(t), or the constant one of "rr-gd" and "dp-gd".
    """
    checks.one_of(*METHODS).check("method", method)
    data_rng, rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    inputs, labels = draw(n, p, alpha, kappa, data_rng)
    common = {"rates": rates, "radius": radius, "rng": rng}
    loss = sgd.logistic_loss()
    if method in ("sgd", "rr"):
        weights = sgd.lp_rr_sgd(loss, inputs, labels, epsilon=epsilon if method == "rr" else np.inf, **common)
    elif method == "rr-gd":
        weights = sgd.lp_rr_gd(loss, inputs, labels, epsilon=epsilon, steps=steps, **common)
    elif method == "normal":
        weights = sgd.lp_normal_sgd(loss, inputs, labels, sigma=sigma, **common)
    elif method == "dp-sgd":
        weights = sgd.noisy_sgd(loss, inputs, labels, sigma=sigma, **common)
    else:
        weights = sgd.noisy_gd(
            loss, inputs, labels, steps=steps, sigma=sigma, sample_rate=sample_rate, **common
        )  # fmt: skip
    return {"excess": excess_risk(weights[:, 0], alpha, kappa, radius).tolist()}


def _quantiles(dimension: int):
    """Midpoint quantiles of one coordinate of a uniform point of the unit sphere of R^dimension, shape (m,)."""
    if dimension == 1:
        return np.array([-1.0, 1.0])
    half = (dimension - 1) / 2
    return 2 * stats.beta.ppf((np.arange(_POINTS) + 0.5) / _POINTS, half, half) - 1
