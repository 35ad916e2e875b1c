"""The exact privacy loss of Algorithm 4 on data sets small enough to enumerate: histogram and answers together.

One group of n records with K classes. What an attacker sees are the noisy counts, cut at zero, and the answer of every
record; normalising them is post-processing. A data set is the tuple of the n labels, and neighbours differ in one.

A count cut at zero is 0 with the whole mass of the noise below; otherwise its probability is that of one whole number.
Counts go on for ever, but at and above the largest true count, n, the probabilities under any two data sets keep one
ratio. So a table of the counts from 0 to n + 1 shows every ratio of counts there is; its rows need not sum to 1.
"""

from itertools import product

import numpy as np

from dplib.labels import priors, randomised_response


def log_pmf(z, parameter: float) -> np.ndarray:
    """ln P(z) of discrete Laplace noise: tanh(parameter / 2) e^(-parameter |z|)."""
    return np.log(np.tanh(parameter / 2)) - parameter * np.abs(np.asarray(z, dtype=float))


def log_cdf_below(z, parameter: float) -> np.ndarray:
    """ln P(Z <= z) for whole z: s^-z / (1 + s) for z < 0, with s = e^-parameter; 1 - s^(z + 1) / (1 + s) otherwise."""
    z = np.asarray(z, dtype=float)
    low = parameter * np.minimum(z, -1) - np.log1p(np.exp(-parameter))
    high = np.log1p(-np.exp(-parameter * (np.maximum(z, 0) + 1)) / (1 + np.exp(-parameter)))
    return np.where(z < 0, low, high)


def log_cut(counts, outputs, parameter: float) -> np.ndarray:
    """ln P(max(0, count + noise) = output) for whole numbers, broadcast; outputs >= 0."""
    counts, outputs = np.broadcast_arrays(np.asarray(counts), np.asarray(outputs))
    return np.where(outputs == 0, log_cdf_below(-counts, parameter), log_pmf(outputs - counts, parameter))


def joint_table(n: int, classes: int, epsilon: float, epsilon_p: float, parameter: float | None = None):
    """ln P(counts, answers | labels) of one group.

    Args:
        n: records. classes: K. epsilon: the whole budget. epsilon_p: the histogram's share.
        parameter: of the noise; epsilon_p / 2 in the paper.

    Returns:
        (table, labels): shape (K^n, outputs), and the labels of each row, shape (K^n, n). Outputs are all noisy counts
        from 0 to n + 1, each with all K^n answers.
    """
    parameter = epsilon_p / 2 if parameter is None else parameter
    labels = np.array(list(product(range(classes), repeat=n)))
    outputs = np.array(list(product(range(n + 2), repeat=classes)))
    counts = np.stack([(labels == k).sum(axis=1) for k in range(classes)], axis=1)
    histogram = log_cut(counts[:, None, :], outputs[None], parameter).sum(axis=2)  # (K^n, outputs)
    members = randomised_response.kept(priors.normalised(outputs), epsilon - epsilon_p)
    answers = randomised_response.log_table(members, epsilon - epsilon_p)  # (outputs, true label, answer)
    every = np.zeros((len(labels), len(outputs), 1))
    for record in range(n):
        one = answers[:, labels[:, record], :].transpose(1, 0, 2)  # (K^n, outputs, answer)
        every = (every[:, :, :, None] + one[:, :, None, :]).reshape(len(labels), len(outputs), -1)
    return (histogram[:, :, None] + every).reshape(len(labels), -1), labels


def loss(table, labels) -> float:
    """The exact epsilon: the largest log-ratio of an output between data sets that differ in one label."""
    worst = 0.0
    for i, j in product(range(len(labels)), repeat=2):
        if (labels[i] != labels[j]).sum() == 1:
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isneginf(table[i]), -np.inf, table[i] - table[j])
            worst = max(worst, float(ratio.max()))
    return worst
