"""Algorithm 2 for many models at once: the decisions and the trainings are those of one at a time."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dplib import annealing, examples, many_annealing, models, sgd, steps
from dplib.annealing import Annealing
from dplib.checks import ParameterError
from dplib.dpsgd import DPSGD

pytestmark = pytest.mark.usefixtures("tried_once")
RULES = [
    Annealing(initial_temperature=3.0, rejection_limit=2),
    Annealing(initial_temperature=10.0, rejection_limit=None),
    Annealing(initial_temperature=0.0),
    Annealing(initial_temperature=5.0, rejection_limit=1, exceeds=True, keeps_velocity=True),
    Annealing(initial_temperature=2.0, rejection_limit=0, starts_at_zero=True),
]


def pair(seed, n=60):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)), rng.integers(4, size=n)


def networks(m):
    return [sgd.seeded(lambda: models.mlp([6, 5, 4], nn.Tanh), i).double() for i in range(m)]


def settings(**changes):
    given = {"steps": 70, "sample_rate": 0.2, "learning_rate": 0.5, "noise_multiplier": 1.0, "max_grad_norm": 1.0}
    return DPSGD(**{**given, **changes})


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def alone(nets, data, private, rules, energy, accepted, **options):
    return [
        annealing.train(
            net, of_model, one, np.random.default_rng(i), annealing=rule, energy=judge, accepted=most, device="cpu",
            **options,
        )
        for i, (net, of_model, one, rule, judge, most) in enumerate(
            zip(nets, data, private, rules, energy, accepted, strict=True)
        )
    ]  # fmt: skip


def check_equal(run, due):
    assert run.outcomes == due.outcomes
    assert (run.queries, run.accepted, run.diverged, run.records) == (
        due.queries, due.accepted, due.diverged, due.records
    )  # fmt: skip
    assert np.allclose(run.changes, due.changes, rtol=1e-6, atol=1e-9)
    assert [(row["queries"], row["accepted"]) for row in run.evaluations] == [
        (row["queries"], row["accepted"]) for row in due.evaluations
    ]
    for row, other in zip(run.evaluations, due.evaluations, strict=True):
        assert row["energy"] == (None if other["energy"] is None else pytest.approx(other["energy"], rel=1e-7))
        assert row["test"]["loss"] == pytest.approx(other["test"]["loss"], rel=1e-7)
        assert row["test"]["metric"] == other["test"]["metric"]


@pytest.mark.parametrize("kind", ["one for all", "one for each", "batch", "none"])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_each_model_keeps_the_updates_that_it_keeps_by_itself(kind, momentum):
    rules = RULES if kind != "none" else [Annealing(initial_temperature=0.0)] * 5
    m = len(rules)
    energies = {"one for all": [pair(8)] * m, "one for each": [pair(10 + i) for i in range(m)], "batch": ["batch"] * m}
    energy = energies.get(kind, [None] * m)
    data = [pair(1)] * m if kind == "one for all" else [pair(20 + i) for i in range(m)]
    private = [settings(learning_rate=0.3 + 0.2 * i, momentum=momentum) for i in range(m)]
    accepted = [None, 20, 30, None, 3]
    options = {"evaluate": {"test": pair(9)}, "at_accepted": (5, 17, 20), "at_queries": (1, 40)}
    singles, stacked = networks(m), networks(m)
    expected = alone(singles, data, private, rules, energy, accepted, **options)
    runs = many_annealing.train(
        stacked, data, private, [np.random.default_rng(i) for i in range(m)], annealing=rules, energy=energy,
        accepted=accepted, **options,
    )  # fmt: skip
    for run, due, net, single in zip(runs, expected, stacked, singles, strict=True):
        check_equal(run, due)
        assert torch.allclose(weights(net), weights(single), rtol=1e-7, atol=1e-9)
    if kind.startswith("one"):
        seen = {outcome for run in runs for outcome in run.outcomes}
        assert seen == {annealing.REJECTED, annealing.LOWER, annealing.BY_CHANCE, annealing.FORCED}


@pytest.mark.parametrize("kind", ["fixed", "batch"])
def test_on_a_gpu_a_recorded_query_is_the_query(kind, gpu, monkeypatch):
    """Of the same batches, noise and chances."""
    push = 0.1 if kind == "fixed" else 1.0
    monkeypatch.setattr(steps.Batches, "_on_gpu", lambda self, count: [self._on_host(s, count) for s in self._samplers])
    monkeypatch.setattr(examples, "fill_normal", lambda out, sd, generator: out.fill_(push).mul_(sd))
    options = {"annealing": RULES, "energy": pair(8) if kind == "fixed" else "batch", "at_accepted": (5, 20),
               "evaluate": {"test": pair(9)}, "accepted": 25}  # fmt: skip
    runs = {}
    for device in ("cpu", "cuda"):
        rngs = [np.random.default_rng(i) for i in range(len(RULES))]
        private = [settings(learning_rate=0.3 + 0.2 * i, momentum=0.5) for i in range(len(RULES))]
        runs[device] = many_annealing.train(networks(len(RULES)), pair(1), private, rngs, device=device, **options)
    for run, due in zip(runs["cuda"], runs["cpu"], strict=True):
        check_equal(run, due)
    assert len({outcome for run in runs["cuda"] for outcome in run.outcomes}) > 2


def test_decisions_are_those_of_one_screen_each():
    rng = np.random.default_rng(0)
    screens = many_annealing.Screens(RULES, 300, [math.inf] * len(RULES), torch.device("cpu"))
    singles = [annealing.Screen(rule) for rule in RULES]
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-300]
    for query in range(300):
        change = rng.normal(size=len(RULES)) * 10.0 ** rng.integers(-4, 2)
        if query % 5 == 0:
            change[:] = odd[query // 5 % len(odd)]
        u = rng.random(len(RULES)) * (query % 7 > 0)
        outcomes = screens.decide(torch.from_numpy(change), torch.from_numpy(u)).tolist()
        assert outcomes == [one.decide(float(c), float(v)) for one, c, v in zip(singles, change, u, strict=True)]
        for name in ("queries", "accepted", "rejections", "temperature"):
            assert getattr(screens, name).tolist() == [getattr(single, name) for single in singles]
    assert len(set(screens.accepted.tolist())) > 3


def test_a_model_that_ended_stays_as_it_is():
    screens = many_annealing.Screens([Annealing()] * 3, 2, [math.inf, 1, math.inf], torch.device("cpu"))
    screens.ended[2] = True
    lower, u = torch.tensor([-1.0] * 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    assert screens.decide(lower, u).tolist() == [annealing.LOWER, annealing.LOWER, many_annealing.ENDED]
    assert screens.decide(lower, u).tolist() == [annealing.LOWER, many_annealing.ENDED, many_annealing.ENDED]
    assert screens.decide(lower, u).tolist() == [many_annealing.ENDED] * 3
    assert screens.accepted.tolist() == [2, 1, 0]
    assert screens.queries.tolist() == [2, 1, 0]


def test_a_model_that_diverges_ends_and_the_others_go_on():
    nets, calm = networks(2), settings(steps=20)
    nn.init.constant_(next(nets[1].parameters()), math.inf)
    wild = settings(steps=20, max_grad_norm=None, noise_multiplier=0.0)
    first, second = many_annealing.train(
        nets, pair(1), [calm, wild], [np.random.default_rng(i) for i in range(2)], at_queries=(4,),
        evaluate={"test": pair(9)},
    )  # fmt: skip
    assert (first.queries, first.diverged) == (20, False)
    assert (second.queries, second.diverged) == (4, True)


def test_what_does_not_fit_is_refused_before_any_step(monkeypatch):
    monkeypatch.setattr(steps.Models, "move", lambda *_: pytest.fail("a step was made"))
    rngs, rules = [np.random.default_rng(i) for i in range(2)], {"annealing": RULES[0]}
    fifth = (np.zeros((60, 6)), np.full(60, 4))  # four classes go from 0 to 3
    narrow = (np.zeros((60, 3)), np.zeros(60, int))
    for changes, match in (
        ({"evaluate": {"test": fifth}}, "test: a label is not allowed"),
        ({"evaluate": [{"test": pair(2)}, {"test": narrow}]}, "test: layer 0"),
        ({"energy": fifth}, "energy: a label is not allowed"),
        ({"data": fifth}, "train: a label is not allowed"),
    ):
        given = {"data": pair(1), "energy": pair(2), **rules, **changes}
        with pytest.raises(ParameterError, match=match):
            many_annealing.train(networks(2), given.pop("data"), settings(), rngs, **given)


def test_what_is_not_allowed_is_named():
    rngs = [np.random.default_rng(i) for i in range(2)]
    for changes, name in (
        ({"annealing": Annealing()}, "energy"),
        ({"annealing": [Annealing()], "energy": pair(1)}, "annealing"),
        ({"energy": [pair(1)]}, "energy"),
        ({"energy": [pair(1), "batch"]}, "energy"),
        ({"energy": [pair(1), pair(2, 50)]}, "energy"),
        ({"accepted": [1, 0]}, "accepted"),
        ({"evaluate": [{}]}, "evaluate"),
    ):
        with pytest.raises(ParameterError, match=name):
            many_annealing.train(networks(2), pair(1), settings(), rngs, **changes)
    with pytest.raises(ParameterError, match="settings"):
        many_annealing.train(networks(2), pair(1), [settings()], rngs)
    for name in ("data", "settings"):
        given = {"data": pair(1), "settings": settings()} | {name: None}
        with pytest.raises(ParameterError, match=f"{name} = None"):
            many_annealing.train(networks(2), rngs=rngs, **given)
    nets = [nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(2, 4)).double() for _ in range(2)]
    with pytest.raises(ParameterError, match="layer 1"):
        many_annealing.train(nets, pair(1), settings(), rngs)
