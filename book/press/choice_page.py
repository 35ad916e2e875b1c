"""The form of "Choose a model" for the site: inputs, the answer to the run's own problem, and the results.

The browser runs the functions of :mod:`book.press.choice_rule`, translated, on the same results; noise is looked up in
a table that Python computed. Without JavaScript, and in print, the answer to the run's problem stays.
"""

import html
import inspect
import json

import numpy as np

from book.press import choice, choice_evidence, to_script
from book.press import choice_rule as rule
from book.press.choice import LEAST_LABELS, Answer, Problem
from book.press.choice_evidence import CURATOR, LABELS, NOBODY, RECORDS
from papers.architecture import advice_promise, advice_rows

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 8, 10, 20, 50, 100)
DELTAS = (1e-5, 1e-6, 1e-7)
LIMIT = 300_000  # bytes that the page may embed
STYLE = """
.choose { background: var(--card, #f6f8fa); color: var(--pst-color-text-base, inherit); border-radius: 6px;
  padding: 1em; }
.choose form { display: grid; grid-template-columns: repeat(auto-fit, minmax(9em, 1fr)); gap: 0.7em 1em; margin: 0; }
.choose form[hidden] { display: none; }
.choose label { display: block; font-size: 0.9em; font-weight: 600; }
.choose input, .choose select { display: block; width: 100%; box-sizing: border-box; font: inherit; font-weight: 400;
  padding: 0.3em 0.4em; margin-top: 0.15em; color: inherit; background: var(--pst-color-background, Canvas);
  border: 1px solid var(--pst-color-text-muted, GrayText); border-radius: 4px; min-height: 2.2em; }
.choose input:focus-visible, .choose select:focus-visible { outline: 3px solid var(--pst-color-primary, Highlight); }
.choose dl { margin: 1em 0 0; }
.choose dt { font-weight: 600; margin-top: 0.5em; }
.choose dd { margin: 0.1em 0 0 1em; overflow-wrap: anywhere; }
.choose pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.choose dd:first-of-type { font-size: 1.1em; font-weight: 600; }
html[data-theme="dark"] .bd-content div.cell_output .text_html:has(.choose) {
  background: transparent !important; padding: 0; }
.choose button { font: inherit; min-height: 2.2em; padding: 0.3em 0.8em; margin-top: 0.5em; }
@media print { .choose form, .choose button { display: none; } }
"""
# Of the answer on a sheet of its own: one page of A4, as a test counts.
SHEET = """
@page { size: A4; margin: 12mm; }
body { font: 8.5pt/1.25 sans-serif; margin: 0; }
h1 { font-size: 13pt; margin: 0 0 4pt; }
h3 { font-size: 9pt; margin: 5pt 0 1pt; }
dl { margin: 4pt 0; columns: 2; column-gap: 8mm; }
dt { font-weight: bold; break-after: avoid; margin-top: 2pt; }
dd { margin: 0 0 0 6pt; overflow-wrap: anywhere; }
pre { font: 7pt/1.2 monospace; white-space: pre-wrap; margin: 0; }
"""


def page(answer: Answer) -> str:
    """The form as HTML, with this answer in it, its data, and a reference to its script on the site.

    Raises:
        ValueError: when the page would embed more than LIMIT bytes.
    """
    embedded = json.dumps(data(answer.problem), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    if len(embedded.encode()) > LIMIT:
        raise ValueError(f"the form embeds {len(embedded.encode()):,} bytes: at most {LIMIT:,} are allowed.")
    rows = "".join(
        f"<dt>{html.escape(heading)}</dt><dd>{html.escape(text)}</dd>" for heading, text in choice.lines(answer)
    )
    programs = "".join(
        f"<h3>With {library}</h3><pre>{html.escape(text)}</pre>" for library, text in choice.code(answer).items()
    )
    return (
        f'<style>{STYLE}</style><div class="choose"><form id="choose-form" hidden>{_fields(answer)}</form>'
        f'<div role="status" aria-label="Answer"><dl id="choose-answer">{rows}</dl></div>'
        f'<div id="choose-code">{programs}</div>'
        '<button type="button" id="choose-print" hidden>Print this answer</button>'
        f'<template id="choose-sheet"><style>{SHEET}</style><h1>Choose a model</h1></template></div>'
        f'<script type="application/json" id="choose-data">{embedded}</script>'
        f"<script>var chooseRule = {script()};</script>"
        '<script src="../_static/choose.js" defer></script>'
    )


def data(problem: Problem) -> dict:
    """All that the browser needs: the results, the words, and the noise that Python computed."""
    trainings = sorted({(result.sample_rate, result.steps) for result in choice_evidence.table() if result.steps})
    return choice.data() | {
        "noise": {
            private: {f"{at[0]:.5f} {at[1]}": noise(private, *at, *budgets(problem)) for at in trainings}
            for private in (RECORDS, LABELS)
        },
        "sums": sums(*budgets(problem)), "halves": sums(*budgets(problem), half=True),
    }  # fmt: skip


def script() -> str:
    """The rule as JavaScript, and what it takes of rule 6 for tables."""
    functions = [
        function for _, function in inspect.getmembers(rule, inspect.isfunction) if function.__module__ == rule.__name__
    ]
    return to_script.script(advice_promise.promised, advice_promise.strength, *functions)


def budgets(problem: Problem) -> tuple[list[float], list[float]]:
    """The epsilons and deltas that the form offers: usual ones, and those of the problem."""
    deltas = {*DELTAS, problem.delta} - {0.0}
    return sorted({*map(float, EPSILONS), float(problem.epsilon)}), sorted(deltas, reverse=True)


def noise(private: str, rate: float, steps: int, epsilons: list[float], deltas: list[float]) -> dict:
    """Delta to epsilon to the noise multiplier; for private labels that of half of epsilon."""
    epsilons = [epsilon_ for epsilon_ in epsilons if private == RECORDS or epsilon_ >= LEAST_LABELS]
    delta, epsilon = np.meshgrid(deltas, epsilons, indexing="ij")
    if private == LABELS:
        delta, epsilon = delta / (1 + np.exp(epsilon / 2)), epsilon / 2
    noises = choice.noise_for(epsilon, delta, rate, steps)
    return {
        f"{d:g}": {f"{e:g}": choice.rounded_up(float(noises[i, j])) for j, e in enumerate(epsilons)}
        for i, d in enumerate(deltas)
    }


def sums(epsilons: list[float], deltas: list[float], half: bool = False) -> dict:
    """Delta to epsilon to a curator's noise, over what one record moves the sum by; delta 0 stands for 1e-5, as
    strengths of tables take it. ``half``: of the budget that DP-SGD has for private labels.
    """
    by_delta = {}
    for delta in (*deltas, 0.0):
        asked = [(e / 2, delta / (1 + np.exp(e / 2))) if half else (e, delta) for e in epsilons]
        noises = (choice.sum_noise(e, d or advice_rows.DELTA) for e, d in asked)
        by_delta[f"{delta:g}"] = {f"{e:g}": float(noise) for e, noise in zip(epsilons, noises, strict=True)}
    return by_delta


def _fields(answer: Answer) -> str:
    problem = answer.problem
    epsilons, deltas = ({f"{value:g}": _shown(value) for value in values} for values in budgets(problem))
    deltas = {"": "below 1/n, at most 10⁻⁵", "0": "0 (pure DP)"} | deltas
    ordinary = "Accuracy without privacy (tables: of logistic regression), % (0: not known)"
    who = {CURATOR: "one curator, who is trusted", NOBODY: "nobody: each person randomises"}
    parts = (
        _select("kind", "The records are", {"image": "images", "table": "rows of a table", "text": "texts"}, problem),
        _select("private", "Private are", {"records": "whole records", "labels": "only the labels"}, problem),
        _select("who", "What is private may be seen by", who, problem),
        _number("n", "Training records n", problem, 10, 10**7 - 1, whole=True),
        _number("d", "Numbers in a record", problem, 1, 10**7, whole=True),
        _number("classes", "Classes", problem, 2, 1000, whole=True),
        _select("epsilon", "Privacy budget ε", epsilons, problem),
        _select("delta", "δ", deltas, problem),
        _select("public_n", "The number of records is", {"true": "public", "false": "private"}, problem),
        _select("public_data", "Public data of the kind", {"false": "none", "true": "are at hand"}, problem),
        _number("ordinary", ordinary, problem, 0, 100),
        _number("frequent_class", "Most frequent class, % (0: not known)", problem, 0, 99.9),
    )
    return "".join(parts)


def _shown(value: float) -> str:
    """A small power of ten as such."""
    tens = round(np.log10(value))
    power = str(tens).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{power}" if value < 1e-3 and np.isclose(value, 10.0**tens) else f"{value:g}"


def _select(name: str, label: str, options: dict[str, str], problem: Problem) -> str:
    value = getattr(problem, name)
    chosen, number = (value, "") if isinstance(value, str) else (f"{value:g}", " data-number")
    if isinstance(value, bool):
        chosen, number = str(value).lower(), " data-yes"
    items = "".join(
        f'<option value="{option}"{" selected" if option == chosen else ""}>{text}</option>'
        for option, text in options.items()
    )
    return f'<label data-label="{label}">{label}<select name="{name}"{number}>{items}</select></label>'


def _number(name: str, label: str, problem: Problem, least: float, most: float, whole: bool = False) -> str:
    value, step = getattr(problem, name), ' step="1" data-whole' if whole else ' step="any"'
    return (
        f'<label data-label="{label}">{label}<input type="number" name="{name}" value="{value:.12g}"{step} '
        f'min="{least}" max="{most}" '
        f'data-number data-least="{least}" data-most="{most}" inputmode="decimal"></label>'
    )
