"""What somebody else's network or loss raises, as one sentence that names the layer."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from dplib.checks import ParameterError


@contextlib.contextmanager
def named(net: nn.Module) -> Iterator[None]:
    """Inside, an error of the network's code (a width that does not fit, a type, an index) or of what follows it is a
    ParameterError that says in which layer it was, on what shapes; one of memory stays what it is.

    Args:
        net: the network that is called inside.

    Raises:
        ParameterError: for whatever the network's code raises.
    """
    inside: list[str] = []

    def enter(name: str, module: nn.Module, inputs: tuple[Any, ...], named_inputs: dict[str, Any]) -> None:
        given = ", ".join(map(shown, (*inputs, *named_inputs.values())))
        if not name:
            inside.clear()
        inside.append(f"layer {name or type(module).__name__} ({type(module).__name__}) on {given}")

    def leave(*_: Any) -> None:
        if inside:
            inside.pop()

    hooks = []
    for name, module in net.named_modules():
        hooks.append(module.register_forward_pre_hook(partial(enter, name), with_kwargs=True))
        hooks.append(module.register_forward_hook(leave))
    try:
        with in_words(lambda: inside[-1] if inside else "the network or its loss"):
            yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def in_words(where: str | Callable[[], str]) -> Iterator[None]:
    """Inside, whatever a library or somebody's own code raises is a ParameterError that says where; errors of memory
    stay what they are.

    Args:
        where: how the message begins, or what makes it, which is called only where something fails.

    Raises:
        ParameterError: for whatever is raised inside.
    """
    try:
        yield
    except (ParameterError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as problem:
        place = where if isinstance(where, str) else where()
        raise ParameterError(f"{place} fails: {sentence(problem)}") from problem


def shown(value: Any) -> str:
    """What a layer was given or gave, in a few words.

    Args:
        value: a tensor, or anything else.
    """
    return f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def sentence(problem: Exception) -> str:
    """The first line of what an error says, with its type.

    Args:
        problem: the error.
    """
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0][:300]}" if lines else type(problem).__name__


def check_parameters(net: nn.Module) -> None:
    """Refuse what is no network, or one whose inside or numbers cannot be had.

    Args:
        net: a network.

    Raises:
        ParameterError: for a network that is none, is compiled, or whose parameters have no numbers yet, naming the
            first.
    """
    if not isinstance(net, nn.Module):
        raise ParameterError(f"net is a {type(net).__name__}: it must be a torch.nn.Module.")
    if "_modules" not in vars(net):
        raise ParameterError(f"net is a {type(net).__name__} whose __init__ does not call super().__init__().")
    for name, module in net.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ParameterError(
                f"layer {name or type(net).__name__} is compiled by torch.jit, so that its inside cannot be watched: "
                "train the module that it was made of."
            )
    for name, p in (*net.named_parameters(), *net.named_buffers()):
        layer = name.rpartition(".")[0] or type(net).__name__
        if isinstance(p, nn.parameter.UninitializedTensorMixin):
            raise ParameterError(f"layer {layer} is lazy: call the network once on an example before it is trained.")
        if p.is_meta:
            raise ParameterError(f"the network is on meta: layer {layer} has no numbers; build it on a device.")
