"""Tables of many runs of LP-MST: one row for each run and variant, maps over two settings, ranges of top-k accuracy.

Works on what :func:`dplib.labels.cifar_jobs.train` and :func:`dplib.labels.movielens_jobs.network` return. Accuracies
are in percent. Runs of one seed share their split, and variants of one run their stage 1: compare within a seed.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dplib import stats
from dplib.checks import ParameterError

RANGES = (0.0, 80.0, 84.0, 88.0, 90.0, 92.0, 94.0, 96.0, 100.0)  # of the axis of the paper's Figure 5, in percent


def frame(jobs: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each run and variant.

    Columns: "seed", "epsilon" (inf without privacy), "stages", "share" (of stage 1, in percent), "variant" (its
    number), the settings of the variant; of the last stage "mean_k", "right", "covered", "kept" (share of the earlier
    answers that passed the filter), "wrong_before", "wrong_after", "wrong"; "final" and "first": top-1 accuracies of
    the last and the first stage; "top_k": stage 1's top-k accuracy for k = rounded mean k*; "top_2" with k = 2. What
    an evaluation does not have is missing.
    """
    rows = []
    for job, result in zip(jobs, results, strict=True):
        for number, (variant, stages) in enumerate(zip(job.get("variants", ({},)), result["variants"], strict=True)):
            rows.append(_row(job, number, variant, stages))
    return pd.DataFrame(rows)


def paired(table: pd.DataFrame, value: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> stats.Comparison:
    """``value`` of the rows that match ``a`` minus those that match ``b``, paired by seed.

    Raises:
        ParameterError: where the two do not have one row each for the same two seeds or more.
    """
    first, second = (by_seed(table, value, wanted) for wanted in (a, b))
    if not first.index.equals(second.index):
        raise ParameterError(f"{dict(a)} and {dict(b)} were not run with the same seeds.")
    return stats.paired(first.to_numpy(), second.to_numpy())


def by_seed(table: pd.DataFrame, value: str, wanted: Mapping[str, Any]) -> pd.Series:
    """``value`` of the rows that match ``wanted``, by seed in rising order: one row a seed, or ParameterError."""
    rows = table[np.logical_and.reduce([table[name] == setting for name, setting in wanted.items()])]
    found = rows.set_index("seed")[value].sort_index()
    if found.index.has_duplicates or found.empty:
        raise ParameterError(f"{dict(wanted)} matches {len(found)} rows of {found.index.nunique()} seeds.")
    return found


def mean_map(table: pd.DataFrame, value: str, down: str, across: str) -> pd.DataFrame:
    """Means over seeds, one row for each setting ``down`` and one column for each setting ``across``."""
    return table.pivot_table(index=down, columns=across, values=value, aggfunc="mean")


def in_ranges(table: pd.DataFrame, edges: Sequence[float] = RANGES) -> pd.DataFrame:
    """Figure 5: mean "final" accuracy of each seed (rows) by range of "top_k" (columns), NaN where it has no run.

    A value on an edge counts to the range below it.
    """
    labels = [f"≤ {edges[1]:g}", *(f"{a:g}–{b:g}" for a, b in pairwise(edges[1:-1]))]
    labels.append(f"> {edges[-2]:g}")
    ranges = pd.cut(table["top_k"], edges, labels=labels, include_lowest=True)
    return table.pivot_table(index="seed", columns=ranges, values="final", aggfunc="mean", observed=True)


def best_prior(table: pd.DataFrame, names: Sequence[str]) -> tuple[Any, ...]:
    """The setting with the best mean "final" accuracy over seeds: the values of ``names``."""
    means = table.groupby(list(names), dropna=False)["final"].mean()
    best = means.idxmax()
    return best if isinstance(best, tuple) else (best,)


def _row(job: Mapping[str, Any], number: int, variant: Mapping[str, Any], stages: list[dict]) -> dict[str, Any]:
    first, last = stages[0], stages[-1]
    epsilon = np.inf if job["epsilon"] is None else job["epsilon"]
    row = {"seed": job["seed"], "epsilon": epsilon, "stages": len(stages), "variant": number}
    row["share"] = round(100 * job["shares"][0] / sum(job["shares"]), 4)
    row |= {name: value for name, value in variant.items() if name != "settings"}
    row |= {name: last[name] for name in ("mean_k", "right", "covered", "wrong_before", "wrong_after", "wrong")}
    row["kept"] = last["kept"] / last["reused"] if last["reused"] else np.nan
    row |= {name: value for name, value in last["evaluation"].items() if not isinstance(value, list)}
    tops = first["evaluation"].get("top")
    if tops:
        row |= {"final": 100 * last["evaluation"]["top"][0], "first": 100 * tops[0], "top_2": 100 * tops[1]}
        k = max(1, round(last["mean_k"]))
        row["top_k"] = 100 * tops[k - 1] if len(stages) > 1 and k <= len(tops) else np.nan
    return row
