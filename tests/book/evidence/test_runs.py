"""Kept runs: one key for one job, whole lines or none, and nothing is computed where it is read."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from book.evidence import execution, machines, plans, replay, runs
from dplib import files
from dplib.checks import ParameterError
from tests import run_toys
from tests.conftest import ROOT

train = run_toys.train


@pytest.fixture(autouse=True)
def folder(run_folder):
    return run_folder


def jobs(count, **more):
    return [{"size": 1, "seed": seed, **more} for seed in range(count)]


def kept(folder):
    return (folder / "kept" / "toy.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_one_job_has_one_form():
    full = runs.job_of(train, {"size": 1, "seed": 3.0})
    assert full == runs.job_of(train, {"seed": np.int64(3), "size": np.float32(1), "steps": 5, "scheme": "plain"})
    assert json.dumps(full).startswith('{"bounds": null, "dataset": "digits", "limit": null, "scheme": "plain", ')
    assert (type(full["size"]), type(full["seed"])) == (float, int)
    assert "device" not in full
    listed = runs.job_of(train, {"size": 1, "seed": 0, "bounds": (1, np.float64(2)), "weights": {"b": 1, "a": 2}})
    assert json.dumps([listed["bounds"], listed["weights"]]) == '[[1.0, 2.0], {"a": 2.0, "b": 1.0}]'
    assert runs.changed(train, listed) == {
        "bounds": [1.0, 2.0],
        "seed": 0,
        "size": 1.0,
        "weights": {"a": 2.0, "b": 1.0},
    }


def test_infinities_are_stored_as_text_and_given_as_numbers():
    job = {"size": 1, "seed": 0, "limit": np.inf, "bounds": [-np.inf, 1]}
    full = runs.job_of(train, job)
    assert (full["limit"], full["bounds"]) == ("inf", ["-inf", 1.0])
    assert runs.job_of(train, full) == full
    assert runs.make(train, [job])[0]["given"] == {"limit": "inf", "bounds": "[-inf, 1.0]", "weights": "None"}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"size": np.nan, "seed": 0}, "toy: size = nan is not allowed: a job holds plain values"),
        ({"size": 1, "seed": 0, "bounds": [1, np.nan]}, "toy: bounds = nan"),
        ({"size": 1, "seed": 0, "scheme": Path()}, "toy: scheme = .*Path.* is not allowed: a job holds plain values"),
        ({"size": "1e-5", "seed": 0}, "toy: size = '1e-5' is not allowed: it must be a number"),
        ({"size": 1, "sead": 0}, r"sead is not a parameter of experiment toy \(did you mean seed\?\): it has bounds, "),
        ({"size": 1, "seed": 0, "device": "cuda"}, "device is not a parameter of experiment toy"),
        ({"size": 1}, "toy: seed is missing from the job"),
        ({"size": 1, "seed": 0, "dataset": "digit"}, "dataset = 'digit' is not known .did you mean digits"),
    ],
)
def test_what_is_no_job_is_refused(job, message):
    with pytest.raises(ParameterError, match=message):
        runs.read(train, [job])


def test_read_computes_nothing_and_names_the_first_run_that_is_missing(folder):
    runs.make(train, jobs(1))
    with pytest.raises(
        runs.MissingRuns, match=r'2 run\(s\) of toy are not stored; the first is {"seed": 1, "size": 1.0}'
    ):
        runs.read(train, jobs(3))
    assert len(list((folder / "store" / "toy").iterdir())) == 1


def test_key_of_data_and_device(monkeypatch):
    job = jobs(1)[0]
    assert runs.identity(train, job)["data"] == {"digits": "embedded"}
    assert len(runs.identity(train, {**job, "dataset": "mnist"})["data"]["mnist"]) == 16
    runs.make(train, [job], device="cuda")
    assert runs.line(train, job) is None
    assert runs.read(train, [job], device="cuda")[0]["device"] == "cuda"


def test_a_line_says_how_float32_is_multiplied_and_what_the_gpu_is(monkeypatch):
    on_cpu = runs.made(train, jobs(1)[0])["made"]
    assert on_cpu["precision"] == {"matmul": "ieee", "conv": "ieee"}
    assert not {"gpu", "driver", "cuda", "cudnn", "many"} & set(on_cpu)
    monkeypatch.setattr("torch.version.cuda", "12.8")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "H100")
    monkeypatch.setattr("torch.backends.cudnn.version", lambda: 91002)
    runs.machine.cache_clear()
    on_gpu = runs.made(train, jobs(1)[0], "cuda")["made"]
    runs.machine.cache_clear()
    assert {name: on_gpu[name] for name in ("gpu", "cuda", "cudnn")} == {"gpu": "H100", "cuda": "12.8", "cudnn": 91002}
    assert isinstance(on_gpu["driver"], str)


def test_the_precision_of_a_process_is_what_pytorch_has_it_at():
    kinds, before = torch.backends.cuda.matmul, torch.backends.cuda.matmul.allow_tf32
    try:
        for allowed, said in ((True, "tf32"), (False, "ieee")):
            kinds.allow_tf32 = allowed
            assert execution.precision("cuda")["matmul"] == said
    finally:
        kinds.allow_tf32 = before


def test_a_run_on_a_gpu_takes_float32_as_it_is(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)  # as a user may have it
    seen = []

    @runs.experiment("precise", version=1, probe={})
    def precise(*, device: str = "cpu"):
        seen.append(execution.precision(device))
        return {"n": 1}

    assert execution.precision("cuda")["conv"] == "tf32"
    line = runs.made(precise, {}, "cuda")
    assert seen == [line["made"]["precision"]] == [{"matmul": "ieee", "conv": "ieee"}]
    assert execution.precision("cuda")["conv"] == "tf32"


def test_a_run_of_many_side_by_side_says_so_and_is_filed():
    job = jobs(1)[0]
    result = runs.made(train, job)["result"]
    line = runs.as_line(train, job, result, seconds=0.5, processor_seconds=0.25, many=20)
    assert (line["made"]["many"], line["made"]["seconds"]) == (20, 0.5)
    assert runs.place(line).endswith(", 20 side by side")
    runs.file(line)
    assert runs.line(train, job) == line
    assert runs.keep() == {"toy": 1}


def on_gpu(seeds, by=0.0):
    """Lines of a GPU, whose accuracies are off by so much."""
    lines = [runs.made(train, job, "cuda") for job in jobs(seeds)]
    return [{**line, "result": {**line["result"], "accuracy": line["result"]["accuracy"] + by}} for line in lines]


def test_a_gpus_run_that_is_made_twice_is_kept_as_it_was_first(folder):
    first, again = on_gpu(5), on_gpu(5, by=1e-3)
    spread = [line["result"]["accuracy"] for line in first]
    assert 1e-3 < max(spread) - min(spread) < 0.1
    runs.merge("toy", first)
    runs.file(again[0])
    assert runs.keep() == {}
    assert (runs.lines("toy"), runs.filed("toy")) == (first, [])
    runs.file(on_gpu(1, by=0.2)[0])  # farther than seeds lie apart
    with pytest.raises(runs.StoreError, match="two runs of one job differ"):
        runs.keep()
    assert runs.lines("toy") == first


def test_with_too_few_seeds_to_judge_by_the_first_of_two_runs_on_a_gpu_is_kept(folder):
    first = on_gpu(2)
    runs.merge("toy", first)
    assert runs.merge("toy", on_gpu(1, by=0.2)) == 0
    assert runs.lines("toy") == first


def test_a_readers_runs_are_made_where_they_are_not_stored(monkeypatch):
    def devices(device, seeds):
        get = runs.Maker(device, 1)
        return [one["device"] for one in get(train, jobs(seeds))], get.where()

    monkeypatch.setattr(runs, "machine", lambda device: {"processor": "P", "gpu": "G"})
    monkeypatch.setattr(runs, "has", lambda device: device == "cpu")
    assert devices("auto", 1) == (["cpu"], "These runs were made on the processor P.")
    assert not runs.device_rule().accepts("cuda")
    with pytest.raises(ParameterError, match="device = 'cuda' is not allowed: it must be auto or cpu, or cuda where"):
        runs.device_rule().check("device", "cuda")
    monkeypatch.setattr(runs, "has", lambda device: True)
    assert devices("auto", 1)[0] == ["cpu"], "what is stored is read"
    assert devices("auto", 3) == (["cuda"] * 3, "These runs were made on the GPU G.")
    assert devices("cpu", 2)[0] == ["cpu", "cpu"]
    assert devices("cuda", 1)[0] == ["cuda"]
    assert all(map(runs.device_rule().accepts, ("auto", "cpu", "cuda")))


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_are_made_once_and_kept(folder, workers):
    told = []
    lines_ = runs.make(train, jobs(3), workers=workers, done=told.append)
    assert sorted(line_["job"]["seed"] for line_ in told) == [0, 1, 2]
    again = runs.make(train, [*jobs(3), *jobs(1)], done=pytest.fail)
    assert again == [*lines_, lines_[0]]
    assert runs.filed("toy") == sorted(runs.filed("toy"), key=lambda one: runs._path(train, one["job"], "cpu"))
    assert runs.keep() == {"toy": 3}
    assert (runs.keep(), runs.filed("toy"), runs.names()) == ({}, [], ["toy"])
    assert runs.read(train, jobs(3)) == lines_
    for line in runs.lines("toy"):
        assert line["made"]["threads"] == 1
        assert {"seconds", "processor_seconds", "date", "commit", "capability", "versions"} <= set(line["made"])


def test_lines_are_read_where_they_stand_and_stay_what_they_were(folder):
    """With their texts a hundred thousand runs took a gigabyte; and somebody may keep others meanwhile."""
    runs.make(train, jobs(3))
    runs.keep()
    before, found = runs._kept("toy"), runs.lines("toy")
    runs.remove("toy", found[1:])
    assert (len(before), len(runs._kept("toy"))) == (3, 1)
    assert [machines.whole(json.loads(text), runs.KEPT) for text in before.texts()] == found
    for line in found:
        assert machines.whole(json.loads(before[runs.key_of_line(line)]), runs.KEPT) == line
    assert list(before) == [runs.key_of_line(line) for line in found]
    assert not any(isinstance(place, bytes) for place in before._places.values())


def test_the_file_is_sorted_by_the_text_of_the_job(folder):
    runs.make(train, [{"size": size, "seed": 0} for size in (10, 2, 1)])
    runs.keep()
    odd = "one\u2028two\x85three\nfour"  # what else ends a line
    runs.make(train, [{"size": 3, "seed": 0}, {"size": 1.5, "seed": 0, "scheme": odd}])
    runs.keep()
    assert runs.lines("toy")[0]["job"]["scheme"] == odd
    texts = [json.dumps(json.loads(line)["job"], sort_keys=True) for line in kept(folder)]
    assert texts == sorted(texts)
    assert len(texts) == 5


def test_equal_lines_merge_and_unequal_ones_are_refused(folder):
    runs.make(train, jobs(2))
    runs.keep()
    before = kept(folder)
    loaded = json.loads(before[0])
    assert runs.merge("toy", [{**loaded, "made": {}}]) == 0
    other = {**loaded, "result": {**loaded["result"], "accuracy": 0.5}}
    path = runs._path(train, loaded["job"], "cpu")
    files.publish(path, runs.as_text(other))
    with pytest.raises(runs.StoreError, match=r'toy.jsonl: two runs of one job differ .*"seed": 0'):
        runs.keep()
    assert kept(folder) == before
    assert path.exists()


NO_TIME = '{"experiment":"toy","job":{},"version":1,"data":{},"device":"cpu","result":{},"made":{}}'


@pytest.mark.parametrize(
    "text", ["", '{"job": {', "[]", '{"job":{},"version":1,"data":{},"device":"cpu"}', "{}", NO_TIME, "\udcff"]
)
def test_a_damaged_or_repeated_line_is_named(folder, text):
    runs.make(train, jobs(2))
    runs.keep()
    first, second = kept(folder)
    (folder / "kept" / "toy.jsonl").write_text("\n".join([first, text, ""]), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(runs.StoreError, match=r"toy.jsonl, line 2 is damaged"):
        runs.read(train, jobs(1))
    (folder / "kept" / "toy.jsonl").write_text("\n".join([first, second, first, ""]), encoding="utf-8")
    with pytest.raises(runs.StoreError, match=r'toy.jsonl, line 3 repeats the job of a line above: .*"seed": 0'):
        runs.lines("toy")


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_damaged_file_of_the_store_is_named(folder, text):
    runs.make(train, jobs(1))
    (path,) = (folder / "store" / "toy").iterdir()
    path.write_text(text)
    for use in (runs.keep, lambda: runs.read(train, jobs(1)), lambda: runs.make(train, jobs(1))):
        with pytest.raises(runs.StoreError, match=f"{path} is damaged .*: remove it"):
            use()


def test_a_run_is_not_taken_for_another(folder):
    runs.make(train, jobs(2))
    first, second = sorted((folder / "store" / "toy").iterdir())
    right = first.read_text()
    first.write_text(second.read_text())
    for use in (runs.keep, lambda: runs.read(train, jobs(2))):
        with pytest.raises(runs.StoreError, match=f"{first} holds another run than it is named for"):
            use()
    first.write_text(right)
    assert runs.keep() == {"toy": 2}


def test_a_full_disk_leaves_no_half_line(folder, monkeypatch):
    runs.make(train, jobs(1))
    runs.keep()
    before, names = kept(folder), sorted((folder / "kept").iterdir())

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(runs.RunFailed, match=r"1 of 1 runs failed: .*No space left on device"):
            runs.make(train, jobs(2))
    assert list((folder / "store" / "toy").iterdir()) == []
    runs.make(train, jobs(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for write in (runs.keep, lambda: runs.rekey(train), lambda: replay.write_probes({})):
            with pytest.raises(runs.StoreError, match="No space left"):
                write()
    assert sorted((folder / "kept").iterdir()) == names
    assert kept(folder) == before
    assert runs.keep() == {"toy": 1}


def test_nothing_is_computed_that_a_full_disk_would_lose(monkeypatch):
    made = []
    monkeypatch.setattr(runs, "made", lambda *call: made.append(call))
    monkeypatch.setattr(run_toys, "train", lambda **job: made.append(job))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most))  # bytes of a file: more is refused as on a full disk
    try:
        with pytest.raises(runs.RunFailed, match=r"5 of 5 runs failed: .*File too large"):
            runs.make(train, jobs(5))
        _, error = runs.compute_together(train, jobs(2, scheme="pair"), "cpu")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert "File too large" in str(error)
    assert made == []


def test_what_cannot_be_kept_holds_up_no_other_run(folder, monkeypatch):
    monkeypatch.setattr(runs, "UNNAMED", ("unknown",))
    runs.make(train, jobs(3))
    first, second, _ = sorted((folder / "store" / "toy").glob("*.json"))
    first.write_text(first.read_text().replace('"commit":"', '"commit":"unknown","was":"'))
    (folder / "store" / "a").mkdir()
    (folder / "store" / "a" / "a.json").write_text("{}")
    with pytest.raises(runs.StoreError, match=r"a\.json is damaged (?s:.*)1 run\(s\) of toy were made where git"):
        runs.keep()
    assert len(runs.lines("toy")) == 2
    assert first.exists()
    assert not second.exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_failing_runs_take_no_others_with_them(workers):
    bad = {"size": 1, "seed": 5, "scheme": "failing"}
    with pytest.raises(runs.RunFailed, match=r"1 of 4 runs failed: .*'failing'.*: OddError: 1.0 and 5 do not get on"):
        runs.make(train, [bad, *jobs(3)], workers=workers)
    assert len(runs.read(train, jobs(3))) == 3
    with pytest.raises(ParameterError, match="scheme = refused is not allowed"):  # before another failure
        runs.make(train, [bad, *jobs(1, scheme="refused")], workers=workers)


def test_a_killed_worker_is_a_sentence():
    with pytest.raises(runs.RunFailed, match="a worker process was killed"):
        runs.make(train, jobs(2, scheme="killed"), workers=2)


def test_results_must_be_plain_and_finite(monkeypatch):
    monkeypatch.setattr(run_toys, "RATE", np.inf)
    with pytest.raises(ParameterError, match="toy: a result must hold plain finite values or None"):
        runs.make(train, jobs(1))


def test_a_line_that_moves_between_two_looks_is_found(monkeypatch):
    lines = runs.make(train, jobs(1))
    seen = runs._filed

    def late(path):
        monkeypatch.setattr(runs, "_filed", seen)
        runs.keep()
        return seen(path)

    monkeypatch.setattr(runs, "_filed", late)
    assert runs.read(train, jobs(1)) == lines


def older(line, *names):
    return {**line, "job": {key: value for key, value in line["job"].items() if key not in names}}


def test_rekey_gives_stored_runs_a_new_argument(folder):
    lines_ = runs.make(train, jobs(3, limit=np.inf))
    runs.keep()
    old = [older(line, "steps", "scheme") for line in runs.lines("toy")]
    for line_ in runs.lines("toy"):
        runs.remove("toy", [line_])
    runs.merge("toy", old)
    with pytest.raises(runs.MissingRuns):
        runs.read(train, jobs(3, limit=np.inf))
    runs.make(train, jobs(1))
    assert runs.rekey(train) == 3
    assert runs.read(train, jobs(3, limit=np.inf)) == lines_
    assert (runs.filed("toy"), runs.rekey(train)) == ([], 0)


def test_rekey_merges_what_becomes_equal_and_refuses_what_differs(folder):
    runs.make(train, jobs(2))
    runs.keep()
    first, second = runs.lines("toy")
    runs.merge("toy", [older(first, "steps")])
    assert runs.rekey(train) == 1
    assert len(kept(folder)) == 2
    runs.merge("toy", [{**older(second, "steps"), "result": {}}])
    before = kept(folder)
    with pytest.raises(runs.StoreError, match="two runs of one job differ"):
        runs.rekey(train)
    assert kept(folder) == before
    runs.remove("toy", runs.lines("toy"))
    runs.merge("toy", [{**first, "job": {**first["job"], "gone": 1}}])
    with pytest.raises(ParameterError, match="gone is not a parameter of experiment toy"):
        runs.rekey(train)


LONG = """
import sys
from pathlib import Path
from book import __main__
from tests import run_toys

run_toys.settle(Path(sys.argv.pop()), "{module: tests.run_toys, long: {grid: {sizes: [1], seeds: 1, seconds: 600}}}")
__main__.cli()
"""


def test_however_a_make_ends_its_workers_end_with_it(tmp_path):
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
    env, ended = {**os.environ, "PYTHONPATH": str(ROOT)}, []
    words = [sys.executable, "-c", LONG, "runs", "make", "toy", "--plan", "long"]
    for one in signals:
        made = subprocess.Popen(
            [*words, str(tmp_path / one.name)],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
            # A shell's background jobs, and what they start, ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        ended.append((psutil.Process(made.pid), made))
    for one, (process, made) in zip(signals, ended, strict=True):
        while not list(tmp_path.glob(f"{one.name}/store/toy/*.lock")):  # a worker is in its run
            assert made.poll() is None, made.stderr.read()
            time.sleep(0.05)
        workers = process.children(recursive=True)
        assert workers
        made.send_signal(one)
        made.wait(timeout=120)
        assert psutil.wait_procs(workers, timeout=120)[1] == []
        assert "Traceback" not in made.stderr.read()


def test_killed_twenty_times_the_file_is_that_of_an_undisturbed_make(tmp_path, monkeypatch):
    code = [sys.executable, "-m", "tests.run_toys", str(tmp_path / "killed"), "20"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(code, env=env, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    print(done.stdout)
    assert done.returncode == 0
    run_toys.settle(tmp_path / "whole", run_toys.LASTING)
    monkeypatch.setattr(run_toys.time, "sleep", lambda seconds: None)
    runs.make(train, [one.job for one in plans.load("toy").missing()])
    runs.keep()
    files_ = [tmp_path / name / "kept" / "toy.jsonl" for name in ("killed", "whole")]
    left, right = ([json.loads(line) for line in path.read_text().splitlines()] for path in files_)
    assert len(left) == 300
    assert [{**one, "made": None} for one in left] == [{**one, "made": None} for one in right]
    assert [path for path in files_[0].parent.iterdir() if not path.match(machines.FILES)] == [files_[0]]
    assert runs.lines("toy") == [machines.whole(one, files_[1].parent) for one in right]
