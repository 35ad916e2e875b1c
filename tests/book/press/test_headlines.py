"""The page of the papers' headlines: what keeps a row open, in words."""

from dataclasses import replace

import pytest

from book.evidence import claims, history
from book.press import headlines, ledger, typed
from dplib.checks import ParameterError
from dplib.stats import Measured

RULE = {"ahead": {"value": "gain_mnist"}}
CLAIM = replace(
    claims.get("B.pitfall"),
    rule=RULE,
    corrected={},
    absent={},
    stand_in="",
    because="Open. To decide: ten seeds, an hour.",
)


def row(claim, **values):
    return ledger.Row(claim, "undecided", values, "")


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (Measured(0.5, -1.0, 2.0, 5), "± 1.5 where ± 0.5 would decide: about 9 times as many runs"),
        (Measured(0.01, -1.0, 1.02, 5), "more than 100 times as many runs"),
        (Measured(0.5, n=1), "of one run"),
        (Measured(0.0, -1.0, 1.0, 5), "on the bound itself: no number of runs decides"),
    ],
)
def test_an_open_comparison_says_what_would_decide_it(measured, words):
    assert words in headlines._why(row(CLAIM, gain_mnist=measured))


def test_runs_that_are_asked_for_are_counted():
    claim = replace(CLAIM, rule={**RULE, "needs": {"runs": 20}})
    assert "by 5 runs of 20 asked for" in headlines._why(row(claim, gain_mnist=Measured(2.0, 1.0, 3.0, 5)))


def test_an_open_row_ends_with_what_would_decide_it_and_one_that_does_not_say_so_is_refused():
    claim = replace(CLAIM, absent={"gain_mnist": "no data"})
    assert headlines._why(row(claim)) == "1 comparison not measured yet. To decide: ten seeds, an hour."
    with pytest.raises(ParameterError, match=r"B\.pitfall is open.*To decide"):
        headlines._why(row(replace(claim, because="Open.")))


def test_a_stand_in_decides_nothing():
    claim = replace(CLAIM, stand_in="A smaller network.")
    assert "A smaller network" in headlines._why(row(claim, gain_mnist=Measured(2.0, 1.0, 3.0, 5)))


def test_rows_with_the_same_reason_stand_together():
    rows = [row(replace(CLAIM, id=name, absent={"gain_mnist": "no data"})) for name in ("B.one", "B.two")]
    text = headlines._open(rows, ["04/mnist_200"])
    assert "the 2 open rows" in text
    assert text.count("not measured yet") == 1
    assert "missing of `04/mnist_200`" in text
    assert headlines._open([], []) == ""


def test_changes_of_a_rule_stand_with_their_reasons_and_those_without_are_counted():
    told = (
        "First rule: then.",
        "Changed then (1): rule; no reason recorded.",
        "Changed now (2): rule; The word is asked.",
    )
    changed = replace(row(CLAIM), past=history.Past(sentences=told))
    assert headlines._changes(changed) == ["1 earlier change, with no reason on record.", told[2]]


def test_registrations_are_told_by_time():
    parts = {
        "04/more": {"registered": ["b" * 12, "2026-11-28 14:18"]},
        "04/pair": {"registered": ["a" * 12, "2026-11-26 16:55"]},
        "04/third": {"registered": ["a" * 12, "2026-11-26 16:55"]},
    }
    told = headlines._registered(parts)
    assert told == "Registered by `aaaaaaa`, 2026-11-26 16:55 (2 parts), then `bbbbbbb`, 2026-11-28 14:18 (1 part)"


def test_rows_that_stand_alike_are_told_together(monkeypatch):
    monkeypatch.setattr(headlines.history, "since_last_edition", lambda *_: ("holds", ""))
    rows = [row(replace(CLAIM, id=name)) for name in ("B.one", "B.two")]
    text = headlines._rows(rows, {"rows": {}, "commits": {}})
    assert text.count("**undecided**; was holds") == 1
    assert "Its 2 rows" in text


def test_what_is_said_of_a_block_names_where_its_numbers_come_from():
    for part in headlines.parts():
        assert part.text
        assert bool(part.named) >= bool(list(typed.numbers(part.text))), part.where


@pytest.mark.parametrize(("missing", "left"), [(3, ""), (0, "2 core-hours")])
def test_what_is_missing_has_a_price_and_what_is_complete_has_none(missing, left):
    block = headlines.blocks.Block(
        title="One?", paper="A", parts=[], rows=[], expected="", reckoned=1, left=left, found="", came=""
    )
    parts = {"04/pair": {"registered": [], "new": 0, "hours": 0, "gpu_hours": 0, "days": [], "missing": missing}}
    with pytest.raises(ParameterError, match="One"):
        headlines._summary(block, parts)
    priced = block.model_copy(update={"left": "" if left else "5 core-hours"})
    assert ("costs 5 core-hours" in headlines._summary(priced, parts)) == bool(missing)
