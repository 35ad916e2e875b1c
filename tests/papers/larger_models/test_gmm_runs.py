"""Chapter 1's experiments, and what leads from them to values.

Statistical tests have fixed seeds and say how often another seed would fail.
"""

import numpy as np
import pytest
from scipy import stats

from dplib import gmm, mechanisms
from papers.larger_models import gmm_rows, gmm_runs, gmm_table_rows
from papers.larger_models import gmm_trials as tools


def test_a_curve_is_paired_over_noises_and_does_not_depend_on_the_other_dimensions():
    job = {"seed": 4, "replicates": 50}
    both = gmm_runs.curve(noise="unit", dimensions=[20, 50], **job)
    alone = gmm_runs.curve(noise="unit", dimensions=[50], **job)
    assert both["psi"][1] == alone["psi"][0]
    louder = gmm_runs.curve(noise="unit", epsilon=2.5, dimensions=[20, 50], **job)
    assert all(a > b for a, b in zip(both["psi"], louder["psi"], strict=True))
    assert gmm_runs.curve(noise="unit", dimensions=[50], seed=5, replicates=50)["psi"] != alone["psi"]


def test_one_class_is_misled_in_half_of_the_training_sets_where_nothing_is_left_of_the_signal():
    """The share is within 4.5 standard deviations of 1/2, rate 7e-6; with a strong signal it is 0."""
    lost = gmm_runs.training_sets(p=400, seed=1, noise="L1", epsilon=1e-3, n_per_class=10)
    assert abs(lost["misled"] / 1000 - 0.5) < 4.5 * 0.5 / np.sqrt(1000)
    assert lost["far"]["one"] > lost["far"]["average"] > 1
    clear = gmm_runs.training_sets(p=400, seed=1, noise="none", n_per_class=10)
    assert clear["misled"] == 0
    assert sum(clear["histogram"]["one"]) == 1000


def test_what_is_checked_on_whole_data_sets():
    values = gmm_runs.ingredients(seed=0, p=200, fresh=2000, replaced=2)
    assert values["same_decisions"] == 1000
    assert np.abs(values["bias"]).max() < 0.02
    assert values["distance_ratio"] == pytest.approx(1, abs=0.05)
    assert values["fresh"]["printed"] < values["fresh"]["exact"] == pytest.approx(values["fresh"]["wrong"], abs=0.03)


def test_definition_2_is_private_up_to_some_epsilon():
    largest, share = gmm_rows.where_definition2_is_private(1e-4)
    for epsilon, private in ((0.999999 * largest, True), (1.000001 * largest, False)):
        assert (mechanisms.gaussian_delta(mechanisms.paper_sigma(epsilon, 1e-4), 1.0, epsilon) <= 1e-4) == private
    assert 0.1 < share < 0.3


@pytest.mark.parametrize("epsilon", [0.01, 5.0, 1000.0])
def test_at_any_budget_a_gain_has_digits(epsilon):
    values = gmm_table_rows.at_budget(300, epsilon, 1e-4, informative=20, n_per_class=30, seed=1)
    assert values["error"].between(0, 0.5).all()
    assert (values["gain"] > 0).all()
    assert (values["error"] + values["gain"]).to_numpy() == pytest.approx(0.5)
    assert values["gain"].is_monotonic_decreasing


def test_a_changed_scale_is_seen_more_with_more_coordinates():
    deltas = [tools.worst_delta(0.0, 1.01, 1.0, k, 5.0, 1e-4) for k in (100, 10_000, 1_000_000)]
    assert deltas[0] < 1e-6 < deltas[1] < 0.5 < 0.999 < deltas[2]
    unchanged = mechanisms.gaussian_delta(mechanisms.paper_sigma(5.0, 1e-4, 2.0), 2.0, 5.0)
    assert tools.worst_delta(2.0, 1.0, 1.0, 7, 5.0, 1e-4) == pytest.approx(unchanged)


def test_replacing_the_longest_record_shrinks_or_keeps_the_scale_unless_the_new_one_is_longer():
    setting, rng = gmm.two_classes(50, 10, 0.0), np.random.default_rng(1)
    changes, deltas = np.array([tools.replace_the_longest(setting, 5.0, 1e-4, rng) for _ in range(200)]).T
    # The fresh record is the longest of 21 in one case of 21: 200/21 expected, 0 or more than 30 has odds below 1e-4.
    assert 0 < np.sum(changes < 0) <= 30
    assert np.all((deltas >= 0) & (deltas <= 1))


def test_bias_scores_are_standard_and_see_a_bias(monkeypatch):
    """Of 400 data sets: means and variances within 4.5 standard errors of 0 and 1, rate 4e-5 for all six together."""
    rng, setting = np.random.default_rng(10), gmm.two_classes(40, 60, 1.0, 10, 0.5)
    z = np.array([tools.bias_z_scores(setting, rng) for _ in range(400)])
    assert np.all(np.abs(z.mean(axis=0)) < 4.5 / np.sqrt(400))
    assert np.all(np.abs(z.var(axis=0, ddof=1) - 1) < 4.5 * np.sqrt(2 / 399))
    fit = gmm.fit
    monkeypatch.setattr(gmm, "fit", lambda x1, x2: gmm.replace(fit(x1, x2), variances=fit(x1, x2).variances * 59 / 60))
    z = np.array([tools.bias_z_scores(setting, rng) for _ in range(400)])  # divided by n and not by n - 1
    assert z[:, 2].mean() < -4.5 / np.sqrt(400)


def test_example1_has_the_welch_statistic_and_the_law_of_samples():
    """Kolmogorov-Smirnov against samples of size 200, level 1e-4 for each feature."""
    rng = np.random.default_rng(4)
    drawn = tools.draw_example1(3.0, 4000, rng)
    assert drawn["t"] == pytest.approx(drawn["distance"] / np.sqrt(drawn["variance"] / 100))
    noisy = gmm.replace(tools.EXAMPLE1, noise_sd=3.0)
    samples = [gmm.draw_samples(noisy, rng) for _ in range(1000)]
    welch = np.array([stats.ttest_ind(x2, x1, equal_var=False).statistic for x1, x2 in samples])
    for j in (0, 1):
        assert stats.ks_2samp(drawn["t"][:, j], welch[:, j]).pvalue > 1e-4


def test_a_new_rank_comes_with_its_least_noise_and_costs_what_drawn_points_say():
    found = gmm_rows.new_rank()
    gap, variances = np.abs(tools.EXAMPLE1.alpha), np.asarray(tools.EXAMPLE1.variances)
    for factor, first in ((0.99, 0), (1.01, 1)):
        released = variances + (factor * found["least_noise_that_makes_it"]) ** 2
        assert np.argmax(gap / np.sqrt(released)) == first
    rng = np.random.default_rng(6)
    for points, noise in (("noisy", 3.0), ("clean", 0.0)):
        drawn = np.sqrt(variances + noise**2) * rng.standard_normal((200_000, 2))  # of the class with mean 0
        wrong = (drawn > gap / 2).mean(0)
        assert found[f"more_error_{points}_points"] == pytest.approx(wrong[1] - wrong[0], abs=0.005)


def test_images_keep_two_classes_and_pixels_that_vary():
    x, y = np.random.default_rng(5).uniform(size=(60, 1, 2, 2)), np.repeat([0, 4, 7], 20)
    x[:, 0, 0, 0] = 0.5
    images = tools.Images.of(x, y, [7, 0])
    assert [pool.shape for pool in images.pools] == [(20, 4), (20, 4)]
    assert np.array_equal(images.pools[0], x[y == 7].reshape(20, 4))
    assert images.kept.tolist() == [1, 2, 3]
    shuffled = images.shuffled(np.random.default_rng(6))
    for before, after in zip(images.pools, shuffled.pools, strict=True):
        assert np.array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
        assert not np.array_equal(before, after)


def test_the_formula_describes_independent_normal_pixels_and_not_copies():
    """On its own world the formula is within 4 standard errors (rate 6e-5 each); ten copies of a pixel defeat it."""
    rng = np.random.default_rng(7)
    x1, x2 = gmm.draw_samples(gmm.two_classes(40, 3000, 0.4), rng)
    y = np.repeat([0, 1], 3000)
    for copies in (1, 10):
        x = np.vstack([x1, x2])
        images = tools.Images.of(np.tile(x[:, : 40 // copies], copies), y, [0, 1])
        errors = np.array([tools.image_errors(images, 40, 30, 0.3, np.random.default_rng(s)) for s in range(60)])
        for column in (0, 1):
            gap = errors[:, column] - errors[:, 2 + column]
            z = gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap)))
            assert abs(z) < 4 if copies == 1 else z > 4


def test_a_feature_without_signal_has_one_half_and_a_strong_one_beside_it_less():
    """The formula of Theorem 6, corrected for finite n, says the second within a hundredth; no seed fails."""
    found = gmm_rows.strong_feature(seeds=5)
    assert found["error_useless_feature_L1"].value == pytest.approx(0.5, abs=1e-12)
    noise = mechanisms.paper_sigma(5.0, 1e-4, 2 * 14.5)  # the largest of 60 norms: 10, and some four from two normals
    strong = gmm.Mixture(np.array([0.0, 10.0]), np.array([0.0, -10.0]), np.ones(2), 30, float(noise))
    assert found["error_strong_feature_added_L1"].value == pytest.approx(gmm.predicted_error(strong), abs=0.01)


def test_small_noise_by_the_norm_lets_few_features_tell_and_many_not():
    found = gmm_rows.small_noise(seeds=2)
    assert found["error_small_definition3_fewest_features"].value < 0.01
    assert found["error_small_definition3"].value > 0.49


def test_noise_of_standard_deviation_3_has_the_budget_that_equation_4_gives_it():
    budget = gmm_rows.budget_of_sd_3(24.0)
    assert mechanisms.paper_sigma(budget["epsilon_of_sd_3"], 1e-4, 2 * 24.0) == pytest.approx(3.0)
    assert budget["epsilon_spent_by_sd_3"] > budget["epsilon_of_sd_3"]  # beyond the epsilon up to which it is private
