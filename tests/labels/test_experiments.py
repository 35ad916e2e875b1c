import numpy as np
import pandas as pd
import pytest

from dplib import study
from dplib.labels import experiments, figures


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    training = {"epochs": 3, "batch_size": 128}
    return experiments.Lab({"digits": "x"}, "small-mlp", training, 0.6, n_train=1500)


def test_shares():
    assert experiments.shares(1, 0.6) == [1.0]
    np.testing.assert_allclose(experiments.shares(3, 0.6), [0.6, 0.2, 0.2])


def test_tuning_picks_by_randomised_labels_and_reports_what_that_loses(lab):
    choice = experiments.tune(
        lab, "digits", 2.0, rates=[0.003, 0.3], mixups=[0.0, 1.0], temperatures=[0.5, 1.0], n=1500, validation=500
    )
    assert len(choice.first) == 4
    best = choice.first.loc[choice.first["randomised"].idxmax()]
    assert (choice.learning_rate, choice.mixup) == (best["learning rate"], best["mixup"])
    assert choice.lost[0] == pytest.approx(choice.first["validation"].max() - best["validation"])
    assert choice.lost[1] >= 0
    assert choice.temperature in (0.5, 1.0)
    assert lab.choice("digits", 4.0) is lab.choice("digits", None) is choice
    assert lab.cpu_seconds > 0


def test_the_nearest_tuned_budget_decides(lab):
    lab.tuned = {("digits", 1.0): "one", ("digits", 3.0): "three"}
    assert [lab.choice("digits", e) for e in (0.1, 2.0, 2.1, 9.0, None)] == ["one", "one", "three", "three", "three"]


def test_the_comparison_has_a_row_for_each_run(lab):
    lab.tuned["digits", 1.0] = experiments.Choice(0.3, 0.0, 0.5, pd.DataFrame(), pd.DataFrame(), (0.0, 0.0))
    frame = experiments.compare(lab, "digits", [2.0, None], [1, 2], 2, curve_at=2.0)
    assert len(frame) == 2 * 3
    assert set(zip(frame["stages"], frame["epsilon"], strict=True)) == {(1, 2.0), (2, 2.0), (1, np.inf)}
    two = frame[frame["stages"] == 2]
    assert (two["mean k"] < 10).all()
    assert all(len(curves) == 2 and len(curves[0]) == 3 for curves in two["curves"])
    gain = figures.stage_gain(frame, 2, 1)
    one = frame[(frame["stages"] == 1) & (frame["epsilon"] == 2.0)].sort_values("seed")["accuracy"].to_numpy()
    assert gain["gain"][0].difference.value == pytest.approx(
        (two.sort_values("seed")["accuracy"].to_numpy() - one).mean()
    )


def test_results_keep_the_order_of_the_jobs_over_data_sets(lab, monkeypatch):
    monkeypatch.setattr(
        experiments.study,
        "run",
        lambda f, jobs, **_: [{"name": j["dataset"] + str(j["seed"]), "cpu_seconds": 1} for j in jobs],
    )
    lab.checksums = {"a": "", "b": ""}
    jobs = [{"dataset": d, "seed": s} for s in (1, 2) for d in "ab"]
    assert [r["name"] for r in lab.run(jobs, "runs")] == ["a1", "b1", "a2", "b2"]
    assert lab.cpu_seconds == 4
