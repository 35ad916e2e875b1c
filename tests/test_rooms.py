"""Which room may import which: arrows go one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from book.evidence import sources
from tests.conftest import ROOT

PAPERS = {"larger_models", "architecture", "labels", "screening", "sizes"}  # the last is of no paper: chapter 14
# What the modules of a room may import besides their own room. Notebooks and tests may import everything.
MAY = {
    "library": set(),
    "data": {"library"},
    **{paper: {"library", "data"} for paper in PAPERS},
    "press": {"library", "data", *PAPERS},
    "sweeps": {"library", "data"},
}
# Imports that cross a wall all the same, as (who, what). This list may only become shorter.
EXCEPTIONS = {
    # the library asks the data: where the cache is, which checksums, and what to train on
    ("dplib.accounting", "dplib.data.fetch"),
    ("book.evidence.claims", "dplib.data.registry"),
    ("book.evidence.jobs", "dplib.data.registry"),
    ("papers.common.network_runs", "dplib.data"),
    ("papers.common.network_runs", "dplib.data.tasks"),
}


def name_of(path: Path) -> str:
    """A file's dotted name; a package's is that of its ``__init__.py``."""
    for package, folder in sources.PACKAGES.items():
        if path.is_relative_to(folder):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(path)


def room_of(module: str) -> str:
    """The room of a module."""
    first, _, rest = module.partition(".")
    inside = rest.partition(".")[0]
    return first if first != "dplib" else inside if inside in MAY else "library"


MODULES = {name_of(path): path for folder in sources.PACKAGES.values() for path in sorted(folder.rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """The own modules that a module names in its imports, wherever they stand in it."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are written in full here"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in inside]
        else:
            continue
        for name in filter(sources.own, names):
            assert name in MODULES, f"{module} imports {name}, which does not exist"
            yield name


def crossings(module: str) -> set[tuple[str, str]]:
    """Imports of a module that its room does not allow."""
    here = room_of(module)
    return {(module, name) for name in imports(module) if room_of(name) not in {here, *MAY[here]} and name != "dplib"}


# The command line is the one place that calls everything, each part when its command is given.
COMMANDS = ("book.__main__", "book.evidence.runs_command")


@pytest.mark.parametrize("module", sorted(set(MODULES) - set(COMMANDS)))
def test_imports_go_one_way(module):
    new = crossings(module) - EXCEPTIONS
    assert not new, f"forbidden: {sorted(new)}. Move what is shared into the library."


def test_the_list_of_exceptions_only_becomes_shorter():
    gone = EXCEPTIONS - set().union(*map(crossings, MODULES))
    assert not gone, f"no longer needed, take them off the list: {sorted(gone)}"
    assert len(EXCEPTIONS) <= 5


@pytest.mark.parametrize("module", COMMANDS)
def test_the_command_line_imports_the_rest_when_asked(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    at_start = [node for node in tree.body if isinstance(node, ast.ImportFrom) and sources.own(node.module or "")]
    assert {room_of(node.module) for node in at_start} == {"library"}


def test_every_module_has_a_room():
    folders = {path.name for path in (ROOT / "dplib").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {"data", *PAPERS}
    assert {room_of(module) for module in MODULES} == set(MAY)


def test_a_name_does_not_repeat_its_folder():
    for module in MODULES:
        *_, folder, name = ["", *module.split(".")]
        assert not name.startswith((f"{folder}_", f"{folder.rstrip('s')}_")), module
