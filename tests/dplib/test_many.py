"""Many trainings at once: each model's sums, noise and batches, and the same training as one at a time."""

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

from dplib import clipping, dpsgd, examples, many, many_annealing, models, sgd, steps
from dplib.checks import ParameterError
from dplib.examples import Examples, cross_entropy, squared_error
from tests import stand_in_gpu

pytestmark = pytest.mark.usefixtures("tried_once")
ERROR_RATE = 1e-4  # chance that a correct program fails one statistical test, were the seed not fixed
CPU = torch.device("cpu")


def conv(*args, **options):
    return lambda: nn.Sequential(nn.Conv2d(*args, **options), nn.Tanh(), nn.Flatten(), nn.LazyLinear(4))


def partly_frozen():
    net = models.mlp([12, 9, 8, 4])
    net[0].requires_grad_(False)
    net[2].bias.requires_grad_(False)
    net[4].weight.requires_grad_(False)
    return net


def frozen_convolution():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(36, 4))
    net[0].requires_grad_(False)
    return net


def nested():
    first = nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(5, 6, 2, stride=2), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten())
    return nn.Sequential(first, second, nn.Linear(6, 4))


def without_bias():
    return nn.Sequential(nn.Linear(12, 8, bias=False), nn.ELU(inplace=True), nn.Linear(8, 4, bias=False))


def averaged():
    return nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.ReLU(), nn.AdaptiveAvgPool2d(1), *head(6))


def head(features):
    return nn.Flatten(), nn.Linear(features, 4)


NETS = {
    "logistic": (lambda: models.mlp([12, 4]), (12,)),
    "perceptron": (lambda: models.mlp([12, 9, 8, 4], nn.Tanh), (12,)),
    "in place first": (lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(12, 4)), (12,)),
    "without bias": (without_bias, (12,)),
    "partly frozen": (partly_frozen, (12,)),
    "of images": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(18, 4)), (2, 3, 3)),
    "frozen convolution": (frozen_convolution, (2, 7, 7)),
    "nested": (nested, (2, 8, 8)),
    "averaged": (averaged, (3, 6, 6)),
    "odd": (conv(3, 6, (3, 2), stride=(2, 3), padding=(1, 2), dilation=(2, 1)), (3, 11, 11)),
    "same": (conv(3, 6, 4, padding="same"), (3, 7, 7)),
    "valid": (conv(3, 6, 3, padding="valid"), (3, 9, 9)),
    "cnn4": (models.cnn4, (1, 28, 28)),
    "lenet5": (models.lenet5, (1, 28, 28)),
}


def networks(build, shape, m, dtype=torch.float64, first=0):
    """m networks with weights of their own, those of seeds from ``first`` on."""

    def make():
        net = build()
        net(torch.zeros(1, *shape))  # lazy layers
        return net

    return [sgd.seeded(make, first + i).to(dtype) for i in range(m)]


def records(shape, n=40, classes=4, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, *shape)).astype(dtype), rng.integers(classes, size=n)


def settings(**changes):
    return dpsgd.DPSGD(**{"steps": 8, "sample_rate": 0.25, "learning_rate": 0.3, "max_grad_norm": 1.0} | changes)


def different():
    """Settings that differ in all that may differ."""
    return [
        settings(noise_multiplier=1.0),
        settings(sample_rate=0.5, learning_rate=0.1, max_grad_norm=0.05, momentum=0.9),
        settings(sample_rate=0.1, learning_rate=0.2, max_grad_norm=3.0, noise_multiplier=0.1, divisor=7.0),
    ]


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def alone(nets, data, private, **options):
    """The same networks trained one at a time, by the same seeds."""
    nets = copy.deepcopy(nets)
    return nets, [
        dpsgd.train(net, of_model, one, np.random.default_rng(i), device="cpu", progress=False, **options)
        for i, (net, of_model, one) in enumerate(zip(nets, data, private, strict=True))
    ]


def together(nets, data, private, first=0, **options):
    nets = copy.deepcopy(nets)
    rngs = [np.random.default_rng(first + i) for i in range(len(nets))]
    return nets, many.train(nets, data, private, rngs, progress=False, **options)


# --- the same training


@pytest.mark.parametrize("name", NETS)
def test_each_model_is_trained_as_by_itself(name):
    """The same batches and the same noise, so that the weights are the same but for rounding."""
    build, shape = NETS[name]
    data = [dpsgd.Data(records(shape), test=records(shape, seed=1))] * 3
    nets = networks(build, shape, 3)
    singles, expected = alone(nets, data, different(), evaluate_every=4)
    stacked, runs = together(nets, data[0], different(), evaluate_every=4)
    for single, net, due, run in zip(singles, stacked, expected, runs, strict=True):
        assert torch.allclose(weights(net), weights(single), rtol=1e-7, atol=1e-9)
        assert not net.training
        assert (run.sample_rate, run.parameters, run.trained_parameters, run.steps) == (
            due.sample_rate, due.parameters, due.trained_parameters, due.steps
        )  # fmt: skip
        for row, other in zip(run.evaluations, due.evaluations, strict=True):
            assert row["step"] == other["step"]
            assert row["train_loss"] == pytest.approx(other["train_loss"], rel=1e-6)
            assert row["test"]["loss"] == pytest.approx(other["test"]["loss"], rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": "auto-s"},
        {"max_grad_norm": None},
        {"physical_batch": 3},
        {"sampling": "shuffled"},
        {"sample_rate": 1e-3},
        {"sample_rate": 1.0},
    ],
)
def test_other_settings_are_those_of_one_at_a_time(changes):
    build, shape = NETS["nested"]
    data, private = [dpsgd.Data(records(shape))] * 2, [settings(**changes)] * 2
    nets = networks(build, shape, 2)
    singles, expected = alone(nets, data, private)
    stacked, runs = together(nets, data, private[0])
    for single, net, due, run in zip(singles, stacked, expected, runs, strict=True):
        assert torch.allclose(weights(net), weights(single), rtol=1e-7, atol=1e-9)
        assert run.final["train_loss"] == pytest.approx(due.final["train_loss"], nan_ok=True)


def test_each_model_may_have_data_of_its_own_and_real_targets():
    rng = np.random.default_rng(0)
    data = [dpsgd.Data((rng.normal(size=(n, 5)), rng.normal(size=(n, 1)))) for n in (30, 50)]
    nets = networks(lambda: models.mlp([5, 4, 1], nn.Tanh), (5,), 2)
    private = [settings(noise_multiplier=0.5)] * 2
    singles, _ = alone(nets, data, private, loss=squared_error)
    stacked, _ = together(nets, data, private, loss=squared_error)
    for single, net in zip(singles, stacked, strict=True):
        assert torch.allclose(weights(net), weights(single), rtol=1e-9, atol=1e-12)


def test_who_runs_beside_a_model_does_not_matter():
    build, shape = NETS["perceptron"]
    data, private = dpsgd.Data(records(shape)), [*different(), settings(max_grad_norm=None)]
    nets = networks(build, shape, 4)
    by_size = [[weights(net) for net in together(nets, data, private, at_once=size)[0]] for size in (1, 3, 4)]
    for other in by_size[1:]:
        assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(by_size[0], other, strict=True))


def test_same_seeds_same_bytes_and_the_global_generator_is_left_alone():
    build, shape = NETS["perceptron"]
    data, nets, before = dpsgd.Data(records(shape)), networks(build, shape, 3), torch.get_rng_state()
    first, second = (together(nets, data, different())[0] for _ in range(2))
    assert all(torch.equal(weights(a), weights(b)) for a, b in zip(first, second, strict=True))
    other = together(nets, data, different(), first=1)[0]
    assert not any(torch.equal(weights(a), weights(b)) for a, b in zip(first, other, strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_secure_trainings_cannot_be_repeated():
    build, shape = NETS["perceptron"]
    data, nets = dpsgd.Data(records(shape)), networks(build, shape, 2)
    private = settings(secure=True, noise_multiplier=1.0)
    first, second = (together(nets, data, private)[0] for _ in range(2))
    assert not any(torch.equal(weights(a), weights(b)) for a, b in zip(first, second, strict=True))


def test_a_model_that_diverges_ends_and_the_others_go_on():
    build, shape = NETS["perceptron"]
    data = dpsgd.Data(records(shape), test=records(shape, seed=1))
    nets = networks(build, shape, 2, torch.float32)
    nn.init.constant_(next(nets[1].parameters()), math.inf)
    calm, wild = settings(noise_multiplier=1.0), settings(max_grad_norm=None)
    (first, _), (run, diverged) = together(nets, data, [calm, wild], evaluate_every=2)
    assert diverged.diverged
    assert diverged.steps < 8
    assert not run.diverged
    assert run.steps == 8
    single, _ = alone(nets[:1], [data], [calm])
    assert torch.allclose(weights(first), weights(single[0]), rtol=1e-4, atol=1e-6)


# --- clipped sums


def by_one(net, x, y, bound):
    """The sum of the clipped gradients of one example after another."""
    trained, total = [p for p in net.parameters() if p.requires_grad], 0.0
    for a, b in zip(x.split(1), y.split(1), strict=True):
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(cross_entropy(net(a), b).sum(), trained)])
        total = total + flat * clipping.flat(flat.norm()[None], bound)
    return total


def stacked_models(nets, private, pair, dtype=torch.float64, place=CPU):
    train = Examples(pair, "train", place, dtype)
    nets = [net.to(place, memory_format=examples.layout_of(net, pair[0])) for net in nets]
    noise = [torch.Generator(place).manual_seed(i) for i in range(len(nets))]
    return steps.Models(nets, private, train, [train.n] * len(nets), generators=noise)


def sums_of(build, shape, dtype, pair, rows, sizes, bounds, place=CPU):
    """Each model's clipped sum, and the one by single examples in float64."""
    nets = networks(build, shape, len(bounds), dtype)
    x, y = torch.as_tensor(pair[0]).double(), torch.as_tensor(pair[1])
    expected = [
        by_one(copy.deepcopy(net).double(), x[row[:size]], y[row[:size]], bound)
        for net, row, size, bound in zip(nets, rows, sizes, bounds, strict=True)
    ]
    private = [settings(max_grad_norm=bound, divisor=1.0, learning_rate=1.0) for bound in bounds]
    before = [trained(net) for net in nets]
    stack = stacked_models(nets, private, pair, dtype, place)
    stack.step(rows.to(place), sizes.to(place))
    return [was - trained(net).cpu() for was, net in zip(before, nets, strict=True)], expected


def trained(net):
    return torch.cat([p.detach().double().flatten() for p in net.parameters() if p.requires_grad])


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("name", NETS)
def test_sums_are_those_of_one_example_after_another_for_each_model(name, dtype, within, monkeypatch):
    build, shape = NETS[name]
    rows = torch.stack([torch.randperm(40, generator=torch.Generator().manual_seed(i))[:7] for i in range(3)])
    sizes, bounds = torch.tensor([7, 0, 4]), [0.3, 1.0, 2.0]
    for held in (steps.MANY, steps.MANY._replace(processor=1)):  # whole, and in pieces of one example
        monkeypatch.setattr(steps, "MANY", held)
        sums, expected = sums_of(build, shape, dtype, records(shape), rows, sizes, bounds)
        assert float(sums[1].norm()) == 0.0
        for found, due in ((sums[0], expected[0]), (sums[2], expected[2])):
            assert float((found - due).norm() / due.norm()) < within


@pytest.mark.parametrize("name", ["perceptron", "nested", "averaged", "odd", "same", "valid"])
def test_sums_on_a_gpu_are_those_of_one_example_after_another(name, gpu):
    """Convolutions are made by patches there, and so is their way back."""
    build, shape = NETS[name]
    build_deep = build if name in ("perceptron", "nested") else lambda: nn.Sequential(widened(shape[0]), build())
    rows, sizes = torch.randperm(40, generator=torch.Generator().manual_seed(0)).view(4, 10)[:2], torch.tensor([10, 6])
    place = torch.device("cuda")
    sums, expected = sums_of(build_deep, shape, torch.float64, records(shape), rows, sizes, [0.3, 1.0], place)
    for found, due in zip(sums, expected, strict=True):
        assert float((found - due).norm() / due.norm()) < 1e-11


def widened(channels):
    """A first convolution, so that the next one has to send gradients back."""
    return nn.Conv2d(channels, channels, 3, padding=1)


@pytest.mark.parametrize("name", ["perceptron", "nested"])
def test_one_record_changes_one_models_sum_by_at_most_its_bound(name):
    build, shape = NETS[name]
    pair = records(shape)
    pair[0][3] *= 1e4
    bounds = [0.05, 1.0]
    rows, beside = torch.tensor([[0, 1, 3], [4, 3, 5]]), torch.tensor([[0, 1, 0], [4, 5, 5]])
    with_it, _ = sums_of(build, shape, torch.float64, pair, rows, torch.tensor([3, 3]), bounds)
    without, _ = sums_of(build, shape, torch.float64, pair, beside, torch.tensor([2, 2]), bounds)
    for a, b, bound in zip(with_it, without, bounds, strict=True):
        assert 0.9 * bound < float((a - b).norm()) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("spoilt", [1e30, 3e38])
@pytest.mark.parametrize("name", ["logistic", "perceptron", "without bias", "averaged"])
def test_an_example_that_is_not_finite_counts_as_exactly_zero(name, spoilt):
    """Squares of 1e30 are infinite in float32, as is the loss at 3e38."""
    build, shape = NETS[name]
    pair = records(shape, dtype=np.float32)
    pair[0][3] = spoilt
    rows, sizes = torch.tensor([[0, 3, 1, 2], [3, 4, 5, 6]]), torch.tensor([3, 1])
    spoiled, _ = sums_of(build, shape, torch.float32, pair, rows, sizes, [1.0, 1.0])
    rows, sizes = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]), torch.tensor([2, 0])
    clean, _ = sums_of(build, shape, torch.float32, pair, rows, sizes, [1.0, 1.0])
    assert torch.isfinite(clean[0]).all()
    for a, b in zip(spoiled, clean, strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rule", ["flat", "auto-s"])
def test_what_is_dropped_is_counted_and_spoils_no_training(rule):
    """As one at a time; large weights and a large divisor's inverse among them."""
    build, shape = NETS["averaged"]
    pair = records(shape, dtype=np.float32)
    pair[0][3] = 1e30
    data, nets = (
        dpsgd.Data(pair, test=records(shape, seed=1, dtype=np.float32)),
        networks(build, shape, 2, torch.float32),
    )
    private = [settings(clipping=rule), settings(clipping=rule, divisor=1e-3, learning_rate=1e-4, max_grad_norm=10.0)]
    singles, expected = alone(nets, [data] * 2, private)
    stacked, runs = together(nets, data, private)
    for single, net, due, run in zip(singles, stacked, expected, runs, strict=True):
        assert torch.allclose(weights(net), weights(single), rtol=1e-3, atol=1e-4)
        assert run.dropped == due.dropped
        assert not run.diverged
    assert sum(run.dropped for run in runs) > 0


def test_a_long_input_with_a_short_gradient_is_clipped():
    """The square of 1e-25 is 0 in float32, the norm of the example is not."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False))
    train = Examples((np.full((5, 2), 1e25, np.float32), np.zeros((5, 2), np.float32)), "train", CPU, torch.float32)
    private = settings(divisor=1.0, max_grad_norm=0.1, learning_rate=1.0)
    stack = steps.Models([net], [private], train, [5], loss=lambda out, y: 1e-25 * out.sum(1))
    before = stack.weights.clone()
    stack.step(torch.tensor([[1]]), torch.tensor([1]))
    assert float((stack.weights - before).norm()) <= 0.1


# --- noise


def moved_by_noise(place, m=3, count=3_000):
    """What steps without records add to the weights of models with 1, 2 and 3 times the noise: (steps, m, 21)."""
    build = lambda: models.mlp([6, 3])  # noqa: E731
    private = [settings(noise_multiplier=i + 1.0, max_grad_norm=0.5, divisor=2.0, learning_rate=1.0) for i in range(m)]
    stack = stacked_models(networks(build, (6,), m), private, records((6,)), place=place)
    rows, nobody = torch.zeros(m, 1, dtype=torch.int64, device=place), torch.zeros(m, dtype=torch.int64, device=place)
    seen = []
    for _ in range(count):
        before = stack.weights.clone()
        stack.step(rows, nobody)
        seen.append((before - stack.weights).cpu())
    return torch.stack(seen).numpy()


def test_noise_has_each_models_deviation_and_is_independent():
    noise = moved_by_noise(CPU)
    for i in range(3):
        assert stats.kstest(noise[:, i].ravel(), stats.norm(0, (i + 1) * 0.5 / 2).cdf).pvalue > ERROR_RATE
    check_independent(noise)


def check_independent(noise):
    """Coordinates, models and steps (steps, m, p) are uncorrelated: the sum of squared correlations is chi-squared."""
    flat = noise.reshape(len(noise), -1)
    for pairs in (np.corrcoef(flat.T), np.corrcoef(flat[:-1].T, flat[1:].T)):
        r = pairs[np.triu_indices(len(pairs), 1)]
        assert ERROR_RATE / 2 < stats.chi2.cdf((r**2).sum() * len(noise), len(r)) < 1 - ERROR_RATE / 2


def test_noise_of_a_block_of_steps_has_the_same_law():
    private = [settings(noise_multiplier=i + 1.0, max_grad_norm=0.5, divisor=2.0) for i in range(3)]
    stack = stacked_models(networks(lambda: models.mlp([6, 3]), (6,), 3), private, records((6,)))
    noise = stack.draw_noise(torch.empty(3_000, 3, 21, dtype=torch.float64)).numpy()
    for i in range(3):
        assert stats.kstest(noise[:, i].ravel(), stats.norm(0, (i + 1) * 0.5 / 2).cdf).pvalue > ERROR_RATE
    check_independent(noise)


# --- batches


@pytest.mark.parametrize(("n", "q"), [(10, 0.05), (1_200, 0.1), (100, 0.5), (7, 1.0), (1_000, 1e-4)])
def test_a_table_of_samples_is_one_sample_after_another(n, q):
    rows, sizes = examples.poisson_table(n, q, np.random.default_rng(3), 50)
    rng = np.random.default_rng(3)
    for row, size in zip(rows, sizes, strict=True):
        assert np.array_equal(row[:size], examples.poisson(n, q, rng))
        assert (row[size:] == 0).all()


def test_a_table_has_room_for_any_sample(monkeypatch):
    monkeypatch.setattr(examples, "room", lambda n, q: int(n * q))  # too little half of the time
    rows, sizes = examples.poisson_table(200, 0.1, np.random.default_rng(3), 500)
    rng = np.random.default_rng(3)
    assert all(
        np.array_equal(row[:size], examples.poisson(200, 0.1, rng)) for row, size in zip(rows, sizes, strict=True)
    )
    assert rows.shape[1] == sizes.max() > 20


def drawn_on_gpu(place, q, n=200, count=4_000):
    """Whether each record is in each step's batch of each of two models, (steps, 2, n)."""
    private = [settings(sample_rate=q), settings(sample_rate=q / 2)]
    rows, sizes, largest = steps.Batches(private, [n, n], [1, 2], place).block(count)
    rows, sizes = rows.cpu().numpy(), sizes.cpu().numpy()
    assert largest == sizes.max(1).tolist()
    taken = np.zeros((count, 2, n), bool)
    for t in range(count):
        for i in range(2):
            row = rows[t, i, : sizes[t, i]]
            assert (np.diff(row) > 0).all()
            taken[t, i, row] = True
    return taken


@pytest.mark.parametrize("q", [0.02, 0.2, 0.9])
@pytest.mark.parametrize("scarce", [False, True])
def test_on_a_gpu_each_record_is_included_with_probability_q_by_itself(q, scarce, gpu, monkeypatch):
    if scarce:  # less room than a mean batch: every sample goes on
        monkeypatch.setattr(examples, "room", lambda n, q: max(1, int(n * q / 2)))
    taken = drawn_on_gpu(torch.device("cuda"), q)
    count, _, n = taken.shape
    for i, p in enumerate((q, q / 2)):
        each = ((taken[:, i].sum(0) - count * p) ** 2 / (count * p * (1 - p))).sum()
        assert ERROR_RATE / 2 < stats.chi2.cdf(each, n) < 1 - ERROR_RATE / 2
        sizes, law = taken[:, i].sum(1), stats.binom(n, p)
        edges = np.unique(law.ppf(np.linspace(0, 1, 12)[1:-1]))
        expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * count
        counted = np.bincount(np.searchsorted(edges, sizes), minlength=len(expected))
        assert stats.chisquare(counted[expected > 0], expected[expected > 0]).pvalue > ERROR_RATE
    # Neighbours in the order, consecutive batches, and the two models are independent of each other.
    centred = taken - np.array([q, q / 2])[:, None]
    deviation = np.sqrt([q * (1 - q), q / 2 * (1 - q / 2)])
    products = {
        "neighbours": centred[:, 0, :-1] * centred[:, 0, 1:] / deviation[0] ** 2,
        "steps": centred[:-1, 0] * centred[1:, 0] / deviation[0] ** 2,
        "models": centred[:, 0] * centred[:, 1] / deviation.prod(),
    }
    for product in products.values():  # uncorrelated with mean 0 and variance 1
        assert abs(product.sum()) < stats.norm.isf(ERROR_RATE / 2) * product.size**0.5


# --- on a GPU


@pytest.mark.parametrize("name", ["perceptron", "nested", "partly frozen"])
def test_a_recorded_step_is_the_step(name, gpu):
    build, shape = NETS[name]
    pair, place = records(shape, dtype=np.float32), torch.device("cuda")
    ends = []
    for recorded in (False, True):
        private = [settings(momentum=0.5), settings(max_grad_norm=0.1)]
        stack = stacked_models(networks(build, shape, 2, torch.float32), private, pair, torch.float32, place)
        move = stack.move
        if recorded:
            room = torch.zeros(2, 12, dtype=torch.int64, device=place), torch.ones(2, dtype=torch.int64, device=place)
            stack.stack.gradient.fill_(0.01)
            move = steps.Recorded(stack.move, room, stack.state)
        for i in range(3):
            rows = torch.randperm(40, generator=torch.Generator().manual_seed(i))[:20].view(2, 10)
            if i or not recorded:  # noise that waits stays as it is while a step is recorded
                stack.stack.gradient.fill_(0.01)
            move(rows.to(place), torch.tensor([10, 4 * (i % 2)], device=place))
        ends.append([kept.cpu() for kept in stack.state])
    assert ends[0][3].tolist() == [30, 4]
    for eager, replayed in zip(*ends, strict=True):
        assert torch.allclose(eager, replayed, rtol=1e-5, atol=1e-6)


def replays(monkeypatch):
    """The columns of each recorded step from now on."""
    counted, call = [], steps.Recorded.__call__

    def counting(recorded, rows, *others):
        counted.append(rows.shape[1])
        return call(recorded, rows, *others)

    monkeypatch.setattr(steps.Recorded, "__call__", counting)
    return counted


def test_a_step_with_a_batch_beyond_its_room_is_made_at_its_size(gpu, monkeypatch):
    """Of the same batches and noise, steps that are recorded and steps that are not make the same models."""
    monkeypatch.setattr(steps.Batches, "_on_gpu", lambda self, count: [self._on_host(s, count) for s in self._samplers])
    monkeypatch.setattr(examples, "fill_normal", lambda out, sd, generator: out.fill_(sd))
    columns, nets, ends = replays(monkeypatch), networks(models.cnn4, (1, 28, 28), 2, torch.float32), []
    data = dpsgd.Data(records((1, 28, 28), n=60, dtype=np.float32))
    for room in (60, 15, 1):  # all steps, those of small batches, none
        monkeypatch.setattr(steps.Batches, "room", lambda self, room=room: room)
        columns.clear()
        trained, runs = together(nets, data, settings(noise_multiplier=0.1), device="cuda")
        ends.append((len(columns), torch.cat([weights(net).cpu() for net in trained])))
        assert max(columns, default=0) <= room
        assert runs[0].device.startswith("cuda")
    assert ends[0][0] == 8 > ends[1][0] > ends[2][0] == 0
    assert torch.allclose(ends[0][1], ends[1][1], rtol=1e-4, atol=1e-5)
    assert torch.allclose(ends[0][1], ends[2][1], rtol=1e-4, atol=1e-5)


def test_the_host_waits_twice_a_block_of_steps(monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("counts on the stand-in's books")
    counts = []
    for blocks in (1, 3):
        with stand_in_gpu.present() as gpu:
            nets, private = networks(lambda: models.mlp([6, 3]), (6,), 2), settings(steps=steps.BLOCK * blocks)
            together(nets, dpsgd.Data(records((6,), classes=3)), private, device="cuda")
            counts.append(
                sum(count for line, count in gpu.waits.items() if line.startswith(("many", "steps", "stack")))
            )
            assert not gpu.faults()
    assert counts[1] - counts[0] <= 2 * 2


# --- accuracies


def digits():
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return dpsgd.Data((x[:1200], y[:1200]), test=(x[1200:], y[1200:]))


def accuracies(train: Callable, seeds):
    nets = [sgd.seeded(lambda: models.mlp([64, 16, 10], nn.Tanh), seed) for seed in seeds]
    private = settings(steps=40, sample_rate=0.1, learning_rate=2.0, noise_multiplier=2.0)
    runs = train(nets, private, [np.random.default_rng(seed) for seed in seeds])
    return np.array([run.final["test"]["metric"] for run in runs])


def check_same_accuracies(count, device):
    data = digits()

    def one_at_a_time(nets, private, rngs):
        pairs = zip(nets, rngs, strict=True)
        return [dpsgd.train(net, data, private, rng, device="cpu", progress=False) for net, rng in pairs]

    def at_once(nets, private, rngs):
        return many.train(nets, data, private, rngs, device=device, progress=False)

    singles = accuracies(one_at_a_time, range(1_000, 1_000 + count))
    stacked = accuracies(at_once, range(count))
    assert 0.5 < singles.mean() < 0.97
    assert stats.ks_2samp(singles, stacked).pvalue > ERROR_RATE
    assert stats.ttest_ind(singles, stacked, equal_var=False).pvalue > ERROR_RATE
    assert stats.levene(singles, stacked).pvalue > ERROR_RATE


@pytest.mark.long
def test_accuracies_on_a_gpu_are_of_the_same_law(one_thread, gpu):
    check_same_accuracies(60, "cuda")


def test_other_seeds_have_accuracies_of_the_same_law(one_thread):
    check_same_accuracies(30, "cpu")


@pytest.mark.long
def test_two_hundred_seeds_each_way_have_accuracies_of_the_same_law(one_thread):
    check_same_accuracies(200, "cpu")


def test_an_activation_that_stands_twice_is_applied_twice():
    def build():
        torch.manual_seed(0)
        again = nn.Tanh()
        return nn.Sequential(nn.Linear(4, 6), again, nn.Linear(6, 6), again, nn.Linear(6, 4))

    data, alone = dpsgd.Data(records((4,), dtype=np.float32)), build()
    dpsgd.train(alone, data, settings(), np.random.default_rng(0), progress=False)
    beside = build()
    many.train([beside], data, settings(), [np.random.default_rng(0)], progress=False)
    assert torch.allclose(weights(alone), weights(beside), atol=1e-5)


# --- what is refused


class Other(nn.Linear):
    """A linear layer that may compute something else."""


def with_hook():
    net = models.mlp([12, 4])
    net[0].register_forward_hook(lambda module, inputs, output: output.flip(0))
    return net


def with_hook_around():
    net = nn.Sequential(nn.Sequential(nn.Linear(12, 8)), nn.Linear(8, 4))
    net[0].register_forward_hook(lambda module, inputs, output: output.flip(0))
    return net


def patched():
    net = models.mlp([12, 4])
    net.forward = lambda x: net[0](x).flip(0)
    return net


class Reversed(nn.Sequential):
    """A network that may compute something else."""


@pytest.mark.parametrize(
    ("build", "shape", "layer"),
    [
        (lambda: nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)), (12,), "layer 1"),
        (lambda: nn.Sequential(nn.Linear(12, 8), nn.Sequential(nn.LayerNorm(8)), nn.Linear(8, 4)), (12,), "layer 1.0"),
        (lambda: models.mlp([12, 8, 4], dropout=0.5), (12,), "layer 2"),
        (lambda: nn.Sequential(nn.Linear(12, 8), nn.Softmax(0), nn.Linear(8, 4)), (12,), "layer 1"),
        (lambda: nn.Sequential(Other(12, 4)), (12,), "layer 0"),
        (lambda: Reversed(nn.Linear(12, 4)), (12,), "layer Reversed"),
        (with_hook, (12,), "layer 0"),
        (with_hook_around, (12,), "layer 0"),
        (patched, (12,), "layer Sequential"),
        (lambda: nn.Sequential(nn.LazyLinear(4)), (12,), "layer 0"),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), *head(4)), (2, 3, 3), "layer 0"),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding_mode="circular"), *head(4)), (2, 3, 3), "layer 0"),
        (lambda: nn.Sequential(nn.Flatten(0), nn.Linear(12, 4)), (12,), "layer 0"),
        (lambda: nn.Sequential(nn.Linear(3, 2), nn.Flatten(), nn.Linear(8, 4)), (4, 3), "layer 0"),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 1, stride=2), *head(4)), (2, 2, 2), "layer 0"),
    ],
)
def test_other_layers_are_named_and_sent_to_one_at_a_time(build, shape, layer):
    nets = [build(), build()]
    with pytest.raises(ParameterError, match=f"{layer} .*one at a time"):
        together(nets, dpsgd.Data(records(shape, dtype=np.float32)), settings())


def shared():
    net = models.mlp([4, 4, 4])
    net[2].weight = net[0].weight
    return net


def test_what_does_not_belong_together_is_refused():
    build, data = lambda: models.mlp([4, 6, 4]), dpsgd.Data(records((4,), dtype=np.float32))
    nets, rngs = [build(), build()], [np.random.default_rng(i) for i in range(2)]
    private = [settings(), settings()]
    mixed_up = models.mlp([4, 6, 4])
    mixed_up[0].requires_grad_(False)
    for given, name in (
        (([], data, private, []), "settings"),
        (([], data, [], []), "nets"),
        ((nets, [data], private, rngs), "data"),
        ((nets, data, private[:1], rngs), "settings"),
        ((nets, data, private, rngs[:1]), "rngs"),
        ((nets, data, private, rngs[:1] * 2), "rngs"),
        ((nets[:1] * 2, data, private, rngs), "nets"),
        (([build(), models.mlp([4, 5, 4])], data, private, rngs), "nets"),
        (([build(), models.mlp([4, 6, 4], nn.Tanh)], data, private, rngs), "nets"),
        (([build(), models.mlp([4, 6, 6, 4])], data, private, rngs), "nets"),
        (([build(), build().double()], data, private, rngs), "nets"),
        (([build(), mixed_up], data, private, rngs), "nets"),
        (([shared(), shared()], data, private, rngs), "layer 2"),
        ((nets, data, [settings(), settings(steps=9)], rngs), "steps"),
        ((nets, data, [settings(), settings(clipping="auto-s")], rngs), "clipping"),
    ):
        with pytest.raises(ParameterError, match=name):
            many.train(*given, progress=False)
    other = dpsgd.Data((np.ones((40, 2, 2), np.float32), np.ones(40, np.int64)))
    flat = lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 4))  # noqa: E731
    with pytest.raises(ParameterError, match="data"):
        many.train([flat(), flat()], [data, other], private, rngs)
    with pytest.raises(ParameterError, match="at_once"):
        many.train(nets, data, private, rngs, at_once=0)
    with pytest.raises(ParameterError, match="label"):
        many.train(nets, dpsgd.Data(records((4,), classes=9, dtype=np.float32)), private, rngs)


def test_networks_are_tried_once_for_all_models(monkeypatch):
    tried = []
    check = clipping.check
    monkeypatch.setattr(clipping, "check", lambda *given: tried.append(1) or check(*given))
    nets = networks(lambda: models.mlp([4, 4]), (4,), 5, torch.float32)
    together(nets, dpsgd.Data(records((4,), dtype=np.float32)), settings(), at_once=2)
    assert len(tried) == 1
    with pytest.raises(ParameterError, match="other examples"):
        together(nets, dpsgd.Data(records((4,))), settings(), loss=lambda out, y: cross_entropy(out - out.mean(0), y))


def losses_beside(condition):
    """Cross-entropies, doubled for all of a batch in which the condition holds."""

    def loss(outputs, y):
        losses = cross_entropy(outputs, y)
        return losses * (1 + condition(losses.detach(), y))

    return loss


def test_a_loss_is_tried_on_the_records_of_each_model():
    x, y = records((4,), n=80, classes=2, dtype=np.float32)
    third = np.where(np.arange(80) % 8 == 0, 2, y)
    loss = losses_beside(lambda losses, y: (y == 2).any())
    nets, private = networks(lambda: models.mlp([4, 4]), (4,), 2, torch.float32), settings(noise_multiplier=1.0)
    together(nets, [dpsgd.Data((x, y))] * 2, [private] * 2, loss=loss)
    with pytest.raises(ParameterError, match="other examples"):
        together(nets, [dpsgd.Data((x, y)), dpsgd.Data((x, third))], [private] * 2, loss=loss)
    rngs = [np.random.default_rng(i) for i in range(2)]
    with pytest.raises(ParameterError, match="other examples"):
        many_annealing.train(nets, [(x, y), (x, third)], private, rngs, loss=loss)


@pytest.mark.parametrize("clipped", [0, 1])
def test_a_model_that_clips_is_tried_again_whichever_it_is(clipped, monkeypatch):
    monkeypatch.setattr(dpsgd, "check_network", lambda *_, **__: None)  # a loss that comes to mix is none at first
    nets, data = (
        networks(lambda: models.mlp([4, 4]), (4,), 2, torch.float32),
        dpsgd.Data(records((4,), dtype=np.float32)),
    )
    private = [settings(max_grad_norm=None) for _ in range(2)]
    mixing = losses_beside(lambda losses, y: losses.mean())
    together(nets, data, private, loss=mixing)
    private[clipped] = settings()
    with pytest.raises(ParameterError, match="other examples"):
        together(nets, data, private, loss=mixing)


def test_each_set_of_records_is_tried_again(monkeypatch):
    tried, again = [], clipping.check_again
    monkeypatch.setattr(clipping, "check_again", lambda net, *rest: tried.append(net) or again(net, *rest))
    first, second = (dpsgd.Data(records((4,), seed=seed, dtype=np.float32)) for seed in range(2))
    nets, free = networks(lambda: models.mlp([4, 4]), (4,), 4, torch.float32), settings(max_grad_norm=None)
    trained_, _ = together(nets, [first, second, first, second], [free, settings(), settings(), settings()])
    assert tried == [trained_[1], trained_[2]] * 2


def spoils(outputs, y):
    """0 times the batch's mean: nothing, unless one of its losses is infinite."""
    losses = cross_entropy(outputs, y)
    return losses + 0.0 * losses.mean()


@pytest.mark.parametrize("value", [None, 3e38])
def test_a_loss_by_which_one_record_spoils_others_is_refused(value):
    """One at a time takes the others once more by themselves: with 3e38 in 200, 85 examples too many were dropped."""
    x, y = records((4,), n=200, dtype=np.float32)
    x[150] = x[150] if value is None else value
    nets = networks(lambda: models.mlp([4, 4]), (4,), 1, torch.float32)
    _, (run,) = alone(nets, [dpsgd.Data((x, y))], [settings()], loss=spoils)
    assert run.dropped <= 8
    with pytest.raises(ParameterError, match="other examples"):
        together(nets, dpsgd.Data((x, y)), settings(), loss=spoils)
    together(nets, dpsgd.Data((x, y)), settings())


def test_a_loss_that_draws_random_numbers_is_no_part_of_secure_trainings():
    def loss(outputs, y):
        return cross_entropy(nn.functional.dropout(outputs, 0.5), y)

    x, y = records((4,), dtype=np.float32)
    nets, private = networks(lambda: models.mlp([4, 4]), (4,), 2, torch.float32), settings(noise_multiplier=1.0)
    rngs = [np.random.default_rng(i) for i in range(2)]
    together(nets, dpsgd.Data((x, y)), private, loss=loss)
    secure = settings(noise_multiplier=1.0, secure=True)
    with pytest.raises(ParameterError, match="a loss that draws random numbers"):
        together(nets, dpsgd.Data((x, y)), secure, loss=loss)
    with pytest.raises(ParameterError, match="a loss that draws random numbers"):
        many_annealing.train(nets, (x, y), secure, rngs, loss=loss)


def test_a_loss_that_comes_to_mix_examples_is_refused_on_the_way():
    nets, calls = networks(lambda: models.mlp([4, 4]), (4,), 2, torch.float32), iter(range(10**6))

    def loss(outputs, y):
        late = next(calls) > 200  # where no trial looks
        return cross_entropy(outputs - late * outputs.mean(0), y)

    data = dpsgd.Data(records((4,), dtype=np.float32))
    with pytest.raises(ParameterError, match="other examples"):
        together(nets, data, settings(steps=300), loss=loss)


def test_networks_have_memory_of_their_own_afterwards():
    nets, _ = together(networks(models.cnn4, (1, 28, 28), 2), dpsgd.Data(records((1, 28, 28))), settings(steps=1))
    kept = weights(nets[1])
    with torch.no_grad():
        for p in nets[0].parameters():
            p.zero_()
    assert torch.equal(weights(nets[1]), kept)
    assert all(p.untyped_storage().nbytes() == p.numel() * p.element_size() for p in nets[0].parameters())
