"""Many independent runs of one function: side by side on the cores, each kept on disk once it is done.

A run is a call ``function(**job)`` with plain values that returns plain values. Its result is filed under the job, the
function, the source of every dplib module behind it, and the data. So an interrupted study goes on where it was, two
chapters share the runs they have in common, and a changed module repeats exactly what it could change.
"""

import functools
import hashlib
import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from tqdm.auto import tqdm

from dplib import checks, sources
from dplib.checks import ParameterError
from dplib.claims import ROOT

FOLDER = ROOT / "_build" / "studies"

Job = Mapping[str, Any]
Result = dict[str, Any]


class StudyError(RuntimeError):
    """Some runs failed; the others are kept. The message names a job that failed, and why."""


def run(
    function: Callable[..., Result],
    jobs: Sequence[Job],
    *,
    workers: int = 1,
    inputs: Mapping[str, str] | None = None,
    what: str = "runs",
) -> list[Result]:
    """The results of ``function(**job)`` in the order of the jobs.

    Each has "seconds" and "cpu_seconds" added: what it took when it ran, also on a machine that did other work.

    Args:
        function: of a dplib module, so that a worker can import it. All of its randomness comes from the job.
        jobs: mappings of plain values (what JSON can hold); equal ones run once.
        workers: processes, each on one thread; with 1 the jobs run in this process.
        inputs: what else decides the results, such as data-set name to checksum.
        what: names the progress bar.

    Raises:
        ParameterError: for a job that JSON cannot hold, or the first one that a run raised.
        StudyError: where a run failed otherwise. All other runs are made and kept before it is raised.
    """
    checks.integer(1).check("workers", workers)
    paths = [_path(function, job, inputs or {}) for job in jobs]
    todo = {path: job for path, job in zip(paths, jobs, strict=True) if not path.exists()}
    calls = [joblib.delayed(_keep)(function, dict(job), path) for path, job in todo.items()]
    faults = []
    workers = min(workers, len(calls))
    if workers > 1:
        with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
            pool = joblib.Parallel(batch_size=1, pre_dispatch="all", return_as="generator_unordered")
            faults = _faults(pool(calls), len(calls), what)
    elif calls:
        faults = _faults((call(*args, **named) for call, args, named in calls), len(calls), what)
    for error in faults:
        if isinstance(error[1], ParameterError):
            raise error[1]
    if faults:
        job, error = faults[0]
        raise StudyError(f"{len(faults)} of {len(jobs)} {what} failed: {job}: {type(error).__name__}: {error}")
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


@dataclass(frozen=True)
class Tuned:
    """What :func:`tune` chose for one cell.

    Attributes:
        cell: the settings that were given.
        rate: the value with the best mean score.
        score: that mean.
        tried: value to mean score, in increasing order of value.
        at_edge: the best value was still the smallest or largest tried: a better one may lie beyond.
    """

    cell: Job
    rate: float
    score: float
    tried: dict[float, float]
    at_edge: bool


def tune(
    function: Callable[..., Result],
    cells: Sequence[Job],
    rates: Sequence[float],
    *,
    seeds: Sequence[int],
    name: str = "learning_rate",
    score: str = "validation",
    extensions: int = 2,
    workers: int = 1,
    inputs: Mapping[str, str] | None = None,
) -> list[Tuned]:
    """For each cell the value of ``name`` with the best mean ``score`` over ``seeds``, on a geometric grid.

    Where the best value lies at an end of the grid, the grid grows there by its own ratio, up to ``extensions`` times.
    The score must come from data that no reported result uses. What this costs in privacy is not accounted here.

    Args:
        function: as in :func:`run`; called with a cell, ``name`` and ``seed``.
        cells: the settings to tune for, each by itself.
        rates: at least two values, increasing.
        seeds: of the tuning runs; other ones than those of the reported runs.
        score: the entry of the results to maximise; a run whose score is None or not finite counts as the worst.

    Raises:
        ParameterError, StudyError: as :func:`run`.
    """
    checks.list_of(checks.positive(), least=2).check("rates", list(rates))
    if any(a >= b for a, b in itertools.pairwise(rates)):
        raise ParameterError(f"rates = {list(rates)} is not allowed: they must increase.")
    grids = [list(rates) for _ in cells]
    for extension in range(extensions + 1):
        jobs = [
            {**cell, name: rate, "seed": seed}
            for cell, grid in zip(cells, grids, strict=True)
            for rate in grid
            for seed in seeds
        ]
        results = iter(run(function, jobs, workers=workers, inputs=inputs, what="tuning runs"))
        tuned = [
            _best(cell, grid, [[next(results)[score] for _ in seeds] for _ in grid])
            for cell, grid in zip(cells, grids, strict=True)
        ]
        if extension == extensions or not any(one.at_edge for one in tuned):
            return tuned
        grids = [_longer(grid, one) for grid, one in zip(grids, tuned, strict=True)]
    raise AssertionError("the last extension returns")


def _best(cell: Job, grid: Sequence[float], scores: Sequence[Sequence[float | None]]) -> Tuned:
    known = np.array([[np.nan if s is None else s for s in row] for row in scores], dtype=float)
    means = np.where(np.isfinite(known).all(1), known.mean(1), -np.inf)
    best = int(means.argmax())
    return Tuned(
        cell, grid[best], float(means[best]), dict(zip(grid, means.tolist(), strict=True)), best in (0, len(grid) - 1)
    )


def _longer(grid: list[float], tuned: Tuned) -> list[float]:
    """One more value beyond the end at which the best one lies; rounded, so that equal grids give equal jobs."""
    if not tuned.at_edge:
        return grid
    if tuned.rate == grid[-1]:
        return [*grid, float(f"{grid[-1] ** 2 / grid[-2]:.4g}")]
    return [float(f"{grid[0] ** 2 / grid[1]:.4g}"), *grid]


def _path(function: Callable, job: Job, inputs: Mapping[str, str]) -> Path:
    try:
        text = json.dumps([_source(function.__module__), function.__qualname__, job, inputs], sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"job = {job!r} is not allowed: it must hold plain values ({error}).") from None
    return FOLDER / function.__qualname__ / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


@functools.cache
def _source(module: str) -> str:
    """Digest of a module and of all own ones that it imports, as they are when the first run of this process asks."""
    total = hashlib.sha256()
    for path in sources.module_files(module):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def _keep(function: Callable[..., Result], job: dict[str, Any], path: Path) -> tuple[dict[str, Any], Exception] | None:
    """Run a job and file its result in one step; the job and the exception where there is one."""
    start, worked = time.perf_counter(), time.process_time()
    try:
        result = dict(function(**job))
        took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - worked}
        text = json.dumps({**result, **took})
    except Exception as error:  # one run must not take the others with it
        return job, error
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
    return None


def _faults(outcomes: Iterable, count: int, what: str) -> list[tuple[dict[str, Any], Exception]]:
    bar = tqdm(outcomes, what, total=count, leave=False, delay=2)
    return [fault for fault in bar if fault is not None]
