"""A GPU for machines that have none: "cuda" tensors whose numbers the processor computes.

PyTorch's fake tensors have no numbers, and experiments look at theirs. So here every tensor is a real one on the
processor, and its memory is noted to be "on the GPU" or not: by ``device=`` and ``.to``, and from then on by every
operation, the backward pass included. What a GPU refuses is refused with PyTorch's words: operands on two devices,
``.numpy()`` of a GPU's tensor, a generator of the other device. Random numbers are those of the processor.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
_COPIES = ("aten::copy_", "aten::_foreach_copy_", "aten::_to_copy")
_INDEXED = ("aten::index.", "aten::index_put")  # a GPU's tensor may be indexed by the processor's
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::mv", "aten::mkldnn")


class Generator(torch.Generator):
    """One that knows for which device it was made."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made.gpu = torch.device(device).type == "cuda"
        return made


class Autocast(torch.autocast):
    """None: numbers stay in float32, as on the processor."""

    def __init__(self, device_type, *args, **named):
        super().__init__("cpu", enabled=False)


class Memory:
    """What is on the GPU.

    Attributes:
        products: matrix products and convolutions by the device that they were made on.
        fresh: whether memory without a past is the GPU's: inside an operation on its tensors, or its backward pass.
    """

    def __init__(self):
        self.fresh = False
        self._kept: dict[int, StorageWeakRef] = {}  # a weak reference keeps the address from being used again
        self.products = {"cpu": 0, "cuda": 0}

    def has(self, tensor: Tensor) -> bool:
        return _storage(tensor)._cdata in self._kept

    def put(self, tensor: Tensor, gpu: bool) -> Tensor:
        storage = _storage(tensor)
        if gpu:
            self._kept[storage._cdata] = StorageWeakRef(storage)
        else:
            self._kept.pop(storage._cdata, None)
        return tensor


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # of torch.func
        tensor = torch._C._functorch.get_unwrapped(tensor)
    with torch._C.DisableTorchFunctionSubclass():  # lazy parameters refuse to be asked
        return tensor.untyped_storage()


class Operations(TorchDispatchMode):
    """Every operation, those of the backward pass, too: its operands share a device, and so do its results."""

    def __init__(self, memory: Memory):
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            name = str(func.name())
            given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
            places = {self.memory.has(one) for one in self._bound(func, name, args, given)}
            if len(places) > 1:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                    f"({name})"
                )
            gpu = any(self.memory.has(one) for one in given[: 1 if name.startswith(_COPIES) else None])
            gpu = gpu if given else self.memory.fresh
            if name.startswith(_PRODUCTS):
                self.memory.products["cuda" if gpu else "cpu"] += 1
            old = {_storage(one)._cdata for one in given}
            out = func(*args, **kwargs)
            for one in tree_leaves(out):
                if isinstance(one, Tensor) and _storage(one)._cdata not in old:
                    self.memory.put(one, gpu)
            return out

    def _bound(self, func, name: str, args, given: list[Tensor]) -> list[Tensor]:
        """The operands that must share a device."""
        if name.startswith(_COPIES):
            return []
        if name.startswith(_INDEXED) and self.memory.has(args[0]):
            return [one for one in given if one.is_floating_point() or self.memory.has(one)]
        if torch.Tag.pointwise in func.tags:  # a number of the processor goes to the GPU by itself, but not back
            written = args[0] if name.split(".")[0].endswith("_") else None
            return [one for one in given if one.dim() or self.memory.has(one) or one is written]
        return given


class Functions(TorchFunctionMode):
    """What names a device, asks for it or leaves it."""

    def __init__(self, memory: Memory):
        super().__init__()
        self.memory = memory

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        own = args[0] if args and isinstance(args[0], Tensor) else None
        gpu = own is not None and self.memory.has(own)
        if func == Tensor.device.__get__:
            return CUDA if gpu else func(own)
        if func in (Tensor.is_cuda.__get__, Tensor.is_cpu.__get__):
            return gpu == (func == Tensor.is_cuda.__get__)
        if gpu and func in (Tensor.numpy, Tensor.__array__):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return self._moved(func, own, gpu, args[1:], kwargs)
        if func is Tensor.__deepcopy__:
            return self.memory.put(func(*args, **kwargs), gpu)
        asked = kwargs.get("device")
        wanted = gpu if asked is None else torch.device(asked).type == "cuda"
        self._check_generator(kwargs.get("generator"), wanted)
        if asked is None or torch.device(asked).type == "meta":
            before, first = self.memory.fresh, next((a for a in tree_leaves(args) if isinstance(a, Tensor)), None)
            self.memory.fresh = first is not None and self.memory.has(first)
            try:
                out = func(*args, **kwargs)
            finally:
                self.memory.fresh = before
            return self.memory.put(out, gpu) if func is Tensor.new_tensor else out
        out = func(*args, **{**kwargs, "device": CPU})
        if wanted != self.memory.has(out) and func in (torch.as_tensor, torch.asarray):  # it may be the given memory
            out = out.clone()
        return self.memory.put(out, wanted)

    def _moved(self, func, own: Tensor, gpu: bool, args, kwargs) -> Tensor:
        wanted, kept = {Tensor.cpu: False, Tensor.cuda: True}.get(func, gpu), {}
        for one in [*args, *kwargs.values()]:
            if isinstance(one, str | torch.device):
                wanted = torch.device(one).type == "cuda"
            elif isinstance(one, Tensor):
                wanted, kept["dtype"] = self.memory.has(one), one.dtype
            elif isinstance(one, torch.dtype):
                kept["dtype"] = one
            elif isinstance(one, torch.memory_format):
                kept["memory_format"] = one
        if wanted == gpu and not kwargs.get("copy"):
            return Tensor.to(own, **kept) if kept else own
        return self.memory.put(Tensor.to(own, **{"dtype": own.dtype, **kept}, copy=True), wanted)

    @staticmethod
    def _check_generator(generator, wanted: bool) -> None:
        if generator is not None and getattr(generator, "gpu", False) != wanted:
            kinds = ("cuda", "cpu") if wanted else ("cpu", "cuda")
            raise RuntimeError("Expected a '{}' device type for generator but found '{}'".format(*kinds))


@contextlib.contextmanager
def present() -> Iterator[Memory]:
    """Inside, this machine has a GPU."""
    memory = Memory()
    stood_in = {
        "torch.Generator": Generator,
        "torch.autocast": Autocast,
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "torch.cuda.set_rng_state": lambda state, device=None: None,
        "torch.cuda.manual_seed_all": lambda seed: None,
    }
    with contextlib.ExitStack() as stack:
        for name, value in stood_in.items():
            stack.enter_context(mock.patch(name, value))
        stack.enter_context(Operations(memory))
        stack.enter_context(Functions(memory))
        yield memory
