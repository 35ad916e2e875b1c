"""The engine behind make book: one at a time, on again after a kill, no job left behind, no notebook missing or old."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from book.evidence import alone, stamp
from tests.conftest import ROOT

LIMIT = 120  # seconds
JOB = """
import os, sys, time
from pathlib import Path
from book.evidence import alone
alone.follow()
Path("job").write_text(str(os.getpid()))
while not Path("go").exists():
    time.sleep(0.05)
Path(sys.argv[1]).touch()
"""
SLOW = f"""
rule all:
    output: "done"
    shell: "{sys.executable} job.py {{output}}"
"""
SOURCES = """
from pathlib import Path
chapters = lambda: ["01_first", "13_last"]
all_inputs = lambda: {chapter: Path(f"notebooks/{chapter}.md").read_text() for chapter in chapters()}
site_files = lambda: ["book/page.md"]
fingerprint = lambda paths: "".join(Path(path).read_text() for path in paths)
recorded_inputs = lambda path: path.read_text() if path.exists() else None
"""
MAIN = """
import os
import sys
import time
from pathlib import Path
name = "_build/html/index.html" if sys.argv[1] == "site" else sys.argv[4]
Path(name).write_text(sys.argv[-1])  # what it ran on
with open("log", "a") as log:
    print(*(word for word in sys.argv[1:3] if word != "--cores"), file=log)
if sys.argv[2:3] == ["13_last"] and os.path.exists("edit"):
    os.rename("edit", "notebooks/13_last.md")
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


def test_a_second_run_is_refused_and_after_a_kill_no_job_goes_on_and_the_next_run_does(tmp_path, killed_later):
    (tmp_path / "Snakefile").write_text(SLOW)
    (tmp_path / "job.py").write_text(JOB)
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    first = start(tmp_path, **options)
    killed_later.append(first)
    until = time.monotonic() + LIMIT
    while not (tmp_path / "job").exists():
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.05)

    status, errors = finished(tmp_path, **options)
    assert status == alone.NOT_BEGUN
    assert errors.startswith(f"Another run works in {tmp_path} (process {first.pid} on ")
    assert f"`kill -KILL {first.pid}`" in errors, "it says how to end it"
    assert errors.count("\n") == 1
    assert first.poll() is None

    job = psutil.Process(int((tmp_path / "job").read_text()))
    first.kill()  # Snakemake alone, and nothing below it
    assert first.wait(LIMIT) == -signal.SIGKILL
    assert psutil.wait_procs([job], timeout=LIMIT)[1] == []
    (tmp_path / "go").touch()
    assert not (tmp_path / "done").exists()
    status, errors = finished(tmp_path, **options)
    assert status == 0, errors
    assert (tmp_path / "done").exists()


WORK = """
import subprocess, sys, time
from book.evidence import alone
alone.follow()
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
time.sleep(1000)
"""


def test_a_job_ends_with_its_build_and_what_the_job_began_too(killed_later):
    build = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
    env = {**os.environ, "PYTHONPATH": str(ROOT), alone.BUILD: f"{build.pid} no.lock"}
    command = [sys.executable, "-c", WORK]
    job = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    killed_later.append(job)
    child = psutil.Process(int(job.stdout.readline()))
    assert job.poll() is None
    build.kill()  # and nobody asks for its status yet
    assert job.wait(LIMIT) == 1
    assert psutil.wait_procs([child], timeout=LIMIT)[1] == []
    build.wait()


def test_a_job_of_an_ended_build_publishes_nothing(tmp_path, monkeypatch):
    """One that was suspended beside a build that was killed wakes up beside the next one."""
    assert alone.is_current(), "it is no job"
    lock = tmp_path / "alone.lock"
    monkeypatch.setenv(alone.BUILD, f"{os.getpid()} {lock}")
    assert not alone.is_current(), "nobody has the lock"
    lock.write_text(f"process {os.getpid()} on here since now")
    assert alone.is_current()
    lock.write_text(f"process {os.getpid()}1 on here since now")
    assert not alone.is_current()


IDLE = """
import signal, subprocess, threading, time
from book.evidence import alone
alone.PATIENCE = 2
signal.signal(signal.SIGTERM, signal.SIG_IGN)
job = subprocess.Popen(["sleep", "1000"])
threading.Thread(target=alone._end_without_jobs, daemon=True).start()
time.sleep(3)
print("with a job it goes on", flush=True)
until = time.monotonic() + 4
while alone._worked() and time.monotonic() < until:
    if job.poll() is None and time.monotonic() > until - 3.5:
        job.kill(), job.wait()
print("at work it goes on", flush=True)
job.kill(), job.wait()
time.sleep(1000)
"""


def test_a_build_that_waits_for_no_job_ends(killed_later):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    build = subprocess.Popen([sys.executable, "-c", IDLE], env=env, start_new_session=True, **pipes)
    killed_later.append(build)
    said, errors = build.communicate(timeout=LIMIT)
    assert (build.returncode, said) == (1, "with a job it goes on\nat work it goes on\n")
    assert "without a job" in errors


def test_what_is_missing_or_ran_on_something_else_is_made_again_and_nothing_else(tmp_path):
    """The project's own Snakefile, on stand-ins for what it calls: a notebook says what it ran on."""
    first, copied = tmp_path / "first", tmp_path / "copied"
    for package, names in {"dplib": ("checks", "files"), "book": (), "book/evidence": ("alone", "stamp")}.items():
        (first / package).mkdir(parents=True)
        (first / package / "__init__.py").touch()
        for name in names:
            shutil.copy(ROOT / package / f"{name}.py", first / package)
    (first / "book" / "evidence" / "sources.py").write_text(SOURCES)
    (first / "book" / "__main__.py").write_text(MAIN)
    shutil.copy(ROOT / "Snakefile", first)
    (first / "notebooks").mkdir()
    for name in ("notebooks/01_first.md", "notebooks/13_last.md", "book/page.md"):
        (first / name).write_text("old")
    (first / "edit").write_text("new")

    def made(folder):
        (folder / "log").write_text("")
        status, errors = finished(folder, "site", env={**os.environ, "PYTHONPATH": str(folder)})
        assert status == 0, errors
        return sorted((folder / "log").read_text().splitlines())

    def said(folder):
        build = start(folder, "site", env={**os.environ, "PYTHONPATH": str(folder)})
        told, errors = build.communicate(timeout=LIMIT)
        assert (build.returncode, errors) == (0, ""), "make would take it for a failure"
        return told

    assert made(first) == ["run 01_first", "run 13_last", "site"]
    assert (first / "executed" / "13_last.ipynb").read_text() == "old", "it was edited while it ran"
    (first / "executed" / "01_first.ipynb").unlink()
    time.sleep(stamp._SETTLED / 1e9)
    assert made(first) == ["run 01_first", "run 13_last", "site"], "though the site is newer than all"
    assert said(first) == "Nothing to be done: no file was written since the site was made.\n"
    (first / "book" / "page.md").write_text("new")
    assert made(first) == ["site"]
    ahead = time.time() + 3600  # the clock was set back since
    os.utime(first / "_build" / "html" / "index.html", (ahead, ahead))
    (first / "notebooks" / "01_first.md").write_text("newer")
    assert finished(first, "executed", env={**os.environ, "PYTHONPATH": str(first)})[0] == 0
    assert made(first) == ["site"], "though it seems newer than the chapter"
    shutil.copytree(first, copied)  # with new times
    first.rename(tmp_path / "moved")
    (copied / "executed" / "13_last.ipynb").write_text("of another tree")
    assert made(copied) == ["run 13_last", "site"]


def test_without_the_program_which_there_is_one_sentence(tmp_path):
    done = start(tmp_path, "all", env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)})
    assert done.communicate(timeout=LIMIT)[1].startswith("The program which is missing, and Snakemake needs it")
    assert done.returncode == alone.NOT_BEGUN


def test_where_nothing_can_be_written_there_is_one_sentence(tmp_path):
    (tmp_path / ".snakemake").touch()  # as on a full disk, another error of the same kind
    done = start(tmp_path, "all", env={**os.environ, "PYTHONPATH": str(ROOT)})
    errors = done.communicate(timeout=LIMIT)[1]
    assert done.returncode == alone.NOT_BEGUN
    assert str(tmp_path / ".snakemake") in errors
    assert errors.count("\n") == 1


def test_a_folder_that_no_search_path_can_name_is_refused(tmp_path, monkeypatch):
    """Its chapters were begun by another Python, and failed without a reason."""
    folder = tmp_path / "a: b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert alone.run(["site"]).startswith(f"{folder} has a : in its name")
    assert list(folder.iterdir()) == []


AT_WORK = """
import signal, sys, time
from book.evidence import execution
# Under nohup, as when told to here, it is ignored; a test must not depend on how it was started itself.
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1:] else signal.SIG_DFL)
with execution._workplace("01_a") as partial:
    print(partial.parent, flush=True)
    time.sleep(float(sys.argv[1]) if sys.argv[1:] else 1000)
"""


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGHUP])
def test_a_chapter_that_is_asked_to_end_leaves_no_temporary_files(killed_later, ends):
    def begun(*arguments):
        command = [sys.executable, "-c", AT_WORK, *arguments]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.PIPE, text=True)
        killed_later.append(process)
        return process, Path(process.stdout.readline().strip())

    process, folder = begun()
    assert folder.is_dir()
    process.send_signal(ends)
    assert process.wait(LIMIT) == 128 + ends
    assert not folder.exists()
    process, folder = begun("1")
    process.send_signal(signal.SIGHUP)
    assert process.wait(LIMIT) == 0, "it was told to go on"
