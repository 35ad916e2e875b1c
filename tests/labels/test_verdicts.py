import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from dplib import claims
from dplib.architectures import small_inception
from dplib.labels import verdicts
from dplib.stats import Comparison, Measured


def gain(value, half, p):
    return Comparison(Measured(value, value - half, value + half, 5), p)


UP, DOWN, LEVEL = gain(1, 0.5, 0.001), gain(-1, 0.5, 0.001), gain(0.1, 0.5, 0.5)


def test_better_at_every_budget():
    assert verdicts.gains_verdict([UP, UP], False) == "holds"
    assert verdicts.gains_verdict([UP, LEVEL], False) == "undecided"
    assert verdicts.gains_verdict([UP, DOWN], False) == "fails"
    assert verdicts.gains_verdict([UP, DOWN], True) == "undecided"
    # One of many that is below 0 with p = 0.04 may be chance.
    assert verdicts.gains_verdict([gain(-0.2, 0.1, 0.04), *[UP] * 7], False) == "undecided"


def test_gains_in_a_range():
    meets, below = Measured(0.8, 0.5, 1.1, 5), Measured(0.3, 0.1, 0.5, 5)
    open_one = Measured(0.6, -0.1, 1.3, 5)  # reaches 1, but may be nothing
    assert verdicts.points_verdict([meets, meets], 1, 2, False) == "holds"
    assert verdicts.points_verdict([meets, open_one], 1, 2, True) == "undecided"
    # One case in six of that size is not "in the cases tried", and small networks refute nothing.
    assert verdicts.points_verdict([meets, *[below] * 5], 1, 2, False) == "undecided"
    assert verdicts.points_verdict([below], 1, 2, False) == "undecided"
    assert verdicts.points_verdict([below], 1, 2, True) == "fails"
    assert verdicts.points_verdict([], 1, 2, True) == "undecided"


def test_diminishing_returns_compare_gains_and_not_a_gain_with_a_point():
    wobble = np.array([-0.1, 0.0, 0.1, 0.05, -0.05])
    flat = {2: 80 + wobble, 4: 82 - wobble, 6: 82.2 + wobble}
    assert verdicts.diminishing(flat).value == pytest.approx(0.1 - 1)
    assert verdicts.diminishing_verdict(verdicts.diminishing(flat), True) == "holds"
    assert verdicts.diminishing_verdict(verdicts.diminishing(flat), False) == "undecided"
    steady = flat | {4: 80.3 - wobble, 6: 80.6 + wobble}  # a small gain, but as large as before
    assert verdicts.diminishing_verdict(verdicts.diminishing(steady), True) == "undecided"
    assert verdicts.diminishing({2: wobble, 4: wobble}) is None
    assert verdicts.diminishing({}) is None
    assert verdicts.diminishing_verdict(None, True) == "undecided"


def test_runs_with_nothing_in_common_are_not_paired():
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.5, 1.0, 0.5])
    found = verdicts.unpaired(a, b)
    assert found.difference.value == pytest.approx(1.5)
    # Welch by hand: variances 1/3 and 1/24, 2.5 degrees of freedom.
    se, df = (1 / 3 + 1 / 24) ** 0.5, (1 / 3 + 1 / 24) ** 2 / ((1 / 3) ** 2 / 2 + (1 / 24) ** 2 / 3)
    assert found.p_value == pytest.approx(2 * stats.t.sf(1.5 / se, df))
    assert found.difference.high - 1.5 == pytest.approx(stats.t.ppf(0.975, df) * se)


def test_a_rival_above_a_printed_cell():
    printed = {("Fashion-MNIST", t): claims.get(f"C.table4.fashion-mnist-lp-{t}st").published for t in (1, 2)}
    runs = {("Fashion-MNIST", 1.0): np.array([83.1, 83.4, 82.6, 83.9, 83.3]), ("Fashion-MNIST", 9.0): np.ones(5)}
    assert verdicts.beaten(runs, printed) == [("Fashion-MNIST", 1.0, 1, 80.78)]
    assert verdicts.beaten({("Fashion-MNIST", 1.0): np.array([80.7, 80.9, 80.6])}, printed) == []
    assert verdicts.beaten({}, printed) == []


def test_half_a_gap():
    free, private = np.array([90.0, 90.2, 89.8]), np.array([88.0, 88.3, 87.7])
    assert verdicts.halved(free, private, 85.0).value == pytest.approx(-0.5)  # 2 less half of 5
    assert verdicts.halved(free, private, np.array([85.1, 84.9])).value == pytest.approx(-0.5)
    small, large, wide = Measured(-1, -2, -0.5), Measured(1, 0.5, 2), Measured(0, -1, 1)
    assert verdicts.halved_verdict([small, small], False) == "holds"
    assert verdicts.halved_verdict([small, large], False) == "undecided"
    assert verdicts.halved_verdict([small, large], True) == "fails"
    assert verdicts.halved_verdict([small, wide], True) == "undecided"
    assert verdicts.halved_verdict([], True) == "undecided"


def test_a_row_of_a_table():
    published = {"eps1": 80.0, "eps2": 90.0}
    near, low, high = Measured(80.5, 80, 81), Measured(85, 84, 86), Measured(95, 94, 96)
    assert verdicts.row_verdict({"eps1": near, "eps2": Measured(90, 89, 91)}, published)[0] == "holds"
    assert verdicts.row_verdict({"eps1": near}, published)[0] == "undecided"  # a cell was not run
    assert verdicts.row_verdict({"eps1": near, "eps2": low}, published)[0] == "undecided"
    verdict, why = verdicts.row_verdict({"eps1": near, "eps2": high}, published)
    assert verdict == "holds with change"
    assert "1 agree within a point, 1 higher" in why
    assert verdicts.row_verdict({"eps9": near}, published)[0] == "undecided"


def test_columns_are_those_of_the_table():
    frame = pd.DataFrame(
        [("mnist", t, e, s, 90 + s) for t in (1, 2) for e in (1.0, np.inf) for s in range(3)],
        columns=["dataset", "stages", "epsilon", "seed", "accuracy"],
    )
    cells = verdicts.columns(frame, "mnist", 1)
    assert set(cells) == {"eps1", "eps_inf"}
    assert cells["eps1"].value == 91
    assert verdicts.columns(frame, "fashion-mnist", 1) == {}


def test_printed_margins_of_table_1():
    """At 6 the best earlier value is that for ε = 4; 44.3% in the column of 6 has an ε of 6.78."""
    assert verdicts.printed_margins() == pytest.approx({2.0: 19.05, 3.0: 22.89, 4.0: 23.37, 6.0: 24.26, 8.0: 21.52})


def test_earlier_methods_ahead_of_the_printed_rows():
    cited = {"a": [(1.2, 96.56)], "b": [(1.97, 98.5), (9.0, 99.9)]}
    one = claims.get("C.table4.mnist-lp-1st").published
    assert verdicts.earlier_ahead(cited, one) == ["b (98.5% at ε = 1.97; 98.16% at 2)"]
    assert verdicts.earlier_ahead(cited, claims.get("C.table4.mnist-lp-2st").published) == []


def test_the_inception_network_is_the_printed_one():
    found = verdicts.inception_definition(small_inception())
    for row, definition in found.items():
        assert definition == claims.get(f"C.table-inception.{row}").published["definition"]
    changed = small_inception()
    changed[0][0] = torch.nn.Conv2d(1, 64, 3)
    assert verdicts.inception_definition(changed)["inception"].startswith("Conv(3×3, 64)")
