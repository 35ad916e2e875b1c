"""What an answer of "Choose a model" says in words: its lines, its caveats, and what became of paper B's own advice."""

import functools
import math
from dataclasses import dataclass

from press import choice_evidence as evidence
from press import choice_rules
from press.choice import REACH, Answer
from press.choice_evidence import LABELS, Result
from press.choice_rules import Test

WIDE = 40.0  # points: an interval wider than this is called too wide to use
NUMBERS = {
    "far": "no number: no result lies near",
    "alone": "no number: the nearest data set has no other near it, so how far it carries is unknown",
    "constant": "no number: the share of the most frequent class is not given",
    "frequent": ", the most frequent class",
    "share": ": the share of the gain over a constant that privacy left there, give or take the worst error on "
    "left-out data sets",
    "accuracy": ": the accuracy there as it stands, give or take the worst error on left-out data sets",
    "none": "no number: no accuracy was frozen",
    "wide": "; too wide to use (the accuracy without privacy, where known, may narrow it)",
}
HALF = (
    "DP-SGD is given ε/2 and δ/(1 + e^(ε/2)) for one record added or removed: that covers a replaced label with the ε "
    "and δ asked for"
)
MARKS = {
    "holds": "kept",
    "holds with change": "changed",
    "fails": "dropped",
    "not reproducible as stated": "dropped",
    "undecided": "open",
}


@dataclass(frozen=True)
class Caveat:
    """A sentence that goes with an answer where all tests hold; "{exposed}" in it is a percentage."""

    tests: tuple[Test, ...]
    says: str


@dataclass(frozen=True)
class Advice:
    """A piece of paper B's advice: its mark from the verdict of a row, and what the chart does with it."""

    says: str
    chapter: str
    row: str
    mark: str
    here: str


def facts(answer: Answer) -> dict:
    """The problem's facts with those of its answer: what caveats ask for."""
    return answer.problem.facts | {
        "family": answer.leaf.family or "none",
        "leaf": answer.leaf.name,
        "counts": answer.leaf.private,
        "near": "yes" if answer.near or (answer.nearest is None and (answer.others or answer.leaf.cites)) else "no",
        "noisy": "yes" if answer.settings else "no",
    }


def lines(answer: Answer) -> list[tuple[str, str]]:
    """The answer as (heading, text), caveats last; the interactive page writes the same lines."""
    known = facts(answer)
    found = [("Advice", answer.leaf.says)]
    if s := answer.settings:
        rate = round(1 / s.sample_rate)
        found.append(("Batch", f"{s.batch:,} records on average, each drawn with probability 1/{rate}"))
        found.append(("Steps", f"{s.steps:,}, as in the nearest training of this family"))
        found.append(("Noise multiplier", f"{s.noise_multiplier:.3f} (Rényi DP; one record added or removed)"))
        if answer.problem.private == LABELS:
            found.append(("Budget", HALF))
    if answer.leaf.private == LABELS:
        found.append(("Labels", f"the first stage keeps a true label with probability {kept(answer.problem):.3f}"))
    found.append(("Nearest result", nearest(answer)))
    found.append(("Expected accuracy", expected(answer)))
    found += [("Also measured near", f"{described(one)} {far:.2f} decades away") for one, far in answer.others]
    return found + [("Caveat", text) for text in said(known)]


def kept(problem) -> float:
    """Probability that randomised response over all classes returns the true label."""
    return 1 / (1 + (problem.classes - 1) * math.exp(-problem.epsilon))


def nearest(answer: Answer) -> str:
    """The nearest frozen result and how far it is."""
    if answer.leaf.family == "constant":
        return "a constant prediction needs none; models measured near stand below"
    if answer.nearest is None:
        return "none: no accuracy was frozen"
    if not answer.near:
        return f"too far: {answer.distance:.2f} decades away, and beyond {REACH:.2f} nothing is taken over"
    return f"{described(answer.nearest)} {answer.distance:.2f} decades away"


def expected(answer: Answer) -> str:
    """The expected accuracy with its interval, or why there is none."""
    if answer.expected is None:
        if answer.leaf.family in ("constant", None):
            return NUMBERS[answer.leaf.family or "none"]
        return NUMBERS["alone" if answer.near else "far"]
    one = answer.expected
    if answer.carried == "constant":
        return f"{one.value:.1f}%" + NUMBERS["frequent"]
    wide = NUMBERS["wide"] if one.high - one.low > WIDE else ""
    return f"{one.value:.1f}% [{one.low:.1f}, {one.high:.1f}]" + NUMBERS[answer.carried] + wide


def described(one: Result) -> str:
    """A result in words: accuracy, data set, model, budget, settings, and where it stands."""
    interval = "" if one.low is None else f" [{one.low:.1f}, {one.high:.1f}]"
    how = "" if one.steps is None else f", {one.steps:,} steps of {one.batch:,}"
    budget = f"ε = {one.epsilon:g}"
    return f"{one.accuracy:.1f}%{interval} on {one.data.name} ({one.model}, {budget}{how}; {one.source});"


def said(known: dict) -> list[str]:
    """The caveats whose tests hold."""
    return [
        one.says.replace("{exposed}", f"{100 * known['exposed']:.0f}")
        for one in caveats()
        if all(test.holds(known) for test in one.tests)
    ]


@functools.cache
def caveats() -> tuple[Caveat, ...]:
    """Every caveat, with its numbers from frozen results; none whose numbers the frozen run did not keep."""
    return tuple(
        Caveat(
            tuple(Test(*one) for one in own["when"]),
            choice_rules.filled(own["says"], own.get("values", []), exposed="{exposed}"),
        )
        for own in choice_rules.words()["caveat"]
        if all(evidence.has(*place) for place in own.get("values", []))
    )


@functools.cache
def advice() -> tuple[Advice, ...]:
    """Paper B's advice, as far as its text has it, marked by the verdict of the row that tests it."""
    return tuple(
        Advice(
            own["says"], own["chapter"], own["row"], MARKS[evidence.verdict(own["chapter"], own["row"])], own["here"]
        )
        for own in choice_rules.words()["advice"]
    )
