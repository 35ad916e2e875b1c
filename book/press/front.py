"""The front page: the verdicts in one bar, three doors, a card for each paper, and the map of the last chapter.

What stands in words is in ``book/front.yml``; every number comes from the ledger or from the executed chapters.
"""

import base64
import html
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import seaborn as sns

from book.evidence import plans, plotting, sources
from book.evidence.claims import VERDICTS
from book.evidence.execution import RunError
from book.press import boxes, course, dials_map, dials_page, finish, reading, week_slides
from book.press.ledger import Row
from book.press.ways import Card, Number, load
from papers.larger_models import gmm_table_rows

MAP = "14"  # the chapter whose first figure is the map
# What the bar says of so many claims.
WORDS = {
    "holds": "hold",
    "holds with change": "hold with a change",
    "fails": "fail",
    "not reproducible as stated": "not reproducible as stated",
}
# What the answer calls the share of a verdict.
SHARES = {
    "holds": "holds",
    "corrected": "holds with change",
    "unstated": "not reproducible as stated",
    "fails": "fails",
}
CARD = (4.2, 3.0)  # inches, of a card's picture
TEXT = 13  # points: a card is about as wide on a screen as its picture


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
        f"Four papers say what that costs, and how to pay less. We tested their {len(asserted)} claims, with proofs "
        f"and with runs of our own. <strong>{html.escape(text)}</strong></p>"
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
        f"<strong>{counts[verdict]}</strong> {WORDS.get(verdict, verdict)}</a></li>"
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
    return f'<h2>What was found</h2><div class="paper-cards">{"".join(cards)}</div>'


def _map(notebooks: Mapping[str, nbformat.NotebookNode]) -> str:
    """The last chapter's map, live, and its picture where it cannot be; nothing where it was not executed."""
    chapter = sources.resolve(MAP)
    if chapter not in notebooks or not (picture := _first_picture(notebooks[chapter])):
        return ""
    return (
        "<h2>So when is the larger model better?</h2>"
        "<p>Few records and a small ε: take the linear model. Right of the orange line, a network. A cell names all "
        "sizes that do as well there (64+: 64 hidden units or any number above), and the accuracy of the best. "
        f'<a href="../notebooks/{chapter}.html">Chapter {sources.shown_number(chapter)}</a> says where the line runs, '
        "and why.</p>"
        f'<a class="front-map tag_dial-{MAP}" href="../notebooks/{chapter}.html">'
        f'<img src="../_static/front_map.png" alt="{html.escape(picture[1])}" loading="lazy"></a>'
        f"{dials_page.embedded(dials_map.live())}"
    )


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


# ---- the cards' pictures ----


def draw(rows: Sequence[Row], notebooks: Mapping[str, nbformat.NotebookNode], folder: Path) -> None:
    """Draw the pictures of the front page into a folder."""
    plotting.theme()
    by_id = {row.claim.id: row for row in rows}
    panels = {"A": _dimension, "B": _budgets, "C": _labels, "D": _screening}
    for paper, panel in panels.items():
        figure, axes = plt.subplots(figsize=CARD)
        panel(axes, by_id)
        sns.despine(ax=axes)
        axes.grid(visible=False)
        axes.tick_params(labelsize=TEXT)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_size(TEXT)
        figure.subplots_adjust(left=0.2, right=0.97 if paper == "D" else 0.68, bottom=0.22, top=0.96)
        figure.savefig(folder / f"front_{paper}.png", dpi=150, bbox_inches=figure.bbox_inches)
        plt.close(figure)
    chapter = sources.resolve(MAP)
    if chapter in notebooks and (picture := _first_picture(notebooks[chapter])):
        (folder / "front_map.png").write_bytes(finish.smaller(picture[0]))


def _dimension(axes: plt.Axes, _: Mapping[str, Row]) -> None:
    """Does a larger model lose? It depends on what scales the noise."""
    curves = plans.load("01").read("curves")
    names = {"unit": "noise of\nfixed size", "L2": "by ℓ₂ norm", "L1": "by ℓ₁ norm,\nas printed"}
    for (noise, label), colour in zip(names.items(), sns.color_palette("colorblind", 3), strict=True):
        table = gmm_table_rows.separation(curves["dense", noise], "dense")
        axes.plot(table["p"], table["mean"], "o-", ms=4, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="features", ylabel="separation of the classes")
    plotting.name_lines(axes, size=TEXT, gap=34)


def _budgets(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """A linear model and a CNN at three budgets of paper B."""
    values = by_id["B.fig8"].values
    budgets = {"0_1": 0.1, "1_09": 1.09, "2_11": 2.11}
    for (name, label), colour in zip(
        {"cnn": "convolutional\nnetwork", "logistic": "linear model"}.items(),
        sns.color_palette("colorblind", 2),
        strict=True,
    ):
        _line(axes, {at: values.get(f"{name}_at_{key}") for key, at in budgets.items()}, color=colour, label=label)
    axes.set(xscale="log", xlabel="privacy budget ε", ylabel="MNIST (%)")
    axes.set_xticks((0.1, 0.3, 1), ("0.1", "0.3", "1"))
    axes.minorticks_off()
    plotting.name_lines(axes, size=TEXT, gap=34)


def _labels(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """Labels alone, in one stage and two, beside whole records."""
    whole = by_id["C.s-shrinks-the-gap"].values
    first, second, third = sns.color_palette("colorblind", 3)
    _line(axes, {at: whole.get(f"fashion_mnist_eps{at:g}_dp_sgd") for at in (0.5, 1, 1.5)}, color=first)
    _line(axes, _table_4(by_id, "2st"), color=second, label="labels,\ntwo stages")
    _line(axes, _table_4(by_id, "1st"), color=third, label="labels,\none stage")
    axes.text(0.03, 0.97, "whole records,\nDP-SGD", transform=axes.transAxes, va="top", color=first, fontsize=TEXT)
    axes.set(xlabel="privacy budget ε", ylabel="Fashion-MNIST (%)", xticks=(0.5, 1, 2))
    plotting.name_lines(axes, size=TEXT, gap=34)


def _table_4(by_id: Mapping[str, Row], stages: str) -> dict[float, Any]:
    values = by_id[f"C.table4.fashion-mnist-lp-{stages}"].values
    return {budget: values.get(f"eps{budget}") for budget in (1, 2)}


def _line(axes: plt.Axes, points: Mapping[float, Any], **style: Any) -> None:
    """A line through measured values, with bars for their intervals."""
    measured = {at: value for at, value in points.items() if isinstance(value, Mapping)}
    means = [value["value"] for value in measured.values()]
    ends = [[v["value"] - v["low"] for v in measured.values()], [v["high"] - v["value"] for v in measured.values()]]
    axes.errorbar(list(measured), means, yerr=ends, fmt="none", capsize=3, ecolor=style["color"])
    axes.plot(list(measured), means, "o-", ms=4, **style)


def _screening(axes: plt.Axes, by_id: Mapping[str, Row]) -> None:
    """What is claimed beside what a worst case spends, for the settings of three data sets."""
    values = by_id["D.thm1"].values
    names = {"mnist": "MNIST", "fashion_mnist": "Fashion-\nMNIST", "cifar10": "CIFAR-10"}
    claimed, spent = ([values[f"{kind}_epsilon_{name}"] for name in names] for kind in ("claimed", "exact"))
    colours = sns.color_palette("colorblind", 2)
    for shift, numbers, label, colour in (
        (-0.2, claimed, "claimed", colours[0]),
        (0.2, spent, "worst case", colours[1]),
    ):
        places = [place + shift for place in range(len(names))]
        axes.bar(places, numbers, 0.38, color=colour, label=label)
        for place, number in zip(places, numbers, strict=True):
            axes.text(place, number + 0.1, f"{number:.1f}", ha="center", fontsize=TEXT)
    axes.set(ylabel="privacy spent, ε", xticks=range(len(names)), xticklabels=names.values(), ylim=(0, 9))
    axes.legend(frameon=False, fontsize=TEXT, ncols=2, loc="upper center")
