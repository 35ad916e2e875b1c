"""Many small logistic problems at once, by Newton's method in float64.

Problem p minimises over w in R^d

    f_p(w) = sum_i log(1 + exp(x_i . w)) + linear_p . w + 1/2 sum_j l2_pj w_j^2.

All problems share the rows x_i. Labels are in ``linear`` (they enter the logistic loss as - sum_i y_i x_i . w), and so
is the noise of objective perturbation. Many problems with the same features are solved together, where equal rows of
these features count once, with a weight. All Hessians of a batch come out of one product, (problems, n) by (n, d^2).

Of a batch, z = x . w are the margins, shape (problems, n), s = sigmoid(z), g is the gradient of f, (problems, d), and p
the step, H p = -g.

*Every step lowers f.* Let phi(t) = f(w + t p) and let no margin move by more than r on the whole step. The loss has
|third derivative| <= second derivative, so that phi'' grows by a factor of e^(rt) at most, and for r t <= 1

    phi(t) - phi(0) <= t phi'(0) + (e - 2) t^2 phi''(0) <= t phi'(0) (1 - (e - 2) t) < 0,   as phi''(0) <= -phi'(0).

So a step with r <= 1 is taken as it is. Another one is halved until f has fallen by a tenth of what its slope promises,
or until no margin moves by more than 1.
"""

import functools

import numpy as np
import torch
from torch.nn.functional import softplus

SHARED = 16  # from so many problems with the same features on, they are a group of their own
UNUSED = 1e30  # the price of a feature that a problem does not use
NUMBERS = 1 << 18  # in one array of a batch: more would leave the processor's cache
TABLE = 1 << 22  # in the table of products x_ij x_ik: a larger one is made in blocks, again at each step
STEPS = 200  # at most: rounding keeps some from converging, such as l2 = 1e-8 with w = 1e8
FLAT = 1e-9  # the least price in a Hessian: a free intercept may be flat where it starts


def minimise(x, linear, l2, *, used=None, tol=1e-10, device="cpu") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise f_p for each problem p. Every step decreases f_p, so that Newton's method converges from everywhere.

    Args:
        x: shape (n, d), finite. linear: shape (problems, d).
        l2: shape (problems, d), > 0; 0 is allowed for a constant column where a minimiser exists.
        used: bool, shape (problems, d), the features of each problem; None for all.
        tol: length of the Newton step at which a problem is done, relative to max(1, |w|). (It is the distance from the
            minimiser up to its square.)
        device: where torch computes.

    Returns:
        w (problems, d), exactly 0 where a feature is not used; the L2 norm of the gradient of f at w (problems,);
        whether a problem converged (problems,).
    """
    x, linear, l2 = (np.asarray(a, dtype=float) for a in (x, linear, l2))
    used = np.ones(linear.shape, dtype=bool) if used is None else np.asarray(used, dtype=bool)
    w, norm, converged = np.zeros_like(linear), np.zeros(len(linear)), np.ones(len(linear), dtype=bool)

    def tensor(a):
        return torch.tensor(a, dtype=torch.float64, device=device)

    for problems in _groups(used):
        columns = np.flatnonzero(used[problems].any(axis=0))
        if not len(columns):
            continue
        rows, counts = (tensor(a) for a in np.unique(x[:, columns], axis=0, return_counts=True))
        hessians, size = _products(rows), max(1, NUMBERS // max(len(rows), len(columns) ** 2))
        for part in np.array_split(problems, -(-len(problems) // size)):
            own = np.ix_(part, columns)
            b, price = np.where(used[own], linear[own], 0.0), np.where(used[own], l2[own], UNUSED)
            found = _newton(rows, counts, tensor(b), tensor(price), hessians, tol)
            at, norm[part], converged[part] = (a.cpu().numpy() for a in found)
            w[own] = np.where(used[own], at, 0.0)
    return w, norm, converged


def _groups(used: np.ndarray) -> list[np.ndarray]:
    """Problems of the same features together where there are many of them, and all the others, by size, together."""
    _, member, count = np.unique(used, axis=0, return_inverse=True, return_counts=True)
    member = member.ravel()
    rest = np.flatnonzero(count[member] < SHARED)
    return [*(np.flatnonzero(member == kind) for kind in np.flatnonzero(count >= SHARED)), rest]


def _products(x):
    """The function from weights (problems, n) to sum_i weight_i x_i x_i^T, (problems, d, d)."""
    n, d = x.shape
    length = max(1, TABLE // d**2)

    @functools.lru_cache(maxsize=1)  # so that one block that has all rows is kept
    def block(start):
        rows = x[start : start + length]
        return (rows[:, :, None] * rows[:, None]).flatten(1)

    def total(weights):
        some = (weights[:, start : start + length] @ block(start) for start in range(0, n, length))
        return sum(some).view(-1, d, d)

    return total


def _newton(x, counts, b, l2, hessians, tol):
    """The minimisers of a batch, from 0 or from the minimiser without any row, whichever is lower."""
    xt, own = x.T.contiguous(), l2 < UNUSED
    bare = torch.where(l2 > 0, -b / l2, 0.0)
    lower = softplus(bare @ xt) @ counts + ((b + l2 * bare / 2) * bare).sum(1) < np.log(2) * counts.sum()
    w = bare * lower[:, None]
    z = w @ xt
    out, norm, converged = w.clone(), w.new_zeros(len(w)), lower.new_zeros(len(w))
    left = torch.arange(len(w), device=w.device)
    for k in range(STEPS + 1):
        s = torch.sigmoid(z)
        g = ((s * counts) @ x + b + l2 * w) * own
        hessian = hessians(s * (1 - s) * counts)
        hessian.diagonal(dim1=1, dim2=2).add_(l2.clamp(min=FLAT))
        p = _solved(hessian, -g)
        near = _length(p) <= tol * _length(w).clamp(min=1)
        out[left], norm[left], converged[left] = w, _length(g), near
        if k == STEPS or near.all():
            break
        left, w, z, g, p, b, l2, own = (a[~near] for a in (left, w, z, g, p, b, l2, own))
        zp = p @ xt
        t = _share(z, zp, (g * p).sum(1), ((b + l2 * w) * p).sum(1), (l2 * p * p).sum(1), counts)[:, None]
        w, z = w + t * p, z + t * zp
    return out, norm, converged


def _share(z, zp, slope, line, bend, counts):
    """How much of each step to take (problems,): see the module.

    Args:
        zp: by how much the margins z move on a whole step. slope: phi'(0).
        line, bend: linear and quadratic coefficients of what is not loss, with which phi(t) - phi(0) has no rounding of
            its own.
    """
    t = torch.ones_like(slope)
    at = torch.nonzero(zp.abs().amax(1) > 1)[:, 0]
    while len(at):
        u = t[at]
        more = softplus(z[at] + u[:, None] * zp[at]) - softplus(z[at])
        rise = more @ counts + u * line[at] + u**2 / 2 * bend[at]
        at = at[(rise > 0.1 * u * slope[at]) & (u * zp[at].abs().amax(1) > 1)]
        t[at] /= 2
    return t


def _solved(matrices, right):
    """H^-1 right by Cholesky: two triangular solves are faster in a batch than cholesky_solve."""
    factor = torch.linalg.cholesky_ex(matrices)[0]
    half = torch.linalg.solve_triangular(factor, right[:, :, None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)[:, :, 0]


def _length(a):
    return torch.linalg.vector_norm(a, dim=1)
