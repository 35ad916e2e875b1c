"""Simulated annealing, and DP-SGD that screens its updates by it: against plain DP-SGD, Opacus and a second program."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from dplib import annealing, dpsgd, models
from dplib.annealing import BY_CHANCE, FORCED, LOWER, REJECTED, Annealing, Screen, Witness
from dplib.checks import ParameterError
from dplib.examples import Sampler, cross_entropy, poisson

pytestmark = pytest.mark.usefixtures("tried_once")


def digits():
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return (x[:1000], y[:1000]), (x[1000:1400], y[1000:1400]), (x[1400:], y[1400:])


TRAIN, HELD, TEST = digits()


def net(seed=0):
    torch.manual_seed(seed)
    return models.mlp([64, 8, 10], nn.Tanh)


def settings(**changes):
    given = {"steps": 40, "sample_rate": 0.1, "learning_rate": 1.0, "noise_multiplier": 6.0, "max_grad_norm": 0.5}
    return dpsgd.DPSGD(**given | changes)


def run(seed=5, network=None, **named):
    named = {"settings": settings(), "annealing": Annealing(), "energy": HELD} | named
    return annealing.train(network or net(), TRAIN, named.pop("settings"), np.random.default_rng(seed), **named)


@torch.no_grad()
def mean_loss(network, x, y):
    return float(nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(y)))


# --- Algorithm 1


def test_at_a_constant_temperature_the_chain_has_boltzmann_frequencies():
    """Metropolis on five states in a ring: the stationary law is exp(-f / T) over its sum."""
    f = np.array([0.0, 0.5, 1.0, 0.3, 0.8])
    rng = np.random.default_rng(0)
    path = annealing.simulated_annealing(
        lambda s: f[s],
        0,
        lambda s, rng: (s + rng.choice([-1, 1])) % 5,
        rng,
        temperature=0.7,
        cooling=1 - 1e-12,
        rounds=20_000,
    )
    law = np.exp(-f / 0.7)
    assert len(path) == 20_001
    assert np.bincount(path, minlength=5) / len(path) == pytest.approx(law / law.sum(), abs=0.02)


def test_the_generator_decides_dropout_too():
    def weights_after(before):
        network = models.mlp([64, 8, 10], nn.Tanh, dropout=0.5)
        network.load_state_dict(start)
        torch.manual_seed(before)
        run(network=network)
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    torch.manual_seed(0)
    start = models.mlp([64, 8, 10], nn.Tanh, dropout=0.5).state_dict()
    assert torch.equal(weights_after(1), weights_after(2))


# --- the counters of Algorithm 2


def test_temperature_follows_the_accepted_updates_and_starts_as_printed():
    screen = Screen(Annealing(10.0, 10))
    assert screen.temperature == 10
    assert screen.decide(1.0, 0.5) == REJECTED  # exp(-10) < 0.5
    assert screen.temperature == 0  # line 22 with tau = 0: the next one is accepted for sure
    assert screen.decide(1e9, 0.999) == BY_CHANCE
    assert screen.temperature == 10
    assert screen.decide(-0.1, 0.999) == screen.decide(0.0, 0.999) == LOWER
    assert (screen.queries, screen.accepted, screen.rejections, screen.temperature) == (4, 3, 0, 30)
    assert Screen(Annealing(10.0, 10, starts_at_zero=True)).decide(1e9, 0.999) == BY_CHANCE


@pytest.mark.parametrize(
    ("limit", "exceeds", "rejections"), [(10, False, 10), (10, True, 11), (0, False, 0), (3, True, 4)]
)
def test_the_limit_is_reached_or_exceeded(limit, exceeds, rejections):
    screen = Screen(Annealing(10.0, limit, exceeds))
    screen.decide(-1.0, 0.5)
    outcomes = [screen.decide(1.0, 0.9) for _ in range(2 * (rejections + 1))]
    assert outcomes == 2 * ([REJECTED] * rejections + [FORCED])
    assert screen.accepted == 3


def test_a_loss_that_is_not_a_number_is_refused_until_the_limit():
    screen = Screen(Annealing(10.0, 2))
    assert [screen.decide(-1.0, 0.5)] + [screen.decide(math.nan, 0.5) for _ in range(3)] == [
        LOWER,
        REJECTED,
        REJECTED,
        FORCED,
    ]


def test_most_queries():
    assert Annealing(10.0, 10).most_queries(7) == 77
    assert Annealing(10.0, 10, exceeds=True).most_queries(7) == 84
    assert Annealing(0.0, None).most_queries(7) == 7
    assert Annealing(10.0, None).most_queries(7) is None


# --- training


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("clipping", ["flat", "auto-s"])
def test_with_q0_zero_it_is_plain_dpsgd_bit_for_bit(momentum, clipping):
    private = settings(momentum=momentum, clipping=clipping)
    one, other, third = net(), net(), net()
    dpsgd.train(one, dpsgd.Data(TRAIN), private, np.random.default_rng(5), device="cpu", progress=False)
    done = run(network=other, settings=private, annealing=Annealing(0.0, 10))
    plain = run(network=third, settings=private, annealing=None, energy=None)
    for p, q, r in zip(one.parameters(), other.parameters(), third.parameters(), strict=True):
        assert torch.equal(p, q)
        assert torch.equal(p, r)
    assert done.queries == done.accepted == plain.accepted == 40
    assert {LOWER, BY_CHANCE} == set(done.outcomes)  # the energy is still recorded
    assert set(plain.outcomes) == {LOWER}
    assert plain.changes == [0.0] * 40


def by_opacus(network, x, y, noise, private, n):
    """The averaged noisy gradient of lines 4 to 8, from Opacus's stored per-example gradients."""
    from opacus import GradSampleModule

    watched = GradSampleModule(network, loss_reduction="sum")
    watched.zero_grad()
    cross_entropy(watched(x), y).sum().backward()
    samples = torch.cat([p.grad_sample.flatten(1) for p in watched._module.parameters()], 1)
    watched.remove_hooks()
    for p in network.parameters():
        p.grad, p.grad_sample = None, None
    factors = (private.max_grad_norm / (samples.norm(dim=1) + 1e-6)).clamp(max=1)
    total = factors @ samples + private.noise_multiplier * private.max_grad_norm * noise
    return total / (private.sample_rate * n)


def test_it_is_algorithm_2_written_out_again_with_gradients_by_opacus():
    """Same batches, noise and uniform numbers: a plain loop over lines 3 to 22 gives the same run."""
    private, q0, limit, n = settings(learning_rate=4.0), 10.0, 3, len(TRAIN[1])
    watched = net(1)
    done = run(7, watched, settings=private, annealing=Annealing(q0, limit))

    rng = np.random.default_rng(7)
    seeds = rng.integers(2**63, size=4)
    chances = np.random.default_rng(int(rng.integers(2**63)))
    noise = torch.Generator().manual_seed(int(seeds[0]))
    sampler = Sampler("poisson", n, private.sample_rate, np.random.default_rng(int(seeds[1])))
    network = net(1)
    x, y = torch.from_numpy(TRAIN[0]), torch.from_numpy(TRAIN[1])
    t, tau, mu, q, codes = 0, 0, 0, q0, []
    d = sum(p.numel() for p in network.parameters())
    while t < private.steps:
        rows = sampler.draw()
        sd = private.noise_multiplier * private.max_grad_norm / (private.sample_rate * n)
        normal = torch.empty(d).normal_(0.0, sd, generator=noise) / sd
        gradient = by_opacus(network, x[rows], y[rows], normal, private, n)
        old = nn.utils.parameters_to_vector(network.parameters()).clone()
        before = mean_loss(network, *HELD)
        with torch.no_grad():
            nn.utils.vector_to_parameters(old - private.learning_rate * gradient, network.parameters())
        change = mean_loss(network, *HELD) - before
        if chances.random() <= math.exp(min(0, -change * q)) or mu >= limit:
            codes.append(True)
            tau, mu = tau + 1, 0
        else:
            codes.append(False)
            mu += 1
            with torch.no_grad():
                nn.utils.vector_to_parameters(old, network.parameters())
        t += 1
        q = q0 * tau

    assert [outcome != REJECTED for outcome in done.outcomes] == codes
    assert 5 < codes.count(False) < 35
    assert FORCED in done.outcomes
    mine = nn.utils.parameters_to_vector(watched.parameters())
    theirs = nn.utils.parameters_to_vector(network.parameters())
    assert (mine - theirs).norm() < 1e-3 * theirs.norm()
    assert done.accepted == tau


def test_the_stop_is_what_was_asked_for():
    by_accepted = run(settings=settings(steps=10_000, learning_rate=4.0), accepted=25)
    assert by_accepted.accepted == 25
    assert by_accepted.outcomes[-1] != REJECTED
    by_queries = run(settings=settings(steps=30, learning_rate=4.0), accepted=1000)
    assert by_queries.queries == 30
    common = min(30, by_accepted.queries)
    assert by_accepted.outcomes[:common] == by_queries.outcomes[:common]
    assert by_accepted.changes[:common] == by_queries.changes[:common]


def test_a_rejected_step_leaves_the_weights_and_by_default_the_velocity():
    private = settings(steps=80, learning_rate=3.0, momentum=0.9)
    paths = {}
    for keeps in (False, True):
        path = []
        done = run(
            settings=private,
            annealing=Annealing(100.0, 50, keeps_velocity=keeps),
            follow=lambda weights, path=path: path.append(weights.clone()),
        )
        moved = [not torch.equal(a, b) for a, b in itertools.pairwise(path)]
        assert moved == [outcome != REJECTED for outcome in done.outcomes[1:]]
        paths[keeps] = done.outcomes
    assert paths[False] != paths[True]


def test_the_energy_is_the_mean_loss_and_changes_add_up_to_it():
    network = net()
    start = mean_loss(network, *HELD)
    done = run(network=network, settings=settings(steps=60))
    end = mean_loss(network, *HELD)
    kept = [change for change, outcome in zip(done.changes, done.outcomes, strict=True) if outcome != REJECTED]
    assert done.final["energy"] == pytest.approx(end, abs=1e-6)
    assert start + sum(kept) == pytest.approx(end, abs=1e-6)


def test_energy_on_the_batch_is_the_loss_of_its_own_records():
    rng = np.random.default_rng(5)
    seeds = rng.integers(2**63, size=4)
    rows = poisson(len(TRAIN[1]), 0.1, np.random.default_rng(int(seeds[1])))
    batch = TRAIN[0][rows], TRAIN[1][rows]
    network = net()
    before = mean_loss(network, *batch)
    done = run(network=network, settings=settings(steps=1), energy="batch")
    after = mean_loss(network, *batch)
    assert done.outcomes[0] != REJECTED
    assert done.changes[0] == pytest.approx(after - before, abs=1e-6)
    assert done.final["energy"] is None


def test_evaluations_come_when_asked_and_change_nothing():
    quiet = run(settings=settings(steps=80, learning_rate=4.0), evaluate={"test": TEST})
    asked = run(
        settings=settings(steps=80, learning_rate=4.0),
        evaluate={"test": TEST},
        at_accepted=[5, 10],
        at_queries=[40, 41, 42],
    )
    assert asked.outcomes == quiet.outcomes
    assert asked.final == quiet.final
    assert len(quiet.evaluations) == 1
    rows = asked.evaluations
    assert [row["accepted"] for row in rows if row["accepted"] in (5, 10)][:2] == [5, 10]
    assert {40, 41, 42, 80} <= {row["queries"] for row in rows}
    assert [row["queries"] for row in rows] == sorted({row["queries"] for row in rows})
    kept = [i + 1 for i, outcome in enumerate(asked.outcomes) if outcome != REJECTED]
    assert all(row["accepted"] == sum(k <= row["queries"] for k in kept) for row in rows)


def test_a_witness_sees_the_change_and_decides_nothing():
    same = Witness(HELD, every=7)
    done = run(settings=settings(steps=50, learning_rate=4.0), witness=same)
    assert done.outcomes == run(settings=settings(steps=50, learning_rate=4.0)).outcomes
    assert [row["outcome"] for row in same.rows] == done.outcomes[::7]
    assert [row["witness"] for row in same.rows] == pytest.approx([row["change"] for row in same.rows], abs=1e-9)
    other = Witness(TEST, every=7)
    run(settings=settings(steps=50, learning_rate=4.0), witness=other)
    assert [row["witness"] for row in other.rows] != [row["witness"] for row in same.rows]


def test_it_diverges_without_going_on():
    wild = net()
    torch.nn.init.constant_(wild[0].weight, math.inf)
    without = settings(noise_multiplier=0.0, max_grad_norm=None)
    done = run(network=wild, settings=without, annealing=None, at_queries=[2, 3])
    assert done.diverged
    assert done.queries < 40


@pytest.mark.parametrize(
    ("named", "match"),
    [({"energy": None}, "energy"), ({"accepted": 0}, "accepted"), ({"energy": (HELD[0][:0], HELD[1][:0])}, "energy")],
)
def test_what_is_refused(named, match):
    with pytest.raises(ParameterError, match=match):
        run(**named)
    for wrong in ({"initial_temperature": -1.0}, {"rejection_limit": -1}, {"exceeds": 1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            Annealing(**wrong)


def test_numbers_of_few_bits_are_taken_for_what_they_are():
    """Of 8 bits, eleven queries for each of 100 updates were 76."""
    rule = Annealing(np.float16(10.0), rejection_limit=np.uint8(10))
    assert (type(rule.initial_temperature), type(rule.rejection_limit)) == (float, int)
    assert rule.most_queries(np.uint8(100)) == 1100
    assert Annealing(rejection_limit=None).rejection_limit is None
    assert type(Witness(HELD, np.int8(3)).every) is int


ELEVENTH = (np.zeros((5, 64), np.float32), np.full(5, 10))  # ten classes go from 0 to 9
NARROW = (np.zeros((5, 3), np.float32), np.zeros(5, int))


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"evaluate": {"test": ELEVENTH}}, "test: a label is not allowed"),
        ({"evaluate": {"test": NARROW}}, "test: layer 0"),
        ({"evaluate": {"test": None}}, "test = .* must be a pair"),
        ({"energy": ELEVENTH}, "energy: a label is not allowed"),
        ({"witness": Witness(ELEVENTH)}, "witness: a label is not allowed"),
        ({"settings": None}, "settings = None"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_step(named, match, monkeypatch):
    """Else it is met at the end, when the training is lost."""
    monkeypatch.setattr(dpsgd.Engine, "step", lambda *_: pytest.fail("a step was made"))
    with pytest.raises(ParameterError, match=match):
        run(**named)


def test_what_is_no_network_and_no_pair_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="net is a str"):
        annealing.train("net", TRAIN, settings(), rng)
    for data in (None, dpsgd.Data(TRAIN)):
        with pytest.raises(ParameterError, match=r"train = .* must be a pair"):
            annealing.train(net(), data, settings(), rng)
    with pytest.raises(ParameterError, match="train: a label is not allowed"):
        annealing.train(net(), (TRAIN[0][:5], np.full(5, -100)), settings(), rng)


def test_a_seed_is_no_generator():
    with pytest.raises(ParameterError, match=r"rng = 0 is not allowed: it must be a numpy\.random\.Generator"):
        annealing.train(net(), digits()[0], settings(), 0)
