"""Experiments and their jobs: what a run is called with, in one form, so that one job has one key.

Part of :mod:`book.evidence.runs`, which names it all again.
"""

import functools
import hashlib
import inspect
import json
import math
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from dplib import checks
from dplib.checks import ParameterError
from dplib.data import registry

Job = Mapping[str, Any]
Result = dict[str, Any]
Line = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """What :func:`experiment` says of a function: the name of its file in ``book/runs``; a version that rises when the
    distribution of the results changes; names of the arguments that name data sets; and a probe, a job on embedded data
    that takes about a second and shows a change behind an unraised version. ``work`` tells of a job how much there is
    to do (:class:`dplib.devices.Work`); a page's "auto" leaves an experiment without it on the processor. ``together``
    makes the runs of many jobs side by side, which a GPU does in little more time than one.
    """

    name: str
    version: int
    data: tuple[str, ...]
    probe: Mapping[str, Any]
    work: Callable[[Job], Any] | None = None
    together: "Together | None" = None


class Together(typing.NamedTuple):
    """Runs of one experiment made side by side.

    Args:
        alike: of a job, with all its arguments: what must be equal of those that go side by side; None for one that has
            to be made alone.
        results: of jobs that are alike, on a device, in their order; what each would come to alone, but for rounding
            and the draws of a GPU.
    """

    alike: Callable[[Job], str | None]
    results: Callable[[Sequence[Job], str], list[Result]]


def experiment(
    name: str,
    *,
    version: int,
    probe: Job,
    data: Sequence[str] = (),
    work: Callable[[Job], Any] | None = None,
    together: Together | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declare a function of a module an experiment. All of its randomness must come from its job.

    Its arguments are keyword-only, with plain values and annotated with their types; an argument ``device`` ("cpu" or
    "cuda") is not part of the job. For the other arguments see :class:`Experiment`.
    """

    def declare(function: Callable[..., Result]) -> Callable[..., Result]:
        function.experiment = Experiment(name, version, tuple(data), dict(probe), work, together)
        return function

    return declare


def job_of(function: Callable[..., Result], job: Job) -> dict[str, Any]:
    """A job in its one form: all arguments, with defaults filled in and numbers as the signature types them;
    infinities are texts, which JSON can hold. ParameterError for an argument that is not there or missing, or a value
    that is not plain.
    """
    name, (signature, types_), usual = function.experiment.name, _signature(function), _usual(function)
    checks.check_names(job, signature, f"experiment {name}")
    if missing := [key for key in signature if key not in usual and key not in job]:
        raise ParameterError(f"{name}: {missing[0]} is missing from the job {dict(job)!r}.")
    full = usual | {key: _typed(f"{name}: {key}", value, types_.get(key)) for key, value in job.items()}
    return {key: full[key] for key in sorted(full)}


def changed(function: Callable[..., Result], job: Job) -> dict[str, Any]:
    """What a job says beside the experiment's defaults: the short form for people."""
    full, usual = job_of(function, job), _usual(function)
    return {key: value for key, value in full.items() if key not in usual or usual[key] != value}


def as_called(value: Any) -> Any:
    """A job, or a value of it, as the function takes it: infinities are numbers again."""
    if isinstance(value, dict):
        return {key: as_called(element) for key, element in value.items()}
    if isinstance(value, list):
        return [as_called(element) for element in value]
    return float(value) if value in ("inf", "-inf") else value


def identity(function: Callable[..., Result], job: Job, device: str = "cpu") -> Line:
    """What the key of a run is made of: experiment, version, job, data, device."""
    about, full = function.experiment, job_of(function, job)
    sets = [value for key in about.data for value in _flat(full[key])]
    data = {name: checksum(name) for name in sorted(set(sets))}
    return {"experiment": about.name, "version": about.version, "job": full, "data": data, "device": device}


def checksum(dataset: str) -> str:
    """What stands for the content of a data set in a key: of the registry, so that no data are needed."""
    if dataset.startswith("synthetic-"):  # drawn by the code
        return "synthetic"
    return _checksum(registry.entry(dataset))


@functools.cache
def _checksum(entry: registry.Entry) -> str:
    if not entry.files:
        return "embedded"
    text = "".join(f"{file.name} {file.checksum[1] if file.checksum else ''}\n" for file in entry.files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def key_of(function: Callable[..., Result], job: Job, device: str = "cpu") -> str:
    """The key of a run within its experiment's file."""
    return key_of_line(identity(function, job, device))


def key_of_line(line: Line) -> str:
    """The key of a line within its experiment's file."""
    # The job first: a file is sorted by it.
    return json.dumps([line["job"], line["version"], line["data"], line["device"]], sort_keys=True)


def to_figures(number: float, figures: int) -> float:
    """A number to so many significant digits: what a result keeps, where a second machine would give others."""
    return float(f"{float(number):.{figures}g}")


def as_text(line: Line) -> str:
    """A line as its file has it; ParameterError where it holds what is not plain or finite."""
    try:
        return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{line['experiment']}: a result must hold plain finite values or None ({error})."
        ) from None


def parsed(text: str) -> tuple[str, Line]:
    """Key and line of a text; an error of DAMAGE where it is none."""
    line = json.loads(text)
    line["result"].items(), line["made"]["seconds"], line["made"]["processor_seconds"]  # a line without these is no run
    return key_of_line(line), line


class Lines(Mapping[str, bytes]):
    """The texts of a file's lines by key. Of each it has the place, not the text, and reads that when it is asked for:
    a hundred thousand runs take as much memory as they are many, not as much as they hold. The file is the one that was
    open, whoever puts another in its place.
    """

    def __init__(self, file: BinaryIO | None = None):
        self._file = file
        self._places: dict[bytes, int] = {}  # 16 bytes of the key's SHA-256 to where the line begins, and its length

    def add(self, key: str, begin: int, length: int) -> None:
        """Note where the line of a key is."""
        self._places[_short(key)] = begin << 32 | length

    def __getitem__(self, key: str) -> bytes:
        return self._text(self._places[_short(key)])

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return (parsed(text.decode())[0] for text in self.texts())

    def texts(self) -> Iterator[bytes]:
        """The lines, in their order."""
        return map(self._text, self._places.values())

    def _text(self, place: int) -> bytes:
        return os.pread(self._file.fileno(), place & 0xFFFFFFFF, place >> 32)


def _short(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:16]


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from _flat(element)


@functools.cache
def _signature(function: Callable[..., Result]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Argument to default, and argument to type; without ``device``."""
    parameters = inspect.signature(function).parameters
    defaults = {name: p.default for name, p in parameters.items() if name != "device"}
    return defaults, typing.get_type_hints(function)


@functools.cache
def _usual(function: Callable[..., Result]) -> dict[str, Any]:
    """The defaults of an experiment, as a job holds them."""
    signature, types_ = _signature(function)
    given = {key: default for key, default in signature.items() if default is not inspect.Parameter.empty}
    return {
        key: _typed(f"{function.experiment.name}: {key}", argument, types_.get(key)) for key, argument in given.items()
    }


@functools.cache
def _options(type_: Any) -> tuple:
    """What an annotation allows: the members of a union, else itself."""
    return typing.get_args(type_) if typing.get_origin(type_) in (types.UnionType, typing.Union) else (type_,)


def _typed(where: str, value: Any, type_: Any) -> Any:
    """A value as JSON holds it, with numbers as the annotation has them: 1 and 1.0 are one."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    options = _options(type_)
    if (
        isinstance(value, str)
        and (int in options or float in options)
        and str not in options
        and value not in ("inf", "-inf")
    ):
        # YAML reads 1e-5 as a text; its number is 1.0e-5.
        raise ParameterError(f"{where} = {value!r} is not allowed: it must be a number.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        if isinstance(value, float) and math.isnan(value):
            raise ParameterError(f"{where} = nan is not allowed: a job holds plain values.")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ParameterError(f"{where} = {checks.shown(value)} is not allowed: a whole number is below 2^63.")
        if float in options and int not in options:
            value = float(value)
        elif int in options and float not in options and float(value).is_integer():
            value = int(value)
        return str(value) if isinstance(value, float) and math.isinf(value) else value
    inner = next((args for option in options if (args := typing.get_args(option))), (None,))
    if isinstance(value, list | tuple):
        return [_typed(where, element, inner[0]) for element in value]
    if isinstance(value, Mapping):
        return {str(key): _typed(where, element, inner[-1]) for key, element in sorted(value.items())}
    raise ParameterError(f"{where} = {value!r} is not allowed: a job holds plain values.")
