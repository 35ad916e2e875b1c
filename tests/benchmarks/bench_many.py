"""How many more steps a second do small models take side by side than one after another?

    python -m tests.benchmarks.bench_many [--output book/results/bench_many.json] [--quick]

One process, one thread. Both sides draw their batches and their noise; they run alternately, in blocks of steps, and a
figure is the median over blocks of the ratio of a step's time of one model by itself to its share of a step of many.
Times are the process's own on the processor, so that what else the machine does matters little. As many models run side
by side as ``dplib.many`` takes by itself. At last whole trainings with all that belongs to them, on digits.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from dplib import examples, many, models, sgd
from dplib.dpsgd import DPSGD, Data, Engine, train
from dplib.examples import Examples, cross_entropy
from dplib.steps import Stepper
from tests.benchmarks.written import parser, report, row, save

BLOCK_SECONDS, BLOCKS = 0.2, 20
CPU = torch.device("cpu")
CASES = [  # network, shape of an example, records, expected batch size, ratio at least where there is an aim
    ("64-32-10", lambda: models.mlp([64, 32, 10]), (64,), 1_200, 80, {"at_least": 4.6}),
    ("logistic regression, 784-10", lambda: models.mlp([784, 10]), (784,), 60_000, 256, {"at_least": 1.4}),
    ("784-128-10", lambda: models.mlp([784, 128, 10]), (784,), 60_000, 256, {}),
    ("4-layer CNN, 26,010 weights", models.cnn4, (1, 28, 28), 60_000, 512, {}),
]
TRAININGS, STEPS = 20, 60


def records(shape: tuple[int, ...], n: int) -> Examples:
    rng = np.random.default_rng(0)
    return Examples((rng.random((n, *shape), np.float32), rng.integers(10, size=n)), "train", CPU, torch.float32)


def built(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    net = sgd.seeded(build, seed)
    return net.to(memory_format=torch.channels_last) if isinstance(net[0], nn.Conv2d) else net


def alone(build: Callable[[], nn.Module], train_set: Examples, settings: DPSGD) -> Callable[[], object]:
    """A step of one model, as ``dpsgd.train`` takes it."""
    engine = Engine(built(build, 0), settings, train_set, generator=torch.Generator().manual_seed(0))
    sampler = examples.Sampler("poisson", train_set.n, settings.sample_rate, np.random.default_rng(0))
    return lambda: engine.step(torch.from_numpy(sampler.draw()))


def together(build: Callable[[], nn.Module], train_set: Examples, settings: DPSGD, m: int) -> Callable[[], object]:
    """A step of m models, as ``many.train`` takes it."""
    nets, rngs = [built(build, i) for i in range(m)], [np.random.default_rng(i) for i in range(m)]
    stacked, batches = many.prepared(nets, [settings] * m, [train_set] * m, rngs, cross_entropy, CPU)
    return Stepper(stacked, batches, settings.steps, stacked.move).next


def seconds(call: Callable[[], object], times: int) -> float:
    """Of the processor, for one of so many calls."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def alternately(
    one: Callable[[], object], all_of_them: Callable[[], object], m: int, blocks: int
) -> tuple[float, dict]:
    """The median ratio, and the median seconds of a model's step on each side."""
    times = []
    for call in (one, all_of_them):
        call()
        times.append(max(1, int(BLOCK_SECONDS / seconds(call, 2))))
    pairs = [(seconds(one, times[0]), seconds(all_of_them, times[1]) / m) for _ in range(blocks)]
    medians = dict(zip(("alone", "side by side"), map(statistics.median, zip(*pairs, strict=True)), strict=True))
    return statistics.median(a / b for a, b in pairs), medians


def of_steps(quick: bool) -> list[dict]:
    rows = []
    for name, build, shape, n, batch, aim in CASES:
        train_set = records(shape, n)
        settings = DPSGD(10**9, batch / n, 0.1, noise_multiplier=1.0, max_grad_norm=1.0)
        m = many.fitting(built(build, 0), train_set, batch)
        sides = alone(build, train_set, settings), together(build, train_set, settings, m)
        ratio, medians = alternately(*sides, m, 4 if quick else BLOCKS)
        what = f"{name}, B = {batch}, {m} side by side" if m > 1 else f"{name}, B = {batch}, which goes alone"
        rows.append(row(what, "steps a second, many / one", ratio, medians, **aim))
    return rows


def of_trainings(quick: bool) -> dict:
    """Whole trainings on digits: network, trial, steps and evaluation."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    data = Data((x[:1200], y[:1200]), test=(x[1200:], y[1200:]))
    settings = DPSGD(STEPS, 80 / 1200, 1.0, noise_multiplier=1.0, max_grad_norm=1.0)

    def nets() -> list[nn.Module]:
        return [sgd.seeded(CASES[0][1], i) for i in range(TRAININGS)]

    def rngs() -> list[np.random.Generator]:
        return [np.random.default_rng(i) for i in range(TRAININGS)]

    def one_by_one() -> None:
        for net, rng in zip(nets(), rngs(), strict=True):
            train(net, data, settings, rng, progress=False)

    def at_once() -> None:
        many.train(nets(), data, settings, rngs(), progress=False)

    ratio, medians = alternately(one_by_one, at_once, 1, 3 if quick else BLOCKS // 2)
    what = f"64-32-10, {TRAININGS} whole trainings of {STEPS} steps on digits"
    return row(what, "trainings a second, many / one", ratio, medians, at_least=5.7)


def main() -> None:
    words = parser("bench_many", __doc__)
    words.add_argument("--quick", action="store_true", help="4 blocks instead of 20")
    options = words.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [*of_steps(options.quick), of_trainings(options.quick)]
    save(options.output, report("many", rows, "torch", "numpy", blocks=4 if options.quick else BLOCKS))


if __name__ == "__main__":
    main()
