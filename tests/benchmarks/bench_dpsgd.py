"""What does a DP-SGD step cost beside a plain SGD step, and beside Opacus?

    python -m tests.benchmarks.bench_dpsgd [--output book/results/bench_dpsgd.json] [--quick]

One process, one thread. Both sides run alternately, in blocks of steps on the same batches; a figure is the ratio of
the medians over the blocks. Data are random numbers in MNIST's shape: the time does not depend on them.

The SGD is the fastest we can write: the batch is copied out of memory into a buffer that is used again; one forward and
one backward pass; weights move in one fused operation; images are channels-last; where a batch in pieces is faster than
in one, pieces. Drawing the batch is on neither side, and is timed by itself. Opacus's default is timed with its loader,
and so are our steps then with their sampling. Opacus again in a process whose memory allocator keeps large blocks
(glibc's MALLOC_ variables) instead of asking the system for them at each step.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dplib import examples, logistic_grid, models
from dplib.dpsgd import DPSGD, Engine
from dplib.examples import Examples
from tests.benchmarks.written import medians, parser, report, row, save

N, BLOCK_SECONDS, BLOCKS = 60_000, 0.06, 40
CPU = torch.device("cpu")
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**28)}
Step = Callable[[torch.Tensor], object]

MLP = ("784-128-10", lambda: models.mlp([784, 128, 10]), (784,))
CASES = [  # network, batch size, DP-SGD step over SGD step at most
    (("logistic regression", lambda: models.mlp([784, 10]), (784,)), 256, 1.3),
    (MLP, 256, 1.5),
    (MLP, 2048, 1.2),
    (("784-2048-256-64-10", lambda: models.mlp([784, 2048, 256, 64, 10]), (784,)), 256, 1.6),
    (("784-2048-256-64-10", lambda: models.mlp([784, 2048, 256, 64, 10]), (784,)), 2048, 1.2),
    (("4-layer CNN", models.cnn4, (1, 28, 28)), 256, 2.0),
    (("4-layer CNN", models.cnn4, (1, 28, 28)), 2048, 1.8),
]


def records(shape: tuple[int, ...]) -> Examples:
    rng = np.random.default_rng(0)
    x = rng.random((N, *shape), np.float32)
    return Examples((x, rng.integers(10, size=N)), "train", CPU, torch.float32)


def settings(batch: int, **changes) -> DPSGD:
    return DPSGD(**{"steps": 1, "sample_rate": batch / N, "learning_rate": 0.1, "noise_multiplier": 1.0} | changes)


def dpsgd_step(net: nn.Module, train: Examples, batch: int) -> Step:
    private = settings(batch, max_grad_norm=1.0)
    return Engine(net, private, train, generator=torch.Generator().manual_seed(0)).step


def sgd_step(net: nn.Module, train: Examples, piece: int) -> Step:
    """Plain SGD; in pieces where ``piece`` is less than the batch."""
    parameters = list(net.parameters())
    sums = [torch.zeros_like(p) for p in parameters]

    def gradients(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, y = train.batch(rows)
        return torch.autograd.grad(F.cross_entropy(net(x), y), parameters)

    def step(rows: torch.Tensor) -> None:
        if len(rows) <= piece:
            move = gradients(rows)
        else:
            torch._foreach_zero_(sums)
            for few in rows.split(piece):
                torch._foreach_add_(sums, gradients(few), alpha=len(few) / len(rows))
            move = sums
        with torch.no_grad():
            torch._foreach_add_(parameters, move, alpha=-0.1)

    return step


def alternately(sides: dict[str, Step], batches: Callable[[], list[torch.Tensor]], quick: bool) -> dict[str, float]:
    """Median seconds of a step of each side, over blocks of about BLOCK_SECONDS, one after another."""
    few = batches()[:3]
    sizes = {}
    for name, step in sides.items():
        timed(step, few)
        sizes[name] = max(1, int(min(len(batches()), BLOCK_SECONDS / timed(step, few))))
    seconds = {name: [] for name in sides}
    for i in range(6 if quick else BLOCKS):
        block = batches()
        # Who comes first finds the records outside of the processor's caches, so they take turns.
        for name in list(sides) if i % 2 else reversed(list(sides)):
            seconds[name].append(timed(sides[name], block[: sizes[name]]))
    return medians(seconds)


def timed(step: Step, block: list[torch.Tensor]) -> float:
    start = time.perf_counter()
    for rows in block:
        step(rows)
    return (time.perf_counter() - start) / len(block)


def drawn(batch: int) -> Callable[[], list[torch.Tensor]]:
    rng = np.random.default_rng(1)
    return lambda: [torch.from_numpy(examples.poisson(N, batch / N, rng)) for _ in range(100)]


def against_sgd(quick: bool) -> list[dict]:
    rows = []
    for (name, build, shape), batch, limit in CASES:
        train = records(shape)
        layout = torch.channels_last if train.is_image else torch.preserve_format
        sides = {"dpsgd": dpsgd_step(build().to(memory_format=layout), train, batch)}
        for piece in {batch, min(batch, 512)} if train.is_image else {batch}:
            whole = 10**9 if piece == batch else piece
            sides[f"sgd in pieces of {piece}"] = sgd_step(build().to(memory_format=layout), train, whole)
        seconds = alternately(sides, drawn(batch), quick)
        sgd = min(value for side, value in seconds.items() if side != "dpsgd")
        rows.append(row(f"{name}, B = {batch}", "dpsgd / sgd", seconds["dpsgd"] / sgd, seconds, at_most=limit))
    return rows


def shared_batches(quick: bool, batch: int = 256, m: int = 32) -> dict:
    train = records((784,))
    private = [settings(batch, learning_rate=0.01 * (i + 1), max_grad_norm=1.0) for i in range(m)]
    grid = logistic_grid.LogisticGrid(private, train, 10, [torch.Generator().manual_seed(i) for i in range(m)])
    sides = {"grid": grid.step, "sgd": sgd_step(models.mlp([784, 10]), train, 10**9)}
    seconds = alternately(sides, drawn(batch), quick)
    ratio = seconds["grid"] / m / seconds["sgd"]
    what = f"shared-batch logistic regression, {m} models, B = {batch}"
    return row(what, "dpsgd per model / sgd", ratio, seconds, at_most=0.35)


def against_opacus(quick: bool, batch: int = 256) -> dict[str, dict[str, float]]:
    """Seconds of a step on 784-128-10: ours and Opacus's, each with its sampling, and ghost clipping in memory."""
    train = records((784,))
    x, y = train.tensors()
    rng = np.random.default_rng(2)
    ours = dpsgd_step(MLP[1](), train, batch)
    loop = opacus_default(x, y, batch)
    default = {
        "dplib": lambda _: ours(torch.from_numpy(examples.poisson(N, batch / N, rng))),
        "opacus": lambda _: next(loop),
    }
    memory = {
        "dplib": ours,
        "opacus ghost": opacus_in_memory(x, y, batch, "ghost"),
        "opacus hooks": opacus_in_memory(x, y, batch, "hooks"),
    }
    return {"default": alternately(default, drawn(batch), quick), "memory": alternately(memory, drawn(batch), quick)}


def with_opacus(net: nn.Module, x: torch.Tensor, y: torch.Tensor, batch: int, **how):
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


def opacus_default(x: torch.Tensor, y: torch.Tensor, batch: int):
    """Opacus as its documentation shows it: a loader with Poisson sampling; one step at each ``next``."""
    net, optimizer, loader = with_opacus(MLP[1](), x, y, batch)
    while True:
        for a, b in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(a), b).backward()
            optimizer.step()
            yield


def opacus_in_memory(x: torch.Tensor, y: torch.Tensor, batch: int, mode: str) -> Step:
    """The same without the loader, on batches out of memory."""
    criterion = nn.CrossEntropyLoss()
    how = {"criterion": criterion, "poisson_sampling": False, "grad_sample_mode": mode}
    net, optimizer, *made = with_opacus(MLP[1](), x, y, batch, **how)
    criterion = made[0] if mode == "ghost" else criterion
    buffer = torch.empty(2 * batch, x.shape[1])

    def step(rows: torch.Tensor) -> None:
        optimizer.zero_grad()
        criterion(net(torch.index_select(x, 0, rows, out=buffer[: len(rows)])), y[rows]).backward()
        optimizer.step()

    return step


def sampling_seconds(batch: int) -> float:
    rng = np.random.default_rng(3)
    return timed(lambda _: examples.poisson(N, batch / N, rng), [None] * 1000)


def tuned_seconds(quick: bool) -> dict:
    """``against_opacus`` in a process with a tuned allocator."""
    command = [sys.executable, "-m", __spec__.name, "--opacus-only", *(["--quick"] if quick else [])]
    done = subprocess.run(command, env={**os.environ, **TUNED}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(quick: bool) -> dict:
    rows = [*against_sgd(quick), shared_batches(quick)]
    plain, tuned = against_opacus(quick), tuned_seconds(quick)
    what = "784-128-10, B = 256"
    for label, seconds, least in ((what, plain, 40), (f"{what}, tuned malloc", tuned, 18)):
        ratio = seconds["default"]["opacus"] / seconds["default"]["dplib"]
        rows.append(row(label, "opacus default / dplib", ratio, seconds["default"], at_least=least))
    ghost = plain["memory"]["opacus ghost"] / plain["memory"]["dplib"]
    rows.append(row(f"{what}, in memory", "opacus ghost clipping / dplib", ghost, plain["memory"], at_least=2))
    sampled = {f"B = {batch}": sampling_seconds(batch) for batch in (256, 2048)}
    more = {"sampling_seconds": sampled, "records": N, "blocks": 6 if quick else BLOCKS}
    return report("dpsgd", rows, "torch", "opacus", "numpy", **more)


def main() -> None:
    words = parser("bench_dpsgd", __doc__)
    words.add_argument("--quick", action="store_true", help="6 blocks instead of 40")
    words.add_argument("--opacus-only", action="store_true", help="what it does in a process of its own")
    options = words.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    if options.opacus_only:
        with contextlib.redirect_stdout(sys.stderr):
            seconds = against_opacus(options.quick)
        print(json.dumps(seconds))
        return
    save(options.output, measure(options.quick))


if __name__ == "__main__":
    main()
