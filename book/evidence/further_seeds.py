"""Whether runs lie in the store that differ from a page's runs in their seed alone, and that no page reads.

A number in prose uses the seeds that its plan registers. If further ones of the same setting are kept, a reader who
finds them would ask what they say: so they are in the plan, or shown beside it, and never left unread.
"""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from book.evidence.jobs import Line

TUNING = 1000  # seeds from here on choose settings, and are reported nowhere


class Further(NamedTuple):
    """A setting of which more seeds are kept than are read."""

    experiment: str
    setting: str
    read: tuple[int, ...]
    unread: tuple[int, ...]


def further(lines: Iterable[Line], is_read: Callable[[Line], bool]) -> list[Further]:
    """The settings of which some seeds are read and others are not; those that choose settings aside."""
    seeds: dict[tuple[str, str], tuple[set[int], set[int]]] = {}
    for line in lines:
        job = line["job"]
        if "seed" in job and job["seed"] < TUNING:
            rest = {name: value for name, value in job.items() if name != "seed"}
            setting = json.dumps([line["version"], line["device"], rest], sort_keys=True)
            read, unread = seeds.setdefault((line["experiment"], setting), (set(), set()))
            (read if is_read(line) else unread).add(job["seed"])
    return [
        Further(*setting, tuple(sorted(read)), tuple(sorted(unread - read)))
        for setting, (read, unread) in seeds.items()
        if read and unread - read
    ]
