"""What becomes of the built pages: what is not loaded goes, tables scroll, figures stay what they are."""

import io
import re
from pathlib import Path

import numpy as np
import pydata_sphinx_theme
import pytest
from PIL import Image
from pygments.styles import get_style_by_name
from pygments.token import Name, Punctuation, Text, Whitespace

from book.evidence.execution import RunError
from book.press import finish, remembered

SCRIPTS = '<head>\n<script src="../_static/searchtools.js"></script>\n<script src="../searchindex.js"></script></head>'
ARROW, HALF = '"arrow-up":[384,512,[],"f062","M1 2z"]', '"circle-half-stroke":[512,512,[9680,"adjust"],"f042","M7z"]'
ICONS = f'var i={{{ARROW},sun:[512,512,[9728],"f185","M3 4z"],expand:[448,512,[],"f065",["M5","M6"]],{HALF}}};'


PRE = '<pre><span class="n">a</span><span class="w"> </span><span class="o">+</span> <span class="mi">1</span></pre>'
CARDS = '<link rel="stylesheet" href="a/sphinx-design.min.css?v=1" /><script data-a="b" src="design-tabs.js"></script>'
PROOF = '<div class="proof admonition" id="proof"><section class="proof-content" id="proof-content">a</section></div>'


@pytest.fixture(autouse=True)
def store(tmp_path_factory, monkeypatch):
    """Nothing is remembered from another test, and nothing for the next build."""
    monkeypatch.setattr(remembered, "STORE", tmp_path_factory.mktemp("remembered"))


@pytest.mark.parametrize(
    ("page", "mended"),
    [
        (SCRIPTS, "<head></head>"),
        (CARDS, ""),
        (f'{CARDS}<div class="sd-card"></div>', f'{CARDS}<div class="sd-card"></div>'),
        ('<table class="table"></table><p>', '<div class="scrolls"><table class="table"></table></div><p>'),
        ("<table></table>", "<table></table>"),
        ('<table id="ledger-table" class="display"></table>', '<table id="ledger-table" class="display"></table>'),
        (PRE, '<pre>a <span class="o">+</span> <span class="mi">1</span></pre>'),
        (
            '<th class="blank level0" >&nbsp;</th><th><p></p></th><th>a</th>',
            '<td class="blank level0" ></td><td></td><th>a</th>',
        ),
        (
            '<td class="data" >no rise passes</td><td>95.1 ± 0.4</td><td>0 of 5</td><td><b>a row</b></td>',
            '<td data-words class="data" >no rise passes</td><td>95.1 ± 0.4</td><td>0 of 5</td><td><b>a row</b></td>',
        ),
        (
            '<div id="pst-primary-sidebar" class="a">',
            '<div id="pst-primary-sidebar" role="region" aria-label="Menu" class="a">',
        ),
        (PROOF, re.sub(' id="[^"]*"', "", PROOF)),
        ('<div id="id2" role="doc-biblioentry">b</div>', '<div id="id2" role="listitem">b</div>'),
    ],
)
def test_a_page_is_mended(page, mended):
    assert finish.mend(page) == mended


def test_a_figure_gets_smaller_and_looks_the_same():
    pixels = np.full((120, 160, 4), 255, np.uint8)
    pixels[20:60, 20:90] = (1, 115, 178, 255)
    pixels[40:100, 60:130] = (222, 143, 5, 255)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    small = finish.smaller(stream.getvalue())
    assert len(small) < len(stream.getvalue())
    image = Image.open(io.BytesIO(small))
    assert image.mode == "P"
    assert np.array_equal(np.asarray(image.convert("RGB")), pixels[:, :, :3])
    assert finish.smaller(small) == small


def test_a_palette_is_near_the_colours_of_a_busy_figure():
    shades = np.linspace(0, 255, 200).astype(np.uint8)
    pixels = np.stack([*np.meshgrid(shades, shades), np.full((200, 200), 90, np.uint8)], 2)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    found = np.asarray(Image.open(io.BytesIO(finish.smaller(stream.getvalue()))).convert("RGB")).astype(int)
    assert np.abs(found - pixels).max() <= 24


LINKS = '<img src="_images/now.png"><a href="_downloads/1/now.csv">data</a>'


def test_the_site_is_trimmed_of_what_no_page_loads(tmp_path):
    for name in (
        "_static/locales/de/a.mo", "_static/scripts/bootstrap.js", "_static/scripts/bootstrap.js.map",
        "_static/styles/theme.css.map", "_static/vendor/fontawesome/webfonts/fa-solid-900.ttf",
        "_static/vendor/fontawesome/webfonts/fa-solid-900.woff2", "_static/mathjax/tex-chtml.js",
        "_static/mathjax/tex-svg-full.js", "_static/mathjax/mml-chtml.js", "_static/mathjax/input/asciimath.js",
        "_static/mathjax/input/tex/extensions/cancel.js", "_static/mathjax/output/svg/fonts/tex.js",
        "_static/mathjax/output/chtml/fonts/tex.js", "_static/mathjax/ui/menu.js", "_static/mathjax/ui/lazy.js",
        "_static/mathjax/output/chtml/fonts/woff-v2/a.woff",
        "_static/mathjax/sre/mathmaps/de.json", "_static/mathjax/sre/mathmaps/en.json",
        "_static/scripts/pydata-sphinx-theme.js", "_static/styles/pydata-sphinx-theme.css", "_images/now.png",
        "_images/earlier.png", "_downloads/1/now.csv", "_downloads/2/earlier.csv",
    ):  # fmt: skip
        (tmp_path / "built" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "built" / name).write_text("", encoding="utf-8")
    (tmp_path / "built/_static/scripts/fontawesome.js").write_text(ICONS, encoding="utf-8")
    (tmp_path / "built/page.html").write_text(
        f'{SCRIPTS}<i class="fa fa-arrow-up"></i><i class="fa fa-adjust"></i>{LINKS}'
    )
    (tmp_path / "built/search.html").write_text(SCRIPTS)
    site = tmp_path / "site"
    finish.finish(tmp_path / "built", site)
    left = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert left == {
        "page.html", "search.html", "_images/now.png", "_downloads/1/now.csv", "_static/scripts/bootstrap.js",
        "_static/scripts/pydata-sphinx-theme.js", "_static/styles/pydata-sphinx-theme.css",
        "_static/vendor/fontawesome/webfonts/fa-solid-900.woff2", "_static/mathjax/tex-chtml.js",
        "_static/mathjax/input/tex/extensions/cancel.js", "_static/mathjax/output/chtml/fonts/woff-v2/a.woff",
        "_static/mathjax/ui/lazy.js", "_static/mathjax/sre/mathmaps/en.json",
    }  # fmt: skip
    page = (site / "page.html").read_text(encoding="utf-8")
    assert [page.count(f'd="{path}"') for path in ("M1 2z", "M7z", "M3 4z")] == [1, 1, 0]
    searched = (site / "search.html").read_text(encoding="utf-8")
    assert re.findall(r'src="([^"]+)"', searched) == ["_static/search_index.js", "_static/find.js"]


def test_a_figure_says_how_wide_it_is(tmp_path):
    (tmp_path / "_images").mkdir()
    Image.new("RGB", (700, 20)).save(tmp_path / "_images" / "a.png")
    (tmp_path / "notebooks").mkdir()
    image, linked = '<img alt="a" src="../_images/a.png" />', '<a><img src="../_images/a.png"></a>'
    page = f'<p>\n{image}\n<img src="../_images/gone.png">\n{linked}'
    box = f'<div class="scrolls drawn" style="--natural: 700px">{image}</div>'
    assert finish.with_sizes(page, tmp_path / "notebooks") == page.replace(image, box)


def test_icons_are_drawn_in_the_page():
    page = (
        '<script defer src="_static/scripts/fontawesome.js?digest=1"></script><button><i class="theme-switch fa-solid '
        'fa-adjust   fa-lg" data-mode="auto"  title="System"></i></button>'
    )
    assert finish.with_icons(page, finish.drawings(ICONS)) == (
        '<button><svg class="svg-inline--fa theme-switch fa-solid fa-adjust fa-lg" data-mode="auto" aria-hidden="true" '
        'viewBox="0 0 512 512"><path fill="currentColor" d="M7z"></path></svg></button>'
    )
    with pytest.raises(RunError, match="no icon for '<i class=\"fa fa-cat\"></i>'"):
        finish.with_icons('<i class="fa fa-cat"></i>', finish.drawings(ICONS))


@pytest.mark.parametrize("theme", ["a11y-high-contrast-light", "a11y-high-contrast-dark"])
def test_marks_that_go_have_the_colour_of_all_code(theme):
    """The book's theme takes these styles; a mark with a colour of its own must stay."""
    style = get_style_by_name(theme)
    for kind in (Name, Name.Namespace, Punctuation, Whitespace):
        assert style.style_for_token(kind) == style.style_for_token(Text), kind


def test_the_theme_has_what_is_changed_in_it():
    """As it is installed: a new one may need new patterns, or none."""
    static = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
    text, count = finish._TAB_STOPS.subn(
        finish._ALL_FIRST, (static / "scripts" / "pydata-sphinx-theme.js").read_text("utf-8")
    )
    assert count == 1
    assert text.count("checkVisibility()") == text.count('document.addEventListener("toggle"') == 1
    icons = finish.drawings((static / "scripts" / "fontawesome.js").read_text("utf-8"))
    assert {"bars", "sun", "moon", "circle-half-stroke", "magnifying-glass"} <= set(icons)
    _, count = finish._ICON_RULES.subn("", (static / "styles" / "pydata-sphinx-theme.css").read_text("utf-8"))
    assert count > 1000
