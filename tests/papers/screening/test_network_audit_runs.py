"""Audits of annealed DP-SGD on a network: the attacks against known answers, and claims that must fall or stand."""

import numpy as np
import pytest
import torch

from dplib.dpsgd import DPSGD
from papers.screening import annealed_settings, attacks, network_audit_runs
from papers.screening import network_audit_runs as screening_canaries

SMALL = {"dataset": "digits", "seed": 0, "canaries": 20, "energy_size": 30, "reference": 20}


def test_gradients_are_those_of_each_example():
    net = annealed_settings.network((1, 8, 8), "tanh", 0)
    x, y = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(5)
    gradients = attacks.per_example_gradients(net, x, y, piece=2)
    for i in range(5):
        net.zero_grad()
        screening_canaries.present_cross_entropy(net(x[i : i + 1]), y[i : i + 1]).sum().backward()
        assert torch.allclose(gradients[i], torch.cat([p.grad.flatten() for p in net.parameters()]), atol=1e-6)


def test_an_absent_record_has_no_gradient():
    net = annealed_settings.network((1, 8, 8), "tanh", 0)
    losses = screening_canaries.present_cross_entropy(
        net(torch.ones(2, 1, 8, 8)), torch.tensor([screening_canaries.ABSENT, 3])
    )
    assert losses[0] == 0 < losses[1]
    losses[0].backward()
    assert all((p.grad == 0).all() for p in net.parameters())


def test_the_rule_attack_recovers_coins_from_inequalities():
    """Updates drawn at random, kept where the sum over true coins is negative: every coin is found."""
    rng = np.random.default_rng(0)
    coins = rng.random(12) < 0.5
    changes = rng.normal(size=(800, 12))
    kept = changes[(changes @ coins) <= 0]
    odds = attacks.log_odds(kept, np.zeros(len(kept)), np.full(len(kept), 1e6), 0.01)
    assert (odds[coins].min()) > odds[~coins].max()
    # With changes that no coin influences there is nothing to learn.
    assert attacks.log_odds(np.zeros((50, 3)), -np.ones(50), np.ones(50), 0.05) == pytest.approx(0.0)


@pytest.mark.parametrize(("noise", "least"), [(0.2, 0.9), (0.5, 0.75)])
def test_the_gradient_attack_reads_coins_from_iterates(noise, least):
    """Told each noisy sum, one would do least squares; the attack sees iterates alone, and loses little by it.

    The bounds are three standard errors of six seeds, or more, from the means of sixteen other seeds: 0.97 and 0.85 of
    the pairs in the right order, and a loss of 0.02 and 0.01.
    """
    right, best = np.mean([ordered_pairs(noise, seed) for seed in range(100, 106)], axis=0)
    assert right > max(least, best - 0.1)


def ordered_pairs(noise: float, seed: int) -> list[float]:
    """Shares of pairs in order, by attack and by least squares: updates by hand from canaries drawn half the time."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    net = annealed_settings.network((1, 8, 8), "tanh", seed)
    settings = DPSGD(1, 0.1, learning_rate=0.1, noise_multiplier=noise, max_grad_norm=0.1, momentum=0.9)
    canaries, reference = ((torch.rand(n, 1, 8, 8).numpy(), rng.integers(0, 10, n)) for n in (20, 30))
    coins = np.arange(20) % 2 == 0
    attack = attacks.GradientAttack(net, settings, 1000, canaries, reference, block=2)
    velocity, informed = 0.0, np.zeros(20)
    for _ in range(40):
        units = []
        for x, y in attack.examples:
            gradients = attacks.per_example_gradients(net, x, y)
            units.append(gradients / gradients.norm(dim=1, keepdim=True).clamp_min(0.1))
        drawn = torch.as_tensor(coins & (rng.random(20) < 0.5)).float()
        others = 100 / 30 * units[1].sum(0)
        total = drawn @ units[0] + others + noise * torch.randn(units[0].shape[1])
        informed += torch.linalg.lstsq(units[0].T, total - others).solution.numpy()
        velocity = 0.9 * velocity + total * 0.1 / 100
        with torch.no_grad():
            weights = torch.nn.utils.parameters_to_vector(net.parameters()) - 0.1 * velocity
            torch.nn.utils.vector_to_parameters(weights, net.parameters())
        attack(weights)
        attack(weights)  # a rejected query, at which nothing moves
    return [(scores[coins][:, None] > scores[~coins]).mean() for scores in (attack.scores(), informed)]


def test_a_private_energy_is_caught_and_repeats():
    job = SMALL | {"judged": "training", "canaries": 24, "energy_size": 24, "accepted": 160, "batch": 16}
    done = screening_canaries.audited_training(**job, initial_temperature=100.0)
    assert done["rejected"] > 100
    bound = network_audit_runs.lower_bound([done], 1e-5)
    assert bound.correct >= 0.75 * bound.guesses
    assert sum(done["included"]) not in (0, 24)
