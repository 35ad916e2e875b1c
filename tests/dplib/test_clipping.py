"""Clipped gradient sums against gradients of one example after another, and the list of what is refused."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dplib import clipping, layers, models
from dplib.checks import ParameterError
from dplib.examples import cross_entropy, squared_error
from tests import stand_in_gpu

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from opacus import GradSampleModule
    from opacus.layers import DPLSTM

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


class Pooled(nn.Module):
    """Mean over the positions of a sequence: (b, t, k) to (b, k)."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        out = self.body(x)
        return (out[0] if isinstance(out, tuple) else out).mean(1)


def conv(*args, **options):
    return lambda: nn.Sequential(
        nn.Conv2d(*args, **options), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(4)
    )


def images(channels, side):
    return lambda b: torch.randn(b, channels, side, side)


def words(length, vocabulary=20):
    return lambda b: torch.randint(vocabulary, (b, length))


def partly_frozen():
    net = models.mlp([12, 9, 8, 4])
    net[0].requires_grad_(False)
    net[2].bias.requires_grad_(False)
    net[4].weight.requires_grad_(False)
    return net


def inplace():
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(180, 4), nn.ELU(inplace=True)
    )


def rows(*shape):
    return lambda b: torch.randn(b, *shape)


def head(*layers):
    return lambda: nn.Sequential(*(build() for build in layers))


def linear(*args, **options):
    return lambda: nn.Linear(*args, **options)


NETS = {
    "logistic": (lambda: models.mlp([12, 4]), rows(12)),
    "mlp": (lambda: models.mlp([784, 128, 10]), rows(784)),
    "deep mlp": (lambda: models.mlp([784, 64, 32, 16, 10], nn.Tanh), rows(784)),
    "without bias": (head(linear(12, 8, bias=False), nn.ReLU, linear(8, 4, bias=False)), rows(12)),
    "partly frozen": (partly_frozen, rows(12)),
    "in place": (inplace, images(3, 8)),
    "cnn4": (models.cnn4, images(1, 28)),
    "cnn9": (models.cnn9, images(3, 32)),
    "lenet5": (models.lenet5, images(1, 28)),
    "rwt_cnn": (models.rwt_cnn, images(1, 28)),
    "block_cnn": (lambda: models.block_cnn(3, 32, [32, 64], 64, dropout=0), images(3, 32)),
    "padded": (conv(3, 6, 3, padding=2), images(3, 9)),
    "strided": (conv(3, 6, 3, stride=2), images(3, 10)),
    "odd": (conv(3, 6, (3, 2), stride=(2, 3), padding=(1, 2), dilation=(2, 1)), images(3, 11)),
    "valid": (conv(3, 6, 3, padding="valid", bias=False), images(3, 9)),
    "same": (conv(3, 6, 4, padding="same"), images(3, 9)),
    "grouped": (conv(6, 8, 3, groups=2, padding=1), images(6, 7)),
    "depthwise": (conv(6, 12, 3, groups=6, padding=1), images(6, 7)),
    "wide": (conv(64, 64, 3), images(64, 5)),
    "one pixel": (conv(3, 6, 1), images(3, 5)),
    "sequence": (lambda: Pooled(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4))), rows(6, 5)),
    "short sequence": (lambda: Pooled(nn.Linear(40, 40)), rows(2, 40)),
    "grid of positions": (head(linear(5, 3), nn.Flatten, linear(18, 4)), rows(2, 3, 5)),
    "embedding": (lambda: Pooled(nn.Embedding(20, 4)), words(7)),
    "padded embedding": (lambda: Pooled(nn.Embedding(20, 4, padding_idx=3)), words(30)),
    "one word": (head(lambda: nn.Embedding(20, 6), nn.Flatten, linear(6, 4)), words(1)),
    "lstm": (lambda: Pooled(nn.Sequential(nn.Embedding(20, 5), DPLSTM(5, 6, batch_first=True))), words(7)),
    "spam_lstm": (lambda: models.spam_lstm(8, 8, 0.0, 20, 5), words(9)),
    "two_branch": (lambda: models.two_branch(20, 20), words(2)),
    "group norm": (lambda: models.preact_resnet18(4, 3, 8, models.group_norm), images(3, 16)),
    "inception": (lambda: models.small_inception(4, 1, models.group_norm), images(1, 8)),
    "layer norm": (head(linear(12, 8), lambda: nn.LayerNorm(8), nn.Tanh, linear(8, 4)), rows(12)),
    "conv1d": (head(lambda: nn.Conv1d(3, 5, 3, padding=1), nn.Tanh, nn.Flatten, linear(35, 4)), rows(3, 7)),
}


def made(name, b, dtype):
    torch.manual_seed(sum(map(ord, name)) + b)
    build, inputs = NETS[name]
    net, x = build(), inputs(b)
    if any(isinstance(m, nn.LazyLinear) for m in net.children()):
        net(inputs(1))
    net = net.to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    k = net(x).shape[1]
    return net, x, torch.randint(k, (b,))


def by_one(net, x, y, factors):
    """Weighted sums of the gradients of one example after another, and their norms."""
    named = {k: p for k, p in net.named_parameters() if p.requires_grad}
    gradients = [
        torch.autograd.grad(cross_entropy(net(a), b).sum(), list(named.values()))
        for a, b in zip(x.split(1), y.split(1), strict=True)
    ]
    norms = torch.stack([torch.cat([g.flatten() for g in gradient]).norm() for gradient in gradients])
    weights = factors(norms.clone())
    sums = [torch.tensordot(weights, torch.stack(gs), 1) for gs in zip(*gradients, strict=True)]
    return dict(zip(named, sums, strict=True)), norms


def by_dplib(net, x, y, factors):
    sums = {k: torch.zeros_like(p) for k, p in net.named_parameters() if p.requires_grad}
    watched = clipping.ClippedSums(net, {net.get_parameter(k): s for k, s in sums.items()})
    norms = []
    total = watched.add(x, y, cross_entropy, lambda found: factors(norms.append(found.clone()) or found))
    watched.close()
    assert torch.equal(total, cross_entropy(net(x), y).sum())
    return sums, norms[0]


def median_clip(net, x, y, rule=clipping.flat):
    """Clip at the median norm: some examples are scaled and some are not."""
    _, norms = by_dplib(net, x, y, torch.ones_like)
    return lambda n: rule(n, float(norms.detach().median()))


def distance(sums, expected):
    assert sums.keys() == expected.keys()
    flat, reference = (torch.cat([s[k].flatten() for k in expected]) for s in (sums, expected))
    return float((flat - reference).norm() / reference.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("b", [1, 7])
def test_sums_are_those_of_one_example_after_another(name, b, dtype):
    """In double precision: of group normalisation PyTorch's own float32 gradients are off in the fourth digit."""
    net, x, y = made(name, b, dtype)
    factors = median_clip(net, x, y)
    exact = x.double() if x.is_floating_point() else x
    expected, norms = by_one(copy.deepcopy(net).double(), exact, y, factors)
    sums, found = by_dplib(net, x, y, factors)
    assert torch.allclose(found.double(), norms, rtol=TOLERANCE[dtype], atol=0)
    assert distance(sums, expected) < TOLERANCE[dtype]


def test_pieces_of_a_layer_change_nothing(monkeypatch):
    for name in ("cnn4", "padded embedding", "sequence", "short sequence", "grouped"):
        net, x, y = made(name, 7, torch.float64)
        factors = median_clip(net, x, y)
        whole, norms = by_dplib(net, x, y, factors)
        with monkeypatch.context() as patch:
            patch.setattr(layers, "PRODUCTS", layers.PRODUCTS._replace(processor=1))
            sums, found = by_dplib(net, x, y, factors)
        assert torch.allclose(norms, found, rtol=1e-13)
        assert distance(sums, whole) < 1e-13


@pytest.mark.parametrize("name", ["cnn4", "sequence", "grouped", "depthwise", "odd", "same", "valid"])
def test_gradients_that_are_kept_change_nothing(name, monkeypatch):
    """They are summed as they were measured, or made a second time where they are too many."""
    net, x, y = made(name, 7, torch.float64)
    factors = median_clip(net, x, y)
    kept, norms = by_dplib(net, x, y, factors)
    monkeypatch.setattr(layers, "KEPT", layers.KEPT._replace(processor=0))
    sums, found = by_dplib(net, x, y, factors)
    assert torch.allclose(norms, found, rtol=1e-13)
    assert distance(sums, kept) < 1e-13


@pytest.mark.parametrize("layer", [lambda: nn.Conv2d(2, 4, 3), lambda: nn.Linear(9, 4)], ids=["images", "sequences"])
def test_what_is_summed_is_what_was_measured(layer):
    """Also where little is left of large terms: a layer on constants, and a mean taken out behind it."""
    torch.manual_seed(0)
    module = layer()
    a = torch.full((3, 2, 9, 9), 1e3) if isinstance(module, nn.Conv2d) else torch.full((3, 50, 9), 1e3)
    d = torch.randn_like(module(a)).detach()
    d -= d.mean((2, 3) if isinstance(module, nn.Conv2d) else 1, keepdim=True)
    sums = {"weight": torch.zeros_like(module.weight)}
    norms, add = layers._rule(module)(module, sums, a, d)
    add(torch.tensor([0.0, 1.0, 0.0]), lambda x: x)
    assert torch.allclose(sums["weight"].norm(), norms[1], rtol=1e-5)


def test_memory_format_changes_nothing():
    net, x, y = made("cnn4", 5, torch.float64)
    expected, _ = by_dplib(net, x, y, factors := median_clip(net, x, y))
    last = net.to(memory_format=torch.channels_last)
    assert distance(by_dplib(last, x.to(memory_format=torch.channels_last), y, factors)[0], expected) < 1e-13


def test_flat_clipping_is_opacus_optimizers():
    from opacus.optimizers import DPOptimizer

    net, x, y = made("mlp", 9, torch.float64)
    norm = float(by_dplib(net, x, y, torch.ones_like)[1].median())
    watched = GradSampleModule(copy.deepcopy(net), loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(watched.parameters(), 1.0),
        noise_multiplier=0,
        max_grad_norm=norm,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    cross_entropy(watched(x), y).sum().backward()
    optimizer.clip_and_accumulate()
    expected = {k: p.summed_grad for k, p in watched._module.named_parameters()}
    assert distance(by_dplib(net, x, y, lambda n: clipping.flat(n, norm))[0], expected) < 1e-10


def test_rules():
    norms = torch.tensor([0.0, 0.5, 2.0, 1e6], dtype=torch.float64)
    assert torch.allclose(
        clipping.flat(norms.clone(), 1.0), torch.tensor([1, 1, 0.5, 1e-6], dtype=torch.float64), rtol=1e-5
    )
    assert torch.allclose(clipping.auto_s(norms.clone(), 2.0, 0.5), 2 / (norms + 0.01))
    assert torch.allclose(clipping.flat(norms.clone(), 0.1, 0.1), clipping.flat(norms.clone(), 1.0) / 10)
    for rule in clipping.RULES.values():
        assert bool((rule(norms.clone(), 0.7) * norms <= 0.7).all())


class Two(nn.Module):
    """Two linear layers and code of one's own around them, which no list of layers shows."""

    def __init__(self, how):
        super().__init__()
        self.first, self.second, self.how = nn.Linear(6, 6), nn.Linear(6, 4), how

    def forward(self, x):
        return self.how(x, self.first, self.second)


def mean_removed(h):
    return h - h.mean(0, keepdim=True)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.scale


def tied():
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    net[2].weight = net[0].weight
    return net


def tied_by_memory():
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    net[2].weight.data = net[0].weight.data
    return net


def normalised_weights():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), "layer 1 is a BatchNorm1d"),
        (lambda: nn.Sequential(nn.BatchNorm1d(6, affine=False), nn.Linear(6, 4)), "layer 0 is a BatchNorm1d"),
        (lambda: nn.Sequential(nn.BatchNorm1d(6).requires_grad_(False), nn.Linear(6, 4)), "layer 0 is a BatchNorm1d"),
        (models.resnet18, "layer 0.1 is a BatchNorm2d"),
        (lambda: nn.Sequential(nn.InstanceNorm2d(6, track_running_stats=True), nn.Conv2d(6, 4, 1)), "layer 0 keeps"),
        (tied, "layer 2 shares its weight with 0.weight"),
        (tied_by_memory, "layer 2 shares its weight with 0.weight"),
        (lambda: nn.Sequential(nn.Linear(6, 5), nn.Bilinear(5, 5, 4)), "layer 1 is a Bilinear"),
        (lambda: nn.Sequential(nn.LSTM(6, 4)), "DPLSTM"),
        (lambda: nn.Sequential(nn.Linear(6, 4), Own()), "layer 1 is a Own"),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")), "padding_mode = 'circular'"),
        (lambda: nn.Sequential(nn.Embedding(6, 4, max_norm=1.0)), "layer 0 has max_norm"),
        (lambda: nn.Sequential(nn.Embedding(6, 4, sparse=True)), "layer 0 has sparse"),
        (normalised_weights, "layer 0"),
    ],
)  # fmt: skip
def test_refused_layers_are_named(build, words):
    with pytest.raises(ParameterError, match=words):
        layers.trained_layers(build())


class SideBySide(nn.Module):
    """Two layers whose weights are pieces of one array, the second from a place in it on."""

    def __init__(self, place):
        super().__init__()
        base = torch.randn(100)
        self.a, self.b = nn.Linear(4, 3, bias=False), nn.Linear(4, 3, bias=False)
        self.a.weight = nn.Parameter(base[:12].view(3, 4))
        self.b.weight = nn.Parameter(base[place : place + 12].view(3, 4))


def test_parameters_that_overlap_in_memory_are_refused():
    """They were moved apart without a word."""
    for place in (0, 1, 11):
        with pytest.raises(ParameterError, match=r"layer b shares its weight with a\.weight"):
            layers.trained_layers(SideBySide(place))
    layers.trained_layers(SideBySide(12))
    net = nn.Linear(4, 3)
    net.bias = nn.Parameter(torch.zeros(1).expand(3))
    with pytest.raises(ParameterError, match="bias has numbers that share memory"):
        layers.trained_layers(net)


def seldom_reused(x, first, second):
    """The first layer's weights a second time, in a branch that is multiplied by 0 for nearly every example."""
    h = first(x)
    return second(h + (x[:, :1] > 4) * F.linear(h, first.weight))


class RunningMean(nn.Module):
    """Keeps a mean of what it was trained on, which would be released with the weights."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.first(x)


class Keeps(nn.Module):
    """Keeps a batch's mean where ``keep`` says."""

    def __init__(self, keep):
        super().__init__()
        self.first, self.keep = nn.Linear(6, 4), keep
        self.mean = nn.Parameter(torch.zeros(6), requires_grad=False)
        self.register_buffer("late", None)

    def forward(self, x):
        with torch.no_grad():
            self.keep(self, x.mean(0))
        return self.first(x)


def mixing(share, least=1):
    """A sum over the batch, times ``share``, in batches of ``least`` or more."""
    return lambda: Two(lambda x, first, second: second((h := first(x)) + share * (len(h) >= least) * h.sum(0)))


def detached_scale(x, first, second):
    """The batch's mean changes the length of each gradient, but no loss, and autograd knows nothing of it."""
    h = first(x)
    return second(h + h.detach().mean() * (h - h.detach()))


class Packed(nn.Module):
    """Sequences of different lengths, sorted and back again by PyTorch."""

    def __init__(self):
        super().__init__()
        self.lstm, self.last = DPLSTM(1, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x):
        lengths = 1 + (x > 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(x[:, :, None], lengths.clamp_max(6), True, enforce_sorted=False)
        return self.last(self.lstm(packed)[1][0][-1])


class Mixing(nn.Module):
    """Where both of two words stand, the batch is mixed: no given example has both, so that made-up ones show it."""

    def __init__(self, share=1.0, frozen=False, always=False):
        super().__init__()
        self.words, self.last = nn.Embedding(3, 6).requires_grad_(not frozen), nn.Linear(6, 4)
        self.share, self.always = share, always

    def forward(self, x):
        h = self.words(x).mean(1)
        both = ((x == 1).any(1) & (x == 2).any(1)).float()[:, None]
        return self.last(h + self.share * (self.always + both) * h.sum(0))


class BatchSecond(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.lstm = nn.Linear(5, 4), DPLSTM(4, 6)

    def forward(self, x):
        return self.lstm(self.rows(x.transpose(0, 1)))[0][-1]


NUMBERS = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
WORDS = torch.tensor([[1, 1, 0], [2, 2, 0], [1, 1, 0], [2, 2, 0], [0, 0, 0]])
MANY = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
SEQUENCES = torch.randn(3, 3, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("build", "x", "words"),
    [
        (lambda: Two(lambda x, first, second: second(first(mean_removed(x)))), NUMBERS, "other examples"),
        (lambda: Two(lambda x, first, second: second(mean_removed(first(x)))), NUMBERS, "other examples"),
        (lambda: Two(lambda x, first, second: second(F.linear(first(x), first.weight))), NUMBERS, "first.weight has"),
        (lambda: Two(lambda x, first, second: second(first(first(x)))), NUMBERS, "layer first is used 2 times"),
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(0)), NUMBERS, "other examples"),
        (lambda: Two(lambda x, first, second: second(first(x).cumsum(0))), NUMBERS, "other examples"),
        (lambda: Two(seldom_reused), NUMBERS, "first.weight is used 2 times"),
        (RunningMean, NUMBERS, "buffer mean changes with the examples"),
        (Packed, NUMBERS, "packed sequence goes into a DPLSTM"),
        (Mixing, WORDS, "other examples"),
        (BatchSecond, SEQUENCES, "first dimension"),
        (lambda: Keeps(lambda net, mean: net.mean.mul_(0.9).add_(mean)), NUMBERS, "parameter mean changes"),
        (lambda: Keeps(lambda net, mean: net.first.weight[0].copy_(mean)), NUMBERS, "first.weight changes"),
        (lambda: Keeps(lambda net, mean: net.first.bias.data[:1].fill_(mean[0])), NUMBERS, "first.bias changes"),
        (lambda: Keeps(lambda net, mean: setattr(net, "late", mean)), NUMBERS, "buffer late changes"),
        *((mixing(share), NUMBERS, "other examples") for share in (3e-4, 1e-4, 1e-9, 1e-30)),
        (mixing(1.0, least=9), MANY, "other examples"),
        (mixing(1e-9, least=20), MANY, "other examples"),
        (lambda: Two(lambda x, first, second: second(first(x).cumsum(0) if len(x) > 9 else x)), MANY, "other examples"),
        (lambda: Two(detached_scale), NUMBERS, "other examples"),
        (lambda: Mixing(1e-9, always=True), WORDS, "other examples"),
        (lambda: Mixing(1e-9, frozen=True, always=True), WORDS, "other examples"),
    ],
)
def test_what_no_list_shows_is_tried(build, x, words):
    """Also networks that are right for the first few examples; the network and the generator stay as they were."""
    torch.manual_seed(0)
    net = build()
    before = copy.deepcopy(net.state_dict())
    layers.trained_layers(net)
    state = torch.get_rng_state()
    with pytest.raises(ParameterError, match=words):
        clipping.check(net, x, torch.tensor([0, 1, 2, 3, 0] * 4)[: len(x)], cross_entropy)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("sizes", [(8, 64, 64), (40, 12, 12)], ids=["paired", "as it stands"])
def test_norms_of_terms_that_cancel_are_not_too_small(offset, sizes):
    """Output gradients that sum to 0 over the positions, as a mean removed leaves them, and large inputs."""
    t, p, q = sizes
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(5, 1, t, p, generator=generator) + offset
    d = torch.randn(5, 1, t, q, generator=generator)
    d -= d.mean(2, keepdim=True)
    exact = torch.linalg.vector_norm((d.double().mT @ a.double()).flatten(1), dim=1)
    found = layers.outer_squared_norms(a, d).sqrt()
    assert torch.allclose(found.double(), exact, rtol=2e-3)


def test_norms_that_are_a_hundredth_too_small_are_refused():
    of_examples = [(torch.tensor(0.0), torch.full((3,), size), torch.full((2, 2), size)) for size in (1.0, 2.0)]
    norms = torch.tensor([1.0, 2.0]) * 7**0.5
    clipping._check_norms(of_examples, norms)
    clipping._check_norms(of_examples, 1.4 * norms)  # rounding may count as length
    for wrong in (norms * torch.tensor([1.0, 0.99]), 1.6 * norms):
        with pytest.raises(ParameterError, match="gradient norms are not those"):
            clipping._check_norms(of_examples, wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_numbers_too_coarse_to_clip_are_refused(dtype):
    x, y = NUMBERS.to(dtype), torch.tensor([0, 1, 2, 3, 0])
    with pytest.raises(ParameterError, match=f"0.weight is of {dtype}"):
        clipping.check(models.mlp([6, 4]).to(dtype), x, y, cross_entropy)


def test_a_loss_that_mixes_examples_is_refused():
    net = models.mlp([6, 4])
    x, y = torch.randn(3, 6), torch.randn(3, 4)
    with pytest.raises(ParameterError, match="one number for each"):
        clipping.check(net, x, y, lambda o, t: squared_error(o, t).mean())
    with pytest.raises(ParameterError, match="is it detached"):
        clipping.check(net, x, y, lambda o, t: squared_error(o, t).detach())
    with pytest.raises(ParameterError, match="other examples"):
        clipping.check(net, x, y, lambda o, t: squared_error(o, t) + squared_error(o, t).mean())


@pytest.mark.parametrize("b", [1, 3, 8])
@pytest.mark.parametrize("name", ["mlp", "cnn4", "lstm", "group norm", "two_branch", "partly frozen"])
def test_good_networks_pass_the_trial(name, b):
    net, x, y = made(name, b, torch.float32)
    clipping.check(net, x, y, cross_entropy)
    clipping.check(mixing(0.0)(), MANY, torch.arange(20) % 4, cross_entropy)  # whose twins are refused


def test_dropout_passes_the_trial_and_an_unused_layer_counts_nothing():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Sequential(nn.Linear(6, 20), nn.Dropout(0.5), nn.Linear(20, 4)), nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    torch.manual_seed(0)
    net, x, y = Idle(), torch.randn(3, 6), torch.tensor([0, 1, 2])
    state = torch.get_rng_state()
    clipping.check(net, x, y, cross_entropy)
    assert torch.equal(state, torch.get_rng_state())
    sums, _ = by_dplib(net.eval(), x, y, torch.ones_like)
    assert not sums["idle.weight"].any()


def test_an_input_changed_in_place_is_refused():
    def changed(x, first, second):
        h = torch.tanh(x)
        out = first(h)
        h.mul_(2)
        return second(out)

    with pytest.raises(ParameterError, match="input of layer first is changed in place"):
        by_dplib(Two(changed), torch.randn(3, 6), torch.tensor([0, 1, 2]), torch.ones_like)


@pytest.mark.parametrize("name", ["mlp", "cnn4", "grouped", "embedding", "group norm"])
def test_same_sums_on_a_gpu(name, gpu):
    net, x, y = made(name, 7, torch.float32)
    expected, _ = by_dplib(net, x, y, factors := median_clip(net, x, y))
    sums, _ = by_dplib(net.cuda(), x.cuda(), y.cuda(), factors)
    assert distance({k: s.cpu() for k, s in sums.items()}, expected) < 1e-4


def test_digits_that_are_lost_on_a_gpu_are_computed_again_all_at_once():
    """Two positions whose terms cancel, of some examples alone."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 40, 1, 1, generator=generator).expand(6, 40, 1, 2).clone()
    x[:3, :, :, 1] += 1e-3 * torch.randn(3, 40, 1, generator=generator)
    net, norms = nn.Sequential(nn.Conv2d(40, 40, 1, bias=False)), {}

    def signed(outputs, y):
        return (outputs[..., 0] - outputs[..., 1]).flatten(1).sum(1)

    def noted(place):
        def factors(found):
            norms[place] = found.cpu().clone()
            return torch.ones_like(found)

        sums = clipping.ClippedSums(net, {p: torch.zeros_like(p) for p in net.parameters()})
        sums.add(x.to(place), torch.zeros(6, dtype=torch.long, device=place), signed, factors)
        sums.close()

    noted("cpu")
    with stand_in_gpu.present():
        net.to("cuda")
        noted("cuda")
    exact = (x[..., 0] - x[..., 1]).double().flatten(1).norm(dim=1) * 40**0.5
    assert torch.equal(norms["cpu"], norms["cuda"])
    torch.testing.assert_close(norms["cpu"][:3].double(), exact[:3], rtol=1e-3, atol=0)
