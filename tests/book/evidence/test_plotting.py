"""Labels at the lines: each in its line's colour, none on another."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from book.evidence import plotting
from tests.conftest import ROOT


@pytest.mark.parametrize("at", ["right", "left"])
def test_labels_stand_at_the_lines_and_apart(at):
    figure, axes = plt.subplots()
    for height, name in ((1.0, "low"), (1.01, "middle"), (5.0, "high")):
        axes.plot([0, 1], [height, height], label=name)
    axes.plot([0, 1], [2, 2])  # without a label
    plotting.name_lines(axes, at=at, gap=14)
    labels = {text.get_text(): text for text in axes.texts}
    assert list(labels) == ["low", "middle", "high"]
    assert [text.get_color() for text in labels.values()] == [line.get_color() for line in axes.get_lines()[:3]]
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in labels.values()]
    assert boxes[0].y1 <= boxes[1].y0 + 1
    assert labels["high"].xyann[1] == pytest.approx(0), "a label with room stays at its line"
    plt.close(figure)


def test_heights_keep_their_order():
    apart = plotting._apart(np.array([3.0, 0.0, 0.5]), 1.0)
    assert apart == pytest.approx([3.0, -0.25, 0.75])


# What sets the size of letters: fontsize=10, "size": 11, labelsize=9 and the like; not the size of an array.
SIZES = re.compile(
    r"""(?:font_?size|labelsize|set_size|["']size|name_lines\([^()]*\bsize)["']?(?:=|: ?|\()(\d+(?:\.\d+)?)\b"""
)


def test_no_figure_has_letters_too_small_for_a_phone():
    """The site shows a figure at 0.566 of its size or larger: nine pixels are 10.4 points of it."""
    plotting.theme()
    least = 9 / (0.566 * plt.rcParams["figure.dpi"] / 72)
    for name in ("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "axes.labelsize", "axes.titlesize"):
        assert plt.rcParams[name] > least, name
    sources = [*ROOT.glob("papers/*/*.py"), *ROOT.glob("notebooks/*.md"), *ROOT.glob("book/press/*.py")]
    values = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources
        for match in SIZES.finditer(path.read_text(encoding="utf-8"))
        if "plotting" in path.read_text(encoding="utf-8") and float(match[1]) < least
    ]
    assert not values


def test_the_readers_value_is_named_and_no_line_of_the_grid():
    figure, axes = plt.subplots()
    axes.plot([0, 2], [0, 1])
    plotting.mark_yours(axes, 1.0)
    line = axes.get_lines()[-1]
    assert [text.get_text() for text in axes.texts] == ["your ε"]
    assert line.get_linestyle() == "--"
    assert line.get_label().startswith("_"), "it is no series"
    plt.close(figure)


@pytest.mark.parametrize(("value", "lines"), [(0.05, 0), (0.1, 1), (2.0, 1), (2.0002, 1), (30.0, 0)])
def test_a_value_at_which_nothing_is_drawn_moves_neither_axis_nor_names(value, lines):
    figure, axes = plt.subplots()
    axes.plot([0.1, 2.0], [0, 1])
    axes.set_xscale("log")
    before = axes.get_xlim()
    plotting.mark_yours(axes, value)
    assert (len(axes.get_lines()) - 1, len(axes.texts)) == (lines, lines)
    assert axes.get_xlim() == pytest.approx(before, rel=1e-3)
    plt.close(figure)


def test_labels_do_not_leave_the_axes_below_and_stand_outside_of_the_frame():
    figure, axes = plt.subplots()
    for height in (0.0, 0.001, 0.002):
        axes.plot([0, 1], [height, height], label=f"{height}\nline")
    axes.set_ylim(0, 1)
    plotting.name_lines(axes, gap=32)
    figure.canvas.draw()
    box = axes.get_window_extent()
    for text in axes.texts:
        assert text.get_window_extent().y0 >= box.y0 - 4
        assert text.get_window_extent().x0 >= box.x1
    plt.close(figure)
