"""The chapter's studies of label-private convex optimisation: which runs, how step sizes are tuned, what is worst.

Neighbours and guarantees are those of :mod:`dplib.labels.sgd`. A theorem about every distribution is tested on a
family: :mod:`dplib.labels.simplex` with labels that are more and more random (rho down to 1/128). The *worst* risk is
the largest mean over that family, at each n. Step sizes are tuned to make it small, on runs of their own.
"""

from dataclasses import dataclass

import numpy as np

from dplib import accounting, mechanisms, stats, study
from dplib.labels import bounds, logistic, simplex

RHOS = [2.0**-i for i in range(8)]
_FRESH = 1_000_003  # added to a seed: reported runs, none of which tuned anything


@dataclass(frozen=True)
class Worst:
    """Worst mean excess risk over the family, in units of D L.

    Attributes:
        n: numbers of examples, rising, shape (S,). values: shape (S, replicates), at the worst rho of each n.
        rho: that rho, shape (S,). rate: the c of the step size.
    """

    n: np.ndarray
    values: np.ndarray
    rho: np.ndarray
    rate: float

    def at(self, i: int = -1) -> stats.Measured:
        return stats.mean_interval(self.values[i])

    def below(self, bound) -> bool:
        """Whether the upper end of every interval is at most the bound, shape (S,)."""
        return bool(all(stats.mean_interval(v).high <= b for v, b in zip(self.values, np.asarray(bound), strict=True)))


def slope(x, values) -> stats.Measured:
    """Slope of ln values over ln x, one for each replicate: values of shape (len(x), replicates)."""
    x = np.log(np.asarray(x, dtype=float))
    centred = x - x.mean()
    return stats.mean_interval(centred @ np.log(values) / (centred @ centred))


def worst(risks, n, rates) -> list[Worst]:
    """The worst rho for each rate and n, from risks of shape (snapshots, rhos, rates, replicates)."""
    risks = np.asarray(risks)
    at = risks.mean(axis=-1).argmax(axis=1)  # shape (snapshots, rates)
    rows = np.arange(len(risks))
    return [
        Worst(np.asarray(n), risks[rows, at[:, j], j], np.asarray(RHOS)[at[:, j]], float(rate))
        for j, rate in enumerate(rates)
    ]


def rate_study(settings, *, delta, dimension, snapshots, replicates, runs, seed):
    """LP-RR-SGD and LP-Normal-SGD with the paper's step size and with that of the exact second moment.

    Args:
        settings: (method, K, epsilon) for each curve.

    Returns:
        {(method, K, epsilon): (with the paper's c, with c = D / G)}; the same for LP-Normal-SGD but for rank K - 1.
    """
    jobs, rates = [], []
    for method, classes, epsilon in settings:
        exact = 2 / np.sqrt(simplex.second_moment(method, classes, epsilon, delta, dimension))
        rates.append([_printed_rate(method, classes, epsilon, delta), exact])
        jobs.append(
            {
                "method": method, "classes": classes, "epsilon": epsilon, "delta": delta, "dimension": dimension,
                "predictability": RHOS, "rates": rates[-1], "snapshots": list(snapshots), "replicates": replicates,
                "runs": runs, "seed": seed,
            }
        )  # fmt: skip
    results = study.run(simplex.excess, jobs, what="rates")
    return {
        key: tuple(worst(result["excess"], snapshots, pair))
        for key, result, pair in zip(settings, results, rates, strict=True)
    }, _seconds(results)


def _printed_rate(method, classes, epsilon, delta):
    """c of Theorem 9 and of Proposition 11, at D = 2 and L = 1."""
    if method == "rr":
        return 2 / np.sqrt(bounds.printed_second_moment(classes, epsilon))
    return 2 / np.sqrt(1 + classes * mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2)


def dimension_study(methods, dimensions, *, n, epsilon, delta, multiples, replicates, runs, seed):
    """Worst excess risk of K = 2 labels over the dimension, each method with the best of its own step sizes.

    Args:
        multiples: of the step size D / G that theory gives for the method's own noise.

    The reported runs are new ones, four times as many as those that tuned.

    Returns:
        ({method: list of Worst, one for each dimension}, {method: whether a best multiple lay at an end}, seconds).
    """
    jobs = []
    for method in methods:
        for p in dimensions:
            scale = _scale(method, n, p, epsilon, delta)
            jobs.append(
                {
                    "method": method, "classes": 2, "epsilon": epsilon, "delta": delta, "dimension": p,
                    "predictability": RHOS, "rates": [scale * m for m in multiples], "snapshots": [n],
                    "replicates": replicates, "runs": runs, "seed": seed,
                }
            )  # fmt: skip
    tuning = study.run(simplex.excess, jobs, what="tuning runs")
    best = [int(np.argmin([w.at().value for w in _worst_of(r, j)])) for r, j in zip(tuning, jobs, strict=True)]
    fresh = [
        {**job, "rates": [job["rates"][b]], "seed": seed + _FRESH, "replicates": 4 * replicates}
        for job, b in zip(jobs, best, strict=True)
    ]
    reported = study.run(simplex.excess, fresh, what="runs over the dimension")
    found, edges = {m: [] for m in methods}, dict.fromkeys(methods, False)
    for result, job, b in zip(reported, fresh, best, strict=True):
        found[job["method"]].append(_worst_of(result, job)[0])
        edges[job["method"]] |= b in (0, len(multiples) - 1)
    return found, edges, _seconds(tuning) + _seconds(reported)


def _worst_of(result, job):
    return worst(result["excess"], job["snapshots"], job["rates"])


def _scale(method, n, p, epsilon, delta):
    if method.endswith("mean"):  # one over the length of the noise in the mean: the weights are c times the mean
        noise = p * mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2 / n if method == "dp-mean" else 0.0
        second = simplex.second_moment(method.removeprefix("dp-"), 2, epsilon, delta, p)
        return 4 / np.sqrt((second + noise) / n)
    return 2 / np.sqrt(simplex.second_moment(method, 2, epsilon, delta, p))


def set_study(classes, right, *, epsilon, n, dimension, replicates, runs, seed):
    """Corollary 10: excess risk for k = 1 to K labels, when the hinted label is among the k with chance right(k).

    Labels follow the hint (rho = 1); the step size is D / G of each k.

    Returns:
        (risks of shape (K, replicates), miss rates of shape (K,), seconds).
    """
    jobs = [
        {
            "method": "rr", "classes": classes, "epsilon": epsilon, "delta": 0.5, "dimension": dimension,
            "predictability": [1.0], "snapshots": [n], "replicates": replicates, "runs": runs, "seed": seed,
            "rates": [2 / np.sqrt(simplex.second_moment("rr", classes, epsilon, 0.5, dimension, keep=k))],
            "keep": k, "prior_right": right(k),
        }
        for k in range(1, classes + 1)
    ]  # fmt: skip
    results = study.run(simplex.excess, jobs, what="sets of labels")
    risks = np.array([np.asarray(result["excess"])[0, 0, 0] for result in results])
    misses = np.array([simplex.miss_rate(classes, k, 1.0, right(k)) for k in range(1, classes + 1)])
    return risks, misses, _seconds(results)


def logistic_study(dimensions, *, n, epsilon, delta, rates, steps, sample_rate, problem, tuning, seeds, seed):
    """Logistic regression over the dimension: both label-private passes, and DP-SGD in its best of several settings.

    Args:
        rates: multiples tried for every method, of D / G for a single pass and of D/2 for many passes.
        steps: numbers of passes tried where many are allowed; whole-example DP with full and with Poisson batches, of
            this sample_rate.
        problem: alpha, kappa and radius of :mod:`dplib.labels.logistic`.
        tuning, seeds: numbers of data sets for choosing (rate, steps), and for the report.

    Returns:
        ({method: (risks in units of D L, shape (dimensions, seeds), settings chosen)}, seconds).
    """
    families = {
        "SGD, no privacy": [("sgd", 1, 1.0)],
        "LP-RR-SGD": [("rr", 1, 1.0)],
        "RR, many passes": [("rr-gd", s, 1.0) for s in steps],
        "LP-Normal-SGD": [("normal", 1, 1.0)],
        "DP-SGD, one pass": [("dp-sgd", 1, 1.0)],
        "DP, best of many": [("dp-gd", round(s / q), q) for s in steps for q in (1.0, sample_rate)],
    }
    common = {"n": n, "epsilon": epsilon, **problem}
    found, seconds = {}, 0.0
    for name, settings in families.items():
        risks, chosen = [], []
        for p in dimensions:
            jobs = [
                {
                    **common,
                    "method": m,
                    "p": p,
                    "steps": s,
                    "sample_rate": q,
                    **_noise(m, s, q, p, epsilon, delta, rates, problem["radius"]),
                }
                for m, s, q in settings
            ]
            tried = study.run(
                logistic.run, [{**j, "seed": seed + i} for j in jobs for i in range(tuning)], what="tuning runs"
            )
            scores = np.array([r["excess"] for r in tried]).reshape(len(jobs), tuning, -1).mean(axis=1)
            which, rate = np.unravel_index(scores.argmin(), scores.shape)
            job = {**jobs[which], "rates": [jobs[which]["rates"][rate]]}
            runs = study.run(
                logistic.run, [{**job, "seed": seed + _FRESH + i} for i in range(seeds)], what="logistic regressions"
            )
            risks.append([r["excess"][0] / (2 * problem["radius"]) for r in runs])
            chosen.append((job["steps"], job["sample_rate"], rate in (0, len(rates) - 1)))
            seconds += _seconds(tried) + _seconds(runs)
        found[name] = (np.array(risks), chosen)
    return found, seconds


def _noise(method, steps, sample_rate, p, epsilon, delta, rates, radius):
    """Noise and step sizes: substitution for passes and full batches, add/remove for Poisson batches."""
    if method in ("sgd", "rr"):
        sigma, second = 0.0, 1.0 if method == "sgd" else float(bounds.rr_worst_second_moment(2, epsilon))
    elif method.endswith("gd") and method != "dp-sgd":
        sigma = 0.0
        if method == "dp-gd" and sample_rate < 1:
            sigma = accounting.noise_multiplier(epsilon, sample_rate, steps, delta, "pld")
        elif method == "dp-gd":
            sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0 * np.sqrt(steps))
        return {"sigma": float(sigma), "rates": [radius * r for r in rates]}
    else:
        sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0)
        second = 1 + sigma**2 * (1 if method == "normal" else p)
    return {"sigma": float(sigma), "rates": [2 * radius * r / np.sqrt(second) for r in rates]}


def _seconds(results):
    return sum(r["cpu_seconds"] for r in results)
