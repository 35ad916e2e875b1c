"""Intervals and paired tests against closed forms, and their coverage over seeds."""

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from dplib import stats
from dplib.checks import ParameterError


def test_mean_interval_of_three_numbers_by_hand():
    measured = stats.mean_interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 / np.sqrt(3)  # t of 2 degrees of freedom at 0.975, standard deviation 1
    assert measured.value == 2
    assert measured.low == pytest.approx(2 - half)
    assert measured.high == pytest.approx(2 + half)
    assert measured.n == 3


def test_an_interval_is_cut_to_what_can_be():
    """A reader's two runs had an accuracy of 14 [-40, 68] percent, and of 94 [85, 102]."""
    assert stats.Measured(14.0, -40.0, 68.0, 2).within(0, 100) == stats.Measured(14.0, 0, 68.0, 2)
    assert stats.Measured(94.0, 85.0, 102.0, 2).within(0, 100) == stats.Measured(94.0, 85.0, 100, 2)
    assert stats.Measured(94.0).within(0, 100) == stats.Measured(94.0)
    assert np.isnan(stats.Measured(np.nan, np.nan, np.nan).within(0, 1).value)


def test_mean_interval_covers_95_in_100():
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(4000, 5))
    covered = sum(m.low <= 0 <= m.high for m in map(stats.mean_interval, runs))
    # 4,000 draws at 0.95: four standard errors are 0.014, so a right interval fails once in 16,000 seeds.
    assert abs(covered / 4000 - 0.95) < 0.014


def test_proportion_interval_is_clopper_pearson():
    measured = stats.proportion_interval(3, 20)
    assert (measured.value, measured.n) == (0.15, 20)
    assert measured.low == pytest.approx(scipy_stats.beta.ppf(0.025, 3, 18))
    assert measured.high == pytest.approx(scipy_stats.beta.ppf(0.975, 4, 17))
    assert stats.proportion_interval(0, 10).low == 0
    assert stats.proportion_interval(10, 10).high == 1


def test_paired_is_the_t_test_of_the_differences():
    a, b = np.array([1.0, 2, 3, 5]), np.array([0.5, 2.5, 2, 3])
    comparison = stats.paired(a, b)
    assert comparison.p_value == pytest.approx(scipy_stats.ttest_1samp(a - b, 0).pvalue)
    assert comparison.difference.value == pytest.approx(0.75)


def test_independent_is_welchs_t_test_by_hand():
    a, b = np.array([1.0, 2.0, 3.0, 6.0]), np.array([0.0, 1.0])
    parts = a.var(ddof=1) / 4, b.var(ddof=1) / 2
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 1)
    half = scipy_stats.t.ppf(0.975, freedom) * sum(parts) ** 0.5
    measured = stats.independent(a, b)
    assert (measured.value, measured.n) == (2.5, 2)
    np.testing.assert_allclose([measured.low, measured.high], [2.5 - half, 2.5 + half])
    alike = stats.independent(np.full(3, 2.0), np.full(2, 0.5))
    assert (alike.low, alike.high) == (1.5, 1.5)


def test_holm_counts_the_tests_that_are_left():
    """0.005 times 4, 0.01 times 3, 0.03 times 2; 0.04 times 1 may not be less than what stands before it."""
    np.testing.assert_allclose(stats.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(stats.holm([0.7, 0.6]), [1.0, 1.0])


def test_equal_differences_leave_nothing_to_chance():
    assert stats.paired([1, 2, 3], [0, 1, 2]).p_value == 0
    assert stats.paired([1, 2, 3], [1, 2, 3]).p_value == 1


@pytest.mark.parametrize("runs", [[1.0], [[1, 2], [3, 4]], [1.0, np.nan], []])
def test_what_is_no_set_of_runs_is_refused(runs):
    with pytest.raises(ParameterError, match="two or more finite numbers"):
        stats.mean_interval(runs)


def test_a_measured_value_fits_a_cell_of_a_table():
    assert f"{stats.Measured(95.123, 94.7, 95.5, 5):.1f}" == "95.1 ± 0.4"
    assert f"{stats.Measured(0.9, 0.6, 0.95, 20):.2f}" == "0.90 ± 0.30", "the longer arm of a lopsided interval"
    assert f"{stats.Measured(1.0, 1.0, 1.0, 5):.4f}" == "1.0000"
    assert f"{stats.Measured(-0.01, None, None, 5):.1f}" == "0.0"
    assert f"{stats.Measured(float('nan'), n=1):.1f}" == "–"
    assert f"{stats.Measured(0.51234, 0.50, 0.5247, 5)}" == "0.512 [0.500, 0.525]"


def test_text_shows_two_figures_of_the_interval():
    assert str(stats.Measured(0.51234, 0.50, 0.5247, 5)) == "0.512 [0.500, 0.525]"
    assert str(stats.Measured(3.0)) == "3"
    assert str(stats.Measured(1.0, 1.0, 1.0, 5)) == "1", "it was 1.0000 [1.0000, 1.0000]"


def test_an_end_of_an_interval_keeps_its_sign():
    assert str(stats.Measured(0.84, -0.03, 1.7, 5)) == "0.84 [-0.03, 1.70]"
    assert str(stats.Measured(0.84, 0.03, 1.7, 5)) == "0.84 [0.03, 1.70]"
    assert str(stats.Measured(1.0, 0.0, 2.0, 5)) == "1.0 [0.0, 2.0]"
    assert str(stats.Measured(-0.03, -0.9, 0.9, 5)) == "0.0 [-0.9, 0.9]", "no zero with a sign"
    assert str(stats.Measured(-1e-9, -2e-9, 2e-9, 5)) == "0.000000 [0.000000, 0.000000]"


@pytest.mark.parametrize("n", [3, 5, 20])
def test_a_visible_difference_has_its_power_by_the_noncentral_t(n):
    shift = stats.visible_difference(n) * np.sqrt(n)
    assert scipy_stats.nct.sf(scipy_stats.t.ppf(0.975, n - 1), n - 1, shift) == pytest.approx(0.8, abs=1e-3)


def test_a_provable_margin_has_its_power_over_seeds():
    rng, n = np.random.default_rng(0), 5
    runs = rng.standard_normal((20_000, n))
    half = scipy_stats.t.ppf(0.95, n - 1) * runs.std(1, ddof=1) / np.sqrt(n)
    shown = (np.abs(runs.mean(1)) + half < stats.provable_margin(n)).mean()
    assert abs(shown - 0.8) < 0.012  # four standard errors


def test_splits_of_one_table_say_less_of_further_records():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    table, like_these = stats.mean_interval(values), stats.splits_interval(values, 0.5)
    assert like_these.value == table.value
    ratio = (like_these.high - like_these.low) / (table.high - table.low)
    assert ratio == pytest.approx(np.sqrt((1 / 4 + 0.5) / (1 / 4)))
    with pytest.raises(ParameterError, match="test_share"):
        stats.splits_interval(values, 0.0)


def test_the_interval_for_records_like_these_covers_where_that_of_the_table_does_not():
    """Means of a test part over random splits of one table of 60, against the mean of the population."""
    rng = np.random.default_rng(0)
    covered = np.zeros(2)
    for _ in range(200):
        table = rng.normal(size=60)
        means = np.array([rng.permutation(table)[:20].mean() for _ in range(30)])
        for i, found in enumerate((stats.mean_interval(means), stats.splits_interval(means, 20 / 40))):
            covered[i] += found.low <= 0 <= found.high
    assert covered[0] < 120  # of 200, where 190 are promised
    assert covered[1] >= 180


FIVE = stats.Measured(5.0, 4.0, 6.0)


@pytest.mark.parametrize(("spec", "text"), [
    (">12.1f", "   5.0 ± 1.0"), ("12.1f", "   5.0 ± 1.0"), ("<13.2f", "5.00 ± 1.00  "), ("*^11.1f", "*5.0 ± 1.0*"),
    (".0%", "500% ± 100%"), ("+.1f", "+5.0 ± 1.0"), ("z.1f", "5.0 ± 1.0"), (",.1f", "5.0 ± 1.0"), (".2g", "5 ± 1"),
])  # fmt: skip
def test_a_format_places_the_whole_text_and_signs_the_value(spec, text):
    """A width went to the value alone, with z for its fill; % and + ended in an error of float."""
    assert f"{FIVE:{spec}}" == text
    assert f"{stats.Measured(0.25, 0.25, 0.25):>6.0%}" == "   25%"
    assert f"{stats.Measured(float('nan')):>4.1f}" == "   –"


@pytest.mark.parametrize("spec", ["05.1f", "=8.1f", "d", "s", ".f", "what"])
def test_a_format_that_is_none_is_refused(spec):
    with pytest.raises(ParameterError, match=r"format .* is not allowed"):
        f"{FIVE:{spec}}"


def test_runs_that_are_hidden_texts_or_lists_of_counts_are_refused():
    with pytest.raises(ParameterError, match="masked"):
        stats.mean_interval(np.ma.masked_array([1.0, 2, 900], [False, False, True]))
    with pytest.raises(ParameterError, match="real numbers") as refused:
        stats.mean_interval(["Alice", "Bob"])
    assert "Alice" not in str(refused.value)
    with pytest.raises(ParameterError, match="successes"):
        stats.proportion_interval([3], 20)
    assert stats.mean_interval(torch.tensor([1.0, 3.0], requires_grad=True)).value == 2


@pytest.mark.parametrize(("n", "level"), [(2, 1 - 1e-6), (2, 1 - 1e-9), (3, 1 - 1e-9)])
def test_a_difference_of_hundreds_of_deviations_is_found(n, level):
    shift = stats.visible_difference(n, level=level) * np.sqrt(n)
    # The mean's own error is nothing beside t times what it is taken for: chi of n - 1 at the power decides.
    least = scipy_stats.t.ppf((1 + level) / 2, n - 1) * scipy_stats.chi.ppf(0.8, n - 1) / np.sqrt(n - 1)
    assert shift == pytest.approx(least, rel=0.01)


def test_a_margin_of_hundreds_of_deviations_is_found():
    margin = stats.provable_margin(2, level=0.999) * np.sqrt(2)
    assert margin == pytest.approx(scipy_stats.t.ppf(0.999, 1) * scipy_stats.chi.ppf(0.8, 1), rel=0.01)


def test_a_test_that_errs_more_often_than_it_should_find_needs_no_difference():
    assert stats.visible_difference(10, 0.8, 0.1) == 0
    assert stats.provable_margin(10, 0.01, 0.01) == 0
    assert stats.visible_difference(10, 0.8, 0.25) > 0
