"""Sources of the chapters: figures in words, headings in order, links that make sense, exercises with solutions."""

import ast
import functools
import pkgutil
import re
from collections import Counter
from itertools import pairwise

import pytest

from book.evidence import sources

CHAPTERS = sources.chapters()
GRADES = ("easy", "medium", "hard", "open")
EXERCISE = re.compile(r"^```+\{exercise\} (?P<title>.+)\n:label: (?P<label>\S+)$", re.MULTILINE)
SOLUTION = re.compile(r"(?ms)^(?P<fence>```+)\{solution\} (?P<label>\S+)\n(?P<body>.*?)^(?P=fence)$")
GATE = re.compile(r"^```\{solution-(?P<end>start|end)\}(?: (?P<label>\S+)\n:class: dropdown)?$", re.MULTILINE)
FENCED = re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?<!`)`([a-zA-Z_]\w*)((?:\.[a-zA-Z_]\w*)+)(?:\([^`]*\))?`(?!`)")
OF_OTHERS = {"train.py"}  # a file of another repository
COLUMN = 76  # characters of code that a window of 1,280 pixels shows, in a solution's box too
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
EMPTY_WORDS = {"here", "this", "link", "this link", "click here", "this page", "there", "more"}


@functools.cache
def cells_of(chapter: str) -> list:
    return sources.as_notebook(sources.source(chapter)).cells


def prose(chapter: str) -> list[str]:
    """The Markdown cells of a chapter."""
    return [cell.source for cell in cells_of(chapter) if cell.cell_type == "markdown"]


def texts(chapter: str) -> list[str]:
    """The alternative texts of a chapter's figures."""
    images = [cell.metadata.get("mystnb", {}).get("image", {}) for cell in cells_of(chapter)]
    return [image["alt"] for image in images if "alt" in image]


def exercises(chapter: str) -> dict[str, str]:
    """Label to title."""
    values = [match.group("label", "title") for match in EXERCISE.finditer("\n\n".join(prose(chapter)))]
    assert len(values) == len(dict(values)), "two exercises have one label"
    return dict(values)


def gates(chapter: str) -> dict[str, list]:
    """Label of each gated solution to the code cells within; every gate that opens is closed before the next."""
    found, open_ = {}, None
    for cell in cells_of(chapter):
        if cell.cell_type == "code":
            if open_:
                found[open_].append(cell)
            continue
        for gate in GATE.finditer(cell.source):
            assert (gate["end"] == "end") == (open_ is not None), f"{chapter}: gates are not in pairs"
            open_ = gate["label"]
            if open_:
                found[open_] = []
    assert open_ is None, f"{chapter}: the last gate is open"
    return found


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_figures_have_texts_that_say_what_they_show(chapter):
    assert texts(chapter)
    for text in texts(chapter):
        assert 120 <= len(text) <= 700, text
        assert text[0].isupper(), text
        assert text.endswith("."), text
        assert not re.search(r"[$`{}_\\]{2}|\$", text), f"a reader hears the characters: {text}"
        assert not text.lower().startswith(("figure", "image", "picture", "plot of")), text


def test_no_two_figures_have_the_same_text():
    count = Counter(text for chapter in CHAPTERS for text in texts(chapter))
    assert count.most_common(1)[0][1] == 1


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_headings_are_in_order(chapter):
    cells = [FENCED.sub("", cell) for cell in prose(chapter)]
    headings = [match.groups() for cell in cells for match in re.finditer(r"^(#{1,6}) (.+)$", cell, re.MULTILINE)]
    levels = [len(marks) for marks, _ in headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    steps = [later - earlier for earlier, later in pairwise(levels)]
    assert max(steps) <= 1, f"{chapter}: a level is skipped before {headings[steps.index(max(steps)) + 1][1]!r}"
    repeated = [text for text, times in Counter(text.lower() for _, text in headings).items() if times > 1]
    assert not repeated, "two headings with one text have one address"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_link_makes_sense_alone(chapter):
    links = [match[1] for cell in prose(chapter) for match in re.finditer(r"(?<!!)\[([^\]\n]*)\]\([^)\n]+\)", cell)]
    links += [match[1] for cell in prose(chapter) for match in re.finditer(r"\{(?:doc|ref)\}`([^`<]+) <", cell)]
    assert not [text for text in links if text.strip().lower() in EMPTY_WORDS or not text.strip()]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_at_least_four_graded_exercises_with_solutions(chapter):
    exercises_ = exercises(chapter)
    parts = [one for one in CHAPTERS if one[:2] == chapter[:2]]  # 9 and 9b are one chapter on two pages
    assert sum(len(exercises(part)) for part in parts) >= 4
    assert exercises_
    grades = [title.rpartition(" · ")[2] for title in exercises_.values()]
    assert set(grades) <= set(GRADES), grades
    all_grades = {title.rpartition(" · ")[2] for part in parts for title in exercises(part).values()}
    assert {"easy", "hard"} <= all_grades, "from a change of one line to a proof or a small implementation"
    solved = [match["label"] for match in SOLUTION.finditer("\n\n".join(prose(chapter)))]
    solved += list(gates(chapter))
    assert len(solved) == len(set(solved))
    assert set(solved) <= set(exercises_)
    unsolved = set(exercises_) - set(solved)
    assert all(exercises_[label].endswith(" · open") for label in unsolved), "only an open question may have none"
    assert all(label.startswith(chapter[:2]) for label in exercises_), "labels are unique in the book by their number"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_of_a_solution_is_a_cell_that_runs(chapter):
    for match in SOLUTION.finditer("\n\n".join(prose(chapter))):
        assert ":class: dropdown" in match["body"], f"{match['label']} is not hidden"
        assert not re.search(r"^(```|    \S)", match["body"], re.MULTILINE), f"{match['label']}: text that never runs"
    for label, cells in gates(chapter).items():
        assert cells, f"{label}: a gate without code"
        assert all("solution" in cell.metadata.get("tags", ()) for cell in cells), label
    tagged = sum("solution" in cell.metadata.get("tags", ()) for cell in cells_of(chapter))
    assert tagged == sum(map(len, gates(chapter).values())), "a solution's cell outside of a gate"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_line_of_visible_code_is_cut(chapter):
    """Comments in the central listing of chapter 0 ran out of the column."""
    cells = [cell for cell in cells_of(chapter) if cell.cell_type == "code"]
    shown = [cell.source for cell in cells if not HIDDEN & set(cell.metadata.get("tags", ()))]
    assert not [line for code in shown for line in code.splitlines() if len(line) > COLUMN]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_solution_leaves_the_names_of_the_chapter_alone(chapter):
    """A chapter without its solutions is the same chapter: they assign no name that another cell has."""
    solved = {cell.id for cells in gates(chapter).values() for cell in cells}
    cells = [cell for cell in cells_of(chapter) if cell.cell_type == "code"]
    own = set().union(*(assigned(cell.source) for cell in cells if cell.id in solved))
    others = set().union(*(assigned(cell.source) for cell in cells if cell.id not in solved))
    assert not own & others - {"_"}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_function_that_the_text_names_is_there(chapter):
    """By the chapter's own imports, or from a package on."""
    imported = {}
    for cell in cells_of(chapter):
        for node in ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                imported |= {name.asname or name.name: module + name.name for name in node.names}
    for first, rest in NAMED.findall("\n\n".join(prose(chapter))):
        if f"{first}{rest}" not in OF_OTHERS:
            pkgutil.resolve_name(imported.get(first, first) + rest)


def assigned(code: str) -> set[str]:
    """Names that a cell leaves behind: assigned outside of functions and comprehensions."""
    found, waiting = set(), [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        inner = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, inner)]
    return found
