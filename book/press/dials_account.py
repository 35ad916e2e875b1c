"""What a training spends, by noise, sample rate and steps: the table behind a dial of chapter 0.

An accountant takes a second and no page can run one, so that the dial turns over a table that is kept beside this file.
``python -m book.press.dials_account`` makes it again, in ten minutes; a test compares cells of it with the accountant.
"""

import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from dplib import accounting

TABLE = Path(__file__).with_name("dials_account.json")
DELTA = 1e-5
NOISES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
SHAPE = (len(RATES), len(NOISES), len(STEPS))
DIGITS = 4  # significant ones


def cells() -> Iterator[tuple[float, float, int]]:
    """(sample rate, noise multiplier, steps) in the table's order."""
    return product(RATES, NOISES, STEPS)


def spent(rate: float, noise: float, steps: int) -> float:
    """Epsilon of a cell, by the accountant, with the table's digits."""
    return float(f"{accounting.epsilon(noise, rate, steps, DELTA, 'pld'):.{DIGITS}g}")


@cache
def table() -> np.ndarray:
    """Epsilon by sample rate, noise multiplier and steps, of :data:`SHAPE`."""
    return np.array(json.loads(TABLE.read_text(encoding="utf-8"))).reshape(SHAPE)


def main() -> None:
    """Compute the table and write it, a line for each sample rate and noise multiplier."""
    values = np.array([spent(*cell) for cell in cells()]).reshape(-1, SHAPE[-1])
    lines = ",\n".join(json.dumps(row) for row in values.tolist())
    TABLE.write_text(f"[{lines}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
