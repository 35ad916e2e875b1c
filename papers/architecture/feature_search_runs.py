"""How a private selection of features compares with CFS-Greedy without noise: an experiment, a run a split."""

import numpy as np

from book.evidence import runs
from papers.architecture import feature_data, feature_scores, feature_search


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
