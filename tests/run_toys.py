"""A toy experiment, parts and plans for the tests of kept runs, and two processes killed while they make it."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from book.evidence import making, plans, runs
from dplib.checks import ParameterError
from dplib.data.fetch import DataError
from dplib.devices import Work

RATE = 0.1
STREAM = 0
POISONED = set()  # processes in which CUDA has failed, and fails from then on
PLANS = """module: tests.run_toys
published:
  grid: {sizes: [1, 2], seeds: 2}
  tuned: {sizes: [1, 2, 4], seeds: 1}
quick:
  grid: {sizes: [1], seeds: 1}
"""
# Long enough to be killed twenty times.
LASTING = "module: tests.run_toys\npublished:\n  grid: {sizes: [1, 2, 3], seeds: 100, seconds: 0.03}\n"


def _work(job):
    return Work(1e11, job["steps"])


def _alike(job):
    return None if job["scheme"] == "plain" else f"{job['scheme']} {job['size']}"


def _together(jobs, device):
    return [train(**{**job, "scheme": "plain" if job["scheme"] == "pair" else job["scheme"]}) for job in jobs]


@runs.experiment(
    "toy",
    version=1,
    probe={"size": 3, "seed": 0},
    data=("dataset",),
    work=_work,
    together=runs.Together(_alike, _together),
)
def train(
    *,
    size: float,
    seed: int,
    steps: int | None = 5,
    scheme: str = "plain",
    dataset: str = "digits",
    limit: int | float | None = None,
    bounds: list[float] | None = None,
    weights: dict[str, float] | None = None,
    seconds: float = 0.0,
    device: str = "cpu",
) -> runs.Result:
    """A walk to ``size``; ``scheme`` may also say how to fail."""
    time.sleep(seconds)
    if scheme == "refused":
        raise ParameterError(f"scheme = {scheme} is not allowed: it must be plain.")
    if scheme == "failing":
        raise OddError(size, seed)
    if scheme == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if scheme == "exits":
        os._exit(3)
    if scheme == "absent":
        raise DataError(f"{dataset}: it is not here.")
    if scheme == "poisoned" or os.getpid() in POISONED:
        POISONED.add(os.getpid())
        raise RuntimeError("CUDA error: device-side assert triggered")
    rng = np.random.default_rng(np.random.SeedSequence([seed, STREAM]))
    place = [0.0]
    for _ in range(steps):
        place.append(place[-1] + RATE * (size - place[-1]) + 0.01 * rng.normal())
    given = {"limit": repr(limit), "bounds": repr(bounds), "weights": repr(weights)}
    return {"accuracy": place[-1] / size, "curve": place, "given": given, "device": device}


def told(name: str) -> tuple[str | None, bool]:
    """What the environment says in a worker."""
    return os.environ.get(name), True


class OddError(Exception):
    """It cannot be sent from one process to another: it has two arguments and one text."""

    def __init__(self, size, seed):
        super().__init__(f"{size} and {seed} do not get on")


def grid(get, *, sizes, seeds, seconds=0.0):
    """{size: results by seed}."""
    found = iter(
        get(train, [{"size": size, "seed": seed, "seconds": seconds} for size in sizes for seed in range(seeds)])
    )
    return {size: [next(found) for _ in range(seeds)] for size in sizes}


def tuned(get, *, sizes, seeds):
    """The size that comes nearest in a tuning run, and its own runs."""
    tried = get(train, [{"size": size, "seed": 1000} for size in sizes])
    best = sizes[int(np.argmax([one["accuracy"] for one in tried]))]
    return best, get(train, [{"size": best, "seed": seed, "scheme": "chosen"} for seed in range(seeds)])


def odd(get, *, schemes):
    """Results of runs that may fail, each in its way."""
    return get(train, [{"size": 1, "seed": 0, "scheme": scheme} for scheme in schemes])


SETTLED = (runs, "KEPT"), (runs, "STORE"), (runs, "UNNAMED"), (plans, "PLANS")


def settle(folder: Path, text: str = PLANS) -> None:
    """Let this process keep its runs and plans in a folder."""
    runs.KEPT, runs.STORE, plans.PLANS = folder / "kept", folder / "store", folder / "plans"
    runs.UNNAMED = ()  # the tests keep their runs where git has no history, too
    plans.PLANS.mkdir(parents=True, exist_ok=True)
    (plans.PLANS / "toy.yml").write_text(text, encoding="utf-8")


def _make() -> int:
    """The plan, in a process group of its own; the process to wait for."""
    if child := os.fork():
        return child
    os.setsid()
    try:
        making.make([plans.load("toy")], workers=2, said=lambda text: None)
    finally:
        os._exit(0)


def _filed() -> int:
    return len(list((runs.STORE / "toy").glob("*.json")))


def _killed(rounds: int) -> None:
    # A kill comes after so many runs, never after so many seconds: a fast machine must not end the plan first.
    rng = random.Random(0)
    for _ in range(rounds):
        pair = [_make(), _make()]
        for child in pair:
            enough = _filed() + rng.randint(0, 3)
            while _filed() < enough:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.03))
            os.killpg(child, signal.SIGKILL)
        for child in pair:
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it ended before it was killed: make the plan longer"
        print("filed:", _filed(), flush=True)


if __name__ == "__main__":
    # python -m tests.run_toys FOLDER KILLS: processes are forked, so that a kill meets work, not the import of PyTorch.
    import torch  # noqa: F401

    from book.evidence import workers
    from tests import run_toys

    workers.get_context = lambda _: __import__("multiprocessing").get_context("fork")
    settle(Path(sys.argv[1]), run_toys.LASTING)
    runs.machine()
    _killed(int(sys.argv[2]) // 2)
    assert making.make([plans.load("toy")], workers=2, said=lambda text: None) == 0
    runs.keep()
