"""Rule 9 of :mod:`papers.architecture.advice_runs`: the promise for tables, tried on tables that nobody had used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import stats
from dplib.stats import Measured
from papers.architecture import advice_rows
from papers.architecture.advice_rows import EPSILONS, OF, SIMPLE, Advice, Point, Promise

CLAIMED = 0.75  # of the promises, by the form's own words
LEVEL = 0.9  # of the interval, each of whose ends is a one-sided bound of 95%
STRICTER = (4, 5, 6, 8, 10, 15)  # all but one of so many tables, in the order in which they are tried

PointAndPromise = tuple[Point, Promise]


@dataclass(frozen=True)
class PromisesKept:
    """What came of the promises to some tables.

    Attributes:
        kept: K, the mean over tables of the share of their promises that were kept. above: mean of the kept share less
            the promised one, a table's budgets taken together. budgets: of each budget the promises kept, with an exact
            interval; None where none was made. promises, asked: how many of how many tables and budgets got a number.
    """

    kept: Measured
    above: Measured
    budgets: Mapping[float, Measured | None]
    promises: int
    asked: int

    @property
    def verdict(self) -> str:
        """Of "three in four keep it": "shown", "refuted" or "neither"."""
        if self.kept.high < CLAIMED:
            return "refuted"
        return "shown" if self.kept.low >= CLAIMED else "neither"

    @property
    def lowered(self) -> bool:
        """Whether rule 9 lowers the promise."""
        return self.kept.value < CLAIMED


def outcome(pairs: Sequence[PointAndPromise]) -> PromisesKept:
    """What came of the promises to tables, each at several budgets.

    Raises:
        ParameterError: where fewer than two tables got a promise.
    """
    promised = [(point, said.share) for point, said in pairs if said.share is not None]
    tables = dict.fromkeys(point.table for point, _ in promised)
    kept = [
        np.mean([point.share.value >= share for point, share in promised if point.table == name]) for name in tables
    ]
    above = [
        np.mean([point.share.value - share for point, share in promised if point.table == name]) for name in tables
    ]
    budgets = {}
    for epsilon in EPSILONS:
        held = [point.share.value >= share for point, share in promised if point.epsilon == epsilon]
        budgets[epsilon] = stats.proportion_interval(sum(held), len(held)) if held else None
    levels = (stats.mean_interval(np.array(values), LEVEL) for values in (kept, above))
    return PromisesKept(*levels, budgets, len(promised), len(pairs))


def unseen(advice: Advice, plan: Any, of: int = OF) -> list[PointAndPromise]:
    """The tables of rule 9 at every budget, with what our tables promise them."""
    return [(point, advice.promise(SIMPLE, point.strength, of=of)) for point in points(plan)]


def points(plan: Any) -> list[Point]:
    """The tables of rule 9 at every budget: those with a share of what logistic regression gains."""
    private, plain = plan.read("unseen"), plan.read("unseen ordinary")
    return [
        point
        for name, gain in advice_rows.gains(plain, "logistic").items()
        for point in advice_rows.points_of(name, gain, private[name], plain[name], "logistic")
    ]


def stricter(points: Sequence[Point]) -> int | None:
    """The first of STRICTER that keeps what is claimed, each table left out in its turn; None where none does."""
    for of in STRICTER:
        pairs = [
            (point, advice_rows.promise([other for other in points if other.table != point.table], point.strength, of))
            for point in points
        ]
        if len({point.table for point, said in pairs if said.share is not None}) > 1 and not outcome(pairs).lowered:
            return of
    return None
