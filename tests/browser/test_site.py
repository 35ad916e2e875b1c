"""The rendered site in headless Chromium, from disk: no request leaves, nothing overflows, the ledger works."""

import os
import shutil

import pytest
from conftest import ROOT

HTML = ROOT / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: set CHROMIUM or install it"),
    pytest.mark.skipif(not (HTML / "index.html").exists(), reason="the site is not built: make book"),
]
PAGES = sorted(
    path.relative_to(HTML).as_posix() for folder in ("book", "notebooks") for path in (HTML / folder).glob("*.html")
)
LEDGER = (HTML / "book" / "ledger.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page of desktop width that keeps its errors and every address it asks for."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.errors, page.addresses = [], []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.addresses.append(request.url))
    yield page
    context.close()


def loaded(page, address):
    """Open a page and wait until its mathematics is set."""
    page.goto(address, wait_until="load")
    page.wait_for_function("!document.querySelector('.math') || window.MathJax?.startup?.promise")
    page.evaluate("() => window.MathJax?.startup?.promise")


@pytest.mark.parametrize("name", ["index.html", *PAGES])
def test_a_page_is_whole_offline_and_quiet(page, name):
    loaded(page, (HTML / name).as_uri())
    assert not page.errors
    outside = [a for a in page.addresses if not a.startswith(("file:", "data:", "blob:"))]
    assert not outside
    broken = page.evaluate("[...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src)")
    assert not broken
    unset = page.evaluate("document.querySelectorAll('.math').length && !document.querySelector('mjx-container')")
    assert not unset, "the page has mathematics and MathJax set none of it"
    assert not page.locator("mjx-merror").count(), "MathJax could not read a formula"
    missing_text = page.evaluate(
        "[...document.querySelectorAll('.bd-article img')].filter(i => !i.alt).map(i => i.src)"
    )
    assert not [src for src in missing_text if not src.endswith(".png")], "a figure without a text"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_overflows_a_phone(browser, name, scheme):
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    loaded(page, (HTML / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article p, .bd-article li, .bd-article h1, .bd-article h2')]
            .filter(e => e.getBoundingClientRect().right > 391 && !e.closest('.ledger, table, .math, .claim-table'))
            .map(e => e.textContent.slice(0, 60))"""
    )
    assert not wide
    context.close()


def rows(page):
    return page.locator("table.dataTable tbody tr")


def test_the_ledger_searches(page):
    loaded(page, LEDGER)
    page.get_by_role("searchbox").first.fill("A.thm6")
    page.wait_for_function("document.querySelectorAll('table.dataTable tbody tr').length === 1")
    assert "Theorem 6" in rows(page).first.inner_text()


def test_the_ledger_sorts_by_paper(page):
    loaded(page, LEDGER)
    assert rows(page).first.locator("td").first.inner_text() == "A"
    for _ in range(2):  # ascending, then descending
        page.locator("table.dataTable thead th").first.locator("button.dtcc-button_order").click()
    page.wait_for_function("document.querySelector('table.dataTable tbody td').innerText === 'D'")


@pytest.mark.parametrize(("column", "choice"), [(0, "C"), (1, "theorem"), (2, "not run yet")])
def test_the_ledger_filters(page, column, choice):
    loaded(page, LEDGER)
    page.locator("table.dataTable thead th").nth(column).locator("button.dtcc-button_dropdown").click()
    page.locator(".dtcc-dropdown button.dtcc-button", has_text=choice).filter(has_text=choice).first.click()
    page.keyboard.press("Escape")
    page.wait_for_function(
        f"[...document.querySelectorAll('table.dataTable tbody tr')]"
        f".every(row => row.children[{column}].innerText === '{choice}')"
    )
    assert rows(page).count() > 0


def test_the_site_is_small_enough_to_carry():
    assert sum(path.stat().st_size for path in HTML.rglob("*") if path.is_file()) < 45e6
