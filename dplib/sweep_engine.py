"""What the rule in ``sweeps/Snakefile`` calls: each run in a process of its own, forked where papermill is loaded.

Importing papermill takes longer than many a notebook. Python's fork server imports it once for a batch; a run is then
a fork away. On a cluster each job has its own.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

from dplib.sweep_store import publish

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["dplib.sweep_worker"])


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


def follow(driver: int) -> None:
    """End this process and its children when the driver ends, be it by SIGKILL; does nothing in a job of a cluster."""
    if os.getppid() == driver:
        threading.Thread(target=_follow, args=(driver,), daemon=True).start()


def _work(folder: str, key: str, threads: int) -> None:
    from dplib import sweep_worker

    sweep_worker.work(folder, key, threads)


def _follow(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(0.25)
    # The driver made this process the leader of its group.
    os.killpg(0, signal.SIGKILL)
