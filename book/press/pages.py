"""Build the site: gather pages and executed notebooks in one folder, write the pages that come from data, render.

Jupyter Book reads ``_build/source``; nothing is executed by it, since papermill has done so.
"""

import base64
import html
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import itables
import nbformat
import pandas as pd
from itables.javascript import generate_init_offline_itables_html, to_html_datatable

from dplib import claims, rules, sources
from dplib.chapters import RunError
from dplib.claims import PAPERS, ROOT, VERDICTS
from press import benchmarks, boxes, carry, course, dials, findings, finish, ledger, links, sweep_cost

BUILD = ROOT / "_build"
SOURCE = BUILD / "source"
GENERATED = SOURCE / "book" / "_generated"
KINDS = {"A": "Larger models under DP", "B": "Architecture and features", "C": "Label DP", "D": "Noise screening"}


def build() -> Path:
    """Render the site; returns its first page.

    Raises:
        RunError: when Sphinx gives a warning or an error, or the ledger does not bear out a chapter's box.
    """
    chapters = ledger.executed_chapters()
    rows = ledger.gather(chapters)
    _stage(rows)
    _write("ledger.html", ledger_html(rows))
    _write("counts.md", counts_table(rows))
    findings.draw(rows, GENERATED)
    _write("findings.md", findings.markdown(rows))
    measured = benchmarks.load()
    benchmarks.draw(measured, GENERATED / "benchmarks.png")
    _write("benchmarks.md", benchmarks.markdown(measured))
    _write("sweeps.md", sweep_cost.markdown(sweep_cost.measured()))
    _write("status.md", status_tables(chapters))
    _write("data.md", data_table())
    _write("course.md", course.markdown())
    dials.build(GENERATED, SOURCE / "book" / "_static")
    _write("launch.md", carry.launch_markdown(carry.address()))
    _write("links.md", links.markdown(SOURCE))
    arguments = ["build", str(SOURCE), "--path-output", str(ROOT), "--all", "-W", "-n", "--keep-going", "-q"]
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    shutil.rmtree(BUILD / "html", ignore_errors=True)  # figures of earlier runs would stay, under other names
    done = subprocess.run([*program, *arguments], check=False)
    if done.returncode:
        raise RunError("the site has warnings, which count as errors: see above.")
    finish.finish(BUILD / "html")
    return BUILD / "html" / "index.html"


def ledger_html(rows: list[ledger.Row]) -> str:
    """The ledger as a table that sorts and filters in the browser, with its scripts inside (no network)."""
    table = pd.DataFrame(
        {
            "Paper": [row.claim.paper for row in rows],
            "Kind": [row.claim.kind for row in rows],
            "Verdict": [claims.badge(row.verdict) for row in rows],
            "Claim": [_claim_cell(row) for row in rows],
            "Published": [_values(row.claim.published, row) for row in rows],
            "Measured": [_measured_cell(row) for row in rows],
        }
    )
    bundle = generate_init_offline_itables_html(Path(itables.__file__).parent / "html" / "dt_bundle.js")
    body = to_html_datatable(
        table,
        connected=False,
        allow_html=True,
        table_id="ledger-table",
        classes="display compact",
        showIndex=False,
        maxBytes=0,
        paging=True,
        pageLength=25,
        lengthMenu=[25, 100, 1000],
        order=[],
        autoWidth=False,
        style="width:100%",
        columnDefs=[
            {"targets": [0, 1, 2], "columnControl": ["order", ["searchList"]]},
            {"targets": [3, 4, 5], "columnControl": ["order"]},
            {"targets": [3], "width": "38%"},
        ],
        ordering={"indicators": False, "handler": False},
        layout={"topStart": "search", "topEnd": "info", "bottomStart": "pageLength", "bottomEnd": "paging"},
    )
    return f'{bundle}<div class="ledger">{body}</div>'


def counts_table(rows: list[ledger.Row]) -> str:
    """Verdicts per paper as a Markdown table."""
    counts = Counter((row.claim.paper, row.verdict) for row in rows)
    head = "| paper | " + " | ".join(VERDICTS) + " | all |\n" + "|---" * (len(VERDICTS) + 2) + "|\n"
    lines = []
    for paper in PAPERS:
        numbers = [counts[paper, verdict] for verdict in VERDICTS]
        lines.append(f"| {paper}: {KINDS[paper]} | " + " | ".join(map(str, [*numbers, sum(numbers)])) + " |")
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


def _claim_cell(row: ledger.Row) -> str:
    claim = row.claim
    title = f"<strong>{html.escape(claim.where)}</strong> <code>{claim.id}</code>"
    if row.verdict != claims.NOT_RUN:
        title += f' <a href="../notebooks/{claim.chapter}.html#{claim.id}">chapter</a>'
    note = f'<br><span class="note">{html.escape(claim.note)}</span>' if claim.note else ""
    return f"{title}<br>{html.escape(claim.statement)}{note}"


def _measured_cell(row: ledger.Row) -> str:
    if row.verdict == claims.NOT_RUN:
        return f'<span class="note">chapter {row.claim.chapter}</span>'
    run = f"{row.profile} profile{', a run of its own' if row.own_run else ''}, {row.date}"
    if row.profile == claims.PUBLISHED:
        run = f"kept runs; their rule: {html.escape(rules.words(row.claim.rule))}"
    basis = f'<span class="note">{run}. {html.escape(row.because)}</span>'
    return f"{_values(row.values, row)}<br>{basis}"


def _values(values: dict, row: ledger.Row) -> str:
    parts = [
        f"{html.escape(row.claim.labels.get(name, name.replace('_', ' ')))}: {html.escape(claims.shown(value))}"
        for name, value in values.items()
    ]
    return "<br>".join(parts) or "–"


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
    """An executed chapter as the site shows it: its box below the title, its figures no larger than they need be."""
    carry.make_portable(notebook)
    boxes.insert(notebook, chapter, rows)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if "image/png" in output.get("data", {}):
            png = finish.smaller(base64.b64decode(output.data["image/png"]))
            output.data["image/png"] = base64.b64encode(png).decode()
    return notebook


def _write(name: str, text: str) -> None:
    (GENERATED / name).write_text(text, encoding="utf-8")
