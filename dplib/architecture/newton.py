"""Many small logistic problems at once, in float64.

Problem p minimises over w in R^d

    f_p(w) = sum_i log(1 + exp(x_i . w)) + linear_p . w + 1/2 sum_j l2_pj w_j^2.

All problems share the rows x_i. Labels are in ``linear`` (they enter the logistic loss as - sum_i y_i x_i . w), and so
is the noise of objective perturbation. What makes it fast:

- problems with the same features form a group, and equal rows of those features count once, with a weight;
- in a group, the directions that no row touches (one-hot columns have as many as attributes) are solved for in closed
  form, and Newton runs in the row space, along the principal axes;
- problems with other features each share a batch too: a feature that one of them does not use has an enormous price;
- L-BFGS in single precision comes near, for the price of a gradient a step; Newton's method does the rest. All Hessians
  of a batch come out of one matrix product, (problems, n) by (n, d(d+1)/2), and a Cholesky factor is kept for as long
  as it shrinks the gradient tenfold a step.

Of a batch, z = x . w are the margins, shape (problems, n), s = sigmoid(z), and g is the gradient of f, (problems, d).
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch

SHARED = 32  # from so many problems with the same features on, they are a group of their own
MIXED = 256  # problems of different features in one batch
HUGE = 1e30  # the l2 of a feature that a problem does not use
NUMBERS = 1 << 20  # in one array of a batch: more would leave the processor's cache, fewer cost more calls
TABLE = 1 << 23  # numbers in the table of products x_ij x_ik that is kept between steps; larger ones are made again
STALE = 0.1  # a Cholesky factor is renewed when a step with it left more than this share of the gradient
MANY = 1 << 23  # L-BFGS comes first where the Hessians of a batch cost as many multiplications
MEMORY = 8  # pairs that L-BFGS keeps
PATIENCE, TRIALS = 8, 60  # of a line search: lengths tried before any that lowers f will do, and at most
STEPS = 200  # of Newton at most: rounding keeps some from converging, such as l2 = 1e-8 with w = 1e8
APPROACH = 40  # L-BFGS steps at most
NEAR = 0.1  # L-BFGS ends when no margin moves by more than this in nine of ten problems


@dataclass(frozen=True)
class Minimum:
    """What :func:`minimise` found, a row for each problem: ``w`` (problems, d), exactly 0 where a feature is not used;
    ``gradient_norm``, the L2 norm of the gradient of f at w; ``iterations``, Newton steps; and ``converged``, whether w
    is within ``tol`` of the minimiser, by strong convexity or by the length of the Newton step that would be next."""

    w: np.ndarray
    gradient_norm: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray


def minimise(x, linear, l2, *, used=None, tol=1e-10, device="cpu") -> Minimum:
    """Minimise f_p for each problem p. Every step decreases f_p, so that Newton's method converges from everywhere.

    Args:
        x: shape (n, d), finite. linear: shape (problems, d).
        l2: shape (problems, d), > 0; 0 is allowed for a constant column where a minimiser exists.
        used: bool, shape (problems, d), the features of each problem; None for all.
        tol: distance from the minimiser at which a problem is done, relative to max(1, |w|).
        device: where torch computes.
    """
    x, linear, l2 = (np.asarray(a, dtype=float) for a in (x, linear, l2))
    used = np.ones(linear.shape, dtype=bool) if used is None else np.asarray(used, dtype=bool)
    w, norm = np.zeros_like(linear), np.zeros(len(linear))
    iterations, converged = np.zeros(len(linear), dtype=int), np.zeros(len(linear), dtype=bool)
    for problems, shared in _groups(np.hstack([used, l2 > 0])):
        columns = np.flatnonzero(used[problems].any(axis=0))
        own = used[np.ix_(problems, columns)]
        xs, counts = _distinct(x[:, columns])
        b = np.where(own, linear[np.ix_(problems, columns)], 0.0)
        price = np.where(own, l2[np.ix_(problems, columns)], HUGE)
        found = (_reduced if shared and len(columns) else _plain)(xs, counts, b, price, tol, device)
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
    """The distinct rows, told apart by one random projection and then compared, and how often each occurs."""
    key = x @ np.random.default_rng(0).standard_normal(x.shape[1])
    _, first, member, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == len(x) or not np.array_equal(x, x[first[member]]):
        return x, np.ones(len(x))
    return x[first], count.astype(float)


def _plain(x, counts, b, l2, tol, device):
    """In the given coordinates, from 0 or from the minimiser without any row, whichever is lower."""
    bare = np.divide(-b, l2, out=np.zeros_like(b), where=l2 > 0)
    return in_batches(x, counts, b, l2, (bare, np.zeros_like(b)), tol, device)


def _reduced(x, counts, b, l2, tol, device):
    """In the row space of x, for problems that use all columns.

    Columns that have one l2 per problem are rotated to the principal axes of x; l2 does not change. An axis v with
    x v = 0 leaves linear and quadratic terms only, whose minimum is known. Another column (an intercept with a price
    of its own) stays as it is; where it is free, the others are centred, which moves a part of w to the intercept.
    """
    alike = (l2 == l2[:, :1]).all(axis=0)
    rest, ridge = np.flatnonzero(~alike), l2[:, :1]
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
    first = -(linear + counts @ rows / 2) / (price + np.append(curvature[~empty], counts @ x[:, rest] ** 2) / 4)
    found, *report = in_batches(rows, counts, linear, price, (bare, first), tol, device)
    w, r = np.empty_like(b), basis.shape[1]
    w[:, alike] = found[:, :r] @ basis.T - (bs - linear[:, :r] @ basis.T) / ridge
    w[:, rest] = found[:, r:] - w[:, alike] @ centre
    return w, *report


def in_batches(x, counts, b, l2, starts, tol, device):
    """Minimise f_p for every p, from the better of two starts (problems, d): w, gradient norms, steps, converged."""
    if x.shape[1] == 0:  # nothing to choose
        return b, np.zeros(len(b)), np.zeros(len(b), dtype=int), np.ones(len(b), dtype=bool)

    def tensor(a):
        return torch.tensor(np.ascontiguousarray(a), dtype=torch.float64, device=device)

    batch = Batch(*map(tensor, (x, counts, b, l2)))
    starts = [tensor(w) for w in starts]
    size = max(128, NUMBERS // max(x.shape[0], x.shape[1] ** 2))
    parts = torch.arange(len(b), device=device).tensor_split(-(-len(b) // size))
    found = [_newton(batch.of(at), [w[at] for w in starts], tol) for at in parts]
    return tuple(torch.cat(a).cpu().numpy() for a in zip(*found, strict=True))


def _newton(batch, starts, tol):
    """Newton's method, from the better start and L-BFGS; problems that are done leave the batch."""
    w, z = _lowest(batch, starts)
    if batch.x.numel() * w.numel() >= MANY:
        near = lbfgs(batch.single(), w.float(), z.float()).double()
        w = torch.where(torch.isfinite(near).all(1, keepdim=True), near, w)
        z = batch.margins(w)
    s = torch.sigmoid(z)
    g = batch.gradient(w, s)
    norm = _length(g)
    floor = batch.rounding()
    out, out_norm, taken = w.clone(), norm.clone(), torch.zeros(len(w), dtype=torch.long, device=w.device)
    converged = torch.zeros(len(w), dtype=torch.bool, device=w.device)
    index, finished, idle = torch.arange(len(w), device=w.device), converged.clone(), converged.clone()
    factor, stale = w.new_zeros(len(w), w.shape[1], w.shape[1]), ~finished
    for k in range(STEPS + 1):
        allowed = tol * _length(w).clamp(min=1)
        near = norm <= allowed * batch.l2.amin(1)  # strong convexity: |w - minimiser| <= |g| / l2
        if not near.all():
            renew = torch.nonzero(stale & ~near)[:, 0]
            if 4 * len(renew) > 3 * len(stale):
                factor = batch.factor(s)
            elif len(renew):
                factor[renew] = batch.of(renew).factor(s[renew])
            p = _solve(factor, -g)
            near |= _length(p) <= allowed  # and where l2 is 0 or tiny, the step estimates the distance
        stop = torch.nonzero(~finished & (near | idle | ~torch.isfinite(norm) | (k == STEPS)))[:, 0]
        if len(stop):
            at = index[stop]
            out[at], out_norm[at], taken[at], converged[at] = w[stop], norm[stop], k, near[stop]
            finished[stop] = True
            keep = torch.nonzero(~finished)[:, 0]
            if not len(keep):
                break
            if 2 * len(keep) <= len(finished):  # a problem that is done stays until enough others are
                batch, floor = batch.of(keep), floor[keep]
                index, finished, w, z, s, g, p, norm, factor = (
                    a[keep] for a in (index, finished, w, z, s, g, p, norm, factor)
                )
        w, z, s, g, _ = step(batch, w, z, s, g, p)
        before, norm = norm, _length(g)
        stale = (norm > STALE * before) & ~finished
        idle = (norm <= floor) | (norm <= 1e3 * floor) & (norm > before / 2)
    return out, out_norm, taken, converged


def lbfgs(batch, w, z):
    """L-BFGS until a step moves hardly any margin. The first guess of the Hessian is its diagonal, made anew each step.

    Whatever comes out is only a start for Newton's method.
    """
    s = torch.sigmoid(z)
    g = batch.gradient(w, s)
    memory = []
    for _ in range(APPROACH):
        p, turns = -g, []
        for dw, dg, rho in reversed(memory):
            turns.append(rho * (dw * p).sum(1, keepdim=True))
            p = torch.addcmul(p, turns[-1], dg, value=-1)
        p = p / batch.diagonal(s)
        for (dw, dg, rho), turn in zip(memory, reversed(turns), strict=True):
            p = torch.addcmul(p, turn - rho * (dg * p).sum(1, keepdim=True), dw)
        *new, moved = step(batch, w, z, s, g, p)
        dw, dg = new[0] - w, new[3] - g
        bend = (dw * dg).sum(1, keepdim=True)
        memory = [*memory[1 - MEMORY :], (dw, dg, torch.where(bend > 0, 1 / bend, torch.zeros_like(bend)))]
        w, z, s, g = new
        if (moved <= NEAR).double().mean() >= 0.9:
            break
    return w


def step(batch, w, z, s, g, p):
    """Go along p as far as f falls: w, margins, sigmoids and gradient there, and how far the margins moved.

    No objective value is compared, as differences of them drown in rounding near the minimum. The slope phi'(t) of
    phi(t) = f(w + t p) alone tells that phi fell enough:

    - -0.6 |phi'(0)| <= phi'(t) <= 0: phi is convex, hence it fell all the way to t;
    - 0 < phi'(t) <= |phi'(0)|/4 while no margin moved by more than 1: the loss has |third derivative| <= second
      derivative, so that phi'' = h changed by a factor of e at most. The fall was at least |phi'(0)|^2 / (2 e h)
      and the rise after it at most (1/4)^2 e |phi'(0)|^2 / h, which is less.

    Newton's t = 1 almost always satisfies this near the minimum; elsewhere :func:`_search` finds a t that does.
    """
    zp = batch.margins(p)
    slope = (g * p).sum(1)
    low, high = torch.aminmax(zp, dim=1)
    reach = torch.maximum(high, -low)
    w_new, z_new = w + p, z + zp
    s_new = torch.sigmoid(z_new)
    g_new = batch.gradient(w_new, s_new)
    value = (g_new * p).sum(1)
    at = torch.nonzero(~_accepted(value, slope, reach))[:, 0]
    if len(at):
        part, along = batch.of(at), p[at]
        v = zp[at] * part.counts
        quadratic = (part.l2 * along * along).sum(1)
        t, s_new[at] = _search(z[at], zp[at], v, s_new[at], value[at], slope[at], quadratic, reach[at])
        w_new[at] = w[at] + t[:, None] * along
        z_new[at] = z[at] + t[:, None] * zp[at]
        g_new[at] = part.gradient(w_new[at], s_new[at])
        reach[at] *= t
    return w_new, z_new, s_new, g_new, reach


def _search(z, zp, v, s, value, slope, quadratic, reach):
    """Newton's method on the slope phi'(t), safeguarded by a bracket, from t = 1 where it is ``value``; t, sigmoids."""
    t, low, high = torch.ones_like(value), torch.zeros_like(value), torch.full_like(value, torch.inf)
    fixed = value - quadratic - (s * v).sum(1)
    fine = torch.zeros_like(value, dtype=torch.bool)
    at, t_out, s_out = torch.arange(len(t), device=t.device), t.clone(), s.clone()
    for trial in range(1, TRIALS + 1):
        low, high = torch.where(value <= 0, t, low), torch.where(value > 0, t, high)
        curvature = quadratic + (torch.addcmul(s, s, s, value=-1) * v * zp).sum(1)
        aim = t - (value - 0.1 * slope) / curvature  # towards -|phi'(0)|/10, inside what is accepted
        middle = torch.where(torch.isinf(high), 2 * t, (low + high) / 2)
        aim = torch.where((aim > low) & (aim < high), aim, middle)
        settled = (low > 0) & (trial >= PATIENCE) | (trial == TRIALS)  # phi fell up to low: that will do
        t = torch.where(fine, t, torch.where(settled, low, aim))
        s = torch.sigmoid(torch.addcmul(z, t[:, None], zp))
        value = fixed + t * quadratic + (s * v).sum(1)
        fine |= settled | _accepted(value, slope, t * reach)
        rest = torch.nonzero(~fine)[:, 0]
        if 2 * len(rest) <= len(at):
            t_out[at], s_out[at] = t, s
            if not len(rest):
                break
            at, z, zp, v, s, t, low, high, value, slope, quadratic, reach, fixed, fine = (
                a[rest] for a in (at, z, zp, v, s, t, low, high, value, slope, quadratic, reach, fixed, fine)
            )
    return t_out, s_out


def _accepted(value, slope, reach):
    """Whether a slope is near enough to 0: see :func:`step`."""
    fits = (value >= 0.6 * slope) & (value <= torch.where(reach <= 1, -0.25 * slope, torch.zeros_like(slope)))
    return fits | (reach <= torch.finfo(reach.dtype).eps ** 0.5)  # so near the minimum that slopes are rounding


def _lowest(batch, starts):
    """For each problem the start with the lower f, and its margins."""
    margins = [batch.margins(w) for w in starts]
    values = [batch.value(w, z) for w, z in zip(starts, margins, strict=True)]
    second = (values[1] < values[0])[:, None]
    return torch.where(second, starts[1], starts[0]), torch.where(second, margins[1], margins[0])


def _solve(factor, right):
    """H^-1 right from the Cholesky factor: two triangular solves are faster in a batch than cholesky_solve."""
    half = torch.linalg.solve_triangular(factor, right[:, :, None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)[:, :, 0]


def _length(a):
    return torch.linalg.vector_norm(a, dim=1)


class Batch:
    """f_p(w) = sum_i counts_i log(1 + exp(x_i . w)) + b_p . w + 1/2 sum_j l2_pj w_j^2, with its derivatives."""

    def __init__(self, x, counts, b, l2):
        self.x, self.xt, self.counts, self.b, self.l2 = x, x.T.contiguous(), counts, b, l2
        self.own = None if (l2 < HUGE).all() else l2 < HUGE
        self.weighted_x = x * counts[:, None]
        self.squares = x * self.weighted_x
        i, j = torch.tril_indices(x.shape[1], x.shape[1], device=x.device)
        self.lower = i * x.shape[1] + j  # where the lower triangle is in a matrix
        rows = max(64, TABLE // 8 // len(i))
        self.blocks = [slice(k, k + rows) for k in range(0, len(x), rows)]
        self.table = [self._products(block) for block in self.blocks] if len(x) * len(i) <= TABLE else None

    def of(self, problems):
        """The same for these problems only."""
        part = copy.copy(self)
        part.b, part.l2 = self.b[problems], self.l2[problems]
        part.own = None if self.own is None else self.own[problems]
        return part

    def single(self):
        """The same in single precision, without Hessians."""
        part = copy.copy(self)
        for name in ("x", "xt", "counts", "b", "l2", "weighted_x", "squares"):
            setattr(part, name, getattr(self, name).float())
        return part

    def margins(self, w):
        """x . w, shape (problems, n)."""
        return w @ self.xt

    def value(self, w, z):
        """f, shape (problems,)."""
        loss = torch.nn.functional.softplus(z) @ self.counts
        return loss + (torch.addcmul(self.b, self.l2, w, value=0.5) * w).sum(1)

    def gradient(self, w, s):
        """The gradient of f, shape (problems, d); 0 for a feature that is not used."""
        g = s @ self.weighted_x + torch.addcmul(self.b, self.l2, w)
        return g if self.own is None else g * self.own

    def rounding(self):
        """How large a gradient may be by rounding alone, shape (problems,)."""
        return 1e-15 * (_length(self.b) + torch.linalg.vector_norm(self.counts @ self.x.abs()))

    def diagonal(self, s):
        """The diagonal of the Hessian of f, shape (problems, d)."""
        return (torch.addcmul(s, s, s, value=-1) @ self.squares + self.l2).clamp(min=1e-9)

    def factor(self, s):
        """Lower Cholesky factors of the Hessians of f, shape (problems, d, d)."""
        a, lower, d = torch.addcmul(s, s, s, value=-1), None, self.x.shape[1]
        for k, block in enumerate(self.blocks):
            products = self.table[k] if self.table else self._products(block)
            lower = a[:, block] @ products if lower is None else lower.addmm_(a[:, block], products)
        full = a.new_empty(len(a), d * d).index_copy_(1, self.lower, lower).view(-1, d, d)
        full.diagonal(dim1=1, dim2=2).add_(self.l2.clamp(min=1e-9))  # a free intercept may be flat where it starts
        return torch.linalg.cholesky_ex(full)[0]

    def _products(self, block):
        """counts_i x_ij x_ik for k <= j, row after row of the triangle; by slices, as a gather would be slower."""
        x, other = self.x[block], self.weighted_x[block]
        return torch.cat([other[:, : j + 1] * x[:, j : j + 1] for j in range(x.shape[1])], dim=1)
