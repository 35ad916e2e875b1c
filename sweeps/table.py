"""What a sweep leaves to look at: the tidy table (CSV and Parquet), and an index that links each executed notebook.

One row a run, in the order of the grid: ``key``, ``status``, ``reason``, ``seconds``, ``host``, ``commit``, the
parameters, the recorded results. The rows are read twice, first for their columns, and never all held at once.
"""

import contextlib
import csv
import html
import itertools
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from sweeps.sweep import Plan

FIRST = {"key": "text", "status": "text", "reason": "text", "seconds": "real", "host": "text", "commit": "text"}
ROWS = 1000  # of a Parquet row group, and so in memory at once
TYPES = {"text": pa.string(), "real": pa.float64(), "whole": pa.int64(), "truth": pa.bool_()}
ODD = (bool, list, dict)  # for which CSV has no form of its own
STYLE = """body{font:16px/1.5 sans-serif;margin:2rem;max-width:80rem}table{border-collapse:collapse}
td,th{padding:.2rem .6rem;border-bottom:1px solid #ccc;text-align:left;overflow-wrap:anywhere;max-width:30rem}
img{max-width:100%}tr.bad td{background:#fbe9e7;color:#000}"""
SUMMARY = """, <a href="summary.ipynb">summary notebook</a></p>
<p>The recorded numbers that the parameters move most, nine at most; the rest is in the table.</p>
<p><img src="summary.png" alt="Recorded numbers over the grid, means with 95% intervals">"""


def write(plan: "Plan", folder: Path) -> dict[str, int]:
    """Write ``table.csv`` and ``table.parquet``, each in one step; returns how many runs have which status."""
    columns: dict[str, str | None] = dict(FIRST)
    counts: dict[str, int] = {}
    for about, parameters, results in _runs(plan):
        counts[about["status"]] = counts.get(about["status"], 0) + 1
        for name, value in {**_named(parameters), **results}.items():
            columns[name] = _wider(columns.get(name), value)
    with _in_one_step(folder / "table.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
        # Quotes tell a text from a number, and keep a lone carriage return in its place.
        table = csv.DictWriter(file, list(columns), quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        table.writeheader()
        for row in rows(plan):
            table.writerow({name: _text(value) if isinstance(value, ODD) else value for name, value in row.items()})
    schema = pa.schema([(name, TYPES[kind or "text"]) for name, kind in columns.items()])
    with _in_one_step(folder / "table.parquet") as path, pq.ParquetWriter(path, schema) as table:
        left = rows(plan)
        while some := list(itertools.islice(left, ROWS)):
            arrays = [[_fitting(row.get(name), columns[name]) for row in some] for name in columns]
            table.write_table(pa.table([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema))
    return counts


def rows(plan: "Plan") -> Iterator[dict[str, Any]]:
    """The rows of the table, made one at a time."""
    for about, parameters, results in _runs(plan):
        yield {**about, **_named(parameters), **results}


def write_index(plan: "Plan", folder: Path, counts: Mapping[str, int], *, summary: bool) -> Path:
    """Write ``index.html``: counts, links to table, summary and every executed notebook; returns its path."""
    varied = [name for name, values in plan.grid.axes.items() if len(values) > 1] or list(plan.grid.axes)
    title = html.escape(f"Sweep of {plan.grid.name}")
    counted = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in [*varied, "status", "seconds", "notebook"])
    with _in_one_step(folder / "index.html") as path, path.open("w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
            f"<h1>{title}</h1><p>{len(plan.grid)} runs: {counted}. "
            '<a href="table.csv">table.csv</a>, <a href="table.parquet">table.parquet</a>'
            f"{SUMMARY if summary else ''}</p><table><thead><tr>{heads}</tr></thead><tbody>\n"
        )
        for about, parameters, _ in _runs(plan):
            status = f"{about['status']}: {about['reason']}" if about["reason"] else about["status"]
            cells = [*(parameters[name] for name in varied), status, about.get("seconds", "")]
            texts = [value if isinstance(value, str) else _text(value) for value in cells]
            shown = [text if len(text) <= 300 else text[:297] + "..." for text in texts]
            file.write("<tr>" if about["status"] == "done" else '<tr class="bad">')
            file.write("".join(f"<td>{html.escape(text)}</td>" for text in shown))
            file.write(f"<td>{_link(plan, about['key'], folder)}</td></tr>\n")
        file.write("</tbody></table></html>\n")
    return folder / "index.html"


def _runs(plan: "Plan") -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """What there is of each run: its bookkeeping, its parameters, its results."""
    for key, parameters in plan.runs():
        result = plan.store.finished(key)
        if result:
            about = {"status": "done", "reason": None, **{name: result[name] for name in ("seconds", "host", "commit")}}
        else:
            about = plan.store.failure(key) or {"status": "not run", "reason": None}
        yield {"key": key, **about}, parameters, result["results"] if result else {}


def _named(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under the names of their columns: one that is called as a column of ours gets a prefix."""
    return {f"parameter.{name}" if name in FIRST else name: value for name, value in parameters.items()}


def _wider(kind: str | None, value: Any) -> str | None:
    """The type of a column that also holds this value."""
    if value is None:
        return kind
    if isinstance(value, bool):
        new = "truth"
    elif isinstance(value, int):
        new = "whole" if -(2**63) <= value < 2**63 else "text"
    else:
        new = "real" if isinstance(value, float) else "text"
    if kind in (None, new):
        return new
    return "real" if {kind, new} == {"whole", "real"} else "text"


def _fitting(value: Any, kind: str | None) -> Any:
    return _text(value) if kind == "text" and value is not None and not isinstance(value, str) else value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _link(plan: "Plan", key: str, folder: Path) -> str:
    for suffix, words in ((".ipynb", "executed"), (".failed.ipynb", "up to the failed cell")):
        path = plan.store.path(key, suffix)
        if path.exists():
            return f'<a href="{html.escape(quote(os.path.relpath(path, folder)))}">{words}</a>'
    return ""


@contextlib.contextmanager
def _in_one_step(path: Path) -> Iterator[Path]:
    """A path to write to; what is there takes the name ``path`` once all is written."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
