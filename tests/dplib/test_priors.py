from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats as sps

from dplib import priors as label_priors
from dplib import randomised_response
from dplib.checks import ParameterError


def test_noise_has_scipys_distribution():
    for parameter in (0.0125, 0.5, 3.0):
        draws = label_priors.discrete_laplace(20_000, parameter, np.random.default_rng(1))
        edge = int(4 / parameter) + 1
        bins = np.unique(np.linspace(-edge, edge, 12).astype(int))
        seen = np.bincount(np.searchsorted(bins, draws), minlength=len(bins) + 1)
        cdf = np.concatenate([[0], sps.dlaplace.cdf(bins, parameter), [1]])
        assert sps.chisquare(seen, 20_000 * np.diff(cdf)).pvalue > 1e-3
        assert draws.std() == pytest.approx(sps.dlaplace.std(parameter), rel=0.05)


def test_coins_never_spend_more_than_the_parameter():
    for parameter in (1e-4, 0.0125, 0.5, 3.0, 40.0):
        with localcontext() as context:
            context.prec = 80
            ratio = Decimal(2**128) / label_priors.stay(parameter)
            assert ratio.ln() <= Decimal(parameter)
            assert Decimal(parameter) - ratio.ln() < Decimal(2) ** -60


def test_cryptographic_source_is_used_without_a_generator(monkeypatch):
    asked = []
    monkeypatch.setattr(randomised_response.secrets, "token_bytes", lambda n: asked.append(n) or b"\xff" * n)
    assert (label_priors.discrete_laplace(3, 0.5, None) == 0).all()  # every coin falls the other way at once
    assert asked == [16 * 6]


def test_histograms_count_labels_by_group():
    labels, group = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 0, 1, 1, 3])
    expected = np.array([[1, 2, 0], [0, 0, 2], [0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(label_priors.histograms(labels, group, 4, 3), expected)
    np.testing.assert_array_equal(label_priors.noisy_histograms(expected, np.inf, None), expected)
    np.testing.assert_array_equal(label_priors.vote(expected), [1, 2, 0, 2])
    with pytest.raises(ParameterError, match=r"labels = .*whole numbers from 0 to 2"):
        label_priors.histograms(np.array([3]), np.array([0]), 1, 3)
    with pytest.raises(ParameterError, match=r"group = .*whole numbers from 0 to 0"):
        label_priors.histograms(np.array([0]), np.array([1]), 1, 3)


def test_an_empty_group_gets_the_uniform_prior():
    noisy = np.array([[-3, 0, -1], [4, -2, 12]])
    np.testing.assert_allclose(label_priors.normalised(noisy), [[1 / 3, 1 / 3, 1 / 3], [0.25, 0, 0.75]])
    smoothed = label_priors.normalised(noisy, smoothing=2.0)
    np.testing.assert_allclose(smoothed, [[1 / 3, 1 / 3, 1 / 3], [6 / 22, 2 / 22, 14 / 22]])


def test_cut_counts_are_a_distribution():
    for count in (0, 1, 7):
        outputs = np.arange(400)
        assert np.exp(label_priors.log_cut(count, outputs, 0.3)).sum() == pytest.approx(1, abs=1e-12)


def test_respond_gives_each_group_its_prior_and_the_rest_of_the_budget(monkeypatch):
    seen = {}

    def spy(labels, prior, epsilon, rng):
        seen.update(prior=prior, epsilon=epsilon)
        return randomised_response.Response(labels, np.ones(len(labels)))

    monkeypatch.setattr(label_priors.randomised_response, "rr_with_prior", spy)
    labels, group = np.array([0, 1, 1, 0]), np.array([0, 1, 1, 0])
    _, priors = label_priors.respond(labels, group, 2, 2, 1.0, 0.25, np.random.default_rng(0))
    assert seen["epsilon"] == 0.75
    np.testing.assert_array_equal(seen["prior"], priors)
    with pytest.raises(ParameterError, match="epsilon_p = 2 is not allowed"):
        label_priors.respond(labels, group, 2, 2, 1.0, 2.0, np.random.default_rng(0))


def test_no_share_for_the_histogram_is_plain_randomised_response():
    labels, group = np.random.default_rng(0).integers(3, size=500), np.zeros(500, dtype=int)
    answers, priors = label_priors.respond(labels, group, 1, 3, 1.0, 0.0, np.random.default_rng(1))
    plain = randomised_response.rr(labels, 3, 1.0, np.random.default_rng(1))
    np.testing.assert_array_equal(answers.labels, plain.labels)
    np.testing.assert_allclose(priors, 1 / 3)


def test_whole_floats_are_groups_and_there_may_be_no_record():
    rng = np.random.default_rng(0)
    answers, prior = label_priors.respond([0, 1, 1], [0.0, 1.0, 1.0], 2, 2, 2.0, 1.0, rng)
    assert prior.shape == (3, 2)
    answers, prior = label_priors.respond([], [], 2, 2, 2.0, 1.0, rng)
    assert answers.labels.shape == (0,)
    assert prior.shape == (0, 2)


def test_an_infinite_budget_releases_the_labels_whatever_its_parts():
    answers, _ = label_priors.respond([0, 1, 1], [0, 1, 1], 2, 2, np.inf, np.inf, None)
    assert answers.labels.tolist() == [0, 1, 1]


def test_features_and_counts_that_are_none_are_refused():
    with pytest.raises(ParameterError, match="features = ") as refused:
        label_priors.groups([["Alice"], ["Bob"]], 2, 0)
    assert "Alice" not in str(refused.value)
    for features in (np.array([[np.nan], [1.0]]), np.ma.masked_array([[1.0], [2.0]])):
        with pytest.raises(ParameterError, match="features"):
            label_priors.groups(features, 2, 0)
    with pytest.raises(ParameterError, match="epsilon = "):
        label_priors.noisy_histograms([[1, 2]], [1.0, 2.0], None)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_counts_that_int64_with_noise_does_not_hold_are_refused(epsilon):
    """2^63 + 5 came out as -9.2e18."""
    for count in (2**63 + 5, 2**53 + 1):
        with pytest.raises(ParameterError, match=r"counts = uint64 of shape .* from 0 to 2\^53"):
            label_priors.noisy_histograms(np.array([[count, 2]], np.uint64), epsilon, np.random.default_rng(0))
    most = label_priors.noisy_histograms(np.array([[2**53, 2]], np.uint64), epsilon, np.random.default_rng(0))
    assert (abs(most - [[2**53, 2]]) < 100).all()
