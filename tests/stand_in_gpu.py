"""A GPU for machines that have none: "cuda" tensors whose numbers the processor computes.

PyTorch's fake tensors have no numbers, and experiments look at theirs. So here every tensor is a real one on the
processor, and its memory is noted to be "on the GPU" or not: by ``device=`` and ``.to``, and from then on by every
operation, the backward pass included. What a GPU refuses is refused with PyTorch's words: operands on two devices,
``.numpy()`` of a GPU's tensor, a generator of the other device, more memory than there is, a fork.

What a GPU would do without a word is written down in :class:`GPU`: products in fewer bits than float32, waits of the
host, draws from the GPU's own generator. Numbers are the processor's in float32 all the same, and so are random ones.
The names of ``torch.cuda``, and what of them is simulated, are in :mod:`tests.stand_in_cuda`.
"""

import contextlib
import functools
import itertools
import math
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

CPU, CUDA, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")
CAPACITY = 80 * 2**30  # bytes
# The sums that privacy rests on, by the names of the functions that make them.
PRIVATE = ("ClippedSums.add", "LogisticGrid.step", "Stack.add_clipped")
_COPIES = ("aten::copy_", "aten::_foreach_copy_", "aten::_to_copy")
_INDEXED = ("aten::index.", "aten::index_put")  # a GPU's tensor may be indexed by the processor's
_CONVOLUTIONS = ("aten::convolution", "aten::mkldnn_conv")
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv", "aten::mkldnn")
# What the host cannot go on without: a number, or how many there are.
_WAITED_FOR = (
    "aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique",
    "aten::unique", "aten::bincount", "aten::_linalg_check_errors",
)  # fmt: skip
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(contextlib.__file__).parent / "contextlib.py"))


class Generator(torch.Generator):
    """One that knows for which device it was made."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made.gpu = torch.device(device).type == "cuda"
        return made

    @property
    def device(self) -> torch.device:
        return CUDA if self.gpu else CPU


class Lowered(NamedTuple):
    """A product in fewer bits than float32: ``how``, at which line, and whether it is part of a private sum."""

    how: str
    place: str
    private: bool


class GPU:
    """What is on the GPU, and what was asked of it.

    Args:
        capacity: bytes of its memory. numbers: without, its tensors have shapes alone, so that they may be of any size;
            every number that is asked for is then 0.

    Attributes:
        products: matrix products and convolutions by the device that they were made on.
        lowered: those on the GPU in TF32, bfloat16 or float16, each with how often it was made.
        waits: how often the host waited for the GPU, by line.
        bytes, most_bytes: in memory now, and at most.
        generator: its default one, of which dropout draws.
        fresh: whether memory without a past is the GPU's: inside an operation on its tensors, or its backward pass.
        started: whether CUDA is in use, so that this process may not be forked.
        recording: the CUDA graph that is being captured.
        autocast: the type that it is on for, where the program is; operations do not see it any more.
    """

    def __init__(self, capacity: int = CAPACITY, numbers: bool = True):
        self.capacity, self.place = capacity, CPU if numbers else META
        self.products = {"cpu": 0, "cuda": 0}
        self.lowered: Counter[Lowered] = Counter()
        self.waits: Counter[str] = Counter()
        self.bytes = self.most_bytes = 0
        self.generator = Generator("cuda").manual_seed(2**40)  # as nobody would seed it
        self.fresh = self.started = self.unheard = False
        self.recording = self.autocast = None
        self.sync_debug_mode = 0
        self.kept: dict[int, tuple[weakref.ref, int]] = {}
        self._pinned: dict[int, weakref.ref] = {}
        self._first_state = self.generator.get_state()

    def has(self, tensor: Tensor) -> bool:
        return bool(self.kept) and storage_of(tensor)._cdata in self.kept

    def empty(self) -> bool:
        return not self.kept

    def put(self, tensor: Tensor, gpu: bool) -> Tensor:
        """Note where a tensor's memory is. torch.OutOfMemoryError where there is not so much."""
        storage = storage_of(tensor)
        key = storage._cdata
        if not gpu:
            self._forget(key)
        elif key not in self.kept:
            self.started = True
            self.check_room(size := storage.nbytes())
            self.kept[key] = weakref.ref(storage, lambda _: self._forget(key)), size
            self.bytes += size
            self.most_bytes = max(self.most_bytes, self.bytes)
        return tensor

    def _forget(self, key: int) -> None:
        self.bytes -= self.kept.pop(key, (None, 0))[1]

    def check_room(self, size: int) -> None:
        if self.bytes + size > self.capacity:
            gib = (f"{number / 2**30:.2f} GiB" for number in (size, self.capacity, self.capacity - self.bytes))
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
                "free.".format(*gib)
            )

    def pin(self, tensor: Tensor) -> Tensor:
        """Note that a tensor of the processor is in pages that stay: copies need not be waited for."""
        storage = storage_of(tensor)
        key = storage._cdata
        self._pinned[key] = weakref.ref(storage, lambda _: self._pinned.pop(key, None))
        return tensor

    def is_pinned(self, tensor: Tensor) -> bool:
        return storage_of(tensor)._cdata in self._pinned

    def wait(self, why: str) -> None:
        """The host waits until the GPU has done all that it was asked for; a CUDA graph cannot hold that."""
        if self.unheard:
            return
        if self.recording is not None:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({why})")
        self.waits[_place()] += 1
        if self.sync_debug_mode:
            if self.sync_debug_mode == 2:
                raise RuntimeError("called a synchronizing CUDA operation")
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)

    def copied(self, host: Tensor | None, non_blocking: bool) -> None:
        """A copy between a tensor of the processor and the GPU: waited for unless it is asked not to, and pinned."""
        if not (non_blocking and host is not None and self.is_pinned(host)):
            self.wait("a copy between devices")

    def product(self, kind: str, given: Iterable[Tensor], there: bool) -> None:
        self.products["cuda" if there else "cpu"] += 1
        if there and (how := _how_lowered(kind, given, self.autocast)):
            private = any(frame.f_code.co_qualname in PRIVATE for frame in _frames())
            self.lowered[Lowered(how, _place(), private)] += 1

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Inside, PyTorch's default generator is the GPU's."""
        state = torch.default_generator.get_state()
        torch.default_generator.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(state)

    def faults(self) -> list[str]:
        """What nobody may do on a GPU: private sums in fewer bits, and a default generator that is not left as it was;
        it is as it is from here on."""
        values = [f"{one.how} in a private sum at {one.place}" for one in self.lowered if one.private]
        state = self.generator.get_state()
        if not torch.equal(state, self._first_state):
            values.append("the GPU's default generator is not as it was")
        self._first_state = state
        return values


def storage_of(tensor: Tensor) -> torch.UntypedStorage:
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # of torch.func
        tensor = torch._C._functorch.get_unwrapped(tensor)
    with torch._C.DisableTorchFunctionSubclass():  # lazy parameters refuse to be asked
        return tensor.untyped_storage()


def _frames() -> Iterator[Any]:
    frame = sys._getframe(1)
    while frame := frame.f_back:
        yield frame


def _place() -> str:
    """The line of this project, or of a notebook, at which PyTorch was called."""
    for frame in _frames():
        path = frame.f_code.co_filename
        if path not in (__file__, _LIBRARIES[1]) and not path.startswith(_LIBRARIES[0]):
            return f"{Path(path).name}:{frame.f_lineno} {frame.f_code.co_qualname}"
    return "?"


def _how_lowered(kind: str, given: Iterable[Tensor], autocast: torch.dtype | None) -> str:
    """In what a GPU multiplies instead of float32; empty where it does not."""
    types = {tensor.dtype for tensor in given if tensor.is_floating_point()}
    if autocast and torch.float64 not in types:
        return str(autocast)
    if few := types & {torch.bfloat16, torch.float16}:
        return str(few.pop())
    backend = torch.backends.cudnn.conv if kind == "convolution" else torch.backends.cuda.matmul
    return "TF32" if torch.float32 in types and backend.fp32_precision == "tf32" else ""


class _Kind(NamedTuple):
    """What is to be known of an operation."""

    name: str
    product: str
    copies: bool
    indexed: bool
    pointwise: bool
    in_place: bool
    random: bool
    waited_for: bool
    no_memory: bool


@functools.cache
def _kind(func: torch._ops.OpOverload) -> _Kind:
    name = str(func.name())
    return _Kind(
        name,
        "convolution" if name.startswith(_CONVOLUTIONS) else "product" if name.startswith(_PRODUCTS) else "",
        name.startswith(_COPIES),
        name.startswith(_INDEXED),
        torch.Tag.pointwise in func.tags,
        name.split(".")[0].endswith("_"),
        torch.Tag.nondeterministic_seeded in func.tags,
        name.startswith(_WAITED_FOR),
        func.is_view or name.endswith("out"),
    )


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


class Operations(TorchDispatchMode):
    """Every operation, those of the backward pass, too: its operands share a device, and so do its results."""

    def __init__(self, gpu: GPU):
        super().__init__()
        self.gpu = gpu

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to import what compiles takes seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, gpu, kind = kwargs or {}, self.gpu, _kind(func)
        with torch._C.DisableTorchFunction():
            if gpu.empty() and not gpu.fresh:
                gpu.products["cpu"] += bool(kind.product)
                return func(*args, **kwargs)
            given = [*tensors_in(args), *tensors_in(kwargs.values())]
            keys = [tensor.untyped_storage()._cdata for tensor in given]
            on_gpu = [key in gpu.kept for key in keys]
            if any(on_gpu) and not all(on_gpu):
                self._check(kind, args, given, on_gpu)
            there = (on_gpu[0] if kind.copies else any(on_gpu)) if given else gpu.fresh
            self._look(kind, there, given, on_gpu, args, kwargs)
            out = self._made(func, kind, there, given, args, kwargs)
            for tensor in tensors_in((out,)):
                if there and tensor.untyped_storage()._cdata not in keys:
                    gpu.put(tensor, True)
            return out

    def _check(self, kind: _Kind, args, given: list[Tensor], on_gpu: list[bool]) -> None:
        """Operands share a device."""
        pairs = list(zip(given, on_gpu, strict=True))
        if kind.copies:
            return
        if kind.indexed and on_gpu[0]:
            bound = {there for one, there in pairs if one.is_floating_point() or there}
        elif kind.pointwise:  # a number of the processor goes to the GPU by itself, but not back
            written = args[0] if kind.in_place else None
            bound = {there for one, there in pairs if one.dim() or there or one is written}
        else:
            bound = set(on_gpu)
        if len(bound) > 1:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"({kind.name})"
            )

    def _look(self, kind: _Kind, there: bool, given: list[Tensor], on_gpu: list[bool], args, kwargs) -> None:
        """Write down what an operation means for a GPU."""
        gpu = self.gpu
        if kind.product:
            gpu.product(kind.product, given, there)
        if kind.copies and len(set(on_gpu)) > 1 and kind.name.startswith("aten::copy_"):
            gpu.copied(given[there], kwargs.get("non_blocking", args[2] if len(args) > 2 else False))
        if not there:
            return
        if kind.waited_for or (kind.indexed and self._counts_or_carries(args, given, on_gpu)):
            gpu.wait(kind.name)
        if kind.name.startswith("aten::repeat_interleave.Tensor") and kwargs.get("output_size") is None:
            gpu.wait(kind.name)

    @staticmethod
    def _counts_or_carries(args, given: list[Tensor], on_gpu: list[bool]) -> bool:
        """Of an index: by true and false, which are counted first, or by the processor's, which is carried over."""
        indices = range(1, 1 + sum(arg is not None for arg in args[1]))
        return any(given[i].dtype in (torch.bool, torch.uint8) or not on_gpu[i] for i in indices)

    def _made(self, func, kind: _Kind, there: bool, given: list[Tensor], args, kwargs) -> Any:
        gpu = self.gpu
        if not there:
            return func(*args, **kwargs)
        if gpu.place == META:
            if kind.name == "aten::_local_scalar_dense":
                return torch.zeros((), dtype=args[0].dtype).item()
        elif _may_be_large(kind, given, args, gpu.capacity):
            gpu.check_room(_asked(func, args, kwargs))
        call = functools.partial(self._drawn, func, *args) if kind.random else functools.partial(func, *args)
        if gpu.recording is not None:
            return gpu.recording.record(call, func, args, kwargs)
        return call(**kwargs)

    def _drawn(self, func, *args, **kwargs) -> Any:
        """Random numbers of the generator that is given, or of the GPU's default one."""
        generator = kwargs.get("generator")
        if self.gpu.recording is not None:
            self.gpu.recording.check_generator(generator or self.gpu.generator)
        with self.gpu.drawing() if generator is None else contextlib.nullcontext():
            return func(*args, **kwargs)


def _may_be_large(kind: _Kind, given: list[Tensor], args, capacity: int) -> bool:
    """Whether an operation may ask for more than there is: quick, and hardly ever wrong where it says no."""
    if kind.no_memory:
        return False
    numbers = sorted(tensor.numel() for tensor in given)
    if kind.product:
        return 16 * numbers[-1] * max(size for tensor in given for size in tensor.shape) > capacity
    if kind.pointwise:
        sizes = itertools.zip_longest(*(reversed(tensor.shape) for tensor in given), fillvalue=1)
        return 16 * math.prod(map(max, sizes)) > capacity
    bound = 16 * (1 if kind.name.startswith("aten::new_") else math.prod(numbers[-2:]))
    for value in args:
        if type(value) is int:
            bound *= max(1, abs(value))
        elif type(value) is list and value and type(value[0]) is int:
            bound *= math.prod(max(1, abs(size)) for size in value)
    return bound > capacity


def _asked(func, args, kwargs) -> int:
    """Bytes of new memory that an operation asks for, by the shapes alone; 0 where they do not tell."""

    def shape(tensor: Tensor) -> Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)

    shapes, named = tree_map_only(Tensor, shape, (args, kwargs))
    named = {**named, **({"device": META} if "device" in named else {})}
    try:
        out = func(*shapes, **named)
    except (RuntimeError, NotImplementedError):
        return 0
    old = {storage_of(tensor)._cdata for tensor in tensors_in((*shapes, *named.values()))}
    return sum(storage_of(tensor).nbytes() for tensor in tensors_in((out,)) if storage_of(tensor)._cdata not in old)


_MOVES = (Tensor.to, Tensor.cpu, Tensor.cuda)
_FROM_HOST = (torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor)


class Functions(TorchFunctionMode):
    """What names a device, asks for it or leaves it."""

    def __init__(self, gpu: GPU):
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        pinned = kwargs.pop("pin_memory", False)
        own = args[0] if args and isinstance(args[0], Tensor) else None
        there = own is not None and self.gpu.has(own)
        self.gpu.autocast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        if func in _ASKED:
            return _ASKED[func](self, func, own, there, args, kwargs)
        asked = kwargs.get("device")
        wanted = there if asked is None else torch.device(asked).type == "cuda"
        if (generator := kwargs.get("generator")) is not None and getattr(generator, "gpu", False) != wanted:
            kinds = ("cuda", "cpu") if wanted else ("cpu", "cuda")
            raise RuntimeError("Expected a '{}' device type for generator but found '{}'".format(*kinds))
        to_gpu, gpu = wanted, self.gpu
        if asked is None or torch.device(asked).type == "meta":
            first = own if own is not None else next(tensors_in(args), None)
            to_gpu = first is not None and gpu.has(first)
        else:
            kwargs["device"] = gpu.place if wanted else CPU
        before, gpu.fresh = gpu.fresh, to_gpu
        try:
            out = func(*args, **kwargs)
        finally:
            gpu.fresh = before
        if func in _FROM_HOST and wanted and (func is Tensor.new_tensor or not there):
            gpu.copied(None, False)
        if asked is not None and wanted != gpu.has(out) and func in (torch.as_tensor, torch.asarray):
            out = out.clone()  # it may be the given memory
        if (asked is not None and torch.device(asked).type != "meta") or func is Tensor.new_tensor:
            gpu.put(out, wanted)
        return gpu.pin(out) if pinned else out

    def _device(self, func, own, there: bool, args, kwargs) -> torch.device:
        return CUDA if there else func(own)

    def _is(self, func, own, there: bool, args, kwargs) -> bool:
        return func(own) if not there else func == Tensor.is_cuda.__get__

    def _numpy(self, func, own, there: bool, args, kwargs):
        if there:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        return func(*args, **kwargs)

    def _list(self, func, own, there: bool, args, kwargs) -> list:
        if there:
            self.gpu.wait("tolist")
            own = own.cpu() if self.gpu.place == META else own
        return func(own)

    def _address(self, func, own: Tensor, there: bool, args, kwargs) -> int:
        """One for each memory, also where it has no numbers."""
        return storage_of(own)._cdata + own.storage_offset() if there else func(own)

    def _copy(self, func, own, there: bool, args, kwargs) -> Tensor:
        return self.gpu.put(func(*args, **kwargs), there)

    def _one_hot(self, func, own: Tensor, there: bool, args, kwargs) -> Tensor:
        """With a number of classes, the processor looks at the labels, but a GPU does not."""
        gpu = self.gpu
        before = gpu.fresh, gpu.unheard
        gpu.fresh, gpu.unheard = there, kwargs.get("num_classes", args[1] if len(args) > 1 else -1) > 0
        try:
            return func(*args, **kwargs)
        finally:
            gpu.fresh, gpu.unheard = before

    def _moved(self, func, own: Tensor, there: bool, args, kwargs) -> Tensor:
        wanted, kept = {Tensor.cpu: False, Tensor.cuda: True}.get(func, there), {}
        for one in [*args[1:], *kwargs.values()]:
            if isinstance(one, str | torch.device):
                wanted = torch.device(one).type == "cuda"
            elif isinstance(one, Tensor):
                wanted, kept["dtype"] = self.gpu.has(one), one.dtype
            elif isinstance(one, torch.dtype):
                kept["dtype"] = one
            elif isinstance(one, torch.memory_format):
                kept["memory_format"] = one
        if wanted == there and not kwargs.get("copy"):
            return Tensor.to(own, **kept) if kept else own
        kept = {"dtype": own.dtype, **kept}
        if wanted != there and not (there and kwargs.get("non_blocking")):  # PyTorch pins the copy on the processor
            self.gpu.copied(None if there else own, kwargs.get("non_blocking", False))
        if self.gpu.place == META and wanted != there:
            if not wanted:
                return torch.zeros(own.shape, dtype=kept["dtype"])
            return self.gpu.put(Tensor.to(own, META, **kept), True)
        return self.gpu.put(Tensor.to(own, **kept, copy=True), wanted)


_ASKED = {
    Tensor.device.__get__: Functions._device,
    **dict.fromkeys((Tensor.is_cuda.__get__, Tensor.is_cpu.__get__, Tensor.is_meta.__get__), Functions._is),
    **dict.fromkeys((Tensor.numpy, Tensor.__array__), Functions._numpy),
    **dict.fromkeys(_MOVES, Functions._moved),
    Tensor.tolist: Functions._list,
    Tensor.data_ptr: Functions._address,
    Tensor.__deepcopy__: Functions._copy,
    torch.nn.functional.one_hot: Functions._one_hot,
}


@contextlib.contextmanager
def present(**settings: Any) -> Iterator[GPU]:
    """Inside, this machine has a GPU; for the settings see :class:`GPU`."""
    from tests import stand_in_cuda

    gpu = GPU(**settings)
    with contextlib.ExitStack() as stack:
        for name, value in stand_in_cuda.names(gpu).items():
            stack.enter_context(mock.patch(name, value))
        stack.enter_context(Operations(gpu))
        stack.enter_context(Functions(gpu))
        yield gpu
