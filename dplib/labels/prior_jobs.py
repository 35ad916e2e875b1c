"""Figure 2 of the paper: how often a cluster's most frequent noisy label is right; and what is left for the answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dplib.labels import priors as label_priors
from dplib.labels import randomised_response
from dplib.labels.prior_tasks import task


def votes(
    *,
    dataset: str,
    maps: int,
    dimensions: int,
    group_count: int,
    group_dimensions: int,
    epsilons: Sequence[float],
    totals: Sequence[float],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Accuracy of the vote on test data, over the budget of the histograms, for one clustering.

    As in the paper (Appendix B): clusters are made from training and test features together, histograms from the
    training labels alone.

    Args:
        dataset, maps, dimensions: the task. group_count, group_dimensions: clusters, from so many components.
        epsilons: budgets > 0 of the histograms. totals: whole budgets, of which they are a share.
        draws: of the noise, whose results are averaged. seed: of all.

    Returns:
        "accuracy": one for each budget; "exact": without noise; "smallest": records of the smallest cluster.
        "right": for each whole budget a list, for each share of it the probability that RRWithPrior's answer is the
        true label of a random training record, exact but for the noise of the histograms; None where the share exceeds
        the whole. "plain": the same for randomised response without a prior, one for each whole budget.
    """
    problem = task(dataset, "learned", maps, dimensions)
    n = len(problem.y_train)
    both = np.concatenate(problem.for_groups(group_dimensions))
    group = label_priors.groups(both, group_count, seed)
    counts = label_priors.histograms(problem.y_train, group[:n], group_count, problem.classes)
    tested = label_priors.histograms(problem.y_test, group[n:], group_count, problem.classes)
    rng = np.random.default_rng([seed, 2])

    def accuracy(noisy: np.ndarray) -> float:
        return float(tested[np.arange(group_count), label_priors.vote(noisy)].sum() / len(problem.y_test))

    votes_right = np.zeros(len(epsilons))
    right = np.zeros((len(totals), len(epsilons)))
    for i, epsilon in enumerate(epsilons):
        for _ in range(draws):
            noisy = label_priors.noisy_histograms(counts, epsilon, rng)
            votes_right[i] += accuracy(noisy) / draws
            priors = label_priors.normalised(noisy)
            for j, total in enumerate(totals):
                if total >= epsilon:
                    right[j, i] += _right(counts, priors, total - epsilon) / draws
    classes = problem.classes
    return {
        "accuracy": votes_right.tolist(),
        "exact": accuracy(counts),
        "smallest": int(counts.sum(axis=1).min()),
        "right": [
            [float(value) if epsilon <= total else None for value, epsilon in zip(row, epsilons, strict=True)]
            for row, total in zip(right, totals, strict=True)
        ],
        "plain": [float(1 / (1 + (classes - 1) * np.exp(-total))) for total in totals],
    }


def _right(counts: np.ndarray, priors: np.ndarray, epsilon: float) -> float:
    """How often RRWithPrior returns the true label, for records of true counts (groups, K) with these priors."""
    tables = randomised_response.log_table(randomised_response.kept(priors, epsilon), epsilon)
    own = np.exp(np.diagonal(tables, axis1=1, axis2=2))
    return float((counts * own).sum() / counts.sum())
