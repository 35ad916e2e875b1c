"""Layers: per-example gradient norms, and weighted sums of per-example gradients, from what flows through a layer.

A layer maps an input a to an output; d is the gradient of the examples' losses with respect to that output. Of a linear
layer the gradient of example i is the outer product d_i a_i^T, with the norm |a_i| |d_i| (Goodfellow 2015), and the sum
with weights c_i is (c d)^T a: one matrix product, and no gradient of a single example is stored. Where positions share
the weights, it is a sum of such products; if that is made for the norm, and is no large one, it is kept for the sum.

Each rule takes ``(module, sums, a, d)``: ``sums`` maps the trained parameters' names to the tensors that a weighted sum
is added to. It returns the gradient norms (b,), and a function that adds for weights c (b,). An example of which
anything is not finite has a norm that is not finite either. No weight takes it out of a sum, for 0 times infinity is
not a number: so the second function takes ``clean`` as well, which puts zeros in the place of such examples in a tensor
(b, ...). :func:`trained_layers` says which layers have a rule; whatever is not on its list is refused by name.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplib.checks import ParameterError
from dplib.devices import KEPT, PRODUCTS

Clean = Callable[[Tensor], Tensor]
NormsAndAdder = tuple[Tensor, Callable[[Tensor, Clean], None]]
# Below this share of what it would be without cancellation, a squared norm in float32 is computed again in float64.
CANCELLED = 1e-3
# The square of a smaller number may be 0 in float32. A norm that comes out as less counts as this much, so that a long
# vector times a short one is no product of length 0 that would not be clipped.
SHORTEST = 1e-19
# Below this share of the length that its terms have together, a sum's norm is not trusted.
ROUNDED = 1e-4
# A mean beyond so many standard deviations leaves too few digits of what is normalised by sums.
FAR = 10.0
NEGLIGIBLE = 1e-16  # a squared norm that no clipping norm is near
# So many squares are summed at once in float32. Beside a large one small ones are lost there: a million of them are
# 0.4% of the norm, so that more than C was let through. The parts of a longer row lose at most 6e-5.
LONG, PART = 2**16, 2**14


def linear(
    module: nn.Linear,
    sums: Mapping[str, Tensor],
    a: Tensor,
    d: Tensor,
    known_norms: Callable[[bool], Tensor] | None = None,
) -> NormsAndAdder:
    """The rule of a linear layer. Dimensions between are positions that share the weights.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, ..., in).
        d: gradients with respect to the outputs, shape (b, ..., out).
        known_norms: where a is (b, in) and its norms are known: ``known_norms(False)`` gives them, (b,), and
            ``known_norms(True)`` those of a with a 1 appended.
    """
    if a.dim() > 2:
        return _linear_of_sequences(sums, a.flatten(1, -2), d.flatten(1, -2))
    # Few operations: on small networks, what an operation costs before it begins decides.
    weight, bias = sums.get("weight"), sums.get("bias")
    norms = row_lengths(d).clamp_min_(SHORTEST)
    if weight is not None:
        norms *= known_norms(bias is not None) if known_norms else row_norms(a, with_one=bias is not None)

    def add(c: Tensor, clean: Clean) -> None:
        columns = clean(d).t()
        if weight is not None:  # the weights c go to the smaller factor
            rows = clean(a)
            weight.addmm_(*((columns * c, rows) if d.shape[1] < a.shape[1] else (columns, rows * c.unsqueeze(1))))
        if bias is not None:
            bias.addmv_(columns, c)

    return norms, add


def _linear_of_sequences(sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """a (b, t, in), d (b, t, out)."""
    weight, bias = sums.get("weight"), sums.get("bias")
    squared, products = torch.zeros_like(d[:, 0, 0]), None
    if weight is not None and _are_kept(d.shape[1], weight, len(a)):
        of_example = (d[0].numel() + weight.numel()) * 2
        pieces = zip(*(rows.unsqueeze(1).split(_chunk(d, of_example)) for rows in (a, d)), strict=True)
        squared, products = outer_products(pieces, d.new_empty(len(a), 1, *weight.shape))
    elif weight is not None:
        squared = outer_squared_norms(a.unsqueeze(1), d.unsqueeze(1))
    if bias is not None:
        of_bias = d.sum(1)
        squared = squared + _squared(of_bias)
    if products is None:
        squared = _with_rounding(squared, a, d, 1, bias is not None)

    def add(c: Tensor, clean: Clean) -> None:
        if products is not None:
            weight.add_(_weighted(c, clean(products)).view_as(weight))
        elif weight is not None:
            weight.addmm_(clean(d).flatten(0, 1).t() * c.repeat_interleave(d.shape[1]), clean(a).flatten(0, 1))
        if bias is not None:
            bias.addmv_(clean(of_bias).t(), c)

    return squared.sqrt_(), add


def conv2d(module: nn.Conv2d, sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """The rule of a convolution of images: linear on patches, positions share the weights.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, in, height, width).
        d: gradients with respect to the outputs, shape (b, out, out_height, out_width).
    """
    weight, bias = sums.get("weight"), sums.get("bias")
    squared, products = torch.zeros(len(a), dtype=d.dtype, device=d.device), None
    if weight is not None and _are_kept(d[0, 0].numel(), weight[: len(weight) // module.groups], len(a)):
        shape = (len(a), module.groups, len(weight) // module.groups, weight[0].numel())
        squared, products = outer_products(_patches_with(module, a, d), d.new_empty(shape))
    elif weight is not None:
        squared = torch.cat([outer_squared_norms(*few) for few in _patches_with(module, a, d)])
    if bias is not None:
        of_bias = d.sum((2, 3))
        squared += _squared(of_bias)
    if weight is not None and products is None:  # one pixel is in so many patches
        uses = math.prod(-(-k // step) for k, step in zip(module.kernel_size, module.stride, strict=True))
        squared = _with_rounding(squared, a, d, uses, bias is not None)

    def add(c: Tensor, clean: Clean) -> None:
        column = c.view(-1, 1, 1, 1)
        if products is not None:
            by_patch = _weighted(c, clean(products)).view(len(weight), *module.kernel_size, -1)
            weight.add_(by_patch.permute(0, 3, 1, 2))
        elif weight is not None:  # the weights c go to the smaller factor
            images, outer = clean(a), clean(d)
            factors = (images * column, outer) if a[0].numel() < d[0].numel() else (images, outer * column)
            weight.add_(_conv2d_weight(module, *factors))
        if bias is not None:
            bias.addmv_(clean(of_bias).t(), c)

    return squared.sqrt_(), add


def embedding(module: nn.Embedding, sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """The rule of an embedding: linear on one-hot vectors; the padding index has no gradient.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: whole numbers, shape (b, ...).
        d: gradients with respect to the outputs, shape (b, ..., dim).
    """
    a, d = a.reshape(len(a), -1), d.reshape(len(a), -1, d.shape[-1])
    if module.padding_idx is not None:
        d = d * (a != module.padding_idx).unsqueeze(2)
    if a.shape[1] == 1:
        squared = _squared(d[:, 0])
    else:
        # The one-hot vectors of two positions have product 1 where their indices agree, else 0.
        # Cheap, and terms of one word may cancel: in double precision.
        chunks = zip(a.split(size := _chunk(d, a.shape[1] ** 2)), d.double().split(size), strict=True)
        squared = torch.cat([((i[:, :, None] == i[:, None]) * (e @ e.mT)).sum((1, 2)) for i, e in chunks])
        squared = squared.clamp_min_(0).to(d.dtype)
        squared = _with_rounding(squared, torch.ones_like(a, dtype=d.dtype), d, 1, False)

    def add(c: Tensor, clean: Clean) -> None:
        sums["weight"].index_add_(0, a.flatten(), (clean(d) * c.view(-1, 1, 1)).flatten(0, 1))

    return squared.sqrt_(), add


def opacus(module: nn.Module, sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """The rule of a layer of which Opacus knows the per-example gradients.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, ...).
        d: gradients with respect to the outputs, shape (b, ...).
    """
    from opacus import GradSampleModule

    by_parameter = GradSampleModule.GRAD_SAMPLERS[type(module)](module, [a], d)
    return _stored({name: by_parameter[getattr(module, name)] for name in sums}, sums)


def channel_normalisation(module: nn.Module, sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """The rule of a layer that normalises over groups of channels or each channel, then scales by channel.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, channels, ...).
        d: gradients with respect to the outputs, of the same shape.
    """
    if isinstance(module, nn.GroupNorm):
        normalised = F.group_norm(a, module.num_groups, eps=module.eps)
    else:
        normalised = F.instance_norm(a, eps=module.eps)
    factors = {"weight": lambda: normalised * d, "bias": lambda: d}
    return _stored({name: torch.einsum("ni...->ni", factors[name]()) for name in sums}, sums)


def group_normalisation(module: nn.GroupNorm, sums: Mapping[str, Tensor], a: Tensor, d: Tensor) -> NormsAndAdder:
    """The rule of :func:`channel_normalisation` in a third of its time, from sums: nothing is normalised again.

    With the mean m and the deviation s of a group, a channel's scale has the gradient (sum of d a - m times that of d)
    / s. Examples with a mean far from 0, where both sums are large and their difference is not, are normalised; on a
    GPU all are, which would wait to see whether there is one.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, channels, ...).
        d: gradients with respect to the outputs, of the same shape.
    """
    if "weight" not in sums or a.is_cuda:
        return channel_normalisation(module, sums, a, d)
    groups, size = module.num_groups, a[0].numel() // module.num_groups
    of_bias = torch.einsum("ni...->ni", d)
    mean, square = (torch.einsum("ni...->ni", x).unflatten(1, (groups, -1)).sum(2) / size for x in (a, a * a))
    inverse = (square - mean.square() + module.eps).rsqrt()
    of_group = of_bias.unflatten(1, (groups, -1)) * mean.unsqueeze(2)
    of_weight = torch.einsum("ni...->ni", a * d).unflatten(1, (groups, -1)) - of_group
    of_weight = (of_weight * inverse.unsqueeze(2)).flatten(1)
    far = ~(mean.abs() * inverse <= FAR).all(1)  # true of what is not a number, too
    if bool(far.any()):
        of_weight[far] = torch.einsum("ni...->ni", torch.group_norm(a[far], groups, eps=module.eps) * d[far])
    gradients = {"weight": of_weight, "bias": of_bias}
    return _stored({name: gradients[name] for name in sums}, sums)


def layer_normalisation(
    module: nn.LayerNorm | nn.RMSNorm, sums: Mapping[str, Tensor], a: Tensor, d: Tensor
) -> NormsAndAdder:
    """The rule of a layer that normalises over its last dimensions; what stands between are positions that share the
    weights.

    Args:
        module: the layer.
        sums: for each of its trained parameters, by name, the tensor that a weighted sum is added to.
        a: inputs, shape (b, ..., *normalized_shape).
        d: gradients with respect to the outputs, of the same shape.
    """
    normalise = F.layer_norm if isinstance(module, nn.LayerNorm) else F.rms_norm
    factors = {"weight": lambda: normalise(a, module.normalized_shape, eps=module.eps) * d, "bias": lambda: d}
    positions = tuple(range(1, a.dim() - len(module.normalized_shape)))
    gradients = {name: factors[name]() for name in sums}
    return _stored({name: g.sum(positions) if positions else g for name, g in gradients.items()}, sums)


def _stored(gradients: Mapping[str, Tensor], sums: Mapping[str, Tensor]) -> NormsAndAdder:
    """Per-example gradients as they are, (b, parameters of this layer)."""
    squared = sum(_squared(g.flatten(1)) for g in gradients.values())  # at least one parameter is trained

    def add(c: Tensor, clean: Clean) -> None:
        for name, g in gradients.items():
            sums[name].add_(torch.tensordot(c, clean(g), 1))

    return squared.sqrt_(), add


def outer_products(pieces: Iterable[tuple[Tensor, Tensor]], out: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over t of d_t a_t^T of each example: their squared norms, summed over groups, (b,), and they themselves.

    What is summed with weights later is then what was measured, to the last bit, and is not made a second time.

    Args:
        pieces: a (few, groups, t, p) and d (few, groups, t, q) of some examples after the other.
        out: of shape (b, groups, q, p), contiguous; overwritten, and returned.
    """
    squared, i = out.new_empty(len(out)), 0
    for a, d in pieces:
        few = out[i : i + len(a)]
        torch.bmm(d.flatten(0, 1).mT, a.flatten(0, 1), out=few.flatten(0, 1))
        squared[i : i + len(a)] = _squared(few.flatten(1))
        i += len(a)
    return squared, out


def _weighted(c: Tensor, gradients: Tensor) -> Tensor:
    """The sum of gradients (b, ...) with weights c (b,), flat."""
    return torch.mv(gradients.flatten(1).t(), c)


def _are_kept(t: int, weight: Tensor, b: int) -> bool:
    """Whether per-example gradients like a weight (q, ...), sums over t positions, are made for their norms and few
    enough to be kept for their sum.
    """
    return not _is_paired(t, weight[0].numel(), len(weight)) and b * weight.numel() <= KEPT.on(weight.device)


def _is_paired(t: int, p: int, q: int) -> bool:
    return 2 * t * (p + q) < p * q


def outer_squared_norms(a: Tensor, d: Tensor) -> Tensor:
    """Squared norms |sum over t of d_t a_t^T|^2 of each example, summed over groups, shape (b,).

    Either as it stands, p * q numbers an example, or as the sum over t, t' of (a_t . a_t') (d_t . d_t'), t * t numbers
    (Bu, Mao and Xu 2022). The second loses digits where terms cancel, so it has to be cheaper by half, and examples
    that lose many go the same way once more in double precision: a norm that is too small would not be clipped.

    Args:
        a: shape (b, groups, t, p).
        d: shape (b, groups, t, q).
    """
    b, groups, t, p = a.shape
    q = d.shape[3]
    paired = _is_paired(t, p, q)
    size = _chunk(d, groups * max(t * p, t * q, t * t if paired else p * q))
    if b > size:
        return torch.cat([outer_squared_norms(*few) for few in zip(a.split(size), d.split(size), strict=True)])
    a, d = a.reshape(b * groups, t, p), d.reshape(b * groups, t, q)
    if paired:
        squared = _paired(a, d)
        lengths = (torch.linalg.vector_norm(rows, dim=2).clamp_min_(SHORTEST) for rows in (a, d))
        most = math.prod(lengths).sum(1).square_()
        lost = (squared < CANCELLED * most) & (most > NEGLIGIBLE)
        if _noted is not None and squared.is_cuda:
            _noted.append(lost.any())
        elif bool(lost.any()):
            squared[lost] = _paired(a[lost].double(), d[lost].double()).to(squared.dtype)
    else:
        squared = _squared(torch.bmm(d.mT, a).flatten(1))
    return squared.view(b, groups).sum(1)


_noted: list[Tensor] | None = None


@contextlib.contextmanager
def lost_digits_noted() -> Iterator[list[Tensor]]:
    """Inside, sums on a GPU that lose too many digits are not made again, but noted, a bool () each, so that the host
    waits once for all layers; where one is true, all is to be made again outside.
    """
    global _noted
    before, _noted = _noted, []
    try:
        yield _noted
    finally:
        _noted = before


def _with_rounding(squared: Tensor, a: Tensor, d: Tensor, uses: int, bias: bool) -> Tensor:
    """Squared norms of sums over positions of d_t a_t^T, (b,), raised to what rounding makes of terms that cancel.

    The sum is made by other operations than the norm. Where little is left of large terms, as of a constant image
    behind a convolution and a normalisation, both are rounding: the norm of one says nothing of the other's length. So
    it counts as much as the terms may lose, an upper bound. a (b, ...), each number in ``uses`` terms; d (b, ...).
    """
    positions = d[0].numel() // d.shape[1 if d.dim() == 4 else 2]
    inputs = _lengths(a).square_().mul_(uses)
    if bias:
        inputs += positions
    most = inputs.sqrt_().mul_(_lengths(d))
    norms = squared.sqrt()
    lost = 4 * torch.finfo(d.dtype).eps * positions**0.5
    return torch.where(norms > ROUNDED * most, squared, (norms + lost * most).square_())


def _lengths(x: Tensor) -> Tensor:
    """Norms of all numbers of each example, (b, ...) to (b,), without a copy."""
    return torch.linalg.vector_norm(x, dim=tuple(range(1, x.dim()))).clamp_min_(SHORTEST)


def _paired(a: Tensor, d: Tensor) -> Tensor:
    """Sums over t, t' of (a_t . a_t') (d_t . d_t'): a (b, t, p) and d (b, t, q) to (b,)."""
    return torch.bmm(a, a.mT).mul_(torch.bmm(d, d.mT)).sum((1, 2)).clamp_min_(0)


def patches(module: nn.Conv2d, a: Tensor, out: torch.Size) -> Tensor:
    """What a convolution's weights multiply, shape (b, groups, positions, weights).

    A strided view of the channels-last image, copied once: several times as fast as ``F.unfold``. The weights are in
    the order (kernel height, kernel width, channel of the group).

    Args:
        module: the layer.
        a: inputs, shape (b, channels, height, width).
        out: (out_height, out_width).
    """
    image = F.pad(a.permute(0, 2, 3, 1), (0, 0, *padding(module, 1), *padding(module, 0))).contiguous()
    b, _, _, channels = image.shape
    of_example, of_row, of_column, _ = image.stride()
    (rows, columns), (row_step, column_step), (row_gap, column_gap) = module.kernel_size, module.stride, module.dilation
    few = channels // module.groups
    view = image.as_strided(
        (b, module.groups, *out, rows, columns, few),
        (of_example, few, of_row * row_step, of_column * column_step, of_row * row_gap, of_column * column_gap, 1),
    )
    return view.reshape(b, module.groups, out[0] * out[1], rows * columns * few)


def _patches_with(module: nn.Conv2d, a: Tensor, d: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Patches (few, groups, t, p) of inputs a (b, in, height, width), and d (b, out, ...) as (few, groups, t, q)."""
    out, p = d.shape[2:], module.weight[0].numel()
    size = _chunk(d, max(out.numel() * p * module.groups, module.weight.numel()))
    for images, outer in zip(a.split(size), d.split(size), strict=True):
        yield patches(module, images, out), outer.unflatten(1, (module.groups, -1)).flatten(3).transpose(2, 3)


def _conv2d_weight(module: nn.Conv2d, a: Tensor, d: Tensor) -> Tensor:
    """Gradient of the weights for output gradients d: the convolution's own backward pass, for the weights alone."""
    a, padding = _with_even_padding(module, a)
    only_weight = (False, True, False)
    return torch.ops.aten.convolution_backward(
        d, a, module.weight, None, module.stride, padding, module.dilation, False, (0, 0), module.groups, only_weight
    )[1]


def _with_even_padding(module: nn.Conv2d, a: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The input and a padding (height, width) that is the same on both sides, as "same" is not for even kernels."""
    (top, bottom), (left, right) = padding(module, 0), padding(module, 1)
    if top == bottom and left == right:
        return a, (top, left)
    return F.pad(a, (left, right, top, bottom)), (0, 0)


def padding(module: nn.Conv2d, axis: int) -> tuple[int, int]:
    """Zeros before and after, along one axis of the image.

    Args:
        module: the layer.
        axis: 0 for the height, 1 for the width.
    """
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        total = module.dilation[axis] * (module.kernel_size[axis] - 1)
        return total // 2, total - total // 2
    return module.padding[axis], module.padding[axis]


def row_norms(x: Tensor, with_one: bool) -> Tensor:
    """Norms of rows, shape (b,).

    Args:
        x: rows, shape (b, k).
        with_one: of rows with a 1 appended: a bias is the weight of such an input.
    """
    norms = row_lengths(x).clamp_min_(SHORTEST)
    return torch.hypot(norms, norms.new_ones(())) if with_one else norms


def row_lengths(x: Tensor) -> Tensor:
    """Norms of rows, (b,); of long ones by their parts, where a single sum would have lost more than 1e-4.

    Args:
        x: rows, shape (b, k).
    """
    whole = torch.linalg.vector_norm(x, dim=1)
    if x.shape[1] <= LONG:
        return whole
    parts = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in x.split(PART, 1)], 1)
    apart = torch.linalg.vector_norm(parts, dim=1)
    return torch.where(apart > whole * (1 + 1e-4), apart, whole)


def _squared(x: Tensor) -> Tensor:
    """Squared norms of rows, (b, k) to (b,); the library's norm is faster than a product and a sum."""
    return row_lengths(x).square_()


def _chunk(like: Tensor, numbers: int) -> int:
    """How many examples of so many numbers to take at once, on the device of ``like``."""
    return max(1, PRODUCTS.on(like.device) // max(1, numbers))


_RULES = {
    nn.Linear: linear, nn.Conv2d: conv2d, nn.Embedding: embedding, nn.Conv1d: opacus, nn.Conv3d: opacus,
    nn.GroupNorm: group_normalisation, nn.InstanceNorm1d: channel_normalisation,
    nn.InstanceNorm2d: channel_normalisation, nn.InstanceNorm3d: channel_normalisation,
    nn.LayerNorm: layer_normalisation, nn.RMSNorm: layer_normalisation,
}  # fmt: skip
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MIXING = (nn.modules.batchnorm._BatchNorm,)
_WITHOUT_PARAMETERS = (
    "torch.nn.modules.activation", "torch.nn.modules.pooling", "torch.nn.modules.dropout", "torch.nn.modules.flatten",
    "torch.nn.modules.linear", "torch.nn.modules.padding", "torch.nn.modules.upsampling",
    "torch.nn.modules.pixelshuffle", "torch.nn.modules.channelshuffle", "torch.nn.modules.normalization",
    "torch.nn.modules.instancenorm", "torch.nn.modules.container",
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer with trained parameters: the rule for its gradients, and where a weighted sum of them is added.

    Args:
        name: its path in the network.
        module: the layer itself.
        rule: for its gradients, as the module says.
        sums: for each trained parameter, by name, the tensor that a weighted sum is added to.
    """

    name: str
    module: nn.Module
    rule: Callable[..., NormsAndAdder]
    sums: Mapping[str, Tensor]


def trained_layers(net: nn.Module, sums: Mapping[nn.Parameter, Tensor] | None = None) -> list[Layer]:
    """The layers of ``net`` with trained parameters (``requires_grad``), each with the rule for its gradients.

    ``sums`` has for each trained parameter the tensor that sums are added to; by default the parameter itself.

    Args:
        net: a network; parameters that require no gradient do not count.
        sums: for each trained parameter the tensor that sums are added to; by default the parameter itself.

    Raises:
        ParameterError: for batch normalisation and other layers that mix examples, parameters shared by two layers,
            and layers that are not on the list; the message names the layer.
    """
    _refuse_shared(net)
    layers = []
    for path, module in net.named_modules():
        name = path or type(net).__name__
        if is_recurrent_network(module):
            continue
        _refuse_unknown(name, module)
        trained = {key: p for key, p in module.named_parameters(recurse=False) if p.requires_grad}
        if trained:
            where = {key: sums[p] if sums else p for key, p in trained.items()}
            layers.append(Layer(name, module, _rule(module), where))
    return layers


def _refuse_shared(net: nn.Module) -> None:
    owners: dict[str, nn.Parameter] = {}
    for path, module in net.named_modules(remove_duplicate=False):
        for key, p in module.named_parameters(recurse=False) if not is_recurrent_network(module) else ():
            name = f"{path}.{key}" if path else key
            if p.numel() and _bytes(p) < p.numel() * p.element_size():
                raise ParameterError(f"{name} has numbers that share memory (expanded?): give the layer a copy.")
            for owner, other in owners.items():
                if p is other or _overlap(p, other):
                    raise ParameterError(
                        f"layer {path} shares its {key} with {owner}: tied parameters have no clipped sums here; each "
                        "layer needs its own."
                    )
            owners[name] = p


def _overlap(p: Tensor, q: Tensor) -> bool:
    """Whether the memory from the first number of one to its last has some of the other's in it."""
    storages = p.untyped_storage().data_ptr(), q.untyped_storage().data_ptr()
    if not p.numel() or not q.numel() or p.device != q.device or not all(storages):  # on meta there is no memory
        return False
    starts = [at + of.storage_offset() * of.element_size() for at, of in zip(storages, (p, q), strict=True)]
    ends = [start + _bytes(of) for start, of in zip(starts, (p, q), strict=True)]
    return max(starts) < min(ends)


def _bytes(p: Tensor) -> int:
    """Of memory, from the first number to the last; fewer than it has numbers where some of these are one."""
    last = sum((size - 1) * step for size, step in zip(p.shape, p.stride(), strict=True))
    return (last + 1) * p.element_size()


def _refuse_unknown(name: str, module: nn.Module) -> None:
    kind = type(module)
    if isinstance(module, _MIXING):
        raise ParameterError(
            f"layer {name} is a {kind.__name__}, which mixes the examples of a batch: it has no per-example gradients; "
            "group normalisation (models.group_norm) is the usual stand-in."
        )
    if getattr(module, "track_running_stats", False):
        raise ParameterError(f"layer {name} keeps running statistics of the data, which no noise protects.")
    trained = any(p.requires_grad for p in module.parameters(recurse=False))
    if trained and _rule(module) is None:
        known = ", ".join(k.__name__ for k in _RULES)
        hint = "; opacus.layers.DPLSTM takes an LSTM's place" if isinstance(module, nn.RNNBase) else ""
        raise ParameterError(
            f"layer {name} is a {kind.__name__}, of which no clipped sums are known: trained layers may be {known}, "
            f"and Opacus's recurrent ones{hint}."
        )
    if reason := _unsupported(module, trained):
        raise ParameterError(f"layer {name} has {reason}, which has no clipped sums here.")
    leaf = not any(True for _ in module.children())
    if leaf and not trained and not _harmless(module):
        raise ParameterError(f"layer {name} is a {kind.__name__}, which is not known to keep examples apart.")


def _rule(module: nn.Module) -> Callable[..., NormsAndAdder] | None:
    """The rule for exactly this type: a subclass may compute something else."""
    if is_recurrent(module):
        return linear
    return _RULES.get(type(module))


def _unsupported(module: nn.Module, trained: bool) -> str:
    """What of a layer, in words, has no rule; nothing for one that has."""
    if isinstance(module, nn.Embedding) and module.max_norm:  # it writes into its weights, frozen ones, too
        return f"max_norm = {module.max_norm}"
    if not trained:
        return ""
    if isinstance(module, _CONVOLUTIONS) and module.padding_mode != "zeros":
        return f"padding_mode = {module.padding_mode!r}"
    if isinstance(module, nn.Embedding):
        for option in ("scale_grad_by_freq", "sparse"):
            if getattr(module, option):
                return f"{option} = {getattr(module, option)}"
    if "forward" in vars(module):
        return "a forward pass of its own"
    others = [name for name, _ in module.named_parameters(recurse=False) if name not in ("weight", "bias")]
    return f"parameters {', '.join(others)} from which its weights are computed" if others else ""


def _harmless(module: nn.Module) -> bool:
    """A layer without trained parameters that treats each example by itself."""
    kind = type(module)
    frozen = any(True for _ in module.parameters(recurse=False))
    if kind in _defined(kind.__module__):
        if kind.__module__.startswith(("dplib.", "opacus.layers.")):
            return True
        return kind.__module__.startswith("torch.nn.") if frozen else kind.__module__ in _WITHOUT_PARAMETERS
    return False


def _defined(name: str) -> Collection[type]:
    """The types that a module of this name has, whatever a type says of its origin."""
    return [kind for kind in vars(sys.modules.get(name, object)).values() if isinstance(kind, type)]


def _of_opacus(name: str) -> type | None:
    """One of its recurrent types; none is in use before somebody has imported them, which takes seconds."""
    return getattr(sys.modules.get("opacus.layers.dp_rnn"), name, None)


def is_recurrent(module: nn.Module) -> bool:
    """Whether this is the layer that Opacus's recurrent networks call once for each step.

    Args:
        module: a layer.
    """
    return type(module) is _of_opacus("RNNLinear")


def is_recurrent_network(module: nn.Module) -> bool:
    """Whether this is a recurrent network of Opacus, whose parameters are those of its cells under other names.

    Args:
        module: a layer.
    """
    base = _of_opacus("DPRNNBase")
    return base is not None and isinstance(module, base)
