"""Which room may import which: arrows go one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from book.evidence import sources
from tests.conftest import ROOT

PAPERS = {path.parent.name for path in (ROOT / "papers").glob("*/__init__.py")} - {"common"}  # "sizes" is of no paper
BELOW = {"library", "data"}
# What the modules of a room may import besides their own room. Notebooks and tests may import everything.
MAY = {
    "library": set(),
    "data": {"library"},
    "evidence": BELOW,
    "common": {*BELOW, "evidence"},
    **{paper: {*BELOW, "evidence", "common"} for paper in PAPERS},
    "press": {*BELOW, "evidence", "common", *PAPERS},
    "command": {*BELOW, "evidence", "press"},
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
    package, _, rest = module.partition(".")
    inside = rest.partition(".")[0]
    if package == "dplib":
        return "data" if inside == "data" else "library"
    return inside if inside in MAY else "command"


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
        for name in filter(sources.is_ours, names):
            assert name in MODULES, f"{module} imports {name}, which does not exist"
            yield name


def crossings(module: str) -> set[tuple[str, str]]:
    """Imports of a module that its room does not allow."""
    here = room_of(module)
    packages = {"dplib", "papers", "book"}  # their __init__ has no code that leads anywhere
    return {
        (module, name) for name in imports(module) if room_of(name) not in {here, *MAY[here]} and name not in packages
    }


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    assert not crossings(module), f"forbidden: {sorted(crossings(module))}. Move what is shared further in."


def test_this_repository_imports_modules_and_never_the_front_door():
    """A package's ``__init__`` stands for all that it may load: who imports it depends on everything."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"dplib", "papers", "book"}, module
            elif isinstance(node, ast.ImportFrom) and node.module in ("dplib", "papers", "book"):
                assert all(f"{node.module}.{alias.name}" in MODULES for alias in node.names), module


# The command line is the one place that calls everything, each part when its command is given.
COMMANDS = ("book.__main__", "book.evidence.runs_command")


@pytest.mark.parametrize("module", COMMANDS)
def test_the_command_line_imports_the_rest_when_asked(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    at_start = {
        name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and sources.is_ours(node.module or "")
        for name in (f"{node.module}.{alias.name}" for alias in node.names)
    }
    assert {room_of(name) for name in at_start} - {"library"} <= {"evidence"}
    assert {name for name in at_start if room_of(name) == "evidence"} <= {"book.evidence.runs_command"}


def test_every_module_has_a_room():
    assert {room_of(module) for module in MODULES} == set(MAY)


def test_experiments_stand_in_files_of_runs_alone():
    for module, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        if module != "book.evidence.jobs" and "@runs.experiment(" in text:
            assert path.stem.endswith("_runs"), f"{module} has an experiment: call it X_runs.py"


def test_a_name_does_not_repeat_its_folder():
    for module in MODULES:
        *_, folder, name = ["", *module.split(".")]
        assert not name.startswith((f"{folder}_", f"{folder.rstrip('s')}_")), module
