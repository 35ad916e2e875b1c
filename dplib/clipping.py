"""Sums of clipped per-example gradients, without the per-example gradients.

One forward pass keeps what goes into each trained layer; one backward pass stops at the layers' outputs, so that no
weight gradient is computed; :mod:`dplib.layers` turns the two into each example's gradient norm over all trained
parameters together, and then into one weighted sum. Removing or adding one record changes the sum by at most
``max_grad_norm`` in the Euclidean norm.

That holds only where each example's loss depends on that example alone and each weight belongs to one layer that is
used once. So layers are accepted from a list (:mod:`dplib.layers`), and :func:`check` tries the rest on some
examples. What no trial can show: code that behaves otherwise on inputs that were not tried, such as a branch that few
records take or a batch larger than a step's; state that a network keeps outside of its buffers and parameters; and
what is mixed outside of autograd and below the last bit of a loss and its gradients (on a GPU, below 0.1% of them).
Such a network must be read, not run.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.utils.rnn import PackedSequence

from dplib import layers
from dplib.checks import ParameterError
from dplib.devices import whole_float32
from dplib.examples import Loss
from dplib.layers import Layer, is_recurrent, is_recurrent_network, trained_layers

Norms = Callable[[bool], Tensor]
GAMMA = 0.01  # AUTO-S: stability constant of Bu et al. 2023
WHOLE = (torch.float32, torch.float64)
FEW = 5  # examples that a trial tries one by one
MIXED = "an example's loss changes with the other examples of its batch, so clipping bounds nothing."


def flat(norms: Tensor, max_grad_norm: float, share: float = 1.0) -> Tensor:
    """Weights min(share, C / (|g| + 1e-6)) for norms |g|, which are overwritten (Abadi et al. 2016; Opacus's 1e-6).
    For an average instead of a sum, both C and ``share`` are divided by the number.
    """
    return norms.add_(1e-6).reciprocal_().mul_(max_grad_norm).clamp_max_(share)


def auto_s(norms: Tensor, max_grad_norm: float, share: float = 1.0) -> Tensor:
    """Weights C / (|g| + gamma) for norms |g|, which are overwritten (Bu et al. 2023, AUTO-S): all end up below C."""
    return norms.add_(GAMMA).reciprocal_().mul_(max_grad_norm)


RULES: Mapping[str, Callable[..., Tensor]] = {"flat": flat, "auto-s": auto_s}


Call = tuple[Tensor, int, Any]  # what went into a layer, its version then, and the edge of the graph that came out


class ClippedSums:
    """A network, watched, whose clipped gradient sums are added to given tensors: one for each trained parameter.

    Raises ParameterError for a layer that is not known to keep examples apart; it names the layer.
    """

    def __init__(self, net: nn.Module, sums: Mapping[nn.Parameter, Tensor]):
        self.net = net
        self.layers = trained_layers(net, sums)
        self._calls: list[list[Call]] = [[] for _ in self.layers]
        self._watching = False
        self._hooks = [
            layer.module.register_forward_hook(self._watcher(layer.name, calls))
            for layer, calls in zip(self.layers, self._calls, strict=True)
        ]
        self._hooks += [m.register_forward_pre_hook(_refuse_packed) for m in net.modules() if is_recurrent_network(m)]

    def add(
        self, x: Tensor, y: Tensor, loss: Loss, factors: Callable[[Tensor], Tensor], x_norms: Norms | None = None
    ) -> Tensor:
        """Add the sum over examples of factors(norms)_i times gradient_i; returns the sum of the losses.

        Args:
            factors: gradient norms (b,), over all trained parameters together, to weights (b,); it may overwrite them.
            x_norms: where x is (b, k), what gives a first linear layer the |x_i| (see ``layers.linear``).
        """
        before = x._version  # a network may begin with an activation in place: then the known norms are not those
        self._watching = True
        try:
            with whole_float32():
                total = loss(self.net(x), y).sum()
                self._watching = False
                gradients = torch.autograd.grad(total, self._edges(), allow_unused=True)
                with torch.no_grad():
                    self._add(gradients, factors, x if x._version == before else None, x_norms)
        finally:
            self._watching = False
            for calls in self._calls:
                calls.clear()
        return total.detach()

    def close(self) -> None:
        """Stop watching."""
        for hook in self._hooks:
            hook.remove()

    def _watcher(self, name: str, calls: list[Call]) -> Callable[..., None]:
        def watch(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            # The edge rather than the output: a later in-place activation changes what the output stands for.
            if self._watching:
                if output.dtype not in WHOLE:
                    raise ParameterError(
                        f"layer {name} works in {output.dtype} (by autocast?), which bounds no clipped sum."
                    )
                calls.append((inputs[0], inputs[0]._version, get_gradient_edge(output)))

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

    def _add(
        self,
        gradients: Sequence[Tensor | None],
        factors: Callable[[Tensor], Tensor],
        x: Tensor | None,
        x_norms: Norms | None,
    ) -> None:
        norms, adders, i = None, [], 0
        for layer, calls in zip(self.layers, self._calls, strict=True):
            of_layer = gradients[i : i + len(calls)]
            i += len(calls)
            a, d = _one(calls, of_layer)
            if d is None:  # the losses do not depend on this layer
                continue
            known = (x_norms,) if a is x and layer.rule is layers.linear else ()
            of_examples, add = layer.rule(layer.module, layer.sums, a, d, *known)
            norms = of_examples if norms is None else torch.hypot(norms, of_examples)
            adders.append(add)
        if adders:
            weights = factors(norms)
        for add in adders:
            add(weights)


def _one(calls: Sequence[Call], gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Input and output gradient of a layer; of several calls, the steps of a recurrent layer, as (b, steps, ...)."""
    if len(calls) == 1:
        return calls[0][0], gradients[0]
    pairs = [(a, d) for (a, _, _), d in zip(calls, gradients, strict=True) if d is not None]
    if not pairs:
        return None, None
    return torch.stack([a for a, _ in pairs], 1), torch.stack([d for _, d in pairs], 1)


def _refuse_packed(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Packing sorts the sequences by length: the layer's examples would not be those of the other layers."""
    if isinstance(inputs[0], PackedSequence):
        raise ParameterError(
            f"a packed sequence goes into a {type(module).__name__}, which changes the order of the examples: pad the "
            "sequences to one length instead."
        )


@whole_float32()
def check(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Try on a batch (b, ...), best of the size of a step's, what a list of layers cannot show: code between layers.

    Looks whether a forward pass changes a buffer or a parameter; whether an example's loss or its gradient changes
    with its neighbours, or follows from them; and whether a weight is used outside of its layer; compares norms and
    weighted sums with gradients of each example's loss by itself. For each of the first five examples; for the first
    two of them alone; for five whose every number is that of another one, drawn at random; and for the first and the
    last of the whole batch. Random layers draw the same numbers each time; the network is left as it was.

    What an example's loss owes to others must be nothing: its derivatives with respect to the others' numbers (to
    their words' embeddings) 0, and loss and gradient the same bits whoever stands beside it. On a GPU, or where a
    network does not repeat its own bits, the second is known to 0.1% only.

    Raises:
        ParameterError: naming the layer, buffer or parameter, or saying that examples are not kept apart.
    """
    for name, p in net.named_parameters():
        if p.requires_grad and p.dtype not in WHOLE:
            raise ParameterError(f"{name} is of {p.dtype}, which bounds no clipped sum: it must be float32 or float64.")
    net = copy.deepcopy(net)
    few, labels = x[:FEW], y[:FEW]
    _try(net, few, labels, loss, range(len(few)))
    if len(few) > 2:
        _try(net, few[:2], labels[:2], loss, range(2))
    if len(few) > 1:
        mixed = _mixed(few)
        if _possible(net, mixed):
            _try(net, mixed, labels, loss, range(len(few)))
    if len(x) > FEW:
        _try(net, x, y, loss, (0, len(x) - 1))


def _possible(net: nn.Module, x: Tensor) -> bool:
    """Whether a network takes these examples at all: made-up ones need not be possible, such as words of length 0."""
    try:
        with _same_randomness(x.device):
            copy.deepcopy(net)(x.clone())
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def _mixed(x: Tensor) -> Tensor:
    """Examples (b, ...) of which every number is that of a random one of the given examples at its place."""
    rows = torch.randint(len(x), x.shape, generator=torch.Generator().manual_seed(0)).to(x.device)
    return x.gather(0, rows)


def _try(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, which: Sequence[int]) -> None:
    """Try a network on a batch (b, ...), and for the examples ``which`` of it; see :func:`check`."""
    names, parameters = zip(*((k, p) for k, p in net.named_parameters() if p.requires_grad), strict=True)
    sums = {p: torch.zeros_like(p) for p in parameters}
    before = {name: kept.clone() for name, kept in _state(net)}
    watched = ClippedSums(net, sums)
    try:
        losses, singles = _one_by_one(net, x, y, loss, which)
        for name, kept in _state(net):
            if name not in before or not torch.equal(kept, before[name]):
                raise ParameterError(f"{name} changes with the examples, and no noise protects what it keeps.")
        _check_alone(singles, net, x, y, loss, which)
        chosen = torch.as_tensor(which, device=x.device)
        weights = torch.zeros_like(losses)
        weights[chosen] = torch.linspace(0.5, 1, len(which), dtype=losses.dtype, device=losses.device)
        norms = torch.zeros_like(losses)
        with _same_randomness(x.device):
            watched.add(x.clone(), y, loss, lambda found: (norms.copy_(found), weights)[1])
    finally:
        watched.close()
    of_each = [torch.stack(gs) for gs in zip(*(gradients for _, *gradients in singles), strict=True)]
    expected = [torch.tensordot(weights[chosen], gs, 1) for gs in of_each]
    total = torch.stack([g.norm() for g in expected]).norm()
    for name, found, due in zip(names, sums.values(), expected, strict=True):
        if (found - due).norm() > 1e-3 * due.norm() + 1e-4 * total + 1e-6:
            raise ParameterError(
                f"{name} has other gradients than its layer explains: each layer needs the batch as its input's first "
                "dimension, and its parameters to itself."
            )
    due = torch.stack([torch.linalg.vector_norm(gs.flatten(1), dim=1) for gs in of_each]).norm(dim=0)
    if (norms[chosen] - due).norm() > 1e-3 * due.norm() + 1e-6:
        raise ParameterError(
            "the examples' gradient norms are not those of the examples by themselves: each layer needs the batch as "
            "the first dimension of its input, and none may mix examples."
        )
    _check_uses(losses.sum(), dict(zip(names, parameters, strict=True)), watched.layers)


def _state(net: nn.Module) -> list[tuple[str, Tensor]]:
    """All that a network keeps, frozen parameters too, by names for messages."""
    kept = [(f"buffer {name}", b) for name, b in net.named_buffers()]
    return kept + [(f"parameter {name}", p.detach()) for name, p in net.named_parameters()]


def _one_by_one(
    net: nn.Module, x: Tensor, y: Tensor, loss: Loss, which: Sequence[int]
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """The losses (b,); and of each example of ``which`` the loss and its gradients by the trained parameters.

    Raises ParameterError where one's gradient by x (b, ...) or an embedding (b, ..., dim) is not 0 at all others.
    """
    held = [x.clone().requires_grad_()] if x.is_floating_point() else []

    def hold(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        held.append(output if output.requires_grad else output.requires_grad_())
        return output.clone()  # it may be changed in place, as x may

    hooks = [m.register_forward_hook(hold) for m in net.modules() if isinstance(m, nn.Embedding)]
    try:
        with _same_randomness(x.device), whole_float32():
            losses = loss(net((held[0] if held else x).clone()), y)
    finally:
        for hook in hooks:
            hook.remove()
    check_losses(losses, b := len(x))
    trained, singles = [p for p in net.parameters() if p.requires_grad], []
    for i in which:
        of_one = torch.autograd.grad(losses[i], trained + held, retain_graph=True, materialize_grads=True)
        others = torch.arange(b, device=x.device) != i
        if any(len(g) == b and (g[others].abs() > 0).any() for g in of_one[len(trained) :]):
            raise ParameterError(MIXED)
        singles.append((losses[i].detach(), *of_one[: len(trained)]))
    return losses, singles


def _check_alone(
    singles: Sequence[tuple[Tensor, ...]], net: nn.Module, x: Tensor, y: Tensor, loss: Loss, which: Sequence[int]
) -> None:
    """Each example's loss and gradients stay the same when another one takes all other places of the batch."""
    if len(x) == 1:
        return
    (again,) = _one_by_one(net, x, y, loss, which[:1])[1]
    exact = x.device.type == "cpu" and _same(singles[0], again, 0)
    for i, single in zip(which, singles, strict=True):
        rows = torch.full((len(x),), (i + 1) % len(x), device=x.device)
        rows[i] = i
        if not _same(single, _one_by_one(net, x[rows], y[rows], loss, [i])[1][0], 0 if exact else 1e-3):
            raise ParameterError(MIXED)


def _same(one: Sequence[Tensor], other: Sequence[Tensor], within: float) -> bool:
    """Whether two losses with their gradients agree, to a share of each one's norm; what is not a number agrees."""
    pairs = zip(one, other, strict=True)
    return not any((a - b).norm() > within * (a.norm() + 1e-3) for a, b in pairs)


def _check_uses(loss: Tensor, parameters: Mapping[str, nn.Parameter], layers: Sequence[Layer]) -> None:
    """In the graph of a loss no parameter is used more than once, but by a recurrent layer; dead branches count."""
    recurrent = {p for layer in layers if is_recurrent(layer.module) for p in layer.module.parameters()}
    uses: dict[int, int] = {}
    seen, todo = set(), [loss.grad_fn]
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None:
                continue
            if hasattr(node, "variable"):  # where the gradients of a parameter end up
                uses[id(node.variable)] = uses.get(id(node.variable), 0) + 1
            elif node not in seen:
                seen.add(node)
                todo.append(node)
    for name, p in parameters.items():
        if uses.get(id(p), 0) > 1 and p not in recurrent:
            raise ParameterError(
                f"{name} is used {uses[id(p)]} times in one forward pass: its examples' gradients are not those that "
                "its layer explains."
            )


def check_losses(losses: Tensor, b: int) -> None:
    """Raise ParameterError unless there is one real loss for each of b examples."""
    if not isinstance(losses, Tensor) or losses.shape != (b,) or not losses.is_floating_point():
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise ParameterError(f"the loss has shape {shape}: it must give one number for each of {b} examples, ({b},).")
    if not losses.requires_grad:
        raise ParameterError("the loss depends on no trained parameter (is it detached?), so there is no gradient.")


@contextlib.contextmanager
def _same_randomness(device: torch.device) -> Iterator[None]:
    """Inside, random layers draw the same numbers each time; outside, as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        yield
