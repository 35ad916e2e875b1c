"""The parts of chapter 10b: runs of label-private convex optimisation, how step sizes are tuned, and what is worst.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says.
Neighbours and guarantees are those of :mod:`dplib.debiased`. The *worst* risk is the largest mean over
:mod:`papers.labels.simplex` with rho down to 1/128, at each n; step sizes are tuned to make it small, on runs of their
own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import Get
from dplib import debiased, mechanisms, stats
from papers.labels import bounds, simplex, theory_checks

RHOS = [2.0**-i for i in range(8)]
FRESH = 1_000_003  # added to a seed: reported runs, none of which tuned anything
METHODS = {  # of the comparison over the dimension
    "sgd": "SGD, no privacy",
    "mean": "mean, no privacy",
    "rr": "LP-RR-SGD",
    "rr-mean": "RR, many passes",
    "normal": "LP-Normal-SGD",
    "dp-sgd": "DP-SGD, one pass",
    "dp-mean": "DP, best of many",
}


def slope(x, values) -> stats.Measured:
    """Slope of ln values over ln x, one for each replicate: values of shape (len(x), replicates)."""
    x = np.log(np.asarray(x, dtype=float))
    centred = x - x.mean()
    return stats.mean_interval(centred @ np.log(values) / (centred @ centred))


@runs.experiment(
    "simplex_risk",
    version=1,
    probe={"method": "normal", "classes": 4, "epsilon": 1.0, "dimension": 16, "steps": [0.5, 1.0],
           "snapshots": [64, 512], "replicates": 3, "draws": 4, "seed": 3},
)  # fmt: skip
def risk(
    *,
    method: str,
    classes: int,
    epsilon: float,
    dimension: int,
    steps: Sequence[float],
    snapshots: Sequence[int],
    replicates: int,
    draws: int,
    seed: int,
    delta: float = 1e-6,
    rhos: Sequence[float] = tuple(RHOS),
    keep: int | None = None,
    prior_right: float = 1.0,
) -> runs.Result:
    """Worst mean excess risk of the last iterate over rho (:func:`papers.labels.simplex.excess`), in units of D L.

    steps: multiples of the step size D / G that theory gives for the method's own noise; 0 is the paper's. draws: runs
    in each of the ``replicates`` means. Returns for each step a list over snapshots: "rho", the worst one, and
    "values", the means at it, (replicates,).
    """
    scale = _scale(method, snapshots[-1], classes, dimension, epsilon, delta, keep)
    rates = [scale * step if step else printed_rate(method, classes, epsilon, delta) for step in steps]
    run = simplex.excess(
        method=method, classes=classes, epsilon=epsilon, delta=delta, dimension=dimension, predictability=list(rhos),
        rates=rates, snapshots=list(snapshots), replicates=replicates, runs=draws, seed=seed, keep=keep,
        prior_right=prior_right,
    )  # fmt: skip
    risks = np.array(run["excess"])  # snapshots, rhos, rates, replicates
    at = risks.mean(axis=-1).argmax(axis=1)
    rows = range(len(snapshots))
    return {
        "rho": [[rhos[at[i, j]] for i in rows] for j in range(len(rates))],
        "values": [[[runs.to_figures(v, 5) for v in risks[i, at[i, j], j]] for i in rows] for j in range(len(rates))],
    }


def printed_rate(method: str, classes: int, epsilon: float, delta: float) -> float:
    """c of Theorem 9 and of Proposition 11, at D = 2 and L = 1."""
    if method == "rr":
        return float(2 / np.sqrt(bounds.printed_second_moment(classes, epsilon)))
    return float(2 / np.sqrt(1 + classes * mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2))


def _scale(method, n, classes, p, epsilon, delta, keep=None) -> float:
    if method.endswith("mean"):  # one over the length of the noise in the mean: the weights are c times the mean
        noise = p * mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2 / n if method == "dp-mean" else 0.0
        second = simplex.second_moment(method.removeprefix("dp-"), classes, epsilon, delta, p)
        return float(4 / np.sqrt((second + noise) / n))
    return float(2 / np.sqrt(simplex.second_moment(method, classes, epsilon, delta, p, keep=keep)))


def rates(
    get: Get,
    *,
    classes: Sequence[int],
    epsilons: Sequence[float],
    fixed: int,
    delta: float,
    longest: int,
    replicates: int,
    draws: int,
) -> tuple[np.ndarray, dict[tuple[str, int, float], np.ndarray]]:
    """Both algorithms with the paper's step size and with that of the exact second moment.

    classes: K, at the first epsilon. epsilons: falling, at K = ``fixed``. longest: passes of up to 2^longest. Returns
    numbers of examples n, (S,), and {(method, K, epsilon): worst risks with the paper's step and with D / G, (2, S,
    replicates)}.
    """
    cells = [(k, epsilons[0]) for k in classes] + [(fixed, e) for e in epsilons[1:]]
    keys = [(method, *cell) for method in ("rr", "normal") for cell in cells]
    snapshots = [2**i for i in range(max(6, longest - 9), longest + 1)]
    jobs = [
        {"method": m, "classes": k, "epsilon": e, "delta": delta, "dimension": 64, "steps": [0.0, 1.0],
         "snapshots": snapshots, "replicates": replicates, "draws": draws, "seed": 10} for m, k, e in keys
    ]  # fmt: skip
    values = [np.array(result["values"]) for result in get(risk, jobs)]
    return np.array(snapshots), dict(zip(keys, values, strict=True))


def dimension(
    get: Get,
    *,
    dimensions: Sequence[int],
    examples: int,
    epsilon: float,
    delta: float,
    steps: Sequence[float],
    replicates: int,
    draws: int,
) -> dict[str, Any]:
    """Worst risk of K = 2 labels over the dimension, each of METHODS with the best of its own step sizes.

    The reported runs are new ones, four times as many as those that tuned. Returns "curves", {name: (dimensions,
    replicates)}; "edges", names whose best step lay at an end; "dimensions", "examples", "epsilon", "delta".
    """
    cells = [(method, p) for method in METHODS for p in dimensions]
    common = {"classes": 2, "epsilon": epsilon, "delta": delta, "snapshots": [examples], "draws": draws}
    jobs = [{**common, "method": m, "dimension": p, "steps": list(steps), "replicates": replicates, "seed": 11}
            for m, p in cells]  # fmt: skip
    best = [int(np.argmin(np.mean(result["values"], axis=(1, 2)))) for result in get(risk, jobs)]
    fresh = [
        {**job, "steps": [steps[b]], "replicates": 4 * replicates, "seed": 11 + FRESH}
        for job, b in zip(jobs, best, strict=True)
    ]
    by_cell = dict(zip(cells, get(risk, fresh), strict=True))
    ends = (0, len(steps) - 1)
    return {
        "curves": {name: np.array([by_cell[m, p]["values"][0][0] for p in dimensions]) for m, name in METHODS.items()},
        "edges": sorted({METHODS[m] for (m, _), b in zip(cells, best, strict=True) if b in ends}),
        "dimensions": list(dimensions),
        "examples": examples,
        "epsilon": epsilon,
        "delta": delta,
    }


def hint(k: int, classes: int) -> float:
    """Chance that the hinted label is among the k likeliest: a prior that is worth something, but not much."""
    return 1 - (1 - k / classes) ** 2


def sets(
    get: Get, *, classes: int, examples: int, epsilon: float, replicates: int, draws: int
) -> dict[str, np.ndarray]:
    """Corollary 10: risk for k = 1 to K labels, where the hinted label is among the k with chance :func:`hint`.

    Labels follow the hint (rho = 1); the step size is D / G of each k. Returns "risks", (K, replicates), "misses",
    Pr[y not in Y_k], (K,), and "bounds", eq. (8) with constants, (K,).
    """
    every = range(1, classes + 1)
    jobs = [
        {"method": "rr", "classes": classes, "epsilon": epsilon, "delta": 0.5, "dimension": 64, "rhos": [1.0],
         "snapshots": [examples], "replicates": replicates, "draws": draws, "seed": 12, "steps": [1.0], "keep": k,
         "prior_right": hint(k, classes)} for k in every
    ]  # fmt: skip
    misses = np.array([simplex.miss_rate(classes, k, 1.0, hint(k, classes)) for k in every])
    return {
        "risks": np.array([result["values"][0][0] for result in get(risk, jobs)]),
        "misses": misses,
        "bounds": bounds.corollary10_bound(np.array(every), epsilon, misses, examples),
    }


LINE = debiased.LabelsOnLine(classes=4, k=2, rho=0.9)


@runs.experiment("debiased_risk", version=1, probe={"epsilon": 0.5, "n": 200, "draws": 20, "seed": 3})
def deviation(*, epsilon: float, n: int, draws: int, seed: int) -> runs.Result:
    """:func:`papers.labels.theory_checks.generalisation` on fresh data sets: lists of ``draws`` values."""
    rng = np.random.default_rng([seed, n, round(1e6 * epsilon)])
    deviations = theory_checks.generalisation(LINE, n, epsilon, draws, rng)
    return {name: [runs.to_figures(v, 4) for v in values] for name, values in deviations.items()}


def generalisation(
    get: Get, *, examples: Sequence[int], epsilons: Sequence[float], draws: int, beta: float
) -> dict[str, Any]:
    """Debiased risks beside our bound: "found", {(epsilon, n): arrays (draws,)}; "bounds", {(epsilon, n): number}."""
    cells = [(e, n) for e in epsilons for n in examples]
    results = get(deviation, [{"epsilon": e, "n": n, "draws": draws, "seed": 14} for e, n in cells])
    complexity = {n: debiased.thresholds_rademacher(n) for n in examples}
    k = LINE.members.shape[1]
    return {
        "found": {
            c: {name: np.array(v) for name, v in result.items()} for c, result in zip(cells, results, strict=True)
        },
        "bounds": {(e, n): debiased.theorem17_bound(LINE.miss, k, e, n, beta, complexity[n]) for e, n in cells},
        "examples": list(examples),
        "epsilons": list(epsilons),
        "draws": draws,
        "beta": beta,
    }


@runs.experiment("label_theory_checks", version=1, probe={"cases": 20, "epsilon": 1.0, "delta": 1e-6, "seed": 3})
def check(*, cases: int, epsilon: float, delta: float, seed: int) -> runs.Result:
    """Every statement of the theory that random cases can test: an error that must vanish, or a ratio of two sides."""
    names = ("debiasing", "pass", "normal", "losses", "norms", "moving", "signs", "seventeen", "rademacher", "lemma20")
    streams = dict(zip(names, map(np.random.default_rng, np.random.SeedSequence(seed).spawn(len(names))), strict=True))
    checked: Mapping[str, Any] = {
        **theory_checks.debiasing((2, 4, 8, 32), (epsilon, epsilon / 2, epsilon / 8), cases, streams["debiasing"]),
        **theory_checks.one_pass(epsilon, streams["pass"]),
        **theory_checks.loss_of_a_normal_step(epsilon, delta, cases, streams["normal"]),
        **theory_checks.assumptions(cases, streams["losses"]),
        **theory_checks.noise_slopes(streams["norms"]),
        **theory_checks.moved(cases, streams["moving"]),
        **theory_checks.signs(epsilon, cases, streams["signs"]),
        **theory_checks.debiased_losses(epsilon, cases, streams["seventeen"]),
        **theory_checks.rademacher(streams["rademacher"]),
        "lemma20": theory_checks.lemma_20(cases, streams["lemma20"]),
    }
    return {name: float(value) for name, value in checked.items()}


def checks(get: Get, *, cases: int, epsilon: float, delta: float, seeds: int) -> dict[str, float]:
    """The largest value of each check over the seeds."""
    jobs = [{"cases": cases, "epsilon": epsilon, "delta": delta, "seed": seed} for seed in range(seeds)]
    results = get(check, jobs)
    return {name: max(result[name] for result in results) for name in results[0]} | {
        "cases": cases * seeds,
        "epsilon": epsilon,
    }


@runs.experiment("copied_signs", version=1, probe={"n": 256, "epsilon": 0.1, "seed": 3})
def copied(*, n: int, epsilon: float, seed: int, draws: int = 200) -> runs.Result:
    """Mean risk of the sums of RR's answers on the data of Lemma 15, copied as often as makes the bound largest."""
    rng = np.random.default_rng([seed, round(1e6 * epsilon)])
    k = bounds.best_copies(epsilon)
    return {"risk": float(bounds.risks_of_rr_sums(n, epsilon, k, draws, rng).mean()), "copies": k}


def construction(get: Get, *, n: int, epsilons: Sequence[float]) -> dict[str, list[float]]:
    """Excess risks of algorithms on the data of the lower bounds, and the bounds: {name: values over epsilon}."""
    sums = get(copied, [{"n": n, "epsilon": e, "seed": 15} for e in epsilons])
    grid = np.geomspace(0.02, 1, 8)
    return {
        "epsilon": list(epsilons),
        "LP-RR-SGD, no copies": [
            min(bounds.risk_of_lp_rr_sgd(n, e, c) for c in grid * np.tanh(e / 2)) for e in epsilons
        ],
        "RR signs, no copies": [float(bounds.risk_of_rr_signs(n, e)) for e in epsilons],
        "RR sums, copied": [sum["risk"] for sum in sums],
        "careful counts, copied": [bounds.risk_of_careful_counts(n, e) for e in epsilons],
        "bound: sharp": [bounds.lemma15_bound(n, e, sharp=True) for e in epsilons],
        "bound: paper": [bounds.lemma15_bound(n, e) for e in epsilons],
    }
