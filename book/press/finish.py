"""The finished HTML: what no page of it needs goes, what the theme leaves out is put in; and the site as one file.

The site is carried around as files, so its size counts; it is read on slow machines, so what every page loads counts.
"""

import base64
import contextlib
import hashlib
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import PIL
from PIL import Image

from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import remembered, search
from dplib import files

HTML = ROOT / "_build" / "html"
FOLDER = "dp-book"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold
_BY_NAME = ("_images", "_downloads")  # of earlier builds what they hold stays, under other names
_SHOWN = re.compile(rf"(?:{'|'.join(_BY_NAME)})/[^\"'#?)\s]+")
BUNDLES = ("mathjax/tex-*.js", "mathjax/mml-*.js")
# Of reveal.js's fonts those for browsers that do not read WOFF: none of today's.
OLD_FONTS = ("revealjs/dist/theme/fonts/*/*.eot", "revealjs/dist/theme/fonts/*/*.ttf")
_UNUSED = (
    "locales",  # of buttons, in 50 languages
    "vendor/fontawesome/webfonts/*.ttf",  # browsers take the .woff2 beside them
    "scripts/*.map", "styles/*.map",
    "searchtools.js", "language_data.js",  # the search page has an index of its own
    # Of MathJax every page loads tex-chtml.js, which holds what it needs but the fonts, lazy typesetting, extensions
    # that a formula asks for and, where a reader wants spoken formulas, the speech rules.
    *BUNDLES, "mathjax/adaptors", "mathjax/input/*", "mathjax/output/svg*", "mathjax/core.js", "mathjax/latest.js",
    "mathjax/loader.js", "mathjax/node-main.js", "mathjax/startup.js", "mathjax/sre/mathmaps/*.json",
    # These four it holds itself (its last preLoad names them); all packages at once no formula asks for.
    "mathjax/output/chtml.js", "mathjax/output/chtml/fonts/tex.js", "mathjax/ui/menu.js",
    "mathjax/a11y/assistive-mml.js", "mathjax/input/tex/extensions/all-packages.js",
)  # fmt: skip
_KEPT = {"tex-chtml.js", "tex", "base.json", "en.json", "nemeth.json"}
_SEARCH_SCRIPT = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')
_SEARCH = f'<script src="_static/{search.INDEX}"></script><script src="_static/find.js"></script>'
_TABLE = re.compile(r'<table (?:border="1" )?class="(?:table|docutils|dataframe)\b.*?</table>', re.DOTALL)
# The theme's script of two thousand icons draws them in each reader's browser, which lays the page out anew for it.
_ICON_SCRIPT = re.compile(r'\s*<script\b[^>]*\bsrc="[^"]*/fontawesome\.js[^"]*"></script>')
_DRAWING = re.compile(r'"?([a-z0-9-]+)"?:\[(\d+),(\d+),\[([^\]]*)\],"[0-9a-f]+","([^"]*)"\]')
_ICON = re.compile(
    r'<(?P<tag>i|span)\b(?P<more>[^>]*?) class="(?P<classes>[^"]*\bfa-[^"]*)"(?P<rest>[^>]*)></(?P=tag)>'
)
_ICON_RULES = re.compile(r'(?:\.fa-[a-z0-9-]+:before,?)+\{content:"[^"]*"\}')  # of a font, a third of the theme's rules
_DESIGN = re.compile(
    r'\s*(?:<link [^>]*href="[^"]*sphinx-design[^"]*"[^>]*>|<script [^>]*src="[^"]*design-tabs[^"]*"></script>)'
)
# Names, punctuation and spaces have the colour of the code around them: nearly half of a chapter's elements.
_UNCOLOURED = re.compile(r'<span class="(?:n|nn|p|w)">([^<]*)</span>')
# The theme asks each block of code whether it scrolls, and notes the answer before it asks the next: the page is laid
# out anew for each, folded code too. Here all are asked first, and folded ones when they are opened.
_TAB_STOPS = re.compile(
    r'document\.querySelectorAll\((?P<blocks>\[[^\]]*\]\.join\(", "\))\)\.forEach\((?P<e>\w)=>\{(?P=e)\.tabIndex='
    r'(?P<scrolls>[^{}?]*)\?0:-1\}\)\},(?P<later>\w)=(?P<wait>\w\(\w,\d+\));window\.addEventListener\("resize",(?P=later)\)'
)
_ALL_FIRST = (
    r"[...document.querySelectorAll(\g<blocks>)].filter(\g<e>=>\g<e>.checkVisibility()).map(\g<e>=>[\g<e>,"
    r"\g<scrolls>?0:-1]).forEach(([block,stop])=>{block.tabIndex=stop})},\g<later>=\g<wait>;"
    r'document.addEventListener("toggle",\g<later>,!0),window.addEventListener("resize",\g<later>)'
)
# Who comes for the first time has no theme yet: the page would be drawn without colours, and anew once the theme's
# script has chosen them.
_NO_THEME = 'localStorage.getItem("theme") || "auto"'
_OF_THE_SYSTEM = (
    'localStorage.getItem("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
)
# A figure of a notebook has a line of its own.
_FIGURE = re.compile(r'(?m)^<img [^>]*\bsrc="(?P<path>(?:\.\./)*_images/[^"]+\.png)"[^>]*>$')
# The corner of a table is no heading, and the menu with its search is a part of the page that has a name.
_CORNER = re.compile(r"<th([^>]*)>(?:\s|&nbsp;|</?p>)*</th>")
_MENU, _NAMED_MENU = '<div id="pst-primary-sidebar" ', '<div id="pst-primary-sidebar" role="region" aria-label="Menu" '
# A cell of words breaks its lines, one of numbers does not (book/_static/book.css).
_CELL, _WORD = re.compile(r"<td(?=[^>]*>([^<]*)</td>)"), re.compile(r"[^\W\d_]{2,}")
# Every proof and exercise of a page has a part of the same id, which nothing links to.
_REPEATED_IDS = re.compile(r'(<(?:section|div)\b[^>]*?) id="(?:(?:proof|exercise|solution)-content|proof)"')


def finish(built: Path, site: Path) -> None:
    """Copy the built site without what no page needs, such as figures of earlier runs, and with its pages mended."""
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(built, site)
    shown = set()
    for path in site.rglob("*.html"):
        shown |= set(map(unquote, _SHOWN.findall(path.read_text(encoding="utf-8"))))
    for folder in _BY_NAME:
        for path in (site / folder).rglob("*"):
            if path.is_file() and path.relative_to(site).as_posix() not in shown:
                path.unlink()
    static = site / "_static"
    remove(static, _UNUSED)
    theme = static / "scripts" / "pydata-sphinx-theme.js"
    theme.write_text(_TAB_STOPS.sub(_ALL_FIRST, theme.read_text(encoding="utf-8")), encoding="utf-8")
    styles = static / "styles" / "pydata-sphinx-theme.css"
    styles.write_text(_ICON_RULES.sub("", styles.read_text(encoding="utf-8")), encoding="utf-8")
    script = static / "scripts" / "fontawesome.js"
    icons = drawings(script.read_text(encoding="utf-8"))
    for path in site.rglob("*.html"):
        text = mend(path.read_text(encoding="utf-8"), is_search=path.name == "search.html")
        path.write_text(with_sizes(with_icons(text, icons), path.parent), encoding="utf-8")
    script.unlink()


def mend(page: str, *, is_search: bool = False) -> str:
    """A page without the scripts and styles of what it has not, without marks that colour nothing or repeated ids.

    Its tables scroll in boxes, and its references are items of their list (Sphinx's word for them is none to a screen
    reader).
    """
    page = _SEARCH_SCRIPT.sub("", page)
    if is_search:
        page = page.replace("</head>", f"{_SEARCH}</head>", 1)
    if not re.search(r'class="[^"]*\bsd-', page):
        page = _DESIGN.sub("", page)
    page = _UNCOLOURED.sub(r"\1", page).replace(_NO_THEME, _OF_THE_SYSTEM)
    page = _CELL.sub(lambda cell: "<td data-words" if len(_WORD.findall(cell[1])) > 1 else cell[0], page)
    page = _CORNER.sub(r"<td\1></td>", page).replace(_MENU, _NAMED_MENU)
    page = _REPEATED_IDS.sub(r"\1", page).replace('role="doc-biblioentry"', 'role="listitem"')
    return _TABLE.sub(lambda table: f'<div class="scrolls">{table[0]}</div>', page)


def drawings(script: str) -> dict[str, str]:
    """The SVG of each icon in the theme's script of icons, less its opening ``<svg``, by name and by other names."""
    by_name = {}
    for name, width, height, others, path in _DRAWING.findall(script):
        drawing = f'viewBox="0 0 {width} {height}"><path fill="currentColor" d="{path}"></path></svg>'
        by_name |= dict.fromkeys([name, *re.findall(r'"([a-z0-9-]+)"', others)], drawing)
    return by_name


def with_icons(page: str, icons: dict[str, str]) -> str:
    """A page with its icons drawn, and without the script that would draw them.

    Raises:
        RunError: when an icon is not among ``icons``.
    """

    def drawn(icon: re.Match) -> str:
        names = [name for name in re.findall(r"\bfa-([a-z0-9-]+)", icon["classes"]) if name in icons]
        if not names:
            raise RunError(f"the theme has no icon for {icon[0]!r}: see book/press/finish.py.")
        classes = " ".join(["svg-inline--fa", *icon["classes"].split()])
        data = "".join(re.findall(r' data-[a-z-]+="[^"]*"', icon["more"] + icon["rest"]))
        return f'<svg class="{classes}"{data} aria-hidden="true" {icons[names[0]]}'

    return _ICON.sub(drawn, _ICON_SCRIPT.sub("", page))


def with_sizes(page: str, folder: Path) -> str:
    """A page whose figures stand in boxes that say how wide they are: a phone scrolls them and can be read."""

    def sized(image: re.Match) -> str:
        path = folder / image["path"]
        if not path.exists():
            return image[0]
        return f'<div class="scrolls drawn" style="--natural: {Image.open(path).width}px">{image[0]}</div>'

    return _FIGURE.sub(sized, page)


def smaller(png: bytes) -> bytes:
    """A figure with a palette of 256 colours where that makes the file smaller; charts look the same in it."""
    by = f"{PIL.__version__} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}"
    key = f"figure {hashlib.sha256(png).hexdigest()} {by}"
    return base64.b64decode(remembered.text(key, lambda: base64.b64encode(_smaller(png)).decode()))


def _smaller(png: bytes) -> bytes:
    image = Image.open(io.BytesIO(png))
    if image.mode == "P":
        return png
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    stream = io.BytesIO()
    flat.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
    return min(png, stream.getvalue(), key=len)


def remove(static: Path, patterns: Iterable[str]) -> None:
    """Remove files and folders that match a pattern, but for those of MathJax that pages load."""
    for path in [path for pattern in patterns for path in static.glob(pattern) if path.name not in _KEPT]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def zip_site(site: Path = HTML, target: Path | None = None) -> Path:
    """Pack the rendered site into one file, ``_build/dp-book.zip``; equal sites give equal bytes.

    Raises:
        RunError: when the site is not rendered. OSError: when there is no room; an earlier file stays.
    """
    if not (site / "index.html").exists():
        raise RunError("the site is not rendered yet: make book.")
    target = target or site.parent / f"{FOLDER}.zip"
    partial = target.with_suffix(".partial")
    paths = sorted(path for path in site.rglob("*") if path.is_file() and path.name != ".buildinfo")
    try:
        with files.writing(target), zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in paths:
                entry = zipfile.ZipInfo(f"{FOLDER}/{path.relative_to(site).as_posix()}", EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                archive.writestr(entry, path.read_bytes())
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return target


def make_portable(notebook: dict[str, Any]) -> None:
    """Take out of an executed notebook what belongs to the machine it ran on; its cells and outputs stay.

    Papermill's notes hold a path of that machine and a copy of the whole notebook; the error stream holds warnings with
    paths, and progress bars.
    """
    notebook["metadata"].pop("papermill", None)
    for cell in notebook["cells"]:
        cell["metadata"].pop("papermill", None)
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if output.get("name") != "stderr"]
