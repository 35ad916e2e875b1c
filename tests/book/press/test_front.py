"""The front page: its sentences rest on the ledger, its numbers come from there, and both ways through are whole."""

import re

import nbformat
import pytest

from book.evidence import claims, sources
from book.evidence.claims import VERDICTS
from book.evidence.execution import RunError
from book.press import front, ways
from book.press.ledger import Row
from book.press.ways import Card

CARD = {
    "question": "Is it so?",
    "answer": "It is {much} of {all}.",
    "chapter": "01",
    "rests_on": {"A.thm6": "holds"},
    "numbers": {
        "much": {"row": "A.thm6", "value": "share", "times": 100, "decimals": 1},
        "all": {"row": "A.thm6", "value": "whole", "decimals": 0},
    },
    "picture": "A picture.",
}
VALUES = {"share": {"value": 0.1234, "low": 0.1, "high": 0.2}, "whole": 12.0}


def row(id_="A.thm6", verdict="holds", values=VALUES):
    return Row(claims.get(id_), verdict, values, "")


def test_numbers_come_from_rows():
    assert front.answer(Card(**CARD), {"A.thm6": row()}) == "It is 12.3 of 12."


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({}, "A.thm6"),
        ({"A.thm6": row(verdict="fails")}, "fails"),
        ({"A.thm6": row(values={"share": 0.1})}, "whole"),
        ({"A.thm6": row(values={"share": 0.1, "whole": "12"})}, "whole"),
    ],
)
def test_a_sentence_that_the_ledger_does_not_bear_out_is_refused(rows, says):
    with pytest.raises(RunError, match=says):
        front.answer(Card(**CARD), rows)


def test_no_number_of_a_sentence_is_typed():
    for card in ways.load().cards.values():
        words = re.sub(r"\{\w+\}|ε = 1\b(?!\.)", "", f"{card.question} {card.answer}")
        assert not re.search(r"\d", words), words
        assert {number.row for number in card.numbers.values()} | set(card.rests_on) <= set(claims.load_all())


def test_a_card_for_each_paper_and_ways_that_exist():
    words = ways.load()
    assert set(words.cards) <= set(claims.PAPERS)
    numbers = {sources.number(chapter) for chapter in sources.chapters()}
    assert {*words.story, *words.appendices} <= numbers
    assert not set(words.story) & set(words.appendices)


def test_a_chapter_says_where_it_stands():
    story = [sources.resolve(number) for number in ways.load().story]
    for place, chapter in enumerate(story[:-1], start=1):
        assert f"Chapter {place} of {len(story)}" in ways.note(chapter)
        assert f'href="{story[place]}.html"' in ways.note(chapter)
        assert f'href="{story[place]}.html"' in ways.ending(chapter)
    assert "href" not in ways.note(story[-1])
    assert ways.ending(story[-1]) == ways.ending("01_gmm_theory") == ""
    assert "appendix" in ways.note(sources.resolve(ways.load().appendices[0]))
    assert ways.note("01_gmm_theory") == ""


def asserted(**counts):
    """Rows of sort claim with so many of each verdict."""
    ids = [id_ for id_, claim in claims.load_all().items() if claim.sort == "claim"]
    verdicts = [verdict for verdict, count in counts.items() for _ in range(count)]
    return [row(id_, verdict.replace("_", " ")) for id_, verdict in zip(ids, verdicts, strict=False)]


def test_the_answer_says_which_share_holds_which_with_a_change_and_which_fails():
    text = front._answer(asserted(holds=8, holds_with_change=6, fails=5, undecided=1))
    shares = ("40% hold as printed", "30% more", "25% fail", "5% are open or could not be tested")
    said = [text.index(share) for share in shares]
    assert said == sorted(said)
    assert "20 claims" in text


def test_the_bar_and_its_words_add_up_to_one_total():
    rows = asserted(holds=8, holds_with_change=6, fails=5, undecided=1)
    text = front._bar(rows)
    assert [int(n) for n in re.findall(r"flex-grow: (\d+)", text)] == [8, 6, 5, 1]
    assert sum(int(n) for n in re.findall(r"<strong>(\d+)</strong>", text)) == len(rows)
    assert text.count("ledger.html?sort=claim") == len({row.verdict for row in rows}) <= len(VERDICTS)


def test_the_map_is_the_first_picture_of_its_chapter():
    picture = nbformat.v4.new_output("display_data", {"image/png": "aGk="})
    cells = [
        nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("stream", name="stdout", text="hi")]),
        nbformat.v4.new_code_cell("", outputs=[picture], metadata={"mystnb": {"image": {"alt": "A  map\nof it."}}}),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert front._first_picture(notebook) == (b"hi", "A map of it.")
    assert "A map of it." in front._map({sources.resolve(front.MAP): notebook})
    assert front._map({}) == ""
