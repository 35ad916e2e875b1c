"""The rules of chapter 1's verdicts on made-up curves: each can come out every way."""

import numpy as np
import pytest

from dplib import gmm_verdicts as judge
from dplib.stats import Measured


def around(value, half=0.001):
    return Measured(value, value - half, value + half, 100)


def test_theorem6_asks_for_its_own_noise_too():
    down, up = [1.0, 0.5, 0.2], [9.7, 14.0, 19.8]
    assert judge.theorem6([down], [down], [down]) == "holds"
    assert judge.theorem6([up], [down], [down]) == "holds with change"  # one class is off
    assert judge.theorem6([down], [down], [up]) == "holds with change"  # Definition 3 is off, though the rest falls
    assert judge.theorem6([down], [down, up], [down]) == "fails"


def test_crossing():
    dimensions = [10, 100, 1000]
    assert judge.crossing(dimensions, [0.1, 0.3, 0.5], 0.4) == pytest.approx(10**2.5)
    assert judge.crossing(dimensions, [0.45, 0.46, 0.5], 0.4) == 0
    assert judge.crossing(dimensions, [0.1, 0.1, 0.1], 0.4) == np.inf
    assert judge.crossing(dimensions, [0.45, 0.3, 0.1], 0.4) == np.inf  # a dense signal under much noise: it falls
    words = [judge.crossing_in_words(v, dimensions, 0.4) for v in (0.0, np.inf, 250.0)]
    assert words == ["above 0.4 at 10", "not above 0.4 at 1,000", 250.0]


def test_more_noise_is_only_earlier_where_the_error_rises():
    sparse, never = [5497.0, 1545.0, 266.0, 0.0], [np.inf] * 4
    assert judge.noise_speeds_up(sparse, sparse) == "holds"
    assert judge.noise_speeds_up(sparse, never) == "holds with change"
    assert judge.noise_speeds_up(never, never) == "fails"
    assert judge.noise_speeds_up([100.0, 300.0, 50.0], sparse) == "fails"


def test_random_guessing_needs_an_error_of_one_half():
    low, half, falling, flat = around(0.02), around(0.4999, 0.0001), around(-0.5), around(0.0)
    assert judge.random_guessing((low, half), (low, low), half, falling) == "holds"
    assert judge.random_guessing((low, half), (low, around(0.25)), half, falling) == "holds with change"
    assert judge.random_guessing((low, around(0.439)), (low, low), half, falling) == "holds with change"
    assert judge.random_guessing((low, around(0.439)), (low, low), half, flat) == "undecided"
    assert judge.random_guessing((half, low), (low, low), half, falling) == "fails"


def test_larger_is_worse():
    up, down = (around(0.1), around(0.4)), (around(0.4), around(0.1))
    assert judge.larger_is_worse({("sparse", "L1"): up, ("dense", "unit"): up}) == "holds"
    assert judge.larger_is_worse({("sparse", "L1"): up, ("dense", "unit"): down}) == "holds with change"
    assert judge.larger_is_worse({("dense", "unit"): down}) == "fails"
