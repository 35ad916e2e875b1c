"""A sweep that is refused, killed, or has its source changed under it."""

import os
import signal
import subprocess
import time

import psutil
import pytest

from book.__main__ import main
from dplib.checks import ParameterError
from tests.book.evidence import sweep_toys


def test_a_refused_sweep_leaves_nothing(tmp_path):
    source = sweep_toys.notebook(tmp_path)
    with pytest.raises(ParameterError, match="profile = 'nowhere' is not allowed"):
        main(sweep_toys.command(source, "-p", "seed=1", "--profile", "nowhere")[3:], standalone_mode=False)
    assert not (source.parent / "out").exists()


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "summary.png", "grid.json"])
def test_a_file_of_somebody_else_is_not_written_over(tmp_path, name):
    source = sweep_toys.notebook(tmp_path)
    mine = source.parent / "out" / name
    (mine.parent / "runs").mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(ParameterError, match=f"its {name} is of no sweep"):
        main(sweep_toys.command(source, "-p", "seed=1")[3:], standalone_mode=False)
    assert mine.read_text() == "mine"


def test_killed_and_started_again_it_ends_as_an_undisturbed_one_and_two_at_once_do_not_mix(tmp_path):
    source = sweep_toys.notebook(tmp_path)
    grid = ["-p", "seed=0:3", "-p", "action=slow"]
    process = subprocess.Popen(sweep_toys.command(source, *grid), env=sweep_toys.env(), stdout=subprocess.DEVNULL)
    runs = source.parent / "out" / "runs"
    while not (first := list(runs.glob("*.json"))):
        assert process.poll() is None
        time.sleep(0.1)
    other = sweep_toys.sweep(source, *grid)
    assert other.returncode == 2
    assert "Another run works in" in other.stdout + other.stderr
    for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
        os.kill(victim.pid, signal.SIGKILL)
    process.wait()
    before = first[0].stat().st_mtime_ns
    assert sweep_toys.sweep(source, *grid).returncode == 0
    assert first[0].stat().st_mtime_ns == before
    assert [(row["seed"], row["status"], row["A.thm6.risk"]) for row in sweep_toys.table(source)] == [
        ("0", "done", "1.0"), ("1", "done", "2.0"), ("2", "done", "3.0"),
    ]  # fmt: skip


def test_a_source_that_changes_under_the_sweep_stops_it(tmp_path):
    """Else the run would be filed under code that it did not run."""
    source = sweep_toys.notebook(tmp_path)
    done = sweep_toys.sweep(source, "-p", "action=edit", "-p", f"folder='{tmp_path}'")
    assert done.returncode == 2
    assert "changed during the sweep" in done.stderr
    assert not list((tmp_path / "out" / "runs").glob("*.json"))
