"""The dials of chapter 0: what noise, sample rate and steps spend, and gradients that are cut."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from book.press import dials_account as account
from book.press.dials_page import BLUE, Control, Dial, Formula, Number, plain
from book.press.dials_parts import GREY, HEIGHT, ORANGE, axis, dots, key, line, stroke
from papers.common import first_figures

LOT, ALL = "batches drawn by lot", "all records in every step"
UP = 1 + 1e-12  # so that 332.5 is written as 333 by a browser and by Python
SPENT = {"domain": [0.01, 1000], "type": "log"}  # epsilon that a reader meets; the table goes beyond


def accounted() -> Dial:
    """Noise, sample rate and steps to epsilon, by the accountant."""
    full = len(account.RATES) - 1
    table = account.table()
    return Dial(
        "00-account",
        "Turn noise, batch and steps: what does the training spend?",
        [
            Control(
                "noise", "noise multiplier σ", [f"{value:g}" for value in account.NOISES], account.NOISES.index(1.0)
            ),
            Control("rate", "sample rate q", [_share(value) for value in account.RATES], account.RATES.index(0.01)),
            Control("steps", "steps T", [f"{value:,}" for value in account.STEPS], account.STEPS.index(1000)),
        ],
        [
            _against("noises", "noise multiplier σ", "noise", "spent[datum.of][datum.k][steps]", "more noise"),
            _against("counts", "steps T", "steps", "spent[datum.of][noise][datum.k]", "more steps"),
        ],
        ["σ = {noise}, q = {rate}, T = {steps}: ε = {here}.", "With all records in every step: ε = {whole}."],
        "Two panels with logarithmic axes. First: epsilon falls as the noise multiplier grows from 0.5 to 10. Second: "
        "epsilon rises with the number of steps, from 1 to 30,000. In both the line of all records in every step lies "
        "far above the line of batches drawn by lot, at a sample rate of 1%.",
        "Not computed here, but looked up in a table of an accountant (privacy loss distributions, dp_accounting) at "
        f"δ = 0.00001, for one record added or removed. Axes show ε from {SPENT['domain'][0]} to "
        f"{SPENT['domain'][1]:,}. The printed picture shows σ = 1, q = 1% and T = 1,000.",
        {"spent": table.tolist(), "noises": list(account.NOISES), "counts": list(account.STEPS)},
        {
            "here": _spent("rate"),
            "whole": _spent(str(full)),
        },
    )


def _against(grid: str, title: str, control: str, spent: str, name: str) -> dict[str, Any]:
    """Epsilon against one of the controls, with the others where they stand."""
    places = len(account.NOISES if grid == "noises" else account.STEPS)
    colour = key("way", {LOT: BLUE, ALL: GREY})
    x = axis("at", title, {"type": "log"}, tickCount=5, format="~s")
    y = axis("epsilon", "ε", SPENT, values=[0.01, 0.1, 1, 10, 100, 1000], format="~r")
    chosen = {"filter": f"datum.k === {control} && inrange(datum.epsilon, {SPENT['domain']})"}
    return {
        "height": HEIGHT,
        "title": name,
        "data": {"name": grid, "values": [{"way": way, "k": k} for way in (LOT, ALL) for k in range(places)]},
        "transform": [
            {"calculate": f"{grid}[datum.k]", "as": "at"},
            {"calculate": f"datum.way === '{LOT}' ? rate : {len(account.RATES) - 1}", "as": "of"},
            {"calculate": spent, "as": "epsilon"},
        ],
        "encoding": {"x": x, "y": y},
        "layer": [
            line(colour),
            {"transform": [{"filter": f"datum.k === {control} && datum.way === '{LOT}'"}], "layer": stroke(x)},
            dots(colour, chosen),
        ],
    }


def _share(rate: float) -> str:
    return f"{100 * rate:g}%"


def _spent(rate: str) -> Formula:
    """Epsilon at the controls' noise and steps, and at a sample rate's position: three digits, without an exponent."""
    cell = f"spent[{rate}][noise][steps] * {UP!r}"

    def python(at: Mapping[str, Any]) -> str:
        value = UP * account.table()[at["rate"] if rate == "rate" else int(rate), at["noise"], at["steps"]]
        if value < 0.001:
            return "below 0.001"
        return plain(value)

    return Formula(f"{cell} < 0.001 ? 'below 0.001' : format({cell}, ',.3~r')", python)


# ---- clipping ----

LONGEST = 0  # of the cloud: the record that would own the sum


def clipping() -> Dial:
    """A cloud of gradients cut to norm C, and what is left of their sum."""
    cloud = first_figures.cloud().round(3)
    lengths = np.linalg.norm(cloud, axis=1)
    others = np.delete(cloud, LONGEST, axis=0).sum(axis=0)
    return Dial(
        "00-clipping",
        "Drag C: which gradients are cut, and what can one record still do to the sum?",
        [Number("C", "clipping norm C", 0.05, 3.0, 1.0)],
        [_cloud(cloud, lengths), _sum(cloud.sum(axis=0), others)],
        [
            "C = {C}: {cut} of " + f"{len(cloud)} gradients are cut. The orange record moves the sum by {{hers}}; "
            f"uncut it would by {lengths[LONGEST]:.2f}.",
            "The sum keeps {kept} of its length.",
        ],
        "First: gradients of 24 records as arrows from one point, grey as they are and blue cut to the radius of a "
        "circle; the longest, in orange, ends far outside and is cut to less than half. Second: the others' sum as one "
        "long arrow, and the orange record's short step at its end, before and after clipping.",
        "Computed in this page, from 24 made-up gradients in two dimensions.",
        formulas=_cut(cloud, lengths),
        figure=True,
    )


def _cut(cloud: np.ndarray, lengths: np.ndarray) -> dict[str, Formula]:
    """How many gradients are cut, the sum of the others, the longest one's share, and how long the sum is."""

    def factors(at: Mapping[str, Any]) -> np.ndarray:
        return np.minimum(1, at["C"] / lengths)

    rest = [i for i in range(len(cloud)) if i != LONGEST]

    def other(axis_: int) -> Formula:
        terms = " + ".join(f"{cloud[i, axis_]!r} * min(1, C / {lengths[i]!r})" for i in rest)
        return Formula(terms.replace("np.float64", ""), lambda at: float(factors(at)[rest] @ cloud[rest, axis_]))

    def mine(axis_: int) -> Formula:
        longest = float(lengths[LONGEST])
        return Formula(
            f"other{'xy'[axis_]} + {float(cloud[LONGEST, axis_])!r} * min(1, C / {longest!r})",
            lambda at: at[f"other{'xy'[axis_]}"] + float(factors(at)[LONGEST] * cloud[LONGEST, axis_]),
        )

    whole = float(np.hypot(*cloud.sum(axis=0)))
    return {
        "cut": Formula(
            " + ".join(f"(C < {float(length)!r} ? 1 : 0)" for length in lengths),
            lambda at: int((at["C"] < lengths).sum()),
            "d",
        ),
        "otherx": other(0),
        "othery": other(1),
        "sumx": mine(0),
        "sumy": mine(1),
        "hers": Formula(
            f"min(C, {float(lengths[LONGEST])!r})", lambda at: min(at["C"], float(lengths[LONGEST])), ".2f"
        ),
        "kept": Formula(
            f"sqrt(sumx * sumx + sumy * sumy) / {whole!r}", lambda at: math.hypot(at["sumx"], at["sumy"]) / whole, ".0%"
        ),
    }


def _plane(width: float, height: float, centre: tuple[float, float]) -> dict[str, dict[str, Any]]:
    """Axes of a plane that shows at least so much, with one scale for both, whatever the width of the page."""
    scale = f"min({HEIGHT} / {height}, width / {width})"
    axes = {}
    for name, middle, pixels in (("x", centre[0], "width"), ("y", centre[1], HEIGHT)):
        half = f"{pixels} / 2 / {scale}"
        domain = [{"expr": f"{middle} - {half}"}, {"expr": f"{middle} + {half}"}]
        axes[name] = {"field": name, "type": "quantitative", "axis": None} | {
            "scale": {"domain": domain, "nice": False, "zero": False}
        }
    return axes


def _arrows(
    rows: list[dict[str, Any]], transform: list, plane: Mapping, colour: Mapping, thick: float
) -> dict[str, Any]:
    """Arrows from (x0, y0) to (x, y), a line and a head each, with one plane for all."""
    turned = {"calculate": "90 - atan2(datum.y - datum.y0, datum.x - datum.x0) * 180 / PI", "as": "turn"}
    start = {"x2": {"field": "x0"}, "y2": {"field": "y0"}}
    angle = {"field": "turn", "type": "quantitative", "scale": None}
    head = {"type": "point", "shape": "triangle", "filled": True, "size": 24 * thick, "opacity": 1}
    return {
        "data": {"values": rows},
        "transform": [*transform, turned],
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": thick}, "encoding": {**plane, **start, **colour}},
            {"mark": head, "encoding": {**plane, "angle": angle, **colour}},
        ],
    }


def _cloud(cloud: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    plane = _plane(4.1, 3.4, (0.6, 0.25))
    colour = key("kind", {"as they are": GREY, "cut to C": BLUE, "the longest record": ORANGE})
    colour = {"color": colour["color"]}
    rows = [
        {"u": x, "v": y, "length": length, "x0": 0, "y0": 0, "first": i == LONGEST}
        for i, ((x, y), length) in enumerate(zip(cloud.tolist(), lengths.tolist(), strict=True))
    ][::-1]  # the longest last, on top
    raw = [{"calculate": "datum.u", "as": "x"}, {"calculate": "datum.v", "as": "y"}]
    raw.append({"calculate": "datum.first ? 'the longest record' : 'as they are'", "as": "kind"})
    cut = [
        {"calculate": f"datum.{part} * min(1, C / datum.length)", "as": name} for part, name in (("u", "x"), ("v", "y"))
    ]
    cut.append({"calculate": "datum.first ? 'the longest record' : 'cut to C'", "as": "kind"})
    around = [{"turn": k * math.pi / 36} for k in range(73)]
    circle = {
        "data": {"values": around},
        "transform": [{"calculate": "C * cos(datum.turn)", "as": "x"}, {"calculate": "C * sin(datum.turn)", "as": "y"}],
        "mark": {"type": "line", "color": "var(--dial-ink)", "strokeDash": [4, 3], "clip": True},
        "encoding": {**plane, "order": {"field": "turn"}},
    }
    return {
        "height": HEIGHT,
        "title": "gradients of 24 records",
        "layer": [_arrows(rows, raw, plane, colour, 1.2), _arrows(rows, cut, plane, colour, 2.4), circle],
    }


def _sum(whole: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """Two paths from the origin: the others' sum and the longest record's step, uncut and cut."""
    plane = _plane(18, 11.5, (7.0, 3.9))
    colour = {"color": key("kind", {"not cut": GREY, "the others": BLUE, "the longest record": ORANGE})["color"]}
    ends = [
        {"kind": "not cut", "p": [0, 0, *others.tolist()]},
        {"kind": "not cut", "p": [*others.tolist(), *whole.tolist()]},
    ]
    uncut = [{"calculate": f"datum.p[{k}]", "as": name} for k, name in enumerate(("x0", "y0", "x", "y"))]
    moving = [{"kind": "the others"}, {"kind": "the longest record"}]
    first = "datum.kind === 'the others'"
    cut = [
        {"calculate": f"{first} ? 0 : otherx", "as": "x0"},
        {"calculate": f"{first} ? 0 : othery", "as": "y0"},
        {"calculate": f"{first} ? otherx : sumx", "as": "x"},
        {"calculate": f"{first} ? othery : sumy", "as": "y"},
    ]
    return {
        "height": HEIGHT,
        "title": "their sum",
        "layer": [_arrows(ends, uncut, plane, colour, 2), _arrows(moving, cut, plane, colour, 3)],
    }
