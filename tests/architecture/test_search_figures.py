"""Figures of the chapter on architecture search: what they show of the numbers they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib.architecture import search_figures
from dplib.architecture.search import paas
from dplib.architecture.search_replays import Known
from dplib.architecture.space import FCN
from dplib.stats import mean_interval


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_the_trace_shows_every_candidate_and_its_noise(axes):
    known = Known({"model": [64], "activation": ["relu"]})
    found = paas(FCN, known, generations=3, population=5, noise_scale=0.01, rng=np.random.default_rng(0))
    search_figures.trace(found, axes)
    noisy, new, old = (line.get_ydata() for line in axes.lines[:3])
    assert noisy == pytest.approx([100 * c.fitness for c in found.trace])
    assert len(new) == found.trainings
    assert len(new) + len(old) == 15


def test_the_curve_is_the_mean_over_splits(axes):
    values = np.array([[1.0, 2.0], [3.0, 6.0], [2.0, 4.0]])
    points = [("PAAS", "black", np.array([3.0, 5.0]), np.array([1.0, 2.0]))]
    search_figures.best_of([1, 2], {"test": values}, points, axes)
    assert axes.lines[0].get_ydata() == pytest.approx([2.0, 4.0])
    assert axes.lines[1].get_xdata() == pytest.approx([4.0])


def test_every_search_and_arm_has_its_point(axes):
    accuracy = mean_interval(np.array([90.0, 91.0, 92.0]))
    search_figures.pareto({"paas": (20, accuracy, 24.0), "rs": (200, accuracy, 5.9)}, axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["PAAS: ε = 24", "RS: ε = 5.9"]


def test_released_models_stand_in_the_order_given_also_on_panels_that_share_the_axis():
    figure, panels = plt.subplots(1, 2, sharey=True)
    for axes in panels:
        search_figures.released({"none": np.array([1.0, 2.0]), "RS": np.array([3.0, 5.0])}, axes)
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["none", "RS"]
    assert all(axes.yaxis_inverted() for axes in panels)
    plt.close(figure)
