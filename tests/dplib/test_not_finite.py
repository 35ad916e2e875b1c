"""One record that is not finite, or not far from it: it adds nothing to a private sum, and spoils nothing in it.

The numbers stand for what overflows in float32: the square of 3e19, and 1e25 in networks with normalised layers.
"""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dplib import annealing, clipping, dpsgd, examples, layers, logistic_grid, models
from dplib import sums as sums_
from dplib.examples import Examples, cross_entropy

CPU = torch.device("cpu")
BAD = 7  # the record
LARGE = (1e16, 1e19, 3e19, 1e25, 1e30, 3e38)


def sequential(*parts):
    return lambda: nn.Sequential(*(part() if isinstance(part, type) else copy.deepcopy(part) for part in parts))


class Mean(nn.Module):
    """Of a sequence's positions."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x).mean(1)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Times(nn.Module):
    """What is large before its trained layers, and small behind them."""

    def __init__(self, before, body, after=1.0):
        super().__init__()
        self.before, self.body, self.after = before, body, after

    def forward(self, x):
        return self.body(x * self.before) * self.after


class AddsNothing(nn.Module):
    """0 times a sum over the batch: nothing, unless one of the batch is infinite."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = self.first(x)
        return self.last(torch.tanh(h + 0 * h.sum(0)))


def frozen(net, *names):
    for name in names:
        net.get_parameter(name).requires_grad_(False)
    return net


VECTORS = {
    "tanh": sequential(nn.Linear(6, 5), nn.Tanh, nn.Linear(5, 3)),
    "sigmoid": sequential(nn.Linear(6, 5), nn.Sigmoid, nn.Linear(5, 3)),
    "relu": sequential(nn.Linear(6, 5), nn.ReLU, nn.Linear(5, 5), nn.ReLU, nn.Linear(5, 3)),
    "logistic": sequential(nn.Linear(6, 3)),
    "without bias": sequential(nn.Linear(6, 5, bias=False), nn.Tanh, nn.Linear(5, 3, bias=False)),
    "layer norm": sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 3)),
    "layer norm first": sequential(nn.LayerNorm(6), nn.Linear(6, 3)),
    "rms norm": sequential(nn.RMSNorm(6), nn.Linear(6, 3)),
    "softmax": sequential(nn.Linear(6, 5), nn.Softmax(1), nn.Linear(5, 3)),
    "in place": sequential(nn.ELU(inplace=True), nn.Linear(6, 3)),
    "residual": sequential(Residual(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 3)),
    "biases alone": lambda: frozen(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), "0.weight", "2.weight"),
    "weights alone": lambda: frozen(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), "0.bias", "2.bias"),
    "small behind": lambda: Times(1.0, nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)), 1e-30),
    "adds nothing": AddsNothing,
}
IMAGES = {
    "conv": sequential(nn.Conv2d(1, 4, 3), nn.Tanh, nn.Flatten, nn.Linear(64, 3)),
    "conv of many weights": sequential(nn.Conv2d(1, 64, 5), nn.Sigmoid, nn.Flatten, nn.Linear(256, 3)),
    "group norm": sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU, nn.AdaptiveAvgPool2d(1), nn.Flatten, nn.Linear(4, 3)
    ),
    "instance norm": sequential(
        nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU, nn.Flatten, nn.Linear(64, 3)
    ),
    "max pool": sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Tanh, nn.Flatten, nn.Linear(16, 3)),
    "preact": lambda: models.preact_resnet18(3, 1, 4, models.group_norm),
}
SEQUENCES = {
    "sequence": lambda: Mean(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))),
    "long sequence": lambda: Mean(nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 3))),
    "conv1d": sequential(nn.Conv1d(6, 5, 3, padding=1), nn.Tanh, nn.Flatten, nn.Linear(20, 3)),
}
CASES = [
    *((name, build, (6,)) for name, build in VECTORS.items()),
    *((name, build, (1, 6, 6)) for name, build in IMAGES.items()),
    *((name, build, (6, 4)) for name, build in SEQUENCES.items()),
]


def records(shape, n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=generator), torch.randint(3, (n,), generator=generator)


def spoiled(x, value, whole):
    x = x.clone()
    x[BAD] = value if whole else x[BAD]
    x[BAD].flatten()[0] = value
    return x


def sums(net, x, y, loss=cross_entropy, rule=lambda norms: clipping.flat(norms, 0.5)):
    """Clipped sums as one vector, and how many examples were dropped."""
    parts = {p: torch.zeros_like(p) for p in net.parameters() if p.requires_grad}
    watched = clipping.ClippedSums(net, parts)
    total = watched.add(x.clone(), y, loss, rule)
    watched.close()
    assert total.isfinite()
    return torch.cat([part.flatten() for part in parts.values()]), watched.dropped


@pytest.mark.parametrize(("name", "build", "shape"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "one number"])
def test_a_record_that_is_too_large_adds_nothing_and_spoils_nothing(name, build, shape, whole):
    """The sum without it, or at most one clipping norm away where its gradient is finite."""
    torch.manual_seed(1)
    net = build()
    x, y = records(shape)
    others = torch.arange(len(x)) != BAD
    due, _ = sums(net, x[others], y[others])
    dropped = []
    for value in (*LARGE, -3e38, math.inf, math.nan):
        found, count = sums(net, spoiled(x, value, whole), y)
        assert found.isfinite().all()
        assert (found - due).norm() <= (1e-5 if count else 0.5 + 1e-5)
        dropped.append(count)
    assert max(dropped) <= 1
    if name != "biases alone":
        assert dropped[-1] == 1


@pytest.mark.parametrize("spoil", [math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_loss_that_is_not_finite_drops_its_example_alone(spoil, factor):
    """Also where its derivative is 0, and finite."""
    torch.manual_seed(1)
    net = VECTORS["tanh"]()
    x, y = records((6,))
    others = torch.arange(len(x)) != BAD

    def loss(outputs, targets):
        return factor * F.cross_entropy(outputs, targets % 3, reduction="none") + torch.where(targets == 5, spoil, 0.0)

    due, _ = sums(net, x[others], y[others], loss)
    y[BAD] = 5
    found, dropped = sums(net, x, y, loss)
    assert dropped == 1
    assert torch.allclose(found, due, atol=1e-7)


def test_a_derivative_that_is_not_finite_drops_its_example_alone():
    """The root of 0: its loss is finite, and so are all of its activations."""
    torch.manual_seed(1)
    net = VECTORS["tanh"]()
    x, y = records((6,))
    others = torch.arange(len(x)) != BAD

    def loss(outputs, targets):
        return (outputs.square().sum(1) * (targets != 5)).sqrt()

    due, _ = sums(net, x[others], y[others], loss)
    y[BAD] = 5
    found, dropped = sums(net, x, y, loss)
    assert dropped == 1
    assert torch.allclose(found, due, atol=1e-7)


@pytest.mark.parametrize("first", [nn.Identity(), nn.ReLU(inplace=True)], ids=["as it is", "in place"])
def test_examples_that_another_one_spoils_are_taken_again_as_they_were(first):
    """Also where the network changes the batch in place: all others were left out then."""
    x, y = records((5,), 200)
    x[150] = torch.tensor([1e38, 0, 0, 0, 0])

    def loss(outputs, targets):
        losses = cross_entropy(outputs, targets % 2)
        return losses + 0.0 * losses.mean()

    torch.manual_seed(0)
    made = Examples((x, y), "train", CPU, torch.float32)
    net = nn.Sequential(first, nn.Linear(5, 2))
    engine = dpsgd.Engine(net, dpsgd.DPSGD(9, 0.5, 0.1, max_grad_norm=1.0), made, loss)
    engine.weights.mul_(30)  # the record's loss is infinite now
    without = engine.gradient(torch.arange(20)).clone()
    with_it = engine.gradient(torch.cat([torch.arange(20), torch.tensor([150])])).clone()
    assert (with_it - without).norm() * engine.divisor <= 1 + 1e-3
    assert engine.dropped == 1


def test_clipped_sums_keep_a_copy_of_what_a_network_changes():
    torch.manual_seed(1)
    net = nn.Sequential(nn.ELU(inplace=True), AddsNothing())
    x, y = records((6,))
    others = torch.arange(len(x)) != BAD
    due, _ = sums(net, x[others], y[others])
    found, dropped = sums(net, spoiled(x, math.inf, True), y)
    assert dropped == 1
    assert torch.allclose(found, due, atol=1e-5)


def beside_large_ones(b, k):
    """Rows whose first eight numbers are large, one for each of the sums that a processor makes at once."""
    x = torch.full((b, k), 0.999 * 2.0**-12)
    x[:, :8] = 1.0
    return x


@pytest.mark.parametrize("k", [2**16 + 1, 150_528, 10**6])
def test_a_long_row_is_as_long_as_it_is(k):
    """Squares that vanish one by one beside a large one are 0.4% of a row of a million numbers."""
    x = beside_large_ones(2, k)
    assert (layers.row_lengths(x).double() >= (1 - 2e-4) * x.double().norm(dim=1)).all()
    ordinary = torch.randn(3, k, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layers.row_lengths(ordinary), torch.linalg.vector_norm(ordinary, dim=1))
    ordinary[0, 0], ordinary[1, 0] = math.nan, 1e30
    assert layers.row_lengths(ordinary).isfinite().tolist() == [False, False, True]


def test_an_example_of_a_million_numbers_is_clipped():
    net, x = nn.Linear(10**6, 1, bias=False), beside_large_ones(1, 10**6)
    for norms in (None, lambda with_one: layers.row_norms(x, with_one)):
        total = torch.zeros_like(net.weight)
        watched = clipping.ClippedSums(net, {net.weight: total})
        watched.add(x, torch.zeros(1), lambda out, y: out[:, 0], lambda n: clipping.flat(n, 0.01), norms)
        watched.close()
        assert total.double().norm() <= 0.01 * (1 + 3e-4)


@pytest.mark.parametrize("rule", clipping.RULES)
@pytest.mark.parametrize("value", [1e15, 1e18, 1e19, 1e30, 1e38])
@pytest.mark.parametrize("derivative", [1e-15, 1e-19, 1e-23, 1e-30, 1e-38, 1e-43])
def test_a_large_input_with_a_tiny_derivative_is_clipped(rule, value, derivative):
    """The square of the derivative is 0 in float32, and so would be the norm of a gradient that is none."""
    for positions in (None, 1, 2, 8):
        net = nn.Linear(6, 40, bias=False) if positions is None else Mean(nn.Linear(6, 40, bias=False))
        x = torch.full((2, 6) if positions is None else (2, positions, 6), value)
        x[1] = 0

        def loss(outputs, targets):
            return outputs.sum(1) * derivative

        for bound in (1e-3, 1.0):
            found, _ = sums(
                net, x, torch.zeros(2), loss, lambda norms, bound=bound: clipping.RULES[rule](norms, bound, 1.0)
            )
            assert found.double().norm() <= bound * (1 + 1e-3)


@pytest.mark.parametrize("divisor", [1e-3, 0.5, 100.0])
@pytest.mark.parametrize("rule", clipping.RULES)
def test_a_divisor_below_one_overflows_nothing(divisor, rule):
    net = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.Flatten(), nn.Linear(32, 3, bias=False))
    x, y = records((1, 6, 6))
    x[BAD] = 3e38

    def loss(outputs, targets):
        return outputs.sum(1) * torch.where(targets == 5, 1e-38, 1.0)

    y[BAD] = 5
    settings = dpsgd.DPSGD(1, 0.5, 1.0, max_grad_norm=1.0, clipping=rule, divisor=divisor)
    engine = dpsgd.Engine(net, settings, Examples((x, y), "train", CPU, torch.float32), loss)
    with_it = engine.gradient(torch.arange(12)).clone()
    without = engine.gradient(torch.arange(12)[torch.arange(12) != BAD])
    assert with_it.isfinite().all()
    assert (with_it - without).norm() * divisor <= 1 + 1e-3


def saturated(n=200, value=3e19):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 6)).astype(np.float32), rng.integers(3, size=n)
    x[BAD] = value
    return x, y


def test_no_record_makes_the_weights_of_a_training_not_finite():
    torch.manual_seed(0)
    net = models.mlp([6, 8, 3], nn.Tanh)
    settings = dpsgd.DPSGD(20, 0.5, 0.1, noise_multiplier=5.0, max_grad_norm=1.0, secure=True)
    run = dpsgd.train(net, dpsgd.Data(saturated()), settings, np.random.default_rng(0), progress=False)
    assert all(p.isfinite().all() for p in net.parameters())
    assert 0 < run.dropped <= 20
    assert not run.diverged
    assert math.isfinite(run.final["train_loss"])


@pytest.mark.parametrize("energy", ["batch", "train", None])
def test_no_record_makes_the_weights_of_an_annealed_training_not_finite(energy):
    torch.manual_seed(0)
    net = models.mlp([6, 8, 3], nn.Tanh)
    data = saturated()
    settings = dpsgd.DPSGD(20, 0.5, 0.1, noise_multiplier=5.0, max_grad_norm=1.0)
    how = annealing.Annealing() if energy else None
    judged = data if energy == "train" else energy
    run = annealing.train(net, data, settings, np.random.default_rng(0), annealing=how, energy=judged)
    assert all(p.isfinite().all() for p in net.parameters())
    assert run.dropped > 0
    assert not run.diverged
    assert np.isfinite(run.changes).all()


def test_no_record_makes_a_model_of_a_grid_not_finite():
    """Labels are such that the record's derivative is 0 after a step on it, where the model that clips takes one."""
    x, y = saturated()
    settings = [dpsgd.DPSGD(20, 0.5, 1.0, noise, bound) for noise, bound in ((5.0, 1.0), (0.0, 1.0), (1.0, 0.01))]
    for value in (1e10, 1e19, 3e19, 1e30, 3e38):
        x[BAD] = value
        train = Examples((x, y), "train", CPU, torch.float32)
        generators = [torch.Generator().manual_seed(i) for i in range(3)]
        grid = logistic_grid.LogisticGrid(settings, train, 3, generators)
        for _ in range(5):
            grid.step(torch.arange(100))
        assert grid.weights.isfinite().all()
        assert grid.bias.isfinite().all()
        assert (grid.dropped > 0).all() == (value > 1e18)


def test_a_record_adds_nothing_to_a_grid_where_it_is_not_finite():
    x, y = saturated()
    settings_ = dpsgd.DPSGD(20, 0.5, 1.0, max_grad_norm=1.0)
    train = Examples((x, y), "train", CPU, torch.float32)
    found, due = (logistic_grid.LogisticGrid([settings_], train, 3, None) for _ in range(2))
    found.step(torch.arange(100))
    due.step(torch.arange(100)[torch.arange(100) != BAD])
    assert torch.allclose(found.weights, due.weights, atol=1e-6)
    assert torch.allclose(found.bias, due.bias, atol=1e-6)


def test_what_a_gpu_does_without_waiting():
    """Every example that is not finite is taken out by zeros in its place, whether or not there is one."""
    torch.manual_seed(1)
    for build, shape in ((VECTORS["tanh"], (6,)), (IMAGES["group norm"], (1, 6, 6)), (SEQUENCES["sequence"], (6, 4))):
        net = build()
        x, y = records(shape)
        x[BAD] = math.nan
        parts = {p: torch.zeros_like(p) for p in net.parameters()}
        watched = clipping.ClippedSums(net, parts)
        with torch.no_grad():
            losses, _, norms, adders = watched._pass(x, y, cross_entropy)
        finite = norms.isfinite() & losses.isfinite()
        weights = clipping.flat(norms.where(finite, 0), 0.5)
        for add in adders:
            add(weights, lambda rows, lost=~finite: sums_._with_zeros(lost, rows))
        others = torch.arange(len(x)) != BAD
        due, _ = sums(net, x[others], y[others])
        assert torch.allclose(torch.cat([part.flatten() for part in parts.values()]), due, atol=1e-6)


class Positions(nn.Module):
    """A layer on positions, then what takes their mean out: little is left of large terms."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.last = layer, nn.Linear(10, 3)

    def forward(self, x):
        h = self.layer(x)
        h = h.flatten(2).mT if h.dim() == 4 else h
        return self.last(F.adaptive_avg_pool1d(torch.relu(F.instance_norm(h.mT)), 10)[:, 0])


def constant(*shape):
    return lambda value: torch.full((1, *shape), value)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (lambda: nn.Conv2d(1, 3, 7), constant(1, 28, 28)),
        (lambda: nn.Conv2d(1, 8, 5, stride=2, bias=False), constant(1, 28, 28)),
        (lambda: nn.Linear(64, 64), constant(30, 64)),
        (lambda: nn.Linear(4, 6), constant(200, 4)),
    ],
)
def test_an_example_whose_terms_cancel_is_clipped_by_what_is_left_of_them(layer, x):
    """A constant image behind a normalisation: its gradient is rounding, and moved the sum by 3.7 clipping norms."""
    for seed in range(20):
        for value in (1e2, 1e4, 1e6, 1e10, 1e16):
            torch.manual_seed(seed)
            net = Positions(layer())
            found, _ = sums(net, x(value), torch.zeros(1, dtype=torch.long), rule=lambda n: clipping.flat(n, 1e-7))
            assert found.double().norm() <= 1e-7 * (1 + 1e-2)


def test_lengths_that_vanish_are_bounded_from_above():
    assert layers.row_norms(torch.zeros(1, 3), with_one=False) == pytest.approx(layers.SHORTEST)
    assert examples.row_norms is layers.row_norms


@pytest.mark.parametrize("b", [1, 2, 7, 16, 33, 64, 100])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_sees_what_is_not_finite_wherever_it_is(b, value):
    """Beside zeros and large numbers, in losses and in norms, in float64 as well."""
    for kind, other in ((torch.float32, 0.0), (torch.float32, 1e30), (torch.float64, 1.0)):
        for i in range(b):
            spoilt, whole = torch.ones(b, dtype=kind), torch.full((b,), other, dtype=torch.float32)
            spoilt[i] = value
            assert not sums_._surely_finite(whole, spoilt)
            assert not sums_._surely_finite(spoilt.float(), whole.to(kind))


def test_large_norms_times_large_losses_drop_nobody():
    """Their product is beyond float32, each of them is not: all examples are clipped, and none is left out."""
    net, x, y = nn.Linear(3, 1), torch.eye(3), torch.ones(3)
    of_net = {p: torch.zeros_like(p) for p in net.parameters()}
    watched = sums_.ClippedSums(net, of_net)
    norms = []

    def factors(lengths):
        norms.append(lengths.clone())
        return sums_.flat(lengths, 1.0)

    total = watched.add(x, y, lambda out, y: 1e25 * (out[:, 0] - 3 * y).abs(), factors)
    watched.close()
    assert norms[0].mul(total).isinf().all()
    assert total.isfinite()
    assert watched.dropped == 0
    assert torch.stack([g.norm() for g in of_net.values()]).norm() <= 3 * (1 + 1e-6)
    assert of_net[net.weight].abs().min() > 0
