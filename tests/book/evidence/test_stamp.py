"""The stamp of a build: it holds while nothing was written, and never where anything is to be done."""

import os
import shutil
from pathlib import Path

import pytest

from book.evidence import stamp
from tests.conftest import ROOT

MAKE = ("--quiet", "rules", "host", "--cores", "all", "--rerun-incomplete", "--max-checksum-file-size", "9", "site")
CHAPTER = Path("executed/01_a.ipynb")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder like the project's, with a site, in which one is."""
    for name in (".snakemake/x", "dplib/a.py", "book/b/c.md", "notebooks/01_a.md", "Snakefile", CHAPTER, stamp.SITE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stamp, "_SETTLED", 0)
    for name in stamp._ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def build(arguments=MAKE, end=0, during=lambda: None):
    """A run of Snakemake that makes the site."""
    with pytest.raises(type(end) if isinstance(end, BaseException) else SystemExit), stamp.renewed(arguments):  # noqa: PT012
        during()
        stamp.SITE.write_text("made")
        raise end if isinstance(end, BaseException) else SystemExit(end)


def rewrite(path, text="new", *, same_time=True):
    """Write a text of the same length in a file's place, as one that hides it would."""
    before = path.stat()
    path.write_text(text)
    if same_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_it_holds_until_something_is_written_and_for_these_arguments_alone(tree, monkeypatch):
    assert not stamp.holds(MAKE)
    build()
    assert stamp.holds(MAKE)
    assert stamp.holds(("--cores", "1", "executed"))
    for others in ((*MAKE[:-1], "--forceall", "site"), ("-n", *MAKE), (*MAKE, "--unlock"), MAKE[:-1], ("01_a",), ()):
        assert not stamp.holds(others)
    (tree / "dplib" / "__pycache__").mkdir()
    (tree / "dplib" / "__pycache__" / "a.pyc").touch()
    assert stamp.holds(MAKE), "Python writes these"
    monkeypatch.setenv("DPBOOK_RUNS", "elsewhere")
    assert not stamp.holds(MAKE)


@pytest.mark.parametrize(
    "change",
    [
        lambda: rewrite(Path("dplib/a.py")),
        lambda: rewrite(Path("dplib/a.py"), "old", same_time=False),
        lambda: rewrite(Path("book/b/c.md")),
        lambda: rewrite(Path("Snakefile")),
        lambda: rewrite(CHAPTER),
        lambda: rewrite(stamp.SITE, "tidy"),
        lambda: Path("dplib/a.py").unlink(),
        lambda: Path("dplib/a.py").rename("dplib/b.py"),
        lambda: Path("dplib/new.py").touch(),
        lambda: Path("notebooks/plans/x").mkdir(parents=True) or Path("notebooks/plans/x/01.yml").touch(),
        lambda: Path("_toc.yml").touch(),
        lambda: Path("executed/02_b.ipynb").touch(),
        lambda: Path("book/link").symlink_to("nowhere"),
        CHAPTER.unlink,
        stamp.SITE.unlink,
        lambda: shutil.rmtree("book/b"),
        lambda: shutil.copy2("dplib/a.py", "copy") and os.replace("copy", "dplib/a.py"),
        lambda: stamp.STAMP.write_text("{"),
        lambda: stamp.STAMP.write_text("{}"),
        stamp.STAMP.unlink,
    ],
)
def test_whatever_was_written_is_for_snakemake_to_judge(tree, change):
    build()
    assert stamp.holds(MAKE)
    change()
    assert not stamp.holds(MAKE)


@pytest.mark.parametrize(
    "how",
    [
        {"end": 1},
        {"end": KeyboardInterrupt()},
        {"end": RuntimeError("a job that was killed")},
        {"arguments": ("--cores", "1", "executed")},
        {"arguments": ("-n", *MAKE)},
        {"during": lambda: rewrite(Path("notebooks/01_a.md"))},
        {"during": Path("dplib/new.py").touch},
    ],
)
def test_a_run_that_did_not_make_all_of_what_is_there_leaves_none(tree, how):
    build()
    build(**how)
    assert not stamp.holds(MAKE)
    assert not stamp.STAMP.exists()


def test_a_chapter_that_is_newer_than_the_site_or_a_source_that_was_just_written_leaves_none(tree, monkeypatch):
    later = stamp.SITE.stat().st_mtime_ns + 10**12
    os.utime(CHAPTER, ns=(later, later))
    build()
    assert not stamp.holds(MAKE)
    os.utime(CHAPTER, ns=(0, 0))
    build()
    assert stamp.holds(MAKE)
    monkeypatch.setattr(stamp, "_SETTLED", 60 * 10**9)  # the system's clock may tick as slowly
    build()
    assert not stamp.holds(MAKE)


def test_every_place_that_chapters_and_site_are_made_from_is_looked_at():
    from book.evidence import sources

    files = {*sources.site_files(), *(path for chapter in sources.chapters() for path in sources.depends_on(chapter))}
    assert {path.relative_to(ROOT).parts[0] for path in files} <= set(stamp.SOURCES)
