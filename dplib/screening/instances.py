"""Exact losses above the claim: of one accepted update, and of whole trainings with a linear energy.

The instance of a training is an honest run of Algorithm 2. One parameter w; J(w) is the loss of public test data and
falls steeply and linearly in w, so that a candidate is accepted if it moves up. The N - 1 other records have small
gradients of the same size, which push w down by ``least`` standard deviations of the noise on average; the example's
clipped gradient has norm C and pushes w up. Then the accepted steps are independent and equally distributed, and the
loss of all of them is that of one, composed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dplib import exact_loss, mechanisms, rdp
from dplib.checks import ParameterError, one_of
from dplib.screening import composition, one_update
from dplib.screening.accounts import DELTA, ORDERS, Setting, candidates_per_update

UP = one_update.threshold(0.0)  # the energy falls along the record's gradient, steeply


def pair(
    acceptance: one_update.Acceptance, limit: int | None, shift: float = 1.0, sample_rate: float = 1.0
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
    far, hard = one_update.wells(-5.5, 6.5), one_update.threshold(2.0)
    lower = one_update.Acceptance((2.0,), (0.0, 0.0), (0.0, -np.inf))
    opposite = [one_update.Trial((1.0,), (0.0,), (rule,)) for rule in (lower, hard)]  # the record moves J alone
    alone = pair(hard, None)
    kept = [one_update.mixture([0.1, 0.9], alone), alone[1]]
    rates = [one_update.acceptance_rate(one_update.trial(1.0, UP, 1.0, present)) for present in (True, False)]
    tries = np.arange(1, 400)
    counts = np.array([np.append(z * (1 - z) ** (tries - 1), (1 - z) ** tries[-1]) for z in rates])
    sampled = one_epsilon(pair(one_update.always(), 0, sample_rate=0.1), delta)[1]
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


CELL = 0.02  # standard deviations of the noise
KEPT, REDRAWN = "kept", "redrawn"


@dataclass(frozen=True)
class Instance:
    """One accepted update with and without the example: the pair ``cells``; ``rates``, probability that a candidate
    is accepted, and ``queries``, expected noisy gradients behind an accepted update, both (with, without).
    """

    cells: one_update.Cells
    rates: tuple[float, float]
    queries: tuple[float, float]

    @property
    def acceptance_rate(self) -> float:
        """Accepted updates over noisy gradients, without the example."""
        return 1 / self.queries[1]


def others(setting: Setting, least: float) -> tuple[np.ndarray, np.ndarray]:
    """(weights, centres): how the batch of the N - 1 other records moves a candidate, exactly binomial."""
    count = setting.records - 1
    mean = count * setting.sample_rate
    spread = 9 * np.sqrt(mean)  # beyond lies less than 1e-15
    k = np.arange(max(0, int(mean - spread)), min(count, int(mean + spread)) + 1)
    weights = stats.binom.pmf(k, count, setting.sample_rate)
    if least == 0:
        return np.ones(1), np.zeros(1)
    return weights / weights.sum(), -least * k / mean


def linear(
    setting: Setting, least: float, limit: int | None, batch: str = REDRAWN, sign: int = 1, constant: bool = False
) -> Instance:
    """The instance above.

    least: mean of the other records' push against the energy, in standard deviations of the noise. limit: mu_0; None
    for no limit. batch: "redrawn" for every candidate, as printed, or "kept" until one is accepted. sign: 1 if the
    example makes acceptance likelier, -1 for the opposite. constant: the others' push is always its mean: many times
    faster.
    """
    one_of(KEPT, REDRAWN).check("batch", batch)
    pushes = (np.ones(1), np.array([-float(least)])) if constant else others(setting, least)
    shift, q, up = sign / setting.noise_multiplier, setting.sample_rate, one_update.threshold(0.0)
    if batch == REDRAWN:
        trials = [one_update.trial(shift, up, q, present, pushes) for present in (True, False)]
        parts = [one_update.released(trial, limit) for trial in trials]
        rates = [one_update.acceptance_rate(trial) for trial in trials]
    else:  # one batch at a time: the others', with and without the example
        weights, centres = pushes
        both = [
            [one_update.trial(shift, up, 1.0, present, ([1.0], [centre])) for centre in centres]
            for present in (True, False)
        ]
        with_it, without = (one_update.mixture(weights, [one_update.released(t, limit) for t in side]) for side in both)
        parts = [one_update.mixture([q, 1 - q], [with_it, without]), without]
        own, rest = (weights @ np.array([one_update.acceptance_rate(t) for t in side]) for side in both)
        rates = [q * own + (1 - q) * rest, rest]
    queries = tuple(candidates_per_update(1 - rate, limit) for rate in rates)
    return Instance(one_update.cells(*parts, CELL, enclose=False), tuple(rates), queries)


def epsilon(instance: Instance, steps: int, delta: float = DELTA) -> float:
    """Epsilon of ``steps`` accepted updates, the larger of adding and removing the example."""
    return _composed(instance.cells, steps, delta)


def replacement_epsilon(setting: Setting, steps: int, delta: float = DELTA) -> float:
    """Epsilon of plain DP-SGD when one record is *replaced*: its gradient turns from one direction to the other."""
    parts = [
        one_update.released(
            one_update.trial(sign / setting.noise_multiplier, one_update.always(), setting.sample_rate), 0
        )
        for sign in (1, -1)
    ]
    return _composed(one_update.cells(*parts, CELL, enclose=False), steps, delta)


def _composed(cells, steps, delta):
    """By transform inversion; where a few steps make that imprecise, a lower bound by PLD."""
    try:
        return composition.epsilon([(cells, steps)], delta)
    except ParameterError:
        return composition.by_pld([(cells, steps)], delta)[0]


# ---- DPSUR (Fu et al., VLDB 2024): the same idea with a noisy test ----


@dataclass(frozen=True)
class NoisyTest:
    """A setting of DPSUR: training batches and noise, and those of its test on a validation batch.

    threshold: beta, in units of the bound C_v at which the change of the energy is clipped.
    """

    name: str
    records: int
    batch: int
    noise_multiplier: float
    validation_batch: int
    validation_noise: float
    target: float
    threshold: float = -1.0

    def claimed(self, steps: int, delta: float = DELTA) -> float:
        """Its Theorem 5.6: accepted updates and accepted tests, RDP over the orders 2 to 64, improved conversion."""
        training = rdp.rdp(self.noise_multiplier, self.batch / self.records, steps, ORDERS)
        validation = rdp.rdp(self.validation_noise, self.validation_batch / self.records, steps, ORDERS)
        return float(rdp.to_epsilon(training + validation, ORDERS, delta).min())

    def accepts(self) -> tuple[float, float]:
        """Probability of accepting a step that raises the energy, and one that lowers it (its equations 11, 12)."""
        ends = [(self.threshold + sign) / (2 * self.validation_noise) for sign in (-1, 1)]
        return float(stats.norm.cdf(ends[0])), float(stats.norm.cdf(ends[1]))

    def cells(self, least: float) -> one_update.Cells:
        """One accepted update, with and without an example, for a linear energy that the example does not enter.

        Args:
            least: the step u from which on the energy falls, in standard deviations of the noise.
        """
        worse, better = self.accepts()
        rule = one_update.Acceptance((least,), (0.0, 0.0), (float(np.log(worse)), float(np.log(better))))
        shift, q = 1 / self.noise_multiplier, self.batch / self.records
        parts = [one_update.released(one_update.trial(shift, rule, q, present)) for present in (True, False)]
        return one_update.cells(*parts, CELL, enclose=False)

    def exact(self, steps: int, least: float, delta: float = DELTA) -> float:
        """Epsilon of the accepted updates of that instance; the released tests are left out, so the loss is larger."""
        return _composed(self.cells(least), steps, delta)


# Table 1 of DPSUR and the commands of its published program, for the budgets at which they were run.
DPSUR = (
    NoisyTest("MNIST", 60_000, 1024, 1.35, 256, 0.9, 3.0),
    NoisyTest("Fashion-MNIST", 60_000, 2048, 2.15, 256, 0.8, 3.0),
    NoisyTest("CIFAR-10", 50_000, 8192, 5.67, 256, 1.1, 3.0),
)
