"""What screening tells of one record in the networks of paper D: how far the record moves the test of a candidate.

Along a training it is asked where each of some records would move a candidate: by how much, in standard deviations of
the noise, and at which angle to the gradient of J. With the share of candidates that pass,
:mod:`papers.screening.aligned` makes epsilon of it. As a second computation, candidates are drawn afresh at the same
weights, and the record's gradient is put into each of them.
"""

import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import ndtri
from torch import Tensor, nn
from torch.func import functional_call

from book.evidence import runs
from dplib import annealing, checks
from dplib.annealing import BY_CHANCE, LOWER, Annealing
from dplib.devices import find_device, whole_float32
from dplib.dpsgd import DPSGD
from papers.screening import accounts, aligned, annealed_settings, composition
from papers.screening.annealed_training_runs import budget
from papers.screening.attacks import flat_weights, per_example_gradients


@runs.experiment(
    "screening_alignment",
    version=2,  # 1 left out how batches differ, and overstated what a record moves by two
    data=("dataset",),
    probe={"dataset": "digits", "seed": 3, "epsilon": 1.0, "stops": 2, "candidates": 4, "ordinary": 3, "wrong": 3,
           "energy_size": 50, "momentum": 0.0},
)  # fmt: skip
def aligned_training(
    *,
    dataset: str,
    seed: int,
    epsilon: float = 3.0,
    delta: float = accounts.DELTA,
    stops: int = 10,
    candidates: int = 60,
    ordinary: int = 40,
    wrong: int = 40,
    energy_size: int = 500,
    initial_temperature: float = 10.0,
    momentum: float = annealed_settings.MOMENTUM,
    device: str = "cpu",
) -> runs.Result:
    """Train as paper D does, J on public test records, and look on the way at what single records do to the test.

    Args:
        dataset: of :data:`annealed_settings.TABLE_2`, whose settings are used. seed: decides records, weights and run.
        epsilon, delta: by the paper's count, which says how many updates there are.
        stops: so many equal parts of the training; in the middle of each one looks.
        candidates: drawn afresh at each stop. ordinary, wrong: training records that are watched, with their labels and
            with wrong ones, on which they are trained as well.
        energy_size, initial_temperature, momentum: as of ``annealed``.

    Returns:
        By stop: "accepted" updates before it, "passed", the share of this part's candidates that pass the test, and
        "drawn_passed", the mean probability of those drawn afresh; "spread", the standard deviation of their steps
        down the energy, where noise alone has 1; "shift" (in standard deviations of the noise) and "cosine" with the
        gradient of J of each watched record, ordinary ones first; "moved", by how much the record's gradient raises
        that mean probability. Of the whole training: "epsilon" of each watched record, every accepted update seen, and
        "plain", as much without screening; "claimed"; counts; "accuracy" on test records.
    """
    for name, value in {"stops": stops, "candidates": candidates, "ordinary": ordinary, "wrong": wrong}.items():
        checks.integer(1).check(name, value)
    used, limit = annealed_settings.settings(dataset, "table-2", learning_rate=None, batch=None, noise_multiplier=None)
    parts = annealed_settings.records(dataset, 0, seed)
    choice, weights, draws, fresh = np.random.SeedSequence([seed, 15]).spawn(4)
    rng = np.random.default_rng(choice)
    watched, x, y = _watched(parts["train"], ordinary, wrong, rng)
    judges, others = annealed_settings.drawn(parts["test"], energy_size, rng)
    n = len(y)
    sample_rate = min(1.0, used["batch"] / n)
    updates = budget(used["noise_multiplier"], sample_rate, epsilon, delta, 2)[-1]
    checks.integer(1, updates).check("stops", stops)
    most = Annealing(initial_temperature, limit).most_queries(updates)
    settings = annealed_settings.dpsgd(used, most, sample_rate, momentum, find_device(device))
    net = annealed_settings.network(x.shape[1:], "tanh", int(weights.generate_state(1)[0])).to(find_device(device))
    ends = np.linspace(0, updates, stops + 1).round().astype(int)
    watch = _Watch(net, settings, (x, y), judges, watched, ((ends[:-1] + ends[1:]) // 2).tolist(), candidates,
                   initial_temperature, np.random.default_rng(fresh))  # fmt: skip
    run = annealing.train(
        net, (x, y), settings, np.random.default_rng(draws), annealing=Annealing(initial_temperature, limit),
        energy=judges, accepted=updates, evaluate={"test": others if len(others[1]) else judges}, follow=watch,
        device=device,
    )  # fmt: skip
    passed = shares_passed(np.array(run.outcomes), ends)
    moves = {name: np.array([look[name] for look in watch.looks]) for name in ("shift", "cosine", "moved")}
    spread = np.array([look["spread"] for look in watch.looks])
    steps = np.diff(ends)
    each = [
        spent(shift, alignment, passed, steps, sample_rate, limit, delta)
        for shift, alignment in zip(moves["shift"].T, (moves["cosine"] / spread[:, None]).T, strict=True)
    ]
    return {
        **used,
        **{name: [[_short(value) for value in row] for row in rows] for name, rows in moves.items()},
        "accepted": [look["accepted"] for look in watch.looks],
        "passed": [_short(share) for share in passed],
        "spread": [_short(value) for value in spread],
        "drawn_passed": [_short(look["passed"]) for look in watch.looks],
        "epsilon": [_short(value) for value in each],
        "plain": _short(accounts.tight(used["noise_multiplier"], sample_rate, updates, delta)),
        "claimed": _short(accounts.epsilon(updates, used["noise_multiplier"], sample_rate, delta)[0]),
        "updates": updates,
        "queries": run.queries,
        "accuracy": None if run.diverged else run.final["test"]["metric"],
        "ordinary": ordinary,
        "sample_rate": sample_rate,
        "rejection_limit": limit,
    }


def spent(
    shift: np.ndarray, alignment: np.ndarray, passed: np.ndarray, steps: np.ndarray, sample_rate: float, limit: int,
    delta: float,
) -> float:  # fmt: skip
    """Epsilon of a training's accepted updates for one record, by stop: what it does there, (stops,) each.

    passed: the share of candidates that pass without the record. steps: accepted updates of each stop's part.
    """
    pairs = [
        (aligned.accepted_update(s, a, -float(ndtri(share)), sample_rate, limit), int(count))
        for s, a, share, count in zip(shift, alignment, passed, steps, strict=True)
    ]
    return composition.least_epsilon(pairs, delta)


def shares_passed(outcomes: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The share of candidates that pass, by part of a training; ``ends`` (parts + 1,) counts accepted updates.

    A candidate that is taken after too many rejections did not pass. Half a candidate more of either kind is counted,
    so that no share is 0 or 1.
    """
    accepted = np.cumsum(outcomes != annealing.REJECTED)
    part = np.searchsorted(ends[1:], accepted - (outcomes != annealing.REJECTED), side="right")
    passes = (outcomes == LOWER) | (outcomes == BY_CHANCE)
    counts = [np.bincount(part[kind], minlength=len(ends) - 1)[: len(ends) - 1] for kind in (passes, passes >= 0)]
    return (counts[0] + 0.5) / (counts[1] + 1)


def _watched(
    train: tuple[np.ndarray, np.ndarray], ordinary: int, wrong: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the watched records, ordinary ones first, and the training records with the others' labels wrong."""
    x, y = train
    checks.integer(1, len(y) - wrong).check("ordinary", ordinary)
    rows = rng.permutation(len(y))[: ordinary + wrong]
    y = y.copy()
    y[rows[ordinary:]] = (y[rows[ordinary:]] + rng.integers(1, 10, wrong)) % 10
    return rows, x, y


class _Watch:
    """What single records do to the test of a candidate, after certain counts of accepted updates.

    Called after every query (``follow`` of :func:`dplib.annealing.train`). ``net`` is read, never changed.
    """

    def __init__(
        self, net: nn.Module, settings: DPSGD, train: Any, judges: Any, watched: np.ndarray, stops: list[int],
        candidates: int, initial_temperature: float, rng: np.random.Generator,
    ):  # fmt: skip
        self.net, self.settings, self.stops, self.candidates = net, settings, set(stops), candidates
        self.initial_temperature, self.rng = initial_temperature, rng
        place = next(net.parameters()).device
        self.x, self.y = torch.as_tensor(train[0]), torch.as_tensor(train[1]).long()
        self.judges = torch.as_tensor(judges[0]).to(place), torch.as_tensor(judges[1]).long().to(place)
        self.watched, self.place = watched, place
        self.noise = torch.Generator(place).manual_seed(int(rng.integers(2**62)))
        self.count, self.last, self.looks = 0, flat_weights(net), []
        self.velocity = torch.zeros_like(self.last)
        if 0 in self.stops:
            self._look()

    def __call__(self, _weights: Tensor) -> None:
        now = flat_weights(self.net)
        if torch.equal(now, self.last):  # a rejected step leaves no trace
            return
        self.velocity, self.last = (self.last - now) / self.settings.learning_rate, now
        self.count += 1
        if self.count in self.stops:
            self._look()

    @whole_float32()
    def _look(self) -> None:
        bound = self.settings.max_grad_norm
        gradients = self._clipped(self.watched)
        _, slope = self._energy(self.last)
        lengths = gradients.norm(dim=1)
        step = -self.settings.learning_rate / self._batch  # of the weights, along a sum of gradients
        drift = self.settings.learning_rate * self.settings.momentum * self.velocity
        now, temperature = self._energy(self.last)[0], self.initial_temperature * self.count
        unit = self.settings.noise_multiplier * bound * float(slope.norm())  # the noise's deviation along the slope
        before, after, down = [], [], []
        for _ in range(self.candidates):
            total = self._noisy_sum()
            down.append(float(total @ slope) / unit)
            energy, there = self._energy(self.last + step * total - drift)
            change = energy - now
            before.append(_chance(np.array([change]), temperature)[0])
            after.append(_chance(change + step * (gradients @ there).double().cpu().numpy(), temperature))
        self.looks.append(
            {
                "accepted": self.count,
                "shift": (lengths / bound / self.settings.noise_multiplier).double().cpu().numpy(),
                "spread": max(1.0, float(np.std(down, ddof=1))) if len(down) > 1 else 1.0,
                "cosine": (gradients @ slope / (lengths * slope.norm()).clamp_min(1e-30)).double().cpu().numpy(),
                "moved": np.mean(after, axis=0) - np.mean(before),
                "passed": float(np.mean(before)),
            }
        )

    @property
    def _batch(self) -> float:
        return self.settings.sample_rate * len(self.y)

    def _noisy_sum(self) -> Tensor:
        """The sum of clipped gradients of a fresh batch, with noise, as a step has it."""
        rows = np.flatnonzero(self.rng.random(len(self.y)) < self.settings.sample_rate)
        noise = torch.randn(self.last.shape, generator=self.noise, device=self.place)
        total = self.settings.noise_multiplier * self.settings.max_grad_norm * noise
        return total + self._clipped(rows).sum(0) if len(rows) else total

    def _clipped(self, rows: np.ndarray) -> Tensor:
        """Clipped gradients (b, parameters) of training records at the weights as they are."""
        rows = torch.as_tensor(rows)
        gradients = per_example_gradients(self.net, self.x[rows].to(self.place), self.y[rows].to(self.place))
        bound = self.settings.max_grad_norm
        return gradients * (bound / gradients.norm(dim=1, keepdim=True).clamp_min(bound))

    def _energy(self, weights: Tensor) -> tuple[float, Tensor]:
        """J and its gradient at these weights (parameters,)."""
        parts, at = {}, 0
        for name, p in self.net.named_parameters():
            parts[name] = weights[at : at + p.numel()].view(p.shape).detach().requires_grad_()
            at += p.numel()
        x, y = self.judges
        loss = F.cross_entropy(functional_call(self.net, parts, (x,)), y)
        return float(loss.detach()), torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(parts.values()))])


def _chance(change: np.ndarray, temperature: float) -> np.ndarray:
    """The probability of accepting each change of the energy, equation (3)."""
    return np.exp(-temperature * np.maximum(change, 0.0))


_short = functools.partial(runs.to_figures, figures=6)
