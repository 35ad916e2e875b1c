"""How much slower a step of DP-SGD is than one of SGD, on the networks of paper B's Table XVII: ratios only.

    python tests/benchmarks/bench_slowdown.py      writes what row B.slowdown and Table XVII are measured by

All sides run in one process on one thread, taking turns on the same batches of random numbers in the shape of the data.
A ratio is one of medians. It belongs to the machine it was measured on: the paper's is a GPU, where a small network
leaves SGD with hardly more than the cost of starting it.
"""

import importlib.metadata
import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written import write

from dplib import examples, execution, printed
from dplib.dpsgd import DPSGD, Engine
from dplib.examples import Examples
from dplib.models import LSTM
from dplib.sgd import seeded

NETWORKS = {  # row of Table XVII: network
    "svhn-cnn-stw": "cnn-svhn-stw",
    "svhn-cnn-paw": "cnn-svhn-paw",
    "svhn-fcn-stw": "fcn-svhn-stw",
    "svhn-fcn-paw": "fcn-svhn-paw",
    "spam-rnn-complex": "rnn-sms-complex",
    "spam-rnn-simple": "rnn-sms-simple",
}
SIDES = ("sgd", "dplib", "opacus")
Step = Callable[[Tensor], object]


def slowdown(*, network: str, batch: int, rounds: int, length: int, seed: int) -> dict[str, float]:
    """Median seconds of a step on batches of ``batch`` for each of :data:`SIDES`, "dplib_ratio" and "opacus_ratio".

    SGD is PyTorch's own (with its fused LSTM where there is one). Opacus is its hooks mode on batches in memory,
    without its loader, and with its ``DPLSTM``.

    Args:
        network: a name of ``printed.ARCHITECTURES``.
        length: words of a message, for the recurrent networks.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x, y = _records(network, 4 * batch, length, seed)
        steps = {side: _SIDES[side](network, x, y, batch, seed) for side in SIDES}
        generator = torch.Generator().manual_seed(seed)
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        for turn in range(rounds + 1):  # the first one warms up
            rows = torch.randperm(len(y), generator=generator)[:batch]
            for side in SIDES if turn % 2 else reversed(SIDES):
                start = time.perf_counter()
                steps[side](rows)
                seconds[side].append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    median = {side: statistics.median(values[1:]) for side, values in seconds.items()}
    return median | {f"{side}_ratio": median[side] / median["sgd"] for side in SIDES[1:]}


def _records(network: str, n: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    shape = printed.ARCHITECTURES[network].input_shape
    if network.startswith("rnn"):
        return torch.from_numpy(rng.integers(0, 1000, (n, length))), torch.from_numpy(rng.integers(0, 2, n))
    return torch.from_numpy(rng.random((n, *shape), np.float32)), torch.from_numpy(rng.integers(0, 10, n))


def _net(network: str, x: Tensor, lstm: Callable[[LSTM], nn.Module] | None, seed: int) -> nn.Sequential:
    """The printed network, in the layout for examples x, its LSTM replaced where asked for."""
    net = seeded(printed.ARCHITECTURES[network].make, seed)
    if lstm is not None:
        net = nn.Sequential(*(lstm(module) if isinstance(module, LSTM) else module for module in net))
    return net.to(memory_format=examples.layout_of(net, x))


class _LastState(nn.Module):
    """The last state of a recurrent layer that returns all of them."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0][:, -1]


def _sgd(network: str, x: Tensor, y: Tensor, batch: int, seed: int) -> Step:
    net = _net(network, x, lambda m: _LastState(nn.LSTM(m.ih.in_features, m.hh.in_features, batch_first=True)), seed)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step(rows: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()

    return step


def _dplib(network: str, x: Tensor, y: Tensor, batch: int, seed: int) -> Step:
    settings = DPSGD(steps=1, sample_rate=batch / len(y), learning_rate=0.1, noise_multiplier=1.0, max_grad_norm=1.0)
    net = _net(network, x, None, seed)
    train = Examples((x.numpy(), y.numpy()), "train", torch.device("cpu"), torch.float32, examples.layout_of(net, x))
    return Engine(net, settings, train, generator=torch.Generator().manual_seed(seed)).step


def _opacus(network: str, x: Tensor, y: Tensor, batch: int, seed: int) -> Step:
    from opacus import PrivacyEngine
    from opacus.layers import DPLSTM

    net = _net(network, x, lambda m: _LastState(DPLSTM(m.ih.in_features, m.hh.in_features, batch_first=True)), seed)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that seeded noise is no release
        net, optimizer, _ = PrivacyEngine().make_private(
            module=net.train(),
            optimizer=torch.optim.SGD(net.parameters(), 0.1),
            data_loader=loader,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )

    def step(rows: Tensor) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()

    return step


_SIDES = {"sgd": _sgd, "dplib": _dplib, "opacus": _opacus}


def measure() -> dict[str, Any]:
    """Ratios to SGD of both sides, for each network of the table."""
    # A process each, since large networks leave memory in pieces, which slowed the steps of small ones after them. More
    # turns where a step takes a millisecond.
    found = {}
    for row, name in NETWORKS.items():
        rounds = 101 if "fcn" in row or "simple" in row else 11
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[row] = pool.submit(slowdown, network=name, batch=64, rounds=rounds, length=40, seed=0).result()
    return {
        "benchmark": "slowdown",
        "rows": [
            {"what": f"Table XVII, {row}, batches of 64", "ratio_of": f"{title} / SGD", "ratio": one[f"{side}_ratio"]}
            for side, title in (("opacus", "Opacus"), ("dplib", "dplib"))
            for row, one in found.items()
        ],
        "ratios": {row: {side: one[f"{side}_ratio"] for side in ("opacus", "dplib")} for row, one in found.items()},
        "threads": 1,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "hardware": execution.hardware(),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "opacus")},
    }


if __name__ == "__main__":
    write("bench_slowdown", __doc__, measure)
