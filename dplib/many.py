"""Many small trainings at once: seeds and settings of one network side by side, by DP-SGD (:mod:`dplib.dpsgd`).

Small trainings cost what Python and the launches of operations cost. Here m models of one architecture take each step
together, as batched products (:mod:`dplib.stacked`), and each is as private as :func:`dplib.dpsgd.train` makes it:

- every model has Poisson samples of its own, its clipping norm, noise multiplier, learning rate and momentum;
- its batches stand in a table with room for the mean and six deviations. Where one is larger, that step is made at its
  real size: no record is ever cut from a batch;
- its noise comes from a generator of its own.

On the processor a model gets exactly the batches and the noise that ``dpsgd.train`` gives it with the same ``rng``: the
two end in the same weights, but for the order in which sums are added (the last digits), whichever models run beside
it. On a GPU each model's batches and noise are drawn there, from generators of its own as well, so that again the
others do not matter but for rounding; they are other draws than the processor's, of the same law.

On a GPU a step is recorded once as a CUDA graph, and replayed; draws are made for a block of steps ahead, outside of
it, and the host waits twice a block, to see whether a batch is larger than its table.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import nn

from dplib import checks, dpsgd, examples, failing
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, whole_float32
from dplib.dpsgd import DPSGD, Run
from dplib.examples import Data, Examples, Loss, cross_entropy, squared_error
from dplib.progress import tqdm
from dplib.stacked import Stack, check_alike
from dplib.steps import Batches, Models, Stepper

__all__ = ["EACH", "train"]

EACH = ("sample_rate", "learning_rate", "noise_multiplier", "max_grad_norm", "momentum", "divisor")  # may differ
MOST, CACHED = 50, 2**22  # models at once on a processor, and numbers of theirs: its caches serve more of them worse


@whole_float32()
def train(
    nets: Sequence[nn.Module],
    data: Data | Sequence[Data],
    settings: DPSGD | Sequence[DPSGD],
    rngs: Sequence[np.random.Generator],
    *,
    loss: Loss = cross_entropy,
    evaluate_every: int | None = None,
    device: str = "cpu",
    at_once: int | None = None,
    progress: bool = True,
) -> list[Run]:
    """Train m networks in place, side by side, each as :func:`dplib.dpsgd.train` does it; and leave them on the device,
    in evaluation mode.

    Args:
        nets: m networks of one architecture with weights of their own: plain ``nn.Sequential`` ones of linear layers,
            convolutions, pooling, flattening and element-wise activations (:mod:`dplib.stacked`).
        data: for all of them, or one for each. Neighbouring data sets differ by adding or removing one record.
        settings: for all, or one for each; they may differ in what is in :data:`EACH`.
        rngs: one for each: decides its sampling and its noise; not with ``secure``. Two of one seed draw the same
            noise, as trainings with one seed do: their difference shows a record.
        loss: outputs and targets to one loss for each example, as in :func:`dplib.dpsgd.train`.
        evaluate_every: steps between evaluations, whole, >= 1; by default there is one, at the end.
        device: "cpu"; "cuda"; or "auto", which weighs all trainings together.
        at_once: most models that take steps together, by default all on a GPU, and on the processor as many as its
            cache is good for. It changes no result but for rounding.
        progress: show a bar.

    Returns:
        What each training did, in the order of the networks. A model whose weights were not finite at an evaluation
        ends there, and the others go on.

    Raises:
        ParameterError: before any step, for data, networks or settings that are not allowed, or a loss that mixes
            examples on some model's records; for a layer that is not known here it says which, and that such networks
            are trained one at a time.
    """
    data = [data] * len(nets) if isinstance(data, Data) else data
    settings = [settings] * len(nets) if isinstance(settings, DPSGD) else settings
    for name, values in (("nets", nets), ("data", data), ("settings", settings), ("rngs", rngs)):
        if not isinstance(values, Sequence):
            raise ParameterError(f"{name} = {checks.shown(values)} is not allowed: it must be a list.")
    for of_model in data:
        dpsgd.given_sets(of_model)
    check(nets, data, settings, rngs)
    evaluate_every = settings[0].steps if evaluate_every is None else evaluate_every
    checks.integer(1).check("evaluate_every", evaluate_every)
    evaluate_every = int(evaluate_every)
    if at_once is not None:
        checks.integer(1).check("at_once", at_once)
    place = find_device(device, work(nets, data, settings) if device == "auto" else None)
    sets = placed(nets, data, place)
    for net, of_model in zip(nets, sets, strict=True):
        dpsgd.check_targets(net, of_model, loss)
    records = [of_model["train"] for of_model in sets]
    check_networks(nets, settings, records, loss)

    if at_once is None:
        at_once = len(nets)
        if place.type == "cpu":
            at_once = fitting(nets[0], records[0], expected_records(settings, records))
    groups = torch.arange(len(nets)).split(int(at_once))
    trainings = [
        _Training(*([values[i] for i in group.tolist()] for values in (nets, settings, sets, rngs)), loss, place)
        for group in groups
    ]
    total = len(groups) * settings[0].steps
    with tqdm(total=total, desc="steps", leave=False, delay=2, disable=not progress) as bar:
        for training in trainings:
            training(evaluate_every, bar)
    return [run for training in trainings for run in training.runs]


def work(nets: Sequence[nn.Module], data: Sequence[Data], settings: Sequence[DPSGD]) -> Work:
    """How much all trainings are, a step of theirs being one step.

    Args:
        nets: of each training.
        data: of each training.
        settings: of each training.
    """
    of_each = [setting.work(net, of.train[0]) for setting, net, of in zip(settings, nets, data, strict=True)]
    return Work(sum(of_model.operations for of_model in of_each), settings[0].steps)


def prepared(
    nets: Sequence[nn.Module],
    settings: Sequence[DPSGD],
    records: Sequence[Examples],
    rngs: Sequence[np.random.Generator],
    loss: Loss,
    place: torch.device,
) -> tuple[Models, Batches]:
    """Models of networks that were checked and placed; batches and noise by the seeds that ``dpsgd.train`` draws from
    each of ``rngs``.

    Args:
        nets: m networks, checked and placed.
        settings: of each model.
        records: training records of each model, on the device.
        rngs: of each model.
        loss: outputs and targets to one loss for each example.
        place: the device.
    """
    seeds = [[int(seed) for seed in rng.integers(2**63, size=4)] for rng in rngs]
    noises = batches = None
    if not settings[0].secure:
        noises = [torch.Generator(place).manual_seed(noise) for noise, *_ in seeds]
        batches = [sampling for _, sampling, *_ in seeds]
    joined, starts = Examples.joined(records)
    sizes = [of_model.n for of_model in records]
    models = Models(nets, settings, joined, sizes, starts, loss, noises)
    return models, Batches(settings, sizes, batches, place)


class _Training:
    """Models that take steps together, from the first to the last."""

    def __init__(
        self,
        nets: Sequence[nn.Module],
        settings: Sequence[DPSGD],
        sets: Sequence[dict[str, Examples]],
        rngs: Sequence[np.random.Generator],
        loss: Loss,
        place: torch.device,
    ):
        self.nets, self.sets, self.steps, self.loss = nets, sets, settings[0].steps, loss
        records = [of_model["train"] for of_model in sets]
        self.models, self.batches = prepared(nets, settings, records, rngs, loss, place)
        counts = [sum(p.numel() for p in nets[0].parameters() if p.requires_grad or frozen) for frozen in (True, False)]
        self.runs = [Run(rate, *counts, str(place)) for rate in self.batches.sample_rates]

    def __call__(self, evaluate_every: int, bar: tqdm) -> None:
        """All steps, and evaluations on the way."""
        models, stepper = self.models, Stepper(self.models, self.batches, self.steps, self.models.move)
        try:
            for step in range(1, self.steps + 1):
                with failing.in_words(f"step {step}"):
                    stepper.next()
                bar.update()
                if (step % evaluate_every == 0 or step == self.steps) and not self._evaluate(step):
                    break
        finally:
            models.stack.close()
        for net, run, dropped in zip(self.nets, self.runs, models.dropped.tolist(), strict=True):
            net.eval()
            run.dropped = dropped

    def _evaluate(self, step: int) -> bool:
        """Add an evaluation of each model that has not diverged; whether any is left."""
        models, loss = self.models, self.loss
        metric = examples.absolute_error if loss is squared_error else examples.correct
        finite = models.weights.isfinite().all(1).tolist()
        seen = zip(models.losses.tolist(), models.seen.tolist(), strict=True)
        for run, net, sets, (losses, count), whole in zip(self.runs, self.nets, self.sets, seen, finite, strict=True):
            if run.diverged:
                continue
            run.steps, run.diverged = step, not whole
            row = {"step": step, "train_loss": losses / count if count else None}
            row |= {name: examples.evaluate(net, s, loss, metric) for name, s in sets.items() if name != "train"}
            run.evaluations.append(row)
        models.losses.zero_()
        models.seen.zero_()
        return not all(run.diverged for run in self.runs)


def placed(nets: Sequence[nn.Module], data: Sequence[Data], place: torch.device) -> list[dict[str, Examples]]:
    """Networks and examples on one device; data that several models share are there once.

    Args:
        nets: moved to ``place``.
        data: of each network.
        place: the device.
    """
    made: dict[tuple[int, ...], dict[str, Examples]] = {}
    keys = [
        tuple(id(array) for pair in (data_of.train, data_of.validation, data_of.test) for array in pair or ())
        for data_of in data
    ]
    for net, of_model, key in zip(nets, data, keys, strict=True):
        if key not in made:
            made[key] = dpsgd.placed(net, of_model, place)
        net.to(place, memory_format=examples.layout_of(net, of_model.train[0]))
    return [made[key] for key in keys]


def check_networks(
    nets: Sequence[nn.Module], settings: Sequence[DPSGD], records: Sequence[Examples], loss: Loss
) -> None:
    """Refuse what :class:`dplib.dpsgd.Engine` refuses, and a loss by which an example that is not finite spoils others.
    It may do so with some records alone: each set of them is tried.

    Args:
        nets: m networks that are alike, on the device of the records.
        settings: of each network.
        records: training records of each network; a set that several have is tried with the first of them.
        loss: outputs and targets to one loss for each example.

    Raises:
        ParameterError: naming the layer, or saying what is wrong.
    """
    expected = expected_records(settings, records)
    clips = any(setting.max_grad_norm is not None for setting in settings)
    tried: set[int] = set()
    for net, of_model in zip(nets, records, strict=True):
        if id(of_model) in tried:
            continue
        tried.add(id(of_model))
        dpsgd.check_network(net, of_model, loss, expected, clips, rescues=False)
        if settings[0].secure:
            dpsgd.check_secure(net, of_model, loss)


def expected_records(settings: Sequence[DPSGD], records: Sequence[Examples]) -> float:
    """Records of a step of the model that has the most, on average.

    Args:
        settings: of each model.
        records: training records of each model.
    """
    return max(setting.sample_rate * of_model.n for setting, of_model in zip(settings, records, strict=True))


def fitting(net: nn.Module, records: Examples, expected: float) -> int:
    """How many such models to train together on a processor: as many as its caches serve well. A network that keeps a
    core busy by itself goes alone.

    Args:
        net: one of them.
        records: its training records.
        expected: records of a step.
    """
    weights = 3 * sum(p.numel() for p in net.parameters())  # with the gradient and what is added to it
    held = weights + math.ceil(expected) * Stack([copy.deepcopy(net)]).numbers(records.first())
    return min(MOST, max(1, CACHED // held))


def check(
    nets: Sequence[nn.Module], data: Sequence[object], settings: Sequence[DPSGD], rngs: Sequence[np.random.Generator]
) -> None:
    """Refuse lists that do not fit each other.

    Args:
        nets: m networks.
        data: of each network.
        settings: of each network.
        rngs: of each network.

    Raises:
        ParameterError: for another number than m, a generator that stands twice, networks that are not alike, or
            settings that differ in what must be one.
    """
    kinds = {"data": (data, object), "settings": (settings, DPSGD), "rngs": (rngs, np.random.Generator)}
    for name, (values, kind) in kinds.items():
        if len(values) != len(nets):
            raise ParameterError(f"{name}: {len(values)} given for {len(nets)} networks: there must be one for each.")
        for value in values:
            if not isinstance(value, kind):
                raise ParameterError(f"{name}: {checks.shown(value)} is not allowed: each must be a {kind.__name__}.")
    if len({id(rng) for rng in rngs}) < len(rngs):
        raise ParameterError("rngs: one generator stands twice: each model needs its own.")
    check_alike(nets)
    for i, of_model in enumerate(settings):
        for name, value in asdict(of_model).items():
            if name not in EACH and value != getattr(settings[0], name):
                raise ParameterError(
                    f"settings: {name} = {value!r} of model {i}, but {getattr(settings[0], name)!r} of model 0: among "
                    f"models that are trained at once only {', '.join(EACH)} may differ."
                )
