"""A grid of runs from end to end, with a toy notebook: failures stay alone, nothing runs twice, values stay data."""

import hashlib
import json
import shutil
import subprocess
import time

import pandas as pd
import pytest
import yaml

from tests.book.evidence.sweeps import toys as sweep_toys

# Folders are data too: nothing of this name may be run, or be taken for a template.
ODD = 'it\'s {a} $(touch owned) "folder"'

NASTY = [
    "", " ", "'", '"', "'''", '"""', "\\", "\\n", "\\'", '\\"', "a\nb", "\r", "\r\n", "\t", "\x00", "\x1b[31m",
    "\x7f", "$(touch owned)", "`touch owned`", "; touch owned", "| touch owned", "&& touch owned", "> owned",
    "$HOME", "${HOME}", "~", "*", "?", "[!a]", "!ls", "%run owned", "?print", "../../owned", "/etc/passwd", "..",
    "C:\\owned", "file:///x", "{wildcards.key}", "{a}", "{{a}}", "{0}", "{", "}", "{output}", "%s", "%(x)s", "%%",
    "#", "# Parameters\n", "--help", "-p", "=", "a=b", ":", "0:20", ",", "a,b", "[1, 2]", "(1,)", "{'a': 1}",
    "None", "True", "nan", "1e5", "0x10", "1_000", "None\nimport os", '")\nraise SystemExit\n("',
    "'; import os; os.system('touch owned')", "f'{1}'", "__import__('os')", "!!python/object:os.system", "&a", "*a",
    "- a", "a: b", "|", ">", "<script>alert(1)</script>", "</td>", "&amp;", "é", "é", "Ελ", "日本", "🙂", "\u202eabc",
    "\ufeff", "\u2028", "\u200b", "\xa0", "\U0010ffff", "ﬀ", "ß", "İ", "x" * 10_000, "🙂" * 2_500, "\\" * 1_000,
    "'\"" * 500, "\n" * 1_000, "```", "```{code-cell}", "+++", "---", "%%bash\nls",
]  # fmt: skip


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A sweep in which every kind of point fails once, in a folder with an awkward name."""
    source = sweep_toys.notebook(tmp_path_factory.mktemp("sweep") / ODD)
    words = ["-p", "action=fine,raise,memory,kill", "-p", f'folder="{source.parent.parent}"', "-p", "epsilon=1,-1"]
    return source, words, sweep_toys.sweep(source, *words, "--cores", "2")


def test_a_failing_point_fails_alone(failing):
    source, _, done = failing
    assert done.returncode == 1, done.stderr
    found = {(row["action"], row["epsilon"]): (row["status"], row["reason"]) for row in sweep_toys.table(source)}
    assert len(found) == 8
    assert found["fine", "1"] == ("done", "")
    assert found["raise", "1"] == ("failed", "ValueError: as it was told")
    assert found["memory", "1"][0] == "failed"
    assert found["memory", "1"][1].startswith("MemoryError")
    assert found["kill", "1"] == ("killed", "the notebook's kernel was killed: out of memory?")
    for action in ("fine", "raise", "memory", "kill"):
        status, reason = found[action, "-1"]
        assert status == "refused"
        assert reason == "epsilon = -1 is not allowed: it must be a finite number greater than 0."
    assert "1 done; 2 failed; 1 killed; 4 refused." in done.stdout


def test_the_table_the_index_and_the_folders(failing):
    source, _, _ = failing
    out = source.parent / "out"
    frame = pd.read_parquet(out / "table.parquet")
    assert list(frame["key"]) == [row["key"] for row in sweep_toys.table(source)]
    assert frame["A.thm6.risk"].tolist()[0] == 1.0
    assert frame["epsilon"].dtype == "Int64"
    index = (out / "index.html").read_text(encoding="utf-8")
    assert index.count("executed</a>") == 1
    assert index.count("up to the failed cell</a>") == 7
    assert not [path for path in (source.parent / "store").rglob("*") if "part" in path.name or path.suffix == ".lock"]
    assert not list(out.glob(".work-*"))
    assert not list(source.parent.rglob("owned"))


def test_retry_failed_makes_the_failed_ones_only(failing):
    source, words, _ = failing
    finished = [path for path in (source.parent / "store").rglob("*.json") if ".failed" not in path.name]
    before = {path: path.stat().st_mtime_ns for path in finished}
    again = sweep_toys.sweep(source, *words, "--dry-run")
    assert "8 runs: 1 done, 7 failed before, 0 to do." in again.stdout
    assert (
        "8 runs: 1 done, 0 failed before, 7 to do; roughly"
        in sweep_toys.sweep(source, *words, "--dry-run", "--retry-failed").stdout
    )
    (source.parent.parent / "mended").touch()
    done = sweep_toys.sweep(source, *words, "--cores", "2", "--retry-failed")
    assert done.returncode == 1
    assert "4 done; 4 refused." in done.stdout
    assert {path: path.stat().st_mtime_ns for path in finished} == before
    assert {row["status"] for row in sweep_toys.table(source) if row["epsilon"] == "1"} == {"done"}


def test_a_refused_sweep_leaves_nothing(tmp_path):
    source = sweep_toys.notebook(tmp_path)
    refused = sweep_toys.sweep(source, "-p", "seed=1", "--executor", "nowhere")
    assert refused.returncode == 2
    assert "Error: executor = 'nowhere' is not allowed" in refused.stderr
    assert not (source.parent / "out").exists()


def test_a_hundred_texts_arrive_unchanged(tmp_path):
    """As a list in one run, and some as runs of their own; from YAML, where a text is itself."""
    assert len(set(NASTY)) >= 100
    source = sweep_toys.notebook(tmp_path)
    grid = {"chapter": "toy.md", "parameters": {"texts": [NASTY, *NASTY[16:19]]}}
    (tmp_path / "grid.yml").write_text(yaml.safe_dump(grid, default_style='"'), encoding="utf-8")
    words = sweep_toys.command(source, "--cores", "2")
    words[words.index(str(source))] = str(tmp_path / "grid.yml")
    done = subprocess.run(words, capture_output=True, text=True, env=sweep_toys.env(), cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    wanted = [hashlib.sha256(json.dumps(texts).encode()).hexdigest() for texts in grid["parameters"]["texts"]]
    rows = sweep_toys.table(source)
    assert [row["A.thm6.sha"] for row in rows] == wanted
    assert json.loads(rows[0]["texts"]) == NASTY
    assert [row["texts"] for row in rows[1:]] == NASTY[16:19]
    frame = pd.read_parquet(tmp_path / "out" / "table.parquet")
    assert json.loads(frame["texts"][0]) == NASTY
    assert not list(tmp_path.rglob("owned"))


def test_two_at_once_in_one_folder_and_one_that_overlaps(tmp_path):
    """The second waits and says for whom; the third shares runs with both while they are at work."""
    source = sweep_toys.notebook(tmp_path)
    grid = ["-p", "seed=0:4", "-p", "action=slow"]
    first, second = (_start(source, *grid) for _ in range(2))
    third = _start(source, "-p", "seed=2:5", "-p", "action=slow", out="other")
    outputs = [process.communicate(timeout=600) for process in (first, second, third)]
    assert [process.returncode for process in (first, second, third)] == [0, 0, 0], outputs
    said = [error for _, error in outputs[:2] if "Another sweep works in" in error]
    assert len(said) == 1
    assert str(first.pid) in said[0] or str(second.pid) in said[0] or "it just began" in said[0]
    assert [row["seed"] for row in sweep_toys.table(source)] == list("0123")
    shared = {row["key"]: row["seconds"] for row in sweep_toys.table(source)}
    others = {row["key"]: row["seconds"] for row in sweep_toys.table(source, "other")}
    assert len(shared.keys() & others.keys()) == 2
    assert all(shared[key] == others[key] for key in shared.keys() & others.keys()), "a shared run ran twice"


def test_a_full_disk_fails_one_run_alone(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted here: only root may")
    try:
        source = sweep_toys.notebook(disk)
        done = sweep_toys.sweep(source, "-p", "action=fine,large", "-p", "seed=0:1")
        found = {row["action"]: (row["status"], row["reason"]) for row in sweep_toys.table(source)}
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.returncode == 1, done.stderr
    assert found["fine"] == ("done", "")
    assert found["large"] == ("failed", "OSError: [Errno 28] No space left on device")


def test_a_source_that_changes_under_the_sweep_stops_it(tmp_path):
    """Else the run would be filed under code that it did not run."""
    source = sweep_toys.notebook(tmp_path)
    done = sweep_toys.sweep(source, "-p", "action=edit", "-p", f"folder='{tmp_path}'")
    assert done.returncode == 2
    assert done.stderr.endswith("Error: A source behind the notebook changed during the sweep: start it again.\n")
    assert not list((tmp_path / "store").rglob("*.json"))


def _start(source, *words, **folders):
    process = subprocess.Popen(
        sweep_toys.command(source, *words, **folders), stderr=subprocess.PIPE, text=True, env=sweep_toys.env()
    )
    time.sleep(0.1)
    return process
