import pytest

from dplib import study
from dplib.labels import references


def test_cited_values_keep_their_own_budgets():
    mnist = references.cited("mnist")
    assert mnist["Confident-GNMax"] == [(1.97, 98.5)]
    assert mnist["DP-SGD (Abadi et al.)"] == [(2.0, 95.0), (8.0, 97.0)]
    assert "LP-1ST" not in mnist
    assert references.cited("fashion-mnist")["tempered sigmoid"] == [(2.7, 86.1)]
    assert references.cited("digits") == {}


@pytest.mark.parametrize(
    ("column", "value", "point"),
    [
        ("eps2", 95, (2.0, 95.0)),
        ("eps2", "98.5 (ε = 1.97)", (1.97, 98.5)),
        ("eps_inf", 98.3, None),
        ("unplaced", 82.3, None),
        ("eps2", "-", None),
    ],
)
def test_points(column, value, point):
    assert references.point(column, value) == point


def test_dpsgd_runs_at_each_budget_with_a_tuned_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    settings = {"model": [16], "features": "flat", "batch": 100, "steps": 60, "delta": 1e-5, "n_train": 2000}
    frame, seconds = references.dpsgd("digits", "x", [1.0, 8.0], [1e-4, 4.0], 2, settings)
    assert set(frame["epsilon"]) == {1.0, 8.0}
    assert (frame["rate"] == 4.0).all()
    assert frame["accuracy"].between(20, 100).all()
    assert seconds > 0
