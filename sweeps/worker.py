"""One run of a sweep: execute the notebook, file what it recorded, or the reason why it could not.

Runs in a process of its own, forked from one that has papermill imported already (see :mod:`sweeps.engine`).
"""

import datetime
import json
import os
import platform
import resource
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import nbformat
import papermill  # noqa: F401  imported here, so that it is there before the fork
from nbclient.exceptions import DeadKernelError

from dplib import execution
from dplib.checks import ParameterError
from dplib.execution import RunError
from dplib.files import publish
from sweeps.store import Code, Store

# As in dplib.claims, which takes seconds to import; a test keeps the two alike.
RECORD, ANSWER = "dplib_record", "dplib_answer"
AGAIN = 3  # exit status: what failed is outside the notebook, another try may do
LONGEST = 600  # characters of a reason


def work(folder: str, key: str, threads: int) -> None:
    """Make one run of the batch in a folder; ends the process.

    The exit status is 0 once the run is settled, whether it finished or failed by its own fault; AGAIN where it failed
    by a fault from outside: its kernel was killed, or the disk was full.

    Args:
        folder: holds ``batch.json`` and ``source.ipynb``, and takes the marks of what is settled.
        key: the run's address.
        threads: for the numerical libraries under the notebook.
    """
    execution.end_with_parent()
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads)))
    here = Path(folder)
    batch = json.loads((here / "batch.json").read_text(encoding="utf-8"))
    store, code = Store(Path(batch["store"])), Code(tuple(batch["files"]), batch["digest"])
    (here / "started" / key).touch()
    (here / "failed" / key).unlink(missing_ok=True)
    with store.alone(key):
        outcome = "done" if store.is_finished(key) else _attempt(here, store, code, batch, key)
    if outcome == "again":
        sys.exit(AGAIN)


def reason(error: BaseException | str) -> str:
    """An error on one line, not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def row(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """What an executed notebook recorded, flat: ``<claim>.verdict``, ``<claim>.<value>``, and for a measured value
    ``<claim>.<value>.low``, ``.high`` and ``.n`` beside it; in the order of the cells.

    Of a chapter that draws kept runs it is the answer at the reader's parameters, ``answer.<value>``: the rest of such
    a page does not depend on them.
    """
    flat: dict[str, Any] = {}
    for answer in _outputs(notebook, ANSWER):
        flat |= _columns("answer", answer)
    for record in _outputs(notebook, RECORD):
        if "plan" not in record:
            flat[f"{record['id']}.verdict"] = record["verdict"]
            flat |= _columns(record["id"], record["values"])
    return flat


def _columns(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        column = f"{prefix}.{name}"
        if isinstance(value, dict):
            flat[column] = value.get("value")
            flat.update({f"{column}.{part}": one for part, one in value.items() if part != "value"})
        else:
            flat[column] = value
    return flat


def _attempt(here: Path, store: Store, code: Code, batch: dict[str, Any], key: str) -> str:
    """Make the run: "done", "failed" by its own fault, or "again": by one from outside, or since sources changed."""
    partial = store.path(key, f".{uuid.uuid4().hex[:8]}.part.ipynb")
    for old in partial.parent.glob(f"{key}.*.part.ipynb"):  # of an attempt that was killed
        old.unlink(missing_ok=True)
    try:
        if not code.is_current():
            return "again"
        result = _execute(here, batch, key, partial)
        if not code.is_current():  # the kernel may have imported the new files
            return "again"
        store.keep(key, result, partial)
    except (ParameterError, RunError) as error:
        store.keep_notebook(key, partial)
        store.keep_failure(key, "refused" if isinstance(error, ParameterError) else "failed", reason(error))
    except Exception as error:  # whatever it is, the other runs go on, and the table says what it was
        if isinstance(error, DeadKernelError):
            store.keep_notebook(key, partial)
            return _again(here, key, "killed", "the notebook's kernel was killed: out of memory?")
        partial.unlink(missing_ok=True)  # first of all: on a full disk the reason needs its place
        return _again(here, key, "failed", reason(f"{type(error).__name__}: {error}"))
    finally:
        partial.unlink(missing_ok=True)
    if store.is_finished(key):
        return "done"
    (here / "failed" / key).touch()
    return "failed"


def _again(here: Path, key: str, status: str, reason: str) -> str:
    """Leave word for the driver, who files it should another try not do."""
    publish(here / "failed" / key, json.dumps([status, reason]))
    return "again"


def _execute(here: Path, batch: dict[str, Any], key: str, partial: Path) -> dict[str, Any]:
    """Execute the notebook into ``partial``; returns what to file."""
    parameters = batch["runs"][key]
    origin = {
        **batch["provenance"],
        "parameters": parameters,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": execution.hardware(),
    }
    source = nbformat.read(here / "source.ipynb", as_version=4)
    start = time.monotonic()
    execution.execute(source, parameters, partial)
    seconds = round(time.monotonic() - start, 3)
    notebook = nbformat.read(partial, as_version=4)
    notebook.metadata["dplib"] = {**origin, "seconds": seconds}
    nbformat.write(notebook, partial)
    return {
        "parameters": parameters,
        "results": row(notebook),
        "seconds": seconds,
        **_seconds(notebook),
        "processor_seconds": {
            "run": round(time.process_time(), 3),
            "kernel": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), 3),
        },
        "bytes": partial.stat().st_size,
        "host": platform.node(),
        "commit": origin["commit"],
    }


def _seconds(notebook: nbformat.NotebookNode) -> dict[str, float]:
    """How long the kernel took to start, by papermill's clock, and how long the cells took."""
    times = [cell.metadata.get("papermill", {}) for cell in notebook.cells if cell.cell_type == "code"]
    began = min(t["start_time"] for t in times if t.get("start_time"))
    first, opened = (datetime.datetime.fromisoformat(t) for t in (began, notebook.metadata.papermill["start_time"]))
    return {
        "kernel_seconds": round((first - opened).total_seconds(), 3),
        "cell_seconds": round(sum(t.get("duration") or 0 for t in times), 3),
    }


def _outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output["metadata"][key] for output in outputs if key in output.get("metadata", {})]
