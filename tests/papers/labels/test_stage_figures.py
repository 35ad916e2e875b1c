"""What chapter 9 shows: both guarantees on one axis, in tables that fit a page."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib import stats
from papers.labels import stage_figures as figures
from papers.labels import stage_rows


def results(level):
    return [{"accuracy": (level + seed / 10) / 100} for seed in range(3)]


def outcome(level):
    values = level + np.arange(3) / 10
    return SimpleNamespace(values=lambda: values, mean=stats.mean_interval(values))


@pytest.fixture
def found():
    cells = {name: {(e, t): results(90 + e + t) for e in (1, 2, 3, 4) for t in (1, 2)} for name in stage_rows.TITLES}
    measured = {(name, t): stage_rows.table_row(cells[name], t) for name in cells for t in (1, 2)}
    by_sgd = {name: {e: outcome(95.0) for e in (0.5, 1, 1.5, 2, 3)} for name in cells}  # none at 4
    return cells, measured, by_sgd


def test_both_comparisons_stand_in_one_row(found):
    table = figures.less_sgd(*found)
    assert table.shape == (8, 5)
    first, last = table.iloc[0].tolist(), table.iloc[3].tolist()
    assert first[3].startswith("−2.00 ±"), "behind, with a true minus, on one line"
    assert last[3] == "–", "no DP-SGD was run there"
    assert last[4].startswith("1.00 ±")


def test_lines_carry_their_names(found):
    _, measured, by_sgd = found
    figures.two_guarantees(measured, by_sgd)
    axes = plt.gcf().axes
    assert [len(panel.lines) for panel in axes] == [3, 3]
    assert {text.get_text() for text in axes[0].texts} == {"two stages", "DP-SGD, ε", "DP-SGD, ε/2"}
    plt.close("all")
