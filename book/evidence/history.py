"""The history of rules: what could have changed a verdict, when it did, and which runs were known by then.

``book/claims/history.json`` is made from the repository's log by ``python -m book history``
(:mod:`book.evidence.history_log`, which says what it sees and what not); here it is read. It has for every row

- ``versions``: each state of what is judged and by what (statement, printed values, rule, needs, correction, what is
  not stated, the margins that a rule names), with the commit that brought it;
- ``runs`` of a version: how many of today's runs were made from a commit that contains it (the rule came first), from
  one that does not (the run was or may have been known), and from a commit that is not in the log (unknown);
- ``verdicts``: what the row was expected to come out as, and ``written``, the verdict of the first days, by code of a
  chapter's own without a rule in the ledger;
- ``first``: the first rule, where it is not today's; ``made_at``: from how many commits the runs were made;
- ``reads`` and ``code``: the parts of plans that its values come from, and the changes of the code that writes them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from book.evidence import claims, rules
from dplib import files
from dplib.checks import ParameterError

PATH = claims.CLAIMS / "history.json"
REASONS = claims.CLAIMS / "reasons.yml"
JUDGED = ("sort", "statement", "published", "rule", "corrected", "correction", "unstated", "margins")
DECIDES = ("rule", "corrected", "unstated", "margins")  # what a computed verdict hangs on, besides values


def read(path: Path | None = None) -> dict[str, Any]:
    """The history as it is stored."""
    return files.read(path or PATH)


class _Reason(BaseModel, extra="forbid"):
    """Why some rows were changed: the state to which each was, by its digest."""

    reason: str
    rows: dict[str, str]


class Reasons(BaseModel, extra="forbid"):
    """``since``: changes up to this commit have no reason on record."""

    since: str
    reasons: list[_Reason]

    def by_state(self) -> dict[tuple[str, str], str]:
        """Reasons by row and the digest of the state that it was changed to."""
        return {(row, mark): entry.reason for entry in self.reasons for row, mark in entry.rows.items()}


def reasons() -> Reasons:
    """The reasons that are written down; ParameterError for a malformed file."""
    return files.checked(REASONS, Reasons)


def digest(state: Mapping[str, Any]) -> str:
    """A short name of a state of what is judged."""
    return hashlib.sha256(plain(state).encode()).hexdigest()[:10]


def plain(value: Any) -> str:
    """A value as JSON in its one form."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# What came first, the rule or the runs that decide by it now.
FIRST, MIXED, KNOWN, UNKNOWN = "rule first", "some runs known", "runs known", "order unknown"
NO_RUNS, NO_RULE = "no runs", "no rule"
ORDERS = (FIRST, MIXED, KNOWN, UNKNOWN, NO_RUNS, NO_RULE)


def deciding(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The versions of a row in which what decides it was set or changed, oldest first."""
    versions = [version for version in entry["versions"] if set(version["changed"]) & set(DECIDES)]
    return versions[next((n for n, v in enumerate(versions) if "rule" in v["changed"]), len(versions)) :]


def order(version: Mapping[str, Any] | None) -> str:
    """What came first, a version's rule or the runs that decide by it now: one of :data:`ORDERS`."""
    if version is None:
        return NO_RULE
    first, known, unknown = version["runs"]
    if not first + known + unknown:
        return NO_RUNS
    if known:
        return MIXED if first else KNOWN
    return UNKNOWN if unknown else FIRST


def first_verdict(entry: Mapping[str, Any], claim: claims.Claim, values: Mapping[str, Any]) -> tuple[str, str]:
    """(verdict, why there is none): what the first rule of a row says of today's values, by today's rules."""
    row = asdict(claim) | {name: "" if name == "unstated" else {} for name in ("rule", "corrected", "unstated")}
    row |= entry["first"] if "first" in entry else asdict(claim)
    if not row["rule"]:
        return "", "it has no rule"
    try:
        return rules.verdict(row, values, {**row["published"], **claim.published}), ""
    except (ParameterError, LookupError, TypeError, ValueError) as error:
        return "", " ".join(str(error).split())
