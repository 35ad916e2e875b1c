"""The history of rules: what the log of a small repository says, and that the stored one is that of this repository."""

import functools
import json
import subprocess

import pytest
import yaml

from book.evidence import claims, code_marks, gitlog, history, history_log
from book.evidence.gitlog import Log
from dplib.checks import ParameterError

HAS_LOG = gitlog.available(claims.ROOT)
needs_log = pytest.mark.skipif(not HAS_LOG, reason="no log of this repository, or a shallow one")


class Repository:
    """A small repository with one file of the ledger."""

    def __init__(self, root):
        self.root = root
        self.git("init", "--quiet", "--initial-branch=main")
        (root / "book" / "claims").mkdir(parents=True)

    def git(self, *arguments):
        who = ("-c", "user.name=toy", "-c", "user.email=toy@example.com", "-c", "commit.gpgsign=false")
        query = ["git", *who, *arguments]
        return subprocess.run(query, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, **row):
        """Commit a ledger of one row, and return the commit."""
        for paper in claims.PAPERS:
            rows = [{"id": f"{paper}.toy", "statement": "It rises.", **row}] if paper == "A" else []
            document = f"claims:\n{_indented(rows)}tables:\n"
            (self.root / "book" / "claims" / f"{paper}.yml").write_text(document, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "toy")
        return self.git("rev-parse", "HEAD")


def _indented(rows):
    lines = yaml.safe_dump(rows, sort_keys=False).splitlines() if rows else []
    return "".join(f"  {line}\n" for line in lines)


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def states(root):
    return history_log._ledger(Log(root))[0]["A.toy"]


def test_each_state_of_a_row_has_the_commit_that_brought_it(repository):
    first = repository.commit()
    repository.commit(because="a reason is no rule")
    second = repository.commit(rule={"ahead": {"value": "gain"}})
    third = repository.commit(rule={"ahead": {"value": "gain", "by": 1}}, because="other")
    assert [version.commit for version in states(repository.root)] == [first, second, third]


def test_a_change_that_is_not_committed_has_no_commit(repository):
    repository.commit(rule={"ahead": {"value": "gain"}})
    path = repository.root / "book" / "claims" / "A.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("It rises", "It falls"), encoding="utf-8")
    assert states(repository.root)[-1].commit == ""


def test_a_rule_from_a_branch_keeps_the_commit_of_the_branch(repository):
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "side")
    there = repository.commit(rule={"ahead": {"value": "gain"}})
    repository.git("checkout", "--quiet", "main")
    repository.git("commit", "--quiet", "--allow-empty", "--message", "beside it")
    repository.git("merge", "--quiet", "--no-ff", "--message", "merged", "side")
    assert states(repository.root)[-1].commit == there


def test_order_is_by_descent_and_not_by_date(repository):
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "side")
    repository.git("commit", "--quiet", "--allow-empty", "--date=2100-01-01", "--message", "late, without the rule")
    beside = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "main")
    rule = repository.commit(rule={"ahead": {"value": "gain"}})
    after = repository.commit(rule={"ahead": {"value": "gain"}}, because="later")
    repository.git("merge", "--quiet", "--no-ff", "--message", "merged", "side")
    made = {rule[:12]: 1, f"{after[:12]}-dirty": 2, beside[:12]: 4, "0123456789ab": 8, "unknown": 16}
    assert history_log._order(Log(repository.root), rule, made) == [3, 4, 24]


def test_a_margin_that_changes_is_a_change_of_the_rules_that_name_it(repository):
    margins = repository.root / "book" / "claims" / "margins.yml"
    margins.write_text("points: {data: {mnist: {margin: 0.2}}}\nshare: {of: points, times: 0.01}\n", encoding="utf-8")
    rule = {"ahead": {"value": "gain", "by": {"margin": ["share", "mnist"]}}}
    repository.commit(rule=rule)
    margins.write_text("points: {data: {mnist: {margin: 0.3}}}\nshare: {of: points, times: 0.01}\n", encoding="utf-8")
    second = repository.commit(rule=rule)
    before, after = states(repository.root)
    assert after.commit == second
    assert json.loads(before.state)["margins"] == {"share/mnist": 0.002}


def test_rows_of_a_table_have_what_it_says_for_all():
    table = b"""claims:
tables:
  - id: A.table1
    statement: "Accuracies."
    columns: [a, b]
    rule: {exact: {value: a, equals: a}}
    rows:
      - {id: one, label: "1", values: [1, null]}
"""
    (row,) = history_log._rows(table)
    assert row["id"] == "A.table1.one"
    assert row["published"] == {"a": 1}
    assert row["rule"]["exact"]["equals"] == "a"


ONE = """from a import b as c


def rows(found: int) -> dict:
    '''Text.'''
    mean = c.f(found)  # note
    return {"A.toy": mean}
"""
SAME = ONE.replace("found", "runs").replace("mean", "value").replace("Text", "Other").replace("c.f", "d.f")
SAME = SAME.replace("b as c", "e as d").replace(" -> dict", "")


def test_code_is_compared_without_comments_docstrings_and_names_that_say_nothing():
    one, same, other = (code_marks.writers(text.encode()) for text in (ONE, SAME, ONE.replace("(found)", "(-found)")))
    assert one == same != other


def test_code_is_the_same_in_another_file():
    assert code_marks.writers(ONE.encode()) == code_marks.writers(f"import a\n\n\n\n{ONE}\nz = 1\n".encode())


def test_a_function_of_the_same_file_that_is_called_counts_as_code():
    text = 'def rows():\n    return {"A.toy": value()}\n\n\ndef value():\n    return %d\n'
    one, other = (code_marks.writers((text % n).encode()) for n in (1, 2))
    assert one != other


def test_a_shallow_or_missing_log_is_refused(tmp_path):
    assert not gitlog.available(tmp_path)
    with pytest.raises(ParameterError, match="has no log"):
        history_log.build(tmp_path)


def entry(digest="new", runs=(0, 3, 0), commit=""):
    return {"rows": {"A.thm6": {"versions": [{"commit": commit, "digest": digest, "runs": list(runs)}]}}}


@needs_log
@pytest.mark.parametrize(("runs", "expected"), [((0, 3, 0), 1), ((2, 1, 0), 1), ((3, 0, 1), 1), ((3, 0, 0), 0)])
def test_a_change_with_runs_known_asks_for_a_reason(runs, expected):
    assert len(history_log.silent(entry(runs=runs))) == expected


@needs_log
def test_a_reason_is_of_one_row_and_one_state(tmp_path, monkeypatch):
    since = gitlog.Log(claims.ROOT).head
    text = f"since: {since}\nedition: {since}\nreasons:\n  - {{reason: The paper says so., rows: {{A.thm6: new}}}}\n"
    (tmp_path / "reasons.yml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(history, "REASONS", tmp_path / "reasons.yml")
    assert history_log.silent(entry("new")) == []
    assert history_log.silent(entry("newer")) == [("A.thm6", "newer")]


def test_the_last_edition_is_told_by_descent(repository):
    first, second = repository.commit(expects="holds"), repository.commit(expects="fails")
    log = Log(repository.root)
    assert (history_log._at(log, first)(first), history_log._at(log, first)(second)) == (True, False)
    with pytest.raises(ParameterError, match="edition"):
        history_log._at(log, "0" * 40)


@pytest.fixture(scope="module")
def read_once():
    """What this repository's log says of the ledger and of plans: both tests of the stored history ask for it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_log", "_ledger", "_parts"):
            patch.setattr(history_log, name, functools.cache(getattr(history_log, name)))
        yield


@needs_log
@pytest.mark.usefixtures("read_once")
def test_the_stored_history_is_that_of_the_log():
    assert history_log.stale(history.read()) == []


@needs_log
def test_no_rule_changes_silently():
    assert history_log.silent(history.read()) == []


@needs_log
@pytest.mark.usefixtures("read_once")
def test_a_stored_history_with_another_rule_or_commit_is_stale():
    stored = history.read()
    row = stored["rows"]["A.thm6"]
    row["versions"][-1]["commit"] = "0123456789ab"
    stored["rows"]["A.thm8"]["versions"].pop()
    assert history_log.stale(stored) == ["A.thm6", "A.thm8"]


def test_every_row_has_a_history():
    assert set(history.read()["rows"]) == set(claims.load_all())


def test_the_first_rule_decides_by_todays_values():
    claim = claims.get("A.def1")
    first = {"rule": {"ahead": {"value": "gain"}}}
    assert history.first_verdict({"first": first}, claim, {"gain": 1.0}) == ("holds", "")
    assert history.first_verdict({"first": first}, claim, {"gain": -1.0}) == ("fails", "")
    verdict, why = history.first_verdict({"first": first}, claim, {"other": 1.0})
    assert not verdict
    assert "gain" in why
