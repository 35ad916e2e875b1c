"""Algorithm 2 of :mod:`dplib.annealing` for many models at once: seeds and settings side by side.

Each query is a step of :mod:`dplib.many`, and what becomes of it is decided for all models together, by counters that
are tensors: nothing waits for a number but an evaluation. On the processor a model gets the batches, the noise and the
chances that :func:`annealing.train` gives it with the same ``rng``; so they keep the same updates, but where rounding
decides whether J has risen. What :mod:`dplib.many` says of a GPU holds here as well.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks, dpsgd, examples, many
from dplib.annealing import (
    BY_CHANCE,
    FORCED,
    LOWER,
    REJECTED,
    Annealing,
    Run,
    add_evaluation,
    placed,
)
from dplib.checks import ParameterError
from dplib.devices import find_device, whole_float32
from dplib.dpsgd import DPSGD
from dplib.examples import Data, Examples, Loss, Pair, cross_entropy
from dplib.steps import Models, Stepper

LOOK = 64  # queries after which outcomes are written down
ENDED = -1  # in the place of an outcome: this model makes no queries any more


class Screens:
    """The counters of Algorithm 2 of m models, as :class:`annealing.Screen` has them of one: tensors (m,).

    Args:
        rules: of each model.
        most: queries of a model, at most.
        accepted: updates of each, at most; inf for no limit.
        place: the device.
    """

    def __init__(self, rules: Sequence[Annealing], most: int, accepted: Sequence[float], place: torch.device):
        def tensor(values: Sequence[float], dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=place)

        self._initial = tensor([rule.initial_temperature for rule in rules])
        none = [rule.rejection_limit is None for rule in rules]
        limits = [math.inf if no else rule.rejection_limit + rule.exceeds for rule, no in zip(rules, none, strict=True)]
        self._limits, self._most, self._accepted = tensor(limits), most, tensor(list(accepted))
        self.queries, self.accepted, self.rejections = (tensor([0] * len(rules), torch.int64) for _ in range(3))
        self.temperature = tensor([0.0 if rule.starts_at_zero else rule.initial_temperature for rule in rules])
        self.ended = tensor([False] * len(rules), torch.bool)

    @property
    def state(self) -> list[Tensor]:
        """What a decision changes."""
        return [self.queries, self.accepted, self.rejections, self.temperature]

    def goes_on(self) -> Tensor:
        """Which models make another query, (m,)."""
        return ~self.ended & (self.queries < self._most) & (self.accepted < self._accepted)

    def decide(self, change: Tensor, u: Tensor) -> Tensor:
        """Outcomes (m,) of a query, as ``annealing.Screen.decide``.

        Args:
            change: J(w_new) - J(w_t) of each model, shape (m,).
            u: uniform on [0, 1), shape (m,).
        """
        goes_on = self.goes_on()
        by_chance = torch.where(change.isnan(), 0.0, torch.exp(-change * self.temperature))
        probability = torch.where((self.temperature == 0) | (change <= 0), 1.0, by_chance)
        outcome = torch.where(self.rejections >= self._limits, FORCED, REJECTED)
        outcome = torch.where(u <= probability, BY_CHANCE, outcome)
        outcome = torch.where(change <= 0, LOWER, outcome)
        kept = outcome != REJECTED
        self.queries += goes_on
        self.accepted += goes_on & kept
        self.rejections.copy_(torch.where(goes_on, torch.where(kept, 0, self.rejections + 1), self.rejections))
        self.temperature.copy_(torch.where(goes_on, self._initial * self.accepted, self.temperature))
        return torch.where(goes_on, outcome, ENDED)


class _Energies:
    """The mean losses of all models on fixed examples, (m,): the same for all, or as many of each model's own. Losses
    that are not finite count as 0, unless none is finite.
    """

    def __init__(self, models: Models, sets: Sequence[Examples]):
        self._models = models
        self._joined, starts = Examples.joined(sets)
        self._n, self._shared = sets[0].n, len(set(starts)) == 1
        if any(data.n != self._n for data in sets):
            raise ParameterError("energy: J of models at once has to be computed on as many examples of each.")
        place = models.weights.device
        self._rows = torch.arange(self._n, device=place) + torch.tensor(starts, device=place).unsqueeze(1)

    def __call__(self) -> Tensor:
        models = self._models
        total = torch.zeros_like(models.losses, dtype=torch.float64)
        finite = torch.zeros_like(models.losses, dtype=torch.bool)
        rows = self._rows[:1] if self._shared else self._rows
        for few in rows.split(models.piece, 1):
            x, y = self._joined.batch(few.flatten(), fresh=models.on_gpu)
            losses = models.stack.losses(x, y, models.loss, self._shared)
            known = losses.isfinite()
            total += torch.where(known, losses, 0).sum(1, dtype=torch.float64)
            finite = finite | known.any(1)
        return torch.where(finite, total / self._n, math.nan)


class _Queries:
    """Queries of all models: a noisy step, and what becomes of it."""

    def __init__(self, models: Models, screens: Screens, rules: Sequence[Annealing], energy: _Energies | str | None):
        self.models, self.screens, self._energy = models, screens, energy
        m, place = len(rules), models.weights.device
        self.current = torch.full((m,), math.nan, dtype=torch.float64, device=place)
        if isinstance(energy, _Energies):
            self.current.copy_(energy())
        self._keeps = torch.tensor([rule.keeps_velocity for rule in rules], device=place).unsqueeze(1)
        self.change = torch.zeros_like(self.current)
        self.outcome = torch.full((m,), ENDED, device=place)

    @property
    def state(self) -> list[Tensor]:
        """What a query changes, beside the models' own."""
        return [*self.screens.state, self.current, self.change, self.outcome]

    def query(self, rows: Tensor, sizes: Tensor, u: Tensor) -> None:
        """Lines 3 to 22: rows (m, b) and sizes (m,) of :meth:`Models.move`, and chances u (m,)."""
        models = self.models
        weights, velocity = models.weights.clone(), models.velocity.clone()
        losses = models.move(rows, sizes)  # lines 3 to 9: the weights are w_new
        new = self.current
        if isinstance(self._energy, _Energies):  # lines 10 and 11
            new = self._energy()
            self.change.copy_(new - self.current)
        elif self._energy == "batch":
            rise = (models.losses_of(rows, sizes) - losses) / sizes.clamp(min=1)
            self.change.copy_(torch.where(sizes > 0, rise, 0.0))
        self.outcome.copy_(self.screens.decide(self.change, u))  # lines 12 to 22
        kept = self.outcome > REJECTED
        self.current.copy_(torch.where(kept, new, self.current))
        kept = kept.unsqueeze(1)
        models.weights.copy_(torch.where(kept, models.weights, weights))
        models.velocity.copy_(torch.where(kept | self._keeps, models.velocity, velocity))


@whole_float32()
def train(
    nets: Sequence[nn.Module],
    data: Pair | Sequence[Pair],
    settings: DPSGD | Sequence[DPSGD],
    rngs: Sequence[np.random.Generator],
    *,
    annealing: Annealing | Sequence[Annealing] | None = None,
    energy: Pair | Sequence[Pair] | Literal["batch"] | None = None,
    accepted: int | Sequence[int] | None = None,
    evaluate: Mapping[str, Pair] | Sequence[Mapping[str, Pair]] | None = None,
    at_accepted: Collection[int] = (),
    at_queries: Collection[int] = (),
    loss: Loss = cross_entropy,
    metric: Loss = examples.correct,
    device: str = "cpu",
) -> list[Run]:
    """Algorithm 2 for m networks, trained in place, side by side, each as :func:`annealing.train` does it.

    Args:
        nets: m networks, as in :func:`dplib.many.train`.
        data: n training records and targets for all models, or for each. Neighbouring data sets differ by adding or
            removing one.
        settings: of DP-SGD, for all models or for each, as in :func:`dplib.many.train`.
        rngs: one for each.
        annealing: as in :func:`annealing.train`, for all models or for each.
        energy: as in :func:`annealing.train`, for all models or for each.
        accepted: as in :func:`annealing.train`, for all models or for each.
        evaluate: as in :func:`annealing.train`, for all models or for each.
        at_accepted: counts of accepted updates at which all models are evaluated.
        at_queries: counts of queries at which all models are evaluated.
        loss: outputs and targets to one loss for each example.
        metric: outputs and targets to one number for each example.
        device: "cpu"; "cuda"; or "auto", as in :func:`dplib.many.train`.

    Returns:
        What each training did, in the order of the networks.

    Raises:
        ParameterError: before any step, for data, networks or settings that are not allowed.
    """
    nets, rngs = list(nets), list(rngs)
    m = len(nets)
    pairs = _for_each("data", data, m, _is_pair(data))
    settings = _for_each("settings", settings, m, isinstance(settings, DPSGD))
    rules = annealing or Annealing(initial_temperature=0.0)
    rules = _for_each("annealing", rules, m, isinstance(rules, Annealing))
    most = _for_each("accepted", accepted, m, accepted is None or isinstance(accepted, int))
    energies = _for_each("energy", energy, m, energy is None or energy == "batch" or _is_pair(energy))
    held_out = _for_each("evaluate", evaluate or {}, m, not evaluate or isinstance(evaluate, Mapping))
    for name, values in (("annealing", rules), ("accepted", most), ("energy", energies), ("evaluate", held_out)):
        if len(values) != m:
            raise ParameterError(f"{name}: {len(values)} given for {m} networks: there must be one for each.")
    for rule, one_energy, count in zip(rules, energies, most, strict=True):
        if one_energy is None and rule.initial_temperature > 0:
            raise ParameterError("energy = None is not allowed with annealing: J has to be computed on something.")
        if count is not None:
            checks.integer(1).check("accepted", count)
    if len({None if e is None else e == "batch" if isinstance(e, str) else "fixed" for e in energies}) > 1:
        raise ParameterError("energy: models at once must all have one kind of it.")
    many.check(nets, pairs, settings, rngs)
    data = [Data(pair) for pair in pairs]
    place = find_device(device, many.work(nets, data, settings) if device == "auto" else None)
    sets = [of_model["train"] for of_model in many.placed(nets, data, place)]
    names = list(dict.fromkeys(name for of_model in held_out for name in of_model))
    of_names = {name: _placed(nets, name, [of_model[name] for of_model in held_out]) for name in names}
    held_out = [{name: of_each[i] for name, of_each in of_names.items()} for i in range(m)]
    judges = energies[0] if energies[0] is None or energies[0] == "batch" else _placed(nets, "energy", energies)
    for i, net in enumerate(nets):
        judge = {"energy": judges[i]} if isinstance(judges, list) else {}
        for of_model in ({"train": sets[i]}, held_out[i], judge):
            dpsgd.check_targets(net, of_model, loss)
    training = _Training(nets, sets, settings, rules, most, rngs, loss, place)
    training.look_at(judges)
    return training(held_out, frozenset(at_accepted), frozenset(at_queries), metric)


def _is_pair(value: object) -> bool:
    """Whether this is examples and targets, and no list of such pairs."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], np.ndarray | Tensor)


def _for_each(name: str, value: Any, m: int, single: bool) -> list[Any]:
    """One for each model, of a single value or of a list."""
    if not single and not np.iterable(value):
        raise ParameterError(f"{name} = {checks.described(value)} is not allowed: it must be one for all, or a list.")
    return [value] * m if single else list(value)


class _Training:
    """Models that make their queries together, from the first to the last."""

    def __init__(
        self,
        nets: Sequence[nn.Module],
        sets: Sequence[Examples],
        settings: Sequence[DPSGD],
        rules: Sequence[Annealing],
        accepted: Sequence[int | None],
        rngs: Sequence[np.random.Generator],
        loss: Loss,
        place: torch.device,
    ):
        self.nets, self.rules = nets, rules
        many.check_networks(nets, settings, sets, loss)
        self.models, self.batches = many.prepared(nets, settings, sets, rngs, loss, place)
        self._chances = [np.random.default_rng(int(rng.integers(2**63))) for rng in rngs]
        most = [math.inf if count is None else count for count in accepted]
        self.screens = Screens(rules, settings[0].steps, most, place)
        self.most, self.steps = most, settings[0].steps
        self.accepted = np.zeros(len(nets), np.int64)  # as of the last look
        self.runs = [Run(setting, of_model.n) for setting, of_model in zip(settings, sets, strict=True)]

    def look_at(self, judges: Sequence[Examples] | str | None) -> None:
        """From the initial weights on, judge steps by these energies."""
        energy = _Energies(self.models, judges) if isinstance(judges, list) else judges
        self.queries = _Queries(self.models, self.screens, self.rules, energy)

    def __call__(
        self,
        held_out: Sequence[Mapping[str, Examples]],
        at_accepted: frozenset[int],
        at_queries: frozenset[int],
        metric: Loss,
    ) -> list[Run]:
        """All queries, and evaluations on the way and at the end."""
        self.held_out, self.metric = held_out, metric
        stepper = Stepper(
            self.models, self.batches, self.steps, self.queries.query, self.queries.state, self._drawn_chances
        )
        traced, look = [], self._next_look(0, at_accepted, at_queries)
        try:
            for query in range(1, self.steps + 1):
                stepper.next()
                traced.append((self.queries.outcome.clone(), self.queries.change.clone()))
                if query < look:
                    continue
                self._write_down(traced)
                for i, outcome in enumerate(traced[-1][0].tolist()):
                    at_goal = outcome > REJECTED and int(self.accepted[i]) in at_accepted
                    if outcome != ENDED and (at_goal or query in at_queries):
                        self._evaluate(i)
                if not bool(self.screens.goes_on().any()):
                    break
                traced, look = [], self._next_look(query, at_accepted, at_queries)
            for i, run in enumerate(self.runs):
                if not run.evaluations or run.final["queries"] < run.queries:
                    self._evaluate(i)
        finally:
            self.models.stack.close()
        for net, run, dropped in zip(self.nets, self.runs, self.models.dropped.tolist(), strict=True):
            net.eval()
            run.dropped = dropped
        return self.runs

    def _drawn_chances(self, steps: int) -> list[Tensor]:
        chances = np.stack([rng.random(steps) for rng in self._chances], 1)
        return [torch.from_numpy(chances).to(self.models.weights.device)]

    def _next_look(self, query: int, at_accepted: frozenset[int], at_queries: frozenset[int]) -> int:
        """The query after which a model may have to be looked at: a query accepts one update at most."""
        goals = [
            query + goal - count
            for count, most in zip(self.accepted.tolist(), self.most, strict=True)
            for goal in (*at_accepted, most)
            if goal > count
        ]
        return min([self.steps, query + LOOK, *goals, *(at for at in at_queries if at > query)])

    def _write_down(self, traced: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Outcomes and changes since the last look, of models that had not ended."""
        outcomes, changes = (torch.stack(parts).cpu().numpy() for parts in zip(*traced, strict=True))
        self.accepted += (outcomes > REJECTED).sum(0)
        for i, run in enumerate(self.runs):
            going = outcomes[:, i] != ENDED
            run.outcomes += outcomes[going, i].tolist()
            run.changes += changes[going, i].tolist()

    def _evaluate(self, i: int) -> None:
        """Add an evaluation of model i, which ends where its weights are not finite."""
        run, models = self.runs[i], self.models
        counts = {"queries": len(run.outcomes), "accepted": int(self.accepted[i])}
        energy = float(self.queries.current[i])
        moved = add_evaluation(run, counts, energy, self.nets[i], self.held_out[i], models.loss, self.metric)
        if moved and not bool(models.weights[i].isfinite().all()):
            run.diverged = True
            self.screens.ended[i] = True


def _placed(nets: Sequence[nn.Module], name: str, pairs: Sequence[Pair]) -> list[Examples]:
    """Examples of each model on its device; what several models share is there once."""
    made: dict[tuple[int, ...], Examples] = {}
    for net, pair in zip(nets, pairs, strict=True):
        examples.tensors(pair, name)  # refuses what is none
        key = tuple(map(id, pair))
        made[key] = made.get(key) or placed(net, name, pair)
    return [made[tuple(map(id, pair))] for pair in pairs]
