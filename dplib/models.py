"""The networks of the chapters and of papers B, C and D: each function returns an ``nn.Sequential``, linear head last.

So ``net(x)`` gives class scores, and ``net[:-1](x)`` the features of the last-but-one layer. Images are
``(batch, in_channels, height, width)``; scores ``(batch, num_classes)``; features ``(batch, net[-1].in_features)``.
Weights come from PyTorch's own initialisation, so from its CPU generator: seed that to repeat a network
(:func:`dplib.sgd.seeded` does so and leaves the generator as it was); the papers' own began otherwise where they used
Keras (:func:`keras_weights_`). No network has a softmax, which belongs to the loss. :mod:`papers.common.printed` has
the size that each table prints.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dplib import checks
from dplib.checks import bounded, integer

Activation = Callable[[], nn.Module]
Norm = Callable[[int], nn.Module]
ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}  # of paper B, Table XI, and paper D


_MOST = 10**6  # channels, units, classes
_MAKER = checks.Rule(
    "a function or class that makes a layer, such as torch.nn.ReLU or dplib.models.group_norm, not a name or a layer",
    lambda v: callable(v) and not isinstance(v, nn.Module),
)


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)) (He et al. 2016, Equation 2), with relu after the sum.

    Args:
        body: what is added to the shortcut.
        shortcut: of the shape that ``body`` gives.
    """

    def __init__(self, body: nn.Module, shortcut: nn.Module):
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.body(x) + self.shortcut(x))


class PreActivation(nn.Module):
    """body(a) + x with a = activation(x) (He et al. 2016b, Figure 4e); a projected shortcut starts from a as well.

    Args:
        activation: what comes before both branches.
        body: what is added.
        projection: where the body changes the shape; None to add x itself.
    """

    def __init__(self, activation: nn.Module, body: nn.Module, projection: nn.Module | None):
        super().__init__()
        self.activation = activation
        self.body = body
        self.projection = projection

    def forward(self, x: Tensor) -> Tensor:
        activated = self.activation(x)
        return self.body(activated) + (x if self.projection is None else self.projection(activated))


def mlp(
    sizes: Sequence[int],
    activation: Activation | Sequence[Activation] = nn.ReLU,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Fully connected network on rows ``(batch, sizes[0])``, with ``sizes[-1]`` scores; two sizes: logistic regression.

    Args:
        sizes: inputs, units of each hidden layer, and scores; two or more whole numbers from 1.
        activation: after every hidden layer, or one for each of them.
        dropout: share of each hidden layer's outputs that is dropped in training, in [0, 1); at 0 there is no dropout
            layer.

    Raises:
        ParameterError: for sizes or a share outside these, another number of activations, or what makes no layer.
    """
    checks.list_of(checks.integer(1, _MOST), least=2).check("sizes", sizes)
    hidden = len(sizes) - 2
    activations = list(activation) if isinstance(activation, list | tuple) else [activation] * hidden
    if len(activations) != hidden:
        raise checks.ParameterError(f"activation: {len(activations)} given, but sizes has {hidden} hidden layer(s).")
    for make in activations:
        _MAKER.check("activation", make)
    layers = []
    for inputs, units, make in zip(sizes, sizes[1:-1], activations, strict=False):
        layers += [nn.Linear(inputs, units), make(), *dropped(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def dropped(share: float) -> list[nn.Module]:
    """A dropout layer, or none where the share is 0.

    Args:
        share: of the outputs that is dropped in training, in [0, 1).

    Raises:
        ParameterError: for a share outside its range.
    """
    unit = checks.number(0, 1)
    checks.Rule("a number of at least 0 and less than 1", lambda p: unit.accepts(p) and p < 1).check("dropout", share)
    return [nn.Dropout(share)] if share else []


def resnet18(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Norm = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-18 for small images: 3x3 stem of stride 1, no max-pool, basic blocks 2, 2, 2, 2; 11,173,962 parameters.

    Args:
        num_classes: scores of the head.
        in_channels: 1 for grey images, 3 for colour.
        width: channels of the first stage; there are 8 * width features, 512 at the usual 64.
        norm: makes the normalisation of so many channels. Batch normalisation mixes examples, so DP-SGD needs another
            one, such as :func:`group_norm`; both have as many parameters.

    Raises:
        ParameterError: for a value outside its range.
    """
    return _resnet(num_classes, in_channels, width, norm, _basic, (2, 2, 2, 2), expansion=1)


def resnet50(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Norm = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-50 for small images: bottleneck blocks 3, 4, 6, 3; 32 * width features, and 23,520,842 parameters at the
    usual 64. Else as :func:`resnet18`.

    Args:
        num_classes: scores of the head.
        in_channels: 1 for grey images, 3 for colour.
        width: channels of the first stage.
        norm: makes the normalisation of so many channels. Batch normalisation mixes examples, so DP-SGD needs another
            one, such as :func:`group_norm`; both have as many parameters.

    Raises:
        ParameterError: for a value outside its range.
    """
    return _resnet(num_classes, in_channels, width, norm, _bottleneck, (3, 4, 6, 3), expansion=4)


def preact_resnet18(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Norm = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-18 "V2" for small images (He et al. 2016b): normalisation and relu before each convolution and after the
    last sum, so that the shortcuts carry sums through untouched; 11,172,170 parameters.

    As that paper's appendix has it, the first activation stands before the first block parts in two. A common version
    without the last normalisation has 1,024 fewer.

    Args:
        num_classes: scores of the head.
        in_channels: 1 for grey images, 3 for colour.
        width: channels of the first stage; there are 8 * width features.
        norm: makes the normalisation of so many channels. Batch normalisation mixes examples, so DP-SGD needs another
            one, such as :func:`group_norm`; both have as many parameters.

    Raises:
        ParameterError: for a value outside its range.
    """
    _check_sizes(num_classes, in_channels, width, norm)
    blocks = []
    channels = width
    for i in range(8):
        out = width * 2 ** (i // 2)
        stride = 2 if out > channels else 1
        activation = nn.Identity() if i == 0 else nn.Sequential(norm(channels), nn.ReLU())
        body = nn.Sequential(
            _linear(channels, out, 3, norm, stride), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1, bias=False)
        )
        projection = None if out == channels else nn.Conv2d(channels, out, 1, stride, bias=False)
        blocks.append(PreActivation(activation, body, projection))
        channels = out
    first, last = (_linear(in_channels, width, 3, norm), nn.ReLU()), (norm(channels), nn.ReLU())
    return nn.Sequential(*first, *blocks, *last, *_averaged(channels, num_classes))


def small_cnn(
    num_classes: int = 10, in_channels: int = 1, width: int = 64, norm: Norm = nn.BatchNorm2d
) -> nn.Sequential:
    """A CNN for a CPU, on images of at least 4x4: two 3x3 convolutions, then a 1x1 one that sets the feature width.

    The trunk is the same at every ``width`` (number of features), so that two of these differ as ResNet-50 differs from
    ResNet-18 in the last layer: the last 1x1 convolution of a bottleneck block spreads 512 channels over 2048 features.
    The features are, as there, averages over the image of non-negative activations.

    Args:
        num_classes: scores of the head.
        in_channels: 1 for grey images, 3 for colour.
        width: number of features.
        norm: makes the normalisation of so many channels. Batch normalisation mixes examples, so DP-SGD needs another
            one, such as :func:`group_norm`; both have as many parameters.

    Raises:
        ParameterError: for sizes that are not whole numbers from 1.
    """
    _check_sizes(num_classes, in_channels, width, norm)
    return nn.Sequential(
        _conv(in_channels, 16, 3, norm),
        nn.MaxPool2d(2),
        _conv(16, 32, 3, norm),
        nn.MaxPool2d(2),
        _conv(32, width, 1, norm),
        *_averaged(width, num_classes),
    )


@bounded(channels=integer(1, _MOST))
def group_norm(channels: int) -> nn.GroupNorm:
    """Group normalisation in up to 32 groups: it treats each example by itself, as DP-SGD needs.

    Args:
        channels: from 1 to 10^6.

    Raises:
        ParameterError: for a number outside its range.
    """
    return nn.GroupNorm(next(g for g in range(min(32, channels), 0, -1) if channels % g == 0), channels)


def parameter_count(net: nn.Module) -> int:
    """Number of trained parameters (running averages are not among them).

    Args:
        net: a network.
    """
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def _resnet(num_classes, in_channels, width, norm, block, depths, expansion) -> nn.Sequential:
    _check_sizes(num_classes, in_channels, width, norm)
    blocks = []
    channels = width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            blocks.append(block(channels, width * 2**stage, 2 if stage > 0 and i == 0 else 1, norm))
            channels = expansion * width * 2**stage
    return nn.Sequential(_conv(in_channels, width, 3, norm), *blocks, *_averaged(channels, num_classes))


def _averaged(channels: int, num_classes: int) -> list[nn.Module]:
    """Averages over the image, and the head."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes)]


def _basic(channels: int, inner: int, stride: int, norm) -> Residual:
    body = nn.Sequential(_conv(channels, inner, 3, norm, stride), _linear(inner, inner, 3, norm))
    return Residual(body, _shortcut(channels, inner, stride, norm))


def _bottleneck(channels: int, inner: int, stride: int, norm) -> Residual:
    body = nn.Sequential(
        _conv(channels, inner, 1, norm), _conv(inner, inner, 3, norm, stride), _linear(inner, 4 * inner, 1, norm)
    )
    return Residual(body, _shortcut(channels, 4 * inner, stride, norm))


def _shortcut(channels: int, out: int, stride: int, norm) -> nn.Module:
    return nn.Identity() if stride == 1 and channels == out else _linear(channels, out, 1, norm, stride)


def _linear(channels: int, out: int, kernel: int, norm: Norm, stride: int = 1) -> nn.Sequential:
    """Convolution without bias (the normalisation that follows has one), same size at stride 1."""
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False), norm(out))


def _conv(channels: int, out: int, kernel: int, norm: Norm, stride: int = 1) -> nn.Sequential:
    """Convolution, normalisation, relu: paper C's Conv."""
    return _linear(channels, out, kernel, norm, stride).append(nn.ReLU())


def _check_sizes(num_classes: int, in_channels: int, width: int, norm: Norm = nn.BatchNorm2d) -> None:
    """Raise ParameterError for fewer than 2 classes, no channel, a width below 1, or what makes no normalisation."""
    _MAKER.check("norm", norm)
    checks.integer(2, _MOST).check("num_classes", num_classes)
    checks.integer(1, _MOST).check("in_channels", in_channels)
    checks.integer(1, _MOST).check("width", width)


class LSTM(nn.Module):
    """The last state of an LSTM, ``(batch, length, inputs)`` to ``(batch, units)``.

    One bias for each gate, as in Keras and in paper B's counts: 4 units (units + inputs + 1). ``nn.LSTM`` and Opacus's
    ``DPLSTM`` have two, whose sum alone matters, and so 4 units more. The two matrices are Opacus's ``RNNLinear``, the
    layer that ``DPLSTM`` is made of, for which Opacus has per-example gradients over all time steps. Gates are in
    PyTorch's order: input, forget, cell, output.

    Args:
        inputs: numbers of each time step.
        units: of the state.

    Raises:
        ParameterError: for sizes that are not whole numbers from 1.
    """

    def __init__(self, inputs: int, units: int):
        from opacus.layers.dp_rnn import RNNLinear  # seconds to import, and only recurrent networks need it

        for name, size in (("inputs", inputs), ("units", units)):
            checks.integer(1, _MOST).check(name, size)
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
    """The outputs of several branches side by side: channels ``(batch, sum of channels, height, width)``.

    Args:
        branches: that all get the same input, and keep its height and width.
    """

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class TwoBranches(nn.Module):
    """Features of user-item pairs, ``(batch, 2)`` int64 to ``(batch, factors + widths[-1])`` (He et al. 2017, NeuMF).

    One branch multiplies two embeddings element by element, the other passes two joined ones through a perceptron.

    Args:
        n_users: users are numbered below it.
        n_items: items are numbered below it.
        factors: dimensions of the embeddings that are multiplied.
        widths: of the perceptron's layers, the first of them two embeddings side by side.
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

    Args:
        in_channels: 1 for grey images, 3 for colour.
        image_size: height and width.
        filters: channels of each convolution.
        units: of the dense layer.
        dropout: share of a layer's outputs that is dropped in training, in [0, 1); at 0 there is no dropout layer.
        num_classes: scores of the head.

    Raises:
        ParameterError: for a value outside its range.
    """
    checks.list_of(checks.integer(1, _MOST)).check("filters", filters)
    checks.integer(1, _MOST).check("units", units)
    _check_sizes(num_classes, in_channels, units)
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

    Args:
        lstm_units: of the state.
        dense_units: of the dense layer.
        dropout: share of a layer's outputs that is dropped in training, in [0, 1); at 0 there is no dropout layer.
        n_words: words are numbered below it.
        width: dimensions of a word.

    Raises:
        ParameterError: for a value outside its range.
    """
    sizes = {"lstm_units": lstm_units, "dense_units": dense_units, "n_words": n_words, "width": width}
    for name, size in sizes.items():
        checks.integer(1, _MOST).check(name, size)
    return nn.Sequential(
        nn.Embedding(n_words, width),
        LSTM(width, lstm_units),
        nn.Linear(lstm_units, dense_units),
        nn.ReLU(),
        *dropped(dropout),
        nn.Linear(dense_units, 2),
    )


def medical_cost(layers: int, units: int, n_features: int = 6) -> nn.Sequential:
    """Paper B's regression network (Appendix C-B): equal relu layers, one linear output ``(batch, 1)``.

    Args:
        layers: hidden ones, from 1 to 1000.
        units: of each of them.
        n_features: inputs.

    Raises:
        ParameterError: for a value outside its range.
    """
    for name, size, most in (("layers", layers, 1000), ("units", units, _MOST), ("n_features", n_features, _MOST)):
        checks.integer(1, most).check(name, size)
    return mlp([n_features, *[units] * layers, 1])


def cnn4(activation: Activation = nn.Tanh) -> nn.Sequential:
    """Paper D's 4-layer CNN on 28x28 grey images, from the cited Tramer and Boneh (2020); relu is its DPSGD baseline.

    They pad the first convolution by 2 on each side, others by 3 as here: the dense layers get 4x4 images either way.

    Args:
        activation: makes the activation after each layer but the head.
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

    Args:
        activation: makes the activation after each layer but the head.
    """
    layers = []
    for a, b in [(3, 32), (32, 64), (64, 128)]:
        layers += [nn.Conv2d(a, b, 3, padding=1), activation(), nn.Conv2d(b, b, 3, padding=1), activation()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), activation(), nn.Linear(128, 10))


def small_inception(num_classes: int = 10, in_channels: int = 1, norm: Norm = nn.BatchNorm2d) -> nn.Sequential:
    """Paper C's simplified Inception on small images, Conv(3x3, 96), S1, S2, S3 (Appendix B, after Zhang et al. 2017).

    Convolutions are padded to keep the size at stride 1, and have no bias, which the normalisation has.

    Args:
        num_classes: scores of the head.
        in_channels: 1 for grey images, 3 for colour.
        norm: makes the normalisation of so many channels. Batch normalisation mixes examples, so DP-SGD needs another
            one, such as :func:`group_norm`; both have as many parameters.

    Raises:
        ParameterError: for a value outside its range.
    """
    _check_sizes(num_classes, in_channels, 1)
    layers = [_conv(in_channels, 96, 3, norm)]
    channels = 96
    for blocks, end in [
        ([(32, 32), (32, 48)], 160),
        ([(112, 48), (96, 64), (80, 80), (48, 96)], 240),
        ([(176, 160), (176, 160)], None),
    ]:
        for narrow, three in blocks:
            layers.append(Concat(_conv(channels, narrow, 1, norm), _conv(channels, three, 3, norm)))
            channels = narrow + three
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
    al. (2017). Bu et al. (2020), whose split paper C takes, published factors = 5, widths = (20,).

    Args:
        n_users: users are numbered below it.
        n_items: items are numbered below it.
        num_classes: ratings.
        factors: of the product branch.
        widths: of the perceptron, the first of which is two embeddings side by side, so an even number.

    Raises:
        ParameterError: for a value outside its range.
    """
    sizes = {"n_users": n_users, "n_items": n_items, "num_classes": num_classes, "factors": factors}
    for name, size in sizes.items():
        checks.integer(1, _MOST).check(name, size)
    checks.list_of(checks.integer(1, _MOST)).check("widths", widths)
    if widths[0] % 2:
        raise checks.ParameterError(f"widths[0] = {widths[0]} is not allowed: it must be even, two embeddings.")
    return nn.Sequential(TwoBranches(n_users, n_items, factors, widths), nn.Linear(factors + widths[-1], num_classes))


@torch.no_grad()
def keras_weights_(net: nn.Module, generator: torch.Generator | None = None) -> nn.Module:
    """Draw initial weights in place by Keras's rules, with which papers B and C began, and return the network.

    Glorot-uniform matrices and no bias; embeddings uniform in [-0.05, 0.05]; for an LSTM an orthogonal recurrent matrix
    and a forget bias of 1. It matters most where random layers stay as they are (random weights training): PyTorch's
    own dense weights have variance 1 / (3 inputs) instead of 2 / (inputs + outputs), and random biases.

    Args:
        net: its linear layers, convolutions, embeddings and LSTMs are drawn anew.
        generator: on the processor; None for PyTorch's own.
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
