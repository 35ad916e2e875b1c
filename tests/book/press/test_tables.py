"""The tables that pages include: each row that needs a GPU has a plan, what five seeds can see; and damaged files."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from book.evidence import claims, first_light, plans
from book.press import course, ledger, pdf_pages, tables
from dplib import stats
from dplib.checks import ParameterError
from dplib.data import registry
from papers.architecture import cost_rows
from tests.book.evidence.test_first_light import cuda_report

ROWS = list(claims.load_all().values())
# What would decide these is not to be had: the features of BYOL and DINO, Table XVII's own machine.
WITHOUT = {
    "C.s-histogram-share", "C.s-cluster-counts", "C.fig1b", "C.fig2", "C.s-adaptive-share", "C.s-ssl-small-eps",
    "C.s-ssl-underperforms-eps8", "C.s-clusterrr",
}  # fmt: skip


def test_a_row_that_needs_a_gpu_has_a_plan():
    routed = {claim.id for rows in plans.routes(ROWS).values() for value in rows.values() for claim in value}
    for claim in ROWS:
        if claim.expects in plans.OPEN and "GPU" in f"{claim.because} {claim.note} {claim.rule}":
            assert claim.id in routed | WITHOUT or claim.sort == "cited", claim.id


def test_what_readers_without_a_rule_said_is_told_with_what_it_does_not_show(tmp_path):
    path = tmp_path / "readings.json"
    assert "Nobody has read" in tables.readings_without_rule(path)
    values = {
        "packets": 60, "plants": 20, "readings": 2, "caught": [17, 15], "fooled": [1, 2], "both": 40,
        "agree": 26, "kappa": 0.561, "agree_coarse": 31, "kappa_coarse": 0.62, "with_ledger": [21, 24],
        "with_ledger_coarse": [29, 30],
        "by_verdict": {"holds": [8, 7, 6]}, "against": [],
    }  # fmt: skip
    path.write_text(json.dumps(values), encoding="utf-8")
    told = tables.readings_without_rule(path)
    for words in ("17 and 15 of 20", "1 and 2", "Of 40 rows both give 26", "0.56", "0.62", "What it does not"):
        assert words in told
    assert "another side:" not in told
    path.write_text(json.dumps(values | {"readings": 1, "by_verdict": {"holds": [8, 7]}}), encoding="utf-8")
    assert "one reader" in (told := tables.readings_without_rule(path))
    assert "0.56" not in told
    assert "| holds | 8 | 7 | – |" in told
    values["against"] = [{"row": "A.thm6", "ledger": "fails", "first": "holds", "second": "undecided"}]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert "| `A.thm6` | fails | holds | undecided |" in tables.readings_without_rule(path)


def test_every_part_on_a_gpu_is_reckoned():
    """And what is reckoned has such a part."""
    with_gpus = {study for study in plans.studies() for name in plans.names(study)
                 if any(part.device == "cuda" for part in plans.load(study, name).parts.values())}  # fmt: skip
    assert with_gpus == {study for study in plans.studies() if plans.on_gpu(study)}


def test_a_row_that_is_none_is_refused(monkeypatch):
    monkeypatch.setattr(plans, "on_gpu", lambda study: plans.OnGPU(1, "", ["A.nothing*"]))
    with pytest.raises(ParameterError, match=r"A.nothing\* of plan .* is no row of the ledger"):
        plans.routes(ROWS)


def test_the_data_of_a_plan():
    assert tables.gpu_data("02") == ["cifar10"]


def test_the_number_of_seeds_is_the_least_that_sees_the_difference():
    n = tables.needed(0.12)
    assert 0.12 * stats.visible_difference(n) <= tables.SEEN < 0.12 * stats.visible_difference(n - 1)


def test_the_page_quotes_its_table():
    spread = {name: (a - b).std(ddof=1) for name, a, b in tables.comparisons()}
    annealed = spread["MNIST, ε = 3: annealed, tanh (chapter 11)"]
    assert annealed * stats.visible_difference(5) == pytest.approx(0.20, abs=0.005)
    assert tables.needed(annealed) == 13


def executed(path, change):
    """An executed chapter at ``path`` with one record, whose metadata are changed."""
    record = {"id": "A.thm6", "verdict": "holds", "values": {}, "because": ""}
    origin = {"date": "2026-01-01", "seconds": 1.0}
    change(origin, record)
    notebook = new_notebook(metadata={"dplib": origin})
    notebook.cells = [new_code_cell(outputs=[new_output("display_data", metadata={claims.RECORD: record})])]
    path.write_text(nbformat.writes(notebook))
    return ledger._read(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda origin, record: origin.clear(),
        lambda origin, record: origin.update(date=1),
        lambda origin, record: origin.update(seconds="x"),
        lambda origin, record: record.pop("values"),
        lambda origin, record: record.update(values="x"),
        lambda origin, record: record.update(because=None),
    ],
)
def test_a_damaged_executed_chapter_is_named(tmp_path, change):
    path = tmp_path / "01_a.ipynb"
    assert executed(path, lambda origin, record: None).records["A.thm6"]["verdict"] == "holds"
    with pytest.raises(ParameterError, match=f"{path} is no executed chapter .*: remove it, and make it again"):
        executed(path, change)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("course.yml", "weeks: [", "cannot be read"),
        ("course.yml", "", "all of it = None is not allowed"),
        ("course.yml", "weeks: [{title: a}]", "weeks, 0, minutes is missing"),
        ("course.yml", "before: {}", "weeks is missing"),
        ("bench_a.json", "{", "cannot be read"),
        ("bench_a.json", '{"benchmark": "a", "rows": [{"what": "b"}]}', "rows, 0, ratio_of is missing"),
        ("bench_slowdown.json", '{"ratios": {"a": 1}}', "ratios, a = 1 is not allowed"),
        ("_config.yml", "a: [", "cannot be read"),
        ("_config.yml", "title: a", "author is missing"),
        ("datasets.toml", "a = [", "cannot be read"),
        ("datasets.toml", "a = 1", "a is no data set"),
        ("datasets.toml", "[a]\ntitle = 'b'", "a is no data set .*papers"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, monkeypatch, name, text, message):
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(course, "COURSE", tmp_path / name)
    monkeypatch.setattr(pdf_pages, "ROOT", tmp_path)
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "registry.py"))
    read = {
        "course.yml": course.load,
        "bench_a.json": lambda: tables.benchmarks(tmp_path),
        "bench_slowdown.json": lambda: cost_rows.slowdown(tmp_path / name),
        "_config.yml": lambda: pdf_pages.assemble({}, [], tmp_path, tmp_path),
        "datasets.toml": registry.registry.__wrapped__,
    }
    with pytest.raises(ParameterError, match=f"^{tmp_path / name}:? .*{message}"):
        read[name]()


def test_other_libraries_are_a_table_of_their_own_and_are_told_first(tmp_path):
    def row(what, of, ratio):
        return {"what": what, "ratio_of": of, "ratio": ratio}

    ways = [*tables.PEERS.values(), tables.WHOLE]
    rows = {
        "dpsgd": [row("a net", "dpsgd / sgd", 1.25), row("another", "dpsgd / sgd", 1.5)],
        "slowdown": [row("small batches", "dplib / SGD", 1.4), row("smaller", "dplib / SGD", 2.9)],
        "peers": [
            row("a net, one core", of, ratio) for of, ratio in zip(ways, (2.0, 30.0, 4.0, 1.0, 500.0), strict=True)
        ],
    }
    rows["peers"].append(row("another, one core", ways[0], 1.75))
    for name, of in rows.items():
        report = {"benchmark": name, "rows": of, "hardware": {"processor": "any", "cores": 1}, "versions": {}}
        (tmp_path / f"bench_{name}.json").write_text(json.dumps(report))
    first, *text = tables.benchmarks(tmp_path).splitlines()
    assert "takes 1.25 to 1.5 times" in first
    assert "Table XVII, 1.4 to 2.9 times" in first
    assert "Opacus takes 1.75 to 2 times" in first
    assert "500 times as it is" in first
    assert "| a net | 2 | 30 | 4 | 1 |" in text
    assert "| another | 1.75 | – | – | – |" in text
    assert "one core" not in "".join(text)


def test_the_page_shows_what_a_gpu_was_measured_to_do(tmp_path, monkeypatch):
    assert tables.gpu_measured(tmp_path) == tables.GPU_UNMEASURED
    monkeypatch.setattr(first_light, "RESULT", tmp_path / "gpu.json")
    first_light.write(cuda_report(tmp_path / "report.jsonl"))
    text = tables.gpu_measured(tmp_path)
    assert "Toy GPU" in text
    assert "| CNN, 512 | DP-SGD | 900 | 1.00 |" in text
    assert "| CNN, 512 | SGD | 2,000 | – |" in text
    assert "| 4 | 2,400 |" in text


def test_rows_that_are_read_otherwise_are_listed(tmp_path):
    path = tmp_path / "readings.json"
    settled = {"row": "A.a", "ledger": "holds", "first": "fails", "second": "holds", "settled": "fails"}
    scores = {
        "caught": {"first": [1, 1]}, "agree": 2, "both": 3, "kappa": 0.5, "with_ledger": {"first": [2, 3]},
        "disputed": [settled, settled | {"row": "A.b", "settled": ""}],
        "against": [{"row": "A.c", "ledger": "fails", "both": "undecided"}],
    }  # fmt: skip
    path.write_text(json.dumps(scores), encoding="utf-8")
    listed = [line for line in tables.readings(path).splitlines() if line.startswith("- ")]
    told = "the ledger says *holds*, the first reading *fails*, the second *holds*"
    assert listed == [
        f"- `A.a`: {told}, a third settled on *fails*.",
        f"- `A.b`: {told}.",
        "- `A.c`: the ledger says *fails*, both *undecided*.",
    ]
