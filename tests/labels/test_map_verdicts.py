"""Verdicts on maps that are made up: each claim once as the paper has it, and once the other way round."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from dplib.labels import map_verdicts as verdicts
from dplib.labels import recipe_verdicts as recipe
from dplib.labels.cifar_study import ABLATIONS
from dplib.labels.map_groups import Maps, effects, wrong_and_kept

SEEDS = range(5)
NOISE = np.random.default_rng(0)


def rows(settings, accuracy, **columns):
    """One row for each seed and setting; the accuracy is a function of the setting, and seeds differ."""
    found = []
    for seed, setting in product(SEEDS, settings):
        final = accuracy(setting) + seed + NOISE.normal(0, 0.05)
        found.append({"seed": seed, **setting, "final": final, **{name: f(setting) for name, f in columns.items()}})
    return pd.DataFrame(found)


def made_up(sign, real=True):
    """Maps in which everything is as the paper says (sign = 1), or the opposite (-1)."""
    cells = [{"share": s, "temperature": t} for s, t in product([30.0, 50.0, 60.0, 80.0], [0.25, 1.0, 2.0])]

    def by_cell(c):
        return 60 - sign * (abs(c["share"] - 60) / 10 + 2 * np.log2(4 * c["temperature"]))

    # Stage 1 has a good top-k accuracy in the middle of the temperatures... so the ends are made from the share.
    top_k = {30.0: 70.0, 50.0: 85.0, 60.0: 91.0, 80.0: 98.0}
    shared = rows(cells, by_cell, top_k=lambda c: top_k[c["share"]], mean_k=lambda c: 2 + c["temperature"])
    mixups = [{"mixup_1": a, "mixup_2": b} for a, b in product([0.0, 1.0, 6.0], repeat=2)]
    mixed = rows(mixups, lambda m: 60 + sign * (m["mixup_1"] + 0.3 * min(m["mixup_2"], 4)))
    gains = {"as in the paper": 2.0, "prior of labels, not answers": 2.0}
    changes = [{"change": name} for name in ABLATIONS]
    changed = rows(changes, lambda c: 60 + sign * gains.get(c["change"], 0))
    changed = changed.assign(wrong_before=0.5, wrong_after=0.3, kept=0.6 + 0.001 * changed["seed"])
    one_stage = pd.Series(60 - sign * 20.0 + np.arange(5), index=SEEDS, name="final")
    return Maps(2.0, 0.25, shared, mixed, changed, one_stage, 10, real, "Made up.")


def test_everything_holds_where_the_runs_are_as_the_paper_says():
    found = verdicts.records(made_up(1))
    assert {claim: record.verdict for claim, record in found.items()} == dict.fromkeys(found, "holds")
    assert found["C.fig4a"].values["stage1_share_above"] == 60
    assert found["C.fig4a"].values["temperature_at_most"] == 0.25


def test_a_small_network_refutes_nothing_and_says_so():
    found = verdicts.records(made_up(-1))
    assert {record.verdict for record in found.values()} == {"undecided"}
    silent = {"C.fig4a", "C.s-mixup"}  # the one quotes, the other counts
    assert {claim for claim, record in found.items() if "refutes nothing" not in record.because} == silent
    assert "worse" in found["C.s-mixup"].because


def test_a_wide_prior_that_beats_the_usual_one():
    maps = made_up(1)
    best = {0.25: 63.0, 1.0: 60.0, 2.0: 62.0}
    shared = maps.shared.assign(
        final=[best[t] + s for t, s in zip(maps.shared.temperature, maps.shared.seed, strict=True)]
    )
    record = verdicts.temperature(replace(maps, shared=shared))
    assert record.verdict == "holds with change"
    assert record.values["above_1_minus_1"].value == pytest.approx(2)
    assert record.values["mean_k_above_1"] == "4.0 to 4.0 of 10"
    assert "better than 1 here, and worse than the chosen one" in record.because
    without = effects(maps)["no prior"].difference
    assert without.high < 0
    assert f"No prior less the chosen one, at the usual share: {without}." in record.because


def test_a_wide_prior_as_good_as_the_chosen_one_leaves_the_claim_open():
    maps = made_up(1)
    best = {0.25: 63.0, 1.0: 60.0, 2.0: 63.0}
    noisy = maps.shared["temperature"].map(best) + maps.shared["seed"] + NOISE.normal(0, 0.05, len(maps.shared))
    record = verdicts.temperature(replace(maps, shared=maps.shared.assign(final=noisy)))
    assert record.verdict == "undecided"
    assert "better than 1 here, and no different beyond chance from the chosen one" in record.because


@pytest.mark.parametrize("sign", [1, -1])
def test_a_stand_in_decides_nothing(sign):
    found = verdicts.records(made_up(sign, real=False))
    assert {record.verdict for record in found.values()} == {"undecided"}


def test_chance_decides_nothing():
    maps = made_up(1)
    blurred = [t.assign(final=NOISE.normal(60, 5, len(t))) for t in (maps.shared, maps.mixed, maps.changed)]
    found = verdicts.records(replace(maps, **dict(zip(("shared", "mixed", "changed"), blurred, strict=True))))
    assert sum(record.verdict == "undecided" for record in found.values()) >= 8


def test_differences_are_within_a_seed():
    """Seeds differ by a point each; that must not widen the intervals."""
    gain = recipe.warm_start(made_up(1)).values["warm_minus_fresh"]
    assert gain.value == pytest.approx(2, abs=0.15)
    assert gain.high - gain.low < 0.5


def test_the_ends_are_those_of_the_top_k_accuracy():
    maps = made_up(1)
    high, low = verdicts.ends_against_middle(maps.shared).values()
    # Shares 80 and 30 against the mean of 50 and 60.
    assert high.value == pytest.approx(-2 + 0.5, abs=0.1)
    assert low.value == pytest.approx(-3 + 0.5, abs=0.1)
    without = replace(maps, shared=maps.shared.assign(top_k=99.0))
    assert verdicts.ends_against_middle(without.shared) == {
        "above_96_minus_middle": None,
        "up_to_80_minus_middle": None,
    }
    assert verdicts.top_k(without).verdict == verdicts.figure_5(without).verdict == "undecided"


def test_a_top_k_accuracy_of_all_classes_is_left_out():
    """With k = K it is 100% whatever the model; such runs hide what the others show."""
    maps = made_up(1)
    best = maps.shared["final"].max()
    every = maps.shared.head(20).assign(top_k=100.0, mean_k=9.7, temperature=2.0, final=best + 5)
    record = verdicts.top_k(replace(maps, shared=pd.concat([maps.shared, every], ignore_index=True)))
    assert record.verdict == "holds with change"
    assert (
        record.values["above_96_minus_middle"].value < 0 < record.values["above_96_minus_middle_with_k_equal_K"].value
    )
    assert "20 of 35 runs above 96%, left out" in record.because
    assert verdicts.figure_5(maps).verdict == "holds"


def test_shares_of_one_half_are_among_the_smaller_ones():
    maps = made_up(1)
    without = replace(maps, shared=maps.shared[maps.shared["share"] != 30.0])
    assert verdicts.split(without).values["50_to_70_minus_up_to_50"].value == pytest.approx(1, abs=0.1)


def test_one_good_pair_of_coefficients_pays_for_having_been_chosen():
    maps = made_up(1)
    flat = maps.mixed.assign(final=60.0 + maps.mixed["seed"])
    noise = np.array([1.1, 0.2, 0.6, 0.6, 0.6])  # p = 0.012 alone, not among eight
    best = (flat["mixup_1"] == 0) & (flat["mixup_2"] == 1)
    flat.loc[best, "final"] += noise
    record = recipe.some_mixup(replace(maps, mixed=flat))
    assert record.values["best_minus_none"].low > 0
    assert record.values["best_coefficients"] == "0 in stage 1, 1 in stage 2"
    assert record.verdict == "undecided"


def test_where_groups_are_empty_nothing_is_decided():
    maps = made_up(1)
    few = maps.shared[maps.shared["share"].isin([50.0, 60.0]) & (maps.shared["temperature"] <= 1)]
    found = replace(maps, temperature=1.0, shared=few)
    assert verdicts.split(found).verdict == "undecided"
    assert verdicts.temperature(found).verdict == "undecided"
    assert wrong_and_kept(found)[2].value == pytest.approx(60.2)
