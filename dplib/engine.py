"""The engine of :mod:`dplib.dpsgd`: its settings, and steps on the weights of a network."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from dplib import checks, clipping, sampling
from dplib.checks import ParameterError
from dplib.examples import Examples, Loss, cross_entropy

_RATE = checks.Rule("a number in (0, 1]", lambda v: checks.positive().accepts(v) and v <= 1)
_SHARE = checks.Rule("a number in [0, 1)", lambda v: checks.number(0, 1).accepts(v) and v < 1)


@dataclass(frozen=True)
class DPSGD:
    """Settings of a training.

    Args:
        steps: number of steps.
        sample_rate: q in (0, 1]; the expected batch size is q n.
        divisor: the number that the noisy sum is divided by; None for q n. Where the number n of records is itself
            private, give a constant that was chosen without it, and such a sample_rate: q n tells n.
        learning_rate: step size; ``train`` can multiply it by a schedule.
        noise_multiplier: standard deviation of the noise on the sum, in units of ``max_grad_norm``; 0 for none.
        max_grad_norm: clipping norm C; None for no clipping, and then no noise.
        clipping: "flat" scales by min(1, C / |g|), "auto-s" by C / (|g| + 0.01).
        momentum, nesterov, weight_decay: as in ``torch.optim.SGD``; they act on the noisy gradient, at no privacy cost.
        sampling: "poisson", or "shuffled" for training without noise only.
        physical_batch: most examples that go through the network at once, by default 512 images or 2048 other examples,
            which is fastest on a CPU; results agree up to rounding.
        secure: sampling and noise from the operating system's cryptographic source.

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
    nesterov: bool = False
    weight_decay: float = 0.0
    sampling: str = "poisson"
    physical_batch: int | None = None
    secure: bool = False
    divisor: float | None = None

    def __post_init__(self):
        checks.integer(1).check("steps", self.steps)
        _RATE.check("sample_rate", self.sample_rate)
        checks.positive().check("learning_rate", self.learning_rate)
        checks.number(0).check("noise_multiplier", self.noise_multiplier)
        if self.max_grad_norm is not None:
            checks.positive().check("max_grad_norm", self.max_grad_norm)
        checks.one_of(*clipping.RULES).check("clipping", self.clipping)
        _SHARE.check("momentum", self.momentum)
        checks.boolean().check("nesterov", self.nesterov)
        checks.number(0).check("weight_decay", self.weight_decay)
        checks.one_of(*sampling.SAMPLING).check("sampling", self.sampling)
        if self.physical_batch is not None:
            checks.integer(1).check("physical_batch", self.physical_batch)
        checks.boolean().check("secure", self.secure)
        if self.divisor is not None:
            checks.positive().check("divisor", self.divisor)
        if self.noise_multiplier > 0 and self.max_grad_norm is None:
            raise ParameterError("max_grad_norm = None is not allowed with noise: without clipping it hides nobody.")
        if self.sampling == "shuffled" and (self.noise_multiplier > 0 or self.secure):
            raise ParameterError("sampling = 'shuffled' is not allowed with noise: accounting is about 'poisson'.")


class Engine:
    """A network in training: its trained weights in one vector, and steps on it.

    Trained are the parameters that require a gradient (see :func:`train_only`); the others count neither in the
    clipping norm nor in the noise.

    Args:
        net: a network on the device of the data; with clipping, one that :mod:`dplib.supported` knows.
        settings: of every step.
        train: the n training records.
        loss: one loss for each example.
        generator: of the noise, on that device; None for the cryptographic source.
        augment: random changes of the examples and targets of a batch; without clipping only.

    Raises:
        ParameterError: for a network that is refused, or that is on another device than the data.
    """

    def __init__(
        self,
        net: nn.Module,
        settings: DPSGD,
        train: Examples,
        loss: Loss = cross_entropy,
        generator: torch.Generator | None = None,
        augment: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
    ):
        self.net, self.settings, self.examples, self.loss = net, settings, train, loss
        self._generator, self._augment = generator, augment
        self.divisor = settings.divisor or settings.sample_rate * train.n
        self._clips = settings.max_grad_norm is not None
        self._physical_batch = settings.physical_batch or (512 if train.is_image else 2048)
        trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
        _check_trained(trained, train)
        few = train.batch(_some(train.n).to(train.y.device))
        if self._clips:
            clipping.check(net, *few, loss)
        else:
            clipping.check_losses(loss(copy.deepcopy(net).eval()(few[0]), few[1]), len(few[1]))
        self._trained = list(trained.values())
        self.weights = _in_one_vector(self._trained)
        self._gradient = torch.zeros_like(self.weights)
        self._parts = _parts(self._gradient, self._trained)
        self.velocity = torch.zeros_like(self.weights)
        self._clipped = None
        if self._clips:
            self._clipped = clipping.ClippedSums(net, dict(zip(self._trained, self._parts, strict=True)))

    def step(self, rows: Tensor, learning_rate: float | None = None) -> Tensor:
        """One step on the records ``rows`` (b,), b >= 0; returns the sum of their losses, which is not private."""
        total = self._fill(rows)
        self.apply(self._gradient, learning_rate)
        return total

    def gradient(self, rows: Tensor) -> Tensor:
        """The noisy gradient of the records ``rows`` (b,), (parameters,); the next call overwrites it."""
        self._fill(rows)
        return self._gradient

    def apply(self, gradient: Tensor, learning_rate: float | None = None) -> None:
        """Move the weights against a gradient (parameters,), which this may overwrite."""
        settings = self.settings
        if settings.weight_decay:
            gradient.add_(self.weights, alpha=settings.weight_decay)
        if settings.momentum:
            self.velocity.mul_(settings.momentum).add_(gradient)
            gradient = gradient.add_(self.velocity, alpha=settings.momentum) if settings.nesterov else self.velocity
        self.weights.sub_(gradient, alpha=settings.learning_rate if learning_rate is None else learning_rate)

    def close(self) -> None:
        """Stop watching the network, and give each of its parameters memory of its own again."""
        if self._clipped is not None:
            self._clipped.close()
        for p in self._trained:
            p.data = p.data.clone(memory_format=torch.preserve_format)

    def _fill(self, rows: Tensor) -> Tensor:
        """Noise once, the clipped gradients on top of it in pieces, all over the divisor."""
        settings = self.settings
        if settings.noise_multiplier:
            sd = settings.noise_multiplier * settings.max_grad_norm / self.divisor
            sampling.fill_normal(self._gradient, sd, self._generator)
        else:
            self._gradient.zero_()
        add = self._add_clipped if self._clips else self._add
        if len(rows) <= self._physical_batch:
            return add(rows) if len(rows) else self._gradient.new_zeros(())
        return torch.stack([add(piece) for piece in rows.split(self._physical_batch)]).sum()

    def _add_clipped(self, rows: Tensor) -> Tensor:
        x, y = self.examples.batch(rows)
        known = partial(self.examples.norms, rows) if x.dim() == 2 else None
        return self._clipped.add(x, y, self.loss, self._factors, known)

    def _factors(self, norms: Tensor) -> Tensor:
        share = 1 / self.divisor
        return clipping.RULES[self.settings.clipping](norms, self.settings.max_grad_norm * share, share)

    def _add(self, rows: Tensor) -> Tensor:
        x, y = self.examples.batch(rows)
        if self._augment:
            x, y = self._augment(x, y)
        total = self.loss(self.net(x), y).sum()
        share = total.new_tensor(1 / self.divisor)
        torch._foreach_add_(self._parts, torch.autograd.grad(total, self._trained, share, materialize_grads=True))
        return total.detach()


def train_only(net: nn.Module, layers: Iterable[str]) -> nn.Module:
    """Freeze all parameters but those of the named layers (random-weights training); returns ``net``.

    Raises:
        ParameterError: for a name that ``net.named_modules()`` has not, or layers without parameters.
    """
    modules = dict(net.named_modules())
    layers = list(layers)
    for name in layers:
        checks.one_of(*filter(None, modules)).check("layer", name)
    net.requires_grad_(False)
    for name in layers:
        modules[name].requires_grad_()
    if not any(p.requires_grad for p in net.parameters()):
        raise ParameterError(f"layers {', '.join(layers)} have no parameters to train.")
    return net


def _some(n: int, count: int = 5) -> Tensor:
    """A few of n rows, drawn at random, but always the same ones: files are often sorted."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:count]


def _check_trained(trained: dict[str, nn.Parameter], train: Examples) -> None:
    if not trained:
        raise ParameterError("no parameter of the network requires a gradient, so there is nothing to train.")
    kinds = {(p.device, p.dtype) for p in trained.values()}
    if len(kinds) > 1:
        raise ParameterError(f"the trained parameters differ in device or type: {', '.join(map(str, kinds))}.")
    device = next(iter(kinds))[0]
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
