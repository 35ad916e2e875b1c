"""Marks of the code that writes values of rows: equal as long as it does the same, wherever it stands.

The code of a row is what names its id, a function of a module or a statement of a chapter, and the functions of the
same file that this calls by their names. Its marks do not see comments, docstrings, types of arguments, the names of
local variables, and by what name a module is imported.
"""

import ast
import functools
import hashlib
import re

from book.evidence import reads, scan
from book.evidence.places import ROW

CELL = re.compile(r"(?ms)^```\{code-cell\}.*?\n(?:---\n.*?\n---\n|(?::.*?\n)*)(.*?)^```$")


def writers(content: bytes) -> dict[str, list[str]]:
    """{pattern of ids: marks of the code that names them} of a file, a module or a chapter's source."""
    text = content.decode()
    if not re.search(rf"[\"']{ROW}", text):
        return {}
    if text.startswith("---"):  # a chapter
        text = "\n".join(CELL.findall(text))
    try:
        tree = ast.parse(text)
    except SyntaxError:  # some commit of a merge holds a file that nobody can run
        return {}
    lines = text.splitlines()
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    def mark(node: ast.stmt) -> str:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        return _mark("\n".join(lines[first - 1 : node.end_lineno]), frozenset(imported))

    by_pattern: dict[str, set[str]] = {}
    for node in tree.body:
        ids = {ids for part in ast.walk(node) if (ids := reads.pattern(part))}
        called = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & set(functions) if ids else ()
        marks = [mark(part) for part in [node, *(functions[name] for name in called)]] if ids else []
        for pattern in ids:
            by_pattern.setdefault(pattern, set()).update(marks)
    return {pattern: sorted(marks) for pattern, marks in sorted(by_pattern.items())}


@functools.cache
def _mark(source: str, imported: frozenset[str]) -> str:
    (node,) = ast.parse(source).body
    names = dict.fromkeys(imported, "module")
    if isinstance(node, ast.FunctionDef):
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        local = [part.arg for part in ast.walk(node) if isinstance(part, ast.arg)]
        local += [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        names |= {name: f"_{place}" for place, name in enumerate(dict.fromkeys(local))}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            part.id = names.get(part.id, part.id)
        elif isinstance(part, ast.arg):
            part.arg, part.annotation = names.get(part.arg, part.arg), None
        elif isinstance(part, ast.FunctionDef):
            part.returns = None
    return hashlib.sha256(scan.dumped(node).encode()).hexdigest()[:10]
