"""Logistic regression by objective perturbation, thousands of models at once (Chaudhuri, Monteleoni, Sarwate 2011).

    w = argmin  sum_i log(1 + exp(-+ x_i . w)) + (regularisation + extra)/2 |w|^2 + b . w,   b random:

minimise exactly, once, an objective with a random slope. Constants, noise density and the proof of pure differential
privacy are in :mod:`dplib.objpert_privacy`; the solver is :mod:`dplib.newton`.

An intercept is the coefficient of a constant feature 1. In the variants "sound" and "cms" it is an ordinary feature:
penalised like the others, and rows (x, 1) have norm at most sqrt(norm_bound^2 + 1). In the variant "diffprivlib" (the
library that paper B used, 0.6.6) it is free: no price bounds the leverage, epsilon is infinite, and for large noise
there is no minimiser at all. The models of one call share their rows but nothing else: noise, budget, regularisation,
norm bound, features and which rows are their own.

Each model of a call is one release: k of them on the same records cost k times their epsilon. Noise from a seed can be
subtracted by whoever knows the seed; ``rng=None`` draws from the operating system's cryptographic source.
"""

import dataclasses
import secrets
from dataclasses import dataclass

import numpy as np
from scipy import special

from dplib import newton
from dplib.checks import ParameterError, boolean, integer
from dplib.objpert_privacy import Constants, calibrate, log_density, positive, privacy_loss

__all__ = ["Constants", "Fit", "calibrate", "draw_noise", "fit", "fit_one_vs_rest", "log_density", "privacy_loss"]

SLACK = 1e-6  # how far a row may exceed the norm bound, relatively: the rounding of rows clipped in single precision


@dataclass(frozen=True)
class Fit:
    """Models, one for each problem; leading shapes are (problems,), or (problems, classes) of :func:`fit_one_vs_rest`.

    Attributes:
        coef: shape (..., d); 0 where a feature is masked.
        intercept: shape (...,); 0 without an intercept, +-inf where there is no minimiser.
        converged: whether the minimiser was found, within ``tol`` relative to max(1, |w|).
        gradient_norm: L2 norm of the gradient of the perturbed objective; over ``l2`` it bounds the distance from the
            minimiser.
        l2: the regularisation with the extra one.
        noise_rate: beta of the noise density exp(-beta |b|).
        epsilon: what one release costs, by :func:`privacy_loss`: at most the epsilon asked for in the sound variants;
            inf for a free intercept.
    """

    coef: np.ndarray
    intercept: np.ndarray
    converged: np.ndarray
    gradient_norm: np.ndarray
    l2: np.ndarray
    noise_rate: np.ndarray
    epsilon: np.ndarray

    def decision(self, x) -> np.ndarray:
        """Log-odds of label 1, shape (..., m) for x of shape (m, d); with classes, the largest one is predicted."""
        return self.coef @ np.asarray(x, dtype=float).T + self.intercept[..., None]

    def accuracy(self, x, y) -> np.ndarray:
        """Share of the labels y, shape (m,), that each model predicts from x: shape (problems,)."""
        scores = self.decision(x)
        predicted = scores > 0 if self.intercept.ndim == 1 else scores.argmax(axis=1)
        return (predicted == np.asarray(y)).mean(axis=-1)


def fit(
    x,
    y,
    *,
    epsilon,
    regularisation=1.0,
    norm_bound=1.0,
    rng,
    masks=None,
    rows=None,
    problems=None,
    intercept=True,
    variant="sound",
    neighbours="replace",
    noise=None,
    tol=1e-10,
    max_iter=200,
    device="auto",
) -> Fit:
    """Train private logistic regressions; everything marked (problems,) may be one number for all.

    Args:
        x: shape (n, d), finite.
        y: shape (n,) or (problems, n): 0 or 1.
        epsilon: (problems,), > 0: pure DP of each release; inf for a model without noise.
        regularisation: (problems,), > 0: half of it times |w|^2 stands beside the *sum* of the losses. It is 1/C of
            scikit-learn and diffprivlib, n Lambda of the paper.
        norm_bound: (problems,), > 0: bound on the L2 norm of the rows of x, as masked, without the intercept's 1. It
            must come from domain knowledge or from clipping (``preprocess.clip_rows``), not from a look at the norms.
        rng: a generator, or None for the operating system's cryptographic source.
        masks: bool, shape (problems, d): the features of each model. A choice made from the data is not covered.
        rows: bool, shape (problems, n): the records of each model.
        problems: how many models, where no argument has that shape.
        intercept: whether rows get a constant feature 1.
        variant: "sound", "cms" or "diffprivlib": see :func:`calibrate` and above.
        neighbours: "replace" (one record for another) or "add_remove" (``sound`` only).
        noise: (problems, d + intercept), used instead of a draw: for tests and comparisons.
        tol, max_iter: of :func:`dplib.newton.minimise`. The proof asks for the exact minimiser.
        device: "auto" (a GPU where there is one), "cpu" or "cuda".

    Raises:
        ParameterError: for a value outside these ranges, a label other than 0 and 1, a number that is not finite, a row
            above its norm bound. (That such an error depends on the records is not covered by epsilon.)
    """
    x, y = _data(x, y)
    boolean().check("intercept", intercept)
    n, d = x.shape
    given = {"epsilon": (epsilon, 0), "regularisation": (regularisation, 0), "norm_bound": (norm_bound, 0)}
    given |= {"masks": (masks, 1), "rows": (rows, 1), "noise": (noise, 1), "y": (y, 1)}
    count = _count(problems, {name: np.asarray(a) for name, (a, rest) in given.items() if np.ndim(a) > rest})
    used = np.ones((count, d), dtype=bool) if masks is None else _mask("masks", masks, (count, d))
    rows = None if rows is None else _mask("rows", rows, (count, n))
    bound = np.broadcast_to(positive("norm_bound", norm_bound), count)
    _check_norms(x, used, rows, bound)
    r = np.sqrt(bound**2 + 1) if intercept else bound
    constants = calibrate(epsilon, regularisation, r, variant=variant, neighbours=neighbours)
    rate, extra = (np.broadcast_to(a, count) for a in (constants.noise_rate, constants.extra))
    l2 = np.asarray(regularisation, dtype=float) + extra
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
    elif np.shape(noise) != used.shape or not np.isfinite(noise).all():
        raise ParameterError(f"noise of shape {np.shape(noise)} must be finite and of shape {used.shape}.")
    linear = np.where(used, np.asarray(noise, dtype=float) - _label_sums(x, y, rows), 0.0)
    side = _unbounded(prices, linear, rows, n) if intercept else np.zeros(count)
    from dplib.sgd import find_device  # PyTorch takes seconds to import

    found = _solve(x, linear, prices, used, rows, side, tol, max_iter, find_device(device))
    return Fit(
        coef=found.w[:, :d],
        intercept=found.w[:, d] if intercept else np.zeros(count),
        converged=found.converged,
        gradient_norm=found.gradient_norm,
        l2=l2,
        noise_rate=rate,
        epsilon=np.where(np.isinf(rate), np.inf, privacy_loss(rate, r, leverage, neighbours=neighbours)),
    )


def fit_one_vs_rest(x, y, *, n_classes, epsilon, problems=1, noise=None, rng, **settings) -> Fit:
    """Multi-class models: one binary model for each class against the rest, each with epsilon / n_classes.

    As diffprivlib does. (Two classes need one binary model with all of epsilon: :func:`fit`.)

    Args:
        x: shape (n, d). y: shape (n,), whole numbers from 0 to n_classes - 1.
        n_classes: at least 3; known without the records.
        problems: how many multi-class models.
        settings: of :func:`fit`, one value for all.

    Returns:
        A :class:`Fit` of leading shape (problems, n_classes); its ``epsilon`` is that of each binary model.
    """
    integer(3).check("n_classes", n_classes)
    integer(1).check("problems", problems)
    positive("epsilon", epsilon, infinite=True)
    y = np.asarray(y)
    if y.ndim != 1 or not np.isin(y, np.arange(n_classes)).all():
        raise ParameterError(f"y must be of shape (n,) and hold whole numbers from 0 to {n_classes - 1}.")
    labels = np.tile(y == np.arange(n_classes)[:, None], (problems, 1))
    one = fit(x, labels, epsilon=epsilon / n_classes, noise=noise, rng=rng, **settings)
    shaped = {f.name: getattr(one, f.name) for f in dataclasses.fields(one)}
    return Fit(**{name: a.reshape(problems, n_classes, *a.shape[1:]) for name, a in shaped.items()})


def draw_noise(noise_rate, used, rng) -> np.ndarray:
    """Noise of density proportional to exp(-noise_rate |b|) on the used coordinates, 0 elsewhere and at rate inf.

    Args:
        noise_rate: shape (problems,).
        used: bool, shape (problems, d).
        rng: a generator, or None for the operating system's cryptographic source.

    Returns:
        Shape (problems, d): in k used coordinates, a norm of Gamma(k, 1/noise_rate) and a uniform direction.
    """
    used = np.asarray(used, dtype=bool)
    k = used.sum(axis=1)
    if rng is None:
        direction, norm = special.ndtri(_uniform(used.shape)), special.gammaincinv(np.maximum(k, 1), _uniform(len(k)))
    else:
        direction, norm = rng.standard_normal(used.shape), rng.standard_gamma(np.maximum(k, 1))
    direction = np.where(used, direction, 0.0)
    length = np.linalg.norm(direction, axis=1)
    return direction * (norm / noise_rate / np.where(length > 0, length, 1.0))[:, None]


def _uniform(shape) -> np.ndarray:
    """Uniform on (0, 1) from the operating system's cryptographic source, in steps of 2^-53."""
    words = np.frombuffer(secrets.token_bytes(8 * int(np.prod(shape))), dtype=np.uint64)
    return (((words >> np.uint64(11)) + 0.5) * 2.0**-53).reshape(shape)


def _label_sums(x, y, rows) -> np.ndarray:
    """sum_i y_i x_i over the rows of each problem."""
    return (y if rows is None else rows * y) @ x


def _unbounded(prices, linear, rows, n) -> np.ndarray:
    """Where the objective has no minimiser: the sign of infinity to which the intercept runs, 0 elsewhere.

    Along the intercept, with w finite, its slope runs from linear at -inf to linear + (number of records) at inf.
    """
    most = n if rows is None else rows.sum(axis=1)
    free = prices[:, -1] == 0
    return np.where(free & (linear[:, -1] + most <= 0), 1.0, np.where(free & (linear[:, -1] >= 0), -1.0, 0.0))


def _solve(x, linear, prices, used, rows, side, tol, max_iter, device) -> newton.Minimum:
    """Newton's method where there is a minimiser; elsewhere the limit, where all sigmoids are 0 or 1."""
    own = np.flatnonzero(side == 0)
    part = None if rows is None else rows[own]
    found = newton.minimise(
        x, linear[own], prices[own], used=used[own], rows=part, tol=tol, max_iter=max_iter, device=device
    )
    if len(own) == len(side):
        return found
    w, norm = np.zeros(linear.shape), np.zeros(len(side))
    steps, converged = np.zeros(len(side), dtype=int), np.zeros(len(side), dtype=bool)
    w[own], norm[own], steps[own], converged[own] = found.w, found.gradient_norm, found.iterations, found.converged
    for p in np.flatnonzero(side):
        total = (x if rows is None else x[rows[p]]).sum(axis=0) if side[p] > 0 else 0.0
        w[p, :-1] = np.where(used[p], -(linear[p] + total), 0.0)[:-1] / prices[p, :-1]
        w[p, -1], norm[p] = side[p] * np.inf, np.inf
    return newton.Minimum(w, norm, steps, converged)


def _data(x, y) -> tuple[np.ndarray, np.ndarray]:
    try:
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError("x and y must be arrays of numbers.") from None
    if x.ndim != 2 or y.ndim not in (1, 2) or y.shape[-1:] != x.shape[:1] or 0 in x.shape:
        raise ParameterError(
            f"x of shape {x.shape} and y of shape {y.shape} must be (n, d), and (n,) or (problems, n)."
        )
    if not np.isfinite(x).all():
        raise ParameterError(f"x must be finite; row {np.flatnonzero(~np.isfinite(x).all(axis=1))[0]} is not.")
    if not np.isin(y, (0, 1)).all():
        wrong = y[~np.isin(y, (0, 1))].flat[0]
        raise ParameterError(f"y = {wrong:g} is not allowed: labels must be 0 or 1.")
    return x, y


def _count(problems, arrays: dict[str, np.ndarray]) -> int:
    """The number of problems that the arrays agree on."""
    if problems is not None:
        integer(1).check("problems", problems)
    count = problems or next((len(a) for a in arrays.values()), 1)
    for name, a in arrays.items():
        if len(a) != count:
            raise ParameterError(f"{name} has {len(a)} rows, where there are {count} problems.")
    return int(count)


def _mask(name: str, mask, shape: tuple[int, int]) -> np.ndarray:
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape[-1:] != shape[1:] or mask.ndim > 2:
        raise ParameterError(f"{name} of shape {mask.shape} must be bool, of shape {shape} or ({shape[1]},).")
    return np.broadcast_to(mask, shape)


def _check_norms(x, used, rows, bound) -> None:
    """No row of a problem, with its features, may exceed its bound."""
    alike = (used == used[:1]).all()
    kinds, member = (
        (used[:1], np.zeros(len(used), dtype=int)) if alike else np.unique(used, axis=0, return_inverse=True)
    )
    member = member.ravel()
    norms = np.sqrt(x**2 @ kinds.T.astype(float))  # (n, kinds)
    most = (
        norms.max(axis=0)[member]
        if rows is None
        else np.array([norms[rows[p], k].max(initial=0.0) for p, k in enumerate(member)])
    )
    wrong = np.flatnonzero(most > bound * (1 + SLACK))
    if len(wrong):
        p = wrong[0]
        raise ParameterError(
            f"norm_bound = {bound[p]:g} is not allowed: a row has norm {most[p]:g} (problem {p}). Clip the rows "
            "(preprocess.clip_rows) or raise the bound."
        )
