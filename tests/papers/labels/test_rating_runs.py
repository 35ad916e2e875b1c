"""Ratings: splits and rounding, the bias model against dense algebra, and what randomised response does to a mean."""

import numpy as np
import pytest

from dplib import randomised_response
from dplib.checks import ParameterError
from papers.labels import rating_runs

STARS = np.arange(1.0, 6.0)
EPSILONS = [0.3, 1.0, 2.0, 8.0]


@pytest.fixture(scope="module")
def ratings():
    return rating_runs.load("synthetic-ratings", 3, validation=200)


def test_parts_are_a_partition_of_the_ratings_and_the_test_part_is_a_fifth(ratings):
    pairs, y = rating_runs.synthetic(120, 100, 4000, np.random.default_rng([3, 90]))
    parts = np.concatenate([ratings.x_train, ratings.x_valid, ratings.x_test])
    assert len(np.unique(parts, axis=0)) == len(pairs) == 4000
    classes = np.concatenate([ratings.y_train, ratings.y_valid, ratings.y_test])
    as_table = dict(zip(map(tuple, pairs.tolist()), y.tolist(), strict=True))
    assert dict(zip(map(tuple, parts.tolist()), classes.tolist(), strict=True)) == as_table
    assert (len(ratings.y_test), len(ratings.y_valid)) == (800, 200)
    assert (ratings.users, ratings.movies) == (120, 100)


def test_wrong_names_and_sizes_are_refused():
    with pytest.raises(ParameterError, match="ratings = 'movielens' is not allowed"):
        rating_runs.load("movielens", 0)
    with pytest.raises(ParameterError, match="validation"):
        rating_runs.load("synthetic-ratings", 0, validation=3200)
    with pytest.raises(ParameterError, match="ratings"):
        rating_runs.synthetic(2, 3, 7, np.random.default_rng(0))


def test_half_stars_are_rounded_up_and_whole_stars_stay():
    classes, stars = rating_runs.whole_stars(np.arange(10), np.arange(1, 11) / 2)
    np.testing.assert_array_equal(stars, STARS)
    np.testing.assert_array_equal(classes, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    same, same_stars = rating_runs.whole_stars(np.arange(5), STARS)
    np.testing.assert_array_equal(same, np.arange(5))
    np.testing.assert_array_equal(same_stars, STARS)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_kept_share_is_what_the_table_of_rr_mixes_in(epsilon):
    table = np.exp(randomised_response.log_table(np.ones(5, dtype=bool), epsilon))
    a = rating_runs.kept_share(epsilon, 5)
    np.testing.assert_allclose(table, a * np.eye(5) + (1 - a) / 5)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unmixed_answers_are_unbiased_with_the_variance_that_the_table_gives(epsilon):
    """By enumeration of all answers to all ratings."""
    table = np.exp(randomised_response.log_table(np.ones(5, dtype=bool), epsilon))
    estimate = rating_runs.unmixed(STARS, epsilon, STARS)
    np.testing.assert_allclose(table @ estimate, STARS)
    variance = table @ estimate**2 - STARS**2
    assert rating_runs.answer_variance(epsilon, STARS) == pytest.approx(variance.mean())


@pytest.mark.parametrize("penalty", [0.5, 7.0])
def test_biases_solve_the_normal_equations(penalty):
    rng = np.random.default_rng(2)
    pairs, y = rating_runs.synthetic(9, 7, 40, rng)
    fitted = rating_runs.ridge(pairs, STARS[y], penalty, pairs)
    design = np.zeros((40, 16))
    design[np.arange(40), pairs[:, 0]] = 1
    design[np.arange(40), 9 + pairs[:, 1]] = 1
    target = STARS[y] - STARS[y].mean()
    exact = np.linalg.solve(design.T @ design + penalty * np.eye(16), design.T @ target)
    np.testing.assert_allclose(fitted, STARS[y].mean() + design @ exact, atol=1e-6)
