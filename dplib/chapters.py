"""Run a chapter: execute its notebook through papermill, keep the copy only when the whole of it succeeded."""

import datetime
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from dplib import execution, files, sources
from dplib.checks import ParameterError
from dplib.claims import BASIS, RECORD, ROOT
from dplib.execution import RunError, hardware

EXECUTED = ROOT / "executed"


def run(chapter: str, parameters: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Execute a chapter and put the executed notebook at ``output``, in one step; returns its provenance.

    Raises:
        ParameterError: for a parameter that is unknown or refused, or an output that cannot be; no file is left.
        RunError: when a cell fails; the partial notebook is kept in ``executed/failed``.
    """
    sources.check_parameter_names(chapter, parameters)
    parameters = {name: files.plain(name, value) for name, value in parameters.items()}
    _check_writable(output)
    # Before the run: a long one may outlive an edit or a commit, and what ran is what was there when it began.
    origin = provenance(chapter, parameters)
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="dplib-") as folder:
            partial = Path(folder) / f"{chapter}.ipynb"
            try:
                execution.execute(sources.as_notebook(sources.source(chapter)), parameters, partial, bar=True)
            except RunError as error:
                failed = EXECUTED / "failed" / partial.name
                failed.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(partial, failed)
                raise RunError(f"{chapter}: {error}\nSee the cells up to there in {failed}") from error
            notebook = nbformat.read(partial, as_version=4)
        notebook.metadata["dplib"] = {**origin, "seconds": round(time.monotonic() - start, 1)}
        output.parent.mkdir(parents=True, exist_ok=True)
        files.publish(output, nbformat.writes(notebook) + "\n")
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror or error}.") from error
    return notebook.metadata["dplib"]


def _check_writable(output: Path) -> None:
    try:
        folder = next(folder for folder in output.parents if folder.exists())
        if output.exists() and not output.is_file():
            raise IsADirectoryError(None, "it is no file")
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ParameterError(f"output = {output} is not allowed: {error.strerror or error}.") from None


def records(notebook: nbformat.NotebookNode) -> dict[str, dict[str, Any]]:
    """What an executed notebook recorded, by claim id."""
    return {row["id"]: row for row in recorded(notebook)}


def recorded(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """What an executed notebook recorded, in the order of its cells."""
    return outputs(notebook, RECORD)


def basis(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """What an executed notebook says it rests on (``claims.rests_on``); empty where it says nothing."""
    return next(iter(outputs(notebook, BASIS)), {})


def provenance(chapter: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Date, commit, digest of the sources, versions, hardware and parameters of a run that begins now."""
    return {
        "chapter": chapter,
        "parameters": {**sources.default_parameters(chapter), **parameters},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": execution.commit(),
        "digest": sources.digest(chapter),
        "hardware": hardware(),
        "versions": execution.versions(),
    }


def outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    """What an executed notebook's outputs say under a key of their metadata, in order."""
    found = (output.get("metadata", {}) for cell in notebook.cells for output in cell.get("outputs", ()))
    return [metadata[key] for metadata in found if key in metadata]
