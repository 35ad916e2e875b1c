"""Steps of many models at once: their batches, their noise and their moves (:mod:`dplib.many` trains with them).

What a step draws (batches, noise) is drawn before it, from generators of each model's own; the rest of it waits for no
number, and has the same shapes at each step, so that a GPU can record it once as a CUDA graph.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from dplib import clipping, examples
from dplib.devices import MANY, whole_float32
from dplib.dpsgd import DPSGD
from dplib.examples import Examples, Loss, cross_entropy
from dplib.stacked import Stack

BLOCK = 32  # steps that are drawn ahead
WARM = 3  # steps before one is recorded


class Models:
    """m models in training: steps of all of them at once.

    Args:
        nets: of one architecture, on the device of the records.
        settings: one for each model.
        records: of all models.
        sizes: number of the records of each model.
        starts: row at which the records of each model begin, by default 0.
        loss: outputs and targets to one loss for each example.
        generators: of each model's noise, on that device; None for the cryptographic source.

    Attributes:
        weights: (m, trained parameters), of which the networks' parameters are views.
        piece: records of each model that go through at once.
        losses: sums of the losses since they were last set to zero, (m,); not private.
        seen: numbers of the records since they were last set to zero, (m,); not private.
        dropped: examples of all steps that added nothing, since something of them was not finite, (m,); not private.

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
        self.seen, self.dropped = torch.zeros(2, len(nets), dtype=torch.int64, device=self.weights.device)
        self._generators = generators or [None] * len(nets)
        self._starts = torch.tensor(starts or [0] * len(nets), device=self.weights.device).unsqueeze(1)
        divisors = [setting.quotient(n) for setting, n in zip(settings, sizes, strict=True)]
        bounds = [setting.max_grad_norm or 0.0 for setting in settings]
        multipliers = [setting.noise_multiplier for setting in settings]
        units = [_unit(setting, n) for setting, n in zip(settings, divisors, strict=True)]
        self._units = self._column(units) if max(units) > 1 else None
        shares = [1 / n / unit for n, unit in zip(divisors, units, strict=True)]
        self._deviations = [s * c / n / u for s, c, n, u in zip(multipliers, bounds, divisors, units, strict=True)]
        self._shares = self._column(shares)
        self._bounds = self._column([c * share for c, share in zip(bounds, shares, strict=True)])
        self._rates = self._column([setting.learning_rate for setting in settings])
        self._momentum = self._column([setting.momentum for setting in settings])
        self._moves = any(setting.momentum for setting in settings)
        self._free = [setting.max_grad_norm is None for setting in settings]
        self._unclipped = self._column(self._free) > 0
        self._rule = clipping.RULES[settings[0].clipping]
        self.on_gpu = self.weights.device.type != "cpu"
        held = MANY.on(self.weights.device) // (len(nets) * self.stack.numbers(records.first()))
        self.piece = max(1, min(held, settings[0].physical_batch or held))

    @property
    def state(self) -> list[Tensor]:
        """What a step changes; the gradient, in which its noise waits, is part of it."""
        return [self.weights, self.velocity, self.losses, self.seen, self.dropped, self.stack.gradient]

    def step(self, rows: Tensor, sizes: Tensor) -> None:
        """One step of every model: noise, clipped gradients, and the move.

        Args:
            rows: of each model's records, counted from its first one, shape (m, b).
            sizes: how many of them are its batch, from the left, shape (m,); the others count nothing.
        """
        self.draw_noise(self.stack.gradient)
        self.move(rows, sizes)

    def draw_noise(self, out: Tensor) -> Tensor:
        """Each model's noise from its own generator, as :class:`dplib.dpsgd.Engine` draws it.

        Args:
            out: shape (..., m, parameters); overwritten, and returned.
        """
        for of_model, sd, generator in zip(out.unbind(-2), self._deviations, self._generators, strict=True):
            if sd:
                examples.fill_normal(of_model, sd, generator)
            else:
                of_model.zero_()
        return out

    @whole_float32()
    def move(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """The step without its noise, which is in the gradient; returns the sums of the losses before it, (m,), not
        private. Nothing waits for a number of a GPU.

        Args:
            rows: of each model's records, counted from its first one, shape (m, b).
            sizes: how many of them are its batch, from the left, shape (m,); the others count nothing.
        """
        total = torch.zeros_like(self.losses)
        for few, real in self.pieces(rows, sizes):
            total += self._add(few, real)
        self.losses += total
        self.seen += sizes
        gradient = self.stack.gradient
        if self._units is not None:
            gradient.mul_(self._units)
        if self._moves:
            gradient = self.velocity.mul_(self._momentum).add_(gradient)
        self.weights.addcmul_(gradient, self._rates, value=-1)
        return total

    def losses_of(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """Sums of the losses at the weights as they are, (m,) in float64, on the records of a step. Those that are not
        finite count as 0, unless none is finite.

        Args:
            rows: of each model's records, counted from its first one, shape (m, b).
            sizes: how many of them are its batch, from the left, shape (m,); the others count nothing.
        """
        total, finite = torch.zeros_like(self.losses, dtype=torch.float64), sizes == 0
        for few, real in self.pieces(rows, sizes):
            x, y = self.records.batch(few.flatten(), fresh=self.on_gpu)
            losses = self.stack.losses(x, y, self.loss)
            real = real & losses.isfinite()
            total += torch.where(real, losses, 0).sum(1, dtype=torch.float64)
            finite = finite | real.any(1)
        return torch.where(finite, total, math.nan)

    def try_again(self, rows: Tensor, sizes: Tensor) -> None:
        """Try networks that clip once more, at the weights as they are and on some of their records: of several with
        the same records the first.

        Args:
            rows: of each model's records, counted from its first one, shape (m, b).
            sizes: how many of them are its batch, from the left, shape (m,); the others count nothing.

        Raises:
            ParameterError: where the loss no longer keeps examples apart. No model's weights are then to be released.
        """
        starts, tried = self._starts.flatten().tolist(), set()
        for i, (net, size) in enumerate(zip(self.stack.nets, sizes.tolist(), strict=True)):
            if self._free[i] or not size or starts[i] in tried:
                continue
            tried.add(starts[i])
            x, y = self.records.batch(rows[i, : min(size, clipping.SOME)] + starts[i], fresh=True)
            clipping.check_again(net, x, y, self.loss)
            clipping.check_unspoiled(net, x, y, self.loss)

    def pieces(self, rows: Tensor, sizes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of all records (m, few), and which of them count.

        Args:
            rows: of each model's records, counted from its first one, shape (m, b).
            sizes: how many of them are its batch, from the left, shape (m,); the others count nothing.
        """
        real = torch.arange(rows.shape[1], device=rows.device) < sizes.unsqueeze(1)
        pairs = zip((rows + self._starts).split(self.piece, 1), real.split(self.piece, 1), strict=True)
        return (pair for pair in pairs if pair[0].numel())

    def _add(self, rows: Tensor, real: Tensor) -> Tensor:
        """Clipped gradients of rows (m, few), of which those that are ``real`` count; sums of their losses (m,)."""
        flat = rows.flatten()
        x, y = self.records.batch(flat, fresh=self.on_gpu)  # a recorded graph keeps its memory to itself
        known = partial(self.records.norms, flat) if x.dim() == 2 else None
        losses = self.stack.add_clipped(x, y, self.loss, partial(self._weigh, real), known, all(self._free))
        return torch.where(real & (losses.isfinite() | self._unclipped), losses, 0).sum(1)

    def _weigh(self, real: Tensor, norms: Tensor, losses: Tensor) -> tuple[Tensor, Tensor | None]:
        """Factors (m, b), and which examples are kept: one whose loss or gradient is not finite counts as exactly zero,
        as do those that only fill the table up. None is taken again by itself: ``clipping.check_unspoiled`` refuses a
        loss by which one spoils others. Without clipping there is no such rule.
        """
        finite = (norms + losses).isfinite()
        clean = not self.on_gpu and not any(self._free) and bool(finite.all())
        keep = real if clean else real & (finite | self._unclipped)
        if not clean:
            self.dropped += (real & ~keep).sum(1)
        factors = self._rule(norms, self._bounds, self._shares)
        if any(self._free):
            factors = torch.where(self._unclipped, self._shares, factors)
        return torch.where(keep, factors, 0), None if clean else keep

    def _column(self, values: Sequence[float]) -> Tensor:
        return self.weights.new_tensor(values).unsqueeze(1)


def _unit(settings: DPSGD, divisor: float) -> float:
    """What a model's sum is counted in, as by :class:`dplib.dpsgd.Engine`: a power of two, nearly always 1, that keeps
    weights at most 1.
    """
    if settings.max_grad_norm is None:
        return 1.0
    most = clipping.largest_weight(settings.clipping, settings.max_grad_norm / divisor, 1 / divisor)
    return 2.0 ** math.ceil(math.log2(most)) if most > 1 else 1.0


class Batches:
    """The batches of all models, a block of steps at a time.

    Args:
        settings: of each model.
        sizes: number of the records of each model.
        seeds: of each model's sampling; None for the cryptographic source.
        place: the device of the rows.
    """

    def __init__(
        self, settings: Sequence[DPSGD], sizes: Sequence[int], seeds: Sequence[int] | None, place: torch.device
    ):
        self.place, kind = place, settings[0].sampling
        rngs = [None if seeds is None else np.random.default_rng(seeds[i]) for i in range(len(sizes))]
        self._samplers = [
            examples.Sampler(kind, n, setting.sample_rate, rng)
            for setting, n, rng in zip(settings, sizes, rngs, strict=True)
        ]
        self._on_device = place.type == "cuda" and seeds is not None and kind == "poisson"
        if self._on_device:
            self._generators = [torch.Generator(place).manual_seed(seed) for seed in seeds]
        self.sample_rates = [
            sampler.sample_rate if kind == "poisson" else sampler.batch_size / sampler.n for sampler in self._samplers
        ]

    def room(self) -> int:
        """Columns that hold nearly every batch: of the mean size and six standard deviations."""
        return max(examples.room(sampler.n, sampler.sample_rate) for sampler in self._samplers)

    def block(self, steps: int) -> tuple[Tensor, Tensor, list[int]]:
        """Rows (steps, m, columns) and sizes (steps, m) on the device; and the largest size of each step. On a GPU this
        waits, twice.

        Args:
            steps: how many to draw.
        """
        of_each = (
            self._on_gpu(steps) if self._on_device else [self._on_host(sampler, steps) for sampler in self._samplers]
        )
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
            partial(_gaps, sampler.sample_rate, (steps, self.room()), generator, self.place)
            for sampler, generator in zip(self._samplers, self._generators, strict=True)
        ]
        records = [sampler.n for sampler in self._samplers]
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


class Stepper:
    """Calls ``move(rows, sizes, *more)`` step by step, with noise in the gradient: on a GPU as one recorded graph.

    Args:
        models: that take the steps.
        batches: of these models.
        steps: most that will be asked for. After half of them and after the last one networks are tried once more.
        move: makes one step.
        state: what else ``move`` changes.
        draw: what else it is given: more(steps), tensors (steps, ...).
    """

    def __init__(
        self,
        models: Models,
        batches: Batches,
        steps: int,
        move: Callable[..., object],
        state: Sequence[Tensor] = (),
        draw: Callable[[int], Sequence[Tensor]] = lambda steps: (),
    ):
        self.models, self.batches, self.steps, self.move, self.draw = models, batches, steps, move, draw
        self.state = [*models.state, *state]
        self.step, self._block = 0, BLOCK
        self._recorded, self._columns = None, batches.room()
        if models.on_gpu:
            self._block = max(1, min(BLOCK, MANY.gpu // max(1, models.weights.numel())))
            self._noise = models.weights.new_empty(self._block, *models.weights.shape)

    def next(self) -> None:
        """One step of every model."""
        k, models = self.step % self._block, self.models
        if k == 0:
            count = min(self._block, self.steps - self.step)
            rows, sizes, self._largest = self.batches.block(count)
            self._drawn = [rows, sizes, *self.draw(count)]
            if models.on_gpu:
                models.draw_noise(self._noise)
        rows, *others = (drawn[k] for drawn in self._drawn)
        if not models.on_gpu:
            models.draw_noise(models.stack.gradient)
            self.move(rows[:, : self._largest[k]], *others)
        else:
            models.stack.gradient.copy_(self._noise[k])
            if self._largest[k] <= self._columns:
                self._replay(rows[:, : self._columns], *others)
            else:  # no record is cut from a batch: a step of its own, at its size
                self.move(rows[:, : self._largest[k]], *others)
        self.step += 1
        if self.step in (self.steps // 2, self.steps):
            models.try_again(rows, others[0])

    def _replay(self, rows: Tensor, *others: Tensor) -> None:
        if self._recorded is None:
            room = rows.new_zeros(len(rows), self._columns)
            self._recorded = Recorded(self.move, [room, *others], self.state)
        self._recorded(rows, *others)


class Recorded:
    """A function of tensors on a GPU, recorded as one CUDA graph that is replayed at each call.

    Args:
        function: waits for no number, and draws none.
        inputs: tensors like those of later calls, or with more columns: what is beyond them must not matter.
        state: what the function changes beside, and is to be left as it is by the recording.
    """

    def __init__(self, function: Callable[..., object], inputs: Sequence[Tensor], state: Sequence[Tensor]):
        self._inputs = [tensor.clone() for tensor in inputs]
        before = [kept.clone() for kept in state]
        side = torch.cuda.Stream()  # PyTorch's own recipe: some calls on a stream beside, then the recording
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM):
                function(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            function(*self._inputs)
        for kept, was in zip(state, before, strict=True):
            kept.copy_(was)

    def __call__(self, *inputs: Tensor) -> None:
        for place, given in zip(self._inputs, inputs, strict=True):
            place[..., : given.shape[-1]].copy_(given)
        self._graph.replay()
