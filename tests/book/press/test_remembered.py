"""What is remembered is made anew as soon as anything that it is made from is another."""

import io
import multiprocessing
import os
import sys

import pytest
from PIL import Image

from book.evidence import sources
from book.press import finish, remembered


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty store, and a process that has asked for nothing."""
    monkeypatch.setattr(remembered, "STORE", tmp_path / "store")
    monkeypatch.setattr(remembered, "_used", set())
    remembered._today.cache_clear()
    yield remembered.STORE
    remembered._today.cache_clear()


def png(colour: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(stream, "PNG", compress_level=0)
    return stream.getvalue()


def test_a_figure_is_made_small_once(store, monkeypatch):
    made, small = [], finish._smaller
    monkeypatch.setattr(finish, "_smaller", lambda figure: made.append(figure) or small(figure))
    for colour in ("red", "red", "blue", "red"):
        assert finish.smaller(png(colour)) == small(png(colour))
    assert made == [png("red"), png("blue")]


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-1], lambda b: b.replace(b"one", b"two"), lambda b: b"", lambda b: b"\xff"]
)
def test_what_is_not_whole_is_made_again(spoil, store):
    assert remembered.text("a", lambda: "one") == "one"
    (kept,) = store.iterdir()
    kept.write_bytes(spoil(kept.read_bytes()))
    assert remembered.text("a", lambda: "new") == "new"
    assert remembered.text("a", lambda: "never") == "new"


def test_a_computed_text_is_of_the_files_as_they_are(store, tmp_path, monkeypatch):
    code = tmp_path / "code.py"
    code.write_text("x = 1")
    monkeypatch.setattr(remembered, "_files", lambda: set(tmp_path.glob("*.py")))

    def text(name, make):
        remembered._today.cache_clear()  # as a process begins
        return remembered.computed(name, make)

    assert [text("a", lambda: "one"), text("a", lambda: "two"), text("b", lambda: "other")] == ["one", "one", "other"]
    code.write_text("x = 2")
    assert text("a", lambda: "two") == "two"
    (tmp_path / "new.py").write_text("")
    assert text("a", lambda: "three") == "three"
    (tmp_path / "new.py").unlink()
    assert text("a", lambda: "never") == "two"


def test_what_was_made_while_a_file_was_written_is_not_kept(store, tmp_path, monkeypatch):
    code = tmp_path / "code.py"
    code.write_text("x = 1")
    monkeypatch.setattr(remembered, "_files", lambda: set(tmp_path.glob("*.py")))

    def make():
        code.write_text("x = 2")
        return "of both"

    assert remembered.computed("a", make) == "of both"
    code.write_text("x = 1")
    remembered._today.cache_clear()
    assert remembered.computed("a", lambda: "of one") == "of one"


def test_folders_are_filled_with_the_same_files(store, tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "_files", set)
    made = []

    def make(first, second):
        made.append(1)
        (first / "a.png").write_bytes(png("red"))
        (second / "b.txt").write_text("b")

    for name in ("one", "two"):
        folders = [tmp_path / name / "first", tmp_path / name / "second"]
        for folder in folders:
            folder.mkdir(parents=True)
        remembered.filled("both", folders, make)
        assert (folders[0] / "a.png").read_bytes() == png("red")
        assert [path.name for folder in folders for path in folder.iterdir()] == ["a.png", "b.txt"]
    assert made == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is made ahead")
def test_what_was_made_ahead_is_found_and_what_failed_fails_where_it_is_asked_for(store, tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "_files", set)

    def maker(name):
        def make():
            (tmp_path / f"{name} {os.getpid()}").touch()
            return f"{1 / (name != 'fails')}"

        return lambda: remembered.computed(name, make)

    names = ["one", "fails", "two", "three"]
    with remembered.ahead([*map(maker, names), lambda: os._exit(1)], cores=2):
        pass
    made = sorted(path.name.split() for path in tmp_path.iterdir() if path != store)
    assert [name for name, _ in made] == sorted(names)
    assert str(os.getpid()) not in {process for _, process in made}
    assert [maker(name)() for name in ("one", "two", "three")] == ["1.0"] * 3
    assert len(list(tmp_path.iterdir())) == len(names) + 1, "found, and not made again"
    with pytest.raises(ZeroDivisionError):
        maker("fails")()
    assert multiprocessing.active_children() == []


def test_with_one_core_nothing_is_made_ahead(store):
    with remembered.ahead([lambda: remembered.text("a", lambda: "one")], cores=1):
        pass
    assert not store.exists()


def test_what_nobody_asks_for_goes(store, monkeypatch):
    for name in ("a", "b"):
        remembered.text(name, lambda: "one")
    monkeypatch.setattr(remembered, "_used", set())
    remembered.text("a", lambda: "never")
    remembered.forget_others()
    assert remembered.text("a", lambda: "never") == "one"
    assert remembered.text("b", lambda: "anew") == "anew"


def test_every_module_run_plan_row_and_result_counts_and_no_page():
    counted = remembered._files()
    folders = (sources.KEPT, sources.PLANS, sources.CLAIMS, sources.RESULTS)
    wanted = {path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"}
    wanted |= set(sources.PACKAGES["papers"].rglob("*.py")) | {
        sources.PACKAGES["book"] / "press" / "dials_account.json"
    }
    assert wanted - counted == set()
    assert {path for path in counted if path.suffix == ".md"} == set()
