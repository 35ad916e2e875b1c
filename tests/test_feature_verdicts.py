"""The rules of the verdicts on Table X, on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from dplib import feature_experiments, feature_verdicts, stats
from dplib.feature_pafs import METHODS, Plan
from dplib.feature_search import Genetic

EPSILONS = [0.1, 1.0, 10.0]


def runs(effects, splits=8, noise=0.002, size=lambda e: 10):
    """Lines with accuracy 0.6 + the method's effect + an effect of the split that all methods share."""
    rng = np.random.default_rng(0)
    shift = rng.normal(0, 0.05, splits)
    return pd.DataFrame(
        [
            {
                "split": s,
                "epsilon": e,
                "method": m,
                "accuracy": 0.6 + shift[s] + effects.get(m, 0.0) + noise * rng.standard_normal(),
                "size": size(e) + s % 3 if m.startswith("PAFS") else 7,
            }
            for s in range(splits)
            for e in EPSILONS
            for m in METHODS
        ]
    )


def test_printed_row_allows_for_the_spread_of_splits_but_not_for_more():
    lines = runs({m: 0.03 for m in METHODS if m != "All"})
    printed = dict.fromkeys(feature_verdicts.COLUMNS, 63.0) | {"all": 61.0}
    assert feature_verdicts.printed_row(lines, 1.0, printed)[1] == "holds"
    values, verdict, because = feature_verdicts.printed_row(lines, 1.0, printed | {"random": 60.0})
    assert verdict == "holds with change"
    assert "Random is +3" in because
    assert values["all"].n == 8
    far = feature_verdicts.printed_row(lines, 1.0, printed | {"pafs": 95.0})
    assert far[1] == "not reproducible as stated"
    assert "PAFS (test) (95 against" in far[2]


def test_small_budgets():
    better = {m: 0.02 for m in METHODS if m != "All"}
    assert feature_verdicts.small_budgets(runs(better), EPSILONS)[1] == "holds"
    assert feature_verdicts.small_budgets(runs(better | {"Random": -0.02}), EPSILONS)[1] == "fails"
    assert feature_verdicts.small_budgets(runs(better | {"Random": 0.0}), EPSILONS)[1] == "holds with change"
    values, verdict, _ = feature_verdicts.small_budgets(runs({}), EPSILONS)
    assert (verdict, values["better"]) == ("undecided", 0)
    assert values["comparisons"] == 2 * 4  # budgets up to 2 only


@pytest.mark.parametrize(("validation", "verdict"), [(0.05, "holds"), (0.0, "undecided"), (-0.02, "fails")])
def test_pafs_is_judged_by_the_honest_fitness(validation, verdict):
    found = feature_verdicts.pafs_best(runs({"PAFS (test)": 0.06, "PAFS (validation)": validation}), EPSILONS, {})
    assert found[1] == verdict
    assert found[0]["as_printed_first_in_rows"] == 3
    lead = {"with more trainings": stats.Measured(3.0, 1.0, 5.0, 5)}
    strong = feature_verdicts.pafs_best(runs({"PAFS (validation)": -0.02}), EPSILONS, lead)
    assert strong[1] == "holds with change"
    assert "with more trainings: 3.0 [1.0, 5.0]" in strong[2]
    assert found[0]["validation_minus_All"].value == pytest.approx(100 * validation, abs=0.3)


def test_gain_and_some_settings():
    lines = runs({"One feature": 0.13, "Random": -0.05})
    published = {"absolute_gain_points": 11.51, "relative_gain_percent": 20.11}
    values, verdict, because = feature_verdicts.largest_gain(lines, EPSILONS, ["One feature", "Random"], published)
    assert (verdict, values["method"]) == ("holds", "One feature")
    assert values["absolute_gain_points"].value == pytest.approx(13, abs=0.5)
    assert values["absolute_gain_chosen_on_other_splits"].value == pytest.approx(13, abs=0.5)
    assert "imply 68.75% against 57.24%" in because
    assert feature_verdicts.largest_gain(runs({"CFS-GA": 0.02}), EPSILONS, ["CFS-GA"], published)[1] == (
        "holds with change"
    )
    assert feature_verdicts.better_somewhere(lines, "One feature", EPSILONS, "One")[1] == "holds"
    assert feature_verdicts.better_somewhere(lines, "Random", EPSILONS, "It")[1] == "fails"
    assert feature_verdicts.better_somewhere(lines, "CFS-GA", EPSILONS, "It")[1] == "undecided"


def test_sizes_that_rise_with_the_budget_are_seen():
    assert feature_verdicts.adapts(runs({}, size=lambda e: 5 + 4 * np.log10(e)), EPSILONS, {})[1] == "holds"
    assert feature_verdicts.adapts(runs({}), EPSILONS, {})[1] == "holds with change"
    falling = feature_verdicts.adapts(runs({}, size=lambda e: 15 - 4 * np.log10(e)), EPSILONS, {})
    assert falling[1] == "holds with change"
    assert "falls as ε rises" in falling[2]


def test_redundancy_decides_whether_cfs_does_what_it_is_said_to():
    lines = runs({"CFS-Greedy": 0.03, "CFS-GA": 0.03})

    def scores(change):
        rng = np.random.default_rng(1)
        rows = [
            [s, m, 0.2 + (m != "Random") * change + 0.001 * rng.random(), 0.1 + (m != "Random") * 0.1]
            for s in range(8)
            for m in ("CFS-Greedy", "CFS-GA", "Random")
        ]
        return pd.DataFrame(rows, columns=["split", "method", "redundancy", "relevance"])

    assert feature_verdicts.implicit(lines, scores(-0.05), EPSILONS)[1] == "holds"
    found = feature_verdicts.implicit(lines, scores(0.05), EPSILONS)
    assert found[1] == "holds with change"
    assert "is higher than" in found[2]
    assert feature_verdicts.implicit(runs({"CFS-GA": -0.03}), scores(-0.05), EPSILONS)[1] == "fails"


def test_experiments_arrange_their_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_experiments.study, "FOLDER", tmp_path)
    small = Genetic(6, 1)
    plan = Plan("synthetic-recurrence", 2, "sound", 60, small, 2, small, 5)
    tried = feature_experiments.sensitivity(plan, 5.0, 2, {"as chosen": {}, "more": {"repeats": 4, "elitism": True}})
    assert len(tried) == 4
    assert set(tried) == {"variation", "split", "fitness", "fresh", "accuracy", "size", "distinct"}
    lines, seconds = feature_experiments.one_budget(
        "synthetic-recurrence", [1.0], 2, 60, 2, methods=("all", "search"), candidates=2
    )
    assert len(lines) == 4
    assert seconds > 0
    lines, _ = feature_experiments.usable("synthetic-recurrence", [1.0, 1e6], 2, 2)
    exact = lines[(lines["epsilon"] == 1e6) & (lines["unit"] == "attributes")]
    assert exact["merit"].min() > 0.99
    chosen = [{"ga": "fff000000000", "order": list(range(43))}] * 2
    groups = feature_experiments.redundancy(plan, chosen, 50)
    assert set(groups["method"]) == {"CFS-Greedy", "CFS-GA", "Random"}
    assert groups.groupby("split")["redundancy"].nunique().min() >= 2


def test_norm_and_columns_are_told_apart():
    subset = np.arange(43) < 6  # one attribute: records of norm 1 instead of 3
    found = feature_experiments.norm_or_columns("synthetic-recurrence", [subset], [1.0, 1e6], 200, 0)
    tight, free = found.iloc[0], found.iloc[1]
    assert tight["own"] > tight["long"]
    assert free["own"] == pytest.approx(free["long"], abs=0.2)
    pairs = {"a": (None, 1.0), "b": (30.0, 1.0)}
    read = feature_experiments.readings("synthetic-recurrence", [1.0, 1e6], {"one": [subset]}, pairs, 20, 0)
    assert read["a", "one"][1] == pytest.approx(read["b", "one"][1], abs=0.5)
    assert read["a", "one"][0] > read["b", "one"][0]
