"""Processes that work on one call at a time each, on one thread; one that cannot go on is replaced by a new one.

Part of :mod:`book.evidence.runs`, which has them make runs.
"""

import math
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from book.evidence import execution

Call = tuple
# One process loads what all workers need, which takes seconds, and does nothing else: they are its copies, without what
# this process has begun, be it a GPU or threads. The libraries of other systems do not bear to be copied.
_KIND = "forkserver" if sys.platform == "linux" else "spawn"
_LOADED = ["threadpoolctl", "torch", "book.evidence.plans"]


class _Worker(NamedTuple):
    process: Any
    pipe: Connection


class Workers:
    """Up to ``most`` processes that work on calls; they end with this block, and with this process, however it ends.

    Args:
        work: of a module; takes a call's values, and returns an outcome, and whether its process may go on after it.
        first: called in each new process with ``given``, before its first call.
    """

    def __init__(self, most: int, work: Callable[..., tuple[Any, bool]], first: Callable[..., None], given: tuple):
        self.most, self._started_with = most, (work, first, given)
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Call] = {}

    @property
    def busy(self) -> list[Call]:
        """The calls that are being worked on."""
        return list(self._busy.values())

    def begin(self, call: Call) -> None:
        """Have a process work on a call; there must be fewer than ``most`` at work."""
        worker = self._idle.pop() if self._idle else self._new()
        worker.pipe.send(call)
        self._busy[worker] = call

    def ended(self, seconds: float = math.inf) -> list[tuple[Call, Any]]:
        """Wait for calls to end, for some seconds at most; each with its outcome, or the exit status of its process, of
        which a negative one is the signal that killed it.
        """
        ends = {end: worker for worker in self._busy for end in (worker.pipe, worker.process.sentinel)}
        ready = wait(list(ends), None if math.isinf(seconds) else max(0.0, seconds))
        outcomes = []
        for worker in dict.fromkeys(ends[end] for end in ready):
            call = self._busy.pop(worker)
            try:
                outcome, goes_on = worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                outcome, goes_on = worker.process.exitcode, False
            if goes_on:
                self._idle.append(worker)
            else:
                _end(worker)
            outcomes.append((call, outcome))
        return outcomes

    def stop(self) -> list[Call]:
        """End the processes at work; their calls."""
        stopped = self.busy
        for worker in self._busy:
            _end(worker)
        self._busy = {}
        return stopped

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for worker in self._idle:
            _end(worker)
        self._idle = []

    def _new(self) -> _Worker:
        context = get_context(_KIND)
        if _KIND == "forkserver":
            context.set_forkserver_preload(_LOADED)
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, dict(os.environ), *self._started_with))
        process.start()
        there.close()
        return _Worker(process, here)


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _serve(pipe: Connection, environment: dict[str, str], work: Callable, first: Callable, given: tuple) -> None:
    os.environ.update(environment)  # what this is a copy of may have begun with another one
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent ends its processes
    execution.end_with_parent()
    first(*given)
    while True:
        try:
            call = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(work(*call))


def one_thread() -> None:
    """Let this process compute on one thread, as all kept runs do."""
    import threadpoolctl
    import torch

    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1)
