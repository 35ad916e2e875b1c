"""Simulated annealing, and DP-SGD that screens its updates by it (Fu, Chen and Ling 2022, Algorithms 1 and 2).

Plain DP-SGD keeps every noisy step. The annealed one looks at the loss J of the network after the step, its *energy*,
and takes the step back with a probability that grows with the rise of J and with the number of steps kept so far.

Two counts are kept apart. A *query* is one noisy gradient, whatever became of it; an *accepted* update is one that the
weights kept. The paper pays for accepted updates alone. What the accountants of :mod:`dplib.accounting` say is about
queries, and holds for this method only where J looks at no private record.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks, examples, failing
from dplib.checks import ParameterError
from dplib.devices import JUDGED, find_device, same_randomness, whole_float32
from dplib.dpsgd import DPSGD, Engine, check_targets, keep_digits
from dplib.examples import Examples, Loss, Pair, cross_entropy

REJECTED, LOWER, BY_CHANCE, FORCED = range(4)  # what became of a query


class Energy:
    """J of the paper: what a step is judged by. This one judges nothing: every change is 0.

    Attributes:
        current: J(w_t), not a number where it is not known.
    """

    current = math.nan

    def change(self, rows: Tensor, losses: Tensor) -> float:
        """J(w_new) - J(w_t), after the step from w_t to w_new.

        Args:
            rows: of the records of the step, shape (b,).
            losses: sum of their losses at w_t, a tensor of shape ().
        """
        return 0.0

    def accept(self) -> None:
        """The step is kept: w_new is w_t from now on."""


class FixedEnergy(Energy):
    """The mean loss on the same examples throughout, so that J(w_t) is known from the last acceptance.

    Args:
        net: whose weights are judged.
        data: the same examples throughout, on the device of the network.
        loss: outputs and targets to one loss for each example, (b,).
    """

    def __init__(self, net: nn.Module, data: Examples, loss: Loss):
        self._net, self._data, self._loss = net, data, loss
        self.current = self._new = self()

    @whole_float32()
    @torch.no_grad()
    def __call__(self) -> float:
        """The mean loss at the weights as they are."""
        pieces = self._data.pieces(JUDGED.on(self._data.y.device))
        sums = (_total(self._loss(self._net(x), y)) for x, y in pieces)
        return float(sum(sums)) / self._data.n  # one wait for a GPU

    def change(self, rows: Tensor, losses: Tensor) -> float:
        self._new = self()
        return self._new - self.current

    def accept(self) -> None:
        self.current = self._new


def _total(losses: Tensor) -> Tensor:
    """The sum of losses (b,), where those that are not finite count as 0, as in a step; unless none is finite."""
    finite = losses.isfinite()
    return losses.where(finite, 0).sum(dtype=torch.float64).where(finite.any(), math.nan)


class BatchEnergy(Energy):
    """The mean loss on the records of the step itself; at w_t the step computes it anyway.

    Args:
        engine: of the training, whose steps are judged.
    """

    def __init__(self, engine: Engine):
        self._engine = engine

    @whole_float32()
    @torch.no_grad()
    def change(self, rows: Tensor, losses: Tensor) -> float:
        if not len(rows):
            return 0.0
        engine, new = self._engine, losses.new_zeros((), dtype=torch.float64)
        for few in rows.split(JUDGED.on(rows.device)):
            x, y = engine.examples.batch(few)
            new += _total(engine.loss(engine.net(x), y))
        return float(new - losses) / len(rows)


@dataclass
class Witness:
    """A second energy that decides nothing: what queries did to the loss on other examples.

    Args:
        pair: examples (n, ...) and targets (n, ...) that J is not computed on.
        every: it looks at every so many queries, from 1 to 10^12.
        rows: {"accepted", "outcome", "change", "witness"} of each such query: the updates accepted before it, what
            became of it, and what it changed the energy and the loss of the witness by.

    Raises:
        ParameterError: for a number of queries outside its range.
    """

    pair: Pair
    every: int = 50
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        checks.integer(1, 10**12).check("every", self.every)
        self.every = int(self.every)


@dataclass
class Run:
    """What a training did.

    Args:
        settings: of the training.
        records: number of the training records.
        outcomes: what became of each query: REJECTED, or accepted because the energy was not higher (LOWER), by chance
            (BY_CHANCE) or after too many rejections (FORCED).
        changes: of the energy by each query; 0 without one.
        evaluations: {"queries", "accepted", "energy" (J(w_t) or None), name: {"loss", "metric"}, ...} in time.
        diverged: the weights were not finite at an evaluation, where training ended.
        dropped: as in :class:`dplib.dpsgd.Run`.
    """

    settings: DPSGD
    records: int
    outcomes: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    diverged: bool = False
    dropped: int = 0

    @property
    def queries(self) -> int:
        """t: the noisy gradients."""
        return len(self.outcomes)

    @property
    def accepted(self) -> int:
        """tau: the updates that were kept."""
        return self.queries - self.outcomes.count(REJECTED)

    @property
    def final(self) -> dict[str, Any]:
        """The last evaluation: never the best one."""
        return self.evaluations[-1]


State = TypeVar("State")


def acceptance_probability(change: float, factor: float) -> float:
    """1 where ``change`` <= 0, else exp(-change * factor): eq. (2) with factor 1 / T_i, eq. (3) with factor Q.

    With factor 0 it is 1 always; otherwise a change that is not a number is refused.

    Args:
        change: of the energy; not a number is accepted only with factor 0.
        factor: one over the temperature, >= 0: 1 / T_i in eq. (2), Q in eq. (3).
    """
    if factor == 0 or change <= 0:
        return 1.0
    return 0.0 if math.isnan(change) else math.exp(-change * factor)


def simulated_annealing(
    f: Callable[[State], float],
    start: State,
    neighbour: Callable[[State, np.random.Generator], State],
    rng: np.random.Generator,
    *,
    temperature: float,
    cooling: float,
    rounds: int,
) -> list[State]:
    """Algorithm 1: the solutions s(0), ..., s(n) of n rounds; its printed output, s(n - 1), leaves the last one out.

    Args:
        f: what is to become small.
        start: s(0).
        neighbour: draws a solution near a given one.
        rng: decides the neighbours and the acceptance.
        temperature: T0 > 0, in the unit of ``f``.
        cooling: the factor by which the temperature falls each round, in (0, 1).
        rounds: n, >= 0.

    Raises:
        ParameterError: for a value outside its range.
    """
    checks.positive().check("temperature", temperature)
    checks.number(1e-9, 1, open_ends=True).check("cooling", cooling)
    checks.integer(0, 10**9).check("rounds", rounds)
    temperature, cooling, path = float(temperature), float(cooling), [start]
    for _ in range(rounds):
        new = neighbour(path[-1], rng)
        change = f(new) - f(path[-1])
        accepted = rng.random() < acceptance_probability(change, 1 / max(temperature, 1e-99))
        path.append(new if accepted else path[-1])
        temperature *= cooling
    return path


@dataclass(frozen=True)
class Annealing:
    """What Algorithm 2 adds to the settings of DP-SGD.

    Args:
        initial_temperature: Q0 in [0, 1e30], one over the unit of the loss; with 0 every update is accepted, which is
            plain DP-SGD.
        rejection_limit: mu0 >= 0: after so many rejections in a row an update is accepted whatever its energy; None for
            no limit.
        exceeds: as Section 3.1 words it, the rejections have to *exceed* mu0. Algorithm 2 and Section 3.2 say mu >=
            mu0, one rejection fewer.
        starts_at_zero: Q = Q0 * 0 = 0 before anything is accepted, as Section 3.1 defines the temperature. Algorithm 2
            starts with Q = Q0, and falls to 0 where the first update is rejected.
        keeps_velocity: with momentum, which Algorithm 2 does not have and the earlier work it compares with has: a
            rejected step changes the velocity all the same. By default it leaves no trace.

    Raises:
        ParameterError: for a setting outside its range.
    """

    initial_temperature: float = 10.0
    rejection_limit: int | None = 10
    exceeds: bool = False
    starts_at_zero: bool = False
    keeps_velocity: bool = False

    def __post_init__(self):
        checks.number(0, 1e30).check("initial_temperature", self.initial_temperature)
        if self.rejection_limit is not None:
            checks.integer(0, 10**12).check("rejection_limit", self.rejection_limit)
        checks.boolean().check("exceeds", self.exceeds)
        checks.boolean().check("starts_at_zero", self.starts_at_zero)
        checks.boolean().check("keeps_velocity", self.keeps_velocity)
        keep_digits(self, ("initial_temperature",), counts=("rejection_limit",))

    def most_queries(self, accepted: int) -> int | None:
        """Queries after which so many updates must have been accepted, (mu0 + 1) for each; None without a limit.

        Args:
            accepted: updates that must have been accepted.
        """
        accepted = int(accepted)
        if self.initial_temperature == 0:
            return accepted
        if self.rejection_limit is None:
            return None
        return (self.rejection_limit + 1 + self.exceeds) * accepted


class Screen:
    """The counters of Algorithm 2: t is ``queries``, tau ``accepted``, mu ``rejections``, Q ``temperature``.

    Args:
        annealing: the settings.
    """

    def __init__(self, annealing: Annealing):
        self.annealing = annealing
        self.queries = self.accepted = self.rejections = 0
        self.temperature = 0.0 if annealing.starts_at_zero else float(annealing.initial_temperature)

    def decide(self, change: float, u: float) -> int:
        """Lines 12 to 22 for one query: REJECTED, or why it was accepted.

        Args:
            change: J(w_new) - J(w_t).
            u: uniform on [0, 1).
        """
        probability = acceptance_probability(change, self.temperature)
        if change <= 0:
            outcome = LOWER
        elif u <= probability:
            outcome = BY_CHANCE
        else:
            outcome = FORCED if self._at_limit() else REJECTED
        if outcome == REJECTED:
            self.rejections += 1
        else:
            self.accepted += 1
            self.rejections = 0
        self.queries += 1
        self.temperature = self.annealing.initial_temperature * self.accepted
        return outcome

    def _at_limit(self) -> bool:
        limit = self.annealing.rejection_limit
        return limit is not None and self.rejections >= limit + self.annealing.exceeds


@checks.bounded(rng=checks.generator())
@whole_float32()
def train(
    net: nn.Module,
    data: Pair,
    settings: DPSGD,
    rng: np.random.Generator,
    *,
    annealing: Annealing | None = None,
    energy: Pair | Literal["batch"] | None = None,
    accepted: int | None = None,
    evaluate: Mapping[str, Pair] | None = None,
    at_accepted: Collection[int] = (),
    at_queries: Collection[int] = (),
    witness: Witness | None = None,
    follow: Callable[[Tensor], None] | None = None,
    loss: Loss = cross_entropy,
    metric: Loss = examples.correct,
    device: str = "cpu",
) -> Run:
    """Algorithm 2: train ``net`` in place, leave it on the device, in evaluation mode.

    Raises ParameterError, before any step, for data, networks or settings that are not allowed, or with autocast.

    Args:
        net: its parameters that require a gradient are trained.
        data: n training records (n, ...) and targets (n, ...). Neighbouring data sets differ by adding or removing one.
        settings: of DP-SGD: ``steps`` is T, the most queries; ``clipping = "auto-s"`` is AUTO-S.
        rng: decides batches and noise as in :func:`dplib.dpsgd.train`, and then the acceptance.
        annealing: None for plain DP-SGD; an ``energy`` is then recorded and decides nothing.
        energy: examples on which J is computed; "batch": the records of the step itself, at w_t and at w_new. J has no
            noise: where it looks at a private record, the choice tells what no accountant counts.
        accepted: stop after so many accepted updates, where that comes before T. After how many queries that is the
            noisy steps decide: it is T that is to be accounted.
        evaluate: examples, by name, on which loss and metric are computed; what these tell is not accounted for.
        at_accepted: counts of accepted updates at which it evaluates, beside the end.
        at_queries: counts of queries at which it evaluates, beside the end.
        witness: a second energy, which decides nothing.
        follow: called after every query with the weights (parameters,), which are overwritten later.
        loss: outputs and targets to one loss for each example, (b,).
        metric: outputs and targets to one number for each example, (b,).
        device: "cpu"; "cuda"; or "auto", a GPU where there is one and the training is large enough to gain by it.

    Raises:
        ParameterError: for a value outside its range.
    """
    annealing = annealing or Annealing(initial_temperature=0.0)
    if energy is None and annealing.initial_temperature > 0:
        raise ParameterError("energy = None is not allowed with annealing: J has to be computed on something.")
    if accepted is not None:
        checks.integer(1).check("accepted", accepted)
    if not isinstance(settings, DPSGD):
        raise ParameterError(f"settings = {checks.shown(settings)} is not allowed: it must be a dplib.DPSGD.")
    failing.check_parameters(net)
    x, batch = examples.tensors(data, "train")[0], isinstance(energy, str) and energy == "batch"
    place = find_device(device, settings.work(net, x) if device == "auto" else None)
    net.to(place, memory_format=examples.layout_of(net, x))
    at_accepted, at_queries = frozenset(at_accepted), frozenset(at_queries)
    held_out = {name: placed(net, name, pair) for name, pair in (evaluate or {}).items()}
    judges = {} if energy is None or batch else {"energy": energy}
    judges |= {"witness": witness.pair} if witness else {}
    judges = {name: placed(net, name, pair) for name, pair in judges.items()}
    records = placed(net, "train", data)
    for sets in ({"train": records}, held_out, judges):
        check_targets(net, sets, loss)
    training = _Training(net, records, settings, annealing, loss, rng)
    run, screen = training.run, training.screen
    try:
        with same_randomness(place, training.dropout_seed):  # dropout draws from PyTorch's own generator
            training.look_at(batch, judges, witness)
            while screen.queries < settings.steps and screen.accepted < (accepted or math.inf) and not run.diverged:
                outcome = training.query()
                if follow:
                    follow(training.engine.weights)
                if screen.queries in at_queries or (outcome != REJECTED and screen.accepted in at_accepted):
                    training.evaluate(held_out, metric)
            if screen.queries < settings.steps and not run.diverged:
                training.engine.try_again(training.rows)
            if not run.evaluations or run.final["queries"] < screen.queries:
                training.evaluate(held_out, metric)
    finally:
        run.dropped = training.engine.dropped
        training.engine.close()
    net.eval()
    return run


class _Training:
    """Algorithm 2's state: the weights (in the engine), the counters, J(w_t), and the record of it all."""

    def __init__(
        self,
        net: nn.Module,
        records: Examples,
        settings: DPSGD,
        annealing: Annealing,
        loss: Loss,
        rng: np.random.Generator,
    ):
        seeds = [int(seed) for seed in rng.integers(2**63, size=4)]  # as dpsgd.train draws them
        self.dropout_seed = seeds[3]
        self.chances = np.random.default_rng(int(rng.integers(2**63)))
        noise = None if settings.secure else torch.Generator(records.y.device).manual_seed(seeds[0])
        batches = None if settings.secure else np.random.default_rng(seeds[1])
        sampler = examples.Sampler(settings.sampling, records.n, settings.sample_rate, batches)
        self.batches = sampler.batches(records.y.device)
        self.engine = Engine(net.train(), settings, records, loss, noise)
        self.screen, self.energy = Screen(annealing), Energy()
        self.run = Run(settings, records.n)
        moves = settings.momentum > 0 and not annealing.keeps_velocity
        self.undone = [self.engine.weights, self.engine.velocity] if moves else [self.engine.weights]
        self.witness, self.testify = None, None

    def look_at(self, batch: bool, judges: Mapping[str, Examples], witness: Witness | None) -> None:
        """From the initial weights on, judge steps by their batches, or by "energy" where it is there."""
        net, loss = self.engine.net, self.engine.loss
        if batch:
            self.energy = BatchEnergy(self.engine)
        elif "energy" in judges:
            self.energy = FixedEnergy(net, judges["energy"], loss)
        if witness:
            self.witness, self.testify = witness, FixedEnergy(net, judges["witness"], loss)

    def query(self) -> int:
        """Lines 3 to 22: one noisy step, and what becomes of it."""
        heard = self.witness is not None and self.screen.queries % self.witness.every == 0
        before = self.testify() if heard else math.nan
        last = [state.clone() for state in self.undone]
        self.rows = rows = next(self.batches)  # line 3
        losses = self.engine.step(rows, look=False)  # lines 4 to 9: the weights are w_new
        change = self.energy.change(rows, losses)  # lines 10 and 11
        if heard:
            row = {"accepted": self.screen.accepted, "change": change, "witness": self.testify() - before}
            self.witness.rows.append(row)
        outcome = self.screen.decide(change, self.chances.random())  # lines 12 to 22
        if outcome == REJECTED:
            torch._foreach_copy_(self.undone, last)
        else:
            self.energy.accept()
        if heard:
            row["outcome"] = outcome
        self.run.outcomes.append(outcome)
        self.run.changes.append(change)
        return outcome

    def evaluate(self, held_out: Mapping[str, Examples], metric: Loss) -> None:
        """Add loss and metric of the weights as they are."""
        net, loss = self.engine.net, self.engine.loss
        counts = {"queries": self.screen.queries, "accepted": self.screen.accepted}
        if add_evaluation(self.run, counts, self.energy.current, net, held_out, loss, metric):
            self.run.diverged = not bool(self.engine.weights.isfinite().all())


def add_evaluation(
    run: Run,
    counts: Mapping[str, int],
    energy: float,
    net: nn.Module,
    held_out: Mapping[str, Examples],
    loss: Loss,
    metric: Loss,
) -> bool:
    """Add loss and metric of the weights as they are to a run. Unless the weights moved they are those of the last
    time; returns whether they did.

    Args:
        run: what the evaluation is added to.
        counts: "queries" and "accepted" by now.
        energy: J(w_t), not a number where it is not known.
        net: with the weights of now.
        held_out: examples by name.
        loss: outputs and targets to one loss for each example, (b,).
        metric: outputs and targets to one number for each example, (b,).
    """
    rows = run.evaluations
    if rows and rows[-1]["accepted"] == counts["accepted"]:
        rows.append({**rows[-1], **counts})
        return False
    row = {**counts, "energy": None if math.isnan(energy) else energy}
    rows.append(row | {name: examples.evaluate(net, part, loss, metric) for name, part in held_out.items()})
    return True


def placed(net: nn.Module, name: str, pair: Pair) -> Examples:
    """Examples on the device of a network, in its precision and memory layout.

    Args:
        net: on its device.
        name: what messages call the examples.
        pair: examples (n, ...) and targets (n, ...).
    """
    like, pair = next(net.parameters()), examples.tensors(pair, name)
    return Examples(pair, name, like.device, like.dtype, examples.layout_of(net, pair[0]))
