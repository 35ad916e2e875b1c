"""From a number of a page, or a row, to every place that one would open to change it."""

import re

import pytest

from book.evidence import claims, sources
from book.press import where
from dplib.checks import ParameterError
from tests.conftest import ROOT

PLACE = re.compile(r"(?:book|dplib|notebooks|papers|tests)/[\w./-]+\.(?:py|md|yml|jsonl)(?::\d+)?")


def named(lines, what):
    """The files behind a word, each of which is there; a line of them has what is looked for."""
    places = [place for line in lines if line.strip().startswith(what) for place in PLACE.findall(line)]
    assert places, (what, lines)
    for place in places:
        file, _, number = place.partition(":")
        assert int(number or 1) <= len((ROOT / file).read_text(encoding="utf-8").splitlines())
    return [place.partition(":")[0] for place in places]


def test_a_row_leads_to_all_that_makes_it():
    lines = list(where.lines("A.thm6"))
    assert lines[0] == f"A.thm6: {claims.get('A.thm6').statement}"
    assert named(lines, "rule") == ["book/claims/A.yml", "book/claims/made_up.yml"]
    assert "papers/larger_models/gmm_rows.py" in named(lines, "values")
    assert named(lines, "part growing") == ["notebooks/plans/01.yml", "papers/larger_models/gmm_runs.py"]
    assert "book/runs/mixture_draws.jsonl" in named(lines, "experiment")
    assert "tests/papers/larger_models/test_gmm_runs.py" in named(lines, "tests")


def test_what_is_neither_a_row_nor_a_chapter_is_refused_as_both():
    with pytest.raises(
        ParameterError, match=r"'nothing' is neither a row of the ledger, such as D.fig1, nor a chapter"
    ):
        list(where.lines("nothing"))


def test_a_number_beside_a_row_is_refused():
    with pytest.raises(ParameterError, match="number = '3' is not allowed beside a row"):
        list(where.lines("A.thm6", "3"))


def test_the_line_of_a_rule_is_the_rows():
    (rule, *_) = [place for line in where.lines("A.thm6") if "rule:" in line for place in PLACE.findall(line)]
    file, _, number = rule.partition(":")
    assert (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1].strip() == "- id: A.thm6"


def test_a_number_leads_to_its_sentence_and_rows():
    lines = list(where.lines("11", "0.093"))
    assert "0.093 points" in lines[0]
    assert lines[0].startswith("notebooks/11_annealed_dpsgd.md:")
    assert any("D.s-gain-same-hyperparameters" in line for line in lines[1:])


def test_what_is_not_there_is_refused():
    with pytest.raises(ParameterError, match=re.escape("77.123")):
        list(where.lines(sources.chapters()[0], "77.123"))
    with pytest.raises(ParameterError, match="11_annealed_dpsgd is a chapter: give a number"):
        list(where.lines("11"))
    with pytest.raises(ParameterError, match=re.escape("A.none")):
        list(where.lines("A.none"))
