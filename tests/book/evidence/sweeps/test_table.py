"""Table, index and figure, from a store without any run behind it."""

import csv

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from book.evidence.sweeps import figure as sweep_figure
from book.evidence.sweeps import grid, sweep, table, worker
from tests.book.evidence.sweeps.toys import notebook


@pytest.fixture
def plan(tmp_path):
    """A sweep over two epsilons, three seeds and two odd texts, all but one of them finished."""
    words = ["epsilon=0.5,2", "seed=0:3", "action='<b>','a,\"$b\\r'"]
    plan = sweep.plan(grid.from_words(str(notebook(tmp_path)), words), tmp_path / "store")
    for number, (key, parameters) in enumerate(plan.runs()):
        if number == 0:
            plan.store.keep_failure(key, "failed", "ValueError: <i>")
            continue
        results = {"A.thm6.verdict": "holds", "A.thm6.risk": number / 8, "A.thm6.list": [1, 2], "A.thm6.n": number}
        results["A.thm6.truth"] = True
        part = tmp_path / "part.ipynb"
        part.parent.mkdir(exist_ok=True)
        part.write_text("{}")
        plan.store.path(key, ".ipynb").parent.mkdir(parents=True, exist_ok=True)
        about = {"seconds": 1.5, "host": "here", "commit": "abc"}
        plan.store.keep(key, {"parameters": parameters, "results": results, **about}, part)
    return plan


def test_csv_and_parquet_say_the_same(plan, tmp_path):
    table.write(table.frame(plan), tmp_path)
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, quoting=csv.QUOTE_NONNUMERIC))
    frame = pd.read_parquet(tmp_path / "table.parquet")
    assert frame["status"].tolist() == ["failed"] + 11 * ["done"]
    assert list(rows[0]) == list(frame)
    assert [row["action"] for row in rows] == frame["action"].tolist() == ["<b>", 'a,"$b\r'] * 6
    assert [row["epsilon"] for row in rows] == frame["epsilon"].tolist()
    assert [row["A.thm6.risk"] for row in rows[1:]] == frame["A.thm6.risk"].tolist()[1:]
    assert frame["A.thm6.list"][1] == rows[1]["A.thm6.list"] == "[1, 2]"
    assert rows[1]["A.thm6.truth"] == "true"
    assert (frame["status"][0], frame["reason"][0]) == ("failed", "ValueError: <i>")
    assert pd.isna(frame["A.thm6.risk"][0])
    assert rows[0]["A.thm6.risk"] == ""


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2], "Int64"), ([1, 2.5], "float64"), ([None, 1], "Int64"), ([True, False], "boolean"), ([1, True], "object"),
     ([1, "a"], "object"), ([2**70], "object"), ([[1]], "object"), ([None], "object")],
)  # fmt: skip
def test_the_type_of_a_column(values, kind):
    assert table.column(values).dtype == kind


def test_the_index_escapes_what_it_shows(plan, tmp_path):
    (tmp_path / "out").mkdir()
    index = table.write_index(plan, table.frame(plan), tmp_path / "out", figure=True).read_text(encoding="utf-8")
    assert "<b>" not in index
    assert "<i>" not in index
    assert "ValueError: &lt;i&gt;" in index
    assert "12 runs: 11 done, 1 failed." in index
    assert index.count('href="../store/toy/') == 11
    assert "summary.png" in index


def test_the_figure_draws_means_over_seeds(plan, tmp_path):
    frame = table.frame(plan)
    assert sweep_figure.directions(frame, ["epsilon", "seed", "action"]) == ("epsilon", "action")
    assert sweep_figure.telling(frame[frame["status"] == "done"], ["epsilon"]) == ["A.thm6.risk"]
    figure = sweep_figure.draw(frame, ["epsilon", "seed", "action"])
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) and line.get_linestyle() == "-"]
    means = frame.groupby(["action", "epsilon"])["A.thm6.risk"].mean()
    for line, action in zip(lines, sorted(set(frame["action"])), strict=True):
        assert np.allclose(line.get_ydata(), means[action].to_numpy())
    plt.close(figure)


def test_numbers_that_the_parameters_move_come_first():
    frame = pd.DataFrame({"epsilon": [1.0, 1.0, 2.0, 2.0], "seed": [0, 1, 0, 1], "status": "done"})
    frame = frame.assign(**{"A.x.seed_alone": [0.0, 1.0, 0.0, 1.0], "A.x.both": [1.0, 2.0, 3.0, 4.0], "A.x.same": 1.0})
    assert sweep_figure.telling(frame, ["epsilon", "seed"]) == ["A.x.both", "A.x.seed_alone"]
    assert sweep_figure.telling(frame, ["seed"]) == ["A.x.seed_alone", "A.x.both"], "nothing to tell settings apart by"


def test_labels_are_short_and_no_formulas_and_a_single_run_has_a_figure(plan, tmp_path):
    frame = table.frame(plan).assign(action=[r"$\frac", "x" * 100, "\x00\n"] * 4)
    figure, single = sweep_figure.draw(frame, ["action"]), sweep_figure.draw(frame.iloc[[3]], [])
    figure.canvas.draw()
    assert sorted(len(tick.get_text()) for tick in figure.axes[0].get_xticklabels()) == [0, 7, 30]
    assert "no recorded number differs" in single.axes[0].texts[0].get_text()
    plt.close("all")


def test_what_a_notebook_recorded_is_flat():
    risk = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 5}
    record = {"id": "A.thm6", "values": {"risk": risk, "text": "x"}, "verdict": "holds", "because": "b", "data": {}}
    output = nbformat.v4.new_output("display_data", metadata={worker.RECORD: record})
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    assert worker.row(nbformat.v4.new_notebook(cells=[cell])) == {
        "A.thm6.verdict": "holds",
        "A.thm6.risk": 0.5,
        "A.thm6.risk.low": 0.4,
        "A.thm6.risk.high": 0.6,
        "A.thm6.risk.n": 5,
        "A.thm6.text": "x",
    }
