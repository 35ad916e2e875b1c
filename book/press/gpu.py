"""Which rows of the ledger need a GPU: the plan that decides them, its hours, its data."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from dplib import plans, runs, sources
from dplib.checks import ParameterError
from dplib.claims import NOT_RUN, Claim

OPEN = ("undecided", NOT_RUN, "")  # "": of a row that nothing was run for


def routes(claims: Sequence[Claim]) -> dict[str, dict[str, list[Claim]]]:
    """The open rows that a study's GPU would decide: {study: {pattern: rows}}.

    Raises:
        ParameterError: for a pattern that no row has.
    """
    found: dict[str, dict[str, list[Claim]]] = {}
    for study in plans.studies():
        if about := plans.on_gpu(study):
            some = {one: [claim for claim in claims if fnmatchcase(claim.id, one)] for one in about.rows}
            if unknown := [one for one, rows in some.items() if not rows]:
                raise ParameterError(f"{unknown[0]} of plan {study} is no row of the ledger.")
            found[study] = {one: [claim for claim in rows if claim.expects in OPEN] for one, rows in some.items()}
    return found


def data(study: str) -> list[str]:
    """The data sets of a study's runs on a GPU, as far as its plan "paper" knows them."""
    plan = plans.load(study, "paper")
    lines = [line for line in plan.reached() if line["device"] == "cuda"]
    wanted = [runs.identity(*one) for one in plan.missing() if one.device == "cuda"]
    return sorted({name for one in [*lines, *wanted] for name in one["data"]})


def markdown(claims: Sequence[Claim]) -> str:
    """A table of the studies with a part on a GPU."""
    lines = ["| chapter | rows that it would decide | data | GPU-hours | reckoned by |", "|---|---|---|---:|---|"]
    for study, rows in routes(claims).items():
        about, chapter = plans.on_gpu(study), sources.resolve(study)
        ids = ", ".join(f"`{one}`" + (f" ({len(some)})" if "*" in one else "") for one, some in rows.items() if some)
        link = f"[{sources.shown_number(chapter)}](../notebooks/{chapter})"
        lines.append(f"| {link} | {ids or 'none is open'} | {', '.join(data(study))} | {about.hours:g} | {about.how} |")
    return "\n".join(lines) + "\n"
