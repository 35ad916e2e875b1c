"""Clipped sums of drawn networks, and of every option of every supported layer, against autograd in float64."""

import copy
import itertools
import warnings

import pytest
import torch
from torch import nn

from dplib import clipping, layers
from dplib.checks import ParameterError
from dplib.examples import cross_entropy
from tests.dplib import drawn_networks
from tests.dplib.drawn_networks import CLASSES, FAMILIES

B, NETWORKS = 6, 6 * len(FAMILIES)


def gradients(net, x, y):
    """Of one example after another, (b, parameters), in float64."""
    net = copy.deepcopy(net).double()
    trained = [p for p in net.parameters() if p.requires_grad]
    rows = []
    for a, label in zip(x.split(1), y.split(1), strict=True):
        loss = cross_entropy(net(a.double() if a.is_floating_point() else a), label).sum()
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained, materialize_grads=True)]))
    return torch.stack(rows)


def clipped(net, x, y, bound):
    """The sum as one vector, and the norms."""
    sums = {p: torch.zeros_like(p) for p in net.parameters() if p.requires_grad}
    watched, norms = clipping.ClippedSums(net, sums), []
    watched.add(
        x.clone(), y, cross_entropy, lambda found: clipping.flat((norms.append(found.clone()), found)[1], bound)
    )
    watched.close()
    return torch.cat([s.flatten() for s in sums.values()]), norms[0]


def moved(net):
    """At weights that are nowhere 0, and without random draws."""
    with torch.no_grad():
        for p in net.parameters():
            if p.requires_grad:
                p.add_(0.2 * torch.randn_like(p))
    return net.eval()


def check_equal(net, x, y, within):
    rows = gradients(net, x, y)
    norms = torch.linalg.vector_norm(rows, dim=1)
    bound = float(norms.median())
    due = (rows * (bound / (norms + 1e-6)).clamp_max(1)[:, None]).sum(0)
    found, found_norms = clipped(net, x, y, bound)
    assert (found.double() - due).norm() <= within * due.norm()
    assert (found_norms.double() - norms).abs().max() <= within * norms.max()
    fewer, _ = clipped(net, x[1:], y[1:], bound)
    assert (found - fewer).norm() <= bound * (1 + 10 * within)


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_drawn_networks_have_the_sums_of_their_examples(seed):
    net, draw = drawn_networks.network(seed)
    x, y = draw(B), torch.arange(B) % CLASSES
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    clipping.check(net, x, y, cross_entropy)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], kept) for name, kept in net.state_dict().items())
    net = moved(net)
    check_equal(copy.deepcopy(net).double(), x.double() if x.is_floating_point() else x, y, 1e-7)
    check_equal(net, x, y, 1e-3)


@pytest.mark.parametrize("name", drawn_networks.REFUSED)
def test_kinds_without_clipped_sums_are_refused_for_what_they_are(name):
    torch.manual_seed(0)
    build, draw, words = drawn_networks.REFUSED[name]
    x = draw(B)
    with pytest.raises(ParameterError, match=words):
        clipping.check(build(), x, torch.arange(B) % CLASSES, cross_entropy)


class ZeroHead(nn.Module):
    """A layer, then a head whose weights are 0: the layer has no gradient until they have moved."""

    def __init__(self, layer, x):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(self.features(x[:2]).shape[1], CLASSES).to(x.dtype if x.is_floating_point() else None)
        nn.init.zeros_(self.head.weight)

    def features(self, x):
        if not isinstance(self.layer, drawn_networks.DPLSTM | drawn_networks.DPGRU | drawn_networks.DPRNN):
            return torch.tanh(self.layer(x).flatten(1))
        out = self.layer(x if self.layer.batch_first else x.transpose(0, 1))[0]
        return torch.tanh((out if self.layer.batch_first else out.transpose(0, 1)).flatten(1))

    def forward(self, x):
        return self.head(self.features(x))


CONVOLUTION = {
    "stride": [2], "padding": [1, 2, "same", "valid"], "dilation": [2], "groups": [2, 4], "bias": [False],
    "padding_mode": ["reflect", "circular"], "kernel_size": [1, 2],
}  # fmt: skip
RECURRENT = {"num_layers": [2], "bias": [False], "batch_first": [False], "dropout": [0.5], "bidirectional": [True]}
NORM = {"eps": [0.1], "momentum": [0.5], "affine": [True], "track_running_stats": [True]}
SHAPES = {"normalized_shape": [(3, 5), (2, 3, 5)], "eps": [0.1], "elementwise_affine": [False]}
EMBEDDING = {
    "padding_idx": [0, -1],
    "max_norm": [1.0],
    "norm_type": [1.0],
    "scale_grad_by_freq": [True],
    "sparse": [True],
}
LAYERS = {  # kind: defaults, other values, shapes of an example
    nn.Linear: ({"in_features": 4, "out_features": 5}, {"bias": [False]}, [(4,), (3, 4), (2, 3, 4)]),
    nn.Conv1d: ({"in_channels": 4, "out_channels": 8, "kernel_size": 3}, CONVOLUTION, [(4, 9)]),
    nn.Conv2d: ({"in_channels": 4, "out_channels": 8, "kernel_size": 3}, CONVOLUTION, [(4, 8, 7)]),
    nn.Conv3d: ({"in_channels": 4, "out_channels": 8, "kernel_size": 3}, CONVOLUTION, [(4, 5, 6, 7)]),
    nn.Embedding: ({"num_embeddings": 10, "embedding_dim": 3}, EMBEDDING, [(1,), (7,), (2, 5)]),
    nn.GroupNorm: (
        {"num_groups": 2, "num_channels": 4}, {"num_groups": [1, 4], "eps": [0.1], "affine": [False]},
        [(4,), (4, 5), (4, 5, 3)],
    ),
    nn.LayerNorm: ({"normalized_shape": 5}, SHAPES | {"bias": [False]}, [(5,), (3, 5), (2, 3, 5)]),
    nn.RMSNorm: ({"normalized_shape": 5}, SHAPES, [(5,), (3, 5), (2, 3, 5)]),
    nn.InstanceNorm1d: ({"num_features": 4}, NORM, [(4, 5)]),
    nn.InstanceNorm2d: ({"num_features": 4}, NORM, [(4, 5, 3)]),
    nn.InstanceNorm3d: ({"num_features": 4}, NORM, [(4, 3, 2, 3)]),
    drawn_networks.DPLSTM: ({"input_size": 4, "hidden_size": 3, "batch_first": True}, RECURRENT, [(3, 4)]),
    drawn_networks.DPGRU: ({"input_size": 4, "hidden_size": 3, "batch_first": True}, RECURRENT, [(3, 4)]),
    drawn_networks.DPRNN: (
        {"input_size": 4, "hidden_size": 3, "batch_first": True}, RECURRENT | {"nonlinearity": ["relu"]}, [(3, 4)]
    ),
}  # fmt: skip
REASONS = ("padding_mode", "max_norm", "scale_grad_by_freq", "sparse", "track_running_stats")  # options without a rule


def alone_and_in_pairs(options):
    values = [(name, value) for name, several in options.items() for value in several]
    yield {}
    for choice in values:
        yield dict([choice])
    for first, second in itertools.combinations(values, 2):
        if first[0] != second[0]:
            yield dict([first, second])


def outcome(kind, options, shape, trial):
    """ "equal" or what the refusal says, that of a trial or of the sums; None for what PyTorch itself does not take."""
    torch.manual_seed(0)
    real = kind is not nn.Embedding
    x = torch.randn(B, *shape, dtype=torch.float64) if real else torch.randint(10, (B, *shape))
    y = torch.arange(B) % CLASSES
    try:
        layer = kind(**options).double()
        for few in (1, 2, B):
            layer(x[:few].transpose(0, 1) if options.get("batch_first") is False else x[:few])
        net = ZeroHead(layer, x).double()
    except (ValueError, RuntimeError):
        return None
    try:
        if trial:
            clipping.check(net, x, y, cross_entropy)
        else:
            clipped(net, x, y, 1.0)  # autograd does not take all that is refused here
        check_equal(moved(net), x, y, 1e-7)
    except ParameterError as refusal:
        return str(refusal)
    return "equal"


@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_every_option_of_a_layer_is_right_or_refused_for_what_it_is(kind, most):
    """Sums with all pairs of options, and trials, which take ten times as long, with ``most`` of them."""
    defaults, others, shapes = LAYERS[kind]
    counts = {"equal": 0, "refused": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for options, shape in itertools.product(alone_and_in_pairs(others), shapes):
            said = outcome(kind, defaults | options, shape, trial=len(options) <= most)
            if said is None:
                continue
            reasons = [name for name in REASONS if options.get(name) and options[name] != "zeros"]
            if reasons:
                words = ["running statistics" if name == "track_running_stats" else name for name in reasons]
                assert "layer layer " in said
                assert any(word in said for word in words), (options, said)
                counts["refused"] += 1
            else:
                assert said == "equal", (options, shape, said)
                counts["equal"] += 1
    assert counts["equal"] > 0
    assert (counts["refused"] > 0) == any(name in REASONS for name in others)


@pytest.mark.parametrize("offset", [0.0, 5.0, 50.0, 200.0])
def test_what_a_group_normalisation_takes_may_lie_far_from_zero(offset):
    """Sums of large numbers, whose difference has no digits left, are not what is used there."""
    torch.manual_seed(0)
    layer = nn.GroupNorm(2, 4)
    a, d = torch.randn(B, 4, 9, 9), torch.randn(B, 4, 9, 9)
    a[1::2] += offset  # and others do not
    sums = {name: torch.zeros(4) for name in ("weight", "bias")}
    norms, add = layers.group_normalisation(layer, sums, a, d)
    add(torch.ones(B), lambda x: x)
    due = torch.einsum("nchw->nc", nn.functional.group_norm(a.double(), 2, eps=layer.eps) * d)
    with_bias = torch.cat([due, d.double().sum((2, 3))], 1)
    assert (norms - with_bias.norm(dim=1)).abs().max() <= 1e-5 * with_bias.norm(dim=1).max()
    assert (sums["weight"] - due.sum(0)).abs().max() <= 1e-4 * due.norm()


class Dropout(nn.Module):
    """Says that it is one of ours."""

    def forward(self, x):
        return x - x.detach().mean(0) * (x.sum() > 1e9)


def test_types_are_compared_and_not_their_names():
    liar = type("Dropout", (Dropout,), {"__module__": "torch.nn.modules.dropout"})
    ours = type("Residual", (Dropout,), {"__module__": "dplib.models"})
    cell = type("RNNLinear", (nn.Linear,), {"__module__": "opacus.layers.dp_rnn"})
    network = type("DPRNNBase", (nn.Linear,), {"__module__": "opacus.layers.dp_rnn"})
    x, y = torch.randn(B, 6), torch.arange(B) % CLASSES
    for layer in (liar(), ours(), cell(6, 6), network(6, 6)):
        with pytest.raises(ParameterError, match="layer 1 is a"):
            clipping.check(nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, CLASSES)), x, y, cross_entropy)
