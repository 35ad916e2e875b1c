"""What five seeds can see: the table of book/seeds.md, from the kept runs of chapters 0, 4 and 11."""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from dplib import plans, stats
from dplib.architecture import crossover_study

SEEN = 0.1  # points of accuracy: the difference whose seeds are counted


def comparisons() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, and test accuracies in % of two methods on the same seeds, of shape (seeds,) each."""
    halves = plans.load("00", "published").read("curves")
    whole, tenth = (crossover_study.accuracies(halves[name][1.0]) for name in ("all records", "a tenth of them"))
    yield "MNIST, ε = 1: 60,000 records, 6,000 (chapter 0)", whole, tenth
    pair = plans.load("04", "published").read("mnist")
    for epsilon in (1.09, 2.11):
        both = (crossover_study.accuracies(cells[epsilon]) for cells in pair.values())
        yield f"MNIST, ε = {epsilon}: small CNN, large CNN (chapter 4)", *both
    for data, arms in plans.load("11", "published").read("table_1").items():
        accuracy = {arm: 100 * np.array([run["accuracy"] for run in runs]) for arm, runs in arms.items()}
        for arm, name in {"ours": "annealed", "dpsgd_auto_s": "AUTO-S", "dpsgd": "ReLU"}.items():
            title = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}[data]
            yield f"{title}, ε = 3: {name}, tanh (chapter 11)", accuracy[arm], accuracy["dpsgd_tanh"]


def needed(spread: float, difference: float = SEEN) -> int:
    """The fewest seeds that find ``difference`` with 80% power where paired differences have this ``spread``."""
    return 2 + bisect_left(range(2, 10_000), -difference, key=lambda n: -spread * stats.visible_difference(n))


def markdown() -> str:
    """One row a comparison: spreads of single runs and of paired differences, and what as many seeds can see."""
    head = "| comparison | one run | pair | sees | equal within | seeds for 0.1 |\n|---|---|---:|---:|---:|---:|\n"
    lines = []
    for name, a, b in comparisons():
        spread, n = np.std(a - b, ddof=1), len(a)
        sees, margin = spread * stats.visible_difference(n), spread * stats.provable_margin(n)
        alone = f"{np.std(a, ddof=1):.2f}, {np.std(b, ddof=1):.2f}"
        lines.append(f"| {name} | {alone} | {spread:.2f} | {sees:.2f} | {margin:.2f} | {needed(spread)} |")
    return head + "\n".join(lines) + "\n"
