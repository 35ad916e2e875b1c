"""Results by cell and seed; and learning rates, chosen on validation data among a grid that grows at its ends.

Works on ``get``, as the parts of plans do (:mod:`dplib.plans`): each extension of a grid is another wave of runs.
"""

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import checks
from dplib.checks import ParameterError

FIRST = 1000  # seeds from here on are for tuning
Get = Callable[[Callable[..., dict[str, Any]], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Tuned:
    """What was chosen for one cell: ``value``, the one with the best mean score, and of equal ones the smallest;
    value to mean score, -inf where a run diverged; and whether the value is still the smallest or largest tried.
    """

    value: float
    tried: dict[float, float]
    at_edge: bool


def by_seed(
    get: Get,
    function: Callable[..., dict[str, Any]],
    cells: Mapping[Any, Mapping[str, Any]],
    seeds: int,
    first: int = 0,
) -> dict[Any, list[dict[str, Any]]]:
    """{cell: results by seed}: a function called with each cell's job and the seeds first, ..., first + seeds - 1."""
    found = iter(get(function, [{**job, "seed": first + i} for job in cells.values() for i in range(seeds)]))
    return {cell: [next(found) for _ in range(seeds)] for cell in cells}


def tune(
    get: Get,
    function: Callable[..., dict[str, Any]],
    cells: Mapping[Hashable, Mapping[str, Any]],
    values: Sequence[float],
    *,
    seeds: int = 3,
    name: str = "learning_rate",
    score: str = "validation",
    smaller: bool = False,
    extensions: int = 2,
) -> dict[Hashable, Tuned]:
    """For each cell the value of ``name`` with the best mean ``score`` over the tuning seeds 1000, 1001, ...

    Where the best value lies at an end of the grid, the grid grows there by its own ratio, up to ``extensions`` times.
    What the choice costs in privacy is not accounted here.

    Args:
        get: of a part of a plan. function: an experiment, called with a cell, ``name`` and ``seed``.
        cells: jobs without ``name`` and ``seed``. The caller asks for validation data that no report uses.
        values: of the grid, at least two, increasing.
        score: the entry of the results to maximise, or with ``smaller`` to minimise; None counts as the worst.
    """
    checks.list_of(checks.positive(), least=2).check("values", list(values))
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise ParameterError(f"values = {list(values)} is not allowed: they must increase.")
    grids = {key: list(values) for key in cells}
    for extension in range(extensions + 1):
        jobs = {
            (key, value, i): {**cell, name: value, "seed": FIRST + i}
            for key, cell in cells.items()
            for value in grids[key]
            for i in range(seeds)
        }
        found = {at: result[score] for at, result in zip(jobs, get(function, list(jobs.values())), strict=True)}
        tuned = {
            key: _best({v: [found[key, v, i] for i in range(seeds)] for v in grid}, smaller)
            for key, grid in grids.items()
        }
        if extension == extensions or not any(one.at_edge for one in tuned.values()):
            break
        grids = {key: _longer(grid, tuned[key]) for key, grid in grids.items()}
    return tuned


def _best(scores: Mapping[float, Sequence[float | None]], smaller: bool) -> Tuned:
    sign = -1 if smaller else 1
    means = {
        value: sign * float(np.mean(own)) if all(one is not None and np.isfinite(one) for one in own) else -np.inf
        for value, own in scores.items()
    }
    best = max(means, key=means.__getitem__)
    tried = {value: sign * mean if np.isfinite(mean) else -np.inf for value, mean in means.items()}
    return Tuned(best, tried, best in (min(means), max(means)))


def _longer(grid: list[float], tuned: Tuned) -> list[float]:
    """One more value beyond the end at which the best one lies; rounded, so that equal grids give equal jobs."""
    if not tuned.at_edge:
        return grid
    if tuned.value == grid[-1]:
        return [*grid, float(f"{grid[-1] ** 2 / grid[-2]:.4g}")]
    return [float(f"{grid[0] ** 2 / grid[1]:.4g}"), *grid]
