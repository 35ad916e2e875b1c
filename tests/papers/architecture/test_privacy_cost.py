"""Chapter 3: what leads from runs to values, on made-up runs of known outcome; and which jobs the plans ask for."""

import numpy as np
import pytest

from papers.architecture import privacy_cost_rows, sample_size_runs
from papers.architecture import privacy_cost_runs as study
from papers.architecture.privacy_cost_runs import CLIPPED, NO_LIMIT
from tests.toys import Asked


def family(cost, widths=(8, 64), seeds=5):
    """Networks whose error is 10% without privacy and that plus cost(width, kind) with it, plus the seed's own part."""
    kinds = ("SGD", 0.1, 1.0, NO_LIMIT, CLIPPED)
    return {
        (w, k): [
            {"test": 0.9 - 0.01 * s - (0 if k == "SGD" else (1 + 1e-4 * s) * cost(w, k)) / 100, "parameters": 10 * w}
            for s in range(seeds)
        ]
        for w in widths
        for k in kinds
    }


def test_the_cost_is_paired_by_seed_and_its_slope_is_in_tenfold_parameters():
    known = family(lambda w, k: np.log10(w) * {0.1: 4, 1.0: 2}.get(k, -1))
    cost = privacy_cost_rows.cost_of_privacy(known, privacy_cost_rows.Measured(0.0, -1.0, 1.0, 5))
    slopes = cost["B.hypothesis"]
    assert slopes["points_for_ten_times_the_parameters_at_0.1"].value == pytest.approx(4, rel=1e-3)
    assert slopes["points_for_ten_times_the_parameters_at_1"].value == pytest.approx(2, rel=1e-3)
    signs = cost["B.cost-negative"]
    assert (signs["private_cells"], signs["positive"], signs["negative"]) == (4, 4, 0)
    assert signs["cost_64_units_clipping_alone"].value == pytest.approx(-np.log10(64), rel=1e-3)
    # The seeds differ by a point each, and the costs hardly: paired, nothing is left of it.
    assert cost["B.eq2"]["fall_8_units"].high - cost["B.eq2"]["fall_8_units"].low < 0.01


def task(accuracies, distances):
    """Runs of one input size, all alike, with curves by epoch."""
    return [{"accuracies": accuracies, "distances": distances, "noise_multiplier": 8.0}] * 5


def test_a_size_that_is_slower_by_an_epoch_needs_the_budget_of_an_epoch_more():
    runs = {10: task([0.5, 0.9, 0.9], [0.9, 0.2, 0.1]), 50: task([0.5, 0.7, 0.9], [0.9, 0.9, 0.9])}
    spent = privacy_cost_rows.needed(runs, "accuracy")
    q, steps = 1000 / 20_000, 20
    assert spent[10][0] == pytest.approx(float(sample_size_runs.epsilon(8.0, q, 2 * steps, 1e-5)))
    assert spent[50][0] == pytest.approx(float(sample_size_runs.epsilon(8.0, q, 3 * steps, 1e-5)))
    assert (spent[10] < spent[50]).all()
    # A curve that never gets there counts as one epoch more than was run.
    assert privacy_cost_rows.needed(runs, "nearness")[50][0] > spent[50][0]


def test_a_run_short_of_the_target_counts_as_the_most_steps():
    steps = privacy_cost_rows.stops({100: [{"steps": 40}, {"steps": None}], 1000: [{"steps": 20}, {"steps": 60}]}, 600)
    assert steps[100].tolist() == [40, 600]
    assert privacy_cost_rows.steps_at(steps, np.sqrt(1e5), 0) == pytest.approx(30)  # straight in log n
    assert privacy_cost_rows.steps_at(steps, 10, 1) == 600


def test_as_many_steps_need_as_many_records_and_more_steps_need_more():
    steps = {n: np.array([100.0]) for n in (10_000, 1_000_000)}
    twice = {n: 2 * values for n, values in steps.items()}
    assert privacy_cost_rows.increase(steps, steps, 0, 20_000) == pytest.approx(0, abs=1e-3)
    for at in ({"n": 20_000}, {"level": 0.5}):  # epsilon grows with q and with the root of the steps: some 41 per cent
        assert 20 < privacy_cost_rows.increase(steps, twice, 0, **at) < 60


def test_the_rate_is_tuned_on_other_seeds_and_the_tuning_split_only():
    get = Asked(lambda job: {"score": -abs(np.log(job["learning_rate"])), "steps": 5})
    steps_ = study.stopping(
        get, dataset="digits", hidden=[8], sizes=[500, 1000], tune_size=500, rates=[0.5, 1.0, 2.0], seeds=2
    )
    assert list(steps_) == [500, 1000]
    assert all(job["seed"] >= 1000 for job in get.tuning())
    assert [job["seed"] for job in get.reported()] == [0, 1, 0, 1]
    assert {job["learning_rate"] for job in get.reported()} == {1.0}


def test_many_repeats_are_those_of_single_runs_on_seeds_of_their_own():
    job = {"size": 50, "epsilon": 0.5, "sgd_learning_rate": 5.0}
    many = study.many_split_features(**job, seed=7, repeats=2)
    single = study.split_features(**job, seed=15)
    assert (many["accuracies"][1], many["sgd_accuracies"][1]) == (single["accuracy"], single["sgd_accuracy"])
