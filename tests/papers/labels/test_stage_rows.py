"""Values of chapters 9 and 9b: what Table 4 says by itself, choices of settings, groups of runs."""

import math

import pytest

from book.evidence import plans
from papers.common.network_runs import Outcome
from papers.labels import recipe_rows, stage_rows, stage_runs
from papers.labels.rating_runs import RatingLearner
from tests.toys import Asked


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


def test_dp_sgd_stands_beside_equal_and_doubled_budgets_and_beside_print():
    """Two runs each: LP-2ST at 80 and 82%, DP-SGD at 70 and 72; 83.26 is printed for epsilon 1 on Fashion-MNIST."""
    cells = {(e, 2): [{"accuracy": 0.80}, {"accuracy": 0.82}] for e in (1.0, 2.0, 3.0)}
    tests = [{"test": 0.70}, {"test": 0.72}]
    dp_sgd = {e: Outcome({"dataset": "fashion-mnist"}, 1.0, None, tests) for e in (0.5, 1.0)}
    same, half = stage_rows.less_records(cells, dp_sgd), stage_rows.less_records(cells, dp_sgd, 0.5)
    assert (list(same), list(half)) == ([1.0], [1.0, 2.0])
    assert same[1.0].value == half[2.0].value == pytest.approx(10)
    assert same[1.0].low < 10 < same[1.0].high
    printed = stage_rows.printed_less_records("fashion-mnist", dp_sgd)
    assert list(printed) == [1.0]
    assert printed[1.0].value == pytest.approx(83.26 - 71)


def test_dp_sgd_beside_the_labels_is_trained_as_the_plan_says():
    get = Asked(lambda job: {"validation": 1 - abs(job["learning_rate"] - 1.0)})
    results = plans.load("09").call("records", get)
    assert len(results) == 12
    assert len(get.jobs) == 12 * (3 * 2 + 5)
    printed = {"steps": 2000, "batch": 512, "momentum": 0.9, "max_grad_norm": 0.1}
    assert all(printed.items() <= job.items() for job in get.jobs)


def test_a_larger_network_stands_beside_the_runs_of_the_same_budget_and_seeds():
    small = {(1.0, 2): [{"accuracy": 0.80}, {"accuracy": 0.82}], (math.inf, 1): [{"accuracy": 0.9}] * 2}
    large = {(1.0, 2): [{"accuracy": 0.81}, {"accuracy": 0.85}], (math.inf, 1): [{"accuracy": 0.92}] * 2}
    two = stage_rows.by_larger(small, large, 2)
    assert list(two) == ["larger_network_eps1", "larger_less_smaller_eps1"]
    assert two["larger_network_eps1"].value == pytest.approx(83)
    assert two["larger_less_smaller_eps1"].value == pytest.approx(2)
    assert stage_rows.by_larger(small, large, 1)["larger_less_smaller_eps_inf"].value == pytest.approx(2)


def test_settings_are_chosen_by_randomised_labels_and_nearest_budget():
    """Made-up scores: LP-1ST is best without mixup, LP-2ST with a coefficient of 1 and a temperature of 0.5."""

    def result(job):
        mixed = job.get("mixup", [0.0]) == [float(len(job["shares"]) - 1)]
        score = (job["learning_rate"] == 0.2) + 0.1 * mixed + 0.1 * (job.get("temperature") == 0.5)
        return {"randomised": score, "accuracy": 0.5, "stages": []}

    get = Asked(result)
    tuning = {"epsilons": [1.0, 3.0], "rates": [0.05, 0.2], "mixups": [0.0, 1.0], "temperatures": [0.25, 0.5],
              "validation": 10}  # fmt: skip
    comparison = stage_runs.compared(get, dataset="digits", epsilons=[1.0], stages=[1, 2], seeds=2, tuning=tuning)
    first, second = (stage_runs.chosen(comparison["choices"], 2.0, count) for count in (1, 2))
    assert first == {"learning_rate": 0.2, "mixup": [0.0]}
    assert second == {"learning_rate": 0.2, "mixup": [1.0], "temperature": 0.5}
    assert {job["seed"] for job in get.jobs if "validation" in job} == {1000, 1001, 1002}
    assert set(comparison["cells"]) == {(1.0, 1), (1.0, 2), (math.inf, 1)}


def test_runs_that_keep_all_classes_stand_apart():
    """Of three temperatures with top-2 accuracies of 97%, 85% and 70%: against the middle by hand."""

    def runs(final, mean_k, *top):
        stages = [{"top": list(top)}, {"mean_k": mean_k}]
        return [{"accuracy": final + 0.01 * seed**2, "stages": stages} for seed in range(5)]

    tops = {0.5: (0.9, 0.97, 1.0), 1.0: (0.7, 0.85, 1.0), 2.0: (0.5, 0.7, 1.0)}
    cells = {(0.6, t): runs(0.61 - 0.01 * t, 2.0, *top) for t, top in tops.items()}
    assert recipe_rows.end(cells, 96, 100).value == pytest.approx(0.5)
    assert recipe_rows.end(cells, -1, 80).value == pytest.approx(-1)
    cells |= {(0.9, 0.5): runs(0.5, 3.0, 0.9, 0.97, 1.0)}
    assert recipe_rows.end(cells, 96, 100).value == pytest.approx(0.5)
    assert recipe_rows.end(cells, 96, 100, every=True).value < -1


def test_the_network_for_ratings_is_read_off_and_another_prediction_is_seen(monkeypatch):
    read = recipe_rows.rating_network(50, 40, 10)
    assert (read["branches"], read["classes"]) == (2, 5)
    assert read["prediction_less_the_mean_under_the_softmax_by_at_most"] < 1e-9
    likeliest = lambda self, model: {"rmse": RatingLearner.evaluate(self, model)["likeliest"]}  # noqa: E731
    monkeypatch.setattr(recipe_rows, "RatingLearner", type("Likeliest", (RatingLearner,), {"evaluate": likeliest}))
    other = recipe_rows.rating_network(50, 40, 10)["prediction_less_the_mean_under_the_softmax_by_at_most"]
    assert other > 0.01


def test_a_split_may_look_at_anything_but_labels():
    """Two of fourteen splits ask records of different features in the two stages, and drop no label."""
    losses = stage_rows.split_losses(2.0)
    assert (losses["splits"], losses["splits_in_which_labels_are_dropped"]) == (14, 12)
    assert abs(losses["largest_over_all_splits_above_epsilon"]) < 1e-9
    assert 0.8 < losses["delta_of_a_split_by_label"] < 0.85
