"""What a network or a loss keeps between two calls, and what a single record that stands out does to all others."""

import functools
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dplib import clipping, dpsgd, state
from dplib.checks import ParameterError
from dplib.examples import cross_entropy

SETTINGS = dpsgd.DPSGD(40, 0.1, 0.5, 0.5, 0.7)


def records(n=300, seed=0):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(seed)), torch.arange(n) % 4


class Code(nn.Module):
    """Two linear layers, code around them, and attributes of its own."""

    def __init__(self, forward, **own):
        super().__init__()
        self.first, self.second, self.code = nn.Linear(6, 6), nn.Linear(6, 4), forward
        for key, value in own.items():
            setattr(self, key, value)

    def forward(self, x):
        return self.code(self, x)


def head(net, x):
    return net.second(torch.tanh(net.first(x)))


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4))


def train(net, data=None, loss=cross_entropy, settings=SETTINGS):
    return dpsgd.train(
        net, dpsgd.Data(data or records()), settings, np.random.default_rng(0), loss=loss, progress=False
    )


def first_mean(net, x):
    """As ActNorm and other layers begin: with the mean of the first batch that they see, for good."""
    if net.mean is None:
        net.mean = x.mean(0)
    return head(net, x - net.mean)


def first_hidden(net, x):
    h = net.first(x)
    if net.training and net.mean is None:
        net.mean = h.detach().mean(0)
    return net.second(torch.tanh(h - (0 if net.mean is None else net.mean)))


def first_of_shape(net, x):
    return head(net, x * net.masks.setdefault(x.shape, (x.mean(0) > 0).float()))


def moving_mean(net, x):
    h = net.first(x)
    net.mean = 0.9999 * net.mean + 0.0001 * h.detach().mean(0).nan_to_num().clamp(-9, 9)
    return net.second(torch.tanh(h - net.mean))


KEEPING = {
    "the first batch's mean": lambda: Code(first_mean, mean=None),
    "the first hidden mean of a training": lambda: Code(first_hidden, mean=None),
    "the first mask of each shape": lambda: Code(first_of_shape, masks={}),
    "a slow moving mean": lambda: Code(moving_mean, mean=torch.zeros(6)),
}


@pytest.mark.parametrize("name", KEEPING)
def test_a_network_that_keeps_numbers_of_examples_is_refused(name):
    torch.manual_seed(0)
    with pytest.raises(ParameterError, match=r"keeps|not the same in two calls"):
        train(KEEPING[name]())


class Centred:
    """A loss whose centre follows the outputs, slowly (DINO)."""

    def __init__(self, momentum):
        self.centre, self.momentum = torch.zeros(4), momentum

    def __call__(self, outputs, y):
        mean = outputs.detach().mean(0).nan_to_num().clamp(-9, 9)
        self.centre = self.momentum * self.centre + (1 - self.momentum) * mean
        return cross_entropy(outputs - self.centre, y)


@pytest.mark.parametrize("momentum", [0.9, 0.999, 0.9999, 0.99999])
def test_a_loss_that_keeps_a_moving_mean_is_refused(momentum):
    with pytest.raises(ParameterError, match=r"keeps|not the same in two calls"):
        train(plain(), loss=Centred(momentum))


def counted(net, x):
    """Resets what a rare code would be, once in 150 calls, to what an example gives."""
    net.calls += 1
    h = net.first(x)
    if net.calls % 150 == 0:
        net.second.weight.data[0] = h.detach()[0]
    return net.second(torch.tanh(h))


def loss_that_counts():
    calls = 0

    def loss(outputs, y):
        nonlocal calls
        calls += 1
        return cross_entropy(outputs, y) / (len(y) if 500 < calls < 600 else 1)

    return loss


def loss_that_remembers():
    seen = []

    def loss(outputs, y):
        seen.append(float(outputs.detach().mean()))
        return cross_entropy(outputs, y) * (1.0 if len(seen) < 1000 else sum(seen))

    return loss


def of_parts(history, outputs, y):
    history.append(0)
    return cross_entropy(outputs, y)


def ticking(ticks, outputs, y):
    next(ticks)
    return cross_entropy(outputs, y)


class Method:
    def __init__(self):
        self.calls = torch.zeros(())

    def loss(self, outputs, y):
        self.calls += 1
        return cross_entropy(outputs, y)


CALLS, TRACE = 0, {"calls": 0}


def loss_with_a_global(outputs, y):
    global CALLS
    CALLS += 1
    return cross_entropy(outputs, y)


class WithGlobal(nn.Sequential):
    def forward(self, x):
        TRACE["calls"] += 1
        return super().forward(x)


COUNTING = {
    "in a global": lambda: (plain(), loss_with_a_global),
    "in a global of the network": lambda: (WithGlobal(nn.Linear(6, 4)), cross_entropy),
    "in an attribute": lambda: (Code(counted, calls=0), cross_entropy),
    "in a closure": lambda: (plain(), loss_that_counts()),
    "in a list of a closure": lambda: (plain(), loss_that_remembers()),
    "in a counter": lambda: (plain(), functools.partial(ticking, itertools.count())),
    "in a partial function": lambda: (plain(), functools.partial(of_parts, [])),
    "in an object": lambda: (plain(), Method().loss),
}


@pytest.mark.parametrize("where", COUNTING)
def test_code_that_counts_its_calls_is_refused(where):
    torch.manual_seed(0)
    net, loss = COUNTING[where]()
    with pytest.raises(ParameterError, match="after one call of the network and its loss, and"):
        train(net, loss=loss)


def positions(net, x):
    if net.at is None:
        net.at = torch.linspace(-1, 1, x.shape[1])
    net.size, net.seen = x.shape, x.detach()  # to look at; nothing depends on it
    return head(net, x + net.at)


def test_what_is_built_once_without_examples_or_kept_without_use_is_let_be():
    torch.manual_seed(0)
    assert train(Code(positions, at=None)).steps == SETTINGS.steps


def test_a_network_is_not_called_before_its_trial():
    """What it took from the first examples would be in every copy of it."""
    calls = []

    class Calls(nn.Linear):
        def __deepcopy__(self, memo):
            return nn.Linear(6, 4)

        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    net = nn.Sequential(Calls(6, 4))
    with pytest.raises(ParameterError, match="Calls"):
        train(net)
    assert not calls


def writes(how):
    """Once a bias has moved: no count tells of it."""

    def forward(net, x):
        h = net.first(x)
        if net.first.bias.detach().abs().max() > 3 and net.book.abs().max() < 1e3:
            with torch.no_grad():
                if how == "trained":
                    net.second.weight[0] = h[0]
                elif how == "frozen":
                    net.frozen.data[0] = h.mean(0)
                else:
                    net.book[0] = h.mean(0)
                net.book[1] = 1e4
        return net.second(torch.tanh(h))

    net = Code(forward)
    net.frozen = nn.Parameter(torch.zeros(2, 6), requires_grad=False)
    net.register_buffer("book", torch.zeros(2, 6))
    return net


@pytest.mark.parametrize("how", ["trained", "frozen", "buffer"])
def test_what_a_network_writes_on_the_way_is_found(how):
    torch.manual_seed(0)
    settings = dpsgd.DPSGD(20, 0.3, 50.0, 1.0, 1.0)
    with pytest.raises(ParameterError, match="was written by the network's own code"):
        train(writes(how), settings=settings)


def test_prints_tell_of_each_write():
    net = writes("frozen")
    before = state.prints(net)
    state.check_unwritten(before, net)
    for change in (
        lambda: net.frozen.data.add_(1),
        lambda: net.book.data.add_(1),
        lambda: nn.init.zeros_(net.first.weight),
    ):
        before = state.prints(net)
        change()
        with pytest.raises(ParameterError, match="was written"):
            state.check_unwritten(before, net)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool]
)
def test_numbers_of_each_type_have_a_print(dtype):
    net = nn.Module()
    for i in range(20):
        net.register_buffer(f"b{i}", (100 * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(i))).to(dtype))
    net.register_buffer("none", torch.zeros(0, dtype=dtype))
    net.register_buffer("one", torch.ones((), dtype=dtype))
    net.register_buffer("turned", torch.ones(2, 3, dtype=dtype).t())
    before = state.prints(net)
    assert before == state.prints(net)
    net.one.data.zero_()
    assert before != state.prints(net)


def over_positives(outputs, y):
    """A focal loss is divided by the number of positives of the batch."""
    return cross_entropy(outputs, y) / (y == 3).sum().clamp(min=1)


@pytest.mark.parametrize("rare", [1, 2, 3])
def test_a_loss_over_the_number_of_a_rare_label_is_refused(rare):
    x, y = records(600)
    y = torch.where(torch.arange(600) < rare, 3, y % 3)
    with pytest.raises(ParameterError, match="example"):
        train(plain(), (x, y), over_positives)


def test_rare_labels_and_records_that_stand_out_are_tried():
    x, y = records(5000)
    y[:] = torch.arange(5000) % 3
    y[4321], x[1234] = 3, 50.0
    part = dpsgd.placed(plain(), dpsgd.Data((x, y)), torch.device("cpu"))["train"]
    for count in (5, 64, 900):
        rows = dpsgd._tried(part, count, 2048).tolist()
        assert dpsgd._tried(part, count, 9).tolist() == rows[:9]
        assert rows.count(4321) >= 2
        assert 1234 in rows[: clipping.SOME]
        assert count <= len(rows) <= max(count, clipping.SOME)


def by_largest(limit):
    def forward(net, x):
        h = net.first(x)
        return net.second(h / (h.abs().max() / limit).clamp(min=1))

    return lambda: Code(forward), cross_entropy


def skipped(outputs, y):
    losses = (outputs[:, 0] - y).square()
    return 0 * losses if losses.max() > 25 * losses.mean() else losses


ONE = {
    "hidden units over the largest of all, above 1e5": by_largest(1e5),
    "hidden units over the largest of all, above 1e10": by_largest(1e10),
    "no step where one loss stands out": (plain, skipped),
    "no step where a record is 0 throughout": (
        lambda: Code(lambda net, x: head(net, x * (0.0 if (x == 0).all(1).any() else 1.0))), cross_entropy,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_what_one_record_that_stands_out_does_to_all_others_is_refused(name):
    torch.manual_seed(0)
    build, loss = ONE[name]
    with pytest.raises(ParameterError, match="other examples"):
        clipping.check(build(), *records(60), loss)


def attended(net, x):
    net.attention = F.softmax(x, 1).detach()
    return head(net, x * net.attention)


@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_a_network_that_keeps_what_is_looked_at_later_passes(n):
    torch.manual_seed(0)
    clipping.check(Code(attended, attention=None), *records(n), cross_entropy)
