"""The networks of papers B, C and D, layer by layer; :mod:`dplib.printed` has the size each table prints.

As in :mod:`dplib.models`, each function returns an ``nn.Sequential`` whose last module is the linear head, with weights
from PyTorch's CPU generator. The papers' own weights began otherwise where they used Keras: see
:func:`keras_weights_`. No network has a softmax, which belongs to the loss.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dplib import checks
from dplib.models import check_sizes, convolution, dropped, mlp

Activation = Callable[[], nn.Module]
Norm = Callable[[int], nn.Module]


class LSTM(nn.Module):
    """The last state of an LSTM, ``(batch, length, inputs)`` to ``(batch, units)``.

    One bias for each gate, as in Keras and in paper B's counts: 4 units (units + inputs + 1). ``nn.LSTM`` and Opacus's
    ``DPLSTM`` have two, whose sum alone matters, and so 4 units more. The two matrices are Opacus's ``RNNLinear``, the
    layer that ``DPLSTM`` is made of, for which Opacus has per-example gradients over all time steps. Gates are in
    PyTorch's order: input, forget, cell, output.
    """

    def __init__(self, inputs: int, units: int):
        from opacus.layers.dp_rnn import RNNLinear  # seconds to import, and only recurrent networks need it

        super().__init__()
        self.ih = RNNLinear(inputs, 4 * units)
        self.hh = RNNLinear(units, 4 * units, bias=False)
        for weight in self.parameters():
            nn.init.uniform_(weight, -(units**-0.5), units**-0.5)  # as nn.LSTM

    def forward(self, x: Tensor) -> Tensor:
        state = cell = x.new_zeros(len(x), self.hh.in_features)
        for from_input in self.ih(x).unbind(1):
            in_gate, forget, candidate, out_gate = (from_input + self.hh(state)).chunk(4, 1)
            cell = forget.sigmoid() * cell + in_gate.sigmoid() * candidate.tanh()
            state = out_gate.sigmoid() * cell.tanh()
        return state


class Concat(nn.Module):
    """The outputs of several branches side by side: channels ``(batch, sum of channels, height, width)``."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class TwoBranches(nn.Module):
    """Features of user-item pairs, ``(batch, 2)`` int64 to ``(batch, factors + widths[-1])`` (He et al. 2017, NeuMF).

    One branch multiplies two embeddings element by element, the other passes two joined ones through a perceptron.
    """

    def __init__(self, n_users: int, n_items: int, factors: int, widths: Sequence[int]):
        super().__init__()
        self.users = nn.Embedding(n_users, factors)
        self.items = nn.Embedding(n_items, factors)
        self.perceptron_users = nn.Embedding(n_users, widths[0] // 2)
        self.perceptron_items = nn.Embedding(n_items, widths[0] // 2)
        layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.perceptron = nn.Sequential(*(module for layer in layers for module in layer))

    def forward(self, pairs: Tensor) -> Tensor:
        user, item = pairs.unbind(1)
        product = self.users(user) * self.items(item)
        joined = torch.cat([self.perceptron_users(user), self.perceptron_items(item)], 1)
        return torch.cat([product, self.perceptron(joined)], 1)


def block_cnn(
    in_channels: int,
    image_size: int,
    filters: Sequence[int],
    units: int,
    dropout: float = 0.3,
    num_classes: int = 10,
) -> nn.Sequential:
    """Paper B's CNN on square images (Section IX-A; Tables XIX, XX and XXVI).

    Halve the image by max-pooling; a 5x5 convolution without padding; for each further number of ``filters``
    max-pooling and a padded 3x3 convolution; a dense layer of ``units``, dropout, the head. As in the printed tables,
    no pooling follows the last convolution. The activation of the dense layer is not printed: relu here, as before it.
    """
    checks.list_of(checks.integer(1)).check("filters", filters)
    check_sizes(num_classes, in_channels, units)
    checks.integer(8 + 2 ** len(filters)).check("image_size", image_size)
    side = (image_size // 2 - 4) >> (len(filters) - 1)
    layers = [nn.MaxPool2d(2), nn.Conv2d(in_channels, filters[0], 5), nn.ReLU()]
    for a, b in pairwise(filters):
        layers += [nn.MaxPool2d(2), nn.Conv2d(a, b, 3, padding=1), nn.ReLU()]
    dense = [nn.Linear(filters[-1] * side**2, units), nn.ReLU(), *dropped(dropout)]
    return nn.Sequential(*layers, nn.Flatten(), *dense, nn.Linear(units, num_classes))


def rwt_cnn() -> nn.Sequential:
    """Paper B's CNN for random weights training on 28x28 grey images (Table XXX): no first pooling, no padding."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1600, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def lenet5() -> nn.Sequential:
    """LeNet-5 on 28x28 grey images as in paper B, Table XXV. The activation is not printed: LeCun et al.'s tanh."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


def spam_lstm(
    lstm_units: int = 256, dense_units: int = 512, dropout: float = 0.2, n_words: int = 1_000, width: int = 50
) -> nn.Sequential:
    """Paper B's LSTM network on word numbers ``(batch, length)`` int64 (Tables XXVII, XXVIII and XXXI).

    Words in ``width`` dimensions, the last state of the LSTM, a dense layer, dropout, two scores. Not printed, and
    chosen here: relu after the dense layer, and the dropout of the paper's other dense networks.
    """
    sizes = {"lstm_units": lstm_units, "dense_units": dense_units, "n_words": n_words, "width": width}
    for name, size in sizes.items():
        checks.integer(1).check(name, size)
    return nn.Sequential(
        nn.Embedding(n_words, width),
        LSTM(width, lstm_units),
        nn.Linear(lstm_units, dense_units),
        nn.ReLU(),
        *dropped(dropout),
        nn.Linear(dense_units, 2),
    )


def medical_cost(layers: int, units: int, n_features: int = 6) -> nn.Sequential:
    """Paper B's regression network (Appendix C-B): equal relu layers, one linear output ``(batch, 1)``."""
    checks.integer(1).check("layers", layers)
    return mlp([n_features, *[units] * layers, 1])


def cnn4(activation: Activation = nn.Tanh) -> nn.Sequential:
    """Paper D's 4-layer CNN on 28x28 grey images, from the cited Tramer and Boneh (2020); relu is its DPSGD baseline.

    They pad the first convolution by 2 on each side, others by 3 as here: the dense layers get 4x4 images either way.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        activation(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        activation(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        activation(),
        nn.Linear(32, 10),
    )


def cnn9(activation: Activation = nn.Tanh) -> nn.Sequential:
    """Paper D's "9-layer" CNN on 32x32 colour images, from the cited Tramer and Boneh (2020).

    Counted as in :func:`cnn4` it has 8 layers, those with weights: 6 convolutions and 2 dense ones.
    """
    layers = []
    for a, b in [(3, 32), (32, 64), (64, 128)]:
        layers += [nn.Conv2d(a, b, 3, padding=1), activation(), nn.Conv2d(b, b, 3, padding=1), activation()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), activation(), nn.Linear(128, 10))


def small_inception(num_classes: int = 10, in_channels: int = 1, norm: Norm = nn.BatchNorm2d) -> nn.Sequential:
    """Paper C's simplified Inception on small images, Conv(3x3, 96), S1, S2, S3 (Appendix B, after Zhang et al. 2017).

    Convolutions are padded to keep the size at stride 1, and have no bias, which the normalisation has. Batch
    normalisation mixes examples, so DP-SGD needs another ``norm``, such as :func:`dplib.models.group_norm`.
    """
    check_sizes(num_classes, in_channels, 1)
    layers = [_conv(in_channels, 96, 3, norm)]
    channels = 96
    for blocks, end in [
        ([(32, 32), (32, 48)], 160),
        ([(112, 48), (96, 64), (80, 80), (48, 96)], 240),
        ([(176, 160), (176, 160)], None),
    ]:
        for one, three in blocks:
            layers.append(Concat(_conv(channels, one, 1, norm), _conv(channels, three, 3, norm)))
            channels = one + three
        if end:
            layers.append(_conv(channels, end, 3, norm, stride=2))
            channels = end
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


def two_branch(
    n_users: int = 6_040,
    n_items: int = 3_706,
    num_classes: int = 5,
    factors: int = 8,
    widths: Sequence[int] = (32, 16, 8),
) -> nn.Sequential:
    """Paper C's MovieLens network: neural collaborative filtering with a score for each rating (Appendix B).

    Input: user and item numbers ``(batch, 2)`` int64 from 0. Paper C prints no sizes; these are the smallest of He et
    al. (2017): 8 ``factors`` in the product branch, and a perceptron of ``widths``, the first of which is two
    embeddings side by side. Bu et al. (2020), whose split paper C takes, published factors = 5, widths = (20,).
    """
    sizes = {"n_users": n_users, "n_items": n_items, "num_classes": num_classes, "factors": factors}
    for name, size in sizes.items():
        checks.integer(1).check(name, size)
    checks.list_of(checks.integer(1)).check("widths", widths)
    if widths[0] % 2:
        raise checks.ParameterError(f"widths[0] = {widths[0]} is not allowed: it must be even, two embeddings.")
    return nn.Sequential(TwoBranches(n_users, n_items, factors, widths), nn.Linear(factors + widths[-1], num_classes))


@torch.no_grad()
def keras_weights_(net: nn.Module, generator: torch.Generator | None = None) -> nn.Module:
    """Draw initial weights in place by Keras's rules, with which papers B and C began, and return the network.

    Glorot-uniform matrices and no bias; embeddings uniform in [-0.05, 0.05]; for an LSTM an orthogonal recurrent matrix
    and a forget bias of 1. It matters most where random layers stay as they are (random weights training): PyTorch's
    own dense weights have variance 1 / (3 inputs) instead of 2 / (inputs + outputs), and random biases.
    """
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05, generator=generator)
    for module in net.modules():
        if isinstance(module, LSTM):
            units = module.hh.in_features
            nn.init.orthogonal_(module.hh.weight, generator=generator)
            module.ih.bias[units : 2 * units] = 1
    return net


def _conv(channels: int, out: int, kernel: int, norm: Norm, stride: int = 1) -> nn.Sequential:
    """Paper C's Conv: convolution, normalisation, relu."""
    return convolution(channels, out, kernel, norm, stride).append(nn.ReLU())
