"""From runs to the map: which widths are as good as the best of their cell, and a law fitted to all of them.

A cell is a number of records n and a budget epsilon. A width is *worse* where the lower end of the paired 95% interval
of its loss against the cell's best width exceeds :data:`MARGIN`; the others are the cell's set. The best width is
picked on the seeds that it is compared by, so that losses are a little too large, and sets a little too small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import stats
from dplib.stats import Measured
from papers.common import diverged

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
    """The comparison of accuracies by seed, in percent; one that diverged as :mod:`papers.common.diverged`."""
    finite = {width: np.nan_to_num(tests, nan=100 / diverged.CLASSES) for width, tests in by_width.items()}
    means = {width: stats.mean_interval(tests) for width, tests in finite.items()}
    best = max(means, key=lambda width: means[width].value)
    losses = {width: stats.paired(finite[best], tests).difference for width, tests in finite.items()}
    return Compared(means, best, losses, tuple(sorted(w for w, loss in losses.items() if loss.low <= MARGIN)))


def cells(results: Mapping[tuple[int, float | None, int], Mapping[str, Any]], least: int = 0) -> dict[Cell, Compared]:
    """The cells of :func:`papers.sizes.width_runs.widths`, of networks with at least so many hidden units."""
    by_cell: dict[Cell, dict[int, np.ndarray]] = {}
    for (n, epsilon, width), result in results.items():
        if width >= least:
            by_cell.setdefault((n, epsilon), {})[width] = result["test"]
    return {
        at: compared(widths) for at, widths in sorted(by_cell.items(), key=lambda item: (item[0][0], _last(item[0])))
    }


def _last(cell: Cell) -> float:
    return np.inf if cell[1] is None else cell[1]


def nearest(by_cell: Mapping[Cell, Compared], n: int, epsilon: float) -> Cell:
    """The private cell that is nearest to n and epsilon, both on a logarithmic scale."""
    private = [at for at in by_cell if at[1]]
    return min(private, key=lambda at: np.hypot(np.log(at[0] / n), np.log(at[1] / epsilon)))


# ------------------------------------------------------------------------------------------------------------ the law

BORDER = 4000  # n times epsilon from which on networks are ahead on the map: a rule of one line, beside the law
LEAST = 16  # the law is of widths from here on: four units cannot carry ten classes, and say nothing about privacy
CHANCE = 10.0  # percent, of ten classes

# What the law is linear in, from accuracies in percent, and back. The first was stated before the runs; it lets errors
# grow beyond that of guessing. The second, chosen when that was seen to fail, does not.
LINKS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "log error": (lambda a: np.log10(1 - a / 100), lambda y: 100 * (1 - 10**y)),
    "log odds above guessing": (
        lambda a: np.log10(np.maximum(a - CHANCE, 0.5) / (100 - a)),
        lambda y: CHANCE + (100 - CHANCE) * 10**y / (1 + 10**y),
    ),
}


@dataclass(frozen=True)
class Law:
    """A link of the accuracy: of networks a quadratic in log10 of n, epsilon and width; of the linear model without
    width.

    networks: coefficients of :func:`_terms`, (10,). linear: of its first six, (6,).
    """

    link: str
    networks: np.ndarray
    linear: np.ndarray

    def accuracy(self, n: Any, epsilon: Any, width: Any) -> np.ndarray:
        """In percent, for values or arrays of one shape; width 0 is the linear model."""
        width = np.asarray(width, dtype=float)
        terms = _terms(n, epsilon, np.where(width > 0, width, 1.0))
        return LINKS[self.link][1](np.where(width > 0, terms @ self.networks, terms[..., :6] @ self.linear))

    def best(self, cell: tuple[float, float], widths: Sequence[int]) -> int:
        """The one of these widths with the highest accuracy."""
        return widths[int(np.argmax([self.accuracy(*cell, width) for width in widths]))]


def _terms(n: Any, epsilon: Any, width: Any) -> np.ndarray:
    u, v, s = np.broadcast_arrays(*map(np.log10, (n, epsilon, width)))
    return np.stack([np.ones_like(u), u, v, u * u, v * v, u * v, s, s * s, u * s, v * s], axis=-1)


def fit(points: Sequence[tuple[int, float, int, float]], link: str) -> Law:
    """The law by least squares from (n, epsilon, width, accuracy in percent); width 0 is the linear model."""
    n, epsilon, width, accuracy = np.array(points, dtype=float).T
    values, hidden = LINKS[link][0](accuracy), width > 0
    terms = _terms(n, epsilon, np.maximum(width, 1))
    networks = np.linalg.lstsq(terms[hidden], values[hidden], rcond=None)[0]
    return Law(link, networks, np.linalg.lstsq(terms[~hidden, :6], values[~hidden], rcond=None)[0])


def held_out(sizes: Sequence[int], epsilons: Sequence[float]) -> set[Cell]:
    """Every third cell along the diagonals of the grid; the fit does not see them."""
    return {(n, e) for i, n in enumerate(sizes) for j, e in enumerate(epsilons) if (i + j) % 3 == 0}


def judged(by_cell: Mapping[Cell, Compared], held: set[Cell] = frozenset(), later: int | None = None) -> dict[str, Any]:
    """The laws fitted to two thirds of the private cells, and what they are worth on the last third.

    Args:
        later: a number of records that was run after the laws were chosen: no law is fitted to its cells.
        held: the cells to judge by; those of :func:`held_out` where empty.

    Returns "laws" by link; "held", the cells held out; "error", root mean square errors there, in points, of each law,
    of the last one "without width", and of the mean ("constant"); "regret", points lost there on average to each cell's
    best width by the width that a law says, by always taking the same, and by the "border": linear below, widest above.
    Widths missing in some cell do not count.
    """
    private = {at: cell for at, cell in by_cell.items() if at[1] is not None}
    widths = sorted(w for w in set.intersection(*(set(c.means) for c in private.values())) if w == 0 or w >= LEAST)
    known = [at for at in private if at[0] != later]
    spared = held_out(*(sorted({at[i] for at in known}) for i in (0, 1))) & set(known)
    held = held or spared
    points = {at: [(*at, width, cell.means[width].value) for width in widths] for at, cell in private.items()}
    fitted = [point for at in known if at not in spared for point in points[at]]
    n, epsilon, width, accuracy = np.array([point for at in held for point in points[at]], dtype=float).T
    laws = {link: fit(fitted, link) for link in LINKS}
    blind = fit([(size, e, 0, a) for size, e, _, a in fitted], list(LINKS)[-1])
    said = {link: law.accuracy(n, epsilon, width) for link, law in laws.items()}
    said["without width"] = blind.accuracy(n, epsilon, 0)
    said["constant"] = np.full(len(n), np.mean([point[3] for point in fitted]))
    choices = {link: {at: law.best(at, widths) for at in held} for link, law in laws.items()}
    choices |= {width: dict.fromkeys(held, width) for width in widths}
    choices["border"] = {at: 0 if at[0] * at[1] < BORDER else max(widths) for at in held}
    return {
        "laws": laws,
        "held": held,
        "error": {name: float(np.sqrt(np.mean((values - accuracy) ** 2))) for name, values in said.items()},
        "regret": {
            name: float(np.mean([private[at].losses[width].value for at, width in choice.items()]))
            for name, choice in choices.items()
        },
    }


def cost_of_width(
    results: Mapping[tuple[int, float | None, int], Mapping[str, Any]], most: float, few: int = 64, many: int = 1024
) -> Measured:
    """Accuracy with few units less that with many, in points, by seed: the mean of cells with n epsilon <= ``most``."""
    at = [(n, e) for n, e, w in results if e is not None and n * e <= most and w == few and (n, e, many) in results]
    return stats.mean_interval(
        np.mean([results[*cell, few]["test"] - results[*cell, many]["test"] for cell in at], axis=0)
    )


def crossover(
    results: Mapping[tuple[int, float | None, int], Mapping[str, Any]], n: int, width: int
) -> Measured | None:
    """The budget from which a network of this width is ahead of the linear model, at n records: paper B's crossover.

    Both accuracies are interpolated in log epsilon; the interval is of 2,000 draws of the seeds with replacement, and
    has an end at inf or 0 where a draw has no crossing. None where the linear model is ahead at the largest budget, or
    behind at the smallest, or that width was not run.
    """
    epsilons = sorted(e for size, e, w in results if size == n and w == width and e is not None)
    if not epsilons:
        return None
    ahead = np.array([results[n, e, width]["test"] - results[n, e, 0]["test"] for e in epsilons])  # (budgets, seeds)
    draws = np.random.default_rng(0).integers(ahead.shape[1], size=(2000, ahead.shape[1]))
    value = _root(np.log(epsilons), ahead.mean(axis=1))
    if not np.isfinite(value):
        return None
    roots = [_root(np.log(epsilons), ahead[:, rows].mean(axis=1)) for rows in draws]
    low, high = np.quantile(roots, [0.025, 0.975], method="inverted_cdf")
    return Measured(*(float(np.exp(end)) for end in (value, low, high)), ahead.shape[1])


def _root(x: np.ndarray, y: np.ndarray) -> float:
    """Where y, piecewise linear in x, comes above 0 for good: -inf where it is there from the start, inf for never."""
    below = np.flatnonzero(y <= 0)
    if not len(below):
        return -np.inf
    i = below[-1]
    return np.inf if i == len(y) - 1 else float(x[i] + (x[i + 1] - x[i]) * y[i] / (y[i] - y[i + 1]))
