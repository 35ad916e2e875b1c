"""Panels of a figure for slides: cut where the paper is empty, one taken or all set in a row."""

import io

import numpy as np
import pytest
from PIL import Image

from book.press import panels


def figure(*heights, width=80, gap=9):
    """Grey panels of these heights, one above the other, each a little darker, and a line of text close to its foot."""
    rows = []
    for place, height in enumerate(heights):
        panel = np.full((height, width, 3), 200 - 20 * place, np.uint8)
        panel[-6:-3] = 255  # between axis and label: a gap, and a smaller one
        rows += [panel, np.full((gap, width, 3), 255, np.uint8)]
    stream = io.BytesIO()
    Image.fromarray(np.concatenate(rows[:-1])).save(stream, "PNG")
    return stream.getvalue()


def opened(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.mark.parametrize("heights", [(60, 60), (60, 75), (50, 50, 60)])
def test_a_panel_is_cut_whole(heights):
    png = figure(*heights)
    for number, height in enumerate(heights, start=1):
        panel = opened(panels.panel(png, number, len(heights)))
        assert panel.shape == (height, 80, 3)
        assert panel[0, 0, 0] == 200 - 20 * (number - 1)


def test_panels_stand_beside_each_other():
    sheet = opened(panels.beside(figure(60, 75), 2))
    assert sheet.shape == (75, 163, 3)
    assert (sheet[:60, :80][0] == 200).all()
    assert (sheet[0, -80:] == 180).all()
    assert (sheet[61:, :80] == 255).all()
