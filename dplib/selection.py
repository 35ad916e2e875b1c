"""Feature selection of paper A: the distance criterion, the t-statistic, Algorithm 1 (DFS), private DFS, Theorem 8.

Everywhere ``x`` has shape (n, p), one record a row, and ``labels`` (n,) holds whole numbers 0 to k - 1, every class
with at least two records. Neighbouring data sets differ in the features of one record; labels and class sizes are
the same in both, so they are public. That is the relation under which Algorithm 1, which prints the labels, can make
sense at all; :func:`private_dfs` is the form of it that is private. There each step is a Gaussian mechanism whose L2
sensitivity comes from clipping or counting, never from the data.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dplib import mechanisms
from dplib.checks import (
    ParameterError,
    array,
    bounded,
    described,
    fraction,
    generator,
    indices,
    integer,
    number,
    numbers,
    reals,
    shaped,
)
from dplib.mechanisms import clip_rows

SHARE = 0.9  # of the records, those that should not be clipped

# --- what a feature is worth (equations 15 and 16) -------------------------------------------------------------------


_MU, _BOUND = number(1e-9, 1e9), number(1e-50, 1e50)


def class_moments(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (k, p), unbiased variances (k, p) and sizes (k,) of the classes: what the criteria are made of.

    Args:
        x: records, shape (n, p).
        labels: shape (n,), whole numbers from 0, every class with two records or more.

    Raises:
        ParameterError: for x that is not finite, shapes that do not fit, fewer than two classes, or a class of fewer
            than two records.
    """
    x, labels = _records(x, labels)
    counts = np.bincount(labels)
    groups = [x[labels == k] for k in range(len(counts))]
    means = np.stack([group.mean(0, dtype=float) for group in groups])
    return means, np.stack([group.var(0, ddof=1, dtype=float) for group in groups]), counts


def _records(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Records and their labels, in two classes or more of two records or more each; or ParameterError."""
    x, labels = _fitting(x, labels)
    most = len(labels) // 2  # classes of so many records
    if len(labels) < 4 or not 1 <= labels.max() < most or np.bincount(labels).min() < 2:
        raise ParameterError(
            f"labels = {described(labels)} is not allowed: they must be 0 to k - 1 without gaps, for two classes or "
            "more of two records or more each."
        )
    return x, labels


def _fitting(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Records in their own precision, (n, p), finite, and as many labels; or ParameterError."""
    x, labels = _finite(x), indices("labels", labels)
    if labels.shape != (len(x),):
        raise ParameterError(f"x of shape {x.shape} with labels of shape {labels.shape}: they must be (n, p) and (n,).")
    return x if x.dtype.kind != "O" else x.astype(float), labels


def distance(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Distance criterion |D_j| (equation 16; appendix A.6 for k classes): records (n, p) to scores (p,).

    Args:
        x: records, shape (n, p).
        labels: shape (n,), whole numbers from 0, every class with two records or more.

    Raises:
        ParameterError: as :func:`class_moments`.
    """
    return mean_distance(class_moments(x, labels)[0])


def mean_distance(means: np.ndarray) -> np.ndarray:
    """The same from class means (k, p): the largest difference over pairs is the highest mean less the lowest.

    Args:
        means: class means, shape (k, p).

    Raises:
        ParameterError: for another shape, or what is no number.
    """
    means = reals("means", means, 2)
    integer(1).check("classes of means", len(means))
    return np.ptp(means, axis=0)


def t_statistic(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """|T_j| of equation (15): records (n, p) to scores (p,); of k classes the largest over pairs.

    Args:
        x: records, shape (n, p).
        labels: shape (n,), whole numbers from 0, every class with two records or more.

    Raises:
        ParameterError: as :func:`class_moments`.
    """
    return moment_t_statistic(*class_moments(x, labels))


@bounded(extra_variance=number(0, 1e100))
def moment_t_statistic(
    means: np.ndarray, variances: np.ndarray, counts: np.ndarray, *, extra_variance: float = 0.0
) -> np.ndarray:
    """The same from the moments of :func:`class_moments`; one without spread scores 0, or inf if means differ.

    Args:
        means: class means, shape (k, p).
        variances: unbiased variances in each class, shape (k, p).
        counts: sizes of the classes, shape (k,).
        extra_variance: added to every variance, in [0, 1e100]. With the variance s^2 of noise that will be added later,
            this is the t-statistic of the release to come: at 0 it is T, and for large s it ranks as :func:`distance`
            does.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    means, variances = reals("means", means, 2), reals("variances", variances, 2)
    counts = shaped("counts", counts, "(k)", 1)
    if not means.shape == variances.shape == (len(counts), means.shape[1]):
        raise ParameterError(
            f"means of {means.shape}, variances of {variances.shape}, counts of {counts.shape} do not fit."
        )
    squared_errors = (variances + extra_variance) / counts[:, None]
    best = np.zeros(means.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        for a, b in zip(*np.triu_indices(len(means), 1), strict=True):
            t = np.abs(means[a] - means[b]) / np.sqrt(squared_errors[a] + squared_errors[b])
            best = np.fmax(best, t)  # 0/0 is nan and counts as no difference
    return best


def top(scores: np.ndarray, m: int) -> np.ndarray:
    """Indices (m,) of the m largest scores, best first; of equal ones the first feature comes first.

    Args:
        scores: of each feature, shape (p,); none of them nan.
        m: from 1 to p.

    Raises:
        ParameterError: for a value outside its range.
    """
    scores = shaped("scores", scores, "(p)", -np.inf, np.inf)
    integer(1, len(scores)).check("m", m)
    return np.argsort(-scores, kind="stable")[:m]


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """What is given away.

    Args:
        features: indices of the features kept, shape (m,).
        values: their values with noise, shape (n, m).
        labels: shape (n,), as they are.
        noise_sd: standard deviation of the noise on each value.
    """

    features: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    noise_sd: float


@bounded(norm=number(0, 1e100))
def definition_sd(norm: float, epsilon: float, delta: float) -> float:
    """Noise of Definition 3, a standard deviation: 2 norm ln(1/delta) / epsilon (:func:`mechanisms.paper_sigma`).

    Args:
        norm: the largest L1 norm of a record, in [0, 1e100].
        epsilon: the budget, in [1e-9, 1e6].
        delta: the budget, in [1e-300, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    return float(mechanisms.paper_sigma(epsilon, delta, 2 * norm))


@bounded(norm=number(0, 1e100))
def literal_sd(norm: float, epsilon: float, delta: float) -> float:
    """Noise of Algorithm 1 read to the letter: N(0, v) has variance v = 2 norm ln(1/delta) / epsilon.

    The unit is wrong: measure the data in other units, and the same data get another privacy.

    Args:
        norm: the largest L1 norm of a record, in [0, 1e100].
        epsilon: the budget, in [1e-9, 1e6].
        delta: the budget, in [1e-300, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    return float(np.sqrt(mechanisms.paper_sigma(epsilon, delta, 2 * norm)))


@bounded(rng=generator())
def dfs(
    x: np.ndarray,
    labels: np.ndarray,
    m: int,
    noise_sd: Callable[[float], float],
    rng: np.random.Generator,
    *,
    scores: np.ndarray | None = None,
) -> Release:
    """Algorithm 1 as the paper has it: rank, cut, largest norm, noise. NOT differentially private (chapter 02).

    Args:
        x: records, shape (n, p).
        labels: shape (n,), whole numbers from 0, every class with two records or more.
        m: features to keep, from 1 to p.
        noise_sd: the largest L1 norm of the shortened records to the standard deviation of the noise; see
            :func:`definition_sd` and :func:`literal_sd`.
        rng: draws the noise.
        scores: to rank the features by, shape (p,); by default step 3's distance.

    Raises:
        ParameterError: for x that is not finite, shapes that do not fit, too small classes, or an m that is not from 1
            to p.
    """
    rows, classes = _fitting(x, labels)
    kept = top(distance(rows, classes) if scores is None else _one_each(scores, rows.shape[1]), m)  # steps 2 to 4
    cut = rows.astype(float)[:, kept]  # step 5
    sd = noise_sd(float(np.abs(cut).sum(1).max()))  # step 6: C_p or N_max, data-dependent, so not for free
    return Release(kept, cut + sd * rng.standard_normal(cut.shape), labels, sd)  # steps 7 to 9


def _one_each(scores: np.ndarray, features: int) -> np.ndarray:
    """Scores, of which there must be one for each feature."""
    scores = reals("scores", scores, 1)
    if len(scores) != features or np.isnan(scores).any():
        raise ParameterError(f"scores of shape {scores.shape} must be a number for each of {features} features.")
    return scores


# --- Algorithm 1, paid for -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """How private DFS divides (epsilon, delta) between norm bounds, selection and release.

    Every step is a Gaussian mechanism. One of sensitivity S and noise sigma is mu-GDP with mu = S / sigma, and steps
    that may look at each other's results compose exactly to mu = sqrt(mu_1^2 + mu_2^2 + ...) (Dong, Roth and Su 2022).
    So the shares divide mu^2 and nothing is lost to composition.

    Args:
        epsilon: of all steps together, in [1e-9, 1e6].
        delta: of all steps together, in [1e-300, 1).
        norms: share of the two norm bounds, in (0, 1).
        selection: share of the noisy class means, in (0, 1).
        release: share of the values that are released, in (0, 1); the three add up to 1.

    Raises:
        ParameterError: for a budget that is none, shares that do not add up to 1, or one so small that no noise of its
            step is allowed.
    """

    epsilon: float
    delta: float
    norms: float = 0.1
    selection: float = 0.3
    release: float = 0.6

    def __post_init__(self):
        number(1e-9, 1e6).check("epsilon", self.epsilon)
        number(1e-300, 1).check("delta", self.delta)
        shares = {"norms": self.norms, "selection": self.selection, "release": self.release}
        for name, share in shares.items():
            fraction().check(name, share)
        if not np.isclose(sum(shares.values()), 1):
            raise ParameterError(f"shares {shares} are not allowed: they must add up to 1.")
        for name, share in shares.items():
            _MU.check(f"mu of the share {name}", self.mu(share / 2 if name == "norms" else share))

    def mu(self, share: float) -> float:
        """The mu of a mechanism that gets this share of the budget.

        Args:
            share: of mu^2, in [0, 1].
        """
        return float(np.sqrt(share) / mechanisms.analytic_sigma(self.epsilon, self.delta))


@bounded(delta=fraction())
def composed_epsilon(mus: list[float], delta: float) -> float:
    """The exact epsilon at delta of Gaussian mechanisms in sequence, each mu-GDP for one neighbouring relation.

    Args:
        mus: of each mechanism, > 0.
        delta: in (0, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    numbers(0).check("mus", mus)
    return float(mechanisms.gaussian_epsilon(1.0, float(np.linalg.norm(mus)), delta))


@bounded(share=number(0, 1), mu=_MU, rng=generator())
def private_quantile(
    values: np.ndarray, share: float, thresholds: np.ndarray, mu: float, rng: np.random.Generator
) -> float:
    """The least threshold that about a given share of the values do not exceed, mu-GDP: a noisy binary search.

    Exchanging one record changes a count of values below a threshold by at most 1; the at most log2(t) counts asked for
    are released with Gaussian noise sqrt(log2 t) / mu each.

    Args:
        values: shape (n,), a value of each record.
        share: of the values, in [0, 1].
        thresholds: candidates for the norm bounds, shape (t,), increasing, chosen without looking at the data.
        mu: privacy of the release, mu-GDP, in [1e-9, 1e9]; smaller is more private.
        rng: draws the noise.

    Raises:
        ParameterError: for a value outside its range, or thresholds that do not increase.
    """
    values, thresholds = reals("values", values, 1), _increasing(thresholds)
    steps = int(np.ceil(np.log2(len(thresholds))))
    low, high = 0, len(thresholds) - 1
    while low < high:
        middle = (low + high) // 2
        count = np.count_nonzero(values <= thresholds[middle]) + np.sqrt(steps) / mu * rng.standard_normal()
        low, high = (low, middle) if count >= share * len(values) else (middle + 1, high)
    return float(thresholds[high])


def _increasing(thresholds: np.ndarray) -> np.ndarray:
    thresholds = array("thresholds", thresholds)
    right = numbers().accepts(thresholds) and thresholds.ndim == 1 and thresholds.size > 0
    if not right or not (np.diff(thresholds) > 0).all():
        raise ParameterError("thresholds must be an increasing row of finite numbers.")
    return thresholds


@bounded(bound=_BOUND, mu=_MU, rng=generator())
def private_class_means(
    x: np.ndarray, labels: np.ndarray, bound: float, mu: float, rng: np.random.Generator
) -> np.ndarray:
    """Class means, shape (k, p), of rows clipped to an L2 norm, mu-GDP.

    Exchanging the features of one record moves one class mean, by at most 2 bound / n_k in L2.

    Args:
        x: records, shape (n, p), finite.
        labels: shape (n,), whole numbers from 0, every class with two records or more.
        bound: L2 norm to which rows are clipped, in [1e-50, 1e50]; not chosen by looking at the data, unless that is
            paid for.
        mu: privacy of the release, mu-GDP, in [1e-9, 1e9]; smaller is more private.
        rng: draws the noise.

    Raises:
        ParameterError: for a value outside its range, x that is not finite, or as :func:`class_moments`.
    """
    means, _, counts = class_moments(_clipped(x, bound), labels)
    return means + (2 * bound / (mu * counts))[:, None] * rng.standard_normal(means.shape)


@bounded(bound=_BOUND, mu=_MU, rng=generator())
def private_rows(x: np.ndarray, bound: float, mu: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Rows (n, m) clipped to an L2 norm, with Gaussian noise, mu-GDP; and the noise's standard deviation.

    Exchanging one record moves its own row only, by at most 2 bound.

    Args:
        x: records, shape (n, m), finite.
        bound: L2 norm to which rows are clipped, in [1e-50, 1e50]; not chosen by looking at the data, unless that is
            paid for.
        mu: privacy of the release, mu-GDP, in [1e-9, 1e9]; smaller is more private.
        rng: draws the noise.

    Raises:
        ParameterError: for a value outside its range, or x that is not finite.
    """
    sd, rows = 2 * bound / mu, _clipped(x, bound)
    return rows + sd * rng.standard_normal(rows.shape), sd


@bounded(rng=generator())
def private_dfs(
    x: np.ndarray,
    labels: np.ndarray,
    m: int,
    budget: Budget,
    thresholds: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Release, float]:
    """DFS with all its steps paid for: (epsilon, delta)-DP when the features of one record are exchanged.

    Two private norm bounds (of whole and of shortened records), noisy class means, the m features with the largest
    noisy distance, and those features' values with noise. Labels and class sizes are public. Errors as :func:`dfs`.

    Args:
        x: records, shape (n, p), finite.
        labels: shape (n,), whole numbers from 0, every class with two records or more.
        m: features to keep, from 1 to p.
        budget: what all steps together spend, and how they share it.
        thresholds: candidates for the norm bounds, shape (t,), increasing, in [1e-50, 1e50], chosen without looking at
            the data.
        rng: draws the noise; for experiments, since whoever knows its seed can take the noise off.

    Returns:
        The release, and the epsilon really spent at ``budget.delta``.

    Raises:
        ParameterError: as :func:`dfs`, and for x that is not finite, before any of the budget is spent.
    """
    kept, spent = private_selection(x, labels, m, budget, thresholds, rng)
    mus = [*spent, budget.mu(budget.norms / 2), budget.mu(budget.release)]
    cut = reals("x", x, 2)[:, kept]
    bound = private_quantile(np.linalg.norm(cut, axis=1), SHARE, thresholds, mus[-2], rng)
    values, sd = private_rows(cut, bound, mus[-1], rng)
    return Release(kept, values, labels, sd), composed_epsilon(mus, budget.delta)


@bounded(rng=generator())
def private_selection(
    x: np.ndarray,
    labels: np.ndarray,
    m: int,
    budget: Budget,
    thresholds: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """The first half of :func:`private_dfs`: m features by noisy distance, and the mu of its two mechanisms.

    Args:
        x: records, shape (n, p), finite.
        labels: shape (n,), whole numbers from 0, every class with two records or more.
        m: features to keep, from 1 to p.
        budget: of which the shares "selection" and half of "norms" are spent.
        thresholds: candidates for the norm bounds, shape (t,), increasing, in [1e-50, 1e50], chosen without looking at
            the data.
        rng: draws the noise.

    Raises:
        ParameterError: as :func:`private_dfs`.
    """
    x = _checked(x, labels, m, budget, thresholds)
    mus = [budget.mu(budget.norms / 2), budget.mu(budget.selection)]
    bound = private_quantile(np.linalg.norm(x, axis=1), SHARE, thresholds, mus[0], rng)
    return top(mean_distance(private_class_means(x, labels, bound, mus[1], rng)), m), mus


def _checked(x: np.ndarray, labels: np.ndarray, m: int, budget: Budget, thresholds: np.ndarray) -> np.ndarray:
    """The records as floats, once nothing can be refused any more: an error after a release would depend on it."""
    x = _records(x, labels)[0].astype(float, copy=False)
    integer(1, x.shape[1]).check("m", m)
    if not isinstance(budget, Budget):
        raise ParameterError(f"budget = {described(budget)} is not allowed: it must be a Budget.")
    if not numbers(1e-50, 1e50).accepts(_increasing(thresholds)):
        raise ParameterError("thresholds are bounds of norms: they must be in [1e-50, 1e50].")
    return x


def _clipped(x: np.ndarray, bound: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return clip_rows(_finite(x), bound)


def _finite(x: np.ndarray) -> np.ndarray:
    if not np.isfinite(reals("x", x, 2)).all():
        raise ParameterError(
            "x holds values that are not finite: every value must be, or scores and bounds say nothing."
        )
    return array("x", x)


# --- Theorem 8 -------------------------------------------------------------------------------------------------------


@bounded(threshold=numbers(1e-50, 1e50))
def log_separation(alpha: np.ndarray, sd: np.ndarray, threshold: float, log_number: np.ndarray) -> float:
    """ln P(every |D_j| of a non-zero alpha_j >= threshold, every other < threshold), exactly (equation 17).

    For normal data with diagonal covariance the D_j are independent N(alpha_j, sd_j^2), so the probability is a
    product. Groups of equal features make the theorem's p = exp(n^gamma) features cost nothing.

    Args:
        alpha: mean difference of each group of features, shape (g,); 0 for features that do not matter.
        sd: standard deviation of each group's D_j, shape (g,), > 0.
        threshold: of the D_j, in [1e-50, 1e50].
        log_number: natural logarithm of the number of features in each group, shape (g,).

    Raises:
        ParameterError: for a value outside its range.
    """
    alpha, sd = np.abs(shaped("alpha", alpha, "(g)")), shaped("sd", sd, "(g)", 1e-100)
    log_number = shaped("log_number", log_number, "(g)")
    if not alpha.shape == sd.shape == log_number.shape:
        raise ParameterError(f"alpha of {alpha.shape}, sd of {sd.shape}, log_number of {log_number.shape} do not fit.")
    # ln P that one feature falls on the wrong side: an important one below the threshold, another one above it.
    low, high = special.log_ndtr(-(alpha + threshold) / sd), special.log_ndtr((threshold - alpha) / sd)
    wrong = np.where(alpha > 0, high + np.log1p(-np.exp(low - high)), np.log(2) + low)
    # ln(-ln(1 - e^w)) is w for a small e^w, where 1 - e^w would round to 1.
    with np.errstate(divide="ignore"):
        log_loss = np.where(wrong < -36, wrong, np.log(-np.log1p(-np.exp(np.minimum(wrong, -1e-16)))))
        return float(-np.exp(log_number + log_loss).sum())
