"""A law of the prior: made-up cells under which it holds, fails and stays open; what is asked for; log-losses."""

import numpy as np
import pytest

from book.evidence import plans
from papers.labels import law_rows, stage_runs, stage_training_runs
from tests.toys import Asked

BUDGETS = (1.0, 2.0, 4.0)


def cells(share, names=("x", "y"), seeds=5, spread=0.3):
    """Made-up runs: stage 2 closes share(loss, epsilon) of a gap of ten points, each accuracy with noise of its own."""
    rng = np.random.default_rng(1)
    by_cell = {}
    for i, name in enumerate(names):
        for j, e in enumerate(BUDGETS):
            loss = 0.3 + 0.5 * ((2 * i + j) % 4)

            def runs(accuracy, loss=loss):
                noisy = (accuracy + spread * rng.standard_normal(seeds)) / 100
                stages = [{"top": [0.8]}, {"top": [0.9]}]
                return [{"accuracy": a, "losses": [[9.0, loss, 5.0]], "stages": stages} for a in noisy]

            one = 80.0
            two = one + 10 * share(loss, e)
            by_cell[name, 0.0, e] = {
                "one": runs(one), "two": runs(two), "no prior": runs(one), "true labels": runs(90.0)
            }  # fmt: skip
    return by_cell


def judged(on_heads, on_networks):
    of = [law_rows.points(cells(share, names)) for share, names in ((on_heads, "xyz"), (on_networks, "uvw"))]
    return law_rows.law(*of)


def falls(loss, e):
    return 0.5 - 0.3 * loss


def test_a_law_that_is_there_is_found_and_holds():
    verdicts = judged(falls, falls)
    assert (verdicts["a"], verdicts["b"]) == (pytest.approx(0.5, abs=0.05), pytest.approx(0.3, abs=0.04))
    assert verdicts["loses_above"] == pytest.approx(0.5 / 0.3, abs=0.15)
    assert law_rows.verdict(verdicts) == "holds"
    assert verdicts["signs"] == verdicts["told_apart"] > 5


@pytest.mark.parametrize(
    ("on_networks", "expected"),
    [
        (lambda loss, e: 0.1 + 0.2 * loss, "fails"),  # the other way round
        (lambda loss, e: 0.1 + 0.15 * np.log(e), "fails"),  # the budget alone, and the heads' line is far away
        (lambda loss, e: 0.25, "fails"),  # a constant share
        (lambda loss, e: 0.0, "fails"),
    ],
)
def test_a_law_that_is_not_there_does_not_hold(on_networks, expected):
    assert law_rows.verdict(judged(falls, on_networks)) == expected


def test_too_few_seeds_leave_it_open():
    of = [law_rows.points(cells(falls, names, seeds=3)) for names in ("xyz", "uvw")]
    assert law_rows.verdict(law_rows.law(*of)) == "open"


def test_printed_gains_imply_log_losses_that_a_run_can_contradict():
    wanted = law_rows.implied(0.5, 0.3)
    assert wanted["CIFAR-10", 1.0] == pytest.approx((0.5 - 3.71 / 35.0) / 0.3)
    assert ("KMNIST", 1.0) in wanted
    assert ("MNIST", 4.0) not in wanted  # a gap of less than a point
    assert law_rows.borne_out(wanted, wanted) == "holds"
    assert law_rows.borne_out(wanted, {cell: loss + 1 for cell, loss in wanted.items()}) == "fails"
    assert law_rows.borne_out(wanted, {}) == "open"


def test_the_table_says_what_came_beside_what_the_rule_asks_for():
    table = law_rows.table(judged(falls, falls))
    assert list(table.columns) == ["found", "asked for, or expected"]
    assert table.loc["slope on the networks, share per nat", "asked for, or expected"] == "above 0"


def test_the_signs_of_a_chapter_are_those_of_cells_that_are_told_apart():
    of = law_rows.points(cells(falls, "uvw"))
    right = law_rows.signs(of, 0.5, 0.3)
    assert right["agree"] == right["told_apart"] > 5
    assert law_rows.signs(of, -0.5, -0.3)["agree"] == 0


def test_the_plans_ask_for_new_seeds_and_for_log_losses():
    for part, cells_ in (("law_heads", 54), ("law_networks", 18)):
        get = Asked(lambda job: {"accuracy": 0.5})
        results = plans.load("09b").call(part, get)
        assert len(results) == cells_
        assert {job["seed"] for job in get.jobs} == {100, 101, 102, 103, 104}
        assert sum(job.get("losses", False) for job in get.jobs) == cells_ * 5


def test_the_cells_of_a_chapter_are_those_of_the_law():
    runs = [{"accuracy": 0.5, "losses": [[1.0]], "stages": [{"top": [0.4]}, {}]}] * 2
    of = law_rows.points(law_rows.of_compared("mnist", {(1.0, 1): runs, (1.0, 2): runs, (np.inf, 1): runs}))
    assert of.cells == (("mnist", 1.0),)
    assert of.gain.shape == (1, 2)


def test_log_losses_are_those_of_the_priors_at_each_temperature():
    scores, labels = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([0, 2])
    losses = stage_training_runs.log_losses(scores, labels)
    for t, loss in zip(stage_training_runs.TEMPERATURES, losses, strict=True):
        odds = np.exp(scores / t)
        p = odds / odds.sum(axis=1, keepdims=True)
        assert loss == pytest.approx(-np.log([p[0, 0], p[1, 2]]).mean(), abs=1e-6)


def test_log_losses_move_nothing_and_there_is_one_for_each_later_stage():
    job = {"dataset": "digits", "network": "mlp-16", "epsilon": 2.0, "shares": stage_runs.shares(3), "epochs": 1,
           "batch": 100, "learning_rate": 0.2, "n_train": 1000, "seed": 3}  # fmt: skip
    plain, with_losses = (stage_training_runs.staged_training(**job, losses=wanted) for wanted in (False, True))
    assert len(with_losses.pop("losses")) == 2
    assert with_losses == plain
