"""The ledger's page: a table of every claim, with filters and a search that ``book/_static/ledger.js`` works."""

import html
from collections.abc import Iterable, Mapping
from typing import Any

from dplib import claims, rules, sources
from dplib.claims import NOT_RUN, PAPERS, VERDICTS
from press.ledger import Row

KINDS = {"A": "Larger models under DP", "B": "Architecture and features", "C": "Label DP", "D": "Noise screening"}
SHOWN = 4  # values of a row that one sees without unfolding the others


def ledger_html(rows: list[Row]) -> str:
    """The ledger as HTML: four menus and a search field, and a table row for each claim, with its id as anchor."""
    chapters = sorted({row.claim.chapter for row in rows})
    menus = (
        _menu("paper", "all papers", {paper: f"{paper}: {KINDS[paper]}" for paper in PAPERS}),
        _menu("chapter", "all chapters", {name: _title(name) for name in chapters}),
        _menu("sort", "claims, numbers, settings", {sort: sort for sort in claims.SORTS}),
        _menu("verdict", "all verdicts", {verdict: verdict for verdict in VERDICTS}),
    )
    body = "\n".join(_row(row) for row in rows)
    return (
        f'<form class="ledger-menus">{"".join(menus)}'
        '<label>Search <input type="search" placeholder="Table IV, screening, A.thm6"></label></form>'
        f'<p class="ledger-count" role="status">{len(rows)} rows</p>'
        '<div class="ledger"><table id="ledger-table"><thead><tr><th scope="col">Claim</th><th scope="col">Printed</th>'
        f'<th scope="col">Measured</th></tr></thead><tbody>{body}</tbody></table></div>'
        '<script src="../_static/ledger.js"></script>'
    )


def _title(chapter: str) -> str:
    return f"{sources.shown_number(chapter)}: {chapter.partition('_')[2].replace('_', ' ')}"


def _menu(name: str, everything: str, choices: Mapping[str, str]) -> str:
    options = "".join(
        f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in choices.items()
    )
    return f'<label>{name} <select name="{name}"><option value="">{everything}</option>{options}</select></label>'


def _row(row: Row) -> str:
    claim = row.claim
    data = {"paper": claim.paper, "chapter": claim.chapter, "sort": claim.sort, "verdict": row.verdict}
    marks = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in data.items())
    return (
        f'<tr id="{claim.id}" data-where="{html.escape(claim.where)}" {marks}>'
        f"<td>{claims.badge(row.verdict)} <strong>{html.escape(claim.where)}</strong> <code>{claim.id}</code>"
        f"<p>{html.escape(claim.statement)}</p>{_more(row)}</td>"
        f"<td>{_values(claim.published, row)}</td><td>{_values(row.values, row)}{_paragraph(row.because)}</td></tr>"
    )


def _more(row: Row) -> str:
    """What a row rests on, folded: its rule, its correction, a note, its card and its runs."""
    claim, study = row.claim, sources.number(row.claim.chapter)
    lines = [f"With this correction: {claim.correction}"] if row.verdict == claims.VERDICTS[1] else []
    lines += [f"Not stated: {claim.unstated}."] if claim.unstated else []
    lines += [f"Rule: {rules.words(claim.rule)}."] if claim.rule else []
    lines += [claim.note] if claim.note else []
    text = "".join(_paragraph(line) for line in lines)
    if row.verdict == NOT_RUN and claim.sort == "cited":
        return f"{_paragraph('Another paper’s result, cited: not ours to run.')}{text}"
    if row.verdict == NOT_RUN:
        return f"<details><summary>how to run it</summary>{text}<p><code>{row.command}</code></p></details>"
    runs = f"runs: <code>python -m dplib runs export {study}</code>"
    card = f'<a href="../notebooks/{claim.chapter}.html#{claim.id}">card in chapter {sources.shown_number(study)}</a>'
    return f"<details><summary>rule, card and runs</summary>{text}<p>{card}; {runs}</p></details>"


def _paragraph(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>' if text else ""


def _values(values: Mapping[str, Any], row: Row) -> str:
    """Values by name, one a line; those above :data:`SHOWN` are folded."""
    names = {name: row.claim.labels.get(name, name.replace("_", " ")) for name in values}
    lines = [f"{html.escape(names[n])}: {html.escape(claims.shown(value))}" for n, value in values.items()]
    if len(lines) <= SHOWN + 1:
        return _lines(lines) or "–"
    more = f"<details><summary>{len(lines) - SHOWN} more</summary>{_lines(lines[SHOWN:])}</details>"
    return _lines(lines[:SHOWN]) + more


def _lines(lines: Iterable[str]) -> str:
    return "<br>".join(lines)
