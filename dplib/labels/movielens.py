"""Ratings as classes, and what predicts them: paper C's MovieLens experiment (Section 5.1, Table 3).

Neighbours differ in *one rating*. Who rated which movie is public, and a user with many ratings gets epsilon for each
of them: nothing here protects a user. The paper's set is MovieLens-1M, with 1 to 5 whole stars. The small set that
stands in for it has half stars too, rounded up here, so that there are five classes again and an epsilon means the
same noise. Ratings are scored as they are trained on, after rounding.

Three predictors need no network: the mean rating, a bias for each user and movie, and the same biases fitted to
randomised ratings. The last is label-DP, as it only processes answers of randomised response further.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from dplib import data
from dplib.checks import ParameterError, integer, one_of

SYNTHETIC = "synthetic-ratings"  # drawn at random, for runs without any file: says nothing about MovieLens
NAMES = (SYNTHETIC, "movielens-latest-small", "movielens-1m")
STARS_OF_1M = (56_174, 107_557, 261_197, 348_971, 226_310)  # ratings of 1 to 5 stars in the published ratings.dat
TEST_SHARE = 0.2  # Section 5.1


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, split at random.

    Attributes:
        x_train, x_test: shape (n, 2), int64: user and movie, each counted from 0.
        y_train, y_test: shape (n,), int64: the class, a place in ``stars``.
        x_valid, y_valid: ratings taken from the training part; choices are made on them.
        stars: shape (K,), float64, rising: what each class means.
        users, movies: how many there are in all parts together.
        stand_in_for: the set whose place it takes, or None.
        checksum: of the content that was read; empty for synthetic ratings.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_valid: np.ndarray
    y_valid: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    stars: np.ndarray
    users: int
    movies: int
    stand_in_for: str | None
    checksum: str


def load(name: str, seed: int, *, whole: bool = True, validation: int = 0) -> Ratings:
    """Ratings with a fifth of them, drawn by the seed, as the test part.

    Args:
        name: one of :data:`NAMES`.
        seed: of the split (and of the ratings themselves where they are synthetic).
        whole: half stars are rounded up to whole ones; False keeps the published classes.
        validation: ratings of the training part that become the validation part.

    Raises:
        ParameterError: for an unknown name, or more validation ratings than there are to train on.
        DataError: for a file that is missing or is not the published one.
    """
    pairs, y, stars, stand_in, checksum = _table(name, seed) if name == SYNTHETIC else _table(name)
    if whole:
        y, stars = whole_stars(y, stars)
    order = np.random.default_rng([seed, 9]).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    integer(0, len(y) - n_test - 1).check("validation", validation)
    test, valid, train = np.split(order, [n_test, n_test + validation])
    users, movies = (pairs.max(axis=0) + 1).tolist()
    parts = [part for rows in (train, valid, test) for part in (pairs[rows], y[rows])]
    return Ratings(name, *parts, stars, users, movies, stand_in, checksum)


def synthetic(users: int, movies: int, ratings: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (n, 2) and classes (n,) of 1 to 5 stars: biases, two tastes and noise, rounded. No pair occurs twice."""
    integer(1, users * movies).check("ratings", ratings)
    popular = rng.permutation(movies) ** 2 / movies**2 + 0.05
    keys = np.log(popular)[None, :] + rng.gumbel(size=(users, movies))  # the largest keys: drawn without replacement
    chosen = np.sort(np.argsort(-keys, axis=None)[:ratings])
    pairs = np.stack(np.divmod(chosen, movies), axis=1)
    tastes = rng.normal(0, 0.6, (users, 2)) @ rng.normal(0, 0.6, (2, movies))
    mean = 3.5 + rng.normal(0, 0.45, (users, 1)) + rng.normal(0, 0.45, (1, movies)) + tastes
    value = mean[pairs[:, 0], pairs[:, 1]] + rng.normal(0, 0.8, ratings)
    return pairs, np.clip(np.rint(value), 1, 5).astype(np.int64) - 1


def whole_stars(classes: np.ndarray, stars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes and stars after half stars are rounded up; whole ones stay as they are."""
    rounded = np.ceil(stars)
    kept = np.unique(rounded)
    return np.searchsorted(kept, rounded)[classes], kept


def expected(probabilities: np.ndarray, stars: np.ndarray) -> np.ndarray:
    """The paper's prediction (Appendix B): the mean rating under the softmax, (n, K) to (n,)."""
    return probabilities @ stars


def rmse(predicted, classes: np.ndarray, stars: np.ndarray) -> float:
    """Root mean square error in stars; ``predicted`` is a number or shape (n,)."""
    return float(np.sqrt(np.mean((np.asarray(predicted) - stars[classes]) ** 2)))


def kept_share(epsilon: float, classes: int) -> float:
    """a = (e^epsilon - 1) / (e^epsilon + K - 1): the answer of RR is the label with probability a, else uniform."""
    return float(-np.expm1(-epsilon) / (1 + (classes - 1) * np.exp(-epsilon)))


def unmixed(rating, epsilon: float, stars: np.ndarray) -> np.ndarray:
    """What a rating must have been before RR, on average: E[answer] = a rating + (1 - a) mean(stars), solved for it.

    Of an answer's stars it is an unbiased estimate of the true rating. Of a model's prediction, trained on answers, it
    takes back the pull towards the middle of the scale. It costs no privacy: epsilon and stars are public.
    """
    a = kept_share(epsilon, len(stars))
    return (np.asarray(rating, dtype=float) - (1 - a) * stars.mean()) / a


def answer_variance(epsilon: float, stars: np.ndarray) -> float:
    """Variance that RR adds to an unbiased rating (:func:`unmixed`), averaged over the classes, not over ratings."""
    a = kept_share(epsilon, len(stars))
    centred = stars - stars.mean()
    # Given the class c: a c^2 + (1 - a) v - a^2 c^2, with v the variance of a uniform class.
    return float(((a - a**2) * centred**2 + (1 - a) * np.mean(centred**2)).mean() / a**2)


@dataclass(frozen=True, eq=False)
class Biases:
    """mean + user's bias + movie's bias; ``mean`` is a number, the biases have shapes (users,) and (movies,)."""

    mean: float
    user: np.ndarray
    movie: np.ndarray

    def predict(self, pairs: np.ndarray) -> np.ndarray:
        """Ratings of pairs (n, 2), shape (n,)."""
        return self.mean + self.user[pairs[:, 0]] + self.movie[pairs[:, 1]]


def fit_biases(pairs: np.ndarray, ratings: np.ndarray, users: int, movies: int, penalty: float) -> Biases:
    """Ridge regression on who rated and what was rated: minimises sum (error)^2 + penalty (|user|^2 + |movie|^2).

    The mean is that of the ratings, and is not penalised. Best for penalty = variance of the noise / variance of the
    biases; so noisier ratings want a larger one.
    """
    n, mean = len(ratings), float(np.mean(ratings))
    columns = np.concatenate([pairs[:, 0], users + pairs[:, 1]])
    design = sparse.csr_matrix((np.ones(2 * n), (np.tile(np.arange(n), 2), columns)), shape=(n, users + movies))
    fitted = linalg.lsqr(design, ratings - mean, damp=np.sqrt(penalty), atol=1e-8, btol=1e-8)[0]
    return Biases(mean, fitted[:users], fitted[users:])


@functools.lru_cache(maxsize=4)
def _table(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, str | None, str]:
    """All ratings: pairs, classes, stars, the set it stands in for, checksum."""
    one_of(*NAMES).check("ratings", name)
    if name == SYNTHETIC:
        pairs, y = synthetic(120, 100, 4000, np.random.default_rng([seed, 90]))
        return pairs, y, np.arange(1.0, 6.0), "MovieLens-1M", ""
    found = data.load(name)
    pairs = np.concatenate([found.x_train, found.x_test])
    y = np.concatenate([found.y_train, found.y_test])
    stars = np.array([float(c) for c in found.classes])
    if name == "movielens-1m" and tuple(np.bincount(y).tolist()) != STARS_OF_1M:
        raise ParameterError("movielens-1m has other counts of stars than the published file.")
    return pairs, y, stars, found.stand_in_for, found.checksum
