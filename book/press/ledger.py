"""Gather the ledger: every claim with the best record of it, from executed notebooks and frozen results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from dplib import chapters, claims, plans, sources
from dplib.checks import ParameterError
from dplib.claims import NOT_RUN, Claim

# What decides a row, the first that recorded it: the published runs; else, for chapters that are still to be
# converted, a frozen run, the larger one first, or the execution on embedded data.
PROFILES = (claims.PUBLISHED, "paper", "real", "embedded")


@dataclass(frozen=True)
class Row:
    """A claim, and what the largest run that recorded it found."""

    claim: Claim
    verdict: str
    values: dict[str, Any]
    because: str
    profile: str
    date: str
    data: dict[str, Any]  # what a figure of this claim needs

    @property
    def command(self) -> str:
        """How to run what is not run yet."""
        study = sources.number(self.claim.chapter)
        plan = "wanted" if "wanted" in self.claim.because else "paper"
        made = f"python -m dplib runs make {study} --plan {plan}" if study in plans.studies() else ""
        return made if self.verdict == NOT_RUN else ""


@dataclass(frozen=True)
class Executed:
    """An executed chapter: its provenance, what it rests on, what it recorded."""

    chapter: str
    provenance: dict[str, Any]
    basis: dict[str, Any]
    records: dict[str, dict[str, Any]]


def executed_chapters(folder: Path = chapters.EXECUTED) -> list[Executed]:
    """The executed notebooks that the site is made of, in order."""
    return [_read(path) for path in executed_notebooks(folder)]


def executed_notebooks(folder: Path = chapters.EXECUTED) -> list[Path]:
    """Executed copies of chapters, in order; one of a chapter that has another name by now is none."""
    return list(filter(Path.exists, (folder / f"{chapter}.ipynb" for chapter in sources.chapters())))


def gather(executed: list[Executed], results: Path = claims.RESULTS) -> list[Row]:
    """One row per claim of the four papers: from the paper profile, else the real one, else this execution."""
    found: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {}
    frozen = [claims.frozen_run(path) for path in sorted(results.glob("[0-9][0-9]*_*.json"))]
    origins = [(run["provenance"], run["records"]) for run in frozen]
    origins += [(chapter.provenance, chapter.records) for chapter in executed]
    for provenance, records in origins:
        for id_, record in records.items():
            if not record["verdict"]:  # of another plan than the published one
                continue
            rank = PROFILES.index(record.get("plan", provenance["profile"]))
            if id_ not in found or rank < found[id_][0]:
                found[id_] = (rank, record, record.get("provenance", provenance))  # its own where it joined later
    return [_row(claim, found.get(claim.id)) for claim in claims.load_all().values()]


def _row(claim: Claim, best: tuple[int, dict[str, Any], dict[str, Any]] | None) -> Row:
    if best is None:
        return Row(claim, NOT_RUN, {}, claim.because, "", "", {})
    rank, record, provenance = best
    return Row(
        claim=claim,
        verdict=record["verdict"],
        values=record["values"],
        because=record["because"],
        profile=PROFILES[rank],
        date=provenance["date"][:10],
        data=record.get("data", {}),
    )


def _read(path: Path) -> Executed:
    try:
        notebook = nbformat.read(path, as_version=4)
        return Executed(path.stem, notebook.metadata["dplib"], chapters.basis(notebook), chapters.records(notebook))
    except (OSError, ValueError, LookupError, AttributeError, nbformat.ValidationError) as error:
        raise ParameterError(f"{path} is no executed chapter ({error!r:.100}): remove it, and make it again.") from None
