"""Tables: what is public of them, the exact budget, what one row can change, and that something is learned."""

import math

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from dplib import mechanisms, tables
from dplib.checks import ParameterError
from dplib.tables import Columns, Settings

EVEN = Columns(np.full(10, -6.0), np.full(10, 6.0))


def rows(n, seed=0):
    """n rows of ten normal numbers, and whether a sum of them is above 0."""
    x = np.random.default_rng(seed).normal(size=(n, 10))
    return x, (x[:, :3].sum(1) > 0).astype(int)


def test_the_middle_of_the_public_ranges_is_out():
    columns = Columns([0, 10, 0, 0, 0], [100, 20, 1, 1, 1], [[2, 3, 4]])
    z = columns([[50, 20, 1, 0, 0], [200, 10, 0, 0, 1], [np.nan, 15, 0, 0, 0]])
    third = 1 / 3
    assert z == pytest.approx(
        np.array([[0, 1, 2 * third, -third, -third], [1, -1, -third, -third, 2 * third], [0, 0, *[-third] * 3]])
    )
    assert columns.attributes == 3


@pytest.mark.parametrize(("low", "high", "categories"), [
    ([0, 0], [1], ()), ([0, 1], [1, 1], ()), ([0, 0], [1, np.inf], ()), ([0, 0], [1, 1], [[0, 2]]),
    ([0, 0], [1, 1], [[0], [0, 1]]),
])  # fmt: skip
def test_ranges_that_cannot_be_are_refused(low, high, categories):
    with pytest.raises(ParameterError):
        Columns(low, high, categories)


@pytest.mark.parametrize("public_n", [True, False])
@pytest.mark.parametrize("n", [200, 100_000])
def test_all_releases_together_are_one_gaussian_release_of_the_budget(n, public_n):
    """mu^2 of moments, steps and count add up to the mu whose exact delta at epsilon is delta."""
    settings = Settings()
    noise = tables.noise_for(n, 30, 0.5, 1e-5, settings, public_n)
    assert math.isinf(noise.moments) == (n == 200)  # there they would say nothing, and nothing is spent on them
    mu = settings.steps / noise.gradient**2 + (0 if math.isinf(noise.moments) else noise.moments**-2)
    mu += 0 if public_n else tables.count_noise(0.5, 1e-5) ** -2
    assert float(mechanisms.gaussian_delta(mu**-0.5, 1.0, 0.5)) == pytest.approx(1e-5, rel=1e-6)


def test_one_row_changes_the_moments_by_no_more_than_the_noise_is_made_for():
    x, _ = rows(50)
    z = EVEN(x)
    for extra in (np.ones(10), -np.ones(10), np.zeros(10), np.random.default_rng(1).choice([-1.0, 1.0], 10)):
        sums = [np.hstack([a.sum(0), (a**2 - 0.5).sum(0)]) for a in (z, np.vstack([z, extra]))]
        assert np.linalg.norm(sums[1] - sums[0]) <= tables.most_moments(10) * (1 + 1e-12)


def test_one_row_moves_a_step_by_the_clipping_norm_at_most():
    """A row alone, clipped to a thousandth: two steps in one direction, of a thousandth each."""
    settings = Settings(0, 1e-3, 1.0, 2)
    weights, bias = tables.descend(np.full((1, 4), 100.0), np.array([1]), 2, settings, 1.0, 0.0, None)
    assert np.linalg.norm(np.vstack([weights, bias])) == pytest.approx(2e-3, rel=1e-3)


def test_noise_has_the_deviation_that_the_budget_asks_for():
    """Without a gradient to speak of, a step moves each weight by rate / n times noise times clipping norm."""
    settings, x = Settings(0, 1.0, 1.0, 2), np.zeros((1, 20_000))
    generator = tables.torch.Generator().manual_seed(0)
    weights, _ = tables.descend(x, np.array([0]), 2, settings, 10.0, 5.0, generator)
    assert weights.std() == pytest.approx(5.0 * math.sqrt(2) / 10, rel=0.03)


def test_it_learns_what_rows_of_positive_numbers_say():
    """5,000 rows of 40 columns between 0 and their largest, at epsilon 1: within two points of ordinary training."""
    x, y = make_classification(7000, 40, n_informative=15, random_state=7)
    x -= x.min(0)
    columns = Columns(np.zeros(40), x.max(0))
    train, test = np.arange(5000), np.arange(5000, 7000)
    ordinary = LogisticRegression(max_iter=500).fit(x[train], y[train]).score(x[test], y[test])
    model = tables.fit(
        columns(x[train]), y[train], columns, classes=2, epsilon=1.0, delta=1e-5, rng=np.random.default_rng(0)
    )
    assert (model.predict(columns(x[test])) == y[test]).mean() > ordinary - 0.02


@pytest.mark.parametrize("public_n", [True, False])
def test_columns_in_a_corner_of_a_wide_range_are_learned(public_n):
    """The moments do it: without them nothing is learned from numbers in a corner of their range."""
    x, y = rows(4000)
    wide = Columns(np.full(10, -5.0), np.full(10, 45.0))
    test, y_test = rows(1000, 1)
    reached = [
        float((tables.fit(wide(x), y, wide, classes=2, epsilon=20.0, delta=1e-5, rng=np.random.default_rng(0),
                          settings=settings, public_n=public_n).predict(wide(test)) == y_test).mean())
        for settings in (Settings(), Settings(moments=0))
    ]  # fmt: skip
    assert reached[0] > reached[1] + 0.15


def test_a_seed_decides_the_noise_and_none_takes_the_cryptographic_source():
    x, y = rows(300)
    models = [
        tables.fit(EVEN(x), y, EVEN, classes=2, epsilon=1.0, delta=1e-5, rng=rng)
        for rng in (np.random.default_rng(3), np.random.default_rng(3), None, None)
    ]
    same = [np.array_equal(models[i].weights, models[i + 1].weights) for i in (0, 2)]
    assert same == [True, False]


@pytest.mark.parametrize("wrong", [
    {"y": np.full(300, 2)}, {"y": np.zeros(300)}, {"y": np.zeros(299, int)}, {"z": np.full((300, 10), 2.0)},
    {"z": np.full((300, 10), np.nan)}, {"z": np.zeros((300, 9))}, {"classes": 1}, {"epsilon": -1.0}, {"delta": 0.0},
])  # fmt: skip
def test_arguments_that_are_not_allowed_are_refused_before_anything_is_released(wrong):
    x, y = rows(300)
    given = {"z": EVEN(x), "y": y, "classes": 2, "epsilon": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(ParameterError):
        tables.fit(given.pop("z"), given.pop("y"), EVEN, rng=np.random.default_rng(0), **given)
