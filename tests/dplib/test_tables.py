"""Tables: what is public of them, the exact budget, what one row can change, and that something is learned."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from dplib import mechanisms, tables
from dplib.checks import ParameterError
from dplib.dpsgd import DPSGD
from dplib.examples import Examples
from dplib.logistic_grid import LogisticGrid
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
    ([0, 0], [1, 1], [[0], [0, 1]]), ([0, 0], [1, 1], [[]]), ([0, 0], [1, 1], [0, 1]), ([0, 0], [1, 1], 5),
    ([0, 0], [1, 1], [[0.0, 1.0]]), (["a", "b"], [1, 1], ()),
])  # fmt: skip
def test_ranges_that_cannot_be_are_refused(low, high, categories):
    with pytest.raises(ParameterError):
        Columns(low, high, categories)


@pytest.mark.parametrize(("public_n", "public_ranges"), [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("n", [200, 100_000])
def test_all_releases_together_are_one_gaussian_release_of_the_budget(n, public_n, public_ranges):
    """mu^2 of moments, steps, count and ranges add up to the mu whose exact delta at epsilon is delta."""
    settings = Settings()
    noise = tables.noise_for(n, 30, 0.5, 1e-5, settings, public_n, public_ranges)
    assert math.isinf(noise.moments) == (n == 200)  # there they would say nothing, and nothing is spent on them
    mu = settings.steps / noise.gradient**2 + (0 if math.isinf(noise.moments) else noise.moments**-2)
    mu += 0 if public_n else tables.count_noise(0.5, 1e-5) ** -2
    mu += 0 if public_ranges else tables.RANGED * float(mechanisms.analytic_sigma(0.5, 1e-5)) ** -2
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
    {"y": np.full(300, 2)}, {"y": np.full(300, 0.5)}, {"y": np.zeros(299, int)}, {"z": np.full((300, 10), 2.0)},
    {"z": np.full((300, 10), np.nan)}, {"z": np.zeros((300, 9))}, {"classes": 1}, {"epsilon": -1.0}, {"delta": 0.0},
])  # fmt: skip
def test_arguments_that_are_not_allowed_are_refused_before_anything_is_released(wrong):
    x, y = rows(300)
    given = {"z": EVEN(x), "y": y, "classes": 2, "epsilon": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(ParameterError):
        tables.fit(given.pop("z"), given.pop("y"), EVEN, rng=np.random.default_rng(0), **given)


def test_a_budget_that_is_spent_before_the_steps_is_refused():
    """A noisy count and ranges take their parts beside the moments': 0.95 + 0.02 + 0.1 is more than there is."""
    x, y = rows(300)
    given = {"classes": 2, "epsilon": 1.0, "delta": 1e-5, "rng": None, "settings": Settings(moments=0.95)}
    with pytest.raises(ParameterError, match=r"moments = 0\.95 is not allowed"):
        tables.fit(EVEN(x), y, EVEN, public_n=False, public_ranges=False, **given)
    assert tables.noise_for(1e9, 10, 1.0, 1e-5, Settings(moments=0.95), public_n=False).gradient > 0


def test_columns_that_are_none_are_refused():
    x, y = rows(300)
    with pytest.raises(ParameterError, match="columns = None"):
        tables.fit(EVEN(x), y, None, classes=2, epsilon=1.0, delta=1e-5, rng=None)


FOUND = np.array([[0.3, 0.0, 5.0, 1.0], [-70.0, 0.0, np.nan, 0.0], [1.0, 0.0, 900.0, 1.0]])


def test_ranges_that_nobody_knows_hold_all_numbers_where_there_is_no_noise():
    """Powers of four around each column and 0; what is known stays; a column of zeros has some range."""
    low, high = [np.nan, np.nan, np.nan, 0.0], [np.nan, np.nan, np.nan, 1.0]
    columns = tables.find_ranges(FOUND, low, high, epsilon=math.inf, delta=1e-5, rng=None)
    assert columns.low.tolist() == [-256.0, -1.0, 0.0, 0.0]
    assert columns.high.tolist() == [1.0, 1.0, 1024.0, 1.0]
    with pytest.raises(ParameterError):
        tables.find_ranges(FOUND, low[:3], high[:3], epsilon=1.0, delta=1e-5, rng=None)
    with pytest.raises(ParameterError):
        tables.find_ranges(FOUND, [np.nan, *low[1:3], 1.0], high, epsilon=1.0, delta=1e-5, rng=None)


def test_one_row_changes_the_counts_of_magnitudes_by_no_more_than_the_noise_is_made_for():
    """In one bin of each column: the root of their number, huge, tiny and missing numbers included."""
    x = np.random.default_rng(0).normal(size=(40, 6)) * 10.0 ** np.arange(-9, 9, 3)
    for extra in (np.full(6, 1e300), np.full(6, -1e-300), np.zeros(6), np.full(6, 4.0), np.full(6, np.nan)):
        change = tables.magnitudes(np.vstack([x, extra])) - tables.magnitudes(x)
        assert np.linalg.norm(change) <= math.sqrt(6)
        assert change.sum() == (0 if np.isnan(extra).all() else 6)


def test_the_noise_of_the_counts_is_that_of_its_part_of_the_budget(monkeypatch):
    """Seen where nothing is in any bin: the counts are the noise."""
    seen = []
    monkeypatch.setattr(tables, "normal", lambda shape, generator: seen.append(shape) or np.ones(shape))
    monkeypatch.setattr(tables.stats.norm, "isf", lambda chance: seen.append(chance) or 2.0)
    unknown = np.full(5, np.nan)
    columns = tables.find_ranges(np.full((9, 5), 3.0), unknown, unknown, epsilon=0.5, delta=1e-5, rng=None)
    assert seen == [(5, 63), tables.FALSE_ALARM / (5 * 63)]
    assert columns.high.tolist() == [4.0] * 5  # the fullest bin, though nothing stands out


def test_with_ranges_that_were_found_something_is_learned():
    """Columns in thousands and thousandths, at a tenth less of the budget: nearly as good as with public ranges."""
    x, y = rows(6000, 3)
    x = x * 10.0 ** np.repeat([3, -3], 5)
    unknown, rng, budget = np.full(10, np.nan), np.random.default_rng(0), {"epsilon": 1.0, "delta": 1e-5}
    columns = tables.find_ranges(x[:5000], unknown, unknown, **budget, rng=rng)
    model = tables.fit(columns(x[:5000]), y[:5000], columns, classes=2, **budget, rng=rng, public_ranges=False)
    assert (model.predict(columns(x[5000:])) == y[5000:]).mean() > 0.9


def test_the_steps_are_those_of_the_other_trainer_of_logistic_regression():
    """With all rows in each step and no noise: the means of the second half of its iterates."""
    x, y = rows(80, 1)
    chosen = Settings(steps=9, learning_rate=0.7, max_grad_norm=0.5)
    weights, bias = tables.descend(x, y, 2, chosen, len(x), 0.0, None)
    alike = DPSGD(9, 1.0, 0.7, noise_multiplier=0.0, max_grad_norm=0.5)
    given = Examples((torch.tensor(x), torch.tensor(y)), "train", torch.device("cpu"), torch.float64)
    grid, iterates = LogisticGrid([alike], given, 2, None), []
    for _ in range(9):
        grid.step(torch.arange(len(x)))
        iterates.append((grid.weights[:, 0].T.clone().numpy(), grid.bias[:, 0].clone().numpy()))
    for found, other in zip((weights, bias), zip(*iterates[4:], strict=True), strict=True):
        np.testing.assert_allclose(found, np.mean(other, axis=0), rtol=1e-4, atol=1e-6)


def test_one_end_of_a_range_is_not_found_alone():
    with pytest.raises(ParameterError, match="low and high must be known, or NaN, together"):
        tables.find_ranges(FOUND, [0.0] * 4, [np.nan, 1, 1, 1], epsilon=1.0, delta=1e-5, rng=None)


def test_hidden_values_and_texts_are_in_no_table():
    known, given = Columns(-np.ones(2), np.ones(2)), {"classes": 2, "epsilon": 1.0, "delta": 1e-5}
    z, y, hidden = np.zeros((3, 2)), [0, 1, 1], np.ma.masked_array(np.zeros((3, 2)), True)
    for call in (
        lambda: known(hidden),
        lambda: tables.find_ranges(hidden, [0, 0], [1, 1], epsilon=1.0, delta=1e-5, rng=None),
        lambda: tables.fit(hidden, y, known, **given, rng=None),
        lambda: tables.fit(z, np.ma.masked_array(y, [0, 0, 1]), known, **given, rng=None),
    ):
        with pytest.raises(ParameterError, match="masked"):
            call()
    with pytest.raises(ParameterError, match="x = ") as refused:
        known([["Alice", "Bob"]])
    assert "Alice" not in str(refused.value)
    with pytest.raises(ParameterError, match="rng = 0"):
        tables.fit(z, y, known, **given, rng=0)


def test_labels_may_be_stored_as_floats():
    known, z = Columns(-np.ones(2), np.ones(2)), np.array([[0.5, 1], [-1, 0], [0.2, 0.1]])
    models = [
        tables.fit(z, y, known, classes=2, epsilon=1.0, delta=1e-5, rng=np.random.default_rng(0))
        for y in (np.array([0, 1, 1]), [0.0, 1.0, 1.0])
    ]
    assert (models[0].weights == models[1].weights).all()


def test_a_row_whose_scores_overflow_adds_nothing():
    """Infinity less infinity is no number, and no clipping holds it: weights were lost for that one row."""
    settings, zeros = Settings(0, 1.0, 1e30, 3), np.zeros((50, 1))
    for rows_ in (zeros, np.vstack([zeros, [[1e4]]])):
        for seed in range(5):
            generator = torch.Generator().manual_seed(seed)
            with np.errstate(over="ignore", invalid="ignore"):
                found = tables.descend(rows_, np.zeros(len(rows_), int), 2, settings, 1.0, 1e7, generator)
            assert all(np.isfinite(part).all() for part in found)


def test_settings_that_float32_does_not_hold_are_refused():
    for wrong in ({"learning_rate": 2e38}, {"learning_rate": 1e-31}, {"max_grad_norm": 1e13}, {"max_grad_norm": 1e-13}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            Settings(**wrong)
    x, y = rows(300)
    for epsilon in (1.0, math.inf):
        for n in (1, 1e18):
            with pytest.raises(
                ParameterError, match=r"learning_rate = 1e\+20 is not allowed with max_grad_norm = 1e\+12"
            ):
                tables.noise_for(n, 10, epsilon, 1e-5, Settings(max_grad_norm=1e12, learning_rate=1e20))
    with pytest.raises(ParameterError, match="noise multiplier"):
        tables.fit(
            EVEN(x), y, EVEN, classes=2, epsilon=1e-9, delta=1e-5, rng=None, settings=Settings(learning_rate=1e25)
        )


@pytest.mark.parametrize("wrong", [
    {"public_n": "no"}, {"public_n": 0}, {"public_n": None}, {"public_ranges": "no"}, {"public_ranges": 1},
    {"settings": None}, {"settings": {"steps": 3}}, {"epsilon": np.array([1.0, 2.0])},
])  # fmt: skip
def test_what_is_public_is_said_by_true_or_false(wrong):
    """A text counted as true, and the number of rows was taken as it is."""
    given, (name,) = {"epsilon": 1.0, "delta": 1e-5} | wrong, wrong
    with pytest.raises(ParameterError, match=f"^{name} = "):
        tables.noise_for(300, 10, **given)
    x, y = rows(300)
    with pytest.raises(ParameterError, match=f"^{name} = "):
        tables.fit(EVEN(x), y, EVEN, classes=2, rng=np.random.default_rng(0), **given)


def test_one_budget_is_one_number():
    two, unknown = np.array([1.0, 2.0]), np.full(4, np.nan)
    with pytest.raises(ParameterError, match=r"epsilon = .* it must be one of the numbers"):
        tables.find_ranges(FOUND, unknown, unknown, epsilon=two, delta=1e-5, rng=None)
    with pytest.raises(ParameterError, match=r"epsilon = .* it must be one of the numbers"):
        tables.count_noise(two, 1e-5)


def test_settings_keep_their_digits_whatever_numbers_they_are():
    settings = tables.Settings(learning_rate=np.float16(0.5), max_grad_norm=np.uint8(2), steps=np.uint8(200))
    assert [type(v) for v in vars(settings).values()] == [float, float, float, int]
    assert settings.steps * 2 == 400
