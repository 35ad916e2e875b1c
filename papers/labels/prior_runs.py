"""The parts of chapter 10: which runs of label privacy with priors from public inputs, and how they are grouped.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/10.yml``). Every choice is made on validation records and on seeds of its own; those records' labels
are true ones, and no epsilon covers the choice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import FIRST, Get, by_seed
from dplib import checks, priors
from dplib.stats import Measured, mean_interval, paired
from papers.labels.later_method_runs import LATER, compare_later
from papers.labels.prior_check_runs import membership, private_sgd
from papers.labels.prior_check_runs import votes as cluster_votes
from papers.labels.prior_method_runs import METHODS, compare

STEP, MOST = 5.0, 8  # a grid of learning rates grows by this factor, up to so many


@dataclass(frozen=True, eq=False)
class Compared:
    """Runs of several methods on one data set.

    ``test``: method to accuracies in percent, (seeds, budgets). ``rates``: the chosen learning rates, one a budget.
    ``facts``: name to shares, (seeds, budgets). ``tried``: the learning rates that were tried, rising.
    """

    epsilons: tuple[float, ...]
    test: Mapping[str, np.ndarray]
    rates: Mapping[str, list[float]]
    facts: Mapping[str, np.ndarray]
    tried: tuple[float, ...]

    def of(self, method: str, epsilon: float) -> np.ndarray:
        """Test accuracies by seed."""
        return self.test[method][:, self.epsilons.index(epsilon)]

    def mean(self, method: str, epsilon: float) -> Measured:
        """Test accuracy with its 95% interval over the seeds."""
        return mean_interval(self.of(method, epsilon))

    def gain(self, method: str, over: str, epsilon: float) -> Measured:
        """Paired difference of test accuracies, in points."""
        return paired(self.of(method, epsilon), self.of(over, epsilon)).difference

    def fact(self, name: str, epsilon: float) -> float:
        """Mean share over the seeds, in percent."""
        return 100 * float(self.facts[name][:, self.epsilons.index(epsilon)].mean())


def methods(
    get: Get,
    *,
    datasets: Sequence[str],
    epsilons: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int,
    methods: Sequence[str] = tuple(METHODS),
    first: int = 0,
    **settings: Any,
) -> dict[str, Compared]:
    """All methods on the same records, features and batches: {data set: :class:`Compared`}.

    Each has the learning rate that is best on validation records at each budget. The grid grows at an end where a best
    rate of a private method lies, up to MOST rates; with one rate nothing is tuned.
    """
    return {
        name: _tuned(
            get, {"dataset": name, **settings}, list(epsilons), list(methods), rates, seeds, tuning_seeds, first=first
        )
        for name in datasets
    }


def later(
    get: Get,
    *,
    datasets: Sequence[str],
    epsilons: Sequence[float],
    rates: Mapping[str, Sequence[float]],
    seeds: int,
    tuning_seeds: int,
    **settings: Any,
) -> dict[str, Compared]:
    """Methods of later years, each with a grid of its own, tuned as those of :func:`methods`: {data set: Compared}.

    Args:
        rates: method of :data:`LATER` to its learning rates, or for "sums" its ridges.
    """
    checks.check_names(rates, LATER, "rates")
    by_data = {}
    for name in datasets:
        fixed = {"dataset": name, **settings}
        by_method = {
            m: _tuned(get, fixed, list(epsilons), [m], rates[m], seeds, tuning_seeds, compare_later) for m in rates
        }
        test, chosen = (
            {m: getattr(method_compared, part)[m] for m, method_compared in by_method.items()}
            for part in ("test", "rates")
        )
        tried = tuple(sorted({rate for method_compared in by_method.values() for rate in method_compared.tried}))
        by_data[name] = Compared(tuple(epsilons), test, chosen, {}, tried)
    return by_data


def _tuned(
    get, fixed, epsilons, names, rates, seeds, tuning_seeds, run=compare, *, public=None, first: int = 0
) -> Compared:
    """public: the data set whose validation records choose; None: the one that is reported. first: of the seeds."""
    fixed = {**fixed, "epsilons": epsilons, "methods": names}
    tuned_on = fixed if public is None else {**fixed, "dataset": public}

    def scored(new: list[float]) -> dict[float, dict[str, np.ndarray]]:
        every = by_seed(get, run, {rate: {**tuned_on, "rates": rate} for rate in new}, tuning_seeds, FIRST)
        return {
            r: {n: np.mean([result["validation"][n] for result in results], axis=0) for n in names}
            for r, results in every.items()
        }

    if len(rates) > 1:
        best, grid = _chosen(rates, scored)
    else:
        best, grid = {name: [float(rates[0])] * len(epsilons) for name in names}, [float(rates[0])]
    results = get(run, [{**fixed, "rates": best, "seed": first + i} for i in range(seeds)])
    return Compared(
        tuple(epsilons),
        {name: 100 * np.array([result["test"][name] for result in results]) for name in names},
        best,
        {name: np.array([result["facts"][name] for result in results]) for name in results[0].get("facts", {})},
        tuple(grid),
    )


def _chosen(rates: Sequence[float], scored: Callable) -> tuple[dict[str, list[float]], list[float]]:
    """Each method's best rate at each budget, and the grid once it has grown for the private methods.

    Args:
        scored: from new rates to {rate: {method: mean validation scores, (budgets,)}}.
    """
    grid, scores = sorted(float(rate) for rate in rates), {}
    while new := [rate for rate in grid if rate not in scores]:
        scores |= scored(new)
        best = {
            name: [max(grid, key=lambda r, n=name, i=i: scores[r][n][i]) for i in range(len(values))]
            for name, values in scores[new[0]].items()
        }
        grid = _grown(grid, {rate for name, rates in best.items() if name != "clean" for rate in rates})
    return best, grid


def _grown(grid: list[float], best: set[float]) -> list[float]:
    """The grid with one more rate beyond each end at which a best one lies, while it may grow."""
    low = [runs.to_figures(grid[0] / STEP, 4)] if grid[0] in best and len(grid) < MOST else []
    high = [runs.to_figures(grid[-1] * STEP, 4)] if grid[-1] in best and len(grid) + len(low) < MOST else []
    return [*low, *grid, *high]


def records(
    get: Get,
    *,
    datasets: Sequence[str],
    epsilons: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int,
    **settings: Any,
) -> dict[str, Compared]:
    """DP-SGD, which protects whole records, tuned as the methods are: {data set: :class:`Compared`}, "dp-sgd"."""
    return {name: _sgd(get, {"dataset": name, **settings}, epsilons, rates, seeds, tuning_seeds) for name in datasets}


def _sgd(get, fixed, epsilons, rates, seeds, tuning_seeds, *, public=None, first: int = 0) -> Compared:
    tuned_on = fixed if public is None else {**fixed, "dataset": public}

    def scored(new: list[float]) -> dict[float, dict[str, np.ndarray]]:
        pairs = [[epsilon, rate] for rate in new for epsilon in epsilons]
        results = get(private_sgd, [{**tuned_on, "pairs": pairs, "seed": FIRST + i} for i in range(tuning_seeds)])
        means = np.mean([result["validation"] for result in results], axis=0).reshape(len(new), -1)
        return {rate: {"dp-sgd": mean} for rate, mean in zip(new, means, strict=True)}

    best, grid = _chosen(rates, scored)
    pairs = [[epsilon, rate] for epsilon, rate in zip(epsilons, best["dp-sgd"], strict=True)]
    results = get(private_sgd, [{**fixed, "pairs": pairs, "seed": first + i} for i in range(seeds)])
    noise = {"noise multiplier": np.array([result["noise_multiplier"] for result in results])}
    noise["sample rate"] = np.array([[result["sample_rate"]] * len(epsilons) for result in results])
    test = {"dp-sgd": 100 * np.array([result["test"] for result in results])}
    return Compared(tuple(epsilons), test, best, noise, tuple(grid))


def frontier(
    get: Get,
    *,
    dataset: str,
    public: str,
    epsilons: Sequence[float],
    methods: Sequence[str],
    rates: Sequence[float],
    ridges: Sequence[float],
    sgd_rates: Sequence[float],
    seeds: int,
    tuning_seeds: int,
    first: int,
    delta: float = 1e-5,
) -> Compared:
    """One task, one account: each method is (epsilon, delta)-label-DP for one replaced label, its choices included.

    Rates and ridges are those that are best on the data set ``public``, so that no private label chose them. "sums" is
    one noisy sum. "dp-sgd" hides whole records by epsilon / 2 and delta / (1 + e^(epsilon / 2)): to replace a label is
    to remove a record and to add one. Its features look at no training image, those of the others may.
    """
    tune = {"seeds": seeds, "tuning_seeds": tuning_seeds, "public": public, "first": first}
    fixed, budgets = {"dataset": dataset}, list(epsilons)
    asked = _tuned(get, fixed, budgets, list(methods), rates, **tune)
    summed = _tuned(get, fixed | {"delta": delta}, budgets, ["sums"], ridges, run=compare_later, **tune)
    each = [
        _sgd(get, fixed | {"delta": delta / (1 + float(np.exp(e / 2)))}, [e / 2], sgd_rates, **tune) for e in budgets
    ]
    sgd = np.concatenate([comparison.test["dp-sgd"] for comparison in each], axis=1)
    chosen = dict(asked.rates) | dict(summed.rates) | {"dp-sgd": [comparison.rates["dp-sgd"][0] for comparison in each]}
    return Compared(tuple(epsilons), {**asked.test, **summed.test, "dp-sgd": sgd}, chosen, asked.facts, asked.tried)


@dataclass(frozen=True, eq=False)
class Votes:
    """Figure 2 on one data set: ``counts`` of clusters, ``epsilons`` of the histograms, accuracies in percent.

    ``accuracy``: (counts, seeds, budgets). ``exact``: without noise, (counts, seeds).
    """

    counts: tuple[int, ...]
    epsilons: tuple[float, ...]
    accuracy: np.ndarray
    exact: np.ndarray

    def best(self, epsilon: float) -> int:
        """The number of clusters with the highest mean accuracy at this budget."""
        return self.counts[int(self.accuracy[:, :, self.epsilons.index(epsilon)].mean(axis=1).argmax())]

    def of(self, count: int, epsilon: float) -> np.ndarray:
        """Accuracies by seed."""
        return self.accuracy[self.counts.index(count), :, self.epsilons.index(epsilon)]


def votes(
    get: Get,
    *,
    datasets: Sequence[str],
    counts: Sequence[int],
    epsilons: Sequence[float],
    totals: Sequence[float],
    seeds: int,
) -> dict[str, Votes]:
    """How often a cluster's most frequent noisy label is right, and what is left for the answers: {data set: Votes}."""
    by_data = {}
    for name in datasets:
        fixed = {"dataset": name, "epsilons": list(epsilons), "totals": list(totals)}
        by_count = by_seed(get, cluster_votes, {c: {**fixed, "group_count": c} for c in counts}, seeds).values()
        accuracy, exact = (
            100 * np.array([[result[w] for result in results] for results in by_count]) for w in ("accuracy", "exact")
        )
        by_data[name] = Votes(tuple(counts), tuple(epsilons), accuracy, exact)
    return by_data


def adaptive(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    counts: Sequence[int],
    shares: Sequence[float],
    fixed: Mapping[str, Any],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int,
) -> dict[float, dict[str, Any]]:
    """Algorithm 4 with C and epsilon_p chosen for each whole budget on validation records, beside ``fixed`` ones.

    Returns by whole budget "chosen" (C, epsilon_p, rate), "fixed_rate", and "test", accuracies in percent of "chosen"
    and "fixed", shape (seeds,) each.
    """
    base = fixed["group_count"], fixed["epsilon_p"]
    pairs = list(dict.fromkeys([base, *((c, p) for c in counts for p in shares)]))
    job = {"dataset": dataset, "epsilons": list(epsilons), "methods": ["clusters"]}
    cells = [(c, p, float(rate)) for c, p in pairs for rate in rates]
    jobs = {cell: job | dict(zip(("group_count", "epsilon_p", "rates"), cell, strict=True)) for cell in cells}
    tried = by_seed(get, compare, jobs, tuning_seeds, FIRST)
    scores = np.array([[result["validation"]["clusters"] for result in tried[cell]] for cell in cells]).mean(axis=1)
    by_epsilon: dict[float, dict[str, Any]] = {}
    for i, epsilon in enumerate(epsilons):
        allowed = [k for k, (_, share, _) in enumerate(cells) if share <= epsilon]
        chosen = cells[max(allowed, key=lambda k, i=i: scores[k, i])]
        fixed_cell = cells[max((k for k in allowed if cells[k][:2] == base), key=lambda k, i=i: scores[k, i])]
        test = {}
        for name, (c, p, rate) in (
            ("chosen", chosen),
            ("fixed", fixed_cell),
        ):  # at all budgets, so that pairs share runs
            again = [{**job, "group_count": c, "epsilon_p": p, "rates": rate, "seed": s} for s in range(seeds)]
            test[name] = 100 * np.array([result["test"]["clusters"][i] for result in get(compare, again)])
        by_epsilon[epsilon] = {"chosen": chosen, "fixed_rate": fixed_cell[2], "test": test}
    return by_epsilon


def attacks(get: Get, *, dataset: str, epsilons: Sequence[float], seeds: int, **settings: Any) -> dict[str, np.ndarray]:
    """The attack on inputs: name of :func:`membership`'s results to shape (seeds, budgets) or (seeds,)."""
    jobs = [{"dataset": dataset, "epsilons": list(epsilons), "seed": seed, **settings} for seed in range(seeds)]
    results = get(membership, jobs)
    return {name: np.array([result[name] for result in results]) for name in results[0]} | {
        "epsilons": np.array(epsilons)
    }


@runs.experiment("laplace_draws", version=1, probe={"parameter": 0.5, "draws": 2000})
def laplace_draws(*, parameter: float, draws: int = 200_000, seed: int = 0) -> runs.Result:
    """Our discrete Laplace noise in bins, (14,) counts between "edges" and beyond."""
    reach = int(np.ceil(4 / parameter))
    edges = np.unique(np.linspace(-reach, reach, 16).astype(int))
    drawn = priors.discrete_laplace(draws, parameter, np.random.default_rng(seed))
    return {
        "edges": edges.tolist(),
        "counts": np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1).tolist(),
    }


YOURS = ("rr", "clusters", "clusters-soft", "subset", "stages", "stages-subset", "clean")


def yours(
    get: Get, *, dataset: str, epsilon: float, seeds: int, clusters: int, histogram_share: float, rate: float = 0.02
) -> Compared:
    """Some methods at a reader's own budget, with one learning rate for all."""
    return methods(
        get, datasets=[dataset], epsilons=[epsilon], rates=[rate], seeds=seeds, tuning_seeds=0, methods=YOURS,
        group_count=clusters, epsilon_p=histogram_share,
    )[dataset]  # fmt: skip
