"""The dials in headless Chromium, from disk: turned by key, read as text and from what is drawn."""

import functools
import json
import re
from pathlib import Path

import pytest

from book.press import dials
from tests.conftest import ROOT, needs_chromium, unlinked

HTML = ROOT / "_build" / "html"
PAGES = {
    path.stem.removeprefix("dial_"): page
    for path in sorted((ROOT / "_build" / "source" / "book" / "_generated").glob("dial_*.html"))
    for page in (HTML / "notebooks").glob(f"{re.split('[_-]', path.stem)[1]}_*.html")
}
pytestmark = [
    pytest.mark.site,
    needs_chromium,
    pytest.mark.skipif(not PAGES, reason="the site is not built: make book"),
]
SIZE = {"width": 1440, "height": 900}
SYMBOLS = """view => {
  const found = [];
  const visit = node => node.marktype === "symbol" && node.role === "mark"
    ? found.push(...node.items.map(item => item.datum)) : (node.items ?? []).forEach(visit);
  visit(view.scenegraph().root);
  return found;
}"""


@pytest.fixture(scope="module", params=PAGES)
def name(request):
    """A dial's: all tests of one come before those of the next."""
    return request.param


@pytest.fixture(scope="module")
def opened(first_tab):
    """A function from a dial's name to its page, which is loaded once for all its tests, with the dial in sight."""
    shown = []

    def open_(name):
        if shown != [name]:
            first_tab.set_viewport_size(SIZE)
            first_tab.errors.clear()
            first_tab.goto(PAGES[name].as_uri(), wait_until="load")
            first_tab.locator(f"#dial-{name}").scroll_into_view_if_needed()
            first_tab.wait_for_function(f"window.dials?.['{name}']")
            shown[:] = [name]
        return first_tab

    return open_


@functools.cache
def made():
    """The dials by name, as Python has them."""
    return {dial.name: dial for dial in (make() for make in dials.DIALS)}


def data(page, name):
    return json.loads(page.locator(f"#dial-{name} .dial-data").inner_text())


def settle(page, name):
    """Wait until every chart shows the positions of the controls."""
    page.evaluate(f"() => Promise.all(window.dials['{name}'].map(view => view.runAsync())).then(() => 1)")


def check(page, name, control):
    """Text, value, announcement and charts agree on where the control stands; returns its position."""
    settle(page, name)
    dial, slider = data(page, name), page.locator(f"#dial-{name}-{control}")
    position = int(slider.input_value())
    shown = dial["controls"][control][position]
    assert page.locator(f"output[for=dial-{name}-{control}]:not(.dial-answer)").inner_text() == shown
    assert slider.get_attribute("aria-valuetext") == shown
    signals = page.evaluate(f"window.dials['{name}'].map(view => view.signal('{control}'))")
    assert signals == [position] * len(dial["charts"])
    numbers = {c: float(page.locator(f"#dial-{name} [data-of={c}]").input_value()) for c in dial["numbers"]}
    at = {c: int(page.locator(f"#dial-{name}-{c}").input_value()) for c in dial["controls"]}
    answer = page.locator(f"#dial-{name} .dial-answer span").all_inner_texts()
    assert answer == [" ".join(unlinked(line).split()) for line in made()[name].answer(**numbers, **at)]
    if (name, control) == ("12", "push"):  # a dot of the first chart stands for a part of the answer
        symbols = page.evaluate(f"({SYMBOLS})(window.dials['{name}'][0])")
        drawn = next(datum["epsilon"] for datum in symbols if datum.get("account") == "exact")
        assert f"exact {drawn:.2f}" in answer[0]
    return position


def test_a_slider_by_key(opened, name):
    page = opened(name)
    for control in data(page, name)["controls"]:
        slider = page.locator(f"#dial-{name}-{control}")
        if slider.get_attribute("type") != "range":
            continue
        before, answer = int(slider.input_value()), page.locator(f"#dial-{name} .dial-answer").inner_text()
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert check(page, name, control) == before + 1
        page.keyboard.press("Home")
        assert check(page, name, control) == 0
        page.keyboard.press("End")
        assert check(page, name, control) == int(slider.get_attribute("max"))
        assert page.locator(f"#dial-{name} .dial-answer").inner_text() != answer
        slider.fill(str(before))
        assert check(page, name, control) == before
    assert not page.errors


def test_a_menu_by_key(opened, name):
    page = opened(name)
    menu = page.locator(f"#dial-{name} select").first
    if not menu.count():
        pytest.skip("no menu")
    charts = f"[...document.querySelectorAll('#dial-{name} .dial-chart')].map(chart => chart.innerHTML)"
    menu.focus()
    page.keyboard.press("Home")  # it may begin at its last entry
    settle(page, name)
    before = page.evaluate(charts)
    page.keyboard.press("ArrowDown")
    settle(page, name)
    assert menu.input_value() == "1"
    assert page.evaluate(charts) != before or not before
    page.keyboard.press("Home")
    settle(page, name)
    assert menu.input_value() == "0"


def test_it_fits_in_both_themes(opened, name):
    page = opened(name)
    figure, inks = f"document.getElementById('dial-{name}')", set()
    for width in (1440, 820, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            settle(page, name)
            page.wait_for_function(
                f"""() => [...{figure}.querySelectorAll('.dial-control > *, .dial-chart svg, .dial-answer')]
                    .every(e => e.getBoundingClientRect().right <= {figure}.getBoundingClientRect().right + 1)"""
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            inks.add(page.evaluate(f"getComputedStyle({figure}.querySelector('.dial-title')).color"))
            for text in page.evaluate(f"[...{figure}.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill)"):
                assert text in inks, "a text that does not follow the theme"
    assert len(inks) == 2
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_print_shows_the_picture(opened, name):
    page = opened(name)
    place = f".tag_dial-{name} img" if made()[name].figure else f"#dial-{name} .dial-picture"
    picture = page.locator(place)
    assert not picture.is_visible()
    page.emulate_media(media="print")
    assert picture.is_visible()
    page.wait_for_function(f"document.querySelector('{place}').naturalWidth > 0")
    assert not page.locator(f"#dial-{name} .dial-controls").is_visible()
    assert not page.locator(f"#dial-{name} .dial-charts").is_visible()
    page.emulate_media(media="screen")


def test_a_chart_is_as_wide_as_its_column_after_the_menu_folded_away_and_came_back(page):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(next(HTML.glob("notebooks/14_*.html")).as_uri(), wait_until="load")
    page.locator("figure.dial").first.scroll_into_view_if_needed()
    page.locator(".dial-chart svg").first.wait_for()
    for width in (800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(500)
    page.wait_for_function(
        """() => [...document.querySelectorAll(".dial-chart")].every(
          place => Math.abs(place.clientWidth - place.querySelector("svg").getAttribute("width")) < 2)"""
    )


def test_the_map_lives_on_the_front_page_too(page):
    """Its script is asked for only when a reader comes near, and from there its links lead to pages of the site."""
    page.set_viewport_size({"width": 1440, "height": 300})  # also before its pictures are there, the map is far below
    page.goto((HTML / "book" / "intro.html").as_uri(), wait_until="load")
    assert page.locator(".front-map").is_visible()
    assert not any(address.endswith("vega.js") for address in page.addresses)
    page.locator("#dial-14").scroll_into_view_if_needed()
    page.wait_for_function("window.dials?.['14']")
    assert not page.locator(".front-map").is_visible()
    for link in page.locator("#dial-14 .dial-answer a").evaluate_all("(all) => all.map((a) => a.href)"):
        path, _, row = link.removeprefix("file://").partition("#")
        assert Path(path).exists()
        assert not row or f'id="{row}"' in Path(path).read_text(encoding="utf-8")
    assert not page.errors


def test_without_javascript_the_picture_and_the_answer_stand(browser):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 820, "height": 900})
    page = context.new_page()
    for name, path in PAGES.items():
        page.goto(path.as_uri(), wait_until="load")
        if made()[name].figure:
            assert page.locator(f".tag_dial-{name} img").is_visible()
        figure = page.locator(f"#dial-{name}")
        assert not figure.locator(".dial-controls").is_visible()
        assert "JavaScript" in figure.locator("noscript").inner_text()
        assert figure.locator(".dial-answer").inner_text()
        for picture in figure.locator(".dial-picture").all():
            assert picture.is_visible()
            assert len(picture.get_attribute("alt")) > 100
    context.close()
