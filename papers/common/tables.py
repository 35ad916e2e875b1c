"""Tables of more than one chapter."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler


def beside(
    lines: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
    columns: Mapping[str, str],
    index: str | None = None,
    digits: int = 2,
) -> Styler:
    """Values in percent, printed beside measured.

    Args:
        lines: name to the printed and the measured values of a line, each by value.
        columns: value to what its two columns begin with.
        index: what the names are of.
        digits: of what is printed, behind the point; what is measured has one.
    """
    cells: dict[str, dict[str, Any]] = {}
    for name, (printed, measured) in lines.items():
        cells[name] = {}
        for value, column in columns.items():
            cells[name] |= {f"{column}, printed": printed[value], f"{column}, measured": measured[value]}
    table = pd.DataFrame.from_dict(cells, orient="index").rename_axis(index)
    measured_columns = [f"{column}, measured" for column in columns.values()]
    return table.style.format(f"{{:.{digits}f}}").format("{:.1f}", subset=measured_columns)
