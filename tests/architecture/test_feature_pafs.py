"""PAFS through filed runs: a killed search goes on where it was, and what its table holds."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dplib import objpert, study
from dplib.architecture import feature_cfs, feature_data, feature_jobs, feature_pafs, feature_scores, feature_search
from dplib.architecture.feature_search import Genetic
from dplib.checks import ParameterError

SETTINGS = {"held": 60, "search": Genetic(40, 4), "fitness_repeats": 3, "cfs": Genetic(30, 3), "draws": 50}
PLAN = feature_pafs.Plan("synthetic-recurrence", 2, "sound", **SETTINGS)

SCRIPT = """
import sys, time
from pathlib import Path
from dplib.architecture import feature_jobs, feature_pafs
from dplib import study
from dplib.architecture.feature_search import Genetic
study.FOLDER = Path(sys.argv[1])
feature_pafs.PIECE = 5
fitted = feature_jobs.fitted
feature_jobs.fitted = lambda *a: (time.sleep(0.05), fitted(*a))[1]  # slow enough to be killed on the way
plan = feature_pafs.Plan("synthetic-recurrence", 2, "sound", held=60, search=Genetic(40, 4), fitness_repeats=3,
                         cfs=Genetic(30, 3), draws=50)
feature_pafs.pafs(plan, 0, 5.0, "validation")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path / "studies")
    return tmp_path / "studies" / "measure"


def test_a_killed_search_goes_on_and_trains_nothing_twice(tmp_path, folder, monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "studies")])
    limit = time.monotonic() + 120
    while len(list(folder.glob("*.json")) if folder.exists() else []) < 6:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < limit
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    filed = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    before = sum(len(json.loads(path.read_text())["accuracy"]) for path in filed)

    trained = []
    measure = feature_jobs.fitted

    def counted(table, masks, *rest):
        trained.extend(m.tobytes() for m in masks[:: PLAN.fitness_repeats])
        return measure(table, masks, *rest)

    monkeypatch.setattr(feature_jobs, "fitted", counted)
    monkeypatch.setattr(feature_pafs, "PIECE", 5)
    found = feature_pafs.pafs(PLAN, 0, 5.0, "validation")
    assert len(trained) == len(set(trained))
    assert before + len(trained) == len(found.scores)
    assert len(trained) < len(found.scores)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in filed.items())

    trained.clear()
    again = feature_pafs.pafs(PLAN, 0, 5.0, "validation")
    assert not trained
    np.testing.assert_array_equal(again.best, found.best)
    np.testing.assert_array_equal(again.scores, found.scores)


def test_measure_is_the_mean_accuracy_on_its_part():
    table = feature_data.load("synthetic-recurrence", 1, 60)
    S = np.arange(table.d) % 3 == 0
    job = {"dataset": table.name, "split": 1, "held": 60, "part": "validation", "variant": "sound"}
    text = feature_jobs.packed(S)
    np.testing.assert_array_equal(feature_jobs.unpacked(text, table.d), S)
    exact = feature_jobs.measure(**job, epsilon=None, subsets=[text], repeats=2, seed=0)
    model = objpert.fit(
        table.x_train[:, S], table.y_train, epsilon=np.inf, norm_bound=3.0, rng=np.random.default_rng(0), device="cpu"
    )
    assert exact["accuracy"][0] == pytest.approx(model.accuracy(table.x_valid[:, S], table.y_valid)[0])
    assert exact["sd"] == [0.0]
    noisy = [
        feature_jobs.measure(**job, epsilon=2.0, subsets=[text], repeats=30, seed=s)["accuracy"] for s in (0, 0, 1)
    ]
    assert noisy[0] == noisy[1] != noisy[2]


def test_a_small_subset_gets_less_noise():
    table = feature_data.load("synthetic-recurrence", 0)
    one, every = np.arange(table.d) == 0, np.ones(table.d, dtype=bool)
    rng = np.random.default_rng(0)
    models = feature_jobs.fitted(table, np.array([one, every]), 1.0, "sound", rng)
    assert models.noise_rate[0] > models.noise_rate[1]
    assert table.norm_bound(one) == 1.0


def test_table_has_every_method_and_pairs_by_split():
    runs = feature_pafs.table(PLAN, [1.0, 20.0])
    assert len(runs) == 2 * 2 * len(feature_pafs.METHODS)
    assert runs["accuracy"].between(0, 1).all()
    sizes = runs.pivot_table(index=["split", "epsilon"], columns="method", values="size")
    assert (sizes["All"] == 43).all()
    assert (sizes["One feature"] == 1).all()
    assert (sizes["CFS-Greedy"] == sizes["CFS-GA"]).all()
    assert (sizes["Random"] == sizes["CFS-GA"]).all()
    assert feature_pafs.per_split(runs, "All", 1.0).shape == (2,)
    assert set(PLAN.spent) >= {"cfs", "search", "final"}


def test_the_two_readings_of_fitness_use_different_records(monkeypatch):
    seen = []
    monkeypatch.setattr(
        feature_pafs, "accuracies", lambda *a, part, held, **rest: seen.append((part, held)) or np.zeros(len(a[3]))
    )
    for part in feature_jobs.PARTS:
        feature_pafs.pafs(PLAN, 0, 1.0, part, settings=Genetic(4, 1))
    assert set(seen) == {("validation", 60), ("test", 0)}
    with pytest.raises(ParameterError, match="part"):
        feature_pafs.pafs(PLAN, 0, 1.0, "train")


def test_trace_counts_every_candidate():
    found = feature_search.genetic(lambda S: S.sum(axis=1), 9, Genetic(8, 2), np.random.default_rng(0))
    rows = feature_pafs.trace(found, 0.1)
    assert len(rows) == len(found.scores) == rows["subset"].nunique()
    assert rows["budget so far"].iloc[-1] == pytest.approx(0.1 * len(found.scores))
    assert rows["best so far"].is_monotonic_increasing


def test_codes_of_columns_and_attributes_hold_the_same_records():
    table = feature_data.load("synthetic-census", 0)
    codes, _ = feature_cfs.coded(table, "columns")
    assert codes.shape == (len(table.y_train), table.d + 1)
    by_attribute, sizes = feature_cfs.coded(table, "attributes")
    assert len(sizes) == len(table.attributes) + 1
    for a, name in enumerate(table.attributes):
        own = np.flatnonzero(table.attribute_of == a)
        if len(own) > 1:
            np.testing.assert_array_equal(codes[:, own].argmax(axis=1), by_attribute[:, a])
            assert sizes[a] == len(own), name
        else:
            np.testing.assert_array_equal(by_attribute[:, a], np.minimum(table.x_train[:, own[0]] * 10, 9).astype(int))
    mask = feature_cfs.as_columns(table, "attributes", [0, 1])
    assert mask.sum() == (table.attribute_of < 2).sum()
    np.testing.assert_array_equal(by_attribute[:, -1], table.y_train)


def test_private_choice_with_no_noise_is_cfs_greedy():
    table = feature_data.load("synthetic-recurrence", 0)
    relevance, redundancy = feature_scores.relevance_and_redundancy(feature_cfs.counted(table, "columns"))
    expected = feature_search.subset(feature_search.cfs_greedy(relevance, redundancy), table.d)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(feature_cfs.private_choice(table, "columns", "entropies", np.inf, rng), expected)
    alike = feature_cfs.agreement(table.name, 0, "columns", "entropies", np.inf, 2, 0)
    assert (alike["first"], alike["jaccard"], alike["merit"], alike["error"]) == (1.0, 1.0, pytest.approx(1.0), 0.0)
