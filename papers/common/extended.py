"""Runs that were added after a look at the first ones: where a look was followed by more runs, these alone decide."""

import numpy as np


def added(values: np.ndarray, looked_at: int) -> np.ndarray:
    """Values, (runs, ...), without the first ``looked_at``, after which the others were added; all if none was."""
    return values[looked_at:] if len(values) > looked_at else values
