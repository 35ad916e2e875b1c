"""How much faster is RRWithPrior on a whole data set than Algorithms 1 and 2 as printed, record by record?

    python -m tests.benchmarks.bench_rr [--output book/results/bench_rr.json]

50,000 records of 100 classes, epsilon = 2; half of the priors are peaked (Dirichlet, 0.05), half are flat (1). Both
sides run alternately in one process and one thread. The loop over records (in NumPy: for each k the set Y_k, its total,
w_k; then a draw from RRTop-k's table row) is timed on 500 records in each round, others each time, and scaled.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from dplib import randomised_response
from tests.benchmarks.written import medians, report, row, timed, write

RECORDS, CLASSES, EPSILON, PART, ROUNDS = 50_000, 100, 2.0, 500, 21
LEAST = 100  # times as fast


def data_set() -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from priors of shape (RECORDS, CLASSES)."""
    rng = np.random.default_rng(0)
    prior = np.concatenate([rng.dirichlet(np.full(CLASSES, a), RECORDS // 2) for a in (0.05, 1.0)])
    prior = prior[rng.permutation(RECORDS)]
    labels = (np.cumsum(prior, axis=1) > rng.random((RECORDS, 1))).argmax(axis=1)
    return labels, prior


def printed(label: int, prior: np.ndarray, rng: np.random.Generator) -> int:
    """Algorithm 2 step by step, then Algorithm 1."""
    classes, factor = len(prior), np.exp(EPSILON)
    order = np.argsort(-prior, kind="stable")
    w = [factor / (factor + k - 1) * prior[order[:k]].sum() for k in range(1, classes + 1)]
    k = int(np.argmax(w)) + 1
    chosen = order[:k]
    if label not in chosen:
        return int(rng.choice(chosen))
    return int(rng.choice(chosen, p=np.where(chosen == label, factor, 1.0) / (factor + k - 1)))


def measure() -> dict:
    """Median seconds for the whole data set of each side, and how often each returns the true label."""
    labels, prior = data_set()
    rng = np.random.default_rng(1)
    seconds, correct = ({name: [] for name in ("dplib", "record by record")} for _ in range(2))
    randomised_response.rr_with_prior(labels, prior, EPSILON, rng)
    for number in range(ROUNDS):
        took, response = timed(randomised_response.rr_with_prior, labels, prior, EPSILON, rng)
        seconds["dplib"].append(took)
        correct["dplib"].append(float((response.labels == labels).mean()))
        part = range(number * PART, (number + 1) * PART)
        took, drawn = timed(lambda part=part: [printed(int(labels[i]), prior[i], rng) for i in part])
        seconds["record by record"].append(took * RECORDS / PART)
        correct["record by record"].append(float((np.array(drawn) == labels[part.start : part.stop]).mean()))
    median = medians(seconds)
    what = f"RRWithPrior, {RECORDS:,} records of {CLASSES} classes"
    ratio_of = "Algorithms 1 and 2 as printed, record by record / dplib, at once"
    line = row(what, ratio_of, median["record by record"] / median["dplib"], median, at_least=LEAST)
    expected = float(randomised_response.success(prior, EPSILON).max(axis=1).mean())
    returned = {name: float(np.mean(values)) for name, values in correct.items()}
    return report("rr", [line], "numpy", true_labels_returned=returned, true_labels_expected=expected, blocks=ROUNDS)


if __name__ == "__main__":
    write("bench_rr", __doc__, measure)
