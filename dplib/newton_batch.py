"""The steps of :mod:`dplib.newton`: a batch of logistic problems with the same rows, all of them in step.

- L-BFGS in single precision comes near, for the price of a gradient a step;
- Newton's method in double precision does the rest. All Hessians of a batch come out of one matrix product,
  (problems, n) by (n, d(d+1)/2), and a Cholesky factor is kept for as long as it shrinks the gradient tenfold a step.

Tensors are float64 unless said otherwise. z = x . w are the margins, shape (problems, n), s = sigmoid(z), and g is the
gradient of f, shape (problems, d).
"""

import copy

import numpy as np
import torch

HUGE = 1e30  # the l2 of a feature that a problem does not use
NUMBERS = 1 << 20  # in one array of a batch: more would leave the processor's cache, fewer cost more calls
TABLE = 1 << 23  # numbers in the table of products x_ij x_ik that is kept between steps; larger ones are made again
STALE = 0.1  # a Cholesky factor is renewed when a step with it left more than this share of the gradient
MANY = 1 << 23  # L-BFGS comes first where the Hessians of a batch cost as many multiplications
MEMORY = 8  # pairs that L-BFGS keeps
PATIENCE, TRIALS = 8, 60  # of a line search: lengths tried before any that lowers f will do, and at most
APPROACH = 40  # L-BFGS steps at most
NEAR = 0.1  # L-BFGS ends when no margin moves by more than this in nine of ten problems


def in_batches(x, weights, b, l2, starts, tol, max_iter, device):
    """Minimise f_p for every p; arrays as in :func:`dplib.newton.minimise`, weights (1, n) or (problems, n).

    Args:
        starts: two arrays (problems, d): each problem starts from the one with the lower f.

    Returns:
        w, gradient norms, Newton steps, and whether converged.
    """

    if x.shape[1] == 0:  # nothing to choose
        return b, np.zeros(len(b)), np.zeros(len(b), dtype=int), np.ones(len(b), dtype=bool)

    def tensor(a):
        return torch.tensor(np.ascontiguousarray(a), dtype=torch.float64, device=device)

    batch = Batch(*map(tensor, (x, weights, b, l2)))
    starts = [tensor(w) for w in starts]
    size = max(128, NUMBERS // max(x.shape[0], x.shape[1] ** 2))
    parts = torch.arange(len(b), device=device).tensor_split(-(-len(b) // size))
    found = [_newton(batch.of(at), [w[at] for w in starts], tol, max_iter) for at in parts]
    return tuple(torch.cat(a).cpu().numpy() for a in zip(*found, strict=True))


def _newton(batch, starts, tol, max_iter):
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
    for k in range(max_iter + 1):
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
        stop = torch.nonzero(~finished & (near | idle | ~torch.isfinite(norm) | (k == max_iter)))[:, 0]
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
        v = zp[at] * part.weights
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
    """f_p(w) = sum_i weights_pi log(1 + exp(x_i . w)) + b_p . w + 1/2 sum_j l2_pj w_j^2, with its derivatives."""

    def __init__(self, x, weights, b, l2):
        self.x, self.xt, self.weights, self.b, self.l2 = x, x.T.contiguous(), weights, b, l2
        self.shared = len(weights) == 1
        self.own = None if (l2 < HUGE).all() else l2 < HUGE
        self.weighted_x = x * weights.T if self.shared else x
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
        part.weights = self.weights if self.shared else self.weights[problems]
        return part

    def single(self):
        """The same in single precision, without Hessians."""
        part = copy.copy(self)
        for name in ("x", "xt", "weights", "b", "l2", "weighted_x", "squares"):
            setattr(part, name, getattr(self, name).float())
        return part

    def margins(self, w):
        """x . w, shape (problems, n)."""
        return w @ self.xt

    def value(self, w, z):
        """f, shape (problems,)."""
        loss = (self.weights * torch.nn.functional.softplus(z)).sum(1)
        return loss + (torch.addcmul(self.b, self.l2, w, value=0.5) * w).sum(1)

    def gradient(self, w, s):
        """The gradient of f, shape (problems, d); 0 for a feature that is not used."""
        loss = s @ self.weighted_x if self.shared else (s * self.weights) @ self.x
        g = loss + torch.addcmul(self.b, self.l2, w)
        return g if self.own is None else g * self.own

    def rounding(self):
        """How large a gradient may be by rounding alone, shape (problems,)."""
        return 1e-15 * (_length(self.b) + _length(self.weights @ self.x.abs()))

    def diagonal(self, s):
        """The diagonal of the Hessian of f, shape (problems, d)."""
        return (self._curvature(s) @ self.squares + self.l2).clamp(min=1e-9)

    def factor(self, s):
        """Lower Cholesky factors of the Hessians of f, shape (problems, d, d)."""
        a, lower, d = self._curvature(s), None, self.x.shape[1]
        for k, block in enumerate(self.blocks):
            products = self.table[k] if self.table else self._products(block)
            lower = a[:, block] @ products if lower is None else lower.addmm_(a[:, block], products)
        full = a.new_empty(len(a), d * d).index_copy_(1, self.lower, lower).view(-1, d, d)
        full.diagonal(dim1=1, dim2=2).add_(self.l2.clamp(min=1e-9))  # a free intercept may be flat where it starts
        return torch.linalg.cholesky_ex(full)[0]

    def _curvature(self, s):
        a = torch.addcmul(s, s, s, value=-1)
        return a if self.shared else a * self.weights

    def _products(self, block):
        """weights_i x_ij x_ik for k <= j, row after row of the triangle; by slices, as a gather would be slower."""
        x, other = self.x[block], self.weighted_x[block]
        return torch.cat([other[:, : j + 1] * x[:, j : j + 1] for j in range(x.shape[1])], dim=1)
