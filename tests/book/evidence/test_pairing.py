"""Source and notebook of a chapter: whichever was edited counts, by content; where both were, nothing is lost."""

import itertools
import os

import nbformat
import pytest

from book.evidence import pairing, sources
from dplib.checks import ParameterError

MINE, THEIRS = "A toy, as its source has it", "A toy, as its notebook has it"


@pytest.fixture
def chapter(toy):
    root = toy("01_a", "pass")
    source = root / "notebooks" / "01_a.md"
    return source, pairing.pair("01_a")


def texts(chapter):
    return [path.read_text() for path in chapter]


def edit(path, words):
    """The text of the first cell, as an editor would leave it."""
    before = path.read_text()
    path.write_text(before.replace("A toy", words, 1))
    assert path.read_text() != before


def test_content_tells_which_was_edited_whatever_the_times_say(chapter):
    whole = texts(chapter)
    for newer, edited in itertools.product((0, 1), ((), (0,), (1,), (0, 1))):
        for path, text in zip(chapter, whole, strict=True):
            path.write_text(text)
        for which in edited:
            edit(chapter[which], (MINE, THEIRS)[which])
        for which, path in enumerate(chapter):
            os.utime(path, ns=(10**18, 10**18 + (which == newer) * 10**9))
        before, times = texts(chapter), [path.stat().st_mtime_ns for path in chapter]
        if edited == (0, 1):
            with pytest.raises(ParameterError, match=r"01_a\.md and .*01_a\.ipynb were both edited"):
                pairing.pair("01_a")
        else:
            pairing.pair("01_a")
        after = texts(chapter)
        if edited in ((), (0, 1)):
            assert (after, [path.stat().st_mtime_ns for path in chapter]) == (before, times)
            continue
        assert all((MINE, THEIRS)[edited[0]] in text for text in after)
        assert after[1] == pairing.normal("01_a")[0]
        pairing.pair("01_a")
        assert texts(chapter) == after


def test_by_force_the_source_counts(chapter):
    for path, words in zip(chapter, (MINE, THEIRS), strict=True):
        edit(path, words)
    pairing.pair("01_a", force=True)
    assert all(MINE in text for text in texts(chapter))


def test_the_same_edit_on_both_sides_is_no_quarrel(chapter):
    for path in chapter:
        edit(path, MINE)
    assert pairing.pair("01_a").read_text() == pairing.normal("01_a")[0]


def test_a_notebook_without_the_digest_is_taken_where_it_says_the_same_and_left_where_not(chapter):
    notebook = nbformat.read(chapter[1], as_version=4)
    del notebook.metadata["dplib"]
    nbformat.write(notebook, chapter[1])
    assert pairing.pair("01_a").read_text() == pairing.normal("01_a")[0]
    nbformat.write(notebook, chapter[1])
    edit(chapter[1], THEIRS)
    before = texts(chapter)
    with pytest.raises(ParameterError, match="do not say the same"):
        pairing.pair("01_a")
    assert texts(chapter) == before


def test_what_is_half_a_merge_is_said_and_left(chapter):
    for text in (
        "<<<<<<< HEAD\n{}\n",
        "",
        "[]",
        '{"cells": 3}',
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": []}',
    ):
        chapter[1].write_text(text)
        with pytest.raises(ParameterError, match="cannot be read as a notebook"):
            pairing.pair("01_a")
        assert chapter[1].read_text() == text
    chapter[1].write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="cannot be read as a notebook"):
        pairing.pair("01_a")


def as_jupyter_saves(notebook):
    """A run, with what an editor notes of it."""
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text="seen\n")]
    code.execution_count = 7
    code.metadata |= {"collapsed": False, "execution": {"iopub.status.busy": "2026-01-01T00:00:00Z"}, "scrolled": True}
    notebook.metadata.language_info = {"name": "python", "version": "3.13.1", "pygments_lexer": "ipython3"}


def test_a_run_of_the_notebook_is_no_edit_and_its_outputs_stay(chapter):
    notebook = nbformat.read(chapter[1], as_version=4)
    as_jupyter_saves(notebook)
    nbformat.write(notebook, chapter[1])
    before = texts(chapter)
    pairing.pair("01_a")
    assert texts(chapter) == before
    edit(chapter[1], THEIRS)
    pairing.pair("01_a")
    source, kept = texts(chapter)
    assert THEIRS in source
    assert "seen" in kept
    assert "seen" not in source
    pairing.pair("01_a")
    assert texts(chapter) == [source, kept]
    chapter[0].write_text(source.replace(THEIRS, MINE))
    pairing.pair("01_a")
    assert "seen" not in chapter[1].read_text()


CELLS = {
    "code": nbformat.v4.new_code_cell("x = '''\n```\n'''\n\n\ny = 2"),
    "tagged": nbformat.v4.new_code_cell("show(3)", metadata={"tags": ["hide-input", "mine"]}),
    "empty": nbformat.v4.new_code_cell(""),
    "text": nbformat.v4.new_markdown_cell("Words,\n\n```{figure} a.png\n```\n\n+ a list"),
    "text with a mark": nbformat.v4.new_markdown_cell("Words", metadata={"tags": ["mine"]}),
    "raw": nbformat.v4.new_raw_cell("as it is"),
    "text of a header": nbformat.v4.new_markdown_cell("---\na: 1\n---"),
    "plus": nbformat.v4.new_markdown_cell("+++\nwhat follows"),
    "umlaut": nbformat.v4.new_markdown_cell("Größe, \u2028 \\r"),
}


def test_cells_that_somebody_adds_come_into_the_source_and_others_keep_their_text(chapter):
    before = texts(chapter)
    for first, second in itertools.pairwise([*CELLS, *CELLS]):
        for path, text in zip(chapter, before, strict=True):
            path.write_text(text)
        notebook = nbformat.read(chapter[1], as_version=4)
        notebook.cells[1:1] = [nbformat.from_dict(dict(CELLS[name])) for name in (first, second)]
        nbformat.write(notebook, chapter[1])
        wanted = pairing._content(notebook)
        pairing.pair("01_a")
        assert pairing._cells(sources.as_notebook(chapter[0])) == wanted, (first, second)


@pytest.mark.parametrize("name", ["09", "13"])
def test_a_chapter_that_was_not_edited_would_be_written_as_it_is(name):
    source = sources.source(sources.resolve(name))
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    written = pairing.as_source(notebook, source)
    assert [line for line in written.splitlines() if line] == [line for line in source.read_text().splitlines() if line]
