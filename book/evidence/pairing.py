"""A chapter's source (.md) and its notebook (.ipynb): which of the two was edited since they last said the same.

The notebook keeps a digest of what both said then. Times tell nothing: a checkout, a copy or a backup sets them anew.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from book.evidence import scan, sources
from dplib import files
from dplib.checks import ParameterError

if TYPE_CHECKING:
    import nbformat

Cell = tuple[str, str, dict[str, Any]]  # kind, text, metadata
_BLOCK = re.compile(r"^```\{code-cell\}.*?^```$", re.MULTILINE | re.DOTALL)


def pair(chapter: str, *, force: bool = False) -> Path:
    """Bring a chapter's notebook and its source in step; returns the notebook's path.

    Where neither was edited since they last were, nothing is done; where one was, that one counts. A notebook has no
    outputs then, unless it has some and its source was not edited.

    Args:
        chapter: its name.
        force: the source counts, whatever was edited.

    Raises:
        ParameterError: where both were edited, or where nobody knows; both stay as they are.
    """
    import nbformat

    source = sources.source(chapter)
    path = source.with_suffix(".ipynb")
    text, mine = normal(chapter)
    if not path.exists() or force or path.read_bytes() == text.encode():
        _publish(path, text)
        return path
    try:
        notebook = nbformat.read(path, as_version=4)
        theirs = _digest(_content(notebook))
    except Exception as error:  # nbformat's reader and jupytext's raise many kinds, for a file that is half a merge
        raise ParameterError(
            f"{path} cannot be read as a notebook ({' '.join(str(error).split())[:120]}): "
            f"`python -m book pair --force` makes it anew from {source.name}."
        ) from None
    before = dict(notebook.metadata.get("dplib", {})).get("pair")
    if mine != theirs and before not in (mine, theirs):
        both = "were both edited since they last said the same" if before else "do not say the same"
        raise ParameterError(
            f"{source} and {path} {both}: nothing is written. Bring one edit into the other, or move one file away: "
            f"without {path.name}, or by `python -m book pair --force`, {source.name} counts."
        )
    if before == mine != theirs:
        _publish(source, as_source(notebook, source))
    keeps = before == mine or mine == theirs
    if keeps and any(cell.get("outputs") for cell in notebook.cells):
        if before != theirs:
            notebook.metadata["dplib"] = {"pair": theirs}
            _publish(path, nbformat.writes(notebook) + "\n")
    else:
        _publish(path, normal(chapter)[0])
    return path


def normal(chapter: str) -> tuple[str, str]:
    """The text of a chapter's notebook as its source has it, without outputs; and the digest that it holds.

    Args:
        chapter: its name.
    """
    import nbformat

    notebook = sources.as_notebook(sources.source(chapter))
    digest = _digest(_cells(notebook))
    notebook.metadata["dplib"] = {"pair": digest}
    return nbformat.writes(notebook) + "\n", digest


def _digest(cells: Sequence[Cell]) -> str:
    return scan.digest(json.dumps(cells, sort_keys=True))[:16]


def _content(notebook: "nbformat.NotebookNode") -> list[Cell]:
    """What a notebook says as a source would: without what an editor notes beside a cell (times, what is folded)."""
    import jupytext

    return _cells(jupytext.reads(jupytext.writes(notebook, fmt="md:myst"), fmt="md:myst"))


def _cells(notebook: "nbformat.NotebookNode") -> list[Cell]:
    return [(cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def as_source(notebook: "nbformat.NotebookNode", source: Path) -> str:
    """The text of a chapter's source that says what an edited notebook says; what was not edited stays, to the byte.

    Args:
        notebook: the edited one.
        source: the chapter's source before.
    """
    import jupytext

    text = source.read_text(encoding="utf-8")
    head = re.match(r"---\n.*?^---\n", text, re.MULTILINE | re.DOTALL)
    code = [_key(cell) for cell in _cells(sources.as_notebook(source)) if cell[0] == "code"]
    blocks = _BLOCK.findall(text)
    known = dict(zip(code, blocks, strict=True)) if len(code) == len(blocks) else {}
    cells = _content(notebook)
    end = len(text) - len(text.rstrip("\n"))
    whole = f"{head[0] if head else ''}\n{_joined([_written(cell, known) for cell in cells])}{end * chr(10)}"
    if _cells(jupytext.reads(whole, fmt="md:myst")) != cells:  # a form of text that is not known here
        return jupytext.writes(notebook, fmt="md:myst")
    return whole


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _written(cell: Cell, known: dict[str, str]) -> tuple[bool, str]:
    """Whether a cell is code, and its text in a source."""
    import jupytext
    import nbformat

    kind, text, metadata = cell
    if kind == "code" and (old := known.get(_key(cell))):
        return True, old
    if kind == "markdown" and not metadata:
        return False, text
    new = {
        "code": nbformat.v4.new_code_cell,
        "markdown": nbformat.v4.new_markdown_cell,
        "raw": nbformat.v4.new_raw_cell,
    }
    alone = nbformat.v4.new_notebook(cells=[new[kind](text, metadata=metadata)])
    alone.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    return kind == "code", jupytext.writes(alone, fmt="md:myst").split("---\n", 2)[2].strip("\n")


def _joined(written: Sequence[tuple[bool, str]]) -> str:
    """Texts of cells, one after another; two texts that are no code need a line between."""
    text, after_code = "", True
    for is_code, part in written:
        apart = "" if is_code or after_code or part.startswith("+++") else "+++\n\n"
        text += f"{apart}{part}\n\n"
        after_code = is_code
    return text.rstrip("\n")


def _publish(path: Path, text: str) -> None:
    if not path.exists() or path.read_bytes() != text.encode():
        files.publish(path, text)
