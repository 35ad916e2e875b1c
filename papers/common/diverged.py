"""One treatment of trainings that diverged, in the whole book: what their owner would release instead.

That is the prediction of a fixed class, which is chosen without a look at records: right for one record in as many as
there are classes. It is neither hidden nor counted as no accuracy at all. (A regression has its experiment's constant.)
"""

from collections.abc import Iterable

import numpy as np

CLASSES = 10  # of the data sets of images


def shares(measured: Iterable[float | None], classes: int = CLASSES) -> np.ndarray:
    """Shares of right answers, (runs,); None or nan for a training that diverged."""
    known = np.array([np.nan if share is None else share for share in measured], dtype=float)
    return np.where(np.isnan(known), 1 / classes, known)


def accuracies(measured: Iterable[float | None], classes: int = CLASSES) -> np.ndarray:
    """The same in percent, from shares."""
    return 100 * shares(measured, classes)
