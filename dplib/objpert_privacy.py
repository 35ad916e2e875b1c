"""What objective perturbation costs: the noise that a budget asks for, and the budget that a noise spends, exactly.

Released is the minimiser w of the perturbed objective

    sum_i [log(1 + exp(x_i . w)) - y_i x_i . w] + 1/2 sum_j l2_j w_j^2 + b . w,

with rows of L2 norm at most R, labels y_i of 0 or 1, prices l2_j > 0 that no record decides, and noise b of density
proportional to exp(-beta |b|) (``noise_rate`` beta: its norm is Gamma(d, 1/beta), its direction uniform). Sums, not
means: with n records, l2 = n Lambda of Chaudhuri, Monteleoni and Sarwate (JMLR 2011; CMS), and 1/C of scikit-learn.

Why that is private. With s_i = 1/(1 + exp(-x_i . w)), the gradient is 0 at w exactly when

    b = b_D(w) := - sum_i (s_i - y_i) x_i - l2 w,

so w and b determine each other, and w has the density p_D(w) = const exp(-beta |b_D(w)|) det H_D(w), where
H_D = sum_i s_i (1 - s_i) x_i x_i^T + diag(l2) is minus the derivative of b_D (CMS, proof of Theorem 9). Let one record
(x, y) more make D out of a set with Hessian A, and let u = |s - y|. Then

- b moves by u |x| <= u R;
- det H_D / det A = 1 + u (1 - u) x^T A^-1 x, by the determinant lemma: the record's curvature s(1 - s) is u(1 - u). As
  A >= diag(l2), the factor lies between 1 and 1 + u (1 - u) k with the leverage k = max over rows of x^T diag(l2)^-1 x,
  which is R^2/l2 when all prices are equal. (Kifer, Smith and Thakurta, COLT 2012, also use that it is a matrix of
  rank one. CMS treat a replacement as rank two and pay for two such factors, each at u(1 - u) = 1/4.)

One u is in both, so a record that is added costs max over u of beta R u + log(1 + u (1 - u) k), and a record that is
removed at most beta R. A replacement is one of each:

    epsilon(beta, k) = [beta R, for a replacement] + max over u in [0, 1] of (beta R u + log(1 + u (1 - u) k)).

This is :func:`privacy_loss`; pure DP, nothing in it is asymptotic. It is never more than CMS's bound
2 beta R + 2 log(1 + k/4), and data sets come as near to it as one likes (the tests have one for each relation). Where
beta R >= k the maximum is at u = 1: a record that pulls with all its might has no curvature; the determinant is free.

It holds for the exact minimiser in real numbers. The solver stops within 1e-10 of it (relative to max(1, |w|)), noise
and w are doubles, and the last digits of such numbers can leak (Mironov, CCS 2012): no such proof covers them.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from dplib.checks import ParameterError, one_of

VARIANTS = ("sound", "cms", "diffprivlib")
NEIGHBOURS = ("replace", "add_remove")


@dataclass(frozen=True)
class Constants:
    """Constants of the mechanism, each a number or an array.

    Attributes:
        noise_rate: beta of the noise density exp(-beta |b|).
        extra: what is added to the regularisation (n Delta of CMS's Algorithm 2).
    """

    noise_rate: np.ndarray
    extra: np.ndarray


def calibrate(epsilon, regularisation, norm_bound, *, variant="sound", neighbours="replace") -> Constants:
    """The noise and the extra regularisation for a budget; arguments broadcast.

    As in CMS's Algorithm 2, the regularisation may have to grow until the determinant leaves half of the budget to the
    noise. CMS do so only when it would leave nothing, and accept unbounded noise shortly before; ``sound`` always does.

    Args:
        epsilon: > 0; inf for no noise and no privacy.
        regularisation: l2 of every coefficient, > 0: n Lambda of CMS, 1/C of scikit-learn.
        norm_bound: R > 0, of a whole row, an intercept's constant included.
        variant: "sound": the largest noise rate with :func:`privacy_loss` at most epsilon.
            "cms": CMS, Algorithm 2 (Theorem 9), with curvature R^2/4 and slope R where they have c and 1. Sound too,
            with more noise.
            "diffprivlib": as diffprivlib 0.6.6 (``Vector`` mechanism), with curvature R/4. Not sound for R > 1.
        neighbours: "replace" one record, or "add_remove" one (``sound`` only).

    Raises:
        ParameterError: for a value outside these ranges.
    """
    one_of(*VARIANTS).check("variant", variant)
    one_of(*NEIGHBOURS).check("neighbours", neighbours)
    if neighbours != "replace" and variant != "sound":
        raise ParameterError(f"variant = {variant!r} is defined for replaced records only (neighbours = 'replace').")
    epsilon = positive("epsilon", epsilon, infinite=True)
    regularisation = positive("regularisation", regularisation)
    norm_bound = positive("norm_bound", norm_bound)
    epsilon, l2, r = np.broadcast_arrays(epsilon, regularisation, norm_bound)
    if variant == "sound":
        return _sound(epsilon, l2, r, neighbours)
    curvature = 0.25 * r**2 if variant == "cms" else 0.25 * r
    left = epsilon - 2 * np.log1p(curvature / l2)  # epsilon' of Algorithm 2, step 1
    short = left <= 0
    with np.errstate(over="ignore"):
        extra = np.where(short, curvature / np.expm1(epsilon / 4) - l2, 0.0)
    return Constants(np.where(short, epsilon / 2, left) / (2 * r), extra)


def privacy_loss(noise_rate, norm_bound, leverage, *, neighbours="replace"):
    """The epsilon that a noise rate spends: the exact supremum over data sets of any size (module docstring).

    It is attained in the limit from two dimensions on (from one, when a record is added or removed).

    Args:
        noise_rate: beta > 0.
        norm_bound: R > 0.
        leverage: max over rows of norm R of x^T diag(l2)^-1 x: R^2 / l2 for one l2; inf where an l2 is 0.
        neighbours: "replace" or "add_remove".
    """
    one_of(*NEIGHBOURS).check("neighbours", neighbours)
    noise_rate, norm_bound, leverage = (np.asarray(a, dtype=float) for a in (noise_rate, norm_bound, leverage))
    pull = noise_rate * norm_bound
    return (_added(pull, leverage) + (pull if neighbours == "replace" else 0.0))[()]


def _added(pull, leverage):
    """max over u in [0, 1] of pull u + log(1 + u (1 - u) leverage), where the derivative is 0 or at u = 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c = 1 + 4 / leverage
        # The root of u^2 - (1 - 2/pull) u - (1/leverage + 1/pull), written without cancellation.
        u = np.minimum(1, 0.5 * (1 + c / (np.sqrt(c + 4 / pull**2) + 2 / pull)))
        return np.where(np.isinf(leverage), np.inf, pull * u + np.log1p(u * (1 - u) * leverage))


def _sound(epsilon, l2, r, neighbours) -> Constants:
    """Noise and regularisation of variant "sound": roots of the exact loss, by bisection from the private side."""
    times = 2 if neighbours == "replace" else 1  # the loss is at least times beta R
    finite = np.where(np.isinf(epsilon), 1.0, epsilon)
    least = finite / (2 * times)  # beta R at which the noise takes half of the budget
    removed = least * (times - 1)
    enough = removed + _added(least, r**2 / l2) <= finite
    # Where half of the budget is too little for the determinant, the regularisation grows: k between what one u(1 - u)
    # of 1/4 would allow and R^2/l2.
    with np.errstate(over="ignore"):
        low, high = 4 * np.expm1(finite - removed - least), r**2 / l2
    low = np.minimum(low, high)
    for _ in range(100):
        middle = np.sqrt(low) * np.sqrt(high)
        private = removed + _added(least, middle) <= finite
        low, high = np.where(private, middle, low), np.where(private, high, middle)
    extra = np.where(enough, 0.0, r**2 / low - l2)
    low, high = least, 2 * least
    for _ in range(60):
        middle = (low + high) / 2
        private = middle * (times - 1) + _added(middle, r**2 / l2) <= finite
        low, high = np.where(private, middle, low), np.where(private, high, middle)
    pull = np.where(enough, np.where(_added(2 * least, r**2 / l2) <= 2 * least, 2 * least, low), least)
    none = np.isinf(epsilon)
    return Constants(np.where(none, np.inf, pull / r), np.where(none, 0.0, extra))


def log_density(w, x, y, noise_rate, l2, counts=1.0):
    """Logarithm of the density of the released w, up to a constant that depends on beta and d only.

    Args:
        w: shape (m, d), points of the output space.
        x: shape (n, d), n >= 0; an intercept is a constant column.
        y: shape (n,), 0 or 1.
        noise_rate: beta, a number.
        l2: a number or shape (d,), prices with the extra one included.
        counts: shape (n,), how often each record occurs.

    Returns:
        Shape (m,): -beta |b_D(w)| + log det H_D(w). The difference for two neighbouring data sets is the privacy loss
        at w.
    """
    w, x, y = (np.asarray(a, dtype=float) for a in (w, x, y))
    prices = np.broadcast_to(np.asarray(l2, dtype=float), w.shape[1:])
    away = special.expit(np.where(y > 0, -1.0, 1.0) * (w @ x.T))  # |s - y|: 1 - s would drown for large margins
    b = (counts * away * np.where(y > 0, 1.0, -1.0)) @ x - prices * w
    hessian = np.einsum("mi,ij,ik->mjk", counts * away * (1 - away), x, x) + np.diag(prices)
    return -noise_rate * np.linalg.norm(b, axis=1) + np.linalg.slogdet(hessian)[1]


def positive(name: str, values, infinite: bool = False) -> np.ndarray:
    """The values as a float array; ParameterError for one that is not above 0, or is inf where that is not allowed."""
    array = np.asarray(values)
    number = array.dtype.kind in "iuf"
    wrong = ~(array > 0) | (np.isinf(array) & (not infinite)) if number else np.array(True)
    if wrong.any():
        shown = array[wrong].flat[0] if number and array.ndim else repr(values)
        allowed = "greater than 0 (inf for no noise)" if infinite else "a finite number greater than 0"
        raise ParameterError(f"{name} = {shown} is not allowed: it must be {allowed}.")
    return array.astype(float)
