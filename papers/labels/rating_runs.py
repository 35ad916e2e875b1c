"""Ratings as classes, and what predicts them: paper C's MovieLens experiment (Section 5.1, Table 3), as kept runs.

Neighbours differ in *one rating*. Who rated which movie is public, and a user with many ratings gets epsilon for each
of them: nothing here protects a user. The small set that stands in for MovieLens-1M has half stars too, rounded up
here, so that there are five classes again and an epsilon means the same noise. Mixup is left out: numbers of users and
movies cannot be mixed, and the paper does not say what it did instead.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg
from torch import nn

from book.evidence import runs
from dplib import data, stages
from dplib.checks import ParameterError, integer, one_of
from dplib.devices import find_device
from dplib.models import keras_weights_, two_branch
from dplib.randomised_response import rr
from papers.labels import soft_labels
from papers.labels.stage_training_runs import Learner, reported

SYNTHETIC = "synthetic-ratings"  # drawn at random, for runs without any file: says nothing about MovieLens
NAMES = (SYNTHETIC, "movielens-latest-small", "movielens-1m")
STARS_OF_1M = (56_174, 107_557, 261_197, 348_971, 226_310)  # ratings of 1 to 5 stars in the published ratings.dat
TEST_SHARE = 0.2  # Section 5.1


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, split at random: ``x_...`` (n, 2) int64, user and movie counted from 0; ``y_...`` (n,) int64, the
    class, a place in ``stars``, (K,), rising. ``users``, ``movies``: how many in all parts.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_valid: np.ndarray
    y_valid: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    stars: np.ndarray
    users: int
    movies: int


def load(name: str, seed: int, *, whole: bool = True, validation: int = 0) -> Ratings:
    """Ratings with a fifth of them, drawn by the seed, as the test part.

    whole: half stars are rounded up to whole ones. validation: ratings of the training part that become the validation
    part. ParameterError for an unknown name or too large a part, DataError for a file that is missing or not the
    published one.
    """
    pairs, y, stars = _table(name, seed) if name == SYNTHETIC else _table(name)
    if whole:
        y, stars = whole_stars(y, stars)
    order = np.random.default_rng([seed, 9]).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    integer(0, len(y) - n_test - 1).check("validation", validation)
    test, valid, train = np.split(order, [n_test, n_test + validation])
    users, movies = (pairs.max(axis=0) + 1).tolist()
    parts = [part for rows in (train, valid, test) for part in (pairs[rows], y[rows])]
    return Ratings(*parts, stars, users, movies)


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


def ridge(pairs: np.ndarray, ratings: np.ndarray, penalty: float, judged: np.ndarray) -> np.ndarray:
    """Mean + user's bias + movie's bias of the pairs ``judged``, shape (m, 2), by ridge regression on rated ``pairs``.

    Minimises sum (error)^2 + penalty (sum of squared biases); the mean is that of the ratings. Best for penalty =
    variance of the noise / variance of the biases; so noisier ratings want a larger one.
    """
    users, movies = (np.concatenate([pairs, judged]).max(axis=0) + 1).tolist()

    def design(who: np.ndarray) -> sparse.csr_matrix:
        n = len(who)
        columns = np.concatenate([who[:, 0], users + who[:, 1]])
        return sparse.csr_matrix((np.ones(2 * n), (np.tile(np.arange(n), 2), columns)), shape=(n, users + movies))

    mean = float(np.mean(ratings))
    biases = linalg.lsqr(design(pairs), ratings - mean, damp=np.sqrt(penalty), atol=1e-8, btol=1e-8)[0]
    return mean + design(judged) @ biases


class RatingLearner(Learner):
    """Judges a model by its error on test ratings.

    Args:
        stars: shape (K,), what each class means.
        epsilon: of RR, whose pull towards the middle is taken back; None where there is none.
    """

    def __init__(self, *arguments, stars: np.ndarray, epsilon: float | None, **named):
        super().__init__(*arguments, **named)
        self.stars, self.epsilon = stars, epsilon

    def evaluate(self, model: nn.Module) -> dict[str, float | None]:
        """RMSE of the mean rating, of the likeliest rating, and of the mean rating unmixed."""
        scores = soft_labels.logits(model, self.test_inputs)
        mean = stages.tempered(scores, 1.0) @ self.stars  # the paper's prediction (Appendix B)
        error = functools.partial(rmse, classes=self.test_labels, stars=self.stars)
        back = None if self.epsilon is None else error(_cut(unmixed(mean, self.epsilon, self.stars), self.stars))
        return {"rmse": error(mean), "likeliest": error(self.stars[scores.argmax(axis=1)]), "unmixed": back}


@runs.experiment(
    "label_ratings",
    version=1,
    data=("dataset",),
    probe={"dataset": None, "epsilon": 2.0, "shares": [0.6, 0.4], "epochs": 2, "batch": 100, "seed": 3},
)
def rating_network(
    *,
    dataset: str | None,
    seed: int,
    epsilon: float | None,
    shares: Sequence[float] = (1.0,),
    temperature: float = 1.0,
    epochs: int = 10,
    batch: int = 256,
    learning_rate: float = 0.4,
    drops: Sequence[float] = (0.3, 0.6, 0.9),
    unmix: bool = False,
    whole: bool = True,
    validation: int = 0,
    factors: int = 8,
    widths: Sequence[int] = (32, 16, 8),
    device: str = "cpu",
) -> runs.Result:
    """LP-MST on ratings with the two-branch network.

    Args:
        dataset, whole, validation: of :func:`load`, None for synthetic ratings; with ``validation`` errors are on
            these.
        epsilon: None: no privacy. shares: of the training ratings in each stage. temperature, unmix: of stage 2, as in
            :func:`papers.labels.stage_training_runs.staged_training`. factors, widths: of
            :func:`dplib.models.two_branch`.
        seed: of split, parts, answers, weights and order; equal seeds give equal splits.

    Returns "stages", with "rmse", "likeliest" and "unmixed" (for answers of plain RR), and those of the last one again.
    """
    ratings = load(dataset or SYNTHETIC, seed, whole=whole, validation=validation)
    parts = stages.split(len(ratings.y_train), shares, np.random.default_rng([seed, 1]))
    settings = {"epochs": epochs, "batch_size": batch, "learning_rate": learning_rate, "drops": list(drops)}
    place = find_device(device)
    learner = RatingLearner(
        lambda: keras_weights_(two_branch(ratings.users, ratings.movies, len(ratings.stars), factors, tuple(widths))),
        torch.as_tensor(ratings.x_train).to(place),
        torch.as_tensor(ratings.x_valid if validation else ratings.x_test).to(place),
        ratings.y_valid if validation else ratings.y_test,
        [settings] * len(shares),
        seed=seed,
        unmix=epsilon if unmix else None,
        named=f"{dataset} {whole} {validation} {factors} {list(widths)} {device}",
        stars=ratings.stars,
        epsilon=epsilon,
    )
    outcome = stages.run(
        ratings.y_train,
        parts,
        learner,
        epsilon,
        classes=len(ratings.stars),
        temperature=temperature,
        rng=np.random.default_rng([seed, 2]),
    )
    every = [reported(stage) for stage in outcome.stages]
    return {"stages": every, **{name: every[-1][name] for name in ("rmse", "likeliest", "unmixed")}}


@runs.experiment(
    "label_rating_biases",
    version=1,
    data=("dataset",),
    probe={"dataset": None, "epsilon": 2.0, "penalty": 3.0, "seed": 3},
)
def rating_biases(
    *, dataset: str | None, epsilon: float | None, penalty: float, seed: int, whole: bool = True, validation: int = 0
) -> runs.Result:
    """The predictors that need no network, on the split and the very answers of LP-1ST with this seed: label-DP, too.

    penalty: of :func:`ridge` without noise; with answers it grows with the variance of an unmixed answer, which is
    public, as a share of the rest. Returns "constant" and "biases": RMSE of the mean rating, and of the bias model.
    """
    table = load(dataset or SYNTHETIC, seed, whole=whole, validation=validation)
    stars = table.stars
    ratings, noise = stars[table.y_train], 0.0
    if epsilon is not None:
        order = stages.split(len(ratings), [1.0], np.random.default_rng([seed, 1]))[0]  # as LP-1ST asks them
        answers = np.empty_like(table.y_train)
        answers[order] = rr(table.y_train[order], len(stars), epsilon, np.random.default_rng([seed, 2])).labels
        ratings, noise = unmixed(stars[answers], epsilon, stars), answer_variance(epsilon, stars)
    left = max(float(ratings.var()) - noise, 0.1)  # of the ratings themselves: known from the answers alone
    judged, truth = (table.x_valid, table.y_valid) if validation else (table.x_test, table.y_test)
    fitted = ridge(table.x_train, ratings, penalty * (1 + noise / left), judged)
    return {
        "constant": rmse(ratings.mean(), truth, stars),
        "biases": rmse(_cut(fitted, stars), truth, stars),
    }


def _cut(ratings: np.ndarray, stars: np.ndarray) -> np.ndarray:
    return np.clip(ratings, stars[0], stars[-1])


@functools.lru_cache(maxsize=4)
def _table(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All ratings: pairs, classes, stars."""
    one_of(*NAMES).check("ratings", name)
    if name == SYNTHETIC:
        pairs, y = synthetic(120, 100, 4000, np.random.default_rng([seed, 90]))
        return pairs, y, np.arange(1.0, 6.0)
    dataset = data.load(name)
    pairs = np.concatenate([dataset.x_train, dataset.x_test])
    y = np.concatenate([dataset.y_train, dataset.y_test])
    stars = np.array([float(c) for c in dataset.classes])
    if name == "movielens-1m" and tuple(np.bincount(y).tolist()) != STARS_OF_1M:
        raise ParameterError("movielens-1m has other counts of stars than the published file.")
    return pairs, y, stars
