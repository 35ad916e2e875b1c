"""How good can a label mechanism be? The two linear programs of Ghazi and others (2021), Section 3.2, and a proof.

LP1 ranges over all epsilon-DP tables q(output | label); LP2 over their diagonals x_y = q(y | y) alone:

    LP1: max sum_y p_y q(y|y)   with  q(o|y) <= e^epsilon q(o|y'),  sum_o q(o|y) = 1,  q >= 0;
    LP2: max sum_y p_y x_y      with  x_y' + e^-epsilon sum over y != y' of x_y <= 1,  x >= 0.

Both are solved by HiGHS through SciPy; :func:`certificate` needs no solver. Neighbours: one label in place of another.
"""

from itertools import combinations

import numpy as np
from scipy import optimize, sparse

from dplib import randomised_response
from dplib.checks import ParameterError

# The least tolerances that HiGHS takes.
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def lp1(prior, epsilon: float) -> tuple[float, np.ndarray]:
    """The best table of all epsilon-DP mechanisms whose outputs are labels, LP1: its value, and q (true label, output).

    Solved with one more variable for each output, m_o, the least probability of o under any label:
    m_o <= q(o|y) <= e^epsilon m_o says the same as the constraints above. As printed, the solver now and then gives up
    where e^-epsilon nears its tolerance. In s = q - m and M = e^epsilon m:

        0 <= s(o|y) <= (1 - e^-epsilon) M_o,     e^-epsilon sum_o M_o + sum_o s(o|y) = 1.

    Args:
        prior: shape (K,). epsilon: at least 0.
    """
    prior = np.asarray(prior, dtype=float)
    classes, less, keep = len(prior), np.exp(-epsilon), -np.expm1(-epsilon)
    each = sparse.eye_array(classes)
    private = sparse.hstack([sparse.vstack([-keep * each] * classes), sparse.eye_array(classes**2)], format="csr")
    rows = sparse.hstack([np.full((classes, classes), less), sparse.kron(each, np.ones((1, classes)))], format="csr")
    gain = np.concatenate([less * prior, np.diag(prior).ravel()])
    solved = _solve(gain, private, np.zeros(classes**2), rows, np.ones(classes))
    return -solved.fun, less * solved.x[:classes] + solved.x[classes:].reshape(classes, classes)


def lp1_as_printed(prior, epsilon: float) -> tuple[float, np.ndarray]:
    """LP1 with a constraint for every output and pair of labels, as a check of :func:`lp1`.

    Raises ArithmeticError where the solver gives up, which happens from epsilon of about 10 on.
    """
    prior = np.asarray(prior, dtype=float)
    classes = len(prior)
    output, label, other = np.indices((classes, classes, classes)).reshape(3, -1)
    output, label, other = (index[label != other] for index in (output, label, other))
    rows, tables = np.arange(len(output)), (len(output), classes**2)
    less = sparse.csr_array((np.full(len(rows), np.exp(-epsilon)), (rows, label * classes + output)), shape=tables)
    more = sparse.csr_array((np.ones(len(rows)), (rows, other * classes + output)), shape=tables)
    sums = sparse.kron(sparse.eye_array(classes), np.ones((1, classes)), format="csr")
    solved = _solve(np.diag(prior).ravel(), less - more, np.zeros(len(rows)), sums, np.ones(classes))
    return -solved.fun, solved.x.reshape(classes, classes)


def lp2(prior, epsilon: float) -> float:
    """The optimal value of the relaxation LP2; arguments as in :func:`lp1`."""
    prior = np.asarray(prior, dtype=float)
    return -_solve(prior, _diagonals(len(prior), epsilon), np.ones(len(prior))).fun


def _diagonals(classes: int, epsilon: float) -> np.ndarray:
    """The constraints of LP2, shape (K, K): 1 on the diagonal, e^-epsilon elsewhere."""
    return np.exp(-epsilon) + -np.expm1(-epsilon) * np.eye(classes)


def certificate(prior, epsilon) -> tuple[np.ndarray, np.ndarray]:
    """An upper bound on the objective of every epsilon-DP mechanism, by LP duality and without a solver.

    The dual of LP2 asks for z >= 0 with z_y + e^-epsilon sum over y' != y of z_y' >= p_y for all y; then sum z bounds
    LP2, hence LP1. With the level t = e^-epsilon w_k*, take z_y = max(p_y - t, 0) / (1 - e^-epsilon). For epsilon > 0:
    (sum z, the most by which a constraint of the dual fails, 0 up to rounding), shape (...).
    """
    prior = np.asarray(prior, dtype=float)
    less, keep = np.exp(-np.asarray(epsilon, dtype=float)), -np.expm1(-np.asarray(epsilon, dtype=float))
    if not (keep > 0).all():
        raise ParameterError("epsilon must be greater than 0: at 0 the bound is the largest prior.")
    level = less * randomised_response.success(prior, epsilon).max(axis=-1)
    z = np.maximum(prior - level[..., None], 0.0) / keep[..., None]
    bound = z.sum(axis=-1)
    covered = z * keep[..., None] + (less * bound)[..., None]
    return bound, np.maximum(prior - covered, 0.0).max(axis=-1)


def vertices(classes: int, epsilon: float) -> np.ndarray:
    """All extreme points of LP2's polytope by brute force, shape (number, K): every choice of K of its 2K constraints.

    Args:
        classes: K, small: there are (2K choose K) systems to solve.
    """
    rows = np.vstack([_diagonals(classes, epsilon), np.eye(classes)])
    ends = np.repeat([1.0, 0.0], classes)
    chosen = np.array(list(combinations(range(2 * classes), classes)))
    systems, sides = rows[chosen], ends[chosen]
    regular = np.linalg.matrix_rank(systems, tol=1e-9) == classes
    points = np.linalg.solve(systems[regular], sides[regular][..., None])[..., 0]
    feasible = ((points >= -1e-9) & (points @ rows[:classes].T <= 1 + 1e-9)).all(axis=1)
    return np.unique(np.round(points[feasible], 9) + 0.0, axis=0)


def _solve(gain, less, most, equal=None, values=None):
    solved = optimize.linprog(
        -gain, A_ub=less, b_ub=most, A_eq=equal, b_eq=values, bounds=(0, None), method="highs-ds", options=_OPTIONS
    )
    if solved.status != 0:
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")
    return solved
