"""From kept runs of annealed DP-SGD to values: accuracy, budget, and the lead at equal updates or equal gradients.

A budget is counted in two ways. "accepted": the updates that the weights kept, as the paper counts. "queries": all
noisy gradients, what an accountant has to count. The weights after t queries are those after the updates accepted by
then, so that one run tells about both; for plain DP-SGD they are the same.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from book.evidence import plotting
from book.evidence.runs import Result
from dplib import stats
from dplib.stats import Measured
from papers.common.diverged import CLASSES, accuracies
from papers.screening import accounts

DELTA = 1e-5
CHARGED = ("kept steps charged", "every noisy gradient charged")
Trained = Mapping[str, Mapping[str, Sequence[Result]]]  # {data set: {scheme: results by seed}}


def mean(values: Iterable[float], least: float = -math.inf, most: float = math.inf) -> Measured:
    """Mean over runs with its 95% interval; of a single run the value alone, of none no number.

    least, most: a value cannot lie beyond these: an interval that chance takes there ends there.
    """
    values = np.asarray(list(values), dtype=float)
    if len(values) < 2:
        return Measured(float(values[0]) if len(values) else math.nan, n=len(values))
    interval = stats.mean_interval(values)
    return Measured(interval.value, max(interval.low, least), min(interval.high, most), n=interval.n)


def share(values: Iterable[float]) -> Measured:
    """:func:`mean` of percentages."""
    return mean(values, 0.0, 100.0)


def table_1(arms: Mapping[str, Sequence[Result]]) -> dict[str, dict[str, Measured]]:
    """A data set's row of Table 1: {scheme: {how it is charged: test accuracy in percent}}, for a figure.

    "every noisy gradient charged" is DPSGD (tanh) plus the paired difference of the annealed method at equal noisy
    gradients, with the interval of that difference.
    """
    rows = {arm: {CHARGED[0]: mean(accuracies(results))} for arm, results in arms.items()}
    base, less = mean(accuracies(arms["dpsgd_tanh"])), gain(arms["ours"], arms["dpsgd_tanh"], "queries")
    ends = (base.value + end if end is not None else None for end in (less.value, less.low, less.high))
    rows["ours"][CHARGED[1]] = Measured(*ends, n=less.n)
    return rows


def read(result: Result, count: str, steps: float, column: str = "accuracy") -> float:
    """A column of a run's curve after so many "accepted" updates or "queries", straight lines between evaluations.

    nan before the first evaluation and after the end of the run.
    """
    counts, values = (np.array([math.nan if v is None else v for v in result["curve"][c]]) for c in (count, column))
    counts, first = np.unique(counts, return_index=True)  # rejected queries leave the weights as they are
    return float(np.interp(steps, counts, values[first], left=math.nan, right=math.nan))


def gain(
    ours: Sequence[Result],
    others: Sequence[Result],
    count: str = "accepted",
    epsilon: float | None = None,
    column: str = "accuracy",
    ours_column: str | None = None,
) -> Measured:
    """Annealed less plain, paired by seed, after as many updates as a budget pays for: points, or the loss as it is.

    Args:
        count: what is equal: "accepted" updates, or "queries".
        epsilon: the budget by the paper's formula; None: all that the plain runs spent.
        ours_column: of the annealed runs, such as "unseen", where it differs.
    """
    scale = 100 if column == "accuracy" else 1
    n = min(len(ours), len(others))
    steps = [r["queries"] if epsilon is None else steps_at(r, epsilon) for r in others[:n]]
    a = [read(r, count, s, ours_column or column) for r, s in zip(ours, steps, strict=False)]
    b = [read(r, count, s, column) for r, s in zip(others, steps, strict=False)]
    difference = scale * (np.array(a) - np.array(b))
    return mean(difference)


def steps_at(result: Result, epsilon: float) -> int:
    """The updates that a budget pays for in a run's setting, by the paper's formula."""
    return accounts.steps_allowed(epsilon, result["noise_multiplier"], result["sample_rate"], DELTA)


def spent(results: Sequence[Result], delta: float = DELTA) -> dict[str, Measured]:
    """What runs spent: "accepted", "queries", "queries_an_update", and epsilon by the paper's formula of either
    count ("epsilon_paper", "epsilon_paper_queries") and by PLD ("epsilon_pld_queries").
    """
    n = [(r["accepted"], r["queries"]) for r in results]
    kept = mean(epsilon(r, r["accepted"], delta) for r in results)
    return {
        "accepted": mean(a for a, _ in n),
        "queries": mean(q for _, q in n),
        "queries_an_update": mean((q / a for a, q in n), least=1.0),
        "epsilon_paper": kept,
        "epsilon_paper_queries": mean((epsilon(r, r["queries"], delta) for r in results), least=kept.value),
        "epsilon_pld_queries": mean(
            accounts.tight(r["noise_multiplier"], r["sample_rate"], r["queries"], delta) for r in results
        ),
    }


def steps_to(result: Result, target: float, count: str) -> float:
    """Steps after which a run's accuracy first reaches ``target`` percent; inf: never.

    Straight lines between evaluations; a run that begins above the target reaches it at its first evaluation.
    """
    columns = (result["curve"][name] for name in (count, "accuracy"))
    steps, accuracy = (np.array([math.nan if value is None else value for value in column]) for column in columns)
    above = np.flatnonzero(100 * accuracy >= target)
    if not len(above):
        return math.inf
    i = above[0]
    if not i:
        return float(steps[0])
    share = (target / 100 - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])
    return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))


def epsilon(result: Result, steps: int, delta: float = DELTA) -> float:
    """Epsilon after so many steps in a run's setting, by the paper's formula."""
    return float(accounts.paper_epsilon(result["noise_multiplier"], result["sample_rate"], steps, delta))


def by_steps(results: Sequence[Result], count: str) -> pd.DataFrame:
    """Accuracy in percent along a training, over runs: columns steps, mean, low, high; as far as all runs go.

    count: of "accepted" updates or of "queries".
    """
    start = max(r["curve"][count][0] for r in results)
    end = min(r["curve"][count][-1] for r in results)
    steps = np.unique(np.geomspace(start, max(end, start), 30).round().astype(int))
    shares = [mean(100 * read(r, count, n) for r in results) for n in steps]
    return plotting.bands("steps", steps, [share.within(0, 100) for share in shares])


def bands(values: np.ndarray) -> pd.DataFrame:
    """Mean and 95% interval over runs at each step, from (runs, steps): columns step, mean, low, high."""
    return plotting.bands("step", range(values.shape[1]), map(mean, values.T))


def curve(results: Sequence[Result], count: str) -> pd.DataFrame:
    """:func:`by_steps` over the budget by the paper's formula: columns epsilon, mean, low, high."""
    table = by_steps(results, count)
    return table.assign(epsilon=[epsilon(results[0], n) for n in table["steps"]])


def tenths(results: Sequence[Result], what: str, of: str = "queries") -> pd.DataFrame:
    """A share by tenth of the run, in percent: columns tenth, mean, low, high.

    Args:
        what, of: counts of :func:`papers.screening.annealed_training_runs.by_tenth`, such as "rises" of "queries"; or
            "accepted".
    """
    count = len(results[0]["tenths"]["queries"])
    shares = [share(tenth_shares(results, what, of, i)) for i in range(count)]
    return plotting.bands("tenth", range(1, count + 1), shares)


def tenth_shares(results: Sequence[Result], what: str, of: str, tenth: int) -> np.ndarray:
    """A share in one tenth of each run, in percent, (runs,)."""
    counts = [{name: column[tenth] for name, column in r["tenths"].items()} for r in results]
    counts = [{**count, "accepted": count["queries"] - count["rejected"]} for count in counts]
    return np.array([100 * count[what] / count[of] for count in counts if count[of]])


def near_passed(results: Sequence[Result]) -> np.ndarray:
    """Of rises of J of about the median size, where chance decides, those let pass, in percent: (runs, 2), in the first
    tenth of a run and in the last, of runs that have such rises in both.
    """
    ends = [[(r["chance"]["near_passed"][i], r["chance"]["near"][i]) for i in (0, -1)] for r in results]
    rows = [[100 * passed / of for passed, of in both] for both in ends if all(of for _, of in both)]
    return np.array(rows).reshape(-1, 2)


def nearest(trained: Mapping[str, Mapping[str, Sequence[Result]]]) -> dict[str, Measured | str]:
    """The annealed method against the plain scheme that comes nearest to it, for each data set, "_" for "-".

    Nearest over the seeds that all schemes have; the differences are over all seeds that these two have. Its accuracy,
    that scheme's ("best_") and name ("nearest_"), and in points "gain_" at equal accepted updates,
    "gain_equal_queries_" at equal noisy gradients, and "gain_unseen_" on the test records that J did not see.
    """
    values: dict[str, Measured | str] = {}
    for name, arms in trained.items():
        key, others = name.replace("-", "_"), {arm: r for arm, r in arms.items() if arm != "ours"}
        shared = min(map(len, others.values()))
        best = min(others, key=lambda arm: gain(arms["ours"], others[arm][:shared]).value)
        values |= {
            key: mean(accuracies(arms["ours"])),
            f"best_{key}": mean(accuracies(others[best])),
            f"nearest_{key}": best,
            f"gain_{key}": gain(arms["ours"], others[best]),
            f"gain_equal_queries_{key}": gain(arms["ours"], others[best], "queries"),
            f"gain_unseen_{key}": gain(arms["ours"], others[best], ours_column="unseen"),
        }
    return values


def above_guessing(trained: Mapping[str, Mapping[str, Sequence[Result]]]) -> dict[str, Measured]:
    """Accuracy of the annealed method in points above that of a fixed class, for each data set, "_" for "-"."""
    return {
        f"above_guessing_{name.replace('-', '_')}": mean(accuracies(arms["ours"]) - 100 / CLASSES)
        for name, arms in trained.items()
    }


def by_chance(results: Sequence[Result]) -> dict[str, float]:
    """Rises of J that passed by chance in all runs, beside what equation (3) makes expected, with its deviation."""
    return {
        "passed": sum(r["chance"]["passed"] for r in results),
        "expected": sum(r["chance"]["expected"] for r in results),
        "deviation": math.sqrt(sum(r["chance"]["variance"] for r in results)),
        "contradictions": sum(r["chance"]["contradictions"] for r in results),
        "queries": sum(r["queries"] for r in results),
    }


def leads(ours: Sequence[Result], others: Sequence[Result], count: str, column: str) -> dict[str, int]:
    """At ten budgets evenly spaced up to the end: at how many the annealed runs are "ahead" or "behind" beyond chance.

    "Ahead" is a larger accuracy, or a smaller loss; each by its own 95% interval.
    """
    top = epsilon(others[0], others[0]["queries"])
    sign = 1 if column == "accuracy" else -1
    gains = [gain(ours, others, count, e, column) for e in top * np.arange(1, 11) / 10 if _covered(others, e)]
    ends = [(m.low, m.high) if sign > 0 else (-m.high, -m.low) for m in gains if m.n > 1]
    return {"ahead": sum(a > 0 for a, _ in ends), "behind": sum(b < 0 for _, b in ends), "budgets": len(gains)}


def _covered(results: Sequence[Result], epsilon_: float) -> bool:
    return steps_at(results[0], epsilon_) >= max(r["curve"]["queries"][0] for r in results)


def slope(ours: Sequence[Result], others: Sequence[Result], count: str) -> Measured:
    """By how many points the lead changes for each unit of epsilon: least squares over thirds of a budget, by seed."""
    n = min(len(ours), len(others))
    top = epsilon(others[0], others[0]["queries"])
    epsilons = [e for e in (top / 3, 2 * top / 3, top) if _covered(others, e)]
    if len(epsilons) < 2:
        return Measured(math.nan, n=0)

    def lead(a: Result, b: Result, e: float) -> float:
        steps = steps_at(b, e)
        return 100 * (read(a, count, steps) - read(b, count, steps))

    rows = [[lead(a, b, e) for a, b in zip(ours[:n], others[:n], strict=True)] for e in epsilons]
    return mean(np.polyfit(epsilons, np.array(rows), 1)[0])


def line_distances(paths: Mapping[str, Sequence[Result]], count: str) -> dict[str, np.ndarray]:
    """Figure 1: distance to the optimum after each accepted update or query, (seeds, steps) of the shortest path."""
    distances = {}
    shortest = min(r["accepted"].count("1") for r in paths["annealed"]) + 1
    for name, results in paths.items():
        rows = [np.array(r["distance"]) for r in results]
        if count == "accepted":
            kept = [np.flatnonzero([True, *(c == "1" for c in r["accepted"])]) for r in results]
            rows = [row[k][:shortest] for row, k in zip(rows, kept, strict=True)]
        distances[name] = np.array(rows)
    return distances


def late(distances: np.ndarray) -> np.ndarray:
    """Mean distance over the last fifth of each path, (seeds,)."""
    return distances[:, -(distances.shape[1] // 5) :].mean(axis=1)
