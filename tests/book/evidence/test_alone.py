"""The engine behind make book: one at a time, on again after a kill, and no notebook left missing; on toy chapters."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

LIMIT = 120  # seconds
SLOW = """
rule all:
    output: "done"
    shell: "echo $$ > job; while [ ! -e go ]; do sleep 0.1; done; touch {output}"
"""
SOURCES = """
from pathlib import Path
RESULTS = Path("results")
chapters = lambda: ["01_first", "13_last"]
module_files = lambda name: [Path("page.py")]
page_files = lambda: ["page.md"]
depends_on = lambda chapter: [Path(f"{chapter}.md")]
"""
MAIN = """
import sys
from pathlib import Path
name = "_build/html/index.html" if sys.argv[1] == "site" else sys.argv[-1]
Path(name).write_text(" ".join(sys.argv[1:]))
with open("log", "a") as log:
    print(*sys.argv[1:3], file=log)
"""


def start(folder, *arguments, **options):
    command = [sys.executable, "-m", "book.evidence.alone", "--cores", "1", "--rerun-incomplete", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes, **options)


def finished(folder, *arguments, **options):
    """Status and the error output of a run up to its end."""
    process = start(folder, *arguments, **options)
    errors = process.communicate(timeout=LIMIT)[1]
    return process.returncode, errors


@pytest.fixture
def killed_later():
    processes = []
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_second_run_is_refused_and_after_a_kill_the_next_one_goes_on(tmp_path, killed_later):
    (tmp_path / "Snakefile").write_text(SLOW)
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    first = start(tmp_path, **options)
    killed_later.append(first)
    until = time.monotonic() + LIMIT
    while not (tmp_path / "job").exists():
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.05)

    status, errors = finished(tmp_path, **options)
    assert status == 1
    assert errors.startswith(f"Another run works in {tmp_path} (process {first.pid} on ")
    assert errors.count("\n") == 1
    assert first.poll() is None

    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait(LIMIT) == -signal.SIGKILL
    (tmp_path / "go").touch()
    status, errors = finished(tmp_path, **options)
    assert status == 0, errors
    assert (tmp_path / "done").exists()


def test_a_missing_notebook_is_made_again_though_the_site_is_newer(tmp_path):
    """The project's own Snakefile, on stand-ins for what it calls."""
    for package, names in {"dplib": ("checks", "files"), "book": (), "book/evidence": ("alone",)}.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        for name in names:
            shutil.copy(ROOT / package / f"{name}.py", tmp_path / package)
    (tmp_path / "book" / "evidence" / "sources.py").write_text(SOURCES)
    (tmp_path / "book" / "__main__.py").write_text(MAIN)
    shutil.copy(ROOT / "Snakefile", tmp_path)
    for name in ("01_first.md", "13_last.md", "page.py", "page.md"):
        (tmp_path / name).touch()
    log = tmp_path / "log"
    options = {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}}
    runs = [(None, ["run 01_first", "run 13_last", "site"]), (None, []), ("13_last", ["run 13_last", "site"])]
    for missing, wanted in runs:
        if missing:
            (tmp_path / "executed" / f"{missing}.ipynb").unlink()
        log.write_text("")
        status, errors = finished(tmp_path, "site", **options)
        assert status == 0, errors
        assert sorted(log.read_text().splitlines()) == wanted


def test_without_the_program_which_there_is_one_sentence(tmp_path):
    done = start(tmp_path, "all", env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)})
    assert done.communicate(timeout=LIMIT)[1].startswith("The program which is missing, and Snakemake needs it")
    assert done.returncode == 1
