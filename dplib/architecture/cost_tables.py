"""Signs of comparisons, their verdicts, and the best of several sizes."""

from collections.abc import Iterable, Sequence

import numpy as np

from dplib.stats import Comparison, Measured


def sign(comparison: Comparison) -> int:
    """1 or -1 where the 95% interval of the difference is all on one side of 0, else 0."""
    low, high = comparison.difference.low, comparison.difference.high
    return 1 if low > 0 else -1 if high < 0 else 0


def order_verdict(comparisons: Iterable[Comparison], expected: int = 1) -> str:
    """Of a claim that differences have a sign: "holds" where all have it beyond chance, "holds with change" where some
    have and none the other one, "fails" where none has it and some the other one, else "undecided"."""
    return signs_verdict([expected * sign(one) for one in comparisons])


def signs_verdict(signs: Sequence[int]) -> str:
    """The same, from the signs themselves; of no comparison at all: "undecided"."""
    if signs and all(s > 0 for s in signs):
        return "holds"
    if any(s > 0 for s in signs):
        return "undecided" if any(s < 0 for s in signs) else "holds with change"
    return "fails" if any(s < 0 for s in signs) else "undecided"


def bootstrap_best(
    sizes: Sequence[float], accuracies: np.ndarray, rng: np.random.Generator, resamples: int = 2000
) -> Measured:
    """The size with the best mean accuracy, (seeds, sizes), with its 95% bootstrap interval over the seeds."""
    sizes = np.asarray(sizes, dtype=float)
    rows = rng.integers(len(accuracies), size=(resamples, len(accuracies)))
    best = sizes[accuracies[rows].mean(axis=1).argmax(axis=1)]
    low, high = np.quantile(best, [0.025, 0.975], method="inverted_cdf")
    return Measured(float(sizes[accuracies.mean(axis=0).argmax()]), float(low), float(high), len(accuracies))
