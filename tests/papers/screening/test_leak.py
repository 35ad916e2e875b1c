"""The runs of chapter 12: what they compute, against closed forms and independent computations, and what leads on."""

import numpy as np
import pytest

from book.evidence import plans, rules
from book.evidence.claims import get
from dplib import accounting
from dplib.checks import ParameterError
from papers.screening import accounts, composition, instances, leak_rows, leak_runs, one_update


def test_free_screening_and_each_condition():
    rates = instances.conditions()
    for name, (plain, screened) in rates.items():
        free = name in ("all conditions hold", "batches of q = 0.1, kept")
        assert (screened <= plain) == free, name


def test_convex_energies_never_exceed_a_gaussian_and_others_may():
    assert leak_runs.energies(seed=1, convex=True, count=8)["exceed"] == 0
    assert leak_runs.energies(seed=1, convex=False, count=8)["exceed"] > 0
    assert leak_runs.energies(seed=1, convex=False, count=8) != leak_runs.energies(seed=2, convex=False, count=8)


def test_a_budget_and_a_training_agree():
    bought = leak_runs.budget(setting="Fashion-MNIST", epsilon=1.0, proven=False)
    allowed = bought["allowed"]
    assert allowed["printed"] < allowed["lemma 2"] == bought["steps"] < allowed["lemma 3"] < allowed["most"]
    assert bought["lemma 2"] == pytest.approx(bought["rdp"], rel=1e-6)
    result = leak_runs.training(setting="Fashion-MNIST", push=1.25, epsilon=1.0)
    assert result["steps"] == bought["steps"]
    assert result["plain"] == bought["inversion"]
    assert result["kept"] < result["plain"] < result["claimed"] < result["exact"] < result["all"]
    with pytest.raises(ParameterError, match="does not pay"):
        leak_runs.training(setting="MNIST", push=1.0, epsilon=0.5)
    with pytest.raises(ParameterError, match="setting"):
        leak_runs.setting_of("digits")


@pytest.mark.parametrize("setting", leak_runs.NAMES)
def test_what_is_proved_of_a_training_pays_for_each_candidate(setting):
    """By transform inversion, which is a second computation: above it, and by less than a hundredth and a rounding."""
    case = leak_runs.setting_of(setting)
    updates = leak_runs.updates(case, 3.0)
    draws = updates * (case.limit + 1)
    exact = accounting.inverted_epsilon(case.noise_multiplier, case.sample_rate, draws, accounts.DELTA)
    assert exact <= leak_rows.proved(setting, updates) <= exact + 0.02


def test_a_readers_budget():
    values = leak_rows.at_epsilon("MNIST", 3.0)
    assert values["accepted updates"].tolist() == [4698, 7245]
    assert (values["exact"] > 3).all()
    assert (values["final weights only"] < values["exact"]).all()
    assert (values["exact"] < values["all queries"]).all()
    nothing = leak_rows.at_epsilon("MNIST", 0.03)
    assert (nothing["accepted updates"] == 0).all()
    assert nothing["exact"].isna().all()


def test_the_exact_loss_of_the_audited_runs():
    """The page's 8.21: the first update allows one rejection, the later ones ten."""
    task, updates = leak_runs.TASKS["public"]
    up = one_update.threshold(-sum(task.records) / task.noise_multiplier)
    first, later = (
        one_update.cells(*one_update.pair(1 / task.noise_multiplier, up, limit), 0.02) for limit in (1, task.limit)
    )
    low, high = composition.by_pld([(first, 1), (later, updates - 1)], 1e-5, 1e-3)
    assert 8.2 < low < 8.22
    assert low < high < low + 0.01


@pytest.fixture(scope="module")
def rows():
    published = plans.load("12")
    return leak_rows.formulas(published.read("budgets"), published.read("sums"))


@pytest.mark.parametrize(("row", "value"), [("D.eq4", "as_printed_over_an_accountant"),
                                            ("D.eq9", "printed_order_2_at_q_0_for_1_step")])  # fmt: skip
def test_a_printed_formula_would_hold_if_it_had_its_logarithm(rows, row, value):
    claim = get(row)
    assert rules.decide(claim.rule, rows[row], claim.published) is False
    right = {**rows[row], value: 1.0 if row == "D.eq4" else 0.0}
    assert rules.decide(claim.rule, right, claim.published) is True


def test_too_few_steps_for_the_integral_are_refused_not_nan():
    case = instances.linear(accounts.SETTINGS[2], 1.0, 10, constant=True)
    with pytest.raises(ParameterError, match="precise"):
        composition.epsilon([(case.cells, 0)], 1e-5)
    assert np.isfinite(instances.epsilon(case.cells, 5))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 3.0])
def test_the_power_that_privacy_allows_is_reached_and_is_that_of_the_definition(epsilon):
    """At δ = 0 both lines of Definition 1 by hand; a mechanism whose best test has that power at every level."""
    assert leak_rows.most_power(1e-6, epsilon, 0.0) == pytest.approx(np.exp(epsilon) * 1e-6)
    assert leak_rows.most_power(1.0, epsilon, 1e-5) == 1
    for level in (1e-4, 0.05, 0.3, 0.9):
        reached = leak_rows.power_of_worst(level, epsilon, 1e-2)
        assert level < reached == pytest.approx(leak_rows.most_power(level, epsilon, 1e-2))


def test_over_a_training_the_smaller_batch_has_the_less_noise(rows):
    noise = rows["D.s-small-batch-noise"]
    assert noise["one_step_at_batch_128"] == pytest.approx(16 * noise["one_step_at_batch_2048"])
    steps = rows["D.s-batch-fewer-steps"]["steps_at_batch_128"]
    alone, whole = 1.23 / 128, noise["whole_training_at_batch_128"]
    assert steps * alone**2 / (steps * whole) ** 2 == pytest.approx(1)  # variance of the sum, over its length squared
    by_pld = [accounts.tight(1.23, batch / 60_000, n, 1e-5) for batch, n in ((128, 119_944), (2048, 396))]
    assert by_pld == pytest.approx([3, 3], abs=0.01)
