"""Build the site: gather pages and executed notebooks in one folder, write the pages that come from data, render.

Jupyter Book reads ``_build/source``; nothing is executed by it, since papermill has done so.
"""

import base64
import copy
import html
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat

from book.evidence import claims, sources
from book.evidence.execution import AGAIN, RunError
from book.evidence.places import ROOT
from book.press import (
    authors,
    boxes,
    course,
    elsewhere,
    findings,
    finish,
    front,
    headlines,
    ledger,
    remembered,
    tables,
    teaching,
    typed,
    unchanged,
)
from book.press import week_slides as decks
from dplib import files

BUILD = ROOT / "_build"
SOURCE = BUILD / "source"
GENERATED = SOURCE / "book" / "_generated"
PAGES = BUILD / "pages"


def build(*, draft: bool = False) -> Path:
    """Render the site; returns its first page.

    Args:
        draft: whether chapters that were executed on other sources than today's are taken as well.

    Raises:
        RunError: when Sphinx gives a warning or an error, or the ledger does not bear out a chapter's box; for a
            chapter that is not of today's sources; and where something that the site shows was written meanwhile.
    """
    before = sources.state([*sources.site_files(), *ledger.executed_notebooks()])
    chapters = ledger.executed_chapters()
    if not draft:
        ledger.check_current(chapters)
    rows = ledger.gather(chapters)
    notebooks = _stage(rows)
    parts = {
        "front.html": front.page(rows, notebooks),
        "ledger.html": ledger.ledger_html(rows),
        "counts.md": tables.counts(rows),
        "findings.md": findings.markdown(rows),
        "readings.md": tables.readings(),
        "readings_without_rule.md": tables.readings_without_rule(),
        "changes.md": tables.changes(rows),
        "headlines.md": headlines.markdown(rows),
        "benchmarks.md": tables.benchmarks(),
        "status.md": tables.status(chapters),
        "data.md": tables.data_sets(),
        "course.md": course.markdown(),
        "seeds.md": remembered.computed("seeds", tables.seeds),
        "gpu.md": remembered.computed("gpu", lambda: tables.gpu([row.claim for row in rows])),
        "gpu_measured.md": tables.gpu_measured(),
    }
    for name, text in parts.items():
        (GENERATED / name).write_text(text, encoding="utf-8")
    front.draw_map(notebooks, SOURCE / "book" / "_static")
    _draw(rows)
    authors.build(rows, GENERATED)
    said = None if draft else typed.known(rows, notebooks)
    for part in headlines.parts():
        typed.check(part, said)
    teaching.build(GENERATED, said)
    elsewhere.archive(GENERATED / "handouts" / "dp-book.tar.xz")
    # The pages as Sphinx writes them lie apart: what shows nothing new stays, and is not written again.
    machine = _machine()
    every = [] if unchanged.begin(PAGES, SOURCE, machine) else ["--all"]
    if _jupyter_book(PAGES, *every, "-W", "-n", "--keep-going", "-q"):
        files.check_room(BUILD)
        raise RunError("the site has warnings, which count as errors: see above.")
    finish.finish(PAGES / "_build" / "html", BUILD / "html")
    decks.build(BUILD / "html", said, machine)
    if written := sources.written(before, [*sources.site_files(), *ledger.executed_notebooks()]):
        raise RunError(f"{', '.join(written)} was written while the site was rendered. {AGAIN}")
    remembered.forget_others()
    return BUILD / "html" / "index.html"


def _draw(rows: list[ledger.Row]) -> None:
    """Figures and dials. What draws them brings PyTorch, and is imported where they are not remembered."""
    undated = [replace(row, date="") for row in rows]  # that of the run, which no figure shows

    def figures(generated: Path, static: Path) -> None:
        from book.press import findings_figures, front_figures

        findings_figures.draw(undated, generated)
        front_figures.draw(undated, static)

    def turned(generated: Path, static: Path) -> None:
        from book.press import dials

        dials.build(generated, static)

    folders = [GENERATED, SOURCE / "book" / "_static"]
    remembered.filled(f"figures {undated!r}", folders, figures)
    remembered.filled("dials", folders, turned)


def _machine() -> str:
    """What differs where more has changed than the texts of pages and what chapters and ledger tell."""
    told = (claims.CLAIMS, claims.RESULTS, sources.PLANS, sources.KEPT)
    paths = [path for path in sources.site_files() if path.suffix != ".md" and path.parent not in told]
    return f"{sources.fingerprint(paths)} {remembered.versions()}"


def check_links() -> Path:
    """Ask whether every address outside the book answers, by Sphinx; the list of them all. The site must be built.

    Raises:
        RunError: when the pages are not there, or some address does not answer.
    """
    if not SOURCE.exists():
        raise RunError("there are no pages yet: make book makes them.")
    failed = _jupyter_book(BUILD / "links", "--all", "--builder", "linkcheck", "--keep-going")
    answers = BUILD / "links" / "_build" / "html" / "output.txt"
    if failed:
        raise RunError(f"some addresses do not answer, or there is no network: see {answers}.")
    return answers


def _jupyter_book(output: Path, *arguments: str) -> int:
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(SOURCE)]
    return subprocess.run([*program, "--path-output", str(output), *arguments], check=False).returncode


def _stage(rows: list[ledger.Row]) -> dict[str, nbformat.NotebookNode]:
    """Make the folder that Jupyter Book reads: pages, executed notebooks, configuration, and nothing left over.

    Returns:
        The executed notebooks by chapter, as they came.
    """
    shutil.rmtree(SOURCE, ignore_errors=True)
    for origin in sources.page_files():
        if origin.parent not in (claims.CLAIMS, claims.RESULTS):
            target = SOURCE / origin.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, target)
    (SOURCE / "notebooks").mkdir(exist_ok=True)
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in ledger.executed_notebooks()}
    for chapter, notebook in notebooks.items():
        dressed = _dressed(copy.deepcopy(notebook), chapter, rows)
        nbformat.write(dressed, SOURCE / "notebooks" / f"{chapter}.ipynb")
    GENERATED.mkdir(parents=True, exist_ok=True)
    return notebooks


def _add_past(notebook: nbformat.NotebookNode, rows: list[ledger.Row]) -> None:
    """Say on each card what is known of its row's history, which is not a chapter's to know."""
    told = {row.claim.id: row.past.sentences for row in rows}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        record = output.get("metadata", {}).get(claims.RECORD)
        if record and told.get(record["id"]):
            text = html.escape(" ".join(told[record["id"]]))
            head, _, tail = output.data["text/html"].rpartition("</details>")
            output.data["text/html"] = f"{head}<p class='unit'>{text}</p></details>{tail}"


def _dressed(notebook: nbformat.NotebookNode, chapter: str, rows: list[ledger.Row]) -> nbformat.NotebookNode:
    """An executed chapter as the site shows it: numbered, its box below the title, its figures small files."""
    finish.make_portable(notebook)
    _add_past(notebook, rows)
    boxes.insert(notebook, chapter, rows)
    opening = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    numbered = rf"# {sources.shown_number(chapter)}. \1"  # the text says "chapter 5", so menu and title do too
    opening.source = re.sub(r"^# (.+)$", numbered, opening.source, count=1, flags=re.MULTILINE)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if "image/png" in output.get("data", {}):
            png = finish.smaller(base64.b64decode(output.data["image/png"]))
            output.data["image/png"] = base64.b64encode(png).decode()
    return notebook
