"""A page for each paper's authors: what was easy, what was hard, what we would ask; texts in ``book/authors``.

``[[A.def3]]`` in a text becomes a link to that row of the ledger, with its verdict of today; a row that is not there
stops the build.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from book.evidence.claims import VERDICTS, badge
from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press.ledger import Row

FOLDER = ROOT / "book" / "authors"
NAMED = re.compile(r"\[\[([\w.-]+)\]\]")


def build(rows: Sequence[Row], generated: Path) -> None:
    """Write what each page includes into ``generated``.

    Raises:
        RunError: for a row that the ledger does not have.
    """
    for path in sorted(FOLDER.glob("[A-Z].md")):
        text = linked(path.read_text(encoding="utf-8"), rows)
        (generated / f"authors_{path.stem}.md").write_text(f"{counted(path.stem, rows)}\n\n{text}", encoding="utf-8")


def linked(text: str, rows: Sequence[Row]) -> str:
    """The text with a link to each row that it names; RunError for a row that does not exist."""
    known = {row.claim.id: row for row in rows}

    def link(named: re.Match) -> str:
        if named[1] not in known:
            raise RunError(f"book/authors names {named[1]}, which is not in the ledger.")
        row = known[named[1]]
        where = re.sub(r"^(?:Sections?|Appendix|Appendices) [^,:;]*[,:;] (?=[A-Z]|eqs?\.)", "", row.claim.where)
        told = html.escape(f"{row.claim.id}: {row.verdict}")
        return f'<a class="claim-link" href="ledger.html#{row.claim.id}" title="{told}">{html.escape(where)}</a>'

    return NAMED.sub(link, text)


def counted(paper: str, rows: Sequence[Row]) -> str:
    """How many claims of a paper have which verdict, in one line."""
    counts = Counter(row.verdict for row in rows if row.claim.paper == paper and row.claim.sort == "claim")
    parts = ", ".join(f"{counts[verdict]} {badge(verdict)}" for verdict in VERDICTS if counts[verdict])
    return f'<a href="ledger.html?paper={paper}&sort=claim">Its {sum(counts.values())} claims today</a>: {parts}.'
