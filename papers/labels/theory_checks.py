"""Small exact checks of the statements on label-private optimisation: enumeration and random search.

Each returns what a verdict needs: an error that must vanish, or a ratio of the two sides of an inequality that must not
exceed 1. Neighbours differ in the label of one example.
"""

import itertools

import numpy as np
from scipy import stats as sps

from dplib import debiased, exact_loss, mechanisms, privacy
from dplib import randomised_response as response
from papers.labels import bounds


def random_gradients(classes: int, dimensions: int, draws: int, rng):
    """Gradients of norm at most 1 for every label, shape (draws, K, dimensions): some of them of norm 1."""
    gradients = rng.standard_normal((draws, classes, dimensions))
    gradients /= np.linalg.norm(gradients, axis=-1, keepdims=True)
    return gradients * np.maximum(rng.random((draws, classes, 1)), rng.random((draws, 1, 1)) < 0.5)


def debiasing(classes, epsilons, draws: int, rng) -> dict[str, float]:
    """Eq. (7): the largest |mean over the answers - true gradient|, and the largest second moment over 36 K^2/eps^2."""
    deviations = []
    for k, e in itertools.product(classes, epsilons):
        gradients = random_gradients(k, 4, draws, rng)
        table = np.exp(response.log_table(np.ones(k, dtype=bool), e))
        answers = np.array([debiased.debiased_gradient(gradients, np.full(draws, o), e) for o in range(k)])
        means = np.einsum("yo,odb->dyb", table, answers)
        moments = np.einsum("yo,odb->dy", table, answers**2)
        bias = np.linalg.norm(means - gradients, axis=-1).max() / bounds.rr_largest_norm(k, e)
        deviations.append((bias, moments.max() / bounds.printed_second_moment(k, e)))
    return dict(zip(("bias", "moment"), np.max(deviations, axis=0), strict=True))


def one_pass(epsilon: float, rng, labels: int = 4, classes: int = 3) -> dict[str, float]:
    """The loss of LP-RR-SGD's last iterate with softmax loss, from its table of all answers to all label vectors.

    "pass_epsilon": the largest log-ratio; "pass_delta": the exact delta at epsilon; "pass_delta_at_99": the same at
    0.99 epsilon, which must not vanish. Answers that lead to the same weights count as one output.
    """
    loss = debiased.softmax_loss(classes)
    x = rng.standard_normal((labels, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    vectors, apart = privacy.data_sets(labels, classes)
    weights = np.zeros((len(vectors), classes, 2))  # one run for each vector of answers
    for t in range(labels):
        step = debiased.debiased_gradient(loss.gradients(weights @ x[t]), vectors[:, t], epsilon)
        weights = debiased.project(weights - 0.5 / np.sqrt(t + 1) * step[..., None] * x[t], 1.0)
    _, outputs = np.unique(np.round(weights.reshape(len(vectors), -1), 12), axis=0, return_inverse=True)
    single = np.exp(response.log_table(np.ones(classes, dtype=bool), epsilon))
    table = np.prod(single[vectors[:, None], vectors[None]], axis=-1)  # data sets by answers
    merged = np.zeros((len(vectors), outputs.max() + 1))
    np.add.at(merged.T, outputs.ravel(), table.T)
    neighbours = np.argwhere(apart == 1).tolist()
    return {
        "pass_epsilon": exact_loss.discrete_epsilon(merged, neighbours=neighbours),
        "pass_delta": exact_loss.discrete_delta(merged, epsilon, neighbours),
        "pass_delta_at_99": exact_loss.discrete_delta(merged, 0.99 * epsilon, neighbours),
    }


def loss_of_a_normal_step(epsilon: float, delta: float, draws: int, rng) -> dict[str, float]:
    """Algorithm 6's step on random gradients of 2 to 6 labels in R^8: the exact delta, the span and the noise.

    step_delta: the largest exact delta at epsilon over pairs of labels, closed form. step_quadrature: the same for the
    worst pair, from the two densities. off_span: the largest part of a gradient outside the span. step_noise: mean
    squared noise over rank sigma^2.
    """
    sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0)
    worst, off, noise, ranks = 0.0, 0.0, 0.0, 0.0
    for i in range(draws):
        gradients = random_gradients(2 + i % 5, 8, 1, rng)
        if i == 0:  # the worst pair there is: opposite gradients of norm L
            gradients[0, 0] /= np.linalg.norm(gradients[0, 0])
            gradients[0, 1] = -gradients[0, 0]
        projector, rank = debiased.span_projector(gradients)
        off = max(off, abs(gradients @ projector[0] - gradients).max())
        apart = np.linalg.norm(gradients[0][:, None] - gradients[0][None], axis=-1).max()
        worst = max(worst, apart)
        drawn = projector[0] @ rng.normal(0, sigma, (8, 50))
        noise, ranks = noise + (drawn**2).sum() / 50, ranks + float(rank[0]) * sigma**2

    def log_density(centre):
        return lambda t: -(((t - centre) / sigma) ** 2) / 2 - np.log(sigma * np.sqrt(2 * np.pi))

    reach = 12 * sigma
    numeric, _ = exact_loss.density_delta(
        log_density(0.0), log_density(worst), epsilon, (-reach, worst + reach)
    )  # fmt: skip
    return {
        "step_delta": float(mechanisms.gaussian_delta(sigma, worst, epsilon)),
        "step_quadrature": float(numeric),
        "off_span": float(off),
        "step_noise": float(noise / ranks),
    }


def moving_labels(draws: int, rng) -> tuple[float, float]:
    """Eqs (9) and (10) on random problems: the largest left side over right side of each.

    Six inputs, five labels, sets of two or three; losses |<w, v_xy> - b_xy| with |v| = 1 over the unit ball of R^3 (D =
    2, L = 1). The best of 200 random weights stands for the minimum, on both sides alike.
    """
    nine, ten = 0.0, 0.0
    for _ in range(draws):
        v = random_gradients(5, 3, 6, rng)
        w = random_gradients(1, 3, 200, rng)[:, 0]
        values = abs(np.einsum("xyd,wd->wxy", v, w) - rng.uniform(-1, 1, (6, 5)))
        chances = rng.dirichlet(np.full(5, 0.3), 6) / 6  # of (x, y)
        kept = np.argsort(rng.random((6, 5)), axis=1) < rng.integers(2, 4, (6, 1))
        missed = (chances * ~kept).sum(axis=1)
        moved = chances * kept + missed[:, None] * kept / kept.sum(axis=1, keepdims=True)
        risk, risk_moved = ((values * c).sum(axis=(1, 2)) for c in (chances, moved))
        gap = risk - risk_moved
        allowed = 2 * 2 * missed.sum()
        nine = max(nine, np.ptp(gap) / allowed)
        excess, excess_moved = risk - risk.min(), risk_moved - risk_moved.min()
        ten = max(ten, ((excess - excess_moved) / allowed).max())
    return float(nine), float(ten)


def moving_labels_at_worst(miss: float) -> float:
    """Excess risk, in units of D L, of the best weights for moved labels on a problem made for it: just below 2 miss.

    A share ``miss`` of the inputs has its label outside Y_k, and the label it is moved to has the opposite gradient;
    the other inputs pull the right way, a little less. Linear losses on [-1, 1] (D = 2, L = 1).
    """
    pull = miss * (1 - 1e-6)  # of the other inputs: at most 1 - miss
    true, moved = pull + miss, pull - miss
    best_for_moved = np.sign(moved)
    return float((true - true * best_for_moved) / 2)


def lemma_20(draws: int, rng) -> float:
    """Eq. (19): the largest |clean risk - debiased risk| over Pr[y not in Y_k], on random small distributions."""
    largest = 0.0
    for _ in range(draws):
        classes, k = 6, int(rng.integers(1, 6))
        epsilon = float(rng.uniform(0.05, 3))
        losses = rng.choice([0.0, 1.0], (4, classes)) if rng.random() < 0.5 else rng.random((4, classes))
        chances = rng.dirichlet(np.ones(classes), 4) / 4
        members = np.argsort(rng.random((4, classes)), axis=1)[:, :k]
        table = np.exp(response.log_table(np.ones(k, dtype=bool), epsilon))
        debiased_mean = debiased.debiased_loss(np.take_along_axis(losses, members, axis=1), epsilon) @ table.T
        moved = np.repeat(debiased_mean.mean(axis=1, keepdims=True), classes, axis=1)  # outside the set
        np.put_along_axis(moved, members, debiased_mean, axis=1)
        inside = np.zeros((4, classes), dtype=bool)
        np.put_along_axis(inside, members, True, axis=1)
        largest = max(largest, abs((chances * (losses - moved)).sum()) / (chances * ~inside).sum())
    return float(largest)


def generalisation(line: debiased.LabelsOnLine, n: int, epsilon: float, seeds: int, rng) -> dict[str, np.ndarray]:
    """Theorem 17 on fresh data sets: arrays of shape (seeds,).

    deviation: sup over thresholds of |debiased empirical - population risk|. regret: excess risk of the empirical
    minimiser. clean: the same supremum with the true labels (Lemma 21). single: the debiased empirical risk of the one
    function 0, less its population risk.
    """
    rows = []
    for _ in range(seeds):
        x, labels, answer = line.draw(n, epsilon, rng)
        values = line.answered_losses(x, answer, epsilon)
        off, regret = line.largest_deviation(x, values)
        clean, _ = line.largest_deviation(x, line.loss[:, labels])
        rows.append((off, regret, clean, values[0].mean()))
    off, regret, clean, single = np.array(rows).T
    return {"deviation": off, "regret": regret, "clean": clean, "single": single - line.population_risk(1.0)}


def assumptions(draws: int, rng) -> dict[str, float]:
    """Assumptions 7 and 8, softmax and logistic loss: how far the middle lies above the chord, and |g| / L."""
    curved = steepest = -np.inf
    for loss in (debiased.softmax_loss(4), debiased.logistic_loss()):
        scores = rng.normal(0, 3, (2, 20 * draws, loss.outputs))
        sizes = np.sqrt((loss.gradients(scores) ** 2).sum(axis=-1))
        curved = max(curved, (loss.values(scores.mean(axis=0)) - loss.values(scores).mean(axis=0)).max())
        steepest = max(steepest, (sizes / loss.lipschitz).max())
    return {"curved": curved, "steepest": steepest}


def noise_slopes(rng) -> dict[str, float]:
    """Logarithmic slopes of the root mean squared noise of one step: over p and K in the span, over p everywhere."""
    dimensions, labels = [8, 32, 128, 512], [4, 16, 64]

    def squared(span: bool, k: int, p: int) -> float:
        noise = rng.normal(0, 1.0, (400, p))
        if span:
            noise = noise @ debiased.span_projector(random_gradients(k, p, 1, rng))[0][0]
        return float(np.log((noise**2).sum(axis=1).mean()))

    def of(x, y):
        return float(np.polyfit(np.log(x), y, 1)[0] / 2)  # of the norm: half the slope of its square

    return {
        "slope_p": of(dimensions, [squared(True, 4, p) for p in dimensions]),
        "slope_K": of(labels, [squared(True, k, 512) for k in labels]),
        "slope_p_everywhere": of(dimensions, [squared(False, 4, p) for p in dimensions]),
    }


def moved(draws: int, rng) -> dict[str, float]:
    """:func:`moving_labels` and :func:`moving_labels_at_worst`, each over its bound: "nine", "ten", "moved_worst"."""
    nine, ten = moving_labels(draws, rng)
    return {"nine": nine, "ten": ten, "moved_worst": moving_labels_at_worst(0.25) / 0.25 / 2}


def signs(epsilon: float, draws: int, rng, n: int = 256) -> dict[str, float]:
    """Eqs (13), (14), (15), Fact 14 and Lemma 16: left side over right side, at their largest."""
    right = 1 / (1 + np.exp(-epsilon))
    w = rng.standard_normal((draws, n))
    w *= rng.random((draws, 1)) / np.linalg.norm(w, axis=1, keepdims=True)
    labels = rng.choice([-1.0, 1.0], (draws, n))
    counted = (labels * w > 0).sum(axis=1)
    table = bounds.resampled_rr(4, epsilon)
    neighbours = [(i, i ^ (1 << b)) for i in range(16) for b in range(4)]
    return {
        "thirteen": right / (np.exp(epsilon) * (1 - right)),
        "fourteen": n * right / bounds.right_signs_limit(n, epsilon),
        "fifteen": (-bounds.empirical_risk(w, labels) / (np.sqrt(counted) / n)).max(),
        "group": _group(),
        "lemma16": max(
            bounds.lemma16_slack(m, e, d) / d for m in (5, 100, 10**5) for e in (0.1, 1.0) for d in (1e-8, 1e-3, 0.3)
        ),
        "resampled": max(  # exact delta at k epsilon over the chance of more than k copies among four draws
            exact_loss.discrete_delta(table, k * epsilon, neighbours) / sps.binom.sf(k, 4, 1 / 4) for k in (1, 2, 3)
        ),
    }


def _group(leak: float = 0.02, epsilon: float = 0.4, most: int = 4) -> float:
    """Fact 14, by enumeration, on a mechanism that shows the label with probability ``leak`` and else answers by RR."""
    keep = 1 / (1 + np.exp(-epsilon))
    stays, flips = (1 - leak) * keep, (1 - leak) * (1 - keep)
    pair = together = np.array([[stays, flips, leak, 0], [flips, stays, 0, leak]])
    largest = 0.0
    for k in range(2, most + 1):
        together = np.stack([np.kron(together[0], pair[0]), np.kron(together[1], pair[1])])
        exact = exact_loss.discrete_delta(together, epsilon * k)
        largest = max(largest, exact / bounds.group_delta(epsilon, leak, k))
    return float(largest)


def debiased_losses(epsilon: float, draws: int, rng) -> dict[str, float]:
    """Lemmas 18 and 19: "bias18", over k = 1 to 6; "slope19", the steepest debiased loss of four labels."""
    bias = 0.0
    for k in range(1, 7):
        for e in (0.05, 0.5, 2.0):
            losses, total = rng.random((draws, k)), np.exp(e) + k - 1
            table = np.full((k, k), 1 / total) + np.expm1(e) / total * np.eye(k)
            bias = max(bias, abs(debiased.debiased_loss(losses, e) @ table - losses).max())
    slopes = rng.uniform(-1, 1, (50 * draws, 4))
    slopes[0] = [1, -1, -1, -1]
    return {"bias18": bias, "slope19": abs(debiased.debiased_loss(slopes, epsilon)).max()}


def rademacher(rng) -> dict[str, float]:
    """Definitions G.1 and G.2 and Lemma 22, all signs enumerated on nine points."""
    enumerated = debiased.empirical_rademacher(np.tril(np.ones((10, 9)), -1))
    points, contraction = rng.random((40, 9)), 0.0
    complexities = [debiased.empirical_rademacher(x[None] >= np.linspace(0, 1, 30)[:, None]) for x in points]
    every = [debiased.empirical_rademacher(x[None] >= np.append(x, 2.0)[:, None]) for x in points]
    for _ in range(30):
        values, bend = rng.uniform(-1, 1, (6, 9)), rng.uniform(-1, 1, 9)
        after, before = (debiased.empirical_rademacher(v) for v in (1.5 * abs(values - bend), values))
        contraction = max(contraction, after / (1.5 * before))
    return {
        "enumerated": enumerated,
        "thirty_thresholds": np.mean(complexities),
        "spread": max(abs(complexity - enumerated) for complexity in every),
        "contraction": contraction,
    }
