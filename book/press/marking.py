"""Assignments marked with Python, NumPy and SciPy alone: the core of them, and the program that a teacher downloads.

:func:`pack` puts this module, :mod:`book.press.variants` and every assignment into one file, ``mark.pyz``, which the
site carries. ``python mark.pyz mark 00a_why_noise submissions`` runs every notebook of a folder in a process of its
own, with a limit of computing for each cell, and writes ``marks.csv``. A process is no wall: it has the teacher's
rights.
"""

import argparse
import builtins
import contextlib
import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from dplib import checks
from dplib.checks import ParameterError

KINDS = ("solution", "check", "hidden")
SECONDS = 20  # of computing, for a cell and for a test: a busy machine takes no marks
DAY = 24 * 60 * 60
MODULES = ("book/__init__.py", "book/press/__init__.py", "book/press/marking.py", "book/press/variants.py")
LIBRARY = ("dplib/__init__.py", "dplib/checks.py")
MAIN = "from book.press.marking import main\n\nmain()\n"
DATA = "assignments.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal files give equal bytes
INTRODUCTION = (
    "*Replace each `...` by your own code. The cell below a question is a check that you can see; marks come from "
    "others that you cannot. Python with numpy and scipy is enough.*"
)
PUBLIC = "public"  # the version that everybody has
# The line by which marking knows what a notebook answers.
_LINE = re.compile(r"^# (\w+), version ([\w.]+): leave this line", re.MULTILINE)
# What only Jupyter understands: magic commands, shell commands, help.
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|[^#\n]*\?)[ \t]*$", re.MULTILINE)
# A solution, from its first line to its last, with the indentation of both.
_SOLUTION = re.compile(r"^( *)# BEGIN SOLUTION\n.*?^ *# END SOLUTION *$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """One question: what it asks, its points, and the cells of each kind (solution, check, hidden)."""

    title: str
    points: int
    text: str
    cells: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def shares(self) -> list[float]:
        """Points of each test: none for those that students see, the rest in equal parts, whole hundredths."""
        hidden = len(self.cells["hidden"])
        each = round(self.points / hidden, 2)
        last = round(self.points - each * (hidden - 1), 2)  # so that they add up
        return [0.0] * len(self.cells["check"]) + [each] * (hidden - 1) + [last]

    @property
    def tests(self) -> list[str]:
        """The tests that students see, and then those that they do not."""
        return [*self.cells["check"], *self.cells["hidden"]]


@dataclass(frozen=True)
class Assignment:
    """An assignment's name, introduction, cells for everybody, questions, and which of its versions it is."""

    name: str
    introduction: str
    setup: list[str]
    questions: list[Question]
    version: str = PUBLIC

    @property
    def line(self) -> str:
        """What stands in the students' notebook, and what marking looks for there."""
        return f"# {self.name}, version {self.version}: leave this line, marking reads it."

    @property
    def points(self) -> int:
        """Full marks."""
        return sum(question.points for question in self.questions)


def stub(code: str) -> str:
    """A solution cell as students get it: ``...`` in place of what they are to write."""
    return _SOLUTION.sub(r"\1...", code)


def about(test: str) -> str:
    """What a test is about: the comment in its first line, empty where there is none."""
    first = re.search(r"(?m)^(?!def |    |\s*$).*$", test)  # a variant has a helper above it
    return first[0][2:] if first and first[0].startswith("# ") else ""


def marks(assignment: Assignment, answers: Sequence[str], only: int | None = None) -> float:
    """Points that code cells earn, by running the tests here and now: for the book's own solutions, not for strangers'.

    ``only`` is the place of a question, from 0; None for all of them.
    """
    namespace: dict[str, Any] = {}
    for code in (*assignment.setup, *answers):
        exec(code, namespace)
    questions = assignment.questions if only is None else [assignment.questions[only]]
    return sum(
        share
        for question in questions
        for test, share in zip(question.tests, question.shares, strict=True)
        if not _failure(test, dict(namespace))
    )


def handout(assignment: Assignment) -> dict[str, Any]:
    """An assignment as students get it, a notebook: without solutions and hidden tests, and with nothing to install."""
    cells = [("markdown", f"{assignment.introduction}\n\n{INTRODUCTION}"), *_code(_setup(assignment))]
    for question in assignment.questions:
        cells += [("markdown", _heading(question)), *_code(map(stub, question.cells["solution"]))]
        cells += _code(question.cells["check"])
    return _notebook(cells)


def solved(assignment: Assignment, seed: int | None = None) -> dict[str, Any]:
    """An assignment for the teacher, a notebook: solutions, tests with the points that they earn, the seed if any."""
    made = "" if seed is None else f"\n\nMade with `--seed {seed}`: marking needs it, and students must not have it."
    cells = [("markdown", assignment.introduction + made), *_code(_setup(assignment))]
    for question in assignment.questions:
        cells += [("markdown", _heading(question)), *_code(question.cells["solution"])]
        marked = zip(question.tests, question.shares, strict=True)
        cells += _code(f"# {share:g} points\n{test}" for test, share in marked)
    return _notebook(cells)


def pack(assignments: Sequence[Assignment], root: Path, path: Path) -> None:
    """Write the program with these assignments in it.

    Args:
        assignments: what it can mark.
        root: the folder that ``book`` and ``dplib`` are in.
        path: the file, which any Python runs.
    """
    files = {name: (root / name).read_text(encoding="utf-8") for name in (*MODULES, *LIBRARY)}
    files |= {
        "__main__.py": MAIN,
        DATA: json.dumps([asdict(assignment) for assignment in assignments], ensure_ascii=False),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text.encode())


def main() -> None:
    """The command line of ``mark.pyz``."""
    program = Path(sys.argv[0])
    parser = argparse.ArgumentParser(prog=f"python {program.name}", description="Mark the assignments of the course.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the assignments, with their points")
    marker = commands.add_parser("mark", help="mark every notebook of a folder; writes marks.csv")
    maker = commands.add_parser("make", help="write the notebook for students, and the one with solutions and tests")
    single = commands.add_parser("one", help="mark one notebook here and now; mark calls it")
    for sub, argument in ((marker, "folder"), (maker, "folder"), (single, "notebook")):
        sub.add_argument("assignment")
        sub.add_argument(argument, type=Path)
        sub.add_argument("--seed", type=int, help="of a variant in which the public solutions fail: keep it secret")
        sub.add_argument("--seconds", type=float, default=SECONDS, help="of computing, for each cell and test (20)")
    single.add_argument("result", type=Path)
    asked = parser.parse_args()
    with zipfile.ZipFile(program) as archive:
        known = {item["name"]: _loaded(item) for item in json.loads(archive.read(DATA))}
    if asked.command == "list":
        print("\n".join(f"{name}: {assignment.points} points" for name, assignment in known.items()))
        return
    try:
        if asked.assignment not in known:
            raise ParameterError(f"{asked.assignment} is none of the assignments: {', '.join(known)}.")
        checks.number(0, DAY).check("seconds", asked.seconds)
        assignment = known[asked.assignment]
        if asked.seed is not None:
            checks.integer(0).check("seed", asked.seed)
            from book.press import variants

            assignment = variants.variant(assignment, asked.seed)
        if asked.command == "make":
            _make(assignment, asked.folder, asked.seed)
        elif asked.command == "one":
            asked.result.write_text(json.dumps(one_notebook(assignment, asked.notebook, asked.seconds)))
        else:
            _mark(program, assignment, asked)
    except (ParameterError, OSError) as error:
        sys.exit(f"Error: {error}")


def one_notebook(assignment: Assignment, path: Path, seconds: float) -> dict[str, Any]:
    """Run a student's notebook here and test it: points by question, and what failed.

    A cell that fails is passed over, as one wrong answer costs no other. Magic commands are left out. A name of Python
    or of the setup that a student took for something else means in tests what it meant before.

    Raises:
        ParameterError: for what is no notebook, and for one of another assignment or version.
    """
    namespace: dict[str, Any] = {}
    for code in assignment.setup:
        exec(code, namespace)
    given = dict(namespace)
    cells = _cells(path)
    notes = _answers(assignment, cells)
    for number, code in enumerate(map(_plain, cells), start=1):
        if (failed := _failure(code, namespace, seconds)) and not failed.startswith("AssertionError"):
            notes.append(f"cell {number}: {failed}")
    tested = {name: value for name, value in namespace.items() if not hasattr(builtins, name)} | given
    points = []
    for number, question in enumerate(assignment.questions, start=1):
        earned = 0.0
        for place, (test, share) in enumerate(zip(question.tests, question.shares, strict=True)):
            failed = _failure(test, dict(tested), seconds)
            earned += 0 if failed else share
            if failed and share:
                hidden = place + 1 - len(question.cells["check"])
                what = f" ({about(test)})" if about(test) else ""
                notes.append(f"question {number}, hidden test {hidden}{what}: {failed}")
        points.append(round(earned, 2))
    return {"points": points, "notes": notes}


def _mark(program: Path, assignment: Assignment, asked: argparse.Namespace) -> None:
    """Mark what was handed in, each notebook in a process of its own, and write marks.csv beside it."""
    handed_in = [path for entry in sorted(asked.folder.iterdir()) for path in _handed_in(entry)]
    if not any(map(_is_notebook, handed_in)):
        raise ParameterError(f"{asked.folder} has no notebook (.ipynb).")
    path, file = _table(asked.folder)
    with file:
        table = csv.writer(file)
        table.writerow(["notebook", *(question.title for question in assignment.questions), "points", "notes"])
        for handed in handed_in:
            name = handed.relative_to(asked.folder).as_posix()
            can_be = _is_notebook(handed)
            marks = _apart(program, assignment, handed, asked) if can_be else _unmarked("no notebook (.ipynb)")
            points, notes = marks["points"], "; ".join(marks["notes"])
            total = round(sum(points), 2) if points else ""
            table.writerow([name, *(points or [""] * len(assignment.questions)), total, notes])
            file.flush()
            print(f"{name}: {total:g} of {assignment.points}" if points else f"{name}: {notes}")
    print(path)


def _handed_in(entry: Path) -> list[Path]:
    """The notebooks in an entry of the folder, a file or somebody's folder with whatever in it; else the entry itself,
    which is somebody's mistake. Hidden files and earlier marks are nobody's.
    """
    if entry.name.startswith(".") or re.fullmatch(r"marks.*\.csv", entry.name):
        return []
    inside = sorted(entry.rglob("*")) if entry.is_dir() else []
    seen = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(entry).parts)]
    return [path for path in seen if _is_notebook(path)] or [entry]


def _is_notebook(path: Path) -> bool:
    return path.suffix.lower() == ".ipynb" and path.is_file()


def _unmarked(why: str) -> dict[str, Any]:
    """No points, which is another thing than none earned."""
    return {"points": [], "notes": [f"not marked: {why}"]}


def _table(folder: Path) -> tuple[Path, TextIO]:
    """A new file for marks, open: earlier ones stay, for somebody may have corrected them."""
    for number in itertools.count(1):
        path = folder / ("marks.csv" if number == 1 else f"marks-{number}.csv")
        with contextlib.suppress(FileExistsError):
            return path, path.open("x", newline="", encoding="utf-8-sig")
    raise AssertionError


def _apart(program: Path, assignment: Assignment, notebook: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """What :func:`one_notebook` finds, in a process and an empty folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, str(program.resolve()), "one", asked.assignment, str(notebook.resolve())]
        command += [str(result), "--seconds", str(asked.seconds)]
        command += [] if asked.seed is None else ["--seed", str(asked.seed)]
        tests = sum(len(question.tests) for question in assignment.questions)
        limit = max(300, (2 * tests + 20) * asked.seconds)  # of a clock, for who sleeps
        said = Path(scratch) / "said"
        # No pipe: what a notebook starts and leaves behind would hold it open. A session of its own, to end that too.
        with said.open("wb") as errors:
            child = subprocess.Popen(
                command,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        try:
            child.wait(limit)
            if result.exists():
                return json.loads(result.read_text())
            last = said.read_text(errors="replace").strip().splitlines()
            note = last[-1] if last else "the program ended before its marks"
        except subprocess.TimeoutExpired:
            note = "took too long"
        finally:
            _end(child)
        return _unmarked(note)


def _end(child: subprocess.Popen) -> None:
    """End a process, and where there are groups whatever it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def _make(assignment: Assignment, folder: Path, seed: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kinds = (("", handout(assignment)), ("-solved", solved(assignment, seed)))
    made = {
        folder / f"{assignment.name}{kind}.ipynb": json.dumps(notebook, indent=1, ensure_ascii=False)
        for kind, notebook in kinds
    }
    for path, text in made.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise ParameterError(f"{path} is there, and is another one: move it, or give another folder.")
    for path, text in made.items():
        path.write_bytes(text.encode())
        print(path)


def _cells(path: Path) -> list[str]:
    """The code cells of a notebook."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise ParameterError(f"{path.name} is no notebook: {type(error).__name__}.") from error


def _answers(assignment: Assignment, cells: Sequence[str]) -> list[str]:
    """A note where nothing says what the notebook answers; ParameterError where it is something else."""
    said, asked = _LINE.findall("\n".join(cells)), (assignment.name, assignment.version)
    if said and asked not in said:
        other, mine = (f"{name}, version {version}" for name, version in (said[0], asked))
        need = "without --seed" if said[0][1] == PUBLIC else "with the --seed that it was made with"
        raise ParameterError(f"it answers {other}, not {mine}: mark it as that, {need}.")
    return [] if said else [f"nothing in it says which version it answers: taken for {assignment.version}"]


def _plain(code: str) -> str:
    """Code as it is where Python takes it, else without what only Jupyter understands."""
    try:
        compile(code, "cell", "exec")
    except Exception:  # whatever a compiler finds
        return _MAGIC.sub(r"\1pass", code)
    return code


def _failure(code: str, namespace: dict[str, Any], seconds: float = 0) -> str:
    """Run code; "" where it ends well, else what it raised, whatever a wrong answer may raise."""
    try:
        with _alarm(seconds):
            exec(code, namespace)
    except (Exception, SystemExit, _TooLong) as error:
        return f"{type(error).__name__}: {error}".strip(": ").replace("\n", " ")[:200]
    return ""


class _TooLong(BaseException):
    """Too much computing; no Exception, which a loop might catch."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """_TooLong after so many seconds of computing; 0, and systems without such alarms, for none."""
    if not seconds or not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: Any) -> None:
        raise _TooLong(f"more than {seconds:g} seconds of computing")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _loaded(item: Mapping[str, Any]) -> Assignment:
    questions = [Question(**question) for question in item["questions"]]
    return Assignment(item["name"], item["introduction"], item["setup"], questions)


def _setup(assignment: Assignment) -> list[str]:
    """The cells for everybody, below the line that says which version this is."""
    return ["\n".join([assignment.line, *assignment.setup[:1]]), *assignment.setup[1:]]


def _heading(question: Question) -> str:
    return f"## {question.title} ({question.points} point{'s' * (question.points != 1)})\n\n{question.text}"


def _code(cells: Any) -> list[tuple[str, str]]:
    return [("code", source) for source in cells]


def _notebook(cells: Sequence[tuple[str, str]]) -> dict[str, Any]:
    made = []
    for number, (kind, source) in enumerate(cells):
        more = {"execution_count": None, "outputs": []} if kind == "code" else {}
        made.append({"id": f"cell-{number:03d}", "cell_type": kind, "metadata": {}, "source": source, **more})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
