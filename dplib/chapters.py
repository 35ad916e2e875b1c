"""Run a chapter: execute its notebook through papermill, keep the copy only when the whole of it succeeded."""

import datetime
import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import nbformat

from dplib import execution, files, sources, values
from dplib.checks import ParameterError, shown
from dplib.claims import BASIS, RECORD, RESULTS, ROOT, frozen_run, get
from dplib.execution import RunError, hardware

EXECUTED = ROOT / "executed"
PROFILES = sources.NOTEBOOKS / "profiles"


def profile(name: str) -> dict[str, dict[str, Any]]:
    """What a profile overrides, by chapter; nothing for the embedded one.

    Raises:
        ParameterError: for a profile that does not exist.
    """
    known = ["embedded", *sorted(path.stem for path in PROFILES.glob("*.yml"))]
    if name not in known:
        raise ParameterError(f"profile = {shown(name)} does not exist: it must be one of {', '.join(known)}.")
    return {} if name == "embedded" else values.read(PROFILES / f"{name}.yml") or {}


def covers(name: str, chapter: str) -> bool:
    """Whether a profile says anything of a chapter; the embedded one covers all."""
    return name == "embedded" or chapter in profile(name)


def profile_parameters(chapter: str, name: str) -> dict[str, Any]:
    """What a profile overrides in a chapter; ParameterError where it says nothing of it."""
    if not covers(name, chapter):
        raise ParameterError(f"profile {name} has nothing for {chapter}: it has {', '.join(profile(name))}.")
    return profile(name).get(chapter, {})


def run(chapter: str, parameters: Mapping[str, Any], output: Path, profile: str = "embedded") -> dict[str, Any]:
    """Execute a chapter and put the executed notebook at ``output``; returns its provenance.

    Args:
        chapter: a name of ``sources.chapters()``.
        parameters: overrides of the profile's parameters.
        output: where the executed notebook goes, in one step, once every cell has succeeded.
        profile: "embedded", or a file of ``notebooks/profiles``.

    Raises:
        ParameterError: for a parameter that is unknown or refused, or an output that cannot be; no file is left.
        RunError: when a cell fails; the partial notebook is kept in ``executed/failed``.
    """
    parameters = {**profile_parameters(chapter, profile), **parameters}
    sources.check_parameter_names(chapter, parameters)
    parameters = {name: values.plain(name, value) for name, value in parameters.items()}
    _check_writable(output)
    # Before the run: a long one may outlive an edit or a commit, and what ran is what was there when it began.
    origin = provenance(chapter, profile, parameters)
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


def freeze(chapter: str, executed: Path, only: Collection[str] = ()) -> Path:
    """Write the records of an executed notebook to ``book/results``; returns the file.

    Args:
        only: claims; the frozen file then keeps all its other records, and these carry the provenance and the basis of
            this run as their own, since its parameters may differ from the profile's.

    Raises:
        ParameterError: when the notebook recorded nothing, or not all of ``only``, or these have no file to go to.
    """
    notebook = nbformat.read(executed, as_version=4)
    rows, origin = records(notebook), notebook.metadata["dplib"]
    if not rows:
        raise ParameterError(f"{executed} recorded no claim: nothing to freeze.")
    result = {"chapter": chapter, "provenance": origin, "basis": basis(notebook), "records": rows}
    path = frozen_file(chapter, origin["profile"], only)
    if only:
        if missing := [id_ for id_ in only if id_ not in rows]:
            raise ParameterError(f"{executed} did not record {', '.join(missing)}: nothing is frozen.")
        own = {"provenance": origin, "basis": result["basis"]}
        result = frozen_run(path)
        result["records"] |= {id_: {**rows[id_], **own} for id_ in only}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)
    return path


def frozen_file(chapter: str, profile: str, only: Collection[str] = ()) -> Path:
    """Where a profile's run of a chapter is frozen.

    Raises:
        ParameterError: when some claims alone are to be frozen that are not the chapter's, or into no file.
    """
    path = RESULTS / f"{chapter}.{profile}.json"
    for claim in map(get, only):
        if claim.chapter != chapter:
            raise ParameterError(f"{claim.id} is a claim of {claim.chapter}, not of {chapter}.")
    if only and not path.exists():
        raise ParameterError(
            f"{', '.join(only)}: some claims alone join a frozen run, and {path.name} is none yet: freeze the profile."
        )
    return path


def records(notebook: nbformat.NotebookNode) -> dict[str, dict[str, Any]]:
    """What an executed notebook recorded, by claim id."""
    return {row["id"]: row for row in recorded(notebook)}


def recorded(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """What an executed notebook recorded, in the order of its cells."""
    return _outputs(notebook, RECORD)


def basis(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """What an executed notebook says it rests on (``claims.rests_on``); empty where it says nothing."""
    return next(iter(_outputs(notebook, BASIS)), {})


def provenance(chapter: str, profile: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Date, commit, digest of the sources, versions, hardware and parameters of a run that begins now."""
    return {
        "chapter": chapter,
        "profile": profile,
        "parameters": {**sources.default_parameters(chapter), **parameters},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": execution.commit(),
        "digest": sources.digest(chapter),
        "hardware": hardware(),
        "versions": execution.versions(),
    }


def _outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output["metadata"][key] for output in outputs if key in output.get("metadata", {})]
