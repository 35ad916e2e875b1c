"""A SLURM of this machine alone, for a test: munged, slurmctld and slurmd in one folder, ended by the test."""

import contextlib
import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from book.evidence.sweep import CLUSTER

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
# Accounting would need a database; squeue then tells the state of a job, also some time after its end.
CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no SLURM can be started here, or nothing."""
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent:
        return f"{', '.join(absent)} not found: install slurm-wlm and munge"
    return "" if os.geteuid() == 0 else "only root can start a SLURM that runs jobs as its user"


def profile(folder: Path) -> Path:
    """Our profile as this cluster needs it: it has no accounting database, and its jobs are short."""
    ours = (CLUSTER / "slurm" / "config.yaml").read_text(encoding="utf-8")
    ours = re.sub(r"(status-checks): \d+", r"\1: 2", ours) + "slurm-status-command: squeue\n"
    (folder / "profile").mkdir()
    (folder / "profile" / "config.yaml").write_text(ours, encoding="utf-8")
    return folder / "profile"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Start the three daemons and wait until the node is idle; yields the environment for its commands."""
    for name in ("munge", "state", "spool", "bin", "etc"):
        (folder / name).mkdir(parents=True, mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(stat.S_IRUSR)
    host = socket.gethostname().split(".")[0]
    config = folder / "etc" / "slurm.conf"
    config.write_text(
        CONFIG.format(host=host, ports=_free_ports(2), folder=folder, user="root", cpus=os.cpu_count()),
        encoding="utf-8",
    )
    (folder / "etc" / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n", encoding="utf-8")
    # Inside a job Snakemake removes SLURM_CONF; a cluster has its configuration where srun looks for it.
    wrapper = folder / "bin" / "srun"
    wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={config} exec {shutil.which("srun")} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    munge = [f"--{name}={folder / 'munge' / file}" for name, file in _MUNGE.items()]
    daemons = [["munged", "--foreground", "--force", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]]
    env = {**os.environ, "SLURM_CONF": str(config), "PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    with contextlib.ExitStack() as stack:
        for words in daemons:
            log = stack.enter_context((folder / f"{words[0]}.log").open("w"))
            daemon = subprocess.Popen(words, env=env, stdout=log, stderr=log)
            stack.callback(_end, daemon)
            _wait(lambda: (folder / "munge" / "socket").exists(), folder)
        _wait(lambda: "idle" in _output(["sinfo", "-h", "-o", "%t"], env), folder)
        # Jobs of a test that failed would outlive their daemons.
        stack.callback(subprocess.run, ["scancel", "--user", str(os.geteuid())], env=env, check=False)
        yield env


_MUNGE = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


def _end(daemon: subprocess.Popen) -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _wait(ready, folder: Path, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            logs = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
            raise RuntimeError(f"SLURM did not start:\n{logs}")
        time.sleep(0.1)


def _output(words: list[str], env: dict[str, str]) -> str:
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [socket_.getsockname()[1] for socket_ in sockets]
