"""The course page and the slides' rules: everything that they name exists, and slides are text and formulas only."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from dplib import sources
from dplib.execution import RunError
from press import course, slide_rules, slides
from press.slide_rules import Plain
from tests.conftest import ROOT

CHAPTERS = sources.chapters()


def test_six_weeks_cover_every_chapter_once():
    plan = course.load()
    assert len(plan["weeks"]) == 6
    named = [name for week in plan["weeks"] for name in week["chapters"]]
    assert len(named) == len(set(named))
    assert {chapter[:2] for chapter in CHAPTERS} <= set(named)
    assert {chapter[:2] for chapter in CHAPTERS} <= set(plan["before"])
    for week in plan["weeks"]:
        assert {label[:2] for label in week["exercises"]} <= set(week["chapters"])
        assert set(week["assignments"]) <= set(week["chapters"])


def test_the_exercises_of_every_week_exist():
    known = {one.label for chapter in CHAPTERS for one in course.exercises(chapter)}
    chapters = {chapter[:2] for chapter in CHAPTERS}
    wanted = {label for week in course.load()["weeks"] for label in week["exercises"] if label[:2] in chapters}
    assert wanted <= known


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_says_what_its_reader_can_do_afterwards(chapter):
    found = course.objectives(chapter)
    assert len(found) >= 3
    assert not any(re.search(r"\{[a-z:]+\}`", one) for one in found)


def test_grades_are_parted_from_titles(toy):
    folder = toy("01_a", "")
    path = folder / "notebooks" / "01_a.md"
    path.write_text(
        "# A\n\n```{exercise} Why · hard\n:label: 01-ex-why\n\nWell?\n```\n\n"
        "```{exercise} How\n:label: 01-ex-how\n```\n"
    )
    course._source.cache_clear()
    assert course.exercises("01_a") == [
        course.Exercise("01-ex-why", "Why", "hard"),
        course.Exercise("01-ex-how", "How", ""),
    ]
    course._source.cache_clear()


def test_a_week_with_an_exercise_that_does_not_exist_is_refused():
    week = {"exercises": [f"{CHAPTERS[0][:2]}-ex-nosuch"]}
    with pytest.raises(RunError, match="nosuch"):
        course._picked(week, {CHAPTERS[0][:2]: CHAPTERS[0]})
    assert course._picked(week, {}) == []


def glue(name, text):
    return new_output(
        "display_data", {"application/papermill.record/text/plain": text}, metadata={"scrapbook": {"name": name}}
    )


@pytest.fixture
def chapter():
    """A toy chapter with one of everything."""
    picture = new_output("display_data", {"image/png": "aGVsbG8="})
    table = (
        "<table><tr><th></th><th>paper</th></tr>"
        + "".join(f"<tr><th>{i}</th><td>{i}.5</td></tr>" for i in range(12))
        + "</table>"
    )
    cells = [
        new_markdown_cell("# Toys\n\nAfter this chapter you can\n\n- count;\n- draw {cite}`a`."),
        new_code_cell("x = 1", outputs=[glue("t_x", "0.1234"), glue("t_word", "'many'")]),
        new_markdown_cell(
            "**What the chapter found.** It found {glue:text}`t_word` things. The mean of $f(x. Y)$ is "
            "{glue:text}`t_x:.2f`, see [here](../x.md).\n\n"
            "## What the paper claims\n\n1. One thing\n   in two lines.\n2. {cite}`a,b` say so.\n\n"
            "## Theory\n\n````{prf:theorem} Big\n:label: t-thm\n\nFor all\n\n$$\nx > 0\n$$\n````\n\n"
            "````{prf:proof}\nSee {prf:ref}`t-thm`.\n````"
        ),
        new_code_cell("plot()", outputs=[picture], metadata={"mystnb": {"image": {"alt": "A line [up]."}}}),
        new_markdown_cell("*Rising, by {prf:ref}`t-thm`.*\n\nMore."),
        new_code_cell("plot()", outputs=[picture]),
        new_markdown_cell("## Published against measured"),
        new_code_cell("t", outputs=[new_output("display_data", {"text/html": table})]),
        new_markdown_cell("## What we changed and why\n\n1. **Short runs**, for time.\n2. **Other data.** Ours.\n"),
        new_markdown_cell("## Exercises\n\n```{exercise} Count · easy\n:label: t-ex\n\nCount.\n```"),
        new_code_cell("plot()", outputs=[picture], metadata={"tags": ["solution"]}),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def test_the_rules_choose_what_they_say(chapter):
    titles = slide_rules.labelled("\n".join(cell.source for cell in chapter.cells))
    plain = Plain(chapter, {"a": "Smith 2020", "b": "Wu 2021"}, titles)
    deck = list(slide_rules.choose(chapter, plain))
    assert [slide.title for slide in deck] == [
        "After this chapter you can", "What the chapter found", "What the paper claims", "Big", "Theory",
        "Published against measured", "Published against measured, continued", "What we changed and why",
    ]  # fmt: skip
    able, found, claims, theorem, figure, table, more, changed = deck
    assert able.body == "- count\n- draw (Smith 2020)"
    assert found.body == "- It found many things.\n- The mean of $f(x. Y)$ is 0.12, see here."
    assert claims.body == "1. One thing in two lines.\n2. (Smith 2020; Wu 2021) say so."
    assert theorem.kicker == "Theorem · Theory"
    assert "$$\nx > 0\n$$" in theorem.body
    assert figure.body.startswith("![A line (up).](figure-003.png)")
    assert "*Rising, by “Big”.*" in figure.body
    assert figure.images == {"figure-003.png": b"hello"}
    assert table.body.count("<tr>") == 1 + slide_rules.MOST_ROWS
    assert more.body.count("<tr>") == 1 + 12 - slide_rules.MOST_ROWS
    assert changed.body == "- Short runs\n- Other data"
    assert slide_rules.exercises(chapter, plain) == ["Count · easy"]
    assert "What the chapter found" not in [slide.title for slide in slide_rules.choose(chapter, plain, found=False)]


def test_tags_keep_cells_in_and_out(chapter):
    chapter.cells[3].metadata["tags"] = ["no-slide"]
    chapter.cells[4].metadata["tags"] = ["slide"]
    plain = Plain(chapter, {"a": "", "b": ""}, {"t-thm": "it"})
    deck = {slide.title: slide for slide in slide_rules.choose(chapter, plain)}
    assert deck["Theory"].images == {"figure-005.png": b"hello"}, "the section's next figure comes in its place"
    bodies = [slide.body for slide in slide_rules.choose(chapter, plain)]
    assert "*Rising, by it.*\n\nMore." in bodies


def test_long_lists_are_spread_evenly():
    deck = list(slide_rules.bullets("T", ["x" * 200] * 7))
    assert [slide.body.count("\n") + 1 for slide in deck] == [2, 3, 2]
    assert [slide.title for slide in deck] == ["T", "T, continued", "T, continued"]
    (short,) = slide_rules.bullets("T", ["word"] * 12)
    assert short.body.startswith(":::{container} columns")


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_reference_on_a_slide_can_be_resolved(name):
    """On the sources, which have no outputs: citations, labels and the shape of every deck."""
    notebook = sources.as_notebook(sources.source(name))
    texts = "\n".join(sources.source(chapter).read_text(encoding="utf-8") for chapter in CHAPTERS)
    plain = Plain(notebook, slides.citations(), slide_rules.labelled(texts))
    plain._glued = dict.fromkeys(re.findall(r"\{glue:text\}`([^`:]+)", texts), Number())
    deck = list(slide_rules.choose(notebook, plain))
    has = {slide.title for slide in deck}
    assert {"After this chapter you can", "What the paper claims"} <= has or name[:2] in (
        "00",
        "13",
        "14",
    )  # of no paper
    for slide in deck:
        assert not re.search(r"\{[a-z:]+\}`|^:label:", slide.title + slide.body + slide.kicker, re.MULTILINE), (
            slide.title
        )
    assert slide_rules.exercises(notebook, plain)


class Number(float):
    """Takes any format, as the glued value of a source is not known."""

    def __format__(self, form):
        return "0"


def test_authors_are_named_as_in_the_text():
    found = slides.citations()
    assert found["ghazi2021"] == "Ghazi and others 2021"
    assert all(re.search(r"\d{4}$", text) for text in found.values())


def test_the_looks_ask_for_nothing_from_outside():
    for path in (ROOT / "book" / "slides").iterdir():
        assert "http" not in path.read_text(encoding="utf-8")
