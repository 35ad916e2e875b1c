"""What a search over architectures or feature sets costs in privacy, and the noise that a total budget asks for.

A search trains candidates by a private mechanism and scores each on validation records. The *training records* pay for
all trainings whose result is used, whatever the scores were computed on; the *validation records* for the noisy scores.

Neighbouring data sets differ in one record of both together; a record belongs to one of the two, by a rule that does
not look at the data, and stays there. Then the search costs the larger of the two guarantees, not the sum: parallel
composition, which holds for an interleaved, adaptive search as well. For neighbours that differ in a training record
every score is post-processing; for those that differ in a validation record every training is the same mechanism. For
training records the relation is that of the trainings: adding or removing one for DP-SGD, whichever objective
perturbation was calibrated for; a replaced one costs at most (2 epsilon, (1 + e^epsilon) delta), by group privacy. The
number n of validation records is public: replacing one moves an accuracy by at most 1/n, and so does adding or removing
one where the sum is divided by a fixed n.

- **trainings one by one** (PAAS, PAFS): every result may steer what is trained next. The number must be a cap fixed in
  advance, at which the search stops; the distinct candidates c' counted afterwards depend on the data and are not
  covered. A candidate that is met again costs nothing if its old result is used again.
- **best of a random number of runs** (RS, each generation of MGRS): the number of runs is drawn from a distribution
  fixed in advance and kept secret, each run draws its candidate at random from a distribution that does not depend on
  the data (but may on published earlier results), and only the run of the highest score is published, with its model
  and score (Liu and Talwar 2019; Papernot and Steinke 2022). The runs must be independent and alike: a candidate that
  is drawn again must be trained again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from dplib import accounting, rdp
from dplib.checks import ParameterError, Rule, array, bounded, integer, number, numbers, one_of, single


def _is_shape(value) -> bool:
    return number(-0.999, 1e6).accepts(value) and not 0 < abs(value) < 1e-6


def _are_pairs(value) -> bool:  # a list or a tuple: a generator, once walked, would cost nothing
    return isinstance(value, list | tuple) and all(isinstance(v, list | tuple) and len(v) == 2 for v in value)


_MEAN_RUNS = number(1, 1e9)
_SHAPE = Rule("0, or a number in [-0.999, 1e+06] at least 1e-6 from it", _is_shape)
_SELECTIONS = Rule("a list of pairs (mean_runs, shape)", _are_pairs)
_SAMPLE_RATE, _STEPS = single(numbers(1e-100, 1)), single(numbers(0, 2**53, whole=True))
_DELTA = single(numbers(1e-300, 1))  # 1 itself is refused by the accountant


@dataclass(frozen=True)
class Search:
    """What is spent: trainings composed one by one, and selections of the best of a random number of runs.

    PAAS or PAFS with at most 60 trainings is ``Search(60)``; RS with 400 candidates on average
    ``Search(selections=((400, 1),))``; a search whose choice is trained afresh has one more in ``trainings``.

    Args:
        trainings: a cap fixed in advance, see the module; whole, in [0, 1e9].
        selections: pairs (mean_runs, shape), a list or a tuple of them. mean_runs, in [1, 1e9], is the expected number
            of runs; shape > -1 is that of the truncated negative binomial distribution of their number (1 geometric, 0
            logarithmic).

    Raises:
        ParameterError: for a value outside its range, what is no pair, or a search that does nothing.
    """

    trainings: int = 0
    selections: tuple[tuple[float, float], ...] = ()

    def __post_init__(self):
        integer(0, 10**9).check("trainings", self.trainings)
        _SELECTIONS.check("selections", self.selections)
        object.__setattr__(self, "selections", tuple(map(tuple, self.selections)))
        for mean_runs, shape in self.selections:
            number(1, 1e9).check("mean_runs", mean_runs)
            _SHAPE.check("shape", shape)
        if self.trainings == 0 and not self.selections:
            raise ParameterError("trainings = 0 is not allowed without a selection: a search needs one of both.")


@bounded(noise_multiplier=single(numbers(0, 1e100)), sample_rate=_SAMPLE_RATE, steps=_STEPS, delta=_DELTA)
def dpsgd_epsilon(search: Search, noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Epsilon at ``delta`` for the training records of a search whose every training is DP-SGD of the same setting.

    By Rényi divergences, which the theorems on selections are about, so that searches are compared by one account.
    Records are added or removed, batches are Poisson samples.

    Args:
        search: what is trained and what is selected.
        noise_multiplier: standard deviation of the noise over the clipping norm, one number in [0, 1e100]; 0 costs inf.
        sample_rate: one number in [1e-100, 1].
        steps: of each training, whole, in [0, 2^53].
        delta: one number in [1e-300, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    training = rdp.rdp(noise_multiplier, sample_rate, steps)
    one_by_one = search.trainings * training if search.trainings else 0.0  # 0 times inf is no number
    total = one_by_one + sum(selection_rdp(training, *selection) for selection in search.selections)
    return float(rdp.to_epsilon(total, rdp.ORDERS, delta).min())


@bounded(
    total_epsilon=number(1e-6, 1e6),
    delta=_DELTA,
    sample_rate=_SAMPLE_RATE,
    steps=integer(1, 10**12),
    rtol=number(1e-12, 1),
)
def noise_for(
    search: Search, total_epsilon: float, delta: float, sample_rate: float, steps: int, rtol: float = 1e-6
) -> float:
    """The least noise multiplier of each training for which :func:`dpsgd_epsilon` is at most the total.

    Args:
        search: what is trained and what is selected.
        total_epsilon: budget of the whole search, in [1e-6, 1e6].
        delta: one number in [1e-300, 1).
        sample_rate: one number in [1e-100, 1].
        steps: of each training, whole, in [1, 1e12].
        rtol: the result is at most this much above the least, relatively, and never below it, in [1e-12, 1].

    Raises:
        ParameterError: for a value outside its range, or a total out of reach.
    """
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


@bounded(epsilon=number(0, 1e6))
def pure_epsilon(search: Search, epsilon: float) -> float:
    """Epsilon of a search whose every training (or every noisy score) is epsilon-DP: objective perturbation, Laplace.

    A training costs epsilon and a selection (2 + shape) epsilon (Papernot and Steinke 2022, Theorem 2 at infinite
    order; 3 epsilon for the geometric number, which is Liu and Talwar 2019).

    Args:
        search: what is trained and what is selected.
        epsilon: of each training, or of each noisy score, in [0, 1e6].

    Raises:
        ParameterError: for a value outside its range.
    """
    return float(epsilon * (search.trainings + sum(2 + shape for _, shape in search.selections)))


# --- pure mechanisms: equation (8) of the paper, and better answers ---------------------------------------------------


@bounded(epsilon=numbers(0, 1000), count=numbers(1, 10**6, whole=True), delta=numbers(1e-300, 1))
def composed_epsilon(
    epsilon: ArrayLike, count: ArrayLike, delta: ArrayLike, rule: str = "optimal"
) -> float | np.ndarray:
    """Epsilon at ``delta`` of several mechanisms together, each epsilon-DP; arrays broadcast.

    They may be chosen by earlier outputs, but ``count`` and epsilon are fixed in advance, or a cap is at which the
    search stops: the distinct candidates c' that a search with memoisation happened to train are covered by no theorem.

    Args:
        epsilon: of each mechanism, in [0, 1000].
        count: how many mechanisms, whole, in [1, 1e6].
        delta: in [1e-300, 1].
        rule: "basic": count * epsilon, at any delta. "printed": equation (8) as printed, with the second term under the
            root; it is no bound. "corrected": with the bracket closed before it, which is advanced composition (Dwork,
            Rothblum and Vadhan 2010, Theorem III.3); it may exceed "basic". "optimal": the least epsilon that holds for
            all epsilon-DP mechanisms (Kairouz, Oh and Viswanath 2015, Theorem 3.3); randomised response attains it.

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    one_of(*_RULE).check("rule", rule)
    named = {"epsilon": epsilon, "count": count, "delta": delta}
    values = rdp.together(*(array(name, value) for name, value in named.items()))
    return np.vectorize(_RULE[rule], otypes=[float])(*values)[()]


def _printed(epsilon, count, delta):
    return epsilon * np.sqrt(-2 * count * np.log(delta) + count * epsilon * np.expm1(epsilon))


def _corrected(epsilon, count, delta):
    return epsilon * np.sqrt(-2 * count * np.log(delta)) + count * epsilon * np.expm1(epsilon)


def _optimal(epsilon, count, delta):
    """The worst set of outputs holds all with at most m false answers; epsilon is the largest ln((P - delta) / Q)."""
    false = np.arange(count + 1)
    masses = (stats.binom.logpmf(counts, count, special.expit(-epsilon)) for counts in (false, false[::-1]))
    log_p, log_q = map(np.logaddexp.accumulate, masses)
    above = log_p > np.log(delta)
    with np.errstate(divide="ignore"):
        ratios = log_p[above] + np.log(-np.expm1(np.log(delta) - log_p[above])) - log_q[above]
    return float(np.clip(ratios.max(initial=0.0), 0.0, count * epsilon))


_RULE = {
    "basic": lambda epsilon, count, delta: count * epsilon,
    "printed": _printed,
    "corrected": _corrected,
    "optimal": _optimal,
}


# --- the best of a random number of runs -----------------------------------------------------------------------------


@bounded(mean_runs=number(1, 1e9), shape=_SHAPE)
def selection_rdp(divergence: ArrayLike, mean_runs: float, shape: float, orders: ArrayLike = rdp.ORDERS) -> np.ndarray:
    """Rényi divergences (k,) of publishing only the best of a random number of runs (Papernot and Steinke 2022).

    Truncated negative binomial, Theorem 2, with gamma from the mean and any other order a': rdp'(a) = rdp(a) + (1 +
    shape) ((1 - 1/a') rdp(a') + ln(1/gamma)/a') + ln(mean)/(a - 1).

    Args:
        divergence: of one run, at each order, shape (k,).
        mean_runs: expected number of runs, in [1, 1e9].
        shape: of the truncated negative binomial law of the number of runs, > -1: 1 is geometric, 0 logarithmic.
        orders: shape (k,), > 1, increasing.

    Raises:
        ParameterError: for a value outside its range, or orders that do not increase or are not one a divergence.
    """
    divergence, orders = rdp.numbers("divergence", divergence), rdp.check_each_order("divergence", divergence, orders)
    if divergence.ndim != 1 or not divergence.size:  # the least over several mechanisms bounds none but one of them
        raise ParameterError(f"divergence of shape {divergence.shape} is not allowed: it must be of shape (k,).")
    if not (np.diff(orders) > 0).all():  # the last line would take small divergences for those of larger orders
        raise ParameterError("orders must increase.")
    if not (divergence >= 0).all():
        raise ParameterError("divergence must hold numbers >= 0.")
    other = (1 - 1 / orders) * divergence - np.log(stopping(mean_runs, shape)) / orders
    result = divergence + np.log(mean_runs) / (orders - 1) + (1 + shape) * other.min()
    return np.minimum.accumulate(result[::-1])[::-1]  # a divergence of a larger order bounds those of smaller ones


@bounded(mean_runs=_MEAN_RUNS, shape=_SHAPE)
def stopping(mean_runs: float, shape: float) -> float:
    """The parameter gamma of the truncated negative binomial with this mean; 1/mean for the geometric (shape 1).

    Mean: shape (1/gamma - 1) / (1 - gamma^shape), or (1/gamma - 1) / ln(1/gamma) for shape 0. Below 1 where the mean is
    above 1: a gamma that rounds to 1 is given as the number before it, since a smaller one costs more.

    Args:
        mean_runs: expected number of runs, in [1, 1e9].
        shape: of the truncated negative binomial law of the number of runs, > -1: 1 is geometric, 0 logarithmic.

    Raises:
        ParameterError: for a value outside its range, or a mean that the shape does not reach.
    """
    if mean_runs == 1 or shape == 1:
        return 1 / mean_runs

    def excess(log_gamma):
        odds = np.expm1(-log_gamma)
        mean = odds / -log_gamma if shape == 0 else shape * odds / -np.expm1(shape * log_gamma)
        return np.log(mean) - np.log(mean_runs)

    low = -1.0
    with np.errstate(over="ignore", invalid="ignore"):
        while (reached := excess(low)) < 0:
            low *= 2
    if not np.isfinite(reached):  # near shape -1 the mean grows like a power of 1/gamma that is nearly 0
        raise ParameterError(f"mean_runs = {mean_runs:g} is out of reach with shape = {shape:g}.")
    if excess(-1e-12) < 0:
        return float(np.exp(optimize.brentq(excess, low, -1e-12, xtol=1e-15, rtol=1e-14)))
    root = optimize.brentq(excess, -1e-12, -1e-24, xtol=1e-27, rtol=1e-14)  # the mean is nearly 1, or the shape large
    return float(np.nextafter(np.exp(root), 0.0))


@bounded(mean_runs=_MEAN_RUNS, shape=_SHAPE, most=integer(1, 10**8))
def run_probabilities(mean_runs: float, shape: float, most: int) -> np.ndarray:
    """Probabilities (most + 1,) of 0, 1, ... ``most`` runs; what is missing to 1 is the chance of more.

    A search that stops at ``most`` runs is another mechanism: with P the chance of more, its delta is larger by at most
    (1 + e^epsilon) P.

    Args:
        mean_runs: expected number of runs, in [1, 1e9].
        shape: of the truncated negative binomial law of the number of runs, > -1: 1 is geometric, 0 logarithmic.
        most: the largest number of runs that is asked for, whole, in [1, 1e8].

    Raises:
        ParameterError: for a value outside its range.
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


TRAINING, RS = 2.11, 3.51  # epsilon of one training (Section IX-A), and that of RS
RS_RUNS, MGRS_RUNS = 400, (40, 20, 10)
FORMS = ("printed", "corrected")


@bounded(loss=numbers(1e-9, 1), validation=numbers(1, 1e12), count=numbers(1, 1e12), failure=numbers(1e-100, 1))
def equation_9(
    loss: ArrayLike, validation: ArrayLike, count: ArrayLike, failure: ArrayLike, form: str = "corrected"
) -> float | np.ndarray:
    """The least epsilon' that satisfies equation (9), loss * validation >= (4/epsilon') ln(C/epsilon'); arrays
    broadcast.

    It rests on Theorem 10.2 of Gupta et al. (2010), which Abadi et al. (2016, Appendix D) restate. A mechanism is
    epsilon-DP and with probability at least p its output scores Q or more, for a score of sensitivity 1 (the number of
    correct validation records). Then for epsilon' in (0, 1/2) there is an (epsilon + 8 epsilon')-DP mechanism whose
    output scores at least Q - (4/epsilon') ln(1/(epsilon' failure p)), except with probability ``failure``. With one
    good setting among ``count``, drawn uniformly, p = 1/count: the logarithm is of count/(epsilon' failure), the form
    "corrected". The "printed" form has ``count`` in the denominator, as if p were count.

    Three conditions are not met in the paper: the theorem is for pure epsilon-DP, and DP-SGD has a delta; its mechanism
    runs :func:`theorem_runs` trainings, not ``count``; and scores must be noised by its rule. On the other hand
    max(epsilon, 8 epsilon') is enough where trainings and scores use disjoint records (Abadi et al., ibid.).

    Args:
        loss: the accuracy given up, x in the paper, in [1e-9, 1].
        validation: records, in [1, 1e12].
        count: settings that are tried, in [1, 1e12].
        failure: the paper's delta, in [1e-100, 1].
        form: one of :data:`FORMS`, "corrected" or "printed".

    Returns:
        Epsilon', closed form by Lambert's W; inf where it would be 1/2 or more, which the theorem does not cover.

    Raises:
        ParameterError: for a value outside its range, another form, or shapes that do not fit.
    """
    loss, validation, count, failure = rdp.arrays(loss=loss, validation=validation, count=count, failure=failure)
    slope = loss * validation / 4  # epsilon' e^(slope epsilon') = C
    root = special.lambertw(slope * _constant(count, failure, form)).real / slope
    return np.where(root < 0.5, root, np.inf)[()]


def _constant(count, failure, form):
    one_of(*FORMS).check("form", form)
    return count / failure if form == "corrected" else 1 / (count * failure)


@bounded(selection_epsilon=number(1e-9, 0.5), failure=number(1e-100, 1), p=number(1e-100, 1))
def theorem_runs(selection_epsilon: float, failure: float, p: float) -> float:
    """Trainings that the mechanism of the theorem makes: y^2 ln y with y = 1/(epsilon' failure p).

    Args:
        selection_epsilon: epsilon', in [1e-9, 0.5]; the theorem is for less than 1/2.
        failure: chance that it fails, in [1e-100, 1].
        p: chance that a training is good, in [1e-100, 1].

    Raises:
        ParameterError: for a value outside its range.
    """
    y = 1 / (selection_epsilon * failure * p)
    return float(y**2 * np.log(y))


def least_mgrs(form: str) -> float:
    """The least budget of MGRS, the sum of epsilon + 8 epsilon' over generations, with settings that give RS its 3.51.

    3.51 fixes epsilon' = 0.175 for 400 candidates, hence loss * validation for each failure probability from 1e-15 to
    0.5, whatever they are alone; what is left is one line of MGRS budgets. It starts above the printed 8.53.

    Args:
        form: one of :data:`FORMS`, "corrected" or "printed".

    Raises:
        ParameterError: for another form.
    """
    rs = (RS - TRAINING) / 8
    failure = np.exp(np.linspace(np.log(1e-15), np.log(0.5), 500))
    records = 4 / rs * np.log(_constant(RS_RUNS, failure, form) / rs)
    failure, records = failure[records > 1], records[records > 1]
    selections = sum(8 * equation_9(1.0, records, count, failure, form) for count in MGRS_RUNS)
    return float(len(MGRS_RUNS) * TRAINING + selections.min())
