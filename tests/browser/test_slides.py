"""The slides in headless Chromium, from disk: no request leaves, every slide fits, keys go on; the course's links."""

import re

import pytest

from tests.conftest import ROOT, needs_chromium

HTML, DECKS = ROOT / "_build" / "html", ROOT / "_build" / "slides"
SIZE = {"width": 1280, "height": 720}  # of a projector
pytestmark = pytest.mark.site
NAMES = sorted(path.name for path in DECKS.glob("[0-9][0-9]*_*.html"))
needs_slides = pytest.mark.skipif(not NAMES, reason="there are no slides: make slides")
# Title, height and width of what a slide holds beside those of the slide, its font size, whether it scrolls.
MEASURE = """() => [...document.querySelectorAll('.reveal .slides > section')].map(s => [
    s.querySelector('h1, h2')?.textContent ?? '', s.scrollHeight - s.clientHeight, s.scrollWidth - s.clientWidth,
    s.clientHeight, parseFloat(s.style.fontSize || '1'), getComputedStyle(s).overflowY === 'auto'])"""


def opened(page, name):
    page.goto((DECKS / name).as_uri(), wait_until="load")
    page.wait_for_function("document.documentElement.dataset.fitted === 'yes'")


@needs_chromium
@needs_slides
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_deck_is_whole_offline_and_fits(tab, name):
    opened(tab, name)
    assert not tab.errors
    assert not [a for a in tab.addresses if not a.startswith(("file:", "data:", "blob:"))]
    assert not tab.evaluate("[...document.images].filter(i => !(i.naturalWidth && i.alt)).map(i => i.src)")
    assert not tab.locator("mjx-merror").count(), "MathJax could not read a formula"
    text = tab.evaluate("document.querySelector('.reveal .slides').textContent")
    assert not re.search(r"\{[a-z]+:?[a-z]*\}`|```|:::|\$\$|:label:", text), "a directive is on a slide"
    measured = tab.evaluate(MEASURE)
    assert len(measured) >= (5 if name[2] != "_" else 10), "a part of a chapter has fewer"
    for title, taller, wider, height, size, scrolls in measured:
        assert title
        assert height <= 720
        assert size >= 0.59, f"{title}: too small to read"
        assert (taller <= 1 and wider <= 1) or scrolls, f"{title}: it is cut off"
    assert sum(scrolls for *_, scrolls in measured) <= 1, "a slide is no page: choose less, or split it"


@needs_chromium
@needs_slides
def test_a_deck_is_fitted_once_its_formulas_are_set_however_late_they_come(tab):
    def late(route):
        tab.wait_for_timeout(1500)
        route.continue_()

    tab.route("**/tex-chtml.js", late)
    tab.goto((DECKS / "02_dfs.html").as_uri(), wait_until="commit")
    tab.wait_for_function("document.documentElement.dataset.fitted === 'yes'")
    assert tab.evaluate("document.querySelectorAll('mjx-container').length")


@needs_chromium
@pytest.mark.parametrize("path", sorted((HTML / "slides").glob("week[0-9].html")), ids=lambda path: path.stem)
def test_a_weeks_slides_fit_without_being_small_and_are_printed(tab, path):
    tab.goto(path.as_uri(), wait_until="load")
    tab.wait_for_function("document.documentElement.dataset.fitted === 'yes'")
    assert not tab.errors
    measured = tab.evaluate(MEASURE)
    for title, _, _, _, size, scrolls in measured:
        assert size >= 0.85, f"{title}: too small to read from the back"
        assert not scrolls, f"{title}: it is cut off"
    pages = re.findall(rb"/Type /Page\b", path.with_suffix(".pdf").read_bytes())
    assert len(pages) == len(measured), "a page a slide"


@needs_chromium
@needs_slides
def test_keys_go_on_and_back(tab):
    opened(tab, NAMES[0])
    last = tab.evaluate("Reveal.getTotalSlides()") - 1
    for key, place in (("Space", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("Home", 0)):
        tab.keyboard.press(key)
        tab.wait_for_function("place => Reveal.getIndices().h === place", arg=place)
    tab.keyboard.press("o")
    tab.wait_for_function("Reveal.isOverview()")


@pytest.mark.skipif(not (HTML / "book" / "course.html").exists(), reason="the site is not built: make book")
def test_the_course_names_exercises_that_are_on_their_pages():
    text = (HTML / "book" / "course.html").read_text(encoding="utf-8")
    links = re.findall(r'href="\.\./notebooks/([\w-]+\.html)#([\w-]+)"', text)
    assert len(links) >= 30
    pages = {name: (HTML / "notebooks" / name).read_text(encoding="utf-8") for name in {name for name, _ in links}}
    assert not [f"{name}#{label}" for name, label in links if f'id="{label}"' not in pages[name]]
