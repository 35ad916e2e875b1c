"""Lines that come back from elsewhere: each is checked, conflicts are named, and nothing is lost."""

import json

import pytest

from book.evidence import execution, merging, replay, runs
from dplib.checks import ParameterError
from tests import run_toys
from tests.book.evidence.test_replay import dplib

train = run_toys.train
COMMIT = "0123456789ab" + "c" * 28


@pytest.fixture(autouse=True)
def folder(run_folder, monkeypatch):
    facts = {"processor": "toy", "capability": "none", "versions": {"torch": "2"}}
    monkeypatch.setattr(runs, "machine", lambda device="cpu": {"commit": COMMIT[:12], "threads": 1, **facts})
    monkeypatch.setattr(execution, "log", lambda: frozenset([COMMIT]))
    return run_folder


def lines(seeds):
    return [runs.made(train, {"size": 1, "seed": seed}) for seed in seeds]


def texts(*lines):
    return "".join(f"{line if isinstance(line, str) else runs.as_text(line)}\n" for line in lines)


def tree(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_a_clone_made_and_kept_is_merged_and_the_clone_stays_as_it_is(folder):
    first, second, third = lines(range(3))
    clone = folder / "clone"
    kept, store = clone / "book" / "runs", clone / "_build" / "store" / "toy"
    kept.mkdir(parents=True), store.mkdir(parents=True)
    (kept / "toy.jsonl").write_text(texts(first, second))
    (kept / "probes.json").write_text("{}")
    (store / "a.json").write_text(runs.as_text(third))
    (store / "a.lock").write_text("")
    runs.merge("toy", [first])
    before = tree(clone)
    assert dplib("keep", "--from", str(clone)) == f"{folder}/kept/toy.jsonl: 2 new, 3 in all.\n"
    assert runs.lines("toy") == [first, second, third]
    assert tree(clone) == before
    assert dplib("keep", "--from", str(clone)) == f"No new runs in {clone}.\n"


@pytest.mark.parametrize("named", ["", "lines.jsonl"])
def test_lines_of_a_machine_without_a_repository(folder, named):
    (folder / "back").mkdir()
    (folder / "back" / "lines.jsonl").write_text(texts(*lines(range(2))))
    assert merging.merge(folder / "back" / named) == ({"toy": 2}, [])
    assert len(runs.read(train, [{"size": 1, "seed": 0}, {"size": 1, "seed": 1}])) == 2


def changed(line, **fields):
    """A line with other values at "field" or "field__key"."""
    line = json.loads(runs.as_text(line))
    for place, value in fields.items():
        field, _, key = place.partition("__")
        if key:
            line[field][key] = value
        else:
            line[field] = value
    return line


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda line: runs.as_text(line)[:-7], "line of a run"),  # a machine went while it wrote
        (lambda line: "[]", "line of a run"),
        (lambda line: runs.as_text(line).replace('"accuracy":', '"accuracy":NaN,"other":'), "result"),
        (lambda line: changed(line, more=1), "more"),
        (lambda line: changed(line, experiment="other"), "experiment"),
        (lambda line: changed(line, version=2), "version"),
        (lambda line: changed(line, device="tpu"), "device"),
        (lambda line: changed(line, data__digits="0" * 16), "data"),
        (lambda line: changed(line, job__size=1), "job"),  # an integer, of another key
        (lambda line: changed(line, job__bigger=1), "bigger"),
        (lambda line: changed(line, made__commit="unknown"), "commit"),
        (lambda line: changed(line, made__commit="ffffffffffff"), "commit"),
        (lambda line: changed(line, made__commit="0"), "commit"),
        (lambda line: changed(line, made__seconds="abc"), "made.seconds = 'abc' is not allowed"),
        (lambda line: changed(line, made__date=5), "made.date = 5 is not allowed"),
        (lambda line: changed(line, made__versions=None), "made.versions = None is not allowed"),
        (lambda line: json.dumps({**json.loads(runs.as_text(line)), "result": {}}), "its result is empty"),
        (lambda line: changed(line, result__accuracy=0.5), "another result"),
    ],
)
def test_what_is_refused_is_named_and_takes_no_others_with_it(folder, wrong, named):
    first, second = lines(range(2))
    conflict = named == "another result"
    if conflict:
        runs.merge("toy", [first])
    (folder / "back.jsonl").write_text(texts(wrong(first), second))
    told = dplib("keep", "--from", str(folder / "back.jsonl"), status=1)
    (refused,) = [line for line in told.splitlines() if line.startswith("REFUSED")]
    assert f"{folder}/back.jsonl, line 1" in refused
    assert named in refused
    assert runs.lines("toy") == [first, second] if conflict else [second]


def test_two_results_for_one_job_in_what_came_back(folder):
    (first,) = lines([0])
    (folder / "back.jsonl").write_text(texts(first, changed(first, result__accuracy=0.5)))
    counts, refused = merging.merge(folder / "back.jsonl")
    assert (counts, len(refused), runs.lines("toy")) == ({"toy": 1}, 1, [first])


def test_a_run_of_a_changed_tree_is_kept_as_what_it_says(folder):
    (first,) = lines([0])
    (folder / "back.jsonl").write_text(texts(changed(first, made__commit=f"{COMMIT[:12]}-dirty")))
    assert merging.merge(folder / "back.jsonl") == ({"toy": 1}, [])


def test_a_folder_without_lines_is_refused(folder):
    (folder / "empty").mkdir()
    with pytest.raises(ParameterError, match="from"):
        merging.merge(folder / "empty")


def test_stored_lines_of_an_older_version_come_back_without_a_word(folder):
    """A clone has all that is kept here, also what no plan could make today."""
    old = changed(lines([0])[0], version=0, job__gone=1)
    runs.merge("toy", [old])
    assert merging.merge(folder / "kept") == ({}, [])
    assert list(replay.differences(runs.lines("toy"), [old])) == []


def test_a_clone_that_keeps_its_runs_meanwhile_has_them_all_the_same(folder, monkeypatch):
    first, second = lines(range(2))
    kept, store = folder / "book" / "runs", folder / "_build" / "store" / "toy"
    kept.mkdir(parents=True), store.mkdir(parents=True)
    (store / "a.json").write_text(runs.as_text(first))
    (store / "b.json").write_text(runs.as_text(second))
    read = merging.jobs.parsed

    def keeping(text):
        (kept / "toy.jsonl").write_text(texts(first, second))
        (store / "b.json").unlink(missing_ok=True)
        return read(text)

    monkeypatch.setattr(merging.jobs, "parsed", keeping)
    assert merging.merge(folder) == ({"toy": 2}, [])
