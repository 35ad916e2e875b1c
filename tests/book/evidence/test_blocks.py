"""The blocks of the papers' headlines: what the log and the runs say of their parts."""

import pytest

from book.evidence import blocks, claims, gitlog, history, plans
from dplib.checks import ParameterError
from tests.book.evidence.test_history import Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def planned(repository, text):
    folder = repository.root / "notebooks" / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "04.yml").write_text(text, encoding="utf-8")
    return repository.commit()


def test_a_part_is_registered_by_the_commit_of_its_inputs(repository):
    planned(repository, "wanted: {pair: {seeds: 5}}\n")
    changed = planned(repository, "wanted: {pair: {seeds: 20}}\n")
    planned(repository, "wanted: {other: {}}\npublished: {pair: {seeds: 20}}\n")
    assert blocks.registered_by(gitlog.Log(repository.root), "04/pair") == changed
    planned(repository, "published: [no plan\n")  # as a commit of a merge may hold it
    planned(repository, "published: {pair: {seeds: 20}}\n")
    assert blocks.registered_by(gitlog.Log(repository.root), "04/pair") != changed


def test_new_runs_are_those_from_a_commit_with_the_inputs(repository):
    before, rule, after = repository.commit(), repository.commit(), repository.commit()
    log = gitlog.Log(repository.root)
    lines = [
        {
            "made": {
                "commit": commit[:12], "date": f"2026-11-2{day}T10:00:00+00:00",
                "processor_seconds": 1800.0, "seconds": 360.0,
            },
            "device": "cuda" if commit == after else "cpu",
        }
        for day, commit in enumerate((before, rule, after, "0" * 40))
    ]  # fmt: skip
    told = blocks._of_new(log, rule, lines)
    assert told == {"new": 2, "hours": 0.5, "gpu_hours": 0.1, "days": ["2026-11-21 10:00", "2026-11-22 10:00"]}
    assert blocks._of_new(log, "", lines)["new"] == 0


def test_the_hour_of_a_commit_is_that_of_its_author(repository):
    commit = repository.commit()
    repository.git("commit", "--amend", "--no-edit", "--allow-empty", "--date", "2026-11-26T23:30:00-05:00")
    log = gitlog.Log(repository.root)
    assert log.time(log.head) == "2026-11-27 04:30"
    assert commit != log.head


def test_every_pattern_has_its_parts_and_rows():
    stored, rows = history.read()["blocks"], claims.load_all()
    known = blocks.registered()
    for block in blocks.read():
        assert set(block.of_parts(known)) <= set(stored)
        assert len(block.of_rows(rows)) >= len(block.rows)


def test_a_pattern_that_nothing_has_is_refused():
    block = blocks.Block(
        title="", paper="A", parts=["04/nothing_*"], rows=["A.none"], expected="", reckoned=1, found="", came=""
    )
    with pytest.raises(ParameterError, match="04/nothing"):
        block.of_parts(blocks.registered())
    with pytest.raises(ParameterError, match=r"A\.none is no row"):
        block.of_rows(claims.load_all())


def test_a_part_stands_in_the_first_plan_that_has_it():
    known = blocks.registered()
    assert {plan.name for plan in known.values()} == set(blocks.PLANS)
    assert all(list(plan.parts) == [part.partition("/")[2]] for part, plan in known.items())
    assert set(known) >= {f"04/{part}" for part in plans.load("04").parts}
