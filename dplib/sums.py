"""Sums of clipped per-example gradients, mostly without these gradients: rules of clipping, and the passes.

One forward pass keeps what goes into each trained layer; one backward pass stops at the layers' outputs, so that no
weight gradient is computed; :mod:`dplib.layers` turns the two into each example's gradient norm over all trained
parameters together, and then into one weighted sum. What this needs of a network, :mod:`dplib.clipping` tries.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.utils.rnn import PackedSequence

from dplib import layers
from dplib.checks import ParameterError
from dplib.devices import whole_float32
from dplib.examples import Loss
from dplib.layers import is_recurrent, is_recurrent_network, trained_layers

Norms = Callable[[bool], Tensor]
GAMMA = 0.01  # AUTO-S: stability constant of Bu et al. 2023
WHOLE = (torch.float32, torch.float64)


def flat(norms: Tensor, max_grad_norm: float, share: float = 1.0) -> Tensor:
    """Weights min(share, C / (|g| + 1e-6)) (Abadi et al. 2016; Opacus's 1e-6). For an average instead of a sum, both C
    and ``share`` are divided by the number.

    Args:
        norms: |g| of each example over all trained parameters together, shape (b,); overwritten.
        max_grad_norm: clipping norm C, > 0.
        share: the weight of a gradient that is not clipped: 1 for a sum, 1 over the divisor for an average.
    """
    return without_denormals(norms.add_(1e-6).reciprocal_().mul_(max_grad_norm).clamp_max_(share))


def auto_s(norms: Tensor, max_grad_norm: float, share: float = 1.0) -> Tensor:
    """Weights C / (|g| + gamma) (Bu et al. 2023, AUTO-S): all end up below C.

    Args:
        norms: |g| of each example over all trained parameters together, shape (b,); overwritten.
        max_grad_norm: clipping norm C, > 0.
        share: not used: this rule has no largest weight of its own.
    """
    return without_denormals(norms.add_(GAMMA).reciprocal_().mul_(max_grad_norm))


def without_denormals(weights: Tensor) -> Tensor:
    """Weights below the least whole-digit number become 0, in place: rounded, such a one could be twice what it was.

    Args:
        weights: of examples, of any shape.
    """
    return nn.functional.threshold_(weights, torch.finfo(weights.dtype).tiny, 0.0)


RULES: Mapping[str, Callable[..., Tensor]] = {"flat": flat, "auto-s": auto_s}


def largest_weight(rule: str, max_grad_norm: float, share: float = 1.0) -> float:
    """What no weight by this rule exceeds; see the rules.

    Args:
        rule: a key of :data:`RULES`.
        max_grad_norm: clipping norm C, > 0.
        share: the weight of a gradient that is not clipped: 1 for a sum, 1 over the divisor for an average.
    """
    return max_grad_norm / GAMMA if rule == "auto-s" else share


Call = tuple[Tensor, int, Any]  # what went into a layer, its version then, and the edge of the graph that came out


class ClippedSums:
    """A network, watched, whose clipped gradient sums are added to given tensors: one for each trained parameter.

    An example of which something is not finite (its loss, the norm of what goes into a layer or of what comes back, its
    gradient) adds exactly nothing, and is counted in ``dropped``: a number that tells of single records; no release.

    Args:
        net: watched from now on, until :meth:`close`.
        sums: for each trained parameter the tensor of its shape that sums are added to.

    Raises:
        ParameterError: for a layer that is not known to keep examples apart; it names the layer.
    """

    def __init__(self, net: nn.Module, sums: Mapping[nn.Parameter, Tensor]):
        self.net = net
        self.layers = trained_layers(net, sums)
        self._dropped = next(iter(sums.values())).new_zeros((), dtype=torch.int64)
        self.finite: Tensor | None = None  # of the last batch, (b,); None for all of it
        self._calls: list[list[Call]] = [[] for _ in self.layers]
        self._watching = False
        self._hooks = [
            # Before other hooks, which may change the output.
            layer.module.register_forward_hook(self._watcher(layer.name, calls), prepend=True, with_kwargs=True)
            for layer, calls in zip(self.layers, self._calls, strict=True)
        ]
        self._hooks += [m.register_forward_pre_hook(_refuse_packed) for m in net.modules() if is_recurrent_network(m)]

    @property
    def dropped(self) -> int:
        """How many examples added nothing so far, each as often as it was there; not private."""
        return int(self._dropped)

    def add(
        self,
        x: Tensor,
        y: Tensor,
        loss: Loss,
        factors: Callable[[Tensor], Tensor],
        x_norms: Norms | None = None,
        again: Callable[[], Tensor] | None = None,
    ) -> Tensor:
        """Add the sum over examples of factors(norms)_i times gradient_i; returns the sum of the finite losses.

        Args:
            x: examples, shape (b, ...).
            y: targets, shape (b, ...).
            loss: outputs and targets to one loss for each example, (b,).
            factors: gradient norms (b,), over all trained parameters together, to weights (b,); it may overwrite them.
            x_norms: where x is (b, k), what gives a first linear layer the |x_i| (see ``layers.linear``).
            again: gives x once more, in memory of its own, where something is not finite and the network has changed x
                in place; None for a copy that is made before.

        Raises:
            ParameterError: for a value outside its range.
        """
        again, before = again or partial(_as_it_is, x.clone()), x._version
        with whole_float32(x.is_cuda), torch.no_grad():
            losses, total, norms, adders = self._pass(x, y, loss, x_norms)
            if norms is None:  # the losses depend on no trained layer
                return total
            clean, others, self.finite = _as_it_is, (), None
            if norms.is_cuda or not _surely_finite(norms, losses):  # a GPU is not waited for
                finite = norms.isfinite() & losses.isfinite()
                clean = partial(_with_zeros, ~finite)
                if not norms.is_cuda:
                    others = self._again(x if x._version == before else again(), y, loss, losses, norms, finite)
                self.finite = finite
                self._dropped += finite.logical_not().sum()
                norms = norms.where(finite, 0)
                total = losses.where(losses.isfinite(), 0).sum()
            weights = factors(norms)
            for add in adders:
                add(weights, clean)
            for row, add in others:
                add(weights[row], _as_it_is)
        return total

    def close(self) -> None:
        """Stop watching."""
        for hook in self._hooks:
            hook.remove()

    def _pass(
        self, x: Tensor, y: Tensor, loss: Loss, x_norms: Norms | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None, list[Callable[..., None]]]:
        """Losses (b,), their sum, and gradient norms (b,) of a batch, and what adds a weighted sum layer by layer."""
        before = x._version  # a network may begin with an activation in place: then the known norms are not those
        self._watching = True
        try:
            with torch.enable_grad():
                losses = loss(self.net(x), y)
                self._watching = False
                check_losses(losses, b := x.shape[0])
                total = losses.sum()
            gradients = torch.autograd.grad(total, self._edges(), allow_unused=True)
            given = b, gradients, x if x._version == before else None, x_norms
            if not x.is_cuda:
                return losses.detach(), total.detach(), *self._rules(*given)
            with layers.lost_digits_noted() as lost:
                of_layers = self._rules(*given)
            if lost and bool(torch.stack(lost).any()):  # the one wait of a step on a GPU
                of_layers = self._rules(*given)
            return losses.detach(), total.detach(), *of_layers
        finally:
            self._watching = False
            for calls in self._calls:
                calls.clear()

    def _again(
        self, x: Tensor, y: Tensor, loss: Loss, losses: Tensor, norms: Tensor, finite: Tensor
    ) -> list[tuple[slice, Callable[..., None]]]:
        """Examples that are not finite, each by itself: another one may have spoiled it (0 times infinity).

        What is finite by itself is so from now on: it is written into losses, norms and finite, (b,).
        """
        others = []
        for i in finite.logical_not().nonzero()[:, 0].tolist():
            row = slice(i, i + 1)
            try:
                single, _, norm, adders = self._pass(x[row].clone(), y[row], loss)
            except (RuntimeError, ValueError, IndexError):  # a network that takes no single example
                continue
            if norm is not None and bool((single + norm).isfinite()):
                losses[row], norms[row], finite[row] = single, norm, True
                others += [(row, add) for add in adders]
        return others

    def _watcher(self, name: str, calls: list[Call]) -> Callable[..., None]:
        def watch(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> None:
            # The edge rather than the output: a later in-place activation changes what the output stands for.
            if self._watching:
                if output.dtype not in WHOLE:
                    raise ParameterError(
                        f"layer {name} works in {output.dtype} (by autocast?), which bounds no clipped sum."
                    )
                a = inputs[0] if inputs else named["input"]
                calls.append((a, a._version, get_gradient_edge(output)))

        return watch

    def _edges(self) -> list[Any]:
        """The edges of all calls, layer by layer."""
        for layer, calls in zip(self.layers, self._calls, strict=True):
            if len(calls) > 1 and not is_recurrent(layer.module):
                raise ParameterError(
                    f"layer {layer.name} is used {len(calls)} times in one forward pass, so its examples' gradients "
                    "are sums over the uses; each use needs a layer of its own."
                )
            for a, version, _ in calls:
                if a._version != version:
                    raise ParameterError(f"the input of layer {layer.name} is changed in place after it was used.")
        return [edge for calls in self._calls for _, _, edge in calls]

    def _rules(
        self, b: int, gradients: Sequence[Tensor | None], x: Tensor | None, x_norms: Norms | None
    ) -> tuple[Tensor | None, list[Callable[..., None]]]:
        norms, adders, i = None, [], 0
        for layer, calls in zip(self.layers, self._calls, strict=True):
            of_layer = gradients[i : i + len(calls)]
            i += len(calls)
            a, d = _single(calls, of_layer)
            if d is None:  # the losses do not depend on this layer
                continue
            if a.dim() == 0 or a.shape[0] != b:
                raise ParameterError(
                    f"layer {layer.name} takes an input of shape {tuple(a.shape)} in a batch of {b}: it needs the "
                    "batch as its input's first dimension."
                )
            known = (x_norms,) if a is x and layer.rule is layers.linear else ()
            of_examples, add = layer.rule(layer.module, layer.sums, a, d, *known)
            norms = of_examples if norms is None else torch.hypot(norms, of_examples)
            adders.append(add)
        return norms, adders


def _surely_finite(norms: Tensor, losses: Tensor) -> bool:
    """Whether one number, made of all norms and losses (b,), is finite: then all of them are, for even 0 times infinity
    is not. That it overflows says nothing of them.
    """
    return math.isfinite(norms.dot(losses.to(norms.dtype)))


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _with_zeros(where: Tensor, x: Tensor) -> Tensor:
    """Numbers (b, ...) with zeros for the examples for which ``where`` (b,) is true; indices stay what they are."""
    return x.masked_fill(where.view(-1, *[1] * (x.dim() - 1)), 0) if x.is_floating_point() else x


def _single(calls: Sequence[Call], gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Input and output gradient of a layer; of several calls, the steps of a recurrent layer, as (b, steps, ...)."""
    if len(calls) == 1:
        return calls[0][0], gradients[0]
    pairs = [(a, d) for (a, _, _), d in zip(calls, gradients, strict=True) if d is not None]
    if not pairs:
        return None, None
    return torch.stack([a for a, _ in pairs], 1), torch.stack([d for _, d in pairs], 1)


def _refuse_packed(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Packing sorts the sequences by length: the layer's examples would not be those of the other layers."""
    if inputs and isinstance(inputs[0], PackedSequence):
        raise ParameterError(
            f"a packed sequence goes into a {type(module).__name__}, which changes the order of the examples: pad the "
            "sequences to one length instead."
        )


def check_losses(losses: Tensor, b: int) -> None:
    """Refuse losses that are not one real number for each example, or that depend on nothing trained.

    Args:
        losses: what a loss returned.
        b: number of examples.

    Raises:
        ParameterError: saying which of both it is.
    """
    if not isinstance(losses, Tensor) or losses.shape != (b,) or not losses.is_floating_point():
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise ParameterError(f"the loss has shape {shape}: it must give one number for each of {b} examples, ({b},).")
    if not losses.requires_grad:
        raise ParameterError("the loss depends on no trained parameter (is it detached?), so there is no gradient.")
