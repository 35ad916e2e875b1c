"""The verdict rules of chapter 1 that weigh several curves: Theorem 6, and what more features lose under noise."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from dplib.stats import Measured

FALLS = 0.8  # a curve falls when its last value is below this share of its first
GUESSING = 0.49  # an error above this is a coin toss


def falls(curve: Sequence[float]) -> bool:
    """A curve that ends far below its start."""
    return curve[-1] < FALLS * curve[0]


def theorem6(one_class: Sequence, average: Sequence, definition3: Sequence) -> str:
    """Does Psi come near Theorem 6's Psi as the training set grows, as its 1 + o(1) asks?

    Args:
        one_class, average: relative distances in rising n, one curve for each way in which p grows with n, in settings
            where n Gamma grows: for the error of class 1, and for the average of both classes.
        definition3: such curves under the theorem's own noise.
    """
    if not all(map(falls, average)):
        return "fails"
    return "holds" if all(map(falls, [*one_class, *definition3])) else "holds with change"


def crossing(dimensions: Sequence[int], errors: Sequence[float], level: float) -> float:
    """The dimension from which on a curve of errors stays above ``level``, straight in log p.

    Returns:
        0 where it is above from the start, inf where it is not above at the end.
    """
    below = np.flatnonzero(np.asarray(errors) <= level)
    if not len(below):
        return 0.0
    i = int(below[-1])
    if i == len(errors) - 1:
        return np.inf
    return float(np.exp(np.interp(level, errors[i : i + 2], np.log(dimensions[i : i + 2]))))


def crossing_in_words(value: float, dimensions: Sequence[int], level: float) -> float | str:
    """A number only where the curve has a crossing."""
    if np.isinf(value):
        return f"not above {level:g} at {dimensions[-1]:,}"
    return value or f"above {level:g} at {dimensions[0]:,}"


def noise_speeds_up(crossings: Sequence[float], dense: Sequence[float]) -> str:
    """More noise makes the error pass a level at fewer features.

    Args:
        crossings: of a sparse signal by :func:`crossing`, with rising noise.
        dense: of a dense signal at the same noises, none left out.
    """

    def earlier(values):
        return values[-1] < values[0] and all(b <= a for a, b in pairwise(values))

    if not earlier(crossings):
        return "fails"
    return "holds" if earlier(dense) else "holds with change"


def random_guessing(
    noisy: tuple[Measured, Measured], clean: tuple[Measured, Measured], dense: Measured, exponent: Measured
) -> str:
    """Small noise and many features make a classifier as bad as a random guess.

    Args:
        noisy, clean: error of a sparse signal at the fewest and the most features, with and without noise.
        dense: error of a dense signal with that noise at the most features.
        exponent: of the number of features in the separation Psi of the noisy sparse signal: below 0, the error tends
            to 1/2 however far it has come.
    """
    if not rises(*noisy):
        return "fails"
    guesses = noisy[1].low > GUESSING
    if guesses and dense.low > GUESSING and not rises(*clean):
        return "holds"
    return "holds with change" if guesses or exponent.high < 0 else "undecided"


def rises(first: Measured, last: Measured) -> bool:
    """Two intervals that do not meet, the second above the first."""
    return last.low > first.high


def larger_is_worse(errors: Mapping[tuple[str, str], tuple[Measured, Measured]]) -> str:
    """More features mean a larger error: for every signal and noise, for some, or for none.

    Args:
        errors: by signal and noise, at the fewest and the most features.
    """
    worse = [rises(*pair) for pair in errors.values()]
    return "holds" if all(worse) else "holds with change" if any(worse) else "fails"
