"""The parts of the study of feature selection: which runs the chapter rests on, and how they are grouped.

A part is a function of ``get`` (:func:`dplib.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/06.yml``). Every seed is a random split of the records; settings are chosen on validation records of
other splits, of seeds 1000 and up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dplib import runs
from dplib.architecture import feature_cfs
from dplib.architecture.feature_budgets import released
from dplib.architecture.feature_cfs import agreement as agreement
from dplib.architecture.feature_runs import PLAIN as PLAIN
from dplib.architecture.feature_runs import check, compare, curves, heuristics, pafs, sgd
from dplib.tuning import Get

TUNING = 1000
SIZES = {"adult": 108, "breast-cancer": 43, "synthetic-census": 108, "synthetic-recurrence": 43}
BLOCK = 12  # larger subsets get fewer draws


@dataclass(frozen=True, eq=False)
class Curves:
    """Test accuracies in percent by split, means over the draws of the noise.

    Attributes:
        sizes: numbers of features. epsilons: budgets; PLAIN is "without privacy".
        values: shape (splits, sizes, epsilons). constant: shape (splits,), of the more frequent class.
    """

    sizes: list[int]
    epsilons: list[float]
    values: np.ndarray
    constant: np.ndarray

    def at(self, size: int, epsilon: float) -> np.ndarray:
        """Accuracies (splits,) of one cell."""
        return self.values[:, self.sizes.index(size), self.epsilons.index(epsilon)]

    def of(self, epsilon: float) -> np.ndarray:
        """Accuracies (sizes, splits) at one budget."""
        return self.values[:, :, self.epsilons.index(epsilon)].T


def by_size(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    seeds: int,
    draws: Sequence[int],
    sizes: Sequence[int] | None = None,
    first: int = 0,
    **settings: Any,
) -> Curves:
    """Accuracy against the number of features (Figures 3 and 4).

    Args:
        sizes: rising; None for all. draws: of subsets of up to BLOCK features, and of larger ones. first: seed.
        settings: other arguments of :func:`dplib.architecture.feature_runs.curves`.
    """
    sizes = list(range(1, SIZES[dataset] + 1) if sizes is None else sizes)
    blocks = [([k for k in sizes if k <= BLOCK], draws[0]), ([k for k in sizes if k > BLOCK], draws[1])]
    blocks = [(some, count) for some, count in blocks if some]
    jobs = [
        {"dataset": dataset, "seed": seed, "sizes": some, "epsilons": list(epsilons), "draws": count, **settings}
        for seed in range(first, first + seeds)
        for some, count in blocks
    ]
    found = get(curves, jobs)
    by_seed = [found[i : i + len(blocks)] for i in range(0, len(found), len(blocks))]
    values = np.array([np.concatenate([one["percent"] for one in some]) for some in by_seed])
    return Curves(sizes, list(epsilons), values, np.array([some[0]["constant"] for some in by_seed]))


def tuned(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    regularisations: Sequence[float],
    tuning_seeds: int,
    **settings: Any,
) -> tuple[Curves, np.ndarray]:
    """:func:`by_size` where each cell has the regularisation that validation chose; also what was chosen."""
    shared = {"dataset": dataset, "epsilons": epsilons, **settings}
    aside = {**shared, "first": TUNING, "report": "validation", "seeds": tuning_seeds}
    scored = [by_size(get, **aside, regularisation=one).values.mean(axis=0) for one in regularisations]
    best = np.argmax(scored, axis=0)
    own = [by_size(get, **shared, regularisation=one) for one in regularisations]
    values = np.take_along_axis(np.stack([one.values for one in own]), best[None, None], axis=0)[0]
    found = Curves(own[0].sizes, own[0].epsilons, values, own[0].constant)
    return found, np.asarray(regularisations, dtype=float)[best]


def crossing(
    get: Get,
    *,
    dataset: str,
    few: int,
    epsilons: Sequence[float],
    chosen_at: float,
    search: Mapping[str, int],
    library: bool = True,
    **settings: Any,
) -> dict[str, tuple[Curves, Curves]]:
    """The pair of Section VI-C: {choice of the few features: (curves of few, curves of all)}.

    Args:
        chosen_at: the budget at which the few are searched by private accuracy, with ``search`` of
            :func:`dplib.architecture.feature_runs.curves`. library: also as the library runs it.
    """
    shared = {"dataset": dataset, "epsilons": epsilons, **settings}
    every = by_size(get, **shared, sizes=[SIZES[dataset]])
    found = {
        "by private accuracy": (by_size(get, **shared, sizes=[few], chosen_at=chosen_at, **search), every),
        "by CFS-Greedy": (by_size(get, **shared, sizes=[few]), every),
    }
    if library:
        one, two = (by_size(get, **shared, sizes=[k], variant="diffprivlib") for k in (few, SIZES[dataset]))
        found["by CFS-Greedy, as the library runs it"] = one, two
    return found


def quoted(get: Get, *, dataset: str, sizes: Sequence[int], epsilon: float, **settings: Any) -> dict[str, Curves]:
    """The numbers that the text quotes at one budget, {variant: curves}."""
    shared = {"dataset": dataset, "sizes": [*sizes, SIZES[dataset]], "epsilons": [epsilon], **settings}
    return {variant: by_size(get, **shared, variant=variant) for variant in ("diffprivlib", "sound")}


@dataclass(frozen=True)
class Trained:
    """DP-SGD and SGD on subsets: (size, epsilon) to accuracies (splits,) in percent; epsilon None is plain SGD."""

    sizes: list[int]
    values: dict[tuple[int, float | None], np.ndarray]
    rates: dict[tuple[int, float | None], float]
    noise: dict[float | None, float]
    constant: np.ndarray


def by_sgd(
    get: Get,
    *,
    dataset: str,
    sizes: Sequence[int],
    epsilons: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int,
    draws: int,
) -> Trained:
    """Tables II and XVIII: each cell at the learning rate that is best on validation records of other splits."""
    sizes, budgets = [*sizes, SIZES[dataset]], [*epsilons, None]
    shared = {"dataset": dataset, "draws": draws}
    every = [[e, rate] for e in budgets for rate in rates]
    tuning = [
        {**shared, "seed": TUNING + i, "size": k, "models": every, "report": "validation"}
        for k in sizes
        for i in range(tuning_seeds)
    ]
    scored = np.array([one["percent"] for one in get(sgd, tuning)])
    scored = scored.reshape(len(sizes), tuning_seeds, len(budgets), len(rates)).mean(axis=1)
    chosen = {(k, e): rates[int(scored[i, j].argmax())] for i, k in enumerate(sizes) for j, e in enumerate(budgets)}
    jobs = [
        {**shared, "seed": seed, "size": k, "models": [[e, chosen[k, e]] for e in budgets]}
        for k in sizes
        for seed in range(seeds)
    ]
    found = get(sgd, jobs)
    percent = np.array([one["percent"] for one in found]).reshape(len(sizes), seeds, len(budgets))
    values = {(k, e): percent[i, :, j] for i, k in enumerate(sizes) for j, e in enumerate(budgets)}
    constant = np.array([one["constant"] for one in found[:seeds]])
    return Trained(sizes, values, chosen, dict(zip(budgets, found[0]["noise"], strict=True)), constant)


def table_10(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    seeds: int,
    variant: str,
    parts: Sequence[str],
    search: Mapping[str, int],
    **settings: Any,
) -> dict[str, Any]:
    """Table X: {"percent": {method: (splits, epsilons)}, "searches": {part: results by split and epsilon}, "runs"}."""
    shared = {"dataset": dataset, "variant": variant}
    found = get(compare, [{**shared, "seed": s, "epsilons": list(epsilons), **settings} for s in range(seeds)])
    percent = {name: np.array([one["percent"][name] for one in found]) for name in found[0]["percent"]}
    jobs = [
        {**shared, "seed": s, "epsilon": e, "part": part, **search}
        for part, s, e in product(parts, range(seeds), epsilons)
    ]
    searches = np.array(get(pafs, jobs) if jobs else [], dtype=object).reshape(len(parts), seeds, len(epsilons))
    for part, some in zip(parts, searches, strict=True):
        percent[f"PAFS ({part})"] = np.array([[one["test"] for one in row] for row in some])
    constant = np.array([one["constant"] for one in found])
    by_part = dict(zip(parts, searches, strict=True))
    return {"epsilons": list(epsilons), "percent": percent, "constant": constant, "searches": by_part, "runs": found}


def searches(get: Get, *, dataset: str, epsilons: Sequence[float], seeds: int, **settings: Any) -> dict[float, list]:
    """PAFS with other settings: {epsilon: results by split}."""
    jobs = [{"dataset": dataset, "seed": s, "epsilon": e, **settings} for e in epsilons for s in range(seeds)]
    found = get(pafs, jobs)
    return {e: found[i * seeds : (i + 1) * seeds] for i, e in enumerate(epsilons)}


def small_problems(get: Get, *, dataset: str, seeds: int) -> list[runs.Result]:
    """:func:`dplib.architecture.feature_runs.heuristics`, by seed."""
    return get(heuristics, [{"dataset": dataset, "seed": s} for s in range(seeds)])


def tables(get: Get, *, datasets: Sequence[str], seeds: int) -> dict[str, list[runs.Result]]:
    """:func:`dplib.architecture.feature_runs.check` of each data set, by split."""
    found = get(check, [{"dataset": name, "seed": s} for name in datasets for s in range(seeds)])
    return {name: found[i * seeds : (i + 1) * seeds] for i, name in enumerate(datasets)}


def private_cfs(
    get: Get, *, datasets: Sequence[str], epsilons: Sequence[float], seeds: int, repeats: int
) -> dict[tuple[str, str, str, float], list[runs.Result]]:
    """How near private CFS comes to CFS: {(data set, unit, what is noised, epsilon): results by split}."""
    cells = list(product(datasets, feature_cfs.UNITS, ("entropies", "tables"), epsilons))
    jobs = [
        {"dataset": d, "unit": u, "how": h, "epsilon": e, "seed": s, "repeats": repeats}
        for d, u, h, e in cells
        for s in range(seeds)
    ]
    found = get(agreement, jobs)
    return {cell: found[i * seeds : (i + 1) * seeds] for i, cell in enumerate(cells)}


def one_budget(
    get: Get, *, dataset: str, totals: Sequence[float], methods: Sequence[str], seeds: int, **settings: Any
) -> dict[tuple[str, float], np.ndarray]:
    """One total for selection and model: {(method, total): test accuracies (%) by split}."""
    cells = list(product(methods, totals))
    jobs = [
        {"dataset": dataset, "method": m, "epsilon": e, "seed": s, **settings} for m, e in cells for s in range(seeds)
    ]
    found = np.array([one["percent"] for one in get(released, jobs)]).reshape(len(cells), seeds)
    return dict(zip(cells, found, strict=True))
