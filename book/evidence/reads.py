"""Which parts of plans a row of the ledger reads, found in the source: from the call that records the row back to the
calls ``plan.read("part")`` that its values come from.

It follows names, calls of this project's functions, and the keys of mappings: ``values["B.fig1"]`` of a function that
returns ``{"B.fig1": ..., **others()}`` leads to what stands beside that key. Where the key cannot be told, everything
is followed, so that a row may be said to read a part too many. Values that one part's runs are chosen by (``tune``)
are inside a part. It does not see what a function does with the name of a part that it computes.
"""

import ast
import copy
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from book.evidence import sources

Bound = dict[str, list[ast.expr]]  # what the names of a piece of code may stand for
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
EVERY = "*"  # part of a plan
_ROW = re.compile(r"[A-D]\.[a-z0-9]")


@dataclass(frozen=True, eq=False)
class Code:
    """A module or a chapter: its functions, what its names stand for, and where imported names come from."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef]
    names: Bound
    imports: dict[str, str]


@dataclass(eq=False)
class Place:
    """Where an expression stands: in which code, and with which names of a function."""

    code: Code
    local: Bound = field(default_factory=dict)


def parts(chapter: str, row: str, known: dict[str, Iterable[str]]) -> list[tuple[str, str]]:
    """The parts that a row reads, as (study, part), sorted; ``known``: the published parts of each study."""
    code = _chapter(chapter)
    search = _Search(row)
    search.studies.add(sources.number(chapter))
    for expression in _recorded(code, row, search):
        search.follow(expression, Place(code), narrow=True)
    return sorted(
        (study, part) for study in search.studies for part in known.get(study, ()) if {part, EVERY} & search.found
    )


class _Search:
    """One row's way back. ``found`` are names of parts, ``studies`` those whose plans are loaded on the way."""

    def __init__(self, row: str):
        self.row = row
        self.found: set[str] = set()
        self.studies: set[str] = set()
        self._seen: set[tuple] = set()

    def follow(self, node: ast.AST, place: Place, narrow: bool = False) -> None:
        """Follow an expression; ``narrow``: only what leads to the row, where something does."""
        if (key := (id(node), narrow)) in self._seen:
            return
        self._seen.add(key)
        if narrow and self._narrow(node, place):
            return
        read = _read(node, place)
        self.found |= read.parts
        self.studies |= read.studies

    def _narrow(self, node: ast.AST, place: Place) -> bool:
        """Whether something in an expression leads to the row; it is followed then, and nothing else of it."""
        match node:
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                chosen = [v for k, v in pairs if (_is(k, self.row) if k else self.leads(v, place))]
            case ast.BinOp(op=ast.BitOr()):
                chosen = [side for side in (node.left, node.right) if self.leads(side, place)]
            case ast.Subscript():
                chosen = [node.value] if self.leads(node.value, place) else []
            case ast.Name():
                bound = place.local.get(node.id, place.code.names.get(node.id, []))
                chosen = [one for one in bound if self.leads(one, place)]
            case ast.Call() if (target := _function(node.func, place)) and self.leads(node.func, place):
                code, function = target
                inner = Place(code, _local(function))
                for returned in (one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value):
                    self.follow(returned, inner, narrow=True)
                for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    self.follow(argument, place)
                return True
            case _:
                return False
        for one in chosen:
            self.follow(one, place, narrow=not (isinstance(node, ast.Dict) and _keyed(node, one, self.row)))
        return bool(chosen)

    def leads(self, node: ast.AST, place: Place) -> bool:
        """Whether an expression, or anything that it is made of, writes the row under its id."""
        return any(re.fullmatch(ids, self.row) for ids in _ids(node, place))


# --- where a row is recorded ------------------------------------------------------------------------------------------


def _recorded(code: Code, row: str, search: _Search) -> list[ast.expr]:
    """What stands in the calls that record a row: of those that name it, else of those to which its id leads."""
    calls = [
        (statement, call)
        for statement in code.tree.body
        if not isinstance(statement, _FUNCTIONS)
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.startswith("record")
        and call.func.id != "recorder" and call.args
    ]  # fmt: skip
    exact = [call for _, call in calls if _is(call.args[0], row) and isinstance(call.args[0], ast.Constant)]
    tail = row.partition(".")[2]
    named = [call for statement, call in calls if {row, tail} & _texts_of(statement)]
    leading = [call for _, call in calls if search.leads(call, Place(code))]
    chosen = exact or named or leading or [call for _, call in calls if not isinstance(call.args[0], ast.Constant)]
    found = []
    for call in chosen:
        found += [one.value for one in call.keywords] or call.args
    return found


# --- what an expression reads ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    """Names of parts that a piece of code reads, studies that it loads, and whether it reads a part that is named by
    an argument.
    """

    parts: frozenset[str] = frozenset()
    studies: frozenset[str] = frozenset()
    by_argument: bool = False

    def __or__(self, other: "_Read") -> "_Read":
        return _Read(self.parts | other.parts, self.studies | other.studies, self.by_argument or other.by_argument)


_READ: dict[int, _Read] = {}


def _read(node: ast.AST, place: Place) -> _Read:
    """What an expression, or a function, reads with all that it is made of; computed once."""
    if id(node) in _READ:
        return _READ[id(node)]
    _READ[id(node)] = total = _Read()  # of what is made of itself
    _KEPT.append(node)
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            total |= _of_call(one, place)
        elif isinstance(one, ast.Subscript) and _by_name(one, place):
            total |= _Read(frozenset([one.slice.value]))
    for target, inner in _named(node, place):
        total |= _read(target, inner)
    _READ[id(node)] = total
    return total


_KEPT: list[ast.AST] = []  # whose identity is a key above


def _of_call(call: ast.Call, place: Place) -> _Read:
    """What a call reads by itself: a part or a study that it names, or one that its function reads by an argument."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "read" and call.args:
        texts = set(_texts(call.args[0], place))
        return _Read(frozenset(texts - {None}), by_argument=None in texts)
    if name == "load" and call.args and isinstance(call.args[0], ast.Constant):
        return _Read(studies=frozenset([str(call.args[0].value)]))
    if target := _function(call.func, place):
        code, function = target
        if _read(function, Place(code, _local(function))).by_argument:
            return _Read(frozenset(_texts(call, place)) - {None})
    return _Read()


# --- what an expression is made of ------------------------------------------------------------------------------------


def _named(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Place]]:
    """What the names in a piece of code stand for: expressions, and functions of this project with their place."""
    inner = _inner(node)
    read = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Subscript) and _by_name(one, place)}
    for one in (one for one in ast.walk(node) if id(one) not in read):
        if isinstance(one, ast.Name | ast.Attribute) and (target := _function(one, place)):
            code, function = target
            yield function, Place(code, _local(function))
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            if (code := _module(place.code.imports.get(one.value.id, ""))) and one.attr in code.names:
                yield from ((expression, Place(code)) for expression in code.names[one.attr])
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in inner:
            if one.id in place.local:
                yield from ((expression, place) for expression in place.local[one.id])
            elif one.id in place.code.names:
                yield from ((expression, Place(place.code)) for expression in place.code.names[one.id])


def _by_name(node: ast.Subscript, place: Place) -> bool:
    """Whether an expression takes one part by its name from {name: plan.read(name) for name in ...}."""
    if not isinstance(node.value, ast.Name) or not isinstance(node.slice, ast.Constant):
        return False
    bound = place.local.get(node.value.id, place.code.names.get(node.value.id, []))
    if len(bound) != 1 or not isinstance(bound[0], ast.DictComp) or not isinstance(bound[0].key, ast.Name):
        return False
    calls = (one for one in ast.walk(bound[0].value) if isinstance(one, ast.Call) and one.args)
    return any(
        isinstance(one.func, ast.Attribute)
        and one.func.attr == "read"
        and getattr(one.args[0], "id", "") == bound[0].key.id
        for one in calls
    )


def _inner(node: ast.AST) -> set[str]:
    """Names that belong to comprehensions in a piece of code; what they run over is in it."""
    loops = (one for one in ast.walk(node) if isinstance(one, ast.comprehension))
    return {name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)}


def _function(node: ast.AST, place: Place) -> tuple[Code, ast.FunctionDef] | None:
    """The function of this project that an expression names, and its code."""
    if isinstance(node, ast.Name) and node.id not in place.local:
        if node.id in place.code.functions:
            return place.code, place.code.functions[node.id]
        module, _, name = place.code.imports.get(node.id, "").rpartition(".")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in place.local:
        module, name = place.code.imports.get(node.value.id, ""), node.attr
    else:
        return None
    code = _module(module)
    return (code, code.functions[name]) if code and name in code.functions else None


def _texts(node: ast.AST, place: Place, depth: int = 6) -> Iterator[str | None]:
    """The texts that an expression may be, its constants and those of what its names stand for; None for an argument of
    the function in which it stands.
    """
    if isinstance(node, ast.Attribute) and node.attr == "parts":
        yield EVERY
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value
        elif isinstance(one, ast.Name) and depth:
            bound = place.local.get(one.id, place.code.names.get(one.id))
            if bound is None:
                yield None
            for expression in bound or ():
                yield from _texts(expression, place, depth - 1)


def _texts_of(node: ast.AST) -> frozenset[str]:
    constants = (one for one in ast.walk(node) if isinstance(one, ast.Constant))
    return frozenset(one.value for one in constants if isinstance(one.value, str))


_IDS: dict[int, frozenset[str]] = {}


def _ids(node: ast.AST, place: Place) -> frozenset[str]:
    """Patterns of the ids of rows in an expression or a function, and in all that it is made of; computed once."""
    if id(node) not in _IDS:
        _IDS[id(node)] = frozenset()  # of what is made of itself
        _KEPT.append(node)
        found = frozenset(filter(None, map(pattern, ast.walk(node))))
        _IDS[id(node)] = found.union(*(_ids(target, inner) for target, inner in _named(node, place)))
    return _IDS[id(node)]


def pattern(node: ast.AST) -> str:
    """A pattern of the ids that a text of the source is, "" for another text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value) if _ROW.match(node.value) else ""
    if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
        first = str(node.values[0].value)
        if not _ROW.match(first):
            return ""
        pieces = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in node.values)
        return "".join(pieces)
    return ""


def _is(node: ast.AST | None, row: str) -> bool:
    return bool(node is not None and (ids := pattern(node)) and re.fullmatch(ids, row))


def _keyed(node: ast.Dict, value: ast.expr, row: str) -> bool:
    return any(v is value and _is(k, row) for k, v in zip(node.keys, node.values, strict=True))


# --- reading the source -----------------------------------------------------------------------------------------------


@functools.cache
def _chapter(chapter: str) -> Code:
    return _code(sources.code_of(sources.source(chapter)))


@functools.cache
def _module(name: str) -> Code | None:
    """The code of one of this project's modules by its dotted name; None for another name."""
    if not name or not sources.own(name):
        return None
    path = sources.module_path(name)
    return _code(path.read_text(encoding="utf-8")) if path else None


def _code(text: str) -> Code:
    tree = ast.parse(text)
    functions = {one.name: one for one in tree.body if isinstance(one, _FUNCTIONS)}
    imports = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imports |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            imports |= {one.asname or one.name: one.name for one in node.names}
    return Code(tree, functions, _bound(one for one in tree.body if not isinstance(one, _FUNCTIONS)), imports)


@functools.cache
def _local(function: ast.FunctionDef) -> Bound:
    return _bound(function.body)


def _bound(body: Iterable[ast.stmt]) -> Bound:
    """What the names that some statements bind or change stand for."""
    found: Bound = {}

    def bind(target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Tuple() | ast.List():
                for place, one in enumerate(target.elts):
                    bind(one, _element(value, place, found) or value)
            case ast.Starred():
                bind(target.value, value)
            case ast.Subscript():  # rows["B.fig1"] = value
                bind(target.value, ast.Dict(keys=[target.slice], values=[value]))
            case ast.Attribute():
                bind(target.value, value)
            case ast.Name():
                found.setdefault(target.id, []).append(value)

    for node in (inner for statement in body for inner in ast.walk(statement)):
        match node:
            case ast.Assign():
                for target in node.targets:
                    bind(target, node.value)
            case ast.AugAssign() | ast.AnnAssign() | ast.NamedExpr() if node.value:
                bind(node.target, node.value)
            case ast.For() | ast.comprehension():
                bind(node.target, node.iter)
            case ast.withitem() if node.optional_vars:
                bind(node.optional_vars, node.context_expr)
            case ast.Call(func=ast.Attribute(value=ast.Name() as changed, attr="update" | "append" | "extend")):
                for argument in node.args:
                    bind(changed, argument)
    return found


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
