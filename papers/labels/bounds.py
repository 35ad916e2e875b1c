"""Bounds of label-private convex optimisation, with constants (Ghazi and others 2021, Appendix F).

Neighbours differ in the label of one example. Risks are in units of D L, diameter of the ball of weights times
Lipschitz constant, so that no risk of interest exceeds 1. The paper states rates; the constants here come from its own
proofs, from the last-iterate bound that they cite (Shamir and Zhang 2013, Theorem 2), or are ours and say so.
"""

import itertools

import numpy as np
from scipy import optimize, stats

from dplib import mechanisms

# ---------------------------------------------------------------- upper bounds


def rr_noise(classes, epsilon):
    """What the answers add to the largest E |g|^2 over all gradients of norm at most L = 1; exactly (ours).

    E |g|^2 is convex in the gradients, so all have norm 1 at the maximum. With S = e^eps + K - 1 and R the sum of the
    others, it is (S / (e^eps - 1))^2 less ((2 e^eps - 1) + 2 e^eps <g_y, R> + |R|^2) / (e^eps - 1)^2: least where R
    points against g_y with length min(e^eps, K - 1).
    """
    e, others = np.exp(epsilon), np.asarray(classes, dtype=float) - 1
    return np.where(e <= others, (e + others) ** 2, 4 * e * others) / np.expm1(epsilon) ** 2


def rr_worst_second_moment(classes, epsilon):
    """The largest E |g|^2 of the debiased gradient (7) over all gradients of norm at most L = 1: G_*^2."""
    return 1 + rr_noise(classes, epsilon)


def rr_largest_norm(classes, epsilon):
    """The largest norm of the debiased gradient over all gradients of norm at most 1 (and over Lemma 19's losses)."""
    e = np.exp(epsilon)
    return (e + 2 * np.asarray(classes) - 3) / (e - 1)


def printed_second_moment(classes, epsilon):
    """G^2 = 36 K^2 / eps^2 at L = 1, as the proof of Theorem 9 has it."""
    return 36 * np.asarray(classes) ** 2 / np.asarray(epsilon) ** 2


def last_iterate_bound(second_moment, n):
    """Excess risk of SGD's last of n iterates in units of D L, with E |g|^2 <= second_moment L^2 and c = D / G.

    Shamir and Zhang (2013), Theorem 2: (D^2 / c + c G^2)(2 + ln n) / sqrt(n) for steps c / sqrt(t).
    """
    n = np.asarray(n, dtype=float)
    return 2 * np.sqrt(second_moment) * (2 + np.log(n)) / np.sqrt(n)


def theorem9_bound(classes, epsilon, n):
    """Theorem 9 with the constant of its proof: 12 K (2 + ln n) / (eps sqrt n)."""
    return last_iterate_bound(printed_second_moment(classes, epsilon), n)


def corollary10_bound(k, epsilon, miss, n):
    """Corollary 10, eq. (8): Theorem 9 with k labels, and 2 Pr[y not in Y_k] from eq. (10)."""
    return theorem9_bound(k, epsilon, n) + 2 * np.asarray(miss)


def gaussian_constant(epsilon, delta):
    """The C that Proposition 11's noise sigma = C L sqrt(ln 1/delta) / eps needs at (eps, delta); arrays broadcast.

    Two labels' gradients are up to 2 L apart: the least sigma at which the exact delta of that Gaussian mechanism is
    small enough, by bisection (``mechanisms.analytic_sigma`` finds the same one by one).
    """
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(delta, dtype=float))
    low, high = np.full(epsilon.shape, -30.0), np.full(epsilon.shape, 30.0)
    for _ in range(60):
        middle = (low + high) / 2
        private = mechanisms.gaussian_log_delta(np.exp(middle), 2.0, epsilon) <= np.log(delta)
        low, high = np.where(private, low, middle), np.where(private, middle, high)
    return (np.exp(high) * epsilon / np.sqrt(-np.log(delta)))[()]


def most_needed_constant(largest_epsilon, largest_delta, points: int = 60) -> float:
    """The largest :func:`gaussian_constant` over eps up to one value and delta from e^-700 up to another, on a grid.

    2 sqrt(2) is enough for eps <= 2 ln 2 and delta <= 1/2, and no smaller one as delta -> 0 (proof in the chapter).
    """
    epsilons = np.geomspace(largest_epsilon / 1000, largest_epsilon, points)
    deltas = np.exp(-np.geomspace(-np.log(largest_delta), 700.0, points))
    return float(gaussian_constant(epsilons[:, None], deltas[None]).max())


def proposition11_bound(rank, epsilon, delta, n):
    """Proposition 11 with the least noise that is private, in a span of this rank (at most K)."""
    return last_iterate_bound(normal_second_moment(rank, epsilon, delta), n)


def normal_second_moment(classes, epsilon, delta) -> float:
    """The largest E |g|^2 of LP-Normal-SGD's gradient at L = 1, with the least noise and a span of full rank."""
    return float(1 + classes * mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2)


def labels_from_which_normal_wins(epsilon, delta):
    """The real number K from which K sigma^2 + 1 is at most the worst second moment of LP-RR-SGD at the same eps."""
    variance = normal_second_moment(1, epsilon, delta) - 1

    def gap(log_classes):
        classes = np.exp(log_classes)
        return np.log(rr_worst_second_moment(classes, epsilon)) - np.log1p(classes * variance)

    return 2.0 if gap(np.log(2.0)) >= 0 else float(np.exp(optimize.brentq(gap, np.log(2.0), 60.0 + 2 * epsilon)))


# ---------------------------------------------------------------- lower bounds, on the data of Proposition 13


def proposition13_bound(n, epsilon, delta=0.0):
    """Least excess risk on n basis vectors with random labels, by (14) and (15): eq. (12) with its constant.

    (1 - sqrt((e^eps + delta)/(1 + e^eps))) / (2 sqrt n), for every (eps, delta)-label-DP algorithm and weights of n
    dimensions or more.
    """
    share = (np.exp(epsilon) + delta) / (1 + np.exp(epsilon))
    return (1 - np.sqrt(np.minimum(share, 1))) / (2 * np.sqrt(n))


def sharp_bound(n, epsilon, delta=0.0):
    """The same with the best constant (ours): (1 - sqrt(t^2 + delta (1 - t^2))) / (2 sqrt n), t = tanh(eps / 2).

    At delta = 0 it is 1 / ((1 + e^eps) sqrt n), reached by signs from RR; else reached for large n by signs of which
    each is leaked with probability delta (:func:`risk_of_leaking_signs`).
    """
    if not np.any(delta):
        return 1 / ((1 + np.exp(epsilon)) * np.sqrt(n))
    t = np.tanh(np.asarray(epsilon) / 2)
    return (1 - np.sqrt(np.minimum(t**2 + delta * (1 - t**2), 1))) / (2 * np.sqrt(n))


def group_delta(epsilon, delta, k):
    """Fact 14: what (eps, delta) becomes for k changed labels, beside k eps: delta (e^(k eps) - 1)/(e^eps - 1)."""
    return delta * np.expm1(k * np.asarray(epsilon)) / np.expm1(epsilon)


def lemma15_bound(n, epsilon, delta=0.0, copies=None, sharp=False):
    """Lemma 15: Proposition 13 on n / copies basis vectors, each copied; by default floor(1 / eps) copies.

    sharp: with :func:`sharp_bound` and the best number of copies up to n.
    """
    if sharp:
        counts = np.arange(1, max(2, min(int(n), int(3 / epsilon) + 2)))
        return float(sharp_bound(n / counts, counts * epsilon, group_delta(epsilon, delta, counts)).max())
    copies = copies or max(1, int(1 / epsilon))
    return float(proposition13_bound(n / copies, copies * epsilon, group_delta(epsilon, delta, copies)))


def lemma15_constant(share: float) -> float:
    """Lemma 15's constant, in units of D L / sqrt(eps' n), where delta' is at most ``share`` times eps' (ours).

    With floor(1 / eps') copies the group's budget is at most 1 and its delta at most share (e - 1); the copies that do
    not fit, and the rounding, cost a factor of two: (1 - sqrt(t^2 + share (e - 1)(1 - t^2))) / 4, t = tanh(1/2).
    """
    return float(sharp_bound(1.0, 1.0, share * np.expm1(1.0)) / 2)


def risk_of_leaking_signs(n, epsilon, delta):
    """Exact excess risk, in units of D L, of w = (D/2) m / |m|, m the posterior means of signs of which each is told
    with probability delta, and asked by RR at eps otherwise: (eps, delta)-label-DP.
    """
    leaked, t = np.arange(n + 1), np.tanh(epsilon / 2)
    length = np.sqrt((leaked + (n - leaked) * t**2) / n)
    return float((1 - (stats.binom.pmf(leaked, n, delta) * length).sum()) / (2 * np.sqrt(n)))


def right_signs_limit(n, epsilon, delta=0.0):
    """Eq. (14): the expected number of right signs of an (eps, delta)-label-DP estimate, at most."""
    return n * (np.exp(epsilon) + delta) / (1 + np.exp(epsilon))


def empirical_risk(weights, signs):
    """The construction's empirical risk -(1/n) sum_i s_i w_i at L = 1, with labels s_i of -1 or 1; shape (..., n)."""
    return -(np.asarray(signs) * weights).mean(axis=-1)


def risk_of_rr_signs(n, epsilon):
    """Exact excess risk, in units of D L, of w = (D/2) s / sqrt(n) with RR answers s: equal to :func:`sharp_bound`."""
    return (1 - np.tanh(epsilon / 2)) / (2 * np.sqrt(n))


def risks_of_rr_sums(n, epsilon, copies, draws, rng):
    """Excess risk of w = (D/2) s / |s| for so many draws, in units of D L, where each basis vector comes in copies.

    s_i sums the RR answers of the copies of vector i. eps-label-DP: each copy is asked once.

    Returns shape (draws,).
    """
    vectors = n // copies
    sums = 2.0 * rng.binomial(copies, 1 / (1 + np.exp(-epsilon)), (draws, vectors)) - copies
    lengths = np.sqrt((sums**2).sum(axis=1) * vectors)
    cosine = np.where(lengths > 0, sums.sum(axis=1) / np.maximum(lengths, 1e-300), 0.0)
    return (1 - cosine) / (2 * np.sqrt(vectors))


def most_careful_counter(copies, epsilon):
    """Pr[+1] for 0 to ``copies`` labels +1 among the copies: as steep as epsilon-label-DP lets it be, and symmetric.

    A trusted curator's answer to "which sign has this vector?": neighbouring counts have odds within e^eps on both
    sides, and equal copies get the right sign with probability 1 - e^(-eps copies / 2) / 2 (copies even).
    """
    count = np.arange(copies + 1) - copies / 2
    tail = np.exp(-epsilon * abs(count)) / 2
    return np.where(count >= 0, 1 - tail, tail)


def best_copies(epsilon) -> int:
    """Copies of each vector that make the lower bound largest, for small epsilon."""
    return max(1, round(0.738 / epsilon))


def risk_of_careful_counts(n, epsilon) -> float:
    """Exact excess risk of :func:`most_careful_counter` on :func:`best_copies`, in units of D L."""
    copies = best_copies(epsilon)
    return float(np.exp(-epsilon * copies / 2) / (2 * np.sqrt(n / copies)))


def rate_gaps() -> dict[str, float]:
    """How Theorem 9's rate, without its logarithm, over two lower bounds moves: exact logarithmic slopes.

    The lower bounds: the non-private D L / sqrt(n), and that of Lemma 15 behind Proposition 12 (delta = 0, so without
    its logarithm). Budgets 1/2, 1/4, ... make the number of copies in Lemma 15 a whole one.
    """
    n, epsilons, classes = 2.0**30, 2.0 ** -np.arange(1, 9), 2.0 ** np.arange(1, 6)

    def slopes(lower):
        upper = np.array([[theorem9_bound(k, e, n) / (2 + np.log(n)) / lower(e) for e in epsilons] for k in classes])
        over_k = np.polyfit(np.log(classes), np.log(upper[:, 0]), 1)[0]
        return float(over_k), float(np.polyfit(-np.log(epsilons), np.log(upper[0]), 1)[0])

    plain, private = slopes(lambda e: 1 / np.sqrt(n)), slopes(lambda e: lemma15_bound(n, e))
    return {
        "slope_in_K_of_the_gap_to_the_non-private_bound": plain[0],
        "slope_in_1/epsilon_of_the_gap_to_the_non-private_bound": plain[1],
        "slope_in_K_of_the_gap_to_Proposition_12": private[0],
        "slope_in_1/epsilon_of_the_gap_to_Proposition_12": private[1],
    }


def risk_of_lp_rr_sgd(n, epsilon, rate):
    """Exact expected excess empirical risk of LP-RR-SGD on the construction, steps rate / sqrt(t), in units of D L.

    Each example moves its own coordinate by a known length, and so the projections are known too: only signs are
    random, and each is right with RR's probability.
    """
    lengths = rate / np.sqrt(np.arange(1, n + 1)) / np.tanh(epsilon / 2)
    squared, shrink = 0.0, np.empty(n)
    for t, length in enumerate(lengths):
        squared += length**2
        shrink[t] = min(1.0, squared**-0.5)
        squared = min(squared, 1.0)
    final = lengths * np.cumprod(shrink[::-1])[::-1]
    return float(0.5 / np.sqrt(n) - np.tanh(epsilon / 2) * final.sum() / n / 2)


# ---------------------------------------------------------------- from empirical to population risk


def lemma16_budget(epsilon, delta):
    """The (eps, delta) of the population algorithm in Lemma 16: eps/(4 ln(2/delta)), e^-eps delta/(8 ln(2/delta))."""
    log = np.log(2 / np.asarray(delta))
    return epsilon / (4 * log), np.exp(-epsilon) * delta / (8 * log)


def lemma16_slack(n, epsilon, delta):
    """The delta that the proof of Lemma 16 really arrives at: chance of too many copies, plus the group's delta.

    n draws with replacement take one example more than k = floor(4 ln(2/delta)) times with the binomial's tail.
    """
    inner, inner_delta = lemma16_budget(epsilon, delta)
    k = int(np.floor(4 * np.log(2 / delta)))
    return float(stats.binom.sf(k, n, 1 / n) + group_delta(inner, inner_delta, k))


def resampled_rr(n, epsilon):
    """The table of "draw n indices with replacement, then RR the label of each draw", for all 2^n data sets.

    Returns:
        Probabilities (2^n, n^n 2^n) for a small n: rows are label vectors, columns (indices, answers), all there is.
    """
    keep = 1 / (1 + np.exp(-epsilon))
    labels = np.array(list(itertools.product([0, 1], repeat=n)))
    draws = np.array(list(itertools.product(range(n), repeat=n)))
    same = labels[:, draws][:, :, None, :] == labels[None, None]  # data set, draw, answers, position
    return (np.where(same, keep, 1 - keep).prod(axis=-1) / n**n).reshape(len(labels), -1)
