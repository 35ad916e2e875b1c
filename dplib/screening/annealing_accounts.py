"""Three epsilons of one annealed training: as the paper counts, of all queries by RDP, and of all queries by PLD.

All are for data sets that differ by adding or removing one record, and for Poisson batches. The first counts accepted
updates only and is no privacy guarantee: the rejected gradients took part in the choice. The other two bound what all
noisy gradients of the training tell, accepted or not, and so what the final weights tell, *provided that the choice
looks at no private record* (then it is post-processing of the gradients). They do not cover an energy that is computed
on private records, nor hyper-parameters chosen on them.
"""

import functools
from collections.abc import Callable

import numpy as np

from dplib import accounting, loss_inversion, rdp
from dplib.checks import ParameterError, one_of, positive

PAPER_ORDERS = np.arange(2, 65)
COUNTS = ("paper", "rdp", "pld")


def paper_epsilon(noise_multiplier, sample_rate, steps, delta):
    """Theorem 1 with the logarithm that eqs. (4) and (9) leave out, by Lemma 2, over the orders 2 to 64.

    Args and result broadcast as those of :func:`dplib.rdp.epsilon`.
    """
    return rdp.epsilon(noise_multiplier, sample_rate, steps, delta, "classical", PAPER_ORDERS)


def epsilons(
    accepted: int, queries: int, noise_multiplier: float, sample_rate: float, delta: float
) -> dict[str, float]:
    """Epsilon at ``delta`` of a training: {"accepted", "queries_rdp", "queries_pld"}.

    Args:
        accepted: updates that the weights kept. queries: noisy gradients that were drawn.

    Raises:
        ParameterError: for a value outside its range.
    """
    setting = noise_multiplier, sample_rate
    return {
        "accepted": float(paper_epsilon(*setting, accepted, delta)),
        "queries_rdp": float(accounting.epsilon(*setting, queries, delta, "rdp")),
        "queries_pld": float(accounting.epsilon(*setting, queries, delta, "pld")),
    }


def curve(counts, noise_multiplier: float, sample_rate: float, delta: float, count: str = "paper") -> np.ndarray:
    """Epsilon after each of ``counts`` steps, (k,), for a figure.

    Args:
        count: "paper"; "rdp"; or "pld", here by :func:`dplib.loss_inversion.epsilon`, which takes milliseconds and
            agrees with PLD to a few thousandths, but is no proven bound (after the first few steps: RDP's).
    """
    one_of(*COUNTS).check("count", count)
    counts = np.asarray(counts)
    if count == "paper":
        return np.asarray(paper_epsilon(noise_multiplier, sample_rate, counts, delta))
    if count == "rdp":
        return np.asarray(rdp.epsilon(noise_multiplier, sample_rate, counts, delta))
    known = {int(steps): _tight(noise_multiplier, sample_rate, int(steps), delta) for steps in np.unique(counts)}
    return np.array([known[int(steps)] for steps in counts])


Spent = Callable[[float, float, int, float], float]


@functools.lru_cache(maxsize=4096)
def steps_allowed(
    target_epsilon: float, noise_multiplier: float, sample_rate: float, delta: float, count: str | Spent = "paper"
) -> int:
    """The most steps whose epsilon is at most the target; 0 where one step spends more.

    Args:
        count: "paper" (:func:`paper_epsilon`), "rdp" (finer orders, better conversion), "prv" or "pld" (their proven
            upper ends); or a function of (noise_multiplier, sample_rate, steps, delta) that rises with the steps.

    Raises:
        ParameterError: for a value outside its range.
    """
    setting = noise_multiplier, sample_rate
    positive().check("target_epsilon", target_epsilon)
    if callable(count):
        return most_steps(lambda steps: float(count(*setting, steps, delta)), target_epsilon)
    one_of(*COUNTS, "prv").check("count", count)
    if count == "paper":
        return most_steps(lambda steps: float(paper_epsilon(*setting, steps, delta)), target_epsilon)
    guess = 1
    if count != "rdp":  # a second or so each: begin at the quick computation's answer
        guess = most_steps(lambda steps: _tight(*setting, steps, delta), target_epsilon)
    return most_steps(
        lambda steps: float(accounting.epsilon(*setting, steps, delta, count)), target_epsilon, max(1, guess)
    )


def most_steps(spent: Callable[[int], float], target: float, guess: int = 1) -> int:
    """The largest whole number that spends at most the target, 0 where 1 spends more.

    Args:
        spent: rises with the number of steps, about like its square root.
        guess: where to begin; it changes how long the search takes, not what it finds.
    """
    step = 1
    if guess > 1 and (first := spent(guess)) > 0:
        guess = max(1, int(guess * (target / first) ** 2))
        step = max(1, guess // 2000)
    if spent(guess) <= target:
        low, high = guess, guess + step
        while spent(high) <= target:
            low, high, step = high, high + 2 * step, 2 * step
    else:
        low, high = guess - step, guess
        while low > 0 and spent(low) > target:
            low, high, step = low - 2 * step, low, 2 * step
        low = max(low, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= target else (low, middle)
    return low


@functools.lru_cache(maxsize=16384)
def _tight(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    if steps == 0:
        return 0.0
    try:
        return loss_inversion.epsilon(noise_multiplier, sample_rate, steps, delta)
    except ParameterError:  # a few steps: its integral is not precise there
        return float(rdp.epsilon(noise_multiplier, sample_rate, steps, delta))
