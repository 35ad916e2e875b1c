"""Signs of several comparisons behind one verdict, corrected by Holm's method."""

from collections.abc import Iterable

import numpy as np

from dplib.architecture.cost_tables import sign
from dplib.stats import Comparison, holm


def holm_signs(comparisons: Iterable[Comparison]) -> list[int]:
    """1 or -1 for each difference that has that sign at 5% after Holm's correction over all of them, else 0."""
    some = list(comparisons)
    if not some:
        return []
    clear = holm(np.array([one.p_value for one in some])) < 0.05
    return [sign(one) if yes else 0 for one, yes in zip(some, clear, strict=True)]
