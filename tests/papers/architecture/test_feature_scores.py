"""Entropies, symmetrical uncertainty, merit, and the sensitivities behind their private versions."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.metrics import normalized_mutual_info_score

from dplib import mechanisms
from dplib.checks import ParameterError
from papers.architecture import feature_scores as fs

RNG = np.random.default_rng(5)
LEVELS = np.array([2, 3, 4, 1, 2])
CODES = np.column_stack([RNG.integers(k, size=60) for k in LEVELS])
CODES[:, 2] = (CODES[:, 1] + (RNG.random(60) < 0.2)) % 4
COUNTS = fs.count(CODES, LEVELS)


def entropy(*columns):
    _, counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    return stats.entropy(counts, base=2)


def test_entropies_are_those_of_the_empirical_distribution():
    entropies = fs.joint_entropies(COUNTS)
    for i, j in itertools.product(range(5), repeat=2):
        assert entropies[i, j] == pytest.approx(entropy(CODES[:, i], CODES[:, j]), abs=1e-12)


@pytest.mark.parametrize(("n", "cells"), [(2, 2), (5, 3), (8, 4)])
def test_sensitivity_of_an_entropy_by_brute_force(n, cells):
    worst = 0.0
    for counts in itertools.product(range(n + 1), repeat=cells):
        if sum(counts) == n:
            for a, b in itertools.permutations(range(cells), 2):
                if counts[a]:
                    other = np.array(counts)
                    other[a] -= 1
                    other[b] += 1
                    worst = max(worst, abs(stats.entropy(counts, base=2) - stats.entropy(other, base=2)))
    assert fs.entropy_sensitivity(n) == pytest.approx(worst, rel=1e-12)


def test_all_entropies_move_by_the_claimed_sum_at_most_and_it_is_attained():
    levels = np.array([2, 3, 4, 2])

    def distance(a, b):
        return np.abs(np.triu(fs.joint_entropies(fs.count(a, levels)) - fs.joint_entropies(fs.count(b, levels)))).sum()

    claim = fs.entropies_needed(4) * fs.entropy_sensitivity(20)
    alike, other = np.zeros((20, 4), dtype=int), np.zeros((20, 4), dtype=int)
    other[0] = 1
    assert distance(alike, other) == pytest.approx(claim, rel=1e-12)
    for _ in range(200):
        codes = RNG.integers(levels, size=(20, 4))
        changed = codes.copy()
        changed[RNG.integers(20)] = RNG.integers(levels)
        assert distance(codes, changed) <= claim


def test_noise_of_the_entropies_has_the_claimed_scale(monkeypatch):
    monkeypatch.setattr(fs, "_feasible", lambda entropies, levels: entropies)
    exact, upper = fs.joint_entropies(COUNTS), np.triu_indices(5)
    noise = np.array([(fs.private_entropies(COUNTS, 3.0, RNG) - exact)[upper] for _ in range(400)]).ravel()
    scale = 15 * fs.entropy_sensitivity(60) / 3.0
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-3


def test_noise_of_the_tables_has_the_claimed_scale_and_tables_move_by_two_a_pair(monkeypatch):
    monkeypatch.setattr(fs, "_entropies", lambda tables, counts: tables)
    monkeypatch.setattr(fs, "_feasible", lambda entropies, levels: entropies)
    pairs = [(0, 1), (0, 2), (1, 2)]
    levels = np.array([2, 2, 2])
    codes = RNG.integers(2, size=(10**6, 3))  # so many records that no count is cut at 0 or rescaled visibly
    counts = fs.count(codes, levels)
    noise = []
    for _ in range(300):
        gap = fs.private_tables(counts, 0.1, RNG) - counts.tables
        noise += [gap[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].ravel() for i, j in pairs]
    noise = np.concatenate(noise)
    # Scaling a table back to n takes the mean of its four noises away.
    assert noise.std() == pytest.approx(np.sqrt(2) * (2 * 3 / 0.1) * np.sqrt(3 / 4), rel=0.05)
    changed = codes.copy()
    changed[0] = 1 - codes[0]
    moved = np.abs(fs.count(changed, levels).tables - counts.tables)
    assert sum(moved[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].sum() for i, j in pairs) == 2 * len(pairs)


@pytest.mark.parametrize("release", [fs.private_entropies, fs.private_tables])
def test_private_versions_without_noise_are_exact_and_with_noise_possible(release):
    exact = fs.joint_entropies(COUNTS)
    np.testing.assert_allclose(release(COUNTS, np.inf, RNG), exact, atol=1e-9)
    noisy = release(COUNTS, 0.5, RNG)
    alone = np.diag(noisy)
    np.testing.assert_array_equal(noisy, noisy.T)
    assert (alone >= 0).all()
    assert (alone <= np.log2(LEVELS) + 1e-12).all()
    assert (noisy >= np.maximum(alone[:, None], alone) - 1e-12).all()
    assert (noisy <= alone[:, None] + alone + 1e-12 + np.diag(alone)).all()


def test_codes_beyond_their_levels_are_refused():
    with pytest.raises(ParameterError, match="codes must be whole numbers"):
        fs.count([[0, 2]], [2, 2])


def test_merit_by_hand():
    relevance, redundancy = np.array([0.3, 0.2, 0.1]), np.array([[1, 0.5, 0.2], [0.5, 1, 0.4], [0.2, 0.4, 1]])
    subsets = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=bool)
    expected = [0.3, 0.5 / np.sqrt(2 + 2 * 0.5), 0.6 / np.sqrt(3 + 2 * (0.5 + 0.2 + 0.4)), 0]
    np.testing.assert_allclose(fs.merit(subsets, relevance, redundancy), expected, rtol=1e-14)


def test_uncertainty_is_normalised_mutual_information_in_both_forms():
    table = fs.uncertainty(fs.joint_entropies(COUNTS))
    np.testing.assert_allclose(table, fs.uncertainty(fs.joint_entropies(COUNTS), "hall"), atol=1e-12)
    for i, j in itertools.product((0, 1, 2, 4), repeat=2):
        assert table[i, j] == pytest.approx(normalized_mutual_info_score(CODES[:, i], CODES[:, j]), abs=1e-12)
    assert (table[3] == 0).all()  # a constant


# --- a private covariance ---

PCA_RNG = np.random.default_rng(0)
X = PCA_RNG.normal(size=(200, 6)) @ PCA_RNG.normal(size=(6, 6)) + 1
X *= np.minimum(1, 2 / np.linalg.norm(X, axis=1))[:, None]


def test_without_noise_it_is_scikit_learn_up_to_sign():
    mean, cov = fs.covariance(X, 2.0, np.inf, 1e-5, PCA_RNG)
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(cov, np.cov(X.T, bias=True), atol=1e-12)
    reference = PCA(3).fit(X)
    results = fs.components(cov, 3)
    np.testing.assert_allclose(np.abs((results * reference.components_).sum(axis=1)), 1, atol=1e-10)
    share = reference.explained_variance_ratio_.sum()
    assert fs.captured(cov, results) == pytest.approx(share)


def test_sensitivity_is_attained_and_never_exceeded():
    def moved(a, b):
        z, w = np.append(a, 1), np.append(b, 1)
        return np.linalg.norm(np.outer(z, z) - np.outer(w, w))

    for norm in (1.0, 2.0):
        a = norm * np.array([1.0, 0.0])
        angle = np.arccos(-1 / norm**2)
        b = norm * np.array([np.cos(angle), np.sin(angle)])
        assert moved(a, b) == pytest.approx(fs.covariance_sensitivity(norm))
        pairs = PCA_RNG.normal(size=(300, 2, 4))
        pairs *= norm / np.linalg.norm(pairs, axis=2, keepdims=True)
        assert max(moved(*pair) for pair in pairs) <= fs.covariance_sensitivity(norm) + 1e-12


def test_noise_has_the_calibrated_size():
    exact = fs.covariance(X, 2.0, np.inf, 1e-5, PCA_RNG)[0]
    noise = np.concatenate([fs.covariance(X, 2.0, 1.0, 1e-5, PCA_RNG)[0] - exact for _ in range(300)]) * len(X)
    sigma = mechanisms.analytic_sigma(1.0, 1e-5, fs.covariance_sensitivity(2.0))
    assert stats.kstest(noise, stats.norm(scale=sigma).cdf).pvalue > 1e-3


def test_a_row_above_its_bound_is_refused():
    with pytest.raises(ParameterError, match="norm_bound = 1"):
        fs.covariance(X, 1.0, 1.0, 1e-5, PCA_RNG)
