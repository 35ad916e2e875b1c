"""The book as one PDF: the pages of the rendered site in one document, printed by Chromium.

The document is made of the site's own pages, so every number of a theorem, an exercise or a figure is the site's.
What needs a screen gives way: folded code is left out, solutions stand at the end, and the ledger is a plain table.
"""

import os
import re
import shutil
from pathlib import Path

from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import pdf_pages
from book.press.ledger import Row
from dplib import files

HTML = ROOT / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TEXT_WIDTH = 658  # of an A4 page less the margins of print.css, in CSS pixels
OLDEST = 131  # the first Chromium that prints page numbers from a style sheet
NO_BROWSER = (
    "the PDF is printed by Chromium, and there is none here: install it (Debian: apt install chromium; elsewhere: "
    "playwright install chromium), or set CHROMIUM to its path."
)
# Mathematics set, fonts and pictures there; then what is still wider than the page is made to fit, and what is short
# stays on one page.
# To a screen reader a formula is its TeX: one tag, where MathJax has one for each sign.
SETTLE = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  for (const wide of document.querySelectorAll('table, div.math mjx-container')) {
    const room = wide.parentElement.clientWidth, need = wide.scrollWidth;
    if (room && need > room + 1) wide.style.zoom = Math.max(0.45, room / need);
  }
  for (const whole of document.querySelectorAll('table, pre, .cell_input, div[class*="highlight-"]'))
    if (whole.offsetHeight < 260) whole.style.setProperty('break-inside', 'avoid', 'important');
  for (const formula of window.MathJax?.startup?.document?.math ?? []) {
    formula.typesetRoot.querySelectorAll('mjx-assistive-mml').forEach(copy => copy.remove());
    formula.typesetRoot.setAttribute('role', 'img');
    formula.typesetRoot.setAttribute('aria-label', formula.math.trim());
  }
  return document.querySelectorAll('mjx-merror').length;
}"""
FILL = """pages => document.querySelectorAll('nav.book-contents a').forEach(link => {
  link.querySelector('.page').textContent = pages[link.getAttribute('href').slice(1)] ?? '';
})"""


def build(rows: list[Row], site: Path = HTML) -> Path:
    """Print the rendered site and the ledger to ``_build/dp-book.pdf``.

    Raises:
        RunError: when the site is not rendered, and as :func:`print_document`.
    """
    if not (site / "index.html").exists():
        raise RunError("the site is not rendered yet: make book.")
    folder = site.parent / "print"
    folder.mkdir(exist_ok=True)
    contents = files.read(ROOT / "_toc.yml")
    document = folder / "index.html"
    document.write_text(pdf_pages.assemble(contents, rows, site, folder), encoding="utf-8")
    return print_document(document, site.parent / "dp-book.pdf")


def print_document(document: Path, target: Path) -> Path:
    """Print an HTML file to PDF, with bookmarks, tags, and page numbers in its ``nav.book-contents``.

    Raises:
        RunError: when Chromium is missing or too old, or a formula cannot be set.
    """
    from playwright.sync_api import Error, sync_playwright

    partial = target.with_suffix(".partial")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright.chromium.executable_path))
        try:
            if int(browser.version.split(".")[0]) < OLDEST:
                raise RunError(f"Chromium {browser.version} is too old to number pages: {OLDEST} or newer is needed.")
            page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 900}, color_scheme="light")
            page.set_default_timeout(0)
            page.emulate_media(media="print")
            page.goto(document.resolve().as_uri(), wait_until="load")
            if page.evaluate(SETTLE):
                raise RunError("a formula of the book cannot be set: see the site's pages.")
            options = {"prefer_css_page_size": True, "print_background": True}
            page.evaluate(FILL, page_numbers(page.pdf(**options)))
            page.pdf(path=partial, outline=True, tagged=True, **options)
        except Error as error:
            raise RunError(f"Chromium could not print the book: {error.message.splitlines()[0]}") from error
        finally:
            browser.close()
    os.replace(partial, target)
    return target


def find_chromium(bundled: str = "") -> str:
    """Where Chromium is: CHROMIUM, the system's, or the one that playwright has downloaded (``bundled``).

    Raises:
        RunError: when there is none.
    """
    asked = os.environ.get("CHROMIUM")
    if asked and not shutil.which(asked):
        raise RunError(f"CHROMIUM = {asked!r} is not a program.")
    candidates = [asked, *map(shutil.which, NAMES), bundled if bundled and Path(bundled).exists() else None]
    path = next(filter(None, candidates), None)
    if not path:
        raise RunError(NO_BROWSER)
    return path


def page_numbers(pdf: bytes) -> dict[str, int]:
    """The page, from 1, of each target of a link in a PDF that Chromium wrote; empty for another's.

    Chromium writes its page tree and its named destinations uncompressed, one object after another.
    """
    objects = {int(n): text for n, text in re.findall(rb"(?:^|\n)(\d+) 0 obj\s(.*?)\sendobj", pdf, re.DOTALL)}
    catalog = next((text for text in objects.values() if b"/Type /Catalog" in text), b"")
    tree = re.search(rb"/Pages (\d+) 0 R", catalog)
    names = re.search(rb"/Dests (\d+) 0 R", catalog)
    if not tree or not names:
        return {}
    order = {number: place for place, number in enumerate(_leaves(objects, int(tree[1])), start=1)}
    targets = re.findall(rb"/([^\s/\[]+) \[(\d+) 0 R /XYZ", objects.get(int(names[1]), b""))
    return {_pdf_name(name): order[int(page)] for name, page in targets if int(page) in order}


def _leaves(objects: dict[int, bytes], node: int) -> list[int]:
    """Object numbers of the pages below a node of the page tree, in order."""
    kids = re.search(rb"/Kids \[(.*?)\]", objects.get(node, b""), re.DOTALL)
    if not kids:
        return [node]
    return [leaf for kid in re.findall(rb"(\d+) 0 R", kids[1]) for leaf in _leaves(objects, int(kid))]


def _pdf_name(name: bytes) -> str:
    return re.sub(rb"#([0-9A-Fa-f]{2})", lambda code: bytes.fromhex(code[1].decode()), name).decode("utf-8", "replace")
