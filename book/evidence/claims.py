"""The ledger: what the papers claim, what we measured, and the verdict.

``book/claims/*.yml`` holds one row per claim with its published values. A chapter calls :func:`record` for each claim
that it tests; the record travels in the executed notebook, in the metadata of the cell's output, from where
``book.press.ledger`` gathers it.
"""

import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal

import nbformat
import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from book.evidence import rules
from book.evidence.places import CLAIMS, PAPERS, ROOT
from book.evidence.places import RESULTS as RESULTS
from dplib import files
from dplib.checks import ParameterError
from dplib.stats import Measured

# Keys of the output metadata in which an executed notebook carries its records.
RECORD = "dplib_record"
BASIS = "dplib_basis"
ANSWER = "dplib_answer"  # what a page found at a reader's own parameters
NOT_RUN = "not run yet"
# "undecided" is for a run of ours that is too weak to tell, "not tested" where no rule can be applied by us.
VERDICTS = (
    "holds", "holds with change", "fails", "not reproducible as stated", "undecided", rules.NOT_TESTED, NOT_RUN
)  # fmt: skip
# What a row is, so that counts mean something: a claim; a question of ours, of which no paper claims anything; printed
# numbers; a setting; somebody else's result.
SORTS = ("claim", "question", "number", "setting", "cited")
PUBLISHED = "published"  # the plan whose runs decide
_OF_RULES = (
    "sort", "rule", "corrected", "correction", "unstated", "stand_in", "absent", "points", "because", "expects"
)  # fmt: skip
Kind = Literal[
    "definition", "theorem", "lemma", "corollary", "proposition", "remark", "equation", "algorithm", "figure",
    "statement", "table", "assumption",
]  # fmt: skip


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Claim:
    """One row of the ledger. ``published`` maps a name to the printed number or text; empty when none is printed.

    ``rule`` (:mod:`book.evidence.rules`) is of the claim as printed, ``corrected`` that of the claim with
    ``correction``;
    ``unstated`` names what the paper does not say and the claim needs, ``stand_in`` what was run in place of what it
    names, ``absent`` values that the rule asks for and nobody measured, each with the reason; ``points`` is a rule over
    other values than the deciding ones, by which an undecided row says where they point. ``expects`` is the verdict to
    which the published runs lead, and ``because`` says why in a sentence; of an open row it ends with "To decide: "
    and the run that would, and its price, or the data that it wants.
    """

    id: str
    kind: Kind
    where: str
    statement: str
    chapter: str
    tested_by: str
    published: Mapping[str, Any] = Field(default_factory=dict)
    labels: Mapping[str, str] = Field(default_factory=dict)
    unit: str = ""
    note: str = ""
    sort: Literal[SORTS] = "claim"
    rule: Mapping[str, Any] = Field(default_factory=dict)
    corrected: Mapping[str, Any] = Field(default_factory=dict)
    correction: str = ""
    unstated: str = ""
    stand_in: str = ""
    absent: Mapping[str, str] = Field(default_factory=dict)
    points: Mapping[str, Any] = Field(default_factory=dict)
    because: str = ""
    expects: Literal[("", *VERDICTS)] = ""

    @property
    def paper(self) -> str:
        return self.id[0]

    @property
    def to_decide(self) -> str:
        """What would decide an open row, with its price: the end of ``because``, from "To decide" on, or ""."""
        return self.because[start:] if (start := self.because.find("To decide")) >= 0 else ""


class _Part(BaseModel, extra="forbid"):
    """What a table says for all its rows, and a row for itself."""

    id: str
    chapter: str = ""
    unit: str = ""
    note: str = ""
    sort: Literal[SORTS] = "claim"
    rule: dict[str, Any] = {}
    corrected: dict[str, Any] = {}
    correction: str = ""
    unstated: str = ""
    stand_in: str = ""
    absent: dict[str, str] = {}
    points: dict[str, Any] = {}
    because: str = ""
    expects: Literal[("", *VERDICTS)] = ""


class _Row(_Part):
    label: str
    values: list[Any]


class _Table(_Part):
    where: str
    statement: str
    tested_by: str
    columns: list[str]
    column_labels: list[str] = []
    inferred: str = ""
    rows: list[_Row]


class _Document(BaseModel, extra="forbid"):
    """A file of the ledger: a paper, what it is called here, its key in references.bib, and what it prints."""

    paper: str
    title: str
    short: str
    cite: str
    prints: dict[str, int | list[str]] = {}
    claims: list[Claim]
    tables: list[_Table]


@cache
def load(paper: str) -> dict[str, Claim]:
    """All claims of a paper by id, each table row a claim of its own; ParameterError for a malformed row."""
    return _claims(CLAIMS / f"{paper}.yml", paper, _document(paper))


@cache
def about(paper: str) -> _Document:
    """What the file of a paper says of it: its title, what it is called here, its key, and what it prints."""
    return _document(paper)


def _document(paper: str) -> _Document:
    if paper not in PAPERS:
        raise ParameterError(f"paper = {paper!r} is not in the ledger: it must be one of {', '.join(PAPERS)}.")
    return files.checked(CLAIMS / f"{paper}.yml", _Document)


def parsed(path: Path, text: str) -> dict[str, Claim]:
    """The claims in the text of a paper's file, as :func:`load` has those of the file."""
    return _claims(path, path.stem, files.checked(path, _Document, yaml.load(text, files.Loader)))


def _claims(path: Path, paper: str, document: _Document) -> dict[str, Claim]:
    if document.paper != paper:
        raise ParameterError(f"{path}: paper = {document.paper} is not allowed: it must be {paper}.")
    claims: dict[str, Claim] = {}
    for claim in document.claims:
        _add(claims, claim)
    for table in document.tables:
        for row in table.rows:
            _add(claims, _table_row(table.model_dump(exclude_unset=True), row.model_dump(exclude_unset=True)))
    for claim in claims.values():
        if not (ROOT / "notebooks" / f"{claim.chapter}.md").exists():
            raise ParameterError(f"{path}: {claim.id} names the chapter {claim.chapter}, which does not exist.")
    return claims


def load_all() -> dict[str, Claim]:
    """The claims of all papers, in the order of the ledger."""
    return {id_: claim for paper in PAPERS for id_, claim in load(paper).items()}


def get(claim_id: str) -> Claim:
    """The claim with this id, or a ParameterError that names the nearest id."""
    known = load(claim_id[:1]) if claim_id[:1] in PAPERS else load_all()
    if claim_id not in known:
        check_ids = [id_ for id_ in known if id_.split(".")[1][:3] == claim_id.partition(".")[2][:3]] or list(known)[:8]
        raise ParameterError(f"{claim_id} is not in the ledger; near it are {', '.join(check_ids[:8])}.")
    return known[claim_id]


def printed_rows(table: str) -> dict[str, Mapping[str, Any]]:
    """The published values of a table's rows ("B.table16") by id, in order."""
    return {id_: claim.published for id_, claim in load(table[0]).items() if id_.startswith(f"{table}.")}


def recorder(plan: str) -> Callable[..., None]:
    """``record(claim_id, **values)`` for the runs of a plan: only the published ones have verdicts, and one that the
    row does not expect is refused, so that no sentence by hand is left behind by a changed result.
    """

    def measured(claim_id: str, /, **values: Any) -> None:
        """Record what the runs of this page measured for a claim, and show it beside what is printed.

        Raises ParameterError for an unknown id, a row without a rule, or one whose rule needs other values, and
        UnexpectedVerdict where the runs lead to another verdict than the row says.
        """
        from IPython.display import display

        claim = get(claim_id)
        if not claim.rule:
            raise ParameterError(f"{claim_id} has no rule in book/claims.")
        row: dict[str, Any] = {"id": claim_id, "values": {name: _plain(value) for name, value in values.items()}}
        row |= {"because": claim.because, "data": {}, "plan": plan, "verdict": ""}
        if plan == PUBLISHED:
            row["verdict"] = rules.verdict(asdict(claim), values, claim.published)
            if row["verdict"] == rules.UNDECIDED:
                row["points"] = rules.points(asdict(claim), values, claim.published)
            if row["verdict"] != claim.expects:
                raise UnexpectedVerdict(
                    f"{claim_id}: the runs lead to {row['verdict']!r}, and book/claims expects {claim.expects!r}. "
                    "Read the row, its reason and the chapter again, and write them for this result."
                )
        text = f"{claim_id}: {row['verdict'] or plan}. {row['because']}"
        display({"text/html": card(claim, row), "text/plain": text}, metadata={RECORD: row}, raw=True)

    return measured


def answer(**values: Any) -> None:
    """Record what a page found at the reader's own parameters (numbers, texts, Measured); a sweep tabulates it."""
    from IPython.display import display

    plain = {name: _plain(value) for name, value in values.items()}
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name.replace("_", " "))}</th><td>{html.escape(shown(value))}</td></tr>'
        for name, value in plain.items()
    )
    text = "; ".join(f"{name}: {shown(value)}" for name, value in plain.items())
    table = f'<div class="claim-table answer"><table><tbody>{rows}</tbody></table></div>'
    display({"text/html": table, "text/plain": text}, metadata={ANSWER: plain}, raw=True)


class UnexpectedVerdict(RuntimeError):
    """The published runs lead to another verdict than the row of the ledger says."""


def card(claim: Claim, row: Mapping[str, Any]) -> str:
    """A record as HTML, one line until it is opened: verdict, where in the paper; then printed beside measured."""
    names = list(dict.fromkeys([*claim.published, *row["values"]]))
    body = "".join(
        f'<tr><th scope="row">{html.escape(claim.labels.get(name, name.replace("_", " ")))}</th>'
        f"<td>{html.escape(shown(claim.published.get(name)))}</td><td>{html.escape(shown(row['values'].get(name)))}</td></tr>"
        for name in names
    )
    unit = f" ({html.escape(claim.unit)})" if claim.unit else ""
    change = f"<p>With this correction: {html.escape(claim.correction)}</p>" if claim.correction else ""
    change += f"<p>Not stated: {html.escape(claim.unstated)}.</p>" if claim.unstated else ""
    change += f"<p>In place of what is named: {html.escape(claim.stand_in)}.</p>" if claim.stand_in else ""
    change += "".join(f"<p>Not measured: {html.escape(why)}.</p>" for why in dict.fromkeys(claim.absent.values()))
    verdict = badge(row["verdict"]) if row["verdict"] else f"<em>plan {html.escape(row['plan'])}: no verdict</em>"
    verdict += f" <em>{row['points']}</em>" if row.get("points") else ""
    short = html.escape(textwrap.shorten(claim.statement, 90, placeholder=" …"))
    head = f"{verdict} <strong>{html.escape(claim.where)}</strong>: {short} <code>{claim.id}</code>"
    columns = f'<td></td><th scope="col">printed{unit}</th><th scope="col">measured</th>'
    return (
        f'<details class="claim" data-verdict="{row["verdict"]}"><summary>{head}</summary>'
        f"<p>{html.escape(claim.statement)}</p>"
        f'<div class="claim-table"><table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{change}<p>{html.escape(row['because'])}</p>"
        f"<p class='unit'>It holds as printed if: {html.escape(rules.words(claim.rule))}.{asked(claim)}</p></details>"
    )


def asked(claim: Claim) -> str:
    """Which of the questions a row's rule asks, as a sentence with a space before it; "" where it asks none."""
    questions = rules.asks(claim.rule) if claim.rule else []
    return f" Asked: {', '.join(questions)}." if questions else ""


def rests_on(*, seeds: str, datasets: Sequence[str], accounting: str, core_seconds: float | None = None) -> None:
    """Say what a page rests on, once, in the last cell: seeds or replicates; names of data sets; neighbouring relation,
    delta, accountant and what is left out; processor seconds of all runs behind it.
    """
    seconds = {} if core_seconds is None else {"core_seconds": round(core_seconds, 1)}
    _display_basis(_basis(seeds, dict.fromkeys(datasets, ""), accounting) | seconds)


def _basis(seeds: str, stand_ins: Mapping[str, str], accounting: str) -> dict[str, Any]:
    sets = [{"name": name, "checksum": "", "stand_in_for": other} for name, other in stand_ins.items()]
    return {"seeds": seeds, "datasets": sets, "accounting": " ".join(accounting.split())}


def _display_basis(basis: dict[str, Any]) -> None:
    from IPython.display import display

    names = ", ".join(
        r["name"] + (f" (stand-in for {r['stand_in_for']})" if r["stand_in_for"] else "") for r in basis["datasets"]
    )
    lines = [("Seeds", basis["seeds"]), ("Data", names or "none"), ("Accounting", basis["accounting"])]
    if "core_seconds" in basis:
        kept = basis.get("runs", "trainings, kept from earlier runs or made now")
        lines.append(("Computing", f"{basis['core_seconds'] / 60:.1f} core-minutes: {kept}"))
    items = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in lines)
    text = "; ".join(f"{name}: {text}" for name, text in lines)
    display({"text/html": f'<dl class="basis">{items}</dl>', "text/plain": text}, metadata={BASIS: basis}, raw=True)


def rests_on_runs(plan: Any, *, seeds: str, accounting: str, others: Sequence[str] = ()) -> None:
    """:func:`rests_on` for a page drawn from the kept runs of a plan: their data, what they took, where and when they
    were made. ``seeds`` are those of the published plan; of another one the page says so. ``others``: data that no
    run names.
    """
    from book.evidence import runs
    from dplib.data import registry

    lines = plan.reached()
    made = [line["made"] for line in lines]
    datasets = [*sorted({line["job"]["dataset"] for line in lines if "dataset" in line["job"]} - {*others}), *others]
    stand_ins = {name: "" if "synthetic" in name else registry.entry(name).stand_in_for or "" for name in datasets}
    commits = sorted({line["commit"] for line in made})
    where = sorted({runs.place(line) for line in lines})
    gpu_hours = sum(line["made"]["seconds"] for line in lines if line["device"] == "cuda") / 3600
    where += [f"{gpu_hours:.2f} GPU-hours"] if gpu_hours else []
    runs_text = f"{len(lines)} kept runs, {min(m['date'] for m in made)[:10]} to {max(m['date'] for m in made)[:10]}"
    basis_of_runs = {
        "core_seconds": round(sum(line["processor_seconds"] for line in made), 1),
        "runs": f"{runs_text}; commits {', '.join(commits)}; {', '.join(where)}",
    }
    if plan.name != PUBLISHED:
        seeds = f"as plan {plan.name} asks for. In the published one: {seeds}"
    _display_basis(_basis(seeds, stand_ins, accounting) | basis_of_runs)


def records(notebook: nbformat.NotebookNode) -> dict[str, dict[str, Any]]:
    """What an executed notebook recorded, by claim id."""
    return {row["id"]: row for row in recorded(notebook)}


def recorded(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """What an executed notebook recorded, in the order of its cells."""
    return outputs(notebook, RECORD)


def basis(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """What an executed notebook says it rests on (``claims.rests_on``); empty where it says nothing."""
    return next(iter(outputs(notebook, BASIS)), {})


def outputs(notebook: nbformat.NotebookNode, key: str) -> list[dict[str, Any]]:
    """What an executed notebook's outputs say under a key of their metadata, in order."""
    metadata_of_outputs = (output.get("metadata", {}) for cell in notebook.cells for output in cell.get("outputs", ()))
    return [metadata[key] for metadata in metadata_of_outputs if key in metadata]


def badge(verdict: str) -> str:
    """A verdict as a small coloured label."""
    return f'<span class="verdict verdict-{verdict.replace(" ", "-")}">{verdict}</span>'


def shown(value: Any) -> str:
    """A published or measured value as text; a measured one with its interval."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        # No run reached it: not a number, which a notebook keeps as a text.
        return (
            "–"
            if value["value"] in (None, "NaN", "nan") or value["value"] != value["value"]
            else str(Measured(**{name: float(part) if isinstance(part, str) else part for name, part in value.items()}))
        )
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list):
        return ", ".join(shown(v) for v in value)
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON: NumPy scalars and arrays, Measured and plain values. What is no number there, or infinite, is a
    text, as a kernel would make of it with a warning.
    """
    if isinstance(value, Measured):
        usual = {name: part for name, part in asdict(value).items() if part or name not in ("freedom", "share")}
        return {name: _plain(part) for name, part in usual.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _table_row(table: Mapping[str, Any], row: Mapping[str, Any]) -> Claim:
    if len(row["values"]) != len(table["columns"]):
        raise ParameterError(
            f"{table['id']}, row {row['id']}: {len(row['values'])} values, {len(table['columns'])} columns."
        )
    labels = dict(zip(table["columns"], table.get("column_labels", table["columns"]), strict=True))
    notes = [
        table.get("note", ""),
        f"Inferred: {table['inferred']}" if table.get("inferred") else "",
        row.get("note", ""),
    ]
    return Claim(
        id=f"{table['id']}.{row['id']}",
        kind="table",
        where=f"{table['where']}: {row['label']}",
        statement=table["statement"],
        chapter=row.get("chapter", table["chapter"]),
        tested_by=table["tested_by"],
        published={c: v for c, v in zip(table["columns"], row["values"], strict=True) if v is not None},
        labels=labels,
        unit=row.get("unit", table.get("unit", "")),
        note=" ".join(filter(None, notes)),
        **{name: value for name, value in {**table, **row}.items() if name in _OF_RULES},
    )


def _add(claims: dict[str, Claim], claim: Claim) -> None:
    if claim.id in claims:
        raise ParameterError(f"{claim.id} stands twice in the ledger.")
    claims[claim.id] = claim
