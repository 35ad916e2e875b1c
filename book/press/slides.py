"""Slides of every chapter from its executed notebook: chosen by :mod:`book.press.slide_rules`, rendered for reveal.js.

They work offline and from ``file://``: reveal.js comes in the wheel of sphinx-revealjs, MathJax in that of
sphinx-mathjax-offline. The result, ``_build/slides``, is no part of the site.
"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from pybtex.database import parse_file

from book.evidence import claims, sources
from book.evidence.claims import VERDICTS
from book.evidence.execution import EXECUTED, RunError
from book.evidence.places import ROOT
from book.press import boxes, finish, ledger
from book.press.slide_rules import Plain, Slide, bullets, choose, exercises, labelled, plain_text, spread
from dplib import files

SOURCE = ROOT / "_build" / "slides-source"
OUTPUT = ROOT / "_build" / "slides"
LOOKS = ROOT / "book" / "slides"
ORPHAN = "---\norphan: true\n---\n\n"
# What no deck loads: MathJax's other bundles, reveal.js's sources, maps, plug-ins and other fonts.
UNUSED = (*finish.BUNDLES, *finish.OLD_FONTS, "revealjs/css", "revealjs/plugin", "revealjs/dist/*.map")
CONFIGURATION = """
project = "Slides"
author = "The dplib authors"
extensions = ["myst_parser", "sphinx_revealjs", "sphinx-mathjax-offline"]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath", "attrs_inline"]
suppress_warnings = ["config.cache"]
templates_path = []
html_copy_source = False
revealjs_html_theme = "revealjs-simple"
revealjs_static_path = ["_looks"]
revealjs_style_theme = "white"
revealjs_css_files = ["slides.css"]
revealjs_script_files = ["revealjs/dist/reveal.js", "fit.js"]
# Linear and flat: the space bar shows everything. All slides stay laid out, so that formulas know their size.
revealjs_script_conf = {
    "width": 1280, "height": 720, "margin": 0.06, "center": False, "hash": True, "slideNumber": "c/t",
    "transition": "none", "viewDistance": 1000, "controlsTutorial": False,
}
mathjax3_config = {"chtml": {"matchFontHeight": False}}
"""


def build() -> Path:
    """Render a deck for every executed chapter; returns the page that lists them.

    Raises:
        RunError: when no chapter is executed, one is not of today's sources, or Sphinx gives a warning.
    """
    executed = ledger.executed_chapters()
    if not executed:
        raise RunError("no chapter is executed yet: make slides executes them, as make book does.")
    ledger.check_current(executed)
    rows = ledger.gather(executed)
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(LOOKS, SOURCE / "_looks")
    (SOURCE / "conf.py").write_text(CONFIGURATION, encoding="utf-8")
    texts = [sources.source(chapter).read_text(encoding="utf-8") for chapter in sources.chapters()]
    cited = citations()
    plain = plain_text(cited, labelled("\n".join(texts)))
    listed = []
    for chapter in (run.chapter for run in executed):
        notebook = nbformat.read(EXECUTED / f"{chapter}.ipynb", as_version=4)
        slides = list(deck(chapter, notebook, plain, rows, cited))
        _write(chapter, slides)
        listed.append(f"- [{slides[0].title}]({chapter}.md)")
    contents = "\n".join([f"{ORPHAN}# Slides", "", "## Chapters", "", *listed, ""])
    (SOURCE / "index.md").write_text(contents, encoding="utf-8")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "revealjs", "-W", "--keep-going", "-q", str(SOURCE), str(OUTPUT)]
    if subprocess.run(command, check=False).returncode:
        files.check_room(SOURCE)
        raise RunError("the slides have warnings, which count as errors: see above.")
    finish.remove(OUTPUT / "_static", UNUSED)
    return OUTPUT / "index.html"


def deck(
    chapter: str, notebook: nbformat.NotebookNode, plain: Plain, rows: list[ledger.Row], cited: Mapping[str, str]
) -> Iterator[Slide]:
    """A chapter's slides, in the order of the rules; ``cited`` has every reference by key."""
    title = re.match(r"# (.+)", notebook.cells[0].source)[1]
    papers = sorted({row.claim.paper for row in rows if row.claim.chapter == chapter})
    about = [f"Paper {paper}: {cited[claims.about(paper).cite]}" for paper in papers] or ["All papers"]
    yield Slide(title, "\n\n".join([f"Chapter {sources.shown_number(chapter)}", *about]))
    box = boxes.load().get(chapter)
    yield from choose(notebook, plain)
    if box is not None:
        yield from _box(box, Counter(row.verdict for row in rows if row.claim.chapter == chapter))
    yield from bullets("Exercises", exercises(notebook, plain))
    seconds = notebook.metadata["dplib"]["seconds"]
    changed = " -p epsilon 0.5" if "epsilon" in sources.default_parameters(chapter) else ""
    command = f"python -m book run {sources.number(chapter)}{changed}"
    yield Slide("Run it yourself", f"```bash\n{command}\n```\n\nIt took {seconds:.0f} seconds here, on one core.")


def citations() -> dict[str, str]:
    """Every reference of the book as authors and year, by key."""
    by_key = {}
    for path in sorted((ROOT / "book").glob("references*.bib")):
        for key, entry in parse_file(str(path)).entries.items():
            names = [" ".join(person.last_names).strip("{}") for person in entry.persons.get("author", ())]
            who = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} and others"
            by_key[key] = f"{who} {entry.fields.get('year', '')}".strip()
    return by_key


def _box(box: boxes.Box, counts: Counter) -> Iterator[Slide]:
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    parts = {"Claimed": box.claimed, "How sure we are": box.sure, "Verdicts": summary}
    yield Slide("In short", "\n\n".join(f"**{name}.** {text.rstrip('.')}." for name, text in parts.items() if text))
    listed = [
        f"**{boxes.SECTIONS[name][0]}**\n\n" + "\n".join(f"- {line.text}" for line in lines)
        for name, lines in box.sections.items()
    ]
    for group in spread(listed, [len(part) for part in listed]):
        yield Slide("What we found", "\n\n".join(group))


def _write(chapter: str, slides: list[Slide]) -> None:
    """A deck as Markdown, with its images beside it."""
    folder = SOURCE / chapter
    folder.mkdir()
    first, *rest = slides
    parts = [f"{ORPHAN}# {first.title}", "", first.body, ""]
    for slide in rest:
        parts += [f"## {slide.title}", ""]
        if slide.kicker:
            parts += [":::{container} kicker", slide.kicker, ":::", ""]
        body = slide.body
        for name, content in slide.images.items():
            (folder / name).write_bytes(content)
            body = body.replace(f"({name})", f"({chapter}/{name})")
        parts += [body, ""]
    (SOURCE / f"{chapter}.md").write_text("\n".join(parts), encoding="utf-8")
