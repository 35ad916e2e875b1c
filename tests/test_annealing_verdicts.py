"""Chapter 11's rules, one-step model, readouts and sentences, on made-up results."""

import itertools
import math

import numpy as np
import pytest

from dplib import annealing_findings as findings
from dplib import annealing_readouts as readouts
from dplib import annealing_theory as theory
from dplib import annealing_verdicts as verdicts
from dplib import claims
from dplib.annealing import Annealing, Screen
from dplib.checks import ParameterError
from dplib.stats import Comparison, Measured


def gain(value, half=0.5, p=0.001):
    return Comparison(Measured(value, value - half, value + half, 5), p)


UP, DOWN, LEVEL, ALONE = gain(1), gain(-1), gain(0.1, p=0.6), Comparison(Measured(1.0, n=1), math.nan)


def test_a_gain_by_both_counts():
    assert verdicts.gain_verdict([UP, UP], [UP], False) == "holds"
    assert verdicts.gain_verdict([UP, UP], [DOWN], False) == "holds with change"
    assert verdicts.gain_verdict([UP], [], False) == "holds with change"
    assert verdicts.gain_verdict([UP, LEVEL], [UP], False) == "undecided"
    assert verdicts.gain_verdict([UP, DOWN], [UP], False) == "fails"
    assert verdicts.gain_verdict([UP, DOWN], [UP], True) == "undecided"
    assert verdicts.gain_verdict([ALONE], [ALONE], False) == "undecided"
    assert verdicts.gain_verdict([], [], False) == "undecided"
    for value in (1.0, -1.0):  # four seeds decide nothing
        few = Comparison(Measured(value, value - 0.5, value + 0.5, 4), 0.001)
        assert verdicts.gain_verdict([few], [UP], False) == "undecided"
        assert verdicts.everywhere_verdict([few] * 10, [UP], False) == "undecided"
        assert verdicts.baselines_verdict([few], [UP], False) == "undecided"
        assert verdicts.rising_verdict(few.difference, UP.difference, False) == "undecided"
    # One of many behind with p = 0.04 may be chance.
    assert verdicts.gain_verdict([gain(-0.2, 0.1, 0.04), *[UP] * 7], [UP], False) == "undecided"


def test_almost_everywhere():
    assert verdicts.everywhere_verdict([UP] * 9 + [LEVEL], [UP] * 10, False) == "holds"
    assert verdicts.everywhere_verdict([UP] * 10, [DOWN] * 5 + [UP] * 5, False) == "holds with change"
    assert verdicts.everywhere_verdict([gain(0.1, p=0.6)] * 10, [UP] * 10, False) == "undecided"
    assert verdicts.everywhere_verdict([UP] * 8 + [DOWN] * 2, [UP], False) == "fails"
    assert verdicts.everywhere_verdict([UP] * 8 + [gain(-0.1)] * 2, [UP], False) == "undecided"
    assert verdicts.everywhere_verdict([DOWN] * 10, [DOWN] * 10, False, larger=False) == "holds"
    assert verdicts.everywhere_verdict([ALONE], [ALONE], False) == "undecided"


def test_chance_in_training():
    assert verdicts.rarer_verdict(Measured(-30, -35, -25, 5)) == "holds with change"
    assert verdicts.rarer_verdict(Measured(30, 25, 35, 5)) == "fails"
    assert verdicts.rarer_verdict(Measured(0, -5, 5, 5)) == "undecided"
    assert verdicts.rarer_verdict(Measured(-30, n=1)) == verdicts.rarer_verdict(None) == "undecided"
    assert verdicts.rule_verdict(True, 100.0, 110, 9.0) == "holds"
    assert verdicts.rule_verdict(True, 100.0, 150, 9.0) == "fails"
    assert verdicts.rule_verdict(False, 100.0, 100, 9.0) == "fails"


def test_slopes_and_rising_advantage():
    assert verdicts.slope([1, 2, 3], np.array([[1, 0], [2, 0], [3, 0]])) == pytest.approx([1, 0])
    rising, falling, flat = Measured(1, 0.5, 1.5, 5), Measured(-1, -1.5, -0.5, 5), Measured(0, -1, 1, 5)
    assert verdicts.rising_verdict(rising, rising, False) == "holds"
    assert verdicts.rising_verdict(rising, flat, False) == "holds with change"
    assert verdicts.rising_verdict(falling, rising, False) == "fails"
    assert verdicts.rising_verdict(flat, rising, False) == "undecided"
    assert verdicts.rising_verdict(None, None, False) == "undecided"


def test_a_row_of_table_1():
    near, low = Measured(98.2, 98.1, 98.3, 5), Measured(95, 94.9, 95.1, 5)
    printed = {"ours": 98.35, "dpsgd_tanh": 98.05}
    both = {"ours": near, "dpsgd_tanh": near}
    assert verdicts.table_row(both, printed, [UP, gain(3)], 2.9, 3.0)[0] == "holds"
    verdict, why = verdicts.table_row(both, printed, [UP], 4.1, 3.0)
    assert verdict == "holds with change"
    assert "in 2 of 2 cells" in why
    verdict, why = verdicts.table_row(both, printed, [UP, LEVEL], 2.9, 3.0)  # the values agree, the order is not seen
    assert verdict == "undecided"
    assert "is not seen: over the nearest by 0.1 [-0.4, 0.6] points" in why
    assert verdicts.table_row(both, printed, [UP, DOWN], 2.9, 3.0)[0] == "fails"
    verdict, why = verdicts.table_row({"ours": near, "dpsgd_tanh": low}, printed, [UP], 4, 3.0)
    assert verdict == "undecided"
    assert "Ours is lower: DPSGD (tanh)." in why
    verdict, why = verdicts.table_row({"ours": near}, printed, [], 4, 3.0)
    assert verdict == "undecided"
    assert "Not run: dpsgd_tanh" in why
    verdict, why = verdicts.table_row({"ours": Measured(98.2, 98.1, 98.3, 4)}, {"ours": 98.35}, [], 2, 3.0)
    assert verdict == "undecided"
    assert "Fewer than five runs: ours" in why


def test_a_row_of_table_3():
    printed = {"eps_dpsgd": "-", "eps_dpsgd_tanh": 1.0, "eps_ours": 0.9}
    tanh, ours = Measured(1.05, 1, 1.1), Measured(0.9, 0.8, 1)
    cells = {"eps_dpsgd": "0 of 5 runs within 3", "eps_dpsgd_tanh": tanh, "eps_ours": ours}
    assert verdicts.budget_row(cells, printed, [UP] * 2, [UP] * 2)[0] == "holds"
    assert verdicts.budget_row(cells, printed, [UP], [UP])[0] == "undecided"  # of two other schemes one is missing
    assert verdicts.budget_row(cells, printed, [UP] * 2, [UP, DOWN])[0] == "holds with change"
    less = {**cells, "eps_ours": Measured(0.5, 0.4, 0.6)}
    assert verdicts.budget_row(less, printed, [UP] * 2, [UP] * 2)[0] == "holds with change"
    found = {**cells, "eps_dpsgd": tanh}  # reached here, not in print
    assert verdicts.budget_row(found, printed, [UP] * 2, [UP] * 2)[0] == "holds with change"
    assert verdicts.budget_row(cells, printed, [DOWN], [DOWN])[0] == "fails"
    verdict, why = verdicts.budget_row(cells, printed, [UP, LEVEL], [LEVEL])
    assert verdict == "undecided"
    assert "2 of 2 cells" in why
    assert "Of 2 other schemes 2 can be compared; than 1 of these it needs less" in why
    four = Comparison(Measured(1.0, 0.5, 1.5, 4), 0.001)
    assert verdicts.budget_row(cells, printed, [four] * 2, [four] * 2)[0] == "undecided"


def test_the_other_rules():
    more, less = Measured(0.5, 0.2, 0.8), Measured(-0.1, -0.3, 0.1)
    assert verdicts.longer_verdict(Measured(2, 1.5, 2.5), None) == "holds with change"
    assert verdicts.longer_verdict(Measured(2, 1.5, 2.5), more) == "holds"
    assert verdicts.longer_verdict(Measured(2, 1.5, 2.5), less) == "holds with change"
    assert verdicts.longer_verdict(Measured(1.0, 1.0, 1.0), more) == "undecided"
    assert verdicts.longer_verdict(Measured(2.0, n=1), more) == "undecided"
    assert verdicts.baselines_verdict([UP], [UP], False) == "holds"
    assert verdicts.baselines_verdict([UP], [DOWN], False) == "fails"
    assert verdicts.baselines_verdict([UP], [LEVEL], False) == "undecided"
    assert verdicts.baselines_verdict([UP], [gain(-0.04, 0.02)], False) == "undecided"  # four images of ten thousand
    slight = Comparison(Measured(-0.11, -0.25, 0.03, 5), 0.08)  # one of four, not beyond chance
    assert verdicts.baselines_verdict([UP, UP], [UP, slight], False) == "undecided"
    assert verdicts.limit_verdict(False, UP) == "fails"
    assert [verdicts.limit_verdict(True, d) for d in (None, LEVEL, UP, DOWN)] == [
        "undecided", "undecided", "holds with change", "fails"
    ]  # fmt: skip
    assert [verdicts.chance_verdict(d) for d in (None, ALONE, UP, LEVEL, DOWN)] == [
        "undecided", "undecided", "holds", "undecided", "fails"
    ]  # fmt: skip
    assert verdicts.wandering_verdict(DOWN, DOWN) == "holds"
    assert verdicts.wandering_verdict(DOWN, UP) == "holds with change"
    assert verdicts.wandering_verdict(UP, UP) == "fails"
    assert verdicts.worsen_verdict([Measured(20.0)], Measured(10, 5, 15)) == "holds with change"
    assert verdicts.worsen_verdict([Measured(20.0)], Measured(0, -5, 5)) == "undecided"
    assert verdicts.worsen_verdict([Measured(0.0)], Measured(0, 0, 0)) == "fails"


# --- the one-step model


@pytest.mark.parametrize(("drift", "reliability"), [(0.3, 0.4), (1.5, 0.9), (-0.5, 1.0)])
def test_the_model_of_one_step_against_a_simulation(drift, reliability):
    rng = np.random.default_rng(0)
    true = rng.normal(-drift, reliability**0.5, 400_000)
    kept = true + rng.normal(0, (1 - reliability) ** 0.5, len(true)) <= 0
    found = theory.progress(drift, reliability)
    assert found["accepted"] == pytest.approx(kept.mean(), abs=4e-3)
    assert found["per_query"] == pytest.approx(-(true * kept).mean(), abs=8e-3)
    assert found["per_accepted"] == pytest.approx(-true[kept].mean(), abs=1.2e-2)
    pays = found["per_query"] > found["plain"]
    assert pays == (reliability > theory.reliability_needed(drift))


def test_reliability_needed_rises_from_0_towards_1():
    needed = [theory.reliability_needed(m) for m in (-1, 0, 0.1, 1, 3, 30)]
    assert needed[:2] == [0, 0]
    assert all(a < b for a, b in itertools.pairwise(needed[1:]))
    assert 0.99 < needed[-1] < 1
    for m in (0.2, 2.0):
        at = theory.progress(m, theory.reliability_needed(m))
        assert at["per_query"] == pytest.approx(m)
    with pytest.raises(ParameterError, match="reliability"):
        theory.progress(1.0, 1.5)


def test_chance_acceptances_are_bounded():
    """Every candidate rises by h: count those that chance lets pass after the first updates."""
    rng, counted, runs = np.random.default_rng(1), 0, 200
    for _ in range(runs):
        screen = Screen(Annealing(10.0, 3))
        while screen.accepted < 60:
            before = screen.accepted
            outcome = screen.decide(0.01, rng.random())
            counted += outcome == 2 and before >= 20
    bound = theory.chance_acceptances(10.0, 3, 0.01, 20)
    assert 0.1 * bound < counted / runs <= bound


@pytest.mark.parametrize(("limit", "zero"), [(4, True), (4, False), (1, False), (0, False)])
def test_most_queries_are_attained(limit, zero):
    screen = Screen(Annealing(10.0, limit, starts_at_zero=zero))
    while screen.accepted < 30 or screen.rejections < limit:
        screen.decide(1e3, 0.999)
    assert screen.queries == theory.most_queries(30, limit) - (zero and limit > 0)


# --- readouts


def test_savings_and_their_trend():
    way = {
        ("mnist", 0.94): {"accepted": {"dpsgd_auto_s": [1.2, 1.3], "ours": [1.1, 1.2], "dpsgd": [None, 2.0]}},
        ("mnist", 0.98): {"accepted": {"dpsgd_auto_s": [2.9, 3.0], "ours": [2.5, 2.6], "dpsgd": [None, None]}},
    }
    whole = {"mnist": 3.0}
    found = readouts.savings(way, "accepted", whole)
    assert found["mnist", 0.94]["dpsgd"].difference.value == pytest.approx(1.35)  # as if reached at the very end
    assert found["mnist", 0.98]["dpsgd_auto_s"].difference.value == pytest.approx(0.4)
    assert found["mnist", 0.98]["dpsgd"].difference.value == pytest.approx(0.45)
    assert readouts.bounded(way["mnist", 0.98], "dpsgd") == ", at least"
    assert readouts.bounded(way["mnist", 0.98], "dpsgd_auto_s") == ""
    trend = readouts.saving_trend({place: cells["accepted"] for place, cells in way.items()}, whole)
    assert trend["mnist"].value == pytest.approx(0.3)
    assert readouts.trend_verdict(trend) == "holds with change"
    assert readouts.saving_trend({place: {"ours": [1.0, 1.1]} for place in way}, whole) == {}
    assert readouts.trend_verdict({"a": Measured(-1, -2, -0.5)}) == "fails"
    assert readouts.trend_verdict({"a": Measured(1, n=1)}) == "undecided"
    assert readouts.trend_verdict({}) == "undecided"


def test_a_trend_with_a_bound_at_its_top():
    def trend(top):
        low = {"dpsgd_auto_s": [1.55, 1.5], "ours": [1.05, 1.0]}
        return readouts.saving_trend({("a", 0.9): low, ("a", 0.95): top}, {"a": 3.0})

    assert trend({"dpsgd_auto_s": [None, 2.9], "ours": [2.0, 2.1]})["a"].value == pytest.approx(0.4)  # at least
    assert trend({"dpsgd_auto_s": [None, None], "ours": [2.75, 2.75]}) == {}  # at least 0.25 says nothing of a rise
    assert trend({"dpsgd_auto_s": [2.0, 2.1], "ours": [2.5, None]}) == {}
    assert readouts.savings({("a", 0.9): {"accepted": {"ours": [1.0], "dpsgd": [None]}}}, "accepted", {"a": None}) == {
        ("a", 0.9): {}
    }


def test_a_bound_on_a_saving_stands_only_where_it_tells():
    def saved(ours, other):
        return readouts.savings({("a", 0.9): {"accepted": {"ours": ours, "dpsgd": other}}}, "accepted", {"a": 3.0})

    short = saved([2.0, None], [1.0, 1.1])["a", 0.9]["dpsgd"]  # the annealed run falls short: at most this
    assert short.difference.value == pytest.approx(-1.45)
    for ours, other in (([1.0, None], [1.5, 1.1]), ([2.5, 2.5], [1.0, None]), ([None, 1.0], [None, 1.2]), ([1.0], [])):
        expected = {"dpsgd"} if ours == [1.0, None] else set()
        assert set(saved(ours, other)["a", 0.9]) == expected


def test_free_settings():
    ahead = {"dpsgd": gain(9), "dpsgd_tanh": UP}
    reached = {"accuracy": Measured(98.9, 98.8, 99.0, 5), "accepted": ahead, "queries": ahead}
    assert verdicts.free_verdict({"mnist": reached}, {"mnist": 98.89}) == "holds"
    level = {**reached, "queries": {**ahead, "dpsgd_auto_s": DOWN}}
    assert verdicts.free_verdict({"mnist": level}, {"mnist": 98.89}) == "holds with change"
    assert verdicts.free_verdict({"mnist": {**reached, "queries": {}}}, {"mnist": 98.89}) == "holds with change"
    second = {**reached, "accepted": {**ahead, "dpsgd": gain(0.5, 0.7)}}  # the farther one is not beyond chance
    assert verdicts.free_verdict({"mnist": second}, {"mnist": 98.89}) == "holds with change"
    assert verdicts.free_verdict(
        {"mnist": {**reached, "accuracy": Measured(98.8, 98.5, 99.1, 5)}}, {"mnist": 98.89}
    ) == ("undecided")
    lower = {**reached, "accuracy": Measured(98.4, 98.3, 98.5, 5)}
    assert verdicts.free_verdict({"mnist": lower}, {"mnist": 98.89}) == "undecided"
    assert verdicts.free_verdict({}, {"mnist": 98.89}) == "undecided"


def test_batch_normalisation_is_refused():
    assert readouts.refuses_batch_norm()


# --- sentences


def test_differences_in_words():
    assert findings.said(UP.difference) == "ahead by 1.0 [0.5, 1.5] points"
    assert findings.said(DOWN.difference) == "behind by 1.00 [0.50, 1.50] points"
    assert findings.said(Measured(0.0, 0.0, 0.0, 5)) == "the same"
    assert findings.said(LEVEL.difference).startswith("not told apart")
    assert findings.said(ALONE.difference) == "+1.00 points with one seed"
    found = {"accepted": {"dpsgd": gain(3), "dpsgd_auto_s": UP}, "queries": {"dpsgd_auto_s": DOWN}}
    sentence = findings.at_both_counts("MNIST", found)
    assert "equal accepted updates it is ahead by 1.0" in sentence
    assert "equal queries it is behind" in sentence
    assert findings.at_both_counts("MNIST", {}) == ""
    alone = findings.at_both_counts("MNIST", {"accepted": {"dpsgd_tanh": UP}})
    assert "against DPSGD (tanh), the only other scheme that was run: at equal accepted updates it is ahead" in alone
    said = findings.answers({"MNIST": found, "digits": {}})
    assert "the paper's count: yes on MNIST, too few runs to say on digits" in said
    assert "accountant counts: no, it loses on MNIST" in said
    because = findings.gain_because(["mnist"], {"mnist": found})
    assert "over AUTO-S 1.0 [0.5, 1.5] at equal accepted updates, where 0.23 is printed" in because


def test_budgets_in_words():
    assert findings.budget_cell([1.0, None], 3.0) == "1 of 2 runs within 3"
    assert findings.budget_value([1.0, 2.0], 3.0).value == 1.5
    assert findings.budget_value([None], None) == "0 of 1 runs"


def test_a_witness():
    rows = {"accepted": [0, 1, 2, 2], "outcome": [1, 1, 0, 3], "change": [-1.0, -1.0, 1.0, 1.0],
            "witness": [-0.5, 0.2, 0.4, -0.1]}  # fmt: skip
    lower = Measured(80.0, 70.0, 90.0, 5)
    found = findings.witnessed([{"witness": rows}] * 5, lower, 3.0, 3.0)
    assert found.verdict == "holds"
    assert found.values["accepted_that_lower_the_training_loss_percent"].value == pytest.approx(200 / 3)
    assert found.values["J_and_training_loss_agree_percent"].value == pytest.approx(50)
    assert found.values["rejected_that_lower_the_training_loss_percent"].value == 0
    assert "% of the rejected candidates would have; J" in found.text
    kept = {**rows, "outcome": [1, 1, 1, 3]}
    assert "rejected" not in findings.witnessed([{"witness": kept}] * 5, lower, 3.0, 3.0).text
    assert findings.witnessed([{"witness": rows}] * 5, lower, 1.5, 3.0).verdict == "holds with change"
    assert findings.witnessed([{"witness": rows}] * 4, lower, 3.0, 3.0).verdict == "undecided"
    against = {**rows, "witness": [0.5, 0.2, 0.4, -0.1]}
    assert findings.witnessed([{"witness": against}] * 5, lower, 1.5, 3.0).verdict == "fails"
    assert findings.witnessed([], lower, 3.0, 3.0).verdict == "undecided"  # J itself cannot tell


def test_momentum_in_words():
    runs = {name: [{"accuracy": a} for a in (0.8, 0.82)] for name in ("dpsgd, no momentum", "ours, no momentum")}
    moving = {"dpsgd, no momentum": np.array([0.96, 0.965])}
    text = findings.momentum_words(runs, moving, {"accepted": UP, "queries": DOWN}, 1.5)
    assert "DPSGD (tanh) has 81 [68, 94]% without it, " in text
    assert "Both without it, the annealed method is ahead by 1.0 [0.5, 1.5] points at equal accepted updates" in text
    assert "and behind by 1.00 [0.50, 1.50] points at equal queries." in text
    assert "not run" in findings.momentum_words({}, {}, {}, 1.5)


def test_frozen_readings_in_words(monkeypatch):
    def cell(value):
        return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 5}

    values = {
        f"MNIST, ε = 1.5, {reading}: {what}": cell(value)
        for reading, at in (("J on the batch of the step", 0.2), ("J on 125 test records", -0.3))
        for what, value in (("points less the printed reading", at), ("queries an accepted update", 1.25))
    }
    monkeypatch.setattr(claims, "frozen", lambda _: {"values": values})
    text = findings.frozen_readings(sizes=False)
    assert "(MNIST, ε = 1.5, 5 seeds)" in text
    assert text.endswith("J on the batch of the step 0.20 [0.10, 0.30] (1.25).")
    assert findings.frozen_readings(sizes=True).endswith("brackets: J on 125 test records -0.30 [-0.40, -0.20] (1.25).")
    monkeypatch.setattr(claims, "frozen", lambda _: None)
    assert findings.frozen_readings(sizes=True) == ""


def test_the_frozen_paragraph_follows_the_records(monkeypatch):
    monkeypatch.setattr(claims, "frozen", lambda _: None)
    assert "not frozen" in findings.frozen_story()
    ahead, behind = ({"value": v, "low": v - 0.1, "high": v + 0.1, "n": 5} for v in (0.3, -0.4))
    cost = {"value": 4.2, "low": 4.0, "high": 4.4, "n": 5}
    records = {
        "D.s-gain-same-hyperparameters": {
            "gain_mnist": ahead,
            "gain_equal_queries_mnist": behind,
            "nearest_mnist": "DPSGD (tanh)",
            "others_run_mnist": "DPSGD, DPSGD (tanh)",
        },
        "D.table1.mnist": {"queries_an_accepted_update": 2.5, "epsilon_pld": cost},
    }
    monkeypatch.setattr(
        claims,
        "frozen",
        lambda id_: {"values": records[id_], "provenance": {"date": "2026-11-22T00:00"}} if id_ in records else None,
    )
    text = findings.frozen_story()
    assert "MNIST" in text
    assert "ahead by 0.30" in text
    assert "against DPSGD (tanh), the nearest of DPSGD, DPSGD (tanh)" in text
    assert "(5 seeds); at equal noisy gradients" in text
    assert "behind by 0.40" in text
    assert "2.5 noisy gradients" in text
    assert "4.20 by PLD" in text
