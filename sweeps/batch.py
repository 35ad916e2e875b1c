"""The runs of a sweep, and one batch of them through Snakemake, from its files to what became of each run.

Beside ``batch.json`` the folder of a batch has ``source.ipynb``; its marks are one a run.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from dplib import execution, sources
from dplib.checks import ParameterError
from dplib.execution import RunError
from sweeps import store as sweep_store
from sweeps import submit
from sweeps.grid import Grid
from sweeps.store import Store
from sweeps.submit import Progress, Resources


@dataclass(frozen=True)
class Plan:
    """A grid with the address of each of its runs.

    Attributes:
        grid: the points.
        code: the files behind the notebook as they were when the sweep began.
        store: where the notebook's runs are kept.
    """

    grid: Grid
    code: sweep_store.Code
    store: Store

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


def make(plan: Plan, batch: dict[str, dict], folder: Path, resources: Resources, shown: Progress) -> None:
    """Give some runs to Snakemake and follow it to its end.

    Raises:
        RunError: where it was killed, or ended before it started some runs; ParameterError where sources changed.
    """
    with submit.workplace(folder) as work:
        _write_batch(plan, batch, work, resources)
        submit.run(work, resources, shown)
        _settle(plan, batch, work)
        shown.show(work)
        shown.close_batch(work)


def _write_batch(plan: Plan, batch: dict[str, dict], work: Path, resources: Resources) -> None:
    nbformat.write(sources.as_notebook(plan.grid.source), work / "source.ipynb")
    plan.store.folder.mkdir(parents=True, exist_ok=True)
    content = {
        "store": str(plan.store.folder.resolve()),
        "files": plan.code.files,
        "digest": plan.code.digest,
        "provenance": {
            "chapter": plan.grid.name,
            "commit": execution.commit(),
            "digest": plan.code.digest,
            "versions": execution.versions(),
        },
        "runs": batch,
    }
    submit.write(work, content, resources)


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
        word = _read(work / "failed" / key) or ["killed", "the run ended without a word: out of memory or time?"]
        with plan.store.alone(key):
            if not plan.store.is_finished(key):
                plan.store.keep_failure(key, *word)
        (work / "failed" / key).touch()
    if len(open_) > len(begun):
        raise RunError(f"Snakemake did not start {len(open_) - len(begun)} of {len(batch)} runs: {submit.where(work)}.")


def _read(path: Path) -> list[str] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() and path.stat().st_size else None
