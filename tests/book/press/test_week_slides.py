"""Decks on paper: a slide a page, whenever the browser has set the pages."""

import re

import pytest

from book.evidence.execution import RunError
from book.press import week_slides
from tests.conftest import needs_chromium

# As reveal.js does it: letters are fitted at once, and for print each slide gets a page of its own, later.
DECK = """<style>@page {{ size: 400px 300px; margin: 0 }} body, p {{ margin: 0 }}
section {{ height: 299px }} .pdf-page {{ break-after: page }}
.pdf-page:last-child {{ break-after: auto }}</style>
<div class="reveal"><div class="slides"></div></div><script>
const slides = document.querySelector(".slides");
const pages = () => {{ slides.innerHTML = '<div class="pdf-page"><section>a</section>{more}</div>'.repeat(3); }};
slides.innerHTML = "<section>a</section>".repeat(3);
document.documentElement.dataset.fitted = "yes";
if (location.search) setTimeout(pages, 500);
</script>"""


@needs_chromium
def test_a_deck_is_printed_when_its_pages_are_there_and_not_before(tmp_path):
    (deck := tmp_path / "week1.html").write_text(DECK.format(more=""))
    week_slides.print_decks([deck])
    assert len(re.findall(rb"/Type /Page\b", deck.with_suffix(".pdf").read_bytes())) == 3


@needs_chromium
def test_a_deck_that_is_not_a_page_a_slide_is_refused(tmp_path):
    (deck := tmp_path / "week1.html").write_text(DECK.format(more="<p style=height:299px>too much</p>"))
    with pytest.raises(RunError, match=r"week1.html was printed on 6 pages: it has 3 slides."):
        week_slides.print_decks([deck])
    assert not deck.with_suffix(".pdf").exists()
