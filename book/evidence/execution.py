"""Execute notebooks and chapters through papermill, and write down where and by what. Quick to import."""

import contextlib
import datetime
import errno
import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import nbformat

from book.evidence import alone
from book.evidence.places import ROOT
from dplib import files
from dplib.checks import ParameterError

EXECUTED = ROOT / "executed"
AGAIN = "The same command again takes it as it is now."
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "opacus", "dp-accounting", "papermill")

LIBRARIES = 1_200_000_000  # bytes that a process addresses with all of them loaded; most of it takes no memory
# Kernels that begin at the same time may be given one port, and the second of them ends before its first cell.
STARTS = 3
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OF_DISKS = _FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR}


class RunError(RuntimeError):
    """A cell failed; the message names the exception and where the partial notebook lies."""


def execute(notebook: nbformat.NotebookNode, parameters: Mapping[str, Any], output: Path, *, bar: bool = False) -> None:
    """Execute a notebook, one of whose cells has the tag ``parameters``; ``output`` is partial where this raises.

    Raises:
        ParameterError: when the notebook refuses a parameter, or its data are missing.
        RunError: when a cell raises anything else; the message is the exception's.
    """
    import papermill
    from papermill.engines import NBClientEngine, papermill_engines
    from papermill.exceptions import PapermillExecutionError

    class WrittenOnce(NBClientEngine):
        """Papermill's own engine writes the notebook twice a cell, a second in all; this one when it ends, however."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
            path, nb_man.output_path = nb_man.output_path, None
            try:
                super().execute_managed_notebook(nb_man, kernel_name, **options)
            finally:
                nb_man.output_path = path

    papermill_engines.register("written once", WrittenOnce)
    for start in range(1, STARTS + 1):
        try:
            papermill.execute_notebook(
                notebook,
                # To papermill a path is a template; this one has no fields.
                str(output).replace("{", "{{").replace("}", "}}"),
                parameters=dict(parameters),
                engine_name="written once",
                kernel_name="python3",
                progress_bar=bar and sys.stderr.isatty(),
                # The kernel's remarks about its own transport and its end are no reader's business.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
                # Asked to leave, one kernel in a hundred hangs for seconds; after the last cell all is said.
                shutdown_kernel="immediate",
            )
            return
        except PapermillExecutionError as error:
            if error.ename in ("ParameterError", "DataError"):
                raise ParameterError(error.evalue) from None
            raise RunError(f"{error.ename}: {error.evalue}") from error
        except RuntimeError as error:
            if "before replying" not in str(error) or start == STARTS:
                raise


def run(chapter: str, parameters: Mapping[str, Any], output: Path, *, inputs: str = "") -> dict[str, Any]:
    """Execute a chapter and put the executed notebook at ``output``, in one step; returns its provenance.

    Args:
        chapter: its name. parameters: those that are not its defaults. output: where the executed notebook goes.
        inputs: what :func:`sources.inputs` has to be; "" for whatever it is.

    Raises:
        ParameterError: for a parameter that is unknown or refused, or an output that cannot be; no file is left.
        RunError: when a cell fails, the kernel ends, or what the book's own copy depends on is written while it runs;
            the partial notebook is kept in ``executed/failed``. When a disk is full.
    """
    from book.evidence import sources

    sources.check_parameter_names(chapter, parameters)
    parameters = {name: files.plain(name, value) for name, value in parameters.items()}
    if output.suffix != ".ipynb":
        raise ParameterError(f"output = {output} is not allowed: it must be a file whose name ends in .ipynb.")
    check_writable(output)
    if output != EXECUTED / f"{chapter}.ipynb":  # which the build writes anew
        if sources.recorded_inputs(output) == "":
            raise ParameterError(
                f"output = {output} is not allowed: it is there, and no executed chapter. Move it away first."
            )
        if sources.edited(output):
            raise ParameterError(
                f"output = {output} is not allowed: its cells were edited since it ran. Move it away first."
            )
    # Before the run: a long one may outlive an edit or a commit, and what ran is what was there when it began.
    before = sources.state(sources.depends_on(chapter))
    origin = provenance(chapter, parameters)
    if inputs not in ("", origin["inputs"]):
        raise RunError(f"{chapter}: what it depends on was written since the build began. {AGAIN}")
    start = time.monotonic()
    with _workplace(chapter) as partial:
        execute(sources.as_notebook(sources.source(chapter)), parameters, partial, bar=True)
        notebook = nbformat.read(partial, as_version=4)
        written = sources.written(before, sources.depends_on(chapter))
        if written and output.parent == EXECUTED:
            raise RunError(f"{', '.join(written)} was written while it ran. {AGAIN}")
    origin |= {"written": written} if written else {}
    origin |= {"seconds": round(time.monotonic() - start, 1), "cells": sources.cells(notebook)}
    notebook.metadata["dplib"] = origin
    if not alone.is_current():
        raise RunError(f"{chapter}: the build that began this run has ended, and its result is not kept. {AGAIN}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        files.publish(output, nbformat.writes(notebook) + "\n")
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror or error}.") from error
    return notebook.metadata["dplib"]


@contextlib.contextmanager
def _workplace(chapter: str) -> Iterator[Path]:
    """A file for a chapter that runs; where that fails, what there is of it goes to ``executed/failed``.

    Raises RunError for whatever but a refused parameter is in the way, with what can be done.
    """
    try:
        with _in_order(), tempfile.TemporaryDirectory(prefix="dplib-") as folder:
            partial = Path(folder) / f"{chapter}.ipynb"
            try:
                yield partial
            except RuntimeError as error:  # nbclient's, where the kernel ends or does not begin, is one
                said = error if isinstance(error, RunError) else f"its kernel ended, perhaps for its memory: {error}"
                raise RunError(f"{chapter}: {said}{_failed(partial)}") from error
    except OSError as error:
        raise RunError(
            f"{chapter}: {error.filename or tempfile.gettempdir()} cannot be written: {error.strerror or error}. Make "
            f"room there, or name another folder for temporary files in TMPDIR, which is {tempfile.gettempdir()}."
        ) from error


@contextlib.contextmanager
def _in_order() -> Iterator[None]:
    """Inside, this process ends its kernel and removes its temporary files before it does what SIGTERM asks for, or the
    end of its terminal.
    """

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    ends = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, leave) for number in ends if signal.getsignal(number) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _failed(partial: Path) -> str:
    """Keep what a chapter that failed has made, and say where; nothing is said where there is none, or no room."""
    kept = EXECUTED / "failed" / partial.name
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, kept)
    except OSError:
        return ""
    return f"\nSee the cells up to there in {kept}"


def check_writable(output: Path) -> None:
    """Raise ParameterError, before anything is computed, for a file that cannot be written."""
    try:
        folder = next(folder for folder in output.parents if folder.exists())
        if output.exists() and not output.is_file():
            raise IsADirectoryError(None, "it is no file")
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ParameterError(f"output = {output} is not allowed: {error.strerror or error}.") from None


def of_disk(error: OSError) -> str:
    """What to say of a disk that is full, read-only or broken; "" for another error, which is nobody's disk."""
    number, path = error.errno, error.filename2 or error.filename or "A file"
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of a folder that was copied: all failures
        _, path, said = error.args[0][0]
        number = next((code for code in _OF_DISKS if f"[Errno {code}]" in str(said)), None)
    if number not in _OF_DISKS:
        return ""
    what = "Make room there" if number in _FULL else "Make it writable"
    return f"{path}: {os.strerror(number)}. {what}, and give the same command again: what was kept before is as it was."


_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "can't allocate memory", "unable to allocate")


def of_memory(error: BaseException) -> str:
    """What to say where memory is at its end; "" for another error. A library that cannot be loaded for want of memory
    says so in an ImportError or OSError, PyTorch in a RuntimeError.
    """
    short = getattr(error, "errno", None) == errno.ENOMEM or any(said in str(error).lower() for said in _NO_MEMORY)
    if isinstance(error, MemoryError) or short:
        return "This machine has too little memory left: end other programs, and give the same command again."
    return ""


def check_address_space() -> None:
    """Raise ParameterError where this process may not address what the libraries take (``ulimit -v``): the one below
    SciPy does not fail for want of it, but asks again without end.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < LIBRARIES:
        raise ParameterError(
            f"A process may address {limit / 1e9:.2g} GB here (`ulimit -v`), and the book's libraries take "
            f"{LIBRARIES / 1e9:.2g} GB of it: give it more."
        )


def provenance(chapter: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Date, commit, digests of sources and inputs, versions, hardware and parameters of a run that begins now."""
    from book.evidence import sources

    return {
        "chapter": chapter,
        "parameters": {**sources.default_parameters(chapter), **parameters},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "digest": sources.digest(chapter),
        "inputs": sources.inputs(chapter),
        "hardware": hardware(),
        "versions": versions(),
    }


def hardware() -> dict[str, Any]:
    """Processor, cores and, where there is one, GPU of this machine."""
    return {"processor": processor(), "cores": os.cpu_count(), "gpu": _asked("name"), "system": platform.system()}


def processor() -> str:
    """The name of this machine's processor."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return name


def gpu() -> dict[str, Any]:
    """Name, driver, CUDA and cuDNN of the GPU that PyTorch uses; empty texts for what this machine does not tell."""
    import torch

    seen = torch.version.cuda and torch.cuda.is_available()
    return {
        "gpu": torch.cuda.get_device_name() if seen else "",
        "driver": _driver(),
        "cuda": torch.version.cuda or "",
        "cudnn": torch.backends.cudnn.version() or "",
    }


def _driver() -> str:
    with contextlib.suppress(OSError):
        version = re.search(r"\d+\.\d[\d.]*", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
        return version[0] if version else ""
    return _asked("driver_version")


def _asked(field: str) -> str:
    """What nvidia-smi says of the GPUs; empty where it is not installed."""
    if not shutil.which("nvidia-smi"):
        return ""
    query = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def precision(device: str) -> dict[str, str]:
    """How float32 is multiplied in this process now, in matrix products and in convolutions: "ieee" as it is, or cut to
    "tf32" or "bf16".
    """
    import torch

    backends = torch.backends
    if hasattr(backends.cudnn, "conv"):  # from PyTorch 2.9 on
        cuda = backends.cuda.matmul, backends.cudnn.conv
        kinds = cuda if device == "cuda" else (backends.mkldnn.matmul, backends.mkldnn.conv)
        said = [kind.fp32_precision for kind in kinds]
    elif device == "cuda":
        said = ["tf32" if kind.allow_tf32 else "ieee" for kind in (backends.cuda.matmul, backends.cudnn)]
    else:
        said = ["bf16" if torch.get_float32_matmul_precision() == "medium" else "ieee", "ieee"]
    return dict(zip(("matmul", "conv"), ("ieee" if setting == "none" else setting for setting in said), strict=True))


def commit() -> str:
    """The commit checked out, marked where tracked files differ from it; of a tree that was copied without its
    repository the commit that it carries, if its code is that of the commit (:func:`check_carried`); else empty.
    """
    if not (ROOT / ".git").exists():
        try:
            return check_carried()
        except ParameterError:
            return ""
    if not shutil.which("git"):
        return ""
    query = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def check_carried() -> str:
    """The commit, twelve digits, that a tree without its repository carries, or "" where it carries none.

    ``.travel/commit`` is what ``git rev-parse HEAD`` said, ``.travel/manifest`` what ``git ls-tree -r HEAD`` did, or of
    that the hash and the path. They are words that anybody may have written: so every module and registry (``.toml``)
    in the packages is hashed as git does it, and ParameterError names the first that is not the manifest's. Whether
    there is such a commit, ``runs keep --from`` asks the log.
    """
    from book.evidence import sources

    try:
        head, manifest = ((ROOT / ".travel" / name).read_text(encoding="utf-8") for name in ("commit", "manifest"))
    except OSError:
        return ""
    known = dict(reversed(pair) for pair in re.findall(r"^(?:\d+ blob )?([0-9a-f]{40})[ \t](.+)$", manifest, re.M))
    for folder in sources.PACKAGES.values():
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".toml")):
            text, name = path.read_bytes(), path.relative_to(ROOT).as_posix()
            if hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest() != known.get(name):
                raise ParameterError(f"{name} is not that of commit {head[:12]}, which this tree says it is of.")
    return head[:12] if re.fullmatch(r"[0-9a-f]{40}\n?", head) else ""


def log() -> frozenset[str]:
    """All commits that led to the one checked out, in full; empty outside a git checkout."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return frozenset()
    query = ["git", "-C", str(ROOT), "rev-list", "HEAD"]
    return frozenset(subprocess.run(query, capture_output=True, text=True, check=False).stdout.split())


def check_commit() -> None:
    """Raise ParameterError where this is a git checkout and git cannot say of which commit, or a tree that carries a
    commit and is not its: a run's line names it. A tree without history, such as a downloaded archive, passes.
    """
    if not (ROOT / ".git").exists():
        check_carried()
    elif not commit():
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
    alone.end()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results; empty for one that is not installed."""
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
