"""Where a number of a page comes from, and what else a row of the ledger leads to: every place as file and line.

From a number of a chapter to the sentence, from there to the rows that the sentence names, and from a row to its rule,
to the functions that make its values, to the parts of the plan and the experiments behind these, and to the tests.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from book.evidence import claims, plans, reads, runs, sources
from book.evidence.claims import CLAIMS, Claim
from book.evidence.execution import EXECUTED
from book.evidence.places import ROOT
from book.press import boxes
from dplib.checks import ParameterError, shown

ASIDE = ROOT / "book"  # its functions read runs and records, and make no value


def lines(of: str, number: str = "") -> Iterator[str]:
    """What a row leads to, or a number of a chapter, a line each.

    Args:
        of: the id of a row, or a chapter, by name or number.
        number: as it is typed in the chapter.

    Raises:
        ParameterError: for a row or a chapter that is not there, a number that the chapter does not have, or one beside
            a row.
    """
    if re.match(r"[A-Z]\.", of):
        if number:
            raise ParameterError(f"number = {number!r} is not allowed beside a row: it must be one of a chapter.")
        yield from _of_row(claims.get(of))
        return
    try:
        chapter = sources.resolve(of)
    except ParameterError:
        raise ParameterError(
            f"{shown(of)} is neither a row of the ledger, such as D.fig1, nor a chapter, such as 11: `python -m book "
            "chapters` lists these."
        ) from None
    yield from _of_number(chapter, number)


def _of_number(chapter: str, number: str) -> Iterator[str]:
    """The sentences of a chapter with a number, the rows that they name, and which of their values it is."""
    path = sources.source(chapter)
    if not number:
        raise ParameterError(f"{chapter} is a chapter: give a number as it stands there, too, such as `11 0.093`.")
    source = path.read_text(encoding="utf-8").splitlines()
    typed = re.compile(rf"(?<![\w.,]){re.escape(number)}(?!\w|[.,]\d)")
    places = [place for place, line in enumerate(source) if typed.search(line)]
    if not places:
        raise ParameterError(f"number = {number!r} is not allowed: {path.name} does not have it.")
    executed = EXECUTED / path.with_suffix(".ipynb").name
    records = claims.records(nbformat.read(executed, as_version=4)) if executed.exists() else None
    for place in places:
        sentence = next(part for part in re.split(r"(?<=[.:?]) ", source[place]) if typed.search(part))
        yield f"{_at(path, place + 1)}: {sentence.strip()}"
        rows = _rows_above(source, place)
        if not rows:
            yield "  It names no row: it is typed, stands in print, or belongs to the cell beside it."
        for row in rows:
            if records is None:
                yield f"  {row} (which of its values, an executed chapter knows: python -m book run {chapter})"
            elif values := [name for name, value in records[row]["values"].items() if _has(value, number)]:
                yield f"  {row}, {', '.join(values)}"
            else:
                continue
            yield from (f"    {line}" for line in _of_row(claims.get(row)))


def _has(value: Any, number: str) -> bool:
    """Whether a number is a value, or an end of its interval."""
    return any(boxes.agrees(number, known) for known in boxes.numbers(value))


def _rows_above(source: Sequence[str], place: int) -> list[str]:
    """The rows named above the paragraph in which a line stands."""
    while place >= 0 and source[place].strip():
        if source[place].startswith("% rows: "):
            return [row.strip() for row in source[place].removeprefix("% rows: ").split(",")]
        place -= 1
    return []


def _of_row(claim: Claim) -> Iterator[str]:
    """Statement, rule, record, functions, parts, runs and tests of a row."""
    yield f"{claim.id}: {claim.statement}"
    yield from _told("rule", [*_naming(CLAIMS / f"{claim.paper}.yml", claim), *_naming(CLAIMS / "made_up.yml", claim)])
    yield from _told("recorded", _naming(sources.source(claim.chapter), claim))
    functions = [
        (path, function)
        for path, function in reads.functions(claim.chapter, claim.id)
        if not path.is_relative_to(ASIDE)
    ]
    yield from _told("values", (_function(path, function) for path, function in functions))
    known = {study: list(plans.load(study).parts) for study in plans.studies()}
    experiments: dict[str, None] = {}
    for study, name in reads.parts(claim.chapter, claim.id, known):
        part = plans.load(study).parts[name]
        yield from _told(f"part {name}", [_in_plan(study, name), _defined(part.function)])
        experiments |= {
            line["experiment"]: None for line in plans.Plan(study, claims.PUBLISHED, {name: part}).reached()
        }
    modules = {path.stem for path, _ in functions if "papers" in path.parts}
    for name in experiments:
        experiment = plans.experiments()[name]
        modules |= {experiment.__module__.rpartition(".")[2]}
        yield from _told("experiment", [_defined(experiment), _at(runs.KEPT / f"{name}.jsonl")])
    yield from _told("tests", map(_at, _tests(modules)))


def _tests(modules: Iterable[str]) -> list[Path]:
    """The tests that name one of some modules."""
    named = re.compile(r"\b(?:{})\b".format("|".join(modules) or "$^"))
    files = sorted((ROOT / "tests" / "papers").rglob("test_*.py"))
    return [path for path in files if named.search(path.read_text(encoding="utf-8"))]


def _told(what: str, places: Iterable[str]) -> Iterator[str]:
    if shown := ", ".join(dict.fromkeys(places)):
        yield f"  {what}: {shown}"


def _at(path: Path, line: int | None = None) -> str:
    """A file from the repository's folder, and the line, as editors and terminals open it."""
    shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    return f"{shown}:{line}" if line else shown


def _naming(path: Path, claim: Claim) -> list[str]:
    """The lines of a file with the id of a row, in a table or by an f-string its last part."""
    text = path.read_text(encoding="utf-8").splitlines()
    for id_ in (claim.id, claim.id.rpartition(".")[2]):
        ends = re.compile(rf"(?<![\w.-]){re.escape(id_)}(?![\w-]|\.\w)")
        places = [place for place, line in enumerate(text, 1) if ends.search(line) and not line.startswith("% rows")]
        if places:
            return [_at(path, places[0])]
    return []


def _function(path: Path, function: ast.FunctionDef) -> str:
    """A function by name; where it stands in a chapter, its line is not that of the source."""
    return f"{_at(path, function.lineno if path.suffix == '.py' else None)} {function.name}"


def _defined(function: Callable[..., Any]) -> str:
    """A function, or the experiment that a part repeats over seeds."""
    function = getattr(function, "keywords", {}).get("function", function)
    function = inspect.unwrap(function)
    return f"{_at(Path(inspect.getsourcefile(function)), function.__code__.co_firstlineno)} {function.__name__}"


def _in_plan(study: str, part: str) -> str:
    """Where a plan asks for a part: the last, as that of "published" stands behind quick ones."""
    path = plans.PLANS / f"{study}.yml"
    text = path.read_text(encoding="utf-8").splitlines()
    places = [place for place, line in enumerate(text, 1) if line.startswith(f"  {part}:")]
    return _at(path, places[-1] if places else None)
