"""Assignments with an autograder, made from ``book/assignments``: a notebook for students, a grader for the teacher.

A source is MyST Markdown with the book's own means. A heading of the second level with points opens a question:
``## Plain randomised response (2 points)``. Its code cells carry a tag: ``solution`` (what lies between
``# BEGIN SOLUTION`` and ``# END SOLUTION`` is taken out for students), ``check`` (a test that students see and that
earns nothing), ``hidden`` (a test that only the grader has; these share the points of the question). A cell tagged
``setup`` is for everybody.

Otter-Grader makes the two versions and grades. It lives in a folder of its own (``make assignments`` puts it there),
because it brings ipywidgets, which would turn the progress bars of every chapter into widgets.
"""

import functools
import hashlib
import importlib.util
import itertools
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from book.evidence import sources
from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press.marking import KINDS, Assignment, Question
from dplib.checks import ParameterError

SOURCES = ROOT / "book" / "assignments"
OUTPUT = ROOT / "_build" / "assignments"
MADE = ".made.json"  # digests of what was made: what differs from them is somebody's
INTRODUCTION = (
    "*Replace each `...` by your own code. The cell below a question runs checks that you can see; marks come from "
    "others that you cannot. You need numpy and scipy, and not the book's own package.*"
)


def names() -> list[str]:
    """Names of all assignments, those of their chapters, in the order of the contents."""
    return [chapter for chapter in sources.chapters() if (SOURCES / f"{chapter}.md").exists()]


def load(name: str) -> Assignment:
    """Read an assignment; ParameterError for a cell without a known tag, or a question without solution or tests."""
    return _read(name, (SOURCES / f"{name}.md").read_text(encoding="utf-8"))


@functools.cache
def _read(name: str, text: str) -> Assignment:
    introduction, setup, questions = "", [], []
    for cell in jupytext.reads(text, fmt="md:myst").cells:
        if cell.cell_type == "markdown":
            heading = re.match(r"## (.+?) \((\d+) points?\)\n?", cell.source)
            if heading:
                questions.append(Question(heading[1], int(heading[2]), cell.source[heading.end() :].strip()))
            else:
                introduction = cell.source
            continue
        kinds = [tag for tag in cell.metadata.get("tags", ()) if tag in ("setup", *KINDS)]
        if len(kinds) != 1 or (kinds[0] != "setup" and not questions):
            raise ParameterError(f"{name}: a cell tagged {kinds} is none of {('setup', *KINDS)}: {cell.source[:60]!r}")
        (setup if kinds[0] == "setup" else questions[-1].cells[kinds[0]]).append(cell.source)
    for question in questions:
        missing = [kind for kind in KINDS if not question.cells[kind]]
        if missing:
            raise ParameterError(f"{name}, {question.title!r}: it has no cell tagged {missing[0]}.")
    return Assignment(name, introduction, setup, questions)


def master(assignment: Assignment) -> nbformat.NotebookNode:
    """The notebook that Otter Assign reads."""
    raw, code = new_raw_cell, new_code_cell
    cells = [
        raw(
            f"# ASSIGNMENT CONFIG\nname: {assignment.name} {assignment.version}\n"
            "run_tests: false\ncheck_all_cell: true\nexport_cell:\n  pdf: false\n"
            "generate: true\nrequirements: [numpy, scipy]"
        ),
        new_markdown_cell(f"{assignment.introduction}\n\n{INTRODUCTION}"),
        *map(code, assignment.setup),
    ]
    for number, question in enumerate(assignment.questions, start=1):
        points = f"{question.points} point" + "s" * (question.points != 1)
        cells += [
            raw(f"# BEGIN QUESTION\nname: q{number}\npoints: [{', '.join(f'{share:g}' for share in question.shares)}]"),
            new_markdown_cell(f"## {question.title} ({points})\n\n{question.text}"),
            raw("# BEGIN SOLUTION"),
            *map(code, question.cells["solution"]),
            raw("# END SOLUTION"),
            raw("# BEGIN TESTS"),
            *map(code, question.cells["check"]),
            *(code(f"# HIDDEN\n{test}") for test in question.cells["hidden"]),
            raw("# END TESTS"),
            raw("# END QUESTION"),
        ]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:03d}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def build(seed: int | None = None) -> Iterator[str]:
    """Make every assignment in ``_build/assignments``, grade its solutions and an empty copy; yields a line for each.

    With a ``seed`` it is a variant, in which the public solutions fail (``book.press.variants``).

    Raises:
        ParameterError: where Otter-Grader is not on the path.
        RunError: where solutions earn less than full marks, or an empty notebook earns any.
    """
    from book.press import variants

    if importlib.util.find_spec("otter") is None:
        raise ParameterError("Otter-Grader is not on the path: make assignments installs it and calls this command.")
    if (kept := _out_of_the_way()) is not None:
        yield f"The earlier assignments, which are not as they were made, are in {kept} now."
    for name in names():
        assignment = load(name) if seed is None else variants.variant(load(name), seed)
        folder = OUTPUT / name
        _assign(assignment, folder)
        solved = graded(folder / "grader" / f"{name}.ipynb", folder)
        empty = graded(folder / "student" / f"{name}.ipynb", folder)
        if abs(solved - assignment.points) > 1e-6 or empty != 0:
            raise RunError(f"{name}: solutions earn {solved:g} of {assignment.points}, an empty notebook {empty:g}.")
        yield f"{name}: {assignment.points} points; the solutions earn {solved:g}, an empty notebook {empty:g}"
    pins = re.findall(r"^otter-grader==[\w.]+", (SOURCES / "requirements.lock").read_text(), re.MULTILINE)
    (OUTPUT / "requirements.txt").write_text("\n".join(["notebook", "numpy", "scipy", *pins]) + "\n", encoding="utf-8")
    (OUTPUT / MADE).write_text(json.dumps(_digests(), indent=1), encoding="utf-8")


def _out_of_the_way() -> Path | None:
    """Remove what an earlier call made. Where somebody has changed it since, or put something there (what students
    handed in), move it to a folder beside, and return that.
    """
    if not OUTPUT.exists():
        return None
    try:
        untouched = json.loads((OUTPUT / MADE).read_text(encoding="utf-8")) == _digests()
    except (OSError, ValueError):  # from a call that was cut off, or of an earlier version
        untouched = not _digests()
    if untouched:
        shutil.rmtree(OUTPUT)
        return None
    kept = next(path for i in itertools.count(1) if not (path := OUTPUT.with_name(f"{OUTPUT.name}-{i}")).exists())
    return OUTPUT.rename(kept)


def _digests() -> dict[str, str]:
    """Of all files of the assignments but the list of these digests."""
    files = sorted(path for path in OUTPUT.rglob("*") if path.is_file() and path != OUTPUT / MADE)
    return {path.relative_to(OUTPUT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def graded(notebook: Path, folder: Path) -> float:
    """Points of a notebook by Otter's tests out of the autograder of ``folder``, run in this process.

    For the book's own notebooks only. Students' work goes through ``otter grade``, in a container.
    """
    from otter.test_files import GradingResults
    from otter.test_files.ok_test import OKTestFile

    namespace: dict[str, Any] = {}
    for cell in nbformat.read(notebook, as_version=4).cells:
        # Otter's own cells need a notebook server's kernel; the tests come from the autograder instead.
        if cell.cell_type == "code" and not re.search(r"^(import otter|grader\.)", cell.source, re.MULTILINE):
            exec(cell.source, namespace)
    with TemporaryDirectory() as scratch, zipfile.ZipFile(folder / "grader" / "autograder.zip") as archive:
        names_of_tests = [name for name in archive.namelist() if re.match(r"tests/q\d+\.py$", name)]
        results = [OKTestFile.from_file(archive.extract(name, scratch)) for name in sorted(names_of_tests)]
        for result in results:
            result.run(dict(namespace))
    return float(GradingResults(results).total)


def _assign(assignment: Assignment, folder: Path) -> None:
    """Otter's two versions: student/NAME.ipynb, and grader/ with the solutions and autograder.zip."""
    from otter import logging
    from otter.assign import main

    logging.set_level("ERROR")
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{assignment.name}.ipynb"
        nbformat.write(master(assignment), path)
        main(str(path), str(Path(scratch) / "made"), no_pdfs=True, no_run_tests=True)
        (folder / "grader").mkdir(parents=True)
        shutil.copytree(Path(scratch) / "made" / "student", folder / "student")
        made = Path(scratch) / "made" / "autograder"
        shutil.copyfile(made / path.name, folder / "grader" / path.name)
        # Otter puts the time into the archive's name; here a name that a script can count on.
        (archive,) = made.glob("*autograder*.zip")
        shutil.copyfile(archive, folder / "grader" / "autograder.zip")
