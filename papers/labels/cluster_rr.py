"""ClusterRR (Esfandiari and others 2021), as we read it: labels redrawn from noisy counts of their cluster.

Inputs are public, and so are clusters of them. As in Algorithm 4 of paper C the labels of each cluster are counted,
with discrete Laplace noise for epsilon_p. A record's answer is its own label with probability 1 - lambda, and else a
label drawn from its cluster's noisy shares q, none of which is below a floor.

**Privacy.** Given the counts, an answer o has probability (1 - lambda) 1[o = y] + lambda q(o): for two labels the
ratio is at most 1 + (1 - lambda) / (lambda q(o)), which lambda = 1 / (1 + min q (e^eps - 1)) makes e^eps at the rarest
label. With the counts, which are paid for by epsilon_p, all is epsilon-DP for one replaced label; delta = 0.

We had neither that paper's text nor its program: this is its idea as we know it, with lambda as small as the budget
allows, and a floor that is fixed. Another reading may be more accurate.
"""

import numpy as np

from dplib import priors

FLOOR = 0.5  # of a label's share, as a part of 1 / K


def shares(noisy: np.ndarray) -> np.ndarray:
    """Shares of labels by noisy counts, (groups, K): cut at the floor, and normalised."""
    cut = np.maximum(priors.normalised(noisy), FLOOR / noisy.shape[1])
    return cut / cut.sum(axis=1, keepdims=True)


def redrawn(q: np.ndarray, epsilon: float) -> np.ndarray:
    """Probability that a label is drawn from the shares q (..., K) and is not the record's own, for epsilon."""
    return 1 / (1 + q.min(axis=-1) * np.expm1(epsilon))


def respond(
    labels: np.ndarray,
    group: np.ndarray,
    count: int,
    classes: int,
    epsilon: float,
    epsilon_p: float,
    rng: np.random.Generator | None,
) -> np.ndarray:
    """An answer for each record, shape (n,); epsilon in all, epsilon_p of it for the counts.

    rng: for experiments; its numbers of 53 bits are no source for a release.
    """
    noisy = priors.noisy_histograms(priors.histograms(labels, group, count, classes), epsilon_p, rng)
    q = shares(noisy)
    rng = np.random.default_rng() if rng is None else rng
    truthful = rng.random(len(labels)) >= redrawn(q, epsilon - epsilon_p)[group]
    drawn = (rng.random(len(labels))[:, None] > q.cumsum(axis=1)[group]).sum(axis=1)
    return np.where(truthful, labels, np.minimum(drawn, classes - 1))
