"""Figure 4's panels: which runs stand in them, and every verdict of their rules."""

import dataclasses

import numpy as np
import pytest

from dplib import annealing_panels as figure4
from dplib import claims
from dplib.annealing_experiments import Lab
from dplib.annealing_panels import Cell
from dplib.checks import ParameterError

RATE, BATCH, HEAT, LIMIT = (claims.get(f"D.fig4{panel}").published for panel in "abcd")
WOBBLE = np.array([-0.1, 0.05, 0.0, 0.02, 0.03])


def panel(means, runs=5, spread=1.0, queries=None):
    """Runs that differ from seed to seed, and a little in how they differ between values."""
    cells = {}
    for i, (value, mean) in enumerate(means.items()):
        noise = spread * np.roll(WOBBLE, i)[:runs]
        cost = (queries or {}).get(value, 2.0) + 0.01 * np.roll(WOBBLE, i)[:runs]
        cells[value] = Cell(mean + noise - noise.mean(), cost)
    return cells


def run(accuracy, queries=20):
    return {"accuracy": accuracy, "queries": queries, "accepted": 10}


def test_the_printed_value_stands_in_every_panel_that_was_run():
    base = Cell(np.array([98.0, 98.2]), np.array([2.0, 2.1]))
    study = {("learning_rate", 0.1): [run(0.97)], ("learning_rate", 2.0): [run(0.96, 15)],
             ("rejection_limit", 20): [run(0.981, 40)]}  # fmt: skip
    printed = {"learning_rate": 0.5, "batch": 512, "rejection_limit": 10}
    found = figure4.panels(study, base, printed)
    assert {name: list(cells) for name, cells in found.items()} == {
        "learning_rate": [0.1, 0.5, 2.0],
        "rejection_limit": [10, 20],
    }
    assert found["learning_rate"][0.5] is base
    assert found["learning_rate"][2.0].accuracy == pytest.approx([96])
    assert found["rejection_limit"][20].queries == pytest.approx([4])
    assert figure4.panels({}, base, printed) == {}


def test_the_printed_value_is_read_where_the_budget_is_spent():
    lab = Lab.of("digits", epsilon=1.5, energy_size=50)
    steps = lab.job("ours", 0, epsilon=1.0)["accepted"]
    curve = {"accepted": [1, steps, 2 * steps], "queries": [1, 3 * steps, 9 * steps], "accuracy": [0.1, 0.6, 0.9]}
    one = {"noise_multiplier": 1.23, "sample_rate": 256 / 20_000, "accepted": 2 * steps, "curve": curve}
    cell = figure4.base_cell(lab, [one], 1.0)
    assert cell.accuracy == pytest.approx([60], abs=0.2)  # the budget ends within the step after this one
    assert cell.queries == pytest.approx([3], rel=0.02)
    with pytest.raises(ParameterError, match="epsilon = 3"):
        figure4.base_cell(lab, [one], 3.0)


def test_too_few_runs_or_a_smaller_budget_decide_nothing():
    three = panel({5: 98.0, 10: 98.1}, runs=3)
    assert figure4.undecided_because(three, 3.0, False) == ""
    assert "1 run a value" in figure4.undecided_because(panel({5: 98.0}, runs=1), 3.0, False)
    assert "budget is 1.5" in figure4.undecided_because(three, 1.5, False)
    assert "stand-in" in figure4.undecided_because(three, 3.0, True)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({0.1: 97, 0.5: 98, 1.5: 98.8, 2.0: 98.4}, "holds"),
        ({0.1: 93, 0.5: 98, 1.5: 98.8, 2.0: 98.4}, "holds with change"),  # from the printed rate on
        ({0.1: 97, 0.5: 98, 1.5: 98.8, 2.0: 98.78}, "holds with change"),  # the fall is not told apart
        ({0.1: 97, 0.5: 97.3, 1.5: 97.7, 2.0: 97.2}, "holds with change"),  # far from the printed 98.81
        ({0.1: 97, 0.5: 98, 1.5: 98.4, 2.0: 98.8}, "fails"),
        ({0.1: 97, 0.5: 98.5, 1.5: 98.1, 2.0: 97.8}, "fails"),
        ({0.1: 97, 0.5: 98, 1.5: 98.8, 2.0: 96}, "fails"),
        ({0.1: 97, 0.5: 98, 1.5: 98.02, 2.0: 97.5}, "undecided"),
        ({0.5: 98, 1.5: 98.8, 2.0: 98.4}, "undecided"),
        ({0.1: 97, 0.5: 98, 1.0: 98.8, 2.0: 98.4}, "undecided"),
    ],
)
def test_learning_rates(means, expected):
    still = panel({0.1: 90.0})
    assert figure4.verdict("learning_rate", panel(means), RATE, 0.5, still) == expected


def test_learning_rates_fail_only_with_momentum_and_without():
    other_way = panel({0.1: 97, 0.5: 98, 1.5: 98.4, 2.0: 98.8})
    assert figure4.verdict("learning_rate", other_way, RATE, 0.5, panel({0.1: 90.0})) == "fails"
    assert figure4.verdict("learning_rate", other_way, RATE, 0.5, panel({0.1: 97.0})) == "undecided"
    assert figure4.verdict("learning_rate", other_way, RATE, 0.5) == "undecided"


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({128: 97, 256: 98.9, 512: 98}, "holds"),
        ({256: 98.9, 512: 98, 1024: 97}, "undecided"),  # no smaller one was run
        ({128: 98.88, 256: 98.9, 512: 98}, "undecided"),
        ({256: 97, 512: 98, 1024: 95}, "fails"),
        ({512: 98, 1024: 95}, "undecided"),
    ],
)
def test_batches(means, expected):
    still = panel({256: 90.0, 512: 91.0})
    assert figure4.verdict("batch", panel(means), BATCH, 512, still) == expected


def test_batches_fail_only_with_momentum_and_without():
    worse = panel({256: 97, 512: 98})
    assert figure4.verdict("batch", worse, BATCH, 512, panel({256: 97, 512: 98})) == "fails"
    assert figure4.verdict("batch", worse, BATCH, 512, panel({256: 98, 512: 97})) == "undecided"
    assert figure4.verdict("batch", worse, BATCH, 512) == "undecided"


def test_grounds_of_batches_give_both_readings():
    text = figure4.grounds("batch", panel({256: 97, 512: 98, 1024: 96}), BATCH, panel({256: 95, 512: 94}))
    leads, without = text.split("; without momentum ")
    assert leads.startswith("Batch 256, in points: -1.0")
    assert all(f"over {batch}" in leads for batch in (512, 1024))
    assert without.startswith("1.0")
    assert "% at 256" in without
    assert figure4.grounds("batch", panel({512: 98}), BATCH).count("not run") == 3


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({1: 90, 10: 98, 100: 98.1}, "holds"),  # 1 is not above 1
        ({1: 98, 10: 98, 100: 96}, "fails"),
        ({1: 98, 10: 98, 100: 98.45}, "undecided"),
        ({1: 98, 10: 98}, "undecided"),
    ],
)
def test_temperatures(means, expected):
    assert figure4.verdict("initial_temperature", panel(means), HEAT, 10) == expected


@pytest.mark.parametrize(
    ("means", "queries", "expected"),
    [
        ({1: 95, 5: 98, 10: 98.1, 20: 98}, {5: 2, 20: 3}, "holds"),
        ({1: 95, 5: 98, 10: 98.1, 20: 98}, {}, "holds with change"),  # it is not dearer either
        ({1: 95, 5: 98, 10: 98.1, 20: 98}, {5: 3, 20: 2}, "holds with change"),
        ({5: 98, 10: 98.1, 20: 99}, {5: 2, 20: 3}, "fails"),
        ({5: 98, 10: 98.1, 20: 98.45}, {5: 2, 20: 3}, "undecided"),
    ],
)
def test_limits(means, queries, expected):
    assert figure4.verdict("rejection_limit", panel(means, queries=queries), LIMIT, 10) == expected


def test_what_the_ledger_and_the_table_show():
    limits = panel({5: 98.0, 10: 98.1, 20: 98.0}, queries={5: 2.0, 10: 2.2, 20: 2.5})
    found = figure4.values("rejection_limit", limits, 10)
    assert found["rejection_limit_20"].value == pytest.approx(98)
    assert found["rejection_limit_20_less_printed"].value == pytest.approx(-0.1)
    assert found["queries_an_accepted_update_mu0_10"].value == pytest.approx(2.2)
    assert "rejection_limit_10_less_printed" not in found
    assert figure4.dearer(limits).value == pytest.approx(0.5)
    assert figure4.dearer(panel({5: 98.0, 10: 98.1}, runs=2)) is None
    shown = figure4.table({"rejection_limit": limits}, {"rejection_limit": 10})
    assert list(shown["value"]) == ["5", "10 (Table 1)", "20"]
    assert shown["less that of Table 1"][1] == ""
    assert "5 run(s) a value" in figure4.words({"rejection_limit": limits}, 3.0)
    assert "5, 3 runs a value" in figure4.words({"a": limits, "b": panel({5: 98.0}, runs=3)}, 3.0)
    assert "no interval" in figure4.words({"a": panel({5: 98.0}, runs=1)}, 3.0)
    assert figure4.words({}, 3.0) == "This was not run in this profile."


def test_the_frozen_panels_are_drawn_where_nothing_ran():
    limits = panel({5: 98.0, 10: 98.1, 20: 98.0})
    kept = {name: dataclasses.asdict(m) for name, m in figure4.values("rejection_limit", limits, 10).items()}
    found = figure4.frozen({"rejection_limit": {"values": kept}, "batch": None})
    assert [v for v, _ in found["μ₀"]] == [5, 10, 20]
    assert found["μ₀"][0][1].value == pytest.approx(98)
    assert "MNIST, 5 a value; bands: 95% intervals." in figure4.words({}, 3.0, found)
    single = {**found, "Q₀": [(1.0, figure4.measured(np.array([98.0])))]}
    assert "MNIST, 1 to 5 a value; bands: 95% intervals; a single run has none" in figure4.words({}, 3.0, single)
    assert "*" not in figure4.words({}, 3.0, found)  # the page sets it in italics
    assert "5 run(s)" in figure4.words({"rejection_limit": limits}, 3.0, found)
    assert figure4.frozen({"batch": None}) == {}


def test_the_grounds_name_what_decides():
    rates = figure4.grounds("learning_rate", panel({0.1: 96, 0.5: 98, 1.5: 98.8, 2.0: 98.4}), RATE)
    assert "at η = 0.5, 1.5, 2 of 4 values" in rates
    assert "printed 98.81" in rates
    assert "from 0.1 to 0.5 by 2.0" in rates
    assert "not run" in rates
    assert "% at 0.1." in figure4.grounds("learning_rate", panel({0.5: 98}), RATE, panel({0.1: 90.0}))
    assert "over 512" in figure4.grounds("batch", panel({256: 97, 512: 98}), BATCH)
    assert "not run" in figure4.grounds("batch", panel({512: 98, 1024: 97}), BATCH)
    heat = figure4.grounds("initial_temperature", panel({1: 98, 10: 98, 100: 98.1}), HEAT)
    assert "100 less 10: 0.10" in heat
    assert "less 1:" not in heat
    limits = figure4.grounds("rejection_limit", panel({1: 95, 5: 98, 20: 98}, queries={5: 2, 20: 3}), LIMIT)
    assert "less 1:" not in limits
    assert "20 less 5: 1.00" in limits
    assert "was not seen" not in limits
    assert "was not seen" in figure4.grounds("rejection_limit", panel({5: 98, 20: 98}), LIMIT)
