"""Every rule on the theory of label privacy can come out every way."""

import pytest

from dplib.labels import theory_verdicts as verdicts
from dplib.stats import Measured, proportion_interval


def around(value, half=0.01):
    return Measured(value, value - half, value + half, 10)


def test_slopes_above_what_is_allowed():
    slopes = {"K": around(0.53), "1/ε": around(0.9)}
    assert verdicts.steeper(slopes, {"K": 0.5, "1/ε": 1.0}) == ["K"]
    assert verdicts.steeper(slopes, {"K": 0.61, "1/ε": 1.0}) == []


def test_the_gap_between_the_rates_keeps_a_root_of_one_over_epsilon():
    gaps = verdicts.rate_gaps()
    assert list(gaps.values()) == pytest.approx([1, 1, 1, 0.5])
    assert verdicts.tight_up_to(gaps) == "holds"
    assert verdicts.tight_but_for_labels(gaps) == "holds with change"
    name = "slope_in_1/epsilon_of_the_gap_to_Proposition_12"
    assert verdicts.tight_but_for_labels(gaps | {name: 0.0}) == "holds"
    assert verdicts.tight_but_for_labels(gaps | {name: 1.0}) == "fails"
    assert verdicts.tight_up_to(gaps | {name: 1.0}) == "fails"


def test_growth_over_the_dimension_is_judged_beside_that_without_privacy():
    rises, level = around(0.3), around(0.0)
    assert verdicts.dimension_free([level, level], rises) == "holds"
    assert verdicts.dimension_free([level, rises], rises) == "fails"
    assert verdicts.dimension_free([around(0.0, 0.2)], rises) == "undecided"
    assert verdicts.dimension_free([level], level) == "undecided"


def test_labels_are_easier_everywhere_somewhere_or_nowhere():
    more, less, open_ = around(1.0), around(-1.0), around(0.0)
    assert verdicts.easier(more, more) == "holds"
    assert verdicts.easier(less, more) == "holds with change"
    assert verdicts.easier(less, less) == "fails"
    assert verdicts.easier(less, open_) == "undecided"


def test_the_width_is_needed_only_where_a_share_beats_beta():
    shares, needed = verdicts.without_width([60, 4], 100, 0.05)
    assert [one.value for one in shares] == [0.6, 0.04]
    assert needed
    assert not verdicts.without_width([9, 4], 100, 0.05)[1], "9 of 100 is not beyond chance"
    none = proportion_interval(0, 100)
    assert verdicts.theorem_17(none, 1.0, 0.05, True) == "holds with change"
    assert verdicts.theorem_17(none, 1.0, 0.05, False) == "holds"
    assert verdicts.theorem_17(none, 2.1, 0.05, True) == "fails"
    assert verdicts.theorem_17(proportion_interval(50, 100), 1.0, 0.05, True) == "fails"
