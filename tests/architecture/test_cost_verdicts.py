"""Verdict rules of the chapter on what drives the cost: every verdict can come out, and none decides too much."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from dplib import stats
from dplib.architecture import cost_tables, cost_verdicts
from dplib.stats import Comparison, Measured


def compared(mean, half, n=5):
    """A paired comparison with this 95% interval, and the p-value that goes with it."""
    t = mean / half * scipy_stats.t.ppf(0.975, n - 1)
    return Comparison(Measured(mean, mean - half, mean + half, n), float(2 * scipy_stats.t.sf(abs(t), n - 1)))


UP, DOWN, OPEN = compared(7.5, 2), compared(-7.5, 2), compared(1.8, 3.6)
BARELY = compared(3.7, 3.6)  # beyond chance by itself, not among four


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (["holds", "holds"], "holds"),
        (["fails", "holds"], "fails"),
        (["holds", "not reproducible as stated"], "not reproducible as stated"),
        (["undecided", "holds with change"], "undecided"),
        (["holds", "holds with change"], "holds with change"),
    ],
)
def test_a_claim_of_several_parts_is_as_good_as_the_worst(parts, verdict):
    assert cost_verdicts.all_of(parts) == verdict


def test_one_of_several_comparisons_counts_after_correction_only():
    assert cost_verdicts.holm_signs([BARELY, OPEN, OPEN, OPEN]) == [0, 0, 0, 0]
    assert cost_verdicts.holm_signs([UP, DOWN, OPEN]) == [1, -1, 0]
    assert cost_verdicts.holm_signs([]) == []
    assert cost_verdicts.holm_verdict([BARELY]) == "holds"
    assert cost_verdicts.holm_verdict([BARELY, OPEN, OPEN, OPEN]) == "undecided"
    assert cost_verdicts.holm_verdict([DOWN, OPEN]) == "fails"
    assert cost_verdicts.holm_verdict([DOWN, OPEN], expected=-1) == "holds with change"
    assert cost_verdicts.holm_verdict([]) == cost_tables.order_verdict([]) == "undecided"


def test_a_claim_about_all_tasks_fails_by_one_loss_and_is_open_while_one_is():
    assert cost_verdicts.universal({"a": UP, "b": UP}) == "holds"
    assert cost_verdicts.universal({"a": UP, "b": OPEN}) == "undecided"
    assert cost_verdicts.universal({"a": UP, "b": DOWN}) == "fails"
    assert cost_verdicts.split({"a": UP, "b": DOWN, "c": OPEN}) == (["a"], ["b"])


def test_factors_can_fail():
    assert cost_verdicts.factors({"depth": UP, "PCA": UP}) == "holds"
    assert cost_verdicts.factors({"depth": UP, "PCA": DOWN}) == "holds with change"
    assert cost_verdicts.factors({"depth": OPEN, "PCA": DOWN}) == "fails"
    assert cost_verdicts.factors({name: BARELY if name == "a" else OPEN for name in "abcd"}) == "undecided"


def test_pairs_whose_sgd_is_behind_do_not_count():
    drops = {"4 layers": OPEN, "12 layers": DOWN}
    assert cost_verdicts.unequal_costs(drops, drops) == ("holds", ["12 layers"])
    assert cost_verdicts.unequal_costs(drops, ["4 layers"]) == ("undecided", [])
    assert cost_verdicts.unequal_costs(drops, []) == ("undecided", [])


def test_trained_parameters_need_networks_whose_two_counts_differ():
    rng = np.random.default_rng(0)
    total = np.array([1e3, 1e4, 1e5, 1e6, 1e6, 1e6])
    trained = np.array([1e3, 1e4, 1e5, 1e6, 1e3, 1e4])

    def judge(counts, slope, trained=trained):
        costs = slope * np.log10(counts) + rng.normal(0, 0.1, (5, 6))
        return cost_verdicts.trained_count(costs, total, trained, rng, 300)

    assert judge(trained, 1.0)[0] == "holds"
    assert judge(total, 1.0)[0] == "fails"
    assert judge(trained, -1.0)[0] == "undecided"  # explained well, but the cost falls with them
    one_differs = np.array([*total[:5], 1e3])
    assert judge(one_differs, 1.0, one_differs) == ("undecided", None)


def test_a_reason_needs_what_it_explains():
    high, low, even = Measured(6, 5.5, 6.7, 5), Measured(0.8, 0.7, 0.9, 5), Measured(1, 0.9, 1.1, 5)
    assert cost_verdicts.extractor([high, high], UP) == "holds"
    assert cost_verdicts.extractor([high, high], OPEN) == "undecided"
    assert cost_verdicts.extractor([high, high], DOWN) == "undecided"
    assert cost_verdicts.extractor([high, even], UP) == "undecided"
    assert cost_verdicts.extractor([low, low], UP) == "fails"


def test_only_a_tuned_sgd_can_be_beaten():
    level = compared(-0.1, 0.3)
    assert cost_verdicts.beats_sgd(UP, level, 4.64) == "holds"
    assert cost_verdicts.beats_sgd(UP, UP, 4.64) == "holds with change"
    assert cost_verdicts.beats_sgd(compared(0.2, 0.75), level, 4.64) == "fails"
    assert cost_verdicts.beats_sgd(compared(0.2, 5), level, 4.64) == "undecided"


@pytest.mark.parametrize(
    ("plain", "clipped", "private", "verdict"),
    [
        (0.3, 2, 1, "holds"),
        (0.3, 4, 4, "holds with change"),
        (0.3, 0.3, 2, "holds with change"),
        (2, 2, 1, "fails"),
    ],
)
def test_rates_of_one_or_two(plain, clipped, private, verdict):
    assert cost_verdicts.clipping_rates(plain, clipped, private, 1, 2) == verdict


def test_a_printed_crossover_and_the_order_below_it():
    assert cost_verdicts.crossover_range(True, [UP, OPEN]) == "holds"
    assert cost_verdicts.crossover_range(False, [UP, OPEN]) == "holds with change"
    assert cost_verdicts.crossover_range(True, [DOWN, OPEN]) == "fails"
    assert cost_verdicts.crossover_range(False, [OPEN]) == "undecided"


def test_slowness_is_of_an_implementation():
    assert cost_verdicts.slow_by_keeping([20, 30], [12]) == "holds"
    assert cost_verdicts.slow_by_keeping([7, 30], [2]) == "holds with change"
    assert cost_verdicts.slow_by_keeping([7, 8], [2]) == "undecided"


def test_a_number_that_is_far_off_is_not_reproducible_whoever_leads():
    far = stats.mean_interval(np.array([88.0, 89.0]))
    assert {cost_tables.cell_verdict(far, 49.9, order) for order in ("holds", "fails", "undecided")} == {
        "not reproducible as stated"
    }
