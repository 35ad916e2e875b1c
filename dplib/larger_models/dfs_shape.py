"""What Section 4.1 of paper A says of Figures 3 and 4, as rules on error curves; and how rough a curve is.

Frames are those of ``dfs_experiments.all_curves``, with columns that say which reading (``READING``) and which seed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dplib import stats

READING = ["variance", "means", "noise", "select_on", "test"]
SHAPE = (
    "no noise: DFS reaches 0 with 20",
    "no noise: without selection, over 1000",
    "noise: DFS best with 20",
    "noise: DFS best from 20 to 1000",
    "noise: without selection never best",
    "DFS below t",
    "DFS does not climb below 30",
    "DFS climbs to 100",
    "t climbs below 30 and to 100",
)
# What the ledger has as Figure 3; more than 1000 and up to 500 features are claims of their own.
FIGURE_3 = (SHAPE[0], SHAPE[2], SHAPE[4])
FIGURE_4A = SHAPE[5:]


def published_shape(
    clean: pd.DataFrame, noisy: pd.DataFrame, below: bool, rival: str = "t-statistic", slack: float = 0.02
) -> np.ndarray:
    """Which items of SHAPE mean curves have: frames with sizes as index and criteria as columns.

    ``below`` says whether DFS is significantly below its rival over the seeds, which mean curves cannot tell. "Best" is
    within ``slack`` of the least error on either curve, and a curve climbs when it rises by more than ``slack``. A size
    that is not there is read at the next smaller one. Errors above 0.4 are guessing, and best at nothing.
    """

    def at(curves, m, criterion="DFS"):
        return curves.loc[:m, criterion].iloc[-1]

    def climb(curve):
        return (curve - curve.cummin()).max()

    dfs, none = noisy["DFS"], noisy["no selection"]
    best = min(dfs.min(), none.min())
    learns = best < 0.4
    t = noisy[rival]
    return np.array(
        [
            at(clean, 20) <= 0.01,
            at(clean, 1000, "no selection") > 0.01,
            learns and at(noisy, 20) <= best + slack,
            learns and dfs.loc[20:1000].max() <= best + slack,
            learns and none.min() > dfs.min() + slack,
            learns and below,
            learns and climb(dfs.loc[:30]) <= slack,
            learns and at(noisy, 100) > dfs.loc[:100].min() + slack,
            learns and climb(t.loc[:30]) > slack and at(noisy, 100, rival) > at(noisy, 5, rival) + slack,
        ]
    )


def duels(grid: pd.DataFrame, rivals, largest: int = 100) -> pd.DataFrame:
    """DFS against its rivals in every reading and at every budget: one paired test of mean errors up to a size.

    Returns:
        One line each: the reading, epsilon, rival, difference (DFS less rival) with low, high and p, the lower of the
        two errors, and that of the noise-aware t less it.
    """
    keys = [*READING, "epsilon"]
    part = grid[(grid["size"] <= largest) & np.isfinite(grid.epsilon)]
    errors = part.groupby([*keys, "seed", "criterion"]).error.mean().unstack("criterion")
    lines = []
    for key, runs in errors.groupby(level=keys):
        aware = runs["noise-aware t"].mean() if "noise-aware t" in runs else np.nan
        for rival in rivals:
            test = stats.paired(runs["DFS"].to_numpy(), runs[rival].to_numpy())
            best = runs[["DFS", rival]].mean().min()
            found = (rival, test.difference.value, test.difference.low, test.difference.high, test.p_value, best)
            lines.append((*key, *found, aware - best))
    return pd.DataFrame(lines, columns=[*keys, "rival", "difference", "low", "high", "p", "error", "aware"])


def score(grid: pd.DataFrame, tests: pd.DataFrame, *, each_budget: bool = False) -> pd.DataFrame:
    """One line a reading: which items of SHAPE it has at every budget, and how many; most items first.

    Among equals those come first that grant the paper's main point, DFS below its rival.

    Args:
        tests: of :func:`duels`, for one rival.
        each_budget: one line a reading and budget instead, for a figure whose budget is not printed.
    """
    keys = [*READING, "epsilon"]
    average = grid.groupby([*keys, "size", "criterion"]).error.mean().unstack("criterion")
    lines = []
    for *key, rival, high in tests[[*keys, "rival", "high"]].itertuples(index=False):
        clean = average.loc[(*key[:2], "none", "clean", "clean", np.inf)]
        lines.append([*key, *published_shape(clean, average.loc[tuple(key)], high < 0, rival)])
    table = pd.DataFrame(lines, columns=[*keys, *SHAPE])
    table = table.groupby(keys if each_budget else READING, as_index=False)[list(SHAPE)].all()
    table["items"] = table[list(SHAPE)].sum(axis=1)
    return table.sort_values(["items", "DFS below t"], ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True)
class Settled:
    """Whether some reading has a shape.

    Args:
        count: of ``readings`` that have it on the grid (of readings at one budget, where the table has these).
        tried: how many of them, the first, were drawn again.
        draws: fresh ones for each. held: (reading, fresh curves) of those that have it there too.
    """

    count: int
    readings: int
    tried: int
    draws: int
    held: tuple[tuple[pd.Series, pd.DataFrame], ...]

    def __str__(self) -> str:
        if not self.count:
            return f"found in none of {self.readings} cases."
        again_in = "; ".join(named(reading) for reading, _ in self.held) or "none"
        return (
            f"found in {self.count} of {self.readings} cases; of the first {self.tried}, on {self.draws} fresh "
            f"draws each, again in {len(self.held)}: {again_in}."
        )


def settle(table: pd.DataFrame, items, rival: str, again: Callable, tries: int = 3) -> Settled:
    """Readings of ``table`` (:func:`score`) that have all ``items``, the first few of them checked on fresh draws.

    A reading picked for its result would be flattered by the draws that picked it.

    Args:
        again: a reading (a line of the table) to a frame of curves on other draws.
    """
    having = table[table[list(items)].all(axis=1)]

    def has(fresh):
        return score(fresh, duels(fresh, [rival]))[list(items)].all(axis=None)

    return confirm([reading for _, reading in having.iterrows()], len(table), has, again, tries)


def confirm(candidates: list, readings: int, has: Callable, again: Callable, tries: int = 3) -> Settled:
    """The first few ``candidates``, of ``readings``, once more: ``has`` says of fresh curves whether it is there."""
    held, draws = [], 0
    for reading in candidates[:tries]:
        fresh = again(reading)
        draws = fresh["seed"].nunique()
        if has(fresh):
            held.append((reading, fresh))
    return Settled(len(candidates), readings, min(tries, len(candidates)), draws, tuple(held))


def verdict(*settled: Settled) -> str:
    """The verdict on a shape that may be looked for in every reading, and against every rival."""
    if any(one.held for one in settled):
        return "holds with change"
    return "undecided" if any(one.count for one in settled) else "not reproducible as stated"


def named(reading) -> str:
    """A reading in words, with its budget where it has one."""
    law = f"variances of mean {reading['variance']:g}, means with {reading['means']}"
    if reading["noise"] == "none":
        return f"{law}, no noise"
    budget = f", epsilon {reading['epsilon']:g}" if "epsilon" in reading else ""
    return f"{law}, noise '{reading['noise']}', selection {reading['select_on']}, test {reading['test']}{budget}"


def over_budgets(frame: pd.DataFrame, rival: str) -> pd.DataFrame:
    """Figure 4, right, in every reading: one line each, from errors at one size and several budgets.

    Returns:
        falls: the mean error of DFS falls with epsilon (nowhere up by more than 0.005, down by 0.02 or more in all).
        budgets: those at which there is something to compare, an error of 0.005 or more. lower, below, above: how many
        of these have DFS's mean below its rival's, significantly so (95% interval, paired), significantly above.
        as_published: falls, lower at all of at least three budgets, significantly so at more than half of them.
    """
    part = frame[np.isfinite(frame.epsilon)]
    errors = part.pivot_table(index=[*READING, "epsilon", "seed"], columns="criterion", values="error")
    lines = []
    for key, runs in errors.groupby(level=READING):
        by_budget = [run for _, run in runs.groupby(level="epsilon")]
        steps = np.diff([run["DFS"].mean() for run in by_budget])
        told = [run for run in by_budget if run[["DFS", rival]].mean().max() >= 0.005]
        gaps = [stats.mean_interval((run["DFS"] - run[rival]).to_numpy()) for run in told]
        falls = bool(steps.max() <= 0.005 and steps.sum() <= -0.02)
        lower, below, above = (sum(test(g) for g in gaps) for test in (_lower, _below, _above))
        as_published = falls and lower == len(gaps) >= 3 and below > len(gaps) / 2
        lines.append((*key, falls, len(gaps), lower, below, above, as_published))
    columns = [*READING, "falls", "budgets", "lower", "below", "above", "as_published"]
    table = pd.DataFrame(lines, columns=columns)
    return table.sort_values(["as_published", "below"], ascending=False, kind="stable", ignore_index=True)


def _lower(gap: stats.Measured) -> bool:
    return gap.value < 0


def _below(gap: stats.Measured) -> bool:
    return gap.high < 0


def _above(gap: stats.Measured) -> bool:
    return gap.low > 0


def roughness(curve: np.ndarray) -> tuple[float, float]:
    """How rough a curve (s,) over all sizes 1, 2, ..., s is: the share of sizes at which it turns round, and its mean
    absolute second difference. The first is free of scale; the second counts how large the turns are, and bends too."""
    steps = np.diff(curve)
    return float(np.mean(steps[1:] * steps[:-1] < 0)), float(np.abs(np.diff(steps)).mean())


def rougher(dense: pd.DataFrame) -> pd.DataFrame:
    """Single runs without selection against those of DFS, in every reading in which DFS gets below 0.4 on average.

    Args:
        dense: curves over all sizes 1, 2, ..., s at one epsilon.

    Returns:
        Two lines a reading, measure "turns" and "bends" (:func:`roughness`): the means, the paired difference, its p,
        and its sign where it is significant at 5% with Holm's correction over all lines, else 0.
    """
    curves = dense.groupby([*READING, "seed", "criterion"], sort=False).error
    rough = curves.agg(lambda error: roughness(error.to_numpy()))
    mean = dense[dense.criterion == "DFS"].groupby([*READING, "size"]).error.mean()
    lowest = mean.groupby(level=READING).min()
    lines = []
    for key in lowest.index[lowest < 0.4]:
        without, dfs = (np.array([*rough[key].xs(c, level="criterion")]) for c in ("no selection", "DFS"))
        for measure, a, b in zip(("turns", "bends"), without.T, dfs.T, strict=True):
            test = stats.paired(a, b)
            lines.append((*key, measure, a.mean(), b.mean(), test.difference.value, test.p_value))
    table = pd.DataFrame(lines, columns=[*READING, "measure", "no selection", "DFS", "difference", "p"])
    return table.assign(sign=np.where(stats.holm(table.p) < 0.05, np.sign(table.difference), 0))
