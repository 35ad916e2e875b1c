"""The ledger: every claim with what the executed chapters recorded of it, and the page that shows it."""

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired

import nbformat
from typing_extensions import TypedDict

from book.evidence import claims, execution, history, plans, rules, sources
from book.evidence.claims import NOT_RUN, PAPERS, Claim
from dplib import files
from dplib.checks import ParameterError


@dataclass(frozen=True)
class Row:
    """A claim, and what its chapter found."""

    claim: Claim
    verdict: str
    values: dict[str, Any]
    because: str
    past: history.Past = field(default_factory=history.Past)
    points: str = ""  # where an undecided row's values point

    @property
    def command(self) -> str:
        """How to run what is not run yet."""
        study = sources.number(self.claim.chapter)
        plan = "wanted" if "wanted" in self.claim.because else "paper"
        made = f"python -m book runs make {study} --plan {plan}" if study in plans.studies() else ""
        return made if self.verdict == NOT_RUN else ""


@dataclass(frozen=True)
class Executed:
    """An executed chapter: its provenance, what it rests on, what it recorded."""

    chapter: str
    provenance: dict[str, Any]
    basis: dict[str, Any]
    records: dict[str, dict[str, Any]]


class _Provenance(TypedDict):
    date: str
    seconds: float


class _Record(TypedDict):
    verdict: str | None
    values: dict[str, Any]
    because: str
    points: NotRequired[str]


def executed_chapters(folder: Path = execution.EXECUTED) -> list[Executed]:
    """The executed notebooks that the site is made of, in order."""
    return [_read(path) for path in executed_notebooks(folder)]


def executed_notebooks(folder: Path = execution.EXECUTED) -> list[Path]:
    """Executed copies of chapters, in order; one of a chapter that has another name by now is none."""
    return list(filter(Path.exists, (folder / f"{chapter}.ipynb" for chapter in sources.chapters())))


def check_current(executed: Iterable[Executed]) -> None:
    """Raise RunError where chapters were executed on other sources, plans, runs or claims than those of today."""
    stale = [
        chapter.chapter for chapter in executed if chapter.provenance.get("inputs") != sources.inputs(chapter.chapter)
    ]
    if stale:
        raise execution.RunError(
            f"{', '.join(stale)}: executed on other sources, plans, runs or claims than today's. `make executed` "
            "executes what changed; `python -m book site --draft` renders it as it is."
        )


def gather(executed: list[Executed]) -> list[Row]:
    """One row per claim; records of another plan than the published one have no verdict."""
    by_id: dict[str, dict[str, Any]] = {}
    for chapter in executed:
        for id_, record in chapter.records.items():
            if record["verdict"]:
                by_id.setdefault(id_, record)
    stored = history.read()
    return [_row(claim, by_id.get(claim.id), stored) for claim in claims.load_all().values()]


def _row(claim: Claim, record: dict[str, Any] | None, stored: Mapping[str, Any]) -> Row:
    if record is None:
        untested = rules.NOT_TESTED if claim.rule and rules.kind_of(claim.rule)[0] == "not_tested" else NOT_RUN
        return Row(claim, untested, {}, claim.because, history.past(stored, claim, {}, untested))
    verdict, values = record["verdict"], record["values"]
    past = history.past(stored, claim, values, verdict)
    return Row(claim, verdict, values, record["because"], past, record.get("points", ""))


def _read(path: Path) -> Executed:
    try:
        notebook = nbformat.read(path, as_version=4)
        executed = Executed(path.stem, notebook.metadata["dplib"], claims.basis(notebook), claims.records(notebook))
        files.checked(path, _Provenance, executed.provenance)
        files.checked(path, dict[str, _Record], executed.records)
        return executed
    except (OSError, ValueError, LookupError, AttributeError, nbformat.ValidationError) as error:
        raise ParameterError(f"{path} is no executed chapter ({error!r:.100}): remove it, and make it again.") from None


# ---- its page: a table of every claim; ``book/_static/ledger.js`` works its filters and its search ----

OPEN = "cannot be evaluated"  # of a first rule: it names a value that is not there any more
IN_FULL = {rules.CORRECTED: "holds with change: with a correction"}
SHOWN = 4  # values of a row that one sees without unfolding the others
# What a reader looks for first stands first.
SORTED = ("fails", "not reproducible as stated", "holds with change", "holds", "undecided", rules.NOT_TESTED, NOT_RUN)
# Was a row's rule set before its runs? In a word each, in the order of history.ORDERS.
BEFORE = dict(zip(history.ORDERS, ("yes", "before some", "no", "unknown", "no runs", "no rule"), strict=True))
_WORDS = {  # of names of values: what to read for what, one after another
    r"(?<=\d)_(?=\d)": ".", "_": " ", r"\beps(?:ilon)? ?(?=\d)": "ε = ", r"\b([pnk])(?=\d)": r"\1 = ",
    r"\bfashion mnist\b": "Fashion-MNIST", r"\bmnist\b": "MNIST", r"\bcifar ?10\b": "CIFAR-10",
    r"\bdp ?sgd\b": "DP-SGD", r"\bsgd\b": "SGD", r"\bepsilon\b": "ε", r"\bdelta\b": "δ",
    # paper D: by which account, on which records of the test part, over which scheme
    r"\blemma2\b": "by Lemma 2", r"\bpld\b": "by PLD", r"\bkept\b": "by kept steps",
    r"\bunseen\b": "on unseen records", r"\ball(?= tanh| auto)": "on all records",
    r"\btanh\b": "over DPSGD (tanh)", r"\bauto s\b": "over AUTO-S",
    # paper B's searches
    r"\bpaas\b": "PAAS", r"\bmgrs\b": "MGRS", r"\brs\b": "RS",
}  # fmt: skip


def ledger_html(rows: list[Row]) -> str:
    """The ledger as HTML: its menus and a search field, and a row for each claim, with its id as anchor.

    It can be read by the first rules: then each row shows the verdict of its first rule on today's runs.

    Settings of one printed table are told in one row where they have the same verdict.
    """
    named = {row.claim.chapter for row in rows}
    chapters = [chapter for chapter in sources.chapters() if chapter in named]
    menus = (
        _menu("paper", {paper: f"{paper}: {claims.about(paper).short}" for paper in PAPERS}),
        _menu("chapter", {name: _title(name) for name in chapters}),
        _menu("sort", _counted(row.claim.sort for row in rows), "kind of row"),
        _menu("verdict", {verdict: IN_FULL.get(verdict, verdict) for verdict in (*SORTED, OPEN)}),
        _menu("points", {points: points for points in rules.POINTS}, "if undecided"),
        _menu("order", BEFORE, "rule set before its runs"),
        _menu("differs", {"yes": "another than today", "no": "the same as today"}, "verdict by the first rule"),
        '<label><input type="checkbox" name="first"> show verdicts by the first rules</label>',
    )
    groups = [list(together) for _, together in itertools.groupby(rows, _place)]
    body = "\n".join(_line(group) for group in sorted(groups, key=lambda group: SORTED.index(group[0].verdict)))
    heads = ("Verdict", "Claim", "Printed", "Measured", "Rule set before its runs", "By the first rule")
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        '<form class="ledger-menus"><label>Search <input type="search" placeholder="Table IV, screening, A.thm6">'
        f"</label>{''.join(menus)}</form>"
        f'<p class="ledger-count" role="status">{len(rows)} rows</p>'
        f'<div class="ledger"><table id="ledger-table"><thead><tr>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<script src="../_static/ledger.js"></script>'
    )


def _title(chapter: str) -> str:
    return f"{sources.shown_number(chapter)}: {sources.title(chapter)}"


def _counted(sorts: Iterable[str]) -> dict[str, str]:
    """The sorts of rows, each with how many there are."""
    counts = Counter(sorts)
    return {sort: f"{sort} ({counts[sort]})" for sort in claims.SORTS if counts[sort]}


def _menu(name: str, choices: Mapping[str, str], label: str = "") -> str:
    options = "".join(
        f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in choices.items()
    )
    return f'<label>{label or name} <select name="{name}"><option value="">all</option>{options}</select></label>'


def _place(row: Row) -> tuple[str, ...]:
    """Where a row is told: a setting in that of its printed table, all else alone; and what the menus ask for."""
    alone = row.claim.sort != "setting" or row.claim.kind != "table"
    place = row.claim.id if alone else row.claim.id.rpartition(".")[0]
    return place, row.verdict, row.points, first(row), row.past.order


def first(row: Row) -> str:
    """A row's verdict by its first rule, or that there is none."""
    return row.past.first or OPEN


def _line(rows: list[Row]) -> str:
    row, claim = rows[0], rows[0].claim
    if len(rows) == 1:
        more, printed, measured = _more(row), _values(claim.published, row), _values(row.values, row)
        measured += _paragraph(row.because)
    else:
        claim = replace(claim, id=_place(row)[0], where=claim.where.partition(": ")[0])
        reasons = list(dict.fromkeys(row.because for row in rows))
        each = "".join(_setting(row, row.because if len(reasons) > 1 else "") for row in rows)
        more, printed = f"<details><summary>{len(rows)} settings</summary>{each}</details>", ""
        measured = _paragraph(reasons[0]) if len(reasons) == 1 else ""
    data = {"paper": claim.paper, "chapter": claim.chapter, "sort": claim.sort, "verdict": row.verdict}
    data |= {"first": first(row), "order": row.past.order, "differs": "yes" if first(row) != row.verdict else "no"}
    data |= {"points": row.points, "rows": str(len(rows))}
    marks = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in data.items())
    return (
        f'<tr id="{claim.id}" data-where="{html.escape(claim.where)}" {marks}>'
        f"<td>{_badges(row)}</td><td><strong>{html.escape(claim.where)}</strong>"
        f"<p>{html.escape(claim.statement)}</p>{more}</td><td>{printed}</td><td>{measured}</td>"
        f"<td>{_before(row)}</td><td>{_first_verdict(row)}</td></tr>"
    )


def _badges(row: Row) -> str:
    """A row's verdict, and that by its first rule, of which the page shows one."""
    badges = {"by-present": row.verdict, "by-first": first(row)}
    points = f' <em class="by-present">{row.points}</em>' if row.points else ""
    return "".join(f'<span class="{name}">{claims.badge(verdict)}</span>' for name, verdict in badges.items()) + points


def _before(row: Row) -> str:
    """Whether the rule was set before its runs, and how often it was changed."""
    changed = f"changed {row.past.changes}×" if row.past.changes else ""
    return _lines(filter(None, (BEFORE[row.past.order], changed)))


def _first_verdict(row: Row) -> str:
    """The verdict of the first rule where it is another; with the first rules shown, today's."""
    if first(row) == row.verdict:
        return "the same"
    return f'<span class="by-present">{first(row)}</span><span class="by-first">today: {row.verdict}</span>'


def _setting(row: Row, because: str) -> str:
    """A row of a printed table as a paragraph: its label, which leads to its card, printed and measured values."""
    claim = row.claim
    link = f'<a href="../notebooks/{claim.chapter}.html#{claim.id}">{html.escape(claim.where.partition(": ")[2])}</a>'
    same = all(row.values.get(name) == value for name, value in claim.published.items())
    measured = "the same" if same else ", ".join(_named(row.values, row))
    told = f"printed {', '.join(_named(claim.published, row))}; measured {measured}"
    return f'<p id="{claim.id}" class="note"><strong>{link}</strong>: {told}. {html.escape(because)}</p>'


def _more(row: Row) -> str:
    """What a row rests on, folded: its rule, its correction, a note, its card and its runs."""
    claim, study = row.claim, sources.number(row.claim.chapter)
    lines = [f"With this correction: {claim.correction}"] if row.verdict == claims.VERDICTS[1] else []
    lines += [f"Not stated: {claim.unstated}."] if claim.unstated else []
    lines += [f"In place of what is named: {claim.stand_in}."] if claim.stand_in else []
    lines += [f"Not measured: {why}." for why in dict.fromkeys(claim.absent.values())]
    lines += [f"Rule: {rules.words(claim.rule)}.{claims.asked(claim)}"] if claim.rule else []
    lines += [claim.note] if claim.note else []
    lines += row.past.sentences
    text = "".join(_paragraph(line) for line in lines)
    if row.verdict == NOT_RUN and claim.sort == "cited":
        return f"{_paragraph('Another paper’s result, cited: not ours to run.')}{text}"
    if row.verdict == NOT_RUN:
        return f"<details><summary>how to run it</summary>{text}<p><code>{row.command}</code></p></details>"
    runs = f"runs: <code>python -m book runs export {study}</code>"
    card = f'<a href="../notebooks/{claim.chapter}.html#{claim.id}">card in chapter {sources.shown_number(study)}</a>'
    name = f"row <code>{claim.id}</code>"
    return f"<details><summary>rule, card and runs</summary>{text}<p>{card}; {name}; {runs}</p></details>"


def _paragraph(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>' if text else ""


def _values(values: Mapping[str, Any], row: Row) -> str:
    """Values by name, one a line; those above :data:`SHOWN` are folded."""
    lines = _named(values, row)
    if len(lines) <= SHOWN + 1:
        return _lines(lines) or "–"
    more = f"<details><summary>{len(lines) - SHOWN} more</summary>{_lines(lines[SHOWN:])}</details>"
    return _lines(lines[:SHOWN]) + more


def _named(values: Mapping[str, Any], row: Row) -> list[str]:
    names = {name: row.claim.labels.get(name, readable(name)) for name in values}
    return [f"{html.escape(names[name])}: {html.escape(claims.shown(value))}" for name, value in values.items()]


def readable(name: str) -> str:
    """A value's name as people say it: ``mnist_eps0_5_dp_sgd`` is "MNIST ε = 0.5 DP-SGD"."""
    for pattern, words in _WORDS.items():
        name = re.sub(pattern, words, name)
    return name


def _lines(lines: Iterable[str]) -> str:
    return "<br>".join(lines)
