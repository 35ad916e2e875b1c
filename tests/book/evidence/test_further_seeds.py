"""No page leaves seeds of its own setting unread.

A number in prose uses the seeds that its plan registers. If further ones of the same setting are kept, a reader who
finds them would ask what they say: so they are in the plan, or shown beside it, and never left unread. Runs of a part
that plan "wanted" has registered are kept as they come, and read only once the part is complete; then it is published.
"""

import functools
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from book.evidence import history_log, plans, runs
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


def name(line):
    return f"{line['experiment']} {runs.key_of_line(line)}"


def line(seed, version=1, **job):
    return {"experiment": "toy", "version": version, "device": "cpu", "job": {"seed": seed, **job}}


def seeds_left(lines, read):
    return further(lines, lambda each: each["job"]["seed"] in read)


def test_a_seed_that_is_kept_and_not_read_is_told():
    lines = [line(seed, rate=0.1) for seed in range(5)] + [line(9, rate=0.2)]
    (left,) = seeds_left(lines, {0, 1, 2})
    assert (left.experiment, left.read, left.unread) == ("toy", (0, 1, 2), (3, 4))
    assert seeds_left(lines, {0, 1, 2, 3, 4}) == []  # of the other setting no seed is read: nothing is said of it


def test_another_version_and_seeds_that_choose_settings_are_no_further_ones():
    assert seeds_left([line(0), line(1, version=2), line(1000)], {0}) == []


@functools.cache
def begun():
    """Of each part that plan "wanted" registers, the lines that are kept, and whether they are all of its runs."""
    wanted = [plans.load(study, "wanted") for study in plans.studies() if "wanted" in plans.names(study)]
    return {f"{plan.study}/{part}": plan.look(part) for plan in wanted for part in plan.parts}


def test_a_registered_part_that_is_complete_is_published():
    assert len(begun()) > 5
    assert [part for part, (_, missing) in begun().items() if not missing] == []


def test_no_page_leaves_seeds_unread():
    read = set().union(*history_log._made().values())
    read |= {name(each) for kept, _ in begun().values() for each in kept}
    lines = [each for file in runs.names() for each in runs.lines(file)]
    assert len(lines) > 20_000
    assert further(lines, lambda each: name(each) in read) == []
