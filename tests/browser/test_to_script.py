"""Functions that run in Python and, translated, in the browser: the same values from both."""

import random

import pytest

from book.press import to_script
from book.press.to_script import fill
from tests.conftest import needs_chromium

pytestmark = [pytest.mark.site, needs_chromium]


def written(value):
    """Numbers as a page writes them."""
    return [
        f"{value:g}",
        f"{value:.3g}",
        f"{value:.1f}",
        f"{value:.2f}",
        f"{value:.0f}",
        f"{round(value):,}",
        f"a{value:.5f}",
    ]


def sorts(rows):
    """What sorting, the least and conditions make of [number, name]."""
    least = min(rows, key=lambda row: [row[0], row[1]], default=None)
    by_name = {}
    for number, name in sorted(rows, key=lambda row: -row[0]):
        if name not in by_name or number // 2 == 3:
            by_name[name] = number
    chosen = [name for name, number in by_name.items() if 0 < number <= 5 and name != "b"]
    kept = [one for one in chosen or ["none"] if one in ["a", "c", "none"]]
    values_ = {**by_name, "kept": kept, "count": len(rows)}
    if not rows:
        values_["empty"] = None
    elif least is not None and least[0] < 1:
        values_["small"] = min(2, max(0.5, abs(least[0])))
    else:
        values_["least"] = least
    return [values_, values_.get("a", -1), [*by_name.values()], all(number < 9 for number in by_name.values())]


def text(name, count):
    """A text with gaps, and a choice by what is empty."""
    gaps = {"name": name or "nobody", "count": count and 2 * count}
    return fill(" $name has $count ", gaps).strip()


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page()
    page.evaluate(f"() => {{ window.made = {to_script.script(written, sorts, text)}; }}")
    return page


def run(page, name, arguments):
    return page.evaluate("([name, all]) => all.map(given => made[name](...given))", [name, arguments])


def test_numbers_are_written_alike(page):
    rng = random.Random(1)
    values = [rng.uniform(-1, 1) * 10 ** rng.uniform(-7, 9) for _ in range(500)]
    values += [0.5, 1.5, 2.5, 12.25, 0.125, 0.375, 99999.5, 999999.5, 1e-5, 1e-4, 1e6, 123456.0, 0.0, 1e-300, 2.0]
    assert run(page, "written", [[value] for value in values]) == [written(value) for value in values]


def test_lists_and_conditions_work_alike(page):
    rng = random.Random(2)
    values = [
        [[rng.choice([0.5, 1, 3, 6, 7.5, 9]), rng.choice("abcd")] for _ in range(rng.randrange(6))] for _ in range(300)
    ]
    assert run(page, "sorts", [[rows] for rows in values]) == [sorts(rows) for rows in values]


def test_texts_are_filled_alike(page):
    assert run(page, "text", [["Eve", 3], ["", 0]]) == [text("Eve", 3), text("", 0)] == ["Eve has 6", "nobody has 0"]


def loops(n):
    while n > 1:
        n = n / 2
    return n


def sets(rows):
    return {len(rows)}


def calls(n):
    return open(n)


def classes(n):
    import math

    return math.pi


@pytest.mark.parametrize("function", [loops, sets, calls, classes])
def test_what_is_not_known_is_refused(function):
    with pytest.raises(ValueError, match="no JavaScript is known for"):
        to_script.script(function)
