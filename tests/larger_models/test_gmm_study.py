"""Chapter 1's experiments, and what leads from them to values; a rate is that of another seed."""

import numpy as np
import pytest

from dplib import mechanisms
from dplib.larger_models import gmm_rows, gmm_study, gmm_tables


def test_a_curve_is_paired_over_noises_and_does_not_depend_on_the_other_dimensions():
    job = {"seed": 4, "replicates": 50}
    both = gmm_study.curve(noise="unit", dimensions=[20, 50], **job)
    alone = gmm_study.curve(noise="unit", dimensions=[50], **job)
    assert both["psi"][1] == alone["psi"][0]
    louder = gmm_study.curve(noise="unit", epsilon=2.5, dimensions=[20, 50], **job)
    assert all(a > b for a, b in zip(both["psi"], louder["psi"], strict=True))
    assert gmm_study.curve(noise="unit", dimensions=[50], seed=5, replicates=50)["psi"] != alone["psi"]


def test_one_class_is_misled_in_half_of_the_training_sets_where_nothing_is_left_of_the_signal():
    """The share is within 4.5 standard deviations of 1/2, rate 7e-6; with a strong signal it is 0."""
    lost = gmm_study.training_sets(p=400, seed=1, noise="L1", epsilon=1e-3, n_per_class=10)
    assert abs(lost["misled"] / 1000 - 0.5) < 4.5 * 0.5 / np.sqrt(1000)
    assert lost["far"]["one"] > lost["far"]["average"] > 1
    clear = gmm_study.training_sets(p=400, seed=1, noise="none", n_per_class=10)
    assert clear["misled"] == 0
    assert sum(clear["histogram"]["one"]) == 1000


def test_what_is_checked_on_whole_data_sets():
    found = gmm_study.ingredients(seed=0, p=200, fresh=2000, replaced=2)
    assert found["same_decisions"] == 1000
    assert np.abs(found["bias"]).max() < 0.02
    assert found["distance_ratio"] == pytest.approx(1, abs=0.05)
    assert found["fresh"]["printed"] < found["fresh"]["exact"] == pytest.approx(found["fresh"]["wrong"], abs=0.03)


def test_definition_2_is_private_up_to_some_epsilon():
    largest, share = gmm_rows.where_definition2_is_private(1e-4)
    for epsilon, private in ((0.999999 * largest, True), (1.000001 * largest, False)):
        assert (mechanisms.gaussian_delta(mechanisms.paper_sigma(epsilon, 1e-4), 1.0, epsilon) <= 1e-4) == private
    assert 0.1 < share < 0.3


@pytest.mark.parametrize("epsilon", [0.01, 5.0, 1000.0])
def test_at_any_budget_a_gain_has_digits(epsilon):
    found = gmm_tables.at_budget(300, epsilon, 1e-4, informative=20, n_per_class=30, seed=1)
    assert found["error"].between(0, 0.5).all()
    assert (found["gain"] > 0).all()
    assert (found["error"] + found["gain"]).to_numpy() == pytest.approx(0.5)
    assert found["gain"].is_monotonic_decreasing
