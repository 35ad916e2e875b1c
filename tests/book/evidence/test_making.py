"""Making the runs of plans: their order, their time, what fails, what is not here, and shares."""

import multiprocessing
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from book.evidence import execution, making, plans, runs, runs_command, workers
from book.evidence.making import Shard
from dplib.checks import ParameterError
from tests import run_toys
from tests.book.evidence import slurm
from tests.book.evidence.test_replay import dplib
from tests.conftest import ROOT

train = run_toys.train


@pytest.fixture(autouse=True)
def folder(run_folder):
    return run_folder


def sizes(wanted):
    return [(run.job["size"], run.job["seed"]) for run in wanted]


def stored(run):
    return runs.line(run.function, run.job, device=run.device) is not None


def quiet(text):
    pass


def test_make_goes_through_all_waves():
    told = []
    assert plans.experiments() == {"toy": train}
    assert making.make([plans.load("toy", "quick"), plans.load("toy")], workers=2, said=told.append) == 0
    assert len(told) == 8
    assert all(
        re.fullmatch(r" +0 s  toy .*seed=\d+, size=\d.0; at least \d to go(, about 0 min)?", line) for line in told
    )
    assert making.make([plans.load("toy")], said=pytest.fail) == 0


def test_make_begins_what_fits_into_its_limit(monkeypatch):
    """The order of the plan, less what would take too long; the next call goes on."""
    assert making.make([plans.load("toy")], limit=0, said=pytest.fail) == 7
    monkeypatch.setattr(making, "estimates", lambda todo: [1e6 if run.job["size"] == 1 else None for run in todo])
    assert making.make([plans.load("toy")], limit=3600, said=lambda text: None) == 3
    assert sizes(plans.load("toy").missing()) == [(1, 0), (1, 1), (1, 1000)]
    assert making.make([plans.load("toy")], said=lambda text: None) == 0


def test_a_failing_run_stops_no_other():
    text = "module: tests.run_toys\npublished: {grid: {sizes: [0, 1], seeds: 1}, tuned: {sizes: [1], seeds: 1}}\n"
    run_toys.settle(plans.PLANS.parent, text)
    told = []
    with pytest.raises(runs.RunFailed, match=r"1 run\(s\) failed; the first: toy seed=0, size=0.0: ZeroDivisionError"):
        making.make([plans.load("toy")], said=told.append)
    assert len(told) == 4
    assert sizes(plans.load("toy").missing()) == [(0, 0)]


def test_estimates_are_what_stored_runs_of_the_setting_took():
    runs.make(train, [{"size": size, "seed": 7} for size in (1, 2)])
    runs.keep()
    old = runs.lines("toy")
    runs.remove("toy", old)
    runs.merge("toy", [{**one, "made": {**one["made"], "processor_seconds": 10 * one["job"]["size"]}} for one in old])
    todo = [plans.Wanted(train, runs.job_of(train, {"size": size, "seed": 0})) for size in (1, 2, 4)]
    assert making.estimates(todo) == [10, 20, 15]
    assert making.estimates([plans.Wanted(train, {**todo[0].job, "scheme": "other"})]) == [15]
    assert making.estimates([todo[0]._replace(device="cuda")]) == [None]
    runs.make(train, [{"size": 1, "seed": 7}], device="cuda")
    assert making.estimates([todo[0]._replace(device="cuda")]) == [runs.filed("toy")[0]["made"]["seconds"]]
    assert making.left([None, 60.0], 2) == "at least 2 to go, about 0 min"


def test_a_run_of_unknown_length_begins_in_the_first_half_of_a_limit(monkeypatch):
    now = 0.0
    monkeypatch.setattr(making.time, "monotonic", lambda: now)
    run = making._Making([plans.load("toy", "quick")], making.ALL, 100.0, quiet)
    for known, now, begun in (
        (None, 49.0, True),
        (None, 51.0, False),
        (40.0, 51.0, True),
        (40.0, 53.0, False),  # an estimate is no promise
        (0.0, 99.0, True),
        (0.0, 100.0, False),
    ):
        run.todo, run.seconds = [plans.Wanted(train, runs.job_of(train, {"size": 1, "seed": 0}))], [known]
        assert (run.next() is not None) == begun, (known, now)


def test_what_the_limit_cuts_is_ended_and_said_and_what_has_ended_is_filed(folder, monkeypatch):
    (folder / "plans" / "toy.yml").write_text(
        "{module: tests.run_toys, published: {short: {call: grid, sizes: [1], seeds: 1}, "
        "long: {call: grid, sizes: [2], seeds: 1, seconds: 6000}}}"
    )
    told = []
    monkeypatch.setattr(making._Making, "left", lambda self: 0.0 if runs.filed("toy") else 0.5)
    assert making.make([plans.load("toy")], workers=2, limit=1.0, said=told.append) == 1
    assert [line["job"]["size"] for line in runs.filed("toy")] == [1]
    assert [text for text in told if "size=2.0" in text and text.startswith("ENDED by the limit")]
    assert multiprocessing.active_children() == []


def schemes(folder, names):
    (folder / "plans" / "toy.yml").write_text(
        f"{{module: tests.run_toys, published: {{train: {{seeds: 1, over: {{size: [1], scheme: [{names}]}}}}}}}}"
    )
    return [plans.load("toy")]


@pytest.mark.parametrize(("scheme", "said"), [("poisoned", "CUDA error"), ("killed", "killed")])
def test_a_process_that_cannot_go_on_is_replaced(folder, scheme, said):
    """The others run as if nothing had been; a process whose GPU has failed would fail them all."""
    wanted, told = schemes(folder, f"{scheme}, plain, other"), []
    with pytest.raises(runs.RunFailed, match=rf"1 run\(s\) failed; .*{said}"):
        making.make(wanted, said=told.append)
    assert sum(text.startswith("FAILED") for text in told) == 1
    assert len(runs.filed("toy")) == 2


def test_a_process_has_the_environment_of_its_moment(monkeypatch):
    for value in ("a", "b", None):
        monkeypatch.setenv("TOLD", value) if value else monkeypatch.delenv("TOLD")
        with workers.Workers(1, run_toys.told, int, ()) as processes:
            processes.begin(("TOLD",))
            assert processes.ended() == [(("TOLD",), value)]


def test_where_the_gpu_of_this_process_has_failed_nothing_else_is_tried(monkeypatch):
    jobs = [{"size": 1, "seed": seed, "scheme": "plain" if seed else "poisoned"} for seed in range(3)]
    monkeypatch.setattr(run_toys, "POISONED", set())
    with pytest.raises(runs.RunFailed, match=r"1 of 3 runs failed: .*CUDA error"):
        runs.make(train, jobs)
    assert runs.filed("toy") == []


def wrapped(inner, outer):
    try:
        try:
            raise inner
        except RuntimeError:
            raise outer from None
    except type(outer) as error:
        return error


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (wrapped(RuntimeError("CUDA error: device-side assert triggered"), ParameterError("refused")), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."), False),
        (RuntimeError("shapes do not match"), False),
        (ParameterError("refused"), False),
        (ValueError("CUDA error"), False),
    ],
)
def test_errors_that_a_process_does_not_get_over(error, fails):
    assert runs.gpu_failed(error) == fails


def test_runs_without_their_data_stop_no_others_and_are_tried_once(folder):
    (folder / "plans" / "toy.yml").write_text(
        "{module: tests.run_toys, published: {"
        "away: {call: train, seeds: 5, size: 1, scheme: absent, dataset: mnist}, "
        "here: {call: train, seeds: 2, size: 2}}}"
    )
    told = []
    with pytest.raises(runs.RunFailed, match=r"^5 run\(s\) without their data, mnist: mnist: it is not here."):
        making.make([plans.load("toy")], said=told.append)
    assert sum(text.startswith("FAILED") for text in told) == 1
    assert sorted((line["job"]["size"], line["job"]["seed"]) for line in runs.filed("toy")) == [(2, 0), (2, 1)]


def test_where_a_process_ends_by_itself_the_next_one_would_too(folder):
    """Such as one that cannot begin: not thousands of them, one after the other."""
    wanted, told = schemes(folder, "exits, plain"), []
    with pytest.raises(runs.RunFailed, match="status 3"):
        making.make(wanted, said=told.append)
    assert told == []


# Shares of one study


def test_shares_are_disjoint_and_together_all(folder):
    (folder / "plans" / "toy.yml").write_text("{module: tests.run_toys, published: {grid: {sizes: [1, 2], seeds: 40}}}")
    every = plans.load("toy").missing()
    for count in (1, 3, 7):
        shares = [[run for run in every if Shard(number, count).has(run)] for number in range(1, count + 1)]
        assert sorted(repr(run) for share in shares for run in share) == sorted(map(repr, every))
        assert all(shares)


def test_shares_that_know_nothing_of_each_other_make_a_plan(folder):
    """Each its own, wave by wave, into one store; the same command once more makes what the first wave chose."""
    for number in (1, 2, 3, 1, 2, 3):
        before = plans.load("toy").missing()
        dplib("make", "toy", "--shard", f"{number}/3")
        assert not [run for run in before if stored(run) != Shard(number, 3).has(run)]
    assert plans.load("toy").missing() == []
    assert "Nothing is missing." in dplib("make", "toy", "--shard", "1/3")


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "1/0", "-1/3", "a/b"])
def test_what_is_no_share_is_refused(shard):
    with pytest.raises(ParameterError, match="shard"):
        dplib("make", "toy", "--shard", shard)


PYTHON = """#!{python}
import sys
from pathlib import Path
from book import __main__
from book.evidence import plans, runs

folder = Path("{folder}")
runs.KEPT, runs.STORE, plans.PLANS = folder / "kept", folder / "store", folder / "plans"
if __name__ == "__main__":
    assert sys.argv[1:3] == ["-m", "book"]
    sys.argv[1:3] = []
    __main__.cli()
"""


@pytest.fixture
def python(folder, monkeypatch):
    """A Python whose runs and plans are those of the test."""
    path = folder / "python"
    path.write_text(PYTHON.format(python=sys.executable, folder=folder))
    path.chmod(0o755)
    monkeypatch.setenv("PYTHON", str(path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return path


ARRAY = ROOT / "book" / "cluster" / "array.sbatch"


def test_a_job_of_the_array_makes_its_share(folder, python, monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "3")
    before = plans.load("toy").missing()
    done = subprocess.run(["bash", str(ARRAY), "toy", "--limit", "1h"], capture_output=True, text=True, check=True)
    assert "still missing" in done.stdout
    assert not [run for run in before if stored(run) != Shard(2, 3).has(run)]


@pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())
def test_an_array_on_slurm_makes_a_plan(folder, python):
    """The line that the file gives, twice, for the second wave."""
    words = ["--array=1-3", "--mem=400M", f"--output={folder}/%a-%A.out", "--wait", str(ARRAY), "toy"]
    with slurm.running(folder / "slurm") as env:
        for _ in range(2):
            done = subprocess.run(["sbatch", *words], env=env, capture_output=True, text=True, check=False)
            said = "".join(path.read_text() for path in folder.glob("*.out"))
            assert done.returncode == 0, done.stderr + said
    assert plans.load("toy").missing() == []
    assert len(runs.filed("toy")) == 8
    assert "Nothing is missing." in said


def test_runs_that_are_alike_are_made_side_by_side_and_the_others_are_left():
    grid = "{call: train, over: {size: [1, 2]}, seeds: 3, scheme: pair}, tuned: {sizes: [1], seeds: 1}"
    run_toys.settle(plans.PLANS.parent, f"module: tests.run_toys\npublished: {{grid: {grid}}}\n")
    told, plan = [], plans.load("toy")
    assert making.make_together([plan], most=2, said=told.append) == 6
    assert [int(re.search(r"(\d) side by side", line).group(1)) for line in told] == [2, 1, 2, 1]
    lines = {(line["job"]["size"], line["job"]["seed"]): line["made"].get("many", 1) for line in runs.filed("toy")}
    assert lines == {(size, seed): 1 if seed == 2 else 2 for size in (1.0, 2.0) for seed in range(3)}
    assert {run.job["scheme"] for run in plan.missing()} == {"plain"}
    assert making.make_together([plan], most=2, said=pytest.fail) == 0


def test_a_group_that_fails_stops_no_other():
    grid = "{call: train, size: 1, seeds: 2, scheme: failing}, more: {call: train, size: 2, seeds: 2, scheme: pair}"
    run_toys.settle(plans.PLANS.parent, f"module: tests.run_toys\npublished: {{grid: {grid}}}\n")
    told = []
    with pytest.raises(runs.RunFailed, match=r"2 run\(s\) failed; the first: toy .*scheme=failing.*: OddError"):
        making.make_together([plans.load("toy")], most=5, said=told.append)
    assert [line.split()[0] for line in told] == ["FAILED", "0"]
    assert len(runs.filed("toy")) == 2
    with pytest.raises(ParameterError, match="side-by-side"):
        making.make_together([plans.load("toy")], most=1)


def test_side_by_side_a_gpu_that_failed_is_not_asked_again():
    grid = "{call: train, size: 1, seeds: 2, scheme: poisoned}, more: {call: train, size: 2, seeds: 2, scheme: pair}"
    run_toys.settle(plans.PLANS.parent, f"module: tests.run_toys\npublished: {{grid: {grid}}}\n")
    told = []
    try:
        with pytest.raises(runs.GPUFailed, match="CUDA error"):
            making.make_together([plans.load("toy")], most=5, said=told.append)
    finally:
        run_toys.POISONED.clear()
    assert len(told) == 1


def test_a_limit_is_refused_where_models_go_side_by_side(monkeypatch):
    monkeypatch.setattr(execution, "check_commit", lambda: None)
    asked = ["make", "toy", "--side-by-side", "2", "--limit", "5m"]
    assert "limit is not allowed with side-by-side" in str(CliRunner().invoke(runs_command.runs, asked).exception)
    assert runs.filed("toy") == []
