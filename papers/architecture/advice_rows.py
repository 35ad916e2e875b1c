"""From the runs of :mod:`papers.architecture.advice_runs` to the advice on tables, by the rules that stand there."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import mechanisms, stats
from dplib.stats import Measured
from papers.architecture import advice_promise

LEAST_GAIN = 0.035  # what ordinary training must gain over a constant before a share of it means anything
MARGIN = 0.02  # of a share, by which a more complicated method must lead
SIMPLE = "gradient"
REACH = 10.0  # how much weaker a table may be than the problem that it speaks for
FEWEST = 5  # tables that a promise needs
LEAST_PROMISE = 0.1
AGREED = 0.5  # of the median, below which the promised share is no promise
OF = 4  # all but one of so many tables should keep a promise
DELTA = 1e-5
EPSILONS = (0.1, 0.5, 1.0, 3.0)

Numbers = tuple[float, ...]


def settings_of(groups: Sequence[Sequence[Any]]) -> list[list[float]]:
    """Every setting of a grid: one value of each group, values of several numbers laid out flat."""
    return [
        [float(number) for value in values for number in (value if isinstance(value, list | tuple) else [value])]
        for values in itertools.product(*groups)
    ]


def gains(plain: Mapping[str, Sequence[Mapping[str, Any]]], key: str = "accuracy") -> dict[str, float]:
    """Of each table, what ordinary training gains over a constant, by means over seeds; those with enough alone.

    ``key``: "accuracy", of the better of logistic regression and trees; or "logistic".
    """
    every = {name: float(np.mean([r[key] - r["constant"] for r in results])) for name, results in plain.items()}
    return {name: gain for name, gain in every.items() if gain >= LEAST_GAIN}


def choices(
    plain: Mapping[str, Sequence[Mapping[str, Any]]],
    tried: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    grids: Mapping[str, Sequence[Sequence[float]]],
) -> dict[str, dict[str, Numbers]]:
    """Rule 3: for each method, and each table that is left out ("": none), the setting that is chosen."""
    gain, best = gains(plain), {}
    for method, grid in grids.items():
        scores = {}
        for name in gain:
            if trials := tried.get((method, name)):
                means = np.mean([np.array(r["accuracy"]) - r["constant"] for r in trials], axis=0)
                scores[name] = np.maximum(means / gain[name], 0).mean(axis=0)  # over budgets
        left = {out: [score for name, score in scores.items() if name != out] for out in ("", *plain)}
        best[method] = {out: tuple(grid[int(np.mean(scores, axis=0).argmax())]) for out, scores in left.items()}
    return best


@dataclass(frozen=True)
class Point:
    """A method on one table at one budget, with the setting that the other tables chose.

    Attributes:
        share: of what ordinary training, or logistic regression, gains, over seeds. strength: rule 5. accuracy,
            constant, ordinary (of the same of the two): in percent.
    """

    table: str
    epsilon: float
    strength: float
    share: Measured
    accuracy: Measured
    constant: float
    ordinary: float
    n: int
    columns: int
    classes: int


@dataclass(frozen=True)
class Promise:
    """Rule 6: the share that is promised, None where there is none; of how many tables; and why there is none."""

    share: float | None
    count: int
    reason: str = ""


@dataclass(frozen=True)
class Advice:
    """The runs behind the advice.

    Attributes:
        plain: {table: runs of ordinary training by seed}. reported: {(method, table): private runs by seed}.
        settings: {(method, table): the settings of a run}. chosen: {method: {left out: setting}}.
    """

    plain: Mapping[str, Sequence[Mapping[str, Any]]]
    reported: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    settings: Mapping[tuple[str, str], Sequence[Sequence[float]]]
    chosen: Mapping[str, Mapping[str, Numbers]]

    @functools.cached_property
    def points(self) -> dict[str, list[Point]]:
        """{method: every table with a share of ordinary training's gain, at every budget}."""
        return {method: self._points(method, "accuracy") for method in self.chosen}

    @functools.cached_property
    def lines(self) -> dict[str, list[Point]]:
        """The same of what logistic regression gains, which promises are about."""
        return {method: self._points(method, "logistic") for method in self.chosen}

    def _points(self, method: str, key: str) -> list[Point]:
        points = []
        for name, gain in gains(self.plain, key).items():
            if (method, name) in self.reported:
                at = self.settings[method, name].index(list(self.chosen[method][name]))
                points += points_of(name, gain, self.reported[method, name], self.plain[name], key, at)
        return points

    def compared(self) -> dict[str, dict[float | None, Measured]]:
        """For each method its mean share by budget (None: of all), over the tables that it can do, with intervals."""
        return {method: _by_budget(self.points[method]) for method in self.chosen}

    def leads(self, other: str) -> Measured:
        """The mean paired lead of a method's share over that of "gradient", a table's budgets taken together."""
        mine, simple = (_by_table(self.points[name]) for name in (other, SIMPLE))
        both = sorted(set(mine) & set(simple))
        return stats.mean_interval(np.array([mine[name] - simple[name] for name in both]))

    def advised(self) -> str:
        """Rule 4, for delta above 0."""
        best = SIMPLE
        for other in self.chosen:
            lead = None if other in (SIMPLE, "pure") else self.leads(other)
            if lead and lead.low > MARGIN and lead.value > (self.leads(best).value if best != SIMPLE else 0):
                best = other
        return best

    def promise(self, method: str, problem_strength: float, left_out: str = "", of: int = OF) -> Promise:
        """Rule 6, for a problem of this strength; ``left_out``: a table that is not looked at."""
        return promise([point for point in self.lines[method] if point.table != left_out], problem_strength, of)


def points_of(
    name: str,
    gain: float,
    results: Sequence[Mapping[str, Any]],
    plain: Sequence[Mapping[str, Any]],
    key: str = "accuracy",
    at: int = 0,
) -> list[Point]:
    """A table at every budget: private runs by seed, whose setting stands at ``at``, and those of ordinary training."""
    points = []
    for i, epsilon in enumerate(EPSILONS):
        reached = np.array([r["accuracy"][i][at] for r in results])
        constant = np.array([r["constant"] for r in results])
        n, columns, classes = (results[0][key] for key in ("n", "columns", "classes"))
        points.append(
            Point(
                name, epsilon, strength(n, columns, classes, epsilon, DELTA),
                stats.mean_interval((reached - constant) / gain), stats.mean_interval(100 * reached),
                100 * float(constant.mean()), 100 * float(np.mean([r[key] for r in plain])),
                n, columns, classes,
            )
        )  # fmt: skip
    return points


def outside(advice: Advice, plan: Any, of: int = OF) -> list[tuple[Point, Promise]]:
    """Rule 8: the tables of a package at every budget, and what ours promise them; those with a share."""
    private, plain = plan.read("shipped"), plan.read("shipped ordinary")
    return [
        (point, advice.promise(SIMPLE, point.strength, of=of))
        for name, gain in gains(plain, "logistic").items()
        for point in points_of(name, gain, private[name], plain[name], "logistic")
    ]


def strength(n: float, columns: int, classes: int, epsilon: float, delta: float) -> float:
    """Rule 5; for pure epsilon (delta = 0) that of delta = 1e-5, which only orders the problems."""
    return advice_promise.strength(n, columns, classes, float(mechanisms.analytic_sigma(epsilon, delta or DELTA)))


def numbers(of: int = OF) -> dict[str, float]:
    """What rule 6 goes by, for :func:`papers.architecture.advice_promise.promised`."""
    return {"reach": REACH, "fewest": FEWEST, "least": LEAST_PROMISE, "agreed": AGREED, "of": of}


def promise(points: Sequence[Point], problem_strength: float, of: int = OF) -> Promise:
    """Rule 6 on some points: the share that all but one of ``of`` tables should keep."""
    kept = [{"table": point.table, "strength": point.strength, "share": point.share.value} for point in points]
    return Promise(**advice_promise.promised(kept, problem_strength, numbers(of)))


def left_out(advice: Advice, method: str, of: int = OF) -> list[tuple[Point, Promise]]:
    """Every table at every budget, and what the others promise it."""
    return [(point, advice.promise(method, point.strength, point.table, of)) for point in advice.lines[method]]


def checked(plan: Any, shown: int = 3) -> list[tuple[str, float, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Rule 8: each table that nothing was chosen on, its budget, and its runs by seed, private ones and ordinary ones.

    ``plan``: of study 13. ``shown``: so many of those that a package ships.
    """
    rows = []
    for part in ("made", "tumours", "shipped"):
        private, plain = plan.read(part), plan.read(f"{part} ordinary")
        at = list(plan.parts[part].inputs.get("epsilons", EPSILONS))
        epsilon = 1.0 if 1.0 in at else at[0]
        for name, results in list(private.items())[: shown if part == "shipped" else None]:
            rows.append(
                (name, epsilon, [r | {"test": r["accuracy"][at.index(epsilon)][0]} for r in results], plain[name])
            )
    return rows


def _by_budget(points: Sequence[Point]) -> dict[float | None, Measured]:
    budgets = {epsilon: [point.share.value for point in points if point.epsilon == epsilon] for epsilon in EPSILONS}
    every = _by_table(points)
    return {
        **{e: stats.mean_interval(np.array(shares)) for e, shares in budgets.items()},
        None: stats.mean_interval(np.array([*every.values()])),
    }


def _by_table(points: Sequence[Point]) -> dict[str, float]:
    tables = dict.fromkeys(point.table for point in points)
    return {name: float(np.mean([point.share.value for point in points if point.table == name])) for name in tables}
