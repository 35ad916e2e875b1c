"""Rules can come out both ways: made-up results of ``book/claims/made_up.yml`` that a rule must tell apart."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from fnmatch import fnmatch
from typing import Any

import pytest

from book.evidence import claims, gitlog, history, history_log, rules
from dplib import files
from dplib.stats import Measured

MADE_UP: dict[str, dict[str, dict[str, Any]]] = files.checked(
    claims.CLAIMS / "made_up.yml", dict[str, dict[str, dict[str, Any]]]
)
REFUTED = (rules.FAILS, rules.UNSTATED)
WANTED = {
    "holds": (rules.HOLDS,),
    "fails": REFUTED,
    "corrected": (rules.CORRECTED,),
    "mixed": (rules.UNSTATED,),
    "undecided": (rules.UNDECIDED,),
}
COMPUTED = ("exact", "by_hand", "not_tested")  # kinds of rules that compare nothing that has an interval
needs_log = pytest.mark.skipif(not gitlog.available(claims.ROOT), reason="no log of this repository, or a shallow one")


def measured(value: Any) -> Any:
    """A made-up value as a page would record it."""
    if not isinstance(value, list):
        return value
    middle, low, high, runs = value
    assert low <= middle <= high, value
    return Measured(middle, low, high, runs)


def spread(result: dict[str, Any], asked: set[str]) -> dict[str, Any]:
    """A value for each asked name: that of the longest pattern which fits; every pattern must be of use."""
    fits = {name: [pattern for pattern in result if pattern == name or fnmatch(name, pattern)] for name in asked}
    chosen = {name: max(patterns, key=len) for name, patterns in fits.items() if patterns}
    assert set(chosen) == asked, f"no value for {asked - set(chosen)}"
    assert set(chosen.values()) == set(result), f"no use for {set(result) - set(chosen.values())}"
    return {name: measured(result[pattern]) for name, pattern in chosen.items()}


def kinds(rule: Mapping[str, Any]) -> set[str]:
    """The kinds of the rules that a rule is made of."""
    kind, about = rules.kind_of(rule)
    return set().union(*map(kinds, about)) if kind in rules.COMBINED else {kind}


def gates(rule: Mapping[str, Any]) -> Iterator[str]:
    """The values that must be ahead before a rule decides."""
    kind, about = rules.kind_of(rule)
    yield from rule.get("needs", {}).get("ahead", ())
    for inner in about if kind in rules.COMBINED else ():
        yield from gates(inner)


def asked(claim: claims.Claim) -> set[str]:
    """The values that a row's rules ask for."""
    given = [rule for rule in (claim.rule, claim.corrected) if rule]
    return {name for rule in given for name in (*rules.names(rule), *gates(rule))}


def refuted_by_hand(rule: Mapping[str, Any]) -> bool:
    """Whether a proof alone refutes a rule, whatever is measured."""
    kind, about = rules.kind_of(rule)
    if kind in rules.COMBINED:
        return (all if kind == "any_of" else any)(map(refuted_by_hand, about))
    return kind == "by_hand" and not about["holds"]


def compares(claim: claims.Claim) -> bool:
    """Whether a row's rules compare what is measured, and are no proof and no plain recomputation."""
    given = [rule for rule in (claim.rule, claim.corrected) if rule]
    return claim.expects != rules.NOT_TESTED and bool(set().union(*map(kinds, given)) - set(COMPUTED))


@pytest.mark.parametrize("id_", MADE_UP)
def test_a_row_can_hold_and_can_fail(id_):
    claim = replace(claims.get(id_), stand_in="", absent={})
    must = {"fails"} | ({"corrected"} if claim.corrected else set())
    must |= set() if refuted_by_hand(claim.rule) else {"holds"}
    assert must <= set(MADE_UP[id_]) <= set(WANTED)
    for outcome, result in MADE_UP[id_].items():
        values = spread(result, asked(claim))
        assert rules.verdict(asdict(claim), values, claim.published) in WANTED[outcome], outcome


@pytest.mark.parametrize("id_", MADE_UP)
def test_a_made_up_result_could_have_been_measured(id_):
    for result in MADE_UP[id_].values():
        for name, value in result.items():
            low, high = value[1:3] if isinstance(value, list) else (value, value)
            if name.startswith("share_"):
                assert 0 <= low <= high <= 1, name
            if "percent" in name and not any(word in name for word in ("less", "minus", "saved")):
                assert 0 <= low <= high <= 100, name
            assert not isinstance(value, list) or value[3] >= 2, name


def test_every_claim_whose_rule_compares_has_made_up_results():
    wanted = {id_ for id_, claim in claims.load_all().items() if claim.sort == "claim" and compares(claim)}
    assert len(wanted) > 200
    assert wanted - set(MADE_UP) == set()


@needs_log
def test_every_rule_that_changed_since_the_last_edition_has_made_up_results():
    """Of all sorts of rows; the stored history must be that of the log, so that a changed rule stands in it."""
    log, rows = history_log._log(claims.ROOT), claims.load_all()
    before = history_log._at(log, history.reasons().edition)
    changed = set()
    for row, entry in history.read()["rows"].items():
        commits = [version["commit"] for version in history.deciding(entry)]
        if any(not commit or not before(log.full(commit)) for commit in commits) and rows[row].rule:
            changed.add(row)
    assert len(changed) > 50
    assert {row for row in changed if compares(rows[row])} - set(MADE_UP) == set()


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"all_of": [{"by_hand": {"holds": False, "proof": "p"}}, {"ahead": {"value": "a"}}]}, True),
        ({"any_of": [{"by_hand": {"holds": False, "proof": "p"}}, {"ahead": {"value": "a"}}]}, False),
        ({"all_of": [{"by_hand": {"holds": True, "proof": "p"}}, {"ahead": {"value": "a"}}]}, False),
    ],
)
def test_only_a_proof_that_refutes_the_whole_excuses_from_a_result_that_holds(rule, wanted):
    assert refuted_by_hand(rule) is wanted
