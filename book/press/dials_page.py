"""Interactive figures that need no server: native inputs turn the parameters of Vega charts; all data lie in the page.

The charts are Vega-Lite, through the wheel of vl-convert: of the libraries with a browser part in their wheel the one
that draws SVG, for screen readers, print and both themes, and makes the printed picture from the same description.
vl-convert is what Altair compiles its charts with, and a description may come from ``alt.Chart.to_dict()``. The page
that Altair writes itself is no second way of showing them: it brings Vega-Lite and vega-embed along, 898 kB of scripts
for 586, compiles in the reader's browser, whether or not she comes near the chart, and its sliders have no field to
type into, no name for a position, and no answer in words that is read aloud.
"""

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dplib.checks import ParameterError

LIMIT = 300_000  # bytes of one dial in its page
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")  # [words](address) in a line of an answer; the same in dials.js
_SCRIPT = "vega.js"
# Colours that follow the theme of the page (book/_static/dials.css), and what they are in the printed picture.
INK, MUTED, GRID, BLUE = "var(--dial-ink)", "var(--dial-muted)", "var(--dial-grid)", "var(--dial-blue)"
_PRINTED = {INK: "#1b1f24", MUTED: "#57606a", GRID: "#d8dee4", BLUE: "#0173b2"}
_FONT = "system-ui, sans-serif"
CONFIG = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "tickColor": MUTED, "domainColor": MUTED, "gridColor": GRID,
        "labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": 500, "titlePadding": 8,
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12.5, "titleFontSize": 12.5, "labelLimit": 400},
    "title": {"color": INK, "fontSize": 13.5, "fontWeight": 600, "anchor": "start", "frame": "group"},
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
}  # fmt: skip


@dataclass(frozen=True)
class Control:
    """A slider, or a menu for names: it sets the charts' parameter ``name`` to a position among its ``options``."""

    name: str
    label: str
    options: Sequence[str]
    start: int = 0
    menu: bool = False


@dataclass(frozen=True)
class Number:
    """An input that takes any number from least to most: a slider, logarithmic or not, and a field to type into."""

    name: str
    label: str
    least: float
    most: float
    start: float
    log: bool = False

    def on_slider(self, value: float) -> float:
        """Where a value stands on the slider."""
        return math.log10(value) if self.log else value


@dataclass(frozen=True)
class Formula:
    """A number or a text that the page computes from the controls, by a closed form.

    Attributes:
        expression: of Vega, of controls, parameters and earlier formulas. python: the same from {name: value} of them,
            by the library; a test compares the two in a browser.
        form: how a number is written, of Python and of D3 alike, such as ".3f"; "" for a text.
    """

    expression: str
    python: Callable[[Mapping[str, Any]], Any]
    form: str = ""


def text(over: Sequence[str], values: Any) -> Formula:
    """A part of the answer that is looked up: ``values`` has an axis for each control of ``over``, in this order."""
    table = np.asarray(values, dtype=str)
    places = "".join(f"[{control}]" for control in over)
    return Formula(
        json.dumps(table.tolist(), ensure_ascii=False) + places, lambda at: str(table[tuple(at[c] for c in over)])
    )


@dataclass(frozen=True)
class Dial:
    """An interactive figure.

    Attributes:
        charts: Vega-Lite descriptions without width, configuration and the controls' parameters, side by side where
            there is room.
        lines: the answer, a sentence or two each; ``{name}`` stands for a control's option or a formula, and
            ``[words](address)`` for a link. An empty line is not shown.
        alt: what the picture shows, for who cannot see it; the picture has the controls at their start.
        note: below the figure. parameters: further ones of the charts, such as the grid behind a control.
        formulas: what the page computes at any number, in this order, for charts and answer.
        picks: controls that a click on a mark sets, where its datum has their names. Sliders do the same by key.
        figure: whether the page has a figure that stands for the dial in print and without JavaScript: what bears the
            class ``tag_dial-NAME``, such as a cell with this tag. The dial then has no picture of its own.
    """

    name: str
    title: str
    controls: Sequence[Control | Number]
    charts: Sequence[Mapping[str, Any]]
    lines: Sequence[str]
    alt: str
    note: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    picks: Sequence[str] = ()
    figure: bool = False

    @property
    def start(self) -> dict[str, float]:
        """The controls' positions and numbers at first."""
        return {control.name: control.start for control in self.controls}

    def computed(self, at: Mapping[str, float]) -> dict[str, Any]:
        """Controls, parameters and the formulas' values, by the library."""
        known = {**self.parameters, **at}
        for name, formula in self.formulas.items():
            known[name] = formula.python(known)
        return known

    def answer(self, **positions: float) -> list[str]:
        """The lines of the answer at these positions and numbers; controls that are not named stand at their start."""
        at = self.start | positions
        values, known = self.computed(at), {}
        for control in self.controls:
            known[control.name] = (
                control.options[at[control.name]] if isinstance(control, Control) else plain(at[control.name])
            )
        known |= {name: format(values[name], formula.form) for name, formula in self._answering()}
        return list(filter(str.strip, (line.format_map(known) for line in self.lines)))

    def specification(self, chart: Mapping[str, Any], width: int | str = "container") -> dict[str, Any]:
        """A chart as Vega-Lite draws it: with its width, the parameters and the book's look."""
        return {"width": width, "config": CONFIG, **chart, "params": [*chart.get("params", []), *self._parameters()]}

    def _parameters(self) -> list[dict[str, Any]]:
        values = [{"name": name, "value": value} for name, value in (self.start | self.parameters).items()]
        values += [{"name": name, "expr": formula.expression} for name, formula in self.formulas.items()]
        shown = {
            name: f"format({name}, '{formula.form}')" if formula.form else name for name, formula in self._answering()
        }
        return values + [{"name": f"{name}Text", "expr": expression} for name, expression in shown.items()]

    def _answering(self) -> list[tuple[str, Formula]]:
        """The formulas that the answer writes."""
        return [(name, formula) for name, formula in self.formulas.items() if f"{{{name}}}" in "".join(self.lines)]

    def printed(self) -> dict[str, Any]:
        """All charts in one description, with the colours of print and the controls at their start."""
        charts = [{"width": 640 if len(self.charts) == 1 else 380, **chart} for chart in self.charts]
        scales = {"color": "independent", "strokeDash": "independent"}  # each chart keeps its legend
        whole = charts[0] if len(charts) == 1 else {"hconcat": charts, "spacing": 30, "resolve": {"scale": scales}}
        whole = {"config": CONFIG, **whole, "params": [*whole.get("params", []), *self._parameters()], "padding": 8}
        text = json.dumps(whole)
        for variable, colour in _PRINTED.items():
            text = text.replace(variable, colour)
        return json.loads(text) | {"background": "white"}


def rounded(values, digits: int = 4):
    """Numbers with so many significant digits, nested lists of the same shape: what a page holds of an array."""
    return np.vectorize(lambda x: float(f"{x:.{digits}g}"), otypes=[float])(np.asarray(values, dtype=float)).tolist()


def write(dials: Sequence[Dial], generated: Path, static: Path) -> None:
    """Write dial_NAME.html into ``generated``; dial_NAME.svg and the script into ``static``.

    Raises:
        ParameterError: for a dial of more than :data:`LIMIT` bytes.
    """
    import vl_convert

    for dial in dials:
        page = embedded(dial)
        if len(page.encode()) > LIMIT:
            raise ParameterError(f"dial {dial.name} has {len(page.encode()):,} bytes: at most {LIMIT:,} are allowed.")
        (generated / f"dial_{dial.name}.html").write_text(page, encoding="utf-8")
        if not dial.figure:
            picture = vl_convert.vegalite_to_svg(json.dumps(dial.printed()))
            (static / f"dial_{dial.name}.svg").write_text(picture, encoding="utf-8")
    version = vl_convert.get_vega_version()
    source = f"https://cdn.jsdelivr.net/npm/vega@{version}/+esm.js"  # a name inside the wheel, nothing is fetched
    bundle = vl_convert.javascript_bundle(f'import * as whole from "{source}"; window.vega = whole;')
    # The bundle is a module's code; a page loads it as a plain script, where its names must not meet those of others.
    (static / _SCRIPT).write_text(f'(() => {{\n"use strict";\n{bundle}\n}})();\n', encoding="utf-8")


def embedded(dial: Dial) -> str:
    """The figure as HTML for a page one folder below the site's first: the page has no request but for _static."""
    import vl_convert

    id_ = f"dial-{dial.name}"
    charts = [vl_convert.vegalite_to_vega(json.dumps(dial.specification(chart))) for chart in dial.charts]
    for chart in charts:
        del chart["$schema"]  # an address
    data = {
        "controls": {control.name: list(control.options) for control in dial.controls if isinstance(control, Control)},
        "numbers": {control.name: {"least": control.least, "most": control.most, "log": control.log}
                    for control in dial.controls if isinstance(control, Number)},
        "lines": list(dial.lines),
        "picks": list(dial.picks),
        "charts": charts,
    }  # fmt: skip
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    controls = "\n".join(_control(control, id_) for control in dial.controls)
    places = "\n".join('<div class="dial-chart"></div>' for _ in dial.charts)
    ids = " ".join(f"{id_}-{control.name}" for control in dial.controls)
    answer = "".join(f"<span>{_linked(line)}</span>" for line in dial.answer())
    picture = f'<img class="dial-picture" src="../_static/dial_{dial.name}.svg" alt="{html.escape(dial.alt)}">'
    shown = "The picture and the text below show them at their start."
    if dial.figure:
        picture, shown = "", "The figure above stands for them."
    note = f"<figcaption>{html.escape(dial.note)}</figcaption>" if dial.note else ""
    return f"""<link rel="stylesheet" href="../_static/dials.css">
<figure class="{"dial dial-of-figure" if dial.figure else "dial"}" id="{id_}" aria-labelledby="{id_}-title">
<p class="dial-title" id="{id_}-title">{html.escape(dial.title)}</p>
<div class="dial-controls" hidden>
{controls}
</div>
<div class="dial-charts" role="img" aria-label="{html.escape(dial.alt)}" hidden>
{places}
</div>
{picture}
<noscript><p>The controls need JavaScript. {shown}</p></noscript>
<output class="dial-answer" for="{ids}">{answer}</output>
{note}
<script type="application/json" class="dial-data">{script}</script>
</figure>
<script defer src="../_static/dials.js"></script>
"""


def _linked(line: str) -> str:
    return _LINK.sub(r'<a href="\2">\1</a>', html.escape(line))


def plain(value: float) -> str:
    """A number as it is written beside a slider: three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.10g}"


def _control(control: Control | Number, dial: str) -> str:
    id_, label = f"{dial}-{control.name}", html.escape(control.label)
    slider = f'<input type="range" id="{id_}" name="{control.name}"'
    if isinstance(control, Number):
        ends = " ".join(
            f'{end}="{control.on_slider(at):.12g}"' for end, at in (("min", control.least), ("max", control.most))
        )
        shown = (
            f'{slider} {ends} step="any" value="{control.on_slider(control.start):.12g}" '
            f'aria-valuetext="{plain(control.start)}"><input type="number" class="dial-typed" data-of="{control.name}" '
            f'min="{control.least:g}" max="{control.most:g}" step="any" '
            f'value="{control.start:g}" aria-label="{label}, typed">'
        )
    elif control.menu:
        options = "".join(
            f'<option value="{i}"{" selected" if i == control.start else ""}>{html.escape(option)}</option>'
            for i, option in enumerate(control.options)
        )
        shown = f'<select id="{id_}" name="{control.name}">{options}</select>'
    else:
        now = html.escape(control.options[control.start])
        # The value beside the slider is not announced: the slider says it itself, and the answer below is live.
        shown = (
            f'{slider} min="0" max="{len(control.options) - 1}" step="1" value="{control.start}" '
            f'aria-valuetext="{now}"><output for="{id_}" aria-live="off">{now}</output>'
        )
    return f'<div class="dial-control"><label for="{id_}">{label}</label>{shown}</div>'
