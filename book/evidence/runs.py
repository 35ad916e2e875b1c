"""Kept runs: one line for each call of an experiment, in ``book/runs``; whatever a page says is computed from them.

A *run* is a call ``function(**job)`` of an experiment with plain values that returns plain values. A line has the job,
the result, the checksums of the data, and where and when the run was made. Its *key* is the experiment's name and
version, the job, the data and the kind of device: not the source text, so that a docstring or a moved module throws no
run away. An experiment's version rises when the distribution of its results changes.

``read`` never computes, and needs no data; ``make`` computes what is missing. A new run goes to ``_build/store``, a
file of its own that appears whole or not at all; ``keep`` folds these files into ``book/runs``, where what they were
made on is said once (:mod:`book.evidence.machines`).
"""

import contextlib
import datetime
import functools
import hashlib
import inspect
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from book.evidence import agreement, execution, jobs, machines, places
from book.evidence.jobs import Experiment as Experiment
from book.evidence.jobs import Job, Line, Result, as_called, as_text, changed, job_of, key_of, key_of_line, parsed
from book.evidence.jobs import Together as Together
from book.evidence.jobs import experiment as experiment
from book.evidence.jobs import identity as identity
from book.evidence.jobs import to_figures as to_figures
from book.evidence.workers import Workers, one_thread
from dplib import checks
from dplib.checks import ParameterError
from dplib.files import check_room, locked, publish

KEPT = places.RUNS
STORE = places.ROOT / "_build" / "store"

UNNAMED = ("", "unknown")  # commits of runs that are not published
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # of a text that is no line


class StoreError(RuntimeError):
    """A file of runs is damaged, or two runs of one key differ; the message names the file and the line."""


class MissingRuns(LookupError):
    """Runs that were asked for are in no store: ``jobs`` of the experiment ``function``, in order; ``makes``: the
    command that makes them, where it is known.
    """

    def __init__(self, function: Callable[..., Result], jobs: Sequence[Job], makes: str = ""):
        self.function, self.jobs = function, list(jobs)
        shown = json.dumps(changed(function, jobs[0]))
        super().__init__(
            f"{len(jobs)} run(s) of {function.experiment.name} are not stored; the first is {shown}. "
            + (f"`{makes}` makes them." if makes else "`python -m book runs make` makes those of a plan.")
        )


class RunFailed(RuntimeError):
    """Some runs raised an error; the others are kept. The message names a job that failed, and why."""


class GPUFailed(RunFailed):
    """A GPU failed under a run, and fails for good in its process, whatever that runs next."""


SAID = (MissingRuns, RunFailed, StoreError)  # errors of this module, whose messages are sentences


def read(function: Callable[..., Result], jobs: Sequence[Job], *, device: str = "cpu") -> list[Result]:
    """The stored results of ``function(**job)``, in the order of the jobs, to be read only; nothing is computed.
    MissingRuns where some are not stored, StoreError for a damaged file.
    """
    stored = [line(function, job, device=device) for job in jobs]
    if absent := [job for job, stored_line in zip(jobs, stored, strict=True) if stored_line is None]:
        raise MissingRuns(function, absent)
    return [stored_line["result"] for stored_line in stored]


def make(
    function: Callable[..., Result],
    jobs: Sequence[Job],
    *,
    device: str = "cpu",
    workers: int = 1,
    done: Callable[[Line], None] | None = None,
) -> list[Result]:
    """The results of ``function(**job)`` in the order of the jobs; those that are not stored are made and filed.

    Args:
        workers: processes, each on one thread; with 1 the jobs run in this process. done: told each new line.

    Raises:
        ParameterError: for a job that is not plain, or the first one that a run raised.
        RunFailed: where a run failed otherwise. All other runs are made and kept before it is raised.
    """
    checks.integer(1).check("workers", workers)
    todo = {key_of(function, job, device): job for job in jobs if line(function, job, device=device) is None}
    calls = [(function, job, device) for job in todo.values()]
    failed = []
    for outcome in _in_processes(calls, workers) if min(workers, len(calls)) > 1 else _here(calls):
        if isinstance(outcome, tuple):
            failed.append(outcome)
        elif done:
            done(outcome)
    if failed:
        job, error = next((f for f in failed if isinstance(f[1], ParameterError)), failed[0])
        if isinstance(error, ParameterError):
            raise error
        raise RunFailed(f"{len(failed)} of {len(todo)} runs failed: {job}: {error}")
    return read(function, jobs, device=device)


def _here(calls: Sequence[tuple]) -> Iterator[Line | tuple[Job, Exception]]:
    for call in calls:
        yield (outcome := compute(*call))
        if isinstance(outcome, tuple) and isinstance(outcome[1], GPUFailed):
            return


def _in_processes(calls: Sequence[tuple], most: int) -> Iterator[Line | tuple[Job, Exception]]:
    with workers(most) as processes:
        waiting = list(reversed(calls))
        while waiting or processes.busy:
            while waiting and len(processes.busy) < most:
                processes.begin(waiting.pop())
            for call, outcome in processes.ended():
                yield (call[1], died(outcome)) if isinstance(outcome, int) else outcome


class Maker:
    """What a page gets its reader's runs by: they are read where they are stored, and made where they are not; on a GPU
    with "auto" where there is one, the processor's runs are not stored, and they are large enough to gain by it.
    """

    def __init__(self, device: str, workers: int):
        self.device, self.workers = device, workers
        self._places: list[str] = []
        self._small = False

    def __call__(self, function: Callable[..., Result], jobs: Sequence[Job]) -> list[Result]:
        device = self.device
        if device == "auto":
            missing = [job for job in jobs if not line(function, job)]
            device = "cuda" if missing and has("cuda") and worth_a_gpu(function, missing) else "cpu"
            self._small |= bool(missing) and has("cuda") and device == "cpu"
        results = make(function, jobs, device=device, workers=self.workers)
        for made in (line(function, job, device=device)["made"] for job in jobs):
            self._places.append(f"the GPU {made['gpu']}" if device == "cuda" else f"the processor {made['processor']}")
        return results

    def where(self) -> str:
        """What all of these runs were made on, a sentence for the page."""
        said = f"These runs were made on {' and '.join(dict.fromkeys(self._places))}."
        return f"{said} The GPU was left alone: it gains nothing on runs of this size." if self._small else said


def device_rule() -> checks.Rule:
    """What a page's parameter ``device`` may be."""
    return checks.Rule(
        "auto or cpu, or cuda where PyTorch sees a GPU",
        lambda v: v in ("auto", "cpu") or (v == "cuda" and has("cuda")),
    )


def workers(most: int) -> Workers:
    """Up to ``most`` processes for runs, each on one thread, that file where this process does: their calls are those
    of :func:`compute`, and so are their outcomes.
    """
    return Workers(most, _compute, settle, (KEPT, STORE))


def died(status: int) -> RunFailed:
    """What to say of a run whose process was killed; raised where it ended by itself, as the next one would."""
    if status >= 0:
        raise RunFailed(f"a worker process ended with status {status}, see above; finished runs are filed.")
    return RunFailed("a worker process was killed, perhaps for its memory")


def _compute(*call: Any) -> tuple[Line | tuple[Job, Exception], bool]:
    outcome = compute(*call)
    return outcome, not (isinstance(outcome, tuple) and isinstance(outcome[1], GPUFailed))


def settle(kept: Path, store: Path) -> None:
    """Let this process make runs for another one: they are kept and filed where that one says, on one thread."""
    global KEPT, STORE
    KEPT, STORE = kept, store
    one_thread()


def has(device: str) -> bool:
    """Whether this machine can make runs on "cpu" or "cuda"."""
    if device == "cpu":
        return True
    import torch

    return torch.cuda.is_available()


def compute(function: Callable[..., Result], job: Job, device: str = "cpu") -> Line | tuple[Job, Exception]:
    """Make one run and file it in one step; its line, or the job and a ParameterError or RunFailed.

    Another process that makes the same run at the same time is waited for, and its line is taken.
    """
    try:
        path = _path(function, job, device)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock := path.with_suffix(".lock"), blocking=True):
            try:
                if known := line(function, job, device=device):
                    return known
                check_room(path.parent)  # a run of hours on a full disk would be lost at its end
                publish(path, as_text(run := made(function, job, device)))
                return run
            finally:
                lock.unlink(missing_ok=True)
    except Exception as error:  # one run must not take the others with it
        if isinstance(error, ParameterError) and not gpu_failed(error):
            return dict(job), error
        # By its text: not every exception can be sent from a worker.
        return dict(job), (GPUFailed if gpu_failed(error) else RunFailed)(f"{type(error).__name__}: {error}")


def compute_together(
    function: Callable[..., Result], jobs: Sequence[Job], device: str = "cuda"
) -> list[Line] | tuple[Job, Exception]:
    """Make runs of jobs that are alike side by side (:class:`Together`), and file them; their lines, or the first job
    and what went wrong. Nothing is filed of jobs that another process filed meanwhile.
    """
    from dplib import devices

    try:
        full = [job_of(function, job) for job in jobs]
        (STORE / function.experiment.name).mkdir(parents=True, exist_ok=True)
        check_room(STORE / function.experiment.name)
        with devices.whole_float32():
            start, worked = time.perf_counter(), time.process_time()
            results = function.experiment.together.results([as_called(job) for job in full], device)
            shares = [
                (clock - begun) / len(jobs)
                for clock, begun in ((time.perf_counter(), start), (time.process_time(), worked))
            ]
        made_ = [
            as_line(
                function, job, result, device=device, seconds=shares[0], processor_seconds=shares[1], many=len(jobs)
            )
            for job, result in zip(full, results, strict=True)
        ]
        for new in made_:
            if not line(function, new["job"], device=device):
                file(new)
        return made_
    except Exception as error:
        return dict(jobs[0]), (GPUFailed if gpu_failed(error) else RunFailed)(f"{type(error).__name__}: {error}")


def gpu_failed(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, is of CUDA itself: it comes again at every call of this process. That memory
    did not suffice is no such error.
    """
    of_cuda = isinstance(error, RuntimeError) and re.search("CUDA error|cuDNN error|CUBLAS_STATUS", str(error))
    return bool(of_cuda) or (error is not None and gpu_failed(error.__cause__ or error.__context__))


def line(function: Callable[..., Result], job: Job, *, device: str = "cpu") -> Line | None:
    """The stored line of a run, with "made": where, when and how long; None where there is none."""
    return of_key(function.experiment.name, key_of(function, job, device))


def of_key(name: str, key: str) -> Line | None:
    """The stored line of an experiment that has a key, if there is one."""
    text = _kept(name).get(key)
    filed_ = None if text else _filed(_path_of(name, key))
    if not text and not filed_:  # asked twice: `keep` may move the line between two looks
        text = _kept(name).get(key)
    return machines.whole(json.loads(text), KEPT) if text else filed_


def lines(name: str) -> list[Line]:
    """All lines of an experiment in ``book/runs``, in their order there."""
    return list(each(name))


def each(name: str) -> Iterator[Line]:
    """Those of :func:`lines`, one at a time, for whoever looks at all of a large file."""
    folder, texts = KEPT, _kept(name).texts()
    return (machines.whole(json.loads(text), folder) for text in texts)


def summary(name: str) -> tuple[int, list[str]]:
    """How many lines an experiment has in ``book/runs``, and of which commits; by their texts alone."""
    with (KEPT / f"{name}.jsonl").open("rb") as file:
        commits = [(re.findall(rb'"commit":"([^"]*)"', text) or [b""])[-1].decode() for text in file]
    return len(commits), sorted(set(commits))


def filed(name: str) -> list[Line]:
    """The lines of an experiment that are in ``_build/store`` and not in ``book/runs`` yet."""
    return [filed_line for path in sorted((STORE / name).glob("*.json")) if (filed_line := _filed(path))]


def names() -> list[str]:
    """The experiments that have lines in ``book/runs``."""
    return sorted(path.stem for path in KEPT.glob("*.jsonl"))


def keep() -> dict[str, int]:
    """Fold the files of ``_build/store`` into ``book/runs``; {experiment: new lines}. Equal lines merge.

    Raises StoreError at the end: where a line of one key has another result than the stored one, and nothing of that
    experiment's file is changed; where a line names no commit, and it stays where it is. All others are kept before.
    """
    counts, wrong = {}, []
    for folder in sorted(folder for folder in STORE.glob("*") if folder.is_dir()):
        try:
            counts[folder.name] = _keep(folder)
        except StoreError as error:
            wrong.append(str(error))
    if wrong:
        raise StoreError("\n".join(wrong))
    return {name: count for name, count in counts.items() if count}


def _keep(folder: Path) -> int:
    new = {path: filed_line for path in sorted(folder.glob("*.json")) if (filed_line := _filed(path))}
    unnamed = [path for path, filed_line in new.items() if filed_line["made"].get("commit", "") in UNNAMED]
    for path in unnamed:
        del new[path]
    count = merge(folder.name, new.values())
    with writing(folder):
        for path in new:
            path.unlink(missing_ok=True)
    if unnamed:
        raise StoreError(
            f"{len(unnamed)} run(s) of {folder.name} were made where git could not tell the commit, and are not "
            f"published: they stay in _build/store, where pages find them. The first is {unnamed[0]}."
        )
    return count


def merge(name: str, new: Iterable[Line]) -> int:
    """Add lines to an experiment's file in one step, sorted by the text of their jobs; how many were new. StoreError
    where a line of one key has another result than the stored one.
    """
    with _alone(name):
        stored = lines(name)
        merged = _united(name, [*stored, *new])
        if len(merged) > len(stored):
            _write(name, merged)
        return len(merged) - len(stored)


def remove(name: str, gone: Iterable[Line]) -> None:
    """Take lines out of an experiment's file, in one step."""
    with _alone(name):
        keys = {key_of_line(gone_line) for gone_line in gone}
        _write(name, {key: kept_line for kept_line in lines(name) if (key := key_of_line(kept_line)) not in keys})


def rekey(function: Callable[..., Result]) -> int:
    """Keep what is filed, and give stored runs the arguments that their experiment has got since, with their
    defaults; how many lines changed.

    Raises ParameterError for a stored argument that the experiment has no more, and StoreError where lines that have
    one key from now on differ in their results; nothing is changed then.
    """
    name = function.experiment.name
    if (STORE / name).is_dir():
        _keep(STORE / name)
    with _alone(name):
        old = lines(name)
        new = [{**old_line, "job": job_of(function, as_called(old_line["job"]))} for old_line in old]
        _write(name, _united(name, new))
    return sum(a["job"] != b["job"] for a, b in zip(old, new, strict=True))


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Whoever changes an experiment's file is the only one."""
    with writing(KEPT / f"{name}.jsonl"):
        STORE.mkdir(parents=True, exist_ok=True)
        with locked(STORE / f".{name}.lock", blocking=True):
            yield


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside a file is written: StoreError, where that cannot be, such as on a disk that is full or read-only."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(path)) else ""
        raise StoreError(f"{path} cannot be written: {error.strerror or error}{where}; nothing is lost.") from None


def _united(name: str, all_lines: Iterable[Line]) -> dict[str, Line]:
    """Lines by key; of those that agree the first, with the place and time where it was made."""
    united: dict[str, Line] = {}
    again: list[tuple[str, Line]] = []
    for line_ in all_lines:
        known = united.setdefault(text := key_of_line(line_), line_)
        if known["result"] != line_["result"]:
            again.append((text, line_))
    for text, line_ in again:  # once all seeds are known
        if agreement.disagreement(united[text], line_, list(united.values())):
            raise StoreError(f"{KEPT / name}.jsonl: two runs of one job differ in their results: {text}")
    return united


def _write(name: str, by_key: Mapping[str, Line]) -> None:
    """Write an experiment's file in one step: these lines and no others, sorted by the text of their jobs."""
    KEPT.mkdir(parents=True, exist_ok=True)
    folded = machines.folded((by_key[key] for key in sorted(by_key)), KEPT)
    publish(KEPT / f"{name}.jsonl", "".join(as_text(line_) + "\n" for line_ in folded))


def made(function: Callable[..., Result], job: Job, device: str = "cpu") -> Line:
    """Make one run, whether it is stored or not; its line, which is filed nowhere. float32 is multiplied as it is,
    unless the experiment itself says otherwise.
    """
    from dplib import devices

    full = job_of(function, job)
    takes = {"device": device} if takes_device(function) else {}
    if device != "cpu" and not takes:
        raise ParameterError(f"device = {device} is not allowed: {function.experiment.name} runs on the processor.")
    with devices.whole_float32():
        start, worked = time.perf_counter(), time.process_time()
        result = function(**as_called(full), **takes)
        seconds, spent = time.perf_counter() - start, time.process_time() - worked
        return as_line(function, full, result, device=device, seconds=seconds, processor_seconds=spent)


def as_line(
    function: Callable[..., Result],
    job: Job,
    result: Result,
    *,
    device: str = "cpu",
    seconds: float,
    processor_seconds: float,
    many: int = 1,
) -> Line:
    """The line of a result that was made in this process just now, filed nowhere (:func:`file` does).

    Args:
        many: how many models were trained side by side with this one, itself included; the seconds are its share.
    """
    spent = {"seconds": round(seconds, 2), "processor_seconds": round(processor_seconds, 2)}
    now = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    how = {"precision": execution.precision(device), **({"many": many} if many > 1 else {})}
    line = {**identity(function, job, device), "result": dict(result), "made": spent | now | machine(device) | how}
    return json.loads(as_text(line))  # what a page will read: lists for tuples, texts for the keys of mappings


def worth_a_gpu(function: Callable[..., Result], jobs: Sequence[Job]) -> bool:
    """Whether runs of these jobs are known to be large enough to gain by a GPU."""
    from dplib import devices

    work = function.experiment.work
    if work is None or not takes_device(function):
        return False
    return devices.worth_a_gpu(work(as_called(job_of(function, job))) for job in jobs)


def takes_device(function: Callable[..., Result]) -> bool:
    """Whether an experiment can run on a GPU."""
    return "device" in inspect.signature(function).parameters


def _path(function: Callable[..., Result], job: Job, device: str) -> Path:
    return _path_of(function.experiment.name, key_of(function, job, device))


def _path_of(name: str, key: str) -> Path:
    return STORE / name / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _filed(path: Path) -> Line | None:
    try:
        key, line = parsed(path.read_text(encoding="utf-8"))
        if path.parts[-2:] != _path_of(line["experiment"], key).parts[-2:]:
            raise StoreError(f"{path} holds another run than it is named for, copied or renamed: remove it.")
        return machines.whole(line, KEPT)
    except FileNotFoundError:
        return None
    except DAMAGE as error:
        what = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path} is damaged ({what}): remove it, and the run will be made again.") from None


def _kept(name: str) -> jobs.Lines:
    path = KEPT / f"{name}.jsonl"
    try:
        state = path.stat()
    except FileNotFoundError:
        return jobs.Lines()
    return _parsed(path, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=128)
def _parsed(path: Path, *_state: int) -> jobs.Lines:
    file, folder = path.open("rb"), path.parent
    lines_, begin = jobs.Lines(file), 0
    for number, text in enumerate(file, 1):  # texts may hold what else ends a line
        try:
            key, line_ = parsed(text.decode())
            machines.whole(line_, folder)
        except ParameterError as error:
            raise StoreError(f"{path}, line {number}: {error}") from None
        except DAMAGE as error:
            raise StoreError(f"{path}, line {number} is damaged ({type(error).__name__}: {error}).") from None
        if key in lines_:
            raise StoreError(f"{path}, line {number} repeats the job of a line above: {key}")
        lines_.add(key, begin, len(text))
        begin += len(text)
    return lines_


@functools.cache
def machine(device: str = "cpu") -> dict[str, Any]:
    """Where runs of this process are made; the commit is that of the process's first run."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    processor = {"processor": execution.processor(), "capability": capability}
    gpu = execution.gpu() if device == "cuda" else {}
    here = {"commit": execution.commit() or "unknown", **processor, **gpu}
    return {**here, "threads": torch.get_num_threads(), "versions": execution.versions()}


def file(line: Line) -> None:
    """File a line that was made elsewhere than in :func:`compute`, such as one of many trained side by side."""
    path = _path_of(line["experiment"], key_of_line(line))
    path.parent.mkdir(parents=True, exist_ok=True)
    publish(path, as_text(line))


def place(line: Line) -> str:
    """What a run was made on, in short: its GPU, or its processor; and how many were trained beside it, if any were."""
    where = line["made"]
    name = where["gpu"] if line["device"] == "cuda" else f"{where['processor']} ({where['capability']})"
    return f"{name}, {where['many']} side by side" if "many" in where else name
