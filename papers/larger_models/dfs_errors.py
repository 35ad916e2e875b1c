"""Section 4 of paper A: error of the Fisher classifier against features kept and epsilon, under every reading.

The paper leaves open what the noise is scaled to, whether features are chosen before or after it falls, and whether it
falls on test points too. A :class:`Reading` fixes these three; a :class:`Problem` fixes data, unit noise and test
points. Nothing here is private: see :func:`dplib.selection.private_dfs`, and :func:`price` for its cost.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from dplib import mechanisms, selection
from dplib.checks import ParameterError
from dplib.data import Dataset


@dataclass(frozen=True)
class Problem:
    """Two classes: training points, standard normal noise for them, and what is classified.

    Args:
        train, noise: (2, n, p).
        test: (2, q, p), test points; or the class means (q = 1) where the law of new points is known.
        test_variance: (2, p), variances of that law, which make the error exact; zeros for test points.
    """

    train: np.ndarray
    noise: np.ndarray
    test: np.ndarray
    test_variance: np.ndarray

    def moments(self, sd: float, features=slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Class means and variances, (2, p), of ``train + sd * noise``, or of some features; O(p) for every new sd."""
        mean_x, mean_e, xx, xe, ee = (part[:, features] for part in self._parts)
        return mean_x + sd * mean_e, xx + 2 * sd * xe + sd**2 * ee

    @cached_property
    def _parts(self):
        means = self.train.mean(1), self.noise.mean(1)
        x, e = self.train - means[0][:, None], self.noise - means[1][:, None]
        return *means, *((a * b).sum(1) / (x.shape[1] - 1) for a, b in ((x, x), (x, e), (e, e)))

    @cached_property
    def largest_norm(self) -> float:
        """C_p of Definition 3."""
        return float(np.abs(self.train).sum(2).max())

    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Training records (2n, p) and labels (2n,)."""
        return np.concatenate(self.train), np.repeat([0, 1], self.train.shape[1])


def synthetic(p: int, n: int, variance_mean: float, weight: float, rng: np.random.Generator) -> Problem:
    """One draw of Section 4.1, with the exact law of new points.

    Args:
        p: features. n: training points a class.
        variance_mean: of the exponential law of the variances: 10 for rate 0.1, 0.1 for scale 0.1.
        weight: share of features whose mean in class 2 is Laplace of rate 2 rather than 0.
    """
    variances = rng.exponential(variance_mean, (2, p))
    mu = np.where(rng.random(p) < weight, rng.laplace(0, 0.5, p), 0.0)
    centres = np.stack([np.zeros(p), mu])[:, None]
    train = centres + np.sqrt(variances)[:, None] * rng.standard_normal((2, n, p))
    return Problem(train, rng.standard_normal(train.shape), centres, variances)


def from_data(dataset, pair: tuple[int, int], n: int, n_test: int, rng: np.random.Generator) -> tuple[Problem, Problem]:
    """Two classes of a data set: the private problem, and public records of the same law (its noise is 0).

    Of each class ``n`` training records, ``n`` public ones and up to ``n_test`` test records, all different, the last
    from the published test part where there is one; flattened to (p,) as float64. ParameterError where a class has too
    few.
    """
    parts = []
    for label in pair:
        rows = rng.permutation(np.flatnonzero(dataset.y_train == label))
        if dataset.x_test is None:
            test, source = rows[2 * n :], dataset.x_train
        else:
            test, source = rng.permutation(np.flatnonzero(dataset.y_test == label)), dataset.x_test
        if len(rows) < 2 * n or not test.size:
            raise ParameterError(
                f"n = {n} is too many for class {label} of {dataset.name}: it has {len(rows)} records, and {n} private "
                f"ones, {n} public ones and some for the test are needed."
            )
        parts.append((dataset.x_train[rows[:n]], dataset.x_train[rows[n : 2 * n]], source[test[:n_test]]))
    smallest = min(test.shape[0] for _, _, test in parts)
    train, public, test = (
        np.stack([_dense(part[:size]) for part in group])
        for size, group in zip((n, n, smallest), zip(*parts, strict=True), strict=True)
    )
    exact = np.zeros((2, train.shape[2]))
    return (
        Problem(train, rng.standard_normal(train.shape), test, exact),
        Problem(public, np.zeros_like(public), test, exact),
    )


def two_topics(dataset: Dataset, pair: tuple[int, int]) -> Dataset:
    """A data set of documents with topics (labels (n, topics), 0/1 CSR) as one of two classes, for :func:`from_data`.

    Label 0 has the first topic and not the second, 1 the second and not the first; all others get -1.
    """

    def labels(topics):
        first, second = (np.asarray(topics[:, k].todense()).ravel().astype(bool) for k in pair)
        return np.select([first & ~second, second & ~first], [0, 1], -1)

    names = tuple(dataset.classes[k] for k in pair)
    return replace(dataset, y_train=labels(dataset.y_train), y_test=labels(dataset.y_test), classes=names)


def _dense(rows) -> np.ndarray:
    """Records (n, ...) or CSR rows as float64 (n, p)."""
    rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
    return rows.reshape(rows.shape[0], -1).astype(float)


RIVALS = ("t-statistic", "signed t")
CRITERIA = ("DFS", *RIVALS, "noise-aware t", "no selection")
NO_NOISE = "none"
NOISES = ("definition 3", "algorithm 1", "algorithm 1, variance", "sensitivity one")


@dataclass(frozen=True)
class Reading:
    """One reading of Section 4: what the noise is scaled to, what the selection sees, what the test points are."""

    noise: str
    select_on: str = "clean"
    test: str = "noisy"

    def __str__(self) -> str:
        return f"{self.noise}; selection {self.select_on}; test {self.test}"

    def at(self, epsilon: float) -> str:
        """The name of its curves at one budget."""
        return f"{self}; ε = {epsilon:g}"


# Algorithm 1 scales its noise to the features it has kept, so it has to select on clean data.
READINGS = tuple(
    Reading(noise, select_on, test)
    for noise in NOISES
    for select_on in (("clean",) if noise.startswith("algorithm") else ("clean", "noisy"))
    for test in ("clean", "noisy")
)
ONE = tuple(reading for reading in READINGS if reading.noise == "sensitivity one")


def scores(problem: Problem, criterion: str, sd_seen: float, sd_later: float = 0.0) -> np.ndarray:
    """What a criterion says of each feature (p,) on data with noise ``sd_seen``, when ``sd_later`` is yet to come."""
    means, variances = problem.moments(sd_seen)
    if criterion == "no selection":  # the features in their own order
        return -np.arange(means.shape[1], dtype=float)
    if criterion == "DFS":
        return selection.mean_distance(means)
    extra = sd_later**2 if criterion == "noise-aware t" else 0.0
    t = selection.moment_t_statistic(means, variances, np.full(2, problem.train.shape[1]), extra_variance=extra)
    # The paper sorts T, not |T|, "in descending order": features with a negative difference then come last.
    sign = {"signed t": 1.0, "signed t, other order": -1.0}.get(criterion)
    return t if sign is None else sign * t * np.sign(means[0] - means[1])


def fisher(means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (p,) and midpoint (p,) of the Fisher classifier (equation 6); a positive score means the first class.

    A feature without spread gets the smallest spread among the others, or the score would be infinite.
    """
    pooled = (variances[0] + variances[1]) / 2
    if pooled.min() <= 0:
        pooled = np.maximum(pooled, pooled[pooled > 0].min(initial=np.inf))
        pooled[np.isinf(pooled)] = 1.0
    return (means[0] - means[1]) / pooled, (means[0] + means[1]) / 2


def errors(problem: Problem, features: np.ndarray, sizes, sd: float, test_sds) -> np.ndarray:
    """Test error (t, s) of the Fisher classifier on the first ``sizes`` (s,) of ``features``.

    Args:
        sd: noise on the training points.
        test_sds: (t,) noise on the test points, which is integrated, not drawn.
    """
    features = features[: sizes[-1]]
    weights, midpoint = fisher(*problem.moments(sd, features))
    blocks = [0, *sizes[:-1]]  # sums up to each size are running sums of block sums
    centre = np.add.reduceat(weights * (problem.test[..., features] - midpoint), blocks, axis=2).cumsum(2)
    towards_error = np.stack([-centre[0], centre[1]])
    parts = weights**2 * np.concatenate([problem.test_variance[:, features], np.ones((1, len(features)))])
    clean, noise = np.split(np.add.reduceat(parts, blocks, axis=1).cumsum(1), [2])
    spread = np.sqrt(clean + np.square(test_sds)[:, None, None] * noise)[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = special.ndtr(towards_error / spread)
    return np.where(spread > 0, error, (towards_error > 0) + 0.5 * (towards_error == 0)).mean((1, 2))


def noise_sd(reading: Reading, norm: float, epsilon: float, delta: float) -> float:
    """Standard deviation of a reading's noise, for the largest L1 norm it is scaled to; 0 for epsilon = inf."""
    if np.isinf(epsilon):
        return 0.0
    if reading.noise == "sensitivity one":
        return float(mechanisms.paper_sigma(epsilon, delta))
    rule = selection.literal_sd if reading.noise.endswith("variance") else selection.definition_sd
    return rule(norm, epsilon, delta)


def curve(problem: Problem, reading: Reading, criterion: str, sizes, epsilon: float, delta: float) -> np.ndarray:
    """Test error (s,) against the number of features kept, ``sizes`` (s,) increasing; epsilon = inf for no noise."""
    return _curves(problem, reading, criterion, sizes, epsilon, delta, (reading.test,))[0]


def _curves(problem, reading, criterion, sizes, epsilon, delta, tests) -> np.ndarray:
    """The curves (t, s) of several kinds of test points, which share selection and classifier."""

    def classified(order, sizes, sd):
        return errors(problem, order, sizes, sd, [sd if test == "noisy" else 0.0 for test in tests])

    if reading.noise.startswith("algorithm") and np.isfinite(epsilon):  # the scale is that of the features kept
        order = clean_order(problem, criterion)
        norms = _largest_norms(problem, order[: sizes[-1]], sizes)
        parts = zip(sizes, (noise_sd(reading, norm, epsilon, delta) for norm in norms), strict=True)
        return np.concatenate([classified(order[:m], [m], sd) for m, sd in parts], axis=1)
    sd = noise_sd(reading, problem.largest_norm, epsilon, delta)
    seen, later = (sd, 0.0) if reading.select_on == "noisy" else (0.0, sd)
    return classified(selection.top(scores(problem, criterion, seen, later), sizes[-1]), sizes, sd)


def clean_order(problem: Problem, criterion: str) -> np.ndarray:
    """All features by a criterion on clean data, best first."""
    return selection.top(scores(problem, criterion, 0.0), problem.train.shape[2])


def _largest_norms(problem: Problem, order: np.ndarray, sizes) -> np.ndarray:
    """N_max of the first ``sizes`` of the features in ``order``."""
    blocks = np.add.reduceat(np.abs(problem.train[..., order]), [0, *sizes[:-1]], axis=2)
    return blocks.cumsum(2).max((0, 1))


def all_curves(problem: Problem, readings, criteria, sizes, epsilons, delta: float) -> dict[str, dict[str, np.ndarray]]:
    """All curves of one problem: {reading at a budget (:meth:`Reading.at`), or NO_NOISE: {criterion: errors (s,)}}.

    The noise-aware t is there for clean selection with noise of a fixed size only: elsewhere it is the t-statistic, or
    the scale of the noise is not known before the selection.
    """
    tests: dict[tuple[str, str], list[str]] = {}
    for reading in readings:
        tests.setdefault((reading.noise, reading.select_on), []).append(reading.test)
    none = {c: curve(problem, Reading("none"), c, sizes, np.inf, delta) for c in criteria if c != "noise-aware t"}
    curves: dict[str, dict[str, np.ndarray]] = {NO_NOISE: none}
    for (noise, select_on), kinds in tests.items():
        for criterion in criteria:
            if criterion == "noise-aware t" and (noise, select_on) != ("sensitivity one", "clean"):
                continue
            for epsilon in epsilons:
                errors_ = _curves(problem, Reading(noise, select_on), criterion, sizes, epsilon, delta, kinds)
                for test, error in zip(kinds, errors_, strict=True):
                    curves.setdefault(Reading(noise, select_on, test).at(epsilon), {})[criterion] = error
    return curves


def same_features(problem: Problem, m: int, sd: float) -> dict[str, int]:
    """How many of the m best features of the clean data distance and |T| pick again under noise."""
    return {
        criterion: len(
            np.intersect1d(clean_order(problem, criterion)[:m], selection.top(scores(problem, criterion, sd), m))
        )
        for criterion in ("DFS", "t-statistic")
    }


def lost_by_part(problem: Problem, m: int, sd: float) -> dict[str, int]:
    """How many of its m best features |T| loses where the noise reaches its "means" alone, or its "variances" alone."""
    (clean_means, clean_variances), (means, variances) = problem.moments(0.0), problem.moments(sd)
    counts = np.full(2, problem.train.shape[1])
    best = clean_order(problem, "t-statistic")[:m]
    parts = {"means": (means, clean_variances), "variances": (clean_means, variances)}
    return {
        name: m - len(np.intersect1d(best, selection.top(selection.moment_t_statistic(*moments, counts), m)))
        for name, moments in parts.items()
    }


def roughness(curve: np.ndarray) -> tuple[float, float]:
    """How rough a curve (s,) over all sizes 1, 2, ..., s is: the share of sizes at which it turns round, and its mean
    absolute second difference. The first is free of scale; the second counts how large the turns are, and bends too."""
    steps = np.diff(curve)
    return float(np.mean(steps[1:] * steps[:-1] < 0)), float(np.abs(np.diff(steps)).mean())


def few_against_all(problem: Problem, m: int, epsilon: float, delta: float) -> list[dict]:
    """What cutting all features to the m best by distance does, the noise scaled to the norm of those kept.

    One line for each reading of the scale ("printed": a variance, "sd") and number of features ("few", "all"): the
    largest L1 norm, the bound of equation (9) on the error, and the exact error on clean test points.
    """
    order, n = clean_order(problem, "DFS"), problem.train.shape[1]
    lines = []
    for name, kept in (("all", order), ("few", order[:m])):
        norm = _largest_norms(problem, kept, [len(kept)])[0]
        for scale, rule in (("printed", selection.literal_sd), ("sd", selection.definition_sd)):
            sd = rule(norm, epsilon, delta)
            alpha = problem.test[1, 0, kept] - problem.test[0, 0, kept]
            gamma = (alpha**2 / (problem.test_variance.mean(0)[kept] + sd**2)).sum()  # equation (10)
            bound = special.ndtr(-gamma / (2 * np.sqrt(2 * len(kept) / n + gamma)))  # equation (9)
            error = errors(problem, kept, [len(kept)], sd, [0.0])[0, 0]
            lines.append({"scale": scale, "features": name, "norm": norm, "bound": bound, "error": error})
    return lines


ARMS = (
    "no privacy",
    "Algorithm 1, noise as printed",
    "Algorithm 1, noise as sd",
    "rows, public selection",
    "rows, private DFS",
    "rows, random features",
    "rows, all features",
    "means, private DFS",
    "means, all features",
)


def price(
    problem: Problem, public: Problem, m: int, budget: selection.Budget, rng: np.random.Generator
) -> dict[str, float]:
    """Test error on clean test points of every way to release, all but the first three truly (epsilon, delta)-DP.

    Rows are released with noise and a Fisher classifier learns from them; or only the class means are, for the
    nearest-mean rule. Values of features lie in [0, 1], which is public, so L2 norms are at most sqrt(p).

    Args:
        problem: the private data. public: other records of the same law, for the selection and bound that are public.
        m: features kept. budget: (epsilon, delta) and its shares.
    """
    x, labels = problem.flat()
    p = x.shape[1]
    thresholds = np.geomspace(np.sqrt(p) / 64, np.sqrt(p), 32)

    def rows(kept, bound, mu):
        values, _ = selection.private_rows(x[:, kept], bound, mu, rng)
        return _rule_error(problem, kept, *fisher(*selection.class_moments(values, labels)[:2]))

    def rows_without_selection(kept):  # what selection would have cost goes to the release
        bound = private_bound(kept, budget.mu(budget.norms))
        return rows(kept, bound, budget.mu(1 - budget.norms))

    def means(kept, mu_norm, mu):
        bound = private_bound(kept, mu_norm)
        centres = selection.private_class_means(x[:, kept], labels, bound, mu, rng)
        return _rule_error(problem, kept, centres[0] - centres[1], centres.mean(0))

    def private_bound(kept, mu):
        return selection.private_quantile(np.linalg.norm(x[:, kept], axis=1), 0.9, thresholds, mu, rng)

    clean = selection.top(selection.distance(x, labels), m)
    chosen = selection.top(selection.distance(*public.flat()), m)
    bound = np.quantile(np.linalg.norm(public.flat()[0][:, chosen], axis=1), 0.9)
    private, _ = selection.private_dfs(x, labels, m, budget, thresholds, rng)
    kept, _ = selection.private_selection(x, labels, m, budget, thresholds, rng)
    every = np.arange(p)

    def algorithm_1(sd):
        return learnt(selection.dfs(x, labels, m, lambda norm: sd(norm, budget.epsilon, budget.delta), rng))

    def learnt(release):
        moments = selection.class_moments(release.values, labels)[:2]
        return _rule_error(problem, release.features, *fisher(*moments))

    results = (
        errors(problem, clean, [m], 0.0, [0.0])[0, 0],
        algorithm_1(selection.literal_sd),
        algorithm_1(selection.definition_sd),
        rows(chosen, bound, budget.mu(1.0)),
        learnt(private),
        rows_without_selection(rng.permutation(p)[:m]),
        rows_without_selection(every),
        means(kept, budget.mu(budget.norms / 2), budget.mu(budget.release)),
        means(every, budget.mu(budget.norms), budget.mu(1 - budget.norms)),
    )
    return {arm: float(error) for arm, error in zip(ARMS, results, strict=True)}


def _rule_error(problem: Problem, kept: np.ndarray, weights: np.ndarray, midpoint: np.ndarray) -> float:
    score = (problem.test[..., kept] - midpoint) @ weights
    wrong = np.stack([score[0] <= 0, score[1] > 0])
    return float(wrong.mean())
