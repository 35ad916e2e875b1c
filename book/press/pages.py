"""Build the site: gather pages and executed notebooks in one folder, write the pages that come from data, render.

Jupyter Book reads ``_build/source``; nothing is executed by it, since papermill has done so.
"""

import base64
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat

from dplib import claims, sources
from dplib.claims import PAPERS, ROOT, VERDICTS
from dplib.execution import RunError
from press import benchmarks, boxes, carry, course, dials, findings, finish, gpu, ledger, ledger_page, seeds, sweep_cost

BUILD = ROOT / "_build"
SOURCE = BUILD / "source"
GENERATED = SOURCE / "book" / "_generated"


def build() -> Path:
    """Render the site; returns its first page.

    Raises:
        RunError: when Sphinx gives a warning or an error, or the ledger does not bear out a chapter's box.
    """
    chapters = ledger.executed_chapters()
    rows = ledger.gather(chapters)
    _stage(rows)
    measured = benchmarks.load()
    parts = {
        "ledger.html": ledger_page.ledger_html(rows),
        "counts.md": counts_table(rows),
        "findings.md": findings.markdown(rows),
        "benchmarks.md": benchmarks.markdown(measured),
        "sweeps.md": sweep_cost.markdown(sweep_cost.measured()),
        "status.md": status_tables(chapters),
        "data.md": data_table(),
        "course.md": course.markdown(),
        "seeds.md": seeds.markdown(),
        "gpu.md": gpu.markdown([row.claim for row in rows]),
        "launch.md": carry.launch_markdown(carry.address()),
    }
    for name, text in parts.items():
        (GENERATED / name).write_text(text, encoding="utf-8")
    findings.draw(rows, GENERATED)
    benchmarks.draw(measured, GENERATED / "benchmarks.png")
    dials.build(GENERATED, SOURCE / "book" / "_static")
    shutil.rmtree(BUILD / "html", ignore_errors=True)  # figures of earlier runs would stay, under other names
    if _jupyter_book(ROOT, "--all", "-W", "-n", "--keep-going", "-q"):
        raise RunError("the site has warnings, which count as errors: see above.")
    finish.finish(BUILD / "html")
    return BUILD / "html" / "index.html"


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


def counts_table(rows: list[ledger.Row]) -> str:
    """Verdicts per paper as a Markdown table."""
    counts = Counter((row.claim.paper, row.verdict) for row in rows)
    head = "| paper | " + " | ".join(VERDICTS) + " | all |\n" + "|---" * (len(VERDICTS) + 2) + "|\n"
    lines = []
    for paper in PAPERS:
        numbers = [counts[paper, verdict] for verdict in VERDICTS]
        lines.append(
            f"| {paper}: {ledger_page.KINDS[paper]} | " + " | ".join(map(str, [*numbers, sum(numbers)])) + " |"
        )
    return head + "\n".join(lines) + "\n"


def status_tables(chapters: list[ledger.Executed]) -> str:
    """Each chapter's last execution: seconds, profile, hardware, versions, and what it rests on."""
    head = "| chapter | seconds | date | commit | seeds | data |\n|---|---:|---|---|---|---|\n"
    lines = []
    for run in chapters:
        p, b = run.provenance, run.basis
        names = ", ".join(d["name"] for d in b.get("datasets", ())) or "–"
        link = f"[{run.chapter}](../notebooks/{run.chapter})"
        commit = f"`{p['commit']}`" if p["commit"] else "–"
        lines.append(f"| {link} | {p['seconds']:.0f} | {p['date'][:10]} | {commit} | {b.get('seeds', '–')} | {names} |")
    machines = "\n".join(f"- **{run.chapter}**: {_machine(run.provenance)}" for run in chapters)
    return head + "\n".join(lines) + "\n\n" + machines + "\n"


def data_table() -> str:
    """The data sets as a Markdown table: papers, size, licence, what each stands in for; not what is present here."""
    from dplib import data

    head = "| name | papers | size | licence | note |\n|---|---|---:|---|---|\n"
    lines = []
    for row in data.table():
        size = f"{row.bytes / 1e6:.1f} MB" if row.bytes else "in scikit-learn" if row.embedded else "–"
        note = f"stand-in for {row.stand_in_for}" if row.stand_in_for else ""
        lines.append(f"| `{row.name}` | {', '.join(row.papers)} | {size} | {row.licence} | {note} |")
    return head + "\n".join(lines) + "\n"


def _machine(provenance: dict) -> str:
    hardware, versions = provenance["hardware"], provenance["versions"]
    gpu = f", {hardware['gpu']}" if hardware["gpu"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return f"{hardware['processor']}, {hardware['cores']} cores{gpu}, {hardware['system']}; {packages}"


def _stage(rows: list[ledger.Row]) -> None:
    """Make the folder that Jupyter Book reads: pages, executed notebooks, configuration, and nothing left over."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for origin in sources.page_files():
        if origin.parent not in (claims.CLAIMS, claims.RESULTS):
            target = SOURCE / origin.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, target)
    (SOURCE / "notebooks").mkdir(exist_ok=True)
    for path in ledger.executed_notebooks():
        nbformat.write(_dressed(nbformat.read(path, as_version=4), path.stem, rows), SOURCE / "notebooks" / path.name)
    GENERATED.mkdir(parents=True, exist_ok=True)


def _dressed(notebook: nbformat.NotebookNode, chapter: str, rows: list[ledger.Row]) -> nbformat.NotebookNode:
    """An executed chapter as the site shows it: numbered, its box below the title, its figures small files."""
    carry.make_portable(notebook)
    boxes.insert(notebook, chapter, rows)
    opening = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    numbered = rf"# {sources.shown_number(chapter)}. \1"  # the text says "chapter 5", so menu and title do too
    opening.source = re.sub(r"^# (.+)$", numbered, opening.source, count=1, flags=re.MULTILINE)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if "image/png" in output.get("data", {}):
            png = finish.smaller(base64.b64decode(output.data["image/png"]))
            output.data["image/png"] = base64.b64encode(png).decode()
    return notebook
