"""Label-private optimisation (Ghazi and others 2021, Appendices F and G): debiased gradients and losses, and a bound.

Neighbours differ in the *label of one example*; inputs x are public. LP-RR-SGD steps along :func:`debiased_gradient` of
an answered label, LP-Normal-SGD along the true gradient with normal noise on the span of :func:`span_projector`. Losses
are l(W x, y); the gradient for label k is c_k x^T with a short vector c_k of shape (B,), and what is done to gradients
is done to these.

In Appendix G a label is answered by RRTop-k on a set Y_k of k labels that was fixed without it. With
q = 1 / (e^eps + k - 1), 1 - k q = (e^eps - 1) q is how much more likely the true label is than another. The bound is
checked on thresholds f(x) = 1[x >= theta] on the line, whose Rademacher complexity is known.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dplib.checks import ParameterError, array, bounded, generator, indices, integer, number, numbers, shaped

# ---------------------------------------------------------------- gradients


_LABELS, _BUDGETS = numbers(1, 1e6), numbers(1e-9, 700)


@dataclass(frozen=True)
class Loss:
    """A convex loss l(W x, y) over K labels.

    Args:
        classes: K.
        outputs: B, the length of W x.
        gradients: scores (..., B) to the gradients by the scores for every label, (..., K, B).
        values: scores (..., B) to the losses of every label, (..., K).
        lipschitz: L, the largest gradient norm for |x| <= 1.
    """

    classes: int
    outputs: int
    gradients: Callable[[np.ndarray], np.ndarray]
    values: Callable[[np.ndarray], np.ndarray]
    lipschitz: float


@bounded(classes=integer(2, 10**6))
def softmax_loss(classes: int) -> Loss:
    """Cross-entropy of K labels with B = K scores: L = sqrt(2).

    Args:
        classes: K, whole, in [2, 1e6].

    Raises:
        ParameterError: for a value outside its range.
    """

    def gradients(scores):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (weights / weights.sum(axis=-1, keepdims=True))[..., None, :] - np.eye(classes)

    def values(scores):
        below = scores - scores.max(axis=-1, keepdims=True)
        return np.log(np.exp(below).sum(axis=-1, keepdims=True)) - below  # of a label of no probability, too

    return Loss(classes, classes, gradients, values, np.sqrt(2.0))


def logistic_loss() -> Loss:
    """ln(1 + exp(-s x.w)) for the two labels s = -1 (index 0) and s = +1 (index 1): L = 1."""
    signs = np.array([-1.0, 1.0])

    def gradients(scores):
        return (-signs / (1 + np.exp(np.clip(signs * scores, -500, 500))))[..., None]

    def values(scores):
        return np.logaddexp(0.0, -signs * scores)

    return Loss(2, 1, gradients, values, 1.0)


@bounded(noisy_label=numbers(0, 2**53, whole=True), epsilon=number(1e-9, 700))
def debiased_gradient(gradients: np.ndarray, noisy_label: np.ndarray, epsilon: float) -> np.ndarray:
    """Eq. (7): the gradient at a label drawn by RR, corrected so that its mean is that at the true label: (..., B).

    (e^eps + K - 1)/(e^eps - 1) * (g_noisy - sum_k g_k / (e^eps + K - 1)), multiplied out so that large eps is no harm.

    Args:
        gradients: of every label, shape (..., K, B).
        noisy_label: whole numbers, shape (...), from RR over these K labels.
        epsilon: budget of each answer, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    gradients, noisy_label = shaped("gradients", gradients, "(..., K, B)"), array("noisy_label", noisy_label)
    classes, less = gradients.shape[-2], np.exp(-epsilon)
    indices("noisy_label", noisy_label.ravel(), classes)
    if noisy_label.shape != gradients.shape[:-2]:
        raise ParameterError(
            f"noisy_label of shape {noisy_label.shape} is not allowed: gradients are of shape {gradients.shape}."
        )
    answered = np.take_along_axis(gradients, noisy_label.astype(int)[..., None, None], axis=-2)[..., 0, :]
    return ((1 + (classes - 1) * less) * answered - less * gradients.sum(axis=-2)) / (-np.expm1(-epsilon))


@bounded(tolerance=number(1e-300, 1))
def span_projector(gradients: np.ndarray, tolerance: float = 1e-9) -> tuple[np.ndarray, np.ndarray]:
    """The orthogonal projector on the span of K gradients, (..., B, B), and its rank, (...).

    Args:
        gradients: of every label, shape (..., K, B).
        tolerance: singular values below it, relative to the largest, count as none.

    Raises:
        ParameterError: for a value outside its range.
    """
    _, values, rows = np.linalg.svd(shaped("gradients", gradients, "(..., K, B)"), full_matrices=False)
    kept = values > tolerance * np.maximum(values[..., :1], np.finfo(float).tiny)
    rows = rows * kept[..., None]
    return np.swapaxes(rows, -1, -2) @ rows, kept.sum(axis=-1)


@bounded(radius=number(1e-100, 1e100))
def project(weights: np.ndarray, radius: float) -> np.ndarray:
    """Projection on a ball around 0: its diameter D is twice the radius.

    Args:
        weights: of each run, shape (R, B, d).
        radius: of the ball, in [1e-100, 1e100].

    Raises:
        ParameterError: for a value outside its range.
    """
    weights = shaped("weights", weights, "(..., B, d)")
    norms = np.sqrt((weights**2).sum(axis=(-2, -1), keepdims=True))
    return weights * np.minimum(1.0, radius / np.maximum(norms, np.finfo(float).tiny))


# ---------------------------------------------------------------- the debiased loss, and its generalisation


@bounded(epsilon=number(1e-9, 700))
def debiased_loss(losses: np.ndarray, epsilon: float) -> np.ndarray:
    """Eq. (17) for every answer: (l(t, y~) - q sum over Y_k of l(t, y')) / (1 - k q).

    Args:
        losses: l(t, y') for the labels y' of Y_k, shape (..., k), as is the result: entry i for the i-th label as
            answer.
        epsilon: budget of each answer, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    losses = shaped("losses", losses, "(..., k)")
    q, rest = _q(losses.shape[-1], epsilon)
    return (losses - q * losses.sum(axis=-1, keepdims=True)) / rest


@bounded(k=_LABELS, epsilon=_BUDGETS)
def lipschitz_printed(k: ArrayLike, epsilon: ArrayLike) -> float | np.ndarray:
    """Lemma 19's constant by the triangle inequality, over L: (1 + k q) / (1 - k q).

    Args:
        k: labels of Y_k, in [1, 1e6].
        epsilon: budget of each answer, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    q, rest = _q(k, epsilon)
    return (1 + k * q) / rest


@bounded(k=_LABELS, epsilon=_BUDGETS)
def lipschitz_least(k: ArrayLike, epsilon: ArrayLike) -> float | np.ndarray:
    """The least constant, over L (ours): the answer's own term of the sum cancels, (1 + (k - 2) q) / (1 - k q).

    It is also the width of the interval that holds the debiased loss when the loss lies in [0, 1].

    Args:
        k: labels of Y_k, in [1, 1e6].
        epsilon: budget of each answer, in [1e-9, 700].

    Raises:
        ParameterError: for a value outside its range.
    """
    q, rest = _q(k, epsilon)
    return (1 + (k - 2) * q) / rest


def empirical_rademacher(values: ArrayLike) -> float:
    """Definition G.1, eq. (20), exactly: the mean over all 2^n signs of max over f of (1/n) sum_i sigma_i f(v_i).

    Args:
        values: f(v_i), shape (functions, n), n at most 16.

    Raises:
        ParameterError: for another shape.
    """
    values = shaped("values", values, "(functions, points)")
    if values.shape[1] > 16:
        raise ParameterError(f"values of shape {values.shape} are not allowed: (functions, n) with n from 1 to 16 is.")
    n = values.shape[1]
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    return float((signs @ values.T).max(axis=1).mean() / n)


@bounded(n=integer(1, 10**6))
def thresholds_rademacher(n: int) -> float:
    """Definitions G.1 and G.2 for thresholds, exactly, for any n different points.

    By reflection P(M >= r) = P(S >= r) + P(S > r), with S the walk's end and M its maximum.

    Args:
        n: points, whole, in [1, 1e6].

    Raises:
        ParameterError: for a value outside its range.
    """
    steps_up = np.arange(n + 1)
    ends, chances = 2 * steps_up - n, stats.binom.pmf(steps_up, n, 0.5)
    # E M = sum over r >= 1 of P(M >= r) = sum over ends s > 0 of P(S = s) (s + s - 1).
    positive = ends > 0
    return float((chances[positive] * (2 * ends[positive] - 1)).sum() / n)


@bounded(complexity=numbers(0), n=numbers(1, 1e18), beta=numbers(1e-300, 1), width=numbers(0))
def deviation_bound(complexity: float, n: int, beta: float, width: float = 1.0) -> float:
    """Lemma 21 for both signs: with probability 1 - beta no function is off by more than this.

    2 R + width sqrt(ln(2/beta) / (2 n)), for values in an interval of that width and R the complexity of those values.

    Args:
        complexity: Rademacher complexity R of the values, >= 0.
        n: records, in [1, 1e18].
        beta: chance that the bound fails, in (0, 1].
        width: of the interval that holds the values, >= 0.

    Raises:
        ParameterError: for a value outside its range.
    """
    return 2 * complexity + width * np.sqrt(np.log(2 / beta) / (2 * np.asarray(n)))


@bounded(
    miss=numbers(0, 1),
    k=_LABELS,
    epsilon=_BUDGETS,
    n=numbers(1, 1e18),
    beta=numbers(1e-300, 1),
    complexity=numbers(0),
    lipschitz=numbers(0),
)
def theorem17_bound(
    miss: float, k: int, epsilon: float, n: int, beta: float, complexity: float, lipschitz: float = 1.0
) -> float:
    """Theorem 17, eq. (18), with constants: Lemma 20 + Lemma 22 with Lemma 19 + Lemma 21.

    Args:
        miss: Pr[y not in Y_k], in [0, 1].
        k: labels of Y_k, in [1, 1e6].
        epsilon: budget of each answer, in [1e-9, 700].
        n: records, in [1, 1e18].
        beta: chance that the bound fails, in (0, 1].
        complexity: Rademacher complexity of the functions, >= 0.
        lipschitz: L of the loss, which lies in [0, 1]; >= 0.

    Raises:
        ParameterError: for a value outside its range.
    """
    composed = lipschitz * lipschitz_printed(k, epsilon) * complexity
    return miss + deviation_bound(composed, n, beta, lipschitz_least(k, epsilon))


class LabelsOnLine:
    """Labels 0 to K - 1 on the line: x uniform on [0, 1], its own label floor(K x); loss |f(x) - y/(K - 1)|, L = 1.

    The true label is x's own with probability rho + (1 - rho)/K, each other one with (1 - rho)/K. Y_k is public: the k
    labels nearest to x's own, lower ones first.

    Args:
        classes: K, whole, in [2, 1e4].
        k: labels of Y_k, from 1 to K.
        rho: how much likelier x's own label is, in [0, 1].

    Attributes:
        members: shape (K, k): Y_k in each of the K intervals.
        miss: Pr[y not in Y_k].

    Raises:
        ParameterError: for a value outside its range.
    """

    def __init__(self, classes: int, k: int, rho: float):
        integer(2, 10**4).check("classes", classes)
        integer(1, classes).check("k", k)
        number(0, 1).check("rho", rho)
        middle, every = np.arange(classes)[:, None], np.arange(classes)[None]
        self.classes, self.rho = classes, rho
        self.members = np.sort(
            np.argsort(2 * abs(every - middle) + (every > middle), axis=1, kind="stable")[:, :k], axis=1
        )
        self.chances = rho * np.eye(classes) + (1 - rho) / classes  # of each label, in each interval
        self.miss = float(1 - np.take_along_axis(self.chances, self.members, axis=1).sum(axis=1).mean())
        self.loss = np.stack([np.arange(classes) / (classes - 1), 1 - np.arange(classes) / (classes - 1)])  # f = 0, 1

    def population_risk(self, thetas: ArrayLike) -> np.ndarray:
        """Exact risk of 1[x >= theta]; with x below theta the prediction is 0.

        Args:
            thetas: of any shape, which the result has.

        Raises:
            ParameterError: for a value outside its range, or shapes that do not fit.
        """
        mean = self.loss @ self.chances.T  # shape (2, K): for f = 0 and f = 1 in each interval
        edges = np.arange(self.classes + 1) / self.classes
        below = np.concatenate([[0], np.cumsum(mean[0])]) / self.classes
        above = np.concatenate([[0], np.cumsum(mean[1])]) / self.classes
        thetas = shaped("thetas", thetas, "(...)")
        return np.interp(thetas, edges, below) + above[-1] - np.interp(thetas, edges, above)

    @bounded(n=integer(1), epsilon=number(1e-9, 700), rng=generator())
    def draw(self, n: int, epsilon: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """n points in rising order, their true labels, and the position in Y_k of RRTop-k's answers; shapes (n,).

        Args:
            n: points, at least 1.
            epsilon: budget of each answer, in [1e-9, 700].
            rng: draws points, labels and answers.

        Raises:
            ParameterError: for a value outside its range, or what is no generator.
        """
        x = np.sort(rng.random(n))
        interval = np.minimum((x * self.classes).astype(int), self.classes - 1)
        labels = np.where(rng.random(n) < self.rho, interval, rng.integers(self.classes, size=n))
        inside = self.members[interval] == labels[:, None]
        k = self.members.shape[1]
        stays = rng.random(n) < np.exp(epsilon) / (np.exp(epsilon) + k - 1)
        others = (np.argmax(inside, axis=1) + rng.integers(1, max(k, 2), size=n)) % k  # of one label itself
        answer = np.where(stays, np.argmax(inside, axis=1), others)
        return x, labels, np.where(inside.any(axis=1), answer, rng.integers(k, size=n))

    def largest_deviation(self, x: np.ndarray, values: np.ndarray) -> tuple[float, float]:
        """sup over theta of |empirical - population risk|, and the excess risk of the empirical minimiser.

        Between neighbouring points the empirical risk is constant and the population risk linear within an interval, so
        that the supremum lies at points and edges.

        Args:
            x: points, shape (n,), rising.
            values: losses of f = 0 and f = 1 at each point, shape (2, n).

        Raises:
            ParameterError: for a value outside its range, or shapes that do not fit.
        """
        x = shaped("x", x, "(points)", 0, 1)
        values, n = shaped("values", values, "(2, points)", sizes=(2, len(x))), len(x)
        totals = np.concatenate([[0], np.cumsum(values[0])]) + np.concatenate([np.cumsum(values[1][::-1])[::-1], [0]])
        empirical = totals / n  # entry i: the first i points are predicted 0, theta in (x_(i-1), x_i]
        ends = np.concatenate([[0.0], x, [1.0]])
        edges = np.arange(1, self.classes) / self.classes
        risk, at_edges = self.population_risk(ends), self.population_risk(edges)
        off = np.maximum(abs(empirical - risk[:-1]), abs(empirical - risk[1:])).max()
        off_edges = abs(empirical[np.searchsorted(x, edges)] - at_edges).max() if len(edges) else 0.0
        best = min(self.population_risk(np.arange(self.classes + 1) / self.classes))
        chosen = int(empirical.argmin())
        return float(max(off, off_edges)), float(self.population_risk(ends[chosen : chosen + 2]).mean() - best)

    def answered_losses(self, x: np.ndarray, answer: np.ndarray, epsilon: float) -> np.ndarray:
        """Debiased losses of f = 0 and f = 1 at each point, shape (2, n).

        Args:
            x: points, shape (n,), rising.
            answer: position in Y_k of each answer, shape (n,).
            epsilon: budget of each answer, in [1e-9, 700].

        Raises:
            ParameterError: for a value outside its range, or shapes that do not fit.
        """
        x = shaped("x", x, "(n)", 0, 1)
        answer = indices("answer", answer, self.members.shape[1])
        if len(answer) != len(x):
            raise ParameterError(f"{len(x)} points x and {len(answer)} answers: each point needs one of both.")
        interval = np.minimum((x * self.classes).astype(int), self.classes - 1)
        of_members = self.loss[:, self.members[interval]]  # shape (2, n, k)
        return np.take_along_axis(debiased_loss(of_members, epsilon), answer[None, :, None], axis=2)[..., 0]


def _q(k, epsilon):
    total = np.exp(epsilon) + k - 1
    return 1 / total, np.expm1(epsilon) / total
