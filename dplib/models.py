"""Perceptrons, residual networks, a small CNN: functions that return an ``nn.Sequential`` with the linear head last.

So ``net(x)`` gives class scores, and ``net[:-1](x)`` the features of the last-but-one layer. Images are
``(batch, in_channels, height, width)``; scores ``(batch, num_classes)``; features ``(batch, net[-1].in_features)``.
Weights come from PyTorch's own initialisation, so from its CPU generator: seed that to repeat a network
(:func:`dplib.sgd.seeded` does so and leaves the generator as it was). The other networks of the papers are in
:mod:`dplib.architectures`, what the papers print about them in :mod:`dplib.printed`.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from dplib import checks

ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}  # of paper B, Table XI, and paper D


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)) (He et al. 2016, Equation 2), with relu after the sum."""

    def __init__(self, body: nn.Module, shortcut: nn.Module):
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.body(x) + self.shortcut(x))


class PreActivation(nn.Module):
    """body(a) + x with a = activation(x) (He et al. 2016b, Figure 4e); a projected shortcut starts from a as well."""

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
    activation: Callable[[], nn.Module] | Sequence[Callable[[], nn.Module]] = nn.ReLU,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Fully connected network on rows ``(batch, sizes[0])``, with ``sizes[-1]`` scores; two sizes: logistic regression.

    Args:
        activation: after every hidden layer, or one for each of them.
        dropout: share of each hidden layer's outputs that is dropped in training; at 0 there is no dropout layer.
    """
    checks.list_of(checks.integer(1), least=2).check("sizes", sizes)
    hidden = len(sizes) - 2
    activations = [activation] * hidden if callable(activation) else list(activation)
    if len(activations) != hidden:
        raise checks.ParameterError(f"activation: {len(activations)} given, but sizes has {hidden} hidden layer(s).")
    layers = []
    for inputs, units, make in zip(sizes, sizes[1:-1], activations, strict=False):
        layers += [nn.Linear(inputs, units), make(), *dropped(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def dropped(share: float) -> list[nn.Module]:
    """A dropout layer, or none where ``share`` is 0; ParameterError outside [0, 1)."""
    unit = checks.number(0, 1)
    checks.Rule("a number of at least 0 and less than 1", lambda p: unit.accepts(p) and p < 1).check("dropout", share)
    return [nn.Dropout(share)] if share else []


def resnet18(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Callable[[int], nn.Module] = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-18 for small images: 3x3 stem of stride 1, no max-pool, basic blocks 2, 2, 2, 2; 11,173,962 parameters.

    ``width`` is the channels of the first stage; there are 8 * width features, 512 at the usual 64. Batch normalisation
    mixes examples, so DP-SGD needs another ``norm``, such as :func:`group_norm`. Both have as many parameters.
    """
    return _resnet(num_classes, in_channels, width, norm, _basic, (2, 2, 2, 2), expansion=1)


def resnet50(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Callable[[int], nn.Module] = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-50 for small images: bottleneck blocks 3, 4, 6, 3; 32 * width features, and 23,520,842 parameters at the
    usual 64. Else as :func:`resnet18`.
    """
    return _resnet(num_classes, in_channels, width, norm, _bottleneck, (3, 4, 6, 3), expansion=4)


def preact_resnet18(
    num_classes: int = 10, in_channels: int = 3, width: int = 64, norm: Callable[[int], nn.Module] = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-18 "V2" for small images (He et al. 2016b): normalisation and relu before each convolution and after the
    last sum, so that the shortcuts carry sums through untouched; 11,172,170 parameters.

    As that paper's appendix has it, the first activation stands before the first block parts in two. A common version
    without the last normalisation has 1,024 fewer.
    """
    check_sizes(num_classes, in_channels, width)
    blocks = []
    channels = width
    for i in range(8):
        out = width * 2 ** (i // 2)
        stride = 2 if out > channels else 1
        activation = nn.Identity() if i == 0 else nn.Sequential(norm(channels), nn.ReLU())
        body = nn.Sequential(
            convolution(channels, out, 3, norm, stride), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1, bias=False)
        )
        projection = None if out == channels else nn.Conv2d(channels, out, 1, stride, bias=False)
        blocks.append(PreActivation(activation, body, projection))
        channels = out
    return nn.Sequential(
        convolution(in_channels, width, 3, norm),
        nn.ReLU(),
        *blocks,
        norm(channels),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, num_classes),
    )


def small_cnn(
    num_classes: int = 10, in_channels: int = 1, width: int = 64, norm: Callable[[int], nn.Module] = nn.BatchNorm2d
) -> nn.Sequential:
    """A CNN for a CPU, on images of at least 4x4: two 3x3 convolutions, then a 1x1 one that sets the feature width.

    The trunk is the same at every ``width`` (number of features), so that two of these differ as ResNet-50 differs from
    ResNet-18 in the last layer: the last 1x1 convolution of a bottleneck block spreads 512 channels over 2048 features.
    The features are, as there, averages over the image of non-negative activations.
    """
    check_sizes(num_classes, in_channels, width)
    return nn.Sequential(
        convolution(in_channels, 16, 3, norm),
        nn.ReLU(),
        nn.MaxPool2d(2),
        convolution(16, 32, 3, norm),
        nn.ReLU(),
        nn.MaxPool2d(2),
        convolution(32, width, 1, norm),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, num_classes),
    )


def group_norm(channels: int) -> nn.GroupNorm:
    """Group normalisation in up to 32 groups: it treats each example by itself, as DP-SGD needs."""
    return nn.GroupNorm(next(g for g in range(min(32, channels), 0, -1) if channels % g == 0), channels)


def parameter_count(net: nn.Module) -> int:
    """Number of trained parameters (running averages are not among them)."""
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def _resnet(num_classes, in_channels, width, norm, block, depths, expansion) -> nn.Sequential:
    check_sizes(num_classes, in_channels, width)
    blocks = []
    channels = width
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for i in range(depth):
            stride = 2 if stage > 0 and i == 0 else 1
            blocks.append(block(channels, inner, stride, norm))
            channels = expansion * inner
    return nn.Sequential(
        convolution(in_channels, width, 3, norm),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, num_classes),
    )


def _basic(channels: int, inner: int, stride: int, norm) -> Residual:
    body = nn.Sequential(
        convolution(channels, inner, 3, norm, stride),
        nn.ReLU(),
        convolution(inner, inner, 3, norm),
    )
    return Residual(body, _shortcut(channels, inner, stride, norm))


def _bottleneck(channels: int, inner: int, stride: int, norm) -> Residual:
    body = nn.Sequential(
        convolution(channels, inner, 1, norm),
        nn.ReLU(),
        convolution(inner, inner, 3, norm, stride),
        nn.ReLU(),
        convolution(inner, 4 * inner, 1, norm),
    )
    return Residual(body, _shortcut(channels, 4 * inner, stride, norm))


def _shortcut(channels: int, out: int, stride: int, norm) -> nn.Module:
    return nn.Identity() if stride == 1 and channels == out else convolution(channels, out, 1, norm, stride)


def convolution(channels: int, out: int, kernel: int, norm, stride: int = 1) -> nn.Sequential:
    """Convolution without bias (the normalisation that follows has one), same size at stride 1."""
    convolution = nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, norm(out))


def check_sizes(num_classes: int, in_channels: int, width: int) -> None:
    """Raise ParameterError for fewer than 2 classes, no channel, or a width below 1."""
    checks.integer(2).check("num_classes", num_classes)
    checks.integer(1).check("in_channels", in_channels)
    checks.integer(1).check("width", width)
