"""What the papers print about their networks, beside the networks themselves: counts and shapes.

``ARCHITECTURES`` names every network whose layers a paper gives; ``ARCHITECTURES[name].make()`` builds it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from dplib import checks
from dplib.models import (
    LSTM,
    block_cnn,
    cnn4,
    cnn9,
    lenet5,
    medical_cost,
    mlp,
    parameter_count,
    preact_resnet18,
    rwt_cnn,
    small_inception,
    spam_lstm,
    two_branch,
)


@dataclass(frozen=True)
class Architecture:
    """``make(**options)`` builds the network for one example of ``input_shape`` (channels first). ``parameters`` is the
    printed count, if any; ``claims`` are the rows of the ledger that print it, or that describe the network.
    """

    make: Callable[..., nn.Sequential]
    input_shape: tuple[int, ...]
    parameters: int | None
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """A layer as paper B's tables print it: ``output_shape`` of one example, channels last, and its parameters."""

    kind: str
    output_shape: tuple[int, ...]
    parameters: int


def _fcn(*sizes: int) -> partial:
    return partial(mlp, sizes, dropout=0.2)  # Section IX-A


def _entry(make, input_shape, parameters, *claims) -> Architecture:
    return Architecture(make, input_shape, parameters, claims)


MNIST, SVHN, CIFAR = (1, 28, 28), (1, 32, 32), (3, 32, 32)  # paper B's SVHN is grey
_RWT_RNN = [f"B.table6.rnn-{case}" for case in ("large-normal", "large-rwt", "small-normal", "small-rwt")]

ARCHITECTURES: dict[str, Architecture] = {
    # Paper B, Table I. STW: standard workflow, PAW: privacy-aware workflow. Rows of features are principal components,
    # except Purchase-100's.
    "cnn-cifar10-stw": _entry(partial(block_cnn, 3, 32, (48, 96), 512), CIFAR, 1_820_330, "B.table20.total"),
    "cnn-cifar10-paw": _entry(partial(block_cnn, 3, 32, (16, 32, 48), 512), CIFAR, 246_554, "B.table19.total"),
    "cnn-mnist-stw": _entry(partial(block_cnn, 1, 28, (48, 96), 64), MNIST, 197_130, "B.table1.cnn-mnist-stw"),
    "cnn-mnist-paw": _entry(partial(block_cnn, 1, 28, (16, 32), 64), MNIST, 56_970, "B.table26.total"),
    "cnn-svhn-stw": _entry(partial(block_cnn, 1, 32, (48, 96), 512), SVHN, 1_817_930, "B.table1.cnn-svhn-stw"),
    "cnn-svhn-paw": _entry(partial(block_cnn, 1, 32, (16, 32), 512), SVHN, 600_522, "B.table1.cnn-svhn-paw"),
    "fcn-cifar10-stw": _entry(_fcn(300, 2048, 10), (300,), 636_938, "B.table24.total"),
    "fcn-cifar10-paw": _entry(_fcn(300, 64, 10), (300,), 19_914, "B.table23.total"),
    "fcn-mnist-stw": _entry(_fcn(64, 512, 64, 10), (64,), 66_762, "B.table1.fcn-mnist-stw"),
    "fcn-mnist-paw": _entry(_fcn(64, 128, 10), (64,), 9_610, "B.table1.fcn-mnist-paw"),
    "fcn-svhn-stw": _entry(_fcn(300, 512, 128, 10), (300,), 221_066, "B.table1.fcn-svhn-stw"),
    "fcn-svhn-paw": _entry(_fcn(300, 128, 10), (300,), 39_818, "B.table1.fcn-svhn-paw"),
    "fcn-fashion-mnist-stw": _entry(_fcn(64, 512, 10), (64,), 38_410, "B.table1.fcn-fashion-mnist-stw"),
    "fcn-fashion-mnist-paw": _entry(_fcn(64, 128, 10), (64,), 9_610, "B.table1.fcn-fashion-mnist-paw"),
    "fcn-purchase100-stw": _entry(_fcn(600, 1024, 256, 100), (600,), 903_524, "B.table22.total"),
    "fcn-purchase100-paw": _entry(_fcn(600, 128, 100), (600,), 89_828, "B.table21.total"),
    # Paper B, other tables.
    "lenet5-mnist": _entry(lenet5, MNIST, 61_706, "B.table25.total", "B.table4.eps4.39-lenet"),
    "rnn-sms-complex": _entry(spam_lstm, (150,), 496_978, "B.table27.total", "B.table13.complex"),
    "rnn-sms-simple": _entry(partial(spam_lstm, 4, 16), (150,), 50_994, "B.table28.total", "B.table13.simple"),
    "rwt-fcn-mnist": _entry(partial(mlp, (784, 1024, 512, 64, 10)), (784,), 1_362_122, "B.table29.total"),
    "rwt-cnn-mnist": _entry(rwt_cnn, MNIST, 122_442, "B.table30.total"),
    "rwt-rnn-sms": _entry(partial(spam_lstm, dropout=0.0), (150,), 496_978, "B.table31.total", *_RWT_RNN),
    "simple-fcn-mnist": _entry(partial(mlp, (784, 512, 64, 10)), (784,), 435_402, "B.table7.simple-normal"),
    "frozen-fcn-mnist-stw": _entry(_fcn(64, 2048, 256, 64, 10), (64,), 674_762, "B.table9.eps2.11-stw"),
    "frozen-fcn-mnist-paw": _entry(_fcn(64, 1024, 10), (64,), 76_810, "B.table9.eps0.34-paw"),
    "medical-cost-12x60": _entry(partial(medical_cost, 12, 60), (6,), 40_741, "B.regression-pair"),
    "medical-cost-6x120": _entry(partial(medical_cost, 6, 120), (6,), 73_561, "B.regression-pair"),
    "logistic-mnist": _entry(partial(mlp, (784, 10)), (784,), None, "B.fig8"),
    "logistic-adult": _entry(partial(mlp, (108, 2)), (108,), None, "B.table18.eps0.0196-all"),
    "logistic-breast-cancer": _entry(partial(mlp, (43, 2)), (43,), None, "B.table2.eps0.236-all"),
    # Papers C and D. Only the 4-layer CNN's count is known, and from the work that D cites.
    "preact-resnet18-cifar10": _entry(preact_resnet18, CIFAR, None, "C.s-resnet-cifar"),
    "inception-mnist": _entry(small_inception, MNIST, None, "C.table-inception.inception"),
    "two-branch-movielens-1m": _entry(two_branch, (2,), None, "C.s-movielens-network"),
    "cnn4-mnist": _entry(cnn4, MNIST, 26_010, "D.s-networks"),
    "cnn9-cifar10": _entry(cnn9, CIFAR, None, "D.s-networks"),
}

_KINDS = {
    nn.Conv2d: "Convolution",
    nn.MaxPool2d: "MaxPooling",
    nn.AvgPool2d: "AveragePooling",
    nn.Flatten: "Flatten",
    nn.Linear: "Dense",
    nn.Dropout: "Dropout",
    nn.Embedding: "Embedding",
    LSTM: "LSTM",
}
_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid)


def example_input(net: nn.Module, input_shape: tuple[int, ...], batch: int = 1) -> torch.Tensor:
    """Zeros that ``net`` takes: ``(batch, *input_shape)``, int64 for a network of embeddings and float32 otherwise."""
    numbers = any(isinstance(module, nn.Embedding) for module in net.modules())
    return torch.zeros(batch, *input_shape, dtype=torch.int64 if numbers else torch.float32)


@torch.no_grad()
def layer_table(net: nn.Sequential, input_shape: tuple[int, ...]) -> list[Layer]:
    """The layers of a network but its activations, with what comes out of each when an example is run through it."""
    was_training = net.training
    net.eval()  # running averages stay as they are
    x = example_input(net, input_shape)
    rows = []
    for module in net:
        x = module(x)
        if not isinstance(module, _ACTIVATIONS):
            shape = tuple(x.shape[1:])
            shape = (*shape[1:], shape[0]) if len(shape) == 3 else shape
            rows.append(Layer(_KINDS.get(type(module), type(module).__name__), shape, parameter_count(module)))
    net.train(was_training)
    return rows


def shown(shape: tuple[int, ...]) -> str:
    """A shape as the tables print it: (10,10,16), or (512,)."""
    return str(shape).replace(" ", "")


def last_layers(net: nn.Sequential, n: int = 2) -> tuple[str, ...]:
    """Names of the last ``n`` layers that have weights: those that random weights training trains (Section VII-C)."""
    names = [name for name, module in net.named_children() if any(True for _ in module.parameters())]
    checks.integer(1, len(names)).check("n", n)
    return tuple(names[-n:])


def trained_count(net: nn.Sequential, layers: tuple[str, ...]) -> int:
    """Number of parameters of the named layers."""
    return sum(parameter_count(net.get_submodule(name)) for name in layers)
