"""The assignments: their solutions earn full marks, an empty copy none, and their answers are those of dplib."""

import ast
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict

import nbformat
import numpy as np
import pytest

from book.evidence import sources
from book.press import assignments, marking, variants
from dplib.checks import ParameterError
from tests.conftest import ROOT

NAMES = assignments.names()
OTTER = sorted((ROOT / "_build").glob("otter-*[0-9]"))
otter = pytest.mark.skipif(not OTTER, reason="Otter-Grader is not there: make assignments installs it")


def answers(assignment, change=lambda place, code: code):
    """The code of all solutions, changed by the place of their question."""
    questions = enumerate(assignment.questions)
    return [change(place, code) for place, question in questions for code in question.cells["solution"]]


def stubs(_, code):
    return marking.stub(code)


def solved(number):
    """The functions of an assignment's solutions."""
    assignment, namespace = assignments.load(next(n for n in NAMES if sources.number(n) == number)), {}
    for code in (*assignment.setup, *answers(assignment)):
        exec(code, namespace)
    return namespace


def test_every_chapter_has_an_assignment():
    whole = {name for name in sources.chapters() if sources.number(name).isdigit()}
    assert whole <= set(NAMES)
    assert [name for name in sources.chapters() if name in NAMES] == NAMES
    assert {path.stem for path in assignments.SOURCES.glob("*.md")} == set(NAMES), "an assignment without a chapter"


@pytest.mark.parametrize("name", NAMES)
def test_solutions_earn_full_marks_and_empty_answers_none(name):
    assignment = assignments.load(name)
    assert assignment.points == 10
    assert marking.marks(assignment, answers(assignment)) == pytest.approx(10, abs=1e-9)
    assert marking.marks(assignment, answers(assignment, stubs)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_shows_nothing_of_the_solution(name):
    for code in answers(assignments.load(name), stubs):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.FunctionDef):
                docstring, *rest = node.body
                assert isinstance(docstring.value, ast.Constant)
                assert [ast.unparse(line) for line in rest] == ["..."], f"{node.name} shows more than its docstring"


@pytest.mark.parametrize("name", NAMES)
def test_each_question_is_worth_its_own_points(name):
    """Without one question's answer exactly its points are missing, and those of questions that build on it."""
    assignment = assignments.load(name)
    for left_out, question in enumerate(assignment.questions):
        given = answers(assignment, lambda place, code, out=left_out: stubs(place, code) if place == out else code)
        left = marking.marks(assignment, given)
        assert left <= assignment.points - question.points + 1e-9
    assert left == pytest.approx(assignment.points - question.points), "nothing builds on the last one"


def guesses(code):
    """Answers of somebody who understood nothing: every function returns a number, or something of one argument."""
    functions = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef) and node.args.args]
    given = {argument.arg for function in functions for argument in function.args.args} - {"rng"}
    of_it = ("{0}", "len({0})", "1 / np.asarray({0})", "np.mean({0}, axis=0)", "np.zeros(np.shape({0}))")
    for value in ("0", "1", "0.5", "np.inf", "True", "False", *(form.format(name) for name in given for form in of_it)):
        yield "\n".join(f"def {f.name}({ast.unparse(f.args)}):\n    return {value}" for f in functions)


@pytest.mark.filterwarnings("ignore")  # guesses divide by zero
@pytest.mark.parametrize("name", NAMES)
def test_who_understood_nothing_earns_nothing(name):
    assignment = assignments.load(name)
    for place, question in enumerate(assignment.questions):
        for guess in guesses("\n".join(question.cells["solution"])):
            given = answers(assignment, lambda at, code, place=place, guess=guess: guess if at == place else code)
            assert marking.marks(assignment, given, place) == 0, f"{question.title}: marks for\n{guess}"


def watched(assignment, seen):
    """What tests find, each function of the solutions passed through ``seen(function, its arguments, its result)``."""
    namespace = {}
    for code in assignment.setup:
        exec(code, namespace)
    given = set(namespace)
    for code in answers(assignment):
        exec(code, namespace)

    def watch(function):
        def called(*values, **named):
            arguments = inspect.signature(function).bind(*values, **named).arguments
            return seen(function, arguments, function(*values, **named))

        return called

    asked = {name: f for name, f in namespace.items() if name not in given and inspect.isfunction(f)}
    return namespace | {name: watch(function) for name, function in asked.items()}


def by_numpy(value):
    """The same answer as arrays and NumPy's own numbers."""
    if isinstance(value, bool | int | float):
        return np.asarray(value)[()]
    alike = isinstance(value, list | tuple) and len({np.shape(part) for part in value}) == 1
    return np.array(value) if alike else value


def by_python(value):
    """The same answer as lists and Python's own numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [by_python(part) for part in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("written", [by_numpy, by_python])
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_another_type_is_as_right(name, written):
    assignment = assignments.load(name)
    namespace = watched(assignment, lambda function, arguments, result: written(result))
    for question in assignment.questions:
        for test in question.tests:
            exec(test, dict(namespace))


@pytest.mark.parametrize("name", NAMES)
def test_hidden_tests_give_what_a_check_has_given(name):
    """Who was shown an array is not given a list, nor who was shown a number either of them."""
    assignment = assignments.load(name)
    shown, given = defaultdict(set), defaultdict(set)
    for question in assignment.questions:
        for kind, into in (("check", shown), ("hidden", given)):

            def seen(function, arguments, result, into=into):
                for argument, value in arguments.items():
                    kinds = [k for k in (list | tuple, np.ndarray) if isinstance(value, k)]
                    into[function.__name__, argument].update(kinds or [object])
                return result

            for test in question.cells[kind]:
                exec(test, watched(assignment, seen))
    for argument in shown.keys() & given.keys():
        ready_for = shown[argument] | ({np.ndarray} if list | tuple in shown[argument] else set())
        assert given[argument] <= ready_for, f"{argument}: a check shows {shown[argument]}"


def _is_number(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


class _Nudge(ast.NodeTransformer):
    """Changes the n-th number of a piece of code a little: what a typing error does."""

    def __init__(self, place):
        self.place, self.seen = place, -1

    def visit_Constant(self, node):
        if _is_number(node):
            self.seen += 1
            if self.seen == self.place:
                return ast.copy_location(ast.Constant(node.value + 1), node)
        return node


@pytest.mark.filterwarnings("ignore")  # wrong numbers divide by zero
@pytest.mark.parametrize("name", NAMES)
def test_hidden_tests_notice_wrong_numbers(name):
    """Some numbers of a solution decide nothing (guards, precisions, limits of a search), but at least a third do."""
    assignment = assignments.load(name)
    for place, question in enumerate(assignment.questions):
        for code in question.cells["solution"]:
            if any(isinstance(node, ast.FunctionDef) and not node.args.args for node in ast.parse(code).body):
                continue  # an example: its numbers are free
            count = min(6, sum(_is_number(node) for node in ast.walk(ast.parse(code))))
            wrong = [ast.unparse(_Nudge(number).visit(ast.parse(code))) for number in range(count)]
            tried = [answers(assignment, lambda _, one, c=code, w=w: w if one == c else one) for w in wrong]
            noticed = sum(marking.marks(assignment, given, place) < question.points - 1e-9 for given in tried)
            assert noticed >= count / 3, f"{question.title}: {noticed} of {count} wrong numbers noticed"


ROUND = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Eq: ast.NotEq}
ROUND |= {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}


class _Slip(ast.NodeTransformer):
    """Turns the n-th sign or comparison of a piece of code round, or changes the n-th number."""

    def __init__(self, place):
        self.place, self.seen = place, -1

    def generic_visit(self, node):
        super().generic_visit(node)
        if type(node) not in ROUND and not _is_number(node):
            return node
        self.seen += 1
        if self.seen != self.place:
            return node
        return ast.copy_location(ast.Constant(node.value + 1), node) if _is_number(node) else ROUND[type(node)]()


def slips(code):
    """Every wrong version of a solution with one slip in it."""
    for place in itertools.count():
        slip = _Slip(place)
        wrong = ast.unparse(slip.visit(ast.parse(code)))
        if slip.seen < place:
            return
        yield wrong


@pytest.mark.filterwarnings("ignore")  # wrong numbers divide by zero
@pytest.mark.parametrize("name", NAMES)
def test_what_a_check_refuses_earns_less(name):
    """A check earns nothing: what it sees, a hidden test has to see as well."""
    assignment = assignments.load(name)
    for question in assignment.questions:
        for code in question.cells["solution"]:
            for wrong in slips(code):
                namespace = {}
                given = answers(assignment, lambda _, one, c=code, w=wrong: w if one == c else one)
                for cell in (*assignment.setup, *given):
                    exec(cell, namespace)
                refused, less = (
                    any(marking._failure(test, dict(namespace), seconds=0.2) for test in question.cells[kind])
                    for kind in ("check", "hidden")
                )
                assert less or not refused, f"{question.title}: full marks, and a check refuses\n{wrong}"


def test_a_wrong_judgement_of_six_costs_a_point_of_three():
    """They had been tested together: who knew five of the six earned nothing."""
    assignment = assignments.load("09_label_dp_training")
    right = {"a": True, "b": False, "c": True, "d": False, "e": False, "f": True}

    def earned(said):
        code = f"def keeps_the_guarantee():\n    return {said}"
        return marking.marks(assignment, answers(assignment, lambda place, one: code if place == 3 else one), 3)

    assert earned(right) == 3
    assert {earned(right | {wrong: not right[wrong]}) for wrong in right} == {2}
    assert earned(dict.fromkeys(right, True)) == earned(dict.fromkeys(right, False)) == 0


def test_a_source_with_a_fault_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(assignments, "SOURCES", tmp_path)
    text = (ROOT / "book" / "assignments" / "08_rr_with_prior.md").read_text(encoding="utf-8")
    (tmp_path / "08_rr.md").write_text(text.replace(":tags: [hidden]", ":tags: [hiden]", 1), encoding="utf-8")
    with pytest.raises(ParameterError, match=r"08_rr: a cell tagged \[\] is none of"):
        assignments.load("08_rr")
    (tmp_path / "08_rr.md").write_text(text.replace(":tags: [hidden]", ":tags: [check]"), encoding="utf-8")
    with pytest.raises(ParameterError, match="has no cell tagged hidden"):
        assignments.load("08_rr")


def test_answers_agree_with_dplib():
    from dplib import exact_loss, mechanisms, randomised_response, reconstruction
    from papers.architecture import crossover_rows, feature_scores
    from papers.labels.bounds import rr_worst_second_moment

    first, one, four, six, eight, ten, twelve = map(solved, ("00a", "01", "04", "06", "08", "10b", "12"))
    groups, secret = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]]), np.array([1, 0, 1, 1])
    fixed = first["exposed"](groups, groups @ secret)
    assert fixed.tolist() == [True, True, True, False]
    assert (reconstruction.from_sums(groups, groups @ secret) == secret)[fixed].all()
    assert first["die_epsilon"](0.2, 0.3) == pytest.approx(exact_loss.discrete_epsilon([[0.7, 0.3], [0.2, 0.8]], 0))
    assert one["gaussian_delta"](2.0, 1.0, 0.7) == pytest.approx(mechanisms.gaussian_delta(2.0, 1.0, 0.7))
    assert one["gaussian_sigma"](0.8, 1e-5, 2.0) == pytest.approx(mechanisms.analytic_sigma(0.8, 1e-5, 2.0), rel=1e-6)
    assert four["best_of"]([0.1, 0.5, 0.7, 0.2], 3) == pytest.approx(crossover_rows.best_of([0.1, 0.5, 0.7, 0.2], 3))
    assert six["entropy_sensitivity"](191) == pytest.approx(feature_scores.entropy_sensitivity(191))
    prior = np.array([0.5, 0.2, 0.2, 0.1])
    for k in (1, 2, 4):
        log_table = randomised_response.log_table(randomised_response.top(prior, k), 1.3)
        assert eight["top_k_table"](prior, k, 1.3) == pytest.approx(np.exp(log_table))
    assert eight["switch_points"](prior) == pytest.approx(randomised_response.switch_points(prior))
    assert eight["best_k"](prior, 1.3) == randomised_response.best_k(prior, 1.3)
    assert ten["worst_second_moment"](10, 0.5) == pytest.approx(rr_worst_second_moment(10, 0.5))
    p, q = [0.5, 0.3, 0.2], [0.4, 0.1, 0.5]
    assert twelve["exact_epsilon"](p, q, 0.05) == pytest.approx(exact_loss.discrete_epsilon([p, q], 0.05), abs=1e-8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All assignments, made and graded by Otter in a process that can import it."""
    folder = tmp_path_factory.mktemp("assignments")
    code = (
        "import pathlib; from book.press import assignments as a; "
        f"a.OUTPUT = pathlib.Path({str(folder)!r}); [*map(print, a.build())]"
    )
    environment = {**os.environ, "PYTHONPATH": f"{OTTER[-1]}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if "points;" in line]
    assert len(lines) == len(NAMES)
    assert all(line.endswith("10 points; the solutions earn 10, an empty notebook 0") for line in lines)
    return folder, environment


@otter
def test_students_get_no_hidden_test_and_no_solution(made):
    for name in NAMES:
        text = nbformat.writes(nbformat.read(made[0] / name / "student" / f"{name}.ipynb", as_version=4))
        assert "SOLUTION" not in text
        assert '"hidden": true' not in text
        for test in (test for question in assignments.load(name).questions for test in question.cells["hidden"]):
            assert max(test.splitlines(), key=len).strip() not in text


def otter_run(made, notebook, folder):
    """Mark a notebook of one assignment as a container does it."""
    archive = made[0] / NAMES[7] / "grader" / "autograder.zip"
    command = [sys.executable, "-m", "otter", "run", "-a", str(archive), "-o", str(folder), str(notebook)]
    return subprocess.run(command, env=made[1], cwd=folder, capture_output=True, text=True, check=False)


@otter
def test_otter_refuses_a_notebook_of_another_version(made, tmp_path):
    """By the wrong hidden tests right answers would earn two points of ten."""
    notebook = assignments.master(variants.variant(assignments.load(NAMES[7]), 5)).cells[0].source
    name = re.search("name: (.+)", notebook)[1]
    mine = nbformat.read(made[0] / NAMES[7] / "grader" / f"{NAMES[7]}.ipynb", as_version=4)
    mine.metadata["otter"]["assignment_name"] = name
    nbformat.write(mine, tmp_path / "mine.ipynb")
    done = otter_run(made, tmp_path / "mine.ipynb", tmp_path)
    assert done.returncode != 0
    assert f"'{name}'" in done.stderr + done.stdout


@otter
@pytest.mark.parametrize(("version", "points"), [("grader", 10), pytest.param("student", 0, marks=pytest.mark.long)])
def test_otter_run_agrees(made, tmp_path, version, points):
    """The real thing, with a kernel, on one assignment: what a container does for every submission."""
    done = otter_run(made, made[0] / NAMES[7] / version / f"{NAMES[7]}.ipynb", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert sum(test.get("score", 0) for test in results["tests"]) == pytest.approx(points)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_fails_the_public_solution_and_passes_its_own(name):
    public = assignments.load(name)
    mine = variants.variant(public, 5)
    assert mine == variants.variant(public, 5) != variants.variant(public, 6)
    assert marking.marks(mine, answers(mine)) == pytest.approx(10, abs=1e-9)
    assert marking.marks(mine, answers(mine, stubs)) == 0
    assert marking.marks(mine, answers(public)) <= 6  # as the week pages say


@pytest.mark.parametrize("seed", [3, 6])
def test_what_a_copier_keeps_does_not_depend_on_the_seed(seed):
    """With these seeds it was eight points: there and back from such units rounded, and a question stayed as it was."""
    public = assignments.load(next(name for name in NAMES if sources.number(name) == "11"))
    assert marking.marks(variants.variant(public, seed), answers(public)) <= 6
