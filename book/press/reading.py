"""How long a chapter takes to read, counted from what stands on its page: words, formulas, pictures, proofs and code.

Two times: one for a reader of the story, who leaves what is folded closed, and one for whoever checks everything.
Exercises are in neither; the course says what they take.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import nbformat

# People read plain non-fiction at about 240 words a minute; a text in which every other sentence has a number or a
# symbol to look up is slower, and a proof is followed step by step.
WORDS_A_MINUTE = 150
PROOF_WORDS_A_MINUTE = 25
SECONDS = {"symbols": 3, "formulas": 30, "pictures": 45, "lines": 5}  # a formula in the line, on its own; lines of code

_WORD = re.compile(r"[^\W_]+(?:[.,'’-][^\W_]+)*")  # a number takes as long as a word
_SOLUTION = re.compile(r"(?ms)^`{3,}\{solution-start\}.*?^`{3,}\{solution-end\}.*?^`{3,}[ \t]*$")
_EXERCISE = re.compile(r"(?ms)^(?P<fence>[`:]{3,})\{(?:exercise|solution)\b.*?^(?P=fence)[ \t]*$")
_PROOF = re.compile(r"(?ms)^(?P<fence>[`:]{3,})\{(?:prf:)?proof\b.*?^(?P=fence)[ \t]*$")
_SKIPPED = re.compile(r"(?ms)^\s*```\{(?:code-cell|bibliography).*?^\s*```")
_FORMULA = re.compile(r"(?ms)^\s*```\{math.*?^\s*```|\$\$.*?\$\$")
_SYMBOL = re.compile(r"\$[^$\n]*\$")
_BEHIND = re.compile(r"\{abbr\}`([^`(]*)[^`]*`")  # an interval behind its number
_FOLDED_HTML = re.compile(r"(?s)</summary>.*?</details>")
_SILENT_HTML = re.compile(r"(?s)<(style|script|pre)\b.*?</\1>")
_MARKUP = re.compile(r"(?m)^\s*(?::[\w-]+:.*|[`:]{3,}.*)$|\{[\w:]+\}`[^`]*`|</?[a-zA-Z][^<>\n]*>|^% .*$")
_PICTURES = ("image/png", "image/svg+xml", "application/vnd.vegalite.v5+json")
_HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell", "injected-parameters", "parameters"}


class Amount(NamedTuple):
    """What there is to read on a page."""

    words: int
    proof_words: int
    symbols: int
    formulas: int
    pictures: int
    lines: int


class Minutes(NamedTuple):
    """Minutes for the story and for everything, rounded to five."""

    story: int
    everything: int


def amount(notebook: nbformat.NotebookNode, more: str = "") -> Amount:
    """Count what stands on an executed chapter's page, and in ``more``, which the page adds.

    Of a card, and of whatever else is folded in an output, the one line counts that is seen; exercises do not count.
    """
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text = _EXERCISE.sub(" ", _SOLUTION.sub(" ", text))
    proofs = " ".join(proof[0] for proof in _PROOF.finditer(text))
    text = _SKIPPED.sub(" ", _PROOF.sub(" ", text))
    outputs = [output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    shown = " ".join(_FOLDED_HTML.sub(" ", data.get("text/html", "")) for data in outputs)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    visible = [cell for cell in code if not _HIDDEN & set(cell.metadata.get("tags", ()))]
    return Amount(
        words=_words(f"{text} {more} {shown}"),
        proof_words=_words(proofs),
        symbols=len(_SYMBOL.findall(_FORMULA.sub(" ", text + proofs))),
        formulas=len(_FORMULA.findall(text + proofs)),
        pictures=sum(any(kind in data for kind in _PICTURES) for data in outputs),
        lines=sum(bool(line.strip()) for cell in visible for line in cell.source.splitlines()),
    )


def minutes(there: Amount) -> Minutes:
    """How long that takes."""
    story = (
        there.words / WORDS_A_MINUTE
        + (
            there.symbols * SECONDS["symbols"]
            + there.formulas * SECONDS["formulas"]
            + there.pictures * SECONDS["pictures"]
        )
        / 60
    )
    everything = story + there.proof_words / PROOF_WORDS_A_MINUTE + there.lines * SECONDS["lines"] / 60
    return Minutes(_rounded(story), _rounded(everything))


def in_words(minutes_: int) -> str:
    """Minutes as people say them: "40 minutes", "an hour", "an hour and 20 minutes", "3 hours"."""
    hours, rest = divmod(minutes_, 60)
    parts = [{0: "", 1: "an hour"}.get(hours, f"{hours} hours"), f"{rest} minutes" if rest else ""]
    return " and ".join(filter(None, parts))


def total(times: Sequence[Minutes]) -> Minutes:
    """Several chapters one after another."""
    return Minutes(sum(minutes.story for minutes in times), sum(minutes.everything for minutes in times))


def _words(text: str) -> int:
    text = _BEHIND.sub(r"\1", _SYMBOL.sub(" ", _FORMULA.sub(" ", text)))
    return len(_WORD.findall(_MARKUP.sub(" ", _SILENT_HTML.sub(" ", text))))


def _rounded(exact: float) -> int:
    return max(5, 5 * round(exact / 5))
