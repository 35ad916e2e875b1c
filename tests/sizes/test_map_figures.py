"""The words of the map, and that each figure draws what it is given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib.sizes import map_figures, map_rows
from dplib.stats import Measured

NOISE = np.array([-0.1, 0.0, 0.1])
CELLS = {
    (n, e): map_rows.compared({w: a + NOISE for w, a in zip((0, 16, 1024), accuracies, strict=True)})
    for (n, e), accuracies in {
        (500, 0.1): (70, 60, 60),
        (500, None): (80, 85, 88),
        (5000, 0.1): (80, 82, 84),
        (5000, None): (90, 93, 95),
    }.items()
}


@pytest.mark.parametrize(
    ("good", "text"),
    [((0,), "linear"), ((64, 256, 1024), "64–1,024"), ((0, 64), "linear, 64"), ((4, 64, 256), "4, 64–256"),
     ((0, 4, 16), "linear, 4–16")],
)  # fmt: skip
def test_a_set_in_short(good, text):
    assert map_figures.sizes(good, (0, 4, 16, 64, 256, 1024)) == text


def test_the_map_says_the_best_and_marks_the_crossover():
    map_figures.draw(CELLS, {500: Measured(0.1, 0.1, 0.1), 5000: None}, your=(500, 0.1))
    axes = plt.gca()
    assert [text.get_text() for text in axes.texts] == [
        "linear\n70.0%", "1,024\n88.0%", "1,024\n84.0%", "1,024\n95.0%",
    ]  # fmt: skip
    crossing, yours = axes.lines
    assert list(crossing.get_xdata()) == [0]
    assert (yours.get_xdata()[0], yours.get_ydata()[0]) == (0, 0)
    plt.close()
