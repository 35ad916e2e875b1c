"""The command line of the book: ``python -m book run 01_gmm_theory -p epsilon 0.5``."""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from book.evidence import runs_command
from dplib import files
from dplib.checks import ParameterError
from dplib.files import value


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run chapters of the book, look after its data, build its pages."""


main.add_command(runs_command.runs)


class _Run(click.Command):
    """``-p`` takes two words here, and one in a sweep: whoever writes that of the other command is told so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = 0
        while at < len(args):
            if args[at] == "-p" and "=" in (word := "".join(args[at + 1 : at + 2])):
                name, _, text = word.partition("=")
                raise ParameterError(
                    f"-p {word} is not allowed: a run takes `-p {name} {text or 'VALUE'}`. NAME=VALUES belongs to a "
                    "grid of runs, `python -m book sweep`."
                )
            at += 3 if args[at] == "-p" else 1
        return super().parse_args(ctx, args)


@main.command(cls=_Run)
@click.argument("chapter")
@click.option("-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="Set a parameter of the notebook.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Where the executed copy goes.")
@click.option("--page", is_flag=True, help="Also render the result as a page to read.")
@click.option("--inputs", default="", hidden=True, help="Digest of what it depends on, as make book has it.")
def run(chapter: str, pairs: tuple, output: Path | None, page: bool, inputs: str) -> None:
    """Execute a chapter (name or number) and say where the result is."""
    from book.evidence import execution, sources

    chapter = sources.resolve(chapter)
    parameters = {name: value(text) for name, text in pairs}
    if len(parameters) < len(pairs):
        twice = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        raise ParameterError(
            f"{twice} is given more than once: -p sets a parameter once. A grid is `python -m book sweep`."
        )
    output = output or _default_output(chapter, parameters)
    provenance = execution.run(chapter, parameters, output.resolve(), inputs=inputs)
    click.echo(f"{chapter} ran in {provenance['seconds']:.0f} s: {output.resolve().as_uri()}")
    if written := provenance.get("written"):
        click.echo(f"{', '.join(written)} was written while it ran: it may have run on both, before and after.")
    if page:
        from book.press import run_page

        click.echo(f"To read: {run_page.render(output.resolve()).as_uri()}")


@main.command()
@click.argument("chapter")
@click.argument("engine", nargs=-1, metavar="[-- SNAKEMAKE'S OPTIONS]")
@click.option("-p", "axes", multiple=True, metavar="NAME=VALUES", help="epsilon=0.1,0.3 or seed=0:20 or x=[1,2],[3].")
@click.option("--cores", default=1, show_default=True, type=click.IntRange(1), help="Cores of this machine to use.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where runs, table and figure go.")
@click.option("--profile", help="On a cluster: slurm, or the folder of a profile for Snakemake.")
@click.option("--dry-run", is_flag=True, help="Say how many runs, which are done, and roughly how long.")
@click.option("--retry-failed", "retry", is_flag=True, help="Also make the runs that failed before.")
def sweep(chapter: str, axes: tuple, engine: tuple, **options: Any) -> None:
    """Run a grid: CHAPTER (name, number or a notebook's path) with -p, or a YAML file that holds both."""
    from book.evidence import sweep as sweeps

    sys.exit(sweeps.command(chapter, axes, engine, **options))


@main.command()
@click.option("--verify", metavar="NAME", help="Check the files of one data set against their checksums.")
@click.option("--download", metavar="NAME", help="Fetch one data set from its publisher.")
def data(verify: str | None, download: str | None) -> None:
    """List the data sets: where each is, size, licence, whether it is present and verified."""
    from dplib import data as datasets

    if download:
        datasets.download(download)
    if verify:
        datasets.verify(verify)
    if download or verify:
        click.echo(f"{download or verify}: present, checksums verified.")
        return
    click.echo(datasets.listing())


@main.command()
@click.option("--draft", is_flag=True, help="Also from chapters that were executed on other sources than today's.")
@click.option("--cores", default=1, show_default=True, type=click.IntRange(1), help="Cores of this machine to use.")
def site(draft: bool, cores: int) -> None:
    """Render the site from the executed notebooks and the pages of book/."""
    import gc

    from book.press import pages

    gc.disable()  # it would look through notebooks and trees of code again and again, and find little
    with files.writing(pages.BUILD):
        click.echo(f"The book: {pages.build(draft=draft, cores=cores).as_uri()}")


@main.command()
def links() -> None:
    """Ask whether every address outside the book still answers; this needs the site and a network."""
    from book.press import pages

    click.echo(f"Every address answers: {pages.check_links()}")


@main.command("zip")
def zip_() -> None:
    """Pack the rendered site into one file."""
    from book.press import finish

    click.echo(f"The site: {finish.zip_site()}")


@main.command()
def pdf() -> None:
    """Print the rendered site as one PDF; this needs Chromium."""
    from book.press import ledger
    from book.press import pdf as printer

    click.echo(f"The book: {printer.build(ledger.gather(ledger.executed_chapters()))}")


@main.command()
def slides() -> None:
    """Render slides of the executed chapters."""
    from book.press import slides as decks

    with files.writing(decks.OUTPUT):
        click.echo(f"The slides: {decks.build().as_uri()}")


@main.command()
@click.argument("chapters", nargs=-1)
def elsewhere(chapters: tuple[str, ...]) -> None:
    """Wheels, and CHAPTERS (all of them unless named) as files that run outside of the repository."""
    from book.evidence import sources
    from book.press import elsewhere as away

    names = [sources.resolve(chapter) for chapter in chapters] or sources.chapters()
    for path in [*away.wheels(), *map(away.pack, names)]:
        click.echo(path)


@main.command("assignments")
@click.option("--seed", type=click.IntRange(0), help="Of a variant in which public solutions fail. Keep it secret.")
def assignments_(seed) -> None:
    """Make the assignments, and mark their solutions and an empty copy of each (make assignments has the set-up)."""
    from book.press import assignments

    for line in assignments.build(seed):
        click.echo(line)
    click.echo(f"The assignments: {assignments.OUTPUT.as_uri()}")


@main.command()
@click.option("--device", default="cuda", show_default=True, help="cuda, or cpu to try all of it on the processor.")
@click.option("--limit", default="5m", show_default=True, metavar="TIME", help="10m, 300s: longer means more runs.")
@click.option("--stage", "stages", multiple=True, help="This stage only; as often as you like.")
@click.option("--only-failed", is_flag=True, help="Only what failed, was killed or was not reached.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the report; _build/gpu.")
@click.option("--write", is_flag=True, help="Run nothing: write what the report says of a GPU for the book's page.")
def gpu(device: str, limit: str, stages: tuple[str, ...], only_failed: bool, out: Path | None, write: bool) -> None:
    """First light on a GPU, in five minutes: faults, speed, first runs."""
    from book.evidence import first_light

    out = out or first_light.OUT
    if write:
        click.echo(f"{first_light.write(out / 'report.jsonl')}: what the page On a GPU shows.")
        return
    if not first_light.run(device, out, runs_command.seconds(limit), stages, only_failed, said=runs_command._said):
        sys.exit(1)


@main.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--against", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="An earlier such file.")
def net(file: Path, against: Path | None) -> None:
    """Write every recorded value, verdict, answer and anchor to a file, and compare it with an earlier one."""
    from book.press import net as nets

    if against and file.exists() and file.samefile(against):
        raise ParameterError(f"{file} is both: the earlier values would be gone before they are compared.")
    if file.exists() and not nets.is_one(file):
        raise ParameterError(f"{file} is there, and no file of recorded values: move it away first.")
    recorded = nets.write(file)
    click.echo(f"{len(recorded['records'])} records, {len(recorded['anchors'])} anchors: {file}")
    if against and (lines := list(nets.differences(json.loads(against.read_text(encoding="utf-8")), recorded))):
        click.echo("\n".join(lines))
        sys.exit(1)


@main.command()
@click.argument("of", metavar="ROW|CHAPTER")
@click.argument("number", required=False, default="")
def where(of: str, number: str) -> None:
    """Where things are: of a row (D.fig1) its rule, code, runs and tests; of a chapter's NUMBER (11 0.093) its rows."""
    from book.press import where as places

    for line in places.lines(of, number):
        click.echo(line)


@main.command()
def chapters() -> None:
    """List the chapters."""
    from book.evidence import sources

    for chapter in sources.chapters():
        click.echo(chapter)


@main.command()
@click.option("--force", is_flag=True, help="The source counts, whatever was edited in the notebook.")
def pair(force: bool) -> None:
    """Bring each notebook (.ipynb) and its source (.md) in step: whichever was edited since they were counts."""
    from book.evidence import pairing, sources

    for chapter in sources.chapters():
        click.echo(pairing.pair(chapter, force=force))


@main.command("history")
@click.option("--check", is_flag=True, help="Write nothing; fail where the stored one is not that of rules and plans.")
def history_(check: bool) -> None:
    """Make the history of rules, book/claims/history.json, from the repository's log."""
    from book.evidence import history, history_log

    if not check:
        history_log.write(history_log.build())
    elif rows := history_log.stale(stored := history.read()):
        raise ParameterError(
            f"{history.PATH.name} is not what log and ledger say ({len(rows)}: {', '.join(rows[:12])}): "
            "`python -m book history` makes it."
        )
    for row, mark in history_log.silent(stored if check else history.read()):
        click.echo(f"{row} was changed with results known: a reason is asked for in reasons.yml, {{{row}: {mark}}}")


@main.group("readings")
def readings_() -> None:
    """Blind readings of the ledger: packets with plants, and how far two readings agree."""


@readings_.command("packets")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--first", default="", help="Ids of rows for the first batches, such as disputed ones, by commas.")
@click.option("--seed", default=0, show_default=True, help="Of the order, and of what is turned in a plant.")
def packets_(folder: Path, first: str, seed: int) -> None:
    """Write packets of the executed chapters' claims: FOLDER/batches for readers, and FOLDER/key.json for nobody."""
    from book.evidence import readings
    from book.press import ledger

    rows = [(row.claim, row.values, row.verdict) for row in ledger.gather(ledger.executed_chapters())]
    batches = readings.packets(rows, [id_.strip() for id_ in first.split(",")], seed)
    readings.write(batches, folder)
    click.echo(f"{sum(map(len, batches))} packets in {len(batches)} batches: {folder / 'batches'}")


@readings_.command("score")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--keep", is_flag=True, help="Store it for the page How to read a verdict.")
def score_(folder: Path, keep: bool) -> None:
    """Compare the readings of a FOLDER of packets: first/*.json, second/*.json, and third/*.json where they differ."""
    from book.evidence import readings

    _show(readings.score(folder), readings.PATH if keep else None)


@readings_.command("without-rule")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--papers", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Texts A*.txt to D*.txt.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Where the key lies: FOLDER/key.json.")
@click.option("--seed", default=0, show_default=True, help="Of the sample, its order, and what is turned.")
def without_rule_(folder: Path, papers: Path | None, key: Path | None, seed: int) -> None:
    """Write a sample of 60 packets that tell no rule: a sentence, the paper's text around it, the measured values."""
    from book.evidence import readings_without_rule as readings
    from book.press import ledger

    rows = [(row.claim, row.values, row.verdict) for row in ledger.gather(ledger.executed_chapters())]
    packets = readings.sample(rows, seed)
    readings.write(packets, folder, readings.passages(papers), key)
    plants = sum(packet.plant for packet in packets)
    click.echo(f"{len(packets)} packets, {plants} of them plants: {folder / 'batches'}")


@readings_.command("score-without-rule")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="FOLDER/key.json.")
@click.option("--keep", is_flag=True, help="Store it for the page How to read a verdict.")
def score_without_rule_(folder: Path, key: Path | None, keep: bool) -> None:
    """Compare two readings of packets without a rule, FOLDER/first/*.json and FOLDER/second/*.json."""
    from book.evidence import readings_without_rule as readings

    _show(readings.score(folder, key), readings.PATH if keep else None)


def _show(score: dict[str, Any], kept: Path | None) -> None:
    """Print the score of readings, and keep it in a file if there is to be one."""
    text = json.dumps(score, indent=1, ensure_ascii=False)
    if kept:
        files.publish(kept, text + "\n")
    click.echo(text)


def _default_output(chapter: str, parameters: dict[str, Any]) -> Path:
    """One file per setting, apart from the copies that the book is made of."""
    from book.evidence.execution import EXECUTED

    setting = json.dumps(parameters, sort_keys=True, default=str)
    return EXECUTED / "runs" / f"{chapter}-{hashlib.sha256(setting.encode()).hexdigest()[:8]}.ipynb"


def cli() -> None:
    """Entry point: a user's mistake is one sentence and exit status 2, never a stack of calls."""
    from book.evidence import alone, execution, places
    from book.evidence.execution import RunError
    from book.evidence.runs import RunFailed, StoreError

    alone.follow()
    # What this process starts runs the code of this tree as well, wherever an installation leads.
    here = str(Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # git would tell the commit of another repository
        os.environ.pop(name, None)
    try:
        execution.check_address_space()
        places.check()
        main(prog_name="python -m book")
    except (ParameterError, RunError, RunFailed, StoreError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except (OSError, MemoryError, ImportError, RuntimeError) as error:
        said = execution.of_memory(error) or (execution.of_disk(error) if isinstance(error, OSError) else "")
        if not said:
            raise
        click.echo(f"Error: {said}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    cli()
