"""How much faster is RRWithPrior on a whole data set than record by record?

    python tests/benchmarks/bench_rr.py [--output book/results/bench_rr.json]

50,000 records of 100 classes, epsilon = 2; half of the priors are peaked (Dirichlet, 0.05), half are flat (1). All
sides run alternately in one process and one thread. A loop over records is timed on 500 records in each round, others
each time, and scaled. Three loops:

- Algorithms 1 and 2 as printed, in NumPy: for each k the set Y_k, its total, w_k; then a draw from RRTop-k's table row;
- the fastest that we could write: one sort, running sums, a draw without a table. Its ratio is published without a
  limit. No limit can be argued for: sorting all priors at once, which any program of this kind must do, takes a fixed
  share of the loop's time, and ``ratio_if_all_were_sorting`` says what the ratio would be if nothing came on top;
- dplib's own function, called with one record at a time: it mostly pays for calls.
"""

import math
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from written import medians, report, row, timed, write

from dplib.labels import randomised_response

RECORDS, CLASSES, EPSILON, PART, ROUNDS = 50_000, 100, 2.0, 500, 21
ROWS = {  # loop: what it is, and how many times as fast we want to be, where we set ourselves a limit
    "printed": ("Algorithms 1 and 2 as printed, record by record / dplib, at once", 100),
    "running_sums": ("one sort and running sums, record by record / dplib, at once", None),
}


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


def running_sums(label: int, prior: np.ndarray, rng: np.random.Generator) -> int:
    """The same with one sort, running sums and two uniform numbers."""
    order = (-prior).argsort()
    k = int((prior[order].cumsum() * WEIGHTS).argmax()) + 1
    place = (order[:k] == label).nonzero()[0]
    if not len(place):
        return int(order[int(rng.random() * k)])
    if rng.random() * (FACTOR + k - 1) < FACTOR:
        return label
    drawn = int(rng.random() * (k - 1))
    return int(order[drawn + (drawn >= place[0])])


def one_at_a_time(label: int, prior: np.ndarray, rng: np.random.Generator) -> int:
    return int(randomised_response.rr_with_prior(np.array([label]), prior[None], EPSILON, rng).labels[0])


FACTOR = math.exp(EPSILON)
WEIGHTS = FACTOR / (FACTOR + np.arange(CLASSES))
LOOPS = {"printed": printed, "running_sums": running_sums, "one_at_a_time": one_at_a_time}


def measure() -> dict:
    """Median seconds for the whole data set of each side, and how often each returns the true label."""
    labels, prior = data_set()
    rng = np.random.default_rng(1)
    seconds = {name: [] for name in ("dplib", "sorting", *LOOPS)}
    correct = {name: [] for name in ("dplib", *LOOPS)}
    randomised_response.rr_with_prior(labels, prior, EPSILON, rng)
    for round_number in range(ROUNDS):
        took, response = timed(randomised_response.rr_with_prior, labels, prior, EPSILON, rng)
        seconds["dplib"].append(took)
        correct["dplib"].append(float((response.labels == labels).mean()))
        seconds["sorting"].append(timed(lambda: np.sort(prior, axis=1))[0])
        part = range(round_number * PART, (round_number + 1) * PART)
        for name, loop in LOOPS.items():
            took, drawn = timed(lambda loop=loop, part=part: [loop(int(labels[i]), prior[i], rng) for i in part])
            seconds[name].append(took * RECORDS / PART)
            correct[name].append(float((np.array(drawn) == labels[part.start : part.stop]).mean()))
    median, rows = medians(seconds), []
    for name, (ratio_of, least) in ROWS.items():
        limit = {"at_least": least} if least else {}
        both = {"record by record": median[name], "dplib": median["dplib"]}
        what = f"RRWithPrior, {RECORDS:,} records of {CLASSES} classes"
        rows.append(row(what, ratio_of, median[name] / median["dplib"], both, **limit))
    return report(
        "rr", rows, "numpy",
        ratio_if_all_were_sorting=median["running_sums"] / median["sorting"],
        ratio_to_dplib_one_at_a_time=median["one_at_a_time"] / median["dplib"],
        true_labels_returned={name: float(np.mean(values)) for name, values in correct.items()},
        true_labels_expected=float(randomised_response.success(prior, EPSILON).max(axis=1).mean()),
        blocks=ROUNDS,
    )  # fmt: skip


if __name__ == "__main__":
    write("bench_rr", __doc__, measure)
