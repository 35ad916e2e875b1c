"""What takes the site long to make and seldom changes, kept by what it is made from in ``_build/remembered``.

A figure's small file is made from the figure. Dials, figures and tables of stored runs are made from code, runs, plans,
rows and results: any of it changed, all of them are made anew; after an edit of a page or a chapter's text none is.
"""

import base64
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from book.evidence import execution, sources
from book.evidence.places import ROOT
from dplib import files

STORE = ROOT / "_build" / "remembered"
_used: set[str] = set()


def text(key: str, make: Callable[[], str], sure: Callable[[], bool] = lambda: True) -> str:
    """The text that ``make`` returns: made once for a key, now or by an earlier process.

    Args:
        key: names all that it depends on.
        make: makes it.
        sure: whether what was just made may be kept.
    """
    name = _digest(key)
    _used.add(name)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        digest, _, made = (STORE / name).read_bytes().decode().partition("\n")
        if digest == _digest(made):
            return made
    made = make()
    if sure():
        STORE.mkdir(parents=True, exist_ok=True)
        files.publish(STORE / name, f"{_digest(made)}\n{made}")
    return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def computed(name: str, make: Callable[[], str]) -> str:
    """A text that is made from code, stored runs, plans, rows and results alone; ``name`` tells it from others.

    Where one of those files is written meanwhile, what is made is not kept.
    """
    before, digest = _today()
    return text(f"{name} {digest}", make, lambda: not sources.written(before, _files()))


def filled(name: str, folders: Sequence[Path], make: Callable[..., object]) -> None:
    """Have ``make`` write files into folders, or write them as it wrote them from the same; see :func:`computed`.

    Args:
        name: tells them from others.
        folders: where they go.
        make: writes them; it is given as many empty folders.
    """

    def packed() -> str:
        with tempfile.TemporaryDirectory() as scratch:
            empty = [Path(scratch, str(number)) for number in range(len(folders))]
            for folder in empty:
                folder.mkdir()
            make(*empty)
            return json.dumps([
                {path.name: base64.b64encode(path.read_bytes()).decode() for path in sorted(folder.iterdir())}
                for folder in empty
            ])  # fmt: skip

    for folder, contents in zip(folders, json.loads(computed(name, packed)), strict=True):
        for file, content in contents.items():
            (folder / file).write_bytes(base64.b64decode(content))


@contextlib.contextmanager
def ahead(makers: Sequence[Callable[[], object]], cores: int) -> Iterator[None]:
    """Meanwhile, processes make what is not remembered yet: whoever asks for it after this block finds it.

    A maker that fails says nothing here: it fails where it is asked for. So one core, and other systems than Linux,
    whose libraries do not bear to be copied, have the same site.

    Args:
        makers: the longest first; each is called by the first process that is free.
        cores: as many processes; with one, nothing is made ahead.
    """
    processes = []
    if cores > 1 and sys.platform == "linux":
        _today()
        context = get_context("fork")
        places = context.SimpleQueue()
        for place in [*range(len(makers)), *[None] * cores]:
            places.put(place)
        processes = [context.Process(target=_work, args=(makers, places), daemon=True) for _ in range(cores)]
    for process in processes:
        process.start()
    yield
    for process in processes:
        process.join()


def _work(makers: Sequence[Callable[[], object]], places: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; this ends with its parent
    execution.end_with_parent()
    while (place := places.get()) is not None:
        with contextlib.suppress(Exception):
            makers[place]()


def forget_others() -> None:
    """Remove what this process has not asked for: it is of earlier figures, code and runs."""
    for path in STORE.glob("*"):
        if path.name not in _used:
            path.unlink(missing_ok=True)


@functools.cache
def versions() -> str:
    """Python, and the packages that are installed."""
    installed = {f"{package.name}=={package.version}" for package in importlib.metadata.distributions()}
    return " ".join([sys.version, *sorted(installed)])


@functools.cache
def _today() -> tuple[Mapping[Path, tuple[int, ...]], str]:
    """The files that a text may be made from as they are when a process first asks, and the digest of it all."""
    before = sources.state(_files())
    return before, " ".join([sources.fingerprint(sorted(before), documented=False), *sources.chapters(), versions()])


def _files() -> set[Path]:
    """Plans name functions of modules that nothing imports by name, so that every module counts."""
    modules = {path for folder in sources.PACKAGES.values() for path in folder.rglob("*.py")}
    runs = {path for path in sources.KEPT.rglob("*") if path.is_file()}
    return {path for path in {*modules, *runs, *sources.site_files()} if path.suffix != ".md"}
