"""Verdict rules of the chapter on architecture search, on made-up measurements: each verdict can come out."""

import numpy as np
import pytest

from dplib.architecture.search_verdicts import (
    accuracy_verdict,
    alike,
    better_verdict,
    comparison_verdict,
    draws_needed,
    loss_verdict,
    percentile,
    race_verdict,
    rates_verdict,
    robust_verdict,
    setting_verdict,
    sign_verdict,
    tradeoff_verdict,
    when_verdict,
)
from dplib.stats import Measured, paired

UNSTATED = "not reproducible as stated"
HOURS = {"paas": 0.1, "mgrs": 0.2, "rs": 1.0}


def compared(low, high):
    return paired(np.array([low, high, low, high]), np.zeros(4))


UP, DOWN, OPEN = compared(1, 1.2), compared(-1.2, -1), compared(-1, 1)


def test_almost_the_same_needs_narrow_intervals():
    near, wide, far = Measured(0.1, -0.3, 0.5), Measured(0.1, -3, 3), Measured(2, 1.2, 2.8)
    assert alike([near, Measured(-0.5, -0.9, -0.1)])
    assert not alike([near, Measured(0.1, -0.3, 1.5)])
    assert accuracy_verdict([near]) == "holds"
    assert accuracy_verdict([near, wide]) == "undecided"
    assert accuracy_verdict([near, far]) == "fails"


def test_the_comparison_contains_the_printed_budgets():
    assert comparison_verdict("holds", HOURS, ["holds"] * 3) == "holds"
    assert comparison_verdict("undecided", HOURS, ["holds"] * 3) == "undecided"
    assert comparison_verdict("holds", HOURS, ["fails", UNSTATED, UNSTATED]) == UNSTATED
    assert comparison_verdict("fails", HOURS, ["holds"] * 3) == "fails"
    assert comparison_verdict("holds", {**HOURS, "paas": 3.0}, ["holds"] * 3) == "fails"


def test_fastest_is_judged_at_equal_numbers_of_trainings():
    """Fewer trainings by its own sizes make no search the fastest one to a good network."""
    assert when_verdict("holds", DOWN, OPEN) == "fails"
    assert when_verdict("holds", DOWN, DOWN) == "fails"
    assert when_verdict("holds", DOWN, UP) == "undecided"  # its noise is to blame, not the search
    assert when_verdict("holds", OPEN, OPEN) == "undecided"
    assert when_verdict("holds", UP, OPEN) == "holds with change"
    assert when_verdict("undecided", UP, OPEN) == "undecided"
    assert when_verdict("fails", UP, UP) == "fails"


def test_the_tradeoff_needs_the_order_of_budgets():
    said, reverse = {"rs": 1, "mgrs": 2, "paas": 3}, {"rs": 9, "mgrs": 4, "paas": 3}
    assert tradeoff_verdict("holds", said, said) == "holds"
    assert tradeoff_verdict("holds", reverse, said) == "holds with change"
    assert tradeoff_verdict("undecided", reverse, said) == "undecided"
    assert tradeoff_verdict("holds", reverse, reverse) == "fails"
    assert tradeoff_verdict("fails", said, said) == "fails"


def test_signs_and_robustness():
    assert [sign_verdict(c) for c in (UP, DOWN, OPEN)] == ["holds", "fails", "undecided"]
    assert [race_verdict(c, UP) for c in (UP, DOWN)] == ["holds", "fails"]
    assert race_verdict(DOWN, OPEN) == "undecided"  # nothing to win: both find the best
    assert robust_verdict(UP, OPEN) == "holds"
    assert robust_verdict(OPEN, DOWN) == "holds"
    assert robust_verdict(DOWN, UP) == "fails"
    assert robust_verdict(OPEN, OPEN) == "undecided"


def test_a_better_and_smaller_network():
    assert better_verdict(UP, DOWN) == "holds"
    assert better_verdict(UP, OPEN) == "undecided"
    assert better_verdict(OPEN, DOWN) == "undecided"
    assert better_verdict(DOWN, DOWN) == "fails"
    assert better_verdict(UP, UP) == "fails"


def test_a_loss_holds_up_to_the_margin():
    start = Measured(93.0, 92.5, 93.5), 92.7
    assert loss_verdict(Measured(1.5, 1.2, 1.9), 1.09, *start) == "holds"
    assert loss_verdict(Measured(3.0, 2.5, 3.5), 1.09, *start) == "fails"
    assert loss_verdict(Measured(2.0, 1.0, 3.0), 1.09, *start) == "undecided"


def test_a_loss_from_too_low_a_start_says_nothing():
    low = Measured(90.0, 89.4, 90.6)
    assert loss_verdict(Measured(0.0, -0.9, 0.9), 1.09, low, 92.7) == "undecided"
    assert loss_verdict(Measured(26.0, 20.0, 31.0), 1.09, low, 92.7) == "undecided"


def test_a_setting_that_decides_makes_a_claim_not_reproducible():
    assert setting_verdict(["fails", "undecided", "holds"]) == UNSTATED
    assert setting_verdict(["fails", "fails"]) == "fails"
    assert setting_verdict(["holds", "undecided"]) == "undecided"


def test_learning_rates_with_momentum_counted():
    assert rates_verdict([8.0, 16.0], [8.0, 4.0]) == "holds with change"  # one tie
    assert rates_verdict([8.0, 16.0], [9.0, 4.0]) == "undecided"  # one below
    assert rates_verdict([8.0, 8.0], [4.0, 4.0]) == "undecided"  # no dependence on the network
    assert rates_verdict([4.0, 4.0], [4.0, 4.0]) == "fails"


def test_percentile_counts_ties_by_half():
    assert percentile(2.0, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(37.5)
    assert percentile(9.0, np.array([1.0, 2.0])) == 100


def test_draws_needed():
    assert draws_needed(np.array([0.5, 0.7, 0.8]), 0.7) == 2
    assert draws_needed(np.array([0.5, 0.7, 0.8]), 0.9) == "more than 3"
