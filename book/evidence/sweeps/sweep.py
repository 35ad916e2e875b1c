"""A grid of runs: ``python -m book sweep 01_gmm_theory -p epsilon=0.1,1 -p seed=0:20 --cores 2``.

Snakemake executes the notebooks, each through papermill; finished ones lie in a store that all sweeps share
(:mod:`book.evidence.sweeps.store`), so that the same command goes on where it was. Snakemake gets the runs in batches:
what it keeps in memory about them does not grow with the grid. Beside ``batch.json`` the folder of a batch has
``source.ipynb``; its marks are one a run.
"""

import collections
import contextlib
import hashlib
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from book.evidence import execution, sources
from book.evidence.execution import RunError
from book.evidence.sweeps import figure, submit, table
from book.evidence.sweeps import grid as sweep_grid
from book.evidence.sweeps import store as sweep_store
from book.evidence.sweeps.grid import Grid
from book.evidence.sweeps.store import Store
from book.evidence.sweeps.submit import Progress, Resources
from dplib import files
from dplib.checks import ParameterError

BATCH = 256


@dataclass(frozen=True)
class Plan:
    """A grid, the files behind its notebook as they were when the sweep began, and where its runs are kept."""

    grid: Grid
    code: sweep_store.Code
    store: Store

    @property
    def varied(self) -> list[str]:
        """The parameters with more than one value."""
        return [name for name, values in self.grid.axes.items() if len(values) > 1]

    def runs(self) -> Iterator[tuple[str, dict]]:
        """Key and full parameters of each run, in the order of the grid; made one at a time."""
        common = self.grid.parameters()
        for point in self.grid.points():
            parameters = {**common, **point}
            yield sweep_store.key(self.code.digest, parameters), parameters

    def todo(self, *, retry_failed: bool) -> Iterator[tuple[str, dict]]:
        """Those that have not finished, nor failed unless failures are to be tried again."""
        for key, parameters in self.runs():
            if not self.store.is_finished(key) and (retry_failed or not self.store.failure(key)):
                yield key, parameters


def plan(grid: Grid, store: Path = sweep_store.FOLDER) -> Plan:
    """The runs of a grid under the code as it is now."""
    return Plan(grid, sweep_store.code(grid.chapter), Store(store / grid.name))


def command(
    chapter: str,
    axes: Sequence[str],
    *,
    out: Path | None,
    store: Path | None,
    dry_run: bool,
    retry_failed: bool,
    no_summary: bool,
    **resources: Any,
) -> int:
    """Make a sweep, or say what it would do; returns the exit status: 0 when every run of the grid is done, else 1.

    Args:
        chapter: name, number, path of a MyST notebook, or a YAML file that holds the grid.
        axes: ``NAME=VALUES``, as on the command line, and so are the others.
        resources: fields of :class:`book.evidence.sweeps.submit.Resources`.

    Raises:
        ParameterError: for a grid that cannot be, or where a source behind the notebook changed during the sweep.
        RunError: where Snakemake was killed or did not start runs, or the disk is full.
    """
    if not chapter.endswith((".yml", ".yaml")):
        grid = sweep_grid.from_words(chapter, axes)
    elif axes:
        raise ParameterError("-p has no place beside a file: the grid is what the file says.")
    else:
        grid = sweep_grid.from_file(Path(chapter))
    found = plan(grid, (store or sweep_store.FOLDER).resolve())
    given = Resources(**resources)
    print(describe(found, given, retry_failed=retry_failed), flush=True)
    if dry_run:
        return 0
    folder = (out or default_folder(grid)).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            _make_all(found, folder, given, retry_failed=retry_failed)
            counts = _report(found, folder, summary=not no_summary)
    except OSError as error:
        raise RunError(f"{error}: what has finished is kept, and the same command goes on.") from error
    bad = {status: number for status, number in sorted(counts.items()) if status != "done"}
    print("; ".join(f"{number} {status}" for status, number in [("done", counts.get("done", 0)), *bad.items()]) + ".")
    print(f"Index: {(folder / 'index.html').as_uri()}")
    if bad:
        print("The table says why; --retry-failed tries them again.")
    return 1 if bad else 0


def default_folder(grid: Grid) -> Path:
    """One folder for each grid: the same command finds it again."""
    axes = {name: repr(axis) if isinstance(axis, range) else axis for name, axis in grid.axes.items()}
    text = json.dumps([grid.chapter, axes])
    return sweep_store.FOLDER.parent / f"{grid.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def describe(plan: Plan, resources: Resources, *, retry_failed: bool = False) -> str:
    """What a sweep would do: runs, how many of them are done, and roughly how long the others take."""
    counts, seconds = collections.Counter(), []
    for key, _ in plan.runs():
        result = plan.store.finished(key)
        counts["done" if result else "failed" if not retry_failed and plan.store.failure(key) else "todo"] += 1
        if result and len(seconds) < 1000:
            seconds.append(result["seconds"])
    todo = counts["todo"]
    text = f"{len(plan.grid)} runs: {counts['done']} done, {counts['failed']} failed before, {todo} to do"
    if not todo:
        return text + "."
    seconds = seconds or list(itertools.islice(plan.store.seconds(), 200))
    if not seconds:
        return text + "; how long is not known before one has finished."
    at_once = max(1, resources.cores // resources.cpus) if resources.executor == "local" else resources.jobs
    one = statistics.median(seconds)
    return f"{text}; roughly {_time(todo * one / min(at_once, todo))} ({one:.3g} s a run, {at_once} at once)."


def _make_all(plan: Plan, folder: Path, resources: Resources, *, retry_failed: bool) -> None:
    """Make the runs that are not there yet, batch by batch."""
    submit.clear(folder)
    total = sum(1 for _ in plan.todo(retry_failed=retry_failed))
    todo = plan.todo(retry_failed=retry_failed)
    size = BATCH if resources.executor == "local" else max(BATCH, 4 * resources.jobs)
    with submit.progress(total, len(plan.grid) - total) as shown:
        while batch := dict(itertools.islice(todo, size)):
            with submit.workplace(folder) as work:
                _make(plan, batch, work, resources, shown)


def _make(plan: Plan, batch: dict[str, dict], work: Path, resources: Resources, shown: Progress) -> None:
    """Give some runs to Snakemake and follow it to its end."""
    nbformat.write(sources.as_notebook(plan.grid.source), work / "source.ipynb")
    plan.store.folder.mkdir(parents=True, exist_ok=True)
    digest = plan.code.digest
    origin = {"chapter": plan.grid.name, "commit": execution.commit(), "digest": digest}
    content = {
        "store": str(plan.store.folder.resolve()),
        "files": plan.code.files,
        "digest": digest,
        "provenance": {**origin, "versions": execution.versions()},
        "runs": batch,
    }
    submit.write(work, content, resources)
    submit.run(work, resources, shown)
    _settle(plan, batch, work)
    shown.show(work)
    shown.close_batch(work)


def _settle(plan: Plan, batch: dict[str, dict], work: Path) -> None:
    """File why runs failed for which Snakemake gave up trying; raise where some did not begin.

    Only now: had this process been killed before, the next sweep would have to make them.
    """
    settled = set(os.listdir(work / "settled"))
    open_ = [key for key in batch if key not in settled and not plan.store.is_finished(key)]
    if open_ and not plan.code.is_current():
        raise ParameterError("A source behind the notebook changed during the sweep: start it again.")
    begun = [key for key in open_ if (work / "started" / key).exists()]
    for key in begun:
        path, word = work / "failed" / key, ["killed", "the run ended without a word: out of memory or time?"]
        if path.exists() and path.stat().st_size:
            word = json.loads(path.read_text(encoding="utf-8"))
        with plan.store.alone(key):
            if not plan.store.is_finished(key):
                plan.store.keep_failure(key, *word)
        path.touch()
    if len(open_) > len(begun):
        raise RunError(f"Snakemake did not start {len(open_) - len(begun)} of {len(batch)} runs: {submit.where(work)}.")


def _report(plan: Plan, folder: Path, *, summary: bool) -> dict[str, int]:
    """Table, figure and index; returns how many runs have which status."""
    found = table.frame(plan)
    table.write(found, folder)
    counts = found["status"].value_counts().to_dict()
    summary = summary and "done" in counts
    if summary:
        figure.draw(found, plan.varied).savefig(folder / "summary.png", dpi=130)
    table.write_index(plan, found, folder, figure=summary)
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


def _time(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
