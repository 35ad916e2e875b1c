"""Grids, tables and verdict rules of the chapter on what drives the cost."""

import numpy as np
import pytest

from dplib import stats, study
from dplib.architecture import cost_drivers, cost_grids, cost_tables, cost_timing
from dplib.architecture.cost_drivers import CLIPPED, SGD
from dplib.checks import ParameterError
from dplib.stats import Comparison, Measured


def test_every_cell_gets_a_rate_of_its_own_and_paired_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    cells = {
        budget: cost_drivers.cell("digits", [8], budget, batch=256, steps=5, delta=1e-5)
        for budget in (SGD, CLIPPED, 1.0)
    }
    rates = {"sgd": [0.1, 0.5], "dp": [0.2, 1.0]}
    found = cost_drivers.measure(cells, rates, seeds=2, extensions=0)
    assert list(found) == [SGD, CLIPPED, 1.0]
    assert found[SGD].rate in rates["sgd"]
    assert {found[CLIPPED].rate, found[1.0].rate} <= set(rates["dp"])
    assert found[SGD].job["max_grad_norm"] is None
    assert [one.runs[0]["noise_multiplier"] > 0 for one in found.values()] == [False, False, True]
    assert found[1.0].values().shape == (2,)
    assert all(0 <= v <= 100 for v in found[1.0].values())
    before = len(list(tmp_path.rglob("*.json")))
    again = cost_drivers.measure(cells, rates, seeds=2, extensions=0)
    assert len(list(tmp_path.rglob("*.json"))) == before  # nothing was run again
    assert again[SGD].cpu_seconds == found[SGD].cpu_seconds


def test_a_diverged_run_counts_as_a_constant_prediction():
    run = {"test": None, "constant": 0.76, "parameters": 1, "trained": 1}
    one = cost_drivers.Outcome({"dataset": "digits"}, 1.0, {}, False, [run, run | {"test": 0.8}], 0.0)
    assert one.values().tolist() == [76.0, 80.0]
    assert one.diverged == 1


@pytest.mark.parametrize("depth", [2, 4, 12])
def test_partners_have_nearly_the_same_number_of_parameters(depth):
    deep = cost_drivers.perceptron_parameters(64, [128] * depth, 10)
    width = cost_drivers.partner_width(64, [128] * depth, 10)
    wide = cost_drivers.perceptron_parameters(64, [width], 10)
    assert abs(wide - deep) <= (64 + 10 + 1) / 2
    assert width in [
        size for kind, size in cost_drivers.ladder(64, 10, [4], [1, depth], 128, [depth]) if kind == "width"
    ]


def test_printed_regression_counts():
    assert cost_drivers.perceptron_parameters(6, [60] * 12, 1) == 40_741
    assert cost_drivers.perceptron_parameters(6, [120] * 6, 1) == 73_561


def test_pairs_must_be_rungs():
    with pytest.raises(ParameterError, match="pair_depths"):
        cost_drivers.ladder(64, 10, [4], [1, 2], 128, [3])


def test_grids_hold_what_the_tables_need():
    ladder = cost_grids.ladder_cells("digits", "flat", 64, 10, [4], [1, 4], 64, [4], 2.0, steps=1)
    assert {budget for *_, budget in ladder} == {SGD, CLIPPED, 2.0}
    assert ladder["depth", 4, "he", 2.0]["model"] == [64] * 4
    frozen = cost_grids.frozen_cells("digits", {"complex": [9, 9], "simple": [5]}, [0.1, 1.0], 0.1, steps=1)
    assert frozen["complex", 2, 0.1]["train_last"] == 2
    assert ("simple", None, 0.1) in frozen
    assert ("simple", None, 1.0) not in frozen
    messages = cost_grids.message_cells("sms", 7.0, 0.4, 9.0, "lstm-24-32", "lstm-4-16", 30, steps=10)
    assert {messages["simple, same steps", None, budget]["steps"] for budget in (SGD, 7.0)} == {10}
    assert messages["simple", None, SGD]["steps"] == 30
    patients = cost_grids.patient_cells("synthetic-patients", 0.95, [2, 6], [10], steps=1)
    assert patients[6, 10, "he", SGD]["init"] == "he"
    assert (2, 10, "he", SGD) not in patients


def compared(low, high):
    return Comparison(Measured((low + high) / 2, low, high, 5), 0.5)


@pytest.mark.parametrize(
    ("intervals", "verdict"),
    [
        ([(1, 2), (0.1, 3)], "holds"),
        ([(1, 2), (-1, 1)], "holds with change"),
        ([(1, 2), (-2, -1)], "undecided"),
        ([(-2, -1), (-1, 1)], "fails"),
        ([(-1, 1)], "undecided"),
    ],
)
def test_order_verdicts(intervals, verdict):
    comparisons = [compared(*one) for one in intervals]
    assert cost_tables.order_verdict(comparisons) == verdict
    mirrored = [compared(-high, -low) for low, high in intervals]
    assert cost_tables.order_verdict(mirrored, expected=-1) == verdict


def test_cell_verdicts():
    near, off = Measured(90.5, 90, 91, 5), Measured(70, 69, 71, 5)
    assert cost_tables.cell_verdict(near, 89, "fails") == "holds"
    assert cost_tables.cell_verdict(off, 79, "holds") == "holds with change"
    assert cost_tables.cell_verdict(off, 79, "fails") == "fails"
    assert cost_tables.cell_verdict(off, 79, "undecided") == "undecided"
    assert cost_tables.cell_verdict(off, 89, "undecided") == "not reproducible as stated"


def test_printed_ratios_run_from_19_to_37():
    ratios = cost_tables.ratio_rows()
    assert set(ratios) == set(cost_timing.NETWORKS)
    assert min(ratios.values()) == pytest.approx(19.0)
    assert max(ratios.values()) == pytest.approx(37.06, abs=0.01)


def test_best_size_and_slopes():
    rng = np.random.default_rng(0)
    curves = np.array([80.0, 90.0, 70.0]) + rng.normal(0, 0.1, (6, 3))
    best = cost_tables.bootstrap_best([10, 100, 1000], curves, rng)
    assert (best.value, best.low, best.high) == (100, 100, 100)
    assert cost_tables.slopes([10, 100, 1000], np.array([[1.0, 3.0, 5.0]])) == pytest.approx([2.0])
    assert cost_tables.explained([1.0, 2.0, 3.0], [10, 100, 1000]) == pytest.approx(1.0)


def test_one_hot_pairs_splits(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    found, facts = cost_drivers.one_hot("synthetic-census", [0.01, 10.0, None], splits=2, draws=4)
    assert found["without", 0.01].shape == (2, 4)
    assert found["one-hot", None].shape == (2, 1)
    assert facts["features"] == {"without": 7, "one-hot": 108}
    assert facts["spent"] <= 1 + 1e-9
    assert stats.mean_interval(found["one-hot", 10.0].mean(axis=1)).value > found["one-hot", 0.01].mean()


def test_timing_takes_turns_and_gives_ratios():
    found = cost_timing.slowdown(network="fcn-svhn-paw", batch=8, rounds=2, length=5, seed=0)
    assert found["dplib_ratio"] == pytest.approx(found["dplib"] / found["sgd"])
    assert all(value > 0 for value in found.values())
    with pytest.raises(ParameterError, match="network = 'lenet'"):
        cost_timing.slowdown(network="lenet", batch=8, rounds=2, length=5, seed=0)
