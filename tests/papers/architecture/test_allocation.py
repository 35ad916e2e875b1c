"""Batches by lot: against closed forms, simulation, and known relations."""

import numpy as np
import pytest

from dplib import mechanisms
from dplib.checks import ParameterError
from papers.architecture import allocation


def test_one_step_an_epoch_is_the_gaussian_mechanism():
    bounds_ = allocation.bounds(1.5, 1, 3, 1e-4)
    exact = mechanisms.gaussian_epsilon(1.5 / 3**0.5, 1.0, 1e-4)
    assert bounds_.low <= exact <= bounds_.high <= bounds_.low + 2e-3


def test_the_bounds_have_their_delta_in_a_simulation():
    sigma, steps, epochs, delta = 1.0, 10, 3, 1e-3
    bounds_ = allocation.bounds(sigma, steps, epochs, delta)
    assert bounds_.high - bounds_.low < 2e-3
    rng = np.random.default_rng(0)
    x = sigma * rng.standard_normal((300_000, epochs, steps))
    x[:, :, 0] += 1  # which step it is does not matter
    loss = np.log(np.exp((x - 0.5) / sigma**2).mean(2)).sum(1)
    kept = np.clip(-np.expm1(bounds_.high - loss), 0, None)
    error = kept.std() / len(kept) ** 0.5
    assert abs(kept.mean() - delta) < 4 * error < 0.2 * delta


def test_more_steps_to_hide_in_cost_less():
    few, many = (allocation.bounds(1.0, steps, 2, 1e-4) for steps in (4, 8))
    assert many.high < few.low


def test_a_delta_below_the_rounding_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        allocation.bounds(1.0, 2, 1, 1e-9)
