"""Values of chapter 9b from made-up runs: they answer the ledger's rules, and are paired and grouped as they say."""

import math
from types import SimpleNamespace

import pytest

from dplib import claims, rules
from dplib.labels import recipe_rows, stage_study

SEEDS = range(5)


def run(final, *, first=0.5, mean_k=2.0, top=(0.5, 0.7, 0.9)):
    """A run of LP-2ST with three classes."""
    stage = {"top": list(top), "curve": [[first, 0.7, 0.9]] * 2, "mean_k": mean_k, "wrong_before": 0.6,
             "wrong_after": 0.3, "reused": 10, "kept": 6}  # fmt: skip
    return {"accuracy": final, "stages": [stage, {**stage, "top": [final, 0.8, 0.9]}]}


def runs(final, **more):
    return [run(final + 0.01 * seed**2, **more) for seed in SEEDS]


@pytest.fixture
def plan():
    """A plan whose runs all exist: LP-2ST a point ahead, more with a share of 60%, less with mixup."""
    heads = {"cells": {(e, t): runs(0.59 + 0.01 * t) for e in (1.0, 2.0, math.inf) for t in (1, 2)}}
    tops = {0.5: (0.9, 0.97, 1.0), 1.0: (0.7, 0.85, 1.0), 2.0: (0.5, 0.7, 1.0)}
    found = {
        "chosen": {"temperature": 0.5},
        "recipes": {name: runs(0.61 - 0.01 * i) for i, name in enumerate(stage_study.RECIPES)},
        "shares": {
            (s, t): runs(0.61 + 0.02 * (s == 0.6) - 0.01 * t, top=tops[t])
            for s in (0.3, 0.6, 0.8) for t in (0.5, 1.0, 2.0)
        },
        "mixups": {(a, b): runs(0.61 - 0.01 * a - 0.001 * b) for a in (0.0, 6.0) for b in (0.0, 6.0)},
    }  # fmt: skip
    rated = [{"rmse": 1.0 + 0.01 * s**2, "likeliest": 1.1, "unmixed": 1.0} for s in SEEDS]
    linear = [{"biases": 0.9, "constant": 1.1} for _ in SEEDS]
    cells = {(e, kind): rated for e in (1.0, 2.0, 3.0, 4.0, 8.0) for kind in (1, 2)} | {(math.inf, 1): rated}
    cells |= {(e, "biases"): linear for e, kind in cells if kind == 1}
    parts = {"heads": heads, "recipes": found, "ratings": {"cells": cells}}
    return SimpleNamespace(parts=parts, read=parts.__getitem__)


def test_every_rule_finds_its_values(plan):
    found = recipe_rows.values(plan)
    for claim_id, values in found.items():
        claim = claims.get(claim_id)
        assert not set(rules.names(claim.rule)) - set(values), claim_id
        rules.decide(claim.rule, values, claim.published)  # raises for a value that it cannot compare
    assert len(found) == 20


def test_differences_are_in_points_and_paired(plan):
    found = recipe_rows.values(plan)
    assert found["C.fig3"]["LP-2ST_minus_LP-1ST"].value == pytest.approx(1)
    assert found["C.s-split-above-half"]["50_to_70_minus_up_to_50"].value == pytest.approx(2)
    assert found["C.s-prior-temperature"]["above_1_minus_1"].value == pytest.approx(-1)
    assert found["C.s-mixup"]["mixup_4_to_8_minus_none"].value == pytest.approx(-6.6)
    assert found["C.fig4b"]["less_in_stage_2_minus_more"].value == pytest.approx(-5.4)
    assert found["C.s-stage2-warm-start"]["warm_minus_fresh"].value == pytest.approx(1)
    assert found["C.s-robust-settings"]["worst_cell_minus_one_stage"].value == pytest.approx(-5.6)
    assert found["C.s-movielens-improves"]["LP-2ST_minus_biases_eps_8"].value == pytest.approx(0.16)


def test_runs_that_keep_all_classes_stand_apart(plan):
    """Temperature 0.5 has a top-2 accuracy of 97%, 1 one of 85%, 2 one of 70%: against the middle by hand."""
    cells = plan.read("recipes")["shares"]
    assert recipe_rows.end(cells, 96, 100).value == pytest.approx(0.5)
    assert recipe_rows.end(cells, -1, 80).value == pytest.approx(-1)
    cells |= {(0.9, 0.5): runs(0.5, mean_k=3.0, top=(0.9, 0.97, 1.0))}
    assert recipe_rows.end(cells, 96, 100).value == pytest.approx(0.5)
    assert recipe_rows.end(cells, 96, 100, every=True).value < -1
