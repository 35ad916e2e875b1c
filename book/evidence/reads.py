"""Which parts of plans a row of the ledger reads, found in the source: from the call that records the row back to the
calls ``plan.read("part")`` that its values come from.

It follows names, calls of this project's functions, and the keys of mappings: ``values["B.fig1"]`` of a function that
returns ``{"B.fig1": ..., **others()}`` leads to what stands beside that key. Where the key cannot be told, everything
is followed, so that a row may be said to read a part too many. Values that one part's runs are chosen by (``tune``)
are inside a part. It does not see what a function does with the name of a part that it computes.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from book.evidence import code_names, sources
from book.evidence.code_names import EVERY, Code, Place
from book.evidence.places import ROW

LEAST = 5  # letters by which a text with gaps begins that is taken for ids of rows, "B.tab{...}"


def parts(chapter: str, row: str, known: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """The parts that a row reads, as (study, part), sorted; ``known``: the published parts of each study."""
    return parts_in(code_names.chapter_code(chapter), row, known, sources.number(chapter))


def parts_in(code: Code, row: str, known: Mapping[str, Iterable[str]], study: str) -> list[tuple[str, str]]:
    """:func:`parts` of the code of a chapter with this study."""
    search = _Search(row)
    for expression in _recorded(code, row, search):
        search.follow(expression, Place(code), narrow=True)
    return sorted(
        (name, part)
        for name in {study, *search.studies}
        for part in known.get(name, ())
        if {part, EVERY} & search.parts
    )


def functions(chapter: str, row: str) -> list[tuple[Path, ast.FunctionDef]]:
    """The functions of this project that make a row's values, from the chapter on, with their files."""
    code, search = code_names.chapter_code(chapter), _Search(row)
    for expression in _recorded(code, row, search):
        search.follow(expression, Place(code), narrow=True)
    return [(code.path, function) for code, function in search.functions if code.path]


class _Search:
    """One row's way back. ``parts`` are those of plans, ``studies`` those whose plans are loaded on the way,
    ``functions`` those that are met.
    """

    def __init__(self, row: str):
        self.row = row
        self.parts: set[str] = set()
        self.studies: set[str] = set()
        self.functions: list[tuple[Code, ast.FunctionDef]] = []
        self._seen: set[tuple] = set()

    def follow(self, node: ast.AST, place: Place, narrow: bool = False) -> None:
        """Follow an expression; ``narrow``: only what leads to the row, where something does."""
        if (key := (id(node), narrow)) in self._seen:
            return
        self._seen.add(key)
        if narrow and self._narrow(node, place):
            return
        place.used |= _names(node, place)
        self.functions += _functions(node, place, set())
        says = _all(node, place)
        self.parts |= says.parts
        self.studies |= says.studies

    def _narrow(self, node: ast.AST, place: Place) -> bool:
        """Whether something in an expression leads to the row; it is followed then, and nothing else of it."""
        match node:
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                chosen = [v for k, v in pairs if (_is(k, self.row) if k else self.leads(v, place))]
            case ast.BinOp(op=ast.BitOr()):
                chosen = [side for side in (node.left, node.right) if self.leads(side, place)]
            case ast.Subscript(value=inside) | ast.Call(func=ast.Attribute(attr="get" | "items", value=inside)):
                chosen = [inside] if self.leads(inside, place) else []
            case ast.Name():
                bound = place.local.get(node.id, place.code.names.get(node.id, []))
                chosen = [expression for expression in bound if self.leads(expression, place)]
            case ast.Call() if (target := code_names.function_of(node.func, place)) and self.leads(node.func, place):
                code, function = target
                self.functions.append(target)
                inner = Place(code, code_names.local_names(function))
                for returned in (
                    part.value for part in ast.walk(function) if isinstance(part, ast.Return) and part.value
                ):
                    self.follow(returned, inner, narrow=True)
                for argument in _given(node, function, inner.used):
                    self.follow(argument, place)
                return True
            case ast.DictComp():
                chosen = [node.value, *(loop.iter for loop in node.generators)]
            case _:
                return False
        for expression in chosen:
            self.follow(
                expression, place, narrow=not (isinstance(node, ast.Dict) and _keyed(node, expression, self.row))
            )
        return bool(chosen)

    def leads(self, node: ast.AST, place: Place) -> bool:
        """Whether an expression, or anything that it is made of, writes the row under its id."""
        if isinstance(node, ast.DictComp) and isinstance(node.key, ast.Name):  # its keys are those that it runs over
            over = [loop.iter for loop in node.generators]
            if any(_all(expression, place).ids for expression in over):
                return any(self.leads(expression, place) for expression in over)
        return any(re.fullmatch(ids, self.row) for ids in _all(node, place).ids)


def _functions(node: ast.AST, place: Place, seen: set[int]) -> Iterator[tuple[Code, ast.FunctionDef]]:
    """The functions that an expression calls, itself or in what its names stand for; not what these call."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for stands_for, where in code_names.named(node, place):
        if isinstance(stands_for, code_names.FUNCTIONS):
            yield where.code, stands_for
        else:
            yield from _functions(stands_for, where, seen)


def _names(node: ast.AST, place: Place, seen: set[int] | None = None) -> set[str]:
    """The names in an expression, and in what a function's own names among them stand for."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return set()
    seen.add(id(node))
    names_here = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    bound = [expression for name in names_here for expression in place.local.get(name, ())]
    return names_here.union(*(_names(expression, place, seen) for expression in bound))


def _given(call: ast.Call, function: ast.FunctionDef, used: set[str]) -> list[ast.expr]:
    """What a call gives for those arguments of its function that are used."""
    names = [parameter.arg for parameter in function.args.posonlyargs + function.args.args]
    given = [(name, value) for name, value in zip(names, call.args, strict=False)]
    given += [("", value) for value in call.args[len(names) :]] + [
        (keyword.arg, keyword.value) for keyword in call.keywords
    ]
    known = {*names, *(parameter.arg for parameter in function.args.kwonlyargs)}
    return [value for name, value in given if name in used or name not in known or isinstance(value, ast.Starred)]


# --- where a row is recorded ------------------------------------------------------------------------------------------


def _recorded(code: Code, row: str, search: _Search) -> list[ast.expr]:
    """What stands in the calls that record a row: of those that name it, else of those to which its id leads."""
    calls = [
        (statement, call)
        for statement in code.tree.body
        if not isinstance(statement, code_names.FUNCTIONS)
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.startswith("record")
        and call.func.id != "recorder" and call.args
    ]  # fmt: skip
    exact = [call for _, call in calls if _is(call.args[0], row) and isinstance(call.args[0], ast.Constant)]
    tail = row.partition(".")[2]
    named = [call for statement, call in calls if {row, tail} & _texts_of(statement)]
    leading = [call for _, call in calls if search.leads(call, Place(code))]
    chosen = exact or named or leading or [call for _, call in calls if not isinstance(call.args[0], ast.Constant)]
    expressions = []
    for call in chosen:
        expressions += [keyword.value for keyword in call.keywords] or call.args
    return expressions


# --- what an expression reads ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Says:
    """What a piece of code says: names of parts that it reads, studies that it loads, and patterns of rows' ids."""

    parts: frozenset[str] = frozenset()
    studies: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    def __or__(self, other: "_Says") -> "_Says":
        return _Says(self.parts | other.parts, self.studies | other.studies, self.ids | other.ids)


# By identity, which stays a node's own as long as it is kept.
_OWN: dict[int, tuple[_Says, list[tuple[ast.AST, Place]]]] = {}
_ALL: dict[int, _Says] = {}
_KEPT: list[ast.AST] = []


def _all(node: ast.AST, place: Place) -> _Says:
    """What an expression, or a function, says with all that it is made of; computed once."""
    if id(node) not in _ALL:
        total, seen, waiting = _Says(), {id(node)}, [(node, place)]
        while waiting:
            expression, where = waiting.pop()
            if id(expression) in _ALL:
                total |= _ALL[id(expression)]
                continue
            says, made_of = _of_itself(expression, where)
            total |= says
            new = {id(target): (target, inner) for target, inner in made_of if id(target) not in seen}
            seen |= set(new)
            waiting += new.values()
        _ALL[id(node)] = total
    return _ALL[id(node)]


def _of_itself(node: ast.AST, place: Place) -> tuple[_Says, list[tuple[ast.AST, Place]]]:
    """What an expression, or a function, says by itself, and what it is made of."""
    if id(node) not in _OWN:
        _KEPT.append(node)
        says = _Says(ids=frozenset(filter(None, map(pattern, ast.walk(node)))))
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                says |= _of_call(part, place)
            elif isinstance(part, ast.Subscript) and code_names.by_name(part, place):
                says |= _Says(frozenset([part.slice.value]))
        _OWN[id(node)] = says, list(code_names.named(node, place))
    return _OWN[id(node)]


def _of_call(call: ast.Call, place: Place) -> _Says:
    """What a call reads by itself: a part or a study that it names, or one whose name it gives to a function."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "read" and call.args:
        return _Says(frozenset(code_names.texts(call.args[0], place)) - {None})
    if name == "load" and call.args and isinstance(call.args[0], ast.Constant):
        return _Says(studies=frozenset([str(call.args[0].value)]))
    if (target := code_names.function_of(call.func, place)) and _by_argument(*target):
        return _Says(frozenset(code_names.texts(call, place)) - {None})
    return _Says()


_BY_ARGUMENT: dict[int, bool] = {}


def _by_argument(code: Code, function: ast.FunctionDef) -> bool:
    """Whether a function reads a part whose name it is given, by itself or by another function."""
    if id(function) not in _BY_ARGUMENT:
        _BY_ARGUMENT[id(function)] = False  # as far as it calls itself
        place = Place(code, code_names.local_names(function))
        for call in (part for part in ast.walk(function) if isinstance(part, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "read" and call.args:
                given = call.args[0]
            elif (target := code_names.function_of(call.func, place)) and _by_argument(*target):
                given = call
            else:
                continue
            _BY_ARGUMENT[id(function)] |= None in code_names.texts(given, place)
    return _BY_ARGUMENT[id(function)]


def _texts_of(node: ast.AST) -> frozenset[str]:
    constants = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
    return frozenset(constant.value for constant in constants if isinstance(constant.value, str))


def pattern(node: ast.AST) -> str:
    """A pattern of the ids that a text of the source is, "" for another text; a table's id stands for its rows, too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value) + r"(\..+)?" if re.match(ROW, node.value) else ""
    if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
        first = str(node.values[0].value)
        if not re.match(ROW, first) or len(first) < LEAST:
            return ""
        pieces = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in node.values)
        return "".join(pieces)
    return ""


def _is(node: ast.AST | None, row: str) -> bool:
    return bool(node is not None and (ids := pattern(node)) and re.fullmatch(ids, row))


def _keyed(node: ast.Dict, value: ast.expr, row: str) -> bool:
    return any(v is value and _is(k, row) for k, v in zip(node.keys, node.values, strict=True))
