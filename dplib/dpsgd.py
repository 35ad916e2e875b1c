"""DP-SGD (Abadi et al. 2016), with SGD as the case without clipping and noise.

One step on n records, with clipping norm C, noise multiplier s and sample rate q:

1. take each record by itself with probability q (Poisson sampling); there may be none;
2. sum the gradients of those taken, each scaled to a norm of at most C over all trained parameters together;
3. add N(0, (s C)^2) to every coordinate, once, however many pieces the sum was made in;
4. divide by the *expected* batch size q n, or by a constant, and take a step.

Neighbouring data sets differ by adding or removing one record. ``dplib.accounting`` turns s, q and the number of steps
into epsilon, for a constant divisor or a public n (an absent record is then one with gradient zero). Seeded noise is
reproducible and therefore not a private release; ``secure=True`` draws sampling and noise from a cryptographic stream
under keys of the operating system (:mod:`dplib.secure` says what that still leaves open).
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks, clipping, devices, examples, failing, state
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, same_randomness, whole_float32
from dplib.examples import Data, Examples, Loss, cross_entropy, squared_error
from dplib.progress import tqdm

__all__ = ["DPSGD", "Data", "Engine", "Run", "cross_entropy", "squared_error", "train"]

RARE = 16  # records that stand out, among those that a network is tried on
LARGEST = 1e30  # moves of a step, and their inverses: beyond, float32 has no digits for noise
LEAST = 1e-18  # of C over the divisor: below, a factor of a clipped gradient may round to twice what it is in float32
_NOISE = checks.Rule(
    "0, or a number in [1e-09, 1e+09]", lambda v: checks.number(0, 1e9).accepts(v) and not 0 < v < 1e-9
)
_SHARE = checks.Rule("a number in [0, 1)", lambda v: checks.number(0, 1).accepts(v) and v < 1)
_EVERY = checks.integer(1, 10**12)


@dataclass(frozen=True)
class DPSGD:
    """Settings of a training.

    Numbers of any type are taken, also NumPy's, and kept as Python's own.

    Args:
        steps: how many, from 1 to 10^12.
        sample_rate: q in [1e-12, 1]; the expected batch size is q n.
        learning_rate: of a step along the noisy mean gradient, in [1e-30, 1e30].
        noise_multiplier: standard deviation of the noise on the sum, in units of ``max_grad_norm``, in [1e-9, 1e9]; 0
            for none.
        max_grad_norm: clipping norm C, in [1e-12, 1e12], at least 1e-18 of the divisor; None for no clipping, and so no
            noise.
        clipping: "flat" scales by min(1, C / |g|), "auto-s" by C / (|g| + 0.01).
        momentum: as in ``torch.optim.SGD``, in [0, 1); it acts on the noisy gradient, at no privacy cost.
        sampling: "poisson", or "shuffled" for training without noise only.
        physical_batch: most examples that go through the network at once, by default 512 images or 2048 others on the
            processor, and more on a GPU (``dplib.devices``).
        secure: sampling and noise from a cryptographic stream that nobody can draw again, :mod:`dplib.secure`; not for
            a network or a loss that draws numbers of its own, such as dropout, which come from PyTorch's generator.
        divisor: the number that the noisy sum is divided by, in [1e-12, 1e15]; None for q n. Where the number n of
            records is itself private, give a constant that was chosen without it, and such a sample_rate: q n tells n.

    Raises:
        ParameterError: for a setting that is not allowed.
    """

    steps: int
    sample_rate: float
    learning_rate: float
    noise_multiplier: float = 0.0
    max_grad_norm: float | None = None
    clipping: str = "flat"
    momentum: float = 0.0
    sampling: str = "poisson"
    physical_batch: int | None = None
    secure: bool = False
    divisor: float | None = None

    def __post_init__(self):
        checks.integer(1, 10**12).check("steps", self.steps)
        examples.RATE.check("sample_rate", self.sample_rate)
        checks.number(1 / LARGEST, LARGEST).check("learning_rate", self.learning_rate)
        _NOISE.check("noise_multiplier", self.noise_multiplier)
        if self.max_grad_norm is not None:
            checks.number(1e-12, 1e12).check("max_grad_norm", self.max_grad_norm)
        checks.one_of(*clipping.RULES).check("clipping", self.clipping)
        _SHARE.check("momentum", self.momentum)
        checks.one_of(*examples.SAMPLING).check("sampling", self.sampling)
        if self.physical_batch is not None:
            checks.integer(1, 10**9).check("physical_batch", self.physical_batch)
        checks.boolean().check("secure", self.secure)
        if self.divisor is not None:
            checks.number(1e-12, 1e15).check("divisor", self.divisor)
        if self.noise_multiplier > 0 and self.max_grad_norm is None:
            raise ParameterError("max_grad_norm = None is not allowed with noise: without clipping it hides nobody.")
        if self.sampling == "shuffled" and (self.noise_multiplier > 0 or self.secure):
            raise ParameterError("sampling = 'shuffled' is not allowed with noise: accounting is about 'poisson'.")
        reals = ("sample_rate", "learning_rate", "noise_multiplier", "max_grad_norm", "momentum", "divisor")
        keep_digits(self, reals, counts=("steps", "physical_batch"))

    def quotient(self, n: int) -> float:
        """What the noisy sum over n records is divided by.

        Args:
            n: number of training records, at least 1.

        Raises:
            ParameterError: for settings whose product is more or less than float32 holds: noise may be lost in it. Also
                for a clipping norm below 1e-18 of the divisor, where a record might count for more.
        """
        divisor = self.divisor or self.sample_rate * n
        if self.max_grad_norm is not None:
            if self.max_grad_norm / divisor < LEAST:
                raise ParameterError(
                    f"max_grad_norm = {self.max_grad_norm:g} is not allowed with a divisor of {divisor:g}: it must be "
                    f"at least {LEAST:g} times that, or float32 has no digits for what a clipped gradient adds."
                )
            step, noise = self.learning_rate * self.max_grad_norm / divisor, self.noise_multiplier or 1.0
            if not (step * min(1, noise) >= 1 / LARGEST and step * max(1, noise) <= LARGEST):
                raise ParameterError(
                    f"learning_rate = {self.learning_rate:g} is not allowed with max_grad_norm = {self.max_grad_norm:g}"
                    f", noise_multiplier = {self.noise_multiplier:g} and a divisor of {divisor:g}: a record would move "
                    f"weights by {step:g}; that, and the noise, must be in [{1 / LARGEST:g}, {LARGEST:g}]."
                )
        return divisor

    def work(self, net: nn.Module, x: examples.Array) -> Work:
        """How much such a training is.

        Args:
            net: the network that would be trained.
            x: its examples, shape (n, ...), n at least 1.
        """
        return devices.training_work(net, x, self.sample_rate * len(x), self.steps)


def keep_digits(settings: object, reals: Sequence[str], counts: Sequence[str] = ()) -> None:
    """Put Python's own numbers in the place of those that frozen settings were given. A product with one of NumPy's has
    as few digits as that: noise of a float16 became 0, and whole numbers of 8 bits began again after 255.

    Args:
        settings: a frozen dataclass, whose values were checked. None stays None.
        reals: names of its real numbers.
        counts: names of its whole numbers.
    """
    for names, kind in ((reals, float), (counts, int)):
        for name in names:
            if (value := getattr(settings, name)) is not None:
                object.__setattr__(settings, name, kind(value))


class Engine:
    """A network in training: its trained weights in one vector, and steps on it.

    Parameters that require no gradient count neither in the clipping norm nor in the noise.

    Args:
        net: on the device of the data; with clipping, one that :mod:`dplib.layers` knows.
        settings: of the training; ``steps`` only tells when the network is tried once more.
        train: the n training records.
        loss: outputs (b, ...) and targets (b, ...) to one loss for each example, (b,).
        generator: of the noise, on that device; None for the cryptographic stream.

    Attributes:
        steps: steps made so far.

    Raises:
        ParameterError: for a network that is refused, or that is on another device than the data; with ``secure``, or
            without a generator, also for a network or a loss that draws random numbers; for a generator with
            ``secure``.
    """

    @whole_float32()
    def __init__(
        self,
        net: nn.Module,
        settings: DPSGD,
        train: Examples,
        loss: Loss = cross_entropy,
        generator: torch.Generator | None = None,
    ):
        self.net, self.settings, self.examples, self.loss = net, settings, train, loss
        self._generator = generator
        self.divisor = settings.quotient(train.n)
        self._clips = settings.max_grad_norm is not None
        self._physical_batch = settings.physical_batch or (
            devices.TRAINED_IMAGES if train.is_image else devices.TRAINED_ROWS
        ).on(train.y.device)
        most = self._physical_batch
        check_network(net, train, loss, min(settings.sample_rate * train.n, most), self._clips, most)
        if settings.secure and generator is not None:
            raise ParameterError("generator is not allowed with secure = True: noise that can be drawn again is none.")
        if settings.secure or (settings.noise_multiplier and generator is None):
            check_secure(net, train, loss)
        self._trained = [p for p in net.parameters() if p.requires_grad]
        self.steps, self._closed = 0, False
        self.weights = _in_one_vector(self._trained)
        self._gradient = torch.zeros_like(self.weights)
        self._parts = _parts(self._gradient, self._trained)
        self.velocity = torch.zeros_like(self.weights)
        self._clipped, self._prints = None, state.prints(net)
        if self._clips:
            self._clipped = clipping.ClippedSums(net, dict(zip(self._trained, self._parts, strict=True)))

    def step(self, rows: Tensor, *, look: bool = True) -> Tensor:
        """One step; returns the sum of the records' losses before it, which is not private.

        With clipping, a loss that is not finite counts as 0. After half of the steps and after the last one the network
        is tried once more, on some of these records.

        Args:
            rows: of the records that are taken, shape (b,), b >= 0, each of them once.
            look: whether to refuse a record that is taken more than once, which moves the clipped sum as many times.
                A sampler's rows need no look, and on a GPU, which would be waited for, there is none.

        Raises:
            ParameterError: for a record that is taken twice, where it clips, or an engine that is closed; and where the
                network no longer keeps examples apart, or fails: its weights are then not to be released.
        """
        if self._clips and look:
            _refuse_repeated(rows)
        try:
            total = self._fill(rows)
        except (ParameterError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as problem:  # of the network's own code: once more, to say where
            for piece in rows.split(self._physical_batch):
                with failing.named(self.net):
                    x, y = self.examples.batch(piece)
                    self.loss(self.net(x), y)
            with failing.in_words(f"step {self.steps + 1}"):
                raise problem
        gradient = self._gradient
        if self.settings.momentum:
            gradient = self.velocity.mul_(self.settings.momentum).add_(gradient)
        self.weights.sub_(gradient, alpha=self.settings.learning_rate)
        self.steps += 1
        if self.steps in (self.settings.steps // 2, self.settings.steps):
            self.try_again(rows)
        return total

    def try_again(self, rows: Tensor) -> None:
        """Try the network once more where it clips, at the weights as they are, as a training that ends early has to.

        Args:
            rows: of some records, shape (b,), b >= 0.

        Raises:
            ParameterError: where the network no longer keeps examples apart: its weights are then not to be released.
        """
        if self._clips:
            state.check_unwritten(self._prints, self.net)
            if len(rows):
                clipping.check_again(self.net, *self.examples.batch(rows[: clipping.SOME]), self.loss)

    @property
    def dropped(self) -> int:
        """Examples of all steps so far that added nothing, since something of them was not finite; not private."""
        return self._clipped.dropped if self._clipped else 0

    def gradient(self, rows: Tensor) -> Tensor:
        """The noisy gradient, shape (parameters,); the next call overwrites it.

        Args:
            rows: of the records that are taken, shape (b,), b >= 0, each of them once.

        Raises:
            ParameterError: as :meth:`step`.
        """
        if self._clips:
            _refuse_repeated(rows)
        self._fill(rows)
        return self._gradient

    def close(self) -> None:
        """Stop watching the network, and give each of its parameters memory of its own again: no step moves it then."""
        self._closed = True
        if self._clipped is not None:
            self._clipped.close()
        for p in self._trained:
            p.data = p.data.clone(memory_format=torch.preserve_format)

    def _fill(self, rows: Tensor) -> Tensor:
        """Noise once, the clipped gradients on top of it in pieces, all over the divisor."""
        if self._closed:
            raise ParameterError("the engine is closed, and moves its network no more: make another one.")
        settings, unit = self.settings, self._unit()
        self._share = 1 / self.divisor / unit
        if settings.noise_multiplier:
            sd = settings.noise_multiplier * settings.max_grad_norm / self.divisor / unit
            examples.fill_normal(self._gradient, sd, self._generator)
        else:
            self._gradient.zero_()
        add = self._add_clipped if self._clips else self._add
        if (b := rows.shape[0]) > self._physical_batch:
            total = torch.stack([add(piece) for piece in rows.split(self._physical_batch)]).sum()
        else:
            total = add(rows) if b else self._gradient.new_zeros(())
        if unit != 1:
            self._gradient.mul_(unit)
        return total

    def _unit(self) -> float:
        """What the sum is counted in, so that no example's weight is above 1: times a large number it would overflow.

        A power of two, which changes no digit; nearly always 1.
        """
        share = 1 / self.divisor
        if not self._clips or (share <= 1 and self.settings.clipping == "flat"):
            return 1.0
        most = clipping.largest_weight(self.settings.clipping, self.settings.max_grad_norm * share, share)
        return 2.0 ** math.ceil(math.log2(most)) if most > 1 else 1.0

    def _add_clipped(self, rows: Tensor) -> Tensor:
        x, y = self.examples.batch(rows)
        known = partial(self.examples.norms, rows) if x.dim() == 2 else None
        return self._clipped.add(x, y, self.loss, self._factors, known, lambda: self.examples.batch(rows, True)[0])

    def _factors(self, norms: Tensor) -> Tensor:
        return clipping.RULES[self.settings.clipping](norms, self.settings.max_grad_norm * self._share, self._share)

    @whole_float32()
    def _add(self, rows: Tensor) -> Tensor:
        x, y = self.examples.batch(rows)
        total = self.loss(self.net(x), y).sum()
        share = torch.full_like(total, 1 / self.divisor)
        torch._foreach_add_(self._parts, torch.autograd.grad(total, self._trained, share, materialize_grads=True))
        return total.detach()


@dataclass
class Run:
    """What a training did. Only the final weights are a private release (with noise, and ``secure``): losses and
    evaluations are computed without noise.

    Args:
        sample_rate: q that was sampled with: what is to be accounted.
        parameters: numbers of the whole network.
        trained_parameters: those of them that were trained.
        device: where it ran.
        steps: steps done, as many as set unless ``diverged``: account the number set.
        diverged: the weights were not finite at an evaluation, so that training ended there. With clipping no record
            does that: the learning rate and the noise do.
        dropped: examples of all steps that added nothing, since something of them was not finite. It tells of single
            records, and is no release.
        evaluations: {"step", "train_loss", "validation": {"loss", "metric"}, "test": {...}} in time. ``train_loss`` is
            the mean over the records sampled since the evaluation before, each before its step; None without any.
    """

    sample_rate: float
    parameters: int
    trained_parameters: int
    device: str
    steps: int = 0
    diverged: bool = False
    dropped: int = 0
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def final(self) -> dict[str, Any]:
        """The last evaluation: never the best one."""
        return self.evaluations[-1]


@whole_float32()
def train(
    net: nn.Module,
    data: Data,
    settings: DPSGD,
    rng: np.random.Generator | None = None,
    *,
    seed: int | None = None,
    loss: Loss = cross_entropy,
    evaluate_every: int | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> Run:
    """Train ``net`` in place, and leave it on the device, in evaluation mode.

    Args:
        net: its parameters that require a gradient are trained; the others stay as they are.
        data: training records, and where given those for validation and test. Neighbouring data sets differ by adding
            or removing one training record.
        settings: of the training.
        rng: decides sampling, noise and dropout; nothing of it with ``secure``, where it may be left out.
        seed: of such a generator, in its place; not with ``secure``. Two trainings with one seed share their noise: on
            neighbouring data their difference shows the record.
        loss: outputs (b, ...) and targets to one loss for each example, (b,). The metric is 1 or 0 for right or wrong
            labels, or absolute errors with ``squared_error``; NaN where another loss has targets that are no labels.
        evaluate_every: steps between evaluations, whole, >= 1; by default there is one, at the end.
        device: "cpu"; "cuda"; or "auto", a GPU where there is one and the training is large enough to gain by it.
            Tensors must come on the device of ``net``.
        progress: show a bar.

    Returns:
        What the training did; the trained weights are in ``net``.

    Raises:
        ParameterError: before any step, for data, labels, networks or settings that are not allowed, or with autocast.
    """
    if not isinstance(settings, DPSGD):
        raise ParameterError(f"settings = {checks.shown(settings)} is not allowed: it must be a dplib.DPSGD.")
    evaluate_every = settings.steps if evaluate_every is None else evaluate_every
    _EVERY.check("evaluate_every", evaluate_every)
    evaluate_every = int(evaluate_every)
    failing.check_parameters(net)
    records = examples.tensors(given_sets(data)["train"], "train")[0]
    place = find_device(device, settings.work(net, records) if device == "auto" else None)
    sets = placed(net, data, place)
    train_set = sets["train"]
    check_targets(net, sets, loss)
    metric = examples.absolute_error if loss is squared_error else examples.correct

    rng = generator_of(rng, seed, settings.secure)
    noise_seed, sampling_seed, _, dropout_seed = (int(seed) for seed in rng.integers(2**63, size=4))
    noise = None if settings.secure else torch.Generator(place).manual_seed(noise_seed)
    sampling_rng = None if settings.secure else np.random.default_rng(sampling_seed)
    sampler = examples.Sampler(settings.sampling, train_set.n, settings.sample_rate, sampling_rng)
    sample_rate = settings.sample_rate if settings.sampling == "poisson" else sampler.batch_size / sampler.n
    counts = [sum(p.numel() for p in net.parameters() if p.requires_grad or frozen) for frozen in (True, False)]
    run = Run(sample_rate, *counts, str(place))

    with same_randomness(place, dropout_seed):  # dropout draws from PyTorch's own generator
        batches = sampler.batches(place)
        engine = Engine(net.train(), settings, train_set, loss, noise)
        losses, count = engine.weights.new_zeros(()), 0  # of the records since the last evaluation
        try:
            for _ in tqdm(range(settings.steps), "steps", leave=False, delay=2, disable=not progress):
                rows = next(batches)
                losses += engine.step(rows, look=False)
                count += len(rows)
                run.steps += 1
                if run.steps % evaluate_every == 0 or run.steps == settings.steps:
                    row = {"step": run.steps, "train_loss": float(losses) / count if count else None}
                    held_out = {name: part for name, part in sets.items() if name != "train"}
                    row |= {name: examples.evaluate(net, part, loss, metric) for name, part in held_out.items()}
                    run.evaluations.append(row)
                    losses, count = torch.zeros_like(losses), 0
                    run.diverged = not bool(engine.weights.isfinite().all())
                    if run.diverged:
                        break
        finally:
            run.dropped = engine.dropped
            engine.close()
    net.eval()
    return run


def generator_of(rng: np.random.Generator | None, seed: int | None, secure: bool) -> np.random.Generator:
    """The generator that decides a training.

    Args:
        rng: given by the caller, or None.
        seed: given by the caller, whole, >= 0, or None.
        secure: sampling and noise come from the cryptographic source, and what is drawn here decides only the rest.

    Raises:
        ParameterError: for two of them, for none, or a seed with ``secure``.
    """
    if seed is not None:
        if secure:
            raise ParameterError(
                f"seed = {seed} is not allowed with secure = True: noise that can be drawn again is none."
            )
        if rng is not None:
            raise ParameterError(f"seed = {seed} is not allowed beside rng: one of them decides.")
        checks.integer(0).check("seed", seed)
    if rng is None and seed is None and not secure:
        raise ParameterError("rng = None is not allowed without a seed, unless secure = True.")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise ParameterError(
            f"rng = {checks.shown(rng)} is not allowed: it must be a numpy.random.Generator, or a seed."
        )
    return np.random.default_rng(seed) if rng is None else rng


def given_sets(data: Data) -> dict[str, examples.Pair]:
    """The pairs of examples and targets that are given, "train" first.

    Args:
        data: of a training.

    Raises:
        ParameterError: for what is no :class:`Data`.
    """
    if not isinstance(data, Data):
        raise ParameterError(f"data = {checks.described(data)} is not allowed: it must be dplib.Data.")
    return {"train": data.train, **data.held_out()}


def placed(net: nn.Module, data: Data, place: torch.device) -> dict[str, Examples]:
    """Network and examples on one device, "train" first, in the network's precision.

    Args:
        net: moved to ``place``.
        data: its examples are copied there.
        place: the device.

    Raises:
        ParameterError: for tensors on another device than the network's, or examples that are not allowed.
    """
    failing.check_parameters(net)
    device = next((p.device for p in net.parameters()), place)
    dtype = next((p.dtype for p in net.parameters()), torch.float32)
    given = given_sets(data)
    pairs = {name: examples.tensors(pair, name) for name, pair in given.items()}
    for name, pair in given.items():
        for array in pair:
            if isinstance(array, Tensor) and array.device != device:
                raise ParameterError(f"{name}: the data are on {array.device}, but the network on {device}.")
    kept = examples.layout_of(net, pairs["train"][0])
    sets = {name: Examples(pair, name, place, dtype, kept) for name, pair in pairs.items()}
    net.to(place, memory_format=kept)
    return sets


def check_targets(net: nn.Module, sets: dict[str, Examples], loss: Loss) -> None:
    """One example of each set tells the outputs' shape, which labels or real targets have to fit. Network and loss are
    tried on those that hold the least and the largest numbers, too: of "train" :func:`check_network` tries them.

    Args:
        net: in any mode; a copy of it is called.
        sets: examples by the names that messages call them.
        loss: outputs (b, ...) and targets (b, ...) to one loss for each example, (b,).

    Raises:
        ParameterError: for labels or targets that do not fit the outputs, or a network that fails on an example.
    """
    try:
        called = copy.deepcopy(net)  # what the first call builds is not to be kept
    except Exception:  # it is refused later, with a reason
        called = net
    training = called.training
    for name, part in sets.items():
        try:
            with torch.no_grad(), failing.named(called):
                outputs = called.eval()(part.first())
        except ParameterError as problem:
            whole = "type" in str(problem) and not part.first().is_floating_point()
            hint = "; examples are whole numbers: for real ones give x.astype(np.float32)" if whole else ""
            raise ParameterError(f"{name}: {problem}{hint}") from problem
        finally:
            called.train(training)
        if not isinstance(outputs, Tensor) or outputs.dim() == 0:
            raise ParameterError(f"{name}: the network gives {failing.shown(outputs)}: it must give (b, ...) outputs.")
        if loss is cross_entropy:
            examples.check_labels(part.y, outputs.shape[-1], name)
        elif loss is squared_error and outputs[0].numel() != part.y[0].numel():
            raise ParameterError(f"{name}: {part.y[0].numel()} targets an example, but {outputs[0].numel()} outputs.")
        if name != "train":
            _check_extremes(called, name, part, loss)


def _check_extremes(net: nn.Module, name: str, part: Examples, loss: Loss) -> None:
    """An evaluation that fails at the end of a training would take it along."""
    training = net.training
    try:
        with torch.no_grad(), failing.named(net), same_randomness(part.y.device):
            x, y = part.batch(part.extremes(), fresh=True)
            loss(net.eval()(x), y)
    except ParameterError as problem:
        raise ParameterError(f"{name}: {problem}") from problem
    finally:
        net.train(training)


def check_network(
    net: nn.Module,
    train: Examples,
    loss: Loss,
    expected: float,
    clips: bool,
    most: float = math.inf,
    *,
    rescues: bool = True,
) -> None:
    """Refuse a network that cannot be trained on these records, or whose gradients, where they are to be clipped, are
    not each record's own.

    Args:
        net: its parameters that require a gradient are trained; the others stay as they are.
        train: the training records.
        loss: outputs (b, ...) and targets (b, ...) to one loss for each example, (b,).
        expected: records of a step: it is tried on as many, since a network may do otherwise with fewer.
        clips: whether gradients are clipped.
        most: records that go through it at once.
        rescues: whether a step takes what is not finite once more, each example by itself, as ``clipping.ClippedSums``
            does on a processor; where it does not, an example may spoil no other one.

    Raises:
        ParameterError: naming the layer, buffer or parameter, or saying what is wrong.
    """
    _check_trained({name: p for name, p in net.named_parameters() if p.requires_grad}, train)
    with failing.named(net), torch.no_grad(), same_randomness(train.y.device):
        x, y = train.batch(train.extremes())
        loss(copy.deepcopy(net).eval()(x), y)
    if clips:
        x, y = train.batch(_tried(train, math.ceil(expected), most))
        clipping.check(net, x, y, loss)
        if not rescues:
            clipping.check_unspoiled(net, x, y, loss)
    else:
        few = train.batch(_sampled(train.n).to(train.y.device))
        with failing.named(net):
            clipping.check_losses(loss(copy.deepcopy(net).eval()(few[0]), few[1]), len(few[1]))


def check_secure(net: nn.Module, train: Examples, loss: Loss) -> None:
    """Numbers that can be drawn again are no part of a secure training: whoever knows those of dropout, one after the
    other for all examples of a batch, sees all others' change where one record is left out.

    Args:
        net: a network, in the mode that it is trained in.
        train: the training records.
        loss: outputs (b, ...) and targets (b, ...) to one loss for each example, (b,).

    Raises:
        ParameterError: where the network or the loss draws random numbers.
    """
    if clipping.draws(net, *train.batch(_sampled(train.n).to(train.y.device)), loss):
        raise ParameterError(
            "secure = True, or no generator, is not allowed with a network or a loss that draws random numbers "
            "(dropout?): they come from PyTorch's generator, and can be guessed; a record left out would change all "
            "others' gradients."
        )


def _refuse_repeated(rows: Tensor) -> None:
    """A record that is taken k times moves the sum by k C. Rows of a sample increase, which is soon seen."""
    if rows.is_cuda or (taken := rows.numpy()).size < 2 or (taken[1:] > taken[:-1]).all():
        return
    if np.unique(taken).size < taken.size:
        raise ParameterError("rows: a record is taken more than once: it would move the clipped sum as many times.")


def _sampled(n: int, count: int = clipping.FEW) -> Tensor:
    """Some of n rows, drawn at random, but always the same ones: files are often sorted."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:count]


def _tried(train: Examples, count: int, most: float) -> Tensor:
    """Rows that a network is tried on: so many at random, and among them what is rare, ``most`` in all. Code may
    do something of its own where a record stands out in a batch, or where two have a rare label.
    """
    few = clipping.FEW
    rows = _sampled(train.n, max(count, few)).to(train.y.device)
    rare = torch.cat([train.with_rare_labels(), train.extremes()[:RARE]])
    wanted = min(max(count, few + len(rare)), max(most, few))
    return torch.cat([rows[:few], rare, rows[few:]])[: int(wanted)]


def _check_trained(trained: dict[str, nn.Parameter], train: Examples) -> None:
    if not trained:
        raise ParameterError("no parameter of the network requires a gradient, so there is nothing to train.")
    kinds = {(p.device, p.dtype) for p in trained.values()}
    if len(kinds) > 1:
        raise ParameterError(f"the trained parameters differ in device or type: {', '.join(map(str, kinds))}.")
    device, dtype = next(iter(kinds))
    if not dtype.is_floating_point:
        raise ParameterError(f"the trained parameters are of {dtype}: they must be real numbers.")
    if device != train.y.device:
        raise ParameterError(f"the network is on {device}, but the data on {train.y.device}: they must share a device.")


def _in_one_vector(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Move parameters into one vector, of which they become views, so that noise and steps are one operation each."""
    vector = torch.cat([p.detach().new_empty(p.numel()) for p in parameters])
    for p, part in zip(parameters, _parts(vector, parameters), strict=True):
        p.data = part.copy_(p.detach())
    return vector


def _parts(vector: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Views of a vector (parameters,), one for each parameter, in its shape and memory layout."""
    pieces = vector.split([p.numel() for p in parameters])
    layouts = [torch.empty_like(p, memory_format=torch.preserve_format).stride() for p in parameters]
    return [piece.as_strided(p.shape, kept) for piece, p, kept in zip(pieces, parameters, layouts, strict=True)]
