"""What does a DP-SGD step cost beside a plain SGD step, and beside Opacus?

    python -m tests.benchmarks.bench_dpsgd [--output book/results/bench_dpsgd.json] [--quick]

One process, one thread. Both sides run alternately, in blocks of steps on the same batches; a figure is the ratio of
the medians over the blocks. How near a step is to what the processor can do: its share of the time that the matrix
products of plain SGD alone would take at the rate of a large product. Data are random numbers: the time does not depend
on them.

The steps are those of :mod:`book.evidence.step_times`; images are channels-last. Drawing the batch is on neither
side, and is timed by itself. Opacus's default is timed with its loader, and so are our steps then with their sampling.
Opacus again in a process whose memory allocator keeps large blocks (glibc's MALLOC_ variables) instead of asking the
system for them at each step.
"""

import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from book.evidence.step_times import Step, dpsgd_step, opacus_step, records, settings, sgd_step, timed, with_opacus
from dplib import examples, logistic_grid, models
from tests.benchmarks.written import medians, parser, report, row, save

N, BLOCK_SECONDS, BLOCKS = 60_000, 0.06, 40
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**28)}

RESNET = ("ResNet-18 with GroupNorm, width 16", lambda: models.resnet18(10, 3, 16, models.group_norm), (3, 32, 32))
MLP = ("784-128-10", lambda: models.mlp([784, 128, 10]), (784,))
CASES = [  # network, batch size, DP-SGD step over SGD step at most
    (("logistic regression", lambda: models.mlp([784, 10]), (784,)), 256, 1.3),
    (MLP, 256, 1.5),
    (MLP, 2048, 1.2),
    (("784-2048-256-64-10", lambda: models.mlp([784, 2048, 256, 64, 10]), (784,)), 256, 1.6),
    (("784-2048-256-64-10", lambda: models.mlp([784, 2048, 256, 64, 10]), (784,)), 2048, 1.2),
    (("4-layer CNN", models.cnn4, (1, 28, 28)), 256, 2.0),
    (("4-layer CNN", models.cnn4, (1, 28, 28)), 2048, 1.8),
    (RESNET, 64, 1.7),
]
SIDE = 1024  # of the square matrices whose product shows what the processor does at its best


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
        a, b, c = torch.rand(3, SIDE, SIDE)
        sides["product"] = lambda _, a=a, b=b, c=c: torch.mm(a, b, out=c)
        seconds = alternately(sides, drawn(batch), quick)
        sgd = min(value for side, value in seconds.items() if side.startswith("sgd"))
        rows.append(row(f"{name}, B = {batch}", "dpsgd / sgd", seconds["dpsgd"] / sgd, seconds, at_most=limit))
        least = operations(build(), train, batch) * seconds["product"] / (2 * SIDE**3)
        rows.append(row(f"{name}, B = {batch}", "SGD's products at the best rate / dpsgd", least / seconds["dpsgd"]))
    return rows


def operations(net: torch.nn.Module, train: examples.Examples, batch: int) -> int:
    """Multiplications and additions of the matrix products and convolutions of a step of plain SGD."""
    x, y = train.batch(torch.arange(batch))
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(net(x), y).backward()
    return counter.get_total_flops()


def shared_batches(quick: bool, batch: int = 256, m: int = 32) -> dict:
    train = records((784,))
    private = [settings(batch / N, learning_rate=0.01 * (i + 1), max_grad_norm=1.0) for i in range(m)]
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
        "opacus ghost": opacus_step(MLP[1](), train, batch, "ghost"),
        "opacus hooks": opacus_step(MLP[1](), train, batch, "hooks"),
    }
    return {"default": alternately(default, drawn(batch), quick), "memory": alternately(memory, drawn(batch), quick)}


def opacus_default(x: torch.Tensor, y: torch.Tensor, batch: int):
    """Opacus as its documentation shows it: a loader with Poisson sampling; one step at each ``next``."""
    net, optimizer, loader = with_opacus(MLP[1](), x, y, batch)
    while True:
        for a, b in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(a), b).backward()
            optimizer.step()
            yield


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
