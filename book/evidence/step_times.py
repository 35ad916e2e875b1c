"""Steps to be timed side by side on the same batches: DP-SGD here, SGD, and Opacus.

Data are random numbers: the time does not depend on them.

The SGD is the fastest we can write: the batch is copied out of memory into a buffer that is used again; one forward and
one backward pass; weights move in one fused operation; where a batch in pieces is faster than in one, pieces.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplib.dpsgd import DPSGD, Engine
from dplib.examples import Examples

CPU = torch.device("cpu")
Step = Callable[[Tensor], object]  # rows (b,) of a batch


def records(shape: tuple[int, ...], n: int = 60_000, device: torch.device = CPU) -> Examples:
    """Random examples (n, *shape) with ten labels."""
    rng = np.random.default_rng(0)
    x = rng.random((n, *shape), np.float32)
    return Examples((x, rng.integers(10, size=n)), "train", device, torch.float32)


def settings(sample_rate: float, **changes: Any) -> DPSGD:
    """One step with noise multiplier 1, where nothing else is said."""
    return DPSGD(**{"steps": 1, "sample_rate": sample_rate, "learning_rate": 0.1, "noise_multiplier": 1.0} | changes)


def dpsgd_step(net: nn.Module, train: Examples, batch: int) -> Step:
    """The step of :class:`dplib.dpsgd.Engine`."""
    private = settings(batch / train.n, max_grad_norm=1.0)
    return Engine(net, private, train, generator=torch.Generator(train.y.device).manual_seed(0)).step


def sgd_step(net: nn.Module, train: Examples, piece: int) -> Step:
    """Plain SGD; in pieces where ``piece`` is less than the batch."""
    parameters = list(net.parameters())
    sums = [torch.zeros_like(p) for p in parameters]

    def gradients(rows: Tensor) -> tuple[Tensor, ...]:
        x, y = train.batch(rows)
        return torch.autograd.grad(F.cross_entropy(net(x), y), parameters)

    def step(rows: Tensor) -> None:
        if len(rows) <= piece:
            move: Sequence[Tensor] = gradients(rows)
        else:
            torch._foreach_zero_(sums)
            for few in rows.split(piece):
                torch._foreach_add_(sums, gradients(few), alpha=len(few) / len(rows))
            move = sums
        with torch.no_grad():
            torch._foreach_add_(parameters, move, alpha=-0.1)

    return step


def with_opacus(net: nn.Module, x: Tensor, y: Tensor, batch: int, **how: Any) -> tuple:
    """What Opacus makes of a network: network, optimizer, then its loss function where it has one, and its loader."""
    from opacus import PrivacyEngine

    return PrivacyEngine().make_private(
        module=net.train(),
        optimizer=torch.optim.SGD(net.parameters(), 0.1),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        **how,
    )


def opacus_step(net: nn.Module, train: Examples, batch: int, mode: str) -> Step:
    """Opacus without its loader, on batches out of memory; ``mode`` is "hooks" or "ghost"."""
    criterion = nn.CrossEntropyLoss()
    how = {"criterion": criterion, "poisson_sampling": False, "grad_sample_mode": mode}
    net, optimizer, *made = with_opacus(net, *train.tensors(), batch, **how)
    criterion = made[0] if mode == "ghost" else criterion

    def step(rows: Tensor) -> None:
        x, y = train.batch(rows)
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    return step


def timed(step: Step, block: Sequence[Any]) -> float:
    """Mean seconds of a step on each batch of a block."""
    start = time.perf_counter()
    for rows in block:
        step(rows)
    return (time.perf_counter() - start) / len(block)
