"""The table of ``python -m book runs``: what was found once is found again only where something that it follows from
is another."""

import shutil

import pytest

from book.evidence import plan_table, plans, runs, scan, sources

STUDY, EXPERIMENT = "08", "response_priors"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Plans and kept runs of one study in folders of their own; the studies that were gone through."""
    gone_through, found = [], plan_table._found
    for module, name in ((plans, "PLANS"), (runs, "KEPT"), (runs, "STORE")):
        monkeypatch.setattr(module, name, tmp_path / name.lower())
    shutil.copytree(sources.KEPT, runs.KEPT)
    plans.PLANS.mkdir()
    shutil.copy(sources.PLANS / f"{STUDY}.yml", plans.PLANS)
    monkeypatch.setattr(scan, "STORE", tmp_path / "scan.json")
    monkeypatch.setattr(plan_table, "_found", lambda study: gone_through.append(study) or found(study))
    return gone_through


def _changed_plan():
    path = plans.PLANS / f"{STUDY}.yml"
    path.write_text(path.read_text() + "\nempty: {}\n")


def _changed_runs():
    path = runs.KEPT / f"{EXPERIMENT}.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def _filed_run():
    (runs.STORE / EXPERIMENT).mkdir(parents=True)
    (runs.STORE / EXPERIMENT / "0.json").write_text("{}")


@pytest.mark.parametrize("change", [_changed_plan, _changed_runs, _filed_run])
def test_a_study_is_gone_through_again_where_it_changed_and_only_there(asked, change):
    first = plan_table.lines()
    assert plan_table.lines() == first
    assert asked == [STUDY]
    change()
    second = plan_table.lines()
    assert asked == [STUDY, STUDY]
    assert (second != first) == (change is not _filed_run)  # a file of the store that no plan asks for adds nothing


def test_code_counts_and_comments_do_not(asked, monkeypatch):
    plan_table.lines()
    facts, module = sources._facts, sources.module_files(plans.module_name(STUDY))[-1]
    told = {"does": "another", "says": "other comments"}
    for field, again in (("says", 1), ("does", 2)):
        other = type(facts(module))(**{**vars(facts(module)), field: told[field]})
        monkeypatch.setattr(sources, "_facts", lambda path, other=other: other if path == module else facts(path))
        plan_table.lines()
        assert len(asked) == again
