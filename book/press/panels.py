"""Panels of a chapter's figure for a slide: a page is narrow, and sets them one above the other; a slide is wide."""

import io

import numpy as np
from PIL import Image

WHITE = 250  # of 255; what is lighter is paper
GAP = 0.04  # between panels that are set beside each other, of a panel's width


def panel(png: bytes, number: int, count: int) -> bytes:
    """Panel ``number``, from 1, of ``count`` panels that stand one above the other."""
    return _written(_cut(png, count)[number - 1])


def beside(png: bytes, count: int) -> bytes:
    """The ``count`` panels of a figure from left to right instead of from top to bottom."""
    parts = _cut(png, count)
    gap = round(GAP * max(part.width for part in parts))
    wide = sum(part.width for part in parts) + gap * (count - 1)
    sheet = Image.new("RGB", (wide, max(part.height for part in parts)), "white")
    place = 0
    for part in parts:
        sheet.paste(part, (place, 0))
        place += part.width + gap
    return _written(sheet)


def _cut(png: bytes, count: int) -> list[Image.Image]:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    empty = (np.asarray(image) >= WHITE).all(axis=(1, 2))
    ends = [0, *(_gap(empty, image.height * place / count, image.height / count) for place in range(1, count))]
    pairs = zip(ends, [*ends[1:], image.height], strict=True)
    return [_trimmed(image.crop((0, top, image.width, bottom))) for top, bottom in pairs]


def _gap(empty: np.ndarray, near: float, height: float) -> int:
    """The middle of the longest run of empty rows around a place, at most a quarter of a panel away from it."""
    low, high = round(near - height / 4), round(near + height / 4)
    runs, start = [(0, round(near))], None
    for row in range(low, high + 1):
        if row < high and empty[row]:
            start = row if start is None else start
        elif start is not None:
            runs.append((row - start, (start + row) // 2))
            start = None
    return max(runs)[1]


def _trimmed(image: Image.Image) -> Image.Image:
    rows, columns = (np.flatnonzero((np.asarray(image) < WHITE).any(axis=axes)) for axes in ((1, 2), (0, 2)))
    return image.crop((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)) if rows.size else image


def _written(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "PNG", optimize=True)
    return written.getvalue()
