"""The form of "Choose a model" for the site: inputs, the answer to the run's own problem, and the data of the chart.

The browser walks the same chart over the same results; noise multipliers are looked up in a table that Python computed.
Without JavaScript, and in print, the answer to the run's problem stays.
"""

import html
import json

import numpy as np

from press import choice, choice_evidence, choice_rules, choice_text
from press.choice import Answer, Problem
from press.choice_evidence import IMAGE, RECORDS, TABLE, TEXT
from press.choice_problem import LEAST_LABELS
from press.choice_rules import Question

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 8, 10, 20, 50, 100)
DELTAS = (1e-5, 1e-6, 1e-7)
KINDS = (IMAGE, TABLE, TEXT)
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
.choose dd:first-of-type { font-size: 1.1em; font-weight: 600; }
html[data-theme="dark"] .bd-content div.cell_output .text_html:has(.choose) {
  background: transparent !important; padding: 0; }
@media print { .choose form { display: none; } }
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
        f"<dt>{html.escape(heading)}</dt><dd>{html.escape(text)}</dd>" for heading, text in choice_text.lines(answer)
    )
    return (
        f'<style>{STYLE}</style><div class="choose"><form id="choose-form" hidden>{_fields(answer)}</form>'
        f'<div role="status" aria-label="Answer"><dl id="choose-answer">{rows}</dl></div></div>'
        f'<script type="application/json" id="choose-data">{embedded}</script>'
        '<script src="../_static/choose.js" defer></script>'
    )  # fmt: skip


def data(problem: Problem) -> dict:
    """All that the browser needs: the chart, the results, the worst errors, the caveats and the noise."""
    results = choice_evidence.table()
    kinds = sorted({(one.data.kind, one.private) for one in results})
    return {
        "start": choice_rules.tree().name,
        "nodes": {node.name: _node(node) for node in choice_rules.nodes()},
        "datasets": {_key(one.data): _dataset(one.data) for one in results},
        "results": [
            {
                "place": place, "data": _key(one.data), "family": one.family, "private": one.private,
                "epsilon": one.epsilon, "accuracy": one.accuracy, "share": choice.share_kept(one),
                "steps": one.steps, "says": choice_text.described(one),
            }
            for place, one in enumerate(results)
        ],
        "worst": {
            f"{kind} {private}": {"errors": choice.worst(kind, private), "foretold": choice.foretold(kind, private)}
            for kind, private in kinds if choice.worst(kind, private)
        },
        "reach": choice.REACH, "wide": choice_text.WIDE, "numbers": choice_text.NUMBERS,
        "caveats": [([(t.fact, t.operation, t.value) for t in one.tests], one.says) for one in choice_text.caveats()],
        "noise": noise(*budgets(problem)), "label_noise": label_noise(*budgets(problem)), "half": choice_text.HALF,
        "least_labels": LEAST_LABELS,
    }  # fmt: skip


def budgets(problem: Problem) -> tuple[list[float], list[float]]:
    """The epsilons and deltas that the form offers: usual ones, and those of the problem."""
    deltas = {*DELTAS, problem.delta} - {0.0}
    return sorted({*map(float, EPSILONS), float(problem.epsilon)}), sorted(deltas, reverse=True)


def noise(epsilons: list[float], deltas: list[float]) -> dict:
    """Steps to delta to epsilon to (1 / sample rate, noise multiplier as text), for every training that is advised."""
    steps = _steps({leaf.family for leaf in choice_rules.leaves()})
    return _table(steps, deltas, epsilons, *np.meshgrid(steps, deltas, epsilons, indexing="ij"))


def label_noise(epsilons: list[float], deltas: list[float]) -> dict:
    """The same where only labels are private and DP-SGD covers them: for half of epsilon, under the asked-for budget.

    That is images below the epsilon from which label randomisation is advised.
    """
    epsilons = [epsilon for epsilon in epsilons if LEAST_LABELS <= epsilon < choice_rules.stages_from()]
    steps = _steps({"linear", "small", "cnn"}, IMAGE)
    count, delta, epsilon = np.meshgrid(steps, deltas, epsilons, indexing="ij")
    return _table(steps, deltas, epsilons, count, delta / (1 + np.exp(epsilon / 2)), epsilon / 2)


def _steps(families: set[str | None], *kinds: str) -> list[int]:
    """Steps of the trainings under record privacy whose result may be the nearest one of these families."""
    return sorted(
        {
            one.steps
            for one in choice_evidence.table()
            if one.steps and one.private == RECORDS and one.family in families and one.data.kind in (kinds or KINDS)
        }
    )


def _table(steps, deltas, epsilons, count, delta, epsilon) -> dict:
    rate, sigma, _ = choice.least_rate(epsilon, delta, count)
    return {
        t: {
            f"{d:g}": {f"{e:g}": (round(1 / rate[i, j, k]), f"{sigma[i, j, k]:.3f}") for k, e in enumerate(epsilons)}
            for j, d in enumerate(deltas)
        }
        for i, t in enumerate(steps)
    }


def _node(node) -> dict:
    if isinstance(node, Question):
        test = (node.test.fact, node.test.operation, node.test.value)
        return {"name": node.name, "asks": node.asks, "test": test, "yes": node.yes.name, "no": node.no.name}
    cites = [(one.chapter, one.row, one.says) for one in node.cites]
    return {"name": node.name, "family": node.family, "private": node.private, "says": node.says, "cites": cites}


def _key(one) -> str:
    return f"{one.name} {one.d}"


def _dataset(one) -> dict:
    return {"name": one.name, "kind": one.kind, "n": one.n, "d": one.d, "classes": one.classes}


def _fields(answer: Answer) -> str:
    own = answer.problem
    epsilons, deltas = (_options(values) for values in budgets(own))
    kinds = {"image": "images", "table": "rows of a table", "text": "texts"}
    protected = {"records": "whole records", "labels": "only the labels"}
    without = "Accuracy without privacy, % (0: not known)"
    return "".join(
        (
            _select("kind", "The records are", kinds, own.kind),
            _select("private", "Private are", protected, own.private),
            _number("n", "Training records n", own.n, 10, 10**7, whole=True),
            _number("d", "Numbers in a record", own.d, 1, 10**7, whole=True),
            _number("classes", "Classes", own.classes, 2, 1000, whole=True),
            _select("epsilon", "Privacy budget ε", epsilons, f"{own.epsilon:g}", number=True),
            _select("delta", "δ", {"0": "0 (pure DP)"} | deltas, f"{own.delta:g}", number=True),
            _select("public", "Public data of that kind", {"no": "no", "yes": "yes"}, "yes" if own.public else "no"),
            _number("accuracy_without_privacy", without, own.accuracy_without_privacy, 0, 100),
            _number("frequent_class", "Most frequent class, % (0: not known)", own.frequent_class, 0, 99.9),
        )
    )  # fmt: skip


def _options(values: list[float]) -> dict[str, str]:
    """Options of a menu: value as text to what is shown, powers of ten as such."""

    def shown(value: float) -> str:
        tens = round(np.log10(value))
        power = str(tens).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if value < 1e-3 and np.isclose(value, 10.0**tens) else f"{value:g}"

    return {f"{value:g}": shown(value) for value in values}


def _select(name: str, label: str, options: dict[str, str], chosen: str, number: bool = False) -> str:
    items = "".join(
        f'<option value="{value}"{" selected" if value == chosen else ""}>{text}</option>'
        for value, text in options.items()
    )
    return f'<label>{label}<select name="{name}"{" data-number" if number else ""}>{items}</select></label>'


def _number(name: str, label: str, value: float, least: float, most: float, whole: bool = False) -> str:
    step = ' step="1" data-whole' if whole else ' step="any"'
    return (
        f'<label>{label}<input type="number" name="{name}" value="{value:.12g}" min="{least}" max="{most}"{step} '
        f'data-number data-label="{label}" data-least="{least}" data-most="{most}" inputmode="decimal"></label>'
    )
