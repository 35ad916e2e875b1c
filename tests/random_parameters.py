"""Random parameters of every chapter: refused in one sentence, or they pass the check cell. Not a test of CI.

python -m tests.random_parameters --cases 10000 --seed 1
"""

import ast
import collections
import datetime
import functools
import math
import random
import time
from typing import Any

import click
from papermill.translators import PythonTranslator

from book.evidence import plans, sources
from dplib import checks, files
from dplib.checks import ParameterError

EDGES = [0, 1, -1, 2, 0.5, -0.0, 1e-12, 1e12, 5e-324, 1e308, -1e308, math.nan, math.inf, -math.inf, 2**53, 2**63 - 1]
EDGES += [2**63, -(2**63), 10**18, 10**400, -(10**400), 1e-300, 3.0, 10**5000]
TEXTS = ["", " ", "\x00", "\udcff", "\n", "\\", '"""', "🙂", "a\u2028b", "é" * 999, "'; import os #", "digits ", *"/01"]
TEXTS += ["nan", "None", "published", "quick", "no.yml", "../x", "{}", "$(ls)", "{{", "plans/01.yml", "/dev/null"]
NONSENSE = [None, True, False, 1j, ..., {1, 2}, b"x", datetime.date(2026, 1, 1), object, [], {}, (), [[]], {1: 2}]
NONSENSE += [functools.reduce(lambda inner, _: [inner], range(depth), 1) for depth in (3, 60, 900)]
NONSENSE += [range(3), [None], [1, "a"], [math.nan], ["\udcff"], {"a": [1]}, [10**400], [datetime.date(2026, 1, 1)]]
WORDS = ["[a, b]", "{1, 2}", "[" * 3000, "9" * 6000]
WORDS += ["1e5", "1_0", "0x1F", "1,2", "[1", "[2026-13-45]", "1j", "...", "()"]
LONGEST = 800  # characters of a sentence
SECONDS = 20.0


@functools.cache
def cells(chapter: str) -> tuple[dict[str, Any], Any, list[str]]:
    """The chapter's parameters, its check cell, and the texts that stand there."""
    codes = [cell.source for cell in sources.as_notebook(sources.source(chapter)).cells if cell.cell_type == "code"]
    check = next(code for code in codes if "checks.parameters(" in code)
    texts = [one.value for one in ast.walk(ast.parse(check)) if isinstance(one, ast.Constant)]
    texts = [text for text in texts if isinstance(text, str)]
    return sources.default_parameters(chapter), compile(check, chapter, "exec"), texts


def drawn(default: Any, texts: list[str], rng: random.Random) -> Any:
    """A value: near the default, an edge, a text of the check cell, a word of the command line, or nonsense."""
    if rng.random() < 0.05:
        return files.value(rng.choice(WORDS))
    if isinstance(default, list) and rng.random() < 0.5:
        values = [drawn(rng.choice(default or [1]), texts, rng) for _ in range(rng.randrange(5))]
        return values + default * rng.randrange(2)
    if type(default) in (int, float) and rng.random() < 0.7:
        value = default * 10 ** (rng.choice([0.3, 1, 4]) * rng.uniform(-1, 1)) * rng.choice([1, 1, 1, 1, -1])
        return int(value) if rng.random() < (0.95 if type(default) is int else 0.1) else value
    if isinstance(default, str) and rng.random() < 0.6:
        return rng.choice([*texts, *TEXTS])
    return rng.choice(rng.choice([EDGES, TEXTS, NONSENSE]))


def case(chapter: str, rng: random.Random) -> dict[str, Any]:
    """Some parameters of a chapter, now and then one that it does not have."""
    defaults, _, texts = cells(chapter)
    names = rng.sample(sorted(defaults), rng.choice([1, 1, 2, min(3, len(defaults)), len(defaults)]))
    given = {name: drawn(defaults[name], texts, rng) for name in names[: len(defaults)]}
    return given | ({rng.choice(["epsilonn", "In", "checks", "x"]): 1} if rng.random() < 0.05 else {})


def outcome(chapter: str, given: dict[str, Any]) -> str:
    """ "passes", or the sentence; any other error is raised."""
    defaults, check, _ = cells(chapter)
    try:
        checks.check_names(given, defaults)
        plain = {name: files.plain(name, value) for name, value in given.items()}
        injected = PythonTranslator.codify(plain)
        namespace = {"__name__": "__main__", **defaults, "In": ["", injected]}
        exec(injected, namespace)  # what papermill makes of it, as it does
        exec(check, namespace)
    except ParameterError as error:
        return str(error)
    return "passes"


def tried(chapter: str, given: dict[str, Any]) -> tuple[str, bool]:
    """What came of a case, and whether that is wrong: anything but passing, or one sentence in some seconds."""
    start = time.monotonic()
    try:
        says = outcome(chapter, given)
    except BaseException as error:  # whatever it is, that is what is looked for
        return f"{type(error).__name__}: {str(error)[:200]}", True
    wrong = "\n" in says or len(says) > LONGEST or not (says == "passes" or says.endswith("."))
    return says, wrong or time.monotonic() - start > SECONDS


@click.command()
@click.option("--cases", default=1000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(cases: int, seed: int) -> None:
    """Draw cases; say what is wrong, and how many passed and were refused."""
    plans.experiments()  # what check cells import, before anything is timed
    rng, counts = random.Random(seed), collections.Counter()
    for _ in range(cases):
        chapter = rng.choice(sources.chapters())
        given = case(chapter, rng)
        says, wrong = tried(chapter, given)
        counts["wrong" if wrong else "passed" if says == "passes" else "refused"] += 1
        if wrong:
            shown = {name: f"{type(value).__name__} {checks.shown(value)}" for name, value in given.items()}
            click.echo(f"{chapter} {shown}: {says}")
    click.echo(f"{cases} cases: {dict(counts)}")
    raise SystemExit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
