"""The course page's tables: weeks, readings, exercises, minutes; objectives and prerequisites of every chapter.

``book/course.yml`` says what belongs to which week. Everything that can be counted or measured is read from where it
is: objectives, exercises and their grades from the chapters' sources, points from the assignments, minutes from the
executed notebooks.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import nbformat
import numpy as np
from typing_extensions import TypedDict

from book.evidence import sources
from book.evidence.execution import EXECUTED, RunError
from book.evidence.places import ROOT
from book.press import assignments, boxes, reading
from book.press.slide_rules import items
from dplib import files

COURSE = ROOT / "book" / "course.yml"
GRADES = ("easy", "medium", "hard", "open")


class _Week(TypedDict):
    title: str
    minutes: int
    aim: str
    read: str
    chapters: list[str]
    exercises: list[str]
    assignments: list[str]


class _Course(TypedDict):
    weeks: list[_Week]
    before: dict[str, str]


class Exercise(NamedTuple):
    """An exercise of a chapter: label, title without its grade, grade (empty where none is given)."""

    label: str
    title: str
    grade: str


def load() -> dict[str, Any]:
    """``book/course.yml``: "weeks", and "before" by chapter number; ParameterError where it is something else."""
    return files.checked(COURSE, _Course)


def exercises(chapter: str) -> list[Exercise]:
    """The exercises of a chapter's source, in order."""
    titles = re.findall(r"^`{3,}\{exercise\}\s*(.*)\n:label:\s*(\S+)", _source(chapter), re.MULTILINE)
    parted = [(re.fullmatch(rf"(.*?)(?: · ({'|'.join(GRADES)}))?", title), label) for title, label in titles]
    return [Exercise(label, part[1], part[2] or "") for part, label in parted]


def objectives(chapter: str) -> list[str]:
    """What a reader can do after the chapter: the list under "you can" or "you will", without roles."""
    listed = re.search(r"you (?:can|will)\n\n((?:^- .*\n(?:[ \t]+\S.*\n)*)+)", _source(chapter) + "\n", re.MULTILINE)
    return [item.rstrip(".;,") for item in items(listed[1])] if listed else []


@cache
def minutes(chapter: str) -> tuple[int, float]:
    """Minutes to read an executed chapter, proofs and code with it, and to run it on one core."""
    notebook = nbformat.read(EXECUTED / f"{chapter}.ipynb", as_version=4)
    return boxes.minutes(notebook).everything, notebook.metadata["dplib"]["seconds"] / 60


def markdown() -> str:
    """The plan, week by week, and the chapters one by one, for ``book/course.md``.

    Raises:
        RunError: for a week that names an exercise, or a chapter with prerequisites, that does not exist.
    """
    course = load()
    # A chapter that was not executed has no page, and so no links.
    executed = [chapter for chapter in sources.chapters() if (EXECUTED / f"{chapter}.ipynb").exists()]
    known = {sources.number(chapter): chapter for chapter in executed}
    weeks = [_week(number, week, known) for number, week in enumerate(course["weeks"], start=1)]
    chapters = _chapters(course["before"], known)
    return "\n\n".join([_overview(course["weeks"], known), *weeks, "## Chapter by chapter", chapters]) + "\n"


def _overview(weeks: Sequence[Mapping], known: Mapping[str, str]) -> str:
    lines = ["| week | chapters | reading | running | exercises | points |", "|---|---|---:|---:|---:|---:|"]
    sums = np.zeros(4)
    for number, week in enumerate(weeks, start=1):
        chapters = [known[name] for name in week["chapters"] if name in known]
        points = sum(assignments.load(name).points for name in _assigned(week, known))
        numbers = *np.array([(0, 0), *map(minutes, chapters)]).sum(axis=0), len(_picked(week, known)), points
        sums += numbers
        links = ", ".join(f"[{sources.shown_number(chapter)}](../notebooks/{chapter})" for chapter in chapters)
        lines.append(f"| {number}. {week['title']} | {links} | {_numbers(numbers)} |")
    return "\n".join([*lines, f"| **all** | | {_numbers(sums)} |"])


def _numbers(numbers: Sequence[float]) -> str:
    read, run, tasks, points = numbers
    return f"{read:.0f} min | {run:.1f} min | {tasks:.0f} | {points:.0f}"


def _week(number: int, week: Mapping, known: Mapping[str, str]) -> str:
    missing = [sources.shown_number(name) for name in week["chapters"] if name not in known]
    chapters = ", ".join(_link(known[name]) for name in week["chapters"] if name in known)
    if missing:
        chapters += f" (not in this copy: {', '.join(missing)})"
    tasks = "\n  ".join(f"- {_exercise(chapter, exercise)}" for chapter, exercise in _picked(week, known))
    assigned = {name: assignments.load(name).introduction.splitlines()[0] for name in _assigned(week, known)}
    allowed = reading.in_words(week["minutes"])
    papers = [f"{sources.shown_number(name)}, *{heading.removeprefix('# ')}*" for name, heading in assigned.items()]
    return "\n\n".join(
        [
            f"## Week {number}: {week['title'][0].lower()}{week['title'][1:]}",
            week["aim"].strip(),
            f"To teach it\n: [the page of week {number}](week{number}.md): its plan, quiz and assignments.",
            f"Read\n: {week['read']}.",
            f"Chapters\n: {chapters}. Allow {allowed}, with proofs and code.",
            f"Exercises\n: {tasks}",
            f"Assignments\n: {'; '.join(papers)}.",
        ]
    )


def _chapters(before: Mapping[str, str], known: Mapping[str, str]) -> str:
    parts = []
    for number, chapter in known.items():
        if number not in before:
            raise RunError(f"book/course.yml does not say what a reader should know before chapter {number}.")
        read, run = minutes(chapter)
        seconds = f" {read} minutes to read, {60 * run:.0f} seconds to run."
        cited = r"\s*\{cite(?::[a-z]+)?\}`[^`]+`"
        listed = "\n  ".join(f"- {re.sub(cited, '', objective)}" for objective in objectives(chapter))
        parts.append(f"{_link(chapter)}\n: *Before:* {before[number]}{seconds} *After it you can*\n\n  {listed}")
    return "\n\n".join(parts)


def _picked(week: Mapping, known: Mapping[str, str]) -> list[tuple[str, Exercise]]:
    """The week's exercises with their chapters; those of absent chapters are left out."""
    picked = []
    for label in week["exercises"]:
        chapter = known.get(re.match(r"\d\d[a-z]?", label)[0])
        if chapter is None:
            continue
        exercise = next((candidate for candidate in exercises(chapter) if candidate.label == label), None)
        if exercise is None:
            raise RunError(f"book/course.yml names the exercise {label}, which {chapter} does not have.")
        picked.append((chapter, exercise))
    return picked


def _assigned(week: Mapping, known: Mapping[str, str]) -> Iterable[str]:
    there = assignments.names()
    return [known[name] for name in week["assignments"] if name in known and known[name] in there]


def _exercise(chapter: str, exercise: Exercise) -> str:
    where = f"chapter {sources.shown_number(chapter)}" + (f", {exercise.grade}" if exercise.grade else "")
    return f'<a href="../notebooks/{chapter}.html#{exercise.label}">{html.escape(exercise.title)}</a> ({where})'


def _link(chapter: str) -> str:
    return f"[{sources.shown_number(chapter)}: {sources.title(chapter)}](../notebooks/{chapter})"


@cache
def _source(chapter: str) -> str:
    return sources.source(chapter).read_text(encoding="utf-8")
