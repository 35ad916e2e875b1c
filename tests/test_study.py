"""Studies: every job once, nothing lost, and a learning rate chosen by validation."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dplib import study, trainings
from dplib.checks import ParameterError

BEST = {"a": 4.0, "b": 64.0, "c": 0.01}


def noted(folder, value, fail=False, seed=0):
    """A run that leaves a trace each time it is made."""
    Path(folder, f"{value}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if fail == "refused":
        raise ParameterError(f"value = {value} is not allowed.")
    if fail:
        raise RuntimeError(f"value {value} is unlucky")
    return {"doubled": 2 * value}


def score(cell, learning_rate, seed):
    """A curve with its top at BEST, that diverges far above it."""
    ratio = learning_rate / BEST[cell]
    return {"validation": None if ratio > 8 else -abs(ratio - 1) - 0.001 * seed}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path / "studies")
    monkeypatch.setattr(study, "_source", lambda module: module)
    return tmp_path


def traces(folder):
    return sorted(path.name.split("-")[0] for path in folder.iterdir() if path.is_file())


def jobs_of(folder, values, **more):
    return [{"folder": str(folder), "value": value, **more} for value in values]


def test_results_come_in_the_order_of_the_jobs_and_equal_jobs_run_once(folder):
    results = study.run(noted, jobs_of(folder, [3, 1, 2, 1]))
    assert [one["doubled"] for one in results] == [6, 2, 4, 2]
    assert traces(folder) == ["1", "2", "3"]
    assert all(one["seconds"] > 0 and one["cpu_seconds"] >= 0 for one in results)


def test_a_second_study_makes_only_the_runs_that_are_missing(folder):
    first = study.run(noted, jobs_of(folder, [1, 2]))
    again = study.run(noted, jobs_of(folder, [1, 2, 3]))
    assert again[:2] == first
    assert traces(folder) == ["1", "2", "3"]


@pytest.mark.parametrize("changed", ["inputs", "source", "function"])
def test_what_decides_a_result_decides_where_it_is_kept(folder, monkeypatch, changed):
    study.run(noted, jobs_of(folder, [1]), inputs={"mnist": "abc"})
    if changed == "source":
        monkeypatch.setattr(study, "_source", lambda module: "another state of the modules")
    function = other if changed == "function" else noted
    study.run(function, jobs_of(folder, [1]), inputs={"mnist": "other" if changed == "inputs" else "abc"})
    assert traces(folder) == ["1", "1"]


def other(**job):
    return noted(**job)


def test_the_source_is_that_of_every_module_behind_the_function(monkeypatch):
    monkeypatch.undo()
    seen = []
    monkeypatch.setattr(study.sources, "module_files", lambda module: seen.append(module) or [Path(__file__)])
    study._source.__wrapped__("dplib.trainings")
    assert seen == ["dplib.trainings"]


def test_one_failing_run_takes_no_other_with_it(folder):
    jobs = [*jobs_of(folder, [1]), *jobs_of(folder, [2], fail=True), *jobs_of(folder, [3])]
    with pytest.raises(study.StudyError, match=r"1 of 3 runs failed: .*'value': 2.*value 2 is unlucky"):
        study.run(noted, jobs)
    assert traces(folder) == ["1", "2", "3"]
    study.run(noted, [jobs[0], jobs[2]])
    assert traces(folder) == ["1", "2", "3"]


def test_a_refused_job_is_refused_as_such(folder):
    with pytest.raises(ParameterError, match="value = 2 is not allowed"):
        study.run(noted, jobs_of(folder, [2], fail="refused"))


def test_a_job_must_be_plain(folder):
    with pytest.raises(ParameterError, match="must hold plain values"):
        study.run(noted, [{"folder": folder, "value": 1}])


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_checked(workers):
    with pytest.raises(ParameterError, match="workers"):
        study.run(noted, [], workers=workers)


def test_a_study_without_jobs_is_empty():
    assert study.run(noted, []) == []


def test_workers_agree_with_one_process():
    job = {"dataset": "digits", "features": "flat", "model": [8], "epsilon": 1.0, "learning_rate": 1.0, "batch": 64}
    jobs = [{**job, "steps": 10, "seed": seed} for seed in range(3)]
    side_by_side = study.run(trainings.train, jobs, workers=2)
    for path in study.FOLDER.rglob("*.json"):
        path.unlink()
    in_turn = study.run(trainings.train, jobs)
    took = {"seconds": None, "cpu_seconds": None}
    assert [one | took for one in side_by_side] == [one | took for one in in_turn]


KILLED = """
import sys, time
from pathlib import Path
from dplib import study, trainings

study.FOLDER = Path(sys.argv[1])
job = dict(dataset="digits", features="flat", model=[8], epsilon=None, learning_rate=0.5, batch=64, steps=20)
results = study.run(trainings.train, [dict(job, seed=seed) for seed in range(int(sys.argv[2]))], workers=2)
print([one["test"] for one in results])
"""


@pytest.mark.long
def test_a_study_that_was_killed_goes_on_where_it_was(folder):
    def start(count):
        code = [sys.executable, "-c", KILLED, str(folder / "kept"), str(count)]
        return subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    first = start(40)
    deadline = time.monotonic() + 60
    while not len(list(folder.glob("kept/train/*.json"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("kept/train/*.json")}
    assert 0 < len(kept) < 40
    assert all(json.loads(path.read_text()) for path in kept)  # whole files only
    second = start(40)
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 0
    assert len(json.loads(output)) == 40
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # none was made again


def test_each_cell_gets_the_rate_that_validates_best(folder):
    cells = [{"cell": "a"}]
    (tuned,) = study.tune(score, cells, [1.0, 4.0, 16.0], seeds=[7, 8])
    assert tuned.rate == 4.0
    assert not tuned.at_edge
    assert tuned.score == pytest.approx(-0.0075)
    assert list(tuned.tried) == [1.0, 4.0, 16.0]


def test_a_grid_grows_where_its_best_value_is_at_an_end():
    high, low = study.tune(score, [{"cell": "b"}, {"cell": "c"}], [1.0, 4.0], seeds=[1], extensions=3)
    assert high.rate == 64.0
    assert list(high.tried) == [1.0, 4.0, 16.0, 64.0, 256.0]
    assert list(low.tried) == [0.01562, 0.0625, 0.25, 1.0, 4.0]
    assert low.at_edge


def test_a_diverged_run_is_the_worst():
    (tuned,) = study.tune(score, [{"cell": "a"}], [4.0, 64.0], seeds=[1], extensions=0)
    assert tuned.rate == 4.0
    assert tuned.tried[64.0] == float("-inf")


@pytest.mark.parametrize("rates", [[1.0], [2.0, 1.0], [1.0, 1.0], [0.0, 1.0], ["1", "2"]])
def test_rates_are_checked(rates):
    with pytest.raises(ParameterError, match="rates"):
        study.tune(score, [{"cell": "a"}], rates, seeds=[1])
