"""Python functions as JavaScript, so that a page computes by the very source that Python runs.

Of the language it knows what :mod:`book.press.choice_rule` needs: functions of plain numbers, texts, lists and dicts,
with conditions, loops over lists, comprehensions, lambdas and formatted texts. It refuses everything else. The few
functions that Python brings along (sorted, min with a key, ...) are in ``script.js`` beside this file.
"""

import ast
import inspect
import json
import math
import string
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RUNTIME = Path(__file__).with_name("script.js")
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!=="}
KNOWN = ("abs", "all", "fill", "float", "len", "max", "min", "round", "sorted", "str")  # of script.js, but for math
METHODS = {"append": "push", "strip": "trim"}
OF_DICTS = {"get": "getOr", "items": "Object.entries", "values": "Object.values"}


def fill(text: str, gaps: Mapping[str, Any]) -> str:
    """A text with its $gaps filled."""
    return string.Template(text).substitute(gaps)


def script(*functions: Callable) -> str:
    """JavaScript that makes an object of functions, under their names; they may call each other.

    Raises:
        ValueError: for a function that says something that is not known here.
    """
    names = [function.__name__ for function in functions]
    texts = [_Script(names).of_function(_tree(function)) for function in functions]
    body = textwrap.indent("\n".join(texts), "  ")
    return f"(() => {{\n{RUNTIME.read_text(encoding='utf-8')}{body}\n  return {{ {', '.join(names)} }};\n}})()"


def _tree(function: Callable) -> ast.FunctionDef:
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


class _Script:
    """One function's text; ``names``: of the functions that it may call."""

    def __init__(self, names: list[str]):
        self.callable = {*names, *KNOWN}

    def of_function(self, node: ast.FunctionDef) -> str:
        parameters = {arg.arg for arg in node.args.args}
        body = node.body[1:] if ast.get_docstring(node) else node.body
        assigned = {
            part.targets[0].id
            for part in ast.walk(node)
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
        }
        declared = sorted(assigned - parameters)
        start = f"let {', '.join(declared)}; " if declared else ""
        return f"function {node.name}({', '.join(arg.arg for arg in node.args.args)}) {{ {start}{self.block(body)} }}"

    def block(self, statements: list[ast.stmt]) -> str:
        return " ".join(self.statement(statement) for statement in statements)

    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Return(value):
                return f"return {self.of(value)};"
            case ast.Assign([ast.Name() | ast.Subscript() as target], value):
                return f"{self.of(target)} = {self.of(value)};"
            case ast.Expr(ast.Call() as call):
                return f"{self.of(call)};"
            case ast.If(test, body, other):
                rest = f" else {{ {self.block(other)} }}" if other else ""
                return f"if ({self.truth(test)}) {{ {self.block(body)} }}{rest}"
            case ast.For(target, items, body, []):
                return f"for (const {self.target(target)} of {self.of(items)}) {{ {self.block(body)} }}"
        raise self.unknown(node)

    def of(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(None | bool() | int() | float() | str() as value):
                return json.dumps(value)
            case ast.Name(name):
                return name
            case ast.Subscript(value, index):
                return f"{self.of(value)}[{self.of(index)}]"
            case ast.List(parts) | ast.Tuple(parts):
                return f"[{', '.join(map(self.of, parts))}]"
            case ast.Starred(value):
                return f"...{self.of(value)}"
            case ast.Dict(keys, values):
                parts = (f"...{self.of(v)}" if k is None else f"[{self.of(k)}]: {self.of(v)}"
                         for k, v in zip(keys, values, strict=True))  # fmt: skip
                return f"{{ {', '.join(parts)} }}"
            case ast.UnaryOp(ast.USub(), value):
                return f"(-{self.of(value)})"
            case ast.BinOp(left, ast.FloorDiv(), right):
                return f"Math.floor({self.of(left)} / {self.of(right)})"
            case ast.BinOp(left, operator, right) if type(operator) in BINARY:
                return f"({self.of(left)} {BINARY[type(operator)]} {self.of(right)})"
            case ast.BoolOp(operator, [first, *rest]):
                name = "either" if isinstance(operator, ast.Or) else "both"
                return f"{name}({self.of(first)}, {', '.join(f'() => {self.of(part)}' for part in rest)})"
            case ast.UnaryOp(ast.Not()) | ast.Compare():
                return self.truth(node)
            case ast.IfExp(test, then, other):
                return f"({self.truth(test)} ? {self.of(then)} : {self.of(other)})"
            case ast.Lambda(args, body):
                return f"(({', '.join(arg.arg for arg in args.args)}) => ({self.of(body)}))"
            case ast.ListComp(item, [ast.comprehension(target, items, tests)]) | ast.GeneratorExp(
                item, [ast.comprehension(target, items, tests)]
            ):
                given, kept = (
                    self.target(target),
                    "".join(f".filter(({self.target(target)}) => {self.truth(test)})" for test in tests),
                )
                return f"{self.of(items)}{kept}.map(({given}) => ({self.of(item)}))"
            case ast.JoinedStr(parts):
                return f"[{', '.join(map(self.of, parts))}].join('')"
            case ast.FormattedValue(value, -1, None):
                return f"shown({self.of(value)}, '')"
            case ast.FormattedValue(value, -1, ast.JoinedStr([ast.Constant(how)])):
                return f"shown({self.of(value)}, {json.dumps(how)})"
            case ast.Call():
                return self.call(node)
        raise self.unknown(node)

    def truth(self, node: ast.expr) -> str:
        """As a condition: an empty list or text is false."""
        match node:
            case ast.BoolOp(operator, parts):
                return f"({(' || ' if isinstance(operator, ast.Or) else ' && ').join(map(self.truth, parts))})"
            case ast.UnaryOp(ast.Not(), value):
                return f"!{self.truth(value)}"
            case ast.Compare(first, operators, rest):
                pairs = zip([first, *rest], operators, rest, strict=False)
                return f"({' && '.join(self.compared(*pair) for pair in pairs)})"
        return f"truthy({self.of(node)})"

    def compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        a, b = self.of(left), self.of(right)
        match operator:
            case ast.Is() | ast.IsNot() if b == "null":
                return f"{a} {'===' if isinstance(operator, ast.Is) else '!=='} null"
            case ast.In() | ast.NotIn():
                return f"{'!' if isinstance(operator, ast.NotIn) else ''}holds({b}, {a})"
        if type(operator) not in ORDER:
            raise self.unknown(operator)
        return f"{a} {ORDER[type(operator)]} {b}"

    def call(self, node: ast.Call) -> str:
        given = list(map(self.of, node.args))
        if node.keywords:
            options = ", ".join(f"{option.arg}: {self.of(option.value)}" for option in node.keywords)
            given.append(f"{{ {options} }}")
        match node.func:
            case ast.Name(name) if name in self.callable and not (node.keywords and name not in ("min", "sorted")):
                return f"{name}({', '.join(given)})"
            case ast.Attribute(ast.Name("math"), name) if hasattr(math, name):
                return f"Math.{name}({', '.join(given)})"
            case ast.Attribute(value, name) if name in METHODS:
                return f"{self.of(value)}.{METHODS[name]}({', '.join(given)})"
            case ast.Attribute(value, name) if name in OF_DICTS:
                return f"{OF_DICTS[name]}({', '.join([self.of(value), *given])})"
        raise self.unknown(node)

    def target(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name):
                return name
            case ast.Tuple(parts):
                return f"[{', '.join(map(self.target, parts))}]"
        raise self.unknown(node)

    @staticmethod
    def unknown(node: ast.AST) -> ValueError:
        return ValueError(f"no JavaScript is known for: {ast.unparse(node) if hasattr(node, 'lineno') else node!r}")
