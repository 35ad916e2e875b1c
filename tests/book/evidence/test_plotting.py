"""Labels at the lines: each in its line's colour, none on another."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from book.evidence import plotting


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
