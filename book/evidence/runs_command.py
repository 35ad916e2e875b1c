"""The command line of kept runs: ``python -m book runs``."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplib import files
from dplib.checks import ParameterError

if TYPE_CHECKING:  # the command line must answer before anything heavy is loaded
    from book.evidence.making import Shard
    from book.evidence.plans import Plan
    from book.evidence.runs import Line

UNITS = {"s": 1, "m": 60, "h": 3600}


def _named(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
    """Studies as `run` takes their chapters: 8, 08 or the whole name. What names no chapter stays, and is refused."""
    from book.evidence import sources

    def number(name: str) -> str:
        try:
            return sources.number(sources.resolve(name))
        except ParameterError:
            return name

    return tuple(map(number, given)) if isinstance(given, tuple) else given and number(given)


@click.group(invoke_without_command=True)
@click.pass_context
def runs(context: click.Context) -> None:
    """Kept runs: which are stored and which are missing, for each study and plan."""
    if context.invoked_subcommand is None:
        from book.evidence import plan_table

        for line in [*plan_table.lines(), "", *_of_files()]:
            click.echo(line)


@runs.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...", callback=_named)
@click.option("--plan", default="published", show_default=True, help="A plan of the study, or a YAML file of parts.")
@click.option("--workers", type=click.IntRange(1), help="Processes, each on one thread; 1 if not given.")
@click.option("--limit", metavar="TIME", help="End by 90m, 2h or 300s.")
@click.option("--shard", metavar="I/N", help="The I-th of N shares of the runs, such as 3/8.")
@click.option("--side-by-side", type=click.IntRange(2), help="Train so many models at once, where they can be.")
def make(studies: tuple[str, ...], plan: str, side_by_side: int | None, **options: Any) -> None:
    """Make the missing runs of studies; stopped at any time, the same command goes on."""
    from book.evidence import execution, making, plans

    execution.check_commit()
    wanted = [plans.load(study, plan) for study in studies]
    read = {"limit": seconds, "shard": shard}
    given = {name: read.get(name, int)(value) for name, value in options.items() if value is not None}
    if side_by_side and "limit" in given:
        raise ParameterError("limit is not allowed with side-by-side: how long models take together is not known.")
    if side_by_side:
        making.make_together(wanted, most=side_by_side, shard=given.get("shard", making.ALL), said=_said)
    missing = making.make(wanted, **given, said=_said)
    click.echo(f"At least {missing} still missing." if missing else "Nothing is missing.")
    click.echo("`python -m book runs keep` folds what was made into book/runs.")


@runs.command()
@click.option("--from", "source", type=click.Path(path_type=Path, exists=True), help="A clone, or lines.")
def keep(source: Path | None) -> None:
    """Fold the runs of _build/store into book/runs.

    With --from, those that were made elsewhere instead: in a clone, or a folder or file of lines (*.jsonl, */*.json).
    What this checkout cannot vouch for is refused, a sentence a line; the others are kept.
    """
    from book.evidence import merging
    from book.evidence import runs as kept

    counts, refused = merging.merge(source) if source else (kept.keep(), [])
    for name, count in counts.items():
        click.echo(f"{kept.KEPT / name}.jsonl: {count} new, {len(kept.lines(name))} in all.")
    if not counts:
        click.echo(f"No new runs in {source or '_build/store'}.")
    for sentence in refused:
        click.echo(f"REFUSED {sentence}")
    if refused:
        click.echo(f"{len(refused)} line(s) refused; they are where they were.")
        sys.exit(1)


@runs.command()
@click.argument("study", required=False, callback=_named)
@click.option("--sample", default=5, show_default=True, type=click.IntRange(1), help="How many runs.")
@click.option("--seed", type=click.IntRange(0), help="Of the choice; another one each time where none is given.")
@click.option("--most-seconds", default=120.0, show_default=True, help="What the runs took in all, at most.")
def check(study: str | None, sample: int, seed: int | None, most_seconds: float) -> None:
    """Make random stored runs again, and compare them with what is stored."""
    import secrets

    from book.evidence import plans, replay
    from book.evidence import runs as kept
    from dplib import checks

    checks.positive().check("most-seconds", most_seconds)
    seed = secrets.randbelow(10**6) if seed is None else seed
    reached = _reached([study] if study else plans.studies())
    here = [line for line in reached.values() if kept.has(line["device"])]
    drawn = replay.sample(here, sample, most_seconds, seed)
    click.echo(f"{len(drawn)} of {len(reached)} stored runs, drawn with --seed {seed}:")
    right = True
    for line in drawn:
        known = [known_line for known_line in reached.values() if known_line["experiment"] == line["experiment"]]
        try:
            fine, text = replay.replayed(line, known)
        except ParameterError as error:  # data that are not here are no fault; a job that is refused is one
            fine, text = type(error).__name__ == "DataError", f"not made: {error}"
        right &= fine
        _said(f"{'' if fine else 'DIFFERS '}{_shown(line)}: {text}")
    if not right:
        sys.exit(1)


@runs.command()
@click.argument("study", callback=_named)
@click.option("--plan", default="published", show_default=True, help="A plan of the study, or a YAML file of parts.")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where they go.")
def export(study: str, plan: str, folder: Path) -> None:
    """Write the stored runs of a plan as CSV and Parquet, one row a run."""
    from book.evidence import execution, plans, table_files

    lines = plans.load(study, plan).reached()
    if not lines:
        raise ParameterError(f"No run of plan {plan} of {study} is stored.")
    table = tidy(lines)
    stem = folder / f"{study}-{Path(plan).stem}"
    execution.check_writable(Path(f"{stem}.csv"))
    folder.mkdir(parents=True, exist_ok=True)
    with files.writing(folder):
        moved = table_files.write(
            table, Path(f"{stem}.csv"), lambda table: table.to_csv(index=False, lineterminator="\n")
        )
    click.echo(f"{len(table)} runs, {len(table.columns)} columns: {stem}.csv, {stem}.parquet")
    if moved:
        click.echo(moved)


@runs.command()
@click.option("--yes", is_flag=True, help="Remove them.")
def prune(yes: bool) -> None:
    """List the stored runs that no plan reaches. None that a plan may reach, which is not complete, is removed."""
    from book.evidence import plans
    from book.evidence import runs as kept

    reached = _reached(plans.studies())
    open_plans = [plan for plan in _plans() if plan.missing()]
    wanted = plans.experiments(*{plan.study for plan in open_plans}) if open_plans else {}
    for name in kept.names():
        gone = [line for line in kept.lines(name) if (name, kept.key_of_line(line)) not in reached]
        version = wanted[name].experiment.version if name in wanted else None
        if yes and (safe := [line for line in gone if line["version"] != version]):
            kept.remove(name, safe)
        for line in gone:
            said = "removed" if yes and line["version"] != version else "no plan reaches"
            click.echo(f"{said} {_shown(line)} (version {line['version']})")
    if open_plans:
        shown = ", ".join(f"{plan.study} {plan.name}" for plan in open_plans)
        click.echo(f"These plans are not complete, and may reach more once they are: {shown}.")


@runs.command()
@click.argument("experiment")
def rekey(experiment: str) -> None:
    """Give stored runs the arguments that their experiment has got since, with their defaults."""
    from book.evidence import plans
    from book.evidence import runs as kept
    from dplib import checks

    known = plans.experiments()
    checks.one_of(*known).check("experiment", experiment)
    click.echo(f"{kept.rekey(known[experiment])} of {len(kept.lines(experiment))} lines changed.")


@runs.command()
@click.option("--write", is_flag=True, help="Store the results.")
def probe(write: bool) -> None:
    """Make the probe of every experiment, and compare it with the stored one."""
    from book.evidence import replay
    from book.evidence import runs as kept

    try:
        stored = replay.stored_probes()
    except kept.StoreError:
        if not write:
            raise
        stored = {}
    probes_ = replay.probes()
    told = replay.changes(stored, probes_)
    for line in told:
        click.echo(line)
    if write:
        replay.write_probes(probes_)
        click.echo(f"{len(probes_)} probes: {replay.probes_file()}")
    elif told:
        sys.exit(1)
    else:
        click.echo(f"{len(probes_)} probes agree.")


def seconds(text: str) -> float:
    """Seconds of "90m", "2h" or "300s"; ParameterError for anything else."""
    if not (match := re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)):
        raise ParameterError(f"limit = {text} is not allowed: it must be a number of s, m or h, such as 90m.")
    return float(match[1]) * UNITS[match[2]]


def shard(text: str) -> "Shard":
    """The share that "3/8" names; ParameterError for anything else."""
    from book.evidence.making import Shard

    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ParameterError(f"shard = {text} is not allowed: it must be I/N with I from 1 to N, such as 3/8.")
    return Shard(int(match[1]), int(match[2]))


def tidy(lines: "Sequence[Line]") -> Any:
    """A data frame of stored lines: experiment, version, device, job_*, results, made_*.

    What is nested is JSON text, and so is a column that holds texts and numbers.
    """
    import pandas as pd

    rows = [
        {key: line[key] for key in ("experiment", "version", "device")}
        | {f"job_{key}": _cell(value) for key, value in line["job"].items()}
        | {key: _cell(value) for key, value in line["result"].items()}
        | {f"made_{key}": _cell(value) for key, value in line["made"].items()}
        for line in lines
    ]
    table = pd.DataFrame(rows, dtype=object)  # else an integer beside a gap would be a float
    return table.apply(_column)


def _column(values: Any) -> Any:
    """One type for a column, as Parquet wants it: texts where texts and numbers are mixed."""
    kinds = {type(value) for value in values.dropna()}
    numbers = {"boolean": {bool}, "Int64": {int}, "Float64": {int, float}}
    kind = next((name for name, types in numbers.items() if kinds and kinds <= types), "string")
    return (values.map(str, na_action="ignore") if kind == "string" else values).astype(kind)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping | list) else value


def _of_files() -> list[str]:
    from book.evidence import runs as kept

    texts = []
    for name in kept.names():
        count, commits = kept.summary(name)
        commits = [commit or "none" for commit in commits]
        more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
        size = (kept.KEPT / f"{name}.jsonl").stat().st_size
        texts.append(f"{name}: {count} lines, {size:,} bytes, commits {', '.join(commits[:3])}{more}")
    waiting = {path.name: len(list(path.glob("*.json"))) for path in sorted(kept.STORE.glob("*")) if path.is_dir()}
    text = ", ".join(f"{count} of {name}" for name, count in waiting.items() if count)
    return [*texts, *([f"In _build/store, for `python -m book runs keep`: {text}."] if text else [])]


def _plans(studies: Sequence[str] = ()) -> "list[Plan]":
    """All plans of studies, or of all of them."""
    from book.evidence import plans

    return [plans.load(study, name) for study in studies or plans.studies() for name in plans.names(study)]


def _reached(studies: Sequence[str]) -> "dict[tuple[str, str], Line]":
    """The stored lines that any plan of the studies reaches, by experiment and key."""
    from book.evidence import runs as kept

    lines = [line for plan in _plans(studies) for line in plan.reached()]
    return {(line["experiment"], kept.key_of_line(line)): line for line in lines}


def _shown(line: "Line") -> str:
    from book.evidence import plans

    function = plans.experiments().get(line["experiment"])
    try:
        return plans.shown(plans.Wanted(function, line["job"], line["device"]))
    except (AttributeError, ParameterError):  # of an experiment that is gone, or has other arguments now
        return f"{line['experiment']} {json.dumps(line['job'])}"


def _said(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()  # a log that is read while hours pass
