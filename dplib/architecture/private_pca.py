"""Principal components from a noisy covariance matrix (paper B, Section VIII-C; Dwork, Talwar, Thakurta, Zhang 2014).

Neighbours replace one record; the number n of records and the bound R on their norms are public. Released is the matrix
of second moments M = sum z z^T of the rows z = (x, 1), with Gaussian noise on its upper triangle. Mean and covariance,
hence the components, are functions of M/n: post-processing.

Sensitivity. Replacing z by z' moves M by z z^T - z' z'^T, whose squared Frobenius norm is |z|^4 + |z'|^4 - 2 (z . z')^2
<= 2 (R^2 + 1)^2, as |z|^2 = |x|^2 + 1. With R >= 1 two rows with x . x' = -1 attain it. The upper triangle has no
larger norm than the whole matrix.
"""

import numpy as np

from dplib import mechanisms
from dplib.checks import ParameterError

SLACK = 1e-6  # how far a row may exceed the bound, relatively: rounding


def sensitivity(norm_bound: float) -> float:
    """The L2 sensitivity of the upper triangle of M: sqrt(2) (R^2 + 1)."""
    return float(np.sqrt(2) * (norm_bound**2 + 1))


def covariance(x, norm_bound: float, epsilon: float, delta: float, rng) -> tuple[np.ndarray, np.ndarray]:
    """The mean (d,) and covariance (d, d) of the rows of x (n, d), both from one (epsilon, delta)-DP release.

    ``epsilon``: inf for no noise. ParameterError for a row of L2 norm above ``norm_bound``.
    """
    x = np.asarray(x, dtype=float)
    most = np.linalg.norm(x, axis=1).max()
    if most > norm_bound * (1 + SLACK):
        raise ParameterError(f"norm_bound = {norm_bound:g} is not allowed: a row has norm {most:g}.")
    rows = np.hstack([x, np.ones((len(x), 1))])
    sigma = 0.0 if np.isinf(epsilon) else mechanisms.analytic_sigma(epsilon, delta, sensitivity(norm_bound))
    noise = np.triu(sigma * rng.standard_normal((rows.shape[1], rows.shape[1])))
    noise[-1, -1] = 0.0  # this entry is n, which is public
    moments = (rows.T @ rows + noise + np.triu(noise, 1).T) / len(x)
    mean = moments[:-1, -1]
    return mean, moments[:-1, :-1] - np.outer(mean, mean)


def components(cov, k: int) -> np.ndarray:
    """The k directions of most variance, (k, d), orthonormal, the first first; a direction's sign is arbitrary."""
    _, vectors = np.linalg.eigh(cov)
    return vectors[:, ::-1][:, :k].T


def captured(cov, directions) -> float:
    """Share of the variance of ``cov`` (the true one) that a projection on orthonormal directions (k, d) keeps."""
    return float(np.trace(directions @ cov @ directions.T) / np.trace(cov))
