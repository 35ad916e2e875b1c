"""Each moving picture alone on a page, in headless Chromium: what a reader does with it, and what is drawn then."""

import math
import shutil

import numpy as np
import pytest

from book.press import (
    dials,
    dials_account,
    dials_features,
    dials_guarantees,
    dials_map,
    dials_page,
    dials_training,
)
from papers.screening import accounts, one_update
from tests.conftest import ROOT, needs_chromium, unlinked, watched

pytestmark = [pytest.mark.site, needs_chromium]
# Data of the marks of one type in a chart, with the middle of each on the page.
MARKS = """([name, chart, type]) => {
  const view = window.dials[name][chart], found = [];
  const frame = view.container().querySelector("svg").getBoundingClientRect(), [left, top] = view.origin();
  const visit = (node) => {
    if (node.marktype !== type || node.role !== "mark") return (node.items ?? []).forEach(visit);
    for (const item of node.items)
      found.push({ ...item.datum, middle: [frame.x + left + (item.bounds.x1 + item.bounds.x2) / 2,
                                           frame.y + top + (item.bounds.y1 + item.bounds.y2) / 2] });
  };
  visit(view.scenegraph().root);
  return found;
}"""
# Words of a chart that lie on each other, or leave it.
CLASHES = """(name) => {
  const clashes = [];
  for (const chart of document.querySelectorAll(`#dial-${name} .dial-chart`)) {
    const frame = chart.getBoundingClientRect();
    const words = [...chart.querySelectorAll("svg text")].filter((text) => text.textContent.trim())
      .map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [i, [text, a]] of words.entries()) {
      if (a.left < frame.left - 1 || a.right > frame.right + 1) clashes.push(`${text} leaves the chart`);
      for (const [other, b] of words.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) clashes.push(`${text} on ${other}`);
    }
  }
  return clashes;
}"""
SMALL = """(name) => [...document.querySelectorAll(`#dial-${name} svg text`)]
  .filter((text) => parseFloat(getComputedStyle(text).fontSize) < 12).map((text) => text.textContent)"""
MAKERS = (
    dials_map.live, dials_training.accounted, dials_training.clipping, dials_guarantees.two_guarantees,
    dials_guarantees.rejections, dials_features.leak, dials_features.pieces,
)  # fmt: skip


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """A function from a dial to its page, which is loaded once for all tests of the module."""
    pages = {}

    def open_(dial):
        if dial.name not in pages:
            folder = tmp_path_factory.mktemp("moving")
            (folder / "notebooks").mkdir()
            shutil.copytree(ROOT / "book" / "_static", folder / "_static")
            dials_page.write([dial], folder / "notebooks", folder / "_static")
            place = folder / "notebooks" / f"dial_{dial.name}.html"
            stands = f'<p class="tag_dial-{dial.name}">The figure.</p>' if dial.figure else ""
            frame = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            place.write_text(f"{frame}{stands}{place.read_text(encoding='utf-8')}", encoding="utf-8")
            page = pages[dial.name] = watched(browser.new_page(viewport={"width": 1280, "height": 900}))
            page.goto(place.as_uri(), wait_until="load")
            page.wait_for_function(f"window.dials?.['{dial.name}']")
        return pages[dial.name]

    return open_


def marks(page, dial, type_, chart=0):
    """The data of all marks of a type, such as "rect", each with its "middle" on the page."""
    return page.evaluate(MARKS, [dial.name, chart, type_])


def answers(page, dial, **at):
    """Wait until the answer is the one of Python at these positions."""
    lines = [" ".join(unlinked(line).split()) for line in dial.answer(**at)]
    page.wait_for_function(
        "(lines) => JSON.stringify([...document.querySelectorAll('.dial-answer span')].map((one) => one.innerText))"
        " === JSON.stringify(lines)",
        arg=lines,
    )


def turn(page, dial, **at):
    """Turn controls as a reader does, and wait for the answer."""
    for name, value in at.items():
        control = page.locator(f"#dial-{dial.name}-{name}")
        if control.evaluate("(one) => one.tagName") == "SELECT":
            control.select_option(str(value))
        elif name in {control_.name for control_ in dial.controls if isinstance(control_, dials_page.Number)}:
            page.locator(f"#dial-{dial.name} [data-of={name}]").fill(f"{value:g}")
        else:
            control.fill(str(value))
    answers(page, dial, **at)


@pytest.mark.parametrize("make", MAKERS)
def test_on_a_phone_its_words_are_large_enough_and_lie_beside_each_other(opened, make):
    dial = make()
    page = opened(dial)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            f"[...document.querySelectorAll('#dial-{dial.name} .dial-chart')]"
            ".every((one) => one.querySelector('svg').getBoundingClientRect().width <= one.clientWidth + 1)"
        )
        assert not page.evaluate(SMALL, dial.name)
        assert not page.evaluate(CLASHES, dial.name), width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.errors
    assert all(address.startswith(("file:", "data:", "blob:")) for address in page.addresses)


def test_the_map_says_what_a_cell_is(opened):
    """A tap turns both sliders, and the answer has what was measured there and where it is tested; hovering tells."""
    dial = dials_map.live()
    page = opened(dial)
    cells = [mark for mark in marks(page, dial, "rect") if "words" in mark]
    places = {(cell["records"], cell["epsilon"]): cell for cell in cells}
    assert len(places) == 30
    for at in ((0, 0), (4, 5), (2, 2)):
        page.mouse.click(*places[at]["middle"])
        answers(page, dial, records=at[0], epsilon=at[1])
        shown = [int(page.locator(f"#dial-14-{name}").input_value()) for name in ("records", "epsilon")]
        assert shown == list(at)
        links = page.locator(".dial-answer a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
        assert len(links) == 2
        assert links[0].startswith("../book/ledger.html#")
    page.mouse.move(*places[4, 0]["middle"])
    tip = page.locator(".dial-tip")
    tip.wait_for(state="visible")
    assert tip.inner_text().startswith("50,000 records, ε = 0.1")
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")
    assert not page.errors


def test_the_map_has_the_runs_that_it_draws(opened):
    dial = dials_map.live()
    _, cells = dials_map._measured()
    records, budgets = sorted({n for n, _ in cells}), [*sorted({e for _, e in cells if e}), None]
    drawn = [mark for mark in marks(opened(dial), dial, "rect") if "words" in mark]
    for mark in drawn:
        cell = cells[records[mark["records"]], budgets[mark["epsilon"]]]
        assert mark["words"].endswith(f"{max(mean.value for mean in cell.means.values()):.1f}%")
        assert (mark["best"] == "linear model best") == (cell.best == 0)


def test_a_figure_stands_for_the_map_in_print_and_without_javascript(opened, browser):
    page = opened(dials_map.live())
    figure, moving = page.locator(".tag_dial-14"), page.locator("#dial-14")
    assert (figure.is_visible(), moving.is_visible()) == (False, True)
    page.emulate_media(media="print")
    assert (figure.is_visible(), moving.is_visible()) == (True, False)
    page.emulate_media(media="screen")
    still = browser.new_context(java_script_enabled=False).new_page()
    still.goto(page.url)
    assert still.locator(".tag_dial-14").is_visible()
    assert not still.locator(".dial-controls").is_visible()
    assert still.locator(".dial-answer").inner_text()
    still.context.close()


def test_noise_rate_and_steps_move_the_curves(opened):
    """The dots stand at the table's value wherever the sliders are, and each slider moves what it should."""
    dial = dials_training.accounted()
    page, table = opened(dial), dials_account.table()
    for rate, noise, steps in ((3, 5, 6), (0, 15, 9), (6, 8, 0), (9, 5, 2)):
        turn(page, dial, rate=rate, noise=noise, steps=steps)
        for chart in (0, 1):
            dots = {dot["way"]: dot["epsilon"] for dot in marks(page, dial, "symbol", chart)}
            expected = {dials_training.LOT: table[rate, noise, steps], dials_training.ALL: table[-1, noise, steps]}
            least, most = dials_training.SPENT["domain"]
            assert dots == {way: value for way, value in expected.items() if least <= value <= most}
    assert not page.errors


def test_no_arrow_is_longer_than_c(opened):
    """The blue arrows end at C at the latest, and the longest record's step in the sum is as long as its arrow."""
    dial = dials_training.clipping()
    page = opened(dial)
    for most in (0.3, 1.0, 2.5):
        turn(page, dial, C=most)
        arrows = marks(page, dial, "rule")
        raw, cut = arrows[: len(arrows) // 2], arrows[len(arrows) // 2 :]  # a layer each
        assert [arrow["length"] for arrow in raw] == [arrow["length"] for arrow in cut]
        assert {arrow["kind"] for arrow in raw if not arrow["first"]} == {"as they are"}
        for arrow in cut:
            assert math.hypot(arrow["x"], arrow["y"]) == pytest.approx(min(most, arrow["length"]))
        step = next(arrow for arrow in marks(page, dial, "rule", 1) if arrow["kind"] == "the longest record")
        first = next(arrow for arrow in cut if arrow["first"])
        length = math.hypot(step["x"] - step["x0"], step["y"] - step["y0"])
        assert length == pytest.approx(min(most, first["length"]))
    assert not page.errors


def test_a_curve_moves_where_the_axis_counts_what_hides_a_label(opened):
    """Counted so, DP-SGD stands at twice the epsilon that is printed, and training in stages where it stood."""
    dial = dials_guarantees.two_guarantees()
    page, bands = opened(dial), {}
    for counts in (0, 1):
        turn(page, dial, counts=counts, epsilon=1)
        bands[counts] = {dot["method"]: (dot["at"], dot["printed"]) for dot in marks(page, dial, "symbol")}
    assert bands[0] == {dials_guarantees.STAGES: (2, 2), dials_guarantees.RECORDS: (2, 2)}
    assert bands[1] == {dials_guarantees.STAGES: (2, 2), dials_guarantees.RECORDS: (2, 1)}
    turn(page, dial, counts=1, epsilon=1, data=1)
    assert {dot["data"] for dot in marks(page, dial, "symbol")} == {1}
    assert not page.errors


def test_one_rejection_after_another_makes_a_negative_update_rarer(opened):
    """As the exact density of an accepted update has it, with her and without."""
    dial = dials_guarantees.rejections()
    page = opened(dial)
    for allowed in (0, 4, 10):
        turn(page, dial, allowed=allowed)
        dots = {dot["world"]: dot["chance"] for dot in marks(page, dial, "symbol")}
        pair = one_update.pair(1.0, one_update.threshold(0.0), allowed)
        for density, world in zip(pair, (dials_guarantees.PRESENT, dials_guarantees.ABSENT), strict=True):
            assert dots[world] == pytest.approx(density.masses(np.array([-np.inf, 0.0]))[0])
        proved = next(
            dot["epsilon"] for dot in marks(page, dial, "symbol", 1) if dot["kind"] == dials_guarantees.PROVED
        )
        assert proved <= one_update.epsilon(*pair, accounts.DELTA) + 1e-6
    assert not page.errors


def test_the_marker_of_a_training_stands_at_the_share_that_the_answer_says(opened):
    """It once said 0.6% where it stood near 9%."""
    dial = dials.screening()
    page = opened(dial)
    for setting in range(3):
        for push in range(len(dial.controls[0].options)):
            turn(page, dial, setting=setting, push=push)
            shares = {f"{dot['rate']:.0%}" for dot in marks(page, dial, "symbol")}
            assert len(shares) == 1
            assert f" {shares.pop()} of all candidates" in page.locator(".dial-answer").inner_text()
    assert not page.errors


def test_the_list_of_kept_pixels_tells_her_value(opened):
    dial = dials_features.leak()
    page, kept = opened(dial), {}
    for hers in (0.9, 0.97):
        turn(page, dial, hers=hers)
        kept[hers] = {mark["pixel"] for mark in marks(page, dial, "rect") if mark["state"] == "kept"}
    assert kept == {0.9: {1, 2, 3, 4}, 0.97: {1, 2, 3, 5}}
    sure, noisy = ({mark["kind"]: mark["chance"] for mark in marks(page, dial, "symbol", 1)}[kind]
                   for kind in (dials_features.RAW, dials_features.NOISY))  # fmt: skip
    assert sure == 1
    assert 0.4 < noisy < 0.6
    assert not page.errors


def test_pieces_that_keep_a_records_length_lose_nothing(opened):
    """The dots stand at the number of inputs, and the two kinds part as the pieces get more."""
    dial = dials_features.pieces()
    page, apart = opened(dial), []
    for k in range(len(dial.parameters["sizes"])):
        turn(page, dial, k=k)
        dots = {dot["kind"]: dot for dot in marks(page, dial, "symbol", 1)}
        assert {dot["inputs"] for dot in dots.values()} == {dial.parameters["sizes"][k]}
        if len(dots) == 2:
            apart.append(dots[dials_features.LONG]["value"] - dots[dials_features.SHORTER]["value"])
        lengths = {dot["kind"]: dot["length"] for dot in marks(page, dial, "symbol")}
        assert lengths[dials_features.SHORTER] == pytest.approx(math.sqrt(10 / dial.parameters["sizes"][k]))
    assert apart[0] == 0
    assert apart[-1] > 20
    assert not page.errors
