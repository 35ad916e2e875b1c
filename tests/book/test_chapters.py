"""Running a chapter: nothing that looks like a result is left behind by a refused or failed run."""

import contextlib
import datetime
import errno
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from book import __main__
from book.__main__ import value
from book.evidence import claims, execution, plans, sources
from book.press import ledger, pages
from dplib import files
from dplib.checks import ParameterError
from tests.conftest import ROOT

RECORD = """claims.recorder("quick")("A.thm6", epsilon=epsilon)
claims.rests_on(seeds="5", datasets=["toy"], accounting="none")"""


def test_a_run_records_its_provenance_and_what_it_rests_on(toy):
    root = toy("01_a", RECORD)
    output = root / "executed" / "01_a.ipynb"
    provenance = execution.run("01_a", {"epsilon": 2.0}, output)
    assert provenance["parameters"] == {"epsilon": 2.0, "dataset": "digits"}
    assert provenance["versions"]["numpy"]
    assert provenance["hardware"]["cores"] >= 1
    notebook = nbformat.read(output, as_version=4)
    assert claims.records(notebook)["A.thm6"]["values"] == {"epsilon": 2.0}
    assert claims.basis(notebook)["seeds"] == "5"
    assert [path.name for path in (root / "executed").iterdir()] == ["01_a.ipynb"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilonn": 0.5}, "epsilonn is not a parameter of this notebook"),
        ({"epsilon": -1}, "epsilon = -1 is not allowed"),
        ({"epsilon": float("nan")}, "epsilon = nan is not allowed"),
        ({"epsilon": "'; import os"}, "epsilon = .* is not allowed: it must be a number"),
        ({"dataset": "nosuch"}, "dataset = 'nosuch' is not allowed: it must be one of digits, mnist"),
        ({"epsilon": 10**400}, r"epsilon = 1000.* is not allowed"),
        ({"epsilon": {1, 2}}, r"epsilon = {1, 2} is not allowed: it must be a number, a text in UTF-8"),
        ({"epsilon": 1j}, "epsilon = 1j is not allowed"),
        ({"epsilon": ...}, "epsilon = Ellipsis is not allowed"),
        ({"dataset": "\udcff"}, r"dataset = '\\udcff' is not allowed"),
        ({"dataset": [datetime.date(2026, 1, 1)]}, r"dataset = datetime.date\(2026, 1, 1\) is not allowed"),
        ({"dataset": functools.reduce(lambda inner, _: [inner], range(900), 1)}, r"dataset = .* is not allowed"),
    ],
)
def test_a_refused_parameter_leaves_nothing(toy, parameters, message):
    root = toy("01_a", RECORD)
    with pytest.raises(ParameterError, match=message):
        execution.run("01_a", parameters, root / "executed" / "new" / "01_a.ipynb")
    assert not list((root / "executed").rglob("*"))


@pytest.mark.parametrize("output", ["/proc/x.ipynb", "/proc/version/x.ipynb", "/dev/full", f"/tmp/{'x' * 300}.ipynb"])
def test_an_output_that_cannot_be_written_is_refused_before_the_run(toy, output):
    toy("01_a", "1 / 0")
    with pytest.raises(ParameterError, match=rf"^output = {output} is not allowed: "):
        execution.run("01_a", {}, Path(output))


def test_a_full_disk_is_one_sentence(toy, monkeypatch):
    root = toy("01_a", "x = 1")
    monkeypatch.setattr(files, "publish", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(execution.RunError, match=r"01_a.ipynb cannot be written: No space left on device\.$"):
        execution.run("01_a", {}, root / "executed" / "01_a.ipynb")


def test_where_there_is_no_room_for_what_is_temporary_that_is_what_is_said(toy, monkeypatch, tmp_path):
    """It was blamed on the output."""
    root = toy("01_a", "x = 1")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(execution, "execute", full)
    with pytest.raises(execution.RunError, match=r"TMPDIR") as caught:
        execution.run("01_a", {}, root / "executed" / "01_a.ipynb")
    assert tempfile.gettempdir() in str(caught.value)


@pytest.mark.parametrize(("number", "sentence"), [(errno.ENOSPC, True), (errno.EROFS, True), (errno.ECHILD, False)])
def test_a_command_says_of_a_disk_what_file_it_is_and_what_to_do(monkeypatch, capsys, tmp_path, number, sentence):
    def write(**_):
        with files.writing(tmp_path / "page.html"):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(__main__, "main", write)
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(SystemExit if sentence else OSError) as caught:
        __main__.cli()
    shown = capsys.readouterr().err
    assert (shown.startswith(f"Error: {tmp_path / 'page.html'}: ") and shown.count("\n") == 1) == sentence
    assert not sentence or caught.value.code == 2


def test_a_folder_that_could_not_be_copied_names_its_first_file():
    """Python's copytree goes on after an error, and tells them all in a list."""
    failures = [("a.css", "site/a.css", "[Errno 28] No space left on device: 'a.css' -> 'site/a.css'"), ("b", "c", "?")]
    assert execution.of_disk(shutil.Error(failures)).startswith("site/a.css: No space left on device. Make room there")
    assert execution.of_disk(shutil.Error([("a", "b", "odd")])) == ""
    assert execution.of_disk(shutil.Error("a and b are the same file")) == ""


def test_a_disk_is_full_where_a_megabyte_has_no_place(tmp_path):
    files.check_room(tmp_path)
    code = "import resource, signal, sys; from pathlib import Path\n"
    code += "from book.evidence import execution; from dplib import files\n"
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))\n"
    code += "try: files.check_room(Path(sys.argv[1]))\nexcept OSError as error: print(execution.of_disk(error))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.startswith(f"{tmp_path}: File too large")


def test_the_copy_of_a_renamed_chapter_is_no_page(toy):
    """It stayed in executed/, stood in no table of contents, and broke the strict build."""
    root = toy("01_a", RECORD)
    execution.run("01_a", {}, root / "executed" / "01_a.ipynb")
    (root / "executed" / "01_old_name.ipynb").write_bytes((root / "executed" / "01_a.ipynb").read_bytes())
    assert [executed_chapter.chapter for executed_chapter in ledger.executed_chapters(root / "executed")] == ["01_a"]
    assert "EXECUTED" not in vars(pages), "the site takes its pages from there, too"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"cells": [', '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}']
)
def test_a_damaged_copy_is_named(toy, text):
    root = toy("01_a", RECORD)
    (root / "executed" / "01_a.ipynb").write_text(text)
    with pytest.raises(ParameterError, match=r"01_a.ipynb is no executed chapter .*: remove it, and make it again\.$"):
        ledger.executed_chapters(root / "executed")


def test_a_failed_cell_keeps_the_old_result_and_shows_the_partial_one(toy):
    root = toy("01_a", "1 / 0")
    output = root / "executed" / "01_a.ipynb"
    output.write_text("the last good one")
    with pytest.raises(execution.RunError, match="ZeroDivisionError"):
        execution.run("01_a", {}, output)
    assert output.read_text() == "the last good one"
    partial = nbformat.read(root / "executed" / "failed" / "01_a.ipynb", as_version=4)
    assert any(out.output_type == "error" for cell in partial.cells for out in cell.get("outputs", ()))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("0.5", 0.5),
        ("3", 3),
        ("1e-5", 1e-5),
        ("[1, 2]", [1, 2]),
        ("[mnist, fashion-mnist]", ["mnist", "fashion-mnist"]),
        ("['mnist', 2]", ["mnist", 2]),
        ("[mnist", "[mnist"),
        ("true", True),
        ("mnist", "mnist"),
        ("$(ls)", "$(ls)"),
        ("[" * 3000, "[" * 3000),
        ("[2026-13-45]", ["2026-13-45"]),
    ],
)
def test_command_line_values(text, parsed):
    assert value(text) == parsed
    assert type(value(text)) is type(parsed)


def test_a_record_with_a_verdict_decides_its_row():
    record = {"verdict": "holds", "values": {"x": 1}, "because": "r"}
    quick = {"A.thm8": record | {"verdict": ""}}
    executed = ledger.Executed("01_a", {}, {}, {"A.thm6": record} | quick)
    rows = {row.claim.id: row for row in ledger.gather([executed])}
    assert rows["A.thm6"].verdict == "holds"
    assert rows["A.thm8"].verdict == "not run yet"


def edit(path):
    """Code that writes to a file while its chapter runs."""
    return f'\nfrom pathlib import Path\n\npath = Path(r"{path}")\n_ = path.write_text(path.read_text() + "\\n")'


def test_provenance_is_of_the_start_of_the_run(toy):
    """A reader's long run may outlive an edit: its digest is of what ran, and it says what was written."""
    root = toy("01_a", RECORD)
    toy("01_a", RECORD + edit(root / "notebooks" / "01_a.md"))
    before = sources.digest("01_a"), sources.inputs("01_a")
    done = execution.run("01_a", {}, root / "executed" / "runs" / "01_a.ipynb")
    assert (done["digest"], done["inputs"]) == before
    assert done["written"] == ["01_a.md"]
    assert sources.inputs("01_a") != before[1]


def test_what_is_written_while_a_chapter_of_the_book_runs_is_no_part_of_it_in_silence(toy):
    """It stayed as it was for good: Snakemake took the inputs as they were in the end for those that ran."""
    root = toy("01_a", RECORD)
    plan = root / "notebooks" / "plans" / "01.yml"
    plan.parent.mkdir()
    plan.write_text("{}")
    written = root / "notebooks" / "01_a.md", root / "book" / "evidence" / "claims.py", plan, root / "book/claims/A.yml"
    toy("01_a", RECORD + "".join(map(edit, written)))
    output = root / "executed" / "01_a.ipynb"
    output.write_text("the last good one")
    with pytest.raises(execution.RunError, match=r"^01_a: 01.yml, 01_a.md, A.yml, claims.py was written while it ran"):
        execution.run("01_a", {}, output)
    assert output.read_text() == "the last good one"


def test_a_build_executes_what_it_began_with_or_nothing(toy):
    root = toy("01_a", RECORD)
    output = root / "executed" / "01_a.ipynb"
    wanted = sources.inputs("01_a")
    execution.run("01_a", {}, output, inputs=wanted)
    assert sources.recorded_inputs(output) == wanted
    ledger.check_current(ledger.executed_chapters(root / "executed"))
    toy("01_a", RECORD + "\n1 / 0")
    with pytest.raises(execution.RunError, match="was written since the build"):
        execution.run("01_a", {}, output, inputs=wanted)
    with pytest.raises(execution.RunError, match=r"^01_a: executed on other sources"):
        ledger.check_current(ledger.executed_chapters(root / "executed"))


def test_what_a_chapter_ran_on_is_told_by_content_and_writing_by_time(toy, tmp_path):
    root = toy("01_a", RECORD)
    path = root / "notebooks" / "01_a.md"
    before, inputs = sources.state([path]), sources.inputs("01_a")
    text = path.read_text()
    path.write_text(text + "new")
    os.utime(path, ns=(0, 0))
    path.write_text(text)  # as after a look at another branch
    assert sources.inputs("01_a") == inputs
    assert sources.written(before, [path]) == ["01_a.md"]
    assert sources.written(sources.state([path, root / "away"]), [path]) == []
    assert sources.recorded_inputs(root / "away") is None


def test_a_kernel_that_is_killed_is_one_sentence_and_its_cells_are_kept(toy):
    root = toy("01_a", "import os, signal\nprint('so far')\nos.kill(os.getpid(), signal.SIGKILL)")
    output = root / "executed" / "01_a.ipynb"
    with pytest.raises(execution.RunError, match=r"01_a: its kernel ended, perhaps for its memory: .*\nSee the cells"):
        execution.run("01_a", {}, output)
    assert (root / "executed" / "failed" / "01_a.ipynb").exists()
    assert not output.exists()


@pytest.mark.parametrize("study", plans.studies())
def test_plans_ask_for_runs_that_can_be_made_and_the_published_one_is_complete(study):
    for name in plans.names(study):
        missing = plans.load(study, name).missing()  # refuses arguments that a part or an experiment does not have
        assert not (missing and name == "published"), missing[0]


@pytest.mark.parametrize("words", [["-p", "epsilon=0.5"], ["-p", "delta", "0.1", "-p", "epsilon=0.5", "-o", "x.ipynb"]])
def test_a_run_that_is_given_the_words_of_a_sweep_says_how_each_is_written(words):
    with pytest.raises(ParameterError, match=r"a run takes `-p epsilon 0.5`. NAME=VALUES .* `python -m book sweep`"):
        __main__.main(["run", "01", *words], standalone_mode=False)


def test_every_chapter_records_an_answer_so_that_a_sweep_has_numbers():
    texts = {chapter: sources.source(chapter).read_text(encoding="utf-8") for chapter in sources.chapters()}
    assert [chapter for chapter, text in texts.items() if "claims.answer(" not in text] == []


def test_the_page_that_says_which_chapters_have_no_small_plan_names_them_all():
    text = " ".join((ROOT / "book" / "running.md").read_text(encoding="utf-8").split())
    only = [study.lstrip("0") for study in plans.studies() if plans.drawn(study) == ["published"]]
    assert f"chapters {', '.join(only[:-1])} and {only[-1]} have no whole small plan" in text


@pytest.mark.parametrize(("failures", "starts"), [(1, 2), (5, execution.STARTS)])
def test_a_kernel_that_ends_before_its_first_cell_is_started_again(monkeypatch, tmp_path, failures, starts):
    """Two kernels that begin at the same time may be given one port."""
    begun = []

    def execute_notebook(*_args, **_settings):
        begun.append(1)
        if len(begun) <= failures:
            raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr("papermill.execute_notebook", execute_notebook)
    context = contextlib.nullcontext() if failures < execution.STARTS else pytest.raises(RuntimeError, match="before")
    with context:
        execution.execute(None, {}, tmp_path / "a.ipynb")
    assert len(begun) == starts


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_one_sentence(monkeypatch, capsys, error):
    monkeypatch.setattr(__main__, "main", raising(error))
    with pytest.raises(SystemExit) as end:
        __main__.cli()
    assert end.value.code == 2
    assert "too little memory" in capsys.readouterr().err


def test_too_little_room_to_address_is_said_before_a_library_waits_for_it_without_end():
    """With 0.4 or 0.45 GB to address `python -m book site` stood still while SciPy was loaded."""
    command = ["bash", "-c", 'ulimit -v 450000; exec "$0" -m book site', sys.executable]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert shown.returncode == 2
    assert shown.stderr.startswith("Error: A process may address 0.46 GB here (`ulimit -v`)")


@pytest.mark.parametrize("error", [ImportError("no module named x"), RuntimeError("a shape"), OSError("a socket")])
def test_other_errors_keep_their_traceback(monkeypatch, error):
    monkeypatch.setattr(__main__, "main", raising(error))
    with pytest.raises(type(error), match=str(error)):
        __main__.cli()


def raising(error):
    def main(**_settings):
        raise error

    return main
