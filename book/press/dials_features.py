"""The dials on features: what the list of those that are kept tells, in chapter 2; and features in pieces, in 3."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from book.evidence import plans
from book.press.dials_page import BLUE, Control, Dial, Formula, Number, text
from book.press.dials_parts import GREEN, GREY, HEIGHT, ORANGE, axis, band, dots, here, interval, key, line, percent
from dplib import stats
from dplib.stats import Measured
from papers.architecture import privacy_cost_rows, sum_task

# ---- Chapter 2 ----

RECORDS = 30  # of a class
DISTANCES = (0.62, 0.55, 0.47, 0.4, 0.385, 0.31, 0.22, 0.15)  # of the classes' means, by pixel, at her value 0.5
KEPT, HERS = 4, 5  # pixels that are kept; the pixel that she moves
EDGE = 0.5 + RECORDS * (DISTANCES[KEPT - 1] - DISTANCES[HERS - 1])  # her value from which on it is kept
RAW, NOISY = "Algorithm 1", "with noise on distances"


def leak() -> Dial:
    """Her value in one pixel decides which pixels are kept: surely, or with noise a little more or less likely."""
    return Dial(
        "02",
        "Turn one record's value: who sees it in the list of the pixels that are kept?",
        [
            Number("hers", "her value in pixel 5", 0.0, 1.0, 1.0),
            Number("noise", "noise on each distance (standard deviation)", 0.01, 0.3, 0.05, log=True),
        ],
        [_pixels(), _chances()],
        ["{sure}", "With noise on each distance pixel 5 beats pixel 4 with probability {chance}. {factor}"],
        "First: bars for eight pixels, the distance between the class means in each; four are kept, and hers, the "
        "fifth, has just passed the fourth. Second: the probability that hers is kept, against her value. Without "
        "noise it jumps from 0 to 1 at 0.95; with noise it rises gently from 33% to 51%.",
        f"Computed in this page, with made-up distances and {RECORDS} records of a class. Noise: on each distance, "
        "before the list is made. The printed picture shows her value 1 and noise 0.05.",
        formulas=_told(),
    )


def _pixels() -> dict[str, Any]:
    """The distance of the class means in each pixel, by whether it is kept."""
    colours = key("state", {"kept": BLUE, "left out": GREY}, lines=False)
    pixel = {"field": "pixel", "type": "ordinal", "title": "pixel", "axis": {"labelAngle": 0}}
    state = f"datum.pixel === out ? 'left out' : datum.pixel <= {HERS} ? 'kept' : 'left out'"
    distance = ("distance", "distance of the class means", {"zero": True})
    return {
        "height": HEIGHT,
        "title": "which pixels are kept",
        "data": {"name": "pixels", "values": [{"pixel": j + 1, "d": d} for j, d in enumerate(DISTANCES)]},
        "transform": [
            {"calculate": f"datum.pixel === {HERS} ? distance : datum.d", "as": "distance"},
            {"calculate": state, "as": "state"},
        ],
        "layer": [
            {"mark": {"type": "bar"}, "encoding": {"x": pixel, "y": axis(*distance, tickCount=6), **colours}},
            {
                "transform": [{"filter": f"datum.pixel === {HERS}"}],
                "mark": {"type": "text", "text": "hers", "dy": -8, "fontStyle": "italic"},
                "encoding": {"x": pixel, "y": axis(*distance)},
            },
        ],
    }


def _chances() -> dict[str, Any]:
    """The probability that her pixel is kept against her value in it, without noise and with noise."""
    x = axis("value", "her value in pixel 5", {"domain": [0, 1]}, tickCount=5)
    y = axis("chance", "probability that pixel 5 is kept", {"domain": [0, 1]}, format=".0%", tickCount=5)
    colour = key("kind", {RAW: ORANGE, NOISY: BLUE})
    grid = sorted({*(k / 50 for k in range(51)), EDGE - 1e-6, EDGE})
    chance = f"datum.kind === '{RAW}' ? (datum.value >= {EDGE!r} ? 1 : 0) : {_chance('datum.value')}"
    drawn = {"calculate": chance, "as": "chance"}
    ends = [{"filter": "datum.value === 0"}, {"calculate": "hers", "as": "value"}, drawn]
    return {
        "height": HEIGHT,
        "title": "what the list tells of her",
        "data": {"name": "curves", "values": [{"kind": kind, "value": v} for kind in (RAW, NOISY) for v in grid]},
        "transform": [drawn],
        "encoding": {"x": x, "y": y},
        "layer": [line(colour), here("hers", x), dots(colour, *ends)],
    }


def _chance(value: str) -> str:
    return f"cumulativeNormal(({value} - {EDGE!r}) / {RECORDS} / (noise * {math.sqrt(2)!r}))"


def _told() -> dict[str, Formula]:
    def chance(value: float, noise: float) -> float:
        return NormalDist().cdf((value - EDGE) / RECORDS / (noise * math.sqrt(2)))

    words = {
        True: f"Algorithm 1 keeps pixel 5: whoever sees the list knows that her value is at least {EDGE:.2f}.",
        False: f"Algorithm 1 keeps pixel 4: whoever sees the list knows that her value is below {EDGE:.2f}.",
    }
    least, most = _chance("0"), _chance("1")
    return {
        "distance": Formula(
            f"{DISTANCES[HERS - 1]} + (hers - 0.5) / {RECORDS}",
            lambda at: DISTANCES[HERS - 1] + (at["hers"] - 0.5) / RECORDS,
        ),
        "out": Formula(f"hers >= {EDGE!r} ? {KEPT} : {HERS}", lambda at: KEPT if at["hers"] >= EDGE else HERS),
        "sure": Formula(f"hers >= {EDGE!r} ? '{words[True]}' : '{words[False]}'", lambda at: words[at["hers"] >= EDGE]),
        "chance": Formula(_chance("hers"), lambda at: chance(at["hers"], at["noise"]), ".0%"),
        "most": Formula(f"{most} / {least}", lambda at: chance(1.0, at["noise"]) / chance(0.0, at["noise"])),
        "factor": Formula(
            "'Whatever her value, that moves by a factor of ' + format(most, '.2f') + ' at most.'",
            lambda at: f"Whatever her value, that moves by a factor of {at['most']:.2f} at most.",
        ),
    }


# ---- Chapter 3 ----

SHORTER, LONG = "equal: records get shorter", "times √k: they keep their length"


def pieces() -> Dial:
    """A feature in k pieces of either size, and the accuracy that was measured with as many inputs."""
    study = plans.load("03")
    table, kept = study.read("table_3"), study.read("kept")
    sizes = sorted(table)
    measured = {SHORTER: table, LONG: {sizes[0]: table[sizes[0]], **kept}}
    colours = {SHORTER: BLUE, LONG: GREEN}
    colour = key("kind", colours)
    rows = [
        {"kind": kind, "inputs": m, **interval(mean)}
        for kind, by_size in measured.items()
        for m, mean in ((m, _mean(results)) for m, results in by_size.items())
    ]
    x = axis("inputs", "number of inputs", {"type": "log"}, values=[10, 100, 1000], format=",")
    y = axis("value", "test accuracy (%)", {"domain": [50, 100]}, tickCount=6)
    accuracy = {
        "height": HEIGHT,
        "title": "ten features, in k pieces each",
        "data": {"name": "runs", "values": rows},
        "encoding": {"x": x, "y": y},
        "layer": [
            band(y, colour),
            line(colour),
            here("sizes[k]", x),
            dots(colour, {"filter": "datum.inputs === sizes[k]"}),
        ],
    }
    return Dial(
        "03",
        "Cut each feature into more pieces: is it the number of inputs that hurts?",
        [Control("k", "pieces of a feature, k", [f"{m // sum_task.BASE:,}" for m in sizes], 2)],
        [_lengths(colours, [m // sum_task.BASE for m in sizes]), accuracy],
        [
            "{inputs} inputs, equal pieces: a record has {length} of its length, and the accuracy is {shorter}.",
            "{long}",
        ],
        "First: the length of a record against the number of pieces, from 1 to 100: it falls to a tenth with equal "
        "pieces and stays with pieces times root k. Second: accuracy of DP-SGD against the number of inputs. It falls "
        "from 87 to 61 percent where records get shorter, and stays where they keep their length.",
        "First: by a formula. Second: published runs at ε = 0.0355, means and 95% bands over 100 repeats. The printed "
        f"picture shows {sizes[2] // sum_task.BASE} pieces.",
        {"sizes": sizes},
        {
            "inputs": text(("k",), [f"{m:,}" for m in sizes]),
            "length": text(("k",), [f"{math.sqrt(sum_task.BASE / m):.0%}" for m in sizes]),
            "shorter": text(("k",), [percent(_mean(table[m])) for m in sizes]),
            "long": text(("k",), [_kept(measured[LONG], m) for m in sizes]),
        },
    )


def _lengths(colours: Mapping[str, str], pieces_: list[int]) -> dict[str, Any]:
    """The length of a record against the number of pieces, for both sizes of a piece."""
    colour = key("kind", colours)
    x = axis("pieces", "pieces of a feature, k", {"type": "log"}, values=[1, 10, 100])
    y = axis("length", "length of a record", {"domain": [0, 1.1]}, format=".0%", tickCount=5)
    grid = [10 ** (j / 20) for j in range(41)]
    length = {"calculate": f"datum.kind === '{SHORTER}' ? 1 / sqrt(datum.pieces) : 1", "as": "length"}
    return {
        "height": HEIGHT,
        "title": "how long a record is",
        "data": {"name": "lengths", "values": [{"kind": kind, "pieces": p} for kind in colours for p in grid]},
        "transform": [length],
        "encoding": {"x": x, "y": y},
        "layer": [
            line(colour),
            here(f"{pieces_}[k]", x),
            dots(colour, {"filter": "datum.pieces === 1"}, {"calculate": f"{pieces_}[k]", "as": "pieces"}, length),
        ],
    }


def _mean(results: Any) -> Measured:
    return stats.mean_interval(privacy_cost_rows.percent(results))


def _kept(by_inputs: Mapping[int, Any], inputs: int) -> str:
    if inputs not in by_inputs:
        return "With pieces times √k this number of inputs was not run."
    return f"With pieces times √k it keeps its length, and the accuracy is {percent(_mean(by_inputs[inputs]))}."
