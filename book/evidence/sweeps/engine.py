"""What the rule in ``sweeps/Snakefile`` calls: each run in a process of its own, forked where papermill is loaded, or
a bundle of kept runs.

Importing papermill takes longer than many a notebook. Python's fork server imports it once for a batch; a run is then
a fork away. On a cluster each job has its own.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from book.evidence.places import ROOT
from dplib.files import publish

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["book.evidence.sweeps.worker"])


def run(folder: Path, key: str, threads: int) -> None:
    """Make one run of the batch in a folder, in another process, and wait for it.

    Raises:
        RuntimeError: where it is not settled: Snakemake may try again.
    """
    child = _SERVER.Process(target=_work, args=(str(folder), key, threads))
    child.start()
    child.join()
    if child.exitcode == 0:
        (folder / "settled" / key).touch()
        return
    if child.exitcode < 0:
        word = ["killed", f"the run was killed by signal {-child.exitcode}: out of memory?"]
        publish(folder / "failed" / key, json.dumps(word))
    raise RuntimeError(f"run {key[:12]} ended with status {child.exitcode}")


def compute(folder: Path, key: str, _threads: int) -> None:
    """Make the kept runs of a bundle, ``<key>.json`` in the folder, in another process.

    Raises:
        RuntimeError: where that process ended early; ``<key>.error`` says why. Snakemake may try again.
    """
    command = [sys.executable, "-m", "book", "runs", "compute", str(folder / f"{key}.json")]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        reason = last if done.returncode > 0 else f"it was killed by signal {-done.returncode}."
        publish(folder / f"{key}.error", reason)
        raise RuntimeError(f"bundle {key}: {reason}\n{done.stderr}")


def asked(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What jobs ask for, as a rule's resources: what all ask for, and GPUs where these differ from job to job."""
    gpus = batch.get("gpus")
    return batch["resources"] | ({"gpu": lambda wildcards: gpus.get(wildcards.key, 0)} if gpus else {})


def follow(driver: int) -> None:
    """End this process and its children when the driver ends, be it by SIGKILL; does nothing in a job of a cluster."""
    if os.getppid() == driver:
        threading.Thread(target=_follow, args=(driver,), daemon=True).start()


def _work(folder: str, key: str, threads: int) -> None:
    from book.evidence.sweeps import worker

    worker.work(folder, key, threads)


def _follow(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(0.25)
    # The driver made this process the leader of its group.
    os.killpg(0, signal.SIGKILL)
