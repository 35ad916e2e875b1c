"""The papers' headlines in blocks (``book/blocks.yml``): the registered parts of plans that decide them, and rows.

What is told of a part comes from the log and from its runs, never by hand: when its inputs took their present form,
which runs were made from a commit that has that form, when, what they took, and what is missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import BaseModel

from book.evidence import gitlog, plan_log, plans, runs
from book.evidence.claims import PAPERS, Claim
from book.evidence.places import ROOT
from dplib import files
from dplib.checks import ParameterError

PATH = ROOT / "book" / "blocks.yml"
PLANS = ("published", "wanted")  # where a registered part stands once it is complete, and before


class Block(BaseModel, extra="forbid"):
    """One question. ``parts`` are patterns of "study/part" and ``rows`` of ids, in which * stands for any text;
    ``expected`` is what the plan said of the outcome before its runs, ``reckoned`` the core-hours that it said, and
    ``left`` what its missing parts still cost, by the pace of the runs that are there; ``found`` is the answer so far,
    ``came`` how it compares with what was expected, and ``numbers`` where the numbers of both come from
    (:mod:`book.press.typed`).
    """

    title: str
    paper: Literal[PAPERS]
    parts: list[str]
    rows: list[str]
    expected: str
    reckoned: float
    left: str = ""
    found: str
    came: str
    numbers: str = ""

    def of_rows(self, claims: Mapping[str, Claim]) -> list[str]:
        """The ids of its rows, in the ledger's order; ParameterError for a pattern that no row has."""
        return list(_matching(self.rows, claims, "row of the ledger"))

    def of_parts(self, parts: Iterable[str]) -> list[str]:
        """The names of its parts, in the plans' order; ParameterError for a pattern that no part has."""
        return list(_matching(self.parts, parts, "part of a plan"))


def read() -> list[Block]:
    """The blocks, in order.

    Raises:
        ParameterError: for a malformed file.
    """
    return files.checked(PATH, list[Block])


def registered() -> dict[str, plans.Plan]:
    """The parts of all studies that are published or wanted, by "study/part", each as a plan of its own."""
    by_part = {}
    for study in plans.studies():
        for name in (name for name in PLANS if name in plans.names(study)):
            plan = plans.load(study, name)
            for part in plan.parts:
                by_part.setdefault(f"{study}/{part}", plans.Plan(study, name, {part: plan.parts[part]}))
    return by_part


def facts(log: gitlog.Log) -> dict[str, dict[str, Any]]:
    """Of each part of a block: ``plan``; ``registered``, commit and time of its present inputs; how many ``runs`` it
    reads, and how many of them are ``new``, from a commit that has these inputs; days, core-``hours`` and
    ``gpu_hours`` of the new ones; and how many are ``missing``, at least.
    """
    known = registered()
    wanted = dict.fromkeys(part for block in read() for part in block.of_parts(known))
    told = {}
    for part in wanted:
        lines, missing = known[part].look()
        commit = registered_by(log, part)
        when = [commit[: gitlog.SHORT], log.time(commit)] if commit else []
        told[part] = {"plan": known[part].name, "registered": when, "runs": len(lines), "missing": len(missing)}
        told[part] |= _of_new(log, commit, lines)
    return told


def registered_by(log: gitlog.Log, part: str) -> str:
    """The commit in which the inputs of a part first were as they are; "" for a change that is not committed."""
    study, _, name = part.partition("/")
    return plan_log.versions(log, study, PLANS)[name][-1].commit


def _of_new(log: gitlog.Log, commit: str, lines: list[runs.Line]) -> dict[str, Any]:
    """What is told of the runs from a commit that has another one behind it."""
    new = [line for line in lines if commit and (of := log.full(line["made"]["commit"])) and log.contains(of, commit)]
    dates = sorted(line["made"]["date"][:16].replace("T", " ") for line in new)
    seconds = {"cpu": 0.0, "cuda": 0.0}
    for line in new:
        seconds[line["device"]] += line["made"]["seconds" if line["device"] == "cuda" else "processor_seconds"]
    hours, on_gpu = (round(spent / 3600, 4) for spent in seconds.values())
    return {"new": len(new), "hours": hours, "gpu_hours": on_gpu, "days": [dates[0], dates[-1]] if dates else []}


def _matching(patterns: Iterable[str], names: Iterable[str], what: str) -> Iterator[str]:
    names = list(names)
    for pattern in patterns:
        if not (matched := [name for name in names if fnmatchcase(name, pattern)]):
            raise ParameterError(f"{PATH.name}: {pattern} is no {what}.")
        yield from matched
