"""A grid of runs from end to end, with a toy notebook: failures stay alone, nothing runs twice, values stay data."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import time

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import psutil
import pytest
import yaml

from book.evidence import claims, sweep, sweep_figure, sweep_run
from tests.book.evidence import sweep_toys

# Folders are data too: nothing of this name may be run, or be taken for a template.
ODD = 'it\'s {a} $(touch owned) "folder"'

NASTY = [
    "", " ", "'", '"', "'''", '"""', "\\", "\\n", "\\'", '\\"', "a\nb", "\r", "\r\n", "\t", "\x00", "\x1b[31m",
    "\x7f", "$(touch owned)", "`touch owned`", "; touch owned", "| touch owned", "&& touch owned", "> owned",
    "$HOME", "${HOME}", "~", "*", "?", "[!a]", "!ls", "%run owned", "?print", "../../owned", "/etc/passwd", "..",
    "C:\\owned", "file:///x", "{wildcards.key}", "{a}", "{{a}}", "{0}", "{", "}", "{output}", "%s", "%(x)s", "%%",
    "#", "# Parameters\n", "--help", "-p", "=", "a=b", ":", "0:20", ",", "a,b", "[1, 2]", "(1,)", "{'a': 1}",
    "None", "True", "nan", "1e5", "0x10", "1_000", "None\nimport os", '")\nraise SystemExit\n("',
    "'; import os; os.system('touch owned')", "f'{1}'", "__import__('os')", "!!python/object:os.system", "&a", "*a",
    "- a", "a: b", "|", ">", "<script>alert(1)</script>", "</td>", "&amp;", "é", "é", "Ελ", "日本", "🙂", "\u202eabc",
    "\ufeff", "\u2028", "\u200b", "\xa0", "\U0010ffff", "ﬀ", "ß", "İ", "x" * 10_000, "🙂" * 2_500, "\\" * 1_000,
    "'\"" * 500, "\n" * 1_000, "```", "```{code-cell}", "+++", "---", "%%bash\nls",
]  # fmt: skip


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A sweep in which every kind of point fails once, in a folder with an awkward name."""
    source = sweep_toys.notebook(tmp_path_factory.mktemp("sweep") / ODD)
    words = ["-p", "action=fine,raise,kill,refuse", "-p", f'folder="{source.parent.parent}"']
    return source, words, sweep_toys.sweep(source, *words, "--cores", "2")


def test_a_failing_point_fails_alone_and_is_made_again_alone(failing):
    source, words, done = failing
    assert done.returncode == 1, done.stderr
    rows = {row["action"]: row for row in sweep_toys.table(source)}
    statuses = {"fine": "done", "raise": "failed", "kill": "killed", "refuse": "refused"}
    assert {action: row["status"] for action, row in rows.items()} == statuses
    assert rows["raise"]["reason"] == "ValueError: as it was told"
    assert "action" in rows["refuse"]["reason"]
    assert "1 done; 1 failed; 1 killed; 1 refused" in done.stdout
    assert "4 runs: 1 done, 3 failed before, 0 to do" in sweep_toys.sweep(source, *words, "--dry-run").stdout
    fine = source.parent / "out" / "runs" / f"{rows['fine']['key']}.json"
    before = fine.stat().st_mtime_ns
    (source.parent.parent / "mended").touch()
    done = sweep_toys.sweep(source, *words, "--cores", "2", "--retry-failed")
    assert "3 done; 1 refused" in done.stdout, done.stdout + done.stderr
    assert fine.stat().st_mtime_ns == before
    assert not list(source.parent.parent.rglob("owned"))


def test_a_refused_sweep_leaves_nothing(tmp_path):
    source = sweep_toys.notebook(tmp_path)
    refused = sweep_toys.sweep(source, "-p", "seed=1", "--profile", "nowhere")
    assert refused.returncode == 2
    assert "profile = 'nowhere' is not allowed" in refused.stderr
    assert not (source.parent / "out").exists()


def test_a_hundred_texts_arrive_unchanged(tmp_path):
    """As a list in one run, and some as runs of their own; from YAML, where a text is itself."""
    assert len(set(NASTY)) >= 100
    source = sweep_toys.notebook(tmp_path)
    grid = {"chapter": "toy.md", "parameters": {"texts": [NASTY, NASTY[17]]}}
    (tmp_path / "grid.yml").write_text(yaml.safe_dump(grid, default_style='"'), encoding="utf-8")
    words = sweep_toys.command(source, "--cores", "2")
    words[words.index(str(source))] = str(tmp_path / "grid.yml")
    done = subprocess.run(words, capture_output=True, text=True, env=sweep_toys.env(), cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    wanted = [hashlib.sha256(json.dumps(texts).encode()).hexdigest() for texts in grid["parameters"]["texts"]]
    rows = sweep_toys.table(source)
    assert [row["A.thm6.sha"] for row in rows] == wanted
    assert json.loads(rows[0]["texts"]) == NASTY
    assert [row["texts"] for row in rows[1:]] == [NASTY[17]]
    assert not list(tmp_path.rglob("owned"))


def test_killed_and_started_again_it_ends_as_an_undisturbed_one_and_two_at_once_do_not_mix(tmp_path):
    source = sweep_toys.notebook(tmp_path)
    grid = ["-p", "seed=0:3", "-p", "action=slow"]
    process = subprocess.Popen(sweep_toys.command(source, *grid), env=sweep_toys.env(), stdout=subprocess.DEVNULL)
    runs = source.parent / "out" / "runs"
    while not (first := list(runs.glob("*.json"))):
        assert process.poll() is None
        time.sleep(0.1)
    other = sweep_toys.sweep(source, *grid)
    assert other.returncode == 2
    assert "Another run works in" in other.stdout + other.stderr
    for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
        os.kill(victim.pid, signal.SIGKILL)
    process.wait()
    before = first[0].stat().st_mtime_ns
    assert sweep_toys.sweep(source, *grid).returncode == 0
    assert first[0].stat().st_mtime_ns == before
    assert [(row["seed"], row["status"], row["A.thm6.risk"]) for row in sweep_toys.table(source)] == [
        ("0", "done", "1.0"), ("1", "done", "2.0"), ("2", "done", "3.0"),
    ]  # fmt: skip


def test_a_source_that_changes_under_the_sweep_stops_it(tmp_path):
    """Else the run would be filed under code that it did not run."""
    source = sweep_toys.notebook(tmp_path)
    done = sweep_toys.sweep(source, "-p", "action=edit", "-p", f"folder='{tmp_path}'")
    assert done.returncode == 2
    assert "changed during the sweep" in done.stderr
    assert not list((tmp_path / "out" / "runs").glob("*.json"))


@pytest.fixture
def results(tmp_path):
    """The table of a sweep over two epsilons, three seeds and two odd texts, of which the first run failed."""
    runs = {}
    (tmp_path / "runs").mkdir()
    for number in range(12):
        action = ["<b>", 'a,"$b\r'][number % 2]
        runs[f"{number:02d}"] = {"epsilon": [0.5, 2][number // 6], "seed": number // 2 % 3, "action": action}
        found = {"answer.risk": number / 8, "answer.list": [1, 2], "answer.truth": True, "answer.same": 1.0}
        result = {"status": "done", "reason": "", "seconds": 1.5, "results": found}
        failed = {"status": "failed", "reason": "ValueError: <i>", "seconds": 0.5, "results": {}}
        (tmp_path / "runs" / f"{number:02d}.json").write_text(json.dumps(result if number else failed))
    return sweep.table(tmp_path, runs)


def test_csv_and_parquet_say_the_same(results, tmp_path):
    sweep.write(results, tmp_path, ["epsilon", "seed", "action"])
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, quoting=csv.QUOTE_NONNUMERIC))
    frame = pd.read_parquet(tmp_path / "table.parquet")
    assert frame["status"].tolist() == ["failed"] + 11 * ["done"]
    assert list(rows[0]) == list(frame)
    assert [row["action"] for row in rows] == frame["action"].tolist() == ["<b>", 'a,"$b\r'] * 6
    assert [row["answer.risk"] for row in rows[1:]] == frame["answer.risk"].tolist()[1:]
    assert frame["answer.list"][1] == rows[1]["answer.list"] == "[1, 2]"
    assert rows[1]["answer.truth"] == "true"
    assert rows[0]["answer.risk"] == ""
    assert (tmp_path / "summary.png").exists()


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2], "Int64"), ([1, 2.5], "float64"), ([None, 1], "Int64"), ([True, False], "boolean"), ([1, True], "object"),
     ([1, "a"], "object"), ([2**70], "object"), ([[1]], "object"), ([None], "object")],
)  # fmt: skip
def test_the_type_of_a_column(values, kind):
    assert sweep.column(values).dtype == kind


def test_the_figure_draws_means_over_seeds(results):
    assert sweep_figure.directions(results, ["epsilon", "seed", "action"]) == ("epsilon", "action")
    figure = sweep_figure.draw(results, ["epsilon", "seed", "action"])
    assert [panel.get_title() for panel in figure.axes] == ["answer.risk"], "what does not differ has no panel"
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) and line.get_linestyle() == "-"]
    means = results.groupby(["action", "epsilon"])["answer.risk"].mean()
    for line, action in zip(lines, sorted(set(results["action"])), strict=True):
        assert np.allclose(line.get_ydata(), means[action].to_numpy())
    plt.close(figure)


def test_labels_are_short_and_no_formulas_and_a_single_run_has_a_figure(results):
    odd = results.assign(action=[r"$\frac", "x" * 100, "\x00\n"] * 4)
    figure, single = sweep_figure.draw(odd, ["action"]), sweep_figure.draw(odd.iloc[[3]], [])
    figure.canvas.draw()
    assert sorted(len(tick.get_text()) for tick in figure.axes[0].get_xticklabels()) == [0, 7, 30]
    assert not single.axes[0].get_lines()
    plt.close("all")


def test_what_a_notebook_found_is_flat():
    risk = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 5}
    record = {"id": "A.thm6", "values": {"risk": risk, "text": "x"}, "verdict": "holds", "because": "b", "data": {}}
    drawn = {**record, "plan": "p"}
    metadata = [{sweep_run.RECORD: record}, {sweep_run.ANSWER: {"risk": 0.1}}, {sweep_run.RECORD: drawn}]
    outputs = [nbformat.v4.new_output("display_data", metadata=said) for said in metadata]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    assert sweep_run.row(nbformat.v4.new_notebook(cells=[cell])) == {
        "answer.risk": 0.1, "A.thm6.risk": 0.5, "A.thm6.risk.low": 0.4, "A.thm6.risk.high": 0.6, "A.thm6.risk.n": 5,
        "A.thm6.text": "x",
    }  # fmt: skip


def test_the_run_reads_records_where_claims_puts_them():
    assert (sweep_run.RECORD, sweep_run.ANSWER) == (claims.RECORD, claims.ANSWER)


def test_a_reason_is_one_line_and_short():
    assert sweep_run.short("two\n  lines") == "two lines"
    assert len(sweep_run.short("x" * 10_000)) == sweep_run.LONGEST
    assert sweep_run.short(MemoryError()) == "MemoryError"
