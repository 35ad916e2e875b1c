"""The studies behind the chapter on label-private optimisation, in small."""

import numpy as np
import pytest

from dplib import study
from dplib.labels import theory_runs as runs

PROBLEM = {"alpha": 0.5, "kappa": 0.8, "radius": 4.0}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)


def test_slopes_and_the_worst_of_a_family():
    n = [10, 100, 1000]
    risks = np.zeros((3, len(runs.RHOS), 1, 2))
    risks[:, 3, 0] = 1 / np.sqrt(n)[:, None] * np.array([1.0, 1.1])
    (one,) = runs.worst(risks, n, [0.5])
    assert (one.rho == runs.RHOS[3]).all()
    assert one.rate == 0.5
    assert runs.slope(n, one.values).value == pytest.approx(-0.5)
    assert one.below(np.full(3, 2.0))
    assert not one.below(np.array([2.0, 2.0, 1e-3]))


def test_rates_of_both_algorithms():
    settings = [("rr", 2, 1.0), ("normal", 3, 1.0)]
    found, seconds = runs.rate_study(
        settings, delta=1e-3, dimension=8, snapshots=[32, 256], replicates=4, runs=6, seed=1
    )
    assert set(found) == set(settings)
    assert seconds > 0
    printed, exact = found["rr", 2, 1.0]
    assert printed.rate == pytest.approx(1 / 6)  # D eps / (6 K L)
    assert exact.rate == pytest.approx(2 * np.tanh(0.5))
    assert exact.values.shape == (2, 4)
    assert exact.at(1).value < exact.at(0).value


def test_dimension_hurts_only_who_protects_the_inputs():
    found, edges, _ = runs.dimension_study(
        ["rr", "dp-mean"], [2, 4096], n=256, epsilon=1.0, delta=1e-3, multiples=[0.25, 0.5, 1.0], replicates=4,
        runs=6, seed=2,
    )  # fmt: skip
    assert set(edges) == {"rr", "dp-mean"}
    assert found["rr"][1].at().value < 1.5 * found["rr"][0].at().value
    assert found["dp-mean"][1].at().value > 3 * found["dp-mean"][0].at().value


def test_sets_of_labels():
    risks, misses, _ = runs.set_study(
        4, lambda k: k / 4, epsilon=1.0, n=64, dimension=8, replicates=3, runs=4, seed=3
    )  # fmt: skip
    assert risks.shape == (4, 3)
    np.testing.assert_allclose(misses, [0.75, 0.5, 0.25, 0.0])


def test_logistic_regression_over_the_dimension():
    found, seconds = runs.logistic_study(
        [2, 30], n=60, epsilon=1.0, delta=1e-2, rates=[0.5, 1.0], steps=[2], sample_rate=0.5, problem=PROBLEM, tuning=1,
        seeds=3, seed=4,
    )  # fmt: skip
    assert seconds > 0
    for risks, chosen in found.values():
        assert risks.shape == (2, 3)
        assert (risks > 0).all()
        assert len(chosen) == 2
