"""Run Snakemake as the only one on this tree, and go on by itself where an earlier run was killed.

    python -m book.evidence.alone --cores 2 site

Snakemake's own lock is a file that stays behind when it is killed, until someone asks for ``--unlock``. The lock here
belongs to a process instead, Snakemake itself, and ends with it however it ends.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dplib import files


def run(arguments: Sequence[str]) -> str:
    """Become Snakemake with these arguments, in the folder one is in; returns only to say why not."""
    if not shutil.which("which"):  # the plugin for SLURM asks it, on every start
        return "The program which is missing, and Snakemake needs it: install it (Fedora: dnf install which)."
    path = Path(".snakemake") / "alone.lock"
    path.parent.mkdir(exist_ok=True)
    try:
        with files.locked(path, blocking=False) as handle:
            files.sign(handle)
            os.set_inheritable(handle, True)  # to hold it as Snakemake, too; not the jobs, to which it gives no files
            os.execv(sys.executable, [sys.executable, "-m", "snakemake", "--nolock", *arguments])
    except BlockingIOError:
        holder = path.read_text(encoding="utf-8") or "it just began"
        return f"Another run works in {Path.cwd()} ({holder}): wait for its end, or stop it."


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
