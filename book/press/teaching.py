"""The teacher's kit: a page for each week of the course, from ``book/teaching/weekN.yml``, with all that a class needs.

A week has a plan by the minute, the sentences of its paper that it needs, ten questions with answers and why the wrong
ones tempt, prompts for a discussion, its assignments to download with what earns the points and what marks them, and
its slides. Nothing has to be installed to teach from it.
"""

import html
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from pybtex.database import Entry, parse_file
from pydantic import AfterValidator, BaseModel, Field

from book.evidence import claims, sources
from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import assignments, course, marking, typed, week_slides
from dplib import files
from dplib.checks import ParameterError

FOLDER = ROOT / "book" / "teaching"
LESSON = 90  # minutes
QUESTIONS = 10
LETTERS = "ABCD"

Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


class Step(BaseModel, extra="forbid"):
    """A part of the lesson: minutes, what it is called, what happens in it, and what its numbers come from."""

    minutes: int = Field(gt=0)
    title: Text
    what: Text
    numbers: str = ""


class Wrong(BaseModel, extra="forbid"):
    """A wrong answer, and why it tempts."""

    text: Text
    tempts: Text


class Question(BaseModel, extra="forbid"):
    """A question of the quiz: the right answer and why, two or three wrong ones, and what its numbers come from."""

    ask: Text
    right: Text
    because: Text
    wrong: list[Wrong] = Field(min_length=2, max_length=3)
    numbers: str = ""

    @property
    def options(self) -> list[tuple[str, Wrong | None]]:
        """All answers in an order that depends on the question alone; None beside the right one."""
        listed = [(self.right, None), *((wrong.text, wrong) for wrong in self.wrong)]
        order = np.random.default_rng(zlib.crc32(self.ask.encode())).permutation(len(listed))
        return [listed[i] for i in order]


class Week(BaseModel, extra="forbid"):
    """What ``weekN.yml`` holds; its ``numbers`` are for what is neither lesson nor quiz."""

    numbers: str = ""
    goal: Text
    before: Text
    room: Text
    lesson: list[Step]
    quiz: list[Question]
    discuss: list[Text]
    after: Text
    sentences: list[str] = []  # rows of the ledger: what of a paper the week needs
    terms: Text = ""  # what its letters and short names mean


def load(number: int) -> Week:
    """A week of the course.

    Raises:
        ParameterError: for a key that is not known, a lesson of another length, or another number of questions.
    """
    path = FOLDER / f"week{number}.yml"
    week = files.checked(path, Week)
    if (total := sum(step.minutes for step in week.lesson)) != LESSON:
        raise ParameterError(f"{path.name}: lesson = {total} minutes is not allowed: they must add up to {LESSON}.")
    if len(week.quiz) != QUESTIONS:
        raise ParameterError(
            f"{path.name}: quiz = {len(week.quiz)} questions is not allowed: it must have {QUESTIONS}."
        )
    return week


def parts(number: int) -> Iterator[typed.Part]:
    """The texts of a week, and what their numbers come from."""
    week, name = load(number), f"week{number}.yml"
    yield typed.Part(
        name, " ".join([week.goal, week.before, week.room, *week.discuss, week.after, week.terms]), week.numbers
    )
    for step in week.lesson:
        yield typed.Part(f"{name}, “{step.title}”", step.what, step.numbers)
    for place, asked in enumerate(week.quiz, start=1):
        answers = [text for wrong in asked.wrong for text in (wrong.text, wrong.tempts)]
        text = " ".join([asked.ask, asked.right, asked.because, *answers])
        yield typed.Part(f"{name}, question {place}", text, asked.numbers)


def build(generated: Path, book: typed.Known | None) -> None:
    """Write what the pages of the weeks include, and the notebooks to download, into ``generated``.

    Raises:
        RunError: for a number of a week that is not the book's.
    """
    plan = course.load()["weeks"]
    for number in range(1, len(plan) + 1):
        for part in parts(number):
            typed.check(part, book)
    (generated / "handouts").mkdir(exist_ok=True)
    every = [assignments.load(name) for name in assignments.names()]
    for assignment in every:
        for kind, notebook in (("", marking.handout(assignment)), ("-solved", marking.solved(assignment))):
            path = generated / "handouts" / f"{assignment.name}{kind}.ipynb"
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    marking.pack(every, ROOT, generated / "handouts" / "mark.pyz")
    for number, week in enumerate(plan, start=1):
        (generated / f"week{number}.md").write_text(markdown(number, load(number), week), encoding="utf-8")


def markdown(number: int, week: Week, plan: Mapping[str, list[str]]) -> str:
    """A week's page below its title."""
    decks = [path.stem for path in week_slides.weeks()]
    parts = [week.goal, f"Before class\n: {week.before}", f"A machine room\n: {week.room}"]
    if f"week{number}" in decks:
        parts.append(
            f'Slides\n: <a href="../slides/week{number}.html">Week {number}</a>, a message and a picture each. '
            f"`S` opens your notes, `F` fills the screen, `O` shows all. {_printed(number)}"
        )
    parts += ["## Ninety minutes", _lesson(week.lesson)]
    if week.sentences:
        parts += ["## What the paper says", *_paper(week.sentences, week.terms)]
    parts += ["## Ten questions", _quiz(week.quiz)]
    parts += ["## To talk about", "\n".join(f"- {topic}" for topic in week.discuss)]
    parts += ["## Assignments", *_assignments(plan["assignments"]), "## After class", week.after]
    if f"week{number}" in decks:
        parts += ["## The speaker's notes", _notes(week_slides.LOOKS / f"week{number}.md")]
    return "\n\n".join(parts) + "\n"


def _printed(number: int) -> str:
    """Where the slides are on paper: a file, where the site was made with Chromium."""
    if week_slides.printable():
        return f'To print or to take along: <a href="../slides/week{number}.pdf">PDF</a>.'
    return "`?print-pdf` behind the address prints them."


def _lesson(steps: Sequence[Step]) -> str:
    parts, at = [], 0
    for step in steps:
        parts.append(f"{at // 60}:{at % 60:02d} {step.title}, {step.minutes} minutes\n: {step.what}")
        at += step.minutes
    return "\n\n".join(parts)


def _quiz(questions: Sequence[Question]) -> str:
    return "\n\n".join(_question(number, question) for number, question in enumerate(questions, start=1))


def _question(number: int, question: Question) -> str:
    listed, why, right = [], [], ""
    for letter, (text, wrong) in zip(LETTERS, question.options, strict=False):
        listed.append(f"- {letter}. {text}")
        if wrong is None:
            right = f"**{letter}.** {question.because}"
        else:
            why.append(f"- {letter} tempts: {wrong.tempts}")
    answers = "\n".join(
        ['<details class="quiz-answer"><summary>Answer</summary>', "", right, "", *why, "", "</details>"]
    )
    return "\n\n".join([f"**{number}.** {question.ask}", "\n".join(listed), answers])


def _paper(ids: Sequence[str], terms: str) -> Iterator[str]:
    """The paper's reference, and the sentences that a week needs, each with its place and a link to its row."""
    rows = claims.load_all()
    if unknown := [id_ for id_ in ids if id_ not in rows]:
        raise RunError(f"book/teaching names {', '.join(unknown)}, which the ledger does not have.")
    papers = sorted({id_[0] for id_ in ids})
    yield (
        "Who has no copy of the paper needs no more of it than this, told in our words, wrong sentences included. The "
        "place leads to the ledger, where each sentence is tested: leave that for after class."
    )
    yield "\n\n".join(f"Paper {paper}\n: {reference(claims.about(paper).cite)}" for paper in papers)
    if terms:
        yield f"Its words\n: {terms}"
    yield "\n".join(
        f'1. <a href="ledger.html#{id_}">{html.escape(rows[id_].where)}</a>: {_plain(rows[id_].statement)}'
        for id_ in ids
    )


def _plain(text: str) -> str:
    """Text in which nothing is Markdown, HTML or a formula."""
    return re.sub(r"([\\*_`$|\[\]{}<>])", r"\\\1", text)


@cache
def _library() -> Mapping[str, Entry]:
    return parse_file(str(ROOT / "book" / "references.bib")).entries


def reference(key: str) -> str:
    """A work of the bibliography in full: authors, title, where and when it appeared, its address if it has one."""
    entry = _library()[key]
    fields = {
        name: " ".join(re.sub("[{}]", "", text).split()).replace("--", "–") for name, text in entry.fields.items()
    }
    names = [
        re.sub("[{}]", "", str(" ".join([*author.first_names, *author.middle_names, *author.last_names])))
        for author in entry.persons["author"]
    ]
    where = [fields.get("journal") or fields.get("booktitle") or fields.get("note", "")]
    where += [f"volume {fields['volume']}"] if "volume" in fields else []
    address = next((fields[name] for name in ("doi", "url") if name in fields), "")
    if address.startswith("10."):
        address = f"https://doi.org/{address}"
    known = f"<{address}>" if address else "We know of no DOI and no address where it can be read."
    return f"{', '.join(names)}: *{fields['title']}*. {', '.join([*where, fields['year']])}. {known}"


def _assignments(numbers: Sequence[str]) -> Iterator[str]:
    handed = [name for name in map(sources.resolve, numbers) if name in assignments.names()]
    for name in handed:
        assignment = assignments.load(name)
        yield (
            f"**{sources.title(name)}** (chapter {sources.shown_number(name)}): "
            f"{{download}}`for students <_generated/handouts/{name}.ipynb>`, "
            f"{{download}}`with solutions and all tests <_generated/handouts/{name}-solved.ipynb>`."
        )
        lines = []
        for question in assignment.questions:
            earned = "; ".join(
                map(_earned, question.cells["hidden"], question.shares[-len(question.cells["hidden"]) :])
            )
            lines.append(f"- **{question.title}**, {question.points} point{'s' * (question.points != 1)}. {earned}.")
        yield "\n".join(lines)
    yield (
        "A test is passed when all of its checks are: half a function earns nothing. A test that students can see "
        "earns nothing either."
    )
    yield (FOLDER / "marking.txt").read_text(encoding="utf-8").replace("NAME", handed[0]).strip()


def _earned(test: str, share: float) -> str:
    """A hidden test in the list of points: what it is about, or how many checks it has."""
    checks = test.count("assert ")
    return f"{share:.3g}: {marking.about(test) or f'a test with {checks} check' + 's' * (checks > 1)}"


def _notes(deck: Path) -> str:
    told = week_slides.slides(deck.read_text(encoding="utf-8"))
    items = "\n".join(f"<li><strong>{html.escape(title)}</strong> {_inline(notes)}</li>" for title, notes in told)
    return (
        f'<details><summary>Slide by slide, to read or to print</summary><ol class="notes">\n{items}\n</ol></details>'
    )


def _inline(text: str) -> str:
    """A note as HTML, with what it stresses."""
    return re.sub(r"\*(\w[^*]*\w|\w)\*", r"<em>\1</em>", html.escape(text))
