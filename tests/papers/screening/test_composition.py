"""Composition of exact one-step losses: against accountants, against another computation, against simulated runs."""

import numpy as np
import pytest

from dplib import accounting, mechanisms
from dplib.checks import ParameterError
from papers.screening import composition, one_update


def pair(shift, acceptance, q=1.0, limit=None, width=0.02):
    return one_update.cells(*one_update.pair(shift, acceptance, limit, q), width)


def test_gaussians_add_up():
    for steps in (1, 4, 25):
        epsilon_ = composition.epsilon([(pair(0.4, one_update.always(), limit=0), steps)], 1e-5)
        exact = mechanisms.gaussian_epsilon(1.0, 0.4 * np.sqrt(steps), 1e-5)
        assert epsilon_ == pytest.approx(exact, rel=1e-4)
        assert epsilon_ <= exact


def test_plain_dp_sgd_against_two_accountants():
    sigma, q, steps = 1.23, 512 / 60_000, 1000
    epsilon_ = composition.epsilon([(pair(1 / sigma, one_update.always(), q, 0), steps)], 1e-5)
    assert epsilon_ == pytest.approx(accounting.inverted_epsilon(sigma, q, steps, 1e-5), rel=1e-4)
    bounds = accounting.bounds([(sigma, q, steps)], 1e-5, "pld")
    assert bounds.low * 0.999 <= epsilon_ <= bounds.high


def test_screened_updates_by_two_computations():
    """Inversion of the transform lies between the bounds of privacy loss distributions."""
    for acceptance, q, limit, steps in (
        (one_update.threshold(1.0), 0.02, 10, 300),
        (one_update.wells(-1.0, 1.0, 0.2), 0.05, None, 200),
        (one_update.annealed([-1.0, 0.5, 1.0], [1.0, 0.0, 0.4], 3.0), 0.1, 4, 100),
    ):
        step = pair(0.8, acceptance, q, limit)
        epsilon_ = composition.epsilon([(step, steps)], 1e-5)
        low, high = composition.by_pld([(step, steps)], 1e-5, 1e-4)
        assert low <= epsilon_ * (1 + 1e-6)
        assert epsilon_ <= high * (1 + 1e-6)
        assert high - low < 2.5e-4 * steps


def test_different_steps():
    parts = [(pair(0.5, one_update.always(), 0.1, 0), 30), (pair(0.5, one_update.threshold(0.5), 0.1, 3), 50)]
    epsilon_ = composition.epsilon(parts, 1e-5)
    low, high = composition.by_pld(parts, 1e-5, 1e-4)
    assert low <= epsilon_ <= high
    assert epsilon_ > composition.epsilon(parts[1:], 1e-5)


def test_against_simulated_losses():
    """The share of runs whose loss exceeds epsilon; fails about once in 10^4 seeds."""
    rng = np.random.default_rng(0)
    step, steps, runs = pair(0.5, one_update.threshold(1.0), 0.3, 6, 0.2), 40, 20_000
    delta = 0.02
    removing, adding = composition.directions([(step, steps)], delta)
    for side, epsilon in ((step, removing), (step.swapped(), adding)):
        used = side.p > 0
        loss = np.log(side.p[used]) - np.log(side.q[used])
        counts = rng.multinomial(steps, side.p[used] / side.p[used].sum(), size=runs)
        excess = np.maximum(0.0, -np.expm1(epsilon - counts @ loss))
        assert abs(excess.mean() - delta) < 4 * excess.std() / np.sqrt(runs)


@pytest.mark.parametrize("updates", [1, 50])
def test_the_final_weights_of_plain_updates(updates):
    epsilon_ = composition.final_epsilon(pair(0.2, one_update.always(), limit=0), updates, 1e-5)
    expected = float(mechanisms.gaussian_epsilon(5.0, updates**0.5, 1e-5))
    assert expected * 0.9995 < epsilon_ <= expected


def test_the_final_weights_where_rounding_ends_what_can_be_seen():
    exact = float(mechanisms.gaussian_epsilon(1.0, 0.2 * 400**0.5, 1e-5))  # 24.4
    epsilon_ = composition.final_epsilon(pair(0.2, one_update.always(), limit=0), 400, 1e-5)
    assert 15 < epsilon_ <= exact
    assert 15 < composition.final_epsilon(pair(1.0, one_update.always(), limit=0), 60, 1e-5) < 40  # 62


def test_the_final_weights_of_two_screened_updates_by_quadrature():
    parts = one_update.pair(0.2, one_update.threshold(1.0), 10)
    u = np.linspace(-9, 11, 8001)
    with_it, without = (np.exp(part.log_density(u)) for part in parts)
    sums = [np.convolve(one, one) * (u[1] - u[0]) ** 2 for one in (with_it, without)]
    pair_ = one_update.cells(*parts, 0.02)
    epsilon_ = composition.final_epsilon(pair_, 2, 1e-5)
    for p, q, side in ((*sums, "out"), (*sums[::-1], "in")):
        delta = np.maximum(p - np.exp(epsilon_) * q, 0).sum()
        assert delta <= 1.03e-5, side
    worst = max(np.maximum(p - np.exp(epsilon_) * q, 0).sum() for p, q in (sums, sums[::-1]))
    assert worst == pytest.approx(1e-5, rel=0.03)
    assert epsilon_ < composition.epsilon([(pair_, 2)], 1e-5)


def test_infinite_losses_are_refused():
    never = one_update.Acceptance((0.0,), (0.0, 0.0), (-np.inf, 0.0))
    one, other = (one_update.released(one_update.trial(1.0, rule)) for rule in (one_update.always(), never))
    with pytest.raises(ParameterError, match="infinite"):
        composition.epsilon([(one_update.cells(one, other, 0.1), 5)], 1e-5)
    with pytest.raises(ParameterError, match="delta"):
        composition.epsilon([(pair(1.0, one_update.always(), limit=0), 1)], 1.0)
