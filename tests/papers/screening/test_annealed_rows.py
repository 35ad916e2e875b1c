"""Rows of paper D from runs with known curves: Tables 1 and 3, and leads."""

import numpy as np
import pytest

from papers.screening import annealed_rows, annealed_value_rows
from tests.papers.screening.test_annealed_value_rows import ours, plain, run


def test_a_target_is_reached_between_two_evaluations_and_counted_either_way():
    done = run([100, 300, 500], [200, 600, 1000], [0.80, 0.90, 0.94])
    assert annealed_rows.reached(done, 85) == annealed_value_rows.epsilon(done, 200)
    assert annealed_rows.reached(done, 85, "queries") == annealed_value_rows.epsilon(done, 400)
    assert annealed_rows.reached(done, 70) == annealed_value_rows.epsilon(done, 100)
    assert np.isnan(annealed_rows.reached(done, 95))


def trained(shift=0.0):
    """MNIST: the annealed runs reach each target after half of the updates of the others; AUTO-S never reaches 98."""
    rng, steps = np.random.default_rng(0), [100, 1000, 2000, 4000]
    ours, others, auto = [], [], []
    for noise in rng.normal(0, 5e-4, 5):
        start = [0.93 + noise, 0.95 + noise, 0.97 + noise]
        half = [n // 2 for n in steps]
        ours.append(run(half, [3 * n for n in half], [*start, 0.985 + shift + noise]))
        others.append(run(steps, steps, [*start, 0.985 + noise]))
        auto.append(run(steps, steps, [*start, 0.975 + noise]))
    return {"mnist": {"ours": ours, "dpsgd": others, "dpsgd_tanh": others, "dpsgd_auto_s": auto}}


def test_the_smallest_saving_decides_and_pays_for_being_chosen():
    arms = trained()["mnist"]
    savings_ = annealed_rows.cheaper(trained())
    means = [
        annealed_rows.savings(arms, other, t).mean()
        for other in annealed_rows.OTHERS
        for t in annealed_rows.TARGETS["mnist"]
    ]
    assert savings_["least_saving"].value == pytest.approx(min(means))
    assert savings_["least_saving"].low > 0 > savings_["least_saving_queries"].high
    assert savings_["compared"] == 9
    assert annealed_rows.cheaper(trained(shift=-0.01))["compared"] == 6


def test_a_saving_over_a_run_that_falls_short_is_at_least_what_it_spent():
    arms = trained()["mnist"]
    least = annealed_rows.savings(arms, "dpsgd_auto_s", 98)
    ends = [annealed_value_rows.epsilon(arm, 4000) for arm in arms["dpsgd_auto_s"]]
    assert least == pytest.approx(np.subtract(ends, [annealed_rows.reached(arm, 98) for arm in arms["ours"]]))
    assert annealed_rows.growth(trained())["growth_mnist"].low > 0


def test_schemes_with_unequal_numbers_of_seeds_are_compared_over_those_that_both_have():
    ends = [0.90, 0.92, 0.91, 0.93, 0.92]
    arms = {"ours": [ours(e) for e in ends], "dpsgd_auto_s": [plain(e - 0.01) for e in ends[:3]]}
    assert annealed_rows.less(*arms.values()).n == 3
    assert len(annealed_rows.savings(arms, "dpsgd_auto_s", 80)) == 3
    assert annealed_rows.budgets(arms, 80)["reached_ours"] == 5
    gaps = annealed_rows.gaps({"mnist": arms}, {"mnist": {"results": [plain(0.99)] * 4}})
    assert [gaps[f"{name}_mnist"].n for name in ("gap_ours", "gap_dpsgd_auto_s", "narrower")] == [4, 3, 3]
