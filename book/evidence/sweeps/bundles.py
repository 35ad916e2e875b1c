"""Bundles: runs of one experiment that one job of a cluster makes, one after the other.

A job takes longer to begin than many a run takes. A bundle is a file in a folder of work, beside which it leaves marks:
``started/<bundle>``, and for each run ``settled/<bundle>-<i>`` or ``failed/<bundle>-<i>`` with the reason.
"""

import importlib
import json
import math
from collections.abc import Sequence
from pathlib import Path

from book.evidence import execution, runs
from book.evidence.plans import Wanted
from dplib.files import publish

LEAST = 0.1  # seconds that a run takes at least: it is filed


def bundled(todo: Sequence[Wanted], seconds: Sequence[float | None], most: float) -> list[list[Wanted]]:
    """Runs in bundles of up to ``most`` seconds, in their order; each is of one experiment and device. One of which the
    seconds are unknown (None) is alone.
    """
    found: list[list[Wanted]] = []
    last: dict[tuple, tuple[list[Wanted], float]] = {}
    for one, spent in zip(todo, seconds, strict=True):
        kind, spent = (one.function, one.device), math.inf if spent is None else max(spent, LEAST)
        bundle, before = last.get(kind, ([], math.inf))
        if before + spent > most:
            bundle, before = [], 0.0
            found.append(bundle)
        bundle.append(one)
        last[kind] = bundle, before + spent
    return found


def write(path: Path, bundle: Sequence[Wanted]) -> None:
    """Write a bundle: the experiment by its place, the jobs, and where the runs are kept and filed."""
    function, _, device = bundle[0]
    place = {"module": function.__module__, "function": function.__name__, "device": device}
    folders = {"kept": str(runs.KEPT), "store": str(runs.STORE)}
    publish(path, json.dumps({**place, **folders, "jobs": [one.job for one in bundle]}))


def compute(path: Path) -> None:
    """Make the runs of a bundle that are not settled yet, each filed as it comes; one that fails stops no other."""
    execution.check_commit()
    bundle, work = json.loads(path.read_text(encoding="utf-8")), path.parent
    function = getattr(importlib.import_module(bundle["module"]), bundle["function"])
    runs.settle(Path(bundle["kept"]), Path(bundle["store"]))
    (work / "started" / path.stem).touch()
    for i, job in enumerate(bundle["jobs"]):
        settled, failed = (work / name / f"{path.stem}-{i}" for name in ("settled", "failed"))
        if settled.exists() or failed.exists():  # by another try, whose job was killed
            continue
        outcome = runs.compute(function, job, bundle["device"])
        if isinstance(outcome, tuple):
            publish(failed, str(outcome[1]))
            if isinstance(
                outcome[1], runs.GPUFailed
            ):  # for all that this process would run: not begun, they come in the next wave
                (work / "started" / path.stem).unlink()
                return
        else:
            settled.touch()


def outcome(path: Path, bundle: Sequence[Wanted]) -> tuple[int, list[tuple[Wanted, str]]]:
    """What became of a bundle once its job has ended: how many runs are made, and those that failed, with the reason.
    The run at which a job was killed has failed; those after it have not begun, and are neither.
    """
    work, made, failed = path.parent, 0, []
    for i, one in enumerate(bundle):
        if (reason := work / "failed" / f"{path.stem}-{i}").exists():
            failed.append((one, reason.read_text(encoding="utf-8")))
        elif (work / "settled" / f"{path.stem}-{i}").exists() or runs.line(*one[:2], device=one.device):
            made += 1
        elif (work / "started" / path.stem).exists():
            error = path.with_suffix(".error")
            word = error.read_text(encoding="utf-8") if error.exists() else "out of memory or time?"
            return made, [*failed, (one, f"its job ended before it did: {word}")]
    return made, failed
