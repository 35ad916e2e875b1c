"""A grid of runs from end to end, with a toy notebook: failures stay alone, nothing runs twice, values stay data."""

import hashlib
import json
import subprocess

import pytest
import yaml

from tests.book.evidence import sweep_toys

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
    words = ["-p", "action=fine,raise,kill,refuse", "-p", f'folder="{source.parent.parent}"']
    return source, words, sweep_toys.sweep(source, *words, "--cores", "2")


def test_a_failing_point_fails_alone_and_is_made_again_alone(failing):
    source, words, done = failing
    assert done.returncode == 1, done.stderr
    rows = {row["action"]: row for row in sweep_toys.table(source)}
    statuses = {"fine": "done", "raise": "failed", "kill": "killed", "refuse": "refused"}
    assert {action: row["status"] for action, row in rows.items()} == statuses
    assert rows["raise"]["reason"] == "ValueError: as it was told"
    assert "action" in rows["refuse"]["reason"]
    assert "1 done; 1 failed; 1 killed; 1 refused" in done.stdout
    assert "4 runs: 1 done, 3 failed before, 0 to do" in sweep_toys.dry_run(source, *words)
    fine = source.parent / "out" / "runs" / f"{rows['fine']['key']}.json"
    before = fine.stat().st_mtime_ns
    (source.parent.parent / "mended").touch()
    done = sweep_toys.sweep(source, *words, "--cores", "2", "--retry-failed")
    assert "3 done; 1 refused" in done.stdout, done.stdout + done.stderr
    assert fine.stat().st_mtime_ns == before
    assert not list(source.parent.parent.rglob("owned"))


def test_a_hundred_texts_arrive_unchanged(tmp_path):
    """As a list in one run, and some as runs of their own; from YAML, where a text is itself."""
    assert len(set(NASTY)) >= 100
    source = sweep_toys.notebook(tmp_path)
    grid = {"chapter": "toy.md", "parameters": {"texts": [NASTY, NASTY[17]]}}
    (tmp_path / "grid.yml").write_text(yaml.safe_dump(grid, default_style='"'), encoding="utf-8")
    words = sweep_toys.command(source, "--cores", "2")
    words[words.index(str(source))] = str(tmp_path / "grid.yml")
    done = subprocess.run(words, capture_output=True, text=True, env=sweep_toys.env(), cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    wanted = [hashlib.sha256(json.dumps(texts).encode()).hexdigest() for texts in grid["parameters"]["texts"]]
    rows = sweep_toys.table(source)
    assert [row["A.thm6.sha"] for row in rows] == wanted
    assert json.loads(rows[0]["texts"]) == NASTY
    assert [row["texts"] for row in rows[1:]] == [NASTY[17]]
    assert not list(tmp_path.rglob("owned"))
