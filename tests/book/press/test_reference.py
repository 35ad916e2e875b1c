"""Docstrings in the library's reference say what they say: no mark of theirs is taken for markup."""

import pytest

from book.press import reference


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("scales by C / |g|, at most 2 * n", r"scales by C / \|g\|, at most 2 \* n"),
        ("``|g| * 2`` and :func:`weights_` stay", "``|g| * 2`` and :func:`weights_` stay"),
        ("keras_weights_ in place, x_train not", r"keras_weights\_ in place, x_train not"),
    ],
)
def test_marks_stand_for_themselves(written, shown):
    lines = [written]
    reference._as_it_reads(None, "function", "f", None, None, lines)
    assert lines == [shown]
