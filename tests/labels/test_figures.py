import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from dplib.labels import figures


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def frame():
    rng = np.random.default_rng(0)
    cells = [(t, e, s) for t in (1, 2) for e in (1.0, 2.0, np.inf) for s in range(5) if t == 1 or e < np.inf]
    rows = [("digits", t, e, s, 80 + 5 * t + min(e, 5) + rng.normal(0, 0.1)) for t, e, s in cells]
    return pd.DataFrame(rows, columns=["dataset", "stages", "epsilon", "seed", "accuracy"])


def test_budgets_draw_a_line_for_each_method_and_reference(axes):
    figures.budgets(frame(), {"other": [(1.0, 70.0), (2.0, 75.0)], "point": [(1.5, 60.0)]}, axes)
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["LP-1ST (labels)", "LP-2ST (labels)", "true labels (ε = ∞)", "other", "point"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1, 2])
    assert axes.lines[1].get_ydata()[0] > axes.lines[0].get_ydata()[0] + 4
    assert len(axes.collections) == 2  # bands


def test_stage_counts_draw_a_line_for_each_budget(axes):
    figures.stage_counts(frame(), axes)
    assert [line.get_label() for line in axes.lines] == ["ε = 1", "ε = 2"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1, 2])


def test_dynamics_put_stage_2_after_stage_1(axes):
    curve = [[0.5, 0.7, 0.8], [0.6, 0.8, 0.9]]
    figures.dynamics([curve, curve], [[curve, curve]] * 2, 0.6, axes)
    first, last = axes.lines[1], axes.lines[3]
    np.testing.assert_allclose(first.get_xdata(), [1, 2])
    np.testing.assert_allclose(last.get_xdata(), [3, 4])
    np.testing.assert_allclose(axes.lines[2].get_ydata(), [70, 80])  # top 2


def test_stage_gains_are_paired_by_seed():
    rows = frame().sample(frac=1, random_state=1)
    gains = figures.stage_gain(rows, 2, 1)
    assert set(gains["epsilon"]) == {1.0, 2.0}
    assert all(abs(g.difference.value - 5) < 0.5 and g.difference.low > 0 for g in gains["gain"])
    assert figures.stage_gain(rows, 3, 2).empty
