"""How much faster are 1,000 RDP calibrations at once than Opacus's one by one?

    python -m tests.benchmarks.bench_accounting [--output book/results/bench_accounting.json]

Both sides run alternately in one process and one thread: the noise multipliers for random targets, sample rates and
numbers of steps. Opacus (get_noise_multiplier, accountant "rdp") is timed on every 25th setting in each round and
scaled, since a round of all would take minutes; other settings each round, so that five rounds see 200 of them. Ours
finds all 1,000, over Opacus's orders, to a relative 1e-6 of the noise; Opacus stops within 0.01 of the target epsilon.
"""

import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from opacus.accountants.utils import get_noise_multiplier

from dplib import rdp
from tests.benchmarks.written import medians, report, row, timed, write

SETTINGS, EVERY, ROUNDS, DELTA, LEAST = 1000, 25, 5, 1e-5, 300


def random_settings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets in [0.3, 10], sample rates in [0.001, 0.1], steps in [100, 10,000], log-uniform; each (1000,)."""
    rng = np.random.default_rng(1)
    ends = ((0.3, 10), (1e-3, 0.1), (100, 10_000))
    target, q, steps = (np.exp(rng.uniform(np.log(a), np.log(b), SETTINGS)) for a, b in ends)
    return target, q, steps.astype(int)


def opacus_one_by_one(target: np.ndarray, q: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Opacus's noise multipliers, one call each."""
    with warnings.catch_warnings(action="ignore"):  # that the best order is the last one
        return np.array(
            [
                get_noise_multiplier(
                    target_epsilon=t, target_delta=DELTA, sample_rate=r, steps=int(s), accountant="rdp"
                )
                for t, r, s in zip(target, q, steps, strict=True)
            ]
        )


def ours(target: np.ndarray, q: np.ndarray, steps: np.ndarray) -> np.ndarray:
    return rdp.noise_multiplier(target, q, steps, DELTA, orders=rdp.OPACUS_ORDERS)


def measure(rounds: int = ROUNDS) -> dict:
    """Median seconds for all settings of each side, their ratio, and how far the answers are apart."""
    settings = target, q, steps = random_settings()
    ours(target[:10], q[:10], steps[:10])  # imports done
    seconds, more = {"opacus": [], "dplib": []}, []
    for round_number in range(rounds):
        took, noise = timed(ours, *settings)
        seconds["dplib"].append(took)
        part = slice(round_number, None, EVERY)
        took, reference = timed(opacus_one_by_one, *(values[part] for values in settings))
        seconds["opacus"].append(took * SETTINGS / len(reference))
        more.extend(reference / noise[part] - 1)
    spent = rdp.epsilon(noise, q, steps, DELTA, orders=rdp.OPACUS_ORDERS) / target
    median = medians(seconds)
    ratio = median["opacus"] / median["dplib"]
    line = row("1,000 RDP calibrations", "Opacus, one by one / dplib, at once", ratio, median, at_least=LEAST)
    apart = {"epsilon_over_target": float(spent.max()), "opacus_more_noise": float(np.mean(more))}
    return report("accounting", [line], "numpy", "scipy", "opacus", blocks=rounds, **apart)


if __name__ == "__main__":
    write("bench_accounting", __doc__, measure)
