"""Reading runs of annealed DP-SGD: made-up curves and traces with known answers."""

import math

import numpy as np
import pytest

from dplib import annealing_accounts, annealing_tables, annealing_traces, loss_inversion
from dplib.annealing import Annealing, Screen
from dplib.annealing_experiments import Lab
from dplib.stats import Measured

LAB = Lab("mnist", 60_000, {}, epsilon=3.0)
SETTING = {"noise_multiplier": 1.23, "sample_rate": 512 / 60_000}
STEPS = annealing_accounts.steps_allowed(3.0, 1.23, 512 / 60_000, 1e-5)


def run(ratio=1, offset=0.0, accepted=STEPS, diverged=False):
    """Accuracy is a tenth of a percent for each hundred accepted updates; so many queries for each of them."""
    kept = np.unique(np.linspace(100, accepted, 30).round().astype(int))
    accuracy = (0.001 * kept / 100 + offset).tolist()
    return {
        "curve": {"accepted": kept.tolist(), "queries": (ratio * kept).tolist(), "accuracy": accuracy,
                  "loss": [1 - a for a in accuracy]},
        "accuracy": None if diverged else accuracy[-1], "accepted": int(kept[-1]), "queries": int(ratio * kept[-1]),
        "cpu_seconds": 3.0 * ratio * int(kept[-1]), **SETTING,
    }  # fmt: skip


def test_one_run_has_a_value_and_no_interval():
    assert annealing_tables.measured([3.0]) == Measured(3.0, n=1)
    one = annealing_tables.compare([5.0], [3.0])
    assert one.difference == Measured(2.0, n=1)
    assert math.isnan(one.p_value)
    assert annealing_tables.shown(one) == "+2.00 (one seed)"
    assert not annealing_tables.above(one.difference)
    assert not annealing_tables.below(one.difference)
    assert annealing_tables.compare([5.0, 6.0, 7.0], [3.0, 3.0]).difference.n == 2


def test_bands_are_those_of_the_mean():
    values = np.random.default_rng(0).normal(size=(6, 3))
    table = annealing_tables.bands(values)
    for column, (_, row) in zip(values.T, table.iterrows(), strict=True):
        one = annealing_tables.measured(column)
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((one.value, one.low, one.high))
    assert annealing_tables.bands(values[:1])["low"].isna().all()


def test_a_run_is_read_by_either_count():
    one = run(ratio=2)
    assert annealing_tables.read(one, "accepted", 1000) == pytest.approx(0.01)
    assert annealing_tables.read(one, "queries", 1000) == pytest.approx(0.005)
    assert math.isnan(annealing_tables.read(one, "accepted", STEPS + 1))
    assert math.isnan(annealing_tables.read(one, "queries", 50))


def test_equal_budgets_by_both_counts():
    arms = {"dpsgd_tanh": [run(), run(offset=0.001)], "ours": [run(2, 0.01), run(2, 0.013)]}
    by_accepted = annealing_tables.gains(LAB, arms, "accepted", 3.0)["dpsgd_tanh"].difference
    assert by_accepted.value == pytest.approx(1.1)
    assert annealing_tables.best_other({"dpsgd_tanh": annealing_tables.compare([2.0], [1.0])}) == "dpsgd_tanh"
    by_queries = annealing_tables.gains(LAB, arms, "queries", 3.0)["dpsgd_tanh"].difference
    assert by_queries.value == pytest.approx(1.1 - 0.1 * STEPS / 2 / 100)
    loss = annealing_tables.gains(LAB, arms, "accepted", 3.0, column="loss")["dpsgd_tanh"].difference
    assert loss.value == pytest.approx(-0.011)


def test_a_run_that_stops_early_is_compared_where_it_is():
    arms = {"dpsgd_tanh": [run(), run()], "ours": [run(3, 0.01, 2000), run(3, 0.01, 2500)]}
    assert annealing_tables.gains(LAB, arms, "accepted", 3.0) == {}
    common = annealing_tables.common_budget(LAB, arms["ours"], "accepted")
    assert common == pytest.approx(annealing_accounts.paper_epsilon(1.23, 512 / 60_000, 2000, 1e-5))
    assert annealing_tables.gains(LAB, arms, "accepted", common)["dpsgd_tanh"].difference.value == pytest.approx(1.0)
    assert annealing_tables.common_budget(LAB, arms["ours"], "queries") == 3.0


def test_free_settings_are_compared_as_far_as_all_runs_go():
    found = {"dpsgd_tanh": [run(), run()], "ours": [run(3, 0.01, 2000), run(3, 0.01, 2500)]}
    choice = annealing_tables.free_choice(LAB, {arm: {"results": results} for arm, results in found.items()})
    assert choice["accuracy"].value == pytest.approx(1 + 0.1 * 22.5, abs=0.01)
    assert choice["accepted"]["dpsgd_tanh"].difference.value == pytest.approx(1.0)
    assert choice["queries"]["dpsgd_tanh"].difference.value < -1  # a third of the updates


def test_what_was_tried_stands_by_candidate():
    tried = annealing_tables.tried(
        {"dpsgd": {"tried": [0.9, 0.8]}, "ours": {"tried": [0.7, 0.95]}}, [{}, {"batch": 256}]
    )
    assert tried["settings"].tolist() == ["as in Table 2", "batch 256"]
    assert tried["annealed"].tolist() == pytest.approx([70.0, 95.0])
    assert tried["DPSGD"].tolist() == pytest.approx([90.0, 80.0])


def test_shares_end_at_0_and_100():
    found = annealing_tables.share([0.0, 0.0, 9.0])
    assert (found.value, found.low, found.n) == (3.0, 0.0, 3)
    assert found.high > 3
    assert annealing_tables.share([100.0, 99.0, 100.0]).high == 100
    assert annealing_tables.share([50.0]).low is None


def test_curves_and_targets():
    arms = {"ours": [run(2), run(2, 0.002)]}
    table = annealing_tables.curves(LAB, arms, "accepted", "accuracy", 12)["ours"]
    assert table["epsilon"].iloc[-1] <= 3.0
    assert (table["mean"].diff().dropna() > 0).all()
    assert table["high"].iloc[5] > table["low"].iloc[5]
    tight = annealing_tables.curves(LAB, arms, "pld", "accuracy", 12)["ours"]
    paper = annealing_tables.curves(LAB, arms, "queries", "accuracy", 12)["ours"]
    assert (tight["epsilon"] < paper["epsilon"]).all()
    first, later = annealing_tables.first_budgets(LAB, arms["ours"], 0.03, "accepted")
    assert later < first < 3
    assert annealing_tables.first_budgets(LAB, arms["ours"], 0.9, "accepted") == [None, None]
    doubled = annealing_tables.first_budgets(LAB, arms["ours"], 0.03, "queries")[0]
    assert doubled == pytest.approx(float(annealing_accounts.paper_epsilon(1.23, 512 / 60_000, 6000, 1e-5)), rel=0.01)


def test_the_tight_account_between_its_nodes():
    counts = [40, 333, 4698]
    found = annealing_tables.epsilons(counts, SETTING, 1e-5, "pld")
    direct = [loss_inversion.epsilon(1.23, 512 / 60_000, n, 1e-5) for n in counts]
    assert found == pytest.approx(direct, rel=2e-3)
    low = annealing_tables.epsilons([0, 1, 10, 32], SETTING, 1e-5, "pld")
    assert low[0] == 0
    assert (np.diff(low) > 0).all()


def test_three_epsilons_of_a_run():
    found = annealing_tables.three_epsilons(LAB, [run(2), run(2)])
    assert found["accepted"].value == STEPS
    assert found["queries"].value == 2 * STEPS
    assert found["paper"].value == pytest.approx(3.0, abs=1e-3)
    assert found["paper"].value < found["pld"].value < found["rdp"].value


def test_diverged_runs_count_as_guessing():
    assert annealing_tables.accuracies([run(diverged=True)]) == [10.0]


# --- traces

TRACE = {"outcomes": "1" * 6 + "0012" + "0003" + "10", "changes": [-1.0] * 6 + [1, 1, -1, 1] + [1, 1, 1, 1] + [-1, 1]}


def test_parts_of_a_trace():
    shares = annealing_traces.tenths(TRACE, 2)
    assert shares["accepted"] == pytest.approx([6 / 8, 4 / 8])
    assert shares["worse"] == pytest.approx([2 / 8, 6 / 8])
    assert shares["kept_worse"] == pytest.approx([0, 2 / 4])
    assert shares["let_pass"] == pytest.approx([0, 2 / 6])
    assert shares["forced"] == pytest.approx([0, 1 / 8])
    table = annealing_traces.by_tenth([TRACE, TRACE], "accepted", 2)
    assert table["mean"].tolist() == pytest.approx([75, 50])
    assert annealing_traces.by_tenth([TRACE], "accepted", 2)["low"].isna().all()
    assert np.isnan(annealing_traces.tenths({"outcomes": "1", "changes": [-1.0]}, 2)["accepted"][1])
    assert annealing_traces.longest_rejections(TRACE["outcomes"]) == 3
    assert annealing_traces.longest_rejections("111") == 0


def test_a_trace_is_replayed():
    rng = np.random.default_rng(0)
    screen, outcomes, changes = Screen(Annealing(10.0, 3)), "", []
    for _ in range(400):
        changes.append(float(rng.normal(0.01, 0.1)))
        outcomes += str(screen.decide(changes[-1], rng.random()))
    trace = {"outcomes": outcomes, "changes": changes}
    assert set(outcomes) == set("0123")
    assert annealing_traces.contradictions(trace, Annealing(10.0, 3)) == 0
    assert annealing_traces.contradictions(trace, Annealing(10.0, 2)) > 0
    lower = outcomes.index("1")
    broken = {**trace, "outcomes": outcomes[:lower] + "0" + outcomes[lower + 1 :]}
    assert annealing_traces.contradictions(broken, Annealing(10.0, 3)) > 0


def test_what_chance_decides():
    rng = np.random.default_rng(0)
    annealing, probabilities = Annealing(1.0, 3), []
    screen, outcomes, changes = Screen(annealing), "", []
    for _ in range(3000):
        changes.append(float(rng.normal(0.0, 0.01)))
        at_limit = screen.rejections == 3
        if changes[-1] > 0 and not at_limit:
            probabilities.append(math.exp(-changes[-1] * screen.temperature))
        outcomes += str(screen.decide(changes[-1], rng.random()))
    trace = {"outcomes": outcomes, "changes": changes}
    table = annealing_traces.chances(trace, annealing)
    assert table["probability"].tolist() == pytest.approx(probabilities)
    assert (table["change"] > 0).all()
    expected, passed, spread = annealing_traces.chance_counts([table, table])
    assert expected == pytest.approx(2 * sum(probabilities))
    assert abs(passed - expected) < 2 * 4 * spread  # twice the same run
    median, shares = annealing_traces.fixed_rise([trace, trace], [table, table], 5)
    assert median == pytest.approx(float(table["change"].median()))
    assert shares.shape == (2, 5)
    near = table[(table["query"] < 600) & table["change"].between(median / 2, 2 * median)]
    assert shares[0, 0] == pytest.approx(100 * near["passed"].mean())
    p = near["probability"]
    assert abs(near["passed"].sum() - p.sum()) < 4 * (p * (1 - p)).sum() ** 0.5
    assert shares[0, -1] < shares[0, 0] / 4  # the temperature has risen by then


def test_gaps_and_costs():
    seen = [{"curve": {"seen": [0.5, 0.9], "unseen": [0.5, 0.88]}}] * 2
    assert annealing_traces.seen_gap(seen).value == pytest.approx(2.0)
    assert annealing_traces.seen_gap([run()]) is None
    queries, seconds = annealing_traces.cost_ratio([run(2), run(3)], [run(), run()])
    assert queries.value == pytest.approx(2.5)
    assert seconds.value == pytest.approx(2.5)
