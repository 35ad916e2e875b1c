"""Choose a model for a private training: walk the chart, then look up what was measured nearest.

An answer is a nearest neighbour over the frozen results of this book under stated rules, not a law. Its accuracy is
that of the nearest result of the advised family, moved to the problem, with the worst error that the same procedure
makes on the book's own data sets when each in turn is left out. Where nothing lies near, there is no number.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dplib import accounting
from dplib.stats import Measured
from press import choice_evidence, choice_rules
from press.choice_evidence import LABELS, Result
from press.choice_problem import Problem
from press.choice_rules import Leaf, Question

REACH = 1.0  # decades: beyond a factor of ten in one quantity alone, nothing is near
SLACK = 1.1  # how much more noise than a batch of all records a smaller batch may cost
RATES = 2.0 ** -np.arange(15)  # sample rates to choose from: all records, a half, a quarter, ...
LEAST_GAIN = 2.0  # points that learning must gain without privacy before a share of the gain means anything


@dataclass(frozen=True)
class Settings:
    """How to train by DP-SGD: one record added or removed, Poisson sampling, the sum of clipped gradients noised.

    Attributes:
        sample_rate: chance of each record to be in a batch. batch: records in a batch on average. steps: as in the
            nearest frozen training. noise_multiplier: by Rényi DP, on the safe side. spent: epsilon of these settings
            by privacy loss distributions, an independent computation. noise: of a step's mean gradient,
            relative to that of a batch of all records.
    """

    sample_rate: float
    batch: int
    steps: int
    noise_multiplier: float
    spent: float
    noise: float


@dataclass(frozen=True)
class Answer:
    """What the chart and the nearest results say of a problem.

    Attributes:
        path: questions and answers on the way to the leaf. settings: None where no DP-SGD is advised.
        nearest: the nearest frozen result of the advised family, kind and protection; distance: to it, in decades.
        expected: accuracy (%) with the interval that leaving out data sets suggests; None where nothing is near or
            nothing can be compared. carried: "share" or "accuracy": what was taken over from the nearest result.
        others: the nearest result of every data set of that kind and protection within reach, of any family, and a
            better one of another family at the same point.
    """

    problem: Problem
    path: tuple[tuple[Question, bool], ...]
    leaf: Leaf
    settings: Settings | None
    nearest: Result | None
    distance: float
    expected: Measured | None
    carried: str
    others: tuple[tuple[Result, float], ...]

    @property
    def near(self) -> bool:
        """Whether the nearest result is near enough to say anything."""
        return self.nearest is not None and self.distance <= REACH


def choose(problem: Problem) -> Answer:
    """Walk the chart, take over the nearest result, and fix batch and noise."""
    path, leaf = choice_rules.walk(problem.facts)
    epsilon = problem.epsilon if leaf.private == LABELS else problem.record_epsilon
    point = (problem.n, problem.d, problem.classes, epsilon)
    alike = [one for one in choice_evidence.table() if (one.data.kind, one.private) == (problem.kind, leaf.private)]
    own = [one for one in alike if one.family == leaf.family]
    nearest = min(own, key=lambda one: distance(point, _point(one)), default=None)
    far = distance(point, _point(nearest)) if nearest else math.inf
    expected, carried = _expected(problem, leaf, nearest) if far <= REACH else (None, "")
    if leaf.family == "constant" and problem.frequent_class:
        expected, carried = Measured(problem.frequent_class), "constant"
    settings = dpsgd(problem, nearest.steps) if nearest and nearest.steps else None
    others = tuple(found for found in _others(point, alike, leaf.family) if found[0] is not nearest)
    return Answer(problem, tuple(path), leaf, settings, nearest, far, expected, carried, others)


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Euclidean distance in decades: log10 of the ratios of n, d, classes and epsilon, all weighing the same."""
    return math.hypot(*(math.log10(x / y) for x, y in zip(a, b, strict=True)))


def dpsgd(problem: Problem, steps: int) -> Settings:
    """Batch by :func:`least_rate`, noise for the problem's budget as one for records, and a second accountant."""
    epsilon, delta = problem.record_epsilon, problem.record_delta
    rate, sigma, noise = (float(part) for part in least_rate(epsilon, delta, steps))
    spent = accounting.epsilon(sigma, rate, steps, delta, "pld")
    return Settings(rate, max(1, round(rate * problem.n)), steps, sigma, float(spent), noise)


def least_rate(epsilon, delta, steps) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least sample rate whose noise is within SLACK of a batch of all records.

    A step's mean gradient carries noise of standard deviation sigma(q) C / (q n). At a given budget and number of steps
    sigma(q) / q falls as q grows, towards sigma(1): a larger batch is never worse, but it costs more time, and beyond
    some q brings next to nothing. That q does not depend on n.

    Args:
        epsilon, delta, steps: arrays broadcast; delta > 0.

    Returns:
        The rate, one of RATES; its noise multiplier by Rényi DP; its noise relative to that of all records.
    """

    def noise(place):
        return accounting.noise_multiplier(epsilon, RATES[place], steps, delta, "rdp")

    shape = np.broadcast_shapes(np.shape(epsilon), np.shape(delta), np.shape(steps))
    low, high = np.zeros(shape, int), np.full(shape, len(RATES) - 1)
    every = noise(low)
    while (low < high).any():  # bisection: the noise falls with the rate
        middle = (low + high + 1) // 2
        enough = noise(middle) / RATES[middle] <= SLACK * every
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    sigma = noise(low)
    return RATES[low], sigma, sigma / RATES[low] / every


@dataclass(frozen=True)
class LeftOut:
    """A frozen result, and what the procedure says of it when its own data set is left out.

    Attributes:
        result: the one to be foretold. neighbour: the nearest of another data set with the same kind and protection,
            of the same family where there is one within reach. accuracy_error: neighbour's accuracy less the true one,
            in points; share_error: the same where the share of the gain is taken over, None where it is not defined.
    """

    result: Result
    neighbour: Result
    distance: float
    accuracy_error: float
    share_error: float | None


@functools.cache
def left_out() -> tuple[LeftOut, ...]:
    """Every result that has a neighbour within REACH in another data set."""
    found = []
    for one in choice_evidence.table():
        others = [
            (other.family != one.family, far, other)
            for other in choice_evidence.table()
            if (other.data.kind, other.private) == (one.data.kind, one.private) and other.data.name != one.data.name
            if (far := distance(_point(one), _point(other))) <= REACH
        ]
        if others:
            _, far, nearest = min(others, key=lambda found: found[:2])
            share = share_kept(nearest)
            foretold = None if share is None or one.without is None else _carry(share, one.data.floor, one.without)
            error = None if foretold is None else foretold - one.accuracy
            found.append(LeftOut(one, nearest, far, nearest.accuracy - one.accuracy, error))
    return tuple(found)


def share_kept(one: Result) -> float | None:
    """Share of what learning gains that privacy leaves, in [0, 1]; None where learning gains hardly anything."""
    if one.without is None or one.without - one.data.floor < LEAST_GAIN:
        return None
    return min(1.0, max(0.0, (one.accuracy - one.data.floor) / (one.without - one.data.floor)))


def foretold(kind: str, private: str) -> list[str]:
    """The data sets of a kind that have another one within reach: those whose results say how far they carry."""
    return sorted({one.result.data.name for one in _pool(kind, private)})


@functools.cache
def worst(kind: str, private: str) -> dict[str, float]:
    """The largest error in points of each way to take a result over, on data sets of a kind left out in turn."""
    pool = _pool(kind, private)
    errors = {"accuracy": [one.accuracy_error for one in pool], "share": [one.share_error for one in pool]}
    found = {how: [abs(e) for e in errors[how] if e is not None] for how in errors}
    return {how: max(some) for how, some in found.items() if some}


def _pool(kind: str, private: str) -> list[LeftOut]:
    return [one for one in left_out() if (one.result.data.kind, one.result.private) == (kind, private)]


def _expected(problem: Problem, leaf: Leaf, nearest: Result) -> tuple[Measured | None, str]:
    """The nearest result taken over in the way that fails least on left-out data sets, widened by its worst error."""
    alone = nearest.data.name not in foretold(problem.kind, leaf.private)
    errors = {} if alone else worst(problem.kind, leaf.private)
    share = share_kept(nearest)
    if share is None or not problem.accuracy_without_privacy:
        errors = {how: error for how, error in errors.items() if how != "share"}
    if not errors:
        return None, ""
    how = min(errors, key=errors.get)
    middle = _carry(share, problem.floor, problem.accuracy_without_privacy) if how == "share" else nearest.accuracy
    low, high = max(0.0, middle - errors[how]), min(100.0, middle + errors[how])
    return Measured(middle, low, high), how


def _carry(share: float, floor: float, without: float) -> float:
    return floor + share * (without - floor)


def _point(one: Result) -> tuple[float, float, float, float]:
    return one.data.n, one.data.d, one.data.classes, one.epsilon


def _others(point: Sequence[float], alike: Sequence[Result], family: str | None) -> tuple[tuple[Result, float], ...]:
    """The nearest result of each data set within reach, the nearest data set first; ties go to the advised family.

    The best result of another family at the same point follows it where that is better: advice may turn out so.
    """
    ranked = sorted((distance(point, _point(one)), one.family != family, place) for place, one in enumerate(alike))
    found: dict[str, list[tuple[Result, float]]] = {}
    for far, _, place in ranked:
        if far <= REACH:
            found.setdefault(alike[place].data.name, []).append((alike[place], far))
    return tuple(one for same in found.values() for one in _first_and_better(same))


def _first_and_better(same: list[tuple[Result, float]]) -> list[tuple[Result, float]]:
    first, far = same[0]
    rivals = [one for one, at in same if at == far and one.family != first.family and one.accuracy > first.accuracy]
    best = max(rivals, key=lambda one: one.accuracy, default=None)
    return [same[0]] if best is None else [same[0], (best, far)]
