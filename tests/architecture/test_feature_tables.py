"""Tables II and XVIII from runs: rates chosen on validation records, subsets by size, the figure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib import study
from dplib.architecture import feature_table_verdicts, feature_tables

NAME = "synthetic-recurrence"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    kept, study.FOLDER = study.FOLDER, tmp_path_factory.mktemp("studies")
    try:
        yield feature_tables.trained(
            NAME,
            [2, 10, 88, 43],
            [50.0, 0.236],
            [1e-4, 1.0],
            splits=4,
            tuning=3,
            draws=5,
            batch=250,
            epochs=20,
            delta=1e-5,
        )
    finally:
        study.FOLDER = kept


def test_sizes_beyond_the_table_are_left_out(trained):
    assert trained.sizes == [2, 10, 43]
    assert set(trained.values) == {(k, e) for k in (2, 10, 43) for e in (50.0, 0.236, None)}
    assert all(v.shape == (4,) for v in trained.values.values())
    assert trained.constant.shape == (4,)


def test_rates_come_from_the_grid_and_a_useful_one_is_taken(trained):
    assert set(trained.rates.values()) <= {1e-4, 1.0}
    assert trained.rates[2, None] == 1.0  # with 1e-4 nothing moves in twenty steps
    assert all(v.shape == (2, 3) for v in trained.validation.values())
    assert trained.validation[2, None][1].mean() > trained.validation[2, None][0].mean()
    assert len(trained.edges) == len(trained.rates)  # two rates have no inside


def test_more_noise_for_a_smaller_budget(trained):
    assert trained.noise[0.236] > trained.noise[50.0] > trained.noise[None] == 0
    assert trained.values[2, 50.0].mean() > trained.values[43, 0.236].mean()


def test_the_figure_draws(trained, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    rows = feature_table_verdicts.table_rows("table2")
    budgets = {0.236: 50.0, 0.014: 0.236}
    printed = {i: {**row, "epsilon": budgets[row["epsilon"]]} for i, row in rows.items()}
    feature_tables.figure({"table2": trained}, {"table2": printed}, "accuracy (%)")
    assert np.isfinite(trained.cpu_seconds)
