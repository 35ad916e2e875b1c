"""What the chapter on architecture search records without training: counts by another way, and printed budgets."""

import pytest

from dplib import claims
from dplib.architecture import search_records
from dplib.architecture.search_budgets import Search
from dplib.architecture.search_records import layer_parameters, perceptron_parameters, possible_inputs
from dplib.architecture.space import FCN
from dplib.models import mlp, parameter_count


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


def test_random_numbers_of_candidates_turn_the_order_of_budgets():
    described, drawn = search_records.proven("fixed"), search_records.proven()
    assert described["paas"] < described["mgrs"] < described["rs"]
    assert drawn["rs"] < drawn["mgrs"] < drawn["paas"]
    assert described["paas"] == drawn["paas"]


def test_printed_budgets_by_their_own_rules():
    unstated = "not reproducible as stated"
    assert search_records.printed_budgets() == {"paas": "fails", "rs": unstated, "mgrs": unstated}
    rows = {row[0]: row for row in search_records.budgets(25, numerical=22.51)}
    assert rows["B.paas-budget"][1]["epsilon_numerical"] == 22.51
    assert "22.51" in rows["B.paas-budget"][3]
    assert rows["B.paas-budget"][1]["equation_8_printed_at_least"] > 22.3
    assert rows["B.mgrs-composition"][2] == "holds with change"
