"""Equation (9) of paper B, on which its budgets of RS and MGRS rest, as printed and corrected.

The loss x and the failure probability δ are not stated: :func:`joint_fits` tries them all. What is proven of such
searches is in ``dplib.architecture.search_budgets``.
"""

import itertools

import numpy as np
import pandas as pd
from scipy import optimize, special

from dplib.checks import ParameterError, fraction, integer, one_of, positive

TRAINING = 2.11  # epsilon of one training (Section IX-A)
RS_RUNS, MGRS_RUNS = (400,), (40, 20, 10)
FORMS = ("printed", "corrected")


def equation_9(loss, validation, count, failure, form="corrected"):
    """The least epsilon' that satisfies equation (9), loss * validation >= (4/epsilon') ln(C/epsilon').

    It rests on Theorem 10.2 of Gupta et al. (2010), which Abadi et al. (2016, Appendix D) restate. A mechanism is
    epsilon-DP and with probability at least p its output scores Q or more, for a score of sensitivity 1 (the number of
    correct validation records). Then for epsilon' in (0, 1/2) there is an (epsilon + 8 epsilon')-DP mechanism whose
    output scores at least Q - (4/epsilon') ln(1/(epsilon' failure p)), except with probability ``failure``. With one
    good setting among ``count``, drawn uniformly, p = 1/count: the logarithm is of count/(epsilon' failure), the form
    "corrected". The "printed" form has ``count`` in the denominator, as if p were count.

    Three conditions are not met in the paper: the theorem is for pure epsilon-DP, and DP-SGD has a delta; its
    mechanism runs :func:`theorem_runs` trainings, not ``count``; and scores must be noised by its rule. On the other
    hand max(epsilon, 8 epsilon') is enough where trainings and scores use disjoint records (Abadi et al., ibid.).

    Args:
        loss: accuracy given up, in (0, 1), x in the paper. validation: records, v. count: candidates, k. failure: in
            (0, 1), delta in the paper, not that of differential privacy. Arrays broadcast.
        form: one of :data:`FORMS`.

    Returns:
        epsilon', closed form by Lambert's W (an array of the broadcast shape, a float for scalars); inf where it would
        be 1/2 or more, which the theorem does not cover.
    """
    one_of(*FORMS).check("form", form)
    loss, validation, count, failure = (np.asarray(v, dtype=float) for v in (loss, validation, count, failure))
    if not ((loss > 0).all() and (validation >= 1).all() and (count >= 1).all() and (failure > 0).all()):
        raise ParameterError("loss and failure must be greater than 0, validation and count at least 1.")
    slope = loss * validation / 4  # epsilon' e^(slope epsilon') = C
    constant = count / failure if form == "corrected" else 1 / (count * failure)
    found = special.lambertw(slope * constant).real / slope
    return np.where(found < 0.5, found, np.inf)[()]


def theorem_runs(selection_epsilon, failure, p) -> float:
    """Trainings that the mechanism of the theorem makes: y^2 ln y with y = 1/(epsilon' failure p)."""
    positive().check("selection_epsilon", selection_epsilon)
    fraction().check("failure", failure)
    y = 1 / (selection_epsilon * failure * p)
    return float(y**2 * np.log(y))


def search_epsilon(runs, loss, validation, failure, form="corrected", training=TRAINING, once=False) -> float:
    """The paper's budget of RS (one entry in ``runs``) or MGRS (one a generation): the sum of epsilon + 8 epsilon'.

    Args:
        runs: candidates of each generation. loss, validation, failure, form: as in :func:`equation_9`.
        training: epsilon of one training. once: count it once, not in every generation (the paper says every one).
    """
    for count in runs:
        integer(1).check("runs", count)
    selection = sum(8 * equation_9(loss, validation, count, failure, form) for count in runs)
    return float((1 if once else len(runs)) * training + selection)


def joint_fits() -> pd.DataFrame:
    """Whether one loss and one failure probability give both 3.51 for RS and 8.53 for MGRS, without any grid.

    3.51 fixes epsilon' = 0.175 for 400 candidates, hence loss * validation for each failure probability from 1e-15 to
    0.5; what is left is one line of MGRS budgets.

    Returns:
        Columns form, training (counted each generation or once), lowest and highest MGRS budget on that line, and
        failure and records (loss * validation) where it is 8.53, nan where it never is.
    """
    rows, rs = [], (3.51 - TRAINING) / 8

    def mgrs(log_failure, form, once):
        failure = np.exp(log_failure)
        constant = RS_RUNS[0] / failure if form == "corrected" else 1 / (RS_RUNS[0] * failure)
        records = 4 / rs * np.log(constant / rs)
        return (search_epsilon(MGRS_RUNS, 1.0, records, failure, form, once=once), records) if records > 1 else None

    for form, once in itertools.product(FORMS, (False, True)):
        line = [(at, *found) for at in np.linspace(np.log(1e-15), np.log(0.5), 500) if (found := mgrs(at, form, once))]
        at, values, _ = (np.array(part) for part in zip(*line, strict=True))
        finite = np.isfinite(values)
        at, values = at[finite], values[finite]
        failure = records = np.nan
        if values.min() < 8.53 < values.max():
            k = int(np.flatnonzero((values[1:] - 8.53) * (values[:-1] - 8.53) <= 0)[0])
            root = optimize.brentq(lambda x, form=form, once=once: mgrs(x, form, once)[0] - 8.53, at[k], at[k + 1])
            failure, records = float(np.exp(root)), mgrs(root, form, once)[1]
        rows.append((form, "once" if once else "each generation", values.min(), values.max(), failure, records))
    return pd.DataFrame(rows, columns=["form", "training", "lowest", "highest", "failure", "records"])
