"""What a sweep runs over: a notebook and, for each parameter that varies, its values; from the command line or YAML.

Values are data: nothing here or later evaluates one, and none ever stands in a command line of the engine.
"""

import ast
import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.evidence import sources
from dplib.checks import ParameterError, shown
from dplib.files import plain, read, value

_RANGE = re.compile(r"\s*(-?\d+):(-?\d+)(?::(\d+))?\s*")
_COLONS = re.compile(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?(?::[-+]?[\d.]+(?:e[-+]?\d+)?){1,2}\s*", re.IGNORECASE)
MOST = 20_000  # runs of a grid: each is a job of Snakemake, and a file


@dataclass(frozen=True)
class Grid:
    """All combinations of some values of some parameters of a notebook; the last axis varies fastest.

    ``chapter`` is a chapter's name, or the path of another MyST notebook without its suffix.
    """

    chapter: str
    axes: Mapping[str, Sequence[Any]]

    @property
    def source(self) -> Path:
        """The notebook's source."""
        return sources.source(self.chapter)

    @property
    def name(self) -> str:
        """The notebook's name without its folder."""
        return self.source.stem

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    @property
    def varied(self) -> list[str]:
        """The parameters with more than one value."""
        return [name for name, values in self.axes.items() if len(values) > 1]

    def points(self) -> Iterator[dict[str, Any]]:
        """The parameters of each run: those of the parameters cell, and in their place those of the grid."""
        common = sources.default_parameters(self.chapter)
        for values in itertools.product(*self.axes.values()):
            yield {**common, **dict(zip(self.axes, values, strict=True))}


def grid(chapter: str, axes: Mapping[str, Sequence[Any]]) -> Grid:
    """A grid of a chapter, or of a MyST notebook (``.md``); what its values mean is for the notebook to check.

    Raises:
        ParameterError: for a chapter or parameter that does not exist, an axis without values or with the
            same value twice, or a value that a notebook cannot be given.
    """
    if chapter.endswith(".md"):
        if not os.path.isfile(chapter):  # no error for a name too long for any file, as of a Path
            raise ParameterError(f"{shown(chapter)} does not exist: give a chapter, or the path of a MyST notebook.")
        chapter = str(Path(chapter).resolve().with_suffix(""))
    else:
        chapter = sources.resolve(chapter)
    sources.check_parameter_names(chapter, dict(axes))
    checked = {}
    for name, values in axes.items():
        if not values:
            raise ParameterError(f"{name} has no value: give at least one.")
        checked[name] = values if isinstance(values, range) else [plain(name, value) for value in values]
        if (twice := _twice(checked[name])) is not None:
            raise ParameterError(f"{name} = {shown(twice)} stands twice in the grid.")
    if (runs := len(Grid(chapter, checked))) > MOST:
        raise ParameterError(f"{chapter}: the grid has {runs} runs, and may have {MOST} at most.")
    return Grid(chapter, checked)


def from_file(path: Path) -> Grid:
    """A grid from YAML: ``chapter`` and ``parameters``.

    Under ``parameters`` a list is an axis (a list in it is one value), ``{range: [0, 20]}`` the whole numbers from 0 to
    19, and anything else one value. Text stays as it is. Raises as :func:`grid`.
    """
    document = read(path)
    if not isinstance(document, dict) or set(document) != {"chapter", "parameters"}:
        raise ParameterError(f"{path}: a grid has chapter and parameters; nothing else.")
    chapter, given = document["chapter"], document["parameters"]
    if type(chapter) is int:  # 01 without quotes
        chapter = str(chapter)
    if not isinstance(chapter, str) or not isinstance(given, dict):
        raise ParameterError(f"{path}: chapter must be a text and parameters a mapping from name to values.")
    if chapter.endswith(".md"):
        chapter = str(path.parent / chapter)
    axes = {str(name): _axis(str(name), values) for name, values in given.items()}
    return grid(chapter, axes)


def from_words(chapter: str, words: Sequence[str]) -> Grid:
    """A grid from ``NAME=VALUES`` of the command line; raises as :func:`grid`."""
    axes: dict[str, Sequence[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ParameterError(
                f"-p {shown(word)} is not allowed: it must be NAME=VALUES, such as epsilon=0.1,1. (One run takes "
                "`-p NAME VALUE`: python -m book run.)"
            )
        if name in axes:
            raise ParameterError(f"-p {name}=... stands twice: give all its values at once, with commas.")
        axes[name] = values(name, text)
    return grid(chapter, axes)


def values(name: str, text: str) -> Sequence[Any]:
    """The values that a text of the command line means.

    ``0.1,0.3`` are two numbers, ``0:20`` the whole numbers from 0 to 19, ``0:20:5`` every fifth of them, ``[1,2],[3]``
    two lists, ``mnist,digits`` two texts. A text with a comma or colon in it, or one that looks like a number, is
    quoted as in Python: ``"'a,b','0:2'"``.
    """
    if span := _RANGE.fullmatch(text):
        if len(text) > 60:
            raise ParameterError(f"{name} = {shown(text)} is not allowed: its numbers are too long.")
        return _range(name, *(int(end) for end in span.groups() if end))
    if _COLONS.fullmatch(text):
        raise ParameterError(
            f"{name} = {shown(text)} is not allowed: a range such as 0:20:5 has whole numbers alone; give others one "
            "by one, with commas, and a text in quotes."
        )
    try:
        whole = ast.literal_eval(f"[{text}]")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        whole = None  # not all of them are Python's; each by itself then
    if isinstance(whole, list):
        return whole
    pieces = text.split(",")
    for piece in pieces:
        if value(piece) is piece and piece.startswith(("[", "(", "{", "'", '"')):
            raise ParameterError(
                f"{name}: {shown(piece)} cannot be read: where there are lists or quotes, quote every text."
            )
    return list(map(value, pieces))


def _axis(name: str, given: Any) -> Sequence[Any]:
    if isinstance(given, dict) and set(given) == {"range"}:
        ends = given["range"]
        if not isinstance(ends, list) or not 2 <= len(ends) <= 3 or not all(type(end) is int for end in ends):
            raise ParameterError(f"{name}: range must be [first, one past the last] or [first, one past, step].")
        return _range(name, *ends)
    return given if isinstance(given, list) else [given]


def _range(name: str, start: int, stop: int, step: int = 1) -> range:
    if step < 1 or stop <= start:
        raise ParameterError(f"{name} has no value: a range must not end before it begins, by steps of at least 1.")
    if (stop - start) // step > MOST:
        raise ParameterError(f"{name} is not allowed: its range has over {MOST} values.")
    return range(start, stop, step)


def _twice(values: Sequence[Any]) -> Any:
    """A value that stands there twice (1 and 1.0 are one, 1 and true are two), or None."""
    if isinstance(values, range):
        return None
    seen = set()
    for entry in values:
        text = json.dumps(float(entry) if type(entry) is int and abs(entry) < 2**53 else entry, sort_keys=True)
        if text in seen:
            return entry
        seen.add(text)
    return None
