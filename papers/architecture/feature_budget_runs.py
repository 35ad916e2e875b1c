"""Feature selection and training for one total budget, every record's look at the data paid for (pure epsilon).

Neighbours replace one record of the training part; labels and features of all of them are private, their number, the
columns, and which ``held`` records are set aside are not. The variant of objective perturbation is "sound". Each method
releases one model, and the release costs epsilon in all:

- "all", "random", "one random": one training on all records. A random subset, or one random column, looks at no
  record.
- "cfs columns", "cfs attributes", "tables attributes": noisy entropies (:mod:`papers.architecture.feature_scores`) of
  all training records with ``share`` of epsilon, CFS-Greedy on them, then one training with the rest: basic
  composition.
- "one named": one training on the columns of the attribute :data:`NAMED`, for what it means: severity of the tumour,
  years of school. "constant": always the class that is known to be the more frequent, and no training.
- "label tables": Laplace noise of 2 a/(share epsilon) on every cell of the tables of each of the a attributes with the
  label (a record is in one cell of each), then one training on the columns of the attribute of the largest uncertainty.
- "pafs": Algorithm 4 with at most c = k (l + 1) trainings, a number fixed in advance. Models are trained on the
  records T that are not held, with epsilon/c each. The fitness is the accuracy on the held records V plus Laplace
  noise of scale c / (|V| epsilon). A changed record is in T or in V. In T: c adaptive epsilon/c-DP releases, and
  fitness values depend on T through the models only. In V: the models do not depend on it, and c accuracies of
  sensitivity 1/|V| are released. Either way epsilon (parallel composition). The winner's model is among the releases,
  so it is published as it is.
- "search": random search with a random number of candidates (Liu and Talwar 2019; Papernot and Steinke 2022, shape
  1). One candidate: a random subset, its model on T with epsilon/3, its accuracy on V plus Laplace noise of scale 3 /
  (|V| epsilon). By the argument above, this triple is epsilon/3-DP, so the best one of a geometric number of them is
  epsilon-DP. The number depends on nothing and is not published; the winner's own model is. A subset that is drawn
  again is trained again.

Random subsets have a size that is log-uniform from 1 to m: smaller ones than half of m, as noise grows with the size.
Not covered, as everywhere: levels and ranges, C = 1, the choice of a method after reading such a comparison.
"""

import numpy as np

from book.evidence import runs
from dplib.checks import one_of, positive
from papers.architecture import feature_data, feature_search
from papers.architecture.feature_search import Genetic, genetic, random_subset
from papers.architecture.feature_training_runs import fitted

METHODS = (
    *("all", "random", "one random", "cfs columns", "cfs attributes", "tables attributes", "label tables", "pafs"),
    "search",
)
UNPAID = ("cfs columns, unpaid", "cfs attributes, unpaid")  # for comparison: the selection without noise, not counted
NAMED = {"breast-cancer": "deg-malig", "adult": "education-num"}
BEFOREHAND = ("one named", "constant")
EVERY = (*METHODS, *UNPAID, *BEFOREHAND)  # in the order of their streams of random numbers
PUBLISHED = 3.0  # epsilon of the best of a geometric number of runs over that of one run


@runs.experiment(
    "feature_budget", version=1, data=("dataset",),
    probe={"dataset": "synthetic-recurrence", "seed": 0, "method": "search", "epsilon": 5.0, "repeats": 3},
)  # fmt: skip
def released(
    *,
    dataset: str,
    seed: int,
    method: str,
    epsilon: float,
    repeats: int,
    held: int = 60,
    share: float = 0.5,
    candidates: float = 10.0,
    population: int = 4,
    generations: int = 2,
) -> runs.Result:
    """Mean test accuracy of the model that a method releases, over ``repeats`` runs of all of it.

    Args:
        dataset, seed, held: of :func:`papers.architecture.feature_data.load`; ``held`` for "pafs" and "search" only.
        method: of :data:`EVERY`. epsilon: the total; ``share`` of it goes to the selection of CFS.
        candidates: mean of the geometric number of "search". population, generations: k and l of "pafs".

    Returns percent, its accuracy; size, mean number of columns; trained, mean number of models.
    """
    one_of(*EVERY).check("method", method)
    positive().check("epsilon", epsilon)
    rng = np.random.default_rng([0, seed, EVERY.index(method)])
    if method == "constant":
        return {"percent": 100 * feature_data.load(dataset, seed).constant(), "size": 0.0, "trained": 0.0}
    if method in ("pafs", "search"):
        table = feature_data.load(dataset, seed, held)
        if method == "pafs":
            rows = [_pafs(table, epsilon, Genetic(population, generations), rng) for _ in range(repeats)]
        else:
            rows = _search(table, epsilon, candidates, repeats, rng)
        accuracy, size, trained = np.array(rows, dtype=float).T
    else:
        table = feature_data.load(dataset, seed)
        masks, left = _single(table, method, epsilon, share, repeats, rng)
        accuracy = fitted(table, masks, left, "sound", rng).accuracy(table.x_test, table.y_test)
        size, trained = masks.sum(axis=1), np.ones(repeats)
    return {
        "percent": round(100 * float(accuracy.mean()), 6),
        "size": float(size.mean()),
        "trained": float(trained.mean()),
    }


def _single(table, method, epsilon, share, repeats, rng) -> tuple[np.ndarray, float]:
    """Masks (repeats, d) of the methods that train once, and the budget that is left for the training."""
    blind = {
        "all": lambda: np.ones(table.d, dtype=bool),
        "random": lambda: sized_subset(table.d, rng),
        "one random": lambda: random_subset(table.d, rng, 1),
        "one named": lambda: feature_search.as_columns(table, "attributes", [_named(table)]),
    }
    if method in blind:
        return np.array([blind[method]() for _ in range(repeats)]), epsilon
    if method == "label tables":
        return np.array([_label_tables(table, share * epsilon, rng) for _ in range(repeats)]), (1 - share) * epsilon
    how = "tables" if method.startswith("tables") else "entropies"
    unit = method.split()[1].removesuffix(",")
    if method in UNPAID:
        return np.tile(feature_search.private_choice(table, unit, how, np.inf, rng), (repeats, 1)), epsilon
    masks = [feature_search.private_choice(table, unit, how, share * epsilon, rng) for _ in range(repeats)]
    return np.array(masks), (1 - share) * epsilon


def _named(table) -> int:
    """The position of the attribute that was named beforehand."""
    return table.attributes.index(NAMED[feature_data.STAND_INS.get(table.name, table.name)])


def _label_tables(table, epsilon, rng) -> np.ndarray:
    """The columns of the attribute that says most about the label, by noisy tables of each with it; epsilon-DP."""
    counts = feature_search.counted(table, "attributes")
    label, a = slice(counts.starts[-1], None), len(counts.levels) - 1
    relevances = []
    for start, size in zip(counts.starts[:-1], counts.levels[:-1], strict=True):
        cells = counts.tables[start : start + size, label]
        cells = np.maximum(cells + rng.laplace(0, 2 * a / epsilon, cells.shape), 1e-9)
        both = -(cells * np.log2(cells / cells.sum())).sum()
        alone = [-(margin * np.log2(margin / cells.sum())).sum() for margin in (cells.sum(axis=0), cells.sum(axis=1))]
        relevances.append(2 * (1 - both / sum(alone)))
    return feature_search.as_columns(table, "attributes", [int(np.argmax(relevances))])


def _pafs(table, epsilon, settings, rng) -> tuple[float, int, int]:
    """Algorithm 4 with private models and private scores; test accuracy of the winner's own model."""
    c = settings.population * (settings.generations + 1)
    kept: dict[bytes, float] = {}

    def fitness(subsets):
        models = fitted(table, subsets, epsilon / c, "sound", rng)
        tested = models.accuracy(table.x_test, table.y_test)
        kept.update({S.tobytes(): a for S, a in zip(subsets, tested.tolist(), strict=True)})
        exact = models.accuracy(table.x_valid, table.y_valid)
        return exact + rng.laplace(0, c / (len(table.y_valid) * epsilon), len(subsets))

    search = genetic(fitness, table.d, settings, rng, draw=lambda: sized_subset(table.d, rng))
    return kept[search.best.tobytes()], int(search.best.sum()), len(search.scores)


def _search(table, epsilon, candidates, repeats, rng) -> list[tuple[float, int, int]]:
    """The best of a geometric number of random subsets, for each repeat; all models of all repeats at once."""
    share = epsilon / PUBLISHED
    counts = rng.geometric(1 / candidates, repeats)
    masks = np.array([sized_subset(table.d, rng) for _ in range(counts.sum())])
    models = fitted(table, masks, share, "sound", rng)
    exact, tested = (models.accuracy(*p) for p in ((table.x_valid, table.y_valid), (table.x_test, table.y_test)))
    scores = exact + rng.laplace(0, 1 / (len(table.y_valid) * share), len(exact))
    rows, start = [], 0
    for count in counts:
        best = start + int(np.argmax(scores[start : start + count]))
        rows.append((float(tested[best]), int(masks[best].sum()), int(count)))
        start += count
    return rows


def sized_subset(m: int, rng) -> np.ndarray:
    """A random subset whose size is log-uniform from 1 to m."""
    return random_subset(m, rng, int(np.floor(np.exp(rng.uniform(0, np.log(m + 1))))))
