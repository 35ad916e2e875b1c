"""Rule 10 of :mod:`papers.architecture.advice_runs`: what ranges cost that nobody published."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib import stats
from dplib.stats import Measured
from papers.architecture import advice_rows

WAYS = ("public", "wide", "private")  # of advice_runs.ranges, in its order
LITTLE = 0.05  # of the gain


def runs_by_table(plan: Any) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The runs of rule 10, by table and seed; ``plan``: of study 13."""
    return plan.read("ranges") | {name: plan.read(f"ranges {name}") for name in ("adult", "medical-cost")}


def costs(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], plain: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[tuple[str, float], Measured]:
    """{(way, epsilon): mean over tables of the share kept, less that with public ranges}, with 95% intervals.

    ``plain``: of ordinary training, by table, as in :class:`papers.architecture.advice_rows.Advice`.
    """
    gain = advice_rows.gains(plain, "logistic")
    means = {name: np.mean([r["accuracy"] for r in results], axis=0) for name, results in runs.items() if name in gain}
    lost = np.array([(mean - mean[:, :1]) / gain[name] for name, mean in means.items()])  # tables, budgets, ways
    return {
        (way, epsilon): stats.mean_interval(lost[:, i, j])
        for j, way in enumerate(WAYS)
        for i, epsilon in enumerate(advice_rows.EPSILONS)
    }


def little(cost: Measured) -> bool:
    """Whether a cost may be called little."""
    return cost.low > -LITTLE
