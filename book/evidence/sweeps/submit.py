"""A folder of work through Snakemake, here or on a cluster: a batch of a sweep, or a wave of kept runs.

The folder has ``batch.json``, which says what Snakemake and its jobs need to know, and the marks by which they are
followed: ``started``, ``settled``, and ``failed`` with the reason.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from book.evidence.execution import RunError
from dplib.checks import ParameterError, shown

SWEEPS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Resources:
    """Where the runs go, and what each of them gets; None leaves it to the cluster."""

    executor: str = "local"  # "local", "slurm", "kubernetes", or the folder of a Snakemake profile
    cores: int = 1  # of this machine, at most
    jobs: int = 100  # on a cluster: queued or running at once
    cpus: int = 1
    mem_mb: int | None = None
    gpus: int | None = None
    minutes: int | None = None

    def __post_init__(self):
        if self.executor != "local" and not os.path.isfile(self.profile / "config.yaml"):
            raise ParameterError(
                f"executor = {shown(self.executor)} is not allowed: it must be local, slurm, kubernetes, or a folder "
                "with the config.yaml of a Snakemake profile."
            )

    @property
    def profile(self) -> Path:
        """The folder of Snakemake's profile."""
        known = self.executor in ("slurm", "kubernetes")
        return SWEEPS / "profiles" / self.executor if known else Path(self.executor).absolute()

    def per_run(self) -> dict[str, int]:
        """As Snakemake calls them."""
        named = {"mem_mb": self.mem_mb, "gpu": self.gpus, "runtime": self.minutes}
        return {name: value for name, value in named.items() if value is not None}


@contextlib.contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """A new folder of work inside a folder, with no marks yet; it is removed in the end."""
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    try:
        for name in ("settled", "started", "failed"):
            (work / name).mkdir()
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def clear(folder: Path) -> None:
    """Remove the folders of work that killed processes have left in a folder; only who has it alone may."""
    for stale in folder.glob(".work-*"):
        shutil.rmtree(stale, ignore_errors=True)


def write(work: Path, content: Mapping[str, Any], resources: Resources) -> None:
    """Write ``batch.json``: what each job gets, and the content, whose "runs" names the jobs."""
    asked = {"driver": os.getpid(), "cpus": resources.cpus, "resources": resources.per_run()}
    (work / "batch.json").write_text(json.dumps({**asked, **content}), encoding="utf-8")


def run(work: Path, resources: Resources, shown: "Progress") -> None:
    """Give a folder of work to Snakemake and follow it to its end.

    Raises:
        RunError: where it was killed. That jobs have failed is no error: their marks say so.
    """
    with _log(work).open("a", encoding="utf-8") as output:
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
    if engine.returncode < 0:
        raise RunError(f"Snakemake was ended by signal {-engine.returncode}: {where(work)}.")


def where(work: Path) -> str:
    """Where it says what went wrong, for the end of a message."""
    return f"see the end of {_log(work)}; the same command goes on"


def _log(work: Path) -> Path:
    return work.parent / "snakemake.log"


def _command(work: Path, resources: Resources) -> list[str]:
    local = resources.executor == "local"
    place = ["--cores", str(resources.cores)] if local else ["--jobs", str(resources.jobs)]
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(SWEEPS / "Snakefile"), "--directory", str(work),
        "--profile", "none" if local else str(resources.profile), "--workflow-profile", "none", *place,
        "--nolock", "--keep-going", "--retries", "1", "--scheduler", "greedy", "--drop-metadata",
        "--force-use-threads", "--config", f"work=hex:{os.fsencode(work).hex()}",
    ]  # fmt: skip


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
def progress(total: int, before: int = 0, bar: bool = True) -> Iterator[Progress]:
    """A bar for so many runs, beside those that are there already."""
    name = f"runs ({before} there already)" if before else "runs"
    with tqdm(total=total, desc=name, unit="run", disable=not bar or not total) as drawn:
        yield Progress(drawn)
