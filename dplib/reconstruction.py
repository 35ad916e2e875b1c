"""Reading a table of secrets from sums over groups, by a linear program (Dinur and Nissim 2003, Section 3.1).

It is an attack, for trying what a set of published counts or averages gives away.
"""

import numpy as np
from scipy import optimize, sparse

from dplib.checks import ParameterError, reals, shown

MOST = 1e15  # people: beyond, a float hardly counts single ones, and from 1e20 on the solver takes a bound for none


def from_sums(groups: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The secrets, 0 or 1, that miss the published sums by least.

    It minimises the sum of |sums - groups x| over tables x with entries between 0 and 1, and rounds.

    Args:
        groups: whether person j counts in group i, shape (m, n), entries 0 or 1.
        sums: what was published for each group, with noise or without, shape (m,), in people, in [-1e15, 1e15].

    Returns:
        Secrets, shape (n,), True for 1.

    Raises:
        ParameterError: for groups that are no table, sums of another number of groups or outside their range, or where
            the solver finds no table.
    """
    groups, sums = reals("groups", groups), reals("sums", sums)
    if groups.ndim != 2 or not groups.size or not np.isin(groups, (0, 1)).all():
        raise ParameterError(f"groups of shape {groups.shape} are not allowed: a table of zeros and ones is.")
    if sums.shape != groups.shape[:1] or not (abs(sums) <= MOST).all():
        raise ParameterError(
            f"sums = {shown(sums.tolist())} is not allowed: it must be {len(groups)} numbers in "
            f"[-{MOST:g}, {MOST:g}], one a group."
        )
    m, n = groups.shape
    missed = sparse.eye_array(m)
    solved = optimize.linprog(
        c=np.r_[np.zeros(n), np.ones(m)],
        A_ub=sparse.block_array([[groups, -missed], [-groups, -missed]]),
        b_ub=np.r_[sums, -sums],
        bounds=[(0, 1)] * n + [(0, None)] * m,
    )
    if not solved.success:
        raise ParameterError(f"sums = {shown(sums.tolist())}: the linear program found no table ({solved.message})")
    return solved.x[:n] > 0.5
