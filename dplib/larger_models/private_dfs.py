"""DFS with all its steps paid for: clipped and noisy class means choose the features, noise covers what is released.

As in ``dplib.larger_models.selection``: ``x`` (n, p) has one record a row, ``labels`` (n,) are 0 to k - 1, and
neighbouring data sets differ in the features of one record, with labels and class sizes public. Each step is a Gaussian
mechanism whose L2 sensitivity comes from clipping or counting, never from the data. Values must be finite, or clipping
bounds nothing.
"""

from dataclasses import dataclass

import numpy as np

from dplib import mechanisms
from dplib.checks import ParameterError
from dplib.data.preprocess import clip_rows
from dplib.larger_models.selection import Release, class_moments, mean_distance, top

SHARE = 0.9  # of the records, those that should not be clipped


@dataclass(frozen=True)
class Budget:
    """How private DFS divides (epsilon, delta) between norm bounds, selection and release.

    Every step is a Gaussian mechanism. One of sensitivity S and noise sigma is mu-GDP with mu = S / sigma, and
    steps that may look at each other's results compose exactly to mu = sqrt(mu_1^2 + mu_2^2 + ...) (Dong, Roth and
    Su 2022). So the shares divide mu^2 and nothing is lost to composition.
    """

    epsilon: float
    delta: float
    norms: float = 0.1
    selection: float = 0.3
    release: float = 0.6

    def __post_init__(self):
        shares = (self.norms, self.selection, self.release)
        if min(shares) < 0 or not np.isclose(sum(shares), 1):
            raise ParameterError(f"shares = {shares} are not allowed: they must be at least 0 and add up to 1.")
        mechanisms.analytic_sigma(self.epsilon, self.delta)  # raises for a budget that is none

    def mu(self, share: float) -> float:
        """The mu of a mechanism that gets this share of the budget."""
        return float(np.sqrt(share) / mechanisms.analytic_sigma(self.epsilon, self.delta))


def composed_epsilon(mus: list[float], delta: float) -> float:
    """The exact epsilon at delta of Gaussian mechanisms in sequence, each mu-GDP for one neighbouring relation."""
    return float(mechanisms.gaussian_epsilon(1.0, float(np.linalg.norm(mus)), delta))


def private_quantile(
    values: np.ndarray, share: float, thresholds: np.ndarray, mu: float, rng: np.random.Generator
) -> float:
    """The least threshold that about ``share`` of the values (n,) do not exceed, mu-GDP: a noisy binary search.

    Exchanging one record changes a count of values below a threshold by at most 1; the at most log2(t) counts asked for
    are released with Gaussian noise sqrt(log2 t) / mu each. thresholds: (t,) increasing, not chosen by the data.
    """
    steps = int(np.ceil(np.log2(len(thresholds))))
    low, high = 0, len(thresholds) - 1
    while low < high:
        middle = (low + high) // 2
        count = np.count_nonzero(values <= thresholds[middle]) + np.sqrt(steps) / mu * rng.standard_normal()
        low, high = (low, middle) if count >= share * len(values) else (middle + 1, high)
    return float(thresholds[high])


def private_class_means(
    x: np.ndarray, labels: np.ndarray, bound: float, mu: float, rng: np.random.Generator
) -> np.ndarray:
    """Class means (k, p) of rows clipped to L2 norm ``bound``, mu-GDP.

    Exchanging the features of one record moves one class mean, by at most 2 bound / n_k in L2.
    """
    means, _, counts = class_moments(_clipped(x, bound), labels)
    return means + (2 * bound / (mu * counts))[:, None] * rng.standard_normal(means.shape)


def private_rows(x: np.ndarray, bound: float, mu: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Rows (n, m) clipped to L2 norm ``bound`` with Gaussian noise, mu-GDP, and the noise's standard deviation.

    Exchanging one record moves its own row only, by at most 2 bound.
    """
    sd = 2 * bound / mu
    return _clipped(x, bound) + sd * rng.standard_normal(x.shape), sd


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
        x, labels, m: as for :func:`dfs`.
        thresholds: candidates for the norm bounds, increasing, chosen without looking at the data.

    Returns:
        The release, and the epsilon really spent at ``budget.delta``.
    """
    kept, spent = private_selection(x, labels, m, budget, thresholds, rng)
    mus = [*spent, budget.mu(budget.norms / 2), budget.mu(budget.release)]
    cut = np.asarray(x, dtype=float)[:, kept]
    bound = private_quantile(np.linalg.norm(cut, axis=1), SHARE, thresholds, mus[-2], rng)
    values, sd = private_rows(cut, bound, mus[-1], rng)
    return Release(kept, values, labels, sd), composed_epsilon(mus, budget.delta)


def private_selection(
    x: np.ndarray,
    labels: np.ndarray,
    m: int,
    budget: Budget,
    thresholds: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """The first half of :func:`private_dfs`: m features by noisy distance, and the mu of its two mechanisms."""
    x = np.asarray(x, dtype=float)
    mus = [budget.mu(budget.norms / 2), budget.mu(budget.selection)]
    bound = private_quantile(np.linalg.norm(x, axis=1), SHARE, thresholds, mus[0], rng)
    return top(mean_distance(private_class_means(x, labels, bound, mus[1], rng)), m), mus


def _clipped(x: np.ndarray, bound: float) -> np.ndarray:
    if not np.isfinite(x).all():
        raise ParameterError("x holds values that are not finite: every value must be, or clipping bounds nothing.")
    with np.errstate(over="ignore"):  # a row of zeros
        return clip_rows(x, bound)
