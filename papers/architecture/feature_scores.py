"""How much a feature tells about a label: entropies, symmetrical uncertainty, the merit of a set (paper B, VIII-B).

Records are codes: ``codes`` of shape (n, v) holds whole numbers, variable j from 0 to ``levels[j]`` - 1; the label is
the last variable. Entropies are in bits, of the empirical distribution of the n records.

Private versions (Section VIII-C). Neighbours replace one record; n and the levels are public. (The proofs are about
real numbers: the last digits of Laplace noise in double precision can leak, Mironov, CCS 2012.)

*The entropy of one table.* Let c be its counts, sum n, and f(c) = c log2 c, so that H = log2 n - sum f(c)/n. Replacing
a record takes 1 from one count, a >= 1 before, and adds 1 to another, b before. With g(c) = f(c + 1) - f(c), H changes
by (g(a - 1) - g(b))/n. As f is convex, g rises from g(0) = 0; and a - 1 and b lie between 0 and n - 1. So

    |H - H'| <= g(n - 1)/n = log2(n)/n + (n - 1)/n log2(n/(n - 1)) =: entropy_sensitivity(n),

whatever the number of cells is, and n equal records of which one is replaced attain it.

*All entropies.* v variables have q = v(v + 1)/2 of them, alone and in pairs, and all move at once where n equal records
see one replaced by a record that differs everywhere: the L1 sensitivity is exactly q entropy_sensitivity(n). Laplace
noise of that over epsilon on each entropy is epsilon-DP (pure), and whatever is computed from them is free.

*All tables.* A record is in one cell of each table, so replacing it moves the counts of the v(v - 1)/2 pair tables by
at most 2 each in L1; a table of one variable is a margin of these. Noise does not grow with log n here, but the entropy
of a table with many cells piles up the noise of all of them.

*A covariance.* The number n of records and the bound R on their norms are public. Released is the matrix of second
moments M = sum z z^T of the rows z = (x, 1), with Gaussian noise on its upper triangle (Dwork, Talwar, Thakurta, Zhang
2014). Mean and covariance, hence the components, are functions of M/n: post-processing. Replacing z by z' moves M by
z z^T - z' z'^T, whose squared Frobenius norm is |z|^4 + |z'|^4 - 2 (z . z')^2 <= 2 (R^2 + 1)^2, as |z|^2 = |x|^2 + 1.
With R >= 1 two rows with x . x' = -1 attain it. The upper triangle has no larger norm than the whole matrix.
"""

from dataclasses import dataclass

import numpy as np

from dplib import mechanisms
from dplib.checks import ParameterError, one_of

SLACK = 1e-6  # how far a row may exceed the bound on its norm, relatively: rounding
LIMIT = 1e-12  # an entropy below this is that of a constant


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of every pair of variables, block (i, j) of one matrix (sum of levels, sum of levels); as private as the
    records. ``levels``: shape (v,); ``n`` records.
    """

    tables: np.ndarray
    levels: np.ndarray
    n: int

    @property
    def starts(self) -> np.ndarray:
        """Where the block of each variable begins, (v,)."""
        return np.concatenate([[0], np.cumsum(self.levels)])[:-1]


def count(codes, levels) -> Counts:
    """All tables of pairs of codes (n, v) with public levels (v,)."""
    codes, levels = np.asarray(codes, dtype=np.int64), np.asarray(levels)
    if (codes < 0).any() or (codes >= levels).any():
        raise ParameterError(f"codes must be whole numbers from 0 to levels - 1, for levels = {levels.tolist()}.")
    ones = np.zeros((len(codes), int(levels.sum())))
    np.put_along_axis(ones, codes + (np.cumsum(levels) - levels), 1.0, axis=1)
    return Counts(ones.T @ ones, levels, len(codes))


def joint_entropies(counts: Counts) -> np.ndarray:
    """H(x_i, x_j) in bits, shape (v, v); the diagonal has H(x_i)."""
    return _entropies(counts.tables, counts)


def uncertainty(entropies, form="printed") -> np.ndarray:
    """Symmetrical uncertainty of each pair of variables, shape (v, v), from their entropies; 0 for two constants.

    ``form``: "printed": 2 (1 - H(x, y)/(H(x) + H(y))), as in Section VIII-B; "hall": 2 gain/(H(x) + H(y)) with the gain
    H(y) - H(y | x), as in Hall (1999). The same number.
    """
    one_of("printed", "hall").check("form", form)
    joint = np.asarray(entropies, dtype=float)
    alone = np.diag(joint)
    total = alone[:, None] + alone[None]
    safe = np.where(total > LIMIT, total, 1.0)
    if form == "printed":
        value = 2 * (1 - joint / safe)
    else:
        conditional = joint - alone[:, None]  # H(y | x)
        value = 2 * (alone[None] - conditional) / safe
    return np.where(total > LIMIT, value, 0.0)


def relevance_and_redundancy(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Symmetrical uncertainty of each feature with the label (m,), and between the features (m, m); m = v - 1."""
    return split_label(uncertainty(joint_entropies(counts)))


def split_label(table) -> tuple[np.ndarray, np.ndarray]:
    """A (v, v) table as the part with the label, (v - 1,), and the part among features."""
    return table[:-1, -1], table[:-1, :-1]


def merit(subsets, relevance, redundancy) -> np.ndarray:
    """Equation (7) for each subset: k corr_y(S) / sqrt(k + k (k - 1) corr(S)), shape (s,); Hall's (1999) merit as well.

    corr_y(S) is the mean relevance (m,) of the k features of S, corr(S) the mean redundancy (m, m) of its k (k - 1)
    ordered pairs. ``subsets``: bool, shape (s, m); the merit of the empty set is 0.
    """
    chosen = np.atleast_2d(np.asarray(subsets)).astype(float)
    redundancy = np.array(redundancy, dtype=float)
    np.fill_diagonal(redundancy, 0.0)
    k = chosen.sum(axis=1)
    pairs = k * (k - 1)
    corr_y = chosen @ relevance / np.maximum(k, 1)
    corr = ((chosen @ redundancy) * chosen).sum(axis=1) / np.maximum(pairs, 1)
    # Noisy entropies can make the root negative: such a set is worth nothing that can be said.
    inside = k + pairs * corr
    return np.where(inside > 0, k * corr_y / np.sqrt(np.where(inside > 0, inside, 1.0)), 0.0)


def entropy_sensitivity(n: int) -> float:
    """The most by which an entropy of n records changes, in bits, when one of them is replaced (module docstring)."""
    if n < 2:
        return 0.0
    return float((n * np.log2(n) - (n - 1) * np.log2(n - 1)) / n)


def entropies_needed(variables: int) -> int:
    """Entropies of ``variables`` variables (the label is one), alone and in pairs."""
    return variables * (variables + 1) // 2


def private_entropies(counts: Counts, epsilon, rng) -> np.ndarray:
    """All entropies with Laplace noise, epsilon-DP for replaced records (proof: module docstring), shape (v, v).

    Afterwards each value is moved to where it can be: H(x) to [0, log2 levels], H(x, y) to [max(H(x), H(y)), H(x) +
    H(y)]. ``epsilon``: > 0; inf for no noise.
    """
    exact = joint_entropies(counts)
    scale = entropies_needed(len(counts.levels)) * entropy_sensitivity(counts.n) / epsilon
    upper = np.triu(rng.laplace(0.0, 1.0, exact.shape) * scale)
    return _feasible(exact + upper + np.triu(upper, 1).T, counts.levels)


def private_tables(counts: Counts, epsilon, rng) -> np.ndarray:
    """All entropies from noisy tables of pairs, epsilon-DP for replaced records (proof: module docstring), (v, v).

    Laplace noise of 2 (number of pairs) / epsilon on each cell of each pair; negative counts become 0, every table is
    scaled to n records, and a variable alone is the mean of its margins.
    """
    v, n = len(counts.levels), counts.n
    blocks = [slice(a, a + size) for a, size in zip(counts.starts, counts.levels, strict=True)]
    scale = 2 * (v * (v - 1) // 2) / epsilon
    noise = np.triu(scale * rng.laplace(0.0, 1.0, counts.tables.shape))
    noisy = np.maximum(counts.tables + noise + np.triu(noise, 1).T, 0.0)  # own blocks are not used: see the last loop
    margins = [np.zeros(size) for size in counts.levels]
    for i in range(v):
        for j in range(i + 1, v):
            block = noisy[blocks[i], blocks[j]]
            total = block.sum()
            block[...] = block * (n / total) if total > 0 else n / block.size
            noisy[blocks[j], blocks[i]] = block.T
            margins[i] += block.sum(axis=1) / (v - 1)
            margins[j] += block.sum(axis=0) / (v - 1)
    for block, margin in zip(blocks, margins, strict=True):
        noisy[block, block] = np.diag(margin)
    return _feasible(_entropies(noisy, counts), counts.levels)


def _entropies(tables, counts: Counts) -> np.ndarray:
    """log2 n - sum c log2 c / n over each block."""
    terms = tables * np.log2(np.where(tables > 0, tables, 1.0))
    sums = np.add.reduceat(np.add.reduceat(terms, counts.starts, axis=0), counts.starts, axis=1)
    entropies = np.maximum(np.log2(counts.n) - sums / counts.n, 0.0)
    return (entropies + entropies.T) / 2  # the two orders of a pair differ by rounding


def _feasible(entropies, levels) -> np.ndarray:
    """Noisy entropies moved to the nearest values that entropies can have, pair by pair: post-processing."""
    alone = np.clip(np.diag(entropies), 0.0, np.log2(levels))
    least, most = np.maximum(alone[:, None], alone[None]), alone[:, None] + alone[None]
    joint = np.clip(entropies, least, most)
    np.fill_diagonal(joint, alone)
    return joint


def covariance_sensitivity(norm_bound: float) -> float:
    """The L2 sensitivity of the upper triangle of M: sqrt(2) (R^2 + 1)."""
    return float(np.sqrt(2) * (norm_bound**2 + 1))


def covariance(x, norm_bound: float, epsilon: float, delta: float, rng) -> tuple[np.ndarray, np.ndarray]:
    """The mean (d,) and covariance (d, d) of the rows of x (n, d), both from one (epsilon, delta)-DP release.

    ``epsilon``: inf for no noise. ParameterError for a row of L2 norm above ``norm_bound``.
    """
    x = np.asarray(x, dtype=float)
    most = np.linalg.norm(x, axis=1).max()
    if most > norm_bound * (1 + SLACK):
        raise ParameterError(f"norm_bound = {norm_bound:g} is not allowed: a row has norm {most:g}.")
    rows = np.hstack([x, np.ones((len(x), 1))])
    sigma = 0.0 if np.isinf(epsilon) else mechanisms.analytic_sigma(epsilon, delta, covariance_sensitivity(norm_bound))
    noise = np.triu(sigma * rng.standard_normal((rows.shape[1], rows.shape[1])))
    noise[-1, -1] = 0.0  # this entry is n, which is public
    moments = (rows.T @ rows + noise + np.triu(noise, 1).T) / len(x)
    mean = moments[:-1, -1]
    return mean, moments[:-1, :-1] - np.outer(mean, mean)


def components(cov, k: int) -> np.ndarray:
    """The k directions of most variance, (k, d), orthonormal, the first first; a direction's sign is arbitrary."""
    _, vectors = np.linalg.eigh(cov)
    return vectors[:, ::-1][:, :k].T


def captured(cov, directions) -> float:
    """Share of the variance of ``cov`` (the true one) that a projection on orthonormal directions (k, d) keeps."""
    return float(np.trace(directions @ cov @ directions.T) / np.trace(cov))
