"""The parts of chapter 3's plans: which jobs they ask for, and that tuning never uses reported seeds."""

import numpy as np
import pytest

from dplib.architecture import privacy_cost_study as study
from dplib.architecture import sum_task
from dplib.checks import ParameterError

SMALL = {"size": 50, "seed": 3, "n": 2000, "batch": 200, "epochs": 2, "sgd_learning_rate": 5.0}


def test_less_budget_is_more_noise_and_a_tight_accountant_less():
    strict, loose, tight = (
        study.split_features(**SMALL, epsilon=epsilon, accountant=accountant)["noise_multiplier"]
        for epsilon, accountant in ((0.3, "paper"), (3.0, "paper"), (0.3, "pld"))
    )
    assert strict > loose
    assert strict > tight


def test_it_is_a_repeat_of_the_task_at_that_noise():
    found = study.split_features(**SMALL, epsilon=0.5)
    noise = found.pop("noise_multiplier")
    same = sum_task.repeat(**SMALL, noise_multiplier=noise, learning_rate=0.1)
    assert found["accuracy"] == same["accuracy"]
    np.testing.assert_allclose(found["distances"], same["distances"], atol=1e-5)


def test_an_unknown_accountant_is_refused():
    with pytest.raises(ParameterError, match="accountant"):
        study.split_features(**SMALL, epsilon=0.5, accountant="moments")


def test_the_rate_is_tuned_on_other_seeds_and_the_tuning_split_only():
    asked = []

    def get(function, jobs):
        asked.extend(jobs)
        return [{"score": -abs(np.log(job["learning_rate"])), "steps": 5} for job in jobs]

    found = study.stopping(
        get, dataset="digits", hidden=[8], sizes=[500, 1000], tune_size=500, rates=[0.5, 1.0, 2.0], seeds=2
    )
    assert found["tuned"].value == 1.0
    assert list(found["results"]) == [500, 1000]
    tuning = [job for job in asked if job.get("part") == "tune"]
    assert all(job["seed"] >= 1000 for job in tuning)
    assert [job["seed"] for job in asked if job not in tuning] == [0, 1, 0, 1]
    assert {job["learning_rate"] for job in asked if job not in tuning} == {1.0}
