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


def cells(found: Mapping[tuple[int, float | None, int], Mapping[str, Any]], least: int = 0) -> dict[Cell, Compared]:
    """The cells of :func:`dplib.sizes.width_study.widths`, of networks with at least so many hidden units."""
    by_cell: dict[Cell, dict[int, np.ndarray]] = {}
    for (n, epsilon, width), one in found.items():
        if width >= least:
            by_cell.setdefault((n, epsilon), {})[width] = one["test"]
    return {at: compared(widths) for at, widths in sorted(by_cell.items(), key=lambda one: (one[0][0], _last(one[0])))}


def _last(cell: Cell) -> float:
    return np.inf if cell[1] is None else cell[1]


# ------------------------------------------------------------------------------------------------------------ the law

LEAST = 16  # the law is of widths from here on: four units cannot carry ten classes, and say nothing about privacy


@dataclass(frozen=True)
class Law:
    """log10 of the error (a share): of networks a quadratic in log10 of n, epsilon and width, of the linear model in n
    and epsilon alone.

    Attributes:
        networks: coefficients of the terms of :func:`_terms`, (10,). linear: of its first six, (6,).
    """

    networks: np.ndarray
    linear: np.ndarray

    def accuracy(self, n: Any, epsilon: Any, width: Any) -> np.ndarray:
        """In percent, for values or arrays of one shape; width 0 is the linear model."""
        width = np.asarray(width, dtype=float)
        terms = _terms(n, epsilon, np.where(width > 0, width, 1.0))
        logs = np.where(width > 0, terms @ self.networks, terms[..., :6] @ self.linear)
        return 100 * (1 - 10**logs)

    def best(self, cell: tuple[int, float], widths: Sequence[int]) -> int:
        """The one of these widths with the highest accuracy."""
        return widths[int(np.argmax([self.accuracy(*cell, width) for width in widths]))]


def _terms(n: Any, epsilon: Any, width: Any) -> np.ndarray:
    u, v, s = np.broadcast_arrays(*map(np.log10, (n, epsilon, width)))
    return np.stack([np.ones_like(u), u, v, u * u, v * v, u * v, s, s * s, u * s, v * s], axis=-1)


def fit(points: Sequence[tuple[int, float, int, float]]) -> Law:
    """The law by least squares from (n, epsilon, width, accuracy in percent); width 0 is the linear model."""
    n, epsilon, width, accuracy = np.array(points, dtype=float).T
    logs, hidden = np.log10(1 - accuracy / 100), width > 0
    terms = _terms(n, epsilon, np.maximum(width, 1))
    networks = np.linalg.lstsq(terms[hidden], logs[hidden], rcond=None)[0]
    return Law(networks, np.linalg.lstsq(terms[~hidden, :6], logs[~hidden], rcond=None)[0])


def held_out(sizes: Sequence[int], epsilons: Sequence[float]) -> set[Cell]:
    """Every third cell along the diagonals of the grid; the fit does not see them."""
    return {(n, e) for i, n in enumerate(sizes) for j, e in enumerate(epsilons) if (i + j) % 3 == 0}


def judged(found: Mapping[Cell, Compared]) -> dict[str, Any]:
    """The law fitted to two thirds of the private cells, and what it is worth on the last third.

    Returns:
        "law"; "held", the cells held out; "error", the root mean square error of accuracies there, in points, of the
        law ("law"), of one without width ("no width"), and of the mean of all fitted accuracies ("constant"); and
        "regret", points lost there on average to each cell's best width by the width that the law says, and by always
        taking the same one. Widths that are missing in some cell do not count.
    """
    private = {at: cell for at, cell in found.items() if at[1] is not None}
    widths = sorted(w for w in set.intersection(*(set(c.means) for c in private.values())) if w == 0 or w >= LEAST)
    held = held_out(*(sorted({at[i] for at in private}) for i in (0, 1))) & set(private)
    points = {at: [(*at, width, cell.means[width].value) for width in widths] for at, cell in private.items()}
    fitted = [point for at, some in points.items() if at not in held for point in some]
    asked = np.array([point for at in held for point in points[at]], dtype=float)
    law, blind = fit(fitted), fit([(n, e, 0, accuracy) for n, e, _, accuracy in fitted])
    said = {
        "law": law.accuracy(*asked.T[:3]),
        "no width": blind.accuracy(asked[:, 0], asked[:, 1], 0),
        "constant": np.full(len(asked), np.mean([point[3] for point in fitted])),
    }
    choices = {"law": {at: law.best(at, widths) for at in held}} | {w: dict.fromkeys(held, w) for w in widths}
    return {
        "law": law,
        "held": held,
        "error": {name: float(np.sqrt(np.mean((values - asked[:, 3]) ** 2))) for name, values in said.items()},
        "regret": {
            name: float(np.mean([private[at].losses[width].value for at, width in choice.items()]))
            for name, choice in choices.items()
        },
    }


def crossover(found: Mapping[tuple[int, float | None, int], Mapping[str, Any]], n: int, width: int) -> Measured | None:
    """The budget from which a network of this width is ahead of the linear model, at n records: paper B's crossover.

    Both accuracies are interpolated in log epsilon; the interval is of 2,000 draws of the seeds with replacement. None
    where the linear model is ahead at the largest budget, or behind at the smallest.
    """
    epsilons = sorted(e for size, e, w in found if size == n and w == width and e is not None)
    ahead = np.array([found[n, e, width]["test"] - found[n, e, 0]["test"] for e in epsilons])  # (budgets, seeds)
    draws = np.random.default_rng(0).integers(ahead.shape[1], size=(2000, ahead.shape[1]))
    value = _root(np.log(epsilons), ahead.mean(axis=1))
    if not np.isfinite(value):
        return None
    roots = [_root(np.log(epsilons), ahead[:, rows].mean(axis=1)) for rows in draws]
    low, high = np.quantile(roots, [0.025, 0.975], method="inverted_cdf")
    return Measured(*(float(np.exp(one)) for one in (value, low, high)), ahead.shape[1])


def _root(x: np.ndarray, y: np.ndarray) -> float:
    """Where y, piecewise linear in x, comes above 0 for good: -inf where it is there from the start, inf for never."""
    below = np.flatnonzero(y <= 0)
    if not len(below):
        return -np.inf
    i = below[-1]
    return np.inf if i == len(y) - 1 else float(x[i] + (x[i + 1] - x[i]) * y[i] / (y[i] - y[i + 1]))
