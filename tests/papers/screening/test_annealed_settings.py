"""Runs of the chapter on annealed DP-SGD: what a job decides, its parts of the data, its counts; Figure 1."""

import numpy as np
import pytest
import torch

from dplib import clipping, models
from dplib.checks import ParameterError
from dplib.examples import cross_entropy
from dplib.models import ACTIVATIONS
from dplib.sgd import seeded
from papers.screening import annealed_settings, annealed_training_runs

JOB = {"dataset": "digits", "scheme": "annealed", "seed": 3, "queries": 12, "energy": "test", "energy_size": 100}


def train(**changes):
    return annealed_training_runs.annealed_training(**{**JOB, **changes})


# --- data


def test_held_out_records_are_not_trained_on_and_the_seed_draws_them():
    parts, other = annealed_settings.records("digits", 3000, 0), annealed_settings.records("digits", 3000, 1)
    whole = annealed_settings.records("digits", 0, 0)
    assert len(parts["train"][1]) == 17_000
    assert len(parts["held"][1]) == 3000
    assert len(whole["train"][1]) == 20_000
    assert "held" not in whole
    assert np.array_equal(parts["test"][0], other["test"][0])
    assert not np.array_equal(parts["held"][0], other["held"][0])
    together = np.sort(np.concatenate([parts["train"][0], parts["held"][0]]).reshape(20_000, -1).sum(1))
    assert together == pytest.approx(np.sort(whole["train"][0].reshape(20_000, -1).sum(1)))


def test_networks_are_those_of_the_paper():
    count = {shape: sum(p.numel() for p in annealed_settings.network(shape, "tanh", 0).parameters())
             for shape in ((1, 28, 28), (1, 8, 8), (3, 32, 32))}  # fmt: skip
    assert count[1, 28, 28] == 26_010
    assert count[3, 32, 32] == 550_570
    with pytest.raises(ParameterError, match="network"):
        annealed_settings.network((1, 9, 9), "tanh", 0)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_quick_network_is_the_printed_one(activation):
    """Same outputs, and same clipped sums, from the same seed."""
    x = torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(0)).mul_(torch.arange(6).view(-1, 1, 1, 1) / 5)
    x[:, :, :6] = 0  # an empty border, as images have it: maxima are tied there
    y = torch.arange(6)
    quick = annealed_settings.network((1, 28, 28), activation, 3)
    printed = seeded(lambda: models.cnn4(ACTIVATIONS[activation]), 3)
    assert torch.allclose(quick(x), printed(x), atol=1e-6)
    sums = []
    for net in (quick, printed):
        values = [torch.zeros_like(p) for p in net.parameters()]
        watched = clipping.ClippedSums(net, dict(zip(net.parameters(), values, strict=True)))
        watched.add(x, y, cross_entropy, lambda norms: clipping.flat(norms, 0.5))
        sums.append(torch.cat([value.flatten() for value in values]))
    assert (sums[0] - sums[1]).norm() < 1e-5 * sums[1].norm()


# --- jobs


def test_counts_belong_together():
    done = train(queries=None, updates=60, learning_rate=2.0, initial_temperature=30.0, trace=True, witness_every=9)
    assert done["accepted"] == 60 == done["lower"] + done["by_chance"] + done["forced"]
    assert done["queries"] == done["accepted"] + done["rejected"] == len(done["outcomes"]) == len(done["changes"])
    assert done["rejected"] > 0
    curve = done["curve"]
    assert curve["accuracy"][-1] == pytest.approx(done["accuracy"], abs=1e-6)
    assert curve["accepted"][-1] == 60
    assert {len(column) for column in curve.values()} == {len(curve["queries"])}
    heard = done["witness"]
    assert heard["accepted"] + heard["rejected"] == -(-done["queries"] // 9)
    assert 0 <= heard["lower_j_alone"] <= heard["lower_j"] <= heard["accepted"]
    assert heard["lower_j"] - heard["lower_j_alone"] <= heard["accepted_lower"]  # what lowers J is accepted
    both = 100 / 450 * np.array(curve["seen"]) + 350 / 450 * np.array(curve["unseen"])
    assert both == pytest.approx(curve["accuracy"], abs=1e-5)


def test_schemes_share_batches_and_noise_and_the_energy_decides_nothing_of_plain_ones():
    plain = train(scheme="dpsgd-tanh", energy=None)
    watched = train(scheme="dpsgd-tanh", trace=True)
    free = train(initial_temperature=0.0)
    assert plain["curve"]["accuracy"] == watched["curve"]["accuracy"] == free["curve"]["accuracy"]
    assert watched["rejected"] == 0
    assert any(watched["changes"])
    assert train(scheme="dpsgd-relu", energy=None)["loss"] != plain["loss"]
    assert train(scheme="auto-s", energy=None)["loss"] != plain["loss"]


@pytest.mark.parametrize("energy", ["held", "train", "batch"])
def test_the_energy_may_be_computed_elsewhere(energy):
    done = train(energy=energy, held=500, trace=True)
    assert any(done["changes"])
    assert "seen" not in done["curve"]


def test_validation_leaves_the_test_part_alone(monkeypatch):
    real = annealed_settings.records

    def spoilt(*args):
        parts = real(*args)
        return {**parts, "test": (np.full_like(parts["test"][0], np.nan), parts["test"][1])}

    expected = train(energy="held", held=500, report="validation")
    monkeypatch.setattr(annealed_settings, "records", spoilt)
    assert train(energy="held", held=500, report="validation") == expected


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"scheme": "adam"}, "scheme"),
        ({"dataset": "wine"}, "dataset"),
        ({"energy": "public"}, "public"),
        ({"energy": "held"}, "held"),
        ({"report": "validation"}, "held"),
        ({"queries": None, "updates": 5, "rejection_limit": None}, "limit"),
        ({"held": 20_000}, "held"),
    ],
)
def test_what_is_refused(wrong, match):
    with pytest.raises(ParameterError, match=match):
        train(**wrong)


# --- Figure 1


def test_paths_on_the_regression():
    """Both start at one place; a path stays where a candidate was refused, and the plain one comes near the optimum."""
    plain, screened = (annealed_training_runs.path(annealed=a, seed=0, queries=60) for a in (False, True))
    assert plain["distance"][0] == screened["distance"][0] == pytest.approx(np.hypot(3, 2.5), abs=0.1)
    assert len(plain["distance"]) == 61
    assert sum(plain["accepted"]) == 60
    still = [s == t for s, t in zip(screened["distance"], screened["distance"][1:], strict=False)]
    assert still == [accepted == 0 for accepted in screened["accepted"]]
    assert plain["distance"][-1] < 0.5 * plain["distance"][0]
