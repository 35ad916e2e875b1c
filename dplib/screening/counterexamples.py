"""One accepted update whose exact loss exceeds the claim, and what each condition of free screening is needed for.

Neighbours differ by adding or removing one record; the energy is public unless a line says otherwise.
"""

from collections.abc import Sequence

import numpy as np

from dplib import exact_loss, mechanisms
from dplib.screening import one_update, rules
from dplib.screening.accounts import DELTA

UP = rules.threshold(0.0)  # the energy falls along the record's gradient, steeply


def pair(
    acceptance: rules.Acceptance, limit: int | None, shift: float = 1.0, sample_rate: float = 1.0
) -> list[one_update.Density]:
    """Densities of one accepted update, with and without a record whose gradient is ``shift`` noise units long."""
    trials = [one_update.trial(shift, acceptance, sample_rate, present) for present in (True, False)]
    return [one_update.released(trial, limit) for trial in trials]


def one_epsilon(densities: Sequence[one_update.Density], delta: float = DELTA) -> tuple[float, float]:
    """Lower and upper bound of epsilon of one accepted update."""
    return one_update.epsilon_bounds(one_update.cells(*densities), delta)


def conditions(delta: float = DELTA, limit: int = 10) -> dict[str, tuple[float, float]]:
    """One accepted update with each condition of the theorem on free screening broken: {which: (plain, exact) epsilon}.

    Noise multiplier 1, q = 1, or 0.1 for the two lines on batches.
    """
    gaussian = float(mechanisms.gaussian_epsilon(1.0, 1.0, delta))
    far, hard = rules.wells(-5.5, 6.5), rules.threshold(2.0)
    lower = rules.Acceptance((2.0,), (0.0, 0.0), (0.0, -np.inf))
    opposite = [one_update.Trial((1.0,), (0.0,), (rule,)) for rule in (lower, hard)]  # the record moves J alone
    alone = pair(hard, None)
    kept = [one_update.mixture([0.1, 0.9], alone), alone[1]]
    rates = [one_update.acceptance_rate(one_update.trial(1.0, UP, 1.0, present)) for present in (True, False)]
    tries = np.arange(1, 400)
    counts = np.array([np.append(z * (1 - z) ** (tries - 1), (1 - z) ** tries[-1]) for z in rates])
    sampled = one_epsilon(pair(rules.always(), 0, sample_rate=0.1), delta)[1]
    return {
        "all conditions hold": (gaussian, one_epsilon(pair(UP, None), delta)[0]),
        f"(ii) broken: at most {limit} rejections": (gaussian, one_epsilon(pair(UP, limit), delta)[0]),
        "(i) broken: two valleys": (gaussian, one_epsilon(pair(far, None), delta)[0]),
        f"(i), (ii) broken: private energy, gradient 0, {limit} rejections": (
            0.0,
            one_epsilon([one_update.released(one, limit) for one in opposite], delta)[0],
        ),
        "(i) broken: private energy, gradient 0": (
            0.0,
            one_epsilon([one_update.released(one, None) for one in opposite], delta)[0],
        ),
        "batches of q = 0.1, kept": (sampled, one_epsilon(kept, delta)[0]),
        "(iii) broken: batches of q = 0.1, redrawn": (
            sampled,
            one_epsilon(pair(hard, None, sample_rate=0.1), delta)[0],
        ),
        "(iv) broken: the number of candidates alone": (0.0, exact_loss.discrete_epsilon(counts, delta)),
    }
