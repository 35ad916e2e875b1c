"""Figures of label-private optimisation: what they show, from plain numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib.labels import theory_figures as figures
from dplib.labels.theory_runs import Worst


@pytest.fixture
def axes():
    _, axes = plt.subplots()
    yield axes
    plt.close("all")


def values(*means):
    return np.array(means)[:, None] * np.array([0.9, 1.0, 1.1])


def names(axes):
    return axes.get_legend_handles_labels()[1]


def test_over_dimension_keeps_the_names_and_stays_above_zero(axes):
    figures.over_dimension(axes, [2, 20], {"LP-RR-SGD": values(0.1, 0.1), "DP, best of many": values(0.05, 1)}, "t")
    assert names(axes) == ["LP-RR-SGD", "DP, best of many"]
    assert axes.get_ylim()[0] == pytest.approx(0.05 / 3)


def test_rates_in_three_panels():
    found = {
        (m, k, e): (Worst(np.array([10, 100]), values(0.3, 0.1), np.ones(2), 1.0),) * 2
        for m in ("rr", "normal")
        for k, e in [(2, 1.0), (4, 1.0), (2, 0.5)]
    }
    _, panels = plt.subplots(1, 3)
    figures.rates(panels, found, [2, 4], [1.0, 0.5], (2, 1.0))
    assert len(names(panels[0])) == 6
    assert len(names(panels[1])) == 4
    np.testing.assert_allclose(panels[2].lines[0].get_xdata(), [1, 2])
    plt.close("all")


def test_second_moments_mark_where_normal_noise_wins(axes):
    figures.second_moments(axes, 1.0, 1e-5)
    assert any("161" in text.get_text() for text in axes.texts)


def test_constants_and_lower_bounds(axes):
    figures.constants(axes, epsilons=(0.5, 1.0))
    assert "ε = 1" in names(axes)
    axes.clear()
    figures.lower_bounds(axes, [0.1, 1.0], {"RR signs": [0.2, 0.1], "bound: sharp": [0.1, 0.05]}, 100)
    assert axes.lines[1].get_linestyle() == "--"


def test_sets_show_miss_rates_on_top(axes):
    figures.sets(axes, values(0.3, 0.2), [0.5, 0.0], np.array([0.2]))
    assert names(axes)[0] == "LP-RR-SGD on Y_k"


def test_generalisation_has_one_dot_for_each_data_set(axes):
    figures.generalisation(axes, [10, 20], {0.5: [np.ones(7), np.ones(7)]}, {0.5: [2.0, 1.5]})
    assert sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() == ".") == 14
