"""The dials of the first chapter: two bells and their ratio, the attacker's curve, and a budget that is spent.

All three are closed forms that the page computes; each formula stands beside the same in Python.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from book.press import dials_formulas
from book.press.dials_page import BLUE, Control, Dial, Formula, Number
from book.press.dials_parts import GREY, HEIGHT, LIMIT, ORANGE, axis, dots, here, key, line
from dplib import mechanisms

WORLDS = {"without her": BLUE, "with her": ORANGE}
PRINTED, PLACES = "what is printed, less the count without her", [k / 10 for k in range(-60, 71)]
BELOW = "printed, less the count without her"  # an axis: as much as a phone shows
DELTA = 1e-5  # of the theorem on composition


def bells() -> Dial:
    """A noisy count in two worlds, and the privacy loss of each output."""
    return Dial(
        "00a-bells",
        "Turn the noise, and look at one output: what does it tell?",
        [
            Number("spread", "standard deviation of the noise", 0.5, 10.0, 1.414, log=True),
            Number("output", PRINTED, -6.0, 7.0, 3.0),
            Control("noise", "noise", ["Laplace", "normal"], menu=True),
        ],
        [_densities(), _losses()],
        ["This output is {times} as likely {world}: its logarithm is {loss}.", "{promise}"],
        "First: the densities of a count with Laplace noise of standard deviation 1.4 in two worlds, two pointed bells "
        "one step apart. Second: the logarithm of their ratio. It rises from −1 to 1 between the two peaks and is flat "
        "outside, where dashed lines mark ε = 1.",
        "Computed in this page. Dashed: the ε of Laplace noise of this width. In words: how much of normal noise lies "
        "beyond it. The printed picture shows Laplace noise with a standard deviation of 1.4.",
        formulas=_bells(),
    )


def _densities() -> dict[str, Any]:
    """The densities of what is printed, with her and without her."""
    where = "(datum.place - (datum.world === 'with her' ? 1 : 0))"
    density = f"noise === 0 ? exp(-abs({where}) / b) / (2 * b) : densityNormal({where}, 0, spread)"
    height = {"calculate": density, "as": "height"}
    x = axis("place", BELOW, tickCount=7)
    colour = key("world", WORLDS)
    return {
        "height": HEIGHT,
        "title": "two worlds",
        "data": {"name": "bells", "values": [{"world": world, "at": place} for world in WORLDS for place in PLACES]},
        "transform": [{"calculate": "datum.at", "as": "place"}, height],
        "encoding": {"x": x, "y": axis("height", "density", {"zero": True}, tickCount=5)},
        "layer": [
            line(colour),
            here("output", x),
            dots(colour, {"filter": "datum.at === 0"}, {"calculate": "output", "as": "place"}, height),
        ],
    }


def _losses() -> dict[str, Any]:
    """The privacy loss of each output, between the limits of Laplace noise as wide."""
    loss = "noise === 0 ? (abs(datum.place) - abs(datum.place - 1)) / b : (datum.place - 0.5) / pow(spread, 2)"
    x = axis("place", BELOW, tickCount=7)
    y = axis("loss", "logarithm of the ratio", {"domain": [-4, 4]}, tickCount=5)
    limits = {
        "data": {"values": [{"sign": 1}, {"sign": -1}]},
        "transform": [{"calculate": "datum.sign * most", "as": "loss"}],
        "mark": {**LIMIT, "clip": True},
        "encoding": {"x": None, "y": y},
    }
    return {
        "height": HEIGHT,
        "title": "what each output tells",
        "data": {"name": "losses", "values": [{"place": place} for place in PLACES]},
        "transform": [{"calculate": loss, "as": "loss"}],
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "line", "color": GREY, "strokeWidth": 2.5, "clip": True}},
            limits,
            here("output", x),
        ],
    }


def _bells() -> dict[str, Formula]:
    def loss(at: Mapping[str, Any]) -> float:
        if at["noise"] == 0:
            return (abs(at["output"]) - abs(at["output"] - 1)) / at["b"]
        return (at["output"] - 0.5) / at["spread"] ** 2

    def times(at: Mapping[str, Any]) -> str:
        size = abs(at["loss"])
        return f"{math.exp(size):.2f} times" if size < 6.9 else "more than a thousand times"

    def promise(at: Mapping[str, Any]) -> str:
        if at["noise"] == 0:
            return f"No output is beyond ε = {at['most']:.2f}: δ is 0."
        return (
            f"Some outputs are beyond ε = {at['most']:.2f}, the limit of Laplace noise as wide: δ is {at['rest']:.2%}."
        )

    large = "format(exp(abs(loss)), '.2f') + ' times'"
    beyond = "'Some outputs are beyond ε = ' + format(most, '.2f') + ', the limit of Laplace noise as wide: δ is '"
    return {
        "b": Formula(f"spread / {math.sqrt(2)!r}", lambda at: at["spread"] / math.sqrt(2)),
        "most": Formula("1 / b", lambda at: 1 / at["b"]),
        "mu": Formula("1 / spread", lambda at: 1 / at["spread"]),
        "rest": Formula(
            dials_formulas.gaussian_delta("most"),
            lambda at: float(mechanisms.gaussian_delta(at["spread"], 1.0, at["most"])),
        ),
        "loss": Formula(
            "noise === 0 ? (abs(output) - abs(output - 1)) / b : (output - 0.5) / pow(spread, 2)", loss, ".2f"
        ),
        "times": Formula(f"abs(loss) < 6.9 ? {large} : 'more than a thousand times'", times),
        "world": Formula(
            "loss >= 0 ? 'with her as without her' : 'without her as with her'",
            lambda at: "with her as without her" if at["loss"] >= 0 else "without her as with her",
        ),
        "promise": Formula(
            f"noise === 0 ? 'No output is beyond ε = ' + format(most, '.2f') + ': δ is 0.' : "
            f"{beyond} + format(rest, '.2%') + '.'",
            promise,
        ),
    }


def curve() -> Dial:
    """The ceiling of all attacks at an epsilon and a delta."""

    def hits(at: Mapping[str, Any]) -> float:
        f, e, d = at["alarms"], at["epsilon"], at["failure"]
        return float(np.clip(min(math.exp(e) * f + d, 1 - math.exp(-e) * (1 - d - f)), 0, 1))

    def belief(at: Mapping[str, Any]) -> float:
        total = at["hits"] + at["alarms"]
        return at["hits"] / total if total > 0 else 0.5

    return Dial(
        "00a-curve",
        "Turn ε and δ: how well can anybody tell the two worlds apart?",
        [
            Number("epsilon", "privacy budget ε", 0.0, 8.0, 1.0),
            Number("failure", "δ", 0.0, 0.2, 0.0),
            Number("alarms", "false alarms of the attack", 0.0, 1.0, 0.05),
        ],
        [_attacks()],
        [
            "With these false alarms no attack finds her in more than {hits} of the cases.",
            "Who gave her even odds believes after such an alarm that she is there with at most {belief}.",
        ],
        "The largest hit rate of any attack against its false alarms, at ε = 1 and δ = 0: two straight lines with "
        "a corner at 27% false alarms and 73% hits, above the diagonal of guessing. At 5% false alarms there are at "
        "most 14% hits.",
        "Computed in this page, for one attack on one output. The printed picture shows ε = 1 and δ = 0.",
        formulas={
            "hits": Formula(_ceiling("alarms"), hits, ".0%"),
            "belief": Formula("hits + alarms > 0 ? hits / (hits + alarms) : 0.5", belief, ".0%"),
        },
    )


def _attacks() -> dict[str, Any]:
    """Hits against false alarms: the ceiling of all attacks, and guessing."""
    x = axis("alarm", "false alarms", {"domain": [0, 1]}, format=".0%", tickCount=5)
    y = axis("hit", "hits", {"domain": [0, 1]}, format=".0%", tickCount=5)
    colour = key("attack", {"no attack is above": BLUE, "guessing": GREY})
    rows = [{"attack": attack, "alarm": k / 200} for attack in ("no attack is above", "guessing") for k in range(201)]
    drawn = {"calculate": f"datum.attack === 'guessing' ? datum.alarm : {_ceiling('datum.alarm')}", "as": "hit"}
    chosen = [
        {"filter": "datum.alarm === 0 && datum.attack !== 'guessing'"},
        {"calculate": "alarms", "as": "alarm"},
        {"calculate": "hits", "as": "hit"},
    ]
    return {
        "height": HEIGHT,
        "data": {"name": "ceiling", "values": rows},
        "transform": [drawn],
        "encoding": {"x": x, "y": y},
        "layer": [line(colour), here("alarms", x), dots(colour, *chosen)],
    }


def _ceiling(f: str) -> str:
    return f"max(0, min(1, exp(epsilon) * {f} + failure, 1 - exp(-epsilon) * (1 - failure - {f})))"


def budget() -> Dial:
    """A budget, and how many questions it pays for."""
    return Dial(
        "00a-budget",
        "Ask, and watch the meter: when is the budget spent?",
        [
            Number("each", "ε of one question", 0.01, 2.0, 0.05, log=True),
            Number("asked", "questions asked", 1.0, 2000.0, 80.0, log=True),
            Number("total", "budget ε", 0.1, 20.0, 3.0, log=True),
        ],
        [_meter(), _growth()],
        [
            "{count} questions spend ε = {sum} added up, or {theorem} by the theorem, at δ = 0.00001. {state}",
            "The budget pays for {by_sum} questions added up, and for {by_theorem} by the theorem.",
        ],
        "First: a meter with two bars for 80 questions of ε = 0.05 each. Added up they spend 4.0, beyond the dashed "
        "line of the budget of 3; by the theorem 2.4. Second: both as they grow. The sum is a straight line, the "
        "theorem's line starts above it, bends, and reaches the budget later.",
        "Computed in this page. The theorem is advanced composition; the better of two true statements counts. Dashed: "
        "the budget. The printed picture shows 80 questions of ε = 0.05 and a budget of 3.",
        formulas=_budget(),
    )


WAYS = {"added up": ORANGE, "by the theorem": BLUE}


def _meter() -> dict[str, Any]:
    """What the questions have spent, a bar for each way to count."""
    way = {
        "field": "way",
        "type": "nominal",
        "title": None,
        "sort": list(WAYS),
        "axis": {"labels": False, "ticks": False},
    }
    x = axis("spent", "ε spent", {"zero": True}, tickCount=5)
    return {
        "height": HEIGHT,
        "title": "the meter",
        "data": {"name": "meter", "values": [{"way": name} for name in WAYS]},
        "transform": [_after("count")],
        "layer": [
            {"mark": {"type": "bar"}, "encoding": {"x": x, "y": way, **key("way", WAYS, lines=False)}},
            _total(x=x),
        ],
    }


def _growth() -> dict[str, Any]:
    """What each number of questions spends, a line for each way to count."""
    x = axis("asked_", "questions", {"zero": True}, tickCount=5, format="~s")
    y = axis("spent", "ε spent", {"zero": True}, tickCount=5)
    return {
        "height": HEIGHT,
        "title": "question by question",
        "data": {"name": "growth", "values": [{"way": name, "k": k / 60} for name in WAYS for k in range(61)]},
        "transform": [{"calculate": "datum.k * span", "as": "asked_"}, _after("datum.asked_")],
        "encoding": {"x": x, "y": y},
        "layer": [line(key("way", WAYS)), _total(x=None, y=y), here("count", x)],
    }


def _after(questions: str) -> dict[str, str]:
    """What so many questions spend, by the way of a row."""
    theorem = f"sqrt({questions}) * root + {questions} * drift"
    return {"calculate": f"datum.way === 'added up' ? {questions} * each : {theorem}", "as": "spent"}


def _total(**axes: Any) -> dict[str, Any]:
    """The whole budget, a dashed stroke across the axis of what is spent."""
    whole = {"data": {"values": [{}]}, "transform": [{"calculate": "total", "as": "spent"}]}
    return {**whole, "mark": {**LIMIT, "strokeWidth": 2}, "encoding": axes}


def _budget() -> dict[str, Formula]:
    factor = math.sqrt(2 * math.log(1 / DELTA))
    least = 1e-9  # so that a budget of 3 pays for thirty questions of 0.1

    def by_theorem(at: Mapping[str, Any]) -> int:
        half = at["root"] / 2
        return math.floor(((math.sqrt(half**2 + at["drift"] * at["total"]) - half) / at["drift"]) ** 2 + least)

    return {
        "count": Formula("floor(asked + 0.5)", lambda at: math.floor(at["asked"] + 0.5), ",d"),
        "root": Formula(f"each * {factor!r}", lambda at: at["each"] * factor),
        "drift": Formula("each * (exp(each) - 1)", lambda at: at["each"] * (math.exp(at["each"]) - 1)),
        "sum": Formula("count * each", lambda at: at["count"] * at["each"], ",.2f"),
        "theorem": Formula(
            "sqrt(count) * root + count * drift",
            lambda at: math.sqrt(at["count"]) * at["root"] + at["count"] * at["drift"],
            ",.2f",
        ),
        "by_sum": Formula(
            f"floor(total / each + {least})", lambda at: math.floor(at["total"] / at["each"] + least), ",d"
        ),
        "by_theorem": Formula(
            f"floor(pow((sqrt(pow(root / 2, 2) + drift * total) - root / 2) / drift, 2) + {least})", by_theorem, ",d"
        ),
        "span": Formula(
            "max(2, 1.3 * max(by_sum, by_theorem), 1.1 * count)",
            lambda at: max(2, 1.3 * max(at["by_sum"], at["by_theorem"]), 1.1 * at["count"]),
        ),
        "state": Formula(
            f"min(sum, theorem) > total + {least} ? 'The budget is overdrawn.' : 'The budget is not overdrawn.'",
            lambda at: "The budget is overdrawn."
            if min(at["sum"], at["theorem"]) > at["total"] + least
            else "The budget is not overdrawn.",
        ),
    }  # fmt: skip
