"""Two-class problems for paper A's feature selection: the synthetic one of Section 4.1, and pairs of real classes."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

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
        """Class means (2, p) and variances (2, p) of ``train + sd * noise``, in O(p) for every new sd; or of some
        ``features`` only."""
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

    @cached_property
    def memo(self) -> dict:
        """What does not depend on the noise and is needed again: orders of the features, norms."""
        return {}

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
