"""One network many times over: a forward pass of all models at once, and their clipped gradient sums.

The m models have one architecture and weights of their own, the rows of a matrix (m, parameters). Examples are
(m, b, ...): each model has a batch of its own, in a table that is padded to b columns. What is a matrix product for one
model is a batched one here; a convolution is linear on patches. Gradient norms are those of :mod:`dplib.layers`, in
closed form for a linear layer, from the weight gradient of each example for a convolution; the latter is kept until the
sum is made of it.

Only plain ``nn.Sequential`` networks of the layers below are taken: this module computes them itself, and never calls
the network. Where nothing waits for a number and shapes stay as they are, a GPU can record it all as one graph.
"""

import copy
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplib import examples, layers
from dplib.checks import ParameterError
from dplib.devices import PRODUCTS, whole_float32
from dplib.examples import Loss

Norms = Callable[[bool], Tensor]
# Without parameters, and each example by itself, whatever the shape.
ELEMENTWISE = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus,
    nn.Softsign, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.Tanhshrink,
)  # fmt: skip
POOLING = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
KNOWN = (nn.Linear, nn.Conv2d, nn.Flatten, *POOLING, *ELEMENTWISE)
ALONE = "train such networks one at a time (dpsgd.train)"


def plain_layers(net: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers of a network in their order, with their names.

    Args:
        net: a plain ``nn.Sequential``.

    Raises:
        ParameterError: for a layer that is not on the list above; it names the layer.
    """
    if type(net) is not nn.Sequential:
        kind = type(net).__name__
        raise ParameterError(f"layer {kind} is no plain nn.Sequential, as many models at once must be; {ALONE}.")
    leaves = list(_leaves(net, ""))
    for name, module in net.named_modules():
        if reason := _changed(module):
            raise ParameterError(f"layer {name or 'Sequential'} has {reason}, which is not called here; {ALONE}.")
    return leaves


def _changed(module: nn.Module) -> str:
    """What of a layer would be passed over, since the network itself is never called; nothing for most."""
    if "forward" in vars(module):
        return "a forward pass of its own"
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return "a hook" if any(hooks) else ""


def _leaves(net: nn.Sequential, path: str) -> Iterator[tuple[str, nn.Module]]:
    for name, module in net._modules.items():  # an activation may stand there twice
        if type(module) is nn.Sequential:
            yield from _leaves(module, f"{path}{name}.")
            continue
        if reason := _unknown(module):
            raise ParameterError(f"layer {path}{name} is a {reason}, which many models at once cannot have; {ALONE}.")
        yield f"{path}{name}", module


def _unknown(module: nn.Module) -> str:
    """What a layer is that is not taken; nothing for one that is."""
    kind = type(module)
    if kind not in KNOWN:
        return kind.__name__
    if kind is nn.Conv2d and (module.groups != 1 or module.padding_mode != "zeros"):
        return f"Conv2d with groups = {module.groups}, padding_mode = {module.padding_mode!r}"
    if examples.needs_plain_order(module):  # the weights here are channels-last
        return f"Conv2d of kernel 1 and stride {max(module.stride)} on {module.in_channels} channels"
    if kind is nn.Flatten and (module.start_dim, module.end_dim) != (1, -1):
        return f"Flatten({module.start_dim}, {module.end_dim})"
    if kind is nn.MaxPool2d and module.return_indices:
        return "MaxPool2d that returns indices"
    return ""


class Stack:
    """m networks of one architecture, whose parameters become views of two matrices.

    Args:
        nets: on one device, convolutions channels-last in memory.

    Attributes:
        weights: (m, trained parameters), in the order and memory layout of each network's own.
        gradient: (m, trained parameters), what :meth:`add_clipped` adds to.

    Raises:
        ParameterError: for networks that are not alike, or a layer that is not known; it names it.
    """

    def __init__(self, nets: Sequence[nn.Module]):
        self.nets = list(nets)
        check_alike(self.nets)
        trained = [[p for p in net.parameters() if p.requires_grad] for net in nets]
        frozen = [[p for p in net.parameters() if not p.requires_grad] for net in nets]
        self.weights, views = _in_one_matrix(trained)
        kept, held = _in_one_matrix(frozen)
        self.gradient = torch.zeros_like(self.weights)
        where = dict(zip(trained[0] + frozen[0], [*views, *held], strict=True))
        sums = dict(zip(trained[0], _slices(self.gradient, trained[0]), strict=True))
        self._frozen = kept  # of which frozen parameters are views
        self.layers = [_layer(name, module, where, sums) for name, module in plain_layers(nets[0])]
        self._first = next((i for i, layer in enumerate(self.layers) if layer.trained), len(self.layers))

    @property
    def m(self) -> int:
        """The number of models."""
        return len(self.nets)

    def numbers(self, x: Tensor) -> int:
        """How many numbers an example holds on its way through the network, and its gradient.

        Args:
            x: an example as a batch of one, shape (1, ...).
        """
        count, x = x.numel(), x.expand(self.m, *x.shape[1:])
        with torch.no_grad():
            for layer in self.layers:
                x, _ = layer.forward(x, self.m)
                count += x[0].numel()
                if isinstance(layer, _Conv2d):
                    count += x[0, 0].numel() * layer.weight.shape[2] + layer.weight[0].numel()
        return count

    @whole_float32()
    def losses(self, x: Tensor, y: Tensor, loss: Loss, shared: bool = False) -> Tensor:
        """Losses (m, b) at the weights as they are.

        Args:
            x: examples, shape (m b, ...), model after model; (b, ...) where they are shared.
            y: their targets.
            loss: outputs and targets to one loss for each example.
            shared: all models look at the same b examples.
        """
        with torch.no_grad():
            for layer in self.layers:
                x, _ = layer.forward(x, self.m, shared)
                shared = shared and not isinstance(layer, _Weighted)
        return loss(x, y.repeat(len(x) // len(y), *[1] * (y.dim() - 1))).view(self.m, -1)

    @whole_float32()
    def add_clipped(
        self,
        x: Tensor,
        y: Tensor,
        loss: Loss,
        factors: Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]],
        x_norms: Norms | None = None,
        unclipped: bool = False,
    ) -> Tensor:
        """Add each model's sum over its examples of factor_i times gradient_i to ``gradient``; return losses (m, b).

        Args:
            x: examples, shape (m b, ...), model after model.
            y: targets, shape (m b, ...).
            loss: outputs and targets to one loss for each example.
            factors: gradient norms (m, b), over all trained parameters together, and losses (m, b), to factors (m, b),
                which it may write over the norms, and the examples to be kept, (m, b): the others count as exactly
                zero, whatever their numbers. None for all, where all numbers are finite.
            x_norms: |x_i|, (m b,), or with a 1 appended, for a first linear layer.
            unclipped: no norms are needed, and ``factors`` is called with zeros.
        """
        with torch.enable_grad():
            losses, calls = self._forward(x, y, loss)
            ones = torch.ones_like(losses)
            gradients = torch.autograd.grad(losses, [out for *_, out in calls], ones, materialize_grads=True)
        with torch.no_grad():
            rules = []
            for (layer, inputs, _), d in zip(calls, gradients, strict=True):
                known = x_norms if inputs is x else None
                rules.append(layer.rule(inputs.detach(), d, self.m, known, unclipped))
            losses = losses.detach().view(self.m, -1)
            norms = _joined([of_layer for of_layer, _ in rules]).view_as(losses) if not unclipped else losses * 0
            weights, keep = factors(norms, losses)
            for _, add in rules:
                add(weights, keep)
        return losses

    def _forward(self, x: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, list[tuple["_Weighted", Tensor, Tensor]]]:
        """Losses (m b,), and of each trained layer what its weights multiplied, and what came out."""
        calls = []
        for i, layer in enumerate(self.layers):
            x, inputs = layer.forward(x, self.m)
            if i == self._first:
                x.requires_grad_()  # weights are no leaves of the graph: it begins here
            if layer.trained:
                calls.append((layer, inputs, x))
        return loss(x, y), calls

    def close(self) -> None:
        """Give each parameter of each network memory of its own again."""
        for net in self.nets:
            for p in net.parameters():
                p.data = p.data.clone(memory_format=torch.preserve_format)


def _joined(norms: Sequence[Tensor]) -> Tensor:
    """Norms over all layers together, of those of each."""
    total = norms[0]
    for more in norms[1:]:
        total = torch.hypot(total, more)
    return total


class _Plain:
    """A layer without trained parameters that takes each example by itself."""

    trained = False

    def __init__(self, module: nn.Module):
        self.module = copy.deepcopy(module)
        if hasattr(self.module, "inplace"):  # the examples are to stay as they are
            self.module.inplace = False

    def forward(self, a: Tensor, m: int, shared: bool = False) -> tuple[Tensor, Tensor]:
        return self.module(a), a


class _Weighted:
    """A linear layer or a convolution: weights (m, out, in) or None in ``sums`` where they are not trained."""

    def __init__(self, name: str, module: nn.Module, weight: Tensor, bias: Tensor | None, sums: dict[str, Tensor]):
        self.name, self.module, self.weight, self.bias, self.sums = name, module, weight, bias, sums
        self.trained = bool(sums)

    def _product(self, a: Tensor, m: int, shared: bool) -> Tensor:
        """a (m b, in), or (b, in) where all models share it, to (m, b, out)."""
        a = a.expand(m, *a.shape) if shared else a.unflatten(0, (m, -1))
        if self.bias is None:
            return torch.bmm(a, self.weight.mT)
        return torch.baddbmm(self.bias.unsqueeze(1), a, self.weight.mT)


class _Linear(_Weighted):
    """Of example i the gradient is d_i a_i^T (Goodfellow 2015)."""

    def forward(self, a: Tensor, m: int, shared: bool = False) -> tuple[Tensor, Tensor]:
        """a (m b, in), or (b, in) where all models share it, to (m b, out); and a."""
        if a.dim() != 2:
            shape = tuple(a.shape[1:])
            raise ParameterError(f"layer {self.name} gets examples of shape {shape}, but must get vectors; {ALONE}.")
        return self._product(a, m, shared).flatten(0, 1), a

    def rule(self, a: Tensor, d: Tensor, m: int, known: Norms | None, unclipped: bool) -> layers.NormsAndAdder:
        """a (m b, in), d (m b, out) to norms (m b,), and what adds with weights (m, b)."""
        of_weight, of_bias = self.sums.get("weight"), self.sums.get("bias")
        norms = None
        if not unclipped:
            norms = layers.row_lengths(d).clamp_min_(layers.SHORTEST)
            if of_weight is not None:
                with_one = of_bias is not None
                norms *= known(with_one) if known else layers.row_norms(a, with_one)

        def add(c: Tensor, keep: Tensor | None) -> None:
            deltas, inputs = _kept(d, keep).view(m, c.shape[1], -1), a.view(m, c.shape[1], -1)
            if of_weight is not None:
                inputs = _kept(inputs, keep) if known is None else inputs  # the examples themselves are finite
                small = deltas.shape[2] < inputs.shape[2]  # the weights c go to the smaller factor
                pair = (deltas * c.unsqueeze(2), inputs) if small else (deltas, inputs * c.unsqueeze(2))
                of_weight.add_(torch.bmm(pair[0].mT, pair[1]))
            if of_bias is not None:
                of_bias.add_(torch.bmm(c.unsqueeze(1), deltas).squeeze(1))

        return norms, add


class _Conv2d(_Weighted):
    """Linear on patches, whose weights are shared by the positions.

    The sum is made of the very gradients whose norms were taken, so that rounding cannot set the two apart.
    """

    def forward(self, a: Tensor, m: int, shared: bool = False) -> tuple[Tensor, Tensor]:
        """a (m b, in, height, width), or b of them that all models share, to (m b, out, out_height, out_width); and a,
        or on a GPU its patches (m b, positions, in).
        """
        if a.dim() != 4:
            shape = tuple(a.shape[1:])
            raise ParameterError(f"layer {self.name} gets examples of shape {shape}, but must get images; {ALONE}.")
        if a.device.type == "cpu":  # one model after another is faster there
            images = [a] * m if shared else a.chunk(m)
            outs = [self._convolved(images_of_model, i) for i, images_of_model in enumerate(images)]
            return outs[0] if m == 1 else torch.cat(outs), a
        height, width = size = self._size(a)
        patches = _Patches.apply(a, self.module, torch.Size(size))
        out = self._product(patches.flatten(0, 1), m, shared)
        return out.view(-1, height, width, out.shape[2]).permute(0, 3, 1, 2), patches

    def _convolved(self, a: Tensor, i: int) -> Tensor:
        """Images (b, in, height, width) through model i."""
        module = self.module
        weight = self.weight[i].view(module.out_channels, *module.kernel_size, -1).permute(0, 3, 1, 2)
        bias = None if self.bias is None else self.bias[i]
        return F.conv2d(a, weight, bias, module.stride, module.padding, module.dilation)

    def rule(self, inputs: Tensor, d: Tensor, m: int, known: Norms | None, unclipped: bool) -> layers.NormsAndAdder:
        """inputs of :meth:`forward`, d (m b, out, out_height, out_width), as for a linear layer."""
        of_weight, of_bias = self.sums.get("weight"), self.sums.get("bias")
        size, d = d.shape[2:], d.permute(0, 2, 3, 1).flatten(1, 2)  # (m b, positions, out)
        parts = []
        if of_weight is not None:
            parts.append((of_weight, self._gradients(inputs, d, size).flatten(1)))
        if of_bias is not None:
            parts.append((of_bias, d.sum(1)))
        norms = None if unclipped else _joined([layers.row_lengths(part) for _, part in parts])

        def add(c: Tensor, keep: Tensor | None) -> None:
            for total, part in parts:
                of_model = torch.bmm(c.unsqueeze(1), _kept(part, keep).view(m, c.shape[1], -1))
                total.add_(of_model.view(total.shape))

        return norms, add

    def _gradients(self, inputs: Tensor, d: Tensor, size: torch.Size) -> Tensor:
        """Of the weights by each example, (m b, out, in)."""
        if inputs.dim() == 3:
            return torch.bmm(d.mT, inputs)
        count = max(1, PRODUCTS.processor // (d.shape[1] * self.weight.shape[2]))
        gradients = d.new_empty(len(d), *self.weight.shape[1:])
        for few, outer, inner in zip(gradients.split(count), d.split(count), inputs.split(count), strict=True):
            torch.bmm(outer.mT, layers.patches(self.module, inner, size).squeeze(1), out=few)
        return gradients

    def _size(self, a: Tensor) -> tuple[int, int]:
        """(out_height, out_width) for examples (m b, in, height, width)."""
        module = self.module
        sides = []
        for axis in (0, 1):
            reach = module.dilation[axis] * (module.kernel_size[axis] - 1) + 1
            sides.append((a.shape[2 + axis] + sum(layers.padding(module, axis)) - reach) // module.stride[axis] + 1)
        return sides[0], sides[1]


class _Patches(torch.autograd.Function):
    """:func:`dplib.layers.patches` with a way back: each pixel gets the sum over the patches that it is in."""

    @staticmethod
    def forward(ctx, a: Tensor, module: nn.Conv2d, out: torch.Size) -> Tensor:
        ctx.module, ctx.shape, ctx.out = module, a.shape, out
        return layers.patches(module, a, out).squeeze(1)

    @staticmethod
    def backward(ctx, d: Tensor) -> tuple[Tensor, None, None]:
        module, (n, channels, height, width), out = ctx.module, ctx.shape, ctx.out
        (top, bottom), (left, right) = layers.padding(module, 0), layers.padding(module, 1)
        image = d.new_zeros(n, height + top + bottom, width + left + right, channels)
        d = d.view(n, *out, *module.kernel_size, channels)
        for i in range(module.kernel_size[0]):
            for j in range(module.kernel_size[1]):
                rows, columns = (
                    slice(place := k * gap, place + (size - 1) * step + 1, step)
                    for k, gap, size, step in zip((i, j), module.dilation, out, module.stride, strict=True)
                )
                image[:, rows, columns] += d[:, :, :, i, j]
        inside = image[:, top : top + height, left : left + width]
        return inside.permute(0, 3, 1, 2), None, None


def _kept(x: Tensor, keep: Tensor | None) -> Tensor:
    """Examples (m b, ...) or (m, b, ...), where those that are not to be kept, (m, b), are exactly zero."""
    if keep is None:
        return x
    lead = keep if x.shape[:2] == keep.shape else keep.flatten()
    return torch.where(lead.reshape(*lead.shape, *[1] * (x.dim() - lead.dim())), x, 0)


def _layer(name: str, module: nn.Module, where: dict[nn.Parameter, Tensor], sums: dict[nn.Parameter, Tensor]):
    """A layer of all models: ``where`` has the weights (m, ...) of each parameter of the first one."""
    if not isinstance(module, nn.Linear | nn.Conv2d):
        return _Plain(module)
    kind = _Linear if isinstance(module, nn.Linear) else _Conv2d
    named = dict(module.named_parameters(recurse=False))
    weight = where[module.weight]
    bias = None if module.bias is None else where[module.bias]
    return kind(name, module, weight, bias, {key: sums[p] for key, p in named.items() if p in sums})


def _in_one_matrix(parameters: Sequence[Sequence[nn.Parameter]]) -> tuple[Tensor, list[Tensor]]:
    """Move the parameters of each model into a row of one matrix, of which they become views; and the matrix's slices
    of each parameter, (m, out, in) or (m, out).
    """
    first = parameters[0]
    if not first:
        return torch.empty(len(parameters), 0), []
    size = sum(p.numel() for p in first)
    matrix = first[0].detach().new_empty(len(parameters), size)
    for row, of_model in zip(matrix, parameters, strict=True):
        pieces = row.split([p.numel() for p in of_model])
        for p, piece in zip(of_model, pieces, strict=True):
            if p.dim() == 4:  # channels last in memory
                out, channels, *kernel = p.shape
                p.data = piece.view(out, *kernel, channels).permute(0, 3, 1, 2).copy_(p.detach())
            else:
                p.data = piece.view(p.shape).copy_(p.detach())
    return matrix, _slices(matrix, first)


def _slices(matrix: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Views (m, out, in) or (m, out) of a matrix (m, parameters); a kernel's weights in the order of its patches."""
    pieces = matrix.split([p.numel() for p in parameters], 1)
    return [
        piece if p.dim() == 1 else piece.unflatten(1, (len(p), -1)) for p, piece in zip(parameters, pieces, strict=True)
    ]


def check_alike(nets: Sequence[nn.Module]) -> None:
    """Refuse networks that differ in architecture, precision or device, or that share a parameter.

    Args:
        nets: at least one.

    Raises:
        ParameterError: naming the layer or the model.
    """
    if not nets:
        raise ParameterError("nets is empty: there must be at least one model.")
    first = [(name, type(module), repr(module)) for name, module in plain_layers(nets[0])]
    about = _about(nets[0])
    seen: set[int] = set()
    for i, net in enumerate(nets):
        layers.trained_layers(net)  # refuses shared parameters
        for (name, module), due in zip(plain_layers(net), first, strict=False):
            if (name, type(module), repr(module)) != due:
                raise ParameterError(f"nets: layer {name} of model {i} is {module!r}, but that of model 0 {due[2]}.")
        if len(list(net.modules())) != len(list(nets[0].modules())) or _about(net) != about:
            raise ParameterError(f"nets: model {i} has other layers, precision or device than model 0.")
        kept = list(net.parameters())
        if seen & {id(p) for p in kept}:
            raise ParameterError(f"nets: model {i} has parameters of an earlier one: each needs its own.")
        seen |= {id(p) for p in kept}


def _about(net: nn.Module) -> list[tuple[torch.Size, torch.dtype, torch.device, bool]]:
    return [(p.shape, p.dtype, p.device, p.requires_grad) for p in net.parameters()]
