"""CFS-Greedy as an order of all features (paper B, Algorithm 3), for curves over the number of features.

The same algorithm as :func:`dplib.architecture.feature_search.cfs_greedy`, computed another way: sums are carried from
step to step. Merits are rounded before they are compared, so that ties (two levels of one attribute say the same) are
broken by position and not by the last digit of a sum, which differs between machines.
"""

from collections.abc import Sequence

import numpy as np

from dplib.architecture import feature_data

BINS = 100  # equal parts of [0, 1] into which a number falls: a year of age, 1,000 dollars of gain
DIGITS = 10  # to which merits are compared


def merit_orders(dataset: str, seeds: Sequence[int], largest: int | None = None) -> list[list[int]]:
    """CFS-Greedy on the training part of each split: the order in which columns are added; not private."""
    orders = []
    for seed in seeds:
        table = feature_data.load(dataset, seed)
        found = uncertainties(table.x_train, table.y_train)
        orders.append(greedy_merit(*found, min(largest or table.d, table.d)))
    return orders


def uncertainties(x: np.ndarray, y: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """Symmetrical uncertainty of each column with the label, (d,), and of all pairs of columns, (d, d), in [0, 1].

    2 (1 - H(a, b) / (H(a) + H(b))) with the entropies of the records at hand (Section VIII-B); 0 where both are
    constant. A column counts by the one of ``bins`` equal parts of [0, 1] in which its number lies.

    Args:
        x: shape (n, d), in [0, 1]. y: shape (n,), 0 or 1.
    """
    codes = np.column_stack([np.minimum((x * bins).astype(int), bins - 1), np.asarray(y).astype(int)])
    found = [np.unique(column, return_inverse=True)[1] for column in codes.T]
    starts = np.cumsum([0, *(which.max() + 1 for which in found)])
    ones = np.zeros((len(codes), starts[-1]))
    for which, start in zip(found, starts, strict=False):
        ones[np.arange(len(codes)), start + which] = 1
    share = ones.T @ ones / len(codes)  # the joint distribution of every pair of columns, as blocks
    terms = -share * np.log(np.where(share > 0, share, 1))
    joint = np.add.reduceat(np.add.reduceat(terms, starts[:-1], axis=0), starts[:-1], axis=1)
    total = np.diag(joint)[:, None] + np.diag(joint)
    both = np.where(total > 0, 2 * (1 - joint / np.where(total > 0, total, 1)), 0.0).clip(0, 1)
    return both[:-1, -1], both[:-1, :-1]


def greedy_merit(to_label: np.ndarray, among: np.ndarray, size: int) -> list[int]:
    """``size`` times, add the feature that gives the largest merit; of equal merits the first.

    merit(S) = sum of correlations with the label / sqrt(k + 2 * sum of correlations over pairs), which is equation (7)
    with its means written out.

    Args:
        to_label: shape (d,). among: shape (d, d), symmetric.
    """
    chosen, gain, pairs = [], 0.0, 0.0
    with_chosen = np.zeros(len(to_label))  # sum of each feature's correlations with those chosen
    left = np.ones(len(to_label), dtype=bool)
    for k in range(1, size + 1):
        merit = (gain + to_label) / np.sqrt(k + 2 * (pairs + with_chosen))
        best = int(np.where(left, merit.round(DIGITS), -np.inf).argmax())
        chosen.append(best)
        left[best] = False
        gain, pairs = gain + to_label[best], pairs + with_chosen[best]
        with_chosen = with_chosen + among[best]
    return chosen
