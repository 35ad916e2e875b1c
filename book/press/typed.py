"""Numbers that somebody has typed on a slide or on the page of a week, held against the book.

A line ``% numbers: A.fig3, chapter 00a, 21 * log(3), 64`` says where the numbers of a slide come from, its notes
included; a plan or a question of ``book/teaching`` has the same after ``numbers:``. A row of the ledger stands for the
means and counts that were measured and for what is printed there, a chapter for what it states, and arithmetic for its
result, so that a plain number is one that the slide sets itself. A number that none of them has is refused.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import nbformat

from book.evidence import claims, sources, stated
from book.evidence.execution import RunError
from book.press import boxes
from book.press.ledger import Row

LINE = re.compile(r"(?m)^% numbers: (.+)\n?")
_ROW = re.compile(r"[A-Z]\.[\w.-]+")
_CHAPTER = re.compile(r"chapter (\w+)")
# What is no number to check: places in the book, in a paper and in a deck, numbered lists, pictures, addresses, powers.
_PLACES = re.compile(
    r"!?\[[^\]]*\]\([^)]*\)|<[^>]*>|(?m:^\s*\d+\. )|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"
    r"|\b(?:Figures?|Tables?|Sections?|Lemmas?|Theorems?|Definitions?|Algorithms?|Remarks?|Examples?|Laws?|[Cc]hapters?"
    r"|[Ww]eeks?|[Aa]ssignments?|[Ss]lides?|[Pp]anels?|Layers?) \d+[a-z]?(?:(?:, | and | to | or )\d+[a-z]?)*"
    r"|\b\d+ minutes?\b"
)
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*(?:/\d+)?")
_FEW = {"0", "1", "2"}  # two worlds, ε = 1, an answer of 0: too common to be anybody's result
_ARITHMETIC = re.compile(r"[\d\s.+*/()-]|log|exp|sqrt|erfc")


class Part(NamedTuple):
    """A text, where it stands, and what its numbers come from."""

    where: str
    text: str
    named: str


class Known(NamedTuple):
    """What the executed chapters say: rows by id, and by chapter the values that it states."""

    rows: Mapping[str, Row]
    chapters: Mapping[str, list[float]]


def known(rows: Iterable[Row], notebooks: Mapping[str, nbformat.NotebookNode]) -> Known:
    """Gather what numbers may come from."""
    said = {
        chapter: list(boxes.numbers(claims.outputs(notebook, stated.STATED))) for chapter, notebook in notebooks.items()
    }
    return Known({row.claim.id: row for row in rows}, said)


def check(part: Part, book: Known | None) -> None:
    """Hold a text's numbers against the book; one whose chapters are not all executed here is passed over.

    Args:
        part: the text.
        book: what the chapters say; None where some may be of other sources than today's, and nothing is checked.

    Raises:
        RunError: for a number that comes from nowhere, or a source that does not exist.
    """
    if book is None or not (known := sources_of(part, book)):
        return
    values, words = known
    for token in numbers(part.text):
        if token not in words and not any(_agrees(token, value) for value in values):
            told = part.named or "names nothing"
            raise RunError(f"{part.where} has the number {token}, which none of its sources has ({told}).")


def numbers(text: str) -> Iterator[str]:
    """The numbers of a text that must come from somewhere, as they are typed."""
    tokens = _NUMBER.findall(_PLACES.sub(" ", LINE.sub("", text)))
    yield from (token for token in tokens if token not in _FEW)


def sources_of(part: Part, book: Known) -> tuple[list[float], set[str]] | None:
    """Values and printed words of a part's sources; None where one of their chapters is not executed."""
    values, rows = [], []
    for name in filter(None, (source.strip() for source in part.named.split(","))):
        if _ROW.fullmatch(name):
            if name not in book.rows:
                raise RunError(f"{part.where} names {name}, which is not in the ledger.")
            rows.append(book.rows[name])
        elif chapter := _CHAPTER.fullmatch(name):
            if (resolved := sources.resolve(chapter[1])) not in book.chapters:
                return None
            values += book.chapters[resolved]
        elif not _ARITHMETIC.sub("", name):
            values.append(float(eval(name, {"__builtins__": {}}, vars(math))))
        else:
            raise RunError(f"{part.where} names “{name}”, which is no row, no chapter and no arithmetic.")
    if any(row.claim.chapter not in book.chapters for row in rows):
        return None
    values += boxes.numbers([[_means(row.values), dict(row.claim.published)] for row in rows])
    return values, boxes.printed(rows)


def _means(values: Mapping[str, Any]) -> list[Any]:
    """A row's values without ends of intervals and counts of runs, which would let a wrong number pass for one."""
    return [value["value"] if isinstance(value, Mapping) and "value" in value else value for value in values.values()]


def _agrees(token: str, value: float) -> bool:
    over, _, under = token.replace(",", "").partition("/")
    if under:
        return abs(abs(value) - int(over) / int(under)) < 1e-9
    return abs(round(abs(value), len(over.partition(".")[2])) - float(over)) < 1e-9
