"""Logistic regression by objective perturbation, thousands of models at once, and exactly what it costs.

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

It holds for the exact minimiser in real numbers. The solver stops within 1e-10 of it (relative to max(1, |w|)) and
where the gradient that is left, by which b_D(w) is off, costs at most 1e-6 at the noise's rate; a model that has not
``converged`` is none. Noise and w are doubles, and the last digits of such numbers can leak (Mironov, CCS 2012): no
such proof covers them. Nor does it cover ``converged`` and ``gradient_norm``, which the records decide: w alone is
released.

An intercept is the coefficient of a constant feature 1. In the variants "sound" and "cms" it is an ordinary feature:
penalised like the others, and rows (x, 1) have norm at most sqrt(norm_bound^2 + 1). In the variant "diffprivlib" (the
library that paper B used, 0.6.6) it is free: no price bounds the leverage, epsilon is infinite, and for large noise
there is no minimiser at all. The models of one call share their rows but nothing else. Each is one release: k of them
on the same records cost k times their epsilon. Noise from a seed can be subtracted by whoever knows the seed;
``rng=None`` draws from the operating system's cryptographic source.
"""

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dplib import rdp
from dplib.checks import (
    ParameterError,
    array,
    boolean,
    bounded,
    described,
    generator,
    integer,
    number,
    numbers,
    one_of,
    reals,
    shaped,
    truths,
)

VARIANTS = ("sound", "cms", "diffprivlib")
NEIGHBOURS = ("replace", "add_remove")
LEAST, MOST = 1e-12, 1e12  # of budgets, prices and norms
UNTOLD = 1e-6  # gradient norm times noise_rate where the solver may stop: what is left of it in units of epsilon
ROUNDED = 1e-13  # of the norms of all rows together, a gradient that may be rounding
SLACK = 1e-6  # how far a row may exceed the norm bound, relatively: the rounding of rows clipped in single precision


@dataclass(frozen=True)
class Fit:
    """Models, one for each problem: every array begins with (problems,).

    Args:
        coef: shape (problems, d); 0 where a feature is masked.
        intercept: shape (problems,); +-inf where there is no minimiser.
        converged: whether the minimiser was found, within ``tol`` relative to max(1, |w|) and to a gradient of
            1e-6 / ``noise_rate``, shape (problems,). No release, nor is a model for which it is False.
        gradient_norm: of the perturbed objective, shape (problems,); over ``l2`` it bounds the distance from the
            minimiser. It tells of the records, and is no release.
        l2: the regularisation with the extra one, shape (problems,).
        noise_rate: beta of the noise density exp(-beta |b|), shape (problems,).
        epsilon: what one release costs, by :func:`privacy_loss`, shape (problems,); inf for a free intercept.
    """

    coef: np.ndarray
    intercept: np.ndarray
    converged: np.ndarray
    gradient_norm: np.ndarray
    l2: np.ndarray
    noise_rate: np.ndarray
    epsilon: np.ndarray

    def decision(self, x: ArrayLike) -> np.ndarray:
        """Log-odds of label 1, shape (problems, m).

        Args:
            x: rows, shape (m, d), finite.

        Raises:
            ParameterError: for other rows.
        """
        return self.coef @ shaped("x", x, "(n, d)", sizes=self.coef.shape[-1:]).T + self.intercept[..., None]

    def accuracy(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Share of the labels that each model predicts, shape (problems,).

        Args:
            x: rows, shape (m, d), finite.
            y: labels, shape (m,), 0 or 1.

        Raises:
            ParameterError: for other rows or labels.
        """
        right = self.decision(x) > 0
        return (right == truths("y", y, "(n)", sizes=right.shape[-1:])).mean(axis=-1)


@bounded(tol=number(1e-15, 1e-3), problems=integer(1, 10**7), rng=generator())
def fit(
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: ArrayLike,
    regularisation: ArrayLike = 1.0,
    norm_bound: ArrayLike = 1.0,
    rng: np.random.Generator | None,
    masks: np.ndarray | None = None,
    problems: int | None = None,
    intercept: bool = True,
    variant: str = "sound",
    neighbours: str = "replace",
    noise: np.ndarray | None = None,
    tol: float = 1e-10,
    device: str = "cpu",
) -> Fit:
    """Train private logistic regressions; everything marked (problems,) may be one number for all.

    Args:
        x: rows, shape (n, d), finite.
        y: labels, shape (n,), 0 or 1.
        epsilon: (problems,), in [1e-12, 1e12]: pure DP of each release; inf for a model without noise.
        regularisation: (problems,), in [1e-12, 1e12]: half of it times |w|^2 stands beside the *sum* of the losses.
        norm_bound: (problems,), in [1e-12, 1e12]: bound on the L2 norm of the rows of x, as masked, without the
            intercept's 1. It must come from domain knowledge or from clipping (``mechanisms.clip_rows``), not from a
            look at the norms.
        rng: a generator, or None for the operating system's cryptographic source.
        masks: bool, shape (problems, d): the features of each model. A choice made from the data is not covered.
        problems: how many models, where no argument has that shape.
        intercept: whether rows get a constant feature 1.
        variant: one of :data:`VARIANTS`, see :func:`calibrate`.
        neighbours: "replace" one record, or "add_remove" one; see :func:`calibrate`.
        noise: (problems, d + intercept), used instead of a draw: for tests and comparisons.
        tol: of :func:`dplib.newton.minimise`, in [1e-15, 1e-3]. The proof asks for the exact minimiser.
        device: "cpu"; "cuda"; or "auto", which is the processor: Newton's steps are small, and wait for each other.

    Raises:
        ParameterError: for a value outside these ranges, a label other than 0 and 1, a number that is not finite, a row
            above its norm bound. (That such an error depends on the records is not covered by epsilon.)
    """
    x, y = _data(x, y)
    boolean().check("intercept", intercept)
    n, d = x.shape
    epsilon = positive("epsilon", epsilon, infinite=True)
    regularisation, norm_bound = positive("regularisation", regularisation), positive("norm_bound", norm_bound)
    masks = None if masks is None else array("masks", masks)
    noise = None if noise is None else reals("noise", noise)
    for_each = {"epsilon": epsilon, "regularisation": regularisation, "norm_bound": norm_bound}
    count = _count(problems, for_each, {"masks": masks, "noise": noise})
    used = np.ones((count, d), dtype=bool) if masks is None else _mask(masks, (count, d))
    bound = np.broadcast_to(norm_bound, count)
    _check_norms(x, used, bound)
    r = np.sqrt(bound**2 + 1) if intercept else bound
    constants = calibrate(epsilon, regularisation, r, variant=variant, neighbours=neighbours)
    rate, extra = (np.broadcast_to(a, count) for a in (constants.noise_rate, constants.extra))
    l2 = regularisation + extra
    prices = np.repeat(l2[:, None], d + intercept, axis=1)
    leverage = r**2 / l2
    if intercept:
        x, used = np.hstack([x, np.ones((n, 1))]), np.hstack([used, np.ones((count, 1), dtype=bool)])
        if variant == "diffprivlib":
            prices[:, -1] = extra
            with np.errstate(divide="ignore"):
                leverage = bound**2 / l2 + 1 / extra
    if noise is None:
        noise = draw_noise(rate, used, rng)
    elif noise.shape != used.shape or not np.isfinite(noise).all():
        raise ParameterError(f"noise of shape {noise.shape} must be finite and of shape {used.shape}.")
    linear = np.where(used, noise - y @ x, 0.0)
    side = _unbounded(prices, linear, n) if intercept else np.zeros(count)
    most = np.maximum(UNTOLD / np.where(np.isinf(rate), 0.0, rate).clip(1e-100), ROUNDED * n * r)
    w, gradient_norm, converged = _solve(x, linear, prices, used, side, tol, most, device)
    return Fit(
        coef=w[:, :d],
        intercept=w[:, d] if intercept else np.zeros(count),
        converged=converged,
        gradient_norm=gradient_norm,
        l2=l2,
        noise_rate=rate,
        epsilon=np.where(np.isinf(rate), np.inf, privacy_loss(rate, r, leverage, neighbours=neighbours)),
    )


@bounded(noise_rate=numbers(1e-100, 1e100, infinite=True), rng=generator())
def draw_noise(noise_rate: np.ndarray, used: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Noise (problems, d) of density proportional to exp(-noise_rate |b|) on the used coordinates, 0 elsewhere.

    In k used coordinates that is a norm of Gamma(k, 1/noise_rate) and a uniform direction; 0 at rate inf.

    Args:
        noise_rate: beta, shape (problems,), in [1e-100, 1e100] or inf.
        used: bool, shape (problems, d).
        rng: a generator, or None for the operating system's cryptographic source.

    Raises:
        ParameterError: for a value outside its range.
    """
    used, noise_rate = truths("used", used, "(n, d)"), reals("noise_rate", noise_rate)
    if noise_rate.shape not in ((), (len(used),)):
        raise ParameterError(f"noise_rate of shape {noise_rate.shape} does not fit {len(used)} problems.")
    k = used.sum(axis=1)
    if rng is None:
        direction, norm = special.ndtri(_uniform(used.shape)), special.gammaincinv(np.maximum(k, 1), _uniform(len(k)))
    else:
        direction, norm = rng.standard_normal(used.shape), rng.standard_gamma(np.maximum(k, 1))
    direction = np.where(used, direction, 0.0)
    length = np.linalg.norm(direction, axis=1)
    return direction * (norm / noise_rate / np.where(length > 0, length, 1.0))[:, None]


def _uniform(shape) -> np.ndarray:
    """Uniform on (0, 1) from the operating system's cryptographic source: odd multiples of 2^-53, all of them floats.

    Twice as many would be rounded in the upper half, the last of them to 1, whose noise is infinite, and one to 1/2.
    """
    words = np.frombuffer(secrets.token_bytes(8 * int(np.prod(shape))), dtype=np.uint64)
    return (((words >> np.uint64(12)) + 0.5) * 2.0**-52).reshape(shape)


def _unbounded(prices, linear, n) -> np.ndarray:
    """Where the objective has no minimiser: the sign of infinity to which the intercept runs, 0 elsewhere.

    Along the intercept, with w finite, its slope runs from linear at -inf to linear + (number of records) at inf.
    """
    free = prices[:, -1] == 0
    return np.where(free & (linear[:, -1] + n <= 0), 1.0, np.where(free & (linear[:, -1] >= 0), -1.0, 0.0))


def _solve(x, linear, prices, used, side, tol, most, device) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """w, gradient norms, converged: by Newton's method; without a minimiser the limit, all sigmoids being 0 or 1."""
    from dplib import devices, newton  # they import PyTorch, which the formulas above do not need

    w, norm, converged = np.zeros(linear.shape), np.full(len(side), np.inf), np.zeros(len(side), dtype=bool)
    inside, none = np.flatnonzero(side == 0), np.flatnonzero(side)
    w[inside], norm[inside], converged[inside] = newton.minimise(
        x,
        linear[inside],
        prices[inside],
        used=used[inside],
        tol=tol,
        most=most[inside],
        device=devices.find_device(device),
    )
    slope = linear[none] + np.where(side[none] > 0, 1.0, 0.0)[:, None] * x.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        w[none] = np.where(used[none], -slope / prices[none], 0.0)
    w[none, -1] = side[none] * np.inf
    return w, norm, converged


def _data(x, y) -> tuple[np.ndarray, np.ndarray]:
    x, y = reals("x", x), reals("y", y)
    if x.ndim != 2 or y.shape != x.shape[:1] or 0 in x.shape:
        raise ParameterError(f"x of shape {x.shape} and y of shape {y.shape} must be (n, d) and (n,).")
    if not np.isfinite(x).all():
        raise ParameterError(f"x must be finite; row {np.flatnonzero(~np.isfinite(x).all(axis=1))[0]} is not.")
    if not np.isin(y, (0, 1)).all():
        raise ParameterError(f"y = {described(y)} is not allowed: labels must be 0 or 1.")
    return x, y


def _count(problems, for_each: dict[str, np.ndarray], tables: dict[str, np.ndarray | None]) -> int:
    """The number of problems that the arrays agree on: numbers (problems,) or (), and tables (problems, d) or (d,)."""
    for name, a in for_each.items():
        if a.ndim > 1:
            raise ParameterError(f"{name} of shape {a.shape} is not allowed: it must be one number, or (problems,).")
    arrays = {name: a for name, a in for_each.items() if a.ndim}
    arrays |= {name: a for name, a in tables.items() if a is not None and a.ndim > 1}
    count = problems or next((len(a) for a in arrays.values()), 1)
    for name, a in arrays.items():
        if len(a) != count:
            raise ParameterError(f"{name} has {len(a)} rows, where there are {count} problems.")
    return int(count)


def _mask(mask, shape: tuple[int, int]) -> np.ndarray:
    if mask.dtype != bool or mask.shape[-1:] != shape[1:] or mask.ndim > 2:
        raise ParameterError(f"masks of shape {mask.shape} must be bool, of shape {shape} or ({shape[1]},).")
    return np.broadcast_to(mask, shape)


def _check_norms(x, used, bound) -> None:
    """No row of a problem, with its features, may exceed its bound."""
    kinds, member = used[:1], np.zeros(len(used), dtype=int)
    if not (used == used[:1]).all():
        kinds, member = np.unique(used, axis=0, return_inverse=True)
    most = np.sqrt(x**2 @ kinds.T.astype(float)).max(axis=0)[member.ravel()]
    wrong = np.flatnonzero(most > bound * (1 + SLACK))
    if len(wrong):
        p = wrong[0]
        raise ParameterError(
            f"norm_bound = {bound[p]:g} is not allowed: a row is longer (problem {p}). Clip the rows "
            "(mechanisms.clip_rows) or raise the bound."
        )


@dataclass(frozen=True)
class Constants:
    """What a budget asks for.

    Args:
        noise_rate: beta of the noise density exp(-beta |b|); inf for no noise.
        extra: what is added to the regularisation (n Delta of CMS's Algorithm 2), >= 0.
    """

    noise_rate: np.ndarray
    extra: np.ndarray


def calibrate(
    epsilon: ArrayLike,
    regularisation: ArrayLike,
    norm_bound: ArrayLike,
    *,
    variant: str = "sound",
    neighbours: str = "replace",
) -> Constants:
    """The noise and the extra regularisation for a budget; arguments broadcast.

    As in CMS's Algorithm 2, the regularisation may have to grow until the determinant leaves half of the budget to the
    noise. CMS do so only when it would leave nothing, and accept unbounded noise shortly before; ``sound`` always does.

    Args:
        epsilon: in [1e-12, 1e12]; inf for no noise and no privacy.
        regularisation: l2 of every coefficient, in [1e-12, 1e12]: n Lambda of CMS, 1/C of scikit-learn.
        norm_bound: R, in [1e-12, 1e12], of a whole row, an intercept's constant included.
        variant: "sound": the largest noise rate with :func:`privacy_loss` at most epsilon. "cms": CMS, Algorithm 2
            (Theorem 9), with curvature R^2/4 and slope R where they have c and 1: sound too, with more noise.
            "diffprivlib": as diffprivlib 0.6.6, with curvature R/4: not sound for R > 1.
        neighbours: "replace" one record, or "add_remove" one (``sound`` only).

    Raises:
        ParameterError: for a value outside its range, shapes that do not fit, or neighbours that the variant is not
            defined for.
    """
    one_of(*VARIANTS).check("variant", variant)
    one_of(*NEIGHBOURS).check("neighbours", neighbours)
    if neighbours != "replace" and variant != "sound":
        raise ParameterError(f"variant = {variant!r} is defined for replaced records only (neighbours = 'replace').")
    epsilon = positive("epsilon", epsilon, infinite=True)
    regularisation = positive("regularisation", regularisation)
    norm_bound = positive("norm_bound", norm_bound)
    epsilon, l2, r = rdp.together(epsilon, regularisation, norm_bound)
    if variant == "sound":
        return _sound(epsilon, l2, r, neighbours)
    curvature = 0.25 * r**2 if variant == "cms" else 0.25 * r
    left = epsilon - 2 * np.log1p(curvature / l2)  # epsilon' of Algorithm 2, step 1
    short = left <= 0
    with np.errstate(over="ignore"):
        extra = np.where(short, curvature / np.expm1(epsilon / 4) - l2, 0.0)
    return Constants(np.where(short, epsilon / 2, left) / (2 * r), extra)


@bounded(
    noise_rate=numbers(1e-100, 1e100, infinite=True),
    norm_bound=numbers(1e-50, 1e50),
    leverage=numbers(1e-100, 1e100, infinite=True),
)
def privacy_loss(
    noise_rate: ArrayLike, norm_bound: ArrayLike, leverage: ArrayLike, *, neighbours: str = "replace"
) -> float | np.ndarray:
    """The epsilon that a noise rate spends: the exact supremum over data sets of any size (module docstring). Arguments
    broadcast.

    It is attained in the limit from two dimensions on (from one, when a record is added or removed).

    Args:
        noise_rate: beta, in [1e-100, 1e100] or inf.
        norm_bound: R, in [1e-50, 1e50].
        leverage: the max over rows of norm R of x^T diag(l2)^-1 x: R^2 / l2 for one l2; inf where an l2 is 0.
        neighbours: "replace" or "add_remove".

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    one_of(*NEIGHBOURS).check("neighbours", neighbours)
    noise_rate, norm_bound, leverage = rdp.arrays(noise_rate=noise_rate, norm_bound=norm_bound, leverage=leverage)
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


def positive(name: str, values: ArrayLike, infinite: bool = False) -> np.ndarray:
    """Values as a float array.

    Args:
        name: what the message calls them.
        values: a number or an array of them.
        infinite: inf is allowed as well.

    Raises:
        ParameterError: for a value outside [1e-12, 1e12], one that is inf where that is not allowed, or a masked array.
    """
    given = array(name, values)
    is_number = given.dtype.kind in "iuf"
    inside = (given >= LEAST) & (given <= MOST) | (infinite & np.isinf(given) & (given > 0)) if is_number else False
    wrong = ~np.asarray(inside)
    if wrong.any():
        shown = given[wrong].flat[0] if is_number and given.ndim else repr(values)[:60]
        allowed = f"greater than 0, in [{LEAST:g}, {MOST:g}]" + (", or inf for no noise" if infinite else "")
        raise ParameterError(f"{name} = {shown} is not allowed: it must be {allowed}.")
    return given.astype(float)
