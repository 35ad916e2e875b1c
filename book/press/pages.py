"""Build the site: gather pages and executed notebooks in one folder, write the pages that come from data, render.

Jupyter Book reads ``_build/source``; nothing is executed by it, since papermill has done so.
"""

import base64
import copy
import html
import re
import shutil
from collections.abc import Iterator, Mapping
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
    render,
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


def build(*, draft: bool = False, cores: int = 1) -> Path:
    """Render the site; returns its first page.

    Args:
        draft: whether chapters that were executed on other sources than today's are taken as well.
        cores: of this machine to use; the site is the same.

    Raises:
        RunError: when Sphinx gives a warning or an error, or the ledger does not bear out a chapter's box; for a
            chapter that is not of today's sources; and where something that the site shows was written meanwhile.
    """
    before = sources.state([*sources.site_files(), *ledger.executed_notebooks()])
    chapters = ledger.executed_chapters()
    if not draft:
        ledger.check_current(chapters)
    rows = ledger.gather(chapters)
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in ledger.executed_notebooks()}
    _stage_pages()
    static, handed_out = SOURCE / "book" / "_static", GENERATED / "handouts" / "dp-book.tar.xz"
    slow = {
        "front.html": lambda: front.page(rows, notebooks),
        "seeds.md": lambda: remembered.computed("seeds", tables.seeds),
        "gpu.md": lambda: remembered.computed("gpu", lambda: tables.gpu([row.claim for row in rows])),
    }
    pictures = [lambda notebook=notebook: list(map(_small, _pictures(notebook))) for notebook in notebooks.values()]
    # In one process, for they read the same runs, and each would bring PyTorch.
    computed = [lambda: _draw_dials(static), *slow.values(), lambda: _draw_figures(rows, static)]
    said = None if draft else typed.known(rows, notebooks)
    making = [lambda: [make() for make in computed], lambda: elsewhere.archive(handed_out), *pictures]
    with remembered.ahead(making, cores):
        parts = _parts(rows, chapters)
        authors.build(rows, GENERATED)
        for part in headlines.parts():
            typed.check(part, said)
        teaching.build(GENERATED, said)
    for name, text in {**parts, **{name: make() for name, make in slow.items()}}.items():
        (GENERATED / name).write_text(text, encoding="utf-8")
    _stage_chapters(notebooks, rows)
    front.draw_map(notebooks, static)
    _draw_figures(rows, static)
    _draw_dials(static)
    elsewhere.archive(handed_out)
    slides = _render(static, said, cores)
    finish.finish(PAGES / "_build" / "html", BUILD / "html")
    shutil.copytree(slides, BUILD / "html" / "slides")
    if written := sources.written(before, [*sources.site_files(), *ledger.executed_notebooks()]):
        raise RunError(f"{', '.join(written)} was written while the site was rendered. {AGAIN}")
    remembered.forget_others()
    return BUILD / "html" / "index.html"


def _parts(rows: list[ledger.Row], chapters: list[ledger.Executed]) -> dict[str, str]:
    """What pages include that comes from data: files by name."""
    return {
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
        "gpu_measured.md": tables.gpu_measured(),
    }


def _render(static: Path, said: typed.Known | None, cores: int) -> Path:
    """Have Sphinx render the pages, and the weeks' slides made beside it; returns the folder of slides."""
    # The pages as Sphinx writes them lie apart: what shows nothing new stays, and is not written again.
    machine = _machine()
    fresh = [] if unchanged.begin(PAGES, SOURCE, machine) else ["--fresh"]
    with render.start(SOURCE, PAGES, f"--cores={cores}", *fresh) as rendering:
        if cores == 1:
            rendering.wait()
        slides = decks.build(static, said, machine)
    if rendering.returncode:
        files.check_room(BUILD)
        raise RunError("the site has warnings, which count as errors: see above.")
    return slides


# What draws figures and dials brings PyTorch, and is imported where they are not remembered.


def _draw_figures(rows: list[ledger.Row], static: Path) -> None:
    def figures(generated: Path, static: Path) -> None:
        from book.press import findings_figures, front_figures

        findings_figures.draw(rows, generated)
        front_figures.draw(rows, static)

    remembered.filled(f"figures {rows!r}", [GENERATED, static], figures)


def _draw_dials(static: Path) -> None:
    def turned(generated: Path, static: Path) -> None:
        from book.press import dials

        dials.build(generated, static)

    remembered.filled("dials", [GENERATED, static], turned)


def _machine() -> str:
    """What differs where more has changed than the texts of pages, docstrings and what chapters and ledger tell."""
    told = (claims.CLAIMS, claims.RESULTS, sources.PLANS, sources.KEPT)
    paths = [path for path in sources.site_files() if path.suffix != ".md" and path.parent not in told]
    return f"{sources.fingerprint(paths, documented=False)} {remembered.versions()}"


def check_links() -> Path:
    """Ask whether every address outside the book answers, by Sphinx; the list of them all. The site must be built.

    Raises:
        RunError: when the pages are not there, or some address does not answer.
    """
    if not SOURCE.exists():
        raise RunError("there are no pages yet: make book makes them.")
    failed = render.start(SOURCE, BUILD / "links", "--fresh", "--builder=linkcheck").wait()
    answers = BUILD / "links" / "_build" / "html" / "output.txt"
    if failed:
        raise RunError(f"some addresses do not answer, or there is no network: see {answers}.")
    return answers


def _stage_pages() -> None:
    """Make the folder that Sphinx reads, with pages and configuration, and nothing left over."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for origin in sources.page_files():
        if origin.parent not in (claims.CLAIMS, claims.RESULTS):
            target = SOURCE / origin.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, target)
    (GENERATED / "handouts").mkdir(parents=True)


def _stage_chapters(notebooks: Mapping[str, nbformat.NotebookNode], rows: list[ledger.Row]) -> None:
    """Put the executed chapters there, as the site shows them."""
    (SOURCE / "notebooks").mkdir(exist_ok=True)
    for chapter, notebook in notebooks.items():
        dressed = _dressed(copy.deepcopy(notebook), chapter, rows)
        nbformat.write(dressed, SOURCE / "notebooks" / f"{chapter}.ipynb")


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
    for data in _pictures(notebook):
        data["image/png"] = base64.b64encode(_small(data)).decode()
    return notebook


def _pictures(notebook: nbformat.NotebookNode) -> Iterator[dict]:
    """The data of each output with a picture."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return (output.data for output in outputs if "image/png" in output.get("data", {}))


def _small(data: Mapping[str, str]) -> bytes:
    return finish.smaller(base64.b64decode(data["image/png"]))
