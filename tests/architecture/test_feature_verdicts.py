"""The rules of the verdicts on Table X, on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from dplib.architecture import feature_experiments, feature_verdicts
from dplib.architecture.feature_pafs import METHODS, Plan
from dplib.architecture.feature_search import Genetic

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
    assert feature_verdicts.small_budgets(runs(better | {"Random": 0.0}), EPSILONS)[1] == "undecided"
    late = runs(better)
    first = late["epsilon"] == 0.1
    late.loc[first, "accuracy"] = late[first].groupby("split")["accuracy"].transform("mean")
    values, verdict, because = feature_verdicts.small_budgets(late, EPSILONS)
    assert (verdict, values["better_random"]) == ("holds with change", 1)
    assert "from ε = 1 on" in because
    sound = runs(better)
    sound = sound[sound["method"] != "PAFS (test)"]  # the one with validation records stands in for it
    assert feature_verdicts.small_budgets(sound, EPSILONS)[0]["comparisons"] == 8
    values, verdict, _ = feature_verdicts.small_budgets(runs({}), EPSILONS)
    assert (verdict, values["better"]) == ("undecided", 0)
    assert values["comparisons"] == 2 * 4  # budgets up to 2 only


def test_gain_and_some_settings():
    lines = runs({"One feature": 0.12, "Random": -0.05})
    published = {"absolute_gain_points": 11.51, "relative_gain_percent": 20.11}

    def gain(lines, published, *methods):
        return feature_verdicts.largest_gain(lines, EPSILONS, methods, published)

    values, verdict, _ = gain(lines, published, "One feature", "Random")
    assert (verdict, values["method"]) == ("holds with change", "One feature")
    ours = {name: values[name].value for name in published}
    assert gain(lines, ours, "One feature", "Random")[1] == "holds"
    assert values["absolute_gain_points"].value == pytest.approx(12, abs=0.5)
    assert "imply 68.75% against 57.24%" in gain(lines, published, "One feature")[2]
    larger = gain(runs({"One feature": 0.3}), published, "One feature")
    assert larger[1] == "holds with change"  # more than printed is not what was printed
    assert "absolute_gain_points" in larger[2]
    off = ours | {"relative_gain_percent": 40.0}  # one of two printed figures is not enough
    assert gain(lines, off, "One feature")[1] == "holds with change"
    assert gain(runs({"CFS-GA": -0.02}), published, "CFS-GA")[1] == "fails"
    assert gain(runs({}, noise=0.02), published, "CFS-GA")[1] == "undecided"
    assert feature_verdicts.better_somewhere(lines, "One feature", EPSILONS, "One")[1] == "holds"
    assert feature_verdicts.better_somewhere(lines, "Random", EPSILONS, "It")[1] == "fails"
    assert feature_verdicts.better_somewhere(lines, "CFS-GA", EPSILONS, "It")[1] == "undecided"


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
