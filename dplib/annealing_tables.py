"""What runs of annealed DP-SGD say: values at equal budgets, differences by seed, curves, three epsilons.

A budget is counted in two ways. "accepted": the updates that the weights kept, as the paper counts. "queries": all
noisy gradients, what an accountant has to count. The weights after t queries are those after the updates accepted by
then, so that one run tells about both. For plain DP-SGD the two are the same.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.stats import t as student

from dplib import annealing_accounts, annealing_experiments, loss_inversion, stats
from dplib.annealing_experiments import Lab, Result
from dplib.checks import ParameterError
from dplib.stats import Comparison, Measured

COUNTS = ("accepted", "queries")
PRIVATE = ("dpsgd", "dpsgd_tanh", "dpsgd_auto_s", "ours")
TITLES = {
    "dpsgd": "DPSGD", "dpsgd_tanh": "DPSGD (tanh)", "dpsgd_auto_s": "DPSGD (AUTO-S)", "ours": "annealed",
    "ours_held": "annealed, J on held-out records", "non_dp": "no privacy",
}  # fmt: skip
DATA = {
    "digits": "digits", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10, JPEG copies",
}  # fmt: skip
GUESSING = 0.1  # accuracy of a run whose weights are no longer numbers


def measured(values: Iterable[float]) -> Measured:
    """Mean with its 95% interval; of a single run the value alone, without one."""
    values = np.asarray(list(values), dtype=float)
    return stats.mean_interval(values) if len(values) > 1 else Measured(float(values[0]), n=1)


def share(values: Iterable[float]) -> Measured:
    """:func:`measured` for percentages: an interval that chance takes below 0 or above 100 ends there."""
    found = measured(values)
    ends = [None if end is None else min(max(end, 0.0), 100.0) for end in (found.low, found.high)]
    return Measured(found.value, *ends, n=found.n)


def bands(values: np.ndarray) -> pd.DataFrame:
    """Mean and 95% interval over runs at each step: columns mean, low, high; of one run the mean alone.

    Args:
        values: (runs, steps).
    """
    n = len(values)
    mean = values.mean(axis=0)
    half = student.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / n**0.5 if n > 1 else np.full_like(mean, math.nan)
    return pd.DataFrame({"mean": mean, "low": mean - half, "high": mean + half})


def compare(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Paired difference a - b over the seeds that both have, the first ones; of one seed without an interval."""
    n = min(len(a), len(b))
    if n > 1:
        return stats.paired(np.asarray(a[:n]), np.asarray(b[:n]))
    return Comparison(Measured(float(a[0] - b[0]), n=1), math.nan)


def shown(one: Comparison) -> str:
    """A comparison as text; of one seed the difference alone."""
    return str(one) if one.difference.low is not None else f"{one.difference.value:+.2f} (one seed)"


def above(difference: Measured) -> bool:
    """The 95% interval is above 0."""
    return difference.low is not None and difference.low > 0


def below(difference: Measured) -> bool:
    """The 95% interval is below 0."""
    return difference.high is not None and difference.high < 0


def accuracies(results: Sequence[Result]) -> np.ndarray:
    """Final test accuracies in percent, (runs,); a run that diverged counts as guessing."""
    return 100 * np.array([GUESSING if r["accuracy"] is None else r["accuracy"] for r in results])


def epsilons(counts: Sequence[int], result: Result, delta: float, kind: str) -> np.ndarray:
    """Epsilon after each of some numbers of steps in a run's setting, (k,), by :func:`dplib.annealing_accounts.curve`.

    "pld" is computed at a few numbers only, with a cubic spline between the logarithms: good to two thousandths, and
    within a few thousandths of the proven bound; below the first of these it goes on as a power, for figures.
    """
    setting = result["noise_multiplier"], result["sample_rate"], delta
    counts = np.asarray(counts, dtype=float)
    if kind != "pld":
        return annealing_accounts.curve(counts.round().astype(int), *setting, kind)
    nodes = [32 * 2**i for i in range(6, max(6, math.ceil(math.log2(max(counts.max(), 1) / 32)) + 1) + 1)]
    nodes = sorted({*(32 * 2**i for i in range(6)), *nodes})
    known = [(n, e) for n in nodes if (e := _tight(n, *setting)) is not None]
    x, y = np.log(np.array(known)).T
    spline = CubicSpline(x, y, bc_type="natural")
    with np.errstate(divide="ignore"):
        logs = np.log(counts)
    return np.exp(np.where(logs < x[0], y[0] + float(spline(x[0], 1)) * (logs - x[0]), spline(np.maximum(logs, x[0]))))


@functools.lru_cache(maxsize=1024)
def _tight(steps: int, noise_multiplier: float, sample_rate: float, delta: float) -> float | None:
    """None where the integral is not precise: for few steps."""
    try:
        return loss_inversion.epsilon(noise_multiplier, sample_rate, steps, delta)
    except ParameterError:
        return None


def steps_at(lab: Lab, result: Result, epsilon: float) -> int:
    """The updates that a budget pays for in a run's setting, by the paper's formula."""
    setting = result["noise_multiplier"], result["sample_rate"]
    return annealing_accounts.steps_allowed(epsilon, *setting, lab.delta)


def read(result: Result, count: str, steps: float, column: str = "accuracy") -> float:
    """A column of a run's curve after so many "accepted" updates or "queries", straight lines between evaluations.

    nan before the first evaluation and after the end of the run.
    """
    counts, values = (np.array([math.nan if v is None else v for v in result["curve"][c]]) for c in (count, column))
    counts, first = np.unique(counts, return_index=True)  # rejected queries leave the weights as they are
    return float(np.interp(steps, counts, values[first], left=math.nan, right=math.nan))


def at_budget(
    lab: Lab, results: Sequence[Result], count: str, epsilon: float, column: str = "accuracy"
) -> np.ndarray | None:
    """A column of each run where its count has spent a budget by the paper's formula, (runs,).

    None where a run never spent so much: the runs cannot be compared there.
    """
    found = np.array([read(r, count, steps_at(lab, r, epsilon), column) for r in results])
    return found if len(found) and np.isfinite(found).all() else None


def common_budget(lab: Lab, results: Iterable[Result], count: str) -> float:
    """The largest budget, at most the lab's, that every run has spent by this count and the paper's formula."""
    ends = [
        float(annealing_accounts.paper_epsilon(r["noise_multiplier"], r["sample_rate"], r[count], lab.delta))
        if r[count] < steps_at(lab, r, lab.epsilon)
        else lab.epsilon
        for r in results
    ]
    return min([lab.epsilon, *ends])


def gains(
    lab: Lab, arms: Mapping[str, Sequence[Result]], count: str, epsilon: float, ours: str = "ours",
    column: str = "accuracy", ours_column: str | None = None,
) -> dict[str, Comparison]:  # fmt: skip
    """Paired differences of an annealed arm less each plain one at a budget: points, or the loss as it is.

    Empty where a run does not reach the budget by this count, or has no such column.

    Args:
        ours_column: of the annealed arm, such as "unseen", where it differs.
    """
    scale = 1 if column == "loss" else 100
    some = [r for r in arms.get(ours, []) if (ours_column or column) in r["curve"]]
    first = at_budget(lab, some, count, epsilon, ours_column or column)
    found = {}
    for name in PRIVATE[:3]:
        other = at_budget(lab, arms.get(name, []), count, epsilon, column)
        if first is not None and other is not None:
            found[name] = compare(scale * first, scale * other)
    return found


def certain(found: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The comparisons over two seeds or more."""
    return {name: one for name, one in found.items() if one.difference.low is not None}


def best_other(found: Mapping[str, Comparison]) -> str | None:
    """The plain arm over which the gain is smallest, of those with an interval if any has one; None without any."""
    found = certain(found) or found
    return min(found, key=lambda name: found[name].difference.value, default=None)


def settings(candidate: Mapping[str, Any]) -> str:
    """A candidate of the tuning in words."""
    return ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in candidate.items()) or "as in Table 2"


def tried(tuned: Mapping[str, Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Accuracies on validation records, in percent: a row for each candidate, a column for each scheme.

    Args:
        tuned: of :func:`dplib.annealing_experiments.tuned`, {arm: {"tried": by candidate}}.
    """
    columns = {TITLES[arm]: 100 * np.array(found["tried"]) for arm, found in tuned.items()}
    return pd.DataFrame({"settings": [settings(one) for one in candidates]} | columns)


def free_choice(lab: Lab, tuned: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How schemes with settings of their own compare: by accepted updates as far as all go, and by queries.

    Args:
        tuned: of :func:`dplib.annealing_experiments.tuned`, {arm: {"results": by seed}}.

    Returns:
        {"accuracy": of the annealed arm, in percent, and by count {plain arm: annealed less that arm}}.
    """
    arms = {arm: found["results"] for arm, found in tuned.items()}
    level = {"accepted": common_budget(lab, arms["ours"], "accepted"), "queries": lab.epsilon}
    return {"accuracy": measured(accuracies(arms["ours"]))} | {c: gains(lab, arms, c, level[c]) for c in COUNTS}


def curves(
    lab: Lab, arms: Mapping[str, Sequence[Result]], count: str, column: str, points: int = 40
) -> dict[str, pd.DataFrame]:
    """{arm: epsilon, mean, low, high} of a column over the budget; shorter runs end where the first of them ends.

    Args:
        count: "accepted" or "queries" by the paper's formula, or "pld": queries by a tight accountant.
    """
    found = {}
    for name, results in arms.items():
        which = "accepted" if count == "accepted" else "queries"
        start = max(r["curve"][which][0] for r in results)
        end = min(r["curve"][which][-1] for r in results)
        steps = np.unique(np.geomspace(start, max(end, start), points).round().astype(int))
        table = bands(np.array([[read(r, which, n, column) for n in steps] for r in results]))
        table.insert(0, "epsilon", epsilons(steps, results[0], lab.delta, "pld" if count == "pld" else "paper"))
        found[name] = table
    return found


def first_budgets(lab: Lab, results: Sequence[Result], target: float, count: str) -> list[float | None]:
    """For each run the budget at which its test accuracy first reaches a target; None where it does not.

    Args:
        target: in [0, 1]. count: as in :func:`curves`.
    """
    which, kind = ("accepted" if count == "accepted" else "queries"), ("pld" if count == "pld" else "paper")
    found = []
    for r in results:
        steps = list(lab.counts({}, lab.epsilon))  # the same for every scheme: more points would be reached earlier
        while steps[-1] < r["curve"][which][-1]:
            steps.append(math.ceil(1.05 * steps[-1]))
        scores = [read(r, which, n) for n in steps]
        found.append(annealing_experiments.smallest_epsilon(epsilons(steps, r, lab.delta, kind), scores, target))
    return found


def three_epsilons(lab: Lab, results: Sequence[Result]) -> dict[str, Measured]:
    """{"accepted", "queries"} counts of runs, and what they cost: {"paper", "paper_queries", "rdp", "pld", ...}.

    "paper" and "pld_accepted" count accepted updates; "paper_queries" (the paper's formula), "rdp" (finer orders,
    better conversion) and "pld" (:func:`epsilons`) all queries.
    """
    accounts = {
        "paper": ("accepted", "paper"), "pld_accepted": ("accepted", "pld"), "paper_queries": ("queries", "paper"),
        "rdp": ("queries", "rdp"), "pld": ("queries", "pld"),
    }  # fmt: skip
    rows = {name: [] for name in ("accepted", "queries", *accounts)}
    for r in results:
        rows["accepted"].append(r["accepted"])
        rows["queries"].append(r["queries"])
        for name, (count, kind) in accounts.items():
            rows[name].append(float(epsilons([r[count]], r, lab.delta, kind)[0]))
    return {name: measured(values) for name, values in rows.items()}
