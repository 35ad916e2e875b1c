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


def write_probes(found: Mapping[str, Probe]) -> None:
    """Store the results of the probes."""
    with runs.writing(probes_file()):
        runs.KEPT.mkdir(parents=True, exist_ok=True)
        files.publish(probes_file(), json.dumps(found, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def changes(stored: Mapping[str, Probe], found: Mapping[str, Probe]) -> list[str]:
    """Experiments whose probe is not what was stored, a sentence each with the first field that differs."""
    told = [f"{name} is stored and no plan's module has it." for name in stored if name not in found]
    for name, now in found.items():
        then = stored.get(name)
        if then is None or (then["version"], then["job"]) != (now["version"], now["job"]):
            told.append(f"{name}: the probe of this version is not stored: `python -m book runs probe --write`.")
        elif first := next(differences(then["result"], now["result"], TOLERANCE), None):
            told.append(f"{name}: {said(first)}. What it computes has changed: raise its version, or mend it.")
    return told


def said(difference: Difference) -> str:
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

    ``known`` are lines of its experiment; elsewhere a difference stands beside the spread of those that differ in seed,
    and what is not to the bit anywhere is judged by it (:mod:`book.evidence.agreement`).
    """
    runs.one_thread()
    now = runs.made(plans.experiments()[line["experiment"]], runs.as_called(line["job"]), line["device"])
    found = list(differences(line["result"], now["result"]))
    if not found:
        return True, "equal to the bit"
    place = PLACE if agreement.exact(line) else (*PLACE, *ON_GPU)
    elsewhere = [name for name in place if line["made"].get(name) != now["made"].get(name)]
    text = f"made with another {' and '.join(elsewhere)}: " if elsewhere else ""
    seeds = agreement.of_seeds(line, known)
    if not agreement.exact(line):
        wrong = agreement.disagreement(line, now, known)
        judged = f"as {len(seeds)} seeds do" if len(seeds) >= agreement.FEWEST else "with too few seeds to judge by"
        return wrong is None, f"{text}{said(wrong or found[0])}{'' if wrong else f', {judged}'}"
    if not elsewhere:
        same = line["made"]["commit"] == now["made"]["commit"]
        wrong = [one for one in found if same or not agreement.near(one, seeds)]
        return not wrong, said(wrong[0]) if wrong else f"made at another commit: {said(found[0])}, as other seeds do"
    for one in found:
        beside = [value for seed in seeds if agreement.is_number(value := agreement.at(seed["result"], one[0]))]
        if agreement.is_number(one[1]) and agreement.is_number(one[2]) and beside:
            return True, f"{text}{said(one)}; over {len(beside)} seeds {min(beside):.6g} to {max(beside):.6g}"
    return True, f"{text}{said(found[0])}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
