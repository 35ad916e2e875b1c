"""The runs behind the chapter on annealed DP-SGD: budgets of its jobs, pairing, tuning, and reading curves."""

import numpy as np
import pytest

from dplib import annealing_accounts, annealing_experiments, annealing_jobs, study
from dplib.annealing_experiments import Lab
from dplib.checks import ParameterError

RESULT = {"curve": {"queries": [4, 9, 20], "accepted": [3, 6, 9], "accuracy": [0.5, 0.7, 0.9]}}


def lab(**named):
    return Lab.of("digits", **{"epsilon": 1.5, "points": 4, "energy_size": 50, "held": 100} | named)


def test_jobs_spend_the_budget_as_the_paper_counts():
    one = lab()
    plain, ours = one.job("dpsgd", 0), one.job("ours", 0)
    steps = annealing_accounts.steps_allowed(1.5, 1.23, 256 / 20_000, 1e-5)
    assert plain["queries"] == steps == ours["accepted"]
    assert "accepted" not in plain
    assert plain["at_accepted"] == ours["at_queries"]
    assert ours["at_accepted"][-1] == steps
    assert 2 <= len(ours["at_accepted"]) <= 4
    held = one.job("ours_held", 0, batch=512)
    assert held["held"] == 100
    assert held["accepted"] == annealing_accounts.steps_allowed(1.5, 1.23, 512 / 19_900, 1e-5)
    assert one.job("ours", 0, epsilon=1.0)["accepted"] < steps
    with pytest.raises(ParameterError, match="epsilon"):
        one.job("ours", 0, epsilon=1e-3)
    with pytest.raises(ParameterError, match="arm"):
        one.job("adam", 0)


@pytest.fixture
def recorded(monkeypatch):
    """Instead of training: accuracy is best where the learning rate is 2; every job is recorded."""
    jobs = []

    def run(function, given, **_):
        assert function is annealing_jobs.train
        jobs.extend(given)
        scores = [1 - abs(job.get("learning_rate", 0.5) - 2) / 10 + job["seed"] / 1e6 for job in given]
        return [{"accuracy": score, "cpu_seconds": 1.0} for score in scores]

    monkeypatch.setattr(study, "run", run)
    return jobs


def test_table_1_pairs_its_arms_by_seed(recorded):
    one = lab()
    found = annealing_experiments.table_1(one, [4, 5])
    assert list(found) == ["dpsgd", "dpsgd_tanh", "dpsgd_auto_s", "ours", "ours_held"]
    assert {len(results) for results in found.values()} == {2}
    assert [job["seed"] for job in recorded] == [4] * 5 + [5] * 5
    assert one.cpu_seconds == 10
    annealing_experiments.table_1(one, [4, 5])
    assert one.cpu_seconds == 10  # the same trainings


def test_tuning_uses_validation_records_and_other_seeds(recorded):
    candidates = [{"learning_rate": rate} for rate in (1.0, 2.0, 4.0)]
    found = annealing_experiments.tuned(lab(), ["dpsgd_tanh", "ours"], candidates, [0, 1], tuning_seeds=2)
    for arm in found.values():
        assert arm["chosen"] == {"learning_rate": 2.0}
        assert len(arm["tried"]) == 3
        assert len(arm["results"]) == 2
    tuning = [job for job in recorded if job["seed"] >= annealing_experiments.TUNING]
    assert len(tuning) == 2 * 3 * 2
    assert all(job["report"] == "validation" and job["held"] > 1000 for job in tuning)
    assert all(job["energy"] == "held" for job in tuning if job["scheme"] == "annealed")
    final = [job for job in recorded if job["seed"] < annealing_experiments.TUNING]
    assert [(job["scheme"], job.get("energy")) for job in final] == [("dpsgd-tanh", None)] * 2 + [
        ("annealed", "test")
    ] * 2
    assert not any("report" in job for job in final)


def test_tuning_that_chooses_table_2_takes_the_runs_of_table_1(recorded):
    one, arms = lab(), ["dpsgd_tanh", "ours"]
    annealing_experiments.table_1(one, [0, 1], arms)
    known = {repr(sorted(job.items())) for job in recorded}
    annealing_experiments.tuned(one, arms, [{}], [0, 1])
    again = [job for job in recorded[len(known) :] if job["seed"] < annealing_experiments.TUNING]
    assert len(again) == 4
    assert {repr(sorted(job.items())) for job in again} == known


def test_non_private_and_grids(recorded):
    rate, found = annealing_experiments.non_private(lab(), [0, 1, 2], [0.5, 2.0], epochs=2)
    assert rate["learning_rate"] == 2.0
    assert len(found) == 3
    grid = annealing_experiments.figure_4(lab(), {"rejection_limit": [1, None], "learning_rate": [0.1]}, [0], queries=9)
    assert set(grid) == {("rejection_limit", 1), ("rejection_limit", None), ("learning_rate", 0.1)}
    other = annealing_experiments.readings(lab(), {"no momentum": {"momentum": 0.0}}, [0])
    assert len(other["no momentum"]) == 1


def test_a_small_training_through_the_study(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    quick = {"noise_multiplier": 3.0, "batch": 2000, "learning_rate": 4.0}
    one = lab(epsilon=float(annealing_accounts.paper_epsilon(3.0, 0.1, 8, 1e-5)) + 1e-9)
    result = annealing_experiments.table_1(one, [0], ["ours"], **quick)["ours"][0]
    assert result["accepted"] == 8
    assert len(result["outcomes"]) == result["queries"] == result["curve"]["queries"][-1]
    spent = annealing_experiments.spent(one, result)
    assert one.epsilon - 1e-6 < spent["accepted"] <= one.epsilon
    assert 0 < spent["queries_pld"] < spent["queries_rdp"]


def test_reading_a_curve_by_either_count():
    at = annealing_experiments.at
    assert at(RESULT, "queries", 9) == 0.7
    assert at(RESULT, "queries", 19) == 0.7
    assert at(RESULT, "accepted", 9) == 0.9
    assert at(RESULT, "accepted", 2) is None
    means = annealing_experiments.mean_curve([RESULT, RESULT], "accepted", [2, 3, 7])
    assert np.isnan(means[0])
    assert means[1:] == pytest.approx([0.5, 0.7])


def test_smallest_epsilon():
    smallest = annealing_experiments.smallest_epsilon
    epsilons, accuracy = [1.0, 2.0, 3.0], [0.5, 0.7, 0.6]
    assert smallest(epsilons, accuracy, 0.6) == pytest.approx(1.5)
    assert smallest(epsilons, accuracy, 0.7) == pytest.approx(2.0)
    assert smallest(epsilons, accuracy, 0.4) == 1.0
    assert smallest(epsilons, accuracy, 0.8) is None
    assert smallest(epsilons, [np.nan, 0.7, 0.8], 0.6) == 2.0
