"""Sums of clipped per-example gradients, and the trial of what they ask of a network.

Removing or adding one record changes the sum by at most ``max_grad_norm`` in the Euclidean norm (:mod:`dplib.sums`).
That holds only where each example's loss depends on that example alone and each weight belongs to one layer that is
used once. So layers are accepted from a list (:mod:`dplib.layers`), and :func:`check` tries the rest on some
examples. What no trial can show: code that behaves otherwise on inputs that were not tried, such as a branch that few
records take or a batch larger than a step's; what code keeps where no copy, attribute, closure or global of its own
shows it (a file, the first numbers that a closure ever saw), or writes into trained weights behind PyTorch (``.data``)
after the trial; and what is mixed outside of autograd and below the last bit of a loss and its gradients (on a GPU,
below 0.1% of them). Such a network must be read, not run.
"""

import contextlib
import copy
import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from dplib import failing, state
from dplib.checks import ParameterError, shown
from dplib.devices import random_state, same_randomness, whole_float32
from dplib.examples import Loss
from dplib.layers import Layer, is_recurrent, row_norms, trained_layers
from dplib.sums import RULES, WHOLE, ClippedSums, auto_s, check_losses, flat, largest_weight

__all__ = ["RULES", "ClippedSums", "auto_s", "check", "check_again", "check_losses", "flat", "largest_weight"]

FEW = 5  # examples that a trial tries one by one
SOME = 64  # at most, at other weights than the first
DRAWS = 24  # of a random network: what happens in one of ten draws is seen with probability 0.92
SCALES = (30.0, 1e3, 1e6, math.inf)  # of outputs
OUTLIERS = (0.0, 1e3, 1e12)  # times a single example
FAR = 30.0  # times an example: where a network treats outliers in a way of their own
IMPOSSIBLE = (RuntimeError, IndexError, ValueError, AssertionError)  # what a network says of examples that are none
MIXED = "an example's loss changes with the other examples of its batch, so clipping bounds nothing."
KEEPS = (
    "the network or its loss keeps numbers of the examples that it has seen: what one of them does stays for steps "
    "without it, so clipping bounds nothing."
)


@whole_float32()
def check(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Try on a batch (b, ...), best of the size of a step's, what a list of layers cannot show: code between layers.

    Looks whether the network and its loss are the same in each call, before other examples and after them, and count
    nothing (:mod:`dplib.state`); whether a forward pass changes a buffer or a parameter; whether an example's loss or
    its gradient changes with its neighbours or with their number, or follows from them; and whether a weight is used
    outside of its layer; compares norms and weighted sums with gradients of each example's loss by itself. For each of
    the first five examples; for the first two of them alone; for five whose every number is that of another one, drawn
    at random; and for the first and the last of the whole batch. Then once more at other weights, moved both ways from
    where they are, since a branch behind a factor of 0 is not to be seen before that factor has moved. Random layers
    draw the same numbers each time, and the first examples are tried at several draws, since some mix in few of them
    only; losses of the whole batch and of outliers are compared in other orders and parts of it, what an example adds
    beside others far away or not finite or a single one far away, and the loss at outputs of other sizes. The network
    is left as it was.

    What an example's loss owes to others must be nothing: its derivatives with respect to the others' numbers (to their
    words' embeddings) 0, and loss and gradient the same bits whoever stands beside it. On a GPU, or where a network
    does not repeat its own bits, the second is known to 0.1% only. What it owes to their number is known to a
    millionth, or to 5% for a network that cannot be had in float64; the random draws of one that is random even in
    evaluation mode, and those of a loss, hide it.

    A trial is for mistakes: code that means to be told apart from a step (by ``__deepcopy__``, ``id``, the hooks it
    counts) can behave in the one and not in the other.

    Args:
        net: the network; it is left as it was.
        x: examples, shape (b, ...), best as many as a step has.
        y: their targets, shape (b, ...).
        loss: outputs and targets to one loss for each example, (b,).

    Raises:
        ParameterError: naming the layer, buffer or parameter, or saying that examples are not kept apart; also for
            whatever else the network or its loss raises.
    """
    failing.check_parameters(net)
    for name, p in net.named_parameters():
        if p.requires_grad and p.dtype not in WHOLE:
            raise ParameterError(f"{name} is of {p.dtype}, which bounds no clipped sum: it must be float32 or float64.")
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise ParameterError(f"{name} has a hook on its gradient, which no clipped sum goes through: remove it.")
    trained_layers(net)  # a copy would untie what shares its memory, and not every network can be copied
    with failing.named(net):
        copied = copy.deepcopy(net)  # with the hooks that name the layers
        _check(copied, x, y, loss)
        # A loss that knows the network itself, and not its copy, may use its weights (a penalty on them).
        with same_randomness(x.device):
            losses = loss(net(x[:FEW].clone()), y[:FEW])
        _check_uses(losses.sum(), {k: p for k, p in net.named_parameters() if p.requires_grad}, trained_layers(net))


@whole_float32()
def check_unspoiled(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Refuse what an example that is not finite spoils for others, as a loss with 0 times the mean of its batch: for
    steps that do not take the others once more by themselves, as :class:`ClippedSums` does on a processor.

    Args:
        net: the network; it is left as it was.
        x: examples, shape (b, ...), of which at most 64 are tried.
        y: their targets, shape (b, ...).
        loss: outputs and targets to one loss for each example, (b,).

    Raises:
        ParameterError: where an example's loss or gradient is not finite because another one is not.
    """
    with failing.named(net):
        _check_beside(copy.deepcopy(net), x[:SOME], y[:SOME], loss, rescues=False)


def _check(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    few, labels = x[:FEW], y[:FEW]
    _check_memory(net, x, y, loss)
    _try(net, few, labels, loss, range(len(few)))
    if len(few) > 2:
        _try(net, few[:2], labels[:2], loss, (0,))
    if len(few) > 1:
        mixed = _mixed(few)
        if _possible(net, mixed):
            _try(net, mixed, labels, loss, range(len(few)))
    if len(few) > 1:
        _check_draws(net, few, labels, loss)
    if len(x) > FEW:
        _try(net, x, y, loss, _ends(x))
    part, targets = _some_mixed(net, x[:SOME]), y[:SOME]
    for sign in (1, -1):
        moved = _moved(net, sign)
        _try(moved, part, targets, loss, _ends(part))
    if x.is_floating_point():
        _check_beside(moved, x[:SOME], targets, loss)
    _check_sizes(moved, x, y, loss)


@whole_float32()
def check_again(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """What :func:`check` looks for, on some examples of a batch (b, ...) and at the weights as they are, in brief.

    Args:
        net: the network; it is left as it was.
        x: examples, shape (b, ...), of which at most 64 are tried.
        y: their targets, shape (b, ...).
        loss: outputs and targets to one loss for each example, (b,).

    Raises:
        ParameterError: where the network no longer keeps examples apart, or fails.
    """
    with failing.named(net):
        _try(copy.deepcopy(net), x[:SOME], y[:SOME], loss, _ends(x[:SOME]))


def _check_memory(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Examples have the same losses and gradients in the first call of all, in the next one, and after others."""
    few, labels = x[:FEW], y[:FEW]
    first, second, after = (state.copied(net, loss) for _ in range(3))
    due = _outcome(*first, few, labels)
    before = state.counts(*first)
    again = _outcome(*first, few, labels)
    for name, value in state.counts(*first).items():
        if name in before and value != before[name]:
            raise ParameterError(
                f"{name} is {shown(before[name])} after one call of the network and its loss, and {shown(value)} after "
                "the next: what code that counts its calls does later, no trial shows. Each call must be like the last."
            )
    exact = x.device.type == "cpu" and _same(due, _outcome(*second, few, labels), 0)
    if not _same(due, again, 0 if exact else 1e-3):
        raise ParameterError(
            "the network or its loss is not the same in two calls on the same examples with the same random numbers: "
            "it keeps something, or draws from a generator of its own, so no trial shows what a step does."
        )
    for far in (1, -1e3) if x.is_floating_point() else (1,):
        others = x[-1:].expand_as(few) * far, y[-1:].expand_as(labels) * (far if y.is_floating_point() else 1)
        for pair in (first, after):
            with contextlib.suppress(*IMPOSSIBLE):
                _outcome(*pair, *others)
    for pair in (first, after):
        if not _same(due, _outcome(*pair, few, labels), 0 if exact else 1e-3):
            raise ParameterError(KEEPS)


def _outcome(net: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The losses of examples (b, ...), and the gradients of their sum by the trained parameters."""
    losses = _losses(net, x, y.clone(), loss, 0)
    check_losses(losses, len(x))
    trained = [p for p in net.parameters() if p.requires_grad]
    return losses.detach(), *torch.autograd.grad(losses.sum(), trained, materialize_grads=True)


def _ends(x: Tensor) -> list[int]:
    """The first and the last of a batch."""
    return sorted({0, len(x) - 1})


def _possible(net: nn.Module, x: Tensor) -> bool:
    """Whether a network takes these examples at all: made-up ones need not be possible, such as words of length 0."""
    try:
        with same_randomness(x.device):
            net(x.clone())
    except IMPOSSIBLE:
        return False
    return True


def _mixed(x: Tensor) -> Tensor:
    """Examples (b, ...) of which every number is that of a random one of the given examples at its place."""
    rows = torch.randint(len(x), x.shape, generator=torch.Generator().manual_seed(0)).to(x.device)
    return x.gather(0, rows)


def _some_mixed(net: nn.Module, x: Tensor) -> Tensor:
    """The examples (b, ...), the first few of them mixed where the network takes these."""
    mixed = torch.cat([_mixed(x[:FEW]), x[FEW:]])
    return mixed if _possible(net, mixed) else x


def _moved(net: nn.Module, sign: int) -> nn.Module:
    """The network at other weights: each trained one with noise of half its parameter's size, or of what is usual."""
    net, generator = copy.deepcopy(net), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in net.parameters():
            if p.requires_grad and p.numel():
                usual = p[0].numel() ** -0.5 if p.dim() > 1 else 0.1
                size = p.square().mean().sqrt().clamp_min(usual)
                noise = torch.randn(p.shape, dtype=p.dtype, generator=generator)
                p.add_(noise.to(p.device) * size, alpha=sign / 2)
    return net


def _check_sizes(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """An example has the same loss and gradients in batches of all sizes, and alone."""
    exact = _in_float64(net, x, y, loss)
    net, x, y = exact or (copy.deepcopy(net), x, y)
    for module in net.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0  # its draws for an example change with the batch before it
    with torch.no_grad():
        draws = [_losses(net, x[:1], y[:1], loss, seed) for seed in (0, 1)]
        if not torch.equal(*draws):
            net.eval()  # random elsewhere
            draws = [_losses(net, x[:1], y[:1], loss, seed) for seed in (0, 1)]
    if draws[0].isfinite().all() and not torch.equal(*draws):
        return
    within = 1e-6 if exact else 0.05
    for size in sorted({2, 3, FEW, len(x)}):
        for i in {0, size - 1} if size <= len(x) else ():
            alone = _gradients(net, x[i : i + 1], y[i : i + 1], loss, 0)
            if not _same(alone, _gradients(net, x[:size], y[:size], loss, i), within):
                raise ParameterError(
                    f"an example's loss by itself is not its loss in a batch of {size}: what depends on the number of "
                    "examples (such as a loss divided by it) lets each of them change with its neighbours, so clipping "
                    "bounds nothing."
                )
    _check_company(net, x, y, loss, within)


def _check_company(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, within: float) -> None:
    """Every example has the same loss in other parts of the batch (b, ...), and at other places; outliers as well."""
    far = torch.cat([x, FAR * x[:FEW], -FAR * x[:FEW]]) if x.is_floating_point() else x
    if len(far) > len(x) and _possible(net, far):
        x, y = far, torch.cat([y, y[:FEW], y[:FEW]])
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        due = _losses(net, x, y, loss, 0)
        _check_loss(net(x.clone()), y, loss, within)
        for order in (torch.randperm(len(x), generator=generator).to(x.device) for _ in range(3)):
            for part in order.tensor_split(2) if len(x) > 1 else ():
                try:
                    apart = (_losses(net, x[part], y[part], loss, 0) - due[part]).abs()
                except IMPOSSIBLE:
                    continue
                if (apart > within * (due[part].abs() + 1e-3)).any():
                    raise ParameterError(MIXED)


def _check_loss(outputs: Tensor, y: Tensor, loss: Loss, within: float) -> None:
    """A loss treats each example by itself where outputs (b, ...) are such as a training may come to, too."""
    for far in SCALES if isinstance(outputs, Tensor) and len(y) > 1 else ():
        given, parts = outputs.clone(), (slice(0, 1), slice(1, None))
        given[: len(y) // 2] *= far
        try:
            with same_randomness(outputs.device):
                due = loss(given, y.clone())
            with same_randomness(outputs.device):
                apart = torch.cat([loss(given[part], y[part].clone()) for part in parts])
        except IMPOSSIBLE:
            continue
        finite = due.isfinite() | apart.isfinite()
        if ((apart - due).abs() > within * (due.abs() + 1e-3))[finite].any() or (apart - due)[finite].isnan().any():
            raise ParameterError(MIXED)


def draws(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> bool:
    """Whether a network or its loss draws random numbers, as dropout does.

    Args:
        net: in the mode that is asked about.
        x: examples, shape (b, ...).
        y: their targets, shape (b, ...).
        loss: outputs and targets to one loss for each example, (b,).
    """
    with same_randomness(x.device), torch.no_grad():
        before = random_state(x.device)
        loss(net(x.clone()), y.clone())
        return random_state(x.device) != before


def _check_draws(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """The first example stands by itself whatever a random network or loss draws: it may mix in some draws only."""
    if not draws(net, x, y, loss):
        return
    rows = torch.ones(len(x), dtype=torch.int64, device=x.device)
    rows[0] = 0

    def first(order: Tensor | slice, seed: int) -> tuple[Tensor, ...]:
        return _one_by_one(net, x[order], y[order], loss, [0], seed)[1][0]

    whole = slice(None)
    exact = x.device.type == "cpu" and _same(first(whole, 1), first(whole, 1), 0)
    for seed in range(1, DRAWS + 1):
        if not _same(first(whole, seed), first(rows, seed), 0 if exact else 1e-3):
            raise ParameterError(MIXED)


def _in_float64(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> tuple[nn.Module, Tensor, Tensor] | None:
    """Network and batch in float64, where rounding is no excuse; None for one that is written for float32."""
    net = copy.deepcopy(net).double()
    x, y = (array.double() if array.is_floating_point() else array for array in (x, y))
    try:
        with torch.no_grad():
            losses = _losses(net, x[:1], y[:1], loss, 0)
    except (RuntimeError, TypeError, ValueError):
        return None
    return (net, x, y) if losses.dtype == torch.float64 else None


def _losses(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, seed: int) -> Tensor:
    with same_randomness(x.device, seed):
        return loss(net(x.clone()), y)


def _gradients(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, i: int) -> tuple[Tensor, ...]:
    """The loss of example i of a batch, and its gradients by the trained parameters."""
    trained = [p for p in net.parameters() if p.requires_grad]
    mine = _losses(net, x, y, loss, 0)[i]
    return mine.detach(), *torch.autograd.grad(mine, trained, materialize_grads=True)


def _try(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, which: Sequence[int]) -> None:
    """Try a network on a batch (b, ...), and for the examples ``which`` of it; see :func:`check`."""
    names, parameters = zip(*((k, p) for k, p in net.named_parameters() if p.requires_grad), strict=True)
    before = {name: kept.clone() for name, kept in _state(net)}
    sums = {p: torch.zeros_like(p) for p in parameters}
    watched = ClippedSums(net, sums)
    norms, weights = [], []

    def factors(lengths: Tensor) -> Tensor:
        norms.append(lengths.clone())
        chosen = torch.zeros_like(lengths)
        # None counts for much more than the others, or for less than rounding leaves of the others.
        chosen[list(which)] = torch.linspace(0.5, 1, len(which), dtype=lengths.dtype, device=lengths.device)
        weights.append(chosen * (lengths.median() / lengths.clamp_min(1e-30)).clamp_max(1))
        return weights[0].clone()

    given = x.clone()
    known, version = (partial(row_norms, x) if x.dim() == 2 else None), given._version  # as a step does it
    try:
        with same_randomness(x.device):
            watched.add(given, y, loss, factors, known)
        if given._version == version and not torch.equal(given, x):
            raise ParameterError(
                "the network changes its input where PyTorch does not see it (.data, .numpy()), so that the norms "
                "of its examples are not those of what it trains on: change a copy."
            )
        finite = watched.finite
        if finite is not None and finite.any() and not finite.all():  # what is not a number shows nothing of the others
            return _try(net, x[finite], y[finite], loss, sorted({0, *which} & set(range(int(finite.sum())))))
        losses, singles = _one_by_one(net, x, y, loss, which)
        for name, kept in _state(net):
            if name not in before or not torch.equal(kept, before[name]):
                raise ParameterError(f"{name} changes with the examples, and no noise protects what it keeps.")
        _check_alone(singles, net, x, y, loss, which)
        if x.is_cuda and x.is_floating_point():  # a step on a GPU does not wait to see whether they did
            _check_passes(watched, x, y, loss, which[0], [math.inf])
    finally:
        watched.close()
    _check_sums(names, sums, singles, weights[0][list(which)])
    _check_norms(singles, norms[0][list(which)])
    _check_uses(losses.sum(), dict(zip(names, parameters, strict=True)), watched.layers)


def _check_sums(
    names: Sequence[str], sums: Mapping[nn.Parameter, Tensor], singles: Sequence[tuple[Tensor, ...]], weights: Tensor
) -> None:
    """The weighted sums are those of the examples' gradients, each by itself."""
    of_each = [torch.stack(gradients) for gradients in zip(*(rest for _, *rest in singles), strict=True)]
    due = [torch.tensordot(weights, gradients, 1) for gradients in of_each]
    total = torch.stack([g.norm() for g in due]).norm()
    for name, got, expected in zip(names, sums.values(), due, strict=True):
        if (got - expected).norm() > 1e-3 * expected.norm() + 1e-4 * total + 1e-6:
            raise ParameterError(
                f"{name} has other gradients than its layer explains: each layer needs the batch as its input's first "
                "dimension, and its parameters to itself."
            )


def _check_norms(singles: Sequence[tuple[Tensor, ...]], norms: Tensor) -> None:
    """The gradient norms are those of the examples, each by itself; too small is worse than too large."""
    due = torch.stack([torch.stack([g.norm() for g in gradients]).norm() for _, *gradients in singles])
    apart = 1e-3 * due.clamp_min(due.median()) + 1e-6
    if (norms < due - apart).any() or (norms > 1.5 * due + apart).any():  # rounding may count as length, see the layers
        raise ParameterError(
            "the examples' gradient norms are not those of the examples by themselves: each layer needs the batch as "
            "the first dimension of its input, and none may mix examples."
        )


def _state(net: nn.Module) -> list[tuple[str, Tensor]]:
    """All that a network keeps, frozen parameters too, by names for messages."""
    kept = [(f"buffer {name}", b) for name, b in net.named_buffers()]
    return kept + [(f"parameter {name}", p.detach()) for name, p in net.named_parameters()]


def _one_by_one(
    net: nn.Module, x: Tensor, y: Tensor, loss: Loss, which: Sequence[int], seed: int = 0
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
        with same_randomness(x.device, seed):
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
    if not x.is_floating_point():
        return
    beside = _beside(x, which[0], -1e3)  # as for code that scales a batch by its largest number
    if beside.isfinite().all() and _possible(net, beside):
        (again,) = _one_by_one(net, beside, y, loss, which[:1])[1]
        if not _same(singles[0], again, 0 if exact else 1e-3):
            raise ParameterError(MIXED)


def _beside(x: Tensor, i: int, factor: float) -> Tensor:
    """The batch (b, ...), all but example i of it times a factor."""
    beside = x * factor
    beside[i] = x[i]
    return beside


def _check_beside(net: nn.Module, x: Tensor, y: Tensor, loss: Loss, rescues: bool = True) -> None:
    """What an example adds to a step stays the same beside others that are far away or not finite, and beside a single
    one that is, or is 0 throughout: as where code looks for what is not a number in a whole batch, or scales all
    gradients by their common norm. Without ``rescues`` for each of the first few, as one may not be finite by itself.
    """
    watched = ClippedSums(net, {p: p.detach() for p in net.parameters() if p.requires_grad})
    try:
        for i in range(1 if rescues else len(x[:FEW])):
            _check_passes(watched, x, y, loss, i, [-1e3, math.inf], rescues)
        if len(x) > 1:
            _check_passes(watched, x, y, loss, -1, OUTLIERS, rescues)
    finally:
        watched.close()


def _check_passes(
    watched: ClippedSums, x: Tensor, y: Tensor, loss: Loss, i: int, factors: Sequence[float], rescues: bool = True
) -> None:
    """Loss and norm of example i in a step are the same where the others (b, ...) are multiplied by factors; or those
    of the others where the last one is, for i = -1. With ``rescues`` a step on a processor takes what is not finite by
    itself, so that others may spoil it.
    """
    due, *others = (_of_step(watched, x, y, loss, i, factor) for factor in (1.0, *factors))
    for found in others:
        if found is None:
            continue
        for of_due, of_found in zip(due, found, strict=True):
            if rescues and not of_found.isfinite().all() and not x.is_cuda:
                continue
            if not _same([of_due], [of_found], 1e-3):
                raise ParameterError(MIXED)


def _of_step(watched: ClippedSums, x: Tensor, y: Tensor, loss: Loss, i: int, factor: float) -> Tensor | None:
    """Loss and gradient norm (examples, 2) of example i, whose neighbours are multiplied by a factor, real targets as
    well, or of all but the last, for i = -1; None where these are impossible.
    """
    beside = _last_times if i < 0 else partial(_beside, i=i)
    targets = beside(y, factor=factor) if y.is_floating_point() else y.clone()
    try:
        with same_randomness(x.device), torch.no_grad():
            losses, _, norms, _ = watched._pass(beside(x, factor=factor), targets, loss)
    except IMPOSSIBLE as problem:
        if factor == 1:
            raise
        if isinstance(problem, ParameterError):
            raise ParameterError(MIXED) from problem
        return None
    both = torch.stack([losses, torch.zeros_like(losses) if norms is None else norms.to(losses.dtype)], 1)
    return both[:-1] if i < 0 else both[i : i + 1]


def _last_times(x: Tensor, factor: float) -> Tensor:
    """The batch (b, ...), its last example times a factor."""
    return torch.cat([x[:-1], x[-1:] * factor])


def _same(first: Sequence[Tensor], second: Sequence[Tensor], within: float) -> bool:
    """Whether two losses with their gradients agree, to a share of each one's norm; not finite agrees with such."""

    def differ(a: Tensor, b: Tensor) -> bool:
        if torch.equal(a, b):
            return False
        if not (length := a.norm()).isfinite():
            return bool(b.norm().isfinite())
        return not (a - b).norm() <= within * (length + 1e-3)

    return not any(differ(a, b) for a, b in zip(first, second, strict=True))


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
