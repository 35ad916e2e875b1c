"""A site of which only pages with something new were written is the site that is made from nothing."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from sphinx.util.parallel import ParallelTasks
from sphinxcontrib.bibtex.citation_target import parse_citation_targets
from sphinxcontrib.bibtex.roles import CitationRef

from book.evidence import sources
from book.press import finish, render, unchanged, week_slides
from tests.conftest import ROOT

PAGES = {
    "intro": "# A book\n\nSee {ref}`there <place>`, {ref}`a square <drawn>` and {prf:ref}`known`.\n",
    "first": (
        "# First\n\nSome text, {cite}`DworkRoth2014`.\n\n"
        "(place)=\n## A place\n\n```{figure} square.png\n:name: drawn\n\nA square.\n```\n\n"
        "```{include} part.md\n```\n"
    ),
    "second": "# Second\n\n```{prf:theorem}\n:label: known\n\nIt is so, {cite}`DworkRoth2014`.\n```\n"
    "\n```{exercise-start}\n:label: try\n```\n\nTry it.\n\n```{exercise-end}\n```\n",
    "third": "# Third\n\n{doc}`first`.\n\n```{bibliography}\n```\n",
}


def book(folder: Path, **pages: str) -> Path:
    """A small book with this one's configuration."""
    for name in ("_static", "_templates"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name, dirs_exist_ok=True)
    shutil.copy(ROOT / "_config.yml", folder)
    (folder / "book" / "references.bib").write_text(
        "@book{DworkRoth2014, author={A. B}, title={C}, publisher={D}, year={2014}}"
    )
    contents = {"format": "jb-book", "root": "intro", "chapters": [{"file": name} for name in list(PAGES)[1:]]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(contents))
    shutil.copy(next((ROOT / "book" / "_static").rglob("*.png")), folder / "square.png")
    for name, text in {**PAGES, "part": "A part.\n", **pages}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def built(source: Path, folder: Path, machine: str = "same", cores: int = 1) -> set[str]:
    """Build the book in a folder; the pages that were written."""
    every = not unchanged.begin(folder, source, machine)
    html = folder / "_build" / "html"
    before = {path: path.stat().st_mtime_ns for path in html.glob("*.html")}
    assert render.render(source, folder, fresh=every, cores=cores)
    now = {path: path.stat().st_mtime_ns for path in html.glob("*.html")}
    return {path.stem for path in now if now[path] != before.get(path)} & PAGES.keys()


def texts(folder: Path) -> dict[str, bytes]:
    site = folder / "site"
    finish.finish(folder / "_build" / "html", site)
    return {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}


TITLE = PAGES["first"].replace("# First", "# The first")
MORE = PAGES["second"].replace("# Second\n", "# Second\n\nMore.\n")
EDITS = {
    "prose and an included file": ({"second": MORE, "part": "New.\n"}, {"first", "second"}),
    # Then its citations are the last that were read, and in the first build they are not.
    "an included file of the first page that cites": ({"part": "New.\n"}, {"first"}),
    "a title": ({"first": TITLE}, set(PAGES)),
    "an anchor": ({"third": PAGES["third"] + "\n(mark)=\n## More\n"}, set(PAGES)),
    "a citation": ({"third": PAGES["third"] + "\n{cite}`DworkRoth2014`\n"}, set(PAGES)),
    "a number": ({"second": PAGES["second"] + "\n```{prf:theorem}\n:label: new\n\nSo.\n```\n"}, set(PAGES)),
}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a book, and of a build of it."""
    folder = tmp_path_factory.mktemp("first")
    source = book(folder / "source")
    assert built(source, folder / "built") == set(PAGES)
    shutil.copytree(folder / "built", folder / "kept")
    return folder


# These two are long: as of a title and of an anchor, every page is written anew.
LONG = ("a citation", "a number")


@pytest.mark.parametrize("edit", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in EDITS])
def test_after_an_edit_the_site_is_the_one_that_is_made_from_nothing(edit, first, tmp_path):
    pages, written = EDITS[edit]
    shutil.rmtree(first / "built")  # in folders of other names Sphinx would begin anew
    shutil.copytree(first / "kept", first / "built")
    source = book(first / "source", **pages)
    assert built(source, first / "built") == written | {"intro"}
    assert built(source, tmp_path) == set(PAGES)
    found, wanted = texts(first / "built"), texts(tmp_path)
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process writes all pages")
def test_two_processes_write_what_one_writes_and_are_as_strict(first, tmp_path, monkeypatch, capfd):
    began = []
    start = ParallelTasks.add_task
    monkeypatch.setattr(ParallelTasks, "add_task", lambda *given: began.append(given) or start(*given))
    source = book(first / "source")
    assert built(source, tmp_path / "two", cores=2) == set(PAGES)
    assert began
    shutil.rmtree(first / "built")
    shutil.copytree(first / "kept", first / "built")
    assert texts(tmp_path / "two") == texts(first / "built")
    for wrong in ("{ref}`nowhere`", "[there](first.md#nowhere)", "{doc}`nowhere`", "{cite}`Nobody2000`"):
        assert not render.render(book(source, second=f"# Second\n\n{wrong}\n"), tmp_path / "two", cores=2)
        assert "nowhere" in (said := capfd.readouterr().err) or "Nobody2000" in said
    twice = "# Second\n\n```{prf:theorem}\n:label: known\n\nSo.\n```\n"
    assert not render.render(book(source, second=PAGES["second"], third=twice), tmp_path / "two", cores=2)
    assert "known" in capfd.readouterr().err


def test_what_a_page_keeps_for_itself_is_not_shared():
    def told(refs, **metadata):
        env = SimpleNamespace(domaindata={"cite": {"citation_refs": refs}}, metadata={"page": metadata})
        return unchanged.shared(env)

    ref = CitationRef("id1", "page", 3, list(parse_citation_targets("a")))
    other, later = ref._replace(docname="other"), ref._replace(citation_ref_id="id2")
    before = told([ref, later, other], dplib="{one}", wordcount={"words": 3}, myst_slugs={"a": 1})
    assert told([other, ref, later], dplib="{two}", wordcount={"words": 4}, myst_slugs={"a": 1}) == before
    assert told([ref._replace(line=9), later, other], myst_slugs={"a": 1}) == before
    for refs in ([later, ref, other], [ref, other], [ref._replace(targets=[]), later, other]):
        assert told(refs, myst_slugs={"a": 1}) != before, "order on a page, and what is cited, are"
    assert told([ref, later, other], myst_slugs={"b": 1}) != before


def test_decks_are_rendered_where_something_is_new(tmp_path, monkeypatch):
    looks, rendered = tmp_path / "looks", []
    looks.mkdir()
    (looks / "slides.css").write_text("one")

    def render(pages):
        rendered.append(pages)
        week_slides.RENDERED.mkdir(exist_ok=True)
        (week_slides.RENDERED / "index.html").write_text(str(len(rendered)))
        assert (looks / "slides.css").read_text() != "broken"

    for name, value in {
        "LOOKS": looks, "SOURCE": tmp_path / "source", "RENDERED": tmp_path / "week-slides", "_render": render,
    }.items():  # fmt: skip
        monkeypatch.setattr(week_slides, name, value)

    def times(machine="a"):
        folder = week_slides.build(tmp_path, None, machine)
        assert (folder / "index.html").read_text() == str(len(rendered))
        return len(rendered)

    assert [times(), times(), times("b"), times("b")] == [1, 1, 2, 2]
    (looks / "slides.css").write_text("two")
    assert [times("b"), times("b")] == [3, 3]
    (looks / "slides.css").write_text("broken")
    for _ in range(2):
        with pytest.raises(AssertionError):
            times("b")
    assert len(rendered) == 5
    (looks / "slides.css").write_text("two")
    assert times("b") == 6, "what a failure left is nothing to go on from"


def test_a_page_with_a_docstring_is_read_again_where_it_says_something_else(tmp_path, monkeypatch):
    source, module = tmp_path / "build" / "source", tmp_path / "package" / "module.py"
    for folder in (source, module.parent):
        folder.mkdir(parents=True)
    monkeypatch.setitem(sources.PACKAGES, "package", module.parent)
    (source / "page.md").write_text("one")
    module.write_text('"""One."""\n')
    (tmp_path / "other.py").write_text("")
    shown = ["../../other.py", "../../package/module.py", "page.md"]
    state = {"files": unchanged.contents(source, shown), "pages": {"page": shown, "second": ["second.md"]}}
    assert sorted(state["files"]) == shown[1:], "what is no module of the project is of the machine"
    for text, pages in {
        '"""One."""  # a comment\n': set(), '"""Two."""\n': {"page"}, '"""One."""\n': set(), "": {"page"}
    }.items():  # fmt: skip
        module.write_text(text)
        assert unchanged.edited(state, source) == pages
    module.unlink()
    assert unchanged.edited(state, source) == {"page"}


def test_in_doubt_all_is_made_anew(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    for name in ("page.md", "part.md", "data.json"):
        (source / name).write_text("one")
    state = {"machine": "a", "files": unchanged.contents(source), "pages": {"page": ["page.md", "part.md"]}}

    def begins(machine="a", kept=state):
        folder.mkdir(exist_ok=True)
        (folder / "begun-state.json").unlink(missing_ok=True)
        (folder / "page.html").write_text("one")
        if kept:
            (folder / "state.json").write_text(json.dumps(kept))
        begun = unchanged.begin(folder, source, machine)
        assert begun == (folder / "page.html").exists()
        assert not (folder / "state.json").exists(), "a build that fails is none to go on from"
        return begun

    assert begins()
    assert not begins("b")
    assert not begins(kept=None)
    (source / "part.md").write_text("two")
    assert unchanged.edited(state, source) == {"page"}
    assert begins()
    (source / "data.json").write_text("two")
    assert not begins(), "no page says that it includes it"
    (source / "data.json").unlink()
    assert not begins()
    (source / "data.json").write_text("one")
    (source / "new.md").write_text("one")
    assert not begins()
