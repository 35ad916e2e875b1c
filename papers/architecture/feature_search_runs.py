"""How a private selection of features compares with CFS-Greedy without noise, and how redundant is what CFS chooses:
experiments, a run a split."""

import numpy as np

from book.evidence import runs
from papers.architecture import feature_data, feature_scores, feature_search
from papers.architecture.feature_search import Genetic, subset


@runs.experiment(
    "feature_private_cfs", version=1, data=("dataset",),
    probe={"dataset": "synthetic-recurrence", "seed": 0, "unit": "attributes", "how": "tables", "epsilon": 10.0},
)  # fmt: skip
def agreement(*, dataset: str, seed: int, unit: str, how: str, epsilon: float, repeats: int = 10) -> runs.Result:
    """How a private selection compares with CFS-Greedy without noise, on the split of the seed.

    Returns:
        Means over the draws. first: is the first feature the true one; jaccard: overlap of the chosen columns; merit:
        true merit of the choice over CFS-Greedy's; error: mean absolute error of the uncertainty with the label; size.
    """
    table = feature_data.load(dataset, seed)
    counts = feature_search.counted(table, unit)
    relevance, redundancy = feature_scores.relevance_and_redundancy(counts)
    m = len(relevance)
    true = feature_search.cfs_greedy(relevance, redundancy)
    best = float(feature_scores.merit(feature_search.subset(true, m), relevance, redundancy)[0])
    rng = np.random.default_rng([0, seed, 5])
    rows = []
    for _ in range(repeats):
        noisy = feature_scores.split_label(
            feature_scores.uncertainty(feature_search.release(how)(counts, epsilon, rng))
        )
        chosen = feature_search.cfs_greedy(*noisy)
        both = len(set(chosen) & set(true)) / len(set(chosen) | set(true))
        worth = feature_scores.merit(feature_search.subset(chosen, m), relevance, redundancy)[0] / best
        rows.append([chosen[0] == true[0], both, worth, np.abs(noisy[0] - relevance).mean(), len(chosen)])
    names = ("first", "jaccard", "merit", "error", "size")
    means = np.mean(np.array(rows, dtype=float), axis=0)
    return {name: runs.to_figures(mean, 10) for name, mean in zip(names, means, strict=True)}


@runs.experiment(
    "feature_redundancy", version=1, data=("dataset",),
    probe={"dataset": "synthetic-recurrence", "seed": 0, "population": 20, "generations": 2},
)  # fmt: skip
def redundancy(*, dataset: str, seed: int, population: int = 5000, generations: int = 10) -> runs.Result:
    """How redundant CFS's subsets are beside as many features, the most relevant each by itself, on the seed's split.

    CFS-GA's is that of Table X (k = population, l = generations), and CFS-Greedy takes its size, as there: the most
    relevant features are as many as both have. Of equal relevances the first, as in CFS-Greedy.

    Returns "size", and "redundancy" of "CFS-Greedy", "CFS-GA", "relevant": symmetrical uncertainty, mean over pairs.
    """
    table = feature_data.load(dataset, seed)
    relevance, among = feature_scores.relevance_and_redundancy(feature_search.counted(table, "columns"))
    settings, rng = Genetic(population, generations, 0.2), np.random.default_rng([0, seed, 4])
    found = feature_search.cfs_ga(relevance, among, settings, rng).best
    size = int(found.sum())
    ranked = np.argsort(-np.round(relevance, feature_search.DIGITS), kind="stable")
    chosen = {
        "CFS-Greedy": subset(feature_search.cfs_greedy(relevance, among, size), table.d),
        "CFS-GA": found,
        "relevant": subset(ranked[:size], table.d),
    }
    apart = np.where(np.eye(table.d, dtype=bool), 0.0, among)
    pairs = max(size * (size - 1), 1)
    return {
        "size": size,
        "redundancy": {name: runs.to_figures(S @ apart @ S / pairs, 10) for name, S in chosen.items()},
    }
