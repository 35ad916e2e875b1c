"""The teacher's kit: lessons, quizzes, handouts that run, slides whose pictures are there; and the authors' pages."""

import re

import nbformat
import pytest
import yaml

from book.evidence import claims, sources
from book.evidence.execution import RunError
from book.press import assignments, authors, course, marking, teaching, week_slides
from book.press.ledger import Row
from dplib.checks import ParameterError

DIALS = {"00a-bells", "00a-curve", "00a-budget", "01", "04", "08", "12"}
WEEKS = range(1, len(course.load()["weeks"]) + 1)


@pytest.mark.parametrize("number", WEEKS)
def test_a_week_has_a_lesson_a_quiz_and_its_page(number):
    week, plan = teaching.load(number), course.load()["weeks"][number - 1]
    page = teaching.markdown(number, week, plan)
    assert page.count("<summary>Answer</summary>") == 10
    for question in week.quiz:
        texts = [text for text, _ in question.options]
        assert len(set(texts)) == len(texts) >= 3
        assert [wrong for _, wrong in question.options].count(None) == 1
    for name in map(sources.resolve, plan["assignments"]):
        assert f"handouts/{name}.ipynb" in page or name not in assignments.names()
    title = (teaching.ROOT / "book" / f"week{number}.md").read_text(encoding="utf-8").splitlines()[0]
    assert title.removeprefix(f"# Week {number}: ") == plan["title"]


def test_right_answers_do_not_stand_in_one_place():
    places = [[wrong for _, wrong in question.options].index(None) for n in WEEKS for question in teaching.load(n).quiz]
    assert all(places.count(place) >= 10 for place in range(3))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda week: week["lesson"][0].update(minutes=7), "lesson"),
        (lambda week: week["quiz"].pop(), "quiz"),
        (lambda week: week["quiz"][0].pop("because"), "because"),
        (lambda week: week["quiz"][0]["wrong"][0].pop("tempts"), "tempts"),
        (lambda week: week.update(extra="x"), "extra"),
    ],
)
def test_a_week_with_a_fault_is_refused(tmp_path, monkeypatch, change, name):
    week = yaml.safe_load((teaching.FOLDER / "week1.yml").read_text(encoding="utf-8"))
    change(week)
    (tmp_path / "week1.yml").write_text(yaml.safe_dump(week), encoding="utf-8")
    monkeypatch.setattr(teaching, "FOLDER", tmp_path)
    with pytest.raises(ParameterError, match=name):
        teaching.load(1)


def test_a_handout_runs_has_no_solution_and_the_solved_one_passes_every_test():
    assignment = assignments.load("00a_why_noise")
    student, solved = map(nbformat.from_dict, (marking.handout(assignment), marking.solved(assignment)))
    for notebook in (student, solved):
        nbformat.validate(notebook)
    text = nbformat.writes(student)
    assert "SOLUTION" not in text
    for question in assignment.questions:
        for test in question.cells["hidden"]:
            assert max(test.splitlines(), key=len).strip() not in text
    namespace: dict = {}
    for cell in solved.cells:
        if cell.cell_type == "code":
            exec(cell.source, namespace)
    points = [float(cell.source.split()[1]) for cell in solved.cells if re.match(r"# [\d.]+ points", cell.source)]
    assert sum(points) == pytest.approx(assignment.points)


@pytest.mark.parametrize("deck", week_slides.weeks(), ids=lambda path: path.stem)
def test_every_slide_has_notes_and_every_picture_exists(deck):
    text = deck.read_text(encoding="utf-8")
    told = list(week_slides.slides(text))
    assert len(told) >= 15
    assert all(notes for _, notes in told), [title for title, notes in told if not notes]
    named = week_slides.pictures(text)
    assert len(named) >= 6
    for chapter, words in named:
        assert words in DIALS if chapter == "dial" else week_slides.cell_of(chapter, words)


@pytest.mark.parametrize("deck", week_slides.weeks(), ids=lambda path: path.stem)
def test_the_plan_names_every_slide_once_and_the_notes_take_its_minutes(deck):
    told = list(week_slides.slides(deck.read_text(encoding="utf-8")))
    minutes = [int(found[1]) if (found := re.match(r"(\d+) minutes\. ", notes)) else 0 for _, notes in told]
    named = []
    for step in teaching.load(int(deck.stem[-1])).lesson:
        if places := re.match(r"Slides? (\d+)(?: (?:to|and) (\d+))?\.", step.what):
            own = range(int(places[1]), int(places[2] or places[1]) + 1)
            assert sum(minutes[place - 1] for place in own) == step.minutes, step.title
            named += own
    assert named == list(range(2, len(told) + 1))


def test_words_that_no_figure_has_are_refused():
    with pytest.raises(RunError, match="no such thing"):
        week_slides.cell_of("00a_why_noise", "no such thing")


@pytest.fixture(scope="module")
def rows():
    """The ledger as its rules expect it."""
    return [Row(claim, claim.expects, {}, "") for claim in claims.load_all().values()]


@pytest.mark.parametrize("paper", ["A", "B", "C", "D"])
def test_what_authors_are_asked_stands_on_rows_of_their_paper(paper, rows):
    text = (authors.FOLDER / f"{paper}.md").read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^## (.+)$", text)
    assert headings == [
        "Scope", "Methodology", "What was easy", "What was hard", "What we would ask the authors", "Communication"
    ]  # fmt: skip
    assert "[[" not in authors.linked(text, rows)
    named = set(authors.NAMED.findall(text))
    assert len(named) >= 10
    assert {id_.partition(".")[0] for id_ in named} == {paper}
    easy = text.partition("## What was easy")[2].partition("## What was hard")[0]
    known = {row.claim.id: row.claim for row in rows}
    for id_ in authors.NAMED.findall(easy):
        assert not known[id_].unstated, id_


def test_a_row_that_is_not_there_is_refused(rows):
    with pytest.raises(RunError, match=r"A\.nosuch"):
        authors.linked("See [[A.nosuch]].", rows)
