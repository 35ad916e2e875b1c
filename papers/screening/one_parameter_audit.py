"""Algorithm 2 of paper D itself on one parameter, thousands of runs at once, and an attack on its accepted iterates.

The task is mean estimation or a linear loss with a few records, small enough that the attack can be the likelihood
ratio of everything that the paper takes to be seen: the iterates w_0, w_1, ..., w_tau after each accepted update. The
attacker knows all records but does not know whether the canary is among them, as differential privacy supposes.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from dplib import audit, checks
from dplib.checks import ParameterError, integer, one_of

PUBLIC, TRAINING, HELD_OUT = "public", "training", "held-out"
_FAR = 40.0  # log-likelihood ratios are cut here: larger ones decide nothing more


@dataclass(frozen=True)
class Task:
    """What is trained, and how.

    records: the other training records, shape (n,). loss: "linear" is -x w, "squared" is (w - x)^2 / 2. energy: what J
    is the mean loss of: "public" records; the "training" records, the canary among them where it is present; or
    "held-out" records with the canary among *them*, not trained on. judges: the public or held-out records. steepness:
    a factor on J.
    """

    records: tuple[float, ...]
    canary: float
    loss: str = "linear"
    energy: str = PUBLIC
    judges: tuple[float, ...] = (1.0,)
    learning_rate: float = 1.0
    clipping_norm: float = 1.0
    noise_multiplier: float = 10.0
    sample_rate: float = 1.0
    limit: int = 10
    initial_temperature: float = 10.0
    steepness: float = 1e6
    start: float = 0.0

    def __post_init__(self):
        one_of("linear", "squared").check("loss", self.loss)
        one_of(PUBLIC, TRAINING, HELD_OUT).check("energy", self.energy)
        checks.positive().check("noise_multiplier", self.noise_multiplier)
        integer(0).check("limit", self.limit)
        if not 0 < self.sample_rate <= 1:
            raise ParameterError(f"sample_rate = {self.sample_rate:g} is not allowed: it must be in (0, 1].")

    @property
    def unit(self) -> float:
        """Standard deviation of the noise of one step of w: learning rate times sigma C over the batch size."""
        return self.learning_rate * self.noise_multiplier * self.clipping_norm / self.batch

    @property
    def batch(self) -> float:
        """B, a public number: the sampling rate times the number of records with the canary."""
        return self.sample_rate * (len(self.records) + 1)

    def clipped_sum(self, w, x, rng=None):
        """Sum of the clipped gradients at w, shape (runs,), over a Poisson batch of records x, shape (n,).

        Without ``rng`` its expected value.
        """
        if self.loss == "linear":
            gradients = np.clip(-x, -self.clipping_norm, self.clipping_norm)
            if self.sample_rate == 1 or rng is None:
                return np.full(len(w), self.sample_rate * gradients.sum())
            gradients = np.broadcast_to(gradients, (len(w), len(x)))
        else:
            gradients = np.clip(w[:, None] - x, -self.clipping_norm, self.clipping_norm)
        if self.sample_rate < 1 and rng is not None:
            return (gradients * (rng.random(gradients.shape) < self.sample_rate)).sum(axis=1)
        return gradients.sum(axis=1) * (1.0 if rng is not None else self.sample_rate)

    def trained_on(self, present: bool) -> np.ndarray:
        """The training records."""
        return np.array([*self.records, *([self.canary] if present and self.energy != HELD_OUT else [])])

    def judged_on(self, present: bool) -> np.ndarray:
        """The records whose mean loss is J."""
        if self.energy == TRAINING:
            return self.trained_on(present)
        return np.array([*self.judges, *([self.canary] if present and self.energy == HELD_OUT else [])])

    def mean_loss(self, w, present: bool) -> np.ndarray:
        """J(w), of the shape of w."""
        x = self.judged_on(present)
        if self.loss == "linear":
            return -self.steepness * x.mean() * w
        return self.steepness * ((w - x.mean()) ** 2 + x.var()) / 2


@dataclass(frozen=True)
class Runs:
    """Independent runs of Algorithm 2: ``iterates`` (runs, updates + 1), and the ``queries`` of each, (runs,)."""

    iterates: np.ndarray
    queries: np.ndarray


def one_parameter_trainings(task: Task, present: bool, runs: int, updates: int, rng: np.random.Generator) -> Runs:
    """Algorithm 2, line by line, each run stopped after ``updates`` accepted ones: the most favourable reading."""
    x, batch = task.trained_on(present), task.batch
    w, accepted = np.full(runs, task.start), np.zeros(runs, dtype=int)
    rejected, temperature = np.zeros(runs, dtype=int), np.full(runs, task.initial_temperature)  # line 1
    iterates, queries = np.full((runs, updates + 1), task.start), np.zeros(runs, dtype=int)
    active = np.arange(runs)
    while len(active):  # line 2
        now = w[active]
        total = task.clipped_sum(now, x, rng)  # lines 3 to 7
        noise = task.noise_multiplier * task.clipping_norm * rng.standard_normal(len(active))
        new = now - task.learning_rate * (total + noise) / batch  # lines 8 and 9
        change = task.mean_loss(new, present) - task.mean_loss(now, present)  # lines 10 and 11
        probability = np.exp(-np.maximum(change, 0) * temperature[active])  # line 12
        taken = (rng.random(len(active)) <= probability) | (rejected[active] >= task.limit)  # line 13
        queries[active] += 1
        winners = active[taken]
        w[winners] = new[taken]  # line 14
        accepted[winners] += 1
        iterates[winners, accepted[winners]] = new[taken]
        rejected[active] = np.where(taken, 0, rejected[active] + 1)  # lines 16 and 19
        temperature[active] = task.initial_temperature * accepted[active]  # line 22
        active = active[accepted[active] < updates]
    return Runs(iterates, queries)


def log_likelihood_ratios(task: Task, iterates: np.ndarray) -> np.ndarray:
    """Log density of the iterates with the canary over that without it, shape (runs,); larger: more likely present.

    Exact for a linear loss and a large ``steepness`` with full batches; for others the share of accepted candidates is
    that of an infinitely steep energy, and a sampled batch counts with its mean. A score may be anything, so that this
    weakens the attack and never its verdict.
    """
    score = np.zeros(len(iterates))
    for k in range(iterates.shape[1] - 1):
        with_it, without = (_log_density(task, present, iterates[:, k], iterates[:, k + 1], k) for present in (1, 0))
        score += np.clip(with_it - without, -_FAR, _FAR)
    return score


def attack(task: Task, runs: int, updates: int, delta: float, rng: np.random.Generator) -> audit.LowerBound:
    """Lower bound on epsilon (95%) from ``runs`` runs with the canary and as many without it."""

    def scores(present, count, rng):
        return log_likelihood_ratios(task, one_parameter_trainings(task, present, count, updates, rng).iterates)

    return audit.audit_by_repetition(scores, runs, delta, rng)


def _log_density(task, present, old, new, accepted):
    """Log density of one accepted step up to a constant, shape (runs,)."""
    centre = old - task.learning_rate * task.clipped_sum(old, task.trained_on(bool(present))) / task.batch
    judged = task.judged_on(bool(present))
    if task.loss == "squared":  # J falls between old and its mirror image
        mirror = 2 * judged.mean() - old
        ends = np.minimum(old, mirror), np.maximum(old, mirror)
    else:
        up = judged.mean() > 0
        ends = (old, np.full_like(old, np.inf)) if up else (np.full_like(old, -np.inf), old)
    low, high = ((end - centre) / task.unit for end in ends)
    rate = np.clip(special.ndtr(high) - special.ndtr(low), 1e-300, 1.0)
    # After a first rejection line 22 makes the temperature 0, so that the second candidate is accepted.
    limit = min(task.limit, 1) if accepted == 0 else task.limit
    change = task.mean_loss(new, bool(present)) - task.mean_loss(old, bool(present))
    factor = task.initial_temperature * max(accepted, 1)
    tries = -np.expm1(limit * np.log1p(-np.minimum(rate, 1 - 1e-16))) / rate
    with np.errstate(divide="ignore"):  # limit 0: nothing is chosen
        chosen = np.log(tries) - factor * np.maximum(change, 0)
    forced = limit * np.log1p(-np.minimum(rate, 1 - 1e-16))
    return np.logaddexp(chosen, forced) - ((new - centre) / task.unit) ** 2 / 2
