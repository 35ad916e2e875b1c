"""Table, index, figure and the costs on paper, from a store without any run behind it."""

import csv
import functools

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from press import sweep_cost
from sweeps import figure as sweep_figure
from sweeps import grid, sweep, table, worker
from tests.sweeps.toys import notebook


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
        part = tmp_path / "part.ipynb"
        part.parent.mkdir(exist_ok=True)
        part.write_text("{}")
        plan.store.path(key, ".ipynb").parent.mkdir(parents=True, exist_ok=True)
        about = {"seconds": 1.5, "host": "here", "commit": "abc"}
        plan.store.keep(key, {"parameters": parameters, "results": results, **about}, part)
    return plan


def test_csv_and_parquet_say_the_same(plan, tmp_path):
    assert table.write(plan, tmp_path) == {"failed": 1, "done": 11}
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, quoting=csv.QUOTE_NONNUMERIC))
    frame = pd.read_parquet(tmp_path / "table.parquet")
    assert list(rows[0]) == list(frame)
    assert [row["action"] for row in rows] == frame["action"].tolist() == ["<b>", 'a,"$b\r'] * 6
    assert [row["epsilon"] for row in rows] == frame["epsilon"].tolist()
    assert [row["A.thm6.risk"] for row in rows[1:]] == frame["A.thm6.risk"].tolist()[1:]
    assert frame["A.thm6.list"][1] == rows[1]["A.thm6.list"] == "[1, 2]"
    assert (frame["status"][0], frame["reason"][0]) == ("failed", "ValueError: <i>")
    assert pd.isna(frame["A.thm6.risk"][0])
    assert rows[0]["A.thm6.risk"] == ""
    first = [(tmp_path / name).read_bytes() for name in ("table.csv", "table.parquet")]
    table.write(plan, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in ("table.csv", "table.parquet")] == first


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2], "whole"), ([1, 2.5], "real"), ([None, 1], "whole"), ([True, False], "truth"), ([1, True], "text"),
     ([1, "a"], "text"), ([2**70], "text"), ([[1]], "text"), ([None], None)],
)  # fmt: skip
def test_the_type_of_a_column(values, kind):
    assert functools.reduce(table._wider, values, None) == kind


def test_the_index_escapes_what_it_shows(plan, tmp_path):
    (tmp_path / "out").mkdir()
    index = table.write_index(plan, tmp_path / "out", {"done": 11}, summary=True).read_text(encoding="utf-8")
    assert "<b>" not in index
    assert "<i>" not in index
    assert "failed: ValueError: &lt;i&gt;" in index
    assert index.count('href="../store/toy/') == 11
    assert "summary.png" in index


def test_the_figure_draws_means_over_seeds(plan, tmp_path):
    table.write(plan, tmp_path)
    frame = pd.read_parquet(tmp_path / "table.parquet")
    assert sweep_figure.directions(frame, ["epsilon", "seed", "action"]) == ("epsilon", "action")
    assert sweep_figure.telling(frame[frame["status"] == "done"], ["epsilon"]) == ["A.thm6.risk"]
    figure = sweep_figure.draw(frame, ["epsilon", "seed", "action"])
    lines = figure.axes[0].get_lines()
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
    table.write(plan, tmp_path)
    frame = pd.read_parquet(tmp_path / "table.parquet").assign(action=[r"$\frac", "x" * 100, "\x00\n"] * 4)
    figure, single = sweep_figure.draw(frame, ["action"]), sweep_figure.draw(frame.iloc[[3]], [])
    figure.canvas.draw()
    assert [len(tick.get_text()) for tick in figure.axes[0].get_xticklabels()] == [0, 7, 30]
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


def test_costs_on_paper():
    """By hand: 10^4 runs of 36 s are 100 core-hours; 100 batches of 3.6 s are 0.1 h beside 1 h for 10^4 runs."""
    run = {"seconds": 36.0, "kernel_seconds": 0.5, "bytes": 1e6, "files": 2, "table_bytes": 500, "table_seconds": 1e-3}
    run |= {"scheduler_seconds": 0.36, "batch_seconds": 3.6}
    text = sweep_cost.markdown({"a_run": run, "batch": 100})
    for line in (
        "| wall time on 2 cores | 30 minutes | 2.1 days | 210 days |",
        "| wall time on 1024 cores | 36 s | 5.9 minutes | 9.8 hours |",  # no run is split over cores
        "| disk | 100 MB | 10 GB | 1 TB |",
        "| files | 200 | 20,000 | 2,000,000 |",
        "| starts of Snakemake | 1 | 100 | 10,000 |",
        "| its own processor time | 40 s | 66 minutes | 4.6 days |",
        "at about 1,000,000 runs",
    ):
        assert line in text, line
