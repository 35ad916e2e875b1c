"""What a piece of code is without comments and docstrings, and what it names: modules, experiments, files, ledger rows.

To read every module takes seconds, so what was read is kept in ``.snakemake/scan.json`` by content, and so never out of
date; what another version of Python or of these modules has read is not used.
"""

import ast
import atexit
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from book.evidence.places import ROOT, ROW
from dplib import files

STORE = ROOT / ".snakemake" / "scan.json"
MOST = 2000  # pieces of code that are kept; more are those of earlier versions
_READERS = ("places.py", "scan.py", "sources.py", "claims.py", "margins.py", "rules.py")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Facts:
    """What a piece of code is and names.

    ``does`` is a digest of it without comments and docstrings, ``says`` a digest of the docstrings; ``imports`` are
    dotted names; ``texts`` constants that may name a data file; ``papers`` those of which it names a row.
    """

    does: str
    says: str
    imports: list[str]
    experiments: list[str]
    texts: list[str]
    papers: list[str]


def facts(code: str) -> Facts:
    """The facts of a piece of code."""
    return Facts(**remembered(f"code {digest(code)}", lambda: asdict(_facts(code))))


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def remembered(key: str, make: Callable[[], Any]) -> Any:
    """What ``make`` returns, values that JSON has, made once for a key: now, or by an earlier process."""
    known, used = _known(STORE)
    if key not in known:
        known[key] = make()
        atexit.unregister(_keep)
        atexit.register(_keep, STORE)
    used.add(key)
    return known[key]


def _facts(code: str) -> Facts:
    tree = ast.parse(code)
    said = [_without_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
    imports, experiments, texts = set(), set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)):
                imports |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                imports |= {alias.name for alias in node.names}
            case ast.Constant(value=str(text)):
                texts.add(text)
            case ast.Call(ast.Attribute(ast.Name("runs"), "experiment"), [ast.Constant(str(name)), *_]):
                experiments.add(name)
    return Facts(
        does=digest(dumped(tree)),
        says=digest(repr(said)),
        imports=sorted(imports),
        experiments=sorted(experiments),
        texts=sorted(text for text in texts if ".toml" in text or ".json" in text),
        papers=sorted({text[0] for text in texts if re.match(ROW, text)}),
    )


def dumped(node: Any) -> str:
    """A tree of code as text, the same under every Python: what is empty is left out.

    ``ast.dump`` is not: from 3.12 on functions have a field more, from 3.13 on it leaves empty fields out, and 3.12.1
    ends a format with an empty text.
    """
    match node:
        case ast.JoinedStr(values=values):
            texts = [dumped(value) for value in values if getattr(value, "value", None) != ""]
            return f"JoinedStr({', '.join(texts)})"
        case ast.AST():
            fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
            return f"{type(node).__name__}({', '.join(f'{name}={dumped(value)}' for name, value in fields)})"
        case list():
            return f"[{', '.join(map(dumped, node))}]"
    return repr(node)


def _without_docstring(node: Any) -> str:
    """Take the docstring out of a module, a class or a function; returns it."""
    match node.body:
        case [ast.Expr(ast.Constant(str(text))), *rest]:
            node.body = rest
            return text
    return ""


@functools.cache
def _known(store: Path) -> tuple[dict[str, Any], set[str]]:
    """What is remembered, and which of it this process has used."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads(store.read_text(encoding="utf-8"))
        if kept["by"] == _reader():
            return dict(kept["known"]), set()
    return {}, set()


@functools.cache
def _reader() -> str:
    """Who read: this Python, with jupytext and these modules."""
    texts = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _READERS]
    return digest("\0".join([sys.version, importlib.metadata.version("jupytext"), *texts]))


def _keep(store: Path) -> None:
    """Keep what is remembered, where builds have their folder; where that cannot be, the next process reads again."""
    known, used = _known(store)
    if len(known) > MOST:
        known = {key: value for key, value in known.items() if key in used}
    with contextlib.suppress(OSError):
        if store.parent.is_dir():
            files.publish(store, json.dumps({"by": _reader(), "known": known}))
