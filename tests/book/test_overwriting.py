"""No command writes over what somebody has made, without a word."""

import json
import os
import shutil
import subprocess

import nbformat
import pytest

from book import __main__
from book.evidence import execution, readings, readings_without_rule
from book.press import assignments, net
from dplib.checks import ParameterError
from tests.conftest import ROOT


def refused(*arguments):
    with pytest.raises(ParameterError) as caught:
        __main__.main(list(map(str, arguments)), standalone_mode=False)
    return str(caught.value)


def test_a_chapter_is_written_over_no_source_and_no_file_of_somebody(toy):
    root = toy("01_a", "pass")
    mine = root / "mine.ipynb"
    mine.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    for path, reason in ((root / "notebooks" / "01_a.md", "ends in .ipynb"), (mine, "no executed chapter")):
        before = path.read_bytes()
        with pytest.raises(ParameterError, match=reason):
            execution.run("01_a", {}, path)
        assert path.read_bytes() == before
    mine.write_text(json.dumps({"metadata": {"dplib": {"inputs": "of an earlier run"}}}))
    with pytest.raises(ParameterError, match="epsilonn"):  # it goes on, to the next reason
        execution.run("01_a", {"epsilonn": 1}, mine)


@pytest.mark.parametrize("name", ["out", "out/", "out.html"])
def test_an_executed_chapter_is_written_to_a_notebook_only(toy, name):
    root = toy("01_a", "pass")
    assert "must be a file whose name ends in .ipynb" in refused("run", "01_a", "-o", f"{root}/{name}")
    assert not os.path.lexists(root / name.rstrip("/"))


def test_an_executed_chapter_is_written_over_and_not_one_that_somebody_edited(toy):
    root = toy("01_a", "pass")
    mine = root / "executed" / "mine.ipynb"  # the folder is no licence: the build's own files have a chapter's name
    mine.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    with pytest.raises(ParameterError, match="no executed chapter"):
        execution.run("01_a", {}, mine)
    mine.unlink()
    for _ in range(2):
        execution.run("01_a", {}, mine)
    notebook = nbformat.read(mine, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("my notes"))
    nbformat.write(notebook, mine)
    with pytest.raises(ParameterError, match="edited since it ran"):
        execution.run("01_a", {}, mine)
    assert "my notes" in mine.read_text()


def test_recorded_values_are_written_over_such_only_and_not_over_what_they_are_compared_with(tmp_path, monkeypatch):
    monkeypatch.setattr(net, "gather", lambda: {"records": {}, "answers": {}, "anchors": {}})
    mine, values = tmp_path / "mine.json", tmp_path / "values.json"
    mine.write_text("{}")
    assert "no file of recorded values" in refused("net", mine)
    assert mine.read_text() == "{}"
    for _ in range(2):
        __main__.main(["net", str(values)], standalone_mode=False)
    assert "is both" in refused("net", values, "--against", values)


def test_the_key_of_packets_that_are_out_stays(tmp_path):
    key = tmp_path / "key.json"
    key.write_text("{}")
    for write in (lambda: readings.write([], tmp_path), lambda: readings_without_rule.write([], tmp_path, {})):
        with pytest.raises(ParameterError, match="Give another folder"):
            write()
    assert key.read_text() == "{}"
    assert list(tmp_path.iterdir()) == [key]


def test_make_clean_keeps_what_took_hours(tmp_path):
    """The report of a GPU among it, which `make gpu` adds to, and whose runs may not be kept yet."""
    folder = tmp_path / "my own"
    kept = ("assignments", "assignments-1", "gpu", "store", "studies", "sweeps")
    for name in (*kept, "html"):
        (folder / "_build" / name).mkdir(parents=True)
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "postBuild"):
        shutil.copy(ROOT / name, folder)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", "clean"], cwd=folder, env=plain, check=True)
    assert sorted(path.name for path in (folder / "_build").iterdir()) == sorted(kept)


def test_make_clean_keeps_what_a_reader_ran(tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "postBuild"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("01_a.ipynb", "runs/01_a-12345678.ipynb", "failed/01_a.ipynb"):
        (tmp_path / "executed" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "executed" / name).touch()
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", "clean"], cwd=tmp_path, env=plain, check=True)
    left = sorted(path.relative_to(tmp_path / "executed").as_posix() for path in tmp_path.rglob("*.ipynb"))
    assert left == ["failed/01_a.ipynb", "runs/01_a-12345678.ipynb"]


def test_assignments_that_a_teacher_changed_are_moved_and_not_removed(tmp_path, monkeypatch):
    out = tmp_path / "assignments"
    monkeypatch.setattr(assignments, "OUTPUT", out)

    def made():
        (out / "a").mkdir(parents=True)
        (out / "a" / "a.ipynb").write_text("as it was made")
        (out / assignments.MADE).write_text(json.dumps(assignments._digests()))

    assert assignments._out_of_the_way() is None
    made()
    assert assignments._out_of_the_way() is None
    assert not out.exists()
    changes = (
        lambda: (out / "a" / "a.ipynb").write_text("with my corrections"),
        lambda: (out / "handed-in.ipynb").write_text("of a student"),
        lambda: (out / assignments.MADE).unlink(),
    )
    for number, change in enumerate(changes, start=1):
        made()
        change()
        before = sorted(path.name for path in out.rglob("*"))
        kept = assignments._out_of_the_way()
        assert kept.name == f"assignments-{number}"
        assert sorted(path.name for path in kept.rglob("*")) == before
        assert not out.exists()
