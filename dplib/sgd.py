"""Training without privacy: plain SGD on arrays, on a CPU or a GPU.

Every seed is an argument, and PyTorch's global generators stay as they were. On one CPU thread the same seed gives the
same bytes; on a GPU sums may be added in another order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks, examples, failing
from dplib.devices import LABELLED, whole_float32
from dplib.progress import tqdm

PADDING = 4  # pixels, the usual amount for CIFAR


@dataclass(frozen=True)
class Sgd:
    """SGD with Nesterov momentum 0.9; the learning rate rises to ``learning_rate`` and falls to 0 (OneCycle).

    Args:
        epochs: passes over the data, at least 1.
        batch_size: examples of a step, at least 2.
        learning_rate: the largest, in the middle of the schedule, in [1e-30, 1e30].
        weight_decay: times half the squared norm of the weights is added to the loss, >= 0.
        augment: random crops out of the padded image, and mirror images: for photographs.
        precision: "float32"; "bfloat16" runs the forward pass in it by autocast, never by itself.

    Raises:
        ParameterError: for a setting outside its range.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.1
    weight_decay: float = 5e-4
    augment: bool = False  # random crops out of the padded image, and mirror images: for photographs
    precision: str = "float32"  # "bfloat16" runs the forward pass in it by autocast; never by itself

    def __post_init__(self):
        checks.integer(1, 10**9).check("epochs", self.epochs)
        checks.integer(2, 10**9).check("batch_size", self.batch_size)
        checks.number(1e-30, 1e30).check("learning_rate", self.learning_rate)
        checks.number(0, 1e30).check("weight_decay", self.weight_decay)
        checks.boolean().check("augment", self.augment)
        checks.one_of("float32", "bfloat16").check("precision", self.precision)


@checks.bounded(seed=checks.integer(0))
@whole_float32()
def train(net: nn.Module, x: np.ndarray, y: np.ndarray, sgd: Sgd, seed: int, device: torch.device) -> None:
    """Train ``net`` in place with the cross-entropy loss, and leave it on ``device``.

    Args:
        net: maps (batch, ...) to scores (batch, k).
        x: (n, ...) in float32; images are (n, channels, height, width).
        y: labels, shape (n,), whole numbers from 0 to k - 1.
        sgd: the settings. Of every epoch's random order the last, incomplete batch is left out.
        seed: decides the order of the examples and the augmentation, >= 0.
        device: where it trains.

    Raises:
        ParameterError: for a seed outside its range, no examples, labels that are no whole numbers from 0 to k - 1,
            (n,), or examples that cannot be augmented, or that the network does not take.
    """
    if sgd.augment and (x.ndim != 4 or min(x.shape[2:]) <= PADDING):
        raise checks.ParameterError(f"augment = True is not allowed: examples of shape {x.shape[1:]} are no images.")
    x, y = torch.as_tensor(x).to(device), torch.as_tensor(y).to(device)
    if not len(x):
        raise checks.ParameterError(f"x of shape {tuple(x.shape)} is not allowed: there must be examples.")
    if y.is_floating_point() or y.shape != x.shape[:1]:
        raise checks.ParameterError(
            f"y of {y.dtype}, shape {tuple(y.shape)}, is not allowed: it must be whole numbers, ({len(x)},)."
        )
    y = y.long()
    kept = examples.layout_of(net, x)
    net.to(device, memory_format=kept).eval()
    with torch.no_grad(), failing.named(net):
        scores = net(examples.follow(x[:1].clone(), kept))
    examples.check_labels(y, scores.shape[-1], "train")
    net.train()
    batch = min(sgd.batch_size, len(x))
    steps = len(x) // batch
    optimizer = torch.optim.SGD(
        net.parameters(), sgd.learning_rate, momentum=0.9, nesterov=True, weight_decay=sgd.weight_decay,
        fused=device.type == "cuda" or None,  # on the processor its last digits are others
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, sgd.learning_rate, total_steps=sgd.epochs * steps, cycle_momentum=False
    )
    generator = torch.Generator(device).manual_seed(int(seed))
    for _ in tqdm(range(sgd.epochs), desc="epochs", leave=False, delay=2):
        order = torch.randperm(len(x), generator=generator, device=device)
        for rows in order[: steps * batch].view(steps, batch):
            inputs = examples.follow(_augmented(x[rows], generator) if sgd.augment else x[rows], kept)
            with torch.autocast(device.type, torch.bfloat16, enabled=sgd.precision == "bfloat16"):
                loss = nn.functional.cross_entropy(net(inputs), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


@checks.bounded(batch_size=checks.integer(1))
@whole_float32()
@torch.inference_mode()
def outputs(net: nn.Module, x: np.ndarray, device: torch.device, batch_size: int | None = None) -> np.ndarray:
    """net(x) in float32, (n, ...) to (n, k), in evaluation mode.

    Args:
        net: examples (b, ...) to outputs (b, k).
        x: examples, shape (n, ...).
        device: where it computes; the network is moved there.
        batch_size: examples that go through at once; None for what the device does well.

    Raises:
        ParameterError: for a value outside its range.
    """
    net.to(device).eval()
    parts = torch.as_tensor(x).split(int(batch_size or LABELLED.on(device)))
    # Copies: a network may begin with an activation in place.
    return torch.cat([net(part.to(device, copy=True)) for part in parts]).cpu().numpy()


@checks.bounded(seed=checks.integer(0))
def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """build(), with initial weights of the seed alone; PyTorch's global generator is borrowed, and left as it was.

    Args:
        build: makes the network; called once.
        seed: of PyTorch's generator on the processor, >= 0.

    Raises:
        ParameterError: for a value outside its range.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))
        return build()


def _augmented(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image (n, c, h, w) cropped at random out of itself padded, and mirrored with probability one half."""
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (PADDING,) * 4, mode="reflect")
    views = padded.unfold(2, height, 1).unfold(3, width, 1)  # (n, c, top, left, h, w), without a copy
    places = 2 * PADDING + 1
    draw = partial(torch.randint, size=(n,), generator=generator, device=x.device)
    top, left, mirrored = (draw(k) for k in (places, places, 2))
    crops = views[torch.arange(n, device=x.device), :, top, left]
    return torch.where(mirrored.bool()[:, None, None, None], crops.flip(3), crops)
