"""Selection of features as kept runs: Section 4.1 under every reading, pairs of real classes, releases, networks.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/02.yml``). Neighbours differ in the features of one record; labels and class sizes are public.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats as sps

from book.evidence import runs
from book.evidence.plans import Get
from dplib import data, mechanisms, selection, sgd
from papers.larger_models import dfs_errors as tools
from papers.larger_models import dfs_networks

SIZES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 500, 1000, 3000)  # features kept
PIXELS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 400, 1000)
BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SMALL_CASE = {"alpha": 1.3, "sd": 0.25, "threshold": 0.75, "important": 20, "others": 180}  # of Theorem 8, 64 records


# ------------------------------------------------------------------------------------------------------ experiments


@runs.experiment(
    "dfs_synthetic", version=1, probe={"variance": 0.1, "weight": 0.88, "seed": 3, "p": 300, "n_per_class": 10}
)
def synthetic(
    *,
    variance: float,
    weight: float,
    seed: int,
    p: int = 3000,
    n_per_class: int = 30,
    kept: int = 20,
    delta: float = 1e-4,
    sizes: list[int] = SIZES,
    epsilons: list[float] = (5.0, 10.0),
    sweep: list[float] = BUDGETS,
    rough_to: int = 300,
) -> runs.Result:
    """One draw of Section 4.1: exact errors of the Fisher classifier under every reading of noise, choice and test.

    Args:
        variance: mean of the features' variances. weight: share of features whose means differ.
        sizes, epsilons: of the curves; sweep: budgets at ``kept`` features. rough_to: sizes 1, 2, ... of single curves.

    Returns:
        "curves": {reading at a budget, or "none": {criterion: errors by size}}; "sweep": {reading: {criterion: errors
        by budget}}. "rough": :func:`papers.larger_models.dfs_errors.roughness` of single curves, at the first
        budget. "same": {noise at a budget: features of the ``kept`` best that distance and |T| keep under it}.
        "log10_separation" of zero from other means without noise, at the best threshold. "means": shares "not_zero",
        "below_0.1", "below_0.01". "norm_growth": exponent of p in the noise variance. "few": ``kept`` features against
        all.
    """
    sizes = np.unique(np.minimum(sizes, p))
    cell = round(1000 * variance), round(1000 * weight)
    rng = np.random.default_rng(np.random.SeedSequence([2, seed, *cell]))
    problem = tools.synthetic(p, n_per_class, variance, weight, rng)
    small = tools.synthetic(p // 10, n_per_class, variance, weight, rng)
    every = np.arange(1, min(rough_to, p) + 1)
    single = tools.all_curves(problem, tools.ONE, ("DFS", "no selection"), every, epsilons[:1], delta)
    mu = problem.test[1, 0]
    return {
        "curves": _rounded(tools.all_curves(problem, tools.READINGS, tools.CRITERIA, sizes, epsilons, delta)),
        "sweep": _sweep(problem, tools.READINGS, min(kept, p), sweep, delta),
        "rough": {
            key.partition("; ε")[0]: {c: [_short(number) for number in tools.roughness(e)] for c, e in by.items()}
            for key, by in single.items()
        },
        "same": {
            f"{noise}; ε = {epsilon:g}": tools.same_features(
                problem, min(kept, p), tools.noise_sd(tools.Reading(noise), problem.largest_norm, epsilon, delta)
            )
            for noise in ("definition 3", "sensitivity one")
            for epsilon in epsilons
        },
        "log10_separation": _short(_best_separation(mu, problem.test_variance, n_per_class) / np.log(10)),
        "means": {"not_zero": float(np.mean(mu != 0))}
        | {f"below_{level:g}": float(np.mean(np.abs(mu) < level)) for level in (0.1, 0.01)},
        "norm_growth": _short(2 * np.log(problem.largest_norm / small.largest_norm) / np.log(p / (p // 10))),
        "few": _rounded(tools.few_against_all(problem, min(kept, p), epsilons[0], delta)),
    }


def _best_separation(mu: np.ndarray, variances: np.ndarray, n: int) -> float:
    sd, every = np.sqrt(variances.sum(0) / n), np.zeros(len(mu))
    return max(selection.log_separation(mu, sd, y, every) for y in np.geomspace(1e-3, 10, 40))


def _sweep(problem: tools.Problem, readings, m: int, budgets, delta: float) -> dict[str, dict[str, list[float]]]:
    """Errors at m features by budget: {reading: {criterion: errors}}."""
    criteria = ("DFS", *tools.RIVALS)
    curves = tools.all_curves(problem, readings, criteria, [m], budgets, delta)
    return {
        str(reading): {c: [_short(curves[reading.at(b)][c][0]) for b in budgets] for c in criteria}
        for reading in readings if budgets
    }  # fmt: skip


@runs.experiment("dfs_checks", version=1, probe={"seed": 3, "draws": 50, "separations": 50})
def checks(
    *,
    seed: int,
    n_per_class: int = 30,
    features: int = 8,
    draws: int = 400,
    separations: int = 500,
    epsilon: float = 5.0,
    delta: float = 1e-4,
) -> runs.Result:
    """What can be checked by drawing: the criteria, what Definition 3's noise does to both, Theorem 8 in a small case.

    Returns:
        "welch": largest difference of eq. (15) to SciPy's statistic; "distance": of Definition 7 to the means. "pairs":
        of the k-class score to the largest over pairs. "shift": mean change of D under the noise, in standard
        deviations of that change. "added": variance that the noise adds to Sigma-hat, over the printed one. "sd_clean",
        "sd_noisy": of D. "separated": of ``separations`` draws, those that the threshold of SMALL_CASE separates.
    """
    rng = np.random.default_rng(np.random.SeedSequence([22, seed]))
    x, labels = rng.normal(size=(60, 40)), np.repeat([0, 1], 30)
    groups = x[labels == 0], x[labels == 1]
    welch = np.abs(sps.ttest_ind(*groups, equal_var=False).statistic)
    means = rng.normal(size=(10, 50))
    pairs = np.max([np.abs(means[a] - means[b]) for a, b in combinations(range(10), 2)], axis=0)
    alpha, variances = rng.laplace(0, 0.5, features), rng.exponential(10.0, features)
    z = np.sqrt(variances) * rng.normal(size=(draws, 2, n_per_class, features))
    z[:, 0] += alpha
    noise_sd = mechanisms.paper_sigma(epsilon, delta, 2 * np.abs(z).sum(3).max((1, 2)))[:, None]
    noisy = z + noise_sd[:, None, None] * rng.normal(size=z.shape)
    d, d_noisy = (points[:, 0].mean(1) - points[:, 1].mean(1) for points in (z, noisy))
    pooled, pooled_noisy = (points.var(2, ddof=1).mean(1) for points in (z, noisy))
    case = SMALL_CASE
    signal = np.r_[np.full(case["important"], case["alpha"]), np.zeros(case["others"])]
    drawn = np.abs(signal + rng.normal(size=(separations, 2, 32, len(signal))).mean(2).sum(1))
    first, rest = np.split(drawn, [case["important"]], axis=1)
    return {
        "welch": float(np.abs(selection.t_statistic(x, labels) - welch).max()),
        "distance": float(np.abs(selection.distance(x, labels) - np.abs(groups[0].mean(0) - groups[1].mean(0))).max()),
        "pairs": float(np.abs(selection.mean_distance(means) - pairs).max()),
        "shift": _short(((d_noisy - d) / (noise_sd * np.sqrt(2 / n_per_class))).mean()),
        "added": _short(((pooled_noisy - pooled) / noise_sd**2).mean()),
        "sd_clean": _short(d.std(0, ddof=1).mean()),
        "sd_noisy": _short(d_noisy.std(0, ddof=1).mean()),
        "separated": int(((first.min(1) >= case["threshold"]) & (rest.max(1) < case["threshold"])).sum()),
        "separations": separations,
    }


@runs.experiment("dfs_pair", version=1, data=("dataset",), probe={"dataset": "digits", "seed": 3})
def pair(
    *,
    dataset: str,
    seed: int,
    classes: list[int] | None = None,
    n: int = 60,
    n_test: int = 200,
    kept: int = 20,
    delta: float = 1e-4,
    sizes: list[int] = PIXELS,
    epsilons: list[float] = (1.0, 2.0, 5.0),
    sweep: list[float] = BUDGETS,
) -> runs.Result:
    """Test errors of the Fisher classifier on two classes of a data set, pixels or words as features.

    Args:
        dataset: images, or "rcv1" (two topics of more than 600 documents). seed: of records, noise and the classes.
        classes: the two, in this order; else drawn. n, n_test: training and test records a class.

    Returns:
        "classes"; "curves" and "sweep" as :func:`synthetic`, for noise of sensitivity one and Algorithm 1's as printed
        on clean test points; "turns": {criterion: share of the sizes to 100 at which a curve turns}.
    """
    rng = np.random.default_rng(np.random.SeedSequence([23, seed]))
    loaded = _loaded(dataset)
    if dataset == "rcv1":
        topics = np.flatnonzero(np.asarray(loaded.y_train.sum(0)).ravel() > 600)
        drawn = rng.choice(topics, 2, replace=False)
        loaded, classes = tools.two_topics(loaded, tuple(classes or drawn.tolist())), [0, 1]
    drawn = rng.choice(len(loaded.classes), 2, replace=False).tolist()
    classes = list(classes or drawn)
    problem, _ = tools.from_data(loaded, tuple(classes), n, n_test, rng)
    return {"classes": classes, **_measured(problem, sizes, epsilons, sweep, kept, delta)}


def _measured(problem: tools.Problem, sizes, epsilons, sweep, kept: int, delta: float) -> dict[str, Any]:
    p = problem.train.shape[2]
    sizes, small = np.unique(np.minimum(sizes, p)), np.arange(1, min(100, p) + 1)
    readings = (*tools.ONE, tools.Reading("algorithm 1, variance", test="clean"))
    criteria = ("DFS", *tools.RIVALS, "signed t, other order", "no selection")
    noisy = tools.Reading("sensitivity one")
    result = {
        "curves": _rounded(tools.all_curves(problem, readings, criteria, sizes, epsilons, delta)),
        "sweep": _sweep(problem, readings, min(kept, p), sweep, delta),
    }
    if sweep:  # the long form: curves over all sizes too
        epsilon = max(epsilons)
        single = {c: tools.curve(problem, noisy, c, small, epsilon, delta) for c in ("DFS", *tools.RIVALS)}
        result["turns"] = {c: _short(tools.roughness(curve)[0]) for c, curve in single.items()}
    return result | {"sizes": sizes.tolist()}


@functools.lru_cache(maxsize=2)
def _loaded(dataset: str):
    return data.load(dataset)


@runs.experiment("dfs_release", version=1, data=("dataset",), probe={"dataset": "digits", "seed": 3, "epsilons": [5.0]})
def release(
    *,
    dataset: str,
    seed: int,
    epsilons: list[float] = BUDGETS,
    delta: float = 1e-4,
    n: int = 60,
    n_test: int = 200,
    kept: int = 20,
) -> runs.Result:
    """Test errors of classifiers learnt from a release, two random classes of images, {budget: {way: error}}.

    The ways are :data:`papers.larger_models.dfs_errors.ARMS`; a budget is what they truly spend, but for the first
    three. As many other records of each class are public, for the ways that choose on these.
    """
    rng = np.random.default_rng(np.random.SeedSequence([24, seed]))
    loaded = _loaded(dataset)
    classes = rng.choice(len(loaded.classes), 2, replace=False).tolist()
    private, public = tools.from_data(loaded, tuple(classes), n, n_test, rng)
    streams = rng.spawn(len(BUDGETS))  # by the place among the book's budgets, so that a budget alone is drawn alike
    by_budget = {}
    for epsilon in epsilons:
        stream = streams[BUDGETS.index(epsilon)] if epsilon in BUDGETS else np.random.default_rng([25, seed])
        budget = selection.Budget(float(epsilon), delta)
        by_budget[f"{epsilon:g}"] = _rounded(tools.price(private, public, kept, budget, stream))
    return by_budget


@runs.experiment(
    "dfs_network",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "seed": 3, "narrow_width": 2, "wide_width": 4, "epochs": 1, "records": 250,
           "pairs": 1, "n": 5},  # with more records another processor's rounding swaps two features of equal score
)  # fmt: skip
def network(
    *,
    dataset: str,
    seed: int,
    narrow: str = "small_cnn",
    narrow_width: int = 64,
    wide: str = "small_cnn",
    wide_width: int = 256,
    epochs: int = 5,
    records: int = 8000,
    table: bool = True,
    settings: list[list[str | float]] = (("variance", 5.0), ("variance", 50.0), ("sd", 5.0), ("sd", 500.0)),
    pairs: int = 6,
    n: int = 60,
    n_test: int = 200,
    delta: float = 1e-4,
    device: str = "cpu",
) -> runs.Result:
    """DFS on the last but one layer of networks: Table 1, and the Fisher classifier on pairs of classes.

    Args:
        narrow, wide, narrow_width, wide_width: as in :func:`papers.larger_models.dfs_networks.build`.
        records: training images, at most. table: whether Table 1 is made, with as many features of the wide network as
            the narrow one has. settings: readings of its noise and claimed budgets. pairs: of classes for the Fisher
            classifier.

    Returns:
        "features" and "network_accuracy" by network; "table": {setting: {row: accuracy and signal}}; "pairs": results
        as of :func:`pair`, at epsilon 5.
    """
    loaded = _loaded(dataset)
    kept = np.random.default_rng([26, seed]).permutation(len(loaded.y_train))[:records]
    loaded = replace(loaded, x_train=loaded.x_train[kept], y_train=loaded.y_train[kept])
    training = sgd.Sgd(epochs=epochs, augment=dataset.startswith("cifar10"))
    widths = {"narrow": (narrow, narrow_width), "wide": (wide, wide_width)}
    clean = {
        name: dfs_networks.last_layer(loaded, *about, training, seed, device)
        for name, about in widths.items()
        if table or name == "wide"
    }
    result: dict[str, Any] = {
        "features": {name: dfs_networks.n_features(*about) for name, about in widths.items()},
        "network_accuracy": {name: network_features.network_accuracy for name, network_features in clean.items()},
        "table": {},
        "pairs": [],
    }
    for noise, epsilon in settings if table else ():
        result["table"][f"{noise}; ε = {epsilon:g}"] = {
            row: _rounded(
                dfs_networks.noisy_accuracy(
                    clean[row.partition(" + ")[0]], row.partition(" + ")[2] or "all", result["features"]["narrow"],
                    noise, float(epsilon), delta, seed, device,
                )
            )
            for row in dfs_networks.ROWS
        }  # fmt: skip
    scale = clean["wide"].train.max()  # to [0, 1] by one number, not private, as in the paper
    view = replace(loaded, x_train=clean["wide"].train / scale, x_test=clean["wide"].test / scale)
    for number in range(pairs):
        rng = np.random.default_rng(np.random.SeedSequence([27, seed, number]))
        classes = rng.choice(len(loaded.classes), 2, replace=False).tolist()
        problem, _ = tools.from_data(view, tuple(classes), n, n_test, rng)
        result["pairs"].append({"classes": classes, **_measured(problem, PIXELS[:9], [5.0], [5.0], 20, delta)})
    return result


def _rounded(value: Any) -> Any:
    """Numbers of mappings and lists to four figures."""
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | np.ndarray):
        return [_rounded(entry) for entry in value]
    return value if isinstance(value, str) else _short(value)


def _short(value: float) -> float:
    # Six decimals at most: an error of 1e-40 is 0 to any reader.
    return round(runs.to_figures(value, 4), 6)


# ------------------------------------------------------------------------------------------------------------ parts


LEADS = {"sizes": [20, 50, 100, 200, 400, 1000], "epsilons": [1.0, 2.0], "sweep": []}


def one_pair(get: Get, *, dataset: str, number: int, seeds: int, fresh: int) -> dict[str, tuple[dict, np.ndarray]]:
    """The pair of classes in the order, and the cell, in which DFS leads most; its lead on fresh draws.

    Args:
        number: of classes. seeds: draws of every pair. fresh: further draws of the one picked, for each rival.

    Returns:
        {rival: (where, leads (fresh,))}, a lead being the rival's test error less that of DFS; ``where`` has classes,
        reading with its budget, and size.
    """
    every = list(combinations(range(number), 2))
    jobs = [{"dataset": dataset, "classes": list(classes), **LEADS, "seed": 5000 + seed} for classes in every
            for seed in range(seeds)]  # fmt: skip
    results = get(pair, jobs)
    result = {}
    for rank, (rival, columns) in enumerate(
        {"t-statistic": ["t-statistic"], "signed t": ["signed t", "signed t, other order"]}.items()
    ):
        cells: dict[tuple, list[float]] = {}
        for job, measured in zip(jobs, results, strict=True):
            for key, by in measured["curves"].items():
                for column in columns if key != tools.NO_NOISE else ():
                    for size, lead in zip(measured["sizes"], np.subtract(by[column], by["DFS"]), strict=True):
                        cells.setdefault((tuple(job["classes"]), column, key, size), []).append(lead)
        classes, column, key, size = max(cells, key=lambda cell: np.mean(cells[cell]))
        again = get(pair, [{"dataset": dataset, "classes": list(classes), **LEADS, "seed": 6000 + 1000 * rank + seed}
                           for seed in range(fresh)])  # fmt: skip
        place = again[0]["sizes"].index(size)
        leads = [run["curves"][key][column][place] - run["curves"][key]["DFS"][place] for run in again]
        order = classes[::-1] if column.endswith("other order") else classes
        result[rival] = {"classes": order, "reading": key, "size": size}, np.array(leads)
    return result
