"""DP-SGD beside label privacy in chapter 9: our own runs, and what the paper's Table 4 cites.

The guarantees differ. DP-SGD here: (epsilon, delta), neighbours differ by one whole record, added or removed. LP-MST:
epsilon alone, neighbours differ in one label. A record exchanged for another costs up to twice the former's epsilon.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dplib import claims, study, trainings

TUNING_SEEDS = (900, 901)


def dpsgd(
    dataset: str,
    checksum: str,
    epsilons: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    settings: Mapping[str, Any],
    workers: int = 1,
) -> tuple[pd.DataFrame, float]:
    """Test accuracy of DP-SGD at each budget; the rate is chosen on a validation part, with other seeds.

    Args:
        settings: further arguments of :func:`dplib.trainings.train`.

    Returns:
        Columns "dataset", "epsilon", "seed", "accuracy" (percent) and "rate"; and the processor seconds of all runs.
    """
    cells = [{**settings, "dataset": dataset, "epsilon": float(epsilon)} for epsilon in epsilons]
    inputs = {dataset: checksum}
    tried = [{**cell, "learning_rate": rate, "seed": seed} for cell in cells for rate in rates for seed in TUNING_SEEDS]
    scores = study.run(trainings.train, tried, workers=workers, inputs=inputs, what="DP-SGD, tuning")
    table = pd.DataFrame(
        [
            {"epsilon": job["epsilon"], "rate": job["learning_rate"], "score": result["validation"] or 0.0}
            for job, result in zip(tried, scores, strict=True)
        ]
    )
    means = table.groupby(["epsilon", "rate"])["score"].mean()
    best = {epsilon: float(means[epsilon].idxmax()) for epsilon in map(float, epsilons)}
    jobs = [{**cell, "learning_rate": best[cell["epsilon"]], "seed": seed} for cell in cells for seed in range(seeds)]
    results = study.run(trainings.train, jobs, workers=workers, inputs=inputs, what="DP-SGD")
    frame = pd.DataFrame(
        [
            {
                "dataset": dataset,
                "epsilon": job["epsilon"],
                "seed": job["seed"],
                "accuracy": 100 * (result["test"] or 0.0),
                "rate": job["learning_rate"],
            }
            for job, result in zip(jobs, results, strict=True)
        ]
    )
    return frame, sum(result["cpu_seconds"] for result in [*scores, *results])


def cited(dataset: str) -> dict[str, list[tuple[float, float]]]:
    """Table 4's values from other papers with a budget of their own: method to pairs (epsilon, accuracy in percent).

    Where the cell prints no budget it is that of its column. Cells without a known column are left out.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for claim_id, claim in claims.load("C").items():
        if not claim_id.startswith(f"C.table4.{dataset}-") or claim_id.endswith("st"):
            continue
        name = claim.where.split(", ", 3)[-1]
        for column, value in claim.published.items():
            cell = point(column, value)
            if cell:
                found.setdefault(name, []).append(cell)
    return found


def point(column: str, value: Any) -> tuple[float, float] | None:
    """A cited cell as (epsilon, accuracy): its own budget, or that of its column; None where neither is known."""
    own = re.fullmatch(r"([\d.]+) \(ε = ([\d.]+)\)", str(value))
    if own:
        return float(own[2]), float(own[1])
    at = re.fullmatch(r"eps(\d+)", column)
    return (float(at[1]), float(value)) if at and not isinstance(value, str) else None
