"""All dials of the book, those of four chapters here, written for the pages that embed them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from book.press import dials_data as data
from book.press import (
    dials_features,
    dials_formulas,
    dials_guarantees,
    dials_map,
    dials_noise,
    dials_page,
    dials_training,
)
from book.press.dials_page import BLUE, Control, Dial, Formula, Number, rounded, text
from book.press.dials_parts import GREEN, GREY, HEIGHT, LIMIT, ORANGE, RED, axis, band, dots, here, key, line, stroke

ROLES = ("simple", "complex")  # of the two models of a pair


def build(generated: Path, static: Path) -> None:
    """Write every dial for the site: what pages embed into ``generated``, pictures and the script into ``static``."""
    dials_page.write([make() for make in DIALS], generated, static)


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
            {"filter": "shown === 0 || datum.k === shown - 1"},
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
            # At this budget, with this signal, no two curves lie on each other.
            Number("epsilon", "privacy budget ε", 0.1, 10_000.0, 10.0, log=True),
            Control("features", "number of features p", [f"{p:,}" for p in data.DIMENSIONS], 8),
            Control(
                "signal", "signal", ["dense: every feature differs", "sparse: only 20 features differ"], 1, menu=True
            ),
            Control("shown", "curves", ["all four", *names.values()], menu=True),
        ],
        [chart],
        [
            "At ε = {epsilon} and p = {features} the error is {errors}.",
            "Where it claims ε = {epsilon}, the noise of Definition 2 spends {spent}{excess}.",
        ],
        "Test error against the number of features, from 20 to 10,000, at ε = 10 with a signal in 20 features only. "
        "Without noise the error rises from 0 to 0.08, with noise of sensitivity one to 0.21. With the largest ℓ₂ norm "
        "in the data as sensitivity it rises from 0.45 to one half, a coin toss; with the largest ℓ₁ norm it is near "
        "one half at every dimension.",
        "Computed in this page, at any ε: the mean error on noisy test points of the Fisher classifier by the "
        "chapter's formula, with 30 training points a class, class means two standard deviations apart in each feature "
        "that differs, and δ = 0.0001; and the exact ε of the Gaussian noise. The largest norm is a mean over 10 "
        "simulated data sets, at each p of the slider. The printed picture shows ε = 10 and the sparse signal.",
        {"grid": list(data.DIMENSIONS), "scales": scales},
        dials_formulas.mixture(),
    )


def crossover() -> Dial:
    """Part B: accuracy of two models against epsilon, and where the larger one takes over."""
    pairs, budgets = data.pairs(), data.budgets()
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
        [_two_models(pairs, budgets)],
        ["{curves}", "{crossing} {advice}"],
        "Test accuracy of a small and a large fully connected network on MNIST after 1,200 steps, against ε from 0.1 "
        "to ten million. The small one leads by more than a point at ε = 0.1, and the two are within a quarter of one "
        f"at the end. {_crossing(pairs[0])}",
        "Not computed here, but read from published runs on real data: "
        "mean test accuracy over 5 seeds, each learning rate tuned; coloured bands: 95% "
        "intervals; straight lines between the budgets that were run (dots). Dashed: estimated crossing; grey: its 95% "
        "bootstrap interval, as far as it lies in the range. The printed picture shows MNIST, 1,200 steps, at ε = 1.",
        {"ticks": ticks, "names": [list(pair.models) for pair in pairs]},
        {
            "curves": text(("pair", "epsilon"), [[_accuracies(pair, e) for e in budgets] for pair in pairs]),
            "crossing": text(("pair",), [_crossing(pair) for pair in pairs]),
            "advice": text(("pair", "epsilon"), [[_advice(pair, e) for e in budgets] for pair in pairs]),
        },
    )


def _two_models(pairs: Sequence[data.TwoModels], budgets: Sequence[float]) -> dict[str, Any]:
    """Both models' curves, the interval of their crossing behind them, and a ring on each at the reader's budget."""
    mine = {"filter": "datum.pair === pair"}
    power = "datum.value < 1000 ? format(datum.value, '~g') : '10' + '³⁴⁵⁶⁷'[round(log(datum.value) / LN10) - 3]"
    x = axis("epsilon", "privacy budget ε", {"type": "log"}, values={"expr": "ticks[pair]"}, labelExpr=power)
    y = axis("accuracy", "test accuracy (%)", {"zero": False}, tickCount=6)
    colour = key("model", {"simple": BLUE, "complex": ORANGE}, names="names[pair][datum.value === 'simple' ? 0 : 1]")
    limits = {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": {"value": 0}, "y2": {"value": HEIGHT}}
    ring = {"mark": {"type": "point", "size": 160, "strokeWidth": 2.5, "opacity": 1}}
    crossings = _crossings(pairs)
    layers = [
        {
            "data": {"name": "crossings", "values": crossings},
            "transform": [mine, {"filter": "datum.from < datum.to"}],
            "mark": {"type": "rect", "color": GREY, "opacity": 0.22},
            "encoding": limits,
        },
        {
            "data": {"values": crossings},
            "transform": [mine, {"filter": "datum.value !== null"}],
            "layer": stroke({**x, "field": "value"}, "crossing", strokeDash=[6, 4]),
        },
        {
            "data": {"name": "runs", "values": _runs(pairs)},
            "transform": [mine],
            "layer": [band(y, colour, 0.22), line(colour), dots(colour)],
        },
        {
            "data": {"name": "yours", "values": _at_budgets(pairs, budgets)},
            "transform": [mine, {"filter": "datum.at === epsilon"}],
            "layer": [*stroke(x, "your ε", HEIGHT - 8), {**ring, "encoding": {"color": colour["color"]}}],
        },
    ]
    return {"height": HEIGHT, "encoding": {"x": x, "y": y}, "layer": layers}


def _runs(pairs: Sequence[data.TwoModels]) -> list[dict[str, Any]]:
    """Mean and interval of each model at each budget that was run."""
    rows = []
    for k, pair in enumerate(pairs):
        for m, role in enumerate(ROLES):
            columns = (rounded(values, 6) for values in (pair.epsilon, pair.mean[m], pair.low[m], pair.high[m]))
            for epsilon, *values in zip(*columns, strict=True):
                names = dict(zip(("accuracy", "low", "high"), values, strict=True))
                rows.append({"pair": k, "model": role, "epsilon": epsilon, **names})
    return rows


def _at_budgets(pairs: Sequence[data.TwoModels], budgets: Sequence[float]) -> list[dict[str, Any]]:
    """Each model at each budget of the slider, where its curve has one."""
    return [
        {"pair": k, "model": role, "at": i, "epsilon": epsilon, "accuracy": value}
        for k, pair in enumerate(pairs)
        for m, role in enumerate(ROLES)
        for i, (epsilon, value) in enumerate(zip(budgets, pair.at(budgets)[m].round(3).tolist(), strict=True))
        if np.isfinite(value)
    ]


def _crossings(pairs: Sequence[data.TwoModels]) -> list[dict[str, Any]]:
    """Each pair's crossing and the ends of its interval, as far as they lie in the range that was run."""
    rows = []
    for k, pair in enumerate(pairs):
        value, low, high = np.clip(pair.crossing, pair.epsilon[0], pair.epsilon[-1]).tolist()
        inside = 0 < pair.crossing[0] < np.inf
        rows.append({"pair": k, "value": value if inside else None, "from": low, "to": high})
    return rows


def _accuracies(pair: data.TwoModels, epsilon: float) -> str:
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


def _crossing(pair: data.TwoModels) -> str:
    value, low, high = (_end(x, pair) for x in pair.crossing)
    if pair.crossing[1] == np.inf:
        return f"Crossing: {value}, if there is one, and so is its whole 95% interval."
    return f"Crossing: ε = {value}, 95% interval from {low} to {high}."


def _end(value: float, pair: data.TwoModels) -> str:
    if value == 0:
        return f"below {pair.epsilon[0]:,g}"
    if value == np.inf:
        return f"above {_plain(pair.epsilon[-1])}"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def _advice(pair: data.TwoModels, epsilon: float) -> str:
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


def prior() -> Dial:
    """Part C: what RRWithPrior keeps, and how often it is right."""
    return Dial(
        "08",
        "Turn ε and the prior: how many labels does RRWithPrior keep, and how often is it right?",
        [
            Number("epsilon", "privacy budget ε", 0.0, 8.0, 1.0),
            Number("sharpness", "sharpness of the prior", 0.0, 1.0, 0.3),
            Control("shape", "shape of the prior", data.SHAPES, menu=True),
        ],
        [_kept(), _right()],
        [
            "At ε = {epsilon} k* = {k} of 10 labels are kept. The answer is true with probability {right}; plain "
            "randomised response {plain}, always the likeliest label {guess}.",
            "{constant}",
        ],
        "First: a long-tailed prior over ten labels; at ε = 1 RRWithPrior keeps the two whose prior lies above "
        "the water level. Second: probability of the true label against ε from 0 to 8. RRWithPrior is never below "
        "plain randomised response, nor below the constant answer; it leaves the constant at ε = 0.8 and joins plain "
        "randomised response at ε = 3.4.",
        "Computed in this page, at any ε and sharpness, by the formulas of RRWithPrior, for a label drawn from the "
        "prior. A label is kept if its prior reaches the water level. Sharpness 0 is the uniform prior; long tail: "
        "rank to the power −4 times the sharpness; the other shapes: up to 99% for the favourites. The printed picture "
        "shows a long tail of sharpness 0.3 at ε = 1.",
        formulas=dials_formulas.answering(),
    )


FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]  # of a probability, on an axis


def _kept() -> dict[str, Any]:
    """The prior of each label, and the water level that it must reach to be kept."""
    water = {"field": "water", "type": "quantitative"}
    label = {"field": "label", "type": "ordinal", "title": "label, the likeliest first", "axis": {"labelAngle": 0}}
    mass = axis("mass", "prior probability", {"domain": [0, 1]}, values=FIFTHS)
    state = key("state", {"kept": BLUE, "dropped": GREY}, lines=False)
    name = {"type": "text", "align": "right", "dy": -8, "text": "water level", "fontStyle": "italic"}
    return {
        "height": HEIGHT,
        "title": "which labels are kept",
        "data": {"name": "priors", "values": [{"label": j + 1} for j in range(data.CLASSES)]},
        "transform": [
            {"calculate": "prior[datum.label - 1]", "as": "mass"},
            {"calculate": "datum.label <= k ? 'kept' : 'dropped'", "as": "state"},
            {"calculate": "level", "as": "water"},
        ],
        "layer": [
            {"mark": {"type": "bar"}, "encoding": {"x": label, "y": mass, **state}},
            {"mark": {**LIMIT, "strokeWidth": 2}, "encoding": {"y": water}},
            {"mark": name, "encoding": {"x": {"value": {"expr": "width"}}, "y": water}},
        ],
    }


def _right() -> dict[str, Any]:
    """The probability of the true label against epsilon, for three ways to answer."""
    x = axis("epsilon", "privacy budget ε", values=[0, 2, 4, 6, 8])
    y = axis("right", "probability of the true label", {"domain": [0, 1]}, values=FIFTHS)
    colour = key("answer", {"RRWithPrior": BLUE, "plain RR": ORANGE, "always the likeliest label": GREEN})
    answers = {
        "RRWithPrior": dials_formulas.best("datum.epsilon"),
        "plain RR": dials_formulas.success("datum.epsilon", data.CLASSES),
        "always the likeliest label": "prior[0]",
    }
    chosen = " : ".join(f"datum.answer === '{answer}' ? {value}" for answer, value in answers.items())
    drawn = {"calculate": f"{chosen} : 0", "as": "right"}
    ends = [{"filter": "datum.grid === 0"}, {"calculate": "epsilon", "as": "epsilon"}, drawn]
    curves = [{"answer": answer, "grid": 0.1 * i} for answer in answers for i in range(81)]
    return {
        "height": HEIGHT,
        "title": "how often the answer is true",
        "data": {"name": "success", "values": curves},
        "transform": [{"calculate": "datum.grid", "as": "epsilon"}, drawn],
        "encoding": {"x": x, "y": y},
        "layer": [line(colour), here("epsilon", x), dots(colour, *ends)],
    }


def screening() -> Dial:
    """Part D: claimed against exact epsilon when rejected updates are not counted."""
    settings, limits = data.screened(), data.LIMITS
    mnist = settings["MNIST"]
    spent, plain_one, claimed_one = data.smallest_example()
    over = ("setting", "push")
    # The push alone: the share that it lets pass is another in each setting, and the marker shows it.
    pushes = [f"{push:g} noise units" for push in mnist["push"]]

    def column(name: str, form: str) -> Formula:
        return text(over, [[form.format(value) for value in table[name]] for table in settings.values()])

    rare = "From 16 on a forced update is rarer than δ, and an (ε, δ) statement no longer sees it."
    return Dial(
        "12",
        "Push the candidates against the test: what do the accepted updates really spend?",
        [
            Control("push", "whole training: push against the test", pushes, int(mnist["exact"].argmax())),
            Control("limit", "one update: rejections allowed, μ₀", [str(k) for k in limits], limits.index(10)),
            Control("setting", "setting of the paper", list(settings), menu=True),
        ],
        [_training(settings), _one_update(spent, claimed_one)],
        [
            "{setting}, {steps} accepted updates, {rate} of all candidates: claimed ε = {claimed}, exact {exact}. "
            "{verdict}",
            "Every noisy gradient counted: ε = {everything}.",
            "One update at σ = 1 with full batches and at most {limit} rejections: claimed ε = "
            f"{claimed_one:.2f}, exact without screening {plain_one:.2f}, with it " + "{spent}. {rare}",
        ],
        "First: ε at the end of a training at MNIST's setting, against the share of candidates accepted. The claim "
        "is 3 throughout. The exact value is below it where most candidates are accepted, crosses it near 40%, and "
        "rises to 6.3 near 11%; counting every gradient costs more, up to 9. Second: ε of one update against the "
        "rejections allowed: claimed 5.3, without screening 4.4; with it, it rises to 17.3 at 15 rejections, and falls "
        "to 3.9 from 16 on.",
        "Not computed here, but read from published runs and exact sums. The training: "
        "exact values of an honest one-parameter instance at the paper's N, B, σ and μ₀, with δ = "
        "0.00001 and as many accepted updates as Lemma 2 allows for ε = 3. The push is that of the other records "
        "against the energy, in standard deviations of the noise; after μ₀ rejections a candidate is accepted unseen. "
        "The printed picture shows MNIST's worst push, and μ₀ = 10.",
        formulas={
            "rate": column("rate", "{:.0%}"),
            "exact": column("exact", "{:.2f}"),
            "everything": column("all", "{:.2f}"),
            "claimed": column("claimed", "{:.2f}"),
            "steps": column("steps", "{:,d}"),
            "verdict": text(
                over, [list(map(_excess, table["exact"], table["claimed"])) for table in settings.values()]
            ),
            "spent": text(("limit",), [f"{epsilon:.2f}" for epsilon in spent]),
            "rare": text(("limit",), [rare if k > 15 else "" for k in limits]),
        },
    )


def _training(settings: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Epsilon at the end of a training against the share of candidates accepted, by three accounts."""
    accounts = {"exact": "exact", "claimed": "claimed", "every gradient counted": "all"}
    rows = [
        {"setting": i, "account": name, "at": j, "rate": rate, "epsilon": epsilon}
        for i, table in enumerate(settings.values())
        for name, column in accounts.items()
        for j, (rate, epsilon) in enumerate(zip(rounded(table["rate"], 6), rounded(table[column], 6), strict=True))
    ]
    colour = key("account", {"exact": RED, "claimed": GREEN, "every gradient counted": BLUE})
    x = axis("rate", "share of the candidates accepted", {"domain": [0, 1]}, format=".0%", tickCount=5)
    chosen = {"filter": "datum.at === push"}
    return {
        "height": HEIGHT,
        "title": "a whole training",
        "data": {"name": "training", "values": rows},
        "transform": [{"filter": "datum.setting === setting"}],
        "encoding": {"x": x, "y": axis("epsilon", "ε at the end of the training", {"domain": [0, 10]}, tickCount=5)},
        "layer": [
            line(colour, order={"field": "at"}),
            {"transform": [chosen, {"filter": "datum.account === 'exact'"}], "layer": stroke(x)},
            dots(colour, chosen),
        ],
    }


def _one_update(spent: np.ndarray, claimed: float) -> dict[str, Any]:
    """Epsilon of one accepted update against the rejections allowed, beside the claim."""
    steps = [
        {"limit": limit, "epsilon": e, "account": name}
        for name, values in {"exact": spent, "claimed": np.full(len(data.LIMITS), claimed)}.items()
        for limit, e in zip(data.LIMITS, rounded(values, 6), strict=True)
    ]
    x = axis("limit", "rejections allowed, μ₀", {"domain": [0, 20]}, tickCount=5)
    colour = key("account", {"exact": RED, "claimed": GREEN})
    return {
        "height": HEIGHT,
        "title": "one update",
        "data": {"name": "update", "values": steps},
        "encoding": {"x": x, "y": axis("epsilon", "ε of one accepted update", {"domain": [0, 20]}, tickCount=5)},
        "layer": [line(colour), here("limit", x), dots(colour, {"filter": "datum.limit === limit"})],
    }


def _excess(exact: float, claimed: float) -> str:
    ratio = exact / claimed
    return f"That is {ratio:.1f} times the claim." if ratio > 1 else "The slack of Lemma 2 still covers it."


DIALS = (
    dials_noise.bells,
    dials_noise.curve,
    dials_noise.budget,
    gmm,
    crossover,
    prior,
    screening,
    dials_map.live,
    dials_training.accounted,
    dials_training.clipping,
    dials_features.leak,
    dials_features.pieces,
    dials_guarantees.two_guarantees,
    dials_guarantees.rejections,
)
