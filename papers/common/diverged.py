"""One treatment of trainings that diverged, in the whole book: what their owner would release instead.

That is the prediction of a fixed class, which is chosen without a look at records: right for one record in as many as
there are classes. It is neither hidden nor counted as no accuracy at all. (A regression has its experiment's constant.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib.checks import ParameterError

CLASSES = 10  # of the data sets of images


def accuracies(results: Sequence[Mapping[str, Any]], score: str = "accuracy", classes: int = CLASSES) -> np.ndarray:
    """Accuracies of trainings in percent, (runs,).

    Args:
        results: of an experiment that trains, one a run.
        score: where a result has its share of right answers; None or nan in a training that diverged.
        classes: of the data set.

    Raises:
        ParameterError: without a run.
    """
    if not results:
        raise ParameterError("results = [] is not allowed: there must be a run.")
    shares = np.array([np.nan if result[score] is None else result[score] for result in results], dtype=float)
    return 100 * np.where(np.isnan(shares), 1 / classes, shares)
