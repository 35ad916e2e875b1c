"""How much faster are errors drawn from sufficient statistics than from whole training sets?

    python -m tests.benchmarks.bench_gmm [--output book/results/bench_gmm.json]

Both sides run alternately in one process; the ratio is that of the median times for 10,000 replicates at p = 3,000 and
30 points a class. The long way is timed on fewer replicates and scaled: each of its replicates costs the same.
Its training sets are drawn noise included (one normal a number), which is the faster way to draw them.
"""

import numpy as np

from dplib import gmm
from tests.benchmarks.long_way import draw_the_long_way
from tests.benchmarks.written import medians, report, row, timed, write

P, N_PER_CLASS, REPLICATES, LONG_REPLICATES, ROUNDS = 3000, 30, 10_000, 200, 7


def measure(rounds: int = ROUNDS) -> dict:
    """Median seconds for REPLICATES of each side, their ratio, and both mean errors."""
    setting = gmm.two_classes(P, N_PER_CLASS, 2.0, 50, noise_sd=1.8)
    ways = {"sufficient": (gmm.draw, REPLICATES), "samples": (draw_the_long_way, LONG_REPLICATES)}
    seconds, errors = {name: [] for name in ways}, {name: [] for name in ways}
    gmm.draw(setting, 10, np.random.default_rng(0))  # the table is made once
    for seed in np.random.SeedSequence(1).spawn(rounds):
        for name, (way, replicates) in ways.items():
            took, draws = timed(way, setting, replicates, np.random.default_rng(seed))
            seconds[name].append(took * REPLICATES / replicates)
            errors[name].append(float(draws.errors().mean()))
    median = medians(seconds)
    what = f"private GMM, p = {P:,}, {N_PER_CLASS} a class, {REPLICATES:,} training sets"
    ratio = median["samples"] / median["sufficient"]
    line = row(what, "drawing samples / sufficient statistics", ratio, median, at_least=30)
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    return report("gmm", [line], "numpy", samples_timed_on=LONG_REPLICATES, mean_error=mean)


if __name__ == "__main__":
    write("bench_gmm", __doc__, measure)
