"""The program that a teacher downloads: it marks a folder of notebooks with nothing but NumPy and SciPy."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from book.press import assignments, marking, variants
from tests.conftest import ROOT

NAME = "00a_why_noise"
LOOP = "while True:\n    pass"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "mark.pyz"
    marking.pack([assignments.load(NAME)], ROOT, path)
    return path


def called(program, *arguments):
    """The program in a folder where no module of the book is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", str(program), *map(str, arguments)]
    return subprocess.run(command, cwd=program.parent, env=environment, capture_output=True, text=True, check=False)


def hand_in(folder, name, cells, of=None):
    folder.mkdir(exist_ok=True)
    cells = [(of or assignments.load(NAME)).line, *cells]
    notebook = marking._notebook([("code", code) for code in cells if code])
    (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def answers(assignment, change=lambda code: code):
    return [change(code) for question in assignment.questions for code in question.cells["solution"]]


def marked(folder):
    with (folder / "marks.csv").open(encoding="utf-8-sig") as file:
        return {row["notebook"].removesuffix(".ipynb"): row for row in csv.DictReader(file)}


def test_a_folder_is_marked_whatever_is_in_it(program, tmp_path):
    assignment = assignments.load(NAME)
    right = answers(assignment)
    hand_in(tmp_path, "right", right)
    hand_in(tmp_path, "empty", answers(assignment, marking.stub))
    hand_in(tmp_path, "one-never-ends", [right[0].split("# BEGIN")[0] + LOOP.replace("\n", "\n    "), *right[1:]])
    hand_in(tmp_path, "a-cell-never-ends", [LOOP, *right])
    hand_in(tmp_path, "leaves", ["%matplotlib inline\n!ls", *right, "raise SystemExit", "import os; os._exit(0)"])
    hand_in(tmp_path, "only-a-yes", [right[0].replace("max(of_a_yes, of_a_no)", "of_a_yes"), *right[1:]])
    (tmp_path / "broken.ipynb").write_text("{", encoding="utf-8")
    done = called(program, "mark", NAME, tmp_path, "--seconds", 2)
    assert done.returncode == 0, done.stderr
    marks = marked(tmp_path)
    points = {name: float(row["points"]) for name, row in marks.items() if row["points"]}
    assert points == {
        "right": 10, "empty": 0, "one-never-ends": 8, "a-cell-never-ends": 10, "only-a-yes": 8
    }  # fmt: skip
    assert "both answers count" in marks["only-a-yes"]["notes"]
    assert "more than 2 seconds" in marks["one-never-ends"]["notes"]
    assert "no notebook" in marks["broken"]["notes"]
    assert "ended before its marks" in marks["leaves"]["notes"]
    assert not marks["right"]["notes"]


def test_marks_that_are_there_stay_and_so_does_a_notebook_that_a_teacher_changed(program, tmp_path):
    hand_in(tmp_path, "right", answers(assignments.load(NAME)))
    (tmp_path / "marks.csv").write_text("corrected by hand")
    for number in (2, 3):
        done = called(program, "mark", NAME, tmp_path)
        assert done.stdout.strip().endswith(f"marks-{number}.csv")
    assert (tmp_path / "marks.csv").read_text() == "corrected by hand"
    made = tmp_path / "made"
    for _ in range(2):
        assert called(program, "make", NAME, made).returncode == 0
    (made / f"{NAME}-solved.ipynb").write_text("mine")
    before = (made / f"{NAME}.ipynb").read_bytes()
    done = called(program, "make", NAME, made, "--seed", 7)
    assert done.returncode == 1
    assert "is another one" in done.stderr
    assert (made / f"{NAME}-solved.ipynb").read_text() == "mine"
    assert (made / f"{NAME}.ipynb").read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="needs sleep, and groups of processes")
def test_what_a_notebook_leaves_running_holds_nobody_up_and_is_ended(program, tmp_path):
    code = f"echo $$ > {tmp_path}/pid; sleep 200; true"
    left = f"import subprocess, time; held = subprocess.Popen(['sh', '-c', {code!r}]); time.sleep(1)"
    hand_in(tmp_path, "leaves", [*answers(assignments.load(NAME)), left])
    begun = time.monotonic()
    assert called(program, "mark", NAME, tmp_path).returncode == 0
    assert time.monotonic() - begun < 150
    assert float(marked(tmp_path)["leaves"]["points"]) == 10
    assert ended(int((tmp_path / "pid").read_text()))


def ended(pid):
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def test_a_variant_is_made_and_marked_by_its_seed(program, tmp_path):
    assert called(program, "make", NAME, tmp_path / "made", "--seed", 7).returncode == 0
    student = json.loads((tmp_path / "made" / f"{NAME}.ipynb").read_text(encoding="utf-8"))
    assert "In your version" in json.dumps(student)
    mine = variants.variant(assignments.load(NAME), 7)
    hand_in(tmp_path, "mine", answers(mine), of=mine)
    hand_in(tmp_path, "public", answers(assignments.load(NAME)), of=mine)
    assert called(program, "mark", NAME, tmp_path, "--seed", 7).returncode == 0
    marks = marked(tmp_path)
    points = {name: float(row["points"]) for name, row in marks.items()}
    assert points["mine"] == points[f"made/{NAME}-solved"] == 10
    assert points["public"] <= 3
    assert points[f"made/{NAME}"] == 0
    assert not marks["mine"]["notes"]


@pytest.mark.parametrize("seed", [None, 8])
def test_a_notebook_of_another_version_is_not_marked(program, tmp_path, seed):
    """Right answers to a variant had earned at most three points of ten without its seed, and nothing said why."""
    mine, public = variants.variant(assignments.load(NAME), 7), assignments.load(NAME)
    hand_in(tmp_path, "mine", answers(mine), of=mine)
    hand_in(tmp_path, "its-line-is-gone", ["", *answers(mine)], of=replace(mine, name=""))
    hand_in(tmp_path, "public", answers(public))
    hand_in(tmp_path, "another", answers(public), of=replace(public, name="08_rr_with_prior"))
    assert called(program, "mark", NAME, tmp_path, *(() if seed is None else ("--seed", seed))).returncode == 0
    marks = marked(tmp_path)
    assert not marks["mine"]["points"]
    assert f"it answers {NAME}, version {mine.version}, not {NAME}, version " in marks["mine"]["notes"]
    assert "with the --seed that it was made with" in marks["mine"]["notes"]
    assert float(marks["its-line-is-gone"]["points"]) <= 6
    assert "nothing in it says which version it answers" in marks["its-line-is-gone"]["notes"]
    assert marks["public"]["points"] == ("10.0" if seed is None else "")
    assert "it answers 08_rr_with_prior" in marks["another"]["notes"]


def test_the_seed_of_a_variant_is_in_the_teachers_notebook_alone():
    mine = variants.variant(assignments.load(NAME), 20261123)
    assert "--seed 20261123" in json.dumps(marking.solved(mine, 20261123))
    assert "20261123" not in json.dumps(marking.handout(mine))
    assert mine.line in json.dumps(marking.handout(mine))


def test_harmless_habits_cost_no_marks(program, tmp_path):
    right = answers(assignments.load(NAME))
    beside = {
        "takes-names": "all = list = min = range = 3",
        "percent-ahead": "left = (7\n    % 4)",
        "asks": "np.sum?\n?np.sum\n# why?\ndef f():\n# why so?\n    return 1",
        "times": "%matplotlib inline\nif True:\n    %time 1",
    }
    for name, code in beside.items():
        hand_in(tmp_path, name, [f"{code}\n{right[0]}", *right[1:], code])
    hand_in(tmp_path, "marked", right)
    text = (tmp_path / "marked.ipynb").read_text(encoding="utf-8")
    (tmp_path / "marked.ipynb").write_text(text, encoding="utf-8-sig")
    for folder in ("of one", "of one/.ipynb_checkpoints"):
        hand_in(tmp_path / folder, "work", right)
    (tmp_path / "of one" / "work.ipynb").rename(tmp_path / "of one" / "work.IPYNB")
    (tmp_path / "of two").mkdir()
    for name in ("script.py", "marks-1.csv", ".hidden", "of two/work.ipynb.txt"):
        (tmp_path / name).write_text("1")
    assert called(program, "mark", NAME, tmp_path).returncode == 0
    marks = {name: row["points"] or row["notes"] for name, row in marked(tmp_path).items()}
    lost = dict.fromkeys(("script.py", "of two"), "not marked: no notebook (.ipynb)")
    assert marks == dict.fromkeys((*beside, "marked", "of one/work.IPYNB"), "10.0") | lost


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_a_loop_that_catches_exceptions_ends_all_the_same():
    loop = "while True:\n    try:\n        sum(range(9999))\n    except Exception:\n        pass"
    assert "more than 0.1 seconds" in marking._failure(loop, {}, 0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mark", "99_none", "."), "none of the assignments"),
        (("mark", NAME, "."), "no notebook"),
        (("mark", NAME, ".", "--seconds", -1), "seconds = -1.0 is not allowed: it must be a finite number"),
        (("mark", NAME, ".", "--seconds", "inf"), "seconds = inf is not allowed"),
        (("make", NAME, "made", "--seed", -1), "seed = -1 is not allowed: it must be a whole number"),
        (("make", NAME, "mark.pyz"), "File exists: 'mark.pyz'"),
    ],
)
def test_a_mistake_is_one_sentence(program, arguments, said):
    done = called(program, *arguments)
    assert done.returncode
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_what_it_has(program):
    assert called(program, "list").stdout.strip() == f"{NAME}: 10 points"
