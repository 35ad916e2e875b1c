"""The rules of the verdicts on the searches, on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from dplib.architecture import feature_search_verdicts as judge
from dplib.architecture.feature_pafs import METHODS

EPSILONS = [0.1, 0.5, 1.0, 5.0, 10.0, 40.0]


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


def leads(lines, gain, over=judge.OTHERS):
    """Of a stronger search with so much more than the better of the others (of those not in ``over``: nothing)."""
    base = judge.percent(lines, "All", 1.0)[:5]
    at = {1.0: base + gain + 0.1 * np.random.default_rng(2).standard_normal(5)}
    table = judge.strong_leads(lines, at)
    return table.assign(sign=np.where(table["b"].isin(over), table["sign"], 0))


@pytest.mark.parametrize(("validation", "verdict"), [(0.05, "holds"), (0.0, "undecided"), (-0.02, "fails")])
def test_pafs_is_judged_by_the_honest_fitness(validation, verdict):
    lines = runs({"PAFS (test)": 0.06, "PAFS (validation)": validation})
    found = judge.pafs_best(lines, EPSILONS, leads(lines, 0.0), "more trainings")
    assert found[1] == verdict
    assert found[0]["as_printed_first_in_rows"] == len(EPSILONS)
    assert found[0]["validation_minus_All"].value == pytest.approx(100 * validation, abs=0.3)


def test_more_trainings_have_to_beat_all_four():
    lines = runs({"PAFS (validation)": -0.02})
    strong = judge.pafs_best(lines, EPSILONS, leads(lines, 5.0), "more trainings")
    assert strong[1] == "holds with change"
    assert "ahead of all four at ε = 1 (Holm)" in strong[2]
    assert strong[0]["PAFS minus CFS-GA, more trainings, ε = 1"].value == pytest.approx(5, abs=0.5)
    assert judge.pafs_best(lines, EPSILONS, leads(lines, 5.0, ["CFS-Greedy"]), "more")[1] == "fails"


@pytest.mark.parametrize(
    ("size", "verdict", "words"),
    [
        (lambda e: 20 + 4 * np.log10(e), "holds", "rises with ε"),
        (lambda e: 22 if e < 5 else 9 + e / 10, "holds with change", "adapts where the fitness carries signal"),
        (lambda e: 15 - 4 * np.log10(e), "fails", "falls as ε rises"),
        (lambda e: 10, "undecided", "shows no trend"),
    ],
)
def test_sizes_that_rise_with_the_budget_are_seen(size, verdict, words):
    values, found, because = judge.adapts(runs({}, size=size), EPSILONS, {})
    assert found == verdict
    assert words in because
    assert "rank_correlation_validation_above_2" in values


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

    assert judge.implicit(lines, scores(-0.05), EPSILONS)[1] == "holds"
    found = judge.implicit(lines, scores(0.05), EPSILONS)
    assert found[1] == "holds with change"
    assert "is higher than" in found[2]
    assert "not by punishing redundancy, but by relevance" in found[2]
    assert judge.implicit(runs({"CFS-Greedy": -0.03, "CFS-GA": -0.03}), scores(-0.05), EPSILONS)[1] == "fails"
    once = runs({})
    once.loc[(once["method"] == "CFS-GA") & (once["epsilon"] == 1.0), "accuracy"] += 0.01
    assert judge.implicit(once, scores(0.05), EPSILONS)[1] == "undecided"  # one win at one budget is too little


def totals(*effects):
    """Accuracies at totals 1, 2, ..., one dictionary of effects in points each, over 60."""
    rng = np.random.default_rng(3)
    names = ("all", "random", "one random", "cfs columns", "pafs", "search")
    return {
        float(i): {n: 60 + one.get(n, 0.0) + 0.2 * rng.standard_normal(10) for n in names}
        for i, one in enumerate(effects, 1)
    }


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ([{"search": 5}, {"search": 4}], "holds"),
        ([{"search": 5, "random": 2}, {"search": 4, "random": 6}], "holds with change"),
        ([{"search": 5, "random": 5}, {"search": 4, "random": 6}], "undecided"),
    ],
)
def test_a_search_has_to_beat_a_blind_choice_to_be_aware(effects, verdict):
    values, found, because = judge.awareness(totals(*effects))
    assert found == verdict
    assert values["search minus all, total 1"].value == pytest.approx(5, abs=0.4)
    if verdict == "holds with change":
        assert "pays at ε = 1 only" in because
        assert "behind the blind one at ε = 2" in because


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ([{"cfs columns": 5}, {}], "holds"),
        ([{"cfs columns": 5, "one random": 8}, {}], "holds with change"),
        ([{"cfs columns": -5}, {}], "fails"),
        ([{"cfs columns": 5, "pafs": 5}, {}], "undecided"),
    ],
)
def test_private_cfs(effects, verdict):
    assert judge.private_choice(totals(*effects))[1] == verdict
