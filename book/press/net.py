"""What the book says, in one file: every recorded value and verdict, every answer, every anchor of the site.

A change that is to move files and no results writes the file before and after, and compares the two.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

from book.evidence import claims, execution
from book.press import finish, ledger
from dplib import files
from dplib.checks import ParameterError

TOLERANCE = 1e-9
_ANCHOR = re.compile(r'\sid="([^"]+)"')
_MADE_BY_NUMBER = re.compile(
    r"^(?:id|cell-|codecell|exercise-solution-)?\d+$|__|^pst-|^search-"
)  # of a theme, not ours


def gather(executed: Path = execution.EXECUTED, site: Path = finish.HTML) -> dict[str, Any]:
    """Values and verdicts by claim, answers by chapter, and the anchors of all pages.

    Args:
        executed: the folder of executed chapters.
        site: the folder of the rendered site; where it is not there, no anchors.

    Raises:
        ParameterError: where no chapter is executed.
    """
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in ledger.executed_notebooks(executed)}
    if not notebooks:
        raise ParameterError(f"{executed} has no executed chapter: make book makes them.")
    pages = sorted(site.rglob("*.html"))
    return {
        "records": {
            f"{chapter} {row['id']}": {"verdict": row["verdict"], "values": row["values"]}
            for chapter, notebook in notebooks.items()
            for row in claims.recorded(notebook)
        },
        "answers": {chapter: claims.outputs(notebook, claims.ANSWER) for chapter, notebook in notebooks.items()},
        "anchors": {f"{page.relative_to(site)}#{name}": "" for page in pages for name in _anchors(page)},
    }


def write(path: Path) -> dict[str, Any]:
    """Write what :func:`gather` finds to a JSON file; returns it."""
    recorded = gather()
    files.publish(path, json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    return recorded


def is_one(path: Path) -> bool:
    """Whether a file is such a one, which may be written over."""
    try:
        return {"records", "anchors"} <= set(files.read(path))
    except (ParameterError, TypeError):
        return False


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Where two such files differ, a line each; numbers may differ by :data:`TOLERANCE`, relative to the larger."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inside = f"{place}/{name}"
            if name not in after or name not in before:
                yield f"{inside}: {'gone' if name in before else 'new'}"
            else:
                yield from differences(before[name], after[name], inside)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from differences(left, right, f"{place}/{number}")
    elif not _same(before, after):
        yield f"{place}: {before!r:.200} became {after!r:.200}"


def _same(before: Any, after: Any) -> bool:
    numbers = all(isinstance(value, int | float) for value in (before, after))
    if numbers and not math.isnan(before):
        return math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return before == after or (numbers and math.isnan(after))


def _anchors(page: Path) -> set[str]:
    """The ids of a page that somebody may have linked to."""
    return {name for name in _ANCHOR.findall(page.read_text(encoding="utf-8")) if not _MADE_BY_NUMBER.search(name)}
