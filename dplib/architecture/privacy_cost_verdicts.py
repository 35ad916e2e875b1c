"""The verdict rules of chapter 3: paper B's hypothesis, its engineered task, and the records that two networks need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dplib.stats import Measured, mean_interval

CLIPPING = "clipping alone"
SAME = 5.0  # points of accuracy: two rows of Table III within this are alike
CONVERGED = 0.01  # a gap in epsilon that a figure does not show


# ------------------------------------------------------------------------------------------ the cost of privacy


def hypothesis(slopes: Mapping[float, Sequence[float]], input_loss: Measured) -> str:
    """The more complex, the higher the cost; complexity is the number of parameters or the size of the input.

    Args:
        slopes: budget to points of cost for ten times the parameters, one number for each seed.
        input_loss: points of accuracy lost from the smallest to the largest input, with records of one length.
    """
    found = [mean_interval(values) for values in slopes.values()]
    together = [mean_interval(values, 1 - 0.05 / len(slopes)) for values in slopes.values()]  # for "at some budget"
    if all(s.high < 0 for s in found):
        return "fails"
    if all(s.low > 0 for s in found):
        return "holds" if input_loss.low > SAME else "holds with change"
    some = any(s.low > 0 for s in together) and not any(s.high < 0 for s in found)
    return "holds with change" if some else "undecided"


def hypothesis_linear(grows: float, grows_with_less_noise: float, split_up: float) -> str:
    """The hypothesis for linear models and Gaussian noise on the coefficients.

    Args:
        grows: share of cases in which one feature more raises the cost, noise no smaller.
        grows_with_less_noise: the same where the larger model has the smaller noise.
        split_up: cost of features in equal pieces over their cost undivided, at one noise.
    """
    if grows < 1:
        return "fails"
    return "holds" if grows_with_less_noise == 1 and split_up >= 1 else "holds with change"


@dataclass(frozen=True)
class Gains:
    """Cells (width, kind) of private training whose cost lies below 0, and those in which clipping explains it."""

    cells: list[tuple[int, str]]
    by_clipping: list[tuple[int, str]]

    @property
    def verdict(self) -> str:
        if not self.cells:
            return "undecided"
        return "holds" if self.by_clipping else "holds with change"


def gains(costs: Mapping[tuple[int, str], Measured]) -> Gains:
    """Where privacy helps, and whether clipping alone helps in the same cell.

    Args:
        costs: by (width, kind), :data:`CLIPPING` among the kinds; intervals that hold for all cells together.
    """
    cells = [key for key, cost in costs.items() if key[1] != CLIPPING and cost.high < 0]
    return Gains(cells, [key for key in cells if costs[key[0], CLIPPING].high < 0])


# ------------------------------------------------------------------------------------------- the engineered task


def table3(difference: float, sgd: Measured) -> str:
    """A row of Table III in a run whose settings are ours: points of DP-SGD's accuracy away, and SGD's accuracy."""
    return "holds with change" if abs(difference) < SAME and sgd.value > 95 else "not reproducible as stated"


def figure5(later: Sequence[Measured], smallest: Measured, drops: Mapping[int, Measured]) -> str:
    """The distance to SGD drops, to about 0 for the smallest input, and more slowly the larger the input.

    Args:
        later: paired differences of the last distance between neighbouring sizes, larger minus smaller.
        smallest: last distance of the smallest input. drops: size to paired first minus last distance.
    """
    ordered = [gap.low > 0 for gap in later]
    dropped = [drop.low > 0 for drop in drops.values()]
    if all(ordered) and smallest.value < 0.2 and dropped[0]:
        return "holds" if all(dropped) else "holds with change"
    return "undecided" if any(ordered) else "fails"


@dataclass(frozen=True)
class Crossings:
    """Budget at which each size's mean curve first reaches a level.

    Attributes:
        points: size to the budget, None where the mean curve does not reach the level.
        draws: (draws, sizes) of bootstrap over the runs, the same runs for every size; an epoch past the last stands
            for "not reached".
    """

    points: dict[int, float | None]
    draws: np.ndarray
    runs: int

    def interval(self, size: int) -> Measured | str:
        point, column = self.points[size], self.draws[:, list(self.points).index(size)]
        if point is None:
            return "not reached"
        return Measured(point, *map(float, np.quantile(column, [0.025, 0.975])), self.runs)

    def difference(self, first: int, last: int) -> tuple[float, float]:
        """95% interval of the budget of ``last`` minus that of ``first``."""
        sizes = list(self.points)
        gap = self.draws[:, sizes.index(last)] - self.draws[:, sizes.index(first)]
        low, high = np.quantile(gap, [0.025, 0.975])
        return float(low), float(high)


def crossings(reached: Mapping[int, np.ndarray], level: float, spent: np.ndarray, rng, draws: int = 1000) -> Crossings:
    """:class:`Crossings` of rising curves.

    Args:
        reached: size to curves (runs, epochs), run i of every size with the same seed.
        level: the first epoch whose mean is at least this counts.
        spent: (epochs + 1,) budget after each epoch, and after one more.
    """
    curves = np.array(list(reached.values()), dtype=float)  # (sizes, runs, epochs)
    runs, epochs = curves.shape[1:]

    def first(means):
        hit = means >= level
        return np.where(hit.any(-1), hit.argmax(-1), epochs)

    picks = rng.integers(runs, size=(draws, runs))
    sampled = np.array([first(curves[:, pick].mean(1)) for pick in picks])
    at = first(curves.mean(1))
    points = {m: float(spent[i]) if i < epochs else None for m, i in zip(reached, at, strict=True)}
    return Crossings(points, np.asarray(spent)[sampled], runs)


def input_budget(accuracy: Crossings, distance: Crossings, same_when_kept: bool) -> str:
    """A larger input needs a larger budget for the same accuracy and distance.

    Args:
        same_when_kept: with records of one length every size has the accuracy of the smallest.
    """
    sizes = list(accuracy.points)
    if accuracy.difference(sizes[0], sizes[-1])[1] < 0:
        return "fails"
    if accuracy.difference(sizes[0], sizes[-1])[0] <= 0:
        return "undecided"
    pairs = list(pairwise(sizes))
    everywhere = all(what.difference(a, b)[0] > 0 for what in (accuracy, distance) for a, b in pairs)
    return "holds" if everywhere and not same_when_kept else "holds with change"


# ----------------------------------------------------------------------------------- records for a set accuracy


def figure6(extra_steps: Sequence[Sequence[float]], closing: bool) -> str:
    """The complex network needs more steps, hence a larger budget, at every size; and the two curves converge.

    Args:
        extra_steps: for each size, complex minus simple, one number for each seed.
        closing: the ratio of the two budgets goes to 1 as well, under a tight accountant.
    """
    together = [mean_interval(gap, 1 - 0.05 / len(extra_steps)) for gap in extra_steps]
    if any(gap.high < 0 for gap in together):
        return "fails"
    if not all(mean_interval(gap).low > 0 for gap in extra_steps):
        return "undecided"
    return "holds" if closing else "holds with change"


def more_records(increase: Measured, printed: float, level: float, printed_level: float) -> str:
    """The complex network needs ``printed`` per cent more records, at a budget of ``printed_level``.

    Args:
        increase: per cent. level: the budget at which it was measured; within a tenth of the printed one is the same.
    """
    if increase.high < 0:
        return "fails"
    if increase.low <= 0:
        return "undecided"
    if increase.low <= printed <= increase.high:
        return "holds" if abs(level / printed_level - 1) < 0.1 else "holds with change"
    close = printed / 2 < increase.value < printed * 2
    return "holds with change" if close else "not reproducible as stated"


def converge(gaps: Sequence[float], ratio: float) -> str:
    """The two budgets converge for large training sets.

    Args:
        gaps: by the paper's accountant, at the sizes the statement is about.
        ratio: complex over simple at the largest of them, by a tight one.
    """
    if max(map(abs, gaps)) >= CONVERGED:
        return "fails"
    return "holds" if ratio < 1.05 else "holds with change"


def form_fits(relative_errors: Sequence[float]) -> str:
    """An "almost perfect fit": within 5% everywhere; within a quarter it still describes the curve."""
    worst = max(map(abs, relative_errors))
    return "holds" if worst < 0.05 else "holds with change" if worst < 0.25 else "fails"
