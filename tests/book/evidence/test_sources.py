"""What a chapter depends on: its own source, exactly the modules it runs, its ledger rows, benchmarks that it names."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from book.evidence import places, scan, sources
from book.evidence.places import ROOT
from dplib.checks import ParameterError


def names(paths):
    return {path.name for path in paths}


def test_modules_are_followed_through_their_imports(toy):
    root = toy("01_a", "mechanisms.theme()", module="mechanisms")
    toy("02_b", "stats.mean_interval([1, 2])", module="stats")
    (root / "dplib" / "mechanisms.py").write_text("def theme():\n    from dplib.far import x\n")
    (root / "dplib" / "far.py").write_text("import numpy\nx = 1\n")
    assert names(sources.depends_on("01_a")) == {"01_a.md", "__init__.py", "checks.py", "mechanisms.py", "far.py"}
    assert names(sources.depends_on("02_b")) == {"02_b.md", "__init__.py", "checks.py", "stats.py"}


def test_chapters_stand_in_the_order_of_the_contents(toy, tmp_path, monkeypatch):
    """They were sorted by name: a chapter before chapter 0 could not be had."""
    for name in ("00_a", "00a_before", "02_new", "01_b"):
        toy(name, "pass")
    pages = "".join(f"      - file: notebooks/{name}\n" for name in ("00a_before", "00_a", "01_b"))
    contents = tmp_path / "_toc.yml"
    contents.write_text(f"root: book/intro\nparts:\n  - caption: All\n    chapters:\n{pages}")
    monkeypatch.setattr(sources, "CONTENTS", contents)
    assert sources.chapters() == ["00a_before", "00_a", "01_b", "02_new"]
    assert [sources.shown_number(name) for name in sources.chapters()] == ["0a", "0", "1", "2"]
    assert sources.resolve("0a") == "00a_before"
    assert sources.resolve("0") == "00_a"


@pytest.fixture
def rooms(toy):
    """A scratch project with a package inside dplib and one beside it, which import each other."""
    root = toy("01_a", "pass")
    for name, text in {
        "dplib/room/__init__.py": "from dplib.room.first import x\n",
        "dplib/room/first.py": "from dplib.outside import z\nx = 1\n",
        "dplib/room/apart.py": "x = 1\nWORDS = 'apart.toml'\n",
        "dplib/room/apart.toml": "",
        "dplib/room/unrelated.py": "x = 1\n",
        "dplib/outside.py": "z = 1\n",
        "book/press/__init__.py": "",
        "book/press/boxes.py": "from dplib.room.apart import x\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import dplib.room", set()),
        ("from dplib import room", set()),
        ("from dplib.room import x", set()),
        ("import dplib.room.apart as a", {"room/apart.py"}),
        ("from dplib.room import apart", {"room/apart.py"}),
        ("from dplib.room.apart import x", {"room/apart.py"}),
    ],
)
def test_modules_in_packages_are_followed(rooms, line, expected):
    wanted = {"__init__.py", "room/__init__.py", "room/first.py", "outside.py"} | expected
    assert sources._closure(scan.facts(line).imports) == {rooms / "dplib" / name for name in wanted}
    others = "import numpy.room\nfrom numpy import room\nfrom dplibrary import room\nimport pressed"
    assert sources._closure(scan.facts(others).imports) == set()


def test_the_press_is_followed_and_the_data_files_that_it_names(rooms):
    values = {path.relative_to(rooms).as_posix() for path in sources.module_files("book.press.boxes")}
    assert {"book/press/__init__.py", "book/press/boxes.py", "dplib/room/apart.py", "dplib/__init__.py"} <= values
    path = rooms / "notebooks" / "01_a.md"
    path.write_text(path.read_text().replace("from book.evidence import claims", "from book.press import boxes"))
    assert {rooms / "book/press/boxes.py", rooms / "dplib/room/apart.toml"} <= set(sources.depends_on("01_a"))


def test_every_module_that_a_chapter_loads_is_known():
    """What Python itself loads from this project, against what the imports say."""
    program = (
        "import sys, pathlib; import {0}; "
        "print(*[m.__file__ for m in list(sys.modules.values()) if m.__name__.partition('.')[0] in {1!r}], sep='\\n')"
    )
    for module in ("book.evidence.runs", "papers.common.network_runs"):
        command = [sys.executable, "-c", program.format(module, tuple(sources.PACKAGES))]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
        assert set(map(Path, loaded)) <= set(sources.module_files(module)), module


def test_ledger_and_benchmarks_count_where_named(toy):
    root = toy("01_a", 'claims.recorder("quick")("A.thm6", x=len("bench_a.json"))')
    for name in "ab":
        (root / "book" / "results" / f"bench_{name}.json").write_text("{}")
    names_ = names(sources.depends_on("01_a"))
    assert {"A.yml", "bench_a.json"} <= names_
    assert not {"B.yml", "bench_b.json"} & names_


def test_digest_follows_content_and_ignores_results(toy):
    root = toy("01_a", 'claims.recorder("quick")("A.thm6", x=len("bench_a.json"))')
    before = sources.digest("01_a")
    (root / "book" / "results" / "bench_a.json").write_text("{}")
    (root / "dplib" / "unrelated.py").write_text("x = 1\n")
    assert sources.digest("01_a") == before
    with (root / "dplib" / "stats.py").open("a") as module:
        module.write("# a change\n")
    assert sources.digest("01_a") != before


@pytest.mark.parametrize(
    ("text", "runs", "renders"),
    [
        (
            '"""Far."""\n\n# why\nX = [1,\n     2]  # two\n\n\ndef f():\n    """One."""\n    return "# 1"\n',
            False,
            False,
        ),
        ('"""Near."""\nX = [1, 2]\ndef f():\n    """Another."""\n    return "# 1"\n', False, True),
        ('"""Far."""\nX = [1, 3]\ndef f():\n    """One."""\n    return "# 1"\n', True, True),
        ('"""Far."""\nX = [1, 2]\ndef f():\n    """One."""\n    return "# 2"\n', True, True),
        ('"""Far."""\nX = [1, 2]\ndef f():\n    ("""One.""")\n    "and"\n    return "# 1"\n', True, True),
        ('"""Far."""\nX = [1, 2.0]\ndef f():\n    """One."""\n    return "# 1"\n', True, True),
        ('"""Far."""\nX = [1, 2]\ndef f():\n    return "# 1"', False, True),
        ('"""Far."""\nX = [1, 2]\ndef f():\n    return "# 1', True, True),
    ],
)
def test_a_comment_runs_nothing_a_docstring_is_a_page_and_code_runs_its_readers(toy, text, runs, renders):
    root = toy("01_a", "mechanisms.theme()", module="mechanisms")
    toy("02_b", "stats.mean_interval([1, 2])", module="stats")
    module = root / "dplib" / "mechanisms.py"
    module.write_text('"""Far."""\nX = [1, 2]\ndef f():\n    """One."""\n    return "# 1"\n')
    before = sources.inputs("01_a"), sources.inputs("02_b"), sources.fingerprint([module])
    module.write_text(text)
    if not text.endswith('"# 1'):  # which is no Python
        assert (sources.inputs("01_a") != before[0]) == runs
    assert sources.inputs("02_b") == before[1], "it does not read that module"
    assert (sources.fingerprint([module]) != before[2]) == renders


def test_a_comment_in_this_project_runs_no_chapter_and_code_exactly_the_readers(monkeypatch):
    changed = sources.PACKAGES["dplib"] / "stats.py"
    before = {chapter: sources.inputs(chapter) for chapter in sources.chapters()}
    readers = {chapter for chapter in before if changed in sources.depends_on(chapter)}
    assert readers
    read = Path.read_text
    added = ""
    monkeypatch.setattr(Path, "read_text", lambda path, **how: read(path, **how) + added * (path == changed))
    for added, runs in (("\n# A comment.\n", set()), ("\nX = 1\n", readers)):  # noqa: B007
        assert {chapter for chapter in before if sources.inputs(chapter) != before[chapter]} == runs


def test_nothing_that_a_chapter_runs_reads_docstrings_or_source():
    """They are no part of what a chapter depends on. What becomes a page's script is a tree, without them."""
    for path in {path for chapter in sources.chapters() for path in sources.depends_on(chapter)}:
        if path.suffix in (".py", ".md") and path.name != "to_script.py":
            assert not re.search(r"__doc__|getdoc|getsource|getcomments", path.read_text(encoding="utf-8")), path


def test_what_was_read_is_kept_by_content_and_of_this_reader_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "STORE", store := tmp_path / "scan.json")

    def asked(key):
        made = []
        value = scan.remembered(key, lambda: made.append(key) or {"x": key})
        scan._keep(store)
        scan._known.cache_clear()
        return value == {"x": key}, bool(made)

    assert [asked("a"), asked("a"), asked("b"), asked("a")] == [
        (True, True),
        (True, False),
        (True, True),
        (True, False),
    ]
    for text in ("", "[]", "{", store.read_text().replace('"by": "', '"by": "0')):
        store.write_text(text)
        assert [asked("a"), asked("a")] == [(True, True), (True, False)]
    monkeypatch.setattr(scan, "MOST", 2)
    assert [asked("b"), asked("c"), asked("a"), asked("b")] == [(True, True), (True, True), (True, True), (True, True)]
    store.unlink()
    monkeypatch.setattr(scan, "STORE", store := tmp_path / "away" / "scan.json")
    assert [asked("a"), asked("a")] == [(True, True), (True, True)]


def test_parameters_cell_is_read_without_running_it(toy):
    path = toy("01_a", "pass") / "notebooks" / "01_a.md"
    assert sources.default_parameters("01_a") == {"epsilon": 5.0, "dataset": "digits"}
    with pytest.raises(ParameterError, match="did you mean epsilon"):
        sources.check_parameter_names("01_a", {"epsilonn": 1})
    path.write_text(path.read_text().replace("epsilon = 5.0", "epsilon = print(5)"))
    with pytest.raises(ParameterError, match="plain values only"):
        sources.default_parameters("01_a")


def test_chapters_resolve_by_name_and_number(toy):
    toy("00_o", "pass")
    toy("01_a", "pass")
    assert sources.resolve("00") == sources.resolve("0") == "00_o"
    assert (sources.number("00_o"), sources.shown_number("00_o")) == ("00", "0")
    assert sources.resolve("01") == sources.resolve("1") == sources.resolve("01_a") == "01_a"
    with pytest.raises(ParameterError, match="'3' does not exist: it must be one of 00_o, 01_a"):
        sources.resolve("3")


def test_the_runs_of_a_rooms_experiments_count(rooms, monkeypatch):
    monkeypatch.setattr(sources, "KEPT", rooms / "book" / "runs")
    (rooms / "dplib" / "room" / "first.py").write_text('@runs.experiment(\n    "toy", version=1)\ndef f(): ...\n')
    (rooms / "book" / "runs").mkdir()
    for name in ("toy", "another"):
        (rooms / "book" / "runs" / f"{name}.jsonl").write_text("")
    path = rooms / "notebooks" / "01_a.md"
    path.write_text(path.read_text().replace("from book.evidence import claims", "from dplib import room"))
    names_ = names(sources.depends_on("01_a"))
    assert {"first.py", "toy.jsonl"} <= names_
    assert "another.jsonl" not in names_


def test_a_file_that_was_written_and_given_its_old_time_was_written(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("a = 1")
    before, old = sources.state([path]), path.stat().st_mtime_ns
    assert sources.written(before, [path]) == []
    time.sleep(0.05)  # a system counts in some milliseconds
    path.write_text("a = 2")
    path.write_text("a = 1")
    os.utime(path, ns=(old, old))
    assert sources.written(before, [path]) == ["module.py"]


def test_code_is_the_same_text_under_every_python():
    """So that a chapter which was executed under one is up to date under another, and so is the history of rules."""
    tree = ast.parse("def f(x, *, y=None):\n    return f'{x:>{y}}' or []\n")
    assert scan.dumped(tree) == (
        "Module(body=[FunctionDef(name='f', args=arguments(args=[arg(arg='x')], kwonlyargs=[arg(arg='y')], "
        "kw_defaults=[Constant()]), body=[Return(value=BoolOp(op=Or(), values=[JoinedStr(FormattedValue("
        "value=Name(id='x', ctx=Load()), conversion=-1, format_spec=JoinedStr(Constant(value='>'), "
        "FormattedValue(value=Name(id='y', ctx=Load()), conversion=-1)))), List(ctx=Load())]))])])"
    )
    assert scan.dumped(ast.parse("f(None)")) != scan.dumped(ast.parse("f()"))
    assert scan.dumped(ast.parse("f(0)")) != scan.dumped(ast.parse("f(False)"))


def test_another_folder_than_the_books_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CONTENTS", tmp_path / "_toc.yml")
    with pytest.raises(ParameterError, match=r"_toc\.yml is not there"):
        sources.chapters()
    places.check()
    for name in ("DPBOOK_ROOT", "DPBOOK_RUNS"):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(tmp_path / "typo"))
            with pytest.raises(ParameterError, match=f"{name} = .*typo is not a folder"):
                places.check()
