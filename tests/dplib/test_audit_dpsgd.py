"""dplib.dpsgd audited: what it releases never exceeds what is accounted, and broken versions of it are caught.

Seeds are fixed. An absent canary is a record of zeros, whose gradient is zero: the number of records, by which
``dpsgd`` divides, counts as public. Weights stay near 0, so that each record's clipped gradient stays the same.
"""

import numpy as np
import pytest
import torch
from torch import nn

from dplib import accounting, audit, clipping, examples
from dplib.dpsgd import DPSGD, Data, Engine, squared_error, train
from dplib.examples import Examples

CANARIES, STEPS, Q, NOISE = 1000, 20, 0.2, 2.0
ONE_STEP = {"sample_rate": 0.5, "noise_multiplier": 1.5, "learning_rate": 1e-6, "max_grad_norm": 1.0}
ORDINARY, DELTA = 199, 1e-2


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, one_thread):
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path))


def no_bias(features):
    net = nn.Linear(features, 1, bias=False)
    nn.init.zeros_(net.weight)
    return net


def canary_scores(included, rng, noise=NOISE, sample_rate=Q, steps=STEPS):
    """Train on canaries, each with a feature of its own, and score by how far its weight moved its way."""
    x = np.diag(np.where(included, 10.0, 0.0)).astype(np.float32)
    sign = np.where(rng.random(len(included)) < 0.5, -1.0, 1.0).astype(np.float32)
    net = no_bias(len(included))
    settings = DPSGD(steps, sample_rate, learning_rate=1e-3, noise_multiplier=noise, max_grad_norm=0.5)
    data = Data((x, 10 * sign[:, None]))
    train(net, data, settings, rng, loss=squared_error, progress=False)
    return net.weight.detach().numpy()[0] * sign


def claimed(delta=1e-5):
    return accounting.epsilon(NOISE, Q, STEPS, delta, "pld")


def test_training_never_exceeds_the_accountant():
    """20 seeds, confidence 99.9% each (fails with probability below 2% over seeds), in one run each and pooled.

    The canaries of one run are independent trials here (own coordinates, own coin, own sampling), so that the runs'
    scores together are also an audit by repetition.
    """
    scores, coins, bounds = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        coins.append(rng.random(CANARIES) < 0.5)
        scores.append(canary_scores(coins[-1], rng))
        bounds.append(audit.audit_guesses(scores[-1], coins[-1], [50, 200], 1e-5, 0.999).epsilon)
    assert max(bounds) <= claimed()
    scores, coins, delta = np.concatenate(scores), np.concatenate(coins), 1e-3
    pooled = audit.audit_scores(scores[coins], scores[~coins], delta, np.random.default_rng(0), 0.999)
    assert 0.3 * claimed(delta=delta) < pooled.epsilon <= claimed(delta=delta)


def test_half_the_noise_is_caught():
    """20,000 independent canaries and three full batches, accounted with noise 4 and trained with 2."""
    rng, delta = np.random.default_rng(1), 1e-3
    coins = rng.random((20, CANARIES)) < 0.5
    scores = np.array([canary_scores(included, rng, noise=2.0, sample_rate=1.0, steps=3) for included in coins])
    audit_ = audit.audit_scores(scores[coins], scores[~coins], delta, rng, 0.999)
    assert audit_.epsilon > accounting.epsilon(4.0, 1.0, 3, delta)


def test_a_forgotten_clip_is_caught(monkeypatch):
    monkeypatch.setitem(clipping.RULES, "flat", lambda norms, max_grad_norm, share=1.0: torch.full_like(norms, share))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        included = rng.random(CANARIES) < 0.5
        audit_ = audit.audit_guesses(canary_scores(included, rng), included, 300, 1e-5)
        assert audit_.epsilon > claimed()


def one_canary(kind="poisson", realised=False, **changes):
    """Noisy gradients of one step on equal ordinary records and, where present, a canary of the opposite gradient,
    as sums: times the divisor that all of the records would have."""
    x = np.ones((ORDINARY + 1, 1), np.float32)
    y = np.full((ORDINARY + 1, 1), -10.0, np.float32)
    y[-1] = 10
    settings = DPSGD(steps=1, **ONE_STEP | {"divisor": ONE_STEP["sample_rate"] * len(x)} | changes)

    def sums(present, runs, rng):
        n = ORDINARY + int(present)
        train_set = Examples((x[:n], y[:n]), "train", torch.device("cpu"), torch.float32)
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        engine = Engine(no_bias(1), settings, train_set, squared_error, generator)
        released = np.empty(runs)
        for run in range(runs):
            rows = torch.from_numpy(examples.Sampler(kind, n, settings.sample_rate, rng).draw())
            if realised:
                engine.divisor = max(1, len(rows))
            released[run] = -float(engine.gradient(rows)) * settings.sample_rate * len(x)
        engine.close()
        return released

    return sums


def replacing(x):
    """Likelihood ratio where the canary's +1 stands for a -1 with probability 1/2 and batch sizes do not show."""
    return np.log1p(0.5 * np.expm1((2 * (x + (ORDINARY + 1) / 2) - 2) / 1.5**2))


def accounted():
    return accounting.epsilon(ONE_STEP["noise_multiplier"], ONE_STEP["sample_rate"], 1, DELTA, "pld")


def test_a_canary_among_opposite_records_finds_nothing():
    sums = one_canary()
    audit_ = audit.audit_by_repetition(lambda *a: replacing(sums(*a)), 500, DELTA, np.random.default_rng(2), 0.99)
    assert audit_.epsilon <= accounted()


def test_division_by_the_realised_batch_size_is_caught():
    sums = one_canary(realised=True)
    audit_ = audit.audit_by_repetition(lambda *a: replacing(sums(*a)), 3000, DELTA, np.random.default_rng(3), 0.99)
    assert audit_.epsilon > accounted()


def test_a_divisor_that_tells_the_number_of_records_is_caught():
    """Full batches: the quotient moves by two clipping norms over n, where the sum moves by one. A constant is safe."""
    spent = accounting.epsilon(ONE_STEP["noise_multiplier"], 1.0, 1, DELTA)
    values = {}
    for name, divisor in (("constant", 250.0), ("of the records", None)):
        sums = one_canary(sample_rate=1.0, divisor=divisor)
        values[name] = audit.audit_by_repetition(sums, 3000, DELTA, np.random.default_rng(5), 0.99).epsilon
    assert values["constant"] <= spent < values["of the records"]


def test_shuffled_batches_accounted_as_poisson_are_caught():
    """Settings refuse the combination, so that the sampler is driven by hand: the first of two batches.

    All batches have 100 records, so that a canary takes the place of an ordinary one: the sum changes by 2.
    """
    with pytest.raises(ValueError, match="shuffled"):
        DPSGD(steps=1, sampling="shuffled", **ONE_STEP)
    sums = one_canary(kind="shuffled")
    audit_ = audit.audit_by_repetition(lambda *a: replacing(sums(*a)), 3000, DELTA, np.random.default_rng(4), 0.99)
    assert audit_.epsilon > accounted()


def test_a_canary_that_is_not_finite_finds_nothing():
    """By repetition, and scored by whether the release is a number at all: it made every weight NaN."""

    def scores(present, runs, rng):
        n = ORDINARY + int(present)
        x, y = np.ones((n, 6), np.float32), np.arange(n) % 3
        x[-1] = 3e19 if present else 1
        private = DPSGD(steps=1, **ONE_STEP | {"divisor": 100.0})
        train_set = Examples((x, y), "train", torch.device("cpu"), torch.float32)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        engine = Engine(net, private, train_set, generator=generator)
        rows = (examples.Sampler("poisson", n, private.sample_rate, rng).draw() for _ in range(runs))
        released = np.array([float(engine.gradient(torch.from_numpy(drawn)).sum()) for drawn in rows])
        engine.close()
        return np.where(np.isfinite(released), released, 1e9)

    audit_ = audit.audit_by_repetition(scores, 500, DELTA, np.random.default_rng(6), 0.99)
    assert audit_.epsilon <= accounted()
