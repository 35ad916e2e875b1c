"""What is kept can be made again: probes, whole runs, and the commands that look after the store."""

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from book import __main__
from book.evidence import agreement, execution, plans, replay, runs, runs_command
from dplib.checks import ParameterError
from dplib.data.fetch import DataError
from tests import run_toys, stand_in_gpu
from tests.conftest import ROOT
from tests.dplib.test_float32 import Products
from tests.test_devices import EXPERIMENTS, ON_GPU, SMALL

train = run_toys.train


def test_probes_are_stored_of_every_experiment_and_of_no_other():
    assert set(replay.stored_probes()) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_probe_agrees_with_what_is_stored(name, tried_once, monkeypatch):
    """On the processor, without a look for a GPU. What could be faster on one takes a device, and multiplies float32 as
    it is, whoever turned TF32 on: the result is the stored one, and each product would have been whole on a GPU.
    """
    monkeypatch.setattr(plans, "experiments", lambda: {name: EXPERIMENTS[name]})
    monkeypatch.setattr("torch.cuda.is_available", lambda: pytest.fail("a run on the processor asks for a GPU"))
    memory, products = stand_in_gpu.GPU(), Products()
    torch.set_float32_matmul_precision("high" if name in ON_GPU else "highest")
    try:
        with products if name in ON_GPU else stand_in_gpu.Operations(memory):
            found = replay.probes()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert replay.changes({name: replay.stored_probes()[name]}, found) == []
    assert products.cut == []
    assert bool(memory.products["cpu"]) == (name in SMALL)


@pytest.fixture
def folder(run_folder):
    return run_folder


@pytest.fixture
def stored(folder):
    """The plan "published" but for its second wave; in the file, six lines."""
    runs.make(train, [one.job for one in plans.load("toy").missing()])
    runs.keep()
    return folder


def dplib(*words, status=0):
    """What a command says; an error is raised as it is."""
    result = CliRunner().invoke(__main__.main, ["runs", *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.output


def edited(change):
    """Change the lines of the store by a function."""
    old = runs.lines("toy")
    new = [change(json.loads(json.dumps(line))) for line in old]
    runs.remove("toy", old)
    runs.merge("toy", new)


def test_differences():
    left = {"a": [1, {"b": 2.0}], "c": "x", "d": None, "e": True}
    assert list(replay.differences(left, json.loads(json.dumps(left)))) == []
    right = {"a": [1, {"b": 2.0001}], "c": "y", "e": False, "f": 1}
    values = [(("a", 1, "b"), 2.0, 2.0001), (("c",), "x", "y"), (("e",), True, False), (("f",), None, 1)]
    assert list(replay.differences(left, right)) == values
    assert list(replay.differences(left, right, 1e-4)) == values[1:]
    assert list(replay.differences([1], [1, 2])) == [((), [1], [1, 2])]


def test_a_probe_catches_a_constant_a_stream_and_an_unraised_version(folder, monkeypatch):
    assert "toy: the probe of this version is not stored" in dplib("probe", status=1)
    dplib("probe", "--write")
    assert dplib("probe") == "1 probes agree.\n"
    for name, value in (("RATE", 0.1002), ("STREAM", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(run_toys, name, value)
            told = dplib("probe", status=1)
            assert told.startswith("toy: accuracy was 0.4"), told
            assert "What it computes has changed: raise its version, or mend it." in told
    monkeypatch.setattr(run_toys, "RATE", 0.1 * (1 + 1e-6))
    assert dplib("probe") == "1 probes agree.\n"
    monkeypatch.setattr(train, "experiment", runs.Experiment("toy", 2, ("dataset",), {"size": 3, "seed": 0}))
    assert "toy: the probe of this version is not stored" in dplib("probe", status=1)
    monkeypatch.setattr(train, "experiment", runs.Experiment("other", 1, ("dataset",), {"size": 3, "seed": 0}))
    assert "toy is stored and no plan's module has it." in dplib("probe", status=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ('{"toy": 1}', "toy = 1 is not allowed"),
        ('{"toy": {"version": 1, "job": {}}}', "toy, result is missing"),
    ],
)
def test_damaged_probes_are_one_sentence(folder, text, said):
    (folder / "kept").mkdir()
    (folder / "kept" / "probes.json").write_text(text)
    with pytest.raises(runs.StoreError, match=rf"probes.json:? {said}.* It is damaged: "):
        dplib("probe")


def test_check_makes_stored_runs_again(stored):
    told = dplib("check", "toy", "--sample", "3", "--seed", "1")
    assert told.startswith("3 of 7 stored runs, drawn with --seed 1:\n")
    assert told.count("equal to the bit") == 3
    assert told == dplib("check", "--sample", "3", "--seed", "1")
    assert dplib("check").startswith("5 of 7 stored runs, drawn with --seed ")


def test_check_catches_an_edited_line(stored):
    def change(line):
        if line["job"]["size"] == 4:
            line["result"]["curve"][3] += 1e-12
        return line

    edited(change)
    told = dplib("check", "--sample", "7", status=1)
    assert told.count("equal to the bit") == 6
    assert "DIFFERS toy seed=1000, size=4.0: curve.3 was 1.09" in told


@pytest.mark.parametrize(("by", "fine"), [(1e-6, True), (10.0, False)])
def test_at_another_commit_a_change_of_rounding_is_told_and_a_larger_one_refused(stored, by, fine):
    def change(line):
        if line["job"]["size"] == 4:
            line["made"]["commit"] = "0123456789ab"
            line["result"]["curve"][3] += by
        return line

    edited(change)
    told = dplib("check", "--sample", "7", status=0 if fine else 1)
    assert told.count("made at another commit: curve.3 was") == fine
    assert told.count("DIFFERS") == (not fine)


def test_on_another_processor_a_difference_stands_beside_the_seeds(stored):
    def change(line):
        line["made"]["capability"] = "NONE"
        line["result"]["accuracy"] += 0.01
        return line

    edited(change)
    told = dplib("check", "--sample", "7")
    assert "toy seed=0, size=1.0: made with another capability: accuracy was 0.4" in told
    assert "; over 3 seeds 0.4" in told
    assert "DIFFERS" not in told


@pytest.mark.parametrize(("by", "fine"), [(1e-3, True), (0.2, False)])
def test_check_judges_a_gpus_runs_by_the_spread_of_seeds(folder, monkeypatch, by, fine):
    monkeypatch.setattr(runs, "has", lambda device: True)
    (folder / "plans" / "toy.yml").write_text(
        "{module: tests.run_toys, published: {grid: {sizes: [1], seeds: 5, gpus: 1}}}"
    )
    runs.make(train, [one.job for one in plans.load("toy").missing()], device="cuda")
    runs.keep()

    def change(line):
        line["result"]["accuracy"] += by * (line["job"]["seed"] == 0)
        return line

    lines = runs.lines("toy")
    apart = [line["result"]["accuracy"] for line in lines]
    assert 1e-3 < max(apart) - min(apart) < 0.1
    made = runs.made
    monkeypatch.setattr(runs, "made", lambda *call: change(made(*call)))
    told = dplib("check", "--sample", "5", status=0 if fine else 1)
    assert told.count("equal to the bit") == 4
    assert told.count("as 5 seeds do") == fine
    assert told.count("DIFFERS") == (not fine)


def test_what_is_no_number_is_judged_by_the_other_seeds_too():
    def line(seed, **result):
        return {"device": "cuda", "version": 1, "job": {"seed": seed}, "result": result, "made": {}}

    seeds = [line(0, diverged=False, curve=[1, 2]), line(1, diverged=True, curve=[1]), line(2, diverged=True, curve=[])]
    for again, agrees in (
        (line(0, diverged=True, curve=[7.0]), True),
        (line(0, diverged=None, curve=[1, 2]), False),
        (line(0, diverged=False, curve=[1, 2, 3]), False),
    ):
        assert (agreement.disagreement(seeds[0], again, seeds) is None) == agrees
    assert agreement.disagreement(seeds[0], line(0, diverged=None, curve=[]), seeds[:2]) is None
    cpu = {**seeds[0], "device": "cpu"}
    assert agreement.disagreement(cpu, {**cpu, "result": {}}, [cpu]) is not None


@pytest.mark.parametrize(("kind", "status"), [(DataError, 0), (ParameterError, 1)])
def test_a_run_without_its_data_is_not_made(stored, monkeypatch, kind, status):
    def absent(*_):
        raise kind("not here.")

    monkeypatch.setattr(runs, "made", absent)
    assert dplib("check", "--sample", "2", status=status).count("not made: not here.") == 2


def test_the_sample_is_bounded_in_time_and_has_runs_of_every_experiment():
    slow = [{"experiment": "toy", "made": {"seconds": seconds}} for seconds in (100, 60, 50, 1, 500)]
    many = [{"experiment": name, "made": {"seconds": 1}} for name in [*["many"] * 100, "few", "few", "one"]]
    for seed in range(20):
        seconds = [one["made"]["seconds"] for one in replay.sample(slow, 3, 120, seed)]
        assert len(seconds) in (2, 3)
        assert sum(seconds) <= 120
        drawn = [one["experiment"] for one in replay.sample(many, 5, 120, seed)]
        assert sorted(drawn) == ["few", "few", "many", "many", "one"]


def test_the_overview(stored):
    runs.make(train, [{"size": 9, "seed": 0}])
    lines = dplib().splitlines()
    assert lines[0].split() == ["study", "plan", "stored", "missing", "core-hours", "hours", "missing"]
    assert lines[1].split()[:6] == ["toy", "published", "7", "at", "least", "1"]
    assert lines[2].split() == ["toy", "quick", "1", "0", "0.00", "0.00"]
    assert lines[4].startswith("toy: 7 lines, ")
    assert " bytes, commits " in lines[4]
    assert lines[5] == "In _build/store, for `python -m book runs keep`: 1 of toy."


def test_make_and_keep(folder):
    told = dplib("make", "toy", "--workers", "2", "--limit", "5m").splitlines()
    assert len(told) == 10
    assert told[-2:] == ["Nothing is missing.", "`python -m book runs keep` folds what was made into book/runs."]
    assert dplib("keep") == f"{folder}/kept/toy.jsonl: 8 new, 8 in all.\n"
    assert dplib("keep") == "No new runs in _build/store.\n"
    assert dplib("make", "toy", "--plan", "quick").startswith("Nothing is missing.")


def test_runs_without_a_commit_are_made_and_not_published(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "UNNAMED", ("", "unknown"))
    monkeypatch.setattr(runs, "machine", lambda _: {"commit": "unknown"})
    plan = plans.load("toy", "quick")
    runs.make(train, [one.job for one in plan.missing()])
    with pytest.raises(runs.StoreError, match=r"1 run\(s\) of toy were made where git could not tell the commit"):
        dplib("keep")
    assert (runs.names(), plan.missing()) == ([], [])


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_checkout_whose_commit_git_cannot_tell_makes_no_runs(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    assert execution.commit() == ""
    assert dplib("make", "toy", "--limit", "0s").startswith("At least")
    (tmp_path / ".git").mkdir()  # which is none
    with pytest.raises(ParameterError, match=r"git cannot tell the commit of .*, and the line of a run names it: `git"):
        dplib("make", "toy", "--limit", "0s")


@pytest.mark.skipif(not execution.commit(), reason="needs git and a checkout")
def test_the_commit_of_a_run_is_this_trees_whatever_repository_the_environment_names(tmp_path, monkeypatch):
    query = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-mx"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(query, cwd=tmp_path, check=True)
    here, told = execution.commit(), []
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert execution.commit() != here
    monkeypatch.setattr(__main__, "main", lambda **_: told.append(execution.commit()))
    __main__.cli()
    assert told == [here]


@pytest.fixture
def copied(folder, tmp_path, monkeypatch):
    """A tree that was copied from its repository, with what git says of its commit; the commit."""
    from book.evidence import sources

    root = tmp_path / "tree"
    (root / "dplib" / "inside").mkdir(parents=True)
    for name in ("dplib/__init__.py", "dplib/inside/a.py", "dplib/sets.toml", "README.md"):
        (root / name).write_text(f"{name}\n")

    def git(*words):
        names = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        return subprocess.run(
            ["git", "-C", str(root), *names, *words], capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q"), git("add", "."), git("commit", "-qm", "all")
    told = {"commit": git("rev-parse", "HEAD"), "manifest": git("ls-tree", "-r", "HEAD")}
    shutil.rmtree(root / ".git")
    (root / ".travel").mkdir()
    for name, text in told.items():
        (root / ".travel" / name).write_text(text)
    monkeypatch.setattr(execution, "ROOT", root)
    monkeypatch.setattr(sources, "PACKAGES", {"dplib": root / "dplib"})
    return root, told["commit"].strip()


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_tree_without_its_repository_is_of_the_commit_whose_code_it_has(copied, monkeypatch):
    root, commit = copied
    for name in ("README.md", "dplib/a.pyc", "dplib/runs.jsonl"):
        (root / name).write_text("no code")
    assert execution.commit() == commit[:12]
    short = [
        f"{line.split()[2]} {line.split()[3]}\n" for line in (root / ".travel" / "manifest").read_text().splitlines()
    ]
    (root / ".travel" / "manifest").write_text("".join(short))
    assert execution.commit() == commit[:12]
    (root / ".travel" / "manifest").unlink()
    monkeypatch.setenv("DPLIB_COMMIT", commit)  # a word alone is believed by nobody
    assert execution.commit() == ""


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("name", ["dplib/inside/a.py", "dplib/sets.toml", "dplib/new.py"])
def test_a_tree_with_other_code_is_of_no_commit_and_makes_no_runs(copied, name):
    root, _ = copied
    (root / name).write_text("edited\n")
    assert execution.commit() == ""
    with pytest.raises(ParameterError, match=name):
        dplib("make", "toy", "--limit", "0s")


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("said", ["main\n", "0123456789ab\n", ""])
def test_a_commit_is_named_in_full(copied, said):
    root, _ = copied
    (root / ".travel" / "commit").write_text(said)
    assert execution.commit() == ""


def test_export(stored):
    edited(lambda line: {**line, "result": {**line["result"], "mixed": line["job"]["seed"] or "none"}})
    told = dplib("export", "toy", "--to", str(stored / "out"))
    assert told.startswith("7 runs, ")
    table = pd.read_parquet(stored / "out" / "toy-published.parquet")
    text = pd.read_csv(stored / "out" / "toy-published.csv")
    assert list(table.columns) == list(text.columns)
    assert list(table.columns[:4]) == ["experiment", "version", "device", "job_bounds"]
    assert sorted(table["job_size"]) == [1, 1, 1, 2, 2, 2, 4]
    kinds = {"job_size": "Float64", "job_seed": "Int64", "job_limit": "string", "accuracy": "Float64"}
    assert {name: str(table[name].dtype) for name in kinds} == kinds
    assert set(table["mixed"]) == {"none", "1", "1000"}
    assert len(json.loads(table["curve"][0])) == 6
    assert list(text["accuracy"]) == list(table["accuracy"])
    assert {"made_threads", "made_versions", "made_seconds"} <= set(table)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "--most-seconds", "nan"), "most-seconds = nan is not allowed: it must be a number"),
        (("check", "--most-seconds", "-1"), "most-seconds = -1.0 is not allowed"),
        (("export", "toy", "--to", "/dev/null/out"), "output = /dev/null/out/toy-published.csv is not allowed: "),
    ],
)
def test_what_a_command_would_do_in_vain_is_refused(stored, words, message):
    with pytest.raises(ParameterError, match=message):
        dplib(*words)


def test_probes_that_are_damaged_are_written_anew(stored):
    replay.probes_file().write_text('{"toy": {"ver')
    with pytest.raises(runs.StoreError, match="probe --write` writes it anew"):
        dplib("probe")
    dplib("probe", "--write")
    assert dplib("probe") == "1 probes agree.\n"


def test_prune(stored):
    assert dplib("prune") == "These plans are not complete, and may reach more once they are: toy published.\n"
    runs.make(train, [*[one.job for one in plans.load("toy").missing()], {"size": 9, "seed": 0}])
    runs.keep()
    assert dplib("prune") == "no plan reaches toy seed=0, size=9.0 (version 1)\n"
    assert len(runs.lines("toy")) == 9
    assert dplib("prune", "--yes") == "removed toy seed=0, size=9.0 (version 1)\n"
    assert (dplib("prune"), len(runs.lines("toy"))) == ("", 8)


def test_prune_removes_nothing_that_a_plan_may_reach_once_it_is_complete(stored):
    """Of a part that chooses by its first runs the later ones are not reached while one of the first is missing."""
    runs.make(train, [one.job for one in plans.load("toy").missing()])
    runs.keep()
    before = runs.lines("toy")
    file = plans.PLANS / "toy.yml"
    file.write_text(file.read_text().replace("tuned: {sizes: [1, 2, 4]", "tuned: {sizes: [1, 2, 4, 8]"))
    told = dplib("prune", "--yes")
    assert "no plan reaches toy scheme=chosen" in told
    assert "removed" not in told
    assert runs.lines("toy") == before


@pytest.mark.parametrize("name", ["toy-published.csv", "toy-published.parquet"])
def test_an_export_is_written_over_what_it_wrote_and_not_over_an_edit(stored, name):
    command = ["export", "toy", "--to", str(stored / "out")]
    dplib(*command)
    edited(lambda line: {**line, "result": {**line["result"], "more": 0.1}})
    assert "was there" not in dplib(*command)  # runs that came since
    table = pd.read_parquet(stored / "out" / "toy-published.parquet")
    assert set(table["more"]) == {0.1}
    table["more"] = 7.0
    (table.to_csv if name.endswith("csv") else table.to_parquet)(stored / "out" / name, index=False)
    mine = (stored / "out" / name).read_bytes()
    assert "is toy-published-1.csv now" in dplib(*command)
    assert (stored / "out" / name.replace(".", "-1.")).read_bytes() == mine
    assert (stored / "out" / name).read_bytes() != mine
    assert "was there" not in dplib(*command)


def test_a_study_is_named_as_its_chapter_is():
    for given, named in (("8", "08"), ("08_rr_with_prior", "08"), ("09b", "09b"), ("9b", "09b"), ("99", "99")):
        assert runs_command._named(None, None, (given,)) == (named,)
    assert runs_command._named(None, None, None) is None


def test_times():
    assert [runs_command.seconds(text) for text in ("300s", "90m", "1.5h")] == [300, 5400, 5400]
    with pytest.raises(ParameterError, match=r"limit = .* such as 90m"):
        runs_command.seconds("1h30m")


DAMAGED = """
import sys
from pathlib import Path
from book import __main__
from book.evidence import runs

runs.KEPT = runs.STORE = Path(sys.argv.pop())
__main__.cli()
"""


def test_a_damaged_store_is_one_sentence(tmp_path):
    (tmp_path / "toy.jsonl").write_text("{")
    (tmp_path / "toy").mkdir()
    words = [sys.executable, "-c", DAMAGED, "runs", "keep", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {tmp_path}/toy.jsonl, line 1 is damaged (JSONDecodeError: ")
    assert done.stderr.count("\n") == 1
