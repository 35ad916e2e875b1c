"""The formulas that dials compute in the page against the library, at 200 random settings, in headless Chromium."""

import json
import shutil

import numpy as np
import pytest

from book.press import dials, dials_features, dials_guarantees, dials_noise, dials_page, dials_training
from book.press.dials_page import Number
from tests.conftest import ROOT, needs_chromium, watched

pytestmark = [pytest.mark.site, needs_chromium]
SETTINGS = 200
STATIC = ROOT / "book" / "_static"
COMPUTED_IN_THE_PAGE = (
    dials.gmm, dials.prior, dials_noise.bells, dials_noise.curve, dials_noise.budget,
    dials_training.accounted, dials_training.clipping, dials_guarantees.rejections, dials_features.leak,
)  # fmt: skip
COMPUTED = """([parameters, names, settings]) => {
  const signals = parameters.map(({ name, value, expr }) => (expr ? { name, update: expr } : { name, value }));
  const view = new vega.View(vega.parse({ signals })).initialize();
  return settings.map((at) => {
    for (const [name, value] of Object.entries(at)) view.signal(name, value);
    view.run();
    return names.map((name) => view.signal(name));
  });
}"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formulas")
    dials_page.write([], folder, folder)
    page = watched(browser.new_page())
    page.goto("about:blank")
    page.add_script_tag(path=folder / "vega.js")
    return page


@pytest.mark.parametrize("make", COMPUTED_IN_THE_PAGE)
def test_each_formula_is_the_librarys_function(page, make):
    dial, rng = make(), np.random.default_rng(1)
    settings = [{control.name: drawn(control, rng) for control in dial.controls} for _ in range(SETTINGS)]
    names = list(dial.formulas)
    scores = page.evaluate(COMPUTED, [dial._parameters(), names, settings])
    assert not page.errors
    for at, values in zip(settings, scores, strict=True):
        expected = json.loads(json.dumps(dial.computed(at), default=lambda x: x.tolist()))
        for name, value in zip(names, values, strict=True):
            if isinstance(expected[name], str):
                assert value == expected[name], (name, at)
            else:
                assert value == pytest.approx(expected[name], rel=1e-7, abs=1e-10), (name, at)


@pytest.mark.parametrize("make", [dials.gmm, dials.prior])
def test_a_typed_number_is_answered_as_python_does(browser, tmp_path, make):
    """The dial alone on a page: its script, its charts, and the field to type into."""
    dial = make()
    (tmp_path / "notebooks").mkdir()
    shutil.copytree(STATIC, tmp_path / "_static")
    dials_page.write([dial], tmp_path / "notebooks", tmp_path / "_static")
    page = watched(browser.new_page(viewport={"width": 1000, "height": 900}))
    page.goto((tmp_path / "notebooks" / f"dial_{dial.name}.html").as_uri(), wait_until="load")
    page.wait_for_function(f"window.dials?.['{dial.name}']")
    answer = page.locator(".dial-answer span")
    assert answer.all_inner_texts() == dial.answer()
    for value in (0.7, 3.25):
        page.fill("[data-of=epsilon]", f"{value:g}")
        page.wait_for_function(
            f"document.querySelector('.dial-answer').innerText.includes('{dials_page.plain(value)}')"
        )
        assert answer.all_inner_texts() == dial.answer(epsilon=value)
    assert page.locator(".dial-chart svg").count() == len(dial.charts)
    assert not page.errors


def test_a_curve_is_shown_alone_and_the_answer_gives_no_other_away(browser, tmp_path):
    dial = dials.gmm()
    (tmp_path / "notebooks").mkdir()
    shutil.copytree(STATIC, tmp_path / "_static")
    dials_page.write([dial], tmp_path / "notebooks", tmp_path / "_static")
    page = watched(browser.new_page(viewport={"width": 1000, "height": 900}))
    page.goto((tmp_path / "notebooks" / "dial_01.html").as_uri(), wait_until="load")
    page.wait_for_function("window.dials?.['01']")
    seen = """(async () => {
      const [view] = window.dials["01"];
      await view.runAsync();
      const names = new Set();
      const visit = node => node.marktype === "line" && node.role === "mark"
        ? node.items.forEach(item => names.add(item.datum.noise)) : (node.items ?? []).forEach(visit);
      visit(view.scenegraph().root);
      return [...names];
    })()"""
    every, *each = next(control.options for control in dial.controls if control.name == "shown")
    assert sorted(page.evaluate(seen)) == sorted(each)
    assert every == "all four"
    for place, name in enumerate(each, start=1):
        page.select_option("select[name=shown]", label=name)
        assert page.evaluate(seen) == [name]
        said = page.locator(".dial-answer span").all_inner_texts()
        assert said == dial.answer(shown=place)
        assert said[0].count("without noise") + said[0].count(" by ") + said[0].count("sensitivity one") == 1
    page.select_option("select[name=shown]", label=every)
    assert sorted(page.evaluate(seen)) == sorted(each)
    assert not page.errors


def drawn(one, rng):
    """A random number of a control's range, or a random position."""
    if not isinstance(one, Number):
        return int(rng.integers(len(one.options)))
    value = rng.uniform(one.on_slider(one.least), one.on_slider(one.most))
    return float(10**value if one.log else value)
