"""Files that appear whole or not at all, locks that end with their process, and values that people give in them."""

import ast
import contextlib
import fcntl
import json
import math
import os
import platform
import re
import tempfile
import time
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from dplib.checks import ParameterError, shown

DEEPEST = 50  # lists in lists; Python reads no more than 200
MOST = 200_000  # values in a file, with what its aliases stand for
_SAYS = {"missing": "is missing", "extra_forbidden": "is not known", "unexpected_keyword_argument": "is not known"}


def publish(path: Path, text: str) -> None:
    """Write a file in one step: it appears whole, or not at all.

    Args:
        path: the file.
        text: what it is to hold, in UTF-8.

    Raises:
        OSError: which names the file, where that cannot be.
    """
    part = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:8]}")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            part.unlink()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside, a file or what is in a folder is written: an OSError that names no file names this one.

    Args:
        path: the file or folder that is written.

    Raises:
        OSError: that of the code inside, with the name of this file where it named none.
    """
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def check_room(folder: Path) -> None:
    """See that a megabyte can be written in a folder: another program that failed may have failed for that.

    Args:
        folder: that must exist.

    Raises:
        OSError: which names the folder, where it cannot.
    """
    with writing(folder), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(1_000_000))


@contextlib.contextmanager
def locked(path: Path, *, blocking: bool) -> Iterator[int]:
    """An exclusive lock that ends with this process, however it ends; BlockingIOError where another has it.

    The file may be unlinked by its holder: whoever then has the lock of a file without a name tries again.

    Args:
        path: the file of the lock; made where there is none.
        blocking: wait for whoever has it.

    Raises:
        BlockingIOError: where another has it and one does not wait.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            if os.fstat(handle).st_nlink:  # else its holder has unlinked it, and another file may have its name
                yield handle
                return
        finally:
            os.close(handle)


def sign(handle: int) -> None:
    """Write into the file of a lock that one has who has it, for those who meet it.

    Args:
        handle: of the file, as from :func:`locked`.
    """
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {platform.node()} since {time.ctime()}".encode(), 0)


def value(text: str) -> Any:
    """A parameter from the command line: a Python literal, true, false or none, what a file may have (null, .inf, 010),
    else the text itself. A list may have bare words, ``[mnist, digits]``: a shell takes quotation marks away.

    Args:
        text: as it stands on the command line.
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _words(text) if text.startswith("[") or any(form.match(text) for form in _FORMS) else text


def plain(name: str, value: Any, depth: int = 0) -> Any:
    """A value as JSON and Python both write it, tuples as lists.

    Args:
        name: what the message calls the value.
        value: None, a truth value, a number that a float can hold, a text that UTF-8 can hold, or lists or mappings of
            these.
        depth: how many lists it stands in.

    Raises:
        ParameterError: for anything else.
    """
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [plain(name, element, depth + 1) for element in value]
    if isinstance(value, dict) and depth < DEEPEST and all(isinstance(key, str) for key in value):
        return {plain(name, key): plain(name, element, depth + 1) for key, element in value.items()}
    if not _is_plain(value):
        raise ParameterError(
            f"{name} = {shown(value)} is not allowed: it must be a number, a text in UTF-8, true, false, none, or a "
            "list of these."
        )
    return value


# YAML is read by libyaml where it is there, ten times as fast; what it says is put together here, where it is bounded.
_Parser = yaml.cyaml.CParser if yaml.__with_libyaml__ else None
_BASES = (Composer, _Parser, SafeConstructor, Resolver) if _Parser else (yaml.SafeLoader,)


class Loader(*_BASES):
    """YAML of bounded size, since ten lines of aliases can stand for more values than a machine holds, or have no end;
    and with each key once, since YAML keeps the last of two in silence. Plain words are numbers, truth values or texts
    as YAML 1.2 says: 1e-5 is a number, as on a command line, and ``no`` a text. So are inf, nan, 1_000 and 0b11, which
    a command line has.

    Args:
        stream: what is read, as :mod:`yaml` takes it.
    """

    yaml_implicit_resolvers: ClassVar = {}  # those of YAML 1.2, below

    def __init__(self, stream: Any) -> None:
        if _Parser:
            _Parser.__init__(self, stream)
            for base in (Composer, SafeConstructor, Resolver):
                base.__init__(self)
        else:
            super().__init__(stream)
        self.sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        alias = self.check_event(yaml.AliasEvent)
        known = self.anchors.get(self.peek_event().anchor) if alias else None
        if known and known.end_mark is None:  # a node that is not closed yet
            raise yaml.YAMLError("it has an alias (*) inside what it stands for")
        node = super().compose_node(parent, index)
        if node not in self.sizes:
            inside = [] if isinstance(node, yaml.ScalarNode) else node.value
            parts = [part for pair in inside for part in (pair if isinstance(pair, tuple) else (pair,))]
            self.sizes[node] = 1 + sum(self.sizes[part] for part in parts)
            _check_keys(node)
        if self.sizes[node] > MOST:
            raise yaml.YAMLError(f"with its aliases (*) it stands for over {MOST:,} values")
        return node


def _whole(loader: Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, {"0o": 8, "0x": 16, "0b": 2}.get(text[:2], 10))


def _real(loader: Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))


_FORMS: list[re.Pattern[str]] = []  # of plain words that are no texts
_DIGITS = "[0-9]+(?:_[0-9]+)*"
# The core schema of YAML 1.2.2, section 10.3.2, with Python's forms beside it; and <<, which takes in a mapping.
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", rf"[-+]?{_DIGITS}|0o[0-7]+|0x[0-9a-fA-F]+|0b[01]+", list("-+0123456789")),
    (
        "float",
        rf"[-+]?(?:\.{_DIGITS}|{_DIGITS}(?:\.(?:{_DIGITS})?)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.?(?:inf|Inf|INF)|[-+]?\.?(?:nan|NaN|NAN)",
        list("-+.0123456789iInN"),
    ),
    ("merge", "<<", ["<"]),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)
    _FORMS += [re.compile(f"(?=.)(?:{_pattern})$")] if _tag in ("null", "int", "float") else []
Loader.add_constructor("tag:yaml.org,2002:int", _whole)
Loader.add_constructor("tag:yaml.org,2002:float", _real)


def _check_keys(node: yaml.Node) -> None:
    known = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in known:
                raise yaml.YAMLError(f"line {key.start_mark.line + 1} has the key {key.value} again")
            known.add((key.tag, key.value))


def read(path: Path) -> Any:
    """What a file of YAML, JSON or TOML holds.

    Args:
        path: whose suffix says which of the three it is.

    Raises:
        ParameterError: which names the file, where it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return tomllib.loads(text)
        return json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ParameterError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None


def checked(path: Path, kind: Any, document: Any = None) -> Any:
    """What a file holds, as a type that pydantic can check.

    Args:
        path: the file.
        kind: the type, such as ``dict[str, Any]``.
        document: what the file holds, where it was read already.

    Raises:
        ParameterError: as :func:`read`; and where it is something else, with the place in the file.
    """
    import pydantic

    try:
        return pydantic.TypeAdapter(kind).validate_python(read(path) if document is None else document)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ", ".join(map(str, first["loc"])) or "all of it"
        says = _SAYS.get(first["type"]) or f"= {shown(first['input'])} is not allowed: {first['msg'][:200]}"
        raise ParameterError(f"{path}: {place} {says}.") from None


def _is_plain(value: Any) -> bool:
    try:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, int):
            math.isfinite(value)
    except (UnicodeEncodeError, OverflowError):
        return False
    return value is None or isinstance(value, bool | int | float | str)


def _words(text: str) -> Any:
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
