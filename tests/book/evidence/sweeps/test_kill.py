"""A sweep killed at random moments, then started again, ends with the table of an undisturbed one."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import nbformat
import psutil
import pytest

from tests.book.evidence.sweeps import toys as sweep_toys

GRID = ("-p", "seed=0:3", "-p", "action=slow", "-p", "epsilon=2", "--cores", "2")
LIMIT = 600  # seconds; a sweep of four short runs that takes longer hangs, whatever else the machine does


@pytest.mark.parametrize("most", [3, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_random_moments_the_table_is_that_of_an_undisturbed_sweep(tmp_path, most):
    source = sweep_toys.notebook(tmp_path)
    start = time.monotonic()
    assert sweep_toys.sweep(source, *GRID, out="whole", store="whole-store").returncode == 0
    seconds = time.monotonic() - start
    wanted = sweep_toys.lasting(source, "whole")
    rng = random.Random(0)
    kills = 0
    while kills < most:
        whom = ("driver", "both", "worker")[kills % 3]
        process = _start(source)
        try:
            # A process that ends by itself before its moment has come is no kill; the next sweep starts afresh.
            process.wait(rng.uniform(0.2, 0.8) * seconds)
        except subprocess.TimeoutExpired:
            kills += _kill(process, whom, rng)
        status = process.wait(LIMIT)
        print(f"{kills} kills; the last sweep ({whom}) ended with status {status}")
        assert status in (0, 2, -signal.SIGKILL), "2: Snakemake itself was the worker that was killed"
        if status == 0:
            _check(source, wanted)
            shutil.rmtree(tmp_path / "out")
            shutil.rmtree(tmp_path / "store")
    for _ in range(3):  # a killed worker may have been Snakemake itself: the same command goes on
        if _start(source).wait(LIMIT) == 0:
            break
    _check(source, wanted)


def _start(source) -> subprocess.Popen:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(sweep_toys.command(source, *GRID), env=sweep_toys.env(), **quiet)


def _kill(process: subprocess.Popen, whom: str, rng: random.Random) -> bool:
    """SIGKILL the driver, one of the processes below it, or both; False where there is none below it yet."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    if whom != "driver" and not below:
        return False
    victims = [] if whom == "driver" else [rng.choice(below).pid]
    victims += [] if whom == "worker" else [process.pid]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return True


def _check(source, wanted) -> None:
    assert sweep_toys.lasting(source) == wanted
    keys = {row["key"] for row in wanted}
    files = [path for path in (source.parent / "store").rglob("*") if path.is_file()]
    whole = {path.name for path in files if ".part." not in path.name and path.suffix != ".lock"}
    assert whole == {f"{key}{suffix}" for key in keys for suffix in (".json", ".ipynb")}
    for path in files:
        if path.name in whole:
            json.loads(path.read_text()) if path.suffix == ".json" else nbformat.validate(nbformat.read(path, 4))
