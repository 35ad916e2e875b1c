"""Values of chapter 11 from runs with known curves."""

import math

import numpy as np
import pytest

from dplib.screening import accounts, values

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
    one = ours(0.9)
    assert values.read(one, "accepted", 100) == pytest.approx(0.7)
    assert values.read(one, "queries", 201) == pytest.approx(0.7)
    assert values.read(one, "accepted", 550) == pytest.approx(0.75)
    assert math.isnan(values.read(one, "accepted", 10))
    assert math.isnan(values.read(one, "queries", 10_000))


def test_a_gain_at_equal_queries_pays_for_the_rejected_ones():
    pairs = [0.9, 0.92, 0.91], [0.89, 0.90, 0.90]
    a, b = [ours(e) for e in pairs[0]], [plain(e) for e in pairs[1]]
    difference = 100 * np.subtract(*pairs)
    assert values.gain(a, b).value == pytest.approx(difference.mean())
    assert values.gain(a, b, "queries").value == pytest.approx(difference.mean() - 5)
    assert values.gain(a, b, ours_column="unseen").value == pytest.approx(difference.mean() - 1)
    assert values.gain(a, b, column="loss").value == pytest.approx(-difference.mean() / 100)
    assert values.gain(a[:2], b).n == 2


def test_the_nearest_scheme_is_the_one_that_the_gain_is_smallest_over():
    arms = {"ours": [ours(0.9), ours(0.91)], "dpsgd": [plain(0.8), plain(0.8)], "auto": [plain(0.895), plain(0.9)]}
    found = values.nearest({"fashion-mnist": arms})
    assert found["nearest_fashion_mnist"] == "auto"
    assert found["gain_fashion_mnist"].value == pytest.approx(0.75)


def test_what_a_run_spent_is_the_formula_of_its_counts():
    cost = values.spent([ours(0.9), ours(0.91)])
    assert cost["queries_an_update"].value == 2
    expected = accounts.paper_epsilon(1.23, 512 / 60_000, np.array([4698, 9396]), 1e-5)
    assert [cost[k].value for k in ("epsilon_paper", "epsilon_paper_queries")] == pytest.approx(expected)
    assert cost["epsilon_pld_queries"].value < cost["epsilon_paper_queries"].value


def test_leads_count_what_is_beyond_chance():
    a = [ours(e) for e in (0.95, 0.951, 0.952)]
    b = [plain(e) for e in (0.90, 0.901, 0.9021)]
    found = values.leads(a, b, "accepted", "accuracy")
    assert found["ahead"] == found["budgets"] > 5
    assert values.leads(a, b, "accepted", "loss")["ahead"] == found["budgets"]
    worse = [ours(e) for e in (0.85, 0.851, 0.852)]
    assert values.leads(worse, b, "accepted", "accuracy") == {**found, "ahead": 0, "behind": found["budgets"]}


def test_shares_by_tenth():
    tenths = {"queries": [10, 20], "rises": [1, 10], "kept_rises": [0, 5], "rejected": [1, 5]}
    some = [{"tenths": tenths}, {"tenths": {**tenths, "rises": [3, 12]}}]
    assert values.tenths(some, "rises")["mean"].tolist() == pytest.approx([20, 55])
    assert values.tenth_shares(some, "accepted", "queries", 1).tolist() == [75, 75]
    assert values.tenth_shares(some, "kept_rises", "rises", 0).tolist() == [0, 0]


def test_what_passed_near_the_median_is_compared_within_a_run():
    chance = {"near": [4, 0, 10], "near_passed": [2, 0, 1]}
    other = {"near": [0, 0, 10], "near_passed": [0, 0, 1]}
    assert values.near_difference([{"chance": chance}, {"chance": chance}]).value == pytest.approx(-40)
    assert values.near_difference([{"chance": other}]).n == 0
    assert values.near_passed([{"chance": chance}, {"chance": other}], 2).value == pytest.approx(10)


def test_paths_are_cut_to_the_shortest_in_accepted_updates():
    paths = {
        "plain": [{"distance": [4, 3, 2, 1], "accepted": "111"}],
        "annealed": [{"distance": [4, 4, 2, 1], "accepted": "011"}],
    }
    found = values.line_distances(paths, "accepted")
    assert found["annealed"].tolist() == [[4, 2, 1]]
    assert found["plain"].tolist() == [[4, 3, 2]]
    assert values.line_distances(paths, "queries")["plain"].shape == (1, 4)
    assert values.late(np.arange(10.0)[None]).tolist() == [8.5]
