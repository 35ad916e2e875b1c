"""Rules can come out both ways: made-up results of ``book/claims/made_up.yml`` that a rule must tell apart."""

from dataclasses import asdict
from typing import Any

import pytest

from dplib import claims, files, rules
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


@pytest.mark.parametrize("id_", MADE_UP)
def test_a_row_can_hold_and_can_fail(id_):
    claim = claims.get(id_)
    must = {"holds", "fails"} | ({"corrected"} if claim.corrected else set())
    assert must <= set(MADE_UP[id_]) <= set(WANTED)
    asked = set(rules.names(claim.rule)) | (set(rules.names(claim.corrected)) if claim.corrected else set())
    for outcome, result in MADE_UP[id_].items():
        assert set(result) == asked, outcome  # no value beside those that decide
        values = {name: measured(value) for name, value in result.items()}
        assert rules.verdict(asdict(claim), values, claim.published) in WANTED[outcome], outcome
