"""The two ways through the book, the story and the referee's; as a Sphinx extension it puts them into every menu.

The table of contents is the referee's way, paper by paper. The story is a list above it, and each of its chapters says
where it stands in it and what comes next. Appendices say that they are.
"""

import html
import itertools
from functools import cache
from typing import Any

from pydantic import BaseModel

from book.evidence import sources
from book.evidence.places import ROOT
from dplib import files

FRONT = ROOT / "book" / "front.yml"


class Number(BaseModel, extra="forbid"):
    """A number of a sentence: a value of a row, times a factor, to so many decimals."""

    row: str
    value: str
    times: float = 1
    decimals: int


class Card(BaseModel, extra="forbid"):
    """A paper's card: its question, the answer with names of numbers in braces, the chapter behind it."""

    question: str
    answer: str
    chapter: str
    rests_on: dict[str, str]
    numbers: dict[str, Number]
    picture: str


class Front(BaseModel, extra="forbid"):
    """``book/front.yml``: the chapters of the story in order, the appendices, the answer, and a card for each paper."""

    story: list[str]
    appendices: list[str]
    answer: str
    cards: dict[str, Card]


@cache
def load() -> Front:
    """The front page's words; ParameterError where the file is something else."""
    return files.checked(FRONT, Front)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("html-page-context", _add_story)
    return {"parallel_read_safe": True}


def note(chapter: str) -> str:
    """What a chapter says of its place in the book, as HTML; nothing for a chapter of the referee's way alone."""
    words = load()
    number = sources.number(chapter)
    if number in words.appendices:
        return "An appendix, for specialists: the story goes on without it."
    if number not in words.story:
        return ""
    place = words.story.index(number)
    text = f"Chapter {place + 1} of {len(words.story)} of the story"
    if place + 1 == len(words.story):
        return f"{text}, its last."
    return f"{text}; next: {_link(_following(chapter))}."


def ending(chapter: str) -> str:
    """Where the story goes on, for the foot of a chapter, as HTML; nothing where it does not."""
    after = _following(chapter)
    return (
        f'<p class="story-next">The story goes on: {_link(after)}, <em>{sources.title(after)}</em>.</p>'
        if after
        else ""
    )


def _following(chapter: str) -> str:
    """The next chapter of the story, or nothing."""
    story = [sources.resolve(number) for number in load().story]
    following = dict(itertools.pairwise(story))
    return following.get(chapter, "")


def _link(chapter: str) -> str:
    return f'<a href="{chapter}.html">chapter {sources.shown_number(chapter)}</a>'


def _add_story(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Hand the menu's template the story's chapters that are part of this site: name and title, as HTML."""
    names = [f"notebooks/{sources.resolve(number)}" for number in load().story]
    titles = app.env.titles
    there = [(name, html.escape(titles[name].astext())) for name in names if name in titles]
    context["story"] = there if len(there) > 1 else []  # a run's page has one chapter
    # The menu has titles of pages alone: without this the theme copies every section's, on every page.
    context["theme_collapse_navbar"] = True
