"""Whether kept runs can be made again: probes on every machine, whole runs to the bit where they were made.

A training parts ways on another processor after some hundred steps. So a probe is short and compared with a tolerance:
it shows a constant, a random stream or an algorithm that changed behind an unraised version. Whole runs are equal to
the bit at their own commit; at another one a change of rounding may have come between.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from dplib import files, plans, runs
from dplib.checks import ParameterError

TOLERANCE = 1e-4
PLACE = ("capability", "versions", "threads")  # where these and the commit are the same, so is every bit


class Probe(TypedDict):
    """A probe as it is stored."""

    version: int
    job: dict[str, Any]
    result: dict[str, Any]


def differences(wanted: Any, found: Any, tolerance: float = 0.0, path: tuple = ()) -> Iterator[tuple[tuple, Any, Any]]:
    """Where two plain values differ: (path of keys and indices, wanted, found), in order; ``tolerance`` is relative, of
    numbers, all else must be equal.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            yield from differences(wanted.get(key), found.get(key), tolerance, (*path, key))
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, tolerance, (*path, i))
    elif _number(wanted) and _number(found):
        if not math.isclose(wanted, found, rel_tol=tolerance, abs_tol=1e-9 * bool(tolerance)):
            yield path, wanted, found
    elif wanted != found:
        yield path, wanted, found


def probes() -> dict[str, Probe]:
    """The probe of every experiment, made now."""
    made = {name: runs.made(function, function.experiment.probe) for name, function in plans.experiments().items()}
    return {name: {key: made[name][key] for key in ("version", "job", "result")} for name in sorted(made)}


def probes_file() -> Path:
    """Where the results of the probes are kept."""
    return runs.KEPT / "probes.json"


def stored_probes() -> dict[str, Probe]:
    """The probes as they were stored; StoreError where the file is something else."""
    try:
        return files.checked(probes_file(), dict[str, Probe]) if probes_file().exists() else {}
    except ParameterError as error:
        raise runs.StoreError(f"{error} It is damaged: `python -m dplib runs probe --write` writes it anew.") from None


def write_probes(found: Mapping[str, Probe]) -> None:
    """Store the results of the probes."""
    runs.KEPT.mkdir(parents=True, exist_ok=True)
    files.publish(probes_file(), json.dumps(found, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def changes(stored: Mapping[str, Probe], found: Mapping[str, Probe]) -> list[str]:
    """Experiments whose probe is not what was stored, a sentence each with the first field that differs."""
    told = [f"{name} is stored and no plan's module has it." for name in stored if name not in found]
    for name, now in found.items():
        then = stored.get(name)
        if then is None or (then["version"], then["job"]) != (now["version"], now["job"]):
            told.append(f"{name}: the probe of this version is not stored: `python -m dplib runs probe --write`.")
        elif first := next(differences(then["result"], now["result"], TOLERANCE), None):
            told.append(f"{name}: {said(first)}. What it computes has changed: raise its version, or mend it.")
    return told


def said(difference: tuple[tuple, Any, Any]) -> str:
    """A difference in words."""
    path, wanted, found = difference
    return f"{'.'.join(map(str, path))} was {_short(wanted)} and is {_short(found)}"


def sample(lines: Sequence[runs.Line], count: int, most_seconds: float, seed: int) -> list[runs.Line]:
    """Up to ``count`` random lines that took ``most_seconds`` in all: of each experiment in turn, rather cheap ones."""
    drawn: list[runs.Line] = []
    own: dict[str, list[runs.Line]] = {}
    for i in np.random.default_rng(seed).permutation(len(lines)):
        own.setdefault(lines[i]["experiment"], []).append(lines[i])
    for one in filter(None, itertools.chain(*itertools.zip_longest(*own.values()))):
        if len(drawn) < count and one["made"]["seconds"] <= most_seconds:
            drawn.append(one)
            most_seconds -= one["made"]["seconds"]
    return drawn


def replayed(line: runs.Line, known: Sequence[runs.Line]) -> tuple[bool, str]:
    """Make a stored run again, on one thread: whether it is what it has to be here, and what it is in words.

    ``known`` are lines of its experiment; elsewhere a difference stands beside the spread of those that differ in seed.
    """
    runs.one_thread()
    now = runs.made(plans.experiments()[line["experiment"]], runs.as_called(line["job"]), line["device"])
    found = list(differences(line["result"], now["result"]))
    if not found:
        return True, "equal to the bit"
    elsewhere = [name for name in PLACE if line["made"].get(name) != now["made"][name]]
    if not elsewhere:
        wrong = [one for one in found if line["made"]["commit"] == now["made"]["commit"] or not _near(one, line, known)]
        return not wrong, said(wrong[0]) if wrong else f"made at another commit: {said(found[0])}, as other seeds do"
    text = f"made with another {' and '.join(elsewhere)}"
    for one in found:
        if _number(one[1]) and _number(one[2]) and (beside := _of_other_seeds(line, known, one[0])):
            return True, f"{text}: {said(one)}; over {len(beside)} seeds {min(beside):.6g} to {max(beside):.6g}"
    return True, f"{text}: {said(found[0])}"


def _near(difference: tuple[tuple, Any, Any], line: runs.Line, known: Sequence[runs.Line]) -> bool:
    """Whether a change of rounding since the run's commit may be behind it: a training diverges from the last digit on.

    So where it is within the probes' tolerance, or no farther from the other seeds than these are apart.
    """
    path, then, now = difference
    if not (_number(then) and _number(now)):
        return False
    beside = _of_other_seeds(line, known, path) or [then]
    apart = max(beside) - min(beside)
    return math.isclose(then, now, rel_tol=TOLERANCE) or min(beside) - apart <= now <= max(beside) + apart


def _of_other_seeds(line: runs.Line, known: Sequence[runs.Line], path: tuple) -> list[float]:
    def cell(one: runs.Line) -> dict[str, Any]:
        return {key: value for key, value in one["job"].items() if key != "seed"}

    values = [_at(one["result"], path) for one in known if cell(one) == cell(line)]
    return [value for value in values if _number(value)]


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
