"""How much slower a step of DP-SGD is than one of SGD, on the networks of paper B's Table XVII: ratios only.

    python -m tests.benchmarks.bench_slowdown      writes what row B.slowdown and Table XVII are measured by

All sides run in one process on one thread, taking turns on the same batches of random numbers in the shape of the data.
A ratio is one of medians. It belongs to the machine it was measured on: the paper's is a GPU, where a small network
leaves SGD with hardly more than the cost of starting it.
"""

import multiprocessing
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from book.evidence.step_times import Step, with_opacus
from dplib import examples
from dplib.dpsgd import DPSGD, Engine
from dplib.examples import Examples
from dplib.models import LSTM
from dplib.sgd import seeded
from papers.common import printed
from tests.benchmarks.written import medians, report, row, write

NETWORKS = {  # row of Table XVII: network
    "svhn-cnn-stw": "cnn-svhn-stw",
    "svhn-cnn-paw": "cnn-svhn-paw",
    "svhn-fcn-stw": "fcn-svhn-stw",
    "svhn-fcn-paw": "fcn-svhn-paw",
    "spam-rnn-complex": "rnn-sms-complex",
    "spam-rnn-simple": "rnn-sms-simple",
}
BATCH, LENGTH = 64, 40  # examples; words of a message, for the recurrent networks


def slowdown(network: str, rounds: int) -> dict[str, float]:
    """Median seconds of a step of each side on a network of ``printed.ARCHITECTURES``.

    SGD is PyTorch's own (with its fused LSTM where there is one). Opacus is its hooks mode on batches in memory,
    without its loader, and with its ``DPLSTM``.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # that seeded noise is no release
    x, y = _records(network, 4 * BATCH)
    steps = {"sgd": _sgd(network, x, y), "dplib": _dplib(network, x, y), "opacus": _opacus(network, x, y)}
    generator = torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {side: [] for side in steps}
    for turn in range(rounds + 1):
        rows = torch.randperm(len(y), generator=generator)[:BATCH]
        for side in steps if turn % 2 else reversed(steps):
            start = time.perf_counter()
            steps[side](rows)
            seconds[side].append(time.perf_counter() - start)
    return medians({side: values[1:] for side, values in seconds.items()})  # the first turn warms up


def _records(network: str, n: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    if network.startswith("rnn"):
        return torch.from_numpy(rng.integers(0, 1000, (n, LENGTH))), torch.from_numpy(rng.integers(0, 2, n))
    shape = printed.ARCHITECTURES[network].input_shape
    return torch.from_numpy(rng.random((n, *shape), np.float32)), torch.from_numpy(rng.integers(0, 10, n))


def _net(network: str, x: Tensor, lstm: Callable[[int, int], nn.Module] | None = None) -> nn.Sequential:
    """The printed network, in the layout for examples x, its LSTM replaced where asked for."""
    net = seeded(printed.ARCHITECTURES[network].make, 0)
    if lstm is not None:
        parts = (_LastState(lstm(m.ih.in_features, m.hh.in_features)) if isinstance(m, LSTM) else m for m in net)
        net = nn.Sequential(*parts)
    return net.to(memory_format=examples.layout_of(net, x))


class _LastState(nn.Module):
    """The last state of a recurrent layer that returns all of them."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0][:, -1]


def _step(net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Step:
    def step(rows: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()

    return step


def _sgd(network: str, x: Tensor, y: Tensor) -> Step:
    net = _net(network, x, lambda d, h: nn.LSTM(d, h, batch_first=True))
    return _step(net, torch.optim.SGD(net.parameters(), 0.1), x, y)


def _dplib(network: str, x: Tensor, y: Tensor) -> Step:
    settings = DPSGD(steps=1, sample_rate=BATCH / len(y), learning_rate=0.1, noise_multiplier=1.0, max_grad_norm=1.0)
    net = _net(network, x)
    train = Examples((x.numpy(), y.numpy()), "train", torch.device("cpu"), torch.float32, examples.layout_of(net, x))
    return Engine(net, settings, train, generator=torch.Generator().manual_seed(0)).step


def _opacus(network: str, x: Tensor, y: Tensor) -> Step:
    from opacus.layers import DPLSTM

    net = _net(network, x, lambda d, h: DPLSTM(d, h, batch_first=True))
    net, optimizer, _ = with_opacus(net, x, y, BATCH, poisson_sampling=False)
    return _step(net, optimizer, x, y)


def measure() -> dict[str, Any]:
    """Ratios to SGD of both sides, for each network of the table."""
    # A process each, since large networks leave memory in pieces, which slowed the steps of small ones after them. More
    # turns where a step takes a millisecond.
    values = {}
    for name, network in NETWORKS.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            seconds = pool.submit(slowdown, network, 101 if "fcn" in name or "simple" in name else 11).result()
        values[name] = {side: seconds[side] / seconds["sgd"] for side in ("opacus", "dplib")}
    rows = [
        row(f"Table XVII, {name}, batches of {BATCH}", f"{title} / SGD", ratios[side])
        for side, title in (("opacus", "Opacus"), ("dplib", "dplib"))
        for name, ratios in values.items()
    ]
    return report("slowdown", rows, "torch", "opacus", ratios=values)


if __name__ == "__main__":
    write("bench_slowdown", __doc__, measure)
