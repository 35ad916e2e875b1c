"""What a chapter depends on: its own source, exactly the modules it runs, its ledger rows, its frozen results."""

import pytest

from dplib import sources
from dplib.checks import ParameterError


def names(paths):
    return {path.name for path in paths}


def test_modules_are_followed_through_their_imports(toy):
    root = toy("01_a", "plotting.theme()", module="plotting")
    toy("02_b", "stats.mean_interval([1, 2])", module="stats")
    (root / "dplib" / "plotting.py").write_text("def theme():\n    from dplib.far import x\n")
    (root / "dplib" / "far.py").write_text("import numpy\nx = 1\n")
    assert names(sources.depends_on("01_a")) == {"01_a.md", "__init__.py", "checks.py", "plotting.py", "far.py"}
    assert names(sources.depends_on("02_b")) == {"02_b.md", "__init__.py", "checks.py", "stats.py"}


@pytest.mark.parametrize(
    "line", ["import dplib.far", "from dplib import far", "from dplib.far import x", "import dplib.far as f"]
)
def test_every_way_to_import_is_seen(toy, line):
    root = toy("01_a", line, module="checks")
    (root / "dplib" / "far.py").write_text("x = 1\n")
    assert "far.py" in names(sources.depends_on("01_a"))


def test_ledger_and_frozen_results_count_where_named(toy):
    root = toy("01_a", 'claims.record("A.thm6", {"x": 1}, "holds", "r")')
    (root / "book" / "results" / "01_a.real.json").write_text("{}")
    (root / "book" / "results" / "02_b.real.json").write_text("{}")
    found = names(sources.depends_on("01_a"))
    assert {"A.yml", "01_a.real.json"} <= found
    assert not {"B.yml", "02_b.real.json"} & found


def test_digest_follows_content_and_ignores_results(toy):
    root = toy("01_a", 'claims.record("A.thm6", {"x": 1}, "holds", "r")')
    before = sources.digest("01_a")
    (root / "book" / "results" / "01_a.real.json").write_text("{}")
    (root / "dplib" / "unrelated.py").write_text("x = 1\n")
    assert sources.digest("01_a") == before
    with (root / "dplib" / "stats.py").open("a") as module:
        module.write("# a change\n")
    assert sources.digest("01_a") != before


def test_parameters_cell_is_read_without_running_it(toy):
    toy("01_a", "pass")
    assert sources.default_parameters("01_a") == {"epsilon": 5.0, "dataset": "digits"}
    with pytest.raises(ParameterError, match="did you mean epsilon"):
        sources.check_parameter_names("01_a", {"epsilonn": 1})


def test_a_parameters_cell_with_code_is_refused(toy):
    root = toy("01_a", "pass")
    path = root / "notebooks" / "01_a.md"
    path.write_text(path.read_text().replace("epsilon = 5.0", "epsilon = print(5)"))
    with pytest.raises(ParameterError, match="plain values only"):
        sources.default_parameters("01_a")


def test_chapters_resolve_by_name_and_number(toy):
    toy("01_a", "pass")
    assert sources.resolve("01") == sources.resolve("1") == sources.resolve("01_a") == "01_a"
    with pytest.raises(ParameterError, match="'3' does not exist: it must be one of 01_a"):
        sources.resolve("3")


def test_pairs_are_written_only_when_out_of_step(toy):
    toy("01_a", "pass")
    path = sources.write_pair("01_a")
    first = path.stat().st_mtime_ns
    assert sources.write_pair("01_a").stat().st_mtime_ns == first
