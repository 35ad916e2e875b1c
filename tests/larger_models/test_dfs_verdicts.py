"""Verdict rules of paper A's feature selection, and the lead on one pair of classes; each verdict is reachable."""

import numpy as np
import pandas as pd
import pytest

from dplib.data import Dataset
from dplib.larger_models import dfs_experiments as experiments
from dplib.larger_models import dfs_pairs, dfs_shape, dfs_verdicts
from dplib.larger_models import dfs_problems as problems
from dplib.stats import Measured

DELTA = 1e-4


def curves(few, many, seeds=6):
    """Runs of DFS at 20 features and of no selection at 1000; the latter differ by a tenth."""
    lines = []
    for seed in range(seeds):
        scale = 1 + 0.1 * (seed % 2)
        lines += [("DFS", 20, few, seed), ("DFS", 1000, few, seed)]
        lines += [("no selection", 20, 0.4, seed), ("no selection", 1000, many * scale, seed)]
    return pd.DataFrame(lines, columns=["criterion", "size", "error", "seed"])


def test_a_need_for_1000_features_has_to_be_sure():
    assert dfs_verdicts.needs_more(curves(0.0, 0.2))
    assert not dfs_verdicts.needs_more(curves(0.02, 0.2))  # 20 DFS features do not reach it either
    assert not dfs_verdicts.needs_more(curves(0.0, 0.0061))
    noisy = curves(0.0, 0.0)
    noisy.loc[noisy.index[3], "error"] = 0.12  # a mean of 0.02 that one draw makes
    assert not dfs_verdicts.needs_more(noisy)
    assert dfs_verdicts.needed_features(curves(0.0, 0.001)) == 1000
    assert dfs_verdicts.needed_features(curves(0.0, 0.2)) is None


def test_a_candidate_is_confirmed_on_fresh_curves_only():
    reading = {"variance": 0.1, "means": "m", "noise": "none"}

    def settled(candidates, fresh):
        return dfs_shape.confirm(candidates, 10, dfs_verdicts.needs_more, lambda _: fresh)

    found = settled([reading] * 5, curves(0.0, 0.2))
    assert (found.count, found.tried, found.draws, len(found.held)) == (5, 3, 6, 3)
    assert "means with m, no noise" in str(found)
    cases = (found, settled([reading], curves(0.0, 0.0061)), settled([], None))
    expected = ["holds with change", "undecided", "not reproducible as stated"]
    assert [dfs_shape.verdict(case) for case in cases] == expected


def test_roughness_asks_for_most_readings():
    verdicts = [dfs_verdicts.roughness(*counts) for counts in ((5, 0, 5), (3, 0, 5), (2, 0, 5), (0, 3, 5), (0, 0, 0))]
    assert verdicts == ["holds", "holds with change", "undecided", "fails", "undecided"]


def test_a_lead_over_the_sign_or_on_one_pair_is_a_change():
    def verdict(size_over, sign_over, size_one, sign_one):
        interval = {name: Measured((low + high) / 2, low, high, 9) for name, (low, high) in values.items()}
        over = {"t-statistic": interval[size_over], "signed t": interval[sign_over]}
        return dfs_verdicts.lead(over, {"t-statistic": interval[size_one], "signed t": interval[sign_one]}, 0.2)

    values = {"none": (-0.01, 0.01), "open": (0.1, 0.3), "sure": (0.3, 0.5)}
    assert verdict("sure", "none", "none", "none") == "holds"
    assert verdict("none", "sure", "none", "none") == "holds with change"
    assert verdict("none", "open", "none", "sure") == "holds with change"
    assert verdict("none", "none", "none", "open") == "undecided"
    assert verdict("none", "none", "none", "none") == "not reproducible as stated"


def kept(distance, t, noise, designs=("a", "b", "c"), seeds=8):
    rng = np.random.default_rng(1)
    lines = [
        {"design": d, "noise": noise, "epsilon": 5.0, "criterion": c, "seed": i, "same": value + 0.1 * rng.random()}
        for d in designs
        for c, value in (("DFS", distance), ("t-statistic", t))
        for i in range(seeds)
    ]
    return pd.DataFrame(lines)


def test_stable_under_the_printed_noise_or_one_of_a_fixed_size():
    def verdict(printed, fixed):
        return dfs_verdicts.stable(pd.concat([kept(*printed, "definition 3"), kept(*fixed, "sensitivity one")]))[0]

    assert verdict((9, 1), (9, 1)) == "holds"
    assert verdict((0, 0), (9, 1)) == "holds with change"
    assert verdict((0, 0), (1, 9)) == "fails"
    assert verdict((0, 0), (1, 1)) == "undecided"


def test_same_features_without_noise_are_all_and_under_much_noise_few():
    problem = problems.synthetic(400, 12, 1.0, "weight c", np.random.default_rng(11))
    lines = pd.DataFrame(experiments.same_features(problem, 10, {("none", 1.0): 0.0, ("much", 1.0): 1e6}, seed=3))
    assert set(lines.criterion) == {"DFS", "t-statistic"}
    assert (lines[lines.noise == "none"].same == 10).all()
    assert (lines[lines.noise == "much"].same <= 3).all()
    assert (lines.seed == 3).all()


def test_above_chance_is_corrected_and_one_sided():
    rng = np.random.default_rng(2)
    runs = {"above": 30 + rng.normal(size=5), "below": 2 + rng.normal(size=5), "at": 10 + rng.normal(size=5)}
    assert dfs_verdicts.above_chance(runs, 10.0) == ["above"]
    border = np.array([10.2, 11.9, 9.8, 12.1, 11.6])  # p of about 0.035: not below 0.05 among four
    assert dfs_verdicts.above_chance({"border": border}, 10.0) == ["border"]
    assert dfs_verdicts.above_chance({str(i): border for i in range(4)}, 10.0) == []


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(78, 79, "holds"), (75, 79, "undecided"), (70, 90, "undecided"), (70, 75, "not reproducible as stated")],
)
def test_a_mean_against_a_printed_range(low, high, verdict):
    assert dfs_verdicts.printed_range(Measured((low + high) / 2, low, high, 5), 77.0, 80.0) == verdict


# --- one pair of classes --------------------------------------------------------------------------------------------


def three_classes():
    """Class 2 is higher in five features, so that the order of the classes decides the sign of T there."""
    rng = np.random.default_rng(15)
    y = np.repeat(np.arange(3), 60)
    x = rng.normal(size=(180, 30))
    x[y == 2, :5] += 4
    return Dataset("toy", x.astype(np.float32), y, None, None, classes=("a", "b", "c"))


def setting(**changes):
    kept_at = {"sizes": (5, 10), "epsilons": (5.0, 50.0)} | changes
    return dfs_pairs.Setting(three_classes(), 10, 20, *kept_at.values(), DELTA)


def test_leads_are_those_of_the_curves_in_both_orders():
    frame = dfs_pairs.leads(setting(), (2, 0), np.random.default_rng(3)).set_index(dfs_pairs.CELL)
    problem, _ = problems.from_data(three_classes(), (2, 0), 10, 20, np.random.default_rng(3))
    reading = experiments.Reading("sensitivity one", "noisy", "clean")

    def error(drawn, criterion):
        return experiments.curve(drawn, reading, criterion, [5, 10], 50.0, DELTA)[0]

    swapped = problems.Problem(problem.train[::-1], problem.noise[::-1], problem.test[::-1], problem.test_variance)
    for order, drawn in (((2, 0), problem), ((0, 2), swapped)):
        row = frame.loc[(*order, "noisy", "clean", 50.0, 5)]
        for rival in dfs_pairs.RIVALS:
            assert row[rival] == pytest.approx(error(drawn, rival) - error(drawn, "DFS"), abs=1e-12)
    assert len(frame) == 2 * 4 * 2 * 2


def test_the_largest_lead_is_picked_and_drawn_again():
    """With the lower class first T's sign puts the telling features last: DFS leads by far, over |T| it does not."""
    found = dfs_pairs.largest_leads(setting(), 2, 6, seed=0)
    signed = found["signed t"]
    assert (signed.where["first"] in (0, 1), signed.where["second"], signed.gap.n) == (True, 2, 6)
    assert signed.gap.low > 0.2 > found["t-statistic"].gap.value
    assert "in this order" in str(signed)
