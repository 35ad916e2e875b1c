"""The runs of a sweep, and one batch of them through Snakemake, from its files to what became of each run.

A folder of its own holds what Snakemake and the runs need to know (``batch.json``, ``source.ipynb``) and the marks by
which they are followed: ``started``, ``settled``, and ``failed`` with the reason where another try might do.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from tqdm.auto import tqdm

from dplib import execution, sources, sweep_store
from dplib.checks import ParameterError
from dplib.execution import RunError
from dplib.sweep_grid import Grid
from dplib.sweep_store import Store

SWEEPS = execution.ROOT / "sweeps"


@dataclass(frozen=True)
class Resources:
    """Where the runs go, and what each of them gets.

    Attributes:
        executor: "local", "slurm", "kubernetes", or the folder of a Snakemake profile.
        cores: local: how many cores at most; elsewhere ``jobs`` counts.
        jobs: on a cluster: how many runs may be queued or running at once.
        cpus, mem_mb, gpus, minutes: of one run; None leaves it to the cluster.
    """

    executor: str = "local"
    cores: int = 1
    jobs: int = 100
    cpus: int = 1
    mem_mb: int | None = None
    gpus: int | None = None
    minutes: int | None = None

    def per_run(self) -> dict[str, int]:
        """As Snakemake calls them."""
        named = {"mem_mb": self.mem_mb, "gpu": self.gpus, "runtime": self.minutes}
        return {name: value for name, value in named.items() if value is not None}


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


def make(plan: Plan, batch: dict[str, dict], folder: Path, resources: Resources, shown: "Progress") -> None:
    """Give some runs to Snakemake and follow it to its end.

    Raises:
        RunError: where it was killed, or ended before it started some runs; ParameterError where sources changed.
    """
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    try:
        _write_batch(plan, batch, work, resources)
        log = folder / "snakemake.log"
        with log.open("a", encoding="utf-8") as output:
            engine = subprocess.Popen(
                _command(work, resources), stdout=output, stderr=output, cwd=work, start_new_session=True
            )
        try:
            while engine.poll() is None:
                shown.show(work)
                time.sleep(0.2)
        except BaseException:
            _stop(engine)
            raise
        _settle(plan, batch, work, engine.returncode, log)
        shown.show(work)
        shown.close_batch(work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_batch(plan: Plan, batch: dict[str, dict], work: Path, resources: Resources) -> None:
    for name in ("settled", "started", "failed"):
        (work / name).mkdir()
    nbformat.write(sources.as_notebook(plan.grid.source), work / "source.ipynb")
    plan.store.folder.mkdir(parents=True, exist_ok=True)
    content = {
        "driver": os.getpid(),
        "store": str(plan.store.folder.resolve()),
        "files": plan.code.files,
        "digest": plan.code.digest,
        "cpus": resources.cpus,
        "resources": resources.per_run(),
        "provenance": {
            "chapter": plan.grid.name,
            "profile": plan.grid.profile,
            "commit": execution.commit(),
            "digest": plan.code.digest,
            "versions": execution.versions(),
        },
        "runs": batch,
    }
    (work / "batch.json").write_text(json.dumps(content), encoding="utf-8")


def _command(work: Path, resources: Resources) -> list[str]:
    local = resources.executor == "local"
    known = resources.executor in ("slurm", "kubernetes")
    profile = SWEEPS / "profiles" / resources.executor if known else Path(resources.executor).resolve()
    if not local and not (profile / "config.yaml").is_file():
        raise ParameterError(
            f"executor = {resources.executor!r} is not allowed: it must be local, slurm, kubernetes, or a folder with "
            "the config.yaml of a Snakemake profile."
        )
    place = ["--cores", str(resources.cores)] if local else ["--jobs", str(resources.jobs)]
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(SWEEPS / "Snakefile"), "--directory", str(work),
        "--profile", "none" if local else str(profile), "--workflow-profile", "none", *place,
        "--nolock", "--keep-going", "--retries", "1", "--scheduler", "greedy", "--drop-metadata",
        "--force-use-threads", "--config", f"work=hex:{os.fsencode(work).hex()}",
    ]  # fmt: skip


def _settle(plan: Plan, batch: dict[str, dict], work: Path, status: int, log: Path) -> None:
    """File why runs failed for which Snakemake gave up trying; raise where some did not begin.

    Only now: had this process been killed before, the next sweep would have to make them.
    """
    where = f"see the end of {log}; the same command goes on"
    if status < 0:
        raise RunError(f"Snakemake was ended by signal {-status}: {where}.")
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
        raise RunError(f"Snakemake did not start {len(open_) - len(begun)} of {len(batch)} runs: {where}.")


def _read(path: Path) -> list[str] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() and path.stat().st_size else None


def _stop(engine: subprocess.Popen) -> None:
    """Let Snakemake cancel what it has on a cluster, then end it with everything that it started here."""
    engine.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        engine.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)
    engine.wait()


@dataclass
class Progress:
    """A bar of runs: done, failed, and by tqdm remaining and the time left."""

    bar: tqdm
    done: int = 0
    failed: int = 0

    def show(self, work: Path) -> None:
        """Count the marks of the batch at work."""
        settled, failed = self._count(work)
        now = self.done + self.failed + settled
        # In a log file a line a change is enough; on a terminal the clock goes on.
        if now != self.bar.n or sys.stderr.isatty():
            self.bar.set_postfix(done=self.done + settled - failed, failed=self.failed + failed, refresh=False)
            self.bar.n = now
            self.bar.refresh()

    def close_batch(self, work: Path) -> None:
        """Add the batch to the total."""
        settled, failed = self._count(work)
        self.done += settled - failed
        self.failed += failed

    @staticmethod
    def _count(work: Path) -> tuple[int, int]:
        failed = set(os.listdir(work / "failed"))
        return len(failed.union(os.listdir(work / "settled"))), len(failed)


@contextlib.contextmanager
def progress(total: int, before: int, bar: bool) -> Iterator[Progress]:
    """A bar for so many runs, beside those that are there already."""
    name = f"runs ({before} there already)" if before else "runs"
    with tqdm(total=total, desc=name, unit="run", disable=not bar or not total) as drawn:
        yield Progress(drawn)
