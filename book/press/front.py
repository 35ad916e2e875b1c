"""The front page: the verdicts in one bar, three doors, a card for each paper, and the map of the last chapter.

What stands in words is in ``book/front.yml``; every number comes from the ledger or from the executed chapters.
"""

import base64
import html
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

from book.evidence import sources
from book.evidence.claims import VERDICTS
from book.evidence.execution import RunError
from book.press import boxes, course, findings, finish, reading, remembered, week_slides
from book.press.ledger import Row
from book.press.ways import Card, Number, load

MAP = "14"  # the chapter whose first figure is the map
# What the answer calls the share of a verdict.
SHARES = {
    "holds": "holds",
    "corrected": "holds with change",
    "unstated": "not reproducible as stated",
    "fails": "fails",
}


def page(rows: Sequence[Row], notebooks: Mapping[str, nbformat.NotebookNode]) -> str:
    """The front page as HTML, from the ledger's rows and the executed chapters by name.

    Raises:
        RunError: when a sentence rests on a verdict that its row does not have, or on a number that is not there.
    """
    times = {name: boxes.minutes(notebook) for name, notebook in notebooks.items()}
    asserted = [row for row in rows if row.claim.sort == "claim"]
    return "\n".join(
        (
            _answer(asserted),
            _bar(asserted),
            _doors(times),
            _cards(rows),
            _map(notebooks),
            _referee(times, len(asserted)),
        )
    )


def answer(card: Card, rows: Mapping[str, Row]) -> str:
    """A card's answer with its numbers.

    Raises:
        RunError: when a row has another verdict than the answer rests on, or not the value that it names.
    """
    for id_, verdict in card.rests_on.items():
        if id_ not in rows or rows[id_].verdict != verdict:
            now = rows[id_].verdict if id_ in rows else "no row"
            raise RunError(f"book/front.yml: “{card.question}” rests on {id_} ({verdict}), which is {now!r} now.")
    return card.answer.format(**{name: _number(card, number, rows) for name, number in card.numbers.items()})


def _number(card: Card, number: Number, rows: Mapping[str, Row]) -> str:
    value = rows[number.row].values.get(number.value) if number.row in rows else None
    value = value.get("value") if isinstance(value, Mapping) else value
    if not isinstance(value, int | float):
        raise RunError(
            f"book/front.yml: “{card.question}” names {number.value} of {number.row}, which has no such number."
        )
    return f"{number.times * value:.{number.decimals}f}"


def _answer(asserted: Sequence[Row]) -> str:
    """The answer to the page's question, in shares of the claims, and what this book is."""
    counts = Counter(row.verdict for row in asserted)
    shares = {name: round(100 * counts[verdict] / len(asserted)) for name, verdict in SHARES.items()}
    text = load().answer.format(**shares, rest=100 - sum(shares.values()))  # so that a reader's sum is a hundred
    return (
        '<p class="front-answer">Differential privacy lets a model learn from people without giving any of them away. '
        f"Four papers say what that costs, and how to pay less. We went through their {len(asserted)} claims, with "
        f"proofs and with runs of our own. <strong>{html.escape(text)}</strong></p>"
    )


def _bar(asserted: Sequence[Row]) -> str:
    """The bar of verdicts, with the same numbers in words below it, each a link into the ledger."""
    counts = Counter(row.verdict for row in asserted)
    known = [verdict for verdict in VERDICTS if counts[verdict]]
    parts = "".join(
        f'<span class="bar-{_slug(verdict)}" style="flex-grow: {counts[verdict]}"></span>' for verdict in known
    )
    words = "".join(
        f'<li class="bar-{_slug(verdict)}"><a href="ledger.html?sort=claim&amp;verdict={html.escape(verdict)}">'
        f"<strong>{counts[verdict]}</strong> {findings.WORDS.get(verdict, verdict).removeprefix('are ')}</a></li>"
        for verdict in known
    )
    return f'<div class="verdict-bar" aria-hidden="true">{parts}</div><ul class="verdict-words">{words}</ul>'


def _slug(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _doors(times: Mapping[str, reading.Minutes]) -> str:
    """Three doors, each with the time that it takes."""
    story = [sources.resolve(number) for number in load().story]
    choose = sources.resolve("13")
    weeks = course.load()["weeks"]
    tasks = sum(len(week["exercises"]) for week in weeks)
    total = reading.total([times[name] for name in story if name in times]).story
    told = reading.in_words(30 * max(1, round(total / 30)))  # of several hours nobody counts minutes
    learn = (
        f"The story in {_count(len(story))} chapters, for students and whoever is curious. No privacy needed before."
    )
    decks = len(week_slides.weeks())
    slides = "slides" if decks == len(weeks) else f"slides for {_count(decks)} of them"
    teach = (
        f"A plan for each of {_count(len(weeks))} weeks, {slides}, {tasks} exercises with solutions, and assignments "
        "that a program marks."
    )
    quick = f"About {reading.in_words(times[choose].story)}" if choose in times else ""
    doors = (
        (story[0], "Learn", learn, f"About {told}"),
        (choose, "Choose a model", "You have records and a budget. Which model, at which ε, on what evidence?", quick),
        ("../book/course", "Teach", teach, f"{_count(len(weeks)).capitalize()} weeks"),
    )
    return '<div class="doors">{}</div>'.format(
        "".join(
            f'<a class="door" href="../notebooks/{page}.html"><strong>{name}</strong><span>{text}</span>'
            f"<em>{time}</em></a>"
            for page, name, text, time in doors
        )
    )


def _count(number: int) -> str:
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    return words[number] if number < len(words) else str(number)


def _cards(rows: Sequence[Row]) -> str:
    by_id = {row.claim.id: row for row in rows}
    cards = []
    for paper, card in load().cards.items():
        chapter = sources.resolve(card.chapter)
        cards.append(
            f'<a class="paper-card" href="../notebooks/{chapter}.html">'
            f'<img src="../_static/front_{paper}.png" alt="{html.escape(card.picture)}" loading="lazy">'
            f"<strong>{html.escape(card.question)}</strong><span>{html.escape(answer(card, by_id))}</span>"
            f"<em>Paper {paper}, chapter {sources.shown_number(chapter)}</em></a>"
        )
    budget = "<p>ε is the privacy budget: the smaller it is, the less anybody can tell of one person.</p>"
    return f'<h2>What was found</h2>{budget}<div class="paper-cards">{"".join(cards)}</div>'


def _map(notebooks: Mapping[str, nbformat.NotebookNode]) -> str:
    """The last chapter's map, live, and its picture where it cannot be; nothing where it was not executed."""
    chapter = sources.resolve(MAP)
    if chapter not in notebooks or not (picture := _first_picture(notebooks[chapter])):
        return ""
    return (
        "<h2>So when is the larger model better?</h2>"
        "<p>On MNIST. Few records and a small ε: take the linear model. Right of the orange line, a network. A cell "
        "names all sizes that do as well there (64+: 64 hidden units or any number above), and the accuracy of the "
        "best. "
        f'<a href="../notebooks/{chapter}.html">Chapter {sources.shown_number(chapter)}</a> says where the line runs, '
        "and why.</p>"
        f'<a class="front-map tag_dial-{MAP}" href="../notebooks/{chapter}.html">'
        f'<img src="../_static/front_map.png" alt="{html.escape(picture[1])}" loading="lazy"></a>'
        f"{remembered.computed('map', _live)}"
    )


def _live() -> str:
    from book.press import dials_map, dials_page  # which bring PyTorch

    return dials_page.embedded(dials_map.live())


def draw_map(notebooks: Mapping[str, nbformat.NotebookNode], folder: Path) -> None:
    """Write the picture that stands for the map where it cannot be live."""
    chapter = sources.resolve(MAP)
    if chapter in notebooks and (picture := _first_picture(notebooks[chapter])):
        (folder / "front_map.png").write_bytes(finish.smaller(picture[0]))


def _first_picture(notebook: nbformat.NotebookNode) -> tuple[bytes, str] | None:
    """A chapter's first figure: the PNG, and what it says to who cannot see it."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if png := output.get("data", {}).get("image/png"):
                alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
                return base64.b64decode(png), " ".join(alt.split())
    return None


def _referee(times: Mapping[str, reading.Minutes], claims_: int) -> str:
    whole = reading.in_words(60 * round(reading.total(list(times.values())).everything / 60))
    return (
        "<h2>For the referee</h2>"
        f"<p>All {len(times)} chapters, with proofs and code, take about {whole}, exercises not counted. "
        f'<a href="ledger.html">The ledger</a> has every one of the {claims_} claims with its rule, what was measured, '
        'and what came first. <a href="findings.html">Findings in full</a> tells the result of each paper, and '
        '<a href="how_to_read.html">how to read a verdict</a> says what the words mean.</p>'
    )
