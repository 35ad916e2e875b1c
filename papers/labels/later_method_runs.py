"""Label privacy after paper C, on its chapter's features and linear classifiers: binary vectors, sums, projections.

*Local, delta = 0:* "vector" (:func:`dplib.releases.vector`). *Central, delta > 0:* a trusted curator adds
Gaussian noise to sums over all records. Rows x are public, of length 1 at most. Replacing a label moves sum_i
onehot(y_i) x_i^T, and so each gradient of a linear classifier, by at most sqrt(2) in the Frobenius norm: no clipping,
no sampling.

- "projected" is LabelDP-Pro (Ghazi and others 2024, Algorithm 1 with ALTCONV): a noisy gradient, projected onto the
convex hull of the gradients that other records would have with any labels. "unprojected" skips the projection.
- "sums" is ours: cross entropy of a linear classifier depends on the labels through that one sum alone, so it is
released once, and any training on it is free.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import optimize
from scipy.special import softmax

from book.evidence import runs
from dplib import checks, mechanisms, releases
from dplib.data import Dataset
from dplib.releases import Evidence
from papers.labels import heads
from papers.labels.prior_method_runs import task

LATER = {
    "vector": "binary vectors, a classifier a bit",
    "vector-likelihood": "binary vectors, likelihood",
    "unprojected": "curator: noisy gradients",
    "projected": "curator: the same, projected (LabelDP-Pro)",
    "sums": "curator: one noisy sum",
}
CENTRAL = ("unprojected", "projected", "sums")
SENSITIVITY = float(np.sqrt(2))  # of the sum, for rows of length at most 1


@runs.experiment(
    "label_later",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "epsilons": [1.0], "methods": ["vector", "vector-likelihood", "projected", "sums"],
           "rates": {"vector": [0.02], "vector-likelihood": [0.02], "projected": [4.0], "sums": [0.01]}, "seed": 3,
           "epochs": 1, "steps": 3, "hull": 50},
)  # fmt: skip
def compare_later(
    *,
    dataset: str,
    epsilons: Sequence[float],
    methods: Sequence[str],
    rates: float | Mapping[str, Sequence[float]],
    seed: int,
    maps: int = 400,
    dimensions: int = 256,
    epochs: int = 3,
    delta: float = 1e-5,
    steps: int = 50,
    hull: int = 1000,
    smoothing: float = 0.75,
) -> runs.Result:
    """Train one linear classifier for each method and budget, on one seed; task and splits are those of chapter 10.

    Args:
        methods: of :data:`LATER`. rates: as in :func:`papers.labels.prior_method_runs.compare`; for "sums" it is the
        ridge.
        epochs: of the local methods. delta: of the central ones. steps: of gradient methods, on all records each. hull:
            records that span the hull, drawn anew for each step. smoothing: the weight of the projection's
            coefficients, beside equal ones (their Section 3.3).

    Returns "test" and "validation": method to accuracies, one for each budget.
    """
    for method in methods:
        checks.one_of(*LATER).check("method", method)
    problem = task(dataset, "learned", maps, dimensions, seed)
    classes = len(problem.classes)
    train, valid, test = scaled(problem.x_train, problem.x_valid, problem.x_test)
    right: dict[str, dict[str, list[float]]] = {"validation": {}, "test": {}}
    for method in methods:
        cells = [(e, rates[method][i] if isinstance(rates, Mapping) else rates) for i, e in enumerate(epsilons)]
        for epsilon, rate in cells:
            rng = np.random.default_rng([seed, 10, round(1e6 * epsilon), list(LATER).index(method)])
            if method in CENTRAL:
                sigma = SENSITIVITY * float(mechanisms.analytic_sigma(epsilon, delta))
                if method == "sums":
                    weights = fit_sum(train, noisy_sum(train, problem.y_train, classes, sigma, rng), rate)
                else:
                    used = (hull, smoothing) if method == "projected" else None
                    weights = descend(train, problem.y_train, classes, sigma, rate, steps, used, rng)
                guesses = [(x @ weights).argmax(axis=1) for x in (valid, test)]
            else:
                guesses = _vectors(problem, method, epsilon, rate, epochs, seed, rng)
            for part, y, guess in zip(right, (problem.y_valid, problem.y_test), guesses, strict=True):
                right[part].setdefault(method, []).append(round(float((guess == y).mean()), 6))
    return right


def scaled(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Rows (n, d) of several parts with a constant, (n, d + 1), none longer than 1; the scale is that of public ones.

    The scale is the median length of the first part's rows.
    """
    most = float(np.median(np.linalg.norm(train, axis=1)))
    rows = []
    for x in (train, *others):
        short = x * np.minimum(1 / most, 1 / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6))
        rows.append((np.hstack([short, np.ones((len(x), 1))]) / np.sqrt(2)).astype(np.float32))
    return rows


def _vectors(
    problem: Dataset, method: str, epsilon: float, rate: float, epochs: int, seed: int, rng
) -> list[np.ndarray]:
    """Guesses for validation and test records of classifiers that learned from binary vectors."""
    bits = releases.vector(problem.y_train, len(problem.classes), epsilon, rng)
    if method == "vector":
        told = [Evidence("target", np.stack([~bit, bit], axis=1).astype(np.float32)) for bit in bits.T]
    else:
        told = [releases.subset_likelihood(bits, epsilon)]
    order = np.random.default_rng([seed, 6])
    fitted = heads.fit(problem.x_train, told, [rate] * len(told), order, epochs=epochs)
    chances = [fitted.log_probabilities(x) for x in (problem.x_valid, problem.x_test)]  # (m, n, 2) or (1, n, K)
    return [(chance[:, :, 1].T if method == "vector" else chance[0]).argmax(axis=1) for chance in chances]


def noisy_sum(x: np.ndarray, y: np.ndarray, classes: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """The sum of x_i onehot(y_i)^T, (d, K), with noise of deviation sigma: all that is learned of the labels."""
    one_hot = np.eye(classes, dtype=np.float32)[y]
    return x.T @ one_hot + sigma * rng.standard_normal((x.shape[1], classes))


def fit_sum(x: np.ndarray, total: np.ndarray, ridge: float) -> np.ndarray:
    """Weights (d, K) that minimise mean cross entropy with the labels' part replaced by ``total``, and a ridge."""
    shape, n = total.shape, len(x)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        logits = x @ weights.astype(np.float32)
        top = logits.max(axis=1, keepdims=True)
        chances = np.exp(logits - top)
        sums = chances.sum(axis=1, keepdims=True)
        value = (np.log(sums) + top).mean(dtype=float) - (weights * total).sum() / n + ridge / 2 * (weights**2).sum()
        gradient = (x.T @ (chances / sums) - total) / n + ridge * weights
        return float(value), gradient.ravel().astype(float)

    fitted = optimize.minimize(loss, np.zeros(total.size), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return fitted.x.reshape(shape).astype(np.float32)


def descend(
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    sigma: float,
    rate: float,
    steps: int,
    projection: tuple[int, float] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Gradient descent on noisy gradients of all records, (d, K) weights from zero.

    sigma: that one release of a sum would need; each of the steps has sqrt(steps) times as much. projection: records of
    the hull, and the weight of its coefficients; None for noisy gradients as they are.
    """
    noise, others = rng.spawn(2)
    weights = np.zeros((x.shape[1], classes), dtype=np.float32)
    one_hot = np.eye(classes, dtype=np.float32)[y]
    for _ in range(steps):
        gradient = x.T @ (softmax(x @ weights, axis=1) - one_hot)
        gradient = (gradient + sigma * np.sqrt(steps) * noise.standard_normal(weights.shape)) / len(x)
        if projection:
            rows = x[others.choice(len(x), projection[0], replace=False)]
            gradient = projected(gradient, rows, softmax(rows @ weights, axis=1), projection[1])
        weights -= np.float32(rate) * gradient.astype(np.float32)
    return weights


def projected(gradient: np.ndarray, x: np.ndarray, chances: np.ndarray, smoothing: float, rounds: int = 50):
    """The point nearest to ``gradient`` (d, K) of the hull of all x_i (chances_i - onehot(k))^T, its weights smoothed.

    Accelerated projected gradient over the simplex of m K weights, for x (m, d) and chances (m, K).
    """

    def point(a: np.ndarray) -> np.ndarray:
        return x.T @ (a.sum(axis=1, keepdims=True) * chances - a)

    def back(v: np.ndarray) -> np.ndarray:
        scores = x @ v
        return (chances * scores).sum(axis=1, keepdims=True) - scores

    gradient = gradient.astype(np.float32)
    even = np.full_like(chances, 1 / chances.size)
    size = np.random.default_rng(0).random(chances.shape, dtype=np.float32)
    for _ in range(10):  # the squared norm of the map, by power iteration
        size = back(point(size / np.linalg.norm(size)))
    step = np.float32(0.9 / np.linalg.norm(size))
    now = before = even
    for i in range(rounds):
        ahead = now + np.float32(i / (i + 3)) * (now - before)
        before, now = now, on_simplex(ahead - step * back(point(ahead) - gradient))
    return point(smoothing * now + (1 - smoothing) * even)


def on_simplex(values: np.ndarray) -> np.ndarray:
    """The nearest array of the same shape that is nowhere negative and sums to 1."""
    falling = np.sort(values, axis=None)[::-1].astype(float)
    excess = (falling.cumsum() - 1) / np.arange(1, falling.size + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    return np.maximum(values - np.float32(level), 0)
