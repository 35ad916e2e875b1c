"""What a sweep leaves to look at: the tidy table (CSV and Parquet), and an index that links each executed notebook.

One row a run, in the order of the grid: ``key``, ``status``, ``reason``, ``seconds``, ``host``, ``commit``, the
parameters, the recorded results.
"""

import contextlib
import csv
import html
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd

if TYPE_CHECKING:
    from book.evidence.sweeps.sweep import Plan

FIRST = ("key", "status", "reason", "seconds", "host", "commit")
LONGEST = 300  # characters of a cell in the index
STYLE = """body{font:16px/1.5 sans-serif;margin:2rem;max-width:80rem}table{border-collapse:collapse}
td,th{padding:.2rem .6rem;border:0;border-bottom:1px solid #ccc;text-align:left;overflow-wrap:anywhere;max-width:30rem}
img{max-width:100%}"""
FIGURE = """<p>The recorded numbers that the parameters move most, nine at most; the rest is in the table.</p>
<p><img src="summary.png" alt="Recorded numbers over the grid, means with 95% intervals"></p>"""


def frame(plan: "Plan") -> pd.DataFrame:
    """The table. A column is of whole numbers, numbers, truth values, or else texts: JSON of what is none."""
    rows = []
    for key, parameters in plan.runs():
        result = plan.store.finished(key)
        if result:
            about = {"status": "done", **{name: result[name] for name in ("seconds", "host", "commit")}}
        else:
            about = plan.store.failure(key) or {"status": "not run"}
        # A parameter that is called as a column of ours gets a prefix.
        named = {f"parameter.{name}" if name in FIRST else name: value for name, value in parameters.items()}
        rows.append({"key": key, **about, **named, **(result["results"] if result else {})})
    names = dict.fromkeys([*FIRST, *(name for row in rows for name in row)])
    return pd.DataFrame({name: column([row.get(name) for row in rows]) for name in names})


def column(values: Sequence[Any]) -> pd.Series:
    """Values, None where there is none, as a column of one type."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pd.Series(values, dtype="Int64")
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    if kinds and kinds <= {int, float} and float in kinds:
        return pd.Series(values, dtype=float)
    return pd.Series(
        [value if value is None or isinstance(value, str) else text(value) for value in values], dtype=object
    )


def text(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write ``table.csv``, in which texts alone are quoted, and ``table.parquet``, each in one step."""
    truths = table.select_dtypes("boolean").columns
    lines = table.assign(**{name: table[name].map(text, na_action="ignore").astype(object) for name in truths})
    with _in_one_step(folder / "table.csv") as path:
        lines.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    with _in_one_step(folder / "table.parquet") as path:
        table.to_parquet(path, index=False)


def write_index(plan: "Plan", table: pd.DataFrame, folder: Path, *, figure: bool) -> Path:
    """Write ``index.html``: counts, links to table, figure and every executed notebook; returns its path."""
    names = [f"parameter.{name}" if name in FIRST else name for name in plan.varied or plan.grid.axes]
    cells = table[[*names, "status", "reason", "seconds"]].astype(object).fillna("").map(_shown)
    cells["notebook"] = [_link(plan, key, folder) for key in table["key"]]
    counted = ", ".join(f"{number} {status}" for status, number in table["status"].value_counts().sort_index().items())
    title = html.escape(f"Sweep of {plan.grid.name}")
    with pd.option_context("display.max_colwidth", None):
        body = cells.to_html(index=False, escape=False, border=0)
    with _in_one_step(folder / "index.html") as path:
        path.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
            f"<h1>{title}</h1><p>{len(plan.grid)} runs: {counted}. "
            '<a href="table.csv">table.csv</a>, <a href="table.parquet">table.parquet</a></p>'
            f"{FIGURE if figure else ''}{body}</html>\n",
            encoding="utf-8",
        )
    return folder / "index.html"


def _shown(value: Any) -> str:
    words = str(value)
    return html.escape(words if len(words) <= LONGEST else words[: LONGEST - 3] + "...")


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
