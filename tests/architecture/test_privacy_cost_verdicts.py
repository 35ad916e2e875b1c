"""The rules of chapter 3's verdicts on made-up numbers: each can come out every way."""

import numpy as np
import pytest

from dplib.architecture import privacy_cost_verdicts as judge
from dplib.architecture import sample_size_fit
from dplib.stats import Measured

rng = np.random.default_rng(0)


def around(value, half=0.1):
    return Measured(value, value - half, value + half, 10)


def seeds(mean, sd=0.1):
    values = rng.standard_normal(10)
    return mean + sd * (values - values.mean()) / values.std(ddof=1)


def test_hypothesis_needs_both_of_its_measures():
    up, down, flat = seeds(1.5), seeds(-1.5), seeds(0.0)
    assert judge.hypothesis({0.1: up, 1.0: up}, around(26.0)) == "holds"
    assert judge.hypothesis({0.1: up, 1.0: up}, around(0.4)) == "holds with change"  # the larger input costs nothing
    assert judge.hypothesis({0.1: up, 1.0: flat}, around(26.0)) == "holds with change"
    assert judge.hypothesis({0.1: up, 1.0: down}, around(26.0)) == "undecided"
    assert judge.hypothesis({0.1: flat, 1.0: flat}, around(26.0)) == "undecided"
    assert judge.hypothesis({0.1: down, 1.0: down}, around(26.0)) == "fails"


def test_hypothesis_linear():
    assert judge.hypothesis_linear(1.0, 0.5, 0.1) == "holds with change"
    assert judge.hypothesis_linear(1.0, 1.0, 1.0) == "holds"
    assert judge.hypothesis_linear(0.9, 0.5, 0.1) == "fails"


def test_gains_are_clippings_only_in_the_same_cell():
    nothing = {(16, "ε = 10⁴"): around(0), (16, judge.CLIPPING): around(0)}
    assert judge.gains(nothing).verdict == "undecided"
    elsewhere = nothing | {(64, "ε = 10⁴"): around(-0.5), (64, judge.CLIPPING): around(0)}
    assert judge.gains(elsewhere).verdict == "holds with change"
    found = judge.gains(elsewhere | {(64, judge.CLIPPING): around(-0.6)})
    assert (found.verdict, found.cells, found.by_clipping) == ("holds", [(64, "ε = 10⁴")], [(64, "ε = 10⁴")])


def test_table3():
    assert judge.table3(1.8, around(98)) == "holds with change"
    assert judge.table3(-6.0, around(98)) == judge.table3(1.0, around(90)) == "not reproducible as stated"


def test_a_curve_that_does_not_drop_needs_a_change():
    """Distances of 0.909 at first, 0.938 in between and 0.910 at last are no drop."""
    later, drops = [around(0.3)] * 2, {10: around(0.9), 100: around(0.5), 1000: around(-0.001, 0.005)}
    assert judge.figure5(later, around(0.02, 0.001), drops) == "holds with change"
    assert judge.figure5(later, around(0.02, 0.001), drops | {1000: around(0.2)}) == "holds"
    assert judge.figure5([around(0.3), around(0)], around(0.02), drops) == "undecided"
    assert judge.figure5([around(0)] * 2, around(0.02), drops) == "fails"


def test_crossings_of_known_curves():
    epochs = np.arange(1, 21)
    curves = {m: np.array([epochs / 20 - shift + 0.01 * rng.standard_normal() for _ in range(30)])
              for m, shift in ((10, 0.0), (50, 0.1), (1000, 2.0))}  # fmt: skip
    found = judge.crossings(curves, 0.5 + 1e-9, np.arange(1, 22, dtype=float), rng)
    assert found.points[10] in (10, 11)
    assert found.points[1000] is None
    assert found.interval(1000) == "not reached"
    assert found.interval(10).low <= found.points[10] <= found.interval(10).high
    assert found.difference(10, 50)[0] > 0
    assert found.difference(10, 1000)[1] <= 21


def made(points):
    """Crossings without scatter."""
    return judge.Crossings(dict(points), np.tile(list(points.values()), (20, 1)), 20)


def test_input_budget():
    rising, dips, falling, flat = (
        made(dict(zip((10, 50, 1000), values, strict=True)))
        for values in ((0.3, 0.4, 0.7), (0.79, 0.72, 0.93), (0.9, 0.5, 0.3), (0.5, 0.5, 0.5))
    )
    assert judge.input_budget(rising, rising, same_when_kept=False) == "holds"
    assert judge.input_budget(rising, rising, same_when_kept=True) == "holds with change"
    assert judge.input_budget(dips, rising, same_when_kept=False) == "holds with change"  # 10 inputs need more than 50
    assert judge.input_budget(flat, rising, same_when_kept=True) == "undecided"
    assert judge.input_budget(falling, rising, same_when_kept=False) == "fails"


def test_figure6_can_fail():
    more, less, none = seeds(90), seeds(-20), seeds(0, 10)
    assert judge.figure6([more, more], closing=True) == "holds"
    assert judge.figure6([more, more], closing=False) == "holds with change"
    assert judge.figure6([more, none], closing=False) == "undecided"
    assert judge.figure6([more, less], closing=False) == "fails"


def test_more_records():
    assert judge.more_records(around(41, 3), 41, 1.0, 1) == "holds"
    assert judge.more_records(around(41, 3), 41, 0.45, 1) == "holds with change"
    assert judge.more_records(around(32, 3), 41, 0.45, 1) == "holds with change"
    assert judge.more_records(around(5, 3), 41, 0.45, 1) == "not reproducible as stated"
    assert judge.more_records(around(1, 3), 41, 0.45, 1) == "undecided"
    assert judge.more_records(around(-5, 3), 41, 0.45, 1) == "fails"


def test_converge_and_form():
    assert judge.converge([0.001, 0.0001], 1.4) == "holds with change"
    assert judge.converge([0.001, 0.0001], 1.01) == "holds"
    assert judge.converge([0.05, 0.0001], 1.01) == "fails"
    assert judge.form_fits([-0.06, 0.18, 0.05, -0.11, -0.14]) == "holds with change"
    assert judge.form_fits([0.01, -0.02]) == "holds"
    assert judge.form_fits([0.01, -0.5]) == "fails"


def test_size_for_a_budget_inverts_the_accountant():
    n = sample_size_fit.size_for(0.5, 2.0, 250, lambda n: 107, 1e-5)
    assert float(sample_size_fit.epsilon(2.0, 250 / n, 107, 1e-5)) == pytest.approx(0.5, rel=1e-4)
    assert sample_size_fit.size_for(0.5, 2.0, 250, lambda n: 200, 1e-5) > 1.2 * n
    assert np.isnan(sample_size_fit.size_for(0.01, 2.0, 250, lambda n: 107, 1e-5))  # below the accountant's floor
