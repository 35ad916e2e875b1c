"""Verdicts of paper A's feature selection that rest on more than one interval, as rules on what was measured."""

import numpy as np
import pandas as pd

from dplib import stats


def needed_features(clean: pd.DataFrame, level: float = 0.01) -> int | None:
    """The least size at which the mean error without selection is at most ``level``; None where none is."""
    mean = clean[clean.criterion == "no selection"].groupby("size").error.mean()
    reached = mean.index[mean <= level]
    return int(reached.min()) if len(reached) else None


def needs_more(runs: pd.DataFrame, few: int = 20, many: int = 1000, level: float = 0.01) -> bool:
    """Whether DFS has ``level`` or less with ``few`` features and no selection is surely above it with ``many``.

    Args:
        runs: curves of one reading at one budget, or without noise. The smaller size that is there stands for one that
            is not.
    """
    return with_few(runs, few).mean() <= level and stats.mean_interval(_at(runs, many, "no selection")).low > level


def with_few(runs: pd.DataFrame, few: int = 20) -> np.ndarray:
    """Errors (seeds,) of DFS with ``few`` features."""
    return _at(runs, few, "DFS")


def _at(runs: pd.DataFrame, size: int, criterion: str) -> np.ndarray:
    size = runs["size"][runs["size"] <= size].max()
    return runs[(runs["size"] == size) & (runs.criterion == criterion)].error.to_numpy()


def roughness(rougher: int, smoother: int, readings: int) -> str:
    """Whether curves without selection are rougher than those of DFS: in all readings, in most, or the other way."""
    if readings and rougher == readings:
        return "holds"
    if 2 * rougher > readings:
        return "holds with change"
    return "fails" if 2 * smoother > readings else "undecided"


def lead(over_pairs: dict, one_pair: dict, printed: float) -> str:
    """Whether DFS is ahead of the t-statistic by more than ``printed``.

    Args:
        over_pairs, one_pair: intervals of the lead by rival ("t-statistic", "signed t"), over random pairs of classes
            and for one pair in one order. One pair, or T with its sign, is a change.
    """
    if over_pairs["t-statistic"].low > printed:
        return "holds"
    found = [*over_pairs.values(), *one_pair.values()]
    if any(gap.low > printed for gap in found):
        return "holds with change"
    return "undecided" if any(gap.high > printed for gap in found) else "not reproducible as stated"


def stable(same: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Whether the distance keeps choosing the same features under noise where the t-statistic does not.

    Args:
        same: one line a draw: design, noise, epsilon, criterion, seed, same (features chosen without noise and with).

    Returns:
        The verdict, and one line a design, noise and epsilon: both means, the paired difference (distance less
        t-statistic), its p and its sign where it is significant at 5% with Holm's correction over all lines, else 0.
    """
    lines = []
    keys = ["design", "noise", "epsilon"]
    for key, runs in same.groupby(keys, sort=False):
        by_seed = runs.pivot_table(index="seed", columns="criterion", values="same")
        test = stats.paired(by_seed["DFS"].to_numpy(), by_seed["t-statistic"].to_numpy())
        lines.append((*key, *by_seed[["DFS", "t-statistic"]].mean(), test.difference.value, test.p_value))
    table = pd.DataFrame(lines, columns=[*keys, "DFS", "t-statistic", "difference", "p"])
    table["sign"] = np.where(stats.holm(table.p) < 0.05, np.sign(table.difference), 0).astype(int)
    printed = table[table.noise == "definition 3"].sign
    fixed = table[table.noise == "sensitivity one"].sign
    better, worse = int((fixed > 0).sum()), int((fixed < 0).sum())
    if len(printed) and (printed > 0).all():
        return "holds", table
    if not worse and 2 * better > len(fixed):
        return "holds with change", table
    return "fails" if worse > better else "undecided", table


def above_chance(accuracy: dict, chance: float) -> list:
    """Settings in which the accuracies (runs,) are above ``chance``: one-sided t-tests at 5%, Holm over all."""
    tests = {name: stats.paired(runs, np.full(len(runs), chance)) for name, runs in accuracy.items()}
    p = [t.p_value / 2 if t.difference.value > 0 else 1 - t.p_value / 2 for t in tests.values()]
    return [name for name, adjusted in zip(tests, stats.holm(p), strict=True) if adjusted < 0.05]


def printed_range(measured: stats.Measured, low: float, high: float) -> str:
    """A mean against the printed lowest and highest run: inside them, outside, or an interval that covers both."""
    if low <= measured.low and measured.high <= high:
        return "holds"
    return "not reproducible as stated" if measured.high < low or measured.low > high else "undecided"
