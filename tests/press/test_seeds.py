"""The table of what five seeds can see."""

import pytest

from dplib import stats
from press import seeds


def test_the_number_of_seeds_is_the_least_that_sees_the_difference():
    n = seeds.needed(0.12)
    assert 0.12 * stats.visible_difference(n) <= seeds.SEEN < 0.12 * stats.visible_difference(n - 1)


def test_the_page_quotes_its_table():
    spread = {name: (a - b).std(ddof=1) for name, a, b in seeds.comparisons()}
    annealed = spread["MNIST, ε = 3: annealed, tanh (chapter 11)"]
    assert annealed * stats.visible_difference(5) == pytest.approx(0.20, abs=0.005)
    assert seeds.needed(annealed) == 13
