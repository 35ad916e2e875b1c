"""The best of a random number of runs, against simulation and closed forms."""

import numpy as np
import pytest

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
    exact = np.diff(best._generating(np.cumsum(TOY[1]), gamma, 1.0), prepend=0)
    assert np.allclose(found, exact, atol=4 * 0.5 / len(runs) ** 0.5)


@pytest.mark.parametrize(("shape", "gamma"), [(1.0, 0.01), (0.0, 0.01), (-0.5, 0.001)])
def test_the_slope_is_that_of_the_generating_function(shape, gamma):
    h, z = 1e-6, np.array([0.1, 0.9])
    rise = best._generating(z + h, gamma, shape) - best._generating(z - h, gamma, shape)
    assert np.allclose(rise / (2 * h), best._slope(z, gamma, shape), rtol=1e-5)


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
