"""The ledger's page, cards and landing page say what came first, a row's rule or its runs."""

from dataclasses import replace

import nbformat
import pytest

from book.evidence import claims, history, rules, sources
from book.press import findings, ledger, pages, tables
from book.press.ledger import Row


def entry(**more):
    """A row's entry in the history: first rule, and the same still."""
    version = {"commit": "aaaaaaaaaaaa", "digest": "1", "changed": ["rule"], "runs": [0, 3, 0]}
    return {"versions": [version], "verdicts": [], "made_at": 1, "reads": ["01/checks"], "code": [], **more}


def stored(**more):
    parts = {"01/checks": [{"changed": []}, {"changed": ["seeds"]}, {"changed": ["size"]}]}
    commits = {"aaaaaaaaaaaa": "2026-01-02", "bbbbbbbbbbbb": "2026-01-03"}
    return {"commits": commits, "parts": parts, "rows": {"A.thm6": entry(**more)}}


LATER = {"commit": "bbbbbbbbbbbb", "digest": "2", "changed": ["rule", "unstated"], "runs": [1, 2, 0]}
CHANGED = {"versions": [*entry()["versions"], LATER], "first": {"rule": {"ahead": {"value": "gain"}}}}


def row(id_="A.thm6", verdict="fails", values=None, **more):
    claim, values = claims.get(id_), values or {"gain": 1.0}
    return Row(claim, verdict, values, "", history.past(stored(**more), claim, values, verdict))


def test_a_row_says_when_its_rule_came_and_what_was_known():
    told = " ".join(row(**CHANGED, written=["aaaaaaaaaaaa", "holds"]).past.sentences)
    assert "First rule: 2026-01-02 (aaaaaaa); before it the page itself wrote: holds (2026-01-02)." in told
    assert "Changed 2026-01-03 (bbbbbbb): rule, unstated; no reason recorded." in told
    assert "Of 3 runs that it reads, 1 were made with today's rule committed, 2 without it" in told
    assert "changed twice, once in the number of seeds" in told
    assert "The first rule on today's runs: holds." in told


def test_a_reason_stands_beside_its_change(monkeypatch, tmp_path):
    (tmp_path / "reasons.yml").write_text(
        "since: a\nedition: a\nreasons:\n  - {reason: As printed., rows: {A.thm6: '2'}}\n"
    )
    monkeypatch.setattr(history, "REASONS", tmp_path / "reasons.yml")
    assert "Changed 2026-01-03 (bbbbbbb): rule, unstated; As printed." in row(**CHANGED).past.sentences


def test_a_first_rule_that_asks_for_a_lost_value_cannot_be_evaluated():
    past = row(**CHANGED, values={"other": 1.0}).past
    assert past.first == ""
    assert past.sentences[-1].startswith("The first rule on today's runs: cannot be evaluated (gain ")


@pytest.mark.parametrize(
    ("runs", "order"),
    [
        ([3, 0, 0], history.FIRST),
        ([2, 1, 0], history.MIXED),
        ([0, 1, 2], history.KNOWN),
        ([2, 0, 1], history.UNKNOWN),
        ([0, 0, 0], history.NO_RUNS),
    ],
)
def test_what_came_first(runs, order):
    versions = [{**entry()["versions"][0], "runs": runs}]
    assert row(versions=versions).past.order == order


def test_a_row_without_a_rule_has_no_order():
    versions = [{**entry()["versions"][0], "changed": ["statement"]}]
    assert row(versions=versions).past.order == history.NO_RULE


def test_the_page_has_both_verdicts_and_what_its_menus_ask_for():
    page = ledger.ledger_html([row(**CHANGED)])
    assert 'data-verdict="fails" data-first="holds" data-order="some runs known" data-differs="yes"' in page
    cells = '<td>before some<br>changed 1×</td><td><span class="by-present">holds</span>'
    assert f'{cells}<span class="by-first">today: fails</span></td>' in page


def test_what_fails_stands_first_and_settings_of_a_table_stay_together():
    rows = [row("A.eq5", "holds"), row("A.thm6", "holds with change"), row("A.eq10", "fails")]
    page = ledger.ledger_html(rows)
    assert [page.index(f'<tr id="{id_}"') for id_ in ("A.eq10", "A.thm6", "A.eq5")] == sorted(
        page.index(f'<tr id="{id_}"') for id_ in ("A.eq10", "A.thm6", "A.eq5")
    )
    assert set(ledger.SORTED) == set(claims.VERDICTS)


def test_the_menus_have_titles_and_no_slugs():
    page = ledger.ledger_html([row(**CHANGED)])
    assert f">1: {sources.title('01_gmm_theory')}</option>" in page
    assert ">claim (1)</option>" in page
    assert "gmm theory" not in page


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mnist_eps0_5_dp_sgd", "MNIST ε = 0.5 DP-SGD"),
        ("error_dense_L2_p20", "error dense L2 p = 20"),
        ("fashion_mnist_eps1_less_dp_sgd", "Fashion-MNIST ε = 1 less DP-SGD"),
        ("largest_private_epsilon_at_delta_0_01", "largest private ε at δ 0.01"),
        ("exact_epsilon_cifar10", "exact ε CIFAR-10"),
        ("4_minus_2_stages", "4 minus 2 stages"),
    ],
)
def test_a_value_has_a_name_that_one_can_read(name, words):
    assert ledger.readable(name) == words


def test_the_page_of_changes_has_old_and_new_verdict_and_why(monkeypatch):
    rows = {"A.thm6": entry(edition="holds"), "A.thm8": entry(edition="fails"), "A.eq5": entry()}
    monkeypatch.setattr(history, "read", lambda: {**stored(), "rows": rows})
    page = tables.changes([row("A.thm6"), row("A.thm8"), row("A.eq5", verdict="holds")])
    assert page.startswith("2 rows.")
    assert '- <a href="ledger.html#A.thm6"><code>A.thm6</code></a>, holds, now **fails**' in page
    assert "A.thm8" not in page
    assert "<code>A.eq5</code></a>, new, now **holds**" in page


def test_the_page_says_where_an_undecided_row_points():
    undecided = replace(row(verdict="undecided"), points=rules.AGAINST)
    page = ledger.ledger_html([undecided])
    assert f'data-points="{rules.AGAINST}"' in page
    assert f'<em class="by-present">{rules.AGAINST}</em>' in page
    assert f'<option value="{rules.FOR}">' in page


def test_a_card_gets_its_history():
    output = {"data": {"text/html": "<details>x</details>"}, "metadata": {claims.RECORD: {"id": "A.thm6"}}}
    notebook = nbformat.from_dict({"cells": [{"cell_type": "code", "outputs": [output]}, {"cell_type": "markdown"}]})
    pages._add_past(notebook, [row(**CHANGED)])
    text = notebook.cells[0].outputs[0].data["text/html"]
    assert text.startswith("<details>x<p class='unit'>First rule: 2026-01-02")
    assert text.endswith("</p></details>")


def test_the_landing_page_counts_rules_that_came_first_and_verdicts_that_differ():
    first = [{**entry()["versions"][0], "runs": [3, 0, 0]}]
    rows = [
        row(**CHANGED),
        row(versions=first, first={"rule": {"behind": {"value": "gain"}}}),
        row(**CHANGED, values={"other": 1.0}),
    ]
    text = findings.markdown(rows)
    assert "1 of the 3 claims are decided by a rule that was committed before every run" in text
    assert "By their first rule 1 claims would have another verdict today, 0 of them *fails*" in text
    assert "1 first rules cannot be evaluated any more" in text


def test_the_table_of_verdicts_has_those_of_the_first_rules():
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in tables.counts([row(**CHANGED)]).splitlines()
    ]
    of_all = {line[0]: line[-1] for line in lines[: lines.index([""])]}
    by_first = {line[0]: line[-1] for line in lines[lines.index([""]) :]}
    assert (of_all["holds"], by_first["holds"]) == ("0", "1")
    assert (of_all["fails"], by_first["fails"]) == ("1", "0")
    assert of_all["other verdict by the first rule"] == "1"
