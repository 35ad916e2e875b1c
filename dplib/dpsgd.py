"""DP-SGD (Abadi et al. 2016), with SGD as the case without clipping and noise.

One step on n records, with clipping norm C, noise multiplier s and sample rate q:

1. take each record by itself with probability q (Poisson sampling); there may be none;
2. sum the gradients of those taken, each scaled to a norm of at most C over all trained parameters together;
3. add N(0, (s C)^2) to every coordinate, once, however many pieces the sum was made in;
4. divide by the *expected* batch size q n, or by a constant, and take a step.

Neighbouring data sets differ by adding or removing one record. ``dplib.accounting`` turns s, q and the number of steps
into epsilon, for a constant divisor or a public n (an absent record is then one with gradient zero). Seeded noise is
reproducible and therefore not a private release; ``secure=True`` draws sampling and noise from the operating system's
cryptographic source (:mod:`dplib.sampling` says what that still leaves open).
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from dplib import checks, examples, layout, sampling
from dplib.checkpoints import Checkpoint, fingerprint
from dplib.checks import ParameterError
from dplib.engine import DPSGD, Engine, train_only
from dplib.examples import Data, Examples, Loss, cross_entropy, squared_error
from dplib.sgd import find_device

__all__ = ["DPSGD", "Checkpoint", "Data", "Engine", "Run", "cross_entropy", "squared_error", "train", "train_only"]

Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


@dataclass
class Run:
    """What a training did; ``record()`` is what the ledger keeps.

    Only the final weights are a private release (with noise, and ``secure``): losses, batch sizes and evaluations are
    computed without noise.

    Args:
        settings: of the training.
        sample_rate: q that was sampled with: what is to be accounted.
        sizes: examples of "train", and of "validation" and "test" where given.
        parameters, trained_parameters: of the whole network, and those that were trained.
        device: where it ran.
        steps: steps done, as many as set unless ``diverged``: account the number set.
        seconds: of the steps and evaluations, over all resumptions.
        batch_total, batch_least, batch_most: realised batch sizes.
        diverged: the weights were not finite at an evaluation, so that training ended there.
        evaluations: {"step", "train_loss", "validation": {"loss", "metric"}, "test": {...}} in time. ``train_loss`` is
            the mean over the records sampled since the evaluation before, each before its step; None without any.
    """

    settings: DPSGD
    sample_rate: float
    sizes: dict[str, int]
    parameters: int
    trained_parameters: int
    device: str
    steps: int = 0
    seconds: float = 0.0
    batch_total: int = 0
    batch_least: int | None = None
    batch_most: int = 0
    diverged: bool = False
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def final(self) -> dict[str, Any]:
        """The last evaluation: never the best one."""
        return self.evaluations[-1]

    def record(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return asdict(self)

    def count(self, batch_size: int) -> None:
        """One more step, on so many records."""
        self.steps += 1
        self.batch_total += batch_size
        self.batch_least = batch_size if self.batch_least is None else min(self.batch_least, batch_size)
        self.batch_most = max(self.batch_most, batch_size)


def train(
    net: nn.Module,
    data: Data,
    settings: DPSGD,
    rng: np.random.Generator,
    *,
    loss: Loss = cross_entropy,
    metric: Loss | None = None,
    schedule: Callable[[int], float] | None = None,
    augment: Augment | None = None,
    evaluate_every: int | None = None,
    checkpoint: Checkpoint | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Run:
    """Train ``net`` in place, and leave it on the device, in evaluation mode.

    Args:
        net: a network; its parameters that require a gradient are trained.
        data: training records, and validation and test examples where wanted.
        settings: of the training.
        rng: decides sampling, noise, dropout and augmentation; the first two not with ``secure``.
        loss: outputs (b, ...) and targets to one loss for each example, (b,).
        metric: likewise; by default 1 or 0 for right or wrong labels, or absolute errors with ``squared_error``.
        schedule: step 0, 1, ... to a factor of the learning rate.
        augment: random changes (x, y, generator) to (x, y) of a batch, for training without clipping only.
        evaluate_every: steps between evaluations; by default there is one, at the end.
        checkpoint: where the training keeps its state. Interrupted, the same call goes on from there, to the same
            bytes on a CPU unless ``secure``; with another call the file is refused. At the end it goes away.
        device: "auto" (a GPU where there is one), "cpu" or "cuda"; tensors must come on the device of ``net``.
        progress: a bar after two seconds.

    Raises:
        ParameterError: before any step, for data, labels, networks or settings that are not allowed.
    """
    if augment and settings.max_grad_norm is not None:
        raise ParameterError("augment is not allowed with clipping: it may mix the examples of a batch.")
    evaluate_every = settings.steps if evaluate_every is None else evaluate_every
    checks.integer(1).check("evaluate_every", evaluate_every)
    place = find_device(device)
    sets = _examples(net, data, place)
    train_set = sets["train"]
    _check_targets(net, sets, loss)

    seeds = [int(seed) for seed in rng.integers(2**63, size=4)]
    key = ""
    if checkpoint:
        decides = (settings, seeds, evaluate_every, getattr(loss, "__qualname__", ""))
        key = fingerprint([*net.state_dict().values(), *(t for one in sets.values() for t in one.tensors())], *decides)
    noise = None if settings.secure else torch.Generator(place).manual_seed(seeds[0])
    sampling_rng = None if settings.secure else np.random.default_rng(seeds[1])
    augmenting = torch.Generator().manual_seed(seeds[2])
    sampler = sampling.Sampler(settings.sampling, train_set.n, settings.sample_rate, sampling_rng)
    metric = metric or (examples.absolute_error if loss is squared_error else examples.correct)
    sample_rate = settings.sample_rate if settings.sampling == "poisson" else sampler.batch_size / sampler.n
    counts = [sum(p.numel() for p in net.parameters() if p.requires_grad or frozen) for frozen in (True, False)]
    run = Run(settings, sample_rate, {name: one.n for name, one in sets.items()}, *counts, str(place))

    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seeds[3])  # dropout draws from PyTorch's own generator
        augmented = partial(augment, generator=augmenting) if augment else None
        engine = Engine(net.train(), settings, train_set, loss, noise, augmented)
        state = _State(engine, run, sampler, [augmenting] if noise is None else [augmenting, noise])
        try:
            if checkpoint and (saved := checkpoint.load(key)):
                state.restore(*saved)
            start = time.perf_counter() - run.seconds
            for step in tqdm(range(run.steps, settings.steps), "steps", leave=False, delay=2, disable=not progress):
                rows = torch.from_numpy(sampler.draw()).to(place)
                rate = settings.learning_rate * (schedule(step) if schedule else 1)
                state.losses += engine.step(rows, rate)
                run.count(len(rows))
                if run.steps % evaluate_every == 0 or run.steps == settings.steps:
                    state.evaluate(sets, loss, metric)
                    run.diverged = not bool(engine.weights.isfinite().all())
                run.seconds = time.perf_counter() - start
                if run.diverged:
                    break
                if checkpoint and run.steps % checkpoint.every == 0:
                    checkpoint.save(key, *state.saved())
        finally:
            engine.close()
    if checkpoint:
        checkpoint.remove()
    net.eval()
    return run


class _State:
    """All that changes during a training."""

    def __init__(self, engine: Engine, run: Run, sampler: sampling.Sampler, generators: list[torch.Generator]):
        self.engine, self.run, self.sampler, self.generators = engine, run, sampler, generators
        self.losses = engine.weights.new_zeros(())  # since the last evaluation
        self.counted = 0  # records up to the last evaluation

    def evaluate(self, sets: dict[str, Examples], loss: Loss, metric: Loss) -> None:
        count = self.run.batch_total - self.counted
        row = {"step": self.run.steps, "train_loss": float(self.losses) / count if count else None}
        held_out = {name: one for name, one in sets.items() if name != "train"}
        row |= {name: examples.evaluate(self.engine.net, one, loss, metric) for name, one in held_out.items()}
        self.run.evaluations.append(row)
        self.losses.zero_()
        self.counted = self.run.batch_total

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"net.{name}": tensor for name, tensor in self.engine.net.state_dict().items()}
        tensors |= {f"generator.{i}": g.get_state() for i, g in enumerate(self.generators)}
        tensors |= {"velocity": self.engine.velocity, "losses": self.losses, "dropout": torch.get_rng_state()}
        if self.engine.weights.is_cuda:
            tensors["dropout.cuda"] = torch.cuda.get_rng_state(self.engine.weights.device)
        changed = ("steps", "seconds", "batch_total", "batch_least", "batch_most", "evaluations")
        run = {name: getattr(self.run, name) for name in changed}
        return tensors, {"run": run, "sampler": self.sampler.state(), "counted": self.counted}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        # In place: the network's parameters are views of the engine's vector.
        self.engine.net.load_state_dict({k[4:]: tensor for k, tensor in tensors.items() if k.startswith("net.")})
        self.engine.velocity.copy_(tensors["velocity"])
        self.losses.copy_(tensors["losses"])
        for i, generator in enumerate(self.generators):
            generator.set_state(tensors[f"generator.{i}"])
        torch.set_rng_state(tensors["dropout"])
        if self.engine.weights.is_cuda:
            torch.cuda.set_rng_state(tensors["dropout.cuda"], self.engine.weights.device)
        for name, value in plain["run"].items():
            setattr(self.run, name, value)
        self.sampler.restore(plain["sampler"])
        self.counted = plain["counted"]


def _examples(net: nn.Module, data: Data, place: torch.device) -> dict[str, Examples]:
    """Network and examples on one device, "train" first, in the network's precision."""
    own = next((p.device for p in net.parameters()), place)
    dtype = next((p.dtype for p in net.parameters()), torch.float32)
    pairs = {"train": data.train, **data.held_out()}
    for name, pair in pairs.items():
        for array in pair:
            if isinstance(array, Tensor) and array.device != own:
                raise ParameterError(f"{name}: the data are on {array.device}, but the network on {own}.")
    kept = layout.of(net, data.train[0])
    sets = {name: Examples(pair, name, place, dtype, kept) for name, pair in pairs.items()}
    net.to(place, memory_format=kept)
    return sets


def _check_targets(net: nn.Module, sets: dict[str, Examples], loss: Loss) -> None:
    """One example tells the outputs' shape, which labels or real targets have to fit."""
    training = net.training
    with torch.no_grad():
        outputs = net.eval()(sets["train"].first())
    net.train(training)
    for name, one in sets.items():
        if loss is cross_entropy:
            examples.check_labels(one.y, outputs.shape[-1], name)
        elif loss is squared_error and outputs[0].numel() != one.y[0].numel():
            raise ParameterError(f"{name}: {one.y[0].numel()} targets an example, but {outputs[0].numel()} outputs.")
