"""Rules can come out both ways: made-up results of ``book/claims/made_up.yml`` that a rule must tell apart."""

from dataclasses import asdict
from fnmatch import fnmatch
from typing import Any

import pytest

from book.evidence import claims, rules
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
}


def measured(value: Any) -> Any:
    """A made-up value as a page would record it."""
    if not isinstance(value, list):
        return value
    middle, low, high, runs = value
    assert low <= middle <= high, value
    return Measured(middle, low, high, runs)


def spread(result: dict[str, Any], asked: set[str]) -> dict[str, Any]:
    """A value for each asked name: that of the longest pattern which fits; every pattern must be of use."""
    fits = {name: [pattern for pattern in result if fnmatch(name, pattern)] for name in asked}
    chosen = {name: max(patterns, key=len) for name, patterns in fits.items() if patterns}
    assert set(chosen) == asked, f"no value for {asked - set(chosen)}"
    assert set(chosen.values()) == set(result), f"no use for {set(result) - set(chosen.values())}"
    return {name: measured(result[pattern]) for name, pattern in chosen.items()}


@pytest.mark.parametrize("id_", MADE_UP)
def test_a_row_can_hold_and_can_fail(id_):
    claim = claims.get(id_)
    must = {"holds", "fails"} | ({"corrected"} if claim.corrected else set())
    assert must <= set(MADE_UP[id_]) <= set(WANTED)
    asked = set(rules.names(claim.rule)) | (set(rules.names(claim.corrected)) if claim.corrected else set())
    for outcome, result in MADE_UP[id_].items():
        values = spread(result, asked)
        assert rules.verdict(asdict(claim), values, claim.published) in WANTED[outcome], outcome
