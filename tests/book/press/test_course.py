"""The course page and the slides' rules: everything that they name exists, and slides are text and formulas only."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from book.evidence import sources
from book.evidence.execution import RunError
from book.press import course, slide_rules, slides

CHAPTERS = sources.chapters()


def test_six_weeks_cover_every_chapter_once():
    plan = course.load()
    assert len(plan["weeks"]) == 6
    named = [name for week in plan["weeks"] for name in week["chapters"]]
    assert len(named) == len(set(named))
    assert {chapter[:2] for chapter in CHAPTERS} <= set(named)
    assert {chapter[:2] for chapter in CHAPTERS} <= set(plan["before"])
    known = {exercise.label for chapter in CHAPTERS for exercise in course.exercises(chapter)}
    for week in plan["weeks"]:
        assert set(week["exercises"]) <= known
        assert {label[:2] for label in week["exercises"]} <= set(week["chapters"])
        assert set(week["assignments"]) <= set(week["chapters"])


@pytest.mark.site
def test_a_week_allows_the_minutes_that_its_chapters_take():
    known = {sources.number(chapter): chapter for chapter in CHAPTERS}
    for number, week in enumerate(course.load()["weeks"], start=1):
        chapters = [known[name] for name in week["chapters"]]
        if missing := [chapter for chapter in chapters if not (course.EXECUTED / f"{chapter}.ipynb").exists()]:
            pytest.skip(f"{', '.join(missing)} is not executed: make executed")
        reckoned = sum(course.minutes(chapter)[0] for chapter in chapters)
        assert 0.75 * week["minutes"] <= reckoned <= week["minutes"], (number, reckoned)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_says_what_its_reader_can_do_afterwards(chapter):
    objectives_ = course.objectives(chapter)
    assert len(objectives_) >= 3
    assert not any(re.search(r"\{[a-z:]+\}`", objective) for objective in objectives_)


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


@pytest.fixture
def chapter():
    """A toy chapter with one of everything."""
    picture = new_output("display_data", {"image/png": "aGVsbG8="})
    cells = [
        new_markdown_cell("# Toys\n\nAfter this chapter you can\n\n- count;\n- draw {cite}`a`."),
        new_markdown_cell(
            "## What the paper claims\n\n1. One thing\n   in two lines.\n2. {cite}`a,b` say so, see [here](../x.md)."
            "\n\n## Theory\n\n````{prf:theorem} Big\n:label: t-thm\n\nFor all\n\n$$\nx > 0\n$$\n````\n\n"
            "````{prf:proof}\nSee {prf:ref}`t-thm`.\n````"
        ),
        new_code_cell("plot()", outputs=[picture], metadata={"mystnb": {"image": {"alt": "A line [up]."}}}),
        new_markdown_cell("*Rising, by {prf:ref}`t-thm`.*\n\nMore."),
        new_code_cell("plot()", outputs=[picture]),
        new_markdown_cell("## Exercises\n\n```{exercise} Count · easy\n:label: t-ex\n\nCount.\n```"),
        new_code_cell("plot()", outputs=[picture], metadata={"tags": ["solution"]}),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def test_the_rules_choose_what_they_say(chapter):
    titles = slide_rules.labelled("\n".join(cell.source for cell in chapter.cells))
    plain = slide_rules.plain_text({"a": "Smith 2020", "b": "Wu 2021"}, titles)
    deck = list(slide_rules.choose(chapter, plain))
    assert [one.title for one in deck] == ["After this chapter you can", "What the paper claims", "Big", "Theory"]
    able, claims, theorem, figure = deck
    assert able.body == "- count\n- draw (Smith 2020)"
    assert claims.body == "1. One thing in two lines.\n2. (Smith 2020; Wu 2021) say so, see here."
    assert theorem.kicker == "Theorem · Theory"
    assert "$$\nx > 0\n$$" in theorem.body
    assert figure.body.startswith("![A line (up).](figure-002.png)")
    assert "*Rising, by “Big”.*" in figure.body
    assert figure.images == {"figure-002.png": b"hello"}
    assert slide_rules.exercises(chapter, plain) == ["Count · easy"]


@pytest.mark.parametrize("head", ["{dropdown} Two claims\n:open:", "{admonition} Two claims\n:class: dropdown"])
def test_what_a_page_folds_is_on_the_slides(head):
    """The claims of a paper were lost when their page folded them."""
    claims = f"````{head}\n1. One thing.\n2. Another.\n````"
    theorem = "`````{dropdown} More\n````{prf:theorem} Big\n:label: t\n\nx\n````\n`````"
    cells = [new_markdown_cell(f"# Toys\n\n## What the paper claims\n\n{claims}\n\n## Theory\n\n{theorem}")]
    plain = slide_rules.plain_text({}, {})
    deck = list(slide_rules.choose(nbformat.v4.new_notebook(cells=cells), plain))
    assert [(one.title, one.body) for one in deck] == [
        ("What the paper claims", "1. One thing.\n2. Another."),
        ("Big", "x"),
    ]


def test_tags_keep_cells_in_and_out(chapter):
    chapter.cells[2].metadata["tags"] = ["no-slide"]
    chapter.cells[3].metadata["tags"] = ["slide"]
    deck = list(slide_rules.choose(chapter, slide_rules.plain_text({"a": "", "b": ""}, {"t-thm": "it"})))
    assert deck[-1].images == {"figure-004.png": b"hello"}, "the section's next figure comes in its place"
    assert "*Rising, by it.*\n\nMore." in [slide.body for slide in deck]


def test_long_lists_are_spread_evenly():
    deck = list(slide_rules.bullets("T", ["x" * 200] * 7))
    assert [slide.body.count("\n") + 1 for slide in deck] == [2, 3, 2]
    assert [slide.title for slide in deck] == ["T", "T, continued", "T, continued"]
    (short,) = slide_rules.bullets("T", ["word"] * 12)
    assert short.body.startswith(":::{container} columns")


def test_every_reference_on_a_slide_can_be_resolved():
    """On the sources, which have no outputs: citations, labels and the shape of every deck."""
    texts = "\n".join(sources.source(chapter).read_text(encoding="utf-8") for chapter in CHAPTERS)
    plain = slide_rules.plain_text(slides.citations(), slide_rules.labelled(texts))
    for name in CHAPTERS:
        notebook = sources.as_notebook(sources.source(name))
        deck = list(slide_rules.choose(notebook, plain))
        expected = {"After this chapter you can", "What the paper claims"}
        assert expected <= {slide.title for slide in deck} or name[:2] in ("00", "13", "14")  # of no paper
        text = "\n".join(slide.title + slide.body + slide.kicker for slide in deck)
        assert not re.search(r"\{[a-z:]+\}`|^:label:", text, re.MULTILINE), name
        assert slide_rules.exercises(notebook, plain)


def test_authors_are_named_as_in_the_text():
    names = slides.citations()
    assert names["ghazi2021"] == "Ghazi and others 2021"
    assert all(re.search(r"\d{4}$", text) for text in names.values())
