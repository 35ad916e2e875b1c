"""The dials of what is promised: two guarantees on one axis in chapter 9, rejection by rejection in chapter 12."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from book.evidence import plans
from book.press import dials_data as data
from book.press.dials_page import BLUE, Control, Dial, Formula, text
from book.press.dials_parts import (
    GREEN,
    HEIGHT,
    LIMIT,
    ORANGE,
    RED,
    axis,
    band,
    dots,
    here,
    interval,
    key,
    line,
    percent,
)
from papers.labels import stage_rows
from papers.screening import accounts

# ---- Chapter 9 ----

PRINTED, CHANGED = "the ε that is printed", "the ε of a changed label"
STAGES, RECORDS = "two stages: hide labels", "DP-SGD: hides records"


def two_guarantees() -> Dial:
    """Accuracy against epsilon of two methods, with DP-SGD where it is printed or where it hides a changed label."""
    study = plans.load("09")
    tuned, cells = study.read("records"), {name: study.read(name)["cells"] for name in stage_rows.TITLES}
    by_sgd = {name: {e: outcome for (of, e), outcome in tuned.items() if of == name} for name in cells}
    shares = (1.0, 0.5)  # of epsilon that DP-SGD has where the axis counts either

    def say(what) -> list:
        return [
            [[what(cells[name], by_sgd[name], e, share) for e in stage_rows.EPSILONS] for name in cells]
            for share in shares
        ]

    over = ("counts", "data", "epsilon")
    return Dial(
        "09",
        "Turn what the axis counts: which method wins at your ε?",
        [
            Control("epsilon", "ε", [f"{e:g}" for e in stage_rows.EPSILONS]),
            Control("counts", "the axis counts", [PRINTED, CHANGED], 1, menu=True),
            Control("data", "images", list(stage_rows.TITLES.values()), menu=True),
        ],
        [_both(cells, by_sgd)],
        ["{levels} {lead}", "{promise}"],
        "Test accuracy on MNIST against the epsilon of a changed label, from 1 to 8. At 1 DP-SGD, which hides whole "
        "records, is ahead of training in two stages; from 2 on two stages are ahead. Counted by the epsilon that is "
        "printed, the curve of DP-SGD lies further to the left.",
        "Read from published runs: five seeds, 95% bands; DP-SGD tuned at every budget, δ = 0.00001. The printed "
        "picture shows MNIST and the ε of a changed label.",
        formulas={
            "levels": text(over, say(_levels)),
            "lead": text(over, say(_lead)),
            "promise": text(("counts", "epsilon"), [[_promise(e, s) for e in stage_rows.EPSILONS] for s in shares]),
        },
    )


def _both(cells: Mapping, by_sgd: Mapping) -> dict[str, Any]:
    """Accuracy of both methods against the epsilon that is counted."""
    colour = key("method", {STAGES: BLUE, RECORDS: ORANGE})
    x = axis("at", "ε", {"type": "log", "domain": [0.5, 8]}, values=[0.5, 1, 2, 4, 8], format="~r")
    y = axis("value", "test accuracy (%)", {"zero": False}, tickCount=6)
    chosen = f"{list(stage_rows.EPSILONS)}[epsilon]"
    counted = f"datum.method === '{RECORDS}' && counts === 1 ? 2 * datum.printed : datum.printed"
    return {
        "height": HEIGHT,
        "data": {"name": "runs", "values": _runs(cells, by_sgd)},
        "transform": [{"filter": "datum.data === data"}, {"calculate": counted, "as": "at"}],
        "encoding": {"x": x, "y": y},
        "layer": [
            band(y, colour),
            line(colour),
            here(chosen, x),
            dots(colour, {"filter": f"datum.at === {chosen}"}),
        ],
    }


def _runs(cells: Mapping, by_sgd: Mapping) -> list[dict[str, Any]]:
    """A row for each data set, method and epsilon as it is printed."""
    rows = []
    for k, name in enumerate(cells):
        stages = {e: stage_rows.table_row(cells[name], 2)[f"eps{e}"] for e in stage_rows.EPSILONS}
        records = {e: outcome.mean for e, outcome in by_sgd[name].items()}
        for method, means in ((STAGES, stages), (RECORDS, records)):
            rows += [{"data": k, "method": method, "printed": e, **interval(mean)} for e, mean in means.items()]
    return rows


def _levels(cells: Mapping, by_sgd: Mapping, epsilon: float, share: float) -> str:
    two = stage_rows.table_row(cells, 2)[f"eps{epsilon}"]
    return f"ε = {epsilon:g}: two stages {percent(two)}, DP-SGD {percent(by_sgd[epsilon * share].mean)}."


def _lead(cells: Mapping, by_sgd: Mapping, epsilon: float, share: float) -> str:
    lead = stage_rows.less_records(cells, by_sgd, share)[epsilon]
    if lead.low <= 0 <= lead.high:
        return "No difference beyond chance."
    return f"{'Two stages lead' if lead.value > 0 else 'DP-SGD leads'} by {abs(lead.value):.1f} points."


def _promise(epsilon: float, share: float) -> str:
    if share == 1:
        return (
            f"The promises differ: DP-SGD hides a whole record by {epsilon:g} and a changed label by {2 * epsilon:g}; "
            f"two stages hide a changed label by {epsilon:g}, and of a record nothing else."
        )
    return (
        f"Both hide a changed label by {epsilon:g}. DP-SGD, printed with ε = {epsilon * share:g}, hides the rest "
        "of the record besides."
    )


# ---- Chapter 12 ----

ABSENT, PRESENT = "without the record", "with the record"
PROVED, CLAIMED = "such an update proves at least", "claimed"
NEGATIVE = {ABSENT: 0.5, PRESENT: NormalDist().cdf(-1.0)}  # probability that a candidate is negative, and rejected


def rejections() -> Dial:
    """How likely a negative update is in two worlds, which only so many rejections in a row can bring."""
    _, _, claimed = data.smallest_example()
    limits = data.LIMITS
    return Dial(
        "12-rejections",
        "Allow one rejection after another: what does a negative update betray?",
        [Control("allowed", "rejections allowed, μ₀", [str(k) for k in limits], limits.index(10))],
        [_chances(), _proof(claimed)],
        [
            "Without the record a negative update comes once in {once}, with it {times} times less often.",
            "{says}",
        ],
        "First, logarithmic: the chance that the accepted update is negative, against the rejections allowed. Without "
        "the record it halves with each rejection; with it it falls to a sixth. A dashed line marks delta, which the "
        "upper line meets at 16. Second: the epsilon that such an update proves. It rises by about one with each "
        "rejection, passes the claim of 5.3 between 3 and 4, and is 0 from 16 on.",
        "Computed in this page: one update, noise multiplier 1, full batches, δ = 0.00001. The record's gradient "
        "makes positive ones likelier. A negative one is rejected, until after μ₀ rejections the next is taken unseen.",
        formulas=_betrayed(claimed),
    )


ALLOWED = axis("limit", "rejections allowed, μ₀", {"domain": [0, data.LIMITS[-1]]}, tickCount=5)
CHOSEN = {"filter": "datum.limit === allowed"}
BETWEEN = 15.4  # where the label of delta ends: one line is far below it by then, and the other still above


def _chances() -> dict[str, Any]:
    """The chance of a negative update in either world, against the rejections allowed, and delta."""
    worlds = {ABSENT: ORANGE, PRESENT: BLUE}
    colour = key("world", worlds)
    least = "round(-log(datum.value) / LN10)"  # the power of ten, without its sign
    power = f"datum.value === 1 ? '1' : '10⁻' + ({least} > 9 ? '¹' : '') + '⁰¹²³⁴⁵⁶⁷⁸⁹'[{least} % 10]"
    y = axis("chance", "probability", {"type": "log", "domain": [1e-18, 1]}, labelExpr=power, tickCount=6)
    chance = f"pow(datum.world === '{ABSENT}' ? 0.5 : {NEGATIVE[PRESENT]!r}, datum.limit + 1)"
    named = {"type": "text", "text": "δ: rarer does not count", "align": "right", "dy": 14}
    rare = {
        "data": {"values": [{"chance": accounts.DELTA, "limit": BETWEEN}]},  # once, and not for each row of the chart
        "layer": [
            {"mark": LIMIT, "encoding": {"x": None, "y": y}},
            {"mark": {**named, "fontSize": 13}, "encoding": {"y": y}},
        ],
    }
    return {
        "height": HEIGHT,
        "title": "chance of a negative update",
        "data": {"name": "chances", "values": [{"world": world, "limit": k} for world in worlds for k in data.LIMITS]},
        "transform": [{"calculate": chance, "as": "chance"}],
        "encoding": {"x": ALLOWED, "y": y},
        "layer": [line(colour), rare, here("allowed", ALLOWED), dots(colour, CHOSEN)],
    }


def _proof(claimed: float) -> dict[str, Any]:
    """The epsilon that a negative update proves, against the rejections allowed, and the claim."""
    colour = key("kind", {PROVED: RED, CLAIMED: GREEN})
    epsilon = f"datum.kind === '{CLAIMED}' ? {claimed!r} : {_proved('datum.limit')}"
    rows = [{"kind": kind, "limit": k} for kind in (PROVED, CLAIMED) for k in data.LIMITS]
    return {
        "height": HEIGHT,
        "title": "what that proves",
        "data": {"name": "proof", "values": rows},
        "transform": [{"calculate": epsilon, "as": "epsilon"}],
        "encoding": {"x": ALLOWED, "y": axis("epsilon", "ε", {"domain": [0, 20]}, tickCount=5)},
        "layer": [line(colour), here("allowed", ALLOWED), dots(colour, CHOSEN)],
    }


def _proved(limit: str) -> str:
    """The epsilon that a negative update proves: ln((P - delta) / P'), or 0 where it is rarer than delta."""
    chances = {world: f"pow({chance!r}, {limit} + 1)" for world, chance in NEGATIVE.items()}
    return (
        f"({chances[ABSENT]} > {accounts.DELTA} ? "
        f"max(0, log(({chances[ABSENT]} - {accounts.DELTA}) / {chances[PRESENT]})) : 0)"
    )


def _betrayed(claimed: float) -> dict[str, Formula]:
    def proved(at: Mapping[str, Any]) -> float:
        without, present = (NEGATIVE[world] ** (at["allowed"] + 1) for world in (ABSENT, PRESENT))
        if without <= accounts.DELTA:
            return 0.0
        return max(0.0, math.log((without - accounts.DELTA) / present))

    def says(at: Mapping[str, Any]) -> str:
        if at["proved"] == 0:
            return UNSEEN
        if at["proved"] > claimed:
            return f"That proves ε of at least {at['proved']:.2f}, where {claimed:.2f} is claimed."
        return f"That proves ε of at least {at['proved']:.2f}; {claimed:.2f} is claimed."

    more = f"'That proves ε of at least ' + format(proved, '.2f') + ', where {claimed:.2f} is claimed.'"
    less = f"'That proves ε of at least ' + format(proved, '.2f') + '; {claimed:.2f} is claimed.'"
    return {
        "once": Formula("pow(2, allowed + 1)", lambda at: 2 ** (at["allowed"] + 1), ",d"),
        "times": Formula(
            f"pow({NEGATIVE[ABSENT] / NEGATIVE[PRESENT]!r}, allowed + 1)",
            lambda at: (NEGATIVE[ABSENT] / NEGATIVE[PRESENT]) ** (at["allowed"] + 1),
            ",.0f",
        ),
        "proved": Formula(_proved("allowed"), proved),
        "says": Formula(f"proved === 0 ? '{UNSEEN}' : proved > {claimed!r} ? {more} : {less}", says),
    }


UNSEEN = "It is rarer than δ: the hint is still there, and an (ε, δ) statement no longer sees it."
