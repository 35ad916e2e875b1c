"""What the chapter on architecture search records: counts by another way, and verdict rules on made-up measurements."""

import numpy as np
import pytest

from dplib import claims, search_records
from dplib.architecture_space import FCN
from dplib.models import mlp, parameter_count
from dplib.search_budgets import Search
from dplib.search_records import (
    alike,
    comparison_verdict,
    layer_parameters,
    loss_verdict,
    percentile,
    perceptron_parameters,
    possible_inputs,
    race_verdict,
    robust_verdict,
    setting_verdict,
    sign_verdict,
)
from dplib.stats import Measured, paired

CHEAP = {"paas": 20, "mgrs": 50, "rs": 200}


def compared(low, high):
    return paired(np.array([low, high, low, high]), np.zeros(4))


@pytest.mark.parametrize("hidden", [[64], [512, 64], [2048, 256, 64]])
def test_parameters_are_those_of_the_network(hidden):
    assert perceptron_parameters(64, hidden) == parameter_count(mlp([64, *hidden, 10]))
    layers = [layer_parameters(64, hidden, i) for i in range(len(hidden) + 1)]
    assert sum(layers) == perceptron_parameters(64, hidden)


def test_possible_inputs_by_trying_all():
    hidden = {tuple(n["model"]) for n in FCN.networks()}
    tried = [i for i in range(1, 200) if any(perceptron_parameters(i, h) == 9610 for h in hidden)]
    assert possible_inputs(9610) == tried
    assert 64 in tried
    assert 300 not in tried


def test_records_of_the_spaces_and_budgets_are_rows_of_the_chapter():
    rows = [*search_records.spaces(), *search_records.budgets(25)]
    assert len({row[0] for row in rows}) == len(rows) == 12 + 8
    for claim, values, verdict, because in rows:
        assert claims.get(claim).chapter == "07_architecture_search"
        assert values
        assert because
        assert verdict in claims.VERDICTS


def test_printed_lists_that_differ_fail(monkeypatch):
    space, names = search_records._ROWS["B.table12"]
    changed = type(space)({**space.entries, "blocks": (2, 4)})
    monkeypatch.setitem(search_records._ROWS, "B.table12", (changed, names))
    verdicts = {row[0]: row[2] for row in search_records.spaces()}
    assert verdicts["B.table12.blocks"] == "fails"
    assert verdicts["B.table12.filters1"] == "holds"


def test_what_is_proven_stays_below_composition_and_above_one_training():
    sure = search_records.proven()
    one, all_400 = (search_records.table_8_epsilon(Search(n)) for n in (1, 400))
    assert one == pytest.approx(2.11, abs=0.01)
    assert one < sure["rs"] < sure["mgrs"] < sure["paas"] < all_400


def test_almost_the_same_needs_narrow_intervals():
    assert alike([Measured(0.1, -0.3, 0.5), Measured(-0.5, -0.9, -0.1)])
    assert not alike([Measured(0.1, -0.3, 1.5)])


def test_the_comparison():
    near, wide, far = Measured(0.1, -0.3, 0.5), Measured(0.1, -3, 3), Measured(2, 1.2, 2.8)
    assert comparison_verdict([near], CHEAP) == "holds with change"
    assert comparison_verdict([near, wide], CHEAP) == "undecided"
    assert comparison_verdict([near, far], CHEAP) == "fails"
    assert comparison_verdict([near], {**CHEAP, "paas": 60}) == "fails"


def test_signs_and_robustness():
    up, down, open_ = compared(1, 1.2), compared(-1.2, -1), compared(-1, 1)
    assert [sign_verdict(c) for c in (up, down, open_)] == ["holds", "fails", "undecided"]
    assert [race_verdict(c, up) for c in (up, down)] == ["holds", "fails"]
    assert race_verdict(down, open_) == "undecided"  # nothing to win: both find the best
    assert robust_verdict(up, open_) == "holds"
    assert robust_verdict(open_, down) == "holds"
    assert robust_verdict(down, up) == "fails"
    assert robust_verdict(open_, open_) == "undecided"


def test_a_loss_holds_up_to_the_margin():
    assert loss_verdict(Measured(1.5, 1.2, 1.9), 1.09) == "holds"
    assert loss_verdict(Measured(3.0, 2.5, 3.5), 1.09) == "fails"
    assert loss_verdict(Measured(2.0, 1.0, 3.0), 1.09) == "undecided"


def test_a_setting_that_decides_makes_a_claim_not_reproducible():
    assert setting_verdict(["fails", "undecided", "holds"]) == "not reproducible as stated"
    assert setting_verdict(["fails", "fails"]) == "fails"
    assert setting_verdict(["holds", "undecided"]) == "undecided"


def test_percentile_counts_ties_by_half():
    assert percentile(2.0, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(37.5)
    assert percentile(9.0, np.array([1.0, 2.0])) == 100
