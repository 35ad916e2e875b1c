"""The store: addresses follow content, files appear whole, a lock ends with its holder."""

import json
import subprocess
import sys

import pytest

from book.evidence import claims, sources
from book.evidence.sweeps import store as sweep_store
from book.evidence.sweeps import worker
from book.evidence.sweeps.store import Store
from dplib import files
from tests.book.evidence.sweeps.toys import NOTEBOOK, notebook


def test_an_address_follows_what_decides_a_run(tmp_path, toy):
    chapter = str(notebook(tmp_path).with_suffix(""))
    code = sweep_store.code(chapter)
    assert {name.rsplit("/", 1)[1] for name in code.files} == {"toy.md", "__init__.py", "checks.py"}
    base = sweep_store.key(code.digest, {"epsilon": 1.0, "dataset": "mnist"})
    assert base == sweep_store.key(code.digest, {"dataset": "mnist", "epsilon": 1.0})
    others = [{"epsilon": 2.0, "dataset": "mnist"}, {"epsilon": 1.0, "dataset": "kmnist"}, {"epsilon": 1.0}]
    assert base not in {sweep_store.key(code.digest, other) for other in others}
    (tmp_path / "toy.md").write_text(NOTEBOOK + "\nMore text.\n")
    assert not code.is_current()
    assert sweep_store.key(sweep_store.code(chapter).digest, {"epsilon": 1.0, "dataset": "mnist"}) != base


def test_an_address_follows_the_checksum_of_the_data(monkeypatch):
    runs = [{"dataset": "mnist"}, {"more": [["mnist"]]}, {"dataset": "none"}]
    before = [sweep_store.key("code", run) for run in runs]
    monkeypatch.setattr(sweep_store, "_checksums", lambda: {"mnist": ["sha256", "other"]})
    after = [sweep_store.key("code", run) for run in runs]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]


def test_a_module_that_a_chapter_does_not_import_changes_nothing(toy):
    root = toy("01_a", "x = 1")
    before = sweep_store.code("01_a")
    (root / "dplib" / "gmm.py").write_text("# changed\n")
    assert sweep_store.code("01_a") == before
    (root / "dplib" / "stats.py").write_text((root / "dplib" / "stats.py").read_text() + "# changed\n")
    assert sweep_store.code("01_a").digest != before.digest
    assert set(sweep_store.code("01_a").files) == set(map(str, sources.depends_on("01_a")))


def test_a_result_replaces_a_failure_and_counts_once_whole(tmp_path):
    store, key = Store(tmp_path), "ab" * 32
    store.keep_failure(key, "failed", "reason")
    assert store.failure(key) == {"status": "failed", "reason": "reason"}
    part = tmp_path / "part.ipynb"
    part.write_text("executed")
    store.keep(key, {"seconds": 1.0}, part)
    assert store.finished(key) == {"seconds": 1.0}
    assert store.failure(key) is None
    assert sorted(path.name for path in (tmp_path / "ab").iterdir()) == [f"{key}.ipynb", f"{key}.json"]


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    files.publish(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.publish(path, "new \udcff")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from dplib import files\n"
        "with files.locked(Path(sys.argv[1]), blocking=True):\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError), files.locked(path, blocking=False):
        pass
    holder.kill()
    holder.communicate()
    with files.locked(path, blocking=False):
        pass


def test_errors_of_the_body_are_not_the_locks(tmp_path):
    with pytest.raises(FileNotFoundError), Store(tmp_path).alone("ab" * 32):
        (tmp_path / "nothing").read_text()
    assert not list(tmp_path.rglob("*.lock"))


def test_the_worker_reads_records_where_claims_puts_them():
    assert (worker.RECORD, worker.ANSWER) == (claims.RECORD, claims.ANSWER)


def test_a_reason_is_one_line_and_short():
    assert worker.reason("two\n  lines") == "two lines"
    assert len(worker.reason("x" * 10_000)) == worker.LONGEST
    assert worker.reason(MemoryError()) == "MemoryError"
    assert json.dumps(worker.reason("ε"))
