"""Claimed against true epsilon at equal accuracy: reading curves, pairing, and the lower bound from an instance."""

import numpy as np
import pytest

from dplib import annealing_accounts, loss_inversion, screening_accounts, screening_instances, screening_worth
from dplib.checks import ParameterError
from dplib.screening_worth import Curve

MNIST = screening_accounts.SETTINGS[0]


def result(queries, accepted, accuracy, **columns):
    return {
        "curve": {"queries": queries, "accepted": accepted, "accuracy": accuracy, **columns},
        "noise_multiplier": 1.23,
        "sample_rate": MNIST.sample_rate,
        "n": 60_000,
        "rejection_limit": 10,
    }


def simple(accuracy, true=(1.0, 2.0, 3.0)):
    true = np.array(true)
    return Curve(100 * true, 50 * true, true / 2, true, np.array(accuracy))


def test_a_curve_has_both_counts_and_unseen_records():
    one = result([100, 150, 200, 400], [100, 140, 160, 200], [0.5, 0.55, 0.6, 0.7], unseen=[0.4, 0.45, 0.5, 0.6])
    found = screening_worth.curve(one, {100, 200}, 1e-5)
    assert found.queries.tolist() == [100, 200, 400]  # 150 is no evaluation of the other arm
    assert found.accuracy.tolist() == [0.4, 0.5, 0.6]
    setting = 1.23, MNIST.sample_rate
    assert found.claimed == pytest.approx(annealing_accounts.paper_epsilon(*setting, np.array([100, 160, 200]), 1e-5))
    assert found.true == pytest.approx([loss_inversion.epsilon(*setting, n, 1e-5) for n in (100, 200, 400)])


def test_reading_a_curve():
    one = simple([0.5, 0.7, 0.6])
    assert one.at(1.5) == pytest.approx(0.6)
    assert np.isnan(one.at(3.5))
    assert one.reaches(0.8) is None
    assert one.reaches(0.6) == pytest.approx({"queries": 150, "accepted": 75, "claimed": 0.75, "true": 1.5})
    assert one.reaches(0.4)["true"] == 1.0


def test_differences_are_paired_by_seed():
    """Seeds differ by 0.1, arms by 0.01 or so: only pairing sees it."""
    plain = [simple(np.array([0.5, 0.6, 0.7]) + 0.1 * s) for s in range(3)]
    ours = [simple(np.array([0.5, 0.6, 0.7]) + 0.1 * s + d) for s, d in enumerate((0.01, 0.011, 0.009))]
    found, none = screening_worth.at_equal_epsilon(plain, ours, [2.0, 3.5])
    assert none is None
    assert found.difference.value == pytest.approx(0.01)
    assert screening_worth.word(found) == "better"
    assert screening_worth.word(screening_worth.at_equal_claim(ours, plain)) == "worse"
    assert screening_worth.word(screening_worth.at_equal_claim(plain, plain)) == "no different"
    assert screening_worth.largest_common(plain, [simple([0.1, 0.2, 0.3], (0.5, 1.0, 2.5))]) == 2.5


def test_stages_pool_trainings():
    one = {"outcomes": "1111" + "0101" + "0301"}  # 4 of 4 accepted, then 2 of 4, then 2 of 4
    assert screening_worth.stages([one, one], [12, 12], 2) == [(1.0, 4), (0.5, 4)]
    assert screening_worth.stages([one, {"outcomes": "1111"}], [12, 4], 1) == [(12 / 16, 6)]


def test_the_instance_accepts_at_the_rate_asked_for():
    for rate in (0.15, 0.4, 0.9):
        push = screening_worth.push_for(rate, 10)
        found = screening_instances.linear(MNIST, push, 10, constant=True)
        assert found.acceptance_rate == pytest.approx(rate, rel=1e-4)
    assert screening_worth.push_for(1.0, 10) == -6.0
    assert screening_worth.push_for(1 / 11, 10) == 6.0
    with pytest.raises(ParameterError, match="rate"):
        screening_worth.push_for(0.0, 10)


def test_the_lower_bound_lies_between_plain_and_all_queries():
    """Everything accepted: plain DP-SGD with as many updates. Few: more, but no more than all queries."""
    plain = loss_inversion.epsilon(1.23, MNIST.sample_rate, 1000, 1e-5)
    assert screening_worth.instance_epsilon(MNIST, [(1.0, 500), (1.0, 500)], 1e-5) == pytest.approx(plain, rel=1e-3)
    spent = screening_worth.instance_epsilon(MNIST, [(1.0, 500), (0.25, 500)], 1e-5)
    assert plain < spent < loss_inversion.epsilon(1.23, MNIST.sample_rate, 2500, 1e-5)


def test_a_table():
    results = {
        "dpsgd_tanh": [result([50, 100], [50, 100], [0.5, 0.7])] * 2,
        "ours": [result([50, 100], [40, 60], [0.5, 0.6]) | {"outcomes": "1110" * 25}] * 2,
    }
    arms = {arm: [screening_worth.curve(one, {50, 100}, 1e-5) for one in runs] for arm, runs in results.items()}
    low, high = screening_worth.table(arms, results, [0.55, 0.65], 1e-5)
    assert low["plain, true"].value < low["true, at most"].value
    assert low["ratio"].value > 1
    assert low["accepted of drawn"] == pytest.approx(50 / 75)
    assert low["lower"] > 0
    assert "plain, true" in high
    assert "claimed" not in high
    assert screening_worth.setting_of(results["ours"][0]).sample_rate == pytest.approx(MNIST.sample_rate)
