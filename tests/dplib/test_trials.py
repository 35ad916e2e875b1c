"""What the trial of a network finds besides mixing at its first weights: the number of neighbours, branches that open.

Each refused network moves a clipped sum by more than the clipping norm when a record comes or goes.
"""

import copy
import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dplib import annealing, clipping, dpsgd, many, models, sgd
from dplib.checks import ParameterError
from dplib.examples import Examples, correct, cross_entropy, evaluate

CPU = torch.device("cpu")


def records(n=20, shape=(6,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=generator), torch.arange(n) % 4


class Code(nn.Module):
    """Two linear layers and code around them."""

    def __init__(self, forward):
        super().__init__()
        self.first, self.second, self.code = nn.Linear(6, 6), nn.Linear(6, 4), forward

    def forward(self, x):
        return self.code(self, x)


def plain():
    torch.manual_seed(0)
    return models.mlp([6, 5, 4], nn.Tanh)


def code(forward):
    def build():
        torch.manual_seed(0)
        return Code(forward)

    return build


def divided(by):
    """The loss over a function of the batch size."""
    return plain, lambda outputs, y: cross_entropy(outputs, y) / by(len(y))


def scaled(by):
    """The network's outputs times a function of the batch size."""
    return code(lambda net, x: by(len(x)) * net.second(torch.tanh(net.first(x)))), cross_entropy


SIZES = {
    "loss over the number of labels": divided(lambda b: b),
    "loss over the root": divided(lambda b: b**0.5),
    "loss over the logarithm": divided(lambda b: 1 + math.log(b)),
    "loss over at most four": divided(lambda b: min(b, 4)),
    "loss over what two examples make": divided(lambda b: 1 + (b == 2)),
    "loss over what three examples make": divided(lambda b: 1 + (b == 3)),
    "loss over what the first few make": divided(lambda b: 1 + (b == clipping.FEW)),
    "loss over what an odd number makes": divided(lambda b: 1 + b % 2),
    "loss over the number of a large batch": divided(lambda b: b if b > 9 else 1),
    "loss plus little": (plain, lambda o, y: cross_entropy(o, y) * (1 + 1e-4 * len(y))),
    "outputs over the number": scaled(lambda b: 1 / b),
    "outputs times the root": scaled(lambda b: b**0.5),
    "inputs over the number": (code(lambda net, x: net.second(torch.tanh(net.first(x / x.shape[0])))), cross_entropy),
    "where alone": (code(lambda net, x: net.second(net.first(x) if len(x) > 1 else x)), cross_entropy),
    "with dropout": (
        lambda: nn.Sequential(plain(), nn.Dropout(0.5)),
        lambda outputs, y: cross_entropy(outputs, y) / len(y),
    ),
    "mean of squares": (
        plain,
        lambda o, y: F.mse_loss(o, F.one_hot(y, 4).to(o.dtype), reduction="none").sum(1) / o.numel(),
    ),
    "written for float32": (
        code(lambda net, x: net.second(net.first(x.float()).to(torch.float32)) / len(x)),
        lambda o, y: cross_entropy(o + torch.zeros(4), y),
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_what_depends_on_the_number_of_neighbours_is_refused(name):
    build, loss = SIZES[name]
    x, y = records()
    with pytest.raises(ParameterError):
        clipping.check(build(), x, y, loss)
    settings = dpsgd.DPSGD(4, 0.8, 0.1, 1.0, 1.0)
    with pytest.raises(ParameterError):
        dpsgd.train(build(), dpsgd.Data((x, y)), settings, np.random.default_rng(0), loss=loss, progress=False)


def test_a_sum_moves_by_the_clipping_norm_where_the_loss_is_not_divided():
    """C where one of b records is removed, and C (2 b - 1) / b by the divided one: the others lie where b - 1 clips."""
    net, b, bound = nn.Linear(1, 1, bias=False), 8, 0.1
    x, y = torch.full((b, 1), (b - 1) * bound), torch.zeros(b, 1)
    x[0] = -100.0  # hers, against the others

    def output(outputs, y):
        return outputs.sum(1)  # its gradient is the record

    moved = {}
    for name, loss in (("as it is", output), ("divided", lambda o, t: output(o, t) / len(t))):
        sums = torch.zeros(1, 1)
        watched = clipping.ClippedSums(net, {net.weight: sums})
        watched.add(x, y, loss, lambda norms: clipping.flat(norms, bound))
        before = sums.clone()
        watched.add(x[1:], y[1:], loss, lambda norms: clipping.flat(norms, bound))
        moved[name] = float((before - (sums - before)).norm())
        watched.close()
    assert moved["as it is"] == pytest.approx(bound, rel=1e-4)
    assert moved["divided"] == pytest.approx(bound * (2 * b - 1) / b, rel=1e-4)


def mixed(h):
    return h.mean(0, keepdim=True)


class Residual(nn.Module):
    """x plus what a branch makes of the batch, behind a factor that is 0 at first."""

    def __init__(self, branch, gate):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 4)
        self.norm = nn.GroupNorm(2, 6)
        self.branch, self.gate = branch, gate

    def forward(self, x):
        h = self.first(x)
        return self.last(h + self.gate(self, self.branch(self, h)))


def zero(*modules):
    def initial(net):
        for name in modules:
            for p in net.get_submodule(name).parameters():
                nn.init.zeros_(p)
        return net

    return initial


def hidden(branch, gate, *zeros):
    def build():
        torch.manual_seed(0)
        return zero(*zeros)(Residual(branch, gate))

    return build


def positive_only(net, h):
    return torch.relu(net.inner.weight.detach().mean()) * h


BRANCHES = {
    "zero gamma": hidden(lambda net, h: net.inner(h - mixed(h)), lambda net, h: net.norm(h), "norm"),
    "zero linear": hidden(lambda net, h: mixed(h) + 0 * h, lambda net, h: net.inner(h), "inner"),
    "zero head": hidden(lambda net, h: mixed(h), lambda net, h: h, "last"),
    "two zeros": hidden(lambda net, h: mixed(h) + 0 * h, lambda net, h: net.inner(h), "inner", "last"),
    "gamma and head": hidden(lambda net, h: net.inner(h - mixed(h)), lambda net, h: net.norm(h), "norm", "last"),
    "three zeros": hidden(lambda net, h: net.inner(h - mixed(h)), lambda net, h: net.norm(h), "inner", "norm", "last"),
    "a gate that opens upwards": hidden(lambda net, h: mixed(h), positive_only, "inner"),
    "a gate that opens downwards": hidden(
        lambda net, h: mixed(h), lambda net, h: torch.relu(-net.inner.weight.detach().mean()) * h, "inner"
    ),
    "neighbours in a large batch": hidden(
        lambda net, h: h - mixed(h) if len(h) > 9 else h, lambda net, h: net.inner(h), "inner", "last"
    ),
    "the number of neighbours": hidden(lambda net, h: h / len(h), lambda net, h: net.inner(h), "inner", "last"),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_behind_zeros_is_refused(name):
    x, y = records()
    net = BRANCHES[name]()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    with pytest.raises(ParameterError):
        clipping.check(net, x, y, cross_entropy)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


def opens(net, x):
    """Mixes examples from a weight on that no trial at the start reaches."""
    h = net.first(x)
    return net.second(h + (net.second.bias.detach().abs().max() > 3) * h.detach().mean())


@pytest.mark.parametrize("steps", [2, 3, 10, 61])
def test_a_branch_that_opens_in_the_course_of_a_training_is_refused(steps):
    """The network is tried once more on the way."""
    x, y = records(200)
    settings = dpsgd.DPSGD(steps, 0.5, learning_rate=1000.0, noise_multiplier=1.0, max_grad_norm=1.0)
    with pytest.raises(ParameterError, match="other examples"):
        dpsgd.train(code(opens)(), dpsgd.Data((x, y)), settings, np.random.default_rng(0), progress=False)


def test_a_branch_that_opens_after_half_of_a_training_is_refused_by_its_last_step():
    x, y = records(40)
    settings = dpsgd.DPSGD(4, 0.5, learning_rate=1e-3, max_grad_norm=1.0)
    engine = dpsgd.Engine(code(opens)(), settings, Examples((x, y), "train", CPU, torch.float32))
    for _ in range(3):
        engine.step(torch.arange(20))
    engine.weights.add_(9.0)
    with pytest.raises(ParameterError, match="other examples"):
        engine.step(torch.arange(20))


def test_an_annealed_training_that_ends_early_is_tried_at_its_end_too():
    """With so many updates accepted it ends long before half of the most queries, where the next trial would be."""

    settings = dpsgd.DPSGD(1000, 0.5, learning_rate=1000.0, noise_multiplier=1.0, max_grad_norm=1.0)
    with pytest.raises(ParameterError, match="other examples"):
        annealing.train(code(opens)(), records(200), settings, np.random.default_rng(0), accepted=3)


def by_largest(net, x):
    """Bytes and shares alike, as image loaders have it: whether to divide is decided by the largest of the batch."""
    return net.second(net.first(x / 255 if x.max() > 10 else x))


def test_a_scale_that_the_largest_neighbour_decides_is_refused():
    x, y = records()
    with pytest.raises(ParameterError, match="other examples"):
        clipping.check(code(by_largest)(), x, y, cross_entropy)


def draws(generator, share):
    """Mixes each example with another one, in a share of the steps."""

    def forward(net, x):
        if generator() < share:
            x = 0.5 * x + 0.5 * x[torch.randperm(len(x))]
        return net.second(torch.tanh(net.first(x)))

    return code(forward)


def in_two_parts(first):
    """The first examples of a batch are treated in one way, the others in another, as labelled and unlabelled ones."""

    def forward(net, x):
        h = net.first(x)
        return net.second(torch.tanh(torch.cat([h[:first], -h[first:]])))

    return forward


def without_gradient(part):
    def forward(net, x):
        h = net.first(x)
        kept = torch.zeros(len(h), 1)
        kept[part] = 1
        return net.second(torch.tanh(torch.where(kept > 0, h.detach(), h)))

    return forward


def of_outliers(net, x):
    """What is far away becomes the batch's mean."""
    return net.second(torch.tanh(net.first(torch.where(x.abs() > 12, x.mean(0), x))))


def times_hundred(way):
    """An input that changes without PyTorch's knowledge, when the norms of the examples are already known."""

    def forward(net, x):
        if way == "data in place":
            x.data.mul_(100)
        elif way == "other data":
            x.data = 100 * x.data
        else:
            x.detach().numpy()[:] *= 100
        return net.second(torch.tanh(net.first(x)))

    return code(forward)


def drawn_by_torch():
    return float(torch.rand(()))


def drawn_by_numpy():
    return np.random.rand()  # noqa: NPY002 (as such code has it)


SELDOM = {
    **{
        f"mixes in a share of {share} by {generator.__module__}": draws(generator, share)
        for share in (0.5, 0.25)
        for generator in (drawn_by_torch, random.random, drawn_by_numpy)
    },
    "the first eight": code(in_two_parts(8)),
    "all but the first eight": code(without_gradient(slice(8, None))),
    "no gradient of the first eight": code(without_gradient(slice(8))),
    "outliers": code(of_outliers),
    "data in place": times_hundred("data in place"),
    "other data": times_hundred("other data"),
    "by NumPy": times_hundred("by NumPy"),
}


@pytest.mark.parametrize("name", SELDOM)
def test_what_mixes_seldom_or_in_secret_is_refused(name):
    x, y = records(40)
    with pytest.raises(ParameterError, match="example"):
        clipping.check(SELDOM[name](), x, y, cross_entropy)


def test_a_penalty_on_the_networks_own_weights_is_refused_as_it_would_be_left_out():
    net = plain()

    def loss(outputs, y):
        return cross_entropy(outputs, y) + 0.01 * net[0].weight.square().sum()

    with pytest.raises(ParameterError, match=r"0\.weight is used 2 times"):
        clipping.check(net, *records(), loss)


def leaves_out(net, x):
    h = net.first(x)
    return net.second(h if net.training and random.random() < 0.5 else torch.tanh(h))


@pytest.mark.parametrize("share", [0.25, 0.1])
def test_a_loss_that_mixes_in_some_draws_is_refused(share):
    def loss(outputs, y):
        losses = cross_entropy(outputs, y)
        return losses * (1 + losses.detach().mean()) if drawn_by_torch() < share else losses

    with pytest.raises(ParameterError, match="other examples"):
        clipping.check(plain(), *records(), loss)
    clipping.check(plain(), *records(), lambda outputs, y: cross_entropy(F.dropout(outputs, 0.5), y))


@pytest.mark.parametrize("seed", range(3))
def test_a_layer_that_python_leaves_out_at_random_is_no_mixing(seed):
    random.seed(seed)
    before = random.getstate()
    clipping.check(code(leaves_out)(), *records(), cross_entropy)
    assert random.getstate() == before


class Random(nn.Module):
    """Random outside of any layer."""

    def __init__(self, training_only):
        super().__init__()
        self.last, self.training_only = nn.Linear(6, 4), training_only

    def forward(self, x):
        return self.last(F.dropout(x, 0.5, training=self.training or not self.training_only))


GOOD = {
    "perceptron": plain,
    "dropout": lambda: nn.Sequential(nn.Linear(6, 30), nn.Dropout(0.4), nn.Linear(30, 4)),
    "dropout in a function": lambda: Random(True),
    "always random": lambda: Random(False),
    "zero head": lambda: zero("2")(plain()),
    "zero everywhere": lambda: zero("0", "2")(plain()),
    "for float32 alone": code(lambda net, x: net.second(net.first(x.to(torch.float32)))),
    "group norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, 4)),
    "frozen in part": lambda: nn.Sequential(nn.Linear(6, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 4)),
}


@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("name", GOOD)
def test_good_networks_pass(name, n):
    torch.manual_seed(0)
    x, y = records(n)
    clipping.check(GOOD[name](), x, y, cross_entropy)


def test_a_training_that_is_tried_on_the_way_keeps_its_bytes(monkeypatch):
    """Weights are those of a training without any trial."""

    def trained():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 4))
        settings = dpsgd.DPSGD(9, 0.5, 0.5, 1.0, 1.0)
        data = dpsgd.Data(tuple(records(40)))
        dpsgd.train(net, data, settings, np.random.default_rng(1), progress=False)
        return torch.cat([p.flatten() for p in net.parameters()])

    trained_ = trained()
    monkeypatch.setattr(clipping, "check", lambda *_: None)
    monkeypatch.setattr(clipping, "check_again", lambda *_: None)
    assert torch.equal(trained_, trained())


def test_examples_that_are_not_finite_neither_blind_a_trial_nor_fail_it():
    x, y = records(40)
    for value in (3e19, 3e38):
        spoiled = x.clone()
        spoiled[::3] = value
        engine_data = Examples((spoiled, y), "train", CPU, torch.float32)
        dpsgd.Engine(plain(), dpsgd.DPSGD(1, 0.5, 0.1, max_grad_norm=1.0), engine_data)
        sums = code(lambda net, x: net.second(torch.tanh(net.first(x)).cumsum(0)))()
        with pytest.raises(ParameterError, match="other examples"):
            clipping.check(sums, spoiled, y, cross_entropy)


def hooked(limit):
    """All gradients of a batch scaled by their common norm, where it is large."""

    def forward(net, x):
        h = torch.tanh(net.first(x))
        if h.requires_grad:
            h.register_hook(lambda g: g * (limit / (g.norm() + 1e-9)).clamp(max=1))
        return net.second(h)

    return code(forward)


class Guarded(torch.autograd.Function):
    """Gradients of a batch in which one is not finite are none, as guards against a failed step have it."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g if g.isfinite().all() else torch.zeros_like(g)


def by_batch(where, then):
    def loss(outputs, y):
        losses = cross_entropy(outputs, y)
        return then(losses) if where(losses) else losses

    return plain, loss


GUARDS = {
    "no step with a loss that is not finite": by_batch(lambda x: not x.isfinite().all(), lambda x: 0 * x.nan_to_num()),
    "no step with a loss that is no number": by_batch(lambda x: x.isnan().any(), torch.zeros_like),
    "losses over a spike": by_batch(lambda x: x.max() > 50, lambda x: x / x.max()),
    "losses over a large spike": by_batch(lambda x: x.max() > 1e5, lambda x: x / x.max().clamp_max(1e30)),
    "no gradients beside one that is not finite": (
        code(lambda net, x: net.second(Guarded.apply(torch.relu(net.first(x))))), cross_entropy,
    ),
    "inputs over a number that is not finite": (
        code(lambda net, x: net.second(net.first(x if x.isfinite().all() else 0 * x.nan_to_num()))), cross_entropy,
    ),
    **{
        f"gradients clipped together at {limit}": (hooked(limit), lambda o, y: (o[:, 0] - y).square())
        for limit in (30, 300)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_that_one_record_sets_off_for_all_is_refused(name):
    build, loss = GUARDS[name]
    x, y = records(40)
    with pytest.raises(ParameterError, match="other examples"):
        clipping.check(build(), x, y.float() if "clipped" in name else y, loss)


def test_a_hook_on_a_gradient_is_refused_as_no_sum_goes_through_it():
    for hook in ("register_hook", "register_post_accumulate_grad_hook"):
        net = plain()
        getattr(net[0].weight, hook)(lambda g: None)
        with pytest.raises(ParameterError, match=r"0\.weight has a hook"):
            clipping.check(net, *records(), cross_entropy)


def test_a_network_that_begins_in_place_leaves_the_records_as_they_are():
    arrays = [records(60)[i].numpy() for i in (0, 1, 0, 1)]
    before = [array.copy() for array in arrays]

    def loss(outputs, y):
        return cross_entropy(outputs, y.clamp_(1, 2))

    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 4))
    data = dpsgd.Data(tuple(arrays[:2]), tuple(arrays[2:]))
    settings = dpsgd.DPSGD(2, 0.5, 0.1, 1.0, 1.0)
    dpsgd.train(net, data, settings, np.random.default_rng(0), loss=loss, evaluate_every=1, progress=False)
    many.train([net], data, [settings], [np.random.default_rng(0)], loss=loss)
    kept = Examples(tuple(arrays[2:]), "test", CPU, torch.float32)
    assert evaluate(net, kept, loss, correct) == evaluate(net, kept, loss, correct)
    sgd.outputs(net, arrays[0], CPU)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
