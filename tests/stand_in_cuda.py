"""The names of ``torch.cuda`` for :mod:`tests.stand_in_gpu`: what this project asks of a GPU, and CUDA graphs.

Streams and events are names: everything runs in the order of the program. A graph's operations run while they are
captured, so that shapes and devices are checked, and what they wrote is then put back, since a capture computes
nothing. A replay runs them again on the same memory, and moves the generators on. Inside a capture a wait of the host
is refused, and so is a draw from a generator that the graph does not know. **Nothing else is simulated**: no memory of
a graph's own, none that is reused too early, no speed.
"""

import contextlib
import functools
import os
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from tests.stand_in_gpu import GPU, Generator, storage_of, tensors_in

NAME = "stand-in GPU"


def names(gpu: GPU) -> dict[str, Any]:
    """What PyTorch's names stand for inside."""

    def started(value: Any) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            gpu.started = True
            return value

        return ask

    memory = {"allocated": lambda *_: gpu.bytes, "max_allocated": lambda *_: gpu.most_bytes}
    properties = types.SimpleNamespace(
        name=NAME, total_memory=gpu.capacity, major=9, minor=0, multi_processor_count=132, L2_cache_size=50 * 2**20
    )
    cuda = {
        "is_available": started(True),
        "is_initialized": lambda: gpu.started,
        "init": started(None),
        "device_count": started(1),
        "current_device": started(0),
        "set_device": started(None),
        "device": lambda device: contextlib.nullcontext(),
        "get_device_name": started(NAME),
        "get_device_capability": started((9, 0)),
        "get_device_properties": started(properties),
        "is_bf16_supported": started(True),
        "synchronize": lambda device=None: gpu.wait("synchronize"),
        "set_sync_debug_mode": functools.partial(_set_sync_debug_mode, gpu),
        "get_sync_debug_mode": lambda: gpu.sync_debug_mode,
        "memory_allocated": memory["allocated"],
        "memory_reserved": memory["allocated"],
        "max_memory_allocated": memory["max_allocated"],
        "max_memory_reserved": memory["max_allocated"],
        "reset_peak_memory_stats": lambda device=None: setattr(gpu, "most_bytes", gpu.bytes),
        "mem_get_info": lambda device=None: (gpu.capacity - gpu.bytes, gpu.capacity),
        "empty_cache": lambda: None,
        "get_rng_state": lambda device=None: gpu.generator.get_state(),
        "set_rng_state": lambda state, device=None: gpu.generator.set_state(state),
        "manual_seed": lambda seed: gpu.generator.manual_seed(seed),
        "manual_seed_all": lambda seed: gpu.generator.manual_seed(seed),
        "default_generators": (gpu.generator,),
        "Stream": functools.partial(Stream, gpu),
        "Event": functools.partial(Event, gpu),
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: Stream(gpu),
        "default_stream": lambda device=None: Stream(gpu),
        "CUDAGraph": functools.partial(CUDAGraph, gpu),
        "graph": capture,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: gpu.recording is not None,
    }
    return {
        **{f"torch.cuda.{name}": value for name, value in cuda.items()},
        "torch.Generator": Generator,
        "torch.Tensor.pin_memory": lambda tensor, device=None: gpu.pin(tensor.clone()),
        "torch.Tensor.is_pinned": lambda tensor, device=None: gpu.is_pinned(tensor),
        "os.fork": functools.partial(_fork, gpu, os.fork),
        "os.forkpty": functools.partial(_fork, gpu, os.forkpty),
    }


def _fork(gpu: GPU, fork: Callable[[], Any]) -> Any:
    """A child cannot use its parent's CUDA: refused here, before it would be found out in the child."""
    if gpu.started:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
            "'spawn' start method"
        )
    return fork()


def _set_sync_debug_mode(gpu: GPU, mode: int | str) -> None:
    gpu.sync_debug_mode = {"default": 0, "warn": 1, "error": 2}.get(mode, mode)


class Stream:
    """A stream; all of them are one."""

    def __init__(self, gpu: GPU, *args: Any, **kwargs: Any):
        self._gpu = gpu

    def synchronize(self) -> None:
        self._gpu.wait("Stream.synchronize")

    def wait_stream(self, stream: "Stream") -> None:
        pass

    def wait_event(self, event: "Event") -> None:
        pass

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or Event(self._gpu)
        event.record()
        return event

    def query(self) -> bool:
        return True


class Event:
    """A point in time of the processor."""

    def __init__(self, gpu: GPU, *args: Any, **kwargs: Any):
        self._gpu, self._time = gpu, 0.0

    def record(self, stream: Stream | None = None) -> None:
        self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        self._gpu.wait("Event.synchronize")

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        return 1000 * (end._time - self._time)


class CUDAGraph:
    """Operations that are captured once and replayed."""

    def __init__(self, gpu: GPU, keep_graph: bool = False):
        self._gpu, self._calls, self._generators = gpu, [], [gpu.generator]
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._made: set[int] = set()
        self._states: list[Tensor] = []

    def register_generator_state(self, generator: torch.Generator) -> None:
        self._generators.append(generator)

    def check_generator(self, generator: torch.Generator) -> None:
        if generator._cdata not in [known._cdata for known in self._generators]:  # PyTorch wraps it anew
            raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        if self._gpu.recording is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing (capture_begin)")
        self._calls.clear()
        self._gpu.recording, self._states = self, [generator.get_state() for generator in self._generators]

    def capture_end(self) -> None:
        self._gpu.recording = None
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            for storage, content in self._before.values():
                storage.copy_(content)
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)
        self._before.clear()
        self._made.clear()

    def record(self, call: Callable[..., Any], func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation of the GPU, remember it, and what it overwrites."""
        given = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        for argument in func._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in((given.get(argument.name),)):
                    storage = storage_of(tensor)
                    if storage._cdata not in self._made:
                        self._before.setdefault(storage._cdata, (storage, storage.clone()))
        old = {storage_of(tensor)._cdata for tensor in tensors_in((*args, *kwargs.values()))}
        out = call(**kwargs)
        new = [tensor for tensor in tensors_in((out,)) if storage_of(tensor)._cdata not in old]
        self._made |= {storage_of(tensor)._cdata for tensor in new}
        self._calls.append((call, kwargs, old, new))
        return out

    @torch.no_grad()
    def replay(self) -> None:
        if not self._calls:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            for call, kwargs, old, new in self._calls:
                again = [t for t in tensors_in((call(**kwargs),)) if storage_of(t)._cdata not in old]
                for tensor, value in zip(new, again, strict=True):
                    tensor.copy_(value)

    def reset(self) -> None:
        self._calls.clear()

    def pool(self) -> tuple[int, int]:
        return (0, 0)


@contextlib.contextmanager
def capture(graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, **settings: Any) -> Iterator[None]:
    """``torch.cuda.graph``."""
    graph.capture_begin(pool, **settings)
    try:
        yield
    finally:
        graph.capture_end()
