"""Many small logistic problems at once, in float64: what they share is done once, then batched Newton.

Problem p minimises over w in R^d

    f_p(w) = sum_i weights_pi log(1 + exp(x_i . w)) + linear_p . w + 1/2 sum_j l2_pj w_j^2.

All problems share the rows x_i. Labels are in ``linear`` (they enter the logistic loss as - sum_i y_i x_i . w), and so
is the noise of objective perturbation. Three things make it fast before the first step (:mod:`dplib.newton_batch` has
the steps):

- problems with the same features form a group, and equal rows of those features count once, with a weight;
- in a group, the directions that no row touches (one-hot columns have as many as attributes) are solved for in closed
  form, and Newton runs in the row space, along the principal axes;
- problems with other features each share a batch too: a feature that one of them does not use has an enormous price.
"""

from dataclasses import dataclass

import numpy as np

from dplib.newton_batch import HUGE, in_batches

SHARED = 32  # from so many problems with the same features on, they are a group of their own
MIXED = 256  # problems of different features in one batch


@dataclass(frozen=True)
class Minimum:
    """What :func:`minimise` found, one row for each problem.

    Attributes:
        w: shape (problems, d); exactly 0 where a feature is not used.
        gradient_norm: shape (problems,), the L2 norm of the gradient of f at w. Where every l2 >= c > 0, w is within
            gradient_norm / c of the minimiser, by strong convexity.
        iterations: shape (problems,), Newton steps taken.
        converged: shape (problems,), whether w is within ``tol`` of the minimiser: by that bound, or by the length of
            the Newton step that would be next.
    """

    w: np.ndarray
    gradient_norm: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray


def minimise(x, linear, l2, *, used=None, rows=None, tol=1e-10, max_iter=200, device="cpu") -> Minimum:
    """Minimise f_p for each problem p.

    Every step decreases f_p (:func:`dplib.newton_batch.step`), which is strongly convex where l2 > 0: Newton's method
    converges from everywhere. ``max_iter`` ends what rounding keeps from converging, such as l2 = 1e-8 with w = 1e8.

    Args:
        x: shape (n, d), finite.
        linear: shape (problems, d).
        l2: shape (problems, d), > 0; 0 is allowed for a constant column where a minimiser exists.
        used: bool, shape (problems, d), the features of each problem; None for all.
        rows: bool, shape (problems, n), the rows of each problem; None for all.
        tol: distance from the minimiser at which a problem is done, relative to max(1, |w|).
        max_iter: Newton steps after which a problem is given up.
        device: where torch computes.
    """
    x, linear, l2 = (np.asarray(a, dtype=float) for a in (x, linear, l2))
    used = np.ones(linear.shape, dtype=bool) if used is None else np.asarray(used, dtype=bool)
    w, norm = np.zeros_like(linear), np.zeros(len(linear))
    iterations, converged = np.zeros(len(linear), dtype=int), np.zeros(len(linear), dtype=bool)
    for problems, shared in _groups(np.hstack([used, l2 > 0])):
        columns = np.flatnonzero(used[problems].any(axis=0))
        own = used[np.ix_(problems, columns)]
        xs, counts = _distinct(x[:, columns]) if rows is None else (x[:, columns], None)
        weights = counts[None] if rows is None else rows[problems].astype(float)
        b = np.where(own, linear[np.ix_(problems, columns)], 0.0)
        price = np.where(own, l2[np.ix_(problems, columns)], HUGE)
        found = (_reduced if shared and len(columns) else _plain)(xs, weights, b, price, tol, max_iter, device)
        w[np.ix_(problems, columns)] = np.where(own, found[0], 0.0)
        norm[problems], iterations[problems], converged[problems] = found[1:]
    return Minimum(w, norm, iterations, converged)


def _groups(kind: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Problems of the same kind (features, and which are penalised) together, True; the others by size, False."""
    if (kind == kind[:1]).all():
        return [(np.arange(len(kind)), True)]
    _, member, count = np.unique(np.packbits(kind, axis=1), axis=0, return_inverse=True, return_counts=True)
    member = member.ravel()
    order, ends = np.argsort(member, kind="stable"), np.cumsum(count)
    groups = [(order[end - size : end], True) for end, size in zip(ends, count, strict=True) if size >= SHARED]
    rest = np.flatnonzero(count[member] < SHARED)
    rest = rest[np.argsort(kind[rest].sum(axis=1), kind="stable")]
    return groups + [(part, False) for part in np.array_split(rest, -(-len(rest) // MIXED) or 1) if len(part)]


def _distinct(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows and how often each occurs.

    Rows are told apart by one random projection, and what it takes for equal is compared: rounding or a coincidence
    costs time, but nothing else.
    """
    key = x @ np.random.default_rng(0).standard_normal(x.shape[1])
    _, first, member, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == len(x) or not np.array_equal(x, x[first[member]]):
        return x, np.ones(len(x))
    return x[first], count.astype(float)


def _plain(x, weights, b, l2, tol, max_iter, device):
    """In the given coordinates, from 0 or from the minimiser without any row, whichever is lower."""
    bare = np.divide(-b, l2, out=np.zeros_like(b), where=l2 > 0)
    return in_batches(x, weights, b, l2, (bare, np.zeros_like(b)), tol, max_iter, device)


def _reduced(x, weights, b, l2, tol, max_iter, device):
    """In the row space of x, for problems that use all columns.

    Columns that have one l2 per problem are rotated to the principal axes of x; l2 does not change. An axis v with
    x v = 0 leaves linear and quadratic terms only, whose minimum is known. Another column (an intercept with a price
    of its own) stays as it is; where it is free, the others are centred, which moves a part of w to the intercept.
    """
    alike = (l2 == l2[:, :1]).all(axis=0)
    rest, ridge, counts = np.flatnonzero(~alike), l2[:, :1], weights.mean(axis=0)
    xs, bs, centre = x[:, alike], b[:, alike], np.zeros((alike.sum(), len(rest)))
    if len(rest) == 1 and (l2[:, rest] == 0).all():
        centre = (counts @ xs / counts.sum())[:, None]
        xs, bs = xs - x[:, rest] @ centre.T, bs - b[:, rest] @ centre.T
    curvature, axes = np.linalg.eigh((xs.T * counts) @ xs)
    empty = np.abs(xs @ axes).max(axis=0) <= 1e-12 * np.abs(x).max()
    basis = axes[:, ~empty]
    rows = np.hstack([xs @ basis, x[:, rest]])
    linear = np.hstack([bs @ basis, b[:, rest]])
    price = np.hstack([np.broadcast_to(ridge, (len(b), basis.shape[1])), l2[:, rest]])
    # Two starts: the minimiser without any row (right for much noise), and Newton's step from 0, where every
    # curvature of the loss is 1/4 and the Hessian is diagonal in these axes (but for an intercept that is not free).
    bare = np.divide(-linear, price, out=np.zeros_like(linear), where=price > 0)
    first = -(linear + weights @ rows / 2) / (price + np.append(curvature[~empty], counts @ x[:, rest] ** 2) / 4)
    found, *report = in_batches(rows, weights, linear, price, (bare, first), tol, max_iter, device)
    w, r = np.empty_like(b), basis.shape[1]
    w[:, alike] = found[:, :r] @ basis.T - (bs - linear[:, :r] @ basis.T) / ridge
    w[:, rest] = found[:, r:] - w[:, alike] @ centre
    return w, *report
