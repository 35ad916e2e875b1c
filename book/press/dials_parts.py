"""What the dials' charts are put together from: axes, colours with names, strokes, means with their intervals."""

from collections.abc import Mapping
from typing import Any

import seaborn as sns

from book.press.dials_page import INK
from dplib.stats import Measured

_, ORANGE, GREEN, RED, *_ = sns.color_palette("colorblind").as_hex()  # blue follows the theme: dials_page
GREY = "#949494"
HEIGHT = 320
LIMIT = {"type": "rule", "strokeDash": [6, 4], "color": RED}  # a stroke at what must not be passed
_DASHES = ([1, 0], [8, 3], [3, 3], [10, 3, 2, 3])


def axis(field: str, title: str, scale: Mapping[str, Any] | None = None, **look: Any) -> dict[str, Any]:
    """A quantitative axis; ``scale`` and ``look`` as in Vega-Lite's scale and axis."""
    shape = {"nice": False} | dict(scale or {})
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": shape,
        "axis": {"labelOverlap": True, "labelSeparation": 5} | look,
    }


def key(field: str, colours: Mapping[str, str], lines: bool = True, names: str = "datum.value") -> dict[str, Any]:
    """Colour by name, and for lines a dash pattern, so that they are told apart without colour too.

    Args:
        names: what the legend writes for ``datum.value``, an expression.
    """
    legend = {
        "orient": "bottom", "title": None, "direction": "vertical", "columns": {"expr": "width < 460 ? 1 : 2"},
        "labelExpr": names, "symbolType": "stroke" if lines else "square", "symbolSize": 500 if lines else 120,
        "symbolStrokeWidth": 2.5, "symbolOpacity": 1,
    }  # fmt: skip
    scale = {"domain": list(colours), "range": list(colours.values())}
    encoding = {"color": {"field": field, "type": "nominal", "scale": scale, "legend": legend}}
    if lines:
        dash = {"domain": list(colours), "range": list(_DASHES[: len(colours)])}
        encoding["strokeDash"] = {"field": field, "type": "nominal", "scale": dash, "legend": legend}
    return encoding


def line(colour: Mapping[str, Any], **encoding: Any) -> dict[str, Any]:
    """A line for each name of a :func:`key`."""
    return {"mark": {"type": "line", "strokeWidth": 2.5, "clip": True}, "encoding": {**colour, **encoding}}


def dots(colour: Mapping[str, Any], *where: Mapping[str, Any]) -> dict[str, Any]:
    """A dot for each name of a :func:`key`, after the transforms ``where``."""
    return {
        "transform": list(where),
        "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
        "encoding": {"color": colour["color"]},
    }


def stroke(x: Mapping[str, Any], name: str = "", dy: int = -6, **look: Any) -> list[dict[str, Any]]:
    """A vertical stroke through the whole chart at x, and its name near its top."""
    rule = {"type": "rule", "color": INK, "strokeWidth": 1.2, **look}
    parts = [{"mark": rule, "encoding": {"x": x, "y": {"value": 0}, "y2": {"value": HEIGHT}}}]
    if name:
        text = {"type": "text", "text": name, "align": "left", "dx": 5, "dy": dy, "fontStyle": "italic"}
        parts.append({"mark": text, "encoding": {"x": x, "y": {"value": 0}}})
    return parts


def here(expression: str, x: Mapping[str, Any]) -> dict[str, Any]:
    """A vertical stroke at the place that a control names, such as ``grid[epsilon]``."""
    layered = {"data": {"values": [{}]}, "transform": [{"calculate": expression, "as": x["field"]}]}
    return layered | {"layer": stroke(x)}


def band(y: Mapping[str, Any], colour: Mapping[str, Any], opacity: float = 0.2) -> dict[str, Any]:
    """The intervals of rows of :func:`interval`, for each name of a :func:`key`."""
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return {"mark": {"type": "area", "opacity": opacity}, "encoding": {**ends, "color": colour["color"]}}


def interval(mean: Measured) -> dict[str, float]:
    """A mean and the ends of its interval, as a row of a chart has them."""
    return {end: round(getattr(mean, end), 3) for end in ("value", "low", "high")}


def percent(mean: Measured) -> str:
    """The same as an answer has them."""
    return f"{mean.value:.1f}% ({mean.low:.1f} to {mean.high:.1f})"
