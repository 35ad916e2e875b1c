"""One run of a sweep: ``python -m book.evidence.sweep_run KEY`` in the sweep's folder executes its notebook.

``runs/<key>.ipynb`` is the executed notebook, up to the cell that failed where one did. ``runs/<key>.json`` comes last
and in one step: parameters, status, reason, seconds, and what the notebook found.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import nbformat

from book.evidence import execution, sources
from book.evidence.execution import RunError
from dplib.checks import ParameterError
from dplib.files import publish

# As in book.evidence.claims, which takes seconds to import; a test keeps them alike.
RECORD, ANSWER = "dplib_record", "dplib_answer"
LONGEST = 600  # characters of a reason


def make(folder: Path, key: str) -> None:
    """Make one run of the grid in a folder, and file what became of it: done, refused, failed or killed.

    Raises:
        ParameterError: where a source behind the notebook is not what it was when the sweep began: the result would be
            filed under code that did not make it.
        OSError: where the result cannot be written.
    """
    sweep = json.loads((folder / "grid.json").read_text(encoding="utf-8"))
    parameters, path = sweep["runs"][key], folder / "runs" / f"{key}.ipynb"
    check_sources(sweep)
    start = time.monotonic()
    status, reason = _execute(sweep["chapter"], parameters, path)
    seconds = round(time.monotonic() - start, 1)
    check_sources(sweep)  # the kernel may have imported the new files
    results = row(nbformat.read(path, as_version=4)) if status == "done" else {}
    result = {"status": status, "reason": reason, "seconds": seconds, "parameters": parameters, "results": results}
    publish(path.with_suffix(".json"), json.dumps(result))


def check_sources(sweep: dict[str, Any]) -> None:
    """Raise ParameterError where the sources behind a sweep's notebook have changed since it began."""
    if sources.digest(sweep["chapter"]) != sweep["digest"]:
        raise ParameterError(f"A source behind {sweep['chapter']} changed during the sweep: start it again.")


def _execute(chapter: str, parameters: dict[str, Any], path: Path) -> tuple[str, str]:
    """Execute a notebook into ``path``; what became of it, and why."""
    from nbclient.exceptions import DeadKernelError

    try:
        execution.execute(sources.as_notebook(sources.source(chapter)), parameters, path)
    except ParameterError as error:
        return "refused", short(error)
    except RunError as error:
        return "failed", short(error)
    except DeadKernelError:
        return "killed", "the notebook's kernel was killed: out of memory?"
    except OSError as error:
        return "failed", short(f"{type(error).__name__}: {error}")
    return "done", ""


def row(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """What an executed notebook found at its parameters, flat: ``answer.<value>``, and of what it recorded without a
    plan ``<claim>.<value>``; ``.low``, ``.high`` and ``.n`` beside a value that has them.
    """
    flat: dict[str, Any] = {}
    for answer in _outputs(notebook, ANSWER):
        flat |= _columns("answer", answer)
    for record in _outputs(notebook, RECORD):
        if "plan" not in record:
            flat |= _columns(record["id"], record["values"])
    return flat


def short(error: BaseException | str) -> str:
    """A reason on one line, not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _columns(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        parts = value if isinstance(value, dict) else {"value": value}
        flat[f"{prefix}.{name}"] = parts.get("value")
        flat |= {f"{prefix}.{name}.{part}": number for part, number in parts.items() if part != "value"}
    return flat


def _outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output["metadata"][key] for output in outputs if key in output.get("metadata", {})]


if __name__ == "__main__":
    try:
        make(Path.cwd(), sys.argv[1])
    except (ParameterError, OSError) as error:
        sys.exit(f"Error: {error}")
