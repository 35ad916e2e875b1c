"""Rules on pairs of curves: every verdict can be had, and none from noise."""

import numpy as np
import pandas as pd
import pytest

from dplib.architecture import crossover, workflow_cnns, workflows
from dplib.architecture import crossover_verdicts as rules
from dplib.architecture import workflow_verdicts as judge
from dplib.architecture.rate_verdicts import Rates, figure9, learning_rate
from dplib.architecture.workflows import CNN, COMPLEX, FCN, LENET, LOGISTIC, SIMPLE, STW_CNN

WOBBLE = np.array([-0.002, -0.001, 0.0, 0.001, 0.002])  # over five seeds


def sweep(free=None, at=None, **curves):
    """A sweep of five seeds with these mean accuracies at 1, 10, ...; ``noise``: how much single networks wobble."""
    noise = curves.pop("noise", {})
    names = {"simple": SIMPLE, "complex": COMPLEX, "logistic": LOGISTIC, "fcn": FCN, "cnn": CNN, "lenet": LENET}
    names |= {"stw": STW_CNN}
    rows = []
    for k, (short, means) in enumerate(curves.items()):
        cells = dict(zip(at or [10.0**i for i in range(len(means))], means, strict=True))
        if free:
            cells[np.inf] = free[short]
        for column, (epsilon, mean) in enumerate(cells.items()):
            wobble = noise.get(short, 1.0) * np.roll(WOBBLE, 2 * k + column)
            rows += [
                {"model": names[short], "epsilon": epsilon, "seed": i, "validation": mean + w, "test": mean + w}
                for i, w in enumerate(wobble)
            ]
    return workflows.Sweep(pd.DataFrame(rows), pd.DataFrame(), 0.0)


def curves(leads, apart=None, premise=True, value=1e4, low=1e3, high=1e5):
    """Curves as a rule sees them."""
    found = crossover.Crossover(value, low, high, 0.95, 5, 0.1, 1e7, 0.0, 0.0, 0.0, 1)
    return rules.Curves(found, leads, leads if apart is None else apart, premise)


def verdict(record):
    return record[2]


def test_curves_need_wider_bands_than_the_tests():
    """A lead of 0.6 points is beyond chance by the paired test, but not in 99.9% bands of one point each."""
    one = sweep({"simple": 0.7, "complex": 0.9}, simple=[0.806, 0.85, 0.80], complex=[0.80, 0.85, 0.90])
    found = rules.curves(one, crossover.estimate([1, 10, 100], *np.random.default_rng(0).random((2, 5, 3)),
                                                 rng=np.random.default_rng(0), resamples=100))  # fmt: skip
    assert list(found.leads) == [1, 0, -1]
    assert list(found.apart) == [0, 0, -1]
    assert found.premise
    assert found.both_lead
    assert not found.wrong_order


def test_figure_7():
    good, none, wrong = curves([1, 0, -1]), curves([0, 0, 0]), curves([-1, 0, 1])
    assert verdict(rules.figure7({"a": good, "b": good}, ["a", "b"], True)) == "holds"
    assert verdict(rules.figure7({"a": good, "b": good}, ["a", "b"], False)) == "holds with change"
    assert verdict(rules.figure7({"a": good, "b": none}, ["a", "b"], True)) == "holds with change"
    assert verdict(rules.figure7({"a": none, "b": none}, ["a", "b"], True)) == "undecided"
    assert verdict(rules.figure7({"a": good, "b": wrong}, ["a", "b"], True)) == "fails"
    record = rules.figure7({"a": none, "other": wrong}, ["a"], True)  # what is not in the figure is only shown
    assert verdict(record) == "undecided"
    assert "crossover, other" in record[1]


def test_around_1e4():
    good, far = curves([1, -1]), curves([1, -1], value=3.6, low=0, high=33.4)
    assert verdict(rules.around_1e4({"a": good}, ["a"])) == "holds"
    assert verdict(rules.around_1e4({"a": curves([1, -1], apart=[1, 0])}, ["a"])) == "undecided"
    assert verdict(rules.around_1e4({"a": far}, ["a"])) == "fails"
    assert verdict(rules.around_1e4({"a": curves([1, 1], premise=False, value=np.inf, high=np.inf)}, ["a"])) == (
        "undecided"
    )
    wide = curves([0, 0], value=0.672, low=0.266, high=3.76e5)  # meets the decade, and says nothing
    _, _, found, because = rules.around_1e4({"wide": wide, "far": far}, ["wide", "far"])
    assert found == "undecided"
    assert "meets [1e3, 1e5] on wide" in because
    assert "“around 1e4”, on none" in because


def test_gap_not_monotone():
    falls = sweep(simple=[0.80, 0.80, 0.80], complex=[0.70, 0.75, 0.79])
    rises = sweep(simple=[0.80, 0.80, 0.80], complex=[0.79, 0.70, 0.79])
    level = sweep(simple=[0.80, 0.80, 0.80], complex=[0.79, 0.79, 0.7895], noise={"simple": 3, "complex": 3})
    everywhere = dict.fromkeys("abc", np.inf)
    assert verdict(rules.gap_not_monotone({"a": falls, "b": rises}, everywhere)) == "holds"
    assert verdict(rules.gap_not_monotone({"a": level}, everywhere)) == "undecided"
    assert verdict(rules.gap_not_monotone({"a": falls, "b": falls, "c": falls}, everywhere)) == "fails"
    assert verdict(rules.gap_not_monotone({"a": falls, "b": falls}, everywhere)) == "undecided"
    assert verdict(rules.gap_not_monotone({"a": rises}, {"a": 5.0})) == "undecided"  # one budget below the crossing


def test_noise_alone_does_not_make_a_peak():
    """Eight budgets with the same gap: the peak of the mean is nearly always elsewhere, and that says nothing."""
    rng, found = np.random.default_rng(0), []
    for _ in range(40):
        one = sweep(simple=[0.8] * 8, complex=[0.7] * 8)
        one.runs["test"] += 0.01 * rng.standard_normal(len(one.runs))
        found.append(verdict(rules.gap_not_monotone({"a": one}, {"a": np.inf})))
    assert found.count("holds") <= 6


def test_the_rule_needs_both_networks_to_lead():
    rng = np.random.default_rng(0)
    cross = rules.followed(sweep(simple=[0.70, 0.85, 0.90], complex=[0.69, 0.80, 0.95]), rng)
    assert cross.mean("rule") == pytest.approx(0)
    assert cross.mean("always simple") == pytest.approx(5 / 3)
    assert cross.mean("always complex") == pytest.approx(2)
    assert cross.most("always simple")[1] > cross.most("always simple")[0] == pytest.approx(5)
    record = rules.crossover_rule({"a": cross}, ["a"])
    assert verdict(record) == "holds"
    assert record[1]["always simple loses half a point"] == "a at 100"
    assert verdict(rules.crossover_rule({"a": cross}, [])) == "undecided"


def test_the_rule_is_judged_by_upper_ends():
    """The mean loses nothing, but an interval reaches beyond half a point: not enough for "holds"."""
    noisy = sweep(simple=[0.80, 0.80], complex=[0.80, 0.80], noise={"simple": 4})
    found = rules.followed(noisy, np.random.default_rng(0))
    assert found.most("rule")[0] < 0.5 < found.most("rule")[1]
    assert verdict(rules.crossover_rule({"a": found}, ["a"])) == "undecided"


def test_the_rule_fails_where_a_fixed_choice_is_better():
    one = sweep(simple=[0.70, 0.70], complex=[0.80, 0.80])
    one.runs.loc[one.runs.model == SIMPLE, "validation"] += 0.3  # validation data mislead
    assert verdict(rules.crossover_rule({"a": rules.followed(one, np.random.default_rng(0))}, ["a"])) == "fails"


def three(cnn, fcn):
    at = [0.1, 0.25, 0.5, 1.09]
    one = sweep(at=at, logistic=[0.88, 0.90, 0.905, 0.907], fcn=fcn, cnn=cnn)
    rng = np.random.default_rng(0)
    pairs = [(LOGISTIC, FCN), (FCN, CNN), (LOGISTIC, CNN)]
    found = {p: crossover.estimate(at, *(one.accuracies(m)[1] for m in p), rng=rng, resamples=200) for p in pairs}
    return rules.three_models(one, found)


def test_three_models():
    late = [0.85, 0.89, 0.93, 0.95]
    assert three(late, [0.87, 0.89, 0.92, 0.93])[0] == "holds"
    found, because = three(late, [0.87, 0.91, 0.92, 0.93])  # the FCN takes over between 0.1 and 0.25
    assert found == "holds with change"
    assert "but its crossover with PAW FCN is" in because
    assert three([0.85, 0.87, 0.89, 0.907], [0.87, 0.91, 0.92, 0.93])[0] == "undecided"  # too short for the CNN
    assert three([0.89, 0.91, 0.93, 0.95], [0.87, 0.89, 0.92, 0.93])[0] == "fails"


def test_parameter_ratio():
    ratios = judge.ratios()
    assert verdict(rules.parameter_ratio(ratios, np.log(ratios))) == "fails"
    assert verdict(rules.parameter_ratio(ratios, [1, 8, 2, 7, 3, 6, 4, 5])) == "holds"
    _, values, found, _ = rules.parameter_ratio(ratios, [2.46, 0.98, 2.0, 3.54, 1.84, 3.2, 1.74, 8.04])  # Table I
    assert found == "undecided"
    assert values["p_value"] < 0.05 < values["largest_p_without_one_pair"]


def rates(shared, own=(95, 94), sgd=(0.3, 0.3)):
    """Rates from mean accuracies of (simple, complex); own rates are 9 and 3."""
    both = SIMPLE, COMPLEX
    wobble = {m: 20 * np.roll(WOBBLE, k) for k, m in enumerate(both)}
    of = {r: {m: v + wobble[m] * (1 + r / 50) for m, v in zip(both, pair, strict=True)} for r, pair in shared.items()}
    best = {m: v + wobble[m] for m, v in zip(both, own, strict=True)}
    return Rates(best, {SIMPLE: 9.0, COMPLEX: 3.0}, of, dict(zip(both, sgd, strict=True)), "somewhere")


def test_learning_rate():
    bad = {1.0: (92, 92.5), 27.0: (94, 85)}
    full = rates(bad, sgd=(1.0, 1.0))
    assert verdict(learning_rate(full)) == "holds"
    assert full.hidden == [1.0]
    assert full.moved == {1.0: -1, 27.0: 1}
    assert verdict(learning_rate(rates(bad))) == "holds with change"  # rates of SGD not tested
    serves = rates(bad | {9.0: (95, 94)}, sgd=(1.0, 1.0))
    assert serves.serving == [9.0]
    assert verdict(learning_rate(serves)) == "holds with change"
    assert "at 9 neither loses half a point" in learning_rate(serves)[3]
    assert verdict(learning_rate(rates({9.0: (95, 94)}))) == "undecided"


def test_figure_9():
    assert verdict(figure9(rates({1.0: (92, 92.5)}))) == "holds with change"
    record = figure9(rates({1.0: (92, 92.5), 9.0: (95, 94)}))
    assert verdict(record) == "undecided"
    assert "Of the 3 pairs of a network and a shared rate other than its own, 2 lose" in record[3]


def lenet(paw, lenet_, stw, budgets=workflow_cnns.TABLE4, free=(0.992, 0.9936, 0.993)):
    one = sweep(
        dict(zip(("cnn", "lenet", "stw"), free, strict=True)),
        at=list(budgets),
        **{name: [v] * len(budgets) for name, v in (("cnn", paw), ("lenet", lenet_), ("stw", stw))},
    )
    one.runs["parameters"] = 10
    records = workflow_cnns.table4(one, budgets, 256, 400)
    return next(verdict(record) for record in records if record[0] == "B.lenet")


def test_lenet():
    assert lenet(0.975, 0.96, 0.955) == "holds"
    assert lenet(0.975, 0.96, 0.955, free=(0.99, 0.97, 0.993)) == "holds with change"  # not on a par under SGD
    assert lenet(0.975, 0.96, 0.955, budgets=(1.09,)) == "undecided"  # one setting is not always
    assert lenet(0.98, 0.99, 0.955) == "fails"
    assert lenet(0.90, 0.95, 0.89) == "undecided"  # trained too briefly


def against(fcn, stw, paw=0.95):
    one = sweep(at=[2.11], fcn=[fcn], cnn=[paw], stw=[stw])
    one.runs["parameters"] = 9610
    return [verdict(record) for record in workflow_cnns.fcn_against_cnn(one, one)]


def test_fcn_against_cnn():
    assert against(0.95, 0.94) == ["holds", "holds"]
    assert against(0.945, 0.955, 0.96) == ["fails", "fails"]
    assert against(0.926, 0.94) == ["undecided", "undecided"]  # the FCN falls short of its own printed accuracy
    assert against(0.95, 0.91) == ["undecided", "undecided"]  # the CNN does
