"""The form of "Choose a model" in headless Chromium: it answers, and refuses, as book.press.choice does."""

import random
import shutil
from dataclasses import replace

import pytest

from book.press import choice, choice_page
from book.press.choice import Problem
from tests.book.press.test_choice import drawn
from tests.conftest import ROOT, needs_chromium, watched

STATIC = ROOT / "book" / "_static"
pytestmark = [pytest.mark.site, needs_chromium]
IMAGES = Problem(60000, 784, 10, 1.0, 1e-5, "image")
TABLE = Problem(20000, 100, 2, 0.1, 1e-5, "table")
PROBLEMS = [
    IMAGES,
    replace(IMAGES, ordinary=97.0),
    replace(IMAGES, epsilon=0.1),
    replace(IMAGES, d=576, epsilon=2.0),
    replace(IMAGES, n=20001, epsilon=0.5, delta=1e-6, ordinary=90.0, frequent_class=20.0),
    replace(IMAGES, n=10**6, delta=1e-7),
    replace(IMAGES, epsilon=100.0),
    replace(IMAGES, private="labels"),
    replace(IMAGES, private="labels", epsilon=3.0, d=3072, ordinary=80.0),
    replace(IMAGES, private="labels", epsilon=0.5, d=3072),
    replace(IMAGES, private="labels", epsilon=0.1, d=3072, delta=1e-6),
    replace(IMAGES, private="labels", epsilon=1.0, d=3072),
    replace(IMAGES, private="labels", epsilon=1.0, d=3072, delta=0.0),
    replace(IMAGES, private="labels", delta=0.0),
    replace(IMAGES, private="labels", delta=0.0, epsilon=0.1),
    TABLE,
    replace(TABLE, n=500, d=30),
    replace(TABLE, n=500, d=30, frequent_class=71.0),
    replace(TABLE, delta=0.0, ordinary=85.0, frequent_class=75.0),
    replace(TABLE, n=5000, d=40, epsilon=1.0, delta=None, ordinary=87.0),
    replace(TABLE, n=5000, d=40, epsilon=1.0, public_n=False, public_data=True),
    replace(TABLE, n=5000, d=40, epsilon=1.0, private="labels"),
    replace(TABLE, n=5000, d=40, epsilon=1.0, who="nobody"),
    replace(IMAGES, private="labels", d=3072, epsilon=0.5, who="nobody", public_n=False),
    replace(TABLE, classes=30, n=5000, d=446, epsilon=2.0, delta=1e-6),
    replace(TABLE, kind="text", n=5000, d=40, epsilon=5.0),
    replace(TABLE, kind="text", n=5000, d=40, epsilon=8.0),
]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """A page with the form alone, as the chapter's cell writes it."""
    root = tmp_path_factory.mktemp("choose")
    (root / "notebooks").mkdir()
    shutil.copytree(STATIC, root / "_static")
    file = root / "notebooks" / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{choice_page.page(choice.choose(IMAGES))}", encoding="utf-8")
    page = watched(browser.new_page(viewport={"width": 1440, "height": 900}))
    page.goto(file.as_uri(), wait_until="load")
    return page


def fill(page, problem):
    for name in ("kind", "private", "who", "public_n", "public_data"):
        page.select_option(f"#choose-form [name={name}]", str(getattr(problem, name)).lower())
    for name in ("n", "d", "classes", "ordinary", "frequent_class"):
        page.fill(f"#choose-form [name={name}]", f"{getattr(problem, name):.12g}")
    for name in ("epsilon", "delta"):
        page.select_option(f"#choose-form [name={name}]", f"{getattr(problem, name):g}")


def lines(page):
    """What the page answers."""
    found = page.eval_on_selector_all("#choose-answer dd", "all => all.map(dd => [dd.dataset.heading, dd.textContent])")
    return [tuple(one) for one in found]


def programs(page):
    """The programs on the page, by library."""
    found = page.eval_on_selector_all("#choose-code > *", "all => all.map(one => one.textContent)")
    return {title.removeprefix("With "): text for title, text in zip(found[::2], found[1::2], strict=True)}


@pytest.mark.parametrize(
    "problem", PROBLEMS, ids=lambda one: f"{one.kind}-{one.private}-{one.n}-{one.d}-{one.epsilon:g}"
)
def test_the_page_answers_as_python_does(page, problem):
    fill(page, problem)
    answer = choice.choose(problem)
    assert lines(page) == choice.lines(answer)
    assert programs(page) == choice.code(answer)
    assert not page.errors


def test_it_refuses_what_python_refuses(page):
    fill(page, IMAGES)
    assert page.locator("[role=status] #choose-answer").count() == 1  # a screen reader is told
    page.fill("#choose-form [name=n]", "1000000")
    assert lines(page)[0][0] == "Not possible"
    assert lines(page)[0][1].startswith("δ: it must be at most 1/n = 1e-06, for else")
    page.fill("#choose-form [name=n]", "")
    assert "whole number" in lines(page)[0][1]
    fill(page, IMAGES)
    assert lines(page)[0][0] == "Advice"


EVERY = """problems => problems.map(fields => {
  const form = document.getElementById("choose-form");
  for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
  form.dispatchEvent(new Event("input"));
  const told = [...document.querySelectorAll("#choose-answer dd")].map(dd => [dd.dataset.heading, dd.textContent]);
  return [told, [...document.querySelectorAll("#choose-code > *")].map(one => one.textContent)];
})"""


def test_two_hundred_random_problems_have_one_answer(page):
    """The page's, with the noise that it looks up, is Python's, to the letter, and so are the programs."""
    rng = random.Random(3)
    problems = [drawn(rng) for _ in range(200)]
    problems = [replace(problem_, ordinary=rng.choice([0, 99.5])) for problem_ in problems]
    fields = [
        {name: str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else f"{value:.12g}"
         for name, value in vars(problem_).items()} | {"delta": "0" if problem_.delta == 0 else ""}
        for problem_ in problems
    ]  # fmt: skip
    for problem, (told, code) in zip(problems, page.evaluate(EVERY, fields), strict=True):
        answer = choice.choose(problem)
        assert [tuple(line) for line in told] == choice.lines(answer), problem
        programs = [text for library, program in choice.code(answer).items() for text in (f"With {library}", program)]
        assert code == programs, problem
    assert not page.errors


@pytest.mark.parametrize("problem", PROBLEMS[::3], ids=lambda one: f"{one.kind}-{one.private}-{one.n}-{one.epsilon:g}")
def test_an_answer_prints_on_one_page(page, browser, problem):
    """The sheet that the button gives to the printer has the question, all lines and all programs."""
    fill(page, problem)
    page.click("#choose-print")
    paper = browser.new_page()
    paper.set_content(page.get_attribute("#choose-paper", "srcdoc"))
    assert paper.locator("dd").count() == len(choice.lines(choice.choose(problem)))
    assert paper.locator("pre").count() == len(choice.code(choice.choose(problem)))
    assert f"Training records n: {problem.n};" in paper.locator("p").text_content()
    pages = paper.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
    paper.close()
    assert pages == 1
    assert not page.errors
