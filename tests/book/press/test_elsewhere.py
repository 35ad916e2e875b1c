"""A chapter outside of the repository: what it reads lies beside it, and its modules find it there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from book.evidence import machines, sources
from book.press import elsewhere, remembered
from tests.conftest import ROOT

FOUND = """
from book.evidence import claims, places, plans
assert places.ROOT == __import__("pathlib").Path.cwd(), places.ROOT
assert claims.load_all()
assert not plans.load("08").missing()
assert plans.load("08").read("priors")
"""


@pytest.fixture(autouse=True)
def store(tmp_path_factory, monkeypatch):
    """Nothing is remembered from another test, and nothing for the next build."""
    monkeypatch.setattr(remembered, "STORE", tmp_path_factory.mktemp("remembered"))


def test_a_chapter_finds_its_runs_where_it_was_unpacked(tmp_path):
    installed = tmp_path / "installed"
    for name in ("dplib", "papers", "book/evidence"):
        shutil.copytree(ROOT / name, installed / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "book" / "__init__.py", installed / "book" / "__init__.py")
    with zipfile.ZipFile(elsewhere.pack("08_rr_with_prior", tmp_path)) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "08_rr_with_prior"
    assert {"08_rr_with_prior.ipynb", "README.txt"} <= {path.name for path in folder.iterdir()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPBOOK_")}
    done = subprocess.run(
        [sys.executable, "-c", FOUND], cwd=folder, env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("chapter", ["00a_why_noise", "12_what_screening_leaks"])
def test_a_chapter_takes_the_runs_that_it_draws_and_no_others(chapter):
    kept = {path for path in elsewhere.beside(chapter) if path.parent == sources.KEPT}
    drawn = {path for path in sources.depends_on(chapter) if path.parent == sources.KEPT}
    assert bool(drawn) == (chapter != "00a_why_noise")
    assert kept == drawn | set(sources.KEPT.glob(machines.FILES) if drawn else [])


def test_the_wheels_hold_library_and_experiments(tmp_path):
    before = {path.name for path in ROOT.iterdir()}
    first, second = (
        set(zipfile.ZipFile(path).namelist())
        for path in sorted(elsewhere.wheels(tmp_path), key=lambda p: "book" in p.name)
    )
    assert "dplib/dpsgd.py" in first
    assert {"book/evidence/runs.py", "papers/labels/response_runs.py", "book/__init__.py"} <= second
    assert not [name for name in second if name.startswith(("dplib/", "tests/", "book/press"))]
    assert {path.name for path in ROOT.iterdir()} == before, "pip leaves nothing in the repository"


def test_the_archive_has_every_file_as_it_is_now(tmp_path, monkeypatch):
    runs = tmp_path / "book" / "runs"
    runs.mkdir(parents=True)
    for name, value in {(elsewhere, "ROOT"): tmp_path, (sources, "KEPT"): runs}.items():
        monkeypatch.setattr(*name, value)
    monkeypatch.setattr(elsewhere, "tracked", lambda: sorted(p for p in tmp_path.rglob("*.[mj]*")))

    def held():
        elsewhere.archive(tmp_path / "a.tar.xz")
        with tarfile.open(tmp_path / "a.tar.xz") as archive:
            return {entry.name: archive.extractfile(entry).read() for entry in archive}

    files = {"book/runs/one.jsonl": b"1" * 700, "book/page.md": b"2" * 512, "README.md": b""}
    edits = {"book/page.md": b"other", "book/runs/one.jsonl": b"more", "book/runs/two.jsonl": b"new"}
    for name, content in [*files.items(), *edits.items()]:
        files[name] = content
        (tmp_path / name).write_bytes(content)
        there = {f"dp-book/{name}": content for name, content in files.items() if (tmp_path / name).exists()}
        assert held() == there
    (runs / "two.jsonl").chmod(0o755)
    held()
    with tarfile.open(tmp_path / "a.tar.xz") as archive:
        assert [entry.name for entry in archive if entry.mode == 0o755] == ["dp-book/book/runs/two.jsonl"]


@pytest.mark.parametrize("by_git", [True, False])
def test_the_archive_is_the_repository_and_works_where_it_was_unpacked(tmp_path, monkeypatch, by_git):
    known = set(elsewhere.tracked())
    if not by_git:
        monkeypatch.setattr(elsewhere.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
        names = {path.relative_to(ROOT).as_posix() for path in set(elsewhere.tracked()) - known}
        assert not [name for name in names if re.search(r"\.pyc$|^_build|^executed|^\.(git|venv|snakemake)/", name)]
        assert known <= set(elsewhere.tracked())
        return
    elsewhere.archive(tmp_path / "dp-book.tar.xz")
    with tarfile.open(tmp_path / "dp-book.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "dp-book"
    assert {"Makefile", "README.md", "pyproject.toml", "Snakefile", "book", "dplib", "tests"} <= {
        path.name for path in folder.iterdir()
    }
    done = subprocess.run(
        [sys.executable, "-m", "book", "chapters"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.stdout.split() == sources.chapters(), done.stderr
