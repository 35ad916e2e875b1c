"""Every page of the rendered site in headless Chromium, from disk: whole, quiet, no wider than its window.

A page is loaded once and looked at from all sides, since loading is what this test spends its time on; all of them in
one tab, whose process has read and compiled the scripts that they share. It is a file of its own since it takes as long
as all other tests of the site together.
"""

import pytest

from tests.browser.test_site import CHAPTERS, HTML, PAGES, SIZE, WIDTHS, pytestmark
from tests.conftest import STILL

__all__ = ["SIZE", "pytestmark"]  # of this module, too: the window, and when there is nothing to look at

# What a reader sees at 1,280 pixels without unfolding has no line that is cut: the column holds 76 letters.
CUT = """[...document.querySelectorAll('.bd-article .cell_input pre, .bd-article div.highlight pre')]
    .filter(e => e.checkVisibility() && !e.closest('details, .cell_output') && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.split('\\n').sort((a, b) => b.length - a.length)[0])"""
# A figure's letters, of 10.4 points at least, are shown nine pixels tall or more; what is too wide for that scrolls.
SMALL = """[...document.querySelectorAll('.drawn img')].filter(i => i.checkVisibility()
    && i.getBoundingClientRect().width < 0.565 * i.naturalWidth).map(i => i.alt)"""

# Everything that a reader can unfold, unfolded, and every formula set: they are set when they come into view.
UNFOLD = """async () => {
    document.querySelectorAll('details').forEach(details => details.open = true);
    document.querySelectorAll('.toggle-hidden').forEach(element => element.classList.remove('toggle-hidden'));
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Control', ctrlKey: true}));
    while (document.querySelector('script.mathjax') && !window.MathJax.startup)
        await new Promise(later => setTimeout(later, 20));
    await window.MathJax?.startup?.promise;
    await window.MathJax?.startup?.document?.lazyTypesetAll?.();
}"""
# Of ten thousand coloured tokens of code one of each kind is enough to look at.
THIN = """() => {
    const seen = new Set();
    for (const token of document.querySelectorAll('.highlight pre span[class]')) {
        if (seen.has(token.className)) token.replaceWith(token.textContent);
        seen.add(token.className);
    }
}"""
WIDE = """width => [...document.querySelectorAll(
        'p, li, dd, h1, h2, h3, img'.split(', ').map(tag => `.bd-article ${tag}`).join())]
    .filter(e => e.getBoundingClientRect().right > width + 1
                 && !e.closest('.ledger, table, .math, mjx-container, .claim-table, .scrolls, pre, .output'))
    .map(e => (e.textContent || e.src).slice(0, 60))"""
# One element of each combination of colours, size and weight carries a mark; contrast is judged on these.
MARK = """() => {
    document.querySelectorAll('mjx-container').forEach(formula => formula.replaceChildren());
    document.querySelectorAll('[data-kind]').forEach(element => delete element.dataset.kind);
    const ground = element => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            if (colour !== 'rgba(0, 0, 0, 0)') return colour;
        }
    };
    const seen = new Set();
    for (const element of document.querySelectorAll('body *')) {
        if (![...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
        if (!element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const kind = [style.color, style.fontSize, style.fontWeight, style.opacity, ground(element)].join();
        if (!seen.has(kind)) element.dataset.kind = '';
        seen.add(kind);
    }
}"""
# What shows words of which none is judged is out of contrast's way.
PRUNE = """() => {
    const above = new Set();
    for (const marked of document.body.querySelectorAll('[data-kind]'))
        for (let element = marked; element !== document.documentElement; element = element.parentElement)
            above.add(element);
    for (const element of above) {
        if (element.closest('[data-kind]')) continue;
        for (const child of [...element.children])
            if (!above.has(child) && !child.matches('style') && child.textContent.trim()) child.remove();
    }
}"""
AXE = "{resultTypes: ['violations'], preload: false, "  # from disk no page may read a style sheet
MARKED = "axe.configure({rules: [{id: 'color-contrast', selector: '[data-kind], [data-kind] *'}]})"
EVERYTHING = f"axe.run(document, {AXE}}})"
CONTRAST = f"axe.run({{include: [['[data-kind]']]}}, {AXE} runOnly: ['color-contrast']}})"


def small_parts(page, name) -> dict:
    """What a reader sees of a page that is just loaded: code that is cut, and on a phone figures that are too small."""
    page.set_viewport_size({"width": 1280, "height": 900})
    values = {"code that is cut": page.evaluate(CUT)}
    if name in CHAPTERS:
        page.set_viewport_size({"width": 390, "height": 844})
        values["figures that are too small"] = page.evaluate(SMALL)
        values["wider than a phone"] = page.evaluate("Math.max(0, document.documentElement.scrollWidth - 390)")
    page.set_viewport_size(SIZE)
    return values


def broken_parts(page) -> dict:
    """What is not whole: errors, requests that leave the disk, images, formulas, texts of images."""
    images = "[...document.querySelectorAll('img')]"
    return {
        "errors": list(page.errors),
        "outside": [a for a in page.addresses if not a.startswith(("file:", "data:", "blob:"))],
        "broken images": page.evaluate(f"{images}.filter(i => i.complete && !i.naturalWidth).map(i => i.src)"),
        "images without a text": page.evaluate(
            f"{images}.filter(i => !i.hasAttribute('alt') || /\\.(png|svg|jpe?g|gif)$/.test(i.alt)).map(i => i.src)"
        ),
        "formulas not set": page.evaluate(
            "[...document.querySelectorAll('.math')].filter(m => !m.querySelector('mjx-math')).map(m => m.innerText)"
        ),
        "formulas in error": page.evaluate(
            "[...document.querySelectorAll('mjx-merror')].map(e => e.parentElement.textContent.slice(0, 80))"
        ),
    }


def wide_parts(page) -> dict:
    """What is wider than the window, at every width and in both themes."""
    values = {}
    for scheme, widths in (("light", WIDTHS), ("dark", WIDTHS[::-1])):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            whole = page.evaluate("document.documentElement.scrollWidth")
            wide = page.evaluate(WIDE, width) + ([f"the page is {whole} wide"] if whole > width else [])
            values[f"wider than {width}, {scheme}"] = wide
    return values


def axe_findings(page) -> dict:
    """What axe-core finds, minor or grave: everything in the dark, contrast in both themes."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    page.evaluate(MARKED)
    values = {}
    for scheme, run in (("dark", EVERYTHING), ("light", CONTRAST)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        page.evaluate(MARK)
        if run == CONTRAST:
            page.evaluate(PRUNE)
        values[f"axe, {scheme}"] = [
            f"{violation['id']}: {node['html'][:120]}: {node['failureSummary'][:200]}"
            for violation in page.evaluate(run)["violations"]
            for node in violation["nodes"]
        ]
    return values


@pytest.mark.parametrize("name", [*PAGES, "search.html"])
def test_a_page_is_whole_offline_fits_and_is_accessible(tab, name):
    tab.goto((HTML / name).as_uri())
    problems = small_parts(tab, name)
    tab.evaluate(UNFOLD)
    problems |= broken_parts(tab)
    tab.evaluate(THIN)
    tab.add_style_tag(content=STILL)
    problems |= wide_parts(tab)
    problems |= axe_findings(tab)
    assert not {what: found for what, found in problems.items() if found}
