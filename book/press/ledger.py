"""Gather the ledger: every claim with what the executed chapters recorded of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from dplib import claims, execution, plans, sources
from dplib.checks import ParameterError
from dplib.claims import NOT_RUN, Claim


@dataclass(frozen=True)
class Row:
    """A claim, and what its chapter found."""

    claim: Claim
    verdict: str
    values: dict[str, Any]
    because: str
    date: str

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


def executed_chapters(folder: Path = execution.EXECUTED) -> list[Executed]:
    """The executed notebooks that the site is made of, in order."""
    return [_read(path) for path in executed_notebooks(folder)]


def executed_notebooks(folder: Path = execution.EXECUTED) -> list[Path]:
    """Executed copies of chapters, in order; one of a chapter that has another name by now is none."""
    return list(filter(Path.exists, (folder / f"{chapter}.ipynb" for chapter in sources.chapters())))


def gather(executed: list[Executed]) -> list[Row]:
    """One row per claim of the four papers; records of another plan than the published one have no verdict."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for chapter in executed:
        for id_, record in chapter.records.items():
            if record["verdict"]:
                found.setdefault(id_, (record, chapter.provenance["date"][:10]))
    return [_row(claim, found.get(claim.id)) for claim in claims.load_all().values()]


def _row(claim: Claim, found: tuple[dict[str, Any], str] | None) -> Row:
    if found is None:
        return Row(claim, NOT_RUN, {}, claim.because, "")
    record, date = found
    return Row(claim, record["verdict"], record["values"], record["because"], date)


def _read(path: Path) -> Executed:
    try:
        notebook = nbformat.read(path, as_version=4)
        return Executed(path.stem, notebook.metadata["dplib"], claims.basis(notebook), claims.records(notebook))
    except (OSError, ValueError, LookupError, AttributeError, nbformat.ValidationError) as error:
        raise ParameterError(f"{path} is no executed chapter ({error!r:.100}): remove it, and make it again.") from None
