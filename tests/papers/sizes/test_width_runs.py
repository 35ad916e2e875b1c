"""Chapter 14's runs: who is trained on, what a spread is, that tuning uses neither reported seeds nor test records."""

import numpy as np
import pytest

from dplib import accounting
from papers.sizes import public_part, width_runs
from tests.toys import Asked

SMALL = {"dataset": "digits", "width": 8, "n": 600, "steps": 20, "seed": 3}


def test_the_public_part_is_trained_on_by_nobody():
    parts_ = public_part.parts("digits", None)
    pool, public = (set(map(bytes, parts_[name][0])) for name in ("pool", "public"))
    assert len(parts_["pool"][1]) == 1122
    assert len(parts_["public"][1]) == 225
    assert len(pool & public) <= 1  # scikit-learn's digits have a pair of equal images


def test_principal_components_are_of_the_public_part():
    middle = {name: x.mean(axis=0) for name, (x, _) in public_part.parts("digits", 8).items()}
    assert np.abs(middle["public"]).max() < 1e-5
    assert np.abs(middle["pool"]).max() > 1e-3


def test_a_spread_is_the_noise_of_all_steps_in_one_weight():
    result = width_runs.training_of_width(**SMALL, epsilon=2.0, spread=0.1)
    noise = result["noise_multiplier"]
    assert accounting.epsilon(noise, 512 / 600, 20, 1e-5, "pld") == pytest.approx(2.0, rel=0.02)
    assert result["learning_rate"] * noise * 20**0.5 / 512 == pytest.approx(0.1)


def test_rate_and_steps_are_chosen_by_other_seeds_on_public_records():
    def result(job):
        score = 0.9 - 0.01 * (job["steps"] == 50) - 0.1 * abs(np.log(_rate(job) / 0.2))
        return {"validation": score, "test": 0.5 + job["seed"] / 100, "learning_rate": 1.0}

    get = Asked(result)
    by_cell = width_runs.widths(
        get, dataset="digits", sizes=[500], epsilons=[1.0, None], widths=[0, 8], steps=[50, 200],
        spreads=[0.05, 0.1, 0.2], rates=[0.1, 0.2, 0.4], seeds=2,
    )  # fmt: skip
    assert list(by_cell) == [(500, 1.0, 0), (500, 1.0, 8), (500, None, 0), (500, None, 8)]
    assert all(cell["steps"] == 200 for cell in by_cell.values())
    assert by_cell[500, 1.0, 8]["spread"] == 0.2
    assert by_cell[500, None, 8]["spread"] is None
    np.testing.assert_allclose(by_cell[500, 1.0, 8]["test"], [50, 51])
    assert {job["seed"] for job in get.jobs} == {0, 1, 1000, 1001}
    reported = [job for job in get.jobs if job["seed"] < 1000]
    assert {_rate(job) for job in reported} == {0.2}
    assert len(reported) == 8


def _rate(job):
    return job.get("spread") or job["learning_rate"]
