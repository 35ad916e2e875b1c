"""The rendered site in headless Chromium, from disk: what a reader does there, by key as by mouse."""

import functools
import http.server
import re
import threading

import pytest

from tests.conftest import ROOT, needs_chromium

HTML = ROOT / "_build" / "html"
pytestmark = [
    pytest.mark.site,
    needs_chromium,
    pytest.mark.skipif(not (HTML / "index.html").exists(), reason="the site is not built: make book"),
]
PAGES = sorted(
    path.relative_to(HTML).as_posix() for folder in ("book", "notebooks") for path in (HTML / folder).glob("*.html")
)
CHAPTERS = [name for name in PAGES if name.startswith("notebooks/")]
LEDGER = (HTML / "book" / "ledger.html").as_uri()
WIDTHS = (1440, 820, 390)
SIZE = {"width": WIDTHS[0], "height": 900}


def test_the_first_page_leads_into_the_book(page):
    page.goto((HTML / "index.html").as_uri())
    page.wait_for_url("**/book/intro.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, logs nothing, and answers a browser that asks for the icon which the site has not."""

    def do_GET(self):
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(params=["from disk", "from a server"])
def root(request):
    """The address of the site's folder, as a file and from a server."""
    if request.param == "from disk":
        yield HTML.as_uri()
        return
    handler = functools.partial(Quiet, directory=HTML)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_search_by_key_lands_at_the_place_of_the_term(page, root):
    page.goto(f"{root}/book/intro.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to main content"
    page.keyboard.press("Control+k")
    page.keyboard.type("hockey-stick divergence")  # the glossary has it
    page.keyboard.press("Enter")
    link = page.locator("ul.search li a").first
    assert "hockey-stick" in page.locator("ul.search li mark").first.inner_text().lower()
    link.click()
    page.wait_for_url(lambda address: "search.html" not in address)
    anchor = page.url.partition("#")[2]
    assert "hockey-stick divergence" in page.locator(f"[id='{anchor}']").inner_text().lower()
    assert not page.errors


def test_the_magnifier_does_not_cover_what_is_typed(page):
    page.goto((HTML / "search.html").as_uri())
    edge = page.evaluate("document.querySelector('.bd-article-container .bd-search svg').getBoundingClientRect().right")
    field = "document.querySelector('.bd-article-container .bd-search input')"
    text = page.evaluate(f"{field}.getBoundingClientRect().x + parseFloat(getComputedStyle({field}).paddingLeft)")
    assert text > edge


def test_paper_is_white_and_has_every_formula(page):
    """From the dark theme too; where the page can hold the print back, its formulas are set before it begins."""
    page.add_init_script("window.print = () => { window.printed = document.querySelectorAll('mjx-lazy').length; }")
    page.emulate_media(color_scheme="dark")
    page.goto((HTML / CHAPTERS[1]).as_uri())
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    page.keyboard.press("Control+p")
    page.wait_for_function("window.printed !== undefined")
    assert page.evaluate("window.printed") == 0
    assert page.evaluate("document.querySelectorAll('.math').length") > 0
    assert page.evaluate("[...document.querySelectorAll('.math')].every(m => m.querySelector('mjx-math'))")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert not page.errors


@pytest.mark.parametrize("name", CHAPTERS[:1])
def test_a_solution_opens_and_closes_by_mouse_and_by_key(page, name):
    page.goto((HTML / name).as_uri())
    solution = page.locator(".solution.dropdown").first
    inside, button = solution.locator(":scope > section, :scope > div").first, solution.locator("button.toggle-button")
    assert not inside.is_visible()
    solution.locator(".admonition-title").first.click(position={"x": 5, "y": 5})
    assert inside.is_visible()
    for key in ("Enter", "Space"):
        before = inside.is_visible()
        button.focus()
        page.keyboard.press(key)
        assert inside.is_visible() != before
        assert button.get_attribute("aria-expanded") == str(not before).lower()
    assert not page.errors


def test_the_theme_changes_by_key(page):
    page.goto((HTML / "book" / "how_to_read.html").as_uri())
    page.locator(".theme-switch-button").first.focus()
    for mode in ("dark", "light", "auto"):
        page.keyboard.press("Enter")
        page.wait_for_function(f"document.documentElement.dataset.mode === '{mode}'")
        page.wait_for_function("document.activeElement.matches('.theme-switch-button')")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_first_page_has_its_colours_before_the_scripts_of_the_theme(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
    page.goto((HTML / "book" / "status.html").as_uri())
    assert page.evaluate("document.documentElement.dataset.theme") == scheme


def planted(page, address, before, piece):
    """Open a page of the site with a piece of HTML put before some mark, since its own text changes."""
    text = address.read_text(encoding="utf-8")
    assert before in text
    body = text.replace(before, piece + before, 1)
    page.route(f"**/{address.name}", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(address.as_uri())


@pytest.mark.parametrize("need", ["it comes near", "somebody may print"])
def test_mathjax_is_read_when_a_formula_needs_it(page, need):
    planted(page, HTML / CHAPTERS[1], "</h1>", "<span style='display: block; height: 9000px'></span>")
    page.wait_for_timeout(500)
    assert not any("tex-chtml" in address for address in page.addresses), "the first screen has no formula"
    if need == "it comes near":
        page.locator("div.math").first.scroll_into_view_if_needed()
        page.locator("div.math mjx-math").first.wait_for()
    else:
        page.keyboard.down("Control")
        page.wait_for_function("window.MathJax.startup?.document")
        page.emulate_media(media="print")
        page.evaluate("() => { window.dispatchEvent(new Event('beforeprint')); }")
        page.wait_for_function("!document.querySelector('mjx-lazy')")
    assert not page.errors


def test_what_scrolls_is_reached_by_key(page):
    """On a phone a wide table can be focused; on a wide screen it is no stop of the Tab key."""
    page.set_viewport_size({"width": 390, "height": 844})
    table = f"<table style='width: 600px'><tr><td>{'wide ' * 9}</td></tr></table>"
    planted(page, HTML / "book" / "status.html", "</article>", f"<div class='scrolls' id='planted'>{table}</div>")
    page.wait_for_selector("#planted[tabindex='0']")
    page.wait_for_function(
        "[...document.querySelectorAll('.scrolls')]"
        ".every(e => (e.scrollWidth > e.clientWidth + 1) === (e.tabIndex === 0))"
    )
    page.set_viewport_size({"width": 1440, "height": 844})
    page.wait_for_function("!document.querySelector('#planted[tabindex]')")


def test_code_that_scrolls_is_reached_by_key_once_it_is_unfolded(page):
    scrolls = "e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight"
    stops = f"""open => [...document.querySelectorAll('pre')].filter(e => e.checkVisibility())
        .every(e => e.tabIndex === (({scrolls})(e) ? 0 : -1))
        && (!open || [...document.querySelectorAll('details pre')].some(e => e.tabIndex === 0))"""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((HTML / CHAPTERS[0]).as_uri())
    page.wait_for_function(stops, arg=False)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    page.wait_for_function(stops, arg=True)


def test_a_box_leads_to_the_cards_and_the_ledger_to_the_chapter(page):
    """Each link of a verdict box leads to what it names: a card of the page, or a row of the ledger."""
    for name in CHAPTERS:
        text = (HTML / name).read_text(encoding="utf-8")
        rows = re.findall(r'<span class="box-rows">(.*?)</span>', text, re.DOTALL)
        for target in re.findall(r'href="#([^"]+)"', " ".join(rows)):
            assert f'id="{target}"' in text, f"{name} has no card {target}"
    page.goto(f"{LEDGER}#A.thm6")
    link = page.locator("tr:target details[open] a")
    assert link.get_attribute("href").endswith("01_gmm_theory.html#A.thm6")


def test_the_ledger_searches_and_filters(page):
    page.goto(LEDGER)
    places = "[...document.querySelectorAll('#ledger-table tbody tr:not([hidden])')].map(row => row.dataset.where)"
    field, everything = page.get_by_placeholder("Table IV"), len(page.evaluate(places))
    count, written = page.locator(".ledger-count"), (HTML / "book" / "ledger.html").read_text(encoding="utf-8")
    assert f'role="status">{count.inner_text()}</p>' in written  # every row, where a table's settings share a line
    asking = {"A.thm6": 1, "B.table25.pool1": 1, "table iv": 5, "Table I": 5, "rejection limit": 2}
    for asked, least in asking.items():
        field.fill(asked)
        scores = page.evaluate(places)
        assert least <= len(scores) < everything / 4
        if asked.lower().startswith("table"):
            assert all(re.search(rf"{asked}(?![A-Z])", place, re.IGNORECASE) for place in scores), scores
    field.fill("")
    choices = {"paper": "C", "verdict": "holds", "chapter": "09_label_dp_training", "sort": "claim", "differs": "no"}
    for menu, choice in {**choices, "order": "no runs"}.items():
        page.locator(f"select[name={menu}]").select_option(choice)
        assert 0 < len(page.evaluate(places)) < everything
        shown = f"[...document.querySelectorAll('#ledger-table tbody tr:not([hidden])')].map(row => row.dataset.{menu})"
        assert set(page.evaluate(shown)) == {choice}
    page.goto(f"{LEDGER}?paper=D&search=Figure%201")
    assert page.evaluate("document.querySelector('select[name=paper]').value") == "D"
    assert len(page.evaluate(places)) < 10
    page.goto(f"{LEDGER}?verdict=fails")
    failing = re.findall(r'data-verdict="fails"[^>]* data-rows="([0-9]+)"', written)
    assert count.inner_text().startswith(f"{sum(map(int, failing))} of ")
    assert not page.errors


def test_the_ledger_can_be_read_by_the_first_rules(page):
    """A row whose first rule gives another verdict shows it, and is found under it; the address keeps the choice."""
    page.goto(f"{LEDGER}?differs=yes")
    shown = "[...document.querySelectorAll('#ledger-table tbody tr:not([hidden])')]"
    differ = page.evaluate(f"{shown}.map(row => [row.id, row.dataset.verdict, row.dataset.first])")
    assert differ
    assert all(verdict != first for _, verdict, first in differ)
    page.get_by_role("checkbox", name="by the first rules").check()
    badges = page.evaluate(f"{shown}.map(row => row.querySelector('td').innerText.trim())")
    assert all(text.startswith(first) for text, (_, _, first) in zip(badges, differ, strict=True))
    page.locator("select[name=verdict]").select_option("fails")
    scores = page.evaluate(f"{shown}.map(row => row.id)")
    assert scores == [id_ for id_, _, first in differ if first == "fails"]
    page.reload()
    assert page.get_by_role("checkbox", name="by the first rules").is_checked()
    assert page.evaluate(f"{shown}.map(row => row.id)") == scores
    assert not page.errors


def test_the_ledger_needs_no_scrolling_sideways(page):
    page.goto(LEDGER)
    page.wait_for_selector("#ledger-table tbody tr")
    for width in (*WIDTHS, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        more = page.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.ledger'))")
        assert more <= 1, width


def test_every_link_that_leaves_the_book_has_an_address_that_can_work():
    for name in ["search.html", "genindex.html", *PAGES]:
        text = (HTML / name).read_text(encoding="utf-8")
        for address in re.findall(r'<a\b[^>]*href="((?!data:)[a-z]+:[^"]+)"', text):
            assert re.fullmatch(r"https://([a-z0-9-]+\.)+[a-z]{2,}(/\S*)?", address), f"{name}: {address}"


def test_the_site_is_small_enough_to_carry():
    assert sum(path.stat().st_size for path in HTML.rglob("*") if path.is_file()) < 38e6
