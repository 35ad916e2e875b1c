"""Curves over the number of features: what is run for them, and that the figures draw."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib import study
from dplib.architecture import crossover, feature_figures, feature_sweeps
from dplib.architecture.feature_figures import PLAIN, Curves
from dplib.architecture.feature_order import merit_orders
from dplib.checks import ParameterError

NAME = "synthetic-recurrence"


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path_factory.mktemp("studies"))
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))


@pytest.fixture
def curve():
    orders = merit_orders(NAME, range(3))
    return feature_figures.curves(NAME, orders, [1, 4, 14, 43], [0.5, 5.0, PLAIN], (6, 3))


def test_curves_are_the_runs_in_percent(curve):
    assert curve.values.shape == (3, 4, 3)
    orders = merit_orders(NAME, range(3))
    run = feature_sweeps.accuracies(dataset=NAME, seed=1, subsets=[orders[1][:4]], epsilons=[0.5, 5.0, PLAIN], draws=6)
    assert curve.values[1, 1] == pytest.approx(100 * np.array(run["mean"][0]))
    large = feature_sweeps.accuracies(dataset=NAME, seed=2, subsets=[orders[2]], epsilons=[0.5, 5.0, PLAIN], draws=3)
    assert curve.at(43, 5.0)[2] == pytest.approx(100 * large["mean"][0][1])
    assert curve.of(PLAIN).shape == (3, 4)
    assert curve.constant.shape == (3,)
    assert curve.spent == pytest.approx(1)
    assert curve.cpu_seconds > 0


@pytest.mark.parametrize(("sizes", "epsilons"), [([4, 1], [1.0, 2.0]), ([1, 4], [2.0, 1.0])])
def test_sizes_and_budgets_must_rise(sizes, epsilons):
    with pytest.raises(ParameterError, match="must rise"):
        feature_figures.curves(NAME, [[0, 1, 2, 3]], sizes, epsilons, (2, 2))


def test_tuning_takes_what_validation_prefers():
    """A regularisation of a million leaves a constant: without noise it must not be chosen where features inform."""
    one, chosen = feature_figures.tuned(NAME, [2, 43], [0.05, 1e3], [1.0, 1e6], (20, 20), splits=3, tuning=4)
    assert chosen.shape == (2, 2)
    assert one.values.shape == (3, 2, 2)
    assert (chosen[1, 0], chosen[0, 1]) == (1e6, 1.0)  # all features at a tiny budget; two features at a large one
    plain = feature_figures.curves(NAME, merit_orders(NAME, range(3)), [2, 43], [0.05, 1e3], (20, 20))
    assert one.at(2, 1e3) == pytest.approx(plain.at(2, 1e3), abs=3)
    assert one.at(43, 0.05).mean() > plain.at(43, 0.05).mean()


def test_forward_orders_by_split():
    orders, seconds = feature_figures.forward_orders(NAME, 2, None, 2, 1, 2)
    assert [len(set(order)) for order in orders] == [2, 2]
    assert seconds > 0


def test_figures_draw(curve):
    feature_figures.by_size({"one": curve, "two": curve}, {"one": (5.0, 11)}, "accuracy (%)")
    pair = Curves(NAME, [1, 43], [0.5, 5.0, 50.0], curve.values[:, [0, 3]], curve.constant, (6, 3), 1.0, 0.0)
    found = crossover.estimate(pair.epsilons, pair.values[:, 0], pair.values[:, 1], rng=np.random.default_rng(0))
    feature_figures.crossings({"one": (pair, found)}, {"one": (1, 20)}, "accuracy (%)")
