"""The runs behind the chapter on architecture search: splits, seeds, rates, and what a trainer asks for."""

import numpy as np
import pytest

from dplib import study, trainings
from dplib.architecture import search_experiments, search_jobs
from dplib.architecture.search_experiments import (
    Lab,
    Sizes,
    Trainer,
    averaged,
    outcome,
    representatives,
    searches,
    training_seed,
    with_frozen,
)
from dplib.architecture.space import FCN, rate_cell
from dplib.checks import ParameterError

COMMON = {"dataset": "digits", "features": "flat", "batch": 64, "dropout": 0.2}
RATES = dict.fromkeys(representatives([64, 32, 16], 3), 1.0)
SMALL = {"model": [16], "activation": ["relu"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)


@pytest.fixture
def trainer():
    return Trainer(Lab(COMMON, {}), {"noise_multiplier": 1.0, "steps": 3}, RATES, 0)


def test_report_and_tuning_records_do_not_overlap():
    report, tune = (search_jobs.records("digits", "flat", 1000, part) for part in search_jobs.PARTS)
    assert len(tune.y_train) + len(tune.y_valid) == len(report.y_train)
    known = {row.tobytes() for row in np.concatenate([report.x_valid, report.x_test])}
    assert not any(row.tobytes() in known for row in tune.x_valid)
    both = np.concatenate([tune.x_train, tune.x_valid])
    assert np.array_equal(np.sort(both.sum(1)), np.sort(report.x_train.sum(1)))


def test_a_split_decides_the_records_and_a_seed_does_not():
    a, b = (search_jobs.records("digits", "flat", split) for split in (0, 1))
    assert not np.array_equal(a.y_test, b.y_test)
    job = {**COMMON, **SMALL, "learning_rate": 1.0, "split_seed": 0, "steps": 3, "noise_multiplier": 1.0}
    first, again, other = (search_jobs.train(**job, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first["parameters"] == 65 * 16 + 17 * 10


def test_a_budget_becomes_the_noise_of_the_training(monkeypatch):
    monkeypatch.setattr(trainings, "noise_for", lambda *setting: sum(setting))
    job = {**COMMON, **SMALL, "learning_rate": 1.0, "split_seed": 0, "steps": 3, "seed": 0}
    found = search_jobs.train(**job, epsilon=1.5)
    assert found["noise_multiplier"] == sum((1.5, 64 / 20_000, 3, 1e-5))
    monkeypatch.undo()
    assert search_jobs.train(**job, noise_multiplier=found["noise_multiplier"]) == found
    assert search_jobs.train(**job)["noise_multiplier"] == 0


def test_tuning_runs_have_no_test_part():
    job = {**COMMON, **SMALL, "learning_rate": 1.0, "split_seed": 0, "steps": 3, "seed": 0, "part": "tune"}
    assert "test" not in search_jobs.train(**job)
    with pytest.raises(ParameterError, match="part"):
        search_jobs.train(**{**job, "part": "test"})


def test_frozen_layers_are_not_trained(trainer):
    network = {"model": [16, 8], "activation": ["relu", "relu"], "frozen": [0]}
    trainer = Trainer(trainer.lab, trainer.how, with_frozen(RATES, 3), 0)
    found = trainer([(network, 0)])[0]
    assert found["parameters"] - found["trained"] == 65 * 16


def test_seeds_differ_by_network_and_repeat():
    networks = [SMALL, {**SMALL, "activation": ["tanh"]}, {"model": [32], "activation": ["relu"]}]
    seeds = {training_seed(network, repeat) for network in networks for repeat in range(3)}
    assert len(seeds) == 9
    assert training_seed(SMALL, 0) == training_seed(dict(SMALL), 0)


def test_representatives_cover_every_kind_of_the_space():
    assert set(RATES) == {rate_cell(network) for network in FCN.networks()}
    assert all(rate_cell(network) == cell for cell, network in representatives([9, 8, 7], 3).items())


def test_rates_of_frozen_networks_are_those_of_the_others():
    rates = with_frozen({"2 layers, 1 sigmoid": 3.0}, 2)
    assert rates["2 layers, 1 sigmoid, 2 frozen"] == rates["2 layers, 1 sigmoid"] == 3.0


def test_tuning_uses_no_record_of_a_report(monkeypatch):
    seen = []

    def fake(**job):
        seen.append(job)
        return {"validation": -abs(job["learning_rate"] - 2)}

    fake.__module__, fake.__qualname__ = search_jobs.train.__module__, "fake"
    monkeypatch.setattr(search_jobs, "train", fake)
    tuned = search_experiments.tune(Lab(COMMON, {}), {"steps": 3}, [64, 32, 16], [1.0, 2.0, 4.0], 1)
    assert {t.rate for t in tuned.values()} == {2.0}
    assert {(job["part"], job["split_seed"]) for job in seen} == {("tune", search_experiments.TUNING_SPLIT)}


def test_searches_of_one_split_share_trainings(trainer):
    found = searches(FCN, trainer, Sizes(2, 2, 3, [2, 1], 0.7, 0.01), 5)
    first = [c.network for c in found["rs"].trace[:2]]
    assert [c.network for c in found["paas"].trace[:2]] == [c.network for c in found["mgrs"].trace[:2]] == first
    different = {str(c.network) for one in found.values() for c in one.trace}
    assert len(list(study.FOLDER.rglob("*.json"))) == len(different) == len(trainer.lab.spent)
    result = outcome(found["paas"], trainer, 2)
    assert result["chosen"] == 100 * found["paas"].winner.validation
    assert result["score"] == 100 * found["paas"].winner.fitness
    assert result["own"] == 100 * found["paas"].winner.result["test"]
    cleanest = max(found["paas"].trace, key=lambda c: c.validation)
    assert result["clean_pick"] == 100 * cleanest.result["test"]
    assert len(trainer.lab.spent) == len(different) + 2
    assert trainer.lab.cpu_seconds > 0


def test_outcomes_of_one_split_are_averaged():
    a = {"network": "a", "parameters": 5, "trained": 5, "fresh": 1.0}
    b = {"network": "b", "parameters": 9, "trained": 9, "fresh": 2.0}
    assert averaged([a, b]) == {**a, "fresh": 1.5}
    assert averaged([a]) == a
