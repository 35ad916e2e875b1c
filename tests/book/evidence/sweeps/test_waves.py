"""Kept runs on a cluster: bundles, what a job makes of one, and waves of them through Snakemake."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from book import __main__
from book.evidence import making, plans, runs
from book.evidence.execution import RunError
from book.evidence.plans import Wanted
from book.evidence.sweeps import bundles, waves
from book.evidence.sweeps.submit import Resources
from dplib.checks import ParameterError
from tests import run_toys
from tests.book.evidence.sweeps import slurm
from tests.conftest import ROOT

train = run_toys.train
HERE = Resources(cores=2)
SLOW = "module: tests.run_toys\npublished:\n  grid: {sizes: [1], seeds: 40, seconds: 0.3}\n"
DRIVER = """
from pathlib import Path
from book.evidence import plans
from book.evidence.sweeps import waves
from book.evidence.sweeps.submit import Resources
from tests import run_toys
run_toys.settle(Path({folder!r}), {text!r})
waves.make([plans.load("toy")], Resources(), bar=False)
"""


@pytest.fixture(autouse=True)
def folder(run_folder):
    return run_folder


def wanted(count, **more):
    return [Wanted(train, runs.job_of(train, {"size": 1, "seed": seed, **more})) for seed in range(count)]


def own(folder, text):
    run_toys.settle(folder, f"module: tests.run_toys\npublished: {text}\n")
    return [plans.load("toy")]


def filed():
    return sorted((line["job"]["size"], line["job"]["seed"], line["device"]) for line in runs.filed("toy"))


def dplib(*words):
    return CliRunner().invoke(__main__.main, ["runs", *words])


@pytest.mark.parametrize(
    ("seconds", "most", "sizes"),
    [
        ([1] * 7, 3, [3, 3, 1]),
        ([2, 2, 1, 5, 1], 3, [1, 2, 1, 1]),
        ([None, None, 1, 1], 9, [1, 1, 2]),
        ([1, None, 1, 1], 9, [1, 1, 2]),
        ([0] * 35, 1, [10, 10, 10, 5]),  # even a run of no time has to be filed
        ([0, 1], 0, [1, 1]),
        ([], 9, []),
    ],
)
def test_bundles_hold_so_many_seconds(seconds, most, sizes):
    todo = wanted(len(seconds))
    found = bundles.bundled(todo, seconds, most)
    assert [len(bundle) for bundle in found] == sizes
    assert [one for bundle in found for one in bundle] == todo


def test_a_bundle_is_of_one_device():
    a, b, c = wanted(3)
    b = b._replace(device="cuda")
    assert bundles.bundled([a, b, c], [1, 1, 1], 9) == [[a, c], [b]]


def test_a_job_makes_the_runs_of_its_bundle(folder):
    work = folder / "work"
    for name in ("started", "settled", "failed"):
        (work / name).mkdir(parents=True)
    bundle = [*wanted(2), *wanted(1, scheme="failing"), *wanted(1, bounds=[float("inf")])]
    bundles.write(work / "00.json", bundle)
    (work / "settled" / "00-1").touch()  # by a try before
    assert bundles.outcome(work / "00.json", bundle) == (1, [])
    assert dplib("compute", str(work / "00.json")).exit_code == 0
    assert len(filed()) == 2
    assert runs.line(train, bundle[3].job)["result"]["given"]["bounds"] == "[inf]"
    made, failed = bundles.outcome(work / "00.json", bundle)
    assert (made, failed) == (3, [(bundle[2], "OddError: 1.0 and 0 do not get on")])


def test_a_job_whose_gpu_fails_for_good_ends_and_its_other_runs_wait_for_a_new_one(folder, monkeypatch):
    work = folder / "work"
    for name in ("started", "settled", "failed"):
        (work / name).mkdir(parents=True)
    monkeypatch.setattr(run_toys, "POISONED", set())
    bundle = [*wanted(1), *wanted(1, scheme="poisoned"), *wanted(1, scheme="other")]
    bundles.write(work / "00.json", bundle)
    assert dplib("compute", str(work / "00.json")).exit_code == 0
    made, failed = bundles.outcome(work / "00.json", bundle)
    assert (made, [run for run, _ in failed]) == (1, [bundle[1]])
    assert len(filed()) == 1


def test_the_run_that_took_its_job_with_it_is_the_first_that_is_not_settled(folder):
    for name in ("started", "settled", "failed"):
        (folder / name).mkdir()
    (folder / "started" / "00").touch()
    (folder / "settled" / "00-0").touch()
    bundle = wanted(4)
    runs.compute(*bundle[1])  # filed, and killed before it left its mark
    reason = "its job ended before it did: out of memory or time?"
    assert bundles.outcome(folder / "00.json", bundle) == (2, [(bundle[2], reason)])


def test_all_waves_through_snakemake(folder):
    told, asked = [], own(folder, "{grid: {sizes: [1], seeds: 1}, tuned: {sizes: [4], seeds: 9}}")
    assert waves.make([*asked, plans.load("toy")], HERE, said=told.append, bar=False) == 0
    # In the second wave it is known what a run takes.
    assert told == ["A wave of 2 runs in 2 jobs.", "A wave of 9 runs in 1 jobs."]
    assert len(filed()) == 11
    assert runs.filed("toy")[0]["made"]["threads"] == 1
    assert os.listdir(folder / "waves") == ["toy"]
    assert sorted(os.listdir(folder / "waves" / "toy")) == [".lock", "snakemake.log"]
    assert waves.make([plans.load("toy")], HERE, said=pytest.fail) == 0


def test_failing_runs_are_named_and_stop_no_others(folder):
    runs.compute(*wanted(1)[0])  # with it all others go into one bundle
    asked = own(folder, "{odd: {schemes: [failing, killed, a, refused]}, grid: {sizes: [2], seeds: 1}}")
    told = []
    with pytest.raises(runs.RunFailed, match=r"3 run\(s\) failed, named above; the same command tries them again"):
        waves.make(asked, HERE, said=told.append, bar=False)
    assert told == [
        "A wave of 5 runs in 1 jobs.",
        "A wave of 3 runs in 3 jobs.",
        "FAILED toy scheme=failing, seed=0, size=1.0: OddError: 1.0 and 0 do not get on",
        "FAILED toy scheme=killed, seed=0, size=1.0: its job ended before it did: it was killed by signal 9.",
        "FAILED toy scheme=refused, seed=0, size=1.0: scheme = refused is not allowed: it must be plain.",
    ]  # fmt: skip
    assert len(filed()) == 3


def test_where_nothing_begins_it_says_so(folder, monkeypatch):
    monkeypatch.setattr(train, "__module__", "tests.gone")
    with pytest.raises(RunError, match=r"None of 1 runs was begun \(ModuleNotFoundError: .*tests.gone.*snakemake.log"):
        waves.make(own(folder, "{grid: {sizes: [1], seeds: 1}}"), HERE, said=[].append, bar=False)


@pytest.mark.long
def test_a_killed_driver_leaves_no_lock_and_the_same_command_goes_on(folder):
    run_toys.settle(folder, SLOW)
    process = subprocess.Popen([sys.executable, "-c", DRIVER.format(folder=str(folder), text=SLOW)], cwd=ROOT)
    try:
        end = time.monotonic() + 120
        while len(filed()) < 2:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(ParameterError, match=rf"toy are being made by another command: process {process.pid} on"):
            waves.make([plans.load("toy")], HERE)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(filed()) < 40
    assert waves.make([plans.load("toy")], HERE, bar=False) == 0
    assert len(filed()) == 40
    assert not list((runs.STORE / "toy").glob(".*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "3"], "--jobs is not allowed with --executor local"),
        (["--mem-mb", "3"], "--mem-mb is not allowed with --executor local"),
        (["--executor", "slurm", "--workers", "3"], "--workers is not allowed with --executor slurm"),
        (["--executor", "cloud"], "executor = 'cloud' is not allowed: it must be local, slurm, kubernetes, or"),
    ],
)
def test_options_that_do_not_go_together(words, message):
    error = dplib("make", "toy", *words).exception
    assert isinstance(error, ParameterError)
    assert message in str(error)


def test_a_part_on_a_gpu(folder, monkeypatch):
    monkeypatch.setattr(runs, "has", lambda device: device == "cpu")
    both = own(folder, "{grid: {sizes: [1], seeds: 1, gpus: 1}, tuned: {sizes: [1], seeds: 1}}")
    assert [one.device for one in plans.missing(both)] == ["cuda", "cpu"]
    with pytest.raises(ParameterError, match=r"1 run\(s\) are planned with gpus: 1, and this machine has no GPU"):
        making.make(both)
    runs.make(train, [{"size": 1, "seed": 0}], device="cuda")
    assert both[0].read("grid")[1][0]["device"] == "cuda"
    assert making.make(both, said=[].append) == 0
    assert filed() == [(1, 0, "cpu"), (1, 0, "cuda"), (1, 1000, "cpu")]
    assert len(both[0].reached()) == 3
    assert dplib("check", "--sample", "9").output.startswith("2 of 3 stored runs, drawn")
    with pytest.raises(ParameterError, match="part grid: gpus = 2 is not allowed: it must be one of 0, 1"):
        own(folder, "{grid: {sizes: [1], seeds: 1, gpus: 2}}")


def test_an_experiment_of_the_processor_is_not_filed_under_a_gpu():
    @runs.experiment("plain", version=1, probe={})
    def plain(*, seed: int):
        return {"seed": seed}

    with pytest.raises(ParameterError, match="device = cuda is not allowed: plain runs on the processor"):
        runs.make(plain, [{"seed": 0}], device="cuda")
    part = plans.Part(plain, {}, "cuda")
    assert (part.on(plain), part.on(train)) == ("cpu", "cuda")


@pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())
def test_kept_runs_on_slurm(folder, monkeypatch):
    own(folder, "{grid: {sizes: [2], seeds: 1, gpus: 1}, two: {call: grid, sizes: [1], seeds: 3}}")
    runs.compute(*wanted(1)[0])
    words = ["--jobs", "3", "--mem-mb", "400", "--minutes", "7"]
    with slurm.running(folder / "slurm") as env:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, env[name])
        done = dplib("make", "toy", "--executor", str(slurm.profile(folder)), *words)
        jobs = subprocess.run(["scontrol", "show", "job"], capture_output=True, text=True, env=env, check=True).stdout
    log = folder / "waves" / "toy" / "snakemake.log"
    assert done.exit_code == 0, done.output + repr(done.exception) + (log.read_text()[-3000:] if log.exists() else "")
    assert re.findall("A wave of .*", done.output) == ["A wave of 3 runs in 2 jobs."]
    assert "Nothing is missing." in done.output
    assert filed() == [(1, 0, "cpu"), (1, 1, "cpu"), (1, 2, "cpu"), (2, 0, "cuda")]
    assert jobs.count("JobState=COMPLETED") == 2
    assert jobs.count("TresPerJob=gres:gpu:1") == 1, jobs
    for asked in ("TimeLimit=00:07:00", "MinMemoryNode=400M", "NumCPUs=1"):
        assert jobs.count(asked) == 2, jobs
