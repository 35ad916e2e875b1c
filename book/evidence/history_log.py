"""The history of rules (:mod:`book.evidence.history`) from the repository's log, and whether the stored one agrees.

The order is by descent in the log, never by date. A version is followed along the line of work that was kept; a row
that got a new id begins anew.

What it does not see. ``code`` is what :mod:`book.evidence.code_marks` finds, in whatever file it lay at the time; where
an id is put together, or a function in another file changes, nothing is said. ``reads`` is what
:mod:`book.evidence.reads` finds, which may name a part too many. A part's own function, the experiments behind it and
the library are not followed: a run's key has the experiment's version.
"""

import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from book.evidence import blocks, claims, code_marks, gitlog, history, plan_log, plans, reads, runs, scan
from book.evidence.gitlog import Log
from book.evidence.history import DECIDES, JUDGED, PATH, digest, plain
from dplib import files
from dplib.checks import ParameterError

# Where code that writes values lies, or lay in an earlier commit, and which files are such.
FOLDERS = ("dplib", "papers", "notebooks", "book")
CODE = re.compile(r"^(?:dplib|papers|book/evidence)/.*\.py$|^notebooks/[^/]+\.md$")


# --- what the log says ------------------------------------------------------------------------------------------------


def build(root: Path = claims.ROOT) -> dict[str, Any]:
    """The history of every row that the ledger has now; ParameterError where the whole log is not here."""
    log = _log(root)
    states, verdicts = _ledger(log)
    written, parts, code = _written(log), _parts(log), _code(log, list(states))
    edition = _at(log, history.reasons().edition)
    made = _made()
    rows = {}
    for row, state in states.items():
        read = [f"{study}/{part}" for study, part in _reads().get(row, ())]
        commits = Counter({key: commit for name in read for key, commit in made[name].items()}.values())
        rows[row] = _row(log, state, verdicts[row], commits) | {"reads": read, "code": _commits(code[row][1:])}
        if before := [v.state for v in verdicts[row] if v.state and v.commit and edition(v.commit)]:
            rows[row]["edition"] = before[-1]
        if hand := written.get(row):
            rows[row]["written"] = hand
    used = {version["commit"] for row in rows.values() for version in row["versions"]}
    used |= {commit for row in rows.values() for commit in row["code"]}
    used |= {commit for row in rows.values() for commit, _ in [*row["verdicts"], *filter(None, [row.get("written")])]}
    used |= {change["commit"] for changes in parts.values() for change in changes}
    dates = {commit: log.dates[log.full(commit)] for commit in sorted(used) if commit}
    return {"commits": dates, "blocks": blocks.facts(log), "parts": parts, "rows": dict(sorted(rows.items()))}


def _at(log: Log, edition: str) -> Callable[[str], bool]:
    """Whether a commit was there in the last edition."""
    if (last := log.full(edition)) is None:
        raise ParameterError(f"{history.REASONS}: edition = {edition} is not a commit of this log.")
    return lambda commit: log.contains(last, commit)


def _row(log: Log, states: list[gitlog.Version], verdicts: list[gitlog.Version], made: Counter) -> dict[str, Any]:
    versions, before = [], {}
    for version in states:
        now = json.loads(version.state) if version.state else {}
        changed = [name for name in JUDGED if now.get(name) != before.get(name)]
        order = _order(log, version.commit, made)
        versions.append({"commit": _short(version.commit), "digest": digest(now), "changed": changed, "runs": order})
        before = now
    first = next((json.loads(v.state) for v in states if v.state and json.loads(v.state).get("rule")), {})
    known = {name: first[name] for name in (*DECIDES, "published") if name in first}
    said = [[_short(version.commit), version.state] for version in verdicts if version.state]
    entry = {"versions": versions, "verdicts": said, "made_at": len(made)}
    return entry | ({"first": known} if known and digest(known) != digest(_deciding(before)) else {})


def _deciding(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in (*DECIDES, "published") if name in state}


def _order(log: Log, commit: str, made: Counter) -> list[int]:
    """How many runs were made from a commit that contains this one, from one that does not, and from an unknown one."""
    counts = [0, 0, 0]
    for prefix, n in made.items():
        of = log.full(prefix)
        counts[2 if of is None else 1 if not commit else int(not log.contains(of, commit))] += n
    return counts


def _short(commit: str) -> str:
    return commit[: gitlog.SHORT]


def _commits(versions: Iterable[gitlog.Version]) -> list[str]:
    return [_short(version.commit) for version in versions]


def _ledger(log: Log) -> tuple[dict[str, list[gitlog.Version]], dict[str, list[gitlog.Version]]]:
    """For each row of today its versions, and the verdicts that it was expected to have."""
    paths = {paper: f"book/claims/{paper}.yml" for paper in claims.PAPERS}
    margins = "book/claims/margins.yml"
    at = log.objects([*paths.values(), margins])
    text = log.contents(at.values())
    now = {path: (log.root / path).read_bytes() for path in paths.values()}
    table_now = (log.root / margins).read_bytes() if (log.root / margins).exists() else b""

    @functools.cache
    def ledger(blob: str, table: str) -> dict[str, tuple[str, str]]:
        return _states(text[blob], text[table] if table else b"")

    states, verdicts = {}, {}
    for path in paths.values():
        present = _states(now[path], table_now)
        for row in present:
            for place, by_row in enumerate((states, verdicts)):
                by_row[row] = log.versions(
                    lambda commit, row=row, path=path, place=place: (
                        ledger(at[commit, path], at.get((commit, margins), "")).get(row, (None, None))[place]
                        if (commit, path) in at
                        else None
                    ),
                    present[row][place],
                )
    return states, verdicts


def _states(text: bytes, margins: bytes) -> dict[str, tuple[str, str]]:
    """Of each row of a file of the ledger: what is judged, as text, and the verdict that is expected."""
    table = yaml.load(margins, Loader=plan_log.LOADER) or {}
    states = {}
    for row in _rows(text):
        judged = {name: row[name] for name in JUDGED if row.get(name)}
        if named := dict(_margins([row.get("rule"), row.get("corrected")], table)):
            judged["margins"] = named
        states[row["id"]] = (plain(judged), row.get("expects") or "")
    return states


def _rows(text: bytes) -> Iterator[dict[str, Any]]:
    """The rows of a file of the ledger, those of tables with what the table says for all."""
    section = ""
    for piece in re.split(r"(?m)^(?=claims:|tables:|  - )", text.decode()):
        section = next((name for name in ("claims", "tables") if piece.startswith(f"{name}:")), section)
        if not piece.startswith("  - "):
            continue
        (entry,) = _parsed(piece)
        if section == "claims":
            yield entry
            continue
        shared = {name: value for name, value in entry.items() if name not in ("rows", "columns")}
        for row in entry["rows"]:
            values = zip(entry["columns"], row["values"], strict=True)
            published = {column: value for column, value in values if value is not None}
            yield {**shared, **row, "id": f"{entry['id']}.{row['id']}", "published": published}


@functools.cache
def _parsed(piece: str) -> list[dict[str, Any]]:
    """An entry of the ledger; most are the same in most commits."""
    return yaml.load(piece, Loader=plan_log.LOADER)


def _margins(rule: Any, table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The margins that a rule names, with their values."""
    if isinstance(rule, list):
        for inner in rule:
            yield from _margins(inner, table)
    elif isinstance(rule, Mapping):
        if isinstance(named := rule.get("margin"), list) and len(named) == 2:
            metric, data = table.get(named[0], {}), {}
            data = table.get(metric.get("of"), metric).get("data", {}).get(named[1], {})
            yield "/".join(named), round(data.get("margin", float("nan")) * metric.get("times", 1), 12)
        for inner in rule.values():
            yield from _margins(inner, table)


def _written(log: Log) -> dict[str, list[str]]:
    """The first verdict of a row in the frozen results of the first days, where chapters wrote verdicts by code of
    their own, without a rule in the ledger: [commit, verdict].
    """
    names = [path for path, _ in log.files_ever("book/results")]
    at = log.objects(names)
    text = log.contents(at.values())
    by_row: dict[str, list[str]] = {}
    for commit in log.oldest_first():
        for path in names:
            if (commit, path) in at and at[commit, path] not in by_row.setdefault("", []):
                by_row[""].append(at[commit, path])
                records = json.loads(text[at[commit, path]]).get("records") or {}
                for row, record in records.items() if isinstance(records, Mapping) else ():
                    if isinstance(record, Mapping) and record.get("verdict"):
                        by_row.setdefault(row, [_short(commit), record["verdict"]])
    return by_row


# --- the file, and what it must agree with ----------------------------------------------------------------------------


def write(made: Mapping[str, Any], path: Path | None = None) -> None:
    """Store a history, a row a line."""
    files.publish(path or PATH, text(made))


def text(made: Mapping[str, Any]) -> str:
    """A history as its file has it."""
    blocks = []
    for name, block in made.items():
        if name in ("blocks", "parts", "rows"):
            lines = ",\n".join(f"{json.dumps(key)}:{plain(value)}" for key, value in block.items())
            blocks.append(f'"{name}":{{\n{lines}\n}}')
        else:
            blocks.append(f'"{name}":{plain(block)}')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def stale(stored: Mapping[str, Any]) -> list[str]:
    """What a stored history says otherwise than the log and the working tree: rows, and parts of plans, by id.

    A change that is not committed yet has no commit in the history, and keeps its blank until the file is made again.
    """
    log = _log(claims.ROOT)
    states, _ = _ledger(log)
    now = {row: _digests(versions) for row, versions in states.items()}
    then = {row: [(v["commit"], v["digest"]) for v in entry["versions"]] for row, entry in stored["rows"].items()}
    parts_now = {name: [(v["commit"], v["digest"]) for v in changes] for name, changes in _parts(log).items()}
    parts = {name: [(v["commit"], v["digest"]) for v in changes] for name, changes in stored["parts"].items()}
    differing = [row for row in {*now, *then} if not _agree(then.get(row, []), now.get(row, []))]
    differing += [part for part in {*parts_now, *parts} if not _agree(parts.get(part, []), parts_now.get(part, []))]
    return sorted(differing)


def _digests(versions: list[gitlog.Version]) -> list[tuple[str, str]]:
    return [(_short(v.commit), digest(json.loads(v.state) if v.state else {})) for v in versions]


def _agree(stored: list[tuple[str, str]], present: list[tuple[str, str]]) -> bool:
    same = [mark for _, mark in stored] == [mark for _, mark in present]
    return same and all(a in ("", b) for (a, _), (b, _) in zip(stored, present, strict=True))


def silent(stored: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Changes without a reason, as (row, digest): made with a run known or of unknown order, or where the page computes
    the values without runs, and after the commit up to which none were asked for.
    """
    log, written = _log(claims.ROOT), history.reasons()
    reasons, unsaid = written.by_state(), []
    if (since := log.full(written.since)) is None:
        raise ParameterError(f"{history.REASONS}: since = {written.since} is not a commit of this log.")
    for row, entry in stored["rows"].items():
        for version in entry["versions"]:
            commit = log.full(version["commit"]) if version["commit"] else None
            new = commit is None or not log.contains(since, commit)
            if new and _known(row, version["runs"]) and (row, version["digest"]) not in reasons:
                unsaid.append((row, version["digest"]))
    return unsaid


def _known(row: str, order: list[int]) -> bool:
    """Whether a result was, or may have been, known when a row was changed."""
    claim = claims.load_all().get(row)
    computed = claim is not None and claim.expects not in ("", claims.NOT_RUN)
    return bool(order[1] + order[2]) or (computed and not sum(order))


def _log(root: Path) -> Log:
    if not gitlog.available(root):
        raise ParameterError(f"{root} has no log, or a shallow one: the history of rules is made from the whole log.")
    return Log(root)


# --- plans and runs ---------------------------------------------------------------------------------------------------


def _parts(log: Log) -> dict[str, list[dict[str, Any]]]:
    """Each part of today's published plans, as "study/part": the states of its inputs, and what changed in each."""
    return {
        f"{study}/{part}": list(_changes(versions))
        for study in plans.studies()
        for part, versions in plan_log.versions(log, study, ("published",)).items()
    }


def _changes(versions: list[gitlog.Version]) -> Iterator[dict[str, Any]]:
    """The states of a part's inputs with the names of those that changed."""
    before: dict[str, Any] = {}
    for version in versions:
        now = json.loads(version.state) if version.state else before
        if version.state and (now != before or not before):
            changed = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
            yield {"commit": _short(version.commit), "digest": digest(now), "changed": changed}
            before = now


def _made() -> dict[str, dict[str, str]]:
    """Of each part of the published plans its runs, {a run's key: the commit from which it was made}."""
    by_part = {}
    for study in plans.studies():
        plan = plans.load(study)
        for part in plan.parts:
            lines = plans.Plan(study, plan.name, {part: plan.parts[part]}).reached()
            by_part[f"{study}/{part}"] = {
                f"{line['experiment']} {runs.key_of_line(line)}": line["made"]["commit"].removesuffix("-dirty")
                for line in lines
            }
    return by_part


@functools.cache
def _reads() -> dict[str, list[tuple[str, str]]]:
    """The parts that each row reads, as (study, part); none for a row that no chapter records."""
    known = {study: list(plans.load(study).parts) for study in plans.studies()}
    recorded = {row: claim for row, claim in claims.load_all().items() if claim.expects not in ("", claims.NOT_RUN)}
    return {row: reads.parts(claim.chapter, row, known) for row, claim in recorded.items()}


# --- the code that writes values --------------------------------------------------------------------------------------


def _code(log: Log, rows: list[str]) -> dict[str, list[gitlog.Version]]:
    """The states of the code that writes each row's values, wherever it lay."""
    folders = log.objects(FOLDERS)
    wanted: dict[str, set[str]] = {}  # of each state of a folder its files with code
    for (_, folder), tree in folders.items():
        if tree not in wanted:
            wanted[tree] = {blob for path, blob in log.files(tree) if CODE.match(f"{folder}/{path}")}
    named = _named(log, set().union(*wanted.values()))

    @functools.cache
    def of_tree(tree: str) -> dict[str, frozenset[str]]:
        by_row: dict[str, set[str]] = {}
        for blob in wanted[tree]:
            for ids, marks in named[blob].items():
                for row in _matching(ids, frozenset(rows)):
                    by_row.setdefault(row, set()).update(marks)
        return {row: frozenset(marks) for row, marks in by_row.items()}

    def state(commit: str, row: str) -> frozenset[str]:
        trees_here = (folders.get((commit, folder)) for folder in FOLDERS)
        return frozenset().union(*(of_tree(tree).get(row, frozenset()) for tree in trees_here if tree))

    return {row: log.versions(lambda commit, row=row: state(commit, row)) for row in rows}


def _named(log: Log, blobs: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """:func:`writers` of files by git's name; those of an earlier call are kept in ``_build``, to save time."""
    readers = (code_marks, reads, scan)
    program = hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in readers)).hexdigest()
    path = log.root / "_build" / "history.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known = known.get("files", {}) if known.get("program") == program else {}
    if new := set(blobs) - set(known):
        known |= {blob: code_marks.writers(content) for blob, content in log.contents(new).items()}
        path.parent.mkdir(exist_ok=True)
        files.publish(path, json.dumps({"program": program, "files": known}))
    return known


@functools.cache
def _matching(ids: str, rows: frozenset[str]) -> frozenset[str]:
    """The rows that a pattern of :func:`code_marks.writers` means."""
    return frozenset(row for row in rows if re.fullmatch(ids, row))
