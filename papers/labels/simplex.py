"""A convex problem in which dimension p, number of labels K and difficulty can be set one by one, solved exactly.

**The problem** is that of chapter 10b: an input shows K unit vectors v_1, ..., v_K, the corners of a regular simplex
(for K = 2: v_2 = -v_1), with the linear loss -<w, v_k> over the ball |w| <= 1. One *hinted* corner j has
<v_j, e> = alpha with a hidden direction e; the rest is turned at random around e. The label is j with probability
rho + (1 - rho)/K, each other one with (1 - rho)/K. So the excess risk is alpha rho (1 - <w, e>), whatever p is.

**The simulation.** SGD's iterate enters the next step and the risk through two numbers only: <w, e>, and the length r
of the rest. A step whose part orthogonal to e has length b and a uniform direction gives
r'^2 = r^2 + (eta b)^2 - 2 eta b r u, where u is one coordinate of a uniform point of the sphere of R^(p-1). So
thousands of runs of p = 10^4 or more need no vector of length p, and no approximation is made.

Risks are returned in units of D L. Neighbours and guarantees: :mod:`dplib.debiased`. Methods: ``sgd``, no
privacy; ``rr``, LP-RR-SGD, with ``keep`` = k < K the variant of Corollary 10; ``normal``, LP-Normal-SGD; ``dp-sgd``,
one pass with noise in all p coordinates; ``mean``, ``rr-mean``, ``dp-mean``: the same gradients averaged over all
examples, what many passes come to where gradients do not depend on w; the last with Gaussian noise, once.
"""

import numpy as np

from dplib import checks, mechanisms
from dplib.checks import ParameterError

METHODS = ("sgd", "mean", "rr", "rr-mean", "normal", "dp-sgd", "dp-mean")
ALPHA = 0.5  # how far the hinted corner leans towards e
_BLOCK = 128  # steps whose random numbers are drawn at a time


def excess(
    *, method, classes, epsilon, delta, dimension, predictability, rates, snapshots, replicates, runs, seed,
    keep=None, prior_right=1.0,
):  # fmt: skip
    """Mean excess risk of the last iterate, in units of D L: {"excess": lists (snapshots, rhos, rates, replicates)}.

    Args:
        method: of :data:`METHODS`. classes: K >= 2. epsilon, delta: the budget ("sgd" ignores both, "rr" delta).
        dimension: p >= 2, at least K (and above 2 unless K = 2). predictability: list of rho in [0, 1].
        rates: list of c in the step size c / sqrt(t); for the means, w = P(c times the mean). snapshots: numbers of
            examples n, rising. replicates, runs: so many means, each of so many independent runs. keep, prior_right: k
            of Corollary 10, and the probability that the hinted label is among the k.
    """
    checks.one_of(*METHODS).check("method", method)
    if dimension < (2 if classes == 2 else classes):
        raise ParameterError(f"dimension = {dimension} is not allowed: a simplex of {classes} corners needs more.")
    rng = np.random.default_rng(seed)
    rho = np.asarray(predictability, dtype=float)[:, None, None]
    draws = (1, 1, replicates * runs)
    step = _steps(method, classes, epsilon, delta, dimension, rho, keep or classes, prior_right, draws, rng)
    rates, pass_ = np.asarray(rates, dtype=float)[None, :, None], (list(snapshots), dimension, draws, rng)
    if method.endswith("mean"):
        sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0) if method == "dp-mean" else 0.0
        along = _noisy_means(step, rates, sigma, *pass_)
    else:
        along = _one_pass(step, rates, np.broadcast_shapes(rho.shape, rates.shape, draws), *pass_)
    risk = ALPHA * rho[None] * (1 - along) / 2
    return {"excess": risk.reshape(*risk.shape[:3], replicates, runs).mean(axis=-1).tolist()}


def second_moment(method, classes, epsilon, delta, dimension, keep=None) -> float:
    """E |g|^2 of the gradient that a method steps along, exactly, for L = 1: the G^2 of its step size.

    For "dp-mean" it is that of "dp-sgd", which adds the same noise to each example.
    """
    if method in ("sgd", "mean"):
        return 1.0
    if method.startswith("rr"):
        return _rr_moments(classes, epsilon, keep or classes)[1]
    sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0)
    return float(1 + sigma**2 * (classes - 1 if method == "normal" else dimension))


def _rr_moments(classes, epsilon, k):
    """-<g, v_j> for the cases of Corollary 10's gradient g, and its squared norm, the same in all of them.

    Cases: j kept and answered, j kept and another answered, j not kept. From <v_i, v_l> = -1/(K-1) for i != l.
    """
    total = np.exp(epsilon) + k - 1  # e^eps + k - 1
    scale, other = total / np.expm1(epsilon), -1 / (classes - 1)
    inside, outside = 1 + (k - 1) * other, k * other  # <sum of the kept, v_j> for j kept or not
    cases = scale * np.array([1 - inside / total, other - inside / total, other - outside / total])
    squared = scale**2 * (1 - 2 * inside / total + k * inside / total**2)
    return cases, float(squared)


def _rr_cases(classes, epsilon, k, rho, prior_right):
    """Probabilities of the first two cases of :func:`_rr_moments`, each of the shape of rho."""
    total, hinted = np.exp(epsilon) + k - 1, rho + (1 - rho) / classes
    kept_other = (k - 1) / (classes - 1)  # that another label is kept, given that j is
    answered = hinted * np.exp(epsilon) / total + (1 - hinted) * (kept_other / total + (1 - kept_other) / k)
    return prior_right * answered, prior_right * (1 - answered)


def miss_rate(classes, k, rho, prior_right) -> float:
    """Pr[y not in Y_k], when j is kept with probability prior_right and the other members are drawn at random."""
    hinted = rho + (1 - rho) / classes
    if_kept = (1 - hinted) * (classes - k) / (classes - 1)
    return float(
        prior_right * if_kept + (1 - prior_right) * (hinted + (1 - hinted) * (classes - 1 - k) / (classes - 1))
    )


def _steps(method, classes, epsilon, delta, dimension, rho, k, prior_right, draws, rng):
    """A function that draws gradients: (part along e, length of the rest), shapes (steps, rhos, 1, runs)."""
    hinted, other = rho + (1 - rho) / classes, -1 / (classes - 1)

    def towards(steps):
        """<v_y, v_j>: 1 for the hinted label, -1/(K-1) for another."""
        return np.where(rng.random((steps, *draws)) < hinted, 1.0, other)

    def split(along_j, squared):
        """A vector of the span, by its part along v_j and its squared norm: <., e> = alpha <., v_j>."""
        return -ALPHA * along_j, np.sqrt(np.maximum(squared - (ALPHA * along_j) ** 2, 0))

    if method.startswith("rr"):
        cases, squared = _rr_moments(classes, epsilon, k)
        first, second = _rr_cases(classes, epsilon, k, rho, prior_right)

        def step(steps):
            u = rng.random((steps, *draws))
            case = (u >= first).astype(np.int8) + (u >= first + second)
            return split(cases[case], squared)

        return step
    if method in ("sgd", "mean", "dp-mean"):
        return lambda steps: split(towards(steps), 1.0)
    sigma = mechanisms.analytic_sigma(epsilon, delta, 2.0)

    def beside(length, free, steps):
        """Squared length of a vector of ``free`` dimensions plus normal noise."""
        if free == 0:
            return 0.0
        noisy = (length + sigma * rng.standard_normal((steps, *draws))) ** 2
        return noisy + (sigma**2 * rng.chisquare(free - 1, (steps, *draws)) if free > 1 else 0.0)

    def normal(steps):
        clean = towards(steps)
        along_j = clean + sigma * rng.standard_normal((steps, *draws))
        return split(along_j, along_j**2 + beside(np.sqrt(1 - clean**2), classes - 2, steps))

    def dp_sgd(steps):
        clean = ALPHA * towards(steps)
        along = clean + sigma * rng.standard_normal((steps, *draws))
        return -along, np.sqrt(beside(np.sqrt(1 - clean**2), dimension - 1, steps))

    return normal if method == "normal" else dp_sgd


def coordinate(dimension: int, shape, rng):
    """One coordinate of a uniform point of the unit sphere of R^dimension.

    Two coordinates have a uniform angle, and a squared radius 1 - V^(2 / (dimension - 2)) with V uniform.
    """
    if dimension == 1:
        return rng.choice([-1.0, 1.0], size=shape)
    angle = np.cos(2 * np.pi * rng.random(shape))
    return angle if dimension == 2 else np.sqrt(-np.expm1(2 / (dimension - 2) * np.log1p(-rng.random(shape)))) * angle


def _blocks(step, count, dimension, draws, rng):
    """So many examples in blocks: of each example its part along the answer, its length, and one of its coordinates."""
    for done in range(0, count, _BLOCK):
        steps = min(_BLOCK, count - done)
        part, length = step(steps)
        u = coordinate(dimension - 1, (steps, *draws), rng)
        yield part, np.broadcast_to(length, part.shape), u


def _one_pass(step, rates, shape, snapshots, dimension, draws, rng):
    """<w, e> after each number of examples in ``snapshots``, shape (snapshots, rhos, rates, runs)."""
    along, rest, seen, products = np.zeros(shape), np.zeros(shape), 0, []
    for last in snapshots:
        for part, length, u in _blocks(step, last - seen, dimension, draws, rng):
            for i in range(len(part)):
                seen += 1
                eta = rates / np.sqrt(seen)
                along = along - eta * part[i]
                across = eta * length[i]
                squared = np.maximum(rest**2 + across * (across - 2 * rest * u[i]), 0)
                shrink = 1 / np.sqrt(np.maximum(along**2 + squared, 1))
                along, rest = along * shrink, np.sqrt(squared) * shrink
        products.append(along.copy())
    return np.array(products)


def _noisy_means(step, rates, sigma, snapshots, dimension, draws, rng):
    """As :func:`_one_pass`: sums of gradients, and at each snapshot one release of the mean; sigma for the sum."""
    total, rest, seen, products = 0.0, 0.0, 0, []
    for last in snapshots:
        for part, length, u in _blocks(step, last - seen, dimension, draws, rng):
            for i in range(len(part)):
                rest = np.sqrt(np.maximum(rest**2 + length[i] * (length[i] - 2 * rest * u[i]), 0))
            total, seen = total - part.sum(axis=0), seen + len(part)
        released = total + sigma * rng.standard_normal(draws)
        squared = (rest + sigma * rng.standard_normal(draws)) ** 2
        if dimension > 2:
            squared = squared + sigma**2 * rng.chisquare(dimension - 2, draws)
        along, squared = rates * released / seen, rates**2 * squared / seen**2
        products.append(along / np.sqrt(np.maximum(along**2 + squared, 1)))
    return np.array(products)
