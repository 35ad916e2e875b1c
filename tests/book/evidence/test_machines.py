"""What runs were made on stands once beside their lines, and whoever reads a line sees all of it."""

import json
import multiprocessing
import subprocess

import pytest

from book.evidence import machines, merging, runs
from tests import run_toys

train = run_toys.train
FACTS = {"processor": "P", "capability": "AVX2", "threads": 1, "versions": {"python": "3.11.7", "torch": "2.13.0"}}


@pytest.fixture(autouse=True)
def folder(run_folder):
    machines._facts.cache_clear()
    return run_folder


def line(seed, processor="P", **more):
    """A line of a machine; ``more`` are further facts of its own."""
    made = {"seconds": 0.5, "processor_seconds": 0.25, "date": "2026-11-27T10:00:00+00:00", "commit": "0123456789ab"}
    job = {"size": 1.0, "seed": seed}
    return {
        **runs.identity(train, job),
        "result": {"accuracy": seed / 8},
        "made": made | FACTS | {"processor": processor} | more,
    }


def kept(folder, name="toy"):
    return (folder / "kept" / f"{name}.jsonl").read_text(encoding="utf-8")


def tables(folder):
    return sorted((folder / "kept").glob(machines.FILES))


def as_texts(lines):
    return "".join(f"{runs.as_text(each)}\n" for each in lines)


def test_a_line_is_read_as_it_was_made_and_its_machine_is_written_once(folder):
    of_gpu = {
        "gpu": "H100",
        "driver": "550",
        "cuda": "12.8",
        "cudnn": 91002,
        "precision": {"matmul": "ieee"},
        "many": 20,
    }
    lines = [line(0), line(1), line(2, "Q"), line(3, **of_gpu)]
    for each in lines:
        runs.file(each)
    (path, *_) = (folder / "store" / "toy").iterdir()
    assert '"versions":{' in path.read_text(), "what is filed says all itself"
    assert runs.keep() == {"toy": 4}
    assert as_texts(runs.lines("toy")) == as_texts(lines), "to the byte, in its order"
    assert [runs.line(train, {"size": 1, "seed": seed}) for seed in range(4)] == lines
    assert [json.loads(path.read_text())["processor"] for path in tables(folder)].count("P") == 2
    assert len(tables(folder)) == 3
    text = kept(folder)
    assert not [name for name in machines.FACTS if f'"{name}"' in text]
    first = json.loads(text.splitlines()[0])["made"]
    assert first == {
        **{name: lines[0]["made"][name] for name in first if name != "machine"},
        "machine": first["machine"],
    }
    assert (folder / "kept" / f"machine-{first['machine']}.json").exists()
    assert runs.summary("toy") == (4, ["0123456789ab"])


def test_lines_of_before_are_read_and_are_short_once_the_file_is_written(folder):
    lines = [line(0), line(1, "Q"), {**line(2), "made": {"seconds": 1.0, "processor_seconds": 1.0}}]
    (folder / "kept").mkdir()
    (folder / "kept" / "toy.jsonl").write_text(as_texts(lines))
    assert (runs.lines("toy"), tables(folder)) == (lines, [])
    assert runs.merge("toy", [line(1, "another, the first one stays")]) == 0
    assert kept(folder) == as_texts(lines)
    runs.remove("toy", [])
    assert as_texts(runs.lines("toy")) == as_texts(lines)
    assert (len(tables(folder)), "versions" in kept(folder)) == (2, False)
    before = kept(folder)
    runs.remove("toy", [])
    assert kept(folder) == before


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text('{"processor": "Q"}\n')])
def test_a_machine_that_is_not_there_or_another_one_is_an_error_with_its_line(folder, damage):
    runs.merge("toy", [line(0), line(1, "Q")])
    before = kept(folder)
    (of_q,) = (path for path in tables(folder) if '"Q"' in path.read_text())
    damage(of_q)
    for use in (lambda: runs.lines("toy"), lambda: runs.merge("toy", [line(2)])):
        with pytest.raises(
            runs.StoreError, match=rf"toy.jsonl, line 2: it refers to {of_q}, which is not there, or not"
        ):
            use()
    assert kept(folder) == before
    with pytest.raises(runs.StoreError, match="line 2"):
        runs.read(train, [{"size": 1, "seed": 0}])


def test_a_damaged_machine_is_written_anew_with_the_next_line_of_it(folder):
    runs.merge("toy", [line(0)])
    (path,) = tables(folder)
    path.write_text("{")
    assert runs.merge("other", [line(1)]) == 1
    assert (runs.lines("other"), runs.lines("toy")) == ([line(1)], [line(0)])


@pytest.mark.parametrize("odd", ["0" * 12, "../../x", "x" * 5000, "\0", 7, None, [], {}])
def test_no_reference_leads_out_of_the_folder_or_ends_in_another_error(folder, odd):
    (folder / "kept").mkdir()
    short = {**line(0), "made": {"seconds": 1, "processor_seconds": 1, "commit": "0123456789ab", "machine": odd}}
    (folder / "kept" / "toy.jsonl").write_text(as_texts([short]))
    with pytest.raises(runs.StoreError, match=r"toy.jsonl, line 1"):
        runs.lines("toy")
    (folder / "kept" / "toy.jsonl").rename(folder / "back.jsonl")
    counts, (refused,) = merging.merge(folder / "back.jsonl")
    assert (counts, f"{folder}/back.jsonl, line 1" in refused) == ({}, True)
    runs.file(short)
    with pytest.raises(runs.StoreError, match="damaged"):
        runs.keep()


def test_the_machine_is_there_before_a_line_refers_to_it(folder, monkeypatch):
    runs.file(line(0))

    def killed(path, text):
        assert path.name == "toy.jsonl"
        assert len(tables(folder)) == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            runs.keep()
    assert (runs.names(), runs.filed("toy")) == ([], [line(0)])
    assert runs.keep() == {"toy": 1}
    assert runs.lines("toy") == [line(0)]


def _keep_some(processor):
    """Of each of two experiments ten runs, kept one by one."""
    for seed in range(10 * processor, 10 * processor + 10):
        for name in ("toy", f"toy{processor % 2}"):
            runs.merge(name, [line(seed, f"P{processor}", threads=1 + seed % 2)])


def test_processes_that_keep_at_once_lose_nothing(folder):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_keep_some, range(4), chunksize=1)
    found = {each["job"]["seed"]: each for each in runs.lines("toy")}
    assert found == {seed: line(seed, f"P{seed // 10}", threads=1 + seed % 2) for seed in range(40)}
    assert [len(runs.lines(name)) for name in ("toy0", "toy1")] == [20, 20]
    assert len(tables(folder)) == 8


def test_branches_that_kept_runs_of_one_machine_and_of_others_merge(folder):
    def git(*words):
        command = ["git", "-C", str(folder), "-c", "user.name=T", "-c", "user.email=t@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def branch(name, lines):
        git("switch", "-qc", name, "base")
        runs.merge(name, lines)
        git("add", "kept"), git("commit", "-qm", name)

    runs.merge("toy", [line(0)])
    git("init", "-qb", "base"), git("add", "kept"), git("commit", "-qm", "base")
    branch("left", [line(0), line(1, "Q"), line(2, "R")])
    branch("right", [line(3, "Q"), line(4, "S")])
    git("merge", "-q", "--no-edit", "left")
    assert runs.lines("left") == [line(0), line(1, "Q"), line(2, "R")]
    assert runs.lines("right") == [line(3, "Q"), line(4, "S")]
    assert len(tables(folder)) == 4


def test_what_a_clone_kept_comes_home_whole_and_alone_it_is_refused(folder, monkeypatch):
    commit = "0123456789ab" + "c" * 28
    monkeypatch.setattr("book.evidence.execution.log", lambda: frozenset([commit]))
    home = runs.KEPT
    monkeypatch.setattr(runs, "KEPT", clone := folder / "clone" / "book" / "runs")
    lines = [
        runs.as_line(train, {"size": 1, "seed": seed}, {"n": 1}, seconds=1, processor_seconds=1) for seed in range(2)
    ]
    lines = [{**each, "made": each["made"] | {"commit": commit[:12]}} for each in lines]
    runs.merge("toy", lines)
    assert "versions" not in (clone / "toy.jsonl").read_text()
    monkeypatch.setattr(runs, "KEPT", home)
    alone = folder / "alone.jsonl"
    alone.write_text((clone / "toy.jsonl").read_text())
    counts, refused = merging.merge(alone)
    assert (counts, len(refused)) == ({}, 2)
    assert f"{alone}, line 1: it refers to {folder}/machine-" in refused[0]
    assert merging.merge(folder / "clone") == ({"toy": 2}, [])
    assert runs.lines("toy") == lines
    assert merging.merge(folder / "clone") == ({}, [])
    assert [path.read_bytes() for path in tables(folder)] == [path.read_bytes() for path in clone.glob(machines.FILES)]
