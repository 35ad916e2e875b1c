"""The verdict boxes: every chapter has one, every line rests on the ledger, and a line that does not is refused."""

from dataclasses import replace

import nbformat
import pytest

from book.evidence import claims, sources
from book.evidence.execution import RunError
from book.press import boxes, ledger, ways
from book.press.boxes import Box, Sentence
from book.press.ledger import Row
from dplib.checks import ParameterError


@pytest.fixture(scope="module")
def rows():
    """The ledger; a row of a chapter that is not executed here has the verdict that its runs must lead to."""
    rows_ = ledger.gather(ledger.executed_chapters())
    return [replace(row, verdict=row.claim.expects or row.verdict) for row in rows_]


def row(id_, verdict):
    return Row(claims.get(id_), verdict, {}, "")


def box(section="holds", text="It is so.", ids=("A.thm6",)):
    return Box(claimed="It was said.", sure="Quite.", **{section: (Sentence(text, tuple(ids)),)})


@pytest.mark.parametrize("chapter", sources.chapters())
def test_every_chapter_has_a_box_that_the_ledger_bears_out(chapter, rows):
    found, own = boxes.load()[chapter], [row for row in rows if row.claim.chapter == chapter]
    boxes.check(chapter, found, rows)
    if any(row.verdict != claims.NOT_RUN for row in own):
        assert found.claimed
        assert found.holds
    if {row.verdict for row in own} & set(boxes.SECTIONS["fails"][1]):
        assert found.fails, "rows of this chapter fail, and its box does not say which"
    named = {id_ for lines in found.sections.values() for line in lines for id_ in line.rows}
    assert {claims.get(id_).chapter for id_ in named} <= {chapter} or not own


@pytest.mark.parametrize("verdict", claims.VERDICTS)
@pytest.mark.parametrize("section", boxes.SECTIONS)
def test_a_line_that_the_verdict_does_not_bear_out_is_refused(section, verdict):
    if verdict in boxes.SECTIONS[section][1]:
        boxes.check("01_gmm_theory", box(section), [row("A.thm6", verdict)])
        return
    with pytest.raises(RunError, match=rf"01_gmm_theory.*It is so.*A\.thm6.*{verdict}"):
        boxes.check("01_gmm_theory", box(section), [row("A.thm6", verdict)])


def test_a_line_needs_rows_that_exist():
    with pytest.raises(RunError, match="names no row"):
        boxes.check("01_gmm_theory", box(ids=()), [row("A.thm6", "holds")])
    with pytest.raises(RunError, match=r"A\.eq5, which is not in the ledger"):
        boxes.check("01_gmm_theory", box(ids=("A.eq5",)), [row("A.thm6", "holds")])
    boxes.check("13_a_tool", box(ids=()), [row("A.thm6", "holds")])  # a chapter without rows of its own


def test_a_number_must_be_a_printed_one():
    boxes.check("01_gmm_theory", box(text="Theorem 6 holds on CIFAR-10."), [row("A.thm6", "holds")])
    with pytest.raises(RunError, match=r"number 0\.17"):
        boxes.check("01_gmm_theory", box(text="It is 0.17 lower."), [row("A.thm6", "holds")])
    with pytest.raises(RunError, match="number 40"):
        boxes.check("01_gmm_theory", Box(claimed="We got 40 of them.", sure="Quite."), [row("A.thm6", "holds")])


def test_the_box_stands_before_the_first_section_and_leads_to_the_cards(rows, monkeypatch):
    monkeypatch.setattr(boxes, "check_prose", lambda *_: None)  # rows that are not executed here have no values
    record = {"id": "A.thm6", "verdict": "holds", "values": {}, "because": ""}
    card = claims.card(claims.get("A.thm6"), record)
    output = nbformat.v4.new_output("display_data", {"text/html": card}, metadata={claims.RECORD: record})
    cells = [
        nbformat.v4.new_markdown_cell("# A title\n\nThe first paragraph."),
        nbformat.v4.new_code_cell("", outputs=[output]),
        nbformat.v4.new_markdown_cell("*A caption.*\n\n## A section\n\nIts text.\n\n## Another"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"dplib": {"seconds": 12.3}})
    boxes.insert(notebook, "01_gmm_theory", rows)
    title, times, first = notebook.cells[0].source.split("\n\n")
    assert (title, first) == ("# A title", "The first paragraph."), "the chapter opens with its own words"
    assert "ran in 12 seconds" in times
    words = notebook.cells[2].source
    assert words.index("A caption.") < words.index("verdict-box") < words.index("## A section")
    assert words.count("verdict-box") == 1
    assert 'href="#A.thm6"' in words, "a card of the page"
    assert 'href="../book/ledger.html#A.eq10"' in words, "a row without a card here"
    assert '<details class="claim" id="A.thm6"' in notebook.cells[1].outputs[0].data["text/html"]


def test_a_chapter_of_the_story_ends_with_the_same_cell_each_time(rows, monkeypatch):
    monkeypatch.setattr(boxes, "check_prose", lambda *_: None)
    chapter, ids = sources.resolve(ways.load().story[0]), []
    for _ in range(2):
        cells = [nbformat.v4.new_markdown_cell("# A title\n\nWords.\n\n## A section")]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"dplib": {"seconds": 12.3}})
        boxes.insert(notebook, chapter, rows)
        ids.append(notebook.cells[-1].id)
    assert "story-next" in notebook.cells[-1].source
    assert ids[0] == ids[1]


def test_an_interval_behind_a_number_is_checked_too(rows):
    """Roles were left out of the check, so that what a reader finds behind a number would have been anybody's."""
    lead = row("A.thm6", "holds")
    lead = replace(lead, values={"lead": {"value": 0.594, "low": 0.437, "high": 0.751}})
    text = "% rows: A.thm6\nIt leads by {abbr}`0.6 points (interval 0.44 to %s)`."
    for high in ("0.75", "0.85"):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text.replace("%s", high))])
        if high == "0.75":
            boxes.check_prose(notebook, "01_gmm_theory", [lead])
        else:
            with pytest.raises(RunError, match=r"number 0\.85"):
                boxes.check_prose(notebook, "01_gmm_theory", [lead])


@pytest.mark.parametrize("text", ["0.6 points [0.44, 0.75]", "{abbr}`−0.6 points (interval −0.75 to −0.44)`"])
@pytest.mark.parametrize("other", ["0.5", "0.57"])
def test_an_interval_belongs_to_its_number(text, other):
    """Each end was held against all values of the rows, so that one of another value passed."""
    values = {"lead": {"value": 0.594, "low": 0.437, "high": 0.751}, "other": {"value": 0.5, "low": 0.44, "high": 0.57}}
    lead = replace(row("A.thm6", "holds"), values=values)
    for typed in (text, text.replace("0.75", other)):
        cell = nbformat.v4.new_markdown_cell(f"% rows: A.thm6\nIt leads by {typed}.")
        notebook = nbformat.v4.new_notebook(cells=[cell])
        if typed == text:
            boxes.check_prose(notebook, "01_gmm_theory", [lead])
        else:
            with pytest.raises(RunError, match="with that interval"):
                boxes.check_prose(notebook, "01_gmm_theory", [lead])


def test_many_cards_in_a_row_are_one_line_that_opens():
    def outputs(*ids):
        records = [{"id": id_, "verdict": "holds", "values": {}, "because": ""} for id_ in ids]
        cards = [claims.card(claims.get(record["id"]), record) for record in records]
        return [nbformat.v4.new_output("display_data", {"text/html": card}, metadata={claims.RECORD: record})
                for card, record in zip(cards, records, strict=True)]  # fmt: skip

    ids = [id_ for id_, claim in claims.load("A").items() if claim.rule][: boxes.CARDS + 2]
    table = nbformat.v4.new_output("display_data", {"text/html": "<table></table>"})
    many, single = outputs(*ids[:-1]), outputs(ids[-1])
    one, rest, last = boxes._folded([*many, table, *single])
    text = one["data"]["text/html"]
    assert text.startswith('<details class="claims"><summary>4 rows of the ledger: 4 <span')
    assert text.count('<details class="claim"') == 4
    assert text.endswith("</details></details>")
    assert rest is table
    assert last == single[0]
    few = many[: boxes.CARDS]
    assert boxes._folded(few) == few


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("01_gmm_theory: {claimed: It was said., hold: [], sure: Quite.}", "01_gmm_theory, hold is not known"),
        ("01_gmm_theory: {sure: Quite., holds: [{text: 1, rows: []}]}", "holds, 0, text = 1 is not allowed"),
        ("99_no_chapter: {sure: Quite.}", "99_no_chapter.* is not allowed: Input should be '00a_why_noise'"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, monkeypatch, text, message):
    path = tmp_path / "boxes.yml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(boxes, "BOXES", path)
    with pytest.raises(ParameterError, match=f"^{path}.*{message}"):
        boxes.load.__wrapped__()
