"""Which runs of each plan are stored and which are missing: the table of ``python -m book runs``.

To go through all plans is to look up sixty thousand runs. So what was found for a study is remembered, by the contents
of all that it follows from: its plans, its module with all that this imports, the data files that these name, and the
runs of its experiments. Where one of them is another, the study is gone through again.
"""

import hashlib
from collections.abc import Sequence

from book.evidence import plans, runs, scan, sources

ROW = "{:<8} {:<12} {:>7} {:>14} {:>12} {:>16}".format


def lines() -> list[str]:
    """The table: a line for each plan of each study."""
    head = ROW("study", "plan", "stored", "missing", "core-hours", "hours missing")
    return [head, *(ROW(study, *row) for study in plans.studies() for row in _rows(study))]


def _rows(study: str) -> list[list[str]]:
    """Plan, stored runs, missing ones, core-hours spent and missing, of each plan of a study."""
    module = plans.module_name(study)
    if not sources.is_ours(module):  # what it imports is not known
        return _found(study)
    return scan.remembered(f"plans {study} {_known_by(study, module)}", lambda: _found(study))


def _known_by(study: str, module: str) -> str:
    """A digest of all that the rows of a study follow from."""
    modules = {*sources.module_files(module), *sources.module_files(__name__)}
    experiments = sorted(sources.experiments(modules))
    kept = [path for name in experiments if (path := runs.KEPT / f"{name}.jsonl").exists()]
    # A file of the store has one run, appears whole and is never written again.
    filed = sorted(path.name for name in experiments for path in (runs.STORE / name).glob("*.json"))
    read = sorted({plans.PLANS / f"{study}.yml", *modules, *sources.named_data(modules), *kept})
    return hashlib.sha256(repr([sources.fingerprint(read, documented=False), filed]).encode()).hexdigest()


def _found(study: str) -> list[list[str]]:
    from book.evidence import making

    looked = {name: plans.load(study, name).look() for name in plans.names(study)}
    seconds = iter(making.estimates([run for _, missing in looked.values() for run in missing]))  # of all, in one go
    rows = []
    for name, (reached, missing) in looked.items():
        spent = sum(line["made"]["processor_seconds"] for line in reached) / 3600
        least = f"at least {len(missing)}" if missing else "0"
        rows.append([name, str(len(reached)), least, f"{spent:.2f}", _hours([next(seconds) for _ in missing])])
    return rows


def _hours(seconds: Sequence[float | None]) -> str:
    known = [second for second in seconds if second is not None]
    unknown = f"{len(seconds) - len(known)} unknown" if len(known) < len(seconds) else ""
    return " + ".join(filter(None, [f"{sum(known) / 3600:.2f}" if known or not seconds else "", unknown]))
