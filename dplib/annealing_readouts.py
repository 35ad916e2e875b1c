"""Chapter 11's readouts: savings, leads along the budget, other readings.

Part of :mod:`dplib.annealing_tables`, for what compares many runs at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from dplib import annealing, annealing_verdicts
from dplib.annealing_experiments import Lab, Result
from dplib.annealing_tables import (
    above,
    accuracies,
    at_budget,
    below,
    certain,
    common_budget,
    compare,
    gains,
    measured,
)
from dplib.checks import ParameterError
from dplib.engine import DPSGD
from dplib.stats import Comparison, Measured

# Other readings of Algorithm 2, as changes to the printed one.
READINGS: dict[str, dict[str, Any]] = {
    "held": {"arm": "ours_held"},
    "train": {"energy": "train"},
    "batch": {"energy": "batch"},
    "public": {"energy": "public", "energy_size": 1797},
    "exceeds": {"exceeds": True},
    "greedy": {"initial_temperature": 1e6},
    "starts at zero": {"starts_at_zero": True},
    "keeps velocity": {"keeps_velocity": True},
    "no limit": {"rejection_limit": None},
}
NO_MOMENTUM: dict[str, dict[str, Any]] = {
    "dpsgd, no momentum": {"arm": "dpsgd_tanh", "momentum": 0.0},
    "ours, no momentum": {"arm": "ours", "momentum": 0.0},
}
READING_TITLES = {
    "held": "J on held-out records", "train": "J on training records", "batch": "J on the batch of the step",
    "public": "J on public digits", "exceeds": "rejections have to exceed μ₀", "greedy": "every rise is rejected",
    "starts at zero": "Q starts at 0",
    "keeps velocity": "a rejected candidate stays in the velocity", "no limit": "no limit on rejections",
}  # fmt: skip
Savings = dict[tuple[str, float], dict[str, Comparison]]
Arms = Mapping[str, Sequence[Result]]


def savings(
    way: Mapping[tuple[str, float], Mapping[str, Mapping[str, list]]], count: str, whole: Mapping[str, float | None]
) -> Savings:
    """Epsilon of each other scheme less that of the annealed one, by (data set, target), paired by seed.

    Args:
        way: (data set, target) to {count: {arm: budgets by seed, None where not reached}}.
        whole: by data set, the budget that its runs spend, for targets that some run does not reach (:func:`_saved`);
            None where runs may end before, so that such a target says nothing.
    """
    found = {}
    for place, cells in way.items():
        pairs = {
            arm: _saved(cells[count]["ours"], other, whole[place[0]])
            for arm, other in cells[count].items()
            if arm != "ours"
        }
        found[place] = {arm: compare(*pair) for arm, pair in pairs.items() if pair is not None}
    return found


def _saved(ours: Sequence, other: Sequence, whole: float | None) -> tuple[list[float], list[float]] | None:
    """(other, ours) by seed; runs of one side that do not reach the target count as if they did at the whole budget.

    That bounds the saving on the side of the scheme that falls short, and stands only where the bound tells: the
    scheme that falls short is behind even so. None without runs, where both sides fall short, or where it is not.
    """
    n = min(len(ours), len(other))
    late = [None in some[:n] for some in (other, ours)]
    if not n or all(late) or (whole is None and any(late)):
        return None
    pair = [[whole if one is None else one for one in some[:n]] for some in (other, ours)]
    saving = float(np.mean(pair[0]) - np.mean(pair[1]))
    return None if (late[0] and saving <= 0) or (late[1] and saving >= 0) else (pair[0], pair[1])


def bounded(cells: Mapping[str, Mapping[str, list]], arm: str, count: str = "accepted") -> str:
    """What to add to the name of a saving over an arm that is only a bound (:func:`_saved`)."""
    n = min(len(cells[count][name]) for name in (arm, "ours"))
    late = [None in cells[count][name][:n] for name in (arm, "ours")]
    return ", at least" if late[0] else ", at most" if late[1] else ""


def saving_trend(
    way: Mapping[tuple[str, float], Mapping[str, list]], whole: Mapping[str, float], arm: str = "dpsgd_auto_s"
) -> dict[str, Measured]:
    """By data set: the saving over an arm at the highest target less that at the lowest one, paired by seed.

    Targets that all runs reach, and above these one that some runs of that arm do not, if the bound on its saving lies
    above the lowest target's: then the trend is at least this.

    Args:
        way: (data set, target) to {arm: budgets by seed}. whole: as for :func:`savings`.
    """
    found = {}
    for name in dict.fromkeys(name for name, _ in way):
        rows = []
        for place in sorted(place for place in way if place[0] == name):
            ours, other = way[place]["ours"], way[place].get(arm, [])
            pair = None if None in ours else _saved(ours, other, whole[name])
            if pair is None or (None in other and not (rows and np.mean(np.subtract(*pair) - rows[0]) > 0)):
                continue
            rows.append(np.subtract(*pair))
        if len(rows) > 1:
            found[name] = measured(rows[-1] - rows[0])
    return found


def trend_verdict(trend: Mapping[str, Measured]) -> str:
    """For "the larger the cost, the larger the saving", with the change that it is a trend and not at every step."""
    if not trend:
        return "undecided"
    if any(below(one) for one in trend.values()):
        return "fails"
    return "holds with change" if all(above(one) for one in trend.values()) else "undecided"


def leads(lab: Lab, arms: Arms, count: str, budgets: Sequence[float]) -> list[tuple[float, Comparison]]:
    """(epsilon, points over DPSGD (tanh)) at the budgets that all runs reach by this count."""
    found = []
    for epsilon in budgets:
        pair = [at_budget(lab, arms[name], count, epsilon) for name in ("ours", "dpsgd_tanh")]
        if all(one is not None for one in pair):
            found.append((epsilon, compare(*(100 * one for one in pair))))
    return found


def slopes(
    labs: Mapping[str, Lab], runs: Mapping[str, Arms], names: Sequence[str], count: str, budgets: Sequence[float]
) -> Measured | None:
    """Points over DPSGD (tanh) gained for each unit of epsilon, over all runs of the data sets; None without any."""
    every = []
    for name in names:
        rows, used = [], []
        for epsilon in budgets:
            pair = [at_budget(labs[name], runs[name][arm], count, epsilon) for arm in ("ours", "dpsgd_tanh")]
            if all(one is not None for one in pair):
                n = min(len(one) for one in pair)
                rows.append(100 * (pair[0][:n] - pair[1][:n]))
                used.append(epsilon)
        if len(used) > 1:
            every.append(annealing_verdicts.slope(used, np.array(rows)))
    return measured(np.concatenate(every)) if every else None


def along(
    labs: Mapping[str, Lab], runs: Mapping[str, Arms], names: Sequence[str], count: str, points: int = 20
) -> dict[str, list[tuple[float, Comparison]]]:
    """{"accuracy", "loss"}: at budgets from a tenth of the whole one on, the annealed method less the best other one.

    The best other one is the nearest at that budget, by its mean. Budgets that not all runs reach are left out.
    """
    found = {"accuracy": [], "loss": []}
    for name in names:
        lab, arms = labs[name], runs[name]
        every = [r for results in arms.values() for r in results]
        top = common_budget(lab, every, count)
        for epsilon in np.linspace(0.1 * lab.epsilon, lab.epsilon, points):
            if epsilon > top:
                break
            for column, some in found.items():
                by_arm = gains(lab, arms, count, float(epsilon), column=column)
                by_arm = certain(by_arm) or by_arm
                if by_arm:
                    worst = max if column == "loss" else min
                    nearest = worst(by_arm.values(), key=lambda c: c.difference.value)
                    some.append((float(epsilon), nearest))
    return found


def plain_curves(panels: Mapping[str, Mapping[str, Mapping[str, pd.DataFrame]]], names: Sequence[str]) -> dict:
    """The curves of Figure 3 as lists, for a frozen figure: "data set: count: arm: column"."""
    return {
        f"{name}: {count}: {arm}: {column}": [round(float(v), 5) for v in table[column]]
        for name in names
        for count, by_arm in panels[name].items()
        for arm, table in by_arm.items()
        for column in ("epsilon", "mean")
    }


@dataclass(frozen=True)
class Choice:
    """J on test records less J on held-out ones, in points, at equal queries and at equal accepted updates."""

    queries: Comparison | None
    accepted: Comparison | None


def held_difference(lab: Lab, ours: Sequence[Result], held: Sequence[Result], epsilon: float) -> Choice:
    """What the choice of J's records is worth, paired by seed; equal accepted updates where the held-out runs end."""
    found = []
    for count, level in (("queries", epsilon), ("accepted", common_budget(lab, held, "accepted"))):
        pair = [at_budget(lab, some, count, level) for some in (ours, held)]
        found.append(None if any(one is None for one in pair) else compare(*(100 * one for one in pair)))
    return Choice(*found)


def reading_title(name: str) -> str:
    """Of a key of READINGS, or of a size of J's set, "test 125"."""
    return READING_TITLES.get(name) or f"J on {name.removeprefix('test ')} test records"


def reading_table(
    runs: Mapping[str, Sequence[Result]], base: np.ndarray | None, plain: np.ndarray | None = None
) -> pd.DataFrame:
    """Other readings: accuracy, queries for each accepted update, points against the printed reading and plain DP-SGD.

    Args:
        base, plain: percent by seed, of the printed reading and of DPSGD (tanh) at the same budget, or None.
    """
    rows = []
    for name, results in runs.items():
        row = {
            "reading": reading_title(name),
            "test accuracy, %": str(measured(accuracies(results))),
            "queries an accepted update": str(measured(r["queries"] / r["accepted"] for r in results)),
        }
        for title, other in (("less the printed reading", base), ("less DPSGD (tanh)", plain)):
            if other is not None:
                row[title] = str(compare(accuracies(results), other).difference)
        rows.append(row)
    return pd.DataFrame(rows)


def refuses_batch_norm() -> bool:
    """Whether annealed DP-SGD refuses a network whose records influence each other's gradients."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3))
    x, y = torch.zeros(8, 4).numpy(), torch.zeros(8, dtype=torch.int64).numpy()
    try:
        annealing.train(net, (x, y), DPSGD(1, 0.5, 0.1, 1.0, 1.0), np.random.default_rng(0), energy=(x, y))
    except ParameterError:
        return True
    return False
