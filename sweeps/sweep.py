"""A grid of runs: ``python -m dplib sweep 01_gmm_theory -p epsilon=0.1,1 -p seed=0:20 --cores 2``.

Snakemake executes the notebooks, each through papermill; finished ones lie in a store that all sweeps share
(:mod:`sweeps.store`), so that the same command goes on where it was. Snakemake gets the runs in batches: what it
keeps in memory about them does not grow with the grid.
"""

import contextlib
import hashlib
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from dplib import execution, files, sources
from dplib.execution import RunError
from sweeps import batch as sweep_batch
from sweeps import store as sweep_store
from sweeps import submit, table
from sweeps.batch import Plan, plan
from sweeps.grid import Grid
from sweeps.store import Store
from sweeps.submit import SWEEPS, Resources

__all__ = ["Plan", "Resources", "default_folder", "describe", "plan", "run"]

BATCH = 256


def default_folder(grid: Grid) -> Path:
    """One folder for each grid: the same command finds it again."""
    axes = {name: repr(axis) if isinstance(axis, range) else axis for name, axis in grid.axes.items()}
    text = json.dumps([grid.chapter, axes])
    return sweep_store.FOLDER.parent / f"{grid.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def describe(plan: Plan, resources: Resources, *, retry_failed: bool = False) -> str:
    """What a sweep would do: runs, how many of them are done, and roughly how long the others take."""
    done = failed = todo = 0
    seconds: list[float] = []
    for key, _ in plan.runs():
        result = plan.store.finished(key)
        if result:
            done += 1
            if len(seconds) < 1000:
                seconds.append(result["seconds"])
        elif plan.store.failure(key) and not retry_failed:
            failed += 1
        else:
            todo += 1
    text = f"{len(plan.grid)} runs: {done} done, {failed} failed before, {todo} to do"
    seconds = seconds or list(itertools.islice(_seconds_of_others(plan.store), 200))
    if not todo:
        return text + "."
    if not seconds:
        return text + "; how long is not known before one has finished."
    at_once = max(1, resources.cores // resources.cpus) if resources.executor == "local" else resources.jobs
    one = statistics.median(seconds)
    return f"{text}; roughly {_time(todo * one / min(at_once, todo))} ({one:.3g} s a run, {at_once} at once)."


def run(
    plan: Plan,
    folder: Path,
    resources: Resources,
    *,
    retry_failed: bool = False,
    summary: bool = True,
    bar: bool = True,
) -> dict[str, int]:
    """Make the runs that are not there yet, then the table, the summary and the index.

    Args:
        plan: from :func:`plan`.
        folder: where table, summary and index go; one sweep at a time works in it, a second one waits.
        resources: where the runs go.
        retry_failed: also make those that failed before.
        summary: execute the summary notebook too.
        bar: show a progress bar.

    Returns:
        Status ("done", "refused", "failed", "killed") to the number of runs of the grid that have it.

    Raises:
        RunError: where Snakemake was killed or did not start runs, or the disk is full.
        ParameterError: where a source behind the notebook changed during the sweep.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            _make_all(plan, folder, resources, retry_failed=retry_failed, bar=bar)
            return _report(plan, folder, summary=summary)
    except OSError as error:
        raise RunError(f"{error}: what has finished is kept, and the same command goes on.") from error


def _make_all(plan: Plan, folder: Path, resources: Resources, *, retry_failed: bool, bar: bool) -> None:
    """Make the runs, batch by batch."""
    submit.clear(folder)
    total = sum(1 for _ in plan.todo(retry_failed=retry_failed))
    todo = plan.todo(retry_failed=retry_failed)
    size = BATCH if resources.executor == "local" else max(BATCH, 4 * resources.jobs)
    with submit.progress(total, len(plan.grid) - total, bar) as shown:
        while batch := dict(itertools.islice(todo, size)):
            sweep_batch.make(plan, batch, folder, resources, shown)


def _report(plan: Plan, folder: Path, *, summary: bool) -> dict[str, int]:
    """Table, summary notebook and index; returns how many runs have which status."""
    counts = table.write(plan, folder)
    summary = summary and counts.get("done", 0) > 0
    if summary:
        partial = folder / ".summary.ipynb"
        parameters = {
            "table": str(folder / "table.parquet"),
            "axes": [name for name, values in plan.grid.axes.items() if len(values) > 1],
            "figure": str(folder / "summary.png"),
        }
        execution.execute(sources.as_notebook(SWEEPS / "summary.md"), parameters, partial)
        os.replace(partial, folder / "summary.ipynb")
    table.write_index(plan, folder, counts, summary=summary)
    return counts


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a sweep's folder; where another sweep has it, say which, and wait. The lock ends with its process."""
    path = folder / ".lock"
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(files.locked(path, blocking=False))
        except BlockingIOError:
            print(f"Another sweep works in {folder}: {path.read_text() or 'it just began'}. Waiting.", file=sys.stderr)
            handle = stack.enter_context(files.locked(path, blocking=True))
        files.sign(handle)
        yield


def _seconds_of_others(store: Store) -> Iterator[float]:
    for path in store.folder.glob("??/*.json"):
        if not path.name.endswith(".failed.json") and not path.name.startswith("."):
            yield json.loads(path.read_text(encoding="utf-8"))["seconds"]


def _time(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
