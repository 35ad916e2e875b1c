"""What a dial's chart is said to have is drawn: a mark without data is left out of the picture without a word."""

import html
import json

import pytest
import vl_convert

from book.press import dials


def texts(chart):
    """The constant texts of a chart's marks."""
    if isinstance(chart, dict):
        if chart.get("type") == "text" and isinstance(chart.get("text"), str):
            yield chart["text"]
        for inner in chart.values():
            yield from texts(inner)
    elif isinstance(chart, list):
        for inner in chart:
            yield from texts(inner)


@pytest.mark.parametrize("dial", dials.DIALS, ids=lambda dial: dial.__name__)
def test_every_name_in_a_chart_is_drawn(dial):
    made = dial()
    picture = html.unescape(vl_convert.vegalite_to_svg(json.dumps(made.printed())))
    assert [text for text in texts(list(made.charts)) if text not in picture] == []
