"""A value means the same in a file as on the command line."""

import math

import pytest

from dplib import files


@pytest.mark.parametrize(
    "text",
    [
        "1e-5", "1e-1", "-.5", "+1e3", "1.", "0x1f", "3", "-3", "0.25", "true", "False", "no", "on", "1:30", "a word",
        "1_000", "1_000.5", "1__0", "_1", "0b11", "0o17", "017", "inf", "-inf", "Inf", ".inf", "-.INF", "null", "~",
        "infinity", "2026-11-27", "1/3", "1e", "e5", ".", "00", "-0", "+.5", "1E5", "yes", "nano", "nullable",
    ],
)  # fmt: skip
def test_a_file_and_the_command_line_agree(text, tmp_path):
    (tmp_path / "grid.yml").write_text(f"epsilon: [{text}]\ndelta: {text}\n")
    read_ = files.read(tmp_path / "grid.yml")
    given = files.value(text)
    assert read_ == {"epsilon": [given], "delta": given}
    assert type(read_["delta"]) is type(given)


def test_yaml_says_what_has_no_value_and_what_is_octal(tmp_path):
    (tmp_path / "a.yml").write_text("a: ~\nb:\nc: 0o17\nd: 010\ne: 2026-11-26\nf: .inf\n")
    read_ = files.read(tmp_path / "a.yml")
    assert read_ == {"a": None, "b": None, "c": 15, "d": 10, "e": "2026-11-26", "f": float("inf")}


@pytest.mark.parametrize("text", ["nan", ".nan", "NaN"])
def test_what_is_no_number_is_none_in_both(text, tmp_path):
    (tmp_path / "a.yml").write_text(f"a: {text}\n")
    assert math.isnan(files.value(text))
    assert math.isnan(files.read(tmp_path / "a.yml")["a"])
