"""Where finished runs lie, each under a hash of all that decides it; sweeps share them.

``FOLDER/<notebook>/<first two of key>/<key>.json`` is a finished run, ``<key>.ipynb`` its executed notebook;
``<key>.failed.json`` and ``.failed.ipynb`` are the last failure of a run that has not finished. A file appears under
its name only when it is whole, and the ``.json`` last: a reader never meets half a run.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.evidence import places
from dplib.checks import ParameterError
from dplib.files import locked, publish

FOLDER = places.ROOT / "_build" / "sweeps" / "runs"


@dataclass(frozen=True)
class Code:
    """The files that decide what a notebook computes, and the digest of their content."""

    files: tuple[str, ...]
    digest: str

    def is_current(self) -> bool:
        """Whether the files still are what they were."""
        return _digest(self.files) == self.digest


@dataclass(frozen=True)
class Store:
    """The runs of one notebook, in a folder that is theirs alone."""

    folder: Path

    def path(self, key: str, suffix: str) -> Path:
        """A file of a run; ``suffix`` is ".json", ".ipynb", ".failed.json" or ".failed.ipynb"."""
        return self.folder / key[:2] / f"{key}{suffix}"

    def is_finished(self, key: str) -> bool:
        """Whether a run has finished."""
        return self.path(key, ".json").exists()

    def finished(self, key: str) -> dict[str, Any] | None:
        """What a finished run recorded; None where there is none."""
        return _read(self.path(key, ".json"))

    def failure(self, key: str) -> dict[str, Any] | None:
        """Status and reason of a run that failed and has not finished since; None where there is none."""
        return None if self.is_finished(key) else _read(self.path(key, ".failed.json"))

    def keep(self, key: str, result: Mapping[str, Any], executed: Path) -> None:
        """File a finished run: its notebook, then its result; an earlier failure goes."""
        os.replace(executed, self.path(key, ".ipynb"))
        publish(self.path(key, ".json"), json.dumps(result))
        for suffix in (".failed.json", ".failed.ipynb"):
            self.path(key, suffix).unlink(missing_ok=True)

    def keep_failure(self, key: str, status: str, reason: str, executed: Path | None = None) -> None:
        """File a failure, and the notebook up to the failed cell: the run is not made again unless it is asked for."""
        self.path(key, ".failed.json").parent.mkdir(parents=True, exist_ok=True)
        if executed and executed.exists():
            os.replace(executed, self.path(key, ".failed.ipynb"))
        publish(self.path(key, ".failed.json"), json.dumps({"status": status, "reason": reason}))

    def seconds(self) -> Iterator[float]:
        """How long the finished runs took, of other grids too."""
        for path in self.folder.glob("??/*.json"):
            if not path.name.endswith(".failed.json") and not path.name.startswith("."):
                yield _read(path)["seconds"]

    @contextlib.contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Hold a run, so that no other process works on it; waits for one that does. Ends with the process."""
        path = self.path(key, ".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, blocking=True):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)


def code(chapter: str) -> Code:
    """The files behind a chapter, or behind another notebook by its path without suffix: its source, the modules that
    it imports, and what these read."""
    from book.evidence import sources

    if not Path(chapter).is_absolute():
        files = set(sources.depends_on(chapter))
    else:
        files = {sources.source(chapter)}.union(*map(sources.module_files, _modules(sources.source(chapter))))
        files |= sources.data_files("\n".join(path.read_text(encoding="utf-8") for path in files))
    names = tuple(sorted(map(str, files)))
    return Code(names, _digest(names))


def key(digest: str, parameters: Mapping[str, Any]) -> str:
    """The address of a run: SHA-256 of the code, the full parameters, and the checksums of the data sets they name."""
    data = {name: _checksums()[name] for name in _texts(parameters) if name in _checksums()}
    text = json.dumps([digest, dict(parameters), data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


@functools.cache
def _checksums() -> dict[str, list[str]]:
    """Data set to the checksums of its files; loading verifies them, so they stand for its content.

    A set inside scikit-learn has that package's version instead.
    """
    from dplib.data import registry

    inside = ["scikit-learn", importlib.metadata.version("scikit-learn")]
    return {
        name: [value for file in entry.files if file.checksum for value in file.checksum] or inside
        for name, entry in registry.registry().items()
    }


def _modules(source: Path) -> set[str]:
    """Names of the project's own modules that a notebook's cells import."""
    from book.evidence import sources

    names = set()
    for cell in sources.as_notebook(source).cells:
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError as error:
            raise ParameterError(f"{source}: a cell is not Python ({error}).") from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if sources.own(name)}


def _digest(files: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for name in files:
        content = Path(name).read_bytes() if Path(name).exists() else b""
        # The name without its folder: another checkout of the same code shares its runs.
        total.update(f"{Path(name).name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
