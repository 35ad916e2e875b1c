"""Paper A's bounds on the error of the private Gaussian mixture: Gamma, Theorem 6, eq. (11), and our corrections."""

import numpy as np
from scipy.stats import norm

from dplib.larger_models.gmm import Setting


def gamma(setting: Setting) -> float:
    """Eq. (10): squared Mahalanobis distance of the class means in the released data."""
    return float(np.sum(setting.alpha**2 / setting.released))


def theorem6_psi(gamma, p, n):
    """Argument of Phi in Theorem 6, eq. (9), with both o_p(1) set to 0; n counts both classes."""
    return np.asarray(gamma) / (2 * np.sqrt(4 * np.asarray(p) / n + gamma))


def theorem6(gamma, p, n):
    """The bound of Theorem 6 on the error, eq. (9), with both o_p(1) set to 0."""
    return norm.cdf(-theorem6_psi(gamma, p, n))


def finite_n(n_per_class) -> float:
    """What an estimated Sigma costs: Psi is sqrt((nu - 4)/(nu - 2)) times that of Theorem 6, nu = 2 n_per_class - 2.

    From E(1/S^2) and E(1/S^4) of a pooled variance with nu degrees of freedom. For Psi as printed in eq. (8) the
    factor is sqrt(nu/(nu - 2)) instead, above 1.
    """
    nu = 2 * n_per_class - 2
    return np.sqrt((nu - 4) / (nu - 2))


def predicted_error(setting: Setting, test: str = "noisy") -> float:
    """Mean error over training sets and classes, to first order: Theorem 6 with Sigma_hat and mu_hat estimated.

    For a clean test point the variance of w'x is that of its own features.
    """
    g, v = gamma(setting), setting.released
    weights2 = setting.alpha**2 / v + 2 / setting.n_per_class  # mean of alpha_hat^2 / v, feature by feature
    variance = np.sum(weights2 * setting.test_variances(test) / v)
    psi = finite_n(setting.n_per_class) * g / 2 / np.sqrt(variance)
    shift = np.sum(weights2) / variance / setting.n  # variance of the shift in units of psi
    return float(norm.cdf(-psi / np.sqrt(1 + shift)))


def gamma_chain(setting: Setting, x1: np.ndarray, x2: np.ndarray, tau: float) -> np.ndarray:
    """The five terms of eq. (11) in one data set, from Gamma to 1/tau^2, shape (5,).

    Args:
        setting: its noise_sd is not used. x1, x2: clean points of the two classes, (n, p). tau: ln(1/delta)/epsilon.
    """
    c_p = max(np.abs(x).sum(axis=1).max() for x in (x1, x2))
    farthest = max(np.abs(x2 - point).sum(axis=1).max() for point in x1)
    squares, l1 = np.sum(setting.alpha**2), np.sum(np.abs(setting.alpha))
    noise = (2 * c_p * tau) ** 2
    return np.array(
        [
            np.sum(setting.alpha**2 / (setting.variances + noise)),
            squares / noise,
            squares / (tau * farthest) ** 2,
            squares / (tau * l1) ** 2,
            1 / tau**2,
        ]
    )
