"""Numbers that are typed on slides and week pages: each comes from the book, and one that does not is refused."""

import re

import nbformat
import pytest

from book.evidence import claims, stated
from book.evidence.execution import RunError
from book.press import ledger, teaching, typed, week_slides
from book.press.ledger import Row

WEEKS = range(1, 7)


def known(**numbers):
    """A book in which chapter 1 has one row, and chapter 0a states some numbers."""
    row = Row(claims.get("A.fig3"), "holds", {"draws": 26, "lead": {"value": 0.2061, "low": 0.174}}, "")
    output = nbformat.v4.new_output("display_data", {"text/html": ""}, metadata={stated.STATED: numbers})
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    notebooks = {name: nbformat.v4.new_notebook(cells=[cell]) for name in ("00a_why_noise", row.claim.chapter)}
    return typed.known([row], notebooks)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("26 draws, ahead by 0.206, or 0.2061", "A.fig3"),
        ("3/4 of them, or 75%, of 10,000", "chapter 00a"),
        ("ε = 23.1, for 21 of them", "21 * log(3), 21"),
        ("Slides 3 to 7 show Table 12 of chapter 14, in 15 minutes, at δ = 10⁻⁵", ""),
        ("two worlds, ε = 1, ![](01_gmm: 512 features) and [chapter](9.md)\n3. third", ""),
    ],
)
def test_a_number_of_the_book_is_accepted(text, named):
    typed.check(typed.Part("here", text, named), known(share=0.75, percent=75.2, people=10_000))


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        ("27 draws", "A.fig3", "here has the number 27"),
        ("ahead by 0.207", "A.fig3", "0.207"),
        ("at least 0.174", "A.fig3", "0.174"),
        ("1/4 of them", "chapter 00a", "1/4"),
        ("ε = 23.2", "21 * log(3)", "23.2"),
        ("26 draws", "", "26, .*names nothing"),
        ("26 draws", "A.nosuch", "A.nosuch, which is not in the ledger"),
        ("26 draws", "the paper", "the paper.*no row, no chapter and no arithmetic"),
    ],
)
def test_a_number_from_nowhere_is_refused(text, named, message):
    with pytest.raises(RunError, match=message):
        typed.check(typed.Part("here", text, named), known(share=0.75))


def test_a_text_whose_chapter_is_not_executed_is_passed_over():
    typed.check(typed.Part("here", "27 draws", "chapter 14"), known())


def test_a_chapter_states_numbers_and_lists(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, metadata, raw: shown.append(metadata))
    stated.record(one=1, some=(2, 3.5))
    assert shown == [{stated.STATED: {"one": 1.0, "some": [2.0, 3.5]}}]


def parts():
    """Every text of the kit."""
    return [
        *(part for deck in week_slides.weeks() for part in week_slides.parts(deck)),
        *(part for number in WEEKS for part in teaching.parts(number)),
    ]


def test_who_types_a_number_says_where_it_comes_from():
    silent = [part.where for part in parts() if not part.named and list(typed.numbers(part.text))]
    assert not silent


@pytest.mark.site
def test_a_typed_number_that_is_not_the_books_is_refused():
    """On the executed chapters: every number is right, and hardly any could be one unit larger or smaller."""
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in ledger.executed_notebooks()}
    if not notebooks:
        pytest.skip("no chapter is executed: make executed")
    book = typed.known(ledger.gather(ledger.executed_chapters()), notebooks)
    tried = missed = 0
    for part in parts():
        typed.check(part, book)
        measured = [name for name in part.named.split(",") if re.search("[A-Z]\\.|chapter", name)]
        if not measured or typed.sources_of(part, book) is None:
            continue
        for token in filter(lambda token: "/" not in token, typed.numbers(part.text)):
            decimals = len(token.partition(".")[2])
            for step in (1, -1):
                other = f"{float(token.replace(',', '')) + step * 10.0**-decimals:.{decimals}f}"
                tried += 1
                try:
                    typed.check(typed.Part(part.where, other, part.named), book)
                    missed += 1
                except RunError:
                    pass
    assert tried >= 100
    assert missed <= 0.15 * tried, f"{missed} of {tried}"
