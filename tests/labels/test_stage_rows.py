"""Values of chapters 9 and 9b: what Table 4 says by itself, exact losses, the Inception as printed."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from dplib import claims, stats
from dplib.labels import stage_rows, stage_study
from dplib.models import small_inception


def test_cited_cells_have_their_own_budget_or_that_of_their_column():
    assert stage_rows.point("eps2", "98.5 (ε = 1.97)") == (1.97, 98.5)
    assert stage_rows.point("eps2", 95) == (2.0, 95.0)
    assert stage_rows.point("eps_inf", 98.3) is None
    assert stage_rows.point("unplaced", 97.71) is None


def test_leads_in_table_4():
    assert stage_rows.leads() == pytest.approx(
        {"lp1st_least_lead": -0.34, "lp2st_least_lead": 0.28, "fashion_lead_less_mnist_lead": 6.8}
    )
    leads = stage_rows.printed_leads("C.table1.", 2)  # by hand from Table 1; none at epsilon 1
    assert leads == {2.0: 19.05, 3.0: 22.89, 4.0: 23.37, 6.0: 24.26, 8.0: 21.52}


def test_a_label_asked_twice_costs_more_than_epsilon():
    losses = stage_rows.exact_losses(1.0)
    assert max(losses[name] for name in ("one_stage", "two_stages", "three_stages")) <= 1 + 1e-9
    assert losses["a_label_asked_twice"] > 1.1


def test_one_stage_is_randomised_response_and_a_second_question_is_refused():
    assert stage_rows.one_stage_is_rr(2.0) == 5000
    assert stage_rows.refuses_a_second_question() == "yes"


def test_gains_are_paired_and_cells_have_the_ledgers_names():
    def results(*values):
        return [{"accuracy": v} for v in values]

    cells = {(float(e), t): results(0.8 + 0.1 * t, 0.7 + 0.1 * t) for e in (1, 2, 3, 4) for t in (1, 2)}
    found = {"cells": {**cells, (math.inf, 1): results(0.95, 0.96)}}
    gains = stage_rows.named("fashion-mnist", stage_rows.gains(found["cells"], 2, 1))
    assert set(gains) == {f"fashion_mnist_eps{e}" for e in (1, 2, 3, 4)}
    assert gains["fashion_mnist_eps1"].value == pytest.approx(10)
    assert stage_rows.gains(found["cells"], 3, 2) == {}
    assert set(stage_rows.table_row(found["cells"], 1)) == {"eps1", "eps2", "eps3", "eps4", "eps_inf"}
    assert stage_rows.gaps(found["cells"])[4.0].value == pytest.approx(100 * (0.955 - 0.95))


def test_a_later_stage_is_compared_with_an_earlier_one():
    """Two stages 80, four 84, six 85: 2 points a stage before four, half a point after."""
    cells = {(1.0, t): [{"accuracy": a}, {"accuracy": a + 0.01}] for t, a in ((2, 0.80), (4, 0.84), (6, 0.85))}
    row = stage_rows.more_stages(cells)["C.s-beyond-4-stages"]
    assert row["a_stage_beyond_4_less_one_before"].value == pytest.approx(-1.5)


def test_means_of_other_seeds_are_compared_as_by_welch():
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 1, 5), rng.normal(1, 4, 8)
    found = stage_rows.apart(stats.mean_interval(a), stats.mean_interval(b))
    expected = ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_losses_of_tuning_by_randomised_labels():
    tried = {"mixup": {0.0: {"accuracy": 90.0}, 1.0: {"accuracy": 91.5}}}
    found = stage_rows.tuning_losses([{1.0: {"mixup": 0.0, "tried": tried}, 3.0: {"mixup": 1.0, "tried": tried}}])
    assert found == {"choices": 2, "mean_loss_by_randomised_labels": 0.75, "largest_loss": 1.5}


def test_the_inception_is_the_printed_one():
    for part, definition in stage_rows.inception_definition(small_inception()).items():
        assert claims.get(f"C.table-inception.{part}").published["definition"] == definition


def test_settings_are_chosen_by_randomised_labels_and_nearest_budget():
    """Made-up scores: LP-1ST is best without mixup, LP-2ST with a coefficient of 1 and a temperature of 0.5."""
    asked = []

    def get(function, jobs):
        asked.extend(jobs)
        return [
            {
                "randomised": (j["learning_rate"] == 0.2)
                + 0.1 * (j.get("mixup", [0.0]) == [float(len(j["shares"]) - 1)])
                + 0.1 * (j.get("temperature") == 0.5),
                "accuracy": 0.5,
                "stages": [],
            }
            for j in jobs
        ]

    tuning = {"epsilons": [1.0, 3.0], "rates": [0.05, 0.2], "mixups": [0.0, 1.0], "temperatures": [0.25, 0.5],
              "validation": 10}  # fmt: skip
    found = stage_study.compared(get, dataset="digits", epsilons=[1.0], stages=[1, 2], seeds=2, tuning=tuning)
    first, second = (stage_study.chosen(found["choices"], 2.0, count) for count in (1, 2))
    assert first == {"learning_rate": 0.2, "mixup": [0.0]}
    assert second == {"learning_rate": 0.2, "mixup": [1.0], "temperature": 0.5}
    assert {job["seed"] for job in asked if "validation" in job} == {1000, 1001, 1002}
    assert set(found["cells"]) == {(1.0, 1), (1.0, 2), (math.inf, 1)}
