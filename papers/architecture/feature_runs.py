"""The parts of the study of feature selection: which runs the chapter rests on, and how they are grouped.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/06.yml``). Every seed is a random split of the records; settings are chosen on validation records of
other splits, of seeds 1000 and up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from book.evidence.plans import FIRST, Get, by_seed
from papers.architecture.feature_budget_runs import released
from papers.architecture.feature_search_runs import agreement, redundancy  # noqa: F401 they are parts
from papers.architecture.feature_training_runs import check, compare, curves, heuristics, pafs, sgd  # noqa: F401 some are parts

SIZES = {"adult": 108, "breast-cancer": 43, "synthetic-census": 108, "synthetic-recurrence": 43}
BLOCK = 12  # larger subsets get fewer draws


@dataclass(frozen=True, eq=False)
class Curves:
    """Test accuracies in percent, means over the draws of the noise: ``values`` (splits, sizes, epsilons), and
    ``constant`` (splits,), of the more frequent class; epsilon PLAIN is "without privacy".
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
    """Accuracy against the number of features (Figures 3 and 4), by rising ``sizes`` (None for all).

    ``draws``: of subsets of up to BLOCK features, and of larger ones; ``settings``: other arguments of ``curves``.
    """
    sizes = list(sizes or range(1, SIZES[dataset] + 1))
    blocks = [([k for k in sizes if k <= BLOCK], draws[0]), ([k for k in sizes if k > BLOCK], draws[1])]
    blocks = [block for block in blocks if block[0]]
    jobs = [
        {"dataset": dataset, "seed": seed, "sizes": masks, "epsilons": list(epsilons), "draws": count, **settings}
        for seed in range(first, first + seeds)
        for masks, count in blocks
    ]
    results = get(curves, jobs)
    by_seed = [results[i : i + len(blocks)] for i in range(0, len(results), len(blocks))]
    values = np.array([np.concatenate([result["percent"] for result in results]) for results in by_seed])
    return Curves(sizes, list(epsilons), values, np.array([results[0]["constant"] for results in by_seed]))


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
    aside = {**shared, "first": FIRST, "report": "validation", "seeds": tuning_seeds}
    scored = [
        by_size(get, **aside, regularisation=regularisation).values.mean(axis=0) for regularisation in regularisations
    ]
    best = np.argmax(scored, axis=0)
    curves_ = [by_size(get, **shared, regularisation=regularisation) for regularisation in regularisations]
    values = np.take_along_axis(np.stack([table.values for table in curves_]), best[None, None], axis=0)[0]
    return replace(curves_[0], values=values), np.asarray(regularisations, dtype=float)[best]


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

    The few are searched by private accuracy at the budget ``chosen_at``; ``library``: also as the library runs it.
    """
    shared = {"dataset": dataset, "epsilons": epsilons, **settings}
    every = by_size(get, **shared, sizes=[SIZES[dataset]])
    pairs = {
        "by private accuracy": (by_size(get, **shared, sizes=[few], chosen_at=chosen_at, **search), every),
        "by CFS-Greedy": (by_size(get, **shared, sizes=[few]), every),
    }
    if library:
        few_features, two = (by_size(get, **shared, sizes=[k], variant="diffprivlib") for k in (few, SIZES[dataset]))
        pairs["by CFS-Greedy, as the library runs it"] = few_features, two
    return pairs


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
    cells = {k: {"dataset": dataset, "draws": draws, "size": k} for k in sizes}
    every = {"models": [[e, rate] for e in budgets for rate in rates], "report": "validation"}
    tried = by_seed(get, sgd, {k: {**cell, **every} for k, cell in cells.items()}, tuning_seeds, FIRST)
    chosen = {}
    for k, results in tried.items():
        scores = np.mean([result["percent"] for result in results], axis=0).reshape(len(budgets), len(rates))
        chosen |= {(k, e): rates[int(best)] for e, best in zip(budgets, scores.argmax(axis=1), strict=True)}
    jobs = {k: {**cell, "models": [[e, chosen[k, e]] for e in budgets]} for k, cell in cells.items()}
    by_size_ = by_seed(get, sgd, jobs, seeds)
    values = {
        (k, e): np.array([result["percent"][j] for result in by_size_[k]]) for k in sizes for j, e in enumerate(budgets)
    }
    first = by_size_[sizes[0]]
    constant = np.array([result["constant"] for result in first])
    return Trained(sizes, values, chosen, dict(zip(budgets, first[0]["noise"], strict=True)), constant)


def table_10(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    seeds: int,
    variant: str,
    parts: Sequence[str],
    search: Mapping[str, int],
    first: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Table X: {"percent": {method: (splits, epsilons)}, "searches": {part: results by split and epsilon}, "runs"}."""
    shared = {"dataset": dataset, "variant": variant}
    searches = by_seed(get, compare, {0: {**shared, "epsilons": list(epsilons), **settings}}, seeds, first)[0]
    percent = {name: np.array([search["percent"][name] for search in searches]) for name in searches[0]["percent"]}
    cells = {(part, e): {**shared, "epsilon": e, "part": part, **search} for part, e in product(parts, epsilons)}
    by_cell = by_seed(get, pafs, cells, seeds, first) if cells else {}
    by_part = {part: [[by_cell[part, e][s] for e in epsilons] for s in range(seeds)] for part in parts}
    for part, rows in by_part.items():
        percent[f"PAFS ({part})"] = np.array([[search["test"] for search in row] for row in rows])
    constant = np.array([search["constant"] for search in searches])
    return {"epsilons": list(epsilons), "percent": percent, "constant": constant, "searches": by_part, "runs": searches}


def one_budget(
    get: Get,
    *,
    dataset: str,
    totals: Sequence[float],
    methods: Sequence[str],
    seeds: int,
    first: int = 0,
    **settings: Any,
) -> dict[tuple[str, float], np.ndarray]:
    """One total for selection and model: {(method, total): test accuracies (%) by split}."""
    cells = {(m, e): {"dataset": dataset, "method": m, "epsilon": e, **settings} for m, e in product(methods, totals)}
    by_cell = by_seed(get, released, cells, seeds, first)
    return {cell: np.array([result["percent"] for result in results]) for cell, results in by_cell.items()}
