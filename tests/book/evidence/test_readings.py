"""Blind readings: packets tell no verdict, plants come out another way, and agreement is counted without them."""

import json
from dataclasses import replace

import pytest

from book.evidence import claims, readings, rules
from dplib.checks import ParameterError
from dplib.stats import Measured

GAIN = {"ahead": {"value": "gain"}}


def rows(n=40):
    """So many made-up rows that hold, by the statement of a row of the ledger."""
    real = claims.get("A.thm6")
    for i in range(n):
        claim = claims.Claim(
            id=f"A.toy{i}", kind="statement", where="Section 1", statement=f"It rises, {i}.", chapter=real.chapter,
            tested_by="gain", rule=GAIN, because="it does rise, secretly", expects=rules.HOLDS,
        )  # fmt: skip
        yield claim, {"gain": Measured(2.0, 1.0, 3.0, 5)}, rules.HOLDS


def test_a_plant_comes_out_another_way_and_not_beside_its_row():
    batches = readings.packets(rows())
    plants = [(packet, batch) for batch in batches for packet in batch if packet.plant]
    assert len(plants) == readings.PLANTS
    for packet, batch in plants:
        assert packet.wanted == rules.FAILS
        assert packet.values["gain"].high < 0
        assert [one.claim.id for one in batch].count(packet.claim.id) == 1


@pytest.mark.parametrize(
    ("rule", "values", "turned"),
    [
        ({"in_range": {"value": "a", "least": 3}}, {"a": (4, 3.5, 4.5)}, {"a": (2, 1.5, 2.5)}),
        ({"in_range": {"value": "a", "least": 3, "most": 9}}, {"a": (4, 3.5, 4.5)}, {}),
        ({"behind": {"value": "a"}}, {"a": (-2, -3, -1)}, {"a": (2, 1, 3)}),
        (
            {"all_of": [{"ordered": {"values": ["a", "b"]}}, {"ahead": {"value": "c"}}]},
            {"a": (1, 0, 2), "b": (5, 4, 6), "c": (1, 0.5, 1.5)},
            {"a": (5, 4, 6), "b": (1, 0, 2), "c": (-1, -1.5, -0.5)},
        ),
        ({"ordered": {"values": ["a", "b"]}}, {"a": (1, 0, 2)}, {}),
    ],
)
def test_a_value_is_turned_at_its_bound_and_an_order_turns_round(rule, values, turned):
    claim = replace(claims.get("A.thm6"), rule=rule)
    packet = readings.Packet(claim, {name: Measured(*value, 5) for name, value in values.items()}, rules.HOLDS)
    assert dict(readings._turned(packet)) == {name: Measured(*value, 5) for name, value in turned.items()}


def test_disputed_rows_come_first_and_a_seed_gives_the_same_packets():
    batches = readings.packets(rows(), first=["A.toy7", "A.toy31"])
    assert {"A.toy7", "A.toy31"} <= {packet.claim.id for packet in batches[0]}
    assert batches == readings.packets(rows(), first=["A.toy7", "A.toy31"])


def test_a_text_has_statement_rule_and_values_but_no_verdict_and_no_reason(tmp_path):
    readings.write(readings.packets(rows(3)), tmp_path)
    text = (tmp_path / "batches" / "batch_01.md").read_text(encoding="utf-8").partition("\n## 01-01")[2]
    assert "It rises" in text
    assert "gain above 0" in text
    assert "[1.0, 3.0], n = 5" in text
    assert "secretly" not in text
    assert "toy" not in text
    assert "plant" not in text


def answered(folder, reading, words):
    (folder / reading).mkdir()
    (folder / reading / "all.json").write_text(json.dumps(words), encoding="utf-8")


def test_readings_are_compared_without_plants(tmp_path):
    key = {f"01-0{i}": {"row": f"A.{i}", "wanted": rules.HOLDS, "plant": False} for i in range(1, 5)}
    key["01-05"] = {"row": "A.1", "wanted": rules.FAILS, "plant": True}
    (tmp_path / "key.json").write_text(json.dumps(key), encoding="utf-8")
    holds, fails = rules.HOLDS, rules.FAILS
    answered(tmp_path, "first", {"01-01": holds, "01-02": holds, "01-03": fails, "01-04": fails, "01-05": fails})
    answered(tmp_path, "second", {"01-01": holds, "01-02": fails, "01-03": fails, "01-04": fails, "01-05": holds})
    answered(tmp_path, "third", {"01-02": rules.UNDECIDED})
    score_ = readings.score(tmp_path)
    assert (score_["both"], score_["agree"], score_["caught"]["first"], score_["caught"]["second"]) == (
        4,
        3,
        [1, 1],
        [0, 1],
    )
    assert score_["kappa"] == 0.5  # three of four agree, two of four would by chance
    assert [one["settled"] for one in score_["disputed"]] == [rules.UNDECIDED]  # three different answers
    assert {one["row"] for one in score_["against"]} == {"A.3", "A.4"}
    (tmp_path / "first" / "more.json").write_text('{"01-01": "true"}', encoding="utf-8")
    with pytest.raises(ParameterError, match="01-01"):
        readings.score(tmp_path)
