"""What a sweep found, as a table and a figure."""

import csv
import json

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from book.evidence import claims, sweep, sweep_figure, sweep_run
from dplib.checks import ParameterError


@pytest.fixture
def results(tmp_path):
    """The table of a sweep over two epsilons, three seeds and two odd texts, of which the first run failed."""
    runs = {}
    (tmp_path / "runs").mkdir()
    for number in range(12):
        action = ["<b>", 'a,"$b\r'][number % 2]
        runs[f"{number:02d}"] = {"epsilon": [0.5, 2][number // 6], "seed": number // 2 % 3, "action": action}
        values = {"answer.risk": number / 8, "answer.list": [1, 2], "answer.truth": True, "answer.same": 1.0}
        result = {"status": "done", "reason": "", "seconds": 1.5, "results": values}
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


def test_a_figure_without_a_number_says_whether_there_was_any(results):
    bare = results[[name for name in results if not name.startswith("answer.")]]
    alike = results.assign(**{"answer.risk": 1.0})
    for table, said in ((bare, "the notebook records no answer"), (alike, "no number differs between the runs")):
        assert [text.get_text() for text in sweep_figure.draw(table, ["epsilon"]).axes[0].texts] == [said]
    plt.close("all")


def test_a_sweep_says_that_nothing_was_recorded(results, tmp_path, monkeypatch, capsys):
    bare = results[[name for name in results if not name.startswith("answer.")]]
    monkeypatch.setattr(sweep, "make", lambda *_call, **_options: None)
    (tmp_path / "grid.json").write_text('{"chapter": "01_gmm_theory", "digest": "", "runs": {}}')
    for table, said in ((bare, True), (results, False)):
        monkeypatch.setattr(sweep, "table", lambda *_call, table=table: table)
        options = {"cores": 1, "profile": None, "dry_run": False, "retry": False}
        sweep.command("01_gmm_theory", ["epsilon=0.5,2"], [], out=tmp_path, **options)
        assert ("01_gmm_theory records no answer at its parameters" in capsys.readouterr().out) == said


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


def test_a_damaged_result_is_named(results, tmp_path):
    for text in ('{"status": "do', "", "[]", "{}"):
        (tmp_path / "runs" / "03.json").write_text(text)
        with pytest.raises(ParameterError, match=r"03\.json is damaged .*: remove it, and the run will be made again"):
            sweep.describe(tmp_path, {"03": {}}, 1, retry=False)


def test_an_edited_table_is_moved_and_not_written_over(results, tmp_path):
    for _ in range(2):
        assert sweep.write(results, tmp_path, ["epsilon", "seed", "action"]) == ""
    with (tmp_path / "table.csv").open("a") as file:
        file.write("a note\n")
    assert "it is table-1.csv now" in sweep.write(results, tmp_path, ["epsilon", "seed", "action"])
    assert (tmp_path / "table-1.csv").read_text().endswith("a note\n")
