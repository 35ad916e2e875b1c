"""The experiments of feature selection (paper B): what is trained on which columns, each a kept run of one split.

All models are logistic regressions: by objective perturbation (:mod:`dplib.objpert`), whose norm bound is
the one that the columns in use have by construction, or by DP-SGD on two neurons with softmax. The seed draws the split
of the records and the noise. A choice of columns looks at training records; no epsilon here covers that look.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from book.evidence import runs
from dplib import accounting, logistic_grid, objpert
from dplib.checks import one_of
from dplib.dpsgd import DPSGD
from dplib.examples import Data
from papers.architecture import feature_data, feature_scores, feature_search
from papers.architecture.feature_data import Features
from papers.architecture.feature_search import Genetic, random_subset, subset

PLAIN = 1e9  # the epsilon that stands for "without privacy" in the paper (Section V-B)
HELD_OUT = 0.2  # share of the training records on which settings are chosen
PARTS = ("validation", "test")
PIECE = 100  # subsets trained in one call
RANDOM = 50  # random subsets over which "Random" is averaged
CLIP = 1.0  # max_grad_norm, as in Section IV-B. Where noise rules, only its product with the learning rate matters
RECURRENCE = "synthetic-recurrence"


@runs.experiment(
    "feature_curves", version=1, data=("dataset",),
    probe={"dataset": RECURRENCE, "seed": 0, "sizes": [1, 5], "epsilons": [1.0, PLAIN], "draws": 4, "chosen_at": 5.0},
)  # fmt: skip
def curves(
    *,
    dataset: str,
    seed: int,
    sizes: list[int],
    epsilons: list[float],
    draws: int,
    chosen_at: float | None = None,
    search_draws: int = 8,
    hold_outs: int = 1,
    report: str = "test",
    variant: str = "sound",
    neighbours: str = "replace",
    regularisation: float = 1.0,
    device: str = "cpu",
) -> runs.Result:
    """Accuracy of objective perturbation on the first features of an order, over many draws of the noise.

    Args:
        dataset, seed: of :func:`papers.architecture.feature_data.load`; the seed draws the noise too.
        sizes: numbers of features. epsilons: of each release; from a million on one draw is made. draws: else.
        chosen_at: None for the order of CFS-Greedy; a budget for :func:`forward_order`, with search_draws, hold_outs.
        report: "test", or "validation": a fifth of the training records is held out, and accuracy measured there.
        variant, neighbours, regularisation: of :func:`dplib.objpert.fit`; 1 is diffprivlib's default.

    Returns:
        "percent" (sizes, epsilons), means over the draws; "constant": test accuracy (%) of the more frequent class;
        "columns": the order, up to the largest size.
    """
    table = _load(dataset, seed, report)
    x, y = _part(table, report)
    largest = max(sizes)
    if chosen_at is None:
        order = feature_search.order(table, largest)
    else:
        order = forward_order(table, seed, chosen_at, largest, search_draws, hold_outs, device)
    counts = [1 if e >= 1e6 else draws for e in epsilons]
    percent = []
    for k in sizes:
        columns = order[:k]
        fit = objpert.fit(
            table.x_train[:, columns],
            table.y_train,
            epsilon=np.repeat(epsilons, counts),
            regularisation=regularisation,
            norm_bound=float(table.norm_bound(table.mask(columns))),
            rng=np.random.default_rng([seed, 17, k]),
            variant=variant,
            neighbours=neighbours,
            device=device,
        )
        by_epsilon = np.split(fit.accuracy(x[:, columns], y), np.cumsum(counts)[:-1])
        percent.append([round(100 * float(a.mean()), 6) for a in by_epsilon])
    return {"percent": percent, "constant": round(100 * table.constant(), 6), "columns": order}


def forward_order(
    table: Features, seed: int, epsilon: float, largest: int, draws: int, hold_outs: int, device: str = "cpu"
) -> list[int]:
    """Greedy forward selection by the accuracy of the private model on validation records ("privacy-aware").

    What the search itself spends, epsilon for each model, is not accounted. ``hold_outs``: how often a quarter of the
    training records is drawn for validation, the same for all candidates; ``draws``: of the noise, for each candidate.
    """
    rng = np.random.default_rng([seed, 23])
    n = len(table.y_train)
    kept = rng.random((hold_outs, n)).argsort(axis=1) >= round(0.25 * n)
    chosen: list[int] = []
    for _ in range(min(largest, table.d)):
        left = [c for c in range(table.d) if c not in chosen]
        masks = np.stack([table.mask([*chosen, c]) for c in left])
        means = sum(_accuracy_aside(table, masks, epsilon, draws, part, rng, device) for part in kept)
        chosen.append(left[int(means.argmax())])
    return chosen


def _accuracy_aside(table: Features, masks, epsilon, draws, kept, rng, device) -> np.ndarray:
    """Mean accuracy of each mask over ``draws`` models of the records that are kept, on the others."""
    fit = objpert.fit(
        table.x_train[kept],
        table.y_train[kept],
        epsilon=epsilon,
        norm_bound=table.norm_bound(masks).repeat(draws),
        rng=rng,
        masks=masks.repeat(draws, axis=0),
        device=device,
    )
    means = []
    for i, mask in enumerate(masks):
        at = slice(i * draws, (i + 1) * draws)
        scores = fit.coef[at][:, mask] @ table.x_train[~kept][:, mask].T + fit.intercept[at, None]
        means.append(((scores > 0) == (table.y_train[~kept] > 0)).mean())
    return np.array(means)


@runs.experiment(
    "feature_sgd", version=1, data=("dataset",),
    probe={"dataset": RECURRENCE, "seed": 0, "size": 3, "models": [[1.0, 0.5], [None, 0.5]], "draws": 3},
)  # fmt: skip
def sgd(
    *,
    dataset: str,
    seed: int,
    size: int,
    models: list[list[float | None]],
    draws: int = 1,
    batch: int = 250,
    epochs: int = 40,
    delta: float = 1e-5,
    report: str = "test",
    device: str = "cpu",
) -> runs.Result:
    """Train the first features of CFS-Greedy by DP-SGD (Tables II and XVIII), for several budgets and learning rates.

    Two neurons with softmax and cross-entropy are binary logistic regression with twice the weights. Privacy: records
    added or removed, Poisson samples, or full batches where the batch is not below the number of records. The noise is
    calibrated by privacy loss distributions, exactly for full batches.

    Args:
        dataset, seed, report: as in :func:`curves`; models of one call share their batches. size: number of features.
        models: for each an epsilon (None: plain SGD, without clipping) and a learning rate. draws: of its noise.

    Returns "percent": for each model, the mean over its draws; "noise": multipliers; "constant" as in :func:`curves`.
    """
    table = _load(dataset, seed, report)
    columns = feature_search.order(table, size)
    n = len(table.y_train) + len(table.y_valid)
    rate, steps = schedule(n, batch, epochs)
    noises = {e: 0.0 if e is None else noise_for(e, n, batch, epochs, delta) for e, _ in models}
    counts = [1 if e is None else draws for e, _ in models]
    settings = [
        DPSGD(steps, rate, learning_rate, noises[e], None if e is None else CLIP)
        for (e, learning_rate), count in zip(models, counts, strict=True)
        for _ in range(count)
    ]
    x, y = _part(table, report)
    train, test = (np.ascontiguousarray(rows[:, columns], dtype=np.float32) for rows in (table.x_train, x))
    parts = Data((train, table.y_train.astype(int)), test=(test, y.astype(int)))
    rng = np.random.default_rng([seed, 29, size])
    trained = logistic_grid.train_grid(parts, settings, rng, classes=2, device=device, progress=False)
    accuracy = np.split(trained["test"]["metric"], np.cumsum(counts)[:-1])
    return {
        "percent": [round(100 * float(np.mean(shares)), 6) for shares in accuracy],
        "noise": [runs.to_figures(noises[e], 8) for e, _ in models],
        "constant": round(100 * table.constant(), 6),
    }


def schedule(n: int, batch: int, epochs: int) -> tuple[float, int]:
    """Sample rate and steps of ``epochs`` passes over n records; full batches where n <= batch."""
    rate = min(1.0, batch / n)
    return rate, max(1, round(epochs / rate))


def noise_for(epsilon: float, n: int, batch: int, epochs: int, delta: float) -> float:
    """The least noise multiplier that keeps a budget, for records added or removed."""
    rate, steps = schedule(n, batch, epochs)
    return float(accounting.noise_multiplier(epsilon, rate, steps, delta, "prv" if rate == 1 else "pld"))


@runs.experiment(
    "feature_pafs", version=1, data=("dataset",),
    probe={"dataset": RECURRENCE, "seed": 0, "epsilon": 5.0, "part": "validation", "population": 6, "generations": 2,
           "repeats": 2, "draws": 4},
)  # fmt: skip
def pafs(
    *,
    dataset: str,
    seed: int,
    epsilon: float,
    part: str,
    variant: str = "diffprivlib",
    population: int = 120,
    generations: int = 8,
    repeats: int = 20,
    draws: int = 1000,
    parents: float = 0.2,
    held: int = 60,
) -> runs.Result:
    """PAFS on one split at one budget: Algorithm 4 with the accuracy of privately trained models as fitness.

    Searches of a split start from the same population, whatever epsilon and part are.

    Args:
        part: of the fitness: "test" records, as the paper says, or "validation": ``held`` records set aside.
        population, generations, parents: k, l, alpha. repeats: trainings behind one fitness value.
        draws: trainings behind each accuracy of the winner. variant: of objective perturbation.

    Returns:
        "size" of the winner; its "fitness", the same with new noise ("fresh"), and its "test" accuracy after training
        on all training records, in percent; "distinct": subsets that were trained.
    """
    one_of(*PARTS).check("part", part)
    held = held if part == "validation" else 0
    table, whole = feature_data.load(dataset, seed, held), feature_data.load(dataset, seed)

    def accuracy(subsets):
        return accuracies(table, subsets, epsilon, variant, part, repeats, 1)

    rng = np.random.default_rng([0, seed, 3])
    search = feature_search.genetic(accuracy, table.d, Genetic(population, generations, parents), rng)
    fresh = accuracies(table, [search.best], epsilon, variant, part, draws, 2)[0]
    tested = accuracies(whole, [search.best], epsilon, variant, "test", draws, 2)[0]
    percents = {"fitness": search.fitness, "fresh": fresh, "test": tested}
    return {
        "size": int(search.best.sum()),
        **{name: round(100 * float(value), 6) for name, value in percents.items()},
        "distinct": len(search.scores),
    }


@runs.experiment(
    "feature_table", version=1, data=("dataset",),
    probe={"dataset": RECURRENCE, "seed": 0, "epsilons": [1.0, 10.0], "variant": "sound", "draws": 4,
           "population": 20, "generations": 2},
)  # fmt: skip
def compare(
    *,
    dataset: str,
    seed: int,
    epsilons: list[float],
    variant: str,
    draws: int = 1000,
    population: int = 5000,
    generations: int = 10,
) -> runs.Result:
    """Table X without PAFS, on one split: what does not look at epsilon, and the norm of the records apart.

    "CFS-Greedy" and "Random" take the size that CFS-GA (k = population, l = generations) finds. "norm of all" is
    CFS-Greedy's subset with the norm bound of all columns.

    Returns:
        "percent": {method: one mean a budget over ``draws`` trainings}; "constant"; "size" of CFS-GA's subset;
        "relevance" and "redundancy" of the subsets, means of symmetrical uncertainties; "merits".
    """
    table = feature_data.load(dataset, seed)
    relevance, redundancy = feature_scores.relevance_and_redundancy(feature_search.counted(table, "columns"))
    search = feature_search.cfs_ga(
        relevance, redundancy, Genetic(population, generations, 0.2), np.random.default_rng([0, seed, 4])
    )
    size = int(search.best.sum())
    order = feature_search.cfs_greedy(relevance, redundancy, size)
    rng = np.random.default_rng([0, seed, 6])
    random = [random_subset(table.d, rng, size) for _ in range(RANDOM)]
    chosen = {
        "All": np.ones(table.d, dtype=bool),
        "CFS-Greedy": subset(order, table.d),
        "CFS-GA": search.best,
        "One feature": subset(order[:1], table.d),
    }
    percent: dict[str, list[float]] = {name: [] for name in (*chosen, "Random", "norm of all")}
    for epsilon in epsilons:
        ours = accuracies(table, list(chosen.values()), epsilon, variant, "test", draws, 2)
        values = dict(zip(chosen, ours, strict=True))
        values["Random"] = accuracies(table, random, epsilon, variant, "test", max(1, draws // RANDOM), 2).mean()
        long = [chosen["CFS-Greedy"]]
        values["norm of all"] = accuracies(table, long, epsilon, variant, "test", draws, 3, table.norm_bound())[0]
        for name, value in values.items():
            percent[name].append(round(100 * float(value), 6))
    stopped = subset(feature_search.cfs_greedy(relevance, redundancy), table.d)
    among = np.where(np.eye(table.d, dtype=bool), 0.0, redundancy)
    groups = {"CFS-Greedy": [chosen["CFS-Greedy"]], "CFS-GA": [search.best], "Random": random}
    pairs = size * (size - 1)
    return {
        "percent": percent,
        "constant": round(100 * table.constant(), 6),
        "size": size,
        "relevance": {name: _mean(relevance[S].mean() for S in subsets) for name, subsets in groups.items()},
        "redundancy": {name: _mean(S @ among @ S / max(pairs, 1) for S in subsets) for name, subsets in groups.items()},
        "merit_over_greedy": runs.to_figures(
            search.fitness / feature_scores.merit(stopped, relevance, redundancy)[0], 10
        ),
        "lost_its_best": bool(search.scores.max() > search.fitness + 1e-9),
    }


def _mean(values) -> float:
    return runs.to_figures(np.mean(list(values)), 10)


def accuracies(
    table: Features, subsets: Sequence, epsilon: float, variant: str, part: str, repeats: int, seed: int, norm=None
) -> np.ndarray:
    """Mean accuracy of each subset over ``repeats`` private trainings, each with noise of its own, shape (subsets,).

    ``part``: where it is measured. ``seed``: with the subsets it decides the noise. ``norm``: see :func:`fitted`.
    """
    x, y = _part(table, part)
    shares = []
    for start in range(0, len(subsets), PIECE):
        piece = np.asarray(subsets[start : start + PIECE], dtype=bool)
        names = ",".join(np.packbits(S).tobytes().hex() for S in piece)
        rng = np.random.default_rng([seed, zlib.crc32(names.encode())])
        models = fitted(table, np.repeat(piece, repeats, axis=0), epsilon, variant, rng, norm)
        shares.append(models.accuracy(x, y).reshape(len(piece), repeats).mean(axis=1))
    return np.concatenate(shares)


def fitted(table: Features, masks: np.ndarray, epsilon: float, variant: str, rng, norm=None) -> objpert.Fit:
    """One private model for each row of masks, (problems, d), on the training part; C = 1, the libraries' default."""
    return objpert.fit(
        table.x_train,
        table.y_train,
        epsilon=epsilon,
        norm_bound=table.norm_bound(masks) if norm is None else norm,
        rng=rng,
        masks=masks,
        variant=variant,
        device="cpu",
    )


def _load(dataset: str, seed: int, report: str) -> Features:
    one_of(*PARTS).check("report", report)
    held = round(HELD_OUT * len(feature_data.load(dataset).y_train)) if report == "validation" else 0
    return feature_data.load(dataset, seed, held)


def _part(table: Features, part: str) -> tuple[np.ndarray, np.ndarray]:
    return (table.x_valid, table.y_valid) if part == "validation" else (table.x_test, table.y_test)


@runs.experiment(
    "feature_heuristics", version=1, data=("dataset",),
    probe={"dataset": RECURRENCE, "seed": 0, "columns": 6, "population": 10},
)  # fmt: skip
def heuristics(*, dataset: str, seed: int, columns: int = 12, population: int = 100) -> runs.Result:
    """Algorithms 3 and 4 on some random columns, against all subsets of these columns.

    Returns:
        "greedy", "ga", "ga_seen": merit over the best of all subsets, of what is returned and of the best evaluated;
        "steps", "wrong_steps" of the greedy search; "moves" of the genetic one.
    """
    table = feature_data.load(dataset, 0)
    rng = np.random.default_rng([0, seed, 12])
    relevance, redundancy = feature_scores.relevance_and_redundancy(feature_search.counted(table, "columns"))
    at = rng.choice(table.d, columns, replace=False)
    r, among = relevance[at], redundancy[np.ix_(at, at)]
    _, optimum = feature_search.exhaustive(r, among)
    order, wrong = feature_search.cfs_greedy(r, among, columns), 0
    for k in range(columns):
        options = [s for s in range(columns) if s not in order[:k]]
        merits = feature_scores.merit([subset([*order[:k], s], columns) for s in options], r, among)
        wrong += bool(merits[options.index(order[k])] < merits.max() - 1e-9)
    greedy = feature_scores.merit([subset(feature_search.cfs_greedy(r, among), columns)], r, among)[0]
    search = feature_search.cfs_ga(r, among, Genetic(population, 10, 0.2), rng)
    shares = {"greedy": greedy, "ga": search.fitness, "ga_seen": search.scores.max()}
    return {
        **{name: runs.to_figures(value / optimum, 8) for name, value in shares.items()},
        "steps": columns,
        "wrong_steps": wrong,
        "moves": search.moves,
    }


@runs.experiment("feature_checks", version=1, data=("dataset",), probe={"dataset": RECURRENCE, "seed": 0})
def check(*, dataset: str, seed: int, delta: float = 1e-6) -> runs.Result:
    """The sizes of a table, and the paper's definitions on it against other programs.

    Returns:
        "sizes"; "uncertainty_gap" of eq. for suc to Hall's form and to scikit-learn, "pca_gap" to scikit-learn,
        "optimum_gap" of objective perturbation at epsilon 1e9 to an unpenalised reference; "lbfgs_steps" with the
        printed limits; "pca_kept": share of the most variance that 5 private components keep, by epsilon.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import normalized_mutual_info_score

    table = feature_data.load(dataset, seed)
    rng = np.random.default_rng([0, seed, 13])
    codes, _ = feature_search.coded(table, "attributes")
    joint = feature_scores.joint_entropies(feature_search.counted(table, "attributes"))
    printed, hall = feature_scores.uncertainty(joint), feature_scores.uncertainty(joint, "hall")
    theirs = np.array([[normalized_mutual_info_score(a, b) for a in codes.T] for b in codes.T])
    bound = float(table.norm_bound())
    fit = objpert.fit(
        table.x_train, table.y_train, epsilon=PLAIN, norm_bound=bound, rng=rng, variant="diffprivlib", device="cpu"
    )
    reference = LogisticRegression(tol=1e-10, max_iter=5000, solver="newton-cholesky").fit(table.x_train, table.y_train)
    as_printed = LogisticRegression(tol=1e-50, max_iter=5000).fit(table.x_train, table.y_train)
    _, exact = feature_scores.covariance(table.x_train, bound, np.inf, delta, rng)
    ours = feature_scores.components(exact, 5)
    most = feature_scores.captured(exact, ours)
    kept = {}
    for epsilon in (0.1, 1.0, 10.0, 100.0):
        noisy = feature_scores.covariance(table.x_train, bound, epsilon, delta, rng)[1]
        kept[f"{epsilon:g}"] = float(
            f"{feature_scores.captured(exact, feature_scores.components(noisy, 5)) / most:.8g}"
        )
    gaps = {
        "uncertainty_gap": max(np.abs(printed - hall).max(), np.abs(printed - theirs).max()),
        "pca_gap": np.abs(np.abs((ours * PCA(5).fit(table.x_train).components_).sum(axis=1)) - 1).max(),
        "optimum_gap": np.abs(fit.coef[0] - reference.coef_[0]).max(),
    }
    return {
        "sizes": {
            "attributes": len(table.attributes),
            "features": table.d,
            "n_train": len(table.y_train),
            "n_test": len(table.y_test),
        },
        **{name: max(1e-6, runs.to_figures(gap, 1)) for name, gap in gaps.items()},  # below: a machine's last digits
        "lbfgs_steps": int(as_printed.n_iter_[0]),
        "pca_kept": kept,
    }
