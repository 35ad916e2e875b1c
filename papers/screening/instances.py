"""Exact losses above the claim: of one accepted update, and of whole trainings with a linear energy.

The instance of a training is an honest run of Algorithm 2. One parameter w; J(w) is the loss of public test data and
falls steeply and linearly in w, so that a candidate is accepted if it moves up. The N - 1 other records have small
gradients of the same size, which push w down by ``least`` standard deviations of the noise on average; the example's
clipped gradient has norm C and pushes w up. Then the accepted steps are independent and equally distributed, and the
loss of all of them is that of one, composed.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dplib import exact_loss, mechanisms, rdp
from papers.screening import composition, one_update
from papers.screening.accounts import DELTA, ORDERS, PrintedTraining, candidates_per_update
from papers.screening.one_update import pair

UP = one_update.threshold(0.0)  # the energy falls along the record's gradient, steeply


def conditions(delta: float = DELTA, limit: int = 10) -> dict[str, tuple[float, float]]:
    """One accepted update with each condition of the theorem on free screening broken: {which: (plain, exact) epsilon}.

    Noise multiplier 1, q = 1, or 0.1 for the two lines on batches.
    """
    gaussian = float(mechanisms.gaussian_epsilon(1.0, 1.0, delta))
    far, hard = one_update.wells(-5.5, 6.5), one_update.threshold(2.0)
    lower = one_update.Acceptance((2.0,), (0.0, 0.0), (0.0, -np.inf))
    opposite = [one_update.trial(0.0, rule) for rule in (lower, hard)]  # the record moves J alone
    alone = pair(1.0, hard, None)
    rates = [one_update.acceptance_rate(one_update.trial(1.0, UP, 1.0, present)) for present in (True, False)]
    tries = np.arange(1, 400)
    counts = np.array([np.append(z * (1 - z) ** (tries - 1), (1 - z) ** tries[-1]) for z in rates])
    sampled = one_update.epsilon(*pair(1.0, one_update.always(), 0, 0.1), delta)
    private = {most: [one_update.released(case, most) for case in opposite] for most in (limit, None)}
    losses = {
        "all conditions hold": (gaussian, pair(1.0, UP, None)),
        f"(ii) broken: at most {limit} rejections": (gaussian, pair(1.0, UP, limit)),
        "(i) broken: two valleys": (gaussian, pair(1.0, far, None)),
        f"(i), (ii) broken: private energy, gradient 0, {limit} rejections": (0.0, private[limit]),
        "(i) broken: private energy, gradient 0": (0.0, private[None]),
        "batches of q = 0.1, kept": (sampled, [one_update.mixture([0.1, 0.9], alone), alone[1]]),
        "(iii) broken: batches of q = 0.1, redrawn": (sampled, pair(1.0, hard, None, 0.1)),
    }
    by_condition = {name: (plain, one_update.epsilon(*both, delta)) for name, (plain, both) in losses.items()}
    return by_condition | {
        "(iv) broken: the number of candidates alone": (0.0, exact_loss.discrete_epsilon(counts, delta))
    }


CELL = 0.02  # standard deviations of the noise


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


def others(setting: PrintedTraining, least: float) -> tuple[np.ndarray, np.ndarray]:
    """(weights, centres): how the batch of the N - 1 other records moves a candidate, exactly binomial."""
    count = setting.records - 1
    mean = count * setting.sample_rate
    spread = 9 * np.sqrt(mean)  # beyond lies less than 1e-15
    k = np.arange(max(0, int(mean - spread)), min(count, int(mean + spread)) + 1)
    weights = stats.binom.pmf(k, count, setting.sample_rate)
    if least == 0:
        return np.ones(1), np.zeros(1)
    return weights / weights.sum(), -least * k / mean


def _pushes(setting: PrintedTraining, least: float, constant: bool) -> tuple[np.ndarray, np.ndarray]:
    return (np.ones(1), np.array([-float(least)])) if constant else others(setting, least)


def linear(setting: PrintedTraining, least: float, limit: int, constant: bool = False) -> Instance:
    """The instance above.

    least: mean of the other records' push against the energy, in standard deviations of the noise. limit: mu_0.
    constant: the others' push is always its mean: many times faster.
    """
    pushes, shift, q = _pushes(setting, least, constant), 1 / setting.noise_multiplier, setting.sample_rate
    trials = [one_update.trial(shift, UP, q, present, pushes) for present in (True, False)]
    rates = tuple(map(one_update.acceptance_rate, trials))
    parts = [one_update.released(trial, limit) for trial in trials]
    queries = tuple(candidates_per_update(1 - rate, limit) for rate in rates)
    return Instance(one_update.cells(*parts, CELL), rates, queries)


def kept(setting: PrintedTraining, least: float, constant: bool = False) -> one_update.Cells:
    """One accepted update where the batch is kept until a candidate is accepted, without a limit."""
    weights, centres = _pushes(setting, least, constant)
    each = [pair(1 / setting.noise_multiplier, UP, None, others=([1.0], [centre])) for centre in centres]
    with_it, without = (one_update.mixture(weights, side) for side in zip(*each, strict=True))
    q = setting.sample_rate
    return one_update.cells(one_update.mixture([q, 1 - q], [with_it, without]), without, CELL)


def epsilon(cells: one_update.Cells, steps: int, delta: float = DELTA) -> float:
    """Epsilon of ``steps`` accepted updates, the larger of adding and removing the example."""
    return composition.least_epsilon([(cells, steps)], delta)


def replacement_epsilon(setting: PrintedTraining, steps: int, delta: float = DELTA) -> float:
    """Epsilon of plain DP-SGD when one record is *replaced*: its gradient turns from one direction to the other."""
    shift, always = 1 / setting.noise_multiplier, one_update.always()
    parts = [pair(sign * shift, always, 0, setting.sample_rate)[0] for sign in (1, -1)]
    return epsilon(one_update.cells(*parts, CELL), steps, delta)


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
        return one_update.cells(*pair(shift, rule, None, q), CELL)

    def exact(self, steps: int, least: float, delta: float = DELTA) -> float:
        """Epsilon of the accepted updates of that instance; the released tests are left out, so the loss is larger."""
        return epsilon(self.cells(least), steps, delta)


# Table 1 of DPSUR and the commands of its published program, for the budgets at which they were run.
DPSUR = (
    NoisyTest("MNIST", 60_000, 1024, 1.35, 256, 0.9, 3.0),
    NoisyTest("Fashion-MNIST", 60_000, 2048, 2.15, 256, 0.8, 3.0),
    NoisyTest("CIFAR-10", 50_000, 8192, 5.67, 256, 1.1, 3.0),
)
