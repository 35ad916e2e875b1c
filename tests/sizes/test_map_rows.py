"""The map of best widths and its law: on accuracies that are written down."""

import numpy as np
import pytest

from dplib.sizes import map_rows

NOISE = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])


def test_a_width_is_worse_only_where_its_interval_says_so():
    found = map_rows.compared(
        {4: 80 + NOISE, 16: 89.7 + NOISE, 64: 90 + NOISE, 256: 88.0 + 20 * NOISE, 1024: 89.0 + NOISE}
    )
    assert found.best == 64
    assert found.good == (16, 64, 256)  # 256: too noisy to tell; 1024: one point, without doubt
    assert found.losses[1024].value == pytest.approx(1.0)


def test_a_diverged_training_counts_as_nothing():
    found = map_rows.compared({4: 80 + NOISE, 16: np.array([90, 90, 90, 90, np.nan])})
    assert found.means[16].value == 72
    assert found.best == 4


def test_cells_leave_out_what_is_too_narrow_and_come_in_order():
    one = {"test": 80 + NOISE}
    found = {(n, e, w): one for n in (500, 50) for e in (None, 1.0) for w in (0, 4, 16)}
    assert list(map_rows.cells(found)) == [(50, 1.0), (50, None), (500, 1.0), (500, None)]
    assert list(map_rows.cells(found, least=16)[50, None].means) == [16]


SIZES, EPSILONS, WIDTHS = (500, 5000, 50000), (0.1, 1.0, 10.0), (16, 64, 256, 1024)
#                 1     u     v     uu   vv    uv     s     ss    us     vs
LAW = np.array([0.2, -0.1, -0.1, -0.02, 0.01, -0.01, 0.1, 0.1, -0.1, -0.05])


def private():
    law = map_rows.Law(LAW)
    return {
        (n, e): map_rows.compared({w: law.accuracy(n, e, w) + NOISE for w in WIDTHS}) for n in SIZES for e in EPSILONS
    }


def test_the_fit_finds_the_law_that_made_the_accuracies():
    points = [(n, e, w, map_rows.Law(LAW).accuracy(n, e, w)) for n in SIZES for e in EPSILONS for w in WIDTHS]
    np.testing.assert_allclose(map_rows.fit(points).coefficients, LAW, atol=1e-8)


def test_the_best_width_is_the_least_error_on_a_fine_grid():
    law, fine = map_rows.Law(LAW), np.geomspace(16, 1024, 4001)
    for n in SIZES:
        for e in EPSILONS:
            by_grid = fine[law.accuracy(n, e, fine).argmax()]
            assert law.best_width(n, e, 16, 1024) == pytest.approx(by_grid, rel=2e-3)
    bent = map_rows.Law(LAW * np.where(np.arange(10) == 7, -1, 1))  # a parabola that opens downwards: an end is best
    by_grid = fine[bent.accuracy(5000, 1.0, fine).argmax()]
    assert bent.best_width(5000, 1.0, 16, 1024) == pytest.approx(by_grid)


def test_held_out_cells_are_a_third_and_the_fit_does_not_see_them():
    cells = private()
    held = map_rows.held_out(SIZES, EPSILONS)
    assert len(held) == 3
    found = map_rows.judged(cells)
    assert found["error"]["law"] < 0.1 < found["error"]["no width"] < found["error"]["constant"]
    assert found["regret"]["law"] < 0.05
    worse = {at: map_rows.compared(dict.fromkeys(WIDTHS, 50 + NOISE)) if at in held else c for at, c in cells.items()}
    np.testing.assert_array_equal(map_rows.judged(worse)["law"].coefficients, found["law"].coefficients)
    assert map_rows.judged(worse)["error"]["law"] > 1
