"""What traces of annealed DP-SGD say: shares by tenth of a run, Algorithm 2 replayed, what J's records gain, cost.

A companion of :mod:`dplib.annealing_tables`.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dplib.annealing import Annealing, Screen, acceptance_probability
from dplib.annealing_experiments import Result
from dplib.annealing_tables import measured, share
from dplib.annealing_trace import BY_CHANCE, FORCED, REJECTED
from dplib.stats import Measured


def tenths(result: Result, parts: int = 10) -> dict[str, np.ndarray]:
    """By part of a traced run's queries, each (parts,): shares, nan where there is nothing to share.

    "accepted": of queries that were kept. "worse": of queries that raise J. "kept_worse": of accepted updates that
    raise J. "let_pass": of queries that raise J, those kept. "forced": of queries, those kept by the limit.
    """
    outcomes = np.array([int(c) for c in result["outcomes"]])
    changes = np.array(result["changes"])
    rows = []
    for few, change in zip(np.array_split(outcomes, parts), np.array_split(changes, parts), strict=True):
        kept, worse = few != REJECTED, change > 0
        rows.append(
            [
                kept.mean() if len(few) else math.nan,
                worse.mean() if len(few) else math.nan,
                worse[kept].mean() if kept.any() else math.nan,
                kept[worse].mean() if worse.any() else math.nan,
                (few == FORCED).mean() if len(few) else math.nan,
            ]
        )
    names = ("accepted", "worse", "kept_worse", "let_pass", "forced")
    return dict(zip(names, np.array(rows).T, strict=True))


def by_tenth(results: Sequence[Result], what: str, parts: int = 10) -> pd.DataFrame:
    """Mean and 95% interval over runs of a share of :func:`tenths`: columns part, mean, low, high; in percent."""
    shares = 100 * np.array([tenths(r, parts)[what] for r in results])
    rows = []
    for part, column in enumerate(shares.T, 1):
        known = column[np.isfinite(column)]
        one = share(known) if len(known) else Measured(math.nan)
        rows.append([part, one.value, *(math.nan if v is None else v for v in (one.low, one.high))])
    return pd.DataFrame(rows, columns=["part", "mean", "low", "high"])


def longest_rejections(outcomes: str) -> int:
    """The longest run of rejections in a trace."""
    return max((len(run) for run in re.findall("0+", outcomes)), default=0)


def contradictions(result: Result, annealing: Annealing) -> int:
    """Queries of a trace that Algorithm 2's steps do not allow, given the recorded changes of J.

    The uniform draws are not in a trace: where chance decides, both outcomes are allowed.
    """
    screen, wrong = Screen(annealing), 0
    for outcome, change in zip(result["outcomes"], result["changes"], strict=True):
        allowed = {Screen.decide(_copy(screen), change, u) for u in (0.0, 1 - 1e-12)}
        if int(outcome) not in allowed:
            wrong += 1
        _follow(screen, int(outcome))
    return wrong


def chances(result: Result, annealing: Annealing) -> pd.DataFrame:
    """The queries of a trace that chance decides: J rises, and the limit on rejections is not reached.

    Returns:
        Columns query (from 0), change of J, probability (e^(-Q change), by the replayed temperature) and passed.
    """
    screen, rows = Screen(annealing), []
    for query, (outcome, change) in enumerate(zip(result["outcomes"], result["changes"], strict=True)):
        if change > 0 and Screen.decide(_copy(screen), math.inf, 0.5) != FORCED:
            probability = acceptance_probability(change, screen.temperature)
            rows.append((query, change, probability, int(outcome) == BY_CHANCE))
        _follow(screen, int(outcome))
    return pd.DataFrame(rows, columns=["query", "change", "probability", "passed"])


def chance_counts(tables: Sequence[pd.DataFrame]) -> tuple[float, int, float]:
    """(expected by the rule, counted, standard deviation by the rule): acceptances by chance in tables of chances."""
    every = pd.concat(tables, ignore_index=True)
    p = every["probability"].to_numpy(float)
    return float(p.sum()), int(every["passed"].sum()), float(np.sqrt((p * (1 - p)).sum()))


def fixed_rise(results: Sequence[Result], tables: Sequence[pd.DataFrame], parts: int = 10) -> tuple[float, np.ndarray]:
    """Chance acceptance of rises of about one size, by part of a run's queries.

    Returns:
        m, the median rise of all runs; and the share, in percent, of rises between m / 2 and 2 m that chance let pass,
        (runs, parts), nan where there was none.
    """
    median = float(pd.concat(tables)["change"].median())
    shares = np.full((len(results), parts), math.nan)
    for row, (result, table) in enumerate(zip(results, tables, strict=True)):
        near = table[table["change"].between(median / 2, 2 * median)]
        part = near["query"] * parts // len(result["outcomes"])
        for number, some in near.groupby(part):
            shares[row, int(number)] = 100 * some["passed"].mean()
    return median, shares


def _follow(screen: Screen, outcome: int) -> None:
    """Algorithm 2's counters after a recorded outcome."""
    screen.queries += 1
    screen.accepted += outcome != REJECTED
    screen.rejections = screen.rejections + 1 if outcome == REJECTED else 0
    screen.temperature = screen.annealing.initial_temperature * screen.accepted


def _copy(screen: Screen) -> Screen:
    other = Screen(screen.annealing)
    other.__dict__.update(screen.__dict__)
    return other


def seen_gap(results: Sequence[Result]) -> Measured | None:
    """Points of accuracy on the test records that J looked at less those on the others, at the end; None without."""
    if not results or "seen" not in results[0]["curve"]:
        return None
    return measured(100 * (r["curve"]["seen"][-1] - r["curve"]["unseen"][-1]) for r in results)


def cost_ratio(results: Sequence[Result], plain: Sequence[Result]) -> tuple[Measured, Measured]:
    """Queries, and CPU time against plain DP-SGD's, for each accepted update; ratios, by seed."""
    n = min(len(results), len(plain))
    queries = measured(r["queries"] / r["accepted"] for r in results)
    seconds = [
        (a["cpu_seconds"] / a["accepted"]) / (b["cpu_seconds"] / b["accepted"])
        for a, b in zip(results[:n], plain[:n], strict=True)
    ]
    return queries, measured(seconds)


def witness_shares(results: Sequence[Result]) -> dict[str, Measured | int]:
    """Over runs, in percent: of accepted updates, and of rejected ones, those that lower the witness's loss; of queries
    those where J and that loss move the same way; and the correlation of the two changes."""
    runs = [pd.DataFrame(r["witness"]) for r in results]
    rejected = [rows[rows["outcome"] == REJECTED] for rows in runs]
    refused = [100 * (rows["witness"] < 0).mean() for rows in rejected if len(rows)]
    return {
        "accepted_that_lower_the_training_loss_percent": share(
            100 * (rows.loc[rows["outcome"] != REJECTED, "witness"] < 0).mean() for rows in runs
        ),
        **({"rejected_that_lower_the_training_loss_percent": share(refused)} if refused else {}),
        "J_and_training_loss_agree_percent": share(
            100 * ((rows["change"] < 0) == (rows["witness"] < 0)).mean() for rows in runs
        ),
        "correlation_of_the_changes": measured(rows["change"].corr(rows["witness"]) for rows in runs),
        "queries_watched": sum(len(rows) for rows in runs),
    }
