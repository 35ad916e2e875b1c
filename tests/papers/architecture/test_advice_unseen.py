"""Rule 9: what comes of a promise to tables that nobody had used, on made-up tables, and what the rule draws from."""

import numpy as np
import pytest

from book.evidence import plans, sources
from dplib.checks import ParameterError
from dplib.stats import Measured
from papers.architecture import advice_tables, advice_unseen
from papers.architecture.advice_rows import EPSILONS, Point, Promise

LOW = 0.25  # of the gain: a promise that is farther below what is kept says little
NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def point(table, share, epsilon=1.0, strength=50.0):
    return Point(table, epsilon, strength, Measured(share), Measured(80.0), 50.0, 90.0, 100, 5, 2)


def pairs(kept, of=24, promised=0.8):
    """So many of ``of`` tables keep their promise, at every budget."""
    return [
        (point(f"t{i}", 0.9 if i < kept else 0.6, epsilon), Promise(promised, 20))
        for i in range(of)
        for epsilon in EPSILONS
    ]


@pytest.mark.parametrize(("kept", "verdict", "lowered"), [
    (24, "shown", False), (22, "shown", False), (19, "neither", False), (17, "neither", True), (12, "refuted", True),
])  # fmt: skip
def test_the_promise_can_be_shown_and_refuted(kept, verdict, lowered):
    outcome_ = advice_unseen.outcome(pairs(kept))
    assert (outcome_.verdict, outcome_.lowered) == (verdict, lowered)
    assert outcome_.kept.value == pytest.approx(kept / 24)
    assert outcome_.above.value == pytest.approx(kept / 24 * 0.3 - 0.2)
    assert outcome_.budgets[1.0].value == pytest.approx(kept / 24)
    assert (outcome_.promises, outcome_.asked) == (96, 96)


def test_tables_are_the_units_and_not_their_budgets():
    """One table that keeps its one promise weighs as much as one that breaks four."""
    values = [(point("a", 0.9), Promise(0.8, 20)), *((point("b", 0.5, e), Promise(0.8, 20)) for e in EPSILONS)]
    assert advice_unseen.outcome(values).kept.value == 0.5


def test_a_table_without_a_number_is_counted_apart():
    outcome_ = advice_unseen.outcome([*pairs(20), (point("none", 0.9), Promise(None, 3, "unmeasured"))])
    assert (outcome_.promises, outcome_.asked) == (96, 97)
    with pytest.raises(ParameterError):
        advice_unseen.outcome([(point("none", 0.9), Promise(None, 3, "unmeasured"))])


def test_a_lower_promise_is_the_first_that_the_tables_keep():
    """Tables alike keep what all but one of four promise; where stronger ones keep less, a lower one or none."""
    alike = [point(f"t{i}", 0.8 + 0.01 * (i % 3)) for i in range(21)]
    assert advice_unseen.stricter([*alike, point("far", 0.45)]) == 4
    noise = np.random.default_rng(4).normal(size=40)
    falling = [point(f"t{i}", 0.9 - 0.004 * i + 0.08 * noise[i], strength=20 * 1.03**i) for i in range(40)]
    assert advice_unseen.stricter(falling) > 4
    steep = [point(f"t{i}", 0.9 - 0.01 * i, strength=20 * 1.03**i) for i in range(40)]
    assert advice_unseen.stricter(steep) is None
    assert advice_unseen.stricter(alike[:3]) is None  # too few for any promise


def test_what_rule_9_draws_from_was_used_for_nothing():
    assert len(advice_tables.UNSEEN) == 24
    assert not {*advice_tables.UNSEEN} & {*advice_tables.NAMES, *advice_tables.MADE, *advice_tables.OPENED}


def test_the_chapter_says_what_came_of_the_test():
    plan = plans.load("13")
    pairs = advice_unseen.unseen(plan.read("advice"), plan)
    found, made = advice_unseen.outcome(pairs), [(one.share.value, said.share) for one, said in pairs if said.share]
    kept, above = (
        f"{100 * v.value:.0f}{{}} [{100 * v.low:.0f}, {100 * v.high:.0f}]" for v in (found.kept, found.above)
    )
    broken = sum(share < promise for share, promise in made)
    text = sources.source("13_choose_a_model").read_text(encoding="utf-8")
    for said in (
        f"There are {len({one.table for one, _ in pairs})}.", f"kept {kept.format('% of their promises')}.",
        f"{above.format(' points')} above them", f"{NUMBERS[broken].title()} of {len(made)} were broken",
    ):  # fmt: skip
        assert said in text
    assert found.verdict == "shown"
    assert "By the rule, three in four is shown." in text
    assert (found.above.value > LOW) == ("the promise is low" in text)
