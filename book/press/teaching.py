"""The teacher's kit: a page for each week of the course, from ``book/teaching/weekN.yml``, with all that a class needs.

A week has a plan by the minute, ten questions with answers and why the wrong ones tempt, prompts for a discussion, its
assignments to download with what earns the points, and its slides. Nothing has to be installed to teach from it.
"""

import html
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BaseModel, Field

from book.evidence import sources
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
    yield typed.Part(name, " ".join([week.goal, week.before, week.room, *week.discuss, week.after]), week.numbers)
    for step in week.lesson:
        yield typed.Part(f"{name}, “{step.title}”", step.what, step.numbers)
    for place, one in enumerate(week.quiz, start=1):
        answers = [text for wrong in one.wrong for text in (wrong.text, wrong.tempts)]
        text = " ".join([one.ask, one.right, one.because, *answers])
        yield typed.Part(f"{name}, question {place}", text, one.numbers)


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
    parts += ["## Ninety minutes", _lesson(week.lesson), "## Ten questions", _quiz(week.quiz)]
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


def _assignments(numbers: Sequence[str]) -> Iterator[str]:
    for name in map(sources.resolve, numbers):
        if name not in assignments.names():
            continue
        assignment = assignments.load(name)
        yield (
            f"**{sources.title(name)}** (chapter {sources.shown_number(name)}): "
            f"{{download}}`for students <_generated/handouts/{name}.ipynb>`, "
            f"{{download}}`with solutions and all tests <_generated/handouts/{name}-solved.ipynb>`."
        )
        lines = ["| question | points | earned by hidden tests |", "|---|---:|---|"]
        for question in assignment.questions:
            hidden = [code.count("assert ") for code in question.cells["hidden"]]
            each = f"{question.points / len(hidden):.3g}"
            tests = "; ".join(f"{each} for a test with {checks} check{'s' * (checks > 1)}" for checks in hidden)
            lines.append(f"| {question.title} | {question.points} | {tests} |")
        yield "\n".join(lines)
    yield (
        "A test is passed when all of its checks are: half a function earns nothing. Variants with other numbers, and "
        "marking many at once: [the course](course.md)."
    )


def _notes(deck: Path) -> str:
    told = week_slides.slides(deck.read_text(encoding="utf-8"))
    items = "\n".join(f"<li><strong>{html.escape(title)}</strong> {html.escape(notes)}</li>" for title, notes in told)
    return (
        f'<details><summary>Slide by slide, to read or to print</summary><ol class="notes">\n{items}\n</ol></details>'
    )
