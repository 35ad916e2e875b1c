"""How far DFS is ahead of a rival on one pair of classes of a data set, in one order (paper A, appendix A.7).

The paper has one problem of two classes for a set of images, and does not print which. The order matters for T with its
sign: sorted "in descending order" it takes first what the first class has more of.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from dplib import stats
from dplib.larger_models.dfs_experiments import READINGS, all_curves
from dplib.larger_models.dfs_problems import Problem, from_data

RIVALS = ("t-statistic", "signed t")
ONE = tuple(reading for reading in READINGS if reading.noise == "sensitivity one")
CELL = ["first", "second", "select_on", "test", "epsilon", "size"]


@dataclass(frozen=True)
class Setting:
    """What all draws share: a data set, records a class, test records, features kept, budgets and delta."""

    dataset: object
    n: int
    n_test: int
    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    delta: float


@dataclass(frozen=True)
class Lead:
    """A rival's error less that of DFS in the one cell picked, on fresh draws. where: a mapping with CELL's names."""

    where: dict
    gap: stats.Measured

    def __str__(self) -> str:
        w = self.where
        return (
            f"{self.gap} (classes {w['first']} and {w['second']} in this order, epsilon {w['epsilon']:g}, {w['size']} "
            f"features, selection {w['select_on']}, test {w['test']}; {self.gap.n} fresh draws)"
        )


def leads(setting: Setting, pair: tuple[int, int], rng: np.random.Generator) -> pd.DataFrame:
    """One draw of a pair of classes, in both orders: columns CELL and, for each rival, its error less that of DFS."""
    problem, _ = from_data(setting.dataset, pair, setting.n, setting.n_test, rng)
    frames = []
    for (first, second), drawn in ((pair, problem), (pair[::-1], _swapped(problem))):
        curves = all_curves(drawn, ONE, ("DFS", *RIVALS), setting.sizes, setting.epsilons, setting.delta)
        frames.append(curves[np.isfinite(curves.epsilon)].assign(first=first, second=second))
    errors = pd.concat(frames).pivot_table(index=CELL, columns="criterion", values="error")
    return errors[list(RIVALS)].sub(errors["DFS"], axis=0).reset_index()


def _swapped(problem: Problem) -> Problem:
    parts = {name: getattr(problem, name)[::-1] for name in ("train", "noise", "test", "test_variance")}
    return replace(problem, **parts)


def largest_leads(setting: Setting, draws: int, fresh: int, seed: int) -> dict[str, Lead]:
    """Every ordered pair of classes ``draws`` times; the cell with the largest mean lead ``fresh`` times more.

    A cell picked for its lead would be flattered by the draws that picked it. The intervals hold for all rivals at once
    (Bonferroni).
    """
    pairs = list(combinations(range(len(setting.dataset.classes)), 2))
    found = [
        leads(setting, pair, np.random.default_rng([seed, 13, i, draw]))
        for i, pair in enumerate(pairs)
        for draw in range(draws)
    ]
    mean = pd.concat(found).groupby(CELL)[list(RIVALS)].mean()
    result = {}
    for number, rival in enumerate(RIVALS):
        where = dict(zip(CELL, mean[rival].idxmax(), strict=True))
        only = replace(setting, sizes=(int(where["size"]),), epsilons=(float(where["epsilon"]),))
        runs = []
        for draw in range(fresh):
            again = leads(only, (where["first"], where["second"]), np.random.default_rng([seed, 14, number, draw]))
            runs.append(again.set_index(CELL)[rival].loc[tuple(where.values())])
        result[rival] = Lead(where, stats.mean_interval(np.array(runs, dtype=float), level=1 - 0.05 / len(RIVALS)))
    return result
