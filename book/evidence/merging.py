"""Lines of runs that were made elsewhere, in a clone or on a machine without a repository: checked, then merged.

Part of :mod:`book.evidence.runs`; ``python -m book runs keep --from FOLDER``.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from book.evidence import agreement, execution, jobs, machines, plans, runs
from dplib import checks
from dplib.checks import ParameterError

FIELDS = {"experiment", "version", "job", "data", "device", "result", "made"}
_TIME = checks.numbers(0)
# What every run has said of how it was made.
MADE = {
    "seconds": _TIME,
    "processor_seconds": _TIME,
    "date": checks.Rule("a text", lambda value: isinstance(value, str)),
    "processor": checks.Rule("a text", lambda value: isinstance(value, str)),
    "capability": checks.Rule("a text", lambda value: isinstance(value, str)),
    "threads": checks.integer(1),
    "versions": checks.Rule("a mapping", lambda value: isinstance(value, Mapping)),
}


def merge(source: Path) -> tuple[dict[str, int], list[str]]:
    """Merge lines that came back into ``book/runs``: {experiment: new lines}, and a sentence for each line refused.

    ``source`` is a clone (its ``book/runs`` and ``_build/store``), a folder of such files, or one file of lines. It is
    only read, so that what is refused is still there. ParameterError where it holds no line.
    """
    experiments, commits = plans.experiments(), execution.log()
    new: dict[str, dict[str, runs.Line]] = {}
    stored: dict[str, dict[str, runs.Line]] = {}
    refused, place = [], None
    for place, folder, text in _texts(source):
        try:
            key, line = jobs.parsed(text.decode())
            line = machines.whole(line, folder)
            name = line["experiment"]
            if name not in stored:
                stored[name] = {runs.key_of_line(known): known for known in runs.lines(name)}
            known = stored[name].get(key) or new.get(name, {}).get(key)
            if known is None:
                _check(line, experiments, commits)
                new.setdefault(name, {})[key] = line
            elif known["result"] != line["result"] and agreement.disagreement(known, line, [*stored[name].values()]):
                raise ParameterError(f"another result is stored for this job of {name}: {key}")
        except ParameterError as error:
            refused.append(f"{place}: {error}")
        except runs.DAMAGE as error:
            refused.append(f"{place} is no line of a run ({type(error).__name__}: {error}).")
    if place is None:
        raise ParameterError(f"from = {source} is not allowed: it must hold lines of runs, *.jsonl or */*.json.")
    return {name: count for name, lines in new.items() if (count := runs.merge(name, lines.values()))}, refused


def _texts(source: Path) -> Iterator[tuple[str, Path, bytes]]:
    """Places, folders and texts of what may be lines."""
    # A clone may keep its runs meanwhile: what has left its store by then is in its files, which are read after it.
    inside = [folder for folder in (source / "_build" / "store", source / "book" / "runs") if folder.is_dir()]
    folders = inside or [source]
    files = (path for folder in folders for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*/*.json")]))
    for path in [source] if source.is_file() else files:
        if path.suffix == ".json":
            with contextlib.suppress(FileNotFoundError):
                yield str(path), path.parent, path.read_bytes()
            continue
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                yield f"{path}, line {number}", path.parent, text


def _check(line: runs.Line, experiments: Mapping[str, Callable], commits: Collection[str]) -> None:
    """ParameterError where a line is not what this checkout's experiment would write, or names no commit of its log."""
    if set(line) != FIELDS:
        raise ParameterError(f"it must have {', '.join(sorted(FIELDS))}, and has {', '.join(sorted(line))}.")
    if (function := experiments.get(line["experiment"])) is None:
        raise ParameterError(f"experiment = {line['experiment']!r} is not one of a plan's module.")
    here = runs.identity(function, runs.as_called(line["job"]), line["device"])
    if line["device"] not in ("cpu", "cuda") or runs.key_of_line(here) != runs.key_of_line(line):
        field = next((field for field in ("version", "data", "job") if here[field] != line[field]), "device or job")
        raise ParameterError(f"its {field} is not what {line['experiment']} has here.")
    jobs.as_text(line)
    if not line["result"]:
        raise ParameterError("its result is empty.")
    for name, rule in MADE.items():
        rule.check(f"made.{name}", line["made"].get(name))
    commit = line["made"].get("commit", "").removesuffix("-dirty")
    if len(commit) < 7 or not any(known.startswith(commit) for known in commits):
        raise ParameterError(f"commit = {commit!r} is not in this checkout's log: fetch it first, if it is one.")
