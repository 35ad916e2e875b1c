"""The live map: the size of model that is best for so many records and such a budget, of chapter 14 and front page."""

from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from book.evidence import plans, sources
from book.press.dials_page import Control, Dial, text
from book.press.dials_parts import ORANGE, axis, percent
from dplib.stats import Measured
from papers.sizes import map_figures, map_rows
from papers.sizes.map_rows import Compared

WIDTH = 1024  # hidden units of the network whose crossing with the linear model is the border
ROW = 66  # pixels: four lines of words
CELLS = tuple(f"var(--dial-cell-{k})" for k in range(4))  # the best size of a cell, the smallest first
TIP = {"tooltip": {"field": "tip"}}
BORDER = "border: right of it a network wins"
# Where a cell lies: which of the papers' statements is about such cells, its row, and the chapter that tests it.
PLACES = {
    "linear": ("“A larger model is less accurate”", "A.s-larger-worse", "01"),
    "both": ("“Two models change places at a crossover”", "B.crossover-three-models", "04"),
    "networks": ("“The more complex, the more harm”", "B.hypothesis", "03"),
}


@cache
def live() -> Dial:
    """The map of MNIST: hover over a cell, tap it, or turn records and budget."""
    results, cells = _measured()
    records = sorted({n for n, _ in cells})
    budgets = [*sorted({e for _, e in cells if e is not None}), None]
    at = {(n, e): (y, x) for (y, n), (x, e) in product(enumerate(records), enumerate(budgets))}
    best = sorted({cell.best for cell in cells.values()})
    names = {width: f"{width:,} units best" if width else "linear model best" for width in best}
    values = [
        {"records": y, "epsilon": x, "best": names[cell.best], "words": _words(cell), "tip": _tip(key, cell)}
        for key, cell in cells.items()
        for y, x in [at[key]]
    ]
    crossings = {n: map_rows.crossover(results, n, WIDTH) for n in records}

    def table(say) -> list[list[str]]:
        return [[say((n, e), cells[n, e]) for e in budgets] for n in records]

    over = ("records", "epsilon")
    return Dial(
        "14",
        "Tap a cell, or turn your records and your budget: what should you train?",
        [
            Control("records", "training records n", [f"{n:,}" for n in records], records.index(5000)),
            Control(
                "epsilon", "privacy budget ε", [f"{e:g}" if e else "no privacy" for e in budgets], budgets.index(1.0)
            ),
        ],
        [_chart(values, names, _border(crossings, records, budgets[:-1]), records, budgets)],
        ["{best}", "{level}", "{where}"],
        "A grid of cells, training records from 500 to 50,000 upwards, epsilon from 0.1 to 10 and no privacy to the "
        "right. Down on the left the linear model is best; up and to the right networks of 256 or 1,024 units are, "
        "mostly with 64 units not worse. An orange line between the two falls by a factor ten in epsilon for a factor "
        "ten in records.",
        "MNIST; on Fashion-MNIST the border lies about three times as far out. In a cell: all sizes that do as well as "
        "the best (64+: a network of 64 hidden units or any larger one), and the best one's test accuracy in percent. "
        "Read from published runs, ten seeds a cell. Framed: the cell that is chosen.",
        formulas={
            "best": text(over, table(_best)),
            "level": text(over, table(_level)),
            "where": text(over, table(_where)),
        },
        picks=over,
        figure=True,
    )


def _measured() -> tuple[Mapping, Mapping[map_rows.Cell, Compared]]:
    """Chapter 14's published trainings on MNIST, and what they say by cell."""
    show, results = plans.load("14"), {}
    for name, part in show.parts.items():
        if part.function.__name__ == "widths" and part.inputs["dataset"] == "mnist":
            results |= show.read(name)
    return results, map_rows.cells(results)


def _border(crossings: Mapping[int, Measured | None], records: list[int], budgets: list[float]) -> list[dict[str, Any]]:
    """Places of the border, a row each, with the ends of its interval."""
    return [
        {"row": records.index(n) - map_figures.BELOW, "kind": BORDER}
        | {end: map_figures.place(getattr(crossing, end), budgets) for end in ("low", "value", "high")}
        for n, crossing in crossings.items()
        if crossing is not None
    ]


def _chart(
    values: list[dict[str, Any]],
    names: Mapping[int, str],
    border: list[dict[str, Any]],
    records: list[int],
    budgets: list[float | None],
) -> dict[str, Any]:
    """Cells by colour, words on them, the border, and a frame around the cell that is chosen."""
    columns = [f"{e:g}" if e else "none" for e in budgets]
    x = axis("x", "privacy budget ε", {"domain": [-0.5, len(columns) - 0.5]}, **_labels(columns))
    y = axis("y", "training records n", {"domain": [-0.5, len(records) - 0.5]}, **_labels([f"{n:,}" for n in records]))
    legend = {
        "orient": "top", "title": None, "symbolType": "square", "symbolSize": 160, "labelFontSize": 13,
        "columns": {"expr": "width < 460 ? 1 : 2"},
    }  # fmt: skip
    colours = {"domain": [*names.values(), BORDER], "range": [*CELLS[: len(names)], ORANGE]}
    colour = {"type": "nominal", "scale": colours, "legend": legend}
    ends = (("epsilon", "-", "x"), ("epsilon", "+", "x2"), ("records", "-", "y"), ("records", "+", "y2"))
    square = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}
    return {
        "height": ROW * len(records),
        "data": {"name": "cells", "values": values},
        "transform": [{"calculate": f"datum.{name} {sign} 0.5", "as": end} for name, sign, end in ends],
        "layer": [
            {
                "mark": {"type": "rect", "stroke": "var(--dial-ground)", "cursor": "pointer"},
                "encoding": {**square, "color": {"field": "best", **colour}, **TIP},
            },
            _border_line(border, {**x, "field": "value"}, {**y, "field": "row"}, colour),
            _on_cells({**x, "field": "epsilon"}, {**y, "field": "top"}, colour),
            {
                "transform": [{"filter": "datum.records === records && datum.epsilon === epsilon"}],
                "mark": {"type": "rect", "fillOpacity": 0, "stroke": "var(--dial-ink)", "strokeWidth": 3},
                "encoding": {**square, **TIP},
            },
        ],
    }


def _border_line(border: list[dict[str, Any]], x: Mapping, y: Mapping, colour: Mapping) -> dict[str, Any]:
    """The border from row to row, with the interval of each of its places."""
    return {
        "data": {"name": "border", "values": border},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 6, "opacity": 0.45, "color": ORANGE},
                "encoding": {"x": {**x, "field": "low"}, "y": y, "x2": {"field": "high"}},
            },
            {"mark": {"type": "line", "strokeWidth": 2.5, "color": ORANGE}, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": {"field": "kind", **colour}},
            },
        ],
    }


def _on_cells(x: Mapping, y: Mapping, colour: Mapping) -> dict[str, Any]:
    """The words on the cells."""
    # A stroke of the cell's colour, drawn below the letters (dials.css), keeps the border off them.
    words = {"type": "text", "lineBreak": "\n", "baseline": "top", "fontSize": 12.5, "lineHeight": 13.5,
             "strokeWidth": 5, "strokeJoin": "round", "cursor": "pointer"}  # fmt: skip
    written = "width < 400 ? replace(datum.words, '%', '') : datum.words"  # narrow cells have no room for the sign
    return {
        "transform": [
            {"calculate": "datum.records + 0.42", "as": "top"},
            {"calculate": written, "as": "written"},
        ],
        "mark": words,
        "encoding": {"x": x, "y": y, "text": {"field": "written"}, "stroke": {"field": "best", **colour}, **TIP},
    }


def _labels(names: list[str]) -> dict[str, Any]:
    """The look of an axis on which position k is called names[k]."""
    return {
        "values": list(range(len(names))),
        "labelExpr": f"{names}[datum.value]",
        "grid": False,
        "ticks": False,
        "labelFontSize": 13,
    }


def _words(cell: Compared) -> str:
    return f"{map_figures.named(cell)}\n{cell.means[cell.best].value:.1f}%"


def _at(key: map_rows.Cell) -> str:
    n, e = key
    return f"{n:,} records, {f'ε = {e:g}' if e else 'no privacy'}"


def _model(width: int) -> str:
    return f"{width:,} units" if width else "the linear model"


def _tip(key: map_rows.Cell, cell: Compared) -> str:
    best = f"best: {_model(cell.best)}, {percent(cell.means[cell.best])}"
    return f"{_at(key)}\n{best}\nlinear {cell.means[0].value:.1f}%, 1,024 units {cell.means[WIDTH].value:.1f}%"


def _best(key: map_rows.Cell, cell: Compared) -> str:
    verb = "is" if not cell.best else "are"
    return f"{_at(key)}: {_model(cell.best)} {verb} best, {percent(cell.means[cell.best])}."


def _level(key: map_rows.Cell, cell: Compared) -> str:
    networks = [f"{width:,}" for width in cell.good if width not in (0, cell.best)]
    others = [_model(0)] if 0 in cell.good and cell.best else []
    if networks:
        others.append(f"{' or '.join(', '.join(networks).rsplit(', ', 1))} units")
    level = f"Not worse: {', and '.join(others)}." if others else "Every other size is worse."
    if not key[1]:
        return level
    return f"{level} The product nε is {round(key[0] * key[1]):,}; the border lies near {map_rows.BORDER:,}."


def _where(key: map_rows.Cell, cell: Compared) -> str:
    """Which statement of the papers speaks of such a cell."""
    linear, networks = 0 in cell.good, any(cell.good)
    said, row, chapter = PLACES["both" if linear and networks else "linear" if linear else "networks"]
    page = sources.resolve(chapter)
    return (
        f"What a paper says of such a place: [{said}](../book/ledger.html#{row}), tested in "
        f"[chapter {sources.shown_number(page)}](../notebooks/{page}.html)."
    )
