"""Run Snakemake as the only one on this tree, go on by itself where an earlier run was killed, and leave no job behind.

    python -m book.evidence.alone --cores 2 site

Snakemake's own lock is a file that stays behind when it is killed, until someone asks for ``--unlock``. The lock here
belongs to a process instead, Snakemake itself, and ends with it however it ends. So do its jobs (:func:`follow`): one
that went on would put an old result in the place of a new one. And Snakemake ends where it waits for no job.

Where no file was written since the last site was made (:mod:`book.evidence.stamp`), it does not even begin.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from book.evidence import stamp
from dplib import files

BUILD = "DPBOOK_BUILD"  # tells jobs the process and the lock of their build
NOT_BEGUN = 3  # exit status where nothing was run; Snakemake's own is 1
PATIENCE = 120  # seconds that Snakemake may be without a job; it begins and ends in some seconds
_BETWEEN = 0.25  # seconds between two looks at a build


def run(arguments: Sequence[str]) -> str:
    """Be Snakemake with these arguments, in the folder one is in; returns only to say why not, "" where all is made."""
    if not shutil.which("which"):  # the plugin for SLURM asks it, on every start
        return "The program which is missing, and Snakemake needs it: install it (Fedora: dnf install which)."
    if os.pathsep in str(Path.cwd()):  # python would be another one, without a word
        return f"{Path.cwd()} has a {os.pathsep} in its name, which ends a name in PATH: rename it. Nothing was run."
    path = Path(".snakemake").absolute() / "alone.lock"
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(exist_ok=True)
            files.check_room(path.parent)  # Snakemake, too, begins by writing there
            files.sign(stack.enter_context(files.locked(path, blocking=False)))
        except BlockingIOError:
            return _other(path)
        except OSError as error:
            return f"{error.filename or path} cannot be written: {error.strerror or error}. Nothing was run."
        os.environ[BUILD] = f"{os.getpid()} {path}"
        if stamp.holds(arguments):
            print("Nothing to be done: no file was written since the site was made.")
            return ""
        with stamp.renewed(arguments):
            _snakemake(arguments)
    return ""


def _snakemake(arguments: Sequence[str]) -> None:
    """Be Snakemake; raises SystemExit at its end."""
    threading.Thread(target=_end_without_jobs, daemon=True).start()
    from snakemake import cli

    cli.main(["--nolock", *arguments, *_forced(arguments)])


def _forced(arguments: Sequence[str]) -> list[str]:
    """What has Snakemake execute the chapters that by their own word ran on other inputs than today's, whatever it
    remembers of them itself; where some are named, of those.
    """
    executed = Path("executed")
    if not executed.exists():
        return []
    from book.evidence import sources

    try:
        inputs = {str(executed / f"{chapter}.ipynb"): text for chapter, text in sources.all_inputs().items()}
    except Exception:  # the Snakefile asks the same, and Snakemake says what is wrong
        return []
    stale = {path for path, text in inputs.items() if sources.recorded_inputs(Path(path)) not in (None, text)}
    named = inputs.keys() & set(arguments)
    chosen = stale & named if named else stale
    return ["--forcerun", *sorted(chosen)] if chosen else []


def _other(path: Path) -> str:
    """Who has the lock, and how to end it."""
    text = path.read_text(encoding="utf-8")
    number = _signed(text) or "its number"
    return (
        f"Another run works in {Path.cwd()} ({text or 'it just began'}): wait for its end, or end it there by "
        f"`kill {number}`, which lets its chapters finish, or by `kill -KILL {number}`, which ends them too."
    )


def _signed(text: str) -> str:
    """The process that a lock says it belongs to."""
    words = re.match(r"process (\d+) ", text)
    return words[1] if words else ""


def _end_without_jobs() -> None:
    # A job whose end Snakemake has missed is waited for without end, whatever signals come. Counted in looks, not by a
    # clock: one that was suspended goes on. On a busy machine it takes minutes to see what is to be done, and works.
    idle, worked = 0, _worked()
    while idle < PATIENCE:
        time.sleep(1)
        before, worked = worked, _worked()
        idle = 0 if psutil.Process().children() or worked - before > 0.001 else idle + 1
    print(f"Snakemake was without a job for {idle} seconds: ended. The same command again goes on.", file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)


def _worked() -> float:
    """Seconds that the main thread has computed; 0 where the system does not tell."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident))


def follow() -> None:
    """Let this process end with the build that it is a job of, however that ends, and its children with it; one that is
    no job of a build goes on.
    """
    if BUILD in os.environ:
        threading.Thread(target=_follow, args=(int(os.environ[BUILD].split()[0]),), daemon=True).start()


def _follow(number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        build = psutil.Process(number)
        while build.is_running() and build.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_BETWEEN)
    end()


def is_current() -> bool:
    """Whether what this process has made may be put in its place: it is no job of a build, or its build has the lock
    still. One that was suspended may wake up beside the next build.
    """
    if BUILD not in os.environ:
        return True
    number, _, path = os.environ[BUILD].partition(" ")
    with contextlib.suppress(OSError):
        return psutil.pid_exists(int(number)) and _signed(Path(path).read_text(encoding="utf-8")) == number
    return False


def end() -> None:
    """End this process, and all below it."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(1)


def command(arguments: Sequence[str]) -> int:
    """:func:`run` as a command: its exit status, unless Snakemake ends the process with its own."""
    reason = run(arguments)
    if reason:
        print(reason, file=sys.stderr)
    return NOT_BEGUN if reason else 0


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
