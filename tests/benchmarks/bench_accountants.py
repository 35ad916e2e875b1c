"""How much quicker, and how much tighter, is the default accountant than PRV?

    python -m tests.benchmarks.bench_accountants [--output book/results/bench_accountants.json]

The default is PLD (dp_accounting's, on a grid that we refine); PRV is Opacus's, within 1% of epsilon. For a grid of
settings: the processor time of an epsilon, how far apart its lower and upper bound are, and which upper bound is lower.
Both are of the same epsilon, so that their intervals must meet: where they do not, this ends with an error.
"""

import itertools
import os
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from dplib import accounting
from tests.benchmarks.written import report, row, write

GRID = list(itertools.product((0.8, 1.5, 4.0), (0.002, 0.01, 0.05), (300, 3000)))  # noise, sample rate, steps
DELTA = 1e-5
SIDES = ("prv", "pld")


def measure() -> dict:
    """Medians over the grid of PRV's seconds, widths and upper bounds over PLD's, and the longest time of each."""
    seconds, width, upper = ({name: np.empty(len(GRID)) for name in SIDES} for _ in range(3))
    with tempfile.TemporaryDirectory() as empty:
        os.environ["DPLIB_CACHE"] = empty  # nothing is taken from an earlier run
        for name in SIDES:
            accounting.epsilon(1.0, 0.1, 10, DELTA, name)  # imports done
        for i, phase in enumerate(GRID):
            values_ = {}
            for name in SIDES:
                begin = time.process_time()
                values_[name] = accounting.bounds([phase], DELTA, name)
                seconds[name][i] = time.process_time() - begin
                width[name][i], upper[name][i] = values_[name].high - values_[name].low, values_[name].high
            if max(value.low for value in values_.values()) > min(value.high for value in values_.values()):
                raise ValueError(f"the accountants contradict each other at {phase}: {values_}")
    about, of = f"median of {len(GRID)} settings", "PRV / PLD"
    whats = {
        f"processor time of an epsilon, {about}": seconds,
        f"from lower to upper bound of an epsilon, {about}": width,
        f"upper bound of an epsilon, {about}": upper,
    }
    rows = [row(what, of, float(np.median(of_side["prv"] / of_side["pld"]))) for what, of_side in whats.items()]
    longest = {name: float(seconds[name].max()) for name in SIDES}
    return report("accountants", rows, "numpy", "scipy", "opacus", "dp-accounting", longest_seconds=longest)


if __name__ == "__main__":
    write("bench_accountants", __doc__, measure)
