"""Slides written for a week of the course: a message and a picture each, with notes for the speaker, on the site.

A deck is ``book/slides/weekN.md``: plain MyST, a slide for every heading of the second level, notes in the directive
``revealjs-notes``. Its pictures are the chapters' own figures, named by chapter and by words of their alternative text:
``![](00a_why_noise: Hit rate against false alarm rate)``; or a dial's picture, ``![](dial: 00a-bells)``. Of panels that
stand one above the other, ``| 1 of 2`` behind the words takes one, and ``| 2 beside`` sets both in a row. It has no
formulas, so that a deck needs nothing of MathJax. Where its numbers come from stands in a line ``% numbers:`` of the
slide, which :mod:`book.press.typed` reads. Where there is Chromium, each deck is a PDF as well.
"""

import base64
import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat

from book.evidence import sources
from book.evidence.execution import EXECUTED, RunError
from book.evidence.places import ROOT
from book.press import finish, panels, pdf, typed, unchanged
from book.press.slides import CONFIGURATION, LOOKS, ORPHAN
from dplib import files

SOURCE = ROOT / "_build" / "week-slides-source"
RENDERED = ROOT / "_build" / "week-slides"
PICTURE = re.compile(r"!\[\]\(([\w-]+): ([^)|]+?)(?: \| (\d) of (\d)| \| (\d) beside)?\)")
NOTE = re.compile(r"(?ms)^:::\{revealjs-notes\}\n(.*?)^:::$")
# Of reveal.js a deck loads the core, and the window with the speaker's notes when S is pressed.
FITTED = "document.documentElement.dataset.fitted === 'yes'"
SIZES = "[...document.querySelectorAll('.reveal .slides > section')].map(slide => slide.style.fontSize)"
# The last thing that reveal.js does for print is to put each slide on a page of its own, some frames after it is ready.
PAGED = "sizes => document.querySelectorAll('.reveal .slides > .pdf-page > section').length === sizes.length"
SIZED = """sizes => document.querySelectorAll('.reveal .slides > .pdf-page > section').forEach(
    (slide, place) => { slide.style.fontSize = sizes[place]; })"""
PLUGINS = ("revealjs/plugin/[!n]*", "revealjs/plugin/notes/*.esm.js")
UNUSED = (*finish.OLD_FONTS, *PLUGINS, "revealjs/css", "revealjs/dist/*.map")
NOTES = """
extensions = ["myst_parser", "sphinx_revealjs"]
myst_enable_extensions = ["colon_fence", "attrs_inline", "html_image"]
revealjs_css_files = ["slides.css", "weeks.css"]
revealjs_script_plugins = [{"name": "RevealNotes", "src": "revealjs/plugin/notes/notes.js"}]
"""


def weeks() -> list[Path]:
    """The decks that are written, in order."""
    return sorted(LOOKS.glob("week[0-9].md"))


def pictures(text: str) -> list[tuple[str, str]]:
    """What a deck's pictures are called: chapter, or "dial", and words."""
    return [(chapter, words) for chapter, words, *_ in PICTURE.findall(text)]


def slides(text: str) -> Iterator[tuple[str, str]]:
    """Title and speaker's notes of each slide of a deck, the first one included."""
    for part in _parted(text):
        notes = NOTE.search(part)
        yield part.splitlines()[0].lstrip("# "), " ".join(notes[1].split()) if notes else ""


def parts(deck: Path) -> Iterator[typed.Part]:
    """Every slide of a deck with its notes, and what its numbers come from."""
    for part in _parted(deck.read_text(encoding="utf-8")):
        named = typed.LINE.search(part)
        yield typed.Part(f"{deck.name}, “{part.splitlines()[0].lstrip('# ')}”", part, named[1] if named else "")


def _parted(text: str) -> list[str]:
    return [part for part in re.split(r"(?m)^(?=##? )", text) if part.startswith("#")]


def cell_of(chapter: str, words: str) -> int:
    """The place of the cell whose figure has these words in its alternative text.

    Raises:
        RunError: for words that no figure of the chapter has, or more than one.
    """
    source = sources.source(chapter)
    alts = _alts(source, source.read_text(encoding="utf-8"))
    places = [place for place, alt in enumerate(alts) if words in alt]
    if len(places) != 1:
        raise RunError(f"{len(places)} figures of {chapter} have the words “{words}” in their text: one must.")
    return places[0]


@functools.lru_cache(maxsize=64)
def _alts(source: Path, _text: str) -> list[str]:
    """What each cell of a source says of its figure, empty where it has none."""
    cells = sources.as_notebook(source).cells
    return [" ".join(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "").split()) for cell in cells]


def build(dials: Path, book: typed.Known | None, machine: str) -> Path:
    """Render every deck whose chapters are executed; the folder that they are in. Decks are rendered again where one of
    them, a picture or ``machine`` is not what it was. ``dials``: the folder of their pictures.

    Raises:
        RunError: when a picture is not there, a number is not the book's, or Sphinx gives a warning.
    """
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(LOOKS, SOURCE / "_looks", ignore=shutil.ignore_patterns("*.md"))
    (SOURCE / "conf.py").write_text(CONFIGURATION + NOTES, encoding="utf-8")
    decks = [path for path in weeks() if _executed(path)]
    for path in decks:
        for part in parts(path):
            typed.check(part, book)
        (SOURCE / path.stem).mkdir()
        text = PICTURE.sub(lambda match, path=path: _placed(match, path.stem, dials), path.read_text(encoding="utf-8"))
        (SOURCE / path.name).write_text(ORPHAN + text, encoding="utf-8")
    listed = "\n".join(f"- [{next(slides(path.read_text(encoding='utf-8')))[0]}]({path.name})" for path in decks)
    (SOURCE / "index.md").write_text(f"{ORPHAN}# Slides\n\n## Weeks\n\n{listed}\n", encoding="utf-8")
    names = [f"{path.stem}.html" for path in decks]
    told = json.dumps([unchanged.contents(SOURCE), machine, printable()])
    stamp = RENDERED.with_suffix(".json")
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == told):
        stamp.unlink(missing_ok=True)
        _render([RENDERED / name for name in names])
        files.publish(stamp, told)
    return RENDERED


def _render(pages: Sequence[Path]) -> None:
    shutil.rmtree(RENDERED, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "revealjs", "-W", "--keep-going", "-q", str(SOURCE), str(RENDERED)]
    if subprocess.run(command, check=False).returncode:
        raise RunError("the slides of the weeks have warnings, which count as errors: see above.")
    finish.remove(RENDERED / "_static", UNUSED)
    shutil.rmtree(RENDERED / ".doctrees", ignore_errors=True)
    if printable():
        print_decks(pages)


def printable() -> bool:
    """Whether there is a Chromium to print decks with, and what drives it."""
    try:
        import playwright.sync_api  # noqa: F401

        return bool(pdf.find_chromium())
    except (ImportError, RunError):
        return False


def print_decks(pages: Sequence[Path]) -> None:
    """Print each deck to a PDF beside it, a slide a page, without notes.

    Raises:
        RunError: when a deck's PDF has not a page for each slide.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pdf.find_chromium())
        try:
            for path in pages:
                page = browser.new_page(viewport={"width": 1280, "height": 720})
                _print_deck(page, path)
                page.close()
        finally:
            browser.close()


def _print_deck(page, path: Path) -> None:
    # Letters are fitted on the screen: on paper a slide has no height that it could be fitted to.
    page.goto(path.resolve().as_uri(), wait_until="load")
    page.wait_for_function(FITTED)
    sizes = page.evaluate(SIZES)
    page.goto(f"{path.resolve().as_uri()}?print-pdf", wait_until="load")
    page.wait_for_function(FITTED)
    page.wait_for_function(PAGED, arg=sizes)
    page.evaluate(SIZED, sizes)
    printed = page.pdf(prefer_css_page_size=True, print_background=True, tagged=True)
    count = len(re.findall(rb"/Type /Page\b", printed))
    if count != len(sizes):
        raise RunError(f"{path.name} was printed on {count} pages: it has {len(sizes)} slides.")
    path.with_suffix(".pdf").write_bytes(printed)


def _executed(deck: Path) -> bool:
    chapters = {chapter for chapter, _ in pictures(deck.read_text(encoding="utf-8"))} - {"dial"}
    return all((EXECUTED / f"{chapter}.ipynb").exists() for chapter in chapters)


@functools.cache
def _read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def _placed(match: re.Match, week: str, dials: Path) -> str:
    """A picture as a file beside the deck, and what refers to it."""
    chapter, words, number, count, beside = match.groups()
    if chapter == "dial":
        name, alt = f"dial_{words}.svg", f"The dial {words} at its start."
        shutil.copyfile(dials / name, SOURCE / week / name)
        return f"![{alt}]({week}/{name})"
    place = cell_of(chapter, words)
    # Papermill adds a cell where it sets parameters; a figure is known by its text.
    for cell in _read(EXECUTED / f"{chapter}.ipynb").cells:
        alt = " ".join(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "").split())
        png = [output.data["image/png"] for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
        if words in alt and png:
            picture = base64.b64decode(png[0])
            if count:
                picture = panels.panel(picture, int(number), int(count))
            elif beside:
                picture = panels.beside(picture, int(beside))
            name = f"{chapter}-{place:03d}-{number or beside or 'all'}.png"
            (SOURCE / week / name).write_bytes(finish.smaller(picture))
            return f"![{alt.replace('[', '(').replace(']', ')')}]({week}/{name})"
    raise RunError(f"{chapter} as it was executed has no figure with the words “{words}”: make book executes it anew.")
