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
it, and the host waits twice a block, to see whether a batch is larger than its table. **Nobody has run that on a GPU
yet.**
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from dplib import checks, clipping, dpsgd, examples
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, whole_float32
from dplib.dpsgd import DPSGD, Run
from dplib.examples import Data, Examples, Loss, cross_entropy, squared_error
from dplib.stacked import Stack, check_alike

__all__ = ["EACH", "train"]

EACH = ("sample_rate", "learning_rate", "noise_multiplier", "max_grad_norm", "momentum", "divisor")  # may differ
BLOCK = 32  # steps that are drawn ahead
# Numbers held at once, by the examples of a piece of a step and by the noise drawn ahead on a GPU.
HELD, GPU_HELD = 2**22, 2**29
LEAST, MOST = 4, 50  # models at once on a processor
WARM = 3  # steps before one is recorded


class Models:
    """m models in training: steps of all of them at once.

    Args:
        nets: of one architecture, on the device of the records.
        settings: one for each model.
        records: of all models; those of model i begin at row ``starts[i]``, by default 0, and are ``sizes[i]``.
        generators: of each model's noise, on that device; None for the cryptographic source.

    Attributes:
        weights: (m, trained parameters), of which the networks' parameters are views.
        losses, seen: sums of the losses, (m,), and numbers of the records, (m,), since they were last set to zero; not
            private.

    Raises:
        ParameterError: for networks that are not alike, or that have a layer that is not known here.
    """

    def __init__(
        self,
        nets: Sequence[nn.Module],
        settings: Sequence[DPSGD],
        records: Examples,
        sizes: Sequence[int],
        starts: Sequence[int] | None = None,
        loss: Loss = cross_entropy,
        generators: Sequence[torch.Generator] | None = None,
    ):
        self.records, self.loss, self.stack = records, loss, Stack(nets)
        self.weights = self.stack.weights
        self.velocity = torch.zeros_like(self.weights)
        self.losses = self.weights.new_zeros(len(nets))
        self.seen = torch.zeros(len(nets), dtype=torch.int64, device=self.weights.device)
        self._generators = generators or [None] * len(nets)
        self._starts = torch.tensor(starts or [0] * len(nets), device=self.weights.device).unsqueeze(1)
        divisors = [one.divisor or one.sample_rate * n for one, n in zip(settings, sizes, strict=True)]
        bounds = [one.max_grad_norm or 0.0 for one in settings]
        multipliers = [one.noise_multiplier for one in settings]
        self._deviations = [s * c / n for s, c, n in zip(multipliers, bounds, divisors, strict=True)]
        self._shares = self._column([1 / n for n in divisors])
        self._bounds = self._column([c * (1 / n) for c, n in zip(bounds, divisors, strict=True)])
        self._rates = self._column([one.learning_rate for one in settings])
        self._momentum = self._column([one.momentum for one in settings])
        self._moves = any(one.momentum for one in settings)
        self._free = [one.max_grad_norm is None for one in settings]
        self._unclipped = self._column(self._free) > 0
        self._rule = clipping.RULES[settings[0].clipping]
        self.on_gpu = self.weights.device.type != "cpu"
        held = (GPU_HELD if self.on_gpu else HELD) // (len(nets) * self.stack.numbers(records.first()))
        self._piece = max(1, min(held, settings[0].physical_batch or held))

    def step(self, rows: Tensor, sizes: Tensor) -> None:
        """One step of every model: noise, clipped gradients, and the move.

        Args:
            rows: (m, b) of each model's records, counted from its first one.
            sizes: (m,), how many of them are its batch, from the left; the others count nothing.
        """
        self.draw_noise(self.stack.gradient)
        self.move(rows, sizes)

    def draw_noise(self, out: Tensor) -> Tensor:
        """Each model's noise into (..., m, parameters) from its own generator, as :class:`dplib.dpsgd.Engine` draws
        it.
        """
        for of_model, sd, generator in zip(out.unbind(-2), self._deviations, self._generators, strict=True):
            if sd:
                examples.fill_normal(of_model, sd, generator)
            else:
                of_model.zero_()
        return out

    @whole_float32()
    def move(self, rows: Tensor, sizes: Tensor) -> None:
        """The step without its noise, which is in the gradient; nothing waits for a number of a GPU."""
        real = torch.arange(rows.shape[1], device=rows.device) < sizes.unsqueeze(1)
        self.seen += sizes
        rows = rows + self._starts
        for few, taken in zip(rows.split(self._piece, 1), real.split(self._piece, 1), strict=True):
            if few.numel():
                self._add(few, taken)
        gradient = self.stack.gradient
        if self._moves:
            gradient = self.velocity.mul_(self._momentum).add_(gradient)
        self.weights.addcmul_(gradient, self._rates, value=-1)

    def _add(self, rows: Tensor, real: Tensor) -> None:
        """Clipped gradients of rows (m, b), of which those that are ``real`` count."""
        flat = rows.flatten()
        x, y = self.records.batch(flat, fresh=self.on_gpu)  # a recorded graph keeps its memory to itself
        known = partial(self.records.norms, flat) if x.dim() == 2 else None
        losses = self.stack.add_clipped(x, y, self.loss, partial(self._weigh, real), known, all(self._free))
        self.losses += torch.where(real & (losses.isfinite() | self._unclipped), losses, 0).sum(1)

    def _weigh(self, real: Tensor, norms: Tensor, losses: Tensor) -> tuple[Tensor, Tensor | None]:
        """Factors (m, b), and which examples are kept: one whose loss or gradient is not finite counts as exactly zero,
        as do those that only fill the table up. Without clipping there is no such rule.
        """
        finite = (norms + losses).isfinite()
        clean = not self.on_gpu and not any(self._free) and bool(finite.all())
        keep = real if clean else real & (finite | self._unclipped)
        factors = self._rule(norms, self._bounds, self._shares)
        if any(self._free):
            factors = torch.where(self._unclipped, self._shares, factors)
        return torch.where(keep, factors, 0), None if clean else keep

    def _column(self, values: Sequence[float]) -> Tensor:
        return self.weights.new_tensor(values).unsqueeze(1)


class _Batches:
    """The batches of all models, a block of steps at a time.

    Args:
        settings, sizes: of each model, and the number of its records.
        seeds: of each model's sampling; None for the cryptographic source.
    """

    def __init__(
        self, settings: Sequence[DPSGD], sizes: Sequence[int], seeds: Sequence[int] | None, place: torch.device
    ):
        self.place, kind = place, settings[0].sampling
        rngs = [None if seeds is None else np.random.default_rng(seeds[i]) for i in range(len(sizes))]
        self._samplers = [
            examples.Sampler(kind, n, one.sample_rate, rng) for one, n, rng in zip(settings, sizes, rngs, strict=True)
        ]
        self._on_device = place.type == "cuda" and seeds is not None and kind == "poisson"
        if self._on_device:
            self._generators = [torch.Generator(place).manual_seed(seed) for seed in seeds]
        self.sample_rates = [one.sample_rate if kind == "poisson" else one.batch_size / one.n for one in self._samplers]

    def room(self) -> int:
        """Columns that hold nearly every batch: of the mean size and six standard deviations."""
        return max(examples.room(one.n, one.sample_rate) for one in self._samplers)

    def block(self, steps: int) -> tuple[Tensor, Tensor, list[int]]:
        """Rows (steps, m, columns) and sizes (steps, m) on the device; and the largest size of each step. On a GPU this
        waits, twice.
        """
        of_each = self._on_gpu(steps) if self._on_device else [self._on_host(one, steps) for one in self._samplers]
        most = max(rows.shape[1] for rows, _ in of_each)
        rows = of_each[0][0].new_zeros(steps, len(of_each), most)
        for i, (of_model, _) in enumerate(of_each):
            rows[:, i, : of_model.shape[1]] = of_model
        sizes = torch.stack([sizes for _, sizes in of_each], 1)
        return rows.to(self.place), sizes.to(self.place), sizes.amax(1).tolist()

    def _on_host(self, sampler: examples.Sampler, steps: int) -> tuple[Tensor, Tensor]:
        """Rows (steps, columns) and sizes (steps,) of a model, those of :func:`dplib.dpsgd.train`."""
        if sampler.kind == "poisson" and sampler.rng is not None:
            drawn = examples.poisson_table(sampler.n, sampler.sample_rate, sampler.rng, steps)
        else:
            drawn = examples.padded([sampler.draw() for _ in range(steps)])
        return tuple(map(torch.from_numpy, drawn))

    def _on_gpu(self, steps: int) -> list[tuple[Tensor, Tensor]]:
        """The same of each model by generators of the device: the gaps between successes are geometric."""
        trials = [
            partial(_gaps, one.sample_rate, (steps, self.room()), generator, self.place)
            for one, generator in zip(self._samplers, self._generators, strict=True)
        ]
        records = [one.n for one in self._samplers]
        ends = [draw().cumsum(1) for draw in trials]
        short = torch.stack([(of_model[:, -1] <= n).any() for of_model, n in zip(ends, records, strict=True)])
        for i in np.flatnonzero(short.tolist()):  # a sample has no room: trials have no memory, so they go on
            while bool((ends[i][:, -1] <= records[i]).any()):
                ends[i] = torch.cat([ends[i], ends[i][:, -1:] + trials[i]().cumsum(1)], 1)
        taken = [of_model <= n for of_model, n in zip(ends, records, strict=True)]
        return [(torch.where(t, e - 1, 0).long(), t.sum(1)) for t, e in zip(taken, ends, strict=True)]


def _gaps(sample_rate: float, shape: Sequence[int], generator: torch.Generator, place: torch.device) -> Tensor:
    """Independent geometric numbers from 1, in float64: trials of probability ``sample_rate`` up to a success."""
    u = torch.rand(shape, dtype=torch.float64, device=place, generator=generator)
    log_failure = math.log1p(-sample_rate) if sample_rate < 1 else -math.inf
    return u.neg_().log1p_().div_(log_failure).floor_().add_(1)


class _Recorded:
    """Steps of all models on a GPU as one CUDA graph, with batches of at most ``columns`` each; the noise is drawn
    before, outside of it.
    """

    def __init__(self, models: Models, columns: int):
        self.models, self.columns, m = models, columns, len(models.weights)
        self._rows = torch.zeros(m, columns, dtype=torch.int64, device=models.weights.device)
        self._sizes = torch.zeros(m, dtype=torch.int64, device=models.weights.device)
        state = [models.weights, models.velocity, models.losses, models.seen]
        before = [kept.clone() for kept in state]
        side = torch.cuda.Stream()  # PyTorch's own recipe: some steps on a stream beside, then the recording
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM):
                models.move(self._rows, self._sizes)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            models.move(self._rows, self._sizes)
        for kept, was in zip(state, before, strict=True):
            kept.copy_(was)

    def move(self, rows: Tensor, sizes: Tensor) -> None:
        """As :meth:`Models.move`, on at most as many columns as were recorded."""
        self._rows[:, : rows.shape[1]].copy_(rows)  # what is beyond the sizes counts nothing
        self._sizes.copy_(sizes)
        self._graph.replay()


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
        rngs: one for each: decides its sampling and its noise; not with ``secure``.
        loss, evaluate_every, device: as in :func:`dplib.dpsgd.train`; "auto" weighs all trainings together.
        at_once: most models that take steps together, by default all on a GPU, and on the processor as many as its
            cache is good for. It changes no result but for rounding.

    Returns:
        What each training did, in the order of the networks. A model whose weights were not finite at an evaluation
        ends there, and the others go on.

    Raises:
        ParameterError: before any step, for data, networks or settings that are not allowed; for a layer that is not
            known here it says which, and that such networks are trained one at a time.
    """
    nets, rngs = list(nets), list(rngs)
    data = [data] * len(nets) if isinstance(data, Data) else list(data)
    settings = [settings] * len(nets) if isinstance(settings, DPSGD) else list(settings)
    _check(nets, data, settings, rngs)
    evaluate_every = settings[0].steps if evaluate_every is None else evaluate_every
    checks.integer(1).check("evaluate_every", evaluate_every)
    if at_once is not None:
        checks.integer(1).check("at_once", at_once)
    place = find_device(device, _work(nets, data, settings) if device == "auto" else None)
    sets = _placed(nets, data, place)
    for net, of_model in zip(nets, sets, strict=True):
        dpsgd.check_targets(net, of_model, loss)
    expected = max(one.sample_rate * of["train"].n for one, of in zip(settings, sets, strict=True))
    clips = any(one.max_grad_norm is not None for one in settings)
    dpsgd.check_network(nets[0], sets[0]["train"], loss, expected, clips)

    groups = torch.arange(len(nets)).split(at_once or _at_once(nets, sets[0]["train"], expected))
    trainings = [
        _Training(*([values[i] for i in group.tolist()] for values in (nets, settings, sets, rngs)), loss, place)
        for group in groups
    ]
    steps = sum(settings[0].steps for _ in groups)
    with tqdm(total=steps, desc="steps", leave=False, delay=2, disable=not progress) as bar:
        for training in trainings:
            training(evaluate_every, bar)
    return [run for training in trainings for run in training.runs]


def _work(nets: Sequence[nn.Module], data: Sequence[Data], settings: Sequence[DPSGD]) -> Work:
    """How much all trainings are, a step of theirs being one step."""
    of_each = [one.work(net, of.train[0]) for one, net, of in zip(settings, nets, data, strict=True)]
    return Work(sum(one.operations for one in of_each), settings[0].steps)


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
        seeds = [[int(seed) for seed in rng.integers(2**63, size=4)] for rng in rngs]  # as dpsgd.train draws them
        noises = batches = None
        if not settings[0].secure:
            noises = [torch.Generator(place).manual_seed(noise) for noise, *_ in seeds]
            batches = [sampling for _, sampling, *_ in seeds]
        records, sizes = [of_model["train"] for of_model in sets], [of_model["train"].n for of_model in sets]
        joined, starts = Examples.joined(records)
        self.models = Models(nets, settings, joined, sizes, starts, loss, noises)
        self.batches = _Batches(settings, sizes, batches, place)
        counts = [sum(p.numel() for p in nets[0].parameters() if p.requires_grad or frozen) for frozen in (True, False)]
        self.runs = [Run(rate, *counts, str(place)) for rate in self.batches.sample_rates]

    def __call__(self, evaluate_every: int, bar: tqdm) -> None:
        """All steps, and evaluations on the way."""
        block = BLOCK
        if self.models.on_gpu:
            recorded, block = _Recorded(self.models, self.batches.room()), self._noise_block()
            noise = self.models.weights.new_empty(block, *self.models.weights.shape)
        try:
            for step in range(self.steps):
                if (k := step % block) == 0:
                    rows, sizes, largest = self.batches.block(min(block, self.steps - step))
                    if self.models.on_gpu:
                        self.models.draw_noise(noise)
                if not self.models.on_gpu:
                    self.models.step(rows[k, :, : largest[k]], sizes[k])
                else:
                    self.models.stack.gradient.copy_(noise[k])
                    mover = recorded if largest[k] <= recorded.columns else self.models
                    mover.move(rows[k, :, : max(largest[k], recorded.columns)], sizes[k])
                bar.update()
                if ((step + 1) % evaluate_every == 0 or step + 1 == self.steps) and not self._evaluate(step + 1):
                    break
        finally:
            self.models.stack.close()
        for net in self.nets:
            net.eval()

    def _noise_block(self) -> int:
        """Steps whose noise a GPU's memory holds."""
        return max(1, min(BLOCK, GPU_HELD // max(1, self.models.weights.numel())))

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


def _placed(nets: Sequence[nn.Module], data: Sequence[Data], place: torch.device) -> list[dict[str, Examples]]:
    """Networks and examples on one device; data that several models share are there once."""
    made: dict[int, dict[str, Examples]] = {}
    for net, of_model in zip(nets, data, strict=True):
        if id(of_model) not in made:
            made[id(of_model)] = dpsgd.placed(net, of_model, place)
        net.to(place, memory_format=examples.layout_of(net, of_model.train[0]))
    return [made[id(of_model)] for of_model in data]


def _at_once(nets: Sequence[nn.Module], records: Examples, expected: float) -> int:
    """How many models to train together: on the processor as many as its caches hold, with ``expected`` records each,
    which may be in pieces.
    """
    if records.y.device.type != "cpu":
        return len(nets)
    net = copy.deepcopy(nets[0])
    weights = 3 * sum(p.numel() for p in net.parameters())  # with the gradient and what is added to it
    held = HELD // (weights + math.ceil(expected) * Stack([net]).numbers(records.first()))
    return min(MOST, max(LEAST, held))


def _check(
    nets: Sequence[nn.Module], data: Sequence[Data], settings: Sequence[DPSGD], rngs: Sequence[np.random.Generator]
) -> None:
    """As many of each, alike."""
    for name, values in (("data", data), ("settings", settings), ("rngs", rngs)):
        if len(values) != len(nets):
            raise ParameterError(f"{name}: {len(values)} given for {len(nets)} networks: there must be one for each.")
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
