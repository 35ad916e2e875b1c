"""Where work is done, the processor or a GPU, and that float32 stays float32 there.

The figures of :func:`worth_a_gpu` were reckoned before anybody had a GPU, and kept: one H200 has 1.45 ms for a step,
beside a core of 4.8e10 operations a second (``book/results/gpu.json``).
"""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dplib import checks
from dplib.checks import ParameterError

# A core of 2023 does 2e10 (a small CNN) to 1e11 (a wide perceptron) floating point operations a second in our steps.
# Reckoned: the seconds that a GPU takes for a step of some 90 kernels, however small they are, and those that CUDA
# takes to begin.
CORE, STEP, START = 4e10, 1.5e-3, 10.0


class Size(NamedTuple):
    """How many examples, or numbers, to take at once: what suits a core's cache, and what a GPU's memory is good for,
    which small pieces would keep waiting.

    Args:
        processor: how many on a processor.
        gpu: how many on a GPU.
    """

    processor: int
    gpu: int

    def on(self, place: torch.device) -> int:
        """The one of a device.

        Args:
            place: the device.
        """
        return self.processor if place.type == "cpu" else self.gpu


# All of the library's; those of the processor are measured, those of a GPU reckoned for 16 GB and networks like
# ResNet-18. The processor's decide in which order sums are added, and so the last digits of runs that are kept.
TRAINED_IMAGES, TRAINED_ROWS = Size(512, 2048), Size(2048, 16_384)  # with their gradients
EVALUATED, JUDGED, SCORED, LABELLED = Size(2048, 8192), Size(512, 8192), Size(1000, 8192), Size(512, 8192)  # without
PRODUCTS = Size(2**19, 2**26)  # numbers, where a product is made example by example
KEPT = Size(2**22, 2**26)  # numbers of a layer's per-example gradients that stay from the norms to the sum
SINGLE_GRADIENTS = Size(64, 1024)  # of examples whose gradients are all stored
NEWTON = Size(2**18, 2**25)  # float64 numbers in one array
MANY = Size(2**24, 2**29)  # numbers of many models side by side


class Work(NamedTuple):
    """How much there is to do: floating point operations a step, and steps.

    Args:
        operations: floating point operations of a step.
        steps: how many steps.
    """

    operations: float
    steps: int


def worth_a_gpu(works: Iterable[Work]) -> bool:
    """Whether one core would spend more time on all of this than a GPU spends on beginning, and on launching steps.

    Args:
        works: all that is to be done.
    """
    return sum(steps * (operations / CORE - STEP) for operations, steps in works) > START


def find_device(device: str, work: Work | None = None) -> torch.device:
    """The device that a name means.

    Args:
        device: "cpu"; "cuda"; or "auto", a GPU where there is one and ``work`` is large enough to gain by it.
        work: None where it is not known: "auto" is the processor then.

    Raises:
        ParameterError: for another name, or a GPU that is not there.
    """
    checks.one_of("auto", "cpu", "cuda").check("device", device)
    there = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ParameterError("device = 'cuda' is not allowed: PyTorch sees no GPU here; use 'auto' or 'cpu'.")
    gpu = there and (device == "cuda" or (work is not None and worth_a_gpu([work])))
    return torch.device("cuda" if gpu else "cpu")


def training_work(net: nn.Module, x: np.ndarray | Tensor, batch: float, steps: int) -> Work:
    """How much a training is: forward, and twice as much backward. Evaluations are not counted.

    Args:
        net: the network.
        x: its examples, shape (n, ...), n at least 1.
        batch: examples of a step, on average.
        steps: how many steps.
    """
    from torch.utils.flop_counter import FlopCounterMode

    like, training = next(net.parameters()), net.training
    example = torch.as_tensor(x[:1])
    example = example.to(like.device, like.dtype if example.is_floating_point() else torch.int64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net.eval()(example)
    net.train(training)
    return Work(3.0 * counter.get_total_flops() * batch, steps)


class _Switch(NamedTuple):
    """What says since torch 2.9 how one kind of product of float32 is made; "none" is what ``above`` it says."""

    at: Any
    above: Any
    read: Callable[[], str]

    def put(self, precision: str) -> None:
        """Set it to what it read before."""
        if self.read() != precision:
            self.at.fp32_precision = "none" if precision == self.above.fp32_precision else precision


def _switches() -> list[_Switch]:
    """Of a GPU's products and the processor's; none before torch 2.9."""
    cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
    if not hasattr(cuda.matmul, "fp32_precision"):
        return []
    above = {"cuda": cudnn, "mkldnn": mkldnn}
    kinds = {("cuda", "matmul"): cuda.matmul} | {
        (backend, kind): getattr(above[backend], kind)
        for backend, kind in (("cuda", "conv"), ("cuda", "rnn"), *(("mkldnn", k) for k in ("matmul", "conv", "rnn")))
    }
    # Read at every step: what the attribute calls is several times as fast as the attribute.
    read = getattr(torch._C, "_get_fp32_precision_getter", None)
    return [
        _Switch(at, above[name[0]], partial(read, *name) if read else partial(getattr, at, "fp32_precision"))
        for name, at in kinds.items()
    ]


SWITCHES = _switches()
_READ_ALL = [switch.read for switch in SWITCHES]
_READ_PROCESSORS = [switch.read for switch in SWITCHES if switch.above is torch.backends.mkldnn]
_WHOLE = ("ieee", "none")


class whole_float32(contextlib.ContextDecorator):
    """Inside, float32 is multiplied as it is; also a decorator. For every sum that privacy or a verdict rests on.

    TF32 cuts factors to 11 bits, bfloat16 to 8, so that clipped gradients exceed the norm and a small difference of
    two losses is rounding. Both switches are turned off, the one since torch 2.9 (``fp32_precision``) and the one
    before (``allow_tf32`` and ``torch.set_float32_matmul_precision``, which the processor follows, too); afterwards
    they are as they were. cuDNN does not try its algorithms out: it would again for each new size of a batch, and
    nearly every Poisson batch has one.

    Args:
        gpu: False where nothing inside runs on a GPU, whose switches are then let alone: by default some of them cut,
            and turning them at each step is dear.

    Raises:
        ParameterError: where autocast is on.
    """

    def __init__(self, gpu: bool = True):
        self._gpu = gpu
        self._turned: contextlib.AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        if torch.is_autocast_enabled("cpu") or (self._gpu and torch.is_autocast_enabled("cuda")):
            refuse_autocast()
        whole = all(read() in _WHOLE for read in (_READ_ALL if self._gpu else _READ_PROCESSORS))
        if not SWITCHES or not whole or (self._gpu and torch.backends.cudnn.benchmark):  # else as within another one
            self._turned = _all_turned_off()
            self._turned.__enter__()

    def __exit__(self, *problem: Any) -> None:
        if self._turned is not None:
            self._turned.__exit__(*problem)

    def _recreate_cm(self) -> "whole_float32":
        return whole_float32(self._gpu)  # for each call of what it decorates


@contextlib.contextmanager
def _all_turned_off() -> Iterator[None]:
    before = [(switch, switch.read()) for switch in SWITCHES]
    cutting = [(switch, precision) for switch, precision in before if precision not in _WHOLE]
    benchmark = torch.backends.cudnn.benchmark
    old = _old_matmul(), _old_convolutions()
    try:
        _put_old(old, "highest", False)
        for switch, _ in cutting:
            if switch.read() not in _WHOLE:
                switch.at.fp32_precision = "ieee"
        if benchmark:
            torch.backends.cudnn.benchmark = False
        yield
    finally:
        _put_old(old, *old)
        for switch, precision in cutting if old[0] in ("highest", None) else before:
            switch.put(precision)
        if benchmark:
            torch.backends.cudnn.benchmark = True


def refuse_autocast() -> None:
    """Refuse to go on where autocast is on, on the processor or a GPU.

    Raises:
        ParameterError: naming the kind of device.
    """
    for kind in ("cpu", "cuda"):
        if torch.is_autocast_enabled(kind):
            raise ParameterError(
                f"torch.autocast is on ({kind}, {torch.get_autocast_dtype(kind)}): products of few bits bound no "
                "clipped sum and carry no verdict; leave it out around this call."
            )


def _old_matmul() -> str | None:
    """The switch of products before torch 2.9; None where it cannot be read, since those of today say otherwise."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _old_convolutions() -> bool | None:
    """As :func:`_old_matmul`, of convolutions and recurrent layers."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None


def _put_old(before: tuple[str | None, bool | None], matmul: str | None, convolutions: bool | None) -> None:
    """Set those of the old switches that cut ``before`` and could be read."""
    if before[0] not in ("highest", None):
        torch.set_float32_matmul_precision(matmul)
    if before[1]:
        torch.backends.cudnn.allow_tf32 = convolutions


@contextlib.contextmanager
def same_randomness(device: torch.device, seed: int = 0) -> Iterator[None]:
    """Inside, random layers on a device draw the same numbers each time; outside, as if nothing had been drawn. Code
    that asks Python or NumPy (to leave out a layer) does so, too.

    Where they are on the processor, a GPU's generator is let alone: torch.manual_seed would set it, too.

    Args:
        device: where the layers are.
        seed: of the numbers that are drawn inside.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (what other code draws from)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed takes longer than a forward pass
            if device.type == "cuda":
                torch.cuda.manual_seed_all(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


def random_state(device: torch.device) -> tuple[object, ...]:
    """Where all global generators stand that code on a device may draw from; to be compared.

    Args:
        device: whose generators count, beside those of the processor.
    """
    states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return (*(state.numpy().tobytes() for state in states), random.getstate(), keys.tobytes(), position)
