"""The runs behind Table 3, on synthetic ratings and with few epochs."""

import numpy as np
import pytest

from dplib import study
from dplib.labels import movielens_jobs, movielens_study

COMMON = {"dataset": "synthetic-ratings"}
TRAINING = {"batch_size": 128, "learning_rate": 0.2}
WHERE = {"workers": 1, "inputs": {}}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "FOLDER", tmp_path)


def tune(seeds):
    choice = {"seeds": seeds, "validation": 400, **WHERE}
    return movielens_study.tune(COMMON, TRAINING, [2.0, None], [0.6, 0.4], [1, 3], [0.5, 2.0], **choice)


def test_tuning_takes_the_smallest_validation_error():
    tuned = tune([50])
    assert tuned[["epsilon", "stages"]].to_numpy().tolist() == [[2.0, 1], [2.0, 2], [np.inf, 1]]
    for row in tuned.itertuples():
        job = {**COMMON, "epsilon": None if np.isinf(row.epsilon) else 2.0, "seed": 50, "validation": 400}
        job["shares"] = [1.0] if row.stages == 1 else [0.6, 0.4]
        tried = {
            (epochs, t): movielens_jobs.network(
                **job, settings={**TRAINING, "epochs": epochs}, variants=[{"temperature": t}]
            )["variants"][0][-1]["evaluation"]["rmse"]
            for epochs in (1, 3)
            for t in ([1.0] if row.stages == 1 else [0.5, 2.0])
        }
        assert min(tried, key=tried.get) == (row.epochs, row.temperature)
        assert row.rmse == pytest.approx(min(tried.values()))


def test_the_report_has_every_method_and_pairs_by_seed():
    tuned = tune([50])
    table = movielens_study.report(COMMON, TRAINING, tuned, [0.6, 0.4], 3.0, seeds=[1, 2], **WHERE)
    counts = table.groupby(["epsilon", "method"]).size()
    assert (counts == 2).all()
    assert set(counts.loc[np.inf].index) == {"LP-1ST", "LP-1ST, likeliest", "biases", "constant"}
    assert set(counts.loc[2.0].index) == {
        *("LP-1ST", "LP-1ST, likeliest", "LP-1ST, unmixed", "LP-2ST", "LP-2ST, unmixed prior", "biases", "constant")
    }
    difference = movielens_study.compare(table, "LP-2ST", "LP-1ST")
    assert list(difference.index) == [2.0]
    at = table[table["epsilon"] == 2.0].set_index(["method", "seed"])["rmse"]
    expected = np.mean([at["LP-2ST", s] - at["LP-1ST", s] for s in (1, 2)])
    assert difference[2.0].difference.value == pytest.approx(expected)
    constant = movielens_jobs.simple(**COMMON, epsilon=2.0, penalty=3.0, seed=2)["constant"]
    assert at["constant", 2] == constant


def test_the_penalty_is_the_best_of_those_tried():
    best = movielens_study.tune_penalty(COMMON, seeds=[50], validation=400, **WHERE)
    errors = {
        p: movielens_jobs.simple(**COMMON, epsilon=None, penalty=p, seed=50, validation=400)["biases"]
        for p in movielens_study.PENALTIES
    }
    assert best == min(errors, key=errors.get)
