"""Values of chapter 11, from runs with known curves."""

import math

import numpy as np
import pytest

from papers.screening import annealed_value_rows

SETTING = {"noise_multiplier": 1.23, "sample_rate": 512 / 60_000}


def run(accepted, queries, accuracy, **more):
    """A run evaluated after these counts, with these accuracies."""
    curve = {"accepted": accepted, "queries": queries, "accuracy": accuracy, "loss": [1 - a for a in accuracy]}
    last = {"accepted": accepted[-1], "queries": queries[-1], "accuracy": accuracy[-1]}
    return {**SETTING, **last, "curve": {**curve, "unseen": [a - 0.01 for a in accuracy]}, **more}


def plain(end, steps=(100, 1000, 4698)):
    return run(list(steps), list(steps), [end - 0.2, end - 0.1, end])


def ours(end):
    """Twice as many queries as accepted updates, and one evaluation right after a rejection."""
    return run([50, 100, 100, 1000, 2349, 4698], [100, 200, 201, 2000, 4698, 9396],
               [end - 0.25, end - 0.2, end - 0.2, end - 0.1, end - 0.05, end])  # fmt: skip


def test_a_curve_is_read_by_either_count():
    run_ = ours(0.9)
    assert annealed_value_rows.read(run_, "accepted", 100) == pytest.approx(0.7)
    assert annealed_value_rows.read(run_, "queries", 201) == pytest.approx(0.7)
    assert annealed_value_rows.read(run_, "accepted", 550) == pytest.approx(0.75)
    assert math.isnan(annealed_value_rows.read(run_, "accepted", 10))
    assert math.isnan(annealed_value_rows.read(run_, "queries", 10_000))


def test_a_gain_at_equal_queries_pays_for_the_rejected_ones():
    pairs = [0.9, 0.92, 0.91], [0.89, 0.90, 0.90]
    a, b = [ours(e) for e in pairs[0]], [plain(e) for e in pairs[1]]
    difference = 100 * np.subtract(*pairs)
    assert annealed_value_rows.gain(a, b).value == pytest.approx(difference.mean())
    assert annealed_value_rows.gain(a, b, "queries").value == pytest.approx(difference.mean() - 5)
    assert annealed_value_rows.gain(a, b, ours_column="unseen").value == pytest.approx(difference.mean() - 1)
    assert annealed_value_rows.gain(a, b, column="loss").value == pytest.approx(-difference.mean() / 100)
    assert annealed_value_rows.gain(a[:2], b).n == 2


def test_the_nearest_scheme_is_the_one_that_the_gain_is_smallest_over():
    arms = {"ours": [ours(0.9), ours(0.91)], "dpsgd": [plain(0.8), plain(0.8)], "auto": [plain(0.895), plain(0.9)]}
    nearest_ = annealed_value_rows.nearest({"fashion-mnist": arms})
    assert nearest_["nearest_fashion_mnist"] == "auto"
    assert nearest_["gain_fashion_mnist"].value == pytest.approx(0.75)


def test_the_nearest_scheme_is_chosen_on_shared_seeds_and_measured_on_all():
    arms = {
        "ours": [ours(e) for e in (0.9, 0.91, 0.93, 0.93)],
        "tanh": [plain(e) for e in (0.895, 0.9, 0.9, 0.9)],  # nearest in the two seeds that both have, not in all four
        "auto": [plain(0.885), plain(0.9)],
    }
    nearest_ = annealed_value_rows.nearest({"mnist": arms})
    assert nearest_["nearest_mnist"] == "tanh"
    assert nearest_["gain_mnist"].n == 4
    assert nearest_["gain_mnist"].value == pytest.approx(1.875)


def test_runs_without_rises_of_the_median_size_in_either_tenth_have_no_row():
    values = {"chance": {"near": [4, 2, 5], "near_passed": [2, 1, 1]}}
    none = {"chance": {"near": [4, 2, 0], "near_passed": [2, 1, 0]}}
    assert annealed_value_rows.near_passed([values, none]).tolist() == [[50, 20]]
    assert annealed_value_rows.near_passed([none]).shape == (0, 2)
