"""Runs over subsets of the features: against scikit-learn, planted features and known limits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dplib.architecture import feature_data, feature_sweeps

NAME = "synthetic-recurrence"


def test_without_noise_it_is_logistic_regression():
    table = feature_data.load(NAME, 2)
    columns = [30, 3, 17, 20]
    found = feature_sweeps.accuracies(
        dataset=NAME, seed=2, subsets=[columns], epsilons=[1e9], draws=7, variant="diffprivlib"
    )
    plain = LogisticRegression(C=1, tol=1e-10).fit(table.x_train[:, columns], table.y_train)
    assert found["mean"][0][0] == pytest.approx(plain.score(table.x_test[:, columns], table.y_test))
    assert found["sd"] == [[0.0]]
    assert found["spent"] is None  # a free intercept


def test_shapes_spread_and_the_privacy_spent():
    found = feature_sweeps.accuracies(
        dataset=NAME, seed=0, subsets=[[1], list(range(43))], epsilons=[0.5, 5.0, 1e9], draws=40
    )
    assert np.shape(found["mean"]) == np.shape(found["sd"]) == (2, 3)
    assert min(found["sd"][1][:2]) > 0
    assert found["spent"] == pytest.approx(1, abs=1e-6)
    assert found["spent"] <= 1 + 1e-9
    assert found["converged"] == 1
    assert found["mean"][1][0] < found["mean"][1][2]  # half a budget for 43 columns is next to guessing


def test_accuracy_on_validation_records_leaves_the_test_part_alone():
    settings = {"dataset": NAME, "seed": 0, "subsets": [[30]], "epsilons": [1e9], "draws": 1}
    held = feature_sweeps.accuracies(**settings, validation=40)["mean"][0][0]
    assert held * 40 == pytest.approx(round(held * 40))
    test = feature_sweeps.accuracies(**settings)["mean"][0][0]
    assert test * 95 == pytest.approx(round(test * 95), abs=1e-5)


def test_dividing_rows_by_their_bound_is_a_stronger_regularisation():
    """A penalty l2 on w for rows x/c is one of l2 c^2 for rows x; the intercept is free in this variant."""
    settings = {"dataset": NAME, "seed": 1, "subsets": [list(range(43))], "epsilons": [1e9], "draws": 1}
    shared = {**settings, "variant": "diffprivlib"}
    one = feature_sweeps.accuracies(**shared, unit_rows=True, regularisation=1.0)
    other = feature_sweeps.accuracies(**shared, regularisation=9.0)
    assert one["mean"] == other["mean"]


@pytest.mark.parametrize(("epsilon", "draws", "hold_outs"), [(None, 1, 4), (20.0, 8, 2)])
def test_forward_selection_finds_what_informs(epsilon, draws, hold_outs):
    table = feature_data.load(NAME, 0)
    found = feature_sweeps.forward_order(
        dataset=NAME, seed=0, epsilon=epsilon, largest=3, draws=draws, hold_outs=hold_outs
    )
    assert len(set(found["order"])) == 3
    informative = ("deg-malig", "inv-nodes", "node-caps", "age")
    names = [table.feature_names[c].partition("=")[0] for c in found["order"]]
    assert names[0] in informative
    assert found["scores"][0] <= found["scores"][-1] + 0.02
    assert found["scores"][-1] > max(table.y_train.mean(), 1 - table.y_train.mean()) - 0.02
