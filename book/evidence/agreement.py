"""Whether two results of one job agree: to the bit on a processor, else by how far runs of other seeds lie apart.

Two runs of one job on a GPU may differ in their last digits, and so may one that was trained beside others; a training
diverges from the last digit on. So such results agree where each number is within :data:`TOLERANCE` of the other, or
no farther outside the range of the other seeds than that range is wide, and all else is as in one of these seeds. With
fewer than three seeds there is nothing to judge by: they agree.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from book.evidence.jobs import Line

TOLERANCE = 1e-4
FEWEST = 3  # seeds to judge by
Difference = tuple[tuple, Any, Any]  # path of keys and indices, wanted, found


def differences(wanted: Any, now: Any, tolerance: float = 0.0, path: tuple = ()) -> Iterator[Difference]:
    """Where two plain values differ: (path of keys and indices, wanted, found), in order; ``tolerance`` is relative, of
    numbers, all else must be equal.
    """
    if isinstance(wanted, Mapping) and isinstance(now, Mapping):
        for key in [*wanted, *(key for key in now if key not in wanted)]:
            yield from differences(wanted.get(key), now.get(key), tolerance, (*path, key))
    elif isinstance(wanted, list) and isinstance(now, list) and len(wanted) == len(now):
        for i, (element, other) in enumerate(zip(wanted, now, strict=True)):
            yield from differences(element, other, tolerance, (*path, i))
    elif is_number(wanted) and is_number(now):
        if not math.isclose(wanted, now, rel_tol=tolerance, abs_tol=1e-9 * bool(tolerance)):
            yield path, wanted, now
    elif wanted != now:
        yield path, wanted, now


def exact(line: Line) -> bool:
    """Whether the same job, commit, versions and machine give the same bits: on a processor, not beside others."""
    return line["device"] == "cpu" and "many" not in line["made"]


def disagreement(line: Line, other: Line, known: Sequence[Line]) -> Difference | None:
    """The first difference between the results of two lines of one job that no rule here allows, if any.

    ``known`` are lines of their experiment; those of the same device that differ in seed say how far runs lie apart.
    """
    differing = differences(line["result"], other["result"])
    if exact(line) and exact(other):
        return next(differing, None)
    seeds = of_seeds(line, known)
    return next(
        (difference_ for difference_ in differing if len(seeds) >= FEWEST and not near(difference_, seeds)), None
    )


def of_seeds(line: Line, known: Sequence[Line]) -> list[Line]:
    """Those lines of the same version and device that differ from ``line`` in seed at most."""
    cell = _cell(line)
    return [known_line for known_line in known if known_line["device"] == line["device"] and _cell(known_line) == cell]


def near(difference: Difference, seeds: Sequence[Line]) -> bool:
    """Whether what was found is within the tolerance, no farther from other seeds than these are apart, or, where it is
    no number, the same in one of them; of a list of other length, that length.
    """
    path, wanted, now = difference
    values = [at(seed["result"], path) for seed in seeds]
    if not (is_number(wanted) and is_number(now)):
        return any(_same_kind(now, value) for value in values)
    beside = [value for value in values if is_number(value)] or [wanted]
    apart = max(beside) - min(beside)
    return math.isclose(wanted, now, rel_tol=TOLERANCE) or min(beside) - apart <= now <= max(beside) + apart


def at(value: Any, path: tuple) -> Any:
    """What stands at a path of keys and indices; None where nothing does."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _same_kind(value: Any, other: Any) -> bool:
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other)
    return value == other or (is_number(value) and is_number(other))


def _cell(line: Line) -> tuple[int, dict[str, Any]]:
    return line["version"], {key: value for key, value in line["job"].items() if key != "seed"}
