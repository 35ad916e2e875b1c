"""The ledger: well-formed rows, complete transcription, records that cannot be mistaken."""

import json
import math
import re

import numpy as np
import pytest

from book.evidence import claims, rules
from dplib.checks import ParameterError
from dplib.stats import Measured


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_every_row_is_complete(paper):
    for claim in claims.load(paper).values():
        assert re.fullmatch(rf"{paper}\.[a-z0-9.-]+", claim.id), claim.id
        assert claim.statement.strip(), claim.id
        assert claim.where.strip(), claim.id
        assert claim.tested_by.strip(), claim.id
        assert re.fullmatch(r"\d\d[a-z]?_[a-z_]+", claim.chapter), f"{claim.id}: {claim.chapter}"
        assert "\\" not in claim.statement, f"{claim.id}: plain text, no TeX"


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_every_table_figure_and_algorithm_has_a_row(paper):
    ids, prints = set(claims.load(paper)), claims.about(paper).prints
    for prefix in ("table", "fig", "alg"):
        for number in range(1, prints.get(prefix, 0) + 1):
            pattern = re.compile(rf"{paper}\.{prefix}{number}(?![0-9])")
            assert any(map(pattern.match, ids)), f"paper {paper}: no row for {prefix} {number}"
    for name in prints.get("named", ()):
        assert any(id_.startswith(f"{paper}.{name}") for id_ in ids), f"paper {paper}: no row for {name}"


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_an_open_row_names_what_would_decide_it_and_its_cost(paper):
    for claim in claims.load(paper).values():
        if claim.expects in ("", "undecided", claims.NOT_RUN) and claim.sort != "cited":
            said = " ".join(
                [claim.because, claim.note, claim.tested_by, *(rules.by_hand(claim.rule) if claim.rule else ())]
            )
            assert re.search(r"hours?\b|core-minutes|in seconds|no run|on a GPU", said, re.IGNORECASE), claim.id


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_a_row_that_its_runs_leave_undecided_ends_with_what_would_decide_it(paper):
    for claim in claims.load(paper).values():
        assert claim.to_decide or claim.expects != rules.UNDECIDED, claim.id
    assert claims.get("B.fig7").to_decide.startswith("To decide")


def test_known_printed_values():
    """A sample of cells read off the papers by eye."""
    assert claims.get("A.table1.resnet50-dfs").published == {"min": 84.8, "max": 86.4, "median": 85.7}
    assert claims.get("A.example1-noisy.t-statistic").published == {"feature1": 15.82, "feature2": 22.94}


def test_an_unknown_id_names_near_ones():
    with pytest.raises(ParameterError, match=r"A\.thm7 is not in the ledger; near it are .*A\.thm6"):
        claims.get("A.thm7")
    with pytest.raises(ParameterError, match="not in the ledger"):
        claims.get("E.thm1")


@pytest.mark.filterwarnings("error")
def test_what_is_no_number_in_json_travels_as_a_text():
    """Jupyter would make the same of it, with a warning on the page."""
    found = {"a": Measured(math.inf, 1.0, math.inf, 2), "b": np.array([1.0, np.nan]), "c": [2, -math.inf], "d": 0.5}
    plain = {name: claims._plain(value) for name, value in found.items()}
    told = {"value": "inf", "low": 1.0, "high": "inf", "n": 2}
    assert plain == {"a": told, "b": [1.0, "nan"], "c": [2, "-inf"], "d": 0.5}
    json.dumps(plain, allow_nan=False)
    open_above = claims._plain(Measured(3.0, 1.0, math.inf, 2))
    assert claims.shown(open_above) == str(Measured(3.0, 1.0, math.inf, 2))


def test_text_from_the_ledger_is_escaped():
    row = {"values": {"<b>": "<script>alert(1)</script>"}, "verdict": "holds", "because": "<i>", "plan": "published"}
    page = claims.card(claims.get("A.thm6"), row)
    assert "<script>" not in page
    assert "&lt;i&gt;" in page


def test_two_rows_cannot_share_an_id():
    known = {}
    claim = claims.get("A.thm6")
    claims._add(known, claim)
    with pytest.raises(ParameterError, match="stands twice"):
        claims._add(known, claim)


def test_a_table_row_must_fill_its_columns():
    table = {"id": "A.t", "columns": ["a", "b"], "where": "T", "statement": "s", "chapter": "01_x", "tested_by": "t"}
    with pytest.raises(ParameterError, match="1 values, 2 columns"):
        claims._table_row(table, {"id": "r", "label": "r", "values": [1]})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  - id: A.thm6\n", "  - id: A.thm6\n    verdict: holds\n", "claims, .*, verdict is not known"),
        ("  - id: A.thm6\n    ", "  - ", "claims, .*, id is missing"),
        ("kind: theorem", "kind: guess", "kind = 'guess' is not allowed"),
        ("tables:", "table:", "tables? is (missing|not known)"),
        ("claims:", "claims: [", "cannot be read"),
        ("  - id: A.thm6\n", "  - id: A.thm6\n    id: A.thm6b\n", r"cannot be read: line \d+ has the key id again"),
        ("paper: A", "paper: Z", "paper = Z is not allowed: it must be A"),
        ("chapter: 01_gmm_theory", "chapter: 01_gmm", r"names the chapter 01_gmm, which does not exist"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, monkeypatch, old, new, message):
    text = (claims.CLAIMS / "A.yml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "A.yml").write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(claims, "CLAIMS", tmp_path)
    with pytest.raises(ParameterError, match=rf"^{tmp_path / 'A.yml'}.*{message}"):
        claims.load.__wrapped__("A")
