"""From runs to the map: which widths are as good as the best of their cell, and a law fitted to all of them.

A cell is a number of records n and a budget epsilon. A width is *worse* where the lower end of the paired 95% interval
of its loss against the cell's best width exceeds :data:`MARGIN`; the others are the cell's set. The best width is
picked on the seeds that it is compared by, so that losses are a little too large, and sets a little too small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import stats
from dplib.stats import Measured

MARGIN = 0.5  # points of accuracy: the smallest difference that matters here
Cell = tuple[int, float | None]  # n, epsilon


@dataclass(frozen=True)
class Compared:
    """The widths of one cell.

    Attributes:
        means: width to accuracy in percent. best: the width with the highest.
        losses: width to points below the best, paired by seed. good: those that are not worse, in increasing order.
    """

    means: Mapping[int, Measured]
    best: int
    losses: Mapping[int, Measured]
    good: tuple[int, ...]


def compared(by_width: Mapping[int, np.ndarray]) -> Compared:
    """The comparison of accuracies by seed, in percent; a training that diverged counts as 0%."""
    some = {width: np.nan_to_num(tests) for width, tests in by_width.items()}
    means = {width: stats.mean_interval(tests) for width, tests in some.items()}
    best = max(means, key=lambda width: means[width].value)
    losses = {width: stats.paired(some[best], tests).difference for width, tests in some.items()}
    return Compared(means, best, losses, tuple(sorted(w for w, loss in losses.items() if loss.low <= MARGIN)))


def cells(found: Mapping[tuple[int, float | None, int], Mapping[str, Any]], least: int = 1) -> dict[Cell, Compared]:
    """The cells of :func:`dplib.sizes.width_study.widths`, of networks with at least so many hidden units."""
    by_cell: dict[Cell, dict[int, np.ndarray]] = {}
    for (n, epsilon, width), one in found.items():
        if width >= least:
            by_cell.setdefault((n, epsilon), {})[width] = one["test"]
    return {at: compared(widths) for at, widths in sorted(by_cell.items(), key=lambda one: (one[0][0], _last(one[0])))}


def _last(cell: Cell) -> float:
    return np.inf if cell[1] is None else cell[1]


# ------------------------------------------------------------------------------------------------------------ the law


@dataclass(frozen=True)
class Law:
    """log10 of the error (a share), a quadratic in log10 of n, epsilon and width; ``coefficients`` has shape (10,)."""

    coefficients: np.ndarray

    def accuracy(self, n: Any, epsilon: Any, width: Any) -> np.ndarray:
        """In percent, for values or arrays of one shape."""
        return 100 * (1 - 10 ** (_terms(n, epsilon, width) @ self.coefficients))

    def best_width(self, n: float, epsilon: float, low: float, high: float) -> float:
        """The width in [low, high] with the least error: the vertex of a parabola in log width, or an end."""
        *_, s, ss, us, vs = self.coefficients
        slope, curve = s + us * np.log10(n) + vs * np.log10(epsilon), 2 * ss
        ends = np.log10([low, high])
        if curve > 0:
            return float(10 ** np.clip(-slope / curve, *ends))
        return float(10 ** min(ends, key=lambda e: slope * e + ss * e**2))


def _terms(n: Any, epsilon: Any, width: Any) -> np.ndarray:
    u, v, s = np.broadcast_arrays(*map(np.log10, (n, epsilon, width)))
    return np.stack([np.ones_like(u), u, v, u * u, v * v, u * v, s, s * s, u * s, v * s], axis=-1)


def fit(points: Sequence[tuple[int, float, int, float]]) -> Law:
    """The law by least squares from (n, epsilon, width, accuracy in percent)."""
    n, epsilon, width, accuracy = np.array(points, dtype=float).T
    error = np.maximum(1 - accuracy / 100, 1e-4)
    return Law(np.linalg.lstsq(_terms(n, epsilon, width), np.log10(error), rcond=None)[0])


def held_out(sizes: Sequence[int], epsilons: Sequence[float]) -> set[Cell]:
    """Every third cell along the diagonals of the grid; the fit does not see them."""
    return {(n, e) for i, n in enumerate(sizes) for j, e in enumerate(epsilons) if (i + j) % 3 == 0}


def judged(private: Mapping[Cell, Compared]) -> dict[str, Any]:
    """The law fitted to two thirds of the private cells, and what it is worth on the last third.

    Returns:
        "law"; "held", the cells held out; "error", the root mean square error of accuracies there, in points, of the
        law ("law"), of one without width ("no width"), and of the mean of all fitted accuracies ("constant"); and
        "regret", points lost there on average to each cell's best width by taking the width that the "law" says, the
        nearest that was run, or always the same width.
    """
    sizes, epsilons = (sorted({at[i] for at in private}) for i in (0, 1))
    held = held_out(sizes, epsilons) & set(private)
    points = {at: [(*at, w, m.value) for w, m in cell.means.items()] for at, cell in private.items()}
    fitted = [point for at, some in points.items() if at not in held for point in some]
    asked = np.array([point for at in held for point in points[at]], dtype=float)
    law = fit(fitted)
    widths = sorted({point[2] for point in fitted})
    said = {
        "law": law.accuracy(*asked.T[:3]),
        "no width": _without_width(fitted, asked),
        "constant": np.full(len(asked), np.mean([point[3] for point in fitted])),
    }
    regret = {f"always {width}": np.mean([private[at].losses[width].value for at in held]) for width in widths}
    regret["law"] = np.mean([private[at].losses[nearest(law, at, widths)].value for at in held])
    errors = {name: float(np.sqrt(np.mean((values - asked[:, 3]) ** 2))) for name, values in said.items()}
    return {"law": law, "held": held, "error": errors, "regret": {k: float(v) for k, v in regret.items()}}


def nearest(law: Law, cell: tuple[int, float], widths: Sequence[int]) -> int:
    """The width among those run that is nearest to the law's best one."""
    best = np.log(law.best_width(*cell, min(widths), max(widths)))
    return min(widths, key=lambda width: abs(np.log(width) - best))


def _without_width(fitted: Sequence[tuple[int, float, int, float]], asked: np.ndarray) -> np.ndarray:
    """A quadratic in log n and log epsilon alone."""
    n, epsilon, _, accuracy = np.array(fitted, dtype=float).T
    error = np.log10(np.maximum(1 - accuracy / 100, 1e-4))
    coefficients = np.linalg.lstsq(_terms(n, epsilon, 1.0)[:, :6], error, rcond=None)[0]
    return 100 * (1 - 10 ** (_terms(asked[:, 0], asked[:, 1], 1.0)[:, :6] @ coefficients))
