"""The private Gaussian mixture as kept runs: curves over dimension, training sets, checks of the formulas, images.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/01.yml``). Neighbours differ in one record; every record is released with noise of its own.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import Get, by_seed
from dplib import data, gmm, mechanisms
from papers.common.network_runs import measured
from papers.larger_models import gmm_trials as tools

DIMENSIONS = (20, 50, 150, 500, 1500, 5000, 15000, 50000)
SIGNALS = {"dense": None, "sparse": 20}  # features that differ between the classes
BINS = 100  # of errors from 0 to 1
POWERS = {1.5: (20, 50, 100, 200, 400), 2.0: (20, 50, 100, 200, 300), 3.0: (20, 32, 44)}  # p = n ** power, for each n
GAMMA = 20.0  # squared distance of the classes where it does not fall with n
DEFINITION3 = "Definition 3"


# ------------------------------------------------------------------------------------------------------ experiments


@runs.experiment(
    "mixture_curve", version=1, probe={"noise": "L1", "seed": 3, "dimensions": [20, 150], "replicates": 200}
)
def curve(
    *,
    noise: str,
    seed: int,
    informative: int | None = None,
    distance: float = 2.0,
    n_per_class: int = 30,
    epsilon: float = 5.0,
    delta: float = 1e-4,
    dimensions: list[int] = DIMENSIONS,
    replicates: int = 100,
) -> runs.Result:
    """Separation and error against the number of features; the same draws at every noise.

    Args:
        noise: of :data:`papers.larger_models.gmm_trials.NOISES`; C_p is a mean over ten data sets of the seed.
        informative: features that differ between the classes by ``distance`` standard deviations; None: all.
        replicates: training sets for each dimension.

    Returns:
        For each dimension "p" its "noise_sd", and means of "psi" and "advantage", 1/2 minus the error on noisy test
        points.
    """
    points: dict[str, list[float]] = {"p": list(dimensions), "noise_sd": [], "psi": [], "advantage": []}
    for p in dimensions:
        setting = noisy(p, noise, epsilon, delta, seed, distance, informative, n_per_class)
        psi = gmm.draw_mirrored(setting, replicates, _generator(1, seed, p))
        points["noise_sd"].append(_short(setting.noise_sd))
        points["psi"].append(_short(psi.mean()))
        points["advantage"].append(_short(gmm.advantage(psi, setting.n).mean()))
    return points


@runs.experiment("mixture_draws", version=1, probe={"p": 300, "seed": 3, "informative": 20, "replicates": 400})
def training_sets(
    *,
    p: int,
    seed: int,
    noise: str = "unit",
    informative: int | None = None,
    distance: float = 2.0,
    gamma: float | None = None,
    n_per_class: int = 30,
    epsilon: float = 5.0,
    delta: float = 1e-4,
    replicates: int = 1000,
) -> runs.Result:
    """Exact errors of training sets, one by one, beside Theorem 6 with both o(1) set to 0.

    Args:
        gamma: squared distance of the class means without noise, spread over all features, in place of ``distance``.

    Returns:
        "gamma", eq. (10); "bound" and "predicted", Theorem 6 as printed and corrected for finite n; "error": its means,
        "noisy", "clean" and by the "printed" eq. (8); "psi_ratio" of printed to exact. For class "one" and the
        "average": "above", training sets with an error above the bound, "far", root mean square of Psi / Psi(Theorem 6)
        - 1, and a "histogram" of errors from 0 to 1. "misled": sets with an error of class 1 above 1/2; "spread" of Psi
        of class 1.
    """
    distance = distance if gamma is None else math.sqrt(gamma / p)
    setting = noisy(p, noise, epsilon, delta, seed, distance, informative, n_per_class)
    draws = gmm.draw(setting, replicates, _generator(2, seed, p))
    g = gmm.gamma(setting)
    bound, psi6 = gmm.theorem6(g, p, setting.n), gmm.theorem6_psi(g, p, setting.n)
    psi, errors = draws.psi(), draws.errors()
    kinds = {"one": errors[0], "average": errors.mean(axis=0)}
    far = {"one": psi[0] / psi6 - 1, "average": psi.mean(axis=0) / psi6 - 1}
    return {
        "gamma": _short(g),
        "bound": _short(bound),
        "predicted": _short(gmm.predicted_error(setting)),
        "error": {below: _short(draws.errors(below).mean()) for below in ("noisy", "clean", "printed")},
        "psi_ratio": _short(np.mean(draws.psi("printed")[0] / psi[0])),
        "above": {kind: int(np.sum(values > bound)) for kind, values in kinds.items()},
        "far": {kind: _short(np.sqrt(np.mean(values**2))) for kind, values in far.items()},
        "misled": int(np.sum(psi[0] < 0)),
        "spread": _short(psi[0].std()),
        "histogram": {kind: np.histogram(values, BINS, (0, 1))[0].tolist() for kind, values in kinds.items()},
    }


@runs.experiment("mixture_checks", version=1, probe={"seed": 3, "p": 200, "fresh": 2000, "replaced": 2})
def ingredients(
    *,
    seed: int,
    p: int = 3000,
    n_per_class: int = 30,
    distance: float = 2.0,
    informative: int = 20,
    epsilon: float = 5.0,
    delta: float = 1e-4,
    fresh: int = 10_000,
    replaced: int = 5,
) -> runs.Result:
    """What can be checked on whole data sets: the estimates, the classifier, its error, the distance, the release.

    Args:
        fresh: new points of each class. replaced: data sets whose longest record is replaced.

    Returns:
        "bias" of both means, in standard deviations, and of the variances, relative. "same_decisions" of 1,000 by the
        classifier and by scikit-learn. "fresh": share of new points that are misclassified, and the error by eq. (7),
        exact and as printed. "distance_ratio": squared distance in released data over eq. (10). "variance_ratio":
        released variance over Definition 3's. "definition3_sd": its noise. "replaced": relative change of C_p, and the
        exact delta.
    """
    from sklearn.naive_bayes import GaussianNB

    rng, tau = _generator(3, seed, p), float(mechanisms.paper_sigma(epsilon, delta))
    clean = gmm.two_classes(p, n_per_class, distance, informative)
    loud = replace(clean, noise_sd=tau)
    crowded = replace(loud, n_per_class=200)
    means1, means2, variances = tools.bias_z_scores(crowded, rng) / math.sqrt(p)
    x1, x2 = gmm.draw_samples(replace(loud, n_per_class=400), rng)
    fisher = gmm.fit(x1, x2)
    bayes = GaussianNB().fit(np.vstack([x1, x2]), np.repeat([1, 2], 400))
    bayes.var_[:] = fisher.variances  # naive Bayes with a pooled variance is diagonal discriminant analysis
    points = np.vstack(gmm.draw_samples(replace(loud, n_per_class=500), rng))
    small = tools.setting_with_psi_one(min(p, 300), n_per_class, informative, tau)
    wrong, exact, printed = tools.count_errors(small, fresh, rng)
    setting = gmm.two_classes(150, 4000, distance, informative, tau)
    a, b = gmm.draw_samples(setting, rng)
    v = gmm.fit(a, b).variances
    squared = np.sum(((a.mean(axis=0) - b.mean(axis=0)) ** 2 - 2 * v / 4000) / v)  # freed of its bias
    longest = [tools.replace_the_longest(clean, epsilon, delta, rng) for _ in range(replaced)]
    return {
        "bias": [
            _short(deviation)
            for deviation in (means1 / math.sqrt(200), means2 / math.sqrt(200), variances / math.sqrt(199))
        ],
        "same_decisions": int(np.sum((bayes.predict(points) == 1) == fisher.is_class1(points))),
        "fresh": {name: _short(np.mean(errors)) for name, errors in
                  (("wrong", wrong / fresh), ("exact", exact), ("printed", printed))},
        "distance_ratio": _short(squared / gmm.gamma(setting)),
        "variance_ratio": _short(tools.released_variance_ratio(clean, epsilon, delta, rng)),
        "definition3_sd": _short(noisy(p, "L1", epsilon, delta, seed, distance, informative, n_per_class).noise_sd),
        "replaced": [[_short(change), _short(exact_delta)] for change, exact_delta in longest],
    }  # fmt: skip


@runs.experiment("mixture_chain", version=1, probe={"seed": 3, "dimensions": [20, 150]})
def chain(
    *,
    seed: int,
    informative: int | None = None,
    distance: float = 2.0,
    n_per_class: int = 30,
    epsilon: float = 5.0,
    delta: float = 1e-4,
    dimensions: list[int] = DIMENSIONS[:-2],
) -> runs.Result:
    """The five terms of eq. (11) in one data set for each dimension "p": "terms", (dimensions, 5), from Gamma up."""
    tau, terms = float(mechanisms.paper_sigma(epsilon, delta)), []
    for p in dimensions:
        setting = gmm.two_classes(p, n_per_class, distance, informative)
        points = gmm.draw_samples(setting, _generator(4, seed, p))
        terms.append([_short(term) for term in gmm.gamma_chain(setting, *points, tau)])
    return {"p": list(dimensions), "terms": terms}


@runs.experiment("mixture_example1", version=1, probe={"seed": 3, "draws": 500})
def example(*, seed: int, epsilon: float = 3.0, delta: float = 1e-4, draws: int = 1000) -> runs.Result:
    """Example 1 under four readings of its noise.

    Returns:
        "c_p", mean of 30 data sets; by reading: "sd" of the noise, means over data sets of "distance", "variance" and
        "t" of the two features, the standard deviation of feature 1's distance, and how often "t" and "distance" pick
        feature 2.
    """
    rng = _generator(5, seed)
    c_p = float(gmm.max_norms(tools.EXAMPLE1, 1, 30, rng).mean())
    readings = {
        "no noise": 0.0,
        "standard deviation 3": 3.0,
        "sensitivity one": float(mechanisms.paper_sigma(epsilon, delta)),
        DEFINITION3: float(mechanisms.paper_sigma(epsilon, delta, 2 * c_p)),
    }
    result: dict[str, Any] = {"c_p": _short(c_p), "draws": draws, "readings": {}}
    for name, sd in readings.items():
        drawn = tools.draw_example1(sd, draws, rng)
        picks = {key: int(np.sum(np.diff(np.abs(drawn[key])) > 0)) for key in ("t", "distance")}
        means = {key: [_short(mean) for mean in values.mean(axis=0)] for key, values in drawn.items()}
        spread = _short(drawn["distance"][:, 0].std())
        result["readings"][name] = {"sd": _short(sd), **means, "distance_sd": spread, "picks_2": picks}
    return result


@runs.experiment(
    "mixture_images",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "seed": 3, "n_per_class": 40, "sizes": 3},
)
def images(
    *,
    dataset: str,
    seed: int,
    classes: list[int] = (3, 8),
    n_per_class: int = 300,
    epsilon: float = 5.0,
    delta: float = 1e-4,
    sizes: int = 7,
) -> runs.Result:
    """The Fisher classifier on two classes of images, with random pixels as features, beside the formula.

    Args:
        sizes: numbers of pixels, evenly spaced in their logarithm from 2 to all that vary.

    Returns:
        "pixels"; "error" of images as they are and of images with "shuffled" pixels, by noise and by test points
        ("noisy", "clean"), one for each number of pixels; "formula" likewise, from all points' means and variances.
    """
    pools = _pools(dataset, tuple(classes))
    tau = float(mechanisms.paper_sigma(epsilon, delta))
    noises = {"none": lambda m: 0.0, "unit": lambda m: tau, "public bound": lambda m: tau * math.sqrt(m)}
    worlds = {"images": pools, "shuffled": pools.shuffled(_generator(6, seed))}
    pixels = np.unique(np.geomspace(2, len(pools.kept), sizes).astype(int)).tolist()
    errors: dict[str, Any] = {"pixels": pixels, "error": {world: {} for world in worlds}, "formula": {}}
    for noise, sd in noises.items():
        for world, points in worlds.items():
            rows = [tools.image_errors(points, m, n_per_class, sd(m), _generator(7, seed, m)) for m in pixels]
            columns = [[_short(value) for value in column] for column in zip(*rows, strict=True)]
            errors["error"][world][noise] = dict(zip(("noisy", "clean"), columns[:2], strict=True))
        errors["formula"][noise] = dict(zip(("noisy", "clean"), columns[2:], strict=True))
    return errors


@functools.cache
def _pools(dataset: str, classes: tuple[int, ...]) -> tools.Images:
    source = data.load(dataset)
    x, y = np.concatenate([source.x_train, source.x_test]), np.concatenate([source.y_train, source.y_test])
    return tools.Images.of(x, y, classes)


@functools.cache
def _norm(p: int, order: int, seed: int, distance: float, informative: int | None, n_per_class: int) -> float:
    """C_p of Definition 3, a mean over ten data sets."""
    setting = gmm.two_classes(p, n_per_class, distance, informative)
    return float(gmm.max_norms(setting, order, 10, _generator(8, seed, p)).mean())


def noisy(
    p: int,
    noise: str,
    epsilon: float,
    delta: float,
    seed: int,
    distance: float = 2.0,
    informative: int | None = None,
    n_per_class: int = 30,
) -> gmm.Mixture:
    """The two classes with one of :data:`papers.larger_models.gmm_trials.NOISES`."""
    scale = {"none": 0.0, "unit": 1.0}.get(noise)
    if scale is None:
        scale = 2 * _norm(p, int(noise[1]), seed, distance, informative, n_per_class)
    sd = float(mechanisms.paper_sigma(epsilon, delta, scale)) if scale else 0.0
    return gmm.two_classes(p, n_per_class, distance, informative, sd)


def _generator(*numbers: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(numbers))


_short = functools.partial(runs.to_figures, figures=6)


# ------------------------------------------------------------------------------------------------------------ parts


def curves(get: Get, *, noises: Sequence[str], seeds: int, **settings: Any) -> dict[tuple[str, str], list[runs.Result]]:
    """The first figure: {(signal, noise): curves by seed}."""
    jobs = {(s, noise): {"informative": SIGNALS[s], "noise": noise, **settings} for s in SIGNALS for noise in noises}
    return by_seed(get, curve, jobs, seeds)


def weak(
    get: Get, *, epsilons: Sequence[float], distance: float, informative: int, seeds: int, **settings: Any
) -> dict[tuple[str, float | None], list[runs.Result]]:
    """Noise of a fixed size: {(signal, epsilon): curves by seed}, weak and sparse, or dense; None: no noise."""
    signals = {"dense": {}, "sparse": {"distance": distance, "informative": informative}}
    noises = {e: {"noise": "unit", "epsilon": e} if e else {"noise": "none"} for e in (None, *epsilons)}
    jobs = {(s, e): {**signals[s], **noise, **settings} for s in SIGNALS for e, noise in noises.items()}
    return by_seed(get, curve, jobs, seeds)


def growing(get: Get, *, powers: Sequence[float], seeds: int, **settings: Any) -> dict[tuple, list[runs.Result]]:
    """Theorem 6 as n grows: {(power, n): results by seed} with p = n ** power; power "Definition 3": n ** 1.5."""
    cells = {(power, n): {"p": round(n**power), "n_per_class": n // 2, "noise": "none", "gamma": GAMMA}
             for power in powers for n in POWERS[power]}  # fmt: skip
    cells |= {(DEFINITION3, n): {"p": round(n**1.5), "n_per_class": n // 2, "noise": "L1"} for n in POWERS[1.5]}
    return by_seed(get, training_sets, {key: {**cell, **settings} for key, cell in cells.items()}, seeds)


def chains(get: Get, *, seeds: int, **settings: Any) -> dict[str, list[runs.Result]]:
    """Eq. (11): {signal: terms by seed}."""
    return by_seed(get, chain, {name: {"informative": k, **settings} for name, k in SIGNALS.items()}, seeds)


def networks(
    get: Get,
    *,
    cells: Mapping[str, Mapping[str, Any]],
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    sgd_rates: Sequence[float],
    seeds: int,
    **settings: Any,
) -> dict[tuple[str, float | None], list[runs.Result]]:
    """Figure 1 and Appendix A.1: {(network, budget): results by seed}, each at the rate best on validation records.

    Args:
        cells: name to what :func:`papers.common.network_runs.network_training` takes; with part "fit" its "test" is the
            training accuracy, its "validation" that on the test part. epsilons: budgets; None: SGD, with rates of its
            own.
    """
    budgets = [{"epsilon": e, "max_grad_norm": None if e is None else 1.0} for e in epsilons]
    asked = {(name, e["epsilon"]): {**settings, **cell, **e} for e in budgets for name, cell in cells.items()}
    outcomes = measured(get, asked, {"sgd": sgd_rates, "dp": rates}, seeds=seeds)
    return {key: outcome.runs for key, outcome in outcomes.items()}
