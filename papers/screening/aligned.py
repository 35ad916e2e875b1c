"""One accepted update where the test looks in another direction than a record's gradient.

The instances of :mod:`papers.screening.instances` have one parameter, so that a record moves a candidate straight along
the energy's slope. A network has thousands of parameters, and the record's clipped gradient stands at an angle to the
gradient of J. While J is linear over one step, two numbers of a candidate matter, both in standard deviations: t, its
step along the record's gradient, and u, its step down the energy. Both are standard normal, with correlation
``alignment``; the record moves t by ``shift`` and u by ``alignment * shift``. The alignment is the cosine of that angle
where the noise alone moves candidates, and less where batches do as well: the cosine over the deviation of all steps
down the energy, in that of the noise. A candidate passes where u >= ``push``. What is released tells t and whether it
passed; given t, whether it did is a coin that the record does not move.

It is a model of what a network leaks and no guarantee: J is linear over one step only nearly, what the other records of
the batch add to a step is the same each time, and a rise of J is never accepted by chance.
"""

import numpy as np
from scipy import special

from dplib import checks
from papers.screening.one_update import REACH, Cells

CELL = 0.04  # standard deviations of the noise
_FLAT = 1e-9  # the least variance of u given t: at an alignment of 1, t tells whether a candidate passes


def accepted_update(shift: float, alignment: float, push: float, sample_rate: float, limit: int) -> Cells:
    """One accepted update with the record (p) and without it (q): candidates are redrawn until one passes.

    Args:
        shift: what the record's clipped gradient moves a candidate by, in standard deviations of the noise; at most 1 /
            noise_multiplier.
        alignment: correlation of a step along the record's gradient and one down the energy, in [-1, 1]; above 0 the
            record helps to pass.
        push: the least step down the energy that passes, in standard deviations of the noise.
        sample_rate: probability with which the record is in a batch, in (0, 1].
        limit: mu_0 >= 0; after so many rejections in a row a candidate is taken whatever its test says.

    Returns the masses on cells of t, first of updates that pass, then of those that do not; the edges only number them.
    Raises ParameterError for an alignment, sample rate or limit that is not allowed.
    """
    checks.number(-1, 1).check("alignment", alignment)
    checks.number(1e-12, 1).check("sample_rate", sample_rate)
    checks.integer(0).check("limit", limit)
    far = REACH + abs(shift)
    edges = np.concatenate([[-np.inf], np.arange(-far, far + CELL, CELL), [np.inf]])
    middle = np.concatenate([edges[1:2], (edges[1:-2] + edges[2:-1]) / 2, edges[-2:-1]])
    passes = special.ndtr((alignment * middle - push) / np.sqrt(max(1 - alignment**2, _FLAT)))
    without, moved = _masses(edges), _masses(edges - shift)
    both = [(1 - sample_rate) * without + sample_rate * moved, without]
    masses = [_released(candidate, passes, limit) for candidate in both]
    return Cells(np.arange(2.0 * len(middle) + 1), *masses)


def _masses(edges: np.ndarray) -> np.ndarray:
    """Probabilities of the cells under a standard normal, from the nearer tail."""
    low, high = edges[:-1], edges[1:]
    right = low > 0
    return np.where(right, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))


def _released(candidate: np.ndarray, passes: np.ndarray, limit: int) -> np.ndarray:
    """Masses of the released update: cells that pass, then those taken after too many rejections."""
    rejected = float(candidate @ (1 - passes))
    tries = (1 - rejected**limit) / (1 - rejected) + rejected**limit
    masses = np.concatenate([candidate * passes * tries, candidate * (1 - passes) * rejected**limit])
    return masses / masses.sum()
