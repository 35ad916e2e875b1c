"""Whether kept runs can be made again: probes on every machine, whole runs to the bit where they were made.

A training parts ways on another processor after some hundred steps. So a probe is short and compared with a tolerance:
it shows a constant, a random stream or an algorithm that changed behind an unraised version. Whole runs are equal to
the bit at their own commit; at another one a change of rounding may have come between. Runs on a GPU, or trained
beside others, are nowhere equal to the bit: how far apart those of other seeds lie is the measure there.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from book.evidence import agreement, plans, runs
from book.evidence.agreement import TOLERANCE as TOLERANCE
from book.evidence.agreement import Difference
from book.evidence.agreement import differences as differences
from dplib import files
from dplib.checks import ParameterError

PLACE = ("capability", "versions", "threads")  # where these and the commit are the same, so is every bit
ON_GPU = ("gpu", "driver", "cuda", "cudnn", "precision", "many")  # what else a line names that is not to the bit


class Probe(TypedDict):
    """A probe as it is stored."""

    version: int
    job: dict[str, Any]
    result: dict[str, Any]


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
        raise runs.StoreError(f"{error} It is damaged: `python -m book runs probe --write` writes it anew.") from None


def write_probes(probes_: Mapping[str, Probe]) -> None:
    """Store the results of the probes."""
    with runs.writing(probes_file()):
        runs.KEPT.mkdir(parents=True, exist_ok=True)
        files.publish(probes_file(), json.dumps(probes_, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def changes(stored: Mapping[str, Probe], probes_: Mapping[str, Probe]) -> list[str]:
    """Experiments whose probe is not what was stored, a sentence each with the first field that differs."""
    told = [f"{name} is stored and no plan's module has it." for name in stored if name not in probes_]
    for name, now in probes_.items():
        then = stored.get(name)
        if then is None or (then["version"], then["job"]) != (now["version"], now["job"]):
            told.append(f"{name}: the probe of this version is not stored: `python -m book runs probe --write`.")
        elif first := next(differences(then["result"], now["result"], TOLERANCE), None):
            told.append(f"{name}: {said(first)}. What it computes has changed: raise its version, or mend it.")
    return told


def said(difference: Difference) -> str:
    """A difference in words."""
    path, wanted, now = difference
    return f"{'.'.join(map(str, path))} was {_short(wanted)} and is {_short(now)}"


def sample(lines: Sequence[runs.Line], count: int, most_seconds: float, seed: int) -> list[runs.Line]:
    """Up to ``count`` random lines that took ``most_seconds`` in all: of each experiment in turn, rather cheap ones."""
    drawn: list[runs.Line] = []
    by_experiment: dict[str, list[runs.Line]] = {}
    for i in np.random.default_rng(seed).permutation(len(lines)):
        by_experiment.setdefault(lines[i]["experiment"], []).append(lines[i])
    for line in filter(None, itertools.chain(*itertools.zip_longest(*by_experiment.values()))):
        if len(drawn) < count and line["made"]["seconds"] <= most_seconds:
            drawn.append(line)
            most_seconds -= line["made"]["seconds"]
    return drawn


def replayed(line: runs.Line, known: Sequence[runs.Line]) -> tuple[bool, str]:
    """Make a stored run again, on one thread: whether it is what it has to be here, and what it is in words.

    ``known`` are lines of its experiment; elsewhere a difference stands beside the spread of those that differ in seed,
    and what is not to the bit anywhere is judged by it (:mod:`book.evidence.agreement`).
    """
    runs.one_thread()
    now = runs.made(plans.experiments()[line["experiment"]], runs.as_called(line["job"]), line["device"])
    different = list(differences(line["result"], now["result"]))
    if not different:
        return True, "equal to the bit"
    place = PLACE if agreement.exact(line) else (*PLACE, *ON_GPU)
    elsewhere = [name for name in place if line["made"].get(name) != now["made"].get(name)]
    text = f"made with another {' and '.join(elsewhere)}: " if elsewhere else ""
    seeds = agreement.of_seeds(line, known)
    if not agreement.exact(line):
        wrong = agreement.disagreement(line, now, known)
        judged = f"as {len(seeds)} seeds do" if len(seeds) >= agreement.FEWEST else "with too few seeds to judge by"
        return wrong is None, f"{text}{said(wrong or different[0])}{'' if wrong else f', {judged}'}"
    if not elsewhere:
        same = line["made"]["commit"] == now["made"]["commit"]
        wrong = [difference for difference in different if same or not agreement.near(difference, seeds)]
        return not wrong, said(
            wrong[0]
        ) if wrong else f"made at another commit: {said(different[0])}, as other seeds do"
    for difference in different:
        beside = [value for seed in seeds if agreement.is_number(value := agreement.at(seed["result"], difference[0]))]
        if agreement.is_number(difference[1]) and agreement.is_number(difference[2]) and beside:
            return True, f"{text}{said(difference)}; over {len(beside)} seeds {min(beside):.6g} to {max(beside):.6g}"
    return True, f"{text}{said(different[0])}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
