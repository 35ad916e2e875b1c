"""What the names in a piece of code stand for: expressions, and functions of this project, found in the source.

A name may stand for several expressions, as it is bound or changed; what is bound under a condition counts, too.
"""

import ast
import copy
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from book.evidence import sources

Bound = dict[str, list[ast.expr]]  # what the names of a piece of code may stand for
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
EVERY = "*"  # part of a plan


@dataclass(frozen=True, eq=False)
class Code:
    """A module or a chapter: its functions, what its names stand for, where imported names come from, and its file."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef]
    names: Bound
    imports: dict[str, str]
    path: Path | None = None


@dataclass(eq=False)
class Place:
    """Where an expression stands: in which code, and with which names of a function. ``used``: the names that what was
    followed there has.
    """

    code: Code
    local: Bound = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


@functools.cache
def chapter_code(chapter: str) -> Code:
    """The code of a chapter's cells."""
    return code_of(sources.code_of(sources.source(chapter)), sources.source(chapter))


@functools.cache
def module_of(name: str) -> Code | None:
    """The code of one of this project's modules by its dotted name; None for another name."""
    if not name or not sources.is_ours(name):
        return None
    path = sources.module_path(name)
    return code_of(path.read_text(encoding="utf-8"), path) if path else None


def code_of(text: str, path: Path | None = None) -> Code:
    """A module or a chapter's cells, read."""
    tree = ast.parse(text)
    functions = {statement.name: statement for statement in tree.body if isinstance(statement, FUNCTIONS)}
    classes = [statement for statement in tree.body if isinstance(statement, ast.ClassDef)]  # a call runs its __init__
    functions |= {own.name: f for own in classes for f in own.body if getattr(f, "name", "") == "__init__"}
    imports = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.asname or alias.name: alias.name for alias in node.names}
    names = _bound(statement for statement in tree.body if not isinstance(statement, FUNCTIONS))
    return Code(tree, functions, names, imports, path)


def named(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Place]]:
    """What the names in a piece of code stand for: expressions, and functions of this project with their place."""
    inner = _inner(node)
    read = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Subscript) and by_name(part, place)}
    for part in (inner for inner in ast.walk(node) if id(inner) not in read):
        if isinstance(part, ast.Name | ast.Attribute) and (target := function_of(part, place)):
            code, function = target
            yield function, Place(code, local_names(function))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            if (code := module_of(place.code.imports.get(part.value.id, ""))) and part.attr in code.names:
                yield from ((expression, Place(code)) for expression in code.names[part.attr])
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in inner:
            if part.id in place.local:
                yield from ((expression, place) for expression in place.local[part.id])
            elif part.id in place.code.names:
                yield from ((expression, Place(place.code)) for expression in place.code.names[part.id])


def function_of(node: ast.AST, place: Place) -> tuple[Code, ast.FunctionDef] | None:
    """The function of this project that an expression names, and its code."""
    if isinstance(node, ast.Name) and node.id not in place.local:
        if node.id in place.code.functions:
            return place.code, place.code.functions[node.id]
        module, _, name = place.code.imports.get(node.id, "").rpartition(".")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in place.local:
        module, name = place.code.imports.get(node.value.id, ""), node.attr
    else:
        return None
    code = module_of(module)
    return (code, code.functions[name]) if code and name in code.functions else None


def _inner(node: ast.AST) -> set[str]:
    """Names that belong to comprehensions in a piece of code; what they run over is in it."""
    loops = (part for part in ast.walk(node) if isinstance(part, ast.comprehension))
    return {name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)}


def by_name(node: ast.Subscript, place: Place) -> bool:
    """Whether an expression takes one part by its name from {name: plan.read(name) for name in ...}."""
    if not isinstance(node.value, ast.Name) or not isinstance(node.slice, ast.Constant):
        return False
    bound = place.local.get(node.value.id, place.code.names.get(node.value.id, []))
    if len(bound) != 1 or not isinstance(bound[0], ast.DictComp) or not isinstance(bound[0].key, ast.Name):
        return False
    calls = (part for part in ast.walk(bound[0].value) if isinstance(part, ast.Call) and part.args)
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "read"
        and getattr(call.args[0], "id", "") == bound[0].key.id
        for call in calls
    )


def texts(node: ast.AST, place: Place, seen: set[int] | None = None) -> Iterator[str | None]:
    """The texts that an expression may be, its constants and those of what its names stand for; None for an argument of
    the function in which it stands.
    """
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, ast.Attribute) and node.attr == "parts":
        yield EVERY
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name):
            bound = place.local.get(part.id, place.code.names.get(part.id))
            if bound is None:
                yield None
            for expression in bound or ():
                yield from texts(expression, place, seen)


@functools.cache
def local_names(function: ast.FunctionDef) -> Bound:
    """What the names that a function binds stand for."""
    return _bound(function.body)


def _bound(body: Iterable[ast.stmt]) -> Bound:
    """What the names that some statements bind or change stand for."""
    bound: Bound = {}

    def bind(target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Tuple() | ast.List():
                for place, element in enumerate(target.elts):
                    bind(element, _element(value, place, bound) or value)
            case ast.Starred():
                bind(target.value, value)
            case ast.Subscript():  # rows["B.fig1"] = value
                bind(target.value, ast.Dict(keys=[target.slice], values=[value]))
            case ast.Attribute():
                bind(target.value, value)
            case ast.Name():
                bound.setdefault(target.id, []).append(value)

    for node in (inner for statement in body for inner in ast.walk(statement)):
        match node:
            case ast.Assign():
                for target in node.targets:
                    bind(target, node.value)
            case ast.AugAssign() | ast.AnnAssign() | ast.NamedExpr() if node.value:
                bind(node.target, node.value)
            case (
                ast.For(iter=ast.Tuple() | ast.List() as over)
                | ast.comprehension(iter=ast.Tuple() | ast.List() as over)
            ):
                for element in over.elts:
                    bind(node.target, element)
            case ast.For() | ast.comprehension():
                for name in (part for part in ast.walk(node.target) if isinstance(part, ast.Name)):
                    bind(name, node.iter)
            case ast.withitem() if node.optional_vars:
                bind(node.optional_vars, node.context_expr)
            case ast.Call(func=ast.Attribute(value=ast.Name() as changed, attr="update" | "append" | "extend")):
                for argument in node.args:
                    bind(changed, argument)
    return bound


def _element(value: ast.expr, place: int, bound: Bound) -> ast.expr | None:
    """One element of what is taken apart: of a tuple, or of a generator over a tuple of constants."""
    if isinstance(value, ast.Tuple | ast.List):
        return value.elts[place] if place < len(value.elts) else None
    if not isinstance(value, ast.GeneratorExp | ast.ListComp) or len(value.generators) != 1:
        return None
    loop = value.generators[0]
    over = loop.iter
    if isinstance(over, ast.Name) and len(bound.get(over.id, ())) == 1:
        over = bound[over.id][0]
    if not isinstance(over, ast.Tuple | ast.List) or not isinstance(loop.target, ast.Name) or place >= len(over.elts):
        return None
    return _Replaced(loop.target.id, over.elts[place]).visit(copy.deepcopy(value.elt))


class _Replaced(ast.NodeTransformer):
    """An expression with another one for a name."""

    def __init__(self, name: str, value: ast.expr):
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == self._name else node
