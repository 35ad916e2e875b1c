"""Equation (9): solved by hand, its source's example, and whether one setting gives both printed budgets."""

import math

import numpy as np
import pytest
from scipy import optimize

from dplib.architecture import printed_search_budgets
from dplib.architecture.printed_search_budgets import equation_9, search_epsilon


@pytest.mark.parametrize("form", printed_search_budgets.FORMS)
@pytest.mark.parametrize("count", [10, 400])
def test_equation_9_is_solved(form, count):
    loss, validation, failure = 0.05, 5000, 1e-4
    inside = count / failure if form == "corrected" else 1 / (count * failure)

    def gap(e):
        return loss * validation - 4 / e * math.log(inside / e)

    expected = optimize.brentq(gap, 1e-6, 10)
    assert equation_9(loss, validation, count, failure, form) == pytest.approx(expected, rel=1e-9)
    assert gap(expected * 1.01) > 0 > gap(expected * 0.99)


def test_more_candidates_cost_more_only_in_the_corrected_form():
    counts = np.array([10, 20, 40, 400])
    corrected, printed = (equation_9(0.05, 5000, counts, 1e-4, form) for form in ("corrected", "printed"))
    assert (np.diff(corrected) > 0).all()
    assert (np.diff(printed) < 0).all()
    assert equation_9(0.001, 1000, 400, 0.05) == math.inf, "beyond 1/2 the theorem says nothing"


def test_the_example_of_abadi_et_al():
    """Epsilon' = 0.5 and failure 0.05 lose 100 of 10,000 records with up to 6,700 settings."""
    loss = 8 * math.log(6700 / (0.5 * 0.05))
    assert loss == pytest.approx(100, abs=0.1)
    assert equation_9((loss + 1e-6) / 10_000, 10_000, 6700, 0.05) == pytest.approx(0.5, rel=1e-6)
    assert printed_search_budgets.theorem_runs(0.5, 0.05, 1 / 6700) > 1e11


def test_sums_over_generations():
    one = [8 * equation_9(0.05, 5000, k, 0.01) for k in (40, 20, 10)]
    assert search_epsilon((40, 20, 10), 0.05, 5000, 0.01) == pytest.approx(3 * 2.11 + sum(one))
    assert search_epsilon((40, 20, 10), 0.05, 5000, 0.01, once=True) == pytest.approx(2.11 + sum(one))


def test_no_common_setting_for_rs_and_mgrs_as_stated():
    joint = printed_search_budgets.joint_fits().set_index(["form", "training"])
    fits = joint["failure"].notna()
    assert fits[fits].index.tolist() == [("printed", "once")]
    row = joint.loc[("printed", "once")]
    setting = (1.0, row["records"], row["failure"], "printed")
    assert search_epsilon((400,), *setting) == pytest.approx(3.51)
    assert search_epsilon((40, 20, 10), *setting, once=True) == pytest.approx(8.53)
