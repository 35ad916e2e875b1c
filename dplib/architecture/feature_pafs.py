"""Table X of paper B, and the searches behind it: which runs are made, and what becomes of their results.

Every training goes through :func:`dplib.study.run` in pieces of at most :data:`PIECE` subsets, each of which is filed
once it is done. A search that was killed makes the same choices again (its random choices and its noise come from
seeds), finds the finished pieces on disk, and trains no filed candidate twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from dplib import checks, study
from dplib.architecture import feature_cfs, feature_data, feature_jobs, feature_search
from dplib.architecture.feature_jobs import packed, unpacked
from dplib.architecture.feature_search import Found, Genetic

PIECE = 100  # subsets in one filed run
RANDOM = 50  # random subsets a split over which "Random" is averaged
METHODS = ("All", "PAFS (test)", "PAFS (validation)", "CFS-Greedy", "CFS-GA", "Random", "One feature")


@dataclass(frozen=True)
class Plan:
    """Settings of the table; see :class:`dplib.architecture.feature_search.Genetic` for those of a search.

    Args:
        dataset: of :func:`dplib.architecture.feature_data.load`. splits: how many; each is one paired repeat of
            everything.
        variant: of objective perturbation: "diffprivlib" (the paper's) or "sound".
        held: training records that PAFS sets aside for its honest fitness; the final models use all of them again.
        search: of PAFS. fitness_repeats: trainings behind one fitness value.
        cfs: of CFS-GA.
        draws: trainings behind one cell of the table, for each split.
        seed: everything random but the splits.
    """

    dataset: str
    splits: int
    variant: str
    held: int
    search: Genetic
    fitness_repeats: int
    cfs: Genetic
    draws: int
    seed: int = 0
    workers: int = 1
    spent: dict[str, float] = field(default_factory=dict)  # processor seconds of the runs, by kind

    def run(self, function, jobs, what, kind):
        """``study.run`` with the data's checksum; counts the seconds."""
        inputs = feature_data.checksums(self.dataset)
        results = study.run(function, jobs, workers=self.workers, inputs=inputs, what=what)
        self.spent[kind] = self.spent.get(kind, 0.0) + sum(r["cpu_seconds"] for r in results)
        return results


def selections(plan: Plan, unit: str = "columns") -> list[dict]:
    """CFS-Greedy and CFS-GA of each split: :func:`dplib.architecture.feature_cfs.cfs`."""
    ga = plan.cfs
    common = {"dataset": plan.dataset, "unit": unit, "population": ga.population, "generations": ga.generations}
    jobs = [{**common, "split": s, "parents": ga.parents, "seed": plan.seed} for s in range(plan.splits)]
    return plan.run(feature_cfs.cfs, jobs, "CFS", "cfs")


def accuracies(
    plan: Plan, split: int, epsilon: float | None, subsets, *, part="test", held=0, repeats=None, seed=0, kind="final"
) -> np.ndarray:
    """Mean accuracy of each subset, (s,), over ``repeats`` trainings; runs are filed in pieces."""
    names = [packed(S) for S in subsets]
    common = {
        "dataset": plan.dataset,
        "split": split,
        "held": held,
        "part": part,
        "variant": plan.variant,
        "epsilon": epsilon,
        "repeats": plan.draws if repeats is None else repeats,
        "seed": seed,
    }
    jobs = [{**common, "subsets": names[i : i + PIECE]} for i in range(0, len(names), PIECE)]
    results = plan.run(feature_jobs.measure, jobs, "trainings", kind)
    return np.array([a for r in results for a in r["accuracy"]])


def pafs(plan: Plan, split: int, epsilon: float, part: str, *, settings=None, repeats=None, kind="search") -> Found:
    """PAFS at one budget on one split, with fitness on the "test" part (as the paper says) or on the "validation" part.

    Searches of a split start from the same population, whatever epsilon and part are.
    """
    checks.one_of(*feature_jobs.PARTS).check("part", part)
    held = plan.held if part == "validation" else 0
    m = feature_data.load(plan.dataset, split).d
    rng = np.random.default_rng([plan.seed, split, 3])
    trainings = {"repeats": plan.fitness_repeats if repeats is None else repeats, "seed": plan.seed + 1}

    def accuracy(subsets):
        return accuracies(plan, split, epsilon, subsets, part=part, held=held, kind=kind, **trainings)

    return feature_search.pafs(accuracy, m, settings or plan.search, rng)


def table(plan: Plan, epsilons: Sequence[float], methods: Sequence[str] = METHODS) -> pd.DataFrame:
    """Test accuracy of every method, for every split and epsilon.

    Returns:
        One line for each: split, epsilon, method, accuracy, size (columns used), fitness (what the search had seen; nan
        for others), distinct (subsets that the search trained), subset (packed).
    """
    checks.list_of(checks.one_of(*METHODS)).check("methods", list(methods))
    lines = []
    for split, chosen in enumerate(selections(plan)):
        m = feature_data.load(plan.dataset, split).d
        ga = unpacked(chosen["ga"], m)
        size = int(ga.sum())
        fixed = {
            "All": np.ones(m, dtype=bool),
            "CFS-Greedy": feature_search.subset(chosen["order"][:size], m),
            "CFS-GA": ga,
            "One feature": feature_search.subset(chosen["order"][:1], m),
        }
        rng = np.random.default_rng([plan.seed, split, 6])
        random = [feature_search.random_subset(m, rng, size) for _ in range(RANDOM)]
        for epsilon in epsilons:
            lines += _lines(plan, split, epsilon, methods, fixed, random)
    return pd.DataFrame(lines)


def _lines(plan, split, epsilon, methods, fixed, random) -> list[dict]:
    """The lines of one split and one epsilon."""
    subsets, found = {name: S for name, S in fixed.items() if name in methods}, {}
    for part in feature_jobs.PARTS:
        name = f"PAFS ({part})"
        if name in methods:
            found[name] = pafs(plan, split, epsilon, part)
            subsets[name] = found[name].best
    fresh = plan.seed + 2  # noise that no fitness has seen
    values = dict(zip(subsets, accuracies(plan, split, epsilon, list(subsets.values()), seed=fresh), strict=True))
    if "Random" in methods:
        repeats = max(1, plan.draws // RANDOM)
        values["Random"] = accuracies(plan, split, epsilon, random, repeats=repeats, seed=fresh).mean()
    return [
        {
            "split": split,
            "epsilon": epsilon,
            "method": name,
            "accuracy": float(values[name]),
            "size": int(random[0].sum()) if name == "Random" else int(subsets[name].sum()),
            "fitness": found[name].fitness if name in found else np.nan,
            "distinct": len(found[name].scores) if name in found else 0,
            "subset": "" if name == "Random" else packed(subsets[name]),
        }
        for name in methods
    ]


def per_split(runs: pd.DataFrame, method: str, epsilon: float, column: str = "accuracy") -> np.ndarray:
    """One value for each split, in order: what paired comparisons take."""
    at = runs[(runs["method"] == method) & (runs["epsilon"] == epsilon)]
    return at.sort_values("split")[column].to_numpy()


def trace(found: Found, epsilon: float) -> pd.DataFrame:
    """Every candidate of a search in order, with its fitness, the best so far, and the budget that is gone by then.

    The budget is basic composition, one ``epsilon`` for each candidate: what a pure-DP search spends, and no less
    (chapter text). Trainings that are repeated for a steadier fitness multiply it; that is not counted here.
    """
    count = np.arange(1, len(found.scores) + 1)
    return pd.DataFrame(
        {
            "candidate": count,
            "generation": found.generation,
            "features": found.subsets.sum(axis=1),
            "subset": [packed(S) for S in found.subsets],
            "fitness": found.scores,
            "best so far": np.maximum.accumulate(found.scores),
            "budget so far": epsilon * count,
        }
    )
