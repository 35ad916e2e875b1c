"""The runs behind accuracy against the number of features: plain values in, plain values out, for :mod:`dplib.study`.

:func:`accuracies` trains private logistic regressions on given subsets of the columns. :func:`forward_order` finds such
subsets: it adds, one at a time, the column with which the model is most accurate on validation records. With an epsilon
it is the *private* model that decides, which is what "privacy-aware" promises (paper B, Section V-B). (The order of
CFS-Greedy needs no models: :mod:`dplib.architecture.feature_figures`.)

A search looks at training records without paying for it: no epsilon of the book covers the choice.
"""

import numpy as np

from dplib import objpert
from dplib.architecture import feature_data
from dplib.architecture.feature_data import Features

PLAIN = 1e9  # the epsilon that stands for "without privacy" in the paper (Section V-B)
VALIDATION = 0.25  # share of the training records that a search keeps for the score


def forward_order(
    *, dataset: str, seed: int, epsilon: float | None, largest: int, draws: int, hold_outs: int = 1
) -> dict:
    """Greedy forward selection by validation accuracy.

    Args:
        dataset, seed: of :func:`dplib.architecture.feature_data.load`.
        epsilon: of each model in the search (pure DP, variant "sound"); None: without privacy. What the search itself
            spends, epsilon for each model, is not accounted.
        largest: how many features to add.
        draws: of the noise, for each candidate and each choice of validation records.
        hold_outs: how often a quarter of the training records is drawn for validation, the same for all candidates.

    Returns:
        "order": columns; "scores": the mean validation accuracy after each of them.
    """
    table = feature_data.load(dataset, seed)
    rng = np.random.default_rng([seed, 23])
    n = len(table.y_train)
    kept = rng.random((hold_outs, n)).argsort(axis=1) >= round(VALIDATION * n)
    chosen, scores = [], []
    for _ in range(min(largest, table.d)):
        left = [c for c in range(table.d) if c not in chosen]
        means = sum(_candidates(table, chosen, left, epsilon, draws, some, rng) for some in kept) / hold_outs
        chosen.append(left[int(means.argmax())])
        scores.append(float(means.max()))
    return {"order": chosen, "scores": scores}


def _candidates(table: Features, chosen, left, epsilon, draws, kept, rng) -> np.ndarray:
    """Mean accuracy on the records not kept of the chosen columns with each of those left, shape (left,)."""
    masks = np.stack([table.mask([*chosen, c]) for c in left])
    fit = objpert.fit(
        table.x_train[kept],
        table.y_train[kept],
        epsilon=PLAIN if epsilon is None else epsilon,
        norm_bound=table.norm_bound(masks).repeat(draws),
        rng=rng,
        masks=masks.repeat(draws, axis=0),
        device="cpu",
    )
    means = []
    for i, mask in enumerate(masks):
        at = slice(i * draws, (i + 1) * draws)
        scores = fit.coef[at][:, mask] @ table.x_train[~kept][:, mask].T + fit.intercept[at, None]
        means.append(((scores > 0) == (table.y_train[~kept] > 0)).mean())
    return np.array(means)


def accuracies(
    *,
    dataset: str,
    seed: int,
    subsets: list[list[int]],
    epsilons: list[float],
    draws: int,
    variant: str = "sound",
    neighbours: str = "replace",
    regularisation: float = 1.0,
    unit_rows: bool = False,
    validation: int = 0,
) -> dict:
    """Accuracy of objective perturbation on subsets of the features, over many draws of the noise.

    Args:
        dataset, seed: of :func:`dplib.architecture.feature_data.load`; the seed draws the noise too.
        subsets: columns of each.
        epsilons: of each release; from a million on, where noise is nothing, one draw is made.
        variant, neighbours, regularisation: of :func:`dplib.objpert.fit`; 1 is diffprivlib's default.
        unit_rows: divide records by their norm bound first. The same regularisation is then stronger.
        validation: so many training records are held out, and accuracy is measured on them; 0: on the test part.

    Returns:
        "mean", "sd": shape (subsets, epsilons), over the draws ("sd" 0 for a single one); "constant": test accuracy of
        the more frequent class; "spent": the largest true epsilon over the one asked for (None: infinite); "converged".
    """
    table = feature_data.load(dataset, seed, validation)
    x, y = (table.x_valid, table.y_valid) if validation else (table.x_test, table.y_test)
    counts = [1 if e >= 1e6 else draws for e in epsilons]
    asked = np.repeat(epsilons, counts)
    means, deviations, spent, converged = [], [], 0.0, []
    for columns in subsets:
        bound = float(table.norm_bound(table.mask(columns)))
        scale = bound if unit_rows else 1.0
        fit = objpert.fit(
            table.x_train[:, columns] / scale,
            table.y_train,
            epsilon=asked,
            regularisation=regularisation,
            norm_bound=bound / scale,
            rng=np.random.default_rng([seed, 17, len(columns)]),
            variant=variant,
            neighbours=neighbours,
            device="cpu",
        )
        by_epsilon = np.split(fit.accuracy(x[:, columns] / scale, y), np.cumsum(counts)[:-1])
        means.append([round(float(a.mean()), 8) for a in by_epsilon])
        deviations.append([round(float(a.std(ddof=1)), 8) if len(a) > 1 else 0.0 for a in by_epsilon])
        spent = max(spent, float((fit.epsilon / asked).max()))
        converged.append(float(fit.converged.mean()))
    return {
        "mean": means,
        "sd": deviations,
        "constant": table.constant(),
        "spent": spent if np.isfinite(spent) else None,
        "converged": min(converged),
    }
