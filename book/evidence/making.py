"""Make the missing runs of plans on this machine: in their order, within a time, and as one of several shares.

What is stored is known by :mod:`book.evidence.runs`, what is missing by :mod:`book.evidence.plans`; nothing is kept
here.
"""

import hashlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from book.evidence import plans, runs
from book.evidence.plans import Plan, Wanted, shown
from dplib import checks
from dplib.checks import ParameterError

ROOM = 1.2  # an estimate is no promise: a run is begun where so many times of it are left
UNKNOWN = 0.5  # of the limit: a run of unknown length is begun where so much is left


class Shard(NamedTuple):
    """One of ``count`` shares of all runs, ``number`` from 1 on. Which share has a run is in its key, so that shares
    know nothing of each other: they are disjoint, and together they are all.
    """

    number: int
    count: int

    def has(self, wanted: Wanted) -> bool:
        """Whether this share has a run."""
        key = runs.key_of(*wanted)
        return int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) % self.count == self.number - 1


ALL = Shard(1, 1)


def make(
    wanted: Sequence[Plan],
    *,
    workers: int = 1,
    limit: float | None = None,
    shard: Shard = ALL,
    said: Callable[[str], None] = print,
) -> int:
    """Make the missing runs of plans in their order, each filed as it comes; how many are still missing, at least.

    A run whose data are not here stops those on the same data alone; all others are made.

    Args:
        limit: seconds. No run is begun that by :func:`estimates` may end after them, nor one of unknown length in their
            second half; what runs then is ended. shard: the share of the runs that is made here.

    Raises:
        RunFailed: where runs failed or their data are not here; all others are made first.
        ParameterError: where runs are to be made on a GPU and this machine has none.
    """
    checks.integer(1).check("workers", workers)
    _check_gpu(wanted)
    making = _Making(wanted, shard, math.inf if limit is None else limit, said)
    with runs.workers(workers) as processes:
        while True:
            making.look(processes.busy)
            while len(processes.busy) < workers and (run := making.next()):
                processes.begin(run)
            if not processes.busy:
                break
            for run, outcome in processes.ended(making.left()):
                making.settle(Wanted(*run), outcome, workers)
            if making.left() <= 0:
                for run in processes.stop():
                    said(f"ENDED by the limit, and not kept: {shown(Wanted(*run))}")
    making.check()
    return len(plans.missing(wanted))


def make_together(wanted: Sequence[Plan], *, most: int, shard: Shard = ALL, said: Callable[[str], None] = print) -> int:
    """Make the missing runs of plans that can go side by side, up to ``most`` at once, in this process, and each group
    filed as it comes; how many were made. The others are left for :func:`make`.

    Raises:
        RunFailed: where runs failed; all others are made first.
        ParameterError: where runs are to be made on a GPU and this machine has none.
    """
    checks.integer(2).check("side-by-side", most)
    _check_gpu(wanted)
    failed: dict[str, tuple[Wanted, str]] = {}
    made = 0
    while group := _group(wanted, shard, failed, most):
        function, _, device = group[0]
        outcome = runs.compute_together(function, [run.job for run in group], device)
        if isinstance(outcome, tuple):
            failed |= {repr(run): (run, str(outcome[1])) for run in group}
            said(f"FAILED {len(group)} side by side, the first: {shown(group[0])}: {outcome[1]}")
            if isinstance(outcome[1], runs.GPUFailed):  # so would all others in this process
                raise outcome[1]
        else:
            made += len(group)
            took = sum(line["made"]["seconds"] for line in outcome)
            said(f"{took:7.0f} s  {len(group)} side by side, the first: {shown(group[0])}")
    if failed:
        run, why = next(iter(failed.values()))
        raise runs.RunFailed(f"{len(failed)} run(s) failed; the first: {shown(run)}: {why}")
    return made


def _group(wanted: Sequence[Plan], shard: Shard, failed: Collection[str], most: int) -> list[Wanted]:
    """The first missing run that can go side by side, and those that are alike."""
    groups: dict[tuple, list[Wanted]] = {}
    for run in plans.missing(wanted):
        together = run.function.experiment.together
        alike = together.alike(runs.as_called(run.job)) if together else None
        if alike is not None and repr(run) not in failed and shard.has(run):
            groups.setdefault((run.function.experiment.name, run.device, alike), []).append(run)
    return next(iter(groups.values()), [])[:most]


class _Making:
    """What is to be made, and what became of it."""

    def __init__(self, wanted: Sequence[Plan], shard: Shard, limit: float, said: Callable[[str], None]):
        self.wanted, self.shard, self.limit, self.said = wanted, shard, limit, said
        self.end = time.monotonic() + limit
        self.todo: list[Wanted] = []
        self.seconds: list[float | None] = []
        self.looked, self.took = -math.inf, 0.0
        self.failed: list[tuple[Wanted, str]] = []
        self.absent: dict[frozenset[str], str] = {}  # data sets that are not here, and why
        self.skipped: dict[str, frozenset[str]] = {}

    def left(self) -> float:
        return self.end - time.monotonic()

    def look(self, busy: Sequence[tuple]) -> None:
        """See what is missing. With thousands of short runs the look must not take longer than they do."""
        if self.todo and time.monotonic() - self.looked <= 20 * self.took:
            return
        begun = time.monotonic()
        away = {repr(run) for run in [*map(Wanted._make, busy), *(run for run, _ in self.failed)]}
        missing = [run for run in plans.missing(self.wanted) if repr(run) not in away and self.shard.has(run)]
        self.todo = [run for run in missing if not self._is_skipped(run)]
        self.seconds = estimates(self.todo)
        self.looked = time.monotonic()
        self.took = self.looked - begun

    def next(self) -> Wanted | None:
        """The first run that may be begun now, if any."""
        left = self.left()
        while left > 0:
            fits = (i for i, spent in enumerate(self.seconds) if self._needs(spent) <= left)
            if (at := next(fits, None)) is None:
                return None
            run, _ = self.todo.pop(at), self.seconds.pop(at)
            if not self._is_skipped(run):
                return run
        return None

    def _needs(self, seconds: float | None) -> float:
        if math.isinf(self.limit):
            return 0.0
        return UNKNOWN * self.limit if seconds is None else ROOM * seconds

    def settle(self, run: Wanted, outcome: runs.Line | tuple | int, workers: int) -> None:
        """Note what a run came to: a line, a job and its error, or the exit status of its process."""
        if isinstance(outcome, dict):
            took = outcome["made"]["seconds"]
            self.said(f"{took:7.0f} s  {shown(run)}; {left(self.seconds, workers)}")
            return
        error = runs.died(outcome) if isinstance(outcome, int) else outcome[1]
        if type(error).__name__ == "DataError" and (data := _data(run)):
            self.absent[data] = str(error)
            self._is_skipped(run)
        else:
            self.failed.append((run, str(error)))
        self.said(f"FAILED {shown(run)}: {error}")

    def _is_skipped(self, run: Wanted) -> bool:
        """Whether a run's data are not here."""
        data = _data(run) if self.absent else frozenset()
        if away := next((sets for sets in self.absent if sets <= data), None):
            self.skipped[repr(run)] = away
        return bool(away)

    def check(self) -> None:
        """RunFailed where runs failed, or were left out for their data."""
        sentences = []
        if self.failed:
            run, why = self.failed[0]
            sentences.append(f"{len(self.failed)} run(s) failed; the first: {shown(run)}: {why}")
        for sets, count in Counter(self.skipped.values()).items():
            sentences.append(f"{count} run(s) without their data, {', '.join(sorted(sets))}: {self.absent[sets]}")
        if sentences:
            raise runs.RunFailed(" ".join(sentences))


def _data(run: Wanted) -> frozenset[str]:
    """The data sets of a run."""
    return frozenset(runs.identity(*run)["data"])


def _check_gpu(wanted: Sequence[Plan]) -> None:
    # A part whose first runs are there asks for the others with them: nothing on a GPU can turn up later.
    waiting = [plan for plan in wanted if any(part.device == "cuda" for part in plan.parts.values())]
    asking = [run for run in plans.missing(waiting) if run.device == "cuda"]
    if asking and not runs.has("cuda"):
        raise ParameterError(
            f"{len(asking)} run(s) are planned with gpus: 1, and this machine has no GPU: send them to one that has "
            f"(book/cluster/array.sbatch), or take gpus out of the plan. The first is {shown(asking[0])}."
        )


def left(seconds: Sequence[float | None], workers: int) -> str:
    """How many runs wait, and how long they take by :func:`estimates`."""
    known = [second for second in seconds if second is not None]
    more = f", about {sum(known) / 60 / workers:.0f} min" if known else ""
    return f"at least {len(seconds)} to go{more}"


def estimates(todo: Sequence[Wanted]) -> list[float | None]:
    """Seconds that each run may take, by the stored ones that are most like it: those that differ in seed and trace
    only, or those of its texts (data set, scheme), or all; on the same kind of device. None where there is none.
    """
    seconds: list[float | None] = [None] * len(todo)
    for name in dict.fromkeys(run.function.experiment.name for run in todo):  # one at a time: a file may be large
        spent = [_spent(line) for line in itertools.chain(runs.each(name), runs.filed(name))]
        means: dict[tuple, dict[str, float]] = {}  # by some arguments: their values to the mean
        for i, (function, job, device) in enumerate(todo):
            if function.experiment.name != name:
                continue
            texts = sorted(key for key, value in job.items() if isinstance(value, str))
            for keys in map(tuple, (sorted(set(job) - {"seed", "trace"}), texts, ())):
                if keys not in means:
                    means[keys] = _means(spent, keys)
                if (mean := means[keys].get(_cell(device, job, keys))) is not None:
                    seconds[i] = mean
                    break
    return seconds


def _spent(line: runs.Line) -> tuple[str, dict, float]:
    return line["device"], line["job"], line["made"]["seconds" if line["device"] == "cuda" else "processor_seconds"]


def _means(spent: Sequence[tuple[str, dict, float]], keys: Sequence[str]) -> dict[str, float]:
    """Mean seconds of the runs that are alike in device and some arguments."""
    cells: dict[str, list[float]] = {}
    for device, job, seconds in spent:
        cells.setdefault(_cell(device, job, keys), []).append(seconds)
    return {cell: sum(took) / len(took) for cell, took in cells.items()}


def _cell(device: str, job: runs.Job, keys: Sequence[str]) -> str:
    return repr((device, *map(job.get, keys)))
