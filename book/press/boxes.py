"""The verdict box that closes a chapter's opening: what was claimed, what holds, what does not, how sure we are.

``book/boxes.yml`` holds the lines, in words, each with the rows of the ledger that it rests on. :func:`check` refuses a
line that the ledger does not bear out, so that a box cannot say more, or other, than the verdicts do.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Annotated, Literal

import nbformat
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.dataclasses import dataclass

from book.evidence import claims, rules, sources
from book.evidence.claims import NOT_RUN, VERDICTS, Claim
from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import reading, ways
from book.press.ledger import Row
from dplib import files

BOXES = ROOT / "book" / "boxes.yml"
CARDS = 3  # more of them in a row are folded into one line
# Which verdicts a line of each list may rest on, and what the list is called on the page.
SECTIONS = {
    "holds": ("What holds", ("holds",)),
    "changed": ("What holds with a change", ("holds with change",)),
    "fails": ("What does not", ("fails", "not reproducible as stated")),
    "open": ("What is open", ("undecided", rules.NOT_TESTED, NOT_RUN)),
}
_SENTENCE = re.compile(r"(?<=[.]) (?=[A-Z])")
_SECTION = re.compile(r"^## ", re.MULTILINE)
_NAMED = re.compile(r"(?m)^% rows: (.+)\n((?:.+\n?)+)")
# What is no measured number: formulas, roles other than abbr, which carries an interval, and places in a paper.
_MATHS = re.compile(r"\$[^$]*\$|\{(?!abbr\})[a-z:]+\}`[^`]*`|\bTables? \d+|\bFigures? \d+[a-f]?|\bSections? [\d.]+")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*")
_ENDS = r"[−-]?(\d+(?:[.,]\d+)*){}[−-]?(\d+(?:[.,]\d+)*)"  # of an interval, as typed
_INTERVAL = re.compile(
    rf"(\d+(?:[.,]\d+)*)[^`\d\[(]{{0,30}}(?:\((?:interval )?{_ENDS.format(' to ')}\)|\[{_ENDS.format(', ')}\])"
)


Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Sentence:
    """A sentence of a box, and the ids of the ledger's rows that it rests on."""

    text: Text
    rows: tuple[str, ...] = ()


class Box(BaseModel, extra="forbid"):
    """A chapter's box; its lists are the keys of SECTIONS."""

    sure: Text
    claimed: Text = ""
    holds: tuple[Sentence, ...] = ()
    changed: tuple[Sentence, ...] = ()
    fails: tuple[Sentence, ...] = ()
    open: tuple[Sentence, ...] = ()

    @property
    def sections(self) -> dict[str, tuple[Sentence, ...]]:
        """The lists that are not empty, by key of SECTIONS."""
        return {name: lines for name in SECTIONS if (lines := getattr(self, name))}


@cache
def load() -> dict[str, Box]:
    """The boxes of ``book/boxes.yml`` by chapter; ParameterError for a chapter or a key that does not exist."""
    return files.checked(BOXES, dict[Literal[tuple(sources.chapters())], Box])


def check(chapter: str, box: Box, rows: Iterable[Row]) -> None:
    """Hold every line of a box against the ledger, from :func:`book.press.ledger.gather`.

    Raises:
        RunError: for a line that rests on no row, on a row that does not exist, on a verdict that its list does not
            allow, or that has a number which none of its rows has in print.
    """
    known = {row.claim.id: row for row in rows}
    has_rows = any(row.claim.chapter == chapter for row in known.values())
    for name, lines in box.sections.items():
        title, allowed = SECTIONS[name]
        for line in lines:
            where = f"book/boxes.yml, {chapter}, “{title}”: “{line.text}”"
            if has_rows and not line.rows:
                raise RunError(f"{where} names no row of the ledger.")
            for id_ in line.rows:
                if id_ not in known:
                    raise RunError(f"{where} rests on {id_}, which is not in the ledger.")
                if known[id_].verdict not in allowed:
                    raise RunError(
                        f"{where} rests on {id_}, whose verdict is {known[id_].verdict!r}: "
                        f"it must be {' or '.join(allowed)}. Write the line anew, or move it."
                    )
            _check_numbers(where, line.text, [known[id_] for id_ in line.rows])
    for text in (box.claimed, box.sure):
        _check_numbers(f"book/boxes.yml, {chapter}: “{text}”", text, [])


def insert(notebook: nbformat.NotebookNode, chapter: str, rows: list[Row]) -> None:
    """Put a chapter's times below its title, its box before its first section, an anchor on each card; in place.

    So the page opens with its question, its picture and its summary, and the box closes them.

    Raises:
        RunError: as :func:`check` and :func:`check_prose`.
    """
    on_page = _anchor(notebook)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = _folded(cell.outputs)
    box = load().get(chapter)
    if box is None:  # a test asks for one; a chapter that is being written can be looked at without
        return
    check(chapter, box, rows)
    check_prose(notebook, chapter, rows)
    title, _, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"{title}\n\n{times(notebook)}\n\n{rest.strip()}"
    words = markdown(chapter, box, rows, on_page)
    opening = next(cell for cell in notebook.cells if cell.cell_type == "markdown" and _SECTION.search(cell.source))
    opening.source = _SECTION.sub(lambda heading: f"{words}\n\n{heading[0]}", opening.source, count=1)
    if ending := ways.ending(chapter):
        notebook.cells.append(
            nbformat.v4.new_markdown_cell(ending, id="ending")
        )  # not by chance: the page would be new each time


def markdown(chapter: str, box: Box, rows: list[Row], on_page: set[str]) -> str:
    """A box as MyST; ``on_page`` are the rows whose cards stand on the page: the others are linked in the ledger."""
    parts = [":::{admonition} At a glance", ":class: verdict-box", ""]
    if box.claimed:
        parts += ["What was claimed", f": {box.claimed}", ""]
    known = {row.claim.id: row.claim for row in rows}
    counts = Counter(row.verdict for row in rows if row.claim.chapter == chapter)
    # Folded, so that the chapter's first figure comes within two screens; its text says what was found.
    parts += ['<details class="box-lines"><summary>What holds, what does not, what is open</summary>', ""]
    for name, (title, verdicts) in SECTIONS.items():
        if lines := box.sections.get(name):
            style = "undecided" if name == "open" else verdicts[-1 if name == "changed" else 0].replace(" ", "-")
            listed = "\n  ".join(f"- {line.text} {_links(line.rows, known, on_page)}".rstrip() for line in lines)
            parts += [f'<span class="box-{style}">{title}</span>', f": {listed}", ""]
        elif name == "fails" and counts and not any(counts[verdict] for verdict in verdicts):
            parts += [f'<span class="box-fails">{title}</span>', ": Nothing: no row of this chapter fails.", ""]
    parts += ["</details>", "", "How sure we are", f": {box.sure}", ""]
    if counts:
        address = f"../book/ledger.html?chapter={chapter}"
        asserted = Counter(row.verdict for row in rows if row.claim.chapter == chapter and row.claim.sort == "claim")
        parts += [f'<a href="{address}">Its claims in the ledger</a>: {_counted(asserted or counts)}.', ""]
    return "\n".join([*parts, ":::"])


def times(notebook: nbformat.NotebookNode) -> str:
    """The line below a chapter's title: what it takes to read and to run, from its text and its provenance."""
    run = notebook.metadata["dplib"]
    kept = any("runs" in basis for basis in claims.outputs(notebook, claims.BASIS))
    on = "from kept runs" if kept else "on data that come with the packages"
    story, everything = minutes(notebook)
    more = f", {reading.in_words(everything)} with proofs and code" if everything > story else ""
    place = ways.note(run["chapter"]) if "chapter" in run else ""
    return (
        f'<p class="times">{place} About {reading.in_words(story)} to read{more}; '
        f"this page ran in {run['seconds']:.0f} seconds, {on}.</p>"
    )


def minutes(notebook: nbformat.NotebookNode) -> reading.Minutes:
    """Minutes to read an executed chapter and the part of its box that is not folded."""
    box = load().get(notebook.metadata.get("dplib", {}).get("chapter"))
    return reading.minutes(reading.amount(notebook, f"{box.claimed} {box.sure}" if box else ""))


def check_prose(notebook: nbformat.NotebookNode, chapter: str, rows: Iterable[Row]) -> None:
    """Hold a chapter's sentences against the rows that they name.

    A paragraph under a line ``% rows: D.fig1, D.eq3``, which the page does not show, may have no number that these rows
    do not have, in print or measured, to as many decimals as are typed; and these rows must have been run. Numbers with
    decimals in a row's own reason must be its own, too, but for sentences on an "earlier run", whose runs are not kept.

    Raises:
        RunError: for a row that does not exist, or a number that none of the paragraph's rows has.
    """
    known = {row.claim.id: row for row in rows}
    for cell in notebook.cells:
        for ids, text in _NAMED.findall(cell.source) if cell.cell_type == "markdown" else ():
            where = f"{chapter}: “{' '.join(text.split())[:80]}…”"
            named = [id_.strip() for id_ in ids.split(",")]
            for id_ in named:
                if id_ not in known or known[id_].verdict == NOT_RUN:
                    raise RunError(f"{where} rests on {id_}, which is not in the ledger or not run yet.")
            _check_measured(where, text, [known[id_] for id_ in named])
    for row in known.values():
        if row.claim.chapter == chapter and row.claim.rule and row.verdict != NOT_RUN:
            because = " ".join(
                sentence for sentence in _SENTENCE.split(row.claim.because) if "earlier run" not in sentence
            )
            _check_measured(f"{row.claim.id}, because", because, [row], decimals_only=True)


def _check_measured(where: str, text: str, rows: list[Row], *, decimals_only: bool = False) -> None:
    values = [number for row in rows for number in numbers([row.values, dict(row.claim.published)])]
    words = printed(rows)
    for number in _NUMBER.findall(_MATHS.sub(" ", text)):
        if decimals_only and "." not in number:
            continue
        if number not in words and not any(agrees(number, value) for value in values):
            raise RunError(f"{where} has the number {number}, which none of its rows has, measured or in print.")
    measured = [interval for row in rows for interval in _measured(row.values)]
    for match in _INTERVAL.finditer(text):
        typed = [number for number in match.groups() if number]
        if not words.issuperset(typed) and not any(_is(typed, interval) for interval in measured):
            raise RunError(f"{where} has {match[0]}: none of its rows has that number with that interval.")


def _measured(value: object) -> Iterable[Mapping[str, float]]:
    """All measured numbers that have an interval, in the values of rows."""
    if isinstance(value, Mapping) and value.keys() >= {"value", "low", "high"}:
        yield value
    elif isinstance(value, Mapping | list):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from _measured(element)
    elif isinstance(value, str):  # "0.34 [0.23, 0.43]", where one end may be open
        for match in _INTERVAL.finditer(value):
            ends = (float(number.replace(",", "")) for number in match.groups() if number)
            yield dict(zip(("value", "low", "high"), ends, strict=True))


def _is(typed: Sequence[str], measured: Mapping[str, float]) -> bool:
    """Whether a number and the ends behind it are a measured one, or its negative, whose ends stand the other way."""
    ends = measured["low"], measured["high"]
    if None in ends or not agrees(typed[0], measured["value"]):
        return False
    return any(all(map(agrees, typed[1:], pair)) for pair in (ends, ends[::-1]))


def agrees(number: str, value: float) -> bool:
    """Whether a number as it is typed, without a sign, is a value, rounded to as many decimals."""
    plain = number.replace(",", "")
    return abs(round(abs(value), len(plain.partition(".")[2])) - float(plain)) < 1e-9


def _check_numbers(where: str, text: str, rows: list[Row]) -> None:
    """A number in a line is a published one: it stands in print in one of the line's rows."""
    if new := [number for number in _NUMBER.findall(text) if number not in printed(rows)]:
        raise RunError(f"{where} has the number {new[0]}, which none of its rows has in print.")


def printed(rows: Iterable[Row]) -> set[str]:
    """The numbers that stand in the words of rows."""
    texts = (f"{c.where} {c.statement} {dict(c.published)} {c.note} {c.correction}" for c in (r.claim for r in rows))
    return set(_NUMBER.findall(" ".join(texts)))


def numbers(value: object) -> Iterable[float]:
    """All numbers in the values of rows, ends of intervals included, those inside texts too."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from numbers(element)
    elif isinstance(value, str):
        digits = (number.replace(",", "") for number in _NUMBER.findall(value))
        yield from (float(number) for number in digits if number.count(".") < 2)  # not those of versions
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _anchor(notebook: nbformat.NotebookNode) -> set[str]:
    """Give the card of each recorded claim its id as an anchor; returns the claims' ids."""
    anchored = set()
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        record = output.get("metadata", {}).get(claims.RECORD)
        if record and record["id"] not in anchored:
            card = output["data"]["text/html"]
            output["data"]["text/html"] = card.replace(' class="claim"', f' class="claim" id="{record["id"]}"', 1)
            anchored.add(record["id"])
    return anchored


def _folded(outputs: Sequence[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """A cell's outputs, more than ``CARDS`` cards in a row as one line that opens: how many, which verdicts."""
    folded = []
    for is_card, group in groupby(outputs, lambda output: claims.RECORD in output.get("metadata", {})):
        group = list(group)
        if is_card and len(group) > CARDS:
            verdicts = Counter(output["metadata"][claims.RECORD]["verdict"] for output in group)
            counted = f": {_counted(verdicts)}" if any(verdicts) else ""  # runs of another plan have no verdicts
            head = f"<summary>{len(group)} rows of the ledger{counted}</summary>"
            cards = "".join(output["data"]["text/html"] for output in group)
            html_ = f'<details class="claims">{head}{cards}</details>'
            group = [nbformat.v4.new_output("display_data", {"text/html": html_})]
        folded += group
    return folded


def _links(ids: Iterable[str], known: Mapping[str, Claim], on_page: set[str]) -> str:
    """Where in the paper each row of a line is; a link to its card on this page, or to its row in the ledger."""
    links = []
    for id_ in ids:
        page = "" if id_ in on_page else "../book/ledger.html"
        where = re.sub(r"^(?:Sections?|Appendix) [^,:]*, (?=[A-Z]|eqs?\.)", "", known[id_].where)
        links.append(f'<a href="{page}#{html.escape(id_)}" title="{html.escape(id_)}">{html.escape(where)}</a>')
    return f'<span class="box-rows">{" · ".join(links)}</span>' if links else ""


def _counted(counts: Counter) -> str:
    return ", ".join(f"{counts[verdict]} {claims.badge(verdict)}" for verdict in VERDICTS if counts[verdict])
