"""Stopping steps and the curve through the budgets (paper B, Section VI-B)."""

import numpy as np
import pytest

from papers.architecture import sample_size_runs
from papers.architecture.printed_budgets import PrintedTraining, tool_epsilon

QUICK = {
    "dataset": "digits", "hidden": [32], "n": 4000, "learning_rate": 2.0, "batch": 200, "noise_multiplier": 0.5,
    "target": 0.6, "most_steps": 80,
}  # fmt: skip


def test_the_papers_accountant_is_its_tool():
    """Whose printed budgets test_printed_budgets reproduces to every digit."""
    setting = PrintedTraining(60_000, 200, 70, 2.0)
    epsilon_ = sample_size_runs.epsilon(2.0, setting.sample_rate, setting.steps, 1e-5)
    assert epsilon_ == pytest.approx(tool_epsilon(setting), rel=1e-12)


N = np.array([1e4, 2e4, 6e4, 2e5, 1e6])


def test_fit_finds_the_curve_that_made_the_data():
    assert sample_size_runs.fit(N, np.log(1.1 + 8922.4 / N)) == pytest.approx((1.1, 8922.4), rel=1e-5)
    alpha, beta = sample_size_runs.fit(N, np.log(1 + 3000 / N) * [1.2, 1.1, 1, 1, 1], least_alpha=1.0)
    assert 1 <= alpha < 1.01
    assert 3000 < beta < 4500


def test_bootstrap_covers_a_known_curve():
    rng = np.random.default_rng(0)
    values = np.log(1.2 + 5000 / N)[:, None] * rng.normal(1, 0.03, (5, 20))
    draws = sample_size_runs.bootstrap_fit(N, values, 300, rng)
    low, high = np.quantile(draws, [0.0005, 0.9995], axis=0)  # far wider than 95%: one data set, fixed seed
    assert draws.shape == (300, 2)
    assert (low < [1.2, 5000]).all()
    assert (high > [1.2, 5000]).all()


def test_least_relative_error():
    assert sample_size_runs.least_relative_error(N, np.log(1.1 + 8922.4 / N)) < 1e-6
    off = np.log(1.1 + 8922.4 / N) * [1.2, 1, 1, 1, 0.8]
    assert 0.02 < sample_size_runs.least_relative_error(N, off) < 0.2


def test_interpolated_budgets_are_those_of_the_accountant():
    steps = np.array([60.0, 85, 140])
    ours = sample_size_runs.epsilon_of_steps(2.0, 0.01, steps, 1e-5, "pld")
    exact = [sample_size_runs.epsilon(2.0, 0.01, s, 1e-5, "pld") for s in steps]
    np.testing.assert_allclose(ours, exact, rtol=1e-2)
    assert (ours < sample_size_runs.epsilon_of_steps(2.0, 0.01, steps, 1e-5)).all()


def test_steps_to_stops_at_the_first_look_above_the_target():
    result = sample_size_runs.steps_to_target(**QUICK, seed=0)
    assert result["steps"]
    assert result["steps"] % 5 == 0
    assert result["validation"] >= 0.6
    assert result["score"] == -result["steps"]
    assert result["parameters"] == 64 * 32 + 32 + 320 + 10
    assert result == sample_size_runs.steps_to_target(**QUICK, seed=0)
    # One look earlier the target had not been reached: with as few steps the run gives up below it.
    before = sample_size_runs.steps_to_target(**{**QUICK, "most_steps": result["steps"] - 5}, seed=0)
    assert before["steps"] is None
    assert before["validation"] < 0.6
    assert before["score"] < -(result["steps"] - 5)


def test_records_are_drawn_with_replacement():
    # Of n draws from n records a share 1 - 1/e is distinct, with an sd of 0.002 here: 0.015 is 7 of them.
    result = sample_size_runs.steps_to_target(**{**QUICK, "n": 20_000, "most_steps": 1}, seed=1)
    assert abs(result["distinct"] / 20_000 - (1 - np.exp(-1))) < 0.015
