"""Principal components: agreement with scikit-learn without noise, sensitivity, and the scale of the noise."""

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA

from dplib import mechanisms
from dplib.architecture import private_pca
from dplib.checks import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)) @ RNG.normal(size=(6, 6)) + 1
X *= np.minimum(1, 2 / np.linalg.norm(X, axis=1))[:, None]


def test_without_noise_it_is_scikit_learn_up_to_sign():
    mean, cov = private_pca.covariance(X, 2.0, np.inf, 1e-5, RNG)
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(cov, np.cov(X.T, bias=True), atol=1e-12)
    reference = PCA(3).fit(X)
    found = private_pca.components(cov, 3)
    np.testing.assert_allclose(np.abs((found * reference.components_).sum(axis=1)), 1, atol=1e-10)
    share = reference.explained_variance_ratio_.sum()
    assert private_pca.captured(cov, found) == pytest.approx(share)


def test_sensitivity_is_attained_and_never_exceeded():
    def moved(a, b):
        z, w = np.append(a, 1), np.append(b, 1)
        return np.linalg.norm(np.outer(z, z) - np.outer(w, w))

    for norm in (1.0, 2.0):
        a = norm * np.array([1.0, 0.0])
        angle = np.arccos(-1 / norm**2)
        b = norm * np.array([np.cos(angle), np.sin(angle)])
        assert moved(a, b) == pytest.approx(private_pca.sensitivity(norm))
        pairs = RNG.normal(size=(300, 2, 4))
        pairs *= norm / np.linalg.norm(pairs, axis=2, keepdims=True)
        assert max(moved(*pair) for pair in pairs) <= private_pca.sensitivity(norm) + 1e-12


def test_noise_has_the_calibrated_size():
    exact = private_pca.covariance(X, 2.0, np.inf, 1e-5, RNG)[0]
    noise = np.concatenate([private_pca.covariance(X, 2.0, 1.0, 1e-5, RNG)[0] - exact for _ in range(300)]) * len(X)
    sigma = mechanisms.analytic_sigma(1.0, 1e-5, private_pca.sensitivity(2.0))
    assert stats.kstest(noise, stats.norm(scale=sigma).cdf).pvalue > 1e-3


def test_a_row_above_its_bound_is_refused():
    with pytest.raises(ParameterError, match="norm_bound = 1"):
        private_pca.covariance(X, 1.0, 1.0, 1e-5, RNG)
