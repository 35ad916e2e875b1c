"""One execution of a notebook through papermill, and what is written down about it. Quick to import."""

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import nbformat
import psutil

from dplib.checks import ParameterError

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "opacus", "dp-accounting", "papermill")


class RunError(RuntimeError):
    """A cell failed; the message names the exception and where the partial notebook lies."""


def execute(notebook: nbformat.NotebookNode, parameters: Mapping[str, Any], output: Path, *, bar: bool = False) -> None:
    """Execute a notebook, one of whose cells has the tag ``parameters``; ``output`` is partial where this raises.

    Raises:
        ParameterError: when the notebook refuses a parameter, or its data are missing.
        RunError: when a cell raises anything else; the message is the exception's.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    try:
        papermill.execute_notebook(
            notebook,
            # To papermill a path is a template; this one has no fields.
            str(output).replace("{", "{{").replace("}", "}}"),
            parameters=dict(parameters),
            kernel_name="python3",
            progress_bar=bar and sys.stderr.isatty(),
            # The kernel's remarks about its own transport and its end are no reader's business.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            # Asked to leave, one kernel in a hundred hangs for seconds; after the last cell it has nothing left to say.
            shutdown_kernel="immediate",
        )
    except PapermillExecutionError as error:
        if error.ename in ("ParameterError", "DataError"):
            raise ParameterError(error.evalue) from None
        raise RunError(f"{error.ename}: {error.evalue}") from error


def hardware() -> dict[str, Any]:
    """Processor, cores and, where there is one, GPU of this machine."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), processor)
    gpu = ""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {"processor": processor, "cores": os.cpu_count(), "gpu": gpu, "system": platform.system()}


def commit() -> str:
    """The commit checked out, marked where tracked files differ from it; empty outside a git checkout."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return ""
    query = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def check_commit() -> None:
    """Raise ParameterError where this is a git checkout and git cannot say of which commit: a run's line names it. A
    tree without history, such as a downloaded archive, passes.
    """
    if (ROOT / ".git").exists() and not commit():
        raise ParameterError(
            f"git cannot tell the commit of {ROOT}, and the line of a run names it: `git -C {ROOT} describe --always` "
            "says why."
        )


def end_with_parent() -> None:
    """Let this process, which multiprocessing has started, end with its parent, however that ends; its children too."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is None:
        return
    parent.join()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results; empty for one that is not installed."""
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
