"""The dials of parts A and B: a private mixture against dimension, and which of two models to train."""

import numpy as np

from press import dials_data as data
from press import dials_formulas
from press.dials_page import BLUE, Control, Dial, Number, Text, rounded
from press.dials_parts import GREEN, GREY, HEIGHT, ORANGE, RED, axis, dots, here, key, line, stroke


def gmm() -> Dial:
    """Part A: error of the private Gaussian mixture against dimension and epsilon."""
    names = {
        "none": "no noise", "unit": "sensitivity one", "L2": "largest ℓ₂ norm", "L1": "largest ℓ₁ norm (Definition 3)"
    }  # fmt: skip
    scales = [[[data.scale(s, p, n) for p in data.DIMENSIONS] for n in data.NOISES] for s in data.SIGNALS]
    x = axis("p", "number of features p", {"type": "log"}, values=[20, 100, 1000, 10_000], format=",")
    y = axis("error", "test error (0.5: a coin toss)", {"domain": [0, 0.55]}, values=[0, 0.1, 0.2, 0.3, 0.4, 0.5])
    colour = key("noise", dict(zip(names.values(), (BLUE, ORANGE, GREEN, RED), strict=True)))
    informative = f"(signal === 0 ? datum.p : {data.SIGNALS['sparse']})"
    chart = {
        "height": HEIGHT,
        "data": {"name": "curves", "values": [{"noise": name, "k": k} for k, name in enumerate(names.values())]},
        "transform": [
            {"calculate": "grid", "as": "p"},
            {"calculate": "scales[signal][datum.k]", "as": "scale"},
            {"flatten": ["p", "scale"]},
            {"calculate": dials_formulas.mixture_error("datum.scale", "datum.p", informative), "as": "error"},
        ],
        "encoding": {"x": x, "y": y},
        "layer": [line(colour), here("grid[features]", x), dots(colour, {"filter": "datum.p === grid[features]"})],
    }
    return Dial(
        "01",
        "Turn ε, and the number of features: who loses with dimension, and who wins?",
        [
            Number("epsilon", "privacy budget ε", 0.1, 10_000.0, 1.0, log=True),
            Control("features", "number of features p", [f"{p:,}" for p in data.DIMENSIONS], 8),
            Control("signal", "signal", ["dense: every feature differs", "sparse: only 20 features differ"], menu=True),
        ],
        [chart],
        [
            "At ε = {epsilon} and p = {features} the error is {none} without noise, {unit} with noise of sensitivity "
            "one, {L2} by the largest ℓ₂ norm, and {L1} by the largest ℓ₁ norm.",
            "Where it claims ε = {epsilon}, the noise of Definition 2 spends {spent}{excess}.",
        ],
        {},
        "Test error against the number of features, from 20 to 10,000, at ε = 1 with a signal in every feature. "
        "Without noise the error is 0 throughout. With noise of sensitivity one it falls from 0.38 to 0. "
        "With the largest norm in the data as sensitivity, ℓ₂ or ℓ₁, it is near one half, a coin toss, at every "
        "dimension.",
        "Computed in this page, at any ε: the mean error on noisy test points of the Fisher classifier by the "
        "chapter's formula, with 30 training points a class, class means two standard deviations apart in each feature "
        "that differs, and δ = 0.0001; and the exact ε of the Gaussian noise. The largest norm is a mean over 10 "
        "simulated data sets, at each p of the slider. The printed picture shows ε = 1 and the dense signal.",
        {"grid": list(data.DIMENSIONS), "scales": scales},
        dials_formulas.mixture(),
    )


def crossover() -> Dial:
    """Part B: accuracy of two models against epsilon, and where the larger one takes over."""
    pairs, budgets = data.pairs(), data.budgets()
    points, marks, regions = [], [], []
    for k, pair in enumerate(pairs):
        for m, role in enumerate(("simple", "complex")):
            columns = [rounded(a, 6) for a in (pair.epsilon, pair.mean[m], pair.low[m], pair.high[m])]
            names = ("epsilon", "accuracy", "low", "high")
            points += [
                {"pair": k, "model": role, **dict(zip(names, v, strict=True))} for v in zip(*columns, strict=True)
            ]
            places = [
                (i, e, round(float(pair.at(e)[m]), 3)) for i, e in enumerate(budgets) if np.isfinite(pair.at(e)[m])
            ]
            marks += [{"pair": k, "model": role, "at": i, "epsilon": e, "accuracy": value} for i, e, value in places]
        value, low, high = np.clip(pair.crossing, pair.epsilon[0], pair.epsilon[-1]).tolist()
        inside = 0 < pair.crossing[0] < np.inf
        regions.append({"pair": k, "value": value if inside else None, "from": low, "to": high})
    mine = {"filter": "datum.pair === pair"}
    power = "datum.value < 1000 ? format(datum.value, '~g') : '10' + '³⁴⁵⁶⁷'[round(log(datum.value) / LN10) - 3]"
    x = axis("epsilon", "privacy budget ε", {"type": "log"}, values={"expr": "ticks[pair]"}, labelExpr=power)
    y = axis("accuracy", "test accuracy (%)", {"zero": False}, tickCount=6)
    colour = key("model", {"simple": BLUE, "complex": ORANGE}, names="names[pair][datum.value === 'simple' ? 0 : 1]")
    limits = {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": {"value": 0}, "y2": {"value": HEIGHT}}
    interval = {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour["color"]}
    ring = {"type": "point", "size": 160, "strokeWidth": 2.5, "opacity": 1}
    chart = {
        "height": HEIGHT,
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "data": {"name": "crossings", "values": regions},
                "transform": [mine, {"filter": "datum.from < datum.to"}],
                "mark": {"type": "rect", "color": GREY, "opacity": 0.22},
                "encoding": limits,
            },
            {
                "data": {"values": regions},
                "transform": [mine, {"filter": "datum.value !== null"}],
                "layer": stroke({**x, "field": "value"}, "crossing", strokeDash=[6, 4]),
            },
            {
                "data": {"name": "runs", "values": points},
                "transform": [mine],
                "layer": [
                    {"mark": {"type": "area", "opacity": 0.22}, "encoding": interval},
                    line(colour),
                    dots(colour),
                ],
            },
            {
                "data": {"name": "yours", "values": marks},
                "transform": [mine, {"filter": "datum.at === epsilon"}],
                "layer": [*stroke(x, "your ε", HEIGHT - 8), {"mark": ring, "encoding": {"color": colour["color"]}}],
            },
        ],
    }
    titles = [f"{pair.name}: {pair.models[0]} and {pair.models[1]}" for pair in pairs]
    ticks = [
        [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7] if p.epsilon[-1] > 100 else [0.1, 0.2, 0.5, 1, 2] for p in pairs
    ]
    return Dial(
        "04",
        "Turn your ε: which of two models should you train?",
        [
            Control("epsilon", "your privacy budget ε", [_plain(e) for e in budgets], budgets.index(1.0)),
            Control("pair", "models and training", titles, menu=True),
        ],
        [chart],
        ["{curves}", "{crossing} {advice}"],
        {
            "curves": Text(("pair", "epsilon"), np.array([[_accuracies(pair, e) for e in budgets] for pair in pairs])),
            "crossing": Text(("pair",), np.array([_crossing(pair) for pair in pairs])),
            "advice": Text(("pair", "epsilon"), np.array([[_advice(pair, e) for e in budgets] for pair in pairs])),
        },
        "Test accuracy of a small and a large fully connected network on MNIST after 1,200 steps, against ε from 0.1 "
        "to ten million. The small one leads by more than a point at ε = 0.1, and the two are within a quarter of one "
        f"at the end. {_crossing(pairs[0])}",
        "Not computed here, but read from published runs on real data: "
        "mean test accuracy over 5 seeds, each learning rate tuned; coloured bands: 95% "
        "intervals; straight lines between the budgets that were run (dots). Dashed: estimated crossing; grey: its 95% "
        "bootstrap interval, as far as it lies in the range. The printed picture shows MNIST, 1,200 steps, at ε = 1.",
        {"ticks": ticks, "names": [list(pair.models) for pair in pairs]},
    )


def _accuracies(pair: data.Pair, epsilon: float) -> str:
    at = pair.at(epsilon)
    if not np.isfinite(at).all():
        first, last = (_plain(pair.epsilon[i]) for i in (0, -1))
        return f"This pair was run from ε = {first} to {last}; yours is {_plain(epsilon)}."
    run = np.flatnonzero(pair.epsilon == epsilon)
    if not len(run):
        values = ", ".join(f"{name} {value:.1f}%" for name, value in zip(pair.models, at, strict=True))
        return f"ε = {_plain(epsilon)}: {values} (between the budgets that were run)."
    i = int(run[0])
    values = ", ".join(
        f"{name} {pair.mean[m, i]:.1f}% [{pair.low[m, i]:.1f}, {pair.high[m, i]:.1f}]"
        for m, name in enumerate(pair.models)
    )
    if pair.leads is None:
        return f"ε = {_plain(epsilon)}: {values}."
    lead = {1: f"the {pair.models[0]} leads beyond chance", -1: f"the {pair.models[1]} leads beyond chance"}
    return f"ε = {_plain(epsilon)}: {values}; {lead.get(pair.leads[i], 'no difference beyond chance')}."


def _crossing(pair: data.Pair) -> str:
    value, low, high = (_end(x, pair) for x in pair.crossing)
    if pair.crossing[1] == np.inf:
        return f"Crossing: {value}, if there is one, and so is its whole 95% interval."
    return f"Crossing: ε = {value}, 95% interval from {low} to {high}."


def _end(value: float, pair: data.Pair) -> str:
    if value == 0:
        return f"below {pair.epsilon[0]:,g}"
    if value == np.inf:
        return f"above {_plain(pair.epsilon[-1])}"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def _advice(pair: data.Pair, epsilon: float) -> str:
    simple, larger = pair.models
    side = pair.verdict(epsilon)
    where = {1: "below", 0: "inside", -1: "above"}[side]
    ahead = simple if side == 1 else larger
    if side and pair.leads is not None and side not in pair.leads:
        where += f" the interval, but at no budget that was run does the {ahead} lead beyond chance"
        return f"Your ε lies {where}: these runs cannot say; the {simple} costs less."
    says = f"train the {ahead}" if side else f"these runs cannot say; the {simple} costs less"
    return f"Your ε lies {where} the interval: {says}."


def _plain(value: float) -> str:
    """A budget without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"
