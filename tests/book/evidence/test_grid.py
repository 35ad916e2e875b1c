"""Grids from the command line and from YAML."""

import pytest

from book.evidence import grid as sweep_grid
from book.evidence import sweep
from dplib.checks import ParameterError
from tests.book.evidence.sweep_toys import notebook

# Nine lines that stand for a thousand million values.
BOMB = ", ".join(f"&a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(9))
MERGED = ", ".join(f"&a{i + 1} {{<<: [{', '.join([f'*a{i}'] * 10)}]}}" for i in range(9))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.1,0.3,1,3", [0.1, 0.3, 1, 3]),
        ("0:4", [0, 1, 2, 3]),
        ("-1:5:2", [-1, 1, 3]),
        ("mnist,digits", ["mnist", "digits"]),
        ("true,none,1", [True, None, 1]),
        ("[1,2],[3]", [[1, 2], [3]]),
        ("[]", [[]]),
        ("(1, 2)", [[1, 2]]),
        ("'a,b','0:2'", ["a,b", "0:2"]),
        ("'1'", ["1"]),
        ("$(ls)", ["$(ls)"]),
        ("it's", ["it's"]),
        ("{'a': [1]}", [{"a": [1]}]),
    ],
)
def test_values_of_the_command_line(text, found):
    assert [sweep_grid.plain("x", value) for value in sweep_grid.values("x", text)] == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epsilon"], "must be NAME=VALUES.*One run takes `-p NAME VALUE`: python -m book run"),
        (["epsilon=1:3:0.5"], "epsilon = '1:3:0.5' is not allowed: a range such as 0:20:5 has whole numbers alone"),
        (["epsilon=0.1:1e1"], "a range such as 0:20:5 has whole numbers alone"),
        (["epsilonn=1"], "epsilonn is not a parameter of this notebook .did you mean epsilon"),
        (["epsilon=1", "epsilon=2"], "stands twice: give all its values at once"),
        (["epsilon=1,2,1"], "epsilon = 1 stands twice in the grid"),
        (["epsilon=1,1.0"], "epsilon = 1.0 stands twice in the grid"),
        (["epsilon="], "epsilon has no value"),
        (["seed=5:5"], "seed has no value: a range must not end before it begins"),
        (["seed=0:1000000000"], "seed is not allowed: its range has over 20000 values"),
        ([f"seed=0:{'9' * 5000}"], "is not allowed: its numbers are too long"),
        (["seed=0:15000", "epsilon=1,2"], "the grid has 30000 runs, and may have 20000 at most"),
        ([f"epsilon={'9' * 400}"], "epsilon = 999.* is not allowed"),
        (["texts=1],[2"], "cannot be read"),
        (["texts=[1,mnist"], "cannot be read: where there are lists or quotes, quote every text"),
        (["texts=b'x'"], "is not allowed: it must be a number, a text"),
        (["texts=\udcff"], "must be a number, a text in UTF-8"),
    ],
)
def test_what_is_refused(tmp_path, words, message):
    with pytest.raises(ParameterError, match=message):
        sweep_grid.from_words(str(notebook(tmp_path)), words)


def test_a_file_and_the_command_line_mean_the_same(tmp_path):
    source = str(notebook(tmp_path))
    text = (
        "chapter: toy.md\nparameters:\n  epsilon: [0.1, 1]\n  seed: {range: [0, 3]}\n  texts: [[1, 2]]\n  action: 0:2\n"
    )
    (tmp_path / "grid.yml").write_text(text)
    words = ["epsilon=0.1,1", "seed=0:3", "texts=[1,2]", "action='0:2'"]
    file, line = sweep_grid.from_file(tmp_path / "grid.yml"), sweep_grid.from_words(source, words)
    assert list(file.points()) == list(line.points())
    assert len(file) == 6
    assert list(sweep.named(file)) == list(sweep.named(line))
    assert len(sweep.named(file)) == 6
    wanted = {"epsilon": 0.1, "seed": 0, "action": "0:2", "texts": [1, 2], "folder": "."}
    assert next(file.points()) == wanted, "what is not in the grid is as in the parameters cell"


def test_a_chapter_in_a_file_may_be_its_number_without_quotes(tmp_path):
    """Which YAML reads as the number 1."""
    (tmp_path / "grid.yml").write_text("chapter: 01\nparameters: {epsilon: [0.5, 1]}")
    assert sweep_grid.from_file(tmp_path / "grid.yml").chapter == "01_gmm_theory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chapter: toy.md\nparameters: {}\nrun: rm", "a grid has chapter and parameters"),
        ("chapter: toy.md\nparameters: {seed: {range: [0]}}", "range must be"),
        ("chapter: toy.md\nparameters: !!python/object:os.system {}", "cannot be read"),
        ("chapter: none.md\nparameters: {}", "does not exist"),
        (f"chapter: {'x' * 5000}.md\nparameters: {{}}", "xxx.* does not exist: give"),
        ("[" * 3000, "cannot be read"),
        ("chapter: toy.md\nparameters: {texts: &a [*a]}", "cannot be read: it has an alias .* inside"),
        ("chapter: toy.md\nparameters:\n  seed: 1\n  seed: 2", "cannot be read: line 4 has the key seed again"),
        (
            f"chapter: toy.md\nparameters:\n  texts: [&a0 [1], {BOMB}]",
            "with its aliases .* it stands for over",
        ),
        (
            f"chapter: toy.md\nparameters:\n  texts: [&a0 {{a: 1}}, {MERGED}]",
            "with its aliases .* it stands for over",
        ),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    notebook(tmp_path)
    (tmp_path / "grid.yml").write_text(text)
    with pytest.raises(ParameterError, match=message):
        sweep_grid.from_file(tmp_path / "grid.yml")
