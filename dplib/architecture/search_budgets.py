"""What a search over architectures or feature sets costs in privacy, and the noise that a total budget asks for.

A search trains candidates by a private mechanism and scores each on validation records. Two guarantees:

- **training records**: the cost of all trainings whose result is used, whatever the scores were computed on;
- **validation records**: the cost of the noisy scores (:func:`score_scale`).

Neighbouring data sets differ in one record of training and validation set together; a record belongs to one of the
two, by a rule that does not look at the data, and stays there. Then only one of the two guarantees is touched by that
record, and the search costs the larger of the two, not the sum: parallel composition, which holds for an interleaved,
adaptive search as well. For neighbours that differ in a training record every score is post-processing; for those that
differ in a validation record every training is the same mechanism. For the training records the relation is that of
the trainings: adding or removing one record for DP-SGD (``dplib.accounting``), whichever objective perturbation was
calibrated for. A replaced training record is one removed and one added: by group privacy it costs at
most (2 epsilon, (1 + e^epsilon) delta). For the validation records, their number n is public: replacing one moves an
accuracy by at most 1/n, and so does adding or removing one where the sum is divided by a fixed n.

Two kinds of search, both composed by :class:`Search`:

- **trainings one by one** (PAAS, PAFS): every result may steer what is trained next. The number must be a cap fixed in
  advance, at which the search stops; the distinct candidates c' counted afterwards depend on the data and are not
  covered. A candidate that is met again costs nothing if its old result is used again.
- **best of a random number of runs** (RS, each generation of MGRS): the number of runs is drawn from a distribution
  fixed in advance and kept secret, each run draws its candidate at random from a distribution that does not depend on
  the data (but may on published earlier results), and only the run of the highest score is published, with its model
  and score (Liu and Talwar 2019; Papernot and Steinke 2022). The runs must be independent and alike. Using the old
  model when a run draws a candidate again breaks that: two runs then share one model. Train it again.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, special

from dplib import accounting, rdp
from dplib.checks import ParameterError, fraction, integer, number, one_of, positive


@dataclass(frozen=True)
class Search:
    """What is spent: trainings composed one by one, and selections of the best of a random number of runs.

    One training is ``Search(1)``; PAAS or PAFS with at most 60 trainings ``Search(60)``; RS with 400 candidates on
    average ``Search(selections=((400, 1),))``; MGRS ``Search(selections=((40, 1), (20, 1), (10, 1)))``; a search whose
    choice is trained afresh at the end has one more in ``trainings``.

    Attributes:
        trainings: whole, >= 0: a cap fixed in advance, see the module.
        selections: pairs (mean_runs, shape). mean_runs >= 1 is the expected number of runs; shape > -1 is that of the
            truncated negative binomial distribution of their number (1 geometric, 0 logarithmic).
    """

    trainings: int = 0
    selections: tuple[tuple[float, float], ...] = ()

    def __post_init__(self):
        integer(0).check("trainings", self.trainings)
        for mean_runs, shape in self.selections:
            number(1, np.inf).check("mean_runs", mean_runs)
            if not -1 < shape < np.inf:
                raise ParameterError(f"shape = {shape!r} is not allowed: it must be above -1.")
        if self.trainings == 0 and not self.selections:
            raise ParameterError("a search needs a training or a selection.")


def dpsgd_epsilon(search: Search, noise_multiplier, sample_rate, steps, delta) -> float:
    """Epsilon at ``delta`` for the training records of a search whose every training is DP-SGD of the same setting.

    By Rényi divergences, which the theorems on selections are about, so that searches are compared by one account.
    Records are added or removed, batches are Poisson samples; arguments are scalars, the steps those of each training.
    """
    fraction().check("delta", delta)
    one = rdp.rdp(noise_multiplier, sample_rate, steps)
    total = search.trainings * one + sum(selection_rdp(one, *selection) for selection in search.selections)
    return float(rdp.to_epsilon(total, rdp.ORDERS, delta).min())


def noise_for(search: Search, total_epsilon, delta, sample_rate, steps, rtol=1e-6) -> float:
    """The least noise multiplier of each training for which :func:`dpsgd_epsilon` is at most the total.

    Args:
        total_epsilon: > 0. rtol: the result is at most this much above the least, and never below it.

    Raises:
        ParameterError: for a value outside its range, or a total out of reach.
    """
    positive().check("total_epsilon", total_epsilon)
    if not search.selections:
        steps = steps * search.trainings
        return float(accounting.noise_multiplier(total_epsilon, sample_rate, steps, delta, "rdp", rtol=rtol))

    def excess(log_sigma):
        return dpsgd_epsilon(search, float(np.exp(log_sigma)), sample_rate, steps, delta) - total_epsilon

    low = high = np.log(accounting.noise_multiplier(total_epsilon, sample_rate, steps, delta, "rdp"))
    while excess(high) > 0:
        low, high = high, high + 0.4
        if high > 20:
            raise ParameterError(f"total_epsilon = {total_epsilon:g} is below what {search} can be certified for.")
    if high == low:
        return float(np.exp(high))
    root = optimize.brentq(excess, low, high, xtol=rtol / 4)
    while excess(root) > 0:
        root += rtol / 4
    return float(np.exp(root))


def pure_epsilon(search: Search, epsilon) -> float:
    """Epsilon of a search whose every training (or every noisy score) is epsilon-DP: objective perturbation, Laplace.

    A training costs epsilon and a selection (2 + shape) epsilon (Papernot and Steinke 2022, Theorem 2 at infinite
    order; 3 epsilon for the geometric number, which is Liu and Talwar 2019).
    """
    positive().check("epsilon", epsilon)
    return float(epsilon * (search.trainings + sum(2 + shape for _, shape in search.selections)))


# --- validation records ----------------------------------------------------------------------------------------------


def score_scale(validation: int, epsilon: float) -> float:
    """Scale of the Laplace noise that makes one accuracy on ``validation`` records epsilon-DP: (1/n) / epsilon.

    All scores of a search together: :func:`pure_epsilon` of the same :class:`Search`. In a selection a run's output is
    its model and its noisy score, so that the scores cost (2 + shape) epsilon however many runs there are.
    """
    integer(1).check("validation", validation)
    positive().check("epsilon", epsilon)
    return 1 / (validation * epsilon)


# --- the best of a random number of runs -----------------------------------------------------------------------------


def selection_rdp(divergence, mean_runs, shape, orders=rdp.ORDERS):
    """Rényi divergences (k,) of publishing only the best of a random number of runs (Papernot and Steinke 2022).

    Truncated negative binomial, Theorem 2, with gamma from the mean and any other order a':
    rdp'(a) = rdp(a) + (1 + shape) ((1 - 1/a') rdp(a') + ln(1/gamma)/a') + ln(mean)/(a - 1).

    Args:
        divergence: (k,) of one run, at ``orders``. mean_runs: >= 1. shape: > -1.
    """
    orders, divergence = np.asarray(orders, dtype=float), np.asarray(divergence, dtype=float)
    other = (1 - 1 / orders) * divergence - np.log(stopping(mean_runs, shape)) / orders
    result = divergence + np.log(mean_runs) / (orders - 1) + (1 + shape) * other.min()
    return np.minimum.accumulate(result[::-1])[::-1]  # a divergence of a larger order bounds those of smaller ones


def stopping(mean_runs, shape) -> float:
    """The parameter gamma of the truncated negative binomial with this mean; 1/mean for the geometric (shape 1).

    Mean: shape (1/gamma - 1) / (1 - gamma^shape), or (1/gamma - 1) / ln(1/gamma) for shape 0.
    """
    if mean_runs == 1 or shape == 1:
        return 1 / mean_runs

    def excess(log_gamma):
        odds = np.expm1(-log_gamma)
        mean = odds / -log_gamma if shape == 0 else shape * odds / -np.expm1(shape * log_gamma)
        return np.log(mean) - np.log(mean_runs)

    low = -1.0
    while excess(low) < 0:
        low *= 2
    return float(np.exp(optimize.brentq(excess, low, -1e-12, xtol=1e-15, rtol=1e-14)))


def run_probabilities(mean_runs, shape, most: int):
    """Probabilities (most + 1,) of 0, 1, ... ``most`` runs; what is missing to 1 is the chance of more.

    A search that stops at ``most`` runs is another mechanism: with P the chance of more, its delta is larger by at most
    (1 + e^epsilon) P.
    """
    k = np.arange(most + 1)
    if mean_runs == 1:
        return (k == 1).astype(float)
    gamma, k = stopping(mean_runs, shape), k[1:]
    if shape == 0:
        log_p = k * np.log1p(-gamma) - np.log(k) - np.log(-np.log(gamma))
    else:
        rising = special.gammaln(k + shape) - special.gammaln(shape) - special.gammaln(k + 1)
        log_p = k * np.log1p(-gamma) + rising - np.log(abs(np.expm1(-shape * np.log(gamma))))
    return np.concatenate([[0.0], np.exp(log_p)])


# --- equation (9), on which the printed budgets of RS and MGRS rest: its x and failure probability are not stated


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
