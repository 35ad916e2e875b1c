"""The best of a random number of runs, against simulation and closed forms."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import stats

from dplib import accounting, mechanisms
from dplib import best_of_random as best
from dplib.checks import ParameterError

TOY = np.array([[-1.0, 0.0, 1.0], [0.1, 0.3, 0.6], [0.1 * np.e, 0.3, 0.6 / np.e]])
TOY[2, 1] = 1 - TOY[2, 0] - TOY[2, 2]
TOY[1, 1] = 0.3


def test_outputs_of_the_best_have_the_probabilities_of_the_generating_function():
    rng, gamma = np.random.default_rng(0), 0.2
    runs = rng.geometric(gamma, 100_000)  # shape 1
    ranks = rng.choice(3, (len(runs), runs.max()), p=TOY[1])
    ranks[np.arange(runs.max()) >= runs[:, None]] = -1
    found = np.bincount(ranks.max(1), minlength=3) / len(runs)
    assert np.allclose(found, best._best(TOY[1], gamma, 1.0), atol=4 * 0.5 / len(runs) ** 0.5)


LAWS = [(1.0, 0.01), (0.0, 0.01), (-0.5, 0.001), (1.0, 1e-9), (1000.0, 0.001), (2.0, 1 - 1e-12)]


def generating(z, gamma, shape):
    """E z^K in as many digits as are set."""
    base, gamma = 1 - (1 - mpmath.mpf(gamma)) * z, mpmath.mpf(gamma)
    if shape == 0:
        return mpmath.log(base) / mpmath.log(gamma)
    return (base**-shape - 1) / (gamma**-shape - 1)


@pytest.mark.parametrize(("shape", "gamma"), LAWS)
def test_outcomes_of_any_probability_have_all_digits(shape, gamma):
    """Differences of sums near 1 gave none of those that have less than 1e-16."""
    mass = np.array([1e-300, 1e-20, 0.3, 0.0, 0.7 - 1e-17, 1e-17, 1e-40])
    with mpmath.workdps(400):
        worse = [mpmath.mpf(0)]
        for m in mass:
            worse.append(worse[-1] + mpmath.mpf(m))
        ends = [generating(w / worse[-1], gamma, shape) for w in worse]
        exact = [float(b - a) for a, b in itertools.pairwise(ends)]
    assert best._best(mass, gamma, shape) == pytest.approx(exact, rel=1e-9, abs=1e-307)


@pytest.mark.parametrize(("shape", "gamma"), LAWS)
def test_the_mean_is_the_slope_of_the_generating_function_at_one(shape, gamma):
    with mpmath.workdps(60):
        h = mpmath.mpf(10) ** -25
        slope = float((1 - generating(1 - h, gamma, shape)) / h)
    assert best._mean(gamma, shape) == pytest.approx(slope, rel=1e-9)


def test_one_run_for_sure_costs_one_run():
    result = best.training(2.0, 0.01, 200, 1e-3)
    epsilon_ = best.epsilon(result, 0.9999, 1.0, 1e-5)
    alone = max(best._epsilon_of(*pair[1:], 1e-5) for pair in result)
    assert epsilon_.low == pytest.approx(alone, abs=2e-3)
    assert alone <= epsilon_.high + 1e-6 <= alone + 5e-3


def test_a_pure_run_costs_at_most_three_times_its_epsilon():
    losses = np.array([-1.0, 1.0])
    mass = np.array([1.0, np.e]) / (1 + np.e)
    epsilon_ = best.epsilon([np.array([losses, mass, mass[::-1]])], 0.01, 1.0, 1e-9)
    assert epsilon_.low <= 3
    assert epsilon_.low <= epsilon_.high


def test_the_bounds_bracket_a_gaussian_score():
    sigma, gamma, delta = 2.0, 0.1, 1e-5
    result = best.training(sigma, 1.0, 1, 1e-3)
    epsilon_ = best.epsilon(result, gamma, 1.0, delta)
    assert mechanisms.gaussian_epsilon(sigma, 1.0, delta) < epsilon_.low <= epsilon_.high < 1.15 * epsilon_.low


def test_one_run_costs_what_it_costs():
    alone = best.of_trainings(1.0, 0.01, 100, 1, 1.0, 1e-5)
    assert alone.low == alone.high == pytest.approx(accounting.epsilon(1.0, 0.01, 100, 1e-5), rel=0.01)


def test_what_is_no_promise_is_refused():
    """Epsilon above 100; and losses beyond the grid, whose mass alone exceeds delta."""
    losses = np.array([-300.0, 300.0])
    loud = np.array([losses, [0.0, 1.0], [1.0, 0.0]])
    beyond = np.array([[0.0, np.inf], [0.9, 0.1], [1.0, 0.0]])
    for pair in (loud, beyond):
        with pytest.raises(ParameterError, match="above epsilon = 100"):
            best.epsilon([pair], 0.1, 1.0, 1e-5)


FULL = [(2.0, 200), (2.0, 380), (1.0, 90), (0.5, 1), (0.4, 1), (0.5, 4), (100.0, 1)]


@pytest.mark.parametrize(("noise", "steps"), FULL)
def test_one_run_of_full_batches_costs_what_the_gaussian_does(noise, steps):
    """The neighbour's probabilities, of one direction alone, summed to 0.03 or to 618, and were divided by it."""
    exact = mechanisms.gaussian_epsilon(noise, steps**0.5, 1e-5)
    spent = best.of_trainings(noise, 1.0, steps, 1, 1.0, 1e-5)
    assert exact - 1e-9 <= spent.low == spent.high <= exact + 1e-5


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [(2.0, 1.0, 200), (0.4, 1.0, 1), (0.5, 0.1, 100), (1.0, 0.01, 1000), (2.0, 1e-3, 48_000)],
)
def test_both_rows_are_probabilities_and_their_ratio_is_the_loss(noise, rate, steps):
    both = best.training(noise, rate, steps)
    for losses, mass, other in both:
        assert 1 - 1e-12 <= mass.sum() < 1 + 1e-10
        assert 1 - 1e-10 < other.sum() <= 1 + 1e-12
        likely = (mass > 1e-300) & (other > 1e-300)
        np.testing.assert_allclose(np.log(mass[likely] / other[likely]), losses[likely], rtol=1e-12, atol=1e-9)
        assert 0 < mass[-1] < 1e-10
        assert losses[-1] == -losses[0] == np.inf
        assert other[-1] == mass[0] == 0
    np.testing.assert_array_equal(both[0][0], -both[1][0][::-1])


@pytest.mark.parametrize("steps", [1, 4, 7, 10])
def test_a_score_needs_less_than_a_bound_of_the_gaussian_trade_off(steps):
    """At 4 steps it needed more; at 7 and 10 it was refused, for what lies beyond the last digits of 1."""
    gamma, delta, cut, shift = 0.1, 1e-5, np.linspace(-40, 40, 200_001), steps**0.5
    mine, others = stats.norm.sf(cut - shift), stats.norm.sf(cut)
    ratio = 2 * np.log((1 - (1 - gamma) * others) / (1 - (1 - gamma) * mine)).max()
    bound = ratio + mechanisms.gaussian_epsilon(1.0, shift, gamma * delta)
    found = best.of_trainings(1.0, 1.0, steps, 10, 1.0, delta)
    assert mechanisms.gaussian_epsilon(1.0, shift, delta) < found.low < found.high
    assert bound - 1e-6 < found.high < bound + 1e-3


def test_the_best_of_some_dear_runs_is_not_refused():
    found = best.of_trainings(0.6, 0.05, 200, 10, 1.0, 1e-5)
    assert 15.4 < found.low < found.high < 21


def test_a_bound_above_100_is_refused_although_one_run_is_below():
    one = best.training(1.0, 1.0, 110, 1e-3)
    assert 98 < best.epsilon(one, 1.0, 1.0, 1e-5).high < 100
    with pytest.raises(ParameterError, match="above epsilon = 100"):
        best.epsilon(one, 0.3, 1.0, 1e-5)


def test_what_are_no_probabilities_is_refused():
    for wrong in (
        TOY[:, ::-1],
        TOY * [[1], [1], [0.84]],
        TOY * [[1], [1 + 1e-5], [1]],
        TOY * [[1], [-1], [1]],
        TOY[:2],
    ):
        with pytest.raises(ParameterError, match="pairs is not allowed"):
            best.epsilon([TOY, wrong], 0.1, 1.0, 1e-5)
    unknown = TOY.copy()
    unknown[1, 0] = np.nan
    with pytest.raises(ParameterError, match="pairs is not allowed"):
        best.epsilon([unknown], 0.1, 1.0, 1e-5)


def test_a_grid_on_which_rounding_leaves_no_probabilities_is_refused(monkeypatch):
    monkeypatch.setattr(best, "_ROUNDING", 0.0)
    with pytest.raises(ParameterError, match=r"interval = 0\.001 is not allowed with noise_multiplier = 0\.7"):
        best.training(0.7, 0.3, 10, 1e-3)


def test_a_grid_of_too_many_places_is_refused_before_it_is_made():
    with pytest.raises(ParameterError, match=r"steps = 1000000 is not allowed with interval = 0\.0002"):
        best.training(0.3, 0.5, 10**6)
