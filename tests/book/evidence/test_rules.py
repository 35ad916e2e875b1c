"""The shared rules: each can come out every way, and every row of the ledger that has one states it well."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import scipy

from book.evidence import claims, margins, rules
from dplib import stats
from dplib.checks import ParameterError
from dplib.stats import Measured

PRINTED = {"accuracy": 98.21, "name": "screening"}
HIGH, LOW, WIDE = Measured(2.0, 1.0, 3.0, 5), Measured(-2.0, -3.0, -1.0, 5), Measured(0.5, -1.0, 2.0, 5)
NEAR = Measured(0.1, -0.05, 0.25, 5)
LONE = Measured(0.1, n=1)
AHEAD, BEHIND = {"ahead": {"value": "gain"}}, {"behind": {"value": "gain"}}
UNKNOWN = {"by_hand": {"holds": None, "proof": "no run"}}
SAME, RANGE = {"equivalent": {"value": "gain", "margin": 0.3}}, {"in_range": {"value": "gain", "least": 0, "most": 4}}
ORDERED = {"ordered": {"values": ["a", "b", "c"]}}
DECIDED = {"count": {"value": "found", "against": "against", "of": "all", "least": 3}}
MOST = {"count": {"value": "found", "of": "all", "least": 3}}
OPEN = {"count": {"value": "found", "of": "all", "against": "not", "least": 3}}


def abc(*values):
    return dict(zip("abc", values, strict=True))


def counted(found, total=4):
    return {"found": found, "all": total}


@pytest.mark.parametrize(
    ("rule", "values", "wanted"),
    [
        ({"exact": {"value": "n", "equals": 3}}, {"n": 3.0}, True),
        ({"exact": {"value": "n", "equals": 3}}, {"n": 4}, False),
        ({"exact": {"value": "n", "equals": "accuracy"}}, {"n": 98.21 + 1e-12}, True),
        ({"exact": {"value": "n", "equals": "name"}}, {"n": "screening"}, True),
        ({"exact": {"value": "n", "equals": "tanh"}}, {"n": "screening"}, False),
        ({"exact": {"value": "n", "equals": 3}}, {"n": None}, False),
        ({"within": {"value": "n", "of": "accuracy", "by": 0.1}}, {"n": 98.31}, True),
        ({"within": {"value": "n", "of": "accuracy", "by": 0.1}}, {"n": 98.32}, False),
        ({"within": {"value": "n", "of": 0, "by": 0.3}}, {"n": NEAR}, True),
        ({"within": {"value": "n", "of": 0, "by": 0.3}}, {"n": HIGH}, False),
        ({"within": {"value": "n", "of": 0, "by": 0.3}}, {"n": WIDE}, None),
        (AHEAD, {"gain": HIGH}, True),
        (AHEAD, {"gain": LOW}, False),
        (AHEAD, {"gain": WIDE}, None),
        (AHEAD, {"gain": LONE}, None),
        (AHEAD, {"gain": 0.0}, False),
        (AHEAD, {"gain": {"value": 2.0, "low": 1.0, "high": 3.0, "n": 5}}, True),
        ({"ahead": {"value": "gain", "by": 1.5}}, {"gain": HIGH}, None),
        (BEHIND, {"gain": LOW}, True),
        (BEHIND, {"gain": HIGH}, False),
        (BEHIND, {"gain": WIDE}, None),
        (BEHIND, {"gain": 0.0}, False),
        (SAME, {"gain": NEAR}, True),
        (SAME, {"gain": HIGH}, False),
        (SAME, {"gain": WIDE}, None),
        # Two one-sided tests: the 90% interval [-0.27, 0.27] is inside the margin, the 95% one [-0.35, 0.35] is not.
        (SAME, {"gain": Measured(0.0, -0.35, 0.35, 5)}, True),
        (SAME, {"gain": Measured(0.0, -0.40, 0.40, 5)}, None),
        (RANGE, {"gain": HIGH}, True),
        (RANGE, {"gain": LOW}, False),
        (RANGE, {"gain": WIDE}, None),
        ({"in_range": {"value": "gain", "most": 4}}, {"gain": 5}, False),
        (ORDERED, abc(1, 2, 3), True),
        (ORDERED, abc(1, 2, 2), False),
        (ORDERED, abc(LOW, 0, HIGH), True),
        (ORDERED, abc(LOW, WIDE, HIGH), None),
        (ORDERED, abc(10, LOW, WIDE), False),
        (MOST, counted(3), True),
        (MOST, counted(2), False),
        (DECIDED, {**counted(3), "against": 0}, True),
        (DECIDED, {**counted(1), "against": 1}, None),
        (DECIDED, {**counted(1), "against": 2}, False),
        ({"count": {"value": "found", "of": 4, "most": 0}}, counted(1), False),
        ({"count": {"value": "found", "of": 4, "most": 0}}, counted(0), True),
        (OPEN, {**counted(3), "not": 1}, True),
        (OPEN, {**counted(2), "not": 2}, False),
        (OPEN, {**counted(2), "not": 1}, None),
        ({"by_hand": {"holds": True, "proof": "Theorem 1"}}, {}, True),
        ({"by_hand": {"holds": False, "proof": "Theorem 1"}}, {}, False),
        ({"by_hand": {"holds": None, "proof": "Theorem 1"}}, {}, None),
    ],
)
def test_each_rule_comes_out_every_way(rule, values, wanted):
    assert rules.decide(rule, values, PRINTED) is wanted


HAND = {one: {"by_hand": {"holds": one, "proof": str(one)}} for one in (True, False, None)}


@pytest.mark.parametrize(
    ("parts", "every", "some"),
    [
        ((True, True), True, True),
        ((True, False), False, True),
        ((True, None), None, True),
        ((False, None), False, None),
        ((False, False), False, False),
    ],
)
def test_combinations(parts, every, some):
    inner = [HAND[part] for part in parts]
    assert rules.decide({"all_of": inner}, {}, {}) is every
    assert rules.decide({"any_of": inner}, {}, {}) is some
    assert rules.decide({"all_of": [{"any_of": inner}]}, {}, {}) is some
    assert list(rules.by_hand({"all_of": inner})) == [str(part) for part in parts]


@pytest.mark.parametrize(
    ("gains", "wanted"),
    [
        ((HIGH, HIGH), "holds"),
        ((LOW, LOW), "fails"),
        ((HIGH, LOW), "not reproducible as stated"),
        ((LOW, HIGH), "not reproducible as stated"),
        ((LOW, WIDE), "undecided"),  # a later reading may hold or fail
        ((HIGH, WIDE), "undecided"),
    ],
)
def test_readings_of_one_statement(gains, wanted):
    rule = {"readings": [{"ahead": {"value": name}} for name in "ab"], "needs": {"runs": 5}}
    values = dict(zip("ab", gains, strict=True))
    assert rules.verdict({"rule": rule}, values, {}) == wanted
    assert rules.names(rule) == ["a", "b"]
    assert rules.margins_of(rule) == []
    assert rules.words(rule) == "a above 0; and, read otherwise: b above 0 (5 runs or more)"
    assert rules.verdict({"rule": {**rule, "needs": {"runs": 6}}}, values, {}) == "undecided"


def test_of_many_comparisons_one_needs_more_to_decide():
    """A gain just above 0 at 95%, which is not above 0 at 98.75%; and a loss likewise."""
    gain, loss = Measured(1.0, 0.1, 1.9, 5), Measured(-1.0, -1.9, -0.1, 5)
    four = [{"ahead": {"value": name}} for name in "abcd"]
    assert rules.decide({"any_of": four[:1]}, {"a": gain}, {}) is True
    assert rules.decide({"any_of": four}, {"a": gain, "b": loss, "c": loss, "d": loss}, {}) is None
    assert rules.decide({"any_of": four}, dict.fromkeys("abcd", loss), {}) is False
    assert rules.decide({"all_of": four}, dict.fromkeys("abcd", gain), {}) is True
    assert rules.decide({"all_of": four}, {"a": gain, "b": gain, "c": gain, "d": loss}, {}) is None
    assert rules.decide({"all_of": four[:1]}, {"a": loss}, {}) is False
    apart = {"a": Measured(0.0, -0.9, 0.9, 5), "b": Measured(-2.0, -2.9, -1.1, 5)}
    assert rules.decide({"ordered": {"values": ["a", "b"]}}, apart, {}) is False
    more = {"values": ["a", "b", *"cdef"]}
    assert rules.decide({"ordered": more}, {**apart, "c": 1, "d": 2, "e": 3, "f": 4}, {}) is None


def test_the_interval_at_another_level_is_students():
    low, high = rules.interval(Measured(0.0, -2.776, 2.776, 5), 0.1)
    assert (low, high) == (pytest.approx(-2.132, abs=1e-3), pytest.approx(2.132, abs=1e-3))
    assert rules.interval(Measured(0.0, -1.96, 1.96), 0.1)[1] == pytest.approx(1.645, abs=1e-3)
    assert rules.interval(Measured(0.0, -1.96, 1.96, 1), 0.1)[1] == pytest.approx(1.645, abs=1e-3)
    assert rules.interval(3, 0.1) == (3, 3)
    assert rules.interval(Measured(3, n=5), 0.1) == (3, 3)
    assert rules.interval(Measured(3, n=0), 0.1) == (-math.inf, math.inf)  # of no run, which tells nothing


@pytest.mark.parametrize("successes", [0, 1, 57, 200])
@pytest.mark.parametrize("level", [0.32, 0.1, 0.05, 0.01, 1e-4])
def test_a_share_has_its_exact_interval_at_every_level(successes, level):
    exact = scipy.stats.binomtest(successes, 200).proportion_ci(1 - level, method="exact")
    share = stats.proportion_interval(successes, 200)
    assert rules.interval(share, level) == pytest.approx((exact.low, exact.high), abs=1e-12)
    recorded = json.loads(json.dumps(claims._plain(share)))  # as a page keeps it
    assert rules.interval(recorded, level) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize("level", [0.32, 0.1, 0.01])
def test_two_groups_that_share_nothing_have_welchs_interval_at_every_level(level):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, 5), rng.normal(1, 3, 12)
    welch = scipy.stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - level)
    recorded = json.loads(json.dumps(claims._plain(stats.independent(a, b))))
    assert rules.interval(recorded, level) == pytest.approx(tuple(welch), rel=1e-9)


BOUND = {"bound": {"claimed": "claimed", "at_least": "shown", "at_most": "proved"}}


@pytest.mark.parametrize(
    ("shown", "proved", "wanted"),
    [(1, 2.9, True), (1, 3, True), (3.1, 8, False), (3, 8, None), (1, math.inf, None), (4, "inf", False)],
)
def test_a_case_below_a_claim_of_all_cases_shows_nothing(shown, proved, wanted):
    values = {"claimed": 3, "shown": shown, "proved": proved}
    assert rules.decide(BOUND, values, {}) is wanted
    assert rules.names(BOUND) == ["shown", "proved", "claimed"]
    assert rules.words(BOUND) == "all cases, proved, at most claimed (not: shown)"


def test_a_case_beyond_what_is_proved_of_all_is_refused():
    with pytest.raises(ParameterError, match="shown = 4 is not allowed: proved = 3 bounds it"):
        rules.decide(BOUND, {"claimed": 5, "shown": 4, "proved": 3}, {})


def test_a_rule_waits_for_what_it_needs():
    needy = {**AHEAD, "needs": {"runs": 5}}
    assert rules.decide(needy, {"gain": Measured(2.0, 1.0, 3.0, 4)}, {}) is None
    assert rules.decide(needy, {"gain": HIGH}, {}) is True
    assert rules.decide(needy, {"gain": 1}, {}) is True  # an exact number needs no runs
    assert rules.decide({"all_of": [AHEAD], "needs": {"runs": 6}}, {"gain": HIGH}, {}) is None
    assert rules.decide({"all_of": [needy], "needs": {"runs": 6}}, {"gain": HIGH}, {}) is True
    assert rules.decide(needy, {"gain": Measured(2.0, 1.0, 3.0, 0)}, {}) is None
    trained = {**AHEAD, "needs": {"ahead": ["lead"]}}
    for lead, found in ((HIGH, True), (Measured(1.0, -0.1, 2.1, 5), None), (0, None)):
        assert rules.decide({"all_of": [trained]}, {"gain": HIGH, "lead": lead}, {}) is found


@pytest.mark.parametrize(
    ("gain", "more", "wanted"),
    [
        (HIGH, {"corrected": BEHIND}, "holds"),
        (LOW, {"corrected": BEHIND}, "holds with change"),
        (LOW, {"corrected": SAME}, "fails"),
        (LOW, {"corrected": UNKNOWN}, "undecided"),
        (LOW, {"unstated": "the learning rate", "corrected": UNKNOWN}, "undecided"),
        (LOW, {}, "fails"),
        (WIDE, {"corrected": BEHIND}, "undecided"),
        (LOW, {"unstated": "the learning rate"}, "not reproducible as stated"),
        (LOW, {"unstated": "the learning rate", "corrected": BEHIND}, "holds with change"),
        (WIDE, {"unstated": "the learning rate"}, "undecided"),
    ],
)
def test_verdicts(gain, more, wanted):
    assert rules.verdict({"rule": AHEAD, **more}, {"gain": gain}, PRINTED) == wanted


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "must have one of exact, within, ahead"),
        ({"above": {"value": "gain"}}, "must have one of exact, within, ahead"),
        ({**AHEAD, **BEHIND}, "must have one of exact"),
        ({"ahead": {}}, "rule ahead: {} is not allowed: it must have value"),
        ({"ahead": {"value": "gain", "margin": 1}}, "margin is not a parameter of rule ahead"),
        ({"in_range": {"value": "gain"}}, "rule in_range: .* it must have value, and least or most"),
        ({"count": {"value": "found", "of": 4}}, "rule count: .* it must have value, of, and least or most"),
        ({"ordered": {"values": ["a"]}}, "values = .* a list of at least 2"),
        ({"all_of": []}, "all_of = .* a list of at least 1"),
        ({"all_of": [{"ahead": {"val": "gain"}}]}, r"val is not a parameter of rule ahead \(did you mean value"),
        ({**AHEAD, "needs": {"seeds": 5}}, "seeds is not a parameter of needs of ahead"),
        ({"by_hand": {"holds": True}}, "rule by_hand: .* it must have holds, proof"),
    ],
)
def test_a_malformed_rule_is_refused(rule, message):
    for use in (rules.names, lambda one: rules.decide(one, {"gain": HIGH}, {})):
        with pytest.raises(ParameterError, match=message):
            use(rule)


@pytest.mark.parametrize(
    ("rule", "values", "message"),
    [
        (AHEAD, {"loss": 1}, "gain is not among the measured values: they are loss"),
        (MOST, {"found": 3}, "all is not among the measured values"),
        (MOST, counted(5), "found = 5 is not allowed: it must be at most 4"),
        (MOST, counted(2.5), "found = 2.5 is not allowed: it must be a whole number"),
        ({"within": {"value": "gain", "of": "acuracy", "by": 1}}, {"gain": 1}, "acuracy is not among the printed"),
        ({"exact": {"value": "gain", "equals": 2}}, {"gain": HIGH}, "gain = .* is not allowed in an exact rule"),
        ({"exact": {"value": "gain", "equals": "acuracy"}}, {"gain": 98.21}, "acuracy is not among the printed"),
    ],
)
def test_values_that_do_not_fit_are_refused(rule, values, message):
    with pytest.raises(ParameterError, match=message):
        rules.decide(rule, values, PRINTED)


def test_names_are_all_that_a_rule_asks_for():
    assert rules.names({"any_of": [AHEAD, ORDERED, MOST, HAND[True]]}) == ["gain", "a", "b", "c", "found", "all"]


def test_runs_of_a_stand_in_decide_nothing_and_point():
    row = {"rule": AHEAD, "stand_in": "copies of the images", "corrected": BEHIND, "unstated": "the rate"}
    for gain, points in ((HIGH, rules.FOR), (LOW, rules.AGAINST), (WIDE, rules.NEITHER), (LONE, rules.NEITHER)):
        assert rules.verdict(row, {"gain": gain}, PRINTED) == rules.UNDECIDED
        assert rules.points(row, {"gain": gain}, PRINTED) == points


def test_points_need_no_more_than_a_standard_error_and_no_number_of_runs():
    row = {"rule": {"all_of": [AHEAD], "needs": {"runs": 20}}}
    assert rules.verdict(row, {"gain": WIDE}, PRINTED) == rules.UNDECIDED
    for rule in (row["rule"], {**AHEAD, "needs": {"runs": 20}}):
        assert rules.points({"rule": rule}, {"gain": Measured(0.5, -0.2, 1.2, 5)}, PRINTED) == rules.FOR
    earlier = row | {"points": {"ahead": {"value": "earlier"}}}
    assert rules.points(earlier, {"gain": HIGH, "earlier": LOW}, PRINTED) == rules.AGAINST


@pytest.mark.parametrize("kind", ["all_of", "any_of"])
def test_a_rule_of_several_points_nowhere_while_its_gate_is_open(kind):
    simple = {"ahead": {"value": "gain"}, "needs": {"ahead": ["base"]}}
    several = {kind: [{"ahead": {"value": "gain"}}], "needs": {"ahead": ["base"], "runs": 5}}
    for rule in (simple, several, {"readings": [several]}):
        assert rules.points({"rule": rule}, {"gain": HIGH, "base": WIDE}, PRINTED) == rules.NEITHER
        assert rules.points({"rule": rule}, {"gain": HIGH, "base": HIGH}, PRINTED) == rules.FOR


def test_what_nobody_measured_neither_confirms_nor_points():
    row = {"rule": {"all_of": [AHEAD, {"ahead": {"value": "elsewhere"}}]}, "absent": {"elsewhere": "no such data"}}
    assert rules.verdict(row, {"gain": HIGH}, PRINTED) == rules.UNDECIDED
    assert rules.points(row, {"gain": HIGH}, PRINTED) == rules.FOR
    assert rules.verdict(row, {"gain": LOW}, PRINTED) == rules.FAILS  # one real data set refutes "every"
    with pytest.raises(ParameterError, match="absent = elsewhere"):
        rules.verdict(row, {"gain": HIGH, "elsewhere": HIGH}, PRINTED)


def test_a_row_without_a_rule_is_not_tested():
    row = {"rule": {"not_tested": "the data cannot be had"}}
    assert rules.verdict(row, {"gain": LOW}, PRINTED) == rules.NOT_TESTED
    assert rules.points(row, {"gain": LOW}, PRINTED) == rules.NEITHER
    with pytest.raises(ParameterError, match="not_tested"):
        rules.kind_of({"not_tested": ""})


def test_rows_of_the_ledger_state_their_rules_well():
    verdicts = ("", rules.HOLDS, rules.CORRECTED, rules.UNSTATED, rules.FAILS, rules.UNDECIDED, rules.NOT_TESTED)
    for row in claims.load_all().values():
        assert '"holds": null' not in json.dumps([dict(row.rule), dict(row.corrected)]), f"{row.id} never decides"
        for rule in filter(None, (row.rule, row.corrected)):
            asks = rules.names(rule) or list(rules.by_hand(rule)) or row.expects == rules.NOT_TESTED
            assert asks, f"{row.id} asks for nothing and rests on nothing"
            assert bool(row.because) == bool(row.expects), f"{row.id}: both, or none for a rule stated before its run"
            assert row.expects in (*verdicts, claims.NOT_RUN), row.id
        assert row.expects in (rules.UNDECIDED, claims.NOT_RUN) or not (row.stand_in or row.points), row.id
        assert set(row.absent) <= set(rules.names(row.rule) if row.rule else ()), row.id
        assert row.unstated or (row.rule and rules.readings(row.rule)) or row.expects != rules.UNSTATED, row.id
        assert row.rule or not row.corrected, row.id
        assert bool(row.corrected) == bool(row.correction), f"{row.id}: a correction is a rule and its words"
        assert row.corrected or row.expects != rules.CORRECTED, row.id


MARGIN = {"margin": ["accuracy_points", "mnist"]}


@pytest.mark.parametrize(
    ("rule", "questions"),
    [
        ({"ahead": {"value": "a"}}, ["direction"]),
        ({"behind": {"value": "a", "by": 0.5}}, ["size as stated"]),
        ({"ahead": {"value": "a", "by": MARGIN}}, ["relevance"]),
        ({"ahead": {"value": "a", "by": "printed_gain"}}, ["size as printed"]),
        ({"equivalent": {"value": "a", "margin": 0.1}}, ["relevance"]),
        ({"within": {"value": "a", "of": "a", "by": MARGIN}}, ["size as printed"]),
        ({"within": {"value": "a", "of": 0.5, "by": 0.1}}, ["size as stated"]),
        ({"exact": {"value": "a", "equals": 0}}, ["equality"]),
        ({"by_hand": {"holds": True, "proof": "p"}}, ["proof"]),
        ({"not_tested": "no data"}, []),
        (
            {
                "all_of": [
                    {"ahead": {"value": "a"}},
                    {"ordered": {"values": ["a", "b"]}},
                    {"count": {"value": "c", "of": 3, "least": 2}},
                ]
            },
            ["direction", "count"],
        ),
    ],
)
def test_which_question_a_rule_asks(rule, questions):
    assert rules.asks(rule) == questions


def test_every_row_with_a_rule_says_what_it_asks():
    for row in claims.load_all().values():
        if row.rule:
            assert bool(rules.asks(row.rule)) == (row.expects != rules.NOT_TESTED), row.id
            assert claims.asked(row).startswith(" Asked: ") or row.expects == rules.NOT_TESTED


def simple(*given):
    """The rules that rules are made of, as (kind, what it says), but for those by hand."""
    for kind, said in (item for rule in given for item in rule.items()):
        if kind in rules.COMBINED:
            yield from simple(*said)
        elif kind == "needs":
            yield from (("ahead", {"value": name}) for name in said.get("ahead", ()))
        elif kind not in ("by_hand", "not_tested"):
            yield kind, said


def gates(rule):
    """The values that must be ahead before a rule decides."""
    kind, about = rules.kind_of(rule)
    inner = [name for part in about for name in gates(part)] if kind in rules.COMBINED else []
    return [*rule.get("needs", {}).get("ahead", ()), *inner]


def exactly(value):
    return Measured(value, value, value, 1000)


def counts(said, found):
    """Values for a count of which so many are found of all, as a share."""
    of = 10**6 if isinstance(said["of"], str) else said["of"]
    rest = {said["against"]: round((1 - found) * of)} if "against" in said else {}
    return dict.fromkeys(rules.names({"count": said}), of) | rest | {said["value"]: round(found * of)}


def far(value, *given, printed):
    """All that rules ask for at one value, which orders fall from, and counts that find all or nothing."""
    found = {}
    order = {"exact": 1, "count": 2}  # last, as these have no interval
    for kind, said in sorted(simple(*given), key=lambda part: order.get(part[0], 0)):
        names = rules.names({kind: said})
        step = [0, 0, 1] if kind == "bound" else range(len(names))  # shown and proved alike, the claim below them
        other = {name: exactly(value - i) for i, name in zip(step, names, strict=True)}
        if kind == "exact":
            of_text = isinstance(said["equals"], str) and said["equals"] not in printed
            other = {said["value"]: str(value) if of_text else value}
        found |= counts(said, value > 0) if kind == "count" else other
    return found


def met(rule, printed):
    """Values by which all parts of a rule hold."""
    found = {}
    for kind, said in simple(rule):
        numbers = {key: printed.get(one, one) if isinstance(one, str) else one for key, one in said.items()}
        numbers |= {key: margins.bound(one) for key, one in said.items() if isinstance(one, dict)}
        if kind == "count":
            of = 10**6 if isinstance(said["of"], str) else said["of"]
            # All, or no more than is asked for where another part counts the rest.
            least = numbers.get("least", 0)
            found |= counts(said, least / of if said["value"] in found else min(least, 1))
        elif kind == "ordered":
            # A value that another part asks for keeps its place, and the others are put around it.
            known = [(i, found[name].value) for i, name in enumerate(said["values"]) if name in found] or [(0, 0.0)]
            found |= {n: exactly(known[0][1] + i - known[0][0]) for i, n in enumerate(said["values"]) if n not in found}
        elif kind == "bound":
            found |= {said["at_least"]: exactly(0), said["at_most"]: exactly(0), said["claimed"]: exactly(1)}
        elif kind == "exact":
            found[said["value"]] = numbers["equals"]
        elif kind == "in_range":
            ends = numbers.get("least", numbers.get("most")), numbers.get("most", numbers.get("least"))
            name, inside = said["value"], (numbers.get("least", -np.inf), numbers.get("most", np.inf))
            if not (name in found and inside[0] <= found[name].value <= inside[1]):
                found[name] = exactly(sum(ends) / 2)
        else:
            start = (
                numbers["of"]
                if kind == "within"
                else rules._neutral(said["margin"])
                if kind == "equivalent"
                else numbers.get("by", 0)
            )
            found[said["value"]] = exactly(start + {"ahead": 1e9, "behind": -1e9}.get(kind, 0))
    return found


def test_every_rule_of_the_ledger_can_come_out_either_way():
    """But for what its proofs by hand have settled, and for what a row's runs cannot do, as they are of a stand-in."""
    seen = 0
    for row in (replace(row, stand_in="", absent={}) for row in claims.load_all().values()):
        given = [rule for rule in (row.rule, row.corrected) if rule]
        if any(simple(*given)):
            away = [far(value, *given, printed=row.published) for value in (-1e9, 0.0, 1e9)]
            values_ = {rules.verdict(asdict(row), values, row.published) for values in away}
            assert values_ - {rules.HOLDS}, f"{row.id} holds whatever is measured"
            if row.rule and any(simple(row.rule)):
                open_gates = dict.fromkeys(gates(row.rule), exactly(1e9))
                outcomes = {rules.decide(row.rule, values | open_gates, row.published) for values in away}
                assert False in outcomes, f"{row.id} cannot be refuted"
            if row.rule and any(simple(row.rule)) and "by_hand" not in repr(row.rule):
                values = away[0] | met(row.rule, row.published)
                assert rules.verdict(asdict(row), values, row.published) == rules.HOLDS, row.id
                seen += 1
    assert seen > 400


@pytest.mark.parametrize(
    ("rule", "values", "open_"),
    [
        (AHEAD, {"gain": WIDE}, [("gain", 0.5, 0)]),
        ({"behind": {"value": "gain", "by": 2}}, {"gain": WIDE}, [("gain", 1.5, 0)]),
        (SAME, {"gain": WIDE}, [("gain", 0.2, 0)]),
        (AHEAD, {"gain": HIGH}, []),
        ({**AHEAD, "needs": {"runs": 9}}, {"gain": HIGH}, [("gain", 2.0, 9)]),
        ({**AHEAD, "needs": {"ahead": ["base"]}}, {"gain": HIGH, "base": WIDE}, [("base", 0.5, 0)]),
        ({"all_of": [AHEAD, SAME]}, {"gain": WIDE}, [("gain", 0.5, 0)]),
        ({"exact": {"value": "gain", "equals": 1}}, {"gain": 2}, []),
    ],
)
def test_what_is_open_says_how_far_it_is_from_a_bound(rule, values, open_):
    found = rules.still_open({"rule": rule}, values, PRINTED)
    assert [(each.name, pytest.approx(each.away), each.asked) for each in found] == open_


def test_the_reach_of_an_open_comparison_is_to_the_side_of_its_bound():
    skew = Measured(0.9, 0.7, 0.95, 20)
    (found,) = rules.still_open({"rule": {"ahead": {"value": "share", "by": 0.8}}}, {"share": skew}, {})
    assert (found.away, found.reach) == (pytest.approx(0.1), pytest.approx(0.2))


def test_where_what_is_printed_is_refuted_its_correction_is_open():
    row = {"rule": AHEAD, "corrected": {"ahead": {"value": "kept"}}}
    values = {"gain": Measured(-2.0, -3.0, -1.0, 5), "kept": WIDE}
    assert rules.verdict(row, values, {}) == rules.UNDECIDED
    assert [each.name for each in rules.still_open(row, values, {})] == ["kept"]


def test_what_a_decided_reading_asks_is_not_open():
    refuted = {"all_of": [{"behind": {"value": "gain"}}, {"ahead": {"value": "other"}}]}
    row = {"rule": {"readings": [refuted, {"ahead": {"value": "kept"}}]}}
    values = {"gain": HIGH, "other": WIDE, "kept": WIDE}
    assert [each.name for each in rules.still_open(row, values, {})] == ["kept"]


def test_what_nobody_measured_is_open_without_a_number():
    (found,) = rules.still_open({"rule": AHEAD, "absent": {"gain": "no data"}}, {}, PRINTED)
    assert found.measured.value != found.measured.value
    (text,) = rules.still_open({"rule": AHEAD}, {"gain": {"value": "NaN", "n": 1}}, PRINTED)
    assert text.measured.value != text.measured.value


def test_an_exact_rule_leaves_open_what_is_not_a_number():
    assert rules.decide({"exact": {"value": "x", "equals": 1}}, {"x": math.nan}, {}) is None


def test_readings_inside_another_rule_are_refused():
    inner = {"readings": [{"ahead": {"value": "a"}}, {"ahead": {"value": "b"}}]}
    with pytest.raises(ParameterError, match="readings are not allowed inside another rule"):
        rules.decide({"all_of": [inner]}, {"a": 1.0, "b": -1.0}, {})
