"""The studies behind the chapter on label-private optimisation, in small, and what its ledger makes of them."""

from dataclasses import asdict

import numpy as np
import pytest

from dplib import claims, rules
from dplib.labels import debiased, theory_rows
from dplib.labels import theory_checks as checks
from dplib.labels import theory_study as study


def in_memory(function, jobs):
    return [function(**job) for job in jobs]


@pytest.fixture(scope="module")
def check():
    return study.checks(in_memory, cases=20, epsilon=1.0, delta=1e-6, seeds=2)


def test_step_sizes_are_those_of_the_theorems():
    assert study.printed_rate("rr", 2, 1.0, 1e-3) == pytest.approx(1 / 6)  # D eps / (6 K L)
    assert study._scale("rr", 100, 2, 8, 1.0, 1e-3) == pytest.approx(2 * np.tanh(0.5))


def test_rates_of_both_algorithms(check):
    found = study.rates(
        in_memory, classes=[2, 4], epsilons=[1.0, 0.5], fixed=2, delta=1e-6, longest=9, replicates=4, draws=6
    )
    n, values = found
    _, exact = values["rr", 2, 1.0]
    assert exact.shape == (len(n), 4)
    assert exact[-1].mean() < exact[0].mean()
    values = theory_rows.rates(found, check, 1e-6)
    assert values["C.thm9"]["largest_risk_over_bound"] < 1
    assert 500_000 < values["C.thm9"]["n_from_which_the_bound_is_below_DL/2"] < 600_000


def test_dimension_hurts_only_who_protects_the_inputs():
    found = study.dimension(
        in_memory, dimensions=[2, 4096], examples=256, epsilon=1.0, delta=1e-3, steps=[0.25, 0.5, 1.0], replicates=4,
        draws=6,
    )  # fmt: skip
    level, grows = found["curves"]["LP-RR-SGD"].mean(axis=1), found["curves"]["DP, best of many"].mean(axis=1)
    assert level[1] < 1.5 * level[0]
    assert grows[1] > 3 * grows[0]


def test_sets_of_labels(check):
    found = study.sets(in_memory, classes=4, examples=64, epsilon=1.0, replicates=3, draws=4)
    assert found["risks"].shape == (4, 3)
    assert found["misses"][-1] == 0
    assert theory_rows.moved(found, check)["C.cor10"]["largest_risk_over_bound"] < 1


def test_exact_rows_of_the_ledger_hold_and_can_fail(check):
    found = theory_rows.algorithms(check, 1e-6)
    for claim, values in found.items():
        one = claims.get(claim)
        assert rules.verdict(asdict(one), values, one.published) == one.expects
    worse = {**found["C.alg5"], "epsilon_of_the_last_iterate_less_epsilon": 1e-3}
    assert rules.verdict(asdict(claims.get("C.alg5")), worse, {}) == "fails"


def test_moving_labels():
    nine, ten = checks.moving_labels(30, np.random.default_rng(4))
    assert 0 < ten <= nine <= 1
    assert checks.moving_labels_at_worst(0.2) == pytest.approx(0.4, rel=1e-5)


def test_lemma_20_is_an_inequality_that_can_be_reached():
    assert 0.5 < checks.lemma_20(400, np.random.default_rng(5)) <= 1 + 1e-12


def test_generalisation_runs_and_its_mean():
    line = debiased.Line(4, 2, 0.7)
    found = checks.generalisation(line, 400, 0.8, 200, np.random.default_rng(6))
    assert all(v.shape == (200,) for v in found.values())
    single, members = found["single"], line.members
    inside = np.take_along_axis(line.chances, members, axis=1)
    of_members = line.loss[0][members]
    answered = (inside * of_members).sum(axis=1) + (1 - inside.sum(axis=1)) * of_members.mean(axis=1)
    moved = answered.mean() - line.population_risk(1.0)  # labels outside Y_k are answered at random from it
    assert 0 < abs(moved) <= line.miss
    assert abs(single.mean() - moved) < 5 * single.std() / np.sqrt(200)
    assert (found["deviation"] >= abs(found["regret"]) / 2 - 1e-12).all()
