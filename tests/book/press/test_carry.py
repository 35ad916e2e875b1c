"""Taking the book along: the zip, the notebooks in it, the document behind the PDF, the PDF itself."""

import errno
import json
import os
import re
import subprocess
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from packaging.specifiers import SpecifierSet

from book.evidence import claims
from book.evidence.execution import RunError
from book.press import finish, pdf, pdf_pages, run_page
from book.press.ledger import Row
from tests.conftest import ROOT, needs_chromium

HEAD = """<head><link rel="stylesheet" href="../_static/book.css?v=1"><script>window.MathJax = {}</script>
<script class="mathjax" type="text/plain" src="../_static/mathjax/tex.js"></script></head>"""
ONE = """<article class="bd-article"><section id="one"><h1>One<a class="headerlink" href="#one">#</a></h1>
<p>See <a href="two.html#same">two</a>, <a href="../prf.html">the index</a>, <a href="https://example.org/">outside</a>.</p>
<section id="same"><h2>A &lt; B</h2><p><a href="#same">here</a></p><img src="../_images/a.png" alt="a"></section>
<div class="cell"><details class="hide"><div class="cell_input">a secret = 1</div><details>b</details></details></div>
<div class="exercise admonition" id="ex"><p>Do it.</p></div>
<div class="solution dropdown admonition" id="n/one-solution-1"><p>To <a href="#ex">Exercise 1</a></p><p>Done.</p></div>
<div class="cell tag_hide-cell"><details class="hide"><summary>Show</summary><p>Its check.</p></details></div>
<p><a href="two.html#nowhere">gone</a></p></section></article>"""
TWO = """<article class="bd-article"><section id="two"><h1>Two</h1><section id="same"><h2>Same</h2></section></section>
</article>"""
FRONT = """<article class="bd-article"><section id="f"><h1>Front</h1><p><a href="../notebooks/01_one.html">1</a></p>
</section></article>"""
TOC = {
    "root": "book/front",
    "parts": [{"caption": "Part", "chapters": [{"file": "notebooks/01_one"}, {"file": "notebooks/two"}]}],
}


@pytest.fixture
def site(tmp_path):
    """A rendered site of three pages."""
    html = tmp_path / "html"
    for name, article in {"book/front": FRONT, "notebooks/01_one": ONE, "notebooks/two": TWO}.items():
        path = html / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<html>{HEAD}<body>{article}</body></html>", encoding="utf-8")
    (html / "index.html").write_text("<a href='book/front.html'>book</a>", encoding="utf-8")
    (html / ".buildinfo").write_text("changes", encoding="utf-8")
    return html


@pytest.fixture
def book(site, tmp_path):
    """The document that is printed, parsed."""
    return BeautifulSoup(pdf_pages.assemble(TOC, [], site, tmp_path / "print"), "html.parser")


def test_equal_sites_give_equal_zips_whatever_their_dates(site, tmp_path):
    first = finish.zip_site(site).read_bytes()
    (site / "index.html").touch()
    (site / ".buildinfo").write_text("changed", encoding="utf-8")
    second = finish.zip_site(site, tmp_path / "other.zip")
    assert first == second.read_bytes()
    with zipfile.ZipFile(second) as archive:
        names = ["book/front.html", "index.html", "notebooks/01_one.html", "notebooks/two.html"]
        assert archive.namelist() == [f"dp-book/{name}" for name in names]


@pytest.mark.parametrize("make", [finish.zip_site, lambda site: pdf.build([], site)])
def test_without_a_site_there_is_one_sentence(tmp_path, make):
    with pytest.raises(RunError, match="make book"):
        make(tmp_path)


@pytest.mark.site
@pytest.mark.skipif(not (finish.HTML / "index.html").exists(), reason="the site is not built: make book")
def test_the_site_is_whole_wherever_it_lies():
    """No link or picture has an address outside but for pages of the web; no notebook names the machine."""
    files = {path.relative_to(finish.HTML).as_posix() for path in finish.HTML.rglob("*") if path.is_file()}
    for name in sorted(name for name in files if name.endswith(".html") and not name.startswith("_static/")):
        text = (finish.HTML / name).read_text(encoding="utf-8")
        text = re.sub(r"<(script|pre)\b.*?</\1>", "", text, flags=re.DOTALL)
        folder = ROOT / name
        for address in re.findall(r'<[a-z][^<>]*?\s(?:href|src)="([^"]*)"', text):
            parts = urlsplit(address)
            if parts.scheme in ("http", "https", "mailto", "data") or not parts.path:
                continue
            assert not parts.scheme
            target = (folder.parent / unquote(parts.path)).resolve().relative_to(ROOT.resolve()).as_posix()
            assert target in files, f"{name} names {address}"
    for path in (finish.HTML / "_sources" / "notebooks").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert "output_path" not in text
        assert '"outputs"' in text


def test_a_portable_notebook_names_no_machine_and_keeps_its_outputs():
    good = {"output_type": "stream", "name": "stdout", "text": ["0.5\n"]}
    bad = {"output_type": "stream", "name": "stderr", "text": ["/home/me/.venv/lib: a warning\n"]}
    cell = {"cell_type": "code", "metadata": {"papermill": {"duration": 1}, "tags": ["x"]}, "outputs": [bad, good]}
    prose = {"cell_type": "markdown", "metadata": {}, "source": "ε"}
    metadata = {"papermill": {"output_path": "/home/me/out.ipynb"}, "dplib": {"digest": "0"}}
    notebook = json.loads(json.dumps({"cells": [prose, cell], "metadata": metadata, "nbformat": 4}))
    finish.make_portable(notebook)
    assert "/home/me" not in json.dumps(notebook)
    assert notebook["cells"] == [prose, {"cell_type": "code", "metadata": {"tags": ["x"]}, "outputs": [good]}]
    assert notebook["metadata"] == {"dplib": {"digest": "0"}}


def test_colab_installs_what_the_chapters_import_and_colab_lacks():
    """Of the project's requirements Colab brings the large ones; the others are on the line of the page."""
    brought = {"click", "ipykernel", "joblib", "matplotlib", "numpy", "pandas", "pillow", "psutil", "pyarrow", "pyyaml"}
    brought |= {"pydantic", "requests", "scikit-learn", "scipy", "seaborn", "torch", "tqdm", "typing-extensions"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.match(r"[\w-]+", name)[0] for name in project["dependencies"]}
    line = re.search(r"%pip install --quiet (.*)", (ROOT / "book" / "running.md").read_text(encoding="utf-8"))[1]
    assert required <= brought | set(line.split())


def test_binder_gets_the_lock_which_admits_the_cpu_build():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip = environment["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert python.partition("=")[2] + ".9" in SpecifierSet(project["requires-python"])
    assert pip == "pip"
    assert os.access(ROOT / "postBuild", os.X_OK), "Binder runs it"
    (torch,) = re.findall(r"^torch(==\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert SpecifierSet(torch).contains(torch.removeprefix("==") + "+cpu"), "the CPU build must satisfy the lock"


def test_every_link_of_the_printed_book_leads_into_it_or_to_the_web(book):
    ids = [tag["id"] for tag in book.find_all(id=True)]
    assert len(ids) == len(set(ids))
    links = {link["href"] for link in book.find_all("a", href=True)}
    assert {link for link in links if not link.startswith("#")} == {"https://example.org/"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert "#two--same" in links
    assert book.find("a", string="gone")["href"] == "#two"
    assert book.find("img")["src"] == "../html/_images/a.png"
    assert book.find("link")["href"] == "../html/_static/book.css"
    assert "the index" in book.text
    (script,) = book.select("script.mathjax")  # a page of the site reads it when a formula comes near
    assert script.attrs == {"class": ["mathjax"], "src": "../html/_static/mathjax/tex.js"}


def test_the_printed_book_has_no_folded_code_and_its_solutions_at_the_end(book):
    assert "a secret" not in book.text
    assert not book.find(class_="headerlink")
    last = book.find_all("article")[-1]
    assert last["id"] == "solutions"
    assert "Done." in last.text
    assert "Its check." in last.text
    assert book.text.count("Done.") == 1
    exercise = book.find(id="01_one--ex")
    assert last.find(id=exercise.find(class_="to-solution").a["href"][1:])
    assert last.find("a", href="#01_one--ex")


def test_bookmarks_are_parts_chapters_sections(book):
    values = [(tag.name, " ".join(tag.text.split())) for tag in book.main.find_all(re.compile("^h[1-6]$"))]
    expected = [("h1", "Front"), ("h1", "Part"), ("h2", "One"), ("h3", "A < B"), ("h2", "Two"), ("h3", "Same")]
    assert values == [*expected, ("h1", "Solutions"), ("h2", "One")]
    assert "Chapter 1" in book.find(id="01_one").text


def test_the_printed_ledger_has_every_row_once():
    rows = [Row(claim, claims.NOT_RUN, {}, "") for claim in claims.load_all().values()]
    table = BeautifulSoup(pdf_pages.ledger_table(rows), "html.parser")
    shown = [tag.text for tag in table.find_all("code")]
    assert shown == [row.claim.id for row in rows]
    assert len(table.find_all(class_="verdict")) == len(rows)


def test_page_numbers_are_read_from_the_page_tree():
    """Pages nested in a tree, a name with an escaped sign, a target on no page."""
    text = b"""%PDF-1.4
1 0 obj
<</Type /Catalog /Pages 2 0 R /Dests 9 0 R>>
endobj
2 0 obj
<</Type /Pages /Kids [7 0 R 3 0 R] /Count 3>>
endobj
3 0 obj
<</Type /Pages /Kids [5 0 R 4 0 R] /Count 2>>
endobj
4 0 obj
<</Type /Page>>
endobj
5 0 obj
<</Type /Page>>
endobj
7 0 obj
<</Type /Page>>
endobj
9 0 obj
<</a#2Db [4 0 R /XYZ 0 0 0] /c [7 0 R /XYZ 0 0 0] /lost [8 0 R /XYZ 0 0 0]>>
endobj
"""
    assert pdf.page_numbers(text) == {"a-b": 3, "c": 1}
    assert pdf.page_numbers(b"%PDF-1.7 of another program") == {}


def test_no_chromium_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(RunError, match=r"install it \(Debian: apt install chromium"):
        pdf.find_chromium()
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(RunError, match="is not a program"):
        pdf.find_chromium()


@needs_chromium
def test_chromium_prints_a_small_book(site, tmp_path):
    document = tmp_path / "print" / "index.html"
    document.parent.mkdir()
    text = pdf_pages.assemble(TOC, [], site, document.parent)
    style = f"<style>{(ROOT / 'book' / '_static' / 'print.css').read_text(encoding='utf-8')}</style></head>"
    document.write_text(text.replace("</head>", style), encoding="utf-8")
    printed = pdf.print_document(document, tmp_path / "book.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert b"/Outlines" in printed
    assert b"file:" not in printed, "a path of this machine"
    pages = pdf.page_numbers(printed)
    # Cover, contents, front, chapter, chapter, solutions.
    assert {key: pages[key] for key in ("01_one", "two", "solutions")} == {"01_one": 4, "two": 5, "solutions": 6}
    assert not list(tmp_path.glob("*.partial"))


def test_why_a_page_could_not_be_made_is_never_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 3, "", ""))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One run")])
    nbformat.write(notebook, tmp_path / "01_one.ipynb")
    with pytest.raises(RunError, match=r"could not be made: .*status 3"):
        run_page.render(tmp_path / "01_one.ipynb")


def test_a_zip_on_a_full_disk_leaves_the_earlier_one(tmp_path, monkeypatch):
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("<html>")
    target = finish.zip_site(tmp_path / "html")
    before = target.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match=re.escape(str(target))):
        finish.zip_site(tmp_path / "html")
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name, "html"]


def test_a_run_becomes_a_page_with_its_numbers_references_and_no_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "RUNS", tmp_path / "runs")
    text = "# One run\n\nFrom {cite}`bao2022`, ε = {glue:text}`eps`, [elsewhere](02_dfs).\n\n"
    text += "```{raw} html\n:file: ../book/_generated/dial.html\n```"
    glued = {"scrapbook": {"mime_prefix": "application/papermill.record/", "name": "eps"}}
    value = nbformat.v4.new_output("display_data", {"application/papermill.record/text/plain": "0.5"}, metadata=glued)
    noise = nbformat.v4.new_output("stream", name="stderr", text="/home/me/warning")
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("glue()", outputs=[value, noise])]
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    paths = [tmp_path / f"01_one-embedded-{name}.ipynb" for name in ("abc", "def")]
    for path in paths:
        nbformat.write(notebook, path)
    with ThreadPoolExecutor() as pool:  # two at once, which shared a folder
        page, other = pool.map(run_page.render, paths)
    assert page.is_relative_to(tmp_path / "runs")
    assert page.read_text() == other.read_text().replace(paths[1].stem, paths[0].stem)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [".lock", *(path.stem for path in paths)]
    article = pdf_pages.read_page(page)
    assert "ε = 0.5" in " ".join(article.text.split())
    assert "Bao" in article.text
    assert "stands in the book" in article.text
    assert "/home/me" not in page.read_text(encoding="utf-8")
