"""One run of a sweep: execute the notebook, file what it recorded, or the reason why it could not.

Runs in a process of its own, forked from one that has papermill imported already (see
:mod:`book.evidence.sweeps.engine`).
"""

import datetime
import json
import os
import platform
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import nbformat
import papermill  # noqa: F401  imported here, so that it is there before the fork
from nbclient.exceptions import DeadKernelError

from book.evidence import execution
from book.evidence.execution import RunError
from book.evidence.sweeps.store import Code, Store
from dplib.checks import ParameterError
from dplib.files import publish

# As in book.evidence.claims, which takes seconds to import; a test keeps the two alike.
RECORD, ANSWER = "dplib_record", "dplib_answer"
AGAIN = 3  # exit status: what failed is outside the notebook, another try may do
LONGEST = 600  # characters of a reason


def work(folder: str, key: str, threads: int) -> None:
    """Make one run of the batch in a folder; ends the process.

    The exit status is 0 once the run is settled, whether it finished or failed by its own fault; AGAIN where it failed
    by a fault from outside: its kernel was killed, the disk was full, or sources changed. ``threads`` are for the
    numerical libraries under the notebook.
    """
    execution.end_with_parent()
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads)))
    here = Path(folder)
    batch = json.loads((here / "batch.json").read_text(encoding="utf-8"))
    store, code = Store(Path(batch["store"])), Code(tuple(batch["files"]), batch["digest"])
    (here / "started" / key).touch()
    (here / "failed" / key).unlink(missing_ok=True)
    with store.alone(key):
        settled = store.is_finished(key) or _attempt(here, store, code, batch, key)
    if not settled:
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
        parts = value if isinstance(value, dict) else {"value": value}
        flat[f"{prefix}.{name}"] = parts.get("value")
        flat |= {f"{prefix}.{name}.{part}": one for part, one in parts.items() if part != "value"}
    return flat


def _attempt(here: Path, store: Store, code: Code, batch: dict[str, Any], key: str) -> bool:
    """Make the run; whether it is settled, done or failed by its own fault, and not by one from outside."""
    partial = store.path(key, f".{uuid.uuid4().hex[:8]}.part.ipynb")
    for old in partial.parent.glob(f"{key}.*.part.ipynb"):  # of an attempt that was killed
        old.unlink(missing_ok=True)
    failed = here / "failed" / key
    try:
        if not code.is_current():
            return False
        result = _execute(here, batch, key, partial)
        if not code.is_current():  # the kernel may have imported the new files
            return False
        store.keep(key, result, partial)
    except (ParameterError, RunError) as error:
        status = "refused" if isinstance(error, ParameterError) else "failed"
        store.keep_failure(key, status, reason(error), partial)
        failed.touch()
    except Exception as error:  # whatever it is, the other runs go on, and the table says what it was
        word = "failed", reason(f"{type(error).__name__}: {error}")
        if isinstance(error, DeadKernelError):
            word = "killed", "the notebook's kernel was killed: out of memory?"
            if partial.exists():
                os.replace(partial, store.path(key, ".failed.ipynb"))
        partial.unlink(missing_ok=True)  # first of all: on a full disk the reason needs its place
        publish(failed, json.dumps(word))  # the driver files it should another try not do
        return False
    finally:
        partial.unlink(missing_ok=True)
    return True


def _execute(here: Path, batch: dict[str, Any], key: str, partial: Path) -> dict[str, Any]:
    """Execute the notebook into ``partial``; returns what to file."""
    parameters = batch["runs"][key]
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    origin = {**batch["provenance"], "parameters": parameters, "date": date, "hardware": execution.hardware()}
    source = nbformat.read(here / "source.ipynb", as_version=4)
    start = time.monotonic()
    execution.execute(source, parameters, partial)
    seconds = round(time.monotonic() - start, 3)
    notebook = nbformat.read(partial, as_version=4)
    notebook.metadata["dplib"] = {**origin, "seconds": seconds}
    nbformat.write(notebook, partial)
    about = {"host": platform.node(), "commit": origin["commit"]}
    return {"parameters": parameters, "results": row(notebook), "seconds": seconds, **_seconds(notebook), **about}


def _seconds(notebook: nbformat.NotebookNode) -> dict[str, float]:
    """How long the kernel took to start, by papermill's clock, and how long the cells took."""
    times = [cell.metadata.get("papermill", {}) for cell in notebook.cells if cell.cell_type == "code"]
    began = min(t["start_time"] for t in times if t.get("start_time"))
    first, opened = (datetime.datetime.fromisoformat(t) for t in (began, notebook.metadata.papermill["start_time"]))
    cells = sum(t.get("duration") or 0 for t in times)
    return {"kernel_seconds": round((first - opened).total_seconds(), 3), "cell_seconds": round(cells, 3)}


def _outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output["metadata"][key] for output in outputs if key in output.get("metadata", {})]
