"""The table of margins: well formed, with a reason for each entry, and found by the rules that name one."""

import dataclasses
import re
from pathlib import Path

import pytest

from book.evidence import claims, margins, rules, scan, sources
from dplib.checks import ParameterError
from dplib.data import registry
from dplib.stats import Measured

POINTS = {"margin": ["accuracy_points", "mnist"]}
RATIO = {"margin": ["epsilon_ratio", "any"]}
SAVED = {"margin": ["epsilon_ratio", "any"], "side": "lower"}


def test_every_entry_has_a_reason_and_a_data_set_that_exists():
    entries = [margin for metric in margins.load().values() for margin in metric.values()]
    assert len(entries) > 60
    for margin in entries:
        assert len(margin.reason.split()) >= 2, margin
        assert "\n" not in margin.reason, f"{margin}: one line"
        assert margin.data in {*registry.registry(), "synthetic", "any"}, margin
        assert margin.value > margin.neutral, margin


def test_what_does_not_depend_on_the_data_has_no_data_sets_beside_it():
    for name, metric in margins.load().items():
        assert "any" not in metric or len(metric) == 1, name


def test_a_metric_in_another_unit_has_the_margins_of_the_first():
    points, shares = margins.load()["accuracy_points"], margins.load()["accuracy_share"]
    assert points.keys() == shares.keys()
    assert all(shares[data].value == pytest.approx(points[data].value / 100) for data in points)
    assert shares["mnist"].unit != points["mnist"].unit


TABLE = """
gain: {unit: points, data: {mnist: {margin: 0.2, reason: because of it}}}
cost: {unit: a quotient, ratio: true, data: {any: {margin: 2, reason: because of it}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (", reason: because of it}}}\ncost", "}}}\ncost", "reason"),
        ("reason: because of it", "reason: ' '", "reason"),
        ("margin: 0.2", "margin: 0", "margin"),
        ("margin: 0.2", "margin: .inf", "margin"),
        ("margin: 0.2", "margin: '0.2'", "margin"),
        ("margin: 0.2", "margin: true", "margin"),
        ("unit: points, ", "", "unit"),
        ("unit: points", "unit: points, because: x", "because"),
        ("margin: 2,", "margin: 0.5,", "cost"),
        ("data: {mnist: {margin: 0.2, reason: because of it}}", "data: {}", "gain"),
        ("gain: {unit: points,", "gain: {unit: points, of: cost,", "gain"),
        ("data: {mnist: {margin: 0.2, reason: because of it}}", "of: nothing", "gain"),
        ("data: {mnist: {margin: 0.2, reason: because of it}}", "of: cost", "gain"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, monkeypatch, old, new, named):
    assert old in TABLE
    path = tmp_path / "margins.yml"
    monkeypatch.setattr(margins, "PATH", path)
    path.write_text(TABLE, encoding="utf-8")
    assert margins.load.__wrapped__()["gain"]["mnist"].value == 0.2
    path.write_text(TABLE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ParameterError, match=rf"^{re.escape(str(path))}: .*\b{named}\b"):
        margins.load.__wrapped__()


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ({"margin": ["accuracy_point", "mnist"]}, "accuracy_point"),
        ({"margin": ["accuracy_points", "mnits"]}, "mnits"),
        ({"margin": ["epsilon_ratio", "mnist"]}, "mnist"),
        ({"margin": ["accuracy_points"]}, "margin"),
        ({"margin": "accuracy_points"}, "margin"),
        ({"margin": [["accuracy_points"], "mnist"]}, "margin"),
        ({}, "margin"),
        ({**POINTS, "side": "left"}, "side"),
        ({**POINTS, "sides": "lower"}, "sides"),
    ],
)
def test_an_unknown_margin_is_refused_before_any_value_is_looked_at(reference, named):
    rule = {"ahead": {"value": "gain", "by": reference}}
    for use in (rules.names, rules.words, rules.margins_of, lambda one: rules.decide(one, {}, {})):
        with pytest.raises(ParameterError, match=named):
            use(rule)


@pytest.mark.parametrize(
    "rule",
    [
        {"count": {"value": "found", "of": 4, "least": POINTS}},
        {"equivalent": {"value": "gain", "margin": SAVED}},
        {"within": {"value": "gain", "of": 1, "by": SAVED}},
    ],
)
def test_a_margin_that_a_rule_has_no_use_for_is_refused(rule):
    with pytest.raises(ParameterError, match=next(iter(rule))):
        rules.names(rule)


def about(centre, half=0.01):
    return Measured(centre, centre - half, centre + half, 1000)


@pytest.mark.parametrize(
    ("rule", "holds", "fails", "open_"),
    [  # the margins are 0.2 points and a factor of 1.1
        ({"ahead": {"value": "gain", "by": POINTS}}, 0.25, 0.15, 0.2),
        ({"behind": {"value": "gain", "by": {**POINTS, "side": "lower"}}}, -0.25, -0.15, -0.2),
        ({"equivalent": {"value": "gain", "margin": POINTS}}, 0.15, -0.25, 0.2),
        ({"within": {"value": "gain", "of": "accuracy", "by": POINTS}}, 98.35, 98.45, 98.41),
        ({"in_range": {"value": "gain", "least": {**POINTS, "side": "lower"}}}, -0.15, -0.25, -0.2),
        ({"ahead": {"value": "gain", "by": RATIO}}, 1.15, 1.05, 1.1),
        ({"behind": {"value": "gain", "by": SAVED}}, 0.85, 0.95, 1 / 1.1),
        ({"equivalent": {"value": "gain", "margin": RATIO}}, 0.95, 0.85, 1 / 1.1),
        ({"within": {"value": "gain", "of": 10, "by": RATIO}}, 9.2, 8.9, 11.0),
        ({"in_range": {"value": "gain", "least": SAVED, "most": RATIO}}, 1.05, 1.15, 1.1),
    ],
)
def test_a_rule_finds_its_margin(rule, holds, fails, open_):
    assert (margins.get("accuracy_points", "mnist").value, margins.get("epsilon_ratio", "any").value) == (0.2, 1.1)
    values = [rules.decide(rule, {"gain": about(value)}, {"accuracy": 98.21}) for value in (holds, fails, open_)]
    assert values == [True, False, None]
    assert rules.names({"all_of": [rule]}) == ["gain"]
    assert {margin.metric for margin in rules.margins_of({"any_of": [rule]})} <= {"accuracy_points", "epsilon_ratio"}


def test_a_card_shows_a_margin_as_number_and_name():
    gain, cost = {"value": "gain", "by": POINTS}, {"value": "cost", "by": SAVED}
    rule = {"all_of": [{"ahead": gain}, {"behind": cost}, {"equivalent": {"value": "cost", "margin": RATIO}}]}
    claim = dataclasses.replace(claims.get("A.thm6"), rule=rule)
    page = claims.card(claim, {"values": {}, "verdict": "holds", "because": "", "plan": "published"})
    assert "gain above 0.2 (margin accuracy_points, mnist)" in page
    assert "cost below 0.909091 (margin epsilon_ratio, any)" in page
    assert "cost is 1, up to 1.1 (margin epsilon_ratio, any)" in page


def test_margins_count_for_a_chapter_whose_rows_name_one(toy, monkeypatch):
    toy("01_a", 'claims.recorder("quick")("A.thm6", x=1)')
    toy("02_b", 'claims.recorder("quick")("A.thm8", x=1)')
    plain = {"ahead": {"value": "gain", "by": 0.2}}
    row = dataclasses.replace(claims.get("A.thm6"), chapter="01_a", rule=plain, corrected={})

    def counts(chapter, **more):
        monkeypatch.setattr(claims, "parsed", lambda *_: {row.id: dataclasses.replace(row, **more)})
        monkeypatch.setattr(scan, "remembered", lambda key, make: make())
        return Path("margins.yml") in [Path(path.name) for path in sources.depends_on(chapter)]

    by_margin = {"ahead": {"value": "gain", "by": POINTS}}
    assert not counts("01_a")
    assert counts("01_a", rule={"all_of": [plain, by_margin]})
    assert counts("01_a", corrected=by_margin)
    assert not counts("02_b", rule=by_margin)
