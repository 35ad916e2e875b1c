"""Many small logistic problems at once, by Newton's method in float64.

Problem p minimises over w in R^d

    f_p(w) = sum_i log(1 + exp(x_i . w)) + linear_p . w + 1/2 sum_j l2_pj w_j^2.

All problems share the rows x_i. Labels are in ``linear`` (they enter the logistic loss as - sum_i y_i x_i . w), and so
is the noise of objective perturbation. Many problems with the same features are solved together, where equal rows of
these features count once, with a weight.

Of a batch, z = x . w are the margins, shape (problems, n), s = sigmoid(z), g is the gradient of f, (problems, d), and p
the step: H p = -g to a hundredth, by conjugate gradients, preconditioned with one Hessian for the whole batch.

*Every step lowers f.* Conjugate gradients that begin at 0 have p . (H p + g) = 0 wherever they stop. Let
phi(t) = f(w + t p), so that phi''(0) = -phi'(0), and let no margin move by more than r on the whole step. The loss has
|third derivative| <= second derivative, so that phi'' grows by a factor of e^(rt) at most, and for r t <= 1

    phi(t) - phi(0) <= t phi'(0) + (e - 2) t^2 phi''(0) = t phi'(0) (1 - (e - 2) t) < 0.

So a step with r <= 1 is taken as it is. Another one is halved until f has fallen by a tenth of what its slope promises,
or until no margin moves by more than 1.
"""

import numpy as np
import torch
from torch.nn.functional import softplus

from dplib.checks import ParameterError, bounded, number, numbers, shaped, truths
from dplib.devices import NEWTON

SHARED = 16  # from so many problems with the same features on, they are a group of their own
STEPS = 200  # at most: rounding keeps some from converging, such as l2 = 1e-8 with w = 1e8
FLAT = 1e-9  # the least price in a Hessian: a free intercept may be flat where it starts
LEFT = 1e-2  # of a residual where conjugate gradients stop


@bounded(l2=numbers(1e-100, 1e100, zero=True), tol=number(1e-15, 1e-3))
def minimise(
    x: np.ndarray,
    linear: np.ndarray,
    l2: np.ndarray,
    *,
    used: np.ndarray | None = None,
    tol: float = 1e-10,
    most: np.ndarray | None = None,
    device: str | torch.device = "cpu",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise f_p for each problem p. Every step decreases f_p, so that Newton's method converges from everywhere.

    Args:
        x: rows that all problems share, shape (n, d), finite.
        linear: what multiplies w in each problem, shape (problems, d).
        l2: prices of the coefficients, shape (problems, d), in [1e-100, 1e100]; 0 is allowed for a constant column
            where a minimiser exists.
        used: bool, shape (problems, d), the features of each problem; None for all.
        tol: length of the Newton step at which a problem is done, relative to max(1, |w|), in [1e-15, 1e-3]. (It is the
            distance from the minimiser up to its square.)
        most: norm of the gradient that a problem may end with, shape (problems,), > 0; None for any. A solution of
            1e-11 is 0 to the tolerance alone.
        device: where torch computes.

    Returns:
        w (problems, d), exactly 0 where a feature is not used; the L2 norm of the gradient of f at w (problems,);
        whether a problem converged (problems,).

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    x, linear, l2 = shaped("x", x, "(rows, d)"), shaped("linear", linear, "(n, d)"), shaped("l2", l2, "(n, d)")
    used = np.ones(linear.shape, dtype=bool) if used is None else truths("used", used, "(n, d)")
    most = np.full(len(linear), np.inf) if most is None else shaped("most", most, "(n)", 0, np.inf)
    if not linear.shape == l2.shape == used.shape == (len(most), x.shape[1]):
        shapes = f"x {x.shape}, linear {linear.shape}, l2 {l2.shape}, used {used.shape}, most {most.shape}"
        raise ParameterError(
            f"{shapes} do not fit: they must be of shapes (n, d), three times (problems, d), (problems,)."
        )
    w, norm, converged = np.zeros_like(linear), np.zeros(len(linear)), np.ones(len(linear), dtype=bool)

    def tensor(a):
        return torch.tensor(a, dtype=torch.float64, device=device)

    for problems in _groups(used):
        columns = np.flatnonzero(used[problems].any(axis=0))
        if not len(columns):
            continue
        rows, counts = (tensor(a) for a in np.unique(x[:, columns], axis=0, return_counts=True))
        size = max(1, NEWTON.on(torch.device(device)) // max(rows.shape))
        for part in np.array_split(problems, -(-len(problems) // size)):
            at = np.ix_(part, columns)
            solved = _newton(rows, counts, *(tensor(a[at]) for a in (linear, l2, used)), tensor(most[part]), tol)
            w[at], norm[part], converged[part] = (a.cpu().numpy() for a in solved)
    return w, norm, converged


def _groups(used: np.ndarray) -> list[np.ndarray]:
    """Problems of the same features together where there are many of them, and all the others, by size, together."""
    _, member, count = np.unique(used, axis=0, return_inverse=True, return_counts=True)
    member = member.ravel()
    rest = np.flatnonzero(count[member] < SHARED)
    return [*(np.flatnonzero(member == kind) for kind in np.flatnonzero(count >= SHARED)), rest]


def _newton(x, counts, b, l2, used, most, tol):
    """The minimisers of a batch, from 0 or from the minimiser without any row, whichever is lower.

    ``own``: 1 for the features of a problem, 0 for others.
    """
    xt = x.T.contiguous()
    b = b * used
    bare = torch.where(l2 > 0, -b / l2, 0.0)
    lower = softplus(bare @ xt) @ counts + ((b + l2 * bare / 2) * bare).sum(1) < np.log(2) * counts.sum()
    w = bare * lower[:, None]
    z = w @ xt
    out, norm, converged = w.clone(), w.new_zeros(len(w)), lower.new_zeros(len(w))
    left = torch.arange(len(w), device=w.device)
    for k in range(STEPS + 1):
        s = torch.sigmoid(z)
        g = ((s * counts) @ x + b + l2 * w) * used
        p = _step(x, xt, s * (1 - s) * counts, l2.clamp(min=FLAT), used, g)
        near = (_length(p) <= tol * _length(w).clamp(min=1)) & (_length(g) <= most)
        out[left], norm[left], converged[left] = w, _length(g), near
        if k == STEPS or near.all():
            break
        left, w, z, g, p, b, l2, used, most = (a[~near] for a in (left, w, z, g, p, b, l2, used, most))
        zp = p @ xt
        t = _share(z, zp, (g * p).sum(1), ((b + l2 * w) * p).sum(1), (l2 * p * p).sum(1), counts)[:, None]
        w, z = w + t * p, z + t * zp
    return out, norm, converged


def _step(x, xt, curvature, price, used, g):
    """p with H p = -g, where H = sum_i curvature_i x_i x_i^T + diag(price), (problems, d), by conjugate gradients."""
    mean = (xt * curvature.mean(0)) @ x + torch.diag(price.mean(0))
    factor = torch.linalg.cholesky_ex(mean)[0]

    def near(residual):  # what the mean Hessian would give
        return torch.cholesky_solve(residual.T, factor).T * used

    p, residual = torch.zeros_like(g), -g
    along = near(residual)
    size = first = (residual * along).sum(1)
    for _ in range(2 * len(xt)):
        busy = size > LEFT**2 * first
        if not busy.any():
            break
        image = (((along @ xt) * curvature) @ x + price * along) * used
        length = torch.where(busy, size / (along * image).sum(1), 0.0)[:, None]
        p, residual = p + length * along, residual - length * image
        ahead, before = near(residual), size
        size = torch.where(busy, (residual * ahead).sum(1), size)
        along = torch.where(busy[:, None], ahead + (size / before)[:, None] * along, along)
    return p


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


def _length(a):
    return torch.linalg.vector_norm(a, dim=1)
