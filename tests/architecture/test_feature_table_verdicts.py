"""The rules of the verdicts on Tables II and XVIII, on made-up trainings."""

import numpy as np
import pytest

from dplib.architecture import feature_table_verdicts as rows_of
from dplib.architecture import printed_budgets
from dplib.architecture.feature_tables import Trained

rng = np.random.default_rng(0)


def trained(sgd, private, rates=(80.0,), splits=12, noise=0.1):
    """Made-up runs of 2, 5 and all 9 features at ε = 1; means by size. ``rates``: of all features on validation."""
    sizes = [2, 5, 9]
    means = {**{(k, None): m for k, m in zip(sizes, sgd, strict=True)}, **dict.fromkeys([(k, 1.0) for k in sizes])}
    means |= {(k, 1.0): m for k, m in zip(sizes, private, strict=True)}
    values = {key: m + noise * rng.standard_normal(splits) for key, m in means.items()}
    scores = {key: np.array([[m, m]] * len(rates), dtype=float) for key, m in means.items()}
    scores[9, 1.0] = np.array([[r, r] for r in rates], dtype=float)
    chosen = dict.fromkeys(means, 0.1)
    tried = [0.1 * 10**i for i in range(len(rates))]
    return Trained(
        "made up", sizes, values, chosen, chosen, [], tried, scores, {1.0: 1.0, None: 0.0}, np.full(splits, 70.0), 0.0
    )


def row(size, sgd, private):
    return {"epsilon": 1.0, "n_features": size, "acc_sgd": sgd, "acc_dpsgd": private}


@pytest.mark.parametrize(
    ("printed", "verdict", "words"),
    [
        (row(5, 84, 80), "holds", ""),
        (row(5, 70, 80), "holds with change", "SGD has 84"),  # its own order, not that of DP-SGD
        (row(5, 84, 83), "holds with change", "DP-SGD has"),
        (row(2, 82, 74), "holds", ""),
    ],
)
def test_a_row_holds_or_names_its_change(printed, verdict, words):
    one = trained([82, 84, 85], [74, 80, 78])
    values, found, because = rows_of.row_verdict(printed, row("all", 85, 78), one)
    assert (found, "Changed: " in because) == (verdict, verdict == "holds with change")
    assert words in because
    assert values["gain over all, DP-SGD"].n == 12


def test_a_printed_gain_is_tested_too():
    """The cells may come out, and the gain over all features not: printed +6, here +1."""
    one = trained([82, 84, 85], [74, 78, 77])
    _, verdict, because = rows_of.row_verdict(row(5, 84, 77), row("all", 85, 71), one)
    assert verdict == "holds with change"
    assert "and not +6.00" in because
    level = trained([82, 84, 85], [74, 77, 77], noise=0.5)
    assert rows_of.gain_verdict(level, 5, 1.0, 6.0) == "undecided"
    assert rows_of.gain_verdict(one, 2, 1.0, 3.0) == "fails"
    assert rows_of.gain_verdict(one, 5, 1.0, 1.5) == "holds"
    assert rows_of.row_verdict(row(5, 84, 77), row("all", 85, 71), level)[1] == "undecided"


def test_all_features_need_another_rate_to_hold_with_change():
    printed = row("all", 85, 71)
    _, verdict, because = rows_of.row_verdict(printed, printed, trained([82, 84, 85], [74, 78, 77]))
    assert verdict == "not reproducible as stated"
    _, verdict, because = rows_of.row_verdict(printed, printed, trained([82, 84, 85], [74, 78, 77], rates=(77.0, 70.5)))
    assert verdict == "holds with change"
    assert "a learning rate of 1 has 70.5%" in because


def test_one_rate_for_all_sizes():
    one = trained([82, 84, 85], [74, 78, 77], rates=(77.0, 70.5))
    rows = {"2": row(2, 82, 74), "5": row(5, 84, 78), "all": row("all", 85, 71)}
    found = rows_of.same_rate(one, rows, 1.0)
    assert found["rate"] == 1.0
    assert found["gains"][5][0].value == pytest.approx(7.5)
    assert found["gains"][5][1] == 7
    assert rows_of.printed_sizes(rows, one) == [2, 5]


def test_all_features_with_sgd():
    better, worse = trained([80, 82, 85], [70, 70, 70]), trained([88, 82, 85], [70, 70, 70])
    flat = trained([85, 85, 85], [70, 70, 70], noise=2.0, splits=4)
    assert rows_of.all_best_with_sgd({"a": (better, [2, 5]), "b": (better, [2, 5])})[1] == "holds"
    assert rows_of.all_best_with_sgd({"a": (better, [2, 5]), "b": (worse, [2])})[1] == "holds with change"
    assert rows_of.all_best_with_sgd({"a": (worse, [2]), "b": (worse, [2])})[1] == "fails"
    assert rows_of.all_best_with_sgd({"a": (flat, [2, 5])})[1] == "undecided"


def test_signs_are_corrected():
    one = trained([82, 84, 85], [74, 78, 77])
    gains = [rows_of.subset_gain(one, k, 1.0) for k in (2, 5)]
    assert rows_of.corrected(gains) == [-1, 1]
    assert rows_of.subset_counts(one, [5], [1.0]) == {
        "cells": 1,
        "better": 1,
        "worse": 0,
        "above constant": 1,
        "below constant": 0,
    }


def test_the_printed_rows():
    assert len(rows_of.table_rows("table2")) == len(rows_of.table_rows("table18")) == 12
    assert rows_of.table_rows("table2")["eps0.014-40"]["acc_dpsgd"] == 59.35


def test_a_new_split_is_covered():
    drawn = rng.standard_normal((4000, 9))
    inside = [abs(row[0] - row[1:].mean()) <= rows_of.new_split(row[1:]) for row in drawn]
    assert abs(np.mean(inside) - 0.95) < 0.015


@pytest.mark.parametrize(
    ("published", "order", "verdict"),
    [
        (71.5, "fails", "holds"),
        (65.0, "holds", "holds with change"),
        (65.0, "fails", "fails"),
        (65.0, "undecided", "not reproducible as stated"),
        (75.0, "undecided", "undecided"),
    ],
)
def test_cell_verdict(published, order, verdict):
    assert rows_of.cell_verdict(np.array([69.9, 70.0, 70.1, 70.0]), published, order) == verdict


def test_a_wide_spread_of_splits_excuses_a_printed_value():
    assert rows_of.cell_verdict(np.array([60.0, 65.0, 70.0, 75.0, 80.0]), 62.0, "fails") == "holds"


def test_multiples_of_one_95th():
    found = rows_of.multiples([65.26, 73.68, 69.5, 66.26])
    assert found == {65.26: 62, 73.68: 70, 69.5: None, 66.26: None}


def test_printed_settings_find_the_noise_of_table_18():
    found = rows_of.printed_settings("0.0196", 22_750)
    assert found["noise"] == 100
    assert found["exact"]
    least = rows_of.printed_settings("0.00817", 22_750)
    assert not least["exact"]
    assert least["floor"] > 0.00818
    full = rows_of.printed_settings("0.236", 191)
    setting = printed_budgets.Setting(191, 191, 40, full["noise"], 1e-5)
    assert full["epsilon"] == printed_budgets.tool_epsilon(setting)
