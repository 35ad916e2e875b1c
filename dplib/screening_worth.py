"""Does screening help at equal true epsilon? Claimed against true epsilon at equal accuracy, from paired trainings.

For a training that screens its updates there are three figures: what the paper claims (accepted updates, its own
count); an upper bound, every noisy gradient by a tight accountant, valid where J looks at no private record; and a
lower bound on what *any* account must say that knows the setting, the number of updates and how many were accepted
when: the exact epsilon of an honest instance of Algorithm 2 with these numbers (:mod:`dplib.screening_instances`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize
from scipy import stats as distributions

from dplib import annealing_accounts, screening_composition, screening_instances, stats
from dplib.annealing_experiments import Lab, Result
from dplib.checks import ParameterError
from dplib.screening_accounts import Setting, candidates_per_update

STAGES = 5  # of a training, each with its own share of accepted candidates
PLAIN, ARMS = "dpsgd_tanh", ("ours", "ours_held")


@dataclass(frozen=True)
class Curve:
    """A training at its evaluations, each column (k,), in time.

    Attributes:
        queries, accepted: noisy gradients, and updates kept. claimed: epsilon as the paper counts. true: of all
            queries, by transform inversion. accuracy: on test records that J never saw.
    """

    queries: np.ndarray
    accepted: np.ndarray
    claimed: np.ndarray
    true: np.ndarray
    accuracy: np.ndarray

    def at(self, epsilon: float) -> float:
        """Accuracy at a true epsilon, with straight lines between evaluations; nan beyond either end."""
        return float(np.interp(epsilon, self.true, self.accuracy, left=np.nan, right=np.nan))

    def reaches(self, accuracy: float) -> dict[str, float] | None:
        """Every column where this accuracy is first reached, with straight lines; None where it never is."""
        above = np.flatnonzero(self.accuracy >= accuracy)
        if not above.size:
            return None
        k = int(above[0])
        share = 1.0 if k == 0 else (accuracy - self.accuracy[k - 1]) / (self.accuracy[k] - self.accuracy[k - 1])
        columns = {name: getattr(self, name) for name in ("queries", "accepted", "claimed", "true")}
        return {
            name: float(column[max(k - 1, 0)] * (1 - share) + column[k] * share) for name, column in columns.items()
        }


def curve(result: Result, counts: Sequence[int], delta: float) -> Curve:
    """The curve of one training.

    Args:
        result: of :func:`dplib.annealing_jobs.train`. counts: queries at which every arm was evaluated; of later
            evaluations all are used, so that no arm has more chances to reach an accuracy.
    """
    found = result["curve"]
    last = max(counts)
    rows = [k for k, n in enumerate(found["queries"]) if n in counts or n > last]
    queries, accepted = (np.array([found[name][k] for k in rows]) for name in ("queries", "accepted"))
    accuracy = np.array([found.get("unseen", found["accuracy"])[k] for k in rows], dtype=float)
    setting = result["noise_multiplier"], result["sample_rate"], delta
    claimed, true = (annealing_accounts.curve(n, *setting, kind) for n, kind in ((accepted, "paper"), (queries, "pld")))
    return Curve(queries, accepted, claimed, np.maximum.accumulate(true), accuracy)


def curves(lab: Lab, results: dict[str, list[Result]], **changes: Any) -> dict[str, list[Curve]]:
    """Curves by arm and seed of :func:`dplib.annealing_experiments.table_1`."""
    counts = {arm: set(lab.job(arm, 0, **changes)["at_queries"]) for arm in results}
    return {arm: [curve(one, counts[arm], lab.delta) for one in runs] for arm, runs in results.items()}


def at_equal_epsilon(plain: Sequence[Curve], ours: Sequence[Curve], epsilons) -> list[stats.Comparison | None]:
    """Paired differences in accuracy, screened less plain, at each true epsilon; None where a training has no value."""
    found = []
    for epsilon in epsilons:
        a, b = (np.array([one.at(epsilon) for one in arm]) for arm in (ours, plain))
        found.append(stats.paired(a, b) if len(a) > 1 and np.isfinite(a - b).all() else None)
    return found


def largest_common(*arms: Sequence[Curve]) -> float:
    """The largest true epsilon at which every training has a value."""
    return min(float(one.true[-1]) for arm in arms for one in arm)


def at_equal_claim(plain: Sequence[Curve], ours: Sequence[Curve]) -> stats.Comparison:
    """The paper's comparison: the difference at the last evaluation, where both claim the same epsilon."""
    return stats.paired(*(np.array([one.accuracy[-1] for one in arm]) for arm in (ours, plain)))


def word(comparison: stats.Comparison) -> str:
    """In a word, by the 95% interval of the difference: better, worse or no different."""
    low, high = comparison.difference.low, comparison.difference.high
    return "better" if low > 0 else "worse" if high < 0 else "no different"


def reached(arm: Sequence[Curve], accuracy: float) -> dict[str, np.ndarray] | None:
    """Columns of :meth:`Curve.reaches` by seed, (seeds,); None where a training never reaches it."""
    rows = [one.reaches(accuracy) for one in arm]
    if None in rows:
        return None
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# ---- the lower bound ----


def stages(results: Sequence[Result], queries: Sequence[float], count: int = STAGES) -> list[tuple[float, int]]:
    """(accepted over drawn, updates) of each stage, as many updates in each, pooled over trainings with a trace.

    Args:
        queries: where to stop, one number a training.
    """
    drawn, kept = np.zeros(count), np.zeros(count)
    for result, end in zip(results, queries, strict=True):
        accepted = np.array([outcome != "0" for outcome in result["outcomes"][: round(end)]])
        stage = np.minimum((np.cumsum(accepted) - accepted) * count // max(accepted.sum(), 1), count - 1)
        drawn += np.bincount(stage, minlength=count)
        kept += np.bincount(stage, weights=accepted, minlength=count)
    updates = np.round(np.cumsum(kept) / len(results)).astype(int)
    sizes = np.diff(updates, prepend=0)
    return [(float(k / d), int(n)) for k, d, n in zip(kept, drawn, sizes, strict=True) if n > 0]


def push_for(rate: float, limit: int) -> float:
    """The others' push against J, in noise units, for which an instance accepts this share of its candidates.

    Cut at -6 and 6, beyond which all are accepted at once or by force.
    """
    if not 0 < rate <= 1:
        raise ParameterError(f"rate = {rate:g} is not allowed: it must be in (0, 1].")

    def excess(push):
        rejected = min(float(distributions.norm.cdf(push)), 1 - 1e-15)
        return 1 / candidates_per_update(rejected, limit) - rate

    if excess(-6.0) <= 0:
        return -6.0
    return 6.0 if excess(6.0) >= 0 else float(optimize.brentq(excess, -6.0, 6.0, xtol=1e-6))


def instance_epsilon(setting: Setting, pattern: Sequence[tuple[float, int]], delta: float) -> float:
    """Exact epsilon of the instance whose candidates are accepted at these rates, stage by stage (:func:`stages`)."""
    steps = [
        (screening_instances.linear(setting, push_for(rate, setting.limit), setting.limit, constant=True).cells, n)
        for rate, n in pattern
    ]
    try:
        return screening_composition.epsilon(steps, delta)
    except ParameterError:  # a few updates: the integral is not precise there
        return screening_composition.by_pld(steps, delta)[0]


def setting_of(result: Result) -> Setting:
    """The setting of a training."""
    n, q = result["n"], result["sample_rate"]
    return Setting("", n, round(q * n), result["noise_multiplier"], result["rejection_limit"])


def table(
    arms: dict[str, list[Curve]], results: dict[str, list[Result]], accuracies: Sequence[float], delta: float
) -> list[dict[str, Any]]:
    """Rows for accuracies and screened arms: what it took plain DP-SGD, what is claimed, and what was really spent.

    Entries are :class:`dplib.stats.Measured` over seeds ("lower" is one number, for the pooled pattern), None where a
    training never reaches the accuracy; "ratio" is that of true epsilons, upper bound over plain, paired by seed.
    """
    rows = []
    for arm in [arm for arm in arms if arm != PLAIN]:
        for accuracy in accuracies:
            plain, ours = reached(arms[PLAIN], accuracy), reached(arms[arm], accuracy)
            row: dict[str, Any] = {"arm": arm, "accuracy": accuracy}
            if plain:
                row |= {"plain, claimed": _mean(plain["claimed"]), "plain, true": _mean(plain["true"])}
            if ours:
                pattern = stages(results[arm], ours["queries"])
                row |= {
                    "claimed": _mean(ours["claimed"]),
                    "true, at most": _mean(ours["true"]),
                    "lower": instance_epsilon(setting_of(results[arm][0]), pattern, delta),
                    "accepted of drawn": float(ours["accepted"].sum() / ours["queries"].sum()),
                }
            if plain and ours and len(plain["true"]) == len(ours["true"]):
                row["ratio"] = _mean(ours["true"] / plain["true"])
            rows.append(row)
    return rows


def _mean(values: np.ndarray) -> stats.Measured:
    return stats.mean_interval(values) if len(values) > 1 else stats.Measured(float(values[0]), n=1)
