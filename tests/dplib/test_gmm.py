"""The private Gaussian mixture: exact errors, draws from sufficient statistics, bounds.

Statistical tests have fixed seeds; each states how often it would fail by chance with another seed.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dplib import gmm
from dplib.checks import ParameterError
from tests.benchmarks.long_way import draw_the_long_way

FIELDS = ("signal", "shift", "noisy", "clean", "printed")


@pytest.fixture
def setting():
    """Unequal variances, unequal distances and noise: nothing cancels by symmetry."""
    rng = np.random.default_rng(0)
    return gmm.Mixture(rng.normal(0, 0.4, 50), rng.normal(0, 0.4, 50), rng.uniform(0.5, 3, 50), 12, noise_sd=0.8)


def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ParameterError, match="n_per_class = 5"):
        replace(setting, n_per_class=5)
    with pytest.raises(ParameterError, match="noise_sd = -1"):
        replace(setting, noise_sd=-1)
    with pytest.raises(ParameterError, match="not above 0"):
        replace(setting, variances=np.zeros(50), noise_sd=0)
    for negative in (-1.0, -0.1):  # with the noise, each is above 0
        with pytest.raises(ParameterError, match="variances = "):
            replace(setting, variances=np.full(50, negative), noise_sd=2.0)
    for n_per_class in (6.5, 12.0):
        with pytest.raises(ParameterError, match=f"n_per_class = {n_per_class} is not allowed: it must be a whole"):
            replace(setting, n_per_class=n_per_class)
    with pytest.raises(ParameterError, match=r"n_per_class = 6\.5"):
        gmm.finite_n(6.5)
    with pytest.raises(ParameterError, match=r"informative = 10 .* at most 3"):
        gmm.two_classes(3, 7, 1.0, informative=10)
    assert gmm.two_classes(3, 7, 1.0, informative=3).alpha.tolist() == [1, 1, 1]


def test_training_points_that_make_no_sense_are_refused():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3))
    for x1, x2, name in (
        (x, x[:, :2], "x2"), (np.full((4, 3), np.nan), x, "x1"), (x, x[0], "x2"), (x, x[:1], "x2"), (x[:0], x, "x1")
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=f"^{name} = "):
            gmm.fit(x1, x2)
    for constant in (2.0, 0.1):  # the mean of three times 0.1 is rounded, and their variance not 0
        x1, x2 = rng.normal(size=(2, 3, 2))
        x1[:, 1] = x2[:, 1] = constant
        with pytest.raises(ParameterError, match="feature 1 is constant"):
            gmm.fit(x1, x2)
    with pytest.raises(ParameterError, match=r"^x = "):
        gmm.fit(x, x + 1).is_class1(x[:, :2])


def test_points_that_vary_by_the_noise_alone_have_a_predicted_error():
    """The limit of small variances of their own: for clean test points it was no number."""
    still, nearly = (gmm.Mixture(np.ones(2), -np.ones(2), np.full(2, v), 10, noise_sd=4.0) for v in (0.0, 1e-12))
    for test in ("clean", "noisy"):
        assert 0.001 < gmm.predicted_error(still, test) < 0.5
        assert gmm.predicted_error(still, test) == pytest.approx(gmm.predicted_error(nearly, test), rel=1e-6)


def test_theorem_6_of_nothing_and_of_shapes_that_do_not_fit():
    assert gmm.theorem6(0.0, 0, 10) == 0.5
    assert gmm.theorem6([0.0, 4.0], [0, 0], 10) == pytest.approx([0.5, stats.norm.cdf(-1)])
    with pytest.raises(ParameterError, match="do not fit together"):
        gmm.theorem6([1.0, 2.0], [1, 2, 3], 10)
    with pytest.raises(ParameterError, match="n = "):
        gmm.advantage(np.ones(3), [10, 20])


@pytest.mark.parametrize("test", ["clean", "noisy"])
def test_exact_error_is_the_share_of_fresh_points_misclassified(setting, test):
    """Both classes within 4 standard errors: error rate 1.3e-4."""
    fisher = gmm.fit(*gmm.draw_samples(setting, np.random.default_rng(5)))
    fresh = replace(setting, n_per_class=40_000, noise_sd=setting.noise_sd if test == "noisy" else 0.0)
    x1, x2 = gmm.draw_samples(fresh, np.random.default_rng(6))
    measured = np.array([np.mean(~fisher.is_class1(x1)), np.mean(fisher.is_class1(x2))])
    exact = fisher.errors(setting, test)
    assert np.all(np.abs(measured - exact) < 4 * np.sqrt(exact * (1 - exact) / 40_000))
    printed = stats.norm.cdf(-fisher.printed_psi(setting))
    assert np.abs(measured - printed).max() > 4 * np.sqrt(0.25 / 40_000)  # eq. (8) as printed is not the error


def test_the_long_way_is_the_classifier_on_samples(setting):
    """The sums give the same errors as a fitted classifier, where both see the same standard normals."""
    draws = draw_the_long_way(setting, 1, np.random.default_rng(7))
    fisher = gmm.fit(*gmm.draw_samples(setting, np.random.default_rng(7)))
    for test in ("clean", "noisy"):
        assert draws.errors(test)[:, 0] == pytest.approx(fisher.errors(setting, test))
    assert draws.psi("printed")[:, 0] == pytest.approx(fisher.printed_psi(setting))


@pytest.mark.parametrize("make", [lambda s: s, lambda s: gmm.two_classes(40, 10, 1.0, 5, 0.5)])
def test_draws_from_sufficient_statistics_have_the_law_of_the_long_way(setting, make):
    """Kolmogorov-Smirnov tests on each sum and on each psi, which joins them.

    11 tests of level 1e-4 a setting, 2 settings: error rate below 2.2e-3.
    """
    setting = make(setting)
    fast = gmm.draw(setting, 20_000, np.random.default_rng(8))
    slow = draw_the_long_way(setting, 20_000, np.random.default_rng(9))
    for name in FIELDS:
        assert stats.ks_2samp(getattr(fast, name), getattr(slow, name)).pvalue > 1e-4, name
    for below in ("noisy", "clean", "printed"):
        for class_fast, class_slow in zip(fast.psi(below), slow.psi(below), strict=True):
            assert stats.ks_2samp(class_fast, class_slow).pvalue > 1e-4, below


def test_table_of_inverse_variances_has_the_moments_of_a_gamma():
    for n_per_class, tolerance in [(6, 1e-3), (10, 1e-4), (30, 1e-5)]:
        table, nu = gmm._inverse_variances(n_per_class), 2 * n_per_class - 2
        assert table.mean() == pytest.approx(nu / (nu - 2), rel=tolerance)
        assert (table**2).mean() == pytest.approx(nu**2 / ((nu - 2) * (nu - 4)), rel=tolerance)


@pytest.mark.parametrize("noise_sd", [0.8, 50.0])
def test_mirrored_draws_have_the_same_mean_and_less_spread_where_the_signal_is_weak(setting, noise_sd):
    """Mean of psi within 4 joint standard errors: error rate 1.3e-4 for both settings."""
    setting = replace(setting, noise_sd=noise_sd)
    plain = gmm.draw(setting, 20_000, np.random.default_rng(12)).psi().mean(axis=0)
    mirrored = gmm.draw_mirrored(setting, 20_000, np.random.default_rng(13)).mean(axis=0)
    assert abs(plain.mean() - mirrored.mean()) < 4 * np.hypot(plain.std(), mirrored.std()) / np.sqrt(20_000)
    assert mirrored.std() < plain.std() / (1 if noise_sd < 1 else 10)


def test_advantage_is_half_minus_the_mean_error(setting):
    """Within 4 joint standard errors: error rate 6.3e-5."""
    error = gmm.draw(setting, 20_000, np.random.default_rng(14)).errors().mean(axis=0)
    mirrored = gmm.draw_mirrored(setting, 20_000, np.random.default_rng(15))
    advantage = gmm.advantage(mirrored, setting.n).mean(axis=0)
    assert abs(0.5 - error.mean() - advantage.mean()) < 4 * np.hypot(error.std(), advantage.std()) / np.sqrt(20_000)


@pytest.mark.parametrize(("p", "informative", "noise_sd"), [(300, None, 5.0), (3000, 20, 1.0), (3000, 20, 30.0)])
def test_predicted_error_is_close_at_n_of_sixty(p, informative, noise_sd):
    """First-order theory: within 2% of the advantage over guessing for noisy and clean test points, all p >> 1."""
    setting = gmm.two_classes(p, 30, 1.0, informative, noise_sd)
    draws = gmm.draw(setting, 3000, np.random.default_rng(16))
    for test in ("noisy", "clean"):
        error = draws.errors(test).mean(axis=0)
        slack = 0.02 * (0.5 - error.mean()) + 4 * error.std() / np.sqrt(3000)
        assert abs(gmm.predicted_error(setting, test) - error.mean()) < slack


def test_norms_of_definition3():
    rng = np.random.default_rng(18)
    setting = gmm.two_classes(400, 30, 0.0)
    c_1, c_2 = (gmm.max_norms(setting, order, 20, rng).mean() for order in (1, 2))
    # 60 norms with mean p sqrt(2/pi) and standard deviation sqrt(p (1 - 2/pi)): the largest is about 2.3 above.
    assert c_1 == pytest.approx(400 * np.sqrt(2 / np.pi) + 2.3 * np.sqrt(400 * (1 - 2 / np.pi)), rel=0.02)
    assert c_2 == pytest.approx(20 + 2.3 * np.sqrt(0.5), rel=0.02)


def test_a_seed_is_no_generator(setting):
    for call in (
        lambda: gmm.draw_samples(setting, 0),
        lambda: gmm.max_norms(setting, 2, 3, 0),
        lambda: gmm.draw(setting, 3, 0),
        lambda: gmm.draw_mirrored(setting, 3, 0),
    ):
        with pytest.raises(ParameterError, match=r"rng = 0 is not allowed: it must be a numpy\.random\.Generator"):
            call()
