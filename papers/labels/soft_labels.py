"""Training on soft or noisy labels: SGD with mixup, random crops, and paper C's learning-rate schedules (Appendix B).

Labels were randomised before (:mod:`dplib.stages`), so whatever :func:`fit` does is post-processing. Every seed
is an argument; PyTorch's global generators stay as they were. On one CPU thread the same seed gives the same bytes.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks
from dplib.devices import SCORED, whole_float32

Inputs = Tensor | tuple[Tensor, ...]
_WHOLE, _REAL = checks.integer(0), checks.number(0)
RULES = {
    "epochs": checks.integer(1), "batch_size": checks.integer(1), "learning_rate": checks.positive(),
    "weight_decay": _REAL, "warmup": checks.number(0, 0.99), "drops": checks.list_of(checks.fraction()),
    "mixup": _REAL, "shift": _WHOLE, "flip": checks.boolean(), "cutout": _WHOLE,
    "precision": checks.one_of("float32", "bfloat16"),
}  # fmt: skip


@whole_float32()
def fit(
    net: nn.Module,
    inputs: Inputs,
    targets: Tensor | np.ndarray,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float = 1e-4,
    warmup: float = 0.15,
    drops: Sequence[float] = (),
    mixup: float = 0.0,
    shift: int = 0,
    flip: bool = False,
    cutout: int = 0,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
    precision: str = "float32",
) -> None:
    """Train ``net`` in place by minibatch SGD with momentum and l2 regularisation, and leave it in evaluation mode.

    Args:
        inputs: (n, ...), or a tuple of such tensors, which the network then gets as one argument each.
        targets: whole numbers 0 to K - 1, shape (n,), or soft labels, shape (n, K).
        epochs, batch_size: of every epoch's random order the last, incomplete batch is left out; a set smaller than a
            batch is one batch. learning_rate, warmup, drops: of :func:`rate`. shift, flip, cutout: of
            :func:`augmented`.
        mixup: a > 0 mixes each batch with a permutation of itself, inputs and labels alike, one weight from Beta(a, a).
        on_epoch: called with 1, 2, ... after each epoch. precision: "bfloat16" runs the forward pass in it by autocast.

    Raises ParameterError for a setting that is not allowed, or mixup of whole numbers.
    """
    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "weight_decay": weight_decay,
             "warmup": warmup, "mixup": mixup, "shift": shift, "flip": flip, "cutout": cutout,
             "precision": precision} | ({"drops": drops} if drops else {})  # fmt: skip
    for name, value in given.items():
        RULES[name].check(name, value)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    device, n = inputs[0].device, len(inputs[0])
    targets = torch.as_tensor(targets, device=device)
    if len(targets) != n or n == 0:
        raise checks.ParameterError(f"{n} inputs do not fit {len(targets)} targets: as many, and at least one.")
    if (mixup or shift or flip or cutout) and not all(x.is_floating_point() for x in inputs):
        raise checks.ParameterError("mixup and crops need inputs of floats: whole numbers cannot be mixed.")
    batch = min(batch_size, n)
    steps = n // batch
    order, mixing = torch.Generator(device).manual_seed(seed), np.random.default_rng([seed, 1])
    optimizer = torch.optim.SGD(net.parameters(), learning_rate, momentum=0.9, weight_decay=weight_decay, fused=True)
    step = 0
    for epoch in range(1, epochs + 1):
        net.train()
        for rows in torch.randperm(n, generator=order, device=device)[: steps * batch].view(steps, batch):
            optimizer.param_groups[0]["lr"] = rate(step, epochs * steps, learning_rate, warmup, drops)
            x, y = [augmented(x[rows], shift, flip, cutout, order) for x in inputs], targets[rows]
            if mixup:
                partner = torch.randperm(batch, generator=order, device=device)
                weight = mixing.beta(mixup, mixup)
                x = [torch.lerp(part[partner], part, weight) for part in x]
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                scores = net(*x)
            scores = scores.float()
            y = soft(y, scores.shape[1])
            if mixup:
                y = torch.lerp(y[partner], y, weight)
            value = nn.functional.cross_entropy(scores, y)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            step += 1
        net.eval()
        if on_epoch is not None:
            on_epoch(epoch)


def rate(step: int, steps: int, peak: float, warmup: float = 0.15, drops: Sequence[float] = ()) -> float:
    """The learning rate of step 0 to steps - 1: up from 0 to ``peak`` over the share ``warmup``, then linearly to 0
    (MNIST in Appendix B), or divided by 10 at each of the shares ``drops`` (CIFAR). Steps count from their
    middle: none has rate 0.
    """
    done = (step + 0.5) / steps
    if done < warmup:
        return peak * done / warmup
    if drops:
        return peak * 0.1 ** sum(done >= share for share in drops)
    return peak * (1 - done) / (1 - warmup)


@whole_float32()
@torch.inference_mode()
def logits(net: nn.Module, inputs: Inputs, batch_size: int | None = None) -> np.ndarray:
    """net(inputs) in evaluation mode, (n, K) float32."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    net.eval()
    size = batch_size or SCORED.on(inputs[0].device)
    parts = zip(*(x.split(size) for x in inputs), strict=True)
    return torch.cat([net(*part).float() for part in parts]).cpu().numpy()


def soft(targets: Tensor, classes: int) -> Tensor:
    """Targets as soft labels (n, classes) float32: whole numbers (n,) become one-hot rows."""
    return nn.functional.one_hot(targets.long(), classes).float() if targets.ndim == 1 else targets.float()


def augmented(x: Tensor, shift: int, flip: bool, cutout: int, generator: torch.Generator) -> Tensor:
    """Images (n, c, h, w), each moved by up to ``shift`` pixels (zeros come in), mirrored with probability one half,
    and with a square of zeros of side ``cutout`` at a random place, partly outside as it may fall; 0 or False: not.
    The generator is one of the images' device.
    """
    n, each = len(x), torch.arange(len(x), device=x.device)
    if shift:
        views = nn.functional.pad(x, (shift,) * 4).unfold(2, x.shape[2], 1).unfold(3, x.shape[3], 1)  # without a copy
        top, left = torch.randint(2 * shift + 1, (2, n), generator=generator, device=x.device)
        x = views[each, :, top, left]
    if flip:
        mirrored = torch.randint(2, (n, 1, 1, 1), generator=generator, device=x.device).bool()
        x = torch.where(mirrored, x.flip(3), x)
    if cutout:
        inside = [_window(n, size, cutout, generator) for size in x.shape[2:]]
        x = x.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0)
    return x


def _window(n: int, size: int, length: int, generator: torch.Generator) -> Tensor:
    """For each of n, which of ``size`` places lie in a window of ``length`` around a random place; bool (n, size)."""
    start = torch.randint(size, (n, 1), generator=generator, device=generator.device) - length // 2
    place = torch.arange(size, device=generator.device)
    return (place >= start) & (place < start + length)
