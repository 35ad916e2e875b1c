"""One run of paper C's MovieLens experiment: LP-MST with a two-branch network, or the bias model on the same answers.

Mixup is left out: numbers of users and movies cannot be mixed, and the paper does not say what it did instead.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from dplib.architectures import keras_weights_, two_branch
from dplib.labels import movielens, training
from dplib.labels import stages as label_stages
from dplib.labels import variants as label_variants
from dplib.labels.movielens import Ratings
from dplib.labels.randomised_response import rr
from dplib.labels.variants import VariantLearner


class RatingLearner(VariantLearner):
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
        scores = training.logits(model, self.test_inputs)
        mean = movielens.expected(label_stages.tempered(scores, 1.0), self.stars)
        error = partial(movielens.rmse, classes=self.test_labels, stars=self.stars)
        back = None if self.epsilon is None else error(_back(mean, self.epsilon, self.stars))
        return {"rmse": error(mean), "likeliest": error(self.stars[scores.argmax(axis=1)]), "unmixed": back}


def network(
    *,
    dataset: str,
    epsilon: float | None,
    shares: Sequence[float],
    settings: Mapping[str, Any],
    seed: int,
    whole: bool = True,
    validation: int = 0,
    factors: int = 8,
    widths: Sequence[int] = (32, 16, 8),
    variants: Sequence[Mapping[str, Any]] = ({},),
) -> dict[str, Any]:
    """LP-MST on ratings.

    Args:
        dataset, whole, validation: of :func:`dplib.labels.movielens.load`; with ``validation`` the errors are on these
            ratings instead of the test part.
        epsilon: None: no privacy. shares: of the training ratings in each stage; one: LP-1ST.
        settings: of :func:`dplib.labels.training.fit`. factors, widths: of :func:`dplib.architectures.two_branch`.
        seed: of split, parts, answers, weights and order; equal seeds give equal splits.
        variants: of :func:`dplib.labels.variants.run`.

    Returns:
        "variants": for each its stages. "unmixed" in an evaluation is meant for answers of plain RR: of one stage.
    """
    found = movielens.load(dataset, seed, whole=whole, validation=validation)
    parts = label_stages.split(len(found.y_train), shares, np.random.default_rng([seed, 1]))
    learner = RatingLearner(
        lambda: keras_weights_(two_branch(found.users, found.movies, len(found.stars), factors, tuple(widths))),
        torch.as_tensor(found.x_train),
        torch.as_tensor(found.x_valid if validation else found.x_test),
        found.y_valid if validation else found.y_test,
        settings,
        seed=seed,
        stars=found.stars,
        epsilon=epsilon,
    )
    stages = label_variants.run(
        found.y_train, parts, learner, epsilon, variants, classes=len(found.stars), seed=(seed, 2)
    )
    return {"variants": stages, **_about(found)}


def simple(
    *, dataset: str, epsilon: float | None, penalty: float, seed: int, whole: bool = True, validation: int = 0
) -> dict[str, Any]:
    """The predictors that need no network, on the split and the very answers of LP-1ST with this seed: label-DP, too.

    Args:
        penalty: of :func:`dplib.labels.movielens.fit_biases` where there is no noise; with answers it grows with the
            variance of an unmixed answer, which is public, as a share of the variance of the unmixed answers that is
            left.

    Returns:
        "constant" and "biases": RMSE of the mean rating, and of the bias model.
    """
    found = movielens.load(dataset, seed, whole=whole, validation=validation)
    stars = found.stars
    ratings, noise = stars[found.y_train], 0.0
    if epsilon is not None:
        order = label_stages.split(len(ratings), [1.0], np.random.default_rng([seed, 1]))[0]  # as LP-1ST asks them
        answers = np.empty_like(found.y_train)
        answers[order] = rr(found.y_train[order], len(stars), epsilon, np.random.default_rng([seed, 2])).labels
        ratings, noise = movielens.unmixed(stars[answers], epsilon, stars), movielens.answer_variance(epsilon, stars)
    left = max(float(ratings.var()) - noise, 0.1)  # of the ratings themselves: known from the answers alone
    fitted = movielens.fit_biases(found.x_train, ratings, found.users, found.movies, penalty * (1 + noise / left))
    judged, truth = (found.x_valid, found.y_valid) if validation else (found.x_test, found.y_test)
    predicted = np.clip(fitted.predict(judged), stars[0], stars[-1])
    return {
        "constant": movielens.rmse(ratings.mean(), truth, stars),
        "biases": movielens.rmse(predicted, truth, stars),
        **_about(found),
    }


def _back(mean: np.ndarray, epsilon: float, stars: np.ndarray) -> np.ndarray:
    return np.clip(movielens.unmixed(mean, epsilon, stars), stars[0], stars[-1])


def _about(found: Ratings) -> dict[str, Any]:
    sizes = {"train": len(found.y_train), "validation": len(found.y_valid), "test": len(found.y_test)}
    return {"sizes": sizes, "users": found.users, "movies": found.movies, "classes": len(found.stars)}
