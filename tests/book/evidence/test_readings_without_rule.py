"""Readings without the rule: what a packet may not tell, the sample, its plants, and how answers are counted."""

import json
import re

import pytest

from book.evidence import claims, readings, rules
from book.evidence import readings_without_rule as without
from dplib.checks import ParameterError
from dplib.stats import Measured

TRUE = {rules.HOLDS: 1, rules.FAILS: -1, rules.CORRECTED: -1, rules.UNSTATED: -1, rules.UNDECIDED: 0}


def rows(n=40):
    """Made-up rows, as many of each verdict, the papers by turns, with the values that lead to it."""
    for i in range(n * len(without.STRATA)):
        verdict, paper = without.STRATA[i % len(without.STRATA)], claims.PAPERS[i % len(claims.PAPERS)]
        more = {"corrected": {"behind": {"value": "gain"}}, "correction": "It falls."}
        claim = claims.Claim(
            id=f"{paper}.toy{i}", kind="statement", where="Section 1", statement=f"It rises, {i}.",
            chapter=claims.get("A.thm6").chapter, tested_by="gain over seeds", rule={"ahead": {"value": "gain"}},
            because="it does, secretly", expects=verdict, unstated="the rate" if verdict == rules.UNSTATED else "",
            **(more if verdict == rules.CORRECTED else {}),
        )  # fmt: skip
        middle = 2.0 * TRUE[verdict]
        yield claim, {"gain": Measured(middle, middle - 1, middle + 1, 5), "runs": 3}, verdict


def test_a_sample_has_as_many_rows_of_each_verdict_and_every_paper():
    packets = without.sample(rows())
    real = [packet for packet in packets if not packet.plant]
    assert len(packets) == without.PACKETS
    assert len(packets) - len(real) == without.PLANTS
    assert {word: sum(packet.wanted == word for packet in real) for word in without.STRATA} == dict.fromkeys(
        without.STRATA, 8
    )
    assert {packet.claim.paper for packet in real} == set(claims.PAPERS)


def test_a_row_is_read_once_and_a_seed_gives_the_same_packets():
    packets = without.sample(rows(), seed=3)
    assert len({packet.claim.id for packet in packets}) == len(packets)
    assert packets == without.sample(rows(), seed=3) != without.sample(rows(), seed=4)


def test_plants_go_both_ways_and_what_was_measured_turns_together():
    plants = [packet for packet in without.sample(rows()) if packet.plant]
    for packet in plants:
        turned = packet.values["gain"]
        assert turned.high < 0 if packet.claim.expects == rules.HOLDS else turned.low > 0
        assert without.COARSE[packet.wanted] != without.COARSE[packet.claim.expects]
    assert {packet.wanted == rules.HOLDS for packet in plants} == {True, False}


def test_a_text_has_statement_values_and_the_papers_words_but_no_rule(tmp_path):
    paragraphs = {paper: ["Nothing.", "It rises, they say, by far.", "Nothing else."] for paper in claims.PAPERS}
    packets = without.sample(rows())
    without.write(packets, tmp_path, paragraphs, tmp_path / "away.json")
    texts = [path.read_text(encoding="utf-8") for path in sorted((tmp_path / "batches").glob("*.md"))]
    packed = "".join(re.split(r"\n## \d\d\n", text, maxsplit=1)[1] for text in texts)
    assert len(texts) == without.PACKETS // without.IN_A_BATCH
    for told in ("It rises", "gain over seeds", "> It rises, they say, by far.", "n = 5"):
        assert told in packed
    for kept in ("secretly", "above 0", "It falls", "the rate", "toy", "plant", *without.STRATA):
        assert kept not in packed, kept
    assert [path.name for path in tmp_path.glob("*.json")] == ["away.json"]


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_no_packet_of_the_ledger_tells_its_row_its_rule_or_what_is_not_stated(paper):
    for claim in claims.load(paper).values():
        if claim.sort == "claim" and claim.rule:
            told = without.text([("01", readings.Packet(claim, {}, claim.expects))], "", {}).partition("\n## 01")[2]
            assert claim.id not in told
            assert rules.words(claim.rule) not in told
            for kept in filter(None, (claim.because, claim.unstated, claim.correction)):
                assert kept not in told, claim.id


def test_the_page_of_words_is_whole_and_tells_of_no_rule():
    page = without.words_page()
    assert all(f">{word}<" in page for word in without.STRATA)
    assert f">{rules.NOT_TESTED}<" not in page
    assert "margin of one table" in page
    assert "came first" not in page
    assert all(point.rstrip().endswith(".") for point in re.split(r"\n- ", page)[1:])


def test_a_long_paragraph_is_cut_at_sentences_and_unmeasured_values_are_counted(tmp_path):
    (tmp_path / "A.txt").write_text("Short.\n\n" + "Some words of it. " * 60, encoding="utf-8")
    first, *pieces = without.passages(tmp_path)["A"]
    assert first == "Short."
    assert len(pieces) > 1
    assert all(piece.endswith(".") for piece in pieces)
    blank = dict.fromkeys(("later", "never"), Measured(float("nan"), n=1))
    packet = readings.Packet(claims.get("A.thm6"), {"gain": Measured(1.0, 0.5, 1.5, 5), **blank}, rules.HOLDS)
    told = without.text([("01", packet)], "", {})
    assert "2 more values that no run has" in told
    assert "later" not in told


KEY = {
    "01": {"row": "A.1", "wanted": rules.HOLDS, "plant": False, "ledger": rules.HOLDS},
    "02": {"row": "A.2", "wanted": rules.FAILS, "plant": False, "ledger": rules.FAILS},
    "03": {"row": "A.3", "wanted": rules.UNDECIDED, "plant": False, "ledger": rules.UNDECIDED},
    "04": {"row": "A.4", "wanted": rules.FAILS, "plant": True, "ledger": rules.HOLDS},
    "05": {"row": "A.5", "wanted": rules.HOLDS, "plant": True, "ledger": rules.FAILS},
}


def answered(folder, reading, words):
    (folder / reading).mkdir(exist_ok=True)
    (folder / reading / "all.json").write_text(json.dumps(dict(zip(KEY, words, strict=True))), encoding="utf-8")


def scored(folder, first, second):
    (folder / "key.json").write_text(json.dumps(KEY), encoding="utf-8")
    answered(folder, "first", first)
    answered(folder, "second", second)
    return without.score(folder)


def test_plants_are_caught_by_the_side_of_their_turned_values(tmp_path):
    first = [rules.HOLDS, rules.CORRECTED, rules.UNDECIDED, rules.UNSTATED, {"verdict": rules.FAILS, "why": "no"}]
    second = [rules.HOLDS, rules.FAILS, rules.HOLDS, rules.HOLDS, rules.UNDECIDED]
    score_ = scored(tmp_path, first, second)
    assert score_["caught"] == [1, 0]
    assert score_["fooled"] == [1, 1]


def test_readings_are_compared_in_six_words_and_in_three_sides_without_plants(tmp_path):
    first = [rules.HOLDS, rules.CORRECTED, rules.HOLDS, rules.HOLDS, rules.HOLDS]
    second = [rules.HOLDS, rules.FAILS, rules.HOLDS, rules.FAILS, rules.FAILS]
    score_ = scored(tmp_path, first, second)
    assert (score_["both"], score_["agree"], score_["agree_coarse"], score_["kappa_coarse"]) == (3, 2, 3, 1.0)
    assert (score_["with_ledger"], score_["with_ledger_coarse"]) == ([1, 2], [2, 2])
    assert score_["by_verdict"][rules.FAILS] == [1, 0, 1]
    assert [row["row"] for row in score_["against"]] == ["A.3"]


@pytest.mark.parametrize("words", [[rules.HOLDS] * 4 + ["true"], [rules.HOLDS] * 4 + [{"why": "no"}]])
def test_a_word_that_is_no_verdict_is_refused(tmp_path, words):
    with pytest.raises(ParameterError, match="05"):
        scored(tmp_path, words, [rules.HOLDS] * 5)


def test_a_reading_that_leaves_a_packet_out_is_refused(tmp_path):
    scored(tmp_path, [rules.HOLDS] * 5, [rules.HOLDS] * 5)
    (tmp_path / "second" / "all.json").write_text('{"01": "holds"}', encoding="utf-8")
    with pytest.raises(ParameterError, match="02"):
        without.score(tmp_path)
