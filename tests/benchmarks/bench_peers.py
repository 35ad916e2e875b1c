"""How long does a DP-SGD step take in other libraries, beside ours?

    PEERS=python python -m tests.benchmarks.bench_peers [--output book/results/bench_peers.json] [--quick]

All sides on one core, in turn, in blocks of steps, records in memory; a figure is the ratio of the medians over the
blocks. Ours and Opacus's batches are drawn, of B records on average, where JAX has B each time: another size would have
it compile anew. JAX is a process of its own; PEERS names the Python of an environment that has jax-privacy, which
``make bench`` makes.
"""

import contextlib
import json
import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from book.evidence.step_times import Step, dpsgd_step, opacus_step, records, timed
from dplib import models
from tests.benchmarks.bench_dpsgd import RESNET, N, drawn
from tests.benchmarks.written import medians, parser, report, row, save

BLOCK_SECONDS, BLOCKS = 0.1, 15
SCRIPT = Path(__file__).with_name("jax_steps.py")
PIECES = ("1", "4")  # records at a time with which jax-privacy is quickest here
DENSE = ("by hand", *PIECES)
WIDE = [784, 2048, 256, 64, 10]
CASES = [  # name, network, shape, batch size, whether Opacus's hooks have room, the network and sides of JAX
    ("logistic regression", lambda: models.mlp([784, 10]), (784,), 256, True, "784-10", DENSE),
    ("784-128-10", lambda: models.mlp([784, 128, 10]), (784,), 256, True, "784-128-10", (*DENSE, "all")),
    ("784-128-10", lambda: models.mlp([784, 128, 10]), (784,), 2048, True, "784-128-10", DENSE),
    ("784-2048-256-64-10", lambda: models.mlp(WIDE), (784,), 256, False, "784-2048-256-64-10", DENSE),
    ("4-layer CNN", models.cnn4, (1, 28, 28), 512, True, "cnn4", PIECES),
    (*RESNET, 64, True, "", ()),
]
Block = Callable[[int], float]  # seconds of a step, of so many


def here(step: Step, batch: int) -> Block:
    """Blocks of a step of this process."""
    batches = drawn(batch)
    return lambda steps: timed(step, batches()[:steps])


def local(build: Callable[[], torch.nn.Module], shape: tuple[int, ...], batch: int, hooks: bool) -> dict[str, Block]:
    """Ours and Opacus's."""
    train = records(shape)
    ours = build().to(memory_format=torch.channels_last) if train.is_image else build()
    sides = {"dplib": dpsgd_step(ours, train, batch)}
    sides["Opacus's ghost clipping"] = opacus_step(build(), train, batch, "ghost")
    if hooks:
        sides["Opacus's hooks"] = opacus_step(build(), train, batch, "hooks")
    return {name: here(step, batch) for name, step in sides.items()}


@contextlib.contextmanager
def answering(python: str) -> Iterator[tuple[Callable[..., float], dict[str, str]]]:
    """What asks the process with JAX for a block, and its versions; ends this one where it does not answer."""
    try:
        process = subprocess.Popen([python, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SystemExit(f"PEERS = {python} cannot be started: {error.strerror}. make bench makes it.") from None

    def answer() -> str:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"PEERS = {python} has no jax-privacy, or ended: see above. make bench makes it.")
        return line

    def ask(**block: object) -> float:
        print(json.dumps(block), file=process.stdin, flush=True)
        return float(answer())

    with process:
        yield ask, json.loads(answer())


def in_turn(sides: dict[str, Block], blocks: int) -> dict[str, float]:
    """Median seconds of a step of each side, over blocks, one after another."""
    sizes = {}
    for name, block in sides.items():
        block(3)  # JAX compiles
        sizes[name] = max(1, min(100, int(BLOCK_SECONDS / block(2))))
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for i in range(blocks):
        for name in list(sides) if i % 2 else reversed(list(sides)):
            seconds[name].append(sides[name](sizes[name]))
    return medians(seconds)


def measure(python: str, quick: bool) -> dict:
    """The rows."""
    rows = []
    with answering(python) as (ask, versions):
        for name, build, shape, batch, hooks, network, ways in CASES:
            sides = local(build, shape, batch, hooks)
            for way in ways:
                sides[way] = lambda steps, way=way, network=network, batch=batch: ask(
                    network=network, batch=batch, side=way, steps=steps
                )
            seconds = in_turn(sides, 4 if quick else BLOCKS)
            peers = {side: seconds[side] for side in seconds if side.startswith("Opacus")}
            if ways:
                peers["jax-privacy in its quickest pieces"] = min(seconds[piece] for piece in PIECES)
            named = {"all": "jax-privacy as it is", "by hand": "JAX by hand"}
            peers |= {named[way]: seconds[way] for way in ways if way in named}
            what = f"{name}, B = {batch}, one core"
            rows += [row(what, f"{peer} / dplib", value / seconds["dplib"], seconds) for peer, value in peers.items()]
    made = report("peers", rows, "torch", "opacus", "numpy", records=N, blocks=4 if quick else BLOCKS)
    made["versions"] |= versions
    return made


def main() -> None:
    words = parser("bench_peers", __doc__)
    words.add_argument("--quick", action="store_true", help="4 blocks instead of 15")
    options = words.parse_args()
    if "PEERS" not in os.environ:
        words.error("PEERS has to name the Python of an environment that has jax-privacy: make bench makes one.")
    if hasattr(os, "sched_setaffinity"):  # JAX has no other way to have it compute on one core
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    save(options.output, measure(os.environ["PEERS"], options.quick))


if __name__ == "__main__":
    main()
