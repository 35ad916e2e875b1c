"""What annealed DP-SGD looks at and what it leaves behind: energies, the record of a run, a witness.

Part of :mod:`dplib.screening.annealing`.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dplib import checks
from dplib.dpsgd import DPSGD, Engine
from dplib.examples import Examples, Loss, Pair

REJECTED, LOWER, BY_CHANCE, FORCED = range(4)  # what became of a query
PIECE = 512  # examples at once: larger pieces leave the cache


class Energy:
    """J of the paper: what a step is judged by. This one judges nothing: every change is 0.

    Attributes:
        current: J(w_t), not a number where it is not known.
    """

    current = math.nan

    def change(self, rows: Tensor, losses: Tensor) -> float:
        """J(w_new) - J(w_t), called right after the step to w_new.

        Args:
            rows: (b,) the step's records. losses: the sum of their losses at w_t.
        """
        return 0.0

    def accept(self) -> None:
        """The step is kept: w_new is w_t from now on."""


class FixedEnergy(Energy):
    """The mean loss on the same examples throughout, so that J(w_t) is known from the last acceptance."""

    def __init__(self, net: nn.Module, data: Examples, loss: Loss):
        self._net, self._data, self._loss = net, data, loss
        self.current = self._new = self()

    @torch.no_grad()
    def __call__(self) -> float:
        """The mean loss at the weights as they are."""
        losses = (self._loss(self._net(x), y) for x, y in self._data.pieces(PIECE))
        return float(sum(one.sum(dtype=torch.float64) for one in losses)) / self._data.n  # one wait for a GPU

    def change(self, rows: Tensor, losses: Tensor) -> float:
        self._new = self()
        return self._new - self.current

    def accept(self) -> None:
        self.current = self._new


class BatchEnergy(Energy):
    """The mean loss on the records of the step itself; at w_t the step computes it anyway."""

    def __init__(self, engine: Engine):
        self._engine = engine

    @torch.no_grad()
    def change(self, rows: Tensor, losses: Tensor) -> float:
        if not len(rows):
            return 0.0
        engine, new = self._engine, 0.0
        for few in rows.split(PIECE):
            x, y = engine.examples.batch(few)
            new += float(engine.loss(engine.net(x), y).sum(dtype=torch.float64))
        return (new - float(losses)) / len(rows)


@dataclass
class Witness:
    """A second energy that decides nothing: what every ``every``-th query did to the loss on other examples.

    Attributes:
        rows: {"accepted", "outcome", "change", "witness"} of each such query: the updates accepted before it, what
            became of it, and what it changed the energy and the loss of the witness by.
    """

    pair: Pair
    every: int = 50
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        checks.integer(1).check("every", self.every)


@dataclass
class Run:
    """What a training did.

    Args:
        settings: of the training.
        records: n, the training records.
        outcomes: what became of each query: REJECTED, or accepted because the energy was not higher (LOWER), by chance
            (BY_CHANCE) or after too many rejections (FORCED).
        changes: of the energy by each query; 0 without an energy.
        batch_total: records drawn by all queries.
        evaluations: {"queries", "accepted", "energy", name: {"loss", "metric"}, ...} in time, ``energy`` being J(w_t)
            or None.
        seconds: of all steps and evaluations.
        diverged: the weights were not finite at an evaluation, so that training ended there.
    """

    settings: DPSGD
    records: int
    outcomes: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    batch_total: int = 0
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    diverged: bool = False

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
