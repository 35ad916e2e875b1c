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
- ``edition``: the verdict that it was expected to have in the last edition;
- ``reads`` and ``code``: the parts of plans that its values come from, and the changes of the code that writes them;

and of the parts of each headline's block what :func:`book.evidence.blocks.facts` tells.
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from book.evidence import claims, rules
from dplib import files
from dplib.checks import ParameterError

PATH = claims.CLAIMS / "history.json"
REASONS = claims.CLAIMS / "reasons.yml"
DECIDES = ("rule", "corrected", "unstated", "stand_in", "absent", "margins")  # what a verdict hangs on, besides values
JUDGED = ("sort", "statement", "published", "correction", *DECIDES)


def read(path: Path | None = None) -> dict[str, Any]:
    """The history as it is stored."""
    return files.read(path or PATH)


class _Reason(BaseModel, extra="forbid"):
    """Why some rows were changed: the state to which each was, by its digest."""

    reason: str
    rows: dict[str, str]


class Reasons(BaseModel, extra="forbid"):
    """``since``: changes up to this commit have no reason on record; ``edition``: the end of the last edition."""

    since: str
    edition: str
    reasons: list[_Reason]

    def by_state(self) -> dict[tuple[str, str], str]:
        """Reasons by row and the digest of the state that it was changed to."""
        return {(row, mark): entry.reason for entry in self.reasons for row, mark in entry.rows.items()}


def reasons() -> Reasons:
    """The reasons that are written down; ParameterError for a malformed file."""
    return _reasons(REASONS, REASONS.stat().st_mtime_ns if REASONS.exists() else 0)


@functools.lru_cache(maxsize=4)
def _reasons(path: Path, _time: int) -> Reasons:
    """Read once, until it is written again: the site asks for every row."""
    return files.checked(path, Reasons)


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
NO_REASON = "no reason recorded."


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
    row = asdict(claim) | {"rule": {}, "corrected": {}, "unstated": "", "stand_in": "", "absent": {}}
    row |= entry["first"] if "first" in entry else asdict(claim)
    if not row["rule"]:
        return "", "it has no rule"
    try:
        return rules.verdict(row, values, {**row["published"], **claim.published}), ""
    except ParameterError as error:
        return "", " ".join(str(error).split())
    except TypeError:
        return "", "a value that it compares is a text now"


@dataclass(frozen=True)
class Past:
    """What a page says of a row's history.

    Attributes:
        order: what came first, today's rule or the runs: one of :data:`ORDERS`.
        first: the verdict of the first rule on today's values; "" where it cannot be evaluated.
        changes: how often what decides the row was changed since its first rule.
        sentences: the same and more in words, for people.
    """

    order: str = NO_RULE
    first: str = ""
    changes: int = 0
    sentences: tuple[str, ...] = ()


def past(stored: Mapping[str, Any], claim: claims.Claim, values: Mapping[str, Any], verdict: str) -> Past:
    """A row's past from the stored history; an empty one for a row that it does not have.

    Args:
        values, verdict: what the published runs lead to now; a row that was not run has "not run yet" by any rule.
    """
    entry = stored["rows"].get(claim.id)
    decided = deciding(entry) if entry else []
    if not decided:
        return Past(first=verdict)
    first, why = (verdict, "") if verdict == claims.NOT_RUN else first_verdict(entry, claim, values)
    told = (*_of_rule(stored, claim.id, entry, decided), *_of_runs(stored, entry, decided[-1]))
    if verdict != claims.NOT_RUN:
        same = "the same" if first == verdict else first or f"cannot be evaluated ({why.rstrip('.')})"
        told += (f"The first rule on today's runs: {same}.",)
    return Past(order(decided[-1]), first, len(decided) - 1, told)


def since_last_edition(stored: Mapping[str, Any], row: str) -> tuple[str, list[str]]:
    """(verdict in the last edition, reasons of the changes since): "" for a row that is new."""
    entry = stored["rows"].get(row, {"versions": []})
    written = reasons().by_state()
    commits = (written.get((row, version["digest"])) for version in entry["versions"])
    return entry.get("edition", ""), list(dict.fromkeys(filter(None, commits)))


def _of_rule(
    stored: Mapping[str, Any], row: str, entry: Mapping[str, Any], decided: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """When the first rule came, and each change since, with its reason."""
    by_hand = ""
    if "written" in entry:
        commit, verdict = entry["written"]
        by_hand = f"; before it the page itself wrote: {verdict} ({stored['commits'][commit]})"
    yield f"First rule: {_when(stored, decided[0])}{by_hand}."
    written = reasons().by_state()
    for version in entry["versions"][entry["versions"].index(decided[0]) + 1 :]:
        reason = written.get((row, version["digest"]), NO_REASON)
        yield f"Changed {_when(stored, version)}: {', '.join(version['changed'])}; {reason.rstrip('.')}."


def _of_runs(stored: Mapping[str, Any], entry: Mapping[str, Any], present: Mapping[str, Any]) -> Iterator[str]:
    """What was known when today's rule was set, and how often its runs and its code have been changed."""
    first, known, unknown = present["runs"]
    if first + known + unknown:
        yield (
            f"Of {first + known + unknown} runs that it reads, {first} were made with today's rule committed, {known} "
            f"without it, {unknown} from commits that are not in the log; {entry['made_at']} commits made them."
        )
    changes = [change for part in entry["reads"] for change in stored["parts"].get(part, ())[1:]]
    seeds = sum("seeds" in change["changed"] for change in changes)
    if changes:
        yield f"Their plan was changed {_times(len(changes))}, {_times(seeds)} in the number of seeds."
    if entry["code"]:
        yield f"The code that writes its values was changed {_times(len(entry['code']))}."


def _times(n: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")


def _when(stored: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version["commit"]:
        return "with the newest commit"
    return f"{stored['commits'][version['commit']]} ({version['commit'][:7]})"
