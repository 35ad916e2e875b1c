"""The accounting of paper D (Section 3.3): its equations as printed and corrected, and what a budget buys.

Neighbouring data sets differ by adding or removing one example; batches are Poisson samples. Everything here is about
*plain* DP-SGD, in which every noisy gradient is counted. That accepted updates alone may be counted is the paper's
claim, which :mod:`papers.screening.one_update` tests.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from dplib import accounting, rdp
from dplib.checks import ParameterError, one_of, positive

ORDERS = np.arange(2, 65)
COUNTS = ("paper", "rdp", "prv", "pld")
DELTA = 1e-5


def paper_epsilon(noise_multiplier, sample_rate, steps, delta):
    """Theorem 1 with the logarithm that eqs. (4) and (9) leave out, by Lemma 2, over the orders 2 to 64.

    Args and result broadcast as those of :func:`dplib.rdp.epsilon`.
    """
    return rdp.epsilon(noise_multiplier, sample_rate, steps, delta, "classical", ORDERS)


Spent = Callable[[float, float, int, float], float]


@functools.lru_cache(maxsize=4096)
def steps_allowed(
    target_epsilon: float, noise_multiplier: float, sample_rate: float, delta: float, count: str | Spent = "paper"
) -> int:
    """The most steps whose epsilon is at most the target; 0 where one step spends more.

    Args:
        count: "paper" (:func:`paper_epsilon`), "rdp" (finer orders, better conversion), "prv" or "pld" (their proven
            upper ends); or a function of (noise_multiplier, sample_rate, steps, delta) that rises with the steps.
    """
    setting = noise_multiplier, sample_rate
    positive().check("target_epsilon", target_epsilon)
    if callable(count):
        return most_steps(lambda steps: float(count(*setting, steps, delta)), target_epsilon)
    one_of(*COUNTS).check("count", count)
    if count == "paper":
        return most_steps(lambda steps: float(paper_epsilon(*setting, steps, delta)), target_epsilon)
    guess = 0
    if count != "rdp":  # a second or so each: begin at the quick computation's answer
        guess = most_steps(lambda steps: tight(*setting, steps, delta), target_epsilon)
    return most_steps(lambda steps: float(accounting.epsilon(*setting, steps, delta, count)), target_epsilon, guess)


def most_steps(spent: Callable[[int], float], target: float, guess: int = 0) -> int:
    """The largest whole number that spends at most the target, 0 where 1 spends more; ``spent`` rises with the steps.

    guess: where to begin; it changes how long the search takes, not what it finds.
    """
    spent = functools.cache(spent)
    step = max(1, guess // 1000)
    low, high = max(0, guess - step), guess + step
    while spent(high) <= target:
        step *= 2
        low, high = high, high + step
    while low and spent(low) > target:
        step *= 2
        low, high = max(0, low - step), low
    if not low:
        if spent(1) > target:
            return 0
        low = 1
    most = round(optimize.brentq(lambda n: spent(round(n)) - target, low, high, xtol=0.5))
    while spent(most) > target:
        most -= 1
    while spent(most + 1) <= target:
        most += 1
    return most


@functools.lru_cache(maxsize=16384)
def tight(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Epsilon of plain DP-SGD by transform inversion; from above, by PLD, where a few steps make that imprecise."""
    if steps == 0:
        return 0.0
    try:
        return accounting.inverted_epsilon(noise_multiplier, sample_rate, steps, delta)
    except ParameterError:
        return float(accounting.epsilon(noise_multiplier, sample_rate, steps, delta, "pld"))


@dataclass(frozen=True)
class PrintedTraining:
    """A column of Table 2 with the size of its training set."""

    name: str
    records: int
    batch: int
    noise_multiplier: float
    limit: int

    @property
    def sample_rate(self) -> float:
        """q = B / N."""
        return self.batch / self.records


SETTINGS = (
    PrintedTraining("MNIST", 60_000, 512, 1.23, 10),
    PrintedTraining("Fashion-MNIST", 60_000, 2048, 2.15, 5),
    PrintedTraining("CIFAR-10", 50_000, 1024, 1.54, 10),
)


def log_moment(noise_multiplier: float, sample_rate: float, orders) -> np.ndarray:
    """log A of equation (8), term by term, for whole orders; shape of ``orders``."""
    moments = []
    for order in np.asarray(orders, dtype=int):
        k = np.arange(order + 1)
        log_binomial = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        log_rates = special.xlogy(k, sample_rate) + special.xlog1py(order - k, -sample_rate)
        moments.append(special.logsumexp(log_binomial + log_rates + (k * k - k) / (2 * noise_multiplier**2)))
    return np.array(moments)


def log_moments_by_quadrature(noise_multiplier: float, sample_rate: float, order: float) -> tuple[float, float]:
    """(log A, log B) of equation (7) by the trapezoidal rule in log space, for any order > 1."""
    sigma, q = noise_multiplier, sample_rate
    z = np.linspace(-14 * sigma - order, 14 * sigma + order + 1, 40_001)
    base = -(z**2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * np.pi))
    with np.errstate(divide="ignore"):
        ratio = np.logaddexp(np.log1p(-q), np.log(q) + (2 * z - 1) / (2 * sigma**2))  # log mu / mu_0
    step = np.log(z[1] - z[0])
    return (
        float(special.logsumexp(base + order * ratio) + step),
        float(special.logsumexp(base + (1 - order) * ratio) + step),
    )


def renyi(steps, noise_multiplier, sample_rate, orders=ORDERS, logarithm=True):
    """Equation (9) for each order: steps / (order - 1) times log A; without ``logarithm`` times A, as printed."""
    log_a = log_moment(noise_multiplier, sample_rate, orders)
    with np.errstate(over="ignore"):
        return steps / (np.asarray(orders) - 1.0) * (log_a if logarithm else np.exp(log_a))


def epsilon(steps, noise_multiplier, sample_rate, delta=DELTA, logarithm=True, conversion="classical"):
    """(epsilon, best order): equation (4) term by term, the smallest over the orders of Theorem 1.

    With the defaults it is what :func:`paper_epsilon` takes from an accountant.

    Args:
        logarithm: False for the equation as printed. conversion: "classical" is Lemma 2, "improved" Lemma 3.
    """
    divergences = renyi(steps, noise_multiplier, sample_rate, logarithm=logarithm)
    bounds = rdp.to_epsilon(divergences, ORDERS, delta, conversion)
    return float(bounds.min()), int(ORDERS[bounds.argmin()])


# How a budget may be counted, as :func:`steps_allowed` takes it; "prv" and "pld" are proven upper ends.
METHODS = {
    "printed": lambda sigma, q, steps, delta: epsilon(steps, sigma, q, delta, logarithm=False)[0],
    "lemma 2": "paper",
    "lemma 2, finer orders": functools.partial(rdp.epsilon, conversion="classical"),
    "lemma 3": functools.partial(rdp.epsilon, conversion="improved", orders=ORDERS),
    "lemma 3, finer orders": "rdp",
    "prv": "prv",
    "pld": "pld",
}


def candidates_per_update(rejection_rate: float, limit: int) -> float:
    """Expected number of noisy gradients behind one accepted update: 1 + r + ... + r^limit."""
    return float((rejection_rate ** np.arange(limit + 1)).sum())


def all_queries(setting: PrintedTraining, steps: int, acceptance_rate: float, delta: float = DELTA) -> float:
    """Epsilon of every noisy gradient of a run with ``steps`` accepted ones, at accepted over drawn ones in (0, 1]."""
    return tight(setting.noise_multiplier, setting.sample_rate, round(steps / acceptance_rate), delta)


def query_counts(accepted: int, acceptance: float, limit: int) -> np.ndarray:
    """Distribution of the noisy gradients that ``accepted`` updates took, shape (accepted * (limit + 1) + 1,).

    One update takes k of them with probability (1 - acceptance)^(k - 1) acceptance for k <= limit, else limit + 1. The
    sum's distribution is a power of its Fourier transform; rounding stays below 1e-12.
    """
    if accepted < 1 or limit < 0 or not 0 <= acceptance <= 1:
        raise ParameterError(f"accepted = {accepted}, limit = {limit}, acceptance = {acceptance:g} is not allowed.")
    single = np.zeros(accepted * (limit + 1) + 1)
    single[1 : limit + 2] = _of_one_update(acceptance, limit)
    chances = np.maximum(np.fft.irfft(np.fft.rfft(single) ** accepted, len(single)), 0.0)
    return chances / chances.sum()


def _of_one_update(acceptance: float, limit: int) -> np.ndarray:
    """The chances that one update takes 1, ..., limit + 1 noisy gradients."""
    return np.append(acceptance * (1 - acceptance) ** np.arange(limit), (1 - acceptance) ** limit)


def accepted_counts(queries: int, acceptance: float, limit: int) -> np.ndarray:
    """Distribution of the updates that ``queries`` noisy gradients get accepted, shape (queries + 1,).

    With S_n the gradients that n updates take (:func:`query_counts`), n are accepted with probability
    P(S_n <= queries) - P(S_(n+1) <= queries). Both are sums over the transform of S_1; n outside of twelve standard
    deviations of the mean have less than 1e-30 together and count as 0.
    """
    if queries < 1 or limit < 0 or not 0 < acceptance <= 1:
        raise ParameterError(f"queries = {queries}, limit = {limit}, acceptance = {acceptance:g} is not allowed.")
    gaps, chances = np.arange(1, limit + 2), _of_one_update(acceptance, limit)
    mean = chances @ gaps
    deviation = np.sqrt(chances @ (gaps - mean) ** 2)
    width = 12 * deviation * np.sqrt(queries / mean) / mean + limit + 1
    first, last = max(0, int(queries / mean - width)), min(queries, int(queries / mean + width))
    most = min(last * (limit + 1), int(last * mean + 12 * deviation * np.sqrt(last))) + limit + 1
    size = max(queries, most) + 1
    gap, within = np.zeros((2, size))
    gap[gaps[gaps < size]] = chances[gaps < size]
    within[: queries + 1] = 1
    transform, both = np.fft.rfft(gap), np.full(size // 2 + 1, 2.0)
    both[0] = 1
    if size % 2 == 0:
        both[-1] = 1
    term = both * (1 - transform) * np.conj(np.fft.rfft(within)) * transform**first / size
    chances_of = np.zeros(queries + 1)
    for n in range(first, last + 1):
        chances_of[n] = max(term.real.sum(), 0.0)
        term *= transform
    return chances_of / chances_of.sum()
