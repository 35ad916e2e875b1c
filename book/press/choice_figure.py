"""The chart of "Choose a model" drawn: narrow boxes one below the other, legible on a phone."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.patches import FancyBboxPatch

from press import choice_rules
from press.choice_evidence import FAMILIES
from press.choice_rules import Leaf, Question

WIDTH = 4.6  # inches: at a phone's width the text is as large as that of the page
LINE = 0.19  # inches of one line
CHARACTERS = 48  # of one line in a box of full width
INDENT = 0.13
SMALL = "\0"  # marks a line in small print
_PARTS = {"labels-image": "private labels", "image-pure": "images", "table-pure": "tables", "text-pure": "texts"}
# Charts by name: title, the question where it starts, and where it hands over to another chart.
CHARTS = {
    "start": ("Where to start", "labels", _PARTS),
    "labels": ("Private labels", "labels-image", {"image-pure": "images"}),
    "images": ("Images", "image-pure", {}),
    "tables": ("Tables", "table-pure", {"table-pure-little": "tables under pure DP"}),
    "pure": ("Tables under pure DP", "table-pure-little", {}),
    "texts": ("Texts", "text-pure", {}),
}


@dataclass(frozen=True)
class Step:
    """A question, the answer at which the chart ends or hands over, and where to; question None at the very end."""

    question: Question | None
    answer: bool | None
    end: Leaf | str


def steps(start: str, handover: Mapping[str, str]) -> list[Step]:
    """A chart as a list: each question with the branch that ends there; the last step is where all others fail.

    Raises:
        ValueError: when both branches of a question go on: the chart needs another handover.
    """
    node = next(one for one in choice_rules.nodes() if one.name == start)
    found, answer = [], None

    def end(branch):
        return handover.get(branch.name) or (branch if isinstance(branch, Leaf) else None)

    while isinstance(node, Question):
        ending = next((found for found in ((True, end(node.yes)), (False, end(node.no))) if found[1]), None)
        if ending is None:
            raise ValueError(f"both branches of {node.name} go on: hand one of them over.")
        found.append(Step(node, *ending))
        answer, node = not ending[0], node.no if ending[0] else node.yes
        if last := end(node):
            return [*found, Step(None, answer, last)]
    return found


def draw(name: str) -> plt.Figure:
    """Draw one of CHARTS."""
    title, start, handover = CHARTS[name]
    boxes = [box for step in steps(start, handover) for box in _boxes(step)]
    height = sum(LINE * len(lines) + 0.28 for _, lines, _ in boxes) + 0.4
    figure = plt.figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(-height, 0))
    axes.axis("off")
    axes.text(0.05, -0.2, title, fontsize=12, fontweight="bold", va="center")
    y = 0.38
    for place, (kind, lines, label) in enumerate(boxes):
        left = 0.08 if kind == "question" else INDENT * WIDTH
        tall = LINE * len(lines) + 0.12
        _box(axes, kind, left, -y, WIDTH - left - 0.08, tall, lines)
        if label:
            axes.text(left - 0.06, -y - tall / 2, label, ha="right", va="center", fontsize=10, fontweight="bold")
        if kind == "question" and place:
            arrow = {"arrowstyle": "->", "color": "black"}
            axes.annotate("", (0.2, -y), (0.2, -y + _gap(boxes, place)), arrowprops=arrow)
        y += LINE * len(lines) + 0.28
    return figure


def _gap(boxes, place: int) -> float:
    """Inches from the bottom of the last question to the top of this one."""
    _, lines, _ = boxes[place - 1]
    return LINE * len(lines) + 0.44


def _boxes(step: Step) -> list[tuple[str, list[str], str]]:
    """(kind, lines, label) of the boxes of a step."""
    found = []
    if step.question is not None:
        found.append(("question", textwrap.wrap(step.question.asks, CHARACTERS), ""))
    label = {True: "yes", False: "no", None: ""}[step.answer]
    if isinstance(step.end, str):
        return [*found, ("handover", [f"see: {step.end}"], label)]
    if step.end.family is None:
        text = "not measured" if not step.end.cites else "priors from clusters (no accuracy frozen)"
        found.append(("nothing", textwrap.wrap(text, CHARACTERS), label))
    else:
        unsettled = step.end.says.startswith("Not settled")
        text = ("not settled; " if unsettled else "") + FAMILIES[step.end.family]
        found.append(("leaf", textwrap.wrap(text[0].upper() + text[1:], CHARACTERS - 6), label))
    found[-1][1].extend(f"{SMALL}chapter {int(one.chapter)}, {one.row}" for one in step.end.cites)
    return found


def _box(axes, kind: str, left: float, top: float, wide: float, tall: float, lines: list[str]) -> None:
    blue, orange = sns.color_palette("colorblind")[:2]
    face, edge, line_style = {
        "question": ("white", "black", "-"),
        "leaf": ((*blue, 0.16), blue, "-"),
        "nothing": ("#eeeeee", "#666666", "--"),
        "handover": ((*orange, 0.16), orange, "-"),
    }[kind]
    shape = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((left, top - tall), wide, tall, boxstyle=shape, fc=face, ec=edge, ls=line_style))
    for place, line in enumerate(lines):
        small = line.startswith(SMALL)
        axes.text(
            left + 0.1, top - 0.06 - LINE * (place + 0.5), line.removeprefix(SMALL), va="center",
            fontsize=8.5 if small else 10, color="#333333" if small else "black",
        )  # fmt: skip
