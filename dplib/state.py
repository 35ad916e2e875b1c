"""What a network or a loss keeps between two calls outside of its trained parameters: counts, numbers of examples.

Clipping bounds what an example does to the step that it is in. What a network keeps of it goes into later steps, which
nothing bounds; and code that counts its calls may do later what it does not do in a trial.
"""

import copy
import functools
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dplib.checks import ParameterError
from dplib.examples import Loss

DEEP = 3  # objects within objects in which counts are looked for
FIRST = 100  # entries of a dictionary
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_PLAIN = (bool, int, float, str, type(None))
_WITHIN = (list, tuple, set, frozenset, dict, deque)
_COUNTS = (*_PLAIN, *_WITHIN, Tensor, np.ndarray)  # what is looked at of a function's globals
_LIBRARIES = ("torch.", "numpy.", "builtins", "opacus.", "dplib.")


def copied(net: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
    """Copies of both that share nothing with the originals, where a loss can be copied: functions are what they are.

    Args:
        net: a network, which may be part of the loss.
        loss: outputs and targets to losses.
    """
    try:
        return copy.deepcopy((net, loss))
    except Exception:  # somebody's own object
        return copy.deepcopy(net), loss


def counts(net: nn.Module, loss: Loss) -> dict[str, Any]:
    """Plain numbers that a network and a loss keep in attributes, closures and globals that their functions name, and
    the lengths of lists, by names.

    Args:
        net: a network.
        loss: outputs and targets to losses.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, module in net.named_modules():
        seen.add(id(module))
        for key, value in vars(module).items():
            if key not in _OF_EVERY_MODULE:
                found |= _counts(f"{path}.{key}" if path else key, value, seen, DEEP)
        found |= _counts(f"the code of {path or type(module).__name__}", type(module).forward, seen, DEEP)
    return found | _counts("the loss", loss, seen, DEEP)


def _counts(name: str, value: Any, seen: set[int], deep: int) -> dict[str, Any]:
    if isinstance(value, _PLAIN):
        return {name: value}
    if isinstance(value, itertools.count):
        return {name: repr(value)}
    if isinstance(value, Tensor | np.ndarray):  # of one number it is a count as well
        return {name: value.item()} if not isinstance(value, nn.Parameter) and np.prod(value.shape) == 1 else {}
    if id(value) in seen or deep == 0:
        return {}
    seen.add(id(value))
    found = {f"the length of {name}": len(value)} if isinstance(value, _WITHIN) else {}
    for key, part in _parts(value):
        found |= _counts(f"{name}.{key}", part, seen, deep - 1)
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object consists of; nothing for those of a library."""
    if isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), *((str(i), part) for i, part in enumerate(value.args)))
        yield from value.keywords.items()
    elif isinstance(value, FunctionType):
        for key, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield key, cell.cell_contents
            except ValueError:  # not filled yet
                continue
        if value.__module__ and not value.__module__.startswith(_LIBRARIES):
            named = {key: value.__globals__[key] for key in value.__code__.co_names if key in value.__globals__}
            yield from ((key, part) for key, part in named.items() if isinstance(part, _COUNTS))
    elif isinstance(value, dict):
        yield from ((str(key), part) for key, part in itertools.islice(value.items(), FIRST))
    elif isinstance(value, nn.Module):
        yield from ((key, part) for key, part in vars(value).items() if key not in _OF_EVERY_MODULE)
        yield from value._modules.items()
    elif not type(value).__module__.startswith(_LIBRARIES):
        yield from getattr(value, "__dict__", {}).items()


Print = tuple[int, ...]


def prints(net: nn.Module) -> dict[str, Print]:
    """What tells whether a network's parameters and buffers were written: how often PyTorch saw it, and of those that
    are not trained two sums of their bytes.

    Args:
        net: a network, whose trained parameters an engine moves through a vector of its own.
    """
    trained = {name: (p._version,) for name, p in net.named_parameters() if p.requires_grad}
    rest = {name: p for name, p in (*net.named_parameters(), *net.named_buffers()) if name not in trained}
    return trained | {name: (kept._version, *_sums(kept)) for name, kept in rest.items()}


def _sums(kept: Tensor) -> tuple[int, int]:
    """Of the bytes, and of every other one."""
    octets = kept.detach().flatten().view(torch.uint8)
    return int(octets.sum(dtype=torch.int64)), int(octets[::2].sum(dtype=torch.int64))


def check_unwritten(before: Mapping[str, Print], net: nn.Module) -> None:
    """Refuse a network whose parameters or buffers something else than the engine has written.

    Args:
        before: what :func:`prints` said at first.
        net: the network.

    Raises:
        ParameterError: naming the parameter or buffer.
    """
    for name, print_ in prints(net).items():
        if name in before and before[name] != print_:
            raise ParameterError(
                f"{name} was written by the network's own code in the course of the training, and no noise protects "
                "what it holds."
            )
